"""``pytest-evarness run``: one run, its events as they happen; nothing is judged."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pytest_evarness.errors import InputError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

    from pytest_evarness.core.event import Event
    from pytest_evarness.core.run import Run
    from pytest_evarness.pipeline import Engine
    from pytest_evarness.scenario.case import Case

__all__ = ["EXIT", "HELP", "NAME", "add_arguments", "main"]

NAME = "run"
HELP = "run a scenario's case, or a graph with a fixture, and show its events"

EXIT = {"completed": 0, "failed": 1, "blocked": 1, "paused": 3, "unscripted": 3, "unfinished": 3}
"""By status. Paused is not success: a person has not decided."""

_PAYLOAD = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    from pytest_evarness.cli.session import add_diagnose_argument, add_project_arguments

    parser.add_argument(
        "source", metavar="SCENARIO|GRAPH", help="a scenario file, a graph, or pattern:NAME"
    )
    parser.add_argument("--case", metavar="C", help="the case to run, where there are several")
    parser.add_argument("--fixture", metavar="F", help="run a graph in the world of this fixture")
    parser.add_argument(
        "--approve",
        action="append",
        default=[],
        metavar="N=approve",
        help="the decision at gate N: approve or reject; repeatable",
    )
    add_diagnose_argument(parser)
    parser.add_argument(
        "--json", action="store_true", help="lines {seq, type, node_id, payload} on standard output"
    )
    add_project_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Run once.

    Returns:
        0 completed, 1 failed or blocked, 2 wrong use or input (nothing has run then), 3 paused or
        undecided.
    """
    from pytest_evarness.cli.session import (
        own_output_apart,
        parse_decisions,
        tell_broken_plugins,
        write_error,
    )
    from pytest_evarness.core.execution import execute
    from pytest_evarness.core.secret import read_secrets

    decisions = parse_decisions(args.approve)
    engine, case = _load(args, decisions)
    tell_broken_plugins(engine)
    secrets = read_secrets(case.compiled.secrets, os.environ)
    with engine, own_output_apart() as results:
        show = (_json_writer if args.json else _line_writer)(results)
        try:
            with engine.world(case, secrets) as world:
                run = execute(
                    case.compiled,
                    engine.registry,
                    secrets=secrets,
                    observers=[show],
                    world=world,
                )
        except SystemExit as error:
            # Its code would be read as how the run ended.
            results.flush()
            write_error(f"a node tried to end the process (SystemExit({error.code!r}))")
            return EXIT["failed"]
    sys.stdout.flush()
    _tell_end(run, engine.settings.root)
    return EXIT[run.status]


def _load(args: argparse.Namespace, decisions: Mapping[str, str]) -> tuple[Engine, Case]:
    from pytest_evarness.api import choose_case
    from pytest_evarness.cli.session import PATTERN, build_settings, check_diagnose, load_cases

    if args.fixture is not None:
        if args.case is not None:
            raise UsageError("--case goes with a scenario, --fixture with a graph")
        return _load_graph(args, decisions)
    source = args.source
    if source.startswith(PATTERN):
        # No scenario could say so: the option alone asks for it.
        mode = "diagnostic" if args.diagnose else None
        settings = build_settings(args, [], diagnose=args.diagnose, mode=mode)
    else:
        path = Path(source)
        if _is_graph(path):
            raise UsageError(
                f"{source}: a graph runs in the world of a fixture", fix="add '--fixture F'"
            )
        settings = build_settings(args, [path], diagnose=args.diagnose)
    # A decision is for one case, so the case is chosen first.
    engine, cases = load_cases(settings, source, args.case, decisions)
    chosen = choose_case([case for _, case in cases], None)
    check_diagnose(args, [chosen])
    return engine, chosen


def _is_graph(path: Path) -> bool:
    from pytest_evarness.source.document import load_document

    try:
        value = load_document(path, shown=str(path)).value
    except InputError:
        # Whoever loads it as a scenario says what is wrong with it, in the words of its place.
        return False
    return isinstance(value, dict) and "nodes" in value and "evarness" not in value


