"""Browsers from which somebody has come in by password: strangers' wrong passwords do not keep these out.

The cookie lets nobody in. A browser that has it for a name has tries of its own (judge/judicator/people/throttle.py),
and its log-ins count apart from those of its address (judge/gateway/admission.py).
"""

from __future__ import annotations

import secrets
from typing import Final

from flask import Flask, Request, Response, current_app
from itsdangerous import BadSignature, URLSafeTimedSerializer

_SECONDS: Final = 365 * 86400


def device_of(request: Request, user: str) -> str:
    """The name of the browser that makes this request, if this user has come in by it; else empty."""
    name, device = identify(current_app, request.cookies.get(device_cookie(_session_cookie(current_app)), ""))
    return device if name == user.lower() else ""


def any_device_of(request: Request) -> str:
    """The name of the browser that makes this request, whichever person logged in with it; empty for a new browser."""
    return identify(current_app, request.cookies.get(device_cookie(_session_cookie(current_app)), ""))[1]


def identify(app: Flask, cookie: str) -> tuple[str, str]:
    """(who has come in by a browser with this cookie, the browser's name); both are empty for a cookie that is none."""
    try:
        user, device = (str(part) for part in _signer(app).loads(cookie[:1000], max_age=_SECONDS))
    except (BadSignature, TypeError, ValueError):
        return "", ""
    return user, device[:64]


def device_cookie(session: str) -> str:
    """The name of the cookie, beside that of the session's."""
    return f"{session}-device"


def remember(request: Request, response: Response, user: str) -> None:
    """Have this browser remember that this user has come in by it."""
    device = device_of(request, user) or secrets.token_urlsafe(24)
    response.set_cookie(
        device_cookie(_session_cookie(current_app)),
        _signer(current_app).dumps([user.lower(), device]),
        max_age=_SECONDS,
        secure=bool(current_app.config["SESSION_COOKIE_SECURE"]),
        httponly=True,
        samesite="Lax",
    )


def _session_cookie(app: Flask) -> str:
    return str(app.config["SESSION_COOKIE_NAME"])


def _signer(app: Flask) -> URLSafeTimedSerializer:
    keys = [*(app.config.get("SECRET_KEY_FALLBACKS") or []), app.secret_key]
    return URLSafeTimedSerializer(keys, salt="judge device")
