"""The main loop's rarer turns: slots played over a socket pair, and judicators that are never there."""

from __future__ import annotations

import errno
import os
import re
import select
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from judge import clock
from judge.config import ExecutorConfig
from judge.errors import EXIT_FAILED, ConfigError, RefusedError, StaleError, TooLargeError, UnavailableError
from judge.executor import main
from judge.executor.blobs import BlobCache
from judge.executor.channel import Broken, Finished, Job, Progress, Reader, Ready, Settings, send
from judge.executor.data import BlobClient
from judge.executor.loop import BACKOFF_MAX, FIRST_WORD, STALE_REPORTS, Loop
from judge.executor.machine import Disk
from judge.executor.parts import Parts
from judge.executor.slots import SEND_TIMEOUT, Slots, SlotState
from judge.executor.spool import Spool, Spooled
from judge.executor.state import NEARLY, Board
from judge.executor.workers import Answered, Mailbox, Reporter, ThreadPool, Unanswered, Woken
from judge.model.messages import (
    Assignment,
    ClaimRef,
    Completed,
    ProblemRef,
    ReportReply,
    Result,
    Status,
    Submission,
    Verdict,
)
from judge.rpc.client import RpcClient
from judge.rpc.pki import issue, make_ca
from judge.sandbox import Finding, Level
from tests.support.servers import wait_for


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    directory = tmp_path_factory.mktemp("pki")
    make_ca(directory)
    return issue(directory, "e1", "executor", ["127.0.0.1"])


@pytest.fixture
def config(work, tls):
    etcd = {"endpoints": ["127.0.0.1:1"]}
    return ExecutorConfig(name="e1", work_dir=work, tls=tls, etcd=etcd, rpc_timeout=0.2, stop_grace=1)


def make(config: ExecutorConfig, *spooled: Spooled) -> Loop:
    work = config.work_dir
    rpc = RpcClient(list, config.tls, config.rpc_timeout)
    mailbox = Mailbox()
    board = Board("e1", "inc")
    for entry in spooled:
        board.hold(entry.completed, upload=entry.upload, spooled=True)
    settings = Settings(index=0, core=None, executor="e1", outputs=work, cgroup="judge")
    (work / "outputs").mkdir(exist_ok=True)
    return Loop(
        Parts(
            config=config,
            board=board,
            slots=Slots([settings]),
            spool=Spool(work / "spool", config.spool_bytes),
            disk=Disk(work, 0),
            blob_client=BlobClient(BlobCache(work / "blobs", 1 << 20, rpc.get_blob), rpc),
            mailbox=mailbox,
            pool=ThreadPool(mailbox, 1),
            reporter=Reporter(rpc, mailbox, "e1", "inc"),
            outputs=work / "outputs",
        )
    )


@pytest.fixture
def loop(config):
    made = make(config)
    made.know_languages({"c": "gcc 1"})
    return made


@pytest.fixture
def slot_side(loop):
    """Our end of the only slot's channel, the slot being idle; its process is one that does nothing."""
    ours, theirs = socket.socketpair()
    (slot,) = loop.p.slots.slots
    slot.process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    slot.sock, slot.reader = theirs, Reader(theirs)
    loop.selector.register(theirs, 1, slot)
    slot.state = SlotState.STARTING
    slot.start_at = float("inf")
    send(ours, Ready())
    loop._take_events(1)
    assert slot.state is SlotState.IDLE
    yield ours
    ours.close()
    if slot.process is not None:
        slot.process.kill()
        slot.process.wait()
    theirs.close()


def assignment(number: int = 1, **fields) -> Assignment:
    fields.setdefault("submission", Submission(command="true"))
    return Assignment(id=f"{number:024x}", attempt=1, claim=f"c{number}", **fields)


def completed(number: int = 1, **fields) -> Completed:
    fields.setdefault("result", Result())
    return Completed(
        id=f"{number:024x}", attempt=1, claim=f"c{number}", status=Status.SUCCESS, verdict=Verdict.AC, **fields
    )


def hand_out(loop: Loop, *tasks: Assignment) -> None:
    loop._take_mail(Answered(ReportReply(add=list(tasks))))
    loop._deal_out(clock.monotonic())


def only(loop: Loop) -> Completed:
    (pending,) = loop.board.completions.values()
    return pending.completed


