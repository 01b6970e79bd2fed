"""The seal: everything that is fixed before the first run, under one digest.

Each run is bound to the digest, so what is sealed cannot be changed once events exist.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pytest_evarness.bundle.canonical import Encoded, canonical_digest
from pytest_evarness.core.bulk import bulk
from pytest_evarness.core.finding import fraction_text

if TYPE_CHECKING:
    from fractions import Fraction

    from pytest_evarness.contract.row import CorpusRow, OverrideRow
    from pytest_evarness.core.plan import PlannedItem

__all__ = [
    "SEAL_FORMAT",
    "PlannedCase",
    "Settings",
    "binding_of",
    "build_plan",
    "build_seal",
    "contract_rows",
    "environment_digest",
    "finish_seal",
    "item_record",
    "redefined",
]

SEAL_FORMAT = 1
PLAN_KEYS = (
    "subjects",
    "contracts",
    "overrides",
    "corpora",
    "overlays",
    "policies",
    "definitions",
    "plan",
    "broken",
)

OVERRIDE_FIELDS = (
    "id",
    "version",
    "definition",
    "origin",
    "replaced_version",
    "replaced",
    "replaced_origin",
)
CORPUS_FIELDS = ("id", "version", "origin", "entries", "digest", "failed")

GROWING_KEYS = ("definitions", "plan")


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """One case as it was collected; nothing of it has run.

    Attributes:
        nodeid: Node id of the case, unique in the session (``scenarios/x.yaml::approve``).
        file: The scenario file, relative to the root directory, with ``/``.
        case: The case's id, its matrix point included.
        base: The id before the matrix.
        digest: Of the compiled case.
        scenario: ``sha256:`` digest of the c1 text of the merged case.
        items: In the order in which they are reported.
        policy: ``policy.revision`` in force.
        subjects: ``(name, sha256 hex)`` of every file that went into the case; names are relative.
        overlays: ``(name, label, sha256 hex)`` of every overlay in force.
        overrides: Every contract of it that stands in the place of another.
        corpora: What its contracts were tried by.
        waived: Lint errors that the scenario accepts, in words.
        deselected: Item id to the reason, for each item that was collected and not selected.
    """

    nodeid: str
    file: str
    case: str
    base: str
    mode: str
    digest: str
    scenario: str
    threshold: Fraction | None
    items: tuple[PlannedItem, ...]
    policy: str | None = None
    subjects: tuple[tuple[str, str], ...] = ()
    overlays: tuple[tuple[str, str, str], ...] = ()
    overrides: tuple[OverrideRow, ...] = ()
    corpora: tuple[CorpusRow, ...] = ()
    waived: tuple[str, ...] = ()
    deselected: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of the session that change what a bundle says.

    Attributes:
        rerun: ``mirror`` or ``inline``.
        events: ``full`` or ``digest``.
        strict_vacuity: A vacuous pass counts as indeterminate.
        mode: What overrode every scenario's mode; None for nothing.
        diagnose: Cases of mode ``diagnostic`` went on behind a block, for observation.
        min_scenarios: Scenario files that had to be found.
        min_coverage: The share of the harness, in percent, that had to be exercised, as written;
            None for no demand.
    """

    rerun: str = "mirror"
    events: str = "full"
    strict_vacuity: bool = False
    mode: str | None = None
    diagnose: bool = False
    min_scenarios: int = 0
    min_coverage: str | None = None

    def as_record(self) -> dict[str, Any]:
        """The form that is sealed."""
        return {
            "rerun": self.rerun,
            "events": self.events,
            "strict_vacuity": self.strict_vacuity,
            "mode": self.mode,
            "diagnose": self.diagnose,
            "min_scenarios": self.min_scenarios,
            "min_coverage": self.min_coverage,
        }


