"""``pytest-evarness slice``: the fewest events, and the smallest scenario, with one finding."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.errors import InputError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from pytest_evarness.cli.enclosed import Enclosed
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.history.refit import Refitted
    from pytest_evarness.history.slicing import Sliced, Target

__all__ = ["HELP", "NAME", "add_arguments", "main"]

NAME = "slice"
HELP = "cut a run of a bundle down to the fewest events with the same finding"

_ASKS_KEY = "running a case of a bundle needs a pinned key (--key PUB)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    from pytest_evarness.cli.enclosed import add_key_argument

    parser.add_argument("bundle", metavar="BUNDLE", help="a proof.json")
    parser.add_argument("target", metavar="CASE::INVARIANT", help="the finding")
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="write the slice there: a corpus, a trace, and where the case runs here a scenario",
    )
    add_key_argument(parser, "the scenario is cut down only then; ")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def main(args: argparse.Namespace) -> int:
    """Cut a finding down.

    Returns:
        0 where it was, 1 where a key was given and the bundle is not genuine.

    Raises:
        InputError: No bundle, nothing of that name, or a finding that no list of events shows
            (exit 2).
        UsageError: The folder is there already and holds something.
    """
    from pytest_evarness.cli.enclosed import add_up, open_bundle
    from pytest_evarness.cli.session import write_error
    from pytest_evarness.core.registry import load_registry
    from pytest_evarness.history.slicing import slice_events

    folder = None if args.output is None else _folder(args.output)
    path = Path(args.bundle)
    enclosed = open_bundle(path, args.key, judged_again=True)
    if enclosed.not_judged_again is not None:
        write_error(f"{args.bundle}: {enclosed.not_judged_again}")
    registry = load_registry()
    with add_up(path):
        target = _target(enclosed, args.target, registry)
        sliced = slice_events(target, registry)
    refitted, why_not = _refitted(enclosed, target)
    files = _files(enclosed, target, sliced, refitted, registry)
    if folder is not None:
        _write(folder, files)
    if args.json:
        record = _record(target, sliced, refitted, why_not)
        sys.stdout.write(json.dumps(record, indent=2, ensure_ascii=True) + "\n")
    else:
        lines = _text(target, sliced, refitted, why_not, args.output, files)
        sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _target(enclosed: Enclosed, word: str, registry: Registry) -> Target:
    from pytest_evarness.bundle.lookup import definition_texts
    from pytest_evarness.bundle.summary import declares_pause
    from pytest_evarness.core.run import trace_of
    from pytest_evarness.history.slicing import find_contract
    from pytest_evarness.report.explain import find_target
    from pytest_evarness.report.judged import judged_cases

    case, judged = find_target(judged_cases(enclosed.statement), word)
    if judged is None:
        raise InputError(
            f"a case was named, and no finding of it (got '{word}')",
            fix=f"write '{word}::{case.items[-1].item.id}'",
        )
    if case.record is not None and case.events is None:
        raise InputError(
            "the bundle encloses digests only, so there are no events to cut",
            fix="make it with --evarness-bundle-events=full",
        )
    seal = enclosed.statement["predicate"]["seal"]
    ends = declares_pause(case.planned, definition_texts(seal))
    status = "unfinished" if case.record is None else case.replica["status"]
    trace = trace_of(status, case.events or [], pause_is_end=ends)
    return find_contract(case, judged, registry, trace)


def _refitted(enclosed: Enclosed, target: Target) -> tuple[Refitted | None, str | None]:
    from pytest_evarness.bundle.lookup import texts_of
    from pytest_evarness.history.refit import CannotRunError, refit

    if enclosed.keyid is None:
        return None, _ASKS_KEY
    try:
        return refit(target, texts_of(enclosed.statement["predicate"])), None
    except CannotRunError as error:
        return None, error.why


# -- files -------------------------------------------------------------------------------------


def _folder(word: str) -> Path:
    folder = Path(word)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(
                f"-o: is there already and is not overwritten (got '{word}')",
                fix="name another folder",
            )
    except (OSError, ValueError) as error:
        raise UsageError(f"-o: is no folder to write to (got '{word}')") from error
    return folder


def _files(
    enclosed: Enclosed,
    target: Target,
    sliced: Sliced,
    refitted: Refitted | None,
    registry: Registry,
) -> dict[str, str]:
    """Name to text; what is written gives the finding again, which is tried here."""
    from pytest_evarness.history.entry import corpus_text, trace_text
    from pytest_evarness.history.refit import scenario_text, tools_text

    origin = (
        f"Cut from {target.judged.nodeid}, bundle sealed"
        f" {enclosed.statement['predicate']['seal']['time']}, sha256 {enclosed.sha256}."
    )
    files = {
        "corpus.yaml": corpus_text(target, sliced, origin=origin),
        "events.jsonl": trace_text(target, sliced),
    }
    _check_corpus(files["corpus.yaml"], registry)
    if refitted is not None:
        files["scenario.yaml"] = scenario_text(refitted, origin=origin)
        if refitted.tools:
            files["tools.yaml"] = tools_text(refitted, origin=origin)
    return files


def _check_corpus(text: str, registry: Registry) -> None:
    """The entry says of the contract what the bundle says.

    Raises:
        InputError: It does not, or cannot be read: an event is of a type that nobody here knows.
    """
    import tempfile

    from pytest_evarness.contract.corpus import evaluate_corpus
    from pytest_evarness.contract.library import read_library_file
    from pytest_evarness.source.mistake import raise_all

    with tempfile.TemporaryDirectory(prefix="evarness-slice-") as folder:
        path = Path(folder, "corpus.yaml")
        path.write_text(text, encoding="utf-8")
        file = read_library_file(path, registry, shown_as="corpus.yaml")
    if file.errors:
        raise_all(list(file.errors))
    for contract in file.contracts.values():
        assert contract.corpus is not None, "one entry was written"
        for result in evaluate_corpus(contract, contract.corpus, registry):
            if result.problem is not None:
                raise InputError(f"the slice cannot join a corpus: {result.problem}")


def _write(folder: Path, files: Mapping[str, str]) -> None:
    from pytest_evarness.bundle.store import write_atomically

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_atomically(folder / name, text.encode("utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"-o: {folder} cannot be written ({reason})") from error


# -- words -------------------------------------------------------------------------------------


def _text(
    target: Target,
    sliced: Sliced,
    refitted: Refitted | None,
    why_not: str | None,
    output: str | None,
    files: Mapping[str, str],
) -> Iterator[str]:
    from pytest_evarness.core.json import shown
    from pytest_evarness.report.text import clean, one_line
    from pytest_evarness.report.wording import causes_text, outcome_word

    finding = sliced.finding
    causes = f" ({causes_text(finding.causes)})" if finding.causes else ""
    yield f"{one_line(target.judged.nodeid, 400)}: {outcome_word(finding)}{causes}"
    yield f"  {one_line(finding.reason, 600)}"
    rest = "" if sliced.is_minimal else "; not the fewest, the bound on work was reached"
    yield f"events: {len(target.trace.events)} -> {len(sliced.events)} ({sliced.steps} steps{rest})"
    before, after = sliced.fields
    yield f"fields of their payloads: {before} -> {after}"
    if sliced.branches:
        yield f"  branches left out: {one_line(', '.join(sliced.branches), 600)}"
    for event, seq in zip(sliced.events, sliced.kept, strict=True):
        node = "-" if event["node_id"] is None else str(event["node_id"])
        number = "end" if seq is None else str(seq)
        payload = one_line(shown(event["payload"], 2000), 300)
        yield f"  {number:>4}  {one_line(event['type']):<20}  {one_line(node, 60):<8}  {payload}"
    if sliced.is_open:
        yield "  and no end: what follows could still decide it"
    if refitted is None:
        yield f"scenario: none, {one_line(why_not or '', 400)}"
    else:
        rest = "" if refitted.is_minimal else "; not the smallest, the bound on runs was reached"
        whole, left = refitted.nodes
        yield f"scenario: {whole} -> {left} nodes ({refitted.runs} runs{rest})"
    if output is not None:
        shown_files = ", ".join(sorted(files))
        yield f"wrote {clean(output)}: {shown_files}"
        yield (
            f"  try: pytest-evarness check {clean(output)}/events.jsonl --contracts"
            f" {clean(output)}/corpus.yaml"
        )
    else:
        yield "nothing was written; -o DIR writes it"


def _record(
    target: Target, sliced: Sliced, refitted: Refitted | None, why_not: str | None
) -> dict[str, Any]:
    from pytest_evarness.history.entry import entry_name, entry_of, kind_of

    return {
        "nodeid": target.judged.nodeid,
        "contract": {"id": target.contract.id, "version": target.contract.version},
        "outcome": sliced.finding.outcome.word,
        "events_before": len(target.trace.events),
        "events": [dict(event) for event in sliced.events],
        "kept": list(sliced.kept),
        "branches": list(sliced.branches),
        "fields": list(sliced.fields),
        "steps": sliced.steps,
        "is_minimal": sliced.is_minimal,
        "finding": sliced.finding.as_record(),
        "entry": {"kind": kind_of(sliced), "name": entry_name(target), **entry_of(sliced)},
        "scenario": None if refitted is None else refitted.scenario,
        "tools": None if refitted is None else list(refitted.tools),
        "why_no_scenario": why_not,
    }
