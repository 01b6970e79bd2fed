"""``pytest-evarness contracts``: the library in force, and where each contract comes from."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.errors import InputError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from pytest_evarness.contract.library import Library
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.registry import Registry

__all__ = ["HELP", "NAME", "add_arguments", "main"]

NAME = "contracts"
HELP = "list the contracts in force, or show one, or its versions"

_WIDTH: Final = 100
_MAX_CELL: Final = 2000
_STATUS: Final = {
    "hard": "active, a gate",
    "no gate": "active, no gate",
    "deprecated": "deprecated: judges where it is named, with a warning",
    "draft": "draft: shown, never decides",
}
_HEAD = """# Contract library

What each contract asserts, why, and what tested it before it judged anything."""
_PACKAGED_HEAD = """# The packaged contracts

What comes with the package. Each judges where a scenario or a graph names it, or where a library
of the project repeats it with an `applies_to` of its own.
What the columns on mutants count stands in [contracts.md](contracts.md#mutants).

This page is written by `pytest-evarness contracts list --packaged --markdown`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    from pytest_evarness.cli.session import add_project_arguments

    parser.add_argument("action", choices=("list", "show", "history"), metavar="list|show|history")
    parser.add_argument("id", nargs="?", metavar="ID", help="with show and history: the contract")
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="DIR",
        help="the folder of a scenario or graph, whose contracts.yaml is in force too; repeatable",
    )
    parser.add_argument(
        "--packaged", action="store_true", help="with list: the packaged ones alone"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="JSON on standard output")
    form.add_argument("--markdown", action="store_true", help="with list: a page about all of them")
    add_project_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """List or show.

    Returns:
        0, or 1 where a library has mistakes, each told on standard error.

    Raises:
        UsageError: Words that do not go together, or an id that names nothing (exit 2).
    """
    from pytest_evarness.cli.session import build_settings, tell_broken_plugins, write_error
    from pytest_evarness.pipeline import Engine

    if (args.action == "list") is not (args.id is None):
        rule = "names no contract" if args.action == "list" else "needs the id of a contract"
        raise UsageError(f"contracts {args.action} {rule}")
    if args.action != "list" and (args.markdown or args.packaged):
        raise UsageError("--markdown and --packaged go with 'contracts list'")
    beside = [Path(word).absolute() for word in args.beside]
    for word, folder in zip(args.beside, beside, strict=True):
        if not folder.is_dir():
            raise UsageError(f"--beside: no such folder (got '{word}')")
    with Engine(build_settings(args, [])) as engine:
        tell_broken_plugins(engine)
        library = engine.library
        if args.action == "list":
            text = _list(library, beside, args)
        else:
            try:
                contract = library.resolve(args.id, beside=beside)
            except InputError as error:
                raise UsageError(str(error)) from None
            text = (
                _show(library, contract, args, engine.registry)
                if args.action == "show"
                else _history(contract, args)
            )
        sys.stdout.write(text)
        for mistake in library.errors:
            write_error(str(mistake))
        return int(bool(library.errors))


