"""For whom, and from where, the gateway makes its calls: it goes along with each of them (judge.model.audit.By)."""

from __future__ import annotations

from flask import g, has_request_context, request

from judge.gateway import trace
from judge.gateway.auth import Principal
from judge.model.audit import By


def origin() -> str:
    """The address of this request's client, as the front says of the connection; no header of a client's own counts."""
    return (request.remote_addr or "")[:64]


def begin(principal: Principal) -> None:
    """Keep who makes this request; called once that is known."""
    g.by = By(
        actor=principal.user,
        role=principal.role if principal.user else "",
        origin=origin(),
        trace=trace.current(),
    )


def current() -> By | None:
    """For whom the request that is being answered is made; None outside of any."""
    return g.get("by") if has_request_context() else None
