"""The plan held against the scenario that the case encloses: what is written there was planned.

That there is an item for each thing that is written, as hard as it is written, is told here; that
it judges what is written, in ``defined``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NoReturn

from pytest_evarness.bundle.consistency import is_point_of
from pytest_evarness.bundle.lookup import definitions_of
from pytest_evarness.core.json import shown
from pytest_evarness.core.plan import ALWAYS_THERE, FIXED_KINDS
from pytest_evarness.errors import UnverifiedError

__all__ = ["check_written"]

_WRITTEN = ("gate", "severity", "vacuous", "enforced_by", "description")
_CHECK_DEFAULTS: Mapping[str, Any] = {
    "gate": False,
    "severity": "major",
    "vacuous": "pass",
    "enforced_by": [],
}


def check_written(predicate: Mapping[str, Any]) -> list[str]:
    """Hold the items of every case that ran against its scenario text.

    Returns:
        What is taken on the signer's word.

    Raises:
        UnverifiedError: Something is written and not planned, planned and not written, or planned
            softer than it is written.
    """
    planned_by_nodeid = {planned["nodeid"]: planned for planned in predicate["seal"]["plan"]}
    definitions = definitions_of(predicate["seal"])
    word: list[str] = []
    for case in predicate["cases"]:
        planned = planned_by_nodeid[case["nodeid"]]
        scenario = json.loads(case["inputs"]["scenario"])
        items = {item["id"]: item for item in planned["items"]}
        nodeid = case["nodeid"]
        written = dict(_entries(scenario, planned["base"]))
        if _depends_on_base(scenario, planned):
            word.append(f"{nodeid}: that it is a matrix point of case {shown(planned['base'])}")
        for name, entry in written.items():
            if name not in items:
                _refuse(nodeid, f"'{name}' is written in the scenario, and nothing judges it")
            _check_entry(entry, items[name], f"{nodeid}::{name}")
        for name, item in items.items():
            if item["kind"] in ("contract", "trace"):
                definition = definitions[item["definition"]]
                _check_contract(written.get(name), item, definition, f"{nodeid}::{name}")
        _check_rules(scenario, items, nodeid)
        for name, item in items.items():
            if item["kind"] not in FIXED_KINDS and name not in written:
                _refuse(nodeid, f"'{name}' is planned, and the scenario does not have it")
        _check_threshold(scenario, planned["threshold"], nodeid)
        _check_mode(scenario, planned["mode"], predicate["seal"]["settings"]["mode"], nodeid)
        _check_waived(scenario, planned["waived"], nodeid)
        is_written = "expect" in scenario
        if items["expect"]["written"] and not is_written:
            _refuse(nodeid, "'expect' is said to be written, and the scenario has none")
    return word


def _refuse(place: str, problem: str) -> NoReturn:
    raise UnverifiedError(f"{place}: {problem}")


def _entries(scenario: Mapping[str, Any], base: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Invariants that are written for the case."""
    entries: Any = scenario.get("invariants")
    for name, entry in entries.items() if isinstance(entries, Mapping) else ():
        if isinstance(entry, Mapping) and base in entry.get("cases", [base]):
            yield name, entry


def _depends_on_base(scenario: Mapping[str, Any], planned: Mapping[str, Any]) -> bool:
    """Whether an invariant would be for the case if its id had another base, as it could."""
    entries: Any = scenario.get("invariants")
    return any(
        planned["base"] not in entry["cases"]
        and any(is_point_of(planned["case"], one) for one in entry["cases"])
        for entry in (entries.values() if isinstance(entries, Mapping) else ())
        if isinstance(entry, Mapping) and "cases" in entry
    )


def _check_entry(entry: Mapping[str, Any], item: Mapping[str, Any], place: str) -> None:
    """A check is as hard as it is written; of a contract, its kind is told here."""
    check: Any = entry.get("check")
    kind = check.get("type") if isinstance(check, Mapping) else "contract"
    if item["kind"] != kind:
        _refuse(place, f"is planned as {item['kind']}, and {shown(kind)} is written")
    if kind == "contract":
        return
    given = {**_CHECK_DEFAULTS, **{name: entry[name] for name in _WRITTEN if name in entry}}
    for name, want in given.items():
        if item[name] != want:
            _refuse(place, f"{name} is {shown(item[name])}, and {shown(want)} is written")
    _check_weight(item, entry.get("weight", 1), place)


