"""What a call does to the world happens behind every gate, once for each attempt that arrives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evarness.core.execution import execute
from pytest_evarness.domains.agents.text import digest_of_value
from pytest_evarness.world.fault import SERVICE_FAULTS, Injector
from tests.domains.agents import harness as h
from tests.world.ground import Database, Mock, World

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_evarness.core.run import Run

POST = {"http": {"service": "mail", "method": "POST", "path": "/m", "body": {"text": "{query}"}}}
INSERT = {
    "sql": {
        "service": "db",
        "statement": "INSERT INTO refunds VALUES (?, ?)",
        "params": ["{args.id}", "{args.amount}"],
    }
}
SERVICES = {"mail": {"type": "http_mock"}, "db": {"type": "sqlite"}}
REFUND = {"id": "r-1", "amount": 12.5}
WORLD_TYPES = ("http_request", "db_write", "file_write", "effect_applied", "effect_refused")


def send(
    *effects: Any,
    world: World | None = None,
    node: Mapping[str, Any] | None = None,
    text: str = "hello",
    approved: bool = False,
    uses: int = 9,
    result: Any = "sent",
    rule: Mapping[str, Any] | None = None,
    **environment: Any,
) -> Run:
    """A run of one tool, ``email.send`` unless the node says another."""
    config = {"tool": "email.send", "approve_side_effects": True, **(node or {})}
    gate = ("approval_gate", {"uses": uses})
    graph = h.chain(("input", {}), *([gate] if approved else []), ("tool", config), ("output", {}))
    answer = {"result": result, "effects": list(effects), "times": "any", **(rule or {})}
    written = {
        "user_input": text,
        "services": SERVICES,
        "tools": {config["tool"]: [answer]},
        **({"approvals": {"n2": "approve"}} if approved else {}),
        **environment,
    }
    if world is not None and world.workspace is not None:
        written["workspace"] = {}
    world = world or World(Mock(), Database())
    world.faults = Injector(written.get("faults", {}), 42)
    return h.run(graph, written, world=world)


def seen(run: Run, *kinds: str) -> list[str]:
    return [kind for kind in h.types(run) if kind in kinds]


def applied(run: Run) -> list[str]:
    return [payload["effect_id"] for payload in h.payloads(run, "effect_applied")]


# -- a call --------------------------------------------------------------------------------------


def test_effects_come_between_the_call_and_its_answer() -> None:
    run = send(POST, {"message": {"to": "ann", "body": "{query}"}})
    assert seen(run, "tool_called", "tool_result", *WORLD_TYPES) == [
        "tool_called",
        "http_request",
        "effect_applied",
        "effect_applied",
        "tool_result",
    ]
    first, second = h.payloads(run, "effect_applied")
    assert (first["effect_id"], second["effect_id"]) == ("n2#1/0", "n2#1/1")
    assert first["intent_id"] == h.payload(run, "tool_called")["intent_id"] == "n2#1"
    assert first["authorized_by"] == {"rule": "approve_side_effects", "approval": None}
    assert second["message"] == {"to": "ann", "body": "hello"}


def test_an_effect_names_the_approval_that_the_call_used() -> None:
    run = send(POST, approved=True)
    used = h.payload(run, "tool_called")["args_digest"]
    assert used == digest_of_value({"query": "hello"})
    assert h.payload(run, "effect_applied")["authorized_by"] == {
        "rule": "approval",
        "approval": used,
    }


def test_an_alias_does_what_the_tool_does() -> None:
    run = send(POST, node={"tool": "send_email"})
    assert h.payload(run, "effect_applied")["capability"] == "email.send"


def refund(*effects: Any, **more: Any) -> Run:
    node = {
        "tool": "payment.transfer",
        "args": {"reference": "{args.id}", "amount": "{args.amount}"},
        **more.pop("node", {}),
    }
    text = json.dumps(REFUND)
    return send(*effects, node=node, text=text, approved=True, **more)


PAID = {
    "sql": {**INSERT["sql"], "params": ["{args.reference}", "{args.amount}"]},
}


def test_a_value_keeps_its_type() -> None:
    world = World(mail := Mock(), db := Database())
    body = {"amount": "{args.amount}", "text": "pay {args.amount} for {args.reference}"}
    refund(PAID, {"http": {**POST["http"], "body": body}}, world=world)
    assert db.rows == [("r-1", 12.5)]
    assert mail.journal[0]["body"] == {"amount": 12.5, "text": "pay 12.5 for r-1"}


def test_a_template_that_the_call_cannot_fill_ends_the_run_before_any_effect() -> None:
    world = World(Mock(), db := Database())
    run = refund(PAID, {"message": {"to": "{args.to}", "body": ""}}, world=world)
    assert run.status == "failed"
    assert h.payload(run, "engine_error")["reason"] == (
        "TemplateError: payment.transfer: effects[1]: the input has no 'to'"
    )
    assert db.rows == []


def test_a_path_that_the_caller_chose_stays_in_the_workspace(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    note = {"file": {"path": "{query}", "write": "x"}}
    run = send(note, world=World(workspace=workspace), text="../out", node={"tool": "fs.write"})
    assert run.status == "failed"
    refused = h.payload(run, "effect_refused")
    assert refused["reason"] == "file.path: must not leave the workspace by '..' (got '../out')"
    assert h.payload(run, "tool_error")["phase"] == "before"
    assert [entry.name for entry in tmp_path.rglob("*")] == ["w"]
    # The twin: a path inside is written.
    send(note, world=World(workspace=workspace), text="in", node={"tool": "fs.write"})
    assert (workspace / "in").read_text() == "x"


def test_the_ledger_and_the_events_are_one_account_to_the_letter() -> None:
    secret = "hunter2-hunter2"
    long = "x" * 4090 + secret + "y" * 5000
    world: Any = World(secrets={"KEY": secret})
    message = {"message": {"to": "ann", "body": "{query}"}}
    graph = h.chain(("input", {}), ("tool", {"tool": "email.send", "approve_side_effects": True}))
    rules = {"email.send": [{"result": "ok", "effects": [message]}]}
    case = h.compiled(graph, {"user_input": long, "tools": rules}, secrets=["KEY"])
    run = execute(case, h.registry(), world=world, secrets={"KEY": secret})
    (event,) = h.payloads(run, "effect_applied")
    assert world.ledger.entries == [event]
    assert event["message"]["truncated"] is True
    assert secret not in str(world.ledger.entries)
    # Who reads the audit log gets the whole.
    assert world.audit.entries == [("message", {"to": "ann", "body": long})]


# -- whose effects -------------------------------------------------------------------------------


def tool(effects: Any, sim: Any = ()) -> dict[str, Any]:
    return h.manifest("crm.note", "write", effects=effects, sim=list(sim))


def note(rules: Any, **more: Any) -> Run:
    graph = h.chain(
        ("input", {}), ("tool", {"tool": "crm.note", "approve_side_effects": True}), ("output", {})
    )
    environment = {
        "services": SERVICES,
        **({} if rules is None else {"tools": {"crm.note": rules}}),
    }
    world = World(Mock(), Database())
    return h.run(graph, environment, tools=tool([POST], **more), world=world)


def test_a_rules_effects_stand_in_place_of_the_manifests() -> None:
    mail = {"message": {"to": "ann", "body": ""}}
    assert len(applied(note([{"result": "ok"}]))) == 1
    assert len(applied(note([]))) == 1
    assert applied(note([{"result": "ok", "effects": []}])) == []
    (only,) = h.payloads(note([{"result": "ok", "effects": [mail]}]), "effect_applied")
    assert only["kind"] == "message"


def test_a_manifests_own_rules_have_effects_too() -> None:
    mail = {"message": {"to": "ann", "body": ""}}
    run = note(None, sim=[{"result": "ok", "effects": [mail]}])
    assert h.payload(run, "effect_applied")["kind"] == "message"
    assert len(applied(note(None, sim=[{"result": "ok"}]))) == 1


def test_a_tool_that_raises_does_only_what_its_rule_says() -> None:
    assert applied(note([{"raise": "boom"}])) == []
    run = note([{"raise": "boom", "effects": [POST]}])
    assert applied(run) == ["n2#1/0"]
    assert h.payload(run, "tool_error")["error"] == "boom"


# -- gates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "rule"),
    [
        ({"approve_side_effects": False}, "side_effects_not_approved"),
        ({"tool": "send_email", "approve_side_effects": False}, "side_effects_not_approved"),
        ({"tool": "payment.transfer"}, "approval_missing"),
        ({"tool": "transfer"}, "approval_missing"),
    ],
)
def test_a_refused_call_changes_nothing(node: dict[str, Any], rule: str) -> None:
    row = {"sql": {**INSERT["sql"], "params": ["{query}", 1]}}
    world = World(mail := Mock(), db := Database())
    run = send(POST, row, world=world, node=node)
    assert run.status == "blocked"
    assert h.payload(run, "policy_decision")["rule"] == rule
    assert seen(run, "tool_called", *WORLD_TYPES) == []
    assert (mail.journal, db.rows, world.ledger.entries) == ([], [], [])


def test_a_refusal_names_the_capability_whatever_alias_was_used() -> None:
    for name in ("payment.transfer", "transfer", "payment_transfer"):
        run = send(POST, node={"tool": name})
        assert h.payload(run, "policy_decision")["capability"] == "payment.transfer"


def test_an_approval_that_is_used_up_covers_no_second_effect() -> None:
    run = refund(
        PAID, uses=1, node={"retries": 1}, faults={"payment.transfer": {"fail_after": "always"}}
    )
    assert run.status == "blocked"
    assert h.payload(run, "policy_decision")["rule"] == "approval_used"
    assert len(applied(run)) == 1


# -- faults --------------------------------------------------------------------------------------

RETRY = {"retries": 1}


def faulty(run: Run) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (payload["phase"], tuple(payload.get("injected", ())))
        for payload in h.payloads(run, "tool_error")
    ]


@pytest.mark.parametrize(
    ("fault", "phase", "effects"),
    [
        ({"fail_before": {"first": 1}}, "before", 1),
        ({"fail_after": {"first": 1}}, "after", 2),
        ({"malformed": {"first": 1}}, "after", 2),
    ],
)
def test_whether_a_retry_acts_twice_depends_on_what_was_lost(
    fault: dict[str, Any], phase: str, effects: int
) -> None:
    world = World(mail := Mock(), Database())
    run = send(POST, world=world, node=RETRY, faults={"email.send": fault})
    assert run.status == "completed"
    assert applied(run) == ["n2#1/0"] * effects
    assert len(mail.journal) == effects
    assert faulty(run) == [(phase, (f"email.send.{next(iter(fault))}",))]


def test_an_answer_that_comes_too_late_was_an_effect_all_the_same() -> None:
    late = {"email.send": {"delay_ms": 5000}}
    run = send(POST, node=RETRY, faults=late)
    assert run.status == "failed"
    assert applied(run) == ["n2#1/0"] * 2
    assert faulty(run) == [("after", ("email.send.delay_ms",))] * 2
    in_time = send(POST, node={**RETRY, "timeout_ms": 5000}, faults=late)
    assert applied(in_time) == ["n2#1/0"]
    assert h.payload(in_time, "tool_result")["injected"] == ["email.send.delay_ms"]


def test_the_delays_of_a_tool_and_of_its_services_add_up() -> None:
    def run(ms: int) -> Run:
        world = World(Mock(delay_ms=2000), Database())
        return send(POST, world=world, faults={"email.send": {"delay_ms": ms}})

    assert run(1000).status == "completed"
    late = run(1001)
    assert h.payload(late, "tool_error")["error"] == "no answer within 3000 ms"
    assert applied(late) == ["n2#1/0"]


def test_an_answer_that_comes_twice_was_one_effect() -> None:
    run = send(POST, faults={"email.send": {"duplicate_answer": "always"}})
    assert seen(run, "effect_applied", "tool_result") == ["effect_applied"] + ["tool_result"] * 2


def test_an_intent_that_is_named_makes_a_repeat_a_duplicate() -> None:
    node = {"intent": "refund {args.id}", **RETRY}
    run = refund(PAID, node=node, faults={"payment.transfer": {"fail_after": {"first": 1}}})
    assert applied(run) == ["refund r-1/0"] * 2


def test_a_key_makes_a_repeat_harmless() -> None:
    world = World(Mock(), db := Database())
    node = {"intent": "refund {args.id}", **RETRY}
    keyed = {**PAID, "idempotency_key": "{args.reference}"}
    fault = {"payment.transfer": {"fail_after": {"first": 1}}}
    run = refund(keyed, node=node, faults=fault, world=world)
    assert run.status == "completed"
    assert applied(run) == ["refund r-1/0"]
    assert h.payload(run, "effect_replayed")["idempotency_key"] == "r-1"
    assert db.rows == [("r-1", 12.5)]
    assert len(h.payloads(run, "tool_called")) == 2


@pytest.mark.parametrize(
    ("fault", "phase", "effects"),
    [("refuse", "before", 1), ("reset", "after", 2), ("stall", "after", 2)],
)
def test_a_service_may_fail_before_or_after_it_acted(fault: str, phase: str, effects: int) -> None:
    world = World(mail := Mock(), Database())
    run = send(POST, world=world, node=RETRY, faults={"mail": {fault: {"first": 1}}})
    assert run.status == "completed"
    assert faulty(run) == [(phase, (f"mail.{fault}",))]
    assert applied(run) == ["n2#1/0"] * effects
    assert len(mail.journal) == effects


def test_who_waits_for_a_service_that_stalls_waits_until_time_is_up() -> None:
    def status(fault: str, expires_ms: int) -> str:
        return send(
            POST,
            approved=True,
            node={**RETRY, "timeout_ms": 700},
            approvals={"n2": {"decision": "approve", "expires_ms": expires_ms}},
            faults={"mail": {fault: {"first": 1}}},
        ).status

    assert status("stall", 700) == "blocked"  # the approval ended while the first try waited
    assert status("stall", 701) == "completed"
    assert status("reset", 1) == "completed"


def test_an_effect_behind_one_that_failed_is_not_tried() -> None:
    world = World(Mock("mail", 500), db := Database())
    message = {"message": {"to": "ann", "body": ""}}
    run = send(message, POST, message, world=world)
    assert run.status == "failed"
    assert seen(run, *WORLD_TYPES) == ["effect_applied", "http_request", "effect_refused"]
    (error,) = h.payloads(run, "tool_error")
    # The first one was done, so a retry would do it again.
    assert (error["phase"], error["error"]) == ("after", "mail answered 500")
    assert db.rows == []


def test_a_service_that_is_down_leaves_the_run_unfinished() -> None:
    mail = Mock()
    mail.problem = "could not bind"
    run = send(POST, world=World(mail))
    assert run.status == "unfinished"
    assert run.error is not None
    assert "could not bind" in run.error
    assert seen(run, *WORLD_TYPES, "tool_result", "tool_error") == []


_WHEN = st.one_of(
    st.just("always"),
    st.fixed_dictionaries({"first": st.integers(1, 3)}),
    st.fixed_dictionaries({"rate": st.sampled_from([0.0, 0.3, 0.7, 1.0])}),
)
_FAULTS = st.fixed_dictionaries(
    {},
    optional={
        "email.send": st.dictionaries(
            st.sampled_from(
                ["fail_before", "fail_after", "malformed", "duplicate_answer", "empty_results"]
            ),
            _WHEN,
        ),
        "mail": st.dictionaries(st.sampled_from(SERVICE_FAULTS), _WHEN, min_size=1),
        "db": st.dictionaries(st.sampled_from(SERVICE_FAULTS), _WHEN, min_size=1),
        "tool_error_rate": st.sampled_from([0.2, 0.8]),
    },
)


@settings(deadline=None, max_examples=60)
@given(
    faults=_FAULTS,
    seed=st.integers(0, 9),
    statuses=st.lists(st.sampled_from([202, 404, 503]), min_size=1, max_size=4),
    key=st.booleans(),
)
def test_the_ledger_holds_exactly_what_the_services_did(
    faults: dict[str, Any], seed: int, statuses: list[int], key: bool
) -> None:
    world = World(mail := Mock("mail", *statuses), db := Database(), faults=faults, seed=seed)
    more = {"idempotency_key": "k"} if key else {}
    row = {"sql": {**INSERT["sql"], "params": ["{query}", 1]}}
    config = {"tool": "email.send", "approve_side_effects": True, "retries": 3}
    graph = h.chain(("input", {}), ("tool", config), ("output", {}))
    environment = {
        "services": SERVICES,
        "tools": {
            "email.send": [
                {"result": "ok", "times": "any", "effects": [{**POST, **more}, {**row, **more}]}
            ]
        },
        "faults": faults,
    }
    run = h.run(graph, environment, world=world, seed=seed)
    events = h.payloads(run, "effect_applied")
    assert world.ledger.entries == events
    done = [one["n"] for one in mail.journal if one["status"] is None or one["status"] < 400]
    told = [one["receipt"]["ref"] for one in events if one["kind"] == "http"]
    assert [int(ref.split()[1].rstrip(",")) for ref in told] == done
    assert len(h.payloads(run, "http_request")) == len(mail.journal)
    assert len(db.rows) == sum(one["kind"] == "sql" for one in events)
    assert len(h.payloads(run, "db_write")) == len(db.rows)
    if key:
        assert len(done) <= 1
        assert len(db.rows) <= 1
    acted = h.domain().exercised(h.graph_of(graph), [one.as_record() for one in run.events])
    declared = h.domain().coverage(h.graph_of(graph), {"faults": faults})
    assert acted.get("faults", frozenset()) <= set(declared.get("faults", ()))


# -- what is said when a case is read ------------------------------------------------------------

GRAPH = h.chain(
    ("input", {}),
    ("tool", {"tool": "email.send", "approve_side_effects": True}),
    ("output", {}),
)


def said(*effects: Any, tool: str = "email.send", **environment: Any) -> list[str]:
    rules = {tool: [{"result": "ok", "effects": list(effects)}]}
    return h.case_faults(GRAPH, {"services": SERVICES, "tools": rules, **environment})


def test_effects_are_held_to_the_declared_world() -> None:
    at = "tools.email.send.0.effects.0"
    assert said(POST) == []
    assert said({"http": {**POST["http"], "service": "mial"}}) == [
        f"{at}.http.service: unknown service (got 'mial'; declared: db, mail)"
    ]
    assert said({"http": {**POST["http"], "service": "db"}}) == [
        f"{at}.http.service: 'db' is a service of another type (got sqlite; http needs http_mock)"
    ]
    assert said({"file": {"path": "a", "write": ""}}) == [
        f"{at}.file: there is no workspace to write to"
    ]
    assert said({"file": {"path": "a", "write": ""}}, workspace={}) == []


def test_a_tool_that_only_reads_changes_nothing() -> None:
    at = "tools.web.fetch.0.effects.0"
    assert said({"http": {**POST["http"], "method": "GET"}}, tool="web.fetch") == []
    assert said(POST, tool="web.fetch") == [
        (
            f"{at}.http: the tool 'web.fetch' only reads "
            "(side_effects: read; a POST request may change something)"
        )
    ]
    assert said(POST, tool="fetch_url") != []


def test_a_template_asks_for_arguments_that_the_tool_takes() -> None:
    at = "tools.email.send.0.effects.0"
    body = {"http": {**POST["http"], "body": {"to": ["{args.tp}"]}}}
    assert said(body) == [
        (
            f"{at}.http.body.to.0: 'email.send' takes no such argument "
            "(got 'tp'; known: body, query, subject, to)"
        )
    ]
    assert said({"message": {"to": "{args.to}", "body": "{other} {args.body}"}}) == []
    assert said({"message": {"to": "{args.to[}", "body": ""}}) == [
        f"{at}: no path (got {{args.to[}}; names, '.' and [0])"
    ]
    assert said({"http": {**POST["http"], "body": {"to": {"args.to": None}}}}) == [
        f"{at}: is a mapping where a template is meant (got {{args.to: null}})"
    ]


def test_a_manifests_effects_are_held_to_the_world_where_they_can_be_applied() -> None:
    graph = h.chain(("input", {}), ("tool", {"tool": "crm.note"}), ("output", {}))
    crm = tool([POST])

    def faults(tools: Any, graph: Any = graph) -> list[str]:
        return h.case_faults(graph, {"tools": tools}, **crm)

    told = (
        "services: manifest of 'crm.note': effects[0].http.service: unknown service "
        "(got 'mail'; declared: none)"
    )
    assert faults({}) == [told]
    assert faults({"crm.note": [{"result": "ok"}]}) == [told]
    assert faults({"crm.note": [{"result": "ok", "effects": []}]}) == []
    assert faults({}, GRAPH) == []


def test_a_fault_is_one_of_its_target() -> None:
    def told(**faults: Any) -> list[str]:
        return h.case_faults(GRAPH, {"services": SERVICES, "faults": faults})

    assert told(mail={"stall": "always"}) == []
    assert told(mail={"fail_after": "always"}) == [
        (
            "faults.mail.fail_after: 'mail' is a service, and that is no fault of one "
            "(got 'fail_after'; known: refuse, reset, stall)"
        )
    ]
    (other,) = told(**{"email.send": {"reset": "always"}})
    assert other.startswith(
        "faults.email.send.reset: 'email.send' is a tool, and that is no fault of one (got 'reset';"
    )
    (unknown,) = told(mial={"stall": "always"})
    assert unknown.startswith("faults.mial: unknown tool or service (got 'mial'; known: db, ")
    (word,) = told(mail={"stal": "always"})
    assert word.startswith("faults.mail.stal: unknown key (got 'stal'; known: ")


def test_a_name_that_is_both_is_refused() -> None:
    environment = {
        "services": {"transfer": {"type": "http_mock"}, "llm": {"type": "http_mock"}},
        "faults": {"transfer": {"reset": "always"}, "llm": {"error": "always"}},
    }
    assert h.case_faults(GRAPH, environment) == [
        "faults.transfer: the name is a service's and a tool as well (got 'transfer')",
        "faults.llm: the name is a service's and a word for all faults as well (got 'llm')",
    ]
