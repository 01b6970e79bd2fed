"""A session without scenarios pays for none of this package but its entry module."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.plugin.scenarios import echo, gated

if TYPE_CHECKING:
    from tests.plugin.ran import Session

PLAIN = """
import json
import sys


def test_it(request):
    mine = sorted(name for name in sys.modules if name.startswith("pytest_evarness"))
    heavy = ["yaml", "pydantic", "cryptography", "jsonschema", "regex", "junit_xml", "lxml"]
    loaded = [name for name in heavy if name in sys.modules]
    assert request.config.pluginmanager.has_plugin("evarness")
    with open("loaded.json", "w") as stream:
        json.dump([mine, loaded], stream)
"""


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "1"), marks=pytest.mark.slow)])
def test_an_ordinary_session_imports_the_entry_module_alone(
    session: Session, workers: tuple[str, ...]
) -> None:
    files = {"test_plain.py": PLAIN, "data/some.yaml": "a: 1\n", "config.yml": "evarness: 1\n"}
    ran = session(*workers, files=files, subprocess=True)
    assert ran.code == 0, ran.text
    mine, loaded = json.loads((ran.root / "loaded.json").read_text())
    assert mine == [
        "pytest_evarness",
        "pytest_evarness.plugin",
        "pytest_evarness.plugin.hookspecs",
        "pytest_evarness.plugin.options",
    ]
    assert loaded == []
    assert "evarness: " not in ran.text
    assert not (ran.root / ".evarness").exists()


def test_the_look_at_modules_can_see_them(session: Session) -> None:
    # The twin: beside a scenario the same test finds what it looks for.
    files = {"test_plain.py": PLAIN, "scenarios/a.yaml": echo()}
    assert session(files=files, subprocess=True).code == 0
    ran = session(files=files)
    mine, loaded = json.loads((ran.root / "loaded.json").read_text())
    assert "pytest_evarness.pipeline" in mine
    assert {"yaml", "pydantic", "cryptography"} <= set(loaded)


@pytest.mark.slow
def test_it_loads_by_name_where_autoload_is_off(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    ran = session("-p", "evarness", files={"scenarios/g.yaml": gated()}, subprocess=True)
    assert (ran.code, ran.counts) == (0, {"passed": 9, "vacuous": 9})
    assert ran.holds is True


def test_it_can_be_turned_off(pytester: pytest.Pytester) -> None:
    (pytester.path / "scenarios").mkdir()
    (pytester.path / "scenarios/a.yaml").write_text(json.dumps(echo()))
    result = pytester.runpytest_inprocess("-p", "no:evarness", "-p", "no:hypothesispytest")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_header_names_version_and_key_and_then_what_was_found(session: Session) -> None:
    ran = session(files={"scenarios/g.yaml": gated(), "scenarios/e.yaml": echo()})
    assert "\nevarness: 0.1.0\n" in ran.text
    assert "\nevarness: 0.1.0, 2 scenarios, 4 cases, 4 contracts, local key\n" in ran.text
    assert "\nevarness: 0.1.0\n" in session("--evarness-unsigned").text
