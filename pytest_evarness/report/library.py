"""A contract library as a page: what each contract asserts, why, and what tested it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pytest_evarness.contract.corpus import KINDS
from pytest_evarness.contract.mutation import EntryMutants, Tally, mutate, tally
from pytest_evarness.core import c1
from pytest_evarness.report.text import clean, one_line

if TYPE_CHECKING:
    from pytest_evarness.contract.corpus import Corpus
    from pytest_evarness.contract.library import Library
    from pytest_evarness.contract.model import Contract

__all__ = ["assertion_yaml", "library_page"]

# What Markdown, or HTML within it, would take for more than text.
_MARKUP = re.compile(r"^[#+=[-]|[\\`*<>&|~]|\](?=[(\[])|(?<![^\W_])_|_(?![^\W_])")
_MAX_TEXT = 4000


def _text(words: str) -> str:
    """Words of a library as words of the page, on one line, whatever they look like."""
    return _MARKUP.sub(r"\\\g<0>", one_line(words, _MAX_TEXT))


def _code(name: str) -> str:
    """A name as code, also where it holds the sign that ends code, or a cell."""
    plain = one_line(name, _MAX_TEXT)
    fence = _fence(plain, 1)
    padded = f" {plain} " if "`" in plain else plain
    return f"{fence}{padded}{fence}".replace("|", "\\|")


def _fence(text: str, least: int) -> str:
    """More backticks than stand anywhere in a row in ``text``."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)


def assertion_yaml(contract: Contract) -> str:
    """The assertion as a file would write it."""
    import yaml

    # Through the canonical text: YAML knows no number that remembers its digits.
    plain = json.loads(c1.text(contract.body))
    text: str = yaml.safe_dump(
        _in_written_order(plain, contract.body), sort_keys=False, width=96, default_flow_style=None
    )
    return text.rstrip("\n")


def _in_written_order(plain: object, written: object) -> object:
    if isinstance(plain, dict) and isinstance(written, dict):
        return {key: _in_written_order(plain[key], written[key]) for key in written}
    if isinstance(plain, list) and isinstance(written, (list, tuple)):
        return [_in_written_order(one, other) for one, other in zip(plain, written, strict=True)]
    return plain


def library_page(library: Library, contracts: Sequence[Contract], head: str) -> str:
    """Markdown for a set of contracts; together they look at each mutant.

    Args:
        head: What stands before the first contract.

    Raises:
        InputError: A corpus cannot be read.
    """
    corpora = [(one, library.corpus_of(one)) for one in contracts]
    tested = [(one, corpus) for one, corpus in corpora if corpus is not None]
    made = mutate(tested, contracts, library.registry)
    parts = [head.rstrip("\n"), "", *_overview(contracts, made)]
    for contract, corpus in corpora:
        own = [one for one in made if one.contract == contract.id]
        parts += ["", *_section(contract, corpus, own)]
    return clean("\n".join(parts)) + "\n"


def _overview(contracts: Sequence[Contract], made: Sequence[EntryMutants]) -> list[str]:
    rows = [
        "| contract | severity | enforced by | mutants | noticed | | as good | a gap |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for contract in contracts:
        counts = tally([one for one in made if one.contract == contract.id])
        enforced = ", ".join(map(_text, contract.enforced_by)) or "-"
        name = f"[`{contract.id}`](#{contract.id})"
        rows.append(
            f"| {name} | {contract.severity.value} | {enforced} | {counts.total} |"
            f" {_numbers(counts)} |"
        )
    counts = tally(made)
    rows.append(f"| all | | | {counts.total} | {_numbers(counts)} |")
    return rows


def _numbers(counts: Tally) -> str:
    share = f"{100 * counts.noticed // counts.total} %" if counts.total else ""
    return f"{counts.noticed} | {share} | {counts.as_good} | {counts.admitted + counts.bare}"


def _section(contract: Contract, corpus: Corpus | None, made: Sequence[EntryMutants]) -> list[str]:
    lines = [f"## {contract.id}", ""]
    if contract.description or contract.title:
        lines += [_text(contract.description or contract.title), ""]
    assertion = assertion_yaml(contract)
    fence = _fence(assertion, 3)
    lines += [f"{fence}yaml", assertion, fence, ""]
    facts = {
        "version": f"{contract.version}, {contract.status}"
        + ("" if contract.gate else ", no gate"),
        "history": "; ".join(_changes(contract)),
        "owner": _text(contract.owner),
        "rationale": _text(contract.rationale),
        "threat": _text(contract.threat),
        "applies to": ""
        if contract.applies_to is None
        else _text(json.dumps(contract.applies_to.as_json())),
        "needs": ", ".join(_code(name) for name in sorted(contract.required_types)),
    }
    lines += ["| | |", "| --- | --- |"]
    lines += [f"| {word} | {text} |" for word, text in facts.items() if text]
    for kind in KINDS if corpus is not None else ():
        names = ", ".join(_code(entry.name) for entry in corpus.of_kind(kind)) if corpus else ""
        lines.append(f"| {kind} | {names or 'none'} |")
    return lines + _mutants(made)


def _changes(contract: Contract) -> Iterator[str]:
    """What each version changed, the newest first."""
    entries: list[Any] = list(contract.history)
    for one in sorted(entries, key=lambda one: -int(one["version"])):
        date = f" ({_text(one['date'])})" if "date" in one else ""
        change = f": {_text(one['change'])}" if "change" in one else ""
        yield f"{one['version']}{date}{change}"


def _mutants(made: Sequence[EntryMutants]) -> list[str]:
    counts = tally(made)
    if not counts.total:
        return []
    if counts.noticed == counts.total:
        every = "The only mutant" if counts.total == 1 else f"All {counts.total} mutants"
        verb = "is" if counts.total == 1 else "are"
        return ["", f"{every} of its positive entries {verb} noticed.", *_unread(made)]
    of_them = f"{counts.noticed} of the {counts.total} mutants of its positive entries"
    lines = ["", f"{of_them} are noticed. The others:", ""]
    lines += ["| mutant | | why nobody notices it |", "| --- | --- | --- |"]
    for entry in made:
        for mutant in entry.mutants:
            if not mutant.is_noticed:
                word = "as good" if mutant.is_as_good else "a gap"
                why = _text(mutant.why or "no note says why")
                name = f"{_code(entry.entry.name)} {_code(mutant.name)}"
                lines.append(f"| {name} | {word} | {why} |")
    return lines + _unread(made)


def _unread(made: Sequence[EntryMutants]) -> list[str]:
    unread = sorted({name for one in made for name in one.unchanged.unread})
    if not unread:
        return []
    return ["", f"No contract of the library reads {', '.join(map(_code, unread))}."]
