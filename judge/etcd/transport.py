"""Calls to etcd under one deadline over several endpoints: rotation, what a failure means, stale-member guard.

It answers the one question that `etcd3` leaves open after a failure: was something done, or not, or can nobody know?
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from judge.common.clock import Deadline, monotonic
from judge.common.errors import DeadlineError, JudgeError, NotFoundError, OutcomeUnknownError, UnavailableError
from judge.config import Tls
from judge.etcd.wire import Stubs, connect, credentials, grpc

Method = Callable[[Stubs], Callable[..., Any]]

_MIN_SHARE = 0.5  # seconds; below this a try is more likely to fail for lack of time than for the endpoint's sake
_FRESH = 1.0  # seconds; a connection that answered this recently is trusted with a write

# Texts of UNAVAILABLE that prove that the request was not carried out; every other one leaves it open.
_NOT_DONE = (
    "failed to connect to all addresses",
    "etcdserver: no leader",
    "etcdserver: not capable",
    "etcdserver: unhealthy cluster",
    "etcdserver: rpc not supported for learner",
    "Concurrent RPC limit exceeded",  # the gate's own gRPC
    "the gate does not know yet",  # the sentence goes on: whose certificates are refused
)


_PEER = re.compile(r"^(UNKNOWN: )?ipv[46]:\S+: ")  # gRPC's own prefix; our sentence names the endpoint already


class RejectedError(UnavailableError):
    """etcd refused the request as things are (not in sync, too few members up, full database); nothing was done."""

    code = "etcd_rejected"


class LeaseGoneError(NotFoundError):
    """The lease has expired or was revoked; nothing was done."""

    code = "etcd_lease_gone"


_REFUSALS = frozenset(
    {
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)


def classify(code: Any, details: str) -> type[JudgeError] | None:
    """Tell from a gRPC status code and its text what became of the request; None: it was not carried out. Pure."""
    if code == grpc.StatusCode.NOT_FOUND and "lease not found" in details:
        return LeaseGoneError
    if any(text in details for text in _NOT_DONE):
        return None
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED and "too many requests" in details:
        return None
    return RejectedError if code in _REFUSALS else OutcomeUnknownError


def shares(timeout: float, endpoints: int) -> int:
    """The number of tries that share `timeout` seconds; pure. One endpoint is tried twice: it may be a proxy."""
    return max(1, min(max(2, endpoints), int(timeout / _MIN_SHARE)))


def attempts(deadline: Deadline, endpoints: int, first: int) -> Iterator[tuple[int, float]]:
    """The tries of one call until nobody wants another or its time is over: (index of the endpoint, seconds for it).

    The tries begin at endpoint `first` and go round; each has an equal share of what the ones before have left.
    """
    tries = shares(deadline.seconds, endpoints)
    for number in range(tries):
        remaining = deadline.left()
        if remaining <= 0.0:
            return
        yield (first + number) % endpoints, remaining / (tries - number)


@dataclass(frozen=True)
class FailedTry:
    """The end of a try without an answer, and what follows for its call.

    `error` ends the call; without one the next endpoint may be asked. `text` is why, for a person. With `retire` the
    connection must not be used again; `late`: the time of the try was over.
    """

    text: str
    error: type[JudgeError] | None = None
    retire: bool = False
    late: bool = False


def outcome(exc: Any, *, sent: bool) -> FailedTry:
    """Tell from the exception of a try what follows for its call; pure.

    `sent`: it was a write, and may have reached etcd. `exc` is a grpc.RpcError, a ValueError of grpc, or the refusal of
    a member left behind.
    """
    if isinstance(exc, _StaleMemberError):
        return FailedTry(str(exc))
    if isinstance(exc, ValueError):  # grpc's answer to a call on a closed channel
        return FailedTry("this client is closed", UnavailableError)
    error, reason = classify(exc.code(), exc.details() or ""), _text(exc)
    late = exc.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    retire = late or "etcdserver:" not in reason
    if error is LeaseGoneError:
        return FailedTry("the lease is gone", error, retire)
    if error is RejectedError:
        return FailedTry(f"refused: {reason}", error, retire)
    if error is OutcomeUnknownError and sent:
        return FailedTry(f"no answer ({reason}); it may or may not have been done", error, retire)
    return FailedTry(reason, None, retire, late)


class TermGuard:
    """Remembers the highest raft term of each cluster: an answer with an older one comes from a member left behind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._highest: dict[int, int] = {}

    def fresh(self, cluster_id: int, term: int) -> bool:
        """Note the term; False when a newer one was already seen."""
        with self._lock:
            highest = self._highest.get(cluster_id, 0)
            self._highest[cluster_id] = max(highest, term)
            return term >= highest


class _Channel:
    """One channel; closed when it is retired and nobody uses it any more."""

    def __init__(self, endpoint: str, credentials: Any | None) -> None:
        channel = connect(endpoint, credentials)
        self.stubs, self.close = Stubs(channel), channel.close
        self.users = 0
        self.retired = False
        self.answered = -_FRESH

    def prove(self, share: Deadline) -> None:
        """Ask a harmless question, unless one was answered just now; grpc.RpcError when nobody answers in time."""
        if monotonic() - self.answered > _FRESH:
            self.stubs.alive(b"", timeout=share.left())
            self.answered = monotonic()


