"""The slot's side of the packets that agent.c answers."""

from __future__ import annotations

import array
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judge.errors import SandboxError

BINARY = Path(__file__).with_name("agent")
MAX_PACKET = 160 * 1024 - 1
MAX_STRINGS = 8192

PUT, GET, RUN, KILL = 1, 2, 3, 4
READY, STORED, FETCHED, EXITED = 1, 2, 3, 4
WRITABLE, INTO_CGROUP = 1, 2
SAW_SIGSYS = 1

_REQUEST = struct.Struct("=IIIIQQQQ")
_ANSWER = struct.Struct("=IIii24sQQQ")


@dataclass(frozen=True)
class Answer:
    """One packet of the agent. `error` is an errno, `stage` what it was doing; `status` as of waitpid."""

    kind: int
    flags: int
    status: int
    error: int
    stage: str
    wall: float
    maxrss: int
    cpu: float
    fd: int | None = None


@dataclass(frozen=True)
class Rlimits:
    """Per-process limits of a run: CPU seconds, bytes of a file, bytes of stack, open files."""

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
        """Copy the file behind `fd` to /box/<name>; the answer is STORED."""
        self._send(_REQUEST.pack(PUT, mode, 0, 0, 0, 0, 0, 0), [name], [fd])

    def get(self, name: str) -> None:
        """Ask for /box/<name>; the answer is FETCHED with a descriptor."""
        self._send(_REQUEST.pack(GET, 0, 0, 0, 0, 0, 0, 0), [name], [])

    def run(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str, rlimits: Rlimits, fds: Sequence[int], flags: int
    ) -> None:
        """Start a program on [stdin,] stdout and stderr; the answers are EXITED, then READY for the next request.

        With INTO_CGROUP the last descriptor is the directory of the cgroup to start in.
        """
        head = _REQUEST.pack(
            RUN, flags, len(argv), len(env),
            rlimits.cpu, rlimits.fsize, rlimits.stack, rlimits.nofile,
        )  # fmt: skip
        self._send(head, [cwd, *argv, *(f"{key}={value}" for key, value in env.items())], fds)

    def kill(self) -> None:
        """End the run; the answer is its EXITED."""
        self._send(_REQUEST.pack(KILL, 0, 0, 0, 0, 0, 0, 0), [], [])

    def receive(self, timeout: float) -> Answer | None:
        """The next packet, or None when none comes within `timeout` seconds."""
        self.channel.settimeout(timeout)
        try:
            data, ancillary, _, _ = self.channel.recvmsg(_ANSWER.size, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
        except TimeoutError:
            return None
        except OSError as exc:
            raise _gone() from exc
        fds = array.array("i")
        for level, type_, payload in ancillary:
            if level == socket.SOL_SOCKET and type_ == socket.SCM_RIGHTS:
                fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
        if len(data) != _ANSWER.size or len(fds) > 1:
            for fd in fds:
                os.close(fd)
            raise _gone()
        kind, flags, status, error, stage, wall, maxrss, cpu = _ANSWER.unpack(data)
        text = stage.rstrip(b"\0").decode("utf-8", "replace")
        return Answer(kind, flags, status, error, text, wall / 1e9, maxrss, cpu / 1e6, fds[0] if fds else None)

    def _send(self, head: bytes, strings: Sequence[str], fds: Sequence[int]) -> None:
        packet = head + b"".join(os.fsencode(text) + b"\0" for text in strings)
        if len(packet) > MAX_PACKET or len(strings) > MAX_STRINGS:
            msg = f"arguments and environment of {len(packet)} bytes are too long for a sandbox (limit {MAX_PACKET})"
            raise SandboxError(msg)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.channel.sendmsg([packet], rights)
        except OSError as exc:
            raise _gone() from exc


def _gone() -> SandboxError:
    return SandboxError("the sandbox ended by itself")
