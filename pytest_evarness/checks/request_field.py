"""What an assertion on an HTTP mock looks at, such as ``last_request.json.total``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pytest_evarness.core.matcher import parse_path
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import nearest, quoted, shown
from pytest_evarness.world.http.condition import header_fault, mail_place
from pytest_evarness.world.http.place import MAIL, Place

__all__ = ["FIELDS", "Field", "parse_field"]

FIELDS: Final = ("request_count", "requests", "requests[N]", "last_request")
_PARTS: Final = ("method", "path", "query", "headers", "body", "json", *MAIL)
_ROOT: Final = re.compile(r"(request_count|requests|last_request)(\[-?[0-9]{1,9}\])?(?:\.(.*))?\Z")
_RULE: Final = f"known: {', '.join(FIELDS)}"


@dataclass(frozen=True, slots=True)
class Field:
    """One field.

    Attributes:
        text: As it was written.
        index: Which of the matching requests, negative from the end; None for all of them.
        place: What of that request; None for ``request_count`` and ``requests``.
    """

    text: str
    index: int | None
    place: Place | None

    @property
    def is_count(self) -> bool:
        """Whether it is the number of requests."""
        return self.text == "request_count"


def parse_field(written: object) -> tuple[Field | None, Fault | None]:
    """Read a field; the fault's path is empty."""
    if not isinstance(written, str):
        return None, Fault((), "must be text", got=shown(written), rule=_RULE)
    found = _ROOT.match(written)
    if found is None:
        return None, _unknown(written)
    root, bracket, rest = found.groups()
    if root == "request_count" or (root == "requests" and bracket is None):
        if bracket is None and rest is None:
            return Field(written, None, None), None
        if bracket is not None:
            return None, _unknown(written)
        fix = f"write 'last_request.{rest}' or 'requests[0].{rest}'"
        problem = "is not of one request" if root == "requests" else "has no parts"
        return None, Fault((), problem, got=quoted(written), rule=_RULE, fix=fix)
    if root == "last_request" and bracket is not None:
        fix = f"write 'requests{bracket}'"
        return None, Fault((), "is one request", got=quoted(written), fix=fix)
    index = -1 if bracket is None else int(bracket[1:-1])
    if rest is None:
        return Field(written, index, Place(written, "whole")), None
    part, fault = _part(written, rest)
    return (None if part is None else Field(written, index, part)), fault


def _unknown(written: str) -> Fault:
    head = re.split(r"[.\[]", written, maxsplit=1)[0]
    near = nearest(head, ("request_count", "requests", "last_request"))
    fix = f"write '{near}'" if near and near != head else None
    return Fault((), "unknown field", got=quoted(written), rule=_RULE, fix=fix)


def _part(written: str, rest: str) -> tuple[Place | None, Fault | None]:
    head, dot, tail = rest.partition(".")
    if head.startswith("json[") or (head == "json" and dot):
        return _json(written, rest.removeprefix("json").removeprefix("."))
    if head not in _PARTS:
        near = nearest(head, _PARTS)
        fix = f"write '{near}'" if near else f"write 'json.{rest}' for a key of the body"
        rule = f"known: {', '.join(_PARTS)}"
        return None, Fault((), "unknown part of a request", got=quoted(head), rule=rule, fix=fix)
    if head in ("query", "headers") and dot:
        if head == "headers":
            fault = header_fault(tail)
            if fault is not None:
                return None, Fault((), fault.problem, got=quoted(written), code=fault.code)
            tail = tail.lower()
        if not tail:
            return None, Fault((), "a name is missing after '.'", got=quoted(written))
        return Place(written, head, tail), None
    if dot:
        advice = f"write 'json.{tail}' for a key of the body" if head == "body" else None
        return None, Fault((), f"'{head}' has no parts", got=quoted(written), fix=advice)
    if head in MAIL:
        return mail_place(head, written.removesuffix(head)), None
    return Place(written, head), None


def _json(written: str, path: str) -> tuple[Place | None, Fault | None]:
    try:
        return Place(written, "json", None, parse_path(path)), None
    except ValueError as error:
        return None, Fault((), str(error), got=quoted(written))
