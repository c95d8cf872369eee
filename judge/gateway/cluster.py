"""The cluster as the gateway sees it: calls to whichever judicator answers, and what they spare it."""

from __future__ import annotations

import contextlib
import functools
import http
import json
import logging
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TypeGuard, TypeVar

from judge.common import clock
from judge.common.errors import DeadlineError, JudgeError, OutcomeUnknownError, UnavailableError
from judge.config import GatewayConfig
from judge.daemon import tracing
from judge.etcd.client import Etcd
from judge.gateway import asking, disclosure, trace
from judge.gateway.adding import Adding, Again, Outcome, prepared
from judge.model import messages as m
from judge.model.audit import By
from judge.model.overview import StatusReply
from judge.model.problem import ProblemManifest
from judge.model.several import OneCall
from judge.rpc.client import RpcClient
from judge.rpc.endpoints import EtcdEndpoints

log = logging.getLogger(__name__)

M = TypeVar("M", bound=m.Message)
_HEALTH_AGE = 1.0
_MANIFESTS = 256


class Cluster:
    """One per worker process, used by all its threads. Connects on the first call, which is after uWSGI's fork."""

    def __init__(self, config: GatewayConfig) -> None:
        self._config = config
        # Entered while a call of a person is held.
        self.held: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
        self._lock = threading.Lock()
        self._rpc: RpcClient | None = None
        self._asking = threading.Lock()
        self._health: tuple[float, list[str]] = (-_HEALTH_AGE, ["the state of the cluster is not known yet"])
        self._samples = functools.lru_cache(_MANIFESTS)(self._read_samples)
        # Long polls hold a thread each; some threads always stay free for everybody else, and some polls for others.
        self._waiters = max(1, config.threads * 3 // 4)
        self._waiters_each = max(1, self._waiters // 2)
        self._waiting: Counter[str] = Counter()
        self._adding = Adding(self)

    def close(self) -> None:
        with self._lock:
            if self._rpc is not None:
                self._rpc.close()
                self._rpc = None

    def call(self, method: str, request: m.Message, reply: type[M], *, timeout: float | None = None) -> M:
        """Call a method of judge.rpc.methods for the person whose request is being answered.

        Raises what the cluster answers; when nobody does, UnavailableError says what a person can do about it.
        `timeout` in seconds: the config's, with what a request asks the server to hold, unless given.
        """
        with self._sentences():
            return self.forward(method, request, reply, timeout=timeout, by=asking.current())

    def forward(
        self, method: str, request: m.Message, reply: type[M], *, by: By | None = None, timeout: float | None = None
    ) -> M:
        """The same for the one whom `by` names, with the errors as the client of the RPC has them."""
        return self._client().call(method, request, reply, timeout=timeout, by=by)

    def add(self, submission: m.Submission) -> m.AddReply:
        """Hand a submission in for the person whose request is being answered; raises as `call` does."""
        return self._traced(lambda: self._adding.send(self.prepared(submission)))

    def prepared(self, submission: m.Submission) -> OneCall:
        """A submission as it is handed in for that person, however often it takes."""
        return prepared(submission, asking.current())

    def add_alone(self, call: OneCall, again: Again) -> m.AddReply:
        """Hand one in after a try with others; raises as `call` does."""
        return self._traced(lambda: self._adding.alone(call, again))

    def add_together(self, calls: Sequence[OneCall]) -> list[Outcome]:
        """Hand several in by one call (judge.gateway.adding.parts); what came of each."""
        begin = tracing.now()
        outcomes = self._adding.together(calls)
        for outcome in outcomes:
            if isinstance(outcome, m.AddReply) and outcome.created:
                trace.handed_in(outcome.task, begin)
        return [_for_people(outcome) if _inner(outcome) else outcome for outcome in outcomes]

    def _traced(self, add: Callable[[], m.AddReply]) -> m.AddReply:
        begin = tracing.now()
        with self._sentences():
            answer = add()
        if answer.created:
            trace.handed_in(answer.task, begin)
        return answer

    def wait(self, task: str, wait: float, version: int | None, user: str) -> tuple[m.Task, bool]:
        """One task when its version has passed `version`, or it is done, or after `wait` seconds.

        The second value is False when too many wait already, or half of them are this `user`'s: then the answer is the
        task as it is now, and the caller should pause before asking again.
        """
        with self._lock:
            full = self._waiting.total() >= self._waiters or self._waiting[user] >= self._waiters_each
            if not full:
                self._waiting[user] += 1
        if full:
            return self.call("get", m.GetRequest(id=task), m.Task), False
        try:
            with self.held():
                return self.call("get", m.GetRequest(id=task, wait=wait, version=version), m.Task), True
        finally:
            with self._lock:
                self._waiting[user] -= 1
                self._waiting += Counter()  # forgets those who have none

    def faults(self) -> list[str]:
        """The faults of the cluster, up to a second old, without a name or address; one sentence when nobody answers.

        For callers without a token, who must not be able to load the cluster: one of them asks, the others get what
        is known.
        """
        checked_at, sentences = self._health
        if clock.monotonic() - checked_at < _HEALTH_AGE or not self._asking.acquire(blocking=False):
            return sentences
        try:
            try:
                sentences = disclosure.faults(self.forward("status", m.Empty(), StatusReply))
            except JudgeError as exc:
                log.warning("the state of the cluster cannot be read: %s", exc)
                sentences = [_sentence(exc)]
            self._health = (clock.monotonic(), sentences)
            return sentences
        finally:
            self._asking.release()

    def samples(self, problem: m.ProblemRef) -> frozenset[str]:
        """The names of a problem's sample tests, which its contestants may see; empty when that cannot be known."""
        try:
            return self._samples(problem.hash)
        except (JudgeError, ValueError) as exc:
            log.warning("the manifest of problem %s cannot be read: %s", problem.name, exc)
            return frozenset()

    def _read_samples(self, content: str) -> frozenset[str]:
        with self.blob(content) as file:
            manifest = ProblemManifest.model_validate(json.load(file))
        return frozenset(test.name for test in manifest.tests if test.sample)

    def has_blob(self, sha: str) -> bool:
        with self._sentences():
            return self._client().has_blob(sha)

    def put_blob(self, file: IO[bytes], sha: str, length: int) -> None:
        with self._sentences():
            self._client().put_file(file, sha, length)

    def put_pack(self, body: bytes) -> None:
        with self._sentences():
            self._client().put_pack(body)

    def blob(self, sha: str) -> IO[bytes]:
        """Stored content as a file that is gone once closed; NotFoundError when nothing has this hash."""
        with tempfile.TemporaryDirectory(prefix="judge-blob-", dir=self._config.spool_dir) as directory:
            target = Path(directory) / sha
            with self._sentences():
                self._client().get_blob(sha, target)
            return target.open("rb")

    def _client(self) -> RpcClient:
        with self._lock:
            if self._rpc is None:
                endpoints = EtcdEndpoints(
                    Etcd(self._config.etcd), self._config.run_dir / f"{self._config.name}-judicators"
                )
                self._rpc = RpcClient(endpoints, self._config.tls, self._config.rpc_timeout)
            return self._rpc

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        """Say what a person can do about a cluster that does not answer, or fails."""
        try:
            yield
        except JudgeError as exc:
            if not _inner(exc):
                raise
            raise _for_people(exc) from exc


def _inner(outcome: Outcome) -> TypeGuard[JudgeError]:
    """Return whether this is an error of the cluster itself, and not the answer to what a person has asked for."""
    return isinstance(outcome, JudgeError) and outcome.http_status >= http.HTTPStatus.INTERNAL_SERVER_ERROR


def _for_people(exc: JudgeError) -> JudgeError:
    """The same as a fixed sentence that says what a person can do about it.

    What went wrong may name hosts and addresses: judges and admins are told it, others the number in the log.
    """
    by = asking.current()
    number = trace.current()
    log.warning("trace %s: %s", number or "none", exc)
    detail = f"trace {number}" if number else ""
    if by is not None and by.role in {"judge", "admin"}:
        detail = str(exc)
    kind = type(exc) if isinstance(exc, UnavailableError) else JudgeError
    return kind(_sentence(exc) + (f" ({detail})" if detail else ""))


def _sentence(exc: JudgeError) -> str:
    if isinstance(exc, DeadlineError):
        return "the judge's servers did not answer in time, try again in a few seconds"
    if isinstance(exc, OutcomeUnknownError):
        return (
            "the judge's servers did not answer in time, so the outcome is unknown; with the same Idempotency-Key it "
            "is safe to try again"
        )
    if isinstance(exc, UnavailableError):
        return "the judge's servers do not answer at the moment, try again in a few seconds"
    return "the judge's servers failed; the operators' logs have the reason"
