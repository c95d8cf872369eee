"""The audit trail in the HTTP API: searching it, and what judgectl tells of holds. All of it is for admins."""

from __future__ import annotations

from judge.gateway.api import models
from judge.gateway.api.routes import Call, Reply, Route
from judge.model import messages as m
from judge.model.audit import AuditQuery, AuditReply, Note


def _hold(call: Call) -> Reply:
    body: models.HoldNote = call.body
    details: dict[str, str | int] = {"reason": body.reason, "seconds": body.seconds, "told by": "judgectl"}
    note = Note(action=body.action, object=f"{body.host}/{body.service}", details=details)
    call.cluster.call("audit_note", note, m.Empty)
    return Reply(body, 201)


ROUTES: list[Route] = [
    Route("GET", "/audit", "audit", "The trail of acts, newest first", None, "admin", AuditReply, query=AuditQuery,
          calls=("audit",)),
    Route("POST", "/audit/holds", "audit_hold", "Note that boot was told to leave a service alone", _hold, "admin",
          models.HoldNote, 201, body=models.HoldNote, calls=("audit_note",)),
]  # fmt: skip
