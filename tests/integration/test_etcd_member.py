"""The etcd daemon with real members on loopback: forming, joining, losing disks, being removed, being interrupted."""

import contextlib
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from judge.common.errors import (
    EXIT_FAILED,
    EXIT_REFUSED,
    EXIT_USAGE,
    OutcomeUnknownError,
    RefusedError,
    UnavailableError,
    UsageError,
)
from judge.config import EtcdClient, EtcdPeer
from judge.daemon.main import ended
from judge.etcd import member as member_module
from judge.etcd import proxy as proxy_module
from judge.etcd.client import Etcd
from judge.etcd.datadir import EtcdDataDir
from judge.etcd.discovery import Discovered, host_port
from judge.etcd.member import leave
from judge.etcd.proxy import ProxyDaemon
from tests.support.etcd import cluster, cutting, hosts
from tests.support.servers import etcd_server, free_port, port_open, wait_for


def alone(host, **settings):
    return host.configure("initialise", [host], **settings)


def test_one_member_keeps_its_data_and_refuses_what_is_not_its_own(work):
    with hosts(work, 1) as (m1,):
        alone(m1).start().says("m1 serves at")
        m1.says("m1 is a voting member of 1")
        assert "etcd 3.4.23 has known bugs: leases may be wrongly revoked" in m1.text()
        assert "INFO judge.etcd.server:" in m1.text(), "etcd's own lines are in the log"
        with m1.etcd() as etcd:
            etcd.put("a", "1")
        assert member_module.database_bytes(m1.data) > 0, "its metric, which an alert compares with the quota"
        assert m1.stop() == 0
        m1.start().says("on the data that is there")
        m1.says("m1 serves at", times=2)
        with m1.etcd() as etcd:
            assert etcd.get("a").value == "1"

        # the port is taken by the first daemon's server
        second = alone(m1, data_dir=str(m1.root / "second"), stop_grace=1)
        first, m1.process = m1.process, None
        assert second.start().ended() == EXIT_REFUSED
        m1.says("cannot be listened on: Address already in use")
        m1.process = first
        assert m1.stop() == 0

        alone(m1, cluster={"token": "another-token"})
        assert m1.start().ended() == EXIT_REFUSED
        m1.says("belongs to the cluster with token 'test-cluster-token', the config says 'another-token'")

        alone(m1, binary=str(m1.root / "no-etcd"))
        assert m1.start().ended() == EXIT_REFUSED
        m1.says("was not found; install it")

        alone(m1, client=m1.client.replace("http:", "https:"))
        assert m1.start().ended() == EXIT_USAGE
        m1.says("must start with http:// because 'tls' is not set")

        # its data is lost: the record beside it is not, and there is nobody to recover from
        alone(m1)
        shutil.rmtree(m1.data / "data")
        assert m1.start().ended() == EXIT_REFUSED
        m1.says("the disk of member 'm1' is empty and there is no other member to recover from")
        with pytest.raises(UnavailableError, match="nothing was done"):
            leave(m1.config)


def test_a_crash_of_the_server_is_an_error_and_a_restart_goes_on(work):
    with hosts(work, 1) as (m1,):
        alone(m1).start().says("m1 serves at")
        os.kill(m1.server_pid(), signal.SIGKILL)
        assert m1.ended() == 1
        m1.says("etcd ended with code -9")
        m1.start().says("m1 serves at", times=2)


def test_the_check_thread_kills_a_frozen_server(work):
    with hosts(work, 1) as (m1,):
        alone(m1, check={"interval": 0.1, "tries": 2}).start().says("m1 is a voting member")
        os.kill(m1.server_pid(), signal.SIGSTOP)
        assert m1.ended() == 1
        m1.says("etcd did not serve in 2 checks, killing it")


def test_the_last_member_stays_when_it_leaves_on_stop(work):
    with hosts(work, 1) as (m1,):
        alone(m1, leave_on_stop=True).start().says("m1 is a voting member")
        with pytest.raises(RefusedError, match="the last voting member"):
            leave(m1.config)
        assert m1.stop() == 0
        m1.says("m1 is the last voting member and keeps its data")
        m1.start().says("m1 serves at", times=2)


def test_an_elastic_fleet_starts_from_one(work):
    """`when-alone`: nobody behind the name, so the first initialises; the second finds it and joins."""
    with hosts(work, 2) as (m1, m2):
        m1.configure("when-alone", [m1], leave_on_stop=True).start().says("m1 is a voting member of 1")
        m2.configure("when-alone", [m1, m2], leave_on_stop=True, stop_grace=10).start()
        m1.wait_voters(m1, m2)
        m2.says("m2 is a voting member of 2")
        assert m2.stop() == 0
        m2.says("m2 has left the cluster")
        m1.wait_voters(m1)
        assert not (m2.data / "data").exists() and (m2.data / "data.old").exists()
        m2.start()
        m1.wait_voters(m1, m2)
        m2.says("m2 is a voting member of 2", times=2)
        m1.stop(signal.SIGKILL)
        m2.settings["stop_grace"] = 1
        assert m2.stop() == 0
        m2.says("could not leave the cluster, m2 stays a member")


def test_a_joiner_that_hears_nobody_waits_and_says_so(work):
    with hosts(work, 2) as (m1, m2):
        m2.configure("join", [m1, m2]).start()
        m2.says("waiting: member 'm2' joins through a quorum of the others, and none of")
        assert m2.stop() == 0
        assert not (m2.data / "data").exists()


@pytest.mark.parametrize("lost_answers", [1, 1000])
def test_a_leave_whose_answer_is_lost_is_not_taken_back(work, lost_answers):
    """Taken back, the server that finds itself removed would join again: the opposite of the order."""
    with cluster(work, 2) as (m1, m2), cutting(host_port(m1.client), "MemberRemove") as (address, cutter):
        m2.says("m2 is a voting member")
        listed = [EtcdPeer(name="m1", peer=m1.peer, client=f"http://{address}"), *m2.config.cluster.members[1:]]
        through = m2.config.cluster.model_copy(update={"members": listed})
        # Its own address leads there, too: whichever is asked, the answer is lost.
        config = m2.config.model_copy(update={"cluster": through, "client": f"http://{address}", "stop_grace": 20.0})
        cutter.lose = lost_answers
        if lost_answers == 1:
            assert "has left the cluster of 2" in leave(config)
        else:
            with pytest.raises(OutcomeUnknownError, match="'m2' stays recorded as left: run it again"):
                leave(config)
        assert cutter.done >= 1
        assert m2.ended() == EXIT_REFUSED
        m2.says("member 'm2' has left the cluster for good")
        m1.wait_voters(m1)
        record = EtcdDataDir(m2.data).read().record
        assert record is not None and record.left
        assert m2.start().ended() == EXIT_REFUSED
        cutter.lose = 0
        assert "is not in the cluster any more" in leave(config)


@pytest.mark.parametrize("kind", ["member", "proxy"])
def test_a_check_that_fails_itself_ends_the_daemon(work, monkeypatch, caplog, kind):
    """Nobody else would notice a server that hangs; the sentence says whose fault it is."""
    module = member_module if kind == "member" else proxy_module

    def unforeseen(*_: object) -> bool:
        raise RuntimeError("nobody thought of this")

    monkeypatch.setattr(module, "serves", unforeseen)
    with hosts(work, 2) as (m1, m2):
        alone(m1)
        if kind == "proxy":
            m2.configure("join", [m1], mode="proxy", proxy_listen=f"127.0.0.1:{free_port()}")
        config = (m1 if kind == "member" else m2).config
        assert ended(lambda: member_module.run(config, threading.Event())) == EXIT_FAILED
    assert "internal error in the check of etcd" in caplog.text and "nobody thought of this" in caplog.text


@pytest.fixture(scope="class")
def three(tmp_path_factory):
    """Three members with a value, and the host of a fourth; every test leaves the three at work."""
    with cluster(tmp_path_factory.mktemp("three"), 3, spare=1) as hosts:
        with hosts[0].etcd() as etcd:
            etcd.put("sentinel", "kept")
        yield hosts


class TestThree:
    """What comes and goes beside members that stay."""

    @pytest.fixture(autouse=True)
    def the_three_stay(self, three):
        yield
        m1, m2, m3, _ = three
        m1.wait_voters(m1, m2, m3)
        with m1.etcd() as etcd:
            assert etcd.get("sentinel").value == "kept"

    def test_one_more_comes_as_a_learner_and_leaves_for_good(self, three):
        """Its server ends with 0; the daemon knows that it was meant and stays down."""
        m1, m2, m3, m4 = three
        m4.start()
        m1.wait_voters(m1, m2, m3, m4)
        m4.says("added to the cluster as learner")
        m4.says("was promoted")
        assert "has left the cluster of 4" in leave(m4.config.model_copy(update={"stop_grace": 60.0}))
        assert m4.ended() == EXIT_REFUSED
        m4.says("member 'm4' has left the cluster for good")
        assert "is not in the cluster any more" in leave(m4.config)
        m1.wait_voters(m1, m2, m3)
        assert m4.start().ended() == EXIT_REFUSED

    def test_one_that_was_removed_by_hand_joins_again_under_a_new_identity(self, three):
        m1, _, m3, _ = three
        with m1.etcd() as etcd:
            old = next(member.id for member in etcd.members() if member.name == "m3")
            wait_for(lambda: _removed(etcd, old), what="the removal")
        m3.says("etcd ended with code")
        m3.says(f"member {old:x} was removed from the cluster; 'm3' is still listed, so it joins again")

    @pytest.mark.parametrize("record", [True, False])
    def test_a_wiped_disk_under_a_known_identity(self, three, record):
        """With the record of the join and without; the config still says initialise."""
        m1, m2, m3, _ = three
        before = _id(m1, "m3")
        m3.stop(signal.SIGKILL)
        wait_for(lambda: not _listening(m3), what="the server to end with its daemon")
        shutil.rmtree(m3.data / "data" if record else m3.data)
        m3.start().says(f"removing member {before:x}: the disk of 'm3' is empty")
        m1.wait_voters(m1, m2, m3)
        assert _id(m1, "m3") != before

    def test_a_wiped_disk_while_another_member_is_down_hears_no_quorum_and_waits(self, three):
        _, m2, m3, _ = three
        m2.stop(signal.SIGKILL)
        m3.stop(signal.SIGKILL)
        shutil.rmtree(m3.data)
        count = m3.text().count("there is no quorum behind")
        m3.start().says("there is no quorum behind", times=count + 1)
        assert not (m3.data / "data").exists()
        m2.start()


def _removed(etcd, member_id):
    """Right after a start etcd refuses changes for a moment."""
    with contextlib.suppress(UnavailableError):
        etcd.member_remove(member_id)
        return True
    return False


def _id(host, name):
    with host.etcd() as etcd:
        return next(member.id for member in etcd.members() if member.name == name)


def _listening(host):
    return port_open(int(host.client.rpartition(":")[2]))


def test_one_member_down_then_another_host_takes_its_place(work):
    """With 1 of 3 down etcd refuses to add: the dead one is removed first, then the new one joins."""
    with cluster(work, 3, spare=1) as (m1, m2, m3, m4):
        m3.stop(signal.SIGKILL)
        m4.start().says("waiting: will look again: etcd: member add")
        with pytest.raises(
            UnavailableError, match=r"unhealthy cluster|not enough started"
        ):  # it would take the quorum with it
            leave(m1.config.model_copy(update={"stop_grace": 0.3}))
        assert not EtcdDataDir(m1.data).read().record.left
        dead = _id(m1, "m3")
        with m1.etcd() as etcd:
            etcd.member_remove(dead)
        m1.wait_voters(m1, m2, m4)
        # the dead host returns with its old data and is not on the list any more
        m3.configure("join", [m1, m2, m4])
        m3.settings["cluster"]["members"] = [{"name": h.name, "peer": h.peer, "client": h.client} for h in (m1, m2, m4)]
        assert m3.start().ended() == EXIT_REFUSED
        m3.says(f"member {dead:x} was removed from the cluster and 'm3' is not listed any more")


def test_an_interrupted_join_goes_on_where_it_was(work):
    """Killed between every two steps, then simply started again: one member, one identity, a voter, nothing stale."""
    with cluster(work, 3) as (m1, m2, m3):
        first = True
        for failpoint in (
            "etcd-removed", "etcd-decided", "etcd-added", "etcd-add-recorded", "etcd-start-recorded",
            "etcd-started", "etcd-before-promote",
        ):  # fmt: skip
            m3.stop(signal.SIGKILL)
            wait_for(lambda: not _listening(m3), what="the server to end with its daemon")
            shutil.rmtree(m3.data / "data" if first else m3.data)
            first = not first
            assert m3.start(failpoint).ended() == -signal.SIGKILL, failpoint
            wait_for(lambda: not _listening(m3), what="the server to end with its daemon")
            m3.start()
            m1.wait_voters(m1, m2, m3)
            with m1.etcd() as etcd:
                assert len(etcd.members()) == 3, failpoint


@pytest.mark.parametrize("failpoint", ["etcd-decided", "etcd-started", "etcd-ids-recorded"])
def test_an_interrupted_first_start_goes_on(work, failpoint):
    with hosts(work, 3) as members:
        for host in members[:2]:
            host.configure("initialise", members).start()
        members[2].configure("initialise", members)
        assert members[2].start(failpoint).ended() == -signal.SIGKILL
        wait_for(lambda: not _listening(members[2]), what="the server to end with its daemon")
        members[2].start()
        members[0].wait_voters(*members)


