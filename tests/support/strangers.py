"""Clients that mean harm by taking their time: many connections, each dripping bytes or reading none."""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import httpx

from tests.support.servers import wait_for


@dataclass
class Crowd:
    """Connections of strangers, and what they got."""

    sockets: list[socket.socket]
    answers: dict[int, bytes] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)

    @property
    def open(self) -> int:
        """How many the server still keeps."""
        return len(self.sockets) - len(self.ended)

    def statuses(self) -> set[bytes]:
        """The status codes that arrived."""
        return {answer.split(b" ", 2)[1] for answer in self.answers.values() if answer.startswith(b"HTTP/")}


def _stranger() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


TLS = _stranger()


def connect(
    address: tuple[str, int], small: bool = False, tls: ssl.SSLContext | None = None, source: str = ""
) -> socket.socket:
    """One connection; with a `small` receive buffer its server soon feels that nothing is read.

    `source` is this side's address, such as 127.0.0.9.
    """
    made = socket.socket()
    if source:
        made.bind((source, 0))
    if small:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    made.settimeout(30)
    made.connect(address)
    return tls.wrap_socket(made) if tls else made


@contextlib.contextmanager
def crowd(
    address: tuple[str, int],
    count: int,
    begin: bytes,
    *,
    drip: bytes = b"",
    every: float = 0.5,
    read: bool = True,
    meanwhile: bool = True,
    tls: ssl.SSLContext | None = None,
    sources: Sequence[str] = ("",),
    enter: Callable[[], None] = lambda: None,
) -> Iterator[Crowd]:
    """`count` connections that send `begin`, then `drip` every so many seconds; with `read` they take what comes.

    They come from the `sources` in turn, and go on in a thread of their own for the length of the `with`, which calls
    `enter` first.
    """
    made = Crowd([])
    stop = threading.Event()
    thread = threading.Thread(target=_go_on, args=(made, drip, every, read, stop, enter), daemon=True)
    try:
        for number in range(count):
            one = connect(address, small=not read, tls=tls, source=sources[number % len(sources)])
            made.sockets.append(one)
            with contextlib.suppress(OSError):  # it may have been turned away at once
                one.sendall(begin)
            one.setblocking(False)
        if meanwhile:
            thread.start()
        yield made
    finally:
        stop.set()
        if thread.ident is not None:
            thread.join(30)
        for one in made.sockets:
            one.close()


def _go_on(
    made: Crowd, drip: bytes, every: float, read: bool, stop: threading.Event, enter: Callable[[], None]
) -> None:
    enter()
    with selectors.DefaultSelector() as selector:
        for number, one in enumerate(made.sockets):
            if read:
                selector.register(one, selectors.EVENT_READ, number)
        next_drip = time.monotonic()
        while not stop.is_set():
            for key, _ in selector.select(0.1) if read else []:
                _receive(made, int(key.data), selector)
            if drip and time.monotonic() >= next_drip:
                next_drip = time.monotonic() + every
                for number, one in enumerate(made.sockets):
                    if number not in made.ended:
                        with contextlib.suppress(OSError):
                            one.send(drip)
            if not read:
                stop.wait(0.1)


def _receive(made: Crowd, number: int, selector: selectors.BaseSelector) -> None:
    one = made.sockets[number]
    try:
        data = one.recv(65536)
    except (BlockingIOError, ssl.SSLWantReadError):
        return
    except OSError:
        data = b""
    if data:
        made.answers[number] = (made.answers.get(number, b"") + data)[:4096]
    else:
        selector.unregister(one)
        made.ended.add(number)


def slowest(base: str, token: str, times: int = 10, timeout: float = 30.0) -> float:
    """Seconds of the slowest of some requests that anybody makes meanwhile: /alive, and one that needs a thread."""
    worst = 0.0
    for _ in range(times):
        for path, headers in (("/api/v1/alive", {}), ("/api/v1/whoami", {"Authorization": f"Bearer {token}"})):
            started = time.monotonic()
            answer = httpx.get(base + path, headers=headers, timeout=timeout, trust_env=False)
            worst = max(worst, time.monotonic() - started)
            assert answer.status_code == 200, answer.text
    return worst


def ended(made: Crowd, within: float) -> None:
    """Wait until the server has ended all connections."""
    wait_for(lambda: made.open == 0, timeout=within, what=f"the end of {made.open} connections")
