"""What ran is what the enclosed scenario says, or the bundle is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pytest_evarness
from pytest_evarness.bundle import verify
from pytest_evarness.bundle.compiled import check_compiled
from pytest_evarness.bundle.key import SigningKey, make_key
from pytest_evarness.core import c1
from pytest_evarness.core.registry import Registry, packaged_registry
from pytest_evarness.errors import EvarnessError, UnverifiedError
from tests.bundle import builder
from tests.bundle.builder import APPROVE, Spec, changed
from tests.plugin.ran import statement_of
from tests.plugin.scenarios import write

if TYPE_CHECKING:
    from pytest_evarness.bundle.verify import Report

Change = Callable[[dict[str, Any]], object]
REGISTRY = packaged_registry()


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return make_key(tmp_path_factory.mktemp("keys") / "signing.pem")


def reported(change: Change, spec: Spec, key: SigningKey, patch: pytest.MonkeyPatch) -> Report:
    """A bundle whose scenario's text was changed before it was sealed, run as it was."""
    made = builder.scenario_of

    def scenario_of(one: Spec) -> str:
        text = json.loads(made(one))
        change(text)
        return c1.text(text)

    patch.setattr(builder, "scenario_of", scenario_of)
    statement = builder.statement_of(spec)
    assert statement["predicate"]["verdict"]["holds"] is True
    return builder.verified(builder.bundle_of(statement, key), key.public)


def _environment(**fields: Any) -> Change:
    return lambda text: text["environment"].update(fields)


def _top(**fields: Any) -> Change:
    return lambda text: text.update(fields)


def _without(name: str) -> Change:
    return lambda text: text["environment"].pop(name)


def _more_nodes(text: dict[str, Any]) -> None:
    gate = {"id": "n9", "type": "approval_gate", "config": {"prompt": "?"}}
    text["subject"]["graph"]["nodes"].append(gate)


def _other_edge(text: dict[str, Any]) -> None:
    text["subject"]["graph"]["edges"][0]["to"] = "n4"


def _other_config(text: dict[str, Any]) -> None:
    text["subject"]["graph"]["nodes"][1]["config"]["prompt"] = "Really?"


FORGED: list[tuple[Change, str]] = [
    (_environment(user_input="delete everything"), "environment.user_input: is not what"),
    (_environment(clock="2030-01-01T00:00:00Z"), "environment.clock: is not what"),
    (_environment(approvals={"n3": "reject"}), "environment.approvals: is not what"),
    (_without("approvals"), "environment.approvals: is in what ran alone"),
    (_environment(params={}), "environment.params: is not what"),
    (_environment(seed=7), "seed: is 42, and the scenario gives 7"),
    (_environment(provider="sim:other"), 'provider: is "sim:helpful-v1", and the scenario gives'),
    (_environment(schedule="reverse"), 'schedule: is "canonical", and the scenario gives'),
    (_environment(tools={"email.send": [{"result": "x"}]}), "environment.tools: is not what"),
    (_without("tools"), "environment.tools: is in what ran alone"),
    (_environment(faults={"email.send": {"fail_after": {"first": 1}}}), "environment.faults: "),
    (_environment(services={"db": {"type": "sqlite"}}), "is in the scenario alone"),
    (_environment(workspace={"files": {"a.txt": "x"}}), "environment.workspace: is in the"),
    (_environment(nonsense=1), "environment.nonsense: is a key that nothing reads"),
    (_environment(approvals="all"), "environment.approvals: what is written cannot be read"),
    (_without("fixture"), 'fixture: is "send", and the scenario gives ""'),
    (_top(id="other"), 'scenario: is "send", and the scenario gives "other"'),
    (_top(budget={"events": 5}), "budget: is "),
    (_top(policy={"revision": "2027-01"}), 'policy_revision: is "2026-11", and the scenario gives'),
    (_top(secrets=["TOKEN"]), 'secrets: is [], and the scenario gives ["TOKEN"]'),
    (_more_nodes, "graph: is another one than is written"),
    (_other_edge, "graph: is another one than is written"),
    (_other_config, "graph: is another one than is written"),
    (_top(subject={"graph": {"ir_version": 1}}), "graph: what is written cannot be read"),
    (_top(subject={}), "graph: what is written cannot be read"),
]


