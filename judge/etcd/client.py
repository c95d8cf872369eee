"""The one way to talk to etcd: a facade over the stubs of `etcd3` that closes its known defects (docs/etcd.md).

Every call has a deadline, rotates over the endpoints, reads linearizably, and says after a failure whether something
was done. There are no watches: polling is the truth. All calls are synchronous and thread-safe; asyncio callers use
`asyncio.to_thread`. Seeds: `etcd.set_if_empty` = `create`, `set_if_equal` = `held`, `set` = `put`, `get_list` = `list`,
`add_member`, `remove_member`, `get_member`.
"""

from __future__ import annotations

import builtins
import secrets
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from judge.common.clock import Deadline
from judge.common.errors import NotFoundError
from judge.config import EtcdClient
from judge.etcd.policy import after
from judge.etcd.transport import LeaseGoneError, RejectedError, Transport
from judge.etcd.wire import Stubs, messages, rpc

__all__ = ["EndpointStatus", "Etcd", "EtcdMember", "KeyValue", "Lease", "LeaseGoneError", "MemberList", "RejectedError"]


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One key as it was at `mod_revision`; `lease` is 0 without one."""

    key: str
    value: str
    create_revision: int
    mod_revision: int
    lease: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A granted lease; `ttl` in seconds, as the server gave it, which may be more than asked for."""

    id: int
    ttl: int


@dataclass(frozen=True, slots=True)
class EtcdMember:
    """One member of the cluster. `name` is empty until its server has started once."""

    id: int
    name: str
    peer_urls: tuple[str, ...]
    client_urls: tuple[str, ...]
    learner: bool


@dataclass(frozen=True, slots=True)
class MemberList:
    """The cluster's id and its members, as a quorum knows them."""

    id: int
    members: tuple[EtcdMember, ...]


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """The state of the server behind one endpoint, in its own words; `error` is the reason when it does not answer."""

    endpoint: str
    error: str = ""
    version: str = ""
    cluster_id: int = 0
    member_id: int = 0
    leader_id: int = 0
    db_size: int = 0
    raft_term: int = 0
    learner: bool = False
    errors: tuple[str, ...] = ()


def _member(raw: Any) -> EtcdMember:
    return EtcdMember(raw.ID, raw.name, tuple(raw.peerURLs), tuple(raw.clientURLs), raw.isLearner)