class Transport:
    """Thread-safe; used by `Etcd` only."""

    def __init__(self, endpoints: Sequence[str], tls: Tls | None, timeout: float) -> None:
        """`endpoints` are `host:port`; `timeout` is the seconds that a whole call may take. Nothing connects yet."""
        self.endpoints = tuple(endpoints)
        self._credentials = credentials(tls)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._connections: dict[str, _Channel] = {}
        self._preferred = 0
        self._guard = TermGuard()
        self._closed = False

    def close(self) -> None:
        """End all connections; calls in flight fail, later ones raise UnavailableError."""
        with self._lock:
            self._closed = True
            connections = list(self._connections.values())
            self._connections.clear()
        for connection in connections:
            connection.close()

    def read(self, label: str, method: Method, request: Any) -> Any:
        """A call that may be repeated: tries every endpoint within the deadline."""
        return self._run(label, method, request, repeat=True)

    def write(self, label: str, method: Method, request: Any) -> Any:
        """A call that must not be sent twice: goes only over a connection that has just answered.

        A frozen or vanished member is thereby found by a harmless question and not by the write itself.
        OutcomeUnknownError when the write was sent and its answer is missing.
        """
        return self._run(label, method, request, repeat=False)

    def each(self, method: Method, request: Any) -> list[tuple[str, Any | None, str]]:
        """Ask every endpoint once: (endpoint, reply or None, reason when None)."""
        replies: list[tuple[str, Any | None, str]] = []
        share = max(self._timeout / len(self.endpoints), _MIN_SHARE)
        for endpoint in self.endpoints:
            try:
                with self._use(endpoint) as connection:
                    replies.append((endpoint, method(connection.stubs)(request, timeout=share), ""))
            except grpc.RpcError as exc:
                self._retire(endpoint, connection)
                replies.append((endpoint, None, _text(exc)))
        return replies

    def _run(self, label: str, method: Method, request: Any, *, repeat: bool) -> Any:
        deadline = Deadline(self._timeout)
        reasons: dict[str, str] = {}
        late = False
        for index, seconds in attempts(deadline, len(self.endpoints), self._preferred):
            endpoint, share = self.endpoints[index], Deadline(seconds)
            with self._use(endpoint) as connection:
                sent = False
                try:
                    if not repeat:
                        connection.prove(share)
                    sent = not repeat
                    remaining = share.left() if repeat else deadline.left()
                    reply = method(connection.stubs)(request, timeout=remaining)
                    self._check_term(reply, accept=not repeat)
                except (grpc.RpcError, _StaleMemberError, ValueError) as exc:
                    failed = outcome(exc, sent=sent)
                    if failed.retire:
                        self._retire(endpoint, connection)
                    if failed.error is OutcomeUnknownError:
                        # A member that was removed and does not know it yet is alive and answers no write ever.
                        self._preferred = (index + 1) % len(self.endpoints)
                    if failed.error is not None:
                        raise failed.error(f"etcd: {label}: {failed.text}") from exc
                else:
                    connection.answered = monotonic()
                    self._preferred = index
                    return reply
            reasons[endpoint], late = failed.text, failed.late
            self._preferred = (index + 1) % len(self.endpoints)
        text = "; ".join(f"{endpoint}: {reason}" for endpoint, reason in reasons.items())
        if late or deadline.over:
            raise DeadlineError(f"etcd: {label} did not finish within {self._timeout:g} s ({text}); nothing was done")
        raise UnavailableError(f"etcd: {label}: no endpoint can do it ({text}); nothing was done")

    def _check_term(self, reply: Any, *, accept: bool = False) -> None:
        """Raise for an answer of a member left behind; a write that succeeded is true whichever member says so."""
        header = reply.header
        if not self._guard.fresh(header.cluster_id, header.raft_term) and not accept:
            raise _StaleMemberError(f"its raft term {header.raft_term} went back: it lags behind the other members")

    @contextlib.contextmanager
    def _use(self, endpoint: str) -> Iterator[_Channel]:
        with self._lock:
            if self._closed:
                raise UnavailableError("etcd: this client is closed")
            connection = self._connections.get(endpoint)
            if connection is None:
                connection = self._connections[endpoint] = _Channel(endpoint, self._credentials)
            connection.users += 1
        try:
            yield connection
        finally:
            with self._lock:
                connection.users -= 1
                unused = connection.retired and connection.users == 0
            if unused:
                connection.close()

    def _retire(self, endpoint: str, connection: _Channel) -> None:
        """Never start another call on this connection; those of other threads may still finish."""
        with self._lock:
            connection.retired = True
            if self._connections.get(endpoint) is connection:
                del self._connections[endpoint]
            unused = connection.users == 0
        if unused:
            connection.close()


class _StaleMemberError(Exception):
    """An answer with an older raft term than one already seen."""


def _text(exc: Any) -> str:
    details = " ".join((exc.details() or "").split())
    _, _, last = details.rpartition("last error: ")
    return (_PEER.sub("", last or details) or exc.code().name)[:200]
