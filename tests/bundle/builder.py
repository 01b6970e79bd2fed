"""Small bundles made the way a session makes them: sealed, run twice, judged, recorded, signed."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.bundle.canonical import canonical_bytes
from pytest_evarness.bundle.envelope import envelope_bytes
from pytest_evarness.bundle.evidence import check_rows
from pytest_evarness.bundle.facts import environment_facts
from pytest_evarness.bundle.seal import PlannedCase, Settings, build_seal, environment_digest
from pytest_evarness.bundle.statement import CaseRecord, RunRecord, build_statement
from pytest_evarness.bundle.verify import Options, Report, verify_bundle
from pytest_evarness.checks.evidence import Evidence, RunFacts, named_types, possible_types
from pytest_evarness.checks.gathering import judge_case
from pytest_evarness.checks.judge import Judge
from pytest_evarness.contract.applicability import BY_SCENARIO, INLINE
from pytest_evarness.core import c1
from pytest_evarness.core.case import ENVIRONMENT_DEFAULTS, CompiledCase
from pytest_evarness.core.execution import execute
from pytest_evarness.core.graph import parse_graph
from pytest_evarness.core.interfaces import Locations
from pytest_evarness.core.outcome import Severity
from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.core.registry import Registry, packaged_registry
from tests.checks.fake import FakeScene, Probe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_evarness.bundle.key import PublicKey, SigningKey
    from pytest_evarness.core.run import Run

GRAPH: dict[str, Any] = {
    "ir_version": 1,
    "id": "gated-send",
    "name": "Gated send",
    "nodes": [
        {"id": "n1", "type": "input"},
        {"id": "n3", "type": "approval_gate", "config": {"prompt": "Send it?"}},
        {
            "id": "n4",
            "type": "tool",
            "config": {"tool": "email.send", "approve_side_effects": True},
        },
        {"id": "n7", "type": "output"},
    ],
    "edges": [
        {"from": "n1", "to": "n3"},
        {"from": "n3", "to": "n4"},
        {"from": "n4", "to": "n7"},
    ],
}
ANSWERS = {"email.send": [{"match": {"query_contains": "q3"}, "result": [{"id": "sent-1"}]}]}
APPROVAL_FIRST = {
    "precedes": {"first": {"type": "approval_granted"}, "second": {"type": "tool_called"}}
}
NO_SEND_AFTER_REJECTION = {"never": {"type": "tool_called", "after": {"type": "approval_rejected"}}}
ENDS = {"eventually": {"type": "run_finished"}}
GIT = {"commit": "c" * 40, "tree": "d" * 40, "clean": True}
CASE_DEFAULTS: dict[str, str | None] = {"approve": "approve", "reject": "reject", "pending": None}


@lru_cache(maxsize=1)
def registry() -> Registry:
    made = packaged_registry()
    made.check_types.register("probe", Probe())
    return made


@dataclass(frozen=True)
class Spec:
    """One case of a session in the making."""

    case: str = "approve"
    decision: str | None = "approve"
    expect: Mapping[str, Any] = field(default_factory=lambda: {"status": "completed"})
    graph: Mapping[str, Any] = field(default_factory=lambda: GRAPH)
    contracts: Mapping[str, Any] = field(
        default_factory=lambda: {
            "approval-precedes-send": APPROVAL_FIRST,
            "no-send-after-rejection": NO_SEND_AFTER_REJECTION,
        }
    )
    checks: Mapping[str, str] = field(default_factory=dict)  # id -> text the file is to hold
    file_text: str | None = "hello"  # what the one file of the workspace holds; None: no workspace
    soft: Mapping[str, str] = field(default_factory=dict)  # id -> weight, beside a threshold
    threshold: str | None = None
    mode: str = "release"
    diagnose: bool = False
    file: str = "scenarios/send.yaml"
    policy: str | None = "2026-11"
    params: Mapping[str, Any] = field(default_factory=lambda: {"tier": "pro"})
    deselected: Mapping[str, str] = field(default_factory=dict)
    waived: tuple[str, ...] = ()
    prompt: str = "send the q3 report"
    secrets: tuple[str, ...] = ()

    @property
    def nodeid(self) -> str:
        return f"{self.file}::{self.case}"


APPROVE = Spec()
REJECT = Spec("reject", "reject", {"status": "blocked"})
PENDING = Spec("pending", None, {"status": "paused"})
UNDECIDED = Spec("undecided", None)
WEIGHED = Spec("weighed", soft={"short": "0.3"}, threshold="0.85")


def environment_of(spec: Spec) -> dict[str, Any]:
    domain = registry().domains.resolve("agents")
    given: dict[str, Any] = {"tools": ANSWERS}
    if spec.decision is not None:
        given["approvals"] = {"n3": {"decision": spec.decision, "approver": "alice"}}
    environment: dict[str, Any] = {
        **ENVIRONMENT_DEFAULTS,
        "user_input": spec.prompt,
        "params": dict(spec.params),
        "seed": spec.graph.get("params", {}).get("seed", 42),
        "provider": spec.graph.get("params", {}).get("provider", "sim:helpful-v1"),
    }
    for key in domain.environment_keys():
        if key.name in given:
            value, faults = key.parse(given[key.name])
            assert not faults, faults
            environment[key.name] = value
    return environment


def overlays() -> dict[str, Any]:
    domain = registry().domains.resolve("agents")
    places = Locations(root=Path("/nowhere"), home=None, beside=(), variables={})
    return {overlay.name: overlay.value for overlay in domain.load_overlays(places)}


def compiled_of(spec: Spec) -> CompiledCase:
    graph, faults = parse_graph(dict(spec.graph), registry())
    assert graph is not None, faults
    return CompiledCase.build(
        scenario="send",
        case=spec.case,
        graph=graph,
        fixture="send",
        environment=environment_of(spec),
        policy_revision=spec.policy,
        overlays=overlays(),
        secrets=spec.secrets,
        diagnose=spec.diagnose,
    )


def definition_of(name: str, body: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    from pytest_evarness.contract.model import parse_contract

    contract, faults = parse_contract(name, {"assert": body, **more}, registry=registry())
    assert contract is not None, faults
    return json.loads(c1.text(contract.definition()))  # type: ignore[no-any-return]


def expectation_of(spec: Spec) -> dict[str, Any]:
    empty: dict[str, Any] = {"status": "completed", "nodes_run": [], "nodes_not_run": []}
    return {**empty, **spec.expect, "written": True}


def items_of(spec: Spec) -> tuple[PlannedItem, ...]:
    items = [
        PlannedItem("reproduces", "reproduces", gate=True, definition={}),
        PlannedItem("expect", "expect", gate=True, definition=expectation_of(spec), path=spec.file),
    ]
    for name, body in spec.contracts.items():
        items.append(
            PlannedItem(
                name,
                "contract",
                gate=True,
                version=1,
                severity=Severity.CRITICAL,
                definition=definition_of(
                    name, body, owner="governance", severity="critical", title=f"{name} holds"
                ),
                description=f"{name} holds",
                path="contracts/send.yaml",
                line=3,
                untested=True,
                because=BY_SCENARIO,
            )
        )
    for name, text in spec.checks.items():
        items.append(
            PlannedItem(
                name,
                "probe",
                gate=True,
                definition={
                    "type": "probe",
                    "path": "a.txt",
                    "equals": text,
                    "timeout": 30.0,
                    "recheck": False,
                },
                description=f"{name} is so",
                path=spec.file,
                line=9,
            )
        )
    for name, weight in spec.soft.items():
        items.append(
            PlannedItem(
                name,
                "trace",
                decides=False,
                weight=Fraction(weight),
                definition=definition_of(name, ENDS),
                path=spec.file,
                because=INLINE,
            )
        )
    if spec.threshold is not None:
        items.append(PlannedItem("score", "score", path=spec.file))
    return tuple(items)


def planned_of(spec: Spec) -> PlannedCase:
    return PlannedCase(
        nodeid=spec.nodeid,
        file=spec.file,
        case=spec.case,
        base=spec.case,
        mode=spec.mode,
        digest=compiled_of(spec).digest,
        scenario=c1.sha256_text(scenario_of(spec)),
        threshold=None if spec.threshold is None else Fraction(spec.threshold),
        items=items_of(spec),
        policy=spec.policy,
        subjects=((spec.file, "a" * 64), ("graphs/send.json", "b" * 64)),
        overlays=(("tools", "packaged/tools.yaml", "e" * 64),),
        waived=spec.waived,
        deselected=dict(spec.deselected),
    )


def scenario_of(spec: Spec) -> str:
    named: dict[str, Any] = {name: {} for name in spec.contracts}
    for name, text in spec.checks.items():
        entry = {"description": f"{name} is so", "gate": True, "weight": 0}
        named[name] = {**entry, "check": {"type": "probe", "path": "a.txt", "equals": text}}
    for name, weight in spec.soft.items():
        named[name] = {"weight": float(weight), "check": {"type": "trace", "assert": ENDS}}
    entries: dict[str, Any] = {"invariants": named} if named else {}
    if spec.threshold is not None:
        entries["scoring"] = {"pass_threshold": float(spec.threshold)}
    waived: dict[str, Any] = {}
    if spec.waived:
        waived["waive"] = {"n4": {"rule": "unguarded", "reason": "a demo"}}
    if spec.policy is not None:
        entries["policy"] = {"revision": spec.policy}
    if spec.secrets:
        entries["secrets"] = list(spec.secrets)
    environment: dict[str, Any] = {
        "fixture": "send.yaml",
        "user_input": spec.prompt,
        "params": dict(spec.params),
        "tools": ANSWERS,
    }
    if spec.decision is not None:
        environment["approvals"] = {"n3": {"decision": spec.decision, "approver": "alice"}}
    return c1.text(
        {
            "evarness": 1,
            "id": "send",
            "mode": spec.mode,
            "subject": {"graph": spec.graph, **waived},
            "environment": environment,
            "expect": dict(spec.expect),
            **entries,
        }
    )


def facts_of(label: str, run: Run) -> RunFacts:
    return RunFacts(
        label,
        run.status,
        run.complete,
        len(run.events),
        run.trace_digest,
        run.chain_digest,
        run.world_digest,
        run.error,
    )


def record_of(
    spec: Spec,
    *,
    strict_vacuity: bool = False,
    spec_b: Spec | None = None,
    error_b: str | None = None,
) -> CaseRecord:
    """Run a case twice and judge it.

    Args:
        spec_b: Run B runs this one instead, so that it does not reproduce.
        error_b: There is no run B, for this reason.
    """
    compiled = compiled_of(spec)
    secrets = {name: f"value of {name}" for name in spec.secrets}
    a = execute(compiled, registry(), secrets=secrets)
    b = None
    if error_b is None:
        b = execute(compiled_of(spec_b or spec), registry(), secrets=secrets)
    differs = b is not None and b.trace_digest != a.trace_digest
    evidence = Evidence(
        events=[event.as_record() for event in a.events],
        a=facts_of("a", a),
        b=None if b is None else facts_of("b", b),
        events_b=[event.as_record() for event in b.events] if b is not None and differs else None,
        error_b=error_b,
        output=a.output if a.status == "completed" else None,
        possible=possible_types(compiled.graph, registry(), named_types(items_of(spec))),
        leftovers=tuple(a.leftovers),
    )
    threshold = None if spec.threshold is None else Fraction(spec.threshold)
    judge = Judge(registry(), strict_vacuity=strict_vacuity)
    with tempfile.TemporaryDirectory() as folder:
        scene = FakeScene(secrets=secrets)
        if spec.file_text is not None:
            scene.workspace = Path(folder)
            (scene.workspace / "a.txt").write_text(spec.file_text, encoding="utf-8")
        evidence, judgement = judge_case(
            judge,
            items_of(spec),
            evidence,
            scene,
            threshold=threshold,
            is_diagnostic=spec.mode == "diagnostic",
        )
    rows = check_rows(items_of(spec), evidence, scene.masker, judgement.masked)
    composite = judgement.composite
    return CaseRecord(
        nodeid=spec.nodeid,
        compiled=compiled.text,
        graph=compiled.graph_text,
        overlays=compiled.overlays_text,
        scenario=scenario_of(spec),
        a=RunRecord.from_run(a),
        b=None if b is None else RunRecord.from_run(b),
        error_b=error_b,
        findings=judgement.findings,
        verdict=judgement.verdict,
        composite=None if composite is None else composite.as_record(),
        primary=judgement.primary,
        output=a.output,
        evidence=rows,
    )


def environment(rerun: str = "mirror") -> dict[str, Any]:
    facts = environment_facts(rerun=rerun)
    # Fixed, so that the size of a test does not depend on what is installed.
    facts["packages"] = [{"name": "pytest", "version": "9.2.0"}]
    facts["mirror"] = ["time zone: another one"] if rerun == "mirror" else []
    return facts


def statement_of(
    *specs: Spec,
    records: Sequence[CaseRecord] | None = None,
    settings: Settings | None = None,
    signed: bool = True,
    broken: Sequence[tuple[str, str]] = (),
    challenge: str | None = "fresh-1",
    git: Mapping[str, Any] | None = GIT,
    plugins: Sequence[tuple[str, str]] = (("agents", "0.1.0"),),
) -> dict[str, Any]:
    settings = settings if settings is not None else Settings()
    facts = environment(settings.rerun)
    seal = build_seal(
        [planned_of(spec) for spec in specs],
        broken=broken,
        engine={"pytest-evarness": "0.1.0"},
        plugins=plugins,
        git=git,
        environment=environment_digest(facts),
        settings=settings,
        challenge=challenge,
        nonce="0" * 32,
        time="2026-11-30T12:00:00Z",
    )
    if records is None:
        strict = settings.strict_vacuity
        records = [record_of(spec, strict_vacuity=strict) for spec in specs]
    return build_statement(seal, records, environment=facts, registry=registry(), signed=signed)


def bundle_of(statement: Mapping[str, Any], key: SigningKey | None) -> bytes:
    return envelope_bytes(canonical_bytes(statement), key)


def verified(
    data: bytes, *keys: PublicKey, registry_used: Registry | None = None, **options: Any
) -> Report:
    return verify_bundle(
        data, options=Options(keys=keys, **options), registry=registry_used or registry()
    )


def refused_by(report: Report) -> tuple[str, str]:
    """Name and text of the step that refused; the rest of the report must agree with it."""
    assert (report.result, report.exit) == ("not_genuine", 1)
    assert report.claim is None
    failed = [step for step in report.steps if step.outcome == "fail"]
    assert len(failed) == 1, report.steps
    after = report.steps[report.steps.index(failed[0]) + 1 :]
    assert all(step.outcome == "not_checked" for step in after)
    return failed[0].step, failed[0].detail


def changed(spec: Spec, **changes: Any) -> Spec:
    return replace(spec, **changes)
