"""Who may leave, who may stop, what is told of it: pure functions over what was read of a cluster."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import NotFoundError, OutcomeUnknownError, UnavailableError
from judge.common.pki.refused import listed, reason, value
from plugins.module_utils import judge_roster
from plugins.module_utils.judge_members import majority
from plugins.module_utils.judge_roster import (
    Roster,
    RosterError,
    forgotten,
    outages,
    plan,
    refusals,
    remarks,
    strangers,
)
from plugins.modules.judge_host import in_hand

NAMES = ("j1", "j2", "j3", "j4", "j5")


def roster(up: dict[str, bool], executors: dict[str, bool] | None = None, **fields: Any) -> dict[str, Any]:
    """A cluster whose judicators are up or down, all of them voters of both kinds."""
    members = [{"name": name, "votes": True, "healthy": healthy} for name, healthy in up.items()]
    alive = [{"name": name, "alive": live, "drain": False} for name, live in (executors or {}).items()]
    return {"etcd": members, "mongodb": members, "judicators": sorted(up), "executors": alive, "refused": {}, **fields}


@given(st.dictionaries(st.sampled_from(NAMES), st.booleans(), min_size=1), st.sampled_from(NAMES))
def test_a_removal_keeps_a_majority(up: dict[str, bool], name: str) -> None:
    healthy = {member for member, alive in up.items() if alive}
    remaining = set(up) - {name}
    may = name not in up or (
        bool(remaining) and len(healthy) >= majority(len(up)) and len(healthy & remaining) >= majority(len(remaining))
    )
    assert (refusals(roster(up), [name]) == []) == may


@given(st.dictionaries(st.sampled_from(NAMES), st.booleans(), min_size=1), st.sets(st.sampled_from(NAMES)))
def test_a_stop_leaves_a_majority_running(up: dict[str, bool], names: set[str]) -> None:
    running = {member for member, alive in up.items() if alive} - names
    assert (outages(roster(up), sorted(names)) == []) == (not names & set(up) or len(running) >= majority(len(up)))


def test_a_refusal_names_the_members_that_are_down() -> None:
    up = dict.fromkeys(("j1", "j2", "j3"), True) | {"j2": False}
    etcd, mongodb = refusals(roster(up), ["j3"])
    assert etcd == (
        "of etcd only 1 of 2 voters would be left healthy (j2 is down); bring that back first, or remove it first"
    )
    assert mongodb.startswith("of MongoDB only 1 of 2")
    assert refusals(roster(up), ["j2"]) == []  # the dead one may go
    lone = refusals(roster({"j1": True}), ["j1"])
    assert lone[0] == "j1 is the last member of etcd, which has the data"
    broken = refusals(roster({"j1": True, "j2": False, "j3": False}), ["j3"])
    assert "has no majority now" in broken[0]
    assert "j2, j3 is down" in broken[0]


def test_the_plan_has_a_step_for_every_membership_and_none_when_all_is_done() -> None:
    state = roster({"j1": True, "j2": True, "j3": True}, {"j3": True, "e1": True})
    assert [step.split(":")[0].split(" ")[0] for step in plan(state, "j3")] == [
        "MongoDB", "certificates", "etcd", "the", "executor",
    ]  # fmt: skip
    assert [step.split(" ")[0] for step in plan(state, "e1")] == ["certificates", "executor"]
    assert [step.split(" ")[0] for step in plan(state, "g1")] == ["certificates"]
    state |= {"refused": {"g1": 10.0}}
    assert plan(state, "g1") == plan(state, "g1", before=10.0) == []
    assert plan(state, "g1", again=True) != []
    # It came back and was removed again; the run noted so, and was cut off before it told the cluster.
    assert plan(state, "g1", before=20.0) == [
        "certificates of g1 that were issued until now are refused by every judicator and etcd"
    ]


def test_a_cluster_that_was_formed_anew_has_forgotten_who_was_removed() -> None:
    assert forgotten(roster({"j1": True}), {"e1": 10.0}) == {"e1": 10.0}
    refusing = roster({"j1": True}, refused={"e1": 10.0, "e2": 5.0, "e3": 30.0})
    assert forgotten(refusing, {"e1": 10.0, "e2": 20.0, "e3": 20.0}) == {"e2": 20.0}


def test_remarks_on_a_smaller_cluster() -> None:
    state = roster({"j1": True, "j2": True, "j3": True}, {"e1": True})
    assert remarks(state, "j3")[0] == "2 of etcd's voters are left, of which 0 may fail"
    assert "playbooks/rotate.yml -e judge_rotate=ca,mongodb.keyfile,mongodb.password" in remarks(state, "j3")[1]
    assert "nothing is judged" in remarks(state, "e1")[0]
    assert remarks(state, "g1") == []


def test_members_that_the_inventory_does_not_have_are_named_once() -> None:
    state = roster({"j1": True, "j9": True}, {"e1": True, "e8": False, "e9": True})
    sentences = strangers(state, {"judicators": ["j1"], "executors": ["e1"], "gateways": ["g1"]})
    assert [text.split(" ")[0] for text in sentences] == ["e8", "e9", "j9"], "one that is off may come back"
    assert "a member of etcd and a member of MongoDB and a judicator, and not in the inventory" in sentences[2]
    assert "remove.yml -e judge_remove=j9" in sentences[2]


def test_members_of_another_group_are_strangers_as_well() -> None:
    state = roster({"j1": True, "j2": True}, {"e1": True, "j1": True})
    inventory = {"judicators": ["j1"], "executors": ["j1", "j2"], "gateways": ["e1", "j2"]}
    moved, judicator = strangers(state, inventory)
    assert moved == (
        "e1 is an executor, and in the inventory only in gateways; put it back into its group, or take it out and "
        "deploy it anew: playbooks/remove.yml -e judge_remove=e1, then site.yml"
    )
    assert judicator.startswith("j2 is a member of etcd and a member of MongoDB and a judicator, and in the inventory")
    assert "only in executors and gateways; " in judicator
    assert strangers(state, {"judicators": ["j1", "j2"], "executors": ["e1", "j1"]}) == []


@given(st.text(min_size=1), st.floats(0, 1e11))
def test_only_older_certificates_are_refused(name: str, before: float) -> None:
    refused = listed([(name, value(before))])
    assert reason(refused, name, before - 1)
    assert not reason(refused, name, before)
    assert not reason(refused, name + "x", 0)


def test_a_refusal_that_cannot_be_read_refuses() -> None:
    assert reason(listed([("e1", "{}"), ("e2", "")]), "e1", 1e12)


def test_the_status_line_of_a_resting_executor_is_understood() -> None:
    assert in_hand("judging 1 of 2 slots, drained, 3 tasks in hand") == 3
    assert in_hand("judging 0 of 2 slots, drained, 0 tasks in hand, disk full") == 0
    assert in_hand("judging 0 of 2 slots") is None


def test_a_change_is_made_again_until_etcd_answers() -> None:
    """As members elect another leader, which they do when the one that leaves led."""
    answers = iter([OutcomeUnknownError("no answer"), UnavailableError("no leader"), None])

    def change() -> str:
        if (answer := next(answers)) is not None:
            raise answer
        return ""

    Roster._until(change, 60.0, "etcd has not taken a change")
    assert next(answers, "all were needed") == "all were needed"

    def never() -> str:
        raise UnavailableError("no leader")

    with pytest.raises(RosterError, match="etcd has not taken a change within 0 s: no leader; run the playbook again"):
        Roster._until(never, 0.0, "etcd has not taken a change")

    def wrong() -> str:
        raise NotFoundError("no such member")

    with pytest.raises(NotFoundError):
        Roster._until(wrong, 60.0, "etcd has not taken a change")


def test_a_registration_that_comes_back_goes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a judicator writes its own anew until the gates refuse its certificate."""
    monkeypatch.setattr(judge_roster, "_GATES", 0.0)
    steps = object.__new__(Roster)
    steps.judicator = steps.mongodb = None
    registered = {"judicator/service/j1": 3, "mongodb/member/j1": 1, "judicator/service/j2": 1}

    def dropped(_: object, key: str) -> bool:
        present = registered.get(key, 0) > 0
        registered[key] = registered.get(key, 0) - present
        return present

    steps._dropped = dropped  # type: ignore[method-assign]
    steps._end_registration("j1", 60.0)
    assert registered == {"judicator/service/j1": 0, "mongodb/member/j1": 0, "judicator/service/j2": 1}
