"""Scenario to runs to evidence to verdict to bundle: the whole tool, readable from top to bottom.

    load -> seal -> run A, run B -> judge -> record -> bundle

Both doors, pytest and the command line, go through here.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.checks.evidence import Evidence, RunFacts, named_types, possible_types
from pytest_evarness.checks.gathering import judge_case
from pytest_evarness.checks.judge import Judge, Judgement
from pytest_evarness.core.registry import Registry, load_registry
from pytest_evarness.core.stranger import pass_on
from pytest_evarness.errors import EvarnessError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from pytest_evarness.bundle.canonical import Encoded
    from pytest_evarness.bundle.exercise import Exercise
    from pytest_evarness.bundle.key import ChosenKey
    from pytest_evarness.bundle.seal import PlannedCase
    from pytest_evarness.bundle.statement import CaseRecord
    from pytest_evarness.bundle.store import Store
    from pytest_evarness.contract.library import Library
    from pytest_evarness.core.event import Event
    from pytest_evarness.core.interfaces import World, WorldHost
    from pytest_evarness.core.mirror import Mirror
    from pytest_evarness.core.run import Run
    from pytest_evarness.core.runlog import RunLog
    from pytest_evarness.scenario.case import Case
    from pytest_evarness.world.sealed import Scene

__all__ = [
    "CaseResult",
    "Engine",
    "Publisher",
    "RegisterHook",
    "Settings",
    "Written",
    "case_record",
    "home_folder",
    "own_variables",
    "planned_case",
    "prove",
    "read_seal_digest",
]


@dataclass(frozen=True, slots=True)
class RegisterHook:
    """A project's ``pytest_evarness_register``.

    Attributes:
        module: Its module's name, by which the mirror loads it again.
        file: Its module's file, absolute; it never reaches a digest or a bundle.
    """

    module: str
    file: str
    function: Callable[[Registry], object]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a session is told from outside.

    Attributes:
        root: The project's root directory; nothing outside it is read.
        contract_folders: Of the project's libraries.
        home: ``~/.evarness``; None to look at no home.
        variables: ``$EVARNESS_*``.
        mode: Overrides every scenario's mode where given.
        diagnose: Cases of mode ``diagnostic`` go on behind a block, for observation.
        approvals: ``CASE:NODE=approve|reject``, as written.
        rerun: ``mirror`` or ``inline``.
    """

    root: Path
    contract_folders: tuple[Path, ...] = ()
    home: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    mode: str | None = None
    diagnose: bool = False
    approvals: tuple[str, ...] = ()
    strict_vacuity: bool = False
    rerun: str = "mirror"
    hooks: tuple[RegisterHook, ...] = ()


def home_folder() -> Path | None:
    """``~/.evarness``, or None for a user without a home."""
    try:
        return Path.home() / ".evarness"
    except RuntimeError:
        return None


def own_variables() -> dict[str, str]:
    """``$EVARNESS_*`` of this process."""
    return {name: value for name, value in os.environ.items() if name.startswith("EVARNESS_")}


@dataclass(frozen=True, slots=True)
class CaseResult:
    """Both runs of a case and what was concluded from them.

    Attributes:
        rows: What the checks gathered, as it is enclosed: without secrets, and bounded.
    """

    case: Case
    run_a: Run
    run_b: Run | None
    error_b: str | None
    evidence: Evidence
    judgement: Judgement
    rows: tuple[Mapping[str, str], ...] = ()


