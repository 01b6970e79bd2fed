"""A user's own step is called as it is, and can speak for nobody but itself."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_evarness.core.run import Run

MODULE = "evarness_test_steps"


@pytest.fixture
def step() -> Iterator[Callable[..., Run]]:
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module

    def run(function: Callable[..., Any], config: dict[str, Any] | None = None, **env: Any) -> Run:
        module.function = function  # type: ignore[attr-defined]
        written: dict[str, Any] = {"callable": f"{MODULE}:function"}
        if config is not None:
            written["config"] = config
        graph = h.chain(("input", {}), ("python", written), ("output", {}))
        return h.run(graph, {"user_input": "Hello", **env})

    yield run
    del sys.modules[MODULE]


def test_a_step_gets_inputs_config_and_context(step: Callable[..., Run]) -> None:
    def function(inputs: Any, config: Any, context: Any) -> str:
        context.emit("custom.seen", {"node": context.node_id, "seed": context.seed})
        context.clock.advance_ms(5)
        parts = [inputs["in"][0], config["word"], context.params["tier"], context.clock.now_ms]
        assert context.services == {}
        assert context.events()[0]["type"] == "run_started"
        assert context.random.random() < 1
        return " ".join(str(part) for part in parts)

    run = step(function, {"word": "there"}, params={"tier": "pro"})
    assert run.output == "Hello there pro 5"
    assert h.payload(run, "custom.seen") == {"node": "n2", "seed": 42}


@pytest.mark.parametrize("kind", ["approval_granted", "run_finished", "tool_result", "custom", "x"])
def test_a_step_cannot_speak_for_others(step: Callable[..., Run], kind: str) -> None:
    run = step(lambda inputs, config, context: context.emit(kind, {}))
    assert run.status == "failed"
    assert kind not in h.types(run)[:-2]
    assert "emits only types custom.NAME" in h.payload(run, "engine_error")["reason"]


def test_a_step_that_keeps_and_changes_a_payload_changes_nothing(step: Callable[..., Run]) -> None:
    def function(inputs: Any, config: Any, context: Any) -> str:
        payload = {"list": [1]}
        context.emit("custom.kept", payload)
        payload["list"].append(2)
        inputs["in"].append("more")
        config["x"] = 1
        return "done"

    run = step(function, {})
    assert h.payload(run, "custom.kept") == {"list": [1]}


def test_a_step_has_no_way_to_the_state_of_the_domain(step: Callable[..., Run]) -> None:
    run = step(lambda inputs, config, context: hasattr(context, "state"))
    assert run.output == "false"


def test_a_result_that_is_no_json_ends_the_run(step: Callable[..., Run]) -> None:
    run = step(lambda inputs, config, context: {1, 2})
    assert run.status == "failed"
    assert "result" in h.payload(run, "engine_error")["reason"]


def test_a_module_that_is_not_there_ends_the_run_and_not_the_load() -> None:
    graph = h.chain(("input", {}), ("python", {"callable": "no_such_module:run"}), ("output", {}))
    assert [one for one in h.remarks(graph) if one.level == "error"] == []
    run = h.run(graph)
    assert run.status == "failed"
    assert "no_such_module" in h.payload(run, "engine_error")["reason"]


@pytest.mark.parametrize("name", ["", "module", "module:", ":f", "a b:c", "os.system('x'):f"])
def test_what_names_no_function_is_refused_when_it_is_read(name: str) -> None:
    assert h.codes(h.chain(("python", {"callable": name})))[0][:2] == ("error", "invalid_config")


def test_a_function_after_a_dot_is_told_with_the_colon() -> None:
    found = h.remarks(h.chain(("python", {"callable": "steps.validate_amount"})))[0]
    assert found.message.startswith('names no function (got "steps.validate_amount"')
    assert found.fix == "write 'steps:validate_amount'"
    assert h.remarks(h.chain(("python", {"callable": "9"})))[0].fix is None
