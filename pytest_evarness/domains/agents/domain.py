"""What the kernel asks about agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.core.interfaces import Shape
from pytest_evarness.core.table import Advice
from pytest_evarness.domains.agents.attack import (
    attack_faults,
    attack_remarks,
    derive_attacks,
    is_injection,
)
from pytest_evarness.domains.agents.budget import is_budget_enforced
from pytest_evarness.domains.agents.effect import effect_faults
from pytest_evarness.domains.agents.enforcement import (
    is_egress_enforced,
    is_gate_enforced,
    ungoverned,
)
from pytest_evarness.domains.agents.environment import environment_keys
from pytest_evarness.domains.agents.environment.loop import asked_tools
from pytest_evarness.domains.agents.flow import (
    LOOP,
    Flow,
    always_asks,
    asking,
    tool_names,
)
from pytest_evarness.domains.agents.lint_approval import resting_on
from pytest_evarness.domains.agents.lint_idle import policy_remarks
from pytest_evarness.domains.agents.literal import literal_remarks
from pytest_evarness.domains.agents.manifest import (
    aliases_of,
    canonical,
    load_manifests,
    load_tests,
    manifests_of,
)
from pytest_evarness.domains.agents.node.asking import judge_names, score_schemas
from pytest_evarness.domains.agents.node.interceptor import INTERCEPTOR
from pytest_evarness.domains.agents.node.tier import TIER_ROUTER, tier_faults
from pytest_evarness.domains.agents.node.types import NODE_TYPES, PARTS, REVOKING
from pytest_evarness.domains.agents.overlay import load_wording, tiers_of
from pytest_evarness.domains.agents.state import DOMAIN, RunState
from pytest_evarness.domains.agents.text import digest_of_value
from pytest_evarness.domains.agents.trial import Trials
from pytest_evarness.domains.agents.vocabulary import CLASSIFICATIONS, EMITTED
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import nearest, one_of, quoted
from pytest_evarness.world.fault import SERVICE_FAULTS, TOOL_FAULTS

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_evarness.core.graph import Graph, Node
    from pytest_evarness.core.interfaces import (
        Context,
        DerivedInvariant,
        EnvironmentKey,
        Locations,
        Overlay,
        OverlayTest,
    )
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.trace import TraceEvent

__all__ = ["AgentsDomain"]

_BRANCHES = "approval branches"
_TOOLS = "tools"
_ROUTES = "routes"
_BRANCH_BY_EVENT = {
    "approval_requested": "pending",
    "approval_granted": "approve",
    "approval_rejected": "reject",
}
_SKIPPED = "skip"
"""The further branch of a gate that asks only of what is classified."""
_DECIDED = ("approval_granted", "approval_rejected")
_OWN = {kind.name: kind for kind in NODE_TYPES}
_SHARED = frozenset({"budget_breached", "http_request"})
"""Event types of this domain's nodes that come about at other nodes, or at none, as well."""
_FAULTS = "faults"
_FAULTY = frozenset({"http_request", "llm_error", "llm_response", "tool_error", "tool_result"})
_GLOBAL_FAULTS = frozenset({"tool_error_rate", "blocklist", "judge_timeout", "llm"})


