"""A warning of a step is a warning, whatever the session makes of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plugin.scenarios import echo, step_graph

if TYPE_CHECKING:
    from tests.plugin.ran import Session

STEP = """
import warnings


def warn(inputs, config, context):
    warnings.warn("careful with that")
    return {"out": "done"}


def fail(inputs, config, context):
    raise UserWarning("careful with that")
"""


@pytest.mark.parametrize("action", ["error", "ignore", "default"])
def test_no_filter_of_the_session_fails_a_run(session: Session, action: str) -> None:
    files = {
        "scenarios/s.yaml": echo(subject={"graph": step_graph("warning_step:warn")}),
        "warning_step.py": STEP,
        "pytest.ini": f"[pytest]\nfilterwarnings = {action}:careful\n",
    }
    ran = session(files=files)
    assert ran.code == 0, ran.text
    assert "careful with that" in ran.text
    # The twin: one that is raised is an error of the step.
    files["scenarios/s.yaml"] = echo(subject={"graph": step_graph("warning_step:fail")})
    assert session(files=files).code == 1
