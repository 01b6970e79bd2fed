"""Steps 3 to 5 of verification: does everything that names something else agree with it?

Each function raises :class:`UnverifiedError` with the place; none changes what it is given.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NoReturn

from pytest_evarness.bundle.canonical import canonical_bytes, canonical_digest
from pytest_evarness.bundle.evidence import MAX_EVIDENCE_BYTES
from pytest_evarness.bundle.lookup import definitions_of
from pytest_evarness.bundle.seal import (
    CORPUS_FIELDS,
    OVERRIDE_FIELDS,
    binding_of,
    contract_rows,
    environment_digest,
)
from pytest_evarness.bundle.statement import inputs_of, review_queue, subjects_of
from pytest_evarness.checks.forbidden import DESCRIPTIONS
from pytest_evarness.core import c1
from pytest_evarness.core.event import is_tainted
from pytest_evarness.core.json import shown
from pytest_evarness.core.plan import FIXED_KINDS, PlannedItem
from pytest_evarness.errors import DeterminismError, UnverifiedError

__all__ = [
    "Events",
    "check_canonical_form",
    "check_cases",
    "check_environment",
    "check_findings_shape",
    "check_pins",
    "check_plan",
    "check_runs",
    "check_seal",
    "is_point_of",
    "parse_c1",
    "planned_items",
]

Events = dict[tuple[str, str], list[dict[str, Any]]]
"""``(nodeid, "a" | "b")`` to the events of that run, where they are enclosed."""

# The type of the last event, by status; None where the run has no end.
_ENDS: Mapping[str, tuple[str, ...]] = {
    "completed": ("run_finished",),
    "blocked": ("policy_violation", "run_failed"),
    "failed": ("engine_error", "run_failed"),
    "paused": ("run_paused",),
    "unscripted": ("script_exhausted",),
}
_TERMINAL = frozenset({"run_finished", "run_failed", "run_paused"})
_ENDED = frozenset({"completed", "blocked", "failed", "paused"})
_SHARED_ITEMS = ("reproduces", "expect")
_WEIGHTLESS = frozenset({"reproduces", "expect", "forbidden", "score"})
# What a matrix point adds to the id of a case: ".NAME-VALUE" for each axis.
_POINT = re.compile(r"\.[A-Za-z0-9_.-]+")


def _refuse(place: str, problem: str) -> NoReturn:
    raise UnverifiedError(f"{place}: {problem}")


def _same(place: str, got: Any, want: Any) -> None:
    """Refuse a value that is not the one it must be; types count (1 is not true)."""
    if got != want or type(got) is not type(want):
        _refuse(place, f"is {shown(got)}, and the rest of the bundle gives {shown(want)}")


# -- step 3: each text is its own canonical form ------------------------------------------------


def check_canonical_form(payload: bytes, statement: Mapping[str, Any]) -> Events:
    """Payload and every enclosed text are the one way to write what they say.

    Returns:
        The events, parsed.
    """
    try:
        own = canonical_bytes(statement)
    except (TypeError, ValueError) as error:
        raise UnverifiedError(f"the payload has no canonical form: {error}") from error
    if own != payload:
        raise UnverifiedError("the payload is not its own canonical encoding")
    predicate = statement["predicate"]
    for name, rows in (
        ("seal.definitions", predicate["seal"]["definitions"]),
        ("texts", predicate["texts"]),
    ):
        for index, row in enumerate(rows):
            parse_c1(row["text"], f"{name}[{index}].text")
            _same(f"{name}[{index}].digest", row["digest"], c1.sha256_text(row["text"]))
        digests = [row["digest"] for row in rows]
        if digests != sorted(set(digests)):
            _refuse(name, "is not sorted by digest, each once")
    events: Events = {}
    for index, case in enumerate(predicate["cases"]):
        place = f"cases[{index}]"
        parse_c1(case["inputs"]["compiled"], f"{place}.inputs.compiled")
        parse_c1(case["inputs"]["scenario"], f"{place}.inputs.scenario")
        for replica in case["replicas"]:
            for number, finding in enumerate(replica["findings"]):
                parse_c1(finding["witness"], f"{place}.findings[{number}].witness")
            for number, row in enumerate(replica["evidence"]):
                _check_row(row, f"{place}.evidence[{number}]")
            parse_c1(replica["world"], f"{place}.world")
            if replica["world_b"] is not None:
                parse_c1(replica["world_b"], f"{place}.world_b")
            for label, name in (("a", "events"), ("b", "events_b")):
                if replica[name] is not None:
                    events[case["nodeid"], label] = [
                        _event(text, f"{place}.{name}[{seq}]")
                        for seq, text in enumerate(replica[name])
                    ]
    return events


def _check_row(row: Mapping[str, Any], place: str) -> None:
    """A row of evidence is the text that its digest names, or says why the text is not there."""
    if row["state"] != "enclosed":
        _same(f"{place}.text", row["text"], "")
        if row["kind"] == "output":
            _refuse(f"{place}.state", "an output is enclosed or has no row")
        return
    _same(f"{place}.digest", row["digest"], c1.sha256_text(row["text"]))
    if len(row["text"].encode("utf-8")) > MAX_EVIDENCE_BYTES:
        _refuse(f"{place}.text", f"is longer than {MAX_EVIDENCE_BYTES} bytes")
    if row["kind"] == "check":
        parse_c1(row["text"], f"{place}.text")


def parse_c1(text: str, place: str) -> Any:
    """The value of a c1 text.

    Raises:
        UnverifiedError: It is not JSON, or not the c1 text of its own value. That refuses a key
            that stands there twice, NaN and white space as well.
    """
    try:
        value = json.loads(text)
        own = c1.text(value)
    except RecursionError as error:
        raise UnverifiedError(f"{place}: nested too deeply") from error
    except (ValueError, DeterminismError) as error:
        raise UnverifiedError(f"{place}: no c1 text ({error})") from error
    if own != text:
        _refuse(place, "is not the c1 text of its own value")
    return value


def _event(text: str, place: str) -> dict[str, Any]:
    event = parse_c1(text, place)
    if type(event) is not dict or event.keys() != {"seq", "type", "node_id", "payload"}:
        _refuse(place, "is no event (seq, type, node_id, payload)")
    if (
        type(event["seq"]) is not int
        or type(event["type"]) is not str
        or type(event["payload"]) is not dict
        or not (event["node_id"] is None or type(event["node_id"]) is str)
    ):
        _refuse(place, "is no event (a field is of another type)")
    return event


# -- step 4: the seal and what refers to it -----------------------------------------------------


def check_seal(statement: Mapping[str, Any]) -> None:
    """The seal's digest, the subjects, the contract set and the definitions agree."""
    seal = statement["predicate"]["seal"]
    contents = {key: value for key, value in seal.items() if key != "digest"}
    _same("seal.digest", seal["digest"], canonical_digest(contents))
    _same("subject", statement["subject"], subjects_of(seal))
    for name, keys in (
        ("engine", ("name",)),
        ("plugins", ("name", "version")),
        ("subjects", ("name", "sha256")),
        ("overlays", ("name", "label", "sha256")),
        ("policies", ("scenario", "revision")),
        ("broken", ("file", "text")),
        ("reviews", ("case", "invariant", "reviewer", "note")),
    ):
        rows = [tuple(row[key] for key in keys) for row in seal[name]]
        if rows != sorted(set(rows)):
            _refuse(f"seal.{name}", "is not sorted, each row once")
    used = {
        item["definition"]
        for planned in seal["plan"]
        for item in planned["items"]
        if item["definition"] is not None
    }
    enclosed = {row["digest"] for row in seal["definitions"]}
    if used != enclosed:
        odd = min(used ^ enclosed)
        _refuse("seal.definitions", f"{odd} is {'missing' if odd in used else 'not used'}")
    _same("seal.contracts", seal["contracts"], contract_rows(seal["plan"], seal["definitions"]))
    _check_libraries(seal)
    rows = [(row["id"], row["version"], row["definition"]) for row in seal["contracts"]]
    for index, row in enumerate(seal["redefined"]):
        if (row["id"], row["version"], row["definition"]) not in rows:
            _refuse(f"seal.redefined[{index}]", "names no contract of the set")


