"""What of the harness was exercised: shown, stated as not proven, and demanded as a share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.bundle.recomputation import check_exercised, check_not_proven
from pytest_evarness.core.registry import packaged_registry
from pytest_evarness.errors import UnverifiedError
from tests.extension.installing import lines_about
from tests.extension.test_other_domain import FILE as GATE_FILE
from tests.extension.test_other_domain import SCENARIO as GATE
from tests.plugin.scenarios import echo, gated, graph

if TYPE_CHECKING:
    from tests.extension.installing import Site
    from tests.plugin.ran import Ran, Session

FILE = "scenarios/a.yaml"


def without(*names: str) -> dict[str, Any]:
    """The gated send without some of its cases."""
    scenario = gated()
    scenario["cases"] = {
        name: case for name, case in scenario["cases"].items() if name not in names
    }
    return scenario


def exercised(ran: Ran) -> list[str]:
    return lines_about(ran.text, r"^(exercised|  not exercised|evarness: .* exercised)")


def test_a_session_that_exercised_all_of_it_meets_the_full_share(session: Session) -> None:
    ran = session("--evarness-min-coverage=100", files={FILE: gated()})
    assert ran.code == 0, ran.text
    # 7 nodes, 6 edges, 3 branches of the gate, 1 tool; a route is no part that counts.
    assert exercised(ran) == [
        "exercised: 100 % of the harness (17 of 17 approval branches, edges, nodes and tools)",
        "  not exercised: graph 'approval-gated-send': routes n2:reject (fallback)",
    ]


def test_without_a_demand_a_full_share_is_not_worth_a_line(session: Session) -> None:
    assert exercised(session(files={FILE: echo()})) == []
    ran = session("--evarness-min-coverage=100")
    assert exercised(ran) == ["exercised: 100 % of the harness (3 of 3 edges and nodes)"]


BRANCH = "graph 'approval-gated-send': approval branches n3:reject"
MISSED = [
    "exercised: 94.1 % of the harness (16 of 17 approval branches, edges, nodes and tools)",
    f"  not exercised: {BRANCH}, routes n2:reject (fallback)",
]


def test_what_no_case_exercised_is_shown_and_stated(session: Session) -> None:
    ran = session(files={FILE: without("reject")})
    assert (ran.code, ran.holds) == (0, True)
    assert exercised(ran) == MISSED
    assert (
        "approval branches of graph 'approval-gated-send' that no case exercised: n3:reject"
        in ran.predicate["not_proven"]
    )


@pytest.mark.parametrize(
    ("percent", "code"), [("0", 0), ("94", 0), ("94.1", 0), ("94.12", 1), ("95", 1), ("100", 1)]
)
def test_the_share_is_compared_exactly(session: Session, percent: str, code: int) -> None:
    ran = session(f"--evarness-min-coverage={percent}", files={FILE: without("reject")})
    assert ran.code == code  # 16 of 17 is 94.117...
    assert ran.holds is (code == 0)


def test_too_little_is_one_line_that_names_what_is_missing_and_does_not_hold(
    session: Session,
) -> None:
    ran = session("--evarness-min-coverage=95", files={FILE: without("reject")})
    assert ran.code == 1
    line = (
        "evarness: 94.1 % of the harness was exercised, at least 95 % needed; not exercised:"
        " graph 'approval-gated-send': approval branches n3:reject"
    )
    assert exercised(ran) == [*MISSED, line]
    assert ran.predicate["verdict"]["holds"] is False
    assert ran.predicate["verdict"]["note"] == (
        "16 of 17 parts of the harness were exercised, at least 95 % needed"
    )
    assert ran.predicate["exercised"] == {"done": 16, "total": 17, "told": True}
    assert ran.predicate["verdict"]["invalid"] == 0


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ("-1", ""),
        ("100.5", ""),
        ("101", ""),
        ("85%", "; try: write '85'"),
        ("1e1", ""),
        ("nan", ""),
        ("half", ""),
        ("٥٠", ""),
        ("50 ", ""),
        ("1/2", ""),
        ("0." + "1" * 50, ""),
    ],
)
def test_what_is_no_percentage_is_wrong_use(session: Session, value: str, fix: str) -> None:
    ran = session(f"--evarness-min-coverage={value}", files={FILE: gated()})
    assert ran.code == 4
    told = f"--evarness-min-coverage: must be a percentage (got {value!r}; 0 to 100{fix})"
    assert told in ran.text


def ini(percent: str) -> dict[str, str]:
    return {"pytest.ini": f"[pytest]\nevarness_min_coverage = {percent}\n"}


def test_the_ini_file_demands_it_too_and_an_option_wins(session: Session) -> None:
    files = {FILE: without("reject"), **ini("95")}
    assert session(files=files).code == 1
    assert session("--evarness-min-coverage=0").code == 0
    ran = session(files=ini("95%"))
    assert ran.code == 4
    assert "must be a percentage (got '95%'; 0 to 100; try: write '95')" in ran.text


def test_a_selection_counts_what_ran_and_is_called_partial(session: Session) -> None:
    case = f"{FILE}::approve"
    ran = session("--evarness-min-coverage=100", case, files={FILE: gated()})
    assert ran.code == 1
    (line,) = lines_about(ran.text, "^evarness: .*needed")
    assert "; a partial session, 1 of 3 cases ran; not exercised: " in line
    assert ran.holds is False
    ran = session("--evarness-min-coverage=80", case)
    assert (ran.code, ran.holds) == (0, None)


def test_a_selection_of_nothing_exercised_nothing(session: Session) -> None:
    ran = session("--evarness-min-coverage=1", "-k", "nowhere", files={FILE: gated()})
    assert ran.code == 1
    assert "evarness: no case ran, so nothing of a harness was exercised" in ran.text


@pytest.mark.slow
def test_workers_exercise_together(session: Session) -> None:
    ran = session("-n", "2", "--evarness-min-coverage=100", files={FILE: gated()})
    assert ran.code == 0, ran.text
    ran = session("-n", "2", "--evarness-min-coverage=95", files={FILE: without("reject")})
    assert ran.code == 1
    assert exercised(ran)[-1].startswith("evarness: 94.1 % of the harness was exercised")


def test_a_demand_with_nothing_to_exercise_fails_only_where_it_was_made_for_this_session(
    session: Session,
) -> None:
    files = {"test_x.py": "def test_x():\n    pass\n"}
    ran = session("--evarness-min-coverage=1", files=files)
    assert ran.code == 1
    assert "evarness: no case ran, so nothing of a harness was exercised" in ran.text
    assert session(files=ini("90")).code == 0


def test_collecting_alone_demands_nothing(session: Session) -> None:
    assert session("--co", "--evarness-min-coverage=100", files={FILE: without("reject")}).code == 0


@pytest.mark.parametrize(
    "words", [("--evarness-bundle=none",), ("--evarness-bundle-events=digest",)]
)
def test_a_bundle_without_events_or_none_at_all_changes_no_share(
    session: Session, words: tuple[str, ...]
) -> None:
    ran = session(*words, "--evarness-min-coverage=95", files={FILE: without("reject")})
    assert ran.code == 1
    assert exercised(ran)[:2] == MISSED


ROUTED = graph(
    ("n1", "input", {}),
    (
        "n2",
        "intent_router",
        {
            "rules": [
                {"route": "mail", "keywords": ["mail", "post"]},
                {"route": "book", "keywords": ["book"]},
            ],
            "fallback": "generic_llm",
        },
    ),
    ("n3", "output", {}),
)


def test_each_route_and_the_fallback_is_looked_after_and_counts_as_no_part(
    session: Session,
) -> None:
    def asked(text: str) -> dict[str, Any]:
        return {"environment": {"user_input": text}, "expect": {"status": "completed"}}

    routed = echo(subject={"graph": ROUTED}, cases={"mail": asked("a mail, please")})
    ran = session("--evarness-min-coverage=100", files={FILE: routed})
    assert ran.code == 0, ran.text
    assert exercised(ran)[1:] == [
        "  not exercised: graph 'g': routes n2:book | n2:generic_llm (fallback)"
    ]
    routed["cases"] |= {"book": asked("a book"), "none": asked("a cake")}
    ran = session("--evarness-min-coverage=100", files={FILE: routed})
    assert len(exercised(ran)) == 1, ran.text


def test_a_fault_that_never_struck_is_shown_and_counts_as_no_part(session: Session) -> None:
    scenario = without("reject", "pending")
    scenario["environment"]["faults"] = {"email.search": {"fail_before": "always"}}
    ran = session("--evarness-min-coverage=80", files={FILE: scenario})
    assert ran.code == 0, ran.text
    assert "faults email.search.fail_before" in exercised(ran)[1]


def test_a_long_list_is_cut_and_says_so(session: Session) -> None:
    chain: list[tuple[str, str, dict[str, Any]]]
    chain = [(f"n{number:03}", "output_parser", {}) for number in range(60)]
    nodes = graph(
        ("a1", "input", {}),
        ("a2", "policy_gate", {"deny": ["secret"]}),
        *chain,
        ("z", "output", {}),
    )
    scenario = echo(
        subject={"graph": nodes},
        environment={"user_input": "a secret"},
        expect={"status": "blocked"},
    )
    ran = session("--evarness-min-coverage=50", files={FILE: scenario})
    assert ran.code == 1
    for line in exercised(ran):
        assert len(line) < 500
    assert "nodes a2 | n000 | n001 | n002 | n003 and 57 more" in exercised(ran)[-1]


# -- with a domain that the verifier does not have -------------------------------------------------


@pytest.fixture(scope="module")
def unpaid(shared: Site) -> Ran:
    """The machine, and only the case that is refused at its first step."""
    shared.install("turnstile")
    scenario = {**GATE, "cases": {"unpaid": GATE["cases"]["unpaid"]}}
    return shared.session("--evarness-min-coverage=20", files={GATE_FILE: scenario}, mirror=False)


def test_an_edge_is_exercised_when_its_target_began_with_its_source_finished(unpaid: Ran) -> None:
    assert unpaid.code == 0, unpaid.text
    about = [text for text in unpaid.predicate["not_proven"] if "no case exercised" in text]
    assert about == [
        "edges of graph 'coin_gate' that no case exercised: n2 -> n3, n3 -> n4",
        "machine signals of graph 'coin_gate' that no case exercised: coin, push",
        "nodes of graph 'coin_gate' that no case exercised: n2, n3, n4",
    ]
    # Kinds of a stranger's domain count where it says so: 2 of 4 + 3 + 2.
    assert exercised(unpaid)[0] == (
        "exercised: 22.2 % of the harness (2 of 9 edges, machine signals and nodes)"
    )


def test_nodes_and_edges_are_held_against_the_bundle_without_the_plugin(
    unpaid: Ran, shared: Site
) -> None:
    assert shared.verify(unpaid).result == "holds"
    predicate = unpaid.predicate
    registry = packaged_registry()
    own = predicate["not_proven"]

    def told_without(word: str) -> list[str]:
        left = [text for text in own if not text.startswith(word)]
        assert len(left) == len(own) - 1
        return check_not_proven({**predicate, "not_proven": left}, registry, signed=True)

    # Nobody without the plug-in can tell what its domain would have said.
    assert told_without("machine signals") == []
    for word in ("nodes of", "edges of"):
        with pytest.raises(UnverifiedError, match=f"^not_proven: leaves out .*{word}"):
            told_without(word)


def test_the_count_is_made_again_and_a_plugin_can_only_add_to_it(unpaid: Ran, shared: Site) -> None:
    predicate, registry = unpaid.predicate, packaged_registry()
    assert predicate["exercised"] == {"done": 2, "total": 9, "told": True}
    word = ["exercised: how much of the harness was exercised: counted with a plug-in"]
    assert check_exercised(predicate, registry) == word
    assert word[0] in shared.verify(unpaid).taken_on_word

    def counted(**more: Any) -> list[str]:
        changed = {**predicate, "exercised": {**predicate["exercised"], **more}}
        return check_exercised(changed, registry)

    # Of the 7 nodes and edges, 2 were exercised: nobody may say less, or more than there is.
    # Of the 2 that the plug-in adds, no more than 2.
    assert counted(done=4) == word
    for wrong in ({"done": 1}, {"total": 6}, {"done": 10}, {"done": 5}):
        with pytest.raises(UnverifiedError, match=r"^exercised: "):
            counted(**wrong)
    # The twin: without a plug-in the count has to be the very one.
    own = {**predicate["seal"], "plugins": [{"name": "agents", "version": ""}]}
    for exercised_, says in (
        ({"done": 2, "total": 9, "told": True}, "counted again it is"),
        ({"done": 2, "total": 7, "told": False}, "counted again it is"),
    ):
        with pytest.raises(UnverifiedError, match=says):
            check_exercised({**predicate, "seal": own, "exercised": exercised_}, registry)
    exact = {"done": 2, "total": 7, "told": True}
    assert check_exercised({**predicate, "seal": own, "exercised": exact}, registry) == []
