"""What the pytest door takes of the text rules that every report follows."""

from __future__ import annotations

from pytest_evarness.report.text import bounded, clean, first_line, one_line

__all__ = ["bounded", "clean", "first_line", "one_line"]
