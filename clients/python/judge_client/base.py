"""What both clients do alike: requests, answers, what is tried again, and a cache. Nothing here sends."""

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
_CACHED, _CACHED_BYTES = 256, 256 * 1024
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
    cached: bytes = b""


def address(template: str, **places: object) -> str:
    return template.format(**{name: quote(str(value), safe="") for name, value in places.items()})


class Base:
    """The place of the gateway, who asks, and a cache of its answers."""

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
        bearer = token if token is not None else os.environ.get("TOKEN", "")
        self.headers = {"Accept": "application/json", "User-Agent": "judge-client"}
        if bearer:
            self.headers["Authorization"] = f"Bearer {bearer}"
        self.timeout, self.tries, self.pace = timeout, max(1, tries), pace
        self._cache: OrderedDict[str, tuple[str, bytes]] = OrderedDict()

    def _request(self, ask: Ask) -> dict[str, Any]:
        """The arguments of httpx's request. Tries of one call share them, and so its idempotency key."""
        headers = dict(self.headers)
        request: dict[str, Any] = {"method": ask.method, "url": f"{self.url}{ask.path}", "headers": headers}
        request["params"] = {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in ask.query.items()
            if value is not None
        }
        if ask.keyed:
            headers["Idempotency-Key"] = ask.key or uuid.uuid4().hex
        if ask.content is not None:
            headers["Content-Type"] = "application/octet-stream"
            request["content"] = ask.content
        elif ask.body is not None:
            headers["Content-Type"] = "application/json"
            request["content"] = json.dumps(encode(ask.body)).encode()
        if ask.method == "GET" and (entry := self._cache.get(self._name(request))):
            headers["If-None-Match"], ask.cached = entry
        return request

    @staticmethod
    def _name(request: Mapping[str, Any]) -> str:
        return str(httpx.URL(request["url"], params=request["params"]))

    def _delay(self, ask: Ask, answer: httpx.Response | httpx.TransportError, attempt: int) -> float | None:
        """Seconds until this call is made again; None: it is not."""
        status = answer.status_code if isinstance(answer, httpx.Response) else 503
        if attempt + 1 >= self.tries or status not in AGAIN or status in ask.good:
            return None
        retry = _retry(answer) if isinstance(answer, httpx.Response) else None
        wait = retry if retry is not None else min(self.pace * 2**attempt, _LONGEST)
        return None if wait > _LONGEST else wait + random.random() * self.pace  # noqa: S311 - no secret

    def _read(self, ask: Ask, request: Mapping[str, Any], answer: httpx.Response | httpx.TransportError) -> Any:
        """The content of an answer; JudgeError for a refusal, or when there was none."""
        if isinstance(answer, httpx.TransportError):
            raise UnavailableError(f"{self.url} does not answer: {answer}") from answer
        name, content = self._name(request), answer.content
        if answer.status_code == 304:
            content = ask.cached
        elif not (answer.is_success or answer.status_code in ask.good):
            raise refusal(answer)
        elif ask.method == "GET" and (tag := answer.headers.get("ETag")) and len(content) <= _CACHED_BYTES:
            self._cache[name] = (tag, content)
            while len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
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
    fields = body if isinstance(body, dict) else {}
    return BY_STATUS.get(answer.status_code, JudgeError)(
        str(fields.get("error") or fields.get("detail") or f"{answer.status_code} {answer.reason_phrase}"),
        status=answer.status_code,
        code=str(fields.get("code", "")),
        field=fields.get("field"),
        retry=_retry(answer),
        request=answer.headers.get("X-Request-Id", ""),
        body=body,
    )
