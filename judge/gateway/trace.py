"""The trace id of a request: given by the client or made here; it goes with the task to the sandbox (docs/api.md)."""

from __future__ import annotations

import re
import uuid

from flask import Request, Response, g, has_request_context

from judge.daemon import tracing
from judge.model.messages import Task

HEADER = "X-Request-Id"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LOOKING = {"GET", "HEAD", "OPTIONS"}
_W3C = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def trace_of(request_id: str, traceparent: str) -> str:
    """The id that these headers name, or a fresh one. What is no id is passed over: it must not get into logs."""
    if _PLAIN.fullmatch(request_id):
        return request_id
    match = _W3C.fullmatch(traceparent)
    if match and match[1] != "0" * 32:
        return match[1]
    return uuid.uuid4().hex


def begin(request: Request) -> None:
    """Give the request its id; called before every handler."""
    g.trace = trace_of(request.headers.get(HEADER, ""), request.headers.get("traceparent", ""))
    if tracing.enabled():
        g.span, g.span_begin = tracing.fresh(), tracing.now()


def current() -> str:
    """The id of the request that is being answered; empty outside of any."""
    return str(g.get("trace", "")) if has_request_context() else ""


def ended(request: Request, response: Response) -> None:
    """The request has its answer: a span of it, when it was one that changes something."""
    if tracing.enabled() and request.method not in _LOOKING:
        tracing.emit(
            f"{request.method} {request.url_rule or 'nothing'}",
            current(),
            g.span,
            g.span_begin,
            parent=tracing.caller_span(current(), request.headers.get("traceparent", "")),
            kind="SERVER",
            route=request.endpoint or "",
            status=response.status_code,
            failed=response.status_code >= 500,
        )


def handed_in(task: Task, begin: int) -> None:
    """A submission was handed to the judicators from `begin` on: the span that all of its judging belongs to."""
    if not tracing.enabled():
        return
    inside = has_request_context() and "span" in g and task.trace == g.trace
    tracing.emit(
        "hand in",
        task.trace,
        tracing.span_number(task.trace, task.id, "add"),
        begin,
        parent=g.span if inside else None,
        kind="CLIENT",
        submission=task.id,
    )
