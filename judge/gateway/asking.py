"""For whom, and from where, the gateway makes its calls: it goes along with each of them (judge.model.audit.By)."""

from __future__ import annotations

from flask import Request, g, has_request_context

from judge.gateway import trace
from judge.gateway.auth import Principal
from judge.model.audit import By


def begin(request: Request, principal: Principal) -> None:
    """Keep who makes this request; called once that is known.

    The address is what the gateway's front says of the connection (`Gate.address`); no header of a client's own counts.
    """
    g.by = By(
        actor=principal.user,
        role=principal.role if principal.user else "",
        origin=(request.remote_addr or "")[:64],
        trace=trace.current(),
    )


def current() -> By | None:
    """For whom the request that is being answered is made; None outside of any."""
    return g.get("by") if has_request_context() else None
