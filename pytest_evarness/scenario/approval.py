"""Decisions given on the command line: ``CASE:NODE=approve``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_evarness.errors import UsageError
from pytest_evarness.source.quote import nearest, one_of, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["OPTION", "Approval", "check_cases", "parse_approval"]

OPTION = "--evarness-approve"

_DECISIONS = ("approve", "reject")


@dataclass(frozen=True, slots=True)
class Approval:
    """One decision for a case and its matrix points.

    Attributes:
        case: The id of a case before the matrix.
        node: The approval gate.
        decision: ``approve`` or ``reject``.
        text: As it was written.
    """

    case: str
    node: str
    decision: str
    text: str


def parse_approval(text: str) -> Approval:
    """Read ``CASE:NODE=approve`` or ``CASE:NODE=reject``.

    Raises:
        UsageError: Any other form or word.
    """
    case, colon, rest = text.partition(":")
    node, equals, decision = rest.rpartition("=")
    if not (case and colon and node and equals):
        raise UsageError(
            f"{OPTION}: must be CASE:NODE=approve or CASE:NODE=reject (got {quoted(text)})"
        )
    if decision not in _DECISIONS:
        near = nearest(decision, _DECISIONS)
        raise UsageError(
            f"{OPTION}: the decision must be approve or reject (got {quoted(decision)})",
            fix=f"write '{case}:{node}={near}'" if near else None,
        )
    return Approval(case, node, decision, text)


def check_cases(approvals: Iterable[str | Approval], case_ids: Sequence[str]) -> None:
    """Refuse a decision for a case that no loaded file has.

    Args:
        approvals: As written, or parsed.
        case_ids: Ids before the matrix of all cases that were loaded.

    Raises:
        UsageError: One names no case.
    """
    known = sorted(set(case_ids))
    for one in approvals:
        approval = parse_approval(one) if isinstance(one, str) else one
        if approval.case not in known:
            near = nearest(approval.case, known)
            raise UsageError(
                f"{OPTION}: no such case (got {quoted(approval.case)};"
                f" cases: {one_of(known) or 'none'})",
                fix=f"write '{near}:{approval.node}={approval.decision}'" if near else None,
            )
