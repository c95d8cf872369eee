"""The parts that all answers of the HTTP API share: tags, links to next pages, two shapes of errors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from flask import Response
from pydantic import Field
from werkzeug.datastructures import MIMEAccept, MultiDict
from werkzeug.http import parse_accept_header

from judge.common.errors import JudgeError
from judge.model import messages as m
from judge.model.base import Rate, rate_of

PREFIX: Final = "/api/v1"
JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
# A client with a token keeps answers if it likes and asks whether they still hold; a browser keeps none.
PRIVATE_CACHE: Final = {"Cache-Control": "private, no-cache", "Vary": "Authorization, Accept"}
# The meaning of each code, whatever the call (docs/api.md, "Errors").
TITLES: Final[Mapping[str, str]] = {
    "field": "A field is wrong",
    "usage": "The request is wrong",
    "package": "The problem package is wrong",
    "unauthorized": "The caller has no valid token",
    "forbidden": "The caller may not do this",
    "not_found": "There is no such object",
    "method": "The address does not take this method",
    "length": "The request has no Content-Length",
    "media_type": "The body's media type is not supported",
    "conflict": "The current state does not allow this",
    "stale": "The state has changed in the meantime",
    "empty": "Nothing matches the conditions",
    "slow": "The body came too slowly",
    "head": "The address and headers are too large",
    "limit": "A limit of the user is reached, or requests come too often",
    "too_large": "The body, or a part of it, is too large",
    "error": "The judge failed",
    "unavailable": "The judge's servers do not answer",
    "outcome_unknown": "The outcome is unknown",
    "deadline": "The judge's servers did not answer in time",
}


class ErrorKind(m.Message):
    """The meaning of an error's code; its address is the `type` of a Problem."""

    type: str
    code: str
    title: str


class Problem(m.Message):
    """An error for who asks for `application/problem+json` (RFC 9457): an ErrorBody under that format's names."""

    type: str = Field(description="the address of an explanation of the code")
    title: str
    status: int
    detail: str = Field(description="the sentence, as `error` of an ErrorBody")
    code: str
    field: str | None = None
    rate: Rate | None = None


# --- errors ----------------------------------------------------------------------------------------------------


def kind(code: str) -> ErrorKind | None:
    """The meaning of a code; None for one that the API does not answer."""
    title = TITLES.get(code)
    return None if title is None else ErrorKind(type=f"{PREFIX}/errors/{code}", code=code, title=title)


def wants_problem(accept: str) -> bool:
    """Return whether this Accept header names problem+json and prefers nothing to it; `*/*` does not name it. Pure."""
    qualities: dict[str, float] = {}
    for media, quality in parse_accept_header(accept, MIMEAccept):
        qualities.setdefault(media.partition(";")[0].strip().lower(), quality)
    of_problem = qualities.get(PROBLEM, 0.0)
    return of_problem > 0 and of_problem >= qualities.get(JSON, 0.0)


def problem_text(error: JudgeError, accept: str) -> tuple[str, str]:
    """(the body, its media type) for an error, as this Accept header asks for it. Pure; the front calls it as well."""
    body = m.ErrorBody.of(error)
    hidden = {"rate"} if body.rate is None else set()
    if not wants_problem(accept):
        return body.model_dump_json(exclude=hidden), JSON
    error_kind = kind(body.code) or ErrorKind(type="about:blank", code=body.code, title=TITLES["error"])
    problem = Problem(
        type=error_kind.type,
        title=error_kind.title,
        status=error.http_status,
        detail=body.error,
        code=body.code,
        field=body.field,
        rate=body.rate,
    )
    return problem.model_dump_json(exclude=hidden), PROBLEM


def error_response(error: JudgeError, accept: str) -> Response:
    """An error as the API answers it to who sent this Accept header."""
    text, media = problem_text(error, accept)
    response = Response(text, error.http_status, mimetype=media)
    response.headers["Vary"] = "Accept"
    response.headers.update(retrying(error))
    if error.http_status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="judge"'
    return response


# --- what is asked for again -----------------------------------------------------------------------------------


def paced(rate: Rate | None, *, refused: bool = False) -> dict[str, str]:
    """The headers that say how often something may still be done; none without a limit. `refused`: with Retry-After.

    `RateLimit` and `RateLimit-Policy` are those of the draft of IETF's HTTPAPI group, the other three those of its
    earlier versions, which more clients read. Pure.
    """
    if rate is None:
        return {}
    headers = {
        "RateLimit-Policy": f'"submissions";q={rate.limit};w=60',
        "RateLimit": f'"submissions";r={rate.left};t={rate.seconds}',
        "RateLimit-Limit": str(rate.limit),
        "RateLimit-Remaining": str(rate.left),
        "RateLimit-Reset": str(rate.seconds),
    }
    return {**headers, "Retry-After": str(rate.seconds)} if refused else headers


def retrying(error: JudgeError, pause: int = 2) -> dict[str, str]:
    """The headers of a refusal that say when to try again; `pause`: seconds for servers that do not answer. Pure."""
    # 429: some of the user's own work has to end first
    seconds = {429: 10, 503: pause, 504: pause}.get(error.http_status)
    return ({"Retry-After": str(seconds)} if seconds else {}) | paced(rate_of(error), refused=True)


def tag(response: Response) -> None:
    """Give a whole answer its tag, by its content; a streamed answer has one from its view."""
    if response.is_sequence and "ETag" not in response.headers:
        response.set_etag(hashlib.sha256(response.get_data()).hexdigest()[:32])


def next_page(path: str, query: type[m.Message], args: MultiDict[str, str], reply: m.Message) -> dict[str, str]:
    """The header that leads from this page of a list to the next one (RFC 8288); none from the last."""
    place = next((name for name in ("before", "after") if name in query.model_fields), None)
    begin = getattr(reply, "next", None)
    if place is None or begin is None:
        return {}
    conditions = [(key, value) for key, value in args.items(multi=True) if key != place and value != ""]
    return {"Link": f'<{path}?{urlencode([*conditions, (place, str(begin))])}>; rel="next"'}
