"""Every node type of this domain."""

from __future__ import annotations

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
from pytest_evarness.domains.agents.node.model import LLM
from pytest_evarness.domains.agents.node.route import INTENT_ROUTER
from pytest_evarness.domains.agents.node.step import PYTHON
from pytest_evarness.domains.agents.node.tool import TOOL

__all__ = ["NODE_TYPES"]

NODE_TYPES = (
    APPROVAL_GATE,
    AUDIT_LOG_SINK,
    CONTEXT_ASSEMBLER,
    CONVERSATION_BUFFER,
    INPUT,
    INTENT_ROUTER,
    INTERCEPTOR,
    LLM,
    OUTPUT,
    OUTPUT_PARSER,
    PROMPT_TEMPLATE,
    PYTHON,
    RETRIEVER,
    TOOL,
)
