"""Backups and restores of real clusters: judicators at work, a real mongod, and processes that are killed."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bson
import pytest
import yaml
from bson.raw_bson import RawBSONDocument

from judge.backup import dumping
from judge.backup.__main__ import main
from judge.backup.config import BackupConfig, KeepSection
from judge.backup.keys import OperatorKey
from judge.backup.manifest import Manifest
from judge.backup.repository import Repository
from judge.backup.writing import back_up
from judge.common.errors import JudgeError, RefusedError
from judge.judicator import indexes
from judge.judicator.database import BATCH
from judge.model import messages as m
from judge.model.overview import DrainRequest, ExecutorState
from judge.rpc.client import RpcClient
from tests.support.judicators import Running, World, accepted, imported, source
from tests.support.servers import wait_for

KEY = OperatorKey(bytes(range(32)))
LARGE = os.urandom(5 * 1024**2 + 17)


class Cluster:
    """A database with what a cluster has, and the configs that commands on its hosts read."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world, self.directory = world, directory
        self.name = world.database
        directory.mkdir()
        (directory / "hostkey").write_text(KEY.host_key().text())
        (directory / "key").write_text(KEY.text())
        self.judicator = directory / "judicator.yml"
        self.judicator.write_text(yaml.safe_dump(world.config().model_dump(mode="json")))

    def config(self, **fields: Any) -> BackupConfig:
        return BackupConfig(
            name="j1",
            cluster="judge",
            judicator=self.judicator,
            directory=self.directory / "backups",
            host_key=self.directory / "hostkey",
            **fields,
        )

    def back_up(self, **fields: Any) -> Manifest:
        return back_up(self.config(**fields), pack_bytes=1 << 20)

    def run(self, *arguments: str, failpoint: str = "", key: str = KEY.text()) -> subprocess.CompletedProcess[str]:
        """`python -m judge.backup …` as a host runs it; killed at a failpoint when one is named."""
        env = {**os.environ, **({"JUDGE_FAILPOINT": failpoint} if failpoint else {})}
        command = [sys.executable, "-m", "judge.backup", *arguments]
        return subprocess.run(command, input=key, env=env, capture_output=True, text=True, check=False)

    def restore(
        self, origin: Cluster, *more: str, failpoint: str = "", key: str = KEY.text()
    ) -> subprocess.CompletedProcess[str]:
        place = str(origin.directory / "backups")
        arguments = ["restore", place, "--config", str(self.judicator), "--key", "-", *more]
        return self.run(*arguments, failpoint=failpoint, key=key)


def everything(cluster: Cluster) -> dict[str, list[bytes]]:
    """Every document of every collection, byte for byte; of blobs' pieces what they hold."""
    found: dict[str, list[bytes]] = {}
    db = cluster.world.raw.get_database(cluster.name, codec_options=bson.CodecOptions(document_class=RawBSONDocument))
    for name in dumping.collections_of(cluster.world.raw, cluster.name):
        found[name] = [doc.raw for doc in db[name].find(sort=[("_id", 1)])]
    chunks = cluster.world.db["fs.chunks"].find(sort=[("files_id", 1), ("n", 1)])
    found["chunks"] = [bson.encode({"f": one["files_id"], "n": one["n"], "d": one["data"]}) for one in chunks]
    return {name: held for name, held in found.items() if held}


def judged(world: World, people: RpcClient, count: int) -> list[str]:
    """So many submissions with a verdict, and one large blob among their tests."""
    executor = world.executor(slots=50)
    large = people.put_blob(LARGE)
    ids = [people.call("add", source(f"int x{n};"), m.AddReply).task.id for n in range(count)]
    ids.append(people.call("add", source(tests=[m.Test(name="1", input_blob=large)]), m.AddReply).task.id)
    executor.report()
    executor.report(*[accepted(one) for one in executor.work.values()])
    return ids


@pytest.fixture
def cluster(world: World, tmp_path: Path) -> Cluster:
    """A cluster with a problem, verdicts, and a submission that waits."""
    world.judicator()
    people = world.client(timeout=60)
    imported(people, tests=3)
    judged(world, people, 30)
    world.executor("e5").report()
    people.call("drain", DrainRequest(executor="e5", drain=True, reason="its fan"), ExecutorState)
    people.call("add", source(language="java"), m.AddReply)
    return Cluster(world, tmp_path / "origin")


@pytest.fixture
def empty(tmp_path: Path, etcd_endpoint: str, mongod_address: str) -> Any:
    made = World(tmp_path / "empty", etcd_endpoint, mongod_address)
    yield Cluster(made, tmp_path / "other")
    made.close()


