"""What a case is judged by: the types of checks, and how findings come from evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_evarness.core.registry import Registry

__all__ = ["CHECK_TYPES", "KINDS", "register"]

KINDS: tuple[tuple[str, str, str], ...] = (
    ("account", "pytest_evarness.checks.account", "Account"),
    ("command_exit", "pytest_evarness.checks.command", "CommandExit"),
    ("custom", "pytest_evarness.checks.custom", "Custom"),
    ("file_absent", "pytest_evarness.checks.files", "FileAbsent"),
    ("file_content", "pytest_evarness.checks.content", "FileContent"),
    ("file_exists", "pytest_evarness.checks.files", "FileExists"),
    ("http_mock_assertions", "pytest_evarness.checks.http", "HttpMockAssertions"),
    ("llm_as_judge", "pytest_evarness.checks.llm_judge", "LlmAsJudge"),
    ("redaction", "pytest_evarness.checks.redaction", "Redaction"),
    ("sql", "pytest_evarness.checks.sql", "Sql"),
)
"""``(type, module, class)`` of each check type; the module is loaded when a scenario names it."""

CHECK_TYPES = (
    "account",
    "command_exit",
    "contract",
    "custom",
    "file_absent",
    "file_content",
    "file_exists",
    "http_mock_assertions",
    "llm_as_judge",
    "redaction",
    "sql",
    "trace",
)
"""Every name that is taken. One that is not in the registry is not in this version.

``contract`` and ``trace`` are no kinds of their own: all of a case are judged together, in one
pass over the events.
"""


def register(registry: Registry) -> None:
    """Offer the packaged check types; nothing of weight is imported."""
    from pytest_evarness.checks.late import LateKind

    arguments = {"llm_as_judge": (registry.judges,)}
    for name, module, kind in KINDS:
        late = LateKind(name, module, kind, *arguments.get(name, ()))
        registry.check_types.register(name, late)
