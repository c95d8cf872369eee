"""Election, epochs, the sweep, and life without etcd (docs/protocol.md, rules 6 and 7); real etcd and mongod."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from judge.common.errors import JudgeError
from judge.config import EtcdClient
from judge.etcd.client import Etcd
from judge.judicator.leader.leading import LEADER_KEY
from judge.model import messages as m
from judge.model.overview import DrainRequest, ExecutorsReply, ExecutorState, StatusReply
from judge.rpc.client import RpcClient
from judge.rpc.endpoints import EtcdEndpoints
from tests.support.judicators import FAST, Executor, Running, World, accepted, add, get, handed_out, resign
from tests.support.servers import etcd_server, free_port, wait_for


def leaders(world: World) -> list[Running]:
    return [running for running in world.judicators if running.judicator.lead.leading]


class Alive:
    """Keeps an executor reporting from a thread."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while not self.stop.wait(0.2):
            self.executor.report(vacant=0)

    def __enter__(self) -> Alive:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()


def test_one_leads_and_another_takes_over_with_a_larger_epoch(world: World) -> None:
    for name in ("j1", "j2", "j3"):
        world.judicator(name, **FAST)
    wait_for(lambda: leaders(world), what="a leader")
    first = leaders(world)[0]
    assert leaders(world) == [first]
    assert first.judicator.lead.epoch == 1
    first.stop()
    wait_for(lambda: [judicator for judicator in leaders(world) if judicator is not first], what="another leader")
    second = next(judicator for judicator in leaders(world) if judicator is not first)
    assert second.judicator.lead.epoch == 2
    assert first.judicator.lead.epoch is None


def test_a_silent_executors_task_is_judged_elsewhere(world: World) -> None:
    world.judicator(**FAST)
    people, silent, second = world.client(), world.executor("e1"), world.executor("e2")
    task = add(people)
    silent.report()
    silent.report()
    late = accepted(silent.work[task])

    def assigned() -> bool:
        second.report()
        return task in second.work

    wait_for(assigned, what="the task at another executor")
    executors = {row.name: row.alive for row in people.call("executors", m.Empty(), ExecutorsReply).executors}
    assert executors == {"e1": False, "e2": True}
    faults = people.call("status", m.Empty(), StatusReply).faults
    assert "executor 'e1' does not report" in faults
    assert silent.report(late, vacant=0).drop
    second.report(accepted(second.work[task]))
    stored = get(people, task)
    assert (stored.verdict, stored.judged_by) == ("AC", "e2")
    assert "dead" in stored.history[0].reason
    alive = {row.name: row.alive for row in people.call("executors", m.Empty(), ExecutorsReply).executors}
    assert alive["e1"]


def test_a_task_that_only_waited_in_a_dead_executor_is_hardly_blamed(world: World) -> None:
    world.judicator(**FAST, attempts=1)
    people, dead = world.client(), world.executor(slots=2)
    began, waited = (add(people) for _ in range(2))
    dead.report(vacant=2, ahead=1)

    wait_for(
        lambda: get(people, began).done and get(people, waited).status == "retrying", what="the end of their executor"
    )
    assert get(people, began).verdict == "JE"
    assert get(people, waited).history[0].reason == "the executor is dead, the task had not begun"


def test_a_task_without_beats_expires_though_its_executor_reports(world: World) -> None:
    """A report that lists the task at another attempt keeps the executor alive, not the task."""
    people, _, task = handed_out(world, **FAST)
    running = world.judicators[0]
    world.db.tasks.update_one({}, {"$set": {"executor": "ghost"}})
    with Alive(world.executor("e2")):
        wait_for(lambda: get(people, task).status == "retrying", what="expiry")
    stored = get(people, task)
    assert stored.history[0].reason == f"no sign of life for {FAST['task_expiry']} s"
    assert running.judicator.lead.leading


