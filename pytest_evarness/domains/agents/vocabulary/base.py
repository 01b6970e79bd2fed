"""Event types that came first: dialogue, routing, approvals, tools, retrieval, audit."""

from __future__ import annotations

from typing import Any

from pytest_evarness.core.vocabulary import DIGEST
from pytest_evarness.domains.agents.vocabulary.shape import (
    COUNT,
    FLAG,
    INJECTED,
    MAPPING,
    MARKERS,
    TEXT,
    one_of,
    one_of_ours,
    payload,
)

__all__ = [
    "CHAIN",
    "CLASSIFICATIONS",
    "DENIALS",
    "GOVERNANCE",
    "LAYOUTS",
    "PERSONAL",
    "TYPES",
]

CLASSIFICATIONS = ("public", "internal", "personal", "secret")
"""From what may go anywhere to what may go nowhere."""

CHAIN = ("pii_scrub", "policy_check", "schema_validate", "audit_tap", "citation_check")
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
    "egress",
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

_REVISION = {"revision": {"type": "string", "description": "`policy.revision` of the scenario."}}
_DOCUMENT = payload({"id": TEXT, "subject": TEXT, "text": TEXT})
_ENTERED = payload(
    {
        "kind": one_of_ours(*PERSONAL),
        "seq": COUNT,
        "type": TEXT,
        "path": {"type": "array", "items": {"type": ["string", "integer"]}},
        "start": COUNT,
        "end": COUNT,
    }
)
_COVERED = {
    "tool": {"type": "string", "description": "The one call that the approval is for."},
    "args": {"type": "object", "description": "The arguments of that call."},
}

TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "input_received": (
        "The user input was handed over.",
        payload({"text": TEXT, "tokens": COUNT}, INJECTED),
    ),
    "prompt_assembled": (
        "A prompt was laid out.",
        payload({"template": one_of(*LAYOUTS, "custom"), "tokens": COUNT}, MARKERS),
    ),
    "llm_request": (
        "A model was asked.",
        payload(
            {
                "provider": TEXT,
                "prompt_tokens": COUNT,
                "prompt_digest": DIGEST,
                "text": TEXT,
            },
            {"temperature": {"type": "number"}, "max_tokens": COUNT},
        ),
    ),
    "llm_response": (
        "A model answered.",
        payload(
            {"tokens": COUNT, "cost_usd": {"type": "number"}, "preview": TEXT},
            {
                "decision": payload({"tool": TEXT, "args": MAPPING}),
                "truncated": {"const": True, "description": "The answer was cut."},
                **INJECTED,
            },
        ),
    ),
    "llm_error": ("A model gave no answer.", payload({"error": TEXT}, INJECTED)),
    "output_parsed": (
        "A text was read as JSON.",
        payload({"format": one_of("json"), "ok": FLAG}, {"error": TEXT}),
    ),
    "intent_routed": (
        "A route was chosen.",
        payload({"route": TEXT, "matched": {"type": ["string", "null"]}}),
    ),
    "interceptor_applied": (
        "One rule of an interceptor's chain looked at the text.",
        payload(
            {"rule": one_of_ours(*CHAIN)},
            {
                "changed": {"type": "boolean", "description": "A plug-in's rule changed the text."},
                "count": COUNT,
                "verdict": one_of("allow", "deny"),
                "term": TEXT,
                "ok": FLAG,
                "tokens": COUNT,
                "digest": DIGEST,
            },
        ),
    ),
    "redaction_applied": (
        "Personal data was replaced.",
        payload(
            {
                "count": {"type": "integer", "minimum": 1},
                "rules_hit": {"type": "array", "items": one_of_ours(*PERSONAL)},
            },
            {
                "entered": {
                    "type": "array",
                    "items": _ENTERED,
                    "description": "Where each datum stood first; the datum itself is not here.",
                },
                "unplaced": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Data of which no earlier event tells where they entered.",
                },
            },
        ),
    ),
    "approval_requested": (
        "A gate asks for a person's decision.",
        payload(
            {
                "prompt": TEXT,
                "preview": TEXT,
                "artifact_digest": DIGEST,
                "classification": one_of(*CLASSIFICATIONS),
            },
            _COVERED,
        ),
    ),
    "approval_granted": (
        "A person approved.",
        payload(
            {"prompt": TEXT, "artifact_digest": DIGEST, "approver": TEXT},
            _COVERED,
        ),
    ),
    "approval_rejected": (
        "A person rejected.",
        payload({"prompt": TEXT, "decision": one_of("reject")}, {"approver": TEXT}),
    ),
    "approval_skipped": (
        "A gate did not ask, because its condition was not met.",
        payload(
            {
                "require_when": one_of("classified", "personal_or_secret"),
                "classification": one_of(*CLASSIFICATIONS),
            }
        ),
    ),
    "approval_revoked": (
        "An approval was taken back.",
        payload({"artifact_digest": DIGEST}),
    ),
    "tool_called": (
        "A tool was called; every gate before it had allowed the call.",
        payload(
            {
                "tool": TEXT,
                "tool_version": TEXT,
                "query": TEXT,
                "args": MAPPING,
                "args_digest": DIGEST,
                "side_effects": one_of("read", "write", "destructive"),
                "network": one_of("none", "outbound"),
                "mode": one_of("sim"),
                "intent_id": TEXT,
                "decision": payload(
                    {"rule": one_of("read_only", "approve_side_effects", "approval")}, _REVISION
                ),
            },
        ),
    ),
    "tool_result": (
        "A tool answered.",
        payload(
            {
                "tool": TEXT,
                "count": COUNT,
                "docs": {"type": "array", "items": _DOCUMENT},
                "intent_id": TEXT,
            },
            {
                "result": {"description": "The answer, where it is no list of documents."},
                "duplicate": {"const": True, "description": "The answer arrived a second time."},
                **INJECTED,
            },
        ),
    ),
    "tool_error": (
        "A call gave no answer that can be used.",
        payload(
            {
                "tool": TEXT,
                "error": TEXT,
                "phase": {
                    "enum": ["validate", "before", "after"],
                    "description": "Arguments refused, nothing done, or done with the answer lost.",
                },
                "attempt": {"type": "integer", "minimum": 1},
                "intent_id": TEXT,
            },
            INJECTED,
        ),
    ),
    "policy_decision": (
        "A call was refused before it reached the tool.",
        payload(
            {"capability": TEXT, "decision": one_of("deny"), "rule": one_of(*DENIALS)},
            {
                **_REVISION,
                "args": MAPPING,
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
        payload(
            {
                "top_k": COUNT,
                "candidates": COUNT,
                "returned": COUNT,
                "scores": {"type": "array", "items": {"type": "number"}},
                "ids": {"type": "array", "items": TEXT},
            },
            {**INJECTED, **MARKERS},
        ),
    ),
    "context_snapshot": (
        "A context was assembled.",
        payload(
            {
                "segments": payload(
                    {"system": COUNT, "memory": COUNT, "documents": COUNT, "question": COUNT}
                ),
                "total_tokens": COUNT,
                "budget": COUNT,
                "truncated_docs": COUNT,
            },
            {
                "ids": {"type": "array", "items": TEXT},
                "cut_markers": {
                    "type": "array",
                    "items": TEXT,
                    "description": "Attacks whose marker a document held and the context has not.",
                },
                **MARKERS,
            },
        ),
    ),
    "audit_flushed": (
        "An audit log was written.",
        payload(
            {"events_shipped": COUNT, "governance_events": COUNT, "digest": DIGEST},
            {
                "dropped": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Events for which the log had no room.",
                },
                "masked": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Events of the log in which a redacted datum was masked.",
                },
            },
        ),
    ),
}
