"""Browsers from which somebody has come in by password: strangers' wrong passwords do not keep these out.

The cookie lets nobody in. A browser that has it for a name has tries of its own (judge/judicator/people/throttle.py).
"""

from __future__ import annotations

import secrets
from typing import Final

from flask import Flask, Request, Response, current_app
from itsdangerous import BadSignature, URLSafeTimedSerializer

_SECONDS: Final = 365 * 86400


def device_of(request: Request, user: str) -> str:
    """The name of the browser that makes this request, if this user has come in by it; else empty."""
    try:
        known = _signer(current_app).loads(request.cookies.get(_cookie(current_app), "")[:1000], max_age=_SECONDS)
        name, device = (str(part) for part in known)
    except (BadSignature, TypeError, ValueError):
        return ""
    return device[:64] if name == user.lower() else ""


def remember(request: Request, response: Response, user: str) -> None:
    """Have this browser remember that this user has come in by it."""
    device = device_of(request, user) or secrets.token_urlsafe(24)
    response.set_cookie(
        _cookie(current_app),
        _signer(current_app).dumps([user.lower(), device]),
        max_age=_SECONDS,
        secure=bool(current_app.config["SESSION_COOKIE_SECURE"]),
        httponly=True,
        samesite="Lax",
    )


def _cookie(app: Flask) -> str:
    return f"{app.config['SESSION_COOKIE_NAME']}-device"


def _signer(app: Flask) -> URLSafeTimedSerializer:
    keys = [*(app.config.get("SECRET_KEY_FALLBACKS") or []), app.secret_key]
    return URLSafeTimedSerializer(keys, salt="judge device")
