"""Servers: those that come late, never, or are gone; what is left, and what is never shown."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

import pytest

from pytest_evarness.core.interfaces import ServiceDownError
from pytest_evarness.world.service import QueryError
from pytest_evarness.world.sql import server as module
from pytest_evarness.world.sql.base import DownError
from pytest_evarness.world.sql.mysql import MysqlDatabase
from pytest_evarness.world.sql.postgres import PostgresDatabase
from tests.world.sql.engines import SERVERS, Opener, dsn_of, rows_of

servers = pytest.mark.parametrize("kind", SERVERS)

READY = {
    "postgres": "SELECT pg_sleep(0.5); CREATE TABLE ready (a INTEGER);",
    "mysql": "DO sleep(0.5); CREATE TABLE ready (a INTEGER);",
}


@pytest.fixture(autouse=True)
def _as_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test learned about a server, the next one does not know."""
    monkeypatch.setattr(module, "_unreachable", set())
    monkeypatch.setattr(module, "_swept", set())


class Gate:
    """Stands before a real server: it turns away the first who come, then lets all through."""

    def __init__(self, kind: str, refusals: int = 0, *, is_listening: bool = True) -> None:
        self._parts = urlsplit(dsn_of(kind))
        self._target = (
            self._parts.hostname or "127.0.0.1",
            self._parts.port or {"postgres": 5432, "mysql": 3306}[kind],
        )
        self._left = refusals
        self.turned_away = 0
        self._listener = socket.socket()
        # The port is taken at once; without listen() nobody gets in.
        self._listener.bind(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        if is_listening:
            self.listen()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.shut()
        for thread in self._threads:
            thread.join()
        for one in (self._listener, *self._open):
            one.close()

    @property
    def dsn(self) -> str:
        user = self._parts.netloc.rpartition("@")[0]
        port = self._listener.getsockname()[1]
        return urlunsplit(self._parts._replace(netloc=f"{user}@127.0.0.1:{port}"))

    def listen(self) -> None:
        self._listener.listen()
        self._start(self._serve)

    def _start(self, target: Callable[..., None], *words: Any) -> None:
        thread = threading.Thread(target=target, args=words, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._left > 0:
                self._left -= 1
                self.turned_away += 1
                client.close()
                continue
            target = socket.create_connection(self._target)
            self._open += [client, target]
            self._start(_pass_on, client, target)
            self._start(_pass_on, target, client)

    def shut(self) -> None:
        """As a server that is killed: whoever is connected is cut off, nobody else gets in."""
        for one in (self._listener, *self._open):
            _end(one)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    finally:
        _end(source)
        _end(target)


def _end(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


@servers
def test_init_may_take_its_time(kind: str, open_database: Opener) -> None:
    database = open_database(kind, READY[kind], start_seconds=20)
    assert database.problem is None
    assert rows_of(database, "SELECT count(*) FROM ready") == [(0,)]


@servers
def test_but_no_more_than_its_limit(kind: str, open_database: Opener) -> None:
    init = READY[kind].replace("0.5", "60")
    database = open_database(kind, init, start_seconds=1)
    assert database.problem is not None
    assert database.problem.endswith(": no end within the start limit of 1 s")
    assert database.problem.startswith("init, line 1, ")


@servers
def test_a_server_that_is_not_ready_yet_is_waited_for(kind: str, open_database: Opener) -> None:
    with Gate(kind, refusals=3) as gate:
        database = open_database(kind, "CREATE TABLE ready (a INTEGER)", dsn=gate.dsn)
        assert database.problem is None
        assert gate.turned_away == 3
        assert rows_of(database, "SELECT count(*) FROM ready") == [(0,)]
        database.close()


@servers
def test_a_port_on_which_nobody_listens_yet_is_waited_for(
    kind: str, open_database: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Gate(kind, is_listening=False) as gate:
        waited: list[float] = []

        class Time:
            """Whoever has asked in vain three times finds somebody."""

            monotonic = staticmethod(time.monotonic)

            @staticmethod
            def sleep(seconds: float) -> None:
                waited.append(seconds)
                if len(waited) == 3:
                    gate.listen()

        monkeypatch.setattr(module, "time", Time)
        database = open_database(kind, dsn=gate.dsn)
        assert database.problem is None
        assert len(waited) == 3
        database.close()


@contextmanager
def silent() -> Iterator[int]:
    """A server that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@contextmanager
def nobody() -> Iterator[int]:
    """A port that is taken, so that nobody else comes to listen on it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextmanager
def babbling() -> Iterator[int]:
    """A server of something else."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    client.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        _end(listener)
        thread.join()


@servers
@pytest.mark.parametrize("somebody", [silent, nobody, babbling])
def test_one_that_never_comes_up_is_told_with_its_last_words(
    kind: str, somebody: Callable[[], Any], open_database: Opener
) -> None:
    scheme = {"postgres": "postgresql", "mysql": "mysql"}[kind]
    with somebody() as port:
        dsn = f"{scheme}://u@127.0.0.1:{port}/d"
        database = open_database(kind, dsn=dsn, start_seconds=1.2)
        assert database.problem is not None
        limit = "no answer within 1.2 s: "
        # What speaks something else may be told at once.
        assert database.problem.startswith(limit) or somebody is babbling
        assert len(database.problem.removeprefix(limit)) > 10
        assert database.snapshot() == {"type": kind, "down": True}
        # Who comes next is not made to wait again.
        again = open_database(kind, dsn=dsn, start_seconds=3000)
        assert again.problem is not None


@servers
def test_one_that_refuses_is_not_asked_again(
    kind: str, open_database: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn_of(kind)
    parts = urlsplit(dsn_of(kind))
    name = "evarness_no_such_database"
    monkeypatch.setattr(module, "_AGAIN_SECONDS", None)
    database = open_database(kind, dsn=urlunsplit(parts._replace(path=f"/{name}")))
    assert database.problem is not None
    assert name in database.problem


@servers
def test_a_server_that_dies_is_told_and_harms_nobody_else(kind: str, open_database: Opener) -> None:
    other = open_database(kind, "CREATE TABLE t (a INTEGER)")
    with Gate(kind) as gate:
        sealed = open_database(kind, "CREATE TABLE t (a INTEGER)", dsn=gate.dsn)
        running = open_database(kind, "CREATE TABLE t (a INTEGER)", dsn=gate.dsn)
        sealed.seal()
        assert (sealed.problem, running.problem) == (None, None)
        gate.shut()
        with pytest.raises(QueryError) as query:
            sealed.query("SELECT 1", seconds=5.0, max_rows=1)
        assert query.value.reason
        with pytest.raises(ServiceDownError) as effect:
            running.execute("INSERT INTO t VALUES (1)", [])
        assert running.problem == effect.value.why
        assert running.snapshot() == {"type": kind, "down": True}
        sealed.close()
    assert rows_of(other, "SELECT count(*) FROM t") == [(0,)]


@servers
def test_what_a_variable_holds_is_never_shown(
    kind: str, open_database: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme = {"postgres": "postgresql", "mysql": "mysql"}[kind]
    with nobody() as port:
        dsn = f"{scheme}://somebody:hunter22@127.0.0.1:{port}/hidden_base"
        monkeypatch.setenv("THE_DSN", dsn)
        database = open_database(kind, dsn={"env": "THE_DSN"}, start_seconds=0.5)
    assert database.problem is not None
    for part in ("somebody", "hunter22", "127.0.0.1", str(port), "hidden_base"):
        assert part not in database.problem
    assert "THE_DSN" in database.problem


@servers
def test_a_variable_that_is_not_set_or_holds_no_dsn_is_named(
    kind: str, open_database: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("THE_DSN", raising=False)
    database = open_database(kind, dsn={"env": "THE_DSN"})
    assert database.problem == ("the environment variable THE_DSN is not set; it names the server")
    monkeypatch.setenv("THE_DSN", "redis://secret-host")
    database = open_database(kind, dsn={"env": "THE_DSN"})
    assert database.problem is not None
    assert database.problem.startswith("the server that THE_DSN names has a scheme of another kind")
    assert "secret-host" not in database.problem


@servers
def test_the_variable_is_taken_from_the_case_s_secrets(kind: str, open_database: Opener) -> None:
    database = open_database(
        kind,
        dsn={"env": "NOT_IN_THE_ENVIRONMENT"},
        secrets={"NOT_IN_THE_ENVIRONMENT": dsn_of(kind)},
    )
    assert database.problem is None


@servers
def test_the_run_has_an_account_of_its_own(kind: str, open_database: Opener) -> None:
    database = open_database(kind, "CREATE TABLE t (a INTEGER)")
    address: Any = database.address
    assert module.RUN_NAME.match(address["user"])
    assert address["password"]
    other = open_database(kind, "CREATE TABLE t (a INTEGER)")
    with pytest.raises(Exception, match=r"(?i)denied"):
        _connect(kind, {**address, "database": other.address["database"]}).close()


def _connect(kind: str, address: dict[str, Any]) -> Any:
    if kind == "postgres":
        import psycopg

        words = {name: address[name] for name in ("host", "port", "user", "password")}
        return psycopg.connect(dbname=address["database"], autocommit=True, **words)
    import pymysql

    return pymysql.connect(autocommit=True, **address)


@servers
def test_without_the_right_to_make_accounts_that_of_the_dsn_does_it(
    kind: str, open_database: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "postgres":
        true = PostgresDatabase._connect

        def refuse(self: Any, info: Any, **more: Any) -> Any:
            # As a server does whose rules know no such account.
            if module.RUN_NAME.match(info.get("user") or ""):
                raise DownError("no entry for it")
            return true(self, info, **more)

        monkeypatch.setattr(PostgresDatabase, "_connect", refuse)
    else:
        monkeypatch.setattr(MysqlDatabase, "_make_account", lambda self, name: False)
    database = open_database(kind, "CREATE TABLE t (a INTEGER)")
    assert database.problem is None
    assert "password" not in database.address
    assert database.execute("INSERT INTO t VALUES (1)", []).tables == ("t",)
    database.seal()
    assert rows_of(database, "SELECT a FROM t") == [(1,)]
    with database.copy() as address:
        assert address["database"] != database.address["database"]


_KILLED = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.world.sql.engines import opener
with opener(Path({folder!r}), Path({folder!r})) as make:
    database = make({kind!r}, "CREATE TABLE t (a INTEGER)")
    print(json.dumps(dict(database.address)), flush=True)
    sys.stdin.read()
"""


@servers
def test_what_a_killed_session_left_is_swept_and_nothing_else(
    kind: str, open_database: Opener, tmp_path: Path
) -> None:
    dsn_of(kind)
    folder = tmp_path / "killed"
    folder.mkdir()
    code = _KILLED.format(root=str(Path(__file__).parents[3]), folder=str(folder), kind=kind)
    alive = open_database(kind, "CREATE TABLE t (a INTEGER)")
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        left = json.loads(process.stdout.readline())["database"]
        os.kill(process.pid, signal.SIGKILL)
    module._swept.clear()
    found = _until(lambda: _names(kind, open_database), lambda names: left not in names)
    assert left not in found
    assert alive.address["database"] in found
    assert rows_of(alive, "SELECT count(*) FROM t") == [(0,)]


def _names(kind: str, open_database: Opener) -> set[str]:
    """All databases that a new one sees once it has swept."""
    module._swept.clear()
    database: Any = open_database(kind)
    assert database.problem is None
    query = "SELECT datname FROM pg_database" if kind == "postgres" else "SHOW DATABASES"
    cursor = database._admin.cursor()
    cursor.execute(query)
    return {row[0] for row in cursor.fetchall()}


def _until(look: Callable[[], set[str]], fits: Callable[[set[str]], bool]) -> set[str]:
    """A server needs a moment to notice that a client was killed."""
    found: set[str] = set()
    for _ in range(100):
        found = look()
        if fits(found):
            break
    return found


def test_a_missing_driver_is_named_with_what_to_install(
    open_database: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, driver in (("postgres", "psycopg"), ("mysql", "pymysql")):
        monkeypatch.setitem(sys.modules, driver, None)
        scheme = {"postgres": "postgresql", "mysql": "mysql"}[kind]
        database = open_database(kind, dsn=f"{scheme}://u@127.0.0.1/d")
        assert database.problem is not None
        assert f"pip install 'pytest-evarness[{kind}]'" in database.problem
