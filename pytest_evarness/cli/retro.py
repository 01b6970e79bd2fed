"""``pytest-evarness retro``: today's contracts over yesterday's runs, beside the old verdict."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from pytest_evarness.cli.enclosed import Enclosed
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.history.retro import Again, CaseAgain

__all__ = ["HELP", "NAME", "add_arguments", "main"]

NAME = "retro"
HELP = "judge today's contracts over the runs of a bundle; the bundle stays as it is"

_LABEL = "RETROSPECTIVE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    from pytest_evarness.cli.enclosed import add_key_argument

    parser.add_argument("bundle", metavar="BUNDLE", help="a proof.json")
    parser.add_argument(
        "--contracts",
        nargs="+",
        required=True,
        metavar="CONTRACTS",
        help="folders or files of contracts, or ids of packaged contracts",
    )
    add_key_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def main(args: argparse.Namespace) -> int:
    """Judge again.

    Returns:
        0 when all pass, 1 when one fails (or a key was given and the bundle is not genuine), 3 when
        none fails but one is indeterminate, nothing decides, or the bundle is contradicted.

    Raises:
        InputError: No bundle, one that says otherwise than it encloses, or no contract (exit 2).
    """
    from pytest_evarness.cli.enclosed import add_up, open_bundle
    from pytest_evarness.cli.given import GivenContracts, exit_code
    from pytest_evarness.cli.session import write_error
    from pytest_evarness.core.registry import load_registry
    from pytest_evarness.history.retro import judge_again, types_of
    from pytest_evarness.report.judged import judged_cases

    path = Path(args.bundle)
    enclosed = open_bundle(path, args.key, judged_again=True)
    registry = load_registry()
    given = GivenContracts([str(word) for word in args.contracts], registry)
    with add_up(path):
        cases = judged_cases(enclosed.statement)
        types = types_of(cases)
    contracts = given.read(types)
    with add_up(path):
        again = judge_again(enclosed.statement, cases, contracts, registry)
    decided = [one.finding for case in again for one in case.again if one.decides]
    code = exit_code(decided)
    if all(case.outcome is None for case in again):
        code = 3  # nothing was judged, which is no pass
    if code == 0 and any(one.contradicts for case in again for one in case.again):
        code = 3  # what the bundle encloses does not give what it says
    if args.json:
        record = _record(enclosed, contracts, again, code)
        sys.stdout.write(json.dumps(record, indent=2, ensure_ascii=True) + "\n")
    else:
        lines = _text(args.bundle, enclosed, contracts, again, decided)
        sys.stdout.write("\n".join(lines) + "\n")
    for warning in given.warnings:
        write_error(f"warning: {warning}")
    return code


# -- text --------------------------------------------------------------------------------------


def _text(
    shown: str,
    enclosed: Enclosed,
    contracts: Sequence[Contract | Finding],
    again: Sequence[CaseAgain],
    decided: Sequence[Finding],
) -> Iterator[str]:
    from pytest_evarness.cli.given import summary
    from pytest_evarness.report.text import clean, one_line

    predicate = enclosed.statement["predicate"]
    yield (
        f"{_LABEL}: contracts of today over runs sealed {predicate['seal']['time']};"
        " the bundle and its own verdict stay as they are"
    )
    yield f"bundle {clean(shown)}, sha256 {enclosed.sha256}"
    yield enclosed.origin(shown, NAME)
    yield f"its own verdict: {_verdict(predicate['verdict'])}"
    yield ""
    yield "contracts of today:"
    for entry in contracts:
        yield f"  {one_line(_named(entry), 400)}"
    for case in again:
        yield ""
        yield f"--- {one_line(case.case.nodeid, 400)}"
        yield from _then(case)
        yield from _now(case)
    yield ""
    yield f"{_LABEL.lower()}: {summary(decided, len(again))}"
    contradicted = sum(one.contradicts for case in again for one in case.again)
    if contradicted:
        noun = "finding" if contradicted == 1 else "findings"
        yield (
            f"{contradicted} {noun} of the bundle contradicted: it does not say what its events"
            " give, so do not build on its own verdict"
        )


def _verdict(verdict: Mapping[str, Any]) -> str:
    from pytest_evarness.report.text import one_line

    word = {True: "holds", False: "does not hold", None: "undecided"}[verdict["holds"]]
    return f"{word}: {one_line(verdict['note'])}"


def _named(entry: Contract | Finding) -> str:
    from pytest_evarness.core.finding import Finding

    if isinstance(entry, Finding):
        return f"{entry.id}: cannot judge ({entry.reason})"
    place = f" ({entry.path}:{entry.line})" if entry.path else ""
    status = "" if entry.status == "active" else f", {entry.status}"
    return f"{entry.id}@{entry.version}{place}{status}"


def _then(case: CaseAgain) -> Iterator[str]:
    """What the bundle says, untouched."""
    from pytest_evarness.report.text import one_line

    if case.case.record is None:
        yield "then: did not run to a judgement"
        return
    yield f"then: {case.case.verdict}, run A ended {case.case.replica['status']}"
    for judged in case.case.items:
        assert judged.finding is not None, "a case that ran was judged"
        name = one_line(_then_id(judged.item.id, judged.item.version))
        reason = "" if judged.shows == "passed" else f": {one_line(judged.finding.reason)}"
        yield f"  {judged.shows:<13} {name}{reason}"


def _then_id(name: str, version: int | None) -> str:
    return name if version is None else f"{name}@{version}"


def _now(case: CaseAgain) -> Iterator[str]:
    from pytest_evarness.report.text import one_line
    from pytest_evarness.report.wording import causes_text, outcome_word

    outcome = case.outcome
    yield f"now: {'nothing decides' if outcome is None else outcome.word} ({_LABEL.lower()})"
    for one in case.again:
        finding = one.finding
        name = one_line(_then_id(finding.id, finding.version))
        draft = "" if one.decides else ", draft"
        causes = f" ({causes_text(finding.causes)})" if finding.causes else ""
        reason = one_line(finding.reason, 600)
        yield f"  {outcome_word(finding):<13} {name}{draft}{_change(one)}: {reason}{causes}"
        for seq in finding.witness.events:
            text = finding.witness.context.get(str(seq))
            shown = text if isinstance(text, str) else f"seq {seq}"
            yield f"    event: {one_line(shown, 400)}"
        for claim in finding.witness.absent:
            yield f"    absent: {one_line(claim, 400)}"


def _change(one: Again) -> str:
    if one.was is None or one.was.finding is None:
        return " (not judged then)"
    if one.contradicts:
        return (
            f" (then {one.was.shows}, CONTRADICTION: the same rule over the same events gives"
            " another outcome)"
        )
    same = {True: ", the same rule", False: ", another rule", None: ""}[one.same_rule]
    return f" (then {one.was.shows}{same})"


# -- JSON --------------------------------------------------------------------------------------


def _record(
    enclosed: Enclosed,
    contracts: Sequence[Contract | Finding],
    again: Sequence[CaseAgain],
    code: int,
) -> dict[str, Any]:
    predicate = enclosed.statement["predicate"]
    return {
        "retrospective": True,
        "exit": code,
        "bundle": {
            "sha256": enclosed.sha256,
            "seal": predicate["seal"]["digest"],
            "time": predicate["seal"]["time"],
            "verified": enclosed.keyid is not None,
            "keyid": enclosed.keyid,
            "judged_again": enclosed.not_judged_again is None,
            "verdict": predicate["verdict"],
        },
        "contracts": [_contract_record(entry) for entry in contracts],
        "cases": [_case_record(case) for case in again],
    }


def _contract_record(entry: Contract | Finding) -> dict[str, Any]:
    from pytest_evarness.core import c1
    from pytest_evarness.core.finding import Finding

    if isinstance(entry, Finding):
        return {"id": entry.id, "version": None, "definition": None, "problem": entry.reason}
    return {
        "id": entry.id,
        "version": entry.version,
        "definition": c1.sha256_text(c1.text(entry.definition())),
        "problem": None,
        "status": entry.status,
        "untested": entry.untested,
        "path": entry.path,
        "line": entry.line,
    }


def _case_record(case: CaseAgain) -> dict[str, Any]:
    then, outcome = case.case, case.outcome
    ran = then.record is not None
    return {
        "nodeid": then.nodeid,
        "then": {
            "verdict": then.verdict,
            "status": then.replica["status"] if ran else None,
            "primary": None if then.record is None else then.record["primary"],
            "findings": [
                judged.finding.as_record() for judged in then.items if judged.finding is not None
            ],
        },
        "now": {
            "outcome": None if outcome is None else outcome.word,
            "findings": [
                {
                    "decides": one.decides,
                    "then": None if one.was is None else one.was.shows,
                    "same_rule": one.same_rule,
                    "contradicts": one.contradicts,
                    "finding": one.finding.as_record(),
                }
                for one in case.again
            ],
        },
    }
