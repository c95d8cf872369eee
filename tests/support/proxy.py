"""A way out for lab hosts, which have none: an HTTP proxy that listens in the lab and connects from this machine."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_PIECE = 65536
_IDLE = 120.0  # seconds that a silent connection stays


class _Proxy(ThreadingHTTPServer):
    """Its socket belongs to the network that it was made in; what its threads connect to, to this machine's."""

    daemon_threads = True

    def __init__(self, listening: socket.socket, own: Mapping[str, Path]) -> None:
        super().__init__(listening.getsockname(), _Forward, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.own = own
        self.asked: list[str] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients hang up as they like."""


class _Forward(BaseHTTPRequestHandler):
    server: _Proxy

    def do_CONNECT(self) -> None:
        """A tunnel, as for HTTPS."""
        name, _, port = self.path.partition(":")
        self.server.asked.append(name)
        with socket.create_connection((name, int(port)), _IDLE) as far:
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=_copy, args=(far, self.connection), daemon=True)
            back.start()
            _copy(self.connection, far)
            back.join()
        self.close_connection = True

    def do_GET(self) -> None:
        """A page of another server, or of a directory here that stands for one."""
        url = urllib.parse.urlsplit(self.path)
        self.server.asked.append(url.hostname or "")
        if url.hostname in self.server.own:
            self._own(self.server.own[url.hostname] / url.path.lstrip("/"))
            return
        far = http.client.HTTPConnection(url.netloc, timeout=_IDLE)
        with contextlib.closing(far):
            wanted = {key: value for key, value in self.headers.items() if not key.lower().startswith("proxy-")}
            far.request("GET", url._replace(scheme="", netloc="").geturl(), headers={**wanted, "Connection": "close"})
            answer = far.getresponse()
            self.send_response(answer.status, answer.reason)
            for key, value in answer.getheaders():
                if key.lower() not in {"connection", "transfer-encoding", "keep-alive"}:
                    self.send_header(key, value)
            self.end_headers()
            while piece := answer.read(_PIECE):
                self.wfile.write(piece)

    def _own(self, path: Path) -> None:
        if not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class has it
        """Nothing is printed."""


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def proxy(
    listen: Callable[[], socket.socket], own: Mapping[str, Path] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Serve as a proxy on the socket that `listen` makes: its port, and the names that were asked for so far.

    `own`: directories that stand for servers, by name.
    """
    server = _Proxy(listen(), own or {})
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], server.asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
