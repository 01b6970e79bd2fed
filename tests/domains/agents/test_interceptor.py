"""A chain redacts, refuses, validates and taps, in the order in which it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.c1 import sha256_text
from pytest_evarness.domains.agents.node.interceptor import CHAIN_RULES
from pytest_evarness.domains.agents.personal import scrub
from pytest_evarness.domains.agents.vocabulary import CHAIN
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run


def through(text: str, *rules: str, blocklist: list[str] | None = None) -> Run:
    config: dict[str, Any] = {"chain": list(rules)} if rules else {}
    graph = h.chain(("input", {}), ("interceptor", config), ("output", {}))
    environment: dict[str, Any] = {"user_input": text}
    if blocklist is not None:
        environment["faults"] = {"blocklist": blocklist}
    return h.run(graph, environment)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("my SSN 123-45-6789.", "my SSN [SSN]."),
        ("to a.b+c@mail.example.org now", "to [EMAIL] now"),
        ("call 555-123-4567 or (555) 123-4567", "call [PHONE] or [PHONE]"),
        ("call +4791234567", "call [PHONE]"),
        ("card 4111 1111 1111 1111", "card [CREDIT_CARD]"),
        ("card 4111111111111111", "card [CREDIT_CARD]"),
        ("order 123-45-67890 of 2026-11-30, 12 days", "order 123-45-67890 of 2026-11-30, 12 days"),
        ("a@b and @c.d", "a@b and @c.d"),
    ],
)
def test_what_is_personal_is_replaced(text: str, clean: str) -> None:
    assert scrub(text)[0] == clean


def test_redaction_is_told_only_where_something_was_redacted() -> None:
    run = through("mail me at a@b.org, b@c.org", "pii_scrub")
    assert run.output == "mail me at [EMAIL], [EMAIL]"
    assert h.payload(run, "interceptor_applied") == {"rule": "pii_scrub", "count": 2}
    told = h.payload(run, "redaction_applied")
    assert (told["count"], told["rules_hit"]) == (2, ["email"])
    clean = through("nothing here", "pii_scrub")
    assert h.payload(clean, "interceptor_applied") == {"rule": "pii_scrub", "count": 0}
    assert "redaction_applied" not in h.types(clean)


def test_a_forbidden_term_blocks() -> None:
    run = through("a Wire Transfer, please", "policy_check", blocklist=["wire transfer"])
    assert run.status == "blocked"
    assert h.payload(run, "interceptor_applied") == {
        "rule": "policy_check",
        "verdict": "deny",
        "term": "wire transfer",
    }
    allowed = through("a letter, please", "policy_check", blocklist=["wire transfer"])
    assert h.payload(allowed, "interceptor_applied") == {"rule": "policy_check", "verdict": "allow"}


def test_a_blank_text_does_not_pass_validation() -> None:
    assert through(" \n", "schema_validate").status == "blocked"
    assert h.payload(through("x", "schema_validate"), "interceptor_applied")["ok"] is True


def test_a_tap_tells_size_and_digest_and_changes_nothing() -> None:
    run = through("abcdefgh", "audit_tap")
    assert run.output == "abcdefgh"
    found = h.payload(run, "interceptor_applied")
    assert found == {"rule": "audit_tap", "tokens": 2, "digest": sha256_text("abcdefgh")}


def test_the_default_chain_scrubs_and_then_checks() -> None:
    run = through("hello")
    assert [one["rule"] for one in h.payloads(run, "interceptor_applied")] == [
        "pii_scrub",
        "policy_check",
    ]


def test_a_rule_sees_what_the_rule_before_it_left() -> None:
    blocked = through("a@b.org", "pii_scrub", "policy_check", blocklist=["[email]"])
    assert blocked.status == "blocked"
    assert (
        through("a@b.org", "policy_check", "pii_scrub", blocklist=["[email]"]).output == "[EMAIL]"
    )


def test_an_unknown_rule_is_named_with_the_nearest() -> None:
    (found,) = h.remarks(h.chain(("interceptor", {"chain": ["pii_scrb"]})))[:1]
    assert found.level == "error"
    assert found.fix == "write 'pii_scrub'"


def test_every_rule_that_an_event_may_name_is_there() -> None:
    assert tuple(CHAIN_RULES) == CHAIN


@pytest.mark.parametrize("text", ["a" * 300_000, "1" * 300_000, "1-" * 150_000, "a@" * 150_000])
def test_a_long_text_ends(text: str) -> None:
    # A pass for each character of these would take hours.
    assert len(scrub(text)[0]) > 0
