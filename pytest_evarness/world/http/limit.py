"""How much of a request is read and kept, and how long anything waits; see docs."""

from __future__ import annotations

from typing import Final

__all__ = [
    "HOLD_SECONDS",
    "IDLE_SECONDS",
    "MAX_BODY",
    "MAX_DELAY_MS",
    "MAX_JOURNAL",
    "MAX_KEPT",
    "MAX_REQUESTS",
    "MAX_WORKERS",
    "PAUSE_SECONDS",
    "REQUEST_SECONDS",
    "SETTLE_SECONDS",
]

MAX_KEPT: Final = 1 << 20
"""Bytes of one body in the journal; the digest is of the whole."""

MAX_BODY: Final = 64 << 20
"""Bytes of one body; a longer one is answered with 413."""

MAX_JOURNAL: Final = 64 << 20
"""Bytes of all bodies in one journal; of those that come later only the digest is kept."""

MAX_REQUESTS: Final = 20_000
"""Requests in one journal; those that come later are counted and answered with 503."""

MAX_DELAY_MS: Final = 10_000
MAX_WORKERS: Final = 32

PAUSE_SECONDS: Final = 5.0
"""The longest pause in the middle of a request."""

REQUEST_SECONDS: Final = 30.0
"""How long the whole of a request may take to arrive."""

IDLE_SECONDS: Final = 60.0
"""How long a connection may be open without a first byte."""

HOLD_SECONDS: Final = 60.0
"""How long a client is left without an answer where the answer is that none comes."""

SETTLE_SECONDS: Final = 45.0
"""How long requests in flight are waited for: one that arrives slowly and is answered late."""
