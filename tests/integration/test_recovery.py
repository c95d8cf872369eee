"""One judicator is left of three: real etcd members and mongods lose their disks, and the last one goes on."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from judge.common.errors import RefusedError
from judge.deploy.recovery import alone
from judge.deploy.recovery.__main__ import main
from judge.etcd.discovery import host_port
from tests.support.etcd import Host as EtcdHost
from tests.support.etcd import cluster as etcd_cluster
from tests.support.mongodb import Cluster, Daemon
from tests.support.servers import wait_for


@dataclass
class Judicator:
    """A host with a member of etcd and one of the replica set, and their configs as they lie in /etc/judge."""

    etcd: EtcdHost
    mongodb: Daemon
    etc: Path

    def write(self) -> None:
        self.etc.mkdir(exist_ok=True)
        (self.etc / "etcd.yml").write_text(yaml.safe_dump(self.etcd.settings))
        (self.etc / "mongodb.yml").write_text(yaml.safe_dump(self.mongodb.settings))

    def lose_disk(self) -> None:
        self.etcd.process.kill()
        self.etcd.process.wait()
        self.mongodb.kill()
        shutil.rmtree(self.etcd.data)
        shutil.rmtree(self.mongodb.data)

    def look(self, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
        assert main(["look", "--etc", str(self.etc)]) == 0
        summary: dict[str, Any] = json.loads(capsys.readouterr().out)
        return summary


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Judicator]]:
    with etcd_cluster(tmp_path / "etcd", 3) as hosts:
        replica_set = Cluster(tmp_path / "mongodb", host_port(hosts[0].client))
        judicators = []
        for host in hosts:
            endpoints = [host_port(host.client), *(host_port(peer.client) for peer in hosts if peer is not host)]
            daemon = replica_set.daemon(host.name, etcd={**replica_set.etcd_config, "endpoints": endpoints})
            judicators.append(Judicator(host, daemon, tmp_path / host.name))
            judicators[-1].write()
            daemon.start()
        try:
            replica_set.wait_votes([1, 1, 1])
            with replica_set.client([judicator.mongodb for judicator in judicators]) as client:
                client.judge.tasks.insert_many([{"_id": number} for number in range(40)])
            yield judicators
        finally:
            replica_set.close()


def votes(judicator: Judicator) -> list[int]:
    hello = judicator.mongodb.ask("hello") or {}
    return sorted(member["votes"] for member in judicator.mongodb.config()["members"]) if hello.get("primary") else []


def test_one_of_three_judicators_goes_on_with_all_data(
    three: list[Judicator], capsys: pytest.CaptureFixture[str]
) -> None:
    last, *removed = three
    summary = last.look(capsys)
    assert (summary["quorum"], summary["primary"], summary["submissions"]) == (True, True, 40)
    # Submissions that everybody has acknowledged are on the last one, too.
    wait_for(lambda: last.look(capsys)["submissions"] == 40, what="40 submissions")
    for judicator in removed:
        judicator.lose_disk()
    wait_for(lambda: not last.look(capsys)["primary"], what="no primary any more")
    summary = last.look(capsys)
    assert (summary["etcd"], summary["mongodb"], summary["quorum"], summary["primary"]) == (True, True, False, False)
    assert summary["newest"].startswith("20") and "40 submissions, the last write at 20" in summary["sentence"]
    assert removed[0].look(capsys)["sentence"] == f"{removed[0].etcd.name}: has no data"

    last.etcd.stop()
    # As if the first one had been cut off after it: the second finds what the first has made.
    for _ in range(2):
        assert main(["etcd", "--etc", str(last.etc)]) == 0
        assert f"'{last.etcd.name}' is the only one of 1" in capsys.readouterr().out
    assert len(list(last.etcd.data.glob(f"{alone.ASIDE}-*/member"))) == 2
    last.etcd.configure("join", [host.etcd for host in three]).start()
    last.etcd.wait_voters(last.etcd)
    arguments = [argument for peer in removed for argument in ("--gone", peer.etcd.name)]
    for _ in range(2):
        assert main(["mongodb", "--etc", str(last.etc), *arguments]) == 0, capsys.readouterr().err
        assert f"{last.mongodb.address} is the primary of replica set" in capsys.readouterr().out
    wait_for(lambda: votes(last) == [1], what="one voter")
    assert last.look(capsys)["submissions"] == 40

    for judicator in removed:
        judicator.etcd.configure("join", [host.etcd for host in three]).start()
        judicator.mongodb.start()
    last.etcd.wait_voters(*(host.etcd for host in three), timeout=60)
    wait_for(lambda: votes(last) == [1, 1, 1], what="three voters again")
    assert all(host.look(capsys)["submissions"] == 40 for host in three)


def test_a_host_without_data_cannot_form_a_cluster(three: list[Judicator], capsys: pytest.CaptureFixture[str]) -> None:
    judicator = three[0]
    # Its own server still runs: its ports are taken.
    judicator.etcd.settings["stop_grace"] = 0.5
    judicator.write()
    assert main(["etcd", "--etc", str(judicator.etc)]) == 3
    assert "cannot be listened on" in capsys.readouterr().err
    judicator.lose_disk()
    assert main(["etcd", "--etc", str(judicator.etc)]) == 3
    assert "has no data of etcd to begin with; name another judicator" in capsys.readouterr().err


def test_the_forced_configuration_has_this_member_alone() -> None:
    document = {
        "_id": "judge",
        "version": 7,
        "members": [
            {"_id": 0, "host": "10.0.0.1:27017", "votes": 1, "priority": 1},
            {"_id": 4, "host": "10.0.0.2:27017", "votes": 0, "priority": 0, "tags": {"incarnation": "x"}},
        ],
        "settings": {"replicaSetId": "r"},
    }
    document_ = alone.forced(document, "10.0.0.2:27017")
    assert document_["members"] == [
        {"_id": 4, "host": "10.0.0.2:27017", "votes": 1, "priority": 1, "tags": {"incarnation": "x"}}
    ]
    assert (document_["version"], document_["settings"]) == (8, {"replicaSetId": "r"})
    with pytest.raises(RefusedError, match="does not list"):
        alone.forced(document, "10.0.0.3:27017")
