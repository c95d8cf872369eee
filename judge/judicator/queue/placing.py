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

# A lane's front is filled up to this figure.
ROOM: Final = 16
# A user with no more waiting tasks has few. The ends of an index cost the database as much as a few hundred keys.
FEW: Final = 64

Lane = tuple[str, int, str]
Pipeline = list[Bson]
Key = tuple[Hashable, ...]
Track = tuple[str, str, frozenset[str]]


@dataclass(frozen=True)
class WantedPlace:
    """A place for a new task: its lane and class, and the languages that somebody has."""

    lane: Lane
    priority: str
    languages: frozenset[str]

    @property
    def track(self) -> Track:
        """Priority, language and the languages there are: what its round depends on."""
        return self.priority, self.lane[2], self.languages


@dataclass(frozen=True)
class Place:
    """The facts that a new task's place depends on (order.fair_order), as the newest writes left them.

    `last` may be None where it is before `now`, and says nothing. `behind`: its lane has enough in front. `waiting`: no
    more tasks of its user wait; None: there may be many.
    """

    now: int
    mine: int | None
    last: int | None
    behind: bool
    waiting: int | None


Answers = Mapping[Key, Sequence[Bson]]


def questions(wanted: Iterable[WantedPlace], many: Collection[str], rounds: Mapping[Track, int]) -> dict[Key, Pipeline]:
    """The questions to the database for these places, each once; `many`: users who seem to have many waiting tasks.

    `rounds` are figures that the rounds of some tracks are not before. What was handed out to a user before one of
    these has no part in a place, and what was since is mostly little (`cut_off`): of all users it is one question.
    """
    asked: dict[Key, Pipeline] = {}
    few: set[str] = set()
    since: dict[str, set[str]] = defaultdict(set)
    low: dict[str, int] = {}
    for one in wanted:
        user, rank, needs = one.lane
        handed: Bson = {"priority": one.priority, "attempt": {"$gt": 0}}
        asked["head", rank, needs] = end({"waits": FRONT, "rank": rank, "needs": needs}, 1)
        asked["here", one.priority, needs] = end({**handed, "needs": needs}, -1)
        anywhere = {**handed, "needs": {"$in": ["", *sorted(one.languages)]}}
        asked["anywhere", one.priority, one.languages] = end(anywhere, -1)
        if one.track in rounds:
            since[one.priority].add(user)
            low[one.priority] = min(rounds[one.track], low.get(one.priority, rounds[one.track]))
        else:
            asked["last", user, one.priority] = end({**handed, "user": user}, -1)
        if user in many:
            asked |= _of_many(one.lane)
        else:
            few.add(user)
    if few:
        # One question for all of them: each part of a command costs the database about the same.
        users = sorted(few)
        match = {"user": {"$in": users}, "waits": {"$in": OWN}}
        kinds = {name: f"${name}" for name in ("user", "rank", "needs", "waits")}
        ends = {"low": {"$min": "$order"}, "high": {"$max": "$order"}}
        group = {"_id": kinds, "count": {"$sum": 1}, **ends}
        asked["few", *users] = [{"$match": match}, {"$limit": (FEW + 1) * len(users)}, {"$group": group}]
    for priority, them in since.items():
        users = sorted(them)
        newer: Bson = {"priority": priority, "attempt": {"$gt": 0}, "order": {"$gte": low[priority]}}
        fields = {
            "_id": 0,
            "n": "$order",
            "user": 1,
        }  # a few rows: to have them grouped costs the database as much again
        asked["since", priority, *users] = [
            {"$match": {**newer, "user": {"$in": users}}},
            {"$limit": _most(users)},
            {"$project": fields},
        ]
    return asked


def _most(users: Sequence[Hashable]) -> int:
    return FEW * len(users) + 1


def cut_off(answers: Answers) -> bool:
    """Says whether more was handed out to users since a round than was read: it stands still, and others are far on."""
    return any(key[0] == "since" and len(rows) >= _most(key[2:]) for key, rows in answers.items())


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
    """The answers with what was said of several users as if each of them had been asked for."""
    found = dict(answers)
    for key in [key for key in answers if key[0] == "since"]:
        rows, priority, users = found[key], key[1], key[2:]
        newer: dict[Key, list[Bson]] = {("last", user, priority): [] for user in users}
        for row in sorted(rows, key=lambda row: -row["n"]):
            newer["last", row["user"], priority].append(row)
        found = {**newer, **found}  # a user who was asked for alone has a track of which no round is known
    for key in [key for key in answers if key[0] == "few"]:
        rows, users = found.pop(key), key[1:]
        if _count(rows) >= (FEW + 1) * len(users):  # some may be left out, nobody knows whose: each has too many
            found |= {("few", user): rows for user in users}
        else:
            found |= {("few", user): [row for row in rows if row["_id"]["user"] == user] for user in users}
    return found


def too_many(answers: Answers) -> set[str]:
    """The users of whom `few` did not read all."""
    return {str(key[1]) for key, rows in answers.items() if key[0] == "few" and _count(rows) > FEW}


def place(wanted: WantedPlace, answers: Answers) -> Place:
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
    if _count(rows) > FEW:
        return None, None, None
    _, rank, needs = lane
    ranked = [row for row in rows if row["_id"]["rank"] == rank]
    here = {row["_id"]["waits"]: row["count"] for row in ranked if row["_id"]["needs"] == needs}
    others = _count(rows) - _count(ranked)
    mine = max((int(row["high"]) for row in ranked), default=None)
    oldest = min((int(row["low"]) for row in ranked), default=None)
    waiting = others + span(oldest, mine) if others < ROOM else None
    return BEHIND in here or here.get(FRONT, 0) >= ROOM, waiting, mine


def _count(rows: Sequence[Bson]) -> int:
    return sum(row["count"] for row in rows)


def _n(answers: Answers, *key: Any) -> int | None:
    rows = answers.get(key, ())
    return int(rows[0]["n"]) if rows else None


def union(name: str, asked: Mapping[Key, Pipeline]) -> Pipeline:
    """One pipeline over the collection of this name that answers all questions; `sorted_out` takes it apart again."""
    # A field that is not part of the projection would be left out.
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
