"""What each certificate of the cluster may do to etcd: every cell of the table in docs/protocol.md."""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from judge.common.errors import UnavailableError
from judge.common.pki import refused
from judge.config import EtcdClient
from judge.daemon import tlsfiles
from judge.etcd.client import Etcd, RejectedError
from judge.etcd.discovery import host_port
from judge.etcd.member import leave
from judge.etcd.program import SOCKET
from judge.etcd.wire import connect, grpc, rpc
from tests.support.etcd import ROLES, Authority, Host, SecureHost, secure_cluster, secure_hosts
from tests.support.servers import free_port, wait_for

SERVICE = "judicator/service/j1"
KEYS = {
    "judicator/service/j1": "a judicator's entry",
    "judicator/leader": "who leads",
    "mongodb/member/j1": "a member of the set",
    "mongodb/init": "who initiated",
    "other": "nobody's",
}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHost]:
    with secure_cluster(tmp_path_factory.mktemp("gate"), 1) as (host,):
        with host.authority.etcd(host, "judicator") as etcd:
            etcd.put("judicator/service/j1", json.dumps({"address": "127.0.0.1:7400", "version": "1"}))
            etcd.put("judicator/leader", "j1")
        with host.authority.etcd(host, "mongodb") as etcd:
            etcd.put("mongodb/member/j1", "here")
            etcd.put("mongodb/init", "here")
        yield host


def may(call: Callable[[], object]) -> bool:
    """Whether the call is done; refused with PERMISSION_DENIED or by TLS otherwise, never anything else."""
    try:
        call()
    except RejectedError as exc:
        reason = str(exc)
    else:
        return True
    assert "may not" in reason or "is no role" in reason
    return False


READS = {
    "etcd": [],
    "judicator": ["judicator/service/j1", "judicator/leader"],
    "mongodb": ["mongodb/member/j1", "mongodb/init"],
    "executor": ["judicator/service/j1"],
    "gateway": ["judicator/service/j1"],
    "proxy": [],
    "https": [],
    "boot": [],
    "stranger": [],
}
WIDE = ["", "judicator", "judicator/", "judicator/service/", "judicator/service/j", "mongodb/", "mongodb/member/"]
LISTS = {
    "judicator": WIDE[2:5],
    "mongodb": WIDE[5:],
    "executor": WIDE[3:5],
    "gateway": WIDE[3:5],
}
WRITES = READS | {"executor": [], "gateway": []}


@pytest.mark.parametrize("role", ROLES)
def test_keys_by_role(host: SecureHost, role: str) -> None:
    with host.authority.etcd(host, role) as etcd:
        for call, allowed in (
            (etcd.get, READS),
            (lambda key: etcd.put(key, KEYS[key]), WRITES),
            (lambda key: etcd.create(key, "mine"), WRITES),
            (lambda key: etcd.delete(key, 1), WRITES),
        ):
            assert {key for key in KEYS if may(lambda key=key, call=call: call(key))} == set(allowed[role])
        lists = [wide for wide in WIDE if may(lambda wide=wide: etcd.list(wide))]
        assert lists == LISTS.get(role, [])


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
def test_it_stands_at_every_address(host: SecureHost, address: str) -> None:
    with host.authority.etcd(host, "executor", address) as etcd:
        assert may(lambda: etcd.get(SERVICE))
        assert not may(lambda: etcd.get("judicator/leader"))


@pytest.mark.parametrize("role", ROLES)
def test_leases_by_role(host: SecureHost, role: str) -> None:
    with host.authority.etcd(host, role) as etcd, host.authority.etcd(host, "judicator") as judicator:
        lease = judicator.grant(60)
        is_judicator = role == "judicator"
        assert may(lambda: etcd.grant(60)) == is_judicator
        assert may(lambda: etcd.keepalive(lease.id)) == is_judicator
        assert may(lambda: etcd.revoke(lease.id)) == is_judicator


@pytest.mark.parametrize("role", ROLES)
def test_members_by_role(host: SecureHost, role: str) -> None:
    keeps = role == "etcd"
    with host.authority.etcd(host, role) as etcd:
        assert may(etcd.members) == (role in {"etcd", "judicator"})
        assert bool(etcd.status()[0].version) == (role in {"etcd", "judicator"})
        assert may(lambda: etcd.member_remove(12345)) == keeps  # nobody's id: removed already, for etcd
        if not keeps:
            assert not may(lambda: etcd.member_add("https://127.0.0.1:9", learner=True))
            assert not may(lambda: etcd.member_promote(12345))
    assert host.voters() == ["m1"]


