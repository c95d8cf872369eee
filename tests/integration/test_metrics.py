"""The Prometheus endpoint: strangers who take their time do not keep it from those who ask."""

import threading

import httpx
import pytest
from prometheus_client import Counter

from judge.common.errors import RefusedError
from judge.daemon import metrics
from tests.support.gateway import crowd, ended
from tests.support.servers import free_port, wait_for

EVENTS = Counter("judge_test_events_total", "Events of this test")


@pytest.fixture
def address() -> tuple[str, int]:
    port = free_port()
    metrics.serve(f"127.0.0.1:{port}")
    return "127.0.0.1", port


def ask(address: tuple[str, int], path: str = "/metrics", method: str = "GET") -> httpx.Response:
    return httpx.request(method, f"http://127.0.0.1:{address[1]}{path}", trust_env=False, timeout=10)


def test_metrics_are_served(address: tuple[str, int]) -> None:
    EVENTS.inc()
    answer = ask(address)
    assert answer.status_code == 200 and "judge_test_events_total 1.0" in answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    assert ask(address, method="HEAD").content == b""
    assert ask(address, "/other").status_code == 404
    assert ask(address, method="POST").status_code == 404


@pytest.mark.parametrize("begin", [b"", b"GET /metrics HTTP/1.1\r\nX-"])
def test_slow_connections_are_closed_and_make_room(address: tuple[str, int], begin: bytes) -> None:
    with crowd(address, 200, begin, drip=b"x") as strangers:
        assert ask(address).status_code == 200
        ended(strangers, within=30)


def test_a_client_that_reads_nothing_blocks_no_scrape(address: tuple[str, int]) -> None:
    with crowd(address, 200, b"GET /metrics HTTP/1.1\r\n\r\n", read=False):
        assert ask(address).status_code == 200


def test_scrapes_during_a_collection_share_the_next_one(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each of a crowd costs the daemon a collection of its own."""
    begun, go_on = threading.Semaphore(0), threading.Event()
    real = metrics.generate_latest

    def slowly(*arguments: object) -> bytes:
        begun.release()
        assert go_on.wait(20)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(metrics, "generate_latest", slowly)
    with crowd(address, 50, b"GET /metrics HTTP/1.1\r\n\r\n") as strangers:
        assert begun.acquire(timeout=20)
        go_on.set()
        wait_for(lambda: len(strangers.answers) == 50, what="an answer for all")
    collections = 1
    while begun.acquire(blocking=False):
        collections += 1
    assert collections <= 25, "those who come after the first look share one or a few"


def test_a_port_in_use_is_refused_in_one_sentence(address: tuple[str, int]) -> None:
    with pytest.raises(RefusedError, match=rf"metrics address 127.0.0.1:{address[1]} cannot be used: Address already"):
        metrics.serve(f"127.0.0.1:{address[1]}")
