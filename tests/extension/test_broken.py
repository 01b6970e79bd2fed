"""A broken plug-in is told by its name and breaks nothing else; one test for each way to break."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.extension.installing import lines_about
from tests.plugin.scenarios import echo, gated, graph

if TYPE_CHECKING:
    from tests.extension.installing import Site
    from tests.plugin.ran import Ran

HEAD = "def register(registry):\n"

MODULES = {
    "bad_raise": HEAD + "    raise LookupError('no table')\n",
    "bad_shape": HEAD + "    registry.node_types.register('odd', 'a text')\n",
    "bad_taken": HEAD + "    registry.predicate('first')(lambda event: True)\n"
    "    registry.node_type('llm', doc='', inputs={}, outputs={})(lambda a, b, c: {})\n",
    "bad_import": "import nowhere_to_be_found\n",
    "bad_syntax": "def register(:\n",
    "bad_exit": "import sys\nsys.exit(0)\n",
    "bad_late_exit": HEAD + "    raise SystemExit(0)\n",
    "bad_skip": "import pytest\npytest.skip('not here', allow_module_level=True)\n",
    "bad_absent": "def other(registry): pass\n",
    "bad_value": "register = 'a text'\n",
    "bad_words": HEAD + "    raise ValueError('red \\x1b[31m\\nnext line')\n",
}

TOLD = {
    "bad_raise": "LookupError: no table",
    "bad_shape": "TypeError: node type 'odd': must be a NodeType (got 'a text';"
    " pytest_evarness.core.interfaces.NodeType)",
    "bad_taken": "ValueError: node type: the name is taken (got 'llm'; plug-in agents has it)",
    "bad_import": "ModuleNotFoundError: No module named 'nowhere_to_be_found'",
    "bad_syntax": "SyntaxError: invalid syntax",
    "bad_exit": "SystemExit: 0",
    "bad_late_exit": "SystemExit: 0",
    "bad_skip": "Skipped: not here",
    "bad_absent": "AttributeError: module 'bad_absent' has no attribute 'register'",
    "bad_value": "TypeError: must be a function of the registry (got 'a text';",
    "bad_words": "ValueError: red",
}

GOOD = {
    "evarness": 1,
    "id": "good",
    "subject": {
        "graph": graph(
            ("n1", "input", {}), ("n2", "acme_stamp", {"mark": "OK"}), ("n3", "output", {})
        )
    },
    "expect": {"status": "completed", "output": "OK Hello"},
}


@pytest.fixture(scope="module")
def beside(shared: Site) -> Ran:
    """One session with every broken plug-in installed, and one that is not."""
    shared.install("acme")
    for name, text in MODULES.items():
        shared.install_module(name, text)
    # Two by one name, and one by ours.
    shared.install_module(
        "twin_a",
        HEAD + "    registry.predicate('of_a')(lambda event: True)\n",
        twin="twin_a:register",
    )
    shared.install_module(
        "twin_b",
        HEAD + "    registry.predicate('of_b')(lambda event: True)\n",
        twin="twin_b:register",
    )
    shared.install_module(
        "impostor",
        HEAD + "    registry.predicate('of_c')(lambda event: True)\n",
        agents="impostor:register",
    )
    files = {"scenarios/good.yaml": GOOD, "scenarios/plain.yaml": echo()}
    return shared.session(files=files)


def test_the_rest_of_the_session_runs_and_holds(beside: Ran, shared: Site) -> None:
    assert beside.code == 0, beside.text
    assert beside.holds is True
    assert beside.counts == {"passed": 4}
    sealed = {row["name"]: row["version"] for row in beside.predicate["seal"]["plugins"]}
    assert sorted(sealed) == ["acme", "agents", "twin"]
    assert sealed["acme"] == "0.3.0"
    assert shared.verify(beside).result == "holds"


@pytest.mark.parametrize("name", MODULES)
def test_it_is_told_by_its_name_with_what_was_got(beside: Ran, name: str) -> None:
    (line,) = lines_about(beside.text, f"plug-in {name} ")
    assert line.startswith(f"evarness: plug-in {name} could not be loaded: {TOLD[name]}"), line
    assert "\x1b" not in line


def test_a_name_that_two_distributions_want_belongs_to_the_first(beside: Ran) -> None:
    (line,) = lines_about(beside.text, "^evarness: plug-in twin ")
    assert line == (
        "evarness: plug-in twin could not be loaded: the name is taken by evarness-twin_a"
        " (got it from evarness-twin_b)"
    )


def test_nobody_takes_the_place_of_the_domain_that_is_packaged(beside: Ran) -> None:
    (line,) = lines_about(beside.text, "^evarness: plug-in agents ")
    assert line == (
        "evarness: plug-in agents could not be loaded: the name is taken by pytest-evarness"
        " (got it from evarness-impostor)"
    )


def test_commands_tell_it_as_well(beside: Ran, shared: Site) -> None:
    done = shared.command("patterns")
    assert done.returncode == 0
    assert "stamp_desk" in done.stdout
    for name in MODULES:
        assert f"pytest-evarness: plug-in {name} could not be loaded: " in done.stderr
    assert beside.code == 0


def test_what_it_registered_before_it_broke_is_not_there(beside: Ran, shared: Site) -> None:
    del beside
    files = {
        "scenarios/half.yaml": echo(
            invariants={
                "half": {
                    "description": "asks a predicate of a plug-in that broke later",
                    "check": {
                        "type": "trace",
                        "assert": {
                            "every": {"match": {"type": "run_finished"}, "satisfies": "first"}
                        },
                    },
                }
            }
        )
    }
    ran = shared.session("scenarios/half.yaml", files=files, mirror=False)
    assert ran.code == 1
    assert "unknown predicate" in ran.text
    assert lines_about(ran.text, "unknown predicate.*first")


CLUMSY = """
from pytest_evarness.core.domain import PlainDomain
from pytest_evarness.core.interfaces import EnvironmentKey


