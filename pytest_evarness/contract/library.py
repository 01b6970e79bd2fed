"""Where contracts come from: packaged, home, project, named by a variable, beside a graph.

A higher layer may say the same again, with another owner or severity. Something else under the
same id is an override, which names what it replaces and can never make it decide less.

Source: docs/contracts.md, "Where contracts come from".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.contract.applicability import Applicability, Met, unmet
from pytest_evarness.contract.corpus import Corpus, evaluate_corpus, lacking, parse_corpus
from pytest_evarness.contract.model import VACUOUS, Contract, parse_contract
from pytest_evarness.contract.row import CorpusRow, corpus_row
from pytest_evarness.core.json import shown
from pytest_evarness.core.matcher import same
from pytest_evarness.core.registry import nearest
from pytest_evarness.errors import Fault, InputError, InputErrors, Where
from pytest_evarness.source.limit import MAX_MISTAKES

if TYPE_CHECKING:
    from pytest_evarness.contract.applicability import CaseFacts
    from pytest_evarness.contract.corpus import CorpusEntry, CorpusResult
    from pytest_evarness.core.interfaces import Locations, Shape
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.source.document import Document

__all__ = [
    "BESIDE_NAMES",
    "LAYERS",
    "NO_FOLDER",
    "TESTED_LAYERS",
    "TOP_KEYS",
    "Library",
    "LibraryFile",
    "changed_files",
    "check_library_file",
    "load_library",
    "problem_of_variable",
    "read_library_file",
]

LAYERS: Final = ("packaged", "home", "project", "variable", "beside")
"""Lowest first."""

TESTED_LAYERS: Final = ("packaged", "project")
"""Layers whose contracts need a corpus to be no draft."""

TOP_KEYS: Final = ("contracts", "invariants")
BESIDE_NAMES: Final = ("contracts.yaml", "invariants.yaml")
_VARIABLES: Final = ("EVARNESS_CONTRACTS", "EVARNESS_INVARIANTS")
NO_FOLDER: Final = "is no folder, and libraries are looked for in folders"
_HOME: Final = "~/.evarness/"
_VARIABLE: Final = "$EVARNESS_CONTRACTS"
_PACKAGED: Final = Path(__file__).parent / "packaged"
_STRICTNESS: Final = {word: rank for rank, word in enumerate(("pass", "indeterminate", "fail"))}
assert set(_STRICTNESS) == set(VACUOUS), "each has its rank"


@dataclass(frozen=True, slots=True)
class LibraryFile:
    """One file of contracts, its shape checked, every contract in it readable.

    Attributes:
        shown: The file as messages name it.
        label: The layer it belongs to.
        sha256: Of its bytes.
        document: For places.
        top: The key it uses: ``contracts`` or ``invariants``.
        contracts: By id, parsed without the identities of any graph.
        errors: One for each mistake.
        broken: The mistakes of one contract, by its id.
        warnings: Sentences: what is missing and should not be.
        source: Where it was read from; it reaches no digest and no report.
    """

    shown: str
    label: str
    sha256: str
    document: Document
    top: str
    contracts: Mapping[str, Contract]
    errors: tuple[InputError, ...] = ()
    broken: Mapping[str, tuple[InputError, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    source: Path | None = None

    def value_of(self, name: str) -> Any:
        """What stands under an id."""
        return self.document.value[self.top][name]

    @property
    def ids(self) -> list[str]:
        """Every id of the file, readable or not, in its order."""
        return [str(name) for name in self.document.value[self.top]]

    @property
    def is_idle(self) -> bool:
        """Whether none of its contracts judges a case that does not name it."""
        active = any(one.status == "active" for one in self.contracts.values())
        return not active and not self.broken

    def error(self, name: str, fault: Fault) -> InputError:
        """A fault of one contract, with its place."""
        return self.document.error(fault.under(self.top, name))


def read_library_file(
    path: Path,
    registry: Registry,
    *,
    label: str = "inline",
    root: Path | None = None,
    shown_as: str | None = None,
    declared_types: frozenset[str] | None = None,
) -> LibraryFile:
    """Read one file of contracts.

    Args:
        path: YAML (or JSON) with the key ``contracts`` or ``invariants``.
        registry: Knows event types and predicates.
        label: The layer.
        root: Messages name the file relative to this folder.
        shown_as: What messages call it instead.
        declared_types: Types that the sources of a recorded trace declare.

    Returns:
        The file; mistakes inside single contracts are in ``errors``.

    Raises:
        InputError: It is no strict document, or its top level is not that of a library.
    """
    from pytest_evarness.source.document import load_document

    document = load_document(path, root=root, shown=shown_as)
    return replace(_read(document, registry, label, declared_types), source=path)


def _read(
    document: Document, registry: Registry, label: str, declared: frozenset[str] | None
) -> LibraryFile:
    value = document.value
    if not isinstance(value, Mapping):
        raise document.error(
            Fault((), "must be a mapping", shown(value, 60), "{contracts: {ID: {assert: ...}}}")
        )
    present = [key for key in TOP_KEYS if key in value]
    errors: list[InputError] = []
    for key in value:
        if key not in TOP_KEYS and len(errors) < MAX_MISTAKES:
            near = nearest(str(key), TOP_KEYS)
            errors.append(
                document.error(
                    Fault(
                        (key,),
                        "unknown key",
                        f"'{key}'",
                        f"known: {', '.join(TOP_KEYS)}",
                        f"write '{near}'" if near else None,
                        at_key=True,
                    )
                )
            )
    if len(present) == 2:
        errors.append(
            document.error(
                Fault(
                    ("invariants",), "stands beside 'contracts'", rule="one of the two", at_key=True
                )
            )
        )
    # A key that nearly is the one has been told, with what to write.
    if not present and not any(error.fix for error in errors):
        errors.append(
            document.error(Fault((), "the key 'contracts' is missing", rule="{ID: {assert: ...}}"))
        )
    if errors:
        _raise(errors)
    top = present[0]
    entries = value[top]
    if not isinstance(entries, Mapping):
        raise document.error(
            Fault((top,), "must be a mapping of id to contract", shown(entries, 60))
        )
    contracts: dict[str, Contract] = {}
    broken: dict[str, tuple[InputError, ...]] = {}
    warnings: list[str] = []
    shown_name = document.shown or "inline"
    unread: tuple[InputError, ...] = ()
    for name, entry in entries.items():
        if len(errors) >= MAX_MISTAKES:
            # The first mistakes are the ones that help; a contract behind them judges nothing.
            unread = unread or (document.error(_too_many(errors).under(top, name)),)
            broken[str(name)] = unread
            continue
        contract, faults = parse_contract(
            str(name), entry, registry=registry, declared_types=declared, label=label
        )
        if contract is None:
            broken[str(name)] = tuple(document.error(fault.under(top, name)) for fault in faults)
            errors.extend(broken[str(name)])
            continue
        line = document.where((top, name), at_key=True).line or 1
        missing = lacking(contract.corpus) if contract.status != "draft" else []
        if missing and label == "project":
            fault = Fault(
                ("corpus",) if contract.corpus is not None else (),
                "a contract of a library is tested before it judges, and nothing tests this one"
                if contract.corpus is None
                else "the corpus is not complete",
                rule=f"one entry at least of {', '.join(missing)}; or 'status: draft'",
                at_key=True,
            )
            broken[contract.id] = (document.error(fault.under(top, name)),)
            errors.extend(broken[contract.id])
            continue
        is_tested = not missing if contract.status != "draft" else contract.corpus is not None
        contracts[contract.id] = contract.placed(
            label=label,
            path=shown_name,
            line=line,
            # The corpora of packaged contracts stand in files of their own, read when one is used.
            untested=label != "packaged" and not is_tested,
        )
        unsaid = [key for key in ("owner", "rationale") if not getattr(contract, key)]
        if unsaid and label in ("packaged", "home", "project", "variable"):
            warnings.append(
                f"{shown_name}:{line}: contract '{contract.id}' has no {' and no '.join(unsaid)}"
            )
    errors.extend(unread)
    return LibraryFile(
        shown=shown_name,
        label=label,
        sha256=sha256(document.data).hexdigest(),
        document=document,
        top=top,
        contracts=contracts,
        errors=tuple(errors),
        broken=broken,
        warnings=tuple(warnings),
    )


def _too_many(errors: Sequence[InputError]) -> Fault:
    rule = "what stands above is put right first"
    return Fault((), f"is not looked at, nor what follows: {len(errors)} mistakes", rule=rule)


def check_library_file(
    path: Path, registry: Registry, *, root: Path | None = None, label: str = "project"
) -> None:
    """Read a file of contracts for its mistakes alone.

    Raises:
        InputError: With every mistake.
    """
    found = read_library_file(path, registry, label=label, root=root)
    if found.errors:
        _raise(list(found.errors))


def _raise(errors: list[InputError]) -> None:
    from pytest_evarness.source.document import raise_all

    raise_all(errors)


class Library:
    """Every contract that a scenario may name, by layer.

    Attributes:
        files: Every file that was read, lowest layer first.
        errors: Mistakes of the files; they break no contract of another file.
        mistakes: The same by file, for those that were read from a place.
        warnings: Sentences for the user.
        root: Messages name files beside a scenario relative to it.
    """

    def __init__(
        self,
        registry: Registry,
        files: Sequence[LibraryFile],
        errors: list[InputError],
        *,
        unread: Mapping[Path, Sequence[InputError]] | None = None,
        root: Path | None = None,
    ) -> None:
        self.registry = registry
        self.root = root
        self.files = tuple(files)
        self.errors = errors
        self.mistakes: dict[Path, list[InputError]] = {
            path: list(found) for path, found in (unread or {}).items()
        }
        self._beside: dict[Path, tuple[LibraryFile | None, tuple[InputError, ...]]] = {}
        self._resolved: dict[Any, Contract] = {}
        self._winners: dict[tuple[str, tuple[int, ...]], Contract | InputError] = {}
        self._in_force: dict[Any, tuple[tuple[str, str, str], ...]] = {}
        self._given: dict[Path, LibraryFile] = {}
        self._met = Met()
        self._corpora: dict[str, _CorporaFile] = {}
        self._results: dict[tuple[str, int, str], tuple[CorpusResult, ...]] = {}
        for file in self.files:
            self._note(file, file.errors)
        for file, error in islice(self._conflicts(), MAX_MISTAKES):
            self._note(file, (error,))
        self.warnings = [warning for file in self.files for warning in file.warnings]

    def _note(self, file: LibraryFile, errors: Iterable[InputError]) -> None:
        for error in errors:
            self.errors.append(error)
            if file.source is not None:
                self.mistakes.setdefault(file.source, []).append(error)

    def _conflicts(self) -> Iterator[tuple[LibraryFile, InputError]]:
        """Ids that two layers, or two files of one, may not share as they do."""
        by_id: dict[str, list[LibraryFile]] = {}
        for file in self.files:
            for name in file.contracts:
                by_id.setdefault(name, []).append(file)
        for name, candidates in by_id.items():
            if len(candidates) == 1 and not candidates[0].contracts[name].overrides:
                continue
            for end in range(1, len(candidates) + 1):
                try:
                    self._winner(name, candidates[:end])
                except InputError as error:
                    yield candidates[end - 1], error
                    break

    def file_at(self, path: Path) -> LibraryFile | None:
        """The file that was read from a place; read now where it is of no layer.

        Raises:
            InputError: It is of no layer and cannot be read.
        """
        for file in self.files:
            if file.source == path:
                return file
        if path in self.mistakes:
            return None
        if path not in self._given:
            self._given[path] = read_library_file(
                path, self.registry, root=self.root, label="given"
            )
        return self._given[path]

    def borrowed(self, contract: Contract) -> Fault | None:
        """What forbids a contract of no layer to go by a packaged one's name and version."""
        for file in self.files:
            own = file.contracts.get(contract.id)
            if file.label != "packaged" or own is None or own.version != contract.version:
                continue
            if not same(_meant(contract.body), _meant(own.body)):
                return Fault(
                    ("assert",),
                    f"says something else than '{own.name}' in {own.path}:{own.line}",
                    rule="another definition has another version",
                    fix=f"write 'version: {own.version + 1}', or give it an id of its own",
                    at_key=True,
                )
        return None

    def ids(self, beside: Sequence[Path] = ()) -> list[str]:
        """Every id that resolves, sorted."""
        files = [*self.files, *self._read_beside(beside)[0]]
        return sorted({name for file in files for name in file.contracts})

    def pulled_in(self, facts: CaseFacts, beside: Sequence[Path] = ()) -> list[str]:
        """Ids of contracts that judge a case though nobody names them there, sorted.

        Packaged ones judge only where they are named, and so do deprecated ones.

        Raises:
            InputError: A file beside the scenario or the graph cannot be read, or one of these
                contracts says something else than a lower layer.
        """
        near_files, near_errors = self._read_beside(beside)
        if near_errors:
            _raise(list(near_errors))
        files = [*self.files, *near_files]
        found = []
        named = {
            name
            for file in files
            if file.label != "packaged"
            for name, contract in file.contracts.items()
            if contract.applies_to is not None
        }
        # In order, as the first one that is broken is what the item of the file says.
        for name in sorted(named):
            candidates = [file for file in files if name in file.contracts]
            winner = self._kept_winner(name, candidates)
            applies_to = winner.applies_to
            if winner.status == "deprecated" or applies_to is None:
                continue
            if applies_to.why_not(facts) is None:
                found.append(name)
        return found

    def meet(
        self, tools: Iterable[str], aliases: Mapping[str, str], tags: Iterable[str] = ()
    ) -> None:
        """Note what a case, or a place, has that contracts may ask for."""
        self._met.tools.update(tools)
        self._met.aliases.update(aliases)
        self._met.tags.update(tags)

    def unmet(self, file: LibraryFile | None = None) -> list[InputError]:
        """Words of ``applies_to`` by which nothing that was met is met, in the order of the files.

        Args:
            file: The one to look at; None for all that are not packaged.
        """
        if not self._met.tools:
            return []  # nothing that calls tools was here
        beside = (found for found, _ in self._beside.values() if found is not None)
        files = (*self.files, *beside) if file is None else (file,)
        return [
            one.error(name, fault.under("applies_to"))
            for one in files
            for name, contract in one.contracts.items()
            if one.label != "packaged" and contract.applies_to is not None
            for fault in unmet(contract.applies_to, self._met)
        ]

    def misspelt(self) -> list[InputError]:
        """Of these, tools by a name that nearly is one of a tool: such a contract is broken.

        True where every scenario of the project was met, for the tool may be that of another.
        """
        return [
            error
            for error in self.unmet()
            if error.fix is not None
            and error.where is not None
            and ".tools[" in (error.where.field or "")
        ]

    def resolve(
        self,
        id: str,  # noqa: A002 - the word of the file
        *,
        identities: Mapping[str, frozenset[str]] | None = None,
        beside: Sequence[Path] = (),
        shapes: Sequence[Shape] = (),
        aliases: Mapping[str, str] | None = None,
    ) -> Contract:
        """The contract called ``id``, from the highest layer that has it.

        Args:
            id: The name that a scenario or graph gives.
            identities: Known values at identity paths of the graph at hand.
            beside: Folders of the scenario and of the graph.
            shapes: Of payload fields that the configuration in force knows more of.
            aliases: Other names of tools to their ids.

        Raises:
            InputError: No such contract (with the nearest name), one with mistakes, or one that
                says something else than the same id in a lower layer without being its override.
        """
        near_files, near_errors = self._read_beside(beside)
        candidates: list[LibraryFile] = []
        for file in (*self.files, *near_files):
            if id in file.broken:
                _raise(list(file.broken[id]))
            if id in file.contracts:
                candidates.append(file)
        if near_errors:
            _raise(list(near_errors))
        if not candidates:
            raise self._unknown(id, near_files)
        winner = self._kept_winner(id, candidates)
        file = candidates[-1]
        return self._with_identities(id, file, winner, identities, tuple(shapes), aliases or {})

    def _unknown(self, name: str, near_files: Sequence[LibraryFile]) -> InputError:
        known = sorted({one for file in (*self.files, *near_files) for one in file.contracts})
        near = nearest(name, known)
        unread = [error for error in self.errors if error.where is not None]
        more = ""
        if unread:
            places = dict.fromkeys(str(error.where.path) for error in unread if error.where)
            more = f"; {', '.join(places)} could not be read in full"
        return InputError(
            f"unknown contract (got '{name}'; known: {', '.join(known) or 'none'}{more})",
            fix=f"write '{near}'" if near else None,
        )

    def _kept_winner(self, name: str, candidates: Sequence[LibraryFile]) -> Contract:
        key = (name, tuple(id(file) for file in candidates))
        found = self._winners.get(key)
        if found is None:
            try:
                found = self._winner(name, candidates)
            except InputError as error:
                found = error
            self._winners[key] = found
        if isinstance(found, InputError):
            raise found
        return found

    def _winner(self, name: str, candidates: Sequence[LibraryFile]) -> Contract:
        """The highest definition, with those that it replaces."""
        lowest = candidates[0]
        below = lowest.contracts[name]
        if below.overrides:
            fault = Fault(
                ("overrides",), "overrides nothing", f"'{below.overrides}'", "no lower layer has it"
            )
            raise lowest.error(name, fault)
        for file in candidates[1:]:
            mine = file.contracts[name]
            if file.label == lowest.label and file.label != "beside":
                place = f"{below.path}:{below.line}"
                raise file.error(
                    name, Fault((), f"the id is defined in {place} too", f"'{name}'", at_key=True)
                )
            fault_of_layer = _fault_of_layer(mine, below)
            if fault_of_layer is not None:
                raise file.error(name, fault_of_layer)
            replaced = (*below.replaced, below) if mine.overrides else below.replaced
            lowest, below = file, replace(mine, replaced=replaced)
        return below

    # -- corpora -------------------------------------------------------------------------------

    def corpus_of(self, contract: Contract) -> Corpus | None:
        """What tests a contract; None where nothing does.

        Raises:
            InputError: A packaged corpus cannot be read.
        """
        if contract.label != "packaged" or contract.corpus is not None:
            return contract.corpus
        return self._packaged(contract).corpora.get(contract.id)

    def _packaged(self, contract: Contract) -> _CorporaFile:
        name = contract.path.rpartition("/")[2]
        if name not in self._corpora:
            self._corpora[name] = _packaged_corpora(name, self.registry)
        return self._corpora[name]

    def place_of_entry(self, contract: Contract, entry: CorpusEntry) -> str:
        """``FILE:LINE`` of an entry of a contract's corpus; of the contract where it is unknown."""
        path: tuple[str, ...] = (contract.id, entry.kind, entry.name)
        if contract.label == "packaged" and contract.corpus is None:
            document = self._packaged(contract).document
            path = ("corpora", *path)
        else:
            read = (*self.files, *self._given.values())
            file = next((one for one in read if one.shown == contract.path), None)
            if file is None:
                return f"{contract.path}:{contract.line}"
            document = file.document
            path = (file.top, contract.id, "corpus", *path[1:])
        where = document.where(path, at_key=True)
        return f"{where.path}:{where.line or 1}"

    def corpus_results(self, contract: Contract) -> tuple[CorpusResult, ...]:
        """What a contract says of its own corpus, evaluated once in a session.

        Raises:
            InputError: A packaged corpus cannot be read.
        """
        key = (contract.path, contract.line, contract.id)
        found = self._results.get(key)
        if found is None:
            corpus = self.corpus_of(contract)
            found = () if corpus is None else evaluate_corpus(contract, corpus, self.registry)
            self._results[key] = found
        return found

    def corpus_row(self, contract: Contract) -> CorpusRow | None:
        """What a seal says of a contract's corpus; None where it has none that can be read."""
        try:
            corpus = self.corpus_of(contract)
        except InputError:
            return None
        if corpus is None:
            return None
        return corpus_row(contract, corpus, self.corpus_results(contract))

    def why_broken(self, contract: Contract) -> str | None:
        """Why a contract may not judge: the entries of its own corpus that it gets wrong."""
        try:
            results = self.corpus_results(contract)
        except InputError as error:
            return f"its corpus cannot be read: {error}"
        problems = [one.problem for one in results if one.problem is not None]
        if not problems:
            return None
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return f"it fails its own corpus, so it judges nothing: {problems[0]}{more}"

    # -- parts ---------------------------------------------------------------------------------

    def _with_identities(
        self,
        name: str,
        file: LibraryFile,
        plain: Contract,
        identities: Mapping[str, frozenset[str]] | None,
        shapes: tuple[Shape, ...],
        aliases: Mapping[str, str],
    ) -> Contract:
        if not identities:
            return plain
        key = (
            *(file.shown, file.sha256, name, id(plain)),
            *(tuple(sorted(identities.items())), shapes, tuple(sorted(aliases.items()))),
        )
        found = self._resolved.get(key)
        if found is None:
            contract, faults = parse_contract(
                name,
                file.value_of(name),
                registry=self.registry,
                identities=identities,
                label=file.label,
                shapes=shapes,
                aliases=aliases,
                with_corpus=False,
            )
            if contract is None:
                _raise([file.error(name, fault) for fault in faults])
            assert contract is not None, "faults were raised"
            found = contract.placed(
                label=plain.label,
                path=plain.path,
                line=plain.line,
                replaced=plain.replaced,
                corpus=plain.corpus,
                untested=plain.untested,
            )
            self._resolved[key] = found
        return found

    def _read_beside(self, folders: Sequence[Path]) -> tuple[list[LibraryFile], list[InputError]]:
        files: list[LibraryFile] = []
        errors: list[InputError] = []
        for folder in dict.fromkeys(folders):
            if folder not in self._beside:
                self._beside[folder] = _folder_file(folder, self.registry, "beside", self.root)
            file, faults = self._beside[folder]
            if file is not None:
                files.append(file)
            else:
                errors.extend(faults)
        return files, errors

    @property
    def looked_beside(self) -> list[Path]:
        """Folders of scenarios and graphs within the root; none whose library did not load."""
        return sorted(
            folder
            for folder, (_, errors) in self._beside.items()
            if not errors and self.root is not None and folder.is_relative_to(self.root)
        )

    def in_force(
        self, beside: Sequence[Path] = (), used: Iterable[str] = ()
    ) -> tuple[tuple[str, str, str], ...]:
        """``("contracts", file, sha256 hex)`` of each file that is not packaged.

        Args:
            beside: Folders of the scenario and its graph.
            used: Files of which a contract is used; one that brings none by itself is in force
                there alone.
        """
        named = frozenset(used)
        key = (tuple(beside), named)
        known = self._in_force.get(key)
        if known is None:
            files = [
                *(file for file in self.files if file.label != "packaged"),
                # The rest lies beside a packaged harness.
                *(file for file in self._read_beside(beside)[0] if self._is_inside(file)),
            ]
            known = tuple(
                ("contracts", file.shown, file.sha256)
                for file in files
                if not file.is_idle or file.shown in named
            )
            self._in_force[key] = known
        return known

    @property
    def idle(self) -> list[tuple[str, str]]:
        """``(file, sha256 hex)`` of files that were read and bring nothing by themselves."""
        beside = (found for found, _ in self._beside.values() if found is not None)
        files = (*self.files, *(file for file in beside if self._is_inside(file)))
        return [
            (file.shown, file.sha256) for file in files if file.label != "packaged" and file.is_idle
        ]

    def _is_inside(self, file: LibraryFile) -> bool:
        root, source = self.root, file.source
        return root is not None and source is not None and source.is_relative_to(root)


