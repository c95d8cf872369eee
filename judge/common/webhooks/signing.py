"""Signatures of webhooks, as the public specification Standard Webhooks (1.0.0) has them; pure functions.

What is signed is `ID.TIME.BODY`, with HMAC-SHA-256 under a secret that is written as `whsec_` and Base64. Receivers in
many languages have a library that checks it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Final

PREFIX: Final = "whsec_"
_BYTES: Final = 32
# The specification's bounds of a secret.
_LEAST, _MOST = 24, 64


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


def key_of(secret: str) -> bytes:
    """The bytes of a secret; ValueError when it is none."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error as exc:
        raise ValueError(f"a secret is {PREFIX} and Base64") from exc
    if not _LEAST <= len(key) <= _MOST:
        raise ValueError(f"a secret has {_LEAST} to {_MOST} bytes, this one {len(key)}")
    return key


def signature(secret: str, identifier: str, moment: int, body: bytes) -> str:
    """The value of `webhook-signature` for a body that is sent at `moment`, in seconds since 1970."""
    message = b".".join((identifier.encode(), str(moment).encode(), body))
    return "v1," + base64.b64encode(hmac.new(key_of(secret), message, hashlib.sha256).digest()).decode()


def headers(secret: str, identifier: str, moment: int, body: bytes) -> dict[str, str]:
    """The headers of a call. `identifier` is the same in every try, so that a receiver may drop a repeated one."""
    return {
        "webhook-id": identifier,
        "webhook-timestamp": str(moment),
        "webhook-signature": signature(secret, identifier, moment, body),
    }
