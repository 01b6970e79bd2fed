"""A statement whose seal was changed, made to agree with it again."""

from __future__ import annotations

from typing import Any

from pytest_evarness.bundle.canonical import canonical_digest
from pytest_evarness.bundle.seal import binding_of
from pytest_evarness.bundle.statement import subjects_of

__all__ = ["resealed"]


def resealed(statement: dict[str, Any]) -> None:
    """Digest, subjects and bindings of what the seal holds now."""
    seal = statement["predicate"]["seal"]
    seal.pop("digest", None)
    seal["digest"] = canonical_digest(seal)
    statement["subject"] = subjects_of(seal)
    for case in statement["predicate"]["cases"]:
        for one in case["replicas"][0]["runs"]:
            one["binding"] = binding_of(
                seal["digest"], case["nodeid"], 0, one["label"], one["chain_digest"]
            )
