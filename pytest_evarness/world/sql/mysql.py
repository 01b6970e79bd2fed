"""MySQL and MariaDB: a fresh database on a server, with an account that can reach nothing else."""

from __future__ import annotations

import contextlib
import re
import secrets
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.world.service import EffectFailedError, QueryError, QueryResult, SqlChange
from pytest_evarness.world.sql.base import (
    EFFECT_SECONDS,
    ChangedError,
    DownError,
    Rows,
)
from pytest_evarness.world.sql.part import COUNTER, Part, State, changed_owners, parts_of
from pytest_evarness.world.sql.server import (
    RUN_NAME,
    RUN_NAME_ANYWHERE,
    NotYetError,
    ServerDatabase,
    ServerType,
    new_name,
)
from pytest_evarness.world.sql.setting import url_parts
from pytest_evarness.world.sql.table import Table, read_table
from pytest_evarness.world.sql.text import Dialect, Params, bind, written_table
from pytest_evarness.world.sql.value import decimal_text, moment

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json
    from pytest_evarness.world.service import ServiceSetting

__all__ = ["MysqlDatabase", "MysqlType"]

_ADVICE: Final = "pip install 'pytest-evarness[mysql]'"
# Texts are compared and sorted by code points, as the other engines do.
_TEXTS: Final = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

_MARGIN_SECONDS: Final = 2.0
_PORT: Final = 3306
_OPTIONS: Final = frozenset({"unix_socket", "ssl_ca", "charset"})

# Nobody listens, too many are there, the connection broke, the server is shutting down.
_NOT_YET: Final = frozenset({2002, 2003, 2006, 2013, 1040, 1053, 1152, 1159, 1161})
_LOST: Final = frozenset({2006, 2013, 2055, 1053, 1927, 0})
_OUT_OF_TIME: Final = frozenset({1317, 1969, 3024})
# No right to make accounts, or to give them rights; a server that keeps none at all.
_NO_ACCOUNTS: Final = frozenset({1044, 1045, 1227, 1290, 1410, 1819, 3619})


class MysqlType(ServerType):
    """``type: mysql``."""

    name = "mysql"

    def make(self, setting: ServiceSetting) -> MysqlDatabase:
        """A database that has not started."""
        return MysqlDatabase(setting)


