"""What the README promises is what a copy of this repository does, and it names no machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_evarness
from tests.plugin.scenarios import write

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"

# The block that runs the tests runs this file too: a copy of the copy would never end.
INSIDE = "EVARNESS_TEST_INSIDE_README"


def block(marker: str) -> str:
    """The fenced block after ``<!-- marker -->``, as it stands."""
    pattern = rf"<!-- {re.escape(marker)} -->\n```\w+\n(.*?)```"
    (found,) = re.findall(pattern, README.read_text(encoding="utf-8"), re.DOTALL)
    return str(found)


def tracked() -> list[str]:
    """Files of the repository, new ones included; all files where it is no repository."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git repository")
    names = done.stdout.decode("utf-8").split("\0")
    return sorted(name for name in names if name and (ROOT / name).is_file())


def test_the_example_is_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write(tmp_path / "scenarios" / "send.yaml", block("example: send"))
    for case in ("approve", "reject", "pending"):
        result = pytest_evarness.run("scenarios/send.yaml", case, root=tmp_path, rerun="inline")
        assert result.verdict == "valid", case
        for finding in result.findings:
            assert finding.outcome.word == "pass", (case, finding.id, finding.reason)


def test_the_blocks_are_commands_of_one_line() -> None:
    for marker in ("run: main", "run: tests"):
        assert block(marker).count("\n") == 1


def test_every_link_to_a_page_leads_somewhere() -> None:
    pages = [name for name in tracked() if name.endswith(".md")]
    missing = []
    for page in pages:
        text = (ROOT / page).read_text(encoding="utf-8")
        text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" in target or target.startswith("mailto:"):
                continue
            if not ((ROOT / page).parent / target).exists():
                missing.append(f"{page}: {target}")
    assert missing == []


# Spelled in pieces, so that this file does not name them itself.
FOLDERS = ("ho" + "me", "Us" + "ers", "wo" + "rk", "ro" + "ot")
HOSTS = (r"pypi\." + "org", r"files\.python" + "hosted", r"registry\." + "npm", "index-" + "url")
FOREIGN = {
    "a path of a machine": re.compile(rf"(?<![\w.])/(?:{'|'.join(FOLDERS)})/\w"),
    "a package registry": re.compile("|".join(HOSTS)),
}


def test_no_file_names_a_path_of_a_machine_or_a_registry() -> None:
    found = []
    for name in tracked():
        data = (ROOT / name).read_bytes()
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode("utf-8").splitlines(), 1):
            for what, pattern in FOREIGN.items():
                if pattern.search(line):
                    found.append(f"{name}:{number}: {what}: {line.strip()[:100]}")
    assert found == []


@pytest.mark.parametrize(
    "text", [f"see /{FOLDERS[2]}/main/x", f"--{HOSTS[3]}=x", f"(/{FOLDERS[0]}/someone/x)"]
)
def test_the_look_for_such_names_can_find_one(text: str) -> None:
    assert any(pattern.search(text) for pattern in FOREIGN.values())


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The repository's files in an empty folder, without its history or anything that was built."""
    target = tmp_path / "copy"
    for name in tracked():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((ROOT / name).read_bytes())
        path.chmod((ROOT / name).stat().st_mode & 0o777)
    return target


def shell(folder: Path, command: str, home: Path, **variables: str) -> str:
    """What a reader who types the command sees; the test fails where the command does."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "EVARNESS_", "VIRTUAL_ENV", "PYTHON"))
    }
    # The interpreter that runs these tests is the reader's python3.
    first = f"{Path(sys.base_prefix) / 'bin'}{os.pathsep}{kept.get('PATH', '')}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**kept, "PATH": first, "HOME": str(home), **configuration(), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def configuration() -> dict[str, str]:
    """Where pip is told of its index by a file in the home folder, the new home lacks it."""
    candidates = [Path.home() / ".config" / "pip" / "pip.conf", Path.home() / ".pip" / "pip.conf"]
    file = next((path for path in candidates if path.is_file()), None)
    return {} if file is None or "PIP_CONFIG_FILE" in os.environ else {"PIP_CONFIG_FILE": str(file)}


inside = pytest.mark.skipif(INSIDE in os.environ, reason="this is the copy that the README made")


@inside
@pytest.mark.slow
def test_one_command_leaves_a_bundle_that_verifies_and_the_other_runs_the_tests(
    copy: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    text = shell(copy, block("run: main"), home, **{INSIDE: "1"})
    assert " holds: every planned case ran, was judged, and holds" in text
    assert (copy / ".evarness" / "proof.json").is_file()
    verify = "pytest-evarness verify .evarness/proof.json --key ~/.evarness/signing.pem.pub"
    assert verify in README.read_text(encoding="utf-8")
    text = shell(copy, f". .venv/bin/activate && {verify}", home)
    assert "VERIFIED, HOLDS" in text
    # A small part of them: that all of them pass is what running them all shows.
    some = "tests/core/test_clock.py tests/test_readme.py"
    text = shell(copy, block("run: tests"), home, **{INSIDE: "1", "PYTEST_ADDOPTS": some})
    assert re.search(r"\d+ passed", text)
    assert "failed" not in text
