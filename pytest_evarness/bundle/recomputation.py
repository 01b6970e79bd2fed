"""Steps 6 to 8 of verification: judge again, say again what is not proven, run again.

Nothing here reads a file, starts a process, or imports a name that a bundle holds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.bundle.answered import Budget, rows_problem
from pytest_evarness.bundle.consistency import Events, planned_items
from pytest_evarness.bundle.evidence import MAX_EVIDENCE_BYTES, gathered_of
from pytest_evarness.bundle.exercise import (
    ABOUT,
    EDGES,
    NODES,
    exercises_of,
    ran_in,
    record_of,
)
from pytest_evarness.bundle.lookup import definitions_of, is_foreign, texts_of
from pytest_evarness.bundle.not_proven import NOT_CONFINED, OWN_CODE, not_proven
from pytest_evarness.bundle.statement import finding_record, output_of
from pytest_evarness.bundle.summary import summarise
from pytest_evarness.checks.evidence import (
    Evidence,
    Gathered,
    RunFacts,
    named_types,
    possible_types,
)
from pytest_evarness.checks.judge import Judge
from pytest_evarness.checks.kind import UnavailableError
from pytest_evarness.checks.sources import Sources
from pytest_evarness.core import c1
from pytest_evarness.core.finding import Finding
from pytest_evarness.core.json import shown
from pytest_evarness.core.matcher import holds_secret
from pytest_evarness.errors import CannotVerifyError, InputError, UnverifiedError, UsageError

if TYPE_CHECKING:
    from pytest_evarness.checks.kind import CheckKind
    from pytest_evarness.core.case import CompiledCase
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.run import Run

__all__ = [
    "Graphs",
    "check_exercised",
    "check_findings",
    "check_not_proven",
    "check_output",
    "check_verdict",
    "evidence_of",
    "run_again",
]

MADE_HERE = frozenset({"http_mock", "sqlite"})
"""Services that a rerun may have: they start nothing and reach nothing."""


class Graphs:
    """Graphs of a bundle, each parsed once."""

    def __init__(self, predicate: Mapping[str, Any], registry: Registry) -> None:
        self._text = texts_of(predicate)
        self._registry = registry
        self._parsed: dict[str, Graph | None] = {}

    def text(self, digest: str) -> str:
        """The enclosed text of that digest."""
        return str(self._text[digest])

    def find(self, digest: str) -> Graph | None:
        """None where a node type is not known here or the text is no graph."""
        from pytest_evarness.core.graph import parse_graph

        if digest not in self._parsed:
            graph, faults = parse_graph(json.loads(self._text[digest]), self._registry)
            self._parsed[digest] = None if faults else graph
        return self._parsed[digest]


def check_findings(
    predicate: Mapping[str, Any], events: Events, registry: Registry
) -> tuple[list[str], int]:
    """Judge every case again from what is enclosed and compare, field by field.

    Returns:
        What is taken on the signer's word, and how many findings could not be judged here.

    Raises:
        UnverifiedError: A finding, a verdict or a composite is not what the evidence gives.
    """
    seal = predicate["seal"]
    definitions = definitions_of(seal)
    judge = Judge(registry, strict_vacuity=seal["settings"]["strict_vacuity"])
    graphs = Graphs(predicate, registry)
    foreign = is_foreign(seal, registry)
    planned_by_nodeid = {planned["nodeid"]: planned for planned in seal["plan"]}
    budget = Budget()
    word: list[str] = []
    given_count = 0
    for index, case in enumerate(predicate["cases"]):
        planned = planned_by_nodeid[case["nodeid"]]
        items = planned_items(planned, definitions)
        for replica in case["replicas"]:
            place = f"cases[{index}]"
            ids = [finding["id"] for finding in replica["findings"]]
            if ids != [item.id for item in items]:
                raise UnverifiedError(f"{place}.findings: are not one for each planned item")
            evidence = evidence_of(case, replica, events, registry, graphs, items)
            # Where no item asks for it, no finding says so.
            word.extend(
                f"{case['nodeid']}: which account is true: {doubt.text}"
                for doubt in Sources(evidence, registry).doubts
            )
            given: dict[str, Finding] = {}
            if foreign:
                unsure = evidence.possible is None
                given = _given(items, replica, registry, place, unsure=unsure)
                word.extend(
                    f"{case['nodeid']}::{name}: judged with parts of a plug-in" for name in given
                )
            if _is_cut(replica, evidence.events):
                given.update(_of_the_output(items, replica, registry, place))
            checks = _Checks(
                case["nodeid"],
                replica,
                registry,
                place,
                foreign=foreign,
                compiled=json.loads(case["inputs"]["compiled"]),
                budget=budget,
            )
            evidence = replace(evidence, gathered=checks.gathered(items, evidence.world))
            given.update(checks.given)
            word.extend(checks.word)
            given_count += len(given)
            threshold = planned["threshold"]
            judgement = judge.judge(
                items,
                evidence,
                threshold=None if threshold is None else Fraction(threshold),
                given=given,
                is_diagnostic=planned["mode"] == "diagnostic",
            )
            for number, finding in enumerate(judgement.findings):
                _same_record(
                    replica["findings"][number],
                    finding_record(finding),
                    f"{case['nodeid']}::{finding.id}",
                )
            composite = judgement.composite
            _same(f"{place}.verdict", case["verdict"], judgement.verdict)
            _same(
                f"{place}.composite",
                case["composite"],
                None if composite is None else dict(composite.as_record()),
            )
            _same(f"{place}.primary", case["primary"], judgement.primary)
    return word, given_count


class _Checks:
    """What the checks of one case gathered, held against the world it was gathered from.

    Attributes:
        given: Findings that cannot be made again here.
        word: What is taken on the signer's word.
    """

    def __init__(
        self,
        nodeid: str,
        replica: Mapping[str, Any],
        registry: Registry,
        place: str,
        *,
        foreign: bool,
        compiled: Mapping[str, Any],
        budget: Budget,
    ) -> None:
        self._budget = budget
        self._nodeid = nodeid
        self._has_secrets = bool(compiled.get("secrets"))
        environment: Any = compiled.get("environment") or {}
        self._services: Mapping[str, Any] = environment.get("services") or {}
        self._registry = registry
        self._place = place
        self._foreign = foreign
        self._rows = {row["item"]: row for row in replica["evidence"] if row["kind"] == "check"}
        self._findings = {finding["id"]: finding for finding in replica["findings"]}
        self.given: dict[str, Finding] = {}
        self.word: list[str] = []

    def gathered(
        self, items: tuple[PlannedItem, ...], world: Mapping[str, Any]
    ) -> dict[str, Gathered]:
        """By item id; items that are given are left out.

        Raises:
            UnverifiedError: Evidence of another form, or that this world cannot have given.
        """
        found = {}
        for item in items:
            if item.is_check:
                got = self._one(item, world)
                if got is not None:
                    found[item.id] = got
        return found

    def _one(self, item: PlannedItem, world: Mapping[str, Any]) -> Gathered | None:
        row = self._rows[item.id]
        kind = cast("CheckKind | None", self._registry.check_types.find(item.kind))
        if kind is None:
            if not self._foreign:
                raise UnverifiedError(f"{self._place}: no check type is called {shown(item.kind)}")
            self._give(item, "judged with parts of a plug-in")
            return None
        if row["state"] != "enclosed":
            self._check_hidden(item, row["state"], kind, world)
            why = {"masked": "secrets are masked in it", "too_large": "it is too large"}
            self._give(item, f"its evidence is not enclosed, {why[row['state']]}")
            return None
        place = f"{self._place}.evidence[{item.id}]"
        got = gathered_of(row, place)
        if got.record is None:
            self._say(item, f"that nothing could be gathered ({got.reason})")
            return got
        if not kind.may_gate:
            self._say(item, "what it gathered: a model was asked")
            return got
        if not kind.only_reads:
            self._say(item, "what it gathered: a process was asked")
            return got
        try:
            if kind.name == "sql":
                problem = rows_problem(
                    item.definition or {}, got.record, world, self._services, self._budget
                )
            else:
                problem = kind.consistent(item.definition or {}, got.record, world)
        except UnavailableError:
            self._say(item, "what it gathered: the sealed world does not tell")
            return got
        # Where the bundle says itself that the two disagree, judging again has to say it too.
        is_told = "contradictory_evidence" in self._findings[item.id]["causes"]
        if problem is not None and not is_told:
            raise UnverifiedError(f"{place}: the sealed world says otherwise: {problem}")
        return got

    def _check_hidden(
        self, item: PlannedItem, state: str, kind: CheckKind, world: Mapping[str, Any]
    ) -> None:
        """Evidence stays out only where it had to.

        Raises:
            UnverifiedError: There was no secret to be masked, or it was short enough.
        """
        definition = item.definition or {}
        place = f"{self._place}.evidence[{item.id}]"
        if state == "masked" and not self._has_secrets:
            raise UnverifiedError(f"{place}: is masked, and the case has no secrets")
        try:
            largest = kind.largest(definition, world)
        except UnavailableError:
            largest = 0  # nothing was gathered: a reason is short
        if largest is None:
            return
        if state == "too_large" and largest + len('{"gathered":}') <= MAX_EVIDENCE_BYTES:
            raise UnverifiedError(f"{place}: the sealed world gives no evidence that is too large")
        # A finding may also quote what another one says, and be masked for that.
        quotes = any(
            name in self._rows and self._rows[name]["state"] != "enclosed"
            for name in kind.follows(definition)
        )
        if state == "masked" and not quotes and not _hides_something(world):
            raise UnverifiedError(f"{place}: is masked, and the sealed world hides no secret")

    def _give(self, item: PlannedItem, why: str) -> None:
        record = self._findings[item.id]
        self.given[item.id] = _parsed_finding(record, f"{self._place}.findings[{item.id}]")
        self._say(item, why)

    def _say(self, item: PlannedItem, why: str) -> None:
        self.word.append(f"{self._nodeid}::{item.id}: {why}")


def _hides_something(world: Mapping[str, Any]) -> bool:
    workspace: Any = world.get("workspace") or {}
    return holds_secret(world) or any(file.get("masked") for file in workspace.get("files") or ())


def evidence_of(
    case: Mapping[str, Any],
    replica: Mapping[str, Any],
    events: Events,
    registry: Registry,
    graphs: Graphs,
    items: tuple[PlannedItem, ...],
) -> Evidence:
    """What an enclosed case is judged by; what its checks gathered is left to the caller."""
    runs = {run["label"]: run for run in replica["runs"]}
    graph = graphs.find(case["inputs"]["graph"])
    events_a = events[case["nodeid"], "a"]
    return Evidence(
        events=events_a,
        a=_facts(runs["a"]),
        b=_facts(runs["b"]) if "b" in runs else None,
        events_b=events.get((case["nodeid"], "b")),
        error_b=replica["error_b"],
        output=_whole_output(replica, events_a),
        possible=None if graph is None else possible_types(graph, registry, named_types(items)),
        leftovers=tuple(replica["leftovers"]),
        world=json.loads(replica["world"]),
        world_b=None if replica["world_b"] is None else json.loads(replica["world_b"]),
    )


def _facts(run: Mapping[str, Any]) -> RunFacts:
    return RunFacts(
        label=run["label"],
        status=run["status"],
        complete=run["complete"],
        events=run["events"],
        trace_digest=run["trace_digest"],
        chain_digest=run["chain_digest"],
        world_digest=run["world_digest"],
        error=run["error"],
    )


def _whole_output(replica: Mapping[str, Any], events: list[dict[str, Any]]) -> str | None:
    row = _output_row(replica)
    return output_of(events) if row is None else str(row["text"])


def _is_cut(replica: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> bool:
    """Whether only the beginning of the output is there."""
    beginning = output_of(events)
    if beginning is None or _output_row(replica) is not None:
        return False
    record = events[-1]["payload"].get("output")
    return isinstance(record, dict) and record.get("digest") != c1.sha256_text(beginning)


def _of_the_output(
    items: tuple[PlannedItem, ...], replica: Mapping[str, Any], registry: Registry, place: str
) -> dict[str, Finding]:
    """Findings that were judged on an output of which only the beginning is here."""
    given = {}
    for item, record in zip(items, replica["findings"], strict=True):
        definition = item.definition or {}
        asks = item.kind == "expect" and "output" in definition
        if item.is_check:
            kind = cast("CheckKind | None", registry.check_types.find(item.kind))
            asks = kind is not None and (
                "output" in kind.needs(definition) or bool(kind.follows(definition))
            )
        if asks:
            given[item.id] = _parsed_finding(record, f"{place}.findings[{item.id}]")
    return given


def _output_row(replica: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The enclosed whole output; None where its event holds it all."""
    rows = replica["evidence"]
    return rows[0] if rows and rows[0]["kind"] == "output" else None