def test_asking_ahead(loop, slot_side):
    hand_out(loop, assignment())
    assert Reader(slot_side).for_slot().assignment.claim == "c1"
    assert loop.vacant() == 0
    send(slot_side, Progress(claim="c1", status=Status.RUNNING, progress="8/10", nearly=True))
    loop._take_events(1)
    assert loop.vacant() == 1
    assert loop._hurry
    hand_out(loop, assignment(2))
    assert loop.vacant() == 0
    assert loop.board.waiting() == ["c2"]
    # With one in store already no more is asked for.
    loop.board.tasks["c1"].nearly_until = 0.0
    send(slot_side, Progress(claim="c1", status=Status.RUNNING, progress="9/10", nearly=True))
    loop._take_events(1)
    assert loop.vacant() == 0
    send(slot_side, Finished(claim="c1", completed=completed()))
    loop._take_events(1)
    loop._deal_out(clock.monotonic())
    assert loop.board.tasks["c2"].slot == 0


def test_a_task_asked_for_ahead_does_not_wait_long(loop, slot_side):
    hand_out(loop, assignment())
    send(slot_side, Progress(claim="c1", status=Status.COMPILING, nearly=True))
    loop._take_events(1)
    hand_out(loop, assignment(2))
    ready = loop.board.tasks["c2"].ready_at
    assert loop.board.next_overdue() == ready + NEARLY
    loop._deal_out(ready + NEARLY - 0.001)
    assert loop.board.waiting() == ["c2"]
    loop._deal_out(ready + NEARLY)
    given = only(loop)
    assert (given.claim, given.retry, given.strike) == ("c2", True, False)
    assert loop.board.next_overdue() == float("inf")


def test_a_report_tells_which_tasks_it_asks_for_ahead(loop, slot_side, monkeypatch):
    sent = []
    monkeypatch.setattr(loop.p.reporter, "report", sent.append)
    loop.know_languages({})
    loop._report_due(clock.monotonic())
    loop._in_flight = False
    hand_out(loop, assignment())
    send(slot_side, Progress(claim="c1", status=Status.COMPILING, nearly=True))
    loop._take_events(1)
    loop._report_due(clock.monotonic())
    assert [(one.vacant, one.ahead) for one in sent] == [(1, 0), (1, 1)]


def test_nonsense_from_a_slot_ends_it(loop, slot_side):
    hand_out(loop, assignment())
    slot_side.sendall(struct.pack("!I", 3) + b"???")
    loop._take_events(1)
    assert only(loop).retry
    assert "talks nonsense" in only(loop).result.reason
    assert loop.p.slots.slots[0].state is SlotState.DOWN


def test_a_slot_that_breaks_says_why(loop, slot_side):
    hand_out(loop, assignment())
    send(slot_side, Broken(reason="no cgroup"))
    slot_side.close()
    loop._take_events(1)
    assert only(loop).result.reason == "slot 0 ended while judging: no cgroup"
    loop._read_slot(loop.p.slots.slots[0])
    assert only(loop).strike


def test_a_slot_that_does_not_read_is_killed(loop, slot_side):
    slot_side.close()
    hand_out(loop, assignment())
    loop._take_events(1)
    assert only(loop).retry


def test_a_silent_slot_is_killed(loop, slot_side):
    hand_out(loop, assignment())
    slot = loop.p.slots.slots[0]
    slot.deadline = 0.0
    loop._turn()
    assert slot.process.wait(10) == -9


def test_a_sign_of_life_begins_the_silence_anew(loop, slot_side):
    hand_out(loop, assignment())
    slot = loop.p.slots.slots[0]
    slot.deadline = 0.0
    send(slot_side, Progress(claim="c1", status=Status.RUNNING, progress="1/2"))
    loop._take_events(1)
    assert slot.deadline > clock.monotonic()
    loop._turn()
    assert slot.process.poll() is None


def test_the_next_task_comes_before_the_account_of_the_last(loop, slot_side, monkeypatch):
    """The slot waits for the one, nobody for the other (docs/decisions/011)."""
    hand_out(loop, assignment(), assignment(2))
    reader = Reader(slot_side)
    assert reader.for_slot().assignment.claim == "c1"
    finished, given = loop.board.finished, []

    def account(*args, **kwargs):
        given.extend(select.select([slot_side], [], [], 0)[0])
        return finished(*args, **kwargs)

    monkeypatch.setattr(loop.board, "finished", account)
    send(slot_side, Finished(claim="c1", completed=completed()))
    loop._take_events(1)
    assert given == [slot_side]
    assert reader.for_slot().assignment.claim == "c2"


def test_a_job_ended_though_nobody_cancelled_it(loop, slot_side):
    hand_out(loop, assignment())
    send(slot_side, Finished(claim="c1"))
    loop._take_events(1)
    assert (only(loop).retry, only(loop).strike) == (True, False)


