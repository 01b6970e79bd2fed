"""Secrets in what a run emits: every known form of their values becomes a placeholder."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_evarness.errors import InputError, Where

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MIN_LENGTH", "Masker", "masker_of", "placeholder", "read_secrets"]

MIN_LENGTH = 4
"""A shorter value would be replaced all over the place, and could be guessed from where it was."""

_CUT = "…"
# A character of four bytes as %25F0%259F%2598%2580; what is longer was escaped once more.
_GROWTH = 20

_SHORT_ESCAPES = {
    "\n": "n",
    "\r": "r",
    "\t": "t",
    "\b": "b",
    "\f": "f",
    '"': '"',
    "'": "'",
    "/": "/",
}
_ENTITIES = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}
_BASE64_TO_URL = str.maketrans("+/", "-_")


def placeholder(name: str) -> str:
    """What stands where the value of ``name`` stood."""
    return f"«secret:{name}»"


def read_secrets(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The values of ``names``.

    Raises:
        InputError: A variable that is not set, or whose value is too short to be masked.
    """
    values = {}
    for name in names:
        if name not in environ:
            raise InputError(
                f"environment variable is not set (got nothing for '{name}')",
                where=Where(field="secrets"),
                fix=f"set {name}, or leave it out of 'secrets'",
            )
        _check_length(name, environ[name])
        values[name] = environ[name]
    return values


def masker_of(names: Iterable[str], environ: Mapping[str, str]) -> Masker:
    """For texts beside a run: a name without a usable value is one that no run could have shown."""
    values = {name: environ.get(name, "") for name in names}
    return Masker({name: value for name, value in values.items() if len(value) >= MIN_LENGTH})


def _check_length(name: str, value: str) -> None:
    if len(value) < MIN_LENGTH:
        raise InputError(
            f"the value of {name} is too short to be masked "
            f"(got {len(value)} characters; {MIN_LENGTH} or more)",
            where=Where(field="secrets"),
        )


