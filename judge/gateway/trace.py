"""The trace id of a request: given by the client or made here; it goes with the task to the sandbox (docs/api.md)."""

from __future__ import annotations

import re
import uuid

from flask import Request, g

HEADER = "X-Request-Id"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_W3C = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def trace_of(request_id: str, traceparent: str) -> str:
    """The id that these headers name, or a fresh one. What is no id is passed over: it must not get into logs."""
    if _PLAIN.fullmatch(request_id):
        return request_id
    found = _W3C.fullmatch(traceparent)
    if found and found[1] != "0" * 32:
        return found[1]
    return uuid.uuid4().hex


def begin(request: Request) -> None:
    """Give the request its id; called before every handler."""
    g.trace = trace_of(request.headers.get(HEADER, ""), request.headers.get("traceparent", ""))


def current() -> str:
    """The id of the request that is being answered."""
    return str(g.trace)