def _check_libraries(seal: Mapping[str, Any]) -> None:
    """Overrides and corpora say of the contract set what its definitions and items say."""
    for name, keys in (("overrides", OVERRIDE_FIELDS), ("corpora", CORPUS_FIELDS)):
        rows = [tuple(row[key] for key in keys) for row in seal[name]]
        if any(not one < other for one, other in itertools.pairwise(rows)):
            _refuse(f"seal.{name}", "is not sorted, each row once")
    definitions = definitions_of(seal)
    replacing = {row["definition"]: row for row in seal["overrides"]}
    known = {row["replaced"] for row in seal["overrides"]}
    for planned in seal["plan"]:
        for item in planned["items"]:
            if item["kind"] != "contract" or item["definition"] is None:
                continue
            known.add(item["definition"])
            definition = definitions[item["definition"]]
            place = f"{planned['nodeid']}::{item['id']}"
            row = replacing.get(item["definition"])
            says = None if row is None else f"{row['id']}@{row['replaced_version']}"
            if definition.get("overrides") != says:
                _refuse(f"{place}: definition", f"overrides another than the seal's row ({says})")
            _check_tried(item, definition, seal["corpora"], place)
    for index, row in enumerate(seal["overrides"]):
        if row["definition"] not in known:
            _refuse(f"seal.overrides[{index}]", "is of no contract of the set")


