"""Forbidden rules: what must not happen, whatever else does.

Each is a function of its sealed definition, run A's events and the sealed world, so that a verifier
judges it again. Two independent accounts are looked at wherever there are two: what was reported
while the run went on (events, ledger), and what the world is like (journals, tables, files). A
violation that one of them shows is a violation. A pass needs both of them whole.

Source: docs/forbidden.md.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_evarness.checks.declared import changed_object, moves_by_itself
from pytest_evarness.checks.found import bounded, bounded_text, found
from pytest_evarness.core import c1
from pytest_evarness.core.finding import Witness
from pytest_evarness.core.json import shown
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.secret import placeholder

if TYPE_CHECKING:
    from pytest_evarness.checks.evidence import Evidence
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.core.trace import TraceEvent

__all__ = [
    "DESCRIPTIONS",
    "HTTP_TYPES",
    "SQL_TYPES",
    "UNMATCHED",
    "judge_forbidden",
    "routes_of",
    "strict_services",
]

HTTP_TYPES = frozenset({"http_mock"})
SQL_TYPES = frozenset({"sqlite", "postgres", "mysql"})
"""Types of services whose evidence is known before they ran; of others the snapshot tells."""

UNMATCHED = "unmatched_requests"

DESCRIPTIONS = {
    "db_writes_outside": "No other table is written",
    "http_except": "No other service is requested",
    "file_writes_outside": "Nothing else in the workspace is written",
    "secrets_in_logs": "No secret stands in what the run emits",
    "network": "Nothing beyond the declared services is reached",
    "tools_except": "No other tool is called",
    "duplicate_effects": "No effect is applied twice",
    UNMATCHED: "Every request meets a route",
}
"""What each rule demands, in words."""

_CONTEXT = 1000
_MAX_ROUTES = 100
_NEAR = 3


def strict_services(services: Mapping[str, Any]) -> list[str]:
    """Mocks that let no request pass that no route is for, sorted; services are normalised."""
    return sorted(name for name, config in services.items() if _is_strict(config))


def routes_of(services: Mapping[str, Any]) -> dict[str, list[str]]:
    """The routes of strict mocks, as ``METHOD PATH``, for a reader who looks for the one meant."""
    return {
        name: [_route_name(route) for route in services[name].get("routes") or ()][:_MAX_ROUTES]
        for name in strict_services(services)
    }


def _route_name(route: Mapping[str, Any]) -> str:
    """Conditions that are no plain text stand as a star."""
    request: Any = route.get("request") or {}
    method, path = (request.get(key) for key in ("method", "path"))
    words = (word if isinstance(word, str) else "*" for word in (method, path))
    return bounded_text(" ".join(words), 200)


def _is_strict(config: Any) -> bool:
    if not isinstance(config, Mapping) or config.get("type") not in HTTP_TYPES:
        return False
    strict = config.get("strict")
    if isinstance(strict, bool):
        return strict
    return config.get("allow_unmatched") is not True and config.get("default_response") is None


@dataclass(frozen=True, slots=True)
class _Violation:
    text: str
    seq: int | None = None
    entry: str | None = None


class _Look:
    """Everything one rule looks at, and what it met.

    Attributes:
        violations: In the order met: events first.
        gaps: Why a pass would be worth less than it says.
        looked: Where was looked.
        nothing: Why nothing was there to violate the rule; None where something was.
    """

    def __init__(self, item: PlannedItem, evidence: Evidence) -> None:
        definition: Any = item.definition or {}
        self.names: list[str] = list(definition.get("names", ()))
        self.routes: Mapping[str, list[str]] = definition.get("routes", {})
        self.types: Mapping[str, str] = definition.get("services", {})
        self.has_workspace = bool(definition.get("workspace"))
        self.events: Sequence[TraceEvent] = evidence.events
        world: Any = evidence.world
        self.services: dict[str, Any] = {one["name"]: one for one in world.get("services") or ()}
        self.ledger: list[Any] | None = world.get("ledger")
        self.workspace: Any = world.get("workspace")
        steps = definition.get("steps", ())
        started = {event["node_id"] for event in self.events if event["type"] == "node_started"}
        self.steps = [step for step in steps if step in started]
        self.violations: list[_Violation] = []
        self.gaps: list[tuple[Cause, str]] = []
        self.looked: list[str] = []
        self.nothing: str | None = None

    def of_type(self, *types: str) -> Iterator[tuple[int, Any]]:
        """``(seq, payload)`` of events of these types; notes that they were looked at."""
        last = len(self.events) - 1
        within = f"{self.events[0]['seq']}..{self.events[last]['seq']}" if self.events else "none"
        self.looked.append(f"{', '.join(types)} among the events {within} of run A")
        for event in self.events:
            if event["type"] in types:
                yield event["seq"], event["payload"]

    def violate(self, text: str, seq: int | None = None, entry: str | None = None) -> None:
        """Note a violation; the same thing seen in two accounts is noted twice."""
        self.violations.append(_Violation(text, seq, entry))

    def miss(self, text: str) -> None:
        """Note evidence that is not there."""
        self.gaps.append((Cause.MISSING_EVIDENCE, text))

    def contradict(self, text: str) -> None:
        """Note two accounts of one thing that disagree."""
        self.gaps.append((Cause.CONTRADICTORY_EVIDENCE, text))

    def kinds(self, types: frozenset[str], field: str) -> list[str]:
        """Declared services of these types, and others whose snapshot has that field."""
        others = HTTP_TYPES | SQL_TYPES
        return sorted(
            name
            for name, kind in self.types.items()
            if kind in types or (kind not in others and field in self.services.get(name, {}))
        )

    def snapshot(self, name: str) -> Any:
        """The end state of a service that is up; else None, and the gap is noted."""
        found = self.services.get(name)
        if found is None:
            self.miss(f"the end state holds nothing of service '{name}'")
            return None
        if found.get("down"):
            self.miss(f"service '{name}' is down")
            return None
        return found

    def doubt_steps(self, means: str) -> None:
        """A step of the user's own that ran may have done what nobody records."""
        for step in self.steps:
            self.miss(f"step '{step}' ran code of the user's own outside a sandbox, {means}")

    def compare_ledger(self) -> None:
        """The ledger is the list of ``effect_applied``."""
        if self.ledger is None:
            return
        told = [payload for _, payload in self.of_type("effect_applied")]
        self.looked.append(f"{len(self.ledger)} records of the ledger")
        if c1.text(told) != c1.text(self.ledger):
            self.contradict(
                f"the events tell of {len(told)} effects and the ledger of {len(self.ledger)},"
                " and they are not the same"
            )


