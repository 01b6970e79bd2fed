"""What plug-ins add to the nodes of this domain: chain rules, classifiers, redaction rules.

Each is a pure function of a text, so it cannot speak for a gate, and the second run shows whether
it answers alike. Its name holds a dot (``acme.iban``), so no later version of ours takes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from pytest_evarness.core.registry import Registry

__all__ = [
    "CLASSIFIER",
    "INTERCEPTOR_RULE",
    "REDACTION_RULE",
    "Classified",
    "Classifier",
    "RedactionRule",
    "TextRule",
    "declare_extensions",
]

INTERCEPTOR_RULE: Final = "agents.interceptor_rule"
CLASSIFIER: Final = "agents.classifier"
REDACTION_RULE: Final = "agents.redaction_rule"

TextRule: TypeAlias = Callable[[str], str]
"""``rule(text) -> text`` of a chain; it raises ``NodeBlocked`` for a text that must not go on."""

RedactionRule: TypeAlias = Callable[[str], Iterable[tuple[int, int]]]
"""``rule(text)`` -> start and end of each datum, in order and apart from each other."""


@dataclass(frozen=True, slots=True)
class Classified:
    """What a classifier says of one text.

    Attributes:
        classification: ``public``, ``internal``, ``personal`` or ``secret``.
        signals: Why, as names; what was found must not stand in them.
    """

    classification: str
    signals: tuple[str, ...] = field(default=())


Classifier: TypeAlias = Callable[[str], Classified]
"""``classifier(text) -> Classified``."""

_FORMS: Final = {
    INTERCEPTOR_RULE: "rule(text) -> text",
    CLASSIFIER: "classifier(text) -> Classified",
    REDACTION_RULE: "rule(text) -> spans",
}


def declare_extensions(registry: Registry) -> None:
    """Offer the tables to plug-ins, which reach them by ``registry.extensions(KIND)``."""
    for kind, form in _FORMS.items():
        registry.extensible(kind, _look(form))


def _look(form: str) -> Callable[[str, object], str | None]:
    def look(name: str, part: object) -> str | None:
        if "." not in name:
            return f"a name of a plug-in's own holds a dot (got '{name}'; such as acme.{name})"
        if not callable(part) or isinstance(part, type):
            return f"must be a function (got {type(part).__name__}; {form})"
        try:
            inspect.signature(part).bind(None)
        except (TypeError, ValueError):
            return f"must take one text (got '{getattr(part, '__name__', 'function')}'; {form})"
        return None

    return look