def _check_tried(
    item: Mapping[str, Any],
    definition: Mapping[str, Any],
    corpora: Sequence[Mapping[str, Any]],
    place: str,
) -> None:
    """A contract that is said to be tested has a corpus; one whose corpus fails judges nothing."""
    own = [
        row
        for row in corpora
        if (row["id"], row["version"]) == (definition.get("id"), definition.get("version"))
    ]
    if not item["untested"] and not own:
        _refuse(f"{place}: untested", "is false, and no corpus of it was tried")
    if item["broken"] is None and own and all(row["failed"] for row in own):
        _refuse(f"{place}: broken", "is null, and its corpus fails")


def is_point_of(case: str, base: str) -> bool:
    """Whether a case can be ``base`` itself, or a point of a matrix over it, by their ids."""
    if not base or case == base:
        return bool(base)
    point = case.removeprefix(base)
    return point != case and _POINT.fullmatch(point) is not None and "-" in point[2:-1]


def check_plan(seal: Mapping[str, Any]) -> None:
    """Every planned case is judged by what every case is judged by, and by nothing twice."""
    definitions = definitions_of(seal)
    nodeids = [planned["nodeid"] for planned in seal["plan"]]
    if len(set(nodeids)) != len(nodeids):
        _refuse("seal.plan", "holds one node id twice")
    for index, planned in enumerate(seal["plan"]):
        place = f"seal.plan[{index}]"
        if not planned["nodeid"].endswith(f"::{planned['case']}"):
            _refuse(f"{place}.nodeid", f"does not name the case {shown(planned['case'])}")
        if not is_point_of(planned["case"], planned["base"]):
            _refuse(f"{place}.base", "is not the case's id, with or without its matrix point")
        ids = [item["id"] for item in planned["items"]]
        if len(set(ids)) != len(ids):
            _refuse(f"{place}.items", "holds one id twice")
        kinds = [item["kind"] for item in planned["items"]]
        for kind in _SHARED_ITEMS:
            gates = [
                item["gate"] and item["decides"] and item["id"] == kind
                for item in planned["items"]
                if item["kind"] == kind
            ]
            if gates != [True]:
                _refuse(f"{place}.items", f"must hold the gate '{kind}' once")
        if kinds.count("score") != (planned["threshold"] is not None):
            _refuse(f"{place}.items", "'score' and a threshold go together")
        for number, item in enumerate(planned["items"]):
            _check_item(item, definitions, f"{place}.items[{number}]")
            has_threshold = planned["threshold"] is not None
            _check_influence(item, definitions, has_threshold, f"{place}.items[{number}]")
    items = {(case["nodeid"], item["id"]) for case in seal["plan"] for item in case["items"]}
    for index, row in enumerate(seal["reviews"]):
        if (row["case"], row["invariant"]) not in items:
            _refuse(f"seal.reviews[{index}]", "names no planned item")


