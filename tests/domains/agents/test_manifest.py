"""What may be called is what a valid manifest says, and the nearest layer wins."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.core.interfaces import Locations, Overlay
from pytest_evarness.domains.agents.manifest import canonical, parse_manifests
from pytest_evarness.domains.agents.schema import validator_of, violation
from tests.domains.agents import harness as h

PACKAGED = {
    "email.search": "read",
    "email.send": "write",
    "web.search": "read",
    "web.fetch": "read",
    "fs.search": "read",
    "fs.write": "write",
    "db.query": "read",
    "db.execute": "write",
    "http.request": "write",
    "payment.transfer": "destructive",
}


def test_the_packaged_tools_and_their_side_effects() -> None:
    manifests = h.overlays()["tools"]
    found = {name: one["safety"]["side_effects"] for name, one in manifests.items()}
    assert found == PACKAGED


@pytest.mark.parametrize("name", PACKAGED)
def test_every_packaged_tool_takes_a_bare_query_and_scripts_nothing(name: str) -> None:
    manifest = h.overlays()["tools"][name]
    validator = validator_of(manifest["args"])
    assert violation(validator, {"query": "text"}) is None
    assert violation(validator, {"no such argument": "text"}) is not None
    assert manifest["sim"] == []


def test_an_alias_stands_for_its_tool() -> None:
    manifests = h.overlays()["tools"]
    assert canonical("send_email", manifests) == "email.send"
    assert canonical("email.send", manifests) == "email.send"
    assert canonical("nobody", manifests) == "nobody"
    assert h.domain().aliases(h.overlays())["send_email"] == "email.send"


READ = {"side_effects": "read"}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ([], ": must be a mapping (got []; with the key 'tools')"),
        ({}, "tools: must be a list (got null; key 'tools': a list of manifests)"),
        ({"tols": [], "tools": []}, "tols: unknown key (got 'tols'; known: tools)"),
        ({"tools": [{"id": "a b", "safety": READ}]}, None),
        ({"tools": [{"id": "a"}]}, None),
        ({"tools": [{"id": "a", "safety": {"side_effects": "none"}}]}, None),
        (
            {"tools": [{"id": "a", "safety": READ, "executor": {"kind": "http"}}]},
            (
                "tools.0.executor.kind: runs are simulated: no other executor is called "
                '(got "http"; sim)'
            ),
        ),
        (
            {"tools": [{"id": "a", "safety": READ, "tests": []}]},
            "tools.0.tests: must be a mapping (got [])",
        ),
        (
            {"tools": [{"id": "a", "safety": READ, "effects": [{"mesage": {}}]}]},
            (
                "tools.0.effects.0.mesage: unknown key (got 'mesage'; "
                "known: http, sql, file, message, idempotency_key)"
            ),
        ),
        (
            {
                "tools": [
                    {
                        "id": "a",
                        "safety": READ,
                        "effects": [{"message": {"to": "x", "body": "y"}}],
                    }
                ]
            },
            (
                "tools.0.effects.0.message: the tool 'a' only reads "
                "(side_effects: read; it sends a message)"
            ),
        ),
        (
            {"tools": [{"id": "a", "safety": READ, "args": {"type": "objct"}}]},
            (
                "tools.0.args.type: is no type of JSON "
                "(got 'objct'; array, boolean, integer, null, number, object, string)"
            ),
        ),
        (
            {"tools": [{"id": "a", "safety": READ, "args": {"$ref": "file:///x"}}]},
            (
                "tools.0.args.$ref: a reference must stay inside the schema "
                "(got \"file:///x\"; '#/$defs/NAME')"
            ),
        ),
        (
            {"tools": [{"id": "a", "safety": READ, "sim": [{"rsult": 1}]}]},
            None,
        ),
        (
            {"tools": [{"id": "a", "safety": READ}, {"id": "b", "safety": READ, "aliases": ["a"]}]},
            "tools.1: the name is taken by tools[0] (got 'a')",
        ),
    ],
)
def test_what_is_no_manifest_is_refused(value: Any, fault: str | None) -> None:
    _, faults = parse_manifests(value)
    said = [f"{'.'.join(str(part) for part in one.path)}: {one.text}" for one in faults]
    assert said
    if fault is not None:
        assert said == [fault]


def test_a_reference_inside_the_schema_is_followed() -> None:
    schema = {"$ref": "#/$defs/x", "$defs": {"x": {"type": "integer"}}}
    tools = h.manifest("a", args=schema)
    assert violation(validator_of(tools["a"]["args"]), 1) is None
    assert (
        violation(validator_of(tools["a"]["args"]), "1") == "the value breaks 'type' (\"integer\")"
    )


def layer(path: Path, description: str, name: str = "email.send", **more: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = (
        f"tools:\n- id: {name}\n  description: {description}\n"
        "  safety: {side_effects: write, network: outbound}\n"
    )
    path.write_text(text + "".join(f"  {key}: {value}\n" for key, value in more.items()), "utf-8")


def load(root: Path, **more: Any) -> Overlay:
    locations = Locations(
        root=root,
        home=more.get("home"),
        beside=more.get("beside", ()),
        variables=more.get("variables", {}),
    )
    overlay, *_ = h.domain().load_overlays(locations)
    return overlay


def described(overlay: Overlay, name: str = "email.send") -> str:
    value: Any = overlay.value
    return str(value[name]["description"])


def test_the_nearest_layer_wins(tmp_path: Path) -> None:
    home, root, beside = tmp_path / "home", tmp_path / "root", tmp_path / "root" / "scenarios"
    root.mkdir()
    labels = ["packaged/tools.yaml"]
    assert "behalf" in described(load(root, home=home))
    steps = [
        (home / "tools.yaml", "~/.evarness/tools.yaml"),
        (root / "evarness" / "tools.yaml", "evarness/tools.yaml"),
        (root / "named.yaml", "$EVARNESS_TOOLS"),
        (beside / "tools.yaml", "scenarios/tools.yaml"),
    ]
    for path, label in steps:
        layer(path, label.strip("$~/."))
        variables = {"EVARNESS_TOOLS": "named.yaml"} if (root / "named.yaml").exists() else {}
        overlay = load(root, home=home, beside=(beside, beside), variables=variables)
        labels.append(label)
        assert described(overlay) == label.strip("$~/.")
        assert [name for name, _ in overlay.sources] == labels
        assert overlay.sources[-1][1] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert overlay.faults == ()
    # What a layer does not name stays as it was below.
    assert "mailbox" in described(overlay, "email.search")


def test_a_layer_that_is_named_must_be_there(tmp_path: Path) -> None:
    overlay = load(tmp_path, variables={"EVARNESS_TOOLS": "gone.yaml"})
    assert [(label, fault.text) for label, fault in overlay.faults] == [
        ("$EVARNESS_TOOLS", "no such file")
    ]
    assert load(tmp_path).faults == ()


def test_a_layer_that_cannot_be_used_is_named_with_its_line(tmp_path: Path) -> None:
    layer(tmp_path / "tools.yaml", "x", wrong="1")
    ((label, fault),) = load(tmp_path, beside=(tmp_path,)).faults
    assert label == "tools.yaml:5:3"
    assert fault.text.startswith("unknown key (got 'wrong'; known: id, aliases")
    (tmp_path / "tools.yaml").write_text("tools: [\n", "utf-8")
    assert load(tmp_path, beside=(tmp_path,)).faults[0][0].startswith("tools.yaml:")


def test_an_alias_belongs_to_one_tool_over_all_layers(tmp_path: Path) -> None:
    layer(tmp_path / "tools.yaml", "x", name="post.send", aliases="[send_email]")
    ((_, fault),) = load(tmp_path, beside=(tmp_path,)).faults
    assert fault.text == (
        "the name stands for several tools (email.send of packaged/tools.yaml, post.send of"
        " tools.yaml) (got 'send_email')"
    )


def test_no_label_holds_a_path_of_this_machine(tmp_path: Path) -> None:
    layer(tmp_path / "pattern" / "tools.yaml", "x")
    overlay = load(tmp_path / "root", beside=(tmp_path / "pattern",))
    assert overlay.sources[-1][0] == "pattern/tools.yaml"


# -- safety of a layer -----------------------------------------------------------------------------

STRICT = {"side_effects": "destructive", "network": "outbound", "requires_approval": True}


def stacked(root: Path, below: dict[str, Any], above: dict[str, Any]) -> list[tuple[str, str]]:
    """Faults where one layer describes a tool above another one."""
    beside = root / "scenarios"
    beside.mkdir(exist_ok=True)
    for path, safety in ((root / "org.yaml", below), (beside / "tools.yaml", above)):
        path.write_text(json.dumps({"tools": [{"id": "x.y", "safety": safety}]}), "utf-8")
    overlay = load(root, beside=(beside,), variables={"EVARNESS_TOOLS": "org.yaml"})
    return [(label, fault.text) for label, fault in overlay.faults]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("side_effects", "write"),
        ("side_effects", "read"),
        ("network", "none"),
        ("requires_approval", False),
    ],
)
def test_a_layer_takes_no_safety_from_a_tool(tmp_path: Path, key: str, value: Any) -> None:
    ((label, text),) = stacked(tmp_path, STRICT, {**STRICT, key: value})
    assert label.startswith("scenarios/tools.yaml:1:")
    assert f"({key} of 'x.y') (got {json.dumps(value)}" in text
    left_out = {name: one for name, one in STRICT.items() if name != key or key == "side_effects"}
    assert len(stacked(tmp_path, STRICT, left_out)) == (key != "side_effects")


def test_a_layer_may_make_a_tool_stricter(tmp_path: Path) -> None:
    weak = {"side_effects": "read"}
    assert stacked(tmp_path, weak, STRICT) == stacked(tmp_path, STRICT, STRICT) == []


@pytest.mark.parametrize("second", [5, [], None, {"side_effects": "write"}])
def test_of_two_entries_with_one_id_only_that_is_told(tmp_path: Path, second: Any) -> None:
    safeties = ({"side_effects": "write"}, second)
    tools = [{"id": "email.send", "safety": safety} for safety in safeties]
    (tmp_path / "tools.yaml").write_text(json.dumps({"tools": tools}), "utf-8")
    ((_, fault),) = load(tmp_path, beside=(tmp_path,)).faults
    assert ("the name is taken by tools[0]" in fault.text) is isinstance(second, dict)
    # The twin: alone, an entry that is weaker than the packaged one is told as that.
    weak = [{"id": "email.send", "safety": {"side_effects": "read"}}]
    (tmp_path / "tools.yaml").write_text(json.dumps({"tools": weak}), "utf-8")
    faults = load(tmp_path, beside=(tmp_path,)).faults
    assert any("a layer takes no safety" in fault.text for _, fault in faults)


def test_a_name_of_two_tools_of_one_file_is_told_once(tmp_path: Path) -> None:
    safety = {"side_effects": "read"}
    tools = [{"id": name, "aliases": ["Z"], "safety": safety} for name in ("x.y", "x.z")]
    (tmp_path / "tools.yaml").write_text(json.dumps({"tools": tools}), "utf-8")
    (found,) = load(tmp_path, beside=(tmp_path,)).faults
    assert found[1].text == "the name is taken by tools[0] (got 'Z')"


def test_a_file_of_the_other_suffix_is_told(tmp_path: Path) -> None:
    layer(tmp_path / "tools.yml", "x", name="crm.find")
    overlay = load(tmp_path, beside=(tmp_path,))
    said = [(label, fault.text) for label, fault in overlay.faults]
    assert said == [("tools.yml", "is not read under this name (it is tools.yaml)")]
    (tmp_path / "tools.yml").rename(tmp_path / "tools.yaml")
    assert load(tmp_path, beside=(tmp_path,)).faults == ()
