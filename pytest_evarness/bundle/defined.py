"""Definitions held against the scenario that the case encloses: each item judges what is written.

The merged scenario is in the bundle, and what a loader makes of a check, an expectation, a rule or
a trace contract is a function of it. So it is made again here and compared. What a library held is
not in a bundle, and stays the signer's word.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, cast

from pytest_evarness.bundle.lookup import definitions_of, is_foreign
from pytest_evarness.bundle.recomputation import Graphs
from pytest_evarness.checks.forbidden import UNMATCHED, routes_of, strict_services
from pytest_evarness.checks.kind import (
    COMMON_FIELDS,
    DEFAULT_TIMEOUT_SECONDS,
    Known,
    ReadFile,
)
from pytest_evarness.contract.model import inline_id, parse_contract
from pytest_evarness.core import c1
from pytest_evarness.core.execution import CUSTOM_TRAIT
from pytest_evarness.core.json import shown
from pytest_evarness.errors import Fault, UnverifiedError

if TYPE_CHECKING:
    from pytest_evarness.checks.kind import CheckKind
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.registry import Registry

__all__ = ["check_defined"]


def check_defined(predicate: Mapping[str, Any], registry: Registry) -> list[str]:
    """Make every definition again that the enclosed scenario decides.

    Returns:
        What is taken on the signer's word.

    Raises:
        UnverifiedError: An item is judged by something else than is written.
    """
    seal = predicate["seal"]
    definitions = definitions_of(seal)
    planned_by_nodeid = {planned["nodeid"]: planned for planned in seal["plan"]}
    files = {row["name"]: row["sha256"] for row in seal["subjects"]}
    graphs = Graphs(predicate, registry)
    foreign = is_foreign(seal, registry)
    word: list[str] = []
    if any(item["kind"] == "contract" for planned in seal["plan"] for item in planned["items"]):
        word.append("seal.definitions: that contracts are what their libraries say")
    for case in predicate["cases"]:
        planned = planned_by_nodeid[case["nodeid"]]
        scenario = json.loads(case["inputs"]["scenario"])
        compiled = json.loads(case["inputs"]["compiled"])
        one = _Case(
            nodeid=case["nodeid"],
            scenario=scenario,
            environment=compiled.get("environment") or {},
            secrets=tuple(compiled.get("secrets") or ()),
            graph=graphs.find(case["inputs"]["graph"]),
            overlays=json.loads(graphs.text(case["inputs"]["overlays"])),
            folder=posixpath.dirname(planned["file"]),
            files=files,
            registry=registry,
            is_foreign=foreign,
            kinds={item["id"]: item["kind"] for item in planned["items"]},
        )
        _check_strict(one, planned)
        one.check_derived(planned)
        for item in planned["items"]:
            place = f"{case['nodeid']}::{item['id']}"
            made = one.made(item)
            if isinstance(made, str):
                word.append(f"{place}: {made}")
            elif made is not None and not _is_alike(made, definitions[item["definition"]]):
                key = _differing(made, definitions[item["definition"]])
                _refuse(place, f"is judged by another definition than is written ({key})")
    return word


def _refuse(place: str, problem: str) -> NoReturn:
    raise UnverifiedError(f"{place}: {problem}")


def _check_strict(one: _Case, planned: Mapping[str, Any]) -> None:
    """The rule that strict services bring is planned exactly where one is strict."""
    is_planned = f"forbidden-{UNMATCHED.replace('_', '-')}" in one.kinds
    if is_planned != bool(strict_services(one.services)):
        word = "is planned, and no service is strict" if is_planned else "is not planned"
        _refuse(planned["nodeid"], f"the rule that strict services bring {word}")


@dataclass(frozen=True, slots=True)
class _Case:
    """What a case encloses that definitions are made of."""

    nodeid: str
    scenario: Mapping[str, Any]
    environment: Mapping[str, Any]
    secrets: tuple[str, ...]
    graph: Graph | None
    overlays: Any
    folder: str
    files: Mapping[str, str]
    registry: Registry
    is_foreign: bool
    kinds: Mapping[str, str]

    @property
    def services(self) -> Mapping[str, Any]:
        """Declared services, normalised."""
        services: Any = self.environment.get("services")
        return services if isinstance(services, Mapping) else {}

    def made(self, item: Mapping[str, Any]) -> Any:
        """The definition as it is written; a text where that is on the signer's word.

        None where the kind has no definition of its own.
        """
        kind, entry = item["kind"], self._entry(item["id"])
        if kind == "expect":
            return self._expectation(written=item["written"])
        if kind == "forbidden":
            return self._rule(item["id"])
        if kind == "trace":
            return self._trace(item["id"], entry)
        check = self.registry.check_types.find(kind)
        if check is None or entry is None:
            return None  # told elsewhere: a fixed kind, a part of a plug-in, or not written at all
        return self._check(item["id"], entry["check"], cast("CheckKind", check))

    def _entry(self, name: str) -> Mapping[str, Any] | None:
        entries: Any = self.scenario.get("invariants")
        entry = entries.get(name) if isinstance(entries, Mapping) else None
        return entry if isinstance(entry, Mapping) else None

    def _expectation(self, *, written: bool) -> dict[str, Any]:
        given: Any = self.scenario.get("expect") or {}
        made: dict[str, Any] = {
            "status": given.get("status", "completed"),
            "nodes_run": list(given.get("nodes_run") or ()),
            "nodes_not_run": list(given.get("nodes_not_run") or ()),
            "written": written,
        }
        if "output" in given:
            made["output"] = given["output"]
        return made

    def _rule(self, name: str) -> Any:
        if self.graph is None:
            return "its rule, for a graph that is not known here"
        written: Any = self.scenario.get("forbidden") or {}
        rules = {f"forbidden-{rule.replace('_', '-')}": rule for rule in written}
        rule = rules.get(name, UNMATCHED)
        given = written.get(rule)
        names = [str(one) for one in given] if isinstance(given, list) else []
        if rule == "tools_except":
            aliases = self._aliases()
            names = [aliases.get(one, one) for one in names]
        if rule == "secrets_in_logs":
            names = sorted(self.secrets)
        more: dict[str, Any] = {}
        if name not in rules:
            names = strict_services(self.services)
            more = {"routes": routes_of(self.services)}
        return {
            **more,
            "rule": rule,
            "names": list(dict.fromkeys(names)),
            "services": {key: str(config.get("type")) for key, config in self.services.items()},
            "workspace": "workspace" in self.environment,
            "steps": [node.id for node in self.graph.nodes.values() if self._is_code(node.type)],
        }

    def _is_code(self, name: str) -> bool:
        kind = self.registry.node_types.find(name)
        return kind is not None and CUSTOM_TRAIT in kind.traits

    def _aliases(self) -> dict[str, str]:
        aliases: dict[str, str] = {}
        for domain in self.registry.domains.values():
            aliases.update(domain.aliases(self.overlays))
        return aliases

    def _trace(self, name: str, entry: Mapping[str, Any] | None) -> Any:
        if entry is not None:
            body: Any = entry["check"].get("assert")
            given: dict[str, Any] = {"assert": body}
        else:
            derived = next((one for one in self._derived() if one.id == name), None)
            if derived is None:
                if self.is_foreign:
                    return "its contract, which a plug-in made of the environment"
                _refuse(f"{self.nodeid}::{name}", "is planned, and nothing asks for it")
            severity = str(getattr(derived, "severity", "major"))
            given = {"assert": derived.body, "severity": severity}
        contract, faults = parse_contract(
            inline_id(name),
            given,
            registry=self.registry,
            label="inline",
            aliases=self._aliases() if entry is not None else None,
        )
        if contract is None or faults:
            return self._unread(name, faults)
        return contract.definition()

    def check_derived(self, planned: Mapping[str, Any]) -> None:
        """What follows from the environment is planned, as a gate, and as strict as it is made."""
        items = {item["id"]: item for item in planned["items"]}
        for derived in self._derived():
            item = items.get(derived.id)
            if item is None:
                _refuse(self.nodeid, f"'{derived.id}' follows from the environment; it is missing")
            vacuous = str(getattr(derived, "vacuous", "pass"))
            if not item["gate"] or item["vacuous"] != vacuous:
                place = f"{self.nodeid}::{derived.id}"
                _refuse(place, f"must be a gate whose vacuous pass counts as {vacuous}")
            if item["description"] != derived.description:
                said = shown(item["description"])
                _refuse(f"{self.nodeid}::{derived.id}", f"description is {said}, and another made")

    def _derived(self) -> Iterator[Any]:
        if self.graph is not None:
            for domain in self.registry.domains.values():
                yield from domain.derive(self.graph, cast("Any", self.environment))

    def _check(self, name: str, check: Mapping[str, Any], kind: CheckKind) -> Any:
        unseen: list[str] = []

        def read(reference: str) -> tuple[ReadFile | None, Fault | None]:
            # The file's bytes are no part of a bundle; its name and digest are.
            path = posixpath.normpath(posixpath.join(self.folder, reference))
            found = self.files.get(path)
            if found is None:
                unseen.append(path)
                return None, Fault((), "is no subject of the bundle")
            return ReadFile(path, b"", found), None

        known = Known(
            services={key: str(config.get("type")) for key, config in self.services.items()},
            has_workspace="workspace" in self.environment,
            secrets=frozenset(self.secrets),
            read=read,
            ids={key: value for key, value in self.kinds.items() if key != name},
            environment=cast("Any", self.environment),
            registry=self.registry,
        )
        fields: Any = kind.schema.get("properties", {})
        own = {
            key: value
            for key, value in check.items()
            if key not in COMMON_FIELDS and (key != "type" or key in fields)
        }
        definition, faults = kind.parse(own, known)
        if unseen:
            # Sealed under the name that a link leads to.
            return f"its definition: which file {shown(unseen[0])} is"
        if faults:
            return self._unread(name, faults)
        return {
            **definition,
            "type": kind.name,
            "timeout": float(check.get("timeout", DEFAULT_TIMEOUT_SECONDS)),
            "recheck": check.get("recheck", False),
        }

    def _unread(self, name: str, faults: list[Fault]) -> str:
        if self.is_foreign:
            return "its definition, read with parts of a plug-in"
        problem = faults[0].text if faults else "nothing"
        _refuse(f"{self.nodeid}::{name}", f"what is written cannot be read: {problem}")


# -- two definitions -----------------------------------------------------------------------------


def _is_alike(made: Any, sealed: Any) -> bool:
    """Whether two definitions say the same.

    A definition keeps the digits of a number as they were written, and an enclosed scenario has
    the number alone; so numbers that stand as text are compared as numbers.
    """
    return _differing(made, sealed) is None


_NUMBERS = frozenset({"max_spread", "pass_threshold"})


def _differing(made: Any, sealed: Any) -> str | None:
    """The first key under which they differ."""
    if not isinstance(sealed, Mapping) or made.keys() != sealed.keys():
        odd = sorted(set(made) ^ set(sealed)) if isinstance(sealed, Mapping) else ["form"]
        return str(odd[0])
    for key in sorted(made):
        if key in _NUMBERS and made[key] is not None and sealed[key] is not None:
            same = float(Fraction(made[key])) == float(Fraction(sealed[key]))
        elif key == "expected" and made.get("compare") in ("matcher", "row_count"):
            same = _canonical(json.loads(made[key])) == _canonical(json.loads(sealed[key]))
        else:
            same = _canonical(made[key]) == _canonical(sealed[key])
        if not same:
            return str(key)
    return None


def _canonical(value: Any) -> str:
    return c1.text(_as_numbers(value))


def _as_numbers(value: Any) -> Any:
    """Typed numbers of ``sql`` as numbers."""
    if isinstance(value, Mapping):
        if value.keys() == {"t", "v"} and value["t"] == "number":
            return {"t": "number", "v": float(Fraction(value["v"]))}
        return {str(key): _as_numbers(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_as_numbers(part) for part in value]
    return value
