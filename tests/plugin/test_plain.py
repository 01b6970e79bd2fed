"""Modules of this package are imported as they are, not rewritten for their asserts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from pytest_evarness.plugin import plain
from tests.plugin.scenarios import echo

if TYPE_CHECKING:
    from tests.plugin.ran import Session

LOADERS = (
    "import sys\n"
    "def pytest_unconfigure():\n"
    "    name = 'pytest_evarness.pipeline'\n"
    "    print('loader:', type(sys.modules[name].__spec__.loader).__name__)\n"
)


@pytest.mark.slow
def test_a_session_loads_our_modules_without_rewriting(session: Session) -> None:
    ran = session(
        "-p",
        "evarness",
        "-s",
        subprocess=True,
        files={
            "scenarios/a.yaml": echo(),
            "conftest.py": LOADERS,
        },
    )
    assert ran.code == 0, ran.text
    assert "loader: SourceFileLoader" in ran.text


def test_the_finder_answers_for_this_package_alone() -> None:
    package = sys.modules["pytest_evarness"].__path__
    found = plain.PlainFinder.find_spec("pytest_evarness.pipeline", list(package))
    assert found is not None
    assert type(found.loader).__name__ == "SourceFileLoader"
    assert plain.PlainFinder.find_spec("json") is None
    assert plain.PlainFinder.find_spec("pytest_evarness_other") is None


def test_installing_twice_leaves_one_and_removing_leaves_none() -> None:
    before = list(sys.meta_path)
    try:
        plain.install()
        plain.install()
        assert sys.meta_path.count(plain.PlainFinder) == 1
        assert sys.meta_path[0] is plain.PlainFinder
        plain.remove()
        assert plain.PlainFinder not in sys.meta_path
    finally:
        sys.meta_path[:] = before
