"""Ratio of judging parsed events to parsing them: real agent events, one thread, one run.

    python benchmarks/contracts.py [EVENTS]

Repeats the real traces with fresh ids up to EVENTS (1,000,000), as one long trace, and as the
separate runs that they are. Prints the time of 8 and of 40 contracts in units of ``json.loads``
over the same lines; the marks to beat are 0.5 and 1.2.
"""

from __future__ import annotations

import gc
import json
import re
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from pytest_evarness.contract.evaluate import Evaluator
from pytest_evarness.contract.model import Contract, parse_contract
from pytest_evarness.core.registry import Registry, load_registry
from pytest_evarness.core.trace import Trace

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "traces"
CALLED, RESULT = "custom.tool_called", "custom.tool_result"
HUMAN, MODEL = "custom.human_input", "custom.llm_called"
CHANGES = ["cancel_reservation", "update_reservation_flights", "update_reservation_baggages"]
FAILED = {"exists": True, "ne": None}

# Contracts that hold, or stay open, over agent traces of any length: nothing is decided early, so
# every one of them is fed to the last event.
WRITTEN: dict[str, Any] = {
    "calls-are-answered": {
        "leads_to": {
            "when": {"type": CALLED, "bind": {"c": "call_id"}},
            "then": {"type": RESULT, "where": {"call_id": "$c"}},
        }
    },
    "results-were-called": {
        "precedes": {
            "first": {"type": CALLED, "where": {"call_id": "$c"}},
            "second": {"type": RESULT, "bind": {"c": "call_id"}},
            "fresh": True,
        }
    },
    "no-wire-transfer": {"never": {"type": CALLED, "where": {"name": "wire_money"}}},
    "no-delete": {"never": {"type": CALLED, "where": {"name": {"in": ["delete_user", "drop"]}}}},
    "calls-have-ids": {
        "every": {"match": {"type": CALLED}, "where": {"call_id": {"exists": True}}}
    },
    "books-for-a-user": {
        "every": {
            "match": {"type": CALLED, "where": {"name": "book_reservation"}},
            "where": {"args.user_id": {"exists": True}},
        }
    },
    "asks-are-heard": {
        "leads_to": {
            "when": {"type": HUMAN},
            "then": {"any": [{"type": MODEL}, {"type": "run_finished"}]},
        }
    },
    "kinds-are-known": {
        "every": {
            "match": {"type": [CALLED, RESULT]},
            "where": {"kind": {"in": ["read", "write", "generic"]}},
        }
    },
    "no-shell": {"never": {"type": CALLED, "where": {"name": "shell"}}},
    "no-call-after-shutdown": {"never": {"type": CALLED, "after": {"type": "run_failed"}}},
    "no-write-after-ban": {
        "never": {
            "type": CALLED,
            "where": {"kind": "write"},
            "after": {"type": RESULT, "where": {"name": "ban_user"}},
        }
    },
    "no-lookup-between-lock-and-unlock": {
        "never": {
            "type": CALLED,
            "where": {"name": "get_user_details"},
            "between": [
                {"type": RESULT, "where": {"name": "lock"}},
                {"type": RESULT, "where": {"name": "unlock"}},
            ],
        }
    },
    "user-known-before-booking": {
        "precedes": {
            "first": {"type": CALLED, "where": {"name": "get_user_details"}},
            "second": {"type": CALLED, "where": {"name": "book_reservation_now"}},
            "fresh": True,
        }
    },
    "refund-needs-approval": {
        "precedes": {
            "first": {"type": "custom.approval", "where": {"digest": "$d"}},
            "second": {"type": CALLED, "where": {"name": "refund"}, "bind": {"d": "args_digest"}},
        }
    },
    "models-say-something": {
        "every": {
            "match": {"type": MODEL, "where": {"n_calls": 0}},
            "where": {"text": {"exists": True}},
        }
    },
    "one-result-per-call": {"at_most": {"n": 1000000, "of": {"type": RESULT}}},
    "few-transfers": {
        "at_most": {
            "n": 1000000,
            "of": {"type": CALLED, "where": {"name": "transfer_to_human_agents"}},
        }
    },
    "no-secret-in-args": {"never": {"type": CALLED, "where": {"args": {"secret": "any"}}}},
    "no-password": {"never": {"type": MODEL, "where": {"text": {"pattern": "(?i)password is"}}}},
    "no-key-in-answers": {"never": {"type": MODEL, "where": {"text": {"contains": "BEGIN KEY"}}}},
    "text-is-short": {
        "every": {"match": {"type": HUMAN}, "where": {"text": {"length": {"lte": 5000}}}}
    },
    "at-most-nine-calls": {"every": {"match": {"type": MODEL}, "where": {"n_calls": {"lte": 9}}}},
    "search-is-read": {
        "never": {"type": CALLED, "where": {"name": "search_direct_flight", "kind": "write"}}
    },
    "onestop-is-read": {
        "never": {"type": CALLED, "where": {"name": "search_onestop_flight", "kind": "write"}}
    },
    "details-are-read": {
        "every": {
            "match": {"type": CALLED, "where": {"name": "get_reservation_details"}},
            "where": {"kind": "read"},
        }
    },
    "changes-name-a-reservation": {
        "every": {
            "match": {"type": CALLED, "where": {"name": {"in": CHANGES}}},
            "where": {"args.reservation_id": {"exists": True}},
        }
    },
    "failed-write-is-reported": {
        "leads_to": {
            "when": {"type": RESULT, "where": {"kind": "write", "error": FAILED}},
            "then": {"type": MODEL},
        }
    },
    "no-negative-price": {
        "never": {"type": CALLED, "where": {"name": "book_reservation", "args.total": {"lt": 0}}}
    },
    "calculator-is-generic": {
        "every": {
            "match": {"type": CALLED, "where": {"name": "calculate"}},
            "where": {"kind": "generic"},
        }
    },
    "seen-before-cancel": {
        "precedes": {
            "first": {
                "type": CALLED,
                "where": {"name": "get_reservation_details", "args.reservation_id": "$r"},
            },
            "second": {
                "type": CALLED,
                "where": {"name": "cancel_everything"},
                "bind": {"r": "args.reservation_id"},
            },
        }
    },
    "no-result-for-nobody": {"never": {"type": RESULT, "where": {"name": "nobody"}}},
}


