"""Competitive Companion, a browser extension, sends the samples of the page that it shows to a port of loopback."""

from __future__ import annotations

import json
import os
import re
import socketserver
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from judge_cli import problems, project, screen
from judge_cli.errors import UsageError

PORT = 10043
_BODY_BYTES = 16 * 1024**2
_TESTS = 1000
_EXTENSION = re.compile(r"[a-z-]+-extension://.*")
_OWN_PAGE = re.compile(r"/problems/([A-Za-z0-9][A-Za-z0-9._+-]*)/?")


class Posted(NamedTuple):
    """A problem as the extension tells it. `problem` is its name if it is one of our gateway."""

    folder: str
    problem: str
    time_limit: float
    tests: list[tuple[bytes, bytes]]


def read_payload(data: bytes, server: str = "") -> Posted:
    """The problem in a payload of Competitive Companion; `server` is our gateway; UsageError."""
    try:
        payload = json.loads(data)
        name, url = str(payload["name"]), urlsplit(str(payload.get("url", "")))
        tests = [(str(test["input"]).encode(), str(test["output"]).encode()) for test in payload["tests"]]
        seconds = float(payload.get("timeLimit") or 0) / 1000
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
        raise UsageError(f"the body is no payload of Competitive Companion ({type(exc).__name__})") from None
    if len(tests) > _TESTS:
        raise UsageError(f"'{name[:80]}' has {len(tests)} samples; at most {_TESTS} are accepted")
    page = _OWN_PAGE.fullmatch(url.path) if server and url.netloc == urlsplit(server).netloc else None
    folder = page[1] if page else re.sub(r"[^A-Za-z0-9_+-]+", "-", name).strip("-")[:60]
    return Posted(folder or "problem", page[1] if page else "", seconds if 0 < seconds < 3600 else 0.0, tests)


def save(posted: Posted, to: Path) -> Path:
    """Write the samples below the problem's folder in the place of those that it has."""
    folder = problems.safe_path(to, posted.folder)
    settings: dict[str, Any] = {"problem": posted.problem, "time_limit": posted.time_limit}
    problems.write_settings(folder, {key: value for key, value in settings.items() if value})
    for path in (folder / project.SAMPLES).glob("*"):
        if path.suffix in {".in", ".ans"}:
            path.unlink()
    for number, (input_data, answer) in enumerate(posted.tests, 1):
        problems.write(folder / project.SAMPLES / f"{number}.in", input_data)
        problems.write(folder / project.SAMPLES / f"{number}.ans", answer)
    return folder


class Listener(socketserver.TCPServer):
    """A server on loopback, one request at a time."""

    allow_reuse_address = os.name == "posix"  # on Windows others could then take the port

    def __init__(self, port: int, to: Path, server: str) -> None:
        """`server` is our gateway's address, if there is one."""
        self.to, self.server = to, server
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as exc:
            raise UsageError(f"port {port} cannot be used ({exc}); choose another one with --port") from None


class _Handler(BaseHTTPRequestHandler):
    timeout = 10  # seconds for a client that says nothing
    server: Listener

    def do_POST(self) -> None:
        """Take a problem, from the extension or a program; pages of the Web are refused."""
        host = self.headers.get("Host", "").partition(":")[0]
        # Browsers name it in each POST; a page in a sandbox has the origin "null".
        origin = self.headers.get("Origin", "")
        length = self.headers.get("Content-Length", "")
        if host not in {"127.0.0.1", "localhost"} or (origin and not _EXTENSION.fullmatch(origin)):
            self._answer(403, "only Competitive Companion and programs of this machine may post here")
        elif not re.fullmatch("[0-9]{1,9}", length) or int(length) > _BODY_BYTES:
            self._answer(413, f"a body needs its length, of at most {_BODY_BYTES} bytes")
        else:
            try:
                posted = read_payload(self.rfile.read(int(length)), self.server.server)
                folder = save(posted, self.server.to)
            except UsageError as exc:
                self._answer(400, str(exc))
            else:
                screen.say(f"{folder}: {len(posted.tests)} samples")
                self._answer(200, "")

    def _answer(self, status: int, sentence: str) -> None:
        if sentence:
            screen.note(f"judge-cli: refused: {sentence}")
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Length", str(len(sentence.encode())))
        self.end_headers()
        self.wfile.write(sentence.encode())

    def log_message(self, *_: Any) -> None:
        """Nothing: what is taken or refused is said in a sentence."""


def listen(port: int, to: Path, server: str) -> None:
    with Listener(port, to, server) as listener:
        place = listener.server_address[1]
        screen.note(f"listening on 127.0.0.1:{place}; press the button of Competitive Companion, Ctrl-C ends it")
        try:
            listener.serve_forever()
        except KeyboardInterrupt:
            return
