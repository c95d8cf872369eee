"""Rejudgings in the HTTP API: the handlers and their rows of the table of routes. All of it is for admins."""

from __future__ import annotations

import logging
import uuid

from flask import request

from judge.common.errors import FieldError, NotFoundError
from judge.gateway import trace
from judge.gateway.api import models
from judge.gateway.api.routes import Call, Reply, Route
from judge.gateway.auth import Principal
from judge.gateway.cluster import Cluster
from judge.model import messages as m
from judge.model import rejudging as r

log = logging.getLogger(__name__)

_MOST = 2**31
_DIGITS = len(str(_MOST))


# --- what pages use as well ------------------------------------------------------------------------------------


def number_of(text: str) -> int:
    """The number of a rejudging in an address; what is none is answered like one that does not exist."""
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS or not 1 <= int(text) <= _MOST:
        raise NotFoundError(f"there is no rejudging '{text[:60]}'")
    return int(text)


def start(cluster: Cluster, principal: Principal, body: models.RejudgeBody, key: str | None) -> r.Rejudging:
    """Start one; the caller has checked the role. Without a key it gets one, so that the RPC may repeat it."""
    message = r.RejudgeStart(
        filter=body.filter,
        reason=body.reason,
        idempotency_key=key or body.idempotency_key or uuid.uuid4().hex,
        user=principal.user,
        trace=trace.current(),
    )
    new = cluster.call("rejudge_start", message, r.Rejudging)
    log.info("%s started rejudging %d of %d submissions, trace %s", principal.user, new.id, new.total, new.trace)
    return new


def act(cluster: Cluster, principal: Principal, number: int, *, apply: bool, key: str | None) -> r.Rejudging:
    """Apply or cancel one; the caller has checked the role."""
    message = r.RejudgeAct(id=number, key=key or uuid.uuid4().hex, user=principal.user)
    rejudging = cluster.call("rejudge_apply" if apply else "rejudge_cancel", message, r.Rejudging)
    done = "applied" if apply else "cancelled"
    log.info("%s %s rejudging %d, trace %s", principal.user, done, number, rejudging.trace)
    return rejudging


# --- handlers --------------------------------------------------------------------------------------------------


def _key() -> str | None:
    key = request.headers.get("Idempotency-Key")
    if key is not None and not 1 <= len(key) <= 128:
        raise FieldError("Idempotency-Key", f"has {len(key)} characters; send 1 to 128")
    return key


def _start(call: Call) -> Reply:
    rejudging = start(call.cluster, call.principal, call.body, _key())
    return Reply(rejudging, 201, {"Location": f"/api/v1/rejudgings/{rejudging.id}"})


def _diff(call: Call) -> m.Message:
    message = r.RejudgeDiffRequest(id=number_of(call.params["id"]), **dict(call.query))
    return call.cluster.call("rejudge_diff", message, r.RejudgeDiff)


def _act(call: Call, *, apply: bool) -> m.Message:
    return act(call.cluster, call.principal, number_of(call.params["id"]), apply=apply, key=_key())


_HEADERS = {"Idempotency-Key": "1 to 128 characters; a repeated call with the same key does nothing more"}

ROUTES: list[Route] = [
    Route("POST", "/rejudgings/preview", "rejudge_preview", "Preview a rejudging with this filter", None,
          "judge", r.RejudgePreview, body=r.RejudgeFilter, calls=("rejudge_preview",)),
    Route("POST", "/rejudgings", "rejudge_start", "Judge submissions again, at low priority", _start, "judge",
          r.Rejudging, 201, body=models.RejudgeBody, headers=_HEADERS, calls=("rejudge_start",)),
    Route("GET", "/rejudgings", "rejudgings", "The rejudgings, newest first", None, "judge", r.RejudgingsReply,
          query=r.RejudgingsRequest, calls=("rejudgings",)),
    Route("GET", "/rejudgings/<id>", "rejudging", "One rejudging and its progress",
          lambda call: call.cluster.call("rejudging", r.RejudgingRef(id=number_of(call.params["id"])), r.Rejudging),
          "judge", r.Rejudging, calls=("rejudging",)),
    Route("GET", "/rejudgings/<id>/diff", "rejudge_diff", "Old and new verdicts", _diff, "judge",
          r.RejudgeDiff, query=models.RejudgeDiffQuery, calls=("rejudge_diff",)),
    Route("POST", "/rejudgings/<id>/apply", "rejudge_apply", "Apply all new verdicts at once",
          lambda call: _act(call, apply=True), "judge", r.Rejudging, headers=_HEADERS, calls=("rejudge_apply",)),
    Route("POST", "/rejudgings/<id>/cancel", "rejudge_cancel", "Cancel a rejudging; no verdict changes",
          lambda call: _act(call, apply=False), "judge", r.Rejudging, headers=_HEADERS, calls=("rejudge_cancel",)),
]  # fmt: skip
