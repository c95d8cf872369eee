"""The starts of each executor: when, of which version, how fast its cores were, which languages had changed.

One document an executor, by name, bounded; it outlives the executor that is forgotten, as a machine that comes back
from its repair is to be compared with what it was.
"""

from __future__ import annotations

from typing import Final

from pymongo.errors import DuplicateKeyError

from judge.common import clock
from judge.common.errors import NotFoundError
from judge.judicator.database import Database
from judge.judicator.documents import StartFields, iso
from judge.model.figures import HistoryReply, HistoryRequest, Start
from judge.model.messages import ExecutorInfo

# Starts that are remembered of an executor, cores and changed languages of a start; the text of a version.
_STARTS: Final = 100
_CORES: Final = 256
_CHANGES: Final = 100
_TEXT: Final = 120
_DAY: Final = 86400.0


class Machines:
    def __init__(self, database: Database) -> None:
        self._machines = database.machines
        # This judicator's last note of each executor, and its time: a report that says the same costs nothing.
        self._noted: dict[str, tuple[str, dict[str, str], float]] = {}

    async def note(self, executor: str, incarnation: str, info: ExecutorInfo) -> None:
        """Note what an executor tells of itself, when it has started, or its languages are known or others.

        Once a day also that it is alive, so that its history stays.
        """
        now = clock.monotonic()
        last = self._noted.get(executor)
        if last is not None and last[:2] == (incarnation, info.languages) and now - last[2] < _DAY:
            return
        doc = await self._machines.find_one({"_id": executor}, {"languages": 1, "starts": {"$slice": -1}})
        if doc is None or doc["starts"][-1]["incarnation"] != incarnation:
            await self._begin(executor, incarnation, info, new=doc is None)
        languages = {name: version[:_TEXT] for name, version in sorted(info.languages.items())}
        # It is still looking for its languages while it has none.
        if languages and (doc is None or doc["languages"] != languages):
            differences = [] if doc is None or not doc["languages"] else changes(doc["languages"], languages)
            await self._machines.update_one(
                {"_id": executor, "starts.incarnation": incarnation},
                {
                    "$set": {"languages": languages},
                    "$push": {"starts.$.changes": {"$each": differences, "$slice": -_CHANGES}},
                },
            )
        if last is not None and last[0] == incarnation:
            await self._machines.update_one({"_id": executor}, {"$set": {"seen": clock.wall()}})
        self._noted[executor] = (incarnation, info.languages, now)

    async def _begin(self, executor: str, incarnation: str, info: ExecutorInfo, *, new: bool) -> None:
        now = clock.wall()
        start: StartFields = {
            "incarnation": incarnation,
            "at": now,
            "version": info.version[:_TEXT],
            "slots": info.slots,
            "weak_sandbox": info.weak_sandbox,
            "calibration": [speed.model_dump(mode="json") for speed in info.calibration[:_CORES]],
            "changes": [],
        }
        if new:
            try:
                await self._machines.insert_one({"_id": executor, "seen": now, "languages": {}, "starts": [start]})
            except DuplicateKeyError:
                pass
            else:
                return
        await self._machines.update_one(
            {"_id": executor, "starts.incarnation": {"$ne": incarnation}},
            {"$set": {"seen": now}, "$push": {"starts": {"$each": [start], "$slice": -_STARTS}}},
        )

    async def read(self, request: HistoryRequest) -> HistoryReply:
        """The starts of one executor, the newest first; NotFoundError."""
        doc = await self._machines.find_one({"_id": request.executor}, {"starts": 1})
        if doc is None:
            raise NotFoundError(f"there is no executor '{request.executor}'; `judgectl executors` lists them")
        return HistoryReply(executor=request.executor, starts=[_start(start) for start in reversed(doc["starts"])])


def changes(before: dict[str, str], after: dict[str, str]) -> list[dict[str, str]]:
    """The languages that came, went or have another version, by name; pure."""
    return [
        {"language": name, "before": before.get(name, ""), "after": after.get(name, "")}
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _start(stored: StartFields) -> Start:
    return Start.stored({**stored, "at": iso(stored["at"])})
