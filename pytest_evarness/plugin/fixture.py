"""The fixture ``evarness``: scenarios inside ordinary tests."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.api import Runner

if TYPE_CHECKING:
    from types import TracebackType

    import pytest

    from pytest_evarness.api import Result

__all__ = ["EvarnessFixture"]


class EvarnessFixture(AbstractContextManager["EvarnessFixture"]):
    """Runs scenarios with the session's options; such runs never enter the session's bundle."""

    def __init__(self, config: pytest.Config) -> None:
        from pytest_evarness.plugin.ending import watch
        from pytest_evarness.plugin.state import engine_settings

        watch(config)
        self._root = config.rootpath
        self._runner = Runner(engine_settings(config))

    def run(self, scenario: str | Path | Mapping[str, Any], case: str | None = None) -> Result:
        """Run one case of a scenario file, or of an inline mapping.

        Args:
            scenario: A path, relative to the root directory, or the mapping a file would hold.
            case: Its id; may be left out where there is only one.

        Raises:
            InputError: The scenario cannot be used as it stands, or has no such case.
        """
        if isinstance(scenario, Mapping):
            return self._runner.run(scenario, case)
        return self._runner.run(self._root / scenario, case)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._runner.close()
