"""``pytest-evarness digest``: the digests of recorded traces."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evarness.cli.foreign import add_importer_argument, find_importer
from pytest_evarness.report.text import flat

if TYPE_CHECKING:
    import argparse

    from pytest_evarness.core.json import Json

__all__ = ["HELP", "NAME", "add_arguments", "main"]

NAME = "digest"
HELP = "print the digests of recorded traces"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    parser.add_argument("traces", nargs="+", metavar="TRACES", help="trace files (JSON lines)")
    add_importer_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON line for each run")


def main(args: argparse.Namespace) -> int:
    """Print one line for each run.

    Returns:
        0.

    Raises:
        InputError: A file cannot be read (exit 2).
        DeterminismError: An event holds a value that two JSON readers disagree on (exit 2).
    """
    from pytest_evarness.core import c1
    from pytest_evarness.core.tracefile import read_traces

    importer = find_importer(args.importer)
    for path in args.traces:
        for trace in read_traces(Path(path), importer):
            events = list(trace.events)
            digest, chain = c1.digests(c1.events_text(events))
            if args.json:
                record: dict[str, Json] = {
                    "run_id": trace.run_id,
                    "events": len(events),
                    "trace_digest": digest,
                    "chain_digest": chain,
                }
                sys.stdout.write(f"{json.dumps(record)}\n")
            else:
                run = (
                    json.dumps(trace.run_id)[1:-1] if trace.run_id is not None else flat(str(path))
                )
                sys.stdout.write(f"{run} {len(events)} events {digest} {chain}\n")
    return 0
