"""A service type that is imported when a scenario first names it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

# By name at load, as for check types: what is imported here stands in our own table.
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.errors import Fault
    from pytest_evarness.world.service import Service, ServiceSetting, ServiceType

__all__ = ["LateServiceType"]


class LateServiceType:
    """Stands for ``module.attribute``, a class without arguments."""

    def __init__(self, name: str, module: str, attribute: str) -> None:
        self._name = name
        self._module = module
        self._attribute = attribute

    @cached_property
    def _type(self) -> ServiceType:
        return cast("ServiceType", getattr(import_module(self._module), self._attribute)())

    @property
    def name(self) -> str:
        """The word under ``type``; known without the module."""
        return self._name

    @property
    def is_slow(self) -> bool:
        """As the type says; see ``ServiceType.is_slow``."""
        return bool(getattr(self._type, "is_slow", False))

    def secrets_of(self, config: JsonObject) -> tuple[str, ...]:
        """As the type says; see ``ServiceType``."""
        names = getattr(self._type, "secrets_of", None)
        return tuple(names(config)) if names is not None else ()

    @property
    def has_files(self) -> bool:
        """As the type says; see ``ServiceType``."""
        return bool(getattr(self._type, "has_files", True))

    @property
    def schema(self) -> JsonObject:
        """As the type says."""
        return self._type.schema

    def parse(self, value: Mapping[str, Json]) -> tuple[JsonObject, list[Fault]]:
        """As the type does."""
        return self._type.parse(value)

    def make(self, setting: ServiceSetting) -> Service:
        """As the type does."""
        return self._type.make(setting)
