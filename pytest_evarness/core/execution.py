"""One run of one case: nodes in their order, events as they come, nothing else.

No node can read a verdict here, and no fault of a node is swallowed: each ends in the trace.
"""

from __future__ import annotations

import copy
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast, overload

from pytest_evarness.core import c1
from pytest_evarness.core.clock import DEFAULT_START, SimulatedClock
from pytest_evarness.core.deadline import Deadline, OutOfTimeError
from pytest_evarness.core.event import TAINTED, Event
from pytest_evarness.core.exchange import payload_problem
from pytest_evarness.core.graph import Graph, Node, order, parse_graph
from pytest_evarness.core.interfaces import (
    EnvironmentExhausted,
    NodeBlocked,
    RunPaused,
    RunTotals,
    ServiceDownError,
    UndecidedError,
)
from pytest_evarness.core.interpreter import own_builtins
from pytest_evarness.core.logged import logged_without_secrets
from pytest_evarness.core.printed import printed_without_secrets
from pytest_evarness.core.raised import Lines, lines_of
from pytest_evarness.core.reason import (
    CrashError,
    is_of_the_machine,
    made_plain,
    message_of,
    reason_of,
)
from pytest_evarness.core.run import EMPTY_WORLD, Run
from pytest_evarness.core.sandbox import Guard
from pytest_evarness.core.secret import Masker
from pytest_evarness.core.stranger import SignalError, pass_on
from pytest_evarness.core.trace import TraceEvent
from pytest_evarness.core.vocabulary import (
    KERNEL,
    TEXT_BYTES,
    approximate_tokens,
    clip_payload,
    is_custom_type,
)
from pytest_evarness.core.warned import same_warnings
from pytest_evarness.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_evarness.core.case import CompiledCase
    from pytest_evarness.core.interfaces import NodeType, World
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.runlog import RunLog
    from pytest_evarness.core.table import Table

__all__ = [
    "CUSTOM_TRAIT",
    "NOT_RUN_BEHIND",
    "execute",
    "list_indeterminism",
]

NOT_RUN_BEHIND = (
    "diagnostic: a step of the user's own could act on the world, so it is not run behind a block"
)
"""Why an observed run passes over such a node."""

CUSTOM_TRAIT = "custom"
"""The trait of node types that run a user's own code: guarded, and limited to custom events."""

_FREE_FOR_DOMAINS = frozenset({"budget_breached"})
_UNSET: Any = object()


# -- the way in ----------------------------------------------------------------------------------


def execute(
    case: CompiledCase,
    registry: Registry,
    *,
    secrets: Mapping[str, str] | None = None,
    observers: Sequence[Callable[[Event], None]] = (),
    log: RunLog | None = None,
    perturbed: bool = False,
    world: World | None = None,
) -> Run:
    """Run a case once.

    Args:
        secrets: A value for each name in ``case.secrets``; masked before anything is hashed.
        observers: Called with each event after it was recorded.
        log: Gets each event as it comes; the caller closes it.
        perturbed: Whether this is the mirror's run; only noted in the result.
        world: What the case declares, fresh; it is sealed here, and closed by the caller.

    Raises:
        InputError: A graph that lint refuses, a clock that is none, a secret without a value.
        OSError: The log could not be written.
    """
    _check_runnable(case, secrets or {})
    masker = Masker({name: (secrets or {})[name] for name in case.secrets})
    engine = _Engine(case, registry, masker, observers, log, world)
    if world is None:
        with printed_without_secrets(masker), logged_without_secrets(masker), engine.deadline:
            engine.run()
        return engine.result(is_perturbed=perturbed)
    world.begin(engine.clock)
    # The permission bits of what a step makes are part of the end state.
    umask = os.umask(0o022)
    try:
        with printed_without_secrets(masker), logged_without_secrets(masker), engine.deadline:
            engine.run()
    finally:
        os.umask(umask)
    return engine.result(is_perturbed=perturbed, world_text=world.seal())


