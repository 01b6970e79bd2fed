"""Tests inside a tool's manifest: the tool is called as it is described, and has to answer so.

Each runs in the kernel, through the same gates as any call. Nothing is applied to a world: what
the call would do is filled in and compared.

Source: docs/agents.md, "Tests of a manifest".
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator

from pytest_evarness.core.domain import PlainDomain
from pytest_evarness.core.matcher import parse_matcher, same
from pytest_evarness.domains.agents.acting import Rehearsal
from pytest_evarness.domains.agents.environment import parse_tool_rules
from pytest_evarness.domains.agents.template import TemplateError, bare_template, fill
from pytest_evarness.domains.agents.text import compact, digest_of_value, plain
from pytest_evarness.domains.agents.vocabulary import DENIALS
from pytest_evarness.errors import Fault, InputError
from pytest_evarness.source.model import Absent, Strict, parse_model, refuse
from pytest_evarness.source.quote import nearest, quoted, shown

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context, Domain
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.run import Run

__all__ = ["ToolTest", "Trials", "parse_tests"]

_AGENTS = "agents"
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
            raise refuse(
                "asserts nothing",
                rule="result, count, error, refused, effects, intent",
                fix="write what the call gives, such as 'expect: {count: 1}'",
            )
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
    bare = bare_template(args)
    if bare is not None:
        problem, got = "is a mapping where a template is meant", f"{{{bare}: null}}"
        rule = "the arguments of a test hold no templates"
        return [Fault(("args",), problem, got, rule, "write the value itself")]
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
    try:
        run, seen = _run(tool, manifest, test, registry)
    except InputError as error:
        return f"the call cannot be made: {error}"
    if seen.unfilled is not None:
        return seen.unfilled
    expect = test.expect
    problem = _end_problem(expect, run, seen)
    if problem is not None:
        return problem
    if "intent" in expect:
        if seen.call is None:
            return f"no call was made, so there is no intent (got {run.status})"
        if seen.call.intent != expect["intent"]:
            return _differs("the intent", seen.call.intent, expect["intent"])
    if "effects" in expect and not same(seen.effects, expect["effects"]):
        return _differs("effects", seen.effects, expect["effects"])
    return None


def _end_problem(expect: JsonObject, run: Run, seen: Rehearsal) -> str | None:
    """How the call ended otherwise than it has to."""
    refusal = next(
        (str(event.payload["rule"]) for event in run.events if event.type == "policy_decision"),
        None,
    )
    ended = _ended(refusal, seen.error, run)
    if "refused" in expect:
        if refusal == expect["refused"]:
            return None
        return _differs("the refusal", refusal or ended, expect["refused"])
    if "error" in expect:
        if seen.error is None:
            return f"the call gave no error (got {ended})"
        return _mismatch("the error", seen.error, expect["error"])
    if seen.documents is None:
        return f"the call gave no answer (got {ended})"
    if "count" in expect and len(seen.documents) != expect["count"]:
        return _differs("the count of documents", len(seen.documents), expect["count"])
    if "result" in expect:
        answer = seen.result[0] if seen.result else seen.documents
        return _mismatch("the result", answer, expect["result"])
    return None


def _ended(refusal: str | None, error: str | None, run: Run) -> str:
    if refusal is not None:
        return f"refused: {refusal}"
    if error is not None:
        return f"error: {error}"
    if run.status == "unscripted":
        return "nothing scripted: the manifest has no 'sim' rule for it, and the test no 'answer'"
    return run.status if run.error is None else f"{run.status}: {run.error}"


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


class _Rehearsing(PlainDomain):
    """The domain in the run of a test: what calls do is kept in place of being done."""

    name = _AGENTS

    def __init__(self, domain: Domain, seen: Rehearsal) -> None:
        self._domain = domain
        self._seen = seen

    def start(self, context: Context) -> Any:
        """State of the run, by which its calls know that they are rehearsed."""
        state = self._domain.start(context)
        state.rehearsal = self._seen
        return state

    def leftovers(self, state: Any) -> list[str]:
        """As the domain says."""
        return self._domain.leftovers(state)


def _run(
    tool: str, manifest: Mapping[str, Any], test: ToolTest, registry: Registry
) -> tuple[Run, Rehearsal]:
    """Call the tool once, without what it does to a world."""
    from pytest_evarness.core.case import CompiledCase
    from pytest_evarness.core.execution import execute
    from pytest_evarness.core.graph import parse_graph
    from pytest_evarness.core.table import Table

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
        environment["tools"] = {tool: [test.answer]}
    graph, faults = parse_graph({"id": "tool-test", "nodes": nodes, "edges": edges}, registry)
    assert graph is not None, [fault.text for fault in faults]
    case = CompiledCase.build(
        scenario="tool-test",
        case=test.name,
        graph=graph,
        environment=environment,
        overlays={"tools": {tool: dict(manifest)}},
    )
    seen = Rehearsal()
    # The same parts, but for the one that keeps the state of a run.
    rehearsing = copy(registry)
    rehearsing.domains = Table("domain")
    for name, domain in registry.domains.items():
        own = _Rehearsing(domain, seen) if name == _AGENTS else domain
        rehearsing.domains.register(name, own)
    return execute(case, rehearsing), seen
