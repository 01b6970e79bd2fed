"""Three-valued outcomes, their causes, and how outcomes are combined."""

from __future__ import annotations

import enum
from collections.abc import Iterable

__all__ = ["Cause", "Outcome", "Severity", "worst"]


class Outcome(enum.IntEnum):
    """The conclusion of one judgement; a larger one outranks a smaller.

    INDETERMINATE is never a pass: it is what a judgement says when the evidence is missing,
    or when the judging itself broke.
    """

    PASS = 0
    INDETERMINATE = 1
    FAIL = 2

    @property
    def word(self) -> str:
        """The lower-case word used in every file and report."""
        return self.name.lower()

    @classmethod
    def parse(cls, word: str) -> Outcome:
        """Read the lower-case word.

        Raises:
            ValueError: Any other text.
        """
        try:
            return cls[word.upper()]
        except KeyError:
            raise ValueError(f"no outcome is called {word!r}") from None


class Cause(enum.StrEnum):
    """Why a finding is indeterminate, in the order in which causes are listed.

    The first five are about the run, the last about the evaluator: different repair work.
    """

    MISSING_EVIDENCE = "missing_evidence"
    MALFORMED_EVIDENCE = "malformed_evidence"
    STALE_EVIDENCE = "stale_evidence"
    CONTRADICTORY_EVIDENCE = "contradictory_evidence"
    UNFINISHED_RUN = "unfinished_run"
    EVALUATOR_ERROR = "evaluator_error"

    @staticmethod
    def ordered(causes: Iterable[Cause]) -> tuple[Cause, ...]:
        """All causes that apply, once each, in the declared order."""
        present = list(causes)
        return tuple(cause for cause in Cause if cause in present)


class Severity(enum.StrEnum):
    """How much a violation matters. Independent of hardness; it never changes a verdict."""

    INFO = "info"
    MINOR = "minor"
    MAJOR = "major"
    CRITICAL = "critical"


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Kleene's conjunction: fail if any fails, else indeterminate if any is, else pass.

    Raises:
        ValueError: No outcome at all. Nothing checked is not the same as nothing wrong.
    """
    return Outcome(max(outcomes))
