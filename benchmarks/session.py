"""A session without scenarios: does the installed plug-in cost anything?

Pairs of runs, alternating, so that a busy machine hits both sides alike.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

# Other plug-ins of the environment are left out: they cost more than what is measured.
QUIET = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:xdist")
PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 15


def cpu_seconds(folder: Path, *words: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *QUIET, *words],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tests = "\n".join(f"def test_{n}(): pass" for n in range(50))
        (folder / "test_trivial.py").write_text(tests, encoding="utf-8")
        cpu_seconds(folder)
        with_plugin, without = [], []
        for index in range(PAIRS):
            pair = [(with_plugin, ()), (without, ("-p", "no:evarness"))]
            for figures, words in pair if index % 2 else reversed(pair):
                figures.append(cpu_seconds(folder, *words))
    ratios = sorted(one / other for one, other in zip(with_plugin, without, strict=True))
    print(f"pairs                      {PAIRS}")
    print(
        f"with the plug-in           {statistics.median(with_plugin) * 1000:7.1f} ms CPU (median)"
    )
    print(f"with -p no:evarness        {statistics.median(without) * 1000:7.1f} ms CPU (median)")
    print(
        f"ratio                      {statistics.median(ratios):7.3f}"
        f" (min {ratios[0]:.3f}, max {ratios[-1]:.3f})"
    )


if __name__ == "__main__":
    main()
