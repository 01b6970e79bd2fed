"""Every value of a signed bundle counts: changing any single one makes verification fail."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_evarness.bundle.canonical import canonical_bytes
from pytest_evarness.bundle.envelope import envelope_bytes
from pytest_evarness.bundle.key import SigningKey, make_key
from tests.bundle.builder import (
    APPROVE,
    UNDECIDED,
    WEIGHED,
    changed,
    record_of,
    refused_by,
    statement_of,
    verified,
)

UNDECIDED_BARE = changed(UNDECIDED, contracts={}, params={})

Path = tuple[str | int, ...]

ON_WORD = {("predicate", "environment", "mirror", 0)}
"""Values that no recomputation can contradict when the genuine key signs another one.

docs/bundle-format.md lists the same ones; everything else is refused by steps 3 to 7.
"""


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return make_key(tmp_path_factory.mktemp("keys") / "key.pem")


@pytest.fixture(scope="module")
def attacker(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return make_key(tmp_path_factory.mktemp("keys") / "attacker.pem")


@pytest.fixture(scope="module")
def statement() -> dict[str, Any]:
    """One of everything: several ends, a threshold, a run B that differs, a missing one."""
    bare = changed(APPROVE, contracts={}, params={})
    failing = changed(bare, case="failing", expect={"status": "blocked"})
    parted = changed(bare, case="parted", deselected={"expect": "-k"})
    lonely = changed(bare, case="lonely", waived=("n4: unguarded [unguarded], accepted: a demo",))
    checked = changed(bare, case="checked", checks={"held": "hello", "missed": "other"})
    blind = changed(bare, case="blind", checks={"unseen": "hello"}, file_text=None)
    ran = (APPROVE, UNDECIDED_BARE, changed(WEIGHED, contracts={}), failing, checked, blind)
    records = [record_of(spec) for spec in ran]
    records.append(record_of(parted, spec_b=changed(parted, prompt="another q3 text")))
    records.append(record_of(lonely, error_b="the mirror died"))
    return statement_of(
        *ran,
        parted,
        lonely,
        changed(bare, case="unrun"),
        records=records,
        broken=[("scenarios/broken.yaml", "broken.yaml:1:1: unknown key")],
    )


@pytest.fixture(scope="module")
def small() -> dict[str, Any]:
    return statement_of(APPROVE)


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, (*path, name))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from leaves(part, (*path, index))
    else:
        yield path


def altered(value: Any) -> Any:
    if value is None:
        return "x"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if not value:
        return "x"
    middle = len(value) // 2
    return value[:middle] + ("1" if value[middle] == "0" else "0") + value[middle + 1 :]


def mutated(statement: Any, path: Path) -> Any:
    """A copy with one leaf changed; only what leads to the leaf is copied."""
    if not path:
        return altered(statement)
    step, *rest = path
    result = copy.copy(statement)
    result[step] = mutated(result[step], tuple(rest))
    return result


def test_the_bundle_that_is_changed_is_genuine(statement: dict[str, Any], key: SigningKey) -> None:
    report = verified(envelope_bytes(canonical_bytes(statement), key), key.public)
    assert report.result == "fails"
    assert len(list(leaves(statement))) > 900


def test_the_small_one_is_genuine_and_holds(small: dict[str, Any], key: SigningKey) -> None:
    report = verified(envelope_bytes(canonical_bytes(small), key), key.public)
    assert report.result == "holds"
    assert len(list(leaves(small))) > 200


def test_no_value_can_be_changed_under_the_genuine_signature(
    small: dict[str, Any], key: SigningKey
) -> None:
    genuine = json.loads(envelope_bytes(canonical_bytes(small), key))
    for path in leaves(small):
        payload = canonical_bytes(mutated(small, path))
        envelope = {**genuine, "payload": base64.b64encode(payload).decode()}
        data = canonical_bytes(envelope) + b"\n"
        step, _ = refused_by(verified(data, key.public))
        assert step in ("form", "signature"), path


def test_no_value_can_be_changed_and_signed_by_another_key(
    small: dict[str, Any], key: SigningKey, attacker: SigningKey
) -> None:
    for path in leaves(small):
        data = envelope_bytes(canonical_bytes(mutated(small, path)), attacker)
        step, _ = refused_by(verified(data, key.public))
        assert step in ("form", "signature"), path


@pytest.mark.slow
def test_no_value_that_can_be_computed_again_can_be_changed_even_by_the_signer(
    statement: dict[str, Any], key: SigningKey
) -> None:
    accepted = set()
    for path in leaves(statement):
        data = envelope_bytes(canonical_bytes(mutated(statement, path)), key)
        report = verified(data, key.public)
        if report.result == "not_genuine":
            assert refused_by(report)[0] != "signature", path
            # A refusal that cannot say why would be a crash in disguise.
            assert "does not add up" not in refused_by(report)[1], path
        else:
            accepted.add(path)
    assert accepted == ON_WORD


def containers(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict | list):
        if path:
            yield path
        steps = value.items() if isinstance(value, dict) else enumerate(value)
        for step, part in steps:
            yield from containers(part, (*path, step))


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


@pytest.mark.slow
def test_nothing_can_be_left_out_or_doubled_even_by_the_signer(
    statement: dict[str, Any], key: SigningKey
) -> None:
    for path in containers(statement):
        holder = at(statement, path)
        steps = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        for step in steps[:3]:
            less = copy.deepcopy(statement)
            del at(less, path)[step]
            report = verified(envelope_bytes(canonical_bytes(less), key), key.public)
            if (*path, step) not in ON_WORD:
                assert report.result == "not_genuine", (path, step)
        if isinstance(holder, list) and holder:
            more = copy.deepcopy(statement)
            at(more, path).append(copy.deepcopy(holder[-1]))
            report = verified(envelope_bytes(canonical_bytes(more), key), key.public)
            if path != ("predicate", "environment", "mirror"):
                assert report.result == "not_genuine", path


@pytest.mark.parametrize("name", ["keyid", "sig"])
def test_no_value_of_the_envelope_can_be_changed(
    small: dict[str, Any], key: SigningKey, name: str
) -> None:
    envelope = json.loads(envelope_bytes(canonical_bytes(small), key))
    text = envelope["signatures"][0][name]
    for index in range(len(text)):
        envelope["signatures"][0][name] = text[:index] + "A" + text[index + 1 :]
        if envelope["signatures"][0][name] == text:
            continue
        data = canonical_bytes(envelope) + b"\n"
        assert refused_by(verified(data, key.public))[0] in ("form", "signature")
