"""Runs what docs/judge.postman.json has, as Postman and its command newman do, and says what was answered."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from tests.support.servers import wait_for

FILE = Path(__file__).parents[2] / "docs/judge.postman.json"
# Scripts of a collection may only do this here: a variable is set from the answer.
SCRIPT = re.compile(r"pm\.collectionVariables\.set\('(\w+)', pm\.response\.json\(\)\.(\w+)\);")


class Collection:
    """Its requests, with the variables that somebody sets in an environment (`given`) before those of its own."""

    def __init__(self, **given: str) -> None:
        told = json.loads(FILE.read_text(encoding="utf-8"))
        self.folders: dict[str, list[Any]] = {folder["name"]: folder["item"] for folder in told["item"]}
        self.variables = {one["key"]: one["value"] for one in told["variable"]}
        assert given.keys() <= self.variables.keys()
        self.given = given
        self._auth = told["auth"]

    def filled(self, text: str) -> str:
        """A text with the values of its variables."""

        def value(found: re.Match[str]) -> str:
            if found[1] == "$guid":
                return str(uuid.uuid4())
            return self.given.get(found[1]) or self.variables[found[1]]

        return re.sub(r"{{([$\w]+)}}", value, text)

    def address(self, url: dict[str, Any]) -> str:
        """Where a request goes, of the parts; `raw` is the same for people."""
        places = {one["key"]: quote(self.filled(one["value"]), safe="") for one in url.get("variable", [])}
        assert all(places.values()), f"{url['raw']} is about nothing: {places}"
        path = [places[part[1:]] if part.startswith(":") else part for part in url["path"]]
        query = [f"{one['key']}={self.filled(one['value'])}" for one in url.get("query", []) if not one["disabled"]]
        assert url["raw"].partition("?")[0] == "/".join([*url["host"], *url["path"]])
        return "/".join([self.filled(url["host"][0]), *path]) + ("?" + "&".join(query) if query else "")

    def run(self, item: dict[str, Any]) -> int:
        """Send one request, again while the cluster cannot answer now; the status of the answer."""
        status = wait_for(
            lambda: (found := self._run(item)) not in {503, 504} and found, 60, f"an answer to {item['name']}"
        )
        assert isinstance(status, int)
        return status

    def _run(self, item: dict[str, Any]) -> int:
        """Send one request; an answer without an end is read to its first line."""
        request = item["request"]
        headers = {one["key"]: self.filled(one["value"]) for one in request["header"]}
        if request.get("auth", self._auth)["type"] == "bearer":
            headers["Authorization"] = f"Bearer {self.filled(self._auth['bearer'][0]['value'])}"
        body = request.get("body", {})
        content = self.filled(body["raw"]).encode() if body.get("mode") == "raw" else b"" if body else None
        with (
            httpx.Client(trust_env=False, timeout=60) as client,
            client.stream(request["method"], self.address(request["url"]), headers=headers, content=content) as answer,
        ):
            if item["name"] == "events":
                next(answer.iter_lines())
                return answer.status_code
            answer.read()
            for event in item.get("event", []):
                for line in event["script"]["exec"]:
                    found = SCRIPT.fullmatch(line)
                    assert found is not None, line
                    if answer.is_success:
                        self.variables[found[1]] = str(answer.json()[found[2]])
        return answer.status_code
