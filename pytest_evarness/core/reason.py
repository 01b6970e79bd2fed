"""What a node raised, in texts that are the same in both runs; its own code may be odd there too.

Whatever an exception's class does when it is read (no fields, a text that cannot be written) is a
crash of the node that raised it, and never an exception of the kernel.
"""

from __future__ import annotations

import errno
import re
from typing import Any

from pytest_evarness.core.c1 import MAX_INTEGER
from pytest_evarness.core.interfaces import (
    EnvironmentExhausted,
    NodeBlocked,
    RunPaused,
    ServiceDownError,
)
from pytest_evarness.core.stranger import pass_on

__all__ = [
    "CrashError",
    "impersonal",
    "is_of_the_machine",
    "made_plain",
    "message_of",
    "printable",
    "reason_of",
]

_OF_THE_MACHINE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
_UNWRITABLE = "a message that cannot be written"

_ADDRESS = re.compile(r"0x[0-9A-Fa-f]+")
# An absolute path, in quotes (it may then hold spaces) or after a space, a bracket or the like.
# What follows a letter, a dot or a colon is part of something else, such as a URL.
_QUOTED_PATH = re.compile(r"""(["'])(?:/|[A-Za-z]:[\\/]|\\\\)[^"'\n]*\1""")
_PATH = re.compile(
    r"""(?<![\w.:/\\~-])(?:/[^\s"'<>,;:()\[\]{}]+|[A-Za-z]:[\\/][^\s"'<>,;()\[\]{}]+)"""
)


class CrashError(Exception):
    """A node raised what no harness step raises."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def impersonal(text: str) -> str:
    """``text`` without addresses of objects and absolute paths: they differ between two runs."""
    text = _ADDRESS.sub("0x…", text)
    text = _QUOTED_PATH.sub(r"\1<path>\1", text)
    return _PATH.sub("<path>", text)


def printable(text: str) -> str:
    """``text`` as it can be emitted: half of a surrogate pair is written as an escape."""
    # By the method of str itself: the class of a text may have another one.
    return str.encode(text, "utf-8", "backslashreplace").decode("utf-8")


def message_of(value: object) -> str:
    """What a stranger's value says of itself, without what differs between two runs."""
    try:
        return impersonal(printable(str(value)))
    except BaseException as error:  # noqa: BLE001 - the node's own class; its run is what failed
        pass_on(error)
        return _UNWRITABLE


def reason_of(error: BaseException) -> str:
    """Type and message, without what differs between two runs: addresses and absolute paths."""
    message = message_of(error)
    name = printable(type(error).__name__)
    return f"{name}: {message}" if message else name


def is_of_the_machine(error: BaseException) -> bool:
    """Whether this machine ran out of something, which says nothing of the harness."""
    if not isinstance(error, OSError):
        return False
    number = _read(error, "errno", None)
    return isinstance(number, int) and number in _OF_THE_MACHINE


def made_plain(
    error: NodeBlocked | RunPaused | EnvironmentExhausted | ServiceDownError,
) -> NodeBlocked | RunPaused | EnvironmentExhausted | ServiceDownError:
    """The same news with fields that can be emitted.

    Raises:
        CrashError: A field is missing, or is not what the class says it is.
    """
    if isinstance(error, NodeBlocked):
        return NodeBlocked(_text(error, "reason"))
    if isinstance(error, RunPaused):
        return RunPaused(_text(error, "prompt"), _text(error, "preview"))
    if isinstance(error, ServiceDownError):
        return ServiceDownError(_text(error, "service"), _text(error, "why"))
    detail = None if _field(error, "detail") is None else _text(error, "detail")
    return EnvironmentExhausted(
        _text(error, "script"), _count(error, "scripted", 0), _count(error, "call", 1), detail
    )


_MISSING: Any = object()


def _read(error: BaseException, name: str, default: Any) -> Any:
    try:
        return getattr(error, name, default)
    except BaseException as odd:  # noqa: BLE001 - a property of the node's own class
        pass_on(odd)
        return default


def _field(error: BaseException, name: str) -> Any:
    value = _read(error, name, _MISSING)
    if value is _MISSING:
        kind = type(error)
        raise CrashError(
            f"{printable(kind.__name__)}: it was raised without its '{name}'"
            " (does its class call super().__init__?)"
        )
    return value


def _text(error: BaseException, name: str) -> str:
    value = _field(error, name)
    if not isinstance(value, str):
        raise CrashError(_wrong(error, name, "a text", value))
    return printable(value)


def _count(error: BaseException, name: str, least: int) -> int:
    value = _field(error, name)
    if type(value) is not int or not least <= value <= MAX_INTEGER:
        raise CrashError(_wrong(error, name, f"a number from {least}", value))
    return value


def _wrong(error: BaseException, name: str, wanted: str, value: Any) -> str:
    kind = printable(type(error).__name__)
    is_short = type(value) in (float, bool, type(None)) or (
        type(value) is int and abs(value) <= MAX_INTEGER
    )
    got = str(value) if is_short else printable(type(value).__name__)
    return f"{kind}: its '{name}' must be {wanted} (got {got})"
