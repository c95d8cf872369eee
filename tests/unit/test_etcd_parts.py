"""The etcd modules without a server: failures, deadlines, log lines, versions, the directory, discovery."""

import logging
import os
import socket
import struct
import subprocess
import sys
import threading

import dns.flags
import dns.message
import dns.rcode
import dns.resolver
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.clock import Deadline
from judge.common.errors import ConfigError, OutcomeUnknownError, RefusedError, UnavailableError
from judge.config import EtcdClient, EtcdConfig, EtcdPeer, Tls
from judge.etcd import discovery, program
from judge.etcd.client import Etcd, KeyValue, Lease, LeaseGoneError
from judge.etcd.datadir import EtcdDataDir, log_ids
from judge.etcd.discovery import find_by_dns, find_others
from judge.etcd.election import Election, deadline, read_holder
from judge.etcd.planner import EntryMode, MemberDisk, MemberRecord, PeerAddress
from judge.etcd.policy import after
from judge.etcd.transport import RejectedError, TermGuard, attempts, classify, outcome, shares
from judge.etcd.wire import grpc

CODE = grpc.StatusCode


# -- failures and budgets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "details", "error"),
    [
        (CODE.UNAVAILABLE, "failed to connect to all addresses; last error: refused", None),
        (CODE.UNAVAILABLE, "etcdserver: no leader", None),
        (CODE.UNAVAILABLE, "etcdserver: unhealthy cluster", None),
        (CODE.UNAVAILABLE, "etcdserver: request timed out", OutcomeUnknownError),
        (CODE.UNAVAILABLE, "etcdserver: leader changed", OutcomeUnknownError),
        (CODE.UNAVAILABLE, "Socket closed", OutcomeUnknownError),
        (CODE.UNAVAILABLE, "etcdserver: rpc not supported for learner", None),
        (CODE.DEADLINE_EXCEEDED, "Deadline Exceeded", OutcomeUnknownError),
        (CODE.CANCELLED, "Channel closed!", OutcomeUnknownError),
        (CODE.NOT_FOUND, "etcdserver: requested lease not found", LeaseGoneError),
        (CODE.NOT_FOUND, "etcdserver: member not found", RejectedError),
        (CODE.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", RejectedError),
        (CODE.RESOURCE_EXHAUSTED, "etcdserver: too many requests", None),
        (CODE.FAILED_PRECONDITION, "etcdserver: can only promote a learner member which is in sync", RejectedError),
    ],
)
def test_classes_of_failures(code, details, error):
    assert classify(code, details) is error


@given(st.floats(0.01, 100), st.integers(1, 9))
def test_each_try_gets_a_fair_share(timeout, endpoints):
    tries = shares(timeout, endpoints)
    assert 1 <= tries <= max(2, endpoints)
    assert tries == 1 or timeout / tries >= 0.5


class PlayedDeadline(Deadline):
    """A budget that time is taken from as a test says; each look at it takes a moment, too."""

    def __init__(self, seconds):
        self.seconds = self.remaining = seconds

    def take(self, seconds):
        self.remaining = max(0.0, self.remaining - seconds)

    def left(self):
        self.take(1e-6)
        return self.remaining


# Whole numbers of the shortest shares are what configs have, and where one more or less is a matter of a moment.
TIMEOUTS = st.floats(0.01, 100) | st.integers(1, 20).map(lambda number: number / 2)


@given(TIMEOUTS, st.integers(1, 9), st.integers(0, 8), st.lists(st.floats(0, 1.5), min_size=9, max_size=9))
def test_tries_go_round_and_share_the_time_that_is_left(timeout, endpoints, start, parts):
    """Each try takes a part of its share, or one and a half times as much, as a server does that hangs."""
    first, deadline, tried = start % endpoints, PlayedDeadline(timeout), []
    for index, seconds in attempts(deadline, endpoints, first):
        assert 0 < seconds <= deadline.remaining
        deadline.take(seconds * parts[len(tried)])
        tried.append(index)
    tries = shares(timeout, endpoints)
    assert tried == [(first + number) % endpoints for number in range(len(tried))]
    assert len(tried) == tries or deadline.remaining == 0.0
    if max(parts) < 1:
        assert len(tried) == tries, "who keeps to its share takes no time from the next"


