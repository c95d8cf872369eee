"""A receiver of webhooks: a real HTTP server that remembers what it got, and answers what a test wants."""

from __future__ import annotations

import contextlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from judge.hooks import signing
from tests.support.judicators import FAST, World
from tests.support.servers import wait_for

# A judicator may tell receivers on this host.
HOOKS: dict[str, Any] = {**FAST, "webhooks": {"networks": ["127.0.0.0/8"], "callback_networks": ["127.0.0.0/8"]}}


def is_genuine(secret: str, given: Mapping[str, str], body: bytes, now: float) -> bool:
    """Says whether headers (lower-case) fit a body and are at most five minutes old, as a receiver checks it."""
    try:
        identifier, moment = given["webhook-id"], int(given["webhook-timestamp"])
        wanted = signing.signature(secret, identifier, moment, body)
    except (KeyError, ValueError):
        return False
    said = given.get("webhook-signature", "").split(" ")
    return abs(now - moment) <= 300 and any(hmac.compare_digest(wanted.encode(), one.encode()) for one in said)


@dataclass
class Got:
    """One call."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    status: int
    came: float = field(default_factory=time.time)

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


@contextlib.contextmanager
def telling(directory: Path, etcd_endpoint: str, mongod_address: str) -> Iterator[World]:
    """A judicator that leads and may tell receivers on this host."""
    world = World(directory, etcd_endpoint, mongod_address)
    try:
        first = world.judicator(**HOOKS)
        wait_for(lambda: first.judicator.lead.leading, what="a leader")
        yield world
    finally:
        world.close()


def hurry(world: World, **which: object) -> None:
    """Have whatever waits for its next try be due now."""
    world.db.deliveries.update_many(
        {"state": "waiting", **which}, {"$min": {"next": world.db.command("hello")["localTime"]}}
    )
