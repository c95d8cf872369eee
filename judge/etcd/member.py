"""The etcd daemon of a judicator: forms, joins, serves, promotes and leaves. Seeds: `Ectd daemon`, `Etcd` (run, check).

All decisions are the planner's; this module carries its steps out, one at a time, and looks again after each.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from functools import partial
from pathlib import Path

from prometheus_client import Gauge

from judge.common import clock
from judge.common.errors import EXIT_FAILED, OutcomeUnknownError, RefusedError, UnavailableError, UsageError
from judge.common.failpoint import hit
from judge.config import EtcdConfig
from judge.daemon import metrics
from judge.daemon.notify import notify
from judge.daemon.process import ChildProcess
from judge.etcd import planner, program
from judge.etcd.check import Check, answers, serves
from judge.etcd.client import Etcd
from judge.etcd.datadir import EtcdDataDir
from judge.etcd.discovery import alone, client_of, endpoints, host_port, observe
from judge.etcd.gate import Gate
from judge.etcd.planner import PeerAddress, Step
from judge.etcd.proxy import ProxyDaemon

log = logging.getLogger(__name__)

_DB = Gauge("judge_etcd_db_bytes", "Size of this member's database")
_QUOTA = Gauge("judge_etcd_quota_bytes", "Size at which this member refuses writes")
_TICK = 0.1  # seconds between two looks at the child
_DESCRIPTIONS: dict[type[Step], str] = {
    planner.StartNew: "a first member of a new cluster",
    planner.StartExisting: "a learner of an existing cluster",
    planner.StartData: "on the data that is there",
}


def run(config: EtcdConfig, stop: threading.Event) -> int:
    """Run the member or the proxy until `stop` is set, or until its server ends; returns the exit code."""
    metrics.watch_disk(config.data_dir)
    if config.data_dir is not None:
        _DB.set_function(partial(database_bytes, config.data_dir))
        _QUOTA.set(config.quota_bytes)
    metrics.serve(config.metrics, config.metrics_tls)
    program.check_urls(config)
    binary = program.check_binary(config)
    if config.mode == "proxy":
        return ProxyDaemon(config, binary, stop).run()
    return _MemberDaemon(config, binary, stop).run()


def database_bytes(directory: Path) -> int:
    """The size of a member's database, which etcd compares with its quota; 0 where there is none."""
    try:
        return (directory / "data/member/snap/db").stat().st_size
    except OSError:
        return 0


def data_dir(config: EtcdConfig) -> EtcdDataDir:
    """The directory of a member's config; UsageError for a proxy, which has none."""
    if config.data_dir is None:
        raise UsageError(f"'{config.name}' is an etcd proxy and no member; name the config of a member")
    return EtcdDataDir(config.data_dir)


def leave(config: EtcdConfig) -> str:
    """Take this host's member out of the cluster for good and record it, so that it does not come back by itself.

    The server, if it runs, ends then, and the daemon with it (refused). Returns a sentence for the person; RefusedError
    when there is nothing to leave or nobody would be left. Called by `judgectl member leave`; safe to repeat.
    """
    directory = data_dir(config)
    disk = directory.read()
    record = disk.record
    if record is None or not (disk.member_id or record.member_id):
        raise RefusedError(f"{directory.path}: no member has run here, so there is nothing to leave")
    member_id = disk.member_id or record.member_id
    addresses, _ = endpoints(config, running=True)
    with client_of(config, addresses) as etcd:
        cluster = etcd.cluster()
        if all(member.id != member_id for member in cluster.members):
            directory.write(dataclasses.replace(record, left=True))
            return f"member '{config.name}' ({member_id:x}) is not in the cluster any more"
        if alone(cluster, member_id):
            directory.write(dataclasses.replace(record, left=False))  # an earlier order did not come into force
            msg = f"'{config.name}' is the last voting member of the cluster; stop it instead, or add others first"
            raise RefusedError(msg)
        # Recorded first: a server that finds itself removed must already know that it was meant.
        directory.write(dataclasses.replace(record, left=True))
        hit("etcd-leave-recorded")
        try:
            _remove_patiently(etcd, member_id, config.stop_grace)
        except OutcomeUnknownError as exc:
            # It may be removed now or later. Taken back, the order would turn into its opposite: the server finds
            # itself removed, its daemon takes that for another's doing, and the host joins anew.
            msg = f"{exc}; '{config.name}' stays recorded as left: run it again until it says that it has left"
            raise OutcomeUnknownError(msg) from exc
        except UnavailableError:
            directory.write(record)
            raise
    return f"member '{config.name}' ({member_id:x}) has left the cluster of {len(cluster.members)}"


def _remove_patiently(etcd: Etcd, member_id: int, seconds: float) -> None:
    """Remove a member; for some seconds after any member has started, etcd calls its cluster unhealthy and refuses.

    A request whose answer is lost is made again: it is fine when the member is gone already. OutcomeUnknownError when
    none of them was answered in time.
    """
    deadline = clock.Deadline(seconds)
    unknown: OutcomeUnknownError | None = None
    while True:
        try:
            etcd.member_remove(member_id)
        except UnavailableError as exc:
            if isinstance(exc, OutcomeUnknownError):
                unknown = exc
            if deadline.over:
                raise unknown or exc from exc
            clock.sleep(_TICK)
        else:
            return


