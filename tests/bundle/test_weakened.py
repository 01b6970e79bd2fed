"""Plans that are weaker than what they enclose, everything else made to agree with them.

Each bundle is made the honest way from a plan that is not: counts, digests, findings and verdict
all follow from it, so nothing but the rule under test can refuse it. Each has a twin that holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.bundle.consistency import is_point_of
from pytest_evarness.bundle.key import SigningKey, make_key
from pytest_evarness.bundle.seal import Settings
from pytest_evarness.core import c1
from pytest_evarness.core.outcome import Severity
from pytest_evarness.core.plan import PlannedItem
from tests.bundle import builder
from tests.bundle.builder import APPROVE, ENDS, NO_SEND_AFTER_REJECTION, Spec

if TYPE_CHECKING:
    from pytest_evarness.bundle.verify import Report

Scenario = dict[str, Any]
ItemChange = Callable[[PlannedItem], PlannedItem]
SHORT = replace(APPROVE, checks={"short": "hello"})
FAILING = replace(APPROVE, checks={"short": "not there"})


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return make_key(tmp_path_factory.mktemp("keys") / "signing.pem")


class Forge:
    """Makes bundles whose plan, or whose scenario's text, is another than the honest one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, key: SigningKey) -> None:
        self._patch = monkeypatch
        self._key = key
        self.settings = Settings()

    def items(self, change: ItemChange, *, only: str) -> Forge:
        made = builder.items_of

        def items_of(spec: Spec) -> tuple[PlannedItem, ...]:
            return tuple(change(item) if item.id == only else item for item in made(spec))

        self._patch.setattr(builder, "items_of", items_of)
        return self

    def scenario(self, change: Callable[[Scenario], object]) -> Forge:
        made = builder.scenario_of

        def scenario_of(spec: Spec) -> str:
            text = json.loads(made(spec))
            change(text)
            return c1.text(text)

        self._patch.setattr(builder, "scenario_of", scenario_of)
        return self

    def base(self, base: str) -> Forge:
        made = builder.planned_of
        self._patch.setattr(builder, "planned_of", lambda spec: replace(made(spec), base=base))
        return self

    def report(self, spec: Spec) -> Report:
        statement = builder.statement_of(spec, settings=self.settings)
        self.holds = statement["predicate"]["verdict"]["holds"]
        return builder.verified(builder.bundle_of(statement, self._key), self._key.public)

    def refusal(self, spec: Spec) -> str:
        return builder.refused_by(self.report(spec))[1]


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch, key: SigningKey) -> Forge:
    return Forge(monkeypatch, key)


# -- which case it is ------------------------------------------------------------------------------


def _never_sends(*cases: str) -> Callable[[Scenario], object]:
    entry = {"description": "d", "gate": True, "cases": list(cases)}
    check = {"type": "trace", "assert": {"never": {"type": "tool_called"}}}
    return lambda text: text["invariants"].update({"never-sends": {**entry, "check": check}})


@pytest.mark.parametrize(
    ("case", "base", "fits"),
    [
        ("approve", "approve", True),
        ("approve.seed-7", "approve", True),
        ("approve.seed-7.params-tier-pro", "approve", True),
        ("approve.---1", "approve", True),
        ("approve", "appr", False),
        ("approve", "a", False),
        ("approve", "", False),
        ("approve.seed-7", "approve.", False),
        ("approve.seed", "approve", False),
        ("approve.-7", "approve", False),
        ("approve.seed-", "approve", False),
        ("approve.seed 7-7", "approve", False),
        ("approve", "approve.seed-7", False),
    ],
)
def test_a_base_is_the_id_with_or_without_a_matrix_point(case: str, base: str, fits: bool) -> None:
    assert is_point_of(case, base) is fits


@pytest.mark.parametrize("base", ["appr", "a", ""])
def test_a_gate_for_some_cases_is_not_left_out_by_another_base(forge: Forge, base: str) -> None:
    forge.scenario(_never_sends("approve")).base(base)
    assert "base: is not the case's id" in forge.refusal(APPROVE)
    assert forge.holds is True


def test_with_its_own_base_the_gate_that_is_left_out_is_missed(forge: Forge) -> None:
    forge.scenario(_never_sends("approve"))
    assert "'never-sends' is written in the scenario" in forge.refusal(APPROVE)


def test_a_gate_for_other_cases_is_rightly_left_out(forge: Forge) -> None:
    report = forge.scenario(_never_sends("reject")).report(APPROVE)
    assert report.result == "holds"
    assert not [text for text in report.taken_on_word if "matrix point" in text]


