"""Reads contracts: every mistake at once, nothing unknown accepted.

A contract that parses can be evaluated against any trace; what it says is in ``docs/contracts.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

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
from pytest_evarness.core.matcher import Matcher, Path, parse_matcher, parse_path
from pytest_evarness.core.outcome import Severity
from pytest_evarness.core.registry import nearest
from pytest_evarness.errors import Fault

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = [
    "ENFORCEMENTS",
    "IDENTITY_PATHS",
    "KEYS",
    "PRIMITIVES",
    "Contract",
    "from_definition",
    "parse_contract",
]

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
LATER_KEYS: Final = ("applies_to", "corpus", "overrides")
KEYS: Final = (
    "title",
    "description",
    "version",
    "owner",
    "rationale",
    "threat",
    "severity",
    "gate",
    "enforced_by",
    "status",
    "vacuous",
    "history",
    "assert",
)
_PATTERN_KEYS: Final = ("type", "node_id", "where", "satisfies", "bind")
_SCOPE_KEYS: Final = ("after", "until", "between")
_CUSTOM: Final = re.compile(r"custom\.[A-Za-z0-9_.:-]+\Z")
_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*\Z")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


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

    @property
    def required_types(self) -> frozenset[str]:
        """Evidence it needs: every type that its patterns name."""
        return frozenset(
            name for _, role in roles_of(self.rule) for name in types_of(role) or frozenset()
        )

    @property
    def primitive(self) -> str:
        """The key of ``assert``."""
        return next(iter(self.body))

    def definition(self) -> dict[str, Json]:
        """All that a verifier needs to judge by it; :func:`from_definition` reads it back."""
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
        }

    def placed(self, *, label: str, path: str, line: int) -> Contract:
        """The same contract with the place it was read from."""
        return replace(self, label=label, path=path, line=line)


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
        name if isinstance(name, str) else "", value, registry=registry, declared_types=declared
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


def parse_contract(
    id: str,  # noqa: A002 - the word of the file
    value: Json,
    *,
    registry: Registry,
    identities: Mapping[str, frozenset[str]] | None = None,
    declared_types: frozenset[str] | None = None,
    label: str = "inline",
) -> tuple[Contract | None, list[Fault]]:
    """Read one contract.

    Args:
        id: Its key in the file.
        value: What stands under the key.
        registry: Knows event types and predicates.
        identities: Known values at identity paths (``tool``, ``node_id``, ...); a key that is
            absent is not checked. None checks none.
        declared_types: Types that the sources of a recorded trace declare; known without a schema.
        label: Where it comes from.

    Returns:
        The contract, or None with at least one fault; fault paths start at ``value``.
    """
    return _Reader(registry, identities or {}, declared_types or frozenset()).contract(
        id, value, label
    )


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
    ) -> None:
        self.registry = registry
        self.identities = identities
        self.declared = declared
        self.faults: list[Fault] = []
        self.has_bind = False

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
            if key in LATER_KEYS:
                self.fault(
                    (key,),
                    f"'{key}' is not in this version",
                    rule=f"known: {', '.join(KEYS)}",
                    at_key=True,
                    code="not_in_this_version",
                )
            elif key not in KEYS:
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
        history = self.history(value.get("history", []))
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

    def history(self, got: Json) -> tuple[JsonObject, ...]:
        if not isinstance(got, (list, tuple)):
            self.fault(("history",), "must be a list", shown(got, 60), "{version, date, change}")
            return ()
        known = ("version", "date", "change")
        kept: list[JsonObject] = []
        for index, entry in enumerate(got):
            at: tuple[str | int, ...] = ("history", index)
            if not isinstance(entry, Mapping):
                self.fault(at, "must be a mapping", shown(entry, 60), "{version, date, change}")
                continue
            for key in entry:
                if key not in known:
                    self.faults.append(_unknown_key(at, key, known))
            version = entry.get("version")
            if not isinstance(version, int) or isinstance(version, bool) or version < 1:
                self.fault((*at, "version"), "must be a positive integer", shown(version, 60))
            for key in ("date", "change"):
                if key in entry and not isinstance(entry[key], str):
                    self.fault((*at, key), "must be a text", shown(entry[key], 60))
            kept.append(entry)
        return tuple(kept)

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
        types = types_of(match) if match is not None else None
        where = self.where(value["where"], (*at, "where"), types) if "where" in value else ()
        satisfies = self.satisfies(value, at)
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
                    if of is not None:
                        self.check_schema(path, (*at, "per", index), types_of(of), at_key=False)
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
                self.check_identity("node_id", node, (*at, "node_id"))
        where: tuple[tuple[Path, Matcher], ...] = ()
        if "where" in value:
            where = self.where(value["where"], (*at, "where"), frozenset(types) if types else None)
        if equality_only:
            self.check_equality_use(where, (*at, "where"))
        bind: tuple[tuple[str, Path], ...] = ()
        if "bind" in value:
            if anchor:
                bind = self.bind(value["bind"], (*at, "bind"), frozenset(types) if types else None)
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
                if name not in kept:
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
        self, got: Json, at: tuple[str | int, ...], types: frozenset[str] | None
    ) -> tuple[tuple[Path, Matcher], ...]:
        if not isinstance(got, Mapping) or not got:
            self.fault(at, "must be a mapping of payload path to matcher", shown(got, 60))
            return ()
        kept: list[tuple[Path, Matcher]] = []
        for text, spec in got.items():
            here = (*at, text)
            path = self.path(text, here, stars=True, at_key=True)
            matcher, faults = parse_matcher(spec, variables=self.has_bind)
            self.faults.extend(fault.under(*here) for fault in faults)
            if path is None:
                continue
            self.check_schema(path, here, types, at_key=True)
            if matcher is not None:
                kept.append((path, matcher))
                if text in IDENTITY_PATHS:
                    self.check_identity(text, matcher, here)
        return tuple(kept)

    def bind(
        self, got: Json, at: tuple[str | int, ...], types: frozenset[str] | None
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
                self.check_schema(path, (*at, name), types, at_key=False)
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

    def check_identity(self, name: str, matcher: Matcher, at: tuple[str | int, ...]) -> None:
        known = self.identities.get(name)
        if known is None:
            return
        for one in matcher.operations:
            values: list[Any] = []
            if one.name in ("equals", "not"):
                values = [one.argument]
            elif one.name == "in":
                values = list(one.argument)
            for value in values:
                if isinstance(value, str) and value not in known:
                    near = nearest(value, known)
                    self.fault(
                        at,
                        f"unknown {name}",
                        f"'{value}'",
                        f"declared: {', '.join(sorted(known)) or 'none'}",
                        f"write '{near}'" if near else None,
                        code="unknown_identity",
                    )

    def check_schema(
        self, path: Path, at: tuple[str | int, ...], types: frozenset[str] | None, *, at_key: bool
    ) -> None:
        """A path must exist in the payload schema of at least one of the pattern's types."""
        if not types:
            return
        problems: list[tuple[str, str | None]] = []
        for name in sorted(types):
            found = self.registry.event_types.find(name)
            if found is None:
                return  # custom.* and types that only a trace declares have no schema
            problem = _schema_problem(found.schema, path)
            if problem is None:
                return
            problems.append((f"{name} has {problem[0]}", problem[1]))
        near = next((fix for _, fix in problems if fix), None)
        self.fault(
            at,
            "unknown payload path",
            f"'{path}'",
            "; ".join(text for text, _ in problems),
            f"write '{near}'" if near else None,
            at_key=at_key,
            code="unknown_path",
        )

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
        for role in users:
            for pattern in role:
                for name in sorted(pattern.variables - set(bound)):
                    near = nearest(name, bound)
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
                if name not in used:
                    self.fault(
                        at,
                        "a variable is bound and not used",
                        f"'{name}'",
                        f"use '${name}' in {words}",
                        code="unused_variable",
                    )


