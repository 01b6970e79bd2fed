"""``pytest-evarness lint``: every mistake of scenarios, graphs and libraries; nothing runs."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.errors import InputError, InputErrors, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_evarness.contract.library import LibraryFile
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.contract.rule import Pattern, Role
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.interfaces import LintFinding
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.pipeline import Engine
    from pytest_evarness.scenario.case import Case

__all__ = ["HELP", "NAME", "Remark", "add_arguments", "main", "never_fires"]

NAME = "lint"
HELP = "find every mistake of scenarios, graphs and contract libraries"

_SUFFIXES = (".yaml", ".yml", ".json")
_KINDS = "evarness, nodes, contracts or invariants"

_SKIPPED_FOLDERS = frozenset({"build", "dist", "node_modules", "__pycache__"})
_SCENARIOS = "scenarios"
_CONTRACTS = "contracts"
_TOOL_PATHS = ("tool", "capability")
# PATH:LINE:COLUMN or PATH:LINE, as every message of ours begins that has a place.
_PLACE = re.compile(r"(?P<path>[^\n]+?):(?P<line>\d+)(?::(?P<column>\d+))?: ")


@dataclass(frozen=True, slots=True)
class Remark:
    """One mistake or warning.

    Attributes:
        level: ``error`` or ``warning``.
        text: With its place, as the loader says it; a second line may help.
        problem: Without its place.
    """

    level: str
    text: str
    path: str | None = None
    line: int | None = None
    column: int | None = None
    field: str | None = None
    problem: str = ""

    def as_record(self) -> dict[str, Any]:
        """The form of ``--json``."""
        return {
            "level": self.level,
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "field": self.field,
            "text": self.text,
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    from pytest_evarness.cli.session import add_project_arguments

    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="scenarios, graphs, contract libraries, or folders"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    add_project_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Look at every file.

    Returns:
        0 no mistake (warnings are none), 1 mistakes, 2 a file that is not there or none of ours.
    """
    from pytest_evarness.cli.session import build_settings, tell_broken_plugins, write_error
    from pytest_evarness.pipeline import Engine

    files: list[tuple[Path, str]] = []
    refused = False
    for word in args.files:
        try:
            files.extend(_expanded(Path(word)))
        except (InputError, UsageError) as error:
            refused = True
            write_error(str(error))
    remarks: list[Remark] = []
    with Engine(build_settings(args, [path for path, _ in files])) as engine:
        tell_broken_plugins(engine)
        for text in engine.unread_libraries(path for path, kind in files if kind == "scenario"):
            write_error(f"warning: {text}")
        for path, kind in files:
            remarks.extend(_remarks(engine, path, kind))
    remarks = _each_once(remarks)
    errors = sum(remark.level == "error" for remark in remarks)
    if args.json:
        sys.stdout.write(_json(remarks, len(files)))
    elif files:
        sys.stdout.write(_text(remarks, len(files)))
    return 2 if refused else int(errors > 0)


def _each_once(remarks: Sequence[Remark]) -> list[Remark]:
    """Without what a file says of itself and a file that needs it says of it again."""
    once = {(remark.level, remark.text): remark for remark in remarks}
    texts = [remark.text for remark in once.values()]

    def is_told(remark: Remark) -> bool:
        # A test that fails has no column; who loads its file says it with one.
        place, end = f"{remark.path}:{remark.line}:", f": {remark.problem}"
        return remark.column is None and any(
            text != remark.text and text.startswith(place) and text.endswith(end) for text in texts
        )

    return [remark for remark in once.values() if not (remark.line and is_told(remark))]


# -- which files -------------------------------------------------------------------------------


def _expanded(path: Path) -> list[tuple[Path, str]]:
    """The file with its kind; for a folder, every file of ours in it.

    Raises:
        InputError: It cannot be read.
        UsageError: Nothing of ours.
    """
    # Not Path.is_dir: it raises where the system takes the name for none.
    if os.path.isdir(path):  # noqa: PTH112
        files = _walked(path)
        found = [
            (file, kind) for file in files if (kind := _kind_in_folder(file, path)) is not None
        ]
        if not found:
            raise UsageError(f"{path}: no file in it has a key {_KINDS}")
        return found
    kind = _kind(path)
    if kind is None and path.suffix.lower() != ".json":
        # What pytest says of a file that it takes for a scenario, and what else it may be.
        raise UsageError(
            f"{path}: no key evarness (nor is it a graph, which has nodes, or a library, which has"
            " contracts or invariants)",
            fix="add 'evarness: 1'",
        )
    if kind is None:
        raise UsageError(f"{path}: no scenario, graph or contract library (it has no key {_KINDS})")
    return [(path, kind)]