class RpcError(Exception):
    """What gRPC raises: a status code and a text."""

    def __init__(self, code, details):
        self._answer = code, details

    def code(self):
        return self._answer[0]

    def details(self):
        return self._answer[1]


TEXTS = st.sampled_from(
    ["", "etcdserver: no leader", "etcdserver: request timed out", "etcdserver: requested lease not found",
     "failed to connect to all addresses; last error: refused", "etcdserver: too many requests", "Socket closed"]
)  # fmt: skip


@given(st.sampled_from(list(CODE)), TEXTS | st.text(max_size=20), st.booleans())
def test_no_other_endpoint_is_asked_when_a_write_may_have_been_done(code, details, delivered):
    failed, error = outcome(RpcError(code, details), sent=delivered), classify(code, details)
    assert failed.error is (None if error is OutcomeUnknownError and not delivered else error)
    assert failed.text
    assert failed.retire or "etcdserver:" in details, "only who answers as etcd does keeps the connection"
    assert failed.retire or code is not CODE.DEADLINE_EXCEEDED
    assert failed.late == (code is CODE.DEADLINE_EXCEEDED and failed.error is None)


def test_a_closed_client_asks_nobody():
    failed = outcome(ValueError("Cannot invoke RPC on closed channel!"), sent=True)
    assert (failed.error, failed.text) == (UnavailableError, "this client is closed")


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 20))))
def test_a_term_never_goes_back(answers):
    guard, highest = TermGuard(), {}
    for cluster, term in answers:
        assert guard.fresh(cluster, term) == (term >= highest.get(cluster, 0))
        highest[cluster] = max(term, highest.get(cluster, 0))


@given(st.binary(max_size=6), st.binary(max_size=6))
def test_the_range_of_a_prefix(prefix, key):
    end = after(prefix)
    inside = key >= prefix and (key < end or end == b"\0")
    assert inside == key.startswith(prefix) or not prefix.rstrip(b"\xff")


# -- the leader's deadline ---------------------------------------------------------------------------------------------


@given(st.floats(0, 1e6), st.integers(1, 120), st.floats(0, 300))
def test_leadership_ends_before_the_lease_whatever_the_delay(asked_at, ttl, delay):
    server_expiry = asked_at + delay + ttl  # the server counts from when it handles the request
    until = deadline(asked_at, ttl)
    assert until < server_expiry
    assert until <= asked_at + 0.9 * ttl + 1e-6


class ScriptedEtcd:
    """Answers of an etcd whose every call may take time, be lost before or after it took effect, or fail."""

    def __init__(self, script):
        self.now = 100.0
        self.script = script
        self.key: KeyValue | None = None
        self.leases: dict[int, float] = {}
        self.revision = 0
        self.ids = 0

    def _expire(self):
        self.leases = {lease: end for lease, end in self.leases.items() if end > self.now}
        if self.key is not None and self.key.lease not in self.leases:
            self.key = None

    def _call(self, effect, *, writes):
        kind, request_delay, reply_delay = self.script.pop() if self.script else ("ok", 0.0, 0.0)
        self.now += request_delay
        self._expire()
        if kind == "refused":
            raise UnavailableError("refused")
        result = effect()
        self.now += reply_delay
        self._expire()
        if kind == "lost":
            raise OutcomeUnknownError("lost") if writes else UnavailableError("lost")
        return result

    def get(self, key):
        return self._call(lambda: self.key, writes=False)

    def held(self, key, revision):
        return self._call(lambda: self.key is not None and self.key.create_revision == revision, writes=False)

    def grant(self, ttl):
        def effect():
            self.ids += 1
            self.leases[self.ids] = self.now + ttl
            return Lease(self.ids, ttl)

        return self._call(effect, writes=False)

    def keepalive(self, lease):
        def effect():
            if lease not in self.leases:
                return 0
            self.leases[lease] = self.now + 6
            return 6

        return self._call(effect, writes=False)

    def revoke(self, lease):
        def effect():
            self.leases.pop(lease, None)
            self._expire()

        return self._call(effect, writes=False)

    def delete(self, key, revision):
        def effect():
            if self.key is not None and self.key.create_revision == revision:
                self.key = None

        return self._call(effect, writes=True)

    def create(self, key, value, lease):
        def effect():
            if self.key is not None:
                return None
            if lease not in self.leases:
                raise LeaseGoneError("gone")
            self.revision += 1
            self.key = KeyValue(key, value, self.revision, self.revision, lease)
            return self.key

        return self._call(effect, writes=True)