def stopped(cluster: Cluster) -> dict[str, list[bytes]]:
    """What is to come back of a cluster in which nothing changes any more: all but executors, unless they drain."""
    for one in cluster.world.judicators:
        one.stop()
    found = everything(cluster)
    drained = [one for one in found.pop("executors", []) if bson.decode(one)["drain"]]
    return found | ({"executors": drained} if drained else {})


def test_a_cluster_comes_back_byte_for_byte_elsewhere(
    cluster: Cluster, empty: Cluster, figure: Callable[[str], None]
) -> None:
    before = stopped(cluster)
    made = cluster.back_up()
    assert (made.counts["tasks"], made.counts["problems"]) == (32, 1)
    assert (made.counts["executors"], len(before["executors"])) == (2, 1), "one drains"
    done = empty.restore(cluster)
    assert done.returncode == 0, done.stderr
    assert everything(empty) == before
    # Its indexes are there before a judicator starts, but for those by which MongoDB removes old documents.
    for name, models in indexes.INDEXES.items():
        lasting = {one.document["name"] for one in models if "expireAfterSeconds" not in one.document}
        assert set(empty.world.db[name].index_information()) - {"_id_"} == lasting
    # And it is a cluster: verdicts are read, the blob is whole, what waited is handed out.
    empty.world.judicator()
    people, executor = empty.world.client(timeout=60), empty.world.executor("e9", slots=2, languages=("java",))
    tasks = people.call("search", m.SearchRequest(limit=100), m.SearchReply).tasks
    assert [one.verdict for one in tasks].count(m.Verdict.AC) == 31
    assert [one.submission.language for one in executor.report().add] == ["java"]
    figure(f"backup of {made.blobs} blobs and {sum(made.counts.values())} documents: {made.added} bytes")


