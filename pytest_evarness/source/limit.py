"""How much of a document is read before it is refused; said in docs/scenarios.md."""

from __future__ import annotations

__all__ = ["MAX_ALIAS_NODES", "MAX_ALIAS_TEXT", "MAX_BYTES", "MAX_DEPTH", "MAX_MISTAKES"]

MAX_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 100
MAX_MISTAKES = 200  # told of one file; the first ones are the ones that help
MAX_ALIAS_NODES = 100_000
MAX_ALIAS_TEXT = 64 * 1024 * 1024  # characters that aliases repeat; nodes alone would not bound it
