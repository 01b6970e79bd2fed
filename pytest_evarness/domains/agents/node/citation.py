"""Whether an answer rests on the documents that the model was shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import digest_of_text

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.domains.agents.state import RunState

__all__ = ["CITATION_CHECK", "Sources", "check_citations"]

CITATION_CHECK = "citation_check"

_CITED = re.compile(r"\[(\d{1,6})\]")


@dataclass(slots=True)
class Sources:
    """The documents of the context that was assembled last.

    Attributes:
        ids: In the order in which a prompt numbers them, from 1.
    """

    ids: Sequence[str] = ()

    @classmethod
    def of(cls, state: RunState) -> Sources:
        """No context was assembled yet."""
        del state
        return cls()

    def leftovers(self) -> list[str]:
        """Nothing is scripted here."""
        return []


def check_citations(text: str, context: Context) -> str:
    """Hand the text on if it cites, and cites nothing but documents of the context.

    Raises:
        NodeBlocked: It does not.
    """
    ids = state_of(context).part(Sources).ids
    numbers = list(dict.fromkeys(int(number) for number in _CITED.findall(text)))
    unknown = [number for number in numbers if not 1 <= number <= len(ids)]
    for number in numbers:
        found = None if number in unknown else ids[number - 1]
        payload = {"number": number, "id": found, "ok": found is not None}
        context.emit("citation_checked", payload)
    is_grounded = bool(numbers) and not unknown
    context.emit(
        "interceptor_applied",
        {
            "rule": CITATION_CHECK,
            "ok": is_grounded,
            "count": len(numbers),
            "digest": digest_of_text(text),
        },
    )
    if not numbers:
        raise NodeBlocked(f"{CITATION_CHECK}: the text cites nothing")
    if unknown:
        known = f"1 to {len(ids)}" if ids else "there are none"
        raise NodeBlocked(
            f"{CITATION_CHECK}: [{unknown[0]}] is no document of the context ({known})"
        )
    return text
