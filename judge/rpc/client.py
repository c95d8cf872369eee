"""The RPC client of executors and gateways: mutual TLS, keep-alive, failover under one deadline (DESIGN 5, rule 9).

Every method is safe to repeat (docs/protocol.md says why for each), so a call whose answer got lost is made again at
the next judicator until its deadline.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
from pydantic import ValidationError

from judge import clock
from judge.config import Tls
from judge.errors import (
    DeadlineError,
    FieldError,
    ForbiddenError,
    JudgeError,
    NotFoundError,
    OutcomeUnknownError,
    UnavailableError,
    all_errors,
)
from judge.etcd.client import Etcd
from judge.etcd.registry import judicators
from judge.rpc.messages import ErrorBody, Message, Submission
from judge.rpc.methods import JUDICATOR
from judge.rpc.pki import client_context, peer_identity

log = logging.getLogger(__name__)
M = TypeVar("M", bound=Message)

_READS = frozenset(
    {
        *("ping", "wait", "get", "search", "executors", "status", "problems", "blob"),
        *("rejudge_preview", "rejudgings", "rejudging", "rejudge_diff", "session_live"),
    }
)
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_PAUSE = 0.1
_MIN_TRY = 0.2
_REFRESH = 10.0
_PIECE = 256 * 1024


def error_from(status: int, body: bytes) -> JudgeError:
    """The exception that an answer other than 2xx stands for."""
    try:
        said = ErrorBody.received(body)
    except ValidationError:
        cls = UnavailableError if status >= 500 else JudgeError
        return cls(f"the judicator answered HTTP {status} without a reason")
    found = all_errors().get(said.code, JudgeError)
    if issubclass(found, FieldError):
        field = said.field or "body"
        return FieldError(field, said.error.removeprefix(f"{field}: "))
    return found(said.error)


def _hold(request: Message) -> float:
    """Seconds for which the server may rightly keep this request before it answers."""
    for name in ("wait", "timeout"):
        value = getattr(request, name, None)
        if isinstance(value, float):
            return value
    return 0.0


class _Try:
    """The endpoints one call goes through, each with its share of the call's deadline."""

    def __init__(self, client: RpcClient, what: str, seconds: float, hold: float) -> None:
        self.client = client
        self.what = what
        self.deadline = clock.Deadline(seconds)
        self.hold = hold
        self.sent = False
        self.reason = "no judicator is registered"

    def __iter__(self) -> Iterator[tuple[str, float]]:
        """(endpoint, seconds) until the caller stops asking or time is over; rounds are a short pause apart."""
        first = True
        while first or self.deadline.left() >= _MIN_TRY:
            endpoints = self.client.order(refresh=not first)
            for index, endpoint in enumerate(endpoints):
                left = self.deadline.left()
                if left <= 0.0:
                    return
                spare = max(0.0, left - self.hold)
                yield endpoint, min(left, max(_MIN_TRY, self.hold + spare / (len(endpoints) - index)))
            first = False
            clock.sleep(min(_PAUSE, self.deadline.left()))

    def failed(self, endpoint: str, exc: Exception) -> None:
        """Note why an endpoint gave no answer, for the sentence at the end."""
        if not isinstance(exc, _NOT_SENT):
            self.sent = True
        self.reason = f"{endpoint}: {exc or type(exc).__name__}"
        log.debug("%s at %s failed: %r", self.what, endpoint, exc)

    def over(self) -> UnavailableError:
        """The exception to raise when no endpoint answered in time."""
        text = f"no judicator answered '{self.what}' within {self.deadline.seconds:g} s (last: {self.reason})"
        if not self.sent:
            return UnavailableError(text)
        if self.what in _READS:
            return DeadlineError(text)
        return OutcomeUnknownError(f"{text}; it may have been done")


