"""The slot's side of the packets that agent.c answers."""

from __future__ import annotations

import array
import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from judge.common.errors import SandboxError, UnfitError
from judge.sandbox.types import Command

BINARY = Path(__file__).with_name("agent")
MAX_PACKET = 160 * 1024 - 1
MAX_STRINGS = 8192

PUT, GET, RUN, KILL = 1, 2, 3, 4
READY, STORED, FETCHED, EXITED = 1, 2, 3, 4
WRITABLE, INTO_CGROUP, OUTPUT_FILE, KEEP_SCRATCH, FIXED_STACK = 1, 2, 4, 8, 16
IN_SCRATCH = 0o1000
# Of one run: 3 for its standard streams, one for its cgroup, the rest for named pipes.
MAX_FDS = 72
SAW_SIGSYS = 1

_REQUEST = struct.Struct("=IIIIIIQQQQ")
_ANSWER = struct.Struct("=IIii24sQQQQ")


@dataclass(frozen=True)
class Answer:
    """One packet of the agent. `error` is an errno, `stage` what it was doing; `status` as of waitpid.

    `box` are the bytes in /box after a writable run.
    """

    kind: int
    flags: int
    status: int
    error: int
    stage: str
    wall: float
    maxrss: int
    cpu: float
    box: int
    fd: int | None = None


@dataclass(frozen=True)
class Rlimits:
    """Per-process limits of a run: CPU seconds, bytes of a file, bytes of stack, open files.

    A program may raise those of CPU time and stack, unless its limits name a stack: the slot and the cgroup limit them.
    """

    cpu: int
    fsize: int
    stack: int
    nofile: int


class Agent:
    """Requests to one container. Every call raises SandboxError when the container is gone."""

    def __init__(self, channel: socket.socket) -> None:
        """`channel`: this side of the SOCK_SEQPACKET pair."""
        self.channel = channel

    def put(self, name: str, fd: int, mode: int) -> None:
        """Copy the file behind `fd` to /box/<name>; with IN_SCRATCH in the mode to /scratch. The answer is STORED."""
        self._send(_request(PUT, mode), encoded([name]), [fd])

    def get(self, name: str) -> None:
        """Ask for /box/<name>; the answer is FETCHED with a descriptor."""
        self._send(_request(GET), encoded([name]), [])

    def run(self, command: Command, body: bytes, rlimits: Rlimits, outputs: Sequence[int], cgroup: int | None) -> None:
        """Start a program; the answers are EXITED, then READY for the next request.

        `body` are the words of the command (`encoded_command`), `outputs` are [stdin,] stdout and stderr. EXITED has a
        descriptor of the command's `output` file, if there is one, or of `/scratch` (`keep_scratch`). `cgroup` is the
        directory of the cgroup to start in, where the agent knows none.
        """
        flags = (WRITABLE if command.writable else 0) | (KEEP_SCRATCH if command.keep_scratch else 0)
        flags |= FIXED_STACK if command.limits.stack is not None else 0
        fds = [*outputs, *command.pipes]
        if cgroup is not None:
            fds.append(cgroup)
            flags |= INTO_CGROUP
        if command.output is not None:
            flags |= OUTPUT_FILE
        head = _request(RUN, flags, len(command.argv), len(command.env), len(command.pipes), rlimits)
        self._send(head, body, fds)

    def kill(self) -> None:
        """End the run; the answer is its EXITED."""
        self._send(_request(KILL), b"", [])

    def receive(self, timeout: float) -> Answer | None:
        """The next packet, or None when none comes within `timeout` seconds."""
        self.channel.settimeout(timeout)
        try:
            data, ancillary, _, _ = self.channel.recvmsg(_ANSWER.size, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
        except TimeoutError:
            return None
        except OSError as exc:
            raise _agent_ended() from exc
        fds = array.array("i")
        for level, type_, payload in ancillary:
            if level == socket.SOL_SOCKET and type_ == socket.SCM_RIGHTS:
                fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
        if len(data) != _ANSWER.size or len(fds) > 1:
            for fd in fds:
                os.close(fd)
            raise _agent_ended()
        kind, flags, status, error, stage, wall, maxrss, cpu, box = _ANSWER.unpack(data)
        text = stage.rstrip(b"\0").decode("utf-8", "replace")
        descriptor = fds[0] if fds else None
        return Answer(kind, flags, status, error, text, wall / 1e9, maxrss, cpu / 1e6, box, descriptor)

    def _send(self, head: bytes, strings: bytes, fds: Sequence[int]) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.channel.sendmsg([head, strings], rights)
        except OSError as exc:
            raise _agent_ended() from exc


def encoded_command(command: Command) -> bytes:
    """The words of a command as they travel to the agent: directory, arguments, environment, name of its output file.

    UnfitError when they are too many or too long.
    """
    texts = [command.cwd, *command.argv, *(f"{key}={value}" for key, value in command.env.items())]
    if command.output is not None:
        texts.append(command.output)
    return encoded(texts)


def encoded(texts: Sequence[str]) -> bytes:
    """Texts, each ended by NUL; UnfitError when they do not fit into a packet, or are no text."""
    try:
        strings = b"".join(os.fsencode(text) + b"\0" for text in texts)
    except UnicodeEncodeError as exc:
        raise UnfitError(f"an argument of the command is no Unicode text: {exc.reason}") from exc
    largest = MAX_PACKET - _REQUEST.size
    if len(strings) > largest or len(texts) > MAX_STRINGS:
        raise UnfitError(
            f"the command has {len(texts)} words of {len(strings)} bytes together, with the names of files among them; "
            f"a sandbox takes {MAX_STRINGS} words of {largest} bytes; use fewer files, or shorter names"
        )
    return strings


def _request(
    kind: int, flags: int = 0, argc: int = 0, envc: int = 0, pipes: int = 0, limits: Rlimits | None = None
) -> bytes:
    numbers = (limits.cpu, limits.fsize, limits.stack, limits.nofile) if limits else (0, 0, 0, 0)
    return _REQUEST.pack(kind, flags, argc, envc, pipes, 0, *numbers)


def _agent_ended() -> SandboxError:
    return SandboxError("the sandbox ended by itself")
