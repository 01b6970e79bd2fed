"""Hooks that projects may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_evarness.core.registry import Registry


@pytest.hookspec
def pytest_evarness_register(registry: Registry) -> None:
    """Add node types, predicates, lint rules, ... of this project to the session's registry."""
