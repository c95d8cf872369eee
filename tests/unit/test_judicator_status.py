"""What the status warns of, which the alerts of Prometheus do as well."""

import datetime
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from judge.judicator import hosts, status
from judge.judicator.hosts import HostNote
from judge.judicator.queue.order import ExecutorCapacity
from judge.model.overview import MemberState

NOW = datetime.datetime(2026, 11, 29, 3, 0, tzinfo=datetime.UTC)
RULES = Path(__file__).parents[2] / "roles/judge_monitor/files/judge.rules.yml"


def members(healthy: int, of: int, learners: int = 0) -> list[MemberState]:
    voters = [MemberState(name=f"m{i}", address="a", role="voter", healthy=i < healthy) for i in range(of)]
    return voters + [MemberState(name="new", address="a", role="learner", healthy=True)] * learners


@pytest.mark.parametrize(
    ("healthy", "of", "sentence"),
    [
        (1, 1, ""),
        (1, 2, ""),
        (3, 3, ""),
        (2, 3, "2 of 3 members of etcd are healthy: one more failure stops the cluster"),
        (1, 3, "1 of 3 members of etcd are healthy: the cluster has no majority"),
        (4, 5, ""),
        (3, 5, "3 of 5 members of etcd are healthy: one more failure stops the cluster"),
        (3, 4, "3 of 4 members of etcd are healthy: one more failure stops the cluster"),
    ],
)
def test_lost_redundancy_is_a_fault(healthy: int, of: int, sentence: str) -> None:
    assert status.no_spare("etcd", members(healthy, of, learners=1)) == ([sentence] if sentence else [])


def executor(**changes: bool) -> ExecutorCapacity:
    return ExecutorCapacity(languages=frozenset(), **changes)


@pytest.mark.parametrize(
    ("executors", "reason"),
    [
        ([], "no executor is alive"),
        ([executor(alive=False, accepts=False), executor(alive=False, drained=True)], "no executor is alive"),
        ([executor(drained=True, accepts=False, busy=True), executor(alive=False)], "all live executors are drained"),
        ([executor(accepts=False), executor(drained=True)], "no executor accepts work"),
        ([executor(accepts=False, busy=True)], ""),
        ([executor(), executor(drained=True)], ""),
    ],
)
def test_a_cluster_whose_executors_take_nothing_is_unhealthy(executors: list[ExecutorCapacity], reason: str) -> None:
    sentence = status.no_judging(executors)
    assert sentence.partition(";")[0] == reason
    assert status.faults("", "j1", [], [], [], sentence)[1:] == ([sentence] if reason else [])


def test_a_member_that_is_behind_is_named() -> None:
    def member(name: str, state: int, behind: float) -> dict[str, Any]:
        return {"name": name, "state": state, "optimeDate": NOW - datetime.timedelta(seconds=behind)}

    reply = {"members": [member("j1:1", 1, 0), member("j2:1", 2, 29), member("j3:1", 2, 31), member("j4:1", 8, 9000)]}
    (sentence,) = status.lagging(reply)
    assert sentence.startswith("mongod j3:1 is 31 s behind the newest write")


def test_a_short_oplog_counts_when_it_is_full() -> None:
    assert status.short_oplog(600, 0.5) == status.short_oplog(3600, 1.0) == []
    assert status.short_oplog(600, 0.95)[0].startswith("MongoDB's oplog holds 10 minutes of writes")


def test_an_etcd_that_is_nearly_full_is_named() -> None:
    assert status.etcd_filled({"j1": 81, "j2": 80}, 100)[0].startswith("etcd member j1 has 81 per cent of its quota")
    assert len(status.etcd_filled({"j1": 81, "j2": 80}, 100)) == 1


@pytest.mark.parametrize(
    ("seconds", "word"), [(0, ""), (1.5, ""), (-1.5, ""), (2.5, "2 s ahead of"), (-600, "600 s behind")]
)
def test_a_clock_is_off_from_two_seconds_on_however_long_the_answer_took(seconds: float, word: str) -> None:
    own = NOW + datetime.timedelta(seconds=seconds)
    assert [word in text for text in hosts.off_clock("j1", own, NOW, own)] == ([True] if word else [])
    later = own + datetime.timedelta(minutes=1)
    assert hosts.off_clock("j1", own, NOW + datetime.timedelta(seconds=30), later) == [] or abs(seconds) > 30


def test_a_disk_with_little_room_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    directories = [tmp_path / "none", tmp_path / "one", tmp_path / "two"]
    room = os.statvfs(tmp_path)
    free, size = room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize
    monkeypatch.setattr(hosts, "_LEAST_SHARE", 0.0)
    monkeypatch.setattr(hosts, "_LEAST_ROOM", free // 2)
    assert hosts.little_room("j1", directories) == []
    monkeypatch.setattr(hosts, "_LEAST_ROOM", size + 1)
    (sentence,) = hosts.little_room("j1", directories)
    assert sentence.startswith("the disk of judicator 'j1' has") and f"left for {tmp_path}/one;" in sentence


def test_a_cluster_without_a_new_backup_is_told_so() -> None:
    def warned(*notes: HostNote) -> bool:
        return bool(hosts.no_backup(notes, NOW))

    unknown, none = HostNote([]), HostNote([], backs_up=True)
    old, new = (HostNote([], True, NOW - datetime.timedelta(days=days)) for days in (9, 7))
    assert warned(none) and warned(unknown, none, old)
    assert not warned(unknown) and not warned(none, old, new)


def test_the_newest_step_of_the_controller_counts_and_only_where_it_has_a_timer() -> None:
    def ago(hours: float) -> HostNote:
        return HostNote([], steps={"copied": NOW - datetime.timedelta(hours=hours)})

    def missed(*notes: HostNote) -> list[str]:
        return hosts.missed_steps(notes, {"copied": 49, "drilled": 0}, NOW)

    assert missed(ago(100), ago(48)) == []
    (old,) = missed(ago(100), HostNote([]))
    assert old.startswith("no backup was copied for 49 hours; journalctl")
    assert missed(HostNote([])) == [old]
    assert hosts.missed_steps([], {}, NOW) == []
    assert [text[:16] for text in hosts.missed_steps([ago(1)], {"drilled": 800}, NOW)] == ["no restore drill"]


def test_status_and_alerts_have_the_same_bounds() -> None:
    rules = {rule["alert"]: rule["expr"] for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]}
    assert f"> {status._LAG_SECONDS:g}" in rules["JudgeReplicationLag"]
    assert f"< {status._OPLOG_SECONDS:g} and" in rules["JudgeOplogShort"]
    assert rules["JudgeOplogShort"].endswith(f"> {status._OPLOG_FILLED:g}")
    assert rules["JudgeEtcdFull"].endswith(f"> {status._ETCD_FILLED:g}")
    assert rules["JudgeClockOff"].endswith(f"> {hosts._CLOCKS:g}")
    assert f"< {hosts._LEAST_SHARE:g} or" in rules["JudgeDiskFills"]
    assert float(rules["JudgeDiskFills"].rpartition("< ")[2]) == hosts._LEAST_ROOM
    assert f"> {hosts._BACKUP.days} * 86400" in rules["JudgeNoBackup"]