def check_output(predicate: Mapping[str, Any], events: Events) -> list[str]:
    """An enclosed output is the one that its run names by digest.

    Returns:
        Outputs that are cut in their event and not enclosed.

    Raises:
        UnverifiedError: It is another text, or one that the event holds anyway.
    """
    word = []
    for index, case in enumerate(predicate["cases"]):
        for replica in case["replicas"]:
            parsed = events.get((case["nodeid"], "a"))
            if parsed is None:
                continue
            beginning = output_of(parsed)
            record = parsed[-1]["payload"].get("output") if beginning is not None else None
            place = f"cases[{index}].evidence"
            row = _output_row(replica)
            if row is not None:
                whole = row["text"]
                if beginning is None or not isinstance(record, dict):
                    raise UnverifiedError(f"{place}: an output of a run that has none")
                if record.get("digest") != c1.sha256_text(whole) or beginning == whole:
                    raise UnverifiedError(f"{place}: is not the output that the run names")
            elif isinstance(record, dict) and beginning is not None:
                if record.get("digest") == c1.sha256_text(beginning):
                    continue
                if (
                    "truncated" not in json.dumps(record)
                    and "truncated" not in parsed[-1]["payload"]
                ):
                    raise UnverifiedError(f"{place}: the output is not the one its digest names")
                word.append(f"{case['nodeid']}: the whole output, which is too long to be enclosed")
    return word


