"""A compiled case: everything a run needs, as text that can be sent anywhere and run again."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_evarness.core import c1
from pytest_evarness.core.graph import Graph, check_schedule, parse_graph
from pytest_evarness.core.json import shown
from pytest_evarness.core.material import (
    EMPTY_MATERIALS,
    as_materials,
    check_materials,
    material_bytes,
)
from pytest_evarness.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = ["CASE_FORMAT", "ENVIRONMENT_DEFAULTS", "Budget", "CompiledCase"]

CASE_FORMAT = 1

ENVIRONMENT_DEFAULTS: dict[str, Any] = {
    "user_input": "Hello",
    "clock": "2026-01-01T00:00:00Z",
    "schedule": "canonical",
    "params": {},
}
"""What stands in the environment of every case that does not set it."""

_KEYS = frozenset(
    {
        "format",
        "scenario",
        "case",
        "fixture",
        "graph",
        "overlays",
        "environment",
        "seed",
        "provider",
        "schedule",
        "budget",
        "policy_revision",
        "secrets",
    }
)

# Of texts that many cases have in common; each case asks several times, here and in the mirror.
_shared_digest = lru_cache(maxsize=64)(c1.sha256_text)


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds of one run.

    Attributes:
        events: How many events it may emit.
        seconds: Wall time; exceeding it says nothing about the harness.
        loops: Turns of all loop nodes together; None means ``max_loops`` for each loop node.
    """

    events: int = 10_000
    seconds: float = 30.0
    loops: int | None = None

    def as_record(self) -> dict[str, Json]:
        """The JSON form, every field present."""
        return {"events": self.events, "seconds": float(self.seconds), "loops": self.loops}


