"""Checks of a scenario: the type is chosen first, then only its own fields are spoken of.

What is common to all types is read here, and nowhere else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.checks import CHECK_TYPES
from pytest_evarness.checks.kind import (
    COMMON_FIELDS,
    DEFAULT_TIMEOUT_SECONDS,
    CheckKind,
    Known,
    ReadFile,
)
from pytest_evarness.core import c1
from pytest_evarness.errors import DeterminismError, Fault
from pytest_evarness.scenario.reference import resolve_inside
from pytest_evarness.source.document import shown_path
from pytest_evarness.source.model import unknown_key
from pytest_evarness.source.number import exact
from pytest_evarness.source.quote import kind as kind_of
from pytest_evarness.source.quote import nearest, one_of, quoted, shown

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.scenario.shape import GatheredCheck

__all__ = ["MAX_TIMEOUT_SECONDS", "Checks", "ParsedCheck", "check_schemas", "circles"]

MAX_TIMEOUT_SECONDS = 3600
MAX_FILE_BYTES = 8 * 1024 * 1024
OWN_TYPES = ("contract", "trace")

_TIMEOUT: dict[str, Any] = {
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": MAX_TIMEOUT_SECONDS,
    "description": "Seconds; default 30. More is indeterminate.",
}
_RECHECK: dict[str, Any] = {
    "type": "boolean",
    "description": "Gather the evidence twice; a difference is indeterminate.",
}


@dataclass(frozen=True, slots=True)
class ParsedCheck:
    """A check that can be evaluated.

    Attributes:
        definition: As it is sealed.
        kind: Its type.
        files: ``(name, sha256 hex)`` of each file that it refers to.
    """

    definition: JsonObject
    kind: CheckKind
    files: tuple[tuple[str, str], ...]


class Checks:
    """Checks of one scenario file, each read once for all cases that share what it is read by."""

    def __init__(self, registry: Registry, *, folder: Path, root: Path) -> None:
        self.registry = registry
        self.folder = folder
        self.root = root
        self._parsed: dict[tuple[object, ...], tuple[object, ParsedCheck | None, list[Fault]]] = {}
        self._definitions: dict[str, JsonObject] = {}
        self._files: dict[str, tuple[ReadFile | None, Fault | None]] = {}

    def parse(
        self,
        check: GatheredCheck,
        *,
        ids: Mapping[str, str],
        environment: JsonObject,
        secrets: Sequence[str],
    ) -> tuple[ParsedCheck | None, list[Fault]]:
        """The check, or every mistake in it, paths relative to the mapping under ``check``.

        Args:
            check: As it was written.
            ids: Id to kind of the case's other invariants.
            environment: Normalised.
            secrets: Names.
        """
        key = (
            id(check.value),
            tuple(ids.items()),
            tuple(secrets),
            *((name, _identity(value)) for name, value in environment.items()),
        )
        known = self._parsed.get(key)
        if known is None:
            parsed, faults = self._parse(check, ids, environment, secrets)
            # What is compared by identity is kept, so that no identity is given out again.
            known = ((check.value, environment), parsed, faults)
            self._parsed[key] = known
        return known[1], known[2]

    def _parse(
        self,
        check: GatheredCheck,
        ids: Mapping[str, str],
        environment: JsonObject,
        secrets: Sequence[str],
    ) -> tuple[ParsedCheck | None, list[Fault]]:
        if not isinstance(check.type, str):
            return None, [self._untyped(check)]
        kind = cast("CheckKind | None", self.registry.check_types.find(check.type))
        if kind is None:
            return None, [self._unknown(check.type)]
        common, faults = self._common(check.value, kind)
        fields = _properties(kind)
        known_names = [*(one for one in fields if one != "type"), *_common_of(kind)]
        own: dict[str, Any] = {}
        for name, value in check.value.items():
            if name in COMMON_FIELDS:
                continue
            if name not in fields:
                faults.append(unknown_key((), name, known_names))
                # Read as what it was meant to be, so that one mistake is not told again as a
                # field that is missing.
                meant = nearest(name, known_names)
                if meant is not None and meant in fields and meant not in check.value:
                    own[meant] = value
                continue
            own[name] = value
        read: dict[str, str] = {}

        def read_file(reference: str) -> tuple[ReadFile | None, Fault | None]:
            file, fault = self._file(reference)
            if file is not None:
                read[file.name] = file.sha256
            return file, fault

        services = environment.get("services")
        known = Known(
            services=_types(services),
            has_workspace="workspace" in environment,
            secrets=frozenset(secrets),
            read=read_file,
            ids=ids,
            environment=environment,
            registry=self.registry,
        )
        definition, found = kind.parse(own, known)
        faults += found
        if not faults:
            faults += _undeclared(kind, definition, known)
        if faults:
            return None, faults
        try:
            text = c1.text({**definition, "type": check.type, **common})
        except DeterminismError as error:
            return None, [Fault((), error.problem)]
        # One object for all that say the same: the plan is sealed, and read again, by identity.
        sealed = self._definitions.setdefault(text, cast("JsonObject", c1.thaw(text)))
        return ParsedCheck(sealed, kind, tuple(sorted(read.items()))), []

    def _offered(self) -> list[str]:
        return sorted([*OWN_TYPES, *self.registry.check_types.names()])

    def _untyped(self, check: GatheredCheck) -> Fault:
        rule = f"types: {one_of(self._offered())}"
        if "type" not in check.value:
            problem = "required key 'type' is missing"
            return Fault((), problem, rule=rule, code="missing_key")
        return Fault((), f"type must be text, is {kind_of(check.type)}", rule=rule)

    def _unknown(self, word: str) -> Fault:
        offered = self._offered()
        if word in CHECK_TYPES:
            return Fault(
                (),
                f"check type {quoted(word)} is not in this version",
                rule=f"types: {one_of(offered)}",
            )
        near = nearest(word, {*offered, *CHECK_TYPES})
        return Fault(
            (),
            f"unknown check type {quoted(word)}",
            rule=f"types: {one_of(offered)}",
            fix=f"write '{near}'" if near in offered else None,
        )

    def _common(
        self, value: Mapping[str, Any], kind: CheckKind
    ) -> tuple[dict[str, Json], list[Fault]]:
        """``timeout`` and ``recheck``, their defaults filled in."""
        faults: list[Fault] = []
        timeout = value.get("timeout", DEFAULT_TIMEOUT_SECONDS)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float):
            faults.append(
                Fault(
                    ("timeout",),
                    f"must be a number of seconds, is {kind_of(timeout)}",
                    got=shown(timeout),
                )
            )
        elif not 0 < exact(timeout) <= MAX_TIMEOUT_SECONDS:
            faults.append(
                Fault(
                    ("timeout",),
                    "is out of range",
                    got=shown(timeout),
                    rule=f"more than 0, at most {MAX_TIMEOUT_SECONDS} seconds",
                )
            )
        recheck = value.get("recheck", False)
        if not isinstance(recheck, bool):
            faults.append(Fault(("recheck",), "must be true or false", got=shown(recheck)))
        elif "recheck" in value and not _may_recheck(kind):
            rule = (
                "a check that only reads is gathered twice anyway"
                if kind.only_reads
                else "what a model says is asked once"
            )
            faults.append(
                Fault(
                    ("recheck",),
                    f"is no field of check type {quoted(kind.name)}",
                    rule=rule,
                    fix="remove it",
                    at_key=True,
                )
            )
        if faults:
            return {}, faults
        return {"timeout": float(timeout), "recheck": recheck}, []

    def _file(self, reference: str) -> tuple[ReadFile | None, Fault | None]:
        known = self._files.get(reference)
        if known is None:
            known = self._files[reference] = self._read(reference)
        return known

    def _read(self, reference: str) -> tuple[ReadFile | None, Fault | None]:
        path, fault = resolve_inside(reference, folder=self.folder, root=self.root)
        if path is None:
            return None, fault
        try:
            with path.open("rb") as stream:
                data = stream.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            return None, Fault((), f"cannot be read ({reason})", got=quoted(reference))
        if len(data) > MAX_FILE_BYTES:
            rule = f"at most {MAX_FILE_BYTES // 2**20} MiB"
            return None, Fault((), "is too large", got=quoted(reference), rule=rule)
        name = shown_path(path, self.root.resolve())
        return ReadFile(name, data, hashlib.sha256(data).hexdigest()), None


def circles(follows: Mapping[str, frozenset[str]]) -> list[str]:
    """The ids that come behind themselves, in their order."""
    reach = {name: set(behind) for name, behind in follows.items()}
    for middle, beyond in reach.items():
        for behind in reach.values():
            if middle in behind:
                behind |= beyond
    return [name for name, behind in reach.items() if name in behind]


def check_schemas(registry: Registry) -> list[dict[str, Any]]:
    """JSON Schemas of the checks that are in the registry, common fields put in."""
    made = []
    for part in registry.check_types.values():
        kind = cast("CheckKind", part)
        schema: dict[str, Any] = dict(kind.schema)
        common = {
            name: {"timeout": _TIMEOUT, "recheck": _RECHECK}[name] for name in _common_of(kind)
        }
        properties = {**schema.get("properties", {}), **common}
        made.append({**schema, "properties": properties})
    return made


def _may_recheck(kind: CheckKind) -> bool:
    return not kind.only_reads and not kind.after_verdict


def _common_of(kind: CheckKind) -> list[str]:
    return ["timeout", "recheck"] if _may_recheck(kind) else ["timeout"]


def _properties(kind: CheckKind) -> list[str]:
    properties: Any = kind.schema.get("properties", {})
    return list(properties)


def _types(services: Any) -> dict[str, str]:
    if not isinstance(services, Mapping):
        return {}
    return {
        name: str(config.get("type"))
        for name, config in services.items()
        if isinstance(config, Mapping)
    }


def _undeclared(kind: CheckKind, definition: JsonObject, known: Known) -> list[Fault]:
    """Evidence that no run of the case can have, where the kind itself did not say so."""
    faults = []
    for need in sorted(kind.needs(definition)):
        word, _, name = need.partition(":")
        if word == "service" and name not in known.services:
            near = nearest(name, known.services)
            faults.append(
                Fault(
                    ("service",),
                    "names no service of environment.services",
                    got=quoted(name),
                    rule=f"services: {one_of(known.services) or 'none'}",
                    fix=f"write '{near}'" if near else None,
                )
            )
        elif word == "workspace" and not known.has_workspace:
            faults.append(
                Fault(
                    (),
                    f"a check of type {quoted(kind.name)} needs a workspace",
                    rule="environment.workspace is not declared",
                    fix="write 'workspace: {}' under environment",
                )
            )
    return faults


def _identity(value: object) -> object:
    """Cases share the containers they do not change; other values are compared by what they are."""
    return id(value) if isinstance(value, Mapping | list) else (type(value).__name__, value)
