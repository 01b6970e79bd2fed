"""Settings that all code of a process shares and that a node may have changed.

Each has a way to look at it and a way to put it back. What belongs to a module that nobody has
loaded yet has nothing to put back to; ``sqlite3`` and ``locale`` are loaded for that reason.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

__all__ = ["own_builtins", "restore_settings", "settings"]

_BUILTINS = vars(builtins)

_Look: TypeAlias = Callable[[], Any]
_Put: TypeAlias = Callable[[Any], object]


@contextmanager
def own_builtins() -> Iterator[None]:
    """What a node makes of the built-in names ends with it: the kernel itself uses them."""
    before = _BUILTINS.copy()
    try:
        yield
    finally:
        # First with nothing that is one of them.
        _BUILTINS.update(before)
        _fill(_BUILTINS, before)


def settings() -> list[Any]:
    """How everything is set at the moment."""
    return [look() for look, _ in _SETTINGS]


def restore_settings(before: list[Any]) -> None:
    """Put back whatever is not as it was."""
    for (look, put), value in zip(_SETTINGS, before, strict=True):
        if not _is_same(look(), value):
            with contextlib.suppress(Exception):
                put(value)


def _is_same(one: Any, other: Any) -> bool:
    """Without asking the values of a mapping or a list, which may answer anything."""
    if isinstance(one, dict) and isinstance(other, dict):
        nothing = object()
        return len(one) == len(other) and all(
            other.get(key, nothing) is value for key, value in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is, one, other))
    return bool(one is other or (type(one) is type(other) and one == other))


def _is(one: object, other: object) -> bool:
    return one is other


def _fill(target: dict[Any, Any], value: Mapping[Any, Any]) -> None:
    target.update(value)
    for key in [key for key in target if key not in value]:
        del target[key]


# -- modules, where they are loaded ---------------------------------------------------------------


def _attribute(module: str, name: str) -> tuple[_Look, _Put]:
    def look() -> Any:
        return getattr(sys.modules.get(module), name, None)

    def put(value: Any) -> None:
        setattr(sys.modules[module], name, value)

    return look, put


def _called(module: str, look_name: str, put_name: str) -> tuple[_Look, _Put]:
    def look() -> Any:
        function = getattr(sys.modules.get(module), look_name, None)
        return None if function is None else function()

    def put(value: Any) -> None:
        getattr(sys.modules[module], put_name)(value)

    return look, put


def _table(module: str, name: str) -> tuple[_Look, _Put]:
    """A mapping of a module that is changed in place."""

    def look() -> dict[Any, Any]:
        return dict(getattr(importlib.import_module(module), name))

    def put(value: dict[Any, Any]) -> None:
        _fill(getattr(importlib.import_module(module), name), value)

    return look, put


def _path() -> list[str]:
    return list(sys.path)


def _put_path(value: list[str]) -> None:
    sys.path[:] = value


def _locale() -> str:
    import locale

    return locale.setlocale(locale.LC_ALL)


def _put_locale(value: str) -> None:
    import locale

    locale.setlocale(locale.LC_ALL, value)


def _decimals() -> Any:
    """A copy: whoever changes the context changes the object that is in force."""
    decimal: Any = sys.modules.get("decimal")
    return None if decimal is None else _Decimals(decimal.getcontext().copy())


class _Decimals:
    """Contexts are equal where they calculate alike; they have no comparison of their own."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Decimals) and repr(self.context) == repr(other.context)

    __hash__ = None  # type: ignore[assignment]


def _put_decimals(value: _Decimals | None) -> None:
    if value is not None:
        sys.modules["decimal"].setcontext(value.context)


def _logging() -> Any:
    logging: Any = sys.modules.get("logging")
    if logging is None:
        return None
    root = logging.getLogger()
    return root.level, tuple(root.handlers), root.manager.disable, logging.raiseExceptions


def _put_logging(value: Any) -> None:
    if value is None:
        return
    logging: Any = sys.modules["logging"]
    root = logging.getLogger()
    root.setLevel(value[0])
    root.handlers[:] = value[1]
    root.manager.disable = value[2]
    logging.raiseExceptions = value[3]


def _set_gc(is_on: bool) -> None:
    (gc.enable if is_on else gc.disable)()


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


_SETTINGS: tuple[tuple[_Look, _Put], ...] = (
    (sys.getswitchinterval, sys.setswitchinterval),
    _called("sys", "get_int_max_str_digits", "set_int_max_str_digits"),
    _attribute("sys", "excepthook"),
    _attribute("sys", "unraisablehook"),
    _attribute("sys", "displayhook"),
    _attribute("sys", "breakpointhook"),
    _attribute("sys", "dont_write_bytecode"),
    (lambda: list(sys.meta_path), lambda value: sys.meta_path.__setitem__(slice(None), value)),
    (_path, _put_path),
    _attribute("threading", "excepthook"),
    (threading.stack_size, threading.stack_size),
    (gc.isenabled, _set_gc),
    (gc.get_threshold, lambda value: gc.set_threshold(*value)),
    (_umask, os.umask),
    (_locale, _put_locale),
    (_decimals, _put_decimals),
    (_logging, _put_logging),
    _called("random", "getstate", "setstate"),
    _called("_socket", "getdefaulttimeout", "setdefaulttimeout"),
    _table("sqlite3", "adapters"),
    _table("sqlite3", "converters"),
)