def test_that_a_case_is_a_matrix_point_is_on_word_where_it_matters(forge: Forge) -> None:
    spec = replace(APPROVE, case="approve.seed-7")
    report = forge.scenario(_never_sends("approve.seed-7")).base("approve").report(spec)
    assert report.result == "holds"
    (word,) = [text for text in report.taken_on_word if "matrix point" in text]
    assert word == f'{spec.nodeid}: that it is a matrix point of case "approve"'


# -- mode and waivers ------------------------------------------------------------------------------


def test_the_mode_is_the_written_one_or_the_sessions(forge: Forge) -> None:
    forge.scenario(lambda text: text.update(mode="diagnostic"))
    said = 'the mode is release, and it would be "diagnostic"'
    assert forge.refusal(APPROVE).endswith(said)
    assert forge.holds is True
    forge.settings = Settings(mode="release")
    assert forge.report(APPROVE).result == "holds"
    forge.settings = Settings(mode="exploratory")
    assert 'it would be "exploratory"' in forge.refusal(APPROVE)


WAIVED = replace(APPROVE, waived=("n4: unguarded [unguarded], accepted: a demo",))


def _waive(**fields: str) -> Callable[[Scenario], object]:
    given = {"rule": "unguarded", "reason": "a demo", **fields}
    return lambda text: text["subject"].update(waive={"n4": given})


def test_what_is_waived_is_what_the_scenario_waives(forge: Forge) -> None:
    assert forge.report(WAIVED).result == "holds"
    forge.scenario(_waive())
    said = "the scenario waives what node 'n4' breaks, and it is not listed"
    assert forge.refusal(APPROVE).endswith(said)
    assert forge.holds is True


@pytest.mark.parametrize("given", ["why", {"rule": "unguarded"}])
def test_a_waiver_that_cannot_be_read_is_refused_as_that(forge: Forge, given: object) -> None:
    forge.scenario(lambda text: text["subject"].update(waive={"n4": given}))
    assert forge.refusal(WAIVED).endswith('subject.waive: that of node "n4" cannot be read')


@pytest.mark.parametrize(
    "change",
    [_waive(rule="another"), _waive(reason="another"), lambda text: text["subject"].pop("waive")],
)
def test_what_is_not_waived_is_not_listed(
    forge: Forge, change: Callable[[Scenario], object]
) -> None:
    assert "is waived, and the scenario does not waive it" in forge.scenario(change).refusal(WAIVED)


# -- what the graph names --------------------------------------------------------------------------


def test_a_contract_that_the_graph_names_is_planned(forge: Forge) -> None:
    graph = {**builder.GRAPH, "params": {"invariants": ["run-completes"]}}
    detail = forge.refusal(replace(APPROVE, graph=graph))
    assert detail.endswith('the graph names the contract "run-completes", and nothing judges it')
    named = {"params": {"invariants": ["no-send-after-rejection"]}}
    assert forge.report(replace(APPROVE, graph={**builder.GRAPH, **named})).result == "holds"


# -- what an item decides --------------------------------------------------------------------------


def _entry(name: str, **fields: Any) -> Callable[[Scenario], object]:
    return lambda text: text["invariants"][name].update(fields)


def _soft(**more: Any) -> ItemChange:
    return lambda item: replace(item, gate=False, weight=Fraction(1), **more)


def test_without_a_threshold_whatever_fails_decides(forge: Forge) -> None:
    forge.scenario(_entry("short", gate=False, weight=1)).items(_soft(), only="short")
    assert forge.report(FAILING).result == "fails"
    forge.items(lambda item: replace(item, decides=False), only="short")
    assert "decides: is false, and the item gives true" in forge.refusal(FAILING)
    assert forge.holds is True


def test_without_a_threshold_nothing_is_informational(forge: Forge) -> None:
    forge.scenario(_entry("short", gate=False, weight=0))
    forge.items(lambda item: replace(item, gate=False), only="short")
    assert forge.report(FAILING).result == "fails"
    forge.items(lambda item: replace(item, decides=False, informational=True), only="short")
    assert "informational: is true, and the item gives false" in forge.refusal(FAILING)
    assert forge.holds is True