def _load_graph(args: argparse.Namespace, decisions: Mapping[str, str]) -> tuple[Engine, Case]:
    from pytest_evarness.cli.session import build_settings
    from pytest_evarness.pipeline import Engine
    from pytest_evarness.source.document import read_bytes

    graph, fixture = Path(args.source), Path(args.fixture)
    for path in (graph, fixture):
        read_bytes(path, str(path))
    mode = "diagnostic" if args.diagnose else None
    settings = build_settings(args, [graph, fixture], diagnose=args.diagnose, mode=mode)
    root = settings.root
    environment: dict[str, Any] = {"fixture": _reference(fixture, root)}
    if decisions:
        environment["approvals"] = dict(decisions)
    value = {
        "evarness": 1,
        "subject": {"graph": _reference(graph, root)},
        "environment": environment,
        # Nothing is judged here; a case has to assert something all the same.
        "expect": {"status": "completed"},
    }
    engine = Engine(settings)
    (case,) = engine.compile(value, root)
    return engine, case


def _reference(path: Path, root: Path) -> str:
    return Path(os.path.normpath(path.absolute())).relative_to(root).as_posix()


# -- what is shown -----------------------------------------------------------------------------


def _json_writer(results: TextIO) -> Callable[[Event], None]:
    def write(event: Event) -> None:
        record = {key: event.as_record()[key] for key in ("seq", "type", "node_id", "payload")}
        results.write(json.dumps(record, ensure_ascii=True) + "\n")
        results.flush()

    return write


def _line_writer(results: TextIO) -> Callable[[Event], None]:
    from pytest_evarness.core.json import shown
    from pytest_evarness.report.text import one_line

    colour = results.isatty() and "NO_COLOR" not in os.environ

    def write(event: Event) -> None:
        kind = f"{one_line(event.type):<22}"
        if colour:
            kind = f"\x1b[{_COLOURS.get(event.type, '0')}m{kind}\x1b[0m"
        node = "-" if event.node_id is None else one_line(event.node_id, 40)
        parts = (f"{one_line(str(key))}={shown(value, 60)}" for key, value in event.payload.items())
        payload = one_line(" ".join(parts), _PAYLOAD)
        results.write(f"{event.seq:>5}  {kind}  {node:<8}  {payload}".rstrip() + "\n")
        results.flush()

    return write


_COLOURS = {
    "run_started": "1",
    "run_finished": "1;32",
    "run_failed": "1;31",
    "run_paused": "1;33",
    "policy_violation": "31",
    "engine_error": "31",
    "approval_requested": "33",
    "approval_granted": "32",
    "approval_rejected": "31",
    "tool_called": "36",
}


def _tell_end(run: Run, root: Path) -> None:
    from pytest_evarness.core.raised import own_place
    from pytest_evarness.report.text import clean, one_line

    lines = [f"{run.status} after {len(run.events)} events"]
    detail = run.events[-1].payload.get("detail") if run.status == "unscripted" else None
    why = detail if isinstance(detail, str) else run.error
    if why is not None:
        lines[0] += f": {one_line(why, 600)}"
    place = own_place(run.raised, root)
    if place is not None:
        lines.append(f"  raised at {one_line(place, 400)}")
    if run.pending is not None:
        node = one_line(run.pending["node"])
        lines.append(f"  waits for a decision at {node}: {one_line(run.pending['prompt'])}")
        lines.append(f"  try: --approve {node}=approve")
    lines.extend(f"  not used: {one_line(text)}" for text in run.leftovers)
    lines.extend(f"  {one_line(text, 600)}" for text in _world_lines(json.loads(run.world_text)))
    sys.stderr.write(clean("\n".join(lines)) + "\n")


def _world_lines(world: Mapping[str, Any]) -> Iterator[str]:
    """What became of the world, in a few words for each part of it."""
    workspace = world.get("workspace")
    if workspace is not None:
        for word in ("added", "modified", "removed"):
            if workspace[word]:
                yield f"workspace, {word}: {', '.join(workspace[word])}"
        if not any(workspace[word] for word in ("added", "modified", "removed")):
            yield "workspace: as it was"
    for service in world.get("services", ()):
        name = f"service {service['name']}"
        if service.get("down"):
            yield f"{name}: down"
        elif service.get("requests") is not None:
            yield f"{name}: {len(service['requests'])} requests"
        elif service.get("tables") is not None:
            counts = (f"{one['name']} {one['count']}" for one in service["tables"])
            yield f"{name}: rows: {', '.join(counts) or 'no table'}"
    if world.get("ledger"):
        yield f"effects: {len(world['ledger'])}"
