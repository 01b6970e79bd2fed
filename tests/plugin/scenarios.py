"""Small scenarios for sessions: a harness of three nodes, and ways in which it can go wrong."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

__all__ = [
    "BROKEN",
    "HELD",
    "IDLE",
    "OPEN",
    "STEP",
    "echo",
    "gated",
    "graph",
    "step_graph",
    "traced",
    "write",
]


def write(path: Path, content: Any) -> None:
    """Text as it is; anything else as JSON, which is YAML too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    path.write_text(text, encoding="utf-8")


def graph(*nodes: tuple[str, str, dict[str, Any]], **params: Any) -> dict[str, Any]:
    """A chain of nodes."""
    names = [name for name, _, _ in nodes]
    return {
        "ir_version": 1,
        "id": "g",
        "nodes": [{"id": name, "type": kind, "config": config} for name, kind, config in nodes],
        "edges": [{"from": one, "to": other} for one, other in itertools.pairwise(names)],
        "params": params,
    }


def step_graph(function: str, **config: Any) -> dict[str, Any]:
    """Input, a user's own step, output; ``function`` is ``module:name``."""
    return graph(
        ("n1", "input", {}),
        ("n2", "python", {"callable": function, "config": config}),
        ("n3", "output", {}),
    )


def echo(**more: Any) -> dict[str, Any]:
    """A scenario that completes and asserts that it does."""
    return {
        "evarness": 1,
        "id": "echo",
        "subject": {"graph": graph(("n1", "input", {}), ("n2", "output", {}))},
        "expect": {"status": "completed"},
        **more,
    }


def gated(**more: Any) -> dict[str, Any]:
    """The approval-gated send with its three cases."""
    return {
        "evarness": 1,
        "id": "gated",
        "tags": ["governance"],
        "subject": {"graph": "pattern:approval_gated_send"},
        "environment": {"approvals": {"n3": "approve"}},
        "cases": {
            "approve": {},
            "reject": {"approvals": {"n3": "reject"}, "expect": {"status": "blocked"}},
            "pending": {"approvals": {}, "expect": {"status": "paused"}},
        },
        **more,
    }


def traced(assertion: dict[str, Any], description: str = "a rule of the tests") -> dict[str, Any]:
    """An invariant over the trace."""
    return {"description": description, "check": {"type": "trace", "assert": assertion}}


HELD = traced({"eventually": {"type": "run_finished"}})
"""Passes on a run that completes."""

BROKEN = traced({"never": {"type": "run_finished"}})
"""Fails on it."""

IDLE = traced(
    {"every": {"match": {"type": "tool_called"}, "where": {"args_digest": {"exists": True}}}}
)
"""Passes since there is nothing to see."""

# Without a type, since a number is never asked of a type whose field is a text.
OPEN = traced({"eventually": {"where": {"output.text": {"gt": 3}}}})
"""Indeterminate: a value of the wrong type."""


STEP = '''
"""Steps of a harness under test."""

import os
import time


def set_order(inputs, config, context):
    context.emit("custom.note", {"order": ",".join({f"w{n}" for n in range(30)})})
    return {"out": "done"}


def hashed(inputs, config, context):
    context.emit("custom.note", {"hash": hash("text") % 1000003})
    return {"out": "done"}


def environment(inputs, config, context):
    context.emit("custom.note", {"value": os.environ.get("EVARNESS_TEST_MARK", "unset")})
    return {"out": "done"}


def time_zone(inputs, config, context):
    context.emit("custom.note", {"zone": time.strftime("%Z %z", time.localtime(0))})
    return {"out": "done"}


def leftover(inputs, config, context):
    path = os.path.join(os.path.dirname(__file__), "seen.flag")
    before = os.path.exists(path)
    with open(path, "w") as stream:
        stream.write("x")
    context.emit("custom.note", {"again": before})
    return {"out": "done"}


def steady(inputs, config, context):
    context.emit("custom.note", {"order": ",".join(sorted({"alpha", "beta"}))})
    return {"out": "done"}


def crash(inputs, config, context):
    raise ValueError("no such row")
'''
"""A module of user code: each function depends on something it must not, but ``steady``."""
