"""Facts about the place a session ran in; no path and no user name is among them."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["environment_facts", "git_facts", "installed_packages", "mirror_sentences"]

GIT_TIMEOUT_SECONDS = 10.0
DISTRIBUTION = "pytest-evarness"

# What a source tree that is not installed needs; an installed one says so itself.
_FALLBACK = (
    "PyYAML",
    "cryptography",
    "jsonschema",
    "junit-xml",
    "pluggy",
    "pydantic",
    "pytest",
    "regex",
)


def environment_facts(
    *,
    rerun: str,
    plugins: Iterable[str] = (),
    mirror: Sequence[str] = (),
    sandbox: bool = False,
) -> dict[str, Any]:
    """The statement's ``environment``.

    Args:
        rerun: ``mirror`` or ``inline``.
        plugins: Names of further distributions that took part.
        mirror: What the mirror differed in, one sentence each; added when it is known.
        sandbox: Whether anything is to be judged for which it matters what a sandbox denies here;
            finding that out takes a moment.
    """
    from pytest_evarness.checks.shell import find_shell

    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": [
            {"name": name, "version": version} for name, version in installed_packages(plugins)
        ],
        "shell": " ".join(find_shell()),
        "rerun": rerun,
        "mirror": list(mirror),
        "sandbox": _sandbox_words(asked=sandbox),
        "network": "no live service is reached: model, tools and services are simulated",
    }


def _sandbox_words(*, asked: bool) -> str:
    nodes = "none for nodes, which run in the session's own process"
    if not asked:
        return nodes
    from pytest_evarness.world.sandbox import find_sandbox

    return f"{nodes}; for commands and confined scripts: {find_sandbox().sentence}"


def installed_packages(further: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Name and version of what decides a result: this package, what it needs, and ``further``."""
    return list(_installed(tuple(further), tuple(sys.path)))


# By the path, which is all that the answer depends on while a process runs.
@lru_cache(maxsize=8)
def _installed(further: tuple[str, ...], path: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    del path
    wanted = [DISTRIBUTION, *_FALLBACK, *further]
    found: dict[str, str] = {}
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in seen:
            continue
        seen.add(key)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        named, version, requirements = _described(distribution)
        found[named] = version
        for requirement in requirements:
            # An extra is not there unless somebody asked for it; then it is somebody's `further`.
            if "extra ==" not in requirement.replace("extra==", "extra =="):
                match = re.match(r"[A-Za-z0-9._-]+", requirement)
                if match:
                    wanted.append(match.group())
    return tuple(sorted(found.items()))


def _described(distribution: metadata.Distribution) -> tuple[str, str, list[str]]:
    """Name, version, and requirements.

    The headers are read by themselves: the parser of the library reads the description below them
    as well, which in every session costs more than all the rest of the statement.
    """
    head = (distribution.read_text("METADATA") or "").partition("\n\n")[0]
    names = re.findall(r"^Name: *(\S+)", head, re.MULTILINE)
    versions = re.findall(r"^Version: *(\S+)", head, re.MULTILINE)
    if len(names) != 1 or len(versions) != 1:
        # An older form, which keeps what it requires elsewhere.
        requirements = list(distribution.requires or ())
        return distribution.metadata["Name"], distribution.version, requirements
    return names[0], versions[0], re.findall(r"^Requires-Dist: *(.+)$", head, re.MULTILINE)


def mirror_sentences(facts: Mapping[str, Any]) -> list[str]:
    """What the mirror differed in, one sentence each, in the order of the facts' names."""
    return [f"{name}: {facts[name]}" for name in sorted(facts)]


def git_facts(root: Path) -> dict[str, Any] | None:
    """``{commit, tree, clean}`` of the working tree at ``root``; None without git.

    ``clean`` is None where git took too long to tell. A repository without a commit has None as
    commit and tree, and is not clean: nothing holds what was run.
    """
    names = _git(root, "rev-parse", "HEAD", "HEAD^{tree}")
    if names is None:
        # HEAD that names a branch and leads to no commit: nothing was committed yet.
        is_unborn = (
            _git(root, "symbolic-ref", "-q", "HEAD") is not None
            and _git(root, "rev-list", "-n", "1", "--all") == ""
        )
        return {"commit": None, "tree": None, "clean": False} if is_unborn else None
    lines = names.split()
    if len(lines) != 2 or not all(re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", x) for x in lines):
        return None
    status = _git(root, "status", "--porcelain")
    return {
        "commit": lines[0],
        "tree": lines[1],
        "clean": None if status is None else not status.strip(),
    }


def _git(root: Path, *words: str) -> str | None:
    """Output of git, or None where it is missing, refuses, or takes too long."""
    kept = ("PATH", "HOME", "SYSTEMROOT", "LD_LIBRARY_PATH", "GIT_DIR", "GIT_WORK_TREE")
    variables = {name: os.environ[name] for name in kept if name in os.environ}
    # No lock on the index and no file-system monitor: asking must change nothing and start nothing.
    variables |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(  # noqa: S603 - fixed words, no shell
            ["git", "-c", "core.fsmonitor=false", *words],  # noqa: S607 - the user's own git
            cwd=root,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode != 0:
        return None
    return done.stdout.decode("utf-8", "replace")


def engine_version() -> dict[str, str]:
    """``{"pytest-evarness": version}``."""
    import pytest_evarness

    version = getattr(pytest_evarness, "__version__", None)
    if not isinstance(version, str):
        try:
            version = metadata.version(DISTRIBUTION)
        except metadata.PackageNotFoundError:
            version = "unknown"
    return {DISTRIBUTION: version}