def _fault_of_layer(mine: Contract, below: Contract) -> Fault | None:
    """What forbids a definition above another of the same id."""
    place = f"{below.path}:{below.line}"
    name = f"'{mine.id}' in {place}"
    is_same = same(_meant(mine.body), _meant(below.body)) and mine.version == below.version
    if not mine.overrides and not is_same:
        return Fault(
            ("assert",) if mine.version == below.version else ("version",),
            f"says something else than {name}",
            rule="another definition is an override, and names what it replaces",
            fix=f"write 'overrides: {below.name}', or give it an id of its own",
            at_key=True,
        )
    if mine.overrides and mine.overrides != below.name:
        return Fault(
            ("overrides",),
            f"names another definition than the one in {place}",
            f"'{mine.overrides}'",
            f"that is {below.name}",
            f"write '{below.name}'",
        )
    replaced = (below, *below.replaced)
    for one in replaced if mine.overrides else ():
        if mine.version == one.version and not same(_meant(mine.body), _meant(one.body)):
            free = max(other.version for other in replaced) + 1
            return Fault(
                ("version",),
                f"has the version of '{one.id}' in {one.path}:{one.line}, and says something else",
                str(mine.version),
                "a requirement that changes is a new version",
                f"write 'version: {free}'",
                at_key=True,
            )
    if mine.overrides and mine.version < below.version:
        return Fault(
            ("version",),
            f"is lower than that of {name}, which it replaces",
            str(mine.version),
            "a requirement that changes is a new version",
            f"write 'version: {below.version + 1}'",
            at_key=True,
        )
    rule = "a hard contract cannot be softened"
    if below.gate and not mine.gate:
        return Fault(
            ("gate",), f"softens {name.replace(' in ', ', which is hard in ')}", "false", rule
        )
    if below.gate and mine.status != "active" and mine.status != below.status:
        softened = name.replace(" in ", ", which is hard in ")
        return Fault(("status",), f"softens {softened}", f"'{mine.status}'", rule)
    if _STRICTNESS[mine.vacuous] < _STRICTNESS[below.vacuous]:
        why = f"its vacuous pass counts as {below.vacuous}"
        return Fault(("vacuous",), f"softens {name}", f"'{mine.vacuous}'", why)
    if not _is_as_wide(mine, below):
        got = "none" if mine.applies_to is None else shown(mine.applies_to.as_json(), 80)
        wide = "every case that names it"
        if below.applies_to is not None:
            wide = shown(below.applies_to.as_json(), 80)
        return Fault(
            ("applies_to",),
            f"is for fewer cases than {name}",
            got,
            f"below it is for {wide}",
            at_key=mine.applies_to is None,
        )
    return None


