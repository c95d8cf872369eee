"""The RPC client of executors and gateways: mutual TLS, failover under one deadline (docs/protocol.md, rule 9).

Every method is safe to repeat (docs/protocol.md says why for each), so a call whose answer got lost is made again at
the next judicator until its deadline.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TypeVar

from pydantic import ValidationError

from judge.common import clock, files
from judge.common.errors import (
    DeadlineError,
    FieldError,
    ForbiddenError,
    JudgeError,
    LimitError,
    NotFoundError,
    OutcomeUnknownError,
    UnavailableError,
    all_errors,
)
from judge.config import Tls
from judge.model.audit import HEADER, By
from judge.model.base import first_fault
from judge.model.messages import ErrorBody, Message, Submission
from judge.rpc.connections import Connections, HttpAnswer, NotSentError, TransportError
from judge.rpc.methods import JUDICATOR, METHODS
from judge.rpc.pki import client_context

log = logging.getLogger(__name__)
M = TypeVar("M", bound=Message)

_PAUSE = 0.1
# Seconds for which a client stays with one judicator.
_STAYS = (120.0, 360.0)
_MIN_TRY = 0.2
_PIECE = 256 * 1024
# Blobs may take this long beside the deadline: a second per so many bytes, each way.
_LEAST_RATE = 1e6
# Above so many bytes a blob is asked for before it is sent.
_ASKING_BYTES = 4 * 1024**2


def error_from(status: int, body: bytes) -> JudgeError:
    """The exception that an answer other than 2xx stands for."""
    try:
        body_fields = ErrorBody.received(body)
    except ValidationError:
        cls = UnavailableError if status >= 500 else JudgeError
        return cls(f"the judicator answered HTTP {status} without a reason")
    return error_of(body_fields)


def error_of(body: ErrorBody) -> JudgeError:
    """The exception that a server has told of."""
    kind = all_errors().get(body.code, JudgeError)
    if issubclass(kind, FieldError):
        field = body.field or "body"
        return FieldError(field, body.error.removeprefix(f"{field}: "))
    error = kind(body.error)
    error.field = body.field
    if isinstance(error, LimitError) and body.rate is not None:
        error.rate = (body.rate.limit, body.rate.left, body.rate.seconds)
    return error


def with_call_id(by: By) -> By:
    """The same with an id, which all tries of a call have in common."""
    return by if by.call else by.model_copy(update={"call": uuid.uuid4().hex})


class _CallEndpoints:
    """The endpoints one call goes through, each with its share of the call's deadline.

    `hold` are the seconds for which a server may rightly keep it; `reads`: it stores nothing.
    """

    def __init__(self, client: RpcClient, label: str, seconds: float, *, reads: bool, hold: float = 0.0) -> None:
        self.client = client
        self.label = label
        self.deadline = clock.Deadline(seconds)
        self.reads = reads
        self.hold = hold
        self.maybe_done = False
        self.reason = "no judicator is registered"

    def __iter__(self) -> Iterator[tuple[str, float]]:
        """(endpoint, seconds) until the caller stops asking or time is over; rounds are a short pause apart."""
        first = True
        while first or self.deadline.left() >= _MIN_TRY:
            endpoints = self.client.order(refresh=not first, patience=self.deadline.left())
            for index, endpoint in enumerate(endpoints):
                remaining = self.deadline.left()
                if remaining <= 0.0:
                    return
                spare = max(0.0, remaining - self.hold)
                yield endpoint, min(remaining, max(_MIN_TRY, self.hold + spare / (len(endpoints) - index)))
            first = False
            clock.sleep(min(_PAUSE, self.deadline.left()))

    def failed(self, endpoint: str, exc: Exception) -> None:
        """Note why an endpoint gave no answer, for the sentence at the end."""
        if not isinstance(exc, NotSentError):
            self.maybe_done = True
        self.reason = f"{endpoint}: {exc or type(exc).__name__}"
        log.debug("%s at %s failed: %r", self.label, endpoint, exc)

    def error(self) -> UnavailableError:
        text = f"no judicator answered '{self.label}' within {self.deadline.seconds:g} s (last: {self.reason})"
        if not self.maybe_done:
            return UnavailableError(text)
        if self.reads:
            return DeadlineError(text)
        return OutcomeUnknownError(f"{text}; it may have been done")


class RpcClient:
    """A client of whichever judicators `endpoints()` names (`host:port`); one instance serves many threads.

    `endpoints` may have a method `refresh(seconds)`, which is called when none is known or a whole round has failed; it
    may take that long.
    """

    def __init__(self, endpoints: Callable[[], list[str]], tls: Tls, timeout: float, first: str | None = None) -> None:
        """`timeout` is the deadline in seconds of a call that names no other; `first` is asked before all others.

        Later the endpoint that answered last is `first`.
        """
        self._endpoints = endpoints
        self._timeout = timeout
        self.first = first
        # From then on another endpoint may become the first: else a judicator that has come since would have no client.
        self._stays = 0.0
        self._shuffle = random.Random()  # noqa: S311 - spreads clients over judicators, guards nothing
        self._connections = Connections(client_context(tls))

    def close(self) -> None:
        self._connections.close()

    def __enter__(self) -> RpcClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def order(self, *, refresh: bool, patience: float) -> list[str]:
        """The endpoints to try: the last good one first, then the others in random order.

        Waits `patience` seconds at most for news of them, and hardly when some are known.
        """
        addresses = self._endpoints()
        if (refresh or not addresses) and callable(refresh_endpoints := getattr(self._endpoints, "refresh", None)):
            refresh_endpoints(min(patience, _PAUSE) if addresses else patience)
            addresses = self._endpoints()
        endpoints = list(dict.fromkeys(addresses))
        self._shuffle.shuffle(endpoints)
        if clock.monotonic() > self._stays:
            if self._stays:
                self.first = None
            self._stays = clock.monotonic() + self._shuffle.uniform(*_STAYS)
        if self.first in endpoints:
            endpoints.remove(self.first)
            endpoints.insert(0, self.first)
        return endpoints

    def call(
        self, method: str, request: Message, reply: type[M], *, timeout: float | None = None, by: By | None = None
    ) -> M:
        """Call one method; raises the error class that the server answered. `by` is whom a gateway calls for.

        `timeout` (seconds; default: the client's, plus what a waiting request asks the server to hold) bounds the
        call over all endpoints. UnavailableError: nothing was done; DeadlineError: a read got no answer;
        OutcomeUnknownError: it may have been done, and may be repeated.
        """
        if isinstance(request, Submission):
            request = request.keyed()
        row = METHODS[method]
        hold = row.seconds(request)
        seconds = self._timeout + hold if timeout is None else timeout
        tries = _CallEndpoints(self, method, seconds, reads=row.reads, hold=hold)
        body = request.model_dump_json(exclude_defaults=True).encode()
        headers = {"Content-Type": "application/json"}
        if by is not None:
            headers[HEADER] = json.dumps(with_call_id(by).model_dump())
        for endpoint, share in tries:
            answer = self._request(tries, endpoint, "POST", f"/rpc/{method}", share, headers, body)
            if answer is not None:
                try:
                    return reply.received(answer)
                except ValidationError as exc:
                    msg = (
                        f"{endpoint} answered '{method}' with something that is no {reply.__name__}: {first_fault(exc)}"
                    )
                    raise JudgeError(msg) from None
        raise tries.error()

    def has_blob(self, sha: str) -> bool:
        tries = _CallEndpoints(self, "blob", self._timeout, reads=True)
        for endpoint, seconds in tries:
            try:
                if self._request(tries, endpoint, "HEAD", f"/blobs/{sha}", seconds, {}) is not None:
                    return True
            except NotFoundError:
                return False
        raise tries.error()

    def put_blob(self, data: bytes) -> str:
        """Store a blob and return its name; does nothing when it is there already."""
        sha = hashlib.sha256(data).hexdigest()
        self._put(sha, len(data), lambda: data)
        return sha

    def put_file(self, file: IO[bytes], sha: str, length: int) -> None:
        """Store `length` bytes of a seekable file in pieces; FieldError, and nothing is stored: another hash."""

        def pieces() -> Iterator[bytes]:
            file.seek(0)
            while piece := file.read(_PIECE):
                yield piece

        self._put(sha, length, pieces)

    def put_pack(self, body: bytes) -> None:
        """Store all blobs of a pack (judge.rpc.packs); FieldError when one is not what its name says."""
        self._send("/blobs", len(body), lambda: body)

    def _put(self, sha: str, length: int, content: Callable[[], bytes | Iterator[bytes]]) -> None:
        if length <= _ASKING_BYTES or not self.has_blob(sha):
            self._send(f"/blobs/{sha}", length, content)

    def _send(self, path: str, length: int, content: Callable[[], bytes | Iterator[bytes]]) -> None:
        tries = _CallEndpoints(self, "put_blob", self._timeout + length / _LEAST_RATE, reads=False)
        for endpoint, seconds in tries:
            if self._request(tries, endpoint, "PUT", path, seconds, {}, content(), length) is not None:
                return
        raise tries.error()

    def get_blob(self, sha: str, target: Path) -> None:
        """Fetch a blob into a file that appears whole or not at all; NotFoundError when nobody has it.

        The deadline bounds the silence of a server; its transfer may take as long as its size allows.
        """
        tries = _CallEndpoints(self, "blob", self._timeout, reads=True)
        with files.replacing(target, durable=False) as file:
            for endpoint, seconds in tries:
                if self._fetch(tries, endpoint, sha, file, seconds):
                    return
            raise tries.error()

    def _fetch(self, tries: _CallEndpoints, endpoint: str, sha: str, file: IO[bytes], seconds: float) -> bool:
        """One try of get_blob; True when `file` holds the verified content, and nothing else."""
        digest = hashlib.sha256()
        with self._guard(tries, endpoint):
            with self._connections.request(endpoint, "GET", f"/blobs/{sha}", seconds, {}) as answer:
                self._check_server(endpoint, answer)
                if not answer.success:
                    self._raise_refusal(endpoint, answer.status, answer.read())
                file.seek(0)
                file.truncate()
                for piece in answer.pieces(seconds + answer.length / _LEAST_RATE):
                    digest.update(piece)
                    file.write(piece)
            if digest.hexdigest() != sha:
                raise UnavailableError(f"blob {sha} arrived damaged")
            self.first = endpoint
            return True
        return False

    def _request(
        self,
        tries: _CallEndpoints,
        endpoint: str,
        verb: str,
        path: str,
        seconds: float,
        headers: Mapping[str, str],
        content: bytes | Iterator[bytes] = b"",
        length: int | None = None,
    ) -> bytes | None:
        """One request at one endpoint: the body of its answer, None when another endpoint should be asked."""
        with self._guard(tries, endpoint):
            with self._connections.request(endpoint, verb, path, seconds, headers, content, length) as answer:
                self._check_server(endpoint, answer)
                body = answer.read()
            if not answer.success:
                if verb == "HEAD" and answer.status == NotFoundError.http_status:
                    raise NotFoundError(f"{path} does not exist")
                self._raise_refusal(endpoint, answer.status, body)
            self.first = endpoint
            return body
        return None

    @contextlib.contextmanager
    def _guard(self, tries: _CallEndpoints, endpoint: str) -> Iterator[None]:
        """Swallow what the next endpoint may do better; let through what the server decided."""
        try:
            yield
        except (TransportError, UnavailableError) as exc:
            if self.first == endpoint:
                self.first = None
            tries.failed(endpoint, exc)

    def _raise_refusal(self, endpoint: str, status: int, body: bytes) -> None:
        """Raise what the server answered; an answer of its own choice proves that the endpoint lives."""
        error = error_from(status, body)
        if not isinstance(error, UnavailableError):
            self.first = endpoint
        raise error

    @staticmethod
    def _check_server(endpoint: str, answer: HttpAnswer) -> None:
        """Any host of the cluster has a certificate of our CA; only a judicator's may answer."""
        if answer.role != JUDICATOR:
            raise ForbiddenError(f"{endpoint} answered with a certificate of role '{answer.role}', not of a judicator")
