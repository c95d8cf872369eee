"""The MongoDB daemon: runs mongod, makes it a member of the replica set exactly once, and keeps it one.

Seeds: `Mongodb` register and run (daemons.txt), `MongoDB daemon` (judicator.txt). The main thread owns the mongod
process; the register thread checks that it serves, registers it in etcd and, on the primary, reconciles the
replica set with the registered members, one planner's step per pass.
"""

from __future__ import annotations

import logging
import os
import threading

from prometheus_client import Counter, Gauge

from judge import clock, metrics
from judge import log as logs
from judge.config import MongodbConfig
from judge.errors import EXIT_FAILED, JudgeError, RefusedError, UnavailableError
from judge.etcd.client import Etcd
from judge.failpoint import hit
from judge.mongodb import data, server
from judge.mongodb.data import DataDir
from judge.mongodb.planner import Kind, Step, plan
from judge.mongodb.registry import INIT, RSID, Registry
from judge.mongodb.replica import Replica, blocking_entry, credentials
from judge.mongodb.server import packaged_binary
from judge.notify import notify
from judge.process import ChildProcess
from judge.stopping import on_signals

__all__ = ["packaged_binary", "run"]

log = logging.getLogger(__name__)

_PRIMARY = Gauge("judge_mongodb_primary", "1 while this member is the primary")
_MEMBERS = Gauge("judge_mongodb_members", "members of the replica set, as the primary sees them")
_VOTERS = Gauge("judge_mongodb_voters", "voting members of the replica set, as the primary sees them")
_STEPS = Counter("judge_mongodb_steps_total", "membership steps carried out by this member", ["kind"])

_HELLO = 2.0
_BARRED = 10
_POLL = 0.1
_FOREIGN = "data_dir {path} belongs to replica set {local}, this cluster's is {recorded}; name an empty directory"


class _Sentences:
    """Logs what a loop decides, once per change, and shows it in `systemctl status`."""

    def __init__(self) -> None:
        self._last = ""

    def say(self, text: str, level: int = logging.INFO) -> None:
        if text != self._last:
            self._last = text
            log.log(level, "%s", text)
        notify("WATCHDOG=1", f"STATUS={text}")


