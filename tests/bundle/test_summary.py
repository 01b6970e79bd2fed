"""Whether a session holds follows the table, and what is not proven is always said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pytest_evarness.bundle.not_proven import NO_LIBRARY, STANDING_LIMITS, UNSIGNED, not_proven
from pytest_evarness.bundle.seal import redefined
from pytest_evarness.bundle.summary import summarise
from pytest_evarness.core import c1
from tests.bundle.builder import APPROVE, PENDING, REJECT, Spec, statement_of

DONE = c1.text({"status": "completed"})
PAUSED = c1.text({"status": "paused"})


def item(name: str, kind: str = "contract", **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "kind": kind,
        "gate": True,
        "decides": True,
        "written": True,
        "because": None,
        "applies": None,
        "definition": c1.sha256_text(DONE) if kind == "expect" else None,
        "selected": True,
        "why": None,
        **more,
    }


ITEMS = (
    item("reproduces", "reproduces"),
    item("expect", "expect", written=False),
    item("c"),
)


def finding(outcome: str = "pass", *, vacuous: bool = False) -> dict[str, Any]:
    causes = ["missing_evidence"] if outcome == "indeterminate" else []
    return {"outcome": outcome, "vacuous": vacuous, "causes": causes}


def session(
    *outcomes: Any,
    items: tuple[dict[str, Any], ...] = ITEMS,
    mode: str = "release",
    status: str = "completed",
    run: bool = True,
    broken: tuple[str, ...] = (),
    plan: bool = True,
    **seal: Any,
) -> dict[str, Any]:
    """A predicate of one case; ``outcomes`` are those of its items, passes where none is given."""
    given = [finding(one) if isinstance(one, str) else one for one in outcomes]
    findings = given + [finding()] * (len(items) - len(given))
    words = [f["outcome"] for f, i in zip(findings, items, strict=True) if i["gate"]]
    verdict = (
        "invalid" if "fail" in words else "indeterminate" if "indeterminate" in words else "valid"
    )
    planned = {
        "nodeid": "x.yaml::a",
        "file": "x.yaml",
        "mode": mode,
        "waived": [],
        "items": list(items),
    }
    case = {
        "nodeid": "x.yaml::a",
        "verdict": verdict,
        "replicas": [{"status": status, "findings": findings, "leftovers": []}],
    }
    texts = [{"digest": c1.sha256_text(text), "text": text} for text in (DONE, PAUSED)]
    return {
        "seal": {
            "plan": [planned] if plan else [],
            "definitions": texts,
            "broken": [{"file": name, "text": "?"} for name in broken],
            "contracts": [],
            "redefined": [],
            "corpora": [],
            "overrides": [],
            "overlays": [],
            "git": {"commit": "c", "tree": "t", "clean": True},
            "settings": {
                "rerun": "mirror",
                "events": "full",
                "strict_vacuity": False,
                "min_scenarios": 0,
                "mode": None,
                "min_coverage": None,
            },
            **seal,
        },
        "cases": [case] if run and plan else [],
        "changed": [],
    }


SOFT = (*ITEMS, item("m", gate=False, decides=False))
SCORED = (*SOFT, item("score", "score", gate=False, decides=True))
BARE = ITEMS[:2]


@pytest.mark.parametrize(
    ("predicate", "holds"),
    [
        (session(), True),
        # false
        (session("fail"), False),
        (session("pass", "pass", "fail"), False),
        (session("pass", "pass", "pass", "pass", "fail", items=SCORED), False),
        (session(items=BARE), False),
        (session(plan=False), False),
        (session(plan=False, broken=("y.yaml",)), False),
        (session("fail", mode="diagnostic"), False),
        (session("fail", broken=("y.yaml",)), False),
        # null
        (session("indeterminate"), None),
        (session("pass", "indeterminate"), None),
        (session("pass", "pass", "pass", "pass", "indeterminate", items=SCORED), None),
        (session(run=False), None),
        (session(broken=("y.yaml",)), None),
        (session(mode="diagnostic"), None),
        (session(items=(*ITEMS[:2], item("c", selected=False, why="-k"))), None),
        (session("pass", "pass", finding(vacuous=True)), None),
        # true, though something weighted was missed or is vacuous
        (session("pass", "pass", "pass", "fail", items=SOFT), True),
        (session("pass", "pass", "pass", "indeterminate", items=SOFT), True),
        (session("pass", "pass", "pass", finding(vacuous=True), items=SOFT), True),
        (session(items=(BARE[0], item("expect", "expect"))), True),
        (session(mode="exploratory"), True),
    ],
)
def test_holds_is_as_the_table_says(predicate: Mapping[str, Any], holds: bool | None) -> None:
    assert summarise(predicate)["holds"] is holds


def test_the_note_is_the_first_reason() -> None:
    assert summarise(session("pass", "pass", "fail"))["note"] == "x.yaml::a::c failed"
    two = summarise(session("fail", "pass", "fail"))
    assert two["note"] == "x.yaml::a::reproduces failed (and 1 more)"


def test_a_pause_that_nobody_declared_is_pending() -> None:
    undeclared = summarise(session("pass", "indeterminate", status="paused"))
    assert (undeclared["holds"], undeclared["pending"]) == (None, 1)
    declared = (ITEMS[0], item("expect", "expect", definition=c1.sha256_text(PAUSED)), ITEMS[2])
    summary = summarise(session(status="paused", items=declared))
    assert (summary["holds"], summary["pending"], summary["valid"]) == (True, 0, 1)


def test_a_pause_whose_reproduction_failed_does_not_hold() -> None:
    assert summarise(session("fail", "indeterminate", status="paused"))["holds"] is False


# -- not proven ---------------------------------------------------------------------------------


def limits(predicate: Mapping[str, Any], *, signed: bool = True) -> list[str]:
    return not_proven(predicate, None, signed=signed)


def test_the_standing_limits_are_in_every_bundle() -> None:
    assert limits(session()) == [*STANDING_LIMITS, NO_LIBRARY]
    assert limits(session(), signed=False) == [*STANDING_LIMITS, NO_LIBRARY, UNSIGNED]


def test_what_was_vacuous_in_every_case_comes_first() -> None:
    first, *rest = limits(session("pass", "pass", finding(vacuous=True)))
    assert first == "'c' was vacuous in the one case in which it applied: nothing tested it"
    assert rest == [*STANDING_LIMITS, NO_LIBRARY]


def test_an_invariant_that_applied_nowhere_is_said() -> None:
    items = (*ITEMS[:2], item("c", applies="no such tool"))
    first, *_ = limits(session("pass", "pass", finding(vacuous=True), items=items))
    assert first == "'c' applied in no case of this session"


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (
            session(items=(*ITEMS[:2], item("c", selected=False, why="-k"))),
            "x.yaml::a: deselected (-k): c",
        ),
        (
            session(
                items=tuple({**one, "selected": False, "why": "-m"} for one in ITEMS), run=False
            ),
            "x.yaml::a: deselected (-m): every item",
        ),
        (session(run=False), "x.yaml::a: was planned and did not run to a judgement"),
        (session(broken=("y.yaml",)), "y.yaml: did not load, so nothing in it was judged"),
        (
            session("pass", "pass", "indeterminate"),
            "x.yaml::a::c is indeterminate (missing_evidence)",
        ),
        (session(mode="diagnostic"), "x.yaml::a: is diagnostic, an observation after a failure"),
        (
            session(
                contracts=[{"id": "c", "version": 2, "untested": True, "definition": "sha256:1"}]
            ),
            "contracts without a corpus of their own (untested): c@2",
        ),
        (
            session(
                contracts=[
                    {"id": "c", "version": 1, "untested": False, "definition": "sha256:1"},
                    {"id": "c", "version": 1, "untested": False, "definition": "sha256:2"},
                ]
            ),
            "c@1 has 2 definitions in this session",
        ),
        (
            session(redefined=[{"id": "c", "version": 1, "definition": "sha256:1"}]),
            "c@1 has another definition than in the bundle before",
        ),
        (
            session(overlays=[{"name": "tools", "label": "~/.evarness/tools"}]),
            "overlays from outside the project, pinned by digest alone: tools (~/.evarness/tools)",
        ),
        (session(git=None), "no commit is named: the session did not run in a git working tree"),
        (
            session(git={"commit": None, "clean": False}),
            "no commit is named: the git repository that the session ran in has none yet",
        ),
        (
            session(git={"commit": "1", "clean": False}),
            "the working tree was not clean: the commit does not hold all that was run",
        ),
        (
            session(git={"commit": "1", "clean": None}),
            "whether the working tree was clean is not known",
        ),
        (
            session(settings={"rerun": "inline", "events": "full"}),
            "both runs were made in one process (inline rerun): perturbation was not tried",
        ),
        (
            session(settings={"rerun": "mirror", "events": "digest"}),
            "events are not enclosed: no finding can be recomputed from this bundle",
        ),
    ],
)
def test_each_limit_of_a_session_is_said(predicate: Mapping[str, Any], text: str) -> None:
    assert text in limits(predicate)
    assert text not in limits(session())


def test_a_contract_that_changed_under_its_version_is_found() -> None:
    before = [{"id": "c", "version": 1, "definition": "sha256:1"}]
    same = [{"id": "c", "version": 1, "definition": "sha256:1"}]
    other = [{"id": "c", "version": 1, "definition": "sha256:2"}]
    newer = [{"id": "c", "version": 2, "definition": "sha256:2"}]
    assert redefined(before, same) == []
    assert redefined(before, newer) == []
    assert redefined([], other) == []
    assert redefined(before, other) == other


# -- what no case exercised ---------------------------------------------------------------------


def exercised(*specs: Spec) -> list[str]:
    predicate = statement_of(*specs)["predicate"]
    return [text for text in predicate["not_proven"] if "that no case exercised" in text]


def test_nodes_and_edges_that_no_case_reached_are_named() -> None:
    said = exercised(PENDING)
    assert "nodes of graph 'gated-send' that no case exercised: n3, n4, n7" in said
    assert "edges of graph 'gated-send' that no case exercised: n3 -> n4, n4 -> n7" in said


def test_a_case_that_reaches_them_takes_them_off_the_list() -> None:
    assert not any(text.startswith("nodes of") for text in exercised(PENDING, APPROVE))
    assert not any(text.startswith("edges of") for text in exercised(PENDING, APPROVE))


def test_a_domain_names_what_it_knows_of() -> None:
    # A rejected send is a branch of its own.
    assert any("reject" in text for text in exercised(APPROVE))
    assert not any("reject" in text for text in exercised(APPROVE, REJECT))


@pytest.mark.parametrize(
    ("least", "broken", "holds"), [(1, (), True), (2, (), False), (2, ("y.yaml",), None)]
)
def test_fewer_scenario_files_than_were_asked_for_do_not_hold(
    least: int, broken: tuple[str, ...], holds: bool | None
) -> None:
    predicate = session(broken=broken)
    predicate["seal"]["settings"]["min_scenarios"] = least
    verdict = summarise(predicate)
    assert verdict["holds"] is holds
    if holds is False:
        assert verdict["note"] == "1 scenario files were found, at least 2 needed"
