"""What the commands that load scenarios share: where the project is, and decisions as written."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pytest_evarness.errors import InputError, UsageError
from pytest_evarness.pipeline import Engine, Settings, home_folder, own_variables

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_evarness.scenario.case import Case

__all__ = [
    "PATTERN",
    "add_diagnose_argument",
    "add_project_arguments",
    "build_settings",
    "check_diagnose",
    "load_cases",
    "own_output_apart",
    "parse_decisions",
    "shown_name",
    "tell_broken_plugins",
    "write_error",
]

PATTERN = "pattern:"
_DECISIONS = ("approve", "reject")


def add_project_arguments(parser: argparse.ArgumentParser) -> None:
    """``--root`` and ``--contracts``."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        help="the project's root directory; nothing outside it is read (default: the working"
        " directory, or the file's own folder where the file lies elsewhere)",
    )
    parser.add_argument(
        "--contracts",
        action="append",
        metavar="DIR",
        help="a folder of contract libraries; repeatable (default: contracts in the root)",
    )


def add_diagnose_argument(parser: argparse.ArgumentParser) -> None:
    """``--diagnose``."""
    parser.add_argument(
        "--diagnose",
        action="store_true",
        help="a case of mode diagnostic goes on behind a block, for observation: nothing acts any"
        " more, and it is never valid",
    )


def check_diagnose(args: argparse.Namespace, cases: Sequence[Case]) -> None:
    """Refuse ``--diagnose`` where it would do nothing.

    Raises:
        UsageError: None of the cases is diagnostic.
    """
    if args.diagnose and not any(case.mode == "diagnostic" for case in cases):
        raise UsageError(
            f"--diagnose: the case is of another mode (got '{cases[0].mode}')",
            fix="write 'mode: diagnostic' in the scenario",
        )


def build_settings(args: argparse.Namespace, files: Sequence[Path], **more: Any) -> Settings:
    """Settings of an engine for ``files``.

    Raises:
        UsageError: ``--root`` or ``--contracts`` names no folder, or a file lies outside the root;
            or a variable names a library that is not there.
    """
    from pytest_evarness.contract.library import NO_FOLDER, problem_of_variable

    root = _root(args.root, files)
    folders = [Path(word).absolute() for word in args.contracts or ()]
    for word in args.contracts or ():
        if not os.path.isdir(word):  # noqa: PTH112 - Path.is_dir raises for what is no path
            raise UsageError(f"--contracts: no such folder (got '{word}')")
    default = root / "contracts"
    if not folders and os.path.lexists(default) and not default.is_dir():
        raise UsageError(f"contracts: {NO_FOLDER}", fix="move it away, or name a folder")
    variables = own_variables()
    problem = problem_of_variable(variables, root)
    if problem is not None:
        raise UsageError(problem, fix="correct the path, or unset the variable")
    return Settings(
        root=root,
        contract_folders=tuple(folders) or (default,),
        home=home_folder(),
        variables=variables,
        **more,
    )


def _root(given: str | None, files: Sequence[Path]) -> Path:
    if given is not None:
        root = Path(given).absolute()
        if not os.path.isdir(root):  # noqa: PTH112
            raise UsageError(f"--root: no such folder (got '{given}')")
        for file in files:
            if not _is_inside(file, root):
                raise UsageError(f"{file}: lies outside the root directory (got --root {given})")
        return root
    here = Path.cwd()
    if all(_is_inside(file, here) for file in files):
        return here
    # Absolute and without "..", so that messages and node ids do not depend on how it was typed.
    folders = [str(Path(os.path.normpath(file.absolute())).parent) for file in files]
    return Path(os.path.commonpath(folders))


def _is_inside(file: Path, root: Path) -> bool:
    return Path(os.path.normpath(file.absolute())).is_relative_to(root)


def shown_name(file: Path, root: Path) -> str:
    """A file as node ids name it: relative to the root, with ``/``."""
    path = Path(os.path.normpath(file.absolute()))
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def parse_decisions(words: Sequence[str]) -> dict[str, str]:
    """``NODE=approve`` or ``NODE=reject``, by node.

    Raises:
        UsageError: Any other form, another word, or two decisions for one node.
    """
    from pytest_evarness.core.registry import nearest

    found: dict[str, str] = {}
    for word in words:
        node, equals, decision = word.rpartition("=")
        if not equals or not node:
            # NODE:approve is how some write it; ':' is also the sign of pytest's own option.
            head, colon, tail = word.rpartition(":")
            meant = nearest(tail, _DECISIONS) if colon and head else None
            fix = f"{head}={meant}" if meant else f"{word}=approve" if not equals and word else None
            raise UsageError(
                f"--approve: must be NODE=approve or NODE=reject (got '{word}')",
                fix=f"write '--approve {fix}'" if fix else None,
            )
        if decision not in _DECISIONS:
            near = nearest(decision, _DECISIONS)
            raise UsageError(
                f"--approve: the decision must be approve or reject (got '{decision}')",
                fix=f"write '--approve {node}={near}'" if near else None,
            )
        if node in found:
            raise UsageError(f"--approve: two decisions for one node (got '{node}')")
        found[node] = decision
    return found