def test_beside_a_threshold_what_weighs_nothing_is_informational(forge: Forge) -> None:
    spec = replace(FAILING, soft={"mild": "0.3"}, threshold="0.85")
    forge.scenario(_entry("short", gate=False, weight=0))
    forge.items(
        lambda item: replace(item, gate=False, decides=False, informational=True), only="short"
    )
    assert forge.report(spec).result == "holds"
    forge.items(lambda item: replace(item, informational=False), only="short")
    assert "informational: is false, and the item gives true" in forge.refusal(spec)


@pytest.mark.parametrize("name", ["reproduces", "expect"])
def test_what_every_case_has_weighs_nothing(forge: Forge, name: str) -> None:
    forge.items(lambda item: replace(item, weight=Fraction(1)), only=name)
    assert f"an item of kind {name} has no weight" in forge.refusal(APPROVE)


@pytest.mark.parametrize("name", ["short", "expect"])
def test_only_a_contract_has_a_version(forge: Forge, name: str) -> None:
    assert forge.report(SHORT).result == "holds"
    forge.items(lambda item: replace(item, version=1), only=name)
    assert "version: only a contract has a version" in forge.refusal(SHORT)


def _draft(**more: Any) -> ItemChange:
    sealed = builder.definition_of("own", ENDS, owner="us", status="draft", title="own holds")
    fields: dict[str, Any] = {"gate": False, "decides": False, "informational": True, **more}
    return lambda item: replace(item, definition=sealed, severity=Severity.MAJOR, **fields)


def test_a_draft_is_shown_and_nothing_else(forge: Forge) -> None:
    spec = replace(APPROVE, contracts={"own": ENDS, **APPROVE.contracts})
    forge.items(_draft(), only="own")
    assert forge.report(spec).result == "holds"
    forge.items(_draft(gate=True, decides=True, informational=False), only="own")
    assert "a draft is no gate and has no weight" in forge.refusal(spec)


# -- an item and its own contract ------------------------------------------------------------------

NAME = "no-send-after-rejection"


def _sealed(**more: Any) -> dict[str, Any]:
    given = {"owner": "governance", "severity": "critical", "title": f"{NAME} holds", **more}
    return builder.definition_of(str(given.pop("id", NAME)), NO_SEND_AFTER_REJECTION, **given)


def _with(definition: Mapping[str, Any], **fields: Any) -> ItemChange:
    return lambda item: replace(item, definition=dict(definition), **fields)


def test_an_item_says_of_its_contract_what_the_contract_says(forge: Forge) -> None:
    forge.items(_with(_sealed(vacuous="fail"), vacuous="fail"), only=NAME)
    assert forge.report(APPROVE).result == "fails"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_with(_sealed(vacuous="fail")), 'vacuous is "pass", and "fail" its definition says'),
        (_with(_sealed(), severity=Severity.INFO), 'severity is "info", and "critical"'),
        (_with(_sealed(), version=7), "version: is 7, and the rest of the bundle gives 1"),
        (_with(_sealed(version=2)), "version: is 1, and the rest of the bundle gives 2"),
        (_with(_sealed(id="other")), f'is judged by the contract "other", not "{NAME}"'),
        (_with(_sealed(), description="a saint"), 'description is "a saint", and'),
        (_with(_sealed(enforced_by=["budget"])), 'enforced_by is [], and ["budget"]'),
        (_with(_sealed(), enforced_by=("budget",)), 'enforced_by is ["budget"], and []'),
        (_with(_sealed(), weight=Fraction(1)), "weight is 1, and 0 is written"),
        (_with(_sealed(gate=False)), "gate is true, and false its definition says"),
    ],
)
def test_an_item_that_contradicts_its_contract_is_refused(
    forge: Forge, change: ItemChange, said: str
) -> None:
    forge.items(change, only=NAME)
    assert said in forge.refusal(APPROVE)
    assert forge.holds is True


def test_a_scenario_may_say_otherwise(forge: Forge) -> None:
    """What the scenario writes beside a contract stands in the item in its place."""
    fields = {"severity": "minor", "description": "mine", "enforced_by": ["budget"]}
    forge.items(
        lambda item: replace(
            item, severity=Severity.MINOR, description="mine", enforced_by=("budget",)
        ),
        only=NAME,
    )
    forge.scenario(_entry(NAME, **fields))
    assert forge.report(APPROVE).result == "holds"


def test_an_item_is_judged_by_the_contract_that_its_entry_names(forge: Forge) -> None:
    forge.items(_with(_sealed(id="other")), only=NAME)
    forge.scenario(_entry(NAME, check={"type": "contract", "id": "other"}))
    assert forge.report(APPROVE).result == "holds"