class MysqlDatabase(ServerDatabase):
    """One database, one run."""

    kind = "mysql"
    dialect = Dialect.MYSQL

    def __init__(self, setting: ServiceSetting) -> None:
        super().__init__(setting)
        self._server: dict[str, Any] = {}
        self._admin: Any = None
        self._connection: Any = None
        self._database = ""
        self._account: tuple[str, str] | None = None
        self._password = ""
        self._made: list[str] = []
        self._sealed_as: Mapping[str, Any] = {}

    @property
    def address(self) -> Mapping[str, Json]:
        """``{host, port, database, user, password}``, the password one of the run alone.

        Where the run has no account of its own, the password is left to whoever knows the dsn.
        """
        found: dict[str, Json] = {
            "host": self._server.get("host", ""),
            "port": self._server.get("port", _PORT),
            "database": self._database,
            "user": self._account[0] if self._account else self._server.get("user", ""),
        }
        if self._account is not None:
            found["password"] = self._password
        return found

    # -- start -----------------------------------------------------------------------------------

    def _open(self) -> None:
        driver = _driver()
        self._deadline = time.monotonic() + self._start_seconds
        self._server = self._found()
        key = repr(sorted((name, str(value)) for name, value in self._server.items()))
        self._admin = self._until_it_answers(key, lambda: self._connect(self._server))
        try:
            if self._is_first_use(key):
                self._sweep()
            self._make_database(key)
            _all(self._connection, "SELECT 1")
            self._fill()
            self._start = self._read(self._connection)
            _patient(self._connection, EFFECT_SECONDS + _MARGIN_SECONDS)
        except driver.MySQLError as error:
            raise DownError(self._say(_words(error))) from None

    def _found(self) -> dict[str, Any]:
        dsn = self._dsn()
        assert dsn is not None, "the configuration demands one"
        parts = url_parts(dsn)
        for part in ("host", "port", "user", "password", "database"):
            self._hide(parts[part])
        unknown = sorted(set(parts["options"]) - _OPTIONS)
        if unknown:
            known = ", ".join(sorted(_OPTIONS))
            raise DownError(f"the dsn has an unknown option ('{unknown[0]}'; known: {known})")
        found: dict[str, Any] = {
            "host": parts["host"] or "localhost",
            "port": parts["port"] or _PORT,
            "user": parts["user"] or "root",
            "password": parts["password"] or "",
        }
        if parts["database"]:
            found["database"] = parts["database"]
        found.update({name: value for name, value in parts["options"].items() if name != "charset"})
        return found

    def _connect(self, info: Mapping[str, Any], *, kind: Any = None) -> Any:
        """A connection that commits each statement and finds rows as the other engines count them.

        Raises:
            NotYetError: Nobody answers.
            DownError: It is refused.
        """
        driver = _driver()
        patience = max(1.0, self._patience)
        try:
            connection = driver.connect(
                **info,
                charset="utf8mb4",
                collation="utf8mb4_bin",
                autocommit=True,
                connect_timeout=patience,
                read_timeout=patience,
                write_timeout=patience,
                # An UPDATE counts the rows it found, as elsewhere, not those that were different.
                client_flag=driver.constants.CLIENT.FOUND_ROWS,
                conv=_readers(),
                cursorclass=kind or driver.cursors.Cursor,
            )
            _patient(connection, EFFECT_SECONDS + _MARGIN_SECONDS)
            _do(connection, "SET time_zone = '+00:00'")
        except driver.MySQLError as error:
            if _code(error) in _NOT_YET:
                raise NotYetError(_words(error)) from None
            raise DownError(self._say(_words(error))) from None
        except (
            OSError,
            RuntimeError,
            ValueError,
            LookupError,
            struct.error,
            AssertionError,
        ) as error:
            # A listener that speaks something else.
            raise NotYetError(f"{type(error).__name__}: {error}") from None
        return connection

    def _reconnect(self, info: Mapping[str, Any], *, kind: Any = None) -> Any:
        """A connection to a server that answered before.

        Raises:
            DownError: It does not any more.
        """
        self._deadline = time.monotonic() + 10.0
        try:
            return self._connect(info, kind=kind)
        except NotYetError as error:
            raise DownError(self._say(error)) from None

    def _sweep(self) -> None:
        """Drop what sessions left that were killed: no lock is held on its name any more."""
        driver = _driver()
        for (name,) in _all(self._admin, "SHOW DATABASES LIKE 'evarness\\_run\\_%'"):
            if RUN_NAME.match(name) and self._is_left(name):
                self._drop_database(name)
        with contextlib.suppress(driver.MySQLError):
            accounts = _all(
                self._admin,
                "SELECT user, host FROM mysql.user WHERE user LIKE 'evarness\\_run\\_%'",
            )
            for user, host in accounts:
                if RUN_NAME.match(user) and self._is_left(user):
                    self._drop_account((user, host))

    def _is_left(self, name: str) -> bool:
        # A name is locked before there is anything of it.
        return bool(_all(self._admin, f"SELECT IS_FREE_LOCK('{name}')") == [(1,)])

    def _lock(self, name: str) -> str:
        """Show, for as long as the connection lives, that a name is in use."""
        _all(self._admin, f"SELECT GET_LOCK('{name}', 5)")
        self._made.append(name)
        return name

    def _make_database(self, server: str) -> None:
        name = self._lock(new_name())
        _do(self._admin, f"CREATE DATABASE {name} {_TEXTS}")
        self._database = name
        if self._make_account(name):
            try:
                self._connection = self._connect_own(server)
            except DownError:
                # The server lets in only those it knows: the account of the dsn does it all.
                self._drop_account(self._account)
                self._account = None
            else:
                return
        self._connection = self._connect_own(server)

    def _make_account(self, name: str) -> bool:
        driver = _driver()
        # From where this process is seen; a wider host could be shadowed by a narrower one.
        ((seen,),) = _all(self._admin, "SELECT USER()")
        host = seen.rpartition("@")[2].replace("'", "")
        self._password = f"Aa1-{secrets.token_hex(16)}"
        try:
            _do(self._admin, f"CREATE USER '{name}'@'{host}' IDENTIFIED BY '{self._password}'")
            self._account = (name, host)
            _do(self._admin, f"GRANT ALL PRIVILEGES ON {name}.* TO '{name}'@'{host}'")
        except driver.MySQLError as error:
            if _code(error) not in _NO_ACCOUNTS:
                raise
            if self._account is not None:
                self._drop_account(self._account)
                self._account = None
            return False
        return True

    def _connect_own(self, server: str) -> Any:
        return self._until_it_answers(f"{server}/run", lambda: self._connect(self._own()))

    def _own(self, database: str | None = None) -> dict[str, Any]:
        """How the run reaches its own database."""
        info = {**self._server, "database": database or self._database}
        if self._account is not None:
            info.update(user=self._account[0], password=self._password)
        return info

    def _fill(self) -> None:
        driver = _driver()
        for script, statement in self.statements():
            _patient(self._connection, self._left)
            try:
                _do(self._connection, statement.text)
            except driver.MySQLError as error:
                where = self.place(script, statement)
                if time.monotonic() >= self._deadline:
                    limit = f"{self._start_seconds:g} s"
                    raise DownError(f"{where}: no end within the start limit of {limit}") from None
                raise DownError(f"{where}: {self._say(_words(error))}") from None
        self._connection.commit()

    # -- effects ---------------------------------------------------------------------------------

    def _change(self, statement: str, params: Params) -> SqlChange:
        driver = _driver()
        text, values = bind(statement, params, self.dialect, "?")
        connection = self._connection
        begun = time.monotonic()
        try:
            before = _fingerprint(connection, self._database)
            parts = self._parts()
            rows = _bound(connection, text, values)
            if not connection.get_autocommit() or _in_transaction(connection):
                connection.rollback()
                connection.autocommit(True)
                raise EffectFailedError("an effect is committed at once: no transaction is opened")
            after = _fingerprint(connection, self._database)
            owners = changed_owners(parts, self._parts())
        except driver.MySQLError as error:
            if time.monotonic() - begun >= EFFECT_SECONDS:
                self._connection = self._reconnect(self._own())
                raise EffectFailedError(f"no end within {EFFECT_SECONDS:g} s") from None
            if _code(error) in _LOST:
                raise DownError(self._say(_words(error))) from None
            raise EffectFailedError(self._say(_words(error))) from None
        changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        # Rows that were written with the values they had leave no other trace.
        own = written_table(statement, self.dialect)
        if rows and own in after:
            changed.add(own)
        return SqlChange(rows, tuple(sorted(changed | owners)))

    # -- after the run ---------------------------------------------------------------------------

    def _end(self) -> None:
        """Put out whoever has the address, and take the right to write from the account."""
        driver = _driver()
        _close(self._connection)
        try:
            if self._account is not None:
                user, host = self._account
                _do(
                    self._admin,
                    f"REVOKE ALL PRIVILEGES ON {self._database}.* FROM '{user}'@'{host}'",
                )
                _do(
                    self._admin,
                    f"GRANT SELECT, SHOW VIEW, EXECUTE ON {self._database}.* TO '{user}'@'{host}'",
                )
            for (number,) in _all(
                self._admin,
                "SELECT id FROM information_schema.processlist"
                " WHERE db = %s AND id <> CONNECTION_ID()",
                self._database,
            ):
                # It may be gone by itself.
                with contextlib.suppress(driver.MySQLError):
                    _do(self._admin, f"KILL {int(number)}")
        except driver.MySQLError as error:
            raise DownError(self._say(_words(error))) from None

    def _state(self) -> State:
        driver = _driver()
        try:
            with contextlib.closing(self._reconnect(self._own())) as connection:
                self._sealed_as = _fingerprint(connection, self._database)
                return self._read(connection)
        except driver.MySQLError as error:
            raise DownError(self._say(_words(error))) from None

    def _ask(self, query: str, params: Params, seconds: float, max_rows: int) -> QueryResult:
        driver = _driver()
        text, values = bind(query, params, self.dialect, "?")
        begun = time.monotonic()
        connection = self._reconnect(self._own(), kind=driver.cursors.SSCursor)
        # The server ends a SELECT by itself only where it has a limit for it; this ends anything.
        timer = threading.Timer(seconds, self._kill, [connection.thread_id()])
        timer.daemon = True
        timer.start()
        try:
            _patient(connection, seconds + _MARGIN_SECONDS)
            if _fingerprint(connection, self._database) != self._sealed_as:
                raise ChangedError("the database was changed after the run was sealed")
            # The engine refuses to write; the account can reach nothing but this database.
            _do(connection, "START TRANSACTION READ ONLY")
            result = _asked(connection, text, values, max_rows)
        except driver.MySQLError as error:
            if _code(error) in _OUT_OF_TIME or time.monotonic() - begun >= seconds:
                raise QueryError(f"timed out after {seconds:g} s") from None
            raise QueryError(self._say(_words(error))) from None
        finally:
            timer.cancel()
            _force_close(connection)
        if time.monotonic() - begun >= seconds:
            # A killed SLEEP() gives a row as if nothing had happened.
            raise QueryError(f"timed out after {seconds:g} s")
        return result

    def _kill(self, number: int) -> None:
        """End a connection from a second one; the first waits for its answer."""
        driver = _driver()
        with (
            contextlib.suppress(driver.MySQLError, DownError),
            contextlib.closing(self._reconnect(self._own())) as other,
        ):
            _do(other, f"KILL {int(number)}")

    @contextlib.contextmanager
    def _copied(self) -> Iterator[Mapping[str, Json]]:
        driver = _driver()
        name = ""
        try:
            name = self._lock(new_name())
            _do(self._admin, f"CREATE DATABASE {name} {_TEXTS}")
            if self._account is not None:
                user, host = self._account
                _do(self._admin, f"GRANT ALL PRIVILEGES ON {name}.* TO '{user}'@'{host}'")
            with contextlib.closing(self._reconnect({**self._server, "database": name})) as target:
                _copy_all(target, self._database, name)
        except driver.MySQLError as error:
            self._drop_database(name)
            raise DownError(f"it cannot be copied: {self._say(_words(error))}") from None
        try:
            yield {**self.address, "database": name}
        finally:
            self._drop_database(name)

    def _parts(self, masker: Any = None) -> dict[Part, str]:
        # Of the account of the dsn: the run's own sees nothing of a trigger once it only reads.
        return parts_of(_definitions(self._admin, self._database), masker)

    # -- end -------------------------------------------------------------------------------------

    def _drop_database(self, name: str) -> None:
        driver = _driver()
        with contextlib.suppress(driver.MySQLError):
            _do(self._admin, f"DROP DATABASE IF EXISTS {name}")

    def _drop_account(self, account: tuple[str, str] | None) -> None:
        driver = _driver()
        if account is not None:
            with contextlib.suppress(driver.MySQLError):
                _do(self._admin, f"DROP USER IF EXISTS '{account[0]}'@'{account[1]}'")

    def _remove(self) -> None:
        _close(self._connection)
        if self._admin is None:
            return
        for name in self._made:
            self._drop_database(name)
        self._drop_account(self._account)
        _close(self._admin)

    # -- tables ----------------------------------------------------------------------------------

    def _read(self, connection: Any) -> State:
        """All tables in one state of the database."""
        driver = _driver()
        _do(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        try:
            names = _table_names(connection, self._database)
            columns: dict[str, list[str]] = {name: [] for name in names}
            texts: set[tuple[str, str]] = set()
            for table, column, charset in _all(
                connection,
                "SELECT table_name, column_name, character_set_name"
                " FROM information_schema.columns"
                " WHERE table_schema = %s ORDER BY table_name, ordinal_position",
                self._database,
            ):
                if table in columns:
                    columns[table].append(column)
                    if charset is not None:
                        texts.add((table, column))
            keys: dict[str, list[str]] = {name: [] for name in names}
            for table, column in _all(
                connection,
                "SELECT table_name, column_name FROM information_schema.key_column_usage"
                " WHERE table_schema = %s AND constraint_name = 'PRIMARY'"
                " ORDER BY table_name, ordinal_position",
                self._database,
            ):
                keys[table].append(column)
            tables: dict[str, Table] = {}
            for name in names:
                order = ", ".join(_ordered(key, is_text=(name, key) in texts) for key in keys[name])
                listed = ", ".join(_quoted(column) for column in columns[name])
                query = f"SELECT {listed} FROM {_quoted(name)}"  # noqa: S608 - names are quoted
                with connection.cursor(driver.cursors.SSCursor) as cursor:
                    cursor.execute(f"{query} ORDER BY {order}" if order else query)
                    tables[name] = read_table(
                        name,
                        columns[name],
                        cursor,
                        is_ordered=bool(order),
                        masker=self._masker,
                    )
            return State(tables, self._parts(self._masker))
        finally:
            with contextlib.suppress(driver.MySQLError):
                connection.rollback()


def _driver() -> Any:
    try:
        import pymysql
    except ImportError:
        raise DownError(f"the driver of MySQL is not installed: {_ADVICE}") from None
    return pymysql


def _code(error: Any) -> int | None:
    first = error.args[0] if error.args else None
    return first if isinstance(first, int) else None


def _words(error: Any) -> str:
    """What the server said, without the number."""
    return str(error.args[1]) if len(error.args) > 1 else str(error)


def _patient(connection: Any, seconds: float) -> None:
    """How long one answer may take; the driver has no public word for it after connecting."""
    connection._read_timeout = connection._write_timeout = max(1.0, seconds)  # noqa: SLF001


def _close(connection: Any) -> None:
    if connection is not None and connection.open:
        with contextlib.suppress(_driver().MySQLError):
            connection.close()


def _force_close(connection: Any) -> None:
    """Without a word: rows that nobody reads any more may still be under way."""
    with contextlib.suppress(_driver().MySQLError, OSError):
        connection._force_close()  # noqa: SLF001 - close() would read the rest


def _do(connection: Any, statement: str) -> int:
    with connection.cursor(_driver().cursors.Cursor) as cursor:
        rows: int = cursor.execute(statement)
        while cursor.nextset():
            pass
    return rows


def _all(connection: Any, query: str, *values: str) -> list[tuple[Any, ...]]:
    with connection.cursor(_driver().cursors.Cursor) as cursor:
        cursor.execute(query, values or None)
        return list(cursor.fetchall())


def _in_transaction(connection: Any) -> bool:
    in_transaction = _driver().constants.SERVER_STATUS.SERVER_STATUS_IN_TRANS
    return bool(connection.server_status & in_transaction)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _ordered(column: str, *, is_text: bool) -> str:
    # Texts in the order of their code points, whatever the collation, and not padded.
    name = _quoted(column)
    return f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)" if is_text else name