class Engine(AbstractContextManager["Engine"]):
    """Loads scenarios, runs cases twice and judges them; one for each process of a session."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._mirror: Mirror | None = None
        self._mirror_facts: list[str] = []
        self._possible_types: tuple[Any, list[Any], frozenset[str] | None] | None = None
        # A step of the user's own is found in the project's root directory by every door: pytest,
        # the command line, and the mirror, which gets this path as it is.
        root = str(settings.root.absolute())
        if root not in sys.path:
            sys.path.append(root)

    @cached_property
    def registry(self) -> Registry:
        """Kernel, installed plug-ins and the project's own hooks."""
        return load_registry((hook.module, hook.function) for hook in self.settings.hooks)

    @cached_property
    def library(self) -> Library:
        """Every contract that scenarios may name."""
        from pytest_evarness.contract.library import load_library
        from pytest_evarness.core.interfaces import Locations

        settings = self.settings
        return load_library(
            Locations(
                root=settings.root, home=settings.home, beside=(), variables=settings.variables
            ),
            settings.contract_folders,
            self.registry,
        )

    def changed_libraries(self, seal: Mapping[str, Any]) -> list[str]:
        """Library files that are not what they were when they were sealed, each in words."""
        from pytest_evarness.contract.library import changed_files
        from pytest_evarness.core.interfaces import Locations

        settings = self.settings
        rows = [
            (row["label"], row["sha256"]) for row in seal["overlays"] if row["name"] == "contracts"
        ]
        if not seal["plan"]:
            return []  # no case was compiled, so the seal names no library
        where = Locations(settings.root, settings.home, (), settings.variables)
        folders = {(settings.root / case["file"]).parent for case in seal["plan"]}
        if "library" in self.__dict__:
            folders.update(self.library.looked_beside)
            rows += [row for row in self.library.idle if row not in rows]
        return changed_files(
            rows,
            where,
            settings.contract_folders,
            passed_over=[row["file"] for row in seal["broken"]],
            beside=sorted(folders),
        )

    def unread_libraries(self, files: Iterable[Path], *, in_root: bool = False) -> list[str]:
        """Folders ``contracts`` near scenarios, and files in those of libraries, that are not read.

        A command that is given in another folder than the project's has another root directory.

        Args:
            files: The scenarios.
            in_root: Look into the folders of the root directory, too, where none of those that are
                read is there: it may have got another name.
        """
        from pytest_evarness.scenario.collect import EXCLUDED_NAMES

        settings = self.settings
        read = [settings.root / one for one in settings.contract_folders]
        named = " and ".join(f"'{_seen_from(settings.root, one)}'" for one in read) or "no folder"
        places: set[Path] = set()
        for start in {file.absolute().parent for file in files}:
            for parent in (start, *start.parents)[:_NEAR]:
                places.add(parent / "contracts")
                if any((parent / name).exists() for name in _PROJECT_FILES):
                    break
        if in_root and not any(one.is_dir() for one in read):
            places.update(_folders_in(settings.root))
        found = (
            folder
            for folder in places
            if folder.is_dir()
            and not any(folder.is_relative_to(one) for one in read)
            and any(
                _is_library(path) and path.name not in EXCLUDED_NAMES
                for path in folder.glob("*.y*ml")
            )
        )
        return [
            *self._unread_files(read),
            *(
                f"the contracts in '{_seen_from(settings.root, folder)}' judge nothing here:"
                f" libraries are looked for in {named} of the root directory; try:"
                f"{_run_from(settings.root, folder)} name the folder (--contracts, or"
                " evarness_contracts in the ini file)"
                for folder in sorted(found)
            ),
        ]

    def _unread_files(self, folders: Sequence[Path]) -> list[str]:
        """JSON in the folders of libraries: it looks like one, and is none that is read."""
        from pytest_evarness.source.walk import look_below

        root = self.settings.root
        return [
            f"'{_seen_from(root, path)}' is not read: libraries are .yaml and .yml files; try:"
            " give it such a name (JSON is YAML), or move it elsewhere"
            for folder in folders
            if folder.is_dir()
            for path in look_below(folder, root).files
            if path.suffix.lower() == ".json"
        ]

    @cached_property
    def judge(self) -> Judge:
        """Keeps parsed contracts between cases."""
        return Judge(self.registry, strict_vacuity=self.settings.strict_vacuity)

    def load(self, path: Path) -> list[Case]:
        """Load and compile a scenario file; nothing runs.

        Raises:
            InputError: With every mistake of the file.
        """
        from pytest_evarness.scenario.load import load_scenario

        with self._blaming(path.name):
            return load_scenario(path, context=self._load_context())

    def compile(self, value: Mapping[str, Any], beside: Path) -> list[Case]:
        """Compile a scenario that was written in Python, as if it lay in the folder ``beside``.

        Raises:
            InputError: With every mistake.
        """
        from pytest_evarness.scenario.load import compile_mapping

        with self._blaming("the scenario"):
            return compile_mapping(value, context=self._load_context(), beside=beside)

    @contextmanager
    def _blaming(self, what: str) -> Iterator[None]:
        """An error that a plug-in raises while something is read is told as that.

        Raises:
            InputError: With the plug-in's name.
        """
        try:
            yield
        except EvarnessError:
            raise
        except BaseException as error:
            pass_on(error)
            plugin = self.registry.plugin_behind(error)
            if plugin is None:
                raise  # a bug of ours is shown in full
            from pytest_evarness.report.text import one_line

            said = one_line(str(error), 500)
            raise InputError(
                f"{what}: plug-in {plugin} raised {type(error).__name__} while it was read ({said})"
            ) from error

    def _load_context(self) -> Any:
        from pytest_evarness.scenario.load import LoadContext

        settings = self.settings
        return LoadContext(
            root=settings.root,
            registry=self.registry,
            library=self.library,
            home=settings.home,
            variables=settings.variables,
            approve=settings.approvals,
            mode=settings.mode,
            diagnose=settings.diagnose,
        )

    def run(
        self,
        case: Case,
        *,
        logs: Store | None = None,
        seal: str | None = None,
        observers: Sequence[Callable[[Event], None]] = (),
    ) -> CaseResult:
        """Run a case twice, each time in a new world, and judge it on run A.

        Args:
            case: A compiled case.
            logs: Where the session's run logs go; None writes none.
            seal: Digest of the seal that is on disk; it heads the run logs.
            observers: Called with each event of run A.
        """
        from pytest_evarness.core.secret import read_secrets

        secrets = read_secrets(case.compiled.secrets, os.environ)
        if self.settings.rerun == "mirror":
            # Its start-up overlaps with run A; run B itself begins only after run A has ended,
            # so that anything run A leaves behind is there to be noticed.
            self._ready_mirror().start()
        # Run A's world is sealed when the run is over, and stays until everything is judged.
        with self.world(case, secrets) as world:
            run_a = self._run_a(case, secrets, world, logs=logs, seal=seal, observers=observers)
            run_b, error_b = self._run_b(case, secrets)
            if run_b is not None and logs is not None:
                with _log(logs, case, "b", seal) as log:
                    assert log is not None, "there is a place for it"
                    log.write_all(run_b.texts)
            _check_record(case, run_a)
            evidence = self._evidence(case, run_a, run_b, error_b)
            scene = self._scene(case, world, run_a, secrets)
            evidence, judgement = judge_case(
                self.judge,
                case.items,
                evidence,
                scene,
                threshold=case.threshold,
                is_diagnostic=case.mode == "diagnostic",
            )
            rows: tuple[Mapping[str, str], ...] = ()
            if scene is not None:
                from pytest_evarness.bundle.evidence import check_rows

                rows = check_rows(case.items, evidence, scene.masker, judgement.masked)
            return CaseResult(case, run_a, run_b, error_b, evidence, judgement, rows)

    def _run_a(
        self,
        case: Case,
        secrets: Mapping[str, str],
        world: World | None,
        *,
        logs: Store | None,
        seal: str | None,
        observers: Sequence[Callable[[Event], None]],
    ) -> Run:
        from pytest_evarness.core.execution import execute

        try:
            with _log(logs, case, "a", seal) as log, self._restored(case):
                return execute(
                    case.compiled,
                    self.registry,
                    secrets=secrets,
                    observers=observers,
                    log=log,
                    world=world,
                )
        except SystemExit as error:
            # The kernel catches no exit. Here it must not end the process either: its code would
            # be read as the verdict.
            raise InputError(
                f"case {case.id}: a node tried to end the process (SystemExit({error.code!r})),"
                " so the case was not judged",
                fix="raise an ordinary exception in the step",
            ) from None

    def _run_b(self, case: Case, secrets: Mapping[str, str]) -> tuple[Run | None, str | None]:
        from pytest_evarness.core.execution import execute
        from pytest_evarness.core.mirror import MirrorError

        if self.settings.rerun == "inline":
            with self.world(case, secrets) as world, self._restored(case):
                run = execute(case.compiled, self.registry, secrets=secrets, world=world)
                return run, None
        try:
            return self._ready_mirror().run(case.compiled, secrets, host=self._host), None
        except MirrorError as error:
            return None, str(error)

    @contextmanager
    def world(self, case: Case, secrets: Mapping[str, str]) -> Iterator[World | None]:
        """A new world for one run of the case, gone at the end; None where none is declared.

        Raises:
            InputError: The machine has no place for it.
        """
        make = self.registry.make_world
        try:
            world = None if make is None else make(case.compiled, self._host, secrets)
        except OSError as error:
            raise InputError(
                f"case {case.id}: its world cannot be made ({error.strerror or error})"
            ) from None
        try:
            yield world
        finally:
            if world is not None:
                world.close()

    @cached_property
    def _host(self) -> WorldHost:
        import tempfile

        from pytest_evarness.core.interfaces import WorldHost

        # Workers of one session share what is slow to start; other sessions have their own.
        session = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex
        return WorldHost(session, str(Path(tempfile.gettempdir(), f"evarness-host-{session}")))

    def _restored(self, case: Case) -> AbstractContextManager[object]:
        """This process is put back after a run of the user's own code; nothing else touches it."""
        if not _runs_custom(case, self.registry):
            return nullcontext()
        from pytest_evarness.core.restore import Restored

        return Restored(f"case {case.id}")

    def _ready_mirror(self) -> Mirror:
        from pytest_evarness.core.mirror import Mirror

        if self._mirror is None:
            self._mirror = Mirror([(hook.module, hook.file) for hook in self.settings.hooks])
        return self._mirror

    def _evidence(self, case: Case, run_a: Run, run_b: Run | None, error_b: str | None) -> Evidence:
        differs = run_b is not None and run_b.trace_digest != run_a.trace_digest
        return Evidence(
            events=_judged_events(case, run_a, self.registry),
            a=_facts("a", run_a),
            b=None if run_b is None else _facts("b", run_b),
            events_b=[event.as_record() for event in run_b.events] if run_b and differs else None,
            error_b=error_b,
            # Where no run_finished shows it, an output is nothing that a bundle could show again.
            output=run_a.output if run_a.status == "completed" else None,
            possible=self._possible(case),
            leftovers=tuple(run_a.leftovers),
            world=json.loads(run_a.world_text),
            world_b=json.loads(run_b.world_text)
            if run_b is not None and run_b.world_digest != run_a.world_digest
            else None,
        )

    def _scene(
        self, case: Case, world: World | None, run: Run, secrets: Mapping[str, str]
    ) -> Scene | None:
        """What checks look at; None for a case without checks."""
        if not any(item.is_check for item in case.items):
            return None
        from pytest_evarness.world.scene import scene_of

        root = self.settings.root.absolute()
        return scene_of(
            case.compiled,
            cast("Any", world),
            run,
            secrets,
            prompt=case.task_prompt,
            scenario_folder=(root / case.scenario_path).parent,
            root=root,
            details={"scenario": case.scenario_path, "case": case.id},
        )

    def _possible(self, case: Case) -> frozenset[str] | None:
        """What the graph can emit; cases of one file mostly share graph and definitions."""
        definitions = [item.definition for item in case.items if item.kind in ("contract", "trace")]
        kept = self._possible_types
        same = (
            kept is not None
            and kept[0] is case.compiled.graph
            and len(kept[1]) == len(definitions)
            and all(one is other for one, other in zip(kept[1], definitions, strict=True))
        )
        if kept is None or not same:
            found = possible_types(case.compiled.graph, self.registry, named_types(case.items))
            kept = self._possible_types = (case.compiled.graph, definitions, found)
        return kept[2]

    @property
    def mirror_facts(self) -> list[str]:
        """What the mirror differed in, in words; nothing before it was started."""
        from pytest_evarness.bundle.facts import mirror_sentences

        if self._mirror is not None:
            self._mirror_facts = mirror_sentences(self._mirror.facts)
        return self._mirror_facts

    def close(self) -> None:
        """End the mirror process; nothing is left running."""
        if self._mirror is not None:
            self._mirror_facts = self.mirror_facts
            self._mirror.close()
            self._mirror = None
        home = sys.modules.get("pytest_evarness.world.home")
        if home is not None:
            home.tidy()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _facts(label: str, run: Run) -> RunFacts:
    return RunFacts(
        label=label,
        status=run.status,
        complete=run.complete,
        events=len(run.events),
        trace_digest=run.trace_digest,
        chain_digest=run.chain_digest,
        world_digest=run.world_digest,
        error=run.error,
    )


