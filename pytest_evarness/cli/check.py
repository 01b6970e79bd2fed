"""``pytest-evarness check``: contracts over recorded traces."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evarness.core.finding import Finding
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.errors import InputError, Where
from pytest_evarness.source.mistake import raise_all

if TYPE_CHECKING:
    import argparse

    from pytest_evarness.contract.evaluate import Evaluator
    from pytest_evarness.contract.library import LibraryFile
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.json import Json
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.trace import Trace

__all__ = ["HELP", "NAME", "add_arguments", "main"]

NAME = "check"
HELP = "judge contracts over recorded traces"

_SUFFIXES = (".yaml", ".yml", ".json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    parser.add_argument("traces", nargs="+", metavar="TRACES", help="trace files (JSON lines)")
    parser.add_argument(
        "--contracts",
        nargs="+",
        required=True,
        metavar="FILES",
        help="files of contracts, or ids of packaged contracts",
    )
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
    from pytest_evarness.core.registry import load_registry
    from pytest_evarness.core.tracefile import read_traces

    registry = load_registry()
    named = [str(word) for word in args.contracts]
    traces = [(path, trace) for path in args.traces for trace in read_traces(Path(path), registry)]
    judge = _Judge(named, registry)
    decided: list[Finding] = []
    for path, trace in traces:
        for finding, is_draft in judge.findings(trace):
            if not is_draft:
                decided.append(finding)
            line = _json(trace, finding) if args.json else _text(path, trace, finding, is_draft)
            sys.stdout.write(f"{line}\n")
    if not args.json:
        sys.stdout.write(f"{_summary(decided, len(traces))}\n")
    outcomes = [finding.outcome for finding in decided]
    for warning in judge.warnings:
        sys.stderr.write(f"{warning}\n")
    if Outcome.FAIL in outcomes:
        return 1
    return 3 if Outcome.INDETERMINATE in outcomes or not outcomes else 0


class _Judge:
    """Contracts as they read for the types that a trace's sources declare."""

    def __init__(self, named: Sequence[str], registry: Registry) -> None:
        self.named = named
        self.registry = registry
        self.warnings: list[str] = []
        self._by_types: dict[frozenset[str], tuple[list[Contract | Finding], Evaluator]] = {}
        self._by_id = {word: self._packaged(word) for word in named if not _is_path(word)}
        self._refuse_nothing_known()

    def _refuse_nothing_known(self) -> None:
        """Where no word names anything, nothing could be judged: that is wrong input.

        Beside words that do name something, an unknown id is an indeterminate finding: the
        others are still judged, and the answer can no longer be a clean pass.

        Raises:
            InputError: No word is a file or an id of ours.
        """
        unknown = [error for error in self._by_id.values() if isinstance(error, InputError)]
        if unknown and len(unknown) == len(set(self.named)):
            raise_all(unknown)

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
                yield _settled(entry, next(judged)), entry.status == "draft"

    def _read(self, types: frozenset[str]) -> tuple[list[Contract | Finding], Evaluator]:
        from pytest_evarness.contract.evaluate import Evaluator
        from pytest_evarness.contract.library import read_library_file

        entries: list[Contract | Finding] = []
        places: dict[str, str] = {}
        for word in self.named:
            if word in self._by_id:
                known: Contract | Finding | InputError = self._by_id[word]
                if isinstance(known, InputError):
                    known = _broken(word, _one_line(known))
                entries.append(known)
                continue
            path = Path(word)
            file = read_library_file(path, self.registry, declared_types=types)
            for name in file.ids:
                if name in places:
                    raise InputError(
                        f"the contract '{name}' is given twice (in {places[name]} too)",
                        where=Where(file.shown),
                    )
                places[name] = file.shown
                entries.append(self._entry(file, name))
        if not entries:
            raise InputError(f"no contract was given (got {', '.join(self.named)})")
        contracts = [entry for entry in entries if not isinstance(entry, Finding)]
        for contract in contracts:
            if contract.status == "deprecated":
                text = f"{contract.path}:{contract.line}: '{contract.id}' is deprecated"
                if text not in self.warnings:
                    self.warnings.append(text)
        return entries, Evaluator(contracts, self.registry)

    def _entry(self, file: LibraryFile, name: str) -> Contract | Finding:
        contract = file.contracts.get(name)
        if contract is not None:
            return contract
        return _broken(name, "; ".join(_one_line(error) for error in file.broken[name]))

    def _packaged(self, name: str) -> Contract | InputError:
        from pytest_evarness.contract.library import load_library
        from pytest_evarness.core.interfaces import Locations
        from pytest_evarness.core.registry import nearest

        library = load_library(Locations(Path(), None, (), {}), [], self.registry)
        known = library.ids()
        if name in known:
            return library.resolve(name)
        near = nearest(name, known)
        return InputError(
            f"--contracts: neither a file nor the id of a packaged contract (got '{name}')",
            fix=f"write '{near}'" if near else None,
        )


def _is_path(word: str) -> bool:
    path = Path(word)
    return path.exists() or "/" in word or path.suffix.lower() in _SUFFIXES


def _one_line(error: InputError) -> str:
    return str(error).replace("\n  ", ", ")


def _broken(name: str, reason: str) -> Finding:
    return Finding(
        id=name,
        kind="contract",
        outcome=Outcome.INDETERMINATE,
        reason=reason,
        gate=True,
        causes=(Cause.EVALUATOR_ERROR,),
    )


def _settled(contract: Contract, finding: Finding) -> Finding:
    """Apply what a vacuous pass of this contract counts as."""
    if not (finding.vacuous and finding.outcome is Outcome.PASS) or contract.vacuous == "pass":
        return finding
    reason = f"nothing was there to judge: {finding.reason}"
    if contract.vacuous == "fail":
        return finding.with_(outcome=Outcome.FAIL, score=Fraction(0), reason=reason)
    return finding.with_(
        outcome=Outcome.INDETERMINATE,
        score=None,
        causes=(Cause.MISSING_EVIDENCE,),
        reason=reason,
        decisive_seq=None,
    )


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
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in line)


def _summary(decided: Sequence[Finding], runs: int) -> str:
    vacuous = sum(one.vacuous and one.outcome is Outcome.PASS for one in decided)
    numbers = {one: sum(finding.outcome is one for finding in decided) for one in Outcome}
    # A vacuous pass is none of the contract's merit, so it is counted apart.
    counts = [f"{numbers[Outcome.PASS] - vacuous} pass", f"{vacuous} vacuous"]
    counts += [f"{numbers[one]} {one.word}" for one in Outcome if one is not Outcome.PASS]
    return f"{', '.join(counts)} ({runs} run{'' if runs == 1 else 's'})"
