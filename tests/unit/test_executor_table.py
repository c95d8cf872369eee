"""The report loop's logic: single steps, and random lives against a model of the judicators."""

from hypothesis import given, settings
from hypothesis import strategies as st

from judge.executor import table as table_module
from judge.executor.channel import given_back
from judge.executor.table import NEARLY, TaskPhase, TaskTable
from judge.model.messages import Assignment, ClaimRef, Completed, ReportReply, Result, Status, Submission, Verdict
from tests.support.examples import at_least


def assignment(number: int, attempt: int = 1) -> Assignment:
    return Assignment(id=f"{number:024x}", attempt=attempt, claim=f"c{number}-{attempt}", submission=Submission())


def completed(task: Assignment, **fields: object) -> Completed:
    return Completed(
        id=task.id, attempt=task.attempt, claim=task.claim, status=Status.SUCCESS, verdict=Verdict.AC, **fields
    )


def ref(task: Assignment) -> ClaimRef:
    return ClaimRef(id=task.id, claim=task.claim)


def table() -> TaskTable:
    return TaskTable("e1", "inc")


def test_the_first_report_introduces_and_counts():
    tasks = table()
    first, second = tasks.request(2, None), tasks.request(0, None)
    assert (first.executor, first.incarnation, first.sequence, first.vacant) == ("e1", "inc", 1, 2)
    assert second.sequence == 2


@given(slots=st.integers(1, 8))
def test_the_largest_number_of_tasks_in_hand(slots):
    """Each of them may need data, so the executor has as many threads for fetching."""
    tasks, number = table(), 0
    while vacant := tasks.vacant(slots, 0.0):
        for _ in range(vacant):
            number += 1
            task = assignment(number)
            assert tasks.take(task)
            if number <= slots:
                tasks.prepared(task.claim, 0.0)
                tasks.started(task.claim, number - 1)
                tasks.nearly(task.claim, 0.0)
    assert len(tasks.tasks) == number == TaskTable.most(slots)


def test_life_of_a_task():
    tasks, task = table(), assignment(1)
    assert tasks.answered(ReportReply(add=[task])).start == [task]
    assert tasks.tasks[task.claim].phase is TaskPhase.PREPARING
    assert tasks.waiting() == []
    assert tasks.free(2) == 1
    assert [e.waiting for e in tasks.request(1, None).executing] == [True]
    assert tasks.prepared(task.claim, 1.0)
    assert tasks.waiting() == [task.claim]
    assert [e.waiting for e in tasks.request(1, None).executing] == [True]
    tasks.started(task.claim, 0)
    assert [e.waiting for e in tasks.request(1, None).executing] == [False]
    tasks.status(task.claim, Status.RUNNING, "3/10")
    request = tasks.request(1, None)
    assert [(e.claim, e.status, e.progress) for e in request.executing] == [(task.claim, Status.RUNNING, "3/10")]
    assert tasks.finished(completed(task))
    assert tasks.urgent
    assert tasks.free(2) == 2
    request = tasks.request(2, None)
    assert [c.claim for c in request.complete] == [task.claim]
    assert not request.executing
    assert not tasks.urgent
    # No answer: it goes again, and is worth spooling.
    assert [p.completed.claim for p in tasks.unsafe()] == [task.claim]
    assert [c.claim for c in tasks.request(2, None).complete] == [task.claim]
    assert tasks.answered(ReportReply(settled=[ref(task)])).settled == [task.claim]
    assert not tasks.completions
    assert not tasks.request(2, None).complete


def test_an_answer_that_comes_twice_adds_once():
    tasks, task = table(), assignment(1)
    tasks.answered(ReportReply(add=[task]))
    assert tasks.answered(ReportReply(add=[task])).start == []
    tasks.finished(completed(task))
    assert tasks.answered(ReportReply(add=[task])).start == []


