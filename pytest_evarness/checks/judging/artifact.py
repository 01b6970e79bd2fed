"""What is to be judged, read off run A's sealed world.

Source: docs/checks/llm_as_judge.md, "What is judged".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.checks.content import FileContent
from pytest_evarness.checks.kind import Known, UnavailableError
from pytest_evarness.checks.places import trouble_at
from pytest_evarness.checks.tree import Tree, path_faults
from pytest_evarness.core.json import shown
from pytest_evarness.core.outcome import Cause
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import nearest, one_of, quoted
from pytest_evarness.world.model import is_git_name

if TYPE_CHECKING:
    from pytest_evarness.world.sealed import Scene

__all__ = ["OUTPUTS", "Part", "needs_of", "read_artifact", "source_faults"]

OUTPUTS = ("agent_output", "stdout")
"""Words for the run's output; both are the same."""

WORKSPACE = "workspace"

MAX_LISTED = 500
"""Entries of a folder that are listed."""

MAX_FILES = 100
"""Files of a folder whose content is shown."""

MAX_FILE_BYTES = 1024 * 1024
"""A larger file of a folder is listed and not shown."""

_BODY = re.compile(r"(?P<service>[^/]+)\.last_request\.body\Z")
_FIELD = re.compile(r"(?P<service>[^/]+)\.(?:last_request|requests?)\b")
_RULE = (
    "agent_output, workspace, SERVICE.last_request.body, or a path that leads from the workspace"
)


@dataclass(frozen=True, slots=True)
class Part:
    """One text of the artifact.

    Attributes:
        what: In words of ours or of the scenario's, never in those of the run.
        text: All of it that was read, secrets in it; None where there is no text.
        note: Why there is no text, or why it is not the whole; empty otherwise.
    """

    what: str
    text: str | None
    note: str = ""


# -- where it comes from -----------------------------------------------------------------------


def source_faults(source: str, known: Known) -> list[Fault]:
    """Why ``input_from`` names nothing that can be read; paths are empty."""
    if source in (*OUTPUTS, WORKSPACE):
        return []
    body = _BODY.match(source)
    if body is None:
        field = _FIELD.match(source)
        if field is not None and field["service"] in known.services:
            meant = f"write '{field['service']}.last_request.body'"
            return [Fault((), "names no body", got=quoted(source), rule=_RULE, fix=meant)]
        return [
            Fault((), fault.problem, got=fault.got, rule=_RULE, fix=_fix(source))
            for fault in path_faults(source, "path")
        ]
    name = body["service"]
    mocks = [one for one, kind in known.services.items() if kind == "http_mock"]
    rule = f"services of type http_mock: {one_of(sorted(mocks)) or 'none'}"
    if name not in known.services:
        near = nearest(name, mocks)
        fix = f"write '{near}.last_request.body'" if near else None
        return [
            Fault((), f"unknown service {quoted(name)}", got=quoted(source), rule=rule, fix=fix)
        ]
    if name not in mocks:
        problem = f"'{name}' receives no requests: it is of type {known.services[name]}"
        return [Fault((), problem, got=quoted(source), rule=rule)]
    return []


def _fix(source: str) -> str | None:
    """Advice for a path that cannot be one."""
    inner = source.removeprefix("/workspace").strip("/").removeprefix("./")
    if inner in ("", "."):
        return "write 'workspace'"
    is_meant = source.startswith(("/workspace/", "./")) or source == f"{inner}/"
    return f"write {quoted(inner)}" if is_meant and not path_faults(inner, "path") else None


def needs_of(source: str) -> frozenset[str]:
    """Evidence that must be there, as :meth:`CheckKind.needs` says it."""
    if source in OUTPUTS:
        return frozenset({"output"})
    body = _BODY.match(source)
    if body is not None:
        return frozenset({f"service:{body['service']}"})
    return frozenset({"workspace"})


# -- reading -----------------------------------------------------------------------------------


def read_artifact(source: str, scene: Scene) -> list[Part]:
    """The parts of the artifact, at least one, in a fixed order.

    Raises:
        UnavailableError: There is nothing to judge, or nothing that can be read.
    """
    if source in OUTPUTS:
        assert scene.output is not None, "needs says so"
        return [Part("the run's output", scene.output)]
    body = _BODY.match(source)
    if body is not None:
        return [_last_body(body["service"], scene)]
    if source == WORKSPACE:
        return list(_folder("", "the workspace", scene))
    return _path(source, scene)


