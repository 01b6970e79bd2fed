"""Whether an answer rests on the documents that the model was shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.domains.agents.cited import read_citations
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import digest_of_text

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.domains.agents.state import RunState

__all__ = ["CITATION_CHECK", "Sources", "check_citations"]

CITATION_CHECK = "citation_check"


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
    cited = read_citations(text, len(ids)).cited
    unknown = [one for one in cited if not one.is_known]
    for one in cited:
        found = ids[one.number - 1] if one.is_known and one.number is not None else None
        payload: dict[str, Any] = {"number": one.number, "id": found, "ok": one.is_known}
        if one.number is None:
            payload["written"] = one.written
        context.emit("citation_checked", payload)
    is_grounded = bool(cited) and not unknown
    context.emit(
        "interceptor_applied",
        {
            "rule": CITATION_CHECK,
            "ok": is_grounded,
            "count": len(cited),
            "digest": digest_of_text(text),
        },
    )
    if not cited:
        raise NodeBlocked(f"{CITATION_CHECK}: the text cites nothing")
    if unknown:
        known = f"1 to {len(ids)}" if ids else "there are none"
        raise NodeBlocked(
            f"{CITATION_CHECK}: [{unknown[0].written}] is no document of the context ({known})"
        )
    return text
