"""Server-sent events in the HTTP API: who may listen to what. judge/gateway/events.py sends them."""

from __future__ import annotations

import json
from typing import Any, Final

from flask import Response, request
from pydantic import Field, TypeAdapter, ValidationError

from judge.common.errors import FieldError, ForbiddenError
from judge.gateway.api.routes import EVENTS_MEDIA, Call, Raw, Reply, Route
from judge.gateway.api.seen import own_task
from judge.model import messages as m
from judge.model.streaming import Place, Wish

# OpenAPI 3.1 has no schema of a stream of events: readers of it hold one against the whole, or against each event.
EVENTS: Final = Raw(EVENTS_MEDIA, {"description": "server-sent events; docs/events.md"})
# nginx answers with the stream in place of this answer, and hands the wish on (judge/gateway/nginx.conf.j2).
LOCATION: Final = "/.judge/events"
HEADER: Final = "Judge-Wish"
_PLACE = TypeAdapter(Place)
_LAST: Final = "Last-Event-ID"


class ListenQuery(m.Message):
    """The user whose changes are wanted: oneself; for admins everybody, or one user."""

    user: str | None = Field(default=None, max_length=64)
    system: bool = Field(default=False, description="runs of imports and of statements as well")
    after: str | None = Field(
        default=None, max_length=40, description="instead of Last-Event-ID, for clients that cannot send it"
    )


class FollowQuery(m.Message):
    """From where on."""

    after: str | None = Field(
        default=None, max_length=40, description="instead of Last-Event-ID, for clients that cannot send it"
    )


def _last(call: Call) -> str:
    return request.headers.get(_LAST, "").strip() or call.query.after or ""


def _no_place() -> FieldError:
    """The refusal of an id, by the name under which it came."""
    came = _LAST if request.headers.get(_LAST, "").strip() else "after"
    return FieldError(came, "is not the id of an event of this stream; leave it out to begin now")


def _stream(call: Call, **wish: Any) -> Reply:
    answer = Response(iter(()), mimetype=EVENTS.media)
    if request.method != "GET":
        return Reply(answer)
    credential = call.services.identities.credential(request)
    allowed = Wish(key=call.principal.user, role=call.principal.role, credential=credential, **wish)
    text = json.dumps(allowed.model_dump(mode="json", exclude_none=True))
    return Reply(answer, headers={"X-Accel-Redirect": LOCATION, HEADER: text})


def _listen(call: Call) -> Reply:
    user = call.query.user
    if not call.principal.admin:
        if user not in {None, call.principal.user}:
            raise ForbiddenError(f"user: '{call.principal.user}' may only follow their own submissions")
        user = call.principal.user
    after = _last(call)
    try:
        place = _PLACE.validate_python(after) if after else None
    except ValidationError:
        raise _no_place() from None
    return _stream(call, user=user, after=place, system=call.query.system)


def _follow(call: Call) -> Reply:
    task = own_task(call.cluster, call.principal, call.params["id"])
    after = _last(call)
    if after and not (after.isascii() and after.isdigit() and len(after) < 10):
        raise _no_place()
    version = int(after) if after else -1
    if task.done and task.version <= version:
        return Reply(Response(status=204))  # a browser then asks no more
    return _stream(call, submission=task.id, user=task.submission.user, version=version)


_HEADERS = {_LAST: "the id of the last event received; later events are sent first"}
ROUTES: list[Route] = [
    Route("GET", "/events", "events", "Changes of submissions as they happen: the caller's, or all for admins", _listen,
          "user", EVENTS, query=ListenQuery, headers=_HEADERS, calls=("changes",)),
    Route("GET", "/submissions/<id>/events", "follow", "Changes of one submission until it is done", _follow, "user",
          EVENTS, query=FollowQuery, headers=_HEADERS, also={204: "It is finished, and nothing has changed since"},
          calls=("get", "changes")),
]  # fmt: skip
