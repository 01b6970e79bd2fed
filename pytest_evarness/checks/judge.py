"""One case judged: every item, the hard verdict, then the quality.

The session and the offline verifier call the same function, so a bundle's findings can be made
again from what it encloses.

Source: docs/verdicts.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.checks.composite import Composite, weigh
from pytest_evarness.checks.expectation import declared_status, judge_expectation
from pytest_evarness.checks.forbidden import judge_forbidden
from pytest_evarness.checks.found import bounded, bounded_text, found
from pytest_evarness.checks.reproduction import judge_reproduction
from pytest_evarness.checks.sources import WORLD_TYPES, Sources, readable
from pytest_evarness.core.event import is_tainted
from pytest_evarness.core.expression import Patience
from pytest_evarness.core.finding import Finding, Witness
from pytest_evarness.core.json import shown
from pytest_evarness.core.matcher import holds_secret
from pytest_evarness.core.outcome import Cause, Outcome, worst
from pytest_evarness.core.plan import ALWAYS_THERE
from pytest_evarness.core.stranger import pass_on

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_evarness.checks.evidence import Evidence
    from pytest_evarness.checks.kind import CheckKind, Facts
    from pytest_evarness.contract.evaluate import Evaluator
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.secret import Masker
    from pytest_evarness.core.trace import Trace, TraceEvent

__all__ = ["VERDICTS", "Judge", "Judgement"]

MAX_EVALUATORS = 256

VERDICTS = {
    Outcome.PASS: "valid",
    Outcome.INDETERMINATE: "indeterminate",
    Outcome.FAIL: "invalid",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """How a case came out.

    Attributes:
        findings: One for each item, in the items' order.
        verdict: ``valid``, ``invalid`` or ``indeterminate``: the conjunction of the gates.
        composite: None without a threshold.
        primary: Id of the failed item that comes first in the trace; ties by declaration.
        score_skipped: Where ``score`` has no say of its own: the gate that failed or is undecided.
        masked: Ids of findings in whose texts a secret was masked: nobody can make them again
            without it.
    """

    findings: tuple[Finding, ...]
    verdict: str
    composite: Composite | None
    primary: str | None
    score_skipped: str | None
    masked: frozenset[str] = frozenset()

    def masked_by(self, masker: Masker) -> Judgement:
        """The same with every secret in a finding's texts replaced."""
        findings = []
        masked = set(self.masked)
        for finding in self.findings:
            witness = finding.witness.as_record()
            texts = [finding.reason, list(finding.looked_at), witness]
            clean: list[Any] = masker.shown(texts)
            if clean == texts:
                findings.append(finding)
                continue
            masked.add(finding.id)
            findings.append(
                finding.with_(
                    reason=clean[0],
                    looked_at=tuple(clean[1]),
                    witness=Witness.from_record({**clean[2], "events": witness["events"]}),
                )
            )
        return replace(self, findings=tuple(findings), masked=frozenset(masked))


