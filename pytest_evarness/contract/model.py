"""Reads contracts: every mistake at once, nothing unknown accepted.

A contract that parses can be evaluated against any trace; what it says is in ``docs/contracts.md``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from pytest_evarness.contract.applicability import Applicability, parse_applicability
from pytest_evarness.contract.corpus import Corpus, parse_corpus
from pytest_evarness.contract.possible import ORDER, asserts_nothing, impossible, sought
from pytest_evarness.contract.rule import (
    AtMost,
    Eventually,
    Every,
    LeadsTo,
    Never,
    Pattern,
    Precedes,
    Role,
    Rule,
    roles_of,
    types_of,
)
from pytest_evarness.core.json import shown
from pytest_evarness.core.matcher import (
    MISSING,
    Matcher,
    Path,
    Variable,
    parse_matcher,
    parse_path,
)
from pytest_evarness.core.outcome import Severity
from pytest_evarness.core.registry import nearest
from pytest_evarness.core.schema import NODE_ID, Place, PlaceError, Schema, joined
from pytest_evarness.core.triviality import static_part
from pytest_evarness.errors import Fault

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Shape
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = [
    "ENFORCEMENTS",
    "IDENTITY_PATHS",
    "KEYS",
    "PRIMITIVES",
    "Contract",
    "from_definition",
    "inline_id",
    "parse_contract",
]

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.:-]+")

PRIMITIVES: Final = ("never", "eventually", "every", "precedes", "leads_to", "at_most")
IDENTITY_PATHS: Final = ("tool", "capability", "service", "node_id", "provider", "classification")
ENFORCEMENTS: Final = (
    "approval_gate",
    "manifest",
    "egress",
    "tool_offer",
    "sandbox",
    "budget",
)
STATUSES: Final = ("active", "deprecated", "draft")
VACUOUS: Final = ("pass", "fail", "indeterminate")
KEYS: Final = (
    "title",
    "description",
    "version",
    "owner",
    "rationale",
    "threat",
    "severity",
    "gate",
    "applies_to",
    "enforced_by",
    "status",
    "vacuous",
    "overrides",
    "history",
    "assert",
    "corpus",
)
_PATTERN_KEYS: Final = ("type", "node_id", "where", "satisfies", "bind")
# Payload fields that hold the type of a node, by event type.
_NODE_TYPE: Final = "node_type"
_NODE_TYPES: Final = {"node_started": "type", "node_finished": "type"}
_TOOL_PATHS: Final = ("tool", "capability")
_MOST_TOOLS: Final = 3
_SCOPE_KEYS: Final = ("after", "until", "between")
_CUSTOM: Final = re.compile(r"custom\.[A-Za-z0-9_.:-]+\Z")
_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*\Z")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_OVERRIDES: Final = re.compile(r"(?P<id>[A-Za-z0-9_][A-Za-z0-9_.:-]*)@(?P<version>[1-9][0-9]*)\Z")


@dataclass(frozen=True, slots=True)
class Contract:
    """A named, owned, versioned statement about the event stream.

    Attributes:
        body: The ``assert`` as JSON.
        rule: The same, parsed.
        label: Where it comes from: packaged, home, project, variable, beside or inline.
        path: The file, as the user would name it; empty for inline ones.
        line: In that file, from 1.
        untested: No corpus has tested it.
        applies_to: Cases that it is for; None for every case that names it.
        overrides: ``id@version`` of the definition below that this one replaces; empty for none.
        replaced: The definitions that stand below in lower layers, the lowest first.
        corpus: What tests it; None where it has none, or where that stands in a file of its own.
        warnings: What a reader of the case should know though it loads.
    """

    id: str
    body: JsonObject
    rule: Rule = field(repr=False)
    version: int = 1
    title: str = ""
    description: str = ""
    owner: str = ""
    rationale: str = ""
    threat: str = ""
    severity: Severity = Severity.MAJOR
    gate: bool = True
    enforced_by: tuple[str, ...] = ()
    status: str = "active"
    vacuous: str = "pass"
    history: tuple[JsonObject, ...] = ()
    label: str = "inline"
    path: str = ""
    line: int = 1
    untested: bool = True
    applies_to: Applicability | None = None
    overrides: str = ""
    replaced: tuple[Contract, ...] = field(default=(), compare=False, repr=False)
    corpus: Corpus | None = field(default=None, compare=False, repr=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def required_types(self) -> frozenset[str]:
        """Evidence it needs: every type that its patterns name."""
        return frozenset(
            name for _, role in roles_of(self.rule) for name in types_of(role) or frozenset()
        )

    def unchecked_types(self, registry: Registry) -> list[str]:
        """Those of them of which no schema is known, so that no path into them was checked."""
        return sorted(name for name in self.required_types if name not in registry.event_types)

    @property
    def primitive(self) -> str:
        """The key of ``assert``."""
        return next(iter(self.body))

    def definition(self) -> dict[str, Json]:
        """All that a verifier needs to judge by it; :func:`from_definition` reads it back.

        The corpus is no part of it: another test does not make another contract.
        """
        more: dict[str, Json] = {}
        if self.applies_to is not None:
            more["applies_to"] = self.applies_to.as_json()
        if self.overrides:
            more["overrides"] = self.overrides
        return {
            "id": self.id,
            "version": self.version,
            "title": self.title,
            "description": self.description,
            "owner": self.owner,
            "rationale": self.rationale,
            "threat": self.threat,
            "severity": str(self.severity.value),
            "gate": self.gate,
            "enforced_by": list(self.enforced_by),
            "status": self.status,
            "vacuous": self.vacuous,
            "history": [dict(entry) for entry in self.history],
            "assert": self.body,
            **more,
        }

    def placed(self, *, label: str, path: str, line: int, **more: Any) -> Contract:
        """The same contract with the place it was read from."""
        return replace(self, label=label, path=path, line=line, **more)

    @property
    def name(self) -> str:
        """``id@version``."""
        return f"{self.id}@{self.version}"


def from_definition(definition: JsonObject, registry: Registry) -> Contract:
    """Read what :meth:`Contract.definition` wrote.

    Types are taken as they are: they were checked when the contract was sealed, and a verifier
    need not have the plug-ins that registered them.

    Raises:
        ValueError: It is not a definition; the message has every fault.
    """
    value = {key: item for key, item in definition.items() if key != "id"}
    name = definition.get("id")
    declared = frozenset(_named_types(value.get("assert")))
    contract, faults = parse_contract(
        name if isinstance(name, str) else "",
        value,
        registry=registry,
        declared_types=declared,
        is_sealed=True,
    )
    if contract is None:
        raise ValueError("; ".join(f"{_dotted(fault.path)}: {fault.text}" for fault in faults))
    return contract


def _dotted(path: Sequence[str | int]) -> str:
    return ".".join(str(step) for step in path)


def _named_types(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key == "type":
                yield from ([item] if isinstance(item, str) else _texts(item))
            elif key not in ("where", "bind"):
                yield from _named_types(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _named_types(item)


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def inline_id(name: str) -> str:
    """The id of a contract that stands in a scenario, whose own id may be any printable text."""
    return _NO_NAME.sub("-", name).lstrip("-.:") or "inline"


def parse_contract(
    id: str,  # noqa: A002 - the word of the file
    value: Json,
    *,
    registry: Registry,
    identities: Mapping[str, frozenset[str]] | None = None,
    declared_types: frozenset[str] | None = None,
    label: str = "inline",
    shapes: Sequence[Shape] = (),
    aliases: Mapping[str, str] | None = None,
    answers: Mapping[str, frozenset[str]] | None = None,
    is_sealed: bool = False,
    with_corpus: bool = True,
) -> tuple[Contract | None, list[Fault]]:
    """Read one contract.

    Args:
        id: Its key in the file.
        value: What stands under the key.
        registry: Knows event types and predicates.
        identities: Known values at identity paths (``tool``, ``node_id``, ...), or at
            ``TYPE.PATH`` for events of one type; a key that is absent is not checked. None checks
            none.
        declared_types: Types that the sources of a recorded trace declare; known without a schema.
        label: Where it comes from.
        shapes: Of payload fields that the configuration in force knows more of than the type does.
        aliases: Other names of tools to the ids that events hold.
        answers: Values by ``TYPE.PATH`` of which the file at hand has no others; only what is
            compared for equality is held to them.
        is_sealed: It was checked before, perhaps with plug-ins that are not here; a corpus is no
            part of it.
        with_corpus: False leaves the corpus out, unread.

    Returns:
        The contract, or None with at least one fault; fault paths start at ``value``.
    """
    known = identities or {}
    reader = _Reader(
        registry, known, declared_types or frozenset(), shapes, aliases or {}, answers or {}
    )
    reader.is_sealed, reader.with_corpus = is_sealed, with_corpus and not is_sealed
    return reader.contract(id, value, label)


def _is_day(text: str) -> bool:
    """Whether it is a date that there is, written as ISO 8601 writes it in full."""
    if not _DAY.fullmatch(text):
        return False
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _unknown_key(path: tuple[str | int, ...], key: object, known: Sequence[str]) -> Fault:
    near = nearest(str(key), known)
    return Fault(
        (*path, str(key)),
        "unknown key",
        f"'{key}'",
        f"known: {', '.join(known)}",
        f"write '{near}'" if near else None,
        at_key=True,
        code="unknown_key",
    )


class _Reader:
    """Collects the faults of one contract."""

    def __init__(
        self,
        registry: Registry,
        identities: Mapping[str, frozenset[str]],
        declared: frozenset[str],
        shapes: Sequence[Shape],
        aliases: Mapping[str, str],
        answers: Mapping[str, frozenset[str]],
    ) -> None:
        self.registry = registry
        self.answers = answers
        self.aliases = aliases
        self.identities = identities
        self.declared = declared
        self.shapes = shapes
        self.faults: list[Fault] = []
        self.warnings: dict[str, None] = {}
        self.has_bind = False
        self.is_sealed = False
        self.with_corpus = True

    def fault(
        self,
        path: tuple[str | int, ...],
        problem: str,
        got: str | None = None,
        rule: str | None = None,
        fix: str | None = None,
        *,
        at_key: bool = False,
        code: str = "invalid",
    ) -> None:
        self.faults.append(Fault(path, problem, got, rule, fix, at_key, code))

    # -- the contract itself

    def contract(self, name: str, value: Json, label: str) -> tuple[Contract | None, list[Fault]]:
        if not _ID.match(name):
            self.fault((), "an id is letters, digits, '_', '-', '.', ':'", shown(name, 60))
        if not isinstance(value, Mapping):
            self.fault((), "must be a mapping", shown(value, 60), "{assert: {...}}")
            return None, self.faults
        for key in value:
            if key not in KEYS or (key == "corpus" and self.is_sealed):
                self.faults.append(_unknown_key((), key, KEYS))
        texts = {
            key: self.text(value, key)
            for key in ("title", "description", "owner", "rationale", "threat")
        }
        version = value.get("version", 1)
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            self.fault(("version",), "must be a positive integer", shown(version, 60), "1 or more")
            version = 1
        severity = self.word(value, "severity", [one.value for one in Severity], "major")
        status = self.word(value, "status", STATUSES, "active")
        vacuous = self.word(value, "vacuous", VACUOUS, "pass")
        gate = value.get("gate", status != "draft")
        if not isinstance(gate, bool):
            self.fault(("gate",), "must be true or false", shown(gate, 60))
            gate = True
        if status == "draft" and gate:
            self.fault(("gate",), "a draft never decides, so it is no gate", "true", "false")
        enforced_by = self.enforced_by(value.get("enforced_by", []))
        history = self.history(value.get("history", []), value.get("version", 1))
        applies_to = self.applies_to(value)
        overrides = self.overrides(name, value, gate=gate, status=status)
        corpus = self.corpus(value)
        rule = self.assertion(value)
        if self.faults or rule is None:
            return None, self.faults
        return (
            Contract(
                id=name,
                body=cast("JsonObject", value["assert"]),
                rule=rule,
                version=version,
                severity=Severity(severity),
                gate=gate,
                enforced_by=enforced_by,
                status=status,
                vacuous=vacuous,
                history=history,
                label=label,
                title=texts["title"],
                description=texts["description"],
                owner=texts["owner"],
                rationale=texts["rationale"],
                threat=texts["threat"],
                applies_to=applies_to,
                overrides=overrides,
                corpus=corpus,
                untested=corpus is None,
                warnings=tuple(self.warnings),
            ),
            [],
        )

    def text(self, value: JsonObject, key: str) -> str:
        got = value.get(key, "")
        if not isinstance(got, str):
            self.fault((key,), "must be a text", shown(got, 60))
            return ""
        return got

    def word(self, value: JsonObject, key: str, known: Sequence[str], default: str) -> str:
        got = value.get(key, default)
        if isinstance(got, str) and got in known:
            return got
        near = nearest(got, known) if isinstance(got, str) else None
        self.fault(
            (key,),
            f"must be one of {', '.join(known)}",
            shown(got, 60),
            fix=f"write '{near}'" if near else None,
        )
        return default

    def enforced_by(self, got: Json) -> tuple[str, ...]:
        if not isinstance(got, (list, tuple)):
            self.fault(("enforced_by",), "must be a list", shown(got, 60), ", ".join(ENFORCEMENTS))
            return ()
        for index, one in enumerate(got):
            if one not in ENFORCEMENTS:
                near = nearest(one, ENFORCEMENTS) if isinstance(one, str) else None
                self.fault(
                    ("enforced_by", index),
                    "unknown enforcement",
                    shown(one, 60),
                    f"known: {', '.join(ENFORCEMENTS)}",
                    f"write '{near}'" if near else None,
                )
        return tuple(str(one) for one in got)

    def history(self, got: Json, in_force: Json) -> tuple[JsonObject, ...]:
        if not isinstance(got, (list, tuple)):
            self.fault(("history",), "must be a list", shown(got, 60), "{version, date, change}")
            return ()
        known = ("version", "date", "change")
        kept: list[JsonObject] = []
        before = 0
        for index, entry in enumerate(got):
            at: tuple[str | int, ...] = ("history", index)
            if not isinstance(entry, Mapping):
                self.fault(at, "must be a mapping", shown(entry, 60), "{version, date, change}")
                continue
            for key in entry:
                if key not in known:
                    self.faults.append(_unknown_key(at, key, known))
            before = self._past_version((*at, "version"), entry.get("version"), before, in_force)
            for key in ("date", "change"):
                if key in entry and not isinstance(entry[key], str):
                    self.fault((*at, key), "must be a text", shown(entry[key], 60))
                elif key in entry and key == "date" and not _is_day(str(entry[key])):
                    got_date = shown(entry[key], 60)
                    self.fault((*at, key), "is no day of the calendar", got_date, "YYYY-MM-DD")
            kept.append(entry)
        return tuple(kept)

    def _past_version(
        self, at: tuple[str | int, ...], got: Json, before: int, in_force: Json
    ) -> int:
        """Check the version of one line of a history, and return what the next one is above."""
        if not isinstance(got, int) or isinstance(got, bool) or got < 1:
            self.fault(at, "must be a positive integer", shown(got, 60))
            return before
        # A version that is none has its own mistake.
        if isinstance(in_force, int) and got > in_force > 0:
            rule = f"at most {in_force}, the version in force"
            self.fault(at, "is a version that is yet to come", shown(got, 60), rule)
        elif got <= before:
            rule = f"above {before}, that of the line before: the oldest stands first"
            self.fault(at, "versions ascend, each with one line", shown(got, 60), rule)
        return max(got, before)

    def applies_to(self, value: JsonObject) -> Applicability | None:
        if "applies_to" not in value:
            return None
        registry = None if self.is_sealed else self.registry
        found, faults = parse_applicability(value["applies_to"], registry)
        self.faults += [fault.under("applies_to") for fault in faults]
        for index, tool in enumerate(dict(found.lists).get("tools", ()) if found else ()):
            if tool in self.aliases:
                self.unknown(
                    "tool", tool, frozenset({self.aliases[tool]}), ("applies_to", "tools", index)
                )
        return found

    def overrides(self, name: str, value: JsonObject, *, gate: bool, status: str) -> str:
        if "overrides" not in value:
            return ""
        got = value["overrides"]
        found = _OVERRIDES.match(got) if isinstance(got, str) else None
        if found is None:
            self.fault(("overrides",), "must be ID@VERSION", shown(got, 60), f"such as {name}@1")
            return ""
        if found["id"] != name:
            self.fault(
                ("overrides",),
                "an override keeps the id of what it replaces",
                f"'{got}'",
                f"'{name}'",
                f"write '{name}@{found['version']}', or leave 'overrides' out",
            )
        for key, word, is_soft in (
            ("gate", "false", not gate),
            ("status", f"'{status}'", status != "active"),
        ):
            if is_soft:
                rule = "it replaces a definition by another hard one"
                self.fault((key,), "an override is a gate and active", word, rule)
        return str(got)

    def corpus(self, value: JsonObject) -> Corpus | None:
        if "corpus" not in value or not self.with_corpus:
            return None
        found, faults = parse_corpus(value["corpus"], self.registry)
        self.faults += [fault.under("corpus") for fault in faults]
        return found

    # -- the assertion

    def assertion(self, value: JsonObject) -> Rule | None:
        if "assert" not in value:
            self.fault((), "the key 'assert' is missing", rule=f"one of {', '.join(PRIMITIVES)}")
            return None
        body = value["assert"]
        at: tuple[str | int, ...] = ("assert",)
        if not isinstance(body, Mapping):
            self.fault(at, "must be a mapping", shown(body, 60), f"one of {', '.join(PRIMITIVES)}")
            return None
        for key in body:
            if key not in PRIMITIVES:
                self.faults.append(_unknown_key(at, key, PRIMITIVES))
        present = [key for key in PRIMITIVES if key in body]
        if len(present) != 1:
            self.fault(
                at,
                "must hold exactly one primitive",
                ", ".join(present) or "none",
                f"one of {', '.join(PRIMITIVES)}",
            )
            return None
        name = present[0]
        self.has_bind = _has_bind(body[name])
        before = len(self.faults)
        rule = self.primitive(name, body[name], (*at, name))
        return rule if len(self.faults) == before else None

    def primitive(self, name: str, value: Json, at: tuple[str | int, ...]) -> Rule | None:
        if not isinstance(value, Mapping):
            self.fault(at, "must be a mapping", shown(value, 60))
            return None
        if name == "never":
            return self.never(value, at)
        if name == "eventually":
            role = self.role(value, at)
            return Eventually(role) if role is not None else None
        if name == "every":
            return self.every(value, at)
        if name == "precedes":
            return self.precedes(value, at)
        if name == "leads_to":
            return self.leads_to(value, at)
        return self.at_most(value, at)

    def keys(self, value: JsonObject, at: tuple[str | int, ...], known: Sequence[str]) -> None:
        for key in value:
            if key not in known:
                self.faults.append(_unknown_key(at, key, known))

    def required(self, value: JsonObject, at: tuple[str | int, ...], key: str) -> bool:
        if key in value:
            return True
        self.fault(at, f"the key '{key}' is missing")
        return False

    def never(self, value: JsonObject, at: tuple[str | int, ...]) -> Rule | None:
        own = {key: item for key, item in value.items() if key not in _SCOPE_KEYS}
        match = self.role(own, at, beside=_SCOPE_KEYS)
        after = until = between = None
        if "between" in value and ("after" in value or "until" in value):
            self.fault((*at, "between"), "stands alone, without 'after' and 'until'", at_key=True)
        if "after" in value:
            after = self.role(value["after"], (*at, "after"), anchor=True)
        if "until" in value:
            until = self.role(value["until"], (*at, "until"))
        if "between" in value:
            pair = value["between"]
            here = (*at, "between")
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                self.fault(here, "must be a list of two patterns", shown(pair, 60), "[Q, R]")
            else:
                opens = self.role(pair[0], (*here, 0), anchor=True)
                closes = self.role(pair[1], (*here, 1))
                if opens is not None and closes is not None:
                    between = (opens, closes)
        if match is None:
            return None
        rule = Never(match, after, until, between)
        opens_ = rule.opens
        self.check_variables(
            at, opens_, {"the scoped pattern": (match,)}, [match, rule.closes or ()]
        )
        return rule

    def every(self, value: JsonObject, at: tuple[str | int, ...]) -> Rule | None:
        self.keys(value, at, ("match", "where", "satisfies"))
        match = (
            self.role(value["match"], (*at, "match")) if self.required(value, at, "match") else None
        )
        if "where" not in value and "satisfies" not in value:
            self.fault(at, "needs a condition", rule="'where' or 'satisfies'")
        idle: list[Fault] = []
        where = (
            self.where(value["where"], (*at, "where"), match or (), idle)
            if "where" in value
            else ()
        )
        satisfies = self.satisfies(value, at)
        if len(idle) == len(where) and satisfies is None:
            self.faults += idle
        for fault in idle:
            # Beside a condition that asks something it does no harm, and is said all the same.
            self.warnings[f"{_dotted(fault.path[2:])}: {fault.text}"] = None
        if match is None:
            return None
        return Every(match, Pattern(where=where, satisfies=satisfies))

    def precedes(self, value: JsonObject, at: tuple[str | int, ...]) -> Rule | None:
        self.keys(value, at, ("first", "second", "fresh"))
        first: list[Role] = []
        if self.required(value, at, "first"):
            got = value["first"]
            here = (*at, "first")
            if isinstance(got, (list, tuple)):
                if not got:
                    self.fault(here, "must hold at least one pattern", "[]")
                for index, item in enumerate(got):
                    role = self.role(item, (*here, index), equality_only=True)
                    if role is not None:
                        first.append(role)
            else:
                role = self.role(got, here, equality_only=True)
                if role is not None:
                    first.append(role)
        second = None
        if self.required(value, at, "second"):
            second = self.role(value["second"], (*at, "second"), anchor=True)
        fresh = value.get("fresh", False)
        if not isinstance(fresh, bool):
            self.fault((*at, "fresh"), "must be true or false", shown(fresh, 60))
        if second is None or not first:
            return None
        self.check_variables(at, second, {"'first'": tuple(first)}, first)
        return Precedes(tuple(first), second, bool(fresh))

    def leads_to(self, value: JsonObject, at: tuple[str | int, ...]) -> Rule | None:
        self.keys(value, at, ("when", "then", "within"))
        when = then = None
        if self.required(value, at, "when"):
            when = self.role(value["when"], (*at, "when"), anchor=True)
        if self.required(value, at, "then"):
            then = self.role(value["then"], (*at, "then"))
        within = None
        if "within" in value:
            got = value["within"]
            here = (*at, "within")
            if not isinstance(got, Mapping):
                fix = f"write '{{events: {got}}}'" if isinstance(got, int) else None
                self.fault(here, "must be a mapping", shown(got, 60), "{events: k}", fix)
            else:
                self.keys(got, here, ("events",))
                if self.required(got, here, "events"):
                    within = self.count(got["events"], (*here, "events"), least=1)
        if when is None or then is None:
            return None
        self.check_variables(at, when, {"'then'": (then,)}, [then])
        return LeadsTo(when, then, within)

    def at_most(self, value: JsonObject, at: tuple[str | int, ...]) -> Rule | None:
        self.keys(value, at, ("n", "of", "per"))
        n = self.count(value["n"], (*at, "n"), least=0) if self.required(value, at, "n") else None
        of = self.role(value["of"], (*at, "of")) if self.required(value, at, "of") else None
        per: list[Path] = []
        got = value.get("per", [])
        if not isinstance(got, (list, tuple)) or ("per" in value and not got):
            self.fault((*at, "per"), "must be a list of paths", shown(got, 60), "[effect_id]")
        else:
            for index, text in enumerate(got):
                path = self.path(text, (*at, "per", index), stars=False)
                if path is not None:
                    per.append(path)
                    self.check_index(path, (*at, "per", index))
                    if of is not None:
                        self.place(path, (*at, "per", index), of, at_key=False)
        if n is None or of is None:
            return None
        return AtMost(n, of, tuple(per))

    def count(self, got: Json, at: tuple[str | int, ...], *, least: int) -> int | None:
        if isinstance(got, int) and not isinstance(got, bool) and got >= least:
            return got
        word = "a positive integer" if least == 1 else "an integer"
        self.fault(at, f"must be {word}", shown(got, 60), f"{least} or more")
        return None

    # -- patterns

    def role(
        self,
        value: Json,
        at: tuple[str | int, ...],
        *,
        anchor: bool = False,
        equality_only: bool = False,
        beside: Sequence[str] = (),
    ) -> Role | None:
        """A pattern or ``{any: [patterns]}``."""
        if not isinstance(value, Mapping):
            self.fault(at, "must be a pattern", shown(value, 60), "{type, node_id, where, ...}")
            return None
        if "any" not in value:
            pattern = self.pattern(value, at, anchor, equality_only, beside)
            return None if pattern is None else (pattern,)
        for key in value:
            if key != "any":
                known = key in _PATTERN_KEYS
                if known:
                    self.fault(
                        (*at, key),
                        "stands beside 'any'",
                        rule="the conditions go into each of its patterns",
                        at_key=True,
                    )
                else:
                    self.faults.append(_unknown_key(at, key, ("any", *_PATTERN_KEYS, *beside)))
        branches = value["any"]
        if not isinstance(branches, (list, tuple)) or not branches:
            self.fault((*at, "any"), "must be a list of patterns", shown(branches, 60))
            return None
        patterns: list[Pattern] = []
        for index, branch in enumerate(branches):
            here = (*at, "any", index)
            if isinstance(branch, Mapping) and "bind" in branch:
                self.fault(
                    (*here, "bind"),
                    "a branch of 'any' cannot bind",
                    rule="only a plain pattern binds",
                    at_key=True,
                )
                branch = {key: item for key, item in branch.items() if key != "bind"}
            if isinstance(branch, Mapping) and "any" in branch:
                self.fault((*here, "any"), "'any' does not nest", at_key=True)
                continue
            if not isinstance(branch, Mapping):
                self.fault(here, "must be a pattern", shown(branch, 60))
                continue
            pattern = self.pattern(branch, here, False, equality_only, ())
            if pattern is not None:
                patterns.append(pattern)
        return tuple(patterns) if patterns else None

    def pattern(
        self,
        value: JsonObject,
        at: tuple[str | int, ...],
        anchor: bool,
        equality_only: bool,
        beside: Sequence[str],
    ) -> Pattern | None:
        before = len(self.faults)
        for key in value:
            if key not in _PATTERN_KEYS:
                self.faults.append(_unknown_key(at, key, ("any", *_PATTERN_KEYS, *beside)))
        if not any(key in value for key in ("type", "node_id", "where", "satisfies")):
            self.fault(at, "needs at least one condition", rule="type, node_id, where or satisfies")
        types = self.types(value["type"], (*at, "type")) if "type" in value else None
        node = None
        if "node_id" in value:
            node, faults = parse_matcher(value["node_id"])
            self.faults.extend(fault.under(*at, "node_id") for fault in faults)
            if node is not None:
                self.check_node(node, types, (*at, "node_id"))
        where: tuple[tuple[Path, Matcher], ...] = ()
        if "where" in value:
            where = self.where(value["where"], (*at, "where"), (Pattern(types),))
        if equality_only:
            self.check_equality_use(where, (*at, "where"))
        bind: tuple[tuple[str, Path], ...] = ()
        if "bind" in value:
            if anchor:
                bind = self.bind(value["bind"], (*at, "bind"), Pattern(types, where=where))
            else:
                self.fault(
                    (*at, "bind"),
                    "only the anchor binds",
                    rule="'second' of precedes, 'when' of leads_to, 'after', 'between[0]'",
                    at_key=True,
                )
        satisfies = self.satisfies(value, at)
        if len(self.faults) > before:
            return None
        return Pattern(types, node, where, satisfies, bind)

    def satisfies(self, value: JsonObject, at: tuple[str | int, ...]) -> str | None:
        if "satisfies" not in value:
            return None
        name = value["satisfies"]
        if isinstance(name, str) and name in self.registry.predicates:
            return name
        known = self.registry.predicates.names()
        near = nearest(name, known) if isinstance(name, str) else None
        self.fault(
            (*at, "satisfies"),
            "unknown predicate",
            shown(name, 60),
            f"known: {', '.join(known) or 'none'}",
            f"write '{near}'" if near else None,
            code="unknown_predicate",
        )
        return None

    def types(self, got: Json, at: tuple[str | int, ...]) -> tuple[str, ...] | None:
        names = [got] if isinstance(got, str) else got
        if not isinstance(names, (list, tuple)) or not names:
            self.fault(at, "must be an event type or a list of them", shown(got, 60))
            return None
        kept: list[str] = []
        for index, name in enumerate(names):
            here = at if isinstance(got, str) else (*at, index)
            if not isinstance(name, str):
                self.fault(here, "must be an event type", shown(name, 60))
            elif name in self.registry.event_types or name in self.declared or _CUSTOM.match(name):
                if name in kept:
                    self.fault(here, "the event type is named twice", f"'{name}'")
                else:
                    kept.append(name)
            else:
                near = nearest(name, [*self.registry.event_types.names(), *self.declared])
                self.fault(
                    here,
                    "unknown event type",
                    f"'{name}'",
                    "a type of the kernel, of an installed domain, or custom.NAME",
                    f"write '{near}'" if near else None,
                    code="unknown_event_type",
                )
        return tuple(kept) if len(kept) == len(set(map(str, names))) else None

    def where(
        self,
        got: Json,
        at: tuple[str | int, ...],
        role: Role,
        idle: list[Fault] | None = None,
    ) -> tuple[tuple[Path, Matcher], ...]:
        """Conditions on the payload of the events that ``role`` takes.

        Args:
            idle: Takes the faults of those that all of these events meet; None where a condition
                only chooses among events.
        """
        if not isinstance(got, Mapping) or not got:
            self.fault(at, "must be a mapping of payload path to matcher", shown(got, 60))
            return ()
        kept: list[tuple[Path, Matcher]] = []
        read: list[tuple[Path, Matcher | None]] = []
        for text, spec in got.items():
            here = (*at, text)
            path = self.path(text, here, stars=True, at_key=True)
            matcher, faults = parse_matcher(spec, variables=self.has_bind)
            self.faults.extend(fault.under(*here) for fault in faults)
            if path is None:
                continue
            twin = next((other for other, _ in read if other.steps == path.steps), None)
            if twin is not None:
                self.fault(here, f"is the same path as '{twin}'", f"'{path}'", at_key=True)
            read.append((path, matcher))
            if matcher is not None:
                kept.append((path, matcher))
        # The conditions narrow each other: which tool is asked for says which arguments there are.
        narrowed = tuple(replace(one, where=(*one.where, *kept)) for one in role)
        for path, matcher in read:
            here = (*at, path.text)
            place = self.place(path, here, narrowed, at_key=True)
            if matcher is not None and not isinstance(place, PlaceError):
                self.check_matcher(path, matcher, place, here, role)
                fault = None if idle is None else _idle(path, matcher, place, here, role)
                if idle is not None and fault is not None:
                    idle.append(fault)
        return tuple(kept)

    def bind(
        self, got: Json, at: tuple[str | int, ...], pattern: Pattern
    ) -> tuple[tuple[str, Path], ...]:
        if not isinstance(got, Mapping) or not got:
            self.fault(at, "must be a mapping of variable to payload path", shown(got, 60))
            return ()
        kept: list[tuple[str, Path]] = []
        for name, text in got.items():
            if not _NAME.match(name):
                self.fault(
                    (*at, name),
                    "a variable is letters, digits and '_'",
                    shown(name, 60),
                    fix=f"write '{name[1:]}'" if name.startswith("$") else None,
                    at_key=True,
                )
                continue
            path = self.path(text, (*at, name), stars=False)
            if path is not None:
                self.place(path, (*at, name), (pattern,), at_key=False)
                self.check_index(path, (*at, name))
                kept.append((name, path))
        return tuple(kept)

    def path(
        self, text: Json, at: tuple[str | int, ...], *, stars: bool, at_key: bool = False
    ) -> Path | None:
        try:
            path = parse_path(text)
        except ValueError as error:
            self.fault(at, str(error), at_key=at_key)
            return None
        if path.has_star and not stars:
            self.fault(at, "[*] has no one value", shown(text, 60), "a path to one value")
            return None
        return path

    # -- what a pattern refers to

    def check_node(
        self, matcher: Matcher, types: tuple[str, ...] | None, at: tuple[str | int, ...]
    ) -> None:
        """``node_id`` against what events have there, and the nodes of the graph."""
        known = self.identities.get("node_id")
        if self.check_identity("node_id", matcher, at, known):
            return
        faults = impossible(NODE_ID, matcher)
        self.faults.extend(fault.under(*at) for fault in faults)
        if faults or known is None:
            return
        emitters = self.of_types("node_id", types)
        if emitters is not None:
            where = f"{', '.join(types or ())}: at {', '.join(sorted(emitters)) or 'none'}"
            self.is_met("node_id", matcher, sorted(emitters), at, where)
            return
        found = [self.registry.event_types.find(name) for name in types or ()]
        has_node = {None if one is None else one.has_node for one in found} or {None}
        values: list[Any] = [] if has_node == {False} else sorted(known)
        values += [] if has_node == {True} else [None]
        rule = None
        if has_node == {False}:
            rule = f"{', '.join(types or ())}: of the run itself, where node_id is null"
        elif has_node == {True}:
            rule = f"a node of the graph: {', '.join(sorted(known)) or 'none'}"
        self.is_met("node_id", matcher, values, at, rule)

    def of_types(
        self,
        path: str,
        types: Iterable[str] | None,
        source: Mapping[str, frozenset[str]] | None = None,
    ) -> frozenset[str] | None:
        """Known values at a path of just these event types; None where one of them is free."""
        known = self.identities if source is None else source
        if not types or any(f"{one}.{path}" not in known for one in types):
            return None
        return frozenset[str]().union(*(known[f"{one}.{path}"] for one in types))

    def is_met(
        self,
        name: str,
        matcher: Matcher,
        values: Sequence[Any],
        at: tuple[str | int, ...],
        rule: str | None = None,
    ) -> None:
        """A fault when none of ``values`` meets the matcher."""
        static = static_part(matcher)
        if static is None:
            return
        test = static.compile()
        if any(test(value) is True for value in values):
            return
        texts = [value for value in values if isinstance(value, str)]
        wanted = (sought(one) for one in static.operations)
        near = next((hit for text in wanted if text and (hit := nearest(text, texts))), None)
        self.fault(
            at,
            f"no declared {name.replace('_type', ' type')} meets this",
            static.describe(),
            rule or f"declared: {', '.join(sorted(texts)) or 'none'}",
            f"did you mean '{near}'?" if near else None,
            code="unknown_identity",
        )

    def check_matcher(
        self,
        path: Path,
        matcher: Matcher,
        place: Place | None,
        at: tuple[str | int, ...],
        role: Role,
    ) -> None:
        """Refuse what no value at ``path`` can meet."""
        if any(one.name != "exists" or one.argument for one in matcher.operations):
            before = len(self.faults)
            self.check_index(path, at, at_key=True)
            if len(self.faults) > before:
                return
        types = types_of(role)
        name = path.text
        if types and all(_NODE_TYPES.get(one) == name for one in types):
            name = _NODE_TYPE
        scoped = self.of_types(name, types)
        answers = self.of_types(name, types, self.answers)
        if name not in (*IDENTITY_PATHS, _NODE_TYPE) and scoped is None and answers is None:
            name = ""
        known = scoped if scoped is not None else self.identities.get(name)
        if name and self.check_identity(name, matcher, at, known if answers is None else answers):
            return
        faults = impossible(place, matcher)
        self.faults.extend(fault.under(*at) for fault in faults)
        if faults or known is None:
            return
        # Events of the user's own may hold anything under such a name.
        if place is None and types is not None:
            return
        values: list[Any] = sorted(known)
        if place is None:
            values += [MISSING, None]
        else:
            values = [value for value in values if place.fits(value)]
            values += [MISSING] if place.may_miss else []
            values += [None] if place.fits(None) else []
        self.is_met(name, matcher, values, at)

    def check_identity(
        self,
        name: str,
        matcher: Matcher,
        at: tuple[str | int, ...],
        known: frozenset[str] | None,
    ) -> bool:
        """Texts that are compared for equality; whether one of them is not declared."""
        if known is None:
            return False
        before = len(self.faults)
        for one in matcher.operations:
            values: list[Any] = []
            if one.name in ("equals", "not"):
                values = [one.argument]
            elif one.name == "in":
                values = list(one.argument)
            for value in values:
                if isinstance(value, str) and value not in known:
                    self.unknown(name, value, known, at)
        return len(self.faults) > before

    def unknown(
        self, name: str, value: str, known: frozenset[str], at: tuple[str | int, ...]
    ) -> None:
        """The fault of a text that nothing declares."""
        tool = self.aliases.get(value) if name in _TOOL_PATHS else None
        if tool in known:
            self.fault(
                at,
                f"is an alias of {tool}, and events hold the id",
                f"'{value}'",
                fix=f"write '{tool}'",
                code="unknown_identity",
            )
            return
        near = nearest(value, known)
        self.fault(
            at,
            f"unknown {name.replace('_type', ' type')}",
            f"'{value}'",
            f"declared: {', '.join(sorted(filter(None, known))) or 'none'}",
            f"write '{near}'" if near else None,
            code="unknown_identity",
        )

    def place(
        self, path: Path, at: tuple[str | int, ...], role: Role, *, at_key: bool
    ) -> Place | PlaceError | None:
        """What ``path`` meets in the events that ``role`` takes; None where nobody knows.

        A path must exist in the payload of at least one of them.
        """
        if any(isinstance(step, int) and step < 0 for step in path.names):
            return Place((), may_miss=True)
        met = self.meets(path, role)
        if not isinstance(met, list):
            if met is not None and met.strays:
                self.check_strays(path, met)
            return met
        shown_ = met if len(met) <= _MOST_TOOLS else [one for one in met if one[1].fix] or met
        more = len(met) - len(shown_[:_MOST_TOOLS])
        texts = [f"{name} has {problem.text}" for name, problem in shown_[:_MOST_TOOLS]]
        near = next((problem.fix for _, problem in met if problem.fix), None)
        fix = f"write '{near}'" if near else None
        if path.names[0] in ("node_id", "type") and len(path.names) == 1:
            fix = f"'{path}' stands beside 'where', not in it"
        elif path.names[0] == "payload" and len(path.names) > 1:
            fix = f"write '{joined(path.names[1:])}': a path starts in the payload"
        self.fault(
            at,
            "unknown payload path",
            f"'{path}'",
            "; ".join([*texts, *([f"and {more} more"] if more else [])]),
            fix,
            at_key=at_key,
            code="unknown_path",
        )
        return met[0][1]

    def meets(self, path: Path, role: Role) -> Place | list[tuple[str, PlaceError]] | None:
        """The same without a word; the reasons where it exists nowhere."""
        problems: list[tuple[str, PlaceError]] = []
        found: Place | None = None
        for pattern in role:
            if not pattern.types:
                return None
            for name in sorted(pattern.types):
                entry = self.registry.event_types.find(name)
                if entry is None or name in self.declared:
                    return None  # custom.* and types that only a trace declares have no schema
                for label, place in self.places(name, entry.schema, path, pattern):
                    if isinstance(place, PlaceError):
                        problems.append((label, place))
                    else:
                        found = place if found is None else found.merged(place)
        if found is None:
            return problems or None
        return replace(found, may_miss=True) if problems else found

    def places(
        self, name: str, schema: JsonObject, path: Path, pattern: Pattern
    ) -> Iterable[tuple[str, Place | PlaceError]]:
        """``(whose, what)`` for one type, and for each value that chooses a shape of the field."""
        steps = path.names
        for shape in self.shapes:
            if name not in shape.types or steps[0] != shape.key:
                continue
            if len(steps) == 1:
                if not shape.is_checked:
                    break
                for value in self.chosen(shape, pattern):
                    yield value, _whole(shape.schemas.get(value))
                return
            for value in self.chosen(shape, pattern):
                chosen = shape.schemas.get(value)
                inner = Schema({} if chosen is None else chosen, is_listed=False, base=(shape.key,))
                place = inner.place(steps[1:])
                if not shape.is_checked and isinstance(place, Place):
                    place = Place(((inner, ({},)),), True, place.strays)
                yield value, place
            return
        yield name, Schema(schema, is_listed=True).place(steps)

    def chosen(self, shape: Shape, pattern: Pattern) -> list[str]:
        """The values at ``shape.by`` that the pattern can match."""
        tests = [
            static.compile()
            for path, matcher in pattern.where
            if path.text == shape.by and (static := static_part(matcher)) is not None
        ]
        values = {*shape.schemas, *self.identities.get(shape.by, ())}
        return sorted(value for value in values if all(test(value) is not False for test in tests))

    def check_index(self, path: Path, at: tuple[str | int, ...], *, at_key: bool = False) -> None:
        """Nothing stands before the first element."""
        if any(isinstance(step, int) and step < 0 for step in path.names):
            self.fault(at, "an index counts from 0", shown(path.text, 60), at_key=at_key)

    def check_strays(self, path: Path, place: Place) -> None:
        """An open mapping admits any name; one that looks like a listed name is told."""
        step = place.strays[0][0]
        names = frozenset[str]().union(*(names for _, names in place.strays))
        near = nearest(step, names)
        if near:
            meant = joined([near if one == step else one for one in path.names])
            self.warnings[
                f"'{path}' is not listed, though more than what is listed is allowed there; "
                f"did you mean '{meant}'?"
            ] = None

    def check_equality_use(
        self, where: tuple[tuple[Path, Matcher], ...], at: tuple[str | int, ...]
    ) -> None:
        for path, matcher in where:
            for one in matcher.operations:
                if one.name in ("equals", "contains"):
                    continue
                if Matcher((one,)).variables:
                    self.fault(
                        (*at, path.text),
                        "'first' uses a variable by equality, or by 'contains' on a list",
                        one.describe(),
                    )

    def check_variables(
        self,
        at: tuple[str | int, ...],
        anchor: Role | None,
        tied: Mapping[str, Sequence[Role]],
        users: Sequence[Role],
    ) -> None:
        bound = [name for name, _ in anchor[0].bind] if anchor is not None else []
        if anchor is not None:
            for pattern in anchor:
                for name in sorted(pattern.variables):
                    self.fault(at, "the anchor binds variables, it does not use them", f"'${name}'")
        if not self.has_bind:
            return
        if anchor is not None:
            self.check_variable_kinds(at, anchor, users)
        unknown = {n for role in users for one in role for n in one.variables} - set(bound)
        for role in users:
            for pattern in role:
                for name in sorted(pattern.variables - set(bound)):
                    near = bound[0] if len(bound) == 1 else nearest(name, bound)
                    self.fault(
                        at,
                        "unknown variable",
                        f"'${name}'",
                        f"bound: {', '.join(bound) or 'none'}; $$ is a literal dollar",
                        f"write '${near}'" if near else None,
                        code="unknown_variable",
                    )
        for words, roles in tied.items():
            used = {name for role in roles for pattern in role for name in pattern.variables}
            for name in bound:
                # The only one that is bound is what an unknown one has to be: one mistake.
                if name not in used and not (unknown and len(bound) == 1):
                    self.fault(
                        at,
                        "a variable is bound and not used",
                        f"'{name}'",
                        f"use '${name}' in {words}",
                        code="unused_variable",
                    )

    def check_variable_kinds(
        self, at: tuple[str | int, ...], anchor: Role, users: Sequence[Role]
    ) -> None:
        """A variable whose values are never of the kind that its use needs ties nothing."""
        kinds: dict[str, frozenset[str]] = {}
        for name, path in anchor[0].bind:
            source = self.meets(path, anchor)
            if isinstance(source, Place):
                kinds[name] = source.kinds
        for role in users:
            for pattern in role:
                for path, matcher in pattern.where:
                    place = self.meets(path, (pattern,))
                    if not isinstance(place, Place):
                        continue
                    for name, needed in _needed_kinds(matcher, place):
                        if name in kinds and not kinds[name] & needed:
                            self.fault(
                                at,
                                f"'{path}' can never meet '${name}'",
                                f"a {' or '.join(sorted(kinds[name]))}",
                                f"a {' or '.join(sorted(needed))} is needed",
                                code="never_equal",
                            )


def _needed_kinds(matcher: Matcher, place: Place) -> Iterable[tuple[str, frozenset[str]]]:
    for one in matcher.operations:
        used = one.argument if one.name == "in" else [one.argument]
        names = [item.name for item in used if isinstance(item, Variable)]
        if one.name in ("equals", "not", "in"):
            yield from ((name, place.kinds) for name in names)
        elif one.name in ORDER:
            yield from ((name, frozenset({"number"})) for name in names)
        elif one.name in ("contains", "not_contains") and "list" not in place.kinds:
            yield from ((name, frozenset({"text"})) for name in names)


def _whole(schema: JsonObject | None) -> Place:
    """A mapping of which nothing more is known, or which was held to a schema."""
    inner = Schema({} if schema is None else schema, is_listed=False)
    views = inner.branches(inner.root)
    return Place(tuple((inner, ({"type": "object"}, *view)) for view in views), may_miss=False)


def _idle(
    path: Path, matcher: Matcher, place: Place | None, at: tuple[str | int, ...], role: Role
) -> Fault | None:
    """The fault of a condition that all events of ``role`` meet, where that is so."""
    if path.has_star:
        return None  # no element may be there
    if place is not None and (fault := asserts_nothing(place, matcher, at)) is not None:
        return fault
    test = matcher.compile()
    for pattern in role:
        chosen = next((one for other, one in pattern.where if other.steps == path.steps), None)
        values = None if chosen is None else _listed_values(chosen)
        if values is None or not all(test(value) is True for value in values):
            return None
    return Fault(
        at,
        "always holds, so nothing is asserted",
        matcher.describe(),
        "'match' takes only events of which this is true",
        "move the condition from 'match' to 'where', or ask for more",
        code="always_holds",
    )


def _listed_values(matcher: Matcher) -> list[Any] | None:
    """Every value that meets the matcher, where it lists them."""
    for one in matcher.operations:
        if one.name == "equals" and not isinstance(one.argument, Variable):
            return [one.argument]
        if one.name == "in" and not Matcher((one,)).variables:
            return list(one.argument)
    return None


def _has_bind(value: Any) -> bool:
    """Whether any pattern of a primitive has ``bind``; ``where`` holds data, not patterns."""
    if isinstance(value, Mapping):
        return "bind" in value or any(
            _has_bind(item) for key, item in value.items() if key != "where"
        )
    return isinstance(value, (list, tuple)) and any(_has_bind(item) for item in value)
