"""Scripted answers: which rule answers a call, and what is left of the script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evarness.core.interfaces import UndecidedError
from pytest_evarness.domains.agents.text import compact

__all__ = ["PATTERN_SECONDS", "Call", "Rule", "Script", "compile_pattern", "left_over"]

_MAX_NAMED = 3
_MAX_ASKED = 80

PATTERN_SECONDS = 1.0
"""An expression that needs longer than this decides nothing, whatever text it meets."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a rule may look at.

    Attributes:
        text: What the model is asked, or the query of a tool call.
        provider: Of the run.
        params: ``environment.params``.
        judges: What the judge that is asked is called, in small letters; nobody, elsewhere.
    """

    text: str
    provider: str
    params: Mapping[str, Any]
    judges: frozenset[str] = frozenset()


@dataclass(slots=True)
class Rule:
    """One rule and how often it may still be used.

    Attributes:
        answer: The rule as it was written.
        capacity: How often it may be used; None for without end.
    """

    index: int
    answer: Mapping[str, Any]
    capacity: int | None
    used: int = 0

    @property
    def is_spent(self) -> bool:
        """True when it may not be used again."""
        return self.capacity is not None and self.used >= self.capacity


def compile_pattern(expression: str) -> Any:
    """Compile an expression of a rule; text matches without regard to case.

    Raises:
        regex.error: It is none.
    """
    import regex

    return regex.compile(expression, regex.IGNORECASE)


class Script:
    """The rules for one model or tool, with the cursor of one run.

    Rules with equal ``match`` form a sequence and are used once each; a plain single rule repeats,
    but where every rule is used once (``is_once``).
    """

    def __init__(
        self,
        name: str,
        rules: Sequence[Mapping[str, Any]],
        *,
        is_background: bool = False,
        is_once: bool = False,
    ) -> None:
        self.name = name
        self.calls = 0
        # A manifest's own rules: the scenario did not write them, so none of them is left over.
        self.is_background = is_background
        groups: dict[str, int] = {}
        keys = [compact(rule.get("match") or {}) for rule in rules]
        for key in keys:
            groups[key] = groups.get(key, 0) + 1
        self._rules = [
            Rule(index, rule, _capacity(rule.get("times"), is_once or groups[key] > 1))
            for index, (rule, key) in enumerate(zip(rules, keys, strict=True))
        ]
        self._patterns: dict[int, Any] = {}

    @property
    def scripted(self) -> int:
        """How many answers are scripted; a rule without end counts once."""
        return sum(rule.capacity or 1 for rule in self._rules)

    @property
    def answers(self) -> list[Mapping[str, Any]]:
        """Every rule as it was written, used up or not."""
        return [rule.answer for rule in self._rules]

    def take(
        self, call: Call, *, fits: Callable[[Mapping[str, Any]], bool] | None = None
    ) -> Mapping[str, Any] | None:
        """Use up the first matching rule that is left; None where there is none.

        Args:
            call: What was asked.
            fits: Whether a rule answers this sort of call at all; every one does without it.
        """
        self.calls += 1
        for rule in self._rules:
            if rule.is_spent or (fits is not None and not fits(rule.answer)):
                continue
            if self._matches(rule, call):
                rule.used += 1
                return rule.answer
        return None

    def misfit(self, note: Callable[[Mapping[str, Any]], str] | None = None) -> str | None:
        """Why the call that was just made found no answer, where rules are left; else None.

        Args:
            note: What else is to be said of a rule; empty where that is nothing.
        """
        left = [rule for rule in self._rules if not rule.is_spent]
        if not left:
            return None
        asked = [
            _asked(rule.answer.get("match") or {}) + (note(rule.answer) if note is not None else "")
            for rule in left[:_MAX_NAMED]
        ]
        if len(left) > _MAX_NAMED:
            asked.append("...")
        noun = "rule" if len(left) == 1 else "rules"
        spent = len(self._rules) - len(left)
        used = f", {spent} used up" if spent else ""
        return (
            f"no rule of {self.name} matches call {self.calls}; {len(left)} {noun} did not match:"
            f" {'; '.join(asked)}{used}"
        )

    def leftovers(self) -> list[str]:
        """What was scripted and not used, one sentence for each rule."""
        if self.is_background:
            return []
        return [left_over(self.name, rule, unused) for rule, unused in self.unused()]

    def unused(self) -> list[tuple[int, int]]:
        """The rules that have answers left, and how many; see :meth:`total`."""
        counted = [(rule.index, self.total(rule.index) - rule.used) for rule in self._rules]
        return [(rule, left) for rule, left in counted if left > 0]

    def total(self, rule: int) -> int:
        """How many answers a rule has; one, where it never runs out."""
        return self._rules[rule].capacity or 1

    def _matches(self, rule: Rule, call: Call) -> bool:
        match = rule.answer.get("match") or {}
        text = call.text.casefold()
        for key, wanted in match.items():
            if key in ("contains", "query_contains"):
                held = wanted.casefold() in text
            elif key == "equals":
                held = wanted.casefold() == text
            elif key == "pattern":
                held = self._finds(rule.index, wanted, call.text)
            elif key == "turn":
                held = self.calls == wanted
            elif key == "provider":
                held = call.provider == wanted
            elif key == "judge":
                held = wanted.casefold() in call.judges
            else:
                assert key == "params", f"a rule was checked when it was read (got {key})"
                held = all(
                    name in call.params and _equal(call.params[name], value)
                    for name, value in wanted.items()
                )
            if not held:
                return False
        return True

    def _finds(self, index: int, expression: str, text: str) -> bool:
        pattern = self._patterns.get(index)
        if pattern is None:
            pattern = self._patterns[index] = compile_pattern(expression)
        try:
            return pattern.search(text, timeout=PATTERN_SECONDS) is not None
        except TimeoutError:
            # Answering «no match» would pick another rule on a slow machine only.
            raise UndecidedError(
                f"{self.name}[{index}].match.pattern took longer than {PATTERN_SECONDS:g} s"
            ) from None


def left_over(name: str, rule: int, unused: int) -> str:
    """Answers of a script that nothing asked for, in words."""
    noun = "response" if unused == 1 else "responses"
    return f"{name}[{rule}]: {unused} {noun} not used"


def _asked(match: Mapping[str, Any]) -> str:
    """What a rule asks of a call, in words."""
    parts = []
    for key, wanted in match.items():
        text = f"'{wanted}'" if isinstance(wanted, str) else compact(wanted)
        parts.append(f"{key} {text if len(text) <= _MAX_ASKED else text[:_MAX_ASKED] + '…'}")
    return ", ".join(parts)


def _capacity(times: object, is_once: bool) -> int | None:
    if times == "any":
        return None
    if isinstance(times, int):
        return times
    return 1 if is_once else None


def _equal(left: object, right: object) -> bool:
    """Equal by JSON type: ``true`` is not 1, 1 and 1.0 are equal."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_equal(left[k], right[k]) for k in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_equal, left, right))
    return left == right
