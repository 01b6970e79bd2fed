"""The sealed end state of a run, held against the case that declares its world and against itself.

What a run did to its world nobody can tell again without running it. That the world is the one
that was declared, and that its own parts agree, can be told.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pytest_evarness.core import c1
from pytest_evarness.core.json import shown
from pytest_evarness.core.matcher import holds_secret
from pytest_evarness.errors import UnverifiedError
from pytest_evarness.world.snapshot import changes, start_entries

__all__ = ["check_worlds"]

_PARTS = {"ledger", "services", "workspace"}
_OWN_TYPES = frozenset({"http_mock", "mysql", "postgres", "sqlite"})
_LISTS = ("added", "modified", "removed")


def check_worlds(predicate: Mapping[str, Any]) -> None:
    """Hold every sealed end state against what its case declares.

    Raises:
        UnverifiedError: A service or workspace that nobody declared or that is missing, or lists
            and digests that the rest of the end state does not give.
    """
    for index, case in enumerate(predicate["cases"]):
        environment = json.loads(case["inputs"]["compiled"])["environment"]
        for replica in case["replicas"]:
            for run in replica["runs"]:
                is_own = run["label"] == "b" and replica["world_b"] is not None
                text = replica["world_b" if is_own else "world"]
                place = f"cases[{index}].{'world_b' if is_own else 'world'}"
                _check_world(json.loads(text), environment, run["status"], place)


def _refuse(place: str, problem: str) -> NoReturn:
    raise UnverifiedError(f"{place}: {problem}")


def _check_world(world: Any, environment: Mapping[str, Any], status: str, place: str) -> None:
    declared = environment.get("services") or {}
    start = environment.get("workspace")
    if world == {}:
        # A run whose process was stopped never sealed its world.
        if (declared or start is not None) and status != "unfinished":
            _refuse(place, "is empty, and the case declares a world")
        return
    if not isinstance(world, dict) or world.keys() != _PARTS:
        _refuse(place, "is no end state (ledger, services, workspace)")
    ledger, services, workspace = world["ledger"], world["services"], world["workspace"]
    for name, rows in (("ledger", ledger), ("services", services)):
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            _refuse(f"{place}.{name}", "is no list of mappings")
    names = [service.get("name") for service in services]
    if names != sorted(declared):
        _refuse(f"{place}.services", f"are {shown(names)}, and {shown(sorted(declared))} declared")
    for service in services:
        _check_service(service, declared[service["name"]], f"{place}.{service['name']}")
    if (workspace is None) != (start is None):
        _refuse(f"{place}.workspace", "is not there exactly when the case declares one")
    if start is not None:
        _check_workspace(workspace, start, f"{place}.workspace")


def _check_service(service: Mapping[str, Any], config: Mapping[str, Any], place: str) -> None:
    kind = config["type"]
    if kind not in _OWN_TYPES:
        return
    if service.get("type") != kind:
        _refuse(place, f"is of type {shown(service.get('type'))}, and {kind} is declared")
    for table in service.get("tables") or ():
        rows = table["rows"]
        if rows is None:
            continue
        texts = [c1.text(row) for row in rows]
        digest = hashlib.sha256("".join(f"{text}\n" for text in texts).encode("ascii"))
        if table["count"] != len(rows) or table["digest"] != f"sha256:{digest.hexdigest()}":
            _refuse(f"{place}.{table['name']}", "count and digest are not those of its rows")
    for number, request in enumerate(service.get("requests") or (), start=1):
        if request["n"] != number:
            _refuse(f"{place}.requests", f"request {number} has the number {request['n']}")
        body = request["body"]
        is_whole = isinstance(body, str) and "truncated" not in request
        if is_whole and request["body_digest"] != c1.sha256_text(body):
            _refuse(f"{place}.requests", f"the body of request {number} has another digest")


def _check_workspace(workspace: Any, declared: Mapping[str, Any], place: str) -> None:
    files: Sequence[Mapping[str, Any]] = workspace["files"]
    paths = [entry["path"] for entry in files]
    if paths != sorted(set(paths)) and not any("raw" in entry for entry in files):
        _refuse(f"{place}.files", "are not sorted by path, each once")
    if "beyond" in workspace or holds_secret(workspace):
        return  # not every entry is here, or not every name
    own = changes(files, start_entries(declared["files"], git=declared["git"]))
    if workspace.get("unreadable"):
        own["removed"] = []
    masked = {entry["path"] for entry in files if entry.get("masked")}
    for name in _LISTS:
        if set(workspace[name]) - masked != set(own[name]) - masked:
            _refuse(f"{place}.{name}", "is not what became of the files that the case declares")
        if workspace[name] != sorted(set(workspace[name])):
            _refuse(f"{place}.{name}", "is not sorted, each once")
