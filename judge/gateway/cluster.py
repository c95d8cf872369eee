"""The cluster as the gateway sees it: typed calls to whichever judicator answers."""

from __future__ import annotations

import contextlib
import json
import logging
import tempfile
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TypeVar

from judge import clock
from judge.allowance import Role
from judge.config import GatewayConfig
from judge.errors import DeadlineError, JudgeError, OutcomeUnknownError, UnavailableError
from judge.etcd.client import Etcd
from judge.gateway import asking
from judge.model import messages as m
from judge.model.audit import AuditQuery, AuditReply, Note, TokensSeen
from judge.model.deleting import Deleted, DeletionPreview, DeletionWanted, ProblemName, Purged, PurgeRequest
from judge.model.overview import DrainRequest, ExecutorsReply, ExecutorState, StatusReply, UsageReply, UsageRequest
from judge.model.problem import ProblemImport, ProblemInfo, ProblemManifest, ProblemsReply
from judge.model.rejudging import (
    RejudgeAct,
    RejudgeDiff,
    RejudgeDiffRequest,
    RejudgeFilter,
    RejudgePreview,
    RejudgeStart,
    Rejudging,
    RejudgingRef,
    RejudgingsReply,
    RejudgingsRequest,
)
from judge.rpc.client import RpcClient, etcd_endpoints
from judge.rpc.session import SessionBegin, SessionEnd, SessionRef, SessionState

log = logging.getLogger(__name__)

M = TypeVar("M", bound=m.Message)
_HEALTH_AGE = 1.0
_MANIFESTS = 256


