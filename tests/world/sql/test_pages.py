"""Every scenario on the pages about databases runs and holds, and their other claims are true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evarness.checks.sql import MAX_BYTES, MAX_ROWS, Sql
from pytest_evarness.world.sql import table
from pytest_evarness.world.sql.setting import DEFAULT_START_SECONDS, schema_of
from tests.world.sql.engines import Opener, dsn_of, need_wheel

if TYPE_CHECKING:
    from tests.plugin.ran import Session

DOCS = Path(__file__).parents[3] / "docs"
PAGES = [
    "services/sqlite.md",
    pytest.param("services/postgres.md", marks=pytest.mark.wheel),
    pytest.param("services/mysql.md", marks=pytest.mark.mysql),
    "checks/sql.md",
]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def fences(page: str, language: str) -> list[str]:
    return [found[2] for found in FENCE.finditer(text_of(page)) if found[1] == language]


@pytest.mark.parametrize("page", PAGES)
def test_the_example_of_a_page_holds(
    session: Session, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.endswith("postgres.md"):
        need_wheel()
    if page.endswith("mysql.md"):
        monkeypatch.setenv("EVARNESS_TEST_MYSQL_DSN", dsn_of("mysql"))
    (scenario,) = fences(page, "yaml")
    ran = session("--evarness-unsigned", files={"scenarios/s.yaml": scenario})
    assert (ran.code, ran.holds) == (0, True), ran.text
    assert set(ran.findings("scenarios/s.yaml::default").values()) == {"pass"}


def test_the_script_of_the_page_is_one(open_database: Opener) -> None:
    (script,) = fences("services/sqlite.md", "sql")
    database = open_database("sqlite", script)
    assert database.problem is None
    database.execute("INSERT INTO orders VALUES (1, 'tea')", [])
    with pytest.raises(Exception, match=r"^orders are kept$"):
        database.execute("DELETE FROM orders", [])


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql"])
def test_a_page_has_every_field_of_its_service(kind: str) -> None:
    text = text_of(f"services/{kind}.md")
    shown = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    properties = schema_of(kind)["properties"]
    assert isinstance(properties, dict)
    assert shown == set(properties) - {"type"}
    if kind != "sqlite":
        assert f"| `start_seconds` | {DEFAULT_START_SECONDS:g} |" in text


def test_the_page_of_the_check_has_every_field() -> None:
    text = text_of("checks/sql.md")
    properties = Sql().schema["properties"]
    assert isinstance(properties, dict)
    fields = text.partition("| field | meaning |")[2].partition("\n\n")[0]
    shown = set(re.findall(r"^\| `(\w+)` \|", fields, re.MULTILINE))
    # "unordered" stands beside "rows", "timeout" belongs to every check.
    assert shown == (set(properties) - {"type", "unordered"}) | {"timeout"}
    assert "`unordered: true`" in fields


def test_the_bounds_are_those_that_the_pages_name() -> None:
    assert (MAX_ROWS, MAX_BYTES) == (table.MAX_ROWS, table.MAX_BYTES) == (1000, 256 * 1024)
    for page in ("services/sqlite.md", "checks/sql.md"):
        assert re.search(r"1,000 rows (or|and) 256 KiB", text_of(page))
