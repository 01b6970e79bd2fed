"""An effect does what it says, once for each application, and only the world says that it did."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.core import c1
from pytest_evarness.core.interfaces import ServiceDownError
from pytest_evarness.world.application import Applier, receipt_number
from pytest_evarness.world.fault import Injector
from pytest_evarness.world.service import EffectFailedError
from tests.world.ground import Database, Emitted, Mock, World, check

POST = {"http": {"service": "mail", "method": "POST", "path": "/m", "body": {"to": "ann"}}}
INSERT = {
    "sql": {"service": "db", "statement": "INSERT INTO refunds VALUES (?, ?)", "params": ["r1", 5]}
}
ALLOWED = {"rule": "approval", "approval": "sha256:" + "a" * 64}


class Desk:
    """One run's effects."""

    def __init__(self, world: World, patience_ms: int = 3000) -> None:
        self.world = world
        self.applier = Applier(world)
        self.emitted = Emitted()
        self.patience_ms = patience_ms

    def wait(self, ms: int) -> str | None:
        return "too late" if ms > self.patience_ms else None

    def apply(self, effect: Any, name: str = "i/0", fault: str | None = None) -> Any:
        faults = {} if fault is None else {"mail": {fault: "always"}, "db": {fault: "always"}}
        self.world.faults = Injector(faults, 1)
        return self.applier.apply(
            effect,
            effect_id=name,
            intent_id=name.rpartition("/")[0],
            capability="email.send",
            authorized_by=ALLOWED,
            emit=self.emitted,
            wait=self.wait,
        )

    def fails(self, effect: Any, **more: Any) -> EffectFailedError:
        with pytest.raises(EffectFailedError) as caught:
            self.apply(effect, **more)
        return caught.value


def desk(*services: Any, **more: Any) -> Desk:
    return Desk(World(*services, **more))


