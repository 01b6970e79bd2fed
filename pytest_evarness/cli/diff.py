"""``pytest-evarness diff``: what differs between two bundles."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from pytest_evarness.cli.enclosed import Enclosed
    from pytest_evarness.history.diff import Change

__all__ = ["HELP", "NAME", "add_arguments", "main"]

NAME = "diff"
HELP = "compare two bundles: verdicts, contracts, plan, outcomes, digests, world, coverage"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    parser.add_argument("a", metavar="A", help="a proof.json")
    parser.add_argument("b", metavar="B", help="another one")
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="PUB",
        help="verify both bundles under this public key first; repeatable",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def main(args: argparse.Namespace) -> int:
    """Compare.

    Returns:
        0 where nothing differs that counts, 1 where something does.

    Raises:
        InputError: A file is no bundle, says otherwise than it encloses, or is not genuine under a
            key that was given (exit 2: 1 would read as a difference).
    """
    from pytest_evarness.cli.enclosed import NotGenuineError, add_up, open_bundle
    from pytest_evarness.errors import InputError
    from pytest_evarness.history.diff import circumstances, compare

    bundles = []
    for word in (args.a, args.b):
        try:
            bundles.append(open_bundle(Path(word), args.key, judged_again=True))
        except NotGenuineError as error:
            raise InputError(error.problem) from error
    first, second = bundles
    with add_up(Path(args.b)):
        changes = compare(first.statement, second.statement)
        around = circumstances(first.statement, second.statement)
    code = 1 if changes else 0
    if args.json:
        record = _record(bundles, changes, around, code)
        sys.stdout.write(json.dumps(record, indent=2, ensure_ascii=True) + "\n")
    else:
        lines = _text((args.a, args.b), bundles, changes, around)
        sys.stdout.write("\n".join(lines) + "\n")
    return code


def _text(
    words: Sequence[str],
    bundles: Sequence[Enclosed],
    changes: Sequence[Change],
    around: Sequence[Change],
) -> Iterator[str]:
    from pytest_evarness.history.diff import SECTIONS
    from pytest_evarness.report.text import one_line

    count = f"{len(changes)} difference{'' if len(changes) == 1 else 's'}"
    yield f"DIFFERENT: {count}" if changes else "SAME: nothing differs that counts"
    for letter, word, enclosed in zip("AB", words, bundles, strict=True):
        origin = (
            "not verified"
            if enclosed.keyid is None
            else f"signed by the pinned key {enclosed.keyid}"
        )
        yield f"  {letter} {one_line(word, 400)}, sha256 {enclosed.sha256}, {origin}"
        if enclosed.not_judged_again is not None:
            yield f"    {enclosed.not_judged_again}"
    for section in SECTIONS:
        found = [change for change in changes if change.section == section]
        if found:
            yield ""
            yield section
            for change in found:
                yield f"  {one_line(change.place, 400)}: {one_line(change.what, 600)}"
    if around:
        yield ""
        yield "circumstances, which count for nothing here"
        for change in around:
            yield f"  {one_line(change.place, 400)}: {one_line(change.what, 300)}"


def _record(
    bundles: Sequence[Enclosed], changes: Sequence[Change], around: Sequence[Change], code: int
) -> dict[str, Any]:
    sides = {
        letter: {
            "sha256": enclosed.sha256,
            "seal": enclosed.statement["predicate"]["seal"]["digest"],
            "verified": enclosed.keyid is not None,
            "keyid": enclosed.keyid,
            "judged_again": enclosed.not_judged_again is None,
            "verdict": enclosed.statement["predicate"]["verdict"],
        }
        for letter, enclosed in zip("ab", bundles, strict=True)
    }
    return {
        "same": not changes,
        "exit": code,
        **sides,
        "differences": [change.as_record() for change in changes],
        "circumstances": [change.as_record() for change in around],
    }
