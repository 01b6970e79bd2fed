"""Where contracts come from: packaged, home, project, named by a variable, beside a graph.

A higher layer may say the same again, with another owner or severity. It may never say something
else under the same id, nor soften what is hard below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.contract.model import Contract, parse_contract
from pytest_evarness.core.json import shown
from pytest_evarness.core.matcher import same
from pytest_evarness.core.registry import nearest
from pytest_evarness.errors import Fault, InputError, InputErrors, Where

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Locations, Shape
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.source.document import Document

__all__ = [
    "BESIDE_NAMES",
    "LAYERS",
    "TOP_KEYS",
    "Library",
    "LibraryFile",
    "check_library_file",
    "load_library",
    "read_library_file",
]

LAYERS: Final = ("packaged", "home", "project", "variable", "beside")
"""Lowest first."""

TOP_KEYS: Final = ("contracts", "invariants")
BESIDE_NAMES: Final = ("contracts.yaml", "invariants.yaml")
_VARIABLES: Final = ("EVARNESS_CONTRACTS", "EVARNESS_INVARIANTS")
_PACKAGED: Final = Path(__file__).parent / "packaged"


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

    def value_of(self, name: str) -> Any:
        """What stands under an id."""
        return self.document.value[self.top][name]

    @property
    def ids(self) -> list[str]:
        """Every id of the file, readable or not, in its order."""
        return [str(name) for name in self.document.value[self.top]]

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
    return _read(document, registry, label, declared_types)


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
        if key not in TOP_KEYS:
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
    if not present:
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
    for name, entry in entries.items():
        contract, faults = parse_contract(
            str(name), entry, registry=registry, declared_types=declared, label=label
        )
        if contract is None:
            broken[str(name)] = tuple(document.error(fault.under(top, name)) for fault in faults)
            errors.extend(broken[str(name)])
            continue
        line = document.where((top, name), at_key=True).line or 1
        contracts[contract.id] = contract.placed(label=label, path=shown_name, line=line)
        lacking = [key for key in ("owner", "rationale") if not getattr(contract, key)]
        if lacking and label in ("packaged", "home", "project", "variable"):
            warnings.append(
                f"{shown_name}:{line}: contract '{contract.id}' has no {' and no '.join(lacking)}"
            )
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


def check_library_file(path: Path, registry: Registry, *, root: Path | None = None) -> None:
    """Read a file of contracts for its mistakes alone.

    Raises:
        InputError: With every mistake.
    """
    found = read_library_file(path, registry, label="project", root=root)
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
        warnings: Sentences for the user.
    """

    def __init__(
        self, registry: Registry, files: Sequence[LibraryFile], errors: list[InputError]
    ) -> None:
        self.registry = registry
        self.files = tuple(files)
        self.errors = errors
        for file in self.files:
            self.errors.extend(file.errors)
        self.warnings = [warning for file in self.files for warning in file.warnings]
        self._beside: dict[Path, tuple[LibraryFile | None, tuple[InputError, ...]]] = {}
        self._resolved: dict[Any, Contract] = {}

    def ids(self, beside: Sequence[Path] = ()) -> list[str]:
        """Every id that resolves, sorted."""
        files = [*self.files, *self._read_beside(beside)[0]]
        return sorted({name for file in files for name in file.contracts})

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
                says something else than the same id in a lower layer.
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
        winner = self._winner(id, candidates)
        return self._with_identities(id, winner, identities, tuple(shapes), aliases or {})

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

    def _winner(self, name: str, candidates: Sequence[LibraryFile]) -> LibraryFile:
        lowest = candidates[0]
        below = lowest.contracts[name]
        for file in candidates[1:]:
            mine = file.contracts[name]
            place = f"{below.path}:{below.line}"
            if file.label == lowest.label and file.label != "beside":
                raise file.error(
                    name,
                    Fault((), f"the id is defined in {place} too", f"'{name}'", at_key=True),
                )
            if not same(mine.body, below.body):
                raise file.error(
                    name,
                    Fault(
                        ("assert",),
                        f"says something else than '{name}' in {place}",
                        rule="another definition needs 'overrides', which is not in this version",
                        fix="give it an id of its own",
                        at_key=True,
                    ),
                )
            if below.gate and (not mine.gate or mine.status != "active"):
                key = "gate" if not mine.gate else "status"
                raise file.error(
                    name,
                    Fault(
                        (key,),
                        f"softens '{name}', which is hard in {place}",
                        "false" if key == "gate" else f"'{mine.status}'",
                        "a hard contract cannot be softened",
                    ),
                )
            lowest, below = file, mine
        return candidates[-1]

    def _with_identities(
        self,
        name: str,
        file: LibraryFile,
        identities: Mapping[str, frozenset[str]] | None,
        shapes: tuple[Shape, ...],
        aliases: Mapping[str, str],
    ) -> Contract:
        plain = file.contracts[name]
        if not identities:
            return plain
        key = (
            *(file.shown, file.sha256, name),
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
            )
            if contract is None:
                _raise([file.error(name, fault) for fault in faults])
            assert contract is not None, "faults were raised"
            found = contract.placed(label=plain.label, path=plain.path, line=plain.line)
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

    root: Path | None = None
    """Messages name files beside a scenario relative to it."""


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

    def take(path: Path, label: str, root: Path | None, shown_as: str | None = None) -> None:
        try:
            files.append(
                read_library_file(path, registry, label=label, root=root, shown_as=shown_as)
            )
        except InputErrors as error:
            errors.extend(error.errors)
        except InputError as error:
            errors.append(error)

    for path in sorted(_PACKAGED.glob("*.yaml")):
        take(path, "packaged", None, f"packaged/{path.name}")
    if locations.home is not None:
        file, faults = _folder_file(locations.home, registry, "home", None, "~/.evarness/")
        files.extend([file] if file is not None else [])
        errors.extend(faults)
    for folder in contracts_folders:
        for path in _yaml_files(locations.root / folder):
            take(path, "project", locations.root)
    named = [name for name in _VARIABLES if locations.variables.get(name)]
    if len(named) == 2:
        errors.append(
            InputError(
                "$EVARNESS_CONTRACTS and $EVARNESS_INVARIANTS are both set (one of the two)",
                where=Where("$EVARNESS_INVARIANTS"),
            )
        )
    elif named:
        path = locations.root / Path(locations.variables[named[0]])
        for one in _yaml_files(path) if path.is_dir() else [path]:
            take(one, "variable", locations.root)
    library = Library(registry, files, errors)
    library.root = locations.root
    return library


def _yaml_files(folder: Path) -> Iterable[Path]:
    if not folder.is_dir():
        return []
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in (".yaml", ".yml") and path.is_file()
    )


def _folder_file(
    folder: Path,
    registry: Registry,
    label: str,
    root: Path | None,
    prefix: str | None = None,
) -> tuple[LibraryFile | None, tuple[InputError, ...]]:
    """``contracts.yaml`` or ``invariants.yaml`` of a folder, if it has one."""
    present = [name for name in BESIDE_NAMES if (folder / name).is_file()]
    if not present:
        return None, ()

    def named(name: str) -> str | None:
        return None if prefix is None else f"{prefix}{name}"

    if len(present) == 2:
        from pytest_evarness.source.document import shown_path

        place = named(present[1]) or shown_path(folder / present[1], root)
        return None, (
            InputError(f"stands beside '{present[0]}' (one of the two)", where=Where(place)),
        )
    try:
        file = read_library_file(
            folder / present[0], registry, label=label, root=root, shown_as=named(present[0])
        )
    except InputErrors as error:
        return None, error.errors
    except InputError as error:
        return None, (error,)
    return file, ()
