"""Everything for which the MongoDB daemon refuses to run: exit code 3, one sentence, and nothing changed."""

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mongodb import Cluster, Daemon, mongodb_cluster
from tests.support.servers import port_open, wait_for


@pytest.fixture
def cluster(tmp_path: Path, etcd_endpoint: str) -> Iterator[Cluster]:
    with mongodb_cluster(tmp_path, etcd_endpoint) as cluster:
        yield cluster


def refused(daemon: Daemon, sentence: str) -> None:
    assert daemon.ended() == 3, daemon.log
    last = daemon.log.strip().splitlines()[-1]
    assert sentence in last and "ERROR" in last, daemon.log
    assert "Traceback" not in daemon.log
    wait_for(lambda: not port_open(daemon.port), what="no mongod is left")


def program(directory: Path, text: str) -> str:
    path = directory / "mongod"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_program(cluster: Cluster, tmp_path: Path) -> None:
    daemon = cluster.daemon("m0", binary="mongod-of-nobody").start()
    refused(daemon, "program 'mongod-of-nobody' was not found; install it or set its full path under 'binary'")
    refused(daemon.start(binary=program(tmp_path, "echo db version v4.4.29")), "4.4.29, which is refused; install 5.0")
    refused(daemon.start(binary=program(tmp_path, "kill -ILL $$")), "need a CPU with AVX")
    assert not daemon.data.exists()


def test_address(cluster: Cluster) -> None:
    daemon = cluster.daemon("m0")
    with socket.create_server(("127.0.0.1", daemon.port)):
        daemon.start()
        assert daemon.ended() == 3
    assert f"127.0.0.1:{daemon.port} is in use by another program" in daemon.log
    refused(daemon.start(listen=["192.0.2.1"]), f"192.0.2.1:{daemon.port} is no address of this machine")
    refused(daemon.start(listen=["no-such-host.invalid"]), "is no address of this machine")


def test_directory_of_something_else(cluster: Cluster) -> None:
    daemon = cluster.daemon("m0")
    daemon.data.mkdir()
    (daemon.data / "thesis.txt").write_text("mine")
    refused(daemon.start(), f"data_dir {daemon.data} holds 'thesis.txt' and no MongoDB data")
    assert [path.name for path in daemon.data.iterdir()] == ["thesis.txt"]


def test_directory_of_another_cluster(cluster: Cluster, tmp_path: Path, etcd_endpoint: str) -> None:
    member = cluster.daemon("m0").start()
    member.wait_log("primary:")
    with mongodb_cluster(tmp_path / "theirs", etcd_endpoint) as stranger_cluster:
        theirs = stranger_cluster.daemon("m0").start()
        theirs.wait_log("primary:")
        assert theirs.stop() == 0
        # Known by its marker: mongod is not even started.
        starts = theirs.log.count("mongodb started")
        theirs.start(etcd=cluster.etcd_config, name="m1")
        refused(theirs, f"data_dir {theirs.data} belongs to replica set")
        assert theirs.log.count("mongodb started") == starts
        # Without marker it shows once mongod serves.
        (theirs.data / "judge-member.json").unlink()
        refused(theirs.start(), f"data_dir {theirs.data} belongs to replica set")
        assert theirs.log.count("mongodb started") == starts + 1
        assert set(cluster.members()) == {member.address}
        assert [entry.key for entry in cluster.etcd.list("mongodb/member/")] == ["mongodb/member/m0"]
        # An etcd that knows of no replica set does not adopt it either.
        third = {**cluster.etcd_config, "prefix": "/nothing-here/"}
        refused(theirs.start(etcd=third), "which this cluster's etcd does not know")


def test_data_of_no_replica_set(cluster: Cluster, tmp_path: Path) -> None:
    """A mongod's data that no set knows would be deleted by joining one, so it is not touched."""
    daemon = cluster.daemon("m0").start(failpoint="mongodb.claimed")
    assert daemon.ended() == -9
    wait_for(lambda: not port_open(daemon.port), what="its mongod is gone")
    (daemon.data / "judge-member.json").unlink()
    refused(daemon.start(), "holds data of no replica set, which joining would delete")


def test_directory_in_use(cluster: Cluster) -> None:
    first = cluster.daemon("m0").start()
    first.wait_log("primary:")
    second = cluster.daemon("m1", data_dir=str(first.data)).start()
    refused(second, f"data_dir {first.data} is in use by another mongod")
    assert first.ask("hello")


def test_address_that_moved_or_is_taken(cluster: Cluster) -> None:
    daemon = cluster.daemon("m0").start()
    daemon.wait_log("primary:")
    duplicate = cluster.daemon("m1", address=daemon.address, listen=["127.0.0.2"])
    duplicate.start()
    assert duplicate.ended() == 3
    assert "nobody else holds replica set" in duplicate.log
    assert daemon.stop() == 0
    second = cluster.daemon("m2")
    shutil.copytree(daemon.data, second.data)
    refused(second.start(), f"is the only member's, at {daemon.address}; set 'address' back from {second.address}")
    refused(daemon.start(name="m9"), f"address {daemon.address} is registered by 'm0'")


def test_certificates_and_keys(cluster: Cluster, tmp_path: Path) -> None:
    daemon = cluster.daemon("m0", key_file=str(tmp_path / "none")).start()
    refused(daemon, f"key_file: {tmp_path / 'none'} cannot be read: No such file or directory")
    daemon.settings.pop("key_file")
    refused(daemon.start(username="u", password_file=str(tmp_path / "p")), "username 'u' is set without 'key_file'")
