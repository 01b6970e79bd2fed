"""Faults with their places become errors; several of them one group."""

from __future__ import annotations

from pytest_evarness.errors import Fault, InputError, InputErrors, Where

__all__ = ["as_error", "raise_all"]


def as_error(fault: Fault, where: Where) -> InputError:
    """A fault and its place as an error."""
    return InputError(fault.text, where=where, fix=fault.fix)


def raise_all(errors: list[InputError]) -> None:
    """Raise all of ``errors`` in the order of their lines, each text once.

    Raises:
        InputError: There is one.
        InputErrors: There are several.
    """
    unique: dict[str, InputError] = {}
    for error in errors:
        for single in error.errors if isinstance(error, InputErrors) else (error,):
            unique.setdefault(str(single), single)
    if not unique:
        return
    if len(unique) == 1:
        raise next(iter(unique.values()))
    raise InputErrors(sorted(unique.values(), key=_in_file_order))


def _in_file_order(error: InputError) -> tuple[str, int, int]:
    where = error.where or Where()
    return (where.path or "", where.line or 0, where.column or 0)
