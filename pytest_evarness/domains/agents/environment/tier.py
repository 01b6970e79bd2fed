"""The environment key ``tiers``: which models there are, and where each of them stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator

from pytest_evarness.core.interfaces import EnvironmentKey
from pytest_evarness.domains.agents.environment.rule import provider_fault, schema_of
from pytest_evarness.domains.agents.text import plain
from pytest_evarness.errors import Fault
from pytest_evarness.source.model import Absent, Strict, parse_model, refuse
from pytest_evarness.source.quote import shown

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json

__all__ = ["parse_tiers", "tier_keys"]


class Tier(Strict):
    """One tier: a simulated model, and the place that it stands for."""

    destination: Literal["sim", "local", "cloud"]
    provider: Absent[str] = None
    level: Annotated[int, Field(ge=0, le=1000)] = 0

    @field_validator("provider")
    @classmethod
    def _simulated(cls, value: str) -> str:
        fault = provider_fault(value)
        if fault is not None:
            raise refuse(fault.problem, rule=fault.rule, fix=fault.fix)
        return value


def parse_tiers(value: Json) -> tuple[Json, list[Fault]]:
    """Tiers by name, as they were written with the default of ``level`` filled in."""
    if not isinstance(value, Mapping) or not value:
        problem = "must be a mapping that is not empty"
        return None, [Fault((), problem, got=shown(value), rule="of names to tiers")]
    tiers: dict[str, Json] = {}
    faults: list[Fault] = []
    for name, written in value.items():
        tier, found = parse_model(Tier, written)
        faults += (fault.under(name) for fault in found)
        if tier is not None:
            described = tier.model_dump(exclude_none=True)
            tiers[name] = plain(described)
    return tiers, faults


def tier_keys() -> tuple[EnvironmentKey, ...]:
    """The key that the tier router reads."""
    key = EnvironmentKey(
        "tiers",
        "The models that a tier router chooses from, and where each of them stands.",
        parse_tiers,
        schema_of(dict[str, Tier]),
    )
    return (key,)
