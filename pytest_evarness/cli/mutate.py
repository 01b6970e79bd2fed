"""``pytest-evarness mutate``: the mutants of positive entries that a set of contracts misses."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.errors import InputError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_evarness.contract.corpus import Corpus
    from pytest_evarness.contract.library import Library
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.contract.mutation import EntryMutants, Mutant, Tally

__all__ = ["HELP", "NAME", "add_arguments", "main"]

NAME = "mutate"
HELP = "change the positive entries of corpora, and list what no contract notices"

PACKAGED = "packaged"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    parser.add_argument(
        "contracts",
        nargs="+",
        metavar="CONTRACTS",
        help="files or folders of contracts, ids of packaged ones, or 'packaged' for all of these;"
        " together they are the set that looks at each mutant",
    )
    parser.add_argument("--all", action="store_true", help="list noticed and noted mutants as well")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def main(args: argparse.Namespace) -> int:
    """Mutate and tell.

    Returns:
        0 when each mutant is noticed or has a note, 1 when one has not, or a note is about nothing,
        3 when nothing could be learnt: no positive entry, or a contract that fails its own corpus.

    Raises:
        InputError: A file cannot be read, or has mistakes (exit 2).
    """
    from pytest_evarness.contract.library import load_library
    from pytest_evarness.contract.mutation import mutate, tally
    from pytest_evarness.core.interfaces import Locations
    from pytest_evarness.core.registry import load_registry

    library = load_library(Locations(Path(), None, (), {}), [], load_registry())
    contracts = list(_named(args.contracts, library))
    tested: list[tuple[Contract, Corpus]] = []
    failing: list[str] = []
    for contract in contracts:
        corpus = library.corpus_of(contract)
        why = library.why_broken(contract)
        if why is not None:
            failing.append(f"{contract.path}:{contract.line}: {contract.id}: {why}")
        elif corpus is not None:
            tested.append((contract, corpus))
    made = mutate(tested, contracts, library.registry)
    counts = tally(made)
    untested = [one.id for one in contracts if all(one is not other for other, _ in tested)]
    if args.json:
        sys.stdout.write(_json(made, counts, failing, untested))
    else:
        places = _places(library, contracts, made)
        sys.stdout.write(_text(made, counts, failing, untested, places, everything=args.all))
    if failing or not counts.total or any(one.problem is not None for one in made):
        return 3
    return int(counts.bare > 0 or any(one.stale for one in made))


def _places(
    library: Library, contracts: Sequence[Contract], made: Sequence[EntryMutants]
) -> dict[str, str]:
    """Where each entry stands, by its label."""
    by_id = {one.id: one for one in contracts}
    return {one.label: library.place_of_entry(by_id[one.contract], one.entry) for one in made}


def _named(words: Sequence[str], library: Library) -> Iterator[Contract]:
    """Every contract that the words name, once each.

    Raises:
        InputError: A file has mistakes, or two contracts have one id.
        UsageError: A word names nothing.
    """
    places: dict[str, str] = {}
    for contract in _resolved(words, library):
        place = f"{contract.path}:{contract.line}"
        if contract.id in places:
            if places[contract.id] == place:
                continue
            both = f"{places[contract.id]} and {place}"
            raise InputError(f"the contract '{contract.id}' is given twice (in {both})")
        places[contract.id] = place
        yield contract


def _resolved(words: Sequence[str], library: Library) -> Iterator[Contract]:
    from pytest_evarness.core.registry import nearest
    from pytest_evarness.source.mistake import raise_all

    for word in words:
        if word == PACKAGED:
            yield from (library.resolve(name) for name in library.ids())
            continue
        if word in library.ids():
            yield library.resolve(word)
            continue
        files = list(_files(Path(word)))
        if not files:
            near = nearest(word, [PACKAGED, *library.ids()])
            raise UsageError(
                f"neither a file or folder of contracts nor a packaged contract (got '{word}')",
                fix=f"write '{near}'" if near else None,
            )
        for path in files:
            file = library.file_at(path)
            assert file is not None, "a file of no layer is read, or raises"
            raise_all(list(file.errors))
            yield from file.contracts.values()


def _files(path: Path) -> Iterator[Path]:
    try:
        if path.is_dir():
            from pytest_evarness.source.mistake import raise_all
            from pytest_evarness.source.walk import look_below, yaml_below

            raise_all(look_below(path, Path.cwd()).errors(None))
            yield from yaml_below(path, Path.cwd())
        elif path.exists():
            yield path
    except (OSError, ValueError):
        return


# -- how it is told ----------------------------------------------------------------------------


def _text(
    made: Sequence[EntryMutants],
    counts: Tally,
    failing: Sequence[str],
    untested: Sequence[str],
    places: Mapping[str, str],
    *,
    everything: bool,
) -> str:
    from pytest_evarness.report.text import clean

    lines = [f"fails its own corpus: {text}" for text in failing]
    for entry in made:
        place = places[entry.label]
        if entry.problem is not None:
            lines.append(f"{place}: {entry.label}: tells nothing: {entry.problem}")
        for mutant in entry.mutants:
            word, more = _line(mutant)
            is_news = not mutant.is_noticed and not mutant.is_as_good
            if everything or is_news:
                lines.append(f"{place}: {word}: {entry.label} {mutant.name}: {mutant.says}{more}")
        lines += [
            f"{place}: stale note: {entry.label} {name}: no mutant of this name goes unnoticed"
            for name in entry.stale
        ]
        if everything:
            lines += [f"{place}: {text}" for text in _unchanged(entry)]
    if untested:
        lines.append(f"nothing to mutate: {', '.join(untested)}")
    lines += [summary(counts), *(() if everything else _blind(made))]
    return clean("\n".join(lines)) + "\n"


def _line(mutant: Mutant) -> tuple[str, str]:
    """What became of a mutant, and by whom or why."""
    if mutant.is_noticed:
        who = ", ".join(f"{name} ({word})" for name, word in mutant.noticed_by)
        return "noticed", f" - by {who}"
    if mutant.why is None:
        verb = "passes" if len(mutant.aims) == 1 else "pass"
        return "UNNOTICED", f" - {' and '.join(mutant.aims)}, which {verb} all the same"
    return "as good" if mutant.is_as_good else "unnoticed", f" - {mutant.why}"


def _unchanged(entry: EntryMutants) -> Iterator[str]:
    """What of an entry is not changed, and why."""
    told = entry.unchanged
    for words, why in (
        (told.events, "no contract has a role for it"),
        (told.unread, "no contract reads it"),
        (told.inert, "contracts read it, and no other value would be worse"),
    ):
        if words:
            yield f"not changed: {entry.label}: {', '.join(words)} ({why})"


def _blind(made: Sequence[EntryMutants]) -> Iterator[str]:
    """How much no contract can tell from anything else."""
    events = sum(len(one.unchanged.events) for one in made)
    fields = len({name for one in made for name in (*one.unchanged.unread, *one.unchanged.inert)})
    counted = [(events, "event"), (fields, "field")]
    words = [f"{count} {noun}{'s' * (count != 1)}" for count, noun in counted if count]
    if words:
        verb = "is" if events + fields == 1 else "are"
        yield f"{' and '.join(words)} {verb} nothing to any contract of the set (--all names them)"


def summary(counts: Tally) -> str:
    """One line of numbers."""
    share = f" ({100 * counts.noticed // counts.total} %)" if counts.total else ""
    return (
        f"{counts.total} mutants: {counts.noticed} noticed{share}, {counts.vacuous} of these as a"
        f" vacuous pass; {counts.as_good} as good as the entry, {counts.admitted} unnoticed with a"
        f" note, {counts.bare} unnoticed"
    )


def _json(
    made: Sequence[EntryMutants],
    counts: Tally,
    failing: Sequence[str],
    untested: Sequence[str],
) -> str:
    entries: list[dict[str, Any]] = [
        {
            "entry": entry.label,
            "problem": entry.problem,
            "stale": list(entry.stale),
            "roleless": list(entry.unchanged.events),
            "unread": list(entry.unchanged.unread),
            "inert": list(entry.unchanged.inert),
            "mutants": [
                {
                    "name": mutant.name,
                    "says": mutant.says,
                    "aims": list(mutant.aims),
                    "noticed_by": [{"id": n, "outcome": word} for n, word in mutant.noticed_by],
                    "as_good": mutant.is_as_good,
                    "why": mutant.why,
                }
                for mutant in entry.mutants
            ],
        }
        for entry in made
    ]
    record = {
        "total": counts.total,
        "noticed": counts.noticed,
        "vacuous": counts.vacuous,
        "as_good": counts.as_good,
        "admitted": counts.admitted,
        "unnoticed": counts.bare,
        "failing": list(failing),
        "untested": list(untested),
        "entries": entries,
    }
    return json.dumps(record, indent=2, ensure_ascii=True) + "\n"
