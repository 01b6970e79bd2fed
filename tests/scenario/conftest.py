"""A project in an empty folder, and a loader over it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_evarness.contract.model import Contract, parse_contract
from pytest_evarness.core.registry import Registry, load_registry
from pytest_evarness.errors import InputError
from pytest_evarness.scenario.case import Case
from pytest_evarness.scenario.load import LoadContext, load_scenario

if TYPE_CHECKING:
    from pytest_evarness.contract.applicability import CaseFacts
    from pytest_evarness.contract.library import Library
    from pytest_evarness.core.interfaces import Shape

GRAPH: dict[str, Any] = {
    "ir_version": 1,
    "id": "send",
    "name": "Send",
    "nodes": [
        {"id": "n1", "type": "input"},
        {
            "id": "n2",
            "type": "intent_router",
            "config": {"rules": [{"route": "send", "keywords": ["send"]}]},
        },
        {"id": "n3", "type": "approval_gate", "config": {"prompt": "Send it?"}},
        {
            "id": "n4",
            "type": "tool",
            "config": {"tool": "email.send", "approve_side_effects": True},
        },
        {"id": "n7", "type": "output"},
    ],
    "edges": [
        {"from": "n1", "to": "n2"},
        {"from": "n2", "to": "n3"},
        {"from": "n3", "to": "n4"},
        {"from": "n4", "to": "n7"},
    ],
    "params": {"seed": 7, "provider": "sim:helpful-v1", "invariants": ["no-call-after-block"]},
}

CONTRACTS: dict[str, dict[str, Any]] = {
    "hard": {"assert": {"never": {"type": "policy_violation"}}, "title": "Nothing is violated"},
    "soft": {"assert": {"never": {"type": "policy_violation"}}, "gate": False},
    "draft": {
        "assert": {"never": {"type": "policy_violation"}},
        "status": "draft",
        "gate": False,
    },
    "strict": {
        "assert": {"never": {"type": "llm_request", "after": {"type": "policy_violation"}}},
        "vacuous": "indeterminate",
        "severity": "critical",
        "enforced_by": ["approval_gate"],
    },
    "old": {"assert": {"never": {"type": "policy_violation"}}, "status": "deprecated"},
    "no-call-after-block": {
        "assert": {"never": {"type": "llm_request", "after": {"type": "policy_violation"}}}
    },
}


class Shelf:
    """A library of a few contracts; what a real one adds has tests of its own."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.asked: list[str] = []
        self.is_lenient = False

    def resolve(
        self,
        contract_id: str,
        *,
        identities: Mapping[str, frozenset[str]] | None = None,
        beside: Sequence[Path] = (),
        shapes: Sequence[Shape] = (),
        aliases: Mapping[str, str] | None = None,
    ) -> Contract:
        self.asked.append(contract_id)
        body = CONTRACTS["hard"] if self.is_lenient else CONTRACTS.get(contract_id)
        if body is None:
            raise InputError(f"unknown contract (got '{contract_id}')", fix="write 'hard'")
        contract, faults = parse_contract(
            contract_id,
            body,
            registry=self.registry,
            identities=identities,
            shapes=shapes,
            aliases=aliases,
        )
        assert contract is not None, faults
        return contract

    def meet(self, tools: object, aliases: object, tags: object = ()) -> None:
        del tools, aliases, tags

    def pulled_in(self, facts: CaseFacts, beside: Sequence[Path] = ()) -> list[str]:
        del facts, beside
        return []

    def in_force(
        self, beside: Sequence[Path] = (), used: object = ()
    ) -> tuple[tuple[str, str, str], ...]:
        del beside, used
        return ()

    def why_broken(self, contract: Contract) -> str | None:
        del contract
        return None

    def corpus_row(self, contract: Contract) -> None:
        del contract


@pytest.fixture(scope="session")
def registry() -> Registry:
    made = load_registry()
    assert made.broken == []
    return made


class Project:
    """Files in a folder, and what loading one of them gives."""

    def __init__(self, root: Path, registry: Registry) -> None:
        self.root = root
        self.registry = registry
        self.shelf = Shelf(registry)
        self.write("graphs/send.json", json.dumps(GRAPH))

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def context(self, **more: Any) -> LoadContext:
        return LoadContext(
            root=self.root,
            registry=self.registry,
            library=cast("Library", self.shelf),
            **more,
        )

    def load(self, text: str | bytes, name: str = "s.yaml", **more: Any) -> list[Case]:
        return load_scenario(self.write(name, text), context=self.context(**more))

    def one(self, text: str, **more: Any) -> Case:
        (case,) = self.load(text, **more)
        return case

    def refused(self, text: str | bytes, **more: Any) -> str:
        with pytest.raises(InputError) as caught:
            self.load(text, **more)
        found = str(caught.value)
        # Holds for every message, so it is looked at in every test.
        for word in ("pydantic", "http://", "https://", "Traceback", str(self.root)):
            assert word not in found
        return found


@pytest.fixture
def project(tmp_path: Path, registry: Registry) -> Project:
    return Project(tmp_path, registry)


MINIMAL = "evarness: 1\nsubject: {graph: graphs/send.json}\n"


@pytest.fixture
def minimal() -> str:
    """Two lines to which a test adds its own, so that those begin on line 3."""
    return MINIMAL


Load = Callable[[str], list[Case]]