def test_drop_kills_running_tasks_and_forgets_the_others():
    tasks = table()
    waiting, running, finished, unknown = (assignment(n) for n in range(4))
    tasks.answered(ReportReply(add=[waiting, running, finished]))
    tasks.prepared(running.claim, 1.0)
    tasks.started(running.claim, 1)
    tasks.finished(completed(finished))
    orders = tasks.answered(ReportReply(drop=[ref(t) for t in (waiting, running, finished, unknown)]))
    assert orders.kill == [running.claim]
    assert orders.settled == [finished.claim]
    assert set(tasks.tasks) == {running.claim}
    # Until it is dead it fills its slot, and is in no report.
    assert tasks.free(2) == 1
    assert not tasks.request(1, None).executing
    # Its result is worth nothing, whatever it was.
    assert not tasks.finished(completed(running))
    assert not tasks.completions
    assert not tasks.prepared(waiting.claim, 1.0)


def test_a_task_may_come_back_under_a_new_claim_while_the_old_one_dies():
    tasks, old = table(), assignment(1)
    tasks.answered(ReportReply(add=[old]))
    tasks.prepared(old.claim, 1.0)
    tasks.started(old.claim, 0)
    new = assignment(1, attempt=2)
    orders = tasks.answered(ReportReply(drop=[ref(old)], add=[new]))
    assert (orders.kill, orders.start) == ([old.claim], [new])
    assert [e.claim for e in tasks.request(0, None).executing] == [new.claim]


def test_asking_ahead_ends_by_itself():
    tasks, task = table(), assignment(1)
    tasks.answered(ReportReply(add=[task]))
    tasks.prepared(task.claim, 1.0)
    tasks.started(task.claim, 0)
    assert tasks.vacant(1, 10.0) == 0
    tasks.nearly(task.claim, 10.0)
    assert tasks.vacant(1, 10.0) == 1
    assert tasks.free(1) == 0
    assert tasks.vacant(1, 10.0 + NEARLY) == 0
    tasks.nearly(task.claim, 10.0)
    tasks.answered(ReportReply(add=[assignment(2)]))
    assert tasks.vacant(1, 10.0) == 0
    tasks.cancel(task.claim)
    tasks.nearly(task.claim, 10.0)
    assert tasks.vacant(2, 10.0) == 0
    tasks.nearly("unknown", 10.0)


def test_a_drained_executor_asks_for_nothing():
    tasks = table()
    tasks.answered(ReportReply(drain=True))
    assert tasks.vacant(2, 0.0) == tasks.free(2) == 0
    tasks.answered(ReportReply())
    assert tasks.vacant(2, 0.0) == 2


def test_a_resting_host_takes_no_tasks():
    tasks = table()
    tasks.resting = True
    tasks.answered(ReportReply(drain=False))
    assert (tasks.idle, tasks.free(2), tasks.vacant(2, 0.0), tasks.in_hand) == (True, 0, 0, 0)
    tasks.resting = False
    assert (tasks.idle, tasks.free(2)) == (False, 2)


def test_an_upload_holds_its_result_back():
    tasks, task = table(), assignment(1)
    tasks.answered(ReportReply(add=[task]))
    tasks.finished(completed(task), upload="/out")
    assert not tasks.urgent
    request = tasks.request(1, None)
    assert not request.complete
    assert [(e.claim, e.progress) for e in request.executing] == [(task.claim, "judged")]
    assert tasks.free(1) == 1
    tasks.uploaded(task.claim, "a" * 64)
    assert tasks.urgent
    assert tasks.request(1, None).complete[0].result.stdout_blob == "a" * 64
    tasks.uploaded("unknown", None)


def test_a_refused_upload_says_so():
    tasks, task = table(), assignment(1)
    tasks.hold(completed(task, result=Result(reason="r")), upload="/out")
    tasks.uploaded(task.claim, None, "too large")
    assert tasks.completions[task.claim].completed.result.reason == "r; too large"
    tasks.hold(completed(task), upload="/out")
    tasks.uploaded(task.claim, None, "too large")
    assert tasks.completions[task.claim].completed.result.reason == "too large"


