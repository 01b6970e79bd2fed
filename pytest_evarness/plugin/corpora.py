"""Items of a contract library: one for each entry of each corpus.

Source: docs/contracts.md, "Corpora".
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.plugin.text import bounded, clean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_evarness.contract.corpus import CorpusResult
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.plugin.state import SessionState

__all__ = ["ContractCollector", "CorpusItem"]

TEXT_LIMIT = 8000


class EntryFailed(Exception):  # noqa: N818 - shown to nobody
    """Carries the text of an entry that its contract got wrong to ``repr_failure``."""


class ContractCollector(pytest.Collector):
    """One contract of a library: its children are the entries of its corpus."""

    def __init__(self, *, contract: Contract, state: SessionState, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.contract = contract
        self.state = state

    def collect(self) -> Iterator[pytest.Item]:
        """One item for each entry, in the order of the file."""
        corpus = self.contract.corpus
        for index, entry in enumerate(corpus.entries if corpus is not None else ()):
            yield CorpusItem.from_parent(
                self, name=entry.label, contract=self.contract, index=index, state=self.state
            )


class CorpusItem(pytest.Item):
    """One entry of a corpus: the contract says of it what it has to say."""

    def __init__(
        self, *, contract: Contract, index: int, state: SessionState, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.contract = contract
        self.index = index
        self.state = state
        self.payload: dict[str, Any] | None = None
        self.add_marker("evarness")
        self.add_marker(pytest.mark.evarness_contract(id=contract.id))

    @cached_property
    def result(self) -> CorpusResult:
        """What the contract said; all entries of a contract are judged at once."""
        return self.state.engine.library.corpus_results(self.contract)[self.index]

    def runtest(self) -> None:
        """Raise what the contract got wrong."""
        problem = self.result.problem
        text = "" if problem is None else bounded(self._text(problem), TEXT_LIMIT, whole="no more")
        self.payload = {
            "how": "pass" if problem is None else "fail",
            "category": None,
            "text": text,
        }
        self.user_properties.append(("evarness.outcome", self.result.finding.outcome.word))
        self.user_properties.append(("evarness.contract", self.contract.name))
        if problem is not None:
            raise EntryFailed(text)

    def _text(self, problem: str) -> str:
        place = f"{self.contract.path}:{self.contract.line}"
        lines = [problem, f"  contract: {self.contract.name} ({place})"]
        lines += [f"  event {seq}" for seq in self.result.finding.witness.events]
        lines.append("  until this is put right the contract judges nothing")
        return clean("\n".join(lines))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A failed entry is its own text; everything else is shown in full."""
        if isinstance(excinfo.value, EntryFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """File and line of the entry; a dot of an id would end up as ``::`` in the terminal."""
        name = f"{self.contract.id}::{self.name}"
        return self.path, max(self._line() - 1, 0), name.replace(".", "-")

    def _line(self) -> int:
        file = self.state.engine.library.file_at(self.path)
        corpus = self.contract.corpus
        if file is None or corpus is None:
            return self.contract.line
        entry = corpus.entries[self.index]
        path = (file.top, self.contract.id, "corpus", entry.kind, entry.name)
        return file.document.where(path, at_key=True).line or self.contract.line
