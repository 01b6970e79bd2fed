"""What the pages about the mock and its check show is true when it is tried."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.core.matcher import OPERATORS
from pytest_evarness.source.document import parse_yaml
from pytest_evarness.world.http import config, limit, message
from tests.checks.test_http import outcome, sealed
from tests.world.http.mocks import entries, mock

DOCS = Path(__file__).parents[3] / "docs"
SERVICE = (DOCS / "services" / "http_mock.md").read_text("utf-8")
CHECK = (DOCS / "checks" / "http_mock_assertions.md").read_text("utf-8")


def examples(text: str) -> list[Any]:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [parse_yaml(block, "page").value for block in blocks]


def rows(text: str, head: str) -> list[list[str]]:
    """The cells of the table whose head begins like that, without backticks."""
    _, _, after = text.partition(f"\n{head}")
    lines = after.split("\n\n")[0].splitlines()[2:]
    found = [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in lines]
    assert found
    return found


@pytest.mark.parametrize("text", [SERVICE, CHECK], ids=["service", "check"])
def test_the_scenario_of_a_page_is_valid(text: str, tmp_path: Path) -> None:
    from pytest_evarness.api import Runner
    from pytest_evarness.pipeline import Settings

    (scenario,) = [value for value in examples(text) if "evarness" in value]
    runner = Runner(Settings(root=tmp_path, home=None, rerun="inline"))
    try:
        result = runner.run(scenario, "default")
    finally:
        runner.close()
    findings = {finding.id: finding for finding in result.findings}
    assert result.verdict == "valid", [one.reason for one in findings.values() if one.outcome]
    for name in scenario["invariants"]:
        assert findings[name].outcome.word == "pass"
        assert not findings[name].vacuous


def test_the_routes_of_the_page_take_what_it_says() -> None:
    (routes,) = [value["routes"] for value in examples(SERVICE) if "routes" in value]
    service = mock(routes=routes)
    for request, route, status in rows(SERVICE, "| request | route | status |"):
        method, path, *body = request.split(" ", 2)
        answer = service.request(method, path, body=json.loads(body[0]) if body else None)
        taken = entries(service)[-1]["route"]
        assert (str(taken) if taken is not None else "none", str(answer.status)) == (route, status)


def test_the_assertions_of_the_page_come_out_as_it_says() -> None:
    found = re.search(r"one request, `POST (\S+)` with the body `(.*?)`", CHECK)
    assert found is not None
    world = sealed([("POST", found.group(1), json.loads(found.group(2)))])
    seen = set()
    for assertion, expected in rows(CHECK, "| assertion | outcome |"):
        assert outcome(world, parse_yaml(assertion, "page").value) == expected, assertion
        seen.add(expected)
    assert seen == {"pass", "fail"}


def test_the_page_names_every_key_and_every_header_that_is_left_out() -> None:
    schema: Any = config.SCHEMA
    keys = [*schema["properties"], *schema["properties"]["routes"]["items"]["properties"]]
    for word in [*keys, *config.FAULTS, *message.NOT_RECORDED]:
        assert f"`{word}`" in SERVICE or f"`{word}:" in SERVICE or word == "type", word
    left_out = {
        name
        for cells in rows(SERVICE, "| left out | because |")
        for name in re.findall(r"[a-z-]+", cells[0])
    }
    assert left_out == set(message.NOT_RECORDED)


def test_the_bounds_of_the_page_are_those_of_the_code() -> None:
    mebi = 1 << 20
    for phrase in (
        f"the first {limit.MAX_KEPT // mebi} MiB",
        f"{limit.MAX_BODY // mebi} MiB for a body",
        f"{limit.MAX_JOURNAL // mebi} MiB for the bodies",
        f"{limit.MAX_REQUESTS:,} requests",
        f"{limit.PAUSE_SECONDS:g} s for a pause",
        f"{limit.REQUEST_SECONDS:g} s for all of it",
        f"{limit.MAX_WORKERS} requests at once",
        f"at most {limit.MAX_DELAY_MS // 1000} s",
    ):
        assert phrase in SERVICE, phrase


def test_no_word_of_a_matcher_is_a_key_of_mails() -> None:
    # ``body: {to: ...}`` is JSON to be equal to, as ``to`` is no operator.
    assert not {"to", "cc", "subject", "body"} & set(OPERATORS)
