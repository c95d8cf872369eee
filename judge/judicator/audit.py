"""The audit trail: who had what done, from where, and what became of it (docs/protocol.md, Audit).

An entry is written before an action, another one before its end is told; what cannot be noted is not done. Entries are
only added: nothing here or elsewhere changes one, and only retention removes them, by `audit_days`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import hashlib
import logging
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from bson import ObjectId
from pymongo.errors import DuplicateKeyError, PyMongoError

from judge.common import clock
from judge.common.errors import JudgeError
from judge.common.text import one_line
from judge.judicator.database import Database, aggregate
from judge.judicator.documents import AuditDocument, TaskDocument, first_id, iso
from judge.judicator.people.rates import TAKING, Rates, noting, taking
from judge.model import messages as m
from judge.model.audit import Action, AuditEntry, AuditQuery, AuditReply, By, Note, TokensSeen
from judge.model.visibility import ProblemChange
from judge.mongodb.store import Bson
from judge.rpc.server import Peer

log = logging.getLogger(__name__)

_TEXT: Final = 300
_LISTED: Final = 40
_BATCH: Final = 500
# Acts of one person of role user within an hour: more than anybody does, and few for what is kept for ever.
HOURLY: Final = 300
_HOUR: Final = 3600
# Judicators' clocks differ by fewer seconds.
_APART: Final = 60
# Fields of requests from which nothing is derived that is kept.
_SECRET: Final = frozenset({"password", "old", "secret"})
_UNHASHED: Final[Any] = dict.fromkeys(_SECRET, True) | {"users": {"__all__": {"password"}}}


@dataclasses.dataclass(frozen=True)
class Act:
    """One action, as the trail names it. `content` is the hash of the request: two tries of one call have the same."""

    action: Action
    object: str
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    content: str = ""


# Tells the subject of a call, by its request and who asks; None when it is nothing for the trail. May ask the database.
Describe = Callable[[Any, Peer], Awaitable[Act | None]]
Method = Callable[[Any, Peer], Awaitable[m.Message]]


def bounded(value: Any) -> Any:
    """A detail as it is kept: small, and its texts on one line."""
    if isinstance(value, str):
        return one_line(value)[:_TEXT]
    if isinstance(value, int | float | bool) or value is None:
        return value
    if isinstance(value, Mapping):
        return {bounded(str(key)): bounded(inner) for key, inner in list(value.items())[:_LISTED]}
    rest = len(value) - _LISTED
    return [*(bounded(item) for item in value[:_LISTED]), *([f"and {rest} more"] if rest > 0 else [])]


class Audit:
    def __init__(self, database: Database) -> None:
        self._col = database.audit
        self._rates = Rates(database)

    async def write(self, peer: Peer, act: Act, outcome: str, details: Mapping[str, Any] | None = None) -> bool:
        """Add one entry; False when an earlier try of this call has added it. Raises PyMongoError."""
        details_of_act = {**act.details, **(details or {})}
        act = dataclasses.replace(
            act, details={key: value for key, value in details_of_act.items() if value is not None}
        )
        key = f"{peer.by.call or uuid.uuid4().hex}/{act.action}/{bounded(act.object)}/{act.content}/{outcome}"
        return await self._insert(_entry(peer.name, peer.by, act, outcome, key))

    async def _insert(self, entry: AuditDocument) -> bool:
        try:
            await self._col.insert_one(entry)
        except DuplicateKeyError:
            return False
        return True

    async def record(self, describe: Describe, method: Method, request: Any, peer: Peer) -> m.Message:
        """Answer a call with its entries: none is begun that cannot be noted, none is answered before its end is.

        LimitError, which is not noted, for a person without rights who has had too much done within an hour.
        """
        if not peer.by.call:
            peer = dataclasses.replace(peer, by=peer.by.model_copy(update={"call": uuid.uuid4().hex}))
        act = await describe(request, peer)
        if act is None:
            return await method(request, peer)
        act = dataclasses.replace(act, content=_hash(request))
        async with self._rate_limited(peer, act) as recorded:
            if recorded and not await self.write(peer, act, "begun"):
                peer = dataclasses.replace(peer, again=True)
                if await self._changed_since(peer, act):
                    act = dataclasses.replace(act, content=f"{act.content}/{uuid.uuid4().hex}")
                    await self.write(peer, act, "begun")
            try:
                reply = await method(request, peer)
            except Exception as exc:
                if recorded:
                    outcome = "refused" if isinstance(exc, JudgeError) else "failed"
                    await self._write_end(peer, act, outcome, {"error": str(exc) or type(exc).__name__})
                raise
            if not act.object:  # it has come to be by this call
                object_id = getattr(reply, "id", None) or getattr(reply, "name", "")
                act = dataclasses.replace(act, object=str(object_id))
            await self.write(peer, act, "done", details_of(reply))
            return reply

    async def _changed_since(self, peer: Peer, act: Act) -> bool:
        """Whether anything else was done to the same thing since the tries that are noted: so it is done anew."""
        own_keys = f"^{re.escape(f'{peer.by.call}/{act.action}/')}.*/{act.content}/"
        entries = await self._col.find({"key": {"$regex": own_keys}}, {"object": 1}).to_list()
        if not entries:
            return True
        # Its beginning may not have known yet what it is about.
        objects = sorted({entry["object"] for entry in entries} - {""}) or [""]
        since = first_id(max(entry["_id"].generation_time for entry in entries), -_APART)
        query: Bson = {"object": {"$in": objects}, "_id": {"$gte": since}, "key": {"$not": {"$regex": own_keys}}}
        return await self._col.find_one(query, {"_id": 1}) is not None

    @contextlib.asynccontextmanager
    async def _rate_limited(self, peer: Peer, act: Act) -> AsyncIterator[bool]:
        """Say whether its start and refusals are noted: nobody fills the trail, or buries in it what they have done.

        A thief of a token cannot use up the counts of its owner's calls that take rights away: of these, whatever else
        was done within the hour, only what succeeds counts, and is noted.
        """
        if peer.by.role != "user":
            yield True
            return
        count = await self._rates.take(noting(peer.by.actor), HOURLY, _HOUR)
        if not count.beyond:
            yield True
            return
        key = taking(peer.by.actor, act.action)
        if act.action in TAKING:
            count = await self._rates.take(key, HOURLY, _HOUR)
        if count.beyond:
            raise count.refusal(
                f"'{peer.by.actor}' has had {HOURLY} things done within an hour that are noted; "
                f"try again in {count.seconds} s"
            )
        try:
            yield False
        except JudgeError:
            await self._rates.give_back(key, HOURLY)
            raise

    async def _write_end(self, peer: Peer, act: Act, outcome: str, details: Mapping[str, Any]) -> None:
        """The end of what was not done: nothing is acknowledged, so its answer does not depend on this entry."""
        try:
            await self.write(peer, act, outcome, details)
        except PyMongoError as exc:
            log.warning("that %s was %s cannot be noted in the audit trail: %s", act.action, outcome, str(exc)[:200])

    # --- what gateways tell ------------------------------------------------------------------------------------

    async def note(self, request: Note, peer: Peer) -> m.Empty:
        """Something that has happened at a gateway, or that a person's command says it has done."""
        act = Act(request.action, request.object, request.details, _hash(request))
        await self.write(peer, act, "done")
        return m.Empty()

    async def tokens(self, request: TokensSeen, peer: Peer) -> m.Empty:
        """Note what has changed in a gateway's tokens since the last entry about them.

        That entry is what is compared with, and its successor has a fixed key: several processes of a gateway may tell
        the same change at the same moment, and it is noted once.
        """
        now = sorted(f"{token.user} {token.role} {token.fingerprint}" for token in request.tokens)
        while True:
            latest = {"action": "tokens.change", "gateway": peer.name}
            last = await self._col.find_one(latest, sort=[("number", -1)])
            before, number = (set(last["tokens"]), last["number"] + 1) if last is not None else (set[str](), 1)
            if before == set(now) and last is not None:
                return m.Empty()
            appeared, vanished = sorted(set(now) - before), sorted(before - set(now))
            changes = {"tokens": len(now), "appeared": appeared, "vanished": vanished}
            act = Act("tokens.change", peer.name, changes)
            entry = _entry(peer.name, By(), act, "done", f"tokens/{peer.name}/{number}")
            if await self._insert({**entry, "number": number, "tokens": now}):
                log.info(
                    "tokens of gateway '%s': %d, %d appeared, %d vanished",
                    *(peer.name, len(now), len(appeared), len(vanished)),
                )
                return m.Empty()
            await asyncio.sleep(0)

    # --- people ------------------------------------------------------------------------------------------------

    async def search(self, request: AuditQuery) -> AuditReply:
        """Entries, newest first."""
        hidden = {"key": 0, "tokens": 0, "number": 0}
        cursor = self._col.find(query(request), hidden, sort=[("_id", -1)], limit=request.limit + 1)
        docs = await cursor.to_list()
        more = len(docs) > request.limit
        entries = [to_entry(doc) for doc in docs[: request.limit]]
        return AuditReply(entries=entries, next=entries[-1].id if more else None)

    async def remove(self, days: float, _: Any) -> tuple[Any, int]:
        """A step of retention: entries older than `days` (0: none); the last about each gateway's tokens stays."""
        if not days:
            return None, 0
        before = clock.wall() - datetime.timedelta(days=days)
        old = self._col.find({"_id": {"$lt": first_id(before)}}, {"_id": 1}, sort=[("_id", 1)])
        ids = [doc["_id"] async for doc in old.limit(_BATCH)]
        latest = await self._latest_tokens()
        obsolete = [entry_id for entry_id in ids if entry_id not in latest]
        if obsolete:
            await self._col.delete_many({"_id": {"$in": obsolete}})
        return (0 if obsolete else None), len(obsolete)

    async def _latest_tokens(self) -> set[ObjectId]:
        groups: list[Bson] = [
            {"$match": {"action": "tokens.change"}},
            {"$sort": {"gateway": 1, "number": 1}},
            {"$group": {"_id": "$gateway", "last": {"$last": "$_id"}}},
        ]
        return {row["last"] for row in await aggregate(self._col, groups)}


