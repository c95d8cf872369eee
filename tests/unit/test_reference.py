"""The page about the HTTP API says what the OpenAPI document says."""

import json
import shlex
from html.parser import HTMLParser
from typing import Any

import jsonschema
import pytest
from flask import Flask

from judge.gateway.api import handlers, openapi
from judge.gateway.pages import reference
from judge.gateway.pages.reference import kind, prose

DOCUMENT = openapi.document(handlers.ROUTES)
SCHEMAS = DOCUMENT["components"]["schemas"]
CALLS = [(path, method.upper(), one) for path, all_ in DOCUMENT["paths"].items() for method, one in all_.items()]


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: set[str] = set()
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.ids += [named["id"]] if "id" in named else []
        self.links |= {named["href"]} if tag == "a" else set()
        self.loaded += [named[name] for name in ("src", "style", "onclick") if name in named]


def test_every_call_and_type_is_on_the_page() -> None:
    app = Flask("reference", template_folder=str(handlers.__file__.replace("api/handlers.py", "templates")))
    with app.app_context():
        text = str(reference._reference.__wrapped__())
    page = _Page(text)
    assert sorted(page.ids) == sorted([one["operationId"] for *_, one in CALLS] + [f"type-{name}" for name in SCHEMAS])
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert {link for link in page.links if not link.startswith("#")} == {"/api/v1/openapi.json"}
    assert page.loaded == [], "it loads nothing of others"
    for path, method, one in CALLS:
        assert f"<code>{method} {path}</code> {one['summary']}" in text.replace("&#39;", "'"), path


@pytest.mark.parametrize(("path", "method", "one"), CALLS, ids=[one["operationId"] for *_, one in CALLS])
def test_an_example_has_what_the_call_must_have(path: str, method: str, one: dict[str, Any]) -> None:
    words = shlex.split(reference.curl(path, method, one, SCHEMAS))
    assert words[0] == "curl" and ("Authorization: Bearer $TOKEN" in words) == (one["x-role"] != "none")
    address = next(word for word in words if word.startswith("$JUDGE/api/v1/"))
    assert "{" not in address
    assert ("?ids=IDS" in address) == (one["operationId"] == "get_batch")
    body = one.get("requestBody", {}).get("content", {}).get("application/json")
    assert ("--json" in words) == (body is not None)
    if body is not None:
        # Values that only a person can choose, such as hashes, are an ellipsis.
        ours = [
            error
            for error in jsonschema.Draft202012Validator(
                {**body["schema"], "components": DOCUMENT["components"]}
            ).iter_errors(json.loads(words[words.index("--json") + 1]))
            if "…" not in error.message
        ]
        assert not ours, ours


def test_types_and_texts_are_written_for_people() -> None:
    assert kind({"anyOf": [{"$ref": "#/components/schemas/Task"}, {"type": "null"}]}) == (
        '<a href="#type-Task">Task</a> or null'
    )
    assert kind({"type": "array", "items": {"type": "integer"}, "maxItems": 3}) == "list of integer (at most 3 items)"
    assert kind({"enum": ["a", "<b>"]}) == "&#34;a&#34;, &#34;&lt;b&gt;&#34;"
    assert kind({"type": "object", "additionalProperties": {"type": "string", "pattern": "<x>"}}) == (
        "object of string (matches &lt;x&gt;)"
    )
    assert prose("`a` <b>\n\nc") == "<p><code>a</code> &lt;b&gt;</p><p>c</p>"