ANSWERS = st.lists(
    st.tuples(st.sampled_from(["ok", "ok", "lost", "refused"]), st.floats(0, 4), st.floats(0, 4)), max_size=60
)
ACTS = st.lists(st.tuples(st.sampled_from(["a", "b", "delete", "wait", "resign"]), st.floats(0, 7)), max_size=25)


@given(ANSWERS, ACTS)
def test_at_most_one_leads(script, acts):
    etcd = ScriptedEtcd(script)
    elections = {name: Election(etcd, "k", "same-name", 6, boottime=lambda: etcd.now) for name in "ab"}
    tokens = [0]
    for act, seconds in acts:
        if act in elections:
            if elections[act].step():
                tokens.append(elections[act].token)
        elif act == "delete":
            etcd.key = None  # by hand: the deposed one may go on to its deadline, so let that pass before judging
            etcd.now += 6
        elif act == "resign":
            elections["a"].resign()
            assert not elections["a"].held and elections["a"].token == 0
        else:
            etcd.now += seconds
        etcd._expire()
        leaders = [election for election in elections.values() if election.held]
        assert len(leaders) <= 1
        for leader in leaders:
            assert etcd.key is not None and etcd.key.create_revision == leader.token
    assert tokens == sorted(tokens)


def test_a_hand_written_key_belongs_to_another_holder():
    etcd = ScriptedEtcd([])
    etcd.leases[9] = 1e9
    etcd.key = KeyValue("k", "not json", 5, 5, 9)
    election = Election(etcd, "k", "me", 6, boottime=lambda: etcd.now)
    assert not election.step()
    holder = read_holder(etcd, "k")
    assert holder is not None and (holder.value, holder.incarnation, holder.token) == ("not json", "", 5)
    assert election.interval == 2


def test_an_answer_that_comes_too_late_is_no_leadership():
    etcd = ScriptedEtcd([("ok", 0, 5.5), ("ok", 0, 0), ("ok", 0, 0)])  # create, grant, get are popped from the end
    election = Election(etcd, "k", "me", 6, boottime=lambda: etcd.now)
    assert not election.step()
    assert election.token == 0


# -- the program -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "level", "text"),
    [
        ('{"level":"info","ts":"x","caller":"a.go:1","msg":"ready","id":"ab","n":3}', logging.INFO, "ready id=ab n=3"),
        ('{"level":"warn","msg":"slow"}', logging.WARNING, "slow"),
        ('{"level":"fatal","msg":"bad","error":"e"}', logging.CRITICAL, "bad error=e"),
        ('{"level":"odd","msg":"x"}', logging.INFO, "x"),
        ("{not json", logging.INFO, "{not json"),
        ("2026-01-31 12:00:00.123456 W | etcdmain: careful", logging.WARNING, "etcdmain: careful"),
        ("2026-01-31 12:00:00.123456 N | etcdmain: note", logging.INFO, "etcdmain: note"),
        ("panic: something", logging.INFO, "panic: something"),
        ("", logging.INFO, ""),
    ],
)
def test_log_lines_keep_their_level(line, level, text):
    assert program.parse_line(line) == (level, text)


