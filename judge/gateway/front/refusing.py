"""Refusals by the front of requests that the app has not seen, in the form that the app gives its own."""

from __future__ import annotations

import json

from judge.errors import JudgeError
from judge.gateway.api import answers
from judge.gateway.front.gate import FrontGate
from judge.gateway.front.head import Head
from judge.judge0.answers import MEDIA


def refusal(gate: FrontGate, head: Head | None, error: JudgeError, retry: float) -> tuple[str, str, str]:
    """(one sentence, its media type, lines of further headers). Programs get JSON as the API has it that they call.

    `retry`: seconds, told where trying again helps. `head`: None when it cannot be understood.
    """
    headers = {"Retry-After": str(whole(retry))} if error.http_status in {429, 503} else {}
    if head is None or head.path.startswith("/api/"):
        text, kind = answers.told(error, head.fields.get("accept", "") if head else "")
        headers["Vary"] = "Accept"
    elif gate.speaks_judge0(head):
        text, kind = json.dumps({"error": str(error)}), MEDIA
        headers |= gate.for_scripts(head)
    else:
        text, kind = f"{error}\n", "text/plain; charset=utf-8"
    return text, kind, "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def whole(seconds: float) -> int:
    """Whole seconds for headers and sentences: rounded up, at least 1."""
    return max(1, round(seconds + 0.5))