def _meant(body: JsonObject) -> JsonObject:
    """An assertion without ``fresh: false``, which says to readers what holds without it."""
    precedes = body.get("precedes")
    if not isinstance(precedes, Mapping) or precedes.get("fresh") is not False:
        return body
    return {"precedes": {key: value for key, value in precedes.items() if key != "fresh"}}


def _is_as_wide(mine: Contract, below: Contract) -> bool:
    """Whether each case that the lower definition judges is one that the higher judges."""
    if mine.applies_to is None:
        # Nothing limits it; but it pulls in nothing either, which a packaged one never did.
        return below.applies_to is None or below.label == "packaged"
    return mine.applies_to.covers(below.applies_to or Applicability())


@dataclass(frozen=True, slots=True)
class _CorporaFile:
    document: Document
    corpora: Mapping[str, Corpus]


def _packaged_corpora(name: str, registry: Registry) -> _CorporaFile:
    """The corpora of one packaged file.

    Raises:
        InputError: It is not there, or has mistakes.
    """
    from pytest_evarness.source.document import load_document

    shown_name = f"packaged/corpora/{name}"
    document = load_document(_PACKAGED / "corpora" / name, shown=shown_name)
    found: dict[str, Corpus] = {}
    errors: list[InputError] = []
    for one, value in document.value["corpora"].items():
        corpus, faults = parse_corpus(value, registry)
        errors += [document.error(fault.under("corpora", one)) for fault in faults]
        if corpus is not None:
            found[str(one)] = corpus
    if errors:
        _raise(errors)
    return _CorporaFile(document, found)