@bulk()
def build_plan(
    cases: Sequence[PlannedCase],
    *,
    broken: Iterable[tuple[str, str]] = (),
    corpora: Iterable[CorpusRow] = (),
) -> dict[str, Any]:
    """The part of a seal that depends on what was collected, and on nothing else.

    Two processes that collected the same files give equal plans; under xdist the controller
    compares them as canonical text.

    Args:
        broken: ``(file, text)`` of each file that did not load.
        corpora: Those of libraries that were collected, named by a case or not.
    """
    from pytest_evarness.core import c1

    texts: dict[str, str] = {}  # definition digest -> text
    digest_by_identity: dict[int, str] = {}  # cases of one file share their definitions
    kept: list[object] = []  # keeps those identities from being used again
    records: dict[tuple[int, str | None], dict[str, Any]] = {}  # and mostly whole items

    def digest_of(definition: Any) -> str | None:
        if definition is None:
            return None
        known = digest_by_identity.get(id(definition))
        if known is None:
            text = c1.text(definition)
            known = c1.sha256_text(text)
            texts[known] = text
            digest_by_identity[id(definition)] = known
            kept.append(definition)
        return known

    plan = []
    for case in cases:
        items = []
        for item in case.items:
            why = case.deselected.get(item.id)
            record = records.get((id(item), why))
            if record is None:
                record = item_record(item, digest_of(item.definition), why)
                records[(id(item), why)] = record
                kept.append(item)
            items.append(record)
        plan.append(
            {
                "nodeid": case.nodeid,
                "file": case.file,
                "case": case.case,
                "base": case.base,
                "mode": case.mode,
                "digest": case.digest,
                "scenario": case.scenario,
                "threshold": None if case.threshold is None else fraction_text(case.threshold),
                "waived": list(case.waived),
                "items": items,
            }
        )
    definitions = [{"digest": digest, "text": texts[digest]} for digest in sorted(texts)]
    return {
        "subjects": _rows(("name", "sha256"), {pair for case in cases for pair in case.subjects}),
        "contracts": contract_rows(plan, definitions),
        "overrides": _rows(OVERRIDE_FIELDS, {row for case in cases for row in case.overrides}),
        "corpora": [
            {**row, "failed": list(row["failed"])}
            for row in _rows(
                CORPUS_FIELDS, {*corpora, *(row for case in cases for row in case.corpora)}
            )
        ],
        "overlays": _rows(
            ("name", "label", "sha256"), {row for case in cases for row in case.overlays}
        ),
        "policies": _rows(
            ("scenario", "revision"),
            {(case.file, case.policy) for case in cases if case.policy is not None},
        ),
        "definitions": definitions,
        "plan": plan,
        "broken": _rows(("file", "text"), set(broken)),
    }