def _given(
    items: tuple[PlannedItem, ...],
    replica: Mapping[str, Any],
    registry: Registry,
    place: str,
    *,
    unsure: bool,
) -> dict[str, Finding]:
    """Findings that need a predicate, or a node type, that only a plug-in brings.

    Args:
        unsure: A node type is not known here, so whether an event could occur at all is not either;
            that makes the difference between a pass and a vacuous one.
    """
    from pytest_evarness.contract.model import from_definition

    given = {}
    for item, record in zip(items, replica["findings"], strict=True):
        if item.kind not in ("contract", "trace") or item.definition is None:
            continue
        if item.broken is not None or item.applies is not None:
            continue
        if unsure and record["vacuous"]:
            given[item.id] = _parsed_finding(record, f"{place}.findings[{item.id}]")
            continue
        try:
            from_definition(item.definition, registry)
        except (InputError, ValueError):
            given[item.id] = _parsed_finding(record, f"{place}.findings[{item.id}]")
    return given


def _parsed_finding(record: Mapping[str, Any], place: str) -> Finding:
    try:
        return Finding.from_record({**record, "witness": json.loads(record["witness"])})
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise UnverifiedError(f"{place}: no finding ({error})") from error


def _same_record(got: Mapping[str, Any], want: Mapping[str, Any], place: str) -> None:
    for name, value in want.items():
        _same(f"{place}: {name}", got[name], value)


