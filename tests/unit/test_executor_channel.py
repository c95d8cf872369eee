"""Messages between main and slots: framing, and that a cancellation stays visible."""

import select
import socket
import struct

import pytest

from judge.common.errors import SandboxError
from judge.executor.channel import (
    Broken,
    Cancel,
    Data,
    Finished,
    Job,
    MessageReader,
    Progress,
    Ready,
    limits_of,
    send,
)
from judge.model.messages import Assignment, Limits, LimitsOverride, Status, Submission
from judge.model.problem import ProblemManifest


@pytest.fixture
def pair():
    main_end, slot_end = socket.socketpair()
    with main_end, slot_end:
        yield main_end, slot_end


def job(**submission) -> Job:
    handed_in = Submission.model_validate(submission)
    return Job(assignment=Assignment(id="1" * 24, attempt=1, claim="c", submission=handed_in))


def test_messages_to_a_slot(pair):
    main_end, slot_end = pair
    reader = MessageReader(slot_end)
    send(main_end, job(command="x" * 4000))
    send(main_end, Cancel(claim="c"))
    assert reader.for_slot() == job(command="x" * 4000)
    # The slot gives this descriptor to the sandbox: what follows the job must still be in the socket.
    assert select.select([slot_end], [], [], 0)[0]
    assert reader.for_slot() == Cancel(claim="c")
    main_end.close()
    assert reader.for_slot() is None


def test_the_end_of_main_inside_a_message(pair):
    main_end, slot_end = pair
    main_end.sendall(struct.pack("!I", 100) + b"{")
    main_end.close()
    assert MessageReader(slot_end).for_slot() is None


def test_messages_to_main(pair):
    main_end, slot_end = pair
    reader = MessageReader(main_end)
    assert reader.for_main() == ([], True)
    send(slot_end, Ready())
    send(slot_end, Progress(claim="c", status=Status.RUNNING, progress="1/2", nearly=True))
    slot_end.sendall(struct.pack("!I", 40))
    events, alive = reader.for_main()
    assert [event.kind for event in events] == ["ready", "progress"]
    assert alive
    slot_end.sendall(Broken(reason="x" * 6).model_dump_json().encode().ljust(40))
    send(slot_end, Finished(claim="c"))
    slot_end.close()
    events, alive = reader.for_main()
    assert [event.kind for event in events] == ["broken", "finished"]
    assert not alive


def test_nonsense_is_refused(pair):
    main_end, slot_end = pair
    slot_end.sendall(struct.pack("!I", 1 << 31))
    with pytest.raises(SandboxError, match="the limit is"):
        MessageReader(main_end).for_main()
    slot_end.sendall(struct.pack("!I", 2) + b"{}")
    with pytest.raises(ValueError, match="kind"):
        MessageReader(main_end).for_main()
    main_end.sendall(struct.pack("!I", 1 << 31))
    with pytest.raises(SandboxError):
        MessageReader(slot_end).for_slot()


def test_limits_of_a_job():
    assert limits_of(job()) == Limits()
    wished = job(limits=LimitsOverride(cpu=1, output=5))
    assert limits_of(wished) == Limits(cpu=1, output=5)
    wished.data = Data(manifest=ProblemManifest(name="p", tests=[], limits=Limits(cpu=7)), files={})
    assert limits_of(wished).cpu == 7
