"""Settings that all code of a process shares are put back when a user's own code is over."""

from __future__ import annotations

import builtins
import decimal
import gc
import locale
import logging
import os
import random
import socket
import sqlite3
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_evarness.core.interpreter import own_builtins, restore_settings, settings
from pytest_evarness.core.restore import Restored
from pytest_evarness.core.warned import same_warnings


class Own:
    """Something to adapt."""


def change_builtins() -> None:
    vars(builtins)["evarness_test_mark"] = 1
    vars(builtins)["len"] = lambda value: 7
    del vars(builtins)["oct"]


def change_logging() -> None:
    logging.getLogger().setLevel(1)
    logging.getLogger().addHandler(logging.NullHandler())
    logging.disable(logging.CRITICAL)


def change_zone() -> None:
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()


def umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _locale() -> str:
    return locale.setlocale(locale.LC_ALL)


CHANGES: dict[str, tuple[Callable[[], object], Callable[[], Any]]] = {
    "limit": (
        lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 17),
        sys.getrecursionlimit,
    ),
    "switch": (lambda: sys.setswitchinterval(0.25), sys.getswitchinterval),
    "digits": (lambda: sys.set_int_max_str_digits(0), sys.get_int_max_str_digits),
    "excepthook": (
        lambda: setattr(sys, "excepthook", lambda *_: None),
        lambda: sys.excepthook,
    ),
    "threads": (
        lambda: setattr(threading, "excepthook", lambda *_: None),
        lambda: threading.excepthook,
    ),
    "path": (lambda: sys.path.insert(0, "/evarness-test"), lambda: list(sys.path)),
    "finders": (lambda: sys.meta_path.append(Own()), lambda: list(sys.meta_path)),  # type: ignore[arg-type]
    "gc": (gc.disable, gc.isenabled),
    "thresholds": (lambda: gc.set_threshold(7, 7, 7), gc.get_threshold),
    "umask": (lambda: os.umask(0o077), umask),
    "zone": (change_zone, lambda: (time.tzname, time.timezone)),
    "locale": (lambda: locale.setlocale(locale.LC_ALL, "C.UTF-8"), _locale),
    "decimals": (
        lambda: setattr(decimal.getcontext(), "prec", 3),
        lambda: decimal.getcontext().prec,
    ),
    "logging": (
        change_logging,
        lambda: (
            logging.getLogger().level,
            list(logging.getLogger().handlers),
            logging.getLogger().manager.disable,
        ),
    ),
    "random": (lambda: random.seed(5), random.getstate),
    "timeout": (lambda: socket.setdefaulttimeout(0.5), socket.getdefaulttimeout),
    "adapters": (
        lambda: sqlite3.register_adapter(Own, lambda one: "own"),
        lambda: dict(sqlite3.adapters),
    ),
    "converters": (
        lambda: sqlite3.register_converter("own", lambda data: data),
        lambda: dict(sqlite3.converters),
    ),
}


@pytest.fixture
def own_locale() -> Iterator[None]:
    """What a test makes of the locale is none of the next one's."""
    before = locale.setlocale(locale.LC_ALL)
    yield
    locale.setlocale(locale.LC_ALL, before)


@pytest.mark.usefixtures("own_locale")
@pytest.mark.parametrize("what", CHANGES)
def test_each_setting_is_put_back(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    change, look = CHANGES[what]
    if what == "locale":
        locale.setlocale(locale.LC_ALL, "C")
    before = look()
    with Restored("case x"):
        change()
        seen = look()
    after = look()
    assert after == before
    # The twin: the change was there.
    assert seen != before


def test_what_nobody_changed_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    before = settings()
    monkeypatch.setattr(sys, "setswitchinterval", None)
    restore_settings(before)
    assert sys.setswitchinterval is None


def test_built_in_names_are_put_back_whatever_became_of_them() -> None:
    before = dict(vars(builtins))
    seen = []

    def leave() -> None:
        change_builtins()
        seen.append(len("ab"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), own_builtins():
        leave()
    assert vars(builtins) == before
    # The twin: they were others.
    assert seen == [7]


def test_values_are_not_asked_whether_they_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Equal:
        def __eq__(self, other: object) -> bool:
            raise AssertionError

        __hash__ = None  # type: ignore[assignment]

    monkeypatch.setattr(sys, "path", [*sys.path, Equal()])
    count = len(sys.path)
    before = settings()
    sys.path.append("/evarness-test")
    restore_settings(before)
    assert len(sys.path) == count


def test_a_warning_is_shown_and_no_error_whatever_the_filters() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("error")
        with same_warnings():
            for _ in range(2):
                warnings.warn("said", UserWarning, stacklevel=1)
            warnings.warn("not closed", ResourceWarning, stacklevel=1)
            # What a node wants for itself ends with it.
            warnings.simplefilter("ignore")
        # The twin: outside it is an error again.
        with pytest.raises(UserWarning):
            warnings.warn("said", UserWarning, stacklevel=1)
    assert [str(one.message) for one in seen] == ["said", "said"]