def _table_names(connection: Any, database: str) -> list[str]:
    found = _all(
        connection,
        "SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = %s AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')",
        database,
    )
    return sorted(name for (name,) in found)


def _fingerprint(connection: Any, database: str) -> dict[str, Any]:
    """A number for the rows of each table, and when the table itself was made or altered."""
    names = _table_names(connection, database)
    if not names:
        return {}
    sums = _all(connection, "CHECKSUM TABLE " + ", ".join(_quoted(name) for name in names))
    columns = dict(
        _all(
            connection,
            "SELECT table_name, SHA1(GROUP_CONCAT(CONCAT_WS(' ', column_name, column_type,"
            " is_nullable, column_default, column_key, extra) ORDER BY ordinal_position))"
            " FROM information_schema.columns WHERE table_schema = %s GROUP BY table_name",
            database,
        )
    )
    return {
        name: (number, columns.get(name)) for name, (_, number) in zip(names, sums, strict=True)
    }


_DEFINED: Final = (
    (
        "view",
        (
            "SELECT table_name, NULL, view_definition, check_option, security_type"
            " FROM information_schema.views WHERE table_schema = %s"
        ),
    ),
    (
        "trigger",
        (
            "SELECT trigger_name, event_object_table, action_timing, event_manipulation,"
            " action_order, action_statement"
            " FROM information_schema.triggers WHERE trigger_schema = %s"
        ),
    ),
    (
        "routine",
        (
            "SELECT routine_name, NULL, routine_type, dtd_identifier, routine_definition,"
            " is_deterministic, sql_data_access, security_type"
            " FROM information_schema.routines WHERE routine_schema = %s"
        ),
    ),
    (
        "routine",
        (
            "SELECT specific_name, NULL, routine_type, ordinal_position, parameter_mode,"
            " parameter_name, dtd_identifier"
            " FROM information_schema.parameters WHERE specific_schema = %s"
        ),
    ),
    (
        "event",
        (
            "SELECT event_name, NULL, event_definition, event_type, interval_value,"
            " interval_field FROM information_schema.events WHERE event_schema = %s"
        ),
    ),
)
_COUNTER: Final = re.compile(r"^(\).*?) AUTO_INCREMENT=(\d+)", re.MULTILINE)