def _check_item(item: Mapping[str, Any], definitions: Mapping[str, Any], place: str) -> None:
    if item["selected"] != (item["why"] is None):
        _refuse(f"{place}.why", "an item is selected exactly when there is no reason why not")
    if item["kind"] in ("contract", "trace") and item["definition"] is None:
        _refuse(f"{place}.definition", "a contract without a definition")
    if item["definition"] is not None and type(definitions[item["definition"]]) is not dict:
        _refuse(f"{place}.definition", "the definition is no mapping")
    if item["kind"] == "forbidden":
        _check_rule(item, definitions, place)
    if item["kind"] not in FIXED_KINDS and item["definition"] is None:
        _refuse(f"{place}.definition", "a check without a definition")
    if item["kind"] == "contract" and not item["gate"]:
        sealed = definitions[item["definition"]]
        if sealed.get("gate") is True and sealed.get("status") != "draft":
            _refuse(f"{place}.gate", "a contract that is hard cannot be softened")
    if item["kind"] == "contract":
        _same(f"{place}.version", item["version"], definitions[item["definition"]].get("version"))
    elif item["version"] is not None:
        _refuse(f"{place}.version", "only a contract has a version")
    try:
        again = planned_item(item, definitions).as_record()
    except (ValueError, ZeroDivisionError) as error:
        raise UnverifiedError(f"{place}: no item ({error})") from error
    # A number has one way to be written, so that no two records say the same.
    _same(f"{place}.weight", item["weight"], again["weight"])


def _check_influence(
    item: Mapping[str, Any], definitions: Mapping[str, Any], has_threshold: bool, place: str
) -> None:
    """Whether an item decides alone, or is only shown, follows from what it is."""
    kind, gate = item["kind"], item["gate"]
    weighs = Fraction(item["weight"]) > 0
    is_draft = False
    if kind in ("contract", "trace"):
        is_draft = definitions[item["definition"]].get("status") == "draft"
    if is_draft and (gate or weighs):
        _refuse(place, "a draft is no gate and has no weight")
    if weighs and kind in _WEIGHTLESS:
        _refuse(f"{place}.weight", f"an item of kind {kind} has no weight")
    informational = is_draft or (
        has_threshold and not gate and not weighs and kind not in _WEIGHTLESS
    )
    decides = gate or (not informational and (not has_threshold or kind == "score"))
    for name, own in (("informational", informational), ("decides", decides)):
        if item[name] != own:
            problem = f"is {shown(item[name])}, and the item gives {shown(own)}"
            _refuse(f"{place}.{name}", problem)


def _check_rule(item: Mapping[str, Any], definitions: Mapping[str, Any], place: str) -> None:
    """A forbidden rule is a gate, and its id says which rule it is."""
    if not item["gate"]:
        _refuse(f"{place}.gate", "a forbidden rule is a gate")
    definition = {} if item["definition"] is None else definitions[item["definition"]]
    rule = definition.get("rule")
    if rule not in DESCRIPTIONS or item["id"] != f"forbidden-{rule.replace('_', '-')}":
        _refuse(f"{place}.definition", "is no rule of that name")


def planned_item(item: Mapping[str, Any], definitions: Mapping[str, Any]) -> PlannedItem:
    """The item as it was planned, its definition put back in."""
    digest = item["definition"]
    definition = None if digest is None else definitions[digest]
    return PlannedItem.from_record({**item, "definition": definition})


def planned_items(
    planned: Mapping[str, Any], definitions: Mapping[str, Any]
) -> tuple[PlannedItem, ...]:
    """Every item of a planned case. Items that share a definition share the very object."""
    return tuple(planned_item(item, definitions) for item in planned["items"])


def check_environment(predicate: Mapping[str, Any]) -> None:
    """The environment is the one that was sealed."""
    seal, environment = predicate["seal"], predicate["environment"]
    _same("seal.environment", seal["environment"], environment_digest(environment))
    _same("environment.rerun", environment["rerun"], seal["settings"]["rerun"])
    if environment["rerun"] == "inline" and environment["mirror"]:
        _refuse("environment.mirror", "an inline rerun has no mirror that differed")


