"""The questions whose answers decide where new tasks are placed in the queue, for several at once. Pure functions.

Of a user with few waiting tasks these are read themselves. Of one with many, the ends of an index say the same: so
that an add costs the same however many wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from judge.judicator.queue.order import LIVE, round_of
from judge.mongodb.store import Bson

FRONT: Final = "front"
BEHIND: Final = "behind"
OWN: Final = [BEHIND, FRONT]

# A lane's front is filled up to this figure; a user with no more waiting tasks has few.
ROOM: Final = 16

Lane = tuple[str, int, str]
Pipeline = list[Bson]
Key = tuple[Hashable, ...]


@dataclass(frozen=True)
class Wanted:
    """A place for a new task: its lane and class, and the languages that somebody has."""

    lane: Lane
    priority: str
    languages: frozenset[str]


@dataclass(frozen=True)
class Place:
    """The facts that a new task's place depends on (order.fair_order), as the newest writes left them.

    `behind`: its lane has enough in front. `waiting`: no more tasks of its user wait; None: there may be many.
    """

    now: int
    mine: int | None
    last: int | None
    behind: bool
    waiting: int | None


Answers = Mapping[Key, Sequence[Bson]]


def questions(wanted: Iterable[Wanted], many: Collection[str]) -> dict[Key, Pipeline]:
    """The questions to the database for these places, each once; `many`: users who seem to have many waiting tasks."""
    asked: dict[Key, Pipeline] = {}
    few: set[str] = set()
    for one in wanted:
        user, rank, needs = one.lane
        handed: Bson = {"priority": one.priority, "attempt": {"$gt": 0}}
        asked["head", rank, needs] = end({"waits": FRONT, "rank": rank, "needs": needs}, 1)
        asked["here", one.priority, needs] = end({**handed, "needs": needs}, -1)
        anywhere = {**handed, "needs": {"$in": ["", *sorted(one.languages)]}}
        asked["anywhere", one.priority, one.languages] = end(anywhere, -1)
        asked["last", user, one.priority] = end({**handed, "user": user}, -1)
        if user in many:
            asked |= _of_many(one.lane)
        else:
            few.add(user)
    if few:
        # One question for all of them: each part of a command costs the database about the same.
        users = sorted(few)
        fields = {"_id": 0, "n": "$order", "user": 1, "waits": 1, "rank": 1, "needs": 1}
        match = {"user": {"$in": users}, "waits": {"$in": OWN}}
        asked["few", *users] = [{"$match": match}, {"$limit": (ROOM + 1) * len(users)}, {"$project": fields}]
    return asked


def _mine(user: str) -> Bson:
    return {"user": user, "waits": {"$in": OWN}}


def _of_many(lane: Lane) -> dict[Key, Pipeline]:
    user, rank, needs = lane
    mine: Bson = {**_mine(user), "rank": rank}
    here: Bson = {"user": user, "rank": rank, "needs": needs}
    others = {**_mine(user), "rank": {"$in": [other for other in LIVE if other != rank]}}
    return {
        ("mine", user, rank): end(mine, -1),
        ("oldest", user, rank): end(mine, 1),
        ("others", user, rank): number(others, ROOM),
        ("behind", *lane): number({**here, "waits": BEHIND}, 1),
        ("front", *lane): number({**here, "waits": FRONT}, ROOM),
    }


def by_user(answers: Answers) -> dict[Key, Sequence[Bson]]:
    """The answers with the waiting tasks of each user by themselves."""
    found = dict(answers)
    for key in [key for key in answers if key[0] == "few"]:
        rows, users = found.pop(key), key[1:]
        if len(rows) >= (ROOM + 1) * len(users):  # some may be left out, nobody knows whose: each has too many
            found |= {("few", user): rows for user in users}
        else:
            found |= {("few", user): [row for row in rows if row["user"] == user] for user in users}
    return found


def too_many(answers: Answers) -> set[str]:
    """The users of whom `few` did not read all."""
    return {str(key[1]) for key, rows in answers.items() if key[0] == "few" and len(rows) > ROOM}


def place(wanted: Wanted, answers: Answers) -> Place:
    """The facts for one place."""
    user, rank, needs = wanted.lane
    behind, waiting, mine = _few(wanted.lane, answers["few", user]) if ("few", user) in answers else (None, None, None)
    if behind is None:
        mine = _n(answers, "mine", user, rank)
        others = _n(answers, "others", user, rank) or 0
        waiting = others + span(_n(answers, "oldest", user, rank), mine) if others < ROOM else None
        behind = bool(_n(answers, "behind", *wanted.lane)) or (_n(answers, "front", *wanted.lane) or 0) >= ROOM
    return Place(
        now=round_of(
            _n(answers, "head", rank, needs),
            _n(answers, "here", wanted.priority, needs),
            _n(answers, "anywhere", wanted.priority, wanted.languages),
        ),
        mine=mine,
        last=_n(answers, "last", user, wanted.priority),
        behind=behind,
        waiting=waiting,
    )


def _few(lane: Lane, rows: Sequence[Bson]) -> tuple[bool | None, int | None, int | None]:
    """(behind, waiting, mine) of a user all of whose waiting tasks these are; None when there are more."""
    if len(rows) > ROOM:
        return None, None, None
    orders = [int(row["n"]) for row in rows if row["rank"] == lane[1]]
    here = [row["waits"] for row in rows if (row["rank"], row["needs"]) == lane[1:]]
    others = len(rows) - len(orders)
    mine = max(orders, default=None)
    waiting = others + span(min(orders, default=None), mine) if others < ROOM else None
    return BEHIND in here or here.count(FRONT) >= ROOM, waiting, mine


def _n(answers: Answers, *key: Any) -> int | None:
    rows = answers.get(key, ())
    return int(rows[0]["n"]) if rows else None


def union(name: str, asked: Mapping[Key, Pipeline]) -> Pipeline:
    """One pipeline over the collection of this name that answers all questions; `sorted_out` takes it apart again."""
    # What is not part of the projection would be left out.
    parts = [[*pipeline, {"$set": {"what": place}}] for place, pipeline in enumerate(asked.values())]
    return [*parts[0], *({"$unionWith": {"coll": name, "pipeline": part}} for part in parts[1:])]


def sorted_out(asked: Mapping[Key, Pipeline], rows: Iterable[Bson]) -> dict[Key, list[Bson]]:
    """The rows by their questions; a question that nothing matches has none."""
    keys = list(asked)
    found: dict[Key, list[Bson]] = defaultdict(list, {key: [] for key in keys})
    for row in rows:
        found[keys[row["what"]]].append(row)
    return found


def span(oldest: int | None, newest: int | None) -> int:
    """The most tasks of one user that can wait in a class, by their orders at both ends: no two have the same."""
    return 0 if oldest is None or newest is None else newest - oldest + 1


def end(match: Bson, direction: int) -> Pipeline:
    """The smallest (1) or largest (-1) order of what matches."""
    return [{"$match": match}, {"$sort": {"order": direction}}, {"$limit": 1}, {"$project": {"_id": 0, "n": "$order"}}]


def number(match: Bson, most: int) -> Pipeline:
    """The stages that count what matches, up to `most`; no row when nothing does."""
    return [{"$match": match}, {"$limit": most}, {"$count": "n"}]
