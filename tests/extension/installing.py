"""Distributions as an installer leaves them: modules, metadata, entry points; and sessions on them.

Nothing is fetched and no build tool is asked: what makes a distribution to Python is a folder
``NAME-VERSION.dist-info`` beside its modules, and that is written here from its ``pyproject.toml``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_evarness.bundle.key import load_public_key, make_key
from pytest_evarness.bundle.verify import Options, Report, verify_bundle
from pytest_evarness.core.registry import packaged_registry
from tests.plugin.ran import Ran, counts_of
from tests.plugin.scenarios import write

PACKAGES = Path(__file__).with_name("packages")
ROOT = Path(__file__).parents[2]
GROUP = "evarness.plugins"


@dataclass
class Site:
    """A folder of installed distributions, found by every process that is started on it."""

    folder: Path
    root: Path
    variables: dict[str, str] = field(default_factory=dict)

    def beside(self, name: str) -> Site:
        """The same distributions, for another project."""
        root = self.root.parent / name
        root.mkdir()
        return Site(self.folder, root, self.variables)

    def install(self, name: str) -> None:
        """Install one of the packages beside this file."""
        source = PACKAGES / name
        project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
        shutil.copytree(
            source / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__")
        )
        points = project["entry-points"][GROUP]
        self.describe(project["name"], project["version"], points)

    def install_module(self, name: str, text: str, **points: str) -> None:
        """Install a distribution ``evarness-NAME`` of one module with that text.

        Args:
            points: Entry points; ``NAME="NAME:register"`` where none is given.
        """
        (self.folder / f"{name}.py").write_text(text, encoding="utf-8")
        self.describe(f"evarness-{name}", "0.1", points or {name: f"{name}:register"})

    def describe(self, name: str, version: str, points: Mapping[str, str]) -> None:
        """Write what an installer writes beside the modules."""
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "INSTALLER").write_text("by hand\n")
        (info / "RECORD").write_text("")
        lines = [f"{point} = {value}\n" for point, value in points.items()]
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{''.join(lines)}")

    # -- processes ---------------------------------------------------------------------------

    def start(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a Python program with what is installed here; its own home, nobody's settings."""
        kept = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "TMPDIR")
        variables = {name: os.environ[name] for name in kept if name in os.environ}
        home = self.root.parent / "home"
        home.mkdir(exist_ok=True)
        variables |= {
            "PYTHONPATH": os.pathsep.join([str(self.folder), str(ROOT)]),
            "HOME": str(home),
            **self.variables,
        }
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.root,
            env=variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def session(self, *words: str, files: Mapping[str, Any], mirror: bool = True) -> Ran:
        """Run pytest on the given files, signed with the key of this site."""
        for name, content in files.items():
            write(self.root / name, content)
        rerun = "mirror" if mirror else "inline"
        done = self.start(
            "-m",
            "pytest",
            *("-p", "no:hypothesispytest", "-p", "no:cacheprovider"),
            f"--rootdir={self.root}",
            f"--evarness-key={self.key}",
            f"--evarness-rerun={rerun}",
            *words,
        )
        text = done.stdout + done.stderr
        assert "INTERNALERROR" not in text, text
        assert "Traceback (most recent" not in text, text
        return Ran(done.returncode, text, counts_of(text), self.root)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``pytest-evarness``; whatever comes, no traceback."""
        done = self.start("-m", "pytest_evarness", *words)
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return done

    # -- keys --------------------------------------------------------------------------------

    @property
    def key(self) -> Path:
        path = self.root.parent / "key.pem"
        if not path.exists():
            make_key(path)
        return path

    def verify(self, ran: Ran) -> Report:
        """Verify the session's bundle as a stranger who has no plug-in would."""
        data = (ran.root / ".evarness" / "proof.json").read_bytes()
        key = load_public_key(str(self.key) + ".pub")
        return verify_bundle(data, options=Options(keys=(key,)), registry=packaged_registry())


def lines_about(text: str, word: str) -> list[str]:
    """Lines that hold a word."""
    return [line for line in text.splitlines() if re.search(word, line)]
