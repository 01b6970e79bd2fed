"""Two bundles side by side: what was planned, what was judged, how it came out, where it ended.

What counts is what was fixed, run and concluded. That one session has another time, machine or
signer than the other is told apart, as circumstances: it makes no difference of its own.

Source: docs/history.md, "diff".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.history.contradiction import disagree

if TYPE_CHECKING:
    from pytest_evarness.report.judged import JudgedCase, JudgedItem

__all__ = ["SECTIONS", "Change", "circumstances", "compare"]

SECTIONS = ("verdict", "contracts", "plan", "outcomes", "inputs", "digests", "world", "coverage")
"""In the order in which they are shown."""

MAX_WORLD_LINES = 20

_DIGESTS = ("status", "events", "trace_digest", "chain_digest", "world_digest")
_INPUTS = (
    "graph",
    "overlays",
    "materials",
    "fixture",
    "approvals",
    "seed",
    "schedule",
    "provider",
    "params",
    "policy",
)
_ITEM = (
    "kind",
    "gate",
    "decides",
    "weight",
    "severity",
    "version",
    "description",
    "definition",
    "vacuous",
    "enforced_by",
    "label",
    "applies",
    "broken",
    "informational",
    "written",
    "untested",
    "selected",
    "why",
)
_RULE = frozenset({"assert", "applies_to", "vacuous"})
"""Keys of a contract that say what is asked, and of whom."""
_ANOTHER = "another definition"
_CIRCUMSTANCES = ("time", "engine", "plugins", "git", "challenge", "subjects")


@dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    Attributes:
        section: One of ``SECTIONS``, or ``circumstances``.
        place: What it is about: a node id, a contract, a field.
        what: The difference in words, complete in itself beside its place.
        a: The value in the first bundle, JSON; None where it has none.
        b: Likewise in the second.
    """

    section: str
    place: str
    what: str
    a: Any = None
    b: Any = None

    def as_record(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "section": self.section,
            "place": self.place,
            "what": self.what,
            "a": self.a,
            "b": self.b,
        }


def compare(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Change]:
    """Every difference that counts, by section.

    Args:
        first: Statement of a bundle whose consistency was checked.
        second: Likewise.
    """
    from pytest_evarness.report.judged import judged_cases

    cases = {case.nodeid: case for case in judged_cases(first)}
    others = {case.nodeid: case for case in judged_cases(second)}
    definitions = {
        row["digest"]: row["text"]
        for statement in (first, second)
        for row in statement["predicate"]["seal"]["definitions"]
    }
    pairs = [(cases[nodeid], others[nodeid]) for nodeid in cases if nodeid in others]
    return [
        *_verdict(first["predicate"], second["predicate"]),
        *_contracts(first["predicate"]["seal"], second["predicate"]["seal"], definitions),
        *_plan(cases, others, definitions),
        *(change for a, b in pairs for change in _outcomes(a, b)),
        *(change for a, b in pairs for change in _inputs(a, b)),
        *(change for a, b in pairs for change in _digests(a, b)),
        *(change for a, b in pairs for change in _world(a, b)),
        *_coverage(first["predicate"], second["predicate"]),
    ]


def circumstances(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Change]:
    """How the sessions differ beside what they planned, ran and judged."""
    found = []
    seals = [one["predicate"]["seal"] for one in (first, second)]
    for name in _CIRCUMSTANCES:
        found += _field("circumstances", f"seal.{name}", seals[0][name], seals[1][name])
    found += _field(
        "circumstances", "seal.settings.rerun", *(seal["settings"]["rerun"] for seal in seals)
    )
    environments = [one["predicate"]["environment"] for one in (first, second)]
    for name in environments[0]:
        found += _field(
            "circumstances", f"environment.{name}", *(one[name] for one in environments)
        )
    return found


def _field(section: str, place: str, a: Any, b: Any, what: str | None = None) -> list[Change]:
    if _text(a) == _text(b):
        return []
    return [Change(section, place, what or f"{_short(a)} -> {_short(b)}", a, b)]


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _short(value: Any) -> str:
    from pytest_evarness.core.json import shown

    return "none" if value is None else value if isinstance(value, str) else shown(value, 200)


# -- the session -------------------------------------------------------------------------------


