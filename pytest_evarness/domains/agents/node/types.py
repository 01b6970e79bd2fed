"""Every node type of this domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evarness.core.execution import CUSTOM_TRAIT
from pytest_evarness.domains.agents.egress import Egress
from pytest_evarness.domains.agents.memory import Memories
from pytest_evarness.domains.agents.node.approval import APPROVAL_GATE
from pytest_evarness.domains.agents.node.asking import NodeBench
from pytest_evarness.domains.agents.node.audit import AUDIT_LOG_SINK
from pytest_evarness.domains.agents.node.budget import RATE_BUDGET_LIMITER
from pytest_evarness.domains.agents.node.classify import DATA_CLASSIFIER
from pytest_evarness.domains.agents.node.consolidate import SUMMARY_CONSOLIDATOR
from pytest_evarness.domains.agents.node.dialogue import (
    INPUT,
    OUTPUT,
    OUTPUT_PARSER,
    PROMPT_TEMPLATE,
)
from pytest_evarness.domains.agents.node.guard import LLM_GUARD
from pytest_evarness.domains.agents.node.interceptor import INTERCEPTOR
from pytest_evarness.domains.agents.node.judging import JUDGE_CHAIN, LLM_JUDGE
from pytest_evarness.domains.agents.node.knowledge import (
    CONTEXT_ASSEMBLER,
    CONVERSATION_BUFFER,
    RETRIEVER,
    Lost,
)
from pytest_evarness.domains.agents.node.loop import LOOP_CONTROLLER
from pytest_evarness.domains.agents.node.loop_script import React
from pytest_evarness.domains.agents.node.memory import (
    EPISODIC_MEMORY,
    PROCEDURAL_MEMORY,
    SEMANTIC_MEMORY,
    WORKING_MEMORY,
)
from pytest_evarness.domains.agents.node.model import LLM
from pytest_evarness.domains.agents.node.observe import (
    COST_LATENCY_MONITOR,
    METRICS_EMITTER,
    TRACE_PROBE,
)
from pytest_evarness.domains.agents.node.panel import JUDGE_PANEL
from pytest_evarness.domains.agents.node.policy import POLICY_GATE
from pytest_evarness.domains.agents.node.redaction import REDACTION_RULES
from pytest_evarness.domains.agents.node.route import INTENT_ROUTER
from pytest_evarness.domains.agents.node.step import PYTHON
from pytest_evarness.domains.agents.node.tier import TIER_ROUTER
from pytest_evarness.domains.agents.node.tool import TOOL

if TYPE_CHECKING:
    from pytest_evarness.domains.agents.state import Part

__all__ = ["NODE_TYPES", "PARTS", "REVOKING"]

NODE_TYPES = (
    APPROVAL_GATE,
    AUDIT_LOG_SINK,
    CONTEXT_ASSEMBLER,
    CONVERSATION_BUFFER,
    COST_LATENCY_MONITOR,
    DATA_CLASSIFIER,
    EPISODIC_MEMORY,
    INPUT,
    INTENT_ROUTER,
    INTERCEPTOR,
    JUDGE_CHAIN,
    JUDGE_PANEL,
    LLM,
    LLM_GUARD,
    LLM_JUDGE,
    LOOP_CONTROLLER,
    METRICS_EMITTER,
    OUTPUT,
    OUTPUT_PARSER,
    POLICY_GATE,
    PROCEDURAL_MEMORY,
    PROMPT_TEMPLATE,
    PYTHON,
    RATE_BUDGET_LIMITER,
    REDACTION_RULES,
    RETRIEVER,
    SEMANTIC_MEMORY,
    SUMMARY_CONSOLIDATOR,
    TIER_ROUTER,
    TOOL,
    TRACE_PROBE,
    WORKING_MEMORY,
)

REVOKING = frozenset(node.name for node in NODE_TYPES if CUSTOM_TRAIT not in node.traits)
"""Node types before which an approval can be revoked: those that share this domain's state."""

PARTS: tuple[type[Part], ...] = (Egress, Lost, Memories, NodeBench, React)
"""What families of nodes keep in a run and report as not used."""