@pytest.mark.parametrize("role", ROLES)
def test_peers_believe_members_only(host: SecureHost, role: str) -> None:
    context = tlsfiles.client_context(tlsfiles.current(host.authority.tls(role)))
    address, _, port = host_port(host.peer).rpartition(":")
    connection = http.client.HTTPSConnection(address, int(port), timeout=5, context=context)
    try:
        connection.request("GET", "/version")
        status = connection.getresponse().status
    except (ssl.SSLError, ConnectionError):
        status = 0
    finally:
        connection.close()
    assert (status == 200) == (role == "etcd")


RAW = {
    "/etcdserverpb.KV/Compact": rpc.CompactionRequest(revision=1),
    "/etcdserverpb.Lease/LeaseTimeToLive": rpc.LeaseTimeToLiveRequest(ID=1),
    "/etcdserverpb.Lease/LeaseLeases": rpc.StatusRequest(),
    "/etcdserverpb.Maintenance/Alarm": rpc.AlarmRequest(action=1, memberID=1, alarm=1),
    "/etcdserverpb.Maintenance/Defragment": rpc.DefragmentRequest(),
    "/etcdserverpb.Maintenance/Snapshot": rpc.SnapshotRequest(),
    "/etcdserverpb.Maintenance/MoveLeader": rpc.StatusRequest(),
    "/etcdserverpb.Maintenance/Hash": rpc.HashRequest(),
    "/etcdserverpb.Cluster/MemberUpdate": rpc.MemberUpdateRequest(ID=1, peerURLs=["https://127.0.0.1:9"]),
    "/etcdserverpb.Auth/AuthEnable": rpc.AuthEnableRequest(),
    "/etcdserverpb.Auth/UserAdd": rpc.AuthUserAddRequest(name="root", password="x"),
    "/etcdserverpb.Watch/Watch": rpc.WatchRequest(create_request=rpc.WatchCreateRequest(key=b"\0", range_end=b"\0")),
    "/v3lockpb.Lock/Lock": rpc.RangeRequest(key=b"/judge/judicator/leader"),
    "/v3electionpb.Election/Campaign": rpc.RangeRequest(key=b"/judge/judicator/leader"),
}
LEADER = b"/judge/judicator/leader"
THEIRS = b"/judge/mongodb/member/j1"
NOBODYS = b"/judge/other"
_PUT = rpc.TxnRequest(success=[rpc.RequestOp(request_put=rpc.PutRequest(key=NOBODYS, value=b"x"))])


def _all_from(key: bytes) -> rpc.TxnRequest:
    """Whether all keys from this one on have a value above x: asked often enough, it tells the values."""
    return rpc.TxnRequest(compare=[rpc.Compare(result=1, target=3, key=key, range_end=b"\0", value=b"x")])


TRICKS = {
    "a transaction in a transaction": rpc.TxnRequest(success=[rpc.RequestOp(request_txn=_PUT)]),
    "the branch that is not taken": rpc.TxnRequest(failure=_PUT.success),
    "a read of another's key": rpc.TxnRequest(success=[rpc.RequestOp(request_range=rpc.RangeRequest(key=NOBODYS))]),
    "a comparison with another's key": rpc.TxnRequest(
        compare=[rpc.Compare(result=1, target=0, key=NOBODYS, version=0)],
        success=[rpc.RequestOp(request_put=rpc.PutRequest(key=NOBODYS, value=b"x"))],
    ),
    "a comparison with all keys from a judicator's on": _all_from(b"/judge/judicator/service/"),
    "a comparison with all keys from a member's on": _all_from(b"/judge/mongodb/"),
    "an operation that is none": rpc.TxnRequest(success=[rpc.RequestOp()]),
}


def channel_of(host: SecureHost, role: str) -> AbstractContextManager[Any]:
    """A channel of gRPC to a host, with a certificate of this role."""
    files = tlsfiles.current(host.authority.tls(role))
    return connect(host_port(host.client), grpc.ssl_channel_credentials(files.ca, files.key, files.cert))


def denied(channel: object, method: str, raw: bytes) -> bool:
    try:
        channel.unary_unary(method)(raw, timeout=5)  # type: ignore[attr-defined]
    except grpc.RpcError as exc:
        code = exc.code()
    else:
        return False
    assert code is grpc.StatusCode.PERMISSION_DENIED, method
    return True


