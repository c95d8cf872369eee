"""The next single safe change of the replica set, as a pure function of what was observed (docs/mongodb.md).

Seed: the loop of Mongodb `register`, which removes and adds whole differences at once. Here each step is one reconfig
with at most one voting change, and what an empty disk could forget decides nothing.

A member is the pair (address, incarnation): the incarnation is the identity of its data directory, is registered in
etcd and kept as a tag in the replica set's configuration. A wiped disk has a new one, so its old entry counts as
unregistered: it is removed by a live majority first, and added again with a new _id.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_MEMBERS = 50
MAX_VOTERS = 7
TAG = "incarnation"


@dataclass(frozen=True)
class Registered:
    """One entry of etcd: this data directory wants to be a member at this address, or may initiate the replica set."""

    name: str
    address: str
    incarnation: str


@dataclass(frozen=True)
class SetMember:
    """One entry of the replica set's configuration, with what the primary knows of its state.

    `healthy`: answers and is PRIMARY or SECONDARY. `in_sync`: SECONDARY (or PRIMARY) and close to the primary's oplog.
    """

    id: int
    address: str
    votes: int
    incarnation: str
    healthy: bool
    in_sync: bool
    state: str = ""


@dataclass(frozen=True)
class ElectionTimings:
    """The election timings of the replica set, in milliseconds."""

    election_timeout_ms: int
    heartbeat_ms: int


@dataclass(frozen=True)
class Observed:
    """One consistent look at etcd and the replica set, taken by the member at address `me`.

    `version` is the configuration's, `committed` says that a majority has it. `primary` is an address or None.
    """

    me: str
    primary: str | None
    registered: Sequence[Registered]
    members: Sequence[SetMember]
    version: int
    committed: bool
    settings: ElectionTimings
    wanted: ElectionTimings


class StepKind(enum.Enum):
    """The kinds of steps; all but NOTHING and STEP_DOWN are one reconfig each."""

    NOTHING = "nothing"
    ADOPT = "adopt"
    REMOVE = "remove"
    STEP_DOWN = "step down"
    ADD = "add"
    RAISE = "raise"
    LOWER = "lower"
    TUNE = "tune"


@dataclass(frozen=True)
class Step:
    """The next single change, or NOTHING; `sentence` says why and is what the daemon logs."""

    kind: StepKind
    sentence: str
    id: int = -1
    address: str = ""
    incarnation: str = ""


def majority(voters: int) -> int:
    return voters // 2 + 1


def odd_goal(registered: int) -> int:
    """The number of voters among so many registered members: the largest odd number, at most 7.

    An even number tolerates no more failures than the odd one below it, and makes each write wait for one more disk.
    """
    voters = min(MAX_VOTERS, registered)
    return voters - 1 if voters and voters % 2 == 0 else voters


def _voters(members: Iterable[SetMember]) -> list[SetMember]:
    return [member for member in members if member.votes]


def _quorate(voters: Sequence[SetMember]) -> bool:
    """Return whether the healthy ones among these voters are a majority of them."""
    return sum(voter.healthy for voter in voters) >= majority(len(voters))


class _PlannerRules:
    """The rules in the order in which they are asked; the first one that finds a safe step decides."""

    def __init__(self, observed: Observed) -> None:
        self.seen = observed
        self.notes: list[str] = []
        self.wanted: dict[str, Registered] = {}
        self.twice: set[str] = set()
        for entry in sorted(observed.registered, key=lambda entry: entry.name):
            if self.wanted.setdefault(entry.address, entry).incarnation != entry.incarnation:
                self.twice.add(entry.address)
        self.members = sorted(observed.members, key=lambda member: member.id)
        self.voters = _voters(self.members)
        self.me = next((member for member in self.members if member.address == observed.me), None)
        self.kept = [member for member in self.members if self._keeps(member)]

    def _keeps(self, member: SetMember) -> bool:
        """Registered as it is; an address that two entries claim is left alone until a person has cleared it."""
        entry = self.wanted.get(member.address)
        return entry is not None and (
            entry.incarnation == member.incarnation or member is self.me or member.address in self.twice
        )

    def adopt(self) -> Step | None:
        """Tag my own entry: I am primary, so what I hold is what the set has agreed on."""
        entry = self.wanted.get(self.seen.me)
        if self.me is None or entry is None or entry.address in self.twice or entry.incarnation == self.me.incarnation:
            return None
        return Step(
            StepKind.ADOPT,
            f"records the incarnation of the primary's own data directory for {self.seen.me}",
            self.me.id,
            self.seen.me,
            entry.incarnation,
        )

    def remove(self) -> Step | None:
        """One member that is no longer registered: those that cost nothing first (no vote, then not healthy)."""
        removed = [member for member in self.members if member not in self.kept and member is not self.me]
        for member in sorted(removed, key=lambda member: (member.votes, member.healthy, member.id)):
            after = [voter for voter in self.voters if voter is not member]
            if not _quorate(after):
                self.notes.append(
                    f"{member.address} stays for now: without it only {sum(v.healthy for v in after)} of {len(after)}"
                    " voters would be healthy"
                )
                continue
            replaced = member.address in self.wanted
            reason = "its data directory was replaced, it is added again afterwards" if replaced else "not registered"
            return Step(StepKind.REMOVE, f"removes {member.address} ({reason})", member.id, member.address)
        return None

    def step_down(self) -> Step | None:
        """Hand over when I am the one who is no longer registered; the next primary removes me."""
        if self.me is None or self.me in self.kept:
            return None
        for member in self.kept:
            if member.votes and member.in_sync:
                return Step(StepKind.STEP_DOWN, f"steps down: {self.seen.me} is not registered and {member.address} is")
        self.notes.append(f"{self.seen.me} is not registered, but no registered voter is in sync to take over")
        return None

    def add(self) -> Step | None:
        """One registered address that the set lacks, without vote.

        Its _id is the version of the configuration that brings it: versions only grow, so no _id is ever used twice.
        """
        present = {member.address for member in self.members}
        for address, entry in self.wanted.items():
            if address in present or address in self.twice:
                continue
            if len(self.members) >= MAX_MEMBERS:
                self.notes.append(f"{address} cannot join: a replica set has at most {MAX_MEMBERS} members")
                return None
            fresh = max(self.seen.version, *(member.id for member in self.members)) + 1
            sentence = f"adds {entry.name} at {address} as member {fresh} without vote"
            return Step(StepKind.ADD, sentence, fresh, address, entry.incarnation)
        return None

    def vote(self) -> Step | None:
        """One vote more or one less on the way to the odd number of voters; asked again on every pass."""
        keeping = _voters(self.kept)
        goal = odd_goal(len(self.wanted))
        ready = [member for member in self.kept if not member.votes and member.in_sync]
        if len(keeping) < goal:
            return self._raise(keeping, goal, ready)
        if len(keeping) > goal:
            return self._lower(keeping, goal)
        return None

    def _raise(self, keeping: list[SetMember], goal: int, ready: list[SetMember]) -> Step | None:
        even_after = len(keeping) % 2 == 1
        if len(self.voters) >= MAX_VOTERS:
            self.notes.append(f"{MAX_VOTERS} members vote, of whom some are still to be removed")
        elif not ready:
            even = f"an even number ({len(keeping)}) votes" if len(keeping) % 2 == 0 else f"{len(keeping)} vote"
            self.notes.append(f"{even} until another member is in sync; {goal} are wanted")
        elif even_after and len(ready) < 2:
            self.notes.append(
                f"{ready[0].address} is in sync and gets its vote together with the next one: "
                f"{len(keeping) + 1} voters tolerate no more failures than {len(keeping)}"
            )
        else:
            candidate = ready[0]
            sentence = f"gives {candidate.address} a vote: it is in sync, {len(keeping) + 1} of {goal} will vote"
            return Step(StepKind.RAISE, sentence, candidate.id, candidate.address)
        return None

    def _lower(self, keeping: list[SetMember], goal: int) -> Step | None:
        if len(keeping) == 2:
            self.notes.append("two members vote: an odd number would leave acknowledged writes on one disk only")
            return None
        # Safe for the majority: an unhealthy vote goes first, and when there is none, all who are left are healthy.
        spare = [voter for voter in keeping if voter is not self.me]
        candidate = min(spare, key=lambda voter: (voter.healthy, -voter.id))
        return Step(
            StepKind.LOWER,
            f"takes the vote of {candidate.address}: {goal} voters are wanted",
            candidate.id,
            candidate.address,
        )

    def tune(self) -> Step | None:
        """The election timings of the primary's config file."""
        if self.seen.settings == self.seen.wanted:
            return None
        new = self.seen.wanted
        return Step(
            StepKind.TUNE,
            f"sets the election timeout to {new.election_timeout_ms} ms, heartbeats to {new.heartbeat_ms} ms",
        )