def _same(place: str, got: Any, want: Any) -> None:
    if got != want or type(got) is not type(want):
        raise UnverifiedError(
            f"{place}: is {shown(got, 300)}, and judged again it is {shown(want, 300)}"
        )


def check_verdict(predicate: Mapping[str, Any]) -> None:
    """The session's verdict and counts follow from the cases.

    Raises:
        UnverifiedError: They do not.
    """
    own = summarise(predicate)
    for name, value in own.items():
        _same(f"verdict.{name}", predicate["verdict"][name], value)


def check_not_proven(
    predicate: Mapping[str, Any], registry: Registry, *, signed: bool
) -> list[str]:
    """What is not proven is said, all of it.

    Returns:
        Sentences that only the producer could write, where a plug-in took part.

    Raises:
        UnverifiedError: A sentence is missing, or says what the bundle does not give.
    """
    given = predicate["not_proven"]
    own = not_proven(predicate, registry, signed=signed)
    if given == own:
        return []
    missing = [text for text in own if text not in given]
    further = [text for text in given if text not in own]
    if is_foreign(predicate["seal"], registry):
        missing = [text for text in missing if not _is_of_a_plugin(text)]
        if not missing and all(_is_of_a_plugin(text) for text in further):
            return further
    if missing:
        raise UnverifiedError(f"not_proven: leaves out {shown(missing[0], 300)}")
    if further:
        raise UnverifiedError(f"not_proven: {shown(further[0], 300)} is not so")
    raise UnverifiedError("not_proven: is in another order, or says something twice")


