"""``patterns`` lists what is packaged and shows what each one teaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evarness.core.registry import packaged_registry

if TYPE_CHECKING:
    from tests.cli.conftest import Command

NAMES = packaged_registry().patterns.names()


def test_each_is_listed_with_its_fixtures(command: Command) -> None:
    done = command("patterns")
    assert done.code == 0
    for name in NAMES:
        assert name in done.out
    assert "fixtures: happy (default), failure" in done.out
    assert [row["name"] for row in command("patterns", "--json").json] == NAMES


def test_each_has_a_lesson(command: Command) -> None:
    for name in NAMES:
        done = command("patterns", name)
        assert done.code == 0
        assert "# " in done.out
        assert command("patterns", name, "--json").json["lesson"] in done.out


def test_an_edge_is_shown_with_the_ports_that_it_names(command: Command) -> None:
    lines = command("patterns", "rag_with_citations").out.splitlines()
    edges = command("patterns", "rag_with_citations", "--json").json["graph"]["edges"]
    for edge in edges:
        named = edge.get("to_port", "in") != "in"
        ports = f" (to_port: {edge['to_port']})" if named else ""
        assert f"  {edge['from']} -> {edge['to']}{ports}" in lines
    assert {edge.get("to_port", "in") for edge in edges} >= {"in", "documents"}


def test_an_unknown_name_is_refused(command: Command) -> None:
    done = command("patterns", "approval_gated_sent")
    assert (done.code, done.out) == (2, "")
    assert "try: write 'approval_gated_send'" in done.err