def _runs_custom(case: Case, registry: Registry) -> bool:
    """Whether a node of the case runs the user's own code."""
    from pytest_evarness.core.execution import CUSTOM_TRAIT

    kinds = {node.type for node in case.compiled.graph.nodes.values()}
    found = [registry.node_types.find(kind) for kind in kinds]
    return any(kind is not None and CUSTOM_TRAIT in kind.traits for kind in found)


def _judged_events(case: Case, run: Run, registry: Registry) -> list[dict[str, Any]]:
    """Run A's events as they are judged.

    After a step of the user's own they are read from the hashed texts: the step shared a process
    with the payloads, and a verifier will have the texts alone.
    """
    if _runs_custom(case, registry):
        return [json.loads(event.text) for event in run.events]
    return [event.as_record() for event in run.events]


def _check_record(case: Case, run: Run) -> None:
    """A node shares this process with the record of its run, so the record is checked.

    Raises:
        InputError: The events are not those that were hashed when they were emitted.
    """
    from pytest_evarness.core import c1

    texts = run.texts
    in_order = all(event.seq == index for index, event in enumerate(run.events))
    if not in_order or c1.digests(texts) != (run.trace_digest, run.chain_digest):
        raise InputError(f"case {case.id}: a node changed the record of its own run")


def _log(
    store: Store | None, case: Case, label: str, seal: str | None
) -> AbstractContextManager[RunLog | None]:
    """The run log, its header on disk; nothing where no logs are kept."""
    if store is None:
        return nullcontext(None)
    from pytest_evarness.core.runlog import RunLog

    header: dict[str, Any] = {"run_id": f"{case.id}-{label}", "case": case.compiled.digest}
    if seal is not None:
        header["seal"] = seal
    return RunLog(store.run_log(case.compiled.digest, label), header)