@given(st.text())
def test_any_log_line_is_accepted(line):
    program.parse_line(line)
    program.parse_line("{" + line)


def test_versions_and_their_bugs():
    assert program.parse_version("etcd Version: 3.4.23\nGit SHA: x") == (3, 4, 23)
    assert program.parse_version("nonsense") is None
    assert len(program.known_bugs((3, 4, 23))) == 3
    assert len(program.known_bugs((3, 5, 16))) == 2
    assert program.known_bugs((3, 6, 9)) == program.known_bugs((3, 5, 28)) == program.known_bugs((4, 0, 0)) == []


def config(work, **changes):
    values = {
        "name": "m1", "data_dir": work / "var", "client": "http://127.0.0.1:23790", "peer": "http://127.0.0.1:23800",
        "cluster": {
            "token": "token-one",
            "members": [
                {"name": "m1", "peer": "http://127.0.0.1:23800", "client": "http://127.0.0.1:23790"},
                {"name": "m2", "peer": "http://127.0.0.2:23800", "client": "http://127.0.0.2:23790"},
            ],
        },
        **changes,
    }  # fmt: skip
    return EtcdConfig.model_validate(values)


def fake_binary(work, text):
    path = work / "etcd"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("echo etcd Version: 3.3.27", "3.3.27, which is refused"),
        ("echo etcd Version: 3.4.22", "3.4.22, which is refused"),
        ("echo hello", "does not say its etcd version"),
        ("exit 1", "does not say its etcd version"),
        (None, "was not found"),
    ],
)
def test_a_refused_binary(work, text, sentence):
    binary = str(work / "nothing") if text is None else fake_binary(work, text)
    with pytest.raises(RefusedError, match=sentence):
        program.check_binary(config(work, binary=binary))


def test_known_bugs_are_named_once_and_quietly_when_accepted(work, caplog):
    binary = fake_binary(work, "echo etcd Version: 3.4.23")
    with caplog.at_level(logging.INFO):
        program.check_binary(config(work, binary=binary))
        program.check_binary(config(work, binary=binary, accept_known_bugs=True))
        program.check_binary(config(work, binary=fake_binary(work, "echo etcd Version: 3.6.9")))
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert all("wrongly revoked" in record.message for record in caplog.records)


def test_environment_hides_etcd_variables(monkeypatch):
    monkeypatch.setenv("ETCD_NAME", "other")
    monkeypatch.setenv("ETCD_UNSUPPORTED_ARCH", "arm64")
    assert "ETCD_NAME" not in program.environment()
    assert program.environment()["ETCD_UNSUPPORTED_ARCH"] == "arm64"
    assert program.environment()["PATH"] == os.environ["PATH"]


@pytest.fixture
def tls(work):
    return Tls(ca=work / "ca", cert=work / "crt", key=work / "key")


def test_tls_files_that_cannot_be_read(tls):
    with pytest.raises(ConfigError, match="cannot be read"):
        Etcd(EtcdClient(endpoints=["127.0.0.1:1"], tls=tls))


def test_urls_must_agree_with_certificates(work, tls):
    program.check_urls(config(work))
    with pytest.raises(ConfigError, match=r"client: .* must start with https:// because 'tls' is set"):
        program.check_urls(config(work, tls=tls))
    with pytest.raises(ConfigError, match=r"peer: .* must start with http:// because 'peer_tls' is not set"):
        program.check_urls(config(work, peer="https://127.0.0.1:2380"))
    with pytest.raises(ConfigError, match="has no port"):
        program.check_urls(config(work, listen_client=["http://127.0.0.1"]))


