"""A judge that counts words: no model at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Question
    from pytest_evarness.errors import Fault


class Counter:
    """Finds a text of at most ten words good."""

    def faults(self, model: str) -> list[Fault]:
        del model
        return []

    def ask(self, question: Question) -> str:
        score = 1 if len(question.judged.split()) <= 10 else 0
        return json.dumps({"score": score, "reasoning": "words were counted"})

    def leftovers(self, kept: Mapping[str, Any]) -> list[str]:
        del kept
        return []
