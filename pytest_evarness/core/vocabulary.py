"""The event types of the kernel itself, and the rule for long texts in payloads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.event import EventType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = [
    "DIGEST",
    "KERNEL",
    "TEXT_BYTES",
    "approximate_tokens",
    "check_event",
    "clip",
    "clip_payload",
    "is_custom_type",
    "register_kernel",
]

KERNEL = "kernel"

TEXT_BYTES = 4096
"""How much of a text, in bytes of UTF-8, a payload holds."""

_CUSTOM = re.compile(r"custom\.[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\Z")


def is_custom_type(name: str) -> bool:
    """Whether ``name`` is ``custom.<name>``: a type of the user's own, with a free payload."""
    return _CUSTOM.match(name) is not None


def approximate_tokens(content: str) -> int:
    """A token count that needs no tokenizer: a quarter of the characters, at least 1."""
    return max(1, len(content) // 4)


# -- long texts ----------------------------------------------------------------------------------


def clip(content: str) -> tuple[str, bool]:
    """The first 4 KiB of a text at a character boundary, and whether anything was cut.

    Emission does this to every text of a payload, after secrets were replaced; call it only for
    texts that go elsewhere.
    """
    # A character takes at most 4 bytes, so most texts are decided without encoding them.
    if len(content) * 4 <= TEXT_BYTES:
        return content, False
    data = content.encode("utf-8", "surrogatepass")
    if len(data) <= TEXT_BYTES:
        return content, False
    end = TEXT_BYTES
    while data[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass"), True


def clip_payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A copy in which each text is clipped and ``truncated: true`` stands beside each that was cut.

    A text in a list counts as one of the mapping that holds the list. A mapping that has something
    of its own under ``truncated``, such as an argument of a tool, keeps that.
    """
    clipped, _ = _clip_mapping(payload)
    return clipped


def _clip_mapping(mapping: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    copy: dict[str, Any] = {}
    cut = False
    for key, value in mapping.items():
        copy[key], was_cut = _clip_value(value)
        cut = cut or was_cut
    if cut:
        copy.setdefault("truncated", True)
    return copy, cut


def _clip_value(value: Any) -> tuple[Any, bool]:
    """The clipped value, and whether the mapping around it has to say so."""
    if isinstance(value, str):
        return clip(value)
    if isinstance(value, dict):
        return _clip_mapping(value)[0], False
    if isinstance(value, list):
        pairs = [_clip_value(entry) for entry in value]
        return [entry for entry, _ in pairs], any(cut for _, cut in pairs)
    return value, False


# -- the kernel's types --------------------------------------------------------------------------

_TEXT: JsonObject = {"type": "string"}
_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_TRUNCATED: JsonObject = {"const": True, "description": "present where a text was cut at 4 KiB"}
DIGEST: JsonObject = {
    "type": "string",
    "pattern": "^sha256:[0-9a-f]{64}$",
    # Validators let '$' stand before a last line break as well.
    "minLength": 71,
    "maxLength": 71,
}
"""The schema of every digest in a payload; conditions on one are held to it."""


def _schema(
    properties: JsonObject, optional: tuple[str, ...] = (), *, is_open: bool = False
) -> JsonObject:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {**properties, "truncated": _TRUNCATED},
        "required": [name for name in properties if name not in optional],
        "additionalProperties": is_open,
    }


_OUTPUT: JsonObject = {
    "anyOf": [
        {"type": "null"},
        {
            "type": "object",
            "properties": {
                "text": _TEXT,
                "tokens": _COUNT,
                "digest": DIGEST,
                "truncated": _TRUNCATED,
            },
            "required": ["text", "tokens", "digest"],
            "additionalProperties": False,
        },
    ]
}

_TYPES: tuple[tuple[str, str, JsonObject], ...] = (
    (
        "run_started",
        "The first event of every run: what was given to it.",
        _schema(
            {
                "fixture": _TEXT,
                "seed": {"type": "integer"},
                "provider": _TEXT,
                "deterministic": {"type": "boolean"},
                "input": _TEXT,
                "schedule": {"type": "string", "pattern": "^(reverse|seed:[0-9]+)$"},
                "policy_revision": _TEXT,
            },
            optional=("schedule", "policy_revision"),
        ),
    ),
    ("node_started", "A node is about to run.", _schema({"type": _TEXT})),
    ("node_finished", "A node returned.", _schema({"type": _TEXT})),
    (
        "run_paused",
        "A person's decision is needed; the run can be replayed with it.",
        _schema({"prompt": _TEXT, "preview": _TEXT, "total_tokens": _COUNT, "events": _COUNT}),
    ),
    ("policy_violation", "The harness refused to go on.", _schema({"reason": _TEXT})),
    (
        "script_exhausted",
        "More calls were made than the scenario scripts; nothing follows.",
        _schema(
            {
                "script": _TEXT,
                "scripted": _COUNT,
                "call": {"type": "integer", "minimum": 1},
                "detail": _TEXT,
            },
            optional=("detail",),
        ),
    ),
    ("engine_error", "A node raised what no harness step raises.", _schema({"reason": _TEXT})),
    (
        "budget_breached",
        "A bound was passed. Nodes of a domain add fields of their own.",
        _schema({"budget": _TEXT, "limit": {"type": "number"}}, is_open=True),
    ),
    (
        "run_failed",
        "The last event of a blocked or crashed run.",
        _schema({"reason": _TEXT, "total_tokens": _COUNT, "events": _COUNT}),
    ),
    (
        "run_finished",
        "The last event of a completed run.",
        _schema(
            {
                "total_tokens": _COUNT,
                "events": _COUNT,
                "cost_usd": {"type": "number", "minimum": 0},
                "deterministic": {"type": "boolean"},
                "output": _OUTPUT,
            }
        ),
    ),
)


_HAS_NODE = {
    **dict.fromkeys(("run_started", "run_paused", "run_failed", "run_finished"), False),
    **dict.fromkeys(("node_started", "node_finished"), True),
}
"""The others speak for a node or for the run, as it happens."""


def register_kernel(registry: Registry) -> None:
    """Offer the kernel's event types; custom types need no entry."""
    for name, doc, schema in _TYPES:
        entry = EventType(name, schema, doc, KERNEL, _HAS_NODE.get(name))
        registry.event_types.register(name, entry)


def check_event(registry: Registry, event: Mapping[str, Any]) -> list[str]:
    """Say how an event departs from the published vocabulary; an empty list when it does not.

    Args:
        event: ``{seq, type, node_id, payload}``.
    """
    name = event["type"]
    if is_custom_type(name):
        return []
    entry = registry.event_types.find(name)
    if entry is None:
        return [f"{name}: not in the vocabulary"]
    import jsonschema

    validator = jsonschema.Draft202012Validator(dict(entry.schema))
    payload = _without_marks(event["payload"])
    return [
        f"{name}: {'.'.join(str(step) for step in error.absolute_path)}: {error.message}"
        for error in validator.iter_errors(payload)
    ]


def _without_marks(value: Any) -> Any:
    """Drop the kernel's own ``truncated`` marks, which no domain has to declare."""
    if isinstance(value, dict):
        marked = value.get("truncated") is True and any(_is_clipped(v) for v in value.values())
        return {
            key: _without_marks(entry)
            for key, entry in value.items()
            if not (marked and key == "truncated")
        }
    if isinstance(value, list):
        return [_without_marks(entry) for entry in value]
    return value


def _is_clipped(value: Any) -> bool:
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass")) > TEXT_BYTES - 4
    return isinstance(value, list) and any(_is_clipped(entry) for entry in value)
