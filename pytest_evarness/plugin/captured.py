"""What pytest captured while a case ran, without the case's secrets.

A node's own ``print`` is masked when it prints; here it is what came by other ways: log records,
warnings, and what another program wrote to the descriptors.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import warnings

    import pytest

__all__ = ["report_without_secrets", "warning_without_secrets"]


def report_without_secrets(report: pytest.TestReport, names: Iterable[str]) -> None:
    """Replace every form of the values of ``names`` in the report's captured sections."""
    from pytest_evarness.core.secret import masker_of

    # A variable that is not set, or too short to be a secret, made its items errors before
    # anything ran.
    masker = masker_of(names, os.environ)
    if masker:
        report.sections = [(title, masker.text(text)) for title, text in report.sections]


def warning_without_secrets(message: warnings.WarningMessage, names: Iterable[str]) -> None:
    """Replace them in a warning; it keeps its category."""
    from pytest_evarness.core.secret import masker_of

    masker = masker_of(names, os.environ)
    told = str(message.message)
    masked = masker.text(told)
    if masked == told:
        return
    try:
        message.message = message.category(masked)
    except Exception:  # noqa: BLE001 - a category of somebody's own may take other arguments
        message.message = UserWarning(masked)
