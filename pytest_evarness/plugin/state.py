"""The state of one session in one process: what was collected, what ran, what is to be written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.plugin import options

if TYPE_CHECKING:
    from pytest_evarness.bundle.statement import CaseRecord
    from pytest_evarness.bundle.store import Store
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.pipeline import CaseResult, Engine, Publisher, Written
    from pytest_evarness.plugin.nodes import LoadItem
    from pytest_evarness.scenario.case import Case

__all__ = ["SessionState", "Shown", "is_worker"]

KEY: pytest.StashKey[SessionState] = pytest.StashKey()


def is_worker(config: pytest.Config) -> bool:
    """True in an xdist worker, which neither seals nor writes."""
    return hasattr(config, "workerinput")


@dataclass(frozen=True, slots=True)
class Shown:
    """How one item shows.

    Attributes:
        how: ``pass``, ``fail``, ``error`` or ``skip``: what the item does in pytest's terms.
        text: Complete in itself, the essential sentence first.
        payload: Exactly JSON; travels on the item's report.
        properties: For pytest's own XML.
    """

    how: str
    text: str
    payload: dict[str, Any]
    properties: list[tuple[str, object]]


@dataclass(slots=True)
class _Collected:
    case: Case
    selected: set[str] = field(default_factory=set)
    left: int = 0
    result: CaseResult | None = None
    record: dict[str, Any] | None = None
    failed: BaseException | None = None


class SessionState:
    """Everything of ours that one process of a session knows."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.collected: dict[str, _Collected] = {}
        self.broken: dict[str, str] = {}
        self.load_items: list[LoadItem] = []
        self.why_deselected: dict[str, str] = {}
        self.records: dict[str, CaseRecord] = {}
        self.seal: Mapping[str, Any] | None = None
        self.plan: Mapping[str, Any] | None = None
        self.mirror_facts: list[str] = []
        self.outcomes: dict[str, int] = {}
        self.notes: list[str] = []
        self.reported: set[str] = set()
        self.blocking = False
        self.statement: Mapping[str, Any] | None = None
        self.written: Written | None = None
        self.shown_texts: list[tuple[str, str, str]] = []

    @classmethod
    def of(cls, config: pytest.Config) -> SessionState:
        """The session's state, made when it is first asked for."""
        state = config.stash.get(KEY, None)
        if state is None:
            from pytest_evarness.plugin.session import SessionHooks

            state = config.stash[KEY] = cls(config)
            config.pluginmanager.register(SessionHooks(state), "evarness-session")
        return state

    @classmethod
    def find(cls, config: pytest.Config) -> SessionState | None:
        """The session's state, or None where no scenario turned up."""
        return config.stash.get(KEY, None)

    # -- loading ---------------------------------------------------------------------------

    @cached_property
    def engine(self) -> Engine:
        """Loads, runs, judges."""
        from pytest_evarness.pipeline import Engine

        return Engine(engine_settings(self.config))

    def load(self, path: Path) -> list[Case]:
        """Compile a scenario file.

        Raises:
            InputError: With every mistake of the file.
        """
        return self.engine.load(path)

    def library_error(self, path: Path) -> str | None:
        """The mistakes of a library file, or None."""
        from pytest_evarness.contract.library import check_library_file
        from pytest_evarness.errors import InputError

        try:
            check_library_file(path, self.engine.registry, root=self.config.rootpath)
        except InputError as error:
            return str(error)
        return None

    # -- collection ------------------------------------------------------------------------

    def note_case(self, nodeid: str, case: Case) -> None:
        """A case whose items are about to be collected."""
        self.collected.setdefault(nodeid, _Collected(case))

    def note_broken(self, nodeid: str, text: str) -> None:
        """A file that did not load."""
        self.broken[nodeid] = text

    def settle(self, items: list[pytest.Item]) -> None:
        """Remember which items are left after every deselection."""
        from pytest_evarness.plugin.nodes import InvariantItem

        for collected in self.collected.values():
            collected.selected.clear()
            collected.left = 0
        for item in items:
            if isinstance(item, InvariantItem):
                assert item.parent is not None
                collected = self.collected[item.parent.nodeid]
                collected.selected.add(item.planned.id)
                collected.left += 1

    def build_plan(self) -> dict[str, Any]:
        """The plan part of the seal: the same in every process that collected the same files."""
        from pytest_evarness.bundle.seal import build_plan
        from pytest_evarness.pipeline import planned_case

        selection = self.selection_words()
        cases = []
        for nodeid, collected in sorted(
            self.collected.items(), key=lambda pair: (pair[0].rpartition("::")[0],)
        ):
            deselected = {
                item.id: self.why_deselected.get(f"{nodeid}::{item.id}", selection)
                for item in collected.case.items
                if item.id not in collected.selected
            }
            cases.append(planned_case(collected.case, nodeid, deselected))
        return build_plan(cases, broken=sorted(self.broken.items()))

    def selection_words(self) -> str:
        """What on the command line left items out."""
        option = self.config.option
        words = []
        if getattr(option, "keyword", ""):
            words.append(f"-k {option.keyword}")
        if getattr(option, "markexpr", ""):
            words.append(f"-m {option.markexpr}")
        if getattr(option, "deselect", None):
            words.append("--deselect")
        if getattr(option, "lf", False):
            words.append("--lf")
        if any("::" in str(arg) for arg in self.config.args):
            words.append("single node ids")
        return "deselected by " + ", ".join(words) if words else "deselected"

    # -- running ---------------------------------------------------------------------------

    @cached_property
    def store(self) -> Store | None:
        """Where this session writes; None with ``--evarness-bundle none``."""
        from pytest_evarness.bundle.store import Store

        if options.setting(self.config, "bundle") == "none":
            return None
        path = options.path_setting(self.config, "bundle")
        bundle = path if path is not None else Store.default_bundle(self.config.rootpath)
        return Store.open(self.config.rootpath, bundle=bundle, session=self._session_name())

    def _session_name(self) -> str | None:
        workerinput = getattr(self.config, "workerinput", None)
        return None if workerinput is None else workerinput["evarness_session"]

    @cached_property
    def seal_digest(self) -> str | None:
        """Digest of the seal on disk; workers read it there."""
        if self.seal is not None:
            return str(self.seal["digest"])
        if self.store is None:
            return None
        from pytest_evarness.pipeline import read_seal_digest

        return read_seal_digest(self.store.early_seal)

    def show(self, nodeid: str, case: Case, planned: PlannedItem) -> Shown:
        """Run and judge the case if that has not happened yet, then say how one item shows."""
        from pytest_evarness.plugin.showing import show

        collected = self.collected[nodeid]
        first = collected.result is None
        if collected.result is None:
            collected.result = self._run(case, nodeid)
        result = collected.result
        index = next(i for i, item in enumerate(case.items) if item.id == planned.id)
        shown = show(case, planned, result.judgement.findings[index], result.judgement)
        if first:
            self._keep(nodeid, result, shown.payload)
        return shown

    def _run(self, case: Case, nodeid: str) -> CaseResult:
        store = self.store
        return self.engine.run(case, logs=store, seal=self.seal_digest)

    def _keep(self, nodeid: str, result: CaseResult, payload: dict[str, Any]) -> None:
        from pytest_evarness.pipeline import case_record

        record = case_record(result, nodeid)
        if is_worker(self.config):
            payload["record"] = record.as_record()
            payload["case"] = nodeid
            payload["mirror"] = self.engine.mirror_facts
        else:
            self.records[nodeid] = record

    def release(self, nodeid: str) -> None:
        """Drop a case's result after its last item."""
        collected = self.collected[nodeid]
        collected.left -= 1
        if collected.left <= 0:
            collected.result = None

    def finding_of(self, nodeid: str, item: str) -> Finding | None:
        """A finding of a case that has been judged."""
        record = self.records.get(nodeid)
        if record is None:
            return None
        return next((finding for finding in record.findings if finding.id == item), None)

    # -- reports ---------------------------------------------------------------------------

    def take_report(self, report: pytest.TestReport) -> None:
        """Keep what the summary and the bundle are made of."""
        payload = getattr(report, "evarness", None)
        if not isinstance(payload, dict):
            return
        record = payload.pop("record", None)
        if record is not None:
            from pytest_evarness.bundle.statement import CaseRecord

            self.records.setdefault(payload["case"], CaseRecord.from_record(record))
            self.mirror_facts = payload.pop("mirror", [])
        self.reported.add(report.nodeid)
        category = payload.get("category")
        self.blocking = self.blocking or payload["how"] == "error"
        name = (
            category
            or {"passed": "passed", "failed": "failed", "skipped": "skipped"}[report.outcome]
        )
        self.outcomes[name] = self.outcomes.get(name, 0) + 1
        if category in ("missed", "indeterminate"):
            self.shown_texts.append((category, report.nodeid, payload["text"]))

    def found_line(self) -> str:
        """Plug-in, scenarios, cases, contracts and the key in use."""
        from pytest_evarness import __version__

        files = {nodeid.split("::", 1)[0] for nodeid in self.collected}
        contracts = {
            item.id
            for collected in self.collected.values()
            for item in collected.case.items
            if item.kind in ("contract", "trace")
        }
        counts = (
            f"{len(files) + len(self.broken)} scenarios, {len(self.collected)} cases,"
            f" {len(contracts)} contracts"
        )
        return f"evarness: {__version__}, {counts}, {options.key_words(self.config)}"

    # -- seal and bundle -------------------------------------------------------------------

    @cached_property
    def publisher(self) -> Publisher | None:
        """Seals and writes; None with ``--evarness-bundle none``."""
        from pytest_evarness.pipeline import Publisher

        store = self.store
        if store is None:
            return None
        key = options.path_setting(self.config, "key")
        return Publisher(
            store,
            registry=self.engine.registry,
            root=self.config.rootpath,
            rerun=options.setting(self.config, "rerun") or "mirror",
            events=options.setting(self.config, "bundle-events") or "full",
            strict_vacuity=bool(options.setting(self.config, "strict-vacuity")),
            key=key,
            unsigned=bool(options.setting(self.config, "unsigned")),
            home=home_folder(),
        )

    def write_seal(self, plan: dict[str, Any]) -> None:
        """Put the seal on disk before the first run.

        Raises:
            pytest.Exit: With status 4: without a seal nothing may run.
        """
        self.plan = plan
        if not plan["plan"] and not plan["broken"]:
            return
        from pytest_evarness.errors import EvarnessError

        try:
            if self.publisher is not None:
                self.seal = self.publisher.write_seal(plan)
        except (EvarnessError, OSError) as error:
            pytest.exit(f"evarness: the seal cannot be written: {error}", returncode=4)

    def write_outputs(self) -> list[str]:
        """Write the bundle and the reports; one sentence for each that could not be written."""
        if self.seal is None or self.publisher is None:
            return []
        from pytest_evarness.errors import EvarnessError

        problems = []
        mirror = self.mirror_facts or self.engine.mirror_facts
        try:
            written = self.publisher.write_bundle(
                self.seal, list(self.records.values()), mirror=mirror
            )
        except (EvarnessError, OSError, ValueError) as error:
            return [f"evarness: the bundle cannot be written: {error}"]
        self.statement = written.statement
        self.written = written
        junit = options.path_setting(self.config, "junit")
        if junit is not None:
            from pytest_evarness.report.junit import junit_bytes

            try:
                junit.parent.mkdir(parents=True, exist_ok=True)
                junit.write_bytes(junit_bytes(written.statement))
            except (EvarnessError, OSError) as error:
                problems.append(f"evarness: --evarness-junit cannot be written: {error}")
        return problems

    def close(self) -> None:
        """Leave nothing running."""
        if "engine" in self.__dict__:
            self.engine.close()


