"""What a seal says of the libraries behind its contracts: overrides, and corpora."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from pytest_evarness.core import c1

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_evarness.contract.corpus import Corpus, CorpusResult
    from pytest_evarness.contract.model import Contract

__all__ = ["CorpusRow", "OverrideRow", "corpus_row", "override_rows"]


class OverrideRow(NamedTuple):
    """One definition that stands in the place of another.

    Attributes:
        definition, replaced: Digests of both definitions.
        origin, replaced_origin: The files they stand in.
    """

    id: str
    version: int
    definition: str
    origin: str
    replaced_version: int
    replaced: str
    replaced_origin: str


class CorpusRow(NamedTuple):
    """The corpus that a contract was tried by before it judged.

    Attributes:
        entries: How many.
        digest: Of what they say.
        failed: Labels of those that the contract got wrong.
    """

    id: str
    version: int
    origin: str
    entries: int
    digest: str
    failed: tuple[str, ...]


def override_rows(contract: Contract) -> Iterator[OverrideRow]:
    """Each override on the way from the lowest definition to this one."""
    chain = [*contract.replaced, contract]
    for below, above in itertools.pairwise(chain):
        yield OverrideRow(
            above.id,
            above.version,
            _digest(above),
            above.path,
            below.version,
            _digest(below),
            below.path,
        )


def corpus_row(contract: Contract, corpus: Corpus, results: Iterable[CorpusResult]) -> CorpusRow:
    """What a seal says of one corpus."""
    text = c1.text(
        [
            {
                "entry": entry.label,
                "events": [dict(event) for event in entry.events],
                "expect": entry.expect.word,
                "open": entry.open,
                "uncovered": sorted(entry.uncovered),
            }
            for entry in corpus.entries
        ]
    )
    failed = tuple(one.entry.label for one in results if one.problem is not None)
    return CorpusRow(
        contract.id,
        contract.version,
        contract.path,
        len(corpus.entries),
        c1.sha256_text(text),
        failed,
    )


def _digest(contract: Contract) -> str:
    return c1.sha256_text(c1.text(contract.definition()))
