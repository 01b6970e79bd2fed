"""The gate at which a person decides about exactly one act."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from pytest_evarness.core.interfaces import NodeBlocked, RunPaused
from pytest_evarness.domains.agents.authority import Grant
from pytest_evarness.domains.agents.egress import classification_of, is_at_least
from pytest_evarness.domains.agents.manifest import canonical
from pytest_evarness.domains.agents.node.declare import ANY, declare
from pytest_evarness.domains.agents.node.tool import arguments_of
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.template import TemplateError
from pytest_evarness.domains.agents.text import digest_of_value, forwarded, joined
from pytest_evarness.source.model import Absent, Strict

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context

__all__ = ["APPROVAL_GATE"]

# From which class on a gate asks.
_ASKS_FROM = {"always": "public", "classified": "internal", "personal_or_secret": "personal"}


class _ApprovalGate(Strict):
    prompt: str = "Approve this step?"
    require_when: Literal["always", "classified", "personal_or_secret"] = "always"
    expires_ms: Absent[Annotated[int, Field(ge=0)]] = None
    uses: Annotated[int, Field(ge=1)] = 1


def _artifact(values: list[Any], context: Context) -> dict[str, Any]:
    """What is approved: the one call that the gate covers, or the gate's own input."""
    state = state_of(context)
    covered = state.covered[context.node_id]
    if len(covered) == 1:
        node = context.graph.nodes[covered[0]]
        try:
            args = arguments_of(node.parsed, values)
        except TemplateError:
            # The call cannot be foreseen from here, so no approval of it is made up.
            pass
        else:
            tool = canonical(node.parsed.tool, state.manifests)
            return {"artifact_digest": digest_of_value(args), "tool": tool, "args": args}
    return {"artifact_digest": digest_of_value({"value": forwarded(values)})}


def _approval_gate(inputs: Mapping[str, list[Any]], config: _ApprovalGate, context: Context) -> Any:
    values = inputs.get("in", [])
    state = state_of(context)
    decision = state.decision(context.node_id)
    classification = classification_of(context)
    if not is_at_least(classification, _ASKS_FROM[config.require_when]):
        context.emit(
            "approval_skipped",
            {"require_when": config.require_when, "classification": classification},
        )
        if decision is not None:
            state.unasked.add(context.node_id)
        return forwarded(values)
    if decision is None:
        preview = joined(values)
        context.emit(
            "approval_requested",
            {
                "prompt": config.prompt,
                "preview": preview,
                "classification": classification,
                **_artifact(values, context),
            },
        )
        raise RunPaused(config.prompt, preview)
    if decision["decision"] == "reject":
        payload = {"prompt": config.prompt, "decision": "reject"}
        if decision.get("approver") is not None:
            payload["approver"] = decision["approver"]
        context.emit("approval_rejected", payload)
        raise NodeBlocked(f"approval_gate: rejected ({config.prompt})")
    artifact = _artifact(values, context)
    expires_ms = decision.get("expires_ms")
    state.authority.grant(
        Grant(
            gate=context.node_id,
            digest=artifact["artifact_digest"],
            tool=artifact.get("tool"),
            granted_at_ms=context.clock.now_ms,
            expires_ms=config.expires_ms if expires_ms is None else expires_ms,
            uses_left=config.uses,
        )
    )
    approver = decision.get("approver") or ""
    context.emit("approval_granted", {"prompt": config.prompt, "approver": approver, **artifact})
    return forwarded(values)


APPROVAL_GATE = declare(
    "approval_gate",
    "Waits for a person's decision about exactly what follows.",
    _ApprovalGate,
    _approval_gate,
    inputs={"in": ANY},
    output=ANY,
    emits=("approval_requested", "approval_granted", "approval_rejected", "approval_skipped"),
    traits=frozenset({"gate"}),
)
