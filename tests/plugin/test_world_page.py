"""The page about worlds shows what happens."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.plugin.scenarios import echo

if TYPE_CHECKING:
    from tests.plugin.ran import Session

PAGE = Path(__file__).parents[2] / "docs" / "world.md"
TEXT = PAGE.read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCES = [(found.group(1), found.group(2)) for found in FENCE.finditer(TEXT)]
(SCENARIO,) = [text for language, text in FENCES if language == "yaml"]
STEPS, CONFTEST = (text for language, text in FENCES if language == "python")


def world_of(ran: Any) -> Any:
    (case,) = ran.predicate["cases"]
    return json.loads(case["replicas"][0]["world"])


def test_the_example_of_the_page_holds(session: Session) -> None:
    files = {"nightly_steps.py": STEPS, "scenarios/s.yaml": SCENARIO}
    ran = session("--evarness-unsigned", files=files, mirror=True)
    assert (ran.code, ran.holds) == (0, True), ran.text
    world = world_of(ran)
    assert world["workspace"]["added"] == ["report.txt"]
    (books,) = [one for one in world["services"] if one["name"] == "books"]
    assert books["tables"][0]["rows"] == [["2026-01-01", 7]]
    # The twin: the step that writes one file more does not hold.
    files["nightly_steps.py"] = STEPS.replace(
        "    database =", '    (context.workspace / "more").touch()\n    database =', 1
    )
    assert session("--evarness-unsigned", files=files).code == 1


def test_the_service_type_that_the_page_shows_works(session: Session) -> None:
    files = {
        "conftest.py": CONFTEST,
        "scenarios/s.yaml": echo(environment={"services": {"n": {"type": "counter", "first": 3}}}),
    }
    ran = session("--evarness-unsigned", files=files, mirror=True)
    assert ran.code == 0, ran.text
    assert world_of(ran)["services"] == [{"name": "n", "type": "counter", "count": 3}]
    files["scenarios/s.yaml"] = echo(environment={"services": {"n": {"type": "countr"}}})
    ran = session("--evarness-unsigned", files=files)
    assert "unknown type of service (got 'countr'; known: counter, " in ran.text


def test_the_page_names_every_field_that_a_snapshot_may_have() -> None:
    source = (PAGE.parents[1] / "pytest_evarness/world/snapshot.py").read_text(encoding="utf-8")
    fields = set(re.findall(r'made\["(\w+)"\]|true\["(\w+)"\]|"(\w+)": True', source))
    names = {name for found in fields for name in found if name}
    names |= set(re.findall(r"\b(unread\w*|mode|size|type)=", source))
    assert len(names) > 9
    for name in names:
        assert f"`{name}`" in TEXT or f"`{name}:" in TEXT, name


def test_the_page_names_what_a_snapshot_leaves_out() -> None:
    from pytest_evarness.world.repository import UNLISTED

    for name in UNLISTED - {"index.lock"}:
        assert f"`{name}`" in TEXT, name
