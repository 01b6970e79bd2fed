"""Items of an overlay's file, such as ``tools.yaml``: one for each test that it holds.

Source: docs/agents.md, "Tests of a manifest".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.plugin.nodes import OurFile
from pytest_evarness.plugin.text import bounded, clean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_evarness.core.interfaces import OverlayTest

__all__ = ["OverlayFile", "OverlayTestItem"]

TEXT_LIMIT = 8000


class OverlayFile(OurFile):
    """An overlay's file: its children are the tests in it, by what they test."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Read the file; nothing runs."""
        from pytest_evarness.errors import InputError

        try:
            tests = self._tests()
        except InputError as error:
            yield self.broken(str(error))
            return
        by_owner: dict[str, list[OverlayTest]] = {}
        for test in tests:
            by_owner.setdefault(test.owner, []).append(test)
        for owner, own in by_owner.items():
            yield OwnerCollector.from_parent(self, name=owner, tests=own)

    def _tests(self) -> list[OverlayTest]:
        from pytest_evarness.core.interfaces import OverlayTestingDomain

        return [
            test
            for _, domain in self.state.engine.registry.domains.items()
            if isinstance(domain, OverlayTestingDomain)
            for test in domain.overlay_tests(self.path, self.nodeid)
        ]


class OwnerCollector(pytest.Collector):
    """What the tests are about, such as one tool."""

    def __init__(self, *, tests: list[OverlayTest], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tests = tests

    def collect(self) -> Iterator[pytest.Item]:
        """One item for each test, in the order of the file."""
        for test in self.tests:
            yield OverlayTestItem.from_parent(self, name=f"test[{test.name}]", test=test)


class OverlayTestFailed(Exception):  # noqa: N818 - shown to nobody
    """Carries the text of a failed test to ``repr_failure``."""


class OverlayTestItem(pytest.Item):
    """One test: what is described does what the test says."""

    def __init__(self, *, test: OverlayTest, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.test = test
        self.payload: dict[str, Any] | None = None
        self.add_marker("evarness")

    def runtest(self) -> None:
        """Raise what is wrong."""
        problem = self.test.problem()
        how, text = "pass", ""
        if problem is not None:
            how = "fail"
            text = f"{problem}\n  until this is put right no case uses what the file describes"
            text = bounded(clean(text), TEXT_LIMIT, whole="no more")
        self.payload = {"how": how, "category": None, "text": text}
        if problem is not None:
            raise OverlayTestFailed(text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A failed test is its own text; everything else is shown in full."""
        if isinstance(excinfo.value, OverlayTestFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """File and line of the test; a dot of an id would end up as ``::`` in the terminal."""
        name = f"{self.test.owner}::{self.name}".replace(".", "-")
        return self.path, max(self.test.line - 1, 0), name
