"""A receiver of webhooks: a real HTTP server that remembers what it got, and answers what a test wants."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOCAL = ["127.0.0.0/8"]


@dataclass
class Got:
    """One call."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    status: int

    @property
    def told(self) -> Any:
        """The body's JSON."""
        return json.loads(self.body)


@dataclass
class Receiver:
    """`answer` decides by the number of the call (from 1) and the call; a status, or a status with headers."""

    answer: Callable[[int, Got], int | tuple[int, dict[str, str]]] = lambda number, got: 204
    got: list[Got] = field(default_factory=list)
    port: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}/hook"

    def taken(self) -> list[Got]:
        """Calls that were answered as taken."""
        with self.lock:
            return [one for one in self.got if 200 <= one.status < 300]


@contextlib.contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    """A receiver for the length of a `with`."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.take()

        def do_PUT(self) -> None:
            self.take()

        def take(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            with receiver.lock:
                one = Got(self.command, self.path, headers, body, 0)
                receiver.got.append(one)
                said = receiver.answer(len(receiver.got), one)
                one.status, more = said if isinstance(said, tuple) else (said, {})
            self.send_response(one.status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    receiver.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
