"""What a domain offers to the kernel and what the kernel offers to a domain's nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import random

    from pytest_evarness.core.case import CompiledCase
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.outcome import Cause
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.trace import TraceEvent
    from pytest_evarness.errors import Fault

__all__ = [
    "RUN_KEPT",
    "AbstainedError",
    "CheckType",
    "Clock",
    "Context",
    "DerivedInvariant",
    "Domain",
    "EnvironmentExhausted",
    "EnvironmentKey",
    "Exporter",
    "GraphShapingDomain",
    "Inlined",
    "InliningDomain",
    "Inspector",
    "JudgeModel",
    "LintFinding",
    "LintRule",
    "Locations",
    "NodeBlocked",
    "NodeRun",
    "NodeType",
    "Overlay",
    "OverlayTest",
    "OverlayTestingDomain",
    "Pattern",
    "Predicate",
    "ProjectFiles",
    "Question",
    "RunAccount",
    "RunPaused",
    "ServiceDownError",
    "ServiceType",
    "Shape",
    "ShapingDomain",
    "TraceImporter",
    "UndecidedError",
    "World",
    "WorldHost",
    "WorldMaker",
]


# -- what a node may raise ---------------------------------------------------------------------


class NodeBlocked(Exception):  # noqa: N818 - a published name
    """The harness refused to go on: the run ends ``blocked``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RunPaused(Exception):  # noqa: N818 - a published name
    """A person's decision is needed: the run ends ``paused``."""

    def __init__(self, prompt: str, preview: str = "") -> None:
        super().__init__(prompt)
        self.prompt = prompt
        self.preview = preview


class EnvironmentExhausted(Exception):  # noqa: N818 - a published name
    """More calls were made than the scenario scripts: the run ends ``unscripted``, its trace open.

    Args:
        script: ``llm``, or the tool's id.
        scripted: How many answers were scripted.
        call: The number of the call that found none, from 1.
        detail: Why, where answers were left that did not fit the call; recorded with the event.
    """

    def __init__(self, script: str, scripted: int, call: int, detail: str | None = None) -> None:
        plural = "response" if scripted == 1 else "responses"
        super().__init__(f"{scripted} {plural} scripted, call {call} made, script {script}")
        self.script = script
        self.scripted = scripted
        self.call = call
        self.detail = detail


class ServiceDownError(Exception):
    """A declared service does not answer, and nothing the harness did is the reason.

    The run cannot go on in the world that was described: it ends ``unfinished``, its trace open.

    Args:
        service: Its name.
        why: What it said last, one line.
    """

    def __init__(self, service: str, why: str) -> None:
        super().__init__(f"service {service}: {why}")
        self.service = service
        self.why = why


class UndecidedError(Exception):
    """What a node had to find out was not found out, such as whether a slow expression matches.

    Another machine might know, so it says nothing of the harness: the run ends ``unfinished``, its
    trace open. A user's own step that raises it has failed like with any other exception.
    """


# -- what a node sees --------------------------------------------------------------------------


class Clock(Protocol):
    """Simulated time; it advances only by declared latencies."""

    @property
    def now_ms(self) -> int:
        """Milliseconds of simulated time since the start of the run."""

    def advance_ms(self, ms: int) -> None:
        """Let ``ms`` >= 0 of simulated time pass."""

    def iso(self) -> str:
        """The simulated moment, ISO 8601 in UTC with a ``Z``."""


