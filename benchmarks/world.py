"""What a world adds to a case: both runs (the second in the mirror) and the judging.

``TMPDIR=/dev/shm`` shows what our own code costs, without the disk.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pytest_evarness.pipeline import Engine, Settings

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 50
GRAPH = {
    "ir_version": 1,
    "id": "g",
    "nodes": [{"id": "n1", "type": "input"}, {"id": "n2", "type": "output"}],
    "edges": [{"from": "n1", "to": "n2"}],
}
SQLITE = {
    "type": "sqlite",
    "init": "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'a')",
}
FEW = {"a": "1", "b/c": "2", "d": "3"}
MANY = {f"d{number % 30}/f{number}": "x" * 500 for number in range(1000)}
WORLDS: dict[str, dict[str, Any]] = {
    "no world": {},
    "http mock": {"services": {"m": {"type": "http_mock"}}},
    "sqlite": {"services": {"d": SQLITE}},
    "workspace, 3 files": {"workspace": {"files": FEW}},
    "workspace, 3 files, git": {"workspace": {"files": FEW, "git": True}},
    "workspace, sqlite, http mock": {
        "workspace": {"files": FEW},
        "services": {"d": SQLITE, "m": {"type": "http_mock"}},
    },
    "workspace, 1000 files": {"workspace": {"files": MANY}},
    "workspace, 1000 files, git": {"workspace": {"files": MANY, "git": True}},
}


def milliseconds(root: Path, environment: dict[str, Any], runs: int) -> float:
    scenario = {
        "evarness": 1,
        "subject": {"graph": GRAPH},
        "environment": environment,
        "expect": {"status": "completed"},
    }
    figures = []
    with Engine(Settings(root=root)) as engine:
        (case,) = engine.compile(scenario, root)
        for number in range(runs + 3):
            start = time.perf_counter()
            engine.run(case)
            if number >= 3:
                figures.append(time.perf_counter() - start)
    return statistics.median(figures) * 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for title, environment in WORLDS.items():
            runs = max(RUNS // 10, 3) if "1000" in title else RUNS
            print(f"{title:32} {milliseconds(Path(name), environment, runs):8.2f} ms")


if __name__ == "__main__":
    main()
