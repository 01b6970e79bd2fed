"""Checks and answers for tests of ``llm_as_judge``: everything in memory, one line each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.checks.kind import Facts, UnavailableError
from pytest_evarness.checks.llm_judge import LlmAsJudge
from pytest_evarness.core import c1
from pytest_evarness.core.interfaces import AbstainedError, JudgeModel, Question
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.core.registry import Registry, packaged_registry
from tests.checks.fake import FakeScene
from tests.checks.scenes import known

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.errors import Fault

KIND = LlmAsJudge(packaged_registry().judges)
ASKED: dict[str, Any] = {"criteria": "Is it polite?"}


class Told(JudgeModel):
    """A third party's judge: says what a test tells it, and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []

    def faults(self, model: str) -> list[Fault]:
        del model
        return []

    def ask(self, question: Question) -> str:
        self.questions.append(question)
        answer = self.answers[min(len(self.questions), len(self.answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]

    def leftovers(self, kept: Mapping[str, Any]) -> list[str]:
        del kept
        return []


def kind_with(**judges: JudgeModel) -> LlmAsJudge:
    """The check where further judges are registered."""
    registry: Registry = packaged_registry()
    for name, judge in judges.items():
        registry.judges.register(name, judge)
    return LlmAsJudge(registry.judges)


def parsed(kind: LlmAsJudge = KIND, /, **check: Any) -> dict[str, Any]:
    definition, faults = kind.parse(
        {"type": "llm_as_judge", **ASKED, **check},
        known(Path(), services={"mail": "http_mock", "db": "sqlite"}),
    )
    assert faults == [], [fault.text for fault in faults]
    sealed: dict[str, Any] = c1.frozen({**definition, "timeout": 30.0, "recheck": False})[0]
    return sealed


def refusals(kind: LlmAsJudge = KIND, /, **check: Any) -> list[str]:
    """Place, sentence and advice of each mistake."""
    value = {key: one for key, one in {**ASKED, **check}.items() if one is not ...}
    definition, faults = kind.parse(
        {"type": "llm_as_judge", **value},
        known(Path(), services={"mail": "http_mock", "db": "sqlite"}),
    )
    assert bool(faults) is (not definition), "a definition, or faults"
    return [
        f"{'.'.join(map(str, fault.path))}: {fault.text}" + (f" | {fault.fix}" if fault.fix else "")
        for fault in faults
    ]


def gathered(scene: Any, kind: LlmAsJudge = KIND, /, **check: Any) -> dict[str, Any]:
    """The record, as a bundle holds it."""
    definition = parsed(kind, **check)
    record: dict[str, Any] = c1.frozen(kind.gather(definition, scene))[0]
    return record


def judged(scene: Any, kind: LlmAsJudge = KIND, /, **check: Any) -> Finding:
    """Gather, and judge twice."""
    findings = check.pop("findings", {})
    definition = parsed(kind, **check)
    item = PlannedItem(id="tone", kind="llm_as_judge", definition=definition)
    record = c1.frozen(kind.gather(definition, scene))[0]
    facts = Facts(world={}, events=(), status="completed", output=None, findings=findings)
    first, second = (kind.judge(item, record, facts) for _ in range(2))
    assert first == second
    assert c1.text(first.as_record())
    return first


def answered(*answers: str, output: str = "Dear all", **check: Any) -> Finding:
    """The finding where scripted judges answer these raw texts, one after the other."""
    rules = [{"respond": {"text": answer}} for answer in answers]
    environment = {"judge": rules, "provider": "sim:helpful-v1"}
    return judged(FakeScene(output=output, environment=environment), **check)


def scored(*scores: Any, **check: Any) -> Finding:
    """The finding of as many judges as there are scores; None abstains."""
    told = {
        f"j{n}": Told(
            AbstainedError(Cause.EVALUATOR_ERROR, "it is out")
            if score is None
            else f'{{"score": {score}}}'
        )
        for n, score in enumerate(scores)
    }
    return judged(FakeScene(output="x"), kind_with(**told), judges=list(told), **check)


def unavailable(scene: Any, **check: Any) -> UnavailableError:
    """Why nothing could be gathered."""
    try:
        gathered(scene, **check)
    except UnavailableError as error:
        return error
    raise AssertionError("something was gathered")
