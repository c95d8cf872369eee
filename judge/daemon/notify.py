"""Tell systemd what this daemon is doing (sd_notify(3)); does nothing when systemd did not start it."""

from __future__ import annotations

import contextlib
import os
import socket


def notify(*lines: str) -> None:
    """Send state lines such as `READY=1`, `WATCHDOG=1`, `STATUS=judging 2 of 2 slots`, `STOPPING=1`.

    Called by the loops themselves, never by a timer thread, so that a stuck loop is seen (docs/boot.md).
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with (
        contextlib.suppress(OSError),  # the listener may be restarting just now; a daemon must not die of that
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as sock,
    ):
        sock.connect(address)
        sock.sendall("\n".join(lines).encode())
