"""Where a step raised is shown to whoever repairs it, and stands in nothing that is compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.raised import lines_of, own_place
from tests.plugin.scenarios import echo, step_graph

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

CASE = "scenarios/s.yaml::default"
PATH = "import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\n"
STEPS = """
import json

from raising.reader import read


def here(inputs, config, context):
    raise ValueError("no such row")


def deeper(inputs, config, context):
    return read("{not json")


def swallowed(inputs, config, context):
    try:
        read("{not json")
    except ValueError as error:
        raise RuntimeError("no order") from error


def made_of_text(inputs, config, context):
    exec(compile("raise ValueError('of text')", "nowhere.py", "exec"), {})


def fine(inputs, config, context):
    return {"out": "done"}
"""
READER = """
import json


def read(text):
    return json.loads(text)
"""


def run(session: Session, function: str, *words: str, folder: str = "raising", **more: Any) -> Ran:
    files = {
        "conftest.py": PATH.replace(
            "dirname(__file__)", f"join(os.path.dirname(__file__), '{folder}')"
        ),
        f"{folder}/raised_steps.py": STEPS.replace("raising.reader", "raised_reader"),
        f"{folder}/raised_reader.py": READER,
        "scenarios/s.yaml": echo(subject={"graph": step_graph(f"raised_steps:{function}")}),
    }
    return session("--evarness-unsigned", *words, files=files, **more)


def raised(ran: Ran) -> list[str]:
    return [line.strip() for line in ran.text.splitlines() if line.startswith("  raised:")]


@pytest.mark.parametrize(
    ("function", "place"),
    [
        ("here", "raising/raised_steps.py:8"),
        # Raised in a library: the line of the project that called it.
        ("deeper", "raising/raised_reader.py:6"),
        ("swallowed", "raising/raised_steps.py:19"),
        ("made_of_text", "raising/raised_steps.py:23"),
    ],
)
def test_the_line_of_the_project_is_shown_once(session: Session, function: str, place: str) -> None:
    ran = run(session, function)
    assert ran.code == 1, ran.text
    assert raised(ran) == [f"raised:    {place}"]


def test_a_step_that_raises_nothing_has_no_such_line(session: Session) -> None:
    ran = run(session, "fine")
    assert (ran.code, raised(ran)) == (0, []), ran.text


def test_no_path_enters_the_bundle_and_two_places_give_the_same_digests(session: Session) -> None:
    one = run(session, "deeper")
    other = run(session, "deeper", folder="elsewhere/within")
    assert raised(one) != raised(other)
    assert one.digests() == other.digests()
    for ran in (one, other):
        (case,) = ran.predicate["cases"]
        text = json.dumps(case)
        assert "JSONDecodeError" in text
        assert "raised_reader" not in text
        assert str(ran.root) not in json.dumps(ran.predicate)
    findings = [one.predicate["cases"][0]["replicas"][0]["findings"] for one in (one, other)]
    assert findings[0] == findings[1]


def test_workers_say_the_same(session: Session) -> None:
    ran = run(session, "deeper", "-n", "1", subprocess=True)
    assert raised(ran) == ["raised:    raising/raised_reader.py:6"]


def test_a_line_is_of_the_project_or_of_nobody(tmp_path: Path) -> None:
    root = tmp_path / "root"
    inside, outside = root / "a" / "step.py", tmp_path / "other.py"
    installed = root / ".venv" / "lib" / "site-packages" / "x.py"
    for path in (inside, outside, installed):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", encoding="utf-8")
    assert own_place([(str(inside), 3)], root) == "a/step.py:3"
    assert own_place([(str(inside), 3), (str(outside), 9), (str(installed), 4)], root) == (
        "a/step.py:3"
    )
    assert own_place([(str(outside), 9)], root) is None
    assert own_place([("<string>", 1), ("a/step.py", 1), ("\0", 1)], root) is None
    assert own_place([(str(root / "gone.py"), 1)], root) is None
    assert own_place([], root) is None
    package = Path(__file__).parents[2]
    kernel = package / "pytest_evarness" / "core" / "raised.py"
    assert own_place([(str(kernel), 1)], package) is None
    assert own_place([(__file__, 1)], package) == "tests/plugin/test_raised.py:1"


def test_a_traceback_gives_each_file_once_with_its_innermost_line() -> None:
    def fall(depth: int) -> None:
        if depth:
            fall(depth - 1)
        json.loads("{")

    try:
        fall(50)
    except ValueError as error:
        lines = lines_of(error)
    assert len(lines) == len({name for name, _ in lines})
    assert lines[0][0] == __file__
    assert all(Path(name).is_absolute() for name, _ in lines)
    assert lines_of(ValueError()) == ()
