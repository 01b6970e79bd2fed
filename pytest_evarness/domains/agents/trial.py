"""Tests inside a tool's manifest: the tool is called as it is described, and has to answer so.

Each runs in the kernel, through the same gates as any call. Nothing is applied to a world: what
the call would do is filled in and compared.

Source: docs/agents.md, "Tests of a manifest".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator

from pytest_evarness.core.matcher import parse_matcher, same
from pytest_evarness.domains.agents.acting import AllowedCall, effects_of, filled_effects
from pytest_evarness.domains.agents.environment import parse_tool_rules
from pytest_evarness.domains.agents.script import Call, Script
from pytest_evarness.domains.agents.template import TemplateError, fill
from pytest_evarness.domains.agents.text import compact, digest_of_value, plain
from pytest_evarness.domains.agents.vocabulary import DENIALS
from pytest_evarness.errors import Fault
from pytest_evarness.source.model import Absent, Strict, parse_model, refuse
from pytest_evarness.source.quote import nearest, quoted, shown

if TYPE_CHECKING:
    from pytest_evarness.core.execution import Run
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = ["ToolTest", "Trials", "parse_tests"]

_GATE, _CALL = "approval", "call"
_SHOWN = 400
_MAX_TESTS = 200


class _Expected(Strict):
    result: Any = None
    count: Absent[Annotated[int, Field(ge=0)]] = None
    error: Any = None
    refused: Absent[str] = None
    effects: Absent[list[dict[str, Any]]] = None
    intent: Absent[str] = None

    @model_validator(mode="after")
    def _asks(self) -> _Expected:
        given = self.model_fields_set
        if not given:
            raise refuse("asserts nothing", rule="result, count, error, refused, effects, intent")
        ends: list[str] = [name for name in ("result", "error", "refused") if name in given]
        if "count" in given and "result" not in given:
            ends.append("count")
        if len(ends) > 1:
            raise refuse(f"a call ends in one way only (got {', '.join(ends)})")
        return self


class _Test(Strict):
    description: str = ""
    args: dict[str, Any] = Field(default_factory=dict)
    approved: bool = False
    approve_side_effects: bool = True
    answer: Absent[dict[str, Any]] = None
    expect: _Expected


@dataclass(frozen=True, slots=True)
class ToolTest:
    """One test of one manifest, as it was read.

    Attributes:
        approved: A person approved exactly these arguments.
        answer: The rule that answers in place of the manifest's own; None for those.
        expect: ``result`` and ``error`` are matchers, the others are compared as they stand.
    """

    name: str
    args: JsonObject
    approved: bool
    approve_side_effects: bool
    answer: JsonObject | None
    expect: JsonObject

    def as_record(self) -> JsonObject:
        """All of it, as JSON."""
        return asdict(self)


def parse_tests(written: Json) -> tuple[tuple[ToolTest, ...], list[Fault]]:
    """Read the ``tests`` of a manifest: ``{NAME: {args, approved, answer, expect}}``."""
    if not isinstance(written, Mapping):
        return (), [Fault((), "must be a mapping", got=shown(written), rule="of names to tests")]
    if len(written) > _MAX_TESTS:
        return (), [Fault((), "too many tests", got=str(len(written)), rule=f"{_MAX_TESTS}")]
    tests: list[ToolTest] = []
    faults: list[Fault] = []
    for name, one in written.items():
        test, found = _parse_test(name, one)
        faults += (fault.under(name) for fault in found)
        if test is not None:
            tests.append(test)
    return tuple(tests), faults


def _parse_test(name: str, written: Json) -> tuple[ToolTest | None, list[Fault]]:
    if not name.strip() or not name.isprintable() or "::" in name:
        rule = "printable, not blank, no '::'"
        return None, [Fault((), "is no name of a test", got=shown(name), rule=rule, at_key=True)]
    parsed, faults = parse_model(_Test, written)
    if parsed is None or not isinstance(written, Mapping):
        return None, faults
    expect = plain(written["expect"])
    for key in ("result", "error"):
        if key in expect:
            faults += (fault.under("expect", key) for fault in parse_matcher(expect[key])[1])
    if "refused" in expect and expect["refused"] not in DENIALS:
        near = nearest(expect["refused"], DENIALS)
        faults.append(
            Fault(
                ("expect", "refused"),
                "no call is refused by this rule",
                got=quoted(expect["refused"]),
                rule=f"known: {', '.join(DENIALS)}",
                fix=f"write {quoted(near)}" if near else None,
            )
        )
    if parsed.answer is not None:
        found = parse_tool_rules([written["answer"]])[1]
        faults += (Fault(("answer", *f.path[1:]), f.problem, f.got, f.rule, f.fix) for f in found)
    faults += _literal_faults(parsed.args)
    if faults:
        return None, faults
    return (
        ToolTest(
            name=name,
            args=plain(parsed.args),
            approved=parsed.approved,
            approve_side_effects=parsed.approve_side_effects,
            answer=None if parsed.answer is None else plain(parsed.answer),
            expect=expect,
        ),
        [],
    )


def _literal_faults(args: JsonObject) -> list[Fault]:
    """The arguments of a test are what they are: there is no input that would fill a template."""
    try:
        is_literal = same(fill(args, query="", args={}), args)
    except TemplateError:
        is_literal = False
    if is_literal:
        return []
    return [Fault(("args",), "the arguments of a test hold no templates", got=shown(args))]


class Trials:
    """Runs tests of manifests, each one once however many places a manifest is in force at."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known: dict[str, str | None] = {}

    def problem(self, tool: str, manifest: Mapping[str, Any], test: ToolTest) -> str | None:
        """What the tool does otherwise than the test expects, in one sentence."""
        key = digest_of_value({"manifest": manifest, "test": test.as_record()})
        if key not in self._known:
            self._known[key] = _problem(tool, manifest, test, self._registry)
        return self._known[key]


