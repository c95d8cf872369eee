"""The page about the HTTP API, made of the OpenAPI document. It is the same for everybody, so it is made once."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

from flask import g, render_template
from markupsafe import Markup, escape

from judge.common.errors import JudgeError
from judge.gateway.api import handlers, openapi
from judge.gateway.api.answers import JSON
from judge.gateway.api.routes import EVENTS_MEDIA
from judge.gateway.pages.table import page, services

Schema = Mapping[str, Any]
# Bodies without a required field that say more than {}.
_EXAMPLES: Final[dict[str, Any]] = {
    "Submission": {"language": "python3", "source": "print(6 * 7)"},
    "ProblemFields": {"visibility": {"everyone": True}},
    "RejudgeFilter": {"problem": ["hello"]},
    "DeletionWanted": {"problem": "hello"},
    "Resend": {"webhook": "scoreboard"},
    "UserFields": {"role": "judge"},
    "TokenWanted": {"label": "laptop"},
}
_VALUES: Final[dict[str, Any]] = {"string": "…", "integer": 1, "number": 1, "boolean": True, "object": {}}
_BOUNDS: Final = (
    ("minimum", "at least {}"), ("exclusiveMinimum", "above {}"), ("maximum", "at most {}"),
    ("exclusiveMaximum", "below {}"), ("minLength", "at least {} characters"), ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"), ("maxItems", "at most {} items"), ("pattern", "matches {}"), ("format", "{}"),
)  # fmt: skip


@page("/docs", role="none")
def docs() -> Any:
    with contextlib.suppress(JudgeError):  # the page is for everybody, also while no judicator answers
        g.principal = services.identities.by_session()
    return render_template("docs.html", reference=_reference())


@functools.cache
def _reference() -> Markup:
    document = openapi.document(handlers.ROUTES)
    schemas = document["components"]["schemas"]
    calls: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            calls.setdefault(operation["tags"][0], []).append(_call(path, method.upper(), operation, schemas))
    types = [(name, prose(schema.get("description", "")), _fields(schema)) for name, schema in sorted(schemas.items())]
    about = prose(document["info"]["description"])
    errors = sorted({error for rows in calls.values() for call in rows for error in call["errors"]})
    html = render_template("reference.html", about=about, calls=calls, errors=errors, types=types)
    return Markup(html)  # noqa: S704 - the template has escaped it


def prose(text: str) -> Markup:
    """A description as paragraphs, with what stands between backticks as code. Pure."""
    code = re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text.strip())))
    return Markup("".join(f"<p>{part}</p>" for part in code.split("\n\n") if part))  # noqa: S704 - escaped above


def _call(path: str, method: str, operation: Schema, schemas: Schema) -> dict[str, Any]:
    answers = operation["responses"].items()
    return {
        **operation,
        "method": method,
        "path": path,
        "parameters": [{**one, "kind": kind(one["schema"])} for one in operation["parameters"]],
        "bodies": _contents(operation.get("requestBody", {})),
        "answers": [(status, one["description"], _contents(one)) for status, one in answers if status < "400"],
        "errors": [(status, one["description"]) for status, one in answers if status >= "400"],
        "curl": curl(path, method, operation, schemas),
    }


def _contents(body: Schema) -> list[tuple[str, Markup, str]]:
    """Its media types, with what comes in each."""
    contents = body.get("content", {}).items()
    return [(media, kind(one["schema"]), one["schema"].get("description", "")) for media, one in contents]


def _fields(schema: Schema) -> list[dict[str, Any]]:
    required = schema.get("required", [])
    return [
        {"name": name, "kind": kind(one), "required": name in required, "text": one.get("description", "")}
        for name, one in schema.get("properties", {}).items()
    ]


def kind(schema: Schema) -> Markup:
    """The type of a value for people, with links to those that have a name. Pure."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return Markup('<a href="#type-{0}">{0}</a>').format(name)
    if "anyOf" in schema:
        return Markup(" or ").join(kind(one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return Markup(", ").join(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    text = escape(schema.get("type", "any"))
    if "items" in schema:
        text = Markup("list of {}").format(kind(schema["items"]))
    elif isinstance(schema.get("additionalProperties"), dict):
        text = Markup("object of {}").format(kind(schema["additionalProperties"]))
    bounds = [template.format(schema[name]) for name, template in _BOUNDS if name in schema]
    return text + escape(f" ({', '.join(bounds)})") if bounds else text


def curl(path: str, method: str, operation: Schema, schemas: Schema) -> str:
    """The call as a command: what it must have, and no more. Pure."""
    address = "$JUDGE" + re.sub(r"{(\w+)}", lambda match: match[1].upper(), path)
    query = [one["name"] for one in operation["parameters"] if one["in"] == "query" and one.get("required")]
    address += "?" + "&".join(f"{name}={name.upper()}" for name in query) if query else ""
    command = ["curl -s", f'"{address}"']
    if operation["security"]:
        command.append('-H "Authorization: Bearer $TOKEN"')
    content = operation.get("requestBody", {}).get("content", {})
    if JSON in content:
        command.append(
            f"--json {shlex.quote(json.dumps(_example(content[JSON]['schema'], schemas), ensure_ascii=False))}"
        )
    elif content:
        command.append("--data-binary @FILE")
    if EVENTS_MEDIA in operation["responses"].get("200", {}).get("content", {}):
        command[0] += " -N"
    if method == "HEAD":
        command[0] += " -I"
    elif method != ("POST" if JSON in content else "GET"):
        command[0] += f" -X {method}"
    return " ".join(command)


def _example(schema: Schema, schemas: Schema) -> Any:
    """A value of this type with the fields that it must have."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _EXAMPLES.get(name) or _example(schemas[name], schemas)
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], schemas)
    if "enum" in schema or "const" in schema:
        return schema.get("enum", [schema.get("const")])[0]
    if "properties" in schema:
        return {name: _example(schema["properties"][name], schemas) for name in schema.get("required", [])}
    if "items" in schema:
        return [_example(schema["items"], schemas)]
    return _VALUES[schema["type"]]
