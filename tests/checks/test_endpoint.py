"""An endpoint is asked once, within bounds, and told nothing but the package."""

from __future__ import annotations

import socket
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from pytest_evarness.checks.judging.endpoint import (
    KEY_VARIABLE,
    MAX_RESPONSE_BYTES,
    ask_endpoint,
    base_url_fault,
)
from pytest_evarness.core.interfaces import AbstainedError
from pytest_evarness.core.outcome import Cause
from tests.checks.served import Reply, completion, says, served

ANSWER = '{"score": 0.8}'


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)


def ask(base_url: str, **more: Any) -> str:
    asked: dict[str, Any] = {
        "model": "m-1",
        "temperature": 0.0,
        "instructions": "judge",
        "evidence": "an artifact",
        "seconds": 20.0,
    }
    return ask_endpoint(base_url, **{**asked, **more})


def refusal(*replies: Reply, **more: Any) -> str:
    with served(*replies) as endpoint, pytest.raises(AbstainedError) as refused:
        ask(endpoint.base_url, **more)
    assert refused.value.cause is Cause.EVALUATOR_ERROR
    return refused.value.reason


def test_what_goes_out_is_the_package_and_what_comes_back_is_the_text() -> None:
    with served(says(ANSWER)) as endpoint:
        assert ask(endpoint.base_url, temperature=0.5) == ANSWER
    (request,) = endpoint.requests
    assert request["path"] == "/v1/chat/completions"
    assert request["body"] == {
        "model": "m-1",
        "temperature": 0.5,
        "messages": [
            {"role": "system", "content": "judge"},
            {"role": "user", "content": "an artifact"},
        ],
    }
    assert "Authorization" not in request["headers"]


def test_a_slash_at_the_end_of_the_address_is_no_matter() -> None:
    with served(says(ANSWER)) as endpoint:
        ask(f"{endpoint.base_url}/")
    assert endpoint.requests[0]["path"] == "/v1/chat/completions"


def test_the_key_goes_to_the_endpoint_and_comes_back_masked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "sk-very-secret")
    with served(says('{"score": 1, "critique": "sk-very-secret"}')) as endpoint:
        answer = ask(endpoint.base_url)
    assert endpoint.requests[0]["headers"]["Authorization"] == "Bearer sk-very-secret"
    assert "sk-very-secret" not in answer
    assert "«secret:EVARNESS_JUDGE_KEY»" in answer


@pytest.mark.parametrize("key", ["sk-\nHost: elsewhere", "ключ", "a key"])
def test_a_key_that_no_header_can_carry_goes_nowhere(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, key)
    with served(says(ANSWER)) as endpoint:
        with pytest.raises(AbstainedError, match="what no header can carry") as refused:
            ask(endpoint.base_url)
        assert endpoint.requests == []
    assert key not in refused.value.reason


def test_a_key_goes_over_no_plain_connection_to_another_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "sk-1234")
    opened: list[object] = []
    monkeypatch.setattr(
        "urllib.request.OpenerDirector.open", lambda *words, **_: opened.append(words)
    )
    with pytest.raises(AbstainedError, match="would go out unencrypted"):
        ask("http://judge.example/v1")
    assert opened == []


def test_a_redirect_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "sk-1234")
    with served(says(ANSWER)) as elsewhere:
        where = {"Location": f"{elsewhere.base_url}/chat/completions"}
        for status in (301, 302, 303, 307, 308):
            assert refusal(says(b"", status=status, headers=where)) == (
                f"its endpoint redirects (status {status}), which is not followed"
            )
    assert elsewhere.requests == []


@pytest.mark.parametrize("status", [201, 204, 400, 401, 429, 500, 503])
def test_another_status_is_no_answer_and_its_text_is_told_to_nobody(status: int) -> None:
    reason = refusal(says(completion("your key sk-1234 is wrong"), status=status))
    assert reason == f"its endpoint answered with status {status}"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "answered what is no JSON document"),
        (b"<html>", "answered what is no JSON document"),
        (b"\xff", "answered what is no JSON document"),
        (b"[" * 100_000, "answered what is no JSON document"),
        (b"{}", "answered JSON without choices[0].message.content"),
        (b'{"choices": []}', "answered JSON without choices[0].message.content"),
        (b'{"choices": {"0": 1}}', "answered JSON without choices[0].message.content"),
        (completion(None), "answered JSON without choices[0].message.content"),
        (completion([ANSWER]), "answered JSON without choices[0].message.content"),
        (completion("\ud800"), "answered what is no JSON document"),
    ],
)
def test_what_is_no_completion(data: bytes, why: str) -> None:
    assert refusal(says(data)) == f"its endpoint {why}"


def test_an_answer_without_an_end_is_cut_off() -> None:
    sent = []

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b" " * 65536)
            sent.append(65536)

    assert refusal(endless) == "its endpoint answered more than 1 MiB"
    # The twin: what fits is read.
    padded = completion(ANSWER) + b" " * (MAX_RESPONSE_BYTES - len(completion(ANSWER)))
    with served(says(padded)) as endpoint:
        assert ask(endpoint.base_url) == ANSWER


def test_an_encoding_that_nobody_asked_for_is_not_unpacked() -> None:
    reason = refusal(says(ANSWER, headers={"Content-Encoding": "gzip"}))
    assert reason == "its endpoint answered in an encoding that was not asked for"


def test_an_answer_that_breaks_off_is_none() -> None:
    def short(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "5000")
        handler.end_headers()
        handler.wfile.write(completion(ANSWER))

    assert refusal(short).startswith("its endpoint broke off (")

    def nothing(handler: BaseHTTPRequestHandler) -> None:
        handler.connection.shutdown(socket.SHUT_RDWR)

    assert refusal(nothing).startswith("its endpoint ")


def test_an_endpoint_that_does_not_answer_is_given_up() -> None:
    def silent(_: BaseHTTPRequestHandler) -> None:
        endpoint.released.wait(60)

    with served(silent) as endpoint, pytest.raises(AbstainedError, match="no answer in time"):
        ask(endpoint.base_url, seconds=0.2)


def test_an_endpoint_that_drips_is_given_up() -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not endpoint.released.wait(0.05):
            handler.wfile.write(b" ")

    with served(drip) as endpoint, pytest.raises(AbstainedError, match="no answer in time"):
        ask(endpoint.base_url, seconds=0.3)


def test_an_endpoint_that_is_not_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        base_url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(AbstainedError, match="its endpoint cannot be reached"):
            ask(base_url)


def test_a_proxy_is_not_asked_about_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(says(ANSWER)) as proxy, served(says(ANSWER)) as endpoint:
        monkeypatch.setenv("http_proxy", proxy.base_url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        assert ask(endpoint.base_url) == ANSWER
        assert proxy.requests == []
        # The twin: another machine is asked through it.
        assert ask("http://judge.example/v1") == ANSWER
        assert [one["path"] for one in proxy.requests] == [
            "http://judge.example/v1/chat/completions"
        ]


@pytest.mark.parametrize(
    "base_url",
    [
        "http://localhost:11434/v1",
        "https://api.example.com",
        "https://[::1]:8000/v1",
        "HTTPS://X/v1",
    ],
)
def test_an_address_of_an_endpoint(base_url: str) -> None:
    assert base_url_fault(base_url) is None
