"""Whatever a run says, and wherever it says it, every command shows it as text and without secrets.

One run sends a text through each channel that it has: events, the answer, an exception, standard
streams, logs, files and their names, requests, rows, what commands and scripts of checks print. All
commands that read a run or its bundle then have to show it.
"""

from __future__ import annotations

import base64
import json
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from xml.etree.ElementTree import fromstring

import pytest

from tests.attacks import ATTACKS, FORGED
from tests.plugin.scenarios import graph, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Command
    from tests.plugin.ran import Session

NAME = "DESK_TOKEN"
VALUE = "hunter22+live=key"
FORMS = (
    VALUE,
    base64.b64encode(VALUE.encode()).decode(),
    VALUE.encode().hex(),
    quote(VALUE, safe=""),
)

STEPS = """
import base64
import http.client
import logging
import os
import sqlite3
import sys
from pathlib import Path
from urllib.parse import quote

HERE = Path(__file__).parent


def said():
    value = os.environ["DESK_TOKEN"]
    forms = (
        value,
        base64.b64encode(value.encode()).decode(),
        value.encode().hex(),
        quote(value, safe=""),
    )
    attack = (HERE / "attack.txt").read_text(encoding="utf-8", errors="surrogatepass")
    return f"{attack} {' '.join(forms)}"


def act(inputs, config, context):
    text = said()
    context.emit("custom.note", {"text": text, "in": [{"deep": text}], text[-40:]: 1})
    # Printed is printed: a terminal is the step's own to colour.
    print(text.replace("\x1b", ""))
    print(text.replace("\x1b", ""), file=sys.stderr)
    logging.getLogger("desk").warning("%s", text)
    data = text.encode("utf-8", "backslashreplace")
    (context.workspace / "out.txt").write_bytes(data)
    name = f"left \\x1b[2J{os.environ['DESK_TOKEN']}\\u202e.txt"
    (context.workspace / name).write_text("x")
    with sqlite3.connect(context.services["db"]["path"]) as database:
        database.execute("INSERT INTO t (x) VALUES (?)", (data.decode("utf-8"),))
    database.close()
    place = context.services["mail"]
    connection = http.client.HTTPConnection(place["host"], place["port"], timeout=10)
    headers = {"X-Told": quote(text[:2000])}
    connection.request("POST", "/m?t=" + quote(data[:2000]), data, headers)
    connection.getresponse().read()
    connection.close()
    return {"out": text}


def fail(inputs, config, context):
    raise ValueError(said())
"""

SCRIPT = """
import json, sys
context = json.load(sys.stdin)
text = open(context["workspace_path"] + "/out.txt", encoding="utf-8", newline="").read()
print(text[:5000], file=sys.stderr)
json.dump({"passed": False, "score": 0, "reason": text[:20000]}, sys.stdout)
"""


def scenario(function: str) -> dict[str, Any]:
    def told(check: dict[str, Any]) -> dict[str, Any]:
        return {"description": "it is told", "check": check}

    nodes: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("n1", "input", {}),
        ("n2", "python", {"callable": f"evarness_channel_steps:{function}"}),
        ("n3", "output", {}),
    )
    acted: dict[str, Any] = {
        "answer": told({"type": "trace", "assert": {"never": {"type": "run_finished"}}}),
        "note": told(
            {
                "type": "trace",
                "assert": {
                    "every": {
                        "match": {"type": "custom.note"},
                        "where": {"text": {"equals": "something else"}},
                    }
                },
            }
        ),
        "undecided": told(
            {
                "type": "trace",
                "assert": {"never": {"type": "custom.note", "where": {"text": {"gt": 3}}}},
            }
        ),
        "file": told({"type": "file_content", "path": "out.txt", "equals": "something else"}),
        "clean": told({"type": "file_absent", "glob": "*"}),
        "mail": told(
            {
                "type": "http_mock_assertions",
                "service": "mail",
                "assertions": [
                    {"field": "last_request.path", "equals": "/else"},
                    {"field": "last_request.query.t", "equals": "else"},
                    {"field": "last_request.body", "equals": "else"},
                ],
            }
        ),
        "row": told(
            {"type": "sql", "service": "db", "query": "SELECT x FROM t", "equals": "something"}
        ),
        "script": told({"type": "custom", "script": "told.py"}),
        "command": told(
            {"type": "command_exit", "command": "cat out.txt; cat out.txt >&2; exit 3"}
        ),
    }
    return {
        "evarness": 1,
        "id": "s",
        "secrets": [NAME],
        "subject": {"graph": graph(*nodes)},
        "environment": {
            "workspace": {},
            "services": {
                "mail": {"type": "http_mock", "default_response": 202},
                "db": {"type": "sqlite", "init": "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT)"},
            },
        },
        "forbidden": {"file_writes_outside": ["drafts"]},
        "invariants": acted if function == "act" else {"answer": acted["answer"]},
    }