class Context(Protocol):
    """Everything a node may touch beside its inputs and its configuration."""

    @property
    def node_id(self) -> str:
        """The node that runs."""

    @property
    def seed(self) -> int:
        """The run's seed."""

    @property
    def random(self) -> random.Random:
        """One generator for the run, seeded."""

    @property
    def clock(self) -> Clock:
        """Simulated time."""

    @property
    def params(self) -> JsonObject:
        """``environment.params``."""

    @property
    def environment(self) -> JsonObject:
        """The whole environment of the case, normalised, with defaults filled in."""

    @property
    def overlays(self) -> JsonObject:
        """Packaged configuration in force, by overlay name (``tools``)."""

    @property
    def policy_revision(self) -> str | None:
        """``policy.revision`` of the scenario."""

    @property
    def graph(self) -> Graph:
        """The graph that runs."""

    @property
    def services(self) -> Mapping[str, Any]:
        """Reachable services by name: ``{host, port}`` or ``{path}``, as the type gives them."""

    @property
    def workspace(self) -> Path | None:
        """The run's own folder; None where the scenario declares no workspace."""

    def run(
        self,
        command: str | Sequence[str],
        *,
        seconds: float = ...,
        env: Mapping[str, str] | None = ...,
        stdin: str = ...,
    ) -> Any:
        """Run a command in the workspace; see :meth:`World.run`.

        Raises:
            ValueError: The scenario declares no world to run it in.
        """

    @property
    def world(self) -> Any:
        """The world of the run, a ``pytest_evarness.world`` object; None where none is declared.

        For nodes of a domain; a user's own step reaches services and workspace alone.
        """

    @property
    def observes(self) -> bool:
        """Whether the run was blocked and goes on for observation: nothing may act any more.

        Then the world is sealed, and there is no workspace, no service and no command.
        """

    @property
    def run_totals(self) -> RunTotals:
        """Counters that the terminal event reports."""

    def emit(self, type: str, payload: JsonObject, *, node_id: str | None = ...) -> int:  # noqa: A002
        """Emit an event and return its ``seq``.

        Raises:
            DeterminismError: A value that two JSON readers would disagree on, with its path.
        """

    def events(self) -> Sequence[TraceEvent]:
        """Everything emitted so far, read-only copies."""

    def state(self, domain: str) -> Any:
        """What ``Domain.start`` of that domain returned for this run."""

    def set_output(self, text: str) -> None:
        """Set the run's output."""

    def turn(self) -> None:
        """Count one turn of a loop; the run ends blocked where ``budget.loops`` is used up."""


@dataclass(slots=True)
class RunTotals:
    """Counters a domain adds to while nodes run.

    Attributes:
        tokens: Approximate tokens of all model calls.
        cost_usd: What the scripted answers say that they cost; 0.0 where none says so.
    """

    tokens: int = 0
    cost_usd: float = 0.0


NodeRun: TypeAlias = Callable[[Mapping[str, list[Any]], Any, Context], Mapping[str, Any]]
"""``run(inputs, config, context) -> outputs``: inputs by port, several edges in one flat list."""


@dataclass(frozen=True, slots=True)
class NodeType:
    """One kind of node.

    Attributes:
        inputs: Port name to the kind of value it takes.
        outputs: Port name to the kind of value it gives; empty for a sink.
        parse_config: Validated configuration, handed to ``run``, and the faults found.
        config_schema: JSON Schema of the configuration.
        run: Does the node's work.
        is_loop: Counts towards ``budget.loops``.
        traits: Free words that lint rules and inspectors read, such as ``gate`` or ``model``.
        emits: Event types that the node may emit.
        prepare: Loads what ``run`` needs of the user's own code and does nothing else; the mirror
            calls it before it branches off the process of a run. It may raise: the run will tell.
        module_of: Names the module of the user's own code that a configuration calls.
    """

    name: str
    doc: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    parse_config: Callable[[JsonObject], tuple[Any, list[Fault]]]
    config_schema: JsonObject
    run: NodeRun
    emits: tuple[str, ...] = ()
    is_loop: bool = False
    traits: frozenset[str] = frozenset()
    prepare: Callable[[Any], object] | None = None
    module_of: Callable[[Any], str] | None = None


# -- the world of a run ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorldHost:
    """What worlds of one session share; it goes to the mirror as JSON and reaches no digest.

    Attributes:
        session: A word of this session, so that what it leaves behind can be told apart.
        folder: Absolute path of a folder for locks and logs of shared servers.
    """

    session: str
    folder: str


class World(Protocol):
    """The simulated world of one run: made new for it, and thrown away after it.

    A service that cannot start is no error here: ``problems`` says so, and whoever needs it asks.
    """

    @property
    def addresses(self) -> Mapping[str, Mapping[str, Json]]:
        """Where each service can be reached."""

    @property
    def workspace(self) -> Path | None:
        """The run's folder."""

    @property
    def problems(self) -> Mapping[str, str]:
        """Services that are down, by name, with their own last words."""

    @property
    def reachable(self) -> Collection[tuple[str, int]]:
        """Host and port of services whose address was asked for."""

    def run(
        self,
        command: str | Sequence[str],
        *,
        seconds: float = ...,
        env: Mapping[str, str] | None = ...,
        stdin: str = ...,
    ) -> Any:
        """Run a command in the workspace to its end; what it gives is the world's own type."""

    def begin(self, clock: Clock) -> None:
        """The run begins; ``clock`` is its simulated time."""

    def settle(self, emit: Callable[[str, JsonObject], int]) -> None:
        """Emit what services saw since the last call, in the order of receipt.

        The kernel calls it after each node, and before the last event of a run; requests in flight
        are waited for.
        """

    def seal(self) -> str:
        """End the world's life and give the c1 text of its end state, secrets masked.

        A second call gives the same text. A run that is observed behind a block has its world
        sealed at that block, and nothing may change it from then on.
        """

    def close(self) -> None:
        """Remove everything; closing twice is fine."""