def _verdict(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Change]:
    words = {True: "holds", False: "does not hold", None: "undecided"}
    a, b = first["verdict"], second["verdict"]
    yield from _field("verdict", "holds", words[a["holds"]], words[b["holds"]])
    for name in ("valid", "invalid", "indeterminate", "pending"):
        yield from _field("verdict", name, a[name], b[name])
    yield from _field("verdict", "note", a["note"], b["note"])
    strict = [one["seal"]["settings"]["strict_vacuity"] for one in (first, second)]
    yield from _field("verdict", "strict vacuity", *strict)
    for row, other in _rows(first["seal"]["broken"], second["seal"]["broken"], "file"):
        if row is None or other is None:
            name = (row or other or {})["file"]
            what = "did not load" + (" in B alone" if row is None else " in A alone")
            yield Change("verdict", name, what, row, other)
        else:
            yield from _field("verdict", row["file"], row["text"], other["text"])


def _rows(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]], key: str
) -> Iterator[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]]:
    """Rows of both with the same key, those of the first in their order, then the others."""
    mine = {row[key]: row for row in first}
    its = {row[key]: row for row in second}
    for name in [*mine, *(name for name in its if name not in mine)]:
        yield mine.get(name), its.get(name)


def _contracts(
    first: Mapping[str, Any], second: Mapping[str, Any], definitions: Mapping[str, str]
) -> Iterator[Change]:
    mine, its = _by_id(first["contracts"]), _by_id(second["contracts"])
    for name in sorted(mine.keys() | its.keys()):
        a, b = mine.get(name, {}), its.get(name, {})
        if not a or not b:
            where = "B" if not a else "A"
            versions = [f"{name}@{version}" for version in sorted(a or b, key=str)]
            yield Change("contracts", name, f"in {where} alone", versions if a else None,
                         versions if b else None)  # fmt: skip
            continue
        if a.keys() != b.keys():
            yield Change(
                "contracts",
                name,
                f"version {_versions(a)} -> {_versions(b)}",
                sorted(a, key=str),
                sorted(b, key=str),
            )
        for version in sorted(a.keys() & b.keys(), key=str):
            yield from _same_version(f"{name}@{version}", a[version], b[version], definitions)
    for name in ("overrides", "redefined"):
        a_rows = sorted(_text(row) for row in first[name])
        b_rows = sorted(_text(row) for row in second[name])
        yield from _only(
            "contracts",
            name,
            [one for one in a_rows if one not in b_rows],
            [one for one in b_rows if one not in a_rows],
        )


def _by_id(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[Any, list[Mapping[str, Any]]]]:
    found: dict[str, dict[Any, list[Mapping[str, Any]]]] = {}
    for row in rows:
        found.setdefault(row["id"], {}).setdefault(row["version"], []).append(row)
    return found


def _versions(rows: Mapping[Any, Any]) -> str:
    return ", ".join(str(version) for version in sorted(rows, key=str))


def _redefined(a: Any, b: Any, definitions: Mapping[str, str]) -> str:
    """What is another thing in the second of two definitions, by their digests.

    A rule that is judged otherwise is another definition; who owns it, why it is there, or whether
    it is deprecated is told as that.
    """
    one, other = (json.loads(definitions.get(digest or "", "null")) for digest in (a, b))
    if not isinstance(one, dict) or not isinstance(other, dict) or "assert" not in one:
        return _ANOTHER
    keys = [key for key in [*one, *(key for key in other if key not in one)]
            if one.get(key) != other.get(key)]  # fmt: skip
    if _RULE.intersection(keys):
        return _ANOTHER
    return "the rule is the same: " + ", ".join(
        f"{key} {_short(one.get(key))} -> {_short(other.get(key))}" for key in keys
    )


def _same_version(
    name: str,
    first: Sequence[Mapping[str, Any]],
    second: Sequence[Mapping[str, Any]],
    definitions: Mapping[str, str],
) -> Iterator[Change]:
    """One id and version in both: it must be one definition, which is what a version is for."""
    a = sorted({row["definition"] for row in first})
    b = sorted({row["definition"] for row in second})
    if a != b:
        only_one = len(a) == len(b) == 1
        told = _redefined(a[0], b[0], definitions) if only_one else _ANOTHER
        told = f" with {told}" if told == _ANOTHER else f"; {told}"
        yield Change("contracts", name, f"the same id and version{told}", a, b)
    for field in ("owner", "gate", "severity", "untested", "origin"):
        values = [sorted({_text(row[field]) for row in rows}) for rows in (first, second)]
        if values[0] != values[1]:
            shown = [" or ".join(one) for one in values]
            yield Change("contracts", name, f"{field} {shown[0]} -> {shown[1]}", *values)