# -- records ----------------------------------------------------------------------------------


def planned_case(case: Case, nodeid: str, deselected: Mapping[str, str]) -> PlannedCase:
    """A case as it enters the plan.

    Args:
        case: A compiled case.
        nodeid: Its node id.
        deselected: Item id to the reason, for items that were not selected.
    """
    from pytest_evarness.bundle.seal import PlannedCase
    from pytest_evarness.core import c1

    return PlannedCase(
        nodeid=nodeid,
        file=nodeid.split("::", 1)[0],
        case=case.id,
        base=case.base,
        mode=case.mode,
        digest=case.compiled.digest,
        scenario=c1.sha256_text(c1.text(case.merged)),
        threshold=case.threshold,
        items=case.items,
        policy=case.compiled.policy_revision,
        subjects=case.subjects,
        overlays=case.overlays_in_force,
        overrides=case.overrides,
        corpora=case.corpora,
        waived=case.waived,
        deselected=deselected,
    )


def case_record(result: CaseResult, nodeid: str) -> CaseRecord:
    """A judged case as it enters the bundle."""
    from pytest_evarness.bundle.statement import CaseRecord, RunRecord
    from pytest_evarness.core import c1

    compiled = result.case.compiled
    judgement = result.judgement
    return CaseRecord(
        nodeid=nodeid,
        compiled=compiled.text,
        graph=compiled.graph_text,
        overlays=compiled.overlays_text,
        scenario=c1.text(result.case.merged),
        # What judges left over is known only after both runs.
        a=replace(RunRecord.from_run(result.run_a), leftovers=result.evidence.leftovers),
        b=None if result.run_b is None else RunRecord.from_run(result.run_b),
        error_b=result.error_b,
        findings=judgement.findings,
        verdict=judgement.verdict,
        composite=None if judgement.composite is None else judgement.composite.as_record(),
        primary=judgement.primary,
        output=result.run_a.output,
        materials=compiled.materials_text if compiled.materials_digest is not None else None,
        evidence=result.rows,
    )


