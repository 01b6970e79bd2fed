"""The smallest scenario whose run still gives one finding.

Nodes that the finding does not depend on go first, then single entries of the environment; after
each the case is compiled, run and judged again, in this process and in a world of its own. Code of
the user's own is never run, nor a service that is not made in this process. No file of the project
is read: what they held goes with the case, so the scenario holds it itself, and the manifests of
tools lie beside it.

Source: docs/history.md, "slice".
"""

from __future__ import annotations

import copy
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.material import material_bytes
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.errors import DeterminismError, InputError

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.history.slicing import Target
    from pytest_evarness.pipeline import Engine

__all__ = ["MAX_RUNS", "CannotRunError", "Refitted", "refit", "scenario_text", "tools_text"]

MAX_RUNS = 300
"""Runs in all steps together; then the scenario is given as it is."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_NUMBERED = re.compile(r"\b(event|seq) \d+\b")
_KEPT = ("evarness", "id")
_DECLARABLE = ("completed", "blocked", "failed", "paused")
_DEEPEST = 4
_IF_FILLED = ("aliases", "name", "description", "intent", "effects", "sim")
"""Keys of a manifest whose empty value is what is taken where they are not written."""


class CannotRunError(Exception):
    """The case cannot be made again from what the bundle holds.

    Args:
        why: One sentence without a full stop.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Refitted:
    """A scenario that stands alone: its graph is inline, its one invariant is the contract.

    Attributes:
        scenario: As a file would hold it.
        tools: Manifests that are not packaged, as a ``tools.yaml`` beside it lists them.
        nodes: How many nodes there were, and how many there are.
        runs: How often it was run.
        is_minimal: No single part can go; False where ``MAX_RUNS`` was used up before.
    """

    scenario: dict[str, Any]
    tools: tuple[dict[str, Any], ...]
    nodes: tuple[int, int]
    runs: int
    is_minimal: bool


def refit(target: Target, texts: Mapping[str, str]) -> Refitted:
    """Cut a case down.

    Args:
        texts: What the bundle encloses beside the cases, by digest.

    Raises:
        CannotRunError: It runs code or services that are not made here, needs secrets, or does not
            come out again as the bundle says.
    """
    from pytest_evarness.pipeline import Engine, Settings

    _check_runnable(target)
    with tempfile.TemporaryDirectory(prefix="evarness-slice-") as folder:
        settings = Settings(root=Path(folder), rerun="inline")
        with Engine(settings) as engine:
            return _Refitting(target, engine, texts).done()


def tools_text(refitted: Refitted, *, origin: str) -> str:
    """The manifests as a ``tools.yaml``."""
    return _text({"tools": list(refitted.tools)}, origin)


def scenario_text(refitted: Refitted, *, origin: str) -> str:
    """The scenario as a file."""
    return _text(refitted.scenario, origin)


def _text(value: Mapping[str, Any], origin: str) -> str:
    from pytest_evarness.history.entry import block

    remark = "".join(char if char.isprintable() else " " for char in origin)
    lines = [f"# {remark}", *block(value, 0)]
    return "".join(f"{line}\n" for line in lines)


def _check_runnable(target: Target) -> None:
    from pytest_evarness.bundle.recomputation import MADE_HERE

    record = target.case.record
    assert record is not None, "a finding was made of it"
    compiled = json.loads(record["inputs"]["compiled"])
    if compiled["secrets"]:
        raise CannotRunError("the case needs secrets, which no bundle holds")
    services = compiled["environment"].get("services") or {}
    foreign = sorted(
        name for name, config in services.items() if config.get("type") not in MADE_HERE
    )
    if foreign:
        raise CannotRunError(f"the case needs services that are not made here ({foreign[0]})")
    if target.case.planned["mode"] == "diagnostic":
        raise CannotRunError("a diagnostic case is an observation")


