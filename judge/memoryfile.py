"""Files in memory, without a name: one way to make them, on every host.

A host may forbid those that can be executed (`vm.memfd_noexec=2`), or change what is asked for (1): then whoever gets
a descriptor may seal the file, and a program that seals its own output would keep the judge from cutting it.
"""

from __future__ import annotations

import errno
import fcntl
import os

ALL_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
_NOEXEC_SEAL = 0x8  # MFD_NOEXEC_SEAL, since Linux 6.3


def create(name: str, *, seals: bool = False) -> int:
    """A descriptor of an empty memory file that nobody can execute, where the kernel can say so, closed on exec.

    `seals`: the caller will (with ALL_SEALS); else nobody can. Raises OSError.
    """
    try:
        fd = os.memfd_create(name, os.MFD_CLOEXEC | _NOEXEC_SEAL)
    except OSError as exc:
        if exc.errno != errno.EINVAL:
            raise
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    if not seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
    return fd
