"""The main loop at work: what judicators and slots see of it, above all in its rarer turns."""

import errno
import logging
import os
import re
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from judge.common.errors import EXIT_FAILED, StaleError, TooLargeError, UnavailableError
from judge.config import ExecutorConfig
from judge.executor import dispatch, loop, machine, main, reports, slot_state, slots, table, uploads
from judge.executor.channel import Broken, Cancel, Finished, Job, Progress
from judge.executor.storage.spool import Spool, Spooled
from judge.model.messages import Assignment, ProblemRef, ReportReply, ReportRequest, Status, Submission, Test
from judge.rpc.pki import issue, make_ca
from tests.support.executors import PATIENCE, Played, Watcher, assignment, completed
from tests.support.servers import wait_for

Make = Callable[..., Played]
UNFORESEEN = r"work in the background failed in an unforeseen way \(ZeroDivisionError"


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    directory = tmp_path_factory.mktemp("pki")
    make_ca(directory)
    return issue(directory, "e1", "executor", ["127.0.0.1"])


@pytest.fixture
def config(work, tls) -> ExecutorConfig:
    return ExecutorConfig(
        name="e1",
        work_dir=work,
        tls=tls,
        etcd={"endpoints": ["127.0.0.1:1"]},
        stop_grace=2,
        report_interval=0.05,
        blob_cache_bytes=1 << 20,
        min_free_bytes=0,
    )


@pytest.fixture
def make(config, monkeypatch) -> Iterator[Make]:
    """Executors with these settings, not started yet. Their pauses are short."""
    for module, name in ((reports, "HOLD"), (slot_state, "RESTART_MIN"), (slot_state, "CANCEL_GRACE")):
        monkeypatch.setattr(module, name, 0.1)
    executors = []

    def build(*earlier: Spooled, spool_bytes: int | None = None, **settings: object) -> Played:
        played = Played(config.model_copy(update=settings), *earlier, spool_bytes=spool_bytes)
        executors.append(played)
        return played

    yield build
    for played in executors:
        played.close()


@pytest.fixture
def played(make) -> Played:
    """One that works, with an idle slot."""
    return make().start()


@pytest.fixture
def lonely(make, monkeypatch) -> Played:
    """One at which nothing happens any more: no timer of its own wakes the loop for an hour."""
    monkeypatch.setattr(reports, "HOLD", 60.0)
    for module, name in ((loop, "TELL_MAX"), (machine, "LOOK")):
        monkeypatch.setattr(module, name, 3600.0)
    played = make(report_interval=3600.0, min_free_bytes=1).start()
    assert played.judicators.parked.wait(PATIENCE)
    return played


def has(claim: str) -> Callable[[ReportRequest], bool]:
    """Whether a report lists this as executing."""
    return lambda request: claim in [executing.claim for executing in request.executing]


def with_data(number: int, blob: str) -> Assignment:
    return assignment(number, submission=Submission(command="true", tests=[Test(name="1", input_blob=blob)]))


# --- asking ahead ------------------------------------------------------------------------------------------------


def test_asking_ahead(played, monkeypatch):
    monkeypatch.setattr(table, "NEARLY", PATIENCE)
    judicators, slot = played.judicators, played.slot
    played.take(assignment(1))
    full = judicators.report(has("c1"))
    assert (full.vacant, full.ahead) == (0, 0)
    slot.say(Progress(claim="c1", status=Status.RUNNING, progress="8/10", nearly=True))
    ahead = judicators.report(lambda request: request.vacant)
    assert (ahead.vacant, ahead.ahead, ahead.executing[0].progress) == (1, 1, "8/10")
    judicators.assign(assignment(2))
    stored = judicators.report(has("c2"))
    assert (stored.vacant, [executing.waiting for executing in stored.executing]) == (0, [False, True])
    # With one in store already no more is asked for.
    slot.say(Progress(claim="c1", status=Status.RUNNING, progress="9/10", nearly=True))
    again = judicators.report(lambda request: request.executing[0].progress == "9/10")
    assert again.vacant == 0
    slot.say(Finished(claim="c1", completed=completed(1)))
    assert slot.job() == "c2"
    assert not judicators.result("c1").retry


