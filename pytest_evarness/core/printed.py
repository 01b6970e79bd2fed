"""What a node prints while it runs: the standard streams of this process, without secrets.

Nothing printed is evidence. It is shown all the same, by pytest and by whoever reads its reports.
Printing never fails: what a stream cannot hold is written as escapes, so that a run does not depend
on where its output goes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pytest_evarness.core.secret import Masker

__all__ = ["printed_without_secrets"]

_STREAMS = ("stdout", "stderr")


@contextmanager
def printed_without_secrets(masker: Masker) -> Iterator[None]:
    """Every form of a secret that is written to ``sys.stdout`` or ``sys.stderr`` is replaced.

    What could be the beginning of one is held back until more comes, at the latest until the end.
    What is no text, or none that the stream can hold, is escaped.
    Descriptors are not watched: what another program writes to them is none of ours.
    """
    before = {name: getattr(sys, name) for name in _STREAMS}
    veiled = {
        name: _Veiled(stream, masker) for name, stream in before.items() if stream is not None
    }
    for name, stream in veiled.items():
        setattr(sys, name, stream)
    try:
        yield
    finally:
        for name, stream in veiled.items():
            stream.end()
            # A stream of the node's own stays: whoever lent this process puts that back.
            if getattr(sys, name) is stream:
                setattr(sys, name, before[name])


class _Veiled:
    """A text stream that masks what is written to it."""

    def __init__(self, stream: Any, masker: Masker) -> None:
        self._stream = stream
        self._masker = masker
        self._held = ""
        self._is_over = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def buffer(self) -> Any:
        """Bytes are masked as the text that they are; without secrets they are nobody's."""
        return _VeiledBytes(self) if self._masker else self._stream.buffer

    def write(self, text: str) -> int:
        """Pass on what is settled."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self._is_over:
            # A thread that outlived its node.
            self._show(self._masker.text(text))
            return len(text)
        shown, self._held = self._masker.settled(self._held + text)
        if shown:
            self._show(shown)
        return len(text)

    def _show(self, text: str) -> None:
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            encoding = getattr(self._stream, "encoding", None) or "utf-8"
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    def close(self) -> None:
        """Flush; the stream belongs to somebody else."""
        self._stream.flush()

    def end(self) -> None:
        """Nothing more is to come."""
        self._is_over = True
        if self._held:
            self._show(self._masker.text(self._held))
            self._held = ""


class _VeiledBytes:
    """The bytes beneath a :class:`_Veiled`."""

    def __init__(self, text: _Veiled) -> None:
        self._text = text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._text, name)

    def write(self, data: bytes) -> int:
        """Written as text; what is no UTF-8 as escapes."""
        self._text.write(bytes(data).decode("utf-8", "backslashreplace"))
        return len(data)
