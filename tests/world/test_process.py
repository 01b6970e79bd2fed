"""A command ends by a code, a signal or its time limit, and nothing of it lives on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.world import process
from pytest_evarness.world.process import (
    CannotRunError,
    Captured,
    Ended,
    plain_environment,
    run_command,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="commands are run on POSIX systems")

ON_LINUX = sys.platform.startswith("linux")
LONG = 600  # seconds that no test waits for


def run(command: str, folder: Path, *, seconds: float = 60, **more: object) -> Ended:
    return run_command(
        ["sh", "-c", command],
        cwd=folder,
        env=plain_environment(folder),
        seconds=seconds,
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture
def mark() -> str:
    """A number of seconds that no other process on this machine sleeps."""
    return f"{LONG}.{uuid.uuid4().int % 10**12:012d}"


def sleeping(mark: str) -> list[int]:
    """Processes, ended ones that nobody collected included, which were told to sleep so long."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"sleep", mark.encode()]:
                found.append(int(folder.name))
    return found


LIMITS = (0.5, 2, 8, 32)
"""Seconds for what ends at its limit: a longer one where the machine had no time to begin."""


def settled(mark: str) -> list[int]:
    """The same once somebody else has had the time to end them; a kill is not an instant."""
    for _ in range(6000):
        if not sleeping(mark):
            break
        time.sleep(0.01)
    return sleeping(mark)


# -- how it ends -------------------------------------------------------------------------------


def test_it_ends_by_its_exit_code_and_keeps_output_without_a_last_line_break(
    tmp_path: Path,
) -> None:
    ended = run("printf line; printf oh >&2; exit 4", tmp_path)
    assert (ended.exit_code, ended.signal, ended.timed_out) == (4, None, False)
    assert (ended.stdout.head, ended.stderr.head) == ("line", "oh")


def test_death_by_a_signal_is_no_exit_code(tmp_path: Path) -> None:
    ended = run("kill -9 $$", tmp_path)
    assert (ended.exit_code, ended.signal, ended.timed_out) == (None, 9, False)


def test_the_time_limit_is_no_exit_code_either(tmp_path: Path, mark: str) -> None:
    for seconds in LIMITS:
        ended = run(f"echo begun; sleep {mark}", tmp_path, seconds=seconds)
        if ended.stdout.head:
            break
    assert (ended.exit_code, ended.signal, ended.timed_out) == (None, None, True)
    assert ended.stdout.head == "begun\n"


def test_what_cannot_be_started_is_said(tmp_path: Path) -> None:
    with pytest.raises(CannotRunError, match=r"^the program could not be started \(No such file"):
        run_command(["no-such-program-here"], cwd=tmp_path, env={}, seconds=60)
    with pytest.raises(CannotRunError, match=r"^the program could not be started \(No such file"):
        run_command(["true"], cwd=tmp_path / "gone", env={"PATH": os.defpath}, seconds=60)


# -- nothing is left ---------------------------------------------------------------------------


@pytest.mark.skipif(not ON_LINUX, reason="looks into /proc")
def test_this_file_would_notice_a_process_that_is_left(tmp_path: Path, mark: str) -> None:
    other = subprocess.Popen(["sleep", mark], cwd=tmp_path)
    try:
        while not sleeping(mark):
            assert other.poll() is None
            time.sleep(0.01)
        assert sleeping(mark) == [other.pid]
    finally:
        other.kill()
        other.wait()
    assert sleeping(mark) == []


@pytest.mark.skipif(not ON_LINUX, reason="looks into /proc")
@pytest.mark.parametrize(
    "command",
    [
        "sleep MARK & sleep MARK; echo never",
        "setsid sleep MARK & sleep MARK",
        "(setsid sh -c 'setsid sleep MARK & sleep MARK' &) ; sleep MARK",
        "trap '' TERM INT HUP; sleep MARK & wait",
        "nohup sleep MARK > /dev/null 2>&1 & exec sleep MARK",
    ],
)
def test_at_the_limit_all_of_it_is_ended(command: str, tmp_path: Path, mark: str) -> None:
    ended = run(command.replace("MARK", mark), tmp_path, seconds=0.5)
    assert ended.timed_out
    assert sleeping(mark) == []


@pytest.mark.skipif(not ON_LINUX, reason="looks into /proc")
@pytest.mark.parametrize("how", ["sleep MARK &", "setsid sleep MARK &", "(setsid sleep MARK &);"])
def test_what_a_command_leaves_behind_does_not_hold_up_its_result(
    how: str, tmp_path: Path, mark: str
) -> None:
    # It holds the pipe open: who waited for its end would wait ten minutes.
    ended = run(f"{how.replace('MARK', mark)} echo done; exit 3", tmp_path)
    assert (ended.exit_code, ended.stdout.head, ended.left) == (3, "done\n", 1)
    assert sleeping(mark) == []