@dataclass(frozen=True, slots=True)
class CompiledCase:
    """One case, ready to run in this process, in a mirror, or by whoever verifies a bundle.

    Attributes:
        scenario: The scenario's id.
        case: The case's id, matrix point included.
        fixture: The fixture's name; empty where there is none.
        graph_text: The c1 text of ``graph.as_record()``; many cases share one.
        environment: Normalised by the domains, defaults filled in.
        overlays: Packaged configuration in force, by name.
        overlays_text: The c1 text of ``overlays``.
        materials: Contents of files that the environment names by digest: a text, or ``{"base64":
            ...}``. Many cases share them.
        materials_text: The c1 text of ``materials``.
        secrets: Names of environment variables; their values are never part of a case.
        diagnose: The run goes on behind a block, for observation alone: nothing of it can act.
        text: The c1 text of the case, graph, overlays and materials standing in it as digests;
            without materials the key is absent, and so is ``diagnose`` where it is false.
        digest: ``sha256:`` and the hex digest of ``text``.
    """

    scenario: str
    case: str
    fixture: str
    graph: Graph
    graph_text: str
    environment: JsonObject
    seed: int
    provider: str
    schedule: str
    budget: Budget
    policy_revision: str | None
    overlays: JsonObject
    overlays_text: str
    secrets: tuple[str, ...]
    text: str
    digest: str
    materials: JsonObject = field(default_factory=dict)
    materials_text: str = EMPTY_MATERIALS
    diagnose: bool = False

    @property
    def graph_digest(self) -> str:
        """``sha256:`` and the hex digest of ``graph_text``."""
        return _shared_digest(self.graph_text)

    @property
    def overlays_digest(self) -> str:
        """``sha256:`` and the hex digest of ``overlays_text``."""
        return _shared_digest(self.overlays_text)

    @property
    def materials_digest(self) -> str | None:
        """``sha256:`` and the hex digest of ``materials_text``; None without materials."""
        return c1.sha256_text(self.materials_text) if self.materials else None

    def material(self, digest: str) -> bytes:
        """The content that stands under ``digest``.

        Raises:
            KeyError: There is none.
        """
        return material_bytes(self.materials[digest])

    @classmethod
    def build(
        cls,
        *,
        scenario: str,
        case: str,
        graph: Graph,
        environment: JsonObject | None = None,
        fixture: str = "",
        seed: int | None = None,
        provider: str | None = None,
        schedule: str = "canonical",
        budget: Budget | None = None,
        policy_revision: str | None = None,
        overlays: JsonObject | None = None,
        secrets: Iterable[str] = (),
        graph_text: str | None = None,
        overlays_text: str | None = None,
        contents: Mapping[str, bytes] | None = None,
        materials: JsonObject | None = None,
        materials_text: str | None = None,
        diagnose: bool = False,
    ) -> CompiledCase:
        """Fix all parts and take the digest.

        Args:
            seed: None takes the graph's.
            provider: None takes the graph's.
            graph_text: What an earlier case of the same graph got; computed where it is not given.
            overlays_text: Likewise.
            contents: Bytes of files by their ``sha256:`` digest.
            materials: What an earlier case made of the same contents, with ``materials_text``.

        Raises:
            DeterminismError: A value that has no canonical form.
            InputError: A schedule or a bound that does not exist.
        """
        bounds = budget if budget is not None else Budget()
        _check_budget(bounds)
        check_schedule(schedule)
        environment_copy, environment_text = c1.frozen(environment or {}, "environment")
        if overlays_text is None:
            overlays_copy, overlays_text = c1.frozen(overlays or {}, "overlays")
        else:
            overlays_copy = overlays or {}
        if graph_text is None:
            graph_text = c1.text(graph.as_record())
        if materials is None or materials_text is None:
            materials, materials_text = c1.frozen(as_materials(contents or {}), "materials")
        names = tuple(secrets)
        actual_seed = graph.params.seed if seed is None else seed
        actual_provider = graph.params.provider if provider is None else provider
        head: dict[str, Json] = {
            "format": CASE_FORMAT,
            "scenario": scenario,
            "case": case,
            "fixture": fixture,
            "graph": _shared_digest(graph_text),
            "overlays": _shared_digest(overlays_text),
            "environment": None,
            "seed": actual_seed,
            "provider": actual_provider,
            "schedule": schedule,
            "budget": bounds.as_record(),
            "policy_revision": policy_revision,
            "secrets": list(names),
        }
        if materials:
            head["materials"] = c1.sha256_text(materials_text)
        if diagnose:
            head["diagnose"] = True
        text = _text_with(head, environment_text)
        return cls(
            scenario=scenario,
            case=case,
            fixture=fixture,
            graph=graph,
            graph_text=graph_text,
            environment=environment_copy,
            seed=actual_seed,
            provider=actual_provider,
            schedule=schedule,
            budget=bounds,
            policy_revision=policy_revision,
            overlays=overlays_copy,
            overlays_text=overlays_text,
            secrets=names,
            text=text,
            digest=c1.sha256_text(text),
            materials=materials,
            materials_text=materials_text,
            diagnose=diagnose,
        )

    @classmethod
    def from_texts(
        cls,
        text: str,
        graph_text: str,
        overlays_text: str,
        registry: Registry,
        *,
        graph: Graph | None = None,
        overlays: JsonObject | None = None,
        materials_text: str = EMPTY_MATERIALS,
        materials: JsonObject | None = None,
    ) -> CompiledCase:
        """Read back what :meth:`build` wrote, from a bundle or from a pipe.

        Args:
            graph: What ``graph_text`` was read as before, to save reading it again.
            overlays: Likewise of ``overlays_text``.
            materials_text: Of a case with materials.
            materials: What ``materials_text`` was read and checked as before.

        Raises:
            InputError: A text that is not of this form, or texts that do not belong together.
        """
        record = _read(text, "case")
        keys = _KEYS | (record.keys() & {"materials", "diagnose"})
        if set(record) != keys:
            odd = sorted(set(record) ^ keys)
            raise InputError(f"case: keys must be those of format {CASE_FORMAT} (differ in {odd})")
        if record["format"] != CASE_FORMAT:
            raise InputError(f"case.format: unknown (got {shown(record['format'])}; {CASE_FORMAT})")
        texts = [
            ("graph", _shared_digest(graph_text)),
            ("overlays", _shared_digest(overlays_text)),
        ]
        if "materials" in record:
            texts.append(("materials", c1.sha256_text(materials_text)))
        elif materials_text != EMPTY_MATERIALS:
            raise InputError("case.materials: there are materials and the case names none")
        for name, digest in texts:
            if record[name] != digest:
                raise InputError(
                    f"case.{name}: differs from the text that is to be it "
                    f"(got {shown(record[name])}; the text gives {digest})"
                )
        if graph is None:
            graph, faults = parse_graph(_read(graph_text, "graph"), registry)
            if graph is None or faults:
                raise InputError(f"graph: {'; '.join(fault.text for fault in faults)}")
        _check_shape(record)
        if materials is None:
            materials = _read(materials_text, "materials")
            check_materials(materials)
        budget = record["budget"]
        case = cls.build(
            scenario=record["scenario"],
            case=record["case"],
            fixture=record["fixture"],
            graph=graph,
            graph_text=graph_text,
            environment=record["environment"],
            seed=record["seed"],
            provider=record["provider"],
            schedule=record["schedule"],
            budget=Budget(budget["events"], budget["seconds"], budget["loops"]),
            policy_revision=record["policy_revision"],
            overlays=_read(overlays_text, "overlays") if overlays is None else overlays,
            overlays_text=overlays_text,
            secrets=record["secrets"],
            materials=materials,
            materials_text=materials_text,
            diagnose=record.get("diagnose", False),
        )
        if case.text != text:
            raise InputError(
                "case: not in its canonical form (the same content is written otherwise)"
            )
        return case


