"""The keys of ``environment`` that this domain understands, as models and as kernel parts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    TypeAdapter,
    field_validator,
    model_validator,
)

from pytest_evarness.core.interfaces import EnvironmentKey
from pytest_evarness.core.outcome import Severity
from pytest_evarness.domains.agents.effect import template_faults
from pytest_evarness.domains.agents.text import plain
from pytest_evarness.errors import Fault
from pytest_evarness.source.model import Absent, Strict, parse_model, refuse, unknown_key
from pytest_evarness.source.quote import quoted, shown
from pytest_evarness.world.effect import EffectEntry  # noqa: TC001 - the type of a field
from pytest_evarness.world.fault import LLM_FAULTS, SERVICE_FAULTS, TOOL_FAULTS

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject

__all__ = [
    "VIAS",
    "absent_faults",
    "environment_keys",
    "parse_llm_rules",
    "parse_tool_rules",
    "provider_fault",
]

VIAS = ("user_turn", "tool_result", "document", "memory")
"""Where an attack's marker is injected."""

_PROVIDER = re.compile(r"sim:[^\s:]+\Z")

_ABSENT_KEYS = {
    "react": "the loop node that reads it",
    "episodic": "the memory nodes that read it",
    "facts": "the memory nodes that read it",
    "instructions": "the memory nodes that read it",
    "tiers": "the tier router that reads it",
}
_ABSENT_IN_RULE = {"tests": "a manifest carries no corpus yet"}


def absent_faults(
    value: object, absent: Mapping[str, str], path: tuple[str | int, ...] = ()
) -> tuple[dict[str, Any], list[Fault]]:
    """Split a mapping into what may be read further and faults for keys that come later."""
    assert isinstance(value, Mapping)
    faults = [
        Fault(
            (*path, key),
            f"{quoted(key)} is not in this version ({absent[key]})",
            at_key=True,
            code="not_in_this_version",
        )
        for key in value
        if key in absent
    ]
    return {key: inner for key, inner in value.items() if key not in absent}, faults


def provider_fault(name: object) -> Fault | None:
    """Why ``name`` is no provider that a run can have, or None. Runs are simulated, all of them."""
    if isinstance(name, str) and _PROVIDER.match(name):
        return None
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", str(name)).strip("-") or "helpful-v1"
    return Fault(
        (),
        f"the provider {quoted(str(name))} cannot be called: runs are simulated",
        rule="sim:NAME",
        fix=f"write 'sim:{word}' and script its answers under 'environment.llm'",
        code="provider",
    )


# -- rules of scripts --------------------------------------------------------------------------


class _Match(Strict):
    contains: Absent[Annotated[str, Field(min_length=1)]] = None
    pattern: Absent[Annotated[str, Field(min_length=1)]] = None
    equals: Absent[str] = None
    query_contains: Absent[Annotated[str, Field(min_length=1)]] = None
    turn: Absent[Annotated[int, Field(ge=1)]] = None
    provider: Absent[str] = None
    params: Absent[Annotated[dict[str, Any], Field(min_length=1)]] = None

    @model_validator(mode="after")
    def _asks(self) -> _Match:
        if not self.model_fields_set:
            raise refuse("asks nothing", rule="a rule without 'match' answers every call")
        return self

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        import regex

        from pytest_evarness.domains.agents.script import compile_pattern

        try:
            compile_pattern(value)
        except regex.error as error:
            raise refuse("is no regular expression", rule=str(error)) from None
        return value

    @field_validator("provider")
    @classmethod
    def _simulated(cls, value: str) -> str:
        fault = provider_fault(value)
        if fault is not None:
            raise refuse(fault.problem, rule=fault.rule, fix=fault.fix)
        return value


class _ToolCall(Strict):
    tool: Annotated[str, Field(min_length=1)]
    args: dict[str, Any] = Field(default_factory=dict)


class _Respond(Strict):
    text: Absent[str] = None
    tool_call: Absent[_ToolCall] = None
    error: Absent[str] = None

    @model_validator(mode="after")
    def _one(self) -> _Respond:
        if len(self.model_fields_set) != 1:
            raise refuse("must hold exactly one answer", rule="text, tool_call or error")
        return self


