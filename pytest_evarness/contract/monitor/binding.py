"""Keys of bindings: the values that the variables of a contract take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_evarness.contract.compile import Hit

__all__ = ["combinations", "products", "sorted_keys"]


def sorted_keys(keys: frozenset[Any]) -> list[Any]:
    """Keys in an order that no hash decides."""
    return sorted(keys, key=repr)


def combinations(choices: list[list[Any]]) -> Iterable[tuple[Any, ...]]:
    """One value of each choice, in their order."""
    from itertools import product

    return product(*choices)


def products(hit: Hit, count: int) -> Iterable[Any]:
    """Binding keys that a hit with candidate values satisfies."""
    for parts in combinations([sorted_keys(keys) for _, keys, _ in hit.wanted]):
        yield parts[0] if count == 1 else parts
