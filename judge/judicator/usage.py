"""The bytes that each user's submissions take in the database (docs/protocol.md, Stored bytes): one counter a user.

A task carries `bytes`: its document as it was handed in, its result, and the blobs of both. While it is not done it has
`reserved` among these for the output that may be stored of it, so that what waits cannot grow past the limit. Each
judicator writes what has changed once a second, for all users by one command. A user who submits often has bytes
reserved ahead, so that not every submission asks the database. After a crash the counter is a little wrong; `recount`
mends that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final

import bson
import pymongo
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError
from pymongo.operations import DeleteMany, UpdateOne
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from judge.common.errors import LimitError
from judge.judicator.batching import Batcher
from judge.judicator.database import Database, aggregate, one_by_one
from judge.judicator.documents import UsageDocument
from judge.model.messages import Limits, Submission
from judge.mongodb.store import Bson

log = logging.getLogger(__name__)

# The keys of the index from which alone is summed up what a user's tasks take.
STORED: Final = ("user", "bytes")

# The fields of a task beside the submission and the result.
_FIXED: Final = 1024
_USERS: Final = 20
# Seconds between two writes of the balances; a larger balance of a user is written at once.
_PAUSE: Final = 1.0
_MOST_BALANCE: Final = 64 * 1024**2
# Bytes reserved ahead are at most this part of a user's limit; none are if the user has more than half of it.
_AHEAD: Final = 16
# Bytes by which a look may be off while several judicators have something to count.
_UNDER_WAY: Final = 4 * _MOST_BALANCE
# Seconds for the sum of one user's tasks.
_RECOUNT: Final = 3600.0
# Reservations that are made by one command.
_RESERVED: Final = 100


def output_of(submission: Submission) -> int:
    """The most bytes of output that may be stored of a submission: a single run without an answer keeps all of it.

    So does the last of any, when it was asked for.
    """
    tests = submission.tests
    keeps = submission.options is not None and submission.options.outputs
    answered = any(test.answer is not None or test.answer_blob is not None for test in tests)
    if submission.problem is not None or ((len(tests) > 1 or answered) and not keeps):
        return 0
    return submission.limits.output or Limits().output


class Reservation:
    """A reservation, perhaps still under way. `kept`: its task is stored, or at least the blobs of the task."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        """It is reserved when `task` has ended."""
        self._task = task
        self.kept = False

    async def confirm(self) -> None:
        """Wait for it; LimitError where there is no room. Before anything is stored that it is for."""
        await asyncio.shield(self._task)  # a caller who gives up here gives back what is reserved, once it is


class Usage:
    def __init__(self, database: Database) -> None:
        self._tasks = database.tasks
        self._files = database.files
        # No wait for the majority: a write that is lost with a primary is mended as every other fault is.
        self._col: AsyncCollection[UsageDocument] = database.usage.with_options(
            write_concern=WriteConcern(w=1, j=False), read_concern=ReadConcern("local")
        )
        self._reserving: Batcher[tuple[str, int, int], bool] = Batcher(self._reserve_all, _RESERVED)
        # Of each user the bytes that the database counts and no task has, less those that it does not count yet.
        self._balances: dict[str, int] = {}
        # Since the balances were written: the bytes that each user has asked for, and who has no room for more ahead.
        self._recent: dict[str, int] = {}
        self._tight: set[str] = set()
        self._writing: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    async def size_of(self, document: Mapping[str, Any], blobs: Iterable[str]) -> int:
        """Bytes of a document and of blobs; a blob that others have, too, counts in full."""
        total = len(bson.encode(document))
        names = sorted(set(blobs))
        if names:
            sizes = {doc["filename"]: doc["length"] async for doc in self._files.find({"filename": {"$in": names}})}
            total += sum(sizes.values())
        return total

    async def size_of_submission(self, submission: Mapping[str, Any], blobs: Iterable[str]) -> int:
        """Bytes that a new task takes, by its submission as it is stored."""
        return _FIXED + await self.size_of(submission, blobs)

    async def stored(self, user: str) -> int:
        await self.flush()
        doc = await self._col.find_one({"_id": user})
        return max(0, int(doc["bytes"])) if doc is not None else 0

    @contextlib.asynccontextmanager
    async def reserving(self, user: str, size: int, output: int, limit: int | None) -> AsyncIterator[Reservation]:
        """Count `size` and `output` bytes for a task about to be stored; given back unless it is said to be `kept`.

        `output` is what output_of says. Exact however many do it at once. What else has to be asked before the task is
        stored is asked meanwhile, which is a sixth of an add's time.
        """
        total = size + output
        task = asyncio.create_task(self._reserve_or_refuse(user, total, output, limit))
        reservation = Reservation(task)
        try:
            yield reservation
        finally:
            if not reservation.kept:
                await asyncio.wait([task])
                if not task.cancelled() and task.exception() is None:
                    await self.add(user, -total)

    async def _reserve_or_refuse(self, user: str, total: int, output: int, limit: int | None) -> None:
        """Reserve; LimitError when the user would have more than `limit`."""
        if limit is None:
            self.add_later(user, total)
        elif not (
            await self._reserve(user, total, limit) or (await self.flush() and await self._reserve(user, total, limit))
        ):
            part = f", {output} of them for its output" if output else ""
            advice = ", ask for a smaller limits.output" if output else ""
            raise LimitError(
                f"user: '{user}' has {await self.stored(user)} bytes of submissions and results stored, with what the "
                f"output of unjudged ones may take; this one may take {total}{part}; the limit is {limit}. "
                f"Hand in again when others are judged{advice}, or an admin deletes old ones "
                "(`judgectl delete submission`)"
            )

    async def _reserve(self, user: str, size: int, limit: int) -> bool:
        return size <= limit and (self._spend(user, size) or await self._reserving.ask((user, size, limit)))

    def _spend(self, user: str, size: int) -> bool:
        """Take bytes that are reserved ahead; False if there are too few."""
        if self._balances.get(user, 0) < size:
            return False
        self._change(user, -size)
        self._recent[user] = self._recent.get(user, 0) + size
        return True

    async def _reserve_all(self, requests: Sequence[tuple[str, int, int]]) -> list[bool | Exception]:
        """Reserve each of these sizes, all by one command; say of each whether there was room."""
        answers: list[bool | Exception] = [self._spend(user, size) for user, size, _ in requests]
        by_user: dict[str, list[int]] = {}
        for index, (user, _, _) in enumerate(requests):
            if not answers[index]:
                by_user.setdefault(user, []).append(index)
        operations, ahead = [], {}
        for user, indexes in by_user.items():
            size, limit = sum(requests[index][1] for index in indexes), requests[indexes[0]][2]
            ahead[user] = 0 if user in self._tight else min(limit // _AHEAD, self._recent.get(user, 0))
            room = (limit // 2 if ahead[user] else limit) - size - ahead[user]
            increase = {"$inc": {"bytes": size + ahead[user]}}
            operations.append(UpdateOne({"_id": user, "bytes": {"$lte": room}}, increase, upsert=True))
            self._recent[user] = self._recent.get(user, 0) + size
        failed: list[Exception | None] = [None] * len(operations)
        if operations:
            try:
                await self._col.bulk_write(operations, ordered=False)
            except BulkWriteError as exc:
                failed = one_by_one(len(operations), exc)
        for (user, indexes), error in zip(by_user.items(), failed, strict=True):
            if error is None:
                self._change(user, ahead[user])
            for index in indexes:
                answers[index] = error or True
                if isinstance(error, DuplicateKeyError):  # there is a counter, and no room for all of these sizes
                    self._tight.add(user)
                    _, size, limit = requests[index]
                    room, increase = limit - size, {"$inc": {"bytes": size}}
                    result = await self._col.update_one({"_id": user, "bytes": {"$lte": room}}, increase)
                    answers[index] = bool(result.matched_count)
        return answers

    async def add(self, user: str, size: int) -> None:
        """Count `size` bytes more, or less, at once."""
        await self._write({user: size})

    async def _write(self, sizes: Mapping[str, int]) -> None:
        """Add these sizes to the counters by one command; a counter that comes to nothing goes."""
        operations: list[UpdateOne | DeleteMany] = [
            UpdateOne({"_id": user}, {"$inc": {"bytes": size}}, upsert=True) for user, size in sizes.items()
        ]
        less = [user for user, size in sizes.items() if size < 0]
        if less:  # if all is gone, a user who was purged is not named here either
            operations.append(DeleteMany({"_id": {"$in": less}, "bytes": 0}))
        if operations:
            await self._col.bulk_write(operations)

    def add_later(self, user: str, size: int) -> None:
        """Count `size` bytes more, and let nobody wait: what comes within a second is one write for all users."""
        self._change(user, -size)

    def _change(self, user: str, size: int) -> None:
        """Note that the database counts so many bytes of a user that no task has."""
        self._balances[user] = self._balances.get(user, 0) + size
        if abs(self._balances[user]) > _MOST_BALANCE:
            self._hurry.set()
        if self._writing is None or self._writing.done():  # done: broken off, what it had is counted by retention
            self._writing = asyncio.create_task(self._write_balances())

    async def flush(self) -> bool:
        """Wait until the bytes of all tasks judged up to now are counted or given up; whether any were not."""
        waited = False
        for _ in range(2):  # the bytes that are being written, and those that have come since
            if self._writing is None or self._writing.done():
                break
            waited = True
            self._hurry.set()
            await asyncio.shield(self._writing)
        return waited

    async def _write_balances(self) -> None:
        """Write the balances; the next write takes what comes meanwhile."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), _PAUSE)
        self._hurry.clear()
        balances, self._balances, self._recent, self._tight = self._balances, {}, {}, set()
        sizes = {user: -balance for user, balance in balances.items() if balance}
        try:
            await self._write(sizes)
        except PyMongoError as exc:
            log.warning("%d users' bytes are counted by retention: %s", len(sizes), str(exc)[:200])
        self._writing = asyncio.create_task(self._write_balances()) if self._balances else None

    async def subtract(self, docs: Iterable[Mapping[str, Any]]) -> int:
        """Count what has been deleted: task documents with `user` and `bytes`; the sum of bytes."""
        sums: dict[str, int] = {}
        for doc in docs:
            sums[doc["user"]] = sums.get(doc["user"], 0) + int(doc.get("bytes", 0))
        for user, size in sums.items():
            await self.add(user, -size)
        return sum(sums.values())

    async def recount(self, after: str | None) -> tuple[str | None, int]:
        """A step of retention: compare some users' counters with their tasks; how many were mended."""
        mended, user = 0, after or ""
        for _ in range(_USERS):
            following = await self._following(user)
            if following is None:
                return None, mended
            user = following
            mended += await self._recount(user)
        return user, mended

    async def _following(self, user: str) -> str | None:
        by_user = [(key, 1) for key in STORED]
        task = await self._tasks.find_one({"user": {"$gt": user}}, {"_id": 0, "user": 1}, sort=by_user)
        counter = await self._col.find_one({"_id": {"$gt": user}}, {"_id": 1}, sort=[("_id", 1)])
        users = [task["user"]] if task else []
        return min([*users, *([counter["_id"]] if counter else [])], default=None)

    async def _recount(self, user: str) -> bool:
        await self.flush()
        counter: UsageDocument = await self._col.find_one({"_id": user}) or {"bytes": 0}
        sums: list[Bson] = [
            {"$match": {"user": user}},
            {"$group": {"_id": None, "bytes": {"$sum": "$bytes"}, "tasks": {"$sum": 1}}},
        ]
        with pymongo.timeout(_RECOUNT):  # somebody may have millions of tasks
            rows = await aggregate(self._tasks, sums, hint="stored", comment="recount")
        real, tasks = (rows[0]["bytes"], rows[0]["tasks"]) if rows else (0, 0)
        off = int(real - counter["bytes"])
        if not tasks and not counter["bytes"]:
            await self._col.delete_one({"_id": user, "bytes": 0})
            return False
        amount = correction(counter.get("off", 0), off)
        if off == counter.get("off", 0) == 0:
            return False
        # Not if another recount has been here since: two that have seen the same fault would mend it twice.
        unchanged = {"_id": user, "off": counter.get("off")}
        update = {"$inc": {"bytes": amount}, "$set": {"off": off - amount}}
        try:
            done = await self._col.update_one(unchanged, update, upsert=True)
        except DuplicateKeyError:
            return False
        if amount and done.matched_count:
            log.warning("the counter of what user '%s' has stored was off by %d bytes: mended", user, amount)
        return bool(amount)


def correction(before: int, now: int) -> int:
    """By how much to mend a counter that was off by `before` at the last look and is by `now`; pure.

    What was under way at one look is over at the next, so only what is off at both, in the same direction, is a fault.
    Something else may be under way then, of a user whose tasks never end: a little is a fault where it stays the same.
    """
    if before * now <= 0:
        return 0
    least = min(before, now, key=abs)
    return least if before == now else max(0, abs(least) - _UNDER_WAY) * (1 if least > 0 else -1)
