"""``python -m pytest_evarness.cli`` is ``pytest-evarness``."""

import sys

from pytest_evarness.cli import main

sys.exit(main())
