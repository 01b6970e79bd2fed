"""The quality of a case as an interval, in exact arithmetic.

Source: docs/verdicts.md, "Quality".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from pytest_evarness.core.finding import fraction_text
from pytest_evarness.core.outcome import Outcome

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json

__all__ = ["Composite", "weigh"]


@dataclass(frozen=True, slots=True)
class Composite:
    """``sum(weight * score) / sum(weight)`` as far as it is known.

    Attributes:
        low: Every unknown score taken as 0; None where nothing was left to weigh.
        high: Every unknown score taken as 1.
        raw: What the lower end would be without the hard verdict; only where that is invalid.
    """

    low: Fraction | None
    high: Fraction | None
    threshold: Fraction
    raw: Fraction | None = None

    @property
    def outcome(self) -> Outcome:
        """Pass when the whole interval reaches the threshold, fail when none of it does."""
        if self.low is None or self.high is None:
            return Outcome.INDETERMINATE
        if self.low >= self.threshold:
            return Outcome.PASS
        if self.high < self.threshold:
            return Outcome.FAIL
        return Outcome.INDETERMINATE

    def as_record(self) -> dict[str, Json]:
        """Exact numbers as text."""

        def text(value: Fraction | None) -> str | None:
            return None if value is None else fraction_text(value)

        return {
            "low": text(self.low),
            "high": text(self.high),
            "threshold": fraction_text(self.threshold),
            "raw": text(self.raw),
        }

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return "nothing was left to weigh"
        if self.low == self.high:
            return f"{float(self.low):.4g}"
        return f"[{float(self.low):.4g}, {float(self.high):.4g}]"


def weigh(findings: Iterable[Finding], threshold: Fraction, hard: Outcome) -> Composite:
    """The composite of a case under its hard verdict.

    Args:
        findings: Of the case's invariants; those of weight 0 have no say.
        hard: Outcome of the conjunction of all gates.
    """
    total = low = unknown = Fraction(0)
    for finding in findings:
        if finding.weight == 0 or (finding.vacuous and finding.outcome is Outcome.PASS):
            continue
        total += finding.weight
        if finding.score is None:
            unknown += finding.weight
        else:
            low += finding.weight * finding.score
    if total == 0:
        if hard is Outcome.FAIL:
            return Composite(Fraction(0), Fraction(0), threshold)
        return Composite(None, None, threshold)
    if hard is Outcome.FAIL:
        return Composite(Fraction(0), Fraction(0), threshold, raw=low / total)
    high = (low + unknown) / total
    return Composite(Fraction(0) if hard is Outcome.INDETERMINATE else low / total, high, threshold)
