"""Keys of ``environment``: those every harness has, and those that domains add."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_evarness.core.interfaces import EnvironmentKey
from pytest_evarness.errors import Fault
from pytest_evarness.source.limit import MAX_MISTAKES
from pytest_evarness.source.model import unknown_key
from pytest_evarness.source.quote import nearest, quoted, shown, with_quotes

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Domain
    from pytest_evarness.core.json import Json
    from pytest_evarness.core.registry import Registry

__all__ = ["CORE_KEYS", "LATER", "Environment"]

LATER = (
    "default_judge_scores",
    "episodic",
    "facts",
    "instructions",
    "judge",
    "react",
    "tiers",
)
"""Keys whose names are taken; refused until something reads them."""

_CLOCK = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z\Z", re.ASCII)
_PROVIDER = re.compile(r"sim:[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_SCHEDULE = re.compile(r"canonical\Z|reverse\Z|seed:(0|[1-9][0-9]{0,14})\Z")


def _text(value: Json) -> tuple[Json, list[Fault]]:
    if isinstance(value, str):
        return value, []
    fix = f"write '\"{shown(value)}\"' with quotes" if isinstance(value, int | float) else None
    fix = fix or with_quotes(value)
    return None, [Fault((), "must be text", got=shown(value), fix=fix)]


def _clock(value: Json) -> tuple[Json, list[Fault]]:
    rule = "such as 2026-01-01T00:00:00Z, in UTC"
    if isinstance(value, str) and _CLOCK.match(value):
        try:
            dt.datetime.fromisoformat(value)
        except ValueError as error:
            reason = str(error).split(":")[0]
            return None, [Fault((), f"is no moment ({reason})", got=shown(value), rule=rule)]
        return value, []
    return None, [Fault((), "must be a moment", got=shown(value), rule=rule)]


def _seed(value: Json) -> tuple[Json, list[Fault]]:
    if isinstance(value, int) and not isinstance(value, bool):
        return value, []
    fix = f"write {value} without quotes" if isinstance(value, str) and value.isdigit() else None
    return None, [Fault((), "must be an integer", got=shown(value), fix=fix)]


def check_provider(value: Json) -> tuple[Json, list[Fault]]:
    """A simulated model; any other name is refused rather than simulated in silence."""
    if isinstance(value, str) and _PROVIDER.match(value):
        return value, []
    if isinstance(value, str):
        return None, [
            Fault(
                (),
                "names no simulated model",
                got=quoted(value),
                rule="runs are simulated, no provider is ever called; sim:NAME, scripted by"
                " environment.llm",
                fix="write 'sim:helpful-v1'",
            )
        ]
    return None, [Fault((), "must be text", got=shown(value), rule="sim:NAME")]


def _schedule(value: Json) -> tuple[Json, list[Fault]]:
    if isinstance(value, str) and _SCHEDULE.match(value):
        return value, []
    return None, [
        Fault((), "is no schedule", got=shown(value), rule="canonical, reverse, or seed:N")
    ]


def _params(value: Json) -> tuple[Json, list[Fault]]:
    if isinstance(value, Mapping):
        return value, []
    return None, [Fault((), "must be a mapping", got=shown(value))]


CORE_KEYS: tuple[EnvironmentKey, ...] = (
    EnvironmentKey(
        "fixture",
        "A file with keys of this table; relative to the scenario file.",
        _text,
        {"type": "string", "minLength": 1},
    ),
    EnvironmentKey("user_input", "The input; default Hello.", _text, {"type": "string"}),
    EnvironmentKey(
        "clock",
        "Start of simulated time; default 2026-01-01T00:00:00Z.",
        _clock,
        {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$"},
    ),
    EnvironmentKey(
        "seed", "Random choices; default the graph's, else 42.", _seed, {"type": "integer"}
    ),
    EnvironmentKey(
        "provider",
        "The simulated model; default the graph's, else sim:helpful-v1.",
        check_provider,
        {"type": "string", "pattern": r"^sim:[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"},
    ),
    EnvironmentKey(
        "schedule",
        "Order of independent nodes; default canonical.",
        _schedule,
        {"type": "string", "pattern": r"^(canonical|reverse|seed:(0|[1-9][0-9]{0,14}))$"},
    ),
    EnvironmentKey("params", "Free values.", _params, {"type": "object"}),
)


def _domains(registry: Registry) -> list[Domain]:
    return [domain for _, domain in registry.domains.items()]


class Environment:
    """All keys that may stand in ``environment``, and their values parsed once each.

    Cases share the values they do not change, so a value is parsed once however many cases
    have it. Values are recognised by identity and kept alive for it.
    """

    def __init__(self, registry: Registry) -> None:
        self.keys: dict[str, EnvironmentKey] = {key.name: key for key in CORE_KEYS}
        for domain in _domains(registry):
            for key in domain.environment_keys():
                if self.keys.setdefault(key.name, key) is not key:
                    source = registry.domains.source_of(domain.name) or domain.name
                    taken = (source, f"environment key '{key.name}' is taken (got it twice)")
                    # Each file has an environment; once is enough.
                    if taken not in registry.broken:
                        registry.broken.append(taken)
        self.later = tuple(name for name in LATER if name not in self.keys)
        self._parsed: dict[tuple[str, int], tuple[object, Json, list[Fault]]] = {}

    def names(self) -> list[str]:
        """Every key that is read, in the order in which they are documented."""
        return list(self.keys)

    def parse(
        self, value: Mapping[str, Json], *, fixture: bool = False
    ) -> tuple[dict[str, Json], list[Fault]]:
        """Normalise an environment; paths of faults are relative to it.

        Keys that are wrong are left out of the result.

        Args:
            value: Merged, or a fixture file alone.
            fixture: Whether it is a fixture file: those name no further fixture, and may hold a
                name, ``scenario``.
        """
        made: dict[str, Json] = {}
        faults: list[Fault] = []
        for name, given in value.items():
            if len(faults) >= MAX_MISTAKES:
                break
            if fixture and name == "scenario":
                if not isinstance(given, str):
                    faults.append(Fault((name,), "must be text", got=shown(given)))
                continue
            if fixture and name == "fixture":
                faults.append(
                    Fault(
                        (name,), "a fixture names no further fixture", got=shown(given), at_key=True
                    )
                )
                continue
            key = self.keys.get(name)
            if key is None:
                faults.append(self._unknown(name, fixture=fixture))
                continue
            parsed, found = self._value(key, given)
            if found:
                faults.extend(fault.under(name) for fault in found)
            else:
                made[name] = parsed
        return made, faults

    def stand_ins(self, value: Mapping[str, Json], parsed: Mapping[str, Json]) -> dict[str, Json]:
        """What keys that are wrong, or misspelt, declare all the same.

        One mistake is told once: a service with a wrong field is still a service, and what names
        it is no mistake.

        Args:
            value: Merged, as it was given to ``parse``.
            parsed: What ``parse`` made of it.
        """
        made: dict[str, Json] = {}
        for name, given in value.items():
            meant = name if name in self.keys else nearest(name, self.keys)
            key = self.keys[meant] if meant is not None else None
            if key is None or key.stand_in is None or key.name in parsed:
                continue
            if key.name == name or key.name not in value:
                made[key.name] = key.stand_in(given)
        return made

    def _value(self, key: EnvironmentKey, given: Json) -> tuple[Json, list[Fault]]:
        if not isinstance(given, dict | list):
            return key.parse(given)
        known = self._parsed.get((key.name, id(given)))
        if known is None:
            parsed, found = key.parse(given)
            known = (given, parsed, found)
            self._parsed[(key.name, id(given))] = known
        return known[1], known[2]

    def _unknown(self, name: str, *, fixture: bool) -> Fault:
        if name in self.later:
            return Fault(
                (name,), f"key {quoted(name)} is not in this version", fix="remove it", at_key=True
            )
        # A key that a domain keeps for later refuses every value; it is nothing to advise.
        known = [key.name for key in self.keys.values() if "not" not in key.schema]
        if fixture:
            known.remove("fixture")
            known.append("scenario")
        return unknown_key((), name, known)
