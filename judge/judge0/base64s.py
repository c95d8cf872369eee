"""Base64 as Judge0 reads and writes it (Ruby's decode64 and encode64). Pure functions."""

from __future__ import annotations

import base64
import re

_FOREIGN = re.compile(rb"[^A-Za-z0-9+/]")
_LINE = 45  # bytes, which make 60 characters


def encode(data: bytes) -> str:
    """Lines of 60 characters, each with its line feed; nothing for nothing."""
    lines = (data[at : at + _LINE] for at in range(0, len(data), _LINE))
    return "".join(base64.b64encode(line).decode() + "\n" for line in lines)


def decode(text: str) -> bytes:
    """Whatever is Base64 in a text: what is not of its alphabet is passed over, also missing padding is."""
    data = _FOREIGN.sub(b"", text.encode("utf-8", "replace").partition(b"=")[0])
    length = len(data) - (1 if len(data) % 4 == 1 else 0)
    return base64.b64decode(data[:length] + b"=" * (-length % 4))
