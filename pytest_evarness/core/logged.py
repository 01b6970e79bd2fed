"""What a node logs while it runs, without secrets, by whatever handlers the process has.

Records stay what they are, for whoever looks at them; the text that a handler makes of one is
masked. That is what reaches a terminal while the run still goes on, such as with pytest's
``log_cli``, a log file, or a handler that kept the real stream.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_evarness.core.secret import Masker

__all__ = ["logged_without_secrets"]


@contextmanager
def logged_without_secrets(masker: Masker) -> Iterator[None]:
    """Every form of a secret is replaced in what the handlers there are now write.

    A handler that is made meanwhile writes to standard streams that are masked themselves. One that
    formats nothing, and hands records on, is none of ours.
    """
    handlers = _handlers() if masker else []
    veiled = [(handler, _Veiled(handler, masker)) for handler in handlers]
    for handler, formatter in veiled:
        handler.formatter = formatter
    try:
        yield
    finally:
        for handler, formatter in veiled:
            # One that a node has set itself stays: whoever lent this process puts that back.
            if handler.formatter is formatter:
                handler.formatter = formatter.before


class _Veiled:
    """The formatter that a handler had, with what it gives masked."""

    def __init__(self, handler: Any, masker: Masker) -> None:
        self.before = handler.formatter
        self._plain = self.before or sys.modules["logging"].Formatter()
        self._masker = masker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def format(self, record: Any) -> str:
        """The record as text."""
        return self._masker.text(self._plain.format(record))


def _handlers() -> list[Any]:
    """Every handler of every logger, once; none where nobody has imported ``logging``."""
    logging: Any = sys.modules.get("logging")
    if logging is None:
        return []
    root = logging.getLogger()
    loggers = [root, *list(root.manager.loggerDict.values())]
    found = {
        id(handler): handler for one in loggers for handler in tuple(getattr(one, "handlers", ()))
    }
    return list(found.values())
