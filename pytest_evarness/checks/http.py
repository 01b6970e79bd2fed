"""The check ``http_mock_assertions``: was a service called, how often, with what, in which order?

Source: docs/checks/http_mock_assertions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.checks.found import bounded, bounded_text, found
from pytest_evarness.checks.kind import CheckKind, Facts, Known, UnavailableError
from pytest_evarness.checks.request_account import Result, evaluate
from pytest_evarness.checks.request_field import FIELDS, Field, parse_field
from pytest_evarness.core.finding import Witness
from pytest_evarness.core.json import shown as escaped
from pytest_evarness.core.matcher import OPERATORS, Matcher, holds_secret, parse_matcher
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.triviality import triviality
from pytest_evarness.errors import Fault
from pytest_evarness.source.model import unknown_key
from pytest_evarness.source.quote import nearest, one_of, quoted, shown
from pytest_evarness.world.http.condition import parse_conditions, question_faults
from pytest_evarness.world.http.place import MAIL, Question

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.world.sealed import Scene

__all__ = ["HttpMockAssertions"]

_SERVICE_TYPE: Final = "http_mock"
_SHOWN: Final = 1000
_KEYS: Final = ("service", "assertions", "order", "no_unmatched")
_FILTERS: Final = ("method", "path", "query", "headers", "body", *MAIL)
_COUNT: Final[JsonObject] = {"type": "integer", "minimum": 0}
_LIST: Final[JsonObject] = {"type": "array", "items": {"type": "object"}}


class HttpMockAssertions(CheckKind):
    """Judges what an HTTP mock recorded."""

    @property
    def name(self) -> str:
        """``http_mock_assertions``."""
        return "http_mock_assertions"

    @property
    def schema(self) -> JsonObject:
        """For editors."""
        return _SCHEMA

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        """Read a check; see ``CheckKind.parse``."""
        faults = [
            unknown_key((), key, _KEYS) for key in value if key not in _KEYS and key != "type"
        ]
        faults += _service_faults(value, known)
        assertions, found_in = _assertions(value.get("assertions", []))
        faults += [fault.under("assertions") for fault in found_in]
        order, found_in = _order(value.get("order", []))
        faults += [fault.under("order") for fault in found_in]
        no_unmatched = value.get("no_unmatched", False)
        if not isinstance(no_unmatched, bool):
            faults.append(
                Fault(("no_unmatched",), "must be true or false", got=shown(no_unmatched))
            )
        if not any(value.get(key) for key in ("assertions", "order", "no_unmatched")):
            at: tuple[str, ...] = ("assertions",) if "assertions" in value else ()
            rule = "at least one entry of 'assertions' or 'order', or 'no_unmatched: true'"
            fix = "write 'assertions: [{field: request_count, equals: 1}]'"
            faults.append(Fault(at, "asserts nothing", rule=rule, fix=fix, code="missing_key"))
        made: dict[str, Json] = {
            "type": self.name,
            "service": value.get("service"),
            "assertions": assertions,
            "order": order,
            "no_unmatched": no_unmatched,
        }
        return ({} if faults else made), faults

    def needs(self, definition: JsonObject) -> frozenset[str]:
        """The service."""
        return frozenset({f"service:{definition['service']}"})

    def gather(self, definition: JsonObject, scene: Scene) -> JsonObject:
        """Nothing where the sealed journal tells all; else how the true values came out.

        A journal that holds a secret is sealed without it, and what is sealed cannot be compared
        with anything any more: the answer is then given here.
        """
        name = str(definition["service"])
        service = _service(scene.snapshot, name)
        if not scene.masker:
            return {}
        masked = scene.masker.value(service)
        if masked == service:
            return {}
        return {"result": evaluate(definition, _journal(service), _journal(masked)).as_record()}

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        """Decide; see ``CheckKind.judge``."""
        definition: Any = item.definition
        name = definition["service"]
        requests = _journal(_service(facts.world, name))
        return _finding(item, name, self._result(item, gathered, facts), len(requests), facts)

    def is_final(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> bool:
        """A request that was received stays received: too many of them cannot become fewer."""
        return self._result(item, gathered, facts).final

    def consistent(
        self, definition: JsonObject, gathered: JsonObject, world: JsonObject
    ) -> str | None:
        """Whether the sealed journal can have given what was gathered."""
        requests = _service(world, str(definition["service"])).get("requests")
        if not gathered:
            return None
        if not holds_secret(requests):
            return "an answer was gathered although the sealed journal hides nothing"
        raise UnavailableError(
            Cause.MISSING_EVIDENCE, "the journal held a secret, so its true values are not sealed"
        )

    def largest(self, definition: JsonObject, world: JsonObject) -> int | None:
        """Of an empty mapping, where the sealed journal hides nothing."""
        requests = _service(world, str(definition["service"])).get("requests")
        return None if holds_secret(requests) else len("{}")

    def _result(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Result:
        told: Any = gathered.get("result")
        if told is not None:
            return Result.from_record(told)
        definition: Any = item.definition
        return evaluate(definition, _journal(_service(facts.world, definition["service"])))


def _finding(item: PlannedItem, service: str, result: Result, count: int, facts: Facts) -> Finding:
    # The n-th event of a service tells of the n-th entry of its journal.
    told = [
        event
        for event in facts.events
        if event.get("type") == "http_request" and event["payload"].get("service") == service
    ]

    def seq_of(n: int) -> int | None:
        return told[n - 1]["seq"] if 0 < n <= len(told) else None

    involved = sorted({seq for n in result.numbers if (seq := seq_of(n)) is not None})
    nearest_ones = [{"seq": seq_of(n), "why": why} for n, why in result.nearest]
    witness = Witness(
        events=tuple(involved),
        expected=result.expected,
        observed=result.observed,
        entries=(*result.entries, *(str(one["why"]) for one in nearest_ones if one["seq"] is None)),
        nearest=tuple(one for one in nearest_ones if one["seq"] is not None),
        context={
            str(event["seq"]): escaped(dict(event), _SHOWN)
            for event in told
            if event["seq"] in involved
        },
    )
    plural = "request" if count == 1 else "requests"
    return found(
        item,
        result.outcome,
        bounded_text(result.reason),
        causes=result.causes,
        vacuous=result.vacuous,
        witness=bounded(witness),
        looked_at=(f"journal of service {service}, {count} {plural}",),
    )


def _service(world: JsonObject, name: str) -> JsonObject:
    services: Any = world.get("services") or ()
    found_one = next((one for one in services if one["name"] == name), None)
    if found_one is None:
        raise UnavailableError(Cause.MISSING_EVIDENCE, f"service '{name}' is not there")
    service: JsonObject = found_one
    return service


def _journal(service: JsonObject) -> list[Mapping[str, Any]]:
    name = service["name"]
    if service.get("down"):
        raise UnavailableError(Cause.MISSING_EVIDENCE, f"service '{name}' is down")
    requests: Any = service.get("requests")
    if requests is None:
        reason = f"service '{name}' keeps no journal (record: false)"
        raise UnavailableError(Cause.MISSING_EVIDENCE, reason)
    lost: Any = service.get("lost", 0)
    if lost:
        reason = f"the journal of service '{name}' was full, {lost} requests are not in it"
        raise UnavailableError(Cause.MISSING_EVIDENCE, reason)
    return list(requests)


# -- parsing ----------------------------------------------------------------------------------


def _service_faults(value: Mapping[str, Json], known: Known) -> list[Fault]:
    mocks = sorted(name for name, kind in known.services.items() if kind == _SERVICE_TYPE)
    rule = f"services of type {_SERVICE_TYPE}: {one_of(mocks) or 'none'}"
    if "service" not in value:
        return [Fault((), "required key 'service' is missing", rule=rule, code="missing_key")]
    name = value["service"]
    if not isinstance(name, str):
        return [Fault(("service",), "must be text", got=shown(name), rule=rule)]
    if name not in known.services:
        near = nearest(name, mocks)
        fix = f"write '{near}'" if near else None
        return [Fault(("service",), "unknown service", got=quoted(name), rule=rule, fix=fix)]
    kind = known.services[name]
    if kind and kind != _SERVICE_TYPE:
        problem = f"'{name}' is a service of another type"
        return [Fault(("service",), problem, got=kind, rule=rule)]
    return []


def _assertions(value: Json) -> tuple[list[Json], list[Fault]]:
    if not isinstance(value, list | tuple):
        rule = "[{field: ..., equals: ...}, ...]"
        return [], [Fault((), "must be a list", got=shown(value), rule=rule)]
    made: list[Json] = []
    faults: list[Fault] = []
    for index, given in enumerate(value):
        one, inner = _assertion(given)
        made.append(one)
        faults += [fault.under(index) for fault in inner]
    return made, faults


def _assertion(value: Json) -> tuple[dict[str, Json], list[Fault]]:
    rule = "{field: ..., filters: {...}, equals: ...}"
    if not isinstance(value, Mapping):
        return {}, [Fault((), "must be a mapping", got=shown(value), rule=rule)]
    faults: list[Fault] = []
    what: Field | None = None
    if "field" in value:
        what, fault = parse_field(value["field"])
        faults += [fault.under("field")] if fault is not None else []
    else:
        problem = "required key 'field' is missing"
        faults.append(Fault((), problem, rule=f"known: {', '.join(FIELDS)}", code="missing_key"))
    filters, inner = _filters(value.get("filters", {}))
    faults += [fault.under("filters") for fault in inner]
    spec = {key: part for key, part in value.items() if key not in ("field", "filters")}
    matcher, inner = _matcher(spec)
    faults += inner
    if matcher is not None and what is not None:
        faults += _says_nothing(what, matcher)
    made: dict[str, Json] = {"field": value.get("field"), "filters": filters, "matcher": spec}
    return made, faults


def _matcher(spec: Mapping[str, Json]) -> tuple[Matcher | None, list[Fault]]:
    if not spec:
        rule = f"one of {', '.join(OPERATORS)}"
        problem = "an assertion without a matcher asserts nothing"
        fix = "write what the field is to be, such as 'equals: 1'"
        return None, [Fault((), problem, rule=rule, fix=fix)]
    unknown = [key for key in spec if key not in OPERATORS]
    if unknown:
        return None, [unknown_key((), key, ("field", "filters", *OPERATORS)) for key in unknown]
    return parse_matcher(spec)


def _says_nothing(what: Field, matcher: Matcher) -> list[Fault]:
    if what.place is not None:
        if what.place.kind == "whole" and any(
            one.name == "exists" and one.argument is False for one in matcher.operations
        ):
            fix = "write 'field: request_count' with 'equals: 0'"
            problem = "a request that is not there fails every assertion about it"
            return [Fault(("exists",), problem, got="false", fix=fix)]
        return question_faults(Question(what.place, matcher), is_filter=False)
    # Both are always there, whether or not a request came.
    asking = tuple(
        one for one in matcher.operations if (one.name, one.argument) != ("exists", True)
    )
    schema = _COUNT if what.is_count else _LIST
    answer = triviality(Matcher(asking), schema) if asking else "always"
    described = f"{what.text} {matcher.describe()}"
    if answer == "always":
        fix = "ask what can be otherwise, such as 'equals: 1', or remove it"
        return [Fault((), "always holds, so it asserts nothing", got=described, fix=fix)]
    if answer == "never":
        noun = "a whole number from 0 on" if what.is_count else "a list of requests"
        return [Fault((), "can never hold", got=described, rule=f"{what.text} is {noun}")]
    return []


def _filters(value: Json) -> tuple[dict[str, Json], list[Fault]]:
    """Filters with names in small letters, dashed header names moved under ``headers``."""
    if not isinstance(value, Mapping):
        rule = f"known: {', '.join(_FILTERS)}, or the name of a header with a dash"
        return {}, [Fault((), "must be a mapping", got=shown(value), rule=rule)]
    plain: dict[str, Json] = {}
    headers: dict[str, Json] = {}
    faults: list[Fault] = []
    for key, given in value.items():
        small = key.lower()
        if small == "headers" and isinstance(given, Mapping) and given:
            headers |= given
        elif small in _FILTERS:
            if small in plain:
                faults.append(Fault((key,), "is a filter again", got=quoted(key), at_key=True))
            plain[small] = given
        elif "-" in key:
            headers[key] = given
        else:
            faults.append(_unknown_filter(key))
    if headers:
        plain["headers"] = headers
    made, inner = parse_conditions(plain, is_filter=True)
    written = {key.lower(): key for key in value}
    faults += [_as_written(fault, written) for fault in inner]
    return made, faults


def _as_written(fault: Fault, written: Mapping[str, str]) -> Fault:
    """The fault at the key that stands in the file."""
    head, *rest = fault.path
    if head == "headers" and rest and "headers" not in written:
        head, *rest = rest
    name = written.get(str(head).lower(), head)
    return Fault(
        (), fault.problem, fault.got, fault.rule, fault.fix, fault.at_key, fault.code
    ).under(name, *rest)


def _unknown_filter(key: str) -> Fault:
    near = nearest(key.lower(), _FILTERS)
    return Fault(
        (key,),
        "unknown filter",
        got=quoted(key),
        rule=f"known: {', '.join(_FILTERS)}, or the name of a header with a dash",
        fix=f"write '{near}'"
        if near
        else f"write 'body: {{json: {{{key}: ...}}}}' for a key of it",
        at_key=True,
        code="unknown_key",
    )


def _order(value: Json) -> tuple[list[Json], list[Fault]]:
    if not isinstance(value, list | tuple):
        rule = "[{method: POST, path: /a}, {path: /b}]"
        return [], [Fault((), "must be a list of filters", got=shown(value), rule=rule)]
    made: list[Json] = []
    faults: list[Fault] = []
    for index, given in enumerate(value):
        filters, inner = _filters(given)
        if given == {}:
            inner = [Fault((), "an entry without filters means every request", got="{}")]
        made.append(filters)
        faults += [fault.under(index) for fault in inner]
    if len(value) == 1:
        problem = "one entry has no order"
        fix = "write an assertion on 'request_count' instead"
        faults.append(Fault((), problem, got="1", rule="two or more", fix=fix))
    return made, faults


# -- for editors -------------------------------------------------------------------------------

_ANY: Final[JsonObject] = {}
_FILTER_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "description": "which requests are meant; a header with a dash may stand here by its name",
    "properties": dict.fromkeys(_FILTERS, _ANY),
    "patternProperties": {"-": _ANY},
}
_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["type", "service"],
    "properties": {
        "type": {"const": "http_mock_assertions"},
        "service": {"type": "string", "description": "a service of type http_mock"},
        "assertions": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["field"],
                "minProperties": 2,
                "properties": {
                    "field": {
                        "type": "string",
                        "pattern": r"^(request_count|requests|requests\[-?[0-9]+\].*|last_request.*)$",  # noqa: E501
                    },
                    "filters": _FILTER_SCHEMA,
                    **dict.fromkeys(OPERATORS, _ANY),
                },
            },
        },
        "order": {"type": "array", "minItems": 2, "items": _FILTER_SCHEMA},
        "no_unmatched": {"type": "boolean"},
    },
}
