"""Contents of files that a compiled case carries along, each under its own digest.

Whoever runs a case elsewhere reads no file of the project: what a run needs of them is here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING

from pytest_evarness.core.json import shown
from pytest_evarness.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_evarness.core.json import Json, JsonObject

__all__ = ["EMPTY_MATERIALS", "as_materials", "check_materials", "material_bytes", "sha256_bytes"]

EMPTY_MATERIALS = "{}"
"""The c1 text of no materials."""


def sha256_bytes(data: bytes) -> str:
    """``sha256:`` and the hex digest of ``data``."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def as_materials(contents: Mapping[str, bytes]) -> JsonObject:
    """The JSON form: a text where the bytes are UTF-8, else ``{"base64": ...}``.

    Args:
        contents: Bytes by their own ``sha256:`` digest.
    """
    return {digest: _encoded(contents[digest]) for digest in sorted(contents)}


def _encoded(data: bytes) -> Json:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def material_bytes(value: Json) -> bytes:
    """The bytes of one entry of :func:`as_materials`.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, dict) and set(value) == {"base64"} and isinstance(value["base64"], str):
        return base64.b64decode(value["base64"], validate=True)
    raise ValueError("neither a text nor {base64: ...}")


def check_materials(materials: Mapping[str, Json]) -> None:
    """Whether each entry stands under its own digest, in its one form.

    Raises:
        InputError: One does not.
    """
    for digest, value in materials.items():
        try:
            data = material_bytes(value)
        except (ValueError, binascii.Error) as error:
            raise InputError(f"materials: no content under {shown(digest)} ({error})") from None
        if sha256_bytes(data) != digest:
            raise InputError(
                f"materials: a content does not stand under its digest "
                f"(got {shown(digest)}; its own is {sha256_bytes(data)})"
            )
        if _encoded(data) != value:
            raise InputError(f"materials: a text is written as base64 (got {shown(digest)})")
