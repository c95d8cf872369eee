"""The only door to a member of etcd: mutual TLS, and for each role of a certificate the calls that the policy allows.

etcd itself serves its clients on a socket in its data directory, which nobody but its own user can open. What a caller
learns of a failure is etcd's own answer, so a client cannot tell the gate from etcd by what its errors mean.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter as TallyOf
from collections.abc import Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from prometheus_client import Counter

from judge.common.errors import RefusedError
from judge.common.pki import refused
from judge.config import Tls
from judge.daemon import tlsfiles
from judge.etcd import policy
from judge.etcd.policy import Caller, RefusedCallError
from judge.etcd.program import SOCKET
from judge.etcd.wire import connect, grpc, rpc

log = logging.getLogger(__name__)

# Calls that may be under way, and those of them by one certificate: of those who keep the cluster (True), and of those
# who only look for judicators. Each has a thread.
_ALL, _PER_CALLER = {True: 32, False: 16}, {True: 16, False: 8}
_THREADS = sum(_ALL.values())
_QUEUE = 1000  # calls that have come and are not looked at yet
_KEEPER_ROLES = frozenset({"etcd", "judicator", "mongodb"})
_LONGEST = 10.0  # seconds that a call without a deadline of its own may take
_REQUEST = 5.0  # seconds in which a call that was begun has to say what it asks for
_REMEMBERED = 1000  # refusals that are told once each
_LOOK = 1.0  # seconds between two looks at whose certificates are refused, and that one look may take
_OPTIONS = [
    ("grpc.so_reuseport", 0),  # a second server at this address is a mistake, not a partner
    ("grpc.server_handshake_timeout_ms", 5000),
    ("grpc.max_receive_message_length", 256 * 1024),  # Judge's keys are some hundred bytes
    ("grpc.max_concurrent_streams", 32),
]

_REFUSALS = Counter("judge_etcd_gate_refusals", "Calls that a role may not make", ["role"])


class Gate:
    def __init__(self, directory: Path, addresses: list[str], tls: Tls, prefix: str) -> None:
        """Serve at each `host:port` what listens on the socket in `directory`; RefusedError when one is taken."""
        self._prefix = prefix
        self._lock = threading.Lock()
        self._refused: Mapping[str, float] | None = None  # None: not read since the start
        self._over = threading.Event()
        self._said: set[tuple[Caller, str, str]] = set()
        self._busy: TallyOf[bool | Caller] = TallyOf()
        # By the directory's descriptor, because the path of a socket may have 107 bytes only.
        self._directory = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._channel = connect(f"unix:/proc/self/fd/{self._directory}/{SOCKET}", None)
        self._pool = futures.ThreadPoolExecutor(_THREADS, "etcd-gate")
        self._server = grpc.server(self._pool, [_Door(self)], options=_OPTIONS, maximum_concurrent_rpcs=_QUEUE)
        try:
            for address in addresses:
                self._server.add_secure_port(address, _credentials(tls))
        except RuntimeError as exc:
            self.close()
            msg = f"{address} cannot be listened on ({exc}); stop the other program or change the address"
            raise RefusedError(msg) from exc
        self._server.start()
        threading.Thread(target=self._follow, name="etcd-gate-refused", daemon=True).start()

    def close(self) -> None:
        self._over.set()
        self._server.stop(None).wait(5)
        self._channel.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        os.close(self._directory)

    def call(self, method: str, requests: Iterator[bytes], context: Any) -> bytes:
        """Answer one call: etcd's reply, or the status that etcd or the policy gives it.

        Nothing is read before there is room: who begins calls and never says what they ask for holds up nobody else.
        """
        caller = Caller()
        with suppress(KeyError, IndexError, ValueError):  # nobody's, and refused as such
            caller = policy.caller(context.auth_context()["x509_pem_cert"][0])
        with self._slot(caller) as free:
            if not free:
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests")
            raw = _first(requests, context)
            try:
                self._welcome(caller, method, context)
                request = policy.allowed(caller, method, raw, self._prefix)
            except RefusedCallError as exc:
                self._tell(caller, method, str(exc))
                context.abort(
                    grpc.StatusCode.PERMISSION_DENIED, f"{caller.name or 'nobody'} as {caller.role or 'nobody'} {exc}"
                )
            remaining = context.time_remaining()
            try:
                reply: bytes = self._channel.unary_unary(method)(request, timeout=min(remaining or _LONGEST, _LONGEST))
            except grpc.RpcError as exc:
                context.abort(exc.code(), exc.details() or exc.code().name)
            return reply

    def _welcome(self, caller: Caller, method: str, context: Any) -> None:
        """RefusedCallError for a certificate of a host that was removed."""
        if method == policy.HEALTH:
            return
        if self._refused is None:
            self._look()
        if self._refused is None:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the gate does not know yet whose certificates are refused")
        elif reason := refused.reason(self._refused, caller.name, caller.issued):
            raise RefusedCallError(f"may not make any call: {reason}")

    def _follow(self) -> None:
        """Keep the list of refused certificates up to date; without etcd the last one holds."""
        while not self._over.wait(_LOOK):
            self._look()

    def _look(self) -> None:
        """Read the list as this member has it, which also one that has lost its quorum can say."""
        keys = (self._prefix + refused.KEYS).encode()
        request = rpc.RangeRequest(key=keys, range_end=policy.after(keys), serializable=True)
        ask = self._channel.unary_unary(
            "/etcdserverpb.KV/Range", rpc.RangeRequest.SerializeToString, rpc.RangeResponse.FromString
        )
        with suppress(grpc.RpcError, ValueError):  # ValueError: the gate is closed
            pairs = ask(request, timeout=_LOOK).kvs
            self._refused = refused.listed((kv.key[len(keys) :].decode(), kv.value.decode()) for kv in pairs)

    @contextmanager
    def _slot(self, caller: Caller) -> Iterator[bool]:
        """Return whether there is room for one more call of this certificate, and of its kind of role."""
        keeper = caller.role in _KEEPER_ROLES
        with self._lock:
            free = self._busy[keeper] < _ALL[keeper] and self._busy[caller] < _PER_CALLER[keeper]
            if free:
                self._busy.update((keeper, caller))
        try:
            yield free
        finally:
            if free:
                with self._lock:
                    self._busy.subtract((keeper, caller))
                    self._busy = +self._busy  # nothing is kept of who has no call

    def _tell(self, caller: Caller, method: str, reason: str) -> None:
        """One line per kind of refusal: it is a fault or an attack, and may come thousands of times."""
        _REFUSALS.labels(caller.role if caller.role in policy.GRANTS else "unknown").inc()
        key = (caller, method, reason)
        with self._lock:
            if key in self._said or len(self._said) >= _REMEMBERED:
                return
            self._said.add(key)
        log.warning(
            "refused %s for certificate %r as %r: it %s", method[:80], caller.name[:80], caller.role[:80], reason
        )


class _Door(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Leads every call, known or not, to the gate."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def service(self, handler_call_details: Any) -> Any:
        method = str(handler_call_details.method)
        # With a stream of requests gRPC asks the gate before it waits for the first one.
        return grpc.stream_unary_rpc_method_handler(lambda ones, context: self._gate.call(method, ones, context))


def _first(requests: Iterator[bytes], context: Any) -> bytes:
    """The request of a call; one that does not come in time is cancelled, which ends the wait with a grpc.RpcError."""
    impatient = threading.Timer(_REQUEST, context.cancel)
    impatient.daemon = True
    impatient.start()
    try:
        return next(requests)
    except StopIteration:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call has no request")
        raise
    finally:
        impatient.cancel()


def _credentials(tls: Tls) -> Any:
    """Credentials of one port, which follow the files of `tls`; each port needs its own."""
    current_files = tlsfiles.current(tls)

    def renewed() -> Any | None:
        """The certificate for the next connection when it was replaced; gRPC asks at each, one at a time."""
        nonlocal current_files
        files = tlsfiles.current(tls)
        if files == current_files:
            return None
        current_files = files
        log.info("%s: a new certificate is in use", tls.cert)
        return _configuration(files)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(current_files), renewed, require_client_authentication=True
    )


def _configuration(files: tlsfiles.Files) -> Any:
    return grpc.ssl_server_certificate_configuration([(files.key, files.cert)], root_certificates=files.ca)