def plan(observed: Observed) -> Step:
    """The next single safe step for this observation; called by the primary's daemon on every pass.

    StepKind.NOTHING carries the sentence why: all is as registered, or what is being waited for.
    """
    if observed.primary != observed.me:
        reason = f"{observed.primary} is primary and decides" if observed.primary else "there is no primary"
        return Step(StepKind.NOTHING, reason)
    if not observed.committed:
        return Step(StepKind.NOTHING, "waits until a majority has the previous configuration")
    rules = _PlannerRules(observed)
    if not _quorate(rules.voters):
        healthy = sum(voter.healthy for voter in rules.voters)
        return Step(StepKind.NOTHING, f"only {healthy} of {len(rules.voters)} voters are healthy, no change is safe")
    if not rules.kept:
        return Step(
            StepKind.NOTHING, "none of the members is registered in etcd; restart their daemons to register them"
        )
    rules.notes.extend(
        f"address {address} is registered by two data directories; delete the entry of the one that is gone"
        for address in sorted(rules.twice)
    )
    for rule in (rules.adopt, rules.remove, rules.step_down, rules.add, rules.vote, rules.tune):
        step = rule()
        if step is not None:
            return step
    summary = f"{len(rules.members)} members, {len(rules.voters)} voters, as registered"
    if len(rules.wanted) % 2 == 0:
        summary += "; one more voter would tolerate no more failures"
    return Step(StepKind.NOTHING, "; ".join(rules.notes) or summary)


