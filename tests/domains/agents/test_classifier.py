"""A text has the highest class of which it holds a sign, and the signs are told without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.execution import execute
from pytest_evarness.core.graph import lint, parse_graph
from pytest_evarness.core.interfaces import Locations
from pytest_evarness.core.registry import Registry, load_registry
from pytest_evarness.domains.agents.extension import CLASSIFIER, Classified
from pytest_evarness.domains.agents.overlay import words_of
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_evarness.core.run import Run


def classified(text: str, **config: Any) -> dict[str, Any]:
    graph = h.chain(("input", {}), ("data_classifier", config), ("output", {}))
    run = h.run(graph, {"user_input": text})
    assert run.output == text
    return h.payload(run, "content_classified")


@pytest.mark.parametrize(
    ("text", "classification", "signals"),
    [
        ("What is the weather?", "public", []),
        ("Please do not share this", "internal", ["internal:do not share"]),
        ("Mail ada@example.org", "personal", ["personal:email"]),
        ("My Date of Birth is known", "personal", ["personal:date of birth"]),
        ("the API key", "secret", ["secret:api key"]),
        ("passwords are none", "public", []),
        (
            "the pass\u200bword, in an API\u00a0\nkey",
            "secret",
            ["secret:api key", "secret:password"],
        ),
        ("\uff50assword %63redentials", "secret", ["secret:credentials", "secret:password"]),
        ("pass word", "public", []),
        ("+44 20 7946 0958", "personal", ["personal:phone"]),
        (
            "confidential: the password of 078-05-1120",
            "secret",
            ["internal:confidential", "personal:ssn", "secret:password"],
        ),
    ],
)
def test_the_keyword_classifier(text: str, classification: str, signals: list[str]) -> None:
    found = classified(text)
    assert found["classification"] == found["run_classification"] == classification
    assert found["signals"] == signals


def test_no_signal_holds_what_was_found() -> None:
    found = classified("Mail ada@example.org or 078-05-1120, password swordfish")
    assert not any(raw in str(found) for raw in ("ada", "078", "swordfish"))


def test_the_run_keeps_the_highest_class() -> None:
    nodes: list[Any] = [("input", {}), ("data_classifier", {}), ("redaction_rules", {})]
    graph = h.chain(*nodes, ("data_classifier", {}), ("output", {}))
    run = h.run(graph, {"user_input": "Mail ada@example.org"})
    first, second = h.payloads(run, "content_classified")
    assert first["classification"] == "personal"
    assert (second["classification"], second["run_classification"]) == ("public", "personal")


@pytest.mark.parametrize(
    ("config", "fix"),
    [
        ({"egress": "enforced"}, "write 'enforce'"),
        ({"egres": "off"}, "write 'egress'"),
        ({"classifier": "keywords"}, "write 'keyword'"),
    ],
)
def test_an_unknown_word_is_named_with_the_nearest(config: dict[str, Any], fix: str) -> None:
    found = h.remarks(h.chain(("input", {}), ("data_classifier", config), ("output", {})))
    assert [one.fix for one in found if one.level == "error"] == [fix]


# -- words of one's own ----------------------------------------------------------------------------


def words(root: Path, text: str) -> Any:
    (root / "classification.yaml").write_text(text, "utf-8")
    locations = Locations(root=root, home=None, beside=(root,), variables={})
    found = {one.name: one for one in h.domain().load_overlays(locations)}
    return found["classification"]


def test_a_layer_replaces_a_class_whole_and_leaves_the_others(tmp_path: Path) -> None:
    overlay = words(tmp_path, "classification: {internal: [project heron]}\n")
    assert overlay.faults == ()
    assert [label for label, _ in overlay.sources] == [
        "packaged/classification.yaml",
        "classification.yaml",
    ]
    found = words_of({"classification": overlay.value})
    assert found["internal"] == ["project heron"]
    assert "password" in found["secret"]


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("classification: {intern: [a]}\n", "1:18", "unknown key"),
        ("classification: {secret: ['']}\n", "1:27", "has another form"),
        ('classification: {secret: ["\\u00ad\\u200b"]}\n', "1:27", "nothing of the word is seen"),
        ("classification: [a]\n", "1:17", "must be a mapping"),
        ("classificatoin: {}\n", "1:1", "unknown key"),
        ("- a\n", "1:1", "must be a mapping"),
        ("classification: {\n", "", ""),
    ],
)
def test_a_layer_that_cannot_be_used_is_named_with_its_line(
    tmp_path: Path, text: str, place: str, said: str
) -> None:
    overlay = words(tmp_path, text)
    label, fault = overlay.faults[0]
    assert label.startswith(f"classification.yaml:{place}")
    assert said in fault.problem


# -- classifiers of plug-ins -----------------------------------------------------------------------


def with_classifier(function: Any, name: str = "acme.legal") -> Registry:
    def register(registry: Registry) -> None:
        registry.extensions(CLASSIFIER).register(name, function)

    return load_registry([("conftest", register)])


def run_with(registry: Registry, text: str = "a privileged letter") -> Run:
    value = h.chain(
        ("input", {}),
        ("data_classifier", {"classifier": "acme.legal"}),
        ("llm", {}),
        ("output", {}),
    )
    graph, faults = parse_graph(value, registry)
    assert graph is not None
    assert faults == []
    errors = [one for one in lint(graph, registry, h.overlays()) if one.level == "error"]
    assert errors == []
    case = h.compiled(value, {"user_input": text, "default_response": {"text": "ok"}})
    return execute(case, registry)


def test_a_plug_in_adds_a_classifier() -> None:
    def legal(text: str) -> Classified:
        return (
            Classified("secret", ("acme:privileged",))
            if "privileged" in text
            else (Classified("public"))
        )

    registry = with_classifier(legal)
    assert registry.broken == []
    run = run_with(registry)
    assert h.payload(run, "content_classified") == {
        "classification": "secret",
        "signals": ["acme:privileged"],
        "run_classification": "secret",
    }
    assert run.status == "blocked"
    assert run_with(registry, "a letter").status == "completed"


NAMELESS: Any = (1,)


@pytest.mark.parametrize(
    "answer", ["secret", None, Classified("top secret"), Classified("secret", NAMELESS)]
)
def test_an_answer_that_is_no_class_never_passes_for_public(answer: Any) -> None:
    run = run_with(with_classifier(lambda text: answer))
    assert run.status == "failed"
    assert "llm_request" not in h.types(run)


@pytest.mark.parametrize(
    ("function", "name", "said"),
    [
        (lambda text: None, "legal", "holds a dot"),
        (lambda: None, "acme.legal", "must take one text"),
        ("text", "acme.legal", "must be a function"),
        (Classified, "acme.legal", "must be a function"),
    ],
)
def test_a_part_of_the_wrong_shape_fails_where_its_author_sees_it(
    function: Any, name: str, said: str
) -> None:
    ((who, error),) = with_classifier(function, name).broken
    assert who == "conftest"
    assert said in error
