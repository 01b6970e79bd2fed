"""A domain lets plug-ins extend it by tables of its own, whose words the kernel does not know."""

from __future__ import annotations

import pytest

from pytest_evarness.core.registry import Registry, load_registry


def test_a_domain_declares_a_table_and_a_plug_in_fills_it() -> None:
    registry = Registry()
    registry.load("domain", lambda: lambda one: one.extensible("dance.step"))
    registry.load("mine", lambda: lambda one: one.extensions("dance.step").register("a.b", "spin"))
    table = registry.extensions("dance.step")
    assert list(table.items()) == [("a.b", "spin")]
    assert table.source_of("a.b") == "mine"
    assert table.source == ""


def test_parts_are_looked_at_as_their_domain_wants() -> None:
    registry = Registry()
    registry.extensible("dance.step", lambda name, part: None if part == "spin" else "no step")
    registry.extensions("dance.step").register("a", "spin")
    with pytest.raises(TypeError, match=r"^dance\.step 'b': no step$"):
        registry.extensions("dance.step").register("b", "bow")
    with pytest.raises(ValueError, match=r"^dance\.step: the name is taken"):
        registry.extensions("dance.step").register("a", "spin")


def test_a_kind_that_nobody_declared_is_named_with_the_nearest() -> None:
    registry = Registry()
    with pytest.raises(ValueError, match=r"known: none\)$"):
        registry.extensions("dance.step")
    registry.extensible("dance.step")
    with pytest.raises(ValueError, match=r"did you mean 'dance\.step'\?\)$"):
        registry.extensions("dance.setp")
    with pytest.raises(ValueError, match=r"^the kind of extension is taken \(got 'dance\.step'\)$"):
        registry.extensible("dance.step")


def test_a_plug_in_that_breaks_leaves_nothing_in_such_a_table() -> None:
    registry = Registry()
    registry.extensible("dance.step")

    def breaks(one: Registry) -> None:
        one.extensible("dance.music")
        one.extensions("dance.step").register("a", "spin")
        raise RuntimeError("late")

    registry.load("mine", lambda: breaks)
    assert registry.broken == [("mine", "RuntimeError: late")]
    assert len(registry.extensions("dance.step")) == 0
    with pytest.raises(ValueError, match=r"^unknown kind of extension"):
        registry.extensions("dance.music")


def test_the_agents_domain_offers_three() -> None:
    registry = load_registry()
    for kind in ("agents.classifier", "agents.interceptor_rule", "agents.redaction_rule"):
        assert registry.extensions(kind).kind == kind
