"""Databases for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.world.sql.engines import Opener, opener


@pytest.fixture(scope="session")
def host_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a session shares: one server from a wheel, if any test asks for it."""
    return tmp_path_factory.mktemp("host")


@pytest.fixture
def open_database(tmp_path: Path, host_folder: Path) -> Iterator[Opener]:
    """``open_database(kind, init, **config)``."""
    with opener(tmp_path, host_folder) as make:
        yield make
