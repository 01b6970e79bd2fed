"""SQLite: a file in the folder of the run.

A database with the same ``init`` is made once in a process; after that its bytes are written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.world.service import EffectFailedError, QueryError, QueryResult, SqlChange
from pytest_evarness.world.sql.base import (
    EFFECT_SECONDS,
    ChangedError,
    Database,
    DownError,
    Rows,
    one_line,
)
from pytest_evarness.world.sql.part import (
    COUNTER,
    Part,
    State,
    changed_owners,
    parts_of,
)
from pytest_evarness.world.sql.setting import parse_database, schema_of
from pytest_evarness.world.sql.table import Table, read_table
from pytest_evarness.world.sql.text import Dialect, Params, bind

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.errors import Fault
    from pytest_evarness.world.service import ServiceSetting

__all__ = ["SqliteDatabase", "SqliteType"]

MAX_VALUE_BYTES: Final = 64 * 1024 * 1024
"""Of one text or blob; SQLite's own limit would let a query ask for a gigabyte."""

_LOCKED_SECONDS = 5.0
"""How long somebody else may hold the file."""

_FILE: Final = "database.sqlite"
_BESIDE: Final = ("-journal", "-wal", "-shm")
_MAX_TEMPLATES: Final = 64
_MAX_TEMPLATE_BYTES: Final = 4 * 1024 * 1024

# A template would give every run the moment or the number of the first one.
_FICKLE: Final = re.compile(
    r"current_|random|'now'|\b(?:date|time|datetime|julianday|unixepoch|strftime)\s*\(",
    re.IGNORECASE,
)

_READ_PRAGMAS: Final = frozenset(
    {
        "foreign_key_check",
        "foreign_key_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "integrity_check",
        "quick_check",
        "table_info",
        "table_list",
        "table_xinfo",
        "user_version",
    }
)
_READ_ACTIONS: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
)
# Beside rows: what is written, and the table's name is the first argument.
_WRITES: Final = frozenset(
    {
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_UPDATE,
        sqlite3.SQLITE_DELETE,
        sqlite3.SQLITE_CREATE_TABLE,
        sqlite3.SQLITE_DROP_TABLE,
    }
)
_OUTSIDE_FUNCTIONS: Final = frozenset({"load_extension", "writefile", "readfile", "edit"})
_OUTSIDE_PRAGMAS: Final = frozenset(
    {"temp_store_directory", "data_store_directory", "writable_schema", "trusted_schema"}
)


class SqliteType:
    """``type: sqlite``."""

    name = "sqlite"

    @property
    def schema(self) -> JsonObject:
        """Of the mapping under the service's name."""
        return schema_of(self.name)

    def parse(self, value: Mapping[str, Json]) -> tuple[JsonObject, list[Fault]]:
        """``{init}``."""
        without_type = {key: entry for key, entry in value.items() if key != "type"}
        return parse_database(self.name, without_type)

    def make(self, setting: ServiceSetting) -> SqliteDatabase:
        """A database that has not started."""
        return SqliteDatabase(setting)


@dataclass(frozen=True, slots=True)
class _Template:
    """A database as ``init`` leaves it."""

    data: bytes
    digest: bytes
    state: State


_templates: dict[tuple[tuple[str, str], ...], _Template] = {}


