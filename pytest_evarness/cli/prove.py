"""``pytest-evarness prove``: a whole session without pytest, with the same seal and bundle."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.errors import InputError, UsageError

if TYPE_CHECKING:
    import argparse

    from pytest_evarness.pipeline import CaseResult, Engine, Settings, Written

__all__ = ["HELP", "NAME", "add_arguments", "main"]

NAME = "prove"
HELP = "run a scenario's cases twice, judge them, and write a proof bundle"

EXIT = {True: 0, False: 1, None: 3}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    from pytest_evarness.cli.session import add_diagnose_argument, add_project_arguments

    parser.add_argument(
        "source", metavar="SCENARIO|pattern:NAME", help="a scenario file, or a packaged pattern"
    )
    parser.add_argument(
        "--case", metavar="C", help="plan this case alone (with all points of its matrix)"
    )
    parser.add_argument(
        "--approve",
        action="append",
        default=[],
        metavar="N=approve",
        help="the decision at gate N: approve or reject; repeatable",
    )
    add_diagnose_argument(parser)
    parser.add_argument("--executor", metavar="E", help="not in this version")
    parser.add_argument("--key", metavar="PATH", help="signing key (default: as pytest chooses it)")
    parser.add_argument("--unsigned", action="store_true", help="sign nothing")
    parser.add_argument(
        "-o", "--output", metavar="PATH", help="the bundle (default: ROOT/.evarness/proof.json)"
    )
    parser.add_argument(
        "--rerun",
        choices=("mirror", "inline"),
        default="mirror",
        help="where run B happens (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    add_project_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Prove the cases.

    Returns:
        0 holds, 1 does not hold, 2 wrong use or input, 3 pending or indeterminate.
    """
    from pytest_evarness.cli.session import (
        PATTERN,
        build_settings,
        check_diagnose,
        load_cases,
        own_output_apart,
        parse_decisions,
        tell_broken_plugins,
        write_error,
    )
    from pytest_evarness.pipeline import prove

    _check(args)
    decisions = parse_decisions(args.approve)
    files = [] if args.source.startswith(PATTERN) else [Path(args.source)]
    settings = build_settings(args, files, rerun=args.rerun, diagnose=args.diagnose)
    engine, cases = load_cases(settings, args.source, args.case, decisions)
    check_diagnose(args, [case for _, case in cases])
    tell_broken_plugins(engine)
    for error in engine.library.errors:
        # A contract that cannot be read might have been for one of the cases.
        write_error(str(error))
    misspelt = _misspelt(settings, engine)
    for error in misspelt:
        write_error(str(error))
    told = set(map(str, misspelt))
    unmet = [text for text in map(str, engine.library.unmet()) if text not in told]
    for text in (*unmet, *engine.unread_libraries(files)):
        write_error(f"warning: {text}")
    done: list[tuple[str, CaseResult]] = []
    with engine, own_output_apart():
        try:
            publisher = _publisher(args, settings, engine)
            written = prove(
                engine,
                cases,
                publisher,
                on_case=lambda nodeid, one: done.append((nodeid, one)),
                on_trouble=lambda nodeid, error: write_error(f"{nodeid}: {error}"),
                misspelt=misspelt,
            )
        except OSError as broken:
            name = broken.filename or args.output or settings.root
            problem = f"{name}: cannot be written ({broken.strerror or broken})"
            raise UsageError(problem) from broken
    code = EXIT[written.holds]
    text = _json(written, done, code) if args.json else _text(written, done, settings.root)
    sys.stdout.write(text)
    return code


def _misspelt(settings: Settings, engine: Engine) -> list[InputError]:
    """Contracts for a tool by a name that nearly is one of a tool, and is that of no scenario.

    A whole session refuses these. A tool may be that of a scenario which is not proved here, so
    where a name is in doubt the others of the project are read too; where one of them does not
    load, nobody can tell, and it stays a warning.
    """
    from pytest_evarness.pipeline import Engine
    from pytest_evarness.scenario.collect import find_scenarios

    # One of ~/.evarness may be for the tools of another project.
    found = [
        error
        for error in engine.library.misspelt()
        if error.where is not None and (settings.root / (error.where.path or "")).is_file()
    ]
    folder = settings.root / "scenarios"
    if not found or not folder.is_dir():
        return found
    other = Engine(settings)
    try:
        for path in find_scenarios(folder):
            other.load(path)
    except InputError:
        return []
    still = {str(error.where) for error in other.library.misspelt()}
    return [error for error in found if str(error.where) in still]