class AgentsDomain:
    """Models, tools, approvals, retrieval and memory."""

    name = DOMAIN
    counted = frozenset({_BRANCHES, _TOOLS})

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._keys = environment_keys()
        self._trials = Trials(registry)

    def environment_keys(self) -> Sequence[EnvironmentKey]:
        """The keys of ``environment`` that this domain understands."""
        return self._keys

    def load_overlays(self, locations: Locations) -> Sequence[Overlay]:
        """The tool manifests, the words of each class and the tiers in force."""
        return (load_manifests(locations, self._trials), *load_wording(locations))

    def overlay_tests(self, path: Path, shown: str) -> Sequence[OverlayTest]:
        """The tests inside the manifests of one ``tools.yaml``.

        Raises:
            InputError: The file cannot be used.
        """
        return load_tests(path, shown, self._trials)

    def check_case(
        self, graph: Graph, environment: JsonObject, overlays: JsonObject
    ) -> list[Fault]:
        """What graph, environment and manifests say to each other that cannot be meant."""
        faults = [
            *_approval_faults(graph, environment, overlays),
            *tier_faults(graph, environment, overlays),
            *_tool_faults(graph, environment, overlays),
            *_effect_faults(graph, environment, overlays),
        ]
        if environment.get("attacks"):
            faults += attack_faults(
                graph,
                environment,
                frozenset(self._registry.node_types.names()),
                frozenset(self._registry.event_types.names()),
            )
        return faults

    def remarks(self, graph: Graph, environment: JsonObject, overlays: JsonObject) -> list[Fault]:
        """What is allowed there and hardly meant."""
        manifests = manifests_of(overlays)
        literal = literal_remarks(
            environment,
            manifests,
            lambda name: canonical(name, manifests),
            _tools_of(graph, manifests),
        )
        policies = policy_remarks(graph, environment)
        return [*literal, *attack_remarks(environment), *policies]

    def start(self, context: Context) -> RunState:
        """Fresh state of one run."""
        state = RunState.fresh(context)
        state.registry = self._registry
        return state

    def leftovers(self, state: Any) -> list[str]:
        """Scripted answers that the run did not use."""
        assert isinstance(state, RunState), "the kernel hands back what start gave"
        return state.leftovers(PARTS)

    def derive(self, graph: Graph, environment: JsonObject) -> Sequence[DerivedInvariant]:
        """What the attacks of the case expect."""
        return tuple(derive_attacks(graph, environment))

    def identities(
        self, graph: Graph, environment: JsonObject, overlays: JsonObject
    ) -> Mapping[str, frozenset[str]]:
        """Known values at identity paths; a tool only by its id, since events hold no alias."""
        manifests = manifests_of(overlays)
        tools = frozenset({*manifests, *_tools_of(graph, manifests)})
        providers = {graph.params.provider, str(environment.get("provider", graph.params.provider))}
        rules: Any = environment.get("llm") or []
        for rule in rules:
            providers.add((rule.get("match") or {}).get("provider", graph.params.provider))
        is_routed = any(node.type == TIER_ROUTER.name for node in graph.nodes.values())
        if is_routed or "tiers" in environment:
            tiers = tiers_of(environment, overlays).values()
            providers |= {tier["provider"] for tier in tiers if "provider" in tier}
        return {
            "tool": tools,
            "capability": tools,
            "node_id": frozenset(graph.nodes),
            "provider": frozenset(providers),
            "classification": frozenset(CLASSIFICATIONS),
            **_by_type(graph),
            **_asked_for(graph, environment, tools),
        }

    def answers(
        self, graph: Graph, environment: JsonObject, overlays: JsonObject
    ) -> Mapping[str, frozenset[str]]:
        """Who decides at the gates, where somebody is named, and the tools that a model asks for.

        A model may ask for a tool by any of its names, and for one that there is not.
        """
        if not _is_own(graph):
            return {}
        manifests = manifests_of(overlays)
        tools = {*manifests, *aliases_of(manifests), *_tools_of(graph, manifests)}
        rules: Any = environment.get("llm") or []
        said = [rule.get("respond") or {} for rule in rules]
        said.append(cast("Any", environment.get("default_response")) or {})
        tools |= {one["tool_call"]["tool"] for one in said if "tool_call" in one}
        tools |= asked_tools(environment.get("react"))
        found = {"llm_response.decision.tool": frozenset(tools)}
        approvals: Any = environment.get("approvals") or {}
        people = {one.get("approver") for one in approvals.values()} - {None, ""}
        if people:
            named = frozenset({"", *people})
            found |= {f"{kind}.approver": named for kind in _DECIDED}
        return found

    def shapes(self, overlays: JsonObject) -> Sequence[Shape]:
        """The arguments of each tool, as its manifest has them.

        Only a call that was made had them checked: what was asked for, approved or refused may
        hold anything under the names that the manifest lists.
        """
        schemas = {tool: manifest["args"] for tool, manifest in manifests_of(overlays).items()}
        digest = digest_of_value(schemas)
        return [
            Shape(frozenset({"tool_called"}), "args", "tool", schemas, digest, is_checked=True),
            Shape(
                frozenset({"approval_requested", "approval_granted"}),
                "args",
                "tool",
                schemas,
                digest,
                is_checked=False,
            ),
            Shape(
                frozenset({"policy_decision"}),
                "args",
                "capability",
                schemas,
                digest,
                is_checked=False,
            ),
        ]

    def graph_shapes(self, graph: Graph) -> Sequence[Shape]:
        """What each judge of the graph scores, by its name."""
        schemas = score_schemas(graph.nodes.values()) if _is_own(graph) else {}
        if not schemas:
            return []
        digest = digest_of_value(schemas)
        scored = frozenset({"judge_scored"})
        return [Shape(scored, "scores", "judge", schemas, digest, is_checked=True)]

    def aliases(self, overlays: JsonObject) -> Mapping[str, str]:
        """Tool aliases to ids."""
        return aliases_of(manifests_of(overlays))

    def enforcements(self, graph: Graph, environment: JsonObject) -> frozenset[str]:
        """What stands before every path to what it is to enforce.

        What calls tools has their manifests and its list itself.
        """
        found: set[str] = set()
        if any(tool_names(node) for node in graph.nodes.values()):
            found |= {"manifest", "tool_offer"}
        if is_gate_enforced(graph, ungoverned(graph, environment, ("services", "workspace"))):
            found.add("approval_gate")
        if is_egress_enforced(graph, ungoverned(graph, environment, ("services",))):
            found.add("egress")
        if is_budget_enforced(graph):
            found.add("budget")
        return frozenset(found)

    def coverage(self, graph: Graph, environment: JsonObject) -> Mapping[str, Sequence[str]]:
        """The branches of each gate that may ask, the tools that nodes name, declared faults.

        A loop has an entry for each of its tools, ``NODE:TOOL`` as the graph names it.
        """
        found: dict[str, Sequence[str]] = {
            _BRANCHES: _branches(graph),
            # Nodes rather than tools: without the manifests an alias cannot be told from an id.
            _TOOLS: [name for node in graph.nodes.values() for name in _calls_of(node)],
        }
        routes = _declared_routes(graph)
        if routes:
            found[_ROUTES] = routes
        faults = _declared_faults(environment)
        return {**found, _FAULTS: faults} if faults else found

    def exercised(self, graph: Graph, events: Sequence[TraceEvent]) -> Mapping[str, frozenset[str]]:
        """Branches and routes that were taken, tools that were called, faults that acted."""
        branches = {
            f"{event['node_id']}:{_BRANCH_BY_EVENT[event['type']]}"
            for event in events
            if event["type"] in _BRANCH_BY_EVENT
        }
        asleep = {event["node_id"] for event in events if event["type"] == "approval_skipped"}
        branches |= {f"{gate}:{_SKIPPED}" for gate in asleep & asking(graph)}
        tools = _called(graph, events)
        acted: set[str] = set()
        for event in events:
            if event["type"] in _FAULTY:
                injected: Any = event["payload"].get("injected") or ()
                acted.update(name for name in injected if not is_injection(name))
        found = {_BRANCHES: frozenset(branches), _TOOLS: frozenset(tools)}
        routes = frozenset(_route_of(event) for event in events if event["type"] == "intent_routed")
        if routes:
            found[_ROUTES] = routes
        return {**found, _FAULTS: frozenset(acted)} if acted else found


