"""``pytest-evarness verify``: decide offline what a bundle shows."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evarness.errors import EvarnessError, UnverifiedError, UsageError
from pytest_evarness.report.text import clean, flat

if TYPE_CHECKING:
    import argparse

    from pytest_evarness.bundle.key import PublicKey
    from pytest_evarness.bundle.verify import Options, Report

__all__ = ["HELP", "NAME", "add_arguments", "main"]

NAME = "verify"
HELP = "verify a proof bundle offline"

WORDS = {"pass": "pass", "fail": "FAIL", "not_checked": "not checked"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    parser.add_argument("bundle", metavar="BUNDLE", help="a proof.json")
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="PUB",
        help="a public key you trust: a PEM file or 64 hex digits; repeatable",
    )
    parser.add_argument("--trust-dir", metavar="DIR", help="trust every *.pub in this folder")
    parser.add_argument(
        "--require-signature",
        action="store_true",
        help="say aloud what a pinned key asks for anyway",
    )
    parser.add_argument(
        "--expect",
        choices=("holds", "any"),
        default="holds",
        help="any: exit 0 for a genuine bundle whatever it says (default: %(default)s)",
    )
    parser.add_argument("--expect-commit", metavar="SHA", help="the commit it must name")
    parser.add_argument("--challenge", metavar="C", help="the challenge it must have sealed")
    parser.add_argument(
        "--rerun", action="store_true", help="execute the enclosed cases here, compare digests"
    )
    parser.add_argument(
        "--allow-code",
        action="store_true",
        help="with --rerun: also execute code that the bundle names",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def main(args: argparse.Namespace) -> int:
    """Verify and say what came out, step by step.

    Returns:
        0 verified and holds, 1 not genuine or does not hold, 2 wrong use, 3 genuine but pending or
        indeterminate, 4 consistent but of unknown origin.
    """
    from pytest_evarness.bundle.reading import read_bundle
    from pytest_evarness.bundle.verify import verify_bundle
    from pytest_evarness.core.registry import packaged_registry

    path = Path(args.bundle)
    try:
        options = _options(args)
        data = read_bundle(path)
        report = verify_bundle(data, options=options, registry=packaged_registry())
    except UsageError as error:
        sys.stderr.write(f"{clean(str(error))}\n")
        return 2
    except UnverifiedError as error:
        # The file itself is no bundle, so no step was taken.
        report = _no_bundle(error)
    text = json.dumps(report.as_record(), indent=2) + "\n" if args.json else _text(report, args)
    sys.stdout.write(text)
    return report.exit


def _options(args: argparse.Namespace) -> Options:
    from pytest_evarness.bundle.verify import Options

    keys = _keys(args)
    if args.require_signature and not keys:
        raise UsageError(
            "--require-signature without a pin asks for a signature by anybody at all",
            fix="add --key PUB or --trust-dir DIR",
        )
    if args.allow_code and not args.rerun:
        raise UsageError("--allow-code goes with --rerun")
    commit = args.expect_commit
    if commit is not None and not re.fullmatch(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}", commit):
        raise UsageError(f"--expect-commit: a full commit id (got '{commit}'; 40 or 64 hex digits)")
    if args.challenge is not None and not args.challenge:
        raise UsageError("--challenge: an empty challenge expects nothing")
    return Options(
        keys=tuple(keys),
        expect=args.expect,
        commit=commit,
        challenge=args.challenge,
        rerun=args.rerun,
        allow_code=args.allow_code,
    )


def _keys(args: argparse.Namespace) -> list[PublicKey]:
    from pytest_evarness.bundle.key import load_public_key, load_trust_dir
    from pytest_evarness.cli.enclosed import refuse_private_keys

    refuse_private_keys(args.key)
    try:
        keys = [load_public_key(word) for word in args.key]
        if args.trust_dir is not None:
            keys.extend(load_trust_dir(Path(args.trust_dir)))
    except UsageError:
        raise
    except EvarnessError as error:
        # A pin that proves nothing is the caller's mistake, not the bundle's.
        raise UsageError(f"--key: {error.problem}") from error
    return keys


def _no_bundle(error: UnverifiedError) -> Report:
    from pytest_evarness.bundle.verify import EXIT, STEPS, Report, Step

    steps = [Step(STEPS[0], "fail", error.problem)]
    steps += [Step(name, "not_checked", "a step before it failed") for name in STEPS[1:]]
    return Report("not_genuine", EXIT["not_genuine"], tuple(steps))


def _text(report: Report, args: argparse.Namespace) -> str:
    lines = [f"{WORDS[step.outcome]:<12} {step.step:<11} {step.detail}" for step in report.steps]
    lines.append("")
    if report.taken_on_word and report.result != "not_genuine":
        lines.append("taken on the signer's word:")
        lines.extend(f"  {text}" for text in report.taken_on_word)
        lines.append("")
    lines.extend(_conclusion(report, args))
    # What a stranger wrote must not reach the terminal as a command, or as a line of ours.
    return "".join(f"{flat(line)}\n" for line in lines)


def _conclusion(report: Report, args: argparse.Namespace) -> list[str]:
    if report.result == "not_genuine":
        failed = next(step for step in report.steps if step.outcome == "fail")
        return [f"NOT GENUINE: {failed.step}: {failed.detail}"]
    assert report.claim is not None, "a genuine bundle has a verdict"
    claim = report.claim
    counts = (
        f"{claim['valid']} valid, {claim['invalid']} invalid,"
        f" {claim['indeterminate']} indeterminate, {claim['pending']} pending"
    )
    if report.result == "unknown_origin":
        # Never "verified": a sender's own signature shows only that the sender can sign.
        return [
            "CONSISTENT, OF UNKNOWN ORIGIN: its parts agree, and nobody you trust vouches for it",
            f"it claims: {_claimed(claim)} ({counts})",
            f"  try: pytest-evarness verify {shlex.quote(args.bundle)} --key PUB",
        ]
    head = {
        "holds": "VERIFIED, HOLDS",
        "fails": "VERIFIED, DOES NOT HOLD",
        "pending": "VERIFIED, UNDECIDED",
    }[report.result]
    return [f"{head}: {claim['note']} ({counts})", f"signed by key {report.keyid}"]


def _claimed(claim: object) -> str:
    assert isinstance(claim, dict), "a verdict is a mapping"
    word = {True: "holds", False: "does not hold", None: "undecided"}[claim["holds"]]
    return f"{word}: {claim['note']}"
