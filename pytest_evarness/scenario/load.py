"""Scenario file to compiled cases; nothing runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.core import c1
from pytest_evarness.core.bulk import bulk
from pytest_evarness.errors import DeterminismError, Fault, InputError, InputErrors, Where
from pytest_evarness.scenario.compile import Compiler, Layer, LoadContext
from pytest_evarness.scenario.identifier import check_case_id, check_id
from pytest_evarness.scenario.matrix import (
    MAX_CASES,
    SHORT_NAMES,
    Axis,
    parse_matrix,
    points,
)
from pytest_evarness.scenario.shape import CASE_KEYS, SECTIONS, TOP_KEYS
from pytest_evarness.source.document import Document, load_document, raise_all
from pytest_evarness.source.model import unknown_key
from pytest_evarness.source.quote import nearest, one_of, quoted, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_evarness.scenario.case import Case
    from pytest_evarness.source.place import Mark

__all__ = ["LoadContext", "compile_mapping", "load_scenario", "parse_mapping"]


@bulk()
def load_scenario(path: Path, *, context: LoadContext) -> list[Case]:
    """Load and compile a scenario file.

    Raises:
        InputError: It cannot be used; every independent mistake is told.
        UsageError: A decision of the command line has another form.
    """
    name = _name_in(context.root, path)
    kept: list[InputError] = []
    document = load_document(path, shown=name, kept=kept)
    loader = _Loader(document, context, folder=path.parent, name=name, stem=path.stem)
    try:
        cases = loader.load()
    except InputError as error:
        # A value that was refused while reading is told once, not again for what was made of it.
        told = {_place_of(one) for one in kept}
        found = error.errors if isinstance(error, InputErrors) else (error,)
        raise_all([*kept, *(one for one in found if _place_of(one) not in told)])
        raise
    raise_all(kept)
    return cases


def _place_of(error: InputError) -> tuple[str | None, int | None, int | None]:
    where = error.where or Where()
    return where.path, where.line, where.column


def _name_in(root: Path, path: Path) -> str:
    """``path`` as seen from the root, without a folder of this machine where that can be."""
    try:
        return Path(os.path.relpath(path, root)).as_posix()
    except ValueError:  # another drive
        return path.name


def compile_mapping(
    value: Mapping[str, Any], *, context: LoadContext, beside: Path | None = None
) -> list[Case]:
    """Compile a scenario written in Python, as if it lay in the folder ``beside``.

    ``evarness`` and ``id`` may be left out.

    Raises:
        InputError: It cannot be used; every independent mistake is told.
    """
    document = parse_mapping(value)
    if isinstance(document.value, dict):
        document.value.setdefault("evarness", 1)
    loader = _Loader(document, context, folder=beside or context.root, name="", stem="inline")
    return loader.load()


def parse_mapping(value: object) -> Document:
    """A private copy of a value written in Python, as a document without lines.

    Raises:
        InputError: It holds what no document can.
    """
    try:
        return Document(c1.copied(value, ""), None)
    except DeterminismError as error:
        raise InputError(error.problem, where=error.where) from None


class _Loader:
    """Reads one file down to its cases."""

    def __init__(
        self, document: Document, context: LoadContext, *, folder: Path, name: str, stem: str
    ) -> None:
        self.document = document
        self.stem = stem
        self.compiler = Compiler(document, context, folder=folder, name=name)
        self.places = self.compiler.places
        self.errors = self.compiler.errors

    # -- the file -------------------------------------------------------------------------------

    def load(self) -> list[Case]:
        value = self.document.value
        if not isinstance(value, dict):
            raise self.document.error(
                Fault(
                    (), "must be a mapping", got=shown(value), rule="keys: evarness, subject, ..."
                )
            )
        if "evarness" not in value:
            near = nearest("evarness", [key for key in value if isinstance(key, str)])
            raise self.document.error(
                Fault(
                    (),
                    "no key evarness",
                    fix=f"write 'evarness' for '{near}'" if near else "add 'evarness: 1'",
                )
            )
        self._top()
        cases: list[Case] = []
        axes = self._axes()
        layers = self._layers()
        count = len(layers) * _product(axes)
        if count > MAX_CASES:
            self.compiler.at_top(
                Fault(
                    ("matrix",), "gives too many cases", got=str(count), rule=f"at most {MAX_CASES}"
                )
            )
            raise_all(self.errors)
        taken: dict[str, str] = {}
        for layer in layers:
            for point in points(axes):
                case_id = layer.id + point.suffix
                if case_id in taken:
                    self.compiler.at_top(
                        Fault(
                            ("cases", layer.id),
                            "two cases have one id",
                            got=quoted(case_id),
                            rule=f"case {quoted(taken[case_id])} gives it too",
                            at_key=True,
                        )
                    )
                    continue
                problem = check_case_id(case_id)
                if problem is not None:
                    self.compiler.at_top(
                        Fault(("matrix",), f"the id of a point {problem}", got=quoted(case_id))
                    )
                    continue
                taken[case_id] = layer.id
                case = self.compiler.compile(layer, point)
                if case is not None:
                    cases.append(case)
        if not self.errors:
            self.compiler.check_judged(layers, cases)
        raise_all(self.errors)
        assert len(cases) == count, "a case that is not there would be a case that did not fail"
        return cases

    def _top(self) -> None:
        value = self.document.value
        for key in value:
            if key in SECTIONS:
                continue
            fault = unknown_key((), key, TOP_KEYS)
            if key in SHORT_NAMES or key in self.compiler.environment.keys:
                fault = Fault(
                    (key,),
                    "unknown key",
                    got=quoted(key),
                    rule="it belongs under environment",
                    fix=f"write 'environment: {{{key}: ...}}'",
                    at_key=True,
                    code="unknown_key",
                )
            self.compiler.at_top(fault)
        for key in ("evarness", "id"):
            if key in value:
                _, faults = self.compiler.section(key, value[key])
                for fault in faults:
                    self.compiler.at_top(fault.under(key))
        given = value.get("id", self.stem)
        self.compiler.scenario_id = given if isinstance(given, str) else self.stem
        if "id" not in value:
            problem = check_id(self.compiler.scenario_id)
            if problem is not None:
                self.compiler.at_top(
                    Fault((), f"the file's name gives no id: it {problem}", fix="write 'id'")
                )
        kept = {
            key: value[key]
            for key in value
            if key in SECTIONS and key not in ("evarness", "id", "cases", "matrix")
        }
        marks = self.places.marks_of(value)
        if isinstance(marks, dict):
            self.places.note(kept, {key: mark for key, mark in marks.items() if key in kept})
        self.compiler.base = kept
        if "cases" in value or "matrix" in value:
            self._check_base(kept)

    def _check_base(self, base: Mapping[str, Any]) -> None:
        """Tell mistakes of the scenario even where every case replaces what is wrong."""
        for key, value in base.items():
            if key == "environment":
                if isinstance(value, dict):
                    # Null removes a key of the fixture, which is not looked at here.
                    given = {name: entry for name, entry in value.items() if entry is not None}
                    _, faults = self.compiler.environment.parse(given)
                    for fault in faults:
                        self.compiler.at_top(fault.under(key))
            elif key == "invariants" and isinstance(value, dict):
                for entry_id, entry in value.items():
                    _, faults = self.compiler.entry(entry_id, entry)
                    for fault in faults:
                        self.compiler.at_top(fault.under(key, entry_id))
            else:
                _, faults = self.compiler.section(key, value)
                for fault in faults:
                    self.compiler.at_top(fault.under(key))

    def _axes(self) -> tuple[Axis, ...]:
        if "matrix" not in self.document.value:
            return ()
        axes, faults = parse_matrix(self.document.value["matrix"], self.places, CASE_KEYS)
        for fault in faults:
            self.compiler.at_top(fault.under("matrix"))
        return axes

    def _layers(self) -> list[Layer]:
        value = self.document.value
        if "cases" not in value:
            self.compiler.case_ids = {"default": None}
            return [Layer("default", {}, {}, self.document.root)]
        cases = value["cases"]
        if not isinstance(cases, dict) or not cases:
            problem = "must not be empty" if cases == {} else "must be a mapping"
            self.compiler.at_top(Fault(("cases",), problem, got=shown(cases), rule="{ID: case}"))
            cases = {"default": {}}  # so that the mistakes of the rest are told as well
        layers: list[Layer] = []
        self.compiler.case_ids = cases
        for case_id, case in cases.items():
            problem_with_id = check_case_id(case_id)
            if problem_with_id is not None:
                self.compiler.at_top(
                    Fault(
                        ("cases", case_id),
                        f"the id of the case {problem_with_id}",
                        got=quoted(case_id),
                        at_key=True,
                    )
                )
                continue
            if not isinstance(case, dict):
                self.compiler.at_top(
                    Fault(
                        ("cases", case_id),
                        "must be a mapping",
                        got=shown(case),
                        fix=f"write '{case_id}: {{}}'" if case is None else None,
                    )
                )
                continue
            mark = self.places.child(cases, case_id)
            layers.append(Layer(case_id, case, self._overlay(case_id, case), mark))
        return layers

    def _overlay(self, case_id: str, case: dict[str, Any]) -> dict[str, Any]:
        """A case as a layer over the scenario: short names written out."""
        overlay: dict[str, Any] = {}
        marks: dict[str, Mark] = {}
        inner: dict[str, Any] = {}
        inner_marks: dict[str, Mark] = {}
        case_marks = self.places.marks_of(case)
        known = case_marks if isinstance(case_marks, dict) else {}
        environment = case.get("environment")
        if "environment" in case and not isinstance(environment, dict):
            short = [key for key in case if key in SHORT_NAMES]
            if environment is not None or short:
                self.compiler.at_top(
                    Fault(
                        ("cases", case_id, "environment"),
                        "must be a mapping",
                        got=shown(environment),
                        rule=f"{quoted(short[0])} is set beside it" if short else None,
                    )
                )
        if isinstance(environment, dict):
            found = self.places.marks_of(environment)
            inner.update(environment)
            inner_marks.update(found if isinstance(found, dict) else {})
        for key, value in case.items():
            if key in SHORT_NAMES:
                if isinstance(environment, dict) and key in environment:
                    self.compiler.at_top(
                        Fault(
                            ("cases", case_id, key),
                            "is set in both spellings",
                            got=quoted(key),
                            rule=f"{quoted(f'environment.{key}')} is there too; only one of them",
                            at_key=True,
                        )
                    )
                    continue
                inner[key] = value
                if key in known:
                    inner_marks[key] = known[key]
                    marks.setdefault("environment", known[key])
                overlay.setdefault("environment", inner)
            elif key in CASE_KEYS:
                overlay[key] = inner if key == "environment" and isinstance(value, dict) else value
                if key in known:
                    marks[key] = known[key]
            else:
                fault = unknown_key(("cases", case_id), key, (*CASE_KEYS, *SHORT_NAMES))
                if key in TOP_KEYS:
                    fault = Fault(
                        ("cases", case_id, key),
                        f"a case has no {quoted(key)}",
                        rule=f"known: {one_of((*CASE_KEYS, *SHORT_NAMES))}",
                        at_key=True,
                        code="unknown_key",
                    )
                elif key in self.compiler.environment.keys:
                    fault = Fault(
                        ("cases", case_id, key),
                        "unknown key",
                        got=quoted(key),
                        rule="it belongs under environment",
                        fix=f"write 'environment: {{{key}: ...}}'",
                        at_key=True,
                        code="unknown_key",
                    )
                self.compiler.at_top(fault)
        if isinstance(environment, dict) and inner:
            overlay["environment"] = inner
        if inner:
            self.places.note(inner, inner_marks)
        self.places.note(overlay, marks)
        return overlay


def _product(axes: tuple[Axis, ...]) -> int:
    count = 1
    for axis in axes:
        count *= len(axis.values)
    return count
