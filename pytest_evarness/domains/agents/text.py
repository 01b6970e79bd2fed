"""How values become text, how text is measured, cut and digested.

Events are given whole texts: the kernel masks secrets in them and cuts them, in this order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.c1 import sha256_text
from pytest_evarness.core.c1 import text as c1_text

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json

__all__ = [
    "compact",
    "cut_to_tokens",
    "digest_of_text",
    "digest_of_value",
    "forwarded",
    "joined",
    "plain",
    "text_of",
]

_CHARACTERS_PER_TOKEN = 4


def compact(value: object) -> str:
    """JSON on one line with sorted keys and no spaces, other scripts readable."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def text_of(value: object) -> str:
    """A text as it is, a mapping's ``text`` or ``prompt``, else compact JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        for key in ("text", "prompt"):
            inner = value.get(key)
            if isinstance(inner, str):
                return inner
    return compact(value)


def joined(values: Sequence[Any]) -> str:
    """What arrived at one port as one text: each value's text on lines of its own."""
    return "\n".join(text_of(value) for value in values)


def forwarded(values: Sequence[Any]) -> Any:
    """What arrived at one port, to be handed on: a single value as it is, several as a list."""
    return values[0] if len(values) == 1 else list(values)


def cut_to_tokens(text: str, limit: int) -> str:
    """The longest beginning of ``text`` that counts as at most ``limit`` tokens; empty for 0."""
    if limit <= 0:
        return ""
    return text[: limit * _CHARACTERS_PER_TOKEN + _CHARACTERS_PER_TOKEN - 1]


def digest_of_text(text: str) -> str:
    """``sha256:`` and the hex of the whole text in UTF-8."""
    return sha256_text(text)


def digest_of_value(value: Json) -> str:
    """``sha256:`` and the hex of the value's c1 text, so that key order does not matter.

    Raises:
        DeterminismError: A value that no event may hold.
    """
    return sha256_text(c1_text(value))


def plain(value: Any) -> Any:
    """A deep copy in JSON's own types: a float that remembers its spelling becomes a float."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(inner) for inner in value]
    if isinstance(value, float):
        return float(value)
    return value