def judge_forbidden(
    item: PlannedItem, evidence: Evidence, *, pause_is_end: bool = False
) -> Finding:
    """Judge one rule on run A.

    Args:
        item: Its ``definition`` is ``{rule, names, services, workspace, steps}``.
        evidence: Events and world.
        pause_is_end: Whether the case declares that it ends paused.
    """
    from pytest_evarness.core.run import trace_of

    definition: Any = item.definition or {}
    rule = _RULES.get(definition.get("rule"))
    if rule is None:
        problem = f"no rule is called {shown(definition.get('rule'))}"
        return found(item, Outcome.INDETERMINATE, problem, causes=(Cause.EVALUATOR_ERROR,))
    look = _Look(item, evidence)
    rule(look)
    trace = trace_of(evidence.a.status, evidence.events, pause_is_end=pause_is_end)
    if not trace.closed:
        look.gaps.append(
            (trace.open_cause, f"the run did not come to an end ({evidence.a.status})")
        )
    return _finding(item, look, is_open=not trace.closed)


def _finding(item: PlannedItem, look: _Look, *, is_open: bool) -> Finding:
    expected = _expected(item)
    looked_at = tuple(dict.fromkeys(look.looked))
    gaps = tuple(dict.fromkeys(text for _, text in look.gaps))
    if look.violations:
        seqs = sorted({one.seq for one in look.violations if one.seq is not None})
        first = look.violations[0].text
        more = len({one.text for one in look.violations}) - 1
        context = {
            str(event["seq"]): shown(dict(event), _CONTEXT)
            for event in look.events
            if event["seq"] in seqs[:20]
        }
        return found(
            item,
            Outcome.FAIL,
            bounded_text(first + (f" (and {more} more)" if more > 0 else "")),
            decisive_seq=seqs[0] if seqs else None,
            looked_at=looked_at,
            witness=bounded(
                Witness(
                    events=tuple(seqs),
                    expected=expected,
                    observed=first,
                    entries=tuple(
                        dict.fromkeys(one.entry for one in look.violations if one.entry is not None)
                    ),
                    notes=gaps,
                    context=context,
                )
            ),
        )
    if look.gaps:
        return found(
            item,
            Outcome.INDETERMINATE,
            bounded_text(f"nothing was seen that breaks the rule, but {'; '.join(gaps[:5])}"),
            causes=Cause.ordered(cause for cause, _ in look.gaps),
            leaning=Outcome.PASS if is_open else None,
            looked_at=looked_at,
            witness=bounded(Witness(expected=expected, notes=gaps)),
        )
    if look.nothing is not None:
        return found(item, Outcome.PASS, look.nothing, vacuous=True, looked_at=looked_at)
    return found(item, Outcome.PASS, f"{expected}: nothing else was seen", looked_at=looked_at)