def next_config(config: Mapping[str, Any], step: Step, timings: ElectionTimings) -> dict[str, Any]:
    """The configuration document for replSetReconfig that carries out one step on the document that was observed.

    Everything else in it is kept: fields of newer servers and what a person has set by hand.
    """
    document = copy.deepcopy(dict(config))
    document["version"] = config["version"] + 1
    members = document["members"]
    for member in members:
        if member["_id"] != step.id:
            continue
        if step.kind is StepKind.RAISE:
            member.update(votes=1, priority=1)
        elif step.kind is StepKind.LOWER:
            member.update(votes=0, priority=0)
        elif step.kind is StepKind.ADOPT:
            member["tags"] = {**member.get("tags", {}), TAG: step.incarnation}
    if step.kind is StepKind.REMOVE:
        document["members"] = [member for member in members if member["_id"] != step.id]
    elif step.kind is StepKind.ADD:
        members.append(
            {"_id": step.id, "host": step.address, "votes": 0, "priority": 0, "tags": {TAG: step.incarnation}}
        )
    elif step.kind is StepKind.TUNE:
        document["settings"] = {
            **document.get("settings", {}),
            "electionTimeoutMillis": timings.election_timeout_ms,
            "heartbeatIntervalMillis": timings.heartbeat_ms,
        }
    return document
