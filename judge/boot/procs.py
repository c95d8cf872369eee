"""Processes by identity: a pid alone is never signalled, since it may be another's by now (docs/boot.md).

Every process that boot starts has two marks in its environment, which its children inherit: JUDGE_INCARNATION, new
for each start, and JUDGE_SERVICE, the run directory and the service's name. A signal goes through a pidfd that was
opened first and checked against these marks afterwards, so that it can only reach the process that was looked at.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterable, Mapping

from judge.common import clock, procfs

INCARNATION = "JUDGE_INCARNATION"
SERVICE = "JUDGE_SERVICE"
Match = Callable[[int], bool]

_SESSION_FIELD = 3  # of procfs.stat
_EXEC = 0.005  # seconds


def session(pid: int) -> int | None:
    """The process's session id; None when there is no such process."""
    return procfs.number(pid, _SESSION_FIELD)


def environment(pid: int) -> Mapping[str, str]:
    """The environment that a process began with; empty when it is gone, a zombie, or another user's."""
    pairs = (item.partition(b"=") for item in (procfs.read(pid, "environ") or b"").split(b"\0") if b"=" in item)
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, _, value in pairs}


def command_of(pid: int) -> str:
    name = procfs.read(pid, "comm")
    return "gone" if name is None else name.decode(errors="replace").strip()


class Handle:
    """One process held by a pidfd: signals through it can never reach a later owner of the same pid."""

    def __init__(self, pid: int) -> None:
        """Open it; ProcessLookupError when there is none."""
        self.pid = pid
        self.fd = os.pidfd_open(pid)

    @property
    def alive(self) -> bool:
        """Return whether it has not ended yet (a zombie has ended)."""
        poller = select.poll()
        poller.register(self.fd, select.POLLIN)
        return not poller.poll(0)

    def send(self, sig: signal.Signals) -> bool:
        """Signal it; False when it has ended already."""
        try:
            signal.pidfd_send_signal(self.fd, sig)
        except ProcessLookupError:
            return False
        return True

    def close(self) -> None:
        """Give the descriptor back; safe to call twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def open_verified(pid: int, match: Match) -> Handle | None:
    """A handle on the process if it is alive and `match(pid)` holds for it, else None."""
    if pid <= 1 or pid == os.getpid():
        return None
    try:
        handle = Handle(pid)
    except OSError:
        return None
    # The order matters: if it is alive after its marks were read, then they were this process's marks.
    if match(pid) and handle.alive:
        return handle
    handle.close()
    return None


def matching(match: Match, pids: Iterable[int]) -> list[Handle]:
    """Handles on those of these processes that `match` holds for; the caller closes them."""
    return [handle for pid in pids if (handle := open_verified(pid, match)) is not None]


class Marked:
    """Holds for processes whose environment has `key=value`; `blank` collects those that show none at the moment."""

    def __init__(self, key: str, value: str) -> None:
        self._key = key
        self._value = value
        self.blank: list[int] = []

    def __call__(self, pid: int) -> bool:
        variables = environment(pid)
        if not variables and procfs.has_program(pid):
            self.blank.append(pid)
        return variables.get(self._key) == self._value


def find_marked(key: str, value: str) -> list[Handle]:
    """Handles on every process that carries the mark; the caller closes them."""
    match = Marked(key, value)
    result = matching(match, procfs.pids())
    if match.blank:
        # A process shows no environment for an instant while it becomes another program: look at those again.
        clock.sleep(_EXEC)
        result += matching(match, list(match.blank))
    return result


def kill_marked(key: str, value: str) -> list[int]:
    """SIGKILL every process that carries the mark; returns their pids. Called after an end, before a start."""
    return _kill(find_marked(key, value))


def kill_session(main: Handle) -> None:
    """SIGKILL the session that `main` leads, then `main` itself; nothing when it has ended.

    Members are looked up while `main` is alive, since its session id cannot be another's until then.
    """
    members = matching(lambda pid: pid != main.pid and session(pid) == main.pid, procfs.pids())
    if main.alive:
        _kill(members)
        main.send(signal.SIGKILL)
    else:
        for handle in members:
            handle.close()


def _kill(handles: list[Handle]) -> list[int]:
    killed = []
    for handle in handles:
        with contextlib.suppress(PermissionError):
            if handle.send(signal.SIGKILL):
                killed.append(handle.pid)
        handle.close()
    return killed
