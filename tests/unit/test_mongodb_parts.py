"""The small parts of the MongoDB daemon: data directory, command line, log lines, driver errors, views."""

import asyncio
import datetime
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pymongo.lock
import pytest
from bson import Timestamp
from hypothesis import given
from hypothesis import strategies as st
from pymongo import errors

from judge.common.errors import JudgeError, OutcomeUnknownError, RefusedError, UnavailableError
from judge.common.procfs import machine_memory
from judge.config import MongodbClient, MongodbConfig, Tls
from judge.daemon.process import ChildProcess
from judge.etcd.program import parse_line
from judge.mongodb import data, replica, server, store
from judge.mongodb.server import packaged_binary


def config(tmp_path: Path, **changes: object) -> MongodbConfig:
    values: dict[str, object] = {
        "name": "m0", "data_dir": tmp_path, "address": "127.0.0.1:27017", "etcd": {"endpoints": ["127.0.0.1:1"]},
    }  # fmt: skip
    return MongodbConfig.model_validate({**values, **changes})


def test_a_new_directory_gets_a_new_incarnation_each_time(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data"
    first = data.prepare(path)
    assert first.fresh and first.marked and first.rsid is None
    second = data.prepare(path)
    assert second.fresh and second.incarnation != first.incarnation
    assert path.stat().st_mode & 0o777 == 0o700


def test_a_used_directory_keeps_its_incarnation(tmp_path: Path) -> None:
    before = data.prepare(tmp_path)
    (tmp_path / "WiredTiger").touch()
    after = data.prepare(tmp_path)
    assert (after.fresh, after.marked, after.incarnation) == (False, True, before.incarnation)
    joined = after.joined("64ab")
    assert joined.joined("64ab") is joined
    assert data.prepare(tmp_path).rsid == "64ab"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"incarnation": "x"}'])
def test_a_broken_marker_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "storage.bson").touch()
    (tmp_path / data.MARKER).write_text(text)
    directory = data.prepare(tmp_path)
    assert not directory.fresh and not directory.marked
    assert directory.joined("64ab").marked
    assert data.prepare(tmp_path).incarnation == directory.incarnation


def test_leftovers_of_a_killed_daemon_are_removed(tmp_path: Path) -> None:
    (tmp_path / f".{data.MARKER}.77.tmp").write_text("{")
    assert data.prepare(tmp_path).fresh
    assert [path.name for path in tmp_path.iterdir()] == [data.MARKER]


