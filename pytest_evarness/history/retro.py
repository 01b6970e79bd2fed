"""Today's contracts over the runs that a bundle encloses.

The result is a report of its own. What the bundle says of itself is shown beside it and stays
what it was: nothing here writes a bundle.

Source: docs/history.md, "retro".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.finding import Finding
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.history.contradiction import disagree

if TYPE_CHECKING:
    from pytest_evarness.checks.judge import Judge
    from pytest_evarness.contract.applicability import CaseFacts
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.report.judged import JudgedCase, JudgedItem

__all__ = ["Again", "CaseAgain", "judge_again", "types_of"]

_NOT_RUN = "the case was planned and did not run to a judgement, so there is no run to judge"
_DIGESTS_ONLY = "the bundle encloses digests only, so there are no events to judge"


@dataclass(frozen=True, slots=True)
class Again:
    """One contract of today over one case of then.

    Attributes:
        finding: How it comes out.
        contract: None where it could not be read.
        was: What the bundle says under the same id; None where it had no such item.
        same_rule: Whether it asserted the same then; None where there was no such item.
        contradicts: Whether that came out otherwise then, over the same events: what the bundle
            says of it is then not what these events give.
    """

    finding: Finding
    contract: Contract | None
    was: JudgedItem | None
    same_rule: bool | None
    contradicts: bool = False

    @property
    def decides(self) -> bool:
        """False for a draft, which never does."""
        return self.contract is None or self.contract.status != "draft"


@dataclass(frozen=True, slots=True)
class CaseAgain:
    """One case of the bundle's plan.

    Attributes:
        case: As the bundle has it.
        again: One for each contract, in the order given.
        outcome: The conjunction of those that decide; None where every contract is a draft, or
            had nothing to judge.
    """

    case: JudgedCase
    again: tuple[Again, ...]

    @property
    def outcome(self) -> Outcome | None:
        """Kleene's conjunction."""
        from pytest_evarness.core.outcome import worst

        decided = [one.finding for one in self.again if one.decides]
        if all(finding.vacuous and finding.outcome is Outcome.PASS for finding in decided):
            return None
        return worst([finding.outcome for finding in decided])


def types_of(cases: Sequence[JudgedCase]) -> frozenset[str]:
    """Every event type that the runs of a bundle hold."""
    return frozenset(event["type"] for case in cases for event in case.events or ())


def judge_again(
    statement: Mapping[str, Any],
    cases: Sequence[JudgedCase],
    contracts: Sequence[Contract | Finding],
    registry: Registry,
) -> list[CaseAgain]:
    """Judge every contract over run A of every planned case.

    Args:
        statement: Of a bundle whose consistency was checked.
        cases: Its cases, as reports read them.
        contracts: In the order in which findings are wanted; a finding stands for a contract that
            cannot be read.
        registry: Event types and predicates as they are known today.
    """
    from pytest_evarness.bundle.recomputation import Graphs
    from pytest_evarness.checks.judge import Judge

    judging = _Judging(
        statement, registry, Judge(registry), Graphs(statement["predicate"], registry)
    )
    return [
        CaseAgain(case, tuple(_again(case, contracts, judging.findings(case, contracts))))
        for case in cases
    ]