def test_what_comes_while_a_backup_is_made_is_in_this_one_or_the_next(
    cluster: Cluster, empty: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = cluster.world.client(timeout=60)
    ids: list[str] = []
    hold: list[bool] = []

    def more(*_: object) -> None:
        # After the documents were read, and before their late blobs are: what comes now belongs to the next backup.
        if not hold:
            hold.append(True)
            blob = people.put_blob(b"late" * 5000)
            ids.append(people.call("add", source(tests=[m.Test(name="1", input_blob=blob)]), m.AddReply).task.id)

    with monkeypatch.context() as patch:
        patch.setattr(dumping.failpoint, "hit", more)
        first = cluster.back_up()
    second = cluster.back_up()
    assert ids and first.counts["tasks"] in {32, 33}
    assert second.counts["tasks"] == 33
    assert empty.restore(cluster).returncode == 0
    assert empty.world.db.tasks.count_documents({}) == 33


def test_a_large_blob_that_comes_late_is_restored(
    cluster: Cluster, empty: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A blob of several pieces, uploaded after the blobs were read and before the snapshot of the documents."""
    people, read = cluster.world.client(timeout=60), dumping._Dump._moment
    content = bytes(range(256)) * 20_480

    def late(self: dumping._Dump, damaged: set[str]) -> dumping.Dumped:
        blob = people.put_blob(content)
        people.call("add", source(tests=[m.Test(name="1", input_blob=blob)]), m.AddReply)
        return read(self, damaged)

    with monkeypatch.context() as patch:
        patch.setattr(dumping._Dump, "_moment", late)
        cluster.back_up()
    assert empty.restore(cluster).returncode == 0


def test_the_second_backup_is_cheap_and_old_ones_go(cluster: Cluster) -> None:
    first = cluster.back_up()
    second = cluster.back_up()
    assert second.added < first.added / 20
    third = cluster.back_up(keep=KeepSection(last=1, daily=0, weekly=0, monthly=0))
    found = Repository(cluster.directory / "backups")
    assert found.ids() == [third.id]
    found.check(third)
    done = cluster.run("check", str(found.root), "--key", "-")
    assert done.returncode == 0 and "pieces open" in done.stdout


def test_a_cluster_with_data_is_refused_and_left_alone(cluster: Cluster) -> None:
    cluster.back_up()
    before = everything(cluster)["tasks"]
    for more in (("--plan",), ()):
        done = cluster.restore(cluster, *more)
        assert done.returncode == 3 and done.stdout == ""
        assert (
            done.stderr.startswith("this cluster is not empty (1 manifests, 1 problems, 32 tasks)")
            and "\n" not in done.stderr[:-1]
        )
    assert everything(cluster)["tasks"] == before


def test_what_verify_hands_in_does_not_make_a_cluster_full(cluster: Cluster, empty: Cluster) -> None:
    made = cluster.back_up()
    empty.world.judicator()
    people = empty.world.client(timeout=60)
    people.call("add", source(user="admin", idempotency_key="verify.yml/g1/1"), m.AddReply)
    stopped(empty)
    done = empty.restore(cluster, "--plan")
    assert done.returncode == 0 and done.stdout.startswith(f"restores {made.id}: cluster 'judge' as of 20")
    assert empty.restore(cluster).returncode == 0
    assert empty.world.db.tasks.count_documents({}) == 32


def test_a_restore_that_is_killed_is_gone_on_with(
    cluster: Cluster, empty: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    before = stopped(cluster)
    made = cluster.back_up()
    for place in ("restore.begun", "restore.piece", "restore.blob", "restore.compared"):
        assert empty.restore(cluster, "--id", made.id, failpoint=place).returncode == -signal.SIGKILL
    later = cluster.back_up()
    refused = empty.restore(cluster, "--id", later.id)
    assert refused.returncode == 3 and f"a restore of backup {made.id} was begun" in refused.stderr
    # A host was started anew meanwhile, and boot knows of no hold any more: its judicator leaves the data alone.
    with pytest.raises(RefusedError, match=f"backup {made.id} is being restored; back up when that is over"):
        empty.back_up()
    early = Running(empty.world.config(), BATCH)
    wait_for(lambda: f"backup {made.id} is being restored" in caplog.text, what="the judicator's word")
    assert not early.judicator.dispatcher.ready and not early.judicator.lead.leading
    early.stop()
    done = empty.restore(cluster, "--id", made.id)
    assert done.returncode == 0 and done.stdout.startswith("goes on with")
    assert everything(empty) == before
    # Judicators run again, and the playbook is cut off: the same call is no second restore.
    empty.world.judicator()
    people = empty.world.client(timeout=60)
    people.call("add", source(), m.AddReply)
    assert empty.restore(cluster, "--id", made.id).returncode == 0
    assert empty.world.db.tasks.count_documents({}) == 33
    assert empty.restore(cluster, "--id", made.id, "--finish").returncode == 0
    done = empty.restore(cluster, "--id", made.id)
    assert (done.returncode, done.stdout.partition(" 20")[0]) == (0, "has restored already")
    assert empty.world.db.tasks.count_documents({}) == 33
    assert "33 tasks), and a restore would mix" in empty.restore(cluster, "--id", later.id).stderr


def test_a_backup_that_cannot_be_used_leaves_an_empty_cluster_empty(cluster: Cluster, empty: Cluster) -> None:
    made = cluster.back_up()
    found = Repository(cluster.directory / "backups")
    packs = sorted(found.packs.glob("*/*"), key=lambda path: path.stat().st_size)
    whole = {path: path.read_bytes() for path in [*packs, found.backups / f"{made.id}.json"]}
    manifest, largest = found.backups / f"{made.id}.json", packs[-1]
    middle = len(whole[largest]) // 2
    altered = whole[largest][:middle] + bytes([whole[largest][middle] ^ 1]) + whole[largest][middle + 1 :]
    later = dataclasses.replace(made, versions={**made.versions, "judge": "99.0.0"}).signed(KEY.host_key())
    poorer = dataclasses.replace(made, packs={largest.name: 1}).signed(KEY.host_key())
    for path, content, told in (
        (largest, whole[largest][:middle], "is damaged; copy it again"),
        (largest, altered, "is damaged; copy it again"),
        (largest, b"", "is damaged; copy it again"),
        (largest, None, "is missing, and backup"),
        (manifest, whole[manifest].replace(b'"counts"', b'"Counts"'), "is not the manifest of a backup"),
        (manifest, whole[manifest].replace(b'"j1"', b'"j2"'), "or has been changed; nothing of it is used"),
        (manifest, whole[manifest][:-40], "is not the manifest of a backup"),
        (manifest, b"\xff\xfe" * 99, "is not the manifest of a backup"),
        (manifest, later.text().encode(), "was made by Judge 99.0.0"),
        (manifest, poorer.text().encode(), "is in no pack of this backup"),
    ):
        path.unlink() if content is None else path.write_bytes(content)
        done = empty.restore(cluster)
        assert done.returncode in {1, 3} and done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
        assert told in done.stderr
        assert empty.world.db.list_collection_names() == []
        path.write_bytes(whole[path])
    for key, told in ((OperatorKey.new().text(), "was not written with this key"), ("x", "is not the operator's key")):
        done = empty.restore(cluster, key=key)
        assert done.returncode in {1, 2} and told in done.stderr and done.stderr.count("\n") == 1
    assert empty.world.db.list_collection_names() == []
    assert empty.restore(cluster).returncode == 0


def test_every_collection_is_backed_up_but_for_sessions(cluster: Cluster, empty: Cluster) -> None:
    """One that this release does not know is part of a backup, and somebody's data."""
    db = cluster.world.db
    db.sessions.insert_one({"_id": "s", "user": "u"})
    db.of_a_later_release.insert_one({"_id": "of_a_later_release", "x": [1, 2.5, None]})
    made = cluster.back_up()
    assert made.counts["of_a_later_release"] == 1 and "sessions" not in made.counts
    assert not {"fs.files", "audit", "meta", "usage"} - made.counts.keys()
    assert empty.restore(cluster).returncode == 0
    assert empty.world.db.of_a_later_release.find_one() == {"_id": "of_a_later_release", "x": [1, 2.5, None]}
    empty.world.raw.drop_database(empty.name)
    empty.world.db.of_a_later_release.insert_one({})
    assert "this cluster is not empty (1 of_a_later_release)" in empty.restore(cluster).stderr


def test_a_disk_without_room_is_named_before(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "mongodb.yml"
    etcd = {"endpoints": ["127.0.0.1:1"]}
    fields = {"name": "j1", "data_dir": str(tmp_path), "address": "127.0.0.1:1", "etcd": etcd}
    config.write_text(yaml.safe_dump(fields))
    assert main(["room", "1", "--config", str(config)]) == 0
    assert main(["room", str(1 << 60), "--config", str(config)]) == 3
    assert f"{tmp_path} has " in (told := capsys.readouterr().err) and told.count("\n") == 1


def test_a_backup_that_is_killed_leaves_none_and_the_next_is_whole(cluster: Cluster, empty: Cluster) -> None:
    before = stopped(cluster)
    config = cluster.directory / "backup.yml"
    config.write_text(yaml.safe_dump(cluster.config().model_dump(mode="json")))
    for place in ("backup.blobs", "backup.documents", "file.written"):
        assert cluster.run("write", "--config", str(config), failpoint=place).returncode == -signal.SIGKILL
        assert Repository(cluster.directory / "backups").ids() == []
    done = cluster.run("write", "--config", str(config))
    assert done.returncode == 0, done.stderr
    assert empty.restore(cluster).returncode == 0
    assert everything(empty) == before


def test_a_damaged_blob_stops_nothing_but_is_told(cluster: Cluster) -> None:
    file = cluster.world.db["fs.files"].find_one({"length": {"$lt": 100}})
    assert file
    cluster.world.db["fs.chunks"].update_one({"files_id": file["_id"]}, {"$set": {"data": b"other"}})
    with pytest.raises(JudgeError, match=f"1 blobs that are damaged in the database itself, {file['filename']}"):
        cluster.back_up()
    made = Repository(cluster.directory / "backups").manifest("latest", KEY.host_key())
    assert made.damaged == [file["filename"]]


def test_a_blob_that_vanishes_in_between_takes_another_moment(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removed by a person right after the documents were read: the backup is of a later moment, and whole."""
    db = cluster.world.db
    passed: list[str] = []

    def vanish(name: str) -> None:
        passed.append(name)
        if name == "backup.blobs":
            people = cluster.world.client(timeout=60)
            people.put_blob(b"short-lived")
        if passed.count("backup.documents") == 1 and name == "backup.documents":
            file = db["fs.files"].find_one({"length": len(b"short-lived")})
            db["fs.files"].delete_one({"_id": file["_id"]})
            db["fs.chunks"].delete_many({"files_id": file["_id"]})

    monkeypatch.setattr(dumping.failpoint, "hit", vanish)
    made = cluster.back_up()
    assert passed.count("backup.documents") == 2
    assert made.damaged == []


def test_without_a_database_one_sentence_is_said(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = yaml.safe_load(cluster.judicator.read_text())
    config["mongodb"] |= {"seeds": ["127.0.0.1:1"]}
    cluster.judicator.write_text(yaml.safe_dump(config))
    backup = cluster.directory / "backup.yml"
    backup.write_text(yaml.safe_dump(cluster.config().model_dump(mode="json")))
    monkeypatch.setattr(dumping, "PATIENCE", 0.5)
    assert main(["write", "--config", str(backup)]) == 1
    told = capsys.readouterr().err
    assert told.startswith("MongoDB does not serve this call now") and told.count("\n") == 1
