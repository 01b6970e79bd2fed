"""What a plug-in may hand over: each kind of part is looked at when it is registered.

A part of the wrong shape fails where its author can see it, not in somebody's hundredth scenario.
Nothing of a part is called: a property may import what is heavy, and is looked at by name alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_evarness.core.event import EventType
from pytest_evarness.core.interfaces import NodeType, Pattern
from pytest_evarness.core.json import kind_of
from pytest_evarness.core.vocabulary import is_custom_type

__all__ = ["LOOK", "described", "part_problem"]

_MAX_SHOWN = 80


def described(part: object) -> str:
    """A part in words: what it is, without its address in memory."""
    if isinstance(part, type):
        return f"the class {part.__qualname__}"
    if inspect.isroutine(part):
        return f"the function {getattr(part, '__qualname__', type(part).__name__)}"
    if part is None or isinstance(part, bool | int | float | str | list | tuple | dict):
        word = repr(part)
        return word if len(word) <= _MAX_SHOWN else f"{word[:_MAX_SHOWN]}…"
    return f"an object of {type(part).__qualname__}"


def part_problem(kind: str, name: str, part: object) -> str | None:
    """Why ``part`` cannot be a ``kind`` called ``name``: ``problem (got X; RULE)``, or None."""
    look = LOOK.get(kind)
    return None if look is None else look(name, part)


# -- functions -----------------------------------------------------------------------------------


def _takes(function: object, count: int) -> bool:
    """Whether a function can be called with so many arguments; True where it does not say."""
    try:
        signature = inspect.signature(function)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _function_problem(part: object, form: str, count: int) -> str | None:
    if isinstance(part, type) or not callable(part):
        return f"must be a function (got {described(part)}; {form})"
    if inspect.iscoroutinefunction(part):
        return f"must be an ordinary function, not an async one (got {described(part)}; {form})"
    if not _takes(part, count):
        signature = f"{getattr(part, '__name__', 'function')}{inspect.signature(part)}"
        return f"takes other arguments (got {signature}; {form})"
    return None


def _is_function(form: str, count: int) -> Callable[[str, object], str | None]:
    return lambda _, part: _function_problem(part, form, count)


# -- objects with methods ------------------------------------------------------------------------


def _owner(kind: type, name: str) -> type | None:
    return next((one for one in kind.__mro__ if name in vars(one)), None)


def _is_offered(part: object, name: str, *, has_default: bool) -> bool:
    """Whether ``part`` has the attribute, and not merely the empty one of an interface."""
    if name in getattr(part, "__dict__", {}):
        return True
    owner = _owner(type(part), name)
    return owner is not None and (has_default or not getattr(owner, "_is_protocol", False))


def _object_problem(
    part: object,
    rule: str,
    *,
    values: tuple[str, ...] = (),
    methods: Mapping[str, int],
    defaults: frozenset[str] = frozenset(),
) -> str | None:
    """Whether an object has the attributes and methods of its kind; ``rule`` says what is right."""
    if isinstance(part, type):
        problem = f"must be an object, not its class (got {described(part)}"
        return f"{problem}; write {part.__name__}())"
    missing = [
        one
        for one in (*values, *methods)
        if not _is_offered(part, one, has_default=one in defaults)
    ]
    if missing:
        return f"has no {', '.join(missing)} (got {described(part)}; {rule})"
    for name, count in methods.items():
        method = getattr(part, name)
        if not callable(method):
            return f"{name} must be a method (got {described(method)}; {rule})"
        if not _takes(method, count):
            got = f"{name}{inspect.signature(method)}"
            return f"{name} takes other arguments (got {got}; {rule})"
    return None


def _name_problem(name: str, part: Any) -> str | None:
    if part.name == name:
        return None
    return f"calls itself otherwise (got name {described(part.name)}; '{name}' as registered)"


_CHECK_METHODS: Final = {
    "parse": 2,
    "needs": 1,
    "follows": 1,
    "gather": 2,
    "judge": 3,
    "is_final": 3,
    "consistent": 3,
    "largest": 2,
}
_CHECK_DEFAULTS: Final = frozenset(
    {
        "only_reads",
        "may_gate",
        "after_verdict",
        "needs",
        "follows",
        "is_final",
        "consistent",
        "largest",
    }
)
_CHECK_RULE: Final = "a subclass of pytest_evarness.checks.kind.CheckKind"


def _check_type(name: str, part: object) -> str | None:
    return _object_problem(
        part,
        _CHECK_RULE,
        values=("name", "schema", "only_reads", "may_gate", "after_verdict"),
        methods=_CHECK_METHODS,
        defaults=_CHECK_DEFAULTS,
    ) or _name_problem(name, part)


def _service_type(name: str, part: object) -> str | None:
    return _object_problem(
        part,
        "as pytest_evarness.world.service.ServiceType",
        values=("name", "schema"),
        methods={"parse": 1, "make": 1},
    ) or _name_problem(name, part)


def _judge(name: str, part: object) -> str | None:
    del name  # a judge is known by what it was registered as
    return _object_problem(
        part,
        "as pytest_evarness.core.interfaces.JudgeModel",
        methods={"faults": 1, "ask": 1, "leftovers": 1},
    )


def _exporter(name: str, part: object) -> str | None:
    return _object_problem(
        part,
        "as pytest_evarness.core.interfaces.Exporter, or a function under @registry.exporter",
        values=("name",),
        methods={"export": 1},
    ) or _name_problem(name, part)


def _importer(name: str, part: object) -> str | None:
    return _object_problem(
        part,
        "as pytest_evarness.core.interfaces.TraceImporter, or a function under @registry.importer",
        values=("name",),
        methods={"read": 1},
    ) or _name_problem(name, part)


_DOMAIN_METHODS: Final = {
    "environment_keys": 0,
    "load_overlays": 1,
    "check_case": 3,
    "start": 1,
    "leftovers": 1,
    "derive": 2,
    "identities": 3,
    "aliases": 1,
    "enforcements": 2,
    "coverage": 2,
    "exercised": 2,
}


def _domain(name: str, part: object) -> str | None:
    return _object_problem(
        part,
        "a subclass of pytest_evarness.core.domain.PlainDomain",
        values=("name",),
        methods=_DOMAIN_METHODS,
    ) or _name_problem(name, part)


# -- records -------------------------------------------------------------------------------------


def _record_problem(part: object, kind: type) -> str | None:
    if isinstance(part, kind):
        return None
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    name = f"{kind.__module__}.{kind.__name__}"
    return f"must be {article} {kind.__name__} (got {described(part)}; {name})"


def _node_type(name: str, part: object) -> str | None:
    problem = _record_problem(part, NodeType)
    if problem is not None or not isinstance(part, NodeType):
        return problem
    return (
        _name_problem(name, part)
        or _ports_problem("inputs", part.inputs)
        or _ports_problem("outputs", part.outputs)
        or _under("parse_config", _function_problem(part.parse_config, "parse_config(config)", 1))
        or _under("run", _function_problem(part.run, "run(inputs, config, context)", 3))
        or _mapping_problem("config_schema", part.config_schema)
        or _texts_problem("emits", part.emits, tuple)
        or _texts_problem("traits", part.traits, frozenset)
        or _optional("prepare", part.prepare, "prepare(config)")
        or _optional("module_of", part.module_of, "module_of(config)")
    )


def _under(field: str, problem: str | None) -> str | None:
    return None if problem is None else f"{field} {problem}"


def _optional(field: str, part: object, form: str) -> str | None:
    return None if part is None else _under(field, _function_problem(part, form, 1))


def _mapping_problem(field: str, value: object) -> str | None:
    if isinstance(value, Mapping):
        return None
    return f"{field} must be a JSON Schema (got {described(value)}; a mapping)"


def _ports_problem(field: str, ports: object) -> str | None:
    rule = "ports by name, such as {'in': 'text'}"
    if not isinstance(ports, Mapping):
        return f"{field} must be a mapping (got {described(ports)}; {rule})"
    for port, kind in ports.items():
        if not (isinstance(port, str) and port and isinstance(kind, str) and kind):
            return f"{field} must hold texts (got {described(port)}: {described(kind)}; {rule})"
    return None


def _texts_problem(field: str, value: object, kind: type) -> str | None:
    if isinstance(value, kind) and all(isinstance(one, str) for one in value):  # type: ignore[attr-defined]
        return None
    return f"{field} must be a {kind.__name__} of texts (got {described(value)})"


def _event_type(name: str, part: object) -> str | None:
    problem = _record_problem(part, EventType)
    if problem is not None or not isinstance(part, EventType):
        return problem
    problem = _name_problem(name, part) or _mapping_problem("schema", part.schema)
    if problem is None and is_custom_type(name):
        problem = f"needs no registration (got '{name}'; types custom.NAME are free)"
    if problem is None and not isinstance(part.schema.get("properties"), dict):
        got = kind_of(part.schema.get("properties"))
        problem = f"its schema must list every field under properties (got {got}; a mapping)"
    return problem


def _pattern(name: str, part: object) -> str | None:
    problem = _record_problem(part, Pattern)
    if problem is not None or not isinstance(part, Pattern):
        return problem
    problem = _name_problem(name, part)
    if problem is not None:
        return problem
    # No name of a part has a '/'.
    if ":" in name:
        return f"a name without ':' (got '{name}'; scenarios write pattern:NAME/FIXTURE)"
    folder: object = part.folder
    if not isinstance(folder, Path):
        return f"folder must be a Path (got {described(folder)})"
    if part.default_fixture not in part.fixtures:
        known = ", ".join(part.fixtures) or "none"
        return f"the default is no fixture (got '{part.default_fixture}'; fixtures: {known})"
    for file in ("graph.json", *(f"fixtures/{fixture}.yaml" for fixture in part.fixtures)):
        if not (part.folder / file).is_file():
            # No path: what it is called on this machine helps nobody who reads it elsewhere.
            return f"its folder has no {file} (got folder '{part.folder.name}')"
    return None


LOOK: Final[Mapping[str, Callable[[str, object], str | None]]] = {
    "domain": _domain,
    "node type": _node_type,
    "event type": _event_type,
    "predicate": _is_function("predicate(event)", 1),
    "lint rule": _is_function("rule(graph, registry, overlays)", 3),
    "determinism inspector": _is_function("inspect(graph, environment)", 2),
    "pattern": _pattern,
    "check type": _check_type,
    "service type": _service_type,
    "judge": _judge,
    "exporter": _exporter,
    "trace importer": _importer,
}
"""Kind to the function that looks at a part of that kind under the name it is registered by."""
