"""One judicator is left of three: real etcd members and mongods lose their disks, and the last one goes on."""

from __future__ import annotations

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
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Judicator]]:
    with etcd_cluster(tmp_path / "etcd", 3) as hosts:
        replica_set = Cluster(tmp_path / "mongodb", host_port(hosts[0].client))
        made = []
        for host in hosts:
            endpoints = [host_port(host.client), *(host_port(one.client) for one in hosts if one is not host)]
            daemon = replica_set.daemon(host.name, etcd={**replica_set.etcd_config, "endpoints": endpoints})
            made.append(Judicator(host, daemon, tmp_path / host.name))
            made[-1].write()
            daemon.start()
        try:
            replica_set.wait_votes([1, 1, 1])
            with replica_set.client([one.mongodb for one in made]) as client:
                client.judge.tasks.insert_many([{"_id": number} for number in range(40)])
            yield made
        finally:
            replica_set.close()


def votes(one: Judicator) -> list[int]:
    hello = one.mongodb.ask("hello") or {}
    return sorted(member["votes"] for member in one.mongodb.config()["members"]) if hello.get("primary") else []


def test_one_of_three_goes_on_with_all_it_has(three: list[Judicator], capsys: pytest.CaptureFixture[str]) -> None:
    last, *others = three
    found = last.look(capsys)
    assert (found["quorum"], found["primary"], found["submissions"]) == (True, True, 40)
    # Submissions that everybody has acknowledged are on the last one, too.
    wait_for(lambda: last.look(capsys)["submissions"] == 40, what="40 submissions")
    for one in others:
        one.lose_disk()
    wait_for(lambda: not last.look(capsys)["primary"], what="no primary any more")
    found = last.look(capsys)
    assert (found["etcd"], found["mongodb"], found["quorum"], found["primary"]) == (True, True, False, False)
    assert found["newest"].startswith("20") and "40 submissions, the last write at 20" in found["sentence"]
    assert others[0].look(capsys)["sentence"] == f"{others[0].etcd.name}: has no data"

    last.etcd.stop()
    # As if the first one had been cut off after it: the second finds what the first has made.
    for _ in range(2):
        assert main(["etcd", "--etc", str(last.etc)]) == 0
        assert f"'{last.etcd.name}' is the only one of 1" in capsys.readouterr().out
    assert len(list(last.etcd.data.glob(f"{alone.ASIDE}-*/member"))) == 2
    last.etcd.configure("join", [one.etcd for one in three]).start()
    last.etcd.wait_voters(last.etcd)
    gone = [argument for one in others for argument in ("--gone", one.etcd.name)]
    for _ in range(2):
        assert main(["mongodb", "--etc", str(last.etc), *gone]) == 0, capsys.readouterr().err
        assert f"{last.mongodb.address} is the primary of replica set" in capsys.readouterr().out
    wait_for(lambda: votes(last) == [1], what="one voter")
    assert last.look(capsys)["submissions"] == 40

    for one in others:
        one.etcd.configure("join", [host.etcd for host in three]).start()
        one.mongodb.start()
    last.etcd.wait_voters(*(one.etcd for one in three), timeout=60)
    wait_for(lambda: votes(last) == [1, 1, 1], what="three voters again")
    assert all(one.look(capsys)["submissions"] == 40 for one in three)


def test_nothing_is_made_of_nothing(three: list[Judicator], capsys: pytest.CaptureFixture[str]) -> None:
    one = three[0]
    # Its own server still runs: its ports are taken.
    one.etcd.settings["stop_grace"] = 0.5
    one.write()
    assert main(["etcd", "--etc", str(one.etc)]) == 3
    assert "cannot be listened on" in capsys.readouterr().err
    one.lose_disk()
    assert main(["etcd", "--etc", str(one.etc)]) == 3
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
    made = alone.forced(document, "10.0.0.2:27017")
    assert made["members"] == [
        {"_id": 4, "host": "10.0.0.2:27017", "votes": 1, "priority": 1, "tags": {"incarnation": "x"}}
    ]
    assert (made["version"], made["settings"]) == (8, {"replicaSetId": "r"})
    with pytest.raises(RefusedError, match="does not list"):
        alone.forced(document, "10.0.0.3:27017")
