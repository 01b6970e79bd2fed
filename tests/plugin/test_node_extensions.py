"""Classifiers, rules of chains and of redactions that a conftest adds work as the page says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

PAGE = Path(__file__).parents[2] / "docs" / "nodes" / "egress.md"
FILE = "scenarios/s.yaml"
BADGE = "B-123"


def conftest() -> str:
    (code,) = re.findall(
        r"^```python\n# conftest\.py\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return str(code)


def scenario(**names: str) -> dict[str, Any]:
    rule = names.get("rule", "acme.short")
    return {
        "evarness": 1,
        "id": "own-rules",
        "subject": {
            "graph": {
                "ir_version": 1,
                "id": "own",
                "nodes": [
                    {"id": "ask", "type": "input"},
                    {
                        "id": "class",
                        "type": "data_classifier",
                        "config": {"classifier": names.get("classifier", "acme.legal")},
                    },
                    {"id": "chain", "type": "interceptor", "config": {"chain": [rule]}},
                    {
                        "id": "mask",
                        "type": "redaction_rules",
                        "config": {"rules": ["ssn", names.get("redaction", "acme.badge")]},
                    },
                    {"id": "model", "type": "llm"},
                    {
                        "id": "check",
                        "type": "interceptor",
                        "config": {"chain": ["schema_validate"]},
                    },
                    {"id": "tell", "type": "output"},
                ],
                "edges": [
                    {"from": left, "to": right}
                    for left, right in (
                        ("ask", "class"),
                        ("class", "chain"),
                        ("chain", "mask"),
                        ("mask", "model"),
                        ("model", "check"),
                        ("check", "tell"),
                    )
                ],
            }
        },
        "environment": {"default_response": {"text": "fine"}},
        "cases": {
            "badge": {
                "environment": {"user_input": f" Who has badge {BADGE}? "},
                "expect": {"status": "completed"},
            },
            "privileged": {
                "environment": {"user_input": "a privileged letter"},
                "expect": {"status": "blocked", "nodes_not_run": ["check"]},
            },
            "long": {
                "environment": {"user_input": "x" * 501},
                "expect": {"status": "blocked", "nodes_not_run": ["mask"]},
            },
        },
        "invariants": {
            "gone": {
                "description": "the badge is gone",
                "gate": True,
                "cases": ["badge"],
                "check": {"type": "redaction", "must_redact": True},
            },
            "masked": {
                "description": "it was masked as a badge",
                "gate": True,
                "cases": ["badge"],
                "check": {
                    "type": "trace",
                    "assert": {
                        "eventually": {
                            "type": "redaction_applied",
                            "where": {"rules_hit": {"contains": "acme.badge"}},
                        }
                    },
                },
            },
        },
    }


def ran(
    session: Session, code: str, names: Mapping[str, str] | None = None, *, mirror: bool = False
) -> Ran:
    files = {FILE: scenario(**(names or {})), "conftest.py": code}
    return session("--evarness-unsigned", files=files, mirror=mirror)


def test_the_conftest_of_the_page_adds_what_it_says(session: Session) -> None:
    made = ran(session, conftest(), mirror=True)
    assert (made.code, made.holds) == (0, True), made.text
    assert made.predicate["verdict"]["valid"] == 3


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"rule": "acme.shrot"}, "unknown rule (got 'acme.shrot'"),
        ({"classifier": "acme.leagl"}, "unknown classifier (got 'acme.leagl'"),
        ({"redaction": "acme.bagde"}, "unknown rule (got 'acme.bagde'"),
    ],
)
def test_a_name_that_nobody_registered_does_not_load(
    session: Session, names: dict[str, str], said: str
) -> None:
    made = ran(session, conftest(), names)
    assert made.code == 1
    assert said in made.text
    assert "try: write 'acme." in made.text


def test_a_part_of_the_wrong_shape_is_told_with_its_author(session: Session) -> None:
    made = ran(session, conftest().replace('"acme.short", short', '"short", short'))
    assert made.code != 0
    assert "a name of a plug-in's own holds a dot (got 'short'; such as acme.short)" in made.text


def test_a_rule_that_answers_by_chance_does_not_reproduce(session: Session) -> None:
    code = conftest().replace("    return text.strip()", "    return f'{text} {hash(text)}'")
    made = ran(session, code, mirror=True)
    assert made.code == 1
    assert made.findings(f"{FILE}::badge")["reproduces"] == "fail"
