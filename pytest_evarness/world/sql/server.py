"""What databases on a server share: where the server is, how long it may take, what is left over.

A run gets a fresh database and, where the account may make one, an account of its own that can
reach nothing else on the server. Both have a random name that stands in no snapshot.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytest_evarness.world.sql.base import Database, DownError, one_line
from pytest_evarness.world.sql.setting import (
    DEFAULT_START_SECONDS,
    dsn_problem,
    parse_database,
    schema_of,
    variables_of,
)

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.errors import Fault
    from pytest_evarness.world.service import ServiceSetting

__all__ = [
    "RUN_NAME",
    "RUN_NAME_ANYWHERE",
    "NotYetError",
    "ServerDatabase",
    "ServerType",
    "new_name",
]

T = TypeVar("T")

RUN_NAME: Final = re.compile(r"evarness_run_[0-9a-f]{16}\Z")
"""Databases and accounts of runs; nothing else is ever swept."""

RUN_NAME_ANYWHERE: Final = re.compile(r"evarness_run_[0-9a-f]{16}")

_AGAIN_SECONDS: Final = 0.1
_CONNECT_SECONDS: Final = 10.0
_KNOWN_SECONDS: Final = 2.0

_unreachable: set[tuple[int, str]] = set()
"""Servers that did not answer within a start limit: the next service asks them once."""

_swept: set[tuple[int, str]] = set()


def new_name() -> str:
    """A name that no other run has."""
    return f"evarness_run_{secrets.token_hex(8)}"


class ServerType:
    """What the types of databases on a server share; each says its name and makes its own."""

    name = ""
    is_slow = True

    @property
    def schema(self) -> JsonObject:
        """Of the mapping under the service's name."""
        return schema_of(self.name)

    def parse(self, value: Mapping[str, Json]) -> tuple[JsonObject, list[Fault]]:
        """``{init, dsn, start_seconds}``."""
        without_type = {key: entry for key, entry in value.items() if key != "type"}
        return parse_database(self.name, without_type)

    def secrets_of(self, config: JsonObject) -> tuple[str, ...]:
        """The variable that holds the dsn."""
        return variables_of(config)


class NotYetError(Exception):
    """The server does not answer yet, and may later."""


class ServerDatabase(Database):
    """A database on a server that outlives the run."""

    def __init__(self, setting: ServiceSetting) -> None:
        super().__init__(setting)
        written: Any = setting.config.get("dsn")
        self._variable: str | None = written["env"] if isinstance(written, Mapping) else None
        self._written: str | None = written if isinstance(written, str) else None
        seconds: Any = setting.config.get("start_seconds", DEFAULT_START_SECONDS)
        self._start_seconds = float(seconds)
        self._deadline = 0.0
        self._hidden: set[str] = set()
        self._is_known_silent = False

    # -- where it is ---------------------------------------------------------------------------

    def _dsn(self) -> str | None:
        """The server as it was written, or as the variable has it; None where none is named.

        Raises:
            DownError: The variable is not set, or holds no dsn.
        """
        if self._variable is None:
            return self._written
        name = self._variable
        value = self._setting.secrets.get(name) or os.environ.get(name)
        if not value:
            raise DownError(f"the environment variable {name} is not set; it names the server")
        problem = dsn_problem(self.kind, value, may_hold_password=True)
        if problem is not None:
            raise DownError(f"the server that {name} names {problem[0]} (must be {problem[1]})")
        self._hide(value)
        return value

    def _hide(self, value: object) -> None:
        """Keep a part of what a variable holds out of every message."""
        if self._variable is not None and value not in (None, ""):
            self._hidden.add(str(value))

    def _say(self, message: object, limit: int = 600) -> str:
        """A message of the driver, without what identifies a server that was not written."""
        text = str(message)
        for hidden in sorted(self._hidden, key=lambda one: (-len(one), one)):
            # Not within a word: a user may be called "a".
            text = re.sub(rf"(?<!\w){re.escape(hidden)}(?!\w)", f"«{self._variable}»", text)
        return one_line(RUN_NAME_ANYWHERE.sub("«database»", text), limit)

    # -- until it answers ----------------------------------------------------------------------

    @property
    def _left(self) -> float:
        """Seconds of the start limit that are left, at least a moment."""
        return max(0.05, self._deadline - time.monotonic())

    @property
    def _patience(self) -> float:
        """How long one attempt to connect may take."""
        return min(_KNOWN_SECONDS if self._is_known_silent else _CONNECT_SECONDS, self._left)

    def _until_it_answers(self, server: str, connect: Callable[[], T]) -> T:
        """Connect again and again, until the limit; what else it raises is final.

        Raises:
            DownError: With what the server or the driver said last.
        """
        key = (os.getpid(), server)
        self._is_known_silent = key in _unreachable
        while True:
            try:
                connected = connect()
            except NotYetError as error:
                if self._is_known_silent:
                    raise DownError(f"{self._say(error)} (and not before, either)") from None
                if time.monotonic() + _AGAIN_SECONDS > self._deadline:
                    _unreachable.add(key)
                    limit = f"{self._start_seconds:g} s"
                    raise DownError(f"no answer within {limit}: {self._say(error)}") from None
                time.sleep(_AGAIN_SECONDS)
            else:
                _unreachable.discard(key)
                return connected

    def _is_first_use(self, server: str) -> bool:
        """Whether this process has not looked there for what others left."""
        key = (os.getpid(), server)
        if key in _swept:
            return False
        _swept.add(key)
        return True