def list_indeterminism(graph: Graph, environment: JsonObject, registry: Registry) -> list[str]:
    """Why a graph cannot be deterministic, in the words of the domains; empty when it can."""
    reasons: list[str] = []
    for name, inspect in registry.inspectors.items():
        try:
            # A copy for each: what it does to it reaches neither the run nor the next one.
            reasons.extend(inspect(graph, c1.cloned(environment)))
        except BaseException as error:  # noqa: BLE001 - a stranger's; not knowing is not "yes"
            pass_on(error)
            reasons.append(f"inspector {name} could not decide ({type(error).__name__})")
    return reasons


def _check_runnable(case: CompiledCase, secrets: Mapping[str, str]) -> None:
    for finding in case.graph.found:
        raise InputError(f"graph {case.graph.id}: {finding.message}", fix=finding.fix)
    for name in case.secrets:
        if name not in secrets:
            raise InputError(f"secrets: no value was handed over (got nothing for '{name}')")


# -- control flow of a run -----------------------------------------------------------------------


class _BreachError(SignalError):
    """A budget of the run is used up; nothing a node catches."""

    def __init__(self, budget: str, limit: int) -> None:
        super().__init__(budget)
        self.budget = budget
        self.limit = limit


class _OutsideError(SignalError):
    """The log or an observer broke: not the harness's fault, so never in its trace."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class _MachineError(SignalError):
    """This machine ran out of something, which says nothing of the harness."""


_NOT_OF_THE_NODE = (KeyboardInterrupt, SystemExit, _OutsideError, OutOfTimeError, _BreachError)
_NEWS = (NodeBlocked, RunPaused, EnvironmentExhausted, ServiceDownError)
"""What a node may raise on purpose."""


class _Engine:
    """State of one run."""

    def __init__(
        self,
        case: CompiledCase,
        registry: Registry,
        masker: Masker,
        observers: Sequence[Callable[[Event], None]],
        log: RunLog | None,
        world: World | None,
    ) -> None:
        self.world = world
        self.case = case
        self.registry = registry
        self.graph = case.graph
        self.masker = masker
        self.observers = observers
        self.runs_custom = False
        self.log = log
        self.deadline = Deadline(case.budget.seconds)
        self.events: list[Event] = []
        self.hasher = c1.Hasher()
        start = case.environment.get("clock", DEFAULT_START)
        self.clock = SimulatedClock(start if isinstance(start, str) else repr(start))
        self.totals = RunTotals()
        self.node_id: str | None = None
        self.status = "unfinished"
        self.output: str | None = None
        self.pending: dict[str, str] | None = None
        self.error: str | None = None
        self.leftovers: list[str] = []
        self.is_closing = False
        self.is_over = False
        self.turns = 0
        self.max_turns = case.budget.loops
        self._states: dict[str, Any] = {}
        self._random: random.Random | None = None
        self._environment: dict[str, Any] | None = None
        self._overlays: dict[str, Any] | None = None
        # A budget that is used up stays used up, even where a node swallowed the news.
        self._breach: _BreachError | None = None
        # Why the run was blocked, where it goes on for observation: its world is sealed by then.
        self.observed: str | None = None
        self.raised: Lines = ()

    # -- the run ---------------------------------------------------------------------------

    def run(self) -> None:
        try:
            self._run()
        except _OutsideError as outside:
            raise outside.error from None
        finally:
            self.is_over = True
        self._collect_leftovers()

    def _run(self) -> None:
        try:
            self._run_nodes()
        except NodeBlocked as blocked:
            self._close("blocked", ("policy_violation", {"reason": blocked.reason}))
        except RunPaused as paused:
            if self.observed is None:
                self._pause(paused)
            else:
                # Nobody is asked to decide about a run that is lost already.
                self._close("blocked")
        except ServiceDownError as down:
            # Nothing that the harness did; what would have come is not known, so no end is emitted.
            self.is_closing = True
            self._settle()
            self.status = "unfinished"
            self.error = self.masker.text(message_of(down))
        except EnvironmentExhausted as exhausted:
            self.is_closing = True
            self._settle()
            call: dict[str, Json] = {
                "script": exhausted.script,
                "scripted": exhausted.scripted,
                "call": exhausted.call,
            }
            if exhausted.detail is not None:
                call["detail"] = exhausted.detail
            self.emit("script_exhausted", call, self.node_id)
            if self.observed is not None:
                # The harness had stopped before: what is missing is observation alone.
                self._close("blocked")
                return
            self.status = "unscripted"
            self.error = self.masker.text(str(exhausted))
        except _BreachError as breach:
            reason = f"budget.{breach.budget} of {breach.limit} is used up"
            self._close(
                "blocked",
                ("budget_breached", {"budget": breach.budget, "limit": breach.limit}),
                ("policy_violation", {"reason": reason}),
            )
        except OutOfTimeError:
            running = f" while node {self.node_id} ran" if self.node_id is not None else ""
            self.status = "unfinished"
            self.error = f"budget.seconds: {self.case.budget.seconds} s were up{running}"
        except _MachineError as machine:
            self.status = "unfinished"
            self.error = self.masker.text(f"while node {self.node_id} ran: {machine}")
        except CrashError as crash:
            self._close("failed", ("engine_error", {"reason": crash.reason}))
            if self.observed is None:
                self.error = cast("str", self.events[-2].payload["reason"])
        else:
            if self.observed is None:
                self.status = "completed"
            else:
                self._close("blocked")

    def _run_nodes(self) -> None:
        case = self.case
        resolved = {
            node.type: self.registry.node_types.resolve(node.type)
            for node in self.graph.nodes.values()
        }
        node_ids = order(self.graph, case.schedule)
        started: dict[str, Json] = {
            "fixture": case.fixture,
            "seed": case.seed,
            "provider": case.provider,
            "deterministic": not list_indeterminism(self.graph, case.environment, self.registry),
            "input": _text_of(case.environment.get("user_input", "")),
        }
        if case.schedule != "canonical":
            started["schedule"] = case.schedule
        if case.policy_revision is not None:
            started["policy_revision"] = case.policy_revision
        self.emit("run_started", started, None)
        if self.max_turns is None:
            loops = sum(resolved[node.type].is_loop for node in self.graph.nodes.values())
            self.max_turns = self.graph.params.max_loops * loops
        outputs: dict[str, Mapping[str, Any]] = {}
        for node_id in node_ids:
            node = self.graph.nodes[node_id]
            self.node_id = node_id
            self.emit("node_started", {"type": node.type}, node_id)
            try:
                outputs[node_id] = self._run_node(node, resolved[node.type], outputs)
            except NodeBlocked as blocked:
                if not case.diagnose:
                    raise
                outputs[node_id] = self._observe(blocked, node, resolved[node.type], outputs)
                continue
            self._settle()
            self.emit("node_finished", {"type": node.type}, node_id)
        self.node_id = None
        if self.observed is None:
            self._finish(cast("bool", started["deterministic"]))

    def _observe(
        self,
        blocked: NodeBlocked,
        node: Node,
        node_type: NodeType,
        outputs: Mapping[str, Mapping[str, Any]],
    ) -> Mapping[str, Any]:
        """Go on behind a block, to see what the harness would have done; nothing can act any more.

        Returns:
            The node's inputs as its outputs, by port where both have it, else all of them.
        """
        self._settle()
        self.emit("policy_violation", {"reason": blocked.reason}, node.id)
        if self.observed is None:
            # From here on every payload is marked, and the end state of the world is the one that
            # the block left: whatever follows has no way to change it.
            self.observed = cast("str", self.events[-1].payload["reason"])
            if self.world is not None:
                self.world.seal()
        inputs = self._inputs(node.id, node_type, outputs)
        everything = [value for values in inputs.values() for value in values]
        return {port: inputs.get(port, everything) for port in node_type.outputs}

    def _run_node(
        self, node: Node, node_type: NodeType, outputs: Mapping[str, Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        inputs = self._inputs(node.id, node_type, outputs)
        is_custom = CUSTOM_TRAIT in node_type.traits
        if is_custom and self.observed is not None:
            raise NodeBlocked(NOT_RUN_BEHIND)
        plugin = _plugin_of(self.registry, self.registry.node_types, node.type)
        context = _Context(self, node.id, is_custom=is_custom, plugin=plugin)
        result: Any
        try:
            config = self._own_config(node)
            if plugin is not None:
                inputs = copy.deepcopy(inputs)
            if is_custom:
                result = self._run_guarded(node_type, inputs, config, context)
            else:
                self.deadline.may_interrupt = True
                result = _called(node_type, inputs, config, context)
        except _NOT_OF_THE_NODE as error:
            if isinstance(error, KeyboardInterrupt):
                # By itself it says nothing of where the run was.
                error.add_note(f"node '{node.id}' ({node.type})")
            raise
        except (NodeBlocked, RunPaused, EnvironmentExhausted):
            self._check_standing()
            raise
        except CrashError as crash:
            self._check_standing()
            if is_custom:
                self.raised = lines_of(crash.__cause__ or crash)
            raise
        except ServiceDownError as down:
            self._check_standing()
            # A step of the user's own may say so only of a service that is down.
            if is_custom and down.service not in self._problems():
                raise CrashError(reason_of(down)) from down
            raise
        except BaseException as error:
            # Whatever a node raises ends in the trace, but for what this machine lacks.
            self._check_standing()
            if is_custom:
                self.raised = lines_of(error)
            if isinstance(error, UndecidedError) and not is_custom:
                raise _MachineError(message_of(error)) from error
            if is_of_the_machine(error):
                raise _MachineError(reason_of(error)) from error
            raise CrashError(reason_of(error)) from error
        finally:
            self.deadline.may_interrupt = False
        self._check_standing()
        return cast("Mapping[str, Any]", result)

    def _run_guarded(
        self,
        node_type: NodeType,
        inputs: dict[str, list[Any]],
        config: Any,
        context: _Context,
    ) -> Any:
        world = self.world
        has_services = world is not None and len(world.addresses) > 0
        guard = Guard((lambda: world.reachable) if world is not None and has_services else None)
        inputs = copy.deepcopy(inputs)
        try:
            with same_warnings(), own_builtins(), guard:
                try:
                    self.runs_custom = True
                    self.deadline.may_interrupt = True
                    result = _called(node_type, inputs, config, context)
                finally:
                    # Before the guard goes: its way out is not to be cut in two.
                    self.deadline.may_interrupt = False
                    self.runs_custom = False
        except _NOT_OF_THE_NODE:
            raise
        except BaseException:
            if guard.refused is not None:
                raise guard.refused from None
            raise
        if guard.refused is not None:
            # The node went on as if nothing had been said.
            raise guard.refused
        return result

    def _own_config(self, node: Node) -> Any:
        """What a node gets as its configuration: a copy, unless nothing in it can be changed."""
        shared = self.graph._shared  # noqa: SLF001 - the graph's memory of this decision
        if node.id not in shared:
            shared[node.id] = _is_unchangeable(node.parsed)
        return node.parsed if shared[node.id] else copy.deepcopy(node.parsed)

    def _check_standing(self) -> None:
        """Whatever a node did with the news: a used-up budget ends the run."""
        if self._breach is not None:
            raise self._breach
        self.deadline.check()

    def _inputs(
        self, node_id: str, node_type: NodeType, outputs: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, list[Any]]:
        inputs: dict[str, list[Any]] = {port: [] for port in node_type.inputs}
        for edge in self.graph.incoming.get(node_id, ()):
            value = outputs[edge.source].get(edge.from_port, _UNSET)
            if value is _UNSET:
                continue
            arriving = inputs.setdefault(edge.to_port, [])
            if isinstance(value, list | tuple):
                arriving.extend(value)
            else:
                arriving.append(value)
        return inputs

    def _settle(self) -> None:
        """Emit what the world's services saw of the node that runs."""
        if self.world is not None and self.observed is None:
            self.world.settle(lambda name, payload: self.emit(name, payload, self.node_id))

    def _problems(self) -> Mapping[str, str]:
        return {} if self.world is None else self.world.problems

    # -- how a run ends --------------------------------------------------------------------

    def _finish(self, deterministic: bool) -> None:
        self._settle()
        output: dict[str, Json] | None = None
        if self.output is not None:
            output = {
                "text": self.output,
                "tokens": approximate_tokens(self.output),
                "digest": c1.sha256_text(self.output),
            }
        self.emit(
            "run_finished",
            {
                "total_tokens": self._total_tokens(),
                "events": len(self.events) + 1,
                "cost_usd": self._cost(),
                "deterministic": deterministic,
                "output": output,
            },
            None,
        )

    def _pause(self, paused: RunPaused) -> None:
        self.is_closing = True
        self._settle()
        payload: dict[str, Json] = {
            "prompt": paused.prompt,
            "preview": paused.preview,
            "total_tokens": self._total_tokens(),
            "events": len(self.events) + 1,
        }
        self.emit("run_paused", payload, None)
        self.status = "paused"
        self.pending = {
            "node": self.node_id or "",
            "prompt": cast("str", self.events[-1].payload["prompt"]),
        }

    def _close(self, status: str, *last: tuple[str, dict[str, Json]]) -> None:
        """Emit what happened, then the last event of a run that did not complete.

        A run that was observed behind a block ends blocked, for the reason of that block.
        """
        self.is_closing = True
        self._settle()
        for name, payload in last:
            self.emit(name, payload, self.node_id)
        self.emit(
            "run_failed",
            {
                "reason": last[-1][1]["reason"] if self.observed is None else self.observed,
                "total_tokens": self._total_tokens(),
                "events": len(self.events) + 1,
            },
            None,
        )
        self.status = status if self.observed is None else "blocked"

    def _total_tokens(self) -> int:
        tokens: Any = self.totals.tokens
        is_count = isinstance(tokens, int) and 0 <= tokens <= c1.MAX_INTEGER
        return int(tokens) if is_count else 0

    def _cost(self) -> float:
        cost: Any = self.totals.cost_usd
        return float(cost) if isinstance(cost, int | float) and 0 <= cost < 1e15 else 0.0

    def _collect_leftovers(self) -> None:
        for name, domain in self.registry.domains.items():
            try:
                self.leftovers.extend(domain.leftovers(self.state(name)))
            except BaseException as error:  # noqa: BLE001 - a stranger's domain; the run is over
                pass_on(error)
                self.leftovers.append(f"domain {name}: {reason_of(error)}")
        self.leftovers = [self.masker.text(entry) for entry in self.leftovers]

    def result(self, *, is_perturbed: bool, world_text: str = EMPTY_WORLD) -> Run:
        return Run(
            events=self.events,
            status=self.status,
            trace_digest=self.hasher.trace_digest,
            chain_digest=self.hasher.chain_digest,
            output=self.output,
            pending=self.pending,
            leftovers=self.leftovers,
            error=self.error,
            world_text=world_text,
            is_perturbed=is_perturbed,
            raised=self.raised,
        )

    # -- what a context reaches ------------------------------------------------------------

    def emit(self, name: str, payload: Mapping[str, Any], node_id: str | None) -> int:
        """Record an event; the one place where events come into being."""
        seq = len(self.events)
        if not self.is_closing:
            if self._breach is not None:
                raise self._breach
            if seq >= self.case.budget.events:
                self.breach("events", self.case.budget.events)
            self.deadline.check()
        if self.runs_custom and not self.is_closing and not is_custom_type(name):
            # The context of such a node refuses this as well; here whoever found another way in
            # is met, so that a step of the user's own cannot speak for a gate.
            raise ValueError(f"a node of the user's own emits only custom types (got '{name}')")
        if self.observed is not None:
            payload = {**payload, TAINTED: True}
        frozen, text = c1.frozen(payload, "payload")
        if self.masker:
            masked = self.masker.value(frozen)
            if masked != frozen:
                frozen, text = c1.frozen(masked, "payload")
        # In c1 text a character takes at least as many bytes as in UTF-8.
        if len(text) > TEXT_BYTES:
            clipped = clip_payload(frozen)
            if clipped != frozen:
                frozen, text = c1.frozen(clipped, "payload")
        event_text = c1.joined(seq, name, node_id, text)
        event = Event(seq, name, node_id, frozen, event_text, time.time())
        self.events.append(event)
        self.hasher.add(event_text)
        try:
            if self.log is not None:
                self.log.write(event)
            for observer in self.observers:
                observer(event)
        except Exception as error:
            # Told to the caller, not to the trace.
            raise _OutsideError(error) from error
        return seq

    def breach(self, budget: str, limit: int) -> NoReturn:
        self._breach = _BreachError(budget, limit)
        raise self._breach

    def turn(self) -> None:
        limit = self.max_turns or 0
        if self.turns >= limit:
            self.breach("loops", limit)
        self.turns += 1

    def state(self, name: str) -> Any:
        if name not in self._states:
            domain = self.registry.domains.resolve(name)
            plugin = _plugin_of(self.registry, self.registry.domains, name)
            context = _Context(self, None, is_custom=False, plugin=plugin)
            self._states[name] = domain.start(context)
        return self._states[name]

    @property
    def random(self) -> random.Random:
        if self._random is None:
            self._random = random.Random(self.case.seed)  # noqa: S311 - meant to be repeatable
        return self._random

    def own_environment(self) -> dict[str, Any]:
        """A copy for this run, so that no run changes what the next one is given."""
        if self._environment is None:
            self._environment = c1.cloned(self.case.environment)
        return self._environment

    def own_overlays(self) -> dict[str, Any]:
        if self._overlays is None:
            self._overlays = c1.thaw(self.case.overlays_text)
        return self._overlays


