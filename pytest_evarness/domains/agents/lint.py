"""Remarks about a graph that the kernel cannot make, each from one walk over it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.interfaces import LintFinding
from pytest_evarness.domains.agents.flow import (
    LOOP,
    Flow,
    always_asks,
    asking,
    covered_calls,
    needing_approval,
    side_effecting,
    tool_names,
)
from pytest_evarness.domains.agents.lint_approval import APPROVAL_RULES
from pytest_evarness.domains.agents.lint_idle import IDLE_RULES
from pytest_evarness.domains.agents.lint_memory import MEMORY_RULES, gates_of_instructions
from pytest_evarness.domains.agents.lint_names import NAME_RULES
from pytest_evarness.domains.agents.literal import LITERAL_RULES
from pytest_evarness.domains.agents.manifest import (
    aliases_of,
    canonical,
    manifests_of,
    requires_approval,
)
from pytest_evarness.domains.agents.node.interceptor import VALIDATING_RULE
from pytest_evarness.domains.agents.node.tool import INERT_KEYS
from pytest_evarness.source.quote import nearest, quoted

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph, Node
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = ["register_lint"]

_INERT = {"llm": ("top_p",), LOOP: INERT_KEYS, "tool": INERT_KEYS}
_STEPS_SHOWN = 12


def _of_type(graph: Graph, *types: str) -> Iterator[Node]:
    return (node for node in graph.nodes.values() if node.type in types)


def _ungated(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """A write or destructive tool that some path reaches without passing a gate that always asks.

    A gate that asks only of what is classified lets everything pass that no classifier noticed.
    """
    del registry
    effects = side_effecting(graph, overlays)
    if not effects:
        return []
    flow = Flow.of(graph)
    found = flow.reach(flow.roots, stop=lambda node: always_asks(graph.nodes[node]))
    findings = []
    for node, tools in sorted(effects.items()):
        if node not in found:
            continue
        shown = flow.path_to(node, found, _STEPS_SHOWN)
        changes = "changes" if len(tools) == 1 else "change"
        kinds = ((one, graph.nodes[one].type) for one in shown if one in graph.nodes)
        gates = [quoted(one) for one, kind in kinds if kind == "approval_gate" and one != node]
        unasked = f"; {', '.join(gates)} may not ask (require_when)" if gates else ""
        findings.append(
            LintFinding(
                "error",
                "ungated_side_effect",
                f"{_listed(tools)} {changes} the world and is reached without an approval gate "
                f"(by {' -> '.join(shown)}{unasked})",
                graph.path_of(node),
                node,
                fix="put an 'approval_gate' on every path to it, or waive it with a reason",
                waivable=True,
            )
        )
    return findings


def _unvalidated(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """A model whose text reaches the output without an interceptor that validates it."""
    del registry, overlays

    def validates(node: str) -> bool:
        chain: Any = graph.nodes[node].config.get("chain") or ()
        return graph.nodes[node].type == "interceptor" and VALIDATING_RULE in chain

    outputs = [node.id for node in _of_type(graph, "output")]
    found = Flow.of(graph).reach(outputs, stop=validates, back=True)
    return [
        LintFinding(
            "warning",
            "unvalidated_output",
            f"what the model says reaches the output unvalidated (got {quoted(node.id)}; "
            f"an interceptor with {VALIDATING_RULE} between them)",
            graph.path_of(node.id),
            node.id,
        )
        for node in _of_type(graph, "llm")
        if node.id in found
    ]


def _coverage(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """A gate that covers no call, several calls, or that never asks."""
    del registry
    covered, gates = covered_calls(graph, overlays), asking(graph)
    instructing = gates_of_instructions(graph)
    findings = []
    for node in _of_type(graph, "approval_gate"):
        calls = covered.get(node.id, ())
        if node.id not in gates:
            when = quoted(str(node.config.get("require_when")))
            code = "gate_never_asks"
            message = f"no classifier runs before it, so the gate never asks (require_when {when})"
        elif len(calls) == 1 or not (calls or always_asks(node)):
            # A gate that asks by class is about what the text holds, whatever follows.
            continue
        elif calls:
            code = "approval_covers_several"
            message = f"the approval is for no single call (got {', '.join(calls)}, ...)"
        elif node.id in instructing:
            continue
        else:
            code, message = (
                "approval_covers_nothing",
                "no call that it could be for follows the approval",
            )
        findings.append(
            LintFinding("warning", code, f"{message} [{node.id}]", graph.path_of(node.id), node.id)
        )
    return findings


def _unreachable(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """A node that nothing which begins a run leads to."""
    del overlays
    starts = [
        node.id
        for node in graph.nodes.values()
        if not registry.node_types.resolve(node.type).inputs
    ]
    if not starts:
        return []  # the kernel says that there is no input
    flow = Flow.of(graph)
    found = flow.reach(starts)
    return [
        LintFinding(
            "warning",
            "unreachable",
            f"no path leads to the node from an input (got {quoted(node)})",
            graph.path_of(node),
            node,
        )
        for node in graph.nodes
        # A node without any edge is the kernel's remark.
        if node not in found and (flow.after[node] or flow.before[node])
    ]


def _inert(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """Published keys that steer live calls and do nothing here."""
    del registry, overlays
    return [
        LintFinding(
            "warning",
            "inert_key",
            f"the key has no effect: runs are simulated (got {quoted(key)})",
            (*graph.path_of(node.id), "config", key),
            node.id,
            fix="remove it",
        )
        for node in _of_type(graph, *_INERT)
        for key in _INERT[node.type]
        if key in node.config
    ]


def _manifests(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """A tool that no manifest names: every call of it is refused."""
    del registry
    manifests = manifests_of(overlays)
    known = {*manifests, *aliases_of(manifests)}
    findings = []
    for node in graph.nodes.values():
        for name, place in tool_names(node):
            if name in known:
                continue
            near = nearest(name, known)
            findings.append(
                LintFinding(
                    "warning",
                    "no_manifest",
                    f"no manifest names the tool, so every call is refused (got {quoted(name)})",
                    (*graph.path_of(node.id), "config", *place),
                    node.id,
                    fix=f"write {quoted(near)}" if near else "describe it in a tools.yaml",
                )
            )
    return findings


def _unapproved(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """A node that may not change the world calls a tool that does: every call is refused."""
    del registry
    return [
        LintFinding(
            "warning",
            "side_effects_not_approved",
            f"every call is refused: {quoted(tool)} changes the world and the node does not"
            " approve side effects",
            (*graph.path_of(node), "config"),
            node,
            fix="write 'approve_side_effects: true'",
        )
        for node, tools in side_effecting(graph, overlays).items()
        for tool in tools
        if graph.nodes[node].config.get("approve_side_effects") is not True
    ]


def _never_approved(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """A call that needs an approval of its arguments, and no gate gives one.

    An approval is for a tool and its arguments, so that of another node's call may do.
    """
    del registry
    needing = needing_approval(graph, overlays)
    if not needing:
        return []
    covered, gates = covered_calls(graph, overlays), asking(graph)
    given = {
        needing.get(calls[0])
        for gate, calls in covered.items()
        if gate in gates and len(calls) == 1
    }
    return [
        LintFinding(
            "warning",
            "approval_missing",
            f"every call is refused: {quoted(tool)} needs an approval of exactly its arguments,"
            " and no gate covers its call alone",
            (*graph.path_of(node), "config"),
            node,
            fix="put an 'approval_gate' before it",
        )
        for node, tool in needing.items()
        if tool not in given
    ]


def _in_loops(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """A tool of a loop that needs an approval of its arguments, which nobody knows beforehand."""
    del registry
    manifests = manifests_of(overlays)
    findings = []
    for node in _of_type(graph, LOOP):
        for name, place in tool_names(node):
            tool = canonical(name, manifests)
            if tool in manifests and requires_approval(manifests[tool]):
                findings.append(
                    LintFinding(
                        "warning",
                        "unapprovable_in_loop",
                        "every call is refused: nobody can approve arguments that a loop"
                        f" decides on while it runs (got {quoted(tool)})",
                        (*graph.path_of(node.id), "config", *place),
                        node.id,
                        fix="let the loop propose, and a 'tool' node behind an approval act",
                    )
                )
    return findings


def _outputs(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """A second output: which of them would be the run's answer is nobody's guess."""
    del registry, overlays
    first, *others = [*(node.id for node in _of_type(graph, "output")), None]
    return [
        LintFinding(
            "error",
            "second_output",
            f"a run has one output (got {quoted(node)}; the first is {quoted(first or '')})",
            graph.path_of(node),
            node,
        )
        for node in _present(others)
    ]


def _listed(tools: Iterable[str]) -> str:
    return ", ".join(quoted(tool) for tool in tools)


def _present(names: Iterable[str | None]) -> Iterator[str]:
    return (name for name in names if name is not None)


def register_lint(registry: Registry) -> None:
    """Add the rules of this domain."""
    for name, rule in (
        ("agents.ungated_side_effect", _ungated),
        ("agents.unvalidated_output", _unvalidated),
        ("agents.approval_coverage", _coverage),
        ("agents.unreachable", _unreachable),
        ("agents.inert_key", _inert),
        ("agents.no_manifest", _manifests),
        ("agents.side_effects_not_approved", _unapproved),
        ("agents.approval_missing", _never_approved),
        ("agents.unapprovable_in_loop", _in_loops),
        ("agents.second_output", _outputs),
        *APPROVAL_RULES,
        *IDLE_RULES,
        *MEMORY_RULES,
        *NAME_RULES,
        *LITERAL_RULES,
    ):
        registry.lint_rules.register(name, rule)