def test_a_task_asked_for_ahead_does_not_wait_long(played):
    judicators = played.judicators
    played.take(assignment(1))
    judicators.assign(assignment(2))
    began = time.monotonic()
    outcome = judicators.result("c2")
    assert (outcome.retry, outcome.penalty) == (True, False)
    assert outcome.result.reason == "its slot was not free in time"
    assert time.monotonic() - began >= table.NEARLY
    assert has("c1")(judicators.report())


def in_store(played: Played) -> None:
    """One task in the slot, and one that waits for it."""
    played.take(assignment(1))
    played.judicators.assign(assignment(2))
    played.judicators.report(has("c2"))


def test_the_next_task_comes_before_the_account_of_the_last(played, monkeypatch, caplog):
    """The slot waits for the one, nobody for the other (docs/decisions/004)."""
    monkeypatch.setattr(table, "NEARLY", PATIENCE)
    caplog.set_level(logging.INFO)
    in_store(played)
    at_the_slot = []
    watcher = Watcher("is AC", lambda: at_the_slot.extend(select.select([played.slot.ours], [], [], PATIENCE)[0]))
    logging.getLogger("judge").addHandler(watcher)
    try:
        played.slot.say(Finished(claim="c1", completed=completed(1)))
        played.judicators.result("c1")
    finally:
        logging.getLogger("judge").removeHandler(watcher)
    assert at_the_slot == [played.slot.ours]
    assert played.slot.job() == "c2"


def test_a_report_waits_shortly_for_the_first_word_of_a_slot(played, monkeypatch):
    monkeypatch.setattr(table, "NEARLY", PATIENCE)
    in_store(played)
    monkeypatch.setattr(dispatch, "FIRST_WORD", PATIENCE)  # on a slow machine, too
    played.slot.say(Finished(claim="c1", completed=completed(1)))
    assert played.slot.job() == "c2"
    played.slot.say(Progress(claim="c2", status=Status.COMPILING, nearly=True))
    played.judicators.result("c1")
    (request,) = [request for request in played.judicators.requests if request.complete]
    assert request.ahead == 1


def test_a_slot_that_says_nothing_keeps_no_report_back(played, monkeypatch):
    monkeypatch.setattr(table, "NEARLY", PATIENCE)
    in_store(played)
    played.slot.say(Finished(claim="c1", completed=completed(1)))
    assert played.slot.job() == "c2"
    played.judicators.result("c1")


def test_a_report_that_is_held_brings_work(make, monkeypatch):
    monkeypatch.setattr(reports, "HOLD", PATIENCE)
    played = make(report_interval=3600.0).start()
    assert played.judicators.parked.wait(PATIENCE)
    played.judicators.assign(assignment(1))
    played.judicators.wake()
    assert played.slot.job() == "c1"


# --- every step wakes the loop when it is due, though nothing else happens ---------------------------------------


def test_a_task_that_has_waited_for_too_long_wakes_the_loop(lonely):
    lonely.take(assignment(1))
    lonely.judicators.assign(assignment(2))
    lonely.slot.say(Progress(claim="c1", status=Status.RUNNING, nearly=True))
    assert lonely.judicators.result("c2").retry


def test_an_upload_that_is_due_again_wakes_the_loop(lonely, monkeypatch):
    monkeypatch.setattr(uploads, "UPLOAD_REST", 0.3)
    lonely.judicators.blob_fault = UnavailableError("nobody answers")
    finish_with_output(lonely)
    wait_for(lambda: lonely.spooled() == ["c1.json"], what="a result in the spool")
    lonely.judicators.blob_fault = None
    lonely.judicators.result("c1")


def test_a_report_that_is_due_again_wakes_the_loop(lonely, monkeypatch):
    monkeypatch.setattr(reports, "BACKOFF_MAX", 0.1)
    finish_unheard(lonely, UnavailableError("nobody answers"))
    lonely.judicators.fault = None
    lonely.judicators.result("c1")


def test_a_slot_that_is_stuck_wakes_the_loop(lonely, monkeypatch):
    monkeypatch.setattr(slot_state, "SILENCE", -slot_state.longest_step(Job(assignment=assignment())) + 0.3)
    lonely.take(assignment(1))
    assert lonely.judicators.result("c1").retry


