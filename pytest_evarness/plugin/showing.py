"""From a finding to what pytest shows of it: a category, a letter, a text, properties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_evarness.core.finding import fraction_text
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.plugin.state import Shown
from pytest_evarness.plugin.text import bounded, first_line

if TYPE_CHECKING:
    from pytest_evarness.checks.judge import Judgement
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.scenario.case import Case

__all__ = ["LETTERS", "TEXT_LIMIT", "show", "show_trouble"]

TEXT_LIMIT = 8000
"""Characters of one item's text: a report of many items must stay small enough for its readers."""

LETTERS = {
    "vacuous": ("v", "VACUOUS"),
    "missed": ("m", "MISSED"),
    "indeterminate": ("?", "INDETERMINATE"),
}
"""Categories of ours: the letter and the word of ``pytest_report_teststatus``."""


def show(
    case: Case,
    item: PlannedItem,
    finding: Finding,
    judgement: Judgement,
    *,
    trace_digest: str,
    raised: str | None = None,
) -> Shown:
    """How one item of a judged case shows.

    Args:
        raised: The place in the project where a step raised, if that is what ended run A.

    Source: docs/pytest.md, "What an item shows".
    """
    from pytest_evarness.report.graded import graded_properties

    how, category = _how(case, item, finding, judgement)
    point = ", ".join(case.point_words) or None
    text = _text(item, finding, how, category, raised, point)
    text = bounded(text, TEXT_LIMIT, whole="the bundle has it")
    payload: dict[str, Any] = {"how": how, "category": category, "text": text}
    properties = [
        *_properties(item, finding),
        *graded_properties(finding, judgement.findings),
        ("evarness.trace_digest", trace_digest),
    ]
    return Shown(how, text, payload, properties)


def show_trouble(text: str) -> Shown:
    """How an item shows whose case could not be judged: an error of pytest's own kind."""
    shown = bounded(text, TEXT_LIMIT, whole="nothing has it")
    payload: dict[str, Any] = {"how": "error", "category": None, "text": shown}
    return Shown("error", shown, payload, [("evarness.outcome", "not judged")])


def _how(
    case: Case, item: PlannedItem, finding: Finding, judgement: Judgement
) -> tuple[str, str | None]:
    if item.kind == "score" and judgement.score_skipped is not None:
        # The gate already shows what is wrong: one root cause makes one failure.
        return "skip", None
    if finding.outcome is Outcome.PASS:
        return "pass", "vacuous" if finding.vacuous else None
    if finding.outcome is Outcome.FAIL:
        return ("fail", None) if item.decides else ("skip", "missed")
    if item.decides and case.mode == "release":
        return "error", "indeterminate"
    return "skip", "indeterminate"


def _text(
    item: PlannedItem,
    finding: Finding,
    how: str,
    category: str | None,
    raised: str | None,
    point: str | None,
) -> str:
    from pytest_evarness.report.finding import finding_text

    if how == "skip" and category is None:
        return first_line(finding.reason)
    # What graders say comes behind the verdict, in the summary: no number stands before it.
    body = finding_text(finding, item, raised=raised, point=point)
    if category == "indeterminate":
        from pytest_evarness.report.wording import causes_text

        return f"indeterminate ({causes_text(finding.causes)}): {body}"
    if category == "missed":
        return f"missed (weight {fraction_text(item.weight)}): {body}"
    return body


def _properties(item: PlannedItem, finding: Finding) -> list[tuple[str, object]]:
    properties: list[tuple[str, object]] = [
        ("evarness.outcome", finding.outcome.word),
        ("evarness.vacuous", str(finding.vacuous).lower()),
        ("evarness.gate", str(item.gate).lower()),
        ("evarness.weight", fraction_text(item.weight)),
        ("evarness.severity", str(item.severity.value)),
    ]
    if finding.causes:
        properties.append(
            ("evarness.causes", ",".join(str(cause.value) for cause in finding.causes))
        )
    from pytest_evarness.report.wording import side_of

    side = side_of(finding)
    if side is not None:
        properties.append(("evarness.fault", side))
    properties.append(("evarness.label", item.label))
    if finding.score is not None:
        properties.append(("evarness.score", fraction_text(finding.score)))
    if finding.version is not None:
        name = (item.definition or {}).get("id", item.id)
        properties.append(("evarness.contract", f"{name}@{finding.version}"))
    return properties