@dataclass(slots=True)
class _Judging:
    statement: Mapping[str, Any]
    registry: Registry
    judge: Judge
    graphs: Any

    def findings(
        self, case: JudgedCase, contracts: Sequence[Contract | Finding]
    ) -> dict[int, Finding]:
        """Findings of the readable contracts, by their place in ``contracts``."""
        readable = [
            (place, one) for place, one in enumerate(contracts) if not isinstance(one, Finding)
        ]
        facts = None
        if case.record is not None and any(one.applies_to is not None for _, one in readable):
            facts = self._facts(case)
        active = self._enforcements(case)
        items = tuple(
            item_of(contract, f"{place}", facts=facts, enforcements=active)
            for place, contract in readable
        )
        if case.record is None or case.events is None:
            reason = _NOT_RUN if case.record is None else _DIGESTS_ONLY
            return {place: _unseen(contract, reason) for place, contract in readable}
        from pytest_evarness.bundle.lookup import definition_texts
        from pytest_evarness.bundle.recomputation import evidence_of
        from pytest_evarness.bundle.summary import declares_pause

        events: Any = {(case.nodeid, "a"): list(case.events)}
        evidence = evidence_of(case.record, case.replica, events, self.registry, self.graphs, items)
        ends = declares_pause(case.planned, definition_texts(self.statement["predicate"]["seal"]))
        judged = self.judge.judge_contracts(items, evidence, pause_is_end=ends)
        return {
            place: finding.with_(id=contract.id)
            for (place, contract), finding in zip(readable, judged, strict=True)
        }

    def _enforcements(self, case: JudgedCase) -> frozenset[str]:
        """What is active in the graph of the case; nothing where a node type is not known here."""
        if case.record is None:
            return frozenset()
        inputs = case.record["inputs"]
        graph = self.graphs.find(inputs["graph"])
        if graph is None:
            return frozenset()
        environment = json.loads(inputs["compiled"])["environment"]
        domains = self.registry.domains.values()
        return frozenset().union(*(one.enforcements(graph, environment) for one in domains))

    def _facts(self, case: JudgedCase) -> CaseFacts:
        """What decides whether a contract is for the case, as it was when it ran."""
        from pytest_evarness.contract.applicability import facts_of

        assert case.record is not None, "asked of cases that ran"
        inputs = case.record["inputs"]
        overlays = json.loads(self.graphs.text(inputs["overlays"]))
        aliases: dict[str, str] = {}
        for domain in self.registry.domains.values():
            aliases.update(domain.aliases(overlays))
        tags = json.loads(inputs["scenario"]).get("tags") or ()
        return facts_of(dict(case.graph or {}), aliases, mode=case.planned["mode"], tags=tags)


def item_of(
    contract: Contract,
    name: str | None = None,
    *,
    facts: CaseFacts | None = None,
    enforcements: frozenset[str] = frozenset(),
) -> PlannedItem:
    """The contract as an item of a plan, so that it is judged as every other.

    Args:
        name: Its id in the plan; its own where none is given.
        facts: Of the case, by which it may be that the contract is not for it.
        enforcements: Active in the case's graph.
    """
    prevented = bool(contract.enforced_by) and enforcements.issuperset(contract.enforced_by)
    applies = None
    if contract.applies_to is not None and facts is not None:
        applies = contract.applies_to.why_not(facts)
    return PlannedItem(
        id=contract.id if name is None else name,
        kind="contract",
        gate=contract.gate,
        severity=contract.severity,
        version=contract.version,
        description=contract.description or contract.title,
        definition=contract.definition(),
        vacuous=contract.vacuous,
        enforced_by=contract.enforced_by,
        label="preventive" if prevented else "detection-only",
        applies=applies,
        informational=contract.status == "draft",
        untested=contract.untested,
        path=contract.path,
        line=contract.line,
    )


def _unseen(contract: Contract, reason: str) -> Finding:
    return Finding(
        id=contract.id,
        kind="contract",
        outcome=Outcome.INDETERMINATE,
        reason=reason,
        version=contract.version,
        gate=contract.gate,
        severity=contract.severity,
        causes=(Cause.MISSING_EVIDENCE,),
    )


def _again(
    case: JudgedCase,
    contracts: Sequence[Contract | Finding],
    judged: Mapping[int, Finding],
) -> Iterator[Again]:
    by_id = {one.item.id: one for one in case.items}
    for place, entry in enumerate(contracts):
        contract = None if isinstance(entry, Finding) else entry
        was = by_id.get(entry.id)
        same = None
        if was is not None and contract is not None:
            same = _asserts(was.item.definition) == _asserts(contract.definition())
        finding = entry if isinstance(entry, Finding) else judged[place]
        contradicts = (
            was is not None
            and contract is not None
            and case.events is not None
            and same is True
            and _same_facts(was.item.definition, contract.definition())
            and disagree(was.finding, finding)
        )
        yield Again(finding, contract, was, same, contradicts)


def _same_facts(then: Mapping[str, Any] | None, now: Mapping[str, Any]) -> bool:
    """Whether it was for the same cases, and nothing to judge counted as the same."""
    return all((then or {}).get(key) == now.get(key) for key in ("applies_to", "vacuous"))


def _asserts(definition: Mapping[str, Any] | None) -> str | None:
    """What it asks, as text; titles and owners change nothing of a judgement."""
    body = (definition or {}).get("assert")
    return None if body is None else json.dumps(body, sort_keys=True)