def changed_files(
    rows: Iterable[tuple[str, str]],
    locations: Locations,
    contracts_folders: Sequence[Path],
    *,
    passed_over: Iterable[str] = (),
    beside: Iterable[Path] = (),
) -> list[str]:
    """Library files that are not what they were, each with what became of it.

    Args:
        rows: ``(name, sha256 hex)`` of what was read, as :meth:`Library.in_force` names it.
        passed_over: Names that were there and are in no row, such as those that did not load.
        beside: Folders of scenarios, in which a file of contracts would have been in force.

    Returns:
        ``NAME: changed | is gone | is new``, sorted.
    """
    known = dict(rows)
    now: dict[str, Path] = {}
    from pytest_evarness.source.document import shown_path

    for _, path, root, name in _layers(locations, contracts_folders):
        now[name or shown_path(path, root)] = path
    for folder in beside:
        for name in BESIDE_NAMES:
            if (folder / name).is_file():
                now[shown_path(folder / name, locations.root)] = folder / name
    found = []
    for name, digest in known.items():
        path = now.get(name, locations.root / name)
        try:
            is_same = sha256(path.read_bytes()).hexdigest() == digest
        except OSError:
            found.append(f"{name}: is gone")
            continue
        if not is_same:
            found.append(f"{name}: changed")
    there = {*known, *passed_over}
    found += [f"{name}: is new" for name in now if name not in there]
    return sorted(found)