class _Refitting:
    def __init__(self, target: Target, engine: Engine, texts: Mapping[str, str]) -> None:
        self.target = target
        self.engine = engine
        self.texts = texts
        self.runs = 0
        self.status = str(target.case.replica["status"])
        self.wanted = _likeness(target.finding, target.trace.events)
        self.scenario = self._whole()
        self.tools = self._own_manifests()
        self._put_beside(self.tools)

    def done(self) -> Refitted:
        graph = self.scenario["subject"]["graph"]
        before = len(graph["nodes"])
        try:
            same = self._is_same(self.scenario)
        except InputError as error:
            first = str(error).split("\n", 1)[0]
            raise CannotRunError(f"the scenario cannot be made from the bundle: {first}") from None
        if not same:
            raise CannotRunError("run again here, the case does not give this finding")
        is_minimal = self._cut() and self._cut_manifests()
        after = len(self.scenario["subject"]["graph"]["nodes"])
        return Refitted(self.scenario, tuple(self.tools), (before, after), self.runs, is_minimal)

    def _whole(self) -> dict[str, Any]:
        """The case as it was merged, its graph inline, the contract its one invariant."""
        case, item = self.target.case, self.target.judged.item
        record, definition = case.record, item.definition
        assert record is not None, "a finding was made of it"
        assert definition is not None, "a contract has one"
        merged: Any = json.loads(record["inputs"]["scenario"])
        graph: Any = copy.deepcopy(dict(case.graph or {}))
        if any(node.get("type") == "python" for node in graph.get("nodes", ())):
            raise CannotRunError("a node runs code that the bundle names")
        graph.setdefault("params", {})["invariants"] = []
        made: dict[str, Any] = {key: merged[key] for key in _KEPT if key in merged}
        made["subject"] = {"graph": graph}
        if isinstance(merged.get("subject"), Mapping) and "waive" in merged["subject"]:
            made["subject"]["waive"] = merged["subject"]["waive"]
        environment = self._without_files(merged.get("environment") or {})
        if environment:
            made["environment"] = environment
        if self.target.trace.closed and self.status in _DECLARABLE:
            made["expect"] = {"status": self.status}
        check = {"type": "trace", "assert": definition["assert"]}
        made["invariants"] = {
            self._id(): {
                "description": item.description or f"as the contract {definition['id']} says",
                "gate": True,
                "severity": str(item.severity.value),
                "check": check,
            }
        }
        return made

    def _id(self) -> str:
        return f"sliced-{self.target.judged.item.id}"[:100]

    # -- what the case had from files

    def _without_files(self, environment: Mapping[str, Any]) -> dict[str, Any]:
        """The environment with what its files held in the place of their names."""
        record = self.target.case.record
        assert record is not None, "a finding was made of it"
        inputs = record["inputs"]
        ran = json.loads(inputs["compiled"])["environment"]
        digest = inputs["materials"]
        materials = {} if digest is None else json.loads(self.texts[digest])
        # What a fixture holds was merged into the case.
        made: dict[str, Any] = {
            key: copy.deepcopy(value) for key, value in environment.items() if key != "fixture"
        }
        workspace = made.get("workspace")
        if isinstance(workspace, dict) and "from" in workspace:
            del workspace["from"]
            workspace["files"] = _files(ran["workspace"]["files"], materials)
        for name, config in (made.get("services") or {}).items():
            if isinstance(config.get("init"), list):
                config["init"] = _script(ran["services"][name]["init"], materials)
        return made

    def _own_manifests(self) -> list[dict[str, Any]]:
        """The manifests in force that are not the packaged ones.

        Raises:
            CannotRunError: Another file of this kind was in force, too.
        """
        from pytest_evarness.core.interfaces import Locations

        record = self.target.case.record
        assert record is not None, "a finding was made of it"
        had: Any = json.loads(self.texts[record["inputs"]["overlays"]])
        packaged: dict[str, Any] = {}
        nowhere = Locations(self.engine.settings.root, None, (), {})
        for domain in self.engine.registry.domains.values():
            packaged.update((one.name, one.value) for one in domain.load_overlays(nowhere))
        for name in sorted((had.keys() | packaged.keys()) - {"tools"}):
            if had.get(name) != packaged.get(name):
                raise CannotRunError(f"the case reads a {name}.yaml that is not packaged")
        known: Any = packaged.get("tools") or {}
        return [
            {
                key: value
                for key, value in manifest.items()
                if value is not None and (value or key not in _IF_FILLED)
            }
            for tool, manifest in (had.get("tools") or {}).items()
            if known.get(tool) != manifest
        ]

    def _put_beside(self, tools: Sequence[Mapping[str, Any]]) -> None:
        path = self.engine.settings.root / "tools.yaml"
        if tools:
            path.write_text(_text({"tools": list(tools)}, "in force"), encoding="utf-8")
        else:
            path.unlink(missing_ok=True)

    def _cut_manifests(self) -> bool:
        """Whether no single manifest can go any more."""
        for tool in list(self.tools):
            if self.runs >= MAX_RUNS:
                return False
            less = [one for one in self.tools if one is not tool]
            self._put_beside(less)
            if self._take(self.scenario):
                self.tools = less
            else:
                self._put_beside(self.tools)
        return True

    # -- judging

    def _is_same(self, scenario: dict[str, Any]) -> bool:
        """Whether a run of the scenario gives the finding.

        Raises:
            InputError: It does not load.
        """
        finding, events, status = self._run(scenario)
        return status == self.status and _likeness(finding, events) == self.wanted

    def _run(self, scenario: dict[str, Any]) -> tuple[Finding, Sequence[Mapping[str, Any]], str]:
        from pytest_evarness.checks.evidence import named_types, possible_types
        from pytest_evarness.contract.corpus import settled
        from pytest_evarness.contract.evaluate import evaluate
        from pytest_evarness.core.execution import execute
        from pytest_evarness.core.run import trace_of

        (case,) = self.engine.compile(copy.deepcopy(scenario), self.engine.settings.root)
        self.runs += 1
        with self.engine.world(case, {}) as world:
            run = execute(case.compiled, self.engine.registry, world=world)
        events = [event.as_record() for event in run.events]
        ends_paused = self.target.trace.closed and self.status == "paused"
        trace = trace_of(run.status, events, pause_is_end=ends_paused)
        contract = self.target.contract
        graph = case.compiled.graph
        possible = possible_types(graph, self.engine.registry, named_types(case.items))
        (finding,) = evaluate([contract], trace, self.engine.registry, possible_types=possible)
        return settled(contract, finding), events, run.status

    def _take(self, scenario: dict[str, Any]) -> bool:
        """Go on with the scenario if it gives the finding."""
        try:
            same = self._is_same(scenario)
        except (InputError, DeterminismError):
            return False
        if same:
            self.scenario = scenario
        return same

    # -- cutting

    def _cut(self) -> bool:
        """Whether no single part can go any more."""
        while True:
            is_cut = False
            for change in self._changes():
                if self.runs >= MAX_RUNS:
                    return False
                is_cut = self._take(change) or is_cut
            if not is_cut:
                return True

    def _changes(self) -> Iterator[dict[str, Any]]:
        """The scenario without one part of it, large parts first; each of what stands by then."""
        outside = self._outside()
        if len(outside) > 1:
            yield self._without_nodes(outside)
        for name in self._nodes():
            if name in self._nodes():
                yield self._without_nodes({name})
        yield from self._without_entries()

    def _nodes(self) -> list[str]:
        return [node["id"] for node in self.scenario["subject"]["graph"]["nodes"]]

    def _outside(self) -> set[str]:
        """Nodes that lead to no event of the finding."""
        from pytest_evarness.report.causal import ancestors

        events, witness = self.target.trace.events, self.target.finding.witness
        nearest: Any = witness.nearest[:1]
        seqs = {*witness.events, *(one["seq"] for one in nearest)}
        graph = self.scenario["subject"]["graph"]
        above = {name for seq in seqs for name in ancestors(graph, events[seq]["node_id"])}
        return set(self._nodes()) - above if above else set()

    def _without_nodes(self, gone: set[str]) -> dict[str, Any]:
        """Without nodes; what led to one leads to where it led."""
        made = copy.deepcopy(self.scenario)
        graph = made["subject"]["graph"]
        graph["nodes"] = [node for node in graph["nodes"] if node["id"] not in gone]
        waived = made["subject"].pop("waive", {})
        kept = {name: entry for name, entry in waived.items() if name not in gone}
        if kept:
            made["subject"]["waive"] = kept
        for name in sorted(gone):
            before = [edge for edge in graph["edges"] if edge["to"] == name]
            after = [edge for edge in graph["edges"] if edge["from"] == name]
            graph["edges"] = [
                edge for edge in graph["edges"] if name not in (edge["from"], edge["to"])
            ]
            for one in before:
                for other in after:
                    joined = {
                        "from": one["from"],
                        "from_port": one.get("from_port"),
                        "to": other["to"],
                        "to_port": other.get("to_port"),
                    }
                    edge = {key: value for key, value in joined.items() if value is not None}
                    if edge not in graph["edges"]:
                        graph["edges"].append(edge)
        return made

    def _without_entries(self) -> Iterator[dict[str, Any]]:
        from pytest_evarness.history.slicing import paths, without

        for path in list(paths(self.scenario.get("environment"), deepest=_DEEPEST)):
            environment = without(self.scenario.get("environment", {}), path)
            if environment is not None:
                made = copy.deepcopy({**self.scenario, "environment": environment})
                if not environment:
                    del made["environment"]
                yield made


