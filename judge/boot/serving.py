"""Checks that a service serves: a TCP connection, a page that answers 2xx, or its own word through sd_notify.

Seeds: `process.working`. The first two are asked from outside; a service without an address of its own (executor)
says READY=1 once and WATCHDOG=1 from its loop, as it does to systemd.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import ssl
import struct
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from judge.common import clock, endpoint

SILENCE = 30.0  # seconds without WATCHDOG=1 from a loop that reports every second or so
_MESSAGES = 1000  # that are taken in at a time
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


async def probe(target: str, seconds: float) -> str:
    """Ask `host:port` or a URL; empty when it serves, else why not. Never raises, never takes longer than `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            if target.startswith("http"):
                return await _page(target)
            _, writer = await asyncio.open_connection(*endpoint.split(target))
            writer.close()
            return ""
    except TimeoutError:
        return f"{target} did not answer within {seconds:g} s"
    except OSError as exc:
        return f"{target}: {os.strerror(exc.errno) if exc.errno else exc}"
    except (ValueError, EOFError, asyncio.LimitOverrunError):
        return f"{target} answered something else than HTTP"


async def _page(url: str) -> str:
    parts = urlsplit(url)
    context = None
    if parts.scheme == "https":
        # Only whether it answers matters here, nothing of it is believed or sent: a liveness check needs no identity.
        context = ssl._create_unverified_context()  # noqa: S323, SLF001
    port = parts.port or (443 if context else 80)
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context, limit=65536)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        fields = (await reader.readuntil(b"\n")).decode("latin-1").split(maxsplit=2)
    finally:
        writer.transport.abort()
    if len(fields) < 2 or not fields[0].startswith("HTTP/") or not fields[1].isdigit():
        return f"{url} answered something else than HTTP"
    return "" if fields[1].startswith("2") else f"{url} answered {fields[1]}"


@dataclass
class Word:
    """The last word of a process about itself. Times are monotonic seconds."""

    ready: bool = False
    status: str = ""
    heard: float | None = None


class NotifyListener:
    """Boot's end of NOTIFY_SOCKET: what each service says of itself, by its pid as the kernel vouches for it.

    The name is abstract and made from the run directory, so that it is free of length limits and the same after a
    restart of boot: adopted services keep talking to it.
    """

    def __init__(self, run_dir: Path) -> None:
        """Listen; OSError when somebody else has the name."""
        name = hashlib.sha256(str(run_dir.resolve()).encode()).hexdigest()[:24]
        self.address = f"@judge-boot-{name}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._socket.bind("\0" + self.address[1:])
        except OSError:
            self._socket.close()
            raise
        self._words: dict[int, Word] = {}

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def receive(self) -> bool:
        """Take in what was said, up to a limit; never waits. True when somebody is newly ready.

        Any process of this host may talk here, and one that does not stop must not keep boot from its services.
        """
        news = False
        with contextlib.suppress(BlockingIOError):
            for _ in range(_MESSAGES):
                # There is room for the credentials only, so descriptors that somebody sends along are dropped.
                data, extra, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(_CREDENTIALS.size))
                for level, kind, content in extra:
                    if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                        news |= self._hear(_CREDENTIALS.unpack(content)[0], data.decode(errors="replace"))
        return news

    def _hear(self, pid: int, text: str) -> bool:
        word = self._words.setdefault(pid, Word())
        before = word.ready
        for line in text.splitlines():
            key, _, value = line.partition("=")
            if key == "READY":
                word.ready = value == "1"
            elif key == "WATCHDOG":
                word.ready, word.heard = True, clock.monotonic()
            elif key == "STATUS":
                word.status = value[:200]
        return word.ready and not before

    def word(self, pid: int) -> Word:
        """The last word of this process; a blank one when it said nothing."""
        return self._words.get(pid, Word())

    def forget_others(self, pids: set[int | None]) -> None:
        """Keep only what living services said, as their children may talk here as well."""
        for pid in self._words.keys() - pids:
            del self._words[pid]

    def vouch(self, pid: int) -> None:
        """Take one that an earlier boot started for ready: it said so to that one. From now on its loop is watched."""
        self._words.setdefault(pid, Word(ready=True, heard=clock.monotonic()))

    def serving(self, pid: int) -> tuple[bool | None, str]:
        """(whether it serves by its own word, why not); None while it has not said READY=1 yet."""
        word = self.word(pid)
        if not word.ready:
            return None, ""
        if word.heard is not None and clock.monotonic() - word.heard > SILENCE:
            return False, f"its loop has made no progress for {SILENCE:g} s"
        return True, ""
