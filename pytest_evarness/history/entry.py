"""A slice as files: an entry of a corpus, and a trace that ``check`` reads.

Values are written as JSON inside YAML, so that no text is taken for a number, a date or a word of
the language.

Source: docs/contracts.md, "Corpora"; docs/history.md, "slice".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.outcome import Outcome

if TYPE_CHECKING:
    from pytest_evarness.core.trace import TraceEvent
    from pytest_evarness.history.slicing import Sliced, Target

__all__ = [
    "corpus_text",
    "entry_name",
    "entry_of",
    "kind_of",
    "quoted",
    "short_event",
    "trace_text",
]

_OWN_KEYS = ("type", "node", "payload")
# What JSON lets stand and YAML does not, or a reader does not see.
_ODD = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
_WIDTH = 100
_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
_LEFT_OUT = ("id", "assert", "corpus")
_DEFAULTS: Mapping[str, Any] = {
    "version": 1,
    "title": "",
    "description": "",
    "owner": "",
    "rationale": "",
    "threat": "",
    "severity": "major",
    "gate": True,
    "enforced_by": [],
    "status": "active",
    "vacuous": "pass",
    "history": [],
}


def quoted(value: Any) -> str:
    """A value as JSON that YAML reads alike."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _ODD.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def block(value: Any, indent: int) -> Iterator[str]:
    """A mapping or list as lines of YAML; what fits into one line stays in one."""
    pad = " " * indent
    if isinstance(value, Mapping):
        pairs = [(f"{pad}{_key(key)}:", part) for key, part in value.items()]
    else:
        pairs = [(f"{pad}-", part) for part in value]
    for head, part in pairs:
        flow = quoted(part)
        is_leaf = not isinstance(part, Mapping | list) or not part
        if is_leaf or len(head) + len(flow) < _WIDTH:
            yield f"{head} {flow}"
        else:
            yield head
            yield from block(part, indent + 2)


def _key(key: Any) -> str:
    return (
        str(key) if re.fullmatch(r"[a-z][a-z_]*", str(key)) and key not in _WORDS else quoted(key)
    )


def kind_of(sliced: Sliced) -> str:
    """Which kind of entry the slice is."""
    return "negative" if sliced.finding.outcome is Outcome.FAIL else "missing_evidence"


def entry_name(target: Target) -> str:
    """A name that a corpus takes, after the case that it was cut from."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", str(target.case.planned["case"])).strip("-.")
    return f"sliced-from-{plain or 'a-case'}"[:200]


def short_event(event: TraceEvent) -> dict[str, Any]:
    """An event in the short form: keys other than its own go into the payload."""
    payload = dict(event["payload"])
    short: dict[str, Any] = {"type": event["type"]}
    if event["node_id"] is not None:
        short["node"] = event["node_id"]
    hidden = {key: payload.pop(key) for key in _OWN_KEYS if key in payload}
    # Four keys alone would read as an event of a trace.
    if hidden or {"seq", "node_id"} & payload.keys():
        short["payload"] = {**hidden, **payload}
        return short
    return {**short, **payload}


def entry_of(sliced: Sliced) -> dict[str, Any]:
    """The entry as a mapping: ``{events, open}``."""
    events = sliced.events[:-1] if sliced.is_supplied else sliced.events
    entry: dict[str, Any] = {"events": [short_event(event) for event in events]}
    if sliced.is_open:
        entry["open"] = True
    return entry


def corpus_text(target: Target, sliced: Sliced, *, origin: str) -> str:
    """A file of contracts with the one contract, its corpus holding the slice.

    Args:
        origin: Where it was cut from, for a remark at the top.
    """
    return "".join(f"{line}\n" for line in _corpus_lines(target, sliced, origin))


def _corpus_lines(target: Target, sliced: Sliced, origin: str) -> Iterator[str]:
    definition: Any = target.judged.item.definition
    yield f"# {_remark(origin)}"
    yield "contracts:"
    yield f"  {quoted(str(definition['id']))}:"
    for key in sorted(definition, key=list(definition).index):
        if key not in _LEFT_OUT and definition[key] != _DEFAULTS.get(key):
            yield f"    {key}: {quoted(definition[key])}"
    yield f"    assert: {quoted(definition['assert'])}"
    entry = entry_of(sliced)
    yield "    corpus:"
    yield f"      {kind_of(sliced)}:"
    yield f"        {quoted(entry_name(target))}:"
    if entry.get("open"):
        yield "          open: true"
    if not entry["events"]:
        yield "          events: []"
        return
    yield "          events:"
    for event in entry["events"]:
        yield f"            - {quoted(event)}"


def _remark(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def trace_text(target: Target, sliced: Sliced) -> str:
    """The slice as a trace file of one run."""
    header = {
        "trace": 1,
        "run_id": f"{target.judged.nodeid} (slice)",
        "closed": not sliced.is_open,
    }
    lines = [json.dumps(header)]
    lines += [json.dumps(dict(event), sort_keys=True) for event in sliced.events]
    return "".join(f"{line}\n" for line in lines)
