"""A gateway for tests: its config, tokens and certificates, and a judicator that answers prepared states.

The prepared judicator speaks the real protocol over mutual TLS and is found through a real etcd. It is for how pages
and answers look in states that are hard to bring about; behaviour is tested against the real judicator.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import yaml
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from judge import config
from judge.config import EtcdClient, GatewayConfig, Tls
from judge.errors import NotFoundError, UnavailableError
from judge.etcd.client import Etcd
from judge.etcd.registry import Registration, entry_value
from judge.gateway.api import openapi
from judge.gateway.api.handlers import ROUTES
from judge.gateway.app import create_app
from judge.gateway.auth import token_digest
from judge.model import messages as m
from judge.model.overview import ExecutorState, JudicatorState, MemberState, StatusReply
from judge.model.people import NameRef, NameState, UserRef, WaysIn, WaysState
from judge.model.several import TasksReply, TasksRequest
from judge.rpc import pki
from judge.rpc.methods import METHODS
from judge.rpc.server import Server
from judge.rpc.session import SessionBegin, SessionEnd, SessionState
from tests.support.servers import free_port, wait_for

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


def write_config(settings: GatewayConfig, path: Path) -> Path:
    """The config as a file, for a daemon process."""
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
        self._sessions: dict[str, Callable[[Any], m.Message]] = {
            "session_begin": self._begin,
            "session_end": self._end,
            "session_live": lambda one: SessionState(live=self.live.get(one.id) == one.user),
            "name_state": lambda _: NameState(disabled=False),
            "ways": self._ways,
            "user": self._no_account,
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
            {name: self._handler(name) for name, row in METHODS.items() if row.each is None},
            self.blobs,
            body_bytes=2**24,
            blob_bytes=2**28,
        )

    def tls(self, name: str, role: str) -> Tls:
        """A certificate of this world."""
        return pki.issue(self.pki, name, role, ["127.0.0.1"])

    def put(self, data: bytes) -> str:
        """Store a blob; returns its name."""
        sha = hashlib.sha256(data).hexdigest()
        self.blobs.data[sha] = data
        return sha

    def _ways(self, one: WaysIn) -> m.Message:
        """As the questions about each of them are answered, since a cluster says the same in both ways."""
        state: Any = self.answers.get("name_state", self._sessions["name_state"])
        out = [(state(NameRef(name=name)) if callable(state) else state).disabled for name in one.names]
        return WaysState(tokens=["user" for _ in one.tokens], names=["" if gone else "listed" for gone in out])

    @staticmethod
    def _no_account(one: UserRef) -> m.Message:
        raise NotFoundError(f"there is no user '{one.name}'")

    def _begin(self, one: SessionBegin) -> m.Empty:
        self.live[one.id] = one.user
        return m.Empty()

    def _end(self, one: SessionEnd) -> m.Empty:
        for name, user in list(self.live.items()):
            if name == one.id or (one.everywhere and user == one.user):
                del self.live[name]
        return m.Empty()

    def _handler(self, name: str) -> Any:
        async def handle(request: Any, _: Any) -> m.Message:
            if name in {"audit_note", "audit_tokens"} and name not in self.answers:
                return m.Empty()  # a note is no answer that a page shows
            if name not in {"session_live", "name_state", "ways", "user"}:  # every page and call asks that
                self.asked.append((name, request))
            answer = self.answers.get(name, self._sessions.get(name))
            if answer is None:
                raise UnavailableError(f"nothing is prepared for {name}")
            said: Any = answer(request) if callable(answer) else answer
            return (await said) if inspect.isawaitable(said) else said

        return handle

    @contextlib.contextmanager
    def serving(self) -> Iterator[Prepared]:
        """Listen and be registered for the length of a `with`."""
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
        """Answer get and search with these."""
        by_id = {task.id: task for task in tasks}

        def get(request: m.GetRequest) -> m.Task:
            if request.id not in by_id:
                raise NotFoundError(f"there is no task {request.id}")
            return by_id[request.id]

        def search(request: m.SearchRequest) -> m.SearchReply:
            found = [task for task in tasks if request.user in {None, task.submission.user}]
            return m.SearchReply(tasks=found[: request.limit], next=None)

        def several(request: TasksRequest) -> TasksReply:
            return TasksReply(tasks=[by_id[one] for one in request.ids if one in by_id])

        self.answers |= {"get": get, "search": search, "tasks": several}


def make_task(**changes: Any) -> m.Task:
    """A task in hand-written state."""
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
    """A healthy cluster of one machine."""
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
        """Load a page."""
        return self.client.get(path)

    def csrf(self, page: str) -> str:
        """The token in a page's first form."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.get(page).text)
        assert found, page
        return found[1]

    def post(self, page: str, action: str, **fields: Any) -> TestResponse:
        """Send a form of a page."""
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
    """Whether the gateway at this base address serves."""
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
    operation = next(one for path in DOCUMENT["paths"].values() for one in path.values() if one["operationId"] == name)
    schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(answer.json)
    return answer.json
