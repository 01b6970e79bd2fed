"""What a case is judged by: every item, in the order in which it is shown.

Order and hardness: docs/verdicts.md. Nothing is judged here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pytest_evarness.checks.forbidden import DESCRIPTIONS
from pytest_evarness.contract.applicability import (
    BY_ENVIRONMENT,
    BY_GRAPH,
    BY_LIBRARY,
    BY_SCENARIO,
    INLINE,
    reason_of,
)
from pytest_evarness.core import c1
from pytest_evarness.core.outcome import Severity
from pytest_evarness.core.plan import ALWAYS_THERE, PlannedItem
from pytest_evarness.errors import DeterminismError, Fault, InputError, InputErrors
from pytest_evarness.scenario.shape import ContractCheck, Entry, GatheredCheck, TraceCheck
from pytest_evarness.source.limit import MAX_MISTAKES
from pytest_evarness.source.quote import nearest, one_of, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_evarness.contract.applicability import CaseFacts
    from pytest_evarness.contract.library import Library
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.contract.row import CorpusRow
    from pytest_evarness.core.interfaces import DerivedInvariant, Shape
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.scenario.check import ParsedCheck
    from pytest_evarness.source.place import Mark

__all__ = ["VACUITY", "Contracts", "ItemPlan", "Planner", "texts_of"]

Path_ = tuple[str | int, ...]


_NOTHING: JsonObject = {}

_BY_CASE = ("provider", "service")
"""Identities that the environment of a case declares, rather than graph or manifests."""

VACUITY = {"pass": 0, "indeterminate": 1, "fail": 2}
"""What a vacuous pass may count as, weakest first."""


class Contracts:
    """Contracts of libraries and inline ones, resolved once each for all cases of a file."""

    def __init__(self, library: Library, registry: Registry) -> None:
        self.library = library
        self.registry = registry
        self._named: dict[object, Contract | InputError] = {}
        self._inline: dict[object, tuple[object, Contract | None, list[Fault]]] = {}
        self._definitions: dict[int, tuple[Contract, JsonObject]] = {}
        self._cases_of: dict[int, tuple[Entry, frozenset[str], list[tuple[int, str]]]] = {}
        self._expectations: dict[str, JsonObject] = {}
        self._items: dict[tuple[object, ...], PlannedItem] = {}
        self._broken: dict[int, tuple[Contract, str | None]] = {}
        self._corpora: dict[object, tuple[CorpusRow, ...]] = {}
        self._pulled: dict[object, list[str] | InputError] = {}

    def pulled_in(self, facts: CaseFacts, beside: Sequence[Path]) -> list[str] | InputError:
        """Ids of contracts that libraries bring to such a case, or why that cannot be told."""
        key = (facts, tuple(beside))
        known = self._pulled.get(key)
        if known is None:
            try:
                known = self.library.pulled_in(facts, beside)
            except InputError as error:
                known = error
            self._pulled[key] = known
        return known

    def why_broken(self, contract: Contract) -> str | None:
        """Why a contract may not judge; asked once for all cases that share it."""
        known = self._broken.get(id(contract))
        if known is None:
            known = self._broken[id(contract)] = (contract, self.library.why_broken(contract))
        return known[1]

    def corpora(self, contracts: Sequence[Contract]) -> tuple[CorpusRow, ...]:
        """What the seal says of the corpora of contracts; the same object for equal sets."""
        key = tuple(dict.fromkeys((one.path, one.line, one.id) for one in contracts))
        known = self._corpora.get(key)
        if known is None:
            rows = (self.library.corpus_row(one) for one in contracts)
            known = tuple(sorted({row for row in rows if row is not None}))
            self._corpora[key] = known
        return known

    def named(
        self,
        contract_id: str,
        identities: Mapping[str, frozenset[str]],
        beside: Sequence[Path],
        shapes: tuple[Shape, ...] = (),
        aliases: Mapping[str, str] | None = None,
    ) -> Contract | InputError:
        """The contract called ``contract_id``, or why there is none."""
        key = (
            contract_id,
            tuple(sorted(identities.items())),
            tuple(beside),
            shapes,
            tuple(sorted((aliases or {}).items())),
        )
        known = self._named.get(key)
        if known is None:
            try:
                known = self.library.resolve(
                    contract_id,
                    identities=identities,
                    beside=beside,
                    shapes=shapes,
                    aliases=aliases,
                )
            except InputError as error:
                known = error
            self._named[key] = known
        return known

    def inline(
        self,
        contract_id: str,
        body: object,
        identities: Mapping[str, frozenset[str]],
        shapes: tuple[Shape, ...] = (),
        aliases: Mapping[str, str] | None = None,
        answers: Mapping[str, frozenset[str]] | None = None,
        **more: Any,
    ) -> tuple[Contract | None, list[Fault]]:
        """A contract whose ``assert`` stands in the scenario; paths begin with ``assert``."""
        from pytest_evarness.contract.model import inline_id, parse_contract

        contract_id = inline_id(contract_id)
        key = (
            contract_id,
            id(body),
            tuple(sorted(identities.items())),
            shapes,
            tuple(sorted((aliases or {}).items())),
            tuple(sorted((answers or {}).items())),
            tuple(sorted(more.items())),
        )
        known = self._inline.get(key)
        if known is None:
            contract, faults = parse_contract(
                contract_id,
                {"assert": body, **more},  # type: ignore[dict-item]
                registry=self.registry,
                identities=identities,
                label="inline",
                shapes=shapes,
                aliases=aliases,
                answers=answers,
            )
            known = (body, contract, faults)
            self._inline[key] = known
        return known[1], known[2]

    def cases_of(
        self, entry: Entry, case_ids: Mapping[str, object]
    ) -> tuple[frozenset[str], list[tuple[int, str]]]:
        """The cases an entry names, and ``(position, name)`` of those that are none.

        Looked at once for all cases that share the entry: each of many cases may be named.
        """
        known = self._cases_of.get(id(entry))
        if known is None:
            unknown = [(at, name) for at, name in enumerate(entry.cases) if name not in case_ids]
            known = (entry, frozenset(entry.cases), unknown[:MAX_MISTAKES])
            self._cases_of[id(entry)] = known
        return known[1], known[2]

    def definition(self, contract: Contract) -> JsonObject:
        """The sealed form, one object for all cases that share the contract."""
        known = self._definitions.get(id(contract))
        if known is None:
            known = (contract, contract.definition())
            self._definitions[id(contract)] = known
        return known[1]

    def expectation(self, definition: JsonObject) -> JsonObject:
        """One object for all cases that expect the same."""
        try:
            text = c1.text(definition)
        except DeterminismError:
            return definition  # told where it is sealed
        return self._expectations.setdefault(text, definition)

    def item(self, definition: JsonObject, fields: Mapping[str, Any]) -> PlannedItem:
        """One object for all cases that share the definition and every field."""
        # The item that is kept keeps its definition, and so the definition's id.
        key = (id(definition), *map(_as_key, fields.values()))
        known = self._items.get(key)
        if known is None:
            known = self._items[key] = PlannedItem(definition=definition, **fields)
        return known


@dataclass(slots=True)
class ItemPlan:
    """What a case brings to its items.

    Attributes:
        case_id: With the matrix point.
        base_id: Before the matrix.
        case_ids: All of the file, before the matrix.
        case_mark: Where the case stands.
        entries: Parsed invariants, in file order; None for one that is broken.
        checks: What the check types made of theirs, by id; one that is broken is not there.
        forbidden: ``(rule, definition)`` in file order, then what strict services bring.
        expect: Normalised.
        expect_mark: Where it stands, where that is known.
        is_expect_written: Somebody wrote it.
        graph_contracts: ``(contract id, mark)`` in the graph's order.
        derived: From the environment.
        refused: Paths below the environment of which a domain has told a mistake.
        identities: Known values at identity paths.
        answers: Known values that this file alone decides, by ``TYPE.PATH``; contracts of
            libraries are not held to them.
        words: Texts that another case of the file may bring to such a path; None for any.
        shapes: What the overlays know of payload fields.
        aliases: Other names of tools to the ids that events hold.
        beside: Folders whose contracts the case may name.
        facts: What decides which contracts are for the case.
        has_threshold: Whether the case has ``scoring.pass_threshold``.
        enforcements: Active in this case.
        mark_of: The mark of a path of the merged case.
        report: Takes a fault of the merged case.
        report_error: Takes an error that knows its own place.
    """

    case_id: str
    base_id: str
    case_ids: Mapping[str, object]
    case_mark: Mark | None
    entries: Mapping[str, Entry | None]
    checks: Mapping[str, ParsedCheck]
    forbidden: Sequence[tuple[str, JsonObject]]
    expect: JsonObject
    expect_mark: Mark | None
    is_expect_written: bool
    graph_contracts: Sequence[tuple[str, Mark | None]]
    derived: Sequence[DerivedInvariant]
    refused: Sequence[tuple[str | int, ...]]
    has_threshold: bool
    enforcements: frozenset[str]
    identities: Mapping[str, frozenset[str]]
    answers: Mapping[str, frozenset[str]]
    words: frozenset[str] | None
    shapes: tuple[Shape, ...]
    aliases: Mapping[str, str]
    beside: Sequence[Path]
    facts: CaseFacts
    own_mode: str
    mark_of: Callable[[Path_], Mark | None]
    report: Callable[[Fault], None]
    report_error: Callable[[InputError], None]


def _as_key(value: Any) -> object:
    """A fraction's own hash costs more than all the others."""
    return (value.numerator, value.denominator) if type(value) is Fraction else value