# -- seal and bundle --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    """A bundle that stands on disk.

    Attributes:
        statement: What it says.
        path: Where it stands.
        holds: The session's verdict: True, False, or None for neither.
        lines: For the reader: where it is, what it says, how to verify it.
    """

    statement: Mapping[str, Any]
    path: Path
    holds: bool | None
    lines: tuple[str, ...]


_NEAR = 4
"""Folders above a scenario in which its project may begin."""

_MANY = 200
"""Folders in a root directory that are looked into for libraries."""

_PROJECT_FILES = (".git", "pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")


def _seen_from(root: Path, path: Path) -> str:
    return Path(os.path.relpath(path, root)).as_posix()


def _folders_in(root: Path) -> list[Path]:
    """The folders that stand in the root directory itself; none where there are very many."""
    try:
        with os.scandir(root) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    folders = [root / name for name in names if not name.startswith(".")]
    return folders if len(folders) <= _MANY else []


def _run_from(root: Path, folder: Path) -> str:
    """The advice for a folder of the usual name that lies in another root directory."""
    if folder.name != "contracts" or folder.parent == root:
        return ""
    return f" run it from '{_seen_from(root, folder.parent)}', or"


def _is_library(path: Path) -> bool:
    from pytest_evarness.scenario.collect import kind_of_file

    return path.is_file() and kind_of_file(path) == "library"


class Publisher:
    """Seals a session before its first run and writes its bundle after the last."""

    def __init__(
        self,
        store: Store,
        *,
        registry: Registry,
        root: Path,
        rerun: str = "mirror",
        events: str = "full",
        strict_vacuity: bool = False,
        mode: str | None = None,
        diagnose: bool = False,
        min_scenarios: int = 0,
        min_coverage: str | None = None,
        key: Path | None = None,
        unsigned: bool = False,
        home: Path | None = None,
    ) -> None:
        self.store = store
        self.registry = registry
        self.root = root
        self.rerun = rerun
        self.events = events
        self.strict_vacuity = strict_vacuity
        self.mode = mode
        self.min_scenarios = min_scenarios
        self.min_coverage = min_coverage
        self.diagnose = diagnose
        self._key_option = None if key is None else str(key)
        self._unsigned = unsigned
        self._home = home
        self._encoded: Encoded | None = None
        self._asks_sandbox = False

    @cached_property
    def key(self) -> ChosenKey | None:
        """The signing key; None for an unsigned bundle.

        Raises:
            InputError: A key was named and cannot be used.
        """
        from pytest_evarness.bundle.key import choose_signing_key

        if self._unsigned:
            return None
        return choose_signing_key(self._key_option, variables=os.environ, home=self._home)

    @cached_property
    def _environment(self) -> dict[str, Any]:
        from pytest_evarness.bundle.facts import environment_facts

        return environment_facts(rerun=self.rerun, sandbox=self._asks_sandbox)

    def write_seal(
        self, plan: Mapping[str, Any], *, reviews: Sequence[Mapping[str, str]] = ()
    ) -> dict[str, Any]:
        """Fix the plan on disk; nothing of it has run.

        Args:
            plan: What was collected.
            reviews: What persons said about findings of its cases.

        Raises:
            InputError: A key was named and cannot be used.
            OSError: The seal cannot be written.
        """
        from pytest_evarness.bundle import facts, seal
        from pytest_evarness.bundle.canonical import Encoded
        from pytest_evarness.bundle.statement import build_seal_statement

        self._encoded = Encoded()
        self._asks_sandbox = _asks_sandbox(plan)
        record = seal.finish_seal(
            plan,
            engine=facts.engine_version(),
            plugins=[
                (name, self.registry.versions.get(name, "")) for name in self.registry.sources
            ],
            git=facts.git_facts(self.root),
            environment=seal.environment_digest(self._environment),
            settings=seal.Settings(
                rerun=self.rerun,
                events=self.events,
                strict_vacuity=self.strict_vacuity,
                mode=self.mode,
                diagnose=self.diagnose,
                min_scenarios=self.min_scenarios,
                min_coverage=self.min_coverage,
            ),
            redefined=seal.redefined(self.store.earlier_contracts(), plan["contracts"]),
            reviews=reviews,
            challenge=os.environ.get("EVARNESS_CHALLENGE") or None,
            encoded=self._encoded,
        )
        self.store.write_seal(self._envelope(build_seal_statement(record)))
        return record

    def write_bundle(
        self,
        seal: Mapping[str, Any],
        records: Sequence[CaseRecord],
        *,
        mirror: Sequence[str] = (),
        changed: Sequence[str] = (),
        exercises: Sequence[Exercise] | None = None,
    ) -> Written:
        """Write the signed account of the session.

        Args:
            changed: Libraries that changed on disk since they were sealed, each in words.
            exercises: What the cases exercised, where that is known.

        Raises:
            OSError: It cannot be written.
        """
        from pytest_evarness.bundle.statement import build_statement

        statement = build_statement(
            seal,
            records,
            environment={**self._environment, "mirror": list(mirror)},
            changed=changed,
            registry=self.registry,
            signed=self.key is not None,
            exercises=exercises,
        )
        path, note = self.store.write_bundle(self._envelope(statement), seal["time"])
        verdict = statement["predicate"]["verdict"]
        return Written(statement, path, verdict["holds"], self._lines(path, note, statement))

    def _envelope(self, statement: Mapping[str, Any]) -> bytes:
        from pytest_evarness.bundle.canonical import canonical_bytes
        from pytest_evarness.bundle.envelope import envelope_bytes

        chosen = self.key
        payload = canonical_bytes(statement, self._encoded)
        return envelope_bytes(payload, None if chosen is None else chosen.key)

    def _lines(self, path: Path, note: str | None, statement: Mapping[str, Any]) -> tuple[str, ...]:
        verdict = statement["predicate"]["verdict"]
        word = {True: "holds", False: "does not hold", None: "is open"}[verdict["holds"]]
        shown = _shown_path(path, self.root)
        lines = [f"bundle {shown} {word}: {verdict['note']}"]
        unproven = statement["predicate"]["not_proven"]
        lines.append(
            f"not proven: {len(unproven)} remarks ('pytest-evarness explain {shown}' lists them),"
            f" first: {unproven[0]}"
        )
        lines.extend(
            f"override in force: {row['id']}@{row['version']} ({row['origin']}) stands in the"
            f" place of {row['id']}@{row['replaced_version']} ({row['replaced_origin']})"
            for row in statement["predicate"]["seal"]["overrides"]
        )
        chosen = self.key
        if chosen is None:
            lines.append("unsigned: nobody vouches for this bundle")
        else:
            if chosen.made:
                lines.append(f"a signing key was made: {chosen.shown} (and .pub beside it)")
            public = f"{chosen.shown}.pub" if chosen.origin != "variable" else "PUBLIC_KEY"
            lines.append(f"verify with: pytest-evarness verify {shown} --key {public}")
        if note is not None:
            lines.append(note)
        return tuple(lines)


def _shown_path(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _asks_sandbox(plan: Mapping[str, Any]) -> bool:
    """Whether an item of the plan is judged by what a sandbox denies, or runs in one."""
    if any('"runs_in":"sandbox"' in one["text"] for one in plan["definitions"]):
        return True
    return any(item["kind"] == "forbidden" for case in plan["plan"] for item in case["items"])


def read_seal_digest(path: Path) -> str | None:
    """The digest of a seal on disk; None where there is none to read."""
    import base64

    try:
        envelope = json.loads(path.read_bytes())
        statement = json.loads(base64.b64decode(envelope["payload"]))
        return str(statement["predicate"]["seal"]["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def prove(
    engine: Engine,
    cases: Sequence[tuple[str, Case]],
    publisher: Publisher,
    *,
    on_case: Callable[[str, CaseResult], None] | None = None,
    on_trouble: Callable[[str, InputError], None] | None = None,
    deselected: Mapping[str, Mapping[str, str]] | None = None,
    misspelt: Sequence[InputError] = (),
) -> Written:
    """Seal, run and judge every case, and write the bundle: a session without pytest.

    Args:
        engine: Runs and judges.
        cases: Node id and compiled case, in the order in which they are to run.
        publisher: Where seal and bundle go.
        on_case: Told of each case when it has been judged.
        on_trouble: Told of each case that could not be judged; without it the first one is raised.
        deselected: For a node id, the items that are planned and not selected, with the reason.
        misspelt: What else makes a file of the library a broken one.

    Raises:
        InputError: A key was named and cannot be used, or the file of reviews cannot.
        OSError: Seal or bundle cannot be written.
    """
    from pytest_evarness.bundle.seal import build_plan
    from pytest_evarness.scenario.reviews import reviews_of

    left_out = deselected or {}
    plan = build_plan(
        [planned_case(case, nodeid, left_out.get(nodeid, {})) for nodeid, case in cases],
        # A contract that cannot be read might have been for one of these cases.
        broken=broken_libraries((*engine.library.errors, *misspelt)),
    )
    secrets = {name for _, case in cases for name in case.compiled.secrets}
    reviews = reviews_of(publisher.root, plan["plan"], secrets=secrets)
    seal = publisher.write_seal(plan, reviews=reviews)
    records = []
    for nodeid, case in cases:
        if len(left_out.get(nodeid, {})) == len(case.items):
            continue
        try:
            result = engine.run(case, logs=publisher.store, seal=seal["digest"])
        except InputError as error:
            # The case is planned and not judged, which the bundle says; the others still run.
            if on_trouble is None:
                raise
            on_trouble(nodeid, error)
            continue
        records.append(case_record(result, nodeid))
        if on_case is not None:
            on_case(nodeid, result)
    return publisher.write_bundle(
        seal, records, mirror=engine.mirror_facts, changed=engine.changed_libraries(seal)
    )


def broken_libraries(errors: Iterable[InputError]) -> list[tuple[str, str]]:
    """``(file, mistakes)`` of each library file that has some."""
    texts: dict[str, list[str]] = {}
    for error in errors:
        name = error.where.path if error.where is not None else None
        texts.setdefault(name or "contracts", []).append(str(error))
    return sorted((name, "\n".join(found)) for name, found in texts.items())