class RpcClient:
    """A client of whichever judicators `endpoints()` names (`host:port`); one instance serves many threads.

    `endpoints` may have a method `refresh()`, which is called when a whole round of endpoints has failed.
    """

    def __init__(self, endpoints: Callable[[], list[str]], tls: Tls, timeout: float) -> None:
        """`timeout` is the deadline in seconds of a call that names no other."""
        self._endpoints = endpoints
        self._timeout = timeout
        self._good: str | None = None
        self._shuffle = random.Random()  # noqa: S311 - spreads clients over judicators, guards nothing
        self._http = httpx.Client(
            verify=client_context(tls),
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=60),
        )

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> RpcClient:
        """Use as a context manager to have the connections closed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close all connections."""
        self.close()

    def order(self, *, refresh: bool) -> list[str]:
        """The endpoints to try: the last good one first, then the others in random order."""
        if refresh and callable(again := getattr(self._endpoints, "refresh", None)):
            again()
        endpoints = list(dict.fromkeys(self._endpoints()))
        self._shuffle.shuffle(endpoints)
        good = self._good
        if good in endpoints:
            endpoints.remove(good)
            endpoints.insert(0, good)
        return endpoints

    def call(self, method: str, request: Message, reply: type[M], *, timeout: float | None = None) -> M:
        """Call one method; raises the error class that the server answered.

        `timeout` (seconds; default: the client's, plus what a waiting request asks the server to hold) bounds the
        call over all endpoints. UnavailableError: nothing was done; DeadlineError: a read got no answer;
        OutcomeUnknownError: it may have been done, and may be repeated.
        """
        if isinstance(request, Submission) and request.idempotency_key is None:
            # With a key of its own a repeated Add finds the task of the first try (rule 1).
            request = request.model_copy(update={"idempotency_key": uuid.uuid4().hex})
        hold = _hold(request)
        tries = _Try(self, method, self._timeout + hold if timeout is None else timeout, hold)
        body = request.model_dump_json(exclude_defaults=True).encode()
        headers = {"Content-Type": "application/json"}
        for endpoint, seconds in tries:
            answer = self._once(tries, endpoint, "POST", f"/rpc/{method}", seconds, content=body, headers=headers)
            if answer is not None:
                try:
                    return reply.received(answer)
                except ValidationError as exc:
                    msg = f"{endpoint} answered '{method}' with something that is no {reply.__name__}: {exc}"
                    raise JudgeError(msg) from None
        raise tries.over()

    def has_blob(self, sha: str) -> bool:
        """Whether the cluster has this blob."""
        tries = _Try(self, "blob", self._timeout, 0.0)
        for endpoint, seconds in tries:
            try:
                if self._once(tries, endpoint, "HEAD", f"/blobs/{sha}", seconds) is not None:
                    return True
            except NotFoundError:
                return False
        raise tries.over()

    def put_blob(self, data: bytes) -> str:
        """Store a blob and return its name; does nothing when it is there already."""
        sha = hashlib.sha256(data).hexdigest()
        if len(data) > _PIECE and self.has_blob(sha):
            return sha
        tries = _Try(self, "put_blob", self._timeout + len(data) / 1e6, 0.0)
        for endpoint, seconds in tries:
            if self._once(tries, endpoint, "PUT", f"/blobs/{sha}", seconds, content=data) is not None:
                return sha
        raise tries.over()

    def get_blob(self, sha: str, target: Path) -> None:
        """Fetch a blob into a file that appears whole or not at all; NotFoundError when nobody has it.

        The deadline bounds the silence of a server, not the transfer of a big blob.
        """
        tries = _Try(self, "blob", self._timeout, 0.0)
        part = target.with_name(f"{target.name}.{os.getpid()}.{threading.get_ident()}.part")
        try:
            for endpoint, seconds in tries:
                if self._fetch(tries, endpoint, sha, part, seconds):
                    part.replace(target)
                    return
        finally:
            part.unlink(missing_ok=True)
        raise tries.over()

    def _fetch(self, tries: _Try, endpoint: str, sha: str, part: Path, seconds: float) -> bool:
        """One try of get_blob; True when `part` holds the verified content."""
        digest = hashlib.sha256()
        with self._guard(tries, endpoint):
            url = f"https://{endpoint}/blobs/{sha}"
            with self._http.stream("GET", url, timeout=self._timeouts(seconds)) as answer:
                self._check_server(endpoint, answer)
                if not answer.is_success:
                    self._refused(endpoint, answer.status_code, answer.read())
                with part.open("wb") as file:
                    for piece in answer.iter_bytes(_PIECE):
                        digest.update(piece)
                        file.write(piece)
            if digest.hexdigest() != sha:
                raise UnavailableError(f"blob {sha} arrived damaged")
            self._good = endpoint
            return True
        return False

    def _once(self, tries: _Try, endpoint: str, verb: str, path: str, seconds: float, **kwargs: Any) -> bytes | None:
        """One request at one endpoint: the body of its answer, None when another endpoint should be asked."""
        with self._guard(tries, endpoint):
            url = f"https://{endpoint}{path}"
            with self._http.stream(verb, url, timeout=self._timeouts(seconds), **kwargs) as answer:
                self._check_server(endpoint, answer)
                body = answer.read()
            if not answer.is_success:
                if verb == "HEAD" and answer.status_code == NotFoundError.http_status:
                    raise NotFoundError(f"{path} does not exist")
                self._refused(endpoint, answer.status_code, body)
            self._good = endpoint
            return body
        return None

    @contextlib.contextmanager
    def _guard(self, tries: _Try, endpoint: str) -> Iterator[None]:
        """Swallow what the next endpoint may do better; let through what the server decided."""
        try:
            yield
        except (httpx.TransportError, UnavailableError) as exc:
            if self._good == endpoint:
                self._good = None
            tries.failed(endpoint, exc)

    def _refused(self, endpoint: str, status: int, body: bytes) -> None:
        """Raise what the server answered; an answer of its own choice proves that the endpoint lives."""
        error = error_from(status, body)
        if not isinstance(error, UnavailableError):
            self._good = endpoint
        raise error

    @staticmethod
    def _timeouts(seconds: float) -> httpx.Timeout:
        return httpx.Timeout(seconds, connect=min(seconds, 2.0))

    @staticmethod
    def _check_server(endpoint: str, answer: httpx.Response) -> None:
        """Any host of the cluster has a certificate of our CA; only a judicator's may answer."""
        tls = answer.extensions["network_stream"].get_extra_info("ssl_object")
        try:
            role = peer_identity(tls.getpeercert() or {})[1]
        except OSError as exc:
            raise UnavailableError(f"{endpoint} hung up: {exc.strerror or exc}") from None
        if role != JUDICATOR:
            raise ForbiddenError(f"{endpoint} answered with a certificate of role '{role}', not of a judicator")


