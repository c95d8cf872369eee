"""The one way to start a daemon, to tell it to stop, and to end; kinds.py says which there are.

A daemon is a module with `run(config, stop) -> exit code`. It does its work until the event `stop` is set, and raises a
JudgeError when it cannot. It serves its metrics itself (`metrics.serve`): after what it may refuse, so that a second
instance says what is wrong and not that a port is taken, and after its last fork, as metrics have a thread.

Two do not come by here: boot, which lets a second signal kill what the first one stops (judge/boot/main.py), and `judge
backup`, which ends by itself and logs as its timer's unit wants it (judge/backup/__main__.py).
"""

from __future__ import annotations

import _thread
import contextlib
import importlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from judge.common.errors import JudgeError
from judge.common.kinds import KINDS
from judge.config import MODELS, Daemon, Tls, load
from judge.config.reading import Override
from judge.daemon import log as logs
from judge.daemon import metrics
from judge.daemon.heap import keep_loaded
from judge.daemon.notify import notify

D = TypeVar("D", bound=Daemon)

ALIVE_FD = "JUDGE_ALIVE_FD"  # the environment variable in which boot passes the descriptor of its alive lock

log = logging.getLogger(__name__)


def start(kind: str, path: Path) -> int:
    """Run the daemon of this kind and config file until it ends; returns the exit code. Raises ConfigError.

    Called by `judge KIND`.
    """
    config = begin(MODELS[kind], path)
    logs.catch()
    return run(config)


def begin(model: type[D], path: Path, overrides: Sequence[Override] = ()) -> D:
    """Read a daemon's config, and log as it says from now on. Raises ConfigError."""
    keep_private()
    config = load(model, path, overrides)
    logs.setup(config.log_level, journal="JOURNAL_STREAM" in os.environ, form=config.log_format)
    return config


def run(config: Daemon) -> int:
    """Run this config's daemon until SIGTERM or SIGINT, or until it ends by itself; returns the exit code."""
    program = next(kind.program for name, kind in KINDS.items() if MODELS[name] is type(config))
    main: Callable[[Daemon, threading.Event], int] = importlib.import_module(program).run
    metrics.watch_certificates(certificates(config))
    stop = on_signals()
    keep_loaded()
    return ended(lambda: main(config, stop))


def certificates(config: Daemon) -> list[Path]:
    """The certificates of a daemon's config: its own, and whom it trusts."""
    pairs = [getattr(config, name, None) for name in ("tls", "peer_tls")]
    return list(dict.fromkeys(path for tls in pairs if isinstance(tls, Tls) for path in (tls.ca, tls.cert)))


def ended(work: Callable[[], int]) -> int:
    """The exit code of `work`; what it refuses is the last line of the log, and in `systemctl status`."""
    try:
        return work()
    except JudgeError as exc:
        log.error("%s", exc)  # noqa: TRY400 - one sentence for a person; a traceback would hide it
        notify(f"STATUS={exc}")
        return exc.exit_code


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


def keep_private() -> None:
    """Keep this service's alive lock from the programs it runs (etcd, mongod, uWSGI, submissions).

    Called first in every daemon, so that the lock lives exactly as long as the daemon.
    """
    with contextlib.suppress(KeyError, ValueError, OSError):
        os.set_inheritable(int(os.environ.pop(ALIVE_FD)), False)