def test_refused_data_directories(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(RefusedError, match=r"holds 'photo.jpg' and no MongoDB data; name an empty directory"):
        data.prepare(tmp_path)
    with pytest.raises(RefusedError, match="cannot be used: Not a directory"):
        data.prepare(tmp_path / "photo.jpg" / "data")
    with pytest.raises(RefusedError, match="cannot be written: No such file"):
        data.write_private(tmp_path / "none" / "file", b"")


def program(directory: Path, text: str) -> Path:
    path = directory / "mongod"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_versions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert server.check_version(program(tmp_path, "echo db version v7.0.14")) == (7, 0, 14)
    assert not caplog.records
    assert server.check_version(program(tmp_path, "echo db version v6.0.5")) == (6, 0, 5)
    assert server.check_version(program(tmp_path, "echo db version v5.0.31")) == (5, 0, 31)
    ended = [record.message for record in caplog.records]
    assert [text.split(";")[0] for text in ended] == [
        "MongoDB 6.0.5 has been past its end of life since July 2025",
        "MongoDB 5.0.31 has been past its end of life since October 2024",
    ]
    with pytest.raises(RefusedError, match=r"is MongoDB 4.4.29, which is refused; install 5.0 or newer"):
        server.check_version(program(tmp_path, "echo db version v4.4.29"))
    with pytest.raises(RefusedError, match="is not a mongod that runs here: no libcurl"):
        server.check_version(program(tmp_path, "echo no libcurl >&2; exit 127"))
    with pytest.raises(RefusedError, match="is not a mongod that runs here: exit code -4"):
        server.check_version(program(tmp_path, "kill -ILL $$"))
    with pytest.raises(RefusedError, match="cannot be run"):
        server.check_version(tmp_path)


def test_packaged_binary_is_a_real_one() -> None:
    binary = packaged_binary()
    assert binary is not None
    server.check_version(binary)


def test_command_line(tmp_path: Path) -> None:
    line = " ".join(
        server.command(config(tmp_path, cache_gib=1.5, listen=["127.0.0.1", "10.0.0.1"]), Path("/x/mongod"))
    )
    assert line.startswith(f"/x/mongod --dbpath {tmp_path} --port 27017 --bind_ip 127.0.0.1,10.0.0.1 --replSet judge")
    assert "--wiredTigerCacheSizeGB 1.5 " in line
    assert f"--wiredTigerCacheSizeGB {server.cache_of(machine_memory()):g} " in " ".join(
        server.command(config(tmp_path), Path("/x/mongod"))
    )
    small = server.command(config(tmp_path, cache_gib=0.1), Path("/x/mongod"))
    assert "--wiredTigerEngineConfigString cache_size=102M" in " ".join(small)
    assert "--setParameter oplogNetworkTimeoutBufferSeconds=1" in line
    assert "--oplogMinRetentionHours" not in line
    retained = server.command(config(tmp_path, oplog_hours=1.5), Path("/x/mongod"))
    assert "--oplogMinRetentionHours 1.5" in " ".join(retained)
    assert "--ipv6" not in line and "--tlsMode" not in line and "--keyFile" not in line


def test_command_line_with_everything(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("CERT")
    (tmp_path / "k").write_text("KEY")
    tls = Tls(ca=tmp_path / "ca", cert=tmp_path / "c", key=tmp_path / "k")
    line = " ".join(server.command(config(tmp_path, tls=tls, key_file=tmp_path / "kf", listen=["::1"]), Path("m")))
    assert f"--ipv6 --keyFile {tmp_path}/kf --setParameter enableLocalhostAuthBypass=false" in line
    assert "authenticationMechanisms=SCRAM-SHA-256 --tlsMode requireTLS" in line
    joined = tmp_path / data.TLS_FILE
    assert joined.read_text() == "CERT\nKEY" and joined.stat().st_mode & 0o777 == 0o600
    with pytest.raises(RefusedError, match=r"tls.cert: .*gone cannot be read: No such file"):
        server.command(config(tmp_path, tls=tls.model_copy(update={"cert": tmp_path / "gone"})), Path("m"))


def line(severity: str, number: int = 1, **fields: object) -> str:
    return json.dumps({"s": severity, "c": "REPL", "id": number, "ctx": "main", "msg": "Something", **fields})


def test_log_lines() -> None:
    lines = server.LogLines()
    assert lines.parse(line("I")) == (logging.DEBUG, "Something")
    assert lines.parse(line("D2")) == (logging.DEBUG, "Something")
    assert lines.parse(line("I", 21358, attr={"newState": "PRIMARY", "config": {"x": 1}})) == (
        logging.INFO,
        "Something (newState: PRIMARY)",
    )
    assert lines.parse(line("W")) == (logging.WARNING, "Something")
    assert lines.parse(line("W", 23236)) == (logging.DEBUG, "Something")
    assert lines.parse(line("W", tags=["startupWarnings"])) == (logging.INFO, "Something")
    assert lines.last_error == ""
    assert lines.parse(line("E", attr={"error": {"code": 1}})) == (logging.ERROR, 'Something (error: {"code": 1})')
    assert lines.last_error == 'Something (error: {"code": 1})'
    assert lines.parse(line("F")) == (logging.CRITICAL, "Something")
    assert lines.parse("  0x55: frame") == (logging.INFO, "  0x55: frame")
    assert lines.parse("[1]")[0] == lines.parse("null")[0] == logging.INFO
    assert len(lines.parse(line("I", attr={"long": "x" * 5000}))[1]) == 300


def test_exit_codes(tmp_path: Path) -> None:
    lines = server.LogLines()
    settings = config(tmp_path)
    assert server.exit_error(settings, 14, lines) is None
    refusal = server.exit_error(settings, 62, lines)
    assert refusal is not None and "data files of another version" in str(refusal) and refusal.exit_code == 3
    lines.last_error = "DBException in initAndListen, terminating (error: DBPathInUse: Unable to lock)"
    refusal = server.exit_error(settings, 100, lines)
    assert refusal is not None and "in use by another mongod; stop that one" in str(refusal)


@pytest.mark.parametrize(
    ("raised", "means"),
    [
        (errors.ServerSelectionTimeoutError("no primary, Timeout: 3s, Topology Description: <...>"), UnavailableError),
        (errors.WaitQueueTimeoutError("pool"), UnavailableError),
        (errors.ConfigurationError("x"), UnavailableError),
        (errors.NotPrimaryError("not primary", {"errorLabels": ["NoWritesPerformed"]}), UnavailableError),
        (errors.OperationFailure("auth", 18), UnavailableError),
        (errors.OperationFailure("Failed to confirm that read was linearizable", 136), OutcomeUnknownError),
        (errors.CursorNotFound("cursor id 1 not found", 43), OutcomeUnknownError),
        (errors.NotPrimaryError("not primary"), OutcomeUnknownError),
        (errors.AutoReconnect("lost"), OutcomeUnknownError),
        (errors.NetworkTimeout("slow"), OutcomeUnknownError),
        (errors.WTimeoutError("waiting", 64), OutcomeUnknownError),
        (errors.WriteConcernError("w", 91), OutcomeUnknownError),
        (errors.ExecutionTimeout("maxTimeMS", 50), OutcomeUnknownError),
        (errors.OperationFailure("x", 1, {"errorLabels": ["RetryableWriteError"]}), OutcomeUnknownError),
        (errors.BulkWriteError({"writeConcernErrors": [{"code": 64}]}), OutcomeUnknownError),
        (errors.OperationFailure("x", 1, {"writeConcernError": {"code": 64}}), OutcomeUnknownError),
        (errors.DuplicateKeyError("E11000", 11000), JudgeError),
        (errors.OperationFailure("bad operator, full error: {'ok': 0.0}", 2), JudgeError),
    ],
)
def test_translate(raised: errors.PyMongoError, means: type[JudgeError]) -> None:
    error = store.translate(raised)
    assert type(error) is means
    assert "full error" not in str(error) and "Topology" not in str(error)


def test_connections_without_tls_and_user() -> None:
    settings = MongodbClient(seeds=["127.0.0.1:1"], timeout=0.5)
    with store.connect(settings, asynchronous=False) as client:
        assert client.options.timeout == 0.5
        assert client.options.retry_writes and client.options.retry_reads
        assert client.options.replica_set_name == "judge"
        assert client.options.server_selection_timeout == 0.5


def test_member_with_and_without_state() -> None:
    entry = {"_id": 4, "host": "h:1", "votes": 1, "tags": {"incarnation": "i"}}
    unknown = replica._member(entry, None, 100)
    assert (unknown.healthy, unknown.in_sync, unknown.state) == (False, False, "unknown")

    def state(number: int, seconds: int, health: int = 1) -> dict[str, object]:
        return {"state": number, "stateStr": "S", "health": health, "optime": {"ts": Timestamp(seconds, 1)}}

    near = replica._member(entry, state(2, 95), 100)
    assert near.healthy and near.in_sync and near.incarnation == "i"
    lagging = replica._member(entry, state(2, 80), 100)
    assert lagging.healthy and not lagging.in_sync
    assert not replica._member(entry, state(3, 100), 100).healthy
    assert not replica._member(entry, state(2, 100, health=0), 100).healthy


async def test_a_cancelled_operation_keeps_the_drivers_locks() -> None:
    """It gave back a lock that somebody else had, with asyncio.wait_for of Python 3.11 (docs/decisions/013)."""
    assert store.DRIVER_ERRORS  # it is this module that mends the driver
    lock = pymongo.lock._async_create_lock()
    condition = pymongo.lock._async_create_condition(lock)

    async def wait() -> None:
        async with lock:
            await pymongo.lock._async_cond_wait(condition, 0.01)

    waiter = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    async with lock:  # so that the waiter's time is over while it cannot have its lock back
        for _ in range(10_000):
            if lock._waiters:
                break
            await asyncio.sleep(0.001)
        waiter.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert lock.locked() and not waiter.done()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert not lock.locked()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_ENTRIES = st.fixed_dictionaries({}, optional=dict.fromkeys(("s", "id", "msg", "attr", "tags", "t", "c", "ctx"), _JSON))
LINES = (
    st.text(max_size=200)
    | _ENTRIES.map(json.dumps)
    | _JSON.map(json.dumps)
    | st.builds(
        lambda entry, attr, tags: json.dumps({**entry, "attr": attr, "tags": tags}),
        st.just(json.loads(line("E"))),
        _JSON,
        _JSON,
    )
    | st.integers(1, 3000).map(
        lambda depth: '{"s": "I", "id": 1, "msg": "m", "attr": ' + "[" * depth + "]" * depth + "}"
    )
)


@pytest.mark.parametrize("parse", [server.LogLines().parse, parse_line], ids=["mongod", "etcd"])
@given(LINES)
def test_any_line_is_a_level_and_a_text(parse: Callable[[str], tuple[int, str]], text: str) -> None:
    level, message = parse(text)
    assert isinstance(level, int)
    assert isinstance(message, str)


def test_a_line_that_the_parser_fails_on_does_not_end_the_reader(caplog: pytest.LogCaptureFixture) -> None:
    """A child whose pipe is closed or full would end, or stand still."""

    def parse(text: str) -> tuple[int, str]:
        return logging.INFO, f"{1 / int(text)}"

    with caplog.at_level(logging.INFO):
        command = ["sh", "-c", "echo 2; echo 0; echo x; head -c 200000 /dev/zero | tr '\\0' 7; echo; echo 4"]
        child = ChildProcess("server", command, parse=parse)
        assert child.wait(20) == 0
        assert child.join() == 0
    assert child.last_line == "0.25"
    messages = [record.getMessage() for record in caplog.records]
    assert "0.5" in messages
    assert "x" in messages
    assert sum("cannot be understood" in text for text in messages) == 1


def test_a_member_is_behind_the_newest_write_of_any() -> None:
    def member(seconds: int, *, own: bool = False) -> dict[str, object]:
        moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=seconds)
        return {"optimeDate": moment, **({"self": True} if own else {})}

    assert replica.lag_of({"members": [member(50), member(8, own=True), {"state": 6}]}) == 42
    assert replica.lag_of({"members": [member(50, own=True), member(8)]}) == 0
    assert replica.lag_of({"members": [member(50), {"self": True}]}) == 0


@pytest.mark.parametrize(("gib", "cache"), [(0.5, 0.25), (2, 0.25), (4, 0.75), (8, 1.75), (64, 15.75)])
def test_the_cache_grows_with_the_memory(gib: float, cache: float) -> None:
    assert server.cache_of(int(gib * 2**30)) == cache
