"""Becomes a command that cannot write outside some folders, nor reach a network; Linux only.

A script of its own, the standard library only, started by :mod:`pytest_evarness.world.sandbox` as
``python confine.py SETTING PROGRAM WORD...`` with a setting in JSON: ``{"writable": [folders],
"network": boolean, "ports": [numbers], "user": boolean}``. It makes namespaces of its own, in which
everything but those folders is mounted read-only and, without ``network``, only a loopback of its
own is there; then it gives up every capability, so that nothing of this can be undone.

The loopback of the host is out of reach as well, but for ``ports``: a second process, which stays
outside, passes on what is sent to them. It does nothing else, and ends with the command.
"""

# Path would take longer to load than all of this takes to run.
# ruff: noqa: PTH102, PTH109, PTH112, PTH123, PTH211

from __future__ import annotations

import _thread
import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
from typing import Any, NoReturn

__all__: list[str] = []

_NEW_MOUNTS = 0x00020000
_NEW_IPC = 0x08000000
_NEW_USER = 0x10000000
_NEW_NETWORK = 0x40000000

_NO_SUID, _BIND, _RECURSIVE, _PRIVATE = 0x2, 0x1000, 0x4000, 0x40000

# The numbers are the same on every architecture: all calls from 424 on are.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_CLONE_TREE, _FROM_DESCRIPTOR, _WHOLE_TREE, _HERE = 0x1, 0x4, 0x8000, -100
_READ_ONLY = 0x1

_PARENT_DEATH_SIGNAL = 1
_NO_NEW_PRIVILEGES, _DROP_BOUND, _AMBIENT, _CLEAR_AMBIENT = 38, 24, 47, 4
_CAPABILITIES = 64

_SET_INTERFACE, _UP = 0x8914, 0x41

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

CANNOT = 125
"""Exit code where the system does not allow it; the reason stands on standard error."""

_libc = ctypes.CDLL(None, use_errno=True)


def _call(what: str, result: int) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    words = (source.encode(), os.fsencode(target), None if kind is None else kind.encode())
    _call(f"mount {target}", _libc.mount(*words, ctypes.c_ulong(flags), data.encode() or None))


def _set_read_only(target: str, *, on: bool) -> None:
    attributes = struct.pack("QQQQ", _READ_ONLY if on else 0, 0 if on else _READ_ONLY, 0, 0)
    _call(
        f"mount_setattr {target}",
        _libc.syscall(
            _MOUNT_SETATTR, _HERE, os.fsencode(target), _WHOLE_TREE, attributes, len(attributes)
        ),
    )


def _map_user(user: int, group: int) -> None:
    """The user stays who it is; nobody else is there."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _make_devices() -> None:
    """A folder of devices without disks: who is root could write to those by their nodes."""
    nodes = {}
    for name in _DEVICES:
        tree = _libc.syscall(_OPEN_TREE, _HERE, f"/dev/{name}".encode(), _CLONE_TREE)
        if tree != -1:
            nodes[name] = tree
    _mount("tmpfs", "/dev", "tmpfs", _NO_SUID, "mode=0755")
    for name, tree in nodes.items():
        target = f"/dev/{name}"
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o666))
        moved = _libc.syscall(_MOVE_MOUNT, tree, b"", _HERE, target.encode(), _FROM_DESCRIPTOR)
        _call(f"move_mount {target}", moved)
        os.close(tree)
    for name, place in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{place}", f"/dev/{name}")
    os.mkdir("/dev/shm", 0o1777)  # noqa: S108 - the place itself, and a new one
    _mount("tmpfs", "/dev/shm", "tmpfs", _NO_SUID, "mode=1777")  # noqa: S108 - as above


def _hide_sockets(used: list[str]) -> None:
    """Sockets of the system's servers lie in /run; programs do not, or it is left as it is."""
    places = [*os.environ.get("PATH", "").split(":"), sys.executable, *sys.path, *used]
    real = [os.path.realpath(place) for place in places if place]
    if os.path.isdir("/run") and not any(f"{place}/".startswith("/run/") for place in real):
        _mount("tmpfs", "/run", "tmpfs", _NO_SUID, "mode=0755")