class SqliteDatabase(Database):
    """One file, one run."""

    kind = "sqlite"
    dialect = Dialect.SQLITE

    def __init__(self, setting: ServiceSetting) -> None:
        super().__init__(setting)
        self._path = os.path.join(setting.folder, _FILE)
        self._connection: sqlite3.Connection | None = None
        self._template: _Template | None = None
        self._sealed_as: bytes | None = None
        self._copies = 0

    @property
    def address(self) -> Mapping[str, Json]:
        """``{path}``."""
        return {"path": self._path}

    # -- start -----------------------------------------------------------------------------------

    def _open(self) -> None:
        try:
            self._make()
            self._connection = _connect(self._path, _guard)
            self._connection.execute("SELECT 1").fetchone()
        except (sqlite3.Error, OSError) as error:
            raise DownError(_words(error)) from None

    def _make(self) -> None:
        key = tuple(self._scripts)
        template = _templates.get(key)
        if template is None:
            template = self._made_anew()
            is_steady = not any(_FICKLE.search(script) for _, script in self._scripts)
            # Masked digests belong to one case's secrets.
            if is_steady and self._masker is None and len(template.data) <= _MAX_TEMPLATE_BYTES:
                while len(_templates) >= _MAX_TEMPLATES:
                    _templates.pop(next(iter(_templates)))
                _templates[key] = template
        else:
            with open(self._path, "wb") as file:
                file.write(template.data)
        self._template = template
        self._start = template.state

    def _made_anew(self) -> _Template:
        connection = _connect(self._path, _guard)
        try:
            self._fill(connection)
            state = _read(connection, self._masker)
        finally:
            connection.close()
        data = Path(self._path).read_bytes()
        return _Template(data, hashlib.sha256(data).digest(), state)

    def _fill(self, connection: sqlite3.Connection) -> None:
        deadline = time.monotonic() + EFFECT_SECONDS
        connection.set_progress_handler(lambda: int(time.monotonic() > deadline), 10_000)
        connection.execute("BEGIN")
        for script, statement in self.statements():
            try:
                connection.execute(statement.text).fetchall()
            except (sqlite3.Error, OverflowError) as error:
                where = self.place(script, statement)
                raise DownError(f"{where}: {_words(error)}") from None
        if connection.in_transaction:
            try:
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise DownError(f"init: {_words(error)}") from None
        # A log beside the file would have to be copied with it.
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()

    # -- effects ---------------------------------------------------------------------------------

    def _change(self, statement: str, params: Params) -> SqlChange:
        connection = self._connection
        assert connection is not None, "asked before"
        text, values = _bound(statement, params)
        deadline = time.monotonic() + EFFECT_SECONDS
        connection.set_progress_handler(lambda: int(time.monotonic() > deadline), 10_000)
        try:
            written = _written(connection, text, values)
            doubtful = written.by_others - written.directly
            before = _digests(connection, doubtful)
            parts = _parts(connection)
            total = connection.total_changes
            cursor = connection.execute(text, values)
            cursor.fetchall()
            rows = max(0, cursor.rowcount)
            if connection.in_transaction:
                connection.rollback()
                raise EffectFailedError("an effect is committed at once: no transaction is opened")
            changed = connection.total_changes - total
            tables = written.made | changed_owners(parts, _parts(connection))
            if rows or not written.directly:
                tables |= written.directly
            if changed > rows:
                after = _digests(connection, doubtful)
                tables |= {name for name in doubtful if before.get(name) != after.get(name)}
        except sqlite3.OperationalError as error:
            if deadline <= time.monotonic():
                raise EffectFailedError(f"no end within {EFFECT_SECONDS:g} s") from None
            if _is_lost(error):
                raise DownError(_words(error)) from None
            raise EffectFailedError(_words(error)) from None
        except sqlite3.DatabaseError as error:
            if _is_lost(error):
                raise DownError(_words(error)) from None
            raise EffectFailedError(_words(error)) from None
        except (sqlite3.Error, OverflowError, ValueError) as error:
            raise EffectFailedError(_words(error)) from None
        return SqlChange(rows, tuple(sorted(tables)))

    # -- after the run ---------------------------------------------------------------------------

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        try:
            _check_is_file(self._path)
            if self._is_untouched():
                return
            connection = _connect(self._path, None)
            try:
                # A step may have chosen a log of its own: what is in it belongs to the file.
                connection.execute("PRAGMA journal_mode = DELETE").fetchall()
            finally:
                connection.close()
            self._sealed_as = _digest_of(self._path)
        except (sqlite3.Error, OSError) as error:
            raise DownError(_words(error)) from None

    def _is_untouched(self) -> bool:
        template = self._template
        assert template is not None, "it was started"
        if any(os.path.exists(self._path + ending) for ending in _BESIDE):
            return False
        self._sealed_as = _digest_of(self._path)
        return self._sealed_as == template.digest

    def _state(self) -> State:
        template = self._template
        assert template is not None, "it was started"
        if self._sealed_as == template.digest:
            return template.state
        try:
            connection = _connect(self._path, _guard, is_read_only=True)
            try:
                return _read(connection, self._masker)
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise DownError(_words(error)) from None

    def _check_unchanged(self) -> None:
        try:
            is_same = _digest_of(self._path) == self._sealed_as and not os.path.exists(
                self._path + "-wal"
            )
        except OSError:
            is_same = False
        if not is_same:
            raise ChangedError("the database was changed after the run was sealed")

    def _ask(self, query: str, params: Params, seconds: float, max_rows: int) -> QueryResult:
        self._check_unchanged()
        text, values = _bound(query, params)
        deadline = time.monotonic() + seconds
        rows = Rows(max_rows)
        try:
            connection = _connect(self._path, _reader, is_read_only=True)
            try:
                connection.set_progress_handler(lambda: int(time.monotonic() > deadline), 1000)
                cursor = connection.execute(text, values)
                columns = tuple(column[0] for column in cursor.description or ())
                for row in cursor:
                    if not rows.add(row):
                        break
            finally:
                connection.close()
        except (sqlite3.Error, OverflowError, ValueError) as error:
            if time.monotonic() > deadline:
                raise QueryError(f"timed out after {seconds:g} s") from None
            raise QueryError(_words(error)) from None
        return rows.result(columns)

    @contextlib.contextmanager
    def _copied(self) -> Iterator[Mapping[str, Json]]:
        self._copies += 1
        path = os.path.join(self._setting.folder, f"copy-{self._copies}.sqlite")
        try:
            self._check_unchanged()
            with open(self._path, "rb") as source, open(path, "wb") as target:
                while part := source.read(1 << 20):
                    target.write(part)
        except OSError as error:
            raise DownError(_words(error)) from None
        try:
            yield {"path": path}
        finally:
            _unlink(path)

    def _remove(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        _unlink(self._path)


# -- connections -----------------------------------------------------------------------------------

_Guard = Callable[[int, "str | None", "str | None", "str | None", "str | None"], int]


def _connect(path: str, guard: _Guard | None, *, is_read_only: bool = False) -> sqlite3.Connection:
    if is_read_only:
        connection = sqlite3.connect(
            f"{Path(path).as_uri()}?mode=ro",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=_LOCKED_SECONDS,
        )
    else:
        connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=_LOCKED_SECONDS
        )
    connection.text_factory = _text
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    # The file lives as long as the run: nothing is to survive a loss of power.
    connection.execute("PRAGMA synchronous = OFF").close()
    connection.execute("PRAGMA journal_mode = MEMORY").close()
    # As the other engines have it.
    connection.execute("PRAGMA foreign_keys = ON").close()
    if guard is not None:
        connection.set_authorizer(guard)
    return connection