def check_cases(predicate: Mapping[str, Any]) -> None:
    """Each case is a planned one and its inputs follow from its text; nothing is left over."""
    seal = predicate["seal"]
    planned_by_nodeid = {planned["nodeid"]: planned for planned in seal["plan"]}
    order = {nodeid: index for index, nodeid in enumerate(planned_by_nodeid)}
    places = [order.get(case["nodeid"], -1) for case in predicate["cases"]]
    if -1 in places:
        _refuse(f"cases[{places.index(-1)}].nodeid", "is not in the plan")
    if places != sorted(set(places)):
        _refuse("cases", "are not in the plan's order, each once")
    policies = {(row["scenario"], row["revision"]) for row in seal["policies"]}
    met_policies = set()
    referred = set()
    for index, case in enumerate(predicate["cases"]):
        planned = planned_by_nodeid[case["nodeid"]]
        place = f"cases[{index}]"
        inputs = case["inputs"]
        _same(f"{place}.id", case["id"], planned["case"])
        _same(f"{place}.mode", case["mode"], planned["mode"])
        for name, digest in (("compiled", "digest"), ("scenario", "scenario")):
            _same(f"{place}.inputs.{name}", c1.sha256_text(inputs[name]), planned[digest])
        diagnose = seal["settings"]["diagnose"] and planned["mode"] == "diagnostic"
        try:
            derived = inputs_of(inputs["compiled"], inputs["scenario"])
            compiled = json.loads(inputs["compiled"])
            name_inside = compiled["case"]
        except (KeyError, TypeError, AttributeError) as error:
            raise UnverifiedError(f"{place}.inputs.compiled: no compiled case") from error
        for name, value in derived.items():
            _same(f"{place}.inputs.{name}", inputs[name], value)
        _same(f"{place}.inputs.compiled.case", name_inside, case["id"])
        _same(f"{place}.inputs.compiled.diagnose", compiled.get("diagnose", False), diagnose)
        referred |= {inputs["graph"], inputs["overlays"]} | ({inputs["materials"]} - {None})
        if inputs["policy"] is not None:
            met_policies.add((planned["file"], inputs["policy"]))
    enclosed = {row["digest"] for row in predicate["texts"]}
    if referred != enclosed:
        odd = min(referred ^ enclosed)
        _refuse("texts", f"{odd} is {'missing' if odd in referred else 'not used'}")
    ran = {case["nodeid"] for case in predicate["cases"]}
    silent = {planned["file"] for planned in seal["plan"] if planned["nodeid"] not in ran}
    for pair in sorted(met_policies - policies):
        _refuse("seal.policies", f"{shown(pair[1])} of {shown(pair[0])} is missing")
    for scenario, revision in sorted(policies - met_policies):
        if scenario not in silent:
            _refuse("seal.policies", f"{shown(revision)} of {shown(scenario)} is in no case")


def check_pins(seal: Mapping[str, Any], *, commit: str | None, challenge: str | None) -> list[str]:
    """The caller's own expectations of the seal.

    Returns:
        What the caller should know beside the answer.
    """
    notes = []
    git = seal["git"]
    if commit is not None:
        if git is None or git["commit"] is None:
            _refuse("seal.git", f"no commit is named, and {commit} is expected")
        if git["commit"] != commit.lower():
            _refuse("seal.git.commit", f"is {git['commit']}, and {commit} is expected")
        if git["clean"] is not True:
            notes.append("the commit is the expected one, but the working tree was not clean")
    if challenge is not None and seal["challenge"] != challenge:
        _refuse("seal.challenge", f"is {shown(seal['challenge'])}, and another one is expected")
    return notes


# -- step 5: runs -------------------------------------------------------------------------------


def check_runs(predicate: Mapping[str, Any], events: Events) -> int:
    """Counts, sequence, digests, bindings and ends of every run.

    Returns:
        How many runs there are whose events are not enclosed.
    """
    seal = predicate["seal"]
    with_events = seal["settings"]["events"] == "full"
    unseen = 0
    for index, case in enumerate(predicate["cases"]):
        place = f"cases[{index}]"
        compiled = json.loads(case["inputs"]["compiled"])
        for replica in case["replicas"]:
            _check_replica(case, replica, compiled, place)
            if (replica["events"] is not None) != with_events:
                _refuse(f"{place}.events", "enclosed or not unlike the sealed settings say")
            for run in replica["runs"]:
                runs = f"{place}.runs[{run['label']}]"
                binding = binding_of(
                    seal["digest"],
                    case["nodeid"],
                    replica["replica"],
                    run["label"],
                    run["chain_digest"],
                )
                _same(f"{runs}.binding", run["binding"], binding)
                _same(f"{runs}.complete", run["complete"], run["status"] in _ENDED)
                enclosed = _enclosed(replica, run["label"], events, case["nodeid"])
                if enclosed is None:
                    unseen += 1
                    continue
                texts, parsed = enclosed
                _check_run(run, texts, parsed, compiled, runs)
    return unseen