def check_exercised(predicate: Mapping[str, Any], registry: Registry) -> list[str]:
    """The count of exercised parts follows from graphs and events.

    Returns:
        What is taken on the signer's word: without events, or with a plug-in, nobody can count.

    Raises:
        UnverifiedError: It does not.
    """
    given = predicate["exercised"]
    if given["done"] > given["total"]:
        raise UnverifiedError("exercised: more was exercised than there is")
    seal = predicate["seal"]
    if seal["settings"]["events"] == "digest":
        return ["exercised: how much of the harness was exercised: no events are enclosed"]
    own = record_of(exercises_of(ran_in(predicate), registry))
    if given != own:
        foreign = is_foreign(seal, registry)
        # A stranger's domain adds parts; it takes none of ours away, and tells of its own alone.
        done, total = given["done"] - own["done"], given["total"] - own["total"]
        if foreign and 0 <= done <= total:
            return ["exercised: how much of the harness was exercised: counted with a plug-in"]
        raise UnverifiedError(f"exercised: is {shown(given)}, and counted again it is {shown(own)}")
    return []


def _is_of_a_plugin(text: str) -> bool:
    """Whether a sentence may depend on a domain or a node type that is not here.

    Nodes and edges are those of the enclosed graph, whoever brought their types.
    """
    if text.startswith((OWN_CODE, NOT_CONFINED)):
        return True
    return ABOUT in text and not text.startswith((f"{NODES} of graph", f"{EDGES} of graph"))


def _reproduced(case: Mapping[str, Any]) -> bool:
    runs = case["replicas"][0]["runs"]
    names = ("status", "trace_digest", "chain_digest", "world_digest")
    return len(runs) == 2 and all(runs[0][name] == runs[1][name] for name in names)


