"""Evidence as it is enclosed: one row for the output where it was cut, one for each check.

A row of a check holds the c1 text of what was gathered for it. Where a secret had to be masked in
it, or it is too large, the text stays out, and the finding is the signer's word.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_evarness.checks.evidence import Gathered
from pytest_evarness.core.c1 import sha256_text
from pytest_evarness.core.c1 import text as c1_text
from pytest_evarness.errors import UnverifiedError

if TYPE_CHECKING:
    from pytest_evarness.checks.evidence import Evidence
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.core.secret import Masker

__all__ = ["MAX_EVIDENCE_BYTES", "STATES", "check_rows", "gathered_of", "output_row", "row_of"]

MAX_EVIDENCE_BYTES = 256 * 1024

STATES = ("enclosed", "masked", "too_large")


def row_of(kind: str, item: str, text: str, *, state: str = "enclosed") -> dict[str, str]:
    """A row; its text stays out unless it is enclosed."""
    return {
        "kind": kind,
        "item": item,
        "state": state,
        "digest": sha256_text(text),
        "text": text if state == "enclosed" else "",
    }


def output_row(text: str) -> dict[str, str]:
    """The row of a whole output."""
    return row_of("output", "expect", text)


def check_rows(
    items: Sequence[PlannedItem],
    evidence: Evidence,
    masker: Masker | None,
    masked: frozenset[str] = frozenset(),
) -> tuple[dict[str, str], ...]:
    """One row for each check, in the order of the items.

    Args:
        items: Of the case.
        evidence: With what was gathered, secrets in it.
        masker: None where the case has no secrets.
        masked: Findings in whose texts a secret was masked.
    """
    rows = []
    for item in items:
        if not item.is_check:
            continue
        gathered = evidence.gathered[item.id]
        record: Any = gathered.as_record()
        text = c1_text(record)
        state = "enclosed"
        if masker:
            clean = c1_text(masker.value(json.loads(text)))
            if clean != text or item.id in masked:
                # The digest is that of the masked text: one of the true text could be guessed from.
                text, state = clean, "masked"
        if state == "enclosed" and len(text) > MAX_EVIDENCE_BYTES:
            state = "too_large"
        rows.append(row_of("check", item.id, text, state=state))
    return tuple(rows)


def gathered_of(row: Mapping[str, Any], place: str) -> Gathered:
    """What an enclosed row says was gathered.

    Raises:
        UnverifiedError: It says nothing of that form.
    """
    try:
        return Gathered.from_record(json.loads(row["text"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnverifiedError(f"{place}: no evidence of a check ({error})") from error
