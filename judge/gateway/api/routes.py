"""The one table behind the API: how a route is described, and how a request becomes a handler's call and an answer."""

from __future__ import annotations

import codecs
import contextlib
import difflib
import hashlib
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

from flask import Flask, Response, g, request
from pydantic import BaseModel, TypeAdapter, ValidationError

from judge.common.errors import (
    FieldError,
    ForbiddenError,
    NotFoundError,
    TooLargeError,
    UnauthorizedError,
    UsageError,
)
from judge.config import GatewayConfig, SubmissionLimits
from judge.gateway import asking
from judge.gateway.api import answers
from judge.gateway.api.answers import JSON, PREFIX
from judge.gateway.auth import NOBODY, RANK, Principal
from judge.gateway.cluster import Cluster
from judge.gateway.identity import Identities
from judge.gateway.notes import Notes
from judge.gateway.providers import Providers
from judge.gateway.statements.shown import Statements
from judge.model import messages as m
from judge.model.base import first_fault
from judge.rpc.faults import check_values
from judge.rpc.methods import METHODS

log = logging.getLogger(__name__)

BINARY = "application/octet-stream"
IDENTIFIER = TypeAdapter(m.Identifier)
_PIECE = 256 * 1024
_SECRET = frozenset({"password", "old", "users"})  # never quoted; `users` may have passwords
_VALUES = 300_000  # of the JSON of a body: ten thousand tests have up to 60000
Role = Literal["none", "user", "judge", "admin"]
B = TypeVar("B", bound=BaseModel)


class MediaTypeError(UsageError):
    """A body of a type that this call does not take."""

    http_status = 415
    code = "media_type"


class MethodError(UsageError):
    """A path that exists, with a method that it does not have."""

    http_status = 405
    code = "method"


class LengthError(UsageError):
    """A body whose length is not said in advance, which uWSGI cannot read."""

    http_status = 411
    code = "length"


@dataclass(frozen=True)
class Services:
    """The parts of a gateway that handlers and pages work with."""

    config: GatewayConfig
    identities: Identities
    cluster: Cluster
    notes: Notes
    shown: Statements
    providers: Providers


@dataclass(frozen=True)
class Call:
    """One API call, checked: who, the path's parameters, the query and body as their models."""

    services: Services
    principal: Principal
    params: Mapping[str, str]
    query: Any
    body: Any

    @property
    def cluster(self) -> Cluster:
        return self.services.cluster


@dataclass(frozen=True)
class Reply:
    """A reply with a status or headers other than the usual; `body` is a model, or a finished response."""

    body: m.Message | Response
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """A reply that no model describes: its media type and its JSON schema."""

    media: str
    schema: Mapping[str, Any]


EVENTS_MEDIA = "text/event-stream"
BYTES = Raw(BINARY, {"type": "string", "format": "binary"})
OBJECT = Raw(JSON, {"type": "object"})


@dataclass(frozen=True)
class Route:
    """One row of the table. `path` is under /api/v1, with parameters as `<name>`.

    `calls` are the methods of the cluster that its handler may call; without a handler the first one is called with the
    body or query as it is. `also` names other good statuses, `errors` those refusals that follow neither from the calls
    nor from the row's role, path and body. `scope` is what a token must be for where that does not follow from method
    and role. `headers` are optional request headers, with what they mean. `media` are
    other types in which the body may come, with their JSON schemas; `read` makes the body's model of one. `batch`: the
    call is about several things, and what its calls refuse stands in the answer.
    """

    method: Literal["GET", "HEAD", "POST", "PUT", "DELETE"]
    path: str
    name: str
    summary: str
    handler: Callable[[Call], m.Message | Reply] | None
    role: Role
    reply: type[m.Message] | Raw
    status: int = 200
    calls: tuple[str, ...] = ()
    also: Mapping[int, str] = field(default_factory=dict)
    query: type[m.Message] | None = None
    body: type[m.Message] | None = None
    binary_body: bool = False
    media: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    read: Callable[[SubmissionLimits], m.Message] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[int, ...] = ()
    scope: str = ""
    batch: bool = False

    @property
    def tagged(self) -> bool:
        """Return whether answers have an ETag, by which a client can ask whether the one that it has still holds."""
        return self.method == "GET" and not (isinstance(self.reply, Raw) and self.reply.media == EVENTS_MEDIA)

    @property
    def needs(self) -> str:
        """The scope that a token must have; empty for what is for everybody."""
        if self.scope or self.role == "none":
            return self.scope
        return self.role if self.role != "user" else "read" if self.method in {"GET", "HEAD"} else "submit"

    def refusals(self) -> set[int]:
        """Every status other than the good ones that this call may be answered with, unforeseen faults aside."""
        calls = () if self.batch else self.calls
        statuses = {*self.errors, *(error.http_status for name in calls for error in METHODS[name].errors)}
        if self.query or self.body or self.binary_body or self.headers:
            statuses.add(400)
        if self.query or self.headers or "<" in self.path:
            statuses.add(431)
        if self.role != "none":
            statuses |= {401, 403, 429, 503, 504}
        if "<" in self.path:
            statuses.add(404)
        if self.body or self.binary_body:
            statuses |= {411, 413} | ({415} if self.body else set())
        return statuses - set(self.also)


