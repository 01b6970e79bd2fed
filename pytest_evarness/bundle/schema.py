"""The shape of a statement, field by field: nothing may be missing, nothing may be added.

Written out instead of borrowed from a schema library: it is part of what a verifier is trusted
for, and a reader of docs/bundle-format.md finds the same list there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pytest_evarness.core.json import kind_of, shown
from pytest_evarness.errors import UnverifiedError

__all__ = ["STATEMENT", "Check", "check_shape", "json_schema"]

Check: TypeAlias = Callable[[Any, str], None]
"""``check(value, place)``; raises :class:`UnverifiedError` with the place."""


_JSON_SCHEMAS: dict[Check, dict[str, Any]] = {}


def _as(check: Check, schema: dict[str, Any]) -> Check:
    """The check, with what it asks as a JSON Schema."""
    _JSON_SCHEMAS[check] = schema
    return check


def json_schema(check: Check) -> dict[str, Any]:
    """What ``check`` asks as a JSON Schema (2020-12), for readers that do not trust this code.

    The check decides: it also tells an integer from a number that is whole.

    Raises:
        KeyError: It is no check of this module.
    """
    return _JSON_SCHEMAS[check]


def check_shape(value: Any, check: Check, place: str = "statement") -> None:
    """Refuse a value that is not of exactly this shape.

    Raises:
        UnverifiedError: The first place that differs.
    """
    try:
        check(value, place)
    except _OtherFieldsError as error:
        raise UnverifiedError(f"{error.problem}; {_OTHER_BUILD}") from None


_OTHER_BUILD = (
    "unless somebody changed it, it was made by another build of format 1, which gets its last"
    " fields with the first release: make the bundle anew, or read it with the build that made it"
)


class _OtherFieldsError(UnverifiedError):
    """A record has other fields than those of this build."""


def _is(kind: type, word: str, name: str) -> Check:
    def check(value: Any, place: str) -> None:
        # bool is a kind of int in Python and never in JSON.
        if type(value) is not kind:
            raise UnverifiedError(f"{place}: must be {word} (got {kind_of(value)})")

    return _as(check, {"type": name})


text = _is(str, "text", "string")
boolean = _is(bool, "true or false", "boolean")


def whole(value: Any, place: str) -> None:
    """A count: an integer of 0 or more."""
    if type(value) is not int or value < 0:
        raise UnverifiedError(f"{place}: must be a count (got {shown(value)})")


def integer(value: Any, place: str) -> None:
    """Any integer."""
    if type(value) is not int:
        raise UnverifiedError(f"{place}: must be an integer (got {shown(value)})")


def _format(value: Any, place: str) -> None:
    """The format that this version reads."""
    if type(value) is not int or value != 1:
        raise UnverifiedError(
            f"{place}: must be 1, the only format that this version reads (got {shown(value)});"
            " read the bundle with the version that made it"
        )


_as(_format, {"enum": [1]})
_as(whole, {"type": "integer", "minimum": 0})
_as(integer, {"type": "integer"})


def one_of(*words: Any) -> Check:
    """One of a closed set of values, types included."""

    def check(value: Any, place: str) -> None:
        if not any(type(value) is type(word) and value == word for word in words):
            known = ", ".join(shown(word) for word in words)
            raise UnverifiedError(f"{place}: must be one of {known} (got {shown(value)})")

    return _as(check, {"enum": list(words)})


def matching(expression: str, what: str) -> Check:
    """A text of exactly that form."""
    compiled = re.compile(expression, re.ASCII)

    def check(value: Any, place: str) -> None:
        if type(value) is not str or not compiled.fullmatch(value):
            raise UnverifiedError(f"{place}: must be {what} (got {shown(value)})")

    written = expression.replace("\\d", "[0-9]")
    return _as(check, {"type": "string", "pattern": f"^(?:{written})$"})


def nullable(inner: Check) -> Check:
    """null, or what ``inner`` takes."""

    def check(value: Any, place: str) -> None:
        if value is not None:
            inner(value, place)

    return _as(check, {"anyOf": [{"type": "null"}, json_schema(inner)]})


def list_of(inner: Check, *, least: int = 0, most: int | None = None) -> Check:
    """A list of such values."""

    def check(value: Any, place: str) -> None:
        if type(value) is not list:
            raise UnverifiedError(f"{place}: must be a list (got {kind_of(value)})")
        if len(value) < least or (most is not None and len(value) > most):
            raise UnverifiedError(f"{place}: has {len(value)} elements")
        for index, part in enumerate(value):
            inner(part, f"{place}[{index}]")

    schema: dict[str, Any] = {"type": "array", "items": json_schema(inner)}
    schema |= {"minItems": least} if least else {}
    schema |= {} if most is None else {"maxItems": most}
    return _as(check, schema)


def record(fields: Mapping[str, Check]) -> Check:
    """A mapping of exactly these fields."""
    names = frozenset(fields)

    def check(value: Any, place: str) -> None:
        if type(value) is not dict:
            raise UnverifiedError(f"{place}: must be a mapping (got {kind_of(value)})")
        if value.keys() != names:
            for name in value:
                if name not in names:
                    raise _OtherFieldsError(f"{place}: unknown field {shown(name)}")
            missing = ", ".join(sorted(names - value.keys()))
            raise _OtherFieldsError(f"{place}: missing field {missing}")
        for name, inner in fields.items():
            inner(value[name], f"{place}.{name}")

    return _as(
        check,
        {
            "type": "object",
            "properties": {name: json_schema(inner) for name, inner in fields.items()},
            "required": list(fields),
            "additionalProperties": False,
        },
    )


DIGEST = matching(r"sha256:[0-9a-f]{64}", "sha256: and 64 hex digits")
HEX = matching(r"[0-9a-f]{64}", "64 hex digits")
GIT = matching(r"[0-9a-f]{40}|[0-9a-f]{64}", "40 or 64 hex digits")
TRACE = matching(r"c1:sha256:[0-9a-f]{64}", "c1:sha256: and 64 hex digits")
CHAIN = matching(r"c1:chain-sha256:[0-9a-f]{64}", "c1:chain-sha256: and 64 hex digits")
TIME = matching(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "a time in UTC")
NUMBER = matching(r"-?(0|[1-9]\d*)(\.\d+|/[1-9]\d*)?", "a decimal or a fraction")
OUTCOME = one_of("pass", "fail", "indeterminate")
VERDICT = one_of("valid", "invalid", "indeterminate")
SEVERITY = one_of("info", "minor", "major", "critical")
MODE = one_of("release", "exploratory", "diagnostic")
STATUS = one_of("completed", "blocked", "paused", "failed", "unscripted", "unfinished")
CAUSE = one_of(
    "missing_evidence",
    "malformed_evidence",
    "stale_evidence",
    "contradictory_evidence",
    "unfinished_run",
    "evaluator_error",
)
NAMED_TEXT = record({"digest": DIGEST, "text": text})
PACKAGE = record({"name": text, "version": text})
COMPOSITE = record(
    {
        "low": nullable(NUMBER),
        "high": nullable(NUMBER),
        "threshold": NUMBER,
        "raw": nullable(NUMBER),
    }
)

ITEM = record(
    {
        "id": text,
        "kind": matching(r"[A-Za-z_][A-Za-z0-9_.:-]*", "the kind of an item"),
        "gate": boolean,
        "decides": boolean,
        "weight": NUMBER,
        "severity": SEVERITY,
        "version": nullable(integer),
        "description": text,
        "definition": nullable(DIGEST),
        "vacuous": one_of("pass", "fail", "indeterminate"),
        "enforced_by": list_of(text),
        "label": one_of("preventive", "detection-only"),
        "because": nullable(text),
        "applies": nullable(text),
        "broken": nullable(text),
        "informational": boolean,
        "written": boolean,
        "untested": boolean,
        "path": text,
        "line": whole,
        "selected": boolean,
        "why": nullable(text),
    }
)

PLANNED_CASE = record(
    {
        "nodeid": text,
        "file": text,
        "case": text,
        "base": text,
        "mode": MODE,
        "digest": DIGEST,
        "scenario": DIGEST,
        "threshold": nullable(NUMBER),
        "waived": list_of(text),
        "items": list_of(ITEM, least=1),
    }
)

CONTRACT = record(
    {
        "id": text,
        "version": nullable(integer),
        "owner": nullable(text),
        "gate": boolean,
        "severity": SEVERITY,
        "untested": boolean,
        "origin": text,
        "definition": DIGEST,
    }
)

SEAL = record(
    {
        "digest": DIGEST,
        "format": _format,
        "engine": list_of(PACKAGE, least=1),
        "plugins": list_of(PACKAGE),
        "nonce": matching(r"[0-9a-f]{32}", "32 hex digits"),
        "time": TIME,
        "challenge": nullable(text),
        "settings": record(
            {
                "rerun": one_of("mirror", "inline"),
                "events": one_of("full", "digest"),
                "strict_vacuity": boolean,
                "mode": nullable(one_of("release", "exploratory", "diagnostic")),
                "diagnose": boolean,
                "min_scenarios": whole,
                "min_coverage": nullable(
                    matching(r"[0-9]{1,3}(\.[0-9]{1,9})?", "a percentage as it was written")
                ),
            }
        ),
        "environment": DIGEST,
        "subjects": list_of(record({"name": text, "sha256": HEX})),
        "git": nullable(
            record({"commit": nullable(GIT), "tree": nullable(GIT), "clean": nullable(boolean)})
        ),
        "contracts": list_of(CONTRACT),
        "overrides": list_of(
            record(
                {
                    "id": text,
                    "version": integer,
                    "definition": DIGEST,
                    "origin": text,
                    "replaced_version": integer,
                    "replaced": DIGEST,
                    "replaced_origin": text,
                }
            )
        ),
        "corpora": list_of(
            record(
                {
                    "id": text,
                    "version": integer,
                    "origin": text,
                    "entries": whole,
                    "digest": DIGEST,
                    "failed": list_of(text),
                }
            )
        ),
        "redefined": list_of(
            record({"id": text, "version": nullable(integer), "definition": DIGEST})
        ),
        "reviews": list_of(
            record({"case": text, "invariant": text, "reviewer": text, "note": text})
        ),
        "overlays": list_of(record({"name": text, "label": text, "sha256": HEX})),
        "policies": list_of(record({"scenario": text, "revision": text})),
        "definitions": list_of(NAMED_TEXT),
        "plan": list_of(PLANNED_CASE),
        "broken": list_of(record({"file": text, "text": text})),
    }
)

ENVIRONMENT = record(
    {
        "python": text,
        "platform": text,
        "packages": list_of(PACKAGE),
        "shell": nullable(text),
        "rerun": one_of("mirror", "inline"),
        "mirror": list_of(text),
        "sandbox": text,
        "network": text,
    }
)

INPUTS = record(
    {
        "compiled": text,
        "scenario": text,
        "graph": DIGEST,
        "overlays": DIGEST,
        "materials": nullable(DIGEST),
        "fixture": nullable(text),
        "approvals": list_of(text),
        "seed": integer,
        "schedule": text,
        "provider": text,
        "params": list_of(text),
        "policy": nullable(text),
    }
)

RUN = record(
    {
        "label": one_of("a", "b"),
        "status": STATUS,
        "complete": boolean,
        "events": whole,
        "trace_digest": TRACE,
        "chain_digest": CHAIN,
        "world_digest": DIGEST,
        "binding": DIGEST,
        "error": nullable(text),
    }
)

FINDING = record(
    {
        "id": text,
        "version": nullable(integer),
        "kind": text,
        "gate": boolean,
        "weight": NUMBER,
        "severity": SEVERITY,
        "outcome": OUTCOME,
        "score": nullable(NUMBER),
        "causes": list_of(CAUSE),
        "reason": text,
        "leaning": nullable(OUTCOME),
        "decisive_seq": nullable(whole),
        "vacuous": boolean,
        "witness": text,
        "label": one_of("preventive", "detection-only"),
        "looked_at": list_of(text),
    }
)

REPLICA = record(
    {
        "replica": one_of(0),
        "seed": integer,
        "status": STATUS,
        "verdict": VERDICT,
        "composite": nullable(COMPOSITE),
        "runs": list_of(RUN, least=1, most=2),
        "events": nullable(list_of(text)),
        "events_b": nullable(list_of(text)),
        "error_b": nullable(text),
        "world": text,
        "world_b": nullable(text),
        "evidence": list_of(
            record(
                {
                    "kind": one_of("output", "check"),
                    "item": text,
                    "state": one_of("enclosed", "masked", "too_large"),
                    "digest": DIGEST,
                    "text": text,
                }
            )
        ),
        "leftovers": list_of(text),
        "findings": list_of(FINDING, least=1),
    }
)

CASE = record(
    {
        "id": text,
        "nodeid": text,
        "mode": MODE,
        "verdict": VERDICT,
        "composite": nullable(COMPOSITE),
        "primary": nullable(text),
        "inputs": INPUTS,
        "replicas": list_of(REPLICA, least=1, most=1),
    }
)

PREDICATE = record(
    {
        "seal": SEAL,
        "environment": ENVIRONMENT,
        "texts": list_of(NAMED_TEXT),
        "cases": list_of(CASE),
        "review_queue": list_of(record({"case": text, "invariant": text, "why": text})),
        "changed": list_of(text),
        "exercised": record({"done": whole, "total": whole, "told": boolean}),
        "verdict": record(
            {
                "holds": nullable(boolean),
                "valid": whole,
                "invalid": whole,
                "indeterminate": whole,
                "pending": whole,
                "note": text,
            }
        ),
        "not_proven": list_of(text, least=1),
    }
)


_OF_GIT = record({"gitCommit": GIT, "gitTree": GIT})
_OF_FILE = record({"sha256": HEX})


def _subject_digest(value: Any, place: str) -> None:
    is_git = type(value) is dict and "gitCommit" in value
    (_OF_GIT if is_git else _OF_FILE)(value, place)


_as(_subject_digest, {"oneOf": [json_schema(_OF_GIT), json_schema(_OF_FILE)]})


STATEMENT = record(
    {
        "_type": one_of("https://in-toto.io/Statement/v1"),
        "subject": list_of(record({"name": text, "digest": _subject_digest}), least=1),
        "predicateType": one_of("https://pytest-evarness.readthedocs.io/proof/v1"),
        "predicate": PREDICATE,
    }
)