class Judge:
    """Judges cases; contracts are parsed once for all cases that share their definition."""

    def __init__(self, registry: Registry, *, strict_vacuity: bool = False) -> None:
        self.registry = registry
        self.strict_vacuity = strict_vacuity
        self._contracts: dict[int, tuple[object, Contract | str]] = {}
        self._by_text: dict[str, Contract | str] = {}
        self._items: dict[int, tuple[PlannedItem, PlannedItem]] = {}
        self._asking: dict[int, tuple[object, bool]] = {}
        self._evaluators: dict[tuple[tuple[int, ...], frozenset[str] | None], Evaluator] = {}

    def judge(
        self,
        items: Sequence[PlannedItem],
        evidence: Evidence,
        *,
        threshold: Fraction | None,
        given: Mapping[str, Finding] | None = None,
        is_diagnostic: bool = False,
    ) -> Judgement:
        """Judge every item of a case on run A's evidence; run B serves ``reproduces`` alone.

        Args:
            given: Findings, by item id, that cannot be made again here and are taken as they are:
                what a verifier takes on the signer's word.
            is_diagnostic: The case is an observation, so it is never valid, whatever it shows.
        """
        by_id: dict[str, Finding] = {}
        pause_is_end = any(
            item.kind == "expect" and declared_status(item) == "paused" for item in items
        )
        sources = Sources(evidence, self.registry)
        evidence = readable(evidence)
        for item in items:
            if item.kind == "expect":
                made = judge_expectation(self._sealed(item), evidence)
                by_id[item.id] = _whole(made, sources)
            elif item.kind == "reproduces":
                by_id[item.id] = judge_reproduction(item, evidence)
            elif item.kind == "forbidden":
                made = judge_forbidden(item, evidence, pause_is_end=pause_is_end)
                by_id[item.id] = _whole(made, sources, looks_at_world=True)
        by_id.update(self._judge_contracts(items, evidence, sources, pause_is_end=pause_is_end))
        taken = given or {}
        for item in items:
            if item.kind != "score" and not item.is_check:
                by_id[item.id] = self._settled(item, taken.get(item.id, by_id.get(item.id)))
        for item in self._in_order([item for item in items if item.is_check]):
            finding = taken.get(item.id)
            if finding is None:
                finding = self._judge_check(item, evidence, by_id, pause_is_end=pause_is_end)
                finding = self._confirmed(item, finding, evidence, sources)
            by_id[item.id] = self._settled(item, finding)
        self._note_all_vacuous(items, by_id)
        if is_diagnostic:
            _note_observation(items, by_id, evidence)

        gates = [by_id[item.id] for item in items if item.gate]
        hard = worst(finding.outcome for finding in gates)
        composite = None
        skipped = None
        if threshold is not None:
            weighed = [
                by_id[item.id]
                for item in items
                if item.kind != "score" and (item.weight > 0 and not item.informational)
            ]
            composite = weigh(weighed, threshold, hard)
            skipped = next((gate.id for gate in gates if gate.outcome is hard), None)
            skipped = None if hard is Outcome.PASS else skipped
            for item in items:
                if item.kind == "score":
                    by_id[item.id] = _score(item, composite, hard, skipped)
        return Judgement(
            findings=tuple(by_id[item.id] for item in items),
            verdict=VERDICTS[hard],
            composite=composite,
            primary=_primary(items, by_id, evidence),
            score_skipped=skipped,
        )

    def _sealed(self, item: PlannedItem) -> PlannedItem:
        """The item as a verifier reads it: keys in the order of the sealed text."""
        kept = self._items.get(id(item))
        if kept is None or kept[0] is not item:
            from pytest_evarness.core import c1

            sealed = replace(item, definition=json.loads(c1.text(item.definition)))
            kept = (item, sealed)
            if len(self._items) >= MAX_EVALUATORS:
                self._items.clear()
            self._items[id(item)] = kept
        return kept[1]

    # -- checks ----------------------------------------------------------------------------

    def _kind(self, item: PlannedItem) -> CheckKind | None:
        return cast("CheckKind | None", self.registry.check_types.find(item.kind))

    def _in_order(self, items: Sequence[PlannedItem]) -> list[PlannedItem]:
        """Checks in file order, each behind those whose findings it looks at; models come last.

        What a model says is shown beside the gates, so these have to be judged by then.
        """
        waiting = {item.id: item for item in items}
        ordered: list[PlannedItem] = []

        def take(item: PlannedItem) -> None:
            # Taken out first: a circle, which the loader refuses, would end here all the same.
            del waiting[item.id]
            kind = self._kind(item)
            follows = frozenset() if kind is None else kind.follows(item.definition or {})
            for name in sorted(follows):
                if name in waiting:
                    take(waiting[name])
            ordered.append(item)

        for item in sorted(items, key=self._is_late):
            if item.id in waiting:
                take(item)
        return ordered

    def _is_late(self, item: PlannedItem) -> bool:
        kind = self._kind(item)
        try:
            return kind is not None and kind.after_verdict
        except BaseException as error:  # noqa: BLE001 - a broken kind is told when it judges
            pass_on(error)
            return False

    def _judge_check(
        self,
        item: PlannedItem,
        evidence: Evidence,
        by_id: Mapping[str, Finding],
        *,
        pause_is_end: bool,
    ) -> Finding:
        """Judge one check on what it gathered, twice, each time on its own copy."""
        from pytest_evarness.checks.kind import Facts, UnavailableError

        kind = self._kind(item)
        got = evidence.gathered.get(item.id)
        if kind is None:
            return _undecided(item, f"no check type '{item.kind}' is known here")
        if got is None:
            return _undecided(item, "nothing was gathered for it")
        if got.record is None:
            witness = Witness(notes=got.notes)
            return found(
                item, Outcome.INDETERMINATE, got.reason, causes=got.causes, witness=witness
            )
        facts = Facts(
            world=evidence.world,
            events=evidence.events,
            status=evidence.a.status,
            output=evidence.output,
            findings=dict(by_id),
        )
        item = self._sealed(item)
        trace = _trace(evidence, pause_is_end=pause_is_end)
        results = []
        for _ in range(2):
            try:
                # Each time its own: the second look has to be able to come out as the first.
                with Patience():
                    made = _held(item, kind.judge(item, _copy(got.record), facts))
                if not trace.closed and not _stays(kind, item, _copy(got.record), facts, made):
                    made = _left_open(item, made, trace, evidence.a.status)
                results.append(made)
            except UnavailableError as error:
                results.append(
                    found(item, Outcome.INDETERMINATE, error.reason, causes=(error.cause,))
                )
            except BaseException as error:  # noqa: BLE001 - a finding, never a crash
                pass_on(error)
                text = " ".join(str(error).split())[:1000]
                return _undecided(item, f"the check broke: {type(error).__name__}: {text}")
        first, second = results
        if first != second:
            return _undecided(
                item,
                _parted(first, second),
            )
        return first

    def _confirmed(
        self, item: PlannedItem, finding: Finding, evidence: Evidence, sources: Sources
    ) -> Finding:
        """A pass that the sealed world, or another account of it, does not deny."""
        from pytest_evarness.checks.kind import UnavailableError

        got, kind = evidence.gathered.get(item.id), self._kind(item)
        if finding.outcome is not Outcome.PASS or kind is None or got is None or got.record is None:
            return finding
        if sources.faults:
            # How the run ended is in doubt, and with it whether the world is what it left.
            return _whole(finding, sources)
        definition = self._sealed(item).definition or {}
        try:
            needs = kind.needs(definition)
            problem = kind.consistent(definition, _copy(got.record), evidence.world)
        except UnavailableError:
            problem = None
        except BaseException as error:  # noqa: BLE001 - a finding, never a crash
            pass_on(error)
            return _undecided(item, f"the check broke: {type(error).__name__}")
        if problem is not None and not holds_secret(evidence.world):
            text = f"the sealed world says otherwise than what was gathered: {problem}"
            return _contradicted(finding, (Cause.CONTRADICTORY_EVIDENCE,), (text,))
        if ("output" in needs or kind.follows(definition)) and sources.output is not None:
            return _contradicted(finding, (sources.output.cause,), (sources.output.text,))
        if not any(need != "output" for need in needs):
            return finding
        services = {need.removeprefix("service:") for need in needs}
        doubts = [
            one
            for one in sources.doubts
            if one.cause is Cause.STALE_EVIDENCE or one.services & services
        ]
        if not doubts:
            return finding
        causes = Cause.ordered(one.cause for one in doubts)
        return _contradicted(finding, causes, tuple(one.text for one in doubts))

    # -- contracts -------------------------------------------------------------------------

    def judge_contracts(
        self, items: Sequence[PlannedItem], evidence: Evidence, *, pause_is_end: bool
    ) -> list[Finding]:
        """Judge contracts alone, each as it would come out beside the rest of its case.

        Args:
            items: Of the kinds ``contract`` and ``trace``.
            evidence: Of the runs.
            pause_is_end: Whether the case declares that it ends paused.

        Returns:
            One finding for each item, in their order.
        """
        sources = Sources(evidence, self.registry)
        evidence = readable(evidence)
        by_id = self._judge_contracts(items, evidence, sources, pause_is_end=pause_is_end)
        return [self._settled(item, by_id[item.id]) for item in items]

    def _judge_contracts(
        self,
        items: Sequence[PlannedItem],
        evidence: Evidence,
        sources: Sources,
        *,
        pause_is_end: bool,
    ) -> dict[str, Finding]:
        by_id: dict[str, Finding] = {}
        wanted: list[tuple[PlannedItem, Contract]] = []
        for item in items:
            if item.kind not in ("contract", "trace"):
                continue
            if item.broken is not None:
                by_id[item.id] = _undecided(item, item.broken)
            elif item.applies is not None:
                by_id[item.id] = found(
                    item, Outcome.PASS, f"does not apply: {item.applies}", vacuous=True
                )
            else:
                contract = self._contract(item)
                if isinstance(contract, str):
                    by_id[item.id] = _undecided(item, contract)
                else:
                    wanted.append((item, contract))
        if wanted:
            trace = _trace(evidence, pause_is_end=pause_is_end)
            if sources.faults:
                trace = replace(trace, faults=sources.faults)
            evaluator = self._evaluator([contract for _, contract in wanted], evidence.possible)
            results = evaluator.evaluate(trace)
            # The evaluator has no state; a predicate of somebody's own may have one.
            asks = any(self._asks_predicates(item) for item, _ in wanted)
            again = evaluator.evaluate(trace) if asks else results
            holed = self._with_holes([contract for _, contract in wanted], trace, sources)
            for place, (item, _) in enumerate(wanted):
                result, other = results[place], again[place]
                if result != other:
                    by_id[item.id] = _undecided(item, _parted(result, other))
                    continue
                if holed is not None:
                    result = _doubted(result, holed[place], sources)
                if result.outcome is not Outcome.PASS:
                    result = result.with_(
                        reason=bounded_text(result.reason), witness=bounded(result.witness)
                    )
                by_id[item.id] = result.with_(
                    id=item.id,
                    kind=item.kind,
                    version=item.version,
                    gate=item.gate,
                    weight=item.weight,
                    severity=item.severity,
                    label=item.label,
                )
        return by_id

    def _with_holes(
        self, contracts: list[Contract], trace: Trace, sources: Sources
    ) -> list[Finding] | None:
        """The same contracts where the trace is no account of what another source denies.

        Returns:
            None where no source disagrees about anything that they ask for.
        """
        named = frozenset().union(*(contract.required_types for contract in contracts))
        any_type = any(not contract.required_types for contract in contracts)
        if not (any_type or named & WORLD_TYPES) or not sources.doubts:
            return None
        lost = frozenset().union(*(doubt.types for doubt in sources.doubts))
        known = {name for name, _ in self.registry.event_types.items()}
        known.update(event["type"] for event in trace.events)
        holed = replace(trace, coverage=frozenset(known | named) - lost)
        return self._evaluator(contracts, None).evaluate(holed)

    def _asks_predicates(self, item: PlannedItem) -> bool:
        """Whether a contract names a function; asked once for each definition."""
        from pytest_evarness.core import c1

        definition = item.definition
        kept = self._asking.get(id(definition))
        if kept is None or kept[0] is not definition:
            # A key, not a text: inside a text the quotes would be escaped.
            asks = '"satisfies":' in c1.text(definition)
            kept = self._asking[id(definition)] = (definition, asks)
        return kept[1]

    def _evaluator(self, contracts: list[Contract], possible: frozenset[str] | None) -> Evaluator:
        """The compiled set; cases of one file mostly share it."""
        from pytest_evarness.contract.evaluate import Evaluator

        # Contracts are kept for as long as this judge lives, so their ids stay theirs.
        key = (tuple(id(contract) for contract in contracts), possible)
        kept = self._evaluators.get(key)
        if kept is None:
            if len(self._evaluators) >= MAX_EVALUATORS:
                self._evaluators.clear()
            kept = Evaluator(contracts, self.registry, possible_types=possible)
            self._evaluators[key] = kept
        return kept

    def _contract(self, item: PlannedItem) -> Contract | str:
        definition = item.definition
        assert definition is not None, f"{item.id}: a contract item without a definition"
        # Cases of one file share the definition; keeping it beside the key keeps its id valid.
        kept = self._contracts.get(id(definition))
        if kept is not None and kept[0] is definition:
            return kept[1]
        contract = self._parsed(definition)
        self._contracts[id(definition)] = (definition, contract)
        return contract

    def _parsed(self, definition: Mapping[str, Json]) -> Contract | str:
        from pytest_evarness.contract.model import from_definition
        from pytest_evarness.core import c1
        from pytest_evarness.errors import InputError

        text = c1.text(definition)
        if text not in self._by_text:
            try:
                # From the text, not from the file's order of keys: a verifier has the text alone
                # and must give the same sentences.
                self._by_text[text] = from_definition(json.loads(text), self.registry)
            except (InputError, ValueError) as error:
                problem = error.problem if isinstance(error, InputError) else str(error)
                self._by_text[text] = f"the contract cannot be read here: {problem}"
        return self._by_text[text]

    # -- vacuity, gates --------------------------------------------------------------------

    def _settled(self, item: PlannedItem, finding: Finding | None) -> Finding:
        """Apply what a vacuous pass counts as, and what a gate asks of a pass."""
        if finding is None:
            return _undecided(item, f"nothing here judges an item of kind '{item.kind}'")
        if finding.outcome is Outcome.PASS and finding.vacuous and not item.is_aside:
            policy = item.vacuous
            if policy == "pass" and self.strict_vacuity:
                policy = "indeterminate"
            if policy == "fail":
                return finding.with_(
                    outcome=Outcome.FAIL,
                    score=Fraction(0),
                    reason=f"nothing was there to judge, which counts as a fail: {finding.reason}",
                )
            if policy == "indeterminate":
                return finding.with_(
                    outcome=Outcome.INDETERMINATE,
                    score=None,
                    causes=(Cause.MISSING_EVIDENCE,),
                    reason=f"nothing was there to judge: {finding.reason}",
                )
        if item.gate and finding.outcome is Outcome.PASS and finding.score != 1:
            got = "none" if finding.score is None else f"{float(finding.score):g}"
            return finding.with_(
                outcome=Outcome.FAIL, reason=f"gate needs score 1.0, got {got}: {finding.reason}"
            )
        return finding

    def _note_all_vacuous(self, items: Sequence[PlannedItem], by_id: dict[str, Finding]) -> None:
        expect = next((item for item in items if item.kind == "expect"), None)
        if expect is None or expect.written:
            return
        counted = [
            by_id[item.id]
            for item in items
            if item.id not in ALWAYS_THERE and item.kind not in ("expect", "score")
        ]
        if any(not (one.vacuous and one.outcome is Outcome.PASS) for one in counted):
            return
        if by_id[expect.id].outcome is Outcome.PASS:
            by_id[expect.id] = by_id[expect.id].with_(
                outcome=Outcome.INDETERMINATE,
                score=None,
                causes=(Cause.MISSING_EVIDENCE,),
                decisive_seq=None,
                reason="every invariant of this case passed only because nothing was there to"
                f" violate it ({', '.join(one.id for one in counted) or 'none'})",
            )