def _expected(item: PlannedItem) -> str:
    definition: Any = item.definition or {}
    rule, names = definition["rule"], definition.get("names", ())
    listed = ", ".join(names) or "none"
    return {
        "db_writes_outside": f"writes to these tables alone: {listed}",
        "http_except": f"requests to these services alone: {listed}",
        "file_writes_outside": f"writes below these paths alone: {listed}",
        "tools_except": f"calls of these tools alone: {listed}",
        "secrets_in_logs": f"no value of these secrets: {listed}",
        "network": "no request beyond the declared services",
        "duplicate_effects": "each effect once",
        UNMATCHED: f"a route for every request to {listed}",
    }[rule]


# -- the rules --------------------------------------------------------------------------------


def _db_writes_outside(look: _Look) -> None:
    databases = look.kinds(SQL_TYPES, "tables")

    def is_allowed(service: str, table: str) -> bool:
        return table in look.names or f"{service}.{table}" in look.names

    told: set[tuple[str, str]] = set()
    for seq, payload in look.of_type("db_write"):
        service, table = str(payload.get("service")), str(payload.get("table"))
        told.add((service, table))
        if not is_allowed(service, table):
            look.violate(f"table '{table}' of service '{service}' was written", seq)
    look.compare_ledger()
    for name in databases:
        snapshot = look.snapshot(name)
        if snapshot is None:
            continue
        look.looked.append(f"every table of service {name}, at the start and at the end")
        for table in snapshot.get("tables", ()):
            start, end = table.get("start"), {key: table[key] for key in ("count", "digest")}
            if start == end:
                continue
            label = table["name"]
            before = "was not there" if start is None else f"had {start.get('count')} rows"
            entry = f"{name}.{label}: {before} at the start, {end['count']} rows at the end"
            if start is not None and start.get("count") == end["count"]:
                entry += ", other ones"
            if not is_allowed(name, label):
                look.violate(f"table '{label}' of service '{name}' changed", entry=entry)
            elif (name, label) not in told and not look.steps:
                look.contradict(
                    f"table '{label}' of service '{name}' changed, and no event says so"
                )
        for label in snapshot.get("dropped", ()):
            if not is_allowed(name, label):
                entry = f"{name}.{label}: was there at the start, is gone at the end"
                look.violate(f"table '{label}' of service '{name}' is gone", entry=entry)
        for record in snapshot.get("objects", ()):
            owner, what, word = changed_object(record)
            if not is_allowed(name, owner):
                look.violate(
                    f"{what} of service '{name}' {word}", entry=f"{name}.{owner}: {what} {word}"
                )
            elif not ((name, owner) in told or look.steps or moves_by_itself(record)):
                look.contradict(f"{what} of service '{name}' {word}, and no event says so")
    if not databases and not told:
        look.nothing = "the case declares no database"
    elif databases:
        look.doubt_steps("so what it wrote to a database and took back was not seen")


def _http_except(look: _Look) -> None:
    services = look.kinds(HTTP_TYPES, "requests")
    told: Counter[str] = Counter()
    is_any = False
    for seq, payload in look.of_type("http_request"):
        service = payload.get("service")
        is_any = True
        told[str(service)] += 1
        if service not in look.names:
            look.violate(_request_text(payload), seq)
    look.compare_ledger()
    for name in services:
        snapshot = look.snapshot(name)
        if snapshot is None:
            continue
        requests = snapshot.get("requests")
        if requests is None:
            if name not in look.names:
                look.miss(f"service '{name}' keeps no journal")
            continue
        look.looked.append(f"the journal of service {name}, {len(requests)} requests")
        if name not in look.names:
            for request in requests:
                look.violate(
                    f"service '{name}' was requested ({request['method']} {request['path']})",
                    entry=_request_entry(name, request),
                )
        _compare_journal(look, name, snapshot, told[name])
    if not services and not is_any:
        look.nothing = "the case declares no HTTP service"
    else:
        look.doubt_steps("so what it requested elsewhere was not seen")


