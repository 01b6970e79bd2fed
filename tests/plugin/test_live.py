"""What a step logs or prints is shown while it runs, and then too without the case's secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plugin.scenarios import echo, step_graph

if TYPE_CHECKING:
    from tests.plugin.ran import Session

VALUE = "hunter22-live"
STEP = """
import logging
import sys

LOGGER = logging.getLogger("desk")


def tell(inputs, config, context):
    value = "-".join(["hunter22", "live"])
    LOGGER.warning("told by %s", value)
    print("printed", value)
    print("on stderr", value, file=sys.stderr)
    return {"out": "done"}
"""
KEEPS = """
import os
import logging
import sys

sys.path.insert(0, os.path.dirname(__file__))
# A handler that got hold of the real stream before anything ran.
logging.getLogger("desk").addHandler(logging.StreamHandler(sys.stderr))
"""


@pytest.mark.parametrize(
    "words",
    [
        ("-o", "log_cli=true"),
        ("-o", "log_cli=true", "--log-cli-format=%(message)s", "-s"),
        ("-s",),
        ("--log-file=live.log",),
    ],
    ids=["live", "live-s", "s", "file"],
)
def test_no_live_output_shows_a_secret(
    session: Session, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("DESK_TOKEN", VALUE)
    scenario = echo(subject={"graph": step_graph("live_step:tell")}, secrets=["DESK_TOKEN"])
    files = {"scenarios/s.yaml": scenario, "live_step.py": STEP, "conftest.py": KEEPS}
    ran = session("--evarness-unsigned", *words, files=files, subprocess=True)
    assert ran.code == 0, ran.text
    log = ran.root / "live.log"
    shown = ran.text + (log.read_text(encoding="utf-8") if log.exists() else "")
    assert VALUE not in shown
    assert "told by «secret:DESK_TOKEN»" in shown
    assert ("printed «secret:DESK_TOKEN»" in shown) is ("-s" in words)
    # The twin: the value of a variable that is no secret of the case is shown.
    files["scenarios/s.yaml"] = echo(subject={"graph": step_graph("live_step:tell")})
    ran = session("--evarness-unsigned", *words, files=files, subprocess=True)
    log_text = log.read_text(encoding="utf-8") if log.exists() else ""
    assert f"told by {VALUE}" in ran.text + log_text