def _check(args: argparse.Namespace) -> None:
    if args.executor is not None:
        raise UsageError(f"--executor is not in this version (got '{args.executor}')")
    if args.unsigned and args.key is not None:
        raise UsageError("--unsigned and --key: only one of them")
    if args.key is not None and not Path(args.key).is_file():
        # Never a new key: whoever names one wants that one.
        raise UsageError(f"--key: no such file (got '{args.key}')", fix="make it with 'keygen'")
    if args.output is not None and (Path(args.output).is_dir() or not Path(args.output).name):
        raise UsageError(f"-o: must name a file (got the folder '{args.output}')")


def _publisher(args: argparse.Namespace, settings: Settings, engine: Any) -> Any:
    from pytest_evarness.bundle.store import Store
    from pytest_evarness.pipeline import Publisher

    bundle = Store.default_bundle(settings.root)
    if args.output is not None:
        bundle = Path(args.output).absolute()
    return Publisher(
        Store.open(settings.root, bundle=bundle),
        registry=engine.registry,
        root=settings.root,
        rerun=settings.rerun,
        mode=settings.mode,
        diagnose=settings.diagnose,
        key=None if args.key is None else Path(args.key),
        unsigned=args.unsigned,
        home=settings.home,
    )


def _text(written: Written, done: list[tuple[str, CaseResult]], root: Path) -> str:
    from pytest_evarness.core.outcome import Outcome
    from pytest_evarness.core.raised import own_place
    from pytest_evarness.report.graded import despite_lines, remarks_on
    from pytest_evarness.report.text import clean, one_line
    from pytest_evarness.report.wording import causes_text, outcome_word

    lines = []
    for wanted in ("invalid", "indeterminate", "valid"):
        for nodeid, result in done:
            judgement = result.judgement
            if judgement.verdict != wanted:
                continue
            lines.append(f"{wanted.upper()} {one_line(nodeid)} (run A ended {result.run_a.status})")
            for finding in judgement.findings:
                if finding.outcome is not Outcome.PASS and finding.kind != "score":
                    mark = "*" if finding.id == judgement.primary else " "
                    # Whether we broke, or what of the evidence was not there, is other repair work.
                    causes = f" ({causes_text(finding.causes)})" if finding.causes else ""
                    lines.append(
                        f" {mark} {outcome_word(finding):<13} {one_line(finding.id)}:"
                        f" {one_line(finding.reason, 600)}{causes}"
                    )
                    place = own_place(result.run_a.raised, root)
                    if finding.kind == "expect" and place is not None:
                        lines.append(f"     raised at {one_line(place, 400)}")
                    remarks = remarks_on(finding.id, judgement.findings)
                    lines.extend(f"     {remark}" for remark in remarks)
            if wanted == "invalid":
                composite = judgement.composite
                record = None if composite is None else composite.as_record()
                lines.extend(f"   {line}" for line in despite_lines(judgement.findings, record))
            # No number stands beside a hard verdict that is not "valid".
            if judgement.composite is not None and wanted == "valid":
                lines.append(f"   quality {judgement.composite}")
    lines.extend(clean(line) for line in written.lines)
    return "\n".join(lines) + "\n"


def _json(written: Written, done: list[tuple[str, CaseResult]], code: int) -> str:
    predicate = written.statement["predicate"]
    record = {
        "holds": written.holds,
        "exit": code,
        "bundle": str(written.path),
        "seal": predicate["seal"]["digest"],
        "verdict": predicate["verdict"],
        "cases": [
            {
                "nodeid": nodeid,
                "verdict": result.judgement.verdict,
                "status": result.run_a.status,
                "primary": result.judgement.primary,
                "composite": None
                if result.judgement.composite is None
                else result.judgement.composite.as_record(),
                "findings": [
                    {
                        "id": finding.id,
                        "outcome": finding.outcome.word,
                        "causes": [str(cause.value) for cause in finding.causes],
                        "vacuous": finding.vacuous,
                        "reason": finding.reason,
                    }
                    for finding in result.judgement.findings
                ],
            }
            for nodeid, result in done
        ],
        "not_proven": list(predicate["not_proven"]),
    }
    return json.dumps(record, indent=2, ensure_ascii=True) + "\n"
