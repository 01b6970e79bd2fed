"""What all databases of a world share: their life, their words when they fail, their snapshot."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.core.interfaces import ServiceDownError
from pytest_evarness.core.secret import Masker
from pytest_evarness.world.service import (
    EffectFailedError,
    QueryError,
    QueryResult,
    SqlChange,
)
from pytest_evarness.world.sql.part import State, state_record
from pytest_evarness.world.sql.setting import init_scripts
from pytest_evarness.world.sql.table import MAX_BYTES
from pytest_evarness.world.sql.text import (
    BindError,
    Dialect,
    Params,
    Statement,
    not_reading,
    outside,
    split,
)

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.world.service import ServiceSetting

__all__ = ["EFFECT_SECONDS", "ChangedError", "Database", "DownError", "one_line"]

EFFECT_SECONDS: Final = 30.0
"""How long a statement of an effect may take, and wait for what somebody else has locked."""


class DownError(Exception):
    """The database is not there; ``reason`` is what it said last."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ChangedError(QueryError):
    """The database is not any more what was sealed."""


def one_line(text: object, limit: int = 600) -> str:
    """A message on one line, its end kept: what an engine says last is what counts."""
    line = " ".join(str(text).split())
    return line if len(line) <= limit else "…" + line[-limit:]


class Database(ABC):
    """A database of one run.

    Subclasses say how an engine does it; what it raises for its own failure is :class:`DownError`.

    Attributes:
        problem: Why it is down; None while it is up.
    """

    kind = ""
    dialect = Dialect.SQLITE

    def __init__(self, setting: ServiceSetting) -> None:
        self.name = setting.name
        self.problem: str | None = None
        self._setting = setting
        self._masker = Masker(setting.secrets) if setting.secrets else None
        self._scripts = init_scripts(setting.config)
        self._start = State()
        self._snapshot: JsonObject | None = None
        self._is_sealed = False
        self._is_closed = False

    # -- what an engine does -------------------------------------------------------------------

    @abstractmethod
    def _open(self) -> None:
        """Make the fresh database, run ``init``, prove that it answers."""

    @abstractmethod
    def _change(self, statement: str, params: Params) -> SqlChange:
        """Apply one statement and commit."""

    @abstractmethod
    def _state(self) -> State:
        """All that the user has in it."""

    @abstractmethod
    def _end(self) -> None:
        """Let nobody change it any more."""

    @abstractmethod
    def _ask(self, query: str, params: Params, seconds: float, max_rows: int) -> QueryResult:
        """Ask what was sealed; the engine itself refuses to write."""

    @abstractmethod
    def _copied(self) -> contextlib.AbstractContextManager[Mapping[str, Json]]:
        """As :meth:`copy`."""

    @abstractmethod
    def _remove(self) -> None:
        """Leave nothing behind; never raises."""

    @property
    @abstractmethod
    def address(self) -> Mapping[str, Json]:
        """How a step or a script reaches it."""

    # -- the life of a service -----------------------------------------------------------------

    def start(self) -> None:
        """Make it; a failure is told by ``problem``."""
        try:
            self._open()
        except DownError as error:
            self._fail(error)
        except BaseException:
            self.close()
            raise

    def _fail(self, error: DownError) -> None:
        """Remember why it is down, and let go of the rest."""
        if self.problem is None:
            self.problem = error.reason
        self.close()

    def statements(self) -> Iterator[tuple[str, Statement]]:
        """The statements of ``init`` with the name of the script each stands in.

        Raises:
            DownError: A script that cannot be read, or reaches beyond the database.
        """
        for name, script in self._scripts:
            try:
                found = split(script, self.dialect)
            except ValueError as error:
                raise DownError(f"{name}: {error}") from None
            for statement in found:
                beyond = outside(statement.text, self.dialect)
                if beyond is not None:
                    raise DownError(f"{self.place(name, statement)}: {beyond}")
                yield name, statement

    @staticmethod
    def place(script: str, statement: Statement) -> str:
        """Where a statement of ``init`` stands, and how it begins."""
        return f"{script}, line {statement.line}, {_begins(statement.text)}"

    def execute(self, statement: str, params: Params) -> SqlChange:
        """Apply an effect's statement and commit.

        Raises:
            EffectFailedError: The engine refused it, or it is not one statement on this database.
            ServiceDownError: The database does not answer.
        """
        if self.problem is not None:
            raise ServiceDownError(self.name, self.problem)
        if self._is_sealed or self._is_closed:
            raise EffectFailedError("the run is over: its database changes no more")
        try:
            found = split(statement, self.dialect)
        except ValueError as error:
            raise EffectFailedError(str(error)) from None
        if len(found) != 1:
            raise EffectFailedError(f"an effect is one statement (got {len(found)})")
        beyond = outside(found[0].text, self.dialect)
        if beyond is not None:
            raise EffectFailedError(beyond)
        try:
            return self._change(found[0].text, params)
        except BindError as error:
            raise EffectFailedError(str(error)) from None
        except DownError as error:
            self._fail(error)
            raise ServiceDownError(self.name, error.reason) from None

    def seal(self) -> None:
        """Finish, then change no more; what it holds is read once."""
        if self._is_sealed or self._is_closed or self.problem is not None:
            return
        self._is_sealed = True
        try:
            self._end()
            self._snapshot = state_record(self.kind, self._state(), self._start)
        except DownError as error:
            self._fail(error)

    def snapshot(self) -> JsonObject:
        """All tables and rows, the same whichever engine holds them."""
        if self.problem is not None:
            return {"type": self.kind, "down": True}
        assert self._snapshot is not None, "a database is looked at once it is sealed"
        return self._snapshot

    def query(
        self, query: str, params: Params = (), *, seconds: float, max_rows: int
    ) -> QueryResult:
        """Ask the sealed database one reading statement.

        Raises:
            QueryError: Not one statement, one that writes, an engine's error, out of time, or
                :class:`ChangedError`.
        """
        if self.problem is not None:
            raise QueryError(self.problem)
        assert self._is_sealed, "a database is asked once it is sealed"
        refused = not_reading(query, self.dialect)
        if refused is not None:
            raise QueryError(f"a check asks one statement that reads, and {refused}")
        try:
            return self._ask(split(query, self.dialect)[0].text, params, seconds, max_rows)
        except BindError as error:
            raise QueryError(str(error)) from None
        except DownError as error:
            raise QueryError(error.reason) from None

    def copy(self) -> contextlib.AbstractContextManager[Mapping[str, Json]]:
        """The address of a copy in the sealed state; what is done to it reaches nobody.

        Raises:
            QueryError: None can be made.
        """
        return self._copy()

    @contextlib.contextmanager
    def _copy(self) -> Iterator[Mapping[str, Json]]:
        if self.problem is not None:
            raise QueryError(self.problem)
        assert self._is_sealed, "a database is copied once it is sealed"
        try:
            copied = self._copied()
            address = copied.__enter__()
        except DownError as error:
            raise QueryError(error.reason) from None
        with contextlib.ExitStack() as stack:
            stack.push(copied)
            yield address

    def close(self) -> None:
        """Stop and remove it; closing twice is fine."""
        if not self._is_closed:
            self._is_closed = True
            self._remove()

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}>"


class Rows:
    """Takes rows up to a bound."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._size = 0
        self.rows: list[tuple[Any, ...]] = []
        self.is_cut = False

    def add(self, row: tuple[Any, ...]) -> bool:
        """Whether the row was taken; the first that does not fit cuts the result."""
        self._size += sum(len(value) if isinstance(value, str | bytes) else 16 for value in row)
        # One row is always taken: a check of a single value is bounded when it records it.
        if len(self.rows) >= self._max_rows or (self.rows and self._size > MAX_BYTES):
            self.is_cut = True
            return False
        self.rows.append(row)
        return True

    def result(self, columns: tuple[str, ...]) -> QueryResult:
        """What was taken."""
        return QueryResult(columns, tuple(self.rows), self.is_cut)


def _begins(statement: str) -> str:
    line = one_line(statement, 10_000)
    return line if len(line) <= 80 else line[:80] + "…"