def test_a_full_disk_wakes_the_loop(make, monkeypatch, caplog):
    monkeypatch.setattr(loop, "TELL_MAX", 3600.0)
    monkeypatch.setattr(machine, "LOOK", 0.1)
    played = make(report_interval=3600.0, min_free_bytes=1).start()
    assert played.judicators.parked.wait(PATIENCE)
    real = os.statvfs
    full = os.statvfs_result([0] * 10)
    monkeypatch.setattr(os, "statvfs", lambda path: full if path == played.loop.parts.config.work_dir else real(path))
    wait_for(lambda: "no room under" in caplog.text, what="a word about the disk")


@pytest.fixture
def systemd(work, monkeypatch) -> Iterator[socket.socket]:
    """The socket at which systemd hears its services."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(work / "notify"))
        notified.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(work / "notify"))
        yield notified


def test_systemd_hears_a_sign_of_life_though_nothing_happens(lonely, systemd, monkeypatch):
    monkeypatch.setattr(loop, "TELL_MIN", 0.0)
    monkeypatch.setattr(loop, "TELL_MAX", 0.1)
    lonely.loop.parts.mailbox.wake()
    for _ in range(5):
        assert b"WATCHDOG=1" in systemd.recv(4096)


# --- slots -------------------------------------------------------------------------------------------------------


def works(played: Played, number: int = 9) -> None:
    """The slot's next life takes a task and judges it."""
    played.take(assignment(number))
    played.slot.say(Finished(claim=f"c{number}", completed=completed(number)))
    assert not played.judicators.result(f"c{number}").retry


def test_nonsense_from_a_slot_ends_it(played):
    played.take(assignment())
    played.slot.ours.sendall(struct.pack("!I", 3) + b"???")
    outcome = played.judicators.result("c1")
    assert outcome.retry
    assert "talks nonsense" in outcome.result.reason
    wait_for(lambda: played.slot.lives == 2, what="the slot's next life")
    works(played)


@pytest.mark.parametrize("reason", ["no cgroup", "it was killed by SIGKILL"])
def test_a_slot_that_ends_says_why(played, reason):
    played.take(assignment())
    if reason == "no cgroup":
        played.slot.say(Broken(reason=reason))
        played.slot.hang_up()
    else:
        os.kill(played.slot.process.pid, signal.SIGKILL)
    outcome = played.judicators.result("c1")
    assert (outcome.result.reason, outcome.penalty) == (f"slot 0 ended while judging: {reason}", True)
    wait_for(lambda: played.slot.lives == 2, what="the slot's next life")
    works(played)


def test_a_slot_that_does_not_come_up_is_killed(make, monkeypatch, caplog):
    monkeypatch.setattr(slot_state, "START_GRACE", 0.1)
    played = make()
    played.slot.mute = True
    played.start()
    wait_for(lambda: "slot 0 does not answer; it is killed" in caplog.text, what="a word about it")
    played.slot.mute = False
    monkeypatch.setattr(slot_state, "START_GRACE", PATIENCE)
    wait_for(lambda: played.judicators.report().vacant, what="a slot that works")
    works(played)


def test_a_cancelled_job_that_does_not_end_is_killed_with_its_slot(played):
    played.take(assignment())
    played.judicators.drop(assignment())
    assert isinstance(played.slot.next_message(), Cancel)
    wait_for(lambda: played.slot.lives == 2, what="the slot's next life")
    works(played)
    assert "c1" not in played.judicators.completed


def test_a_job_that_ends_without_a_result_is_given_back(played):
    played.take(assignment())
    played.slot.say(Finished(claim="c1"))
    outcome = played.judicators.result("c1")
    assert (outcome.retry, outcome.penalty) == (True, False)


def takes_no_more(played: Played) -> None:
    """Its disk is full, and it says so."""
    request = played.judicators.report()
    assert request.vacant == 0
    assert any("FAIL disk" in check for check in request.info.checks)


def test_no_space_in_a_slot_stops_taking(played):
    played.take(assignment())
    played.slot.say(Finished(claim="c1", completed=completed(), no_space=True))
    played.judicators.result("c1")
    takes_no_more(played)


def output_of(played: Played) -> Path:
    """The file with the output of the task that is judged."""
    output = played.outputs / "c1.out"
    output.write_bytes(b"x")
    return output


