"""The pytest door: hooks only, each one a hand-over to a module of ours. PYTEST_DONT_REWRITE.

pytest imports this module in every run of every project that has the package installed, so it
imports nothing of weight before the first scenario file turns up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_evarness.plugin import options

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path
    from typing import Any

    from pytest_evarness.plugin.fixture import EvarnessFixture

MARKERS = (
    "evarness: every item of pytest-evarness",
    "gate(severity): an item of the hard verdict; severity is info, minor, major or critical",
    "weighted: an invariant that does not decide alone",
    "evarness_contract(id): judged by the contract of this id",
)

_open: list[pytest.Config] = []
"""Sessions of this process that have not ended, the outer one first."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer ``--evarness-*`` and their ini twins."""
    options.add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Offer ``pytest_evarness_register`` to conftests."""
    from pytest_evarness.plugin import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; refuse options that cannot be used before anything is collected."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    options.check_options(config)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say that the plugin is here and whose key will sign."""
    if not options.is_relevant(config):
        return None
    from pytest_evarness import __version__

    return f"evarness: {__version__}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Keep pytest from folders of ours that it has met, or that a link has outside the root."""
    return options.is_another_way(config, collection_path) or None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect scenario and library files."""
    if not options.may_be_ours(parent.config, file_path):
        return None
    from pytest_evarness.plugin import plain

    plain.install()
    from pytest_evarness.plugin.nodes import collect_file

    return collect_file(file_path, parent)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(
    config: pytest.Config,
) -> Generator[None, int | pytest.ExitCode | None, int | pytest.ExitCode | None]:
    """Around everything: no hook of somebody's makes green what is red."""
    _open.append(config)
    code: int | pytest.ExitCode | None = pytest.ExitCode.TESTS_FAILED
    try:
        try:
            given = yield
        except SystemExit as ended:
            # Of a hook that is called when all is over: pytest lets it pass, and its code counts.
            given = ended.code if isinstance(ended.code, int) or ended.code is None else 1
            code = options.final_code(config, given)
            if code == given:
                raise
        else:
            code = options.final_code(config, given)
        return code
    finally:
        _open.pop()
        options.end(config, code, is_inner=bool(_open))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Be there for every later hook, also where pytest itself visits none of our files."""
    config = session.config
    if config.pluginmanager.has_plugin("dsession"):
        return  # the controller of xdist collects nothing
    if options.is_here(config):
        from pytest_evarness.plugin import plain

        plain.install()
        from pytest_evarness.plugin.state import SessionState

        SessionState.of(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Collect files of ours that lie in folders which pytest does not look into."""
    if options.is_here(session.config):
        from pytest_evarness.plugin.unvisited import collect_unvisited

        collect_unvisited(session, items)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session that found fewer scenarios than asked for, or had nothing to exercise."""
    options.check_min_scenarios(session)
    options.check_something_ran(session)
    if session.config.pluginmanager.has_plugin("dsession"):
        from pytest_evarness.plugin import parallel

        parallel.remove_plans(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell an xdist worker which session it belongs to."""
    from pytest_evarness.plugin import parallel

    parallel.configure_node(node)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """A worker that comes now replaces one that died."""
    del error
    from pytest_evarness.plugin import parallel

    parallel.node_down(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep all items of a case on one worker, so that it runs once."""
    if not options.is_scenario_session(config) or config.getoption("dist", None) != "load":
        return None
    from pytest_evarness.plugin import parallel

    return parallel.make_scheduler(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Seal the plan when the last worker has reported what it collected."""
    from pytest_evarness.plugin import parallel

    parallel.collection_finished(node, ids)


@pytest.fixture
def evarness(request: pytest.FixtureRequest) -> Iterator[EvarnessFixture]:
    """Run a scenario, or an inline one, inside an ordinary test: ``evarness.run(...)``."""
    from pytest_evarness.plugin.fixture import EvarnessFixture

    with EvarnessFixture(request.config) as fixture:
        yield fixture
