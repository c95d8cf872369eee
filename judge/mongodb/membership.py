"""Decides whether this data directory may be a member of the replica set; makes, keeps and ends its membership.

Seeds: `MongoDB daemon` (judicator.txt), `Mongodb` register (daemons.txt). Nothing here starts or checks mongod: that is
member.py, which also makes the passes.
"""

from __future__ import annotations

import logging
import threading

from prometheus_client import Counter, Gauge

from judge.common import clock
from judge.common.errors import JudgeError, RefusedError, UnavailableError
from judge.common.failpoint import hit
from judge.config import MongodbConfig
from judge.daemon.notify import notify
from judge.mongodb import store, users
from judge.mongodb.data import MongodDataDir
from judge.mongodb.planner import Step, StepKind, plan
from judge.mongodb.registry import INIT, RSID, Registry
from judge.mongodb.replica import Replica, blocking_entry

log = logging.getLogger(__name__)

_MEMBERS = Gauge("judge_mongodb_members", "members of the replica set, as the primary sees them")
_VOTERS = Gauge("judge_mongodb_voters", "voting members of the replica set, as the primary sees them")
_STEPS = Counter("judge_mongodb_steps_total", "membership steps carried out by this member", ["kind"])

HELLO = 2.0  # seconds that mongod may take to answer a check
_POLL = 0.1
_FOREIGN = "data_dir {path} belongs to replica set {local}, this cluster's is {recorded}; name an empty directory"


class Sentences:
    """Logs what a loop decides, once per change, and shows it in `systemctl status`."""

    def __init__(self) -> None:
        self._last = ""

    def say(self, text: str, level: int = logging.INFO) -> None:
        """Log `text` unless it was the last, and show it with a sign of life."""
        if text != self._last:
            self._last = text
            log.log(level, "%s", text)
        notify("WATCHDOG=1", f"STATUS={text}")


class Membership:
    """The membership of one data directory; used by one thread at a time."""

    def __init__(
        self, config: MongodbConfig, data_dir: MongodDataDir, registry: Registry, replica: Replica, sentences: Sentences
    ) -> None:
        """`data_dir` is what prepare() says of the directory; `replica` speaks to the mongod on it."""
        self._config = config
        self._data = data_dir
        self._registry = registry
        self._replica = replica
        self._sentences = sentences
        self._registered = False
        self._settled = False

    def step(self, *, primary: bool) -> bool:
        """One pass over a serving mongod; True when something was changed and the next one should follow at once.

        RefusedError: it must not be a member. Other JudgeErrors: this pass failed, the next one tries again.
        """
        self._settled = self._settled and primary
        if self._registered:
            return self._keep(primary=primary)
        self._registered = self._join()
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
            raise RefusedError(
                f"data_dir {self._data.path} belongs to replica set {local}, which this cluster's etcd does not "
                f"know; name an empty directory, or, if etcd has lost it, put {local} under {RSID}"
            )
        if self._registry.was_mine(claim):
            raise RefusedError(
                f"data_dir {self._data.path} was emptied while '{self._config.name}' was making the replica set; "
                f"if no member has data yet, delete etcd key {INIT} and start again"
            )
        holder = claim.name if claim else "somebody"
        self._sentences.say(f"waits until '{holder}' has made the replica set, as etcd key {INIT} says")
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
        return step.kind is not StepKind.NOTHING

    def reconcile(self) -> Step:
        """Observe, plan, and carry out one step (seed: remove_member, add_member); called on the primary only."""
        document, observed = self._replica.observe(self._registry.entries())
        _MEMBERS.set(len(observed.members))
        _VOTERS.set(sum(member.votes for member in observed.members))
        step = plan(observed)
        self._sentences.say(f"primary: {step.sentence}")
        if step.kind is not StepKind.NOTHING:
            self._replica.carry_out(step, document, observed.wanted)
            _STEPS.labels(step.kind.value).inc()
        return step

    def _settle(self) -> None:
        """Make sure, once as a new primary, of the default concerns and the judicators' user."""
        if store.ensure_defaults(self._replica.client):
            log.info("made majority the default read and write concern")
        try:
            created = users.ensure(self._replica.client, self._config)
        except RefusedError as exc:
            # Each next primary would end by it, until none is left; a set that has its user can do without the file.
            raise JudgeError(str(exc)) from exc
        for name in created:
            log.info("made the user '%s'", name)
        self._settled = True

    def leave(self, deadline: clock.Deadline) -> None:
        """Leave for good (`leave_on_stop`): withdraw, hand over, wait until the others have removed this member.

        Called after the passes have ended, so that nothing registers again. The next primary does what is not done in
        time.
        """
        try:
            self._registry.withdraw()
            while not deadline.over:
                if not self._replica.is_member():
                    log.info("left the replica set")
                    return
                hello = self._replica.hello(HELLO)
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
        hello = self._replica.hello(HELLO)
        if hello is None or not hello.get("isWritablePrimary") or len(hello.get("hosts", [])) < 2:
            return
        try:
            self._replica.step_down()
            log.info("stepped down as primary")
        except JudgeError as exc:
            log.warning("stops as primary: %s", exc)


def wait_for_place(config: MongodbConfig, data_dir: MongodDataDir, registry: Registry, stop: threading.Event) -> None:
    """Hold mongod back until starting it with this data directory is safe; returns at once for a known one.

    A directory of another replica set is refused here, before its mongod could speak to anybody. An empty one, when a
    replica set exists, is registered first, so that the primary removes what an earlier disk at this address was.
    When etcd is away, a known directory starts without it and an empty one waits.
    """
    sentences = Sentences()
    while not stop.is_set():
        try:
            recorded = registry.rsid()
            if data_dir.rsid is not None and recorded is not None and data_dir.rsid != recorded:
                raise RefusedError(_FOREIGN.format(path=data_dir.path, local=data_dir.rsid, recorded=recorded))
            if not data_dir.fresh or recorded is None:
                return
            reason = _replacement(config, data_dir, registry, recorded)
            if reason is None:
                return
        except UnavailableError as exc:
            if not data_dir.fresh:
                log.warning("starts mongod with the data it has: %s", exc)
                return
            reason = str(exc)
        sentences.say(f"waits before starting mongod with an empty data_dir: {reason}", logging.WARNING)
        notify("EXTEND_TIMEOUT_USEC=30000000")
        stop.wait(min(config.reconcile_interval, 2.0))


def _replacement(config: MongodbConfig, data_dir: MongodDataDir, registry: Registry, recorded: str) -> str | None:
    """Register an empty directory beside an existing replica set; why it must still wait, or None."""
    registered = registry.others()
    if not registered:
        raise RefusedError(
            f"data_dir {data_dir.path} is empty, and nobody else holds replica set {recorded}; restore its data, "
            "or, if it is to be given up, delete the etcd keys under mongodb/ and start again"
        )
    registry.register()
    return blocking_entry(config, [entry.address for entry in registered], data_dir.incarnation)
