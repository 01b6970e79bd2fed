"""The packaged harnesses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evarness.core.interfaces import Pattern

if TYPE_CHECKING:
    from pytest_evarness.core.registry import Registry

__all__ = ["register_patterns"]

_FOLDER = Path(__file__).with_name("patterns")

_PATTERNS = (
    ("single_shot_qa", "One question, one model call, one answer.", ("answer",)),
    ("approval_gated_send", "A message leaves only after a person approved it.", ("send",)),
    (
        "governed_email_assistant",
        "Routing, redaction, policy, retrieval and memory around one model call.",
        ("happy", "failure"),
    ),
    (
        "prompt_injection_lab",
        "Orders in what was read reach an obedient model, and nothing is done.",
        ("calm", "obedient"),
    ),
    (
        "rag_with_citations",
        "An answer leaves only with citations of what was retrieved.",
        ("happy", "no_documents", "poisoned"),
    ),
    (
        "incident_triage",
        "A model looks into an alert with tools that only read; a person decides about its ticket.",
        ("happy", "failure"),
    ),
    (
        "refund_desk",
        "A refund is booked and paid once, also when the answer gets lost.",
        ("keyed", "unkeyed"),
    ),
    (
        "judge_panel_review",
        "A draft is published only where a panel passed it and an editor agreed.",
        ("happy", "disagreement", "inquorate"),
    ),
    (
        "tiered_assistant",
        "What a request holds decides which model may see it, and who is asked before.",
        ("everyday", "personal"),
    ),
)


def register_patterns(registry: Registry) -> None:
    """Add the packaged harnesses; the first fixture of each is its default."""
    for name, doc, fixtures in _PATTERNS:
        registry.patterns.register(name, Pattern(name, doc, _FOLDER / name, fixtures[0], fixtures))
