"""Passes calls to etcd on, and loses the answers of some: what was asked for is done all the same."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

from judge.etcd.wire import connect, grpc


class Cutter(grpc.GenericRpcHandler):  # type: ignore[misc]
    """`lose`: how many answers of `method` are lost, from the first call on that etcd has done. `done` counts them."""

    def __init__(self, upstream: str, method: str) -> None:
        self.method = method
        self.lose = 0
        self.done = 0
        self.channel = connect(upstream, None)

    def service(self, details: Any) -> Any:
        def call(raw: bytes, context: Any) -> bytes:
            answer, failure = b"", None
            try:
                answer = self.channel.unary_unary(details.method)(raw, timeout=10)
            except grpc.RpcError as exc:
                failure = exc
            if details.method.endswith(self.method) and self.lose > 0 and (failure is None or self.done):
                self.lose -= 1
                self.done += 1
                context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            if failure is not None:
                context.abort(failure.code(), failure.details())
            return answer

        return grpc.unary_unary_rpc_method_handler(call)


@contextmanager
def cutting(upstream: str, method: str) -> Iterator[tuple[str, Cutter]]:
    """Serve before `upstream` (`host:port`): the address, and the cutter."""
    cutter = Cutter(upstream, method)
    server = grpc.server(futures.ThreadPoolExecutor(8), [cutter])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}", cutter
    finally:
        server.stop(None).wait()
        cutter.channel.close()