class Etcd:
    """A client of one cluster. Keys are given and returned without `config.prefix`.

    Every method may raise UnavailableError (nothing was done) or its subclass DeadlineError (nothing was done in time);
    methods that write may raise its subclass OutcomeUnknownError (read again before deciding).
    """

    def __init__(self, config: EtcdClient) -> None:
        """Connects on the first call; ConfigError when a TLS file cannot be read."""
        self._prefix = config.prefix
        self._transport = Transport(config.endpoints, config.tls, config.timeout)

    def close(self) -> None:
        """End the connections; later calls raise UnavailableError."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def endpoints(self) -> tuple[str, ...]:
        return self._transport.endpoints

    # -- keys --------------------------------------------------------------------------------------------------

    def get(self, key: str) -> KeyValue | None:
        """The key as a quorum knows it now, or None."""
        request = rpc.RangeRequest(key=self._key(key))
        reply = self._transport.read(f"get {key}", lambda stubs: stubs.kv.Range, request)
        return self._kv(reply.kvs[0]) if reply.kvs else None

    def list(self, prefix: str) -> builtins.list[KeyValue]:
        """All keys that start with `prefix`, in the order of their names."""
        start = self._key(prefix)
        request = rpc.RangeRequest(key=start, range_end=after(start))
        reply = self._transport.read(f"list {prefix}", lambda stubs: stubs.kv.Range, request)
        return [self._kv(raw) for raw in reply.kvs]

    def create(self, key: str, value: str, lease: int = 0) -> KeyValue | None:
        """Put the key only when it does not exist; None when it does. LeaseGoneError when the lease is gone."""
        raw = self._key(key)
        request = rpc.TxnRequest(
            compare=[_created(raw, 0)],
            success=[rpc.RequestOp(request_put=rpc.PutRequest(key=raw, value=value.encode(), lease=lease))],
        )
        reply = self._transport.write(f"create {key}", lambda stubs: stubs.kv.Txn, request)
        if not reply.succeeded:
            return None
        return KeyValue(key, value, reply.header.revision, reply.header.revision, lease)

    def put(self, key: str, value: str, lease: int = 0) -> KeyValue:
        """Put the key whatever it was. LeaseGoneError when the lease is gone."""
        request = rpc.PutRequest(key=self._key(key), value=value.encode(), lease=lease, prev_kv=True)
        reply = self._transport.write(f"put {key}", lambda stubs: stubs.kv.Put, request)
        now = int(reply.header.revision)
        return KeyValue(key, value, reply.prev_kv.create_revision or now, now, lease)

    def delete(self, key: str, create_revision: int | None = None) -> bool:
        """Delete the key, or only the incarnation of it that `create_revision` names; whether it was there."""
        raw = self._key(key)
        request = rpc.TxnRequest(
            compare=[] if create_revision is None else [_created(raw, create_revision)],
            success=[rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=raw))],
        )
        reply = self._transport.write(f"delete {key}", lambda stubs: stubs.kv.Txn, request)
        return bool(reply.succeeded and reply.responses[0].response_delete_range.deleted)

    def held(self, key: str, create_revision: int) -> bool:
        """Return whether the key still is that incarnation, asked of a quorum.

        A read and not a bare comparing transaction, because etcd answers one without operations from local state.
        """
        now = self.get(key)
        return now is not None and now.create_revision == create_revision

    # -- leases ------------------------------------------------------------------------------------------------

    def grant(self, ttl: int) -> Lease:
        """A new lease of about `ttl` seconds; the server has a minimum of 1.5 election timeouts.

        The id is chosen here, so that repeating a request whose answer was lost cannot make a second lease.
        """
        lease_id = secrets.randbits(62) + 1
        request = rpc.LeaseGrantRequest(TTL=ttl, ID=lease_id)
        try:
            reply = self._transport.read("lease grant", lambda stubs: stubs.lease_grant, request)
        except RejectedError as exc:
            if "lease already exists" not in str(exc):
                raise
            return Lease(lease_id, ttl)
        return Lease(reply.ID, reply.TTL)

    def keepalive(self, lease_id: int) -> int:
        """Refresh a lease: its seconds from now, 0 when it is gone. Says nothing about the keys: see `held`."""
        request = rpc.LeaseKeepAliveRequest(ID=lease_id)
        try:
            reply = self._transport.read("lease keepalive", lambda stubs: stubs.lease_keepalive, request)
        except LeaseGoneError:
            return 0
        return max(0, int(reply.TTL))

    def revoke(self, lease_id: int) -> None:
        """End a lease and delete its keys; fine when it is gone already."""
        request = rpc.LeaseRevokeRequest(ID=lease_id)
        try:
            self._transport.read("lease revoke", lambda stubs: stubs.lease_revoke, request)
        except LeaseGoneError:
            return

    # -- members -----------------------------------------------------------------------------------------------

    def cluster(self) -> MemberList:
        """The cluster's id and members, linearizable; UnavailableError when there is no quorum.

        etcd 3.4 answers the member list from local state, so the same member is first asked a linearizable question.
        """

        def ask(stubs: Stubs, request: Any, *, timeout: float) -> Any:
            budget = Deadline(timeout)
            stubs.kv.Range(rpc.RangeRequest(key=b"\0", keys_only=True, limit=1), timeout=timeout)
            return stubs.member_list(request, timeout=budget.left())

        request = messages["MemberListRequest"](linearizable=True)
        reply = self._transport.read("member list", lambda stubs: partial(ask, stubs), request)
        return MemberList(reply.header.cluster_id, tuple(_member(raw) for raw in reply.members))

    def members(self) -> builtins.list[EtcdMember]:
        """The members of the cluster, as a quorum knows them (seed: `etcd.get_member`)."""
        return builtins.list(self.cluster().members)

    def member_add(self, peer_url: str, learner: bool) -> EtcdMember:
        """Add a member that is started afterwards (seed: `add_member`); RejectedError says why etcd refused."""
        request = messages["MemberAddRequest"](peerURLs=[peer_url], isLearner=learner)
        reply = self._transport.write(f"member add {peer_url}", lambda stubs: stubs.member_add, request)
        return _member(reply.member)

    def member_remove(self, member_id: int) -> None:
        """Remove a member for good (seed: `remove_member`); fine when it is gone already."""
        request = messages["MemberIdRequest"](ID=member_id)
        try:
            self._transport.write(f"member remove {member_id:x}", lambda stubs: stubs.member_remove, request)
        except RejectedError as exc:
            if "member not found" not in str(exc):
                raise

    def member_promote(self, member_id: int) -> None:
        """Make a learner a voter; RejectedError while it is not in sync. Fine when it is one already."""
        request = messages["MemberIdRequest"](ID=member_id)
        try:
            self._transport.write(f"member promote {member_id:x}", lambda stubs: stubs.member_promote, request)
        except RejectedError as exc:
            if "member not found" in str(exc):
                raise NotFoundError(f"etcd: member {member_id:x} is not in the cluster; list its members") from exc
            if "can only promote a learner member" not in str(exc) or "in sync" in str(exc):
                raise

    def status(self) -> builtins.list[EndpointStatus]:
        """The state of each endpoint, in the order of the config; a silent one raises nothing."""
        request = messages["StatusRequest"]()
        return [
            EndpointStatus(endpoint, error)
            if reply is None
            else EndpointStatus(
                endpoint,
                "",
                reply.version,
                reply.header.cluster_id,
                reply.header.member_id,
                reply.leader,
                reply.dbSize,
                reply.raftTerm,
                reply.isLearner,
                tuple(reply.errors),
            )
            for endpoint, reply, error in self._transport.each(lambda stubs: stubs.status, request)
        ]

    def _key(self, key: str) -> bytes:
        return (self._prefix + key).encode()

    def _kv(self, raw: Any) -> KeyValue:
        return KeyValue(
            raw.key.decode().removeprefix(self._prefix),
            raw.value.decode(errors="replace"),
            raw.create_revision,
            raw.mod_revision,
            raw.lease,
        )


def _created(key: bytes, revision: int) -> Any:
    return rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.CREATE, key=key, create_revision=revision)
