"""The audit trail in the HTTP API: searching it, and what judgectl tells of holds. All of it is for admins."""

from __future__ import annotations

from judge.gateway.api import models
from judge.gateway.api.routes import Answer, Call, Route
from judge.model import messages as m
from judge.model.audit import AuditQuery, AuditReply, Note


def _search(call: Call) -> m.Message:
    return call.cluster.audit(call.query)


def _hold(call: Call) -> Answer:
    body: models.HoldNote = call.body
    details: dict[str, str | int] = {"reason": body.reason, "seconds": body.seconds, "told by": "judgectl"}
    call.cluster.audit_note(Note(action=body.action, object=f"{body.host}/{body.service}", details=details))
    return Answer(body, 201)


ROUTES: list[Route] = [
    Route("GET", "/audit", "audit", "Who had what done, newest first", _search, "admin", AuditReply, query=AuditQuery),
    Route("POST", "/audit/holds", "audit_hold", "Note that boot was told to leave a service alone", _hold, "admin",
          models.HoldNote, 201, body=models.HoldNote),
]  # fmt: skip