def _note_observation(
    items: Sequence[PlannedItem], by_id: dict[str, Finding], evidence: Evidence
) -> None:
    """Let ``expect`` say that an observation is never valid.

    A run that went on behind a block fails it: what followed the block was not to happen. One that
    did not leaves it undecided: what was seen may be fine, and a release has to show it.
    """
    expect = next((item for item in items if item.kind == "expect"), None)
    if expect is None or by_id[expect.id].outcome is Outcome.FAIL:
        return
    said = by_id[expect.id]
    first = next((event["seq"] for event in evidence.events if is_tainted(event)), None)
    if first is not None:
        block = evidence.events[first - 1]
        reason = block["payload"].get("reason", "")
        by_id[expect.id] = found(
            expect,
            Outcome.FAIL,
            bounded_text(
                "the run was blocked and went on for observation, which is never valid"
                f" (blocked at event {block['seq']}: {shown(reason, 300)})"
            ),
            decisive_seq=block["seq"],
            witness=Witness(
                events=(block["seq"],),
                expected="no event behind a block",
                observed=f"{len(evidence.events) - first} tainted events behind it",
                notes=(f"without that: {said.reason}",),
                context={str(block["seq"]): _event_line(block)},
            ),
        )
    elif said.outcome is Outcome.PASS:
        by_id[expect.id] = said.with_(
            outcome=Outcome.INDETERMINATE,
            score=None,
            vacuous=False,
            causes=(Cause.MISSING_EVIDENCE,),
            decisive_seq=None,
            reason=f"a diagnostic case is an observation and never valid: {said.reason}",
        )


