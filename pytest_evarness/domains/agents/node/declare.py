"""Turns a configuration model and a function into a node type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.execution import CUSTOM_TRAIT
from pytest_evarness.core.interfaces import Context, NodeType
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.source.model import Strict, parse_model

if TYPE_CHECKING:
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.errors import Fault

__all__ = ["ANY", "declare"]

ANY = "any"

_Work = Callable[[Mapping[str, list[Any]], Any, Context], Any]


def declare(
    name: str,
    doc: str,
    model: type[Strict],
    work: _Work,
    *,
    inputs: Mapping[str, str],
    output: str | None,
    emits: tuple[str, ...] = (),
    traits: frozenset[str] = frozenset(),
    is_loop: bool = False,
    prepare: Callable[[Any], object] | None = None,
    module_of: Callable[[Any], str] | None = None,
    check: Callable[[Any], list[Fault]] | None = None,
) -> NodeType:
    """A node type with at most one output port, ``out``, which carries what ``work`` returns.

    ``check`` looks at a configuration that fits the model; its faults begin at the configuration.

    Before a node works, approvals that a person revokes before it are taken back.
    """

    def parse(config: JsonObject) -> tuple[Any, list[Fault]]:
        parsed, faults = parse_model(model, config)
        if parsed is not None and check is not None:
            faults = check(parsed)
        return (None, faults) if faults else (parsed, faults)

    def run(inputs: Mapping[str, list[Any]], config: Any, context: Context) -> Mapping[str, Any]:
        if CUSTOM_TRAIT not in traits:  # the kernel gives such a node no state of ours
            state_of(context).revoke_before(context)
        value = work(inputs, config, context)
        return {} if output is None else {"out": value}

    return NodeType(
        name=name,
        doc=doc,
        inputs=dict(inputs),
        outputs={} if output is None else {"out": output},
        parse_config=parse,
        config_schema=model.model_json_schema(by_alias=True),
        run=run,
        emits=emits if CUSTOM_TRAIT in traits else (*emits, "approval_revoked"),
        traits=traits,
        is_loop=is_loop,
        prepare=prepare,
        module_of=module_of,
    )