class Register:
    """The register thread (seed: `register`)."""

    def __init__(self, config: MongodbConfig, found: DataDir, registry: Registry, child: ChildProcess) -> None:
        """Nothing happens before `start`."""
        self.error: JudgeError | None = None
        self._config = config
        self._data = found
        self._registry = registry
        self._child = child
        self._replica = Replica(config)
        self._stop = threading.Event()
        self._sentences = _Sentences()
        self._serving = False
        self._silent = 0
        self._due = clock.monotonic()
        self._registered = False
        self._settled = False
        self._thread = threading.Thread(target=self._guarded, name="register", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """End the loop and join the thread; False when its pass still waits for a server after `seconds`.

        The connections stay open for the orderly end.
        """
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
            log.debug("register thread", exc_info=True)
            self.error = JudgeError(f"internal error in the register thread: {type(exc).__name__}: {exc}")

    def _tick(self) -> None:
        """One check (seed: `check`), and a pass when one is due; JudgeError once mongod has to be given up."""
        hello = self._replica.hello(_HELLO)
        if hello is None:
            tries = self._config.check.tries
            self._silent += 1
            notify("WATCHDOG=1", f"STATUS=mongod does not serve, check {self._silent} of {tries}")
            if self._silent >= tries:
                self._child.kill()
                msg = f"mongod did not serve on {self._config.address} in {tries} checks, killed it"
                raise JudgeError(msg)
            return
        self._silent = 0
        if not self._serving:
            self._serving = True
            log.info("mongod serves on %s", self._config.address)
            notify("READY=1")
        if clock.monotonic() >= self._due:
            busy = self._pass(primary=bool(hello.get("isWritablePrimary")))
            self._due = clock.monotonic() + (0 if busy else self._config.reconcile_interval)
        else:
            notify("WATCHDOG=1")

    def _pass(self, *, primary: bool) -> bool:
        """One pass; True when something was changed and the next one should follow at once."""
        _PRIMARY.set(primary)
        self._settled = self._settled and primary
        try:
            if self._registered:
                return self._keep(primary=primary)
            self._registered = self._join()
        except RefusedError:
            raise
        except UnavailableError as exc:
            self._sentences.say(f"looks again in the next pass: {exc}", logging.WARNING)
            return False
        except JudgeError as exc:
            self._sentences.say(f"this pass failed: {exc}", logging.ERROR)
            return False
        return self._registered

    def _join(self) -> bool:
        """From a serving mongod to a registered member; True once registered. RefusedError when it must not be one."""
        # In this order: once I belong to a set, its id has been recorded.
        local, recorded = self._replica.rsid(), self._registry.rsid()
        self._refuse_foreign(local, recorded)
        if recorded is None:
            return self._create(local)
        self._registry.register()
        self._sentences.say(f"registered as '{self._config.name}' at {self._config.address}")
        return True

    def _create(self, local: str | None) -> bool:
        """No replica set is recorded yet: make it when that is my part, else wait; True once made and registered."""
        claim = self._registry.claim() if local else self._registry.claim_init()
        if self._registry.is_mine(claim):
            hit("mongodb.claimed")
            return self._initiate(local)
        if local is not None:
            msg = (
                f"data_dir {self._data.path} belongs to replica set {local}, which this cluster's etcd does not "
                f"know; name an empty directory, or, if etcd has lost it, put {local} under {RSID}"
            )
            raise RefusedError(msg)
        if self._registry.was_mine(claim):
            msg = (
                f"data_dir {self._data.path} was emptied while '{self._config.name}' was making the replica set; "
                f"if no member has data yet, delete etcd key {INIT} and start again"
            )
            raise RefusedError(msg)
        who = claim.name if claim else "somebody"
        self._sentences.say(f"waits until '{who}' has made the replica set, as etcd key {INIT} says")
        return False

    def _refuse_foreign(self, local: str | None, recorded: str | None) -> None:
        """The data must be of the recorded replica set, or of none and made by this daemon."""
        path = self._data.path
        if local is not None and recorded is not None and local != recorded:
            raise RefusedError(_FOREIGN.format(path=path, local=local, recorded=recorded))
        if local is None and (not self._data.marked or self._data.rsid is not None):
            msg = f"data_dir {path} holds data of no replica set, which joining would delete; name an empty directory"
            raise RefusedError(msg)
        address, incarnation = self._replica.only_member() or ("", "")
        if incarnation == self._data.incarnation and address != self._config.address:
            msg = f"data_dir {path} is the only member's, at {address}; set 'address' back from {self._config.address}"
            raise RefusedError(msg)

    def _initiate(self, local: str | None) -> bool:
        """The seed's part: make the set, register, record its id; each pass goes on where a killed one ended."""
        if local is None:
            self._sentences.say(f"initiates replica set '{self._config.replica_set}'")
            self._replica.initiate(self._data.incarnation)
            hit("mongodb.initiated")
            local = self._replica.rsid()
        if local is None or not self._replica.wait_primary():
            self._sentences.say("waits to become the primary of the new replica set")
            return False
        self._registry.register()
        hit("mongodb.registered")
        recorded = self._registry.record_rsid(local)
        hit("mongodb.recorded")
        self._refuse_foreign(local, recorded)
        self._sentences.say(f"made replica set {local} and registered as '{self._config.name}'")
        return True

    def _keep(self, *, primary: bool) -> bool:
        """A registered member's pass: remember the replica set; on the primary, one step of the planner."""
        local, recorded = self._replica.rsid(), self._registry.rsid()
        if recorded is None:
            self._registry.register()
            self._sentences.say(
                "no membership change: etcd no longer knows the replica set; "
                f"when all members are registered, put {local} under {RSID}",
                logging.ERROR,
            )
            return False
        if local is None:
            self._sentences.say("waits until the primary has added this member")
            return False
        if local != recorded:
            self._sentences.say(
                f"no membership change: this is replica set {local}, etcd records {recorded}", logging.ERROR
            )
            return False
        self._data = self._data.joined(local)
        if not primary:
            member = self._replica.is_member()
            self._sentences.say("secondary member" if member else "waits: the replica set does not list this member")
            return False
        step = self.reconcile()
        if not self._settled:
            self._settle()
        return step.kind is not Kind.NOTHING

    def reconcile(self) -> Step:
        """Observe, plan, and carry out one step (seed: remove_member, add_member); called on the primary only."""
        document, seen = self._replica.observe(self._registry.entries())
        _MEMBERS.set(len(seen.members))
        _VOTERS.set(sum(member.votes for member in seen.members))
        step = plan(seen)
        self._sentences.say(f"primary: {step.sentence}")
        if step.kind is not Kind.NOTHING:
            self._replica.carry_out(step, document, seen.wanted)
            _STEPS.labels(step.kind.value).inc()
        return step

    def _settle(self) -> None:
        """What each new primary makes sure of once: default concerns and the judicators' user."""
        if self._replica.ensure_defaults():
            log.info("made majority the default read and write concern")
        try:
            made = self._replica.ensure_user()
        except RefusedError as exc:
            # Each next primary would end by it, until none is left; a set that has its user can do without the file.
            raise JudgeError(str(exc)) from None
        if made:
            log.info("made the user '%s'", self._config.username)
        self._settled = True

    def leave(self, deadline: clock.Deadline) -> None:
        """Leave for good (`leave_on_stop`): withdraw, hand over, wait until the others have removed this member.

        Called after `stop`, so that nothing registers again. What does not get done in time, the next primary does.
        """
        try:
            self._registry.withdraw()
            while not deadline.over:
                if not self._replica.is_member():
                    log.info("left the replica set")
                    return
                hello = self._replica.hello(_HELLO)
                if hello and hello.get("isWritablePrimary"):
                    if len(hello.get("hosts", [])) + len(hello.get("passives", [])) == 1:
                        log.info("withdrew; there is no other member to take over the data")
                        return
                    self.reconcile()
                clock.sleep(_POLL)
            log.warning("withdrew, but is still listed; the primary removes this member when it can")
        except JudgeError as exc:
            log.warning("could not leave in order: %s", exc)

    def hand_over(self) -> None:
        """Before a primary stops: let the most advanced voter take over now, instead of after an election timeout."""
        hello = self._replica.hello(_HELLO)
        if hello is None or not hello.get("isWritablePrimary") or len(hello.get("hosts", [])) < 2:
            return
        try:
            self._replica.step_down(_BARRED)
            log.info("stepped down as primary")
        except JudgeError as exc:
            log.warning("stops as primary: %s", exc)

    def close(self) -> None:
        """Close the connections to mongod."""
        self._replica.close()


def _wait_for_place(config: MongodbConfig, found: DataDir, registry: Registry, stop: threading.Event) -> None:
    """Hold mongod back until starting it with this data directory is safe; returns at once for a known one.

    A directory of another replica set is refused here, before its mongod could speak to anybody. An empty one, when a
    replica set exists, is registered first, so that the primary removes what an earlier disk at this address was.
    When etcd is away, a known directory starts without it and an empty one waits.
    """
    sentences = _Sentences()
    while not stop.is_set():
        try:
            recorded = registry.rsid()
            if found.rsid is not None and recorded is not None and found.rsid != recorded:
                raise RefusedError(_FOREIGN.format(path=found.path, local=found.rsid, recorded=recorded))
            if not found.fresh or recorded is None:
                return
            reason = _replacement(config, found, registry, recorded)
            if reason is None:
                return
        except UnavailableError as exc:
            if not found.fresh:
                log.warning("starts mongod with the data it has: %s", exc)
                return
            reason = str(exc)
        sentences.say(f"waits before starting mongod with an empty data_dir: {reason}", logging.WARNING)
        notify("EXTEND_TIMEOUT_USEC=30000000")
        stop.wait(min(config.reconcile_interval, 2.0))


def _replacement(config: MongodbConfig, found: DataDir, registry: Registry, recorded: str) -> str | None:
    """Register an empty directory beside an existing replica set; why it must still wait, or None."""
    others = registry.others()
    if not others:
        msg = (
            f"data_dir {found.path} is empty, and nobody else holds replica set {recorded}; restore its data, "
            "or, if it is to be given up, delete the etcd keys under mongodb/ and start again"
        )
        raise RefusedError(msg)
    registry.register()
    return blocking_entry(config, [entry.address for entry in others], found.incarnation)


def _supervise(config: MongodbConfig, etcd: Etcd, stop: threading.Event) -> int:
    """Everything from the checks before the start to mongod's end (seed: `run`)."""
    binary = server.resolve(config.binary)
    credentials(config)
    found = data.prepare(config.data_dir)
    registry = Registry(etcd, config, found.incarnation)
    _wait_for_place(config, found, registry, stop)
    if stop.is_set():
        return 0
    server.check_port(config)
    lines = server.LogLines()
    child = ChildProcess("mongodb", server.command(config, binary), parse=lines.parse)
    register = Register(config, found, registry, child)
    register.start()
    while child.poll() is None and register.error is None and not stop.wait(_POLL):
        pass
    if register.error is not None:
        child.stop(config.stop_grace)
    if child.poll() is None:
        notify("STOPPING=1")
        budget = clock.Deadline(config.stop_grace)
        idle = register.stop(budget.left() / 3)
        if not idle:
            log.warning("a pass of the register thread does not end, mongod is stopped without it")
        elif config.leave_on_stop:
            register.leave(clock.Deadline(budget.left() / 2))
        register.hand_over()
        register.close()
        code = child.stop(max(1.0, budget.left()))
        log.info("mongod ended with exit code %d", code)
        return 0
    code = child.join()
    register.stop(config.stop_grace)
    register.close()
    refusal = register.error or server.exit_error(config, code, lines)
    if refusal is not None:
        raise refusal
    log.error("mongod ended by itself with exit code %d: %s", code, lines.last_error or child.last_line)
    return EXIT_FAILED


def run(config: MongodbConfig) -> int:
    """Run one replica-set member until SIGTERM or SIGINT, or until mongod ends; returns the exit code.

    0 after an orderly stop, 3 when a person has to act first (boot does not start it again), 1 otherwise. An ordinary
    stop keeps the registration, unlike the seed: it is the start of a restart, and a set that drops each member that
    restarts would copy its data anew every time. `leave_on_stop` withdraws it.
    """
    logs.setup(config.log_level, journal="JOURNAL_STREAM" in os.environ)
    stop = on_signals()
    try:
        metrics.serve(config.metrics)
        with Etcd(config.etcd) as etcd:
            return _supervise(config, etcd, stop)
    except JudgeError as exc:
        log.error("%s", exc)  # noqa: TRY400  one sentence for a person, never a traceback
        return exc.exit_code
