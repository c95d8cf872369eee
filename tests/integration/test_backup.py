"""Backups and restores of real clusters: judicators at work, a real mongod, and processes that are killed."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
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
from judge.common.pki.refused import DOCUMENT
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
        self, origin: Cluster, *options: str, failpoint: str = "", key: str = KEY.text()
    ) -> subprocess.CompletedProcess[str]:
        place = str(origin.directory / "backups")
        arguments = ["restore", place, "--config", str(self.judicator), "--key", "-", *options]
        return self.run(*arguments, failpoint=failpoint, key=key)


def everything(cluster: Cluster) -> dict[str, list[bytes]]:
    """Every document of every collection, byte for byte; of blobs' pieces what they hold."""
    documents: dict[str, list[bytes]] = {}
    db = cluster.world.raw.get_database(cluster.name, codec_options=bson.CodecOptions(document_class=RawBSONDocument))
    for name in dumping.collections_of(cluster.world.raw, cluster.name):
        documents[name] = [doc.raw for doc in db[name].find(sort=[("_id", 1)])]
    chunks = cluster.world.db["fs.chunks"].find(sort=[("files_id", 1), ("n", 1)])
    documents["chunks"] = [
        bson.encode({"f": chunk["files_id"], "n": chunk["n"], "d": chunk["data"]}) for chunk in chunks
    ]
    return {name: docs for name, docs in documents.items() if docs}


def judged(world: World, people: RpcClient, count: int) -> list[str]:
    """So many submissions with a verdict, and one large blob among their tests."""
    executor = world.executor(slots=50)
    large = people.put_blob(LARGE)
    ids = [people.call("add", source(f"int x{n};"), m.AddReply).task.id for n in range(count)]
    ids.append(people.call("add", source(tests=[m.Test(name="1", input_blob=large)]), m.AddReply).task.id)
    executor.report()
    executor.report(*map(accepted, list(executor.work.values())))
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
    world = World(tmp_path / "empty", etcd_endpoint, mongod_address)
    yield Cluster(world, tmp_path / "other")
    world.close()


def stopped(cluster: Cluster) -> dict[str, list[bytes]]:
    """What is to come back of a cluster in which nothing changes any more: all but executors, unless they drain."""
    for judicator in cluster.world.judicators:
        judicator.stop()
    documents = everything(cluster)
    drained = [raw for raw in documents.pop("executors", []) if bson.decode(raw)["drain"]]
    return documents | ({"executors": drained} if drained else {})


def test_a_cluster_comes_back_byte_for_byte_elsewhere(cluster, empty, figure) -> None:
    before = stopped(cluster)
    backup = cluster.back_up()
    assert (backup.counts["tasks"], backup.counts["problems"]) == (32, 1)
    assert (backup.counts["executors"], len(before["executors"])) == (2, 1), "one drains"
    result = empty.restore(cluster)
    assert result.returncode == 0, result.stderr
    assert everything(empty) == before
    # Its indexes are there before a judicator starts, but for those by which MongoDB removes old documents.
    for name, models in indexes.INDEXES.items():
        lasting = {model.document["name"] for model in models if "expireAfterSeconds" not in model.document}
        assert set(empty.world.db[name].index_information()) - {"_id_"} == lasting
    # And it is a cluster: verdicts are read, the blob is whole, what waited is handed out.
    empty.world.judicator()
    people, executor = empty.world.client(timeout=60), empty.world.executor("e9", slots=2, languages=("java",))
    tasks = people.call("search", m.SearchRequest(limit=100), m.SearchReply).tasks
    assert [task.verdict for task in tasks].count(m.Verdict.AC) == 31
    assert [assignment.submission.language for assignment in executor.report().add] == ["java"]
    figure(f"backup of {backup.blobs} blobs and {sum(backup.counts.values())} documents: {backup.added} bytes")


def test_submissions_during_a_backup_are_in_it_or_in_the_next(cluster, empty, monkeypatch) -> None:
    people = cluster.world.client(timeout=60)
    ids: list[str] = []
    hold: list[bool] = []

    def submit(*_: object) -> None:
        # After the documents were read, and before their late blobs are: what comes now belongs to the next backup.
        if not hold:
            hold.append(True)
            blob = people.put_blob(b"late" * 5000)
            ids.append(people.call("add", source(tests=[m.Test(name="1", input_blob=blob)]), m.AddReply).task.id)

    with monkeypatch.context() as patch:
        patch.setattr(dumping.failpoint, "hit", submit)
        first = cluster.back_up()
    second = cluster.back_up()
    assert ids and first.counts["tasks"] in {32, 33}
    assert second.counts["tasks"] == 33
    assert empty.restore(cluster).returncode == 0
    assert empty.world.db.tasks.count_documents({}) == 33


def test_a_large_blob_that_comes_late_is_restored(cluster, empty, monkeypatch) -> None:
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
    repository = Repository(cluster.directory / "backups")
    assert repository.ids() == [third.id]
    repository.check(third)
    result = cluster.run("check", str(repository.root), "--key", "-")
    assert result.returncode == 0 and "pieces open" in result.stdout


