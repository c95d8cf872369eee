"""Messages between main and slots: framing, and that a cancellation stays visible."""

from __future__ import annotations

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
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def job(**submission) -> Job:
    given = Submission.model_validate(submission)
    return Job(assignment=Assignment(id="1" * 24, attempt=1, claim="c", submission=given))


def test_to_a_slot(pair):
    ours, theirs = pair
    reader = MessageReader(theirs)
    send(ours, job(command="x" * 4000))
    send(ours, Cancel(claim="c"))
    assert reader.for_slot() == job(command="x" * 4000)
    # The slot gives this descriptor to the sandbox: what follows the job must still be in the socket.
    assert select.select([theirs], [], [], 0)[0]
    assert reader.for_slot() == Cancel(claim="c")
    ours.close()
    assert reader.for_slot() is None


def test_the_end_of_main_inside_a_message(pair):
    ours, theirs = pair
    ours.sendall(struct.pack("!I", 100) + b"{")
    ours.close()
    assert MessageReader(theirs).for_slot() is None


def test_to_main(pair):
    ours, theirs = pair
    reader = MessageReader(ours)
    assert reader.for_main() == ([], True)
    send(theirs, Ready())
    send(theirs, Progress(claim="c", status=Status.RUNNING, progress="1/2", nearly=True))
    theirs.sendall(struct.pack("!I", 40))
    events, alive = reader.for_main()
    assert [event.kind for event in events] == ["ready", "progress"]
    assert alive
    theirs.sendall(Broken(reason="x" * 6).model_dump_json().encode().ljust(40))
    send(theirs, Finished(claim="c"))
    theirs.close()
    events, alive = reader.for_main()
    assert [event.kind for event in events] == ["broken", "finished"]
    assert not alive


def test_nonsense_is_refused(pair):
    ours, theirs = pair
    theirs.sendall(struct.pack("!I", 1 << 31))
    with pytest.raises(SandboxError, match="the limit is"):
        MessageReader(ours).for_main()
    theirs.sendall(struct.pack("!I", 2) + b"{}")
    with pytest.raises(ValueError, match="kind"):
        MessageReader(ours).for_main()
    ours.sendall(struct.pack("!I", 1 << 31))
    with pytest.raises(SandboxError):
        MessageReader(theirs).for_slot()


def test_limits():
    assert limits_of(job()) == Limits()
    wished = job(limits=LimitsOverride(cpu=1, output=5))
    assert limits_of(wished) == Limits(cpu=1, output=5)
    wished.data = Data(manifest=ProblemManifest(name="p", tests=[], limits=Limits(cpu=7)), files={})
    assert limits_of(wished).cpu == 7
