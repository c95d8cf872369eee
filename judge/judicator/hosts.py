"""What each judicator notes of its own host, so that the status of any judicator has the warnings of all of them.

A disk that fills, a clock that is wrong and a backup that is old can be seen on their host only.
"""

from __future__ import annotations

import asyncio
import datetime
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from judge.common import clock
from judge.config import JudicatorConfig
from judge.daemon.metrics import expiring
from judge.judicator.database import Database
from judge.judicator.loops import put_off
from judge.mongodb import backup_age
from judge.mongodb.backup_names import newest

_KEY: Final = "host:"
_NOTES: Final = {"_id": {"$gte": _KEY, "$lt": _KEY + "\uffff"}}
_LOOK: Final = 30.0
# A note that has not been renewed for so long is of a judicator that is away, which the status says anyway.
_FRESH: Final = datetime.timedelta(minutes=5)
_OLD: Final = datetime.timedelta(days=30)
# Seconds by which a clock may be off.
_CLOCKS: Final = 2.0
# Share and bytes of a file system below which it fills; the alert JudgeDiskFills has the same.
_LEAST_SHARE, _LEAST_ROOM = 0.1, 10**9
# A cluster should have a backup that is not older; the alert JudgeNoBackup has the same.
_BACKUP: Final = datetime.timedelta(days=8)
# What the controller's timers do; the alert JudgeBackupStepOld has the same.
_STEPS: Final = {"copied": ("backup was copied", "backup"), "drilled": ("restore drill succeeded", "drill")}


@dataclass(frozen=True)
class HostNote:
    """Warnings about a judicator's host, and the time of its newest backup; `backs_up`: it knows of backups.

    `steps`: when the controller copied a backup, and restored one in a drill.
    """

    warnings: list[str]
    backs_up: bool = False
    backup: datetime.datetime | None = None
    steps: Mapping[str, datetime.datetime] = field(default_factory=dict)


class Hosts:
    def __init__(self, config: JudicatorConfig, database: Database) -> None:
        self._config = config
        self._db = database

    async def run(self) -> None:
        while True:
            with put_off("noting the state of this host"):
                note, _ = await self._own()
                fields = {
                    "texts": note.warnings,
                    "backup": note.backup,
                    "backs_up": note.backs_up,
                    "steps": note.steps,
                }
                change = {"$set": fields, "$currentDate": {"at": True}}
                await self._db.meta.update_one({"_id": self._id}, change, upsert=True)
            await asyncio.sleep(_LOOK)

    async def warnings(self) -> list[str]:
        """The warnings about all hosts of judicators: of this one as it is now. Raises PyMongoError."""
        own, now = await self._own()
        others = {**_NOTES, "at": {"$gt": now - _FRESH}}
        docs = [doc for doc in await self._db.meta.find(others, limit=50).to_list() if doc["_id"] != self._id]
        notes = [
            own,
            *(HostNote(doc["texts"], doc["backs_up"], doc["backup"], doc.get("steps", {})) for doc in docs),
        ]
        return [
            *(text for note in notes for text in note.warnings),
            *no_backup(notes, now),
            *missed_steps(notes, dict(self._config.backup_steps), now),
        ]

    @property
    def _id(self) -> str:
        return f"{_KEY}{self._config.name}"

    async def _own(self) -> tuple[HostNote, datetime.datetime]:
        """The state of this host, and the database's time."""
        before = clock.wall()
        now = await self._db.wall_time()
        after = clock.wall()
        config = self._config
        texts = [
            *off_clock(config.name, before, now, after),
            *backup_age.warnings(config.name, config.backups, config.backup_hours, after),
            *await asyncio.to_thread(little_room, config.name, config.disks),
            *await asyncio.to_thread(expiring, (config.tls.ca, config.tls.cert)),
        ]
        if config.backups is None:
            return HostNote(texts), now
        backup = await asyncio.to_thread(newest, config.backups)
        return HostNote(texts, True, backup, await asyncio.to_thread(backup_age.steps_of, config.backups)), now


def off_clock(name: str, before: datetime.datetime, database: datetime.datetime, after: datetime.datetime) -> list[str]:
    """A warning if the clock of a judicator, which it read before and after it asked, is not the database's."""
    ahead = (before - database).total_seconds()
    behind = (database - after).total_seconds()
    if max(ahead, behind) < _CLOCKS:
        return []
    way = f"{ahead:.0f} s ahead of" if ahead > 0 else f"{behind:.0f} s behind"
    return [f"the clock of judicator '{name}' is {way} the database's; set the clocks"]


def little_room(name: str, directories: Iterable[Path]) -> list[str]:
    """A warning for each file system of these directories that has little room left."""
    sentences, seen = [], set()
    for directory in directories:
        try:
            room, device = os.statvfs(directory), directory.stat().st_dev
        except OSError:
            continue  # it is not made yet
        free, size = room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize
        if device not in seen and free < max(_LEAST_ROOM, _LEAST_SHARE * size):
            sentences.append(
                f"the disk of judicator '{name}' has {free / 1e9:.1f} GB of {size / 1e9:.1f} GB left for {directory}; "
                "mongod and etcd end if it is full"
            )
        seen.add(device)
    return sentences


def no_backup(notes: Iterable[HostNote], now: datetime.datetime) -> list[str]:
    """A warning if the hosts that know of backups have none of the last days."""
    known = [note for note in notes if note.backs_up]
    if not known or any(note.backup is not None and now - note.backup < _BACKUP for note in known):
        return []
    return [f"no judicator has a backup of the last {_BACKUP.days} days; run playbooks/backup.yml, or set its timer"]


def missed_steps(notes: Iterable[HostNote], hours: Mapping[str, float], now: datetime.datetime) -> list[str]:
    """A warning for each step of the controller's timers that no host was told of for so many hours."""
    notes, sentences = list(notes), []
    for step, (event, unit) in _STEPS.items():
        limit = hours.get(step, 0)
        moments = [note.steps[step] for note in notes if step in note.steps]
        if limit and (not moments or now - max(moments) > datetime.timedelta(hours=limit)):
            reason = f"journalctl -u 'judge-{unit}@*' on the controller says why"
            sentences.append(f"no {event} for {limit:g} hours; {reason}")
    return sentences


async def forget_old_notes(database: Database, _: Any) -> tuple[Any, int]:
    """A phase of retention: notes of judicators that are no more."""
    old = {**_NOTES, "at": {"$lt": clock.wall() - _OLD}}
    return None, (await database.meta.delete_many(old)).deleted_count
