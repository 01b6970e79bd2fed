"""Prove what an AI agent's harness does before it touches real data. PYTEST_DONT_REWRITE.

Importing this package loads nothing of weight: pytest does it in every session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_evarness.api import Result as Result
    from pytest_evarness.api import run as run
    from pytest_evarness.core.registry import Registry as Registry
    from pytest_evarness.errors import EvarnessError as EvarnessError
    from pytest_evarness.errors import InputError as InputError

__version__ = "0.1.0"

__all__ = ["EvarnessError", "InputError", "Registry", "Result", "__version__", "run"]

_HOME = {
    "EvarnessError": "errors",
    "InputError": "errors",
    "Registry": "core.registry",
    "Result": "api",
    "run": "api",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)
