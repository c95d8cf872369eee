"""The table of RPC methods: what a call is stands in its row, and nowhere else.

Server, client and gateway read it: who may call, whether a lost answer may have done something, how long an answer may
rightly take, what is refused.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from judge.common.errors import (
    ConflictError,
    EmptyError,
    JudgeError,
    LimitError,
    NotFoundError,
    StaleError,
    UnauthorizedError,
)
from judge.model import messages as m
from judge.model import people, rejudging, webhooks
from judge.model.audit import AuditQuery, AuditReply, Note, TokensSeen
from judge.model.deleting import Deleted, DeletionPreview, DeletionWanted, ProblemName, Purged, PurgeRequest
from judge.model.figures import FiguresReply, FiguresRequest, HistoryReply, HistoryRequest
from judge.model.messages import BlobsMissing, BlobsWanted
from judge.model.overview import (
    DrainRequest,
    ExecutorsReply,
    ExecutorState,
    MarksReply,
    MarksRequest,
    StatusReply,
    UsageReply,
    UsageRequest,
)
from judge.model.people import SessionBegin, SessionEnd
from judge.model.problem import ProblemImport, ProblemInfo, ProblemsReply, Verification, VerificationReply
from judge.model.several import Outcomes, SeveralAdds, TasksReply, TasksRequest
from judge.model.statements import PagesReply, PagesRequest
from judge.model.streaming import ChangesReply, ChangesRequest
from judge.model.visibility import ProblemChange

EXECUTOR = "executor"
GATEWAY = "gateway"
JUDICATOR = "judicator"


@dataclass(frozen=True)
class Method:
    """One method, served as `POST /rpc/NAME`.

    `roles` are the certificate roles (subject OU) that may call it. `reads`: it stores nothing, so a call without an
    answer has done nothing. `errors` are its refusals beside those that every call may get (400, 403, 413, 503, 504).
    `hold` names the field of the request that has the seconds for which the server may rightly keep it. A `large` body
    may be one of a report, with the results of all slots. What the `leader` alone answers is passed on to it. With
    `each` its `calls` are calls of that method, each for somebody.
    """

    request: type[m.Message]
    reply: type[m.Message]
    roles: frozenset[str]
    errors: tuple[type[JudgeError], ...] = ()
    _: KW_ONLY
    reads: bool
    hold: str | None = None
    large: bool = False
    leader: bool = False
    each: str | None = None

    @property
    def in_own_name(self) -> bool:
        """Return whether the request's `executor` must be the name in an executor's certificate.

        Only executors make this call, and judicators that pass it on to their leader.
        """
        return self.roles == _REPORTING

    def seconds(self, request: m.Message) -> float:
        """The seconds for which the server may keep this request before it answers, as the request asks for."""
        return float(getattr(request, self.hold)) if self.hold else 0.0


_REPORTING = frozenset({EXECUTOR, JUDICATOR})
_PEOPLE = frozenset({GATEWAY})
_ALL = frozenset({GATEWAY, EXECUTOR, JUDICATOR})
_UNKNOWN = (NotFoundError,)
_REFUSED = (NotFoundError, ConflictError)

METHODS: dict[str, Method] = {
    "ping": Method(m.Empty, m.Pong, _ALL, reads=True),
    "report": Method(
        m.ReportRequest, m.ReportReply, _REPORTING, (StaleError,), reads=False, hold="hold", large=True, leader=True
    ),
    "add": Method(m.Submission, m.AddReply, _PEOPLE, (*_REFUSED, LimitError), reads=False),
    "adds": Method(SeveralAdds, Outcomes, _PEOPLE, reads=False, each="add"),
    "cancel": Method(m.TaskRef, m.Task, _PEOPLE, _REFUSED, reads=False),
    "get": Method(m.GetRequest, m.Task, _PEOPLE, _UNKNOWN, reads=True, hold="wait"),
    "tasks": Method(TasksRequest, TasksReply, _PEOPLE, reads=True),
    "search": Method(m.SearchRequest, m.SearchReply, _PEOPLE, reads=True),
    "executors": Method(m.Empty, ExecutorsReply, _PEOPLE, reads=True),
    "drain": Method(DrainRequest, ExecutorState, _PEOPLE, _UNKNOWN, reads=False),
    "executor_history": Method(HistoryRequest, HistoryReply, _PEOPLE, _UNKNOWN, reads=True),
    "figures": Method(FiguresRequest, FiguresReply, _PEOPLE, reads=True),
    "status": Method(m.Empty, StatusReply, _PEOPLE, reads=True),
    "marks": Method(MarksRequest, MarksReply, _PEOPLE, reads=True),
    "usage": Method(UsageRequest, UsageReply, _PEOPLE, reads=True),
    "problems": Method(m.Empty, ProblemsReply, _PEOPLE, reads=True),
    "blobs_missing": Method(BlobsWanted, BlobsMissing, _PEOPLE, reads=True),
    "problem_import": Method(ProblemImport, ProblemInfo, _PEOPLE, _UNKNOWN, reads=False),
    "problem_change": Method(ProblemChange, ProblemInfo, _PEOPLE, _UNKNOWN, reads=False),
    "problem_verified": Method(Verification, m.Empty, _PEOPLE, _UNKNOWN, reads=False),
    "problem_verification": Method(ProblemName, VerificationReply, _PEOPLE, _UNKNOWN, reads=True),
    "problem_statements": Method(PagesRequest, PagesReply, _PEOPLE, _UNKNOWN, reads=False),
    "rejudge_preview": Method(rejudging.RejudgeFilter, rejudging.RejudgePreview, _PEOPLE, _REFUSED, reads=True),
    "rejudge_start": Method(rejudging.RejudgeStart, rejudging.Rejudging, _PEOPLE, (*_REFUSED, EmptyError), reads=False),
    "rejudgings": Method(rejudging.RejudgingsRequest, rejudging.RejudgingsReply, _PEOPLE, reads=True),
    "rejudging": Method(rejudging.RejudgingRef, rejudging.Rejudging, _PEOPLE, _UNKNOWN, reads=True),
    "rejudge_diff": Method(rejudging.RejudgeDiffRequest, rejudging.RejudgeDiff, _PEOPLE, _UNKNOWN, reads=True),
    "rejudge_apply": Method(rejudging.RejudgeAct, rejudging.Rejudging, _PEOPLE, _REFUSED, reads=False),
    "rejudge_cancel": Method(rejudging.RejudgeAct, rejudging.Rejudging, _PEOPLE, _REFUSED, reads=False),
    "session_begin": Method(SessionBegin, m.Empty, _PEOPLE, reads=False),
    "session_end": Method(SessionEnd, m.Empty, _PEOPLE, (LimitError,), reads=False),
    "delete_preview": Method(DeletionWanted, DeletionPreview, _PEOPLE, _UNKNOWN, reads=True),
    "delete_submission": Method(m.TaskRef, Deleted, _PEOPLE, _REFUSED, reads=False),
    "delete_problem": Method(ProblemName, Deleted, _PEOPLE, _REFUSED, reads=False),
    "purge": Method(PurgeRequest, Purged, _PEOPLE, (ConflictError,), reads=False),
    "webhooks": Method(m.Empty, webhooks.WebhooksReply, _PEOPLE, reads=True),
    "webhook_add": Method(webhooks.WebhookAdd, webhooks.WebhookAdded, _PEOPLE, (LimitError,), reads=False),
    "webhook_remove": Method(webhooks.WebhookRef, m.Empty, _PEOPLE, _UNKNOWN, reads=False),
    "webhook_ping": Method(webhooks.WebhookRef, webhooks.Delivery, _PEOPLE, _UNKNOWN, reads=False),
    "webhook_resend": Method(webhooks.Resend, webhooks.Resent, _PEOPLE, _UNKNOWN, reads=False),
    "changes": Method(ChangesRequest, ChangesReply, _PEOPLE, reads=True, hold="wait"),
    "deliveries": Method(webhooks.DeliveriesRequest, webhooks.DeliveriesReply, _PEOPLE, reads=True),
    "login": Method(people.Login, people.Person, _PEOPLE, (UnauthorizedError, LimitError), reads=False),
    "identity_login": Method(people.IdentityLogin, people.Person, _PEOPLE, (ConflictError,), reads=False),
    "user": Method(people.UserRef, people.User, _PEOPLE, _UNKNOWN, reads=True),
    "users": Method(people.UsersQuery, people.UsersReply, _PEOPLE, reads=True),
    "user_add": Method(people.UserAdd, people.User, _PEOPLE, (ConflictError,), reads=False),
    "users_add": Method(people.UsersAdd, people.UsersAdded, _PEOPLE, (ConflictError,), reads=False),
    "names": Method(people.NamesQuery, people.NamesReply, _PEOPLE, reads=True),
    "user_change": Method(people.UserChange, people.User, _PEOPLE, _REFUSED, reads=False),
    "user_password": Method(
        people.PasswordSet, m.Empty, _PEOPLE, (*_REFUSED, UnauthorizedError, LimitError), reads=False
    ),
    "user_delete": Method(people.UserRef, m.Empty, _PEOPLE, _REFUSED, reads=False),
    "tokens": Method(people.TokensQuery, people.TokensReply, _PEOPLE, reads=True),
    "credentials": Method(people.Credentials, people.CredentialStates, _PEOPLE, reads=True),
    "token_used": Method(people.TokenUsed, m.Empty, _PEOPLE, reads=False),
    "token_create": Method(people.TokenNew, people.TokenInfo, _PEOPLE, (*_REFUSED, LimitError), reads=False),
    "token_revoke": Method(people.TokenEnd, m.Empty, _PEOPLE, (*_UNKNOWN, LimitError), reads=False),
    "audit": Method(AuditQuery, AuditReply, _PEOPLE, reads=True),
    "audit_note": Method(Note, m.Empty, _PEOPLE, reads=False),
    "audit_tokens": Method(TokensSeen, m.Empty, _PEOPLE, reads=False),
}

# Blobs travel as bodies: GET, HEAD and PUT /blobs/SHA, and PUT /blobs for a pack of them (executor, gateway).
BLOB_ROLES = frozenset({GATEWAY, EXECUTOR})
