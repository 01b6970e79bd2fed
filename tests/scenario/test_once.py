"""One mistake is told once: what depends on a broken value is no mistake of its own."""

from __future__ import annotations

from typing import Any

import pytest

WORLD = """
environment:
  user_input: Send the Q3 report
  approvals: {n3: approve}
  tools:
    email.send:
      - result: [{id: a}]
        effects:
          - sql: {service: db, statement: "INSERT INTO t VALUES (:q)", params: {q: "{query}"}}
          - http: {service: mail, method: POST, path: /m}
          - file: {path: out/a.txt, write: a}
  workspace: {files: {README: hi}}
  services:
    db: {type: sqlite, init: "CREATE TABLE t (a TEXT)"}
    mail: {type: http_mock, routes: [{method: POST, path: /m, status: 202}]}
  judge: [{scores: {score: 1}}]
invariants:
  rows:
    description: One row
    gate: true
    check: {type: sql, service: db, query: "SELECT count(*) FROM t", equals: 1}
  asked:
    description: One request
    check:
      type: http_mock_assertions
      service: mail
      assertions: [{field: request_count, equals: 1}]
  filed:
    description: A file
    check: {type: file_exists, path: out/a.txt}
  tone:
    description: It is polite
    check: {type: llm_as_judge, criteria: Is it polite?}
  honest:
    description: The claim is so
    check: {type: account, claims: {contains: a}, needs: [rows, asked]}
forbidden: {http_except: [mail], db_writes_outside: [db.t], file_writes_outside: [out]}
"""

BROKEN = {
    "a type of service": ("type: sqlite", "type: sqlite3", "write 'sqlite'"),
    "no type": ("{type: sqlite, ", "{", "required key 'type' is missing"),
    "no known type": (
        "type: http_mock, routes",
        "type: smtp, routes",
        "unknown type of service (got 'smtp'",
    ),
    "a route": ("status: 202", "status_code: 202", "write 'status'"),
    "init": ('init: "CREATE TABLE t (a TEXT)"', "init: t.sql", "init: [t.sql]"),
    "the key": ("  services:", "  service:", "write 'services'"),
    "a key of the workspace": ("{files: {README", "{file: {README", "write 'files'"),
    "a path of the workspace": ("{README: hi}", "{/README: hi}", "is absolute"),
    "the workspace": ("  workspace:", "  workspce:", "write 'workspace'"),
    "a gate": ("gate: true", "gate: yes", "write 'true' without quotes"),
    "a key of an entry": ("gate: true", "gates: true", "write 'gate'"),
    "the type of a check": ("{type: sql, service", "{service", "required key 'type'"),
    "a gate of a judge": ("It is polite\n", "It is polite\n    gate: true\n", "give it a weight"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_value_is_the_only_mistake(project: Any, minimal: str, name: str) -> None:
    before, after, told = BROKEN[name]
    assert WORLD.count(before) == 1
    found = project.refused(minimal + WORLD.replace(before, after))
    assert told in found
    assert len([line for line in found.splitlines() if line.startswith("s.yaml:")]) == 1, found


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("sql: {service: db", "sql: {service: dbb", "unknown service (got 'dbb'"),
        ("      service: mail", "      service: mial", "unknown service (got 'mial'"),
        ("http_except: [mail]", "http_except: [mial]", "names no service (got 'mial'"),
        ("needs: [rows,", "needs: [rwos,", "names no other invariant of this case (got 'rwos'"),
    ],
)
def test_what_is_wrong_by_itself_is_told_beside_it(
    project: Any, minimal: str, before: str, after: str, told: str
) -> None:
    text = WORLD.replace("type: sqlite", "type: sqlite3").replace("gate: true", "gate: yes")
    assert text.count(before) == 1
    found = project.refused(minimal + text.replace(before, after))
    assert told in found
    assert "write 'sqlite'" in found
    assert "write 'true' without quotes" in found


def test_without_a_mistake_it_loads(project: Any, minimal: str) -> None:
    """The twin: none of these mistakes stands in what they are put into."""
    assert project.one(minimal + WORLD).id == "default"


def test_a_decision_at_a_gate_of_a_misspelt_type(project: Any) -> None:
    project.write("g.json", (project.root / "graphs/send.json").read_text())
    graph = project.root / "g.json"
    graph.write_text(graph.read_text().replace('"approval_gate"', '"approval-gate"'))
    text = "evarness: 1\nsubject: {graph: g.json}\nenvironment: {approvals: {n3: approve}}\n"
    found = project.refused(text)
    assert "write 'approval_gate'" in found
    assert "a decision is for" not in found
    graph.write_text(graph.read_text().replace('"approval-gate"', '"output_parser"'))
    assert "a decision is for an approval gate (got 'n3'" in project.refused(text)


def test_a_gate_that_a_case_takes_back_is_told(project: Any, minimal: str) -> None:
    text = minimal + WORLD + "cases: {x: {invariants: {rows: {gate: false}}}}\n"
    assert "a gate of a lower layer cannot be softened" in project.refused(text)


def test_fields_of_a_check_beside_it(project: Any, minimal: str) -> None:
    entry = (
        "invariants:\n  a:\n    description: x\n    type: sql\n    service: db\n    gates: true\n"
    )
    found = project.refused(minimal + entry)
    assert (
        "invariants.a: belongs under 'check', with the other fields of the check (got 'sql')"
        in (found)
    )
    assert "write 'check: {type: sql, ...}'" in found
    assert "got 'gates'" in found
    assert "'service'" not in found
