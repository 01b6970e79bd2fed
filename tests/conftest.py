"""A runner that checks, in every test, what holds for every session."""

from __future__ import annotations

import gc
import os
import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pytest

import pytest_evarness
from pytest_evarness.bundle.key import make_key
from pytest_evarness.bundle.verify import Options, verify_bundle
from pytest_evarness.core.registry import packaged_registry
from tests.plugin.ran import Ran, Session, counts_of
from tests.plugin.scenarios import gated, write


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import everything once: a session inside this process forgets what it imported first."""
    for module in pkgutil.walk_packages(pytest_evarness.__path__, "pytest_evarness."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    root = tmp_path_factory.mktemp("warm")
    result = pytest_evarness.run(gated(), "approve", root=root, rerun="inline")
    private = root / "key.pem"
    make_key(private)
    bundle = result.bundle(root / "proof.json", key=private)
    verify_bundle(bundle.read_bytes(), options=Options(), registry=packaged_registry())
    # pytest collects garbage at the end of each session: not again through all that is here.
    gc.collect()
    gc.freeze()


OUTER = (
    *("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"),
    *("PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE"),
    # pytest's own summary is longer there, for instance by what a test counts.
    *("CI", "BUILD_NUMBER"),
)


@pytest.fixture(scope="session", autouse=True)
def _nothing_of_the_outer_session() -> None:
    """Sessions inside a test are nobody's workers, whatever runs the test, and quick to start."""
    for name in OUTER:
        os.environ.pop(name, None)


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, warm: None) -> Session:
    """Write the given files, run pytest on them in this process, and check what always holds.

    Run B happens in the same process unless a test asks for the mirror: most are not about it.
    """
    del warm
    monkeypatch.delenv("EVARNESS_SIGNING_KEY", raising=False)

    def run(
        *words: str,
        files: Mapping[str, Any] | None = None,
        subprocess: bool = False,
        mirror: bool = False,
        shows_source: bool = False,
    ) -> Ran:
        for name, content in (files or {}).items():
            write(pytester.path / name, content)
        rerun = "mirror" if mirror else "inline"
        # Not ours: importing it in every session would take two seconds each.
        others = ("-p", "no:hypothesispytest")
        arguments = (*others, f"--evarness-rerun={rerun}", *words)
        result = (
            pytester.runpytest_subprocess(*arguments)
            if subprocess
            else pytester.runpytest_inprocess(*arguments)
        )
        text = result.stdout.str() + result.stderr.str()
        # A failure of ours never shows the reader our own source.
        assert shows_source or "pytest_evarness/" not in text, text
        assert "INTERNALERROR" not in text, text
        return Ran(int(result.ret), text, counts_of(text), pytester.path)

    return run