@pytest.mark.parametrize("role", ROLES)
def test_every_other_call_is_refused(host: SecureHost, role: str) -> None:
    with channel_of(host, role) as channel:
        for method, request in RAW.items():
            assert denied(channel, method, request.SerializeToString()), method
        for trick, request in TRICKS.items():
            assert denied(channel, "/etcdserverpb.KV/Txn", request.SerializeToString()), trick
        everything = rpc.RangeRequest(key=b"\0", range_end=b"\0")
        assert denied(channel, "/etcdserverpb.KV/Range", everything.SerializeToString())
        from_mine = rpc.RangeRequest(key=b"/judge/judicator/service/", range_end=b"\0")
        assert denied(channel, "/etcdserverpb.KV/Range", from_mine.SerializeToString())
        assert denied(channel, "/etcdserverpb.KV/DeleteRange", from_mine.SerializeToString())
        unknown = rpc.RangeRequest(key=LEADER).SerializeToString() + b"\xfa\x07\x01x"
        assert denied(channel, "/etcdserverpb.KV/Range", unknown)
        for rubbish in (b"\xff" * 40, b"\x0a" * 3):
            assert denied(channel, "/etcdserverpb.KV/Range", rubbish)


@pytest.mark.parametrize("role", ["executor", "mongodb"])
def test_calls_without_a_request_hold_up_nobody(host: SecureHost, role: str) -> None:
    """Each open call of gRPC would have a thread, and one certificate all of them; then the check would kill etcd."""
    never = threading.Event()

    def silent() -> Iterator[bytes]:
        never.wait()
        yield from ()

    pid = host.server_pid()
    with ExitStack() as stack:
        stack.callback(never.set)
        channels = [stack.enter_context(channel_of(host, role)) for _ in range(4)]
        calls = [
            channel.stream_unary("/etcdserverpb.KV/Range").future(silent()) for channel in channels for _ in range(30)
        ]
        wait_for(lambda: sum(call.done() for call in calls) >= 100, what="refusals of what is too much")
        assert not all(call.done() for call in calls), "a call that has begun waits for a moment"
        for client_role in ("judicator", "gateway"):
            with host.authority.etcd(host, client_role) as etcd:
                assert may(lambda etcd=etcd: etcd.get(SERVICE))
        wait_for(lambda: all(call.done() for call in calls), 30, what="the end of calls that ask nothing")
        assert {call.code() for call in calls} <= {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED}
    with host.authority.etcd(host, "mongodb") as etcd:
        assert may(lambda: etcd.get("mongodb/init"))
    assert host.server_pid() == pid


def test_a_field_twice_is_read_by_etcd_as_it_was_checked(host: SecureHost) -> None:
    """Parsers differ in what they make of a repeated part; what goes on is written anew."""
    op = rpc.RequestOp(request_put=rpc.PutRequest(key=THEIRS, value=b"evil")).SerializeToString()
    op += rpc.RequestOp(request_put=rpc.PutRequest(key=LEADER, value=b"j1")).SerializeToString()
    raw = b"\x12" + bytes([len(op)]) + op
    with channel_of(host, "judicator") as channel:
        channel.unary_unary("/etcdserverpb.KV/Txn")(raw, timeout=5)
    with host.authority.etcd(host, "mongodb") as etcd:
        entry = etcd.get("mongodb/member/j1")
        assert entry is not None
        assert entry.value != "evil"


def test_callers_without_a_certificate_of_the_authority_are_refused(host: SecureHost, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    own = host.authority.tls("judicator")
    forged = authority.tls("judicator").model_copy(update={"ca": own.ca})
    config = EtcdClient(endpoints=[host_port(host.client)], tls=forged, timeout=2)
    with Etcd(config) as etcd, pytest.raises(UnavailableError):
        etcd.get(SERVICE)
    credentials = grpc.ssl_channel_credentials(own.ca.read_bytes())
    with connect(host_port(host.client), credentials) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=5)


