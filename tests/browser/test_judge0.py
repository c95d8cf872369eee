"""Judge0's API from a page of another site, in a real browser: as editors in browsers call it."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.gateway import USER
from tests.support.judicators import Executor, World
from tests.support.pages import Chrome

# The doings of such an editor: it hands in with a header of its own, which the browser asks about first, then looks.
EDITOR = """
const [base, token, tell] = arguments;
const headers = {"Content-Type": "application/json", ...(token ? {"X-RapidAPI-Key": token} : {})};
const ask = (path, more) => fetch(base + path, {headers, ...more}).then(async (one) => [one.status, await one.json()]);
(async () => {
  const body = JSON.stringify({language_id: 50, source_code: btoa("int main(){}"), stdin: ""});
  const [made, given] = await ask("/judge0/submissions?base64_encoded=true&wait=false", {method: "POST", body});
  const [seen, found] = await ask(`/judge0/submissions/${given.token}?base64_encoded=true`);
  return [made, seen, found.status && found.status.description];
})().then(tell, (error) => tell([String(error)]));
"""
WITH_COOKIES = """
const [base, path, tell] = arguments;
fetch(base + path, {credentials: "include"}).then((one) => tell(String(one.status)), (error) => tell(error.name));
"""


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>An editor</title>")

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def executor(world: World) -> Executor:
    executor = world.executor("executor-1", slots=2, languages=("c",))
    executor.report(vacant=0)
    return executor


@pytest.fixture
def site() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_address[1]}"
        server.shutdown()


def test_an_editor_of_another_site_hands_in_with_its_token_and_never_with_a_cookie(
    chrome: Callable[..., Chrome], base: str, site: str, executor: Executor
) -> None:
    browser = chrome(USER)
    browser.driver.get(site)
    assert browser.driver.execute_async_script(EDITOR, base, USER) == [201, 200, "In Queue"]
    assert browser.driver.execute_async_script(EDITOR, base, "")[0] == 401, "its log-in is not the page's"
    # A browser does not give an answer to a page that wants cookies to go along; nor any of our own API.
    assert browser.driver.execute_async_script(WITH_COOKIES, base, "/judge0/languages") == "TypeError"
    assert browser.driver.execute_async_script(WITH_COOKIES, base, "/api/v1/whoami") == "TypeError"