def _check_replica(
    case: Mapping[str, Any], replica: Mapping[str, Any], compiled: Mapping[str, Any], place: str
) -> None:
    _same(f"{place}.seed", replica["seed"], compiled["seed"])
    for name in ("verdict", "composite"):
        _same(f"{place}.replicas[0].{name}", replica[name], case[name])
    runs = {run["label"]: run for run in replica["runs"]}
    if [run["label"] for run in replica["runs"]] not in (["a"], ["a", "b"]):
        _refuse(f"{place}.runs", "must be a, or a and b")
    a, b = runs["a"], runs.get("b")
    _same(f"{place}.status", replica["status"], a["status"])
    if (b is None) != (replica["error_b"] is not None):
        _refuse(f"{place}.error_b", "says why there is no run B, and nothing else")
    _same(f"{place}.runs[a].world_digest", a["world_digest"], c1.sha256_text(replica["world"]))
    world_b = replica["world"] if replica["world_b"] is None else replica["world_b"]
    if b is None:
        if replica["world_b"] is not None or replica["events_b"] is not None:
            _refuse(f"{place}.runs", "there is no run B, and something of it is enclosed")
        return
    _same(f"{place}.runs[b].world_digest", b["world_digest"], c1.sha256_text(world_b))
    if replica["world_b"] == replica["world"]:
        _refuse(f"{place}.world_b", "is enclosed although it is run A's")
    if replica["events_b"] is not None and replica["events_b"] == replica["events"]:
        _refuse(f"{place}.events_b", "are enclosed although they are run A's")


def _enclosed(
    replica: Mapping[str, Any], label: str, events: Events, nodeid: str
) -> tuple[list[str], list[dict[str, Any]]] | None:
    if replica["events"] is None:
        return None
    if label == "b" and replica["events_b"] is not None:
        return replica["events_b"], events[nodeid, "b"]
    return replica["events"], events[nodeid, "a"]


def _check_run(
    run: Mapping[str, Any],
    texts: Sequence[str],
    events: Sequence[Mapping[str, Any]],
    compiled: Mapping[str, Any],
    place: str,
) -> None:
    _same(f"{place}.events", run["events"], len(texts))
    trace_digest, chain_digest = c1.digests(texts)
    _same(f"{place}.trace_digest", run["trace_digest"], trace_digest)
    _same(f"{place}.chain_digest", run["chain_digest"], chain_digest)
    for seq, event in enumerate(events):
        if event["seq"] != seq:
            _refuse(f"{place}: event {seq}", f"has the number {event['seq']}")
    _check_start(events, compiled, place)
    observed = _check_taint(events, compiled, place)
    if observed is None:
        _check_end(run["status"], [event["type"] for event in events], place)
    else:
        _check_observed(run["status"], events, observed, place)
    if events and events[-1]["type"] in _TERMINAL:
        _same(f"{place}: event count", events[-1]["payload"].get("events"), len(texts))
    _check_error(run, events, place)


def _check_error(run: Mapping[str, Any], events: Sequence[Mapping[str, Any]], place: str) -> None:
    """Why a run did not complete stands in its events, unless it was stopped from outside."""
    status = run["status"]
    if status == "unfinished":
        return
    own = None
    if status == "failed":
        own = events[-2]["payload"].get("reason")
    elif status == "unscripted":
        payload = events[-1]["payload"]
        noun = "response" if payload.get("scripted") == 1 else "responses"
        own = (
            f"{payload.get('scripted')} {noun} scripted, call {payload.get('call')} made,"
            f" script {payload.get('script')}"
        )
    _same(f"{place}.error", run["error"], own)


def _check_start(
    events: Sequence[Mapping[str, Any]], compiled: Mapping[str, Any], place: str
) -> None:
    if not events:
        return  # a run that was stopped before its first event; its status has to say so
    if events[0]["type"] != "run_started":
        _refuse(f"{place}: event 0", f"is {shown(events[0]['type'])}, not run_started")
    payload = events[0]["payload"]
    schedule = compiled["schedule"] if compiled["schedule"] != "canonical" else None
    for name, value in (
        ("fixture", compiled["fixture"]),
        ("seed", compiled["seed"]),
        ("provider", compiled["provider"]),
        ("schedule", schedule),
        ("policy_revision", compiled["policy_revision"]),
    ):
        _same(f"{place}: run_started.{name}", payload.get(name), value)