def load_cases(
    settings: Settings, source: str, case: str | None, decisions: Mapping[str, str]
) -> tuple[Engine, list[tuple[str, Case]]]:
    """The cases of a scenario file or a pattern, with their node ids.

    Args:
        source: A path, or ``pattern:NAME[/FIXTURE]``.
        case: Only this one; None for all.
        decisions: By node; for the chosen case, or for the only one there is.

    Raises:
        InputError: It cannot be used as it stands, or has no such case.
        UsageError: Decisions, and no telling for which case.
    """
    engine = Engine(settings)
    if source.startswith(PATTERN):
        value: dict[str, Any] = {"evarness": 1, "subject": {"graph": source}}
        if decisions:
            value["environment"] = {"approvals": dict(decisions)}
        cases = engine.compile(value, settings.root)
        return engine, _named(source, _chosen(cases, case))
    path = Path(source)
    # Not Path.is_dir: it raises where the system takes the name for none.
    if os.path.isdir(path):  # noqa: PTH112
        raise UsageError(f"{source}: a folder; name one scenario file", fix=_first_scenario(path))
    cases = _chosen(engine.load(path.absolute()), case)
    if decisions:
        bases = {one.base for one in cases}
        if len(bases) > 1:
            raise UsageError(
                f"--approve: for which case? there are several (cases: {', '.join(sorted(bases))})",
                fix=f"add '--case {min(bases)}'",
            )
        base = bases.pop()
        engine = Engine(
            replace(
                settings,
                approvals=tuple(f"{base}:{node}={word}" for node, word in decisions.items()),
            )
        )
        try:
            cases = _chosen(engine.load(path.absolute()), case)
        except InputError as error:
            # The words of this command, not those of pytest's option.
            raise _respelt(error, base) from None
    return engine, _named(shown_name(path, settings.root), cases)


def _first_scenario(folder: Path) -> str | None:
    from pytest_evarness.scenario.collect import kind_of_file

    # A folder may hold very much; only what lies in it is looked at.
    files = sorted(path for path in folder.glob("*.y*ml") if path.is_file())
    found = next((path for path in files[:100] if kind_of_file(path) == "scenario"), None)
    return f"name '{found}'" if found is not None else None


def _respelt(error: InputError, base: str) -> InputError:
    from pytest_evarness.errors import InputErrors

    if isinstance(error, InputErrors):
        return InputErrors([_respelt(one, base) for one in error.errors])
    where = error.where
    if where is not None and where.path is not None and where.path.startswith("--evarness-approve"):
        where = replace(where, path="--approve")
    fix = error.fix
    if fix is not None:
        fix = fix.replace("--evarness-approve", "--approve").replace(f"{base}:", "")
    return InputError(
        error.problem.replace("--evarness-approve", "--approve"), where=where, fix=fix
    )


def _named(name: str, cases: Sequence[Case]) -> list[tuple[str, Case]]:
    return [(f"{name}::{case.id}", case) for case in cases]


def _chosen(cases: list[Case], name: str | None) -> list[Case]:
    """All cases, or the one of this id, or all points of a matrix over the one of this id."""
    from pytest_evarness.api import choose_case

    if name is None:
        return cases
    points = [case for case in cases if name in (case.id, case.base)]
    exact = [case for case in points if case.id == name]
    return exact or points or [choose_case(cases, name)]


@contextmanager
def own_output_apart() -> Iterator[TextIO]:
    """What steps print goes to standard error meanwhile: standard output holds results alone.

    Yields:
        Standard output, for results that are written meanwhile.
    """
    before = sys.stdout
    sys.stdout = sys.stderr
    try:
        yield before
    finally:
        sys.stdout = before


def tell_broken_plugins(engine: Engine) -> None:
    """Name plug-ins that could not be loaded; they break nothing else."""
    for name, problem in engine.registry.broken:
        write_error(f"plug-in {name} could not be loaded: {problem}")


def write_error(text: str) -> None:
    """One remark on standard error, fit for a terminal."""
    from pytest_evarness.report.text import clean

    sys.stderr.write(f"pytest-evarness: {clean(text)}\n")
