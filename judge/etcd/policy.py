"""Rules for requests to etcd, by the role in the certificate's subject. Pure.

etcd's own access control is not used, as it can be got round (docs/decisions/020-a-gate-before-etcd.md). What is not
allowed here is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from judge.etcd.wire import DecodeError, messages, rpc

HEALTH = "/grpc.health.v1.Health/Check"
_NOBODY = b"\0"  # a key that nobody has: what a linearizable question about nothing asks for


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of one role. `reads` and `writes` are prefixes of keys below the cluster's own prefix."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    leases: bool = False
    members: bool = False  # list them and ask for their state
    changes: bool = False  # add, remove and promote members


_SERVICES = "judicator/service/"

GRANTS: Mapping[str, Grant] = {
    "etcd": Grant(members=True, changes=True),
    "judicator": Grant(reads=("judicator/",), writes=("judicator/",), leases=True, members=True),
    "mongodb": Grant(reads=("mongodb/",), writes=("mongodb/",)),
    "executor": Grant(reads=(_SERVICES,)),
    "gateway": Grant(reads=(_SERVICES,)),
    "proxy": Grant(),
}


class RefusedCallError(Exception):
    """A call that this role may not make, or that cannot be understood; the text says why."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of a certificate: name, role, and since when it is valid; empty where it does not say."""

    name: str = ""
    role: str = ""
    issued: float = field(default=0.0, compare=False)  # seconds since 1970


@lru_cache(maxsize=1024)
def caller(pem: bytes) -> Caller:
    """The holder of a verified certificate (PEM); a subject with several names or roles is nobody's."""
    certificate = x509.load_pem_x509_certificate(pem)
    subject = certificate.subject
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    roles = subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
    if len(names) != 1 or len(roles) != 1:
        return Caller()
    return Caller(str(names[0].value), str(roles[0].value), certificate.not_valid_before_utc.timestamp())


def after(prefix: bytes) -> bytes:
    """The end of the range of all keys that start with `prefix`."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else _NOBODY


def within(key: bytes, end: bytes, prefixes: tuple[bytes, ...]) -> bool:
    """Return whether every key from `key` to before `end` (empty: `key` alone) starts with one of these prefixes."""
    return any(key.startswith(prefix) and (not end or _NOBODY < end <= after(prefix)) for prefix in prefixes)


@dataclass(frozen=True, slots=True)
class _EtcdRequest:
    grant: Grant
    prefix: bytes
    request: Any

    def reads(self, key: bytes, end: bytes) -> None:
        if not within(key, end, tuple(self.prefix + prefix.encode() for prefix in self.grant.reads)):
            raise RefusedCallError(f"may not read {_text_of_range(key, end)}")

    def writes(self, key: bytes, end: bytes = b"") -> None:
        if not within(key, end, tuple(self.prefix + prefix.encode() for prefix in self.grant.writes)):
            raise RefusedCallError(f"may not change {_text_of_range(key, end)}")


def _text_of_range(key: bytes, end: bytes) -> str:
    text = ascii(key[:80].decode(errors="replace"))
    return f"key {text}" if not end else f"keys from {text}"


def _range(checked: _EtcdRequest) -> None:
    request = checked.request
    if checked.grant.members and request.key == _NOBODY and not request.range_end:
        return
    checked.reads(request.key, request.range_end)


def _put(checked: _EtcdRequest) -> None:
    checked.writes(checked.request.key)


def _delete(checked: _EtcdRequest) -> None:
    checked.writes(checked.request.key, checked.request.range_end)


_OPERATIONS: Mapping[str, Callable[[_EtcdRequest], None]] = {
    "request_range": _range,
    "request_put": _put,
    "request_delete_range": _delete,
}


def _txn(checked: _EtcdRequest) -> None:
    request = checked.request
    for compare in request.compare:
        checked.reads(compare.key, compare.range_end)
    for operation in (*request.success, *request.failure):
        kind = operation.WhichOneof("request")
        if kind not in _OPERATIONS:
            raise RefusedCallError("may not put a transaction into a transaction")
        _OPERATIONS[kind](_EtcdRequest(checked.grant, checked.prefix, getattr(operation, kind)))


def _needs(label: str) -> Callable[[_EtcdRequest], None]:
    def check(checked: _EtcdRequest) -> None:
        if not getattr(checked.grant, label):
            raise RefusedCallError("may not make this call")

    return check


# Each call that passes at all: the type of its request, and what has to be true of it.
METHODS: Mapping[str, tuple[Any, Callable[[_EtcdRequest], None]]] = {
    "/etcdserverpb.KV/Range": (rpc.RangeRequest, _range),
    "/etcdserverpb.KV/Put": (rpc.PutRequest, _put),
    "/etcdserverpb.KV/DeleteRange": (rpc.DeleteRangeRequest, _delete),
    "/etcdserverpb.KV/Txn": (rpc.TxnRequest, _txn),
    "/etcdserverpb.Lease/LeaseGrant": (rpc.LeaseGrantRequest, _needs("leases")),
    "/etcdserverpb.Lease/LeaseRevoke": (rpc.LeaseRevokeRequest, _needs("leases")),
    "/etcdserverpb.Lease/LeaseKeepAlive": (rpc.LeaseKeepAliveRequest, _needs("leases")),
    "/etcdserverpb.Cluster/MemberList": (messages["MemberListRequest"], _needs("members")),
    "/etcdserverpb.Maintenance/Status": (messages["StatusRequest"], _needs("members")),
    "/etcdserverpb.Cluster/MemberAdd": (messages["MemberAddRequest"], _needs("changes")),
    "/etcdserverpb.Cluster/MemberRemove": (messages["MemberIdRequest"], _needs("changes")),
    "/etcdserverpb.Cluster/MemberPromote": (messages["MemberIdRequest"], _needs("changes")),
}


def allowed(caller: Caller, method: str, raw: bytes, prefix: str) -> bytes:
    """The request as it may go on to etcd; RefusedCallError when it may not. `prefix` is that of all of Judge's keys.

    What goes on is written anew from what was understood here, so etcd cannot read anything else in it.
    """
    grant = GRANTS.get(caller.role)
    if grant is None or not caller.name:
        raise RefusedCallError("is no role that may talk to etcd")
    if method == HEALTH:
        return b""
    kind, check = METHODS.get(method, (None, None))
    if kind is None or check is None:
        raise RefusedCallError("may not make this call")
    try:
        request = kind.FromString(raw)
        size = request.ByteSize()
        request.DiscardUnknownFields()
        canonical: bytes = request.SerializeToString()
    except (DecodeError, ValueError, RecursionError) as exc:
        raise RefusedCallError("sent a request that cannot be read") from exc
    if len(canonical) != size:
        raise RefusedCallError("sent a request with fields that are not known here")
    check(_EtcdRequest(grant, prefix.encode(), request))
    return canonical
