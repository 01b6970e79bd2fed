"""Where statements end, where values go, what a statement is."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.world.sql.text import (
    BindError,
    Dialect,
    bind,
    first_word,
    not_reading,
    outside,
    placeholder_mistake,
    split,
    written_table,
)

S, P, M = Dialect.SQLITE, Dialect.POSTGRES, Dialect.MYSQL


def texts(script: str, dialect: Dialect) -> list[str]:
    return [statement.text for statement in split(script, dialect)]


@pytest.mark.parametrize(
    ("dialect", "script", "expected"),
    [
        (S, "", []),
        (S, " ;; -- nothing;\n;", []),
        (S, "a; b", ["a", "b"]),
        (S, "select 'a;''b;'; x", ["select 'a;''b;'", "x"]),
        (S, 'select "a;", [b;], `c;`; x', ['select "a;", [b;], `c;`', "x"]),
        (S, "select 1 /* ; */ + 2; x", ["select 1 /* ; */ + 2", "x"]),
        (S, "select 1 -- ;\n + 2; x", ["select 1 -- ;\n + 2", "x"]),
        (
            S,
            (
                "CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE b SET c = CASE WHEN 1 THEN 2 END;"
                " DELETE FROM d; END; x"
            ),
            [
                (
                    "CREATE TRIGGER t AFTER INSERT ON a BEGIN"
                    " UPDATE b SET c = CASE WHEN 1 THEN 2 END; DELETE FROM d; END"
                ),
                "x",
            ],
        ),
        (S, "BEGIN; a; END; b", ["BEGIN", "a", "END", "b"]),
        (P, "do $$ begin; end; $$; x", ["do $$ begin; end; $$", "x"]),
        (P, "do $a$ $$;$$ $a$; x", ["do $a$ $$;$$ $a$", "x"]),
        (P, r"select E'\';'; x", [r"select E'\';'", "x"]),
        (P, r"select '\'; x", [r"select '\'", "x"]),
        (P, "select /* a /* ; */ ; */ 1; x", ["select /* a /* ; */ ; */ 1", "x"]),
        (P, "select a::text, $1; x", ["select a::text, $1", "x"]),
        (
            P,
            "create function f() returns int begin atomic select 1; end; x",
            ["create function f() returns int begin atomic select 1; end", "x"],
        ),
        (M, "select '\\';', \"b\\\";\"; x", ["select '\\';', \"b\\\";\"", "x"]),
        (M, "select 1 # ;\n; x", ["select 1", "x"]),
        (M, "select 5--1; x", ["select 5--1", "x"]),
        (M, "select 5 -- 1; x\n; y", ["select 5", "y"]),
        (
            M,
            (
                "DELIMITER //\ncreate trigger t before insert on a for each row begin x; y; end//\n"
                "delimiter ;\nz"
            ),
            ["create trigger t before insert on a for each row begin x; y; end", "z"],
        ),
        (
            M,
            "create procedure p() begin if 1 then x; end if; while 0 do y; end while; end; z",
            ["create procedure p() begin if 1 then x; end if; while 0 do y; end while; end", "z"],
        ),
    ],
)
def test_a_script_is_split_where_its_statements_end(
    dialect: Dialect, script: str, expected: list[str]
) -> None:
    assert texts(script, dialect) == expected


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("script", ["a;\nb 'c", 'a;\nb "c'])
def test_an_open_quote_is_told_with_its_line(dialect: Dialect, script: str) -> None:
    with pytest.raises(ValueError, match=r"^a quote or comment that begins in line 2 is not"):
        split(script, dialect)


def test_an_open_dollar_quote_and_an_open_nested_comment_are_told() -> None:
    for script in ("select $a$ ;", "select 1 /* /* */"):
        with pytest.raises(ValueError, match=r"is not closed$"):
            split(script, P)


def test_statements_know_their_lines() -> None:
    assert [one.line for one in split("a;\n\n-- b\nc;d", S)] == [1, 4, 4]


@given(st.text(alphabet="ab;'\"`[]$-/*#\n\\ begincas", max_size=40), st.sampled_from(list(Dialect)))
def test_any_text_is_split_without_loss(script: str, dialect: Dialect) -> None:
    try:
        found = texts(script, dialect)
    except ValueError as error:
        assert "is not closed" in str(error)  # noqa: PT017 - either answer is right
        return
    at = 0
    for text in found:
        at = script.index(text, at) + len(text)
        assert text
        assert text == text.strip()


@given(st.lists(st.sampled_from(["a", "'x;'", '"n;"', "/* ; */", "-- ;\n", " "]), max_size=12))
def test_sqlite_agrees_about_quotes_and_comments(parts: list[str]) -> None:
    script = " ".join(parts)
    # SQLite's own reader takes a text for complete where it ends with a terminator.
    assert not sqlite3.complete_statement(script)
    assert sqlite3.complete_statement(script + "\n;")
    assert len(split(script, S)) <= 1


@pytest.mark.parametrize("dialect", list(Dialect))
def test_values_take_the_place_of_placeholders_and_of_nothing_else(dialect: Dialect) -> None:
    text = "SELECT :a, ':a', x % 2, b /* :a */ -- :a\n, :b, :a"
    assert bind(text, {"a": 1, "b": 2}, dialect, "%s") == (
        "SELECT %s, ':a', x %% 2, b /* :a */ -- :a\n, %s, %s",
        [1, 2, 1],
    )
    assert bind("SELECT ?, '?', ?", ["x", None], dialect, "?") == (
        "SELECT ?, '?', ?",
        ["x", None],
    )
    assert bind("SELECT '%s', '?'", [], dialect, "%s") == ("SELECT '%s', '?'", [])


def test_a_cast_and_an_operator_are_no_placeholders() -> None:
    assert bind("SELECT :a::text, j ? 'k'", {"a": 1}, P, "%s") == (
        "SELECT %s::text, j ? 'k'",
        [1],
    )
    assert bind("SELECT j ? 'k', a[1:n]", [], P, "%s")[0] == "SELECT j ? 'k', a[1:n]"


@pytest.mark.parametrize(
    ("text", "params", "said"),
    [
        ("SELECT :a", {"b": 1}, "no value for :a (values: b)"),
        ("SELECT :a", {"a": 1, "b": 1}, "no placeholder :b for the value 'b'"),
        ("SELECT 1", [1], "placeholders and values differ in number (? 0, values 1)"),
        ("SELECT ?, ?", [1], "placeholders and values differ in number (? 2, values 1)"),
        ("SELECT :a", [], "no value for :a (params is empty)"),
        ("SELECT ?", {}, "no value for ? (params is empty)"),
    ],
)
def test_what_does_not_fit_is_said(text: str, params: object, said: str) -> None:
    with pytest.raises(BindError) as caught:
        bind(text, params, S, "?")  # type: ignore[arg-type]
    assert str(caught.value) == said
    assert placeholder_mistake("SELECT :a, ?", {"a": 1}, P) is None


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        " -- a comment\n SELECT 1 ; ",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "WITH a AS (SELECT replace('a', 'b', 'c')) SELECT * FROM a",
        "(SELECT 1)",
        "SELECT 'x; DELETE FROM t'",
        'SELECT "delete" FROM t',
        "VALUES (1)",
        "EXPLAIN SELECT 1",
    ],
)
def test_a_reading_statement_is_one(dialect: Dialect, query: str) -> None:
    assert not_reading(query, dialect) is None


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "there is no statement in it"),
        ("-- x", "there is no statement in it"),
        ("SELECT 1; SELECT 2", "it holds 2 statements"),
        ("SELECT 1; DELETE FROM t;", "it holds 2 statements"),
        ("DELETE FROM t", "it begins with DELETE"),
        ("update t set a = 1", "it begins with UPDATE"),
        ("CREATE TABLE t (a INT)", "it begins with CREATE"),
        ("SELECT * INTO u FROM t", "it writes its rows INTO something"),
        ("WITH a AS (SELECT 1) DELETE FROM t", "it holds DELETE"),
        ("SELECT 'a", "a quote or comment that begins in line 1 is not closed"),
    ],
)
def test_another_one_is_said_to_be_none(dialect: Dialect, query: str, said: str) -> None:
    assert not_reading(query, dialect) == said


def test_what_only_one_engine_has_is_said_too() -> None:
    writing = "WITH a AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM a"
    assert not_reading(writing, P) == "it holds INSERT"
    assert not_reading("SELECT /*!50000 1 */ 2", M) == (
        "it holds a comment that the server executes (/*! ... */)"
    )
    assert not_reading("SELECT LOAD_FILE('/x')", M) == "it reads a file of the server (LOAD_FILE)"
    assert not_reading("SELECT 1 INTO @a", M) == "it writes its rows INTO something"
    assert not_reading("SHOW TABLES", S) == "it begins with SHOW"
    assert not_reading("PRAGMA table_info(t)", P) == "it begins with PRAGMA"


@pytest.mark.parametrize(
    ("dialect", "statement", "said"),
    [
        (S, "ATTACH 'x' AS y", "ATTACH reaches another file"),
        (S, "VACUUM INTO 'x'", "VACUUM reaches another file"),
        (P, "COPY t FROM PROGRAM 'id'", "COPY reads or writes outside the database"),
        (P, "ALTER SYSTEM SET x = 1", "ALTER SYSTEM reaches beyond the database of the run"),
        (P, "create role r", "CREATE ROLE reaches beyond the database of the run"),
        (M, "DROP DATABASE x", "DROP DATABASE reaches beyond the database of the run"),
        (M, "CREATE SCHEMA x", "CREATE SCHEMA reaches beyond the database of the run"),
        (M, "USE x", "USE leaves the database of the run"),
        (M, "LOAD DATA INFILE 'x' INTO TABLE t", "LOAD reads a file"),
        (M, "SELECT 1 INTO OUTFILE 'x'", "it reads or writes a file of the server"),
    ],
)
def test_what_leaves_the_database_is_named(dialect: Dialect, statement: str, said: str) -> None:
    assert outside(statement, dialect) == said


@pytest.mark.parametrize(
    ("dialect", "statement"),
    [
        (S, "VACUUM"),
        (P, "CREATE SCHEMA x"),
        (P, "INSERT INTO copy VALUES ('COPY')"),
        (M, "INSERT INTO t VALUES ('INTO OUTFILE')"),
        (S, ""),
    ],
)
def test_what_stays_in_it_is_not(dialect: Dialect, statement: str) -> None:
    assert outside(statement, dialect) is None


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("INSERT INTO t (a) VALUES (1)", "t"),
        ("insert ignore into `a``b` values (1)", "a`b"),
        ("REPLACE t SET a = 1", "t"),
        ("UPDATE t SET a = 1", "t"),
        ("UPDATE d.t SET a = 1", "t"),
        ("DELETE FROM t WHERE a IN (SELECT a FROM u JOIN v)", "t"),
        ("UPDATE t, u SET t.a = 1", None),
        ("UPDATE t JOIN u ON t.a = u.a SET t.a = 1", None),
        ("SELECT 1", None),
        ("CREATE TABLE t (a INT)", None),
    ],
)
def test_the_table_of_a_statement_is_found(statement: str, table: str | None) -> None:
    assert written_table(statement, M) == table


def test_the_first_word_is_behind_comments_and_brackets() -> None:
    assert first_word("/* a */ ((Select 1))", P) == "select"
    assert first_word("'a'", P) == ""