def contracts(registry: Registry) -> list[Contract]:
    bodies = dict(WRITTEN)
    packaged = Path(__file__).parents[1] / "pytest_evarness/contract/packaged"
    for path in sorted(packaged.glob("*.yaml")):
        for key, value in yaml.safe_load(path.read_text(encoding="utf-8"))["contracts"].items():
            bodies[key] = value["assert"]
    kept = []
    for key, body in bodies.items():
        contract, faults = parse_contract(key, {"assert": body}, registry=registry)
        assert contract is not None, (key, faults)
        kept.append(contract)
    return kept


def tau(registry: Registry) -> list[Contract]:
    document = yaml.safe_load((FOLDER / "tau.contracts.yaml").read_text(encoding="utf-8"))
    found = [parse_contract(k, v, registry=registry)[0] for k, v in document["contracts"].items()]
    return [contract for contract in found if contract is not None]


def repeated(count: int) -> list[list[str]]:
    """Lines of at least ``count`` events, by run; every id is its own in each repetition."""
    runs: list[list[str]] = []
    for line in (FOLDER / "tau.jsonl").read_text(encoding="utf-8").splitlines():
        if line.startswith('{"trace"'):
            runs.append([])
        else:
            runs[-1].append(line)
    ids = re.compile(r'"((?:provider_)?call_id)": "([^"]*)"')
    made: list[list[str]] = []
    total = turn = 0
    while total < count:
        for at, run in enumerate(runs):
            mark = f"{turn:x}.{at:x}"
            made.append([ids.sub(rf'"\1": "\2.{mark}"', line) for line in run])
            total += len(run)
        turn += 1
    return made


def timed(action: Any) -> float:
    gc.collect()
    start = time.process_time()
    action()
    return time.process_time() - start


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    registry = load_registry()
    runs = repeated(count)
    lines = [line for run in runs for line in run if '"run_finished"' not in line]
    size = sum(map(len, lines)) / len(lines)
    events: list[Any] = []

    def parse() -> None:
        # Nothing is kept: keeping the events would cost more than parsing them.
        for line in lines:
            json.loads(line)

    base = min(timed(parse) for _ in range(3))
    events.extend(json.loads(line) for line in lines)
    for seq, event in enumerate(events):
        event["seq"] = seq
    print(
        f"{len(events)} events of {size:.0f} bytes;"
        f" json.loads takes {base / len(events) * 1e6:.2f} us each"
    )
    mine = contracts(registry)
    chosen = {
        "8 contracts": mine[:8],
        "8 tau contracts": tau(registry)[2:10],
        "40 contracts": mine[:40],
        "40 contracts, 18 of tau": [*tau(registry), *mine[:22]],
    }
    trace = Trace(events, closed=True)
    for name, some in chosen.items():
        judge = Evaluator(some, registry)
        spent = min(timed(partial(judge.evaluate, trace)) for _ in range(3))
        outcomes = [finding.outcome.word for finding in judge.evaluate(trace)]
        words = ", ".join(
            f"{outcomes.count(word)} {word}" for word in ("pass", "fail", "indeterminate")
        )
        print(f"one trace, {name} ({len(some)}): {spent / base:.3f} of json.loads ({words})")
    del events[:], trace
    whole = [line for run in runs for line in run]
    parsed: list[list[Any]] = []

    def parse_runs() -> None:
        for run in runs:
            [json.loads(line) for line in run]

    base = min(timed(parse_runs) for _ in range(2))
    parsed.extend([json.loads(line) for line in run] for run in runs)
    traces = [Trace(run, closed=True) for run in parsed]
    for name, some in chosen.items():
        judge = Evaluator(some, registry)

        def each(judge: Evaluator = judge) -> None:
            for one in traces:
                judge.evaluate(one)

        print(
            f"{len(runs)} runs of {len(whole) / len(runs):.0f} events, {name} ({len(some)}):"
            f" {timed(each) / base:.3f} of json.loads"
        )


if __name__ == "__main__":
    main()
