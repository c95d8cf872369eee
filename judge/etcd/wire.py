"""The gRPC stubs of the `etcd3` package, importable beside today's protobuf, and the fields that it lacks.

`etcd3` 0.12.0 was generated in 2020: its classes load only in protobuf's pure-Python implementation, and it knows
neither learners nor `MemberPromote`. Its stubs are sound, so the facade builds on them; the younger messages are
described here and are the same on the wire. Nothing else of the project may import `google.protobuf` before this.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

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

__all__ = ["DecodeError", "Stubs", "connect", "grpc", "messages", "rpc"]

_U64, _I64, _STR, _BOOL, _MSG = 4, 3, 9, 8, 11  # FieldDescriptorProto.Type

# message -> (field, number, type, repeated, message type)
_FIELDS: dict[str, list[tuple[str, int, int, bool, str]]] = {
    "Header": [
        ("cluster_id", 1, _U64, False, ""),
        ("member_id", 2, _U64, False, ""),
        ("revision", 3, _I64, False, ""),
        ("raft_term", 4, _U64, False, ""),
    ],
    "Member": [
        ("ID", 1, _U64, False, ""),
        ("name", 2, _STR, False, ""),
        ("peerURLs", 3, _STR, True, ""),
        ("clientURLs", 4, _STR, True, ""),
        ("isLearner", 5, _BOOL, False, ""),
    ],
    "MemberAddRequest": [("peerURLs", 1, _STR, True, ""), ("isLearner", 2, _BOOL, False, "")],
    "MemberIdRequest": [("ID", 1, _U64, False, "")],
    "MemberListRequest": [("linearizable", 1, _BOOL, False, "")],
    "MemberAddResponse": [
        ("header", 1, _MSG, False, "Header"),
        ("member", 2, _MSG, False, "Member"),
        ("members", 3, _MSG, True, "Member"),
    ],
    "MembersResponse": [("header", 1, _MSG, False, "Header"), ("members", 2, _MSG, True, "Member")],
    "StatusRequest": [],
    "StatusResponse": [
        ("header", 1, _MSG, False, "Header"),
        ("version", 2, _STR, False, ""),
        ("dbSize", 3, _I64, False, ""),
        ("leader", 4, _U64, False, ""),
        ("raftIndex", 5, _U64, False, ""),
        ("raftTerm", 6, _U64, False, ""),
        ("raftAppliedIndex", 7, _U64, False, ""),
        ("errors", 8, _STR, True, ""),
        ("dbSizeInUse", 9, _I64, False, ""),
        ("isLearner", 10, _BOOL, False, ""),
    ],
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
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated, of in fields:
            message.field.add(
                name=field,
                number=number,
                type=kind,
                label=3 if repeated else 1,
                type_name=f".judge.etcd.{of}" if of else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"judge.etcd.{name}")) for name in _FIELDS}


messages: dict[str, Any] = _build()


class Stubs:
    """Every call that the facade makes, over one channel."""

    def __init__(self, channel: Any) -> None:
        """Bind the calls; nothing connects yet."""
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


def connect(endpoint: str, credentials: Any | None) -> Any:
    """A channel to `host:port`; connects on the first call, in the background."""
    if credentials is None:
        return grpc.insecure_channel(endpoint, options=_OPTIONS)
    return grpc.secure_channel(endpoint, credentials, options=_OPTIONS)
