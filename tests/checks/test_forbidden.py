"""A forbidden rule is judged from two independent accounts; a pass needs both of them whole."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.checks.forbidden import DESCRIPTIONS, UNMATCHED, judge_forbidden
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.plan import PlannedItem
from tests.checks.builders import END, Short, evidence

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding

START: Short = ("run_started", None, {"fixture": "f", "seed": 1})
FINISH: Short = ("run_finished", None, {**END})
STEP: Short = ("node_started", "n2", {"type": "python"})
SERVICES = {"mail": "http_mock", "spy": "http_mock", "db": "sqlite"}


def request(service: str | None, *, matched: bool = True, path: str = "/m") -> Short:
    payload = {
        "service": service,
        "method": "POST",
        "path": path,
        "matched": matched,
        "status": 202,
    }
    return "http_request", None, payload


def journal(n: int = 1, *, matched: bool = True, path: str = "/m") -> dict[str, Any]:
    return {"n": n, "method": "POST", "path": path, "matched": matched, "status": 202}


def mock(name: str, *requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "http_mock", "record": True, "requests": list(requests), **more}


def table(name: str, count: int = 1, *, start: int | None = 1, digest: str = "d") -> dict[str, Any]:
    before = None if start is None else {"count": start, "digest": "d"}
    return {"name": name, "count": count, "digest": digest, "start": before}


def database(*tables: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "db", "type": "sqlite", "tables": list(tables), **more}


def effect(effect_id: str = "i1/0", capability: str = "email.send") -> dict[str, Any]:
    return {"effect_id": effect_id, "capability": capability, "kind": "http", "target": "mail"}


def applied(**fields: Any) -> Short:
    return "effect_applied", "n4", effect(**fields)


def world_of(*services: dict[str, Any], workspace: Any = None, ledger: Any = ()) -> dict[str, Any]:
    by_name = {one["name"]: one for one in services}
    return {
        "workspace": workspace,
        "services": [by_name[name] for name in sorted(by_name)],
        "ledger": list(ledger),
    }


def workspace(*files: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"files": list(files), "added": [], "removed": [], "modified": [], **changes}


def file(path: str, **more: Any) -> dict[str, Any]:
    return {"path": path, "type": "file", "mode": "0644", "size": 1, "sha256": "sha256:x", **more}


def judged(
    rule: str,
    *run: Short,
    names: tuple[str, ...] = (),
    services: dict[str, str] | None = None,
    world: dict[str, Any] | None = None,
    has_workspace: bool = False,
    steps: tuple[str, ...] = (),
    status: str = "completed",
    pause_is_end: bool = False,
) -> Finding:
    item = PlannedItem(
        id=f"forbidden-{rule.replace('_', '-')}",
        kind="forbidden",
        gate=True,
        definition={
            "rule": rule,
            "names": list(names),
            "services": services if services is not None else SERVICES,
            "workspace": has_workspace,
            "steps": list(steps),
        },
    )
    end = (FINISH,) if status == "completed" else ()
    seen = evidence(status, START, *run, *end)
    default = world_of(mock("mail"), mock("spy"), database(table("orders")))
    seen = replace(seen, world=default if world is None else world)
    before = copy.deepcopy(seen.world)
    finding = judge_forbidden(item, seen, pause_is_end=pause_is_end)
    assert seen.world == before
    # Holds for every rule: an absence is claimed only by who says where it looked.
    assert finding.looked_at or finding.vacuous
    return finding


def word(finding: Finding) -> str:
    return "vacuous" if finding.vacuous else finding.outcome.word


# -- http ---------------------------------------------------------------------------------------


def test_requests_to_allowed_services_pass_and_say_where_was_looked() -> None:
    world = world_of(mock("mail", journal()), mock("spy"), database(table("orders")))
    found = judged("http_except", request("mail"), names=("mail",), world=world)
    assert word(found) == "pass"
    assert "the journal of service spy, 0 requests" in found.looked_at
    assert any("http_request among the events 0..2" in one for one in found.looked_at)


@pytest.mark.parametrize("service", ["spy", None])
def test_a_request_elsewhere_fails_with_the_event(service: str | None) -> None:
    calls = [journal()] if service else []
    world = world_of(mock("mail"), mock("spy", *calls), database(table("orders")))
    found = judged("http_except", request(service), names=("mail",), world=world)
    assert (word(found), found.decisive_seq, found.witness.events) == ("fail", 1, (1,))
    assert "1" in found.witness.context


def test_a_request_that_only_the_journal_knows_fails_as_well() -> None:
    world = world_of(mock("mail"), mock("spy", journal()), database(table("orders")))
    found = judged("http_except", names=("mail",), world=world)
    assert (word(found), found.decisive_seq) == ("fail", None)
    assert found.witness.entries == ("spy request 1: POST /m, status 202",)
    assert any("journal of service 'spy' has 1 requests" in note for note in found.witness.notes)


@pytest.mark.parametrize(
    ("spy", "reason"),
    [
        ({"requests": None}, "service 'spy' keeps no journal"),
        ({"down": True}, "service 'spy' is down"),
        (None, "the end state holds nothing of service 'spy'"),
    ],
)
def test_a_service_that_tells_nothing_leaves_it_open(spy: Any, reason: str) -> None:
    rest = [] if spy is None else [{**mock("spy"), **spy}]
    world = world_of(mock("mail"), database(table("orders")), *rest)
    found = judged("http_except", names=("mail",), world=world)
    assert (word(found), found.causes) == ("indeterminate", (Cause.MISSING_EVIDENCE,))
    assert reason in found.reason


def test_a_journal_that_disagrees_with_the_events_contradicts_them() -> None:
    world = world_of(mock("mail", journal()), mock("spy"), database(table("orders")))
    found = judged("http_except", names=("mail",), world=world)
    assert (word(found), found.causes) == ("indeterminate", (Cause.CONTRADICTORY_EVIDENCE,))
    lost = world_of(mock("mail", lost=1), mock("spy"), database(table("orders")))
    assert word(judged("http_except", request("mail"), names=("mail",), world=lost)) == "pass"


def test_a_case_without_services_has_nothing_to_request() -> None:
    found = judged("http_except", services={}, world={})
    assert word(found) == "vacuous"
    assert found.reason == "the case declares no HTTP service"
    assert word(judged("http_except", request(None), services={}, world={})) == "fail"


def test_a_request_that_no_route_met_fails_the_strict_mock_it_came_to() -> None:
    calls = (request("mail", matched=False), request("spy", matched=False))
    both = world_of(mock("mail", journal(matched=False)), mock("spy", journal(matched=False)))
    found = judged(UNMATCHED, *calls, names=("spy",), world=both)
    assert (word(found), found.witness.events) == ("fail", (2,))
    assert found.reason == "no route met POST /m to service 'spy'"
    fine = world_of(mock("mail", journal(matched=False)), mock("spy", journal()))
    assert word(judged(UNMATCHED, calls[0], request("spy"), names=("spy",), world=fine)) == "pass"


# -- databases ----------------------------------------------------------------------------------


def written(name: str) -> Short:
    return "db_write", "n4", {"service": "db", "table": name}


@pytest.mark.parametrize("names", [("orders",), ("db.orders",)])
def test_writes_to_allowed_tables_pass(names: tuple[str, ...]) -> None:
    world = world_of(mock("mail"), mock("spy"), database(table("orders", 2, digest="e")))
    assert word(judged("db_writes_outside", written("orders"), names=names, world=world)) == "pass"
    assert word(judged("db_writes_outside", written("orders"), world=world)) == "fail"


@pytest.mark.parametrize(
    ("tables", "more", "entry"),
    [
        ([table("users", 2, digest="e")], {}, "had 1 rows at the start, 2 rows at the end"),
        (
            [table("users", 1, digest="e")],
            {},
            "had 1 rows at the start, 1 rows at the end, other ones",
        ),
        ([table("users", 0, start=None)], {}, "was not there at the start, 0 rows at the end"),
        ([], {"dropped": ["users"]}, "was there at the start, is gone at the end"),
    ],
)
def test_a_table_that_changed_without_a_word_fails_by_its_rows(
    tables: Any, more: Any, entry: str
) -> None:
    world = world_of(mock("mail"), mock("spy"), database(table("orders"), *tables, **more))
    found = judged("db_writes_outside", names=("orders",), world=world)
    assert (word(found), found.witness.entries) == ("fail", (f"db.users: {entry}",))
    assert word(judged("db_writes_outside", names=("orders", "users"), world=world)) != "fail"


def test_a_change_that_no_event_tells_of_contradicts_them_unless_a_step_had_the_means() -> None:
    world = world_of(mock("mail"), mock("spy"), database(table("orders", 2, digest="e")))
    found = judged("db_writes_outside", names=("orders",), world=world)
    assert found.causes == (Cause.CONTRADICTORY_EVIDENCE,)
    stepped = judged("db_writes_outside", STEP, names=("orders",), world=world, steps=("n2",))
    assert stepped.causes == (Cause.MISSING_EVIDENCE,)


def declared(
    kind: str, name: str, of: str | None = None, *, start: str | None = "a", end: str | None = "b"
) -> dict[str, Any]:
    return {"kind": kind, "name": name, "table": of, "start": start, "digest": end}


@pytest.mark.parametrize(
    ("record", "owner", "text"),
    [
        (declared("view", "v", end=None), "v", "view 'v' of service 'db' is gone"),
        (declared("view", "v", start=None), "v", "view 'v' of service 'db' is new"),
        (
            declared("trigger", "t", "users"),
            "users",
            "trigger 't' of table 'users' of service 'db' changed",
        ),
        (
            declared("table", "users", "users"),
            "users",
            "the definition of table 'users' of service 'db' changed",
        ),
        (
            declared("sequence", "users", "users"),
            "users",
            "the sequence of table 'users' of service 'db' changed",
        ),
    ],
)
def test_a_definition_that_changed_fails_by_whom_it_belongs_to(
    record: Any, owner: str, text: str
) -> None:
    world = world_of(mock("mail"), mock("spy"), database(table("orders"), objects=[record]))
    found = judged("db_writes_outside", names=("orders",), world=world)
    assert (word(found), found.reason) == ("fail", text)
    told = judged("db_writes_outside", written(owner), names=(owner,), world=world)
    assert word(told) == "pass"
    silent = judged("db_writes_outside", names=(owner,), world=world)
    # A counter also moves where the statement that moved it was refused.
    if record["kind"] == "sequence":
        assert word(silent) == "pass"
    else:
        assert silent.causes == (Cause.CONTRADICTORY_EVIDENCE,)


def test_a_database_that_is_down_leaves_it_open_and_none_at_all_is_vacuous() -> None:
    down = world_of(mock("mail"), mock("spy"), {**database(), "down": True})
    assert word(judged("db_writes_outside", world=down)) == "indeterminate"
    assert word(judged("db_writes_outside", services={"mail": "http_mock"})) == "vacuous"


def test_a_service_of_a_type_of_somebody_else_is_known_by_what_it_holds() -> None:
    theirs = {**database(table("users", 2, digest="e")), "name": "theirs", "type": "acme"}
    world = world_of(theirs)
    found = judged("db_writes_outside", services={"theirs": "acme"}, world=world)
    assert word(found) == "fail"
    mocked = {**mock("theirs", journal()), "type": "acme"}
    found = judged("http_except", services={"theirs": "acme"}, world=world_of(mocked))
    assert word(found) == "fail"


# -- files --------------------------------------------------------------------------------------


def filed(*run: Short, names: tuple[str, ...] = (), world: dict[str, Any]) -> Finding:
    return judged("file_writes_outside", *run, names=names, world=world, has_workspace=True)


def wrote(path: str, digest: str | None = "sha256:x") -> Short:
    return "file_write", "n4", {"path": path, "digest": digest}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("out/a.txt", "pass"),
        ("out", "pass"),
        ("outside/a.txt", "fail"),  # a text prefix, and another folder
        ("deep/er/b", "pass"),
        ("deep/b", "fail"),
    ],
)
def test_prefixes_are_of_components(path: str, expected: str) -> None:
    world = world_of(workspace=workspace(file(path), added=[path]))
    names = ("out", "deep/er")
    found = judged("file_writes_outside", wrote(path), names=names, world=world, has_workspace=True)
    assert word(found) == expected


@pytest.mark.parametrize("how", ["added", "removed", "modified"])
def test_a_file_that_changed_without_a_word_fails_by_itself(how: str) -> None:
    world = world_of(
        workspace=workspace(*([] if how == "removed" else [file("x")]), **{how: ["x"]})
    )
    found = filed(names=("out",), world=world)
    assert word(found) == "fail"
    assert found.witness.entries[0].startswith(f"x: {how}")
    same = world_of(workspace=workspace(file("x")))
    assert word(judged("file_writes_outside", world=same, has_workspace=True)) == "pass"


def test_the_folders_above_an_allowed_place_may_be_made() -> None:
    folder = {"path": "deep", "type": "directory", "mode": "0755"}
    world = world_of(workspace=workspace(folder, added=["deep"]))
    names = ("deep/er",)
    assert word(filed(names=names, world=world)) == "pass"
    plain = world_of(workspace=workspace(file("deep"), added=["deep"]))
    assert word(filed(names=names, world=plain)) == "fail"


def test_a_file_that_is_not_what_was_written_contradicts_the_event() -> None:
    world = world_of(workspace=workspace(file("out/a", sha256="sha256:y"), added=["out/a"]))
    more: dict[str, Any] = {"names": ("out",), "world": world, "has_workspace": True}
    found = judged("file_writes_outside", wrote("out/a"), **more)
    assert found.causes == (Cause.CONTRADICTORY_EVIDENCE,)
    assert word(judged("file_writes_outside", wrote("out/a", "sha256:y"), **more)) == "pass"


def test_a_file_that_nobody_could_read_leaves_it_open() -> None:
    world = world_of(workspace=workspace(file("x", unreadable=True)))
    found = filed(names=("out",), world=world)
    assert found.causes == (Cause.MISSING_EVIDENCE,)
    assert word(filed(names=("x",), world=world)) == "pass"


def test_without_a_workspace_no_file_can_be_written() -> None:
    assert word(judged("file_writes_outside", world=world_of())) == "vacuous"
    lost = judged("file_writes_outside", world=world_of(), has_workspace=True)
    assert lost.causes == (Cause.MISSING_EVIDENCE,)


# -- secrets, network, tools, effects -----------------------------------------------------------


def test_a_secret_in_any_text_of_any_event_fails() -> None:
    told: Short = ("tool_called", "n4", {"args": {"to": ["a", "key «secret:TOKEN»"]}})
    found = judged("secrets_in_logs", told, names=("OTHER", "TOKEN"))
    assert (word(found), found.decisive_seq) == ("fail", 1)
    assert found.reason == "the value of secret 'TOKEN' stood in tool_called.args.to[1]"
    assert word(judged("secrets_in_logs", told, names=("OTHER",))) == "pass"
    assert word(judged("secrets_in_logs", told)) == "vacuous"


@pytest.mark.parametrize(
    "event",
    [
        request(None),
        ("egress_checked", "n4", {"destination": "network", "verdict": "allow"}),
    ],
)
def test_what_goes_out_to_the_network_fails(event: Short) -> None:
    assert word(judged("network", event)) == "fail"


@pytest.mark.parametrize(
    "event",
    [
        request("mail"),
        ("egress_checked", "n4", {"destination": "network", "verdict": "deny"}),
        ("egress_checked", "n4", {"destination": "local", "verdict": "allow"}),
    ],
)
def test_what_stays_within_the_declared_world_does_not(event: Short) -> None:
    assert word(judged("network", event)) == "pass"


def test_another_tool_fails_by_its_call_or_by_its_effect() -> None:
    called: Short = ("tool_called", "n4", {"tool": "bank.transfer"})
    assert word(judged("tools_except", called, names=("email.send",))) == "fail"
    assert word(judged("tools_except", called, names=("bank.transfer",))) == "pass"
    done = applied(capability="bank.transfer")
    world = world_of(ledger=[effect(capability="bank.transfer")])
    found = judged("tools_except", done, names=("email.send",), world=world)
    assert (word(found), len(found.witness.entries)) == ("fail", 1)


def test_an_effect_applied_twice_fails_and_two_of_one_kind_do_not() -> None:
    twice = (applied(), applied())
    found = judged("duplicate_effects", *twice, world=world_of(ledger=[effect(), effect()]))
    assert (word(found), found.decisive_seq, len(found.witness.entries)) == ("fail", 2, 2)
    other = (applied(), applied(effect_id="i1/1"))
    ledger = [effect(), effect(effect_id="i1/1")]
    assert word(judged("duplicate_effects", *other, world=world_of(ledger=ledger))) == "pass"
    assert word(judged("duplicate_effects", services={}, world={})) == "vacuous"


@pytest.mark.parametrize("rule", ["http_except", "db_writes_outside", "duplicate_effects"])
def test_a_ledger_that_is_not_what_the_events_tell_contradicts_them(rule: str) -> None:
    world = world_of(mock("mail"), mock("spy"), database(table("orders")), ledger=[effect()])
    found = judged(rule, names=("mail", "spy", "orders"), world=world)
    assert Cause.CONTRADICTORY_EVIDENCE in found.causes
    told = judged(rule, applied(), names=("mail", "spy", "orders"), world=world)
    assert word(told) == "pass"


# -- what all rules share -----------------------------------------------------------------------

MEANS = ["network", "http_except", "db_writes_outside", "file_writes_outside", "secrets_in_logs"]


@pytest.mark.parametrize("rule", MEANS)
def test_a_step_of_the_users_own_that_ran_leaves_what_it_had_the_means_for_open(rule: str) -> None:
    world = world_of(mock("mail"), mock("spy"), database(table("orders")), workspace=workspace())
    more: dict[str, Any] = {"names": ("x",), "world": world, "has_workspace": True}
    ran = judged(rule, STEP, steps=("n2",), **more)
    assert (word(ran), ran.causes) == ("indeterminate", (Cause.MISSING_EVIDENCE,))
    assert "step 'n2' ran code of the user's own outside a sandbox" in ran.reason
    assert word(judged(rule, steps=("n2",), **more)) == "pass"  # it never came to it
    assert word(judged(rule, STEP, **more)) == "pass"  # a node that is no such step


@pytest.mark.parametrize("rule", ["tools_except", "duplicate_effects"])
def test_tools_and_effects_are_beyond_such_a_step(rule: str) -> None:
    assert word(judged(rule, STEP, steps=("n2",))) == "pass"


@pytest.mark.parametrize("rule", sorted(DESCRIPTIONS))
def test_a_run_without_an_end_leaves_every_rule_open_that_it_has_not_broken(rule: str) -> None:
    pause: Short = ("run_paused", None, {"prompt": "?", "preview": "", **END})
    names = () if rule == UNMATCHED else ("mail", "orders", "TOKEN")
    more: dict[str, Any] = {
        "names": names,
        "has_workspace": True,
        "world": world_of(
            mock("mail"), mock("spy"), database(table("orders")), workspace=workspace()
        ),
    }
    found = judged(rule, pause, status="paused", **more)
    assert (word(found), found.causes) == ("indeterminate", (Cause.UNFINISHED_RUN,))
    assert found.leaning is Outcome.PASS
    assert word(judged(rule, pause, status="paused", pause_is_end=True, **more)) == "pass"


def test_a_violation_counts_whatever_else_is_open() -> None:
    found = judged("network", request(None), STEP, steps=("n2",), status="unfinished")
    assert word(found) == "fail"
    assert len(found.witness.notes) == 2


def test_many_violations_are_bounded_and_counted() -> None:
    calls = [request("spy", path=f"/{n}") for n in range(40)]
    entries = [journal(n + 1, path=f"/{n}") for n in range(40)]
    world = world_of(mock("mail"), mock("spy", *entries), database(table("orders")))
    found = judged("http_except", *calls, names=("mail",), world=world)
    assert len(found.witness.events) == 20
    assert len(found.witness.entries) == 20
    assert found.reason == "service 'spy' was requested (POST /0) (and 39 more)"
    assert "20 more events are left out" in found.witness.notes


def test_a_rule_of_another_version_is_an_error_of_the_evaluator() -> None:
    item = PlannedItem("forbidden-x", "forbidden", gate=True, definition={"rule": "x"})
    found = judge_forbidden(item, evidence("completed", START, FINISH))
    assert found.causes == (Cause.EVALUATOR_ERROR,)
