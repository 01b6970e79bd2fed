"""A contract that asks a tool for an argument which its manifest does not have does not load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.contract.library import load_library
from pytest_evarness.core.interfaces import Locations, ShapingDomain
from pytest_evarness.errors import InputError
from pytest_evarness.scenario.load import LoadContext, load_scenario

if TYPE_CHECKING:
    from pytest_evarness.core.registry import Registry

TOOLS = """\
tools:
  - id: crm.pay
    args:
      type: object
      properties: {amount: {type: number}, to: {type: string}}
      additionalProperties: %s
    safety: {side_effects: read}
"""


def trace_check(where: str) -> str:
    return (
        "invariants:\n  capped:\n    description: No large sum.\n    check:\n      type: trace\n"
        f"      assert: {{never: {{type: tool_called, where: {where}}}}}\n"
    )


@pytest.mark.parametrize("where", ["{args.amonut: {gt: 9}}", "{tool: crm.pay, args.amonut: 9}"])
def test_an_argument_that_no_tool_has_is_refused(project: Any, minimal: str, where: str) -> None:
    project.write("evarness/tools.yaml", TOOLS % "false")
    text = project.refused(minimal + trace_check(where))
    assert "s.yaml:8:" in text
    assert "unknown payload path (got 'args.amonut'" in text
    assert "write 'args.amount'" in text
    (case,) = project.load(minimal + trace_check(where.replace("amonut", "amount")))
    assert case.warnings == ()


def test_an_open_manifest_warns(project: Any, minimal: str) -> None:
    project.write("evarness/tools.yaml", TOOLS % "true")
    (case,) = project.load(minimal + trace_check("{tool: crm.pay, args.amonut: {gt: 9}}"))
    (warning,) = case.warnings
    assert warning.startswith("capped: 'args.amonut' is not listed")
    (case,) = project.load(minimal + trace_check("{tool: crm.pay, args.colour: {gt: 9}}"))
    assert case.warnings == ()


@pytest.mark.parametrize(("kind", "loads"), [("toool", False), ("tool", True), ("react", False)])
def test_a_node_type_is_a_registered_one(
    project: Any, minimal: str, kind: str, loads: bool
) -> None:
    check = trace_check(f"{{type: {kind}}}").replace("tool_called", "node_started")
    if loads:
        project.load(minimal + check)
    else:
        assert f"unknown node type (got '{kind}'" in project.refused(minimal + check)


def test_a_library_is_read_with_the_manifests_of_each_project(
    project: Any, minimal: str, registry: Registry, tmp_path: Path
) -> None:
    """The library alone knows no manifest; the case that names the contract does."""
    body = "{never: {type: tool_called, where: {tool: crm.pay, args.amonut: {gt: 9}}}}"
    graphs_own = "  no-call-after-block:\n    assert: {never: {type: policy_violation}}\n"
    text = f"contracts:\n  capped:\n    assert: {body}\n{graphs_own}"
    project.write("contracts/pay.yaml", text)
    variables = {"EVARNESS_CONTRACTS": "contracts"}
    locations = Locations(root=tmp_path, home=None, beside=(), variables=variables)
    library = load_library(locations, [], registry)
    assert library.errors == []
    scenario = minimal + "invariants: {capped: {}}\n"

    def load(openness: str) -> Any:
        project.write("evarness/tools.yaml", TOOLS % openness)
        context = LoadContext(root=tmp_path, registry=registry, library=library)
        return load_scenario(project.write("s.yaml", scenario), context=context)

    (case,) = load("true")
    assert any(warning.startswith("capped: 'args.amonut'") for warning in case.warnings)
    with pytest.raises(InputError, match=r"contracts/pay\.yaml:3:.*crm\.pay has amount, to in arg"):
        load("false")


def test_a_domain_may_know_no_shapes(registry: Registry) -> None:
    class Silent:
        name = "silent"

    class Shaping:
        def shapes(self, overlays: Mapping[str, Any]) -> list[Any]:
            return []

    agents = registry.domains.resolve("agents")
    assert isinstance(agents, ShapingDomain)
    assert isinstance(Shaping(), ShapingDomain)
    assert not isinstance(Silent(), ShapingDomain)
