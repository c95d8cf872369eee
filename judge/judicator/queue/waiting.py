"""The waiting tasks: where a new one goes, which of them an executor may take, and how many slots each user holds.

Each question is answered from the ends of an index, so that it costs the same whether ten tasks wait or a million.
`waits` is set while a task waits, and says where:

- FRONT: hand-outs look at it. A lane (the waiting tasks of one user, rank and language) has at least one here.
- BEHIND: its lane has enough in front. It moves there, in order, when those are handed out. So the many tasks of a
  user who may hold no more slots are passed by stepping over a few.
- RUN: a run of a rejudging.

Extra tasks in front do no harm: the order is that of the keys. `tried` names the executors that failed the task.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from bson import MaxKey, ObjectId
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from judge import clock
from judge.allowance import Allowances
from judge.judicator.database import Database, aggregate
from judge.judicator.documents import TaskDocument, allowance_of
from judge.judicator.gathering import Gathering
from judge.judicator.queue import order, placing
from judge.judicator.queue.placing import (
    BEHIND,
    FEW,
    FRONT,
    OWN,
    ROOM,
    Key,
    Lane,
    Pipeline,
    Place,
    Track,
    WantedPlace,
    span,
)
from judge.model.messages import ABILITIES, TOOLS
from judge.mongodb.store import Bson

log = logging.getLogger(__name__)

RUN: Final = "run"
_RUNS: Final[Bson] = {"waits": RUN}
_READY: Final = [FRONT, RUN]
_FAILED: Final[Bson] = {"waits": {"$in": _READY}, "tried": {"$gt": ""}}

# The index that knows every waiting task by its user, and covers all counts; its keys.
LANE: Final = "lane"
LANE_KEYS: Final = ("waits", "user", "rank", "needs", "order", "arrival", "priority")

# A lane's front is filled up to ROOM when it has no more than this.
_LOW: Final = 8
# Lanes that one pass of `mend` looks at.
_MEND: Final = 200
# The waiting tasks of a user are counted up to this number where no role has a cap.
_MOST: Final = 10_000
_FIELDS: Final = {"attempt": 1, "needs": 1, "rank": 1, "order": 1, "arrival": 1, "user": 1, "tried": 1} | {
    "submission.role": 1,
    "quota": 1,
    "wants": 1,
    # Milliseconds since it came back, by the database's clock; null for a task of an older release.
    "waited": {"$subtract": ["$$NOW", "$returned"]},
}
# Tasks that came back and that this executor failed are read up to so many, to look for eligible ones.
_BACK: Final = 200

# For more ranges of an index than this MongoDB sorts all that waits (internalQueryMaxScansToExplode).
_RANGES: Final = 200

# Seconds from an add behind to the look whether its lane has anything in front; the adds of that time share it.
_GLANCE: Final = 0.1
# Places that are asked for at once, and users who are remembered to have many tasks.
_PLACES: Final = 20
_MANY: Final = 10_000
# Seconds for which rounds are remembered: from an old one on much may have been handed out by others.
_ROUNDS: Final = 2.0


class QueueListener(Protocol):
    """Hears at once of the changes that this judicator makes (the change stream tells of all, a little later)."""

    def queued(self, task: ObjectId, attempt: int, needs: str) -> None:
        """A task waits in front."""

    def room(self, needs: Iterable[str]) -> None:
        """A user may hold one slot more, and has tasks waiting that need these languages."""

    def changed(self, task: ObjectId, version: int | None = None, *, done: bool = False) -> None:
        """People see a change of this task; it has this version now, where that is known, and perhaps is done."""

    def called(self, executor: str) -> None:
        """An executor has a reason to report now."""


@dataclass(frozen=True)
class RequestingExecutor:
    """An executor that asks for work, and the report by which it asks."""

    name: str
    incarnation: str
    sequence: int
    languages: frozenset[str]
    abilities: frozenset[str] = ABILITIES | TOOLS


@dataclass(frozen=True)
class Load:
    """The tasks of one user that wait, and those that executors have in hand; no runs of rejudgings."""

    waiting: int
    running: int


class Queue:
    """The waiting tasks of one cluster."""

    def __init__(self, database: Database, listener: QueueListener, allowances: Allowances) -> None:
        """`allowances` say how many slots a user of each role may hold."""
        self._tasks = database.tasks
        # A hand-out of a moment ago counts at once. A seat that it took would be refused anyway.
        self._newest = database.tasks.with_options(read_concern=ReadConcern("local"))
        self._listener = listener
        self._allowances = allowances
        self._mended: Sequence[Any] | None = None
        self._later: set[asyncio.Task[None]] = set()
        self._glances: set[Lane] = set()
        self._places: Gathering[WantedPlace, Place] = Gathering(self._find_places, _PLACES)
        self._fronts: Gathering[Lane, bool] = Gathering(self._have_front, _PLACES)
        self._many: set[str] = set()
        # The rounds of the last answers (placing.questions), None where they are of no use for now; and since when they
        # have been gathered.
        self._rounds: dict[Track, int | None] = {}
        self._rounds_since = clock.monotonic()

    # --- adding ------------------------------------------------------------------------------------------------

    async def place(self, lane: Lane, priority: str, capacity: order.Capacity) -> Place:
        """The facts that decide a new task's place in the class of this priority.

        They are one question to the database, and so are those of several tasks that come at once: apart, its parts
        would take three times as long.
        """
        return await self._places.ask(WantedPlace(lane, priority, capacity.languages))

    async def _find_places(self, wanted: Sequence[WantedPlace]) -> list[Place]:
        if clock.monotonic() - self._rounds_since > _ROUNDS:
            self._rounds, self._rounds_since = {}, clock.monotonic()
        rounds = {track: order for track, order in self._rounds.items() if order is not None}
        places = await self._placed(wanted, rounds)
        if places is None or any(at.now < rounds.get(one.track, 0) for one, at in zip(wanted, places, strict=True)):
            # It stands still while others are far on, or what was furthest has been deleted.
            self._rounds |= {one.track: None for one in wanted}
            places = await self._placed(wanted, {}) or []
        for one, at in zip(wanted, places, strict=True):
            if self._rounds.get(one.track, 0) is not None:
                self._rounds[one.track] = at.now
            if at.waiting is not None and at.waiting <= FEW:
                self._many.discard(one.lane[0])
        return places

    async def _placed(self, wanted: Sequence[WantedPlace], rounds: Mapping[Track, int]) -> list[Place] | None:
        """The places; None where too much was handed out since one of these rounds to be read."""
        answers = await self._ask(placing.questions(wanted, self._many, rounds))
        if more := placing.too_many(answers):
            if len(self._many) > _MANY:
                self._many.clear()
            self._many |= more
            of_many = [one for one in wanted if one.lane[0] in more]
            answers |= await self._ask(placing.questions(of_many, more, rounds))
        if placing.cut_off(answers):
            return None
        return [placing.place(one, answers) for one in wanted]

    async def _ask(self, asked: Mapping[Key, Pipeline]) -> dict[Key, Sequence[Bson]]:
        """The answers, by one command, as the newest writes left them."""
        rows = await aggregate(self._newest, placing.union(self._newest.name, asked))
        return placing.by_user(placing.sorted_out(asked, rows))

    async def _lengths(self, lane: Lane) -> tuple[int, int]:
        """The numbers in front, up to a few, and behind, up to one: by keys alone, as every hand-out asks."""
        asked: dict[Key, Pipeline] = {
            (place,): placing.number({**_lane(lane), "waits": place}, most)
            for place, most in ((FRONT, _LOW + 1), (BEHIND, 1))
        }
        found = placing.sorted_out(asked, await aggregate(self._tasks, placing.union(self._tasks.name, asked)))
        front, behind = (sum(int(row["n"]) for row in found[place,]) for place in (FRONT, BEHIND))
        return front, behind

    async def _look(self, lane: Lane) -> None:
        """Refill a lane that has nothing in front."""
        if not await self._fronts.ask(lane):
            await self.refill(lane)

    async def _have_front(self, lanes: Sequence[Lane]) -> list[bool]:
        """Says whether anything is in front, of lanes that may be the same; each is looked at once."""
        first = {lane: {**_lane(lane), "waits": FRONT} for lane in lanes}
        looks = (self._tasks.find_one(where, {"needs": 1, "_id": 0}, hint=LANE) for where in first.values())
        found = dict(zip(first, await asyncio.gather(*looks), strict=True))
        return [found[lane] is not None for lane in lanes]

    async def waiting(self, user: str, most: int) -> int:
        """The number of a user's tasks that wait, counted up to `most`; runs of rejudgings are not the user's."""
        mine = {"waits": {"$in": OWN}, "user": user}
        return await self._newest.count_documents(mine, limit=most, hint=LANE, comment="waiting")

    async def full(self, user: str, cap: int) -> bool:
        """Says whether `cap` tasks of a user wait; counts nothing while the ends of their orders show that fewer do."""
        mine: Bson = {"user": user, "waits": {"$in": OWN}}
        ends: dict[Key, Pipeline] = {
            (rank, way): placing.end({**mine, "rank": rank}, way) for rank in order.LIVE for way in (1, -1)
        }
        found = {key: int(rows[0]["n"]) for key, rows in (await self._ask(ends)).items() if rows}
        most = sum(span(found.get((rank, 1)), found.get((rank, -1))) for rank in order.LIVE)
        return most >= cap and await self.waiting(user, cap) >= cap

    async def load(self, user: str, cap: int = 0) -> Load:
        """The load of a user at this moment (whoami); waiting tasks are counted up to the highest cap, and `cap`."""
        running = {"executor": {"$gt": ""}, "done": False, "user": user, "rank": {"$in": order.LIVE}}
        roles = (self._allowances.user, self._allowances.judge, self._allowances.admin)
        most = max(cap, *(one.waiting or 0 for one in roles)) or _MOST
        waiting, held = await asyncio.gather(
            self.waiting(user, most), self._tasks.count_documents(running, hint="hands")
        )
        return Load(waiting, held)

    # --- handing out -------------------------------------------------------------------------------------------

    async def candidates(
        self, executor: RequestingExecutor, limit: int, capacity: order.Capacity, full: set[str]
    ) -> list[TaskDocument]:
        """Up to `limit` waiting tasks for an executor in order, none of the users in `full`; runs come last.

        Two small questions at once, as each part of a bigger one is planned anew: what nobody has failed, and whether
        there is anything else.
        """
        others = capacity.others(executor.name)
        ready: list[Bson] = [{"waits": {"$in": _READY}}]
        if len(executor.languages) >= _RANGES // 2:
            ready = [{"waits": FRONT}, _RUNS]
        if full:  # by another index, which leads past their tasks
            ready = [{"waits": FRONT, "user": {"$nin": sorted(full)}}, _RUNS]
        able: Bson = {}
        # Of an older release, while a cluster is upgraded; or without a program that not all have.
        if not executor.abilities >= ABILITIES | TOOLS:
            able["wants"] = {"$not": {"$elemMatch": {"$nin": sorted(executor.abilities)}}}

        async def first(tried: str) -> list[TaskDocument]:
            failed = tried.split(",")
            query = {**able, "tried": tried, "needs": {"$in": ["", *sorted(executor.languages)]}}
            sort = [(key, 1) for key in order.ORDER]
            most = max(limit, _BACK) if executor.name in failed else limit
            looks = (self._tasks.find({**where, **query}, _FIELDS, sort=sort, limit=most) for where in ready)
            tasks = [task for found in await asyncio.gather(*(look.to_list() for look in looks)) for task in found]
            if executor.name not in failed:
                return tasks
            return [task for task in tasks if _eligible(executor.name, task, failed, others)]

        any_failed = self._tasks.find_one(_FAILED, {"tried": 1, "_id": 0})
        tasks, failed = await asyncio.gather(first(""), any_failed)
        if failed is not None:
            for tried in await self._tasks.distinct("tried", _FAILED):
                tasks += await first(tried)
        tasks.sort(key=lambda task: order.precedence(task, executor.name, others))
        return tasks[:limit]

    async def seated(
        self, tasks: list[TaskDocument], capacity: order.Capacity, full: set[str]
    ) -> list[tuple[TaskDocument, int | None]]:
        """The candidates that their users' shares allow, each with its seat (None: no limit).

        A user's tasks in hand have different numbers below what the share allows, and a unique index sees to it: so
        the share holds whoever hands out at the same moment. Users who hold theirs are added to `full`.
        """
        caps = [self._most(task, capacity) for task in tasks]
        users = sorted({task["user"] for task, cap in zip(tasks, caps, strict=True) if cap is not None})
        taken = dict(zip(users, await asyncio.gather(*map(self._seats, users)), strict=True))
        allowed: list[tuple[TaskDocument, int | None]] = []
        for task, cap in zip(tasks, caps, strict=True):
            if cap is None:
                allowed.append((task, None))
                continue
            seats = taken[task["user"]]
            if len(seats) >= cap:
                full.add(task["user"])
                continue
            seat = next(number for number in range(cap) if number not in seats)
            seats.add(seat)
            allowed.append((task, seat))
        return allowed

    def _most(self, task: TaskDocument, capacity: order.Capacity) -> int | None:
        """The most slots that the user of a waiting task may hold; None without a limit."""
        if order.is_rejudge(task["rank"]):
            return None
        return order.most_slots(allowance_of(task, self._allowances).slot_share, capacity.slots)

    async def _seats(self, user: str) -> set[int]:
        found = self._newest.find({"user": user, "seat": {"$gte": 0}}, {"seat": 1, "_id": 0})
        return {one["seat"] async for one in found}

    async def freed(self, user: str) -> None:
        """A task of this user holds its slot no more: tasks that waited for that may be handed out."""
        found = await asyncio.gather(*(self._needs(user, rank) for rank in order.LIVE))
        if needs := {one for some in found for one in some}:
            self._listener.room(needs)

    async def _needs(self, user: str, rank: int) -> list[str]:
        """The languages of what a user has in front; the index gives each with one step, however many tasks wait."""
        lanes: list[Bson] = [
            {"$match": {"waits": FRONT, "user": user, "rank": rank}},
            {"$sort": {"needs": 1}},
            {"$group": {"_id": "$needs", "first": {"$first": "$needs"}}},
        ]
        return [row["_id"] for row in await aggregate(self._tasks, lanes, hint=LANE)]

    # --- lanes -------------------------------------------------------------------------------------------------

    async def refill(self, lane: Lane) -> int:
        """Move the next tasks of a lane to the front, when few are left there; how many."""
        front, behind = await self._lengths(lane)
        if front > _LOW or not behind:
            return 0
        found = self._tasks.find({**_lane(lane), "waits": BEHIND}, {"attempt": 1}, hint=LANE, limit=ROOM - front)
        docs = await found.sort([("order", 1), ("arrival", 1)]).to_list()
        ids = [doc["_id"] for doc in docs]
        await self._tasks.update_many({"_id": {"$in": ids}, "waits": BEHIND}, {"$set": {"waits": FRONT}}, hint="_id_")
        for doc in docs:
            self._listener.queued(doc["_id"], doc["attempt"], lane[2])
        return len(docs)

    def refill_later(self, lane: Lane) -> None:
        """Refill a lane, and let nobody wait for it."""
        self._do_later(lane, self.refill(lane))

    def look_later(self, lane: Lane) -> None:
        """A task was added behind: its lane's front may have been handed out meanwhile, which is soon looked at."""

        async def look() -> None:
            await asyncio.sleep(_GLANCE)
            self._glances.discard(lane)  # a task that comes from here on may be too late for this look
            await self._look(lane)

        if lane not in self._glances:
            self._glances.add(lane)
            self._do_later(lane, look())

    def _do_later(self, lane: Lane, work: Coroutine[Any, Any, object]) -> None:
        async def guarded() -> None:
            try:
                await work
            except PyMongoError as exc:
                log.warning("the queue of user '%s' moves up later, the database said: %s", lane[0], str(exc)[:200])

        task = asyncio.create_task(guarded())
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def mend(self) -> None:
        """Refill lanes with nothing in front: a judicator has died between a hand-out and `refill` (leader only)."""
        last = self._mended or (BEHIND, "", 0, "", 0)
        end = (BEHIND, MaxKey(), MaxKey(), MaxKey(), MaxKey())
        for _ in range(_MEND):
            found = self._tasks.find({}, {"user": 1, "rank": 1, "needs": 1, "_id": 0}, hint=LANE, limit=1)
            docs = await found.min(_bound(last)).max(_bound(end)).to_list()
            if not docs:
                self._mended = None
                return
            lane = (docs[0]["user"], docs[0]["rank"], docs[0]["needs"])
            await self._look(lane)
            last = self._mended = (BEHIND, *lane, MaxKey())


def _eligible(
    executor: str, task: TaskDocument, failed: Collection[str], others: Mapping[str, order.ExecutorCapacity]
) -> bool:
    milliseconds = cast("Bson", task).get("waited")
    waited = math.inf if milliseconds is None else milliseconds / 1000
    return order.eligible(executor, task["needs"], task.get("wants", ()), failed, others, waited)


def _bound(values: Sequence[Any]) -> list[tuple[str, Any]]:
    """A bound of LANE: keys beyond the values are at their end."""
    ends = [MaxKey()] * (len(LANE_KEYS) - len(values))
    return list(zip(LANE_KEYS, [*values, *ends], strict=True))


def lane_of(doc: TaskDocument) -> Lane:
    """The lane of a task."""
    return doc["user"], doc["rank"], doc["needs"]


def _lane(lane: Lane) -> Bson:
    return dict(zip(("user", "rank", "needs"), lane, strict=True))
