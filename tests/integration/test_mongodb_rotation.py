"""Passwords and key files of a running replica set take each other's place while somebody writes all the time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymongo.errors import PyMongoError

from judge.config import MongodbClient, MongodbConfig
from judge.mongodb import features, replica, store, users
from plugins.action.judge_rotation import STAGES, on_hosts
from tests.support.mongodb import Cluster, Daemon, secure_cluster
from tests.support.servers import wait_for

OLD_KEY, NEW_KEY = "b2xkIGtleSBvZiB0aGUgbWVtYmVycw==", "bmV3IGtleSBvZiB0aGUgbWVtYmVycw=="
OLD, NEW = "of the judicators, with spaces", "judicator.a1b2c3 another-one"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, etcd_endpoint: str) -> Iterator[tuple[Cluster, Path]]:
    home = tmp_path_factory.mktemp("rotation")
    with secure_cluster(home, etcd_endpoint, OLD_KEY, OLD) as cluster:
        yield cluster, home


def put(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)


def client_config(cluster: Cluster, home: Path, text: str) -> MongodbClient:
    """A judicator's, with a password file of its own."""
    put(home / "judicator.password", text)
    settings = cluster.daemons[0].settings
    return MongodbClient(
        seeds=[daemon.address for daemon in cluster.daemons], username="judicator", tls=settings["tls"],
        password_file=home / "judicator.password", timeout=20.0,
    )  # fmt: skip


def member_config(cluster: Cluster, number: int = 0) -> MongodbConfig:
    return MongodbConfig(**cluster.daemons[number].settings)


def healthy(cluster: Cluster) -> bool:
    """Whether the primary sees all three serve."""
    with replica.of_the_primary(member_config(cluster)) as client:
        try:
            members = client.admin.command("replSetGetStatus")["members"]
        except PyMongoError:
            return False
    return sum(member["stateStr"] in {"PRIMARY", "SECONDARY"} for member in members) == 3


def restart(daemon: Daemon) -> None:
    """Until there is another mongod: the primary may still think that the old one serves."""
    before = daemon.mongod
    assert daemon.stop() == 0
    daemon.start()
    wait_for(lambda: daemon.mongod != before, what=f"another mongod of {daemon.name}")


class Writer:
    """Writes a number after the other, each repeated until it is acknowledged, on one connection for all the time."""

    def __init__(self, config: MongodbClient) -> None:
        self.config = config
        self.writes = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with store.connect(self.config, asynchronous=False) as client:
            while not self.over.wait(0.02):
                try:
                    client.judge.rotation.update_one({"_id": self.writes}, {"$set": {"seen": True}}, upsert=True)
                except PyMongoError:
                    continue
                self.writes += 1

    def __enter__(self) -> Writer:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    def goes_on(self) -> None:
        writes_before = self.writes
        wait_for(lambda: self.writes > writes_before + 5, what="more writes")


def test_a_key_file_takes_the_place_of_another_one_member_by_member(secure: tuple[Cluster, Path]) -> None:
    cluster, home = secure
    with Writer(client_config(cluster, home, OLD)) as writer:
        for stage in STAGES:
            (text,) = on_hosts("mongodb.keyfile", stage, OLD_KEY, NEW_KEY).values()
            for daemon in cluster.daemons:  # each has its own file, as each host has
                own = daemon.home / "keyfile"
                put(own, text)
                daemon.settings["key_file"] = str(own)
                restart(daemon)
                wait_for(lambda: healthy(cluster), what=f"all members after {daemon.name} in stage {stage}")
            writer.goes_on()
        put(home / "old.key", OLD_KEY)
        refused = member_config(cluster).model_copy(update={"key_file": home / "old.key"})
        with replica.of_the_primary(refused) as client, pytest.raises(PyMongoError, match="Authentication failed"):
            client.admin.command("replSetGetStatus")
    with store.connect(client_config(cluster, home, OLD), asynchronous=False) as client:
        assert client.judge.rotation.count_documents({}) >= writer.writes > 0


def test_a_password_takes_the_place_of_another_one_without_a_restart_of_mongod(secure: tuple[Cluster, Path]) -> None:
    cluster, home = secure
    before = [daemon.mongod for daemon in cluster.daemons]

    def users_now() -> list[str]:
        with replica.of_the_primary(member_config(cluster)) as client:
            return sorted(user["user"] for user in client.admin.command("usersInfo", 1)["users"])

    def settle(stage: int) -> None:
        put(home / "mongodb.password", on_hosts("mongodb.password", stage, OLD, NEW)["mongodb.password"])
        with replica.of_the_primary(member_config(cluster, 1)) as client:
            users.ensure(client, member_config(cluster, 1))
            if stage == max(STAGES):
                assert users.remove_left_over(client, member_config(cluster, 1)) == ["judicator"]

    old, new = (on_hosts("mongodb.password", stage, OLD, NEW)["judicator.password"] for stage in (1, 2))
    with Writer(client_config(cluster, home, old)) as first:
        settle(1)
        assert users_now() == ["judicator", "judicator.a1b2c3"]
        first.goes_on()
        # The next primary gives both their passwords again, without being restarted for the file.
        with replica.of_the_primary(member_config(cluster)) as client:
            client.admin.command("dropUser", "judicator.a1b2c3")
            with contextlib.suppress(PyMongoError):  # it may close this very connection
                client.admin.command("replSetStepDown", 10)
        wait_for(lambda: users_now() == ["judicator", "judicator.a1b2c3"], what="the next primary's users")
        first.goes_on()
        with Writer(client_config(cluster, home, new)) as second:
            second.goes_on()
            first.goes_on()
    with Writer(client_config(cluster, home, new)) as third:
        settle(3)
        third.goes_on()
    assert users_now() == ["judicator.a1b2c3"]
    with (
        store.connect(client_config(cluster, home, OLD), asynchronous=False) as client,
        pytest.raises(PyMongoError, match="Authentication failed"),
    ):
        client.judge.rotation.find_one()
    assert [daemon.mongod for daemon in cluster.daemons] == before


def test_features_are_raised_once_all_members_have_the_version(secure: tuple[Cluster, Path]) -> None:
    """The real server goes back to the features of the version before, as after an upgrade of its program."""
    cluster, _ = secure
    config = member_config(cluster)
    with replica.of_the_primary(config, 30.0) as client:
        now = features.observe(client, config)
        assert now.wanted == now.now and not now.may_be_raised and now.sentence == ""
        before = f"{features.number(now.now)[0] - 1}.0"
        features.raise_to(client, before)
        observed = features.observe(client, config)
        assert (observed.now, observed.wanted) == (before, now.now) and observed.may_be_raised
        assert "judge_upgrade_features=true" in observed.sentence
        features.raise_to(client, observed.wanted)
        assert features.observe(client, config).sentence == ""