def _branches(graph: Graph) -> list[str]:
    found = []
    gates = asking(graph)
    for node in graph.nodes.values():
        if node.id in gates:
            own = () if always_asks(node) else (_SKIPPED,)
            found += [f"{node.id}:{branch}" for branch in (*_BRANCH_BY_EVENT.values(), *own)]
    return found


def _declared_routes(graph: Graph) -> list[str]:
    """``NODE:ROUTE`` of each rule, and ``NODE:ROUTE (fallback)``."""
    found = []
    for node in graph.nodes.values():
        config: Any = node.parsed
        if node.type == "intent_router" and config is not None:
            found += [f"{node.id}:{rule.route}" for rule in config.rules]
            found.append(f"{node.id}:{config.fallback} (fallback)")
    return list(dict.fromkeys(found))


def _route_of(event: TraceEvent) -> str:
    payload = event["payload"]
    route = f"{event['node_id']}:{payload.get('route')}"
    return f"{route} (fallback)" if payload.get("matched") is None else route


def _is_own(graph: Graph) -> bool:
    """Whether all nodes of the graph are of this domain, so that it knows what they emit."""
    return all(node.type in _OWN for node in graph.nodes.values())


def _by_type(graph: Graph) -> dict[str, frozenset[str]]:
    """What the graph says of single event types: the nodes that emit them, routes, keywords."""
    if not _is_own(graph):
        return {}  # another domain's node may emit what it likes
    emitters: dict[str, set[str]] = {}
    for node in graph.nodes.values():
        for name in _OWN[node.type].emits:
            # A withdrawal speaks for the gate, at whatever node it comes about.
            is_apart = name == "approval_revoked" and node.type != "approval_gate"
            if name in EMITTED and not is_apart:
                emitters.setdefault(name, set()).add(node.id)
    found = {f"{name}.node_id": frozenset(nodes) for name, nodes in emitters.items()}
    interceptors = [node.parsed for node in graph.nodes.values() if node.type == INTERCEPTOR.name]
    if interceptors and None not in interceptors:
        found["interceptor_applied.rule"] = frozenset(
            rule for one in interceptors for rule in one.chain
        )
    routers = [node.parsed for node in graph.nodes.values() if node.type == "intent_router"]
    if routers and None not in routers:
        rules = [rule for router in routers for rule in router.rules]
        found["intent_routed.route"] = frozenset(
            {*(rule.route for rule in rules), *(router.fallback for router in routers)}
        )
        found["intent_routed.matched"] = frozenset(
            keyword for rule in rules for keyword in rule.keywords
        )
    return {**found, **judge_names(graph.nodes.values())}


