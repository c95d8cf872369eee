"""Executors: incarnations, sequence numbers, drain, life and death (seed: Report's first lines).

The leader remembers the reports of each executor. The database hears of an executor when something about it changes:
its process, what it can do, how much it does (once a second), and every ten seconds that it lives.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from prometheus_client import Counter
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from judge.common import clock
from judge.common.errors import NotFoundError, StaleError
from judge.judicator.batching import Batcher
from judge.judicator.database import Database
from judge.judicator.documents import ExecutorDocument, iso
from judge.judicator.queue.order import Capacity, ExecutorCapacity
from judge.model.messages import ReportRequest
from judge.model.overview import ExecutorState
from judge.mongodb.store import Bson

log = logging.getLogger(__name__)

STALE_REPORTS = Counter("judge_stale_reports_total", "Reports refused: an older incarnation or sequence number")

# Replaced incarnations that are remembered of an executor; it restarts rarely enough.
_PAST = 200
_CACHE: Final = 1.0
# Seconds after which the database hears of other numbers, and of an executor without news.
_NUMBERS, _ALIVE = 1.0, 10.0
# An executor accepts work if it asked for some within so many seconds; idle ones ask every second or so.
_ASKED: Final = 15.0
_CAPACITY: Final[Bson] = {
    "info.languages": 1,
    "info.abilities": 1,
    "info.slots": 1,
    "alive": 1,
    "drain": 1,
    "executing": 1,
    "idle": {"$subtract": ["$$NOW", "$asked"]},
}
# Those who have one look at the executors together.
_LOOKS: Final = 1000


@dataclass
class _LastReport:
    """The newest report of an executor, and the one that was stored last. Monotonic seconds."""

    request: ReportRequest
    asked_at: float | None
    stored: ReportRequest
    stored_at: float


class Executors:
    def __init__(self, database: Database) -> None:
        self._last_reports: dict[str, _LastReport] = {}
        # Called with what the executors can do, each time that it is read.
        self.on_capacity: Callable[[Capacity], None] = lambda _: None
        self._db = database
        self._executors = database.executors
        self._working = Capacity({}, 0)
        # All known executors, by name.
        self._capacities: Mapping[str, ExecutorCapacity] = {}
        self._read_at: float | None = None
        self._looks: Batcher[None, Capacity] = Batcher(self._read_capacities, _LOOKS)

    async def take_report(self, request: ReportRequest) -> None:
        """Note a report, or refuse it with StaleError. The database hears of it if something has changed."""
        now = clock.monotonic()
        last = self._last_reports.get(request.executor)
        if last is not None and last.request.incarnation == request.incarnation:
            if request.sequence < last.request.sequence:
                self._refuse(_older(request, last.request.sequence))
            before, age = last.stored, now - last.stored_at
            numbers = (len(request.executing), request.vacant) != (len(before.executing), before.vacant)
            same = request.info is None or request.info == before.info
            if same and age < (_NUMBERS if numbers else _ALIVE):
                last.request = request
                last.asked_at = now if request.vacant else last.asked_at
                return
        await self.report(request)
        if last is None or request.info != last.request.info:
            self._read_at = None
        asked = now if request.vacant else None if last is None else last.asked_at
        self._last_reports[request.executor] = _LastReport(request, asked, request, now)

    def sequence(self, name: str, incarnation: str) -> int | None:
        """The number of the newest report of this process that this judicator knows."""
        last = self._last_reports.get(name)
        return last.request.sequence if last is not None and last.request.incarnation == incarnation else None

    def forget_reports(self) -> None:
        """Remember no report: another judicator may have heard later ones."""
        self._last_reports.clear()

    async def report(self, request: ReportRequest) -> ExecutorDocument:
        """Store a report, or refuse it with StaleError; returns the executor's document after it.

        The same sequence number twice is the same report again (its answer got lost) and is let through: what it
        does is safe to repeat. An incarnation that is not known replaces the one before, for good.
        """
        fields: ExecutorDocument = {
            "sequence": request.sequence,
            "alive": True,
            "executing": len(request.executing),
            "vacant": request.vacant,
            "reported": clock.wall(),
        }
        if request.info is not None:
            fields["info"] = request.info.model_dump(mode="json")
        asks: Bson = {"$currentDate": {"asked": True}} if request.vacant else {}
        while True:
            same = {"_id": request.executor, "incarnation": request.incarnation}
            doc = await self._update({**same, "sequence": {"$lte": request.sequence}}, {"$set": fields, **asks})
            if doc is not None:
                return doc
            document = await self._db.latest(self._executors, {"_id": request.executor})
            if document is None:
                doc = await self._insert(request, fields)
            elif document["incarnation"] == request.incarnation:
                # Not newer than this report: the same report was inserted in between by another judicator.
                if document["sequence"] > request.sequence:
                    self._refuse(_older(request, document["sequence"]))
            elif request.incarnation in document["past"]:
                self._refuse(
                    f"incarnation {request.incarnation} of executor '{request.executor}' was replaced by "
                    f"{document['incarnation']}; only one process may use this name, stop this one"
                )
            else:
                doc = await self._replace(request, document, fields)
            if doc is not None:
                self._read_at = None
                return doc

    @staticmethod
    def _refuse(sentence: str) -> None:
        STALE_REPORTS.inc()
        raise StaleError(sentence)

    async def _update(self, query: Bson, update: Bson) -> ExecutorDocument | None:
        return await self._executors.find_one_and_update(query, update, return_document=ReturnDocument.AFTER)

    async def _insert(self, request: ReportRequest, fields: ExecutorDocument) -> ExecutorDocument | None:
        doc: ExecutorDocument = {
            "_id": request.executor,
            "incarnation": request.incarnation,
            "generation": 1,
            "past": [],
            "drain": False,
            "drain_reason": "",
            "info": None,
            **fields,
        }
        if request.vacant:
            doc["asked"] = clock.wall()
        try:
            await self._executors.insert_one(doc)
        except DuplicateKeyError:
            return None
        log.info("executor '%s' is new: incarnation %s", request.executor, request.incarnation)
        return doc

    async def _replace(
        self, request: ReportRequest, document: ExecutorDocument, fields: ExecutorDocument
    ) -> ExecutorDocument | None:
        doc = await self._update(
            {"_id": request.executor, "incarnation": document["incarnation"]},
            {
                "$set": {**fields, "incarnation": request.incarnation},
                "$inc": {"generation": 1},
                "$push": {"past": {"$each": [document["incarnation"]], "$slice": -_PAST}},
            },
        )
        if doc is not None:
            log.warning(
                "executor '%s' has restarted: incarnation %s replaces %s",
                request.executor,
                request.incarnation,
                document["incarnation"],
            )
        return doc

    async def all(self) -> list[ExecutorDocument]:
        return await self._executors.find(sort=[("_id", 1)]).to_list()

    async def capacities(self) -> Mapping[str, ExecutorCapacity]:
        """All known executors by name, up to a second old."""
        await self.capacity()
        return self._capacities

    async def capacity(self) -> Capacity:
        """The executors that take work, their languages and slots; up to a second old."""
        if self._read_at is None or clock.monotonic() - self._read_at > _CACHE:
            return await self._looks.ask(None)
        return self._working

    async def _read_capacities(self, askers: Sequence[None]) -> list[Capacity]:
        docs = await self._executors.find({}, _CAPACITY).to_list()
        now = clock.monotonic()
        self._capacities = {doc["_id"]: _capacity(doc, self._last_reports.get(doc["_id"]), now) for doc in docs}
        working = [doc for doc in docs if doc["alive"] and not doc["drain"]]
        slots = sum((doc.get("info") or {}).get("slots", 0) for doc in working)
        self._working = Capacity({doc["_id"]: self._capacities[doc["_id"]] for doc in working}, slots)
        self._read_at = clock.monotonic()
        self.on_capacity(self._working)
        return [self._working] * len(askers)

    async def drain(self, name: str, *, drain: bool, reason: str) -> ExecutorDocument:
        """Set or clear the drain flag, which the executor hears with its next report; NotFoundError."""
        doc = await self._update({"_id": name}, {"$set": {"drain": drain, "drain_reason": reason if drain else ""}})
        if doc is None:
            raise NotFoundError(f"there is no executor '{name}'; `judgectl executors` lists them")
        self._read_at = None
        log.info("executor '%s' %s", name, f"drains: {reason or 'no reason given'}" if drain else "takes work again")
        return doc

    async def declare_dead(self, doc: ExecutorDocument) -> bool:
        """Mark an executor dead if it is still as silent as `doc` says (the leader's sweep)."""
        same = {"_id": doc["_id"], "incarnation": doc["incarnation"], "sequence": doc["sequence"], "alive": True}
        done = await self._executors.update_one(same, {"$set": {"alive": False, "vacant": 0}})
        self._last_reports.pop(doc["_id"], None)
        self._read_at = None
        return bool(done.modified_count)

    async def forget(self, doc: ExecutorDocument) -> bool:
        """Delete a dead executor that was not heard since (seed: find_and_delete); a drained one is remembered."""
        same = {"_id": doc["_id"], "incarnation": doc["incarnation"], "sequence": doc["sequence"]}
        done = await self._executors.delete_one({**same, "alive": False, "drain": False})
        return bool(done.deleted_count)


def _older(request: ReportRequest, newest: int) -> str:
    return (
        f"report {request.sequence} of executor '{request.executor}' is older than report {newest}, "
        "which was heard already; send the next one"
    )


def _capacity(doc: ExecutorDocument, last: _LastReport | None, now: float) -> ExecutorCapacity:
    idle = cast("Bson", doc).get("idle")
    asks = idle is not None and idle < _ASKED * 1000
    if last is not None and last.asked_at is not None and now - last.asked_at < _ASKED:
        asks = True
    return ExecutorCapacity(
        languages=languages(doc),
        abilities=abilities(doc),
        accepts=doc["alive"] and asks,
        alive=doc["alive"],
        drained=doc["drain"],
        busy=(len(last.request.executing) if last is not None else doc["executing"]) > 0,
    )


def languages(doc: ExecutorDocument) -> frozenset[str]:
    """The languages that an executor can judge, by its document; commands need none."""
    return frozenset((doc.get("info") or {}).get("languages", {}))


def abilities(doc: ExecutorDocument) -> frozenset[str]:
    """The abilities of an executor beside its languages, of `messages.ABILITIES` and later ones."""
    return frozenset((doc.get("info") or {}).get("abilities", []))


def to_state(doc: ExecutorDocument, executing: int | None = None) -> ExecutorState:
    """The message for people; `executing` is what the tasks say, when it is known."""
    count = doc["executing"] if executing is None else executing
    return ExecutorState.stored({**doc, "name": doc["_id"], "executing": count, "reported": iso(doc["reported"])})
