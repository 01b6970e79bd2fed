"""The compiled case held against the scenario that the case encloses: what ran is what is written.

What a loader makes of an environment is a function of the merged scenario and of files, and what
files held goes with the case under their digests. So it is made again here and compared. What no
bundle holds is said to be the signer's word: the file of a graph, the folder of a workspace, the
name of a fixture.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_evarness.bundle.lookup import is_foreign, texts_of
from pytest_evarness.core import c1
from pytest_evarness.core.case import ENVIRONMENT_DEFAULTS, Budget
from pytest_evarness.core.graph import parse_graph
from pytest_evarness.core.interfaces import EnvironmentKey, InliningDomain
from pytest_evarness.core.json import shown
from pytest_evarness.core.material import check_materials, material_bytes
from pytest_evarness.errors import Fault, UnverifiedError

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.registry import Registry

__all__ = ["check_compiled"]

_CORE_KEYS = ("user_input", "clock", "seed", "provider", "schedule", "params")


def check_compiled(predicate: Mapping[str, Any], registry: Registry) -> list[str]:
    """Make every compiled case again that the enclosed scenario decides.

    Returns:
        What is taken on the signer's word.

    Raises:
        UnverifiedError: What ran is another case than is written.
    """
    seal = predicate["seal"]
    texts = texts_of(predicate)
    keys: dict[str, EnvironmentKey] = {}
    for domain in registry.domains.values():
        keys.update((key.name, key) for key in domain.environment_keys())
    planned_by_nodeid = {planned["nodeid"]: planned for planned in seal["plan"]}
    sealed = frozenset(row["sha256"] for row in seal["subjects"])
    foreign = is_foreign(seal, registry)
    graphs: dict[str, Graph | None] = {}
    word: list[str] = []
    for case in predicate["cases"]:
        inputs, nodeid = case["inputs"], case["nodeid"]
        digest = inputs["graph"]
        if digest not in graphs:
            graphs[digest], _ = parse_graph(json.loads(texts[digest]), registry)
        materials = {} if inputs["materials"] is None else json.loads(texts[inputs["materials"]])
        one = _Case(
            nodeid=nodeid,
            scenario=json.loads(inputs["scenario"]),
            compiled=json.loads(inputs["compiled"]),
            graph=graphs[digest],
            graph_text=texts[digest],
            materials=materials,
            file=planned_by_nodeid[nodeid]["file"],
            sealed=sealed,
            keys=keys,
            registry=registry,
        )
        try:
            one.check()
        except UnverifiedError:
            if not foreign:
                raise
            # A stranger's domain may have read keys, or filled in what is not written.
            one.word.append(f"{nodeid}: that it was compiled from its scenario, with a plug-in")
        word.extend(one.word)
    return list(dict.fromkeys(word))


@dataclass(frozen=True, slots=True)
class _Case:
    """A scenario, and what it is said to have been compiled to."""

    nodeid: str
    scenario: Mapping[str, Any]
    compiled: Mapping[str, Any]
    graph: Graph | None
    graph_text: str
    materials: Mapping[str, Any]
    file: str
    sealed: frozenset[str]
    keys: Mapping[str, EnvironmentKey]
    registry: Registry
    word: list[str] = field(default_factory=list)

    def check(self) -> None:
        check_materials(self.materials)
        self._same("scenario", self.scenario.get("id"))
        self._check_graph()
        environment, contents = self._environment()
        self._same("fixture", self._fixture())
        for name in ("seed", "provider", "schedule"):
            self._same(name, environment[name])
        self._same("budget", self._budget())
        policy: Any = self.scenario.get("policy") or {}
        self._same("policy_revision", policy.get("revision"))
        self._same("secrets", self._secrets(environment))
        compiled: Any = self.compiled["environment"]
        for name in sorted(environment.keys() | compiled.keys()):
            if name not in environment or name not in compiled:
                where = "the scenario" if name in environment else "what ran"
                self._refuse(f"environment.{name}", f"is in {where} alone")
            if c1.text(environment[name]) != c1.text(compiled[name]):
                self._refuse(f"environment.{name}", "is not what the scenario gives")
        # A file of the folder that a written one lies over goes with the case as well.
        further = self.materials.keys() - contents if self._folder() is None else set()
        if further or not contents <= self.materials.keys():
            self._refuse("materials", "are not the files that the scenario names")

    def _refuse(self, name: str, problem: str) -> NoReturn:
        raise UnverifiedError(f"{self.nodeid}: inputs.compiled.{name}: {problem}")

    def _same(self, name: str, want: Any) -> None:
        got = self.compiled.get(name)
        if got != want or type(got) is not type(want):
            self._refuse(name, f"is {shown(got)}, and the scenario gives {shown(want)}")

    def _check_graph(self) -> None:
        subject: Any = self.scenario.get("subject") or {}
        given = subject.get("graph")
        if isinstance(given, str):
            self.word.append(f"{self.file}: that the enclosed graph is that of {shown(given)}")
            return
        graph, faults = parse_graph(given, self.registry)
        if graph is None:
            problem = faults[0].text if faults else "nothing"
            self._refuse("graph", f"what is written cannot be read: {problem}")
        if c1.text(graph.as_record()) != self.graph_text:
            self._refuse("graph", "is another one than is written")

    def _fixture(self) -> Any:
        given: Any = self.scenario.get("environment") or {}
        subject: Any = self.scenario.get("subject") or {}
        # A pattern brings a fixture of its own.
        if "fixture" in given or isinstance(subject.get("graph"), str):
            if self.compiled["fixture"]:
                self.word.append("inputs.fixture: what fixtures are called")
            return self.compiled["fixture"]
        return ""

    def _budget(self) -> dict[str, Any]:
        given: Any = self.scenario.get("budget") or {}
        bounds = {name: given[name] for name in ("events", "seconds", "loops") if name in given}
        return Budget(**bounds).as_record()

    def _secrets(self, environment: Mapping[str, Any]) -> list[str]:
        names = dict.fromkeys(self.scenario.get("secrets") or ())
        services: Any = environment.get("services") or {}
        # A text has its keys sorted, so which service comes first is not known any more.
        behind: set[str] = set()
        for config in services.values():
            kind: Any = self.registry.service_types.find(str(config.get("type")))
            secrets_of = getattr(kind, "secrets_of", None)
            if secrets_of is not None:
                behind.update(secrets_of(config))
        first = list(names)
        rest = self.compiled["secrets"][len(first) :]
        if set(rest) == behind - set(first) and len(set(rest)) == len(rest):
            return [*first, *rest]
        return [*first, *sorted(behind - set(first))]

    def _folder(self) -> Any:
        """What the workspace is copied from; None for nothing."""
        given: Any = self.scenario.get("environment") or {}
        return (given.get("workspace") or {}).get("from")

    # -- environment -----------------------------------------------------------------------------

    def _environment(self) -> tuple[dict[str, Any], set[str]]:
        """What a loader makes of the environment, and which contents go with it."""
        given: Any = self.scenario.get("environment") or {}
        made: dict[str, Any] = {}
        for name, value in given.items():
            if name == "fixture":
                continue
            if name in _CORE_KEYS:
                made[name] = value
                continue
            key = self.keys.get(name)
            if key is None:
                self._refuse(f"environment.{name}", "is a key that nothing reads")
            made[name], faults = key.parse(value)
            if faults:
                problem = faults[0].text
                self._refuse(f"environment.{name}", f"what is written cannot be read: {problem}")
        for name, value in ENVIRONMENT_DEFAULTS.items():
            made.setdefault(name, value)
        made, contents = self._inlined(made)
        if self.graph is not None:
            made.setdefault("seed", self.graph.params.seed)
            made.setdefault("provider", self.graph.params.provider)
        return made, contents

    def _inlined(self, environment: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
        """The environment with files by their digests, as they go with the case."""
        folder = self._folder()
        if folder is not None:
            environment["workspace"] = {**environment["workspace"], "from": None}
        contents: set[str] = set()
        files = _Enclosed(self)
        for domain in self.registry.domains.values():
            if isinstance(domain, InliningDomain):
                inlined = domain.inline(environment, files)
                for fault in inlined.faults:
                    self._refuse("environment", f"what is written cannot be read: {fault.text}")
                environment = dict(inlined.environment)
                contents.update(inlined.contents)
        if folder is not None:
            contents.update(self._copied(environment, folder))
        return environment, contents

    def _copied(self, environment: dict[str, Any], folder: Any) -> list[str]:
        """What a folder held is not known; what is written beside it lies over it."""
        made = environment["workspace"]
        ran: Any = self.compiled["environment"].get("workspace") or {"files": [], "git": None}
        entries = {entry["path"]: entry for entry in ran["files"]}
        for entry in made["files"]:
            if entry["type"] != "directory" and entries.get(entry["path"]) != entry:
                path = entry["path"]
                self._refuse("environment.workspace", f"{shown(path)} is not the written file")
        if made["git"] != ran["git"]:
            self._refuse("environment.workspace.git", f"is {shown(ran['git'])}")
        self.word.append(f"{self.file}: that the files of a workspace are those of {shown(folder)}")
        environment["workspace"] = ran
        return [entry["sha256"] for entry in ran["files"] if "sha256" in entry]


class _Enclosed:
    """The files of a project as far as they go with a case; nothing is read."""

    def __init__(self, case: _Case) -> None:
        self.kept: dict[Any, Any] = {}
        self._case = case
        self._digests: dict[str, str] = {}
        services: Any = case.compiled["environment"].get("services") or {}
        for config in services.values():
            init = config.get("init")
            for entry in init if isinstance(init, list) else ():
                if isinstance(entry, Mapping) and entry.keys() == {"file", "sha256"}:
                    self._digests[entry["file"]] = entry["sha256"]

    def read(self, text: str) -> tuple[str, bytes] | Fault:
        """A script of ``init``, which a subject of the bundle has to be."""
        digest = self._digests.get(text)
        if digest is None or digest not in self._case.materials:
            return Fault((), "does not go with the case", got=shown(text))
        if digest.removeprefix("sha256:") not in self._case.sealed:
            return Fault((), "is no subject of the bundle", got=shown(text))
        name = posixpath.normpath(posixpath.join(posixpath.dirname(self._case.file), text))
        return name, material_bytes(self._case.materials[digest])

    def folder(self, text: str) -> tuple[str, Path] | Fault:
        """None goes with a case."""
        return Fault((), "does not go with the case", got=shown(text))