class Clumsy(PlainDomain):
    name = "clumsy"

    def {method}:
        {body}


def register(registry):
    registry.domains.register("clumsy", Clumsy())
"""


def clumsy(method: str, body: str = "raise LookupError('lost')") -> str:
    return CLUMSY.replace("{method}", method).replace("{body}", body)


def test_a_domain_that_breaks_while_a_file_is_read_is_named_and_shows_no_trace(site: Site) -> None:
    site.install_module("clumsy", clumsy("check_case(self, graph, environment, overlays)"))
    ran = site.session(files={"scenarios/a.yaml": echo()}, mirror=False)
    assert ran.code == 1
    told = "a.yaml: plug-in clumsy raised LookupError while it was read (lost)"
    assert told in ran.text
    assert "site" not in ran.text.replace(str(site.root), "")


def test_a_domain_that_cannot_tell_what_was_exercised_costs_no_bundle(site: Site) -> None:
    site.install_module("clumsy", clumsy("exercised(self, graph, events)"))
    ran = site.session(files={"scenarios/a.yaml": echo()}, mirror=False)
    assert ran.code == 0, ran.text
    what = "what domain 'clumsy' knows of graph 'g' that no case exercised"
    assert f"{what}: cannot be told (LookupError)" in ran.predicate["not_proven"]
    assert site.verify(ran).result == "holds"
    ran = site.session("--evarness-min-coverage=10", files={}, mirror=False)
    assert ran.code == 1
    assert "cannot be told, at least 10 % needed: domain clumsy (LookupError)" in ran.text
    assert ran.holds is None
    assert site.verify(ran).result == "pending"


CLAIMS = """
from pytest_evarness.core.domain import PlainDomain


class Claiming(PlainDomain):
    name = "aclaim"  # sorted before ours
    counted = frozenset({"claims"})

    def coverage(self, graph, environment):
        return {"claims": ["one", "two"]}

    def exercised(self, graph, events):
        return {"claims": {"one", "two"}, %s}


def register(registry):
    registry.domains.register("aclaim", Claiming())
"""


@pytest.mark.parametrize(
    ("more", "code", "done"),
    [
        ("", 0, 17),
        ("'approval branches': {'n3:reject', 'n3:pending'}", 1, 15),
        ("'nodes': ()", 1, 15),
    ],
)
def test_a_domain_calls_nothing_exercised_that_is_not_its_own(
    site: Site, more: str, code: int, done: int
) -> None:
    site.install_module("aclaim", CLAIMS % more)
    scenario = gated()
    scenario["cases"] = {"approve": {}}
    files = {"scenarios/a.yaml": scenario}
    ran = site.session("--evarness-min-coverage=70", files=files, mirror=False)
    assert ran.code == code, ran.text
    assert ran.predicate["exercised"] == {"done": done, "total": 19, "told": not code}
    kind = more.split("'")[1] if more else ""
    told = f"needed: domain aclaim (it speaks of what is not its own: {kind})"
    assert (told in ran.text) == bool(more)


def test_a_key_that_is_taken_is_told_and_stays_whose_it_was(site: Site) -> None:
    key = "EnvironmentKey('seed', 'mine', lambda value: (value, []), {})"
    site.install_module("clumsy", clumsy("environment_keys(self)", f"return ({key},)"))
    ran = site.session(files={"scenarios/a.yaml": echo(environment={"seed": 7})}, mirror=False)
    assert ran.code == 0, ran.text
    (line,) = lines_about(ran.text, "^evarness: plug-in clumsy ")
    assert line == (
        "evarness: plug-in clumsy could not be loaded: environment key 'seed' is taken"
        " (got it twice)"
    )
    assert ran.predicate["cases"][0]["inputs"]["seed"] == 7


@pytest.mark.slow
def test_one_that_ends_the_process_does_not_end_the_session_green(site: Site) -> None:
    site.install_module("bad_end", "import os\n\n\n" + HEAD + "    os._exit(0)\n")
    ran = site.session(files={"scenarios/a.yaml": echo()})
    assert ran.code == 1
    (line,) = lines_about(ran.text, "^evarness: the session was ended")
    assert line == (
        "evarness: the session was ended by os._exit(0) of bad_end.register (line 5): nothing after"
        " this is judged, and the exit code is 1"
    )
