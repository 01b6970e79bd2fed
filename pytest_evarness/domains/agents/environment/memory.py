"""What was remembered before the run: episodes, facts, instructions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field

from pytest_evarness.core.interfaces import EnvironmentKey
from pytest_evarness.domains.agents.environment.rule import schema_of
from pytest_evarness.domains.agents.memory import salience_of, subject_key
from pytest_evarness.domains.agents.text import plain
from pytest_evarness.errors import Fault
from pytest_evarness.source.model import Absent, Strict, parse_model, refuse
from pytest_evarness.source.quote import quoted, shown

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json

__all__ = ["memory_keys"]


def _not_blank(value: str) -> str:
    if not value.strip():
        raise refuse("must be a text that is not blank")
    return value


_Word = Annotated[str, AfterValidator(_not_blank), Field(json_schema_extra={"pattern": "\\S"})]


class _Episode(Strict):
    id: Absent[_Word] = None
    text: _Word
    salience: Absent[Annotated[float, Field(ge=0, le=1)]] = None


class _Fact(Strict):
    id: Absent[_Word] = None
    subject: _Word
    text: _Word


class _Instruction(Strict):
    id: Absent[_Word] = None
    text: _Word


def _read_list(
    value: Json, model: type[Strict], rule: str, *, may_be_text: bool
) -> tuple[list[tuple[int, dict[str, Any]]], list[Fault]]:
    """Each entry with its place; a text is the entry ``{text}`` where that is a form of it."""
    if not isinstance(value, list):
        return [], [Fault((), "must be a list", got=shown(value), rule=rule)]
    entries: list[tuple[int, dict[str, Any]]] = []
    faults: list[Fault] = []
    for index, written in enumerate(value):
        as_mapping = {"text": written} if may_be_text and isinstance(written, str) else written
        found = parse_model(model, as_mapping)[1]
        faults += (fault.under(index) for fault in found)
        if not found and isinstance(as_mapping, Mapping):
            entries.append((index, plain(as_mapping)))
    return entries, faults


def _named(
    entries: Iterable[tuple[int, dict[str, Any]]], prefix: str
) -> tuple[list[Json], list[Fault]]:
    """Entries with an id each: their own, else ``PREFIX-n``, n from 1."""
    made: list[Json] = []
    faults = []
    taken: set[str] = set()
    for index, entry in entries:
        name = entry.get("id", f"{prefix}-{index + 1}")
        if name in taken:
            path: tuple[str | int, ...] = (index, "id") if "id" in entry else (index,)
            faults.append(Fault(path, "the id is taken by an earlier entry", got=quoted(name)))
        taken.add(name)
        made.append({**entry, "id": name})
    return made, faults


def _parse_episodic(value: Json) -> tuple[Json, list[Fault]]:
    rule = "of texts, or {id, text, salience}"
    entries, faults = _read_list(value, _Episode, rule, may_be_text=True)
    made, found = _named(
        ((index, {"salience": salience_of(one["text"]), **one}) for index, one in entries),
        "episode",
    )
    return made, faults + found


def _parse_instructions(value: Json) -> tuple[Json, list[Fault]]:
    rule = "of texts, or {id, text}"
    entries, faults = _read_list(value, _Instruction, rule, may_be_text=True)
    made, found = _named(entries, "instruction")
    return made, faults + found


def _parse_facts(value: Json) -> tuple[Json, list[Fault]]:
    if isinstance(value, Mapping):
        return _facts_by_subject(value)
    rule = "a mapping of subjects to texts, or a list of {id, subject, text}"
    entries, faults = _read_list(value, _Fact, rule, may_be_text=False)
    if not isinstance(value, list):
        faults = [Fault((), "must be a mapping or a list", got=shown(value), rule=rule)]
    by_subject: set[str] = set()
    for index, entry in entries:
        key = subject_key(entry["subject"])
        if key in by_subject:
            got = quoted(entry["subject"])
            faults.append(Fault((index, "subject"), "two facts have one subject", got=got))
        by_subject.add(key)
    made, found = _named(((index, {"id": one["subject"], **one}) for index, one in entries), "fact")
    return made, faults + found


def _facts_by_subject(value: Mapping[str, Json]) -> tuple[Json, list[Fault]]:
    faults: list[Fault] = []
    subjects: dict[str, str] = {}
    for subject, text in value.items():
        if not subject.strip():
            problem = "a subject must not be blank"
            faults.append(Fault((subject,), problem, got=shown(subject), at_key=True))
        elif not isinstance(text, str) or not text.strip():
            problem = "must be a text that is not blank"
            faults.append(Fault((subject,), problem, got=shown(text)))
        elif subject_key(subject) in subjects:
            problem = (
                f"two facts have one subject, also as {quoted(subjects[subject_key(subject)])}"
            )
            faults.append(Fault((subject,), problem, got=quoted(subject), at_key=True))
        else:
            subjects[subject_key(subject)] = subject
    # By subject: the order of a mapping must not matter.
    made: list[Json] = [
        {"id": subject, "subject": subject, "text": value[subject]}
        for subject in sorted(subjects.values())
    ]
    return made, faults


def memory_keys() -> tuple[EnvironmentKey, ...]:
    """The keys that say what memories hold when the run begins."""
    word = {"type": "string", "pattern": "\\S"}
    return (
        EnvironmentKey(
            "episodic",
            "What an episodic memory held before the run.",
            _parse_episodic,
            {"type": "array", "items": {"anyOf": [word, schema_of(_Episode)]}},
        ),
        EnvironmentKey(
            "facts",
            "What a semantic memory held before the run.",
            _parse_facts,
            {
                "anyOf": [
                    {"type": "object", "additionalProperties": word},
                    {"type": "array", "items": schema_of(_Fact)},
                ]
            },
        ),
        EnvironmentKey(
            "instructions",
            "What a procedural memory held before the run.",
            _parse_instructions,
            {"type": "array", "items": {"anyOf": [word, schema_of(_Instruction)]}},
        ),
    )
