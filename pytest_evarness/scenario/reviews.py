"""``evarness/reviews.yaml``: what persons said about findings, shown beside them, never counted.

Source: docs/judges.md, "Reviews".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter

from pytest_evarness.core.secret import masker_of
from pytest_evarness.errors import Fault, InputError
from pytest_evarness.source.document import load_document, raise_all
from pytest_evarness.source.limit import MAX_MISTAKES
from pytest_evarness.source.model import Strict, parse_type
from pytest_evarness.source.quote import nearest, quoted

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MAX_NOTE", "NAME", "reviews_of"]

NAME = "evarness/reviews.yaml"
"""The file, as seen from the root directory."""

MAX_NOTE = 4_000
"""Characters of a note."""

_KEYS = ("case", "invariant", "reviewer", "note")

_SAID = ("reviewer", "note")
"""What a person wrote; the other two are ids."""

_Word = Annotated[str, Field(min_length=1, max_length=500)]


class Review(Strict):
    """One entry of the file."""

    case: _Word = Field(description="Node id of the case, as the review queue names it.")
    invariant: _Word = Field(description="Id of the finding.")
    reviewer: _Word = Field(description="Who says it.")
    note: Annotated[str, Field(min_length=1, max_length=MAX_NOTE)]


_REVIEWS: TypeAdapter[Any] = TypeAdapter(list[Review])


def reviews_of(
    root: Path, plan: Sequence[Mapping[str, Any]], *, secrets: Iterable[str] = ()
) -> list[dict[str, str]]:
    """The entries about cases of a plan, sorted; those about other files wait for their session.

    Args:
        root: The project's root directory.
        plan: Planned cases, as a seal has them.
        secrets: Names of the secrets of these cases; no word of a person shows one.

    Returns:
        ``{case, invariant, reviewer, note}`` each; empty where there is no file.

    Raises:
        InputError: The file cannot be used; every mistake is told with its place.
    """
    path = root / NAME
    if not path.exists():
        return []
    if not path.resolve().is_relative_to(root.resolve()):
        raise InputError(f"{NAME}: leads out of the root directory, and nothing there is read")
    document = load_document(path, shown=NAME)
    if document.value is None:
        fault = Fault((), "is empty", rule="a list of entries", fix="remove it, or write '[]'")
        raise document.error(fault)
    entries: list[Review] | None
    entries, faults = parse_type(_REVIEWS, list[Review], document.value)
    raise_all([document.error(fault) for fault in faults])
    assert entries is not None, "without a fault there is a value"
    items_by_case = {case["nodeid"]: [str(item["id"]) for item in case["items"]] for case in plan}
    files = {str(case["file"]) for case in plan}
    seen: dict[tuple[str, ...], int] = {}
    rows = []
    for index, entry in enumerate(entries):
        if len(faults) >= MAX_MISTAKES:
            break
        row = {key: str(getattr(entry, key)) for key in _KEYS}
        found = _fault(row, index, items_by_case, files)
        identity = tuple(row.values())
        if found is None and identity in seen:
            found = Fault((index,), "stands there twice", rule=f"entry {seen[identity] + 1} is it")
        seen.setdefault(identity, index)
        if found is not None:
            faults.append(found)
        elif row["case"] in items_by_case:
            rows.append(row)
    raise_all([document.error(fault) for fault in faults])
    masker = masker_of(secrets, os.environ)
    rows = [{**row, **{key: masker.text(row[key]) for key in _SAID}} for row in rows]
    return sorted(rows, key=lambda row: [row[key] for key in _KEYS])


def _fault(
    row: Mapping[str, str],
    index: int,
    items_by_case: Mapping[str, Sequence[str]],
    files: set[str],
) -> Fault | None:
    """What an entry names and this session knows not to be there."""
    case = row["case"]
    file, colons, _ = case.rpartition("::")
    if not colons or not file:
        return Fault(
            (index, "case"),
            "must be the node id of a case",
            got=quoted(case),
            rule="as the review queue names it, such as scenarios/x.yaml::default",
            fix=_written(case, items_by_case),
        )
    if case not in items_by_case:
        if file not in files:
            return None
        return Fault(
            (index, "case"),
            "names no case of that file",
            got=quoted(case),
            fix=_written(case, items_by_case),
        )
    if row["invariant"] not in items_by_case[case]:
        return Fault(
            (index, "invariant"),
            "names no finding of that case",
            got=quoted(row["invariant"]),
            fix=_written(row["invariant"], items_by_case[case]),
        )
    return None


def _written(name: str, known: Mapping[str, Any] | Sequence[str]) -> str | None:
    near = nearest(name, list(known))
    return f"write '{near}'" if near else None
