"""The state of one session in one process: what was collected, what ran, what is to be written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.plugin import options
from pytest_evarness.plugin.text import clean, one_line

if TYPE_CHECKING:
    from pytest_evarness.bundle.exercise import Exercise
    from pytest_evarness.bundle.statement import CaseRecord
    from pytest_evarness.bundle.store import Store
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.pipeline import CaseResult, Engine, Publisher
    from pytest_evarness.plugin.nodes import LoadItem, ScenarioFile
    from pytest_evarness.scenario.case import Case

__all__ = ["SessionState", "Shown", "is_worker"]

MAX_WARNINGS = 20

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
    """A case that was collected.

    Attributes:
        selected: Ids of its items that are left after every deselection.
        waiting: Those of them that have not been shown yet.
        result: Kept until nothing waits for it.
        trouble: Why it cannot be judged; each of its items says so, and none tries again.
    """

    case: Case
    selected: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    result: CaseResult | None = None
    trouble: str | None = None


class SessionState:
    """Everything of ours that one process of a session knows."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.collected: dict[str, _Collected] = {}
        self.broken: dict[str, str] = {}
        self.files: list[ScenarioFile] = []
        self.opened: set[str] = set()
        self.left_out: dict[str, str] = {}
        self.left_out_broken: dict[str, str] = {}
        self._visited: set[str] = set()
        self.load_items: list[LoadItem] = []
        self.why_deselected: dict[str, str] = {}
        self.records: dict[str, CaseRecord] = {}
        self.seal: Mapping[str, Any] | None = None
        self.plan: Mapping[str, Any] | None = None
        self.reviews: list[dict[str, str]] = []
        self.mirror_facts: list[str] = []
        self.outcomes: dict[str, int] = {}
        self.notes: list[str] = []
        self.failed: set[str] = set()
        self.blocking = False
        self.is_red = False
        self.crashed: set[str] = set()
        self.bundle_lines: tuple[str, ...] = ()
        self.exercises: list[Exercise] = []
        self.changed: list[str] = []
        self.tried: list[Contract] = []
        self.gone: list[str] = []
        self.shown_texts: list[tuple[str, str, str]] = []

    @classmethod
    def of(cls, config: pytest.Config) -> SessionState:
        """The session's state, made when it is first asked for."""
        state = config.stash.get(KEY, None)
        if state is None:
            from pytest_evarness.plugin.ending import watch
            from pytest_evarness.plugin.session import SessionHooks

            watch(config)
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

    @property
    def broken_plugins(self) -> list[tuple[str, str]]:
        """Plug-ins and hooks that raised when they registered, with what they raised."""
        return self.engine.registry.broken if "engine" in self.__dict__ else []

    def load(self, path: Path) -> list[Case]:
        """Compile a scenario file.

        Raises:
            InputError: With every mistake of the file.
        """
        return self.engine.load(path)

    def library_files(self) -> list[Path]:
        """Files of the project's libraries that have mistakes; empty where nothing was loaded."""
        if not self.collected or not self.engine.library.errors:
            return []
        from pytest_evarness.source.walk import yaml_below

        files: list[Path] = []
        for folder in options.folders(self.config, "evarness_contracts"):
            files.extend(yaml_below(folder, self.config.rootpath))
        return sorted(files)

    def other_library_errors(self) -> list[tuple[str, str]]:
        """``(name, mistakes)`` of libraries that are no files of the project's folders."""
        if not self.collected or not self.engine.library.errors:
            return []
        from pytest_evarness.pipeline import broken_libraries

        own = {
            path.relative_to(self.config.rootpath).as_posix()
            for path in self.library_files()
            if path.is_relative_to(self.config.rootpath)
        }
        return [
            (name, text)
            for name, text in broken_libraries(self.engine.library.errors)
            if name not in own and name not in self.broken
        ]

    def library_error(self, path: Path) -> str | None:
        """The mistakes of a library file as it was read, what other files say of its ids included.

        None where it has none.
        """
        from pytest_evarness.errors import InputError
        from pytest_evarness.source.mistake import raise_all

        library = self.engine.library
        try:
            file = library.file_at(path)
            raise_all([*library.mistakes.get(path, ()), *(file.errors if file else ())])
        except InputError as error:
            return str(error)
        return None

    def library_contracts(self, path: Path) -> list[Contract]:
        """The contracts of a library file that have a corpus, in its order."""
        file = self.engine.library.file_at(path)
        contracts = [] if file is None else list(file.contracts.values())
        found = [one for one in contracts if one.corpus is not None]
        self.tried.extend(found)
        return found

    # -- collection ------------------------------------------------------------------------

    def note_case(self, nodeid: str, case: Case) -> None:
        """A case whose items are about to be collected."""
        self.collected.setdefault(nodeid, _Collected(case))

    def note_visited(self, path: Path) -> None:
        """A file that was looked at, whatever came of it."""
        self._visited.add(_place(path))

    def was_visited(self, path: Path) -> bool:
        """Whether pytest, or we, have been there; also by another way to the same folder."""
        return _place(path) in self._visited

    def note_left_out(self, nodeid: str, why: str) -> None:
        """A scenario file that the user does not want to be collected."""
        self.left_out[nodeid] = why

    def note_broken(self, nodeid: str, text: str) -> None:
        """A file that did not load."""
        self.broken[nodeid] = text

    def note_opened(self, nodeid: str) -> bool:
        """A scenario file that was looked into; False where it had been before."""
        if nodeid in self.opened:
            return False
        self.opened.add(nodeid)
        options.count_found(self.config)
        return True

    def warnings(self) -> list[str]:
        """What lint remarks about the cases that were collected and the libraries, once each."""
        found: dict[str, None] = {}
        for collected in self.collected.values():
            found.update(dict.fromkeys(collected.case.warnings))
        if self.collected:
            told = "\n".join(text for _, text in self.misspelt_libraries())
            unmet = map(str, self.engine.library.unmet())
            found.update((text, None) for text in unmet if text not in told)
            found.update(dict.fromkeys(self._unread_libraries()))
        found.update(dict.fromkeys(self.gone))
        shown = list(found)[:MAX_WARNINGS]
        if len(found) > len(shown):
            shown.append(f"{len(found) - len(shown)} more; 'pytest-evarness lint' lists them all")
        return shown

    def misspelt_libraries(self) -> list[tuple[Path, str]]:
        """Libraries whose contract is for a tool by a name that nearly is one of a tool.

        It would judge nothing, and nobody would see that. Told only where every scenario of the
        project was looked at: the tool may be one of a scenario that was not.
        """
        if not self.collected or not self._is_whole:
            return []
        root = self.config.rootpath
        texts: dict[Path, list[str]] = {}
        for error in self.engine.library.misspelt():
            name = error.where.path if error.where is not None else None
            path = root / (name or "")
            if path.is_file():
                texts.setdefault(path, []).append(str(error))
        return [(path, "\n".join(found)) for path, found in sorted(texts.items())]

    @cached_property
    def _is_whole(self) -> bool:
        from pytest_evarness.scenario.collect import find_scenarios

        # Visited is not enough: pytest looks at the neighbours of a file that was named.
        opened = {_place(self.config.rootpath / nodeid) for nodeid in self.opened}
        return all(
            _place(path) in opened
            for folder in options.folders(self.config, "evarness_scenarios")
            if folder.is_dir()
            for path in find_scenarios(folder)
        )

    def _gone_libraries(self, store: Store) -> list[str]:
        """Libraries of the project that were in force in the session before and are gone."""
        folders = options.folders(self.config, "evarness_contracts")
        root = self.config.rootpath
        rows = (row for row in store.earlier_overlays() if row["name"] == "contracts")
        return [
            f"the contracts of '{one_line(label)}' judge nothing any more: the file was in force in"
            " the session before, and is not there"
            for label in sorted({str(row["label"]) for row in rows})
            if any((root / label).is_relative_to(folder) for folder in folders)
            and not (root / label).exists()
        ]

    def _unread_libraries(self) -> list[str]:
        nodeids = {nodeid.rpartition("::")[0] for nodeid in self.collected}
        files = (self.config.rootpath / one for one in nodeids)
        return self.engine.unread_libraries(files, in_root=True)

    def passed_over(self) -> list[ScenarioFile]:
        """Files that were asked for and not looked into, such as those that ``--lf`` skips."""
        asked = options.asked_paths(self.config)
        return [
            file
            for file in self.files
            if file.nodeid not in self.opened
            and file.nodeid not in self.left_out
            and any(file.path.is_relative_to(path) for path in asked)
        ]

    def settle(self, items: list[pytest.Item]) -> None:
        """Remember which items are left after every deselection."""
        from pytest_evarness.plugin.account import SKIPPED_BY_MARK, is_skipped_by_mark
        from pytest_evarness.plugin.nodes import InvariantItem

        for collected in self.collected.values():
            collected.selected.clear()
            collected.waiting.clear()
        for item in items:
            if isinstance(item, InvariantItem):
                assert item.parent is not None
                collected = self.collected[item.parent.nodeid]
                collected.waiting.add(item.planned.id)
                if is_skipped_by_mark(item):
                    self.why_deselected[item.nodeid] = SKIPPED_BY_MARK
                else:
                    collected.selected.add(item.planned.id)

    def build_plan(self) -> dict[str, Any]:
        """The plan part of the seal: the same in every process that collected the same files."""
        from pytest_evarness.bundle.seal import build_plan
        from pytest_evarness.pipeline import planned_case

        selection = self.selection_words()
        cases = []
        # By file, so that the order of arguments does not show; within a file as it is written.
        for nodeid, collected in sorted(
            self.collected.items(), key=lambda pair: pair[0].rpartition("::")[0]
        ):
            words = self.left_out.get(nodeid.rpartition("::")[0], selection)
            deselected = {
                item.id: self.why_deselected.get(f"{nodeid}::{item.id}", words)
                for item in collected.case.items
                if item.id not in collected.selected
            }
            cases.append(planned_case(collected.case, nodeid, deselected))
        texts = {**self.left_out_broken, **self.broken}
        broken = [(clean(nodeid), clean(text)) for nodeid, text in sorted(texts.items())]
        rows = (self.engine.library.corpus_row(one) for one in self.tried)
        return build_plan(cases, broken=broken, corpora=[row for row in rows if row is not None])

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
        for name, flag in (("lf", "--lf"), ("stepwise", "--sw")):
            if getattr(option, name, False):
                words.append(flag)
        if any("::" in str(arg) for arg in self.config.args):
            words.append("single node ids")
        return clean("deselected by " + ", ".join(words)) if words else "deselected"

    # -- running ---------------------------------------------------------------------------

    @cached_property
    def store(self) -> Store | None:
        """Where this session writes; None with ``--evarness-bundle none``.

        Raises:
            OSError: The state folder cannot be made.
        """
        from pytest_evarness.bundle.store import Store
        from pytest_evarness.plugin import parallel

        if options.setting(self.config, "bundle") == "none":
            return None
        path = options.path_setting(self.config, "bundle")
        bundle = path if path is not None else Store.default_bundle(self.config.rootpath)
        session = parallel.session_name(self.config)
        store = Store.open(self.config.rootpath, bundle=bundle, session=session)
        if session is not None and not is_worker(self.config):
            store.drop_old()
        return store

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
        from pytest_evarness.errors import EvarnessError
        from pytest_evarness.plugin.showing import show, show_trouble

        collected = self.collected[nodeid]
        if collected.trouble is not None:
            return show_trouble(collected.trouble)
        result = collected.result
        if result is None:
            # Stands if what follows raises: a bug of ours is shown once, in full, and is not met
            # again for each further item of the case.
            collected.trouble = (
                "the case could not be judged: an error inside pytest-evarness,"
                f" shown in full at {nodeid}::{planned.id}"
            )
            try:
                result = self._run(case)
            except EvarnessError as error:
                collected.trouble = str(error)
                return show_trouble(collected.trouble)
            except KeyboardInterrupt as error:
                self.notes.append(self._interrupted(nodeid, error))
                raise
        index = next(i for i, item in enumerate(case.items) if item.id == planned.id)
        finding = result.judgement.findings[index]
        shown = show(
            case,
            planned,
            finding,
            result.judgement,
            trace_digest=result.run_a.trace_digest,
            raised=self._raised(planned, result),
        )
        if collected.result is None:
            self._keep(nodeid, result, shown.payload)
            collected.result, collected.trouble = result, None
        return shown

    def _interrupted(self, nodeid: str, error: BaseException) -> str:
        """Where a session was when it was interrupted: pytest names no case of ours."""
        from pytest_evarness.core.raised import lines_of, own_place

        notes = getattr(error, "__notes__", [])
        # pytest would write it behind the word in its own last line.
        node = notes.pop() if notes else None
        place = own_place(lines_of(error), self.config.rootpath)
        parts = [one_line(nodeid, 400), node, None if place is None else f"at {place}"]
        return f"evarness: interrupted in {', '.join(part for part in parts if part)}"

    def _raised(self, planned: PlannedItem, result: CaseResult) -> str | None:
        """Where the step raised whose error ended run A, told beside the end that was declared."""
        if planned.kind != "expect" or result.run_a.status != "failed":
            return None
        from pytest_evarness.core.raised import own_place

        return own_place(result.run_a.raised, self.config.rootpath)

    def _run(self, case: Case) -> CaseResult:
        store = self.store
        if store is not None and self.seal_digest is None:
            from pytest_evarness.errors import EvarnessError

            raise EvarnessError("the session has no seal, and nothing may run without one")
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

    def release(self, nodeid: str, item: str) -> None:
        """Drop a case's result after its last item."""
        collected = self.collected[nodeid]
        collected.waiting.discard(item)
        if not collected.waiting:
            collected.result = None

    # -- reports ---------------------------------------------------------------------------

    def take_report(self, report: pytest.TestReport) -> None:
        """Keep what the summary and the bundle are made of."""
        if report.failed:
            self.failed.add(report.nodeid)
        if self.reviews:
            self._add_reviews(report)
        payload = getattr(report, "evarness", None)
        if not isinstance(payload, dict):
            self._take_foreign(report)
            return
        record = payload.pop("record", None)
        if record is not None:
            from pytest_evarness.bundle.statement import CaseRecord

            mirror = payload.pop("mirror", [])
            if payload["case"] not in self.crashed:
                self.records.setdefault(payload["case"], CaseRecord.from_record(record))
                self.mirror_facts = mirror
        how, category = payload["how"], payload["category"]
        self.is_red = self.is_red or report.failed
        self.blocking = self.blocking or how == "error"
        name = category or {"error": "error"}.get(how) or report.outcome
        self.outcomes[name] = self.outcomes.get(name, 0) + 1
        if category in ("missed", "indeterminate"):
            self.shown_texts.append((category, report.nodeid, payload["text"]))

    def _add_reviews(self, report: pytest.TestReport) -> None:
        """To every report of the item: pytest's XML is written from the last of them."""
        from pytest_evarness.report.graded import review_line

        case, _, item = report.nodeid.rpartition("::")
        report.user_properties += [
            ("evarness.review", review_line(review))
            for review in self.reviews
            if (review["case"], review["invariant"]) == (case, item)
        ]

    def _take_foreign(self, report: pytest.TestReport) -> None:
        """An item of ours that ended before it could say anything, such as in a killed worker.

        Its case counts as not judged, whatever other items of it reported before or report later:
        nobody can say what the missing report would have said.
        """
        if not report.failed or report.when == "teardown":
            return
        nodeid = report.nodeid.rpartition("::")[0]
        if nodeid in self.planned_nodeids:
            self.is_red = True
            self.crashed.add(nodeid)
            self.records.pop(nodeid, None)
            self.outcomes["error"] = self.outcomes.get("error", 0) + 1

    @cached_property
    def planned_nodeids(self) -> frozenset[str]:
        """Node ids of the sealed plan's cases; asked for only after it was sealed."""
        plan = self.plan["plan"] if self.plan is not None else ()
        return frozenset(case["nodeid"] for case in plan)

    def found_line(self) -> str:
        """Plug-in, scenarios, cases, contracts and the key in use."""
        from pytest_evarness import __version__

        contracts = {
            item.id
            for collected in self.collected.values()
            for item in collected.case.items
            if item.kind in ("contract", "trace")
        }
        counts = ", ".join(
            f"{number} {word}" if number != 1 else f"1 {word.removesuffix('s')}"
            for number, word in (
                (len(self.opened), "scenarios"),
                (len(self.collected), "cases"),
                (len(contracts), "contracts"),
            )
        )
        return f"evarness: {__version__}, {counts}, {options.key_words(self.config)}"

    # -- seal and bundle -------------------------------------------------------------------

    @cached_property
    def publisher(self) -> Publisher | None:
        """Seals and writes; None with ``--evarness-bundle none``."""
        from pytest_evarness.pipeline import Publisher, home_folder

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
            mode=options.setting(self.config, "mode") or None,
            diagnose=bool(options.setting(self.config, "diagnose")),
            # No plan holds so many, and every JSON reader has the number.
            min_coverage=(
                options.setting(self.config, "min-coverage")
                if options.min_coverage(self.config)
                else None
            ),
            min_scenarios=min(options.min_scenarios(self.config), 10**9),
            key=key,
            unsigned=bool(options.setting(self.config, "unsigned")),
            home=home_folder(),
        )

    def secret_names(self) -> list[str]:
        """Names of the secrets of all cases that were collected."""
        cases = (collected.case.compiled for collected in self.collected.values())
        return sorted({name for compiled in cases for name in compiled.secrets})

    def write_seal(self, plan: dict[str, Any], *, secrets: Sequence[str]) -> None:
        """Put the seal on disk before the first run.

        Args:
            secrets: Names of the secrets of its cases.

        Raises:
            pytest.UsageError: Without a seal nothing may run, nor beside a file of reviews that
                cannot be read.
        """
        from pytest_evarness.errors import EvarnessError

        self.plan = plan
        for row in plan["broken"]:
            # The controller of xdist collects nothing itself.
            if row["file"] not in self.left_out_broken:
                self.broken.setdefault(row["file"], row["text"])
        if not plan["plan"] and not plan["broken"]:
            return
        unmet = options.decisions_for_nothing(
            self.config, plan["plan"]
        ) or options.diagnoses_nothing(self.config, plan["plan"])
        unmet = self._unknown_exporter() or unmet
        # The case may stand in a file that did not load, which is told and fails the session.
        if unmet is not None and not plan["broken"]:
            raise pytest.UsageError(f"evarness: {unmet}")
        from pytest_evarness.scenario.reviews import reviews_of

        try:
            self.reviews = reviews_of(self.config.rootpath, plan["plan"], secrets=secrets)
        except EvarnessError as error:
            raise pytest.UsageError(f"evarness: {clean(str(error))}") from None
        try:
            if self.publisher is not None:
                self.gone = self._gone_libraries(self.publisher.store)
                self.seal = self.publisher.write_seal(plan, reviews=self.reviews)
        except (EvarnessError, OSError) as error:
            raise pytest.UsageError(
                f"evarness: the seal cannot be written: {words(error)}"
            ) from None

    def _unknown_exporter(self) -> str | None:
        """The first exporter that is asked for and that no plug-in offers, as a sentence."""
        from pytest_evarness.errors import InputError

        for name, _ in options.exports(self.config):
            try:
                self.engine.registry.exporters.resolve(name)
            except InputError as error:
                fix = f"; try: {error.fix}" if error.fix else ""
                broken = [
                    f"; plug-in {one} did not load: {why}" for one, why in self.broken_plugins
                ]
                return one_line(f"--evarness-export: {error.problem}{fix}{''.join(broken)}", 1000)
        return None

    def write_outputs(self) -> list[str]:
        """Write the bundle and the reports; one sentence for each that could not be written."""
        if self.plan is not None:
            self.changed = self.engine.changed_libraries(self.plan)
        if self.records:
            from pytest_evarness.bundle.exercise import exercises_of, ran_of

            self.exercises = exercises_of(ran_of(self.records.values()), self.engine.registry)
        if self.seal is None or self.publisher is None:
            return []
        from pytest_evarness.errors import EvarnessError

        mirror = self.mirror_facts or self.engine.mirror_facts
        try:
            written = self.publisher.write_bundle(
                self.seal,
                list(self.records.values()),
                mirror=mirror,
                changed=self.changed,
                exercises=self.exercises,
            )
        except (EvarnessError, OSError) as error:
            return [f"evarness: the bundle cannot be written: {words(error)}"]
        # The words alone are kept: what a large session states is much, and nobody asks again.
        self.bundle_lines = written.lines
        return [*self._write_junit(written.statement), *self._write_exports(written.statement)]

    def _write_junit(self, statement: Mapping[str, Any]) -> list[str]:
        junit = options.path_setting(self.config, "junit")
        if junit is None:
            return []
        from pytest_evarness.errors import EvarnessError
        from pytest_evarness.report.junit import junit_bytes

        try:
            junit.parent.mkdir(parents=True, exist_ok=True)
            junit.write_bytes(junit_bytes(statement))
        except (EvarnessError, OSError) as error:
            return [f"evarness: --evarness-junit cannot be written: {words(error)}"]
        return []

    def _write_exports(self, statement: Mapping[str, Any]) -> list[str]:
        """One report for each ``--evarness-export``; none of them costs another."""
        from pytest_evarness.core.exchange import exported
        from pytest_evarness.errors import EvarnessError

        problems = []
        for name, place in options.exports(self.config):
            try:
                exporter = self.engine.registry.exporters.resolve(name)
                data = exported(name, exporter, statement)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
            except (EvarnessError, OSError) as error:
                text = f"evarness: --evarness-export {name} cannot be written: {words(error)}"
                problems.append(one_line(text, 1000))
        return problems

    def close(self) -> None:
        """Leave nothing running."""
        if "engine" in self.__dict__:
            self.engine.close()

    def let_go(self) -> None:
        """Forget what was collected and judged; everything has been written and told."""
        self.collected = {}
        self.records = {}
        self.seal = self.plan = None


def _place(path: Path) -> str:
    """The file by its folder's real path: a link to a file is a file of its own."""
    return os.path.join(os.path.realpath(path.parent), path.name)  # noqa: PTH118 - many, and fast


def words(error: Exception) -> str:
    """An error on one line; of a system's error its reason and the file's name alone."""
    if isinstance(error, OSError):
        # A file is written beside its place and renamed; the place is what the user knows.
        file = error.filename2 or error.filename
        name = f" ({Path(str(file)).name})" if file else ""
        return one_line(f"{error.strerror or type(error).__name__}{name}")
    return one_line(str(error), 1000)


def engine_settings(config: pytest.Config) -> Any:
    """What the session's options tell the engine."""
    from pytest_evarness.pipeline import RegisterHook, Settings, home_folder, own_variables

    return Settings(
        root=config.rootpath,
        contract_folders=options.folders(config, "evarness_contracts"),
        home=home_folder(),
        variables=own_variables(),
        mode=options.setting(config, "mode"),
        diagnose=bool(options.setting(config, "diagnose")),
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
        hooks.append((str(module), str(file), implementation.function))
    return sorted(hooks, key=lambda hook: hook[:2])