def _bound(statement: str, params: Params) -> tuple[str, list[Any]]:
    text, values = bind(statement, params, Dialect.SQLITE, "?")
    # SQLite has no decimals; what it would read from the same digits is a binary float.
    return text, [float(value) if isinstance(value, Decimal) else value for value in values]


def _text(data: bytes) -> Any:
    """Text, or the bytes where they are none: SQLite does not check what it stores."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def _guard(
    action: int, first: str | None, second: str | None, schema: str | None, trigger: str | None
) -> int:
    """Whether the engine may do it: anything within its own file."""
    del schema, trigger
    if action == sqlite3.SQLITE_ATTACH and first not in ("", ":memory:"):
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and second in _OUTSIDE_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _OUTSIDE_PRAGMAS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _reader(
    action: int, first: str | None, second: str | None, schema: str | None, trigger: str | None
) -> int:
    """Whether a query may do it: read, nothing else."""
    if action in _READ_ACTIONS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION:
        return _guard(action, first, second, schema, trigger)
    if action == sqlite3.SQLITE_PRAGMA:
        name = (first or "").lower()
        is_set = name == "user_version" and second is not None
        return sqlite3.SQLITE_OK if name in _READ_PRAGMAS and not is_set else sqlite3.SQLITE_DENY
    # A table-valued function declares its columns before it is read.
    if action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _words(error: Exception) -> str:
    """What the engine said, without the folder of the run."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return one_line(error)


