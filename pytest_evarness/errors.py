"""The error tree: one class for each thing a caller does differently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "CannotVerifyError",
    "DeterminismError",
    "EvarnessError",
    "Fault",
    "GraphFault",
    "InputError",
    "InputErrors",
    "UnverifiedError",
    "UsageError",
    "Where",
]


@dataclass(frozen=True, slots=True)
class Where:
    """A place in something a user wrote.

    Attributes:
        path: The file as the user would name it; None for inline text.
        line: Counted from 1; None where it is not known.
        column: Counted from 1; None where it is not known.
        field: The dotted path inside the document, such as ``budget.events``.
    """

    path: str | None = None
    line: int | None = None
    column: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        place = ":".join(
            str(part) for part in (self.path, self.line, self.column) if part is not None
        )
        return ": ".join(part for part in (place, self.field) if part)


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake in a value, before anybody knows in which file it stands.

    Attributes:
        path: Keys and indexes from the root of the value to the mistake.
        problem: What is wrong, lower case, no full stop.
        got: The value met, as it is to be shown; None where there is none to show.
        rule: What would have been right.
        fix: One thing to write instead, where one is obvious.
        at_key: True when the key itself is wrong rather than its value.
        code: A stable name of the rule for lint output.
    """

    path: tuple[str | int, ...]
    problem: str
    got: str | None = None
    rule: str | None = None
    fix: str | None = None
    at_key: bool = False
    code: str = "invalid"

    @property
    def text(self) -> str:
        """The sentence without its place: ``problem (got VALUE; RULE)``."""
        inner = "; ".join(
            part
            for part in (f"got {self.got}" if self.got is not None else None, self.rule)
            if part
        )
        return f"{self.problem} ({inner})" if inner else self.problem

    def under(self, *prefix: str | int) -> Fault:
        """The same fault seen from further up."""
        return Fault(
            (*prefix, *self.path),
            self.problem,
            self.got,
            self.rule,
            self.fix,
            self.at_key,
            self.code,
        )


@dataclass(frozen=True, slots=True)
class GraphFault(Fault):
    """A mistake between graph and environment that stands in the graph, where the path begins."""


class EvarnessError(Exception):
    """Root of the tree: catching it catches ours and nobody else's.

    Attributes:
        problem: What is wrong, with the value met and the rule.
        where: The place, where it is known.
        fix: One thing to do instead, where one is obvious.
    """

    def __init__(self, problem: str, *, where: Where | None = None, fix: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.where = where
        self.fix = fix

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only arguments are not part of Exception.args; process pools need them.
        return _rebuild, (type(self), self.problem, self.where, self.fix)

    def __str__(self) -> str:
        place = str(self.where) if self.where is not None else ""
        head = f"{place}: {self.problem}" if place else self.problem
        return head if self.fix is None else f"{head}\n  try: {self.fix}"


def _rebuild(
    kind: type[EvarnessError], problem: str, where: Where | None, fix: str | None
) -> EvarnessError:
    return kind(problem, where=where, fix=fix)


class UsageError(EvarnessError):
    """A command or option was called with words it does not take (exit 2)."""


class InputError(EvarnessError):
    """Something the user wrote cannot be used as it stands."""


class InputErrors(InputError):  # noqa: N818 - a group of errors
    """All mistakes of one file, in the order of their lines.

    Attributes:
        errors: At least one.
    """

    def __init__(self, errors: list[InputError]) -> None:
        assert errors, "a group of no errors is no error"
        super().__init__("\n".join(str(error) for error in errors))
        self.errors = tuple(errors)

    def __reduce__(self) -> tuple[Any, ...]:
        return InputErrors, (list(self.errors),)


class DeterminismError(EvarnessError):
    """A run touched something that a replay could not repeat."""


class UnverifiedError(EvarnessError):
    """The bundle was not shown to be genuine, for whatever reason."""


class CannotVerifyError(UnverifiedError):
    """The check itself could not be carried out (missing key, damaged file).

    It is a kind of ``UnverifiedError`` so that a caller who forgets it still fails closed.
    """
