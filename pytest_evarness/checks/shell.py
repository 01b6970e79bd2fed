"""Which shell runs a command, and what it would hide."""

from __future__ import annotations

import functools
import os
import shutil

__all__ = ["Shell", "find_shell", "has_pipe"]

Shell = tuple[str, ...]
"""The words before the command text, such as ``("bash", "-o", "pipefail", "-c")``."""

_BASH: Shell = ("bash", "-o", "pipefail", "-c")
_PLAIN: Shell = ("sh", "-c")


@functools.cache
def _has_bash(path: str) -> bool:
    return shutil.which("bash", path=path) is not None


def find_shell() -> Shell:
    """``bash -o pipefail -c`` where there is a bash, else ``sh -c``."""
    return _BASH if _has_bash(os.environ.get("PATH", os.defpath)) else _PLAIN


def has_pipe(command: str) -> bool:
    """Whether a ``|`` outside quotes makes a pipeline of it; ``||`` does not.

    Where that cannot be told without a shell (``case`` patterns, here documents) it says yes.
    """
    # What is open, innermost last: a quote, a bracket of a substitution, or nothing.
    open_: list[str] = []
    at = 0
    while at < len(command):
        char = command[at]
        inside = open_[-1] if open_ else ""
        if inside == "'":
            if char == "'":
                open_.pop()
        elif char == "\\":
            at += 1
        elif inside == '"' and char == '"':
            open_.pop()
        elif char == "$" and command[at + 1 : at + 2] == "(":
            open_.append(")")
            at += 1
        elif char == "`":
            if inside == "`":
                open_.pop()
            else:
                open_.append("`")
        elif inside == '"':
            pass
        elif char in "'\"":
            open_.append(char)
        elif char == "(":
            open_.append(")")
        elif char == ")" and inside == ")":
            open_.pop()
        elif char == "|":
            if command[at + 1 : at + 2] != "|":
                # '>|' writes a file all the same; everything else joins two commands.
                if command[at - 1 : at] != ">":
                    return True
            else:
                at += 1
        at += 1
    return False
