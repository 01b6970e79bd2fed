"""Tests inside manifests are items, and a manifest that fails its own judges nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.scenarios import echo

if TYPE_CHECKING:
    from tests.plugin.ran import Session

TOOLS = """
tools:
  - id: crm.find
    safety: {side_effects: read}
    sim: [{result: [{id: r1, text: found}]}]
    tests:
      finds: {expect: {count: COUNT}}
      "is empty": {answer: {result: []}, expect: {count: 0}}
"""
ITEM = "crm.find::test[finds]"
PLACES = ("evarness/tools.yaml", "scenarios/tools.yaml")


def files(place: str, count: int) -> dict[str, Any]:
    return {"scenarios/a.yaml": echo(), place: TOOLS.replace("COUNT", str(count))}


@pytest.mark.parametrize("place", PLACES)
def test_tests_of_a_manifest_are_items(session: Session, place: str) -> None:
    listed = session("--co", "-q", files=files(place, 1))
    assert f"{place}::{ITEM}" in listed.text
    assert f"{place}::crm.find::test[is empty]" in listed.text
    assert session().code == 0
    assert session(f"{place}::{ITEM}", "--evarness-min-scenarios=0").counts == {"passed": 1}


def test_workers_share_them(session: Session) -> None:
    ran = session("-n", "2", files=files("evarness/tools.yaml", 1))
    assert ran.code == 0
    assert ran.holds is True


@pytest.mark.parametrize("place", PLACES)
def test_a_manifest_that_fails_its_own_test_is_used_by_nobody(session: Session, place: str) -> None:
    ran = session(files=files(place, 2))
    assert ran.code == 1
    assert f"FAILED {place}::{ITEM}" in ran.text
    said = rf"{place}:7:\d+: tools\[0\]\.tests\.finds: the tool does not do what its test says"
    assert re.search(said, ran.text)
    assert (ran.counts["failed"], ran.counts["error"]) == (1, 1)
    assert ran.holds is not True


def test_a_manifest_elsewhere_is_none_of_ours(session: Session) -> None:
    ran = session(files=files("deploy/tools.yaml", 2))
    assert ran.code == 0
    assert "crm.find" not in ran.text


def test_a_broken_file_with_tests_is_one_item(session: Session) -> None:
    written = files("evarness/tools.yaml", 1)
    written["evarness/tools.yaml"] = written["evarness/tools.yaml"].replace("safety", "saftey")
    ran = session("evarness", files=written)
    assert ran.code != 0
    assert "evarness/tools.yaml:4:5: tools[0]: unknown key (got 'saftey'" in ran.text
    assert "Traceback" not in ran.text