def _event_line(event: TraceEvent) -> str:
    node = "-" if event["node_id"] is None else event["node_id"]
    return f"{event['seq']} {event['type']} {node} {shown(event['payload'], 300)}"


def _parted(first: Finding, second: Finding) -> str:
    return (
        f"judged twice, it came out differently (first {first.outcome.word}: {first.reason},"
        f" then {second.outcome.word}: {second.reason})"
    )


def _copy(record: JsonObject) -> JsonObject:
    from pytest_evarness.core import c1

    return cast("JsonObject", json.loads(c1.text(record)))


def _held(item: PlannedItem, finding: Finding) -> Finding:
    """What a check type said, under the item's own name and within a finding's rules."""
    outcome, score, causes = finding.outcome, finding.score, Cause.ordered(finding.causes)
    if outcome is Outcome.INDETERMINATE:
        score, causes = None, causes or (Cause.EVALUATOR_ERROR,)
    else:
        causes = ()
        if score is None:
            score = Fraction(outcome is Outcome.PASS)
        if not 0 <= score <= 1:
            raise ValueError(f"a score of {score}, which is not between 0 and 1")
    named = found(item, outcome, finding.reason)
    return finding.with_(
        id=item.id,
        kind=item.kind,
        version=None,
        gate=named.gate,
        weight=named.weight,
        severity=named.severity,
        label=named.label,
        score=score,
        causes=causes,
        vacuous=finding.vacuous and outcome is Outcome.PASS,
        reason=bounded_text(finding.reason),
        witness=bounded(finding.witness),
    )