def _problem(
    tool: str, manifest: Mapping[str, Any], test: ToolTest, registry: Registry
) -> str | None:
    run = _run(tool, manifest, test, registry)
    events = {event.type: event.as_record()["payload"] for event in run.events}
    expect = test.expect
    called: Any = events.get("tool_called")
    problem = _end_problem(expect, events, run)
    if problem is not None:
        return problem
    if "intent" in expect and called is None:
        return f"no call was made, so there is no intent (got {run.status})"
    if "intent" in expect and called["intent_id"] != expect["intent"]:
        return _differs("the intent", called["intent_id"], expect["intent"])
    if "effects" not in expect:
        return None
    done: Any = []
    if called is not None:
        found = _effects(tool, manifest, test, called)
        if isinstance(found, str):
            return found
        done = found
    return None if same(done, expect["effects"]) else _differs("effects", done, expect["effects"])


def _end_problem(expect: JsonObject, events: Mapping[str, Any], run: Run) -> str | None:
    """How the call ended otherwise than it has to."""
    refusal = (events.get("policy_decision") or {}).get("rule")
    error = (events.get("tool_error") or {}).get("error")
    result = events.get("tool_result")
    if "refused" in expect:
        if refusal == expect["refused"]:
            return None
        return _differs("the refusal", refusal or _ended(refusal, error, run), expect["refused"])
    if "error" in expect:
        if error is None:
            return f"the call gave no error (got {_ended(refusal, error, run)})"
        return _mismatch("the error", error, expect["error"])
    if result is None:
        return f"the call gave no answer (got {_ended(refusal, error, run)})"
    if "count" in expect and result["count"] != expect["count"]:
        return _differs("the count of documents", result["count"], expect["count"])
    if "result" in expect:
        answer = result["result"] if "result" in result else result["docs"]
        return _mismatch("the result", answer, expect["result"])
    return None


def _ended(refusal: str | None, error: str | None, run: Run) -> str:
    if refusal is not None:
        return f"refused: {refusal}"
    if error is not None:
        return f"error: {error}"
    if run.status == "unscripted":
        return "nothing scripted: the manifest has no 'sim' rule for it, and the test no 'answer'"
    return run.status


def _mismatch(what: str, value: Any, matcher: Json) -> str | None:
    compiled, faults = parse_matcher(matcher)
    assert compiled is not None, f"matchers were checked when they were read (got {faults})"
    verdict = compiled.test(value)
    return None if verdict.held is True else _differs(what, value, matcher)


def _differs(what: str, got: Any, wanted: Any) -> str:
    return f"{what} differs (got {_cut(got)}; expected {_cut(wanted)})"


def _cut(value: Any) -> str:
    text = value if isinstance(value, str) else compact(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _effects(
    tool: str, manifest: Mapping[str, Any], test: ToolTest, called: Mapping[str, Any]
) -> list[Any] | str:
    """What the call that was made would do to the world, filled in."""
    rules = list(manifest["sim"]) if test.answer is None else [test.answer]
    answer = Script(tool, rules).take(Call(called["query"], called.get("provider", ""), {}))
    assert answer is not None, "the run was answered by the same rules"
    call = AllowedCall(
        tool=tool,
        intent=called["intent_id"],
        rule=called["decision"]["rule"],
        approval=None,
        query=called["query"],
        args=called["args"],
    )
    try:
        return filled_effects(effects_of(answer, manifest), call)
    except TemplateError as error:
        return str(error)


def _run(tool: str, manifest: Mapping[str, Any], test: ToolTest, registry: Registry) -> Run:
    """Call the tool once, without what it does to a world."""
    from pytest_evarness.core.case import CompiledCase
    from pytest_evarness.core.execution import execute
    from pytest_evarness.core.graph import parse_graph

    call: JsonObject = {
        "tool": tool,
        "args": dict(test.args),
        "approve_side_effects": test.approve_side_effects,
    }
    nodes: list[JsonObject] = [{"id": _CALL, "type": "tool", "config": call}]
    edges: list[JsonObject] = []
    environment: dict[str, Any] = {}
    if test.approved:
        nodes.insert(0, {"id": _GATE, "type": "approval_gate", "config": {}})
        edges.append({"from": _GATE, "to": _CALL})
        environment["approvals"] = {_GATE: {"decision": "approve"}}
    if test.answer is not None:
        environment["tools"] = {tool: [_without_effects(test.answer)]}
    graph, faults = parse_graph({"id": "tool-test", "nodes": nodes, "edges": edges}, registry)
    assert graph is not None, [fault.text for fault in faults]
    bare = {**manifest, "effects": [], "sim": _all_without_effects(manifest["sim"])}
    case = CompiledCase.build(
        scenario="tool-test",
        case=test.name,
        graph=graph,
        environment=environment,
        overlays={"tools": {tool: bare}},
    )
    return execute(case, registry)


def _without_effects(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in rule.items() if key != "effects"}


def _all_without_effects(rules: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [_without_effects(rule) for rule in rules]
