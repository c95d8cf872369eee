"""The report loop's logic: single steps, and random lives against a model of the judicators."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from judge.executor import table as table_module
from judge.executor.channel import given_back
from judge.executor.table import NEARLY, TaskPhase, TaskTable
from judge.model.messages import Assignment, ClaimRef, Completed, ReportReply, Result, Status, Submission, Verdict
from tests.support.examples import at_least


def assignment(number: int, attempt: int = 1) -> Assignment:
    return Assignment(id=f"{number:024x}", attempt=attempt, claim=f"c{number}-{attempt}", submission=Submission())


def completed(one: Assignment, **fields: object) -> Completed:
    return Completed(
        id=one.id, attempt=one.attempt, claim=one.claim, status=Status.SUCCESS, verdict=Verdict.AC, **fields
    )


def ref(one: Assignment) -> ClaimRef:
    return ClaimRef(id=one.id, claim=one.claim)


def table() -> TaskTable:
    return TaskTable("e1", "inc")


def test_the_first_report_introduces_and_counts():
    one = table()
    first, second = one.request(2, None), one.request(0, None)
    assert (first.executor, first.incarnation, first.sequence, first.vacant) == ("e1", "inc", 1, 2)
    assert second.sequence == 2


@given(slots=st.integers(1, 8))
def test_the_largest_number_of_tasks_in_hand(slots):
    """Each of them may need data, so the executor has as many threads for fetching."""
    one, number = table(), 0
    while vacant := one.vacant(slots, 0.0):
        for _ in range(vacant):
            number += 1
            task = assignment(number)
            assert one.take(task)
            if number <= slots:
                one.prepared(task.claim, 0.0)
                one.started(task.claim, number - 1)
                one.nearly(task.claim, 0.0)
    assert len(one.tasks) == number == TaskTable.most(slots)


def test_life_of_a_task():
    one, task = table(), assignment(1)
    assert one.answered(ReportReply(add=[task])).start == [task]
    assert one.tasks[task.claim].phase is TaskPhase.PREPARING
    assert one.waiting() == []
    assert one.free(2) == 1
    assert [e.waiting for e in one.request(1, None).executing] == [True]
    assert one.prepared(task.claim, 1.0)
    assert one.waiting() == [task.claim]
    assert [e.waiting for e in one.request(1, None).executing] == [True]
    one.started(task.claim, 0)
    assert [e.waiting for e in one.request(1, None).executing] == [False]
    one.status(task.claim, Status.RUNNING, "3/10")
    sent = one.request(1, None)
    assert [(e.claim, e.status, e.progress) for e in sent.executing] == [(task.claim, Status.RUNNING, "3/10")]
    assert one.finished(completed(task))
    assert one.urgent
    assert one.free(2) == 2
    sent = one.request(2, None)
    assert [c.claim for c in sent.complete] == [task.claim]
    assert not sent.executing
    assert not one.urgent
    # No answer: it goes again, and is worth spooling.
    assert [p.completed.claim for p in one.unsafe()] == [task.claim]
    assert [c.claim for c in one.request(2, None).complete] == [task.claim]
    assert one.answered(ReportReply(settled=[ref(task)])).settled == [task.claim]
    assert not one.completions
    assert not one.request(2, None).complete


def test_an_answer_that_comes_twice_adds_once():
    one, task = table(), assignment(1)
    one.answered(ReportReply(add=[task]))
    assert one.answered(ReportReply(add=[task])).start == []
    one.finished(completed(task))
    assert one.answered(ReportReply(add=[task])).start == []


def test_drop_kills_what_runs_and_forgets_the_rest():
    one = table()
    waiting, running, done, unknown = (assignment(n) for n in range(4))
    one.answered(ReportReply(add=[waiting, running, done]))
    one.prepared(running.claim, 1.0)
    one.started(running.claim, 1)
    one.finished(completed(done))
    orders = one.answered(ReportReply(drop=[ref(t) for t in (waiting, running, done, unknown)]))
    assert orders.kill == [running.claim]
    assert orders.settled == [done.claim]
    assert set(one.tasks) == {running.claim}
    # Until it is dead it fills its slot, and is in no report.
    assert one.free(2) == 1
    assert not one.request(1, None).executing
    # Its result is worth nothing, whatever it was.
    assert not one.finished(completed(running))
    assert not one.completions
    assert not one.prepared(waiting.claim, 1.0)


def test_a_task_may_come_back_under_a_new_claim_while_the_old_one_dies():
    one, old = table(), assignment(1)
    one.answered(ReportReply(add=[old]))
    one.prepared(old.claim, 1.0)
    one.started(old.claim, 0)
    new = assignment(1, attempt=2)
    orders = one.answered(ReportReply(drop=[ref(old)], add=[new]))
    assert (orders.kill, orders.start) == ([old.claim], [new])
    assert [e.claim for e in one.request(0, None).executing] == [new.claim]


def test_asking_ahead_ends_by_itself():
    one, task = table(), assignment(1)
    one.answered(ReportReply(add=[task]))
    one.prepared(task.claim, 1.0)
    one.started(task.claim, 0)
    assert one.vacant(1, 10.0) == 0
    one.nearly(task.claim, 10.0)
    assert one.vacant(1, 10.0) == 1
    assert one.free(1) == 0
    assert one.vacant(1, 10.0 + NEARLY) == 0
    one.nearly(task.claim, 10.0)
    one.answered(ReportReply(add=[assignment(2)]))
    assert one.vacant(1, 10.0) == 0
    one.cancel(task.claim)
    one.nearly(task.claim, 10.0)
    assert one.vacant(2, 10.0) == 0
    one.nearly("unknown", 10.0)


def test_drained():
    one = table()
    one.answered(ReportReply(drain=True))
    assert one.vacant(2, 0.0) == one.free(2) == 0
    one.answered(ReportReply())
    assert one.vacant(2, 0.0) == 2


def test_a_host_that_rests_takes_no_more_whatever_the_judicators_say():
    one = table()
    one.resting = True
    one.answered(ReportReply(drain=False))
    assert (one.idle, one.free(2), one.vacant(2, 0.0), one.in_hand) == (True, 0, 0, 0)
    one.resting = False
    assert (one.idle, one.free(2)) == (False, 2)


def test_an_upload_holds_its_result_back():
    one, task = table(), assignment(1)
    one.answered(ReportReply(add=[task]))
    one.finished(completed(task), upload="/out")
    assert not one.urgent
    sent = one.request(1, None)
    assert not sent.complete
    assert [(e.claim, e.progress) for e in sent.executing] == [(task.claim, "judged")]
    assert one.free(1) == 1
    one.uploaded(task.claim, "a" * 64)
    assert one.urgent
    assert one.request(1, None).complete[0].result.stdout_blob == "a" * 64
    one.uploaded("unknown", None)


def test_a_refused_upload_says_so():
    one, task = table(), assignment(1)
    one.hold(completed(task, result=Result(reason="r")), upload="/out")
    one.uploaded(task.claim, None, "too large")
    assert one.completions[task.claim].completed.result.reason == "r; too large"
    one.hold(completed(task), upload="/out")
    one.uploaded(task.claim, None, "too large")
    assert one.completions[task.claim].completed.result.reason == "too large"


def test_reports_are_bounded(monkeypatch):
    monkeypatch.setattr(table_module, "REPORT_BYTES", 5000)
    one = table()
    for number in range(4):
        one.hold(completed(assignment(number), result=Result(reason="x" * 2000)))
    one.hold(completed(assignment(9), result=Result(reason="x" * 9000)))
    sent = one.request(0, None)
    assert len(sent.complete) == 2
    assert len(sent.executing) == 3
    assert one.urgent
    one.answered(ReportReply(settled=[ref(assignment(n)) for n in range(4)]))
    assert len(one.request(0, None).complete) == 1, "even a big one goes, alone"


def test_give_backs_are_not_spooled():
    one, task = table(), assignment(1)
    one.take(task)
    one.finished(given_back(task, "why", penalty=False))
    sent = one.request(0, None).complete[0]
    assert (sent.retry, sent.penalty, sent.status, sent.result.reason) == (True, False, Status.RETRYING, "why")
    assert one.unsafe() == []


def test_events_of_unknown_tasks_are_ignored():
    one = table()
    one.status("x", Status.RUNNING, "")
    assert one.cancel("x") is None
    assert not one.finished(completed(assignment(1)))


class Judicators:
    """The other side, as far as hand-outs go: who has which claim, what was committed."""

    def __init__(self) -> None:
        self.next = 0
        self.held: dict[str, Assignment] = {}
        self.committed: list[str] = []

    def report(self, request, cancel: bool) -> ReportReply:
        reply = ReportReply()
        if cancel and self.held:
            self.held.pop(min(self.held))
        for one in request.complete:
            reply.settled.append(ClaimRef(id=one.id, claim=one.claim))
            if one.claim in self.held:
                del self.held[one.claim]
                self.committed.append(one.claim)
        for one in request.executing:
            if one.claim not in self.held:
                reply.drop.append(ClaimRef(id=one.id, claim=one.claim))
        listed = {one.claim for one in request.executing}
        for claim in [claim for claim in self.held if claim not in listed]:
            del self.held[claim]
        for _ in range(request.vacant):
            task = assignment(self.next)
            self.next += 1
            self.held[task.claim] = task
            reply.add.append(task)
        return reply


STEPS = st.lists(st.sampled_from(["report", "lost request", "lost answer", "cancel", "work", "finish"]), max_size=60)


@settings(max_examples=at_least(200))
@given(STEPS, st.integers(1, 3))
def test_nothing_is_committed_twice_and_everything_ends(steps, slots):
    one, other = table(), Judicators()

    def report(step: str) -> None:
        request = one.request(one.vacant(slots, 0.0), None)
        assert len(request.executing) + request.vacant <= slots + len(one.completions)
        if step == "lost request":
            return
        reply = other.report(request, step == "cancel")
        if step != "lost answer":
            for claim in one.answered(reply).kill:
                assert not one.finished(completed(one.tasks[claim].assignment))

    def work() -> None:
        for claim in list(one.tasks):
            one.prepared(claim, 1.0)
        busy = sum(entry.phase is TaskPhase.RUNNING for entry in one.tasks.values())
        for claim in one.waiting()[: slots - busy]:
            one.started(claim, 0)

    def finish() -> None:
        for entry in [entry for entry in one.tasks.values() if entry.phase is TaskPhase.RUNNING][:1]:
            one.finished(completed(entry.assignment))

    for step in steps:
        if step == "work":
            work()
        elif step == "finish":
            finish()
        else:
            report(step)
    # Everything in hand comes to its end when the network is whole again.
    one.drained = True
    for _ in range(5):
        work()
        for _ in range(slots):
            finish()
        one.drained = True
        request = one.request(0, None)
        one.answered(other.report(request, cancel=False))
        one.drained = True
    assert not one.tasks
    assert not one.completions
    assert not other.held
    assert len(other.committed) == len(set(other.committed))
