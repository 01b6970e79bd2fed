"""An OpenAI-compatible endpoint on loopback that does what a test tells it to."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Served:
    """What was asked, and where."""

    base_url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)


def completion(content: Any) -> bytes:
    return json.dumps(
        {"choices": [{"message": {"role": "assistant", "content": content}}]}
    ).encode()


def says(data: bytes | str, *, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    """Answers a completion with that content, or those bytes."""
    body = completion(data) if isinstance(data, str) else data

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return reply


@contextlib.contextmanager
def served(*replies: Reply) -> Iterator[Served]:
    """The endpoint, gone afterwards; the last reply repeats."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            served_here.requests.append(
                {"path": self.path, "headers": dict(self.headers), "body": json.loads(data)}
            )
            number = min(len(served_here.requests), len(replies))
            with contextlib.suppress(ConnectionError):
                replies[number - 1](self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served_here = Served(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served_here
    finally:
        served_here.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
