"""docs/walk.md against a real submission: judgectl, a gateway and a judicator in this process call what it names."""

import asyncio
import contextlib
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx
import pytest
import yaml
from typer.testing import CliRunner
from werkzeug.serving import make_server

from judge.ctl import main
from tests.support.gateway import USER, make_config, serving_app
from tests.support.judicators import World, accepted, patient_world
from tests.support.walk import ROOT, Step, line_of, steps

# Steps whose process is another one, and what looks at them instead; their order is not looked at.
ELSEWHERE = {
    16: "the executor's main process: tests/unit/test_executor_loop.py",
    18: "the executor's main process: tests/unit/test_executor_loop.py",
    19: "the executor's main process: tests/unit/test_executor_loop.py",
    20: "a slot, which wants root and control groups: tests/integration/test_executor_pipeline.py",
    21: "a slot: tests/integration/test_sandbox_limits.py",
    22: "the container, in C: tests/integration/test_sandbox_isolation.py",
    23: "a slot: tests/integration/test_executor_problems.py",
    24: "a slot: tests/unit/test_executor_verdict.py",
    25: "the executor's main process: tests/unit/test_executor_loop.py",
    29: "a browser: tests/browser/test_pages.py",
}
# Steps that have waited since earlier ones, so that it is their end which comes in its turn.
ENDS = {27}
Place = tuple[str, int]
ProfileFunction = Callable[[FrameType, str, Any], object]


class Trace:
    """The calls of a few functions in their order: in threads that begin while it is on, in this one, and in loops."""

    def __init__(self, places: set[Place]) -> None:
        self.calls: list[tuple[Place, str]] = []
        self._places = places
        self._by_code: dict[CodeType, Place | None] = {}

    def _look(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code not in self._by_code:
            place = (code.co_filename.removeprefix(f"{ROOT}/"), code.co_firstlineno)
            self._by_code[code] = place if place in self._places else None
        if event in {"call", "return"} and (place := self._by_code[code]) is not None:
            self.calls.append((place, event))

    @contextlib.contextmanager
    def on(self, loops: Sequence[asyncio.AbstractEventLoop]) -> Iterator[None]:
        """Look, for the length of a `with`; also in the threads of these loops. It makes all of them slower."""

        def everywhere(look: ProfileFunction | None) -> None:
            for loop in loops:
                loop.call_soon_threadsafe(sys.setprofile, look)
            threading.setprofile(look)
            sys.setprofile(look)

        everywhere(self._look)
        try:
            yield
        finally:
            everywhere(None)


def expected(step: Step) -> list[tuple[str, Place, str]]:
    """What a step says is called, in order: (as the page has it, place, event)."""
    event = "return" if step.number in ENDS else "call"
    own = (f"{step.number}: {step.name}", (step.file, line_of(step.file, step.name)), event)
    return [own, *((f"{step.number}: {name}", (file, line_of(file, name)), "call") for file, name in step.inner)]


def judge(world: World, ready: threading.Event) -> None:
    """Be the executor of one submission: ask for it once it is there, and say that it is right."""
    executor = world.executor()
    executor.rpc = world.client("e1", "executor", timeout=60.0)  # on a machine that does much else
    executor.report(vacant=0)
    ready.set()
    while not executor.work:
        executor.report(hold=5.0)
    executor.report(*map(accepted, list(executor.work.values())), vacant=0)


def look_at_page(client: Path) -> None:
    """As a browser whose person has logged in, at the newest submission."""
    server = yaml.safe_load(client.read_text())["server"]
    with httpx.Client(base_url=server, trust_env=False) as browser:
        csrf = re.search(r'name="csrf" value="([^"]+)"', browser.get("/login").text)
        assert csrf is not None
        assert browser.post("/login", data={"token": USER, "csrf": csrf[1]}).status_code == 303
        page = browser.get("/submissions").text
        link = re.search(r'href="(/submissions/[0-9a-f]{24})"', page)
        assert link is not None
        assert "Ran" in browser.get(link[1]).text


@pytest.fixture
def served(tmp_path: Path, etcd_endpoint: str, mongod_address: str) -> Iterator[tuple[World, Path]]:
    """A judicator, a gateway's app on a port without nginx, and the client.yml of a person."""
    with patient_world(tmp_path / "world", etcd_endpoint, mongod_address) as world, contextlib.ExitStack() as stack:
        settings = make_config(tmp_path / "gw", world.etcd_config, world.tls("gateway-1", "gateway"), rpc_timeout=60.0)
        server = make_server("127.0.0.1", 0, stack.enter_context(serving_app(settings)), threaded=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        stack.callback(server.server_close)
        stack.callback(thread.join)
        stack.callback(server.shutdown)
        (tmp_path / "token").write_text(USER)
        (tmp_path / "client.yml").write_text(f"server: http://127.0.0.1:{server.port}\ntoken_file: token\n")
        yield world, tmp_path / "client.yml"


def test_a_submission_goes_where_the_walk_says(served: tuple[World, Path], tmp_path: Path) -> None:
    """Each function that the walk names is called after the one that it names before."""
    world, client = served
    expected_calls = [call for step in steps() if step.number not in ELSEWHERE for call in expected(step)]
    assert len(expected_calls) > 20
    (tmp_path / "right.c").write_text("int main(){}")
    ready = threading.Event()
    judging = threading.Thread(target=judge, args=(world, ready), daemon=True)
    judging.start()
    assert ready.wait(60)
    trace = Trace({place for _, place, _ in expected_calls})
    with trace.on([judicator.loop for judicator in world.judicators]):
        result = CliRunner().invoke(main.app, ["--context", str(client), "submit", str(tmp_path / "right.c")])
        look_at_page(client)
    judging.join(60)
    assert result.exit_code == 0, result.output
    calls = iter(trace.calls)
    for description, place, event in expected_calls:
        assert (place, event) in calls, f"step {description} is not called where the walk has it"


def test_steps_of_other_processes_are_in_the_walk() -> None:
    assert set(ELSEWHERE) | ENDS <= {step.number for step in steps()}
    for reason in ELSEWHERE.values():
        assert (ROOT / reason.rpartition(": ")[2]).is_file()
