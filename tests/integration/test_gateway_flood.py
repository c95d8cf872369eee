"""One user who hands in over many connections at once, and what is left of a gateway for the same and another user."""

import asyncio
import concurrent.futures
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from judge.model import messages as m
from tests.support.gateway import OTHER, USER, Prepared, gateway_config, make_task, running_gateway
from tests.support.servers import wait_for

THREADS, FLOOD = 64, 24


class _Slow:
    """Adds that take their time, and how many of whose are under way."""

    def __init__(self) -> None:
        self.now: dict[str, int] = {}
        self.highest: dict[str, int] = {}

    async def add(self, submission: m.Submission) -> m.AddReply:
        user = submission.user
        self.now[user] = self.now.get(user, 0) + 1
        self.highest[user] = max(self.highest.get(user, 0), self.now[user])
        await asyncio.sleep(0.3)
        self.now[user] -= 1
        return m.AddReply(task=make_task(submission=submission), created=True)


def hand_in(url: str, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    body = {"language": "c", "source": "int main(void) { return 0; }"}
    path = f"{url}/api/v1/submissions?wait=1"  # which this call does not know: it gets nobody a larger share
    return httpx.post(path, json=body, headers=headers, trust_env=False, timeout=30).status_code


@pytest.fixture
def url(prepared: Prepared, tmp_path: Path) -> Iterator[str]:
    with running_gateway(gateway_config(prepared, tmp_path / "gw", threads=THREADS), tmp_path / "gw") as url:
        yield url


def test_a_flood_has_an_eighth_of_the_threads_and_the_rest_is_for_others(prepared: Prepared, url: str) -> None:
    slow: Any = _Slow()
    prepared.answers["add"] = slow.add
    with concurrent.futures.ThreadPoolExecutor(FLOOD) as pool:
        flood = [pool.submit(hand_in, url, USER) for _ in range(FLOOD)]
        wait_for(lambda: slow.highest.get("ada", 0) >= THREADS // 8, what="a flood that has all its turns")
        status = hand_in(url, OTHER)
        assert not all(poll.done() for poll in flood), "the flood is still on"
        reading = look(url, USER, "/none")
        assert not all(poll.done() for poll in flood), "what the same user reads does not wait for it"
        assert (status, reading) == (201, 404)
        assert {poll.result() for poll in flood} == {201}
    assert slow.highest["ada"] == THREADS // 8, "of one user so many at once"


def look(url: str, token: str, query: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{url}/api/v1/submissions{query}", headers=headers, trust_env=False, timeout=30).status_code


def test_a_flood_of_looks_has_an_eighth_as_well(prepared: Prepared, url: str) -> None:
    """They take CPU time, which the threads of a process share: half of these at once left others a thirtieth."""
    now, highest = 0, 0

    async def search(_: m.SearchRequest) -> m.SearchReply:
        nonlocal now, highest
        now, highest = now + 1, max(highest, now + 1)
        await asyncio.sleep(0.3)
        now -= 1
        return m.SearchReply(tasks=[])

    prepared.tasks()
    prepared.answers["search"] = search
    with concurrent.futures.ThreadPoolExecutor(FLOOD) as pool:
        flood = [pool.submit(look, url, USER, f"?limit={number + 1}") for number in range(FLOOD)]
        wait_for(lambda: highest >= THREADS // 8, what="a flood that has all its turns")
        assert look(url, OTHER, "/none") == 404
        assert look(url, USER, f"/{'0' * 24}?wait=1") == 404, "what may be held does not wait for it"
        assert not all(poll.done() for poll in flood), "the flood is still on"
        assert {poll.result() for poll in flood} == {200}
    assert highest == THREADS // 8
