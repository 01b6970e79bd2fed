"""Places to install into."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extension.installing import Site


def made(folder: Path) -> Site:
    for name in ("site", "project"):
        (folder / name).mkdir()
    return Site(folder / "site", folder / "project")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A place of one test's own."""
    return made(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A place for all tests of a module that only look at one session."""
    return made(tmp_path_factory.mktemp("shared"))
