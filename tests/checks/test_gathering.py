"""Whatever a check does, its case is judged: it cannot look, breaks, hangs or changes its mind."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.checks import gathering
from pytest_evarness.checks.found import found
from pytest_evarness.checks.gathering import NOT_GRADED, difference, judge_case
from pytest_evarness.checks.judge import Judge, Judgement
from pytest_evarness.checks.kind import Facts, UnavailableError
from pytest_evarness.core import matcher
from pytest_evarness.core.expression import Patience
from pytest_evarness.core.matcher import parse_matcher
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.core.registry import Registry, packaged_registry
from tests.checks.builders import END, REPRODUCES, contract_item, evidence, expect_item
from tests.checks.fake import FakeScene, FakeService, Told, check_item

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import JsonObject

RUN = (("run_started", None, {"fixture": "f", "seed": 1}), ("run_finished", None, {**END}))
NEVER_FINISHED = {"never": {"type": "run_finished"}}


def registry_of(*kinds: Told) -> Registry:
    registry = packaged_registry()
    for kind in kinds:
        registry.check_types.register(kind.name, kind)
    return registry


def judged(
    *kinds: Told,
    items: list[PlannedItem] | None = None,
    scene: FakeScene | None = None,
    threshold: str | None = None,
    **item: Any,
) -> Judgement:
    wanted = items if items is not None else [check_item("c", **item)]
    _, judgement = judge_case(
        Judge(registry_of(*kinds)),
        [REPRODUCES, expect_item(), *wanted],
        evidence("completed", *RUN),
        scene if scene is not None else FakeScene(),
        threshold=None if threshold is None else Fraction(threshold),
    )
    return judgement


def the(judgement: Judgement, name: str = "c") -> Finding:
    (finding,) = [one for one in judgement.findings if one.id == name]
    return finding


def test_a_check_that_sees_what_it_asks_for_passes() -> None:
    kind = Told({"verdict": "pass"})
    assert the(judged(kind)).outcome is Outcome.PASS
    assert the(judged(Told({"verdict": "fail", "reason": "no"}))).reason == "no"


def test_a_check_that_only_reads_is_gathered_twice_and_the_others_once() -> None:
    reads, acts = Told({"n": 1}), Told({"n": 1}, only_reads=False)
    judged(reads)
    judged(acts)
    assert (reads.calls, acts.calls) == (2, 1)
    again = Told({"n": 1}, only_reads=False)
    judged(again, definition={"recheck": True})
    assert again.calls == 2


def test_what_comes_out_differently_the_second_time_is_an_error_that_shows_both() -> None:
    finding = the(judged(Told({"rows": [1, 2]}, {"rows": [1, 3]})))
    assert (finding.outcome, finding.causes) == (Outcome.INDETERMINATE, (Cause.EVALUATOR_ERROR,))
    assert finding.reason == "gathered twice, it came out differently (rows[1]: first 2, then 3)"
    # The twin: one that is gathered once does not notice.
    assert the(judged(Told({"a": 1}, {"a": 2}, only_reads=False))).outcome is Outcome.PASS


def test_a_verdict_that_comes_out_differently_the_second_time_is_an_error_that_shows_both() -> None:
    finding = the(judged(Told({"reason": "r"}, verdicts=["pass", "fail"])))
    assert finding.causes == (Cause.EVALUATOR_ERROR,)
    assert finding.reason == "judged twice, it came out differently (first pass: r, then fail: r)"


@pytest.mark.parametrize("cause", [Cause.MISSING_EVIDENCE, Cause.STALE_EVIDENCE])
def test_a_check_that_cannot_look_says_why_and_is_asked_once(cause: Cause) -> None:
    kind = Told(UnavailableError(cause, "the file is locked"))
    finding = the(judged(kind))
    assert (finding.outcome, finding.causes) == (Outcome.INDETERMINATE, (cause,))
    assert finding.reason == "the file is locked"
    assert kind.calls == 1


@pytest.mark.parametrize("error", [ValueError("bad row"), KeyError("x"), SystemExit(3)])
def test_a_check_that_breaks_is_an_error_of_the_evaluator_and_never_a_crash(
    error: BaseException,
) -> None:
    for kind in (Told(error), Told({"n": 1}, verdicts=[error])):
        finding = the(judged(kind, gate=True))
        assert (finding.outcome, finding.causes) == (
            Outcome.INDETERMINATE,
            (Cause.EVALUATOR_ERROR,),
        )
        assert finding.reason.startswith(f"the check broke: {type(error).__name__}: ")


def test_no_folder_of_this_machine_reaches_a_reason() -> None:
    text = "cannot read /project/scenarios/a.sql and /project/b.sql"
    assert the(judged(Told(OSError(text)))).reason == (
        "the check broke: OSError: cannot read ./a.sql and ./b.sql"
    )


@pytest.mark.parametrize("record", [[1], None, {"x": {1, 2}}, {"x": float("nan")}])
def test_what_is_no_json_mapping_is_no_evidence(record: Any) -> None:
    assert the(judged(Told(record))).causes == (Cause.EVALUATOR_ERROR,)


def test_a_check_that_does_not_come_back_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hangs(Told):
        def gather(self, definition: Any, scene: Any) -> Any:
            while True:
                time.sleep(0.01)

    monkeypatch.setattr(gathering, "GRACE_SECONDS", 0.0)
    finding = the(judged(Hangs(), definition={"timeout": 0.05}))
    assert finding.causes == (Cause.EVALUATOR_ERROR,)
    assert finding.reason == "timed out after 0.05 s"


def test_a_service_that_is_down_says_its_last_words_once() -> None:
    kind = Told({"n": 1})
    scene = FakeScene(services={"db": FakeService("db", "FATAL: no space in /project/x")})
    items = [check_item(name, definition={"needs": ["service:db"]}) for name in ("one", "two")]
    judgement = judged(kind, items=items, scene=scene)
    one, two = the(judgement, "one"), the(judgement, "two")
    assert one.causes == two.causes == (Cause.MISSING_EVIDENCE,)
    assert one.reason == two.reason == "service 'db' is down"
    assert one.witness.notes == ("db: FATAL: no space in ./x",)
    assert two.witness.notes == ()
    assert kind.calls == 0
    up = FakeScene(services={"db": FakeService("db")})
    assert the(judged(kind, items=items, scene=up), "one").outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("need", "reason"),
    [
        ("service:db", "service 'db' is not there"),
        ("workspace", "there is no workspace"),
        ("output", "the run gave no output"),
    ],
)
def test_evidence_that_is_not_there_leaves_a_check_undecided(need: str, reason: str) -> None:
    finding = the(
        judged(Told({"n": 1}), definition={"needs": [need]}, scene=FakeScene(output=None))
    )
    assert (finding.causes, finding.reason) == ((Cause.MISSING_EVIDENCE,), reason)


def test_every_cheap_check_is_gathered_though_a_gate_failed() -> None:
    kind = Told({"n": 1})
    items = [contract_item("broken", NEVER_FINISHED), check_item("c")]
    judgement = judged(kind, items=items)
    assert judgement.verdict == "invalid"
    assert the(judgement).outcome is Outcome.PASS


def test_what_a_model_grades_waits_for_the_hard_verdict() -> None:
    graded = Told({"n": 1}, only_reads=False, may_gate=False, after_verdict=True)
    invalid = judged(graded, items=[contract_item("broken", NEVER_FINISHED), check_item("c")])
    assert (the(invalid).causes, the(invalid).reason) == ((Cause.MISSING_EVIDENCE,), NOT_GRADED)
    assert graded.calls == 0
    assert the(judged(graded)).outcome is Outcome.PASS
    assert graded.calls == 1


def test_a_gate_needs_the_whole_score() -> None:
    almost = Told({"score": "0.9"})
    finding = the(judged(almost, gate=True))
    assert finding.outcome is Outcome.FAIL
    assert finding.reason == "gate needs score 1.0, got 0.9: told"
    assert the(judged(Told({"score": "0.9"}))).outcome is Outcome.PASS


def test_a_score_outside_its_range_is_an_error() -> None:
    assert the(judged(Told({"score": "1.5"}))).causes == (Cause.EVALUATOR_ERROR,)


def test_a_type_that_nobody_registered_is_an_error() -> None:
    finding = the(judged(kind="stranger"))
    assert finding.causes == (Cause.EVALUATOR_ERROR,)
    assert finding.reason == "no check type 'stranger' is known here"


def test_secrets_are_masked_in_the_texts_of_findings_and_nowhere_else() -> None:
    scene = FakeScene(secrets={"TOKEN": "hunter22"})
    judgement = judged(Told({"verdict": "fail", "reason": "met hunter22"}), scene=scene)
    assert the(judgement).reason == "met «secret:TOKEN»"
    assert judgement.masked == {"c"}
    assert judged(Told({"reason": "met hunter2"}), scene=scene).masked == frozenset()


GATE, HEAVY, LIGHT = (
    {"gate": True, "weight": Fraction(1)},
    {"decides": False, "weight": Fraction("0.3")},
    {"decides": False, "weight": Fraction("0.2")},
)
DOWN = UnavailableError(Cause.MISSING_EVIDENCE, "down")
HELD, MISSED = {"verdict": "pass"}, {"verdict": "fail"}


@pytest.mark.parametrize(
    ("answers", "composite", "score", "raw"),
    [
        ((HELD, MISSED, HELD), ("4/5", "4/5"), "fail", None),
        ((HELD, HELD, MISSED), ("13/15", "13/15"), "pass", None),
        ((MISSED, HELD, HELD), ("0", "0"), "fail", "1/3"),
        ((HELD, DOWN, HELD), ("4/5", "1"), "indeterminate", None),
        ((HELD, HELD, DOWN), ("13/15", "1"), "pass", None),
        ((DOWN, HELD, HELD), ("0", "1"), "indeterminate", None),
    ],
)
def test_the_worked_values_of_the_composite(
    answers: tuple[Any, ...], composite: tuple[str, str], score: str, raw: str | None
) -> None:
    kinds = [Told(answer) for answer in answers]
    items = []
    for number, (kind, traits) in enumerate(zip(kinds, (GATE, HEAVY, LIGHT), strict=True)):
        kind.name = f"told{number}"
        items.append(check_item(f"c{number}", kind.name, **traits))
    items.append(PlannedItem(id="score", kind="score"))
    judgement = judged(*kinds, items=items, threshold="0.85")
    assert judgement.composite is not None
    assert (judgement.composite.low, judgement.composite.high) == tuple(map(Fraction, composite))
    assert judgement.composite.raw == (None if raw is None else Fraction(raw))
    assert the(judgement, "score").outcome.word == score
    assert (judgement.score_skipped is not None) == (judgement.verdict != "valid")


def test_one_weighted_check_that_fails_leaves_three_quarters() -> None:
    one, two = Told(HELD), Told(MISSED)
    two.name = "told2"
    items = [
        check_item("gate", "told", **GATE),
        check_item("soft", "told2", **HEAVY),
        PlannedItem(id="score", kind="score"),
    ]
    judgement = judged(one, two, items=items, threshold="0.85")
    assert judgement.composite is not None
    assert judgement.composite.low == Fraction(10, 13)
    assert the(judgement, "score").outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"a": 1}, {"a": 2}, "a: first 1, then 2"),
        (
            {"a": {"b": [0, {"c": "x"}]}},
            {"a": {"b": [0, {"c": "y"}]}},
            'a.b[1].c: first "x", then "y"',
        ),
        ({"a": 1}, {"b": 1}, 'first {"a": 1}, then {"b": 1}'),
        ({"a": 1}, "gone", 'first {"a": 1}, then "gone"'),
        ({"a": 1}, {"a": 1.0}, "a: first 1, then 1.0"),
    ],
)
def test_a_difference_is_shown_where_it_is(first: Any, second: Any, said: str) -> None:
    assert difference(first, second) == said


def test_each_look_of_a_check_has_a_patience_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the second look knows an expression for lost over which the first one decided."""
    monkeypatch.setattr(matcher, "REGEX_SECONDS", 0.02)
    read, _ = parse_matcher({"pattern": r"^(a|a)*\1$"})
    assert read is not None
    test = read.compile()
    texts = ["b", *("a" * 60 + "!" * at for at in range(1, 20))]
    given_up: list[str] = []
    real = Patience.give_up

    def give_up(patience: Patience, source: str, text: str) -> None:
        given_up.append(source)
        real(patience, source, text)

    class Asking(Told):
        def gather(self, definition: JsonObject, scene: Any) -> JsonObject:
            super().gather(definition, scene)
            return {"said": [str(test(text)) for text in texts]}

        def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
            del gathered, facts
            return found(item, Outcome.PASS, "; ".join(str(test(text)) for text in texts)[:200])

    monkeypatch.setattr(Patience, "give_up", give_up)
    finding = the(judged(Asking({})))
    assert finding.outcome is Outcome.PASS
    assert finding.reason.startswith("False; Undecided(why='pattern")
    assert len(given_up) == 4, "gathered twice, judged twice"
