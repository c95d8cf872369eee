"""What both clients do alike: requests, answers, what is tried again and what is kept. Nothing here sends."""

from __future__ import annotations

import json
import os
import random
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

from judge_client.coding import decode, encode
from judge_client.errors import BY_STATUS, JudgeError, UnavailableError

AGAIN = frozenset({429, 503, 504})
_KEPT, _KEPT_BYTES = 256, 256 * 1024
_LONGEST = 60.0  # seconds between two tries


@dataclass
class Ask:
    """One call: what is sent, and as what its answer is to be read (`bytes`, `bool`, `Any` or a message)."""

    method: str
    path: str
    reply: Any
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    content: bytes | None = None
    key: str | None = None
    keyed: bool = False
    good: frozenset[int] = frozenset()
    kept: bytes = b""


def address(template: str, **places: object) -> str:
    """A path with its parameters in it."""
    return template.format(**{name: quote(str(value), safe="") for name, value in places.items()})


class Base:
    """The place of the gateway, who asks, and what is kept of its answers."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        tries: int = 5,
        pace: float = 0.2,
    ) -> None:
        """`url` and `token` come from the environment (JUDGE, TOKEN) unless given; without a token one is nobody.

        `timeout` in seconds is for one try. What cannot be answered at the moment is tried so many `tries`, first after
        `pace` seconds, then after twice as many each time, or after as many as the gateway says.
        """
        self.url = (url or os.environ.get("JUDGE", "http://127.0.0.1:8080")).rstrip("/")
        known = token if token is not None else os.environ.get("TOKEN", "")
        self.headers = {"Accept": "application/json", "User-Agent": "judge-client"}
        if known:
            self.headers["Authorization"] = f"Bearer {known}"
        self.timeout, self.tries, self.pace = timeout, max(1, tries), pace
        self._kept: OrderedDict[str, tuple[str, bytes]] = OrderedDict()

    def _request(self, ask: Ask) -> dict[str, Any]:
        """The arguments of httpx's request. Tries of one call share them, and so its idempotency key."""
        headers = dict(self.headers)
        given: dict[str, Any] = {"method": ask.method, "url": f"{self.url}{ask.path}", "headers": headers}
        given["params"] = {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in ask.query.items()
            if value is not None
        }
        if ask.keyed:
            headers["Idempotency-Key"] = ask.key or uuid.uuid4().hex
        if ask.content is not None:
            headers["Content-Type"] = "application/octet-stream"
            given["content"] = ask.content
        elif ask.body is not None:
            headers["Content-Type"] = "application/json"
            given["content"] = json.dumps(encode(ask.body)).encode()
        if ask.method == "GET" and (kept := self._kept.get(self._name(given))):
            headers["If-None-Match"], ask.kept = kept
        return given

    @staticmethod
    def _name(given: Mapping[str, Any]) -> str:
        return str(httpx.URL(given["url"], params=given["params"]))

    def _delay(self, ask: Ask, answer: httpx.Response | httpx.TransportError, attempt: int) -> float | None:
        """Seconds until this call is made again; None: it is not."""
        status = answer.status_code if isinstance(answer, httpx.Response) else 503
        if attempt + 1 >= self.tries or status not in AGAIN or status in ask.good:
            return None
        told = _retry(answer) if isinstance(answer, httpx.Response) else None
        wait = told if told is not None else min(self.pace * 2**attempt, _LONGEST)
        return None if wait > _LONGEST else wait + random.random() * self.pace  # noqa: S311 - no secret

    def _read(self, ask: Ask, given: Mapping[str, Any], answer: httpx.Response | httpx.TransportError) -> Any:
        """The content of an answer; JudgeError for a refusal, or when there was none."""
        if isinstance(answer, httpx.TransportError):
            raise UnavailableError(f"{self.url} does not answer: {answer}") from answer
        name, content = self._name(given), answer.content
        if answer.status_code == 304:
            content = ask.kept
        elif not (answer.is_success or answer.status_code in ask.good):
            raise refusal(answer)
        elif ask.method == "GET" and (tag := answer.headers.get("ETag")) and len(content) <= _KEPT_BYTES:
            self._kept[name] = (tag, content)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        if ask.reply is bytes:
            return content
        if ask.reply is bool:
            return True
        try:
            return decode(ask.reply, json.loads(content))
        except (ValueError, TypeError) as exc:
            text = f"{ask.method} {ask.path}: the answer is not what this client knows ({exc}); a newer one may read it"
            raise JudgeError(text, status=answer.status_code, body=content[:1000]) from exc


def _retry(answer: httpx.Response) -> float | None:
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None


def refusal(answer: httpx.Response) -> JudgeError:
    """The error that an answer tells of."""
    try:
        body = answer.json()
    except ValueError:
        body = None
    told = body if isinstance(body, dict) else {}
    return BY_STATUS.get(answer.status_code, JudgeError)(
        str(told.get("error") or told.get("detail") or f"{answer.status_code} {answer.reason_phrase}"),
        status=answer.status_code,
        code=str(told.get("code", "")),
        field=told.get("field"),
        retry=_retry(answer),
        request=answer.headers.get("X-Request-Id", ""),
        body=body,
    )
