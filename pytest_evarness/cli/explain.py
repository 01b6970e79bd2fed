"""``pytest-evarness explain``: what a bundle says, in words."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from pytest_evarness.cli.enclosed import Enclosed

__all__ = ["HELP", "NAME", "add_arguments", "main"]

NAME = "explain"
HELP = "say in words what a bundle shows, and what is not proven"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    from pytest_evarness.cli.enclosed import add_key_argument

    parser.add_argument("bundle", metavar="BUNDLE", help="a proof.json")
    parser.add_argument(
        "target",
        nargs="?",
        metavar="CASE::INVARIANT",
        help="one case, or one finding of it (default: the whole bundle)",
    )
    add_key_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def main(args: argparse.Namespace) -> int:
    """Explain a bundle.

    Returns:
        0 whatever the bundle says, 1 where a key was given and the bundle is not genuine, 2 where
        the file is no bundle or nothing is called that.
    """
    from pytest_evarness.cli.enclosed import add_up, open_bundle
    from pytest_evarness.report.explain import explain

    path = Path(args.bundle)
    enclosed = open_bundle(path, args.key, judged_again=True)
    with add_up(path):
        if args.json:
            text = json.dumps(_record(enclosed, args.target), indent=2, ensure_ascii=True) + "\n"
        else:
            text = (
                enclosed.origin(args.bundle, NAME)
                + "\n\n"
                + explain(enclosed.statement, args.target, bundle=args.bundle)
            )
    sys.stdout.write(text)
    return 0


def _record(enclosed: Enclosed, target: str | None) -> dict[str, Any]:
    from pytest_evarness.report.explain import find_target
    from pytest_evarness.report.judged import judged_cases

    predicate = enclosed.statement["predicate"]
    cases = judged_cases(enclosed.statement)
    only = None
    if target is not None:
        case, only = find_target(cases, target)
        cases = [case]
    return {
        "verified": enclosed.keyid is not None,
        "keyid": enclosed.keyid,
        "verdict": predicate["verdict"],
        "cases": [
            {
                "nodeid": case.nodeid,
                "verdict": case.verdict,
                "status": None if case.record is None else case.replica["status"],
                "primary": None if case.record is None else case.record["primary"],
                "composite": None if case.record is None else case.record["composite"],
                "findings": [
                    {
                        "shows": judged.shows,
                        "selected": judged.why_not is None,
                        "why": judged.why_not,
                        "finding": None if judged.finding is None else judged.finding.as_record(),
                    }
                    for judged in case.items
                    if only is None or judged is only
                ],
            }
            for case in cases
        ],
        "broken": predicate["seal"]["broken"],
        "not_proven": predicate["not_proven"],
    }