def test_no_space_in_a_slot_stops_taking(loop, slot_side):
    hand_out(loop, assignment())
    send(slot_side, Finished(claim="c1", completed=completed(), no_space=True))
    loop._take_events(1)
    assert not loop.p.disk.check(clock.monotonic())
    assert loop.vacant() == 0
    assert any("FAIL disk" in check for check in loop.info().checks)


def test_the_output_of_a_cancelled_task_is_removed(loop, slot_side):
    hand_out(loop, assignment())
    output = loop.p.outputs / "c1.out"
    output.write_bytes(b"x")
    loop._take_mail(Answered(ReportReply(drop=[ClaimRef(id=assignment().id, claim="c1")])))
    send(slot_side, Finished(claim="c1", completed=completed(), output=str(output)))
    loop._take_events(1)
    assert not output.exists()
    assert not loop.board.completions


def test_a_language_that_is_not_here(loop):
    hand_out(loop, assignment(submission=Submission(language="cobol", source="x")))
    assert only(loop).result.reason == "language 'cobol' is not installed on e1"


def until_mail(loop: Loop, condition) -> None:
    def turn() -> bool:
        loop._take_events(0.05)
        return condition()

    wait_for(turn, what="mail")


def test_data_that_cannot_be_fetched(loop):
    hand_out(loop, assignment(problem=ProblemRef(name="p", hash="a" * 64)))
    until_mail(loop, lambda: loop.board.completions)
    assert "could not be fetched: no judicator answered" in only(loop).result.reason
    assert not only(loop).strike, "the judicators are to blame"


def test_data_for_which_there_is_no_room(loop):
    task = assignment()
    loop.board.take(task)
    loop._unprepared(task, OSError(errno.ENOSPC, "No space left on device"))
    assert not loop.p.disk.check(clock.monotonic())
    assert only(loop).retry
    loop._unprepared(assignment(2), OSError("nobody wants it"))
    assert len(loop.board.completions) == 1


def test_an_unforeseen_fault_while_fetching(loop, monkeypatch):
    monkeypatch.setattr(loop.p.blob_client, "prepare", lambda *_: 1 / 0)
    hand_out(loop, assignment(problem=ProblemRef(name="p", hash="a" * 64)))
    until_mail(loop, lambda: loop.board.completions)
    assert "division by zero" in only(loop).result.reason


def test_data_of_a_task_that_is_gone_is_let_go(loop):
    from judge.executor.data import Prepared

    prepared, closed = Prepared(), []
    prepared.pins.callback(closed.append, 1)
    loop._prepared(assignment(), prepared)
    assert closed


def test_uploads(loop):
    loop.p.outputs.joinpath("c1.out").write_bytes(b"x")
    loop.board.take(assignment())
    loop._complete(completed(), str(loop.p.outputs / "c1.out"), 0.1)
    now = clock.monotonic()
    loop._upload_due(now)
    until_mail(loop, lambda: loop._upload_at["c1"] < float("inf"))
    # Nobody took it: it is safe in the spool, and tried again later.
    until_mail(loop, lambda: loop.board.completions["c1"].spooled)
    assert len(loop.p.spool) == 1
    assert loop._upload_at["c1"] > now
    loop._upload_failed("unknown", UnavailableError("x"))
    loop.board.uploaded("c1", "a" * 64)
    loop._upload_due(now)
    assert "c1" not in loop._upload_at


@pytest.mark.parametrize("error", [TooLargeError("too large"), OSError("gone")])
def test_an_upload_that_is_refused(loop, monkeypatch, error):
    def refuse(_: Path) -> str:
        raise error

    monkeypatch.setattr(loop.p.blob_client, "upload", refuse)
    loop.board.take(assignment())
    loop._complete(completed(), "/nowhere", 0.1)
    loop._upload_due(clock.monotonic())
    until_mail(loop, lambda: loop.board.urgent)
    assert only(loop).result.reason == f"the whole output could not be kept: {error}"
    assert only(loop).result.stdout_blob is None


def test_the_first_report_waits_for_the_spools_uploads(config):
    (config.work_dir / "c1.out").write_bytes(b"x")
    loop = make(config, Spooled(completed=completed(), upload=str(config.work_dir / "c1.out")))
    now = clock.monotonic()
    loop._report_due(now)
    assert loop.board.sequence == 0
    loop._report_due(now + 11)
    assert loop.board.sequence == 1


