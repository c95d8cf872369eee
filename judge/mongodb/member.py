"""The MongoDB daemon: runs mongod, sees that it serves, and keeps it a member of the replica set (membership.py).

Seeds: `Mongodb` register and run (daemons.txt). The main thread owns the mongod process; the supervisor's thread checks
that it serves and makes the passes of its membership, on the primary one planner's step per pass.
"""

from __future__ import annotations

import logging
import threading

from prometheus_client import Gauge

from judge.common import clock
from judge.common.errors import EXIT_FAILED, JudgeError, RefusedError, UnavailableError
from judge.config import MongodbConfig
from judge.daemon import metrics
from judge.daemon.notify import notify
from judge.daemon.process import ChildProcess, find_binary
from judge.etcd.client import Etcd
from judge.mongodb import data, server
from judge.mongodb.membership import HELLO, Membership, Sentences, wait_for_place
from judge.mongodb.registry import Registry
from judge.mongodb.replica import Replica, credentials

log = logging.getLogger(__name__)

_PRIMARY = Gauge("judge_mongodb_primary", "1 while this member is the primary")
_OPLOG_SECONDS = Gauge("judge_mongodb_oplog_seconds", "Seconds of writes that the oplog of this member holds")
_OPLOG_FILLED = Gauge("judge_mongodb_oplog_filled_ratio", "Bytes in the oplog by the bytes at which old entries go")
_LAG = Gauge("judge_mongodb_lag_seconds", "Seconds by which this member is behind the newest write of any")
# Seconds between two looks at the oplog.
_OPLOG_LOOK = 10.0

_POLL = 0.1


class Supervisor:
    """Checks mongod and makes the passes of its membership, in a thread of its own (seed: `register`)."""

    def __init__(
        self, config: MongodbConfig, child: ChildProcess, replica: Replica, membership: Membership, sentences: Sentences
    ) -> None:
        self.error: JudgeError | None = None
        self._config = config
        self._child = child
        self._replica = replica
        self._membership = membership
        self._sentences = sentences
        self._stop = threading.Event()
        self._serving = False
        self._silent = 0
        self._due = self._oplog_due = clock.monotonic()
        self._thread = threading.Thread(target=self._guarded, name="supervisor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """End the loop and join the thread; False when its pass still waits for a server after `seconds`."""
        self._stop.set()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _guarded(self) -> None:
        try:
            while True:
                self._tick()
                if self._stop.wait(min(self._config.check.interval, self._config.reconcile_interval)):
                    return
        except JudgeError as exc:
            self.error = exc
        except Exception as exc:
            # Without this thread nobody would see a mongod that hangs, so its end is the daemon's.
            log.debug("supervisor", exc_info=True)
            self.error = JudgeError(f"internal error in the supervisor: {type(exc).__name__}: {exc}")

    def _tick(self) -> None:
        """One check (seed: `check`), and a pass when one is due; JudgeError once mongod has to be given up."""
        hello = self._replica.hello(HELLO)
        if hello is None:
            tries = self._config.check.tries
            self._silent += 1
            notify("WATCHDOG=1", f"STATUS=mongod does not serve, check {self._silent} of {tries}")
            if self._silent >= tries:
                self._child.kill()
                raise JudgeError(f"mongod did not serve on {self._config.address} in {tries} checks, killed it")
            return
        self._silent = 0
        if not self._serving:
            self._serving = True
            log.info("mongod serves on %s", self._config.address)
            notify("READY=1")
        if clock.monotonic() >= self._due:
            busy = self._pass(primary=bool(hello.get("isWritablePrimary")))
            self._due = clock.monotonic() + (0 if busy else self._config.reconcile_interval)
            if hello.get("isWritablePrimary") or hello.get("secondary"):
                self._measure_oplog()
        else:
            notify("WATCHDOG=1")

    def _pass(self, *, primary: bool) -> bool:
        """One pass of the membership; True when the next one should follow at once. RefusedError ends the daemon."""
        _PRIMARY.set(primary)
        try:
            return self._membership.step(primary=primary)
        except RefusedError:
            raise
        except UnavailableError as exc:
            self._sentences.say(f"looks again in the next pass: {exc}", logging.WARNING)
        except JudgeError as exc:
            self._sentences.say(f"this pass failed: {exc}", logging.ERROR)
        return False

    def _measure_oplog(self) -> None:
        """Set the metrics of the oplog, now and then."""
        if clock.monotonic() < self._oplog_due:
            return
        self._oplog_due = clock.monotonic() + _OPLOG_LOOK
        try:
            oplog, lag = self._replica.oplog(), self._replica.lag()
        except JudgeError as exc:
            log.info("the oplog was not measured: %s", exc)
            return
        _LAG.set(lag)
        _OPLOG_SECONDS.set(oplog.seconds)
        _OPLOG_FILLED.set(oplog.bytes / oplog.most_bytes)


def _supervise(config: MongodbConfig, etcd: Etcd, stop: threading.Event) -> int:
    """Everything from the checks before the start to mongod's end (seed: `run`)."""
    binary = find_binary(config.binary)
    server.check_version(binary)
    credentials(config)
    data_dir = data.prepare(config.data_dir)
    registry = Registry(etcd, config, data_dir.incarnation)
    wait_for_place(config, data_dir, registry, stop)
    if stop.is_set():
        return 0
    server.check_port(config)
    lines = server.LogLines()
    child = ChildProcess("mongodb", server.command(config, binary), parse=lines.parse)
    sentences = Sentences()
    replica = Replica(config)
    membership = Membership(config, data_dir, registry, replica, sentences)
    supervisor = Supervisor(config, child, replica, membership, sentences)
    supervisor.start()
    while child.poll() is None and supervisor.error is None and not stop.wait(_POLL):
        pass
    if supervisor.error is not None:
        child.stop(config.stop_grace)
    if child.poll() is None:
        notify("STOPPING=1")
        budget = clock.Deadline(config.stop_grace)
        if not supervisor.stop(budget.left() / 3):
            log.warning("a pass of the supervisor does not end, mongod is stopped without it")
        elif config.leave_on_stop:
            membership.leave(clock.Deadline(budget.left() / 2))
        membership.hand_over()
        replica.close()
        code = child.stop(max(1.0, budget.left()))
        log.info("mongod ended with exit code %d", code)
        return 0
    code = child.join()
    supervisor.stop(config.stop_grace)
    replica.close()
    refusal = supervisor.error or server.exit_error(config, code, lines)
    if refusal is not None:
        raise refusal
    log.error("mongod ended by itself with exit code %d: %s", code, lines.last_error or child.last_line)
    return EXIT_FAILED


def run(config: MongodbConfig, stop: threading.Event) -> int:
    """Run one replica-set member until `stop` is set, or until mongod ends; returns the exit code.

    0 after an orderly stop, 3 when a person has to act first (boot does not start it again), 1 otherwise. An ordinary
    stop keeps the registration, unlike the seed: it is the start of a restart, and a set that drops each member that
    restarts would copy its data anew every time. `leave_on_stop` withdraws it.
    """
    metrics.watch_disk(config.data_dir)
    metrics.serve(config.metrics, config.metrics_tls)
    with Etcd(config.etcd) as etcd:
        return _supervise(config, etcd, stop)