def sha(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


# -- requests ------------------------------------------------------------------------------------


def test_the_service_sees_the_request_before_the_ledger_has_the_effect() -> None:
    one = desk(Mock())
    receipt = one.apply(POST)
    assert one.emitted.types == ["http_request", "effect_applied"]
    assert one.emitted.payload("effect_applied") == {
        "effect_id": "i/0",
        "intent_id": "i",
        "capability": "email.send",
        "kind": "http",
        "target": "mail POST /m",
        "digest": c1.sha256_text(
            c1.text({"http": {**POST["http"], "headers": {}}}),
        ),
        "receipt": receipt,
        "authorized_by": ALLOWED,
    }
    assert receipt == {"service": "mail", "ref": "request 1, status 202", "digest": sha("thanks")}
    assert receipt_number(receipt) == 1
    assert one.world.ledger.entries == [one.emitted.payload("effect_applied")]


def test_headers_and_query_arrive_as_texts() -> None:
    one = desk(mail := Mock())
    asked = {**POST["http"], "headers": {"X-N": 3}, "query": {"dry": True, "to": "ann"}}
    one.apply({"http": asked})
    assert mail.journal[0]["headers"] == {"X-N": "3"}
    assert mail.journal[0]["query"] == {"dry": "true", "to": "ann"}


def test_a_service_that_says_no_did_nothing() -> None:
    one = desk(Mock("mail", 503, 202))
    failed = one.fails(POST)
    assert (failed.reason, failed.is_applied) == ("mail answered 503", False)
    assert one.emitted.types == ["http_request", "effect_refused"]
    refused = one.emitted.payload("effect_refused")
    assert refused["receipt"]["ref"] == "request 1, status 503"
    assert one.world.ledger.entries == []
    # The twin: the same service says yes to the second try, which then is the only effect.
    one.apply(POST)
    assert len(one.world.ledger.entries) == 1


@pytest.mark.parametrize(
    ("status", "matches", "effects"), [(404, False, 1), (404, True, 0), (500, False, 0)]
)
def test_a_request_without_a_route_is_told_apart_from_one_that_is_refused(
    status: int, matches: bool, effects: int
) -> None:
    mail = Mock("mail", status)
    mail.matches = matches
    one = desk(mail)
    if effects:
        assert one.apply(POST)["ref"] == "request 1, status 404"
    else:
        one.fails(POST)
    assert len(one.world.ledger.entries) == effects


def test_a_refused_connection_leaves_nothing_behind() -> None:
    one = desk(mail := Mock())
    failed = one.fails(POST, fault="refuse")
    assert (failed.reason, failed.is_applied) == ("mail: the connection was refused", False)
    assert one.emitted.types == ["effect_refused"]
    assert "receipt" not in one.emitted.payload("effect_refused")
    assert mail.journal == []


@pytest.mark.parametrize("fault", ["reset", "stall"])
def test_a_request_that_was_received_counts_though_its_answer_was_lost(fault: str) -> None:
    one = desk(mail := Mock())
    failed = one.fails(POST, fault=fault)
    assert (failed.is_applied, failed.is_silent) == (True, fault == "stall")
    assert one.emitted.types == ["http_request", "effect_applied"]
    receipt = one.emitted.payload("effect_applied")["receipt"]
    assert (receipt["ref"], receipt_number(receipt)) == ("request 1, no answer", 1)
    assert len(mail.journal) == len(one.world.ledger.entries) == 1


@pytest.mark.parametrize(("status", "effects"), [(202, 1), (503, 0)])
def test_an_answer_that_comes_too_late_is_lost_whatever_it_says(status: int, effects: int) -> None:
    one = desk(Mock("mail", status, delay_ms=3001))
    failed = one.fails(POST)
    assert (failed.reason, failed.is_applied) == ("too late", bool(effects))
    assert len(one.world.ledger.entries) == effects
    assert one.emitted.types[1] == ("effect_applied" if effects else "effect_refused")
    # The twin: within the caller's patience it is an answer like any other.
    if effects:
        assert desk(Mock("mail", status, delay_ms=3000)).apply(POST)["service"] == "mail"


def test_a_service_that_is_down_ends_the_run() -> None:
    mail = Mock()
    mail.problem = "could not bind"
    one = desk(mail)
    with pytest.raises(ServiceDownError, match=r"^service mail: could not bind$"):
        one.apply(POST)
    assert one.emitted.types == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"method": "post"}, "http.method: no method in capitals (got 'post')"),
        ({"path": "m"}, "http.path: must begin with '/' (got 'm')"),
        ({"path": "/m?to=x"}, "http.path: must not hold '?' (got '/m?to=x')"),
        ({"path": "/m\n"}, "http.path: must not hold control characters (got '/m\\n')"),
        (
            {"headers": {"A": "x\r\nB: y"}},
            "http.headers: 'A' holds a line break or another control character (got 'x\\r\\nB: y')",
        ),
        (
            {"headers": {"A: y\r\nB": "x"}},
            "http.headers: 'A: y\\r\\nB' is no name of a header (got 'x')",
        ),
        ({"service": "db"}, "db: takes no requests (it is a sqlite)"),
        ({"service": "nobody"}, "nobody: no such service is declared"),
    ],
)
def test_a_request_that_cannot_be_made_is_refused(asked: dict[str, Any], said: str) -> None:
    one = desk(Mock(), Database())
    assert one.fails({"http": {**POST["http"], **asked}}).reason == said
    assert one.emitted.types == ["effect_refused"]


# -- statements ----------------------------------------------------------------------------------


def test_a_statement_says_how_many_rows_and_which_tables() -> None:
    one = desk(db := Database())
    receipt = one.apply(INSERT)
    assert one.emitted.types == ["db_write", "effect_applied"]
    assert one.emitted.payload("db_write") == {"service": "db", "table": "refunds"}
    assert (receipt["service"], receipt["ref"]) == ("db", "1 row")
    assert db.rows == [("r1", 5.0)]
    assert one.world.audit.entries == [
        (
            "db_write",
            {"service": "db", "table": "refunds", "statement": INSERT["sql"]["statement"]},
        )
    ]


def test_a_value_never_becomes_part_of_a_statement() -> None:
    one = desk(db := Database())
    hostile = "x'); DROP TABLE refunds; --"
    one.apply({"sql": {**INSERT["sql"], "params": [hostile, 5]}})
    assert db.rows == [(hostile, 5.0)]


def test_what_the_engine_refuses_did_nothing() -> None:
    one = desk(db := Database())
    failed = one.fails({"sql": {**INSERT["sql"], "statement": "INSERT INTO nowhere VALUES (?, ?)"}})
    assert failed.reason == "no such table: nowhere"
    assert one.emitted.types == ["effect_refused"]
    assert db.rows == []


def test_a_parameter_is_one_value() -> None:
    one = desk(Database())
    failed = one.fails({"sql": {**INSERT["sql"], "params": ["r1", [1]]}})
    assert failed.reason.startswith("sql.params.1: one value is needed (got ")