def _check_times(value: object) -> object:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not is_count and value != "any":
        raise refuse("must be how often it is used", rule="1 or more, or any")
    return value


_Times = Annotated[int | Literal["any"], BeforeValidator(_check_times)]


class _LlmRule(Strict):
    match: Absent[_Match] = None
    respond: Absent[_Respond] = None
    raise_: Absent[str] = Field(default=None, alias="raise")
    times: Absent[_Times] = None

    @model_validator(mode="after")
    def _one(self) -> _LlmRule:
        if len({"respond", "raise_"} & self.model_fields_set) != 1:
            raise refuse("must hold exactly one answer", rule="respond or raise")
        return self


class _ToolRule(Strict):
    match: Absent[_Match] = None
    result: Any = None
    raise_: Absent[str] = Field(default=None, alias="raise")
    effects: Absent[list[EffectEntry]] = None
    times: Absent[_Times] = None

    @model_validator(mode="after")
    def _one(self) -> _ToolRule:
        if len({"result", "raise_"} & self.model_fields_set) != 1:
            raise refuse("must hold exactly one answer", rule="result or raise")
        if "result" in self.model_fields_set and self.result is None:
            raise refuse("answers null", rule="'result: []' is an answer without documents")
        return self


def parse_llm_rules(value: Json) -> tuple[Json, list[Fault]]:
    """The rules of ``llm``, as they were written."""
    return _rules(_LlmRule, value)


_Score = Annotated[float, Field(ge=0, le=1)]
_Scores = Annotated[dict[Annotated[str, Field(min_length=1)], _Score], Field(min_length=1)]


class _Said(Strict):
    text: str


class _JudgeRule(Strict):
    match: Absent[_Match] = None
    scores: Absent[_Scores] = None
    respond: Absent[_Said] = None
    times: Absent[_Times] = None

    @model_validator(mode="after")
    def _one(self) -> _JudgeRule:
        if len({"scores", "respond"} & self.model_fields_set) != 1:
            raise refuse("must hold exactly one answer", rule="scores, or respond: {text}")
        return self


def _parse_judge_rules(value: Json) -> tuple[Json, list[Fault]]:
    return _rules(_JudgeRule, value)


class _DefaultScores(Strict):
    scores: dict[Annotated[str, Field(min_length=1)], _Score]


def _parse_default_scores(value: Json) -> tuple[Json, list[Fault]]:
    faults = parse_model(_DefaultScores, {"scores": value})[1]
    own = [replace(fault, path=fault.path[1:]) for fault in faults]
    return plain(value), own


def parse_tool_rules(value: Json) -> tuple[Json, list[Fault]]:
    """The rules of one tool, as they were written."""
    return _rules(_ToolRule, value)


def _rules(model: type[BaseModel], value: Json) -> tuple[Json, list[Fault]]:
    if not isinstance(value, list):
        return None, [Fault((), "must be a list", got=shown(value), rule="of rules")]
    faults: list[Fault] = []
    for index, rule in enumerate(value):
        if isinstance(rule, Mapping):
            rule, absent = absent_faults(rule, _ABSENT_IN_RULE)
            faults += (fault.under(index) for fault in absent)
        found = parse_model(model, rule)[1]
        faults += (fault.under(index) for fault in found)
        if not found and isinstance(rule, Mapping):
            templates = template_faults(rule.get("effects"))
            faults += (fault.under(index, "effects") for fault in templates)
        if isinstance(rule, Mapping) and isinstance(rule.get("result"), list):
            for number, entry in enumerate(rule["result"]):
                found = document_faults(entry) if isinstance(entry, Mapping) else []
                faults += (fault.under(index, "result", number) for fault in found)
    return plain(value), faults


DOCUMENT_KEYS = ("body", "id", "score_hint", "snippet", "source", "subject", "text", "title")
"""Keys of a document that nodes read, or that the published fixtures have."""