def _declared_faults(environment: JsonObject) -> list[str]:
    """Every fault that could act, as ``injected`` names it; a blocklist is a policy's."""
    declared: Any = environment.get(_FAULTS) or {}
    found = []
    for name, inner in declared.items():
        if isinstance(inner, Mapping):
            found += [f"{name}.{fault}" for fault in inner]
        elif name == "tool_error_rate":
            found.append(name)
    return found


def _effect_faults(graph: Graph, environment: JsonObject, overlays: JsonObject) -> list[Fault]:
    manifests = manifests_of(overlays)
    return effect_faults(
        environment,
        manifests,
        lambda name: canonical(name, manifests),
        _tools_of(graph, manifests),
    )


def _tools_of(graph: Graph, manifests: Mapping[str, Any]) -> list[str]:
    names = aliases_of(manifests)
    return [
        name if name in manifests else names.get(name, name)
        for node in graph.nodes.values()
        for name, _ in tool_names(node)
    ]


def _calls_of(node: Node) -> list[str]:
    """What there is to exercise at a node that calls tools."""
    if node.type == LOOP:
        return list(dict.fromkeys(f"{node.id}:{name}" for name, _ in tool_names(node)))
    return [node.id for _ in tool_names(node)]


def _called(graph: Graph, events: Sequence[TraceEvent]) -> set[str]:
    """Which of them were called. A loop says at its start which ids its names stand for."""
    names: dict[tuple[str, str], list[str]] = {}
    found = set()
    for event in events:
        node = graph.nodes.get(str(event["node_id"]))
        payload: Any = event["payload"]
        if node is None:
            continue
        if event["type"] == "loop_started":
            for (name, _), tool in zip(tool_names(node), payload["tools"], strict=False):
                names.setdefault((node.id, tool), []).append(f"{node.id}:{name}")
        elif event["type"] == "tool_called":
            own = (node.id, str(payload.get("tool")))
            found.update(names.get(own, [":".join(own)]) if node.type == LOOP else [node.id])
    return found


def _asked_for(
    graph: Graph, environment: JsonObject, tools: Iterable[str]
) -> dict[str, frozenset[str]]:
    """Tools in the events of a loop that refuses: its model may ask for any, by any name."""
    if not _is_own(graph) or all(node.type != LOOP for node in graph.nodes.values()):
        return {}
    asked = frozenset({*tools, *asked_tools(environment.get("react"))})
    return {"loop_guard.tool": asked, "policy_decision.capability": asked}


