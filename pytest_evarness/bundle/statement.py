"""The statement: seal, environment, cases, verdict, and what is not proven, in one record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.bundle.evidence import MAX_EVIDENCE_BYTES, output_row
from pytest_evarness.bundle.seal import binding_of
from pytest_evarness.core.bulk import bulk
from pytest_evarness.core.c1 import sha256_text
from pytest_evarness.core.c1 import text as c1_text
from pytest_evarness.core.finding import FOR_REVIEW, Finding

if TYPE_CHECKING:
    from pytest_evarness.bundle.exercise import Exercise
    from pytest_evarness.core.json import Json
    from pytest_evarness.core.registry import Registry

__all__ = [
    "PREDICATE_TYPE",
    "SEAL_PREDICATE_TYPE",
    "STATEMENT_TYPE",
    "CaseRecord",
    "RunRecord",
    "approvals_of",
    "build_seal_statement",
    "build_statement",
    "inputs_of",
    "params_of",
    "review_queue",
    "subjects_of",
]

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://pytest-evarness.readthedocs.io/proof/v1"
SEAL_PREDICATE_TYPE = "https://pytest-evarness.readthedocs.io/seal/v1"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One finished run, as JSON can carry it between processes.

    Attributes:
        events: The exact c1 text of each event.
        world: The c1 text of the world after the run; ``world_digest`` is its sha256.
        error: Why the run is ``unfinished``; None otherwise.
    """

    status: str
    complete: bool
    events: tuple[str, ...]
    trace_digest: str
    chain_digest: str
    world_digest: str
    world: str
    leftovers: tuple[str, ...] = ()
    error: str | None = None

    @classmethod
    def from_run(cls, run: Any) -> RunRecord:
        """Take what the bundle needs from a :class:`pytest_evarness.core.run.Run`."""
        return cls(
            status=run.status,
            complete=run.complete,
            events=tuple(run.texts),
            trace_digest=run.trace_digest,
            chain_digest=run.chain_digest,
            world_digest=run.world_digest,
            world=run.world_text,
            leftovers=tuple(run.leftovers),
            error=run.error,
        )

    def as_record(self) -> dict[str, Json]:
        """Exactly JSON types."""
        return {
            "status": self.status,
            "complete": self.complete,
            "events": list(self.events),
            "trace_digest": self.trace_digest,
            "chain_digest": self.chain_digest,
            "world_digest": self.world_digest,
            "world": self.world,
            "leftovers": list(self.leftovers),
            "error": self.error,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RunRecord:
        """Read what :meth:`as_record` wrote."""
        return cls(
            status=record["status"],
            complete=record["complete"],
            events=tuple(record["events"]),
            trace_digest=record["trace_digest"],
            chain_digest=record["chain_digest"],
            world_digest=record["world_digest"],
            world=record["world"],
            leftovers=tuple(record["leftovers"]),
            error=record["error"],
        )


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """One case that ran and was judged.

    Attributes:
        nodeid: As in the plan.
        compiled: Text of the compiled case; its sha256 is the case digest of the plan.
        graph: c1 text of the graph; cases of one graph give one text.
        overlays: c1 text of the overlays.
        scenario: c1 text of the merged case as it ran.
        b: None when run B could not be made; ``error_b`` then says why.
        output: The whole output of run A, needed only where its event holds a cut text.
        materials: c1 text of the contents of files that the case carries; None for none.
        evidence: A row for each check, as :func:`pytest_evarness.bundle.evidence.check_rows` gives.
        findings: One for each item of the plan, in its order, deselected ones included.
        composite: ``{low, high, threshold, raw}`` as text; None without a threshold.
        primary: Id of the failed item that the report names first.
    """

    nodeid: str
    compiled: str
    graph: str
    overlays: str
    scenario: str
    a: RunRecord
    b: RunRecord | None
    error_b: str | None
    findings: tuple[Finding, ...]
    verdict: str
    composite: Mapping[str, Json] | None = None
    primary: str | None = None
    output: str | None = None
    materials: str | None = None
    evidence: tuple[Mapping[str, str], ...] = ()

    def as_record(self) -> dict[str, Json]:
        """Exactly JSON types, for a report that crosses processes."""
        return {
            "nodeid": self.nodeid,
            "compiled": self.compiled,
            "graph": self.graph,
            "overlays": self.overlays,
            "scenario": self.scenario,
            "a": self.a.as_record(),
            "b": None if self.b is None else self.b.as_record(),
            "error_b": self.error_b,
            "findings": [finding.as_record() for finding in self.findings],
            "verdict": self.verdict,
            "composite": self.composite,
            "primary": self.primary,
            "output": self.output,
            "materials": self.materials,
            "evidence": [dict(row) for row in self.evidence],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CaseRecord:
        """Read what :meth:`as_record` wrote."""
        return cls(
            nodeid=record["nodeid"],
            compiled=record["compiled"],
            graph=record["graph"],
            overlays=record["overlays"],
            scenario=record["scenario"],
            a=RunRecord.from_record(record["a"]),
            b=None if record["b"] is None else RunRecord.from_record(record["b"]),
            error_b=record["error_b"],
            findings=tuple(Finding.from_record(one) for one in record["findings"]),
            verdict=record["verdict"],
            composite=record["composite"],
            primary=record["primary"],
            output=record["output"],
            materials=record["materials"],
            evidence=tuple(record["evidence"]),
        )


def build_seal_statement(seal: Mapping[str, Any]) -> dict[str, Any]:
    """The statement of a seal alone, written before the first run."""
    return {
        "_type": STATEMENT_TYPE,
        "subject": subjects_of(seal),
        "predicateType": SEAL_PREDICATE_TYPE,
        "predicate": {"seal": dict(seal)},
    }


@bulk()
def build_statement(
    seal: Mapping[str, Any],
    results: Iterable[CaseRecord],
    *,
    environment: Mapping[str, Any],
    registry: Registry,
    signed: bool,
    changed: Iterable[str] = (),
    exercises: Sequence[Exercise] | None = None,
) -> dict[str, Any]:
    """The statement of a session.

    Args:
        seal: What was written before the first run, unchanged.
        results: Cases that ran and were judged, in any order; the plan's order is used.
        environment: What ``facts.environment_facts`` gave, with what the mirror differed in.
        changed: Libraries that changed on disk since they were sealed, each in words.
        signed: False says under ``not_proven`` that nobody vouches for the bundle.
        exercises: What these cases exercised, where that is known.

    Raises:
        ValueError: A result for a case that is not in the plan, or two for one.
    """
    from pytest_evarness.bundle.exercise import exercises_of, ran_of, record_of
    from pytest_evarness.bundle.not_proven import not_proven
    from pytest_evarness.bundle.summary import summarise

    with_events = seal["settings"]["events"] == "full"
    by_nodeid: dict[str, CaseRecord] = {}
    for result in results:
        if result.nodeid in by_nodeid:
            raise ValueError(f"two results for one case (got {result.nodeid!r})")
        by_nodeid[result.nodeid] = result
    taken = list(by_nodeid.values())
    texts: dict[str, str] = {}
    digest_by_text: dict[str, str] = {}

    def shared(text: str) -> str:
        digest = digest_by_text.get(text)
        if digest is None:
            digest = digest_by_text[text] = sha256_text(text)
            texts[digest] = text
        return digest

    cases = []
    for planned in seal["plan"]:
        found = by_nodeid.pop(planned["nodeid"], None)
        if found is not None:
            shared(found.graph)
            shared(found.overlays)
            if found.materials is not None:
                shared(found.materials)
            cases.append(_case(seal["digest"], planned, found, with_events=with_events))
    if by_nodeid:
        raise ValueError(f"a result for a case that is not planned (got {next(iter(by_nodeid))!r})")
    predicate: dict[str, Any] = {
        "seal": dict(seal),
        "environment": dict(environment),
        "texts": [{"digest": digest, "text": texts[digest]} for digest in sorted(texts)],
        "cases": cases,
        "review_queue": review_queue(cases),
        "changed": list(changed),
    }
    if exercises is None:
        exercises = exercises_of(ran_of(taken), registry)
    predicate["exercised"] = record_of(exercises)
    predicate["verdict"] = summarise(predicate)
    predicate["not_proven"] = not_proven(predicate, registry, signed=signed, exercises=exercises)
    return {
        "_type": STATEMENT_TYPE,
        "subject": subjects_of(seal),
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }


def subjects_of(seal: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the statement is about: every file that went in, the working tree, and the seal."""
    subjects: list[dict[str, Any]] = [
        {"name": row["name"], "digest": {"sha256": row["sha256"]}} for row in seal["subjects"]
    ]
    git = seal["git"]
    if git is not None and git["commit"] is not None:
        digest = {"gitCommit": git["commit"], "gitTree": git["tree"]}
        subjects.append({"name": "working tree", "digest": digest})
    # A statement needs a subject; a session whose every file was broken has no other.
    hexadecimal = seal["digest"].removeprefix("sha256:")
    subjects.append({"name": "evarness seal", "digest": {"sha256": hexadecimal}})
    return subjects


def inputs_of(compiled: str, scenario: str) -> dict[str, Any]:
    """What a reader wants to see of a compiled case, derived from its text alone."""
    parts = json.loads(compiled)
    environment = parts["environment"]
    return {
        "compiled": compiled,
        "scenario": scenario,
        "graph": parts["graph"],
        "overlays": parts["overlays"],
        "materials": parts.get("materials"),
        "fixture": parts["fixture"],
        "approvals": approvals_of(environment),
        "seed": parts["seed"],
        "schedule": parts["schedule"],
        "provider": parts["provider"],
        "params": params_of(environment),
        "policy": parts["policy_revision"],
    }


def approvals_of(environment: Mapping[str, Any]) -> list[str]:
    """``NODE=decision`` for each scripted decision, sorted."""
    found = []
    for node, entry in environment.get("approvals", {}).items():
        decision = entry.get("decision") if isinstance(entry, Mapping) else entry
        found.append(f"{node}={decision}")
    return sorted(found)


def params_of(environment: Mapping[str, Any]) -> list[str]:
    """``NAME=<c1 text>`` for each free value, sorted."""
    params = environment.get("params", {})
    return sorted(f"{name}={c1_text(value)}" for name, value in params.items())


def _case(
    seal_digest: str, planned: Mapping[str, Any], result: CaseRecord, *, with_events: bool
) -> dict[str, Any]:
    compiled = json.loads(result.compiled)
    composite = None if result.composite is None else dict(result.composite)
    a, b = result.a, result.b
    runs = [_run(seal_digest, planned["nodeid"], "a", a)]
    events_b = world_b = None
    if b is not None:
        runs.append(_run(seal_digest, planned["nodeid"], "b", b))
        # A run that gave the same bytes needs no second copy of them.
        events_b = list(b.events) if b.events != a.events else None
        world_b = b.world if b.world != a.world else None
    return {
        "id": planned["case"],
        "nodeid": planned["nodeid"],
        "mode": planned["mode"],
        "verdict": result.verdict,
        "composite": composite,
        "primary": result.primary,
        "inputs": inputs_of(result.compiled, result.scenario),
        "replicas": [
            {
                "replica": 0,
                "seed": compiled["seed"],
                "status": a.status,
                "verdict": result.verdict,
                "composite": composite,
                "runs": runs,
                "events": list(a.events) if with_events else None,
                "events_b": events_b if with_events else None,
                "error_b": result.error_b,
                "world": a.world,
                "world_b": world_b,
                "evidence": [*_output(a.events, result.output), *map(dict, result.evidence)],
                "leftovers": list(a.leftovers),
                "findings": [finding_record(finding) for finding in result.findings],
            }
        ],
    }


def _run(seal_digest: str, nodeid: str, label: str, run: RunRecord) -> dict[str, Any]:
    return {
        "label": label,
        "status": run.status,
        "complete": run.complete,
        "events": len(run.events),
        "trace_digest": run.trace_digest,
        "chain_digest": run.chain_digest,
        "world_digest": run.world_digest,
        "binding": binding_of(seal_digest, nodeid, 0, label, run.chain_digest),
        "error": run.error,
    }


def finding_record(finding: Finding) -> dict[str, Any]:
    """A finding as it stands in a bundle: its witness is the c1 text of the witness record."""
    record: dict[str, Any] = dict(finding.as_record())
    record["witness"] = c1_text(record["witness"])
    return record


def review_queue(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """What a person is to look at: findings with a note that begins ``FOR_REVIEW``."""
    return [
        {"case": case["nodeid"], "invariant": finding["id"], "why": note.removeprefix(FOR_REVIEW)}
        for case in cases
        for replica in case["replicas"]
        for finding in replica["findings"]
        if FOR_REVIEW in finding["witness"]
        for note in json.loads(finding["witness"]).get("notes", ())
        if note.startswith(FOR_REVIEW)
    ]


def _output(events: Sequence[str], output: str | None) -> list[dict[str, str]]:
    """The whole output, where its event holds only the beginning and it fits."""
    if output is None or not events:
        return []
    shown = output_of([json.loads(events[-1])])
    if shown is None or shown == output or len(output.encode("utf-8")) > MAX_EVIDENCE_BYTES:
        return []
    return [output_row(output)]


def output_of(events: Sequence[Mapping[str, Any]]) -> str | None:
    """The output text that a run's last event shows; None where it shows none."""
    if not events or events[-1]["type"] != "run_finished":
        return None
    output = events[-1]["payload"].get("output")
    if not isinstance(output, Mapping):
        return None
    text = cast("Mapping[str, Any]", output).get("text")
    return text if isinstance(text, str) else None