def document_faults(entry: Mapping[str, Any]) -> list[Fault]:
    """What cannot be meant in an entry of a list that a tool answers.

    Rows have keys of their own, so only a key that nearly is one of a document's is refused, and
    only where that one is missing. A result that is no list is free.
    """
    faults = []
    for key, value in entry.items():
        meant = _document_key(key, value, entry) if key not in DOCUMENT_KEYS else None
        if meant is not None:
            faults.append(
                Fault(
                    (key,),
                    "unknown key of a document",
                    got=quoted(key),
                    rule=f"known: {', '.join(DOCUMENT_KEYS)}; a result that is no list is free",
                    fix=f"write '{meant}'",
                    at_key=True,
                    code="unknown_key",
                )
            )
    hint = entry.get("score_hint", 0)
    if isinstance(hint, bool) or not isinstance(hint, int | float):
        faults.append(Fault(("score_hint",), "must be a number", got=shown(hint)))
    return faults


def _document_key(key: str, value: object, entry: Mapping[str, Any]) -> str | None:
    word = re.sub(r"[\W_]+", "", key.casefold())
    for known in DOCUMENT_KEYS:
        if known in entry:
            continue
        plain_word = known.replace("_", "")
        if word == f"{plain_word}s" and not isinstance(value, str):
            continue  # the many of a row: texts, sources
        is_near = word == plain_word or (
            len(plain_word) > 2 and difflib.SequenceMatcher(None, word, plain_word).ratio() > 0.85
        )
        if is_near:
            return known
    return None


def _parse_tools(value: Json) -> tuple[Json, list[Fault]]:
    if not isinstance(value, Mapping):
        return None, [
            Fault((), "must be a mapping", got=shown(value), rule="of tool ids to lists of rules")
        ]
    faults = [
        fault.under(tool) for tool, rules in value.items() for fault in parse_tool_rules(rules)[1]
    ]
    return plain(value), faults


def _parse_default_response(value: Json) -> tuple[Json, list[Fault]]:
    return plain(value), parse_model(_Respond, value)[1]


# -- approvals ---------------------------------------------------------------------------------


class _Decision(Strict):
    decision: Literal["approve", "reject"]
    approver: Absent[str] = None
    expires_ms: Absent[Annotated[int, Field(ge=0)]] = None
    revoke_before: Absent[str] = None

    @model_validator(mode="after")
    def _fits(self) -> _Decision:
        if self.decision == "reject":
            for name in ("expires_ms", "revoke_before"):
                if name in self.model_fields_set:
                    raise refuse(f"{quoted(name)} needs the decision 'approve'")
        return self


def _parse_approvals(value: Json) -> tuple[Json, list[Fault]]:
    if not isinstance(value, Mapping):
        return None, [
            Fault((), "must be a mapping", got=shown(value), rule="of gate ids to decisions")
        ]
    decisions: dict[str, Json] = {}
    faults: list[Fault] = []
    for node, decision in value.items():
        if isinstance(decision, Mapping):
            faults += (fault.under(node) for fault in parse_model(_Decision, decision)[1])
            decisions[node] = plain(decision)
        elif decision in ("approve", "reject"):
            decisions[node] = {"decision": decision}
        else:
            faults.append(
                Fault(
                    (node,),
                    "must be exactly 'approve' or 'reject', or a mapping with 'decision'",
                    got=shown(decision),
                    fix=_meant(decision),
                )
            )
    return decisions, faults


def _meant(decision: object) -> str | None:
    # Nothing is guessed at a run; a slip is only named here, where the file is read.
    word = str(decision).strip().lower()
    if word.startswith(("approv", "accept")) or word in ("yes", "y", "true", "on", "ok", "allow"):
        return "write 'approve'"
    if word.startswith(("reject", "den", "refus")) or word in ("no", "n", "false", "off"):
        return "write 'reject'"
    return None


# -- memory, attacks, faults -------------------------------------------------------------------


class _Turn(Strict):
    role: Literal["user", "assistant", "system", "tool"]
    text: str


def _parse_memory(value: Json) -> tuple[Json, list[Fault]]:
    if not isinstance(value, list):
        return None, [Fault((), "must be a list", got=shown(value), rule="of {role, text}")]
    faults = [
        fault.under(index)
        for index, turn in enumerate(value)
        for fault in parse_model(_Turn, turn)[1]
    ]
    return plain(value), faults


