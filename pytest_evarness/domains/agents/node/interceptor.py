"""Rules that look at a text on its way: redaction, policy, validation, audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.core.vocabulary import approximate_tokens
from pytest_evarness.domains.agents.extension import INTERCEPTOR_RULE
from pytest_evarness.domains.agents.node.citation import CITATION_CHECK, check_citations
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.node.policy import forbidden_term
from pytest_evarness.domains.agents.personal import redact, tell_redaction
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import digest_of_text, joined
from pytest_evarness.source.model import Strict

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.core.json import JsonObject

__all__ = ["CHAIN_RULES", "INTERCEPTOR", "VALIDATING_RULE"]


def _pii_scrub(text: str, context: Context) -> str:
    made = redact(text)
    context.emit("interceptor_applied", {"rule": "pii_scrub", "count": made.count})
    tell_redaction(made, context)
    return made.text


def _policy_check(text: str, context: Context) -> str:
    term = forbidden_term(text, state_of(context).blocklist())
    if term is None:
        context.emit("interceptor_applied", {"rule": "policy_check", "verdict": "allow"})
        return text
    context.emit("interceptor_applied", {"rule": "policy_check", "verdict": "deny", "term": term})
    raise NodeBlocked(f"policy_check: the text holds the forbidden term '{term}'")


def _schema_validate(text: str, context: Context) -> str:
    is_usable = bool(text.strip())
    context.emit("interceptor_applied", {"rule": "schema_validate", "ok": is_usable})
    if not is_usable:
        raise NodeBlocked("schema_validate: the text is blank")
    return text


def _audit_tap(text: str, context: Context) -> str:
    payload: JsonObject = {
        "rule": "audit_tap",
        "tokens": approximate_tokens(text),
        "digest": digest_of_text(text),
    }
    context.emit("interceptor_applied", payload)
    return text


CHAIN_RULES: Mapping[str, Callable[[str, Context], str]] = {
    "pii_scrub": _pii_scrub,
    "policy_check": _policy_check,
    "schema_validate": _schema_validate,
    "audit_tap": _audit_tap,
    CITATION_CHECK: check_citations,
}
VALIDATING_RULE = "schema_validate"


def _default_chain() -> list[str]:
    return ["pii_scrub", "policy_check"]


class _Interceptor(Strict):
    chain: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] = Field(
        default_factory=_default_chain
    )


def _interceptor(inputs: Mapping[str, list[Any]], config: _Interceptor, context: Context) -> str:
    text = joined(inputs.get("in", []))
    for rule in config.chain:
        packaged = CHAIN_RULES.get(rule)
        text = _added(rule, text, context) if packaged is None else packaged(text, context)
    return text


def _added(name: str, text: str, context: Context) -> str:
    """A rule of a plug-in: it changes a text or stops it, and what it did is told for it."""
    rule = state_of(context).extension(INTERCEPTOR_RULE, name)
    try:
        made = rule(text)
    except NodeBlocked:
        context.emit("interceptor_applied", {"rule": name, "verdict": "deny"})
        raise
    if not isinstance(made, str):
        raise TypeError(f"interceptor rule '{name}' must give a text (got {type(made).__name__})")
    payload: JsonObject = {"rule": name, "verdict": "allow", "changed": made != text}
    context.emit("interceptor_applied", payload)
    return made


INTERCEPTOR = declare(
    "interceptor",
    "Applies a chain of rules to a text.",
    _Interceptor,
    _interceptor,
    inputs={"in": "text"},
    output="text",
    emits=("citation_checked", "interceptor_applied", "redaction_applied"),
)