def _is_lost(error: sqlite3.DatabaseError) -> bool:
    """Whether the file is gone or is no database any more."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and (code & 0xFF) in (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
    )


def _check_is_file(path: str) -> None:
    """A run may have put anything there: a link would lead out of the world, a pipe never ends.

    Raises:
        DownError: It is no regular file.
        OSError: Nothing is there.
    """
    for ending in ("", *_BESIDE):
        try:
            mode = os.lstat(path + ending).st_mode
        except FileNotFoundError:
            if ending:
                continue
            raise
        if not stat.S_ISREG(mode):
            raise DownError(f"the database{ending} is no regular file any more")


def _digest_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _unlink(path: str) -> None:
    for ending in ("", *_BESIDE):
        with contextlib.suppress(OSError):
            os.unlink(path + ending)


# -- tables ----------------------------------------------------------------------------------------


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def _read(connection: sqlite3.Connection, masker: Any) -> State:
    """All that it holds at one moment."""
    connection.execute("BEGIN")
    try:
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%'"
            " ESCAPE '\\'"
        ).fetchall()
        shadows = _shadows(connection)
        tables = {
            name: _read_one(connection, name, masker) for (name,) in names if name not in shadows
        }
        return State(tables, _parts(connection, masker))
    finally:
        connection.execute("COMMIT")


def _shadows(connection: sqlite3.Connection) -> dict[str, str]:
    """Tables in which a virtual table keeps what is in it, and whose they are."""
    kinds = connection.execute("PRAGMA main.table_list").fetchall()
    virtual = [name for schema, name, kind, *_ in kinds if (schema, kind) == ("main", "virtual")]
    return {
        name: max((one for one in virtual if name.startswith(f"{one}_")), key=len, default=name)
        for schema, name, kind, *_ in kinds
        if (schema, kind) == ("main", "shadow")
    }


def _parts(connection: sqlite3.Connection, masker: Any = None) -> dict[Part, str]:
    """How everything is declared, and where counters of AUTOINCREMENT are."""
    found: list[tuple[Part, Any]] = []
    shadows = _shadows(connection)
    has_counters = False
    declared = connection.execute("SELECT type, name, tbl_name, sql FROM main.sqlite_master")
    for kind, name, table, text in declared.fetchall():
        has_counters = has_counters or name == "sqlite_sequence"
        if name in shadows:
            rows = _read_one(connection, name, masker).digest
            found.append((Part("table", shadows[name], shadows[name]), [name, rows]))
        elif not name.startswith("sqlite_"):
            owner = shadows.get(table, table)
            shown = text if isinstance(text, str | None) else repr(text)
            found.append((Part(kind, name, None if kind == "view" else owner), shown))
    if has_counters:
        counters = connection.execute("SELECT name, seq FROM main.sqlite_sequence").fetchall()
        found += [(Part(COUNTER, str(name), str(name)), str(seq)) for name, seq in counters]
    return parts_of(found, masker)


def _read_one(connection: sqlite3.Connection, name: str, masker: Any) -> Table:
    table = quoted(name)
    info = connection.execute(f"PRAGMA table_info({table})").fetchall()
    columns = [column[1] for column in info]
    key = [column for _, column in sorted((entry[5], entry[1]) for entry in info if entry[5])]
    order = ""
    if key and not _holds_null(connection, table, key):
        order = " ORDER BY " + ", ".join(f"{quoted(column)} COLLATE BINARY" for column in key)
    listed = ", ".join(quoted(column) for column in columns)
    rows: Any = connection.execute(f"SELECT {listed} FROM {table}{order}")  # noqa: S608 - quoted
    return read_table(name, columns, rows, is_ordered=bool(order), masker=masker)


def _holds_null(connection: sqlite3.Connection, table: str, key: Sequence[str]) -> bool:
    """SQLite lets NULL into a primary key, and several of them are in no order."""
    condition = " OR ".join(f"{quoted(column)} IS NULL" for column in key)
    query = f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1"  # noqa: S608 - names are quoted
    return connection.execute(query).fetchone() is not None


def _digests(connection: sqlite3.Connection, names: frozenset[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in sorted(names):
        with contextlib.suppress(sqlite3.OperationalError):
            found[name] = _read_one(connection, name, None).digest
    return found


@dataclass(frozen=True, slots=True)
class _Writes:
    """What a statement would write: rows of its own table, whole tables, or through others."""

    directly: frozenset[str]
    made: frozenset[str]
    by_others: frozenset[str]


def _written(connection: sqlite3.Connection, statement: str, values: Sequence[Any]) -> _Writes:
    """Ask the engine which tables a statement writes; it is compiled, not run.

    The first table that is named is the statement's own; triggers and cascades of foreign keys
    come after it, and whether they change anything is seen only afterwards.
    """
    names: list[str] = []
    made: set[str] = set()
    shadows = _shadows(connection)

    def note(
        action: int, first: str | None, second: str | None, schema: str | None, trigger: str | None
    ) -> int:
        answer = _guard(action, first, second, schema, trigger)
        if action == sqlite3.SQLITE_ALTER_TABLE and second is not None:
            made.add(second)
        elif action in _WRITES and first is not None and not first.startswith("sqlite_"):
            if action in (sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_DROP_TABLE):
                made.add(first)
            else:
                names.append(shadows.get(first, first))
        return answer

    connection.set_authorizer(note)
    try:
        connection.execute(f"EXPLAIN {statement}", values).close()
    finally:
        connection.set_authorizer(_guard)
    own = frozenset(names[:1])
    if made:
        # A dropped table is emptied by the engine itself.
        return _Writes(frozenset(), frozenset(made), frozenset(names) - made)
    return _Writes(own, frozenset(), frozenset(names) - own)