def test_etcd_itself_listens_on_no_port_for_clients(host: SecureHost) -> None:
    inodes = {line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"}
    sockets = set()
    for link in Path(f"/proc/{host.server_pid()}/fd").iterdir():
        target = str(link.readlink())
        if target.startswith("socket:["):
            sockets.add(target[8:-1])
    assert len(inodes & sockets) == 1, "the peers' port"
    assert (host.data / "client.sock:1").stat().st_mode & 0o022 == 0


def serial(host: SecureHost) -> int:
    """The serial number of the certificate that the gate shows now."""
    files = tlsfiles.current(host.authority.tls("judicator"))
    with (
        socket.create_connection(tuple(host_port(host.client).split(":")), timeout=5) as plain,
        tlsfiles.client_context(files).wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        certificate = tls.getpeercert(binary_form=True)
    assert certificate is not None
    return x509.load_der_x509_certificate(certificate).serial_number


@pytest.mark.parametrize("fault", ["mismatch", "unreadable", "missing", "truncated", "rubbish"])
def test_a_renewal_that_stops_in_the_middle_ends_nothing(tmp_path: Path, fault: str) -> None:
    """The key is another, or not there, for longer than all checks together may take; then the pair is complete."""
    with secure_hosts(tmp_path, 1) as (host,):
        host.configure("initialise", [host], check={"interval": 0.1, "tries": 5}, metrics=f"127.0.0.1:{free_port()}")
        host.start().says("m1 is a voting member")
        pid, before = host.server_pid(), serial(host)
        own = host.authority.tls("etcd", "m1")
        renewed = Authority(tmp_path / "pki").tls("etcd", "renewed")
        contents = [path.read_bytes() for path in (renewed.key, renewed.cert)]
        if fault == "mismatch":
            own.key.write_bytes(contents[0])
        elif fault == "unreadable":
            own.key.unlink()
            own.key.mkdir()
        elif fault == "missing":
            own.key.unlink()
        elif fault == "truncated":
            own.key.write_bytes(contents[0][:60])
        else:
            own.cert.write_bytes(b"\xff\x00rubbish")
        beats = checks(host)
        wait_for(lambda: checks(host) >= beats + 15, what="three times as many checks as may fail")
        assert host.process is not None and host.process.poll() is None
        assert host.server_pid() == pid
        assert serial(host) == before
        with host.authority.etcd(host, "judicator") as etcd:
            etcd.put("judicator/leader", "j1")
        if fault == "unreadable":
            own.key.rmdir()
        for path, data in zip((own.key, own.cert), contents, strict=True):
            path.write_bytes(data)
        wait_for(lambda: serial(host) != before, what="the new certificate")
        host.says("a new certificate is in use")
        assert host.voters() == ["m1"]
        assert host.server_pid() == pid


def checks(host: SecureHost) -> float:
    """How often the daemon has found its server serving."""
    with urllib.request.urlopen(f"http://{host.settings['metrics']}/metrics", timeout=5) as page:
        match = re.search(r"^judge_etcd_checks_total (\S+)$", page.read().decode(), re.MULTILINE)
    assert match is not None
    return float(match[1])


def test_a_cluster_of_three_with_certificates_forms_and_goes_on_without_one(tmp_path: Path) -> None:
    with secure_hosts(tmp_path, 4) as (m1, m2, m3, m4):
        first: list[Host] = [m1, m2, m3]
        for host in first:
            host.configure("initialise", first).start()
        m1.wait_voters(*first)
        m4.configure("join", [m1, m2, m3, m4]).start()
        m1.wait_voters(m1, m2, m3, m4)
        m4.says("was promoted")
        assert m2.stop() == 0
        with m1.authority.etcd(m1, "judicator") as etcd:
            etcd.put("judicator/leader", "j1")
        assert "has left" in leave(m4.config.model_copy(update={"stop_grace": 60.0}))
        m2.start()
        m1.wait_voters(m1, m2, m3)


@pytest.mark.parametrize("victim", ["the server", "the daemon"])
def test_a_stale_socket_stops_no_start(tmp_path: Path, victim: str) -> None:
    with secure_hosts(tmp_path, 1) as (m1,):
        m1.configure("initialise", [m1]).start().says("m1 serves at")
        if victim == "the server":
            os.kill(m1.server_pid(), signal.SIGKILL)
            assert m1.ended() == 1
        else:
            m1.stop(signal.SIGKILL)
        assert (m1.data / SOCKET).is_socket()
        m1.start().says("m1 serves at", times=2)


def test_certificates_of_a_removed_host_open_nothing(host: SecureHost) -> None:
    """Whatever their role may do otherwise; those that were issued later are welcome."""
    calls: dict[str, Callable[[Etcd], object]] = {
        "executor": lambda etcd: etcd.get("judicator/service/j1"),
        "judicator": lambda etcd: etcd.put("judicator/gone", "here"),
        "mongodb": lambda etcd: etcd.put("mongodb/member/gone", "here"),
        "etcd": lambda etcd: etcd.members(),
    }
    for role, call in calls.items():
        with host.authority.etcd(host, role, name="gone") as etcd:
            assert may(lambda: call(etcd)), role  # noqa: B023
    with host.authority.etcd(host, "judicator") as keeper:
        keeper.put(f"{refused.KEYS}gone", refused.value(time.time()))
        for role, call in calls.items():
            with host.authority.etcd(host, role, name="gone") as etcd:
                wait_for(lambda: not may(lambda: call(etcd)), what=f"{role} refused")  # noqa: B023
        keeper.put(f"{refused.KEYS}gone", refused.value(time.time() - 7200))
        with host.authority.etcd(host, "executor", name="gone") as etcd:
            wait_for(lambda: may(lambda: calls["executor"](etcd)), what="a welcome")
        keeper.put(f"{refused.KEYS}gone", "damaged")
        with host.authority.etcd(host, "executor", name="gone") as etcd:
            wait_for(lambda: not may(lambda: calls["executor"](etcd)), what="refused in doubt")
        keeper.delete(f"{refused.KEYS}gone")
