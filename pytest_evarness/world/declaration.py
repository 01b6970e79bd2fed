"""What a compiled case declares of its world."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_evarness.core.case import CompiledCase

__all__ = ["declares_world"]

# In c1 text a quote inside a text is escaped, so only a key can look like this.
_EFFECTS = '"effects":[{'


def declares_world(case: CompiledCase) -> bool:
    """Whether a run of the case has a world: a workspace, services, or tools with effects."""
    environment = case.environment
    return (
        "workspace" in environment
        or "services" in environment
        or _EFFECTS in case.text
        or _EFFECTS in case.overlays_text
    )
