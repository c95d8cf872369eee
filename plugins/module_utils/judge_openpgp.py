"""The fingerprint of an OpenPGP public key: a downloaded key is trusted for what it is, without gpg on the host."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

_ARMOR = re.compile(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----\r?\n(?:.+: .*\r?\n)*\r?\n(.*?)\r?\n(?:=[^\n]*\r?\n)?-----END", re.DOTALL
)
_PUBLIC_KEY = 6  # the packet's tag


class KeyFormatError(ValueError):
    """It is no armored version-4 public key; the message is one sentence."""


def fingerprint(armored: str) -> str:
    """The primary key's fingerprint, 40 upper-case hexadecimal digits; KeyFormatError."""
    block = _ARMOR.search(armored)
    if block is None:
        msg = "expected a text that begins with -----BEGIN PGP PUBLIC KEY BLOCK-----"
        raise KeyFormatError(msg)
    try:
        data = base64.b64decode("".join(block[1].split()), validate=True)
        tag, body = _first_packet(data)
    except (binascii.Error, IndexError) as exc:
        msg = f"the key is damaged: {exc}"
        raise KeyFormatError(msg) from None
    if tag != _PUBLIC_KEY or body[:1] != b"\x04":
        msg = "expected a public key of version 4 first"
        raise KeyFormatError(msg)
    return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False).hexdigest().upper()


def _first_packet(data: bytes) -> tuple[int, bytes]:
    """Tag and body of the first packet (RFC 4880, 4.2); IndexError where it ends too early."""
    head = data[0]
    if head & 0x40:  # new format
        tag, first = head & 0x3F, data[1]
        if first < 192:
            size, start = first, 2
        elif first < 224:
            size, start = ((first - 192) << 8) + data[2] + 192, 3
        else:
            size, start = int.from_bytes(data[2:6], "big"), 6
    else:
        tag, width = (head >> 2) & 0x0F, 1 << (head & 3)
        size, start = int.from_bytes(data[1 : 1 + width], "big"), 1 + width
    body = data[start : start + size]
    if not size or len(body) != size:
        msg = "it ends too early"
        raise IndexError(msg)
    return tag, body
