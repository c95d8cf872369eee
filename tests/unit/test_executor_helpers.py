"""Main's side of shared tests: who is sent to help, and who is called back; slots are played over socket pairs."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.executor.channel import Cancel, Finished, Help, Helped, Job, MessageReader, Progress, Settings, send
from judge.executor.helpers import HelperScheduler
from judge.executor.slot.parallel.shared_queue import Sharing, clear
from judge.executor.slot_state import CANCEL_GRACE, SlotState, SlotStatus
from judge.executor.slots import Slots
from judge.model.messages import Assignment, Status, Submission

COUNT = 4


class Played:
    """Slots whose processes are the test."""

    def __init__(self, work: Path) -> None:
        clear(work / "sharing")
        self.sharing = Sharing(work / "sharing")
        self.slots = Slots(
            [Settings(index=index, core=None, executor="e", outputs=work, cgroup="judge") for index in range(COUNT)]
        )
        self.main_ends = []
        for slot in self.slots.slots:
            main_end, slot_end = socket.socketpair()
            self.main_ends.append(main_end)
            slot.sock, slot.reader, slot.status = slot_end, MessageReader(slot_end), SlotStatus(SlotState.IDLE)
        self.helpers = HelperScheduler(self.slots, self.sharing)

    def close(self) -> None:
        for main_end in self.main_ends:
            main_end.close()
        self.slots.close()
        self.sharing.close()

    def offer(self, claim: str, slot: int) -> None:
        """A slot judges this, and shares its tests."""
        self.slots.slots[slot].give(job(claim), 0.0)
        while not isinstance(self.message_to(slot), Job):
            pass  # messages from before
        self.sharing.queue(claim).mkdir()
        self.helpers.offered(claim)

    def arrange(self, waiting: int = 0) -> None:
        self.helpers.arrange(waiting, job, 0.0)

    def message_to(self, slot: int) -> Job | Help | Cancel | None:
        """What main sent to a slot, None when nothing."""
        self.main_ends[slot].settimeout(0)
        try:
            self.main_ends[slot].recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return None
        self.main_ends[slot].settimeout(30)
        return MessageReader(self.main_ends[slot]).for_slot()

    def say(self, slot: int, message: Helped | Finished | Progress) -> None:
        send(self.main_ends[slot], message)
        events, alive = self.slots.slots[slot].read(1.0)
        assert (events, alive) == ([message], True)
        if isinstance(message, Helped):
            self.helpers.helped(self.slots.slots[slot], message)


def job(claim: str) -> Job:
    return Job(assignment=Assignment(id="1" * 24, attempt=1, claim=claim, submission=Submission(command="true")))


@pytest.fixture
def played(work: Path) -> Iterator[Played]:
    with contextlib.closing(Played(work)) as played:
        yield played


def helped(played: Played) -> list[str | None]:
    return [slot.status.helps for slot in played.slots.slots]


def test_idle_slots_help_where_the_fewest_do(played):
    played.arrange()
    assert played.sharing.idle() == COUNT
    played.offer("c1", 0)
    played.arrange()
    assert helped(played) == [None, "c1", "c1", "c1"]
    order = played.message_to(1)
    assert isinstance(order, Help)
    assert (order.job.assignment.claim, order.directory) == ("c1", played.sharing.queue("c1"))
    assert played.sharing.idle() == 0
    assert (played.slots.working, played.slots.busy, played.slots.helping) == (COUNT, 1, 3)
    played.say(3, Helped(claim="c1", tests=2))
    played.offer("c2", 3)
    played.say(2, Helped(claim="c1", tests=2))
    played.arrange()
    assert helped(played) == [None, "c1", "c2", None]


def test_an_idle_helper_is_not_sent_again_but_a_recalled_one_is(played):
    played.offer("c1", 0)
    played.arrange()
    played.say(1, Helped(claim="c1"))
    played.say(2, Helped(claim="c1", recalled=True))
    played.arrange()
    assert helped(played) == [None, None, "c1", "c1"]


def test_tasks_come_first(played):
    played.offer("c1", 0)
    played.arrange(waiting=2)
    assert helped(played) == [None, None, None, "c1"], "two are kept for the tasks"
    played.arrange()
    assert helped(played) == [None, "c1", "c1", "c1"]
    for slot in (1, 2, 3):
        assert isinstance(played.message_to(slot), Help)
    played.arrange(waiting=2)
    played.arrange(waiting=2)
    assert [isinstance(played.message_to(slot), Cancel) for slot in (1, 2, 3)] == [True, True, False], (
        "two, and only once"
    )
    assert played.helpers.recalled == 2
    assert played.helpers.patience == CANCEL_GRACE
    # One that does not come back is stuck, as one that does not end a cancelled job is.
    assert [slot.index for slot in played.slots.stuck(CANCEL_GRACE + 0.1)] == [1, 2]
    for slot in (1, 2):
        played.say(slot, Helped(claim="c1", recalled=True))
    assert (played.helpers.recalled, played.helpers.patience) == (0, 0.0)
    assert played.slots.stuck(CANCEL_GRACE + 0.1) == []


def test_every_task_that_waits_has_a_slot_called_back_at_once(played):
    played.offer("c1", 0)
    played.arrange()
    for waiting in (1, 2, 3):
        played.arrange(waiting=waiting)
        assert played.helpers.recalled == waiting


def test_the_end_of_the_job_ends_the_help(played):
    played.offer("c1", 0)
    played.arrange()
    played.helpers.ended("c2", 0.0)
    assert played.helpers.recalled == 0
    played.helpers.ended("c1", 0.0)
    assert played.helpers.recalled == 3
    assert not played.sharing.queue("c1").exists(), "whoever died with it"
    for slot in (1, 2, 3):
        played.say(slot, Helped(claim="c1", recalled=True))
    played.arrange()
    assert helped(played) == [None] * COUNT


def test_a_sign_of_life_of_a_helper_counts(played):
    played.offer("c1", 0)
    played.arrange()
    slot = played.slots.slots[1]
    before = slot.status.deadline
    played.say(1, Progress(claim="c1", status=Status.RUNNING))
    assert slot.status.deadline > before
    slot.recall(1.0)
    played.say(1, Progress(claim="c1", status=Status.RUNNING))
    assert slot.status.deadline == 1.0 + CANCEL_GRACE, "but not of one that was called back"


def test_a_job_that_is_not_wanted_any_more_gets_no_help(played):
    played.offer("c1", 0)
    played.helpers.arrange(0, lambda _: None, 0.0)
    assert helped(played) == [None] * COUNT


def test_a_helper_that_dies_takes_no_job_with_it(played):
    played.offer("c1", 0)
    played.arrange()
    slot = played.slots.slots[1]
    played.main_ends[1].close()
    assert slot.read(1.0)[1] is False
    assert (slot.state, slot.status.claim, slot.status.helps) == (SlotState.DOWN, None, None)
    assert played.slots.slots[0].status.claim == "c1"


def test_without_a_directory_nobody_shares(played):
    nobody = HelperScheduler(played.slots, None)
    nobody.offered("c1")
    nobody.arrange(0, job, 0.0)
    nobody.ended("c1", 0.0)
    assert helped(played) == [None] * COUNT
