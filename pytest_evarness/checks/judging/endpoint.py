"""An OpenAI-compatible endpoint, asked once: what goes out is the package, what comes back a text.

The key goes to the endpoint that the scenario names and nowhere else: no redirect is followed, and
no text of the endpoint but the answer itself is told to anybody.

Source: docs/judges.md, "An endpoint"; the request and its answer are those of OpenAI's chat
completions, https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import re
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from pytest_evarness.checks.jsonvalue import NoJsonError, read_value
from pytest_evarness.core.interfaces import AbstainedError
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.secret import MIN_LENGTH, Masker
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import quoted

__all__ = ["KEY_VARIABLE", "MAX_RESPONSE_BYTES", "ask_endpoint", "base_url_fault"]

KEY_VARIABLE = "EVARNESS_JUDGE_KEY"
"""Holds the endpoint's key; an endpoint that wants none is asked without it."""

MAX_RESPONSE_BYTES = 1024 * 1024

_PART = 64 * 1024
_HEADER_VALUE = re.compile(r"[!-~]+\Z")
_RULE = "http(s)://HOST[:PORT][/PATH], such as https://api.example.com/v1"


def base_url_fault(text: str) -> Fault | None:
    """Why ``text`` cannot be the address of an endpoint, or None; the path is empty."""
    problem = _url_problem(text)
    if problem is None:
        return None
    return Fault((), problem, got=quoted(text), rule=_RULE)


def _url_problem(text: str) -> str | None:
    if not text.isascii() or not text.isprintable() or " " in text:
        return "is no address"
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no address"
    if parts.scheme not in ("http", "https") or not host:
        return "is no address of an endpoint"
    if parts.username is not None or parts.password is not None:
        return f"holds a user name, and would be recorded; a key stands in ${KEY_VARIABLE}"
    if "?" in text or "#" in text:
        return "has a query or a fragment"
    return None


def ask_endpoint(
    base_url: str,
    *,
    model: str,
    temperature: float,
    instructions: str,
    evidence: str,
    seconds: float,
) -> str:
    """What the model says.

    Args:
        base_url: Checked before.
        model: Of the endpoint.
        temperature: From 0 to 2.
        instructions: The fixed part of the package, sent as ``system``.
        evidence: The observed part, sent as ``user``.
        seconds: For all of it.

    Raises:
        AbstainedError: It says nothing, whatever the reason.
    """
    asked = {
        "model": model,
        "temperature": temperature,
        "messages": [
            {"role": "system", "content": instructions},
            {"role": "user", "content": evidence},
        ],
    }
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "pytest-evarness",
    }
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if key:
        _check_key(key, base_url)
        headers["Authorization"] = f"Bearer {key}"
    data = _exchange(
        f"{base_url.rstrip('/')}/chat/completions",
        json.dumps(asked).encode("ascii"),
        headers,
        seconds,
    )
    answer = _content(data)
    # An endpoint that echoes what it got must not bring the key into a file.
    return Masker({KEY_VARIABLE: key}).text(answer) if len(key) >= MIN_LENGTH else answer


def _check_key(key: str, base_url: str) -> None:
    if not _HEADER_VALUE.match(key):
        raise _broken(f"${KEY_VARIABLE} holds what no header can carry")
    parts = urlsplit(base_url)
    if parts.scheme != "https" and not _is_loopback(parts.hostname or ""):
        raise _broken(
            f"${KEY_VARIABLE} would go out unencrypted (write https:// in base_url, or unset it)"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect stays what it is: an answer without a judgement."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _exchange(url: str, body: bytes, headers: dict[str, str], seconds: float) -> bytes:
    """The body of the answer, within time and size."""
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if _is_loopback(urlsplit(url).hostname or ""):
        # What is on this machine is not asked by way of another one.
        handlers.append(urllib.request.ProxyHandler({}))
    opener = urllib.request.build_opener(*handlers)
    # The scheme was checked when the scenario was read.
    request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310
    end = time.monotonic() + seconds
    try:
        with opener.open(request, timeout=max(seconds, 0.001)) as response:
            if response.status != 200:
                raise _broken(f"its endpoint answered with status {response.status}")
            return _read(response, end)
    except urllib.error.HTTPError as error:
        error.close()
        if 300 <= error.code < 400:
            raise _broken(
                f"its endpoint redirects (status {error.code}), which is not followed"
            ) from None
        raise _broken(f"its endpoint answered with status {error.code}") from None
    except TimeoutError:
        raise _late() from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _late() from None
        why = getattr(error.reason, "strerror", None) or type(error.reason).__name__
        raise _broken(f"its endpoint cannot be reached ({why})") from None
    except (http.client.HTTPException, OSError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise _broken(f"its endpoint broke off ({why})") from None


def _read(response: http.client.HTTPResponse, end: float) -> bytes:
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise _broken("its endpoint answered in an encoding that was not asked for")
    data = bytearray()
    while part := response.read1(_PART):
        data += part
        if len(data) > MAX_RESPONSE_BYTES:
            raise _broken(f"its endpoint answered more than {MAX_RESPONSE_BYTES // 2**20} MiB")
        if time.monotonic() > end:
            raise _late()
    if response.length:
        raise _broken("its endpoint broke off (the answer is shorter than announced)")
    return bytes(data)


def _content(data: bytes) -> str:
    """``choices[0].message.content``."""
    try:
        value = read_value(data.decode("utf-8"))
    except (UnicodeDecodeError, NoJsonError):
        raise _broken("its endpoint answered what is no JSON document") from None
    try:
        content = value["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        content = None
    if not isinstance(content, str):
        raise _broken("its endpoint answered JSON without choices[0].message.content")
    return content


def _broken(reason: str) -> AbstainedError:
    return AbstainedError(Cause.EVALUATOR_ERROR, reason)


def _late() -> AbstainedError:
    return AbstainedError(Cause.EVALUATOR_ERROR, "no answer in time")