def _only(section: str, place: str, in_a: Sequence[str], in_b: Sequence[str]) -> Iterator[Change]:
    for text in in_a:
        yield Change(section, place, f"in A alone: {text}", text, None)
    for text in in_b:
        yield Change(section, place, f"in B alone: {text}", None, text)


# -- the plan ----------------------------------------------------------------------------------


def _plan(
    cases: Mapping[str, JudgedCase],
    others: Mapping[str, JudgedCase],
    definitions: Mapping[str, str],
) -> Iterator[Change]:
    for nodeid in cases:
        if nodeid not in others:
            yield Change("plan", nodeid, "planned in A alone", cases[nodeid].verdict, None)
    for nodeid in others:
        if nodeid not in cases:
            yield Change("plan", nodeid, "planned in B alone", None, others[nodeid].verdict)
    both = [nodeid for nodeid in cases if nodeid in others]
    if both != [nodeid for nodeid in others if nodeid in cases]:
        yield Change("plan", "order", "the cases stand in another order")
    for nodeid in both:
        a, b = cases[nodeid].planned, others[nodeid].planned
        for name in ("mode", "threshold", "waived"):
            yield from _field("plan", nodeid, a[name], b[name], _named(name, a, b))
        for item, other in _rows(a["items"], b["items"], "id"):
            yield from _items(nodeid, item, other, definitions)
        ids = [[item["id"] for item in one["items"]] for one in (a, b)]
        if ids[0] != ids[1] and sorted(ids[0]) == sorted(ids[1]):
            yield Change("plan", nodeid, "its items stand in another order", *ids)


