"""The three kinds of databases for tests: SQLite always, servers where somebody listens.

``EVARNESS_TEST_POSTGRES_DSN`` and ``EVARNESS_TEST_MYSQL_DSN`` name the servers; without them the
usual ports of this machine are tried. ``EVARNESS_REQUIRE_SERVERS=1`` turns a missing server from a
skipped test into a failed one, ``EVARNESS_REQUIRE_WHEEL=1`` a missing PostgreSQL of the extra.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

# Imported for good: a session inside a test forgets what it imported first, and a driver that is
# imported twice has two kinds of errors.
import psycopg
import pymysql
import pytest

from pytest_evarness.core.interfaces import WorldHost
from pytest_evarness.world.service import ServiceSetting
from pytest_evarness.world.sql.embedded import binaries
from pytest_evarness.world.sql.mysql import MysqlType
from pytest_evarness.world.sql.postgres import PostgresType
from pytest_evarness.world.sql.sqlite import SqliteType

if TYPE_CHECKING:
    from pytest_evarness.world.sql.base import Database

__all__ = ["ENGINES", "SERVERS", "Opener", "dsn_of", "need_wheel", "opener", "rows_of"]

DRIVERS = (psycopg, pymysql)

_DEFAULTS = {
    "postgres": ("EVARNESS_TEST_POSTGRES_DSN", "postgresql://postgres@127.0.0.1:5432/postgres"),
    "mysql": ("EVARNESS_TEST_MYSQL_DSN", "mysql://root@127.0.0.1:3306/test"),
}
_TYPES: dict[str, Any] = {
    "sqlite": SqliteType(),
    "postgres": PostgresType(),
    "mysql": MysqlType(),
}

SERVERS = [
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("mysql", marks=pytest.mark.mysql),
]
ENGINES = ["sqlite", *SERVERS]


def _missing(variable: str, what: str) -> None:
    if os.environ.get(variable) == "1":
        pytest.fail(f"{variable}=1, and {what}")
    pytest.skip(what)


def dsn_of(kind: str) -> str:
    """The server to test with; the test is skipped where nobody listens."""
    variable, default = _DEFAULTS[kind]
    dsn = os.environ.get(variable, default)
    parts = urlsplit(dsn)
    address = (parts.hostname or "127.0.0.1", parts.port or {"postgres": 5432, "mysql": 3306}[kind])
    try:
        socket.create_connection(address, timeout=5).close()
    except OSError as error:
        told = f"no {kind} server answers ({error.strerror or error}); {variable} names one"
        _missing("EVARNESS_REQUIRE_SERVERS", told)
    return dsn


def need_wheel() -> None:
    """Skip where the PostgreSQL of the extra is not installed."""
    if binaries() is None:
        _missing("EVARNESS_REQUIRE_WHEEL", "the extra 'postgres' is not installed")


class Opener(Protocol):
    """Makes databases that are gone when the test ends."""

    def __call__(self, kind: str, init: str = "", **config: Any) -> Database: ...


@contextlib.contextmanager
def opener(folder: Path, host: Path) -> Iterator[Opener]:
    """``open(kind, init, **config)``: a started database, up or down."""
    made: list[Database] = []
    numbers = itertools.count()

    def make(kind: str, init: str = "", **config: Any) -> Database:
        secrets = config.pop("secrets", {})
        written: dict[str, Any] = {"type": kind, "init": init, **config}
        if kind != "sqlite" and "dsn" not in config:
            written["dsn"] = dsn_of(kind)
        if written.get("dsn") == "wheel":
            del written["dsn"]
        parsed, faults = _TYPES[kind].parse(written)
        assert not faults, faults
        own = folder / f"service-{next(numbers)}"
        own.mkdir()
        setting = ServiceSetting("db", parsed, own, WorldHost("tests", str(host)), secrets)
        database: Database = _TYPES[kind].make(setting)
        made.append(database)
        database.start()
        return database

    try:
        yield make
    finally:
        for database in made:
            database.close()


def rows_of(database: Database, query: str, params: Any = ()) -> list[tuple[Any, ...]]:
    """All rows of a query on the sealed database."""
    database.seal()
    return list(database.query(query, params, seconds=20.0, max_rows=1000).rows)
