"""The MongoDB daemon with real mongods: bootstrap, growth, departure, restarts, lost disks and hangs."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.mongodb import Cluster, mongodb_cluster
from tests.support.servers import free_port, port_open, wait_for


@pytest.fixture
def cluster(tmp_path: Path, etcd_endpoint: str) -> Iterator[Cluster]:
    with mongodb_cluster(tmp_path, etcd_endpoint) as cluster:
        yield cluster


def test_three_members_from_a_race_through_restart_and_loss(cluster: Cluster) -> None:
    """Started at once: one set, three votes. Then a killed primary, a wiped disk, and a restart of all of them."""
    daemons = cluster.start(3)
    cluster.wait_votes([1, 1, 1])
    assert sum("initiates replica set" in daemon.log for daemon in daemons) == 1
    rsid = cluster.etcd.get("mongodb/rsid")
    assert rsid is not None
    assert {str(d.config()["settings"]["replicaSetId"]) for d in daemons} == {rsid.value}
    primary = cluster.primary()
    assert primary is not None
    settings = primary.config()["settings"]
    assert (settings["electionTimeoutMillis"], settings["heartbeatIntervalMillis"]) == (2000, 500)

    def concerns() -> bool:
        defaults = primary.ask("getDefaultRWConcern") or {}
        return (
            defaults["defaultWriteConcern"] == {"w": "majority", "j": True, "wtimeout": 0}
            and defaults["defaultReadConcern"]["level"] == "majority"
        )

    wait_for(concerns, what="the default concerns")
    for daemon in daemons:
        marker = json.loads((daemon.data / "judge-member.json").read_text())
        assert cluster.registration(daemon.name) == {
            "address": daemon.address,
            "incarnation": marker["incarnation"],
        }

    with cluster.client(daemons) as client:
        client.judge.kept.insert_one({"_id": 1})

        # The mongod of the primary is killed: its daemon says so and ends; started again it is a member as before.
        os.kill(primary.mongod, signal.SIGKILL)
        assert primary.ended() == 1
        assert "mongod ended by itself with exit code -9" in primary.log
        client.judge.kept.insert_one({"_id": 2})
        before = {host: member["_id"] for host, member in cluster.members().items()}
        primary.start()
        wait_for(lambda: (primary.ask("hello") or {}).get("secondary"), what="secondary again")
        assert {host: member["_id"] for host, member in cluster.members().items()} == before

        # An emptied disk: never under the old _id, which is removed first.
        wiped = next(daemon for daemon in daemons if daemon is not cluster.primary())
        old = cluster.registration(wiped.name)
        assert wiped.stop() == 0
        shutil.rmtree(wiped.data)
        wiped.start()

        def replaced() -> bool:
            entry = cluster.members().get(wiped.address)
            return entry is not None and entry["_id"] not in before.values() and entry["votes"] == 1

        wait_for(replaced, what="the replaced member votes under a new _id")
        assert cluster.registration(wiped.name) != old
        assert wiped.log.count("initiates replica set") <= 1
        client.judge.kept.insert_one({"_id": 3})

    for daemon in daemons:
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGTERM)
    for daemon in daemons:
        assert daemon.ended() == 0
        assert not port_open(daemon.port)
    for daemon in daemons:
        daemon.start()
    with cluster.client(daemons) as client:
        assert client.judge.kept.count_documents({}) == 3
    assert cluster.votes() == [1, 1, 1]
    now = cluster.etcd.get("mongodb/rsid")
    assert now is not None and now.value == rsid.value


def test_grow_and_leave(cluster: Cluster) -> None:
    """One member; late joiners are raised in pairs; one deregistered from outside, one leaves, the primary leaves."""
    first = cluster.daemon("m0").start()
    cluster.wait_votes([1])
    second = cluster.daemon("m1", leave_on_stop=True).start()
    cluster.wait_votes([1, 0])
    wait_for(lambda: "one more voter would tolerate no more failures" in first.log, what="the reason for one voter")
    third = cluster.daemon("m2").start()
    cluster.wait_votes([1, 1, 1])
    fourth = cluster.daemon("m3").start()
    cluster.wait_votes([1, 1, 1, 0])

    # Somebody deletes the key of a member: it is removed, and a spare takes its vote.
    assert cluster.etcd.delete(f"mongodb/member/{third.name}")
    wait_for(lambda: third.address not in cluster.members(), what="the deregistered member is removed")
    cluster.wait_votes([1, 1, 1])
    third.wait_log("the replica set does not list this member")
    assert third.stop() == 0

    # An ordinary stop keeps the member and its registration.
    assert fourth.stop() == 0
    assert cluster.registration(fourth.name) is not None
    fourth.start()
    wait_for(lambda: (fourth.ask("hello") or {}).get("secondary"), what="the restarted member is back")
    assert fourth.address in cluster.members()

    # leave_on_stop removes it before it ends.
    assert second.stop() == 0
    assert cluster.registration(second.name) is None
    assert "left the replica set" in second.log
    wait_for(lambda: set(cluster.members()) == {first.address, fourth.address}, what="two members")

    # The primary leaves too: it hands over first.
    primary = cluster.primary()
    assert primary is not None
    follower = fourth if primary is first else first
    with cluster.client([first, fourth]) as client:
        client.judge.kept.insert_one({"_id": 1})
        primary.stop()
        primary.start(leave_on_stop=True)
        wait_for(lambda: (primary.ask("hello") or {}).get("hosts"), what="back")
        wait_for(lambda: cluster.primary() is not None, what="a primary")
        assert primary.stop() == 0
        assert cluster.registration(primary.name) is None
        wait_for(lambda: set(cluster.members()) == {follower.address}, what="the last one alone")
        assert client.judge.kept.count_documents({}) == 1
    # A member that has left can come back with the data it has, as a new member.
    primary.start()
    cluster.wait_votes([1, 0])


def test_hanging_mongod_is_killed(cluster: Cluster) -> None:
    daemon = cluster.daemon("m0", check={"interval": 0.2, "tries": 2}).start()
    daemon.wait_log("made replica set")
    os.kill(daemon.mongod, signal.SIGSTOP)
    assert daemon.ended() == 1
    assert "mongod did not serve on" in daemon.log and "killed it" in daemon.log
    assert not port_open(daemon.port)


def test_sigkill_of_the_daemon_takes_mongod_along(cluster: Cluster) -> None:
    daemon = cluster.daemon("m0").start()
    daemon.wait_log("made replica set")
    daemon.kill()
    wait_for(lambda: not port_open(daemon.port), what="mongod is gone")
    daemon.start()
    wait_for(lambda: (daemon.ask("hello") or {}).get("isWritablePrimary"), what="primary again")
    assert daemon.stop() == 0


@pytest.mark.parametrize("step", ["claimed", "initiated", "registered", "recorded"])
def test_seed_that_was_interrupted_goes_on(cluster: Cluster, step: str) -> None:
    """Killed between any two steps of making the set while another one waits: the same one makes it, once."""
    seed = cluster.daemon("m0").start(failpoint=f"mongodb.{step}")
    assert seed.ended() == -9
    wait_for(lambda: not port_open(seed.port), what="its mongod is gone")
    second = cluster.daemon("m1").start()
    if step != "recorded":
        second.wait_log("waits until 'm0' has made the replica set")
    seed.start()
    cluster.wait_votes([1, 0])
    wait_for(lambda: (second.ask("hello") or {}).get("secondary"), what="the other one is in sync")
    rsid = cluster.etcd.get("mongodb/rsid")
    assert rsid is not None
    assert {str(daemon.config()["settings"]["replicaSetId"]) for daemon in (seed, second)} == {rsid.value}
    assert "initiates replica set" not in second.log


def test_lost_disk_of_the_only_member_is_refused(cluster: Cluster) -> None:
    daemon = cluster.daemon("m0").start()
    daemon.wait_log("made replica set")
    assert daemon.stop() == 0
    shutil.rmtree(daemon.data)
    daemon.start()
    assert daemon.ended() == 3
    assert "is empty, and nobody else holds replica set" in daemon.log
    # Before the id was recorded, the claim alone says that somebody with data may have been there.
    cluster.etcd.delete("mongodb/rsid")
    daemon.start()
    assert daemon.ended() == 3
    assert "was emptied while 'm0' was making the replica set" in daemon.log


def test_replacement_waits_while_nobody_can_let_it_in(cluster: Cluster) -> None:
    """With a majority gone, an empty directory waits, says so, and does not start mongod; SIGTERM ends the wait."""
    daemons = cluster.start(3)
    cluster.wait_votes([1, 1, 1])
    for daemon in daemons[:2]:
        assert daemon.stop() == 0
    daemons[2].kill()
    shutil.rmtree(daemons[2].data)
    starts = daemons[2].log.count("mongodb started as process")
    daemons[2].start()
    daemons[2].wait_log("waits before starting mongod with an empty data_dir")
    assert daemons[2].log.count("mongodb started as process") == starts
    assert daemons[2].stop() == 0
    # A quorum comes back: the replacement is let in.
    daemons[2].start()
    for daemon in daemons[:2]:
        daemon.start()

    def let_in() -> bool:
        entry = cluster.members().get(daemons[2].address)
        registered = cluster.registration(daemons[2].name) or {}
        return entry is not None and entry["votes"] == 1 and entry["tags"] == {"incarnation": registered["incarnation"]}

    wait_for(let_in, what="the replacement votes")
    assert daemons[2].log.count("mongodb started as process") == starts + 1


def test_etcd_away_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """A known directory starts and serves without etcd; an empty one waits for it."""
    daemon = cluster.daemon("m0").start()
    daemon.wait_log("made replica set")
    assert daemon.stop() == 0
    nobody = {"endpoints": ["127.0.0.1:1"], "timeout": 0.5}
    daemon.start(etcd=nobody)
    daemon.wait_log("starts mongod with the data it has")
    wait_for(lambda: (daemon.ask("hello") or {}).get("isWritablePrimary"), what="a primary without etcd")
    daemon.wait_log("looks again in the next pass")
    assert daemon.stop() == 0
    fresh = cluster.daemon("m1", etcd=nobody).start()
    fresh.wait_log("waits before starting mongod with an empty data_dir")
    assert not port_open(fresh.port)
    assert fresh.stop() == 0


def test_etcd_that_forgot_the_set_removes_nobody(cluster: Cluster) -> None:
    daemons = cluster.start(3)
    cluster.wait_votes([1, 1, 1])
    for key in ("mongodb/rsid", *(f"mongodb/member/{daemon.name}" for daemon in daemons)):
        cluster.etcd.delete(key)
    for daemon in daemons:
        daemon.wait_log("etcd no longer knows the replica set")
        wait_for(lambda daemon=daemon: cluster.registration(daemon.name), what="registered again")
    assert cluster.votes() == [1, 1, 1]
    cluster.etcd.put("mongodb/rsid", "0" * 24)
    daemons[0].wait_log(f"etcd records {'0' * 24}")
    assert cluster.votes() == [1, 1, 1]


def test_unreadable_registration_changes_nothing(cluster: Cluster) -> None:
    daemon = cluster.daemon("m0").start()
    daemon.wait_log("made replica set")
    cluster.etcd.put("mongodb/member/odd", "10.0.0.1:27017")
    daemon.wait_log(
        "etcd key mongodb/member/odd holds '10.0.0.1:27017'; expected a JSON object with address, incarnation"
    )
    assert cluster.votes() == [1]


def test_the_window_of_the_oplog_is_kept_and_measured(cluster: Cluster) -> None:
    metrics = f"127.0.0.1:{free_port()}"
    member = cluster.daemon("m0", oplog_hours=2, metrics=metrics).start()
    cluster.wait_votes([1])
    status = member.ask("serverStatus")
    assert status is not None
    assert status["oplogTruncation"]["oplogMinRetentionHours"] == 2

    def measured() -> dict[str, float]:
        lines = httpx.get(f"http://{metrics}/metrics", trust_env=False).text.splitlines()
        pairs = [line.rsplit(" ", 1) for line in lines if line.startswith("judge_mongodb_oplog")]
        return {name.removeprefix("judge_mongodb_oplog_"): float(value) for name, value in pairs}

    with cluster.client([member]) as client:
        wait_for(lambda: measured()["filled_ratio"] > 0, what="the first look at the oplog")
        before = measured()
        client.judge.kept.insert_many({"text": "x" * 1024**2} for _ in range(20))
        wait_for(lambda: measured()["filled_ratio"] > before["filled_ratio"], what="a later look")
        first, last = (client.local["oplog.rs"].find_one(sort=[("$natural", way)])["ts"].time for way in (1, -1))
        assert before["seconds"] <= measured()["seconds"] <= last - first + 60
        assert measured()["filled_ratio"] < 0.5
