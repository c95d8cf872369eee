"""The rules of what a browser may do with our pages: the headers of every answer that has none of its own."""

from __future__ import annotations

from typing import Final

_POLICY: Final = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}


def content_policy(**additions: str) -> str:
    """The Content-Security-Policy of a page, with sources for what only some pages have: `object_src="'self'"`."""
    rules = _POLICY | {name.replace("_", "-"): sources for name, sources in additions.items()}
    return "; ".join(f"{name} {sources}" for name, sources in rules.items())


# Of answers over HTTPS: a browser that has come by HTTPS once comes by nothing else for a year.
SECURE_HEADERS: Final = {"Strict-Transport-Security": "max-age=31536000"}
HEADERS: Final = {
    "Content-Security-Policy": content_policy(),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