TODAY = """
contracts:
  answer: {assert: {never: {type: run_finished}}}
  quiet: {assert: {never: {type: custom.note}}}
  ends-well: {assert: {every: {match: {type: [run_finished, run_failed, engine_error]},
    where: {error: {equals: something else}}}}}
"""


@pytest.fixture
def project(command: Command, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(NAME, VALUE)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.delitem(__import__("sys").modules, "evarness_channel_steps", raising=False)
    write(Path("evarness_channel_steps.py"), STEPS)
    write(Path("scenarios/told.py"), SCRIPT)
    write(Path("today.yaml"), TODAY)
    return Path("scenarios/s.yaml")


def every_surface(command: Command, path: Path, function: str) -> Iterator[tuple[str, str]]:
    """Name and text of everything that is shown of one run."""

    def done(*words: str | Path, name: str = "") -> Iterator[tuple[str, str]]:
        made = command(*words)
        assert made.code in (0, 1, 3), made.err
        for side, text in (("out", made.out), ("err", made.err)):
            yield f"{words[0]} {name} {side}", text

    write(path, scenario(function))
    unsigned = ("--unsigned", "--rerun", "inline")
    yield from done("prove", path, "-o", "a.json", *unsigned)
    yield from done("prove", path, "-o", "b.json", *unsigned, "--json", name="json")
    yield from done("run", path)
    yield from done("run", path, "--json", name="json")
    yield from done("explain", "a.json")
    for item in scenario(function)["invariants"]:
        yield from done("explain", "a.json", f"default::{item}", name=item)
    yield from done("explain", "a.json", "--json", name="json")
    yield from done("retro", "a.json", "--contracts", "today.yaml")
    yield from done("retro", "a.json", "--contracts", "today.yaml", "--json", name="json")
    yield from done("render", "a.json", "--jsonl", "a.jsonl", "--junit", "a.xml")
    for name in ("a.jsonl", "a.xml"):
        yield name, Path(name).read_text(encoding="utf-8")
    fromstring(Path("a.xml").read_bytes())
    yield from done("check", "a.jsonl", "--contracts", "today.yaml")
    yield from done("check", "a.jsonl", "--contracts", "today.yaml", "--json", name="json")
    yield from done("digest", "a.jsonl")
    if function == "act":
        yield from done("slice", "a.json", "default::note")
    write(path, scenario("fail" if function == "act" else "act"))
    yield from done("prove", path, "-o", "b.json", *unsigned)
    yield from done("diff", "a.json", "b.json")
    yield from done("diff", "a.json", "b.json", "--json", name="json")
    verified = command("verify", "a.json")
    yield "verify", verified.out + verified.err
    statement = json.loads(base64.b64decode(json.loads(Path("a.json").read_bytes())["payload"]))
    yield "bundle", json.dumps(statement, ensure_ascii=False)
    for log in Path(".evarness/runs").rglob("*.jsonl"):
        yield f"log {log.name}", log.read_text(encoding="utf-8")


# What a step prints is its own output, and stands where no result of ours does.
OWN_OUTPUT = ("prove  err", "prove json err", "run  err", "run json err")


def odd(text: str) -> list[str]:
    return sorted(
        {
            f"U+{ord(char):04X}"
            for char in text
            if char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        }
    )


def check_surface(name: str, text: str) -> None:
    plain = json.dumps(text, ensure_ascii=False)
    for form in FORMS:
        assert form not in text, (name, form)
        assert form not in plain, (name, form)
        assert form not in text.replace("\\\\", "\\"), (name, form)
    if name in ("bundle", *OWN_OUTPUT) or name.startswith("log "):
        return
    assert odd(text) == [], name
    lines = [line.strip() for line in text.split("\n")]
    assert [line for line in lines if line in FORGED] == [], name


@pytest.mark.parametrize("function", ["act", "fail"])
@pytest.mark.parametrize(
    "attack", ["report lines", "xml", "colours", "bidi", "invisible", "line ends", "c1 controls"]
)
def test_no_command_shows_a_secret_or_lets_a_text_act(
    command: Command, project: Path, function: str, attack: str
) -> None:
    Path("attack.txt").write_text(ATTACKS[attack], encoding="utf-8")
    for name, text in every_surface(command, project, function):
        check_surface(name, text)


@pytest.mark.parametrize("function", ["act", "fail"])
def test_no_session_shows_a_secret_either(
    session: Session, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv(NAME, VALUE)
    files = {
        "scenarios/s.yaml": scenario(function),
        "scenarios/told.py": SCRIPT,
        "evarness_channel_steps.py": STEPS,
        "attack.txt": ATTACKS["xml"],
    }
    words = ("--evarness-junit=out.xml", "--junitxml=own.xml", "--log-file=live.log")
    ran = session("-rA", "-vv", "--evarness-unsigned", *words, "-o", "log_cli=true", files=files)
    assert ran.code == 1, ran.text
    surfaces = {"terminal": ran.text, "statement": json.dumps(ran.statement, ensure_ascii=False)}
    paths = [ran.root / name for name in ("out.xml", "own.xml", "live.log")]
    paths += (ran.root / ".evarness").rglob("*.json*")
    surfaces.update({path.name: path.read_text(encoding="utf-8") for path in paths})
    assert "«secret:DESK_TOKEN»" in surfaces["terminal"]
    for name, text in surfaces.items():
        for form in FORMS:
            assert form not in text, (name, form)


def test_what_a_step_prints_is_no_result(command: Command, project: Path) -> None:
    Path("attack.txt").write_text(ATTACKS["report lines"], encoding="utf-8")
    write(project, scenario("act"))
    unsigned = ("-o", "a.json", "--unsigned", "--rerun", "inline")
    for words in (("prove", project, *unsigned), ("run", project)):
        done = command(*words)
        assert FORGED[0] not in done.out.splitlines()
        assert FORGED[0] in done.err.splitlines()
    # What a program reads is whole.
    assert command("prove", project, *unsigned, "--json").json["holds"] is False
    assert command("run", project, "--json").lines[-1]["type"] == "run_finished"


def test_names_on_the_command_line_are_shown_as_text(command: Command) -> None:
    event = {"seq": 0, "type": "run_finished", "node_id": None, "payload": {}}
    name = "a\x1b[2J\u202eb.jsonl"
    Path(name).write_text(json.dumps(event) + "\n", encoding="utf-8")
    for words in (
        ("digest", name),
        ("check", name, "--contracts", "run-completes"),
        ("keygen", f"{name}.pem"),
        ("keygen", f"{name}.pem"),
        ("verify", name),
        ("verify", name, "--trust-dir", name),
        ("explain", name),
        ("lint", name),
        ("prove", name),
        ("run", name),
        ("slice", name, name),
        ("retro", name, "--contracts", name),
        ("diff", name, name),
        ("render", name, "--junit", name),
        ("mutate", name),
        ("contracts", "show", name),
        ("schema", name),
        (name,),
    ):
        done = command(*words)
        assert odd(done.out + done.err) == [], words


# -- the twins ---------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_surface_with_a_secret_would_be_noticed(form: str) -> None:
    check_surface("bundle", "nothing of the kind")
    with pytest.raises(AssertionError):
        check_surface("bundle", f"one {form} three")


@pytest.mark.parametrize("text", [*FORGED, "a\x1bb", "a\u202eb", "a\u2028b"])
def test_a_surface_that_lets_a_text_act_would_be_noticed(text: str) -> None:
    with pytest.raises(AssertionError):
        check_surface("explain", f"one\n  {text}\nthree")
