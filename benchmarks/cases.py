"""A session of many cases: what one costs beyond pytest's own price of an item.

Each case runs an approval-gated send twice (22 events), is judged by three invariants and enters
the signed bundle. The reference collects and runs as many trivial YAML items in the same run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = int(sys.argv[1]) if len(sys.argv) > 1 else 1000

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


def scenario(count: int) -> str:
    cases = {f"c{index}": {"params": {"n": index}} for index in range(count)}
    return json.dumps(
        {
            "evarness": 1,
            "id": "many",
            "subject": {"graph": "pattern:approval_gated_send"},
            "environment": {"approvals": {"n3": "approve"}},
            "cases": cases,
        }
    )


def measure(folder: Path, *words: str) -> tuple[float, float, int]:
    """CPU seconds of the session and its children, peak MB of the session, items."""
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
    return float(cpu), float(megabytes), int(code_text)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "scenarios").mkdir()
        few, many = folder / "scenarios" / "few.yaml", folder / "scenarios" / "many.yaml"
        few.write_text(scenario(1), encoding="utf-8")
        many.write_text(scenario(CASES), encoding="utf-8")
        reference = folder / "reference"
        reference.mkdir()
        (reference / "conftest.py").write_text(REFERENCE, encoding="utf-8")
        cpu_one, _, _ = measure(folder, "scenarios/few.yaml")
        cpu_many, megabytes, code = measure(folder, "scenarios/many.yaml")
        items = CASES * 6
        names = json.dumps([f"i{index}" for index in range(items)])
        (reference / "items.yaml").write_text(names, encoding="utf-8")
        cpu_items, _, _ = measure(reference, "items.yaml", "-p", "no:evarness")
        (reference / "items.yaml").write_text('["i0"]', encoding="utf-8")
        cpu_start, _, _ = measure(reference, "items.yaml", "-p", "no:evarness")
    session = (cpu_many - cpu_one) / (CASES - 1)
    floor = (cpu_items - cpu_start) / CASES
    print(f"cases                       {CASES} (exit {code})")
    print(f"CPU of a case, all in       {session * 1000:7.2f} ms")
    print(f"pytest's price of its items {floor * 1000:7.2f} ms (6 items)")
    beyond = (session - floor) * 1000
    print(f"beyond it                   {beyond:7.2f} ms, ratio {session / floor:.1f}")
    print(f"peak memory                 {megabytes:7.0f} MB")
    print(f"whole session               {cpu_many:7.1f} s CPU")


if __name__ == "__main__":
    main()
