"""The facts of a new task's place: what few waiting tasks say themselves is what the ends of the index say of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.judicator.queue.order import LIVE, RANKS, fair_order
from judge.judicator.queue.placing import (
    BEHIND,
    FEW,
    FRONT,
    Key,
    Track,
    WantedPlace,
    by_user,
    cut_off,
    place,
    questions,
    sorted_out,
    too_many,
    union,
)

Row = tuple[str, str, int, str, int]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob"]),
        st.sampled_from([FRONT, BEHIND]),
        st.sampled_from(LIVE),
        st.sampled_from(["c", "pascal"]),
        st.integers(1, 90),
    ),
    max_size=150,
    unique_by=lambda row: (row[0], row[2], row[4]),  # no two of a user's have the same order in a class
)


HANDED = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob"]),
        st.sampled_from(["high", "normal"]),
        st.sampled_from(["c", "pascal"]),
        st.integers(1, 40),
    ),
    max_size=12,
)


def answered(
    rows: list[Row],
    wanted: list[WantedPlace],
    many: set[str],
    *,
    handed: Sequence[tuple[str, str, str, int]] = (),
    rounds: dict[Track, int] | None = None,
) -> dict[Key, Sequence[dict[str, Any]]]:
    """What the database would say of these tasks, waiting and handed out: a model of the few stages there are."""
    asked = questions(wanted, many, rounds or {})
    docs = [dict(zip(("user", "waits", "rank", "needs", "order"), row, strict=True)) for row in rows]
    docs += [{**dict(zip(("user", "priority", "needs", "order"), row, strict=True)), "attempt": 1} for row in handed]
    found: list[dict[str, Any]] = []
    for what, pipeline in enumerate(asked.values()):
        some = docs
        for stage in pipeline:
            ((name, value),) = stage.items()
            if name == "$match":
                some = [doc for doc in some if all(_is(doc.get(key), one) for key, one in value.items())]
            elif name == "$sort":
                some = sorted(some, key=lambda doc: doc["order"], reverse=value["order"] < 0)
            elif name == "$limit":
                some = some[:value]
            elif name == "$count":
                some = [{"n": len(some)}] if some else []
            elif name == "$project":
                some = [{**doc, "n": doc["order"]} for doc in some]
            elif name == "$group":
                some = _grouped(value, some)
        found += [{**doc, "what": what} for doc in some]
    return by_user(sorted_out(asked, found))


def _is(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        ((name, than),) = wanted.items()
        return (
            value in than if name == "$in" else value is not None and (value > than or (name, value) == ("$gte", than))
        )
    return bool(value == wanted)


def _grouped(wanted: dict[str, Any], docs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def of(doc: dict[str, Any], field: Any) -> Any:
        return {name: of(doc, one) for name, one in field.items()} if isinstance(field, dict) else doc[field[1:]]

    groups: list[tuple[Any, list[dict[str, Any]]]] = []
    for doc in docs:
        known = [some for key, some in groups if key == of(doc, wanted["_id"])]
        known[0].append(doc) if known else groups.append((of(doc, wanted["_id"]), [doc]))
    kinds = {"$sum": len, "$min": min, "$max": max}
    fields = {name: next(iter(one.items())) for name, one in wanted.items() if name != "_id"}
    return [
        {
            "_id": key,
            **{
                name: kinds[op](some if op == "$sum" else [doc["order"] for doc in some])
                for name, (op, _) in fields.items()
            },
        }
        for key, some in groups
    ]


@given(ROWS, st.sampled_from([1, 2, 3]), st.sampled_from(["c", "pascal"]))
def test_few_tasks_say_what_the_ends_of_many_say(rows: list[Row], rank: int, needs: str) -> None:
    wanted = WantedPlace(("ann", rank, needs), "normal", frozenset({"c"}))
    few, many = answered(rows, [wanted], set()), answered(rows, [wanted], {"ann"})
    mine = [row for row in rows if row[0] == "ann"]
    assert too_many(few) == ({"ann"} if len(mine) > FEW else set())
    if len(mine) <= FEW:
        assert place(wanted, few) == place(wanted, many)
    assert place(wanted, {**few, **many}) == place(wanted, many), "the ends count where both were asked"


@given(ROWS)
def test_the_tasks_of_several_users_are_one_question_and_each_has_the_own_ones(rows: list[Row]) -> None:
    wanted = [WantedPlace((user, 2, "c"), "normal", frozenset({"c"})) for user in ("ann", "bob", "eve")]
    assert len([key for key in questions(wanted, (), {}) if key[0] == "few"]) == 1
    together, more = answered(rows, wanted, set()), too_many(answered(rows, wanted, set()))
    for one in wanted:
        alone = answered(rows, [one], set())
        assert too_many(alone) <= more, "of whom there may be more than were read, more is asked"
        if one.lane[0] not in more:
            assert place(one, together) == place(one, alone)
    assert len(rows) >= 3 * (FEW + 1) or more == {user for user in ("ann", "bob") if _waiting(rows, user) > FEW}


def test_a_crowd_hides_nobody_behind_it() -> None:
    rows: list[Row] = [("ann", FRONT, 2, "c", order) for order in range(2 * (FEW + 1))]
    wanted = [WantedPlace((user, 2, "c"), "normal", frozenset({"c"})) for user in ("ann", "bob")]
    assert too_many(answered([*rows, ("bob", FRONT, 2, "c", 7)], wanted, set())) == {"ann", "bob"}


def _waiting(rows: list[Row], user: str) -> int:
    return sum(row[0] == user for row in rows)


@given(ROWS)
def test_places_that_are_asked_for_together_are_those_that_each_would_have_alone(rows: list[Row]) -> None:
    wanted = [
        WantedPlace((user, rank, needs), priority, frozenset({"c"}))
        for user in ("ann", "bob")
        for rank, priority in ((1, "high"), (2, "normal"))
        for needs in ("c", "pascal")
    ]
    many = {"bob"}
    together = answered(rows, wanted, many | {"ann"})
    assert [place(one, together) for one in wanted] == [
        place(one, answered(rows, [one], many | {"ann"})) for one in wanted
    ]


@given(ROWS, HANDED, st.integers(0, 40))
def test_what_was_handed_out_before_a_round_has_no_part_in_it(
    rows: list[Row], handed: list[tuple[str, str, str, int]], back: int
) -> None:
    """The one question of several users, from a known round on, decides as the questions of each do."""
    wanted = [
        WantedPlace((user, RANKS[priority], needs), priority, frozenset({needs}))
        for user in ("ann", "bob")
        for priority in ("high", "normal")
        for needs in ("c", "pascal")
    ]
    each = answered(rows, wanted, set(), handed=handed)
    rounds = {one.track: place(one, each).now - back for one in wanted[:3]}  # of the fourth track none is known
    together = answered(rows, wanted, set(), handed=handed, rounds=rounds)
    assert [len([key for key in questions(wanted, (), known) if key[0] == "since"]) for known in ({}, rounds)] == [0, 2]
    for one in wanted:
        old, new = place(one, each), place(one, together)
        assert new.now == old.now
        assert fair_order(new.now, new.mine, new.last) == fair_order(old.now, old.mine, old.last)


@pytest.mark.parametrize("more", [0, 1, 40])
def test_a_round_long_ago_says_that_not_all_was_read(more: int) -> None:
    wanted = [WantedPlace((user, 2, "c"), "normal", frozenset({"c"})) for user in ("ann", "bob")]
    handed = [("ann", "normal", "c", order + 1) for order in range(2 * FEW + more)]
    answers = answered([], wanted, set(), handed=handed, rounds={wanted[0].track: 1})
    assert cut_off(answers) == (more > 0)
    assert not cut_off(answered([], wanted, set(), handed=handed))


def test_all_questions_are_one_command() -> None:
    wanted = [WantedPlace((user, 2, "c"), "normal", frozenset()) for user in ("ann", "bob", "ann")]
    asked = questions(wanted, {"bob"}, {})
    pipeline = union("tasks", asked)
    assert len([stage for stage in pipeline if "$unionWith" in stage]) == len(asked) - 1
    assert len([key for key in asked if key[0] == "head"]) == 1, "what several want to know is asked once"
