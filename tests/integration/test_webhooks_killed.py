"""Webhooks while judicators, gateways and mongods are killed, leading or not: every verdict is told, in order."""

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from judge.common.errors import DeadlineError, OutcomeUnknownError, UnavailableError
from judge.config import GatewayConfig, JudicatorConfig, dump
from judge.model import messages as m
from judge.model.webhooks import WebhookAdd, WebhookAdded
from tests.support.gateway import ADMIN, make_config, write_config
from tests.support.judicators import World, completed
from tests.support.mongodb import Cluster, Daemon
from tests.support.receivers import HOOKS, Receiver, hurry, is_genuine
from tests.support.servers import wait_for

pytestmark = pytest.mark.timeout(1200)

# Each submission is told twice. `make test-webhooks` is the whole thing, 1000 of them, which takes minutes.
SUBMISSIONS = int(os.environ.get("JUDGE_TEST_WEBHOOKS", "120")) // 2
GATEWAYS = 2
KILLS = 6
# The seed of kills and their moments: a run is told it, and goes the same way with that in JUDGE_TEST_SEED.
SEED = int(os.environ.get("JUDGE_TEST_SEED", str(random.SystemRandom().randrange(10**6))))
# Judging goes on where it was, however long a judicator takes to come back.
PATIENT = {**HOOKS, "executor_expiry": 600.0, "executor_forget": 1200.0, "task_expiry": 600.0}
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
def world(tmp_path: Path, etcd_endpoint: str, mongods: Cluster) -> Iterator[World]:
    world = World(tmp_path, etcd_endpoint, ",".join(member.address for member in mongods.daemons))
    yield world
    world.close()


def judicator(world: World, directory: Path, name: str) -> Process:
    config: JudicatorConfig = world.config(name, **PATIENT)
    path = directory / f"{name}.yml"
    path.write_text(dump(config))
    process = Process("judicator", path, config.listen)
    world.stack.callback(process.kill)
    return process


def gateway(world: World, directory: Path, name: str) -> Process:
    config: GatewayConfig = make_config(
        directory / name, world.etcd_config, world.tls(name, "gateway"), processes=1, threads=4
    )
    process = Process("gateway", write_config(config, directory / name / "gateway.yml"), config.listen)
    world.stack.callback(process.kill)
    return process


class People:
    """Who hands in and cancels at whatever gateway answers; each call again, until it is answered."""

    def __init__(self, world: World, gateways: list[Process]) -> None:
        self._bases = itertools.cycle([f"http://{process.address}/api/v1" for process in gateways])
        self._http = httpx.Client(trust_env=False, timeout=20, headers={"Authorization": f"Bearer {ADMIN}"})
        world.stack.callback(self._http.close)
        self.numbers = itertools.count()

    def call(self, method: str, path: str, **request: object) -> dict[str, object]:
        def ask() -> object:
            with contextlib.suppress(httpx.TransportError):
                answer = self._http.request(method, next(self._bases) + path, **request)  # type: ignore[arg-type]
                assert answer.status_code < 300 or answer.status_code >= 429, answer.text
                return answer.json() if answer.status_code < 300 else None
            return None

        reply = wait_for(ask, 90, f"an answer to {method} {path}")
        assert isinstance(reply, dict)
        return reply

    def submit(self) -> str:
        """One submission; its id."""
        number = next(self.numbers)
        body = {"language": "c", "source": f"int main(){{}} // {number}"}
        return str(self.call("POST", "/submissions", json=body, headers={"Idempotency-Key": f"k{number}"})["id"])

    def judged(self, submission: str) -> bool:
        """Whether it has a verdict."""
        return self.call("GET", f"/submissions/{submission}")["finished"] is not None

    def rejudge(self, ids: list[str]) -> object:
        """The number of a new rejudging of these."""
        body = {"filter": {"ids": ids}, "reason": "new test data"}
        return self.call("POST", "/rejudgings", json=body, headers={"Idempotency-Key": "rejudge"})["id"]


def leader(people: People, judicators: dict[str, Process]) -> Process:
    """The judicator that leads."""
    name = wait_for(lambda: people.call("GET", "/status")["leader"], 120, "a leader")
    return judicators[str(name)]


def primary(mongods: Cluster) -> Daemon:
    member = wait_for(mongods.primary, 120, "a primary")
    assert isinstance(member, Daemon)
    return member


class Judging:
    """An executor that says WA of each submission, AC of each run of a rejudging; judicators may die meanwhile."""

    def __init__(self, world: World) -> None:
        self._executor = world.executor("e1", slots=16)
        self._own: dict[str | None, str] = {}  # the submission of each source: what comes with it later is a run
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        world.stack.callback(self.stop)

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    def _verdict(self, assignment: m.Assignment) -> str:
        return "WA" if self._own.setdefault(assignment.submission.source, assignment.id) == assignment.id else "AC"

    def _work(self) -> None:
        while not self._end.wait(0.05):
            completions = [
                completed(assignment, self._verdict(assignment)) for assignment in self._executor.work.values()
            ]
            report = self._executor.request(*completions, vacant=16)
            while not self._end.is_set():
                try:
                    self._executor.send(report)
                    break
                except AGAIN:
                    continue


LEADER, PRIMARY = "the leader", "the primary"
# Submissions whose first verdict is refused until they have a new one. Each of them may be called before all others.
LATE = 2