def test_command_lines(work, tls):
    peers, own = [PeerAddress("m1", "p1"), PeerAddress("m2", "p2")], config(work, tls=tls, peer_tls=tls)
    command = program.member_command(own, work / "etcd", work / "data", "new", peers)
    assert "--initial-cluster=m1=p1,m2=p2" in command and "--initial-cluster-state=new" in command
    assert "--peer-client-cert-auth=true" in command and f"--peer-trusted-ca-file={work / 'ca'}" in command
    assert "--peer-cert-allowed-hostname=etcd-member.judge.internal" in command
    assert "--listen-client-urls=unix://client.sock:1" in command
    proxy = program.proxy_command(config(work), work / "etcd", ["a:1", "b:2"])
    assert proxy[1:] == [
        "gateway", "start", "--listen-addr=127.0.0.1:2379", "--endpoints=a:1,b:2", "--retry-delay=2s",
    ]  # fmt: skip


def test_a_port_in_use_is_named():
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        address = f"127.0.0.1:{busy.getsockname()[1]}"
        with pytest.raises(RefusedError, match=f"{address} cannot be listened on: Address already in use"):
            program.wait_for_ports([address], 0.2)
    program.wait_for_ports([address], 0.2)


# -- the directory -----------------------------------------------------------------------------------------------------


def frame(body):
    padding = -len(body) % 8
    length = len(body) | ((0x80 | padding) << 56 if padding else 0)
    return struct.pack("<Q", length) + body + b"\0" * padding


def varint(number):
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def wal(member, cluster):
    metadata = b"\x08" + varint(member) + b"\x10" + varint(cluster)
    crc = frame(b"\x08\x04\x10\x00")
    return crc + frame(b"\x08\x01\x10\x05\x1a" + varint(len(metadata)) + metadata)


@given(st.integers(1, 2**64 - 1), st.integers(1, 2**64 - 1))
def test_the_log_names_its_member(member, cluster):
    assert log_ids(wal(member, cluster)) == (member, cluster)


@given(st.binary(max_size=200), st.integers(0, 60))
def test_any_bytes_are_no_reason_to_fail(noise, cut):
    log_ids(noise)
    log_ids(wal(2**63, 2**63)[:cut] + noise)
    assert log_ids(b"\0" * 64) == (0, 0)


RECORD = MemberRecord(
    "token-one", "m1", "http://p", EntryMode.INITIALISE, (PeerAddress("m1", "http://p"),), 2**64 - 1, 7, True, True
)


def test_the_record_survives_and_data_is_recognised_and_put_aside(work):
    directory = EtcdDataDir(work / "var")
    assert directory.read() == MemberDisk()
    directory.write(RECORD)
    assert directory.read() == MemberDisk(record=RECORD)
    directory.prepare()
    logs = directory.data / "member" / "wal"
    logs.mkdir(parents=True)
    (logs / "0-0.wal").write_bytes(wal(5, 6))
    assert directory.read() == MemberDisk(True, 5, 6, RECORD)
    for _ in range(2):
        directory.discard()
        assert not directory.data.exists() and (directory.old / "member" / "wal").exists()
    directory.prepare()
    (directory.data / "half").mkdir()
    directory.prepare()
    directory.discard()
    assert list(directory.old.iterdir()) == []


def test_unreadable_directories_are_refused(work):
    directory = EtcdDataDir(work / "var")
    directory.write(RECORD)
    directory.record_file.write_text("{broken")
    with pytest.raises(RefusedError, match="it is not a membership record"):
        directory.read()
    directory.record_file.unlink()
    directory.record_file.mkdir()
    with pytest.raises(RefusedError, match="Is a directory"):
        directory.read()
    (work / "other" / "member").mkdir(parents=True)
    with pytest.raises(RefusedError, match="judge did not start"):
        EtcdDataDir(work / "other").read()
    (work / "file").write_text("")
    with pytest.raises(RefusedError, match="cannot be written"):
        EtcdDataDir(work / "file").write(RECORD)


# -- discovery, against a real name server -----------------------------------------------------------------------------


