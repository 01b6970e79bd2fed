"""The event types of this domain, each with the JSON Schema of its payload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_evarness.core.event import EventType
from pytest_evarness.core.vocabulary import DIGEST

if TYPE_CHECKING:
    from pytest_evarness.core.registry import Registry

__all__ = [
    "CHAIN",
    "CLASSIFICATIONS",
    "DENIALS",
    "EMITTED",
    "GOVERNANCE",
    "LAYOUTS",
    "PERSONAL",
    "SOURCE",
    "register_events",
]

SOURCE = "agents"

CLASSIFICATIONS = ("public", "internal", "personal", "secret")
"""From what may go anywhere to what may go nowhere."""

CHAIN = ("pii_scrub", "policy_check", "schema_validate", "audit_tap")
"""The rules of an interceptor."""

LAYOUTS = ("answer_with_context", "plain_qa")
"""The layouts of a prompt that have a name; one of the user's own is ``custom``."""

PERSONAL = ("email", "credit_card", "ssn", "phone")
"""The kinds of personal data that are replaced."""

DENIALS = (
    "not_offered",
    "no_manifest",
    "side_effects_not_approved",
    "approval_missing",
    "approval_stale",
    "approval_used",
)
"""Why a call is refused, in the order in which the gates stand."""

GOVERNANCE = frozenset(
    {
        "approval_granted",
        "approval_rejected",
        "approval_requested",
        "approval_revoked",
        "approval_skipped",
        "budget_breached",
        "effect_applied",
        "effect_refused",
        "effect_replayed",
        "interceptor_applied",
        "intent_routed",
        "policy_decision",
        "policy_violation",
        "redaction_applied",
        "tool_called",
        "tool_error",
    }
)
"""What an auditor reads: decisions, and acts that a decision allowed."""

_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_FLAG: dict[str, Any] = {"type": "boolean"}
_MAPPING: dict[str, Any] = {"type": "object"}


def _one_of(*words: str) -> dict[str, Any]:
    return {"enum": list(words)}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": sorted(required),
        "additionalProperties": False,
    }


_REVISION = {"revision": {"type": "string", "description": "`policy.revision` of the scenario."}}
_DOCUMENT = _object({"id": _TEXT, "subject": _TEXT, "text": _TEXT})
_COVERED = {
    "tool": {"type": "string", "description": "The one call that the approval is for."},
    "args": {"type": "object", "description": "The arguments of that call."},
}

_INJECTED = {
    "injected": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Faults of the scenario that acted here, as it names them.",
    }
}

_TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "input_received": (
        "The user input was handed over.",
        _object({"text": _TEXT, "tokens": _COUNT}),
    ),
    "prompt_assembled": (
        "A prompt was laid out.",
        _object({"template": _one_of(*LAYOUTS, "custom"), "tokens": _COUNT}),
    ),
    "llm_request": (
        "A model was asked.",
        _object(
            {
                "provider": _TEXT,
                "temperature": {"type": "number"},
                "max_tokens": _COUNT,
                "prompt_tokens": _COUNT,
                "prompt_digest": DIGEST,
                "text": _TEXT,
            },
        ),
    ),
    "llm_response": (
        "A model answered.",
        _object(
            {"tokens": _COUNT, "cost_usd": {"type": "number"}, "preview": _TEXT},
            {
                "decision": _object({"tool": _TEXT, "args": _MAPPING}),
                "truncated": {"const": True, "description": "The answer was cut."},
                **_INJECTED,
            },
        ),
    ),
    "llm_error": ("A model gave no answer.", _object({"error": _TEXT}, _INJECTED)),
    "output_parsed": (
        "A text was read as JSON.",
        _object({"format": _one_of("json"), "ok": _FLAG}, {"error": _TEXT}),
    ),
    "intent_routed": (
        "A route was chosen.",
        _object({"route": _TEXT, "matched": {"type": ["string", "null"]}}),
    ),
    "interceptor_applied": (
        "One rule of an interceptor's chain looked at the text.",
        _object(
            {"rule": _one_of(*CHAIN)},
            {
                "count": _COUNT,
                "verdict": _one_of("allow", "deny"),
                "term": _TEXT,
                "ok": _FLAG,
                "tokens": _COUNT,
                "digest": DIGEST,
            },
        ),
    ),
    "redaction_applied": (
        "Personal data was replaced.",
        _object(
            {
                "count": {"type": "integer", "minimum": 1},
                "rules_hit": {"type": "array", "items": _one_of(*PERSONAL)},
            }
        ),
    ),
    "approval_requested": (
        "A gate asks for a person's decision.",
        _object(
            {
                "prompt": _TEXT,
                "preview": _TEXT,
                "artifact_digest": DIGEST,
                "classification": _one_of(*CLASSIFICATIONS),
            },
            _COVERED,
        ),
    ),
    "approval_granted": (
        "A person approved.",
        _object(
            {"prompt": _TEXT, "artifact_digest": DIGEST, "approver": _TEXT},
            _COVERED,
        ),
    ),
    "approval_rejected": (
        "A person rejected.",
        _object({"prompt": _TEXT, "decision": _one_of("reject")}, {"approver": _TEXT}),
    ),
    "approval_skipped": (
        "A gate did not ask, because its condition was not met.",
        _object(
            {
                "require_when": _one_of("classified", "personal_or_secret"),
                "classification": _one_of(*CLASSIFICATIONS),
            }
        ),
    ),
    "approval_revoked": (
        "An approval was taken back.",
        _object({"artifact_digest": DIGEST}),
    ),
    "tool_called": (
        "A tool was called; every gate before it had allowed the call.",
        _object(
            {
                "tool": _TEXT,
                "tool_version": _TEXT,
                "query": _TEXT,
                "args": _MAPPING,
                "args_digest": DIGEST,
                "side_effects": _one_of("read", "write", "destructive"),
                "network": _one_of("none", "outbound"),
                "mode": _one_of("sim"),
                "intent_id": _TEXT,
                "decision": _object(
                    {"rule": _one_of("read_only", "approve_side_effects", "approval")}, _REVISION
                ),
            },
        ),
    ),
    "tool_result": (
        "A tool answered.",
        _object(
            {
                "tool": _TEXT,
                "count": _COUNT,
                "docs": {"type": "array", "items": _DOCUMENT},
                "intent_id": _TEXT,
            },
            {
                "result": {"description": "The answer, where it is no list of documents."},
                "duplicate": {"const": True, "description": "The answer arrived a second time."},
                **_INJECTED,
            },
        ),
    ),
    "tool_error": (
        "A call gave no answer that can be used.",
        _object(
            {
                "tool": _TEXT,
                "error": _TEXT,
                "phase": {
                    "enum": ["validate", "before", "after"],
                    "description": "Arguments refused, nothing done, or done with the answer lost.",
                },
                "attempt": {"type": "integer", "minimum": 1},
                "intent_id": _TEXT,
            },
            _INJECTED,
        ),
    ),
    "policy_decision": (
        "A call was refused before it reached the tool.",
        _object(
            {"capability": _TEXT, "decision": _one_of("deny"), "rule": _one_of(*DENIALS)},
            {
                **_REVISION,
                "args": _MAPPING,
                "args_digest": DIGEST,
                "approved": {
                    "type": "array",
                    "items": DIGEST,
                    "description": "What was approved so far in this run.",
                },
            },
        ),
    ),
    "retrieval_performed": (
        "Documents were ranked.",
        _object(
            {
                "top_k": _COUNT,
                "candidates": _COUNT,
                "returned": _COUNT,
                "scores": {"type": "array", "items": {"type": "number"}},
                "ids": {"type": "array", "items": _TEXT},
            }
        ),
    ),
    "context_snapshot": (
        "A context was assembled.",
        _object(
            {
                "segments": _object(
                    {"system": _COUNT, "memory": _COUNT, "documents": _COUNT, "question": _COUNT}
                ),
                "total_tokens": _COUNT,
                "budget": _COUNT,
                "truncated_docs": _COUNT,
            }
        ),
    ),
    "memory_read": ("A memory was read.", _object({"turns": _COUNT, "tokens": _COUNT})),
    "audit_flushed": (
        "An audit log was written.",
        _object({"events_shipped": _COUNT, "governance_events": _COUNT, "digest": DIGEST}),
    ),
}

_NAMED_ONLY: dict[str, tuple[str, dict[str, Any]]] = {
    # No node of this version emits it. The packaged contracts name it, and a recorded trace may
    # hold it, so it is part of the vocabulary.
    "panel_verdict": (
        "A panel of judges voted.",
        _object({"passed": _FLAG, "evaluated": _COUNT}, {"votes": {"type": ["array", "object"]}}),
    ),
    "egress_checked": (
        "A text was about to leave.",
        _object(
            {
                "destination": _one_of("sim", "local", "cloud", "network"),
                "classification": _one_of(*CLASSIFICATIONS),
                "verdict": _one_of("allow", "deny"),
            }
        ),
    ),
}

EMITTED = frozenset(_TYPES)
"""The types that nodes of this domain emit, and nothing else does."""


def register_events(registry: Registry) -> None:
    """Add the vocabulary to ``registry``."""
    for name, (doc, schema) in {**_TYPES, **_NAMED_ONLY}.items():
        registry.event_types.register(name, EventType(name, schema, doc, SOURCE, has_node=True))