def _unmatched_requests(look: _Look) -> None:
    told: Counter[str] = Counter()
    for seq, payload in look.of_type("http_request"):
        service = str(payload.get("service"))
        told[service] += 1
        if service in look.names and payload.get("matched") is False:
            text = f"no route met {_short(payload)} to service '{service}'"
            look.violate(text + _near_routes(look, service, payload), seq)
    for name in look.names:
        snapshot = look.snapshot(name)
        if snapshot is None:
            continue
        requests = snapshot.get("requests")
        if requests is None:
            look.miss(f"service '{name}' keeps no journal")
            continue
        look.looked.append(f"the journal of service {name}, {len(requests)} requests")
        for request in requests:
            if request.get("matched") is False:
                look.violate(
                    f"no route met {_short(request)} to service '{name}'"
                    + _near_routes(look, name, request),
                    entry=_request_entry(name, request),
                )
        _compare_journal(look, name, snapshot, told[name])


def _near_routes(look: _Look, service: str, request: Mapping[str, Any]) -> str:
    """What the request may have meant, to be put behind the sentence."""
    routes = look.routes.get(service)
    if routes is None:
        return ""
    if not routes:
        return " (it has no routes)"
    by_path: dict[str, list[str]] = {}
    for route in routes:
        by_path.setdefault(route.partition(" ")[2], []).append(route)
    paths = difflib.get_close_matches(str(request.get("path")), by_path, n=_NEAR, cutoff=0.6)
    near = [route for path in paths for route in by_path[path]][:_NEAR]
    return f" (near routes: {', '.join(near)})" if near else ""


def _compare_journal(look: _Look, name: str, snapshot: Any, told: int) -> None:
    count = len(snapshot["requests"]) + snapshot.get("lost", 0)
    if count != told:
        look.contradict(
            f"the journal of service '{name}' has {count} requests and the events tell of {told}"
        )


def _file_writes_outside(look: _Look) -> None:
    prefixes = [tuple(one.split("/")) if one else () for one in look.names]

    def is_allowed(path: str, *, is_folder: bool = False) -> bool:
        parts = tuple(path.split("/"))
        return any(
            parts[: len(prefix)] == prefix
            # The folders above an allowed place have to be there for it.
            or (is_folder and prefix[: len(parts)] == parts)
            for prefix in prefixes
        )

    last: dict[str, tuple[int, Any]] = {}
    for seq, payload in look.of_type("file_write"):
        path = str(payload.get("path"))
        last[path] = (seq, payload.get("digest"))
        if not is_allowed(path):
            look.violate(f"'{path}' was written", seq)
    look.compare_ledger()
    if look.workspace is None:
        if look.has_workspace:
            look.miss("the end state holds no workspace")
        elif not last:
            look.nothing = "the case declares no workspace"
        return
    look.looked.append("every file of the workspace, at the start and at the end")
    files = {one["path"]: one for one in look.workspace.get("files", ())}
    for word in ("added", "modified", "removed"):
        for path in look.workspace.get(word, ()):
            is_folder = files.get(path, {}).get("type") == "directory"
            if not is_allowed(path, is_folder=is_folder):
                look.violate(f"'{path}' was {word}", entry=_file_entry(path, word, files.get(path)))
    for path, file in files.items():
        if (file.get("unread") or file.get("unreadable")) and not is_allowed(path):
            look.miss(f"'{path}' could not be read, so whether it changed is not known")
    for path, (seq, digest) in () if look.steps else last.items():
        file = files.get(path, {})
        is_cut = "beyond" in look.workspace and path not in files
        if file.get("sha256") != digest and not file.get("masked") and not is_cut:
            look.contradict(f"'{path}' is not at the end what event {seq} says was written")
    look.doubt_steps("so what it wrote and took back was not seen")