def _check_taint(
    events: Sequence[Mapping[str, Any]], compiled: Mapping[str, Any], place: str
) -> int | None:
    """Behind the block of an observed run every payload is marked, and none is anywhere else.

    Returns:
        The ``seq`` of that block; None for a run that was not observed.
    """
    if compiled.get("diagnose") is not True:
        for event in events:
            if is_tainted(event):
                _refuse(
                    f"{place}: event {event['seq']}", "is tainted, and the run was no observed one"
                )
        return None
    blocks = (event["seq"] for event in events if event["type"] == "policy_violation")
    block: int = next(blocks, len(events))
    for event in events:
        behind = event["seq"] > block
        # A budget that is used up ends a run at once: nothing of it is observed.
        if behind and event["seq"] == block + 1 and event["type"] == "run_failed":
            return block if is_tainted(event) else None
        if is_tainted(event) != behind:
            _refuse(
                f"{place}: event {event['seq']}",
                "is not tainted, and lies behind a block that was observed"
                if behind
                else "is tainted, and no block that was observed lies before it",
            )
    return block if block < len(events) else None


def _check_observed(
    status: str, events: Sequence[Mapping[str, Any]], block: int, place: str
) -> None:
    """A run that was observed behind a block ends blocked, for the reason of that block."""
    for event in events[:-1]:
        if event["type"] in _TERMINAL:
            _refuse(
                f"{place}: event {event['seq']}", f"{event['type']} ends a run, and more follow"
            )
    is_ended = events[-1]["type"] == "run_failed"
    if is_ended != (status == "blocked") or not (is_ended or status == "unfinished"):
        _refuse(f"{place}.status", f"is {status}, and an observed run ends blocked")
    if is_ended:
        reason = events[block]["payload"].get("reason")
        _same(f"{place}: run_failed.reason", events[-1]["payload"].get("reason"), reason)


def _check_end(status: str, types: Sequence[str], place: str) -> None:
    for seq, kind in enumerate(types[:-1]):
        if kind in _TERMINAL:
            _refuse(f"{place}: event {seq}", f"{kind} ends a run, and more events follow")
    end = _ENDS.get(status)
    if end is None:
        if types and types[-1] in _TERMINAL:
            _refuse(f"{place}.status", f"is {status}, and the last event is {types[-1]}")
        return
    if tuple(types[-len(end) :]) != end:
        _refuse(f"{place}.status", f"is {status}, and the run does not end {' '.join(end)}")


def check_findings_shape(predicate: Mapping[str, Any]) -> None:
    """One finding for each planned item, its sealed fields those of the item.

    This much can be said without events as well.
    """
    planned_by_nodeid = {planned["nodeid"]: planned for planned in predicate["seal"]["plan"]}
    for index, case in enumerate(predicate["cases"]):
        planned = planned_by_nodeid[case["nodeid"]]
        for replica in case["replicas"]:
            place = f"cases[{index}].findings"
            findings = replica["findings"]
            _same(f"{place}: number", len(findings), len(planned["items"]))
            for item, finding in zip(planned["items"], findings, strict=True):
                for name in ("id", "kind", "gate", "weight", "severity", "version", "label"):
                    _same(f"{place}[{item['id']}].{name}", finding[name], item[name])
                if (finding["outcome"] == "indeterminate") != bool(finding["causes"]):
                    _refuse(
                        f"{place}[{item['id']}].causes", "go with indeterminate, and with it alone"
                    )
            _check_hard_verdict(case, planned, findings, place)
            _check_rows(planned, replica["evidence"], f"cases[{index}].evidence")
    _same("review_queue", predicate["review_queue"], review_queue(predicate["cases"]))


def _check_rows(planned: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], place: str) -> None:
    """At most one row for the output, then one for each check."""
    named = [(row["kind"], row["item"]) for row in rows]
    wanted = [("check", item["id"]) for item in planned["items"] if item["kind"] not in FIXED_KINDS]
    if named not in (wanted, [("output", "expect"), *wanted]):
        _refuse(place, "must hold one row for each check, behind one for the output if it was cut")


def _check_hard_verdict(
    case: Mapping[str, Any], planned: Mapping[str, Any], findings: Sequence[Any], place: str
) -> None:
    """The verdict is Kleene's conjunction of the gates."""
    gates = [
        finding["outcome"]
        for item, finding in zip(planned["items"], findings, strict=True)
        if item["gate"]
    ]
    own = "invalid" if "fail" in gates else "valid"
    if own == "valid" and "indeterminate" in gates:
        own = "indeterminate"
    _same(f"{place}: verdict", case["verdict"], own)
