"""What a bundle does not prove, as a function of what the rest of it says.

Producer and verifier call the same function, so the list cannot be shortened by hand.

Source: docs/bundle.md, "What is not proven".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_evarness.bundle.exercise import ABOUT, exercises_of, ran_in
from pytest_evarness.bundle.lookup import definition_texts
from pytest_evarness.bundle.summary import declares_pause
from pytest_evarness.core.plan import ALWAYS_THERE, is_aside

if TYPE_CHECKING:
    from pytest_evarness.bundle.exercise import Exercise
    from pytest_evarness.core.registry import Registry

__all__ = [
    "NOT_CONFINED",
    "NO_COMMIT",
    "NO_LIBRARY",
    "OWN_CODE",
    "STANDING_LIMITS",
    "UNSIGNED",
    "not_proven",
    "of_the_session",
]

STANDING_LIMITS = (
    "only the declared invariants were judged: anything that none of them states may be wrong",
    "only these scenarios were run: another input, decision or fault may end otherwise",
    "model, tools and world are simulated: how a real model or a real service behaves is not shown",
    "the producer's honesty: a key shows who signed, not that what was run is what is deployed",
)
"""Limits of every bundle, whatever the session did."""

UNSIGNED = "unsigned: nobody vouches for this bundle"

OWN_CODE = (
    "code of the user's own is identified by the file of each module alone, not by what it imports:"
    " "
)
"""Before the nodes that run such code."""

NOT_CONFINED = (
    "a step of the user's own is not confined: what it did to files outside its workspace was not"
    " looked at: "
)
"""Before the same nodes."""

NO_LIBRARY = "no library of the project was in force, so none of its contracts judged"

NO_COMMIT = "no commit is named: the git repository that the session ran in has none yet"

MAX_NAMES = 50
"""Names listed in one sentence; the number of all of them is always said."""


def not_proven(
    predicate: Mapping[str, Any],
    registry: Registry | None,
    *,
    signed: bool,
    exercises: Sequence[Exercise] | None = None,
) -> list[str]:
    """Every limit of this bundle; never empty.

    Args:
        predicate: The statement's predicate; ``not_proven`` itself is not read.
        registry: Node types and domains, for what no case exercised; None leaves that out.
        signed: Whether the envelope carries a signature.
        exercises: What the cases exercised, where that is known; else it is worked out.
    """
    vacuous_everywhere = _vacuous_everywhere(predicate)
    sentences = [text for _, text in vacuous_everywhere]
    sentences.extend(STANDING_LIMITS)
    sentences.extend(_of_the_plan(predicate))
    sentences.extend(_of_the_findings(predicate, {name for name, _ in vacuous_everywhere}))
    sentences.extend(_of_the_contracts(predicate))
    if registry is not None:
        if exercises is None:
            exercises = exercises_of(ran_in(predicate), registry)
        # Without events nobody can tell, neither here nor there.
        if predicate["seal"]["settings"]["events"] == "full":
            sentences.extend(not_exercised(exercises))
        sentences.extend(_of_the_code(predicate, registry))
    sentences.extend(_of_the_world(predicate))
    sentences.extend(of_the_session(predicate))
    if not signed:
        sentences.append(UNSIGNED)
    return sentences


def _judged(
    predicate: Mapping[str, Any],
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any], list[tuple[Any, Any]]]]:
    """Plan entry, case, and ``(item, finding)`` pairs of each case that ran."""
    case_by_nodeid = {case["nodeid"]: case for case in predicate["cases"]}
    for planned in predicate["seal"]["plan"]:
        case = case_by_nodeid.get(planned["nodeid"])
        if case is not None:
            pairs = [
                pair
                for replica in case["replicas"]
                for pair in zip(planned["items"], replica["findings"], strict=True)
            ]
            yield planned, case, pairs


def _vacuous_everywhere(predicate: Mapping[str, Any]) -> list[tuple[str, str]]:
    applied: dict[str, int] = {}
    vacuous: dict[str, int] = {}
    for _, _, pairs in _judged(predicate):
        for item, finding in pairs:
            if item["kind"] in ("expect", "score") or item["id"] in ALWAYS_THERE:
                continue
            if is_aside(item["because"], item["applies"]):
                continue  # told by itself
            name = item["id"]
            applied.setdefault(name, 0)
            vacuous.setdefault(name, 0)
            if item["applies"] is None:
                applied[name] += 1
                vacuous[name] += bool(finding["vacuous"])
    found = []
    for name in sorted(applied):
        if applied[name] == 0:
            found.append((name, f"'{name}' applied in no case of this session"))
        elif vacuous[name] == applied[name]:
            cases = "the one case" if applied[name] == 1 else f"all {applied[name]} cases"
            found.append(
                (name, f"'{name}' was vacuous in {cases} in which it applied: nothing tested it")
            )
    return found


def _of_the_plan(predicate: Mapping[str, Any]) -> Iterator[str]:
    seal = predicate["seal"]
    judged = {case["nodeid"] for case in predicate["cases"]}
    for planned in seal["plan"]:
        why_by_item = {item["id"]: item["why"] for item in planned["items"] if not item["selected"]}
        if why_by_item:
            reasons = ", ".join(sorted({str(why) for why in why_by_item.values()}))
            all_of_it = len(why_by_item) == len(planned["items"])
            what = "every item" if all_of_it else _names(sorted(why_by_item))
            yield f"{planned['nodeid']}: deselected ({reasons}): {what}"
    for planned in seal["plan"]:
        if planned["nodeid"] not in judged:
            yield f"{planned['nodeid']}: was planned and did not run to a judgement"
    for row in seal["broken"]:
        yield f"{row['file']}: did not load, so nothing in it was judged"


def _of_the_findings(predicate: Mapping[str, Any], everywhere: set[str]) -> Iterator[str]:
    for planned, _, pairs in _judged(predicate):
        for item, finding in pairs:
            if finding["outcome"] == "indeterminate":
                causes = ", ".join(finding["causes"]) or "no cause"
                yield f"{planned['nodeid']}::{item['id']} is indeterminate ({causes})"
    for planned, _, pairs in _judged(predicate):
        vacuous = [
            item["id"]
            for item, finding in pairs
            if finding["vacuous"]
            and item["id"] not in everywhere
            and not is_aside(item["because"], item["applies"])
        ]
        if vacuous:
            yield f"{planned['nodeid']}: passed only because nothing was there: {_names(vacuous)}"
    texts = definition_texts(predicate["seal"])
    for planned, case, _ in _judged(predicate):
        paused = any(replica["status"] == "paused" for replica in case["replicas"])
        if paused and declares_pause(planned, texts):
            yield f"what follows the pause of {planned['nodeid']}"
    for planned, case, _ in _judged(predicate):
        for replica in case["replicas"]:
            if replica["leftovers"]:
                yield (
                    f"{planned['nodeid']}: scripted and never used: {_names(replica['leftovers'])}"
                )
    for planned in predicate["seal"]["plan"]:
        for waived in planned["waived"]:
            yield f"{planned['nodeid']}: a lint error is waived: {waived}"
        if planned["mode"] == "diagnostic":
            yield f"{planned['nodeid']}: is diagnostic, an observation after a failure"


def _of_the_contracts(predicate: Mapping[str, Any]) -> Iterator[str]:
    seal = predicate["seal"]
    aside: dict[tuple[str, str], list[str]] = {}
    for planned in seal["plan"]:
        for item in planned["items"]:
            if is_aside(item["because"], item["applies"]):
                aside.setdefault((item["id"], item["applies"]), []).append(planned["nodeid"])
    for (name, why), nodeids in sorted(aside.items()):
        yield f"'{name}' did not judge, since {why}: {_names(nodeids)}"
    untested = sorted({_versioned(row) for row in seal["contracts"] if row["untested"]})
    if untested:
        yield f"contracts without a corpus of their own (untested): {_names(untested)}"
    for row in seal["corpora"]:
        if row["failed"]:
            name = f"{_versioned(row)} ({row['origin']})"
            yield f"{name} fails its own corpus, so it judged nothing: {_names(row['failed'])}"
    for row in seal["overrides"]:
        replaced = f"{row['id']}@{row['replaced_version']} ({row['replaced_origin']})"
        yield f"{_versioned(row)} ({row['origin']}) stands in the place of {replaced}"
    definitions: dict[str, set[str]] = {}
    for row in seal["contracts"]:
        definitions.setdefault(_versioned(row), set()).add(row["definition"])
    for name in sorted(name for name, digests in definitions.items() if len(digests) > 1):
        yield f"{name} has {len(definitions[name])} definitions in this session"
    for name in sorted({_versioned(row) for row in seal["redefined"]}):
        yield f"{name} has another definition than in the bundle before"


def _versioned(row: Mapping[str, Any]) -> str:
    return f"{row['id']}@{row['version']}" if row["version"] is not None else str(row["id"])


def not_exercised(exercises: Sequence[Exercise]) -> Iterator[str]:
    """Declared parts of each graph that no case of it exercised."""
    for exercise in exercises:
        for kind, names in exercise.missed():
            yield f"{kind} of graph '{exercise.id}'{ABOUT}{_names(names)}"
        for domain, why in sorted(exercise.untold.items()):
            what = f"what domain '{domain}' knows of graph '{exercise.id}'"
            yield f"{what}{ABOUT}cannot be told ({why})"


def _of_the_code(predicate: Mapping[str, Any], registry: Registry) -> Iterator[str]:
    """Nodes that run the user's own code: a file's digest says nothing of what it imports."""
    used = {case["inputs"]["graph"] for case in predicate["cases"]}
    nodes = []
    for row in predicate["texts"]:
        if row["digest"] not in used:
            continue
        graph = json.loads(row["text"])
        for node in graph.get("nodes", ()):
            kind = registry.node_types.find(node.get("type", ""))
            if kind is not None and "custom" in kind.traits:
                nodes.append(f"{node['id']} of graph '{graph['id']}'")
    if nodes:
        names = _names(sorted(nodes))
        yield f"{OWN_CODE}{names}"
        yield f"{NOT_CONFINED}{names}"


def _of_the_world(predicate: Mapping[str, Any]) -> Iterator[str]:
    """Services that nothing reached, and those that are somebody's own servers."""
    declared: dict[str, set[str]] = {}
    reached: dict[str, set[str]] = {}
    named: dict[str, set[str]] = {}
    for planned, case, _ in _judged(predicate):
        compiled = case.get("inputs", {}).get("compiled", "")
        if '"services":' not in compiled:
            continue
        services = json.loads(compiled)["environment"].get("services")
        if not isinstance(services, Mapping):
            continue
        file = planned["file"]
        declared.setdefault(file, set()).update(services)
        named.setdefault(file, set()).update(
            name for name, config in services.items() if config.get("dsn") is not None
        )
        for replica in case["replicas"]:
            reached.setdefault(file, set()).update(_reached(replica))
    for file in sorted(declared):
        idle = sorted(declared[file] - reached[file])
        if idle:
            yield f"services of {file} that no request or effect reached: {_names(idle)}"
    for file in sorted(name for name, found in named.items() if found):
        yield (
            f"services of {file} that a server of the user's own runs (dsn), which nobody encloses:"
            f" {_names(sorted(named[file]))}"
        )