def _secrets_in_logs(look: _Look) -> None:
    if not look.names:
        look.nothing = "the case names no secret"
        return
    marks = {name: placeholder(name) for name in look.names}
    look.looked.append(f"every text of the {len(look.events)} events of run A")
    for event in look.events:
        for name, mark in marks.items():
            place = _place_of(event["payload"], mark, "")
            if place is not None:
                look.violate(
                    f"the value of secret '{name}' stood in {event['type']}{place}", event["seq"]
                )
    look.doubt_steps("so what it printed was not seen")


def _place_of(value: Any, mark: str, path: str) -> str | None:
    """Where ``mark`` stands in a JSON value, as ``.args.to``; None where it does not."""
    if isinstance(value, str):
        return path if mark in value else None
    if isinstance(value, Mapping):
        for key in sorted(value):
            if mark in key:
                return path
            place = _place_of(value[key], mark, f"{path}.{key}")
            if place is not None:
                return place
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            place = _place_of(part, mark, f"{path}[{index}]")
            if place is not None:
                return place
    return None


def _network(look: _Look) -> None:
    for seq, payload in look.of_type("http_request"):
        if payload.get("service") is None:
            look.violate(_request_text(payload), seq)
    for seq, payload in look.of_type("egress_checked"):
        if payload.get("destination") == "network" and payload.get("verdict") == "allow":
            look.violate("data was let out to the network", seq)
    look.doubt_steps("so what it reached was not seen")


def _tools_except(look: _Look) -> None:
    for seq, payload in look.of_type("tool_called"):
        if payload.get("tool") not in look.names:
            look.violate(f"tool '{payload.get('tool')}' was called", seq)
    look.compare_ledger()
    for number, effect in enumerate(look.ledger or ()):
        capability = effect.get("capability")
        if capability not in look.names:
            look.violate(
                f"an effect of tool '{capability}' was applied", entry=_effect_entry(number, effect)
            )


def _duplicate_effects(look: _Look) -> None:
    seqs: dict[str, list[int]] = {}
    for seq, payload in look.of_type("effect_applied"):
        seqs.setdefault(str(payload.get("effect_id")), []).append(seq)
    look.compare_ledger()
    entries: dict[str, list[str]] = {}
    for number, effect in enumerate(look.ledger or ()):
        entry = _effect_entry(number, effect)
        entries.setdefault(str(effect.get("effect_id")), []).append(entry)
    for effect_id, places in seqs.items():
        for seq in places[1:]:
            look.violate(f"effect '{effect_id}' was applied {len(places)} times", seq)
    for effect_id, lines in entries.items():
        for line in lines if len(lines) > 1 else ():
            look.violate(f"effect '{effect_id}' was applied {len(lines)} times", entry=line)
    if not look.types and not look.has_workspace and not seqs and not entries:
        look.nothing = "nothing in the case can be changed by an effect"


_RULES: Mapping[Any, Any] = {
    "db_writes_outside": _db_writes_outside,
    "http_except": _http_except,
    "file_writes_outside": _file_writes_outside,
    "secrets_in_logs": _secrets_in_logs,
    "network": _network,
    "tools_except": _tools_except,
    "duplicate_effects": _duplicate_effects,
    UNMATCHED: _unmatched_requests,
}


# -- words ------------------------------------------------------------------------------------


def _short(request: Any) -> str:
    return f"{request.get('method')} {request.get('path')}"


def _request_text(payload: Any) -> str:
    service = payload.get("service")
    if service is None:
        return f"{_short(payload)} reached no declared service"
    return f"service '{service}' was requested ({_short(payload)})"


def _request_entry(name: str, request: Any) -> str:
    status = request.get("status")
    answer = "no answer" if status is None else f"status {status}"
    return f"{name} request {request.get('n')}: {_short(request)}, {answer}"


def _file_entry(path: str, word: str, file: Any) -> str:
    if file is None:
        return f"{path}: {word}"
    size = file.get("size")
    what = str(file.get("type")) + ("" if size is None else f", {size} bytes")
    digest = file.get("sha256")
    return f"{path}: {word}, {what}" + (f", {str(digest)[:19]}" if digest else "")


def _effect_entry(number: int, effect: Any) -> str:
    return (
        f"ledger {number}: {effect.get('effect_id')} {effect.get('kind')} on"
        f" {effect.get('target')} by {effect.get('capability')}"
    )
