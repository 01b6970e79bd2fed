"""Hooks of a session in which scenarios turned up; registered by the first of them."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.plugin import options
from pytest_evarness.plugin.corpora import CorpusItem
from pytest_evarness.plugin.nodes import InvariantItem, library_load_items
from pytest_evarness.plugin.once import Once
from pytest_evarness.plugin.showing import LETTERS
from pytest_evarness.plugin.state import is_worker
from pytest_evarness.plugin.text import clean

if TYPE_CHECKING:
    import warnings

    from pytest_evarness.plugin.state import SessionState

__all__ = ["SessionHooks"]


class SessionHooks:
    """Everything that needs the session's state."""

    def __init__(self, state: SessionState) -> None:
        self.state = state
        # Names of the secrets of all cases that were judged so far.
        self.secrets: set[str] = set()

    # -- collection ------------------------------------------------------------------------

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Remember what was left out; the words that did it are those of the command line."""
        words = self.state.selection_words()
        for item in items:
            if isinstance(item, InvariantItem):
                self.state.why_deselected[item.nodeid] = words

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        """Put broken files back: no selection may make a session beside them green."""
        for file in self.state.passed_over():
            cases = file.open()
            if isinstance(cases, str):
                self.state.note_broken(file.nodeid, cases)
                file.load_item(cases)
        if not session.config.getoption("collectonly", False):
            library_load_items(session, self.state)
        missing = [item for item in self.state.load_items if item not in items]
        if missing:
            items[:0] = missing

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Settle the plan and seal it before anything runs."""
        self.state.settle(session.items)
        if session.config.getoption("collectonly", False):
            return
        if is_worker(session.config):
            from pytest_evarness.plugin import parallel

            parallel.write_plan(self.state)
        else:
            state = self.state
            state.write_seal(state.build_plan(), secrets=state.secret_names())

    def pytest_report_collectionfinish(self, config: pytest.Config) -> list[str]:
        """How much was found, before anything runs; where nothing is to run, for what it is."""
        lines = [self.state.found_line()]
        if config.getoption("collectonly", False):
            from pytest_evarness.plugin.applying import applying_lines

            lines += applying_lines(one.case for one in self.state.collected.values())
        return lines

    # -- reports ---------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let the finding travel on the report: exactly JSON, so that it crosses processes."""
        report = yield
        if isinstance(item, InvariantItem) and item.case.compiled.secrets:
            from pytest_evarness.plugin.captured import report_without_secrets

            self.secrets.update(item.case.compiled.secrets)
            report_without_secrets(report, item.case.compiled.secrets)
        payload = _payload_of(item)
        if payload is not None:
            decisive = call.when == "call" or (call.when == "setup" and not report.passed)
            if decisive:
                report.evarness = payload  # type: ignore[attr-defined]
                skips = report.skipped and payload["how"] == "skip"
                if skips and isinstance(item, InvariantItem):
                    _, line, _ = item.reportinfo()
                    place = item.planned.path or str(item.nodeid.split("::", 1)[0])
                    report.longrepr = (place, line + 1, item.skip_reason)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage) -> None:
        """No warning of a case shows a secret; pytest tells it after the item's reports."""
        if self.secrets:
            from pytest_evarness.plugin.captured import warning_without_secrets

            warning_without_secrets(warning_message, sorted(self.secrets))

    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> tuple[str, str, Any] | None:
        """Our own categories; the report's outcome stays one of pytest's."""
        payload = getattr(report, "evarness", None)
        category = payload.get("category") if isinstance(payload, dict) else None
        if category is None:
            return None
        letter, word = LETTERS[category]
        colour = "red" if report.failed else "yellow"
        return category, letter, (word, {colour: True})

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what the summary and the bundle are made of."""
        config = self.state.config
        if is_worker(config):
            return
        self.state.take_report(report)
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        if self.state.blocking and terminal is not None:
            # pytest ends in red where there is a key "error", and in yellow for categories that
            # it does not know; an empty list counts nothing.
            terminal.stats.setdefault("error", [])

    # -- end -------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write bundle and reports in the process that saw everything; never raise."""
        state = self.state
        state.close()
        if is_worker(session.config):
            return
        session.config.pluginmanager.register(Once(state.broken), "evarness-once")
        problems = []
        # After a usage error nothing was meant to run: the bundle of the session before stays.
        is_wrong_use = session.exitstatus == pytest.ExitCode.USAGE_ERROR
        if not session.config.getoption("collectonly", False) and not is_wrong_use:
            try:
                problems = state.write_outputs()
                problems.extend(self._unaccounted(session))
                problems.extend(self._unexercised())
            except Exception as error:  # noqa: BLE001 - pytest would lose its whole summary
                trace = "".join(traceback.format_exception(error))
                problems = [f"evarness: an error inside pytest-evarness:\n{trace}"]
        green = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        # A broken file fails by its item; this holds where another plug-in took the item out.
        if green and (problems or state.broken):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            terminal = session.config.pluginmanager.get_plugin("terminalreporter")
            if terminal is not None:
                terminal.stats.setdefault("error", [])  # ends in red
        if problems or state.broken or state.is_red:
            options.must_fail(session.config)
        state.notes.extend(problems)
        if problems and not _has_summary(session.config):
            sys.stderr.write("\n".join(clean(problem) for problem in problems) + "\n")

    def _unaccounted(self, session: pytest.Session) -> list[str]:
        """Sentences for what would be green and must not be."""
        if session.exitstatus != pytest.ExitCode.OK:
            return []
        from pytest_evarness.plugin.account import unaccounted

        return unaccounted(self.state)

    def _unexercised(self) -> list[str]:
        """The sentence for a session that exercised less than is demanded."""
        from pytest_evarness.plugin.coverage import coverage_problem

        problem = coverage_problem(self.state)
        return [] if problem is None else [problem]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Lead with validity: invalid cases, then indeterminate ones, then valid ones."""
        from pytest_evarness.plugin.summary import write_summary

        write_summary(self.state, terminalreporter)

    def pytest_unconfigure(self) -> None:
        """Leave nothing running, whatever ended the session."""
        from pytest_evarness.plugin import plain

        self.state.close()
        # What comes behind is pytest's own search for cycles, twice, through all that is left.
        self.state.let_go()
        plain.remove()


def _payload_of(item: pytest.Item) -> dict[str, Any] | None:
    """What an item of ours found; None before that, and for everything else."""
    from pytest_evarness.plugin.trials import OverlayTestItem

    return item.payload if isinstance(item, InvariantItem | CorpusItem | OverlayTestItem) else None


def _has_summary(config: pytest.Config) -> bool:
    return config.pluginmanager.has_plugin("terminalreporter") and not config.getoption(
        "no_summary", False
    )