def _entry(gateway: str, by: By, act: Act, outcome: str, key: str) -> AuditDocument:
    return {
        "_id": ObjectId(),
        "key": key,
        "at": clock.wall(),
        "actor": bounded(by.actor),
        "role": by.role,
        "action": act.action,
        "object": bounded(act.object),
        "origin": bounded(by.origin),
        "gateway": gateway,
        "trace": by.trace,
        "call": by.call,
        "outcome": outcome,
        "details": bounded(act.details),
    }


def details_of(reply: m.Message) -> dict[str, Any]:
    """The parts of a reply that belong to the trail: small figures and names, by the fields that replies have."""
    fields = ("tests", "total", "skipped", "changed", "deleted", "bytes", "left", "until")
    details = {name: value for name in fields if (value := getattr(reply, name, None)) is not None}
    task = getattr(reply, "task", None)
    return details if task is None else {**details, "submission": task.id}


def query(request: AuditQuery) -> Bson:
    conditions: Bson = {
        name: value for name in ("actor", "object", "origin") if (value := getattr(request, name)) is not None
    }
    if request.action is not None:
        whole = not request.action.endswith(".")
        conditions["action"] = request.action if whole else {"$regex": f"^{re.escape(request.action)}"}
    ids: Bson = {}
    if request.since is not None:
        ids["$gte"] = first_id(request.since)
        conditions.setdefault("at", {})["$gte"] = request.since
    if request.until is not None:
        ids["$lt"] = first_id(request.until, 1)
        conditions.setdefault("at", {})["$lt"] = request.until
    if request.before is not None:
        ids["$lt"] = min(ObjectId(request.before), ids.get("$lt", ObjectId(request.before)))
    return {**conditions, "_id": ids} if ids else conditions