def _layers(
    locations: Locations, contracts_folders: Sequence[Path]
) -> Iterator[tuple[str, Path, Path | None, str | None]]:
    """``(label, file, root, name)`` of every file above the packaged ones, lowest first."""
    if locations.home is not None:
        for name in BESIDE_NAMES:
            if os.path.lexists(locations.home / name):
                yield "home", locations.home / name, None, f"{_HOME}{name}"
    for folder in contracts_folders:
        if (locations.root / folder).is_dir():
            for path in _yaml_files(locations.root / folder, locations.root):
                yield "project", path, locations.root, None
    named = [name for name in _VARIABLES if locations.variables.get(name)]
    if len(named) == 1:
        start = locations.root / Path(locations.variables[named[0]])
        # What is named and is not there is told as a file that cannot be read.
        for path in _yaml_files(start, locations.root) if start.exists() else [start]:
            # A place outside the project is a path of this machine, and none of a report.
            is_inside = path.is_relative_to(locations.root)
            below = path.relative_to(start).as_posix()
            outside = _VARIABLE if below == "." else f"{_VARIABLE}/{below}"
            yield "variable", path, locations.root, None if is_inside else outside


def load_library(
    locations: Locations, contracts_folders: Sequence[Path], registry: Registry
) -> Library:
    """Read every layer; what cannot be read is kept as an error and breaks nothing else.

    Args:
        locations: Root, home and variables; folders beside are given when a contract is resolved.
        contracts_folders: The project's folders, relative to the root or absolute.
        registry: Knows event types and predicates.
    """
    files: list[LibraryFile] = []
    errors: list[InputError] = []
    unread: dict[Path, list[InputError]] = {}

    def take(path: Path, label: str, root: Path | None, shown_as: str | None) -> None:
        try:
            files.append(
                read_library_file(path, registry, label=label, root=root, shown_as=shown_as)
            )
            return
        except InputErrors as error:
            found = list(error.errors)
        except InputError as error:
            found = [error]
        errors.extend(found)
        unread[path] = found

    for path in sorted(_PACKAGED.glob("*.yaml")):
        take(path, "packaged", None, f"packaged/{path.name}")
    for label, path, root, name in _layers(locations, contracts_folders):
        take(path, label, root, name)
    for path, error in _not_looked_into(locations, contracts_folders):
        errors.append(error)
        unread[path] = [error]
    if locations.home is not None and all((locations.home / one).is_file() for one in BESIDE_NAMES):
        place = f"{_HOME}{BESIDE_NAMES[1]}"
        problem = f"stands beside '{BESIDE_NAMES[0]}' (one of the two)"
        errors.append(InputError(problem, where=Where(place)))
    if all(locations.variables.get(name) for name in _VARIABLES):
        errors.append(
            InputError(
                "$EVARNESS_CONTRACTS and $EVARNESS_INVARIANTS are both set (one of the two)",
                where=Where("$EVARNESS_INVARIANTS"),
            )
        )
    return Library(registry, files, errors, unread=unread, root=locations.root)


