"""The largest inputs that are allowed, and larger ones: the judicator answers other calls while it reads them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from judge.common import clock
from judge.common.errors import JudgeError, PackageError
from judge.config import SubmissionLimits
from judge.model import messages as m
from judge.model.problem import ProblemImport, ProblemInfo
from judge.rpc.client import RpcClient
from tests.support.judicators import FAST, World, accepted, get

# Seconds within which another call is answered; a busy machine takes some of it.
PATIENCE = 3.0


class Pings:
    """Calls of somebody else, one after the other, and the longest time that one took."""

    def __init__(self, people: RpcClient) -> None:
        self.people, self.worst, self.count = people, 0.0, 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self.over.is_set():
            began = clock.monotonic()
            self.people.call("ping", m.Empty(), m.Pong)
            self.worst = max(self.worst, clock.monotonic() - began)
            self.count += 1

    def __enter__(self) -> Pings:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()


def a_manifest(people: RpcClient, count: int, name: str, **fields: Any) -> ProblemImport:
    blob = people.put_blob(b"1")
    tests = [{"name": name.format(n), "input": blob, "answer": blob} for n in range(count)]
    content = json.dumps({"name": "big", "tests": tests, **fields}, separators=(",", ":"))
    return ProblemImport(manifest=people.put_blob(content.encode()))


@pytest.mark.parametrize(
    ("count", "name", "refusal"),
    [
        (10_000, "{}" + "n" * 600, ""),
        (10_000, "t{}", ""),
        (10_000, "double" + "n" * 600, "has two tests named 'double"),
        (9_999, "double", "has two tests named 'double'; give each its own name"),
        (48_000, "double", "tests: expected at most 10000 items"),
        (48_000, "{}", "tests: expected at most 10000 items"),
    ],
)
def test_a_manifest_of_any_size_holds_up_nobody(world: World, count: int, name: str, refusal: str) -> None:
    world.judicator(**FAST)
    people, neighbours = world.client(timeout=60), world.client("gw2", timeout=60)
    request = a_manifest(people, count, name)
    with Pings(neighbours) as pings:
        if refusal:
            with pytest.raises(PackageError, match=refusal):
                people.call("problem_import", request, ProblemInfo)
        else:
            assert people.call("problem_import", request, ProblemInfo).tests == count
    assert pings.count > 1
    assert pings.worst < PATIENCE


@pytest.mark.parametrize(
    "fields_of",
    [
        lambda: {"validator_flags": [""] * 2_500_000},
        lambda: {"graders": [{"name": "secret"}] * 300_000},
        lambda: {"task": {"subtasks": [{"name": "a", "points": 1, "tests": []}] * 150_000}},
        lambda: {"tests": [{}] * 2_000_000},
        lambda: {"languages": [0] * 400_000},
        lambda: {str(n): 0 for n in range(400_000)},
    ],
)
def test_a_manifest_with_too_much_of_anything_is_refused_at_once(
    world: World, fields_of: Callable[[], dict[str, Any]]
) -> None:
    world.judicator(**FAST)
    people, neighbours = world.client(timeout=60), world.client("gw2", timeout=60)
    request = a_manifest(people, 1, "{}", **fields_of())
    with Pings(neighbours) as pings, pytest.raises(JudgeError) as caught:
        people.call("problem_import", request, ProblemInfo)
    assert caught.value.http_status < 500
    assert pings.worst < PATIENCE


def test_submissions_and_results_of_most_tests_hold_up_nobody(world: World) -> None:
    world.judicator(**FAST, limits=SubmissionLimits(tests=m.TESTS))
    people, neighbours, executor = world.client(timeout=60), world.client("gw2", timeout=60), world.executor("e1")
    submission = m.Submission(
        user="ann", command="cat", tests=[m.Test(name=str(n), input="1" * 50, answer="1" * 50) for n in range(m.TESTS)]
    )
    rows = [m.TestResult(name=str(n), verdict=m.Verdict.AC, output="x" * 200) for n in range(m.TESTS)]
    with Pings(neighbours) as pings:
        for _ in range(3):
            task = people.call("add", submission, m.AddReply).task.id
            executor.report()
            (assignment,) = executor.work.values()
            executor.report(accepted(assignment, result=m.Result(tests=rows)))
            judged = get(people, task)
            assert judged.result is not None
            assert len(judged.result.tests) == m.TESTS
    assert pings.worst < PATIENCE
