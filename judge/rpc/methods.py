"""The table of RPC methods: request, reply and which certificates may call. Server and client both read it."""

from __future__ import annotations

from dataclasses import dataclass

from judge.model import messages as m
from judge.model.audit import AuditQuery, AuditReply, Note, TokensSeen
from judge.model.deleting import Deleted, DeletionPreview, DeletionWanted, ProblemName, Purged, PurgeRequest
from judge.model.overview import DrainRequest, ExecutorsReply, ExecutorState, StatusReply, UsageReply, UsageRequest
from judge.model.problem import ProblemImport, ProblemInfo, ProblemsReply
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
from judge.rpc.session import SessionBegin, SessionEnd, SessionRef, SessionState

EXECUTOR = "executor"
GATEWAY = "gateway"
JUDICATOR = "judicator"


@dataclass(frozen=True)
class Method:
    """One method, served as `POST /rpc/NAME`; `roles` are the certificate roles (subject OU) that may call it."""

    request: type[m.Message]
    reply: type[m.Message]
    roles: frozenset[str]


_PEOPLE = frozenset({GATEWAY})
_ALL = frozenset({GATEWAY, EXECUTOR, JUDICATOR})

METHODS: dict[str, Method] = {
    "ping": Method(m.Empty, m.Pong, _ALL),
    "report": Method(m.ReportRequest, m.ReportReply, frozenset({EXECUTOR})),
    "wait": Method(m.WaitRequest, m.WaitReply, frozenset({EXECUTOR})),
    "add": Method(m.Submission, m.AddReply, _PEOPLE),
    "cancel": Method(m.TaskRef, m.Task, _PEOPLE),
    "get": Method(m.GetRequest, m.Task, _PEOPLE),
    "search": Method(m.SearchRequest, m.SearchReply, _PEOPLE),
    "executors": Method(m.Empty, ExecutorsReply, _PEOPLE),
    "drain": Method(DrainRequest, ExecutorState, _PEOPLE),
    "status": Method(m.Empty, StatusReply, _PEOPLE),
    "usage": Method(UsageRequest, UsageReply, _PEOPLE),
    "problems": Method(m.Empty, ProblemsReply, _PEOPLE),
    "problem_import": Method(ProblemImport, ProblemInfo, _PEOPLE),
    "rejudge_preview": Method(RejudgeFilter, RejudgePreview, _PEOPLE),
    "rejudge_start": Method(RejudgeStart, Rejudging, _PEOPLE),
    "rejudgings": Method(RejudgingsRequest, RejudgingsReply, _PEOPLE),
    "rejudging": Method(RejudgingRef, Rejudging, _PEOPLE),
    "rejudge_diff": Method(RejudgeDiffRequest, RejudgeDiff, _PEOPLE),
    "rejudge_apply": Method(RejudgeAct, Rejudging, _PEOPLE),
    "rejudge_cancel": Method(RejudgeAct, Rejudging, _PEOPLE),
    "session_begin": Method(SessionBegin, m.Empty, _PEOPLE),
    "session_end": Method(SessionEnd, m.Empty, _PEOPLE),
    "session_live": Method(SessionRef, SessionState, _PEOPLE),
    "delete_preview": Method(DeletionWanted, DeletionPreview, _PEOPLE),
    "delete_submission": Method(m.TaskRef, Deleted, _PEOPLE),
    "delete_problem": Method(ProblemName, Deleted, _PEOPLE),
    "purge": Method(PurgeRequest, Purged, _PEOPLE),
    "audit": Method(AuditQuery, AuditReply, _PEOPLE),
    "audit_note": Method(Note, m.Empty, _PEOPLE),
    "audit_tokens": Method(TokensSeen, m.Empty, _PEOPLE),
}

# Blobs travel as bodies: GET /blobs/SHA (executor, gateway), PUT /blobs/SHA (executor, gateway), HEAD /blobs/SHA.
BLOB_ROLES = frozenset({GATEWAY, EXECUTOR})
