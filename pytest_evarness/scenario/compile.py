"""One case at one point of the matrix: layers merged, parts checked, a compiled case made.

Layers are judged merged, so a case may complete what the scenario leaves open; every value still
knows the line it was written on. Values that cases share are judged once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pydantic import TypeAdapter

from pytest_evarness.contract.applicability import facts_of
from pytest_evarness.contract.row import override_rows
from pytest_evarness.core import c1
from pytest_evarness.core.case import ENVIRONMENT_DEFAULTS, Budget, CompiledCase
from pytest_evarness.core.interfaces import GraphShapingDomain
from pytest_evarness.core.material import as_materials
from pytest_evarness.errors import DeterminismError, Fault, GraphFault, InputError, InputErrors
from pytest_evarness.scenario.approval import OPTION, Approval, parse_approval
from pytest_evarness.scenario.case import Case
from pytest_evarness.scenario.check import Checks, ParsedCheck, circles
from pytest_evarness.scenario.environment import Environment
from pytest_evarness.scenario.forbidden import UNMATCHED, Rules
from pytest_evarness.scenario.harness import Harness, Harnesses
from pytest_evarness.scenario.identifier import check_invariant_id
from pytest_evarness.scenario.invariant import VACUITY, Contracts, ItemPlan, Planner, texts_of
from pytest_evarness.scenario.leak import Leaks, leak_fault
from pytest_evarness.scenario.matrix import (
    SHORT_NAMES,
    Point,
)
from pytest_evarness.scenario.merge import keep_tags, merge, place
from pytest_evarness.scenario.reference import Files, References, Referred
from pytest_evarness.scenario.shape import SECTIONS, BudgetShape, Entry, GatheredCheck
from pytest_evarness.source.limit import MAX_MISTAKES
from pytest_evarness.source.mistake import raise_all
from pytest_evarness.source.model import parse_type
from pytest_evarness.source.place import Mark, Places, as_where, field_text
from pytest_evarness.source.quote import nearest, one_of, quoted, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from fractions import Fraction
    from pathlib import Path

    from pytest_evarness.contract.applicability import CaseFacts
    from pytest_evarness.contract.library import Library
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.contract.row import CorpusRow, OverrideRow
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.interfaces import LintFinding, Shape
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.source.document import Document

__all__ = ["Compiler", "Layer", "LoadContext"]

Path_: TypeAlias = tuple[str | int, ...]

_ADAPTERS: dict[str, TypeAdapter[Any]] = {}
_ENTRY: TypeAdapter[Any] = TypeAdapter(Entry)


@dataclass(frozen=True, slots=True)
class LoadContext:
    """What loading a scenario needs from the session.

    Attributes:
        root: The project's root directory; nothing outside it is read.
        library: Every contract a scenario may name.
        home: ``~/.evarness``; None to look at no home.
        variables: ``$EVARNESS_*``.
        approve: Decisions of the command line, as written or parsed.
        mode: Overrides every scenario's mode where given.
        diagnose: Cases of mode ``diagnostic`` go on behind a block, for observation.
    """

    root: Path
    registry: Registry
    library: Library
    home: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    approve: Sequence[str | Approval] = ()
    mode: str | None = None
    diagnose: bool = False


@dataclass(slots=True)
class Layer:
    """One case before the matrix.

    Attributes:
        id: Before the matrix.
        value: As it is written; for messages that name the case's own field.
        overlay: Its keys, short names written out.
    """

    id: str
    value: Any
    overlay: dict[str, Any]
    mark: Mark | None


class _Current:
    """One case at one point of the matrix while it is compiled."""

    def __init__(self, layer: Layer, point: Point) -> None:
        self.layer = layer
        self.point = point
        self.id = layer.id + point.suffix
        self.merged: dict[str, Any] = {}
        self.fixture: Referred | None = None
        self.contents: dict[str, bytes] = {}
        self.content_names: dict[str, str] = {}
        self.read: dict[str, str] = {}
        self.refused: list[Path_] = []
        self.is_broken = False


class Compiler:
    """Compiles the cases of one file; made for it and thrown away with it.

    Attributes:
        errors: Every mistake met so far; nothing is raised here.
        scenario_id, case_ids, base: Set by whoever read the file, before the first case.
    """

    def __init__(
        self, document: Document, context: LoadContext, *, folder: Path, name: str
    ) -> None:
        self.document = document
        self.context = context
        self.name = name
        self.sha256 = hashlib.sha256(document.data).hexdigest() if document.data else None
        self.places = Places()
        self.places.update(document.places)
        self.errors: list[InputError] = []
        self._told: set[str] = set()
        self.environment = Environment(context.registry)
        self.references = References(folder, context.root)
        self.files = Files(self.references)
        self._materials: dict[tuple[str, ...], tuple[JsonObject, str]] = {}
        self.harnesses = Harnesses(
            context.registry,
            self.references,
            home=context.home,
            variables=context.variables,
            scenario_name=name or "inline",
        )
        self.contracts = Contracts(context.library, context.registry)
        self.checks = Checks(context.registry, folder=folder, root=context.root)
        self.approvals = [
            parse_approval(one) if isinstance(one, str) else one for one in context.approve
        ]
        self.scenario_id = ""
        self.case_ids: Mapping[str, object] = {}
        self.base: dict[str, Any] = {}
        self._bases: dict[int, dict[str, Any]] = {}
        self._known_words: dict[int, tuple[object, frozenset[str] | None]] = {}
        self._sections: dict[tuple[str, int], tuple[object, Any, list[Fault]]] = {}
        self._known_facts: dict[object, tuple[object, CaseFacts]] = {}
        self._fixtures_told: set[str] = set()
        self._harness_told: set[int] = set()
        self.leaks = Leaks()

    # -- mistakes -----------------------------------------------------------------------------

    def at_top(self, fault: Fault) -> None:
        """Note a fault of the document itself.

        Raises:
            InputErrors: It is the last that is told of one file.
        """
        self._note(self.document.error(fault))

    def _note(self, error: InputError) -> None:
        for one in error.errors if isinstance(error, InputErrors) else (error,):
            # Cases that share a mistake share its place and text: it is told, and counted, once.
            text = str(one)
            if text not in self._told:
                self._told.add(text)
                self.errors.append(one)
        if len(self.errors) >= MAX_MISTAKES:
            raise_all(self.errors)

    def wrong(self, current: _Current, fault: Fault) -> None:
        """Note a fault of a merged case at the line where its value was written."""
        current.is_broken = True
        self._note(self._placed(current, fault))

    def _placed(self, current: _Current, fault: Fault, *, rule: str = "") -> InputError:
        root = current.layer.mark or self.document.root
        if not fault.path:
            where = as_where(root, field_text(self._case_path(current)) or None)
        else:
            mark, depth = self._found(current, root, fault.path)
            path = self._own_path(current, mark, depth, fault.path)
            if fault.at_key:
                path = path[:-1]
            at_key = fault.at_key and depth == len(fault.path)
            where = as_where(mark, field_text(path) or None, at_key=at_key)
        return InputError(fault.text + rule, where=where, fix=fault.fix)

    def _found(self, current: _Current, root: Mark | None, path: Path_) -> tuple[Mark | None, int]:
        """The mark of a path of the merged case, and how many of its parts led there."""
        mark, depth = self.places.find(current.merged, root, path)
        if mark is None and current.fixture is not None and path[0] == "environment":
            # What was written in Python stands nowhere; what it has from its fixture does.
            inner, reached = self.places.find(current.merged[path[0]], None, path[1:])
            if inner is not None:
                return inner, reached + 1
        return mark, depth

    def _case_path(self, current: _Current) -> Path_:
        return ("cases", current.layer.id) if "cases" in self.document.value else ()

    def _own_path(self, current: _Current, mark: Mark | None, depth: int, path: Path_) -> Path_:
        """The path as the layer that wrote the value would name it."""
        if mark is not None and depth:
            layer = current.layer
            short = path[1:] if path[0] == "environment" and path[1:2] else None
            for own in (path, short):
                if own is None or (own is short and own[0] not in SHORT_NAMES):
                    continue
                known = min(depth, len(own)) if own is path else depth - 1
                found, reached = self.places.find(layer.value, layer.mark, own[:known])
                if found is mark and reached == known and known:
                    return ("cases", layer.id, *own)
            if current.fixture is not None and mark[4] == current.fixture.document.shown:
                return path[1:]
        return path

    # -- one case -------------------------------------------------------------------------------

    def compile(self, layer: Layer, point: Point) -> Case | None:
        """The case of a layer at a point of the matrix; None where a mistake was noted."""
        current = _Current(layer, point)
        if not self._merge(current):
            return None
        merged = current.merged
        parsed = self._sections_of(current)
        harness = self._harness(current, merged)
        environment = self._environment(current)
        parsed["secrets"] = self._secrets(parsed.get("secrets", ()), environment)
        entries = self._entries(current)
        checks = self._checks(current, parsed, entries, environment)
        graph = harness.graph if harness is not None else None
        if harness is None or graph is None:
            self._look_into_bodies(current, entries)
            return None
        overlays = harness.overlays
        for domain in self.harnesses.domains:
            for fault in domain.check_case(graph, environment, overlays.values):
                if isinstance(fault, GraphFault):
                    current.is_broken = True
                    self._note(self._in_graph(current, harness, fault))
                    continue
                current.refused.append(fault.path)
                self.wrong(current, fault.under("environment"))
        waived, warnings = self._lint(current, harness)
        warnings += self._remarks(current, graph, environment, overlays.values)
        expect = self._expect(current, graph)
        self._look_into_bodies(current, [key for key, entry in entries.items() if entry is None])
        plan = self._plan(current, parsed, entries, harness, environment, expect, checks)
        planner = Planner(self.contracts, plan, self.name)
        items = planner.build()
        self._check_softened(current, items)
        if current.is_broken:
            return None
        if not self._check_secrets(current, parsed.get("secrets", ()), harness, items):
            return None
        return self._compiled(
            current,
            parsed,
            harness,
            environment,
            expect,
            items=tuple(items),
            waived=waived,
            warnings=(*warnings, *planner.warnings),
            subjects=self._subjects(current, harness, planner),
            overrides=tuple(
                dict.fromkeys(row for one in planner.used for row in override_rows(one))
            ),
            corpora=self.contracts.corpora(planner.used),
            used=planner.used,
        )

    def _merge(self, current: _Current) -> bool:
        merged = self._laid(current, self.base)
        if merged is None:
            return False
        reference = _dig(merged, "environment", "fixture")
        fixture: Referred | None = None
        if reference is not None:
            current.merged = merged
            if isinstance(reference, str):
                fixture, fault, error = self.references.read(reference)
                if fault is not None:
                    self.wrong(current, fault.under("environment", "fixture"))
                if error is not None:
                    self._note(error)
                    current.is_broken = True
        else:
            graph = _dig(merged, "subject", "graph")
            if isinstance(graph, str):
                harness, _ = self.harnesses.resolve(graph)
                fixture = harness.fixture if harness is not None else None
        if fixture is not None:
            base = self._over_fixture(current, fixture)
            if base is not None:
                current.fixture = fixture
                relaid = self._laid(current, base)
                if relaid is None:
                    # The fixture has another kind of value on the way of the point.
                    current.is_broken = True
                    return False
                merged = relaid
        current.merged = self._decided(current, merged)
        return True

    def _over_fixture(self, current: _Current, fixture: Referred) -> dict[str, Any] | None:
        """The scenario laid over its fixture, once for all cases that share it."""
        document = fixture.document
        if fixture.name not in self._fixtures_told:
            self._fixtures_told.add(fixture.name)
            self.places.update(document.places)
            if _is_scenario(document.value):
                fault = Fault(
                    ("evarness",),
                    "is a scenario and no fixture",
                    got="the key 'evarness'",
                    rule="a fixture holds what stands under 'environment'",
                    fix="name a fixture; a scenario runs by itself",
                    at_key=True,
                )
                self._note(document.error(fault))
            elif isinstance(document.value, dict):
                _, faults = self.environment.parse(document.value, fixture=True)
                for fault in faults:
                    self._note(document.error(fault))
            else:
                self._note(
                    document.error(Fault((), "must be a mapping", got=shown(document.value)))
                )
        if not isinstance(document.value, dict) or _is_scenario(document.value):
            current.is_broken = True
            return None
        known = self._bases.get(id(document.value))
        if known is not None:
            return known
        keys = {key: value for key, value in document.value.items() if key != "scenario"}
        found = self.places.marks_of(document.value)
        if isinstance(found, dict):
            self.places.note(keys, {key: mark for key, mark in found.items() if key in keys})
        own = self.base.get("environment", {})
        base = dict(self.base)
        base["environment"] = (
            merge(self.places, keys, own, path=("environment",)) if isinstance(own, dict) else own
        )
        marks = self.places.marks_of(self.base)
        self.places.note(base, dict(marks) if isinstance(marks, dict) else {})
        self._bases[id(document.value)] = base
        return base

    def _laid(self, current: _Current, base: dict[str, Any]) -> dict[str, Any] | None:
        """Case and matrix point over ``base``."""
        merged = merge(self.places, base, current.layer.overlay)
        merged = keep_tags(self.places, base, merged)
        for axis, value, mark in current.point.settings:
            try:
                laid = place(self.places, merged, axis.path, value, mark)
                merged = keep_tags(self.places, merged, laid)
            except LookupError as error:
                reached = cast("Path_", error.args[0])
                self.at_top(
                    Fault(
                        ("matrix", axis.key),
                        "the path leads nowhere",
                        got=quoted(axis.key),
                        rule=f"it cannot go through {field_text(reached) or 'the scenario'}"
                        f" of case {quoted(current.layer.id)}",
                        at_key=True,
                    )
                )
                return None
        return merged

    def _decided(self, current: _Current, merged: dict[str, Any]) -> dict[str, Any]:
        for approval in self.approvals:
            if approval.case != current.layer.id:
                continue
            mark: Mark = (None, None, None, None, f"{OPTION}={approval.text}")
            path = ("environment", "approvals", approval.node)
            try:
                merged = place(self.places, merged, path, approval.decision, mark)
            except LookupError:
                break  # approvals are no mapping, which is told where they are written
        return merged

    # -- sections -----------------------------------------------------------------------------

    def section(self, key: str, value: object) -> tuple[Any, list[Fault]]:
        """A key of the file against its model, once for all cases that share the value."""
        is_shared = isinstance(value, dict | list)
        if is_shared:
            known = self._sections.get((key, id(value)))
            if known is not None:
                return known[1], known[2]
        annotation = SECTIONS[key][0]
        adapter = _ADAPTERS.get(key)
        if adapter is None:
            adapter = _ADAPTERS[key] = TypeAdapter(annotation)
        parsed, faults = parse_type(adapter, annotation, value)
        if is_shared:
            self._sections[(key, id(value))] = (value, parsed, faults)
        return parsed, faults

    def _sections_of(self, current: _Current) -> dict[str, Any]:
        parsed: dict[str, Any] = {}
        for key, value in current.merged.items():
            if key in ("environment", "invariants"):
                continue
            made, faults = self.section(key, value)
            for fault in faults:
                self.wrong(current, fault.under(key))
            if not faults:
                parsed[key] = made
        return parsed

    def _entries(self, current: _Current) -> dict[str, Entry | None]:
        given = current.merged.get("invariants", {})
        if not isinstance(given, dict):
            fault = Fault(
                ("invariants",),
                "must be a mapping",
                got=shown(given),
                rule="{ID: entry}; an id names a contract, or has a check",
            )
            self.wrong(current, fault)
            return {"": None}
        entries: dict[str, Entry | None] = {}
        for entry_id, value in given.items():
            problem = check_invariant_id(entry_id)
            if problem is not None:
                self.wrong(
                    current,
                    Fault(
                        ("invariants", entry_id),
                        f"the id {problem}",
                        got=quoted(entry_id),
                        at_key=True,
                    ),
                )
                entries[entry_id] = None
                continue
            entries[entry_id] = self._entry(current, entry_id, value)
        return entries

    def _look_into_bodies(self, current: _Current, entry_ids: Iterable[str]) -> None:
        """Tell the mistakes of inline contracts that no item will be planned for."""
        given = current.merged.get("invariants")
        for entry_id in entry_ids:
            check = _dig(given, entry_id, "check")
            body = check.get("assert") if isinstance(check, dict) else None
            if isinstance(body, dict) and check.get("type") == "trace":
                _, faults = self.contracts.inline(entry_id, body, {})
                for fault in faults:
                    self.wrong(current, fault.under("invariants", entry_id, "check"))

    def _entry(self, current: _Current, entry_id: str, value: object) -> Entry | None:
        parsed, faults = self.entry(entry_id, value)
        for fault in faults:
            self.wrong(current, fault.under("invariants", entry_id))
        return parsed

    def entry(self, entry_id: str, value: object) -> tuple[Entry | None, list[Fault]]:
        """An invariant against its model, once for all cases that share it."""
        if value is None:
            return None, [
                Fault((), "must be a mapping", got="null", fix=f"write '{entry_id}: {{}}'")
            ]
        known = self._sections.get(("invariants", id(value)))
        if known is None:
            parsed, faults = parse_type(_ENTRY, Entry, value)
            known = (value, parsed, _beside_check(value, faults))
            self._sections[("invariants", id(value))] = known
        return cast("Entry | None", known[1]), known[2]

    def _checks(
        self,
        current: _Current,
        parsed: Mapping[str, Any],
        entries: Mapping[str, Entry | None],
        environment: JsonObject,
    ) -> dict[str, ParsedCheck]:
        """What the check types make of the checks that this case is judged by."""
        kinds: dict[str, tuple[str, GatheredCheck | None]] = {}
        for entry_id, entry in entries.items():
            if entry is None:
                # It is there, though something in it is wrong: what needs it names no stranger.
                kinds[entry_id] = (self._written_type(current, entry_id), None)
                continue
            given = entry.model_fields_set
            if "cases" in given and current.layer.id not in entry.cases:
                continue
            check: Any = entry.check if "check" in given else None
            gathered = check if isinstance(check, GatheredCheck) else None
            kind = check.type if check is not None else "contract"
            kinds[entry_id] = (kind if isinstance(kind, str) else "", gathered)
        made: dict[str, ParsedCheck] = {}
        for entry_id, (_, check) in kinds.items():
            if check is None:
                continue
            found, faults = self.checks.parse(
                check,
                ids={name: word for name, (word, _) in kinds.items() if name != entry_id},
                environment=environment,
                secrets=parsed.get("secrets", ()),
            )
            for fault in faults:
                self.wrong(current, fault.under("invariants", entry_id, "check"))
            if found is not None:
                made[entry_id] = found
        for entry_id in circles({name: _follows(check) for name, check in made.items()}):
            del made[entry_id]
            self.wrong(
                current,
                Fault(
                    ("invariants", entry_id, "check"),
                    "needs itself, through the checks that it needs",
                    got=quoted(entry_id),
                    rule="a check is judged behind those that it needs",
                ),
            )
        return made

    def _written_type(self, current: _Current, entry_id: str) -> str:
        """The type of a check as it stands there; empty where that is no text."""
        kind = _dig(current.merged, "invariants", entry_id, "check", "type")
        return kind if isinstance(kind, str) else ""

    def _environment(self, current: _Current) -> dict[str, Json]:
        """The normalised environment, without the keys that are wrong."""
        given = current.merged.get("environment", {})
        if not isinstance(given, dict):
            self.wrong(current, Fault(("environment",), "must be a mapping", got=shown(given)))
            given = {}
        parsed, faults = self.environment.parse(given)
        in_fixture = current.fixture.document.value if current.fixture is not None else ()
        for fault in faults:
            if fault.code == "unknown_key" and len(fault.path) == 1 and fault.path[0] in in_fixture:
                current.is_broken = True  # told of the fixture, where other keys are known
                continue
            self.wrong(current, fault.under("environment"))
        stand_ins = self.environment.stand_ins(given, parsed) if faults else {}
        parsed.pop("fixture", None)
        for key, value in ENVIRONMENT_DEFAULTS.items():
            parsed.setdefault(key, value)
        return {**self._inlined(current, parsed), **stand_ins}

    def _inlined(self, current: _Current, environment: dict[str, Json]) -> dict[str, Json]:
        """The environment without references to files; what they hold goes with the case."""
        for domain in self.harnesses.inlining:
            inlined = domain.inline(environment, self.files)
            for fault in inlined.faults:
                self.wrong(current, fault.under("environment"))
            environment = dict(inlined.environment)
            current.contents.update(inlined.contents)
            current.content_names.update(inlined.names)
            current.read.update(inlined.subjects)
        return environment

    def _materials_of(self, current: _Current) -> tuple[JsonObject, str]:
        """The contents that a case carries, made once for all cases that share them."""
        key = tuple(sorted(current.contents))
        known = self._materials.get(key)
        if known is None:
            known = c1.frozen(as_materials(current.contents), "materials")
            self._materials[key] = known
        return known

    # -- harness ------------------------------------------------------------------------------

    def _harness(self, current: _Current, merged: Mapping[str, Any]) -> Harness | None:
        subject = merged.get("subject")
        path: Path_ = ("subject", "graph")
        given = subject.get("graph") if isinstance(subject, dict) else None
        if subject is None or (isinstance(subject, dict) and "graph" not in subject):
            fault = Fault(
                ("subject",) if subject is not None else (),
                "required key 'graph' is missing"
                if subject is not None
                else "required key 'subject' is missing",
                rule="subject: {graph: a path, pattern:NAME, or the graph itself}",
                code="missing_key",
            )
            self.wrong(current, fault)
            return None
        if not isinstance(given, str | dict) or given == "":
            return None  # told with its section
        harness, fault_of_reference = self.harnesses.resolve(given)
        if harness is None:
            assert fault_of_reference is not None, "a reference that names nothing says why"
            self.wrong(current, fault_of_reference.under(*path))
            return None
        if id(harness) not in self._harness_told:
            self._harness_told.add(id(harness))
            for error in (*harness.errors, *harness.overlays.errors):
                self._note(error)
        if harness.errors or harness.overlays.errors:
            current.is_broken = True
        for fault in harness.faults:
            self.wrong(current, fault.under(*path))
        return harness if harness.graph is not None else None

    def _lint(self, current: _Current, harness: Harness) -> tuple[list[str], list[str]]:
        """Report lint errors that nothing waives; give what was waived and the warnings."""
        graph = harness.graph
        assert graph is not None, "only a graph is linted"
        waivers = _dig(current.merged, "subject", "waive")
        waivers = waivers if isinstance(waivers, dict) else {}
        used: set[str] = set()
        waived: list[str] = []
        warnings: list[str] = []
        for finding in harness.lint:
            waiver = waivers.get(finding.node) if finding.node is not None else None
            if finding.waivable and isinstance(waiver, dict) and waiver.get("rule") == finding.code:
                used.add(cast("str", finding.node))
                waived.append(
                    f"{finding.node}: {finding.message} [{finding.code}],"
                    f" accepted: {waiver.get('reason')}"
                )
                continue
            error = self._lint_error(current, harness, finding)
            if finding.level == "error":
                self._note(error)
                current.is_broken = True
            else:
                warnings.append(str(error))
        for node in waivers:
            if node in used:
                continue
            path: Path_ = ("subject", "waive", node)
            if node not in graph.nodes:
                self.wrong(current, _no_node(path, node, graph.nodes, at_key=True))
                continue
            codes = sorted({one.code for one in harness.lint if one.node == node and one.waivable})
            self.wrong(
                current,
                Fault(
                    (*path, "rule"),
                    "waives nothing",
                    got=shown(_dig(waivers, node, "rule")),
                    rule=f"rules that node '{node}' breaks and that can be waived:"
                    f" {', '.join(codes) or 'none'}",
                ),
            )
        return waived, warnings

    def _remarks(
        self, current: _Current, graph: Graph, environment: JsonObject, overlays: JsonObject
    ) -> list[str]:
        """What domains say of the environment and is no mistake."""
        return [
            str(self._placed(current, fault.under("environment"), rule=f" [{fault.code}]"))
            for domain in self.harnesses.remarking
            for fault in domain.remarks(graph, environment, overlays)
        ]

    def _lint_error(self, current: _Current, harness: Harness, finding: LintFinding) -> InputError:
        problem = f"{finding.message} [{finding.code}]"
        return self._in_graph(current, harness, Fault(finding.path, problem, fix=finding.fix))

    def _in_graph(self, current: _Current, harness: Harness, fault: Fault) -> InputError:
        """A mistake in the graph, at its place in the file that the graph is written in."""
        if harness.document is not None:
            return harness.document.error(fault)
        path = ("subject", "graph", *fault.path)
        mark, _ = self.places.find(current.merged, self.document.root, path)
        return InputError(fault.text, where=as_where(mark, field_text(path)), fix=fault.fix)

    # -- expectation, items ---------------------------------------------------------------------

    def _expect(self, current: _Current, graph: Graph) -> dict[str, Json]:
        """The declared end, normalised; whatever of it is well formed is held against the graph."""
        given = current.merged.get("expect")
        given = given if isinstance(given, dict) else {}
        made: dict[str, Json] = {"status": given.get("status", "completed")}
        if "output" in given:
            from pytest_evarness.checks.expectation import output_faults

            for fault in output_faults(given["output"]):
                self.wrong(current, fault.under("expect", "output"))
            made["output"] = given["output"]
        to_run = _texts(given.get("nodes_run"))
        not_to_run = _texts(given.get("nodes_not_run"))
        for key, nodes in (("nodes_run", to_run), ("nodes_not_run", not_to_run)):
            for position, node in enumerate(nodes):
                if node not in graph.nodes:
                    self.wrong(current, _no_node(("expect", key, position), node, graph.nodes))
                elif key == "nodes_not_run" and node in to_run:
                    self.wrong(
                        current,
                        Fault(
                            ("expect", key, position),
                            "is to run and not to run",
                            got=quoted(node),
                            rule="nodes_run names it too",
                        ),
                    )
            made[key] = list(nodes)
        return made

    def _plan(
        self,
        current: _Current,
        parsed: Mapping[str, Any],
        entries: dict[str, Entry | None],
        harness: Harness,
        environment: JsonObject,
        expect: JsonObject,
        checks: Mapping[str, ParsedCheck],
    ) -> ItemPlan:
        graph = harness.graph
        assert graph is not None, "only a graph is judged"
        overlays = harness.overlays.values
        identities: dict[str, frozenset[str]] = {
            "node_id": frozenset(graph.nodes),
            "node_type": frozenset(self.context.registry.node_types.names())
            | self.context.registry.later_node_types,
        }
        answers: dict[str, frozenset[str]] = {}
        aliases: dict[str, str] = {}
        enforcements: set[str] = set()
        derived: list[Any] = []
        for domain in self.harnesses.domains:
            for key, names in domain.identities(graph, environment, overlays).items():
                identities[key] = identities.get(key, frozenset()) | names
            aliases.update(domain.aliases(overlays))
            enforcements.update(domain.enforcements(graph, environment))
            derived.extend(domain.derive(graph, environment))
        for answering in self.harnesses.answering:
            answers.update(answering.answers(graph, environment, overlays))
        scoring = parsed.get("scoring")
        return ItemPlan(
            case_id=current.id,
            case_ids=self.case_ids,
            base_id=current.layer.id,
            case_mark=current.layer.mark,
            entries=entries,
            checks=checks,
            forbidden=self._forbidden(current, parsed, environment, graph, identities, aliases),
            expect=expect,
            expect_mark=self._mark(current, ("expect",)) if "expect" in current.merged else None,
            is_expect_written=_asserts_something(current.merged.get("expect")),
            graph_contracts=self._graph_contracts(harness),
            derived=derived,
            refused=current.refused,
            has_threshold=scoring is not None and "pass_threshold" in scoring.model_fields_set,
            enforcements=frozenset(enforcements),
            identities=identities,
            answers=answers,
            words=self._words(current),
            aliases=aliases,
            shapes=(*harness.overlays.shapes, *self._graph_shapes(graph)),
            beside=harness.beside,
            facts=self._facts(parsed, graph, aliases),
            own_mode=str(parsed.get("mode", "release")),
            mark_of=lambda path: self._mark(current, path),
            report=lambda fault: self.wrong(current, fault),
            report_error=lambda error: self._outside(current, error),
        )

    def _graph_shapes(self, graph: Graph) -> list[Shape]:
        return [
            shape
            for domain in self.harnesses.domains
            if isinstance(domain, GraphShapingDomain)
            for shape in domain.graph_shapes(graph)
        ]

    def _facts(
        self, parsed: Mapping[str, Any], graph: Graph, aliases: Mapping[str, str]
    ) -> CaseFacts:
        """What decides which contracts are for a case."""
        mode, tags = self._mode(parsed), tuple(parsed.get("tags", ()))
        key = (id(graph), mode, tags, tuple(sorted(aliases.items())))
        known = self._known_facts.get(key)
        if known is None:
            found = facts_of(graph.as_record(), aliases, mode=mode, tags=tags)
            known = self._known_facts[key] = (graph, found)
        return known[1]

    def _mode(self, parsed: Mapping[str, Any]) -> str:
        return str(self.context.mode or parsed.get("mode", "release"))

    def _words(self, current: _Current) -> frozenset[str] | None:
        """Every text that some case of the file may hand to a run.

        None where cases differ in the files that they take, whose texts are not known here.
        """
        fixture = None if current.fixture is None else current.fixture.document.value
        known = self._known_words.get(id(fixture))
        if known is None:
            value = self.document.value if isinstance(self.document.value, dict) else {}
            cases = value.get("cases")
            layers = list(cases.values()) if isinstance(cases, dict) else []
            handed = [_handed(layer) for layer in (value, *layers)]
            is_one = not any(map(_names_file, (*handed[1:], value.get("matrix"))))
            words = frozenset(texts_of([*handed, fixture])) if is_one else None
            known = self._known_words[id(fixture)] = (fixture, words)
        return known[1]

    def _forbidden(
        self,
        current: _Current,
        parsed: Mapping[str, Any],
        environment: JsonObject,
        graph: Graph,
        identities: Mapping[str, frozenset[str]],
        aliases: Mapping[str, str],
    ) -> list[tuple[str, JsonObject]]:
        """Forbidden rules in file order, then what strict services bring."""
        given = current.merged.get("forbidden")
        is_read = "forbidden" in parsed and isinstance(given, dict)
        rules = Rules(
            self.context.registry,
            environment,
            graph,
            tools=identities.get("tool", frozenset()),
            aliases=aliases,
            secrets=parsed.get("secrets", ()),
        )
        made: list[tuple[str, JsonObject]] = []
        for rule in given if is_read and isinstance(given, dict) else ():
            definition, faults = rules.definition(rule, getattr(parsed["forbidden"], rule))
            for fault in faults:
                self.wrong(current, fault.under("forbidden", rule))
            made.append((rule, definition))
        strict = rules.unmatched()
        return made if strict is None else [*made, (UNMATCHED, strict)]

    def _check_softened(self, current: _Current, items: Sequence[PlannedItem]) -> None:
        """Refuse a higher layer that makes a gate of a lower one decide less.

        A case may take an invariant away, which its list of items shows; one that stays under its
        name keeps its hardness.
        """
        by_id = {item.id: item for item in items}
        layers = (self.base, current.layer.overlay)
        entries = _dig(current.merged, "invariants")
        for entry_id in entries if isinstance(entries, dict) else ():
            self._check_names_no_cases(current, entry_id)
            item = by_id.get(entry_id)
            if item is None:
                continue
            declared = [_dig(layer, "invariants", entry_id) for layer in layers]
            given = [one for one in declared if isinstance(one, dict)]
            path: Path_ = ("invariants", entry_id)
            was_gate = any(one.get("gate") is True for one in given)
            # What says that it is a gate and cannot be one is told where that is known.
            says_so = _dig(current.merged, "invariants", entry_id, "gate") is True
            if was_gate and not item.gate and not says_so:
                self.wrong(
                    current,
                    Fault(
                        (*path, "gate"),
                        "a gate of a lower layer cannot be softened",
                        got="false",
                        rule="a case may take the whole invariant away: null",
                        fix="remove 'gate'",
                    ),
                )
            declared_check = _dig(declared[0], "check")
            if (
                _dig(declared[0], "gate") is True
                and isinstance(declared_check, dict)
                and _dig(current.merged, "invariants", entry_id, "check") != declared_check
            ):
                self.wrong(
                    current,
                    Fault(
                        (*path, "check"),
                        "a gate of the scenario keeps its check",
                        rule="another claim is another invariant",
                        fix="give it an id of its own, with 'cases'",
                    ),
                )
            words = [word for one in given if isinstance(word := one.get("vacuous"), str)]
            strictest = max(words, key=lambda word: VACUITY.get(word, 0), default="pass")
            if was_gate and VACUITY[item.vacuous] < VACUITY.get(strictest, 0):
                self.wrong(
                    current,
                    Fault(
                        (*path, "vacuous"),
                        "a gate of a lower layer cannot be softened",
                        got=quoted(item.vacuous),
                        rule=f"below it a vacuous pass counts as {strictest}",
                    ),
                )

    def _check_names_no_cases(self, current: _Current, entry_id: str) -> None:
        """Refuse ``cases`` below the scenario: there it would let a case out of what judges it."""
        own = _dig(current.layer.overlay, "invariants", entry_id)
        is_own = isinstance(own, dict) and "cases" in own
        merged = _dig(current.merged, "invariants", entry_id, "cases")
        if is_own or merged != _dig(self.base, "invariants", entry_id, "cases"):
            self.wrong(
                current,
                Fault(
                    ("invariants", entry_id, "cases"),
                    "stands in the scenario alone",
                    rule="what a case writes is for that case",
                    fix=f"remove it; where the case is not to be judged by it: {entry_id}: null",
                ),
            )

    def check_judged(self, layers: Sequence[Layer], cases: Sequence[Case]) -> None:
        """Refuse invariants that no case is judged by: each layer or point took them away."""
        judged: dict[str, set[str]] = {}
        for case in cases:
            ids = judged.setdefault(case.base, set())
            if len(ids) < len(case.items):
                ids.update(item.id for item in case.items)
            else:
                ids.update(item.id for item in case.items if item.id not in ids)
        anywhere = set[str]().union(*judged.values())
        declared = _dig(self.base, "invariants")
        common = declared if isinstance(declared, dict) else {}
        for entry_id in common:
            if entry_id not in anywhere:
                self.at_top(_unjudged(("invariants", entry_id), "no case is judged by it"))
        for layer in layers:
            own = _dig(layer.overlay, "invariants")
            for entry_id, entry in own.items() if isinstance(own, dict) else ():
                if entry is None or entry_id in common or entry_id in judged[layer.id]:
                    continue
                path = ("cases", layer.id, "invariants", entry_id)
                self.at_top(_unjudged(path, "the case is not judged by it"))

    def _outside(self, current: _Current, error: InputError) -> None:
        current.is_broken = True
        self._note(error)

    def _mark(self, current: _Current, path: Path_) -> Mark | None:
        return self.places.find(current.merged, self.document.root, path)[0]

    def _graph_contracts(self, harness: Harness) -> list[tuple[str, Mark | None]]:
        graph = harness.graph
        assert graph is not None, "only a graph names contracts"
        named: dict[str, Mark | None] = {}
        for position, contract_id in enumerate(graph.params.invariants):
            mark = None
            if harness.document is not None and not harness.is_packaged:
                document = harness.document
                path = ("params", "invariants", position)
                mark, _ = document.places.find(document.value, document.root, path)
            named.setdefault(contract_id, mark)
        return list(named.items())

    # -- secrets --------------------------------------------------------------------------------

    def _secrets(self, written: Sequence[str], environment: JsonObject) -> list[str]:
        """The names that were written, then those of variables that services are completed from."""
        names = dict.fromkeys(written)
        services: Any = environment.get("services")
        for config in services.values() if isinstance(services, dict) else ():
            kind: Any = self.context.registry.service_types.find(str(config.get("type")))
            secrets_of = getattr(kind, "secrets_of", None)
            if secrets_of is not None:
                names.update(dict.fromkeys(secrets_of(config)))
        return list(names)

    def _check_secrets(
        self,
        current: _Current,
        names: Sequence[str],
        harness: Harness,
        items: Sequence[PlannedItem],
    ) -> bool:
        """Refuse a case whose own texts hold a secret; True where none does.

        What a run emits is masked. What it is compiled from is sealed as it is written, and
        masking that would run another case.
        """
        for position, name in enumerate(names):
            here: Path_ = ("secrets", position)
            in_case = list(self.leaks.in_case(name, current.merged))
            for path in in_case:
                self.wrong(current, leak_fault(name, path))
            words = (
                *(current.id, self.scenario_id, self.name, harness.name),
                self._fixture_name(current),
                *(axis.key for axis, _, _ in current.point.settings),
                *current.content_names.values(),
            )
            if self.leaks.find(name, words) is not None:
                self.wrong(current, leak_fault(name, here, "an id, a matrix key or a file's name"))
            if harness.document is not None:
                found = self.leaks.find(name, harness.document.value)
                if found is not None:
                    self._outside(current, harness.document.error(leak_fault(name, found)))
            if self.leaks.find(name, self._materials_of(current)[0]) is not None:
                self.wrong(current, leak_fault(name, here, self._holder(name, current)))
            for overlay, value in harness.overlays.values.items():
                if self.leaks.find(name, value) is not None:
                    self.wrong(current, leak_fault(name, here, f"the configuration '{overlay}'"))
            for item in () if in_case else items:  # else the text came from the case
                texts = (item.id, item.description)
                if any(self.leaks.find(name, one) is not None for one in (texts, item.definition)):
                    what = f"the item '{self.leaks.masked(name, item.id)}'"
                    self.wrong(current, leak_fault(name, here, what))
        return not current.is_broken

    def _holder(self, name: str, current: _Current) -> str:
        materials = self._materials_of(current)[0]
        held = [
            self.leaks.masked(name, current.content_names[one])
            for one, value in materials.items()
            if self.leaks.find(name, value) is not None
        ]
        return ", ".join(sorted(held)[:3])

    # -- the result -----------------------------------------------------------------------------

    def _compiled(
        self,
        current: _Current,
        parsed: Mapping[str, Any],
        harness: Harness,
        environment: dict[str, Json],
        expect: JsonObject,
        *,
        items: tuple[Any, ...],
        waived: Sequence[str],
        warnings: Sequence[str],
        subjects: tuple[tuple[str, str], ...],
        overrides: tuple[OverrideRow, ...],
        corpora: tuple[CorpusRow, ...],
        used: Sequence[Contract],
    ) -> Case | None:
        graph = harness.graph
        assert graph is not None, "only a graph runs"
        environment.setdefault("seed", graph.params.seed)
        environment.setdefault("provider", graph.params.provider)
        policy = parsed.get("policy")
        scoring = parsed.get("scoring")
        budget = parsed.get("budget")
        mode = self.context.mode or parsed.get("mode", "release")
        merged = {
            "evarness": self.document.value["evarness"],
            "id": self.scenario_id,
            **current.merged,
        }
        try:
            materials, materials_text = self._materials_of(current)
            compiled = CompiledCase.build(
                scenario=self.scenario_id,
                case=current.id,
                fixture=self._fixture_name(current),
                graph=graph,
                graph_text=harness.graph_text,
                environment=environment,
                seed=cast("int", environment["seed"]),
                provider=cast("str", environment["provider"]),
                schedule=cast("str", environment["schedule"]),
                budget=_budget(budget),
                policy_revision=policy.revision
                if policy is not None and "revision" in policy.model_fields_set
                else None,
                overlays=harness.overlays.values,
                overlays_text=harness.overlays.text,
                materials=materials,
                materials_text=materials_text,
                secrets=tuple(parsed.get("secrets", ())),
                diagnose=self.context.diagnose and mode == "diagnostic",
            )
        except (DeterminismError, InputError) as error:
            self.wrong(current, Fault((), str(error)))
            return None
        threshold: Fraction | None = None
        if scoring is not None and "pass_threshold" in scoring.model_fields_set:
            threshold = scoring.pass_threshold
        task = parsed.get("task")
        mark = current.layer.mark
        return Case(
            id=current.id,
            base=current.layer.id,
            scenario_id=self.scenario_id,
            scenario_path=self.name,
            tags=tuple(parsed.get("tags", ())),
            mode=mode,
            compiled=compiled,
            merged=merged,
            items=items,
            threshold=threshold,
            expect=expect,
            line=(mark[0] if mark is not None else None) or 1,
            subjects=subjects,
            waived=tuple(waived),
            warnings=tuple(dict.fromkeys(warnings)),
            overlays_in_force=self._in_force(harness, used),
            overrides=overrides,
            corpora=corpora,
            params=tuple((axis.key, value) for axis, value, _ in current.point.settings),
            decisions=tuple(
                f"{one.node}={one.decision}"
                for one in self.approvals
                if one.case == current.layer.id
            ),
            task_prompt=task.prompt
            if task is not None and "prompt" in task.model_fields_set
            else cast("str", environment["user_input"]),
        )

    def _in_force(
        self, harness: Harness, used: Sequence[Contract]
    ) -> tuple[tuple[str, str, str], ...]:
        """``(name, label, sha256 hex)`` of overlays and of library files that are not packaged."""
        files = {one.path for one in used}
        return harness.overlays.in_force + self.context.library.in_force(harness.beside, files)

    def _fixture_name(self, current: _Current) -> str:
        if current.fixture is None:
            return ""
        value = current.fixture.document.value
        name = value.get("scenario") if isinstance(value, dict) else None
        return name if isinstance(name, str) else current.fixture.path.stem

    def _subjects(
        self, current: _Current, harness: Harness, planner: Planner
    ) -> tuple[tuple[str, str], ...]:
        found: dict[str, str] = {}
        if self.sha256 is not None:
            found[self.name] = self.sha256
        found[harness.name] = harness.sha256
        found.update(harness.code)
        found.update(current.read)
        if current.fixture is not None:
            found[current.fixture.name] = current.fixture.sha256
        for name, label, digest in self._in_force(harness, planner.used):
            found[f"{name}:{label}"] = digest
        found.update(planner.files)
        for contract in planner.used:
            text = self._definition_digest(contract)
            found[f"contract:{contract.id}@{contract.version}"] = text
        return tuple(sorted(found.items()))

    def _definition_digest(self, contract: Any) -> str:
        definition = self.contracts.definition(contract)
        known = self._sections.get(("definition", id(definition)))
        if known is None:
            digest = c1.sha256_text(c1.text(definition)).removeprefix("sha256:")
            known = (definition, digest, [])
            self._sections[("definition", id(definition))] = known
        return cast("str", known[1])


def _budget(given: BudgetShape | None) -> Budget:
    if given is None:
        return Budget()
    return Budget(
        given.events, given.seconds, given.loops if "loops" in given.model_fields_set else None
    )


def _follows(check: ParsedCheck) -> frozenset[str]:
    return check.kind.follows(check.definition)


def _unjudged(path: Path_, problem: str) -> Fault:
    return Fault(
        path,
        problem,
        got=quoted(str(path[-1])),
        rule="its 'cases', or a null, leaves it out everywhere",
        at_key=True,
    )


def _beside_check(value: object, faults: list[Fault]) -> list[Fault]:
    """Say once of the fields of a check that they stand outside of it."""
    if not isinstance(value, dict) or "check" in value or not isinstance(value.get("type"), str):
        return faults
    told = Fault(
        ("type",),
        "belongs under 'check', with the other fields of the check",
        got=quoted(value["type"]),
        fix=f"write 'check: {{type: {value['type']}, ...}}'",
        at_key=True,
    )
    return [told, *(one for one in faults if one.code != "unknown_key" or one.fix is not None)]


def _dig(value: object, *keys: str) -> Any:
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _handed(layer: object) -> dict[str, Any]:
    """A scenario or a case without what is said of runs rather than handed to them."""
    apart = ("cases", "description", "expect", "invariants")
    keys = layer.items() if isinstance(layer, dict) else ()
    return {key: value for key, value in keys if key not in apart}


def _names_file(value: object) -> bool:
    """Whether a case, or the matrix, names a file whose texts come in."""
    if isinstance(value, list):
        return any(map(_names_file, value))
    return isinstance(value, dict) and any(
        key.rpartition(".")[2] in ("fixture", "graph") or _names_file(inner)
        for key, inner in value.items()
    )


def _asserts_something(expect: object) -> bool:
    """Whether a written expectation says anything; an empty list of nodes does not."""
    if not isinstance(expect, dict):
        return False
    return any(key in expect for key in ("status", "output")) or any(
        expect.get(key) for key in ("nodes_run", "nodes_not_run")
    )


def _texts(value: object) -> list[str]:
    """The texts of a list; what else it holds is told with its section."""
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def _no_node(path: Path_, node: str, nodes: Mapping[str, Any], *, at_key: bool = False) -> Fault:
    near = nearest(node, nodes)
    return Fault(
        path,
        "names no node of the graph",
        got=quoted(node),
        rule=f"nodes: {one_of(nodes)}",
        fix=f"write '{near}'" if near else None,
        at_key=at_key,
    )


def _is_scenario(value: object) -> bool:
    return isinstance(value, dict) and "evarness" in value
