"""A pipe that hides which part failed is seen wherever it is one."""

from __future__ import annotations

import pytest

from pytest_evarness.checks.shell import find_shell, has_pipe


@pytest.mark.parametrize(
    "command",
    [
        "a | b",
        "a|b",
        "a |& b",
        "a || b | c",
        "'a' | 'b'",
        'echo "$(a | b)"',
        'echo "x `a | b`"',
        "echo $(a | b)",
        "(a | b)",
        'echo "a" | cat',
        "echo \\\\| cat",
        'echo "$(echo ")" | cat)"',
        "x=$(echo ')' | cat)",
        "[ $(git diff --stat | tail -1 | awk '{print $4+$6}') -lt 50 ]",
    ],
)
def test_a_pipe_is_seen(command: str) -> None:
    assert has_pipe(command)


@pytest.mark.parametrize(
    "command",
    [
        "a || b",
        "a && b; c",
        "grep 'a|b' x",
        'grep "a|b" x',
        "grep a\\|b x",
        "echo x >| y",
        'echo "it\'s | quoted"',
        "echo '\"' '|'",
        "echo \"$(echo '|')\"",
        "",
    ],
)
def test_what_is_no_pipe_is_not_taken_for_one(command: str) -> None:
    assert not has_pipe(command)


def test_the_shell_is_bash_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_shell() == ("bash", "-o", "pipefail", "-c")
    monkeypatch.setenv("PATH", "/nowhere-at-all")
    assert find_shell() == ("sh", "-c")
