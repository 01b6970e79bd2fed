"""A world is made new for a run, told whole when it ends, and leaves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core import c1
from pytest_evarness.core.clock import SimulatedClock
from pytest_evarness.core.interfaces import ServiceDownError
from pytest_evarness.world.declaration import declares_world
from pytest_evarness.world.world import RunWorld, _Receipts
from tests.core.building import case_of, kernel_registry, row
from tests.world.made import HOST, case_with, make, registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_evarness.core.json import JsonObject

REPOSITORY = Path(__file__).parents[2]


def odd(**config: Any) -> dict[str, Any]:
    return {"type": "odd", **config}


# -- what is declared -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "overlays", "is_one"),
    [
        ({}, {}, False),
        ({"user_input": '"effects":[{'}, {}, False),
        ({"tools": {"a": [{"effects": []}]}}, {}, False),
        ({"workspace": {"files": [], "git": False}}, {}, True),
        ({"services": {}}, {}, True),
        ({"tools": {"a": [{"effects": [{"message": {}}]}]}}, {}, True),
        ({}, {"tools": {"a": {"effects": [{"message": {}}]}}}, True),
    ],
)
def test_a_world_is_made_where_one_is_declared(
    environment: Any, overlays: Any, is_one: bool
) -> None:
    case = case_of(row("t_input"), kernel_registry(), environment=environment, overlays=overlays)
    assert declares_world(case) is is_one
    make_world = registry().make_world
    assert make_world is not None
    world = make_world(case, HOST, {})
    assert (world is not None) is is_one
    if world is not None:
        world.close()


def test_registering_and_a_case_without_a_world_import_nothing_of_weight() -> None:
    code = (
        "import sys\n"
        "from tests.core.building import case_of, kernel_registry, row\n"
        "from pytest_evarness.world import register\n"
        "registry = kernel_registry(); register(registry)\n"
        "case = case_of(row('t_input'), registry)\n"
        "assert registry.make_world(case, None, {}) is None\n"
        "print(sorted(m for m in sys.modules if m.startswith('pytest_evarness.world')))\n"
        "print('werkzeug' in sys.modules, 'sqlite3' in sys.modules, 'pydantic' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    modules, weight = done.stdout.splitlines()
    assert modules == str(
        [
            "pytest_evarness.world",
            "pytest_evarness.world.declaration",
            "pytest_evarness.world.domain",
            "pytest_evarness.world.late",
            "pytest_evarness.world.vocabulary",
        ]
    )
    assert weight == "False False False"


# -- life -----------------------------------------------------------------------------------------


def test_two_worlds_of_one_case_share_nothing() -> None:
    case = case_with(workspace={"files": {"a": "1"}}, services={"s": odd()})
    one, other = (RunWorld(case, HOST, {}, registry()) for _ in range(2))
    try:
        assert one.workspace is not None
        assert other.workspace is not None
        (one.workspace / "a").write_text("changed")
        assert (other.workspace / "a").read_text() == "1"
        folders = {str(one.services["s"].setting.folder), str(other.services["s"].setting.folder)}  # type: ignore[attr-defined]
        assert len(folders) == 2
        assert one.workspace.parent.stat().st_mode & 0o777 == 0o700
    finally:
        one.close()
        other.close()


@pytest.mark.parametrize("is_slow", [False, True])
def test_services_are_started_sealed_told_and_closed(is_slow: bool) -> None:
    with make(parts=registry(is_slow=is_slow), services={"b": odd(x=1), "a": odd()}) as world:
        services: Any = dict(world.services)
        assert list(services) == ["a", "b"]
        folder = services["a"].setting.folder
        assert list(folder.iterdir()) == []
        text = world.seal()
    assert services["a"].calls == ["start", "seal", "snapshot", "close"]
    assert json.loads(text)["services"] == [
        {"name": "a", "type": "odd", "config": {}},
        {"name": "b", "type": "odd", "config": {"x": 1}},
    ]
    assert not folder.exists()


def test_slow_services_start_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = threading.Barrier(3)
    parts = registry(is_slow=True)
    kind: Any = parts.service_types.find("odd")
    former = kind.make

    def waiting(setting: Any) -> Any:
        service = former(setting)
        monkeypatch.setattr(service, "start", lambda: meeting.wait(timeout=20))
        return service

    monkeypatch.setattr(kind, "make", waiting)
    with make(parts=parts, services={name: odd() for name in "abc"}) as world:
        assert world.problems == {}  # one after the other they would wait in vain


@pytest.mark.parametrize("breaks", ["make", "start", "seal", "snapshot", "value", "close"])
def test_a_service_type_that_breaks_is_down_and_harms_no_other(breaks: str) -> None:
    with make(services={"a": odd(breaks=breaks), "b": odd()}) as world:
        found = json.loads(world.seal())["services"]
        assert found[1] == {"name": "b", "type": "odd", "config": {}}
        is_down = found[0] == {"name": "a", "type": "odd", "down": True}
        assert is_down is (breaks != "close")
        if breaks in ("start", "seal", "snapshot"):
            assert world.problems == {"a": f"RuntimeError: cannot {breaks} at 0x…"}


def test_who_asks_for_a_service_that_is_down_is_told_its_last_words() -> None:
    with make(services={"a": odd(down="FATAL: no space"), "b": odd(port=7)}) as world:
        assert world.problems == {"a": "FATAL: no space"}
        with pytest.raises(ServiceDownError, match=r"^service a: FATAL: no space\Z"):
            world.addresses["a"]
        assert world.reachable == set()
        assert world.addresses["b"] == {"host": "127.0.0.1", "port": 7}
        with pytest.raises(KeyError, match=r"no service is called 'c' \(declared: a, b\)"):
            world.addresses["c"]
        assert "c" not in world.addresses
        assert world.reachable == {("127.0.0.1", 7)}


def test_an_unknown_type_is_a_service_that_is_down() -> None:
    case = case_with(services={"a": odd()})
    parts = kernel_registry()
    world = RunWorld(case, HOST, {}, parts)
    try:
        assert list(world.problems) == ["a"]
    finally:
        world.close()


def test_closing_twice_is_fine_and_leaves_nothing_read_only_or_not() -> None:
    with make(workspace={"files": {"locked/deep/a": {"text": "x", "mode": "0400"}}}) as world:
        assert world.workspace is not None
        folder = world.workspace
        (world.workspace / "locked/deep").chmod(0o500)
        (world.workspace / "locked").chmod(0o500)
        (world.workspace / "out").symlink_to("/etc")
        world.close()
        assert not folder.exists()
    assert Path("/etc").is_dir()


def test_a_world_that_cannot_be_made_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def refuse(folder: str, *rest: Any, **more: Any) -> None:
        made.append(folder)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pytest_evarness.world.world.make_workspace", refuse)
    with pytest.raises(OSError, match="No space left"), make(workspace={}):
        pass
    assert not Path(made[0]).exists()


# -- the text -------------------------------------------------------------------------------------


def test_the_text_is_c1_of_the_snapshot() -> None:
    with make(workspace={"files": {"ü": "1"}}, services={"a": odd(z=1, b="é")}) as world:
        world.ledger.add({"effect_id": "n#0/0"})
        text = world.seal()
        assert text == c1.text(json.loads(text)) == c1.text(world.snapshot)
        assert sorted(world.snapshot) == ["ledger", "services", "workspace"]
        assert world.seal() is text


def test_the_text_does_not_depend_on_who_made_it(tmp_path: Path) -> None:
    code = (
        "from tests.world.made import make\n"
        "files = {'a': '1', 'd/b': {'base64': '/w=='}}\n"
        "with make(workspace={'files': files, 'git': True},"
        " services={n: {'type': 'odd', 'k': {n: 1}} for n in 'cab'}) as world:\n"
        "    (world.workspace / 'new').write_text('x')\n"
        "    print(world.seal())\n"
    )
    texts = set()
    for seed, zone, umask in (("0", "UTC", 0o22), ("1", "EVE-12:45", 0o22), ("2", "UTC", 0o22)):
        folder = tmp_path / seed
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "TMPDIR": str(folder)},
            capture_output=True,
            text=True,
            check=True,
            cwd=REPOSITORY,
            umask=umask,
        )
        texts.add(done.stdout)
        assert list(folder.iterdir()) == []  # nothing is left behind either
    assert len(texts) == 1


def test_secrets_are_masked_in_the_text_and_not_in_the_snapshot() -> None:
    with make(services={"a": odd()}, secrets={"KEY": "hunter22"}) as world:
        world.services["a"].config["said"] = "hunter22"  # type: ignore[attr-defined]
        world.ledger.add({"body": "hunter22"})
        text = world.seal()
        assert "hunter22" not in text
        assert json.loads(text)["ledger"] == [{"body": "«secret:KEY»"}]
        assert world.snapshot["ledger"] == [{"body": "hunter22"}]
        services: Any = world.snapshot["services"]
        assert services[0]["config"] == {"said": "hunter22"}


# -- while it lasts -------------------------------------------------------------------------------


class _Mock:
    kind = "mock"
    problem = None

    def __init__(self, name: str, record: Callable[[str, JsonObject], None]) -> None:
        self.name = name
        self.fresh: list[JsonObject] = []
        self.record = record

    def take(self, n: int, *, is_noted: bool = True) -> None:
        self.fresh.append({"service": self.name, "n": n})
        if is_noted:
            self.record("http_call", {"service": self.name, "n": n})

    def drain(self) -> list[JsonObject]:
        fresh, self.fresh = self.fresh, []
        return fresh

    def close(self) -> None: ...


def test_requests_of_several_services_keep_their_order() -> None:
    with make(services={}) as world:
        world.begin(SimulatedClock())
        mocks = {name: _Mock(name, lambda *a, n=name: world._record(n, *a)) for name in "ab"}
        world.services.update(mocks)  # type: ignore[arg-type]
        for n, name in enumerate("babba"):
            mocks[name].take(n)
        emitted: list[Any] = []

        def emit(kind: str, payload: JsonObject) -> int:
            emitted.append((kind, payload["n"]))
            return 0

        world.settle(emit)
        assert emitted == [("http_request", n) for n in range(5)]
        world.settle(lambda kind, payload: pytest.fail("nothing has come since"))
        assert [json.loads(line)["details"]["n"] for line in world.audit.text.splitlines()] == [
            *range(5)
        ]


def test_what_could_not_be_told_is_told_later() -> None:
    with make(services={}) as world:
        world.services["a"] = mock = _Mock("a", lambda *rest: world._record("a", *rest))  # type: ignore[assignment]
        for n in range(3):
            mock.take(n)
        told: list[Any] = []

        def emit(kind: str, payload: JsonObject) -> int:
            if len(told) == 1 and not mock.fresh:
                mock.take(3)
                raise ValueError("the budget is used up")
            told.append(payload["n"])
            return 0

        with pytest.raises(ValueError, match="used up"):
            world.settle(emit)
        told.append(None)
        world.settle(emit)
        assert told == [0, None, 1, 2, 3]


def test_a_request_that_comes_while_others_are_told_is_told_once() -> None:
    receipts = _Receipts()
    receipts.note("a")
    taken = receipts.take()
    receipts.note("b")  # it came after the names were taken, and is drained all the same
    first = receipts.ordered(taken, {"a": [{"n": 1}], "b": [{"n": 2}]})
    receipts.note("b")
    second = receipts.ordered(receipts.take(), {"a": [], "b": [{"n": 3}]})
    assert (first, second) == ([{"n": 1}, {"n": 2}], [{"n": 3}])


def test_a_mock_that_cannot_tell_what_it_saw_is_down() -> None:
    def break_down() -> list[JsonObject]:
        raise RuntimeError("the journal is gone")

    with make(services={}) as world:
        mock: Any = _Mock("a", lambda *rest: None)
        mock.drain = break_down
        world.services["a"] = mock
        world.settle(lambda kind, payload: pytest.fail("nothing can be told"))
        assert world.problems == {"a": "RuntimeError: the journal is gone"}
        assert json.loads(world.seal())["services"] == [{"name": "a", "type": "mock", "down": True}]


def test_the_audit_log_tells_simulated_time() -> None:
    with make(services={}) as world:
        clock = SimulatedClock("2026-02-03T04:05:06Z")
        world.begin(clock)
        world.audit.add("file_write", {"path": "ü"})
        clock.advance_ms(1500)
        world.audit.add("command", {"command": "ls"})
        assert [json.loads(line) for line in world.audit.text.splitlines()] == [
            {"type": "file_write", "ts": "2026-02-03T04:05:06Z", "details": {"path": "ü"}},
            {"type": "command", "ts": "2026-02-03T04:05:07.500Z", "details": {"command": "ls"}},
        ]


def test_faults_of_a_service_are_counted_in_one_place() -> None:
    faults = {"a": {"refuse": {"first": 2}}}
    with make(services={"a": odd(), "b": odd()}, faults=faults) as world:
        found = [world.service_fault(name) for name in ("a", "b", "a", "a")]
        assert found == ["refuse", None, "refuse", None]
