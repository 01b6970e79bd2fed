"""Rules of scripts, which every sort of script shares: what one matches, answers, how often."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    TypeAdapter,
    field_validator,
    model_validator,
)

from pytest_evarness.domains.agents.effect import template_faults
from pytest_evarness.domains.agents.text import compact, plain
from pytest_evarness.errors import Fault
from pytest_evarness.source.model import Absent, Strict, parse_model, refuse
from pytest_evarness.source.quote import quoted, shown

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject

__all__ = [
    "DOCUMENT_KEYS",
    "Match",
    "Respond",
    "Times",
    "ToolCall",
    "document_faults",
    "parse_rules",
    "provider_fault",
    "schema_of",
]

_PROVIDER = re.compile(r"sim:[^\s:]+\Z")


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


class Match(Strict):
    """What a rule asks of a call; all of it must hold."""

    contains: Absent[Annotated[str, Field(min_length=1)]] = None
    pattern: Absent[Annotated[str, Field(min_length=1)]] = None
    equals: Absent[str] = None
    query_contains: Absent[Annotated[str, Field(min_length=1)]] = None
    turn: Absent[Annotated[int, Field(ge=1)]] = None
    provider: Absent[str] = None
    params: Absent[Annotated[dict[str, Any], Field(min_length=1)]] = None

    @model_validator(mode="after")
    def _asks(self) -> Match:
        if not self.model_fields_set:
            raise refuse("asks nothing", rule="a rule without 'match' answers every call")
        return self

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        import regex

        from pytest_evarness.core.expression import size_problem
        from pytest_evarness.domains.agents.script import compile_pattern

        large = size_problem(value)
        if large is not None:
            raise refuse(large[0], rule=large[1])
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


class ToolCall(Strict):
    """A call that a scripted model asks for."""

    tool: Annotated[str, Field(min_length=1)]
    args: dict[str, Any] = Field(default_factory=dict)


class Respond(Strict):
    """What a scripted model answers: exactly one of the first three."""

    text: Absent[str] = None
    tool_call: Absent[ToolCall] = None
    error: Absent[str] = None
    cost_usd: Absent[Annotated[float, Field(ge=0, le=1_000_000)]] = None
    latency_ms: Absent[Annotated[int, Field(ge=0, le=86_400_000)]] = None

    @model_validator(mode="after")
    def _one(self) -> Respond:
        if len({"text", "tool_call", "error"} & self.model_fields_set) != 1:
            raise refuse("must hold exactly one answer", rule="text, tool_call or error")
        return self


def _check_times(value: object) -> object:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not is_count and value != "any":
        raise refuse("must be how often it is used", rule="1 or more, or any")
    return value


Times = Annotated[int | Literal["any"], BeforeValidator(_check_times)]


def parse_rules(model: type[BaseModel], value: Json) -> tuple[Json, list[Fault]]:
    """A list of rules of one model, as they were written."""
    if not isinstance(value, list):
        return None, [Fault((), "must be a list", got=shown(value), rule="of rules")]
    faults: list[Fault] = []
    for index, rule in enumerate(value):
        found = parse_model(model, rule)[1]
        faults += (fault.under(index) for fault in found)
        if not found and isinstance(rule, Mapping):
            templates = template_faults(rule.get("effects"))
            faults += (fault.under(index, "effects") for fault in templates)
        if isinstance(rule, Mapping) and isinstance(rule.get("result"), list):
            for number, entry in enumerate(rule["result"]):
                found = document_faults(entry) if isinstance(entry, Mapping) else []
                faults += (fault.under(index, "result", number) for fault in found)
            faults += (fault.under(index, "result") for fault in _twice(rule["result"]))
    return plain(value), faults


def _twice(entries: Sequence[Any]) -> Iterator[Fault]:
    """Ids that an answer gives to two documents: nobody could tell which of them is cited.

    Rows without a text of their own are no documents, and may say what they like.
    """
    seen: dict[str, int] = {}
    for number, entry in enumerate(entries):
        if not isinstance(entry, Mapping) or "id" not in entry or _TEXTS.isdisjoint(entry):
            continue
        own = entry["id"]
        name = own if isinstance(own, str) else compact(own)
        if name in seen:
            problem = f"two documents of one answer have the id (the first is entry {seen[name]})"
            yield Fault((number, "id"), problem, got=shown(own), fix="give each an id of its own")
        seen.setdefault(name, number)


_TEXTS = frozenset({"text", "snippet", "body"})

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


def schema_of(model: Any) -> JsonObject:
    """The JSON Schema of a type that pydantic can read."""
    schema: dict[str, Any] = TypeAdapter(model).json_schema(by_alias=True)
    return schema
