"""What a loop has asked, done and seen so far, as the text that its model reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_evarness.domains.agents.text import compact

__all__ = ["Transcript"]


class Transcript:
    """The text grows by one entry for each act, observation, answer and note.

    Documents are numbered over all observations, so that an answer can cite them as ``[n]``.
    """

    def __init__(self, system: str, question: str) -> None:
        self.question = question
        self.documents: list[Mapping[str, Any]] = []
        self._parts = [f"{system}\n\n{question}" if system else question]

    @property
    def text(self) -> str:
        """All of it, in order."""
        return "\n".join(self._parts)

    @property
    def found(self) -> str:
        """Every document that was observed, one a line."""
        return "\n".join(_lines(self.documents, 1))

    def act(self, tool: str, args: Mapping[str, Any]) -> None:
        """A call that the model asked for."""
        self._parts.append(f"Action: {tool} {compact(args)}")

    def observe(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """What a call answered."""
        first = len(self.documents) + 1
        self.documents += documents
        lines = _lines(self.documents[first - 1 :], first)
        self._parts.append("Observation: " + ("\n".join(lines) or "nothing found"))

    def fail(self, error: str) -> None:
        """Why a call gave no answer."""
        self._parts.append(f"Observation: error: {error}")

    def answer(self, text: str) -> None:
        """An answer that was not taken."""
        self._parts.append(f"Answer: {text}")

    def note(self, text: str) -> None:
        """What the loop tells the model."""
        self._parts.append(f"Note: {text}")


def _lines(documents: Iterable[Mapping[str, Any]], first: int) -> list[str]:
    return [
        f"[{number}] {doc['subject']}: {doc['text']}"
        if doc["subject"]
        else f"[{number}] {doc['text']}"
        for number, doc in enumerate(documents, first)
    ]