def test_reports_are_bounded(monkeypatch):
    monkeypatch.setattr(table_module, "REPORT_BYTES", 5000)
    tasks = table()
    for number in range(4):
        tasks.hold(completed(assignment(number), result=Result(reason="x" * 2000)))
    tasks.hold(completed(assignment(9), result=Result(reason="x" * 9000)))
    request = tasks.request(0, None)
    assert len(request.complete) == 2
    assert len(request.executing) == 3
    assert tasks.urgent
    tasks.answered(ReportReply(settled=[ref(assignment(n)) for n in range(4)]))
    assert len(tasks.request(0, None).complete) == 1, "even a big one goes, alone"


def test_give_backs_are_not_spooled():
    tasks, task = table(), assignment(1)
    tasks.take(task)
    tasks.finished(given_back(task, "why", penalty=False))
    answer = tasks.request(0, None).complete[0]
    assert (answer.retry, answer.penalty, answer.status, answer.result.reason) == (True, False, Status.RETRYING, "why")
    assert tasks.unsafe() == []


def test_events_of_unknown_tasks_are_ignored():
    tasks = table()
    tasks.status("x", Status.RUNNING, "")
    assert tasks.cancel("x") is None
    assert not tasks.finished(completed(assignment(1)))


class Judicators:
    """The other side, as far as hand-outs go: who has which claim, what was committed."""

    def __init__(self) -> None:
        self.next = 0
        self.claims: dict[str, Assignment] = {}
        self.committed: list[str] = []

    def report(self, request, cancel: bool) -> ReportReply:
        reply = ReportReply()
        if cancel and self.claims:
            self.claims.pop(min(self.claims))
        for entry in request.complete:
            reply.settled.append(ClaimRef(id=entry.id, claim=entry.claim))
            if entry.claim in self.claims:
                del self.claims[entry.claim]
                self.committed.append(entry.claim)
        for entry in request.executing:
            if entry.claim not in self.claims:
                reply.drop.append(ClaimRef(id=entry.id, claim=entry.claim))
        listed = {entry.claim for entry in request.executing}
        for claim in [claim for claim in self.claims if claim not in listed]:
            del self.claims[claim]
        for _ in range(request.vacant):
            task = assignment(self.next)
            self.next += 1
            self.claims[task.claim] = task
            reply.add.append(task)
        return reply


STEPS = st.lists(st.sampled_from(["report", "lost request", "lost answer", "cancel", "work", "finish"]), max_size=60)


@settings(max_examples=at_least(200))
@given(STEPS, st.integers(1, 3))
def test_nothing_is_committed_twice_and_everything_ends(steps, slots):
    tasks, judicators = table(), Judicators()

    def report(step: str) -> None:
        request = tasks.request(tasks.vacant(slots, 0.0), None)
        assert len(request.executing) + request.vacant <= slots + len(tasks.completions)
        if step == "lost request":
            return
        reply = judicators.report(request, step == "cancel")
        if step != "lost answer":
            for claim in tasks.answered(reply).kill:
                assert not tasks.finished(completed(tasks.tasks[claim].assignment))

    def work() -> None:
        for claim in list(tasks.tasks):
            tasks.prepared(claim, 1.0)
        busy = sum(entry.phase is TaskPhase.RUNNING for entry in tasks.tasks.values())
        for claim in tasks.waiting()[: slots - busy]:
            tasks.started(claim, 0)

    def finish() -> None:
        for entry in [entry for entry in tasks.tasks.values() if entry.phase is TaskPhase.RUNNING][:1]:
            tasks.finished(completed(entry.assignment))

    for step in steps:
        if step == "work":
            work()
        elif step == "finish":
            finish()
        else:
            report(step)
    # Everything in hand comes to its end when the network is whole again.
    tasks.drained = True
    for _ in range(5):
        work()
        for _ in range(slots):
            finish()
        tasks.drained = True
        request = tasks.request(0, None)
        tasks.answered(judicators.report(request, cancel=False))
        tasks.drained = True
    assert not tasks.tasks
    assert not tasks.completions
    assert not judicators.claims
    assert len(judicators.committed) == len(set(judicators.committed))