@pytest.mark.parametrize(("change", "said"), FORGED)
def test_what_ran_is_what_is_written(
    change: Change, said: str, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        step, detail = builder.refused_by(reported(change, APPROVE, key, patch))
    assert step == "findings"
    assert f"{APPROVE.nodeid}: inputs.compiled." in detail
    assert said in detail


def test_nothing_else_notices_it(key: SigningKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: the bundle agrees with itself in every other way."""
    monkeypatch.setattr(verify, "check_compiled", lambda *_: [])
    report = reported(_environment(user_input="delete everything"), APPROVE, key, monkeypatch)
    assert report.result == "holds"


def test_what_is_written_otherwise_and_means_the_same_is_accepted(
    key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same(text: dict[str, Any]) -> None:
        text["environment"] |= {"seed": 42, "schedule": "canonical"}
        text["budget"] = {"events": 10_000}

    report = reported(same, APPROVE, key, monkeypatch)
    assert report.result == "holds"
    assert "inputs.fixture: what fixtures are called" in report.taken_on_word


def test_a_graph_in_a_file_is_taken_on_the_signers_word(
    key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = reported(_top(subject={"graph": "graphs/send.json"}), APPROVE, key, monkeypatch)
    assert report.result == "holds"
    said = f'{APPROVE.file}: that the enclosed graph is that of "graphs/send.json"'
    assert said in report.taken_on_word


def test_with_a_plug_in_it_is_taken_on_the_signers_word() -> None:
    statement = builder.statement_of(APPROVE)
    predicate = statement["predicate"]
    case = predicate["cases"][0]
    case["inputs"]["scenario"] = case["inputs"]["scenario"].replace('"tools"', '"theirs"')
    with pytest.raises(UnverifiedError, match="theirs: is a key that nothing reads"):
        check_compiled(predicate, builder.registry())
    predicate["seal"]["plugins"].append({"name": "theirs", "version": "1"})
    said = f"{APPROVE.nodeid}: that it was compiled from its scenario, with a plug-in"
    assert said in check_compiled(predicate, builder.registry())


def test_secrets_are_the_written_ones_in_their_order(key: SigningKey) -> None:
    spec = changed(APPROVE, secrets=("B", "A"))
    statement = builder.statement_of(spec)
    assert builder.verified(builder.bundle_of(statement, key), key.public).result == "holds"
    predicate = statement["predicate"]
    inputs = predicate["cases"][0]["inputs"]
    inputs["scenario"] = inputs["scenario"].replace('["B","A"]', '["A","B"]')
    with pytest.raises(UnverifiedError, match="secrets: is"):
        check_compiled(predicate, builder.registry())


# -- files ---------------------------------------------------------------------------------------

WORLD: dict[str, Any] = {
    "evarness": 1,
    "id": "world",
    "subject": {
        "graph": {
            "ir_version": 1,
            "id": "g",
            "nodes": [{"id": "a", "type": "input"}, {"id": "b", "type": "output"}],
            "edges": [{"from": "a", "to": "b"}],
        }
    },
    "environment": {
        "fixture": "base.yaml",
        "workspace": {"files": {"notes/own.txt": "mine"}},
        "services": {"db": {"type": "sqlite", "init": ["t.sql"]}},
    },
    "matrix": {"environment.params.tier": ["pro", "free"]},
    "expect": {"status": "completed"},
}


@pytest.fixture(scope="module", params=[False, True], ids=["files", "from"])
def statement(request: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("files")
    made = copy.deepcopy(WORLD)
    if request.param:
        made["environment"]["workspace"]["from"] = "folder"
        (root / "scenarios" / "folder" / "notes").mkdir(parents=True)
        (root / "scenarios" / "folder" / "notes" / "own.txt").write_text("theirs")
        (root / "scenarios" / "folder" / "b.bin").write_bytes(b"\xff\x00")
    write(root / "scenarios" / "w.yaml", made)
    write(root / "scenarios" / "base.yaml", {"user_input": "from the fixture", "seed": 3})
    (root / "scenarios" / "t.sql").write_text("CREATE TABLE t (a TEXT);", encoding="utf-8")
    path = Path("scenarios/w.yaml")
    result = pytest_evarness.run(root / path, "default.tier-pro", root=root, rerun="inline")
    return statement_of(result.bundle(root / "proof.json"))


def _scenario(made: dict[str, Any], change: Change) -> None:
    inputs = made["predicate"]["cases"][0]["inputs"]
    text = json.loads(inputs["scenario"])
    change(text["environment"])
    inputs["scenario"] = c1.text(text)


def _materials(made: dict[str, Any], change: Change) -> None:
    predicate = made["predicate"]
    digest = predicate["cases"][0]["inputs"]["materials"]
    row = next(row for row in predicate["texts"] if row["digest"] == digest)
    text = json.loads(row["text"])
    change(text)
    row["text"] = c1.text(text)


def _own_text(environment: dict[str, Any]) -> None:
    environment["workspace"]["files"]["notes/own.txt"] = "another"


def _own_file(environment: dict[str, Any]) -> None:
    environment["workspace"]["files"]["more.txt"] = "x"


def _under_git(environment: dict[str, Any]) -> None:
    environment["workspace"]["git"] = True


def _other_script(environment: dict[str, Any]) -> None:
    environment["services"]["db"]["init"] = ["other.sql"]


def _other_statement(environment: dict[str, Any]) -> None:
    environment["services"]["db"]["init"] = "CREATE TABLE v (a)"


def _swapped(materials: dict[str, Any]) -> None:
    for digest in materials:
        materials[digest] = "DROP TABLE t"


def _swapped_but_scripts(materials: dict[str, Any]) -> None:
    for digest, value in materials.items():
        if not str(value).startswith("CREATE"):
            materials[digest] = "another"


def _more(materials: dict[str, Any]) -> None:
    materials[c1.sha256_text("x")] = "x"


def _unsubjected(made: dict[str, Any]) -> None:
    seal = made["predicate"]["seal"]
    seal["subjects"] = [row for row in seal["subjects"] if not row["name"].endswith("t.sql")]


MATERIALS = "materials: are not the files"
CHANGES: list[tuple[Change, str]] = [
    (lambda made: _scenario(made, _own_text), "workspace"),
    (lambda made: _scenario(made, _own_file), "workspace"),
    (lambda made: _scenario(made, _under_git), "environment.workspace"),
    (lambda made: _scenario(made, _other_script), "does not go with the case"),
    (lambda made: _scenario(made, _other_statement), ""),
    (lambda made: _materials(made, _swapped), ""),
    (lambda made: _materials(made, _swapped_but_scripts), "digest"),
    (lambda made: _materials(made, _more), MATERIALS),
    (_unsubjected, "is no subject of the bundle"),
]


def test_files_that_go_with_a_case_are_told_from_those_that_do_not(
    statement: dict[str, Any],
) -> None:
    predicate = statement["predicate"]
    word = check_compiled(predicate, REGISTRY)
    folder = [text for text in word if "workspace" in text]
    is_copied = '"from":"folder"' in predicate["cases"][0]["inputs"]["scenario"]
    said = 'scenarios/w.yaml: that the files of a workspace are those of "folder"'
    assert folder == ([said] if is_copied else [])
    assert json.loads(predicate["cases"][0]["inputs"]["compiled"])["seed"] == 3


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_files_are_the_written_ones(statement: dict[str, Any], change: Change, said: str) -> None:
    made = copy.deepcopy(statement)
    change(made)
    if said == MATERIALS and '"from":"folder"' in json.dumps(made).replace("\\", ""):
        # What a written file lies over goes with the case and stands nowhere in it.
        check_compiled(made["predicate"], REGISTRY)
        return
    with pytest.raises(EvarnessError) as caught:
        check_compiled(made["predicate"], REGISTRY)
    assert said in str(caught.value)


def test_the_registry_is_asked_for_nothing_where_nothing_ran() -> None:
    predicate: dict[str, Any] = {
        "seal": {"plan": [], "subjects": [], "plugins": []},
        "texts": [],
        "cases": [],
    }
    assert check_compiled(predicate, Registry()) == []
