"""The next step of an etcd member: a pure function of what was observed (docs/etcd.md).

`plan` returns one step, or a `Wait` or `Refuse` whose sentence says why there is none. The daemon carries the step
out, observes again and asks again, so a daemon killed between any two steps goes on where it was.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple


class PeerAddress(NamedTuple):
    """One listed member: its name and peer URL."""

    name: str
    url: str


class EntryMode(enum.StrEnum):
    """The way in which this member came to its cluster; decided once and recorded beside the data."""

    INITIALISE = "initialise"
    JOIN = "join"


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """The notes of this host about its membership. Ids are 0 until etcd gave them.

    `started`: a server was started, or was about to be, under these ids. `left`: for good, by a person's order.
    """

    token: str
    name: str
    peer: str
    decision: EntryMode
    initial: tuple[PeerAddress, ...] = ()
    member_id: int = 0
    cluster_id: int = 0
    started: bool = False
    left: bool = False


@dataclass(frozen=True, slots=True)
class MemberDisk:
    """The data directory: whether it holds a log, and the ids that the log itself names (0: unreadable)."""

    data: bool = False
    member_id: int = 0
    cluster_id: int = 0
    record: MemberRecord | None = None


@dataclass(frozen=True, slots=True)
class ListedMember:
    """One member in the cluster's list. `answers`: its server was asked just now, and answered under this id."""

    id: int
    name: str
    peer_urls: tuple[str, ...]
    published: bool
    learner: bool = False
    answers: bool = False


@dataclass(frozen=True, slots=True)
class Silent:
    """No other member answered. `found`: discovery knows others, or could not tell."""

    found: bool
    reason: str


@dataclass(frozen=True, slots=True)
class NoQuorum:
    """Others answer, but the cluster cannot decide anything."""

    reason: str


@dataclass(frozen=True, slots=True)
class Quorum:
    """The member list as a quorum knows it."""

    cluster_id: int
    members: tuple[ListedMember, ...]


ClusterView = Silent | NoQuorum | Quorum


@dataclass(frozen=True, slots=True)
class Situation:
    """All that `plan` looks at. `registered`: the inventory, or the name service, says that this host belongs."""

    name: str
    peer: str
    token: str
    bootstrap: str
    listed: tuple[PeerAddress, ...]
    registered: bool
    disk: MemberDisk
    seen: ClusterView
    running: bool = False


@dataclass(frozen=True, slots=True)
class _Reasoned:
    why: str


class Refuse(_Reasoned):
    """A person has to act first."""


class Wait(_Reasoned):
    """Do nothing, as nothing is safe now; observe again later."""


@dataclass(frozen=True, slots=True)
class Decide:
    """Write the record before anything else is done."""

    record: MemberRecord


class Discard(_Reasoned):
    """Put data aside that the cluster has declared dead."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove my stale identity from the cluster."""

    member_id: int
    why: str


@dataclass(frozen=True, slots=True)
class Add:
    """Add me as a learner, and record the ids."""


@dataclass(frozen=True, slots=True)
class StartNew:
    """Start a server that forms the initial cluster."""

    initial: tuple[PeerAddress, ...]


@dataclass(frozen=True, slots=True)
class StartExisting:
    """Mark the record as started, then start a server with an empty disk for an identity that was never used."""

    initial: tuple[PeerAddress, ...]


@dataclass(frozen=True, slots=True)
class StartData:
    """Start the server on its data."""


@dataclass(frozen=True, slots=True)
class Promote:
    """Ask for this learner to become a voter; etcd refuses until it is in sync."""

    member_id: int


class Gone(_Reasoned):
    """The running server is no member any more: stop it and plan again."""


class FullMember(_Reasoned):
    """The running server is a full member."""


Step = (
    Refuse | Wait | Decide | Discard | Remove | Add | StartNew | StartExisting | StartData | Promote | Gone | FullMember
)  # fmt: skip


