"""The facade, election and registry against real etcd: frozen, dead, several members, TLS, many threads."""

import contextlib
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from judge.common.errors import DeadlineError, NotFoundError, OutcomeUnknownError, UnavailableError
from judge.config import EtcdClient
from judge.etcd.client import Etcd, LeaseGoneError, RejectedError
from judge.etcd.election import Election, read_holder
from judge.etcd.registry import SERVICES, Registration, entry_value, judicators
from judge.rpc.pki import issue, make_ca
from tests.support.etcd import cluster, cutting, hosts
from tests.support.servers import etcd_server, free_port, frozen, server_of, wait_for


def client(*endpoints, timeout=3.0, prefix=None, tls=None):
    return Etcd(
        EtcdClient(
            endpoints=list(endpoints), timeout=timeout, prefix=prefix or f"/test/{uuid.uuid4().hex[:8]}/", tls=tls
        )
    )


@pytest.fixture
def etcd(etcd_endpoint):
    with client(etcd_endpoint, timeout=10.0) as etcd:  # a busy disk holds up a write of the members
        yield etcd


def test_keys(etcd):
    assert etcd.get("a") is None
    created = etcd.create("a", "1")
    assert created is not None and created.create_revision == created.mod_revision > 0
    assert etcd.create("a", "2") is None
    assert etcd.get("a") == created
    changed = etcd.put("a", "3")
    assert (changed.value, changed.create_revision) == ("3", created.create_revision)
    assert changed.mod_revision > created.mod_revision
    assert etcd.get("a") == changed
    fresh = etcd.put("b/x", "é")
    assert fresh.create_revision == fresh.mod_revision
    assert [kv.key for kv in etcd.list("")] == ["a", "b/x"]
    assert [kv.value for kv in etcd.list("b/")] == ["é"]
    assert etcd.held("a", created.create_revision) and not etcd.held("a", 1) and not etcd.held("nothing", 1)
    assert not etcd.delete("a", 1)
    assert etcd.delete("a", created.create_revision)
    assert not etcd.delete("a")
    assert etcd.delete("b/x")
    assert etcd.list("") == []


def test_leases(etcd):
    lease = etcd.grant(30)
    assert lease.ttl == 30 and etcd.keepalive(lease.id) == 30
    kv = etcd.create("k", "v", lease.id)
    assert kv is not None and kv.lease == lease.id
    etcd.revoke(lease.id)
    etcd.revoke(lease.id)
    assert etcd.get("k") is None
    assert etcd.keepalive(lease.id) == 0
    with pytest.raises(LeaseGoneError, match="put k: the lease is gone"):
        etcd.put("k", "v", lease.id)
    with pytest.raises(LeaseGoneError):
        etcd.create("k", "v", lease.id)


def test_members_and_status(etcd, etcd_endpoint):
    (member,) = etcd.members()
    assert member.client_urls == (f"http://{etcd_endpoint}",) and not member.learner
    (status,) = etcd.status()
    assert (status.version, status.member_id, status.leader_id) == ("3.4.23", member.id, member.id)
    assert status.error == "" and status.db_size > 0 and status.cluster_id == etcd.cluster().id
    etcd.member_remove(12345)
    etcd.member_promote(member.id)
    with pytest.raises(NotFoundError, match="3039 is not in the cluster"):
        etcd.member_promote(12345)
    learner = etcd.member_add(f"http://127.0.0.1:{free_port()}", learner=True)
    assert learner.learner and learner.name == ""
    with pytest.raises(RejectedError, match="in sync with leader"):
        etcd.member_promote(learner.id)
    with pytest.raises(RejectedError, match="too many learner members"):
        etcd.member_add(f"http://127.0.0.1:{free_port()}", learner=True)
    etcd.member_remove(learner.id)
    assert etcd.members() == [member]


def test_too_large_a_value_is_rejected(etcd):
    with pytest.raises(RejectedError, match="too large"):
        etcd.put("big", "x" * 2_000_000)


def test_a_dead_endpoint_is_passed_over(etcd_endpoint):
    with client(f"127.0.0.1:{free_port()}", etcd_endpoint) as etcd:
        assert etcd.endpoints[1] == etcd_endpoint
        assert etcd.put("a", "1").value == "1"
        assert [status.error != "" for status in etcd.status()] == [True, False]


def test_nobody_answers():
    with client(f"127.0.0.1:{free_port()}", timeout=2) as etcd:
        for call in (lambda: etcd.get("a"), lambda: etcd.put("a", "1"), lambda: etcd.grant(5), etcd.members):
            with pytest.raises(UnavailableError, match=r"Connection refused.*nothing was done") as caught:
                call()
            assert caught.type is UnavailableError
    with pytest.raises(UnavailableError, match="closed"):
        etcd.get("a")


