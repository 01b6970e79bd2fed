"""The service type ``http_mock``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.errors import Fault
    from pytest_evarness.world.http.mock import HttpMock
    from pytest_evarness.world.service import ServiceSetting

__all__ = ["HttpMockType"]


class HttpMockType:
    """Makes HTTP mocks."""

    name = "http_mock"
    has_files = False

    @property
    def schema(self) -> JsonObject:
        """JSON Schema of a declaration."""
        from pytest_evarness.world.http.config import SCHEMA

        return SCHEMA

    def parse(self, value: Mapping[str, Json]) -> tuple[JsonObject, list[Fault]]:
        """Read a declaration."""
        from pytest_evarness.world.http.config import parse_mock

        return parse_mock(value)

    def make(self, setting: ServiceSetting) -> HttpMock:
        """A mock for one run."""
        from pytest_evarness.world.http.mock import HttpMock

        return HttpMock(setting.name, setting.config, setting.secrets, setting.record)