class _Context:
    """What one node may touch; see :class:`~pytest_evarness.core.interfaces.Context`.

    A user's own node (``is_custom``) gets copies of everything that other nodes read too, no state
    of a domain, and only its own kind of events. A domain's state gets a context without a node: it
    speaks for whichever node runs. What comes from a stranger's ``plugin`` gets copies as well, and
    no other state than that of the plug-in's own domains: grants and manifests decide what is
    allowed, and are not a stranger's to write.
    """

    __slots__ = ("_copies", "_engine", "_gets_copies", "_is_custom", "_node_id", "_plugin")

    def __init__(
        self, engine: _Engine, node_id: str | None, *, is_custom: bool, plugin: str | None
    ) -> None:
        self._engine = engine
        self._node_id = node_id
        self._is_custom = is_custom
        self._plugin = plugin
        self._gets_copies = is_custom or plugin is not None
        self._copies: dict[str, Any] = {}

    @property
    def node_id(self) -> str:
        return self._node_id if self._node_id is not None else self._engine.node_id or ""

    @property
    def seed(self) -> int:
        return self._engine.case.seed

    @property
    def random(self) -> random.Random:
        return self._engine.random

    @property
    def clock(self) -> SimulatedClock:
        return self._engine.clock

    @property
    def params(self) -> JsonObject:
        params = self.environment.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def environment(self) -> JsonObject:
        if not self._gets_copies:
            return self._engine.own_environment()
        environment = self._copy("environment", lambda: c1.cloned(self._engine.case.environment))
        return cast("JsonObject", environment)

    @property
    def overlays(self) -> JsonObject:
        if not self._gets_copies:
            return self._engine.own_overlays()
        overlays = self._copy("overlays", lambda: c1.thaw(self._engine.case.overlays_text))
        return cast("JsonObject", overlays)

    @property
    def policy_revision(self) -> str | None:
        return self._engine.case.policy_revision

    @property
    def graph(self) -> Graph:
        if not self._gets_copies:
            return self._engine.graph
        return cast("Graph", self._copy("graph", self._read_graph))

    @property
    def services(self) -> Mapping[str, Any]:
        world = self._reached
        return {} if world is None else world.addresses

    @property
    def workspace(self) -> Path | None:
        world = self._reached
        return None if world is None else world.workspace

    @property
    def observes(self) -> bool:
        return self._engine.observed is not None

    @property
    def _reached(self) -> World | None:
        """The world, as long as a node may act on it."""
        return None if self.observes else self._engine.world

    def run(
        self,
        command: str | Sequence[str],
        *,
        seconds: float = 30.0,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
    ) -> Any:
        if self.observes:
            raise ValueError("no command can be run: the run is only observed behind a block")
        world = self._reached
        if world is None:
            raise ValueError("no command can be run: the scenario declares no workspace")
        return world.run(command, seconds=seconds, env=env, stdin=stdin)

    @property
    def world(self) -> Any:
        if self._is_custom:
            raise ValueError("a custom node reaches its workspace and its services, not the world")
        return self._engine.world

    @property
    def run_totals(self) -> RunTotals:
        return self._engine.totals

    def emit(
        self,
        type: str,  # noqa: A002 - the published name
        payload: JsonObject,
        *,
        node_id: str | None = _UNSET,
    ) -> int:
        engine = self._engine
        may_interrupt = engine.deadline.may_interrupt
        engine.deadline.may_interrupt = False
        try:
            return engine.emit(type, *self._checked(type, payload, node_id))
        finally:
            engine.deadline.may_interrupt = may_interrupt

    def events(self) -> Sequence[TraceEvent]:
        return _Emitted(self._engine.events)

    def state(self, domain: str) -> Any:
        if self._is_custom:
            raise ValueError(f"a custom node has no state of a domain (asked for '{domain}')")
        registry = self._engine.registry
        owner = registry.domains.source_of(domain) if domain in registry.domains else self._plugin
        if self._plugin is not None and owner != self._plugin:
            raise ValueError(
                f"plug-in '{self._plugin}' has no state of another's domain (asked for '{domain}')"
            )
        return self._engine.state(domain)

    def set_output(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"the output must be a text (got {type(text).__name__})")
        self._engine.output = self._engine.masker.text(c1.copied(text, "output"))

    def turn(self) -> None:
        """Count one turn of a loop against ``budget.loops``."""
        self._engine.turn()

    def _checked(self, name: str, payload: Any, node_id: Any) -> tuple[Any, str | None]:
        engine = self._engine
        own_id = self.node_id
        if engine.is_over or engine.node_id != own_id:
            raise ValueError(f"{name}: node '{own_id}' does not run any more")
        if not isinstance(payload, Mapping):
            raise TypeError(f"{name}: the payload must be a mapping (got {type(payload).__name__})")
        if not isinstance(name, str):
            raise TypeError(f"an event type must be a text (got {type(name).__name__})")
        if self._is_custom:
            if not is_custom_type(name):
                raise ValueError(f"{name}: a custom node emits only types called custom.NAME")
            if node_id is not _UNSET and node_id != own_id:
                raise ValueError(f"{name}: a custom node emits only in its own name")
        elif not is_custom_type(name):
            entry = engine.registry.event_types.find(name)
            if entry is None:
                raise ValueError(
                    f"{name}: no such event type (register it, or call it custom.NAME)"
                )
            if entry.source == KERNEL and name not in _FREE_FOR_DOMAINS:
                raise ValueError(f"{name}: only the kernel emits this type")
            self._check_foreign(name, payload)
        if engine.masker and engine.masker.text(name) != name:
            raise ValueError("an event type must not hold a secret")
        return payload, own_id if node_id is _UNSET else node_id

    def _check_foreign(self, name: str, payload: Mapping[str, Any]) -> None:
        """What a stranger's node emits is what it was declared to emit, and of the declared form.

        Whether a contract is vacuous is told from ``emits``, and what it may ask from the schema;
        for the packaged parts the tests of this package hold both.

        Raises:
            ValueError: It is not.
        """
        registry = self._engine.registry
        node_type = registry.node_types.resolve(self._engine.graph.nodes[self.node_id].type)
        owner = registry.node_types.source_of(node_type.name)
        if self._plugin is not None and owner != self._plugin:
            # A domain that was asked for something while another's node runs.
            raise ValueError(f"{name}: plug-in '{self._plugin}' does not speak for another's node")
        if registry.is_foreign(registry.node_types, node_type.name) and name not in node_type.emits:
            known = ", ".join(sorted(node_type.emits)) or "none"
            raise ValueError(f"{name}: '{node_type.name}' does not list it (emits: {known})")
        if registry.is_foreign(registry.event_types, name):
            problem = payload_problem(registry, name, c1.copied(payload, name))
            if problem is not None:
                raise ValueError(f"{name}: {problem}")

    def _copy(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._copies:
            self._copies[name] = make()
        return self._copies[name]

    def _read_graph(self) -> Graph | None:
        graph, _ = parse_graph(c1.thaw(self._engine.case.graph_text), self._engine.registry)
        return graph


class _Emitted(Sequence[TraceEvent]):
    """The events so far, each read from its text when it is asked for: nobody shares a payload."""

    __slots__ = ("_events", "_length")

    def __init__(self, events: list[Event]) -> None:
        self._events = events
        self._length = len(events)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> TraceEvent: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[TraceEvent]: ...

    def __getitem__(self, index: int | slice) -> TraceEvent | Sequence[TraceEvent]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(self._length))]
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(index)
        return cast("TraceEvent", c1.thaw(self._events[position].text))

    def __iter__(self) -> Iterator[TraceEvent]:
        return (self[position] for position in range(self._length))


