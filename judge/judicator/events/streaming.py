"""The log of changes of submissions, for listeners: the newest from memory, older ones from the database's log.

A change stream of its own is open while somebody asks, as it looks up each submission that has changed. The place of
a change is the database's own time of it and its number in that time: the same at every judicator, so that a listener
may go on at another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict, deque
from typing import Final

from bson import Timestamp
from pymongo.errors import OperationFailure, PyMongoError

from judge.common import clock
from judge.common.errors import UnavailableError
from judge.judicator.database import Database
from judge.model.cause import cause_of
from judge.model.streaming import Change, ChangesReply, ChangesRequest
from judge.mongodb.store import Bson

log = logging.getLogger(__name__)

_LOG_LENGTH: Final = 10_000
_VERSIONS_KEPT: Final = 20_000
# Seconds without a question after which the stream is closed, and for which a question waits for it to open.
_IDLE, _OPENING = 90.0, 5.0
_RETRY: Final = 1.0
# Seconds of the database's log that are read for a listener who goes on from a place that is not in memory: anybody may
# name one, and each change takes a look at its submission.
_REACH: Final = 3600
# The log is read to its end when nothing has come so often.
_SILENT: Final = 2
_LOG_TOO_SHORT: Final = frozenset({260, 280, 286})
_FIELDS: Final = (
    *("user", "problem.name", "language", "status", "verdict", "done", "version", "rerun_of"),
    *("submission.cause", "submission.check", "past.rejudging"),
)
_PIPELINE: Final[list[Bson]] = [
    {
        "$match": {
            "$or": [
                {"operationType": "insert"},
                {"operationType": "update", "updateDescription.updatedFields.version": {"$exists": True}},
            ]
        }
    },
    {"$project": {"documentKey": 1, "clusterTime": 1, **{f"fullDocument.{name}": 1 for name in _FIELDS}}},
]


# Where a change stands: the seconds and the count of the database's time, and the number of the event among those of
# that time. Several events have one time if one command or transaction makes them.
Position = tuple[int, int, int]
# After all events of a time.
_AFTER_ALL_EVENTS: Final = 2**32 - 1


def place(position: Position) -> str:
    """A position as listeners have it."""
    return "-".join(map(str, position))


def position(place: str) -> Position:
    """The position that a place says; without a number it is after all events of that time."""
    seconds, count, number = (
        min(int(part), _AFTER_ALL_EVENTS) for part in f"{place}-{_AFTER_ALL_EVENTS}".split("-")[:3]
    )
    return seconds, count, number


def end_of(moment: Timestamp) -> Position:
    return moment.time, moment.inc, _AFTER_ALL_EVENTS


class Numbering:
    """The positions of a stream's events. The stream must begin with the first event of a time, and leave none out."""

    def __init__(self) -> None:
        self._last: Position = (0, 0, -1)

    def of(self, moment: Timestamp) -> Position:
        """The position of the next event, whose time this is."""
        seconds, count, number = self._last
        same = (moment.time, moment.inc) == (seconds, count)
        self._last = moment.time, moment.inc, number + 1 if same else 0
        return self._last


def too_old(after: Position, begin: Position) -> bool:
    """Whether a place is too far before the beginning of what is in memory to be read from the database's log."""
    return begin[0] - after[0] > _REACH


def change(event: Bson, at: Position) -> Change | None:
    """A change out of an event of the stream, which stands there; None for what is nobody's to see. Pure."""
    doc = event.get("fullDocument")
    if not doc or "status" not in doc or doc.get("rerun_of") is not None:
        return None  # deleted meanwhile; a run of a rejudging is the judges' own
    problem, submission = doc.get("problem"), doc.get("submission", {})
    return Change(
        id=place(at),
        submission=str(event["documentKey"]["_id"]),
        version=doc["version"],
        user=doc["user"],
        problem=problem["name"] if problem else None,
        language=doc.get("language"),
        status=doc["status"],
        verdict=doc.get("verdict"),
        done=doc["done"],
        cause=cause_of(submission.get("cause"), submission.get("check"), rejudged=bool(doc.get("past"))),
    )


