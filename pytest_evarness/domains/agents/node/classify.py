"""Says what a text holds, and arms the egress gate with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from pytest_evarness.core.disguise import one_line
from pytest_evarness.domains.agents.egress import Egress
from pytest_evarness.domains.agents.extension import CLASSIFIER, Classified
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.node.route import has_word
from pytest_evarness.domains.agents.overlay import words_of
from pytest_evarness.domains.agents.personal import kinds_in
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import joined
from pytest_evarness.domains.agents.vocabulary import CLASSIFICATIONS
from pytest_evarness.source.model import Strict

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context

__all__ = ["CLASSIFIERS", "DATA_CLASSIFIER"]


class _DataClassifier(Strict):
    classifier: Annotated[str, Field(min_length=1)] = "keyword"
    egress: Literal["enforce", "warn", "off"] = "enforce"


def _keyword(text: str, context: Context) -> Classified:
    """The highest class of which the text holds a sign; every sign of every class is told."""
    words = words_of(context.overlays)
    plain = one_line(text)
    signals = {
        level: [
            f"{level}:{word}" for word in words.get(level, ()) if has_word(plain, one_line(word))
        ]
        for level in CLASSIFICATIONS[1:]
    }
    signals["personal"] += [f"personal:{kind}" for kind in kinds_in(text)]
    highest = max((level for level in signals if signals[level]), key=_rank, default="public")
    return Classified(highest, tuple(sorted(one for signs in signals.values() for one in signs)))


def _rank(classification: str) -> int:
    return CLASSIFICATIONS.index(classification)


CLASSIFIERS: Final[Mapping[str, Callable[[str, Context], Classified]]] = {"keyword": _keyword}
"""The packaged classifiers; plug-ins add theirs as extensions ``agents.classifier``."""


def _classified(text: str, name: str, context: Context) -> Classified:
    packaged = CLASSIFIERS.get(name)
    if packaged is not None:
        return packaged(text, context)
    made: object = state_of(context).extension(CLASSIFIER, name)(text)
    if (
        isinstance(made, Classified)
        and made.classification in CLASSIFICATIONS
        and all(isinstance(signal, str) for signal in made.signals)
    ):
        return made
    # An answer that nobody can read must not pass for 'public'.
    raise ValueError(
        f"classifier '{name}' gave no class (got {type(made).__name__};"
        f" Classified with one of {', '.join(CLASSIFICATIONS)})"
    )


def _data_classifier(
    inputs: Mapping[str, list[Any]], config: _DataClassifier, context: Context
) -> str:
    text = joined(inputs.get("in", []))
    made = _classified(text, config.classifier, context)
    egress = state_of(context).part(Egress)
    egress.classify(made.classification, config.egress)
    if config.egress != "off":
        egress.classifiers[config.classifier] = partial(
            _classified, name=config.classifier, context=context
        )
    context.emit(
        "content_classified",
        {
            "classification": made.classification,
            "signals": list(made.signals),
            "run_classification": egress.classification,
        },
    )
    return text


DATA_CLASSIFIER = declare(
    "data_classifier",
    "Classifies a text and arms the egress gate.",
    _DataClassifier,
    _data_classifier,
    inputs={"in": "text"},
    output="text",
    emits=("content_classified",),
)
