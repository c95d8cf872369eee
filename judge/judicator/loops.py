"""The judicator's endless loops, and the single items they look after: one fault ends neither loop nor judicator.

An unforeseen error is logged once per try with its trace, counted, tried again after a growing pause, and told by
`judgectl status` of any judicator while it lasts. A database that does not answer is no such fault: the loops say so
themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from prometheus_client import Counter
from pymongo.errors import PyMongoError

from judge.common import clock
from judge.common.errors import UnavailableError
from judge.common.text import one_line
from judge.judicator.database import Database
from judge.mongodb.store import DRIVER_ERRORS, translate

log = logging.getLogger(__name__)

FAULTS = Counter("judge_loop_faults_total", "Unforeseen errors in the judicator's loops", ["loop"])

_LEAST: Final = 1.0
_MOST: Final = 60.0
# A fault that has not been told again for so long is over.
_FRESH: Final = datetime.timedelta(seconds=3 * _MOST)
_KEY: Final = "fault:"
_FAULTS: Final = {"_id": {"$gte": _KEY, "$lt": _KEY + "\uffff"}}
_OLD: Final = datetime.timedelta(days=1)


def pause(tries: int) -> float:
    return min(_MOST, _LEAST * 2.0 ** min(tries - 1, 10))


def is_unavailable(exc: PyMongoError) -> bool:
    """Return whether the database does not answer now. A call that it refuses is a fault: it will be refused again."""
    return isinstance(translate(exc), UnavailableError)


@contextlib.contextmanager
def put_off(what: str) -> Iterator[None]:
    """Leave `what` to the next round of the loop, and say so, while the database is away. Other errors pass."""
    try:
        yield
    except PyMongoError as exc:
        if not is_unavailable(exc):
            raise
        log.warning("put off: %s; the database does not answer: %s", what, str(exc)[:200])


async def every(
    seconds: float, what: str, work: Callable[[], Awaitable[object]], when: Callable[[], bool] = lambda: True
) -> None:
    """Do the work again and again while `when` says so, until cancelled. `what` says to people what is put off."""
    while True:
        await asyncio.sleep(seconds)
        if when():
            with put_off(what):
                await work()


class Loops:
    def __init__(self, database: Database, judicator: str) -> None:
        """`judicator` is its name, for people."""
        self._db = database
        self._judicator = judicator
        # By loop and item: the failures in a row, and until when no further try is made.
        self._faults: dict[tuple[str, str], tuple[int, float]] = {}

    async def forever(self, loop: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run an endless loop, begun again after every unforeseen error; ends when `run` returns."""
        FAULTS.labels(loop)  # an alert hears of no first fault when the series begins with it
        while True:
            began = clock.monotonic()
            try:
                await run()
            except Exception as exc:  # noqa: BLE001 - whatever it is, the other loops must go on
                if clock.monotonic() - began > 2 * _MOST:
                    await self._recovered(loop, "")
                await asyncio.sleep(await self._failed(loop, "", exc))
            else:
                return

    async def item(self, loop: str, item: object, work: Callable[[], Awaitable[Any]]) -> bool:
        """Do the work for one item of a loop; False when it failed, or failed lately and has to wait.

        Raises only what says that the database is away, which is not this item's fault.
        """
        name = str(item)
        fault = self._faults.get((loop, name))
        if fault is not None and clock.monotonic() < fault[1]:
            return False
        try:
            await work()
        except DRIVER_ERRORS as exc:
            if isinstance(exc, PyMongoError) and is_unavailable(exc):
                raise
            await self._failed(loop, name, exc)
            return False
        except Exception as exc:  # noqa: BLE001 - one item must not keep the loop from the others
            await self._failed(loop, name, exc)
            return False
        if fault is not None:
            await self._recovered(loop, name)
        return True

    async def _failed(self, loop: str, item: str, exc: Exception) -> float:
        """Log, count and tell; the seconds until the next try."""
        tries = self._faults.get((loop, item), (0, 0.0))[0] + 1
        wait = pause(tries)
        now = clock.monotonic()
        self._faults = {key: fault for key, fault in self._faults.items() if now - fault[1] < 10 * _MOST}
        self._faults[loop, item] = tries, now + wait
        FAULTS.labels(loop).inc()
        what = f"{loop} of {item}" if item else loop
        log.error(
            "an unforeseen error in %s (%d in a row), tried again in %g s: %s: %s",
            *(what, tries, wait, type(exc).__name__, str(exc)[:500]),
            exc_info=exc,
        )
        text = f"judicator '{self._judicator}' fails in {what}, {tries} times in a row: {type(exc).__name__}: {exc}"
        fields = {"text": one_line(text)[:500], "at": clock.wall()}
        try:
            await self._db.meta.update_one({"_id": self._key(loop, item)}, {"$set": fields}, upsert=True)
        except DRIVER_ERRORS as storing:
            log.warning("that fault cannot be told to the other judicators: %s", str(storing)[:200])
        return wait

    async def _recovered(self, loop: str, item: str) -> None:
        if self._faults.pop((loop, item), None) is None:
            return
        log.info("%s works again", f"{loop} of {item}" if item else loop)
        try:
            await self._db.meta.delete_one({"_id": self._key(loop, item)})
        except DRIVER_ERRORS as exc:
            log.debug("the end of a fault cannot be told: %s", exc)  # it grows old by itself

    def _key(self, loop: str, item: str) -> str:
        return f"{_KEY}{self._judicator}:{loop}:{item}"


async def forget_old_faults(database: Database, _: Any) -> tuple[Any, int]:
    """A phase of retention: faults that nobody tells any more, as their judicator was stopped."""
    old = {**_FAULTS, "at": {"$lt": clock.wall() - _OLD}}
    return None, (await database.meta.delete_many(old)).deleted_count


async def known_faults(database: Database) -> list[str]:
    """The faults in the loops of all judicators now, one sentence each; for the status."""
    fresh = {**_FAULTS, "at": {"$gt": clock.wall() - _FRESH}}
    return [doc["text"] for doc in await database.meta.find(fresh, limit=50).to_list()]