def test_reports_back_off_and_spool(loop):
    loop.board.take(assignment())
    loop._complete(completed())
    pauses = []
    for _ in range(6):
        loop.board.request(0, None)
        before = clock.monotonic()
        loop._take_mail(Unanswered(UnavailableError("nobody answers")))
        pauses.append(loop._report_at - before)
    assert pauses[0] < 0.3
    assert BACKOFF_MAX * 0.7 < pauses[-1] <= BACKOFF_MAX * 1.3
    until_mail(loop, lambda: loop.board.completions["c1"].spooled)
    assert len(loop.p.spool) == 1
    loop._take_mail(Answered(ReportReply(settled=[ClaimRef(id=completed().id, claim="c1")])))
    assert len(loop.p.spool) == 0


def test_a_full_spool_keeps_in_memory(loop, caplog):
    loop.p.spool = Spool(loop.p.config.work_dir / "small", 10)
    loop.board.take(assignment())
    loop._complete(completed())
    loop.board.request(0, None)
    loop._take_mail(Unanswered(UnavailableError("x")))
    until_mail(loop, lambda: "the spool is full" in caplog.text)
    assert only(loop).claim == "c1"


def test_the_loop_never_waits_for_the_disk(loop, monkeypatch):
    """Two syncs for every result that nobody takes: while they take their time reports go on."""
    synced = threading.Event()
    monkeypatch.setattr("os.fsync", lambda _: synced.wait(60))
    loop.board.take(assignment())
    loop._complete(completed())
    loop.board.request(0, None)
    loop._take_mail(Unanswered(UnavailableError("x")))
    (pending,) = loop.board.completions.values()
    loop._take_mail(Unanswered(UnavailableError("x")))
    assert (pending.spooling, pending.spooled) == (True, False), "it is on its way, once"
    loop._take_mail(Answered(ReportReply(settled=[ClaimRef(id=completed().id, claim="c1")])))
    synced.set()
    until_mail(loop, lambda: pending.spooled)
    assert list((loop.p.config.work_dir / "spool").iterdir()) == [], "it was settled meanwhile"


def test_a_slot_that_reads_slowly_holds_nothing_up(loop, slot_side):
    """A job of many megabytes goes out as the slot takes it."""
    source = "x" * (8 << 20)
    hand_out(loop, assignment(submission=Submission(command="true", source=source)))
    (slot,) = loop.p.slots.slots
    assert slot.unsent
    assert loop.p.slots.next_due() <= clock.monotonic() + SEND_TIMEOUT
    read: list[Job] = []
    thread = threading.Thread(target=lambda: read.append(Reader(slot_side).for_slot()))
    thread.start()
    until_mail(loop, lambda: bool(read))
    thread.join()
    assert read[0].assignment.submission.source == source
    assert not slot.unsent
    assert slot not in loop.p.slots.stuck(clock.monotonic() + SEND_TIMEOUT)


def test_a_slot_that_never_reads_its_job_is_killed(loop, slot_side):
    hand_out(loop, assignment(submission=Submission(command="true", source="x" * (8 << 20))))
    (slot,) = loop.p.slots.slots
    assert loop.p.slots.stuck(clock.monotonic()) == []
    slot.send_by = clock.monotonic()
    loop._turn()
    assert slot.process.wait(10) == -9


UNFORESEEN = r"work in the background failed in an unforeseen way \(ZeroDivisionError"