def _text_with(head: dict[str, Json], environment_text: str) -> str:
    """The text of ``head`` with an environment that is encoded already, so it is encoded once."""
    marker = '"environment":null'
    before, found, after = c1.text(head).partition(marker)
    # "environment" sorts behind budget, case, diagnose: no text of a user can hold the marker
    # before it, since quotes inside texts are escaped.
    assert found, "the environment has its place in the head"
    return f'{before}"environment":{environment_text}{after}'


def _check_budget(budget: Budget) -> None:
    _check_count("budget.events", budget.events)
    if budget.loops is not None:
        _check_count("budget.loops", budget.loops)
    seconds: Any = budget.seconds
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InputError(f"budget.seconds: must be a number (got {shown(seconds)}; above 0)")
    if not (math.isfinite(seconds) and 0 < seconds <= 1_000_000):
        raise InputError(f"budget.seconds: must be positive (got {seconds!r}; at most 1000000)")


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= c1.MAX_INTEGER:
        raise InputError(f"{name}: must be a positive integer (got {shown(value)}; 1 or more)")


def _check_shape(record: Mapping[str, Any]) -> None:
    for name in ("scenario", "case", "fixture", "provider", "schedule"):
        if not isinstance(record[name], str):
            _wrong(name, "a text", record[name])
    if not isinstance(record["environment"], dict):
        _wrong("environment", "a mapping", record["environment"])
    seed = record["seed"]
    if isinstance(seed, bool) or not isinstance(seed, int):
        _wrong("seed", "an integer", seed)
    policy = record["policy_revision"]
    if policy is not None and not isinstance(policy, str):
        _wrong("policy_revision", "a text or null", policy)
    secrets = record["secrets"]
    if not isinstance(secrets, list) or not all(isinstance(name, str) for name in secrets):
        _wrong("secrets", "a list of names", secrets)
    if record.get("diagnose", True) is not True:
        _wrong("diagnose", "true, or absent", record["diagnose"])
    budget = record["budget"]
    if not isinstance(budget, dict) or set(budget) != {"events", "seconds", "loops"}:
        _wrong("budget", "{events, seconds, loops}", budget)


def _wrong(name: str, rule: str, got: object) -> NoReturn:
    raise InputError(f"case.{name}: must be {rule} (got {shown(got)})")


def _read(content: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f"{name}: must be a mapping (got {shown(value)})")
    return value
