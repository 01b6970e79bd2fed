"""A sandbox denies what it says it denies, and says nothing that was not tried."""

from __future__ import annotations

import http.server
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pytest_evarness.world.process import Ended, plain_environment, run_command
from pytest_evarness.world.sandbox import NO_SANDBOX, Sandbox, find_sandbox, try_sandbox

HERE = find_sandbox()
needs_one = pytest.mark.skipif(HERE.name == "none", reason=f"no sandbox here: {HERE.why}")
needs_ports = pytest.mark.skipif(not HERE.ports, reason="no ports are passed on here")


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    return folder


def run(argv: Sequence[str], folder: Path) -> Ended:
    return run_command(argv, cwd=folder, env=plain_environment(folder), seconds=60)


def shell(command: str, folder: Path) -> Ended:
    return run(HERE.wrap(["sh", "-c", command], writable=[folder]), folder)


# -- writes ------------------------------------------------------------------------------------

WRITES = "echo x > inner; echo x > ../outside/outer"


@needs_one
def test_only_what_it_is_given_can_be_written(inside: Path) -> None:
    ended = shell(WRITES, inside)
    assert ended.exit_code != 0
    assert (inside / "inner").read_text() == "x\n"
    assert list((inside.parent / "outside").iterdir()) == []


def test_this_file_would_notice_a_write_outside(inside: Path) -> None:
    assert run(["sh", "-c", WRITES], inside).exit_code == 0
    assert (inside.parent / "outside/outer").exists()


@needs_one
@pytest.mark.parametrize(
    "command",
    [
        "mount -o remount,rw /",
        "mount -o remount,rw,bind /",
        "umount -l /",
        "mount -t tmpfs none /mnt",
        "unshare -rm sh -c 'mount -o remount,rw,bind / && echo x > ../outside/outer'",
        "echo evarness > /proc/sys/kernel/hostname",
        "chmod 777 ../outside",
        "ln ../outside/there here && echo x >> here",
        "exec 5<../outside/there; echo x > /proc/self/fd/5",
    ],
)
def test_nothing_of_it_can_be_undone(command: str, inside: Path) -> None:
    there = inside.parent / "outside/there"
    there.write_text("")
    mode = there.parent.stat().st_mode
    assert shell(command, inside).exit_code != 0
    assert there.read_text() == ""
    assert there.parent.stat().st_mode == mode
    assert list(there.parent.iterdir()) == [there]


@needs_one
def test_a_program_finds_what_it_needs(inside: Path) -> None:
    ended = shell("echo x > /dev/null && head -c 2 /dev/urandom | wc -c && pwd && id -u", inside)
    size, folder, user = ended.stdout.head.split()
    assert (size, folder) == ("2", str(inside))
    assert user == run(["id", "-u"], inside).stdout.head.strip()


@needs_one
def test_its_end_is_the_programs_own(inside: Path) -> None:
    assert shell("exit 3", inside).exit_code == 3
    assert shell("kill -9 $$", inside).signal == 9
    assert run(HERE.wrap(["no-such-program-here"], writable=[inside]), inside).exit_code != 0


# -- network -----------------------------------------------------------------------------------


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"x" * 300_000
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        del words


@pytest.fixture
def port() -> Iterator[int]:
    """Where a server of pages listens, outside."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


ASK = """\
import sys, urllib.request
for host, port in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/", timeout=20) as answer:
            print(len(answer.read()))
    except OSError as error:
        print("no")
"""


def asked(*places: object) -> list[str]:
    return [sys.executable, "-I", "-c", ASK, *map(str, places)]


def test_this_file_would_notice_an_open_network(inside: Path, port: int) -> None:
    assert run(asked("127.0.0.1", port), inside).stdout.head == "300000\n"


@needs_one
def test_the_hosts_loopback_is_out_of_reach(inside: Path, port: int) -> None:
    ended = run(HERE.wrap(asked("127.0.0.1", port), writable=[inside]), inside)
    assert ended.stdout.head == "no\n"
    ended = run(HERE.wrap(asked("127.0.0.1", port), writable=[inside], network=True), inside)
    assert ended.stdout.head == "300000\n"


@needs_one
@needs_ports
def test_its_own_services_are_in_reach_and_nothing_else(inside: Path, port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = closed.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as other:
        elsewhere = other.getsockname()[1]
        argv, is_alone = HERE.wrap_with(
            asked(*("127.0.0.1", port) * 3, "127.0.0.1", elsewhere, "127.0.0.1", dead),
            writable=[inside],
            addresses=[
                {"host": "127.0.0.1", "port": port},
                {"host": "127.0.0.1", "port": dead},
                {"path": "/somewhere"},
            ],
        )
        ended = run(argv, inside)
    assert is_alone
    assert ended.stdout.head.split() == ["300000"] * 3 + ["no", "no"]
    assert ended.left == 0, "what passes ports on ends with the command"


@needs_one
def test_a_service_elsewhere_leaves_the_network_open_and_this_is_said(inside: Path) -> None:
    _, is_alone = HERE.wrap_with(
        ["true"], writable=[inside], addresses=[{"host": "db.example.com", "port": 5432}]
    )
    assert not is_alone
    _, is_alone = HERE.wrap_with(["true"], writable=[inside], addresses=[{"path": "/a.db"}])
    assert is_alone


@needs_one
def test_it_has_a_loopback_of_its_own(inside: Path) -> None:
    program = (
        "import socket\n"
        "with socket.create_server(('127.0.0.1', 0)) as server:\n"
        "    socket.create_connection(server.getsockname()).close()\n"
        "    print('met')\n"
    )
    ended = run(HERE.wrap([sys.executable, "-I", "-c", program], writable=[inside]), inside)
    assert ended.stdout.head == "met\n"


# -- claims ------------------------------------------------------------------------------------


def fake(tmp_path: Path, text: str) -> Sandbox:
    """A program that calls itself bubblewrap."""
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return Sandbox("bubblewrap", network=True, writes=True, kind=str(program))


def test_a_sandbox_that_denies_nothing_claims_nothing(tmp_path: Path) -> None:
    found = try_sandbox(fake(tmp_path, 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'))
    assert (found.network, found.writes) == (False, False)


def test_a_sandbox_that_does_not_work_says_why(tmp_path: Path) -> None:
    found = try_sandbox(fake(tmp_path, "echo 'bwrap: no permission' >&2; exit 1"))
    assert (found.network, found.writes, found.why) == (False, False, "bwrap: no permission")
    found = try_sandbox(fake(tmp_path, "echo '[false, false, false, false]'"))
    assert (found.network, found.writes) == (False, False)
    missing = Sandbox("bubblewrap", network=True, writes=True, kind=str(tmp_path / "nothing"))
    assert "could not be started" in try_sandbox(missing).why


def test_what_it_does_is_said_in_words() -> None:
    both = Sandbox("namespaces", network=True, writes=True)
    assert both.sentence == "namespaces: denies writes outside the workspace and network"
    assert NO_SANDBOX.sentence == "none (this system has none that is known)"
    with pytest.raises(ValueError, match=r"^there is no sandbox here: this system has none"):
        NO_SANDBOX.wrap(["true"], writable=[])