@pytest.mark.parametrize(("fault", "rows"), [("refuse", 0), ("reset", 1), ("stall", 1)])
def test_faults_of_a_database_are_those_of_a_mock(fault: str, rows: int) -> None:
    one = desk(db := Database())
    failed = one.fails(INSERT, fault=fault)
    assert (failed.is_applied, failed.is_silent) == (bool(rows), fault == "stall")
    assert len(db.rows) == len(one.world.ledger.entries) == rows


# -- files ---------------------------------------------------------------------------------------


def write(path: str, text: str = "hello") -> dict[str, Any]:
    return {"file": {"path": path, "write": text}}


def test_a_file_is_written_extended_and_removed(tmp_path: Path) -> None:
    one = desk(workspace=tmp_path)
    assert one.apply(write("out/a.txt")) == {
        "service": "workspace",
        "ref": "out/a.txt",
        "digest": sha("hello"),
    }
    one.apply({"file": {"path": "out/a.txt", "append": "\r\nworld"}}, "i/1")
    assert (tmp_path / "out/a.txt").read_bytes() == b"hello\r\nworld"
    one.apply({"file": {"path": "out/a.txt", "delete": True}}, "i/2")
    assert not (tmp_path / "out/a.txt").exists()
    written = [payload for name, payload in one.emitted.events if name == "file_write"]
    assert written == [
        {"path": "out/a.txt", "digest": sha("hello")},
        {"path": "out/a.txt", "digest": sha("hello\r\nworld")},
        {"path": "out/a.txt", "digest": None},
    ]


def test_modes_do_not_depend_on_the_mask_of_the_process(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        desk(workspace=tmp_path).apply(write("a/b"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a/b").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "a/../../x", "a/./b", "a//b", "C:/x", "a\\b", "a\x00b", "a/"]
)
def test_a_path_is_judged_by_its_components(tmp_path: Path, path: str) -> None:
    one = desk(workspace=tmp_path / "w")
    (tmp_path / "w").mkdir()
    assert one.fails(write(path)).reason.startswith("file.path: must ")
    assert one.emitted.types == ["effect_refused"]
    assert [entry.name for entry in tmp_path.rglob("*")] == ["w"]


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "w", tmp_path / "out"
    workspace.mkdir()
    outside.mkdir()
    (workspace / "way").symlink_to(outside)
    (workspace / "file").symlink_to(outside / "f")
    (workspace / "round").symlink_to("round")
    one = desk(workspace=workspace)
    for path in ("way/x", "file"):
        assert one.fails(write(path)).reason == f"file {path}: a link leads out of the workspace"
    assert one.fails(write("round")).reason == "file round: is a link that leads to itself"
    assert list(outside.iterdir()) == []
    # The twin: a link that stays inside is a way like any other.
    (workspace / "inner").mkdir()
    (workspace / "near").symlink_to("inner")
    one.apply(write("near/x"))
    assert (workspace / "inner" / "x").read_text() == "hello"


def test_a_neighbour_whose_name_begins_alike_is_outside(tmp_path: Path) -> None:
    workspace, beside = tmp_path / "w", tmp_path / "w2"
    workspace.mkdir()
    beside.mkdir()
    (workspace / "way").symlink_to(beside)
    assert "leads out" in desk(workspace=workspace).fails(write("way/x")).reason


def test_what_is_no_file_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "f").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    one = desk(workspace=tmp_path)
    assert one.fails(write("d")).reason == "file d: is a directory"
    assert one.fails(write("f/x")).reason == "file f/x: lies below a file"
    assert one.fails(write("pipe")).reason == "file pipe: is no regular file"
    assert one.fails({"file": {"path": "g", "delete": True}}).reason == "file g: nothing is there"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["d", "f", "pipe"]


# -- messages ------------------------------------------------------------------------------------


def test_a_message_can_be_read_in_the_event_the_ledger_and_the_audit_log() -> None:
    one = desk()
    receipt = one.apply({"message": {"to": "ann", "body": "hi"}})
    one.apply({"message": {"to": "bob", "body": "hi"}}, "i/1")
    assert (receipt["service"], receipt["ref"]) == ("mailbox", "message 1")
    (first, second) = one.world.ledger.entries
    assert first["message"] == {"to": "ann", "body": "hi"}
    assert (second["target"], second["receipt"]["ref"]) == ("bob", "message 2")
    assert one.world.audit.entries[0] == ("message", {"to": "ann", "body": "hi"})


# -- keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "services"),
    [
        (POST, (Mock(),)),
        ({"http": {**POST["http"], "headers": {"idempotency-key": "k"}}}, (Mock(),)),
        (INSERT, (Database(),)),
        ({"message": {"to": "ann", "body": "hi"}}, ()),
    ],
)
def test_under_a_key_the_second_application_does_nothing(effect: Any, services: Any) -> None:
    one = desk(*services)
    if "headers" not in effect.get("http", {}):
        effect = {**effect, "idempotency_key": "k"}
    receipt = one.apply(effect)
    assert one.apply(effect) == receipt
    assert one.emitted.types[-2:] == ["effect_applied", "effect_replayed"]
    replayed = one.emitted.payload("effect_replayed")
    assert (replayed["idempotency_key"], replayed["receipt"]) == ("k", receipt)
    assert len(one.world.ledger.entries) == 1


