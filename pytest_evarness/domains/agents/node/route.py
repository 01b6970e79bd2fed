"""Chooses a route by keywords."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from pytest_evarness.core.interfaces import NodeBlocked, RunPaused
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.text import joined
from pytest_evarness.source.model import Strict

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context

__all__ = ["INTENT_ROUTER", "has_word"]


class _Route(Strict):
    route: Annotated[str, Field(min_length=1)]
    keywords: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


class _IntentRouter(Strict):
    rules: list[_Route] = Field(default_factory=list)
    fallback: Literal["reject", "human_review", "generic_llm"] = "reject"
    match: Literal["word", "substring"] = "word"


def has_word(text: str, keyword: str) -> bool:
    """True when ``keyword`` stands in ``text`` as a word, without regard to case.

    An end of the keyword that is a letter or digit must not touch another one, so a sign such as
    ``?`` matches anywhere. An empty keyword stands nowhere.
    """
    if not keyword:
        return False
    text, keyword = text.casefold(), keyword.casefold()
    start = text.find(keyword)
    while start >= 0:
        end = start + len(keyword)
        before = start > 0 and _joins(text[start - 1]) and _joins(keyword[0])
        after = end < len(text) and _joins(text[end]) and _joins(keyword[-1])
        if not (before or after):
            return True
        start = text.find(keyword, start + 1)
    return False


def _joins(char: str) -> bool:
    # A combining accent belongs to the letter before it.
    return char.isalnum() or unicodedata.combining(char) != 0


def _intent_router(inputs: Mapping[str, list[Any]], config: _IntentRouter, context: Context) -> str:
    text = joined(inputs.get("in", []))
    folded = text.casefold()
    for rule in config.rules:
        for keyword in rule.keywords:
            found = (
                has_word(text, keyword) if config.match == "word" else keyword.casefold() in folded
            )
            if found:
                context.emit("intent_routed", {"route": rule.route, "matched": keyword})
                return text
    context.emit("intent_routed", {"route": config.fallback, "matched": None})
    if config.fallback == "reject":
        raise NodeBlocked("intent_router: no route matches the request")
    if config.fallback == "human_review":
        raise RunPaused("No route matches the request. What is to be done with it?", text)
    return text


INTENT_ROUTER = declare(
    "intent_router",
    "Chooses a route by keywords, or stops a request that has none.",
    _IntentRouter,
    _intent_router,
    inputs={"in": "text"},
    output="text",
    emits=("intent_routed",),
)