def _has_bind(value: Any) -> bool:
    """Whether any pattern of a primitive has ``bind``; ``where`` holds data, not patterns."""
    if isinstance(value, Mapping):
        return "bind" in value or any(
            _has_bind(item) for key, item in value.items() if key != "where"
        )
    return isinstance(value, (list, tuple)) and any(_has_bind(item) for item in value)


def _schema_problem(schema: Any, path: Path) -> tuple[str, str | None] | None:
    """None when the path may exist, else ``(what is there, the nearest path)``."""
    done: list[str | int | None] = []
    for step in path.names:
        if not isinstance(schema, Mapping) or any(
            key in schema for key in ("anyOf", "oneOf", "allOf", "$ref", "if")
        ):
            return None
        kinds = schema.get("type")
        allowed = {kinds} if isinstance(kinds, str) else set(kinds or ())
        where = _joined(done) or "a payload"
        if isinstance(step, str):
            if allowed and "object" not in allowed:
                return f"no fields in {where}: it is {' or '.join(sorted(allowed))}", None
            fields = schema.get("properties")
            if not isinstance(fields, Mapping) or (not fields and done):
                return None
            if step not in fields:
                more = schema.get("additionalProperties", False)
                if more is True or isinstance(more, Mapping):
                    schema = more if isinstance(more, Mapping) else {}
                    done.append(step)
                    continue
                near = nearest(step, fields)
                known = ", ".join(sorted(fields)) or "nothing"
                fix = _joined([*done, near, *path.names[len(done) + 1 :]]) if near else None
                return f"{known} in {where}", fix
            schema = fields[step]
        else:
            if allowed and "array" not in allowed:
                return f"no elements in {where}: it is {' or '.join(sorted(allowed))}", None
            items = schema.get("items")
            if not isinstance(items, Mapping):
                return None
            schema = items
        done.append(step)
    return None


def _joined(steps: Sequence[str | int | None]) -> str:
    out = ""
    for step in steps:
        if step is None:
            out += "[*]"
        elif isinstance(step, int):
            out += f"[{step}]"
        elif re.match(r"[^.\[\]]+\Z", step):
            out += f".{step}" if out else step
        else:
            out += f'["{step}"]'
    return out