def _kind(path: Path) -> str | None:
    """``scenario``, ``library``, ``graph``, ``overlay``, or None.

    Raises:
        InputError: It cannot be read, and nothing in it says what it was to be.
    """
    from pytest_evarness.scenario.collect import OVERLAY_NAMES, kind_of_file
    from pytest_evarness.source.document import load_document, read_bytes

    read_bytes(path, str(path))
    kind = kind_of_file(path)
    if kind is not None:
        return kind
    if path.name in OVERLAY_NAMES:
        return "overlay"
    value = load_document(path, shown=str(path)).value
    is_graph = isinstance(value, dict) and ("nodes" in value or "ir_version" in value)
    return "graph" if is_graph else None


def _walked(folder: Path) -> list[Path]:
    """Files of ours by their names, but in no folder that somebody else's tools fill.

    Raises:
        InputError: A folder leads out of the root directory, or cannot be read.
    """
    from pytest_evarness.source.mistake import raise_all
    from pytest_evarness.source.walk import Found, look_below

    found = look_below(folder, Path.cwd(), skips=_is_skipped)
    # Elsewhere a link may lead to anything of somebody else's.
    ours = [one for one in found.refused if {_SCENARIOS, _CONTRACTS} & {*one[0].absolute().parts}]
    raise_all(Found(refused=ours).errors(None))
    return [one for one in found.files if one.suffix.lower() in _SUFFIXES and one.is_file()]


def _is_skipped(folder: Path) -> bool:
    is_odd = folder.name.startswith(".") or folder.name in _SKIPPED_FOLDERS
    return is_odd or (folder / "pyvenv.cfg").exists()


def _kind_in_folder(path: Path, folder: Path) -> str | None:
    """Likewise; a file of somebody else's that does not read is passed over.

    In a folder ``scenarios`` pytest takes every YAML file for a scenario, and in one called
    ``contracts`` for a library, so its mistakes are told here as well.
    """
    from pytest_evarness.scenario.collect import OVERLAY_FOLDER, is_excluded, is_yaml

    try:
        kind = _kind(path)
    except InputError:
        kind = None
    named = (folder.absolute().name, *path.relative_to(folder).parent.parts)
    if kind == "overlay":
        # By its name alone it may be anybody's.
        return kind if _SCENARIOS in named or named[-1] == OVERLAY_FOLDER else None
    if kind is None and is_yaml(path):
        if _SCENARIOS in named:
            inner = Path(*named[named.index(_SCENARIOS) + 1 :], path.name)
            return None if is_excluded(inner) else "scenario"
        if _CONTRACTS in named:
            return "library"
    return kind


# -- what is wrong -----------------------------------------------------------------------------


def _remarks(engine: Engine, path: Path, kind: str) -> Iterator[Remark]:
    try:
        if kind == "scenario":
            yield from _scenario(engine, path)
        elif kind == "graph":
            yield from _graph(engine, path)
        elif kind == "overlay":
            yield from _overlay(engine, path)
        else:
            yield from _library(engine, path)
    except InputError as error:
        yield from _errors(error)


def _errors(error: InputError) -> Iterator[Remark]:
    if isinstance(error, InputErrors):
        for one in error.errors:
            yield from _errors(one)
    else:
        yield _error(error)


def _error(error: InputError, level: str = "error") -> Remark:
    where = error.where
    if where is None:
        return Remark(level, str(error))
    return Remark(
        level, str(error), where.path, where.line, where.column, where.field, error.problem
    )


def _warning(text: str, path: str) -> Remark:
    """A warning that was told as text: its place stands in front of it."""
    found = _PLACE.match(text)
    if found is None:
        return Remark("warning", text, path)
    column = found["column"]
    return Remark(
        "warning", text, found["path"], int(found["line"]), int(column) if column else None
    )


