"""One judicator becomes all that there is: etcd by its own `--force-new-cluster`, the replica set by a forced reconfig.

Both may be repeated, and neither starts anything that stays: the daemons go on with what they find.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from typing import Any

from judge.common import clock
from judge.common.errors import JudgeError, RefusedError, UnavailableError
from judge.config import EtcdConfig, MongodbConfig
from judge.daemon.process import ChildProcess
from judge.etcd.client import Etcd
from judge.etcd.datadir import EtcdDataDir
from judge.etcd.discovery import host_port
from judge.etcd.planner import PeerAddress
from judge.etcd.program import SOCKET, check_binary, environment, listens, member_command, parse_line, wait_for_ports
from judge.etcd.wire import Stubs, connect, grpc, messages, rpc
from judge.mongodb.registry import MEMBER, Registry
from judge.mongodb.replica import Replica

log = logging.getLogger(__name__)

ASIDE = "data.before-recovery"
_POLL = 0.2
_START = 60.0


def etcd(config: EtcdConfig) -> str:
    """Make this host's member the only one of its cluster, with what it has; its daemon must not run.

    RefusedError when it has no data or its port is in use, UnavailableError when it does not serve in time. Returns a
    sentence.
    """
    if config.data_dir is None:
        raise RefusedError(f"'{config.name}' is an etcd proxy and no member; name a judicator")
    directory = EtcdDataDir(config.data_dir)
    disk = directory.read()
    if not disk.data or disk.record is None:
        raise RefusedError(f"{directory.path}: has no data of etcd to begin with; name another judicator")
    binary = check_binary(config)
    clients, peers = listens(config)
    wait_for_ports([host_port(url) for url in (*clients, *peers)], config.stop_grace)
    (directory.path / SOCKET).unlink(missing_ok=True)
    _copy_aside(directory)
    command = member_command(config, binary, directory.data, "existing", (PeerAddress(config.name, config.peer),))
    child = ChildProcess(
        "etcd", [*command, "--force-new-cluster"], parse=parse_line, env=environment(), cwd=directory.path
    )
    try:
        count = _wait_alone(child, config, directory)
    finally:
        code = child.stop(config.stop_grace)
    if code != 0:
        log.info("etcd ended with code %d", code)
    return f"etcd: member {disk.member_id:x} '{config.name}' is the only one of {count}"


def _copy_aside(directory: EtcdDataDir) -> None:
    """Keep the data as they were before this attempt; RefusedError when there is no room for them."""
    aside = directory.path / f"{ASIDE}-{clock.wall():%Y%m%dT%H%M%S}"
    making = directory.path / f"{ASIDE}.partial"
    try:
        shutil.rmtree(making, ignore_errors=True)
        shutil.copytree(directory.data, making)
        making.rename(aside)
    except (OSError, shutil.Error) as exc:
        raise RefusedError(f"{directory.data} cannot be copied to {aside}: {exc}; make room there first") from exc


def _wait_alone(child: ChildProcess, config: EtcdConfig, directory: EtcdDataDir) -> int:
    """Wait until it serves a linearizable read as the only member; returns the number of members, which is one."""
    path = f"unix:{directory.path.absolute()}/{SOCKET}"
    target = path if config.tls is not None else host_port(listens(config)[0][0])
    deadline = clock.Deadline(_START)
    while child.poll() is None and not deadline.over:
        with connect(target, None) as channel:
            stubs = Stubs(channel)
            try:
                stubs.kv.Range(rpc.RangeRequest(key=b"\0", keys_only=True, limit=1), timeout=2)
                members = stubs.member_list(messages["MemberListRequest"](linearizable=True), timeout=2).members
            except grpc.RpcError:
                clock.sleep(_POLL)
                continue
        if len(members) == 1:
            return len(members)
        raise JudgeError(f"etcd still lists {len(members)} members after it was started as a new cluster")
    raise UnavailableError(f"etcd did not serve alone within {_START:g} s: {child.last_line}")


def mongodb(config: MongodbConfig, removed: Sequence[str]) -> str:
    """Make this host's mongod the only member of its replica set and its primary; it must run, and etcd must serve.

    `removed` are the members, by name, whose data are lost: their registrations go. JudgeErrors when
    that cannot be done now. Returns a sentence.
    """
    replica = Replica(config)
    try:
        document = replica.configuration()
        rsid = replica.rsid()
        if document is None or rsid is None:
            raise RefusedError(f"{config.data_dir}: belongs to no replica set; name another judicator")
        _forget(config, rsid, removed)
        hello = replica.hello(2.0) or {}
        if len(document["members"]) != 1 and not hello.get("isWritablePrimary"):
            replica.force(forced(document, config.address))
        if not replica.wait_primary(_START):
            raise UnavailableError(f"mongod at {config.address} did not become the primary within {_START:g} s")
    finally:
        replica.close()
    return f"mongodb: {config.address} is the primary of replica set {rsid}"


def _forget(config: MongodbConfig, rsid: str, removed: Sequence[str]) -> None:
    with Etcd(config.etcd) as client:
        registry = Registry(client, config, "")
        recorded = registry.record_rsid(rsid)
        if recorded != rsid:
            raise RefusedError(f"etcd records replica set {recorded}, this data are of {rsid}; name another judicator")
        for name in removed:
            client.delete(MEMBER + name)


def forced(document: dict[str, Any], address: str) -> dict[str, Any]:
    """The configuration with this member alone, as a voter; pure. RefusedError when it is no member.

    mongod itself puts the version of a forced one far ahead of what it is given.
    """
    mine = [dict(member) for member in document["members"] if member["host"] == address]
    if not mine:
        raise RefusedError(f"the replica set does not list {address}; name another judicator")
    mine[0] |= {"votes": 1, "priority": 1}
    return {**document, "members": mine, "version": document["version"] + 1}