def plan(now: Situation) -> Step:
    """The next single safe step."""
    refusal = _record_refusal(now)
    if refusal is not None:
        return refusal
    if now.running:
        return _running(now)
    if now.disk.data:
        return _with_data(now)
    return _without_data(now)


def _record_refusal(now: Situation) -> Refuse | None:
    """The refusal that the record alone asks for."""
    record = now.disk.record
    if record is None:
        if now.disk.data:
            return Refuse(
                "there is etcd data but no record of the cluster it belongs to; "
                "move the data directory away to join as a new member"
            )
        return None
    if record.token != now.token:
        return Refuse(
            f"the data directory belongs to the cluster with token '{record.token}', the config says '{now.token}'; "
            f"correct the config, or move the data directory away"
        )
    if record.name != now.name:
        return Refuse(
            f"the data directory belongs to member '{record.name}', the config says '{now.name}'; "
            f"correct the config, or move the data directory away"
        )
    if record.left:
        return Refuse(
            f"member '{now.name}' has left the cluster for good; move the data directory away to join as a new member"
        )
    return _data_refusal(now.disk, record) if now.disk.data else None


def _data_refusal(disk: MemberDisk, record: MemberRecord) -> Refuse | None:
    """The refusal that the data asks for beside its record."""
    if not disk.member_id:
        return Refuse("the etcd log cannot be read; move the data directory away to join as a new member")
    if record.member_id not in (0, disk.member_id):
        return Refuse(
            f"the etcd data is of member {disk.member_id:x}, the record beside it of {record.member_id:x}; "
            f"put the right data back, or move the data directory away"
        )
    return None


def _running(now: Situation) -> Step:
    """The server runs: is it a member, and is it a voter yet."""
    if not isinstance(now.seen, Quorum):
        return Wait(f"running; {now.seen.reason}")
    me = next((member for member in now.seen.members if member.id == now.disk.member_id), None)
    if me is None:
        return Gone(f"member {now.disk.member_id:x} was removed from the cluster")
    if me.learner:
        return Promote(me.id)
    return FullMember(f"a voting member of {len(now.seen.members)}")


def _with_data(now: Situation) -> Step:
    """There is a readable log of a recorded member."""
    view = now.seen
    if not isinstance(view, Quorum):
        return StartData()  # the cluster may be waiting for exactly this member
    if view.cluster_id != now.disk.cluster_id:
        return Refuse(
            f"the etcd data is of cluster {now.disk.cluster_id:x}, the other members are cluster {view.cluster_id:x}; "
            f"correct 'cluster' in the config, or move the data directory away"
        )
    me = next((member for member in view.members if member.id == now.disk.member_id), None)
    if me is None:
        reason = f"member {now.disk.member_id:x} was removed from the cluster"
        if now.registered:
            return Discard(f"{reason}; '{now.name}' is still listed, so it joins again as a new member")
        return Refuse(f"{reason} and '{now.name}' is not listed any more; remove this service from the host")
    if me.answers:
        return Refuse(f"member '{me.name}' already answers at its address from elsewhere; stop the other server")
    return StartData()


def _without_data(now: Situation) -> Step:
    """The disk is empty: form the cluster when told so, else join; never as somebody who has been here before."""
    if isinstance(now.seen, Quorum):
        return _empty_with_quorum(now, now.seen)
    record = now.disk.record
    if record is not None and record.member_id:
        if isinstance(now.seen, Silent) and not now.seen.found:
            return Refuse(
                f"the disk of member '{now.name}' is empty and there is no other member to recover from; "
                f"restore a backup, or move the data directory away to start an empty cluster"
            )
        return Wait(
            f"the disk of member '{now.name}' is empty: it starts only after a quorum has removed its old identity, "
            f"and {now.seen.reason}"
        )
    return _first_start(now, now.seen)


