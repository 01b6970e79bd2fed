"""Files below our folders that pytest did not visit: none of them is passed over in silence.

pytest leaves out folders by their names (``norecursedirs``: ``build``, ``dist``, ``.*``, ...). That
is meant for what tools make, not for scenarios.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evarness.plugin import options
from pytest_evarness.plugin.nodes import ScenarioFile, UnreadFolder, collect_file
from pytest_evarness.plugin.state import SessionState

if TYPE_CHECKING:
    import pytest

__all__ = ["collect_unvisited"]


def collect_unvisited(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Collect what pytest passed over by itself, and note what the user left out.

    Added before anything is deselected, so that ``-k``, ``-m`` and ``--lf`` see these items too.
    """
    config = session.config
    state = SessionState.of(config)
    left_out: list[tuple[ScenarioFile, str]] = []
    for path in options.yaml_files(config):
        if state.was_visited(path):
            continue
        why = _left_out_by(session, path)
        file = collect_file(path, session)
        if file is None:
            continue
        if why is None:
            items.extend(session.genitems(file))
        elif isinstance(file, ScenarioFile):
            left_out.append((file, why))
    for path, text in options.refused_folders(config):
        items.extend(
            session.genitems(UnreadFolder.from_parent(session, path=path, state=state, text=text))
        )
    is_ours = bool(state.collected or state.broken)
    for file, why in left_out:
        # A session without scenarios, of somebody who wants none, stays one.
        file.leave_out(why, is_planned=is_ours)


def _left_out_by(session: pytest.Session, path: Path) -> str | None:
    """Who said that a file is not to be collected; None where nobody did."""
    asked = [asked for asked in options.asked_paths(session.config) if path.is_relative_to(asked)]
    for place in (path, *path.parents):
        if place in asked:
            break  # what was named is collected, whatever else is said of it
        words = _said_of(session.config, place)
        if words is not None:
            return words
        if place == path or not _looks_made(session.config, place):
            hook = session.gethookproxy(place.parent).pytest_ignore_collect
            if hook(collection_path=place, config=session.config):
                return "left out by a hook of the project"
    return None


def _said_of(config: pytest.Config, path: Path) -> str | None:
    """``--ignore`` and its like; the hook alone does not tell them from ``norecursedirs``."""
    here = config.invocation_params.dir
    for name, flag in (("ignore", "--ignore"), ("ignore_glob", "--ignore-glob")):
        values = config.getoption(name, None) or []
        if _is_among(path, here, values, is_glob=name == "ignore_glob"):
            return f"left out by {flag}"
    for plugin in config.pluginmanager.get_plugins():
        file = getattr(plugin, "__file__", None)
        if not file or Path(file).name != "conftest.py":
            continue
        for name in ("collect_ignore", "collect_ignore_glob"):
            values = getattr(plugin, name, None) or []
            if _is_among(path, Path(file).parent, values, is_glob=name != "collect_ignore"):
                return f"left out by {name} of a conftest"
    return None


def _is_among(path: Path, base: Path, values: Iterable[object], *, is_glob: bool) -> bool:
    for value in values:
        written = os.path.normpath(base / str(value))
        if fnmatch.fnmatch(str(path), written) if is_glob else str(path) == written:
            return True
    return False


def _looks_made(config: pytest.Config, folder: Path) -> bool:
    """Whether pytest leaves a folder out by its name or as a virtual environment."""
    for pattern in config.getini("norecursedirs"):
        name = str(folder) if "/" in pattern else folder.name
        if fnmatch.fnmatch(name, f"*/{pattern}" if "/" in pattern else pattern):
            return True
    marks = ("pyvenv.cfg", "conda-meta/history", "bin/activate")
    return folder.name == "__pycache__" or any((folder / mark).is_file() for mark in marks)
