"""A session of many cases: what one costs beyond pytest's own price of an item.

Each case runs an approval-gated send twice (22 events), is judged by its contracts and enters the
signed bundle. With the word ``world`` it has a workspace, a SQLite database and an HTTP mock, an
effect on each, and six checks of them beside the contracts. The reference collects and runs as many
trivial YAML items in the same run.

    cases.py [COUNT] [world]
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
WITH_WORLD = "world" in sys.argv[2:]

REFERENCE = """
import pytest, yaml

class Item(pytest.Item):
    def runtest(self): pass
    def reportinfo(self): return self.path, 0, self.name

class File(pytest.File):
    def collect(self):
        for name in yaml.load(self.path.read_text(), Loader=yaml.CSafeLoader):
            yield Item.from_parent(self, name=name)

def pytest_collect_file(file_path, parent):
    if file_path.name == "items.yaml":
        return File.from_parent(parent, path=file_path)
"""


MAIL = {"service": "mail", "method": "POST", "path": "/messages", "body": {"body": "{query}"}}
BOOK = {
    "service": "db",
    "statement": "INSERT INTO sent (subject) VALUES (:subject)",
    "params": {"subject": "{query}"},
}
SERVICES = {
    "mail": {
        "type": "http_mock",
        "routes": [{"method": "POST", "path": "/messages", "status": 202}],
    },
    "db": {
        "type": "sqlite",
        "init": "CREATE TABLE sent (id INTEGER PRIMARY KEY, subject TEXT);"
        "CREATE TABLE people (name TEXT); INSERT INTO people VALUES ('Ann'), ('Bob')",
    },
}
CHECKS = {
    "one-request": {
        "type": "http_mock_assertions",
        "service": "mail",
        "assertions": [{"field": "request_count", "filters": {"method": "POST"}, "equals": 1}],
    },
    "one-row": {"type": "sql", "service": "db", "query": "SELECT count(*) FROM sent", "equals": 1},
    "same-people": {
        "type": "sql",
        "service": "db",
        "query": "SELECT name FROM people",
        "row_count": 2,
    },
    "log-kept": {"type": "file_content", "path": "log.txt", "contains": "started"},
    "receipt-there": {"type": "file_exists", "path": "out/receipt.txt", "min_size": 1},
    "no-draft": {"type": "file_absent", "glob": "**/*.draft"},
}


def scenario(count: int, *, with_world: bool) -> str:
    cases = {f"c{index}": {"params": {"n": index}} for index in range(count)}
    value = {
        "evarness": 1,
        "id": "many",
        "subject": {"graph": "pattern:approval_gated_send"},
        "environment": {"approvals": {"n3": "approve"}},
        "cases": cases,
    }
    if with_world:
        written = {"path": "out/receipt.txt", "write": "{query}"}
        rule = {
            "result": [{"id": "sent-1", "subject": "Sent", "snippet": "Delivered"}],
            "effects": [{"http": MAIL}, {"sql": BOOK}, {"file": written}],
        }
        value["environment"] |= {
            "services": SERVICES,
            "workspace": {"files": {"log.txt": "started\n"}},
            "tools": {"email.send": [rule]},
        }
        value["invariants"] = {
            name: {"description": name, "gate": True, "check": check}
            for name, check in CHECKS.items()
        }
    return json.dumps(value)


def items_of(output: str) -> int:
    """How many items passed, vacuous ones included."""
    last = output.strip().splitlines()
    line = next(line for line in reversed(last) if " passed" in line)
    return sum(int(number) for number in re.findall(r"(\d+) (?:passed|vacuous)", line))


def measure(folder: Path, *words: str) -> tuple[float, float, int, int]:
    """CPU seconds of the session and its children, its peak MB, its exit code, its items."""
    code = (
        "import resource, sys, pytest\n"
        "code = pytest.main(sys.argv[1:])\n"
        "own = resource.getrusage(resource.RUSAGE_SELF)\n"
        "kids = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "cpu = own.ru_utime + own.ru_stime + kids.ru_utime + kids.ru_stime\n"
        "print('FIGURES', cpu, own.ru_maxrss / 1024, int(code))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("FIGURES"))
    _, cpu, megabytes, code_text = line.split()
    return float(cpu), float(megabytes), int(code_text), items_of(done.stdout)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "scenarios").mkdir()
        few, many = folder / "scenarios" / "few.yaml", folder / "scenarios" / "many.yaml"
        few.write_text(scenario(1, with_world=WITH_WORLD), encoding="utf-8")
        many.write_text(scenario(CASES, with_world=WITH_WORLD), encoding="utf-8")
        reference = folder / "reference"
        reference.mkdir()
        (reference / "conftest.py").write_text(REFERENCE, encoding="utf-8")
        cpu_one, *_ = measure(folder, "scenarios/few.yaml")
        cpu_many, megabytes, code, items = measure(folder, "scenarios/many.yaml")
        names = json.dumps([f"i{index}" for index in range(items)])
        (reference / "items.yaml").write_text(names, encoding="utf-8")
        cpu_items, *_ = measure(reference, "items.yaml", "-p", "no:evarness")
        (reference / "items.yaml").write_text('["i0"]', encoding="utf-8")
        cpu_start, *_ = measure(reference, "items.yaml", "-p", "no:evarness")
    session = (cpu_many - cpu_one) / (CASES - 1)
    floor = (cpu_items - cpu_start) / CASES
    print(f"cases                       {CASES} (exit {code})")
    print(f"CPU of a case, all in       {session * 1000:7.2f} ms")
    print(f"pytest's price of its items {floor * 1000:7.2f} ms ({items / CASES:g} items)")
    beyond = (session - floor) * 1000
    print(f"beyond it                   {beyond:7.2f} ms, ratio {session / floor:.1f}")
    print(f"peak memory                 {megabytes:7.0f} MB")
    print(f"whole session               {cpu_many:7.1f} s CPU")


if __name__ == "__main__":
    main()
