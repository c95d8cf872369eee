"""Browsers from which somebody has come in by password: strangers' wrong passwords do not keep these out.

The cookie lets nobody in. A browser that has it for a name has tries of its own (judge/judicator/people/throttle.py),
and its log-ins count apart from those of its address (judge/gateway/admission.py).
"""

from __future__ import annotations

import secrets
from typing import Final

from flask import Request, Response, current_app
from itsdangerous import BadSignature, URLSafeTimedSerializer

_SECONDS: Final = 365 * 86400


def device_of(request: Request, user: str) -> str:
    """The name of the browser that makes this request, if this user has logged in with it; else empty."""
    name, device = _identify(request)
    return device if name == user.lower() else ""


def any_device_of(request: Request) -> str:
    """The name of the browser that makes this request, for any user; empty for a new browser."""
    return _identify(request)[1]


def remember(request: Request, response: Response, user: str) -> None:
    """Have this browser remember that this user has come in by it."""
    device = device_of(request, user) or secrets.token_urlsafe(24)
    response.set_cookie(
        _cookie(),
        _signer().dumps([user.lower(), device]),
        max_age=_SECONDS,
        secure=bool(current_app.config["SESSION_COOKIE_SECURE"]),
        httponly=True,
        samesite="Lax",
    )


def _identify(request: Request) -> tuple[str, str]:
    """(who has come in by this browser, its name); both are empty for a cookie that is none."""
    cookie = request.cookies.get(_cookie(), "")
    try:
        user, device = (str(part) for part in _signer().loads(cookie[:1000], max_age=_SECONDS))
    except (BadSignature, TypeError, ValueError):
        return "", ""
    return user, device[:64]


def _cookie() -> str:
    return f"{current_app.config['SESSION_COOKIE_NAME']}-device"


def _signer() -> URLSafeTimedSerializer:
    keys = [*(current_app.config.get("SECRET_KEY_FALLBACKS") or []), current_app.secret_key]
    return URLSafeTimedSerializer(keys, salt="judge device")
