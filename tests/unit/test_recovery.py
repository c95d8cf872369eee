"""What may be done with the judicators that are left: a decision about facts alone."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.deploy.recovery.__main__ import main
from judge.deploy.recovery.deciding import decide


def survey(**fields: Any) -> dict[str, Any]:
    facts = {"etcd": True, "mongodb": True, "quorum": False, "primary": False, "newest": "2026-11-23T09:14:02+00:00"}
    return {**facts, "submissions": 3, "sentence": "has something", **fields}


BARE = survey(etcd=False, mongodb=False, newest="", sentence="j2: has no data")


def test_one_survivor_of_three() -> None:
    decision = decide({"j1": survey(), "j2": BARE, "j3": None}, "j1")
    assert decision.refusal == "" and decision.etcd and decision.mongodb
    assert decision.gone == ["j2", "j3"]
    assert "with its data up to 2026-11-23T09:14:02+00:00" in decision.plan and "j2, j3 join it again" in decision.plan
    assert decision.seen == ["has something", "j2: has no data", "j3: does not answer, or has nothing of Judge"]


@pytest.mark.parametrize(
    ("remains", "survivor", "sentence"),
    [
        (
            {"j1": survey(), "j2": survey(), "j3": None},
            "j1",
            "a majority of 3 judicators still has the data of etcd (j1, j2) and MongoDB",
        ),
        ({"j1": survey(), "j2": BARE, "j3": None}, "", "no survivor is named; choose the judicator whose data"),
        ({"j1": survey(), "j2": BARE, "j3": None}, "j9", "'j9' is no judicator of the inventory"),
        (
            {"j1": survey(), "j2": BARE, "j3": None},
            "j2",
            "j2 has no data of etcd and MongoDB to begin with; name one of j1",
        ),
        ({"j1": BARE, "j2": None, "j3": None}, "j1", "no judicator has them; restore a backup"),
        ({"j1": survey(mongodb=False), "j2": None, "j3": None}, "j1", "j1 has no data of etcd and MongoDB"),
    ],
)
def test_refusals(remains: dict[str, Any], survivor: str, sentence: str) -> None:
    decision = decide(remains, survivor)
    assert sentence in decision.refusal and decision.plan == "" and "\n" not in decision.refusal


def test_a_run_that_was_cut_off_between_the_two_goes_on() -> None:
    """etcd is whole again, on the survivor alone, and the replica set has no primary yet."""
    decision = decide({"j1": survey(quorum=True), "j2": BARE, "j3": None}, "j1")
    assert decision.refusal == "" and decision.mongodb and not decision.etcd


def test_a_healthy_replica_set_stays_when_only_etcd_is_lost() -> None:
    """The survivor may be a secondary; two members with data have elected a primary."""
    lost_etcd = survey(etcd=False, primary=True)
    decision = decide({"j1": survey(primary=True), "j2": lost_etcd, "j3": lost_etcd}, "j1")
    assert (decision.refusal, decision.etcd, decision.mongodb, decision.gone) == ("", True, False, [])
    assert "the replica set of MongoDB stays as it is, so no submission is lost" in decision.plan
    # Their mongods do not serve, but a majority still has the submissions.
    stopped = survey(etcd=False)
    decision = decide({"j1": survey(), "j2": stopped, "j3": stopped}, "j1")
    assert (decision.refusal, decision.etcd, decision.mongodb, decision.gone) == ("", True, False, [])


def test_a_healthy_etcd_stays_when_only_mongodb_is_lost() -> None:
    lost_mongodb = survey(mongodb=False, quorum=True)
    decision = decide({"j1": survey(quorum=True), "j2": lost_mongodb, "j3": lost_mongodb}, "j1")
    assert (decision.refusal, decision.etcd, decision.mongodb, decision.gone) == ("", False, True, ["j2", "j3"])
    stopped = survey(mongodb=False)
    decision = decide({"j1": survey(), "j2": stopped, "j3": stopped}, "j1")
    assert "still has the data of etcd (j1, j2, j3); start their services" in decision.refusal


@pytest.mark.parametrize("survivor", ["", "j1", "j9"])
def test_a_working_cluster_keeps_all_members(survivor: str) -> None:
    """A healthy cluster; or a run that was cut off while the others joined, and only has to bring that to its end."""
    decision = decide({"j1": survey(quorum=True, primary=True), "j2": BARE, "j3": None}, survivor)
    assert "there is nothing to recover; only site.yml is run" in decision.plan
    assert (decision.refusal, decision.alone, decision.gone) == ("", False, ())


judicators = st.dictionaries(
    st.sampled_from(["j1", "j2", "j3", "j4", "j5"]),
    st.none()
    | st.builds(survey, etcd=st.booleans(), mongodb=st.booleans(), quorum=st.booleans(), primary=st.booleans()),
    min_size=1,
)


@given(judicators, st.sampled_from(["j1", "j2", "j6", ""]))
def test_a_working_part_is_kept_and_so_is_the_survivor(remains: dict[str, Any], survivor: str) -> None:
    decision = decide(remains, survivor)
    assert bool(decision.refusal) != bool(decision.plan)
    works = all(any(state and state[key] for state in remains.values()) for key in ("quorum", "primary"))
    assert not (works and decision.alone)
    if not decision.refusal and decision.alone:
        states = {name: state for name, state in remains.items() if state}
        for kind, health, forced in (("etcd", "quorum", decision.etcd), ("mongodb", "primary", decision.mongodb)):
            data = [name for name, state in states.items() if state[kind]]
            if any(state[health] for state in states.values()) or len(data) > len(remains) // 2:
                assert not forced
            else:
                assert forced and survivor in data
        assert not {name for name, state in states.items() if state["mongodb"]} & set(decision.gone)
        assert survivor not in decision.gone and (decision.mongodb or not decision.gone)


def test_the_command_reads_answers_of_hosts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {"j1": json.dumps(survey()), "j2": "", "j3": ""}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(answers)))
    assert main(["decide", "--survivor", "j1"]) == 0
    assert json.loads(capsys.readouterr().out)["gone"] == ["j2", "j3"]