def _weighs_in(entry: Entry | None, case_id: str) -> bool:
    if entry is None:
        return False
    given = entry.model_fields_set
    has_check = "check" in given and not isinstance(entry.check, ContractCheck)
    weight = entry.weight if "weight" in given else Fraction(int(has_check))
    return weight > 0 and ("cases" not in given or case_id in entry.cases)


class Planner:
    """Plans the items of one case."""

    def __init__(self, contracts: Contracts, plan: ItemPlan, path: str) -> None:
        self.contracts = contracts
        self.plan = plan
        self.path = path
        self.items: list[PlannedItem] = []
        self.named: set[str] = set()
        self.used: list[Contract] = []
        self.files: dict[str, str] = {}
        self.warnings: list[str] = []
        self.asserts = plan.is_expect_written

    def build(self) -> list[PlannedItem]:
        """Every item of the case, in order."""
        plan = self.plan
        mark = plan.case_mark
        self._add(mark, _NOTHING, id="reproduces", kind="reproduces", gate=True)
        self._add(
            plan.expect_mark or mark,
            self.contracts.expectation({**plan.expect, "written": plan.is_expect_written}),
            id="expect",
            kind="expect",
            gate=True,
            written=plan.is_expect_written,
        )
        for rule, definition in plan.forbidden:
            self._forbidden(rule, definition)
        for entry_id, entry in plan.entries.items():
            if entry is None:
                self.asserts = True  # it is broken, which is told elsewhere
            elif self._applies(entry_id, entry):
                self._entry(entry_id, entry)
        for derived in plan.derived:
            self._derived(derived)
        for contract_id, contract_mark in plan.graph_contracts:
            if contract_id not in self.named:
                self._graph_contract(contract_id, contract_mark)
        self._pulled_in()
        if plan.has_threshold:
            self._add(
                plan.mark_of(("scoring", "pass_threshold")), _NOTHING, id="score", kind="score"
            )
            self._check_weights()
        self._check_names()
        if not self.asserts:
            plan.report(
                Fault(
                    (),
                    f"case {quoted(plan.base_id)} asserts nothing",
                    rule="an invariant, a contract, a forbidden rule, an attack's expect, or a"
                    " status, output or node in expect",
                    fix="write 'expect: {status: completed}' if that is all it shows",
                )
            )
        return self.items

    # -- one source of items each -------------------------------------------------------------

    def _applies(self, entry_id: str, entry: Entry) -> bool:
        if "cases" not in entry.model_fields_set:
            return True
        names, unknown = self.contracts.cases_of(entry, self.plan.case_ids)
        for position, name in unknown:
            near = nearest(name, self.plan.case_ids)
            self.plan.report(
                Fault(
                    ("invariants", entry_id, "cases", position),
                    "names no case",
                    got=quoted(name),
                    rule=f"cases: {one_of(self.plan.case_ids)}",
                    fix=f"write '{near}'" if near else None,
                )
            )
        return self.plan.base_id in names

    def _entry(self, entry_id: str, entry: Entry) -> None:
        given = entry.model_fields_set
        check = entry.check if "check" in given else ContractCheck(type="contract", id=entry_id)
        if isinstance(check, TraceCheck):
            self._trace_entry(entry_id, entry, check)
            return
        if isinstance(check, GatheredCheck):
            self._check_entry(entry_id, entry)
            return
        path: Path_ = ("invariants", entry_id)
        self.named.add(check.id)
        contract = self._contract(
            check.id,
            (*path, "check", "id") if "check" in given else path,
            at_key="check" not in given,
        )
        if contract is None:
            return
        gate = contract.gate
        if "gate" in given and entry.gate is not contract.gate:
            if contract.gate:
                self.plan.report(
                    Fault(
                        (*path, "gate"),
                        "a contract that is hard in its library cannot be softened",
                        got="false",
                        rule="a requirement that changes is a new version of the contract",
                        fix="remove 'gate'",
                    )
                )
            elif contract.status == "draft":
                self.plan.report(
                    Fault(
                        (*path, "gate"), "a draft cannot be a gate", got="true", fix="remove 'gate'"
                    )
                )
            else:
                gate = entry.gate
        vacuous = entry.vacuous if "vacuous" in given else contract.vacuous
        if contract.gate and VACUITY[vacuous] < VACUITY[contract.vacuous]:
            self.plan.report(
                Fault(
                    (*path, "vacuous"),
                    "a contract that is hard in its library cannot be softened",
                    got=quoted(vacuous),
                    rule=f"its vacuous pass counts as {contract.vacuous}",
                )
            )
        self._contract_item(
            self.plan.mark_of(path),
            entry_id,
            contract,
            gate=gate,
            vacuous=vacuous,
            weight=entry.weight if "weight" in given else Fraction(0),
            severity=entry.severity if "severity" in given else None,
            description=entry.description if "description" in given else None,
            enforced_by=tuple(entry.enforced_by) if "enforced_by" in given else None,
            origin=BY_SCENARIO,
        )

    def _trace_entry(self, entry_id: str, entry: Entry, check: TraceCheck) -> None:
        self.asserts = True
        given = entry.model_fields_set
        path: Path_ = ("invariants", entry_id)
        if not self._is_described(entry, path):
            return
        identities, answers = self._known(check.body)
        contract, faults = self.contracts.inline(
            entry_id,
            check.body,
            identities,
            self.plan.shapes,
            self.plan.aliases,
            answers,
        )
        for fault in faults:
            self.plan.report(fault.under(*path, "check"))
        if contract is None:
            return
        self.warnings += [f"{entry_id}: {warning}" for warning in contract.warnings]
        weight = entry.weight if "weight" in given else Fraction(1)
        self._contract_item(
            self.plan.mark_of(path),
            entry_id,
            contract,
            kind="trace",
            gate=entry.gate if "gate" in given else False,
            vacuous=entry.vacuous if "vacuous" in given else "pass",
            weight=weight,
            severity=entry.severity if "severity" in given else "major",
            description=entry.description,
            enforced_by=tuple(entry.enforced_by),
            origin=INLINE,
        )

    def _known(self, body: object) -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
        """Identities and answers, with those words of the contract that another case may bring.

        The contract is one for all cases: a name is unknown only where no case has it.
        """
        plan, words = self.plan, self.plan.words
        identities = dict(plan.identities)
        if words is None:
            for name in _BY_CASE:
                identities.pop(name, None)
            return identities, {}
        others = words.intersection(texts_of(body))
        for name in _BY_CASE:
            if name in identities:
                identities[name] |= others
        return identities, {path: known | others for path, known in plan.answers.items()}

    def _is_described(self, entry: Entry, path: Path_) -> bool:
        if "description" in entry.model_fields_set:
            return True
        self.plan.report(
            Fault(
                path,
                "required key 'description' is missing",
                rule="one sentence beside every check",
                code="missing_key",
            )
        )
        return False

    def _check_entry(self, entry_id: str, entry: Entry) -> None:
        self.asserts = True
        given = entry.model_fields_set
        path: Path_ = ("invariants", entry_id)
        parsed = self.plan.checks.get(entry_id)
        if not self._is_described(entry, path) or parsed is None:
            return
        gate = entry.gate if "gate" in given else False
        if gate and not parsed.kind.may_gate:
            self.plan.report(
                Fault(
                    (*path, "gate"),
                    f"a check of type {quoted(parsed.kind.name)} cannot be a gate",
                    got="true",
                    rule="what a model says decides nothing that is hard",
                    fix="remove 'gate', and give it a weight",
                )
            )
            gate = False
        weight = entry.weight if "weight" in given else Fraction(1)
        words = tuple(entry.enforced_by)
        self.files.update(parsed.files)
        self._add(
            self.plan.mark_of(path),
            parsed.definition,
            id=entry_id,
            kind=parsed.kind.name,
            gate=gate,
            weight=weight,
            severity=Severity(entry.severity),
            description=entry.description,
            vacuous=entry.vacuous,
            enforced_by=words,
            label=self._label(words),
            informational=self.plan.has_threshold and not gate and weight == 0,
        )

    def _forbidden(self, rule: str, definition: JsonObject) -> None:
        item_id = f"forbidden-{rule.replace('_', '-')}"
        is_written = item_id not in ALWAYS_THERE
        self.asserts = self.asserts or is_written
        mark = self.plan.mark_of(("forbidden", rule)) if is_written else self.plan.case_mark
        self._add(
            mark,
            self.contracts.expectation(definition),
            id=item_id,
            kind="forbidden",
            gate=True,
            description=DESCRIPTIONS[rule],
            written=is_written,
        )

    def _label(self, words: tuple[str, ...]) -> str:
        """What prevents it is in force, all of it, or it is only found out."""
        prevented = bool(words) and self.plan.enforcements.issuperset(words)
        return "preventive" if prevented else "detection-only"

    def _derived(self, derived: DerivedInvariant) -> None:
        self.asserts = True
        path = ("environment", *derived.path)
        contract, faults = self.contracts.inline(
            derived.id, derived.body, self.plan.identities, severity=derived_severity(derived)
        )
        is_told = any(derived.path[: len(one)] == one for one in self.plan.refused)
        for fault in () if is_told else faults:
            # The body is the domain's own; only its place is the user's.
            self.plan.report(Fault(path, fault.text, fix=fault.fix))
        if contract is not None:
            self._contract_item(
                self.plan.mark_of(path),
                derived.id,
                contract,
                kind="trace",
                gate=True,
                vacuous=str(getattr(derived, "vacuous", "pass")),
                weight=Fraction(0),
                severity=derived_severity(derived),
                description=derived.description,
                enforced_by=(),
                origin=BY_ENVIRONMENT,
            )

    def _graph_contract(self, contract_id: str, mark: Mark | None) -> None:
        contract = self._contract(contract_id, ("subject", "graph"), mark=mark)
        if contract is not None:
            self._contract_item(
                mark or self.plan.mark_of(("subject", "graph")),
                contract_id,
                contract,
                gate=contract.gate,
                vacuous=contract.vacuous,
                weight=Fraction(0),
                origin=BY_GRAPH,
            )
        self.named.add(contract_id)

    def _pulled_in(self) -> None:
        """Contracts that nobody names and that say themselves that they are for this case."""
        tools = self.plan.identities.get("tool", ())
        self.contracts.library.meet(tools, self.plan.aliases, self.plan.facts.tags)
        found = self.contracts.pulled_in(self.plan.facts, self.plan.beside)
        if isinstance(found, InputError):
            self.plan.report_error(found)
            return
        aside = self._set_aside(found)
        for contract_id in sorted({*found, *aside}):
            if contract_id in self.named:
                continue
            contract = self._contract(contract_id, ())
            if contract is None:
                continue
            if contract_id in aside:
                self.warnings.append(self._by_mode(contract))
            self._contract_item(
                None,
                contract_id,
                contract,
                gate=contract.gate,
                vacuous=contract.vacuous,
                weight=Fraction(0),
                origin=BY_LIBRARY,
                path=contract.path,
                line=contract.line,
            )

    def _set_aside(self, found: Sequence[str]) -> frozenset[str]:
        """Contracts of libraries that would judge, had nobody set another mode.

        They are among the items all the same, as ones that do not apply: else a word in a scenario
        or an option would take a contract away without a trace.
        """
        facts = self.plan.facts
        aside: set[str] = set()
        for mode in sorted({"release", self.plan.own_mode} - {facts.mode}):
            others = self.contracts.pulled_in(replace(facts, mode=mode), self.plan.beside)
            # What is wrong with a library was told for the mode in force.
            aside.update(() if isinstance(others, InputError) else others)
        return frozenset(aside.difference(found))

    def _by_mode(self, contract: Contract) -> str:
        """That the mode keeps a contract from judging, and who set it."""
        facts, own = self.plan.facts, self.plan.own_mode
        why = contract.applies_to.why_not(facts) if contract.applies_to is not None else None
        whose = f"; the session sets it, the scenario says {own}" if facts.mode != own else ""
        return f"contract {quoted(contract.id)} does not judge: {why}{whose}"

    def _contract(
        self, contract_id: str, path: Path_, *, at_key: bool = False, mark: Mark | None = None
    ) -> Contract | None:
        found = self.contracts.named(
            contract_id,
            self.plan.identities,
            self.plan.beside,
            self.plan.shapes,
            self.plan.aliases,
        )
        if not isinstance(found, InputError):
            if found.status == "deprecated":
                self.warnings.append(f"contract {quoted(contract_id)} is deprecated")
            self.warnings += [f"{contract_id}: {warning}" for warning in found.warnings]
            self.used.append(found)
            return found
        self.asserts = True
        has_place = found.where is not None and found.where.path is not None
        if has_place or isinstance(found, InputErrors):
            self.plan.report_error(found)  # the library's own file and line
        elif mark is not None:
            from pytest_evarness.source.place import as_where

            self.plan.report_error(
                InputError(found.problem, where=as_where(mark, "params.invariants"), fix=found.fix)
            )
        else:
            # Whoever has no contract in mind forgot the check.
            fix = found.fix or ("give it a 'check', or the id of a contract" if at_key else None)
            self.plan.report(Fault(path, found.problem, fix=fix, at_key=at_key))
        return None

    # -- items ------------------------------------------------------------------------------

    def _contract_item(
        self,
        mark: Mark | None,
        item_id: str,
        contract: Contract,
        *,
        kind: str = "contract",
        gate: bool,
        vacuous: str,
        weight: Fraction,
        origin: str,
        severity: str | None = None,
        description: str | None = None,
        enforced_by: tuple[str, ...] | None = None,
        **place: Any,
    ) -> None:
        draft = contract.status == "draft"
        facts, applies_to = self.plan.facts, contract.applies_to
        why_not = None if applies_to is None else applies_to.why_not(facts)
        # Whoever names a contract asserts something; what a graph brings has to be for the case.
        if not draft and (why_not is None or origin == BY_SCENARIO):
            self.asserts = True
        words = enforced_by if enforced_by is not None else tuple(contract.enforced_by)
        gate = gate and not draft
        self._add(
            mark,
            self.contracts.definition(contract),
            id=item_id,
            kind=kind,
            gate=gate,
            weight=Fraction(0) if draft else weight,
            severity=Severity(severity or contract.severity),
            version=None if kind == "trace" else contract.version,
            description=description if description is not None else contract.title,
            vacuous=vacuous,
            enforced_by=words,
            label=self._label(words),
            informational=draft or (self.plan.has_threshold and not gate and weight == 0),
            untested=contract.untested,
            because=reason_of(origin, applies_to, facts),
            applies=why_not,
            broken=self.contracts.why_broken(contract) if kind == "contract" else None,
            **place,
        )

    def _add(self, mark: Mark | None, definition: JsonObject, **fields: Any) -> None:
        gate = fields.get("gate", False)
        informational = fields.get("informational", False)
        decides = gate or (
            not informational and (not self.plan.has_threshold or fields["kind"] == "score")
        )
        path, line = fields.get("path", self.path), fields.get("line", 1)
        if mark is not None:
            path, line = mark[4] or self.path, mark[0] or 1
        fields |= {"decides": decides, "path": path, "line": line}
        self.items.append(self.contracts.item(definition, fields))

    # -- rules over all items -----------------------------------------------------------------

    def _check_weights(self) -> None:
        if sum((item.weight for item in self.items), Fraction(0)) > 0:
            return
        if any(entry is None for entry in self.plan.entries.values()):
            return  # a broken entry may be the one with the weight
        self.plan.report(
            Fault(
                ("scoring", "pass_threshold"),
                f"the weights of case {quoted(self.plan.base_id)} sum to 0",
                rule="a threshold needs something to weigh",
                fix=self._weigh_by_case(),
            )
        )

    def _weigh_by_case(self) -> str:
        """Advice: where other cases have something to weigh, the threshold is theirs alone."""
        entries = self.plan.entries.values()
        others = (one for one in self.plan.case_ids if one != self.plan.base_id)
        other = next((one for one in others if any(_weighs_in(e, one) for e in entries)), None)
        if other is not None:
            return (
                "set it where something is weighed:"
                f" cases: {{{other}: {{scoring: {{pass_threshold: ...}}}}}}"
            )
        return "give an invariant a weight, or remove 'pass_threshold'"

    def _check_names(self) -> None:
        seen: set[str] = set()
        for item in self.items:
            if item.id in seen:
                is_entry = item.id in self.plan.entries
                self.plan.report(
                    Fault(
                        ("invariants", item.id) if is_entry else (),
                        "two items have one id",
                        got=quoted(item.id),
                        rule="a contract of the graph or a library, or an attack's expect,"
                        " has it already",
                        at_key=is_entry,
                    )
                )
            seen.add(item.id)


def texts_of(value: object) -> Iterator[str]:
    """Every text in a JSON value, keys too."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            pending += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            pending += one


def derived_severity(derived: DerivedInvariant) -> str:
    """The severity a domain gives, where it gives one."""
    return str(getattr(derived, "severity", "major"))