def _files(entries: Sequence[Mapping[str, Any]], materials: Mapping[str, Any]) -> dict[str, Any]:
    """The files of a workspace as a scenario writes them.

    Raises:
        CannotRunError: One is a link, for which there is no word.
    """
    made: dict[str, Any] = {}
    for entry in entries:
        if entry["type"] == "symlink":
            raise CannotRunError("the case copies a folder with links, which no scenario can write")
        if entry["type"] == "file":
            made[entry["path"]] = {**_content(materials[entry["sha256"]]), "mode": entry["mode"]}
    return made


def _script(init: Sequence[Any], materials: Mapping[str, Any]) -> str:
    """Files of SQL as one text, in which a last statement without an end gets one."""
    scripts = [
        material_bytes(materials[one["sha256"]]).decode("utf-8") if isinstance(one, dict) else one
        for one in init
    ]
    return "".join(
        text if text.rstrip().endswith(";") else f"{text}\n;\n" for text in scripts if text.strip()
    )


def _content(material: Any) -> dict[str, str]:
    return {"text": material} if isinstance(material, str) else dict(material)


def _likeness(finding: Finding, events: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
    """What a finding is about, whatever numbers, digests and values its run has."""
    from pytest_evarness.history.slicing import signature

    def identity(seq: int) -> tuple[Any, Any]:
        event = events[seq]
        return event["type"], event["node_id"]

    def text(value: str) -> str:
        return _NUMBERED.sub(r"\1 N", _DIGEST.sub("sha256:...", value))

    if finding.outcome is Outcome.PASS:
        return (finding.outcome,)
    return signature(finding, identity, text=text)
