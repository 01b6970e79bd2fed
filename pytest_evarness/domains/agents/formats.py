"""The formats of JSON Schema that are held to, each by rules that every machine reads alike.

Each expression takes one step a character: none repeats what may repeat.

Source: JSON Schema 2020-12 Validation, section 7.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

__all__ = ["FORMATS"]

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_DURATION = re.compile(
    r"P(?:[0-9]+W"
    r"|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
    r"(?:T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?"
    r"|T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))"
)
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_QUOTED = re.compile(r'"(?:[ !#-\[\]-~]|\\[ -~])*"')
_OCTET = re.compile(r"0|[1-9][0-9]{0,2}")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_CHAR = r"[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2}"
_REFERENCE = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*):)?"
    r"(?://(?P<authority>[^/?#]*))?"
    rf"(?P<path>(?:/|{_CHAR})*)"
    rf"(?:\?(?:[/?]|{_CHAR})*)?"
    rf"(?:#(?:[/?]|{_CHAR})*)?"
)
_AUTHORITY = re.compile(
    r"(?:(?:[A-Za-z0-9\-._~!$&'()*+,;=:]|%[0-9A-Fa-f]{2})*@)?"
    r"(?:\[(?P<ip>[^\]]*)\]|(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})*)"
    r"(?::[0-9]*)?"
)
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MAX_IPV6 = 45
_MAX_HOST = 253
_MAX_LOCAL = 64


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 1 <= month <= 12 and 1 <= day <= _DAYS[month - 1] + (month == 2 and is_leap)


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    if found is None:
        return False
    hour, minute, second = (int(found[index]) for index in (1, 2, 3))
    away = (int(found[5] or 0), int(found[6] or 0))
    if hour > 23 or minute > 59 or away[0] > 23 or away[1] > 59:
        return False
    # A leap second is the last one of a day in UTC.
    ahead = (away[0] * 60 + away[1]) * (-1 if found[4] == "-" else 1)
    is_last = (hour * 60 + minute - ahead) % 1440 == 1439
    return second <= 59 or (second == 60 and is_last)


def _is_moment(text: str) -> bool:
    return text[10:11] in ("T", "t") and _is_date(text[:10]) and _is_time(text[11:])


def _is_host(text: str) -> bool:
    return len(text) <= _MAX_HOST and all(_LABEL.fullmatch(part) for part in text.split("."))


def _is_email(text: str) -> bool:
    local, at, host = text.rpartition("@")
    if not at or len(local) > _MAX_LOCAL:
        return False
    if host.startswith("[") and host.endswith("]"):
        inside = host[1:-1]
        is_known = _is_ipv4(inside) or (inside[:5] == "IPv6:" and _is_ipv6(inside[5:]))
    else:
        is_known = _is_host(host)
    return is_known and bool(_ATOMS.fullmatch(local) or _QUOTED.fullmatch(local))


def _is_ipv4(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 4 and all(_OCTET.fullmatch(part) and int(part) <= 255 for part in parts)


def _is_ipv6(text: str) -> bool:
    from ipaddress import AddressValueError, IPv6Address

    if len(text) > _MAX_IPV6 or "%" in text or not text.isascii():
        return False
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def _is_reference(text: str) -> bool:
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return False
    authority = found["authority"]
    if authority is None:
        # Such a text would be read with the first step as scheme or as authority.
        first = found["path"].partition("/")[0]
        return not found["path"].startswith("//") and (
            found["scheme"] is not None or ":" not in first
        )
    if found["path"] and not found["path"].startswith("/"):
        return False
    host = _AUTHORITY.fullmatch(authority)
    return host is not None and (host["ip"] is None or _is_ipv6(host["ip"]))


def _is_uri(text: str) -> bool:
    return _is_reference(text) and _REFERENCE.fullmatch(text)["scheme"] is not None  # type: ignore[index]


FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date": _is_date,
    "date-time": _is_moment,
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "email": _is_email,
    "hostname": _is_host,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "json-pointer": lambda text: _POINTER.fullmatch(text) is not None,
    "time": _is_time,
    "uri": _is_uri,
    "uri-reference": _is_reference,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
}
"""Each format that a schema may ask for, and whether a text has it."""
