"""The three kinds of node: where a machine starts, how it moves, where it may rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.interfaces import Context, NodeBlocked

if TYPE_CHECKING:
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

_WORD: JsonObject = {"type": "string", "minLength": 1}


def _schema(**properties: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def register_nodes(registry: Registry) -> None:
    """Offer ``start``, ``transition`` and ``final``."""

    @registry.node_type(
        "start",
        doc="The state in which the machine begins.",
        inputs={},
        outputs={"out": "state"},
        config_schema=_schema(state=_WORD),
    )
    def start(
        inputs: Mapping[str, list[Any]], config: Mapping[str, Any], context: Context
    ) -> Mapping[str, Any]:
        del inputs
        context.state("machine").state = config["state"]
        return {"out": config["state"]}

    @registry.node_type(
        "transition",
        doc="Takes the next signal; another one than `on`, or another state, is refused.",
        inputs={"in": "state"},
        outputs={"out": "state"},
        config_schema=_schema(**{"from": _WORD, "on": _WORD, "to": _WORD}),
        emits=("machine_entered", "machine_refused"),
    )
    def transition(
        inputs: Mapping[str, list[Any]], config: Mapping[str, Any], context: Context
    ) -> Mapping[str, Any]:
        del inputs
        machine = context.state("machine")
        signal = machine.take()
        if (machine.state, signal) != (config["from"], config["on"]):
            context.emit("machine_refused", {"state": machine.state, "signal": signal})
            raise NodeBlocked(f"no way out of '{machine.state}' by '{signal}'")
        machine.state = config["to"]
        context.emit("machine_entered", {"state": machine.state, "signal": signal})
        return {"out": machine.state}

    @registry.node_type(
        "final",
        doc="Where the machine may rest.",
        inputs={"in": "state"},
        outputs={},
        config_schema=_schema(accepts={"type": "array", "items": _WORD, "minItems": 1}),
        emits=("machine_rested",),
    )
    def final(
        inputs: Mapping[str, list[Any]], config: Mapping[str, Any], context: Context
    ) -> Mapping[str, Any]:
        del inputs
        state = context.state("machine").state
        if state not in config["accepts"]:
            raise NodeBlocked(f"it may not rest in '{state}'")
        context.emit("machine_rested", {"state": state})
        context.set_output(state)
        return {}
