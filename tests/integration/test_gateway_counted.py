"""A request counts to the share of the person for whom it is served, whichever tokens and cookies come with it."""

import asyncio
import concurrent.futures
import contextlib
import itertools
import threading
from pathlib import Path

import pytest

from judge.common.errors import ForbiddenError
from judge.gateway.admission import Shares
from judge.gateway.auth import JUDGE0_HEADERS, FileTokens, token_digest
from judge.judge0.tokens import token_of
from judge.model.messages import GetRequest, Message, Submission
from judge.model.overview import UsageReply, UsageRequest
from tests.support.gateway import ADMIN, ID, OTHER, USER, Prepared, gateway_config, make_task, serving_app, write_tokens
from tests.support.servers import wait_for


def nothing(_: UsageRequest) -> UsageReply:
    raise ForbiddenError("not in this test")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The clients whose shares of the threads were taken."""
    clients: list[str] = []
    share = Shares.share

    def counting(self: Shares, client: str, patience: float = 1.0) -> contextlib.AbstractContextManager[None]:
        clients.append(client)
        return share(self, client, patience)

    monkeypatch.setattr(Shares, "share", counting)
    return clients


def test_a_request_counts_to_the_person_for_whom_it_is_served(
    prepared: Prepared, tmp_path: Path, counted: list[str]
) -> None:
    settings = gateway_config(prepared, tmp_path)
    tokens = FileTokens(settings.tokens)
    prepared.answers["usage"] = nothing
    with serving_app(settings) as app:
        client = app.test_client()
        with client.session_transaction() as session:
            session["fp"], session["sid"] = tokens.find(USER).fingerprint, "secret"  # type: ignore[union-attr]
        prepared.live[token_digest("secret")] = "ada"
        cookie = client.get_cookie("judge")
        assert cookie is not None
        plain = app.test_client(use_cookies=False)

        def served(path: str, headers: dict[str, str], address: str) -> str | None:
            prepared.asked.clear()
            plain.get(path, headers=headers, environ_base={"REMOTE_ADDR": address})
            return next((request.user for name, request in prepared.asked if name == "usage"), None)

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
        pairs, number = set(), 0
        for path in ("/api/v1/whoami", "/judge0/config_info", "/judge0/extra/config_info", "/me"):
            for way, second_way in itertools.product(ways, ways):
                headers = dict([way, second_way])
                number += 1  # each from an address of its own, so that no failure costs another one time
                address = f"10.0.{number // 250}.{number % 250}"
                user = served(path, headers, address)
                assert counted[-1] == (f"user {user} reads" if user else f"{address} reads"), (path, headers)
                pairs.add((path, user))
        assert len(pairs) == 12, pairs


def test_the_second_token_of_judge0_counts_for_its_own_calls(
    prepared: Prepared, tmp_path: Path, counted: list[str]
) -> None:
    """Lists, deleting and `authorize`. All else is the first one's."""
    settings = gateway_config(prepared, tmp_path, judge0={"delete": True})
    prepared.tasks()
    prepared.answers["usage"] = nothing
    token = token_of("0" * 24)
    with serving_app(settings) as app:
        client = app.test_client()

        def tried(method: str, path: str, first: str, second: str) -> tuple[int, str]:
            headers = {"X-Auth-Token": first, "X-Auth-User": second}
            answer = client.open(path, method=method, headers=headers)
            return answer.status_code, counted[-1].rpartition(" ")[0].removeprefix("user ").replace("127.0.0.1", "")

        for at in ("/judge0", "/judge0/extra"):
            for method, path, right, wrong in (
                ("POST", "/authorize", 200, 403),
                ("GET", "/submissions", 200, 200),
                ("GET", "/submissions.json", 200, 200),
                ("DELETE", f"/submissions/{token}", 404, 404),
            ):
                assert tried(method, at + path, USER, ADMIN) == (right, "root"), path
                assert tried(method, at + path, ADMIN, USER) == (wrong, "ada"), path
                assert tried(method, at + path, USER, "nobody's") == (401, ""), path
                assert tried(method, at + path, USER, "") == tried(method, at + path, "", USER) == (wrong, "ada"), path
            for method, path in (("POST", "/authenticate"), ("GET", "/statuses"), ("GET", f"/submissions/{token}")):
                assert tried(method, at + path, USER, ADMIN)[1] == "ada", path
        listed = [request.user for name, request in prepared.asked if name == "search"]
        assert listed[:2] == [None, "ada"]


