"""The table of RPC methods: request, reply and which certificates may call. Server and client both read it."""

from __future__ import annotations

from dataclasses import dataclass

from judge.rpc import messages as m

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
    "executors": Method(m.Empty, m.ExecutorsReply, _PEOPLE),
    "drain": Method(m.DrainRequest, m.ExecutorState, _PEOPLE),
    "status": Method(m.Empty, m.StatusReply, _PEOPLE),
    "problems": Method(m.Empty, m.ProblemsReply, _PEOPLE),
    "problem_import": Method(m.ProblemImport, m.ProblemInfo, _PEOPLE),
    "rejudge_preview": Method(m.RejudgeFilter, m.RejudgePreview, _PEOPLE),
    "rejudge_start": Method(m.RejudgeStart, m.Rejudging, _PEOPLE),
    "rejudgings": Method(m.RejudgingsRequest, m.RejudgingsReply, _PEOPLE),
    "rejudging": Method(m.RejudgingRef, m.Rejudging, _PEOPLE),
    "rejudge_diff": Method(m.RejudgeDiffRequest, m.RejudgeDiff, _PEOPLE),
    "rejudge_apply": Method(m.RejudgeAct, m.Rejudging, _PEOPLE),
    "rejudge_cancel": Method(m.RejudgeAct, m.Rejudging, _PEOPLE),
}

# Blobs travel as bodies: GET /blobs/SHA (executor, gateway), PUT /blobs/SHA (executor, gateway), HEAD /blobs/SHA.
BLOB_ROLES = frozenset({GATEWAY, EXECUTOR})