# -- small parts ---------------------------------------------------------------------------------


def _plugin_of(registry: Registry, table: Table[Any], name: str) -> str | None:
    """The stranger's plug-in that a part came from; None for ours."""
    return table.source_of(name) if registry.is_foreign(table, name) else None


def _called(
    node_type: NodeType, inputs: dict[str, list[Any]], config: Any, context: _Context
) -> Mapping[str, Any]:
    """What the node gives, by port; what is odd about its news or its outputs is its own crash.

    Its classes run here, where a step of the user's own is guarded and can still be stopped.
    """
    try:
        return _checked_outputs(node_type, node_type.run(inputs, config, context))
    except _NEWS as news:
        raise made_plain(news) from news


def _checked_outputs(node_type: NodeType, result: Any) -> Mapping[str, Any]:
    if result is None and not node_type.outputs:
        return {}
    if not isinstance(result, Mapping):
        kind = type(result).__name__
        raise CrashError(f"TypeError: {node_type.name} must return a mapping by port (got {kind})")
    outputs: dict[str, Any] = {}
    for port in result:
        if port not in node_type.outputs:
            known = ", ".join(sorted(node_type.outputs)) or "none"
            shown = message_of(repr(port)) if isinstance(port, str) else type(port).__name__
            raise CrashError(
                f"TypeError: {node_type.name} has no output port {shown} (ports: {known})"
            )
        value = result[port]
        # Several values arrive one by one; how a class of a node's own lists them is read once.
        outputs[port] = [*value] if isinstance(value, list | tuple) else value
    return outputs


_ATOMS = (str, int, float, bool, bytes, type(None), re.Pattern)


def _is_unchangeable(value: Any) -> bool:
    if isinstance(value, _ATOMS):
        return True
    if isinstance(value, tuple | frozenset):
        return all(_is_unchangeable(entry) for entry in value)
    kind = type(value)
    params = getattr(kind, "__dataclass_params__", None)
    if params is not None and params.frozen:
        return all(_is_unchangeable(getattr(value, name)) for name in kind.__dataclass_fields__)
    # Models of a domain, known by what they say of themselves: the kernel imports no such library.
    settings = getattr(kind, "model_config", None)
    if isinstance(settings, dict) and settings.get("frozen") is True:
        return all(_is_unchangeable(entry) for entry in vars(value).values())
    return False


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else c1.text(value)