def test_a_cluster_with_data_is_refused_and_left_alone(cluster: Cluster) -> None:
    cluster.back_up()
    before = everything(cluster)["tasks"]
    for options in (("--plan",), ()):
        result = cluster.restore(cluster, *options)
        assert result.returncode == 3 and result.stdout == ""
        assert (
            result.stderr.startswith("this cluster is not empty (1 manifests, 1 problems, 32 tasks)")
            and "\n" not in result.stderr[:-1]
        )
    assert everything(cluster)["tasks"] == before


def test_submissions_of_verify_do_not_count_as_data(cluster: Cluster, empty: Cluster) -> None:
    backup = cluster.back_up()
    empty.world.judicator()
    people = empty.world.client(timeout=60)
    people.call("add", source(user="admin", idempotency_key="verify.yml/g1/1"), m.AddReply)
    stopped(empty)
    result = empty.restore(cluster, "--plan")
    assert result.returncode == 0 and result.stdout.startswith(f"restores {backup.id}: cluster 'judge' as of 20")
    assert empty.restore(cluster).returncode == 0
    assert empty.world.db.tasks.count_documents({}) == 32


def test_a_killed_restore_goes_on(cluster, empty, caplog) -> None:
    before = stopped(cluster)
    backup = cluster.back_up()
    for place in ("restore.begun", "restore.piece", "restore.blob", "restore.compared"):
        assert empty.restore(cluster, "--id", backup.id, failpoint=place).returncode == -signal.SIGKILL
    later = cluster.back_up()
    refused = empty.restore(cluster, "--id", later.id)
    assert refused.returncode == 3 and f"a restore of backup {backup.id} was begun" in refused.stderr
    # A host was started anew meanwhile, and boot knows of no hold any more: its judicator leaves the data alone.
    with pytest.raises(RefusedError, match=f"backup {backup.id} is being restored; back up when that is over"):
        empty.back_up()
    early = Running(empty.world.config(), BATCH)
    wait_for(lambda: f"backup {backup.id} is being restored" in caplog.text, what="the judicator's word")
    assert not early.judicator.dispatcher.ready and not early.judicator.lead.leading
    early.stop()
    result = empty.restore(cluster, "--id", backup.id)
    assert result.returncode == 0 and result.stdout.startswith("goes on with")
    assert everything(empty) == before
    # Judicators run again, and the playbook is cut off: the same call is no second restore.
    empty.world.judicator()
    people = empty.world.client(timeout=60)
    people.call("add", source(), m.AddReply)
    assert empty.restore(cluster, "--id", backup.id).returncode == 0
    assert empty.world.db.tasks.count_documents({}) == 33
    assert empty.restore(cluster, "--id", backup.id, "--finish").returncode == 0
    result = empty.restore(cluster, "--id", backup.id)
    assert (result.returncode, result.stdout.partition(" 20")[0]) == (0, "has restored already")
    assert empty.world.db.tasks.count_documents({}) == 33
    assert "33 tasks), and a restore would mix" in empty.restore(cluster, "--id", later.id).stderr


def test_hosts_that_were_removed_after_the_backup_stay_refused(cluster: Cluster, empty: Cluster) -> None:
    def refuse(db: Any, **names: float) -> None:
        entries = [{"name": name, "before": before} for name, before in names.items()]
        db.meta.update_one({"_id": DOCUMENT}, {"$set": {"names": entries}}, upsert=True)

    refuse(cluster.world.db, e1=10.0, e2=20.0)
    stopped(cluster)
    cluster.back_up()
    refuse(empty.world.db, e2=5.0, e1=30.0, e3=40.0)  # site.yml did that before the restore
    for place in ("restore.piece", "restore.compared"):
        assert empty.restore(cluster, failpoint=place).returncode == -signal.SIGKILL
    assert empty.restore(cluster).returncode == 0
    names = empty.world.db.meta.find_one({"_id": DOCUMENT})["names"]
    assert {entry["name"]: entry["before"] for entry in names} == {"e1": 30.0, "e2": 20.0, "e3": 40.0}


