"""The cluster at a glance, and what is wrong with it in sentences (overview.StatusReply)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from bson import ObjectId
from pymongo.errors import PyMongoError

import judge
from judge.common import clock
from judge.common.errors import JudgeError
from judge.config import EtcdClient, JudicatorConfig
from judge.etcd.client import Etcd, EtcdMember
from judge.etcd.election import read_holder
from judge.etcd.registry import ServiceEntry, judicators
from judge.judicator.database import Database
from judge.judicator.documents import ExecutorDocument, waiting_seconds, wants_of
from judge.judicator.executors import Executors, languages, to_state
from judge.judicator.hosts import Hosts
from judge.judicator.leader.leading import EPOCH, LEADER_KEY
from judge.judicator.loops import known_faults
from judge.judicator.queue.order import ExecutorCapacity, is_rejudge, waiting_reason
from judge.judicator.replica import Replica
from judge.judicator.work import Work, WorkCounter
from judge.model.messages import Empty
from judge.model.overview import ExecutorsReply, ExecutorState, JudicatorState, MemberState, StatusReply

log = logging.getLogger(__name__)

# One silent etcd member must not hold up the answer.
_PROBE: Final = 1.0
# Seconds for which etcd's answers are taken for new.
_FRESH: Final = 1.0
# From so many seconds on people are told why a submission waits.
WAITS_SECONDS: Final = 5.0
# The languages with most waiting submissions, and submissions that came back, of which the status gives reasons.
_LANGUAGES, _CAME_BACK = 20, 10
# The first tasks of so many kinds are looked at for that.
_NEXTS: Final = 500
_WAITS: Final = dict.fromkeys(("needs", "abilities", "failed", "tried", "created", "returned", "done", "executor"), 1)
_MEMBER_STATES: Final = frozenset({1, 2, 7})  # primary, secondary, arbiter
# The alerts JudgeReplicationLag, JudgeOplogShort and JudgeEtcdFull have the same bounds.
_LAG_SECONDS, _OPLOG_SECONDS, _OPLOG_FILLED, _ETCD_FILLED = 30.0, 3600.0, 0.9, 0.8


@dataclass
class _EtcdState:
    """etcd's answers; `error` when it does not answer."""

    leader: str | None = None
    services: list[ServiceEntry] = field(default_factory=list)
    members: list[MemberState] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    error: str = ""


@dataclass
class _MongodbState:
    """What the replica set says of itself; no members when it refuses to."""

    members: list[MemberState] = field(default_factory=list)
    version: str = ""
    warnings: list[str] = field(default_factory=list)