def test_what_ends_by_itself_a_moment_later_is_waited_for(tmp_path: Path) -> None:
    ended = run("(sleep 0.1; echo late) & echo now", tmp_path)
    assert (ended.exit_code, ended.stdout.head, ended.left) == (0, "now\nlate\n", 0)


CALLER = """\
import signal, sys
from pathlib import Path
# Whoever runs these tests in the background has it ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
from pytest_evarness.world.process import plain_environment, run_command
folder = Path(sys.argv[1])
run_command(
    ["sh", "-c", f"setsid sleep {sys.argv[2]} & sleep {sys.argv[2]}"],
    cwd=folder, env=plain_environment(folder), seconds=600,
)
"""


@pytest.mark.skipif(not ON_LINUX, reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_caller_who_is_interrupted_or_killed(
    number: signal.Signals, tmp_path: Path, mark: str
) -> None:
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER, str(tmp_path), mark],
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2],
    )
    try:
        while len(sleeping(mark)) < 2:
            assert caller.poll() is None
            time.sleep(0.01)
        caller.send_signal(number)
        caller.wait()
        assert settled(mark) == []
    finally:
        caller.kill()
        caller.wait()


@pytest.mark.skipif(not ON_LINUX, reason="looks into /proc")
def test_a_command_that_kills_its_supervisor_gains_nothing(tmp_path: Path, mark: str) -> None:
    with pytest.raises(CannotRunError, match=r"^the command's supervisor was killed"):
        run(f"kill -9 $PPID; sleep {mark}", tmp_path)
    assert settled(mark) == []