class ChangeLog:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._log: deque[tuple[Position, Change]] = deque(maxlen=_LOG_LENGTH)
        self._versions: OrderedDict[str, int] = OrderedDict()
        self._begin: Position | None = None
        self._news = asyncio.Condition()
        self._requested_at = 0.0
        self._requested = asyncio.Event()

    async def read(self, request: ChangesRequest) -> ChangesReply:
        """Changes after a place, from all or one user; UnavailableError while the database is away."""
        self._requested_at = clock.monotonic()
        self._requested.set()
        begin = await self._wait_until_open()
        if request.after is None:
            return ChangesReply(place=place(self._newest(begin)))
        after = position(request.after)
        if too_old(after, begin):
            return ChangesReply(place=place(self._newest(begin)), lost=True)
        if after < begin:
            return await self._read_stored(request, after)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(request.wait or 0.001), self._news:
                await self._news.wait_for(lambda: self._begin is None or self._newest(begin) > after)
        if self._begin is None or self._begin > after:
            # The stream broke off meanwhile; older changes are in the database's log now.
            return ChangesReply(place=request.after)
        changes = [change for at, change in self._log if at > after][: request.limit]
        end = changes[-1].id if changes else request.after
        return ChangesReply(changes=[change for change in changes if request.user in {None, change.user}], place=end)

    def _newest(self, begin: Position) -> Position:
        return self._log[-1][0] if self._log else begin

    async def _wait_until_open(self) -> Position:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_OPENING), self._news:
                await self._news.wait_for(lambda: self._begin is not None)
        if self._begin is None:
            raise UnavailableError("this judicator cannot follow the changes of submissions now; try again")
        return self._begin

    async def _read_stored(self, request: ChangesRequest, after: Position) -> ChangesReply:
        """Changes from the database's log after a place that is not in memory, as many as one answer takes."""
        changes: list[Change] = []
        end = after
        until = self._begin or after
        numbering = Numbering()
        count = 0
        try:
            # Events of all users, since a filter would change their numbers.
            async with await self._db.raw.tasks.watch(
                _PIPELINE,
                full_document="updateLookup",
                start_at_operation_time=Timestamp(*after[:2]),
                max_await_time_ms=100,
                batch_size=request.limit,
            ) as stream:
                silent = 0
                while count < request.limit and end < until and silent < _SILENT:
                    event = await stream.try_next()
                    if event is None:
                        silent += 1
                        continue
                    silent = 0
                    at = numbering.of(event["clusterTime"])
                    if at <= after:
                        continue
                    count, end = count + 1, at
                    item = change(event, at)
                    if item is not None and request.user in {None, item.user}:
                        changes.append(item)
                if silent:
                    end = max(end, until)
        except OperationFailure as exc:
            if exc.code not in _LOG_TOO_SHORT:
                raise
            return ChangesReply(place=place(self._newest(until)), lost=True)
        return ChangesReply(changes=changes, place=place(end))

    async def run(self) -> None:
        """Follow the stream while somebody asks; never returns."""
        while True:
            await self._requested.wait()
            self._requested.clear()
            try:
                await self._follow()
            except PyMongoError as exc:
                log.warning("listeners wait, the changes of submissions cannot be followed: %s", str(exc)[:200])
                await asyncio.sleep(_RETRY)
            finally:
                await self._set(None)

    async def _set(self, begin: Position | None) -> None:
        async with self._news:
            self._begin = begin
            self._log.clear()
            self._versions.clear()
            self._news.notify_all()

    async def _follow(self) -> None:
        start = await self._db.logical_time()
        begin = end_of(start)
        numbering = Numbering()
        async with await self._db.raw.tasks.watch(
            _PIPELINE, full_document="updateLookup", start_at_operation_time=start, max_await_time_ms=1000
        ) as stream:
            await self._set(begin)
            while stream.alive and clock.monotonic() - self._requested_at < _IDLE:
                event = await stream.try_next()
                if event is not None:
                    at = numbering.of(event["clusterTime"])
                    if at > begin:
                        await self._append(event, at)

    async def _append(self, event: Bson, at: Position) -> None:
        item = change(event, at)
        if item is None or self._versions.get(item.submission, -1) >= item.version:
            return  # told already: what is looked up may be newer than its event
        self._versions[item.submission] = item.version
        self._versions.move_to_end(item.submission)
        if len(self._versions) > _VERSIONS_KEPT:
            self._versions.popitem(last=False)
        async with self._news:
            if len(self._log) == _LOG_LENGTH:
                self._begin = self._log[0][0]
            self._log.append((at, item))
            self._news.notify_all()