def _not_looked_into(
    locations: Locations, contracts_folders: Sequence[Path]
) -> Iterator[tuple[Path, InputError]]:
    """Folders within those of libraries whose contracts are not read, each with the reason."""
    from pytest_evarness.source.walk import look_below

    root = locations.root
    starts = [(root / folder, "") for folder in contracts_folders]
    named = [locations.variables[name] for name in _VARIABLES if locations.variables.get(name)]
    starts += [(root / name, _VARIABLE) for name in named]
    for start, label in starts:
        if not start.is_dir():
            if not label and os.path.lexists(start):
                from pytest_evarness.source.document import shown_path

                yield start, InputError(NO_FOLDER, where=Where(shown_path(start, root)))
            continue
        found = look_below(start, root)
        for (path, _), error in zip(found.refused, found.errors(root), strict=True):
            if label and not path.is_relative_to(root):
                place = Where(f"{label}/{path.relative_to(start).as_posix()}")
                yield path, InputError(error.problem, where=place, fix=error.fix)
            else:
                yield path, error


def problem_of_variable(variables: Mapping[str, str], root: Path) -> str | None:
    """Why the library that a variable names would judge nothing, in words; None where it may."""
    for name in _VARIABLES:
        value = variables.get(name)
        if not value:
            continue
        start = root / value
        if not os.path.exists(start):  # noqa: PTH110 - Path.exists raises for what is no path
            return f"${name}: no such file or folder (got '{value}'; seen from {root})"
        if not start.is_file() and not start.is_dir():
            return f"${name}: neither a file nor a folder (got '{value}')"
        if start.is_dir() and not _yaml_files(start, root):
            return f"${name}: the folder holds no file of contracts (got '{value}')"
    return None


