"""The keys of ``environment`` that more than one family of nodes reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, WithJsonSchema, model_validator

from pytest_evarness.core.interfaces import EnvironmentKey
from pytest_evarness.core.outcome import Severity
from pytest_evarness.domains.agents.environment.rule import (
    Match,
    Respond,
    Times,
    parse_rules,
    schema_of,
)
from pytest_evarness.domains.agents.score import kept
from pytest_evarness.domains.agents.text import plain
from pytest_evarness.errors import Fault
from pytest_evarness.source.model import Absent, Strict, parse_model, refuse, unknown_key
from pytest_evarness.source.quote import nearest, quoted, shown
from pytest_evarness.world.effect import EffectEntry  # noqa: TC001 - the type of a field
from pytest_evarness.world.fault import LLM_FAULTS, SERVICE_FAULTS, TOOL_FAULTS

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json

__all__ = ["VIAS", "base_keys", "parse_llm_rules", "parse_tool_rules"]

VIAS = ("user_turn", "tool_result", "document", "memory")
"""Where an attack's marker is injected."""


class _LlmRule(Strict):
    match: Absent[Match] = None
    respond: Absent[Respond] = None
    raise_: Absent[str] = Field(default=None, alias="raise")
    times: Absent[Times] = None

    @model_validator(mode="after")
    def _one(self) -> _LlmRule:
        if len({"respond", "raise_"} & self.model_fields_set) != 1:
            raise refuse("must hold exactly one answer", rule="respond or raise")
        return self


class _ToolRule(Strict):
    match: Absent[Match] = None
    result: Any = None
    raise_: Absent[str] = Field(default=None, alias="raise")
    effects: Absent[list[EffectEntry]] = None
    times: Absent[Times] = None

    @model_validator(mode="after")
    def _one(self) -> _ToolRule:
        if len({"result", "raise_"} & self.model_fields_set) != 1:
            raise refuse("must hold exactly one answer", rule="result or raise")
        if "result" in self.model_fields_set and self.result is None:
            raise refuse("answers null", rule="'result: []' is an answer without documents")
        return self


def parse_llm_rules(value: Json) -> tuple[Json, list[Fault]]:
    """The rules of ``llm``, as they were written."""
    return parse_rules(_LlmRule, value)


_Score = Annotated[float, Field(ge=0, le=1), kept()]
_Scores = Annotated[dict[Annotated[str, Field(min_length=1)], _Score], Field(min_length=1)]


class _Said(Strict):
    text: str


class _JudgeMatch(Match):
    judge: Absent[Annotated[str, Field(min_length=1)]] = None


class _JudgeRule(Strict):
    match: Absent[_JudgeMatch] = None
    scores: Absent[_Scores] = None
    respond: Absent[_Said] = None
    times: Absent[Times] = None

    @model_validator(mode="after")
    def _one(self) -> _JudgeRule:
        if len({"scores", "respond"} & self.model_fields_set) != 1:
            raise refuse("must hold exactly one answer", rule="scores, or respond: {text}")
        return self


def _parse_judge_rules(value: Json) -> tuple[Json, list[Fault]]:
    return parse_rules(_JudgeRule, value)


class _DefaultScores(Strict):
    scores: dict[Annotated[str, Field(min_length=1)], _Score]


def _parse_default_scores(value: Json) -> tuple[Json, list[Fault]]:
    faults = parse_model(_DefaultScores, {"scores": value})[1]
    own = [replace(fault, path=fault.path[1:]) for fault in faults]
    return plain(value), own


def parse_tool_rules(value: Json) -> tuple[Json, list[Fault]]:
    """The rules of one tool, as they were written."""
    return parse_rules(_ToolRule, value)


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
    return plain(value), parse_model(Respond, value)[1]


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
    near = nearest(word, ("approve", "reject"))
    return f"write '{near}'" if near else None


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
    marker: Absent[Annotated[str, Field(min_length=1, pattern=r"\S")]] = None
    severity: Literal["info", "minor", "major", "critical"] = "major"
    expect: Annotated[
        dict[str, Any],
        Field(min_length=1, default_factory=dict),
        WithJsonSchema(
            {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"type": ["boolean", "string"]},
            }
        ),
    ]

    @model_validator(mode="after")
    def _named(self) -> _Attack:
        if (self.kind is None) == (self.type is None):
            raise refuse("must be named once", rule="kind, or type")
        if self.marker is None and not self.expect:
            raise refuse("does nothing", rule="a marker, an expect, or both")
        return self


def _expect_faults(expect: Mapping[str, Any]) -> list[Fault]:
    """Values that do not say what is to follow, each at its own key."""
    faults = []
    for key, wanted in expect.items():
        if key == "blocked_before":
            if not isinstance(wanted, str):
                rule = "such as tool: no node of that type may start then"
                problem = "must be the type of a node"
                faults.append(Fault((key,), problem, got=shown(wanted), rule=rule))
        elif not isinstance(wanted, bool):
            rule = f"true: {key} has to occur; false: it must never occur"
            faults.append(Fault((key,), "must be true or false", got=shown(wanted), rule=rule))
    return faults


def _parse_attacks(value: Json) -> tuple[Json, list[Fault]]:
    if not isinstance(value, list):
        return None, [Fault((), "must be a list", got=shown(value), rule="of attacks")]
    attacks: list[Json] = []
    faults: list[Fault] = []
    for index, written in enumerate(value):
        attack, found = parse_model(_Attack, written)
        faults += (fault.under(index) for fault in found)
        wrong = [] if attack is None else _expect_faults(attack.expect)
        faults += (fault.under(index, "expect") for fault in wrong)
        if attack is not None and not wrong:
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


def _when_schema() -> dict[str, Any]:
    return {"anyOf": [{"const": "always"}, _First.model_json_schema(), _Rate.model_json_schema()]}


def _names_schema() -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "pattern": "\\S"}}


def _target_schema(names: tuple[str, ...], *, has_delay: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {name: _when_schema() for name in names}
    if has_delay:
        properties["delay_ms"] = {"type": "integer", "minimum": 0}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def base_keys() -> tuple[EnvironmentKey, ...]:
    """Every key of this module."""
    decision = {"anyOf": [{"enum": ["approve", "reject"]}, schema_of(_Decision)]}
    return (
        EnvironmentKey(
            "approvals",
            "A person's decision for each approval gate; a gate without one pauses the run.",
            _parse_approvals,
            {"type": "object", "additionalProperties": decision},
        ),
        EnvironmentKey(
            "llm", "What the simulated model answers.", parse_llm_rules, schema_of(list[_LlmRule])
        ),
        EnvironmentKey(
            "default_response",
            "What the simulated model answers where no rule is left.",
            _parse_default_response,
            schema_of(Respond),
        ),
        EnvironmentKey(
            "tools",
            "What each simulated tool answers.",
            _parse_tools,
            schema_of(dict[str, list[_ToolRule]]),
        ),
        EnvironmentKey(
            "judge",
            "What scripted judges answer.",
            _parse_judge_rules,
            schema_of(list[_JudgeRule]),
        ),
        EnvironmentKey(
            "default_judge_scores",
            "What scripted judges answer where no rule is left, by dimension.",
            _parse_default_scores,
            schema_of(dict[str, _Score]),
        ),
        EnvironmentKey(
            "memory", "Earlier turns, oldest first.", _parse_memory, schema_of(list[_Turn])
        ),
        EnvironmentKey(
            "attacks",
            "Injected markers and what must follow.",
            _parse_attacks,
            schema_of(list[_Attack]),
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
    )