def to_entry(doc: AuditDocument) -> AuditEntry:
    fields = {name: value for name, value in doc.items() if name in AuditEntry.model_fields}
    return AuditEntry.stored({**fields, "id": str(doc["_id"]), "at": iso(doc["at"])})


def _hash(request: m.Message) -> str:
    return hashlib.sha256(request.model_dump_json(exclude=_UNHASHED).encode()).hexdigest()[:32]


# --- what the calls of people are about --------------------------------------------------------------------------


def about(action: Action, field: str, *details: str) -> Describe:
    """A call that is always for the trail: about `field` of its request, with some of its other fields."""

    async def describe(request: Any, _: Peer) -> Act:
        return Act(action, str(getattr(request, field)), {name: getattr(request, name) for name in details})

    return describe


async def describe_import(request: Any, _: Peer) -> Act:
    """The manifest is named by its hash; the reply tells the problem's name."""
    return Act("problem.import", "", {"manifest": request.manifest, "visible": request.visible})


async def describe_change(request: ProblemChange, _: Peer) -> Act:
    return Act("problem.change", request.name, request.model_dump(mode="json", exclude_defaults=True, exclude={"name"}))


async def describe_drain(request: Any, _: Peer) -> Act:
    return Act("executor.drain" if request.drain else "executor.resume", request.executor, {"reason": request.reason})


async def describe_rejudging(request: Any, _: Peer) -> Act:
    """A rejudging has no number yet; the reply tells it."""
    conditions = request.filter.model_dump(mode="json", exclude_defaults=True)
    return Act("rejudging.start", "", {"filter": conditions, "reason": request.reason})


async def describe_behalf(request: m.Submission, peer: Peer) -> Act | None:
    if not peer.by.actor or peer.by.actor == request.user:
        return None
    return Act("submission.behalf", request.user, {"problem": request.problem, "language": request.language})


def describe_cancel(read: Callable[[ObjectId], Awaitable[TaskDocument]]) -> Describe:
    """Cancelling a submission of somebody else."""

    async def describe(request: m.TaskRef, peer: Peer) -> Act | None:
        if not peer.by.actor:
            return Act("submission.cancel", request.id)
        doc = await read(ObjectId(request.id))
        return None if doc["user"] == peer.by.actor else Act("submission.cancel", request.id, {"user": doc["user"]})

    return describe
