"""Making many objects that stay: the collector of cycles would walk all of them again and again."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["bulk"]


@contextmanager
def bulk() -> Iterator[None]:
    """Let the collector rest; also a decorator.

    For code of ours alone that makes no cycles worth mentioning: a run of a node is none of it.
    Whoever had switched the collector off finds it off afterwards.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
