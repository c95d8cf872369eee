"""The HTTP API as judgectl uses it: typed calls that are safe to repeat, under one deadline."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, TypeVar

import httpx
from pydantic import ValidationError

from judge.common import clock
from judge.common.errors import (
    ConfigError,
    JudgeError,
    LimitError,
    NotFoundError,
    UnavailableError,
    UsageError,
    all_errors,
)
from judge.ctl import context as contexts
from judge.ctl.context import Context
from judge.model import messages as m
from judge.model.base import first_fault
from judge.model.messages import BLOBS, BlobsMissing, BlobsWanted
from judge.model.overview import ExecutorsReply, ExecutorState

M = TypeVar("M", bound=m.Message)
_PAUSE = 0.3
_LIMITED_PAUSE = 2.0
_PIECE = 256 * 1024
# Seconds between two looks why a submission waits; the reason is there after five.
_WAITS = 5.5
# A part of an id as pages show it, and where it is looked for: so many pages of so many submissions.
_SHORT_ID = re.compile("[0-9a-f]{7,23}")
_SHORT_ID_PAGE, _SHORT_ID_PAGES = 500, 4
_ERRNO = re.compile(r"^\[Errno -?[0-9]+\] ")


class Api:
    """The connections to a gateway, for any number of threads. Calls raise the error class that the cluster named."""

    def __init__(self, context: Context, *, timeout: float = 30.0) -> None:
        """`timeout` in seconds is how long a call keeps trying while the cluster does not answer."""
        self.context = context
        self.timeout = timeout
        self.silence: Any = httpx.USE_CLIENT_DEFAULT  # or the seconds that one try waits for the gateway
        self._servers = [context.server, *context.alternatives]
        self._lock = threading.Lock()  # around what the threads' calls change: the order of servers, the connections
        self._trusted = _trusted(context)
        self._http = _client(context)
        self._replaced: list[httpx.Client] = []

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        for client in (self._http, *self._replaced):
            client.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: dict[str, Any] | None = None,
        content: IO[bytes] | None = None,
        headers: dict[str, str] | None = None,
        read: Callable[[httpx.Response], Any] = httpx.Response.read,
        progress: Callable[[int], None] = lambda _: None,
    ) -> httpx.Response:
        """One call under /api/v1, repeated while the gateway or its judicators do not answer (all calls may be).

        Of several gateways the first that answers is asked from then on. `content` is sent piece by piece, and `read`
        takes a good answer so: neither is ever in memory as a whole. `progress` gets the number of bytes sent.
        """
        deadline = clock.Deadline(self.timeout)
        silent: set[str] = set()
        options: dict[str, Any] = {"json": json, "headers": dict(headers or {}), "timeout": self.silence}
        # httpx: parameters replace the query of the path, also if there are none.
        if params is not None:
            options["params"] = {name: value for name, value in params.items() if value is not None}
        if content is not None:
            options["headers"]["Content-Length"] = str(content.seek(0, os.SEEK_END))
        while True:
            server = self._servers[0]
            by_address = self.context.name and server in self.context.alternatives
            options["extensions"] = {"sni_hostname": self.context.name} if by_address else {}
            if content is not None:
                options["content"] = _pieces(content, progress)
            try:
                with self._http.stream(method, f"{server}/api/v1{path}", **options) as response:
                    (read if response.is_success else httpx.Response.read)(response)
            except httpx.TransportError as exc:
                silent.add(server)
                error = self._no_answer(exc, sorted(silent))
            else:
                if response.is_success:
                    return response
                error = _error(response)
                if response.status_code not in {502, 503, 504}:
                    raise error
            self._move_on(server)
            if deadline.left() <= _PAUSE:
                raise error
            clock.sleep(_PAUSE)

    def _no_answer(self, exc: httpx.TransportError, silent: list[str]) -> JudgeError:
        untrusted = "certificate" in str(exc).lower()
        names = f"{silent[0]} does not answer" if len(silent) == 1 else f"none of {', '.join(silent)} answers"
        # The whole reason is shown: only the operator can correct a certificate.
        why = exc if untrusted else _ERRNO.sub("", str(exc)).rstrip(".") or "no answer"
        error = UnavailableError(f"{names} ({why}); is the address in {self.context.source} right, and does it run?")
        return (self._trust_again() if untrusted else None) or error

    def _move_on(self, server: str) -> None:
        """Ask the next gateway from now on, unless another thread has moved on from this one already."""
        with self._lock:
            if self._servers[0] == server:
                self._servers = [*self._servers[1:], server]

    def _trust_again(self) -> ConfigError | None:
        """Take what the CA's file says now, if it says something else: the CA may have been replaced.

        Other threads' calls go on by the connections that they have, which stay open to the end. Returns what is wrong
        with the file: it may be that it is being written, and other gateways need not be asked by it.
        """
        with self._lock:
            try:
                now = _trusted(self.context)
                if now == self._trusted:
                    return None
                client = _client(self.context)
            except ConfigError as exc:
                return exc
            self._replaced.append(self._http)
            self._trusted, self._http = now, client
            return None

    def call(
        self,
        reply: type[M],
        method: str,
        path: str,
        *,
        body: m.Message | None = None,
        params: dict[str, Any] | None = None,
        key: str | None = None,
    ) -> M:
        """`request` with models on both sides; `key` is the Idempotency-Key of a call that takes one."""
        json = body.model_dump(mode="json", exclude_none=True) if body is not None else None
        headers = {"Idempotency-Key": key} if key is not None else None
        return _parse(reply, self.request(method, path, json=json, params=params, headers=headers))

    def submit(self, submission: m.Submission) -> m.Task:
        """Hand in; with an idempotency key, repeating it never makes a second task."""
        return self.call(m.Task, "POST", "/submissions", body=submission)

    def get(self, task: str, *, wait: float = 0, version: int | None = None) -> m.Task:
        """One task; with `wait` (seconds) the answer is held until it changes past `version` or is done."""
        params = {"wait": wait, "version": version} if wait else None
        response = self.request("GET", f"/submissions/{task}", params=params)
        answer = _parse(m.Task, response)
        pause = response.headers.get("Retry-After", "")
        if not answer.done and pause.isdigit():  # too many wait already, so it was answered at once
            clock.sleep(float(pause))
        return answer

    def follow(self, task: m.Task, changed: Callable[[m.Task], None]) -> m.Task:
        """Wait until one task is done, by its stream of events.

        `changed` gets the task after each change, and every few seconds while it waits for an executor.
        """

        def fetch(wait: float = 0) -> None:
            nonlocal task
            task = self.get(task.id, wait=wait, version=task.version)
            changed(task)

        def listen(response: httpx.Response) -> None:
            with contextlib.suppress(httpx.TransportError):  # the next stream goes on where a broken one was
                for line in response.iter_lines():
                    if line.startswith("data:"):
                        fetch()

        while not task.done:
            if task.status in {m.Status.PENDING, m.Status.RETRYING}:
                fetch(_WAITS)
                continue
            try:
                self.request(
                    "GET",
                    f"/submissions/{task.id}/events",
                    headers={"Accept": "text/event-stream", "Last-Event-ID": str(task.version)},
                    read=listen,
                )
            except LimitError:  # this person has as many streams as the gateway allows
                clock.sleep(_LIMITED_PAUSE)
            if not task.done:
                fetch()
                clock.sleep(_PAUSE)
        return task

    def whole_id(self, text: str) -> str:
        """A submission's id, also by its last characters as pages show them (`…4ee8a9b`); UsageError, NotFoundError.

        They are looked for among the newest submissions that this person may see.
        """
        end = text.removeprefix("…")
        if not _SHORT_ID.fullmatch(end):
            return text
        before: str | None = None
        for _ in range(_SHORT_ID_PAGES):
            page = self.search(limit=_SHORT_ID_PAGE, before=before)
            ids = [task.id for task in page.tasks if task.id.endswith(end)]
            if len(ids) > 1:
                raise UsageError(f"'{text}' is the end of {len(ids)} ids: {', '.join(ids)}; give more of it")
            if ids:
                return ids[0]
            before = page.next
            if before is None:
                break
        raise NotFoundError(f"there is no submission '{text}' among your newest; give its whole id")

    def cancel(self, task: str) -> m.Task:
        """End a task that is not done; ConflictError when it is."""
        return self.call(m.Task, "POST", f"/submissions/{task}/cancel")

    def working(self) -> list[ExecutorState]:
        """The executors that are alive and not drained."""
        reply = self.call(ExecutorsReply, "GET", "/executors")
        return [executor for executor in reply.executors if executor.alive and not executor.drain]

    def search(self, **conditions: Any) -> m.SearchReply:
        """Find tasks, newest first; conditions as in SearchRequest."""
        return self.call(m.SearchReply, "GET", "/submissions", params=conditions)

    def missing(self, shas: Sequence[str]) -> list[str]:
        """Those of the blobs that are to be uploaded; the others stay in the cluster for a while."""
        missing_shas: list[str] = []
        for start in range(0, len(shas), BLOBS):
            body = BlobsWanted(blobs=list(shas[start : start + BLOBS]))
            missing_shas += self.call(BlobsMissing, "POST", "/blobs/missing", body=body).missing
        return missing_shas

    def get_blob(self, sha: str, into: IO[bytes]) -> None:
        """Write a blob into a file, from its beginning; UnavailableError when it arrives damaged."""

        def read(response: httpx.Response) -> None:
            into.seek(0)
            into.truncate()
            for piece in response.iter_bytes(_PIECE):
                into.write(piece)

        self.request("GET", f"/blobs/{sha}", read=read)
        digest = hashlib.sha256()
        into.flush()
        into.seek(0)
        while piece := into.read(_PIECE):
            digest.update(piece)
        if digest.hexdigest() != sha:
            raise UnavailableError(f"blob {sha} arrived damaged; try again")
        into.seek(0)

    def get_content(self, sha: str) -> bytes:
        """A blob that is small: a manifest, a list of files."""
        file = io.BytesIO()
        self.get_blob(sha, file)
        return file.getvalue()

    def put_content(self, data: bytes) -> str:
        """Upload content unless the cluster has it; returns its SHA-256."""
        sha = hashlib.sha256(data).hexdigest()
        try:
            self.request("HEAD", f"/blobs/{sha}")
        except NotFoundError:
            self.request("PUT", f"/blobs/{sha}", content=io.BytesIO(data))
        return sha


def whole_ids(texts: Sequence[str]) -> list[str]:
    if not any(_SHORT_ID.fullmatch(text.removeprefix("…")) for text in texts):
        return list(texts)
    with connect() as api:
        return [api.whole_id(text) for text in texts]


def connect() -> Api:
    """The cluster that the global options name. Called by every command that talks to one."""
    return Api(contexts.current())


def _trusted(context: Context) -> bytes:
    """The content of the CA's file, read anew; ConfigError."""
    try:
        return context.ca.read_bytes() if context.ca is not None else b""
    except OSError as exc:
        raise _unreadable(context, str(exc.strerror)) from exc


