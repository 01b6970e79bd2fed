"""What changes under xdist: plans from workers, one seal by the controller, cases kept together."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.plugin import options

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_evarness.plugin.state import SessionState

__all__ = [
    "collection_finished",
    "configure_node",
    "make_scheduler",
    "node_down",
    "remove_plans",
    "session_name",
    "write_plan",
]

SESSION: pytest.StashKey[str] = pytest.StashKey()
WAITING: pytest.StashKey[dict[str, Any]] = pytest.StashKey()
"""By worker: None until it has collected, then its plan, or False where it has none of ours."""

STARTING: pytest.StashKey[bool] = pytest.StashKey()
FIRST: pytest.StashKey[int] = pytest.StashKey()
"""How many workers the session began with: xdist begins to run when so many have collected."""


def configure_node(node: Any) -> None:
    """Give every worker the session's name, so that all write into one folder."""
    config: pytest.Config = node.config
    if SESSION not in config.stash:
        from pytest_evarness.bundle.store import new_session

        config.stash[SESSION] = new_session()
    node.workerinput["evarness_session"] = config.stash[SESSION]
    waiting = config.stash.setdefault(WAITING, {})
    # Configured before any of them collects; whatever comes later replaces one that died.
    if config.stash.setdefault(STARTING, True):
        config.stash[FIRST] = len(waiting) + 1
    waiting[node.gateway.id] = None


def session_name(config: pytest.Config) -> str | None:
    """The name that all processes of this session share; None without xdist."""
    workerinput = getattr(config, "workerinput", None)
    if workerinput is not None:
        return str(workerinput["evarness_session"])
    return config.stash.get(SESSION, None)


def node_down(node: Any) -> None:
    """After the first death, new workers are replacements."""
    node.config.stash[STARTING] = False


def _plan_path(config: pytest.Config, worker: str) -> Path:
    # Two sessions may run over one root directory, and both have a worker gw0.
    return config.rootpath / ".evarness" / f"plan-{session_name(config)}-{worker}.json"


def remove_plans(config: pytest.Config) -> None:
    """In the controller: the seal holds what the workers wrote."""
    name = config.stash.get(SESSION, None)
    if name is None:
        return
    for path in (config.rootpath / ".evarness").glob(f"plan-{name}-*.json"):
        with contextlib.suppress(OSError):
            path.unlink()


def write_plan(state: SessionState) -> None:
    """In a worker: put on disk what was collected, before the controller hears of it.

    Where that cannot be done the controller finds no plan and stops the session.
    """
    from pytest_evarness.bundle.store import Store, write_atomically

    config = state.config
    workerinput = config.workerinput  # type: ignore[attr-defined]
    plan = state.build_plan()
    record = {
        "session": workerinput["evarness_session"],
        "found": options.found(config),
        "line": state.found_line(),
        "left_out_broken": state.left_out_broken,
        "plan": plan,
        "secrets": state.secret_names(),
    }
    data = json.dumps(record, sort_keys=True, ensure_ascii=True).encode("ascii")
    with contextlib.suppress(OSError):
        Store.open(config.rootpath, bundle=None, session=workerinput["evarness_session"])
        write_atomically(_plan_path(config, workerinput["workerid"]), data)


def collection_finished(node: Any, ids: list[str]) -> None:
    """In the controller: when the last worker has reported, compare the plans and seal one.

    Raises:
        pytest.Exit: The plans differ, or the seal cannot be written: nothing may run.
    """
    # A worker without items of ours writes no plan; one that has some must.
    has_ours = any(_is_ours(nodeid) for nodeid in ids)
    config: pytest.Config = node.config
    waiting = config.stash.get(WAITING, {})
    worker = node.gateway.id
    path = _plan_path(config, worker)
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError):
        record = None
    if record is not None and record.get("session") != config.stash.get(SESSION, None):
        record = None  # left there by another session
    waiting[worker] = record or False
    config.stash[STARTING] = False
    reported = [entry for entry in waiting.values() if entry is not None]
    if len(reported) < config.stash.get(FIRST, 0):
        return
    plans = [entry for entry in reported if entry]
    if not plans:
        if has_ours:
            pytest.exit(
                "evarness: the seal cannot be written: no worker could write its plan",
                returncode=4,
            )
        return
    texts = {json.dumps(entry["plan"], sort_keys=True) for entry in plans}
    if len(texts) > 1 or len(plans) < len(reported):
        pytest.exit("evarness: the workers collected different scenarios", returncode=4)
    from pytest_evarness.plugin.state import SessionState

    if options.found(config) == 0:
        options.count_found(config, plans[0]["found"])
    state = SessionState.of(config)
    if state.seal is None:
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and terminal.verbosity >= 0:
            terminal.ensure_newline()
            terminal.write_line(plans[0]["line"])
        state.left_out_broken.update(plans[0]["left_out_broken"])
        state.write_seal(plans[0]["plan"], secrets=plans[0]["secrets"])


def _is_ours(nodeid: str) -> bool:
    file, _, rest = nodeid.partition("::")
    return bool(rest) and file.endswith((".yaml", ".yml"))


def make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A scheduler that sends all items of a case to one worker."""
    from xdist.scheduler import LoadScopeScheduling

    class CaseScheduling(LoadScopeScheduling):  # type: ignore[misc]
        """Scope of ours: the node id without its last part; of others: the item itself."""

        def _split_scope(self, nodeid: str) -> str:
            return nodeid.rsplit("::", 1)[0] if _is_ours(nodeid) else nodeid

    return CaseScheduling(config, log)
