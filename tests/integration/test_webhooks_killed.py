"""Webhooks while processes are killed: judicators, a gateway, the primary of three mongods. Every verdict is told."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from judge.config import GatewayConfig, JudicatorConfig, dump
from judge.errors import DeadlineError, OutcomeUnknownError, UnavailableError
from judge.hooks import signing
from judge.model.webhooks import WebhookAdd, WebhookAdded
from tests.support.gateway import ADMIN, make_config, write_config
from tests.support.judicators import World
from tests.support.mongodb import Cluster, Daemon, mongodb_cluster
from tests.support.receiver import HOOKS, Receiver
from tests.support.servers import wait_for

pytestmark = pytest.mark.timeout(600)

ROUNDS, EACH, GATEWAYS = 5, 24, 2
AGAIN = (DeadlineError, OutcomeUnknownError, UnavailableError)


class Process:
    """One daemon of the judge, as a process that is killed and started again."""

    def __init__(self, service: str, config: Path, address: str) -> None:
        self.command = [sys.executable, "-m", "judge.cli", service, "--config", str(config)]
        self.log = config.with_suffix(".log")
        self.address = address
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *self.command],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def again(self) -> None:
        self.kill()
        self.start()


@pytest.fixture
def mongods(tmp_path: Path, etcd_endpoint: str) -> Iterator[Cluster]:
    with mongodb_cluster(tmp_path / "mongodb", etcd_endpoint) as cluster:
        cluster.start(3)
        cluster.wait_votes([1, 1, 1], timeout=120)
        yield cluster


@pytest.fixture
def world(tmp_path: Path, etcd_endpoint: str, mongods: Cluster) -> Iterator[World]:
    one = World(tmp_path, etcd_endpoint, ",".join(member.address for member in mongods.daemons))
    yield one
    one.close()


def judicator(world: World, directory: Path, name: str) -> Process:
    config: JudicatorConfig = world.config(name, **HOOKS)
    path = directory / f"{name}.yml"
    path.write_text(dump(config))
    made = Process("judicator", path, config.listen)
    world.stack.callback(made.kill)
    return made


def gateway(world: World, directory: Path, name: str) -> Process:
    config: GatewayConfig = make_config(
        directory / name, world.etcd_config, world.tls(name, "gateway"), processes=1, threads=4
    )
    made = Process("gateway", write_config(config, directory / name / "gateway.yml"), config.listen)
    world.stack.callback(made.kill)
    return made


class People:
    """Who hands in and cancels at whatever gateway answers; each call again, until it is answered."""

    def __init__(self, gateways: list[Process]) -> None:
        self._bases = itertools.cycle([f"http://{one.address}/api/v1" for one in gateways])
        self._http = httpx.Client(trust_env=False, timeout=20, headers={"Authorization": f"Bearer {ADMIN}"})
        self.numbers = itertools.count()

    def call(self, method: str, path: str, **more: object) -> dict[str, object]:
        def ask() -> object:
            with contextlib.suppress(httpx.TransportError):
                answer = self._http.request(method, next(self._bases) + path, **more)  # type: ignore[arg-type]
                assert answer.status_code < 300 or answer.status_code >= 429, answer.text
                return answer.json() if answer.status_code < 300 else None
            return None

        found = wait_for(ask, 90, f"an answer to {method} {path}")
        assert isinstance(found, dict)
        return found

    def finish(self) -> str:
        """One submission that has come to its end; its id."""
        key = {"Idempotency-Key": f"k{next(self.numbers)}"}
        made = self.call("POST", "/submissions", json={"command": "true"}, headers=key)
        self.call("POST", f"/submissions/{made['id']}/cancel")
        return str(made["id"])


def leader(people: People, judicators: dict[str, Process]) -> Process:
    """The judicator that leads."""
    name = wait_for(lambda: people.call("GET", "/status")["leader"], 60, "a leader")
    return judicators[str(name)]


def primary(mongods: Cluster) -> Daemon:
    one = wait_for(mongods.primary, 60, "a primary")
    assert isinstance(one, Daemon)
    return one


def test_none_is_lost(tmp_path: Path, world: World, mongods: Cluster, receiver: Receiver) -> None:
    """Every fifth call fails, too; a receiver sees the changes of one submission in their order."""
    judicators = {f"j{number}": judicator(world, tmp_path, f"j{number}") for number in range(3)}
    # Their addresses are all that clients ask for.
    world.judicators = list(judicators.values())  # type: ignore[arg-type]
    gateways = [gateway(world, tmp_path, f"g{number}") for number in range(GATEWAYS)]
    rpc = world.client(timeout=20.0)
    hook = wait_for(lambda: added(rpc, receiver), 60, "a webhook")
    assert isinstance(hook, WebhookAdded)
    receiver.answer = lambda number, got: 500 if number % 5 == 0 else 204
    people = People(gateways)
    done: list[str] = []
    for number in range(ROUNDS):
        done += [people.finish() for _ in range(EACH // 2)]
        if number % 2 == 0:
            leader(people, judicators).again()
        else:
            old = primary(mongods)
            mongod = old.mongod
            old.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(mongod, signal.SIGKILL)
            old.start()
        gateways[number % GATEWAYS].again()
        done += [people.finish() for _ in range(EACH // 2)]
    wait_for(lambda: {one.told["data"]["id"] for one in receiver.taken()} >= set(done), 120, "a call for each")
    assert len(done) == ROUNDS * EACH == len(set(done))
    versions = defaultdict(list)
    for one in receiver.taken():
        assert signing.is_genuine(hook.secret, one.headers, one.body, time.time())
        versions[one.told["data"]["id"]].append(one.told["data"]["version"])
    assert all(told == sorted(told) for told in versions.values())
    assert Counter(one.told["type"] for one in receiver.taken()).keys() == {"submission.finished"}


def added(rpc: object, receiver: Receiver) -> WebhookAdded | None:
    with contextlib.suppress(*AGAIN):
        return rpc.call("webhook_add", WebhookAdd(name="h", url=receiver.url), WebhookAdded)  # type: ignore[attr-defined]
    return None
