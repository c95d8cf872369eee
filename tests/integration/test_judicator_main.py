"""The daemon as a process: start without its servers, signals, exit codes, metrics."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from judge.common import clock
from judge.common.errors import JudgeError
from judge.config import JudicatorConfig, MongodbClient, dump
from judge.daemon.main import run
from judge.judicator import main
from judge.model import messages as m
from judge.model.overview import StatusReply
from tests.support.judicators import World
from tests.support.servers import free_port, frozen, port_open, server_of, wait_for

DAEMON = """
import sys
from pathlib import Path
from judge import config
from judge.daemon import log
from judge.daemon.main import run
log.setup("info")
sys.exit(run(config.load(config.JudicatorConfig, Path(sys.argv[1]))))
"""


class Daemon:
    def __init__(self, world: World, directory: Path, config: JudicatorConfig) -> None:
        self.config = config
        path = directory / "judicator.yml"
        path.write_text(dump(config))
        self.log = directory / "judicator.log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen([sys.executable, "-c", DAEMON, str(path)], stdout=out, stderr=out)
        world.stack.callback(self.process.wait)
        world.stack.callback(self.process.kill)

    def logged(self, text: str) -> bool:
        return text in self.log.read_text()


def test_it_serves_and_ends_on_sigterm(world: World, tmp_path: Path) -> None:
    port = free_port()
    config = world.config(metrics=f"127.0.0.1:{port}", leader_ttl=2, register_ttl=2)
    daemon = Daemon(world, tmp_path, config)
    world.judicators.append(type("Known", (), {"address": config.listen})())
    wait_for(lambda: daemon.logged("the database is ready"), what="the database")
    people = world.client()
    assert people.call("ping", m.Empty(), m.Pong).name == "j1"
    wait_for(lambda: people.call("ping", m.Empty(), m.Pong).leader, what="a leader")
    people.call("add", m.Submission(command="cat"), m.AddReply)

    def queue() -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return b'judge_queue{priority="normal"} 1.0' in answer.read()

    wait_for(queue, what="the queue among the metrics")
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(15) == 0
    text = daemon.log.read_text()
    for words in ("stopped", "gave the leadership up", "withdrawn"):
        assert words in text
    assert "Traceback" not in text
    assert "ERROR" not in text


def test_it_waits_for_the_database_and_answers_meanwhile(world: World, tmp_path: Path) -> None:
    nothing = MongodbClient(seeds=["127.0.0.1:9"], timeout=0.5)
    config = world.config(mongodb=nothing)
    daemon = Daemon(world, tmp_path, config)
    wait_for(lambda: daemon.logged("waiting for the database"), what="a word about the database")
    world.judicators.append(type("Known", (), {"address": config.listen})())
    assert world.client().call("ping", m.Empty(), m.Pong).name == "j1"
    daemon.process.send_signal(signal.SIGINT)
    assert daemon.process.wait(15) == 0
    assert daemon.log.read_text().count("waiting for the database") == 1


def test_a_port_in_use_is_one_sentence_and_exit_code_3(world: World, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        for settings in ({"listen": address}, {"metrics": address}):
            daemon = Daemon(world, tmp_path, world.config(**settings))
            assert daemon.process.wait(20) == 3
            text = daemon.log.read_text()
            assert "Traceback" not in text
            assert f"{address}" in text.splitlines()[-1]


def test_run_serves_until_a_signal(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, where coverage sees it: the signal comes once it listens."""
    config = world.config()
    calls: list[str] = []

    def notify(*lines: str) -> None:
        calls.extend(lines)
        if any("serving" in line for line in lines):
            assert port_open(int(config.listen.split(":")[1]))
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(main, "notify", notify)
    assert run(config) == 0
    assert "READY=1" in calls
    assert calls[-1] == "STOPPING=1"


class Heard(threading.Event):
    """Counts how often somebody has waited for it."""

    looks = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.looks += 1
        return super().wait(timeout)


def test_it_stops_at_once_while_many_wait_for_an_etcd_that_hangs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    config, stop, calls = world.config(), Heard(), []
    monkeypatch.setattr(main, "notify", lambda *lines: calls.extend(lines))
    world.judicators.append(type("Known", (), {"address": config.listen})())
    people = world.client(timeout=30)
    threads = min(32, (os.cpu_count() or 1) + 4)  # that asyncio has for what waits

    def look() -> None:
        with contextlib.suppress(JudgeError):
            people.call("status", m.Empty(), StatusReply)

    with ThreadPoolExecutor(10 * threads) as crowd:
        running = crowd.submit(main.run, config, stop)
        wait_for(lambda: any("serving" in line for line in calls), what="a judicator that serves")
        with frozen(server_of(world.etcd_config.endpoints[0])):
            looks = [crowd.submit(look) for _ in range(9 * threads)]
            wait_for(lambda: all(look.running() for look in looks), what="that all calls are under way")
            began, before = clock.monotonic(), stop.looks
            wait_for(lambda: stop.looks > before + 1, what="two more looks for a stop")
            stop.set()
            wait_for(lambda: calls[-1] == "STOPPING=1", what="the stop")
            assert clock.monotonic() - began < 6
        assert running.result(60) == 0
        assert all(look.result(60) is None for look in looks)


def test_the_daemon_ends_with_1_when_even_the_keeper_of_its_loops_breaks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr("judge.judicator.loops.Loops.forever", broken)
    assert run(world.config()) == 1