class _Attack(Strict):
    kind: Absent[Annotated[str, Field(min_length=1)]] = None
    type: Absent[Annotated[str, Field(min_length=1)]] = None
    via: Literal["user_turn", "tool_result", "document", "memory"] = "user_turn"
    marker: Absent[Annotated[str, Field(min_length=1)]] = None
    severity: Literal["info", "minor", "major", "critical"] = "major"
    expect: Annotated[dict[str, bool | str], Field(min_length=1, default_factory=dict)]

    @field_validator("expect")
    @classmethod
    def _words(cls, value: dict[str, bool | str]) -> dict[str, bool | str]:
        for key, wanted in value.items():
            if isinstance(wanted, str) != (key == "blocked_before"):
                rule = "blocked_before: NODE TYPE, EVENT TYPE: true or false"
                raise refuse(f"{quoted(key)} has the wrong kind of value", rule=rule)
        return value

    @model_validator(mode="after")
    def _named(self) -> _Attack:
        if (self.kind is None) == (self.type is None):
            raise refuse("must be named once", rule="kind, or type")
        if self.marker is None and not self.expect:
            raise refuse("does nothing", rule="a marker, an expect, or both")
        return self


def _parse_attacks(value: Json) -> tuple[Json, list[Fault]]:
    if not isinstance(value, list):
        return None, [Fault((), "must be a list", got=shown(value), rule="of attacks")]
    attacks: list[Json] = []
    faults: list[Fault] = []
    for index, written in enumerate(value):
        attack, found = parse_model(_Attack, written)
        faults += (fault.under(index) for fault in found)
        if attack is not None:
            attacks.append(
                {
                    "kind": attack.kind or attack.type,
                    "via": attack.via,
                    "marker": attack.marker,
                    "severity": str(Severity(attack.severity).value),
                    "expect": dict(attack.expect),
                }
            )
    return attacks, faults


class _First(Strict):
    first: Annotated[int, Field(ge=1)]


class _Rate(Strict):
    rate: Annotated[float, Field(ge=0, le=1)]


def _when_faults(value: object) -> list[Fault]:
    if value == "always":
        return []
    if isinstance(value, Mapping) and len(value) == 1:
        model: type[Strict] = _First if "first" in value else _Rate
        if "first" in value or "rate" in value:
            return parse_model(model, value)[1]
    rule = "always, {first: n} or {rate: x}"
    fix = "write 'always'" if value is True else None
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        fix = f"write '{{first: {value}}}'"
    return [Fault((), "says when in another form", got=shown(value), rule=rule, fix=fix)]


def _target_faults(value: object, names: tuple[str, ...], *, has_delay: bool) -> list[Fault]:
    known = [*names, "delay_ms"] if has_delay else list(names)
    if not isinstance(value, Mapping):
        return [Fault((), "must be a mapping", got=shown(value), rule=f"keys: {', '.join(known)}")]
    faults: list[Fault] = []
    for key, inner in value.items():
        if key in names:
            faults += (fault.under(key) for fault in _when_faults(inner))
        elif key == "delay_ms" and has_delay:
            if isinstance(inner, bool) or not isinstance(inner, int) or inner < 0:
                rule = "an integer, 0 or more"
                faults.append(
                    Fault((key,), "must be simulated milliseconds", got=shown(inner), rule=rule)
                )
        else:
            faults.append(unknown_key((), key, known))
    return faults


def _parse_faults(value: Json) -> tuple[Json, list[Fault]]:
    if not isinstance(value, Mapping):
        return None, [Fault((), "must be a mapping", got=shown(value))]
    faults: list[Fault] = []
    for key, inner in value.items():
        found: list[Fault] = []
        if key == "tool_error_rate":
            found = parse_model(_Rate, {"rate": inner})[1]
            found = [Fault((), fault.problem, fault.got, fault.rule, fault.fix) for fault in found]
        elif key == "blocklist":
            found = _names_faults(inner, "terms")
        elif key == "judge_timeout":
            found = _names_faults(inner, "judges")
        elif key == "llm":
            found = _target_faults(inner, LLM_FAULTS, has_delay=False)
        else:
            # Whether the name is a tool's or a service's is known when the case is put together.
            found = _target_faults(inner, (*TOOL_FAULTS, *SERVICE_FAULTS), has_delay=True)
        faults += (fault.under(key) for fault in found)
    return plain(value), faults


