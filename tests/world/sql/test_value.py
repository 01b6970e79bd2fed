"""Values and tables as they stand in snapshots and records."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.core import c1
from pytest_evarness.core.secret import Masker
from pytest_evarness.world.sql import table as table_module
from pytest_evarness.world.sql.part import State, state_record
from pytest_evarness.world.sql.table import Table, read_table
from pytest_evarness.world.sql.value import Dated, cell, moment, plain


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("2026-01-31", "date", "2026-01-31"),
        ("2026-01-31 10:00:00", "timestamp", "2026-01-31 10:00:00"),
        ("2026-01-31 10:00:00.500", "timestamp", "2026-01-31 10:00:00.5"),
        ("2026-01-31 10:00:00.000000", "timestamp", "2026-01-31 10:00:00"),
        ("2026-01-31 10:00:00.25+00", "timestamp", "2026-01-31 10:00:00.25+00:00"),
        ("2026-01-31 10:00:00.100+05:30", "timestamp", "2026-01-31 10:00:00.1+05:30"),
        ("-12:00:00.120", "time", "-12:00:00.12"),
        ("infinity", "timestamp", "infinity"),
        ("P1DT2H", "interval", "P1DT2H"),
    ],
)
def test_a_moment_has_one_spelling(text: str, kind: str, expected: str) -> None:
    found = moment(text, kind)
    assert (str(found), found.kind) == (expected, kind)


@given(st.datetimes(), st.integers(min_value=0, max_value=6))
def test_the_digits_of_a_fraction_say_the_same(when: dt.datetime, places: int) -> None:
    step = 10 ** (6 - places)
    when = when.replace(microsecond=when.microsecond // step * step)
    padded = when.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
    if places:
        padded += f".{when.microsecond:06d}"[: places + 1]
    assert dt.datetime.fromisoformat(str(moment(padded, "timestamp"))) == when


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, {"t": "null", "v": None}),
        (True, {"t": "boolean", "v": True}),
        (1, {"t": "integer", "v": "1"}),
        (2**70, {"t": "integer", "v": str(2**70)}),
        (Decimal("1.50"), {"t": "decimal", "v": "1.50"}),
        (Decimal("1E+3"), {"t": "decimal", "v": "1000"}),
        (Decimal("NaN"), {"t": "decimal", "v": "NaN"}),
        (0.1 + 0.2, {"t": "float", "v": "0.30000000000000004"}),
        (float("inf"), {"t": "float", "v": "inf"}),
        ("1", {"t": "text", "v": "1"}),
        (b"\0\xff", {"t": "bytes", "v": "AP8="}),
        (Dated("2026-01-31", "date"), {"t": "date", "v": "2026-01-31"}),
    ],
)
def test_a_cell_names_its_type(value: Any, expected: dict[str, Any]) -> None:
    assert cell(value) == expected
    assert c1.text(cell(value)) == c1.text(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**53, 2**53),
        (2**53 + 1, str(2**53 + 1)),
        (Decimal("1.50"), "1.50"),
        (0.5, 0.5),
        (float("nan"), "nan"),
        (b"a", {"base64": "YQ=="}),
        (Dated("2026-01-31", "date"), "2026-01-31"),
    ],
)
def test_a_snapshot_holds_what_every_reader_keeps(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    assert c1.text([plain(value)]) == c1.text([expected])


ROWS = [(3, "c"), (1, "a"), (2, None), (1, "a")]


def read(rows: Sequence[Any] = ROWS, *, is_ordered: bool = False, **more: Any) -> Table:
    return read_table("t", ["id", "name"], rows, is_ordered=is_ordered, **more)


def test_rows_without_a_key_are_in_the_order_of_their_texts() -> None:
    found = read()
    assert found.rows == ('[1,"a"]', '[1,"a"]', "[2,null]", '[3,"c"]')
    assert read(list(reversed(ROWS))) == found
    assert read(ROWS[:3]).digest != found.digest
    assert read(is_ordered=True).rows == tuple(c1.text(list(row)) for row in ROWS)


def test_a_table_larger_than_memory_has_the_same_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(number * 7919 % 1000, "é\n" * 5) for number in range(1000)]
    whole = read(rows)
    monkeypatch.setattr(table_module, "_CHUNK_BYTES", 500)
    assert read(rows) == whole


@pytest.mark.parametrize(("bound", "value"), [("MAX_ROWS", 3), ("MAX_BYTES", 20)])
def test_beyond_a_bound_the_digest_alone_is_kept(
    monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    whole = read()
    monkeypatch.setattr(table_module, bound, value)
    found = read()
    assert (found.rows, found.count, found.digest) == (None, 4, whole.digest)


def test_a_secret_is_not_hashed() -> None:
    masker = Masker({"KEY": "hunter22"})
    masked = read([(1, "hunter22")], masker=masker)
    assert masked.digest == read([(1, "«secret:KEY»")]).digest
    assert masked.digest != read([(1, "hunter22")]).digest
    # The rows are the true ones: whoever lets them out masks them.
    assert masked.rows == ('[1,"hunter22"]',)


def test_a_snapshot_says_what_was_there_at_the_start() -> None:
    before, after = read(ROWS[:1]), read()
    record: Any = state_record("sqlite", State({"t": after}), State({"t": before, "gone": before}))
    assert record["type"] == "sqlite"
    assert record["dropped"] == ["gone"]
    (told,) = record["tables"]
    assert told["start"] == {"count": 1, "digest": before.digest}
    assert told["rows"] == [[1, "a"], [1, "a"], [2, None], [3, "c"]]
    anew: Any = state_record("sqlite", State({"t": after}), State())
    assert [table["start"] for table in anew["tables"]] == [None]
