"""A user's node that reads the clock, chance or the network is refused, the call being named."""

from __future__ import annotations

import datetime as dt
import gc
import logging
import os
import random
import secrets
import socket
import sys
import tempfile
import threading
import time
import uuid
from datetime import datetime
from time import time as borrowed
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.sandbox import Guard
from pytest_evarness.errors import DeterminismError
from tests.core import steps
from tests.core.building import kernel_registry, row, run_of, types_of
from tests.effort import calls_of

if TYPE_CHECKING:
    from collections.abc import Callable

CLOCK = "a node must not use the real clock (use context.clock)"
CHANCE = "a node must not use real randomness (use context.random)"
NETWORK = "a node must not use the real network (declare what the node talks to in the scenario)"


def run_with(call: Callable[[], Any], *, traits: tuple[str, ...] = ("custom",)) -> Any:
    def step(inputs: Any, config: Any, context: Any) -> Any:
        call()
        return {"out": 1}

    registry = kernel_registry()
    steps.add_type(registry, "mine", step, traits=traits)
    return run_of(row("mine"), registry)


def connect() -> int:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", 9))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "time": (time.time, f"time.time: {CLOCK}"),
    "borrowed time": (borrowed, f"time.time: {CLOCK}"),
    "time_ns": (time.time_ns, f"time.time_ns: {CLOCK}"),
    "monotonic": (time.monotonic, f"time.monotonic: {CLOCK}"),
    "perf_counter": (time.perf_counter, f"time.perf_counter: {CLOCK}"),
    "now": (datetime.now, f"datetime.now: {CLOCK}"),
    "now in UTC": (lambda: datetime.now(dt.UTC), f"datetime.now: {CLOCK}"),
    "today": (dt.date.today, f"date.today: {CLOCK}"),
    "random": (random.random, f"random.random: {CHANCE}"),
    "choice": (lambda: random.choice([1, 2]), f"random.choice: {CHANCE}"),
    "shuffle": (lambda: random.shuffle([1, 2]), f"random.shuffle: {CHANCE}"),
    "unseeded": (random.Random, f"random.Random without a seed: {CHANCE}"),
    "urandom": (lambda: os.urandom(4), f"os.urandom: {CHANCE}"),
    "uuid4": (uuid.uuid4, f"uuid.uuid4: {CHANCE}"),
    "token": (secrets.token_hex, f"secrets.token_hex: {CHANCE}"),
    "system random": (lambda: random.SystemRandom().random(), f"random.random: {CHANCE}"),
    "connect": (
        lambda: socket.create_connection(("127.0.0.1", 9)),
        f"socket.getaddrinfo: {NETWORK}",
    ),
    "raw connect": (
        connect,
        f"socket.connect_ex: {NETWORK}",
    ),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_call_that_cannot_be_repeated_is_refused_by_name(name: str) -> None:
    call, message = REFUSED[name]
    run = run_with(lambda: [call() for _ in range(1)])
    assert run.status == "failed"
    assert run.error == f"DeterminismError: {message}"
    assert types_of(run)[-2:] == ["engine_error", "run_failed"]


def test_without_the_guard_the_same_calls_pass() -> None:
    for name in ("time", "now", "random", "uuid4", "urandom", "raw connect"):
        call, _ = REFUSED[name]
        assert run_with(call, traits=()).status == "completed"


def test_swallowing_the_refusal_does_not_help() -> None:
    def swallow() -> None:
        try:
            time.time()
        except BaseException:  # noqa: BLE001 - that is the point
            time.sleep(0)

    assert run_with(swallow).error == f"DeterminismError: time.time: {CLOCK}"


ALLOWED: dict[str, Callable[[], Any]] = {
    "seeded generator": lambda: random.Random(7).random(),
    "a given moment": lambda: time.strftime("%Y", time.gmtime(0)),
    "logging": lambda: logging.getLogger("evarness.tests").info("x"),
    "a temporary folder": lambda: tempfile.TemporaryDirectory().cleanup(),
    "waiting with a time-out": lambda: threading.Event().wait(0.001),
    "hashing": lambda: hash("x"),
    "a date": lambda: datetime(2026, 1, 1, tzinfo=dt.UTC).isoformat(),
}


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_what_can_be_repeated_or_is_the_librarys_own_affair_passes(name: str) -> None:
    run = run_with(ALLOWED[name])
    assert (run.status, run.error) == ("completed", None)


def test_loading_a_module_may_look_at_the_clock(tmp_path: Any) -> None:
    (tmp_path / "evarness_test_stamped.py").write_text("import time\nLOADED = time.time()\n")
    sys.path.insert(0, str(tmp_path))
    try:
        assert run_with(lambda: __import__("evarness_test_stamped")).status == "completed"
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("evarness_test_stamped", None)


def test_nothing_is_left_behind_however_a_node_ends() -> None:
    for kind in ("t_constant", "t_custom_crash", "t_sleep"):
        run_of(row(kind), kernel_registry(), budget={"seconds": 0.1})
        assert sys.getprofile() is None
        assert time.time() > 0
        assert 0 <= random.random() < 1


def test_what_the_collector_runs_is_not_the_nodes_doing() -> None:
    seen: list[float] = []

    def measure(phase: str, info: dict[str, int]) -> None:
        seen.append(time.perf_counter())

    gc.callbacks.append(measure)
    try:
        run = run_with(gc.collect)
    finally:
        gc.callbacks.remove(measure)
    assert (run.status, len(seen) >= 2) == ("completed", True)


def test_other_threads_are_not_watched() -> None:
    seen: list[float] = []
    go, done = threading.Event(), threading.Event()

    def other() -> None:
        go.wait(10)
        seen.append(time.time())
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with Guard() as guard:
        go.set()
        done.wait(10)
    thread.join()
    assert seen
    assert guard.refused is None


def test_a_profiler_that_runs_already_may_stay() -> None:
    calls: list[str] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        calls.append(event)

    sys.setprofile(profile)
    try:
        with Guard() as guard:
            time.time()
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert guard.refused is None
    assert calls


def test_the_guard_does_next_to_nothing_on_its_way_in_and_out() -> None:
    def guarded() -> None:
        with Guard():
            pass

    assert calls_of(guarded) < 20


def test_the_refusal_is_an_error_of_ours() -> None:
    with pytest.raises(DeterminismError, match=r"^time.time: a node must not use the real clock"):  # noqa: SIM117
        with Guard():
            time.time()