WorldMaker: TypeAlias = "Callable[[CompiledCase, WorldHost, Mapping[str, str]], World | None]"
"""``make(case, host, secrets)``: the world that a case declares, started; None for none."""


# -- lint, inspection ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One remark about a graph.

    Attributes:
        level: ``error`` or ``warning``.
        code: Stable name of the rule.
        message: With the value met and the rule.
        path: Where in the graph document, for the line number.
        node: The node it is about, for ``subject.waive``.
        waivable: A domain error that ``subject.waive`` may accept.
    """

    level: str
    code: str
    message: str
    path: tuple[str | int, ...] = ()
    node: str | None = None
    fix: str | None = None
    waivable: bool = False


LintRule: TypeAlias = "Callable[[Graph, Registry, JsonObject], list[LintFinding]]"
"""``rule(graph, registry, overlays)``; linear or near-linear in the graph."""

Inspector: TypeAlias = "Callable[[Graph, JsonObject], list[str]]"
"""``inspect(graph, environment)`` -> sentences that say why the graph cannot be deterministic."""

Predicate: TypeAlias = "Callable[[TraceEvent], bool]"
"""A pure function over one event, named by ``satisfies``."""


# -- a domain -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EnvironmentKey:
    """A key of ``environment`` that a domain understands.

    Attributes:
        parse: Normalised JSON value, and the faults found, their paths relative to the value.
        schema: JSON Schema of the value, for editors.
        stand_in: What a value that is wrong declares all the same, so that other mistakes of the
            file are told by it; a case with such a value never runs. None: nothing.
    """

    name: str
    doc: str
    parse: Callable[[Json], tuple[Json, list[Fault]]]
    schema: JsonObject
    stand_in: Callable[[Json], Json] | None = None


@dataclass(frozen=True, slots=True)
class Locations:
    """Where overlays may lie, lowest precedence first: home, root, named by a variable, beside.

    Attributes:
        root: The project's root directory.
        home: ``~/.evarness``; None to look at no home.
        beside: Folders of the scenario and of the graph, in this order.
        variables: ``$EVARNESS_*`` of the session.
    """

    root: Path
    home: Path | None
    beside: tuple[Path, ...]
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Overlay:
    """One packaged YAML as it is in force for a case.

    Attributes:
        name: ``tools``, ...
        value: The merged, validated JSON value.
        sources: ``(label, sha256 hex)`` of each layer, lowest first; no absolute path in it.
        faults: ``(label, fault)`` of every layer that cannot be used.
    """

    name: str
    value: Json
    sources: tuple[tuple[str, str], ...] = ()
    faults: tuple[tuple[str, Fault], ...] = ()


@dataclass(frozen=True, slots=True)
class DerivedInvariant:
    """An invariant that follows from the environment, such as an attack's ``expect``.

    Attributes:
        body: The ``assert`` of a contract.
        path: Where in the environment it stands, for its line.
        severity: ``info``, ``minor``, ``major`` or ``critical``.
        vacuous: What a vacuous pass counts as: ``pass``, ``fail`` or ``indeterminate``.
    """

    id: str
    description: str
    body: JsonObject
    path: tuple[str | int, ...] = ()
    severity: str = "major"
    vacuous: str = "pass"


@dataclass(frozen=True, slots=True)
class Shape:
    """JSON Schemas of one payload field that depend on the value of another.

    Attributes:
        types: The event types that have both fields.
        key: The field that is a mapping (``args``).
        by: The field that chooses the schema (``tool``).
        schemas: Schema by the value of ``by``; one that is absent says nothing.
        digest: Of the schemas, so that two equal shapes are one.
        is_checked: Whether a value was checked before it got there; else only names are known.
    """

    types: frozenset[str]
    key: str
    by: str
    schemas: Mapping[str, JsonObject] = field(compare=False, repr=False)
    digest: str
    is_checked: bool


@dataclass(frozen=True, slots=True)
class OverlayTest:
    """One test that an overlay's file holds of what it describes.

    Attributes:
        owner: What it is a test of, such as a tool's id.
        line: Where it stands in the file, from 1.
        problem: Runs it: one sentence that says what is wrong, or None.
    """

    owner: str
    name: str
    line: int
    problem: Callable[[], str | None]


@runtime_checkable
class OverlayTestingDomain(Protocol):
    """A domain whose overlay files hold tests, which pytest collects."""

    def overlay_tests(self, path: Path, shown: str) -> Sequence[OverlayTest]:
        """The tests in one file, in its order; nothing runs yet.

        Args:
            path: The file.
            shown: Its name in messages.

        Raises:
            InputError: It cannot be used.
        """


@runtime_checkable
class ShapingDomain(Protocol):
    """A domain whose overlays know the shape of payload fields; asked beside ``identities``."""

    def shapes(self, overlays: JsonObject) -> Sequence[Shape]:
        """What contracts may ask of such fields."""


@runtime_checkable
class GraphShapingDomain(Protocol):
    """A domain whose nodes know the shape of payload fields by their configuration."""

    def graph_shapes(self, graph: Graph) -> Sequence[Shape]:
        """What contracts may ask of such fields in runs of this graph."""


class ProjectFiles(Protocol):
    """The project's files as one scenario may refer to them.

    Attributes:
        kept: What was worked out for earlier cases of the file, by whatever key its owner takes.
    """

    kept: dict[Any, Any]

    def read(self, text: str) -> tuple[str, bytes] | Fault:
        """Name (relative to the root directory) and content of the file, or why it is not read."""

    def folder(self, text: str) -> tuple[str, Path] | Fault:
        """Name and place of a folder inside the root directory, or why it cannot be used."""


@dataclass(frozen=True, slots=True)
class Inlined:
    """An environment that refers to no file of the project any more.

    Attributes:
        environment: What stood in files is named in it by digest.
        contents: Bytes by their ``sha256:`` digest.
        names: What each content is to a reader, by its digest.
        subjects: ``(name, sha256 hex)`` of what was read.
        faults: Paths relative to the environment.
    """

    environment: JsonObject
    contents: Mapping[str, bytes] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    subjects: tuple[tuple[str, str], ...] = ()
    faults: tuple[Fault, ...] = ()


@runtime_checkable
class InliningDomain(Protocol):
    """A domain whose keys may refer to files; asked once, when a case is compiled."""

    def inline(self, environment: JsonObject, files: ProjectFiles) -> Inlined:
        """Read everything that ``environment`` refers to."""


@runtime_checkable
class AnsweringDomain(Protocol):
    """A domain whose scenarios write down what others will answer; asked beside ``identities``."""

    def answers(
        self, graph: Graph, environment: JsonObject, overlays: JsonObject
    ) -> Mapping[str, frozenset[str]]:
        """Known values by ``TYPE.PATH`` that this one case decides, such as who approves.

        Other cases may have others, so contracts of a library are not held to them.
        """


@runtime_checkable
class RemarkingDomain(Protocol):
    """A domain that has something to say of environments that are no mistakes."""

    def remarks(self, graph: Graph, environment: JsonObject, overlays: JsonObject) -> list[Fault]:
        """Warnings, with paths from the environment."""


@runtime_checkable
class Domain(Protocol):
    """What the kernel asks a domain. Importing a domain does nothing; ``register`` registers."""

    name: str

    def environment_keys(self) -> Sequence[EnvironmentKey]:
        """The keys of ``environment`` that this domain understands."""

    def load_overlays(self, locations: Locations) -> Sequence[Overlay]:
        """Packaged configuration with the layers above it."""

    def check_case(
        self, graph: Graph, environment: JsonObject, overlays: JsonObject
    ) -> list[Fault]:
        """Faults between graph and environment (a decision for a node that is no gate).

        Paths are relative to the environment; those of a ``GraphFault`` to the graph.
        """

    def start(self, context: Context) -> Any:
        """Fresh state of one run; reached by nodes through ``context.state(name)``."""

    def leftovers(self, state: Any) -> list[str]:
        """Scripted answers that the run did not use, in words."""

    def derive(self, graph: Graph, environment: JsonObject) -> Sequence[DerivedInvariant]:
        """Invariants that the environment implies."""

    def identities(
        self, graph: Graph, environment: JsonObject, overlays: JsonObject
    ) -> Mapping[str, frozenset[str]]:
        """Known values at identity paths (``tool``, ``capability``, ``provider``, ...).

        A key ``TYPE.PATH`` (``intent_routed.route``, ``approval_granted.node_id``) speaks of the
        events of that type alone.
        """

    def aliases(self, overlays: JsonObject) -> Mapping[str, str]:
        """Tool aliases to canonical ids."""

    def enforcements(self, graph: Graph, environment: JsonObject) -> frozenset[str]:
        """Which of the words of ``enforced_by`` are active in this graph."""

    def coverage(self, graph: Graph, environment: JsonObject) -> Mapping[str, Sequence[str]]:
        """What a run could exercise, by kind (``approval branches``, ``tools``)."""

    def exercised(self, graph: Graph, events: Sequence[TraceEvent]) -> Mapping[str, frozenset[str]]:
        """What a run did exercise, by the same kinds."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A packaged harness.

    Attributes:
        folder: Holds ``graph.json``, ``fixtures/NAME.yaml``, ``contracts.yaml`` or
            ``invariants.yaml``, ``lesson.md`` and ``scenario.yaml``.
        default_fixture: Used by ``pattern:NAME`` without ``/FIXTURE``.
    """

    name: str
    doc: str
    folder: Path
    default_fixture: str
    fixtures: tuple[str, ...] = field(default_factory=tuple)


class CheckType(Protocol):
    """A type of ``invariants.<id>.check``; ``pytest_evarness.checks.kind`` says what it offers."""

    @property
    def name(self) -> str:
        """The word under ``check.type``."""


class ServiceType(Protocol):
    """A type of ``environment.services.<name>``; ``pytest_evarness.world.service`` has the rest."""

    @property
    def name(self) -> str:
        """The word under ``type``."""


# -- judges -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Question:
    """What one judge is asked, once.

    Attributes:
        judge: Its name, unlike that of any other judge of the check.
        model: As the scenario names it: the registered name, or ``NAME:VARIANT``.
        instructions: The fixed part: task contract, criteria, rubric, form of the answer.
        evidence: The observed part, every text of it fenced as data; secrets are masked.
        judged: The judged text alone, as it stands in ``evidence``.
        dimensions: What is to be scored beside the whole; often nothing.
        temperature: From 0 to 2.
        seconds: How long it may take.
        environment: Of the case, normalised.
        kept: What judges keep between the questions of one case, under a key of their own.
    """

    judge: str
    model: str
    instructions: str
    evidence: str
    judged: str
    dimensions: tuple[str, ...]
    temperature: float
    seconds: float
    environment: JsonObject
    kept: dict[str, Any]


class AbstainedError(Exception):
    """A judge gave no answer.

    Args:
        cause: Whose problem it is.
        reason: One clause without a secret, such as ``no rule is left``.
    """

    def __init__(self, cause: Cause, reason: str) -> None:
        super().__init__(reason)
        self.cause = cause
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RunAccount:
    """What a run says of the scripts that it shares with judges.

    Attributes:
        events: Of run A.
        leftovers: What it was scripted and did not use, in words.
    """

    events: Sequence[TraceEvent] = ()
    leftovers: Sequence[str] = ()


RUN_KEPT = "run"
"""The key under which :meth:`JudgeModel.leftovers` finds the :class:`RunAccount`."""


class JudgeModel(Protocol):
    """A model that judges, registered in ``registry.judges`` under the name scenarios use."""

    def faults(self, model: str) -> list[Fault]:
        """Why no scenario may name ``model`` (``NAME`` or ``NAME:VARIANT``); paths are empty."""

    def ask(self, question: Question) -> str:
        """The raw answer. What it is worth is decided elsewhere.

        Raises:
            AbstainedError: There is none.
        """

    def leftovers(self, kept: Mapping[str, Any]) -> list[str]:
        """What was scripted for this case and not used, in words; [] for most judges.

        Args:
            kept: What the questions left, and under ``RUN_KEPT`` the account of the run, which no
                question shows.
        """


class Exporter(Protocol):
    """A report format added by a plug-in: the statement of a bundle in, bytes out."""

    name: str

    def export(self, statement: JsonObject) -> bytes:
        """Render the report."""


class TraceImporter(Protocol):
    """Reads traces that somebody else recorded, in a form that is not ours."""

    name: str

    def read(self, data: bytes) -> Iterable[Mapping[str, Any]]:
        """The lines of a trace file (docs/kernel.md, "Trace files") that says the same, in order.

        A header ``{"trace": 1, ...}`` begins each run; its ``sources`` say what was recorded. Each
        line is then held against the form like a line of a file.
        """