class Masker:
    """Replaces raw, base64, hex and escaped forms of secret values.

    Escapes are those of URLs (any number of times), of JSON, of Python's ``repr`` of texts and
    bytes, and of HTML.

    Escaped forms are matched character by character, so that any mixture of them is found: which
    characters are escaped, and how, differs between writers.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        for name, value in secrets.items():
            _check_length(name, value)
        # A value that holds another one comes first, so that it gets its own name.
        ordered = sorted(secrets.items(), key=lambda item: (-len(item[1]), item[0]))
        self._name_by_value = {value: name for name, value in reversed(ordered)}
        self._names = [name for name, _ in ordered]
        # base64 forms come last at each place: a raw value may look like one.
        parts = [f"({_escaped(value)}|{_hex(value)}|{_base64(value)})" for _, value in ordered]
        self._pattern = re.compile("|".join(parts)) if parts else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def text(self, content: str) -> str:
        """``content`` without any form of a secret."""
        if self._pattern is None:
            return content
        return self._pattern.sub(self._replace, content)

    def settled(self, content: str) -> tuple[str, str]:
        """What can be shown of a text that goes on, and what has to wait for the rest.

        Returns:
            The first part, masked; and the rest as it is, which may be the beginning of a form.
        """
        if self._pattern is None:
            return content, ""
        end = max(0, len(content) - self.longest)
        for match in self._pattern.finditer(content):
            if match.start() < end < match.end():
                end = match.start()
        return self.text(content[:end]), content[end:]

    def _replace(self, match: re.Match[str]) -> str:
        assert match.lastindex is not None, "each alternative is a group"
        return placeholder(self._names[match.lastindex - 1])

    @property
    def longest(self) -> int:
        """Characters that a form of a secret takes at most, escapes of escapes left aside."""
        return max((_GROWTH * len(value) for value in self._name_by_value), default=0)

    def shown(self, value: Any) -> Any:
        """The same as :meth:`value` for what a reader is shown, where texts were cut with a "…".

        What is left of a secret before such a mark, or behind one, is replaced as well: no form of
        the whole stands there for :meth:`text` to find.
        """
        if not self:
            return value
        if isinstance(value, str):
            return self._without_ends(self.text(value))
        if isinstance(value, dict):
            return {
                self._without_ends(key): self.shown(entry)
                for key, entry in self._mapping(value).items()
            }
        if isinstance(value, list):
            return [self.shown(entry) for entry in value]
        return self.value(value)

    def _without_ends(self, content: str) -> str:
        if _CUT not in content:
            return content
        parts = content.split(_CUT)
        for at in range(len(parts) - 1):
            for name in self._names:
                for form in self._plain_forms(name):
                    parts[at] = _without_beginning(parts[at], form, name)
                    parts[at + 1] = _without_end(parts[at + 1], form, name)
        return _CUT.join(parts)

    def _plain_forms(self, name: str) -> tuple[str, ...]:
        value = next(value for value, known in self._name_by_value.items() if known == name)
        forms = (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
        return tuple(dict.fromkeys(forms))

    def value(self, value: Any) -> Any:
        """A copy of a JSON value, its texts, keys and numbers masked."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self._mapping(value)
        if isinstance(value, list):
            return [self.value(entry) for entry in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            # A numeric secret is one as a number, too.
            name = self._name_by_value.get(str(value))
            return value if name is None else placeholder(name)
        return value

    def find(self, value: Any) -> tuple[str | int, ...] | None:
        """Where a JSON value first holds a form of a secret; None where it holds none.

        A key that holds one is not part of the path: it leads to the mapping only.
        """
        return None if self._pattern is None else self._find(value, ())

    def _find(self, value: Any, path: tuple[str | int, ...]) -> tuple[str | int, ...] | None:
        if isinstance(value, Mapping):
            if any(self.text(key) != key for key in value):
                return path
            children: Iterable[tuple[str | int, Any]] = value.items()
        elif isinstance(value, list | tuple):
            children = enumerate(value)
        else:
            return path if self.value(value) != value else None
        for key, inner in children:
            found = self._find(inner, (*path, key))
            if found is not None:
                return found
        return None

    def _mapping(self, mapping: dict[str, Any]) -> dict[str, Any]:
        masked: dict[str, Any] = {}
        # Sorted: two keys may hold one secret in two forms, and digests tell which is "(2)".
        for key in sorted(mapping):
            name = unique = self.text(key)
            count = 2
            while unique in masked or (unique != key and unique in mapping):
                unique = f"{name} ({count})"
                count += 1
            masked[unique] = self.value(mapping[key])
        return masked


def _without_beginning(text: str, form: str, name: str) -> str:
    """``text`` without the longest beginning of ``form`` that it ends with."""
    for length in range(min(len(form), len(text)), MIN_LENGTH - 1, -1):
        if text.endswith(form[:length]):
            return text[:-length] + placeholder(name)
    return text


def _without_end(text: str, form: str, name: str) -> str:
    """``text`` without the longest end of ``form`` that it begins with."""
    for length in range(min(len(form), len(text)), MIN_LENGTH - 1, -1):
        if text.startswith(form[-length:]):
            return placeholder(name) + text[length:]
    return text


def _escaped(value: str) -> str:
    return "".join(_escaped_character(char) for char in value)


def _escaped_character(char: str) -> str:
    """All ways to write one character: as it is, or escaped for a URL, JSON, Python or HTML."""
    data = char.encode("utf-8", "surrogatepass")
    percent = "".join(f"%(?:25)*{byte:02x}" for byte in data)
    units = char.encode("utf-16-be", "surrogatepass").hex()
    escapes = "".join(rf"\\+u{units[at : at + 4]}" for at in range(0, len(units), 4))
    in_bytes = "".join(rf"\\+x{byte:02x}" for byte in data)
    code = ord(char)
    number = rf"&(?:amp;)*#(?:0*{code}|x0*{code:x});"
    forms = [f"(?i:{percent})", f"(?i:{escapes})", f"(?i:{in_bytes})", f"(?i:{number})"]
    if 0x80 <= code <= 0xFF:
        forms.append(rf"(?i:\\+x{code:02x})")
    if code > 0xFFFF:
        forms.append(rf"(?i:\\+U{code:08x})")
    if char in _ENTITIES:
        forms.append(f"(?i:&(?:amp;)*{_ENTITIES[char]};)")
    if char == "\\":
        # JSON in JSON doubles again; a run of backslashes is taken whole.
        forms.append(r"\\+")
    else:
        short = _SHORT_ESCAPES.get(char)
        if short is not None:
            forms.append(rf"\\+{re.escape(short)}")
        forms.append(re.escape(char))
    if char == " ":
        forms.append(r"\+|%(?i:(?:25)*2b)")
    # The longer ways come first: "%" begins its own "%25", and a backslash its own escape.
    return f"(?:{'|'.join(forms)})"


def _hex(value: str) -> str:
    """Its bytes as digits, with or without something between them."""
    data = value.encode("utf-8", "surrogatepass")
    return f"(?i:{'[: -]?'.join(f'{byte:02x}' for byte in data)})"


def _base64(value: str) -> str:
    """The characters of base64 that ``value`` alone decides, for each of its three offsets.

    At the borders a character mixes bits of the value with those of its neighbours. Where the value
    ends the text, the last characters are known; they are taken along where they match.
    """
    data = value.encode("utf-8", "surrogatepass")
    forms: dict[str, None] = {}
    for offset in range(3):
        whole = base64.b64encode(b"\0" * offset + data).decode("ascii")
        start = (0, 2, 3)[offset]
        sure = (offset + len(data)) * 8 // 6
        core, rest = whole[start:sure], whole[sure:].rstrip("=")
        for variant in (core, core.translate(_BASE64_TO_URL)):
            ending = f"(?:{re.escape(rest)}(?:={{1,2}}|(?![A-Za-z0-9+/_-])))?" if rest else ""
            forms[re.escape(variant) + ending] = None
    return "|".join(forms)
