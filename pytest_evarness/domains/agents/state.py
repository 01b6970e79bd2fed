"""The state of one run: cursors of scripts, approvals, counters. Nothing outlives the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

from pytest_evarness.domains.agents.attack import injection_label
from pytest_evarness.domains.agents.authority import Authority
from pytest_evarness.domains.agents.flow import covered_calls
from pytest_evarness.domains.agents.manifest import aliases_of, canonical, manifests_of
from pytest_evarness.domains.agents.script import Call, Script
from pytest_evarness.world.application import Applier
from pytest_evarness.world.fault import Injector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.domains.agents.acting import Rehearsal

__all__ = ["DOMAIN", "Intent", "Part", "RunState", "state_of"]

DOMAIN = "agents"


class Part(Protocol):
    """What one family of nodes keeps within one run."""

    @classmethod
    def of(cls, state: RunState) -> Self:
        """At the start of a run; what it scripts is in ``state.environment``."""

    def leftovers(self) -> list[str]:
        """What was scripted for these nodes and not used, one sentence each."""


_P = TypeVar("_P", bound=Part)


@dataclass(slots=True)
class Intent:
    """What a node decided to do so far.

    Attributes:
        count: Calls that the node decided on.
        unanswered: The number of each call, by tool and digest of its arguments, whose answer was
            lost, errored or malformed: an equal call repeats it.
    """

    count: int = 0
    unanswered: dict[tuple[str, str], int] = field(default_factory=dict)

    def number(self, call: tuple[str, str]) -> int:
        """The number of a call that is made now."""
        if call in self.unanswered:
            return self.unanswered[call]
        self.count += 1
        return self.count


@dataclass(slots=True)
class RunState:
    """Everything that the nodes of this domain share within one run.

    Attributes:
        covered: For each gate the nodes whose side-effecting call it covers.
        provider: The simulated model that the next call goes to.
        registry: Of the session, for what plug-ins add.
        unasked: Gates that had a decision and did not ask for it.
        rehearsal: Gets what calls do instead of the world; None in every run of a scenario.
    """

    environment: Mapping[str, Any]
    manifests: Mapping[str, Mapping[str, Any]]
    aliases: Mapping[str, str]
    llm: Script
    tools: dict[str, Script]
    faults: Injector
    covered: Mapping[str, tuple[str, ...]]
    provider: str
    authority: Authority = field(default_factory=Authority)
    intents: dict[str, Intent] = field(default_factory=dict)
    unmet_revocations: dict[str, str] = field(default_factory=dict)
    unasked: set[str] = field(default_factory=set)
    applier: Applier | None = None
    registry: Registry | None = None
    rehearsal: Rehearsal | None = None
    _parts: dict[type[Any], Any] = field(default_factory=dict)

    @classmethod
    def fresh(cls, context: Context) -> RunState:
        """State at the start of a run."""
        environment = cast("Mapping[str, Any]", context.environment)
        manifests = manifests_of(context.overlays)
        faults = environment.get("faults") or {}
        return cls(
            environment=environment,
            manifests=manifests,
            aliases=aliases_of(manifests),
            llm=Script("llm", environment.get("llm") or []),
            tools={
                canonical(name, manifests): Script(canonical(name, manifests), rules)
                for name, rules in (environment.get("tools") or {}).items()
            },
            faults=Injector(
                {canonical(name, manifests): inner for name, inner in faults.items()},
                context.seed,
                {canonical(name, manifests): name for name in faults},
            ),
            covered=covered_calls(context.graph, context.overlays),
            provider=str(environment.get("provider") or context.graph.params.provider),
        )

    def part(self, kind: type[_P]) -> _P:
        """What the family of ``kind`` keeps in this run; made when it is first asked for."""
        found = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = kind.of(self)
        return cast("_P", found)

    def extension(self, kind: str, name: str) -> Any:
        """What a plug-in registered under ``name``; lint has seen to it that it is there.

        Raises:
            InputError: It is not: the graph was never looked at.
        """
        assert self.registry is not None, "the domain hands its registry over at the start"
        return self.registry.extensions(kind).resolve(name)

    def applier_of(self, context: Context) -> Applier:
        """What applies effects to the world of this run."""
        if self.applier is None:
            assert context.world is not None, "a case whose tools have effects has a world"
            self.applier = Applier(context.world)
        return self.applier

    def tool_id(self, name: str) -> str:
        """The id that ``name`` stands for; a name that nobody knows stands for itself."""
        return name if name in self.manifests else self.aliases.get(name, name)

    def call(self, text: str) -> Call:
        """What a rule may look at when ``text`` is asked."""
        return Call(text, self.provider, self.environment.get("params") or {})

    def decision(self, gate: str) -> Mapping[str, Any] | None:
        """The person's decision for a gate, or None."""
        found = (self.environment.get("approvals") or {}).get(gate)
        return cast("Mapping[str, Any] | None", found)

    def markers(self, via: str) -> dict[str, str]:
        """The markers that attacks inject at this place, in file order, by their labels."""
        return {
            injection_label(index): attack["marker"]
            for index, attack in enumerate(self.environment.get("attacks") or [])
            if attack["via"] == via and attack["marker"] is not None
        }

    def markers_in(self, texts: Iterable[str]) -> dict[str, list[str]]:
        """``markers`` of an event: the attacks whose marker stands in what is handed on."""
        attacks = self.environment.get("attacks") or []
        if all(attack["marker"] is None for attack in attacks):
            return {}
        whole = "\0".join(texts)
        found = [
            injection_label(index)
            for index, attack in enumerate(attacks)
            if attack["marker"] is not None and attack["marker"].strip() in whole
        ]
        return {"markers": found} if found else {}

    def blocklist(self) -> list[str]:
        """Terms that the policy forbids."""
        return list((self.environment.get("faults") or {}).get("blocklist") or [])

    def revoke_before(self, context: Context) -> None:
        """Take back the approvals that a person revokes before this node works."""
        for gate, decision in sorted((self.environment.get("approvals") or {}).items()):
            if decision.get("revoke_before") != context.node_id:
                continue
            ended = self.authority.revoke(gate)
            if not ended:
                self.unmet_revocations[gate] = context.node_id
            for grant in ended:
                context.emit("approval_revoked", {"artifact_digest": grant.digest}, node_id=gate)

    def leftovers(self, parts: Iterable[type[Part]] = ()) -> list[str]:
        """Scripted answers and revocations that the run did not use, in words.

        Args:
            parts: Every family that scripts something, also one of which no node ran.
        """
        left = self.llm.leftovers()
        for _, script in sorted(self.tools.items()):
            left += script.leftovers()
        for kind in parts:
            left += self.part(kind).leftovers()
        for gate, node in sorted(self.unmet_revocations.items()):
            left.append(f"approvals.{gate}.revoke_before: nothing was approved yet when {node} ran")
        for gate in sorted(self.unasked):
            word = self.environment["approvals"][gate]["decision"]
            left.append(f"approvals.{gate}: the gate did not ask, so nobody said {word}")
        return left


def state_of(context: Context) -> RunState:
    """This domain's state of the run that ``context`` belongs to."""
    return cast("RunState", context.state(DOMAIN))