@pytest.mark.parametrize("end", ["completed", "an output only", "nothing"])
def test_the_output_of_a_cancelled_task_is_removed(played, end):
    """A slot keeps the output of each test at once, and may be cancelled during a later one."""
    played.take(assignment())
    output = output_of(played)
    played.judicators.drop(assignment())
    assert isinstance(played.slot.next_message(), Cancel)
    if end != "nothing":
        result = completed() if end == "completed" else None
        played.slot.say(Finished(claim="c1", completed=result, output=str(output)))
    wait_for(lambda: not output.exists(), what="a removed output")
    works(played)
    assert "c1" not in played.judicators.completed


def test_a_slot_that_reads_slowly_holds_nothing_up(played):
    """A job of many megabytes goes out as the slot takes it."""
    source = "x" * (8 << 20)
    played.judicators.assign(assignment(submission=Submission(command="true", source=source)))
    played.judicators.report(has("c1"))
    played.judicators.report(has("c1"))
    job = played.slot.next_message()
    assert isinstance(job, Job)
    assert job.assignment.submission.source == source
    played.slot.say(Finished(claim="c1", completed=completed()))
    assert not played.judicators.result("c1").retry


def test_a_slot_that_never_reads_its_job_is_killed(played, monkeypatch):
    monkeypatch.setattr(slots, "SEND_TIMEOUT", 0.2)
    played.judicators.assign(assignment(submission=Submission(command="true", source="x" * (8 << 20))))
    assert "SIGKILL" in played.judicators.result("c1").result.reason


# --- data that has to be fetched ---------------------------------------------------------------------------------


def test_a_language_that_is_not_here(played):
    played.judicators.assign(assignment(submission=Submission(language="cobol", source="x")))
    assert played.judicators.result("c1").result.reason == "language 'cobol' is not installed on e1"


@pytest.mark.parametrize(
    ("fault", "words", "penalty"),
    [
        (UnavailableError("no judicator answered"), "could not be fetched: no judicator answered", False),
        (None, "could not be fetched: there is no blob", True),
        (ZeroDivisionError("division by zero"), "division by zero", True),
    ],
)
def test_data_that_cannot_be_fetched(played, fault, words, penalty):
    played.judicators.blob_fault = fault
    played.judicators.assign(assignment(problem=ProblemRef(name="p", hash="a" * 64)))
    outcome = played.judicators.result("c1")
    assert words in outcome.result.reason
    assert (outcome.retry, outcome.penalty) == (True, penalty)


def test_data_for_which_there_is_no_room(played):
    played.judicators.blob_fault = OSError(errno.ENOSPC, "No space left on device")
    played.judicators.assign(assignment(problem=ProblemRef(name="p", hash="a" * 64)))
    assert played.judicators.result("c1").retry
    takes_no_more(played)


@pytest.mark.parametrize("fault", [None, UnavailableError("nobody answers")])
def test_data_of_a_task_that_is_dropped_meanwhile_is_let_go(played, work, fault):
    judicators = played.judicators
    judicators.blobs_may_go.clear()
    judicators.blob_fault = fault
    task = with_data(1, judicators.put(b"input"))
    judicators.assign(task)
    assert judicators.asked_for_blobs.wait(PATIENCE)
    judicators.drop(task)
    judicators.report(lambda request: not request.executing, "a report without it")
    judicators.blobs_may_go.set()
    wait_for(lambda: not played.loop.parts.blob_client._cache._pins, what="data that nobody keeps")
    works(played)
    assert "c1" not in judicators.completed


def test_data_is_kept_while_its_task_is_judged(played, work):
    played.take(with_data(1, played.judicators.put(b"input")))
    assert played.loop.parts.blob_client._cache._pins
    played.slot.say(Finished(claim="c1", completed=completed()))
    wait_for(lambda: not played.loop.parts.blob_client._cache._pins, what="data that nobody keeps")


# --- outputs that travel as blobs --------------------------------------------------------------------------------


def finish_with_output(played: Played) -> None:
    played.take(assignment())
    played.slot.say(Finished(claim="c1", completed=completed(), output=str(output_of(played)), seconds=0.1))


