"""Gateways: config, tokens, prepared states, nginx from the role's template, slow and hostile clients."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import re
import selectors
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import jsonschema
import pytest
import yaml
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from judge import config
from judge.common.errors import NotFoundError, UnavailableError
from judge.config import EtcdClient, GatewayConfig, Tls
from judge.etcd.client import Etcd
from judge.etcd.registry import Registration, entry_value
from judge.gateway.api import openapi
from judge.gateway.api.handlers import ROUTES
from judge.gateway.app import create_app
from judge.gateway.auth import token_digest
from judge.model import messages as m
from judge.model.overview import ExecutorState, JudicatorState, MemberState, StatusReply
from judge.model.people import Credentials, CredentialState, CredentialStates, SessionBegin, SessionEnd, UserRef
from judge.model.problem import ProblemManifest
from judge.model.several import TasksReply, TasksRequest
from judge.model.statements import PagesReply, PagesRequest
from judge.rpc import pki
from judge.rpc.server import Server
from tests.support.ansible import GROUPS, render, variables
from tests.support.servers import free_port, program, wait_for
from tests.support.statements import pages_of

if TYPE_CHECKING:
    from tests.support.judicators import World

ADMIN, USER, OTHER = "admin-token-of-tests", "user-token-of-tests", "other-token-of-tests"
PEOPLE = [("root", "admin", ADMIN), ("ada", "user", USER), ("bob", "user", OTHER)]
ID = "0123456789abcdef01234567"


def write_tokens(path: Path, people: list[tuple[str, str, str]]) -> None:
    """tokens.yml for (user, role, token) triples."""
    rows = [{"user": user, "role": role, "sha256": token_digest(token)} for user, role, token in people]
    path.write_text(yaml.safe_dump({"tokens": rows}))


def make_config(directory: Path, etcd: EtcdClient, tls: Tls, **changes: Any) -> GatewayConfig:
    """A gateway's config with the files that it names, in a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    write_tokens(directory / "tokens.yml", PEOPLE)
    (directory / "session.key").write_text("0123456789abcdef" * 4)
    values = {
        "name": "gateway",
        "listen": f"127.0.0.1:{free_port()}",
        "run_dir": directory / "run",
        "tls": tls,
        "etcd": etcd,
        "tokens": directory / "tokens.yml",
        "session_key": directory / "session.key",
        "secure_cookies": False,
        "rpc_timeout": 3.0,
        **changes,
    }
    return GatewayConfig.model_validate(values)


def gateway_config(world: Prepared | World, directory: Path, **changes: Any) -> GatewayConfig:
    """A config in a directory for a gateway of this world."""
    return make_config(directory, world.etcd_config, world.tls("gateway-1", "gateway"), **changes)


def write_config(settings: GatewayConfig, path: Path) -> Path:
    path.write_text(config.dump(settings))
    return path


class _Blobs:
    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    async def size(self, sha: str) -> int | None:
        return len(self.data[sha]) if sha in self.data else None

    async def read(self, sha: str) -> AsyncIterator[bytes]:
        yield self.data[sha]

    async def take(self, sha: str, pieces: AsyncIterator[bytes], *, output: bool = False) -> None:
        self.data[sha] = b"".join([piece async for piece in pieces])

    async def store(self, contents: Mapping[str, memoryview]) -> None:
        self.data |= {sha: bytes(data) for sha, data in contents.items()}