def test_closing_ends_a_call_in_flight(work):
    with etcd_server(work) as endpoint, client(endpoint, timeout=20) as etcd, ThreadPoolExecutor(1) as pool:
        etcd.get("a")
        with frozen(server_of(endpoint)):
            call = pool.submit(etcd.get, "a")
            wait_for(lambda: etcd._transport._connections[endpoint].users, what="the call")
            etcd.close()
            with pytest.raises(UnavailableError):
                call.result(5)


def test_after_a_write_without_an_answer_the_next_call_goes_elsewhere(work):
    """A member that was removed and does not know it yet answers questions, and no write ever."""
    with (
        etcd_server(work) as endpoint,
        cutting(endpoint, "/Put") as (silent, cutter),
        client(silent, endpoint) as etcd,
    ):
        cutter.lose = 100
        with pytest.raises(OutcomeUnknownError, match="may or may not have been done"):
            etcd.put("a", "1")
        etcd.put("a", "2")
        assert etcd.get("a").value == "2"


def test_a_frozen_server_costs_the_deadline_and_nothing_more(work):
    with etcd_server(work) as endpoint, client(endpoint, timeout=1.5) as etcd:
        etcd.put("a", "1")
        with frozen(server_of(endpoint)):
            for call in (lambda: etcd.get("a"), lambda: etcd.keepalive(5), lambda: etcd.grant(5)):
                start = time.monotonic()
                with pytest.raises(DeadlineError, match="nothing was done"):
                    call()
                assert time.monotonic() - start < 3.0
        wait_for(lambda: _answers(etcd), what="etcd to answer again")
        assert etcd.get("a").value == "1"


def _answers(etcd):
    with contextlib.suppress(UnavailableError):
        return etcd.put("again", "1")
    return None


def test_a_write_without_an_answer_is_unknown_or_not_sent(work):
    with etcd_server(work) as endpoint, client(endpoint, timeout=1.5) as etcd:
        etcd.put("a", "1")  # so fresh that the write goes out without a question before it
        with frozen(server_of(endpoint)):
            with pytest.raises(UnavailableError) as caught:
                etcd.put("a", "2")
            assert caught.value.code == "outcome_unknown"
            with pytest.raises(DeadlineError):
                etcd.put("a", "3")
        wait_for(lambda: _answers(etcd), what="etcd to answer again")
        assert etcd.get("a").value in ("1", "2")


def test_one_frozen_member_of_three_is_hardly_noticed(work):
    with cluster(work, 3) as (m1, m2, m3):
        endpoints = [host.client.removeprefix("http://") for host in (m1, m2, m3)]
        with client(*endpoints) as etcd:
            etcd.put("a", "0")
            # not the leader: its freeze costs an election, which is etcd's business and not the client's
            leader = etcd.status()[0].leader_id
            followers = [status.endpoint for status in etcd.status() if status.member_id != leader]
            with client(*followers, prefix=etcd._prefix) as near, frozen(server_of(followers[0])):
                slowest = 0.0
                for number in range(30):
                    start = time.monotonic()
                    near.put("a", str(number))
                    assert near.get("a").value == str(number)
                    slowest = max(slowest, time.monotonic() - start)
                assert slowest < 2.0
                lease = near.grant(10)
                assert near.keepalive(lease.id) > 0 and len(near.members()) == 3


def test_a_member_left_behind_is_dropped(etcd, etcd_endpoint):
    (status,) = etcd.status()
    assert etcd._transport._guard.fresh(status.cluster_id, status.raft_term + 5)
    with pytest.raises(UnavailableError, match=r"raft term .* went back"):
        etcd.get("a")
    assert etcd.put("a", "1").value == "1", "a write that succeeded is true whoever says so"


def test_many_threads_share_one_client(etcd):
    def work(number):
        for turn in range(15):
            etcd.put(f"k{number}", str(turn))
            assert etcd.get(f"k{number}").value == str(turn)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(12)))
    assert len(etcd.list("k")) == 12


def test_it_is_quiet_and_idle_while_etcd_is_down():
    """A poll every 50 ms of a dead etcd: hardly any CPU, and not one byte of output from gRPC."""
    code = (
        "import sys, time, threading\n"
        "from judge.config import EtcdClient\n"
        "from judge.common.errors import UnavailableError\n"
        "from judge.etcd.client import Etcd\n"
        "etcd = Etcd(EtcdClient(endpoints=[sys.argv[1]], timeout=1))\n"
        "tick = threading.Event()\n"
        "start = time.process_time()\n"
        "for _ in range(40):\n"
        "    try:\n"
        "        etcd.get('a')\n"
        "    except UnavailableError:\n"
        "        tick.wait(0.05)\n"
        "print(time.process_time() - start)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, f"127.0.0.1:{free_port()}"], check=True, capture_output=True, text=True, timeout=60
    )
    assert result.stderr == ""
    assert float(result.stdout) < 1.0, "CPU seconds for 2 s of polling"