def test_uploads(played, monkeypatch):
    monkeypatch.setattr(uploads, "UPLOAD_REST", 0.05)
    judicators = played.judicators
    judicators.blob_fault = UnavailableError("nobody answers")
    finish_with_output(played)
    # Nobody took it: it is safe in the spool, and tried again later; meanwhile nobody else gets the task.
    wait_for(lambda: played.spooled() == ["c1.json"], what="a result in the spool")
    assert [executing.progress for executing in judicators.report(has("c1")).executing] == ["judged"]
    judicators.blob_fault = None
    blob = judicators.result("c1").result.stdout_blob
    assert judicators.blobs[blob] == b"x"
    wait_for(lambda: not played.spooled() and not list(played.outputs.iterdir()), what="nothing left")


@pytest.mark.parametrize("error", [TooLargeError("too large"), OSError("gone")])
def test_an_upload_that_is_refused(played, error):
    played.judicators.blob_fault = error
    finish_with_output(played)
    result = played.judicators.result("c1").result
    assert (result.reason, result.stdout_blob) == (f"the whole output could not be kept: {error}", None)


def earlier(work) -> Spooled:
    (work / "c1.out").write_bytes(b"x")
    return Spooled(completed=completed(), upload=str(work / "c1.out"))


def test_the_first_report_waits_for_the_spools_uploads(make, work):
    played = make(earlier(work))
    judicators = played.judicators
    judicators.blobs_may_go.clear()
    played.start()
    assert judicators.asked_for_blobs.wait(PATIENCE)
    assert judicators.requests == []
    judicators.blobs_may_go.set()
    judicators.result("c1")
    assert [completion.claim for completion in judicators.requests[0].complete] == ["c1"]


def test_the_first_report_does_not_wait_for_ever(make, work, monkeypatch):
    monkeypatch.setattr(reports, "FIRST_REPORT_WAIT", 0.1)
    played = make(earlier(work))
    played.judicators.blobs_may_go.clear()
    played.start()
    assert has("c1")(played.judicators.report())


# --- judicators that do not answer -------------------------------------------------------------------------------


def finish_unheard(played: Played, fault: Exception) -> None:
    """A result that is reported in vain."""
    played.take(assignment())
    played.judicators.fault = fault
    played.slot.say(Finished(claim="c1", completed=completed()))
    wait_for(lambda: any(request.complete for request in played.judicators.requests), what="a report of it")