def _last_body(name: str, scene: Scene) -> Part:
    services = cast("list[Mapping[str, Any]]", scene.snapshot["services"])
    service = next((one for one in services if one["name"] == name), None)
    if service is None:
        raise UnavailableError(Cause.MISSING_EVIDENCE, f"service '{name}' is not there")
    requests = service.get("requests")
    if requests is None:
        raise UnavailableError(
            Cause.MISSING_EVIDENCE, f"service '{name}' keeps no journal (record: false)"
        )
    if service.get("lost"):
        raise UnavailableError(
            Cause.MISSING_EVIDENCE,
            f"the journal of service '{name}' was full, so its last request is not known",
        )
    if not requests:
        raise UnavailableError(
            Cause.MISSING_EVIDENCE, f"service '{name}' got no request, so there is nothing to judge"
        )
    last = requests[-1]
    if last["body"] is None:
        raise UnavailableError(
            Cause.MALFORMED_EVIDENCE,
            f"the body of request {last['n']} of service '{name}' is no UTF-8 text",
        )
    note = "the journal holds only the beginning" if last.get("truncated") else ""
    return Part(f"body of request {last['n']}, the last one of service {name}", last["body"], note)


def _path(path: str, scene: Scene) -> list[Part]:
    place = _read(path, scene)
    if place["state"] == "hidden":
        raise UnavailableError(Cause.MISSING_EVIDENCE, f"{path}: {place['why']}")
    trouble = trouble_at(place)
    if trouble is not None:
        raise UnavailableError(Cause.MISSING_EVIDENCE, f"{trouble}, so there is nothing to judge")
    if place["type"] == "directory":
        return list(_folder(place["real"], f"the folder {path}", scene))
    if place["type"] != "file":
        raise UnavailableError(
            Cause.MALFORMED_EVIDENCE, f"{path} is a {place['type']}, which has no text"
        )
    text, note = _text(place)
    if text is None:
        raise UnavailableError(Cause.MALFORMED_EVIDENCE, f"{path}: {note}")
    return [Part(f"the file {path}", text, note)]


def _read(path: str, scene: Scene) -> Mapping[str, Any]:
    """What ``file_content`` sees there."""
    asked = {"type": "file_content", "path": path, "encoding": "utf-8"}
    (place,) = cast("list[Mapping[str, Any]]", FileContent().gather(asked, scene)["places"])
    return place


def _text(place: Mapping[str, Any]) -> tuple[str | None, str]:
    """The text of a file, and why there is none, or not all of it."""
    if place.get("unreadable"):
        return None, "cannot be read"
    if "undecodable" in place:
        return None, f"is no UTF-8 text (byte {place['undecodable']['byte']})"
    return place["text"], "only its beginning was read" if place["is_cut"] else ""


def _folder(real: str, what: str, scene: Scene) -> Iterator[Part]:
    """A listing, then the files that have a text, in the order of their paths."""
    workspace = cast("Mapping[str, Any]", scene.snapshot["workspace"])
    below = f"{real}/" if real else ""
    entries = [
        entry
        for entry in sorted(workspace["files"], key=lambda entry: str(entry["path"]))
        if entry["path"].startswith(below)
        and not any(is_git_name(part) for part in entry["path"].split("/"))
    ]
    doubt = Tree(workspace).doubt
    if not entries and not doubt:
        state = "is gone" if workspace.get("is_gone") and not real else "is empty"
        raise UnavailableError(
            Cause.MISSING_EVIDENCE, f"{what} {state}, so there is nothing to judge"
        )
    changed = {path: word for word in ("added", "modified") for path in workspace.get(word, ())}
    lines = [
        f"{number} {_listed(entry, below, changed.get(entry['path']))}"
        for number, entry in enumerate(entries[:MAX_LISTED], start=1)
    ]
    notes = [f"{len(entries) - MAX_LISTED:,} more entries"] if len(entries) > MAX_LISTED else []
    notes += [doubt] if doubt else []
    yield Part(f"{what}, {len(entries):,} entries", "\n".join(lines), "; ".join(notes))
    files = [
        (number, entry)
        for number, entry in enumerate(entries[:MAX_LISTED], start=1)
        if entry["type"] == "file"
    ]
    for count, (number, entry) in enumerate(files):
        title = f"content of entry {number}"
        if count >= MAX_FILES:
            left = len(files) - count
            yield Part(f"{left} more files", None, f"at most {MAX_FILES} files are shown")
            return
        if entry.get("size", 0) > MAX_FILE_BYTES:
            yield Part(title, None, f"is larger than {MAX_FILE_BYTES // 2**20} MiB")
            continue
        text, note = _text(_read(entry["path"], scene))
        yield Part(title, text, note)


def _listed(entry: Mapping[str, Any], below: str, change: str | None) -> str:
    words = [shown(entry["path"].removeprefix(below), 300), str(entry["type"])]
    if entry["type"] == "symlink":
        words.append(f"to {shown(entry.get('target'), 300)}")
    elif "size" in entry:
        words.append(f"{entry['size']} bytes")
    return " ".join([*words, *([change] if change else [])])