class _MemberDaemon:
    """One run of the daemon."""

    def __init__(self, config: EtcdConfig, binary: Path, stop: threading.Event) -> None:
        self._config = config
        self._binary = binary
        self._stop = stop
        self._directory = data_dir(config)
        self._said = ""
        self._left = False

    def run(self) -> int:
        """Plan and act until the server has served to its end, or something is refused."""
        situation: planner.Situation | None = None
        while not self._stop.is_set():
            if situation is None:
                situation = observe(self._config, self._directory.read(), running=False)
            else:
                situation = dataclasses.replace(situation, disk=self._directory.read())
            step = planner.plan(situation)
            if isinstance(step, planner.StartNew | planner.StartExisting | planner.StartData):
                code = self._serve(step)
                if code is not None:
                    return code
                situation = None
                continue
            try:
                self._act(step, situation)
            except UnavailableError as exc:
                self._pause(f"will look again: {exc}")
            if not isinstance(step, planner.Decide):  # a decision changes nothing outside this host
                situation = None
        return 0

    def _act(self, step: Step, situation: planner.Situation) -> None:
        """Carry out one step that is not a start."""
        match step:
            case planner.Refuse(why):
                raise RefusedError(why)
            case planner.Wait(why):
                self._pause(why)
            case planner.Decide(record):
                log.info("decided to %s (cluster token %s)", record.decision, record.token)
                self._directory.write(record)
                hit("etcd-decided")
            case planner.Discard(why):
                log.warning("%s; its data is put aside as %s", why, self._directory.old)
                self._directory.discard()
                hit("etcd-discarded")
            case planner.Remove(member_id, why):
                log.warning("removing member %x: %s", member_id, why)
                with self._other_members() as etcd:
                    etcd.member_remove(member_id)
                hit("etcd-removed")
            case planner.Add():
                self._add(situation)
            case _:  # pragma: no cover - the planner answers the rest only for a running server
                raise AssertionError(f"{type(step).__name__} was planned for a server that does not run")

    def _add(self, situation: planner.Situation) -> None:
        record, quorum = situation.disk.record, situation.seen
        if record is None or not isinstance(quorum, planner.Quorum):  # pragma: no cover - plan never adds otherwise
            raise AssertionError("a member was to be added without a record or a quorum")
        with self._other_members() as etcd:
            added = etcd.member_add(self._config.peer, learner=True)
        hit("etcd-added")
        log.info("added to the cluster as learner %x", added.id)
        self._directory.write(dataclasses.replace(record, member_id=added.id, cluster_id=quorum.cluster_id))
        hit("etcd-add-recorded")

    def _other_members(self) -> Etcd:
        addresses, _ = endpoints(self._config, running=False)
        if not addresses:
            raise UnavailableError("etcd: no other member is known any more")
        return client_of(self._config, addresses)

    def _pause(self, reason: str) -> None:
        """Say why nothing is done, once, and wait a moment."""
        if reason != self._said:
            log.info("waiting: %s", reason)
            self._said = reason
        # A start that waits for others is not a hung start: systemd is told so as long as the loop turns.
        notify(f"STATUS=waiting: {reason}", "WATCHDOG=1", "EXTEND_TIMEOUT_USEC=60000000")
        self._stop.wait(self._config.check.interval)

    # -- a running server --------------------------------------------------------------------------------------

    def _start(self, step: Step) -> ChildProcess:
        directory, config = self._directory, self._config
        client, peer = program.listens(config)
        program.wait_for_ports([host_port(url) for url in (*client, *peer)], config.stop_grace)
        # A server that was killed leaves its socket behind, and etcd does not take an address that is there. Whose it
        # was is gone, or its port would not have been free.
        (directory.path / program.SOCKET).unlink(missing_ok=True)
        state = "existing"
        initial: tuple[PeerAddress, ...] = (PeerAddress(config.name, config.peer),)
        if isinstance(step, planner.StartNew):
            state, initial = "new", step.initial
            directory.prepare()
        elif isinstance(step, planner.StartExisting):
            initial = step.initial
            record = directory.read().record
            if record is not None:
                directory.write(dataclasses.replace(record, started=True))
            hit("etcd-start-recorded")
            directory.prepare()
        log.info("starting etcd as %s, %s", config.name, _DESCRIPTIONS[type(step)])
        command = program.member_command(config, self._binary, directory.data, state, initial)
        child = ChildProcess("etcd", command, parse=program.parse_line, env=program.environment(), cwd=directory.path)
        hit("etcd-started")
        return child

    def _serve(self, step: Step) -> int | None:
        """Run the server to its end: the exit code of the daemon, or None when the reason has to be looked up."""
        child = self._start(step)
        config, timeout = self._config, max(1.0, self._config.check.interval)
        check = Check(
            child, config.check, lambda: serves(config.client, config.tls, timeout), lambda: self._excuse(check)
        )
        try:
            with self._gate():
                check.start()
                self._watch(child, check)
                if self._stop.is_set():
                    notify("STOPPING=1")
                    if config.leave_on_stop and child.poll() is None:
                        self._leave_on_stop()
        finally:
            check.end()
            code = child.stop(config.stop_grace)
        if self._stop.is_set():
            if self._left:
                self._directory.discard()  # data of a member that has left is of no use to anybody
            return 0
        return self._classify(child, check, code)

    def _gate(self) -> contextlib.AbstractContextManager[object]:
        """The gate that serves clients in etcd's name. Without certificates none: clients cannot be told apart."""
        config = self._config
        if config.tls is None:
            return contextlib.nullcontext()
        addresses = [host_port(url) for url in program.listens(config)[0]]
        return contextlib.closing(Gate(self._directory.path, addresses, config.tls, config.prefix))

    def _excuse(self, check: Check) -> str:
        """Before a member has found a quorum it listens to its peers only; killing it then would help nobody."""
        if check.ever_served:
            return ""
        timeout = max(1.0, self._config.check.interval)
        if answers(self._config.peer, self._config.peer_tls, timeout):
            return "it runs and waits for the other members to form a quorum"
        return ""

    def _watch(self, child: ChildProcess, check: Check) -> None:
        """Until the server ends or the daemon is told to: note the ids, tell readiness, become a voter."""
        ids_noted = settled = ready = False
        beats, next_look = -1, 0.0
        while not self._stop.wait(_TICK) and child.poll() is None and not check.failed:
            ids_noted = ids_noted or self._note_ids()
            if check.beats != beats:
                beats = check.beats
                state = "serving" if check.serving else "not serving"
                notify("WATCHDOG=1", f"STATUS={state}", *([] if ready else ["EXTEND_TIMEOUT_USEC=60000000"]))
            if not check.serving or not ids_noted:
                continue
            if not ready:
                ready = True
                log.info("%s serves at %s", self._config.name, self._config.client)
                notify("READY=1")
            if not settled and clock.monotonic() >= next_look:
                settled = self._settle(child)
                next_look = clock.monotonic() + self._config.check.interval

    def _note_ids(self) -> bool:
        """Write the ids down as soon as the log names them; from then on an empty disk is a lost one."""
        disk = self._directory.read()
        record = disk.record
        if record is None or not disk.member_id:
            return False
        updated = dataclasses.replace(record, member_id=disk.member_id, cluster_id=disk.cluster_id, started=True)
        if updated != record:
            self._directory.write(updated)
            hit("etcd-ids-recorded")
        return True

    def _settle(self, child: ChildProcess) -> bool:
        """One look at a running member that may not be a voter yet; True when there is nothing more to do."""
        step = planner.plan(observe(self._config, self._directory.read(), running=True))
        match step:
            case planner.FullMember(why):
                log.info("%s is %s", self._config.name, why)
                return True
            case planner.Promote(member_id):
                hit("etcd-before-promote")
                try:
                    with client_of(self._config, endpoints(self._config, running=True)[0]) as etcd:
                        etcd.member_promote(member_id)
                except (UnavailableError, UsageError) as exc:
                    log.info("not promoted yet: %s", exc)
                else:
                    log.info("learner %x was promoted", member_id)
            case planner.Gone(why) | planner.Refuse(why):
                log.warning("stopping etcd: %s", why)
                child.stop(self._config.stop_grace)
            case planner.Wait(why):
                log.debug("%s", why)
            case _:  # pragma: no cover - the planner answers nothing else for a running server
                raise AssertionError(f"{type(step).__name__} was planned for a running server")
        return False

    def _classify(self, child: ChildProcess, check: Check, code: int) -> int | None:
        """The reason why the server ended by itself: a removed member usually ends with 0, so the code says nothing."""
        if check.killed:
            return EXIT_FAILED
        if check.failed:
            log.error("%s", check.failed)
            return EXIT_FAILED
        log.error("etcd ended with code %d: %s", code, child.last_line)
        step = planner.plan(observe(self._config, self._directory.read(), running=False))
        return None if isinstance(step, planner.Discard | planner.Refuse) else EXIT_FAILED

    # -- leaving -----------------------------------------------------------------------------------------------

    def _leave_on_stop(self) -> None:
        """Leave the cluster before stopping, as a member of an elastic fleet does (seed: `remove_member`)."""
        member_id = self._directory.read().member_id
        try:
            with client_of(self._config, endpoints(self._config, running=True)[0]) as etcd:
                cluster = etcd.cluster()
                if alone(cluster, member_id):
                    log.info("%s is the last voting member and keeps its data", self._config.name)
                    return
                _remove_patiently(etcd, member_id, self._config.stop_grace)
        except OutcomeUnknownError as exc:
            log.warning("whether %s has left the cluster, its next start finds out: %s", self._config.name, exc)
            return
        except UnavailableError as exc:
            log.warning("could not leave the cluster, %s stays a member: %s", self._config.name, exc)
            return
        log.info("%s has left the cluster", self._config.name)
        hit("etcd-left")
        self._left = True