class Killing:
    """Kills a judicator or a mongod, and a gateway each time, one after the other.

    Once it is whoever leads, once the primary, and else one of all six, whatever it is then; none of them twice.
    """

    def __init__(self, people: People, judicators: dict[str, Process], mongods: Cluster, doors: list[Process]) -> None:
        self._people, self._judicators, self._mongods, self._doors = people, judicators, mongods, doors
        self.count, self.killed = 0, list[str]()
        chance = random.Random(SEED)
        self._members: dict[str, Process | Daemon] = {
            **judicators,
            **{daemon.name: daemon for daemon in mongods.daemons},
        }
        self._victims = [LEADER, PRIMARY, *chance.sample([*self._members], KILLS - 2)]
        chance.shuffle(self._victims)

    def kill_next(self) -> None:
        victim = self._victims[self.count]
        if victim == LEADER:
            old: Process | Daemon = leader(self._people, self._judicators)
        else:
            old = primary(self._mongods) if victim == PRIMARY else self._members[victim]
        if isinstance(old, Process):
            old.again()
        else:
            mongod = old.mongod
            old.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(mongod, signal.SIGKILL)
            old.start()
        self._doors[self.count % GATEWAYS].again()
        self.count += 1
        self.killed.append(victim)


def told_of(receiver: Receiver, event: str) -> set[str]:
    """The submissions of which it has taken this."""
    return {call.json["data"]["id"] for call in receiver.successes() if call.json["type"] == event}


def test_none_is_lost(tmp_path, world, mongods, receiver, figure) -> None:
    """Every fifth call fails, too. Of each submission the receiver is told its verdict and then the new one.

    Of the last ones it takes the verdict only when they have a new one: that has to wait.
    """
    print(f"JUDGE_TEST_SEED={SEED}")  # of a test that fails
    judicators = {f"j{number}": judicator(world, tmp_path, f"j{number}") for number in range(3)}
    # Their addresses are all that clients ask for.
    world.judicators = list(judicators.values())  # type: ignore[arg-type]
    gateways = [gateway(world, tmp_path, f"g{number}") for number in range(GATEWAYS)]
    hook = wait_for(lambda: added(world.client(timeout=20.0), receiver), 120, "a webhook")
    assert isinstance(hook, WebhookAdded)
    late: set[str] = set()
    receiver.answer = lambda number, call: 500 if number % 5 == 0 or call.json["data"]["id"] in late else 204
    people, judging = People(world, gateways), Judging(world)
    killing = Killing(people, judicators, mongods, gateways)
    tasks: list[str] = []
    while len(tasks) < SUBMISSIONS:
        tasks.append(people.submit())
        if len(tasks) > SUBMISSIONS - LATE:
            late.add(tasks[-1])
        if len(tasks) % (SUBMISSIONS // 4) == SUBMISSIONS // 8:
            killing.kill_next()
        if len(tasks) == SUBMISSIONS - LATE:
            # Before those of the last ones fail: a receiver that fails is called once in half a minute at last.
            wait_for(
                lambda: hurry(world) or told_of(receiver, "submission.finished") >= set(tasks), 240, "the verdicts"
            )
    wait_for(lambda: all(map(people.judged, late)), 240, "the last verdicts, which nobody took")
    number = people.rejudge(tasks)
    killing.kill_next()
    wait_for(lambda: people.call("GET", f"/rejudgings/{number}")["state"] == "finished", 240, "the runs")
    people.call("POST", f"/rejudgings/{number}/apply", headers={"Idempotency-Key": "apply"})
    killing.kill_next()
    wait_for(lambda: told_of(receiver, "submission.rejudged"), 120, "a new verdict")
    assert late - told_of(receiver, "submission.finished"), "some have yet to hear of the first one"
    late.clear()
    # The longer this has taken until here, the later the next tries are.
    wait_for(lambda: hurry(world) or told_of(receiver, "submission.rejudged") >= set(tasks), 240, "each new verdict")
    judging.stop()
    assert killing.count == KILLS and {LEADER, PRIMARY} < set(killing.killed)
    assert len(set(tasks)) == SUBMISSIONS
    story = defaultdict(list)
    for call in receiver.successes():
        assert is_genuine(hook.secret, call.headers, call.body, call.arrival)
        data = call.json["data"]
        story[data["id"]].append((data["version"], call.json["type"], data["verdict"]))
    assert story.keys() == set(tasks), "the runs of a rejudging are told to nobody"
    for versions in story.values():
        # At least once: what a receiver has taken may come again, but never after what is newer.
        assert versions == sorted(versions), versions
        assert [(event, verdict) for _, event, verdict in sorted(set(versions))] == [
            ("submission.finished", "WA"),
            ("submission.rejudged", "AC"),
        ]
    again = sum(len(versions) - len(set(versions)) for versions in story.values())
    figure(
        f"{2 * SUBMISSIONS} webhooks while {killing.count} gateways and {', '.join(killing.killed)} were killed "
        f"(JUDGE_TEST_SEED={SEED}): {len(receiver.calls)} calls, none lost, {again} taken twice"
    )


def added(rpc: object, receiver: Receiver) -> WebhookAdded | None:
    with contextlib.suppress(*AGAIN):
        return rpc.call("webhook_add", WebhookAdd(name="h", url=receiver.url), WebhookAdded)  # type: ignore[attr-defined]
    return None