def run_again(
    predicate: Mapping[str, Any], registry: Registry, *, allow_code: bool
) -> tuple[int, list[str]]:
    """Execute the enclosed cases here and compare digests; no check is run.

    Returns:
        How many cases gave the same digests, and why the others could not be run.

    Raises:
        UsageError: A graph names code to run and ``allow_code`` is false.
        UnverifiedError: A case gave another digest, or a text is no compiled case.
    """
    from pytest_evarness.core.case import CompiledCase
    from pytest_evarness.core.material import EMPTY_MATERIALS

    graphs = Graphs(predicate, registry)
    compiled: list[tuple[Mapping[str, Any], CompiledCase]] = []
    skipped = []
    for case in predicate["cases"]:
        nodeid, inputs = case["nodeid"], case["inputs"]
        graph_text, overlays_text = graphs.text(inputs["graph"]), graphs.text(inputs["overlays"])
        code = _code_nodes(json.loads(graph_text))
        if code and not allow_code:
            # Asked before anything runs, for all cases: no half of a bundle is executed.
            raise UsageError(
                f"{nodeid}: node '{code[0]}' runs code that the bundle names",
                fix="read that code, then add --allow-code",
            )
        materials = inputs["materials"]
        try:
            again = CompiledCase.from_texts(
                inputs["compiled"],
                graph_text,
                overlays_text,
                registry,
                materials_text=EMPTY_MATERIALS if materials is None else graphs.text(materials),
            )
        except InputError as error:
            skipped.append(f"{nodeid}: cannot be built here ({error.problem})")
            continue
        foreign = _services_elsewhere(again.environment)
        if foreign:
            skipped.append(f"{nodeid}: needs services that are not made here ({foreign})")
        elif again.secrets:
            skipped.append(f"{nodeid}: needs secrets, which no bundle holds")
        elif case["replicas"][0]["status"] == "unfinished":
            skipped.append(f"{nodeid}: was stopped from outside, so there is no whole run")
        elif not _reproduced(case):
            # Its own two runs parted, which the bundle says: a third one proves nothing of it.
            skipped.append(f"{nodeid}: did not reproduce for its producer either")
        elif absent := _absent_module(again.graph, registry):
            skipped.append(
                f"{nodeid}: the module {shown(absent)} of its steps is not found here"
                " (add its folder to PYTHONPATH)"
            )
        else:
            compiled.append((case, again))
    for case, again in compiled:
        try:
            run = _executed(again, registry)
        except SystemExit as error:
            # Its code would be read as what verification found.
            raise UnverifiedError(
                f"{case['nodeid']}: run again here, a node tried to end the process"
                f" (SystemExit({error.code!r}))"
            ) from None
        replica = case["replicas"][0]
        recorded = replica["runs"][0]
        # No judge is asked here: what one left over stands behind what the run did, if one was.
        left = replica["leftovers"]
        if _asked_judges(replica, registry):
            left = left[: len(run.leftovers)]
        if run.leftovers != left:
            raise UnverifiedError(
                f"{case['nodeid']}: run again here, other answers were left over"
                f" ({shown(run.leftovers)})"
            )
        for name in ("status", "trace_digest", "chain_digest", "world_digest"):
            if getattr(run, name) != recorded[name]:
                raise UnverifiedError(
                    f"{case['nodeid']}: run again here, {name} is {getattr(run, name)}"
                    f" and not {recorded[name]}"
                )
    return len(compiled), skipped


def _absent_module(graph: Graph, registry: Registry) -> str | None:
    """A module of the user's own code that a graph calls and that is not here to be run.

    Called where code is allowed: a package around it is imported to look for it.
    """
    import importlib.util

    for node in graph.nodes.values():
        kind = registry.node_types.find(node.type)
        if kind is None or kind.module_of is None or node.parsed is None:
            continue
        name = kind.module_of(node.parsed)
        try:
            if name not in sys.modules and importlib.util.find_spec(name) is None:
                return name
        except (ImportError, ValueError):
            return name
    return None


def _services_elsewhere(environment: Mapping[str, Any]) -> str:
    """Declared services that need more than this process: a server, or one that somebody named."""
    services = environment.get("services")
    return ", ".join(
        f"{name}: {config.get('type')}"
        for name, config in sorted((services or {}).items())
        if config.get("type") not in MADE_HERE
    )


def _executed(case: CompiledCase, registry: Registry) -> Run:
    """One run in a world of its own.

    Raises:
        UnverifiedError: This machine has no place for the world.
    """
    import tempfile
    from pathlib import Path

    from pytest_evarness.core.execution import execute
    from pytest_evarness.core.interfaces import WorldHost

    host = WorldHost("rerun", str(Path(tempfile.gettempdir(), "evarness-rerun")))
    try:
        world = None if registry.make_world is None else registry.make_world(case, host, {})
    except OSError as error:
        problem = error.strerror or type(error).__name__
        raise CannotVerifyError(f"no world can be made here ({problem})") from None
    try:
        return execute(case, registry, world=world)
    finally:
        if world is not None:
            world.close()


def _asked_judges(replica: Mapping[str, Any], registry: Registry) -> bool:
    kinds = (registry.check_types.find(finding["kind"]) for finding in replica["findings"])
    return any(kind is not None and cast("CheckKind", kind).after_verdict for kind in kinds)


def _code_nodes(graph: Any) -> list[str]:
    nodes = graph.get("nodes", []) if isinstance(graph, Mapping) else []
    return [str(node.get("id")) for node in nodes if node.get("type") == "python"]