def _scenario(engine: Engine, path: Path) -> Iterator[Remark]:
    for case in engine.load(path.absolute()):
        for warning in case.warnings:
            yield _warning(warning, case.scenario_path)
        for item in case.items:
            place = f"{item.path}:{item.line}: {item.id}"
            if item.broken is not None:
                text = f"{place}: {item.broken}"
                yield Remark("error", text, item.path, item.line, field=item.id)
            elif item.applies is not None and not item.is_aside:
                text = f"{place}: is not for case '{case.id}': {item.applies}"
                yield Remark("warning", text, item.path, item.line, field=item.id)
        for contract, place, line in _contracts(engine, case):
            for problem in never_fires(contract, *_vocabulary(engine, case)):
                text = f"{place}:{line}: {contract.id}: {problem}"
                yield Remark("warning", text, place, line, field=contract.id)


def _contracts(engine: Engine, case: Case) -> Iterator[tuple[Contract, str, int]]:
    from pytest_evarness.contract.model import from_definition

    for item in case.items:
        if item.kind in ("contract", "trace") and item.definition and item.applies is None:
            contract = from_definition(item.definition, engine.registry)
            yield contract, item.path, item.line


def _vocabulary(
    engine: Engine, case: Case
) -> tuple[frozenset[str] | None, frozenset[str], frozenset[str]]:
    """Event types and tools that are possible in the graph of a case, and what is apart."""
    from pytest_evarness.checks.evidence import named_types, possible_types

    graph = case.compiled.graph
    types = possible_types(graph, engine.registry, named_types(case.items))
    overlays = case.compiled.overlays
    return types, _tools(engine, graph, overlays), _apart(engine, graph, overlays)


def _apart(engine: Engine, graph: Graph, overlays: JsonObject) -> frozenset[str]:
    """``TYPE.PATH`` of what holds other names than the graph's: a model may ask for any tool.

    A name that cannot come about there does not load, so nothing is left to say of it.
    """
    return frozenset(
        key
        for domain in engine.registry.domains.values()
        for key in domain.identities(graph, {}, overlays)
        if "." in key
    )


def _tools(engine: Engine, graph: Graph, overlays: JsonObject) -> frozenset[str]:
    """Tools that nodes of the graph name, by the ids that events hold."""
    aliases: dict[str, str] = {}
    for domain in engine.registry.domains.values():
        aliases.update(domain.aliases(overlays))
    named: set[str] = set()
    for node in graph.nodes.values():
        for value in (node.config.get("tool"), node.config.get("tools")):
            words: Any = [value] if isinstance(value, str) else value or []
            named.update(aliases.get(word, word) for word in words if isinstance(word, str))
    return frozenset(named)


def _graph(engine: Engine, path: Path) -> Iterator[Remark]:
    from pytest_evarness.scenario.harness import Harnesses
    from pytest_evarness.scenario.reference import References

    settings = engine.settings
    absolute = path.absolute()
    harnesses = Harnesses(
        engine.registry,
        References(absolute.parent, settings.root),
        home=settings.home,
        variables=settings.variables,
        scenario_name="",
    )
    harness, fault = harnesses.resolve(absolute.name)
    if harness is None:
        assert fault is not None, "a reference that names nothing says why"
        raise InputError(f"{path}: {fault.text}", fix=fault.fix)
    for error in (*harness.errors, *harness.overlays.errors):
        yield from _errors(error)
    if harness.graph is None or harness.document is None:
        return
    for finding in harness.lint:
        error = harness.document.error(_fault(finding))
        yield _error(error, finding.level)
    overlays = harness.overlays.values
    tools = _tools(engine, harness.graph, overlays)
    apart = _apart(engine, harness.graph, overlays)
    for index, name in enumerate(harness.graph.params.invariants):
        where = harness.document.where(("params", "invariants", index))
        try:
            contract = engine.library.resolve(name, beside=harness.beside)
        except InputError as error:
            yield _error(InputError(error.problem, where=error.where or where, fix=error.fix))
            continue
        types = _graph_types(engine, harness.graph, contract)
        for problem in never_fires(contract, types, tools, apart):
            yield _error(InputError(f"{name}: {problem}", where=where), "warning")


def _graph_types(engine: Engine, graph: Graph, contract: Contract) -> frozenset[str] | None:
    from pytest_evarness.checks.evidence import possible_types

    return possible_types(graph, engine.registry, contract.required_types)


def _fault(finding: LintFinding) -> Any:
    from pytest_evarness.errors import Fault

    # The form of the loader, so that a graph beside its scenario is not told twice.
    return Fault(finding.path, f"{finding.message} [{finding.code}]", fix=finding.fix)