@pytest.fixture
def name_server():
    """A resolver that asks a name server of this test's own; its zone is a dict."""
    zone: dict[tuple[str, str], list[str]] = {}
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))

    def serve():
        while True:
            data, sender = sock.recvfrom(4096)
            if not data:
                return
            query = dns.message.from_wire(data)
            question = query.question[0]
            name, kind = question.name.to_text(omit_final_dot=True), question.rdtype.name
            reply = dns.message.make_response(query)
            reply.flags |= dns.flags.RA
            if (name, kind) in zone:
                reply.answer.append(dns.rrset.from_text(question.name, 60, "IN", kind, *zone[name, kind]))
            elif ("*", "fail") in zone:
                reply.set_rcode(dns.rcode.SERVFAIL)
            else:
                reply.set_rcode(dns.rcode.NXDOMAIN)
            sock.sendto(reply.to_wire(), sender)

    thread = threading.Thread(target=serve)
    thread.start()
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers = ["127.0.0.1"]
    resolver.port = sock.getsockname()[1]
    resolver.search = []
    yield zone, resolver
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.sendto(b"", sock.getsockname())
    thread.join()
    sock.close()


def test_discovery_by_srv_records(name_server):
    zone, resolver = name_server
    zone["_etcd-client._tcp.judge.test", "SRV"] = ["0 0 2379 b.judge.test.", "0 0 2479 a.judge.test."]
    assert find_by_dns("judge.test", 2379, resolver=resolver).others == ("a.judge.test:2479", "b.judge.test:2379")
    assert find_by_dns("_etcd-client._tcp.judge.test", 1, resolver=resolver).others[0] == "a.judge.test:2479"
    zone["_etcd-client-ssl._tcp.judge.test", "SRV"] = ["0 0 2379 s.judge.test."]
    assert find_by_dns("judge.test", 2379, tls=True, resolver=resolver).others == ("s.judge.test:2379",)


def test_discovery_by_addresses_leaves_this_host_out(name_server, work):
    zone, resolver = name_server
    zone["tasks.etcd", "A"] = ["127.0.0.1", "127.0.0.9"]
    cluster = {"token": "token-one", "dns": "tasks.etcd", "dns_client_port": 23790}
    discovered = find_others(config(work, cluster=cluster), resolver)
    assert discovered == discovery.Discovered(("127.0.0.9:23790",))
    proxy = config(work, cluster=cluster, mode="proxy")
    assert find_others(proxy, resolver).others == ("127.0.0.1:23790", "127.0.0.9:23790")


def test_discovery_finds_nobody_or_cannot_tell(name_server, work):
    zone, resolver = name_server
    assert find_by_dns("nobody.invalid", 2379, resolver=resolver) == discovery.Discovered()
    assert find_by_dns("localhost", 2379, resolver=resolver).others == ("127.0.0.1:2379",)
    zone["*", "fail"] = []
    discovered = find_by_dns("nobody.invalid", 2379, resolver=resolver)
    assert discovered.others == () and "DNS cannot resolve nobody.invalid" in discovered.failed


def test_discovery_by_list(work):
    assert find_others(config(work)).others == ("127.0.0.2:23790",)
    assert EtcdPeer(name="m2", peer="http://a:1", client="http://b:2").client == "http://b:2"


FORKS = """
import subprocess, threading
from judge.etcd.wire import grpc
over = threading.Event()
def connect():
    while not over.is_set():
        with grpc.insecure_channel("127.0.0.1:1") as channel:
            try:
                grpc.channel_ready_future(channel).result(timeout=0.01)
            except grpc.FutureTimeoutError:
                pass
threads = [threading.Thread(target=connect) for _ in range(3)]
for thread in threads:
    thread.start()
codes = {subprocess.run(["true"], preexec_fn=lambda: None).returncode for _ in range(400)}
over.set()
for thread in threads:
    thread.join()
print(codes)
"""


def test_programs_can_be_started_beside_connections() -> None:
    """As Ansible's modules do it, by fork: gRPC's own handlers would abort some of the children."""
    run = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=False, timeout=240)
    assert run.stdout.strip() == "{0}", run.stdout + run.stderr