def _whole(finding: Finding, sources: Sources, *, looks_at_world: bool = False) -> Finding:
    """A pass only over a whole trace, and over the end state that this very run sealed."""
    if finding.outcome is not Outcome.PASS:
        return finding
    if sources.faults:
        text = f"the trace is malformed: {'; '.join(sources.faults)}"
        return _contradicted(finding, (Cause.MALFORMED_EVIDENCE,), (text,))
    if not looks_at_world and sources.output is not None:
        return _contradicted(finding, (sources.output.cause,), (sources.output.text,))
    if looks_at_world and sources.stale is not None:
        return _contradicted(finding, (sources.stale.cause,), (sources.stale.text,))
    return finding


def _contradicted(finding: Finding, causes: tuple[Cause, ...], texts: Sequence[str]) -> Finding:
    """What would have passed, had its evidence been beyond doubt."""
    return finding.with_(
        outcome=Outcome.INDETERMINATE,
        score=None,
        causes=causes,
        vacuous=False,
        decisive_seq=None,
        leaning=None,
        reason=bounded_text(f"{'; '.join(texts[:3])} (without that: {finding.reason})"),
        witness=bounded(replace(finding.witness, notes=(*texts, *finding.witness.notes))),
    )


def _doubted(finding: Finding, holed: Finding, sources: Sources) -> Finding:
    """What stays of a finding where another source denies a part of the trace."""
    if holed.outcome is finding.outcome:
        return finding
    texts = [doubt.text for doubt in sources.doubts]
    causes = Cause.ordered((*finding.causes, *(doubt.cause for doubt in sources.doubts)))
    return _contradicted(finding, causes, texts)