def _library(engine: Engine, path: Path) -> Iterator[Remark]:
    from pytest_evarness.contract.library import read_library_file

    settings, absolute = engine.settings, path.absolute()
    is_project = any(absolute.is_relative_to(folder) for folder in settings.contract_folders)
    found = read_library_file(
        absolute,
        engine.registry,
        label="project" if is_project else "beside",
        root=settings.root,
    )
    for error in found.errors:
        yield from _errors(error)
    for warning in found.warnings:
        yield _warning(warning, found.shown)
    yield from _corpora(engine, found)
    yield from _unmet(engine, found, absolute.parent)
    if is_project:
        own = {str(error) for error in found.errors}
        for error in engine.library.mistakes.get(absolute, ()):
            if str(error) not in own:
                yield from _errors(error)  # what another file says of its ids


def _unmet(engine: Engine, file: LibraryFile, folder: Path) -> Iterator[Remark]:
    """Words of ``applies_to`` that no tool, or no tag so far, is known by, and of patterns."""
    from pytest_evarness.core.registry import nearest
    from pytest_evarness.scenario.harness import Harnesses
    from pytest_evarness.scenario.reference import References

    asked = {name: _tools_asked(contract) for name, contract in file.contracts.items()}
    if not any(asked.values()) and all(
        contract.applies_to is None for contract in file.contracts.values()
    ):
        return
    settings = engine.settings
    harnesses = Harnesses(
        engine.registry,
        References(folder, settings.root),
        home=settings.home,
        variables=settings.variables,
        scenario_name="",
    )
    overlays = harnesses.overlays((folder,))
    tools = {name for shape in overlays.shapes if shape.by == "tool" for name in shape.schemas}
    aliases: dict[str, str] = {}
    for domain in engine.registry.domains.values():
        aliases.update(domain.aliases(overlays.values))
    engine.library.meet(tools, aliases)
    for error in engine.library.unmet(file):
        # Without a name that was meant, it may be a tool whose manifest lies beside a scenario.
        yield _error(error, "error" if error.fix else "warning")
    for name, words in asked.items():
        for word in words:
            # A name without a like may be that of a tool whose manifest lies beside a scenario.
            near = None if word in tools else aliases.get(word) or nearest(word, tools)
            if near is not None:
                line = file.contracts[name].line
                text = f"{name}: asks for a tool that is not known here (got '{word}'; '{near}' is)"
                yield Remark(
                    "warning", f"{file.shown}:{line}: {text}", file.shown, line, field=name
                )


def _tools_asked(contract: Contract) -> list[str]:
    """Names of tools that its patterns compare with, each once."""
    from pytest_evarness.contract.rule import roles_of

    return list(
        dict.fromkeys(
            word
            for _, role in roles_of(contract.rule)
            for pattern in role
            for path, matcher in pattern.where
            if str(path) in _TOOL_PATHS
            for word in _equal_to(matcher) or ()
        )
    )


def _overlay(engine: Engine, path: Path) -> Iterator[Remark]:
    """What is wrong in a file such as ``tools.yaml``, and what its own tests say of it."""
    from pytest_evarness.core.interfaces import OverlayTestingDomain
    from pytest_evarness.errors import Where
    from pytest_evarness.source.document import shown_path

    shown = shown_path(path.absolute(), engine.settings.root)
    for domain in engine.registry.domains.values():
        if isinstance(domain, OverlayTestingDomain):
            for test in domain.overlay_tests(path.absolute(), shown):
                problem = test.problem()
                if problem is not None:
                    where = Where(shown, test.line, field=f"{test.owner}: tests.{test.name}")
                    yield _error(InputError(problem, where=where))


def _corpora(engine: Engine, file: LibraryFile) -> Iterator[Remark]:
    """What contracts get wrong of their own corpora."""
    from pytest_evarness.contract.corpus import evaluate_corpus
    from pytest_evarness.errors import InputError

    for contract in file.contracts.values():
        if contract.corpus is None:
            continue
        for result in evaluate_corpus(contract, contract.corpus, engine.registry):
            if result.problem is not None:
                entry = result.entry
                path = (file.top, contract.id, "corpus", entry.kind, entry.name)
                where = file.document.where(path, at_key=True)
                yield _error(InputError(result.problem, where=where))


# -- contracts that can never fire -------------------------------------------------------------