class Cluster:
    """One per worker process, used by all its threads. Connects on the first call, which is after uWSGI's fork."""

    def __init__(self, config: GatewayConfig) -> None:
        """Nothing is opened yet."""
        self._config = config
        self._lock = threading.Lock()
        self._rpc: RpcClient | None = None
        self._asking = threading.Lock()
        self._health: tuple[float, list[str]] = (-_HEALTH_AGE, ["the state of the cluster is not known yet"])
        self._samples: OrderedDict[str, frozenset[str]] = OrderedDict()
        # Long polls hold a thread each; some threads always stay free for everybody else, and some polls for others.
        self._waiters = max(1, config.threads * 3 // 4)
        self._waiters_each = max(1, self._waiters // 2)
        self._waiting: Counter[str] = Counter()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._rpc is not None:
                self._rpc.close()
                self._rpc = None

    # --- tasks -------------------------------------------------------------------------------------------------

    def add(self, submission: m.Submission) -> m.AddReply:
        """Hand in; acknowledged once it cannot be lost."""
        return self._call("add", submission, m.AddReply)

    def get(self, task: str) -> m.Task:
        """One task as it is now; NotFoundError for an unknown id."""
        return self._call("get", m.GetRequest(id=task), m.Task)

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
            return self.get(task), False
        try:
            request = m.GetRequest(id=task, wait=wait, version=version)
            return self._call("get", request, m.Task, timeout=wait + self._config.rpc_timeout), True
        finally:
            with self._lock:
                self._waiting[user] -= 1
                self._waiting += Counter()  # forgets those who have none

    def search(self, request: m.SearchRequest) -> m.SearchReply:
        """Find tasks, newest first."""
        return self._call("search", request, m.SearchReply)

    def cancel(self, task: str) -> m.Task:
        """Cancel; a finished task stays as it is."""
        return self._call("cancel", m.TaskRef(id=task), m.Task)

    # --- the machines ------------------------------------------------------------------------------------------

    def status(self) -> StatusReply:
        """The cluster at a glance."""
        return self._call("status", m.Empty(), StatusReply)

    def usage(self, user: str, role: Role) -> UsageReply:
        """What a person may take, and takes now."""
        return self._call("usage", UsageRequest(user=user, role=role), UsageReply)

    def problems_of_cluster(self) -> list[str]:
        """What is wrong with the cluster, up to a second old; one sentence when nobody answers.

        For callers without a token, who must not be able to load the cluster: one of them asks, the others get what
        is known.
        """
        when, known = self._health
        if clock.monotonic() - when < _HEALTH_AGE or not self._asking.acquire(blocking=False):
            return known
        try:
            try:
                known = self.status().problems
            except JudgeError as exc:
                known = [str(exc)]
            self._health = (clock.monotonic(), known)
            return known
        finally:
            self._asking.release()

    def executors(self) -> ExecutorsReply:
        """All known executors."""
        return self._call("executors", m.Empty(), ExecutorsReply)

    def drain(self, executor: str, *, drain: bool, reason: str) -> ExecutorState:
        """Drain or resume one executor."""
        return self._call("drain", DrainRequest(executor=executor, drain=drain, reason=reason), ExecutorState)

    # --- rejudging ---------------------------------------------------------------------------------------------

    def rejudge_preview(self, wanted: RejudgeFilter) -> RejudgePreview:
        """What a rejudging with this filter would take."""
        return self._call("rejudge_preview", wanted, RejudgePreview)

    def rejudge_start(self, request: RejudgeStart) -> Rejudging:
        """Judge again what the filter finds."""
        return self._call("rejudge_start", request, Rejudging)

    def rejudgings(self, limit: int) -> RejudgingsReply:
        """The newest rejudgings."""
        return self._call("rejudgings", RejudgingsRequest(limit=limit), RejudgingsReply)

    def rejudging(self, number: int) -> Rejudging:
        """One rejudging; NotFoundError."""
        return self._call("rejudging", RejudgingRef(id=number), Rejudging)

    def rejudge_diff(self, request: RejudgeDiffRequest) -> RejudgeDiff:
        """Old verdicts against new ones."""
        return self._call("rejudge_diff", request, RejudgeDiff)

    def rejudge_apply(self, request: RejudgeAct) -> Rejudging:
        """Let the new verdicts count."""
        return self._call("rejudge_apply", request, Rejudging)

    def rejudge_cancel(self, request: RejudgeAct) -> Rejudging:
        """Drop it as a whole."""
        return self._call("rejudge_cancel", request, Rejudging)

    # --- sessions ----------------------------------------------------------------------------------------------

    def session_begin(self, session: str, user: str) -> None:
        """Note a log-in, for all gateways."""
        self._call("session_begin", SessionBegin(id=session, user=user), m.Empty)

    def session_end(self, session: str, user: str, *, everywhere: bool) -> None:
        """End a session, or all of its user's, for all gateways."""
        self._call("session_end", SessionEnd(id=session, user=user, everywhere=everywhere), m.Empty)

    def session_live(self, session: str, user: str) -> bool:
        """Whether a session is in force, and this user's."""
        return self._call("session_live", SessionRef(id=session, user=user), SessionState).live

    # --- deleting ----------------------------------------------------------------------------------------------

    def delete_preview(self, wanted: DeletionWanted) -> DeletionPreview:
        """What would go, what stays, and why it cannot be deleted; NotFoundError."""
        return self._call("delete_preview", wanted, DeletionPreview)

    def delete_submission(self, task: str) -> Deleted:
        """Delete a finished submission; ConflictError says why not."""
        return self._call("delete_submission", m.TaskRef(id=task), Deleted)

    def delete_problem(self, name: str) -> Deleted:
        """Delete a problem; ConflictError says why not."""
        return self._call("delete_problem", ProblemName(name=name), Deleted)

    def purge(self, request: PurgeRequest) -> Purged:
        """Delete a person's data, as much as one call may."""
        return self._call("purge", request, Purged)

    # --- the audit trail ---------------------------------------------------------------------------------------

    def audit(self, request: AuditQuery) -> AuditReply:
        """Search the trail, newest first."""
        return self._call("audit", request, AuditReply)

    def audit_note(self, note: Note, timeout: float | None = None) -> None:
        """Have something noted; it is once this returns."""
        self._call("audit_note", note, m.Empty, timeout)

    def audit_tokens(self, seen: TokensSeen) -> None:
        """Tell all of this gateway's tokens, of which the changes are noted."""
        self._call("audit_tokens", seen, m.Empty)

    # --- problems and blobs ------------------------------------------------------------------------------------

    def problems(self) -> ProblemsReply:
        """All problems."""
        return self._call("problems", m.Empty(), ProblemsReply)

    def problem_import(self, manifest: str) -> ProblemInfo:
        """Register a problem whose blobs are all there."""
        return self._call("problem_import", ProblemImport(manifest=manifest), ProblemInfo)

    def samples(self, problem: m.ProblemRef) -> frozenset[str]:
        """The names of a problem's sample tests, which its contestants may see; empty when that cannot be known."""
        with self._lock:
            known = self._samples.get(problem.hash)
        if known is not None:
            return known
        try:
            with self.blob(problem.hash) as file:
                manifest = ProblemManifest.model_validate(json.load(file))
        except (JudgeError, ValueError) as exc:
            log.warning("the manifest of problem %s cannot be read: %s", problem.name, exc)
            return frozenset()
        names = frozenset(test.name for test in manifest.tests if test.sample)
        with self._lock:
            self._samples[problem.hash] = names
            while len(self._samples) > _MANIFESTS:
                self._samples.popitem(last=False)
        return names

    def has_blob(self, sha: str) -> bool:
        """Whether the cluster stores this content."""
        with self._sentences():
            return self._client().has_blob(sha)

    def put_blob(self, file: IO[bytes], sha: str, length: int) -> None:
        """Store a file's content, whose SHA-256 and length these are."""
        with self._sentences():
            self._client().put_file(file, sha, length)

    def blob(self, sha: str) -> IO[bytes]:
        """Stored content as a file that is gone once closed; NotFoundError when nothing has this hash."""
        with tempfile.TemporaryDirectory(prefix="judge-blob-", dir=self._config.spool_dir) as directory:
            target = Path(directory) / sha
            with self._sentences():
                self._client().get_blob(sha, target)
            return target.open("rb")

    # --- wiring ------------------------------------------------------------------------------------------------

    def _client(self) -> RpcClient:
        with self._lock:
            if self._rpc is None:
                endpoints = etcd_endpoints(Etcd(self._config.etcd))
                self._rpc = RpcClient(endpoints, self._config.tls, self._config.rpc_timeout)
            return self._rpc

    def _call(self, method: str, request: m.Message, reply: type[M], timeout: float | None = None) -> M:
        with self._sentences():
            return self._client().call(method, request, reply, timeout=timeout, by=asking.current())

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        """Say what a person can do about a cluster that does not answer."""
        try:
            yield
        except DeadlineError as exc:
            msg = f"the judge's servers did not answer in time, try again in a few seconds ({exc})"
            raise DeadlineError(msg) from exc
        except OutcomeUnknownError as exc:
            msg = (
                "the judge's servers did not answer in time, so it may have been done or not; "
                f"with the same Idempotency-Key it is safe to try again ({exc})"
            )
            raise OutcomeUnknownError(msg) from exc
        except UnavailableError as exc:
            msg = f"the judge's servers do not answer at the moment, try again in a few seconds ({exc})"
            raise UnavailableError(msg) from exc
