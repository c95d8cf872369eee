"""The rule of the queue, its query and its index are one: a real database hands out what the pure functions say."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest
from bson import Timestamp
from pymongo.write_concern import WriteConcern

from judge.judicator.documents import TaskDocument
from judge.judicator.queue.order import ORDER, Capacity, ExecutorCapacity, eligible, precedence
from judge.judicator.queue.placing import FRONT
from judge.judicator.queue.waiting import RUN, RequestingExecutor
from tests.support.judicators import World, runs, waiting, write

EXECUTORS = {"e1": frozenset({"c", "java"}), "e2": frozenset({"c"}), "e3": frozenset({"java", "ada"})}
LANGUAGES = ("c", "java", "ada", "cobol", "")


@pytest.fixture
def full(world: World) -> World:
    """Waiting tasks of all kinds in front, many with the same keys of the order but the last."""
    world.judicator()
    dice = random.Random(7)  # the same queue at every run
    stamps = itertools.count(1)

    def placed(doc: dict[str, Any]) -> dict[str, Any]:
        return doc | {"order": dice.randint(1, 3), "arrival": Timestamp(dice.randint(1, 3), next(stamps))}

    for user, needs, priority in itertools.product(("ann", "bob"), LANGUAGES, ("high", "normal", "low")):
        write(world.db, map(placed, waiting(2, user=user, needs=needs, priority=priority)))
    for needs in LANGUAGES:
        write(world.db, map(placed, runs(2, number=1, needs=needs)))
        for tried in (["e1"], ["e2", "e3"], ["e1", "e2"], ["e1", "e2", "e3"], ["gone"]):
            write(world.db, map(placed, waiting(1, needs=needs, tried=tried)))
            (failed,) = runs(1, number=1, needs=needs)
            write(world.db, [placed(failed | {"rank": 4, "failed": tried, "tried": ",".join(tried)})])
    # A majority has this write, and so all before it.
    world.db.meta.with_options(write_concern=WriteConcern("majority")).insert_one({"_id": "written"})
    return world


def test_the_database_finds_what_the_rule_says(full: World) -> None:
    running = full.judicators[0]
    tasks: list[TaskDocument] = full.db.tasks.find({"waits": {"$in": [FRONT, RUN]}}).to_list()
    live = ([], ["e2"], ["e1", "e2", "e3"])
    for name, alive, passed_over in itertools.product(EXECUTORS, live, (set(), {"ann", "crowd"})):
        capacity = Capacity({one: ExecutorCapacity(EXECUTORS[one]) for one in {name, *alive}}, 8)
        executor = RequestingExecutor(name, "", 0, EXECUTORS[name])
        others = capacity.others(name)
        wanted = [
            task
            for task in sorted(tasks, key=lambda task: precedence(task, name, others))
            if task["needs"] in {"", *executor.languages}
            and (task["waits"] == RUN or task["user"] not in passed_over)
            and eligible(name, task["needs"], (), task["tried"].split(","), others, math.inf)
        ]
        assert len(wanted) > 10
        for limit in (1, 7, 1000):
            found = running.do(running.judicator.tasks.queue.candidates(executor, limit, capacity, passed_over))
            assert [one["_id"] for one in found] == [one["_id"] for one in wanted[:limit]], (name, alive, passed_over)


def test_the_index_has_the_order_so_that_nothing_is_sorted(full: World) -> None:
    """Both questions of a hand-out are answered by the index `ready` as it lies, for each language."""
    for waits in (FRONT, RUN):
        match = {"waits": waits, "tried": "", "needs": {"$in": list(LANGUAGES)}}
        if waits == FRONT:
            match["user"] = {"$nin": ["ann"]}
        steps = [{"$match": match}, {"$sort": dict.fromkeys(ORDER, 1)}, {"$limit": 5}]
        plan = full.db.command("aggregate", "tasks", pipeline=steps, explain=True)
        stages = list(_stages(plan["queryPlanner"]["winningPlan"]))
        assert {stage["indexName"] for stage in stages if stage["stage"] == "IXSCAN"} == {"ready"}
        assert "SORT" not in {stage["stage"] for stage in stages}, "SORT_MERGE joins what is in order already"


def _stages(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    plan = plan.get("queryPlan", plan)
    yield plan
    for inner in [*plan.get("inputStages", []), *([plan["inputStage"]] if "inputStage" in plan else [])]:
        yield from _stages(inner)
