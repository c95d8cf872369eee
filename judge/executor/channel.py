"""Connects the executor's main process and a slot: length-prefixed JSON over a socket pair.

Main sends a Job or a Help to an idle slot, and to a busy one nothing but Cancel: so the slot hands its end to the
sandbox as the descriptor that becomes readable on cancellation, and the end of main looks the same.
"""

from __future__ import annotations

import select
import socket
import struct
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from judge.common.errors import SandboxError
from judge.model.messages import Assignment, Completed, Limits, Message, Result, Status
from judge.model.problem import ProblemManifest

_LENGTH = struct.Struct("!I")
_MIB = 1024**2
# A submission travels whole (16 MiB by default at the gateway), and its inline tests with it.
MAX_FRAME = 256 * _MIB
# The Kattis format's limits for compilation; the wall limit ends compilers that wait for ever. Main waits as long for a
# slot, which keeps them.
COMPILE_LIMITS = Limits(cpu=60, wall=90, memory=2048 * _MIB, output=64 * _MIB, processes=256, files=1024)


class Settings(Message):
    """The settings that a slot process gets at its start.

    `outputs` is where it puts outputs too big for a result, `builds` where the slots keep built validators, `run_lock`
    where they take turns, `sharing` where they share tests; sandboxes are made on the cores `makers`, without slots.
    """

    index: int
    core: int | None
    memory: int | None = None
    makers: list[int] = Field(default_factory=list)
    executor: str
    outputs: Path
    builds: Path | None = None
    run_lock: Path | None = None
    sharing: Path | None = None
    cgroup: str
    languages: Path | None = None
    weak: bool = False
    log_level: str = "info"
    log_format: str = "text"


class Data(Message):
    """A problem as a slot needs it: the manifest, and for every blob named in it a verified, pinned local file."""

    manifest: ProblemManifest
    files: dict[str, str]


class Job(Message):
    kind: Literal["job"] = "job"
    assignment: Assignment
    data: Data | None = None
    blobs: dict[str, str] = Field(default_factory=dict, description="files of the blobs that inline tests name")
    language_version: str = ""


class Help(Message):
    """Run tests of this job, which another slot judges, as long as there are any; `directory` is their queue."""

    kind: Literal["help"] = "help"
    job: Job
    directory: Path


class Cancel(Message):
    """Stop judging this claim, or helping with it, and forget it; ignored when it is finished already."""

    kind: Literal["cancel"] = "cancel"
    claim: str


class Ready(Message):
    """The slot can take jobs: its sandbox works."""

    kind: Literal["ready"] = "ready"


class Progress(Message):
    """The progress of a job; `nearly`: the slot expects to be free within moments."""

    kind: Literal["progress"] = "progress"
    claim: str
    status: Status
    progress: str = ""
    nearly: bool = False
    share: bool = Field(default=False, description="other slots can run tests of this job: see shared_queue.py")


class Finished(Message):
    """A job came to its end. `completed` is None when it was cancelled.

    `output` is the file of a whole output that is too big to travel inside the result. `seconds` is the time the slot
    needed, `overhead` what the sandbox took beside the programs it ran, `runs` how often it ran one. `no_space`: the
    attempt failed because the work directory is full, `broken`: because a sandbox failed.
    """

    kind: Literal["finished"] = "finished"
    claim: str
    completed: Completed | None = None
    output: str | None = None
    seconds: float = 0.0
    overhead: float = 0.0
    runs: int = 0
    no_space: bool = False
    broken: bool = False


class Helped(Message):
    """A slot has run `tests` tests for another and stopped: none was left, it was called back, or it could not.

    `broken`: its sandbox failed.
    """

    kind: Literal["helped"] = "helped"
    claim: str
    tests: int = 0
    recalled: bool = False
    broken: bool = False


class Broken(Message):
    """The sandbox failed; the slot ends after this and its job was not judged."""

    kind: Literal["broken"] = "broken"
    reason: str


ToSlot = Annotated[Job | Help | Cancel, Field(discriminator="kind")]
ToMain = Annotated[Ready | Progress | Finished | Helped | Broken, Field(discriminator="kind")]
_TO_SLOT: TypeAdapter[Job | Help | Cancel] = TypeAdapter(ToSlot)
_TO_MAIN: TypeAdapter[Ready | Progress | Finished | Helped | Broken] = TypeAdapter(ToMain)


def limits_of(job: Job) -> Limits:
    """The limits of one run before the language's own additions: the problem's, else the submitter's wishes."""
    if job.data is not None:
        return job.data.manifest.limits
    wishes = job.assignment.submission.limits.model_dump(exclude_none=True)
    return Limits(**wishes)


def frame(message: Message) -> bytes:
    data = message.model_dump_json().encode()
    return _LENGTH.pack(len(data)) + data


def send(sock: socket.socket, message: Message) -> None:
    """Write one message whole, waiting for the other side to read; OSError when it is gone."""
    sock.sendall(frame(message))


class MessageReader:
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = bytearray()

    def _length(self, header: bytes | bytearray) -> int:
        (length,) = _LENGTH.unpack_from(header)
        if length > MAX_FRAME:
            raise SandboxError(f"a message of {length} bytes came over a slot's channel, the limit is {MAX_FRAME}")
        return int(length)

    def _frame(self) -> bytes | None:
        if len(self._buffer) < _LENGTH.size:
            return None
        end = _LENGTH.size + self._length(self._buffer)
        if len(self._buffer) < end:
            return None
        frame = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        return frame

    def _exactly(self, count: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < count:
            part = self._sock.recv(min(count - len(parts), 1 << 20))
            if not part:
                return None
            parts += part
        return bytes(parts)

    def soon(self, seconds: float) -> bool:
        """The slot's side: whether main says something within so many seconds."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def for_slot(self) -> Job | Help | Cancel | None:
        """The slot's side: the next message, waiting for it; None when main is gone.

        Never reads beyond one message: what follows a job is its cancellation, and must stay visible on the descriptor.
        """
        header = self._exactly(_LENGTH.size)
        frame = self._exactly(self._length(header)) if header is not None else None
        return _TO_SLOT.validate_json(frame) if frame is not None else None

    def for_main(self) -> tuple[list[Ready | Progress | Finished | Helped | Broken], bool]:
        """Main's side: all messages that have arrived, without waiting, and whether the slot is still there."""
        alive = True
        while True:
            try:
                part = self._sock.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except ConnectionResetError:
                alive = False
                break
            if not part:
                alive = False
                break
            self._buffer += part
        messages = []
        while (frame := self._frame()) is not None:
            messages.append(_TO_MAIN.validate_json(frame))
        return messages, alive


def given_back(assignment: Assignment, reason: str, *, penalty: bool = True) -> Completed:
    """A completion that asks for the attempt to be made again, somewhere.

    `penalty` False: the attempt was nobody's fault and does not count against the task's cap.
    """
    return Completed(
        id=assignment.id,
        attempt=assignment.attempt,
        claim=assignment.claim,
        status=Status.RETRYING,
        result=Result(reason=reason),
        retry=True,
        penalty=penalty,
    )