def field_error(exc: ValidationError, subject: str) -> UsageError:
    """The first fault that a model found, as one sentence; `subject` names the place when no field is to blame."""
    fault = first_fault(exc, with_input=True)
    text = fault.text
    if fault.kind == "json_invalid":
        return UsageError(f"{subject} is not JSON: {text.removeprefix('Invalid JSON: ')}")
    if not fault.field:
        sentences = {"value_error": f"{subject}: {text}", "too_many": f"{subject} {text}"}
        return UsageError(sentences.get(fault.kind, f"{subject} must be a JSON object"))
    if fault.kind == "missing":
        return FieldError(fault.field, text)
    if fault.kind == "extra_forbidden":
        return FieldError(fault.field, "is not a known field")
    text = f"{text[:1].lower()}{text[1:]}"
    if fault.field.rpartition(".")[2] in _SECRET:
        return FieldError(fault.field, text)
    value = repr(fault.given)
    value = value if len(value) <= 60 else f"{value[:57]}..."
    return FieldError(fault.field, f"{text}, not {value}")


def validated(model: type[B], values: Mapping[str, Any], subject: str) -> B:
    """These fields as a model; the error says what is wrong with them, as `field_error`."""
    try:
        return model.model_validate(values)
    except ValidationError as exc:
        raise field_error(exc, subject) from None


def named(kind: TypeAdapter[str], thing: str, name: str) -> str:
    """The name of a thing in an address; NotFoundError for a name that no such thing can have."""
    try:
        return kind.validate_python(name)
    except ValidationError:
        raise NotFoundError(f"there is no {thing} '{name[:60]}'") from None


def with_hint(error: UsageError, model: type[BaseModel]) -> UsageError:
    """The same fault; of a field that is not known, with the one of this model that may be meant."""
    if isinstance(error, FieldError) and error.message == "is not a known field":
        near = difflib.get_close_matches(error.field.rpartition(".")[2], sorted(model.model_fields), n=1)
        if near:
            return FieldError(error.field, f"is not a known field; did you mean '{near[0]}'?")
    return error


def _read_body(route: Route, limits: SubmissionLimits) -> m.Message | None:
    """The body of this request as the route's model, in whichever of its types it came."""
    if route.body is None:
        return None
    if route.read is None or request.mimetype not in route.media:
        return parse_body(route.body, [JSON, *route.media])
    _check_length()
    return route.read(limits)


def _check_length() -> None:
    if "chunked" in request.headers.get("Transfer-Encoding", "").lower():
        raise LengthError("the body has no Content-Length; send it whole instead of in chunks")


def parse_body(model: type[B], media: Sequence[str] = (JSON,)) -> B:
    """The JSON body of this request as a model. An empty body counts as `{}` where every field may be left out.

    `media` are the types that the call takes, for its refusal of others.
    """
    _check_length()
    empty = not request.content_length and not any(field.is_required() for field in model.model_fields.values())
    if not empty and request.mimetype != JSON:
        raise MediaTypeError(
            f"Content-Type is '{request.mimetype[:80] or 'not set'}'; this call takes {', '.join(media)}"
        )
    body = b"{}" if empty else json_bytes(request.get_data(cache=False))
    check_values(body, _VALUES, "the body")
    try:
        return model.model_validate_json(body)
    except ValidationError as exc:
        raise with_hint(field_error(exc, "the body"), model) from None


def json_bytes(body: bytes) -> bytes:
    """JSON without a byte order mark, which tools on Windows put first; UsageError for UTF-16."""
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError("the body is UTF-16; send JSON as UTF-8")
    return body.removeprefix(codecs.BOM_UTF8)