def test_reports_back_off_and_spool(played, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(reports, "BACKOFF_MIN", 0.02)
    monkeypatch.setattr(reports, "BACKOFF_MAX", 0.1)
    finish_unheard(played, UnavailableError("nobody answers"))
    wait_for(lambda: played.spooled() == ["c1.json"], what="a result in the spool")
    times = []
    for _ in range(6):
        played.judicators.report()
        times.append(time.monotonic())
    assert times[-1] - times[-4] >= 3 * 0.1 * 0.7, "the pauses have grown"
    assert caplog.text.count("judging goes on, results are spooled") == 1
    played.judicators.fault = None
    played.judicators.result("c1")
    wait_for(lambda: not played.spooled(), what="an empty spool")
    assert "the judicators take reports again" in caplog.text


def test_a_full_spool_keeps_in_memory(make, caplog):
    played = make(spool_bytes=10).start()
    finish_unheard(played, UnavailableError("nobody answers"))
    wait_for(lambda: "the spool is full" in caplog.text, what="a word about it")
    played.judicators.fault = None
    played.judicators.result("c1")


def test_the_loop_never_waits_for_the_disk(played, monkeypatch):
    """Two syncs for every result that nobody takes: while they take their time reports go on."""
    syncing, synced = threading.Event(), threading.Event()

    def slow(_: int) -> None:
        syncing.set()
        synced.wait(PATIENCE)

    monkeypatch.setattr(os, "fsync", slow)
    try:
        finish_unheard(played, UnavailableError("nobody answers"))
        assert syncing.wait(PATIENCE)
        played.judicators.report(lambda request: request.complete)
        played.judicators.fault = None
        played.judicators.result("c1")
    finally:
        synced.set()
    wait_for(lambda: not list(played.spool.iterdir()), what="that a result that was settled meanwhile is removed")


def test_an_unforeseen_fault_of_a_report_is_survived(played, caplog):
    finish_unheard(played, ZeroDivisionError("division by zero"))
    wait_for(lambda: "a report failed in an unforeseen way" in caplog.text, what="a word about it")
    played.judicators.fault = None
    played.judicators.result("c1")


def test_one_stale_report_is_ignored_and_three_end_the_executor(played, monkeypatch):
    monkeypatch.setattr(reports, "BACKOFF_MIN", 0.01)
    played.judicators.faults.append(StaleError("older"))
    wait_for(lambda: not played.judicators.faults, what="a stale report")
    works(played)
    played.judicators.fault = StaleError("older")
    count = len(played.judicators.requests)
    assert played.ended() == EXIT_FAILED
    assert len(played.judicators.requests) - count >= reports.STALE_REPORTS - 1, "one was held since before"


def stopped_reports(played: Played) -> reports.Reports:
    """The sender of reports of an executor that has ended."""
    played.loop.stop()
    played.ended()
    return played.loop._reports


def test_a_report_that_a_later_one_overtook_delays_nothing(played):
    works(played)
    sender = stopped_reports(played)
    sender.unanswered(StaleError("older"), sender._answered - 1, 0.0)
    assert sender.failures == 0 and sender.connected
    sender.unanswered(StaleError("replaced"), sender._answered, 0.0)
    assert sender.failures == 1 and played.loop.dispatcher.exit_code == 0


def test_only_a_judicator_that_holds_no_reports_is_asked_less_often(played):
    """One that holds them answers early if a newer report has come; a task that comes then would wait for a second."""
    works(played)
    sender = stopped_reports(played)
    for back, pause in ((1, 0.0), (0, sender._parts.config.report_interval)):
        sequence = sender._table.sequence - back
        sender._sent = {sequence: (100.0, 1.0)}
        sender.answered(ReportReply(), sequence, 100.1)
        assert sender._hold_from == pytest.approx(100.1 + pause)


# --- faults of our own: the executor ends with one sentence, and is started again --------------------------------


def test_an_unforeseen_fault_while_looking_for_languages(make, config, monkeypatch, caplog):
    monkeypatch.setattr(main, "detect", lambda _: 1 / 0)
    played = make()
    main.find_languages(config, played.loop)
    assert played.start().ended() == EXIT_FAILED
    assert re.search(UNFORESEEN, caplog.text)


@pytest.mark.parametrize("work_of", ["uploading", "spooling"])
def test_an_unforeseen_fault_leaves_the_result_safe(played, monkeypatch, caplog, work_of):
    if work_of == "uploading":
        played.judicators.blob_fault = ZeroDivisionError("division by zero")
        finish_with_output(played)
    else:
        write, faults = Spool.write, iter([True])
        monkeypatch.setattr(Spool, "write", lambda spool, entry: 1 / 0 if next(faults, False) else write(spool, entry))
        finish_unheard(played, UnavailableError("nobody answers"))
    assert played.ended() == EXIT_FAILED
    assert re.search(UNFORESEEN, caplog.text)
    assert played.spooled() == ["c1.json"], "the result is safe"


# --- what systemd hears, and the end -----------------------------------------------------------------------------


def test_the_status_line(make, systemd):
    played = make(min_free_bytes=1 << 60)
    played.judicators.drain = True
    played.start()

    def wait_line(line: str) -> None:
        while line not in systemd.recv(4096).decode().splitlines():
            pass

    wait_line("READY=1")
    drained = "STATUS=judging 0 of 1 slots, drained, 0 tasks in hand, disk full"
    wait_line(drained)
    played.judicators.fault = UnavailableError("nobody answers")
    wait_line(f"{drained}, no judicator takes reports (0 results spooled)")
    wait_line("WATCHDOG=1")
    played.loop.stop()
    wait_line("STOPPING=1")
    assert played.ended() == 0


def test_stopping_gives_everything_back_within_its_grace(played, monkeypatch):
    monkeypatch.setattr(table, "NEARLY", PATIENCE)
    in_store(played)
    began = time.monotonic()
    played.loop.stop()
    assert isinstance(played.slot.next_message(), Cancel)
    assert played.ended() == 0
    assert time.monotonic() - began < 8
    outcomes = [played.judicators.completed[claim] for claim in ("c1", "c2")]
    assert all(outcome.retry for outcome in outcomes)
    assert [outcome.result.reason for outcome in outcomes] == [
        "slot 0 ended while judging: it was killed by SIGKILL",
        "the executor is stopping",
    ]
    assert played.spooled() == [], "what is only given back is not spooled"