def _definitions(connection: Any, database: str) -> Iterator[tuple[Part, Any]]:
    """How everything is declared, without the name of the database, and where counters are."""
    place = _quoted(database)
    for name in _table_names(connection, database):
        text = str(_all(connection, f"SHOW CREATE TABLE {place}.{_quoted(name)}")[0][1])
        counter = _COUNTER.search(text)
        if counter is not None:
            yield Part(COUNTER, name, name), counter.group(2)
        yield Part("table", name, name), RUN_NAME_ANYWHERE.sub("", _COUNTER.sub(r"\1", text))
    for kind, query in _DEFINED:
        for name, table, *definition in _all(connection, query, database):
            shown = [RUN_NAME_ANYWHERE.sub("", repr(value)) for value in definition]
            yield Part(kind, name, table), shown
    sequences = (
        "SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = %s AND table_type = 'SEQUENCE'"
    )
    for (name,) in _all(connection, sequences, database):
        row = _all(connection, f"SELECT * FROM {place}.{_quoted(name)}")  # noqa: S608 - quoted
        yield Part(COUNTER, name), repr(row)


# -- values ----------------------------------------------------------------------------------------


def _readers() -> dict[Any, Any]:
    """From the text of the protocol, by the number of the type; other types stay texts or bytes."""
    kinds = _driver().constants.FIELD_TYPE
    numbers = (kinds.TINY, kinds.SHORT, kinds.LONG, kinds.LONGLONG, kinds.INT24, kinds.YEAR)
    # The driver's own writers stay: it says with them what it asks for itself.
    readers: dict[Any, Any] = {**_driver().converters.encoders, **dict.fromkeys(numbers, int)}
    readers.update({kinds.FLOAT: float, kinds.DOUBLE: float})
    readers.update({kinds.DECIMAL: Decimal, kinds.NEWDECIMAL: Decimal})
    readers[kinds.BIT] = lambda data: int.from_bytes(data, "big")
    readers[kinds.DATE] = readers[kinds.NEWDATE] = lambda text: moment(text, "date")
    readers[kinds.TIME] = lambda text: moment(text, "time")
    readers[kinds.DATETIME] = readers[kinds.TIMESTAMP] = lambda text: moment(text, "timestamp")
    return readers