def _names_faults(value: object, what: str) -> list[Fault]:
    if not isinstance(value, list):
        return [Fault((), "must be a list", got=shown(value), rule=f"of {what}")]
    return [
        Fault((index,), "must be a text that is not blank", got=shown(term))
        for index, term in enumerate(value)
        if not isinstance(term, str) or not term.strip()
    ]


# -- the kernel's view -------------------------------------------------------------------------


def _later(name: str, reader: str) -> Callable[[Json], tuple[Json, list[Fault]]]:
    def parse(value: Json) -> tuple[Json, list[Fault]]:
        problem = f"{quoted(name)} is not in this version ({reader} comes later)"
        return None, [Fault((), problem, at_key=True, code="not_in_this_version")]

    return parse


def _schema_of(model: Any) -> JsonObject:
    schema: dict[str, Any] = TypeAdapter(model).json_schema(by_alias=True)
    return schema


def _when_schema() -> dict[str, Any]:
    return {"anyOf": [{"const": "always"}, _First.model_json_schema(), _Rate.model_json_schema()]}


def _names_schema() -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "pattern": "\\S"}}


def _target_schema(names: tuple[str, ...], *, has_delay: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {name: _when_schema() for name in names}
    if has_delay:
        properties["delay_ms"] = {"type": "integer", "minimum": 0}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def environment_keys() -> tuple[EnvironmentKey, ...]:
    """Every key, also those that are refused until a node reads them."""
    decision = {"anyOf": [{"enum": ["approve", "reject"]}, _schema_of(_Decision)]}
    keys = [
        EnvironmentKey(
            "approvals",
            "A person's decision for each approval gate; a gate without one pauses the run.",
            _parse_approvals,
            {"type": "object", "additionalProperties": decision},
        ),
        EnvironmentKey(
            "llm", "What the simulated model answers.", parse_llm_rules, _schema_of(list[_LlmRule])
        ),
        EnvironmentKey(
            "default_response",
            "What the simulated model answers where no rule is left.",
            _parse_default_response,
            _schema_of(_Respond),
        ),
        EnvironmentKey(
            "tools",
            "What each simulated tool answers.",
            _parse_tools,
            _schema_of(dict[str, list[_ToolRule]]),
        ),
        EnvironmentKey(
            "judge",
            "What scripted judges answer.",
            _parse_judge_rules,
            _schema_of(list[_JudgeRule]),
        ),
        EnvironmentKey(
            "default_judge_scores",
            "What scripted judges answer where no rule is left, by dimension.",
            _parse_default_scores,
            _schema_of(dict[str, _Score]),
        ),
        EnvironmentKey(
            "memory", "Earlier turns, oldest first.", _parse_memory, _schema_of(list[_Turn])
        ),
        EnvironmentKey(
            "attacks",
            "Injected markers and what must follow.",
            _parse_attacks,
            _schema_of(list[_Attack]),
        ),
        EnvironmentKey(
            "faults",
            "Injected faults of tools, services, the model and judges; the policy's blocklist.",
            _parse_faults,
            {
                "type": "object",
                "properties": {
                    "tool_error_rate": {"type": "number", "minimum": 0, "maximum": 1},
                    "blocklist": _names_schema(),
                    "judge_timeout": _names_schema(),
                    "llm": _target_schema(LLM_FAULTS, has_delay=False),
                },
                "additionalProperties": _target_schema(
                    (*TOOL_FAULTS, *SERVICE_FAULTS), has_delay=True
                ),
            },
        ),
    ]
    keys += (
        EnvironmentKey(name, "Not in this version.", _later(name, reader), {"not": {}})
        for name, reader in _ABSENT_KEYS.items()
    )
    return tuple(keys)
