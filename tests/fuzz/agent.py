"""The protocol of slot and agent, from both sides: answers that no agent sends, and requests that no slot sends."""

import array
import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from judge.common.errors import SandboxError
from judge.sandbox import SandboxPool
from judge.sandbox.agent import Agent

# Between the packets of one conversation; a packet's first byte says how many descriptors come with it (up to 15).
PACKET = b"\n%%%%"
_FDS = 0x0F
_HEAD = struct.Struct("=IIIIQQQQ")
_PUT, _GET, _RUN, _KILL = 1, 2, 3, 4
# Seconds that an agent may take for one request; a program that it starts is told to end after a part of that.
_PATIENCE, _A_RUN = 10.0, 0.2


def packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The conversation in so many bytes: descriptors and content of each packet."""
    for part in data.split(PACKET)[:8]:
        yield (part[0] & _FDS if part else 0), part[1:]


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def answers(data: bytes) -> None:
    """What an agent could say: the slot takes it as an answer, or says that the sandbox ended."""
    main_end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with main_end, theirs:
        agent = Agent(main_end)
        for count, content in packets(data):
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()] * count))]
            if not content:
                continue  # an empty packet is the end of the conversation
            theirs.sendmsg([content], rights if count else [])
            before = _descriptors()
            try:
                answer = agent.receive(1.0)
            except SandboxError:
                answer = None
            if answer is not None and answer.fd is not None:
                os.close(answer.fd)
            assert _descriptors() <= before, "a descriptor stays open"


def requests(data: bytes) -> None:
    """What a slot could ask of a real agent (root): it answers, or ends and says why; it never hangs or crashes.

    After whatever was asked the next sandbox is made and serves.
    """
    with SandboxPool("fuzz", f"judge-fuzz-{os.getpid()}") as pool, pool.take() as sandbox:
        container = sandbox._container
        channel = container.agent.channel
        channel.settimeout(_PATIENCE)
        source = os.memfd_create("source")
        try:
            os.write(source, b"#!/bin/sh\nexit 0\n")
            for count, content in packets(data):
                if not content:
                    continue  # an empty packet is the end of the conversation
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [source] * count))]
                try:
                    channel.sendmsg([content], rights if count else [])
                    _listen(channel, content)
                except OSError:
                    # The agent ended because the bytes are no request, and its log says so.
                    reason = str(container.explained("it ended"))
                    assert reason.startswith("it ended: agent: "), reason
                    break
        finally:
            os.close(source)
        with pool.take() as fresh:
            fresh.put("ok", b"ok")


def _listen(channel: socket.socket, content: bytes) -> None:
    """The answers to one request; TimeoutError is the fault that is looked for."""
    kind = _HEAD.unpack(content[: _HEAD.size])[0] if len(content) >= _HEAD.size else 0
    if kind == _KILL:
        return
    if kind == _RUN:
        channel.settimeout(_A_RUN)
        with contextlib.suppress(TimeoutError):
            if not channel.recv(4096):
                raise BrokenPipeError
            kind = 0
        channel.settimeout(_PATIENCE)
        if kind == _RUN:
            channel.sendmsg([_HEAD.pack(_KILL, 0, 0, 0, 0, 0, 0, 0)])
            if not channel.recv(4096):
                raise BrokenPipeError
    try:
        if not channel.recv(4096):
            raise BrokenPipeError
    except TimeoutError:
        raise AssertionError("the agent hangs") from None
