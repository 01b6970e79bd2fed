"""What may be an id, and which ids are taken."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from pytest_evarness.source.model import refuse

__all__ = ["MAX_ID", "RESERVED", "Id", "check_case_id", "check_id", "check_invariant_id"]

MAX_ID = 200

RESERVED = ("reproduces", "expect", "replicas", "score", "load")
"""Items that the tool makes itself."""


def check_id(text: str) -> str | None:
    """Why ``text`` cannot be an id, or None where it can."""
    if not text:
        return "must not be empty"
    if len(text) > MAX_ID:
        return f"is too long ({len(text)} characters; an id has at most {MAX_ID})"
    if not text.isprintable():
        return "holds a character that cannot be printed"
    if "::" in text:
        return "holds '::', which separates the parts of a node id"
    return None


def check_case_id(text: str) -> str | None:
    """Why ``text`` cannot be the id of a case, or None where it can."""
    if "[" in text or "]" in text:
        # pytest cuts an argument at its first bracket, so the case could not be selected.
        return "holds '[' or ']', which pytest reads as parameters"
    return check_id(text)


def check_invariant_id(text: str) -> str | None:
    """Why ``text`` cannot be the id of an invariant, or None where it can."""
    if text in RESERVED:
        return f"is reserved (reserved: {', '.join(RESERVED)})"
    if text.startswith("forbidden-"):
        return "is reserved (ids that begin with 'forbidden-' belong to forbidden rules)"
    return check_id(text)


def _id(text: str) -> str:
    problem = check_id(text)
    if problem is not None:
        raise refuse(f"the id {problem}")
    return text


_SCHEMA: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": MAX_ID}

Id = Annotated[str, AfterValidator(_id), WithJsonSchema(_SCHEMA)]