def _stays(
    kind: CheckKind, item: PlannedItem, gathered: JsonObject, facts: Facts, made: Finding
) -> bool:
    """Whether a finding over a run that did not come to an end holds all the same."""
    if made.outcome is Outcome.INDETERMINATE:
        return True
    return made.outcome is Outcome.FAIL and kind.is_final(item, gathered, facts)


def _left_open(item: PlannedItem, made: Finding, trace: Trace, status: str) -> Finding:
    """What the world held when the run stopped is not what it would have held at the end."""
    return found(
        item,
        Outcome.INDETERMINATE,
        bounded_text(
            f"the run did not come to an end ({status});"
            f" as it is, the outcome would be {made.outcome.word}: {made.reason}"
        ),
        causes=(trace.open_cause,),
        leaning=made.outcome,
        looked_at=made.looked_at,
        witness=made.witness,
    )


def _trace(evidence: Evidence, *, pause_is_end: bool) -> Trace:
    from pytest_evarness.core.run import trace_of

    return trace_of(evidence.a.status, evidence.events, pause_is_end=pause_is_end)


def _undecided(item: PlannedItem, reason: str) -> Finding:
    return found(item, Outcome.INDETERMINATE, reason, causes=(Cause.EVALUATOR_ERROR,))


def _score(item: PlannedItem, composite: Composite, hard: Outcome, skipped: str | None) -> Finding:
    threshold = f"{float(composite.threshold):g}"
    if hard is Outcome.FAIL:
        return found(
            item,
            Outcome.FAIL,
            f"skipped: invalid, the gate '{skipped}' failed, so the composite is 0",
        )
    if hard is Outcome.INDETERMINATE:
        return found(
            item,
            Outcome.INDETERMINATE,
            f"skipped: undecided, the gate '{skipped}' is indeterminate (composite {composite})",
            causes=(Cause.MISSING_EVIDENCE,),
        )
    outcome = composite.outcome
    relation = {
        Outcome.PASS: "reaches",
        Outcome.FAIL: "is below",
        Outcome.INDETERMINATE: "may or may not reach",
    }[outcome]
    finding = found(
        item,
        outcome,
        f"composite {composite} {relation} the threshold {threshold}",
        causes=(Cause.MISSING_EVIDENCE,) if outcome is Outcome.INDETERMINATE else (),
        witness=Witness(expected=f"composite >= {threshold}", observed=str(composite)),
    )
    low = composite.low
    return finding.with_(score=low) if outcome is not Outcome.INDETERMINATE else finding


def _primary(
    items: Sequence[PlannedItem], by_id: Mapping[str, Finding], evidence: Evidence
) -> str | None:
    failed = [
        (index, by_id[item.id])
        for index, item in enumerate(items)
        if by_id[item.id].outcome is Outcome.FAIL and item.kind != "score" and item.decides
    ]
    if not failed:
        return None
    if evidence.a.status == "failed":
        # A crash explains whatever else went wrong: it is named first.
        for _, finding in failed:
            if finding.kind == "expect":
                return finding.id
    last = len(evidence.events)
    failed.sort(
        key=lambda pair: (
            last if pair[1].decisive_seq is None else pair[1].decisive_seq,
            pair[0],
        )
    )
    return failed[0][1].id