def engine_settings(config: pytest.Config) -> Any:
    """What the session's options tell the engine."""
    from pytest_evarness.pipeline import RegisterHook, Settings

    return Settings(
        root=config.rootpath,
        contract_folders=options.folders(config, "evarness_contracts"),
        home=home_folder(),
        variables={k: v for k, v in os.environ.items() if k.startswith("EVARNESS_")},
        mode=options.setting(config, "mode"),
        approvals=tuple(options.setting(config, "approve") or ()),
        strict_vacuity=bool(options.setting(config, "strict-vacuity")),
        rerun=options.setting(config, "rerun") or "mirror",
        hooks=tuple(
            RegisterHook(module, file, function)
            for module, file, function in _register_hooks(config)
        ),
    )


def _register_hooks(config: pytest.Config) -> list[tuple[str, str, Any]]:
    """Implementations of ``pytest_evarness_register``, named by module and file, in name order."""
    hooks = []
    for implementation in config.hook.pytest_evarness_register.get_hookimpls():
        plugin = implementation.plugin
        module = getattr(plugin, "__name__", type(plugin).__name__)
        file = getattr(plugin, "__file__", None) or ""
        function = implementation.function
        hooks.append((str(module), str(file), lambda registry, f=function: f(registry=registry)))
    return sorted(hooks, key=lambda hook: hook[:2])


def home_folder() -> Path | None:
    """``~/.evarness``, or None for a user without a home."""
    try:
        return Path.home() / ".evarness"
    except RuntimeError:
        return None
