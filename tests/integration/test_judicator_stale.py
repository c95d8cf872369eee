"""Right after an election a majority read may lack what was acknowledged last; nothing is thrown away for that.

Such a read is put in place of the first one of each rule. What follows is the real database.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from judge.common.errors import ForbiddenError
from judge.common.pki.refused import DOCUMENT
from judge.judicator import verdicts
from judge.model import messages as m
from tests.support.judicators import Running, World, accepted, add, get, resign, start

PATIENT = {"executor_expiry": 3600.0, "executor_forget": 7200.0, "task_expiry": 3600.0}


def without_at_first(
    read: Callable[..., Awaitable[Any]], first: Any, query: dict[str, Any] | None = None
) -> Callable[..., Awaitable[Any]]:
    """The read, whose first answer (to this query) is another one."""
    answers = [first]

    async def stale(*args: Any, **options: Any) -> Any:
        newest = await read(*args, **options)
        return answers.pop() if answers and (query is None or args[0] == query) else newest

    return stale


@pytest.fixture
def running(world: World) -> Running:
    return world.judicator("j1", **PATIENT)


@pytest.mark.parametrize("leading", [True, False])
def test_a_verdict_is_committed_although_its_hand_out_is_not_seen_yet(
    world: World, running: Running, monkeypatch: pytest.MonkeyPatch, leading: bool
) -> None:
    people, executor = world.client(), world.executor()
    task = add(people)
    executor.report()
    tasks = running.judicator.tasks
    monkeypatch.setattr(tasks, "_read_hand_outs", without_at_first(tasks._read_hand_outs, {}))
    if leading:
        tasks.assigner._hand_outs.clear()
    else:
        running.do(resign(running))
    reply = executor.report(accepted(executor.work[task]))
    assert not reply.drop
    judged = get(people, task)
    assert (judged.verdict, judged.attempt) == (m.Verdict.AC, 1)


def test_a_run_goes_on_although_its_hand_out_is_not_seen_yet(
    world: World, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    people, executor = world.client(), world.executor(slots=2)
    tasks = [add(people, f"int x{n};") for n in range(2)]
    executor.report()
    own = running.judicator.tasks
    given_out = running.do(own._read_hand_outs("e1"))
    own.assigner._hand_outs.clear()
    monkeypatch.setattr(own, "_read_hand_outs", without_at_first(own._read_hand_outs, {tasks[0]: given_out[tasks[0]]}))
    assert not executor.report().drop
    executor.report(*[accepted(assignment) for assignment in executor.work.values()])
    for task in tasks:
        judged = get(people, task)
        assert (judged.verdict, judged.attempt) == (m.Verdict.AC, 1)


def test_a_hand_out_of_before_is_not_seen_again(
    world: World, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stale answer has the hand-out before this one, of the same task."""
    people, executor = world.client(), world.executor()
    task = add(people)
    executor.report()
    own = running.judicator.tasks
    old = running.do(own._read_hand_outs("e1"))
    executor.restart()
    executor.report()
    own.assigner._hand_outs.clear()
    monkeypatch.setattr(own, "_read_hand_outs", without_at_first(own._read_hand_outs, old))
    assert not executor.report(accepted(executor.work[task])).drop
    judged = get(people, task)
    assert (judged.verdict, judged.attempt) == (m.Verdict.AC, 2)


def test_the_switch_of_verdicts_does_not_go_back(
    world: World, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = running.judicator.database
    switch = {"_id": verdicts.SWITCH}
    world.db.meta.update_one(switch, {"$set": {"generation": 3, "folding": [7]}}, upsert=True)
    assert running.do(verdicts.generation(database)) == verdicts.Generation(3, frozenset({7}))
    old = {**switch, "generation": 2, "folding": []}
    for stale in (old, None):
        with monkeypatch.context() as patch:
            patch.setattr(database.meta, "find_one", without_at_first(database.meta.find_one, stale, switch))
            assert running.do(verdicts.generation(database)) == verdicts.Generation(3, frozenset({7}))


def test_a_removed_host_is_not_let_in_by_an_older_list(
    world: World, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [{"name": "e9", "before": 4e9}]
    world.db.meta.update_one({"_id": DOCUMENT}, {"$set": {"names": names}}, upsert=True)
    refused = running.judicator.refused
    running.do(refused.read())
    meta = running.judicator.database.meta
    find = meta.find_one

    async def stale(query: dict[str, Any], *args: Any, **options: Any) -> Any:
        return None if query == {"_id": DOCUMENT} else await find(query, *args, **options)

    monkeypatch.setattr(meta, "find_one", stale)
    running.do(refused.read())
    with pytest.raises(ForbiddenError):
        world.executor("e9").report()


def test_an_open_rejudging_is_not_tidied_away(world: World, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    people, executor = world.client(), world.executor()
    task = add(people)
    executor.report()
    executor.report(accepted(executor.work[task]), vacant=0)
    start(people, ids=[task])
    rejudgings = running.judicator.rejudgings

    find = rejudgings._col.find

    def stale(query: dict[str, Any], *args: Any, **options: Any) -> Any:
        """A look at the open rejudgings that does not see the newest one."""
        return find({"_id": None} if query == {"settled": False} else query, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(rejudgings._col, "find", stale)
        running.do(rejudgings.tidy())
    assert world.db.tasks.count_documents({"rejudging": 1}) == 2
    assert world.db.tasks.count_documents({"rerun_of": {"$exists": True}, "status": "cancelled"}) == 0
