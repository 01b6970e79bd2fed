"""A path or a pattern stands for entries of the workspace, and for nothing outside it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_evarness.checks.tree import Glob, Tree, path_faults, read_glob


def entry(path: str, kind: str = "file", **more: Any) -> dict[str, Any]:
    return {"path": path, "type": kind, **more}


def link(path: str, target: str) -> dict[str, Any]:
    return entry(path, "symlink", target=target)


def tree(*entries: dict[str, Any], **more: Any) -> Tree:
    return Tree({"files": list(entries), "removed": [], **more})


# -- paths -------------------------------------------------------------------------------------


def test_a_path_of_the_sandbox_is_told_as_the_workspace_has_it() -> None:
    (fault,) = path_faults("/workspace/out/a.txt", "path")
    assert (fault.problem, fault.fix) == ("is absolute", "write 'out/a.txt'")
    for other in ("/workspace", "/workspace/../a", "/etc/passwd"):
        assert path_faults(other, "path")[0].fix is None


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("../run-10/secret.txt", "leads out of the workspace"),
        ("sub/../../run-10/secret.txt", "leads out of the workspace"),
        ("sub/../a.txt", "leads out of the workspace"),
        ("/etc/hostname", "is absolute"),
        ("C:/x", "is absolute"),
        ("..", "leads out of the workspace"),
        ("a\\..\\b", "holds a backslash"),
        ("a\0b", "holds a NUL character"),
        ("a//b", "has an empty component"),
        ("./a", "has an empty component"),
        (".git/HEAD", "belongs to git"),
        ("*.txt", "a path names one file"),
    ],
)
def test_a_path_that_may_lead_elsewhere_is_refused_by_name(path: str, problem: str) -> None:
    (fault,) = path_faults(path, "path")
    assert fault.problem == problem
    assert fault.path == ("path",)
    assert fault.got is not None


@pytest.mark.parametrize(
    "path", ["a", "a/b.txt", "..a", "a..", "...", "~", "é/ü", "a b", "[x]", "-rf", ".hidden"]
)
def test_an_ordinary_path_is_none_of_these(path: str) -> None:
    assert path_faults(path, "path") == []


# -- globs -------------------------------------------------------------------------------------


def glob(text: str) -> Glob:
    made, faults = read_glob(text)
    assert made is not None, faults
    return made


@pytest.mark.parametrize(
    ("text", "held", "missed"),
    [
        ("*.txt", ["a.txt", ".txt", ".a.txt"], ["a.txt2", "d/a.txt", "txt"]),
        ("out/*", ["out/a", "out/.b"], ["out", "out/a/b"]),
        ("**/*.txt", ["a.txt", "d/a.txt", "d/e/a.txt"], ["a.txt/b"]),
        ("**", ["a", "a/b", "a/b/c"], []),
        ("out/**", ["out/a", "out/a/b"], ["out", "output/a"]),
        ("a/**/b/*", ["a/b/c", "a/x/b/c", "a/b/b/c"], ["a/b", "a/b/c/d"]),
        ("?.py", ["a.py", "é.py"], ["ab.py", ".py"]),
        ("[ab]*", ["a", "bc"], ["c", "A"]),
        ("[!ab]*", ["c", "A"], ["a"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[]]", ["]"], ["["]),
        ("[!]]", ["["], ["]"]),
        ("[[]x]", ["[x]"], ["x"]),
        ("[*]", ["*"], ["a"]),
        ("*a*b*", ["ab", "xaxbx"], ["ba"]),
        ("[-a]", ["-", "a"], ["b"]),
    ],
)
def test_a_pattern_stands_for(text: str, held: list[str], missed: list[str]) -> None:
    made = glob(text)
    assert [path for path in held if not made.matches(path)] == []
    assert [path for path in missed if made.matches(path)] == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("../*", "leads out of the workspace"),
        ("/*", "is absolute"),
        ("a.txt", "has no '*', '?' or '[...]'"),
        ("a**", "has '**' inside a component"),
        ("{a,b}*", "has a brace, which stands for nothing else here"),
        ("*[a", "has a '[' without its ']'"),
        ("**/../*", "leads out of the workspace"),
    ],
)
def test_a_pattern_that_would_surprise_is_refused(text: str, problem: str) -> None:
    made, (fault,) = read_glob(text)
    assert made is None
    assert fault.problem == problem


def slow(wanted: str, given_: str) -> bool:
    """What a pattern stands for, straight from its definition; only * and ** and ?."""

    def parts(pattern: list[str], path: list[str]) -> bool:
        if not pattern:
            return not path
        if pattern[0] == "**":
            if len(pattern) == 1:
                return bool(path)
            return any(parts(pattern[1:], path[at:]) for at in range(len(path) + 1))
        return bool(path) and chars(pattern[0], path[0]) and parts(pattern[1:], path[1:])

    def chars(pattern: str, name: str) -> bool:
        if not pattern:
            return not name
        if pattern[0] == "*":
            return any(chars(pattern[1:], name[at:]) for at in range(len(name) + 1))
        fits = bool(name) and pattern[0] in ("?", name[0])
        return fits and chars(pattern[1:], name[1:])

    return parts(wanted.split("/"), given_.split("/"))


names = st.text("ab", min_size=1, max_size=3)
paths = st.lists(names, min_size=1, max_size=4).map("/".join)
components = st.text("ab*?", min_size=1, max_size=4).filter(lambda text: "**" not in text)
patterns = st.lists(components | st.just("**"), min_size=1, max_size=4).map("/".join)


@given(patterns.filter(lambda text: "*" in text or "?" in text), paths)
@example("**/a/**", "a")
@example("**/**", "a")
@example("a/**/**", "a/b")
def test_patterns_mean_what_their_definition_says(text: str, path: str) -> None:
    assert glob(text).matches(path) is slow(text, path)


def test_a_pattern_takes_no_time_out_of_proportion() -> None:
    # A backtracking matcher would not come back from either.
    assert not glob("*a" * 60 + "b").matches("a" * 250)
    assert not glob("**/a/" * 40 + "b").matches("/".join("a" * 120))


# -- links -------------------------------------------------------------------------------------

LINKED = tree(
    entry("d", "directory"),
    entry("d/f"),
    entry("d/e", "directory"),
    entry("d/e/g"),
    link("to-file", "d/f"),
    link("to-folder", "d"),
    link("d/e/up", "../f"),
    link("twice", "to-folder/e"),
    link("dangling", "nowhere"),
    link("absolute", "/etc/passwd"),
    link("out", "../run-10/secret.txt"),
    link("d/out", "../../x"),
    link("sly", "d/../../ws/d/f"),
    link("self", "self"),
    link("ping", "pong"),
    link("pong", "ping"),
    link("here", "."),
    link("through", "d/f/x"),
    link("back", "d/../to-file"),
    link("past", "d/f/../f"),
)


@pytest.mark.parametrize(
    ("path", "state", "real"),
    [
        ("d/f", "there", "d/f"),
        ("to-file", "there", "d/f"),
        ("to-folder/f", "there", "d/f"),
        ("to-folder/e/up", "there", "d/f"),
        ("twice/g", "there", "d/e/g"),
        ("back", "there", "d/f"),
        ("here/d/f", "there", "d/f"),
        ("here/here/d", "there", "d"),
        ("d/none", "missing", ""),
        ("d/f/x", "missing", ""),
        ("dangling", "dangling", ""),
        ("dangling/x", "dangling", ""),
        ("through", "dangling", ""),
        ("past", "dangling", ""),
        ("absolute", "outside", ""),
        ("out", "outside", ""),
        ("d/out", "outside", ""),
        ("sly", "outside", ""),
        ("self", "loop", ""),
        ("ping/x", "loop", ""),
    ],
)
def test_links_are_followed_inside_the_workspace_alone(path: str, state: str, real: str) -> None:
    place = LINKED.find(path)
    assert (place.state, place.real) == (state, real)


def test_what_stands_in_the_way_is_named() -> None:
    assert LINKED.find("d/f/x").why == "'d/f' is a file"
    assert LINKED.find("d/none").why is None
    assert (LINKED.find("to-file").link, LINKED.find("to-file").target) == ("to-file", "d/f")


def test_the_thing_itself_is_not_what_it_leads_to() -> None:
    itself = LINKED.itself("dangling")
    assert itself is not None
    assert itself["type"] == "symlink"
    itself = LINKED.itself("to-folder/e/up")
    assert itself is not None
    assert itself["type"] == "symlink"
    assert LINKED.itself("dangling/x") is None


targets = st.lists(st.sampled_from(["..", ".", "a", "b", "c", ""]), min_size=1, max_size=5).map(
    "/".join
)


@given(targets, targets, st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join))
def test_no_link_leads_to_anything_but_entries(one: str, other: str, path: str) -> None:
    made = tree(
        entry("a", "directory"), link("a/b", one or "."), link("b", other or "."), entry("a/c")
    )
    place = made.find(path)
    if place.state == "there":
        assert place.real in {"", "a", "a/c"}
        assert ".." not in place.real


# -- what nobody can tell ----------------------------------------------------------------------


def test_below_a_folder_that_cannot_be_read_nothing_is_known() -> None:
    made = tree(entry("d", "directory", unreadable=True), entry("e"))
    assert made.find("d/x").state == "hidden"
    assert made.doubt == "'d' cannot be read"
    assert tree(entry("d", "directory"), entry("e")).find("d/x").state == "missing"
    assert tree(entry("d", "directory")).doubt is None


def test_beyond_the_entries_that_are_listed_nothing_is_known() -> None:
    made = tree(entry("d"), beyond={"count": 7, "digest": "sha256:00"})
    assert made.find("e").state == "hidden"
    assert made.doubt == "7 more entries are not listed one by one"


def test_a_pattern_leaves_out_what_is_gits_own() -> None:
    made = tree(entry(".git", "directory"), entry(".git/HEAD"), entry("a"))
    assert list(made.matching(glob("**"))) == ["a"]


def test_a_name_that_was_probably_meant_is_told() -> None:
    made = tree(entry("Report.TXT"), entry("caf\u00e9.md"), entry("zzz"))
    assert made.like("report.txt") == "Report.TXT"
    assert made.like("cafe\u0301.md") == "caf\u00e9.md"
    assert made.like("1234567890") is None
