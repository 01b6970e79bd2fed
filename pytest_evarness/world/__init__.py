"""The simulated world of a run: workspace, services, effects, snapshots.

Nothing in it is real, and nothing of it outlives the run. Importing the package does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_evarness.core.case import CompiledCase
    from pytest_evarness.core.interfaces import World, WorldHost
    from pytest_evarness.core.registry import Registry

__all__ = ["SERVICE_TYPES", "register"]

SERVICE_TYPES: tuple[tuple[str, str, str], ...] = (
    ("http_mock", "pytest_evarness.world.http.kind", "HttpMockType"),
    ("mysql", "pytest_evarness.world.sql.mysql", "MysqlType"),
    ("postgres", "pytest_evarness.world.sql.postgres", "PostgresType"),
    ("sqlite", "pytest_evarness.world.sql.sqlite", "SqliteType"),
)
"""``(type, module, class)`` of each packaged service type; loaded when a scenario names it."""


def register(registry: Registry) -> None:
    """Offer worlds, their keys and the packaged service types; nothing of weight is imported."""
    from pytest_evarness.world.domain import WorldDomain
    from pytest_evarness.world.late import LateServiceType
    from pytest_evarness.world.vocabulary import register_events

    register_events(registry)
    for name, module, kind in SERVICE_TYPES:
        registry.service_types.register(name, LateServiceType(name, module, kind))
    registry.domains.register(WorldDomain.name, WorldDomain(registry))

    def make(case: CompiledCase, host: WorldHost, secrets: Mapping[str, str]) -> World | None:
        from pytest_evarness.world.declaration import declares_world

        if not declares_world(case):
            return None
        from pytest_evarness.world.world import RunWorld

        return RunWorld(case, host, secrets, registry)

    registry.make_world = make
