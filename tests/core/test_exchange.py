"""What departs from the schema of a plug-in's part is told key by key, and nothing else is."""

from __future__ import annotations

from typing import Any

from pytest_evarness.core.exchange import parser_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "patternProperties": {"^x-": {"type": "integer"}, "[0-9]$": {}},
    "additionalProperties": False,
}


def said(config: dict[str, Any], schema: dict[str, Any] = SCHEMA) -> list[str]:
    _, faults = parser_of(schema)(config)
    return [f"{'.'.join(map(str, fault.path))}: {fault.text}" for fault in faults]


def test_a_key_that_a_pattern_admits_is_not_called_unknown() -> None:
    config = {"x-1": 1, "n7": "a", "nme": "b", "zzz": 2}
    assert said(config) == [
        "nme: unknown key (got 'nme'; known: name)",
        "zzz: unknown key (got 'zzz'; known: name)",
    ]
    # The twin: without the patterns each of them is one.
    plain = {key: value for key, value in SCHEMA.items() if key != "patternProperties"}
    assert len(said(config, plain)) == len(config)


def test_what_a_pattern_admits_is_held_to_its_schema() -> None:
    assert said({"x-a": 1, "name": "b"}) == []
    assert said({"x-a": "1"}) == ['x-a: is not what the type takes (got "1"; type: "integer")']