class Prepared:
    """A judicator that answers what is prepared: `answers[method]` is a message or a function of the request.

    The function may be asynchronous.
    """

    def __init__(self, directory: Path, etcd: str) -> None:
        self.pki = directory / "pki"
        self.etcd_config = EtcdClient(endpoints=[etcd], prefix=f"/{uuid.uuid4().hex}/")
        self.answers: dict[str, m.Message | Callable[[Any], m.Message]] = {}
        self.asked: list[tuple[str, Any]] = []
        self.blobs = _Blobs()
        self.live: dict[str, str] = {}
        self.disabled: set[str] = set()
        self._sessions: dict[str, Callable[[Any], m.Message]] = {
            "session_begin": self._begin,
            "session_end": self._end,
            "credentials": self._credentials,
            "user": self._no_account,
            "problem_statements": self._statements,
        }
        self.address = f"127.0.0.1:{free_port()}"
        pki.make_ca(self.pki)
        self._tls = self.tls("judicator-1", "judicator")
        self._etcd = Etcd(self.etcd_config)
        self._registration = Registration(
            self._etcd, "judicator/service/judicator-1", entry_value(self.address, "0.1.0"), 60
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._server = Server(
            self._answer,
            self.blobs,
            body_bytes=2**24,
            blob_bytes=2**28,
        )

    def tls(self, name: str, role: str) -> Tls:
        return pki.issue(self.pki, name, role, ["127.0.0.1"])

    def put(self, data: bytes) -> str:
        sha = hashlib.sha256(data).hexdigest()
        self.blobs.data[sha] = data
        return sha

    def _credentials(self, request: Credentials) -> m.Message:
        """All people are of tokens.yml; sessions are those that were begun."""

        def state(user: str | None) -> CredentialState:
            return CredentialState(user="" if user is None or user in self.disabled else user)

        return CredentialStates(
            tokens=[CredentialState() for _ in request.tokens],
            sessions=[state(self.live.get(digest)) for digest in request.sessions],
            names=[state(name) for name in request.names],
        )

    def _statements(self, request: PagesRequest) -> PagesReply:
        """The pages of a problem's statements, as an executor makes them, but in this process."""
        manifest = ProblemManifest.model_validate_json(self.blobs.data[request.hash])
        return PagesReply(pages=self.put(pages_of(manifest, self.blobs.data.__getitem__)))

    @staticmethod
    def _no_account(request: UserRef) -> m.Message:
        raise NotFoundError(f"there is no user '{request.name}'")

    def _begin(self, request: SessionBegin) -> m.Empty:
        self.live[request.id] = request.user
        return m.Empty()

    def _end(self, request: SessionEnd) -> m.Empty:
        for name, user in list(self.live.items()):
            if name == request.id or (request.everywhere and user == request.user):
                del self.live[name]
        return m.Empty()

    async def _answer(self, name: str, request: Any, _: Any) -> m.Message:
        if name in {"audit_note", "audit_tokens"} and name not in self.answers:
            return m.Empty()  # a note is no answer that a page shows
        if name not in {"credentials", "user"}:  # every page and call asks that
            self.asked.append((name, request))
        answer = self.answers.get(name, self._sessions.get(name))
        if answer is None:
            raise UnavailableError(f"nothing is prepared for {name}")
        reply: Any = answer(request) if callable(answer) else answer
        return (await reply) if inspect.isawaitable(reply) else reply

    @contextlib.contextmanager
    def serving(self) -> Iterator[Prepared]:
        self._thread.start()
        try:
            start = self._server.start(self.address, pki.server_context(self._tls), 0.2)
            asyncio.run_coroutine_threadsafe(start, self._loop).result(10)
            self._registration.step()
            yield self
        finally:
            self._registration.withdraw()
            asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._etcd.close()

    def tasks(self, *tasks: m.Task) -> None:
        by_id = {task.id: task for task in tasks}

        def get(request: m.GetRequest) -> m.Task:
            if request.id not in by_id:
                raise NotFoundError(f"there is no task {request.id}")
            return by_id[request.id]

        def search(request: m.SearchRequest) -> m.SearchReply:
            matches = [task for task in tasks if request.user in {None, task.submission.user}]
            return m.SearchReply(tasks=matches[: request.limit], next=None)

        def several(request: TasksRequest) -> TasksReply:
            return TasksReply(tasks=[by_id[number] for number in request.ids if number in by_id])

        self.answers |= {"get": get, "search": search, "tasks": several}


def make_task(**changes: Any) -> m.Task:
    values: dict[str, Any] = {
        "id": ID,
        "submission": m.Submission(user="ada", language="cpp", source="int main() {}\n", filename="main.cpp"),
        "status": m.Status.PENDING,
        "done": False,
        "created": "2026-01-31T12:00:05Z",
        "version": 1,
        **changes,
    }
    return m.Task(**values)


def executor_state(name: str = "executor-1", **changes: Any) -> ExecutorState:
    """A live executor with two slots."""
    info = m.ExecutorInfo(
        slots=2,
        languages={"c": "gcc 12.2.0", "cpp": "g++ 12.2.0", "java": "openjdk 17.0.19", "python3": "Python 3.11.2"},
        version="0.1.0",
    )
    values: dict[str, Any] = {
        "name": name,
        "alive": True,
        "vacant": 2,
        "info": info,
        "reported": "2026-01-31T12:00:00Z",
    }
    return ExecutorState(**{**values, **changes})


def healthy(**changes: Any) -> StatusReply:
    values: dict[str, Any] = {
        "leader": "judicator-1",
        "epoch": 3,
        "judicators": [JudicatorState(name="judicator-1", address="127.0.0.1:7400", leader=True, epoch=3)],
        "etcd": [MemberState(name="etcd-1", address="http://127.0.0.1:2379", role="leader", healthy=True)],
        "mongodb": [MemberState(name="mongodb-1", address="127.0.0.1:27017", role="PRIMARY", healthy=True)],
        "executors": [executor_state()],
        "queued": {"high": 0, "normal": 0, "low": 0},
        "running": 0,
        "finished": 1284,
        "slots": 2,
        "vacant": 2,
    }
    return StatusReply(**{**values, **changes})


class Person:
    """Somebody who uses the API of an app inside this process."""

    def __init__(self, client: FlaskClient, token: str | None) -> None:
        self._client = client
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __call__(self, method: str, path: str, **kwargs: Any) -> TestResponse:
        """One call under /api/v1; `json`, `data`, `headers`, `query_string` as Flask's test client takes them."""
        headers = {**self._headers, **kwargs.pop("headers", {})}
        return self._client.open(f"/api/v1{path}", method=method, headers=headers, **kwargs)


class Browser:
    """Somebody who clicks through the pages of an app inside this process, with cookies and forms."""

    def __init__(self, client: FlaskClient, token: str | None = None) -> None:
        self.client = client
        if token:
            answer = self.post("/login", "/login", token=token)
            assert answer.status_code == 303, answer.text

    def get(self, path: str) -> TestResponse:
        return self.client.get(path)

    def csrf(self, page: str) -> str:
        match = re.search(r'name="csrf" value="([^"]+)"', self.get(page).text)
        assert match, page
        return match[1]

    def post(self, page: str, action: str, **fields: Any) -> TestResponse:
        data = {"csrf": self.csrf(page), **fields}
        return self.client.post(action, data=data, content_type="multipart/form-data")


@contextlib.contextmanager
def serving_app(settings: GatewayConfig) -> Iterator[Flask]:
    """The WSGI app of a gateway, without uWSGI, closed at the end."""
    app = create_app(settings)
    app.testing = False
    try:
        yield app
    finally:
        app.extensions["judge"].cluster.close()


def alive(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/api/v1/alive", trust_env=False).status_code == 200
    return False


@contextlib.contextmanager
def running_gateway(settings: GatewayConfig, directory: Path) -> Iterator[str]:
    """The gateway daemon with its real uWSGI as a process; yields its base address."""
    path = write_config(settings, directory / "gateway.yml")
    with (directory / "gateway.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "judge.cli", "gateway", "--config", str(path)],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        url = f"http://{settings.listen}"
        try:

            def up() -> bool:
                assert process.poll() is None, (directory / "gateway.log").read_text()[-3000:]
                return alive(url)

            wait_for(up, what="a serving gateway")
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, (directory / "gateway.log").read_text()[-3000:]


DOCUMENT = openapi.document(ROUTES)


def check(answer: TestResponse, status: int, name: str) -> Any:
    """The answer's JSON, once it has this status and is what the OpenAPI document says of this operation."""
    assert answer.status_code == status, answer.text
    operation = next(
        item for path in DOCUMENT["paths"].values() for item in path.values() if item["operationId"] == name
    )
    schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(answer.json)
    return answer.json


NGINX = program("nginx")
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is missing; scripts/install-packages test")


class Journal:
    """A socket in the place of /dev/log, and what was logged there."""

    def __init__(self, path: Path) -> None:
        self.lines: list[bytes] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while line := self._socket.recv(65536):
            self.lines.append(line)

    @property
    def size(self) -> int:
        return sum(len(line) for line in self.lines)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)
        self._thread.join(5)
        self._socket.close()


@dataclass
class Nginx:
    root: Path
    https: int
    http: int
    journal: Journal
    process: subprocess.Popen[bytes]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> int:
        """Bytes of all files that nginx has written, but its record of its process."""
        paths = (self.root / "var").rglob("*")
        return sum(path.stat().st_size for path in paths if path.is_file())

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.https}"

    @property
    def plain_url(self) -> str:
        return f"http://127.0.0.1:{self.http}"


def write(root: Path, **settings: Any) -> list[str]:
    """Write the role's two files below `root`; returns the command that starts nginx with them."""
    assert NGINX is not None
    values = variables("g1", GROUPS, formed=True) | settings
    for place in ("etc/conf.d", "etc/sites-enabled", "etc/modules-enabled", "var/log", "var/tmp", "var/www"):
        (root / place).mkdir(parents=True, exist_ok=True)
    (root / "etc/mime.types").write_text("types {}\n")
    kinds = ("client_body", "proxy", "fastcgi", "scgi", "uwsgi")
    places = {
        "/etc/nginx": f"{root}/etc", "/run/nginx.pid": f"{root}/pid", "/dev/log": f"{root}/journal",
        "/var/log/nginx": f"{root}/var/log", "user www-data;\n": "user root;\n",
        "http {\n": "http {\n" + "".join(f"    {kind}_temp_path {root}/var/tmp/{kind};\n" for kind in kinds),
    }  # fmt: skip
    for template, path in (("nginx-main.conf.j2", "etc/nginx.conf"), ("nginx.conf.j2", "etc/conf.d/judge.conf")):
        text = render("gateway", template, values)
        for was, now in places.items():
            text = text.replace(was, now)
        (root / path).write_text(text)
    return [NGINX, "-e", str(root / "start.log"), "-p", str(root), "-c", str(root / "etc/nginx.conf")]


@contextlib.contextmanager
def serving(root: Path, gateway: int, certificate: Path, key: Path, **settings: Any) -> Iterator[Nginx]:
    https, http = free_port(), free_port()
    root.mkdir(parents=True, exist_ok=True)
    values = {
        "judge_https_port": https, "judge_gateway_http_port": http, "judge_gateway_port": gateway,
        "judge_gateway_certificate": str(certificate), "judge_gateway_certificate_key": str(key),
        "judge_gateway_acme_root": str(root / "var/www"),
        "judge_gateway_connections": 1024, "judge_gateway_ipv6": Path("/proc/net/if_inet6").exists(), **settings,
    }  # fmt: skip
    line = write(root, **values)
    journal = Journal(root / "journal")
    with (root / "stderr").open("wb") as errors:
        process = subprocess.Popen([*line, "-g", "daemon off;"], stdout=errors, stderr=errors)
    try:
        wait_for(lambda: _listens(https) or process.poll() is not None, what="nginx listening")
        assert process.poll() is None, (root / "stderr").read_text() + (root / "start.log").read_text()
        yield Nginx(root, https, http, journal, process, values)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        journal.close()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@dataclass
class Crowd:
    sockets: list[socket.socket]
    answers: dict[int, bytes] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)

    @property
    def open(self) -> int:
        return len(self.sockets) - len(self.ended)

    def statuses(self) -> set[bytes]:
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
    connection = socket.socket()
    if source:
        connection.bind((source, 0))
    if small:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    connection.settimeout(30)
    connection.connect(address)
    return tls.wrap_socket(connection) if tls else connection


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
    strangers = Crowd([])
    stop = threading.Event()
    thread = threading.Thread(target=_go_on, args=(strangers, drip, every, read, stop, enter), daemon=True)
    try:
        for number in range(count):
            connection = connect(address, small=not read, tls=tls, source=sources[number % len(sources)])
            strangers.sockets.append(connection)
            with contextlib.suppress(OSError):  # it may have been turned away at once
                connection.sendall(begin)
            connection.setblocking(False)
        if meanwhile:
            thread.start()
        yield strangers
    finally:
        stop.set()
        if thread.ident is not None:
            thread.join(30)
        for connection in strangers.sockets:
            connection.close()