class StatusReader:
    def __init__(
        self,
        config: JudicatorConfig,
        database: Database,
        etcd: Etcd,
        executors: Executors,
        replica: Replica,
        hosts: Hosts,
        following: Callable[[], bool],
        building: Callable[[], str],
    ) -> None:
        """`following` says whether the change stream is up, `building` which indexes are being built."""
        self._config = config
        self._db = database
        self._etcd = etcd
        self._executors = executors
        self._queue = replica.queue
        self._hosts = hosts
        self._work = WorkCounter(database, replica)
        self.following = following
        self._building = building
        self._etcd_turn = asyncio.Lock()
        self._etcd_answer: tuple[float, _EtcdState] | None = None

    async def executors(self, _: Empty) -> ExecutorsReply:
        docs, holding = await self._executors.all(), self._work.work().holding
        return ExecutorsReply(executors=[to_state(doc, holding.get(doc["_id"], 0)) for doc in docs])

    async def read(self, _: Empty) -> StatusReply:
        """Everything, side by side; raises PyMongoError when the database does not answer."""
        work = self._work.work()
        etcd, mongodb, docs, meta = await asyncio.gather(
            self._etcd_state(),
            self._read_mongodb(),
            self._executors.all(),
            self._db.meta.find_one({"_id": EPOCH}),
        )
        of_loops = await known_faults(self._db)
        waits = await self._waits(work)
        states = [to_state(doc, work.holding.get(doc["_id"], 0)) for doc in docs]
        working = [state for state in states if state.alive and not state.drain]
        standstill = no_judging((await self._executors.capacities()).values())
        epoch = None if meta is None else int(meta["epoch"])
        building = self._building()
        if building:
            building = f"judicator '{self._config.name}' {building}; searches are slow until they are there"
        versions = {"judge": judge.__version__, "mongodb": mongodb.version, "etcd": ", ".join(sorted(etcd.versions))}
        return StatusReply(
            leader=etcd.leader,
            epoch=epoch,
            judicators=[
                JudicatorState(
                    name=service.name,
                    address=service.address,
                    leader=service.name == etcd.leader,
                    epoch=epoch if service.name == etcd.leader else None,
                )
                for service in etcd.services
            ],
            etcd=etcd.members,
            mongodb=mongodb.members,
            executors=states,
            queued=work.queued,
            running=work.running,
            finished=await self._work.finished(work),
            slots=sum(state.info.slots for state in working if state.info is not None),
            vacant=sum(state.vacant for state in working),
            judging=not standstill,
            versions={name: version for name, version in versions.items() if version},
            warnings=[
                *of_loops,
                *await self._hosts.warnings(),
                *mongodb.warnings,
                *etcd_filled(etcd.sizes, self._config.etcd_quota_bytes),
                *([building] if building else []),
                *warnings(etcd.services, docs, work, following=self.following()),
            ],
            waits=waits,
            faults=faults(etcd.error, etcd.leader, etcd.members, mongodb.members, states, standstill),
        )

    async def _waits(self, work: Work) -> list[str]:
        """The reasons why submissions wait: of the next one in each language, and of those that came back."""
        most = set(sorted(work.needs, key=lambda needs: -work.needs[needs])[:_LANGUAGES])
        nexts: dict[str, ObjectId] = {}
        returned: list[ObjectId] = []
        for task in self._queue.nexts(_NEXTS):
            lane = task.lane.key
            if is_rejudge(lane.rank):
                continue
            if lane.failed:
                returned.append(ObjectId(task.id))
            elif lane.needs in most:
                nexts.setdefault(lane.needs, ObjectId(task.id))
        ids = [*nexts.values(), *returned[:_CAME_BACK]]
        docs = {doc["_id"]: doc async for doc in self._db.tasks.find({"_id": {"$in": ids}}, _WAITS)} if ids else {}
        executors, now = await self._executors.capacities(), clock.wall()
        sentences = []
        for doc in (docs[task_id] for task_id in ids if task_id in docs):
            waited = waiting_seconds(doc, now) or 0.0
            if waited < WAITS_SECONDS:
                continue
            kind = f"in '{doc['needs']}'" if doc["needs"] else "of a command"
            what = f"a submission {kind} that an executor gave back"
            if not doc["tried"]:
                what = f"the next of {work.needs.get(doc['needs'], 1)} waiting submissions {kind}"
            why = waiting_reason(doc["needs"], wants_of(doc), doc["failed"], executors)
            sentences.append(f"{what} has waited for {waited:.0f} s: {why}")
        return sentences

    async def _read_mongodb(self) -> _MongodbState:
        """The replica set's members as its primary sees them, its version, and what to know of its writes."""
        admin = self._db.client.admin
        try:
            reply: dict[str, Any] = await admin.command("replSetGetStatus")
            build: dict[str, Any] = await admin.command("buildInfo")
            server: dict[str, Any] = await admin.command("serverStatus", oplog=1)
            oplog: dict[str, Any] = await self._db.client.local.command("collStats", "oplog.rs")
        except PyMongoError as exc:
            log.warning("the replica set does not tell its state: %s", str(exc)[:200])
            return _MongodbState()
        members = [
            MemberState(
                name=member["name"],
                address=member["name"],
                role=str(member["stateStr"]).lower(),
                healthy=member["health"] == 1 and member["state"] in _MEMBER_STATES,
            )
            for member in reply["members"]
        ]
        ends = server["oplog"]
        seconds = (ends["latestOptime"].as_datetime() - ends["earliestOptime"].as_datetime()).total_seconds()
        sentences = [*lagging(reply), *short_oplog(seconds, oplog["size"] / oplog["maxSize"])]
        return _MongodbState(members, str(build["version"]), sentences)

    async def _etcd_state(self) -> _EtcdState:
        """Etcd's answers, up to a second old: each look opens a TLS channel to each member."""
        async with self._etcd_turn:
            if self._etcd_answer is None or clock.monotonic() - self._etcd_answer[0] > _FRESH:
                state = await asyncio.to_thread(self._read_etcd)
                self._etcd_answer = clock.monotonic(), state
            return self._etcd_answer[1]

    def _read_etcd(self) -> _EtcdState:
        """Leader, services and members; in a thread."""
        state = _EtcdState()
        try:
            holder = read_holder(self._etcd, LEADER_KEY)
            state.leader = None if holder is None else holder.value
            state.services = judicators(self._etcd)
            for member in self._etcd.members():
                state.members.append(self._probe(member, state))
        except JudgeError as exc:
            state.error = str(exc)
        return state

    def _probe(self, member: EtcdMember, state: _EtcdState) -> MemberState:
        """Ask one member itself; the endpoints of the config may lead through a proxy to any of them."""
        role = "learner" if member.learner else "voter"
        name = member.name or f"{member.id:x} (not started)"
        if not member.client_urls:
            return MemberState(name=name, address=", ".join(member.peer_urls), role=role, healthy=False)
        address = urlsplit(member.client_urls[0]).netloc
        config = EtcdClient(
            endpoints=[address], tls=self._config.etcd.tls, timeout=_PROBE, prefix=self._config.etcd.prefix
        )
        with Etcd(config) as probe:
            status = probe.status()[0]
        if status.version:
            state.versions.add(status.version)
        if status.db_size:
            state.sizes[name] = status.db_size
        if not status.error and status.leader_id == status.member_id:
            role = "leader"
        healthy = not status.error and not status.errors and status.leader_id != 0
        return MemberState(name=name, address=address, role=role, healthy=healthy)