def _first_start(now: Situation, view: Silent | NoQuorum) -> Step:
    """No server has run here yet, and no quorum can be asked."""
    record = now.disk.record
    if record is not None and record.decision is EntryMode.INITIALISE:
        return StartNew(record.initial)  # the others may be waiting for this one
    if record is None and isinstance(view, Silent):
        if now.bootstrap == "initialise":
            return _decide_initialise(now)
        if now.bootstrap == "when-alone" and not view.found:
            return Decide(_record(now, EntryMode.INITIALISE, (PeerAddress(now.name, now.peer),)))
    return Wait(f"member '{now.name}' joins through a quorum of the others, and {view.reason}")


def _empty_with_quorum(now: Situation, quorum: Quorum) -> Step:
    """A cluster is there: be the initial member that it awaits, or become a new one."""
    record = now.disk.record
    clash = _clash(now, quorum)
    if clash is not None:
        return clash
    own_entry = next((member for member in quorum.members if now.peer in member.peer_urls), None)
    if own_entry is not None and _is_awaited(now, own_entry):
        return StartNew(record.initial) if record is not None else _decide_initialise(now)
    if own_entry is not None and _is_unused(record, own_entry):
        return StartExisting(
            tuple(
                PeerAddress(now.name if member is own_entry else member.name or f"{member.id:x}", url)
                for member in quorum.members
                for url in member.peer_urls
            )
        )
    if own_entry is not None:
        return Remove(
            own_entry.id, f"the disk of '{now.name}' is empty, but its address is that of member {own_entry.id:x}"
        )
    learner = next((member for member in quorum.members if member.learner), None)
    if learner is not None:
        return Wait(
            f"member {learner.id:x} at {', '.join(learner.peer_urls)} is still joining, and only one may at a time; "
            f"if it is lost, remove it"
        )
    fresh = _record(now, EntryMode.JOIN, ())
    return Add() if record == fresh else Decide(fresh)


def _clash(now: Situation, quorum: Quorum) -> Refuse | None:
    """Refuse when another member has my name or address: it must never be taken for a stale one of mine."""
    for member in quorum.members:
        has_address = now.peer in member.peer_urls
        if member.name == now.name and not has_address:
            return Refuse(
                f"another member named '{now.name}' is at {', '.join(member.peer_urls)}; "
                f"give this one another name, or remove member {member.id:x} first"
            )
        if has_address and member.name not in ("", now.name):
            return Refuse(
                f"the address {now.peer} belongs to member '{member.name}'; "
                f"give this one its own address, or remove member {member.id:x} first"
            )
        if has_address and member.answers:
            return Refuse(f"member '{now.name}' already answers at its address from elsewhere; stop the other server")
    return None


def _is_awaited(now: Situation, entry: ListedMember) -> bool:
    """Return whether I am a member of the initial cluster that has not started yet."""
    record = now.disk.record
    initialising = now.bootstrap == "initialise" if record is None else record.decision is EntryMode.INITIALISE
    unused = record is None or not record.member_id
    return initialising and unused and bool(entry.name) and not entry.published and not entry.learner


def _is_unused(record: MemberRecord | None, entry: ListedMember) -> bool:
    """Return whether this identity was added for me and no server ever ran under it.

    Only my own record proves that. An identity that ran and lost its log would panic etcd, or lose what it confirmed.
    """
    return record is not None and record.member_id == entry.id and not record.started and entry.learner


def _decide_initialise(now: Situation) -> Step:
    initial = now.listed or (PeerAddress(now.name, now.peer),)
    if PeerAddress(now.name, now.peer) not in initial:
        return Refuse(
            f"'{now.name}' at {now.peer} is not among cluster.members, which are to form the cluster; "
            f"list it there, or set bootstrap to join"
        )
    return Decide(_record(now, EntryMode.INITIALISE, initial))


def _record(now: Situation, decision: EntryMode, initial: tuple[PeerAddress, ...]) -> MemberRecord:
    return MemberRecord(now.token, now.name, now.peer, decision, initial)