def parse_query(model: type[B]) -> B:
    """The query string of this request as a model; empty values count as not given, as forms send them."""
    values = {}
    for key, texts in request.args.lists():
        if len(texts) > 1:
            raise FieldError(key, "is given more than once in the query")
        if texts[0] != "":
            values[key] = texts[0]
    try:
        return validated(model, values, "the query")
    except UsageError as exc:
        raise with_hint(exc, model) from exc


def streamed(data: IO[bytes], media: str) -> Response:
    """An answer with a file's bytes, which is closed when they are sent or nobody wants them any more."""
    length = data.seek(0, 2)
    data.seek(0)

    def pieces() -> Iterator[bytes]:
        with data:
            while piece := data.read(_PIECE):
                yield piece

    response = Response(pieces(), mimetype=media)
    response.call_on_close(data.close)
    response.content_length = length
    return response


def _respond(route: Route, reply: m.Message | Reply) -> Response:
    answer = reply if isinstance(reply, Reply) else Reply(reply, route.status)
    if isinstance(answer.body, Response):
        response = answer.body
    else:
        response = Response(answer.body.model_dump_json(), answer.status, mimetype=JSON)
        if route.query is not None:
            response.headers.extend(answers.next_page(request.path, route.query, request.args, answer.body))
    response.headers.extend(answer.headers)
    if route.tagged and response.status_code == 200:
        answers.tag(response)
        if "Authorization" in request.headers and "Cache-Control" not in response.headers:
            response.headers.update(answers.PRIVATE_CACHE)
        if response.is_sequence or "Content-Length" in response.headers:  # else it would read the stream to its end
            response.make_conditional(request)
    return response


def _dispatch(services: Services, route: Route, params: Mapping[str, str]) -> Response:
    asking.begin(NOBODY)
    try:
        principal = NOBODY if route.role == "none" else services.identities.caller(request)
    except UnauthorizedError:
        if "Authorization" in request.headers:
            services.notes.refused("api")
        raise
    asking.begin(principal)
    if route.role != "none" and RANK[principal.role] < RANK[route.role]:
        raise ForbiddenError(f"user '{principal.user}' may not do this; it requires a token of role {route.role}")
    if route.needs:
        principal.may(route.needs)
    query = parse_query(route.query) if route.query else None
    body = _read_body(route, services.config.limits)
    if route.handler is not None:
        answer = route.handler(Call(services, principal, params, query, body))
    else:
        assert isinstance(route.reply, type)  # noqa: S101 - bytes have a handler
        answer = services.cluster.call(route.calls[0], body or query or m.Empty(), route.reply)
    if getattr(query, "wait", 0):
        g.pop("identified", None)
        if services.identities.caller(request) != principal:  # UnauthorizedError: this person has logged out meanwhile
            raise ForbiddenError("your role or your token's scopes have changed while this was held; ask again")
    return _respond(route, answer)


@dataclass(frozen=True)
class Body:
    """A raw body, on disk: its content from the beginning, its SHA-256 in hex, its bytes."""

    file: IO[bytes]
    sha: str
    length: int


def _check_size(limit: int) -> None:
    if request.content_length is None:
        raise LengthError("the body has no Content-Length; send it whole instead of in chunks")
    if request.content_length > limit:
        raise TooLargeError(f"the blob has {request.content_length} bytes, at most {limit} are accepted")
    request.max_content_length = limit


def small_body(limit: int) -> bytes:
    """The raw body of this request; TooLargeError above `limit` bytes, LengthError when it does not say its length."""
    _check_size(limit)
    return request.get_data(cache=False)


@contextlib.contextmanager
def blob_body(limit: int, directory: Path) -> Iterator[Body]:
    """The same in a file without a name."""
    _check_size(limit)
    digest, length = hashlib.sha256(), 0
    with tempfile.TemporaryFile(dir=directory) as file:
        while piece := request.stream.read(_PIECE):
            digest.update(piece)
            length += len(piece)
            file.write(piece)
        file.seek(0)
        yield Body(file, digest.hexdigest(), length)


def register(app: Flask, services: Services, routes: list[Route]) -> None:
    # HEAD first: Werkzeug answers HEAD with a GET route unless an earlier one takes it.
    for route in sorted(routes, key=lambda route: route.method != "HEAD"):

        def view(route: Route = route, **params: str) -> Response:
            return _dispatch(services, route, params)

        app.add_url_rule(
            PREFIX + route.path,
            endpoint=f"api.{route.name}",
            view_func=view,
            methods=[route.method],
            provide_automatic_options=False,
        )
