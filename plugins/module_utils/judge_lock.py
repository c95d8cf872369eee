"""One change of a host at a time: a run of Ansible that was killed leaves its module working on the host."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

# A deployment's notes on a host; gone after a restart of the host, which does what is noted as due. They are root's
# own: nobody else can open the lock in there, and so hold it.
RECORDS = Path("/run/judge-deploy")
PATIENCE = 600.0  # seconds; the longest change is an installation of all packages
UMASK = 0o022  # of the modules that change a host, and of the commands that they run
_POLL = 0.2


class LockedError(Exception):
    """Another run does not let go of the host; the text is one sentence for the person who runs the playbook."""


@contextmanager
def one_at_a_time(directory: Path = RECORDS, patience: float = PATIENCE, name: str = "lock") -> Iterator[None]:
    """Wait for the module that an earlier run left behind, which ends as its work does; LockedError when it does not.

    `patience` is in seconds; `name` is that of the lock, the one around changes of the host unless another is given.
    Files and directories that are made under it, by commands too, can be read by services: a hardened host's umask of
    027 or 077 is not for them. What is secret has a mode of its own.
    """
    os.umask(UMASK)
    if os.geteuid() != 0:  # nothing of the host can be changed
        yield
        return
    until = time.monotonic() + patience
    while True:
        directory.mkdir(mode=0o755, exist_ok=True)
        path = directory / name
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+") as lock:
            _wait(lock, path, until, patience)
            # A reset removes the directory while others wait; then another file is the lock.
            if not _is(lock, path):
                continue
            lock.truncate()
            lock.write(str(os.getpid()))
            lock.flush()
            yield
            return


def _is(lock: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _wait(lock: IO[str], path: Path, until: float, patience: float) -> None:
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                holder = lock.read().strip() or "unknown"
                raise LockedError(
                    f"another run has been changing this host for {patience:g} s (process {holder} holds {path}); "
                    "wait until it ends, or end it, then run the playbook again"
                ) from None
            time.sleep(_POLL)
        else:
            return
