"""The front of a gateway and its app agree on whom a request is from, whichever tokens and cookies come with it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.errors import ForbiddenError
from judge.gateway import sessions
from judge.gateway.auth import JUDGE0_HEADERS, FileTokens
from judge.gateway.front import head as heads
from judge.gateway.front.gate import FrontGate
from judge.judge0.tokens import token_of
from judge.model.overview import UsageReply, UsageRequest
from judge.model.people import NameState
from tests.support.gateway import ADMIN, OTHER, USER, Prepared, make_config, serving_app
from tests.support.servers import wait_for


@pytest.fixture
def prepared(tmp_path: Path, etcd_endpoint: str) -> Iterator[Prepared]:
    with Prepared(tmp_path / "judicator", etcd_endpoint).serving() as one:
        yield one


def nothing(_: UsageRequest) -> UsageReply:
    raise ForbiddenError("not in this test")


def test_who_is_counted_is_who_is_served(prepared: Prepared, tmp_path: Path) -> None:
    """The front reads the same token as the app, whatever else comes along: shares and throttles are of that person."""
    settings = make_config(tmp_path, prepared.etcd_config, prepared.tls("gateway-1", "gateway"))
    tokens = FileTokens(settings.tokens)
    prepared.answers["usage"] = nothing
    gate = FrontGate(settings, tokens, settings.session_key.read_bytes())
    with serving_app(settings) as app:
        client = app.test_client()
        with client.session_transaction() as session:
            session["fp"], session["sid"] = tokens.find(USER).fingerprint, "secret"  # type: ignore[union-attr]
        prepared.live[sessions.digest("secret")] = "ada"
        cookie = client.get_cookie("judge")
        assert cookie is not None
        plain = app.test_client(use_cookies=False)

        def served(path: str, headers: dict[str, str]) -> str | None:
            prepared.asked.clear()
            plain.get(path, headers=headers)
            return next((asked.user for name, asked in prepared.asked if name == "usage"), None)

        def counted(path: str, headers: dict[str, str]) -> str | None:
            lines = [f"GET {path} HTTP/1.1", "Host: x", *(f"{name}: {value}" for name, value in headers.items())]
            caller = gate.caller(heads.parse(("\r\n".join(lines) + "\r\n\r\n").encode()), "127.0.0.1")
            return caller.known.user if caller.known else (caller.proof or "").partition(" ")[0] or None

        ways = [
            *((name, f"Bearer {OTHER}" if name == "Authorization" else OTHER) for name in JUDGE0_HEADERS),
            *((name, f"Bearer {ADMIN}" if name == "Authorization" else ADMIN) for name in JUDGE0_HEADERS),
            ("Authorization", "Basic x"),
            ("Authorization", OTHER),
            ("X-Auth-Token", " "),
            ("X-Auth-Token", "null"),
            ("Authorization", "Bearer undefined"),
            ("Cookie", f"judge={cookie.value}"),
        ]
        found = set()
        for path in ("/api/v1/whoami", "/judge0/config_info", "/judge0/extra/config_info", "/me"):
            for one, other in itertools.product(ways, ways):
                headers = dict([one, other])
                who = served(path, headers)
                assert counted(path, headers) == who, (path, headers)
                found.add((path, who))
        assert len(found) == 12, found


def test_the_second_token_of_judge0_counts_for_what_is_kept_for_it(prepared: Prepared, tmp_path: Path) -> None:
    """Lists, deleting and `authorize`; the same one in the front as in the app. All else is the first one's."""
    settings = make_config(
        tmp_path, prepared.etcd_config, prepared.tls("gateway-1", "gateway"), judge0={"delete": True}
    )
    gate = FrontGate(settings, FileTokens(settings.tokens), settings.session_key.read_bytes())
    prepared.tasks()
    prepared.answers["usage"] = nothing
    token = token_of("0" * 24)
    with serving_app(settings) as app:
        client = app.test_client()

        def both(method: str, path: str, first: str, second: str) -> tuple[int, str]:
            headers = {"X-Auth-Token": first, "X-Auth-User": second}
            lines = [f"{method} {path} HTTP/1.1", "Host: x", *(f"{name}: {value}" for name, value in headers.items())]
            caller = gate.caller(heads.parse(("\r\n".join(lines) + "\r\n\r\n").encode()), "127.0.0.1")
            answer = client.open(path, method=method, headers=headers)
            return answer.status_code, caller.known.user if caller.known else ""

        for at in ("/judge0", "/judge0/extra"):
            for method, path, right, wrong in (
                ("POST", "/authorize", 200, 403),
                ("GET", "/submissions", 200, 200),
                ("GET", "/submissions.json", 200, 200),
                ("DELETE", f"/submissions/{token}", 404, 404),
            ):
                assert both(method, at + path, USER, ADMIN) == (right, "root"), path
                assert both(method, at + path, ADMIN, USER) == (wrong, "ada"), path
                assert both(method, at + path, USER, "nobody's") == (401, ""), path
                assert both(method, at + path, USER, "") == both(method, at + path, "", USER) == (wrong, "ada"), path
            for method, path in (("POST", "/authenticate"), ("GET", "/statuses"), ("GET", f"/submissions/{token}")):
                assert both(method, at + path, USER, ADMIN)[1] == "ada", path
        listed = [asked.user for name, asked in prepared.asked if name == "search"]
        assert listed[:2] == [None, "ada"]


def test_guests_are_shut_out_with_the_account_they_count_as(prepared: Prepared, tmp_path: Path) -> None:
    settings = make_config(
        tmp_path, prepared.etcd_config, prepared.tls("gateway-1", "gateway"), judge0={"guest": "visitor"}
    )
    with serving_app(settings) as app:
        client = app.test_client()
        assert client.get("/judge0/statuses").status_code == 200
        prepared.answers["name_state"] = lambda asked: NameState(disabled=asked.name == "visitor")
        wait_for(lambda: client.get("/judge0/statuses").status_code == 401, 5, what="the end of guests")
        assert client.get("/judge0/statuses", headers={"X-Auth-Token": USER}).status_code == 200
