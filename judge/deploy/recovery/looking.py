"""A look at one judicator: whether its etcd and MongoDB still decide anything, and how far its data reach."""

from __future__ import annotations

import dataclasses
import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymongo

from judge import config as configs
from judge.common.errors import JudgeError
from judge.config import EtcdClient, EtcdConfig, MongodbConfig
from judge.etcd.client import Etcd
from judge.etcd.datadir import EtcdDataDir
from judge.etcd.discovery import host_port
from judge.mongodb.replica import Replica
from judge.mongodb.store import DRIVER_ERRORS

_SECONDS = 10.0
_STORAGE = "storage.bson"


@dataclass(frozen=True)
class Remains:
    """One judicator. `quorum`: etcd decides; `primary`: the replica set has one. Moments are ISO 8601 in UTC.

    `etcd` and `mongodb`: whether their data are on its disk. `newest` is the time of the last write that its mongod
    has, `submissions` how many it has; both are empty or 0 when it does not answer.
    """

    name: str
    etcd: bool
    mongodb: bool
    quorum: bool = False
    primary: bool = False
    newest: str = ""
    submissions: int = 0

    @property
    def sentence(self) -> str:
        """For a person who chooses."""
        if not self.etcd and not self.mongodb:
            return f"{self.name}: has no data"
        parts = [f"{'' if self.etcd else 'no '}data of etcd", f"{'' if self.mongodb else 'no '}data of MongoDB"]
        if self.newest:
            parts.append(f"{self.submissions} submissions, the last write at {self.newest}")
        elif self.mongodb:
            parts.append("its mongod does not answer, so how far they reach is not known")
        return f"{self.name}: {', '.join(parts)}"

    def dumped(self) -> dict[str, Any]:
        """For the playbook."""
        return {**dataclasses.asdict(self), "sentence": self.sentence}


def look(etc: Path) -> Remains:
    """Look at this host; `etc` has its configs. ConfigError when they cannot be read; waits some seconds at most."""
    etcd = configs.load(EtcdConfig, etc / "etcd.yml")
    mongodb = configs.load(MongodbConfig, etc / "mongodb.yml")
    remains = Remains(
        name=etcd.name,
        etcd=etcd.data_dir is not None and EtcdDataDir(etcd.data_dir).read().data,
        mongodb=(mongodb.data_dir / _STORAGE).exists(),
        quorum=_decides(etcd),
    )
    return dataclasses.replace(remains, **_of_mongod(mongodb))


def _decides(config: EtcdConfig) -> bool:
    endpoints = [host_port(peer.client) for peer in config.cluster.members]
    with Etcd(EtcdClient(endpoints=endpoints, tls=config.tls, timeout=_SECONDS)) as etcd:
        try:
            etcd.cluster()
        except JudgeError:
            return False
    return True


def _of_mongod(config: MongodbConfig) -> dict[str, Any]:
    """The answers of this host's mongod; none when it does not run."""
    replica = Replica(config, _SECONDS)
    try:
        hello = replica.hello(_SECONDS)
        if hello is None:
            return {}
        primary = bool(hello.get("isWritablePrimary") or hello.get("primary"))
        return {"primary": primary, **_reach(replica, config.database)}
    except JudgeError:
        return {}
    finally:
        replica.close()


def _reach(replica: Replica, database: str) -> dict[str, Any]:
    try:
        with pymongo.timeout(_SECONDS):
            local = replica.client.get_database("local", read_preference=pymongo.ReadPreference.NEAREST)
            last = local["oplog.rs"].find_one({"ns": {"$regex": "^" + database}}, sort=[("$natural", -1)])
            tasks = replica.client.get_database(database, read_preference=pymongo.ReadPreference.NEAREST)["tasks"]
            count = tasks.estimated_document_count()
    except DRIVER_ERRORS:
        return {}
    wall = (last or {}).get("wall")
    moment = wall.replace(tzinfo=datetime.UTC).isoformat(timespec="seconds") if wall else ""
    return {"newest": moment, "submissions": count}
