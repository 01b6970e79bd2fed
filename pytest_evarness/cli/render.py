"""``pytest-evarness render``: reports of a bundle for other tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evarness.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any

__all__ = ["HELP", "NAME", "add_arguments", "main"]

NAME = "render"
HELP = "write reports of a bundle: a trace file, JUnit"

_LATER = ("html", "sarif", "otlp")
_FORMATS = ("jsonl", "junit")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    from pytest_evarness.cli.enclosed import add_key_argument

    parser.add_argument("bundle", metavar="BUNDLE", help="a proof.json")
    parser.add_argument("--jsonl", metavar="PATH", help="the runs as a trace file; - for stdout")
    parser.add_argument("--junit", metavar="PATH", help="JUnit XML; - for stdout")
    for name in _LATER:
        parser.add_argument(f"--{name}", metavar="PATH", help="not in this version")
    parser.add_argument(
        "--export",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a report of a plug-in's exporter; repeatable; - for stdout",
    )
    parser.add_argument(
        "--profile",
        metavar="NAME",
        help="of JUnit: extended (default), or strict, which validates against the common schema",
    )
    add_key_argument(parser)


def main(args: argparse.Namespace) -> int:
    """Render reports.

    Returns:
        0 written, 1 where a key was given and the bundle is not genuine, 2 wrong use or input.
    """
    from pytest_evarness.cli.enclosed import add_up, open_bundle
    from pytest_evarness.cli.foreign import find_exporters
    from pytest_evarness.cli.session import write_error
    from pytest_evarness.core.exchange import exported

    exporters = find_exporters(args.export)
    _check(args)
    path = Path(args.bundle)
    enclosed = open_bundle(path, args.key, judged_again=True)
    if enclosed.keyid is None:
        write_error(f"{args.bundle}: not verified; add '--key PUB' to verify it first")
    if enclosed.not_judged_again is not None:
        write_error(f"{args.bundle}: {enclosed.not_judged_again}")
    # All of them before any is written: no half of what was asked for.
    with add_up(path):
        reports = {
            name: _render(name, enclosed.statement, args.profile)
            for name in _FORMATS
            if getattr(args, name) is not None
        }
    exports = [
        (name, str(target), exported(name, exporter, enclosed.statement))
        for name, target, exporter in exporters
    ]
    for name, data in reports.items():
        _write(f"--{name}", getattr(args, name), data)
    for name, target, data in exports:
        _write(f"--export {name}", target, data)
    return 0


def _check(args: argparse.Namespace) -> None:
    from pytest_evarness.report.junit import PROFILES

    for name in _LATER:
        if getattr(args, name) is not None:
            raise UsageError(f"--{name} is not in this version (known: --jsonl, --junit)")
    wanted = [getattr(args, name) for name in _FORMATS if getattr(args, name) is not None]
    wanted += [word.partition("=")[2] for word in args.export]
    if not wanted:
        raise UsageError("which report? (known: --jsonl PATH, --junit PATH, --export NAME=PATH)")
    if len(set(wanted)) < len(wanted):
        raise UsageError(f"two reports cannot go to one place (got '{wanted[0]}' twice)")
    if args.profile is None:
        return
    if args.junit is None:
        raise UsageError("--profile goes with --junit")
    if args.profile not in PROFILES:
        raise UsageError(
            f"--profile: no such profile (got '{args.profile}'; {', '.join(PROFILES)})"
        )


def _render(name: str, statement: Mapping[str, Any], profile: str | None) -> bytes:
    if name == "jsonl":
        from pytest_evarness.report.jsonl import jsonl_bytes

        return jsonl_bytes(statement)
    from pytest_evarness.report.junit import junit_bytes

    return junit_bytes(statement, profile or "extended")


def _write(option: str, target: str, data: bytes) -> None:
    from pytest_evarness.bundle.store import write_atomically

    if target == "-":
        sys.stdout.write(data.decode("utf-8", "backslashreplace"))
        return
    try:
        write_atomically(Path(target), data)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{option}: {target} cannot be written ({reason})") from error
