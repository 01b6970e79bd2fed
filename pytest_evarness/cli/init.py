"""``pytest-evarness init``: a first scenario that passes."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evarness.errors import UsageError

if TYPE_CHECKING:
    import argparse

__all__ = ["HELP", "NAME", "SCENARIO", "add_arguments", "main"]

NAME = "init"
HELP = "write a first scenario that passes"

PLACE = Path("scenarios") / "approved_send.yaml"

SCENARIO = """\
# A harness, the world it acts in, and what must hold. Run it with: pytest
evarness: 1
id: approved-send
description: A message leaves only after a person approved it.

# The harness. To test your own, name its file instead: graph: ../graphs/mine.json
subject:
  graph:
    ir_version: 1
    id: approved-send
    nodes:
      - {id: ask, type: input}
      - {id: gate, type: approval_gate, config: {prompt: "Send this message?"}}
      - {id: send, type: tool, config: {tool: email.send, approve_side_effects: true}}
      - {id: answer, type: output}
    edges:
      - {from: ask, to: gate}
      - {from: gate, to: send}
      - {from: send, to: answer}

# The simulated world: what is asked, what a person decides, what the tool answers.
environment:
  user_input: Send the report to Dana
  approvals: {gate: approve}
  tools:
    email.send:
      - match: {query_contains: report}
        result: [{id: sent-1, subject: Report, snippet: Delivered to Dana}]

# Each case runs twice, and both runs must be the same to the byte.
cases:
  approve:
    expect: {status: completed, output: {contains: Delivered}, nodes_run: [send]}
  reject:
    approvals: {gate: reject}
    expect: {status: blocked, nodes_not_run: [send]}

# What must hold in every run of every case.
invariants:
  approval-precedes-send: {}            # a packaged contract, by its id
  no_send_after_rejection:              # and one of your own
    description: After a rejection nothing is sent
    gate: true
    check:
      type: trace
      assert: {never: {type: tool_called, after: {type: approval_rejected}}}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    parser.add_argument(
        "folder", nargs="?", default=".", metavar="DIR", help="where (default: here)"
    )


def main(args: argparse.Namespace) -> int:
    """Write the scenario; never overwrites.

    Returns:
        0, or 2 where it is there already or cannot be written.
    """
    folder = Path(args.folder)
    path = folder / PLACE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # "x": whatever is there stays there, a dangling link included.
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(SCENARIO)
    except FileExistsError as error:
        raise UsageError(
            f"{error.filename}: exists already and is not overwritten", fix="name another folder"
        ) from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror or error})") from error
    sys.stdout.write(_next_steps(path, folder))
    return 0


def _next_steps(path: Path, folder: Path) -> str:
    from pytest_evarness.report.text import clean

    place = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    return clean(
        f"wrote {path}: two cases of one harness, and what must hold in both\n"
        "\n"
        f"run it:   {place}pytest -p evarness\n"
        "then edit:\n"
        "  subject.graph   your harness: a file, or its nodes and edges here\n"
        "  environment     what is asked, what is decided, what tools and model answer\n"
        "  cases           one for each decision or fault that matters\n"
        "  invariants      a packaged contract by its id, or one of your own\n"
        "try to break it: set approve_side_effects to false, or let 'gate' lead nowhere\n"
    )
