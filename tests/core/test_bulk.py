"""The collector rests while much is made, and only then."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pytest_evarness.core.bulk import bulk


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


def test_it_rests_inside_and_works_again_behind() -> None:
    gc.enable()
    with bulk():
        assert not gc.isenabled()
        with bulk():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_works_again_after_an_error() -> None:
    gc.enable()
    with pytest.raises(KeyError), bulk():
        raise KeyError("x")
    assert gc.isenabled()


def test_whoever_switched_it_off_finds_it_off() -> None:
    gc.disable()
    with bulk():
        pass
    assert not gc.isenabled()


def test_as_a_decorator_it_holds_for_each_call() -> None:
    @bulk()
    def is_working() -> bool:
        return gc.isenabled()

    gc.enable()
    assert [is_working(), is_working(), gc.isenabled()] == [False, False, True]
