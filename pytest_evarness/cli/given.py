"""Contracts that a command was given by name: files, folders of them, ids of packaged ones.

They meet somebody else's trace, so one that cannot be read is a finding about us and breaks
nothing else.

Source: docs/contracts.md, "Where contracts come from".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evarness.contract.corpus import settled
from pytest_evarness.core.finding import Finding
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.errors import InputError, Where
from pytest_evarness.source.mistake import raise_all
from pytest_evarness.source.walk import look_below

if TYPE_CHECKING:
    from pytest_evarness.contract.library import Library, LibraryFile
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.registry import Registry

__all__ = ["GivenContracts", "broken", "exit_code", "settled", "summary"]

_SUFFIXES = (".yaml", ".yml", ".json")
_IN_FOLDERS = (".yaml", ".yml")


class GivenContracts:
    """What stands behind ``--contracts``.

    Attributes:
        warnings: Sentences for the user; filled while contracts are read.
    """

    def __init__(self, named: Sequence[str], registry: Registry) -> None:
        self.named = [word for name in named for word in _files(name)]
        self.registry = registry
        self.warnings: list[str] = []
        self._why_broken: dict[tuple[str, int, str], str | None] = {}
        self._by_id = {word: self._packaged(word) for word in self.named if not _is_path(word)}
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

    def read(self, types: frozenset[str]) -> list[Contract | Finding]:
        """Every contract as it reads for a trace that declares ``types``.

        Returns:
            In the order given; for one that cannot be read, the finding that says so.

        Raises:
            InputError: A file is no library, two contracts have one id, or there is none at all.
        """
        from pytest_evarness.contract.library import read_library_file

        entries: list[Contract | Finding] = []
        places = dict.fromkeys(self._by_id, "the package")
        for word in self.named:
            if word in self._by_id:
                known: Contract | Finding | InputError = self._by_id[word]
                if isinstance(known, InputError):
                    known = broken(word, _one_line(known))
                entries.append(self._tested(known))
                continue
            file = read_library_file(Path(word), self.registry, declared_types=types)
            for name in file.ids:
                if name in places:
                    raise InputError(
                        f"the contract '{name}' is given twice (in {places[name]} too)",
                        where=Where(file.shown),
                    )
                places[name] = file.shown
                entries.append(self._tested(self._entry(file, name)))
        if not entries:
            raise InputError(f"no contract was given (got {', '.join(self.named)})")
        for entry in entries:
            if not isinstance(entry, Finding) and entry.status == "deprecated":
                text = f"{entry.path}:{entry.line}: '{entry.id}' is deprecated"
                if text not in self.warnings:
                    self.warnings.append(text)
        return entries

    def _entry(self, file: LibraryFile, name: str) -> Contract | Finding:
        """The contract, or the finding that says why it is none that may be judged by."""
        contract = file.contracts.get(name)
        if contract is None:
            return broken(name, "; ".join(_one_line(error) for error in file.broken[name]))
        fault = self._library.borrowed(contract)
        return contract if fault is None else broken(name, _one_line(file.error(name, fault)))

    def _tested(self, entry: Contract | Finding) -> Contract | Finding:
        """The contract, or where it fails its own corpus the finding that says so."""
        if isinstance(entry, Finding):
            return entry
        key = (entry.path, entry.line, entry.id)
        if key not in self._why_broken:
            self._why_broken[key] = self._library.why_broken(entry)
        why = self._why_broken[key]
        return entry if why is None else broken(entry.id, why)

    @cached_property
    def _library(self) -> Library:
        from pytest_evarness.contract.library import load_library
        from pytest_evarness.core.interfaces import Locations

        return load_library(Locations(Path(), None, (), {}), [], self.registry)

    def _packaged(self, name: str) -> Contract | InputError:
        from pytest_evarness.core.registry import nearest

        known = self._library.ids()
        if name in known:
            return self._library.resolve(name)
        near = nearest(name, known)
        return InputError(
            f"--contracts: neither a file nor the id of a packaged contract (got '{name}')",
            fix=f"write '{near}'" if near else None,
        )


def _files(word: str) -> Iterable[str]:
    """The word, or where it names a folder every file of contracts in it, sorted.

    Raises:
        InputError: A folder without any.
    """
    path = Path(word)
    try:
        if not path.is_dir():
            return [word]
    except ValueError:
        return [word]
    below = look_below(path, Path.cwd())
    raise_all(below.errors(None))
    found = sorted(
        str(one) for one in below.files if one.suffix.lower() in _IN_FOLDERS and one.is_file()
    )
    if not found:
        raise InputError(f"--contracts: the folder holds no file of contracts (got '{word}')")
    return found


def _is_path(word: str) -> bool:
    path = Path(word)
    return path.exists() or "/" in word or path.suffix.lower() in _SUFFIXES


def _one_line(error: InputError) -> str:
    return str(error).replace("\n  ", ", ")


def broken(name: str, reason: str) -> Finding:
    """The finding of a contract that cannot be read."""
    return Finding(
        id=name,
        kind="contract",
        outcome=Outcome.INDETERMINATE,
        reason=reason,
        gate=True,
        causes=(Cause.EVALUATOR_ERROR,),
    )


def summary(decided: Sequence[Finding], runs: int) -> str:
    """Counts of outcomes; a vacuous pass is none of the contract's merit, so it counts apart."""
    vacuous = sum(one.vacuous and one.outcome is Outcome.PASS for one in decided)
    numbers = {one: sum(finding.outcome is one for finding in decided) for one in Outcome}
    counts = [f"{numbers[Outcome.PASS] - vacuous} pass", f"{vacuous} vacuous"]
    counts += [f"{numbers[one]} {one.word}" for one in Outcome if one is not Outcome.PASS]
    return f"{', '.join(counts)} ({runs} run{'' if runs == 1 else 's'})"


def exit_code(decided: Sequence[Finding]) -> int:
    """0 when all pass, 1 when one fails, 3 when one is undecided or there is none."""
    outcomes = [finding.outcome for finding in decided]
    if Outcome.FAIL in outcomes:
        return 1
    return 3 if Outcome.INDETERMINATE in outcomes or not outcomes else 0
