"""What the front says to those whom it refuses before the app has seen them, as the app would have said it."""

from __future__ import annotations

import json

from judge.errors import JudgeError
from judge.gateway.api import answers
from judge.gateway.front.gate import Gate
from judge.gateway.front.head import Head


def refusal(gate: Gate, head: Head | None, error: JudgeError, retry: float) -> tuple[str, str, str]:
    """One sentence, its media type, and lines of further headers; programs get it as JSON of the API that they speak.

    `retry`: seconds; counts where trying again helps. `head`: None where there is none that can be understood.
    """
    headers = {"Retry-After": str(whole(retry))} if error.http_status in {429, 503} else {}
    if head is None or head.path.startswith("/api/"):
        text, kind = answers.told(error, head.fields.get("accept", "") if head else "")
        headers["Vary"] = "Accept"
    elif gate.speaks_judge0(head):
        text, kind = json.dumps({"error": str(error)}), "application/json"
        headers |= gate.for_scripts(head)
    else:
        text, kind = f"{error}\n", "text/plain; charset=utf-8"
    return text, kind, "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def whole(seconds: float) -> int:
    """Seconds as headers and sentences have them: upwards, and never none."""
    return max(1, round(seconds + 0.5))
