"""Kills this process at a named place, for tests of interrupted steps; does nothing unless JUDGE_FAILPOINT is set."""

from __future__ import annotations

import os
import signal

VARIABLE = "JUDGE_FAILPOINT"


def hit(name: str) -> None:
    """End this process with SIGKILL, as a power cut would, when the environment names this failpoint."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
