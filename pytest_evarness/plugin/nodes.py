"""Collectors and items: a file, its cases, and one item for each thing that is judged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_evarness.plugin import options
from pytest_evarness.plugin.state import SessionState
from pytest_evarness.plugin.text import bounded, clean

if TYPE_CHECKING:
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.scenario.case import Case

__all__ = [
    "CaseCollector",
    "InvariantItem",
    "LoadItem",
    "OurFile",
    "ScenarioFile",
    "UnreadFolder",
    "collect_file",
]

LOAD_LIMIT = 30_000
"""Characters of one file's mistakes."""


def collect_file(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The collector for a scenario or library file; None for any other YAML file."""
    from pytest_evarness.scenario.collect import holds_overlay_tests, kind_to_collect

    config = parent.config
    scenario_folders = options.folders(config, "evarness_scenarios")
    kind = kind_to_collect(
        path,
        scenario_folders=scenario_folders,
        contract_folders=options.folders(config, "evarness_contracts"),
        is_named=path in options.named_on_command_line(config),
    )
    if options.is_another_way(config, path):
        return None
    state = SessionState.of(config)
    state.note_visited(path)
    if kind == "scenario":
        file = ScenarioFile.from_parent(parent, path=path, state=state)
        state.files.append(file)
        return file
    if kind == "library":
        return LibraryFile.from_parent(parent, path=path, state=state)
    if holds_overlay_tests(path, root=config.rootpath, folders=scenario_folders):
        from pytest_evarness.plugin.trials import OverlayFile

        return OverlayFile.from_parent(parent, path=path, state=state)
    if any(path.is_relative_to(folder) for folder in scenario_folders):
        line = _line_of_key(path)
        if line is not None:
            return MisplacedFile.from_parent(parent, path=path, state=state, line=line)
    return None


# Read before anything is parsed: fixtures and graphs are many, and hardly one is a scenario.
_KEY = re.compile(rb"""^(["']?)evarness\1[ \t]*:(?=[ \t\r\n]|\Z)""", re.MULTILINE)
_LOOKED_INTO = 1 << 20


def _line_of_key(path: Path) -> int | None:
    """The line of the key ``evarness`` in a file; None where it has none."""
    from pytest_evarness.scenario.collect import kind_of_file

    try:
        with path.open("rb") as stream:
            data = stream.read(_LOOKED_INTO)
    except OSError:
        return None
    found = _KEY.search(data)
    if found is None or kind_of_file(path) != "scenario":
        return None
    return data.count(b"\n", 0, found.start()) + 1


class OurFile(pytest.File):
    """A file of ours that may be broken."""

    def __init__(self, *, state: SessionState, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.state = state

    def broken(self, text: str) -> LoadItem:
        """The item ``load``; under ``--collect-only``, where no item runs, an error instead.

        Raises:
            CollectError: Under ``--collect-only``.
        """
        self.state.note_broken(self.nodeid, text)
        if self.config.getoption("collectonly", False):
            raise self.CollectError(clean(text))
        return self.load_item(text)

    def load_item(self, text: str) -> LoadItem:
        """The item that stands for a broken file."""
        item = LoadItem.from_parent(self, name="load", text=text)
        self.state.load_items.append(item)
        return item


class ScenarioFile(OurFile):
    """One scenario file: its children are cases, or one item ``load``."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Load and compile the file; nothing runs."""
        cases = self.open()
        if isinstance(cases, str):
            yield self.broken(cases)
        else:
            yield from cases

    def open(self) -> list[CaseCollector] | str:
        """The cases of the file, all of them noted for the plan; or its mistakes."""
        from pytest_evarness.errors import InputError

        if self.nodeid not in self.state.left_out:
            self.state.note_opened(self.nodeid)
        try:
            self.nodeid.encode("utf-8")
        except UnicodeEncodeError:
            return f"{self.nodeid}: the file's name is not UTF-8, so no report can name it"
        try:
            cases = self.state.load(self.path)
        except InputError as error:
            return str(error)
        collectors = []
        for case in cases:
            collector = CaseCollector.from_parent(self, name=case.id, case=case, state=self.state)
            # Noted here and not when its own items are collected: where one case of a file is
            # named on the command line, the others were left out, and the bundle says so.
            self.state.note_case(collector.nodeid, case)
            collectors.append(collector)
        return collectors

    def leave_out(self, why: str, *, is_planned: bool) -> None:
        """The user said that the file is not to be collected; the plan says so, if there is one."""
        self.state.note_left_out(self.nodeid, why)
        if not is_planned:
            return
        cases = self.open()
        if isinstance(cases, str):
            self.state.left_out_broken[self.nodeid] = f"{why}; it would not load: {cases}"


class LibraryFile(OurFile):
    """A contract library: its corpora, and one item ``load`` where it is broken."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Collect the corpora of the library as it was read when the session began."""
        text = self.state.library_error(self.path)
        if text is not None:
            yield self.broken(text)
            return
        from pytest_evarness.plugin.corpora import ContractCollector

        for contract in self.state.library_contracts(self.path):
            yield ContractCollector.from_parent(
                self, name=contract.id, contract=contract, state=self.state
            )


class UnreadFolder(OurFile):
    """A folder within ours that nobody looks into: one item ``load``."""

    def __init__(self, *, text: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.text = text

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Say that what lies there is neither run nor in force."""
        yield self.broken(self.text)


class MisplacedFile(OurFile):
    """A scenario that by its name or folder is read as something else: one item ``load``."""

    def __init__(self, *, line: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.line = line

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Say that nobody would run it."""
        from pytest_evarness.scenario.collect import EXCLUDED_NAMES

        if self.path.name in EXCLUDED_NAMES or ".cassette." in self.path.name:
            place, fix = f"the name '{self.path.name}'", "give the scenario another name"
        else:
            place, fix = "its folder", "move the scenario out of 'fixtures' and 'graphs'"
        yield self.broken(
            f"{self.nodeid}:{self.line}:1: a scenario is not collected from here (got the key"
            f" 'evarness'; {place} is for what scenarios refer to)\n  try: {fix}"
        )


def library_load_items(session: pytest.Session, state: SessionState) -> None:
    """Items for libraries that scenarios of this session could name and that are broken.

    Such a file may not be among the arguments; what it says about its contracts counts all the
    same, since a contract that cannot be read judges nothing.
    """
    known = {item.path for item in state.load_items}
    for path in state.library_files():
        if path in known:
            continue
        text = state.library_error(path)
        if text is not None:
            file = LibraryFile.from_parent(session, path=path, state=state)
            state.note_broken(file.nodeid, text)
            file.load_item(text)
    # One of another layer has no place among the project's files, and is red all the same.
    for name, text in state.other_library_errors():
        state.note_broken(name, text)
    for path, text in state.misspelt_libraries():
        file = LibraryFile.from_parent(session, path=path, state=state)
        state.note_broken(file.nodeid, text)
        file.load_item(text)


class CaseCollector(pytest.Collector):
    """One case of a scenario."""

    def __init__(self, *, case: Case, state: SessionState, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.case = case
        self.state = state
        for tag in case.tags:
            self.extra_keyword_matches.add(tag)
        for words in case.point_words:
            # The id says `provider-v0`; who wrote `sim:NAME` looks for that.
            self.extra_keyword_matches.add(words.partition("=")[2])

    def __repr__(self) -> str:
        """As ``--collect-only`` lists it, with what the id cannot spell."""
        words = "".join(f" {clean(one)}" for one in self.case.point_words)
        return f"<{type(self).__name__} {self.name}{words}>"

    def collect(self) -> Iterator[pytest.Item]:
        """One item for each planned judgement, in the plan's order."""
        for planned in self.case.items:
            yield InvariantItem.from_parent(
                self, name=planned.id, planned=planned, case=self.case, state=self.state
            )


# Many cases share their invariants: a mark is dear to make, and each one is kept by its item.
@lru_cache(maxsize=8)
def _plain_mark(name: str) -> pytest.MarkDecorator:
    return cast("pytest.MarkDecorator", getattr(pytest.mark, name))


@lru_cache(maxsize=8)
def _gate(severity: str) -> pytest.MarkDecorator:
    return pytest.mark.gate(severity=severity)


@lru_cache(maxsize=256)
def _contract(name: str) -> pytest.MarkDecorator:
    return pytest.mark.evarness_contract(id=name)


# Told three times for each item, and of few files.
_below = lru_cache(maxsize=64)(Path.joinpath)


class FindingFailed(Exception):  # noqa: N818 - shown to nobody
    """Carries the text of a failed finding to ``repr_failure``."""


class InvariantItem(pytest.Item):
    """One finding of one case. It only reports; the case is judged whole."""

    def __init__(
        self, *, planned: PlannedItem, case: Case, state: SessionState, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.planned = planned
        self.case = case
        self.state = state
        self.payload: dict[str, Any] | None = None
        self.skip_reason = ""
        self.add_marker(_plain_mark("evarness"))
        if planned.gate:
            self.add_marker(_gate(str(planned.severity.value)))
        elif not planned.decides:
            self.add_marker(_plain_mark("weighted"))
        if planned.kind in ("contract", "trace"):
            self.add_marker(_contract(planned.id))

    def setup(self) -> None:
        """Judge the case if this is its first item that needs it, then show this item's outcome."""
        assert self.parent is not None
        shown = self.state.show(self.parent.nodeid, self.case, self.planned)
        self.payload = shown.payload
        self.user_properties.extend(shown.properties)
        if shown.how == "error":
            pytest.fail(shown.text, pytrace=False)
        if shown.how == "skip":
            self.skip_reason = shown.text
            pytest.skip(shown.text)

    def runtest(self) -> None:
        """Raise what the item found."""
        if self.payload is not None and self.payload["how"] == "fail":
            raise FindingFailed(self.payload["text"])

    def teardown(self) -> None:
        """Let go of the case's result after its last item."""
        assert self.parent is not None
        self.state.release(self.parent.nodeid, self.planned.id)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A failed finding is its own text; everything else is shown in full."""
        if isinstance(excinfo.value, FindingFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """File and line of the invariant; a dot of an id would end up as ``::`` in the terminal."""
        path = _below(self.config.rootpath, self.planned.path) if self.planned.path else self.path
        name = f"{self.case.id}::{self.planned.id}"
        return path, max(self.planned.line - 1, 0), name.replace(".", "-")


class LoadItem(pytest.Item):
    """A file that could not be loaded: it errors with every mistake of the file."""

    def __init__(self, *, text: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.text = text
        # Every marker of ours, so that no selection by marker can pass over a broken file.
        self.add_marker("evarness")
        self.add_marker(pytest.mark.gate(severity="critical"))
        self.add_marker("weighted")
        self.add_marker(pytest.mark.evarness_contract(id="load"))

    def setup(self) -> None:
        """Error with the text; it is complete in itself."""
        self.user_properties.append(("evarness.outcome", "load"))
        text = bounded(self.text, LOAD_LIMIT, whole="pytest-evarness lint shows all")
        pytest.fail(text, pytrace=False)

    def runtest(self) -> None:
        """Never reached: the set-up errors."""

    def reportinfo(self) -> tuple[Path, int, str]:
        """The file, at its first mistake."""
        first = re.match(r"[^\n]*?:(\d+):\d+: ", self.text)
        return self.path, int(first[1]) - 1 if first else 0, "load"