@pytest.mark.skipif(not ON_LINUX, reason="looks into /proc")
def test_nor_one_that_is_quicker_than_its_supervisor(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = process._SUPERVISOR.read_text(encoding="utf-8")
    started = "    said = os.read(told, 64)\n"
    assert text.count(started) == 1
    # Busy on another processor while the command is already at work.
    slow = tmp_path / "slow.py"
    slow.write_text(text.replace(started, f"{started}    time.sleep(60)\n"), encoding="utf-8")
    monkeypatch.setattr(process, "_SUPERVISOR", slow)
    script = f"sleep {mark} & kill -9 $PPID; sleep {mark}"
    with pytest.raises(CannotRunError, match=r"^the command's supervisor was killed"):
        run(script, tmp_path)
    assert settled(mark) == []


@pytest.mark.skipif(not ON_LINUX, reason="looks into /proc")
@pytest.mark.parametrize("way", ["", "setsid "])
def test_a_command_that_stops_its_supervisor_gains_nothing(
    way: str, tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_MARGIN_SECONDS", 0.5)
    said = ""
    for seconds in LIMITS:
        try:
            run(f"kill -STOP $PPID; {way}sleep {mark}", tmp_path, seconds=seconds)
        except CannotRunError as error:
            said = str(error)
            break
    assert said.startswith("the command's supervisor was")
    assert settled(mark) == []


@pytest.mark.skipif(not ON_LINUX, reason="looks into /proc")
def test_a_caller_whose_time_is_up_leaves_no_supervisor(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[process._Call] = []

    def interrupted(call: process._Call, stdin: bytes, seconds: float) -> None:
        del stdin, seconds
        calls.append(call)
        supervisor = call.supervisor
        assert supervisor is not None

        def wait(timeout: float | None = None) -> int:
            if timeout is None:
                return subprocess.Popen.wait(supervisor)
            raise KeyboardInterrupt

        monkeypatch.setattr(supervisor, "wait", wait)

    monkeypatch.setattr(process._Call, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(f"sleep {mark}", tmp_path)
    assert calls[0].supervisor is not None
    assert calls[0].supervisor.poll() is not None
    assert settled(mark) == []


@pytest.mark.skipif(not ON_LINUX, reason="looks into /proc")
def test_an_exception_in_the_caller_ends_the_command(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(call: object, number: int) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(process._Call, "_read", broken)
    with pytest.raises(KeyboardInterrupt):
        run(f"echo x; sleep {mark}", tmp_path)
    assert settled(mark) == []


@pytest.mark.skipif(not ON_LINUX, reason="looks into /proc")
def test_calls_leave_no_descriptor_and_no_zombie(tmp_path: Path) -> None:
    run("true", tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for command in ("true", "exit 1", "kill -9 $$", "sleep 0.1 &"):
        run(command, tmp_path)
    with pytest.raises(CannotRunError):
        run_command(["no-such-program-here"], cwd=tmp_path, env={}, seconds=60)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if children.exists():
        for child in children.read_text().split():
            assert "supervisor.py" not in Path(f"/proc/{child}/cmdline").read_text()


# -- its input ---------------------------------------------------------------------------------


def test_input_that_is_not_read_breaks_nothing(tmp_path: Path) -> None:
    ended = run("echo fine", tmp_path, stdin=b"x" * 5_000_000)
    assert (ended.exit_code, ended.stdout.head) == (0, "fine\n")


def test_input_that_is_read_arrives_whole(tmp_path: Path) -> None:
    ended = run("wc -c", tmp_path, stdin=b"x" * 5_000_000)
    assert ended.stdout.head.strip() == "5000000"


def test_without_input_there_is_an_end_at_once(tmp_path: Path) -> None:
    assert run("cat", tmp_path).exit_code == 0


# -- its output --------------------------------------------------------------------------------


def test_of_much_output_both_ends_are_kept_with_a_mark_between(tmp_path: Path) -> None:
    ended = run("yes 0123456789abcdef | head -c 12000000; echo; echo the end", tmp_path)
    stdout = ended.stdout
    assert (stdout.size, stdout.is_cut) == (12_000_009, True)
    assert stdout.head.startswith("0123456789abcdef\n0123")
    assert stdout.tail.endswith("\nthe end\n")
    assert len(stdout.head) + len(stdout.tail) <= process.CAPTURED_BYTES
    assert "[… of 12,000,009 bytes the middle is left out …]\n" in stdout.text
    short = stdout.shortened(200)
    assert (short.size, len(short.text) < 300) == (12_000_009, True)
    assert short.head == "0123456789abcdef\n" * 5


MEMORY = """\
import sys
from pathlib import Path
from pytest_evarness.world.process import plain_environment, run_command
folder = Path(sys.argv[1])
for size in (3000000, 600000000):
    ended = run_command(["head", "-c", str(size), "/dev/zero"],
                        cwd=folder, env=plain_environment(folder), seconds=600)
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print(ended.stdout.size, status["VmHWM"].split()[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not ON_LINUX, reason="looks into /proc")
def test_much_output_takes_no_more_memory_than_a_little(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path)],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    small, before, size, after = map(int, done.stdout.split())
    assert (small, size) == (3_000_000, 600_000_000)
    # Of the difference in output a tenth would be more than this.
    assert after - before < 50_000


def test_bytes_that_are_no_text_are_shown(tmp_path: Path) -> None:
    ended = run(r"printf 'a\377b\000c\303\251'", tmp_path)
    assert ended.stdout.head == "a\\xffb\x00cé"


def captured(*parts: bytes, kept: int) -> Captured:
    stream = process._Stream(kept)
    for part in parts:
        stream.add(part)
    return stream.captured()


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=6), st.integers(2, 100))
def test_what_is_kept_does_not_depend_on_how_it_arrives(
    data: bytes, cuts: list[int], kept: int
) -> None:
    places = sorted(min(cut, len(data)) for cut in cuts)
    pieces = zip([0, *places], [*places, len(data)], strict=True)
    parts = [data[start:end] for start, end in pieces]
    assert captured(*parts, kept=kept) == captured(data, kept=kept)


@given(st.text(max_size=300), st.integers(2, 60))
def test_no_cut_goes_through_a_character(text: str, kept: int) -> None:
    got = captured(text.encode("utf-8"), kept=kept)
    if got.is_cut:
        assert text.startswith(got.head)
        assert text.endswith(got.tail)
    else:
        assert got.head == text


def test_no_cut_goes_through_an_escape() -> None:
    got = captured(b"abc\x1b[31" + b";1mred" * 100, kept=16)
    assert got.head == "abc"


def test_a_record_of_a_stream_is_read_back() -> None:
    for got in (captured(b"x" * 100, kept=10), captured(b"", kept=10), captured(b"a\n", kept=10)):
        assert Captured.from_record(got.as_record()) == got


def test_folders_are_replaced_as_whole_names_only() -> None:
    stream = Captured("/a/ws /a/ws/x /a/ws2 /a", size=23)
    words = {"/a/ws": "«workspace»", "/a": "."}
    assert stream.replaced(words).head == "«workspace» «workspace»/x ./ws2 ."


# -- its place ---------------------------------------------------------------------------------


def test_it_has_the_variables_that_are_named_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVARNESS_LEAK", "x")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    env = plain_environment(tmp_path, {"MINE": "1", "TZ": "Europe/Oslo"})
    program = "import os, json; print(json.dumps(dict(os.environ)))"
    ended = run_command([sys.executable, "-c", program], cwd=tmp_path, env=env, seconds=60)
    got = json.loads(ended.stdout.head)
    got.pop("LC_CTYPE", None)  # Python's own
    assert got == {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "LANG": "C.UTF-8",
        "TZ": "Europe/Oslo",
        "MINE": "1",
    }


@pytest.mark.skipif(not ON_LINUX, reason="looks into /proc")
def test_it_has_three_descriptors_a_session_of_its_own_and_no_ignored_signals(
    tmp_path: Path,
) -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        ended = run(
            "ls /proc/self/fd | wc -l; grep SigIgn /proc/self/status; ps -o sid= -p $$; echo $$;"
            " umask; ulimit -c",
            tmp_path,
        )
    finally:
        signal.signal(signal.SIGUSR1, before)
    # The fourth is what ls itself opened to look.
    count, _, ignored, session, own, umask, core = ended.stdout.head.split()
    assert (count, session, umask, core) == ("4", own, "0022", "0")
    assert int(ignored, 16) == 0