def faults(
    etcd_error: str,
    leader: str | None,
    etcd: list[MemberState],
    mongodb: list[MemberState],
    executors: list[ExecutorState],
    standstill: str,
) -> list[str]:
    """All that is broken, one sentence each; pure. `standstill` is of `no_judging`."""
    sentences = []
    if etcd_error:
        sentences.append(
            f"etcd does not answer: {etcd_error}; the last leader goes on assigning, but nobody can take its place"
        )
    elif leader is None:
        sentences.append("no judicator leads; nothing new is assigned until one does")
    sentences += [
        f"etcd member {member.name} ({member.address}) is not healthy" for member in etcd if not member.healthy
    ]
    if not mongodb:
        sentences.append("the replica set does not tell its state; check that its user may run replSetGetStatus")
    sentences += [
        f"mongod {member.address} is {member.role} and not healthy" for member in mongodb if not member.healthy
    ]
    sentences += [*no_spare("etcd", etcd), *no_spare("MongoDB", mongodb)]
    sentences += [standstill] if standstill else []
    sentences += [f"executor '{executor.name}' does not report" for executor in executors if not executor.alive]
    return sentences


def no_judging(executors: Collection[ExecutorCapacity]) -> str:
    """The reason why no executor takes new submissions; empty if one does. Pure."""
    alive = [executor for executor in executors if executor.alive]
    working = [executor for executor in alive if not executor.drained]
    if not alive:
        return "no executor is alive; nothing is judged until one reports"
    if not working:
        return "all live executors are drained; nothing new is judged until 'judgectl resume EXECUTOR'"
    if not any(executor.accepts or executor.busy for executor in working):
        return "no executor accepts work; nothing is judged until one does; 'judgectl executors' may say why"
    return ""


def no_spare(what: str, members: list[MemberState]) -> list[str]:
    """A sentence if one more failure leaves no majority of members that vote; of fewer than three it always does."""
    voters = [member for member in members if member.role != "learner"]
    healthy = sum(member.healthy for member in voters)
    if len(voters) < 3 or 2 * (healthy - 1) > len(voters):
        return []
    more = "one more failure stops the cluster" if 2 * healthy > len(voters) else "the cluster has no majority"
    return [f"{healthy} of {len(voters)} members of {what} are healthy: {more}"]


def lagging(status: Mapping[str, Any]) -> list[str]:
    """A warning for each member whose last write is much older than the newest of any, from replSetGetStatus."""
    writes = {member["name"]: member["optimeDate"] for member in status["members"] if member["state"] in _MEMBER_STATES}
    behind = {name: (max(writes.values()) - write).total_seconds() for name, write in writes.items()}
    return [
        f"mongod {name} is {seconds:.0f} s behind the newest write; it does not count for a majority of new ones"
        for name, seconds in sorted(behind.items())
        if seconds > _LAG_SECONDS
    ]


def short_oplog(seconds: float, filled: float) -> list[str]:
    """A warning if a full oplog holds few writes."""
    if seconds >= _OPLOG_SECONDS or filled <= _OPLOG_FILLED:
        return []
    held = f"MongoDB's oplog holds {seconds / 60:.0f} minutes of writes"
    return [f"{held}; a member that is away for longer has to copy everything anew; set judge_mongodb_oplog_hours"]


def etcd_filled(sizes: Mapping[str, int], quota: int) -> list[str]:
    """A warning for each member of etcd whose database has nearly its quota."""
    return [
        f"etcd member {name} has {100 * size // quota} per cent of its quota; at 100 it refuses all writes; "
        "raise judge_etcd_quota_bytes"
        for name, size in sorted(sizes.items())
        if size > _ETCD_FILLED * quota
    ]


def warnings(
    services: list[ServiceEntry], executors: list[ExecutorDocument], work: Work, *, following: bool
) -> list[str]:
    """All that a person should know although the cluster works, one sentence each; pure."""
    sentences = []
    alive = [doc for doc in executors if doc["alive"]]
    able = frozenset[str]().union(*(languages(doc) for doc in alive if not doc["drain"]))
    for needs, count in sorted(work.needs.items()):
        if needs and needs not in able:
            sentences.append(f"{count} tasks wait for an executor with language '{needs}', which no live one has")
    for doc in alive:
        info = doc["info"] or {}
        if doc["drain"]:
            sentences.append(f"executor '{doc['_id']}' is drained: {doc['drain_reason'] or 'no reason given'}")
        if info.get("weak_sandbox"):
            sentences.append(f"executor '{doc['_id']}' judges in a weak sandbox")
        sentences += [f"executor '{doc['_id']}': {check}" for check in info.get("checks", [])]
    versions = sorted({service.version for service in services})
    if len(versions) > 1:
        sentences.append(f"judicators run different versions: {', '.join(versions)}; finish the upgrade")
    if len(services) > 1 and len(services) % 2 == 0:
        sentences.append(
            f"{len(services)} judicators are registered; an odd number survives as many failures with less"
        )
    if not following:
        sentences.append("the change stream is away; work added elsewhere starts up to a second later")
    return sentences
