"""``check`` and ``digest`` judge somebody else's traces; what cannot be judged never exits 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Command

ENDS = "contracts:\n  ends:\n    assert: {eventually: {type: run_finished}}\n"
NO_PAY = "contracts:\n  no-pay:\n    assert: {never: {type: custom.pay}}\n"
PAYS_ONCE = (
    "contracts:\n  once:\n    VACUOUS\n    assert: {at_most: {n: 1, of: {type: custom.pay}}}\n"
)


def event(seq: int, type: str, **payload: Any) -> dict[str, Any]:  # noqa: A002
    return {"seq": seq, "type": type, "node_id": None, "payload": payload}


def write_trace(name: str, *records: dict[str, Any]) -> None:
    Path(name).write_text("".join(f"{json.dumps(one)}\n" for one in records), encoding="utf-8")


def contracts(text: str, name: str = "c.yaml") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


@pytest.fixture
def good(command: Command) -> str:
    write_trace("good.jsonl", event(0, "run_started"), event(1, "run_finished"))
    return "good.jsonl"


def test_all_pass_is_exit_0_one_json_line_for_each_run_and_contract(
    command: Command, good: str
) -> None:
    both = contracts(ENDS + "  no-pay: {assert: {never: {type: custom.pay}}}\n")
    done = command("check", good, "--contracts", both, "--json")
    assert done.code == 0
    first, second = done.lines
    assert list(first) == [
        "run_id", "contract", "outcome", "causes", "leaning", "decisive_seq", "vacuous", "witness",
        "reason",
    ]  # fmt: skip
    assert (first["contract"], first["outcome"], first["decisive_seq"]) == ("ends", "pass", 1)
    assert first["witness"]["events"] == [1]
    assert second["witness"]["absent"] == ["no custom.pay in 0..1"]


def test_one_fail_is_exit_1_whatever_the_others_are(command: Command) -> None:
    write_trace("t.jsonl", event(0, "custom.pay"), event(1, "run_started"))
    done = command("check", "t.jsonl", "--contracts", contracts(NO_PAY), contracts(ENDS, "d.yaml"))
    assert done.code == 1
    assert done.out.splitlines() == [
        "fail: t.jsonl no-pay - event 0 is a custom.pay: that must never happen",
        (
            "indeterminate (unfinished_run): t.jsonl ends - the run is not over:"
            " closing it now would give fail"
        ),
        "0 pass, 0 vacuous, 1 indeterminate, 1 fail (1 run)",
    ]


def test_an_indeterminate_is_exit_3(command: Command) -> None:
    write_trace("t.jsonl", event(0, "run_started"))
    done = command("check", "t.jsonl", "--contracts", contracts(NO_PAY), "--json")
    assert done.code == 3
    assert (done.lines[0]["causes"], done.lines[0]["leaning"]) == (["unfinished_run"], "pass")


@pytest.mark.parametrize(
    "text",
    [
        "contracts:\n  bad: {assert: {nevr: {type: run_started}}}\n",
        "contracts:\n  bad: {assert: {never: {type: run_startd}}}\n",
        "contracts:\n  bad: {assert: {never: {type: run_started}}, corpus: []}\n",
    ],
)
def test_a_malformed_contract_is_indeterminate_and_not_exit_0(
    command: Command, good: str, text: str
) -> None:
    done = command("check", good, "--contracts", contracts(text), "--json")
    assert done.code == 3
    assert done.lines[0]["causes"] == ["evaluator_error"]
    assert "c.yaml:2:" in done.lines[0]["reason"]


def test_an_unknown_id_among_good_ones_is_indeterminate_with_the_nearest_name(
    command: Command, good: str
) -> None:
    assert command("check", good, "--contracts", "run-completes").code == 0
    done = command("check", good, "--contracts", "run-completes", "run-complets", "--json")
    assert done.code == 3
    assert [line["causes"] for line in done.lines] == [[], ["evaluator_error"]]
    assert "write 'run-completes'" in done.lines[1]["reason"]


def test_where_no_word_names_anything_it_is_wrong_input_said_once(
    command: Command, good: str
) -> None:
    write_trace("two.jsonl", event(0, "run_started"), event(1, "run_finished"))
    done = command("check", good, "two.jsonl", "--contracts", "run-complets")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "pytest-evarness: --contracts: neither a file nor the id of a packaged contract"
        " (got 'run-complets')\n  try: write 'run-completes'\n"
    )
    done = command("check", good, "--contracts", "zzz", "qqqq")
    assert (done.code, done.out) == (2, "")
    assert "'zzz'" in done.err
    assert "'qqqq'" in done.err


def test_vacuous_passes_are_counted_apart(command: Command, good: str) -> None:
    text = PAYS_ONCE.replace("    VACUOUS\n", "") + ENDS.replace("contracts:\n", "")
    done = command("check", good, "--contracts", contracts(text))
    assert done.code == 0
    first, second, last = done.out.splitlines()
    assert first.startswith("vacuous: good.jsonl once - ")
    assert second.startswith("pass: good.jsonl ends - ")
    assert last == "1 pass, 1 vacuous, 0 indeterminate, 0 fail (1 run)"
    counted_as_fail = contracts(PAYS_ONCE.replace("VACUOUS", "vacuous: fail"), "d.yaml")
    done = command("check", good, "--contracts", counted_as_fail)
    assert done.out.splitlines()[-1] == "0 pass, 0 vacuous, 0 indeterminate, 1 fail (1 run)"


@pytest.mark.parametrize(
    "words",
    [
        ("absent.jsonl", "--contracts", "c.yaml"),
        ("good.jsonl", "--contracts", "absent.yaml"),
        ("c.yaml", "--contracts", "c.yaml"),
        ("good.jsonl", "--contracts", "good.jsonl"),
        ("good.jsonl", "--contracts", "c.yaml", "c.yaml"),
        ("good.jsonl", "--contracts", "empty.yaml"),
        ("good.jsonl",),
    ],
)
def test_wrong_use_and_wrong_input_are_exit_2(
    command: Command, good: str, words: tuple[str, ...]
) -> None:
    contracts(ENDS)
    contracts("contracts: {}\n", "empty.yaml")
    done = command("check", *words)
    assert done.code == 2
    assert done.out == ""
    assert done.err


@pytest.mark.parametrize(
    ("vacuous", "code", "outcome"),
    [("pass", 0, "pass"), ("fail", 1, "fail"), ("indeterminate", 3, "indeterminate")],
)
def test_what_a_vacuous_pass_counts_as_is_the_contracts_choice(
    command: Command, good: str, vacuous: str, code: int, outcome: str
) -> None:
    text = PAYS_ONCE.replace("VACUOUS", f"vacuous: {vacuous}")
    done = command("check", good, "--contracts", contracts(text), "--json")
    assert (done.code, done.lines[0]["outcome"], done.lines[0]["vacuous"]) == (code, outcome, True)


def test_a_draft_is_shown_and_never_decides(command: Command) -> None:
    write_trace("t.jsonl", event(0, "custom.pay"), event(1, "run_finished"))
    draft = NO_PAY + "    status: draft\n"
    done = command(
        "check", "t.jsonl", "--contracts", contracts(draft + ENDS.replace("contracts:\n", ""))
    )
    assert done.code == 0
    assert done.out.startswith("draft, fail: t.jsonl no-pay")
    deprecated = command(
        "check", "t.jsonl", "--contracts", contracts(NO_PAY + "    status: deprecated\n")
    )
    assert deprecated.code == 1
    assert "c.yaml:2: 'no-pay' is deprecated" in deprecated.err


def test_a_type_that_the_sources_declare_is_known_and_another_is_not_covered(
    command: Command,
) -> None:
    header = {
        "trace": 1,
        "run_id": "r1",
        "sources": [{"id": "log", "types": ["theirs", "run_finished"]}],
    }
    write_trace("t.jsonl", header, event(0, "theirs", n=1), event(1, "run_finished"))
    theirs = contracts("contracts:\n  c: {assert: {eventually: {type: theirs, where: {n: 1}}}}\n")
    done = command("check", "t.jsonl", "--contracts", theirs, "--json")
    assert (done.code, done.lines[0]["run_id"]) == (0, "r1")
    calls = contracts("contracts:\n  c: {assert: {never: {type: tool_called}}}\n")
    done = command("check", "t.jsonl", "--contracts", calls, "--json")
    assert done.lines[0]["causes"] == ["missing_evidence"]


def test_control_characters_of_a_trace_do_not_reach_the_terminal(command: Command) -> None:
    header = {"trace": 1, "run_id": "\x1b[31mr", "closed": True}
    write_trace("t.jsonl", header, event(0, "custom.pay", x="\x1b[2J"), event(1, "run_finished"))
    done = command("check", "t.jsonl", "--contracts", contracts(NO_PAY))
    assert "\x1b" not in done.out
    assert "\x1b" not in command("digest", "t.jsonl").out


def test_digest_is_blind_to_timing_and_sharp_on_content_and_order(command: Command) -> None:
    a = [event(0, "run_started", order=7), event(1, "run_finished")]
    timed = [{**one, "ts": f"2024-05-01T10:00:0{at}Z"} for at, one in enumerate(a)]
    other = [event(0, "run_started", order=8), event(1, "run_finished")]
    swapped = [event(0, "run_finished"), event(1, "run_started", order=7)]
    digests = []
    for records in (a, timed, other, swapped):
        write_trace("t.jsonl", *records)
        done = command("digest", "t.jsonl", "--json")
        assert done.code == 0
        (line,) = done.lines
        assert list(line) == ["run_id", "events", "trace_digest", "chain_digest"]
        digests.append((line["trace_digest"], line["chain_digest"]))
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    assert command("digest", "absent.jsonl").code == 2


def test_a_type_that_nearly_is_a_known_one_is_remarked(command: Command) -> None:
    write_trace(
        "odd.jsonl",
        event(0, "run_started"),
        event(1, "tool_caled"),
        event(2, "Tool_Called"),
        event(3, "zebra"),
        event(4, "run_finished"),
    )
    done = command("check", "odd.jsonl", "--contracts", contracts(NO_PAY))
    assert done.code == 0
    assert done.err.count("odd.jsonl: warning: 1 event of a type that no source declares") == 2
    assert "(got 'tool_caled'; 'tool_called' is known" in done.err
    assert "zebra" not in done.err, "a recorder may have types of its own"


def test_a_declared_type_is_no_slip(command: Command) -> None:
    source = {"id": "log", "types": ["run_started", "tool_caled", "run_finished"]}
    header = {"trace": 1, "run_id": "a", "sources": [source]}
    events = [event(0, "run_started"), event(1, "tool_caled"), event(2, "run_finished")]
    write_trace("own.jsonl", header, *events)
    assert "warning" not in command("check", "own.jsonl", "--contracts", contracts(ENDS)).err


def test_a_file_cut_between_two_lines_passes_nothing(command: Command) -> None:
    header = {"trace": 1, "run_id": "a", "closed": True}
    whole = [event(0, "run_started"), event(1, "custom.a"), event(2, "run_finished")]
    write_trace("whole.jsonl", header, *whole)
    write_trace("cut.jsonl", header, *whole[:2])
    never = contracts(NO_PAY)
    assert command("check", "whole.jsonl", "--contracts", never).code == 0
    done = command("check", "cut.jsonl", "--contracts", never)
    assert done.code == 3
    assert "unfinished_run" in done.out


@pytest.mark.parametrize(
    ("applies", "is_told"),
    [
        ("applies_to: {tags: [payments]}", True),
        ("applies_to: {node_types: [approval_gate]}", True),
        ("applies_to: {always: true}", False),
        ("owner: somebody", False),
    ],
)
def test_that_applies_to_was_not_looked_at_is_said_once(
    command: Command, good: str, applies: str, is_told: bool
) -> None:
    text = f"contracts: {{ends: {{{applies}, assert: {{eventually: {{type: run_finished}}}}}}}}\n"
    for words in ((), ("--json",)):
        done = command("check", good, good, "--contracts", contracts(text), *words)
        assert done.code == 0
        remark = (
            "remark: applies_to was not looked at, since a trace tells no graph, tags or mode:"
            " ends judged every run"
        )
        assert done.err.splitlines().count(remark) == (1 if is_told else 0)


def test_the_remark_on_applies_to_is_short(command: Command, good: str) -> None:
    body = "{applies_to: {tags: [x]}, assert: {eventually: {type: run_finished}}}"
    many = "contracts:\n" + "".join(f"  c{number}: {body}\n" for number in range(13))
    done = command("check", good, "--contracts", contracts(many))
    (remark,) = [line for line in done.err.splitlines() if "applies_to" in line]
    assert remark.endswith("c8, c9 and 3 more judged every run")


def test_types_without_a_schema_are_named_once(command: Command, good: str) -> None:
    text = "contracts: {quiet: {assert: {never: {type: TYPE, where: {node_id: x}}}}}\n"
    remark = "remark: no schema is known of these types, so that paths into them were not checked: "
    path = contracts(text.replace("TYPE", "custom.note"))
    done = command("check", good, good, "--contracts", path)
    assert [line for line in done.err.splitlines() if "schema" in line] == [f"{remark}custom.note"]
    # The twin: a type that is known, whose paths are checked.
    done = command("check", good, "--contracts", contracts(text.replace("TYPE", "tool_called")))
    assert (done.code, remark in done.err) == (3, False)
