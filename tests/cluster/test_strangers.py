"""Ten thousand strangers at a deployed gateway, with nginx in front: everybody else is served meanwhile."""

import contextlib
import resource
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from judge.model import messages as m
from tests.support.gateway import TLS, Crowd, crowd
from tests.support.lab import Figure, Site, lab_marks
from tests.support.servers import wait_for

pytestmark = lab_marks(2400)

MANY, SOME = 10_000, 300
# Nobody waits longer than this meanwhile; ten thousand handshakes keep two cores busy for a while.
SOON = 10.0
HEAD = b"Host: judge\r\n"
ATTACKS = {
    "nothing at all": (MANY, b"", False),
    "half of a handshake": (MANY, bytes.fromhex("1603010200010001fc0303"), False),
    "half of a head": (SOME, b"GET /api/v1/alive HTTP/1.1\r\nHost: x\r\nX-", True),
    "a slow body": (SOME, b"POST /api/v1/submissions HTTP/1.1\r\n" + HEAD + b"Content-Length: 100000000\r\n\r\n", True),
    "a slow log-in": (SOME, b"POST /login HTTP/1.1\r\n" + HEAD + b"Content-Length: 60000\r\n\r\n", True),
    "alive with a body": (SOME, b"GET /api/v1/alive HTTP/1.1\r\n" + HEAD + b"Content-Length: 100000\r\n\r\n", True),
    "slow readers": (SOME, b"GET /api/v1/openapi.json HTTP/1.1\r\n" + HEAD + b"\r\n", True),
}


def gateway_of(deployed: Site) -> tuple[str, int]:
    with deployed.api() as api:
        url = httpx.URL(api.context.server)
    return url.host, url.port or 443


@contextlib.contextmanager
def files(count: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def besieged(deployed: Site, attack: str, work: Callable[[Crowd], None]) -> None:
    """Do something in the lab's network while the attack goes on there."""
    count, begin, secured = ATTACKS[attack]
    faults: list[BaseException] = []

    def run() -> None:
        deployed.enter()
        try:
            with crowd(
                gateway_of(deployed), count, begin, drip=b"x", every=3.0, tls=TLS if secured else None,
                read=attack != "slow readers", enter=deployed.enter,
            ) as crowd_of:  # fmt: skip
                work(crowd_of)
        except BaseException as exc:  # noqa: BLE001 - it is raised below, in the test's own thread
            faults.append(exc)

    thread = threading.Thread(target=run)
    with files(MANY + 2000):
        thread.start()
        thread.join()
    if faults:
        raise faults[0]


@pytest.mark.parametrize("attack", ATTACKS)
def test_people_are_served_during_an_attack(deployed: Site, attack: str, figure: Figure) -> None:
    deployed.wait_healthy()
    restarts = deployed.restarts("g1")
    took: dict[str, list[float]] = {"alive": [], "status": [], "a verdict": []}

    def work(strangers: Crowd) -> None:
        with deployed.api(timeout=60) as api:
            for _ in range(5):
                for label, path in (("alive", "/alive"), ("status", "/status")):
                    started = time.monotonic()
                    assert api.request("GET", path).status_code == 200
                    took[label].append(time.monotonic() - started)
            started = time.monotonic()
            task = api.submit(m.Submission(command="true"))
            version = task.version
            while not task.done:
                assert time.monotonic() - started < 60
                task = api.get(task.id, wait=20, version=version)
                version = task.version
            took["a verdict"].append(time.monotonic() - started)
        figure(f"{attack}: {len(strangers.sockets)} connections, {strangers.open} of them open at the end")

    besieged(deployed, attack, work)
    figure(f"{attack}: at the slowest " + ", ".join(f"{label} {max(times):.2f} s" for label, times in took.items()))
    assert max(took["alive"] + took["status"]) < SOON
    assert deployed.restarts("g1") == restarts, "busy is not hung"


def test_slow_strangers_come_to_an_end(deployed: Site) -> None:
    def work(strangers: Crowd) -> None:
        wait_for(lambda: strangers.open == 0, timeout=90, what="the end of all of them")

    besieged(deployed, "half of a head", work)


def test_failed_log_ins_are_slowed_down_by_address(deployed: Site) -> None:
    """The proxy's word counts, the client's own does not."""
    answers: list[httpx.Response] = []

    def run() -> None:
        deployed.enter()
        host, port = gateway_of(deployed)
        with httpx.Client(base_url=f"https://{host}:{port}", verify=False, trust_env=False) as client:
            for number in range(60):
                headers = {"Authorization": f"Bearer guess-{number}", "X-Forwarded-For": f"192.0.2.{number}"}
                answers.append(client.get("/api/v1/whoami", headers=headers))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert answers[0].status_code == 401 and answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert "192.0.2." not in answers[-1].text