def test_a_live_executor_keeps_its_task_for_long(world: World) -> None:
    people, executor, task = handed_out(world, **FAST)
    running = world.judicators[0]
    wait_for(lambda: running.judicator.lead.leading, what="a leader")
    with Alive(executor):
        assert people.call("get", m.GetRequest(id=task, wait=7), m.Task).attempt == 1
    assert get(people, task).executor == "e1"


def test_the_dead_are_forgotten_except_the_drained(world: World) -> None:
    world.judicator(**{**FAST, "executor_forget": 5})
    people = world.client()
    for name in ("e1", "e2"):
        world.executor(name).report()
    people.call("drain", DrainRequest(executor="e2", drain=True), ExecutorState)

    def names() -> list[str]:
        return [row.name for row in people.call("executors", m.Empty(), ExecutorsReply).executors]

    wait_for(lambda: names() == ["e2"], what="forgetting")


def test_losing_etcd_stops_leading_and_nothing_else(world: World, tmp_path: Path) -> None:
    with etcd_server(tmp_path / "mortal") as endpoint:
        etcd = EtcdClient(endpoints=[endpoint], timeout=0.5, prefix="/x/")
        patient = {**FAST, "executor_expiry": 300, "task_expiry": 300}
        running = world.judicator(**patient, etcd=etcd)
        wait_for(lambda: running.judicator.lead.leading, what="a leader")
        wait_for(lambda: running.judicator.register.registered, what="registration")
        people, executor = world.client(), world.executor()
        before = add(people)
        executor.report()
    wait_for(lambda: not running.judicator.lead.leading, what="the end of leading")
    assert executor.report(accepted(executor.work[before])).settled
    after = add(people)
    executor.report()
    executor.report(accepted(executor.work[after]))
    assert get(people, after).verdict == "AC"
    assert running.judicator.crashed() is None


def test_without_any_etcd_submissions_are_taken_and_assigned_once_it_is_there(world: World, tmp_path: Path) -> None:
    port = free_port()
    nothing = EtcdClient(endpoints=[f"127.0.0.1:{port}"], timeout=0.3, prefix="/x/")
    running = world.judicator(etcd=nothing, leads=False)
    people, executor = world.client(), world.executor()
    task = add(people)
    assert get(people, task).status == "pending"
    with pytest.raises(JudgeError, match="no judicator"):
        executor.rpc.call("report", executor.request(), m.ReportReply, timeout=1.0)
    with etcd_server(tmp_path / "late", port):
        running.leading()
        executor.report()
        executor.report(accepted(executor.work[task]))
    assert get(people, task).verdict == "AC"


def test_results_are_committed_while_nobody_leads(world: World) -> None:
    people, executor, task = handed_out(world)
    running = world.judicators[0]
    running.do(resign(running))
    reply = executor.report(accepted(executor.work[task]))
    assert [ref.id for ref in reply.settled] == [task]
    assert reply.epoch == 0
    assert get(people, task).verdict == "AC"


def test_a_deposed_leader_does_not_sweep(world: World) -> None:
    """Its epoch is no longer the newest: the pass ends before it reads anything, and a new epoch is taken."""
    running = world.judicator(**{**FAST, "sweep_interval": 0.7})
    lead = running.judicator.lead
    wait_for(lambda: lead.leading, what="a leader")
    world.db.meta.update_one({"_id": "leader"}, {"$set": {"epoch": 41}})
    assert running.do(lead.sweep_once()) is None
    wait_for(lambda: lead.epoch == 42, what="a new epoch")


def test_a_deleted_leader_key_ends_the_leadership(world: World) -> None:
    running = world.judicator(**FAST)
    lead = running.judicator.lead
    wait_for(lambda: lead.leading, what="a leader")
    with Etcd(world.etcd_config) as etcd:
        etcd.delete(LEADER_KEY)
    wait_for(lambda: lead.epoch is not None and lead.epoch > 1, what="a new leadership")


