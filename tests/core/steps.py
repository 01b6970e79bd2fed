"""A tiny domain of the tests: its hook is loaded here and, by name and file, in the mirror."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.execution import CUSTOM_TRAIT
from pytest_evarness.core.interfaces import (
    Context,
    EnvironmentExhausted,
    NodeBlocked,
    NodeRun,
    NodeType,
    RunPaused,
)

if TYPE_CHECKING:
    from pytest_evarness.core.registry import Registry

Inputs = Mapping[str, list[Any]]


def add_type(
    registry: Registry,
    name: str,
    run: NodeRun,
    *,
    inputs: tuple[str, ...] = ("in",),
    outputs: tuple[str, ...] = ("out",),
    traits: tuple[str, ...] = (),
    is_loop: bool = False,
) -> None:
    registry.node_types.register(
        name,
        NodeType(
            name=name,
            doc="of the tests",
            inputs=dict.fromkeys(inputs, "any"),
            outputs=dict.fromkeys(outputs, "any"),
            parse_config=lambda config: (dict(config), []),
            config_schema={},
            run=run,
            traits=frozenset(traits),
            is_loop=is_loop,
        ),
    )


_counted: list[int] = []


def _count() -> int:
    """How often it was called in this process: state that a module keeps between runs."""
    _counted.append(1)
    return len(_counted)


def emitting(value: Callable[[], Any]) -> NodeRun:
    """A user's step that puts what it saw into the trace."""

    def run(inputs: Inputs, config: Any, context: Context) -> Mapping[str, Any]:
        context.emit("custom.seen", {"value": value()})
        return {"out": 1}

    return run


def _leave(inputs: Inputs, config: Any, context: Context) -> Mapping[str, Any]:
    flag = Path(config["folder"], "leftover.flag")
    was_there = flag.exists()
    flag.write_text("seen", encoding="utf-8")
    context.emit("custom.seen", {"value": was_there})
    return {"out": 1}


def _local(inputs: Inputs, config: Any, context: Context) -> Mapping[str, Any]:
    """Writes into the working folder: each run has its own, so both find it empty."""
    flag = Path("evarness-test-seen.flag")
    context.emit("custom.seen", {"value": flag.exists()})
    if config.get("in_mirror") and os.environ.get("PYTHONHASHSEED") == "1":
        flag.write_text("seen", encoding="utf-8")
    return {"out": 1}


def _noise(inputs: Inputs, config: Any, context: Context) -> Mapping[str, Any]:
    if os.environ.get("LC_ALL") == os.environ.get("LANG") and "evarness-mirror-" in str(Path.cwd()):
        print("garbage " * 1000)
        os.write(1, b"\x00\x01evm1garbage" * 100)
        os.write(2, b"more garbage" * 100)
        os.close(1)
        os.close(0)
    return {"out": 1}


def _die(inputs: Inputs, config: Any, context: Context) -> Mapping[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {"out": 1}


def _sleep(inputs: Inputs, config: Any, context: Context) -> Mapping[str, Any]:
    time.sleep(60)
    return {"out": 1}


def _stubborn(inputs: Inputs, config: Any, context: Context) -> Mapping[str, Any]:
    """Swallows whatever is thrown at it, a few times over."""
    for _ in range(4):
        try:
            time.sleep(60)
        except BaseException:  # noqa: BLE001 - that is the point
            continue
    return {"out": 1}


def _crash(inputs: Inputs, config: Any, context: Context) -> Mapping[str, Any]:
    raise RuntimeError(config.get("message", f"at {object()} in {Path(__file__).resolve()}"))


def _block(inputs: Inputs, config: Any, context: Context) -> Mapping[str, Any]:
    raise NodeBlocked("no")


def _pause(inputs: Inputs, config: Any, context: Context) -> Mapping[str, Any]:
    raise RunPaused("May it go on?", "a preview")


def _exhaust(inputs: Inputs, config: Any, context: Context) -> Mapping[str, Any]:
    raise EnvironmentExhausted("llm", 1, 2)


def _source(inputs: Inputs, config: Any, context: Context) -> Mapping[str, Any]:
    return {"out": context.environment.get("user_input", "")}


def _step(inputs: Inputs, config: Any, context: Context) -> Mapping[str, Any]:
    return {"out": config.get("value", 1)}


def _sink(inputs: Inputs, config: Any, context: Context) -> Mapping[str, Any]:
    context.set_output(" ".join(str(value) for value in inputs["in"]))
    return {}


def pytest_evarness_register(registry: Registry) -> None:
    add_type(registry, "t_input", _source, inputs=(), traits=("input",))
    add_type(registry, "t_output", _sink, outputs=(), traits=("output",))
    plain: dict[str, NodeRun] = {
        "t_step": _step,
        "t_block": _block,
        "t_pause": _pause,
        "t_exhaust": _exhaust,
        "t_crash": _crash,
    }
    for name, run in plain.items():
        add_type(registry, name, run)
    custom: dict[str, NodeRun] = {
        "t_set": emitting(lambda: list({"alpha", "beta", "gamma", "delta", "epsilon", "zeta"})),
        "t_hash": emitting(lambda: hash("abc") % 1_000_003),
        "t_environ": emitting(lambda: sorted(os.environ)),
        "t_zone": emitting(lambda: time.strftime("%d %H:%M", time.localtime(0))),
        "t_constant": emitting(lambda: "the same"),
        "t_count": emitting(_count),
        "t_leave": _leave,
        "t_local": _local,
        "t_noise": _noise,
        "t_die": _die,
        "t_sleep": _sleep,
        "t_stubborn": _stubborn,
        "t_custom_crash": _crash,
    }
    add_type(registry, "t_kernel_die", _die)
    for name, run in custom.items():
        add_type(registry, name, run, traits=(CUSTOM_TRAIT,))
