"""What commands use of plug-ins by name: importers of traces, exporters of reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_evarness.errors import InputError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from pytest_evarness.core.interfaces import Exporter, TraceImporter
    from pytest_evarness.core.registry import Registry

__all__ = ["add_importer_argument", "find_exporters", "find_importer", "load_told"]

T = TypeVar("T")


def add_importer_argument(parser: argparse.ArgumentParser) -> None:
    """``--importer``."""
    parser.add_argument(
        "--importer",
        metavar="NAME",
        help="the files are of another form, which this importer of a plug-in reads",
    )


def find_importer(name: str | None, registry: Registry | None = None) -> TraceImporter | None:
    """The importer of that name; None where none is named.

    Raises:
        UsageError: No plug-in that was loaded offers it.
    """
    if name is None:
        return None
    return _found("--importer", name, (registry or load_told()).importers.resolve)


def find_exporters(words: Sequence[str]) -> list[tuple[str, Path, Exporter]]:
    """Name, place and exporter for each ``NAME=PATH``.

    Raises:
        UsageError: Another form, or a name that no plug-in offers.
    """
    from pytest_evarness.core.exchange import parse_export

    if not words:
        return []
    registry = load_told()
    found = []
    for word in words:
        try:
            name, target = parse_export(word)
        except InputError as error:
            raise UsageError(f"--export: {error.problem}") from None
        found.append((name, Path(target), _found("--export", name, registry.exporters.resolve)))
    return found


def load_told() -> Registry:
    """Everything that is installed; plug-ins that could not be loaded are named."""
    from pytest_evarness.cli.session import write_error
    from pytest_evarness.core.registry import load_registry

    registry = load_registry()
    for name, problem in registry.broken:
        write_error(f"plug-in {name} could not be loaded: {problem}")
    return registry


def _found(option: str, name: str, resolve: Callable[[str], T]) -> T:
    try:
        return resolve(name)
    except InputError as error:
        raise UsageError(f"{option}: {error.problem}", fix=error.fix) from None