def finish_seal(
    plan: Mapping[str, Any],
    *,
    engine: Mapping[str, str],
    plugins: Iterable[tuple[str, str]] = (),
    git: Mapping[str, Any] | None = None,
    environment: str,
    settings: Settings,
    redefined: Iterable[Mapping[str, Any]] = (),
    reviews: Iterable[Mapping[str, str]] = (),
    challenge: str | None = None,
    nonce: str | None = None,
    time: str | None = None,
    encoded: Encoded | None = None,
) -> dict[str, Any]:
    """Add what is the session's own, and the digest over it all.

    Args:
        plan: What :func:`build_plan` gave.
        engine: ``{"pytest-evarness": version}``.
        plugins: ``(name, version)`` of each plug-in that registered something.
        git: ``{commit, tree, clean}``; None without git.
        environment: What :func:`environment_digest` gave.
        redefined: Contracts of another definition than in the bundle before.
        reviews: What persons said about findings of planned cases, sorted.
        challenge: From ``$EVARNESS_CHALLENGE``.
        nonce: 32 hex digits; fresh ones when not given.
        time: ISO 8601 in UTC with a ``Z``; now when not given.
        encoded: Gets the texts of the parts that grow with the number of cases; whoever writes
            the seal, and later the bundle around it, need not encode them again.
    """
    contents: dict[str, Any] = {key: plan[key] for key in PLAN_KEYS}
    contents |= {
        "format": SEAL_FORMAT,
        "engine": [{"name": name, "version": engine[name]} for name in sorted(engine)],
        "plugins": _rows(("name", "version"), set(plugins)),
        "git": None if git is None else dict(git),
        "environment": environment,
        "settings": settings.as_record(),
        "redefined": [dict(row) for row in redefined],
        "reviews": [dict(row) for row in reviews],
        "challenge": challenge,
        "nonce": nonce if nonce is not None else secrets.token_hex(16),
        "time": time if time is not None else datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if encoded is not None:
        for key in GROWING_KEYS:
            encoded.add(contents[key])
    return {"digest": canonical_digest(contents, encoded), **contents}


def build_seal(
    cases: Sequence[PlannedCase], *, broken: Iterable[tuple[str, str]] = (), **session: Any
) -> dict[str, Any]:
    """A seal in one step: :func:`build_plan`, then :func:`finish_seal` with ``session``."""
    return finish_seal(build_plan(cases, broken=broken), **session)


def item_record(item: PlannedItem, definition: str | None, why: str | None) -> dict[str, Any]:
    """The sealed form of an item: its definition by digest, and whether it was selected."""
    record: dict[str, Any] = dict(item.as_record())
    record["definition"] = definition
    record["selected"] = why is None
    record["why"] = why
    return record


def contract_rows(
    plan: Sequence[Mapping[str, Any]], definitions: Sequence[Mapping[str, str]]
) -> list[dict[str, Any]]:
    """The contract set, as it follows from the items of the plan and their definitions."""
    import json

    text_by_digest = {row["digest"]: row["text"] for row in definitions}
    parsed: dict[str, Any] = {}
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    seen: set[tuple[Any, ...]] = set()
    for case in plan:
        for item in case["items"]:
            digest = item["definition"]
            if item["kind"] not in ("contract", "trace") or digest is None:
                continue
            facts = (
                item["id"],
                item["version"],
                item["gate"],
                item["severity"],
                item["untested"],
                item["path"],
                digest,
            )
            if facts in seen:
                continue
            seen.add(facts)
            if digest not in parsed:
                parsed[digest] = json.loads(text_by_digest[digest])
            owner = parsed[digest].get("owner")
            rows[tuple(repr(fact) for fact in facts)] = {
                "id": item["id"],
                "version": item["version"],
                "owner": owner if isinstance(owner, str) else None,
                "gate": item["gate"],
                "severity": item["severity"],
                "untested": item["untested"],
                "origin": item["path"],
                "definition": digest,
            }
    return [rows[key] for key in sorted(rows)]


def redefined(
    before: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Contracts whose id and version stayed while the definition did not.

    Args:
        before: Rows of the contract set of an earlier seal.
        now: Rows of this plan.
    """
    earlier: dict[tuple[str, Any], set[str]] = {}
    for row in before:
        earlier.setdefault((row["id"], row["version"]), set()).add(row["definition"])
    found = {
        (row["id"], row["version"], row["definition"])
        for row in now
        if row["definition"] not in earlier.get((row["id"], row["version"]), {row["definition"]})
    }
    return [
        {"id": name, "version": version, "definition": definition}
        for name, version, definition in sorted(found, key=repr)
    ]


def environment_digest(environment: Mapping[str, Any]) -> str:
    """Digest of the session's environment without what the mirror differed in.

    The mirror starts with the first run, so what it differed in is not known to a seal.
    """
    return canonical_digest({key: environment[key] for key in environment if key != "mirror"})


def binding_of(seal_digest: str, nodeid: str, replica: int, label: str, chain_digest: str) -> str:
    """What ties a run to the seal and to its place: it cannot be moved to another case.

    The case is named by its node id, which is unique in a session; ids of cases are not.
    """
    parts = ("evarness-run-v1", seal_digest, nodeid, str(replica), label, chain_digest)
    return "sha256:" + hashlib.sha256("\0".join(parts).encode("utf-8")).hexdigest()


def _rows(names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in sorted(rows)]
