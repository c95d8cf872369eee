"""The OpenAPI 3.1 document, generated from the table that registers the routes and from the models they use."""

from __future__ import annotations

import http
import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

import judge
from judge.gateway.api.answers import JSON, PREFIX, PROBLEM, Problem
from judge.gateway.api.routes import BYTES, Raw, Route
from judge.model import messages as m

_ABOUT = """\
Hand in programs, follow how they are judged, and look at the cluster.

Every call but health, alive and this document takes `Authorization: Bearer TOKEN`. A token of role *user* sees and
cancels its own submissions only. Errors of every kind are an `ErrorBody`: a stable `code`, one sentence in `error` and,
where a field is wrong, the `field`; with `Accept: application/problem+json` it is a `Problem` (RFC 9457).
503 and 504 mean that the same call may succeed later (`Retry-After`, seconds); with an `Idempotency-Key` it is always
safe to hand in again. Answers to GET have an `ETag`; with it in `If-None-Match` the answer is 304 while nothing has
changed. `next` in a list is where its next page begins, and `Link` has the address of that page.
Times are seconds, sizes are bytes.
"""

_STATUS = {
    200: "Done",
    201: "Made",
    400: "The request is wrong; the answer says in what",
    401: "The token is missing or unknown",
    403: "The token's owner may not do this",
    404: "There is no such object, or it belongs to somebody else",
    409: "The current state does not allow this, or the Idempotency-Key was used for something else",
    411: "The request has no Content-Length",
    413: "The body or the source is too large",
    415: "This call does not support the body's media type",
    422: "No submission matches the conditions",
    429: "A limit of the user is reached, or this address has sent too many unknown tokens",
    431: "The address and headers are larger than 32 KiB together",
    503: "The judge's servers do not answer at the moment",
    504: "The judge's servers did not answer in time",
}


def _parameter(
    name: str, location: str, schema: dict[str, Any], text: str = "", *, required: bool = False
) -> dict[str, Any]:
    parameter: dict[str, Any] = {"name": name, "in": location, "schema": schema}
    if required or location == "path":
        parameter["required"] = True
    text = text or schema.pop("description", "")
    if text:
        parameter["description"] = text
    return parameter


def _without_objects_as_defaults(schemas: Mapping[str, Any]) -> None:
    """Leave out defaults that are objects.

    What is left out is an object with nothing in it, which tells nobody more, and generators for some languages (Go)
    write it as text that does not compile.
    """
    for schema in schemas.values():
        for prop in schema.get("properties", {}).values():
            if "$ref" in prop and isinstance(prop.get("default"), dict):
                del prop["default"]


def _content(schema: Mapping[str, Any], media: str = JSON) -> dict[str, Any]:
    return {media: {"schema": schema}}


def _responses(route: Route, good: Mapping[str, Any]) -> dict[str, Any]:
    """The possible answers to a call, by status; `good` is the content of an answer without error."""
    error = _content({"$ref": "#/components/schemas/ErrorBody"})
    error |= _content({"$ref": "#/components/schemas/Problem"}, PROBLEM)
    also = (
        {http.HTTPStatus.NOT_MODIFIED.value: "If-None-Match has the ETag of the current answer"} if route.tagged else {}
    )
    also |= route.also
    responses: dict[str, Any] = {}
    for status in [route.status, *also]:
        responses[str(status)] = {"description": also.get(status) or _STATUS[status]}
        if route.method != "HEAD" and status not in {http.HTTPStatus.NOT_MODIFIED, http.HTTPStatus.NO_CONTENT}:
            responses[str(status)]["content"] = good
    for status in sorted(route.refusals()):
        responses[str(status)] = {"description": _STATUS[status]}
        if route.method != "HEAD":
            responses[str(status)]["content"] = error
    if route.tagged:
        responses[str(route.status)]["headers"] = {"ETag": {"schema": {"type": "string"}}}
    return responses


def _operation(route: Route, refs: dict[tuple[Any, JsonSchemaMode], Any], schemas: dict[str, Any]) -> dict[str, Any]:
    if isinstance(route.reply, Raw):
        good = _content(route.reply.schema, route.reply.media)
    else:
        good = _content(refs[route.reply, "serialization"])
    parameters = [_parameter(name, "path", {"type": "string"}) for name in re.findall(r"<(\w+)>", route.path)]
    if route.query:
        required = schemas[route.query.__name__].get("required", [])
        for name, schema in schemas[route.query.__name__]["properties"].items():
            parameters.append(_parameter(name, "query", dict(schema), required=name in required))
    if route.tagged:
        parameters.append(_parameter("If-None-Match", "header", {"type": "string"}, "the ETag of the caller's copy"))
    parameters += [_parameter(name, "header", {"type": "string"}, text) for name, text in route.headers.items()]
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.path.split("/")[1].removesuffix(".json")],
        "parameters": parameters,
        "responses": _responses(route, good),
        "security": [] if route.role == "none" else [{"token": []}],
        "x-role": route.role,
    }
    if route.body:
        required = any(field.is_required() for field in route.body.model_fields.values())
        content = _content(refs[route.body, "validation"])
        content |= {media: {"schema": schema} for media, schema in route.media.items()}
        operation["requestBody"] = {"required": required, "content": content}
    elif route.binary_body:
        operation["requestBody"] = {"required": True, "content": _content(BYTES.schema, BYTES.media)}
    return operation


def document(routes: list[Route]) -> dict[str, Any]:
    models: list[tuple[type[BaseModel], Literal["validation", "serialization"]]] = [
        (m.ErrorBody, "serialization"),
        (Problem, "serialization"),
    ]
    for route in routes:
        models += [(model, "validation") for model in (route.query, route.body) if model]
        models += [] if isinstance(route.reply, Raw) else [(route.reply, "serialization")]
    refs, definitions = models_json_schema(
        list(dict.fromkeys(models)), ref_template="#/components/schemas/{model}", title="Judge"
    )
    schemas = definitions["$defs"]
    _without_objects_as_defaults(schemas)
    paths: dict[str, Any] = {}
    for route in routes:
        path = PREFIX + re.sub(r"<(\w+)>", r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, refs, schemas)
    for route in routes:
        if route.query:
            schemas.pop(route.query.__name__, None)  # written out as parameters
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Judge",
            "version": judge.__version__,
            "description": _ABOUT,
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "the gateway that this document comes from"}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }
