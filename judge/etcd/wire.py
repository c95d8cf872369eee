"""The gRPC stubs of the `etcd3` package, importable beside today's protobuf, and the fields that it lacks.

`etcd3` 0.12.0 was generated in 2020: its classes load only in protobuf's pure-Python implementation, and it knows
neither learners nor `MemberPromote`. Its stubs are sound, so the facade builds on them; the younger messages are
described here and are the same on the wire. Nothing else of the project may import `google.protobuf` before this.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from judge.config import Tls
from judge.daemon import tlsfiles

# Read by the libraries at their import: without the first etcd3 cannot be imported, without the second gRPC's core
# writes its own lines to stderr whenever a server is away, and without the third its handlers abort a forked child now
# and then (3 % of forks beside channels that open and close), before it has become the program that was to be run.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # etcd3's generated code, which nobody will regenerate
    import grpc
    from etcd3 import etcdrpc as rpc
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError

__all__ = ["DecodeError", "Stubs", "connect", "credentials", "grpc", "messages", "rpc"]

_TYPES = {"uint64": 4, "int64": 3, "string": 9, "bool": 8}  # FieldDescriptorProto.Type
_MESSAGE = 11  # of a field that is one of these messages itself

# The fields of each message in the order of their numbers, which count from 1; a list stands for a repeated field.
_MESSAGES: dict[str, dict[str, str | list[str]]] = {
    "Header": {"cluster_id": "uint64", "member_id": "uint64", "revision": "int64", "raft_term": "uint64"},
    "Member": {
        "ID": "uint64",
        "name": "string",
        "peerURLs": ["string"],
        "clientURLs": ["string"],
        "isLearner": "bool",
    },
    "MemberAddRequest": {"peerURLs": ["string"], "isLearner": "bool"},
    "MemberIdRequest": {"ID": "uint64"},
    "MemberListRequest": {"linearizable": "bool"},
    "MemberAddResponse": {"header": "Header", "member": "Member", "members": ["Member"]},
    "MembersResponse": {"header": "Header", "members": ["Member"]},
    "StatusRequest": {},
    "StatusResponse": {
        "header": "Header",
        "version": "string",
        "dbSize": "int64",
        "leader": "uint64",
        "raftIndex": "uint64",
        "raftTerm": "uint64",
        "raftAppliedIndex": "uint64",
        "errors": ["string"],
        "dbSizeInUse": "int64",
        "isLearner": "bool",
    },
}

_OPTIONS = [
    ("grpc.enable_http_proxy", 0),  # http_proxy is for the web, not for the cluster
    ("grpc.use_local_subchannel_pool", 1),  # a new channel is a new connection: behind a TCP proxy, another member
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", 64 * 1024**2),
]


def _build() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="judge/etcd/wire.proto", package="judge.etcd", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), 1):
            repeated, kind_name = isinstance(kind, list), "".join(kind)
            message.field.add(
                name=field,
                number=number,
                type=_TYPES.get(kind_name, _MESSAGE),
                label=3 if repeated else 1,
                type_name=None if kind_name in _TYPES else f".judge.etcd.{kind_name}",
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    types = {name: pool.FindMessageTypeByName(f"judge.etcd.{name}") for name in _MESSAGES}
    return {name: message_factory.GetMessageClass(kind) for name, kind in types.items()}


messages: dict[str, Any] = _build()


class Stubs:
    """Every call that the facade makes, over one channel."""

    def __init__(self, channel: Any) -> None:
        self.kv = rpc.KVStub(channel)
        lease = rpc.LeaseStub(channel)
        self.lease_grant = lease.LeaseGrant
        self.lease_revoke = lease.LeaseRevoke
        # A stream in the API, but one request and one reply on the wire: no extra threads for a refresh.
        self.lease_keepalive = channel.unary_unary(
            "/etcdserverpb.Lease/LeaseKeepAlive",
            request_serializer=rpc.LeaseKeepAliveRequest.SerializeToString,
            response_deserializer=rpc.LeaseKeepAliveResponse.FromString,
        )
        self.member_add = self._call(channel, "Cluster/MemberAdd", "MemberAddRequest", "MemberAddResponse")
        self.member_remove = self._call(channel, "Cluster/MemberRemove", "MemberIdRequest", "MembersResponse")
        self.member_promote = self._call(channel, "Cluster/MemberPromote", "MemberIdRequest", "MembersResponse")
        self.member_list = self._call(channel, "Cluster/MemberList", "MemberListRequest", "MembersResponse")
        self.status = self._call(channel, "Maintenance/Status", "StatusRequest", "StatusResponse")
        # Asks whether the server answers at all. Not `Status`: etcd 3.4 panics when that meets a database being closed.
        self.alive = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=lambda request: request,
            response_deserializer=lambda reply: reply,
        )

    @staticmethod
    def _call(channel: Any, method: str, request: str, response: str) -> Any:
        return channel.unary_unary(
            f"/etcdserverpb.{method}",
            request_serializer=messages[request].SerializeToString,
            response_deserializer=messages[response].FromString,
        )


def credentials(tls: Tls | None) -> Any | None:
    """A client's credentials, by what its files are now; ConfigError when they cannot be used."""
    if tls is None:
        return None
    files = tlsfiles.current(tls)
    return grpc.ssl_channel_credentials(files.ca, files.key, files.cert)


def connect(endpoint: str, credentials: Any | None) -> Any:
    """A channel to `host:port`; connects on the first call, in the background."""
    if credentials is None:
        return grpc.insecure_channel(endpoint, options=_OPTIONS)
    return grpc.secure_channel(endpoint, credentials, options=_OPTIONS)