def _check_contract(
    entry: Mapping[str, Any] | None,
    item: Mapping[str, Any],
    definition: Mapping[str, Any],
    place: str,
) -> None:
    """What an item says of its contract is what the contract says, or the scenario in its place."""
    if item["kind"] == "trace":
        if entry is None:
            # It follows from the environment, and nobody wrote more of it.
            for name, want in (("enforced_by", []), ("severity", definition["severity"])):
                if item[name] != want:
                    _refuse(place, f"{name} is {shown(item[name])}, and {shown(want)} is given")
            _check_weight(item, 0, place)
        return
    given = entry or {}
    check: Any = given.get("check")
    own = check.get("id", item["id"]) if isinstance(check, Mapping) else item["id"]
    if definition["id"] != own:
        _refuse(place, f"is judged by the contract {shown(definition['id'])}, not {shown(own)}")
    for name in _WRITTEN:
        said = definition["title" if name == "description" else name]
        want = given.get(name, said)
        if name == "gate" and definition["status"] == "draft":
            want = False
        if item[name] != want:
            who = "is written" if name in given else "its definition says"
            _refuse(place, f"{name} is {shown(item[name])}, and {shown(want)} {who}")
    if definition["status"] != "draft":
        _check_weight(item, given.get("weight", 0), place)


def _check_weight(item: Mapping[str, Any], written: Any, place: str) -> None:
    if float(Fraction(item["weight"])) != float(written):
        _refuse(place, f"weight is {item['weight']}, and {shown(written)} is written")


def _check_rules(scenario: Mapping[str, Any], items: Mapping[str, Any], nodeid: str) -> None:
    rules: Any = scenario.get("forbidden")
    names = {f"forbidden-{rule.replace('_', '-')}" for rule in rules or ()}
    planned = {name for name, item in items.items() if item["kind"] == "forbidden"} - ALWAYS_THERE
    if planned != names:
        odd = min(planned ^ names)
        _refuse(nodeid, f"'{odd}' is {'planned' if odd in planned else 'written'} alone")


def _check_threshold(scenario: Mapping[str, Any], threshold: str | None, nodeid: str) -> None:
    scoring: Any = scenario.get("scoring")
    written = scoring.get("pass_threshold") if isinstance(scoring, Mapping) else None
    own = None if threshold is None else float(Fraction(threshold))
    if (None if written is None else float(written)) != own:
        _refuse(nodeid, f"the threshold is {threshold}, and {shown(written)} is written")


def _check_mode(
    scenario: Mapping[str, Any], mode: str, overriding: str | None, nodeid: str
) -> None:
    """The mode is the written one, unless an option of the session stood over it."""
    own = overriding or scenario.get("mode", "release")
    if mode != own:
        _refuse(nodeid, f"the mode is {mode}, and it would be {shown(own)}")


def _check_waived(scenario: Mapping[str, Any], waived: Sequence[str], nodeid: str) -> None:
    """What is waived is said, in the words of the scenario, and nothing else is."""
    subject: Any = scenario.get("subject")
    written: Any = subject.get("waive") if isinstance(subject, Mapping) else None
    for node, waiver in (written or {}).items():
        if not isinstance(waiver, Mapping) or not {"rule", "reason"} <= waiver.keys():
            _refuse(nodeid, f"subject.waive: that of node {shown(node)} cannot be read")
    ends = {
        (f"{node}: ", f"[{waiver['rule']}], accepted: {waiver['reason']}")
        for node, waiver in (written or {}).items()
    }
    for text in waived:
        if not any(text.startswith(begin) and text.endswith(end) for begin, end in ends):
            _refuse(nodeid, f"{shown(text)} is waived, and the scenario does not waive it")
    for begin, end in sorted(ends):
        if not any(text.startswith(begin) and text.endswith(end) for text in waived):
            problem = f"the scenario waives what node {begin[:-2]!r} breaks, and it is not listed"
            _refuse(nodeid, problem)
