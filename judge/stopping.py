"""SIGTERM and SIGINT as an event that a daemon's main thread waits for."""

from __future__ import annotations

import _thread
import signal
import threading


def on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set from now on; without effect outside the main thread (tests).

    The handler runs in the main thread, which has the event's own lock for a moment in each wait. Setting the event
    there would then wait for that lock for ever, and the daemon with it; so another thread sets it.
    """
    stop = threading.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: _thread.start_new_thread(stop.set, ()))
    return stop
