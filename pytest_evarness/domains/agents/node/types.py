"""Every node type of this domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evarness.core.execution import CUSTOM_TRAIT
from pytest_evarness.domains.agents.node.approval import APPROVAL_GATE
from pytest_evarness.domains.agents.node.audit import AUDIT_LOG_SINK
from pytest_evarness.domains.agents.node.dialogue import (
    INPUT,
    OUTPUT,
    OUTPUT_PARSER,
    PROMPT_TEMPLATE,
)
from pytest_evarness.domains.agents.node.interceptor import INTERCEPTOR
from pytest_evarness.domains.agents.node.knowledge import (
    CONTEXT_ASSEMBLER,
    CONVERSATION_BUFFER,
    RETRIEVER,
)
from pytest_evarness.domains.agents.node.loop import LOOP_CONTROLLER
from pytest_evarness.domains.agents.node.loop_script import React
from pytest_evarness.domains.agents.node.model import LLM
from pytest_evarness.domains.agents.node.route import INTENT_ROUTER
from pytest_evarness.domains.agents.node.step import PYTHON
from pytest_evarness.domains.agents.node.tool import TOOL

if TYPE_CHECKING:
    from pytest_evarness.domains.agents.state import Part

__all__ = ["LATER", "NODE_TYPES", "PARTS", "REVOKING"]

NODE_TYPES = (
    APPROVAL_GATE,
    AUDIT_LOG_SINK,
    CONTEXT_ASSEMBLER,
    CONVERSATION_BUFFER,
    INPUT,
    INTENT_ROUTER,
    INTERCEPTOR,
    LLM,
    LOOP_CONTROLLER,
    OUTPUT,
    OUTPUT_PARSER,
    PROMPT_TEMPLATE,
    PYTHON,
    RETRIEVER,
    TOOL,
)

REVOKING = frozenset(node.name for node in NODE_TYPES if CUSTOM_TRAIT not in node.traits)
"""Node types before which an approval can be revoked: those that share this domain's state."""

PARTS: tuple[type[Part], ...] = (React,)
"""What families of nodes keep in a run and report as not used."""

LATER = frozenset(
    {
        "cost_latency_monitor",
        "data_classifier",
        "episodic_memory",
        "judge_chain",
        "judge_panel",
        "llm_guard",
        "llm_judge",
        "metrics_emitter",
        "policy_gate",
        "procedural_memory",
        "rate_budget_limiter",
        "redaction_rules",
        "semantic_memory",
        "summary_consolidator",
        "tier_router",
        "trace_probe",
        "working_memory",
    }
)
"""Published node types that no version offers yet; a graph that has one is told so."""
