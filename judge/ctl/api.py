"""The HTTP API as judgectl uses it: typed calls that are safe to repeat, under one deadline."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

import httpx
from pydantic import ValidationError

from judge import clock
from judge.ctl.context import Context
from judge.errors import ConfigError, JudgeError, NotFoundError, UnavailableError, all_errors
from judge.rpc import messages as m

M = TypeVar("M", bound=m.Message)
_PAUSE = 0.3


class Api:
    """One connection pool to a gateway. Every call raises the error class that the cluster named."""

    def __init__(self, context: Context, *, timeout: float = 30.0) -> None:
        """`timeout` in seconds is how long a call keeps trying while the cluster does not answer."""
        self.context = context
        self.timeout = timeout
        self._servers = [context.server, *context.others]
        verify: ssl.SSLContext | bool = True
        if context.ca is not None:
            try:
                verify = ssl.create_default_context(cafile=str(context.ca))
            except OSError as exc:  # ssl.SSLError is one
                why = exc.strerror if isinstance(exc, FileNotFoundError) else "is no certificate in PEM"
                msg = f"{context.ca}: CA of {context.source} cannot be read: {why}"
                raise ConfigError(msg) from None
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {context.token}"},
            verify=verify,
            timeout=httpx.Timeout(40.0, connect=3.0),
            trust_env=False,
        )

    def __enter__(self) -> Api:
        """Use as a context manager."""
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        """Close the connections."""
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: dict[str, Any] | None = None,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """One call under /api/v1, repeated while the gateway or its judicators do not answer (all calls may be).

        Of several gateways the first that answers is asked from then on.
        """
        deadline = clock.Deadline(self.timeout)
        silent: set[str] = set()
        while True:
            server = self._servers[0]
            url = f"{server}/api/v1{path}"
            try:
                response = self._http.request(method, url, json=json, params=params, content=content, headers=headers)
            except httpx.TransportError as exc:
                silent.add(server)
                error: JudgeError = UnavailableError(
                    f"{_listed(self._servers, silent)} ({_why(exc)}); is the cluster of {self.context.source} running?"
                )
            else:
                if response.is_success:
                    return response
                error = _error(response)
                if response.status_code not in {502, 503, 504}:
                    raise error
            self._servers = [*self._servers[1:], server]
            if deadline.left() <= _PAUSE:
                raise error
            clock.sleep(_PAUSE)

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
        params = {"wait": wait, **({"version": version} if version is not None else {})}
        response = self.request("GET", f"/submissions/{task}", params=params if wait else None)
        found = _parse(m.Task, response)
        pause = response.headers.get("Retry-After", "")
        if not found.done and pause.isdigit():  # too many wait already, so it was answered at once
            clock.sleep(float(pause))
        return found

    def search(self, **conditions: Any) -> m.SearchReply:
        """Find tasks, newest first; conditions as in SearchRequest."""
        params = {key: value for key, value in conditions.items() if value is not None}
        return self.call(m.SearchReply, "GET", "/submissions", params=params)

    def put_blob(self, sha: str, read: Callable[[], bytes]) -> None:
        """Upload a blob unless the cluster has it; `read` is called only when it does not."""
        try:
            self.request("HEAD", f"/blobs/{sha}")
        except NotFoundError:
            self.request("PUT", f"/blobs/{sha}", content=read())

    def put_content(self, data: bytes) -> str:
        """Upload content unless the cluster has it; returns its SHA-256."""
        sha = hashlib.sha256(data).hexdigest()
        self.put_blob(sha, lambda: data)
        return sha


def _listed(servers: Sequence[str], silent: set[str]) -> str:
    names = [server for server in sorted(servers) if server in silent]
    return f"{names[0]} does not answer" if len(names) == 1 else f"none of {', '.join(names)} answers"


def _why(exc: httpx.TransportError) -> str:
    """The kind of failure; what is wrong with a certificate in full, as only a person can put that right."""
    text = str(exc)
    return text if "certificate" in text.lower() else type(exc).__name__


def _parse(reply: type[M], response: httpx.Response) -> M:
    try:
        return reply.received(response.content)
    except ValidationError as exc:
        msg = f"{response.request.url} answered something this judgectl does not understand: {exc.errors()[0]['msg']}"
        raise JudgeError(msg) from None


def _error(response: httpx.Response) -> JudgeError:
    """The error that an answer stands for, as its own class."""
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