def _go_on(
    strangers: Crowd, drip: bytes, every: float, read: bool, stop: threading.Event, enter: Callable[[], None]
) -> None:
    enter()
    with selectors.DefaultSelector() as selector:
        for number, connection in enumerate(strangers.sockets):
            if read:
                selector.register(connection, selectors.EVENT_READ, number)
        next_drip = time.monotonic()
        while not stop.is_set():
            for key, _ in selector.select(0.1) if read else []:
                _receive(strangers, int(key.data), selector)
            if drip and time.monotonic() >= next_drip:
                next_drip = time.monotonic() + every
                for number, connection in enumerate(strangers.sockets):
                    if number not in strangers.ended:
                        with contextlib.suppress(OSError):
                            connection.send(drip)
            if not read:
                stop.wait(0.1)


def _receive(strangers: Crowd, number: int, selector: selectors.BaseSelector) -> None:
    connection = strangers.sockets[number]
    try:
        data = connection.recv(65536)
    except (BlockingIOError, ssl.SSLWantReadError):
        return
    except OSError:
        data = b""
    if data:
        strangers.answers[number] = (strangers.answers.get(number, b"") + data)[:4096]
    else:
        selector.unregister(connection)
        strangers.ended.add(number)


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


def ended(strangers: Crowd, within: float) -> None:
    wait_for(lambda: strangers.open == 0, timeout=within, what=f"the end of {strangers.open} connections")