def _reached(replica: Mapping[str, Any]) -> set[str]:
    """Names of services that a run did something to, by its events and by the end state."""
    found: set[str] = set()
    for text in replica["events"] or ():
        if '"service":' not in text:
            continue
        event = json.loads(text)
        payload = event["payload"]
        if event["type"] in ("http_request", "db_write"):
            found.add(str(payload.get("service")))
        elif event["type"] == "effect_applied":
            found.add(str((payload.get("receipt") or {}).get("service")))
    for service in json.loads(replica["world"]).get("services") or ():
        is_changed = any(
            table.get("start") != {"count": table.get("count"), "digest": table.get("digest")}
            for table in service.get("tables") or ()
        )
        is_changed = is_changed or bool(service.get("dropped") or service.get("objects"))
        if service.get("requests") or is_changed:
            found.add(service["name"])
    return found


def _is_outside(row: Mapping[str, Any]) -> bool:
    """Whether an overlay is none of the project's own."""
    return bool(row["label"].startswith(("home", "~", "variable", "$")))


def of_the_session(predicate: Mapping[str, Any]) -> Iterator[str]:
    """Limits that lie in how the session was made, not in what was run and judged."""
    seal = predicate["seal"]
    for text in predicate["changed"]:
        yield f"a library on disk is not what was sealed, and what was sealed judged: {text}"
    if not any(row["name"] == "contracts" and not _is_outside(row) for row in seal["overlays"]):
        yield NO_LIBRARY
    unpinned = sorted(
        f"{row['name']} ({row['label']})" for row in filter(_is_outside, seal["overlays"])
    )
    if unpinned:
        yield f"overlays from outside the project, pinned by digest alone: {_names(unpinned)}"
    git = seal["git"]
    if git is None:
        yield "no commit is named: the session did not run in a git working tree"
    elif git["commit"] is None:
        yield NO_COMMIT
    elif git["clean"] is None:
        yield "whether the working tree was clean is not known"
    elif not git["clean"]:
        yield "the working tree was not clean: the commit does not hold all that was run"
    if seal["settings"]["rerun"] == "inline":
        yield "both runs were made in one process (inline rerun): perturbation was not tried"
    if seal["settings"]["events"] == "digest":
        yield "events are not enclosed: no finding can be recomputed from this bundle"


def _names(names: Sequence[str]) -> str:
    if len(names) <= MAX_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:MAX_NAMES])} and {len(names) - MAX_NAMES} more"