def _named(name: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    return f"{name} {_short(a[name])} -> {_short(b[name])}"


def _items(
    nodeid: str,
    item: Mapping[str, Any] | None,
    other: Mapping[str, Any] | None,
    definitions: Mapping[str, str],
) -> Iterator[Change]:
    if item is None or other is None:
        found = item or other or {}
        where = "B" if item is None else "A"
        gate = ", a gate" if found["gate"] else ""
        what = f"an item in {where} alone{gate}"
        yield Change("plan", f"{nodeid}::{found['id']}", what, item and item["definition"],
                     other and other["definition"])  # fmt: skip
        return
    place = f"{nodeid}::{item['id']}"
    for name in _ITEM:
        what = (
            _redefined(item[name], other[name], definitions)
            if name == "definition"
            else _named(name, item, other)
        )
        yield from _field("plan", place, item[name], other[name], what)


# -- the cases ---------------------------------------------------------------------------------


def _outcomes(a: JudgedCase, b: JudgedCase) -> Iterator[Change]:
    words = [case.verdict or "not judged" for case in (a, b)]
    yield from _field("outcomes", a.nodeid, *words)
    if a.record is None or b.record is None:
        return
    for name in ("primary", "composite"):
        yield from _field(
            "outcomes", a.nodeid, a.record[name], b.record[name], _named(name, a.record, b.record)
        )
    others = {judged.item.id: judged for judged in b.items}
    same = _Same.of(a, b)
    for judged in a.items:
        other = others.get(judged.item.id)
        if other is not None:
            yield from _finding(judged, other, same)


def _contradict(a: JudgedItem, b: JudgedItem, same: _Same) -> bool:
    """Whether two judgements of one rule, which looks at events alone, cannot both be right."""
    if not (
        same.run
        and a.item.kind in ("contract", "trace")
        and (a.item.definition, a.item.applies) == (b.item.definition, b.item.applies)
        and disagree(a.finding, b.finding)
    ):
        return False
    findings = [one for one in (a.finding, b.finding) if one is not None]
    if any(one.vacuous for one in findings) and not same.graph:
        return False  # what cannot occur in a graph is told by the graph
    # Events are held against the other accounts of the same run, where there are some.
    doubted = any(Cause.CONTRADICTORY_EVIDENCE in one.causes for one in findings)
    return same.evidence or not doubted


@dataclass(frozen=True, slots=True)
class _Same:
    """What two cases have in common, of what a judgement of a contract rests on."""

    run: bool
    graph: bool
    evidence: bool

    @classmethod
    def of(cls, a: JudgedCase, b: JudgedCase) -> _Same:
        """Of two cases that ran."""
        assert a.record is not None
        assert b.record is not None
        runs = [case.replica["runs"][0] for case in (a, b)]
        # The same events are the whole run for one who declares the pause, and a part for another.
        ends = [_declares_pause(case) for case in (a, b)]
        return cls(
            run=ends[0] == ends[1]
            and all(runs[0][key] == runs[1][key] for key in ("chain_digest", "world_digest")),
            graph=a.record["inputs"]["graph"] == b.record["inputs"]["graph"],
            evidence=_text(a.replica["evidence"]) == _text(b.replica["evidence"]),
        )


def _declares_pause(case: JudgedCase) -> bool:
    expected = next((one.item.definition for one in case.items if one.item.kind == "expect"), None)
    return (expected or {}).get("status") == "paused"


def _finding(a: JudgedItem, b: JudgedItem, same: _Same) -> Iterator[Change]:
    from pytest_evarness.report.wording import causes_text, outcome_word

    if a.finding is None or b.finding is None:
        return
    said = []
    for finding in (a.finding, b.finding):
        causes = f" ({causes_text(finding.causes)})" if finding.causes else ""
        nothing = ", vacuous" if finding.vacuous and finding.outcome is not Outcome.PASS else ""
        said.append(f"{outcome_word(finding)}{causes}{nothing}")
    if said[0] != said[1]:
        records = [one.as_record() for one in (a.finding, b.finding)]
        contradiction = ""
        if _contradict(a, b, same):
            contradiction = " (CONTRADICTION: the same rule over the same events)"
        what = f"{said[0]} -> {said[1]}{contradiction}: {b.finding.reason}"
        yield Change("outcomes", a.nodeid, what, *records)
    elif a.finding.score != b.finding.score:
        yield Change(
            "outcomes",
            a.nodeid,
            f"score {a.finding.score} -> {b.finding.score}",
            str(a.finding.score),
            str(b.finding.score),
        )


def _inputs(a: JudgedCase, b: JudgedCase) -> Iterator[Change]:
    for name, what in (("digest", "another compiled case"), ("scenario", "another scenario")):
        yield from _field("inputs", a.nodeid, a.planned[name], b.planned[name], what)
    if a.record is None or b.record is None:
        return
    mine, its = a.record["inputs"], b.record["inputs"]
    for name in _INPUTS:
        yield from _field("inputs", a.nodeid, mine[name], its[name], _named(name, mine, its))


def _digests(a: JudgedCase, b: JudgedCase) -> Iterator[Change]:
    if a.record is None or b.record is None:
        return
    for run, other in _rows(a.replica["runs"], b.replica["runs"], "label"):
        label = (run or other or {})["label"].upper()
        if run is None or other is None:
            where = "B" if run is None else "A"
            yield Change("digests", a.nodeid, f"run {label} is in bundle {where} alone")
            continue
        for name in _DIGESTS:
            what = f"run {label}: {_named(name, run, other)}"
            yield from _field("digests", a.nodeid, run[name], other[name], what)


def _world(a: JudgedCase, b: JudgedCase) -> Iterator[Change]:
    """What the end states of both run A have and the other has not."""
    from pytest_evarness.checks.reproduction import first_world_difference
    from pytest_evarness.report.world import world_lines

    if a.record is None or b.record is None or a.world == b.world:
        return
    mine, its = list(world_lines(a.world)), list(world_lines(b.world))
    in_a = [line for line in mine if line not in its]
    in_b = [line for line in its if line not in mine]
    yield from _only("world", a.nodeid, in_a[:MAX_WORLD_LINES], in_b[:MAX_WORLD_LINES])
    more = max(len(in_a) - MAX_WORLD_LINES, 0) + max(len(in_b) - MAX_WORLD_LINES, 0)
    if more:
        yield Change("world", a.nodeid, f"{more} more changes are left out")
    place, _ = first_world_difference(a.world, b.world)
    yield Change("world", a.nodeid, f"the end states part first at: {place}")


def _coverage(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Change]:
    """What is not proven, but for what lies in how the sessions were made."""
    sentences = []
    for predicate in (first, second):
        own = set(_of_the_session(predicate))
        sentences.append([text for text in predicate["not_proven"] if text not in own])
    a, b = sentences
    yield from _only(
        "coverage",
        "not proven",
        [text for text in a if text not in b],
        [text for text in b if text not in a],
    )


def _of_the_session(predicate: Mapping[str, Any]) -> Iterator[str]:
    from pytest_evarness.bundle.not_proven import UNSIGNED, of_the_session

    yield from of_the_session(predicate)
    yield UNSIGNED
