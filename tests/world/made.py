"""Worlds of one line, from what a scenario would say."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.interfaces import WorldHost
from pytest_evarness.errors import Fault
from pytest_evarness.scenario.reference import Files, References
from pytest_evarness.world import register
from pytest_evarness.world.inlining import inline
from pytest_evarness.world.model import environment_keys
from pytest_evarness.world.world import RunWorld
from tests.core.building import case_of, kernel_registry, row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_evarness.core.case import CompiledCase
    from pytest_evarness.core.interfaces import Inlined
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.world.service import ServiceSetting

__all__ = [
    "Odd",
    "case_with",
    "declared",
    "faults_of",
    "files_in",
    "inlined",
    "make",
    "registry",
]

HOST = WorldHost("session", "/nowhere")


class Service:
    """Keeps what happens to it; goes wrong where its configuration says so."""

    kind = "odd"

    def __init__(self, setting: ServiceSetting) -> None:
        self.setting = setting
        self.name = setting.name
        self.config: Any = setting.config
        self.problem: str | None = None
        self.calls: list[str] = []

    def _go(self, what: str) -> None:
        self.calls.append(what)
        if self.config.get("breaks") == what:
            raise RuntimeError(f"cannot {what} at 0x7f0123456789")

    @property
    def address(self) -> Mapping[str, Json]:
        host = self.config.get("host", "127.0.0.1")
        return {"host": host, "port": int(self.config.get("port", 1))}

    def start(self) -> None:
        self._go("start")
        self.problem = self.config.get("down")

    def seal(self) -> None:
        self._go("seal")

    def snapshot(self) -> JsonObject:
        self._go("snapshot")
        if self.problem is not None:
            return {"type": self.kind, "down": True}
        value: Any = float("nan") if self.config.get("breaks") == "value" else self.config
        return {"type": self.kind, "config": value}

    def copy(self) -> Any:
        return contextlib.nullcontext(self.address)

    def close(self) -> None:
        self._go("close")


class Odd:
    """A service type of the tests; ``is_slow`` types are started side by side."""

    name = "odd"

    def __init__(self, *, is_slow: bool = False) -> None:
        self.is_slow = is_slow
        self.schema: JsonObject = {"type": "object"}

    def parse(self, value: Mapping[str, Json]) -> tuple[JsonObject, list[Fault]]:
        init = [{"file": one} for one in value.get("init", ())]  # type: ignore[union-attr]
        config = dict(value)
        if init:
            config["init"] = init
        faults = [Fault(("size",), "must be small", got="big")] if "size" in value else []
        return config, faults

    def make(self, setting: ServiceSetting) -> Any:
        if setting.config.get("breaks") == "make":
            raise RuntimeError("cannot make")
        return Service(setting)


def registry(*, is_slow: bool = False) -> Registry:
    made = kernel_registry()
    register(made)
    made.service_types.register("odd", Odd(is_slow=is_slow))
    return made


def files_in(folder: Path) -> Files:
    return Files(References(folder, folder))


def declared(**written: Any) -> tuple[dict[str, Any], list[Fault]]:
    """The normalised environment, and the faults from its root."""
    keys = {key.name: key for key in environment_keys(registry())}
    environment: dict[str, Any] = {}
    faults: list[Fault] = []
    for name, value in written.items():
        if name in keys:
            environment[name], found = keys[name].parse(value)
            faults += [fault.under(name) for fault in found]
        else:
            environment[name] = value
    return environment, faults


def faults_of(**written: Any) -> list[tuple[str, str]]:
    """``(place, text)`` of each fault."""
    _, faults = declared(**written)
    return [(".".join(map(str, fault.path)), fault.text) for fault in faults]


def inlined(folder: Path, **written: Any) -> Inlined:
    environment, faults = declared(**written)
    assert faults == []
    return inline(environment, files_in(folder))


def case_with(
    folder: Path = Path("/nowhere"), secrets: tuple[str, ...] = (), **written: Any
) -> CompiledCase:
    """A case of two nodes with this environment."""
    found = inlined(folder, **written)
    assert found.faults == ()
    return case_of(
        row("t_input", "t_output"),
        registry(),
        environment=found.environment,
        contents=found.contents,
        secrets=secrets,
    )


@contextlib.contextmanager
def make(
    folder: Path = Path("/nowhere"),
    *,
    secrets: Mapping[str, str] | None = None,
    parts: Registry | None = None,
    **written: Any,
) -> Iterator[RunWorld]:
    """A world, closed at the end."""
    case = case_with(folder, tuple(secrets or ()), **written)
    world = RunWorld(case, HOST, secrets or {}, parts or registry())
    try:
        yield world
    finally:
        world.close()