def test_a_blind_spell_does_not_count_as_silence(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database stalls for longer than every expiry; afterwards nobody is declared dead."""
    people, executor, task = handed_out(world, **FAST)
    running, lead = world.judicators[0], world.judicators[0].judicator.lead
    executor.report(vacant=0)
    wait_for(lambda: lead.leading and lead._notes, what="a sweep")
    observed = lead._observed
    jump = 1000.0
    late = SimpleNamespace(monotonic=lambda: time.monotonic() + jump)
    monkeypatch.setattr("judge.judicator.leader.leading.clock", late)
    decision = running.do(lead.sweep_once())
    assert decision is not None
    assert decision.expired == []
    assert lead._observed - observed < 5
    executor.report(vacant=0)
    assert get(people, task).executor == "e1"


def test_clients_find_judicators_in_etcd_and_follow_them(world: World) -> None:
    first = world.judicator("j1", **FAST)
    wait_for(lambda: first.judicator.register.registered, what="registration")
    etcd = world.stack.enter_context(Etcd(world.etcd_config))
    endpoints = EtcdEndpoints(etcd)
    client = world.stack.enter_context(RpcClient(endpoints, world.tls("gw", "gateway"), 10.0))
    assert client.call("ping", m.Empty(), m.Pong).name == "j1"
    second = world.judicator("j2", **FAST)
    wait_for(lambda: second.judicator.register.registered, what="registration")
    first.stop()
    assert client.call("ping", m.Empty(), m.Pong).name == "j2"
    assert endpoints() == [second.address]
    # etcd gone: the last known ones stay in use.
    etcd.close()
    endpoints.refresh(5.0)
    assert client.call("ping", m.Empty(), m.Pong).name == "j2"


def test_a_client_that_starts_without_etcd_has_the_last_known_judicators(world: World, tmp_path: Path) -> None:
    file = tmp_path / "judicators"
    running = [world.judicator(name, **FAST) for name in ("j1", "j2")]
    for judicator in running:
        wait_for(lambda member=judicator: member.judicator.register.registered, what="registration")
    with Etcd(world.etcd_config) as etcd:
        before = EtcdEndpoints(etcd, file)
        before.refresh(5.0)
        wait_for(lambda: file.exists() and len(file.read_text().split()) == 2, what="both addresses in the file")
    dead_etcd = world.stack.enter_context(Etcd(world.etcd_config.model_copy(update={"endpoints": ["127.0.0.1:1"]})))
    for content in (file.read_text(), f"{running[0].address}\n\nno address\n"):
        file.write_text(content)
        client = world.stack.enter_context(RpcClient(EtcdEndpoints(dead_etcd, file), world.tls("gw", "gateway"), 10.0))
        assert client.call("ping", m.Empty(), m.Pong).name in {"j1", "j2"}
        assert file.read_text() == content
    file.write_bytes(b"\xff\xfe")
    assert EtcdEndpoints(dead_etcd, file)() == []
    assert EtcdEndpoints(dead_etcd, tmp_path / "none")() == []


def test_many_looks_at_the_status_ask_etcd_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    running = world.judicator("j1", **FAST)
    reader, looks = running.judicator._status, []
    real = reader._read_etcd
    monkeypatch.setattr("judge.judicator.status._FRESH", 60.0)
    monkeypatch.setattr(reader, "_read_etcd", lambda: (looks.append(1), real())[1])

    async def several() -> None:
        await asyncio.gather(*(reader.read(m.Empty()) for _ in range(10)))

    running.do(several())
    assert len(looks) == 1


def test_a_warned_status_with_two_judicators(world: World) -> None:
    for name in ("j1", "j2"):
        running = world.judicator(name, **FAST)
        wait_for(lambda member=running: member.judicator.register.registered, what="registration")
    warnings = world.client().call("status", m.Empty(), StatusReply).warnings
    assert any("odd number" in warning for warning in warnings)