class EtcdEndpoints:
    """The judicators registered in etcd, cached; an etcd that is away leaves the last known ones in use."""

    def __init__(self, etcd: Etcd) -> None:
        """Nothing is asked before the first call."""
        self._etcd = etcd
        self._lock = threading.Lock()
        self._known: list[str] = []
        self._asked: float | None = None

    def __call__(self) -> list[str]:
        """`host:port` of each; asks etcd when nothing is known or the last answer is old."""
        with self._lock:
            if not self._known or self._asked is None or clock.monotonic() - self._asked > _REFRESH:
                self._ask()
            return list(self._known)

    def refresh(self) -> None:
        """Ask again: none of the known ones answered."""
        with self._lock:
            self._ask()

    def _ask(self) -> None:
        self._asked = clock.monotonic()
        try:
            found = [entry.address for entry in judicators(self._etcd)]
        except UnavailableError as exc:
            log.debug("etcd did not say where the judicators are: %s", exc)
            return
        # An empty list also comes from leases that ran out while etcd was down: the old addresses may still be right.
        self._known = found or self._known


def etcd_endpoints(etcd: Etcd) -> EtcdEndpoints:
    """Where RpcClient finds judicators (rule 9): `RpcClient(etcd_endpoints(etcd), tls, timeout)`."""
    return EtcdEndpoints(etcd)
