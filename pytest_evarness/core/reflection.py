"""The mirror's other side: what runs inside the second process."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_evarness.core.case import CompiledCase
from pytest_evarness.core.execution import CUSTOM_TRAIT, execute
from pytest_evarness.core.interfaces import WorldHost
from pytest_evarness.core.leftover import Leftover
from pytest_evarness.core.material import EMPTY_MATERIALS
from pytest_evarness.core.mirror import HEAD, MARK
from pytest_evarness.core.reason import impersonal
from pytest_evarness.core.registry import Registry, load_registry
from pytest_evarness.core.removal import remove_tree
from pytest_evarness.errors import EvarnessError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.run import Run

__all__ = ["serve"]

_KEPT = 64


def serve(hello: Mapping[str, Any]) -> NoReturn:
    """Answer requests until the other side goes away."""
    pipe = _Pipe()
    _die_with(hello["lifeline"], hello["folder"])
    registry, problem = _load(hello["hooks"])
    if problem is not None:
        pipe.send({"error": problem})
        os._exit(1)
    pipe.send({"probe": hash(_probe())})
    worker = _Worker(registry, pipe)
    while (request := pipe.receive()) is not None:
        answer = worker.answer(request)
        pipe.silence()
        pipe.send(answer)
    remove_tree(hello["folder"])  # the other side may be gone already
    # Threads and exit handlers of a node have nothing to say any more.
    os._exit(0)


def _probe() -> str:
    from pytest_evarness.core import mirror

    return mirror._PROBE  # noqa: SLF001 - two halves of one part


class _Pipe:
    """Messages over descriptors of their own: what a node prints or closes is not among them."""

    def __init__(self) -> None:
        # High numbers, so that a node which closes the first few does not meet them.
        self._input = _moved(0, 200)
        self._output = _moved(1, 201)
        nothing = os.open(os.devnull, os.O_RDWR)
        self._nothing = _moved(nothing, 203)
        os.close(nothing)
        self.silence()

    def silence(self) -> None:
        """Standard input and output lead nowhere, whatever the last node did to them."""
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            os.dup2(self._nothing, number)
            stream = getattr(sys, name)
            if stream is None or stream.closed:
                mode = "w" if number else "r"
                setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))

    def leave(self) -> None:
        """Let go of it: the other side is to notice when the process that answers is gone."""
        os.close(self._input)
        os.close(self._output)

    def send(self, message: Mapping[str, Any]) -> None:
        body = json.dumps(message, ensure_ascii=True).encode("ascii")
        data = memoryview(HEAD.pack(MARK, len(body)) + body)
        while data:
            data = data[os.write(self._output, data) :]

    def receive(self) -> dict[str, Any] | None:
        head = self._read(HEAD.size)
        if head is None:
            return None
        _, length = HEAD.unpack(head)
        body = self._read(length)
        if body is None:
            return None
        message: dict[str, Any] = json.loads(body)
        return message

    def _read(self, count: int) -> bytes | None:
        parts: list[bytes] = []
        while count:
            part = os.read(self._input, min(count, 1 << 20))
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def _moved(number: int, least: int) -> int:
    try:
        import fcntl
    except ImportError:
        return os.dup(number)
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, least)


def _die_with(lifeline: int | None, folder: str) -> None:
    """End this process and its group when the other side is gone, also while a node runs.

    Args:
        folder: The mirror's own; the other side cannot remove it any more.
    """
    if lifeline is None:
        return
    moved = _moved(lifeline, 202)
    os.close(lifeline)

    def watch() -> None:
        with contextlib.suppress(OSError):
            os.read(moved, 1)
        remove_tree(folder)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def _load(hooks: Sequence[Sequence[str]]) -> tuple[Registry, str | None]:
    """The registry as the other side built it, or why it cannot be built."""
    functions: list[tuple[str, Callable[[Registry], object]]] = []
    for name, file in hooks:
        try:
            module = sys.modules.get(name) or _load_module(name, file)
            functions.append((name, module.pytest_evarness_register))
        except Exception as error:  # noqa: BLE001 - a project's own module
            return Registry(), impersonal(f"module {name}: {type(error).__name__}: {error}")
    registry = load_registry(functions)
    names = {name for name, _ in functions}
    broken = [f"{name}: {problem}" for name, problem in registry.broken if name in names]
    return registry, impersonal(f"plug-in {broken[0]}") if broken else None


def _load_module(name: str, file: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module can be loaded from {Path(file).name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


class _Worker:
    """Runs cases; graphs and overlays that came before are not read again."""

    def __init__(self, registry: Registry, pipe: _Pipe) -> None:
        self._registry = registry
        self._pipe = pipe
        self._texts: dict[str, str] = {}
        self._graphs: dict[str, Graph] = {}
        self._overlays: dict[str, JsonObject] = {}
        self._materials: dict[str, JsonObject] = {}
        self._home = Path.cwd()
        self._temporary = Path(os.environ["TMPDIR"])
        self._variables = dict(os.environ)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request["forget"]:
            for kept in (self._texts, self._graphs, self._overlays, self._materials):
                kept.clear()
        self._texts.update(request["texts"])
        try:
            case = self._case(request)
        except EvarnessError as error:
            return {"error": impersonal(str(error))}
        if hasattr(os, "fork") and self._prepare(case):
            answer = _answer_of_branch(lambda: self._run(case, request), self._pipe)
            self._restore()
            return answer
        return self._run(case, request)

    def _prepare(self, case: CompiledCase) -> bool:
        """Load the user's own code that the graph runs; False where it runs none.

        What such code keeps in its modules from one run must not be there in the next, so every
        run of it gets a process that branches off here, where nothing of it has run yet.
        """
        runs_custom = False
        for node in case.graph.nodes.values():
            kind = self._registry.node_types.find(node.type)
            if kind is None or CUSTOM_TRAIT not in kind.traits:
                continue
            runs_custom = True
            if kind.prepare is not None:
                # A module that cannot be loaded is an engine error of the run itself.
                with contextlib.suppress(BaseException):
                    kind.prepare(node.parsed)
        return runs_custom

    def _run(self, case: CompiledCase, request: Mapping[str, Any]) -> dict[str, Any]:
        secrets: dict[str, str] = request["secrets"]
        try:
            os.environ.update(secrets)
            try:
                run = self._run_in_world(case, secrets, request["host"])
            finally:
                self._restore()
        except OSError as error:
            return {"error": f"the world of the run cannot be made ({error.strerror})"}
        except EvarnessError as error:
            return {"error": impersonal(str(error))}
        except (KeyboardInterrupt, SystemExit) as error:
            # Never caught on the other side; here it ends the run and not the mirror.
            return {"error": f"a node raised {type(error).__name__}"}
        return {"run": run.as_record(), "case": case.digest}

    def _run_in_world(
        self, case: CompiledCase, secrets: Mapping[str, str], host: Mapping[str, str] | None
    ) -> Run:
        make = self._registry.make_world
        world = None
        if make is not None and host is not None:
            world = make(case, WorldHost(host["session"], host["folder"]), secrets)
        try:
            with Leftover():
                return execute(case, self._registry, secrets=secrets, perturbed=True, world=world)
        finally:
            if world is not None:
                world.close()

    def _case(self, request: Mapping[str, Any]) -> CompiledCase:
        digest = request["graph"]
        materials = request["materials"]
        case = CompiledCase.from_texts(
            request["case"],
            self._texts[digest],
            self._texts[request["overlays"]],
            self._registry,
            graph=self._graphs.get(digest),
            overlays=self._overlays.get(request["overlays"]),
            materials_text=EMPTY_MATERIALS if materials is None else self._texts[materials],
            materials=self._materials.get(materials),
        )
        for kept in (self._graphs, self._overlays, self._materials):
            if len(kept) >= _KEPT:
                kept.clear()
        self._graphs[digest] = case.graph
        self._overlays[request["overlays"]] = case.overlays
        if materials is not None:
            self._materials[materials] = case.materials
        return case

    def _restore(self) -> None:
        """A new world for the next run: variables, working folder, temporary folder."""
        if os.environ != self._variables:
            os.environ.clear()
            os.environ.update(self._variables)
            time.tzset()
        _empty(self._temporary)
        _empty(self._home)
        os.chdir(self._home)


def _answer_of_branch(run: Callable[[], dict[str, Any]], pipe: _Pipe) -> dict[str, Any]:
    """What ``run`` gives in a process of its own that starts as a copy of this one."""
    reading, writing = os.pipe()
    writing = _take_over(writing)
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            pipe.leave()
            body = memoryview(json.dumps(run(), ensure_ascii=True).encode("ascii"))
            while body:
                body = body[os.write(writing, body) :]
        finally:
            # Whatever happened: this copy must not go on as if it were the mirror.
            os._exit(0)
    os.close(writing)
    parts = []
    while part := os.read(reading, 1 << 20):
        parts.append(part)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    try:
        answer: dict[str, Any] = json.loads(b"".join(parts))
    except ValueError:
        code = os.waitstatus_to_exitcode(status)
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return {"error": f"the process of the run ended without an answer ({how})"}
    return answer


def _take_over(number: int) -> int:
    """The same descriptor at a number that a node which closes the first few does not meet."""
    moved = _moved(number, 210)
    os.close(number)
    return moved


def _empty(folder: Path) -> None:
    """Make sure that ``folder`` is there and holds nothing."""
    try:
        with os.scandir(folder) as entries:
            left = list(entries)
    except OSError:
        folder.mkdir(parents=True, exist_ok=True)
        return
    for entry in left:
        if entry.is_dir(follow_symlinks=False):
            remove_tree(entry.path)
        else:
            with contextlib.suppress(OSError):
                Path(entry.path).unlink()