def _start_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SET_INTERFACE, struct.pack("16sH14x", b"lo", _UP))


# -- ports that are passed on ----------------------------------------------------------------------


def _forward(count: int, parent: int, channel: socket.socket) -> NoReturn:
    """Serve the listeners that arrive over ``channel`` until the parent is gone."""
    _libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)
    # The command's own streams: they would stay open for as long as this process lives.
    nothing = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    _, descriptors, _, _ = socket.recv_fds(channel, 1, count)
    for descriptor in descriptors:
        _thread.start_new_thread(_serve, (socket.socket(fileno=descriptor),))
    while True:
        signal.pause()


def _serve(listener: socket.socket) -> None:
    host, port = listener.getsockname()
    while True:
        inside, _ = listener.accept()
        try:
            outside = socket.create_connection((host, port))
        except OSError:
            _reset(inside)
            continue
        _thread.start_new_thread(_pass_on, (inside, outside))
        _thread.start_new_thread(_pass_on, (outside, inside))


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Bytes until the end, then the end; where it broke off, so that this is seen as well."""
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        _reset(target)
        _reset(source)


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # Wakes the thread that still reads it, which then lets go of it as well.
        connection.shutdown(socket.SHUT_RD)
    connection.close()


def _start_forwarder(ports: list[int]) -> socket.socket | None:
    """Fork it while this process is still outside; what the listeners are sent over."""
    if not ports:
        return None
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    if os.fork() == 0:
        try:
            ours.close()
            _forward(len(ports), parent, theirs)
        finally:
            os._exit(0)
    theirs.close()
    return ours


def _listen(ports: list[int], channel: socket.socket) -> None:
    """Open the same ports inside, and hand them out."""
    with contextlib.ExitStack() as stack:
        listeners = [
            stack.enter_context(socket.create_server(("127.0.0.1", port), backlog=128))
            for port in ports
        ]
        socket.send_fds(channel, [b"p"], [listener.fileno() for listener in listeners])
    channel.close()


# -- confinement -----------------------------------------------------------------------------------


def _give_up_privileges() -> None:
    _libc.prctl(_AMBIENT, _CLEAR_AMBIENT, 0, 0, 0)
    for capability in range(_CAPABILITIES):
        _libc.prctl(_DROP_BOUND, capability, 0, 0, 0)
    _call("prctl no_new_privs", _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))


def _confine(setting: dict[str, Any]) -> None:
    user, group = os.geteuid(), os.getegid()
    here = os.getcwd()
    ports = [] if setting["network"] else setting["ports"]
    channel = _start_forwarder(ports)
    flags = _NEW_MOUNTS | _NEW_IPC
    flags |= 0 if setting["network"] else _NEW_NETWORK
    flags |= _NEW_USER if setting["user"] else 0
    _call("unshare", _libc.unshare(flags))
    if setting["user"]:
        _map_user(user, group)
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)
    writable = [os.path.realpath(folder) for folder in setting["writable"]]
    for folder in writable:
        _mount(folder, folder, None, _BIND | _RECURSIVE)
    _make_devices()
    _hide_sockets([here, *writable])
    _set_read_only("/", on=True)
    for folder in (*writable, "/dev/shm"):  # noqa: S108 - its own, made above
        _set_read_only(folder, on=False)
    if not setting["network"]:
        _start_loopback()
    if channel is not None:
        _listen(ports, channel)
    # The way there led over a mount that is read-only by now.
    os.chdir(here)
    _give_up_privileges()


def _main() -> NoReturn:
    setting, *argv = sys.argv[1:]
    try:
        _confine(json.loads(setting))
    except OSError as error:
        sys.stderr.write(f"no sandbox: {error.filename}: {error.strerror}\n")
        os._exit(CANNOT)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - what it is for
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
        os._exit(127)


if __name__ == "__main__":
    _main()