def test_without_a_key_the_second_application_is_a_second_effect() -> None:
    one = desk(db := Database())
    one.apply(INSERT)
    one.apply(INSERT)
    assert [entry["effect_id"] for entry in one.world.ledger.entries] == ["i/0", "i/0"]
    assert len(db.rows) == 2


def test_the_service_is_told_the_key() -> None:
    one = desk(mail := Mock())
    one.apply({**POST, "idempotency_key": 7})
    assert mail.journal[0]["headers"] == {"Idempotency-Key": "7"}


def test_a_key_stands_for_one_effect() -> None:
    one = desk(db := Database())
    one.apply({**INSERT, "idempotency_key": "k"})
    other = {"sql": {**INSERT["sql"], "params": ["r2", 5]}, "idempotency_key": "k"}
    assert one.fails(other).reason == (
        "idempotency_key: was used for another effect (got 'k'; one key, one effect)"
    )
    assert len(db.rows) == 1


def test_a_key_that_did_nothing_is_free() -> None:
    one = desk(Mock("mail", 503, 202))
    one.fails({**POST, "idempotency_key": "k"})
    one.apply({**POST, "idempotency_key": "k"})
    assert one.emitted.types == [
        "http_request",
        "effect_refused",
        "http_request",
        "effect_applied",
    ]


def test_a_key_belongs_to_its_service_and_its_run() -> None:
    one = desk(db := Database(), Database("other"))
    one.apply({**INSERT, "idempotency_key": "k"})
    one.apply({"sql": {**INSERT["sql"], "service": "other"}, "idempotency_key": "k"})
    assert "effect_replayed" not in one.emitted.types
    again = Desk(one.world)
    again.apply({**INSERT, "idempotency_key": "k"})
    assert len(db.rows) == 2


def test_an_answer_that_was_lost_is_given_to_the_retry() -> None:
    one = desk(db := Database())
    effect = {**INSERT, "idempotency_key": "k"}
    assert one.fails(effect, fault="reset").is_applied
    assert one.apply(effect)["ref"] == "1 row"
    assert len(db.rows) == 1
    # A second loss tells the caller nothing, and does nothing.
    assert one.fails(effect, fault="stall").is_applied
    assert one.fails(effect, fault="refuse").is_applied is False
    assert len(db.rows) == 1


def test_a_blank_key_is_none() -> None:
    assert desk(Database()).fails({**INSERT, "idempotency_key": " "}).reason == (
        "idempotency_key: is blank"
    )


# -- secrets -------------------------------------------------------------------------------------


def test_digests_are_of_what_may_be_shown(tmp_path: Path) -> None:
    def digests(secret: str) -> list[str]:
        one = desk(workspace=tmp_path, secrets={"KEY": secret})
        one.apply({"message": {"to": "ann", "body": f"the key is {secret}"}})
        one.apply(write("f", f"the key is {secret}"))
        return [
            found
            for entry in one.world.ledger.entries
            for found in (entry["digest"], entry["receipt"]["digest"])
        ]

    assert digests("hunter2") == digests("correct horse")


def test_the_vocabulary_would_notice_a_field_that_it_does_not_have() -> None:
    one = desk()
    one.apply({"message": {"to": "ann", "body": "hi"}})
    payload = one.emitted.payload("effect_applied")
    assert check("effect_applied", payload) == []
    assert check("effect_applied", {**payload, "extra": 1}) != []
    assert check("effect_applied", {**payload, "authorized_by": {"rule": "x"}}) != []
