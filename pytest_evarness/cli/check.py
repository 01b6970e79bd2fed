"""``pytest-evarness check``: contracts over recorded traces."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evarness.cli.foreign import add_importer_argument, find_importer, load_told
from pytest_evarness.cli.given import GivenContracts, exit_code, settled, summary
from pytest_evarness.core.finding import Finding
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.core.registry import nearest
from pytest_evarness.core.vocabulary import is_custom_type
from pytest_evarness.report.text import flat

if TYPE_CHECKING:
    import argparse

    from pytest_evarness.contract.evaluate import Evaluator
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.json import Json
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.trace import Trace

__all__ = ["HELP", "NAME", "add_arguments", "main"]

NAME = "check"
HELP = "judge contracts over recorded traces"

_MAX_REMARKS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    parser.add_argument("traces", nargs="+", metavar="TRACES", help="trace files (JSON lines)")
    parser.add_argument(
        "--contracts",
        nargs="+",
        required=True,
        metavar="FILES",
        help="files or folders of contracts, or ids of packaged contracts",
    )
    add_importer_argument(parser)
    parser.add_argument(
        "--json", action="store_true", help="one JSON line for each run and contract"
    )


def main(args: argparse.Namespace) -> int:
    """Judge every contract over every run.

    Returns:
        0 when all pass, 1 when one fails, 3 when none fails but one is indeterminate.

    Raises:
        InputError: A file cannot be read (exit 2).
    """
    from pytest_evarness.core.expression import Patience

    with Patience():
        return _main(args)


def _main(args: argparse.Namespace) -> int:
    from pytest_evarness.core.tracefile import read_traces

    registry = load_told()
    named = [str(word) for word in args.contracts]
    importer = find_importer(args.importer, registry)
    traces = [(path, trace) for path in args.traces for trace in read_traces(Path(path), importer)]
    given = GivenContracts(named, registry)
    judge = _Judge(given, registry)
    decided: list[Finding] = []
    for path, trace in traces:
        for finding, is_draft in judge.findings(trace):
            if not is_draft:
                decided.append(finding)
            line = _json(trace, finding) if args.json else _text(path, trace, finding, is_draft)
            sys.stdout.write(f"{line}\n")
    if not args.json:
        sys.stdout.write(f"{summary(decided, len(traces))}\n")
    remarks = (
        *given.warnings,
        *judge.not_looked_at(),
        *judge.not_checked(),
        *_misspelt(traces, registry),
    )
    for warning in remarks:
        sys.stderr.write(f"{flat(warning)}\n")
    return exit_code(decided)


def _misspelt(traces: Sequence[tuple[str, Trace]], registry: Registry) -> Iterator[str]:
    """Types that no source declares and that nearly are known ones, once for each file.

    Contracts refuse such a word. In a trace it may be a recorder's own, so it is a remark.
    """
    known = registry.event_types
    met: dict[tuple[str, str], int] = {}
    for path, trace in traces:
        for event in trace.events if trace.coverage is None else ():
            name = event["type"]
            if name not in known and not is_custom_type(name):
                met[path, name] = met.get((path, name), 0) + 1
    shown = 0
    for (path, name), count in met.items():
        near = nearest(name, known.names()) or nearest(name.lower(), known.names())
        if near is None or shown == _MAX_REMARKS:
            continue
        shown += 1
        noun = "event" if count == 1 else "events"
        yield (
            f"{path}: warning: {count} {noun} of a type that no source declares (got '{name}';"
            f" '{near}' is known, and contracts about it do not see these)"
        )


class _Judge:
    """Contracts as they read for the types that a trace's sources declare."""

    def __init__(self, given: GivenContracts, registry: Registry) -> None:
        self.given = given
        self.registry = registry
        self._by_types: dict[frozenset[str], tuple[list[Contract | Finding], Evaluator]] = {}

    def findings(self, trace: Trace) -> Iterator[tuple[Finding, bool]]:
        """Each finding, and whether its contract is a draft, which never decides."""
        # A trace that does not say what it records declares at least what it holds.
        types = trace.coverage or frozenset(event["type"] for event in trace.events)
        if types not in self._by_types:
            self._by_types[types] = self._read(types)
        entries, evaluator = self._by_types[types]
        judged = iter(evaluator.evaluate(trace))
        for entry in entries:
            if isinstance(entry, Finding):
                yield entry, False
            else:
                yield settled(entry, next(judged)), entry.status == "draft"

    def not_looked_at(self) -> Iterator[str]:
        """That contracts which are for some cases alone judged every run."""
        entries = [entry for read, _ in self._by_types.values() for entry in read]
        names = dict.fromkeys(
            entry.id
            for entry in entries
            if not isinstance(entry, Finding) and entry.applies_to and entry.applies_to.lists
        )
        if names:
            yield (
                "remark: applies_to was not looked at, since a trace tells no graph, tags or mode:"
                f" {_some(names)} judged every run"
            )

    def not_checked(self) -> Iterator[str]:
        """Types of which no schema is known: a path that is misspelt there matches nothing."""
        entries = [entry for read, _ in self._by_types.values() for entry in read]
        names = dict.fromkeys(
            name
            for entry in entries
            if not isinstance(entry, Finding)
            for name in entry.unchecked_types(self.registry)
        )
        if names:
            yield (
                "remark: no schema is known of these types, so that paths into them were not"
                f" checked: {_some(names)}"
            )

    def _read(self, types: frozenset[str]) -> tuple[list[Contract | Finding], Evaluator]:
        from pytest_evarness.contract.evaluate import Evaluator

        entries = self.given.read(types)
        contracts = [entry for entry in entries if not isinstance(entry, Finding)]
        return entries, Evaluator(contracts, self.registry)


def _some(names: Iterable[str]) -> str:
    known = list(names)
    more = f" and {len(known) - _MAX_REMARKS} more" if len(known) > _MAX_REMARKS else ""
    return f"{', '.join(known[:_MAX_REMARKS])}{more}"


def _json(trace: Trace, finding: Finding) -> str:
    record: dict[str, Json] = {
        "run_id": trace.run_id,
        "contract": finding.id,
        "outcome": finding.outcome.word,
        "causes": [str(cause.value) for cause in finding.causes],
        "leaning": None if finding.leaning is None else finding.leaning.word,
        "decisive_seq": finding.decisive_seq,
        "vacuous": finding.vacuous,
        "witness": finding.witness.as_record(),
        "reason": finding.reason,
    }
    return json.dumps(record)


def _text(path: str, trace: Trace, finding: Finding, is_draft: bool) -> str:
    word = "vacuous" if finding.vacuous and finding.outcome is Outcome.PASS else None
    word = word or finding.outcome.word
    causes = f" ({', '.join(cause.value for cause in finding.causes)})" if finding.causes else ""
    run = f"{path}::{trace.run_id}" if trace.run_id is not None else path
    draft = "draft, " if is_draft else ""
    line = f"{draft}{word}{causes}: {run} {finding.id} - {finding.reason}"
    return flat(line)