def ends(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    """The executor ends, with one sentence, so that it is started again."""
    until_mail(loop, lambda: loop.stopping)
    assert loop.exit_code == EXIT_FAILED
    assert re.search(UNFORESEEN, caplog.text)
    assert loop.run() == EXIT_FAILED


def test_an_unforeseen_fault_while_looking_for_languages(config, monkeypatch, caplog):
    monkeypatch.setattr(main, "detect", lambda _: 1 / 0)
    loop = make(config)
    main._detect(config, loop)
    ends(loop, caplog)


def test_an_unforeseen_fault_while_uploading(loop, monkeypatch, caplog):
    monkeypatch.setattr(loop.p.blob_client, "upload", lambda _: 1 / 0)
    loop.board.take(assignment())
    loop._complete(completed(), str(loop.p.outputs / "c1.out"), 0.1)
    loop._upload_due(clock.monotonic())
    ends(loop, caplog)
    assert len(loop.p.spool) == 1, "the result is safe"


def test_an_unforeseen_fault_while_spooling(loop, monkeypatch, caplog):
    write = loop.p.spool.write
    faults = iter([True])
    monkeypatch.setattr(loop.p.spool, "write", lambda entry: 1 / 0 if next(faults, False) else write(entry))
    loop.board.take(assignment())
    loop._complete(completed())
    loop.board.request(0, None)
    loop._take_mail(Unanswered(UnavailableError("x")))
    ends(loop, caplog)
    assert len(loop.p.spool) == 1, "the result is safe"


def test_one_stale_report_is_an_echo_three_are_a_successor(loop):
    for number in range(STALE_REPORTS):
        assert not loop.stopping, number
        loop._take_mail(Unanswered(StaleError("older")))
    assert loop.stopping
    assert loop.exit_code == EXIT_FAILED


def test_a_wait_that_comes_back_hurries(loop):
    loop._hurry = False
    loop._take_mail(Woken())
    assert loop._hurry


def test_status_line(loop, monkeypatch):
    said = []
    monkeypatch.setattr("judge.executor.loop.notify", lambda *lines: said.append(lines[-1]))
    loop._tell_status()
    loop.p.disk.full = loop.board.drained = True
    loop._connected = False
    loop._tell_status()
    assert said[0] == "STATUS=judging 0 of 1 slots"
    assert said[1] == (
        "STATUS=judging 0 of 1 slots, drained, disk full, no judicator takes reports (0 results spooled)"
    )


def test_stopping_gives_everything_back_within_its_grace(loop, slot_side):
    hand_out(loop, assignment(1), assignment(2))
    loop.p.slots.slots[0].deadline = 0.0
    began = clock.monotonic()
    loop.stop()
    assert loop.run() == 0
    assert clock.monotonic() - began < 3
    assert not loop.board.tasks
    assert {one.completed.result.reason for one in loop.board.completions.values()} <= {
        "the executor is stopping",
        "slot 0 ended while judging: it was killed by SIGKILL",
    }
    assert len(loop.p.spool) == 0, "what is only given back is not spooled"


def test_unforeseen_faults_in_threads_are_survived(loop, monkeypatch, caplog):
    loop.p.pool.do(lambda: 1 / 0)
    done = []
    loop.p.pool.do(lambda: lambda: done.append(1))
    until_mail(loop, lambda: done)
    assert "unforeseen" in caplog.text
    monkeypatch.setattr(RpcClient, "call", lambda *_, **__: 1 / 0)
    loop._in_flight = True
    loop.p.reporter.report(loop.board.request(0, None))
    until_mail(loop, lambda: not loop._in_flight)
    assert loop._failures == 1


def test_a_weak_sandbox_is_refused_unless_allowed(caplog):
    good = [Finding(Level.PASS, "kernel", "6"), Finding(Level.WARN, "swap", "on")]
    assert main.check_sandbox(good, allow_weak=False) is False
    bad = [*good, Finding(Level.FAIL, "cgroups", "none")]
    with pytest.raises(RefusedError, match="no full sandbox is possible here: cgroups: none"):
        main.check_sandbox(bad, allow_weak=False)
    assert main.check_sandbox(bad, allow_weak=True)
    assert "weak sandbox" in caplog.text


def test_the_work_directory_is_locked(work):
    fd = main.lock_work_dir(work / "new")
    with pytest.raises(RefusedError, match="in use by another executor"):
        main.lock_work_dir(work / "new")
    os.close(fd)
    os.close(main.lock_work_dir(work / "new"))
    with pytest.raises(ConfigError, match="cannot be used"):
        main.lock_work_dir(Path("/proc/nowhere"))


def test_cleaning_touches_only_strays(work):
    for name in ("keep.out", "stray.out", "foreign.txt"):
        (work / name).write_text("x")
    main.clean(work, {"keep"})
    assert sorted(path.name for path in work.iterdir()) == ["foreign.txt", "keep.out"]


def test_a_report_waits_shortly_for_the_first_word_of_a_slot(loop, slot_side, monkeypatch):
    requests = []
    monkeypatch.setattr(loop.p.reporter, "report", requests.append)
    hand_out(loop, assignment(1))
    loop._word_until += 600  # however slow this machine is
    loop.board.hold(completed(2))
    loop._report_due(clock.monotonic())
    assert requests == []
    send(slot_side, Progress(claim="c1", status=Status.COMPILING, nearly=True))
    loop._take_events(30)
    loop._report_due(clock.monotonic())
    (request,) = requests
    assert [one.id for one in request.complete] == [completed(2).id] and request.ahead == 1


def test_a_slot_that_says_nothing_keeps_no_report_back(loop, slot_side, monkeypatch):
    requests = []
    monkeypatch.setattr(loop.p.reporter, "report", requests.append)
    hand_out(loop, assignment(1))
    loop.board.hold(completed(2))
    loop._report_due(clock.monotonic() + FIRST_WORD)
    assert len(requests) == 1
