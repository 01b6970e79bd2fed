"""Warnings while a node of the user's own runs: shown, whatever filters somebody has set.

A filter that makes errors of warnings would decide in one process how a run goes, and not in the
other one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["same_warnings"]

# What comes whenever rubbish is collected, or a module is loaded for the first time.
_UNSTEADY = (ResourceWarning, ImportWarning)


@contextmanager
def same_warnings() -> Iterator[None]:
    """Every warning is shown and none is an error; what a node sets itself ends with it."""
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("always")
        for kind in _UNSTEADY:
            warnings.simplefilter("ignore", kind)
        yield