def never_fires(
    contract: Contract,
    types: frozenset[str] | None,
    tools: frozenset[str] | None,
    apart: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """Sentences for the parts of a contract that cannot match in a graph.

    Args:
        types: Event types that runs of the graph can emit; None when that is not known.
        tools: Tools that the graph's nodes name; None when that is not known.
        apart: ``TYPE.PATH`` of payloads that hold other tools than these.
    """
    from pytest_evarness.contract.rule import (
        AtMost,
        Eventually,
        Every,
        LeadsTo,
        Never,
        Precedes,
        roles_of,
    )

    dead = {
        name: why
        for name, role in roles_of(contract.rule)
        if (why := _dead(role, types, tools, apart))
    }
    rule = contract.rule
    cannot = "can never fire in this graph"
    if isinstance(rule, Never):
        for name in ("never", "after", "between[0]", "between[1]"):
            if name in dead:
                what = "" if name == "never" else f"its scope '{name}' never comes about: "
                yield f"{cannot}: {what}{dead[name]}"
                return
    elif isinstance(rule, Eventually):
        if "eventually" in dead:
            yield f"can never pass in this graph: {dead['eventually']}"
    elif isinstance(rule, Every | AtMost):
        yield from (f"{cannot}: {why}" for why in dead.values())
    elif isinstance(rule, Precedes):
        if "second" in dead:
            yield f"{cannot}: {dead['second']}"
            return
        firsts = [why for name, why in dead.items() if name.startswith("first")]
        yield from (f"fails whenever 'second' comes about in this graph: {w}" for w in firsts)
    elif isinstance(rule, LeadsTo):
        if "when" in dead:
            yield f"{cannot}: {dead['when']}"
        elif "then" in dead:
            yield f"fails whenever 'when' comes about in this graph: {dead['then']}"


def _dead(
    role: Role,
    types: frozenset[str] | None,
    tools: frozenset[str] | None,
    apart: frozenset[str],
) -> str | None:
    """Why no alternative of a role can match; None where one can."""
    reasons = [_dead_pattern(pattern, types, tools, apart) for pattern in role]
    known = [reason for reason in reasons if reason is not None]
    return "; ".join(dict.fromkeys(known)) if len(known) == len(reasons) else None


def _dead_pattern(
    pattern: Pattern,
    types: frozenset[str] | None,
    tools: frozenset[str] | None,
    apart: frozenset[str],
) -> str | None:
    if pattern.types is None:
        return None
    if types is not None and not types.intersection(pattern.types):
        return f"no node of it emits {_listed(pattern.types)}"
    if tools is None:
        return None
    for path, matcher in pattern.where:
        if str(path) in _TOOL_PATHS and apart.isdisjoint(f"{one}.{path}" for one in pattern.types):
            wanted = _equal_to(matcher)
            if wanted is not None and not tools.intersection(wanted):
                return f"no node of it names the tool {_listed(wanted)}"
    return None


def _equal_to(matcher: Any) -> list[str] | None:
    """The texts that a value may equal; None where the matcher asks something else."""
    for operation in matcher.operations:
        if operation.name == "equals" and isinstance(operation.argument, str):
            return [operation.argument]
        if operation.name == "in" and all(isinstance(one, str) for one in operation.argument):
            return list(operation.argument)
    return None


def _listed(words: Iterable[str]) -> str:
    return " or ".join(f"'{word}'" for word in words)


# -- how it is told ----------------------------------------------------------------------------


def _text(remarks: Sequence[Remark], files: int) -> str:
    from pytest_evarness.report.text import clean

    lines = [clean(_with_level(remark)) for remark in remarks]
    errors = sum(remark.level == "error" for remark in remarks)
    lines.append(
        f"{_count(files, 'file')}: {_count(errors, 'error')},"
        f" {_count(len(remarks) - errors, 'warning')}"
    )
    return "\n".join(lines) + "\n"


def _with_level(remark: Remark) -> str:
    """The text; a warning's word stands behind its place, so that editors find the place."""
    if remark.level == "error":
        return remark.text
    found = _PLACE.match(remark.text)
    place = found.group() if found is not None else f"{remark.path}: "
    if not remark.text.startswith(place):
        return f"{remark.level}: {remark.text}"
    return f"{place}{remark.level}: {remark.text.removeprefix(place)}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _json(remarks: Sequence[Remark], files: int) -> str:
    errors = sum(remark.level == "error" for remark in remarks)
    record = {
        "files": files,
        "errors": errors,
        "warnings": len(remarks) - errors,
        "remarks": [remark.as_record() for remark in remarks],
    }
    return json.dumps(record, indent=2, ensure_ascii=True) + "\n"
