"""What the pytest door takes of the text rules that every report follows."""

from __future__ import annotations

from pytest_evarness.report.text import clean, first_line

__all__ = ["clean", "first_line"]
