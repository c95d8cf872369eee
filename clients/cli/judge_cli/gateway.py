"""The gateway's HTTP API: calls that are repeated while it does not answer, forms with files, streams of events."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

from judge_cli import VERSION
from judge_cli.access import Access
from judge_cli.errors import ClientError, UsageError

_PAUSE = 0.3
_CALL_SECONDS = 30.0  # how long a call keeps trying
_FOLLOW_SECONDS = 300.0  # the same of a stream: judging goes on while a gateway is away
_SILENCE_SECONDS = 40.0  # a stream has a sign of life every 15 s
_LARGEST = 64 * 1024**2  # bytes of an answer
_SHORT_ID = 7, 24  # characters of the end of an id as pages show it, and of a whole id


class Gateway:
    """A gateway, with the token of a person."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._context: ssl.SSLContext | None = None

    def json(self, method: str, path: str, **options: Any) -> Any:
        """The JSON of an answer; options as of `content`."""
        try:
            return json.loads(self.content(method, path, **options)[0])
        except ValueError:
            raise ClientError(f"{self.access.server}{path} answered no JSON; is it the address of a gateway?") from None

    def content(self, method: str, path: str, **options: Any) -> tuple[bytes, str]:
        """The content of an answer and its media type; options: `query`, `body`, `headers`."""
        with self._answer(method, path, _CALL_SECONDS, **options) as answer:
            try:
                data = answer.read(_LARGEST + 1)
            except (OSError, HTTPException) as exc:
                raise ClientError(
                    f"{self.access.server} broke off its answer ({exc or 'no more came'}); try again"
                ) from exc
            if len(data) > _LARGEST:
                raise ClientError(f"{path} has more than {_LARGEST} bytes")
            return data, answer.headers.get_content_type()

    def problem_names(self) -> list[str]:
        return [problem["name"] for problem in self.json("GET", "/problems")["problems"]]

    def submit(self, fields: Mapping[str, str], files: Sequence[tuple[str, bytes]]) -> dict[str, Any]:
        """Submit; the idempotency key makes it one submission however often the call is repeated."""
        body, media = form(fields, files)
        headers = {"Content-Type": media, "Idempotency-Key": os.urandom(16).hex()}
        return cast("dict[str, Any]", self.json("POST", "/submissions", body=body, headers=headers))

    def whole_id(self, text: str) -> str:
        """The id of a submission, also by its last characters; UsageError."""
        end = text.removeprefix("…").lower()
        if set(end) - set("0123456789abcdef") or not _SHORT_ID[0] <= len(end) <= _SHORT_ID[1]:
            raise UsageError(
                f"'{text}' is no id of a submission; expected 24 hexadecimal digits, or the last 7 of them"
            )
        if len(end) == _SHORT_ID[1]:
            return end
        newest = self.json("GET", "/submissions", query={"limit": "500"})["tasks"]
        ids = [task["id"] for task in newest if task["id"].endswith(end)]
        if len(ids) != 1:
            fault = "is the end of several ids" if ids else "is the end of no id among the newest 500"
            raise UsageError(f"'{text}' {fault}; give the whole id")
        return str(ids[0])

    def events(self, task: str) -> Iterator[dict[str, Any]]:
        """The changes of a submission until it is done, each once: a stream that broke goes on where it was."""
        last = ""
        while True:
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
            with self._answer("GET", f"/submissions/{task}/events", _FOLLOW_SECONDS, headers=headers) as answer:
                if answer.status == 204:
                    return
                for event, kind, data in parse_events(answer):
                    # After `lost` the next stream begins with the submission as it is.
                    last = "" if kind == "lost" else event
                    if kind == "submission":
                        yield data
                    if data.get("done"):
                        return
                    if kind == "lost":
                        break
            time.sleep(_PAUSE)

    def _answer(
        self,
        method: str,
        path: str,
        patience: float,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HTTPResponse:
        """A good answer, to be closed; ClientError for a refusal, or if there is none within `patience` seconds."""
        all_headers = {"Accept": "application/json", "User-Agent": f"judge-cli/{VERSION}", **(headers or {})}
        # The answer alone then holds the connection.
        all_headers |= {"Authorization": f"Bearer {self.access.token}", "Connection": "close"}
        target = f"/api/v1{path}" + (f"?{urlencode(query)}" if query else "")
        deadline = time.monotonic() + patience
        while True:
            connection, pause = self._connection(), _PAUSE
            try:
                connection.connect()
                connection.sock.settimeout(_SILENCE_SECONDS)
                connection.request(method, target, body, all_headers)
                answer = connection.getresponse()
                if 200 <= answer.status < 300:
                    return answer
                error = _refusal(answer, self.access.server)
            except ssl.SSLCertVerificationError as exc:
                raise UsageError(_untrusted(self.access, exc)) from None
            except (OSError, HTTPException) as exc:
                why = getattr(exc, "strerror", None) or str(exc) or "no answer"
                error = ClientError(f"{self.access.server} does not answer ({why}); is it running?")
            else:
                retry = answer.headers.get("Retry-After", "")
                if answer.status == 429 and method == "GET" and retry.isdecimal():
                    pause = max(_PAUSE, float(retry))
                elif answer.status not in {502, 503, 504}:
                    raise error
            connection.close()
            if time.monotonic() + pause >= deadline:
                raise error
            time.sleep(pause)

    def _connection(self) -> HTTPConnection:
        parts = urlsplit(self.access.server)
        host = parts.hostname or ""
        if parts.scheme == "http":
            return HTTPConnection(host, parts.port, timeout=3.0)
        if self._context is None:
            try:
                self._context = ssl.create_default_context(cafile=self.access.ca)
            except OSError as exc:
                raise UsageError(f"{self.access.ca}: cannot be read as a CA's certificate: {exc.strerror}") from None
        return HTTPSConnection(host, parts.port, timeout=3.0, context=self._context)


def address(*parts: str) -> str:
    """A path under /api/v1 of these parts, whatever characters they have."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def form(fields: Mapping[str, str], files: Sequence[tuple[str, bytes]]) -> tuple[bytes, str]:
    boundary = os.urandom(16).hex()
    parts = [(f'name="{name}"', value.encode()) for name, value in fields.items()]
    for name, data in files:
        quoted = name.replace("\\", "/").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        parts.append((f'name="files"; filename="{quoted}"\r\nContent-Type: application/octet-stream', data))
    head = f"--{boundary}\r\nContent-Disposition: form-data; "
    body = b"".join(f"{head}{about}\r\n\r\n".encode() + data + b"\r\n" for about, data in parts)
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def parse_events(lines: Iterable[bytes]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(id, kind, data) of each server-sent event until the stream ends or breaks."""
    last, kind, data = "", "", ""
    for raw in _until_broken(lines):
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                try:
                    event = json.loads(data)
                except ValueError:
                    raise ClientError("the server sent an event that is not JSON; is this a Judge gateway?") from None
                yield last, kind or "message", event if isinstance(event, dict) else {}
            kind, data = "", ""
        elif name == "id":
            last = value
        elif name == "event":
            kind = value
        elif name == "data":
            data += value


def _until_broken(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a stream; one that breaks has ended, as its reader goes on by the last id."""
    with contextlib.suppress(OSError, HTTPException):
        yield from lines


def _refusal(answer: HTTPResponse, server: str) -> ClientError:
    """The gateway's own sentence; a fault of the input if the status says so."""
    kind = UsageError if 400 <= answer.status < 500 else ClientError
    if 300 <= answer.status < 400:
        place = answer.headers.get("Location", "another address")
        return UsageError(f"{server} leads to {place}; log in with the address of the gateway itself")
    try:
        return kind(json.loads(answer.read(65536))["error"])
    except (ValueError, KeyError, TypeError):
        return kind(f"{server} answered HTTP {answer.status} without a reason")


def _untrusted(access: Access, exc: ssl.SSLCertVerificationError) -> str:
    return (
        f"the certificate of {access.server} is not trusted: {exc.verify_message}; "
        "log in with --ca FILE, or name the CA in SSL_CERT_FILE"
    )
