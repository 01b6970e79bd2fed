"""What a statement encloses, found by its digest, and whether parts that are not here made it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_evarness.core.registry import Registry

__all__ = ["definition_texts", "definitions_of", "is_foreign", "texts_of"]


def definition_texts(seal: Mapping[str, Any]) -> dict[str, str]:
    """Sealed texts by their digest."""
    return {row["digest"]: row["text"] for row in seal["definitions"]}


def definitions_of(seal: Mapping[str, Any]) -> dict[str, Any]:
    """Sealed definitions by their digest, each a mapping."""
    return {digest: json.loads(text) for digest, text in definition_texts(seal).items()}


def texts_of(predicate: Mapping[str, Any]) -> dict[str, str]:
    """Graphs, overlays and the like as text, by their digest."""
    return {row["digest"]: row["text"] for row in predicate["texts"]}


def is_foreign(seal: Mapping[str, Any], registry: Registry) -> bool:
    """Whether a plug-in was there that is not here: what it added cannot be made again."""
    return not {row["name"] for row in seal["plugins"]} <= set(registry.sources)
