"""Rules that look at a text on its way: redaction, policy, validation, audit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.core.vocabulary import approximate_tokens
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import digest_of_text, joined
from pytest_evarness.source.model import Strict

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.core.json import JsonObject

__all__ = ["CHAIN_RULES", "INTERCEPTOR", "VALIDATING_RULE", "scrub"]

# Each expression starts only where no earlier character could belong to the same match, so a
# long text costs one pass. Longer forms first: a card number holds what looks like a phone number.
_PERSONAL: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "email",
        re.compile(
            r"(?<![\w.%+-])[\w.%+-]{1,64}"
            r"@(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,8}[A-Za-z]{2,24}\b"
        ),
    ),
    ("credit_card", re.compile(r"(?<![\d-])\d(?:[ -]?\d){12,15}(?![ -]?\d)")),
    ("ssn", re.compile(r"(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])")),
    (
        "phone",
        re.compile(
            r"(?<![\w+])(?:\+\d{8,15}"
            r"|(?:\+?\d{1,3}[ .-])?(?:\(\d{3}\)[ ]?|\d{3}[ .-])\d{3}[ .-]\d{4})(?!\d)"
        ),
    ),
)


def scrub(text: str) -> tuple[str, dict[str, int]]:
    """Replace personal data by its kind in brackets; how often each kind was met."""
    counts: dict[str, int] = {}
    for name, pattern in _PERSONAL:
        text, count = pattern.subn(f"[{name.upper()}]", text)
        if count:
            counts[name] = count
    return text, counts


def _pii_scrub(text: str, context: Context) -> str:
    text, counts = scrub(text)
    count = sum(counts.values())
    context.emit("interceptor_applied", {"rule": "pii_scrub", "count": count})
    if count:
        context.emit("redaction_applied", {"count": count, "rules_hit": sorted(counts)})
    return text


def _policy_check(text: str, context: Context) -> str:
    folded = text.casefold()
    term = next((term for term in state_of(context).blocklist() if term.casefold() in folded), None)
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
}
VALIDATING_RULE = "schema_validate"


_Rule = Literal["pii_scrub", "policy_check", "schema_validate", "audit_tap"]


def _default_chain() -> list[_Rule]:
    return ["pii_scrub", "policy_check"]


class _Interceptor(Strict):
    chain: Annotated[list[_Rule], Field(min_length=1)] = Field(default_factory=_default_chain)


def _interceptor(inputs: Mapping[str, list[Any]], config: _Interceptor, context: Context) -> str:
    text = joined(inputs.get("in", []))
    for rule in config.chain:
        text = CHAIN_RULES[rule](text, context)
    return text


INTERCEPTOR = declare(
    "interceptor",
    "Applies a chain of rules to a text.",
    _Interceptor,
    _interceptor,
    inputs={"in": "text"},
    output="text",
    emits=("interceptor_applied", "redaction_applied"),
)