def _list(library: Library, beside: Sequence[Path], args: argparse.Namespace) -> str:
    from pytest_evarness.report.text import clean

    contracts = []
    for name in library.ids(beside):
        try:
            contracts.append(library.resolve(name, beside=beside))
        except InputError:
            continue  # told with the mistakes of its file
    if args.packaged:
        contracts = [one for one in contracts if one.label == "packaged"]
    if args.json:
        return _dumped([_record(library, one) for one in contracts])
    if args.markdown:
        from pytest_evarness.report.library import library_page

        return library_page(library, contracts, _PACKAGED_HEAD if args.packaged else _HEAD)
    rows: list[tuple[str, ...]] = []
    for one in contracts:
        words = (_status(one), one.severity.value, _tested(library, one), _place(one))
        rows.append((one.name, *words, _for_whom(one)))
    lines = []
    for one, line in zip(contracts, _columns(rows), strict=True):
        lines += [line, *(f"    in the place of {_named(other)}" for other in one.replaced)]
    return clean("\n".join(lines)) + "\n"


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Rows with their columns below each other, whatever their cells hold."""
    from pytest_evarness.report.text import one_line

    rows = [tuple(one_line(cell, _MAX_CELL) for cell in row) for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _for_whom(contract: Contract) -> str:
    """``for tools email.send; tags mail``: the cases that it judges or is limited to."""
    if contract.applies_to is None:
        return ""
    lists = [f"{key} {' or '.join(words)}" for key, words in contract.applies_to.lists]
    return f"for {'; '.join(lists)}" if lists else "for every case"


def _status(contract: Contract) -> str:
    if contract.status != "active":
        return contract.status
    return "hard" if contract.gate else "no gate"


def _tested(library: Library, contract: Contract) -> str:
    if contract.untested:
        return "untested"
    why = library.why_broken(contract)
    if why is not None:
        return "FAILS its corpus"
    count = len(library.corpus_results(contract))
    return f"{count} {'entry' if count == 1 else 'entries'}"


def _place(contract: Contract) -> str:
    """File and line, with the layer where the file does not tell it."""
    layer = "" if contract.label == "packaged" else f" ({contract.label})"
    return f"{contract.path}:{contract.line}{layer}"


def _named(contract: Contract) -> str:
    return f"{contract.name}, {_place(contract)}"


def _record(library: Library, contract: Contract) -> dict[str, Any]:
    row = library.corpus_row(contract)
    return {
        **contract.definition(),
        "layer": contract.label,
        "path": contract.path,
        "line": contract.line,
        "untested": contract.untested,
        "needs": sorted(contract.required_types),
        "corpus": None
        if row is None
        else {"entries": row.entries, "digest": row.digest, "failed": list(row.failed)},
        "replaced": [
            {"version": one.version, "layer": one.label, "path": one.path, "line": one.line}
            for one in contract.replaced
        ],
    }


def _show(
    library: Library, contract: Contract, args: argparse.Namespace, registry: Registry
) -> str:
    from pytest_evarness.report.library import assertion_yaml
    from pytest_evarness.report.text import clean, one_line

    if args.json:
        unchecked = contract.unchecked_types(registry)
        return _dumped({**_record(library, contract), "unchecked": unchecked})
    facts = {
        "title": contract.title,
        "description": contract.description,
        "status": _STATUS[_status(contract)],
        "severity": contract.severity.value,
        "owner": contract.owner,
        "rationale": contract.rationale,
        "threat": contract.threat,
        "from": _place(contract),
        "replaces": "; ".join(_named(one) for one in contract.replaced),
        "applies to": _for_whom(contract).removeprefix("for "),
        "enforced by": ", ".join(contract.enforced_by),
        "vacuous": "" if contract.vacuous == "pass" else f"counts as {contract.vacuous}",
        "needs": ", ".join(sorted(contract.required_types)),
        "unchecked": _unchecked(contract, registry),
    }
    lines = [contract.name]
    for word, text in facts.items():
        lines += _wrapped(f"  {word + ':':<13}", text) if text else []
    lines += ["  asserts:", *(f"    {line}" for line in assertion_yaml(contract).splitlines())]
    lines.append(f"  corpus:      {_tested(library, contract)}")
    lines += [
        one_line(
            f"    ok     {one.entry.label}" if one.problem is None else f"    WRONG  {one.problem}",
            _MAX_CELL,
        )
        for one in library.corpus_results(contract)
    ]
    lines += ["  history:", *(f"    {line}" for line in _versions(contract))]
    return clean("\n".join(lines)) + "\n"


def _unchecked(contract: Contract, registry: Registry) -> str:
    types = contract.unchecked_types(registry)
    return f"paths into {' and '.join(types)}, of which no schema is known" if types else ""


def _wrapped(head: str, text: str) -> list[str]:
    from textwrap import wrap

    return wrap(
        text,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _history(contract: Contract, args: argparse.Namespace) -> str:
    from pytest_evarness.report.text import clean

    if args.json:
        return _dumped(_version_rows(contract))
    return clean("\n".join([contract.id, *(f"  {line}" for line in _versions(contract))])) + "\n"


def _version_rows(contract: Contract) -> list[dict[str, Any]]:
    """Versions, the newest first: what files say of them, and what stands below in force."""
    said: dict[int, dict[str, Any]] = {}
    for one in (contract, *reversed(contract.replaced)):
        for line in one.history:
            entry: Any = line
            known = said.setdefault(int(entry["version"]), {})
            for key in ("date", "change"):
                if key in entry:
                    known.setdefault(key, entry[key])
    places = {one.version: one for one in (*contract.replaced, contract)}
    return [
        {
            "version": version,
            "date": said.get(version, {}).get("date"),
            "change": said.get(version, {}).get("change"),
            "from": _place(places[version]) if version in places else None,
            "in_force": version == contract.version,
        }
        for version in sorted({*said, *places}, reverse=True)
    ]


def _versions(contract: Contract) -> Iterator[str]:
    rows = _version_rows(contract)
    cells = []
    for row in rows:
        head = f"version {row['version']}{', in force' if row['in_force'] else ''}"
        cells.append((head, row["date"] or "", row["change"] or "nothing is written of it"))
        if row["from"] is not None:
            cells.append(("", "", row["from"]))
    return _columns(cells)


def _dumped(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=True, default=float) + "\n"
