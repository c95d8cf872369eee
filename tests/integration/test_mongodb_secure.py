"""Members with a key file, a user and mutual TLS, the judicator's connection to them, and what the errors mean."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.errors import OperationFailure, PyMongoError

from judge.common.errors import JudgeError, OutcomeUnknownError, RefusedError, TooLargeError, UnavailableError
from judge.config import MongodbClient
from judge.mongodb import store
from judge.rpc import pki
from tests.support.mongodb import Cluster, Daemon, mongodb_cluster, secure_cluster
from tests.support.servers import frozen, wait_for

Secure = tuple[Cluster, list[Daemon], MongodbClient]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, etcd_endpoint: str) -> Iterator[Secure]:
    home = tmp_path_factory.mktemp("secure")
    with secure_cluster(home, etcd_endpoint, "c2VjcmV0IG9mIHRoZSBtZW1iZXJz", "of the judicators") as cluster:
        yield cluster, cluster.daemons, MongodbClient(
            seeds=[daemon.address for daemon in cluster.daemons], username="judicator", timeout=5.0,
            password_file=home / "mongodb.password", tls=cluster.daemons[0].settings["tls"],
        )  # fmt: skip


def test_connection_of_the_judicator(secure: Secure) -> None:
    _, _daemons, config = secure
    with store.connect(config, asynchronous=False) as client:
        # Majority and journal are asked for by default, on everything this client hands out.
        assert client.write_concern.document == {"w": "majority", "j": True}
        assert client.judge.x.read_concern.level == "majority"
        client.judge.x.insert_one({"_id": 1})
        # What the status reads: its user may.
        assert len(client.admin.command("replSetGetStatus")["members"]) == 3
        assert client.admin.command("serverStatus", oplog=1)["oplog"]["earliestOptime"]
        assert client.local.command("collStats", "oplog.rs")["maxSize"] > 0
        with pytest.raises(PyMongoError) as caught:
            client.judge.x.insert_one({"_id": 1})
        error = store.translate(caught.value)
        assert type(error) is JudgeError and "duplicate key" in str(error)
        with pytest.raises(store.DRIVER_ERRORS) as caught:
            client.judge.x.insert_one({"_id": 2, "big": b"x" * (17 << 20)})
        assert type(store.translate(caught.value)) is TooLargeError
        with pytest.raises(store.DRIVER_ERRORS) as caught:
            client.judge.x.insert_one({"_id": 2, "big": object()})
        assert "cannot store this document" in str(store.translate(caught.value))
        # An idle change stream outlives the client's timeout.
        with client.judge.x.watch(max_await_time_ms=100) as stream:
            assert stream.try_next() is None
            client.judge.x.insert_one({"_id": 3})
            assert wait_for(stream.try_next)

    wrong = config.password_file
    assert wrong is not None
    wrong_file = wrong.with_name("wrong")
    wrong_file.write_text("wrong")
    with store.connect(config.model_copy(update={"password_file": wrong_file}), asynchronous=False) as client:
        with pytest.raises(PyMongoError) as caught:
            client.judge.x.find_one()
        assert "refuses this user" in str(store.translate(caught.value))


async def test_asynchronous_connection(secure: Secure) -> None:
    _, _, config = secure
    async with store.connect(config, asynchronous=True) as client:
        await client.judge.y.insert_one({"_id": 1})
        document = await client.judge.y.find_one({"_id": 1})
        assert document == {"_id": 1}


def test_nobody_gets_in_without_certificate_or_password(secure: Secure) -> None:
    _, _daemons, config = secure
    short = config.model_copy(update={"timeout": 1.0})
    with store.connect(short.model_copy(update={"tls": None}), asynchronous=False) as client:
        with pytest.raises(PyMongoError) as caught:
            client.judge.x.find_one()
        assert type(store.translate(caught.value)) is UnavailableError
    with store.connect(short.model_copy(update={"username": None}), asynchronous=False) as client:
        with pytest.raises(PyMongoError) as caught:
            client.judge.x.find_one()
        assert "requires authentication" in str(store.translate(caught.value))


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("judge", {"count": "x"}),
    ("judge", {"find": "x"}),
    ("judge", {"insert": "x", "documents": [{"a": 1}]}),
    ("judge", {"delete": "x", "deletes": [{"q": {}, "limit": 0}]}),
    ("judge", {"dropDatabase": 1}),
    ("judge", {"aggregate": "x", "pipeline": [{"$changeStream": {}}], "cursor": {}}),
    ("admin", {"listDatabases": 1}),
    ("admin", {"createUser": "me", "pwd": "x", "roles": ["root"]}),
    ("admin", {"usersInfo": 1}),
    ("admin", {"replSetGetConfig": 1}),
    ("admin", {"replSetGetStatus": 1}),
    ("admin", {"replSetReconfig": {"_id": "judge", "version": 1000000, "members": []}, "force": True}),
    ("admin", {"replSetStepDown": 60}),
    ("admin", {"shutdown": 1, "force": True}),
    ("admin", {"setParameter": 1, "logLevel": 1}),
    ("admin", {"serverStatus": 1}),
    ("admin", {"currentOp": 1}),
    ("admin", {"getLog": "global"}),
    ("local", {"find": "oplog.rs"}),
    ("config", {"find": "system.sessions"}),
]


@pytest.mark.parametrize("role", ["executor", "gateway", "judicator", "etcd", "proxy", "mongodb", "https", "boot"])
def test_a_certificate_alone_opens_nothing(secure: Secure, role: str) -> None:
    """Whoever has no password gets as far as the greeting, from this machine too, which MongoDB would trust."""
    _, daemons, config = secure
    assert config.tls is not None
    directory = config.tls.ca.parent
    tls = pki.issue(directory, "other", role, ["127.0.0.1"])
    for daemon in daemons:
        with store.tls_options(tls) as options:
            client = pymongo.MongoClient(daemon.address, directConnection=True, timeoutMS=5000, **options)
        with client:
            assert client.admin.command("hello")["ok"] == 1
            for database, command in ASKED:
                with pytest.raises(OperationFailure) as refused:
                    client[database].command(dict(command))
                assert refused.value.code == 13, command
        with store.tls_options(tls) as options:
            client = pymongo.MongoClient(
                daemon.address, directConnection=True, timeoutMS=5000, authMechanism="MONGODB-X509", **options
            )
        with client, pytest.raises(PyMongoError):
            client.judge.x.find_one()


def test_the_judicators_user_may_use_its_database_and_nothing_else(secure: Secure) -> None:
    _, _, config = secure
    with store.connect(config, asynchronous=False) as client:
        client.judge.mine.insert_one({"a": 1})
        client.judge.mine.create_index("a")
        client.judge.mine.drop()
        assert client.admin.command("replSetGetStatus")["ok"] == 1
        for database, command in (
            ("other", {"insert": "x", "documents": [{"a": 1}]}),
            ("other", {"find": "x"}),
            ("admin", {"find": "system.users"}),
            ("admin", {"createUser": "me", "pwd": "x", "roles": ["root"]}),
            ("admin", {"updateUser": "judicator", "roles": ["root"]}),
            ("judge", {"createUser": "me", "pwd": "x", "roles": ["readWrite"]}),
            ("admin", {"replSetReconfig": {"_id": "judge", "version": 1000000, "members": []}, "force": True}),
            ("admin", {"replSetStepDown": 60}),
            ("admin", {"shutdown": 1}),
            ("admin", {"setParameter": 1, "logLevel": 1}),
            ("admin", {"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "local"}}),
            ("local", {"delete": "oplog.rs", "deletes": [{"q": {}, "limit": 0}]}),
        ):
            with pytest.raises(OperationFailure) as refused:
                client[database].command(dict(command))
            assert refused.value.code == 13, command


def test_errors_while_the_set_cannot_confirm(secure: Secure) -> None:
    """Two of three mongods stopped: a write is sent but not confirmed; afterwards there is no primary at all."""
    _cluster, daemons, config = secure
    quick = config.model_copy(update={"timeout": 1.0})
    with store.connect(quick, asynchronous=False) as client:
        client.judge.z.insert_one({"_id": 0})
        host, port = client.primary or ("", 0)
        primary = next(daemon for daemon in daemons if daemon.address == f"{host}:{port}")
        secondaries = [daemon.mongod for daemon in daemons if daemon is not primary]
        with frozen(*secondaries):
            with pytest.raises(PyMongoError) as caught:
                client.judge.z.insert_one({"_id": 1})
            assert type(store.translate(caught.value)) is OutcomeUnknownError

        def back() -> bool:
            try:
                client.judge.z.insert_one({"marker": True})
            except PyMongoError:
                return False
            return True

        wait_for(back, what="writes go on")
        assert client.judge.z.count_documents({"_id": 1}) <= 1


@pytest.mark.parametrize("fault", ["missing", "empty", "rubbish"])
def test_a_primary_without_its_password_file_goes_on_serving(tmp_path: Path, etcd_endpoint: str, fault: str) -> None:
    key, password = tmp_path / "key", tmp_path / "password"
    key.write_text("c2VjcmV0IG9mIHRoZSBtZW1iZXJz\n")
    key.chmod(0o600)
    password.write_text("first\n")

    def logs_in(word: str) -> bool:
        (tmp_path / "typed").write_text(word)
        config = MongodbClient(
            seeds=[node.address], username="judicator", password_file=tmp_path / "typed", timeout=3.0
        )
        with store.connect(config, asynchronous=False) as client:
            try:
                client.judge.x.find_one()
            except PyMongoError:
                return False
        return True

    with mongodb_cluster(tmp_path, etcd_endpoint) as cluster:
        (node,) = cluster.start(1, username="judicator", password_file=str(password), key_file=str(key))
        node.wait_log("made the user")
        assert node.stop() == 0
        if fault == "missing":
            password.unlink()
        else:
            password.write_bytes(b"\n" if fault == "empty" else b"\xff\xfe")
        node.start()
        node.wait_log("this pass failed: password_file")
        wait_for(lambda: logs_in("first"), what="a log-in with the password that was set before")
        assert node.process is not None
        assert node.process.poll() is None
        password.write_text("second\n")
        wait_for(lambda: logs_in("second"), what="the new password")


def test_missing_files_are_named(tmp_path: Path) -> None:
    config = MongodbClient(seeds=["127.0.0.1:1"], username="u")
    with pytest.raises(RefusedError, match="username 'u' has no password"):
        store.connect(config, asynchronous=False)
    with pytest.raises(RefusedError, match=r"password_file: .*/none cannot be read: No such file"):
        store.connect(config.model_copy(update={"password_file": tmp_path / "none"}), asynchronous=False)


def test_server_that_is_away_means_nothing_was_done() -> None:
    config = MongodbClient(seeds=["127.0.0.1:1"], timeout=0.3)
    with store.connect(config, asynchronous=False) as client, pytest.raises(PyMongoError) as caught:
        client.judge.x.insert_one({})
    assert type(store.translate(caught.value)) is UnavailableError


def test_defaults_are_set_once(mongod_address: str) -> None:
    host, _, port = mongod_address.rpartition(":")
    with pymongo.MongoClient(host, int(port), directConnection=True, timeoutMS=5000) as client:
        assert store.ensure_defaults(client) is True
        assert store.ensure_defaults(client) is False
    with (
        pymongo.MongoClient("127.0.0.1", 1, directConnection=True, timeoutMS=200) as nobody,
        pytest.raises(UnavailableError),
    ):
        store.ensure_defaults(nobody)
