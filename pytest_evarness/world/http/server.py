"""Serves a WSGI application on loopback to programs of one run, and leaves nothing behind.

One thread watches all connections; a request that has begun to arrive gets a worker. Every
connection serves one request, so that what is in flight can be told from what is merely open.
"""

from __future__ import annotations

import contextlib
import io
import os
import queue
import selectors
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.world.http.application import NoAnswerError
from pytest_evarness.world.http.limit import (
    HOLD_SECONDS,
    IDLE_SECONDS,
    MAX_WORKERS,
    PAUSE_SECONDS,
)
from pytest_evarness.world.http.wire import Incoming, read_request

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

__all__ = ["Server"]

_BACKLOG: Final = 128
_LINGER_SECONDS: Final = 2.0
_JOIN_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.02
_NONSENSE: Final = b"\x15\x03\x01 this is no answer of HTTP\r\n\r\n"
_RESET: Final = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)

_IDLE, _BUSY, _HELD, _LINGERING = "idle", "busy", "held", "lingering"


@dataclass(eq=False, slots=True)
class _Connection:
    """A connection; ``state`` belongs to the lock, all but ``busy`` ones to the watching thread."""

    socket: socket.socket
    state: str
    deadline: float


class Server:
    """An application on a port of its own, bound before its number is known to anybody.

    Args:
        name: Of the service, for thread names.
        application: Gets whole requests only.

    Raises:
        OSError: No port could be had.
    """

    def __init__(self, name: str, application: WSGIApplication) -> None:
        self._name = name
        self._application = application
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self._listener.setblocking(False)
        self.host: str
        self.port: int
        self.host, self.port = self._listener.getsockname()
        self.failure: str | None = None
        """What broke in this server, so that nobody takes its silence for an answer."""
        self._changed = threading.Condition()
        self._connections: set[_Connection] = set()
        self._returned: list[_Connection] = []
        self._busy = 0
        self._workers: list[threading.Thread] = []
        self._jobs: queue.SimpleQueue[_Connection | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._waking, self._waker = socket.socketpair()
        self._waking.setblocking(False)
        self._watcher = threading.Thread(target=self._watch, name=f"http {name}", daemon=True)
        self._watcher.start()

    # -- for the owner -------------------------------------------------------------------------

    def settle(self, seconds: float) -> bool:
        """Wait until no request is in flight: begun, or waiting to be seen. False if one stays."""
        end = time.monotonic() + seconds
        with self._changed:
            while self._is_in_flight():
                left = end - time.monotonic()
                if left <= 0:
                    return False
                # What lies unread in a socket wakes nobody here, so it is looked for again.
                self._changed.wait(min(left, _LOOK_SECONDS))
        return True

    def close(self, seconds: float) -> None:
        """Wait for what is in flight, then end every connection and thread. Twice is fine."""
        if self._stopping.is_set():
            return
        self.settle(seconds)
        self._stopping.set()
        self._wake()
        self._watcher.join(_JOIN_SECONDS)
        with self._changed:
            workers = list(self._workers)
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.socket.shutdown(socket.SHUT_RDWR)
        for _ in workers:
            self._jobs.put(None)
        for worker in workers:
            worker.join(_JOIN_SECONDS)
        self._waker.close()

    def _is_in_flight(self) -> bool:
        if self._busy:
            return True
        unread = [one.socket for one in self._connections if one.state == _IDLE]
        return not self._stopping.is_set() and _any_readable([self._listener, *unread])

    # -- the watching thread ---------------------------------------------------------------------

    def _watch(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self._listener, selectors.EVENT_READ)
        selector.register(self._waking, selectors.EVENT_READ)
        try:
            while not self._stopping.is_set():
                for key, _ in selector.select(self._patience()):
                    self._notice(selector, key)
                self._take_back(selector)
                self._end_old(selector)
        except Exception as error:  # noqa: BLE001 - nobody waits for an answer that cannot come
            self.failure = f"{type(error).__name__}: {error}"
            self._stopping.set()
        finally:
            with self._changed:
                self._listener.close()
                for connection in list(self._connections):
                    if connection.state != _BUSY:
                        self._drop(connection)
            self._waking.close()
            selector.close()

    def _patience(self) -> float | None:
        with self._changed:
            ends = [one.deadline for one in self._connections if one.state != _BUSY]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _notice(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        if key.fileobj is self._waking:
            with contextlib.suppress(BlockingIOError):
                self._waking.recv(4096)
        elif key.fileobj is self._listener:
            self._accept(selector)
        else:
            self._go_on(selector, key.data)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        # Under the lock: a connection is either in the listener or among ours for whoever settles.
        with self._changed:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            connection = _Connection(accepted, _IDLE, time.monotonic() + IDLE_SECONDS)
            self._connections.add(connection)
        selector.register(accepted, selectors.EVENT_READ, connection)

    def _go_on(self, selector: selectors.BaseSelector, connection: _Connection) -> None:
        """Something came: the begin of a request, or the end of a connection that was kept."""
        if connection.state == _IDLE:
            selector.unregister(connection.socket)
            with self._changed:
                connection.state = _BUSY
                self._busy += 1
                if self._busy > len(self._workers) and len(self._workers) < MAX_WORKERS:
                    self._hire()
            self._jobs.put(connection)
            return
        try:
            rest = connection.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            rest = b""
        if not rest:
            selector.unregister(connection.socket)
            with self._changed:
                self._drop(connection)

    def _take_back(self, selector: selectors.BaseSelector) -> None:
        with self._changed:
            returned, self._returned = self._returned, []
        for connection in returned:
            connection.socket.setblocking(False)
            selector.register(connection.socket, selectors.EVENT_READ, connection)

    def _end_old(self, selector: selectors.BaseSelector) -> None:
        now = time.monotonic()
        with self._changed:
            for connection in list(self._connections):
                if connection.state != _BUSY and connection.deadline <= now:
                    with contextlib.suppress(KeyError, ValueError):
                        selector.unregister(connection.socket)
                    self._drop(connection)

    def _hire(self) -> None:
        number = len(self._workers) + 1
        worker = threading.Thread(
            target=self._work, name=f"http {self._name} {number}", daemon=True
        )
        self._workers.append(worker)
        worker.start()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def _drop(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        with contextlib.suppress(OSError):
            connection.socket.close()

    # -- the workers -----------------------------------------------------------------------------

    def _work(self) -> None:
        while (connection := self._jobs.get()) is not None:
            state = None
            try:
                state = self._serve(connection.socket)
            except OSError:
                pass  # the client went away; what it asked is noted
            except Exception as error:  # noqa: BLE001 - a fault of ours is told, not answered
                self.failure = f"{type(error).__name__}: {error}"
            finally:
                self._finish(connection, state)

    def _finish(self, connection: _Connection, state: str | None) -> None:
        seconds = HOLD_SECONDS if state == _HELD else _LINGER_SECONDS
        with self._changed:
            self._busy -= 1
            if state is None or self._stopping.is_set():
                self._drop(connection)
            else:
                connection.state = state
                connection.deadline = time.monotonic() + seconds
                self._returned.append(connection)
            self._changed.notify_all()
        self._wake()

    def _serve(self, connection: socket.socket) -> str | None:
        """Answer one request; what is left to do with the connection, None for nothing."""
        incoming = read_request(connection)
        if incoming is None:
            return None
        try:
            head, body = self._answer(incoming)
        except NoAnswerError as error:
            return self._leave(connection, error.fault)
        connection.settimeout(PAUSE_SECONDS)
        connection.sendall(head + body)
        connection.shutdown(socket.SHUT_WR)
        # Closed at once, bytes that are still to come would make the system take the answer back.
        return _LINGERING

    def _answer(self, incoming: Incoming) -> tuple[bytes, bytes]:
        """The bytes of an answer.

        Raises:
            NoAnswerError: There is to be none.
        """
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start(status: str, headers: list[tuple[str, str]], *_: Any) -> Any:
            started.append((status, headers))

        body = b"".join(self._application(self._environ(incoming), start))
        ((status, headers),) = started
        # No date and no version of anything: what a program prints of an answer must be the same
        # in the second run and on another machine.
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers)]
        head = "\r\n".join([*lines, "Connection: close", "", ""])
        return head.encode("latin-1", "replace"), body

    def _environ(self, incoming: Incoming) -> dict[str, Any]:
        target = incoming.target.decode("latin-1")
        path, _, query = target.partition("?")
        return {
            "REQUEST_METHOD": incoming.method,
            "SCRIPT_NAME": "",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "RAW_URI": target,
            "SERVER_NAME": self.host,
            "SERVER_PORT": str(self.port),
            "SERVER_PROTOCOL": "HTTP/1.1",
            "CONTENT_LENGTH": str(len(incoming.body)),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(incoming.body),
            "wsgi.errors": io.StringIO(),
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            "evarness.headers": incoming.headers,
            "evarness.problem": incoming.problem,
            "evarness.port": self.port,
            "evarness.wait": self._stopping.wait,
        }

    def _leave(self, connection: socket.socket, fault: str) -> str | None:
        """Do to a connection what ``fault`` says instead of an answer."""
        if fault in ("timeout", "stall"):
            return _HELD
        if fault in ("reset", "refuse"):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            return None
        if fault == "malformed":
            connection.settimeout(PAUSE_SECONDS)
            connection.sendall(_NONSENSE)
        connection.shutdown(socket.SHUT_WR)
        return _LINGERING


def _any_readable(sockets: list[socket.socket]) -> bool:
    with selectors.DefaultSelector() as selector:
        for one in sockets:
            selector.register(one, selectors.EVENT_READ)
        return bool(selector.select(0))
