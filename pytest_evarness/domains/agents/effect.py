"""Effects of tools as they are read: templates, and what they say of world and manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_evarness.domains.agents.template import bare_template, places, template_problem
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import nearest, one_of, quoted
from pytest_evarness.world.effect import cross_faults, kind_of_effect, writing_problem

if TYPE_CHECKING:
    from pytest_evarness.core.json import JsonObject

__all__ = ["effect_faults", "manifest_effect_faults", "template_faults"]


def template_faults(effects: Any) -> Iterator[Fault]:
    """Templates in a list of effects that can never be filled; paths from the list."""
    for index, effect in enumerate(effects if isinstance(effects, list) else ()):
        problem = template_problem(effect)
        if problem is not None:
            yield Fault((index,), problem)
        bare = bare_template(effect)
        if bare is not None:
            yield Fault(
                (index,),
                f"is a mapping where a template is meant (got {{{bare}: null}})",
                fix=f'write "{{{bare}}}" with quotes',
            )


def effect_faults(
    environment: JsonObject,
    manifests: Mapping[str, Mapping[str, Any]],
    canonical: Callable[[str], str],
    used: Iterable[str],
) -> list[Fault]:
    """What effects say that does not fit the declared world or their tool.

    Args:
        canonical: Gives the id of a tool for any of its names.
        used: Ids of the tools that the graph calls: only their manifests' effects can be applied.

    Returns:
        Faults with paths from the environment; a manifest's are told at its services.
    """
    services = _types(environment.get("services"))
    has_workspace = "workspace" in environment
    scripted: Any = environment.get("tools") or {}
    faults: list[Fault] = []
    replaced: set[str] = set()
    for name, rules in scripted.items():
        manifest = manifests.get(canonical(name))
        for number, rule in enumerate(rules):
            for index, effect in enumerate(rule.get("effects") or ()):
                at = ("tools", name, number, "effects", index)
                found = cross_faults(effect, services, has_workspace=has_workspace)
                found += _tool_faults(effect, manifest)
                faults += (fault.under(*at) for fault in found)
        if rules and all("effects" in rule or "raise" in rule for rule in rules):
            replaced.add(canonical(name))
    for tool in sorted(set(used) - replaced):
        manifest = manifests.get(tool)
        for index, effect in enumerate(manifest["effects"] if manifest is not None else ()):
            for fault in cross_faults(effect, services, has_workspace=has_workspace):
                place = ".".join(str(part) for part in fault.path)
                problem = f"manifest of {quoted(tool)}: effects[{index}].{place}: {fault.problem}"
                faults.append(
                    Fault(("services",), problem, got=fault.got, rule=fault.rule, fix=fault.fix)
                )
    return faults


def manifest_effect_faults(manifest: Mapping[str, Any]) -> list[Fault]:
    """What the effects and rules of one manifest say that does not fit the rest of it."""
    faults: list[Fault] = []
    for index, effect in enumerate(manifest["effects"]):
        faults += (fault.under("effects", index) for fault in _tool_faults(effect, manifest))
    for number, rule in enumerate(manifest["sim"]):
        for index, effect in enumerate(rule.get("effects") or ()):
            at = ("sim", number, "effects", index)
            faults += (fault.under(*at) for fault in _tool_faults(effect, manifest))
    return faults


def _types(services: Any) -> dict[str, str]:
    if not isinstance(services, Mapping):
        return {}
    return {name: str(one.get("type")) for name, one in services.items()}


def _tool_faults(effect: Mapping[str, Any], manifest: Mapping[str, Any] | None) -> list[Fault]:
    if manifest is None:
        return []  # every call of it is refused, which says why
    faults: list[Fault] = []
    kind = kind_of_effect(effect)
    problem = writing_problem(effect)
    if problem is not None and manifest["safety"]["side_effects"] == "read":
        # No gate stands before a call that only reads, so nothing may be changed by one.
        faults.append(
            Fault(
                (kind,),
                f"the tool {quoted(manifest['id'])} only reads",
                rule=f"side_effects: read; {problem}",
                fix="write 'side_effects: write' in its manifest",
                at_key=True,
                code="reading_tool",
            )
        )
    schema = manifest["args"]
    known = schema.get("properties")
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    if not is_closed or not isinstance(known, Mapping):
        return faults
    for path, name in places(effect):
        if name not in known:
            near = nearest(name, known)
            faults.append(
                Fault(
                    path,
                    f"{quoted(manifest['id'])} takes no such argument",
                    got=quoted(name),
                    rule=f"known: {one_of(sorted(known)) or 'none'}",
                    fix=f"write {quoted(near)}" if near else None,
                    code="unknown_argument",
                )
            )
    return faults
