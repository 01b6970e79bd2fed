"""From a finding to what pytest shows of it: a category, a letter, a text, properties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_evarness.core.finding import fraction_text
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.plugin.state import Shown
from pytest_evarness.plugin.text import clean

if TYPE_CHECKING:
    from pytest_evarness.checks.judge import Judgement
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.scenario.case import Case

__all__ = ["LETTERS", "show"]

LETTERS = {
    "vacuous": ("v", "VACUOUS"),
    "missed": ("m", "MISSED"),
    "indeterminate": ("?", "INDETERMINATE"),
}
"""Categories of ours: the letter and the word of ``pytest_report_teststatus``."""


def show(case: Case, item: PlannedItem, finding: Finding, judgement: Judgement) -> Shown:
    """How one item of a judged case shows.

    Source: docs/verdicts.md, "How it shows in pytest".
    """
    how, category = _how(case, item, finding, judgement)
    text = clean(_text(item, finding, category))
    payload: dict[str, Any] = {"how": how, "category": category, "text": text}
    return Shown(how, text, payload, _properties(item, finding, judgement))


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


def _text(item: PlannedItem, finding: Finding, category: str | None) -> str:
    from pytest_evarness.report.finding import finding_text

    body = finding_text(finding, item)
    if category == "indeterminate":
        causes = ", ".join(str(cause.value) for cause in finding.causes)
        return f"indeterminate ({causes}): {body}"
    if category == "missed":
        return f"missed (weight {fraction_text(item.weight)}): {body}"
    return body


def _properties(
    item: PlannedItem, finding: Finding, judgement: Judgement
) -> list[tuple[str, object]]:
    del judgement
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
    if finding.score is not None:
        properties.append(("evarness.score", fraction_text(finding.score)))
    if finding.version is not None:
        name = (item.definition or {}).get("id", item.id)
        properties.append(("evarness.contract", f"{name}@{finding.version}"))
    return properties