def test_a_backup_that_cannot_be_used_leaves_an_empty_cluster_empty(cluster: Cluster, empty: Cluster) -> None:
    backup = cluster.back_up()
    repository = Repository(cluster.directory / "backups")
    packs = sorted(repository.packs.glob("*/*"), key=lambda path: path.stat().st_size)
    contents = {path: path.read_bytes() for path in [*packs, repository.backups / f"{backup.id}.json"]}
    manifest, largest = repository.backups / f"{backup.id}.json", packs[-1]
    middle = len(contents[largest]) // 2
    altered = contents[largest][:middle] + bytes([contents[largest][middle] ^ 1]) + contents[largest][middle + 1 :]
    later = dataclasses.replace(backup, versions={**backup.versions, "judge": "99.0.0"}).signed(KEY.host_key())
    poorer = dataclasses.replace(backup, packs={largest.name: 1}).signed(KEY.host_key())
    for path, content, sentence in (
        (largest, contents[largest][:middle], "is damaged; copy it again"),
        (largest, altered, "is damaged; copy it again"),
        (largest, b"", "is damaged; copy it again"),
        (largest, None, "is missing, and backup"),
        (manifest, contents[manifest].replace(b'"counts"', b'"Counts"'), "is not the manifest of a backup"),
        (manifest, contents[manifest].replace(b'"j1"', b'"j2"'), "or has been changed; nothing of it is used"),
        (manifest, contents[manifest][:-40], "is not the manifest of a backup"),
        (manifest, b"\xff\xfe" * 99, "is not the manifest of a backup"),
        (manifest, later.text().encode(), "was made by Judge 99.0.0"),
        (manifest, poorer.text().encode(), "is in no pack of this backup"),
    ):
        path.unlink() if content is None else path.write_bytes(content)
        result = empty.restore(cluster)
        assert result.returncode in {1, 3} and result.stdout == "" and result.stderr.count("\n") == 1, result.stderr
        assert sentence in result.stderr
        assert empty.world.db.list_collection_names() == []
        path.write_bytes(contents[path])
    for key, sentence in (
        (OperatorKey.new().text(), "was not written with this key"),
        ("x", "is not the operator's key"),
    ):
        result = empty.restore(cluster, key=key)
        assert result.returncode in {1, 2} and sentence in result.stderr and result.stderr.count("\n") == 1
    assert empty.world.db.list_collection_names() == []
    assert empty.restore(cluster).returncode == 0


def test_every_collection_is_backed_up_but_for_sessions(cluster: Cluster, empty: Cluster) -> None:
    """One that this release does not know is part of a backup, and somebody's data."""
    db = cluster.world.db
    db.sessions.insert_one({"_id": "s", "user": "u"})
    db.of_a_later_release.insert_one({"_id": "of_a_later_release", "x": [1, 2.5, None]})
    backup = cluster.back_up()
    assert backup.counts["of_a_later_release"] == 1 and "sessions" not in backup.counts
    assert not {"fs.files", "audit", "meta", "usage"} - backup.counts.keys()
    assert empty.restore(cluster).returncode == 0
    assert empty.world.db.of_a_later_release.find_one() == {"_id": "of_a_later_release", "x": [1, 2.5, None]}
    empty.world.raw.drop_database(empty.name)
    empty.world.db.of_a_later_release.insert_one({})
    assert "this cluster is not empty (1 of_a_later_release)" in empty.restore(cluster).stderr


def test_a_disk_without_room_is_named_before(cluster, tmp_path, capsys) -> None:
    config = tmp_path / "mongodb.yml"
    etcd = {"endpoints": ["127.0.0.1:1"]}
    fields = {"name": "j1", "data_dir": str(tmp_path), "address": "127.0.0.1:1", "etcd": etcd}
    config.write_text(yaml.safe_dump(fields))
    assert main(["room", "1", "--config", str(config)]) == 0
    assert main(["room", str(1 << 60), "--config", str(config)]) == 3
    assert f"{tmp_path} has " in (error := capsys.readouterr().err) and error.count("\n") == 1


def test_a_backup_that_is_killed_leaves_none_and_the_next_is_whole(cluster: Cluster, empty: Cluster) -> None:
    before = stopped(cluster)
    config = cluster.directory / "backup.yml"
    config.write_text(yaml.safe_dump(cluster.config().model_dump(mode="json")))
    for place in ("backup.blobs", "backup.documents", "file.written"):
        assert cluster.run("write", "--config", str(config), failpoint=place).returncode == -signal.SIGKILL
        assert Repository(cluster.directory / "backups").ids() == []
    result = cluster.run("write", "--config", str(config))
    assert result.returncode == 0, result.stderr
    assert empty.restore(cluster).returncode == 0
    assert everything(empty) == before


def test_a_damaged_blob_stops_no_backup_and_is_reported(cluster: Cluster) -> None:
    file = cluster.world.db["fs.files"].find_one({"length": {"$lt": 100}})
    assert file
    cluster.world.db["fs.chunks"].update_one({"files_id": file["_id"]}, {"$set": {"data": b"other"}})
    with pytest.raises(JudgeError, match=f"1 blobs that are damaged in the database itself, {file['filename']}"):
        cluster.back_up()
    backup = Repository(cluster.directory / "backups").manifest("latest", KEY.host_key())
    assert backup.damaged == [file["filename"]]


def test_a_blob_that_vanishes_in_between_takes_another_moment(cluster, monkeypatch) -> None:
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
    backup = cluster.back_up()
    assert passed.count("backup.documents") == 2
    assert backup.damaged == []


def test_without_a_database_a_backup_fails_with_one_sentence(cluster, monkeypatch, capsys) -> None:
    config = yaml.safe_load(cluster.judicator.read_text())
    config["mongodb"] |= {"seeds": ["127.0.0.1:1"]}
    cluster.judicator.write_text(yaml.safe_dump(config))
    backup = cluster.directory / "backup.yml"
    backup.write_text(yaml.safe_dump(cluster.config().model_dump(mode="json")))
    monkeypatch.setattr(dumping, "PATIENCE", 0.5)
    assert main(["write", "--config", str(backup)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("MongoDB does not serve this call now") and error.count("\n") == 1
