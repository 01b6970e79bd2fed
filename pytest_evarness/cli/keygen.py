"""``pytest-evarness keygen``: make a key pair for signing bundles."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evarness.report.text import flat

if TYPE_CHECKING:
    import argparse

__all__ = ["HELP", "NAME", "add_arguments", "main"]

NAME = "keygen"
HELP = "make an Ed25519 key pair for signing bundles"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    parser.add_argument(
        "path",
        nargs="?",
        default="evarness-signing.pem",
        metavar="PATH",
        help="private key to write (default: %(default)s); the public one goes to PATH.pub",
    )


def main(args: argparse.Namespace) -> int:
    """Make the pair; never overwrites.

    Returns:
        0, or 2 where one of the two files exists or cannot be written.
    """
    from pytest_evarness.bundle.key import make_key

    path = Path(args.path)
    shown = flat(str(path))
    try:
        key = make_key(path)
    except FileExistsError as error:
        sys.stderr.write(
            f"{flat(str(error.filename or path))}: exists already and is not overwritten\n"
        )
        return 2
    except OSError as error:
        sys.stderr.write(f"{shown}: cannot be written ({error.strerror or error})\n")
        return 2
    sys.stdout.write(
        f"{shown}: private key, keep it to yourself\n"
        f"{shown}.pub: public key, give it to whoever verifies\n"
        f"key id: {key.keyid}\n"
    )
    return 0