def test_tls(work):
    make_ca(work / "pki")
    tls = issue(work / "pki", "m1", "judicator", ["127.0.0.1"])
    with hosts(work, 1) as (m1,):
        m1.client, m1.peer = m1.client.replace("http:", "https:"), m1.peer.replace("http:", "https:")
        files = {key: str(value) for key, value in tls.model_dump().items()}
        m1.configure("initialise", [m1], tls=files, peer_tls=files).start().says("serves at")
        endpoint = m1.client.removeprefix("https://")
        with client(endpoint, tls=tls, prefix="/judge/") as etcd:
            assert etcd.put("judicator/a", "1").value == "1"
        with client(endpoint, timeout=1) as plain, pytest.raises(UnavailableError):
            plain.get("judicator/a")
        assert m1.stop() == 0


def lead(etcd, key="leader", ttl=3):
    election = Election(etcd, key, "same-name", ttl)
    assert election.step() and election.held
    return election


def test_two_candidates_of_the_same_name(etcd):
    first = lead(etcd)
    second = Election(etcd, "leader", "same-name", 3)
    assert not second.step()
    assert first.step()
    holder = read_holder(etcd, "leader")
    assert (holder.value, holder.incarnation, holder.token) == ("same-name", first.incarnation, first.token)
    token = first.token
    second.resign()
    assert first.step() and first.token == token
    first.resign()
    assert not first.held and first.token == 0
    assert read_holder(etcd, "leader") is None
    assert second.step() and second.token > token
    assert not first.step()


def test_a_restarted_process_of_the_same_name_waits_for_the_lease(etcd):
    old = lead(etcd, ttl=2)
    fresh = Election(etcd, "leader", "same-name", 2)
    assert not fresh.step()
    wait_for(fresh.step, what="the successor to lead")
    assert not old.held, "the old one must have stopped before the new one could start"
    assert not old.step()
    assert fresh.step()


@pytest.mark.parametrize(
    ("loses", "stands_again"),
    [
        (lambda etcd: etcd.delete("leader"), True),
        (lambda etcd: etcd.revoke(etcd.get("leader").lease), True),
        (lambda etcd: etcd.delete("leader") and etcd.create("leader", "an operator"), False),
    ],
    ids=["key deleted", "lease revoked", "key overwritten"],
)
def test_a_leader_whose_key_is_gone_leads_no_more(etcd, loses, stands_again):
    election = lead(etcd)
    loses(etcd)
    assert not election.step(), "although its lease may be alive"
    assert election.step() == stands_again


def test_a_frozen_etcd_ends_the_leadership_in_time(work):
    with etcd_server(work) as endpoint, client(endpoint, timeout=0.6) as etcd:
        election = Election(etcd, "leader", "me", 3)
        wait_for(election.step, what="leading")
        until = election._tenure.deadline
        with frozen(server_of(endpoint)):
            while election.step():
                assert election._boottime() < until
            assert election._boottime() >= until - 0.7 * 2
            election.resign()
        wait_for(election.step, what="leading again")
        with frozen(server_of(endpoint)):
            election.resign()
            assert not election.held


def test_a_lost_answer_that_took_effect_is_adopted(etcd):
    election = Election(etcd, "leader", "me", 10)
    lease = etcd.grant(10)
    etcd.create("leader", f'{{"value": "me", "incarnation": "{election.incarnation}"}}', lease.id)
    assert election.step()
    assert election.token == etcd.get("leader").create_revision


def test_registration(etcd, caplog):
    first = Registration(etcd, f"{SERVICES}j1", entry_value("127.0.0.1:7400", "0.1.0"), 10)
    two = Registration(etcd, f"{SERVICES}j2", entry_value("127.0.0.1:7401", "0.1.0"), 10)
    assert first.step() and two.step() and first.step()
    etcd.put(f"{SERVICES}junk", "not json")
    entries = judicators(etcd)
    assert [(entry.name, entry.address, entry.version) for entry in entries] == [
        ("j1", "127.0.0.1:7400", "0.1.0"),
        ("j2", "127.0.0.1:7401", "0.1.0"),
    ]
    assert "not a service entry" in caplog.text
    etcd.delete(f"{SERVICES}j1")
    assert first.step() and len(judicators(etcd)) == 2
    etcd.revoke(etcd.get(f"{SERVICES}j1").lease)
    assert len(judicators(etcd)) == 1
    assert first.step() and len(judicators(etcd)) == 2
    successor = Registration(etcd, f"{SERVICES}j1", entry_value("127.0.0.1:7500", "0.1.0"), 10)
    assert successor.step()
    first.withdraw()
    assert [entry.address for entry in judicators(etcd)] == ["127.0.0.1:7500", "127.0.0.1:7401"]
    successor.withdraw()
    two.withdraw()
    two.withdraw()
    assert judicators(etcd) == []


def test_registration_without_etcd(work):
    with etcd_server(work) as endpoint, client(endpoint, timeout=0.6) as etcd:
        registration = Registration(etcd, f"{SERVICES}j1", "{}", 10)
        wait_for(registration.step, what="registering")
        with frozen(server_of(endpoint)):
            assert not registration.step() and not registration.step()
            registration.withdraw()
        wait_for(registration.step, what="registering again")
