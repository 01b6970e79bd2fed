"""Which words betray a class, and which tiers there are, where a scenario does not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, Field

from pytest_evarness.core.disguise import one_line
from pytest_evarness.domains.agents.environment.tier import parse_tiers
from pytest_evarness.domains.agents.layer import Layered, load_overlay, packaged
from pytest_evarness.domains.agents.text import plain
from pytest_evarness.errors import Fault
from pytest_evarness.source.model import Strict, parse_model, refuse, unknown_key
from pytest_evarness.source.quote import shown

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Locations, Overlay
    from pytest_evarness.core.json import Json, JsonObject

__all__ = ["load_wording", "tiers_of", "words_of"]


def _seen(word: str) -> str:
    if not one_line(word):
        # Its plain form is empty, and would stand at the beginning of every text.
        raise refuse("nothing of the word is seen", rule="at least one character that is")
    return word


_Word = Annotated[str, Field(pattern=r"\S", max_length=200), AfterValidator(_seen)]


class _Words(Strict):
    internal: list[_Word] = Field(default_factory=list)
    personal: list[_Word] = Field(default_factory=list)
    secret: list[_Word] = Field(default_factory=list)


def _root(value: Json, key: str) -> tuple[Any, list[Fault]]:
    if not isinstance(value, Mapping):
        fault = Fault((), "must be a mapping", got=shown(value), rule=f"with the key '{key}'")
        return None, [fault]
    faults = [unknown_key((), name, [key]) for name in value if name != key]
    if key not in value:
        faults.append(Fault((), "has no such key", rule=f"the key '{key}'"))
    return value.get(key), faults


def _parse_words(value: Json) -> tuple[Any, list[Fault]]:
    inner, faults = _root(value, "classification")
    if faults:
        return {}, faults
    found = parse_model(_Words, inner)[1]
    return plain(inner), [fault.under("classification") for fault in found]


def _parse_tiers(value: Json) -> tuple[Any, list[Fault]]:
    inner, faults = _root(value, "tiers")
    if faults:
        return {}, faults
    tiers, found = parse_tiers(inner)
    return tiers, [fault.under("tiers") for fault in found]


_WORDS: Final = Layered("classification", _parse_words, lambda below, above: {**below, **above})
# A tier that a project does not name must not be where its texts go.
_TIERS: Final = Layered("tiers", _parse_tiers, lambda below, above: above)


def load_wording(locations: Locations) -> tuple[Overlay, ...]:
    """Words of each class, where a layer replaces a class whole; tiers, where it replaces all."""
    return load_overlay(_WORDS, locations), load_overlay(_TIERS, locations)


def words_of(overlays: JsonObject) -> Mapping[str, list[str]]:
    """The words of each class."""
    found: Any = overlays.get(_WORDS.name)
    return dict(packaged(_WORDS)[0] if found is None else found)


def tiers_of(environment: JsonObject, overlays: JsonObject) -> Mapping[str, Mapping[str, Any]]:
    """The tiers of a case: the scenario's own, else those of the overlay."""
    found: Any = environment.get("tiers")
    if found is None:
        found = overlays.get(_TIERS.name)
    return dict(packaged(_TIERS)[0] if found is None else found)
