"""Secrets that stand in the texts a case is compiled from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.secret import MIN_LENGTH, Masker
from pytest_evarness.errors import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Leaks", "leak_fault"]

Path_ = tuple[str | int, ...]


class Leaks:
    """Looks for the values of secrets, in every form that is masked; once in what cases share."""

    def __init__(self) -> None:
        self._maskers: dict[str, Masker | None] = {}
        # Kept alive, so that no identity is given out twice.
        self._without: dict[tuple[str, int], object] = {}

    def find(self, name: str, value: Any) -> Path_ | None:
        """Where ``value`` holds the secret; None where it does not, or the secret is not known.

        A variable that is not set, or too short to be masked, is told when the case runs.
        """
        masker = self._masker(name)
        if masker is None or (name, id(value)) in self._without:
            return None
        found = masker.find(value)
        if found is None and isinstance(value, dict | list):
            self._without[(name, id(value))] = value
        return found

    def in_case(self, name: str, merged: Mapping[str, Any]) -> Iterator[Path_]:
        """Where a merged case holds the secret, once for each value of its sections."""
        if self._masker(name) is None:
            return
        for key, section in merged.items():
            if not isinstance(section, dict):
                found = self.find(name, section)
                if found is not None:
                    yield (key, *found)
                continue
            if self.find(name, tuple(section)) is not None:
                yield (key,)
            for inner, value in section.items():
                found = self.find(name, value)
                if found is not None:
                    yield (key, inner, *found)

    def masked(self, name: str, text: str) -> str:
        """``text`` without the secret."""
        masker = self._masker(name)
        return text if masker is None else masker.text(text)

    def _masker(self, name: str) -> Masker | None:
        if name not in self._maskers:
            value = os.environ.get(name, "")
            self._maskers[name] = Masker({name: value}) if len(value) >= MIN_LENGTH else None
        return self._maskers[name]


def leak_fault(name: str, path: Path_, what: str = "") -> Fault:
    """The fault for a text that holds a secret; its value is not shown."""
    return Fault(
        path,
        f"{what} holds the value of the secret '{name}'".lstrip(),
        rule="what a case is compiled from is sealed as it is written",
        fix="write another value, and let the harness read the secret itself",
    )
