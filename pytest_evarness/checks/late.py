"""A check type that is imported when a scenario first names it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

# By name at load, not through the module: a verifier of bundles imports nothing that a bundle
# names, and its test watches ``importlib.import_module``; what is imported here stands in our own
# table.
from importlib import import_module
from typing import TYPE_CHECKING, cast

from pytest_evarness.checks.kind import CheckKind, Facts, Known

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.errors import Fault
    from pytest_evarness.world.sealed import Scene

__all__ = ["LateKind"]


class LateKind(CheckKind):
    """Stands for ``module.attribute``, a class of these arguments."""

    def __init__(self, name: str, module: str, attribute: str, *arguments: object) -> None:
        self._name = name
        self._module = module
        self._attribute = attribute
        self._arguments = arguments

    @cached_property
    def _kind(self) -> CheckKind:
        return cast(
            "CheckKind", getattr(import_module(self._module), self._attribute)(*self._arguments)
        )

    @property
    def name(self) -> str:
        """The word under ``check.type``; known without the module."""
        return self._name

    @property
    def only_reads(self) -> bool:
        """As the kind says."""
        return self._kind.only_reads

    @property
    def may_gate(self) -> bool:
        """As the kind says."""
        return self._kind.may_gate

    @property
    def after_verdict(self) -> bool:
        """As the kind says."""
        return self._kind.after_verdict

    @property
    def schema(self) -> JsonObject:
        """As the kind says."""
        return self._kind.schema

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        """As the kind does."""
        return self._kind.parse(value, known)

    def needs(self, definition: JsonObject) -> frozenset[str]:
        """As the kind says."""
        return self._kind.needs(definition)

    def follows(self, definition: JsonObject) -> frozenset[str]:
        """As the kind says."""
        return self._kind.follows(definition)

    def gather(self, definition: JsonObject, scene: Scene) -> JsonObject:
        """As the kind does."""
        return self._kind.gather(definition, scene)

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        """As the kind does."""
        return self._kind.judge(item, gathered, facts)

    def is_final(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> bool:
        """As the kind says."""
        return self._kind.is_final(item, gathered, facts)

    def consistent(
        self, definition: JsonObject, gathered: JsonObject, world: JsonObject
    ) -> str | None:
        """As the kind says."""
        return self._kind.consistent(definition, gathered, world)

    def largest(self, definition: JsonObject, world: JsonObject) -> int | None:
        """As the kind says."""
        return self._kind.largest(definition, world)