def _literal(value: Any) -> str:
    """A value for ``SET @x =``: digits, or hexadecimal digits; no text of anybody's is in it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, Decimal) and value.is_finite():
        return decimal_text(value)
    if isinstance(value, float):
        return format(value, ".17e")
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return f"CONVERT(X'{str(value).encode('utf-8').hex()}' USING utf8mb4)"


def _prepared(connection: Any, statement: str, values: Sequence[Any]) -> str:
    """The statement that runs another one with its values, bound by the server itself."""
    settings = [f"@evarness_{place} = {_literal(value)}" for place, value in enumerate(values)]
    text = f"CONVERT(X'{statement.encode('utf-8').hex()}' USING utf8mb4)"
    _do(connection, f"SET {', '.join([*settings, f'@evarness_statement = {text}'])}")
    _do(connection, "PREPARE evarness FROM @evarness_statement")
    names = ", ".join(f"@evarness_{place}" for place in range(len(values)))
    return f"EXECUTE evarness USING {names}"


def _bound(connection: Any, statement: str, values: Sequence[Any]) -> int:
    """Run one statement; how many rows it changed."""
    text = _prepared(connection, statement, values) if values else statement
    with connection.cursor(_driver().cursors.Cursor) as cursor:
        rows: int = cursor.execute(text)
        # A SELECT has a count, too: of what it read.
        is_read = cursor.description is not None
        while cursor.nextset():
            pass
    return 0 if is_read else rows


def _asked(connection: Any, query: str, values: Sequence[Any], max_rows: int) -> QueryResult:
    text = _prepared(connection, query, values) if values else query
    rows = Rows(max_rows)
    cursor = connection.cursor()
    cursor.execute(text)
    # SHOW TABLES names the database in its heading.
    names = (RUN_NAME_ANYWHERE.sub("«database»", column[0]) for column in cursor.description or ())
    columns = tuple(names)
    for row in cursor:
        if not rows.add(row):
            break
    return rows.result(columns)


# -- copies ----------------------------------------------------------------------------------------


def _copy_all(target: Any, source: str, name: str) -> None:
    """Tables with their keys and rows, views, triggers and routines; the server has no template."""
    _do(target, "SET foreign_key_checks = 0")
    old, new = _quoted(source), _quoted(name)
    for table in _table_names(target, source):
        place = f"{old}.{_quoted(table)}"
        ((_, create),) = _all(target, f"SHOW CREATE TABLE {place}")
        _do(target, create.replace(f"{old}.", f"{new}."))
        stored = _all(
            target,
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name = %s"
            # A generated column has no value of its own; "DEFAULT_GENERATED" is no such column.
            " AND extra NOT LIKE '%%VIRTUAL%%' AND extra NOT LIKE '%%STORED%%'"
            " AND extra NOT LIKE '%%PERSISTENT%%' ORDER BY ordinal_position",
            source,
            table,
        )
        listed = ", ".join(_quoted(column) for (column,) in stored)
        if listed:
            _do(target, f"INSERT INTO {_quoted(table)} ({listed}) SELECT {listed} FROM {place}")  # noqa: S608
    _copy_code(target, source, name)
    _do(target, "SET foreign_key_checks = 1")


def _copy_code(target: Any, source: str, name: str) -> None:
    old, new = _quoted(source), _quoted(name)
    makers = [
        ("TRIGGER", "trigger_name", "triggers", "trigger_schema", "", 2),
        ("FUNCTION", "routine_name", "routines", "routine_schema", "routine_type = 'FUNCTION'", 2),
        (
            "PROCEDURE",
            "routine_name",
            "routines",
            "routine_schema",
            "routine_type = 'PROCEDURE'",
            2,
        ),
        ("VIEW", "table_name", "views", "table_schema", "", 1),
    ]
    for kind, column, table, schema, condition, place in makers:
        more = f" AND {condition}" if condition else ""
        names = _all(
            target,
            f"SELECT {column} FROM information_schema.{table}"  # noqa: S608 - fixed words
            f" WHERE {schema} = %s{more} ORDER BY {column}",
            source,
        )
        pending = [entry for (entry,) in names]
        # A view may stand on another one: what does not work yet is tried again after the rest.
        while pending:
            left = []
            error = None
            for entry in pending:
                create = _all(target, f"SHOW CREATE {kind} {old}.{_quoted(entry)}")[0][place]
                try:
                    _do(target, create.replace(f"{old}.", f"{new}."))
                except _driver().MySQLError as caught:
                    left.append(entry)
                    error = caught
            if error is not None and len(left) == len(pending):
                raise error
            pending = left
