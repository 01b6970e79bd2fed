"""The harness under test: a graph from a file, a pattern or the scenario, and its overlays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_evarness.core import c1
from pytest_evarness.core.graph import lint, parse_graph
from pytest_evarness.core.interfaces import (
    AnsweringDomain,
    InliningDomain,
    Locations,
    RemarkingDomain,
    ShapingDomain,
)
from pytest_evarness.errors import Fault, InputError, Where
from pytest_evarness.scenario.code import find_code
from pytest_evarness.scenario.environment import check_provider
from pytest_evarness.scenario.reference import References, Referred, read_file
from pytest_evarness.source.document import Document, as_error
from pytest_evarness.source.quote import nearest, one_of, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.interfaces import Domain, LintFinding, Overlay, Shape
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = ["Harness", "Harnesses", "Overlays"]

PATTERN = "pattern:"


@dataclass(frozen=True, slots=True)
class Overlays:
    """Packaged configuration in force for one place.

    Attributes:
        values: By overlay name.
        text: The c1 text of ``values``; many cases share it.
        in_force: ``(name, label, sha256 hex)`` of each layer.
        errors: Layers that cannot be used.
        shapes: What the values know of payload fields.
    """

    values: JsonObject
    text: str
    in_force: tuple[tuple[str, str, str], ...]
    errors: tuple[InputError, ...]
    shapes: tuple[Shape, ...] = ()


@dataclass(slots=True)
class Harness:
    """A graph and what belongs to its place.

    Attributes:
        graph: None where its shape is wrong; ``errors`` then say why.
        graph_text: The c1 text of the graph; many cases share it.
        document: The file it stands in; None when it stands in the scenario.
        is_packaged: It belongs to a pattern, so a scenario's line is a better place than its own.
        beside: Folders whose contracts and overlays it brings.
        fixture: What a pattern brings: the text of a reference, or a file.
        name: For the list of subjects.
        sha256: Of the file, hex; of the c1 text for a graph in the scenario.
        lint: Everything lint says, errors and warnings.
        code: ``(name, sha256 hex)`` of the modules that its nodes call.
        errors: Mistakes that stand in its own file.
        faults: Mistakes of a graph that stands in the scenario, from the graph's root.
    """

    graph: Graph | None
    overlays: Overlays
    graph_text: str = ""
    document: Document | None = None
    is_packaged: bool = False
    beside: tuple[Path, ...] = ()
    fixture: Referred | None = None
    name: str = ""
    sha256: str = ""
    lint: list[LintFinding] = field(default_factory=list)
    code: tuple[tuple[str, str], ...] = ()
    errors: list[InputError] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


class Harnesses:
    """Reads each harness of a scenario file once, however many cases run it."""

    def __init__(
        self,
        registry: Registry,
        references: References,
        *,
        home: Path | None,
        variables: Mapping[str, str],
        scenario_name: str,
    ) -> None:
        self.registry = registry
        self.references = references
        self.home = home
        self.variables = variables
        self.scenario_name = scenario_name
        self.domains: list[Domain] = [domain for _, domain in registry.domains.items()]
        # Asked once: looking a protocol over is dear, and cases are many.
        self.inlining = [one for one in self.domains if isinstance(one, InliningDomain)]
        self.remarking = [one for one in self.domains if isinstance(one, RemarkingDomain)]
        self.answering = [one for one in self.domains if isinstance(one, AnsweringDomain)]
        self._by_text: dict[str, tuple[Harness | None, Fault | None]] = {}
        self._by_id: dict[int, tuple[object, Harness]] = {}
        self._overlays: dict[tuple[Path, ...], Overlays] = {}

    def resolve(self, given: str | Mapping[str, Any]) -> tuple[Harness | None, Fault | None]:
        """The harness that ``subject.graph`` names, or the fault of the reference."""
        if isinstance(given, str):
            if given not in self._by_text:
                self._by_text[given] = (
                    self._pattern(given) if given.startswith(PATTERN) else self._file(given)
                )
            return self._by_text[given]
        known = self._by_id.get(id(given))
        if known is None:
            folder = self.references.folder
            harness = Harness(None, self.overlays((folder,)), beside=(folder,))
            harness.name = f"{self.scenario_name}#subject.graph"
            harness.faults = self._read(harness, given)
            harness.sha256 = c1.sha256_text(harness.graph_text).removeprefix("sha256:")
            known = (given, harness)
            self._by_id[id(given)] = known
        return known[1], None

    def _file(self, text: str) -> tuple[Harness | None, Fault | None]:
        referred, fault, error = self.references.read(text)
        if referred is None:
            if fault is not None:
                return None, fault
            assert error is not None, "a reference that was not read says why"
            return self._broken(error), None
        folders = tuple(dict.fromkeys((self.references.folder, referred.path.parent)))
        return self._of_document(referred, folders), None

    def _broken(self, error: InputError) -> Harness:
        harness = Harness(None, self.overlays((self.references.folder,)))
        harness.errors.append(error)
        return harness

    def _of_document(self, referred: Referred, folders: tuple[Path, ...]) -> Harness:
        harness = Harness(
            None,
            self.overlays(folders),
            document=referred.document,
            beside=folders,
            name=referred.name,
            sha256=referred.sha256,
        )
        faults = self._read(harness, referred.document.value)
        harness.errors.extend(referred.document.error(fault) for fault in faults)
        return harness

    def _read(self, harness: Harness, value: Any) -> list[Fault]:
        graph, faults = parse_graph(value, self.registry)
        if graph is None:
            return faults
        _, wrong = check_provider(graph.params.provider)
        faults = [*faults, *(fault.under("params", "provider") for fault in wrong)]
        harness.graph = graph
        harness.graph_text = c1.text(graph.as_record())
        code = find_code(graph, self.registry, self.references.root)
        harness.code = code.subjects
        harness.lint = [*lint(graph, self.registry, harness.overlays.values), *code.findings]
        return faults

    # -- patterns ---------------------------------------------------------------------------

    def _pattern(self, text: str) -> tuple[Harness | None, Fault | None]:
        name, slash, fixture = text.removeprefix(PATTERN).partition("/")
        pattern = self.registry.patterns.find(name)
        if pattern is None:
            known = self.registry.patterns.names()
            near = nearest(name, known)
            return None, Fault(
                (),
                "unknown pattern",
                got=quoted(name),
                rule=f"known: {one_of(known) or 'none'}",
                fix=f"write '{PATTERN}{near}'" if near else None,
            )
        chosen = fixture if slash else pattern.default_fixture
        if chosen not in pattern.fixtures:
            near = nearest(chosen, pattern.fixtures)
            return None, Fault(
                (),
                "the pattern has no such fixture",
                got=quoted(chosen),
                rule=f"fixtures of {name}: {one_of(pattern.fixtures) or 'none'}",
                fix=f"write '{PATTERN}{name}/{near}'" if near else None,
            )
        root = pattern.folder
        graph_file, _, error = read_file(root / "graph.json", root, f"{PATTERN}{name}/graph.json")
        if graph_file is None:
            assert error is not None, "a file that was not read says why"
            return self._broken(error), None
        folders = (self.references.folder, root)
        harness = self._of_document(graph_file, folders)
        harness.is_packaged = True
        fixture_file, _, error = read_file(
            root / "fixtures" / f"{chosen}.yaml", root, f"{PATTERN}{name}/fixtures/{chosen}.yaml"
        )
        if fixture_file is None:
            assert error is not None, "a file that was not read says why"
            harness.errors.append(error)
        harness.fixture = fixture_file
        return harness, None

    # -- overlays ---------------------------------------------------------------------------

    def overlays(self, folders: tuple[Path, ...]) -> Overlays:
        """Configuration in force beside ``folders``, read once."""
        known = self._overlays.get(folders)
        if known is None:
            locations = Locations(
                root=self.references.root,
                home=self.home,
                beside=folders,
                variables=self.variables,
            )
            found: list[Overlay] = []
            for domain in self.domains:
                found.extend(domain.load_overlays(locations))
            found.sort(key=lambda overlay: overlay.name)
            values = {overlay.name: overlay.value for overlay in found}
            known = Overlays(
                values=values,
                text=c1.text(values),
                in_force=tuple(
                    (overlay.name, label, digest)
                    for overlay in found
                    for label, digest in overlay.sources
                ),
                errors=tuple(
                    as_error(fault, _overlay_place(label, fault))
                    for overlay in found
                    for label, fault in overlay.faults
                ),
                shapes=tuple(
                    shape
                    for domain in self.domains
                    if isinstance(domain, ShapingDomain)
                    for shape in domain.shapes(values)
                ),
            )
            self._overlays[folders] = known
        return known


def _overlay_place(label: str, fault: Fault) -> Where:
    from pytest_evarness.source.place import field_text

    field_path = fault.path[:-1] if fault.at_key else fault.path
    return Where(label, field=field_text(field_path) or None)
