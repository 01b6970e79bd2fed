"""A statement as reports read it: plan and findings side by side, texts resolved.

Every report goes through here, so that none of them sees an item that another does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_evarness.bundle.lookup import definitions_of, texts_of
from pytest_evarness.core.finding import Finding
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.core.plan import PlannedItem

if TYPE_CHECKING:
    from pytest_evarness.core.trace import TraceEvent

__all__ = ["JudgedCase", "JudgedItem", "judged_cases"]


@dataclass(frozen=True, slots=True)
class JudgedItem:
    """An item of the plan and what was found.

    Attributes:
        nodeid: Of the item.
        finding: None where its case did not run to a judgement.
        why_not: That it was not selected and why, ``deselected by -k x``; None where it was.
        shows: ``passed``, ``vacuous``, ``failed``, ``missed``, ``indeterminate`` (it blocks),
            ``undecided`` (it does not), ``skipped`` (``score`` beside a gate that decides), or
            ``not_run``; of what was found, whether or not it was selected.
        reviews: ``{case, invariant, reviewer, note}``: what persons said of it, never counted.
    """

    nodeid: str
    item: PlannedItem
    finding: Finding | None
    why_not: str | None
    shows: str
    reviews: tuple[Mapping[str, str], ...] = ()


class JudgedCase:
    """A planned case and, where it ran, how it came out.

    Attributes:
        planned: Its entry in the plan.
        record: Its entry among the cases; None where it did not run to a judgement.
        bundle: The file it was read from, as a command would name it.
    """

    def __init__(
        self,
        planned: Mapping[str, Any],
        record: Mapping[str, Any] | None,
        definitions: Mapping[str, Any],
        texts: Mapping[str, str],
        reviews: Sequence[Mapping[str, str]] = (),
        bundle: str = "BUNDLE",
    ) -> None:
        self.bundle = bundle
        self.planned = planned
        self.record = record
        self._definitions = definitions
        self._texts = texts
        self._reviews = reviews

    @property
    def nodeid(self) -> str:
        """Node id of the case, unique in the session."""
        return str(self.planned["nodeid"])

    @property
    def verdict(self) -> str | None:
        """The hard verdict; None where it did not run to a judgement."""
        return None if self.record is None else str(self.record["verdict"])

    @property
    def replica(self) -> Mapping[str, Any]:
        """The one replica; only for a case that ran."""
        assert self.record is not None, "a case that did not run has no replica"
        replica: Mapping[str, Any] = self.record["replicas"][0]
        return replica

    @cached_property
    def events(self) -> list[TraceEvent] | None:
        """Events of run A; None where they are not enclosed."""
        if self.record is None or self.replica["events"] is None:
            return None
        return [json.loads(text) for text in self.replica["events"]]

    @cached_property
    def world(self) -> Mapping[str, Any]:
        """The end state of run A; empty where the case did not run or declares no world."""
        if self.record is None:
            return {}
        world: Mapping[str, Any] = json.loads(self.replica["world"])
        return world

    @cached_property
    def graph(self) -> Mapping[str, Any] | None:
        """The graph document that ran; None where the case did not run."""
        if self.record is None:
            return None
        graph: Mapping[str, Any] = json.loads(self._texts[self.record["inputs"]["graph"]])
        return graph

    @cached_property
    def items(self) -> list[JudgedItem]:
        """One for each planned item, in the order in which pytest shows them."""
        return list(self._items())

    def _items(self) -> Iterator[JudgedItem]:
        records = None if self.record is None else self.replica["findings"]
        for index, sealed in enumerate(self.planned["items"]):
            definition = sealed["definition"]
            item = PlannedItem.from_record(
                {
                    **sealed,
                    "definition": None if definition is None else self._definitions[definition],
                }
            )
            finding = None
            if records is not None:
                found = records[index]
                finding = Finding.from_record({**found, "witness": json.loads(found["witness"])})
            yield JudgedItem(
                nodeid=f"{self.nodeid}::{item.id}",
                item=item,
                finding=finding,
                why_not=None if sealed["selected"] else _deselected(str(sealed["why"])),
                shows=self._shows(item, finding),
                reviews=tuple(
                    one
                    for one in self._reviews
                    if (one["case"], one["invariant"]) == (self.nodeid, item.id)
                ),
            )

    def _shows(self, item: PlannedItem, finding: Finding | None) -> str:
        """Source: docs/verdicts.md, "How it shows in pytest"."""
        if finding is None:
            return "not_run"
        if item.kind == "score" and self.verdict != "valid":
            # The gate already shows what is wrong: one root cause makes one failure.
            return "skipped"
        if finding.outcome is Outcome.PASS:
            return "vacuous" if finding.vacuous else "passed"
        if finding.outcome is Outcome.FAIL:
            return "failed" if item.decides else "missed"
        blocks = item.decides and self.planned["mode"] == "release"
        return "indeterminate" if blocks else "undecided"


def _deselected(why: str) -> str:
    return why if why.startswith("deselected") else f"deselected ({why})"


def judged_cases(statement: Mapping[str, Any], *, bundle: str = "BUNDLE") -> list[JudgedCase]:
    """Every planned case, in the order of the plan.

    Args:
        statement: A statement of this package, or one whose shape and consistency were checked.
        bundle: The file it was read from, as a command would name it.
    """
    predicate = statement["predicate"]
    seal = predicate["seal"]
    definitions = definitions_of(seal)
    texts = texts_of(predicate)
    record_by_nodeid = {case["nodeid"]: case for case in predicate["cases"]}
    return [
        JudgedCase(
            planned,
            record_by_nodeid.get(planned["nodeid"]),
            definitions,
            texts,
            seal["reviews"],
            bundle,
        )
        for planned in seal["plan"]
    ]