def _approval_faults(graph: Graph, environment: JsonObject, overlays: JsonObject) -> list[Fault]:
    approvals: Any = environment.get("approvals") or {}
    gates = [node.id for node in graph.nodes.values() if node.type == "approval_gate"]
    flow = Flow.of(graph) if approvals else None
    faults = []
    for gate, decision in approvals.items():
        path: tuple[str, ...] = ("approvals", gate)
        if gate not in gates:
            kind = graph.nodes[gate].type if gate in graph.nodes else ""
            if nearest(kind, ("approval_gate",)):
                continue  # the type is misspelt, which lint tells
            rule = f"gates: {', '.join(gates) or 'none'}"
            problem = "a decision is for an approval gate"
            faults.append(Fault(path, problem, got=quoted(gate), rule=rule, at_key=True))
            continue
        node = decision.get("revoke_before")
        ends = [key for key in ("revoke_before", "expires_ms") if decision.get(key) is not None]
        if not ends or flow is None:
            continue
        acts = resting_on(graph, overlays, gate)
        if not acts and gate in asking(graph):
            problem = "nothing behind the gate rests on its approval, so its end changes nothing"
            rule = (
                "a tool that writes or requires an approval, or a procedural_memory that waits for"
                " a person"
            )
            path, got = (*path, ends[0]), quoted(str(decision[ends[0]]))
            faults.append(Fault(path, problem, got=got, rule=rule, fix=f"remove '{ends[0]}'"))
            continue
        if node is None:
            continue
        path = (*path, "revoke_before")
        if node not in graph.nodes:
            near = nearest(node, graph.nodes)
            fix = f"write {quoted(near)}" if near else None
            faults.append(Fault(path, "unknown node", got=quoted(node), fix=fix))
        elif graph.nodes[node].type not in REVOKING:
            problem = "nothing can be revoked before a node that runs other people's code"
            fix = "name the node behind it"
            faults.append(Fault(path, problem, got=quoted(node), fix=fix))
        elif gate in flow.reach([node]):
            problem = "the node works before the gate asks, so nothing would be revoked"
            faults.append(Fault(path, problem, got=quoted(node)))
        elif acts and all(node != act and node in flow.reach([act]) for act in acts):
            problem = "what the approval is for is done before that node works"
            rule = f"it is for {one_of(sorted(acts))}"
            faults.append(Fault(path, problem, got=quoted(node), rule=rule))
    return faults


def _tool_faults(graph: Graph, environment: JsonObject, overlays: JsonObject) -> list[Fault]:
    manifests = manifests_of(overlays)
    ids = {*manifests, *_tools_of(graph, manifests)}
    known = ids | aliases_of(manifests).keys()
    services: Any = environment.get("services") or {}
    faults = []
    for key, words, names, what in (
        ("tools", known, ids, "tool"),
        (
            _FAULTS,
            {*known, *_GLOBAL_FAULTS, *services},
            {*ids, *services},
            "tool or service" if services else "tool",
        ),
    ):
        named: Any = environment.get(key) or {}
        owners: dict[str, str] = {}
        unknown = [name for name in named if name not in words]
        faults += _unknown_faults(key, unknown, words, names, what)
        for name, inner in named.items():
            if name not in words:
                continue
            if key == _FAULTS and name in services:
                faults += _service_faults(name, inner, known)
                continue
            if key == _FAULTS and name in _GLOBAL_FAULTS:
                continue
            if key == _FAULTS:
                faults += _words_faults(name, inner, "tool", SERVICE_FAULTS, TOOL_FAULTS)
            tool = canonical(name, manifests)
            if tool in owners:
                problem = f"the tool is named twice, also as {quoted(owners[tool])}"
                faults.append(Fault((key, name), problem, got=quoted(name), at_key=True))
            owners[tool] = name
    return faults


def _unknown_faults(
    key: str, unknown: Sequence[str], words: Iterable[str], names: Iterable[str], what: str
) -> list[Fault]:
    """One fault for each name that nobody knows.

    Args:
        words: All that could have been meant, aliases too.
        names: What is shown of them.
    """
    if not unknown:
        return []
    advice, shown = Advice(), one_of(sorted(names)) or "none"
    nearest_of = [advice(name, words) for name in unknown]
    return [
        Fault(
            (key, name),
            f"unknown {what}",
            got=quoted(name),
            rule=f"known: {shown}",
            fix=f"write {quoted(near)}" if near else None,
            at_key=True,
        )
        for name, near in zip(unknown, nearest_of, strict=True)
    ]


def _service_faults(name: str, inner: Any, tools: Iterable[str]) -> list[Fault]:
    if name in tools or name in _GLOBAL_FAULTS:
        what = "tool" if name in tools else "word for all faults"
        problem = f"the name is a service's and a {what} as well"
        fix = "give the service another name"
        return [Fault((_FAULTS, name), problem, got=quoted(name), fix=fix, at_key=True)]
    return _words_faults(name, inner, "service", (*TOOL_FAULTS, "delay_ms"), SERVICE_FAULTS)


def _words_faults(
    name: str, inner: Any, what: str, wrong: Sequence[str], right: Sequence[str]
) -> list[Fault]:
    return [
        Fault(
            (_FAULTS, name, word),
            f"{quoted(name)} is a {what}, and that is no fault of one",
            got=quoted(word),
            rule=f"known: {', '.join(right)}",
            at_key=True,
            code="unknown_key",
        )
        for word in inner
        if word in wrong
    ]
