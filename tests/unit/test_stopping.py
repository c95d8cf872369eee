"""A daemon hears of its end whatever its main thread does at that moment."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, signal
from judge.stopping import on_signals
stop = on_signals()
with stop._cond:  # as in every wait, for a moment
    os.kill(os.getpid(), signal.{name})
    for _ in range(1000):  # the handler runs in between
        pass
assert stop.wait(10)
"""


def test_a_signal_in_the_middle_of_a_wait_is_heard() -> None:
    for name in ("SIGTERM", "SIGINT"):
        subprocess.run([sys.executable, "-c", PROGRAM.format(name=name)], check=True, timeout=30)