def _yaml_files(place: Path, root: Path) -> list[Path]:
    """The files of a folder; a file that stands there instead, as what it is."""
    from pytest_evarness.source.walk import yaml_below

    if place.is_dir():
        return yaml_below(place, root)
    return [place] if place.exists() else []


def _folder_file(
    folder: Path, registry: Registry, label: str, root: Path | None
) -> tuple[LibraryFile | None, tuple[InputError, ...]]:
    """``contracts.yaml`` or ``invariants.yaml`` of a folder, if it has one."""
    # Something of another kind, or a link that leads nowhere, is told and not passed over.
    present = [name for name in BESIDE_NAMES if os.path.lexists(folder / name)]
    if not present:
        return None, ()
    if len(present) == 2:
        from pytest_evarness.source.document import shown_path

        place = shown_path(folder / present[1], root)
        return None, (
            InputError(f"stands beside '{present[0]}' (one of the two)", where=Where(place)),
        )
    try:
        path = folder / present[0]
        # A packaged harness lies outside the project: its place is none of a report's.
        is_outside = root is not None and not path.is_relative_to(root)
        name = f"{folder.name}/{path.name}" if is_outside else None
        file = read_library_file(path, registry, label=label, root=root, shown_as=name)
    except InputErrors as error:
        return None, error.errors
    except InputError as error:
        return None, (error,)
    return file, ()
