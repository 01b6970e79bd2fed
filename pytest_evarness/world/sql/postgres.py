"""PostgreSQL: a fresh database on a server, with an owner that can reach nothing else there.

The server is the one of ``dsn``, else the session's own from a wheel.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.world.service import EffectFailedError, QueryError, QueryResult, SqlChange
from pytest_evarness.world.sql import catalog
from pytest_evarness.world.sql.base import (
    EFFECT_SECONDS,
    ChangedError,
    DownError,
    Rows,
)
from pytest_evarness.world.sql.catalog import label, quoted
from pytest_evarness.world.sql.part import State, changed_owners
from pytest_evarness.world.sql.server import (
    RUN_NAME,
    NotYetError,
    ServerDatabase,
    ServerType,
    new_name,
)
from pytest_evarness.world.sql.table import Table, read_table
from pytest_evarness.world.sql.text import Dialect, Params, bind, first_word
from pytest_evarness.world.sql.value import moment

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json
    from pytest_evarness.world.service import ServiceSetting

__all__ = ["PostgresDatabase", "PostgresType"]

_ADVICE: Final = "pip install 'pytest-evarness[postgres]'"
_FETCH: Final = 500
_GONE_SECONDS: Final = 10.0

# What a reader could not tell apart otherwise depends on the server's or the user's settings.
_SETTINGS: Final = """
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
SET intervalstyle = 'iso_8601';
SET extra_float_digits = 1;
SET bytea_output = 'hex';
SET standard_conforming_strings = on;
SET client_min_messages = warning
"""

# SQLSTATE: the server is starting, stopping, full, or the connection broke.
_NOT_YET: Final = frozenset({"57P03", "57P01", "57P02", "53300", None})
_LOST: Final = ("08", "57P")
_PASSING: Final = (
    "connection refused",
    "timeout expired",
    "timed out",
    "no such file",
    "starting up",
    "closed the connection",
    "reset by peer",
    "could not receive",
    "unreachable",
    "not yet accepting",
    "too many clients",
)


class PostgresType(ServerType):
    """``type: postgres``."""

    name = "postgres"

    def make(self, setting: ServiceSetting) -> PostgresDatabase:
        """A database that has not started."""
        return PostgresDatabase(setting)


class PostgresDatabase(ServerDatabase):
    """One database, one run."""

    kind = "postgres"
    dialect = Dialect.POSTGRES

    def __init__(self, setting: ServiceSetting) -> None:
        super().__init__(setting)
        self._server: dict[str, Any] = {}
        self._admin: Any = None
        self._connection: Any = None
        self._database: str | None = None
        self._role: str | None = None
        self._password = ""
        self._made: list[str] = []

    @property
    def address(self) -> Mapping[str, Json]:
        """``{host, port, database, user, password}``, the password one of the run alone.

        Where the run has no account of its own, the password is left to whoever knows the dsn.
        """
        info = self._own() if self._database else self._server
        found: dict[str, Json] = {
            "host": str(info.get("host", "")),
            "port": int(info.get("port") or 5432),
            "database": self._database or "",
            "user": str(info.get("user", "")),
        }
        if self._role is not None:
            found["password"] = self._password
        return found

    # -- start -----------------------------------------------------------------------------------

    def _open(self) -> None:
        driver = _driver()
        self._deadline = time.monotonic() + self._start_seconds
        self._server = self._found(driver)
        key = repr(sorted((name, str(value)) for name, value in self._server.items()))
        self._admin = self._until_it_answers(key, lambda: self._connect(self._server, wait=True))
        info = self._admin.info
        self._server.setdefault("host", info.host)
        self._server.setdefault("port", info.port)
        self._server.setdefault("user", info.user)
        try:
            if self._is_first_use(key):
                self._sweep()
            self._make_database(key)
            self._connection.execute("SELECT 1").fetchone()
            self._fill()
            self._start = _read(self._connection, self._masker)
            self._connection.execute(
                f"SET statement_timeout = {int(EFFECT_SECONDS * 1000)};"
                f" SET lock_timeout = {int(EFFECT_SECONDS * 1000)}"
            )
        except driver.Error as error:
            raise DownError(self._say(_words(error))) from None

    def _found(self, driver: Any) -> dict[str, Any]:
        dsn = self._dsn()
        if dsn is None:
            from pytest_evarness.world.sql.embedded import embedded_server

            # Its own limit holds for the first who comes; nobody else waits.
            found = dict(embedded_server(self._setting.host.folder))
            self._deadline = time.monotonic() + self._start_seconds
            return found
        try:
            given = dict(driver.conninfo.conninfo_to_dict(dsn))
        except driver.Error as error:
            raise DownError(f"the dsn cannot be read: {self._say(_words(error))}") from None
        for part in ("host", "hostaddr", "port", "user", "password", "dbname"):
            self._hide(given.get(part))
        return given

    def _connect(self, info: Mapping[str, Any], *, wait: bool = False) -> Any:
        """A connection that commits each statement.

        Raises:
            NotYetError: Nobody answers, with ``wait``.
            DownError: It is refused.
        """
        driver = _driver()
        patience = max(2, round(self._patience)) if wait else 10
        try:
            connection = driver.connect(
                **{
                    **info,
                    "connect_timeout": patience,
                    "client_encoding": "utf8",
                    "application_name": "pytest-evarness",
                },
                autocommit=True,
                prepare_threshold=None,
            )
            connection.execute(_SETTINGS)
        except driver.Error as error:
            # Not answering and being refused are the same class to the driver.
            if wait and error.sqlstate in _NOT_YET and _may_pass(str(error), error.sqlstate):
                raise NotYetError(_words(error)) from None
            raise DownError(self._say(_words(error))) from None
        return connection

    def _sweep(self) -> None:
        """Drop what sessions left that were killed: no lock is held on its name any more."""
        for name in self._leftovers("SELECT datname FROM pg_database"):
            self._drop_database(name)
        for name in self._leftovers("SELECT rolname FROM pg_roles"):
            self._drop_role(name)

    def _leftovers(self, query: str) -> list[str]:
        # The list comes before the locks: a name is locked before there is anything of it.
        names = [name for (name,) in self._admin.execute(query) if RUN_NAME.match(name)]
        if not names:
            return []
        locked = {
            (classid << 32) | objid
            for classid, objid in self._admin.execute(
                "SELECT classid::bigint, objid::bigint FROM pg_locks"
                " WHERE locktype = 'advisory' AND objsubid = 1"
            )
        }
        return [name for name in names if _lock_key(name) % (1 << 64) not in locked]

    def _lock(self, name: str) -> str:
        """Show, for as long as the connection lives, that a name is in use."""
        self._admin.execute("SELECT pg_advisory_lock(%s)", [_lock_key(name)])
        self._made.append(name)
        return name

    def _make_database(self, server: str) -> None:
        name = self._lock(new_name())
        is_superuser = self._admin.execute(
            "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
        owner = ""
        if is_superuser == (True,):
            self._password = secrets.token_hex(16)
            self._admin.execute(
                f"CREATE ROLE {name} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION"
                f" PASSWORD '{self._password}'"
            )
            self._role = name
            owner = f" OWNER {name}"
        # Texts are compared and sorted by code points, whatever the locale of the server.
        provider = " LOCALE_PROVIDER libc" if self._admin.info.server_version >= 150000 else ""
        self._admin.execute(
            f"CREATE DATABASE {name}{owner} TEMPLATE template0 ENCODING 'UTF8'"
            f" LC_COLLATE 'C' LC_CTYPE 'C'{provider}"
        )
        self._admin.execute(f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC")
        self._database = name
        if self._role is not None:
            try:
                self._connection = self._connect_own(server)
            except DownError:
                # The server lets in only those it knows: the account of the dsn does it all.
                self._admin.execute(f"ALTER DATABASE {name} OWNER TO CURRENT_USER")
                self._drop_role(name)
                self._role = None
            else:
                return
        self._connection = self._connect_own(server)

    def _connect_own(self, server: str) -> Any:
        return self._until_it_answers(
            f"{server}/run", lambda: self._connect(self._own(), wait=True)
        )

    def _own(self, database: str | None = None) -> dict[str, Any]:
        """How the run reaches its own database."""
        info = {**self._server, "dbname": database or self._database}
        if self._role is not None:
            info.update(user=self._role, password=self._password)
        return info

    def _fill(self) -> None:
        driver = _driver()
        for script, statement in self.statements():
            # What is left of the limit, and the engine ends it.
            self._connection.execute(f"SET statement_timeout = {max(1, int(self._left * 1000))}")
            try:
                self._connection.execute(statement.text)
            except driver.Error as error:
                where = self.place(script, statement)
                if error.sqlstate == "57014":
                    limit = f"{self._start_seconds:g} s"
                    raise DownError(f"{where}: no end within the start limit of {limit}") from None
                raise DownError(f"{where}: {self._say(_words(error))}") from None
        status = self._connection.info.transaction_status
        if status != driver.pq.TransactionStatus.IDLE:
            self._connection.execute("COMMIT")

    # -- effects ---------------------------------------------------------------------------------

    def _change(self, statement: str, params: Params) -> SqlChange:
        driver = _driver()
        text, values = bind(statement, params, self.dialect, "%s")
        connection = self._connection
        try:
            with connection.transaction():
                names, counts = dict(_relations(connection)), _counts(connection)
                parts = catalog.parts(connection)
                cursor = connection.execute(text, values or None)
                rows = _changed_rows(cursor)
                tables = _written(connection, names, counts)
                tables |= changed_owners(parts, catalog.parts(connection))
        except driver.Error as error:
            if _is_lost(connection, error):
                raise DownError(self._say(_words(error))) from None
            if error.sqlstate == "57014":
                raise EffectFailedError(f"no end within {EFFECT_SECONDS:g} s") from None
            raise EffectFailedError(self._say(_words(error))) from None
        return SqlChange(rows, tuple(sorted(tables)))

    # -- after the run ---------------------------------------------------------------------------

    def _end(self) -> None:
        """Take the database away from whoever has its address: it gets another name."""
        driver = _driver()
        self._connection.close()
        old = self._database
        try:
            sealed = self._lock(new_name())
            deadline = time.monotonic() + _GONE_SECONDS
            while True:
                self._put_out(old)
                try:
                    self._admin.execute(f"ALTER DATABASE {old} RENAME TO {sealed}")
                    break
                except driver.errors.ObjectInUse:
                    if time.monotonic() > deadline:
                        raise
            self._database = sealed
        except driver.Error as error:
            raise DownError(self._say(_words(error))) from None

    def _put_out(self, database: str | None) -> None:
        self._admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = %s AND pid <> pg_backend_pid()",
            [database],
        )

    def _state(self) -> State:
        driver = _driver()
        try:
            with contextlib.closing(self._connect(self._own())) as connection:
                return _read(connection, self._masker)
        except driver.Error as error:
            raise DownError(self._say(_words(error))) from None

    def _ask(self, query: str, params: Params, seconds: float, max_rows: int) -> QueryResult:
        driver = _driver()
        text, values = bind(query, params, self.dialect, "%s")
        deadline = time.monotonic() + seconds
        try:
            with contextlib.closing(self._connect(self._own())) as connection:
                limit = max(1, int((deadline - time.monotonic()) * 1000))
                # The engine refuses to write; the account can reach nothing but this database.
                connection.execute(
                    f"BEGIN READ ONLY; SET LOCAL statement_timeout = {limit};"
                    f" SET LOCAL lock_timeout = {limit}"
                )
                return _rows(connection, text, values, max_rows, deadline)
        except driver.errors.QueryCanceled:
            raise QueryError(f"timed out after {seconds:g} s") from None
        except _LateError:
            raise QueryError(f"timed out after {seconds:g} s") from None
        except driver.errors.InvalidCatalogName:
            raise ChangedError("the sealed database is not there any more") from None
        except driver.Error as error:
            raise QueryError(self._say(_words(error))) from None

    @contextlib.contextmanager
    def _copied(self) -> Iterator[Mapping[str, Json]]:
        driver = _driver()
        try:
            name = self._lock(new_name())
            self._put_out(self._database)
            owner = f" OWNER {self._role}" if self._role is not None else ""
            self._admin.execute(f"CREATE DATABASE {name} TEMPLATE {self._database}{owner}")
            self._admin.execute(f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC")
        except driver.Error as error:
            raise DownError(self._say(_words(error))) from None
        try:
            yield {**self.address, "database": name}
        finally:
            self._drop_database(name)

    # -- end -------------------------------------------------------------------------------------

    def _drop_database(self, name: str) -> None:
        driver = _driver()
        with contextlib.suppress(driver.Error):
            self._put_out(name)
            self._admin.execute(f"DROP DATABASE IF EXISTS {name}")

    def _drop_role(self, name: str) -> None:
        driver = _driver()
        with contextlib.suppress(driver.Error):
            self._admin.execute(f"DROP ROLE IF EXISTS {name}")

    def _remove(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._admin is None:
            return
        for name in self._made:
            self._drop_database(name)
        if self._role is not None:
            self._drop_role(self._role)
        self._admin.close()


class _LateError(Exception):
    """The rows did not come in time."""


def _driver() -> Any:
    try:
        import psycopg
    except ImportError:
        raise DownError(f"the driver of PostgreSQL is not installed: {_ADVICE}") from None
    return psycopg


def _may_pass(message: str, state: str | None) -> bool:
    """Whether it may get better by waiting: nobody listens, or the server is not ready yet."""
    if state is not None:
        return True
    lower = message.lower()
    return any(word in lower for word in _PASSING)


def _is_lost(connection: Any, error: Any) -> bool:
    state = error.sqlstate
    return bool(connection.closed) or (
        state is not None and state.startswith(_LOST) and state != "57014"
    )


def _words(error: Any) -> str:
    """What the server said, without the picture of the place in the text; else the driver."""
    primary = error.diag.message_primary
    if primary is None:
        return str(error)
    return ": ".join(part for part in (primary, error.diag.message_detail) if part)


def _lock_key(name: str) -> int:
    """A signed 64-bit number."""
    digest = hashlib.sha256(name.encode("ascii")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _changed_rows(cursor: Any) -> int:
    # A SELECT has a count, too: of what it read.
    word = (cursor.statusmessage or "").split(" ", 1)[0]
    return max(0, cursor.rowcount) if word in ("INSERT", "UPDATE", "DELETE", "MERGE") else 0


# -- values ----------------------------------------------------------------------------------------

_Reader = Callable[[bytes], Any]


def _dated(kind: str) -> _Reader:
    return lambda data: moment(data.decode("utf-8"), kind)


def _text(data: bytes) -> str:
    return data.decode("utf-8")


# By the number of the type in pg_type, which is the same in every PostgreSQL.
_READERS: Final[Mapping[int, _Reader]] = {
    16: lambda data: data == b"t",
    17: lambda data: bytes.fromhex(data[2:].decode("ascii")),
    20: int,
    21: int,
    23: int,
    26: int,
    700: float,
    701: float,
    # Spaces that fill a character(n) up mean nothing.
    1042: lambda data: data.decode("utf-8").rstrip(" "),
    1082: _dated("date"),
    1083: _dated("time"),
    1114: _dated("timestamp"),
    1184: _dated("timestamp"),
    1186: _dated("interval"),
    1266: _dated("time"),
    1700: lambda data: Decimal(data.decode("ascii")),
}


def _values(result: Any) -> Iterator[tuple[Any, ...]]:
    """Rows of a result in text format."""
    readers = [_READERS.get(result.ftype(at), _text) for at in range(result.nfields)]
    get = result.get_value
    for row in range(result.ntuples):
        yield tuple(
            None if (data := get(row, at)) is None else reader(data)
            for at, reader in enumerate(readers)
        )


def _columns(result: Any) -> tuple[str, ...]:
    return tuple((result.fname(at) or b"").decode("utf-8") for at in range(result.nfields))


def _rows(
    connection: Any, query: str, values: Sequence[Any], max_rows: int, deadline: float
) -> QueryResult:
    rows = Rows(max_rows)
    if first_word(query, Dialect.POSTGRES) in ("show", "explain"):
        result = connection.execute(query, values or None).pgresult
        for row in _values(result):
            if not rows.add(row):
                break
        return rows.result(_columns(result))
    # A cursor, so that a large result is neither computed nor held here as a whole.
    connection.execute(f"DECLARE answer NO SCROLL CURSOR FOR {query}", values or None)
    columns: tuple[str, ...] = ()
    while True:
        if time.monotonic() > deadline:
            raise _LateError
        result = connection.execute(f"FETCH {min(_FETCH, max_rows + 1)} FROM answer").pgresult
        columns = _columns(result)
        if result.ntuples == 0:
            return rows.result(columns)
        for row in _values(result):
            if not rows.add(row):
                return rows.result(columns)


# -- tables ----------------------------------------------------------------------------------------

_RELATIONS: Final = """
SELECT c.oid::bigint, n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_'
  AND NOT EXISTS (
    SELECT 1 FROM pg_depend d
    WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
"""
_COLUMNS: Final = """
SELECT attrelid::bigint, attnum, attname, attcollation <> 0
FROM pg_attribute WHERE attrelid = ANY(%s::oid[]) AND attnum > 0 AND NOT attisdropped
ORDER BY attrelid, attnum
"""
_KEYS: Final = """
SELECT indrelid::bigint, array_to_string(indkey, ' ')
FROM pg_index WHERE indrelid = ANY(%s::oid[]) AND indisprimary
"""


def _relations(connection: Any) -> Iterator[tuple[int, str]]:
    for number, schema, name in connection.execute(_RELATIONS).fetchall():
        yield number, label(schema, name)


def _read(connection: Any, masker: Any) -> State:
    """All that it holds at one moment."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        relations = connection.execute(_RELATIONS).fetchall()
        numbers = [number for number, _, _ in relations]
        columns: dict[int, dict[int, tuple[str, bool]]] = {number: {} for number in numbers}
        for number, place, name, is_text in connection.execute(_COLUMNS, [numbers]):
            columns[number][place] = (name, is_text)
        keys = dict(connection.execute(_KEYS, [numbers]).fetchall())
        tables: dict[str, Table] = {}
        for number, schema, relation in relations:
            key = [columns[number][int(place)] for place in keys.get(number, "").split()]
            name = label(schema, relation)
            source = f"{quoted(schema)}.{quoted(relation)}"
            names = [column for column, _ in columns[number].values()]
            rows = _all_rows(connection, source, names, key)
            tables[name] = read_table(name, names, rows, is_ordered=bool(key), masker=masker)
        return State(tables, catalog.parts(connection, masker))
    finally:
        with contextlib.suppress(_driver().Error):
            connection.execute("ROLLBACK")


def _all_rows(
    connection: Any, source: str, names: Sequence[str], key: Sequence[tuple[str, bool]]
) -> Iterator[tuple[Any, ...]]:
    # "C": texts in the order of their code points, whatever the locale of the server.
    order = ", ".join(quoted(name) + (' COLLATE "C"' if is_text else "") for name, is_text in key)
    listed = ", ".join(quoted(name) for name in names)
    ordered = f" ORDER BY {order}" if order else ""
    connection.execute(
        f"DECLARE everything NO SCROLL CURSOR FOR SELECT {listed} FROM {source}{ordered}"  # noqa: S608
    )
    while True:
        result = connection.execute(f"FETCH {_FETCH} FROM everything").pgresult
        if result.ntuples == 0:
            break
        yield from _values(result)
    connection.execute("CLOSE everything")


def _counts(connection: Any) -> dict[int, int]:
    """Rows written so far by this connection that the server has not booked yet, by table."""
    found = connection.execute(
        "SELECT coalesce(pg_partition_root(relid)::oid, relid)::bigint,"
        " sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint"
        " FROM pg_stat_xact_user_tables GROUP BY 1"
    )
    return dict(found.fetchall())


def _written(connection: Any, names: Mapping[int, str], counts: Mapping[int, int]) -> set[str]:
    """Tables that the open transaction wrote, those of triggers and cascades among them.

    The server counts rows by table, and books them between transactions only. What changes a table
    as a whole counts none, and holds its strongest lock instead.

    Args:
        names: Before.
        counts: Before.
    """
    known = {**names, **dict(_relations(connection))}
    numbers = {
        number for number, count in _counts(connection).items() if count != counts.get(number, 0)
    }
    numbers.update(
        number
        for (number,) in connection.execute(
            "SELECT relation::bigint FROM pg_locks WHERE pid = pg_backend_pid()"
            " AND locktype = 'relation' AND mode = 'AccessExclusiveLock'"
        ).fetchall()
    )
    return {known[number] for number in numbers if number in known}