def _client(context: Context) -> httpx.Client:
    """The connections of a person who trusts what the CA's file says now; ConfigError.

    Without such a file the authorities of this system are trusted, or those that SSL_CERT_FILE and SSL_CERT_DIR name.
    """
    try:
        trusted = ssl.create_default_context(cafile=str(context.ca) if context.ca else None)
    except OSError as exc:  # ssl.SSLError is one
        raise _unreadable(context, "is no certificate in PEM") from exc
    return httpx.Client(
        headers={"Authorization": f"Bearer {context.token}"},
        verify=trusted,
        timeout=httpx.Timeout(40.0, connect=3.0),
        trust_env=False,
    )


def _unreadable(context: Context, why: str) -> ConfigError:
    return ConfigError(f"{context.ca}: CA of {context.source} cannot be read: {why}")


def _pieces(content: IO[bytes], progress: Callable[[int], None]) -> Iterator[bytes]:
    content.seek(0)
    while piece := content.read(_PIECE):
        progress(len(piece))
        yield piece


def _parse(reply: type[M], response: httpx.Response) -> M:
    try:
        return reply.received(response.content)
    except ValidationError as exc:
        msg = f"{response.request.url} answered something this judgectl does not understand: {first_fault(exc)}"
        raise JudgeError(msg) from None


def _error(response: httpx.Response) -> JudgeError:
    if response.status_code == NotFoundError.http_status and not response.content:  # the answer to a HEAD
        return NotFoundError(f"{response.request.url.path} does not exist")
    try:
        body = m.ErrorBody.received(response.content)
    except ValidationError:
        return UnavailableError(f"{response.request.url} answered HTTP {response.status_code} without a reason")
    cls = all_errors().get(body.code, JudgeError)
    error = cls.__new__(cls)
    Exception.__init__(error, body.error)
    return error
