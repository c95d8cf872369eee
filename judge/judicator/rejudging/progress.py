"""Takes rejudgings on: judge finished submissions again, and change their verdicts all at once or not at all.

`starting → running → finished → applying → applied`, and `cancelled` from the first three (docs/rejudge.md). A
person's call moves the state with one compare-and-set (calls.py); what follows from a state is done by `advance`, at
the judicator that took the call and, when that dies, at the leader. Every step may be repeated at any time.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from prometheus_client import Counter
from pymongo.errors import PyMongoError

from judge.common import clock, failpoint
from judge.judicator import verdicts
from judge.judicator.database import Database
from judge.judicator.documents import RejudgingDocument
from judge.judicator.loops import Loops, every
from judge.judicator.rejudging.reruns import Reruns
from judge.model.rejudging import RejudgeState as State

log = logging.getLogger(__name__)

ENDED = Counter("judge_rejudgings_total", "Rejudgings that were applied or cancelled", ["state"])

_PERIOD: Final = 1.0
# A person's call waits so long for what follows from it; the rest goes on behind.
_PATIENCE: Final = 2.0
# Leavings are looked for once in so many passes.
_TIDY: Final = 10
_BRIEF: Final = {"members": 0}


class Rejudgings:
    def __init__(self, database: Database, reruns: Reruns, loops: Loops) -> None:
        self._loops = loops
        self._db = database
        self._col = database.rejudgings
        self._tasks = database.tasks
        self._reruns = reruns
        self._work: dict[int, asyncio.Task[None]] = {}
        self._passes = 0

    async def push(self, number: int) -> None:
        """Have the work done that follows from a state, and wait for it a little."""
        task = self._work.get(number)
        if task is not None and not task.done():
            # It may have looked at the state before this call changed it.
            await asyncio.wait({task}, timeout=_PATIENCE)
        if task is None or task.done():
            task = self._work[number] = asyncio.create_task(self._guarded(number))
        await asyncio.wait({task}, timeout=_PATIENCE)

    async def _guarded(self, number: int) -> None:
        try:
            await self.advance(number)
        except PyMongoError as exc:
            log.warning("rejudging %d is put off, the database does not answer: %s", number, str(exc)[:200])
        except Exception:
            log.exception("rejudging %d is put off after an unforeseen error; the leader tries again", number)
        finally:
            if self._work.get(number) is asyncio.current_task():
                del self._work[number]

    async def advance(self, number: int) -> None:
        steps: dict[str, Callable[[RejudgingDocument], Awaitable[bool]]] = {
            State.STARTING: self._starting,
            State.RUNNING: self.note_finished,
            State.APPLYING: self._applying,
            State.APPLIED: self._applied,
            State.CANCELLED: self._cancelled,
        }
        while True:
            doc = await self._col.find_one({"_id": number}, _BRIEF)
            step = None if doc is None or doc["settled"] else steps.get(doc["state"])
            if doc is None or step is None or not await step(doc):
                return

    async def _move(self, doc: RejudgingDocument, fields: RejudgingDocument) -> bool:
        """Compare-and-set from the state that `doc` shows."""
        done = await self._col.update_one({"_id": doc["_id"], "state": doc["state"]}, {"$set": fields})
        return bool(done.matched_count)

    async def _starting(self, doc: RejudgingDocument) -> bool:
        number = doc["_id"]
        whole = await self._col.find_one({"_id": number, "state": State.STARTING.value}, {"members": 1})
        if whole is None:
            return True
        await self._reruns.mark(number, whole["members"])
        failpoint.hit("rejudge-mark")
        async for _ in self._reruns.create(doc, whole["members"], clock.wall()):
            if not await self._col.find_one({"_id": number, "state": State.STARTING.value}, {"_id": 1}):
                return True  # cancelled meanwhile
        total = await self._tasks.count_documents({"rejudging": number, "rerun_of": None})
        late = doc["total"] - total  # taken by another rejudging between the choice and the marks
        await self._move(doc, {"state": State.RUNNING.value, "total": total, "skipped": doc["skipped"] + late})
        log.info("rejudging %d: %d runs wait, trace %s", number, total, doc["trace"])
        return True

    async def note_finished(self, doc: RejudgingDocument) -> bool:
        """Move a running rejudging on when all its runs are judged; whether they are."""
        if await self._reruns.unfinished(doc["_id"]):
            return False
        if await self._move(doc, {"state": State.FINISHED.value, "finished": clock.wall()}):
            log.info("rejudging %d is finished: it can be applied or cancelled, trace %s", doc["_id"], doc["trace"])
        return True

    async def _applying(self, doc: RejudgingDocument) -> bool:
        number = doc["_id"]
        await self._reruns.stage(number, doc["reason"])
        failpoint.hit("rejudge-staged")
        switch = {"_id": verdicts.SWITCH}
        await self._db.meta.update_one(switch, {"$setOnInsert": {"generation": 0, "folding": []}}, upsert=True)
        # This one write changes all its verdicts.
        await self._db.meta.update_one(
            {**switch, "folding": {"$ne": number}}, {"$push": {"folding": number}, "$inc": {"generation": 1}}
        )
        failpoint.hit("rejudge-switched")
        if await self._move(doc, {"state": State.APPLIED.value}):
            ENDED.labels("applied").inc()
            log.info("rejudging %d is applied: its verdicts are in force, trace %s", number, doc["trace"])
        return True

    async def _applied(self, doc: RejudgingDocument) -> bool:
        number = doc["_id"]
        await self._reruns.fold(number)
        failpoint.hit("rejudge-folded")
        await self._reruns.remove(number)
        await self._unswitch([number])
        failpoint.hit("rejudge-unswitched")
        return await self._settle(doc)

    async def _unswitch(self, numbers: list[int]) -> None:
        await self._db.meta.update_one(
            {"_id": verdicts.SWITCH, "folding": {"$in": numbers}},
            {"$pull": {"folding": {"$in": numbers}}, "$inc": {"generation": 1}},
        )

    async def _cancelled(self, doc: RejudgingDocument) -> bool:
        await self._reruns.stop(doc["_id"])
        failpoint.hit("rejudge-stopped")
        await self._reruns.remove(doc["_id"])
        return await self._settle(doc)

    async def _settle(self, doc: RejudgingDocument) -> bool:
        await self._col.update_one({"_id": doc["_id"]}, {"$set": {"settled": True}, "$unset": {"members": ""}})
        return False

    async def close(self) -> None:
        """Drop what is under way; the leader takes it up."""
        tasks = list(self._work.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- the leader --------------------------------------------------------------------------------------------

    async def run(self, leading: Callable[[], bool]) -> None:
        """While leading, take care of every open rejudging, also of those whose judicator has died."""
        await every(_PERIOD, "rejudgings", self.sweep, leading)

    async def sweep(self) -> None:
        """One pass over the open rejudgings; now and then over what a slow judicator may have left behind."""
        async for doc in self._col.find({"settled": False}, {"_id": 1}):
            if doc["_id"] not in self._work:
                await self._loops.item("rejudging", doc["_id"], functools.partial(self.advance, doc["_id"]))
        self._passes += 1
        if self._passes % _TIDY == 0:
            await self._loops.item("rejudgings", "tidying", self.tidy)

    async def tidy(self) -> None:
        """Remove what a judicator wrote for a rejudging after another one had settled it."""
        numbers = await self._reruns.numbers()
        now = await verdicts.generation(self._db)
        opened = {doc["_id"] async for doc in self._col.find({"settled": False}, {"_id": 1})}
        # A primary that has just been elected may not show the newest rejudgings: each is looked at by itself.
        over = {number for number in (numbers | now.folding) - opened if await self._is_over(number)}
        for number in sorted(numbers & over):
            log.warning("rejudging %d is over, but tasks are still part of it: they are let go", number)
            await self._reruns.stop(number)
            await self._reruns.remove(number)
        if now.folding & over:
            await self._unswitch(sorted(now.folding & over))

    async def _is_over(self, number: int) -> bool:
        doc = await self._db.find(self._col, {"_id": number}, {"settled": 1})
        return doc is None or doc["settled"]