def test_a_member_without_a_quorum_is_not_killed(work):
    """The first of three runs and waits; the check thread says so instead of killing it over and over."""
    with hosts(work, 3) as members:
        members[0].configure("initialise", members, check={"interval": 0.1, "tries": 3}).start()
        members[0].says("etcd does not serve yet: it runs and waits for the other members to form a quorum", times=2)
        members[1].configure("initialise", members).start()
        members[0].says("m1 serves at")
        members[2].configure("initialise", members).start()
        members[0].wait_voters(*members)


def test_another_clusters_data_and_names_are_refused(work):
    with hosts(work, 3) as (m1, m2, m3):
        alone(m1).start().says("m1 is a voting member")
        alone(m2).start().says("m2 is a voting member")
        assert m2.stop() == 0
        m2.configure("join", [m1, m2])
        assert m2.start().ended() == EXIT_REFUSED
        m2.says("the other members are cluster")
        # a second host that was given the address of a living member
        m3.peer = m1.peer
        m3.configure("join", [m1, m3])
        assert m3.start().ended() == EXIT_REFUSED
        m3.says("belongs to member 'm1'; give this one its own address")


def test_the_proxy_forwards_and_outlives_its_members(work):
    with hosts(work, 2) as (m1, proxy):
        alone(m1).start().says("m1 is a voting member")
        address = f"127.0.0.1:{free_port()}"
        proxy.client = f"http://{address}"
        proxy.configure("join", [m1], mode="proxy", proxy_listen=address, check={"interval": 0.1, "tries": 2}).start()
        with proxy.etcd() as etcd:
            wait_for(lambda: _listening(proxy), what="the proxy")
            etcd.put("a", "1")
            lease = etcd.grant(20)
            assert all(etcd.keepalive(lease.id) == 20 for _ in range(5))
            with pytest.raises(UsageError, match="is an etcd proxy and no member"):
                leave(proxy.config.model_copy(update={"data_dir": None}))
            m1.stop()
            proxy.says("etcd-proxy does not serve yet: no member of the cluster answers directly either")
            m1.start()
            m1.says("m1 serves at", times=2)
            wait_for(lambda: _get(etcd, "a"), what="the value through the proxy")
        os.kill(proxy.server_pid(), signal.SIGSTOP)
        assert proxy.ended() == 1
        proxy.says("etcd-proxy did not serve in")
        proxy.start()
        wait_for(lambda: _listening(proxy), what="the proxy")
        assert proxy.stop() == 0
        proxy.start()
        wait_for(lambda: _listening(proxy), what="the proxy")
        os.kill(proxy.server_pid(), signal.SIGKILL)
        assert proxy.ended() == 1
        proxy.says("the etcd proxy ended with code -9")


def test_the_proxy_follows_a_name(work, monkeypatch):
    """By name: nobody there, then one member, then another; each change is followed without a restart."""
    with hosts(work, 2) as (m1, m2), etcd_server(work / "other") as second:
        alone(m1).start().says("m1 is a voting member")
        with m1.etcd() as etcd:
            etcd.put("who", "m1")
        address = f"127.0.0.1:{free_port()}"
        answers = {"now": Discovered(failed="the name server is silent")}
        monkeypatch.setattr(proxy_module, "find_others", lambda config: answers["now"])
        config = m2.configure(
            "join", [], mode="proxy", proxy_listen=address, cluster={"dns": "etcd.test"}, check={"interval": 0.1}
        ).config
        stop, codes = threading.Event(), []
        daemon = ProxyDaemon(config, Path(shutil.which("etcd")), stop, rediscover=0.1)
        thread = threading.Thread(target=lambda: codes.append(daemon.run()))
        thread.start()
        try:
            answers["now"] = Discovered((m1.client.removeprefix("http://"),))
            with Etcd(EtcdClient(endpoints=[address], timeout=2)) as through:
                wait_for(lambda: _get(through, "who"), what="m1 through the proxy")
                answers["now"] = Discovered((second,))
                wait_for(lambda: _is_cluster_of(through, second), what="the other through the proxy")
        finally:
            stop.set()
            thread.join(20)
        assert codes == [0]


def _is_cluster_of(through, endpoint):
    with contextlib.suppress(UnavailableError), Etcd(EtcdClient(endpoints=[endpoint], timeout=2)) as direct:
        return through.cluster().id == direct.cluster().id
    return None


def _get(etcd, key):
    with contextlib.suppress(UnavailableError):
        return etcd.get(key)
    return None
