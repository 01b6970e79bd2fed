"""What a scenario writes under a database service."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from pytest_evarness.core.json import shown
from pytest_evarness.core.registry import nearest
from pytest_evarness.errors import Fault

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject

__all__ = [
    "DEFAULT_START_SECONDS",
    "DSN_SCHEMES",
    "dsn_problem",
    "init_scripts",
    "parse_database",
    "schema_of",
    "url_parts",
    "variables_of",
]

DSN_SCHEMES: Final[Mapping[str, tuple[str, ...]]] = {
    "postgres": ("postgresql", "postgres"),
    "mysql": ("mysql", "mariadb"),
}
DEFAULT_START_SECONDS: Final = 30.0
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FILE: Final = re.compile(r"[^\s;()]+\.sql\Z", re.IGNORECASE)
_PAIR: Final = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|\S*)")
_SECRET_WORDS: Final = frozenset({"password", "passwd", "sslpassword", "oauth_client_secret"})


def schema_of(kind: str) -> JsonObject:
    """JSON Schema of the mapping under a service of ``kind``."""
    properties: dict[str, Json] = {
        "type": {"const": kind},
        "init": {
            "description": "SQL that fills the fresh database: a text is SQL, a list is files",
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        },
    }
    if kind in DSN_SCHEMES:
        properties["dsn"] = {
            "description": "the server: its URL without a password, or the variable that holds it",
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"env": {"type": "string"}},
                    "required": ["env"],
                    "additionalProperties": False,
                },
            ],
        }
        properties["start_seconds"] = {
            "description": "how long the server may take to answer, and init to run",
            "type": "number",
            "exclusiveMinimum": 0,
            "default": DEFAULT_START_SECONDS,
        }
    required = ["type", "dsn"] if kind == "mysql" else ["type"]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def parse_database(kind: str, value: Mapping[str, Json]) -> tuple[JsonObject, list[Fault]]:
    """The normalised configuration ``{init, dsn?, start_seconds?}``, and every mistake."""
    known = tuple(cast("Mapping[str, Json]", schema_of(kind)["properties"]))
    faults = [_unknown(key, known) for key in value if key not in known]
    config: dict[str, Json] = {"init": _init(value.get("init", []), faults)}
    if kind not in DSN_SCHEMES:
        return config, faults
    config["dsn"] = _dsn(kind, value["dsn"], faults) if "dsn" in value else None
    if kind == "mysql" and "dsn" not in value:
        faults.append(
            Fault(
                (),
                "a mysql service needs a server",
                rule="dsn: mysql://USER@HOST/DATABASE, or {env: NAME}",
                fix="add dsn: {env: MYSQL_DSN}",
            )
        )
    config["start_seconds"] = _seconds(value.get("start_seconds", DEFAULT_START_SECONDS), faults)
    return config, faults


def _unknown(key: str, known: Sequence[str]) -> Fault:
    near = nearest(key, known)
    return Fault(
        (key,),
        "unknown key",
        f"'{key}'",
        f"known: {', '.join(known)}",
        f"write '{near}'" if near else None,
        at_key=True,
    )


def _init(value: Json, faults: list[Fault]) -> Json:
    if isinstance(value, str):
        if _FILE.match(value.strip()):
            faults.append(
                Fault(
                    ("init",),
                    "a text is SQL, and this is the name of a file",
                    shown(value),
                    "a list is files",
                    f"write init: [{value.strip()}]",
                )
            )
        return [value]
    if not isinstance(value, Sequence):
        rule = "a text (SQL) or a list of files"
        faults.append(Fault(("init",), "must be SQL or files", shown(value), rule))
        return []
    files: list[Json] = []
    for place, entry in enumerate(value):
        if not isinstance(entry, str) or not entry.strip():
            rule = "the path of a file, beside the scenario"
            faults.append(Fault(("init", place), "must be a file", shown(entry), rule))
        elif not _FILE.match(entry) and re.search(r"\s", entry):
            faults.append(
                Fault(
                    ("init", place),
                    "a list is files, and this is no file",
                    shown(entry),
                    "a text is SQL",
                    "write all SQL as one text under init",
                )
            )
        else:
            files.append({"file": entry})
    return files


def _seconds(value: Json, faults: list[Fault]) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 3600:
        rule = "a number of seconds above 0, at most 3600"
        faults.append(Fault(("start_seconds",), "must be a time", shown(value), rule))
        return DEFAULT_START_SECONDS
    return float(value)


def _dsn(kind: str, value: Json, faults: list[Fault]) -> Json:
    if isinstance(value, Mapping):
        name = value.get("env")
        if set(value) != {"env"} or not isinstance(name, str) or not _VARIABLE.match(name):
            rule = "{env: NAME}, the environment variable that holds it"
            faults.append(Fault(("dsn",), "must name a variable", shown(value), rule))
        return {"env": name if isinstance(name, str) else ""}
    scheme = DSN_SCHEMES[kind][0]
    if not isinstance(value, str):
        rule = f"{scheme}://USER@HOST:PORT/DATABASE, or {{env: NAME}}"
        faults.append(Fault(("dsn",), "must be a server", shown(value), rule))
        return None
    problem = dsn_problem(kind, value)
    if problem is not None:
        # Without the value: it may hold what must not be shown.
        advice = "put it into an environment variable and write dsn: {env: NAME}"
        faults.append(
            Fault(("dsn",), problem[0], rule=problem[1], fix=None if problem[1] else advice)
        )
    return value


def dsn_problem(kind: str, dsn: str, *, may_hold_password: bool = False) -> tuple[str, str] | None:
    """What is wrong with a written dsn, and the rule where that is its form; None where nothing is.

    Args:
        may_hold_password: True for one that came from the environment.
    """
    schemes = DSN_SCHEMES[kind]
    form = f"{schemes[0]}://USER@HOST:PORT/DATABASE"
    if kind == "postgres":
        form += ", or libpq's host=... user=... dbname=..."
    password = False
    if "://" in dsn:
        try:
            parts = urlsplit(dsn)
            _ = parts.port
        except ValueError:
            return "cannot be read as a URL", form
        if parts.scheme not in schemes:
            return f"has a scheme of another kind ('{parts.scheme}')", form
        options = parse_qsl(parts.query, keep_blank_values=False)
        password = bool(parts.password) or any(key.lower() in _SECRET_WORDS for key, _ in options)
    elif kind == "postgres" and "=" in dsn:
        password = any(
            key.lower() in _SECRET_WORDS and written.strip("'")
            for key, written in _PAIR.findall(dsn)
        )
    else:
        return "is no dsn", form
    if password and not may_hold_password:
        return "a password does not belong into a scenario", ""
    return None


def init_scripts(config: JsonObject) -> list[tuple[str, str]]:
    """``(name, SQL)`` of each script of ``init``, in order.

    The loader has put the texts of files in; an entry may keep the file's name beside its text.
    """
    scripts: list[tuple[str, str]] = []
    entries = cast("Sequence[Any]", config.get("init") or [])
    for place, entry in enumerate(entries):
        if isinstance(entry, str):
            scripts.append(("init" if len(entries) == 1 else f"init[{place}]", entry))
        else:
            scripts.append((str(entry.get("file", f"init[{place}]")), str(entry["text"])))
    return scripts


def variables_of(config: JsonObject) -> tuple[str, ...]:
    """Names of the environment variables that a configuration refers to."""
    dsn: Any = config.get("dsn")
    return (dsn["env"],) if isinstance(dsn, Mapping) else ()


def url_parts(dsn: str) -> dict[str, Any]:
    """Host, port, user, password, database and options of a URL, unquoted."""
    parts = urlsplit(dsn)
    return {
        "host": parts.hostname,
        "port": parts.port,
        "user": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "database": unquote(parts.path.lstrip("/")) or None,
        "options": dict(parse_qsl(parts.query)),
    }