@pytest.mark.parametrize("wait", [None, "0", "0.0", "00", "x", "false", "1", "true", "nan"])
def test_every_call_takes_a_share(prepared: Prepared, tmp_path: Path, counted: list[str], wait: str | None) -> None:
    settings = gateway_config(prepared, tmp_path)
    prepared.tasks()
    with serving_app(settings) as app:
        client = app.test_client()
        headers = {"Authorization": f"Bearer {USER}"}
        query = {} if wait is None else {"wait": wait}
        for method, path in (
            ("GET", f"/api/v1/submissions/{'0' * 24}"),
            ("POST", "/judge0/submissions"),
            ("POST", "/judge0/extra/submissions"),
        ):
            counted.clear()
            client.open(path, method=method, headers=headers, query_string=query, json={})
            assert counted == [f"user ada {'reads' if method == 'GET' else 'changes'}"], path


def test_a_call_gives_its_share_up_while_it_is_held(prepared: Prepared, tmp_path: Path) -> None:
    settings = gateway_config(prepared, tmp_path, threads=8, rpc_timeout=60.0)
    prepared.tasks(make_task())
    before, begun, release = prepared.answers["get"], threading.Event(), threading.Event()
    holds = True

    async def get(request: GetRequest) -> Message:
        if request.wait or not holds:
            begun.set()
            await asyncio.to_thread(release.wait, 60)
        return before(request)  # type: ignore[operator]

    prepared.answers["get"] = get  # type: ignore[assignment]
    path, headers = f"/api/v1/submissions/{ID}", {"Authorization": f"Bearer {USER}"}
    with serving_app(settings) as app, concurrent.futures.ThreadPoolExecutor(2) as pool:

        def ask(query: str = "") -> int:
            return app.test_client().get(path + query, headers=headers).status_code

        try:
            waiting = pool.submit(ask, "?wait=2")
            assert begun.wait(30)
            assert ask() == 200, "one of eight threads is a person's share"
        finally:
            release.set()
        assert waiting.result(60) == 200
        holds = False
        begun.clear()
        release.clear()
        try:
            busy = pool.submit(ask, "?wait=0.0")
            assert begun.wait(30)
            assert ask("?wait=0.0") == 429
        finally:
            release.set()
        assert busy.result(60) == 200


def test_one_person_takes_a_quarter_of_the_places_for_large_bodies(prepared: Prepared, tmp_path: Path) -> None:
    settings = gateway_config(prepared, tmp_path, threads=64, rpc_timeout=60.0)
    begun, release = threading.Semaphore(0), threading.Event()

    async def add(request: Submission) -> Message:
        begun.release()
        await asyncio.to_thread(release.wait, 60)
        raise ForbiddenError("not in this test")

    prepared.answers["add"] = add  # type: ignore[assignment]
    body = {"language": "sh", "source": ":", "tests": [{"name": "a", "input": "y" * 1_500_000}]}
    with serving_app(settings) as app, concurrent.futures.ThreadPoolExecutor(8) as pool:

        def send(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            return app.test_client().post("/api/v1/submissions", headers=headers, json=body).status_code

        try:
            senders = [pool.submit(send, USER) for _ in range(8)]
            assert begun.acquire(timeout=30)
            assert begun.acquire(timeout=30)
            assert not begun.acquire(timeout=1)
            neighbour = pool.submit(send, OTHER)
            assert begun.acquire(timeout=30)
        finally:
            release.set()
        assert neighbour.result(60) == 403
        assert {sender.result(60) for sender in senders} <= {403, 429}


def test_guests_are_shut_out_with_the_account_they_count_as(prepared: Prepared, tmp_path: Path) -> None:
    with serving_app(gateway_config(prepared, tmp_path, judge0={"guest": "visitor"})) as app:
        client = app.test_client()
        assert client.get("/judge0/statuses").status_code == 200
        prepared.disabled.add("visitor")
        wait_for(lambda: client.get("/judge0/statuses").status_code == 401, 9, what="the end of guests")
        assert client.get("/judge0/statuses", headers={"X-Auth-Token": USER}).status_code == 200


def test_many_who_come_for_the_first_time_from_one_address_are_let_in(prepared: Prepared, tmp_path: Path) -> None:
    """Nobody has failed, so nobody waits, however many requests are under way at once."""
    people = [(f"p{number}", "user", f"a-token-of-somebody-{number:0>20}") for number in range(60)]
    settings = gateway_config(prepared, tmp_path)
    write_tokens(settings.tokens, people)
    prepared.answers["usage"] = nothing
    with serving_app(settings) as app, concurrent.futures.ThreadPoolExecutor(60) as pool:

        def ask(token: str) -> int:
            answer = app.test_client().get("/api/v1/whoami", headers={"Authorization": f"Bearer {token}"})
            return answer.status_code

        assert set(pool.map(ask, [token for _, _, token in people])) == {403}
