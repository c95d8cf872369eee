"""The replica-set planner: every rule by example, and its promises as properties of whole simulated histories."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.mongodb.planner import (
    MAX_MEMBERS,
    MAX_VOTERS,
    TAG,
    ElectionTimings,
    Observed,
    Registered,
    SetMember,
    Step,
    StepKind,
    majority,
    next_config,
    odd_goal,
    plan,
)
from tests.support.examples import at_least

TIMES = ElectionTimings(2000, 500)


def member(
    number: int, votes: int = 1, *, healthy: bool = True, in_sync: bool | None = None, inc: str = ""
) -> SetMember:
    synced = healthy if in_sync is None else in_sync
    return SetMember(number, f"h{number}:1", votes, inc or f"i{number}", healthy, synced, "SECONDARY")


def entry(number: int, inc: str = "", name: str = "") -> Registered:
    return Registered(name or f"n{number}", f"h{number}:1", inc or f"i{number}")


def observation(members: list[SetMember], registered: list[Registered], **changes: Any) -> Observed:
    values: dict[str, Any] = {
        "me": "h0:1", "primary": "h0:1", "registered": registered, "members": members, "version": 7,
        "committed": True, "settings": TIMES, "wanted": TIMES, **changes,
    }  # fmt: skip
    return Observed(**values)


def voters(count: int) -> list[SetMember]:
    return [member(number) for number in range(count)]


def entries(count: int) -> list[Registered]:
    return [entry(number) for number in range(count)]


@pytest.mark.parametrize(("registered", "goal"), [(0, 0), (1, 1), (2, 1), (3, 3), (4, 3), (7, 7), (8, 7), (50, 7)])
def test_goal(registered: int, goal: int) -> None:
    assert odd_goal(registered) == goal


def test_only_the_primary_decides() -> None:
    step = plan(observation(voters(3), entries(3), primary="h1:1"))
    assert (step.kind, step.sentence) == (StepKind.NOTHING, "h1:1 is primary and decides")
    assert plan(observation(voters(3), entries(3), primary=None)).sentence == "there is no primary"


def test_waits_for_the_previous_configuration() -> None:
    step = plan(observation(voters(1), entries(3), committed=False))
    assert step.kind is StepKind.NOTHING and "majority has the previous" in step.sentence


def test_nothing_without_a_healthy_majority() -> None:
    step = plan(observation([member(0), member(1, healthy=False), member(2, healthy=False)], entries(1)))
    assert step.kind is StepKind.NOTHING and "only 1 of 3 voters are healthy" in step.sentence


def test_an_emptied_registry_removes_nobody() -> None:
    for registered in ([], [entry(8), entry(9)]):
        step = plan(observation(voters(3), registered))
        assert step.kind is StepKind.NOTHING and "none of the members is registered" in step.sentence


def test_all_as_registered() -> None:
    assert plan(observation(voters(3), entries(3))).sentence == "3 members, 3 voters, as registered"
    step = plan(observation([*voters(3), member(3, 0)], entries(4)))
    assert step.kind is StepKind.NOTHING and "one more voter would tolerate no more" in step.sentence


def test_new_members_join_without_vote_under_a_new_id() -> None:
    step = plan(observation(voters(1), entries(3)))
    assert (step.kind, step.id, step.address, step.incarnation) == (StepKind.ADD, 8, "h1:1", "i1")
    assert plan(observation([member(0), member(30, 0)], [entry(0), entry(30), entry(2)])).id == 31


def test_a_full_set_takes_no_more() -> None:
    members = [member(number, votes=int(number < 7)) for number in range(MAX_MEMBERS)]
    step = plan(observation(members, entries(MAX_MEMBERS + 1)))
    assert step.kind is StepKind.NOTHING and "at most 50 members" in step.sentence


def test_votes_are_given_in_pairs() -> None:
    single = plan(observation([member(0), member(1, 0), member(2, 0, in_sync=False)], entries(3)))
    assert single.kind is StepKind.NOTHING and "gets its vote together with the next one" in single.sentence
    pair = plan(observation([member(0), member(1, 0), member(2, 0)], entries(3)))
    assert (pair.kind, pair.id) == (StepKind.RAISE, 1)
    second = plan(observation([member(0), member(1), member(2, 0)], entries(3)))
    assert (second.kind, second.id) == (StepKind.RAISE, 2)


def test_a_raise_waits_until_in_sync_and_says_so() -> None:
    odd = plan(observation([member(0), member(1, 0, in_sync=False), member(2, 0, healthy=False)], entries(3)))
    assert odd.kind is StepKind.NOTHING and "1 vote until another member is in sync; 3 are wanted" in odd.sentence
    even = plan(observation([member(0), member(1), member(2, 0, healthy=False)], entries(3)))
    assert even.kind is StepKind.NOTHING and "an even number (2) votes until" in even.sentence


def test_removal_takes_what_costs_nothing_first() -> None:
    members = [*voters(4), member(4, healthy=False), member(5, 0), member(6)]
    keep = [entry(0), entry(1), entry(2)]
    assert plan(observation(members, keep)).id == 5
    assert plan(observation([m for m in members if m.id != 5], keep)).id == 4


def test_removal_never_costs_the_healthy_majority() -> None:
    members = [member(0), member(1), member(2, healthy=False)]
    step = plan(observation(members, [entry(0), entry(2)]))
    assert step.kind is StepKind.NOTHING
    assert "h1:1 stays for now: without it only 1 of 2 voters would be healthy" in step.sentence
    # A spare in sync takes its vote first, and then the removal is safe.
    spare = [*members, member(3, 0)]
    raised = plan(observation(spare, [entry(0), entry(2), entry(3)]))
    assert (raised.kind, raised.id) == (StepKind.RAISE, 3)
    after = [*members, member(3)]
    assert plan(observation(after, [entry(0), entry(2), entry(3)])).id == 1


def test_a_replaced_disk_is_removed_then_added_under_a_new_id() -> None:
    registered = [entry(0), entry(1, inc="fresh"), entry(2)]
    step = plan(observation([member(0), member(1, healthy=False), member(2)], registered))
    assert (step.kind, step.id) == (StepKind.REMOVE, 1) and "data directory was replaced" in step.sentence
    again = plan(observation([member(0), member(2)], registered))
    assert (again.kind, again.id, again.incarnation) == (StepKind.ADD, 8, "fresh")


def test_an_unregistered_primary_steps_down_and_never_removes_itself() -> None:
    step = plan(observation(voters(3), [entry(1), entry(2)]))
    assert step.kind is StepKind.STEP_DOWN and "h1:1" in step.sentence
    lagging = [member(0), member(1, in_sync=False), member(2, healthy=False)]
    stays = plan(observation(lagging, [entry(1), entry(2)]))
    assert stays.kind is StepKind.NOTHING and "no registered voter is in sync" in stays.sentence


def test_an_unregistered_lone_primary_first_raises_its_heir() -> None:
    step = plan(observation([member(0), member(1, 0)], [entry(1)]))
    assert (step.kind, step.id) == (StepKind.RAISE, 1)
    assert plan(observation([member(0), member(1)], [entry(1)])).kind is StepKind.STEP_DOWN


def test_seven_voters_at_most_also_while_one_is_leaving() -> None:
    leaving = [entry(number) for number in range(1, 8)]
    members = [member(0), *[member(n, in_sync=False) for n in range(1, 7)], member(7, 0)]
    step = plan(observation(members, leaving))
    assert step.kind is StepKind.NOTHING and "7 members vote, of whom some are still to be removed" in step.sentence


def test_an_even_number_of_voters_loses_one() -> None:
    four = plan(observation(voters(4), entries(4)))
    assert (four.kind, four.id) == (StepKind.LOWER, 3)
    sick = plan(observation([member(0), member(1, healthy=False), member(2), member(3)], entries(4)))
    assert (sick.kind, sick.id) == (StepKind.LOWER, 1)
    two = plan(observation(voters(2), entries(2)))
    assert two.kind is StepKind.NOTHING and "on one disk only" in two.sentence


def test_a_vote_is_not_taken_where_that_costs_the_majority() -> None:
    # Four registered voters and one that leaves: 3 of 5 are healthy, the leaving one among them.
    members = [member(0), member(1), member(2, healthy=False), member(3, healthy=False), member(9)]
    step = plan(observation(members, entries(4)))
    # Removing h9 leaves 2 of 4: refused. Lowering a sick one leaves 3 of 4: done.
    assert (step.kind, step.id) == (StepKind.LOWER, 3)


def test_own_entry_is_adopted() -> None:
    step = plan(observation([member(0, inc="-"), member(1), member(2)], entries(3)))
    assert (step.kind, step.id, step.incarnation) == (StepKind.ADOPT, 0, "i0")


def test_two_directories_at_one_address_are_left_to_a_person() -> None:
    twice = [*entries(3), entry(1, inc="other", name="zz"), entry(5), entry(5, inc="x", name="z5")]
    step = plan(observation(voters(3), twice))
    assert step.kind is StepKind.NOTHING and "h1:1 is registered by two data directories" in step.sentence


def test_timings_are_brought_up_to_date() -> None:
    step = plan(observation(voters(3), entries(3), settings=ElectionTimings(10000, 2000)))
    assert step.kind is StepKind.TUNE and "2000 ms" in step.sentence


def test_next_config_changes_one_thing_and_keeps_the_rest() -> None:
    config = {
        "_id": "judge", "version": 4, "term": 2, "new": {"field": 1}, "settings": {"replicaSetId": "r", "x": 1},
        "members": [
            {"_id": 0, "host": "h0:1", "votes": 1, "priority": 2, "tags": {TAG: "i0", "rack": "a"}},
            {"_id": 3, "host": "h3:1", "votes": 0, "priority": 0},
        ],
    }  # fmt: skip

    def after(kind: StepKind, **fields: Any) -> dict[str, Any]:
        return next_config(config, Step(kind, "", **fields), TIMES)

    assert after(StepKind.RAISE, id=3)["members"][1] == {"_id": 3, "host": "h3:1", "votes": 1, "priority": 1}
    lowered = after(StepKind.LOWER, id=0)["members"][0]
    assert (lowered["votes"], lowered["priority"]) == (0, 0), "a member without a vote cannot become primary"
    assert after(StepKind.ADOPT, id=0, incarnation="n")["members"][0]["tags"] == {TAG: "n", "rack": "a"}
    assert [m["_id"] for m in after(StepKind.REMOVE, id=0)["members"]] == [3]
    added = after(StepKind.ADD, id=9, address="h9:1", incarnation="i9")["members"][2]
    assert added == {"_id": 9, "host": "h9:1", "votes": 0, "priority": 0, "tags": {TAG: "i9"}}
    tuned = after(StepKind.TUNE)
    assert tuned["settings"] == {
        "replicaSetId": "r", "x": 1, "electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500
    }  # fmt: skip
    assert tuned["version"] == 5 and tuned["new"] == {"field": 1}
    assert config["version"] == 4 and len(config["members"]) == 2, "the observed document is not touched"


@st.composite
def observations(draw: st.DrawFn) -> Observed:
    """Any observation, also ones that should not happen: half-removed sets, wiped disks, double entries."""
    numbers = draw(st.lists(st.integers(0, 11), min_size=1, max_size=10, unique=True))
    me = numbers[0]
    members = []
    for place, number in enumerate(numbers):
        votes = 1 if place == 0 else draw(st.integers(0, 1)) if sum(m.votes for m in members) < MAX_VOTERS else 0
        healthy = True if place == 0 else draw(st.booleans())
        in_sync = healthy and (place == 0 or draw(st.booleans()))
        members.append(SetMember(number, f"h{number}:1", votes, f"i{number}", healthy, in_sync))
    registered = [
        Registered(f"n{number}", f"h{number}:1", draw(st.sampled_from([f"i{number}", f"i{number}", "new"])))
        for number in draw(st.lists(st.integers(0, 11), max_size=12, unique=True))
    ]
    extra = draw(st.lists(st.integers(0, 11), max_size=1))
    registered += [Registered("second", f"h{number}:1", "second") for number in extra]
    return Observed(
        me=f"h{me}:1", primary=f"h{me}:1", registered=registered, members=members,
        version=draw(st.integers(12, 100)), committed=draw(st.integers(0, 9)) > 0,
        settings=TIMES, wanted=draw(st.sampled_from([TIMES, ElectionTimings(4000, 500)])),
    )  # fmt: skip


def document(observed: Observed) -> dict[str, Any]:
    return {
        "version": observed.version,
        "members": [
            {"_id": m.id, "host": m.address, "votes": m.votes, "priority": m.votes, "tags": {TAG: m.incarnation}}
            for m in observed.members
        ],
    }


@settings(max_examples=at_least(800))
@given(observations())
def test_every_step_is_safe(observed: Observed) -> None:
    step = plan(observed)
    assert step.sentence
    if step.kind in {StepKind.NOTHING, StepKind.STEP_DOWN}:
        return
    before, after = document(observed), next_config(document(observed), step, observed.wanted)
    votes_before = {m["_id"] for m in before["members"] if m["votes"]}
    votes_after = {m["_id"] for m in after["members"] if m["votes"]}
    assert len(votes_before ^ votes_after) <= 1, "one voting change per reconfig"
    assert len(votes_after) <= MAX_VOTERS
    assert len(after["members"]) <= MAX_MEMBERS
    healthy = {m.id for m in observed.members if m.healthy}
    assert len(votes_after & healthy) >= majority(len(votes_after)), "a healthy majority remains"
    assert len(votes_before & healthy) >= majority(len(votes_before)), "and decided this"
    own = next(m["_id"] for m in before["members"] if m["host"] == observed.me)
    assert own in votes_after, "the primary never removes itself"
    fresh = {m["_id"] for m in after["members"]} - {m["_id"] for m in before["members"]}
    assert all(number > max(m.id for m in observed.members) for number in fresh), "a new _id"
    hosts = [m["host"] for m in after["members"]]
    assert len(hosts) == len(set(hosts))
    assert observed.committed


@settings(max_examples=at_least(400))
@given(observations(), st.data())
def test_converges_to_what_is_registered(start: Observed, data: st.DataObject) -> None:
    """With every registered member up, the set becomes what is registered, in a bounded number of single steps."""
    registered = [entry for entry in start.registered if entry.name != "second"]
    by_address = {entry.address: entry for entry in registered}
    remaining = [m for m in start.members if m.address in by_address]
    unchanged = [m for m in remaining if by_address[m.address].incarnation == m.incarnation or m.address == start.me]
    if not unchanged:
        return

    def up(m: SetMember) -> bool:
        return m.address in by_address and by_address[m.address].incarnation == m.incarnation

    start_members = [
        dataclasses.replace(m, healthy=up(m) or m.address == start.me, in_sync=up(m) or m.address == start.me)
        for m in start.members
    ]
    now = dataclasses.replace(start, registered=registered, members=start_members, committed=True)
    voting = [m for m in now.members if m.votes]
    if sum(m.healthy for m in voting) < majority(len(voting)):
        return
    ids = {m.id for m in now.members}
    for _ in range(80):
        step = plan(now)
        if step.kind is StepKind.NOTHING:
            break
        if step.kind is StepKind.STEP_DOWN:
            heirs = [m for m in now.members if m.votes and m.in_sync and m.address != now.me]
            heir = data.draw(st.sampled_from(heirs)).address
            now = dataclasses.replace(now, me=heir, primary=heir)
            continue
        after = next_config(document(now), step, now.wanted)
        old = {m.id: m for m in now.members}
        members = []
        for raw in after["members"]:
            previous = old.get(raw["_id"])
            if previous is None:
                assert raw["_id"] not in ids, "no _id is ever used twice"
                ids.add(raw["_id"])
            state = (previous.healthy, previous.in_sync) if previous else (True, True)
            members.append(SetMember(raw["_id"], raw["host"], raw["votes"], raw["tags"][TAG], *state))
        now = dataclasses.replace(
            now,
            members=members,
            version=after["version"],
            settings=now.wanted if step.kind is StepKind.TUNE else now.settings,
        )
    else:
        pytest.fail(f"no end: {plan(now)}")
    assert {(m.address, m.incarnation) for m in now.members} == {(e.address, e.incarnation) for e in registered}, step
    votes = sum(m.votes for m in now.members)
    goal = odd_goal(len(registered))
    assert votes == goal or (votes == 2 and "on one disk only" in step.sentence), step
    assert now.settings == now.wanted
