"""The RPC server: HTTP/1.1 + JSON over mutual TLS (docs/protocol.md).

It knows transport, identity and errors; what a method does is the handlers' business (seed: start_rpc_server).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import logging
import re
import ssl
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web
from aiohttp.http import HttpProcessingError
from prometheus_client import Counter, Histogram
from pydantic import ValidationError

from judge.common import clock, endpoint
from judge.common.connections import hang_up
from judge.common.errors import (
    FieldError,
    ForbiddenError,
    JudgeError,
    NotFoundError,
    RefusedError,
    TooLargeError,
    UnavailableError,
    UsageError,
)
from judge.common.text import one_line
from judge.model.audit import HEADER, By
from judge.model.messages import ErrorBody, Message
from judge.model.several import OneCall
from judge.rpc import packs
from judge.rpc.faults import bad_request, check_values
from judge.rpc.listener import TlsListener
from judge.rpc.methods import BLOB_ROLES, EXECUTOR, GATEWAY, METHODS
from judge.rpc.pki import peer_identity, seconds_of
from judge.rpc.quotas import REPORT_BYTES, Quotas

log = logging.getLogger(__name__)

# Values in the JSON of a body; a report of 64 MiB has up to five million.
_VALUES, _REPORT_VALUES = 1_000_000, 6_000_000
# At the end the last answers have this many looks, this many seconds apart, to leave.
_TURNS, _TURN = 50, 0.02
# Seconds without a request on an open connection, slow heads included.
_IDLE = 75.0
# A body or an answer of N bytes may take so many seconds, and N divided by so many bytes per second.
_SLOW, _RATE = 20.0, 128 * 1024
# Bytes of the answer to several calls. One that repeats what was judged answers its result, of some MiB.
_TOGETHER = 1024**2
_SHA = re.compile(r"[0-9a-f]{64}")

SECONDS = Histogram("judge_rpc_seconds", "Time to answer an RPC call", ["method"])
ERRORS = Counter("judge_rpc_errors_total", "RPC calls answered with an error", ["method", "code"])


def _plainly(record: logging.LogRecord) -> bool:
    """Bytes that are no HTTP are one line of the log: they are the peer's fault, and our own calls send none."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args = f"{record.getMessage()}: {one_line(str(error.message or error))}", ()
        record.exc_info = record.exc_text = None
    return True


http_log = logging.getLogger(f"{__name__}.http")
http_log.addFilter(_plainly)


@dataclass(frozen=True)
class Peer:
    """The caller by the certificate, its common name and its role; and for whom they call, as a gateway says.

    `again`: an earlier try of this very call was begun, and its answer got lost. `issued`: since when the certificate
    is valid, in seconds since 1970.
    """

    name: str
    role: str
    by: By = dataclasses.field(default_factory=By)
    again: bool = False
    issued: float = 0.0


# Answers a method, by its name; never one of several.
Dispatch = Callable[[str, Any, Peer], Awaitable[Message]]
Translate = Callable[[Exception], JudgeError | None]
# Raises what a caller is told whose certificate is not welcome any more.
Welcome = Callable[[Peer], None]


class BlobStore(Protocol):
    async def size(self, sha: str) -> int | None: ...

    def read(self, sha: str) -> AsyncIterator[bytes]: ...

    async def take(self, sha: str, pieces: AsyncIterator[bytes], *, output: bool = False) -> None:
        """Store new pieces; FieldError: they have another hash. An `output` stays if a result refers to it."""

    async def store(self, contents: Mapping[str, memoryview]) -> None:
        """Store those of several blobs that are not there; FieldError when one is not what its hash says."""


def error_response(exc: JudgeError) -> web.Response:
    """The answer that carries an error of the tree; the client turns it back into its class."""
    text = ErrorBody.of(exc).model_dump_json()
    return web.Response(status=exc.http_status, text=text, content_type="application/json")


def _peer(request: web.Request) -> Peer:
    """The caller's identity; TLS has already checked that our CA signed it."""
    cert = request.get_extra_info("peercert")
    name, role = peer_identity(cert) if cert else ("", "")
    if not name or not role:
        raise ForbiddenError("the certificate names no host (CN) and role (OU); use one that this cluster's CA issued")
    header = request.headers.get(HEADER)
    issued = seconds_of(cert["notBefore"])
    if header is None or role != GATEWAY:
        return Peer(name, role, issued=issued)
    try:
        return Peer(name, role, By.received(header.encode()), issued=issued)
    except ValidationError as exc:
        raise UsageError(f"the header {HEADER} is not what it should be: {bad_request(exc)}") from None


def _too_slow(request: web.Request) -> UsageError:
    """The refusal of a body that does not come; its connection ends with it."""
    request.protocol.keep_alive(val=False)
    return UsageError("the body came too slowly; send it faster")


class Server:
    """One listening RPC server. `dispatch` answers the methods."""

    def __init__(
        self,
        dispatch: Dispatch,
        blobs: BlobStore,
        *,
        body_bytes: int,
        blob_bytes: int,
        translate: Translate = lambda _: None,
        welcome: Welcome = lambda _: None,
    ) -> None:
        """Nothing is opened yet; sizes are in bytes.

        `translate` turns a foreign exception of the handlers (a database's) into one of ours, if it knows it. `welcome`
        is asked at every request, before anything else is done.
        """
        self.dispatch = dispatch
        self.welcome = welcome
        self.blobs = blobs
        self.body_bytes = body_bytes
        self.blob_bytes = blob_bytes
        self.translate = translate
        self.stopping = False
        self.quotas = Quotas()
        self._runner: web.AppRunner | None = None
        self._listener: TlsListener | None = None

    def _application(self) -> web.Application:
        app = web.Application(
            middlewares=[self.deliver, self.errors], client_max_size=max(self.body_bytes, REPORT_BYTES) + 1
        )
        app.router.add_post("/rpc/{method}", self.call)
        app.router.add_get("/blobs/{sha}", self.get_blob)  # HEAD comes with it
        app.router.add_put("/blobs/{sha}", self.put_blob)
        app.router.add_put("/blobs", self.put_pack)
        return app

    def admit(self, request: web.Request) -> None:
        """Refuse a caller whatever they ask for.

        UnavailableError, which sends clients elsewhere, when this certificate has too many connections open;
        ForbiddenError when it is one of a host that was removed.
        """
        peer, transport = _peer(request), request.transport
        try:
            self.quotas.admit(peer.name, transport)
            self.welcome(peer)
        except (UnavailableError, ForbiddenError):
            request.protocol.keep_alive(val=False)
            raise

    @web.middleware
    async def deliver(self, request: web.Request, handler: Callable[..., Awaitable[web.StreamResponse]]) -> Any:
        """Send the answer, in bounded time: who reads nothing is cut off."""
        response = await handler(request)
        if isinstance(response, web.Response):
            length = len(response.body) if isinstance(response.body, bytes) else 0
            try:
                async with asyncio.timeout(_SLOW + length / _RATE):
                    await response.prepare(request)
                    await response.write_eof()
            except TimeoutError:
                log.warning("%s did not read its answer of %d bytes in time, hanging up", request.remote, length)
                hang_up(request.transport)
        return response

    @web.middleware
    async def errors(self, request: web.Request, handler: Callable[..., Awaitable[web.StreamResponse]]) -> Any:
        """Answer every failure with an ErrorBody that says nothing of the inside."""
        method = request.match_info.get("method") or "blob"
        label = method if method in METHODS or method == "blob" else "unknown"
        started = clock.monotonic()
        try:
            if not self.stopping:
                self.admit(request)
                return await handler(request)
            return error_response(UnavailableError("this judicator is stopping; ask another one"))
        except web.HTTPException as exc:
            error: JudgeError
            if exc.status == NotFoundError.http_status:
                error = NotFoundError(
                    f"{request.path} does not exist here; methods are under /rpc/, blobs under /blobs/"
                )
            elif exc.status == TooLargeError.http_status:
                error = TooLargeError(f"the body is larger than {self._limit(method)} bytes")
            else:
                error = UsageError(f"{request.method} {request.path}: {exc.reason}")
            ERRORS.labels(label, error.code).inc()
            return error_response(error)
        except Exception as exc:  # noqa: BLE001 - the caller is told of each, and the log of those that are a fault
            return error_response(self._error(exc, label, f"{request.method} {request.path}"))
        finally:
            SECONDS.labels(label).observe(clock.monotonic() - started)

    def _error(self, exc: Exception, label: str, what: str) -> JudgeError:
        """The error that a caller is told of, counted; what it is not made for is logged."""
        error = exc if isinstance(exc, JudgeError) else self.translate(exc)
        if error is None:
            trace = uuid.uuid4().hex[:12]
            log.error("internal error, trace %s, in %s", trace, what, exc_info=exc)
            error = JudgeError(f"internal error (trace {trace}); the judicator's log has the details")
        ERRORS.labels(label, error.code).inc()
        return error

    def _limit(self, method: str) -> int:
        large = method in METHODS and METHODS[method].large
        return max(self.body_bytes, REPORT_BYTES) if large else self.body_bytes

    async def call(self, request: web.Request) -> web.Response:
        """POST /rpc/NAME."""
        name = request.match_info["method"]
        method = METHODS.get(name)
        if method is None:
            raise NotFoundError(f"there is no method '{name}'; there are: {', '.join(sorted(METHODS))}")
        peer = _peer(request)
        if peer.role not in method.roles:
            raise ForbiddenError(f"a certificate of role '{peer.role}' may not call '{name}'")
        with self.quotas.body(peer.name, self._expected(request, name, self._limit(name))):
            body = await self._body(request, name, self._limit(name))
        check_values(body, _REPORT_VALUES if method.large else _VALUES, "the body")
        try:
            read = method.request.received if method.in_own_name else method.request.model_validate_json
            message: Any = read(body)
        except ValidationError as exc:
            raise bad_request(exc) from None
        if method.in_own_name and peer.role == EXECUTOR and message.executor != peer.name:
            raise ForbiddenError(f"the certificate of '{peer.name}' may not speak for executor '{message.executor}'")
        if method.each is not None:
            return await self._call_each(method.each, message.calls, peer)
        reply = await self.dispatch(name, message, peer)
        return web.Response(body=reply.model_dump_json().encode(), content_type="application/json")

    async def _call_each(self, name: str, calls: Sequence[OneCall], peer: Peer) -> web.Response:
        """Make several calls at once. Those for whose outcomes the answer has no room have an empty one."""
        used_bytes = 0

        async def encoded_outcome(call: OneCall) -> bytes:
            nonlocal used_bytes
            reply, error = await self._outcome(name, call, peer)
            if used_bytes > _TOGETHER:
                return b"{}"
            body = (reply or ErrorBody.of(error or JudgeError())).model_dump_json().encode()
            used_bytes += len(body)
            return b"{}" if used_bytes > _TOGETHER else b'{"%s":%s}' % (b"error" if reply is None else b"reply", body)

        outcomes = await asyncio.gather(*(encoded_outcome(call) for call in calls))
        return web.Response(body=b'{"outcomes":[%s]}' % b",".join(outcomes), content_type="application/json")

    async def _outcome(self, name: str, call: OneCall, peer: Peer) -> tuple[Message | None, JudgeError | None]:
        """The outcome of one of several calls, as if it had come alone."""
        started = clock.monotonic()
        try:
            return await self.dispatch(name, call.request, dataclasses.replace(peer, by=call.by)), None
        except Exception as exc:  # noqa: BLE001 - as for one alone
            return None, self._error(exc, name, f"one of several calls of '{name}'")
        finally:
            SECONDS.labels(name).observe(clock.monotonic() - started)

    @staticmethod
    def _expected(request: web.Request, name: str, limit: int) -> int:
        """Bytes of the body that comes; TooLargeError above the limit."""
        if (request.content_length or 0) > limit:
            raise TooLargeError(f"the body has {request.content_length} bytes; '{name}' takes at most {limit}")
        return request.content_length if request.content_length is not None else limit

    async def _body(self, request: web.Request, name: str, limit: int) -> bytes:
        try:
            async with asyncio.timeout(_SLOW + self._expected(request, name, limit) / _RATE):
                body = await request.read()
        except TimeoutError as exc:
            raise _too_slow(request) from exc
        if len(body) > limit:
            raise TooLargeError(f"the body has {len(body)} bytes; '{name}' takes at most {limit}")
        return body

    @staticmethod
    def _blob_peer(request: web.Request) -> Peer:
        peer = _peer(request)
        if peer.role not in BLOB_ROLES:
            raise ForbiddenError(f"a certificate of role '{peer.role}' may not read or write blobs")
        return peer

    def _sha(self, request: web.Request) -> str:
        self._blob_peer(request)
        sha = request.match_info["sha"]
        if not _SHA.fullmatch(sha):
            raise FieldError("sha", "a blob is named by its SHA-256, 64 lower-case hexadecimal digits")
        return sha

    async def get_blob(self, request: web.Request) -> web.StreamResponse:
        """GET and HEAD /blobs/SHA; damaged content never arrives whole."""
        sha = self._sha(request)
        size = await self.blobs.size(sha)
        if size is None:
            raise NotFoundError(f"there is no blob {sha}")
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        response.content_length = size
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        digest, last = hashlib.sha256(), b""
        try:
            async with asyncio.timeout(_SLOW + size / _RATE):
                async for piece in self.blobs.read(sha):
                    digest.update(piece)
                    await response.write(last)
                    last = piece
                if digest.hexdigest() == sha:
                    await response.write(last)
                    await response.write_eof()
                    return response
            log.error("blob %s is damaged in the database: its content does not have this hash", sha)
        except Exception as exc:
            if self.translate(exc) is None and not isinstance(exc, JudgeError | OSError):
                raise
            log.warning("blob %s: reading broke off: %s", sha, exc)
        # The status is sent, so the only way left to say "failed" is to break off before the end.
        ERRORS.labels("blob", "damaged").inc()
        hang_up(request.transport)
        return response

    async def put_blob(self, request: web.Request) -> web.Response:
        """PUT /blobs/SHA; a blob that is there already is not written again."""
        sha = self._sha(request)
        if (request.content_length or 0) > self.blob_bytes:
            raise TooLargeError(f"the blob has {request.content_length} bytes; the limit is {self.blob_bytes}")
        pieces = self._pieces(request)
        try:
            async with asyncio.timeout(_SLOW + (request.content_length or self.blob_bytes) / _RATE):
                await self.blobs.take(sha, pieces, output=_peer(request).role == "executor")
        except TimeoutError as exc:
            raise _too_slow(request) from exc
        return web.Response(status=204)

    async def put_pack(self, request: web.Request) -> web.Response:
        """PUT /blobs: several blobs at once (packs.py)."""
        peer = self._blob_peer(request)
        # Blobs on their way count until they are stored: that is how much of them is in memory.
        with self.quotas.body(peer.name, self._expected(request, "PUT /blobs", packs.MOST)):
            contents = packs.unpack(await self._body(request, "PUT /blobs", packs.MOST))
            if max(map(len, contents.values()), default=0) > self.blob_bytes:
                raise TooLargeError(f"a blob is larger than the limit of {self.blob_bytes} bytes")
            await self.blobs.store(contents)
        return web.Response(status=204)

    async def _pieces(self, request: web.Request) -> AsyncIterator[bytes]:
        total = 0
        async for piece in request.content.iter_any():
            total += len(piece)
            if total > self.blob_bytes:
                raise TooLargeError(f"the blob is larger than the limit of {self.blob_bytes} bytes")
            yield piece

    # --- start and stop ----------------------------------------------------------------------------------------

    async def start(self, listen: str, context: ssl.SSLContext, grace: float) -> None:
        """Listen on `host:port`; `grace` seconds is what requests in flight get at stop. RefusedError: port in use."""
        # A caller that hangs up cancels its handler, so that nobody is woken for an executor that is gone.
        self._runner = web.AppRunner(
            self._application(),
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=grace,
            keepalive_timeout=_IDLE,
            logger=http_log,
        )
        await self._runner.setup()
        server = self._runner.server
        assert server is not None  # noqa: S101 - of a runner that is set up
        connection_made = server.connection_made

        def counted(handler: web.RequestHandler, transport: asyncio.Transport) -> None:
            """Count each connection as soon as its handshake is over, and not only with its first request."""
            connection_made(handler, transport)
            cert = transport.get_extra_info("peercert")
            self.quotas.connected(peer_identity(cert)[0] if cert else "", transport)

        server.connection_made = counted  # type: ignore[method-assign]
        self._listener = TlsListener(server, context)
        try:
            await self._listener.start(*endpoint.split(listen))
        except OSError as exc:
            await self._runner.cleanup()
            reason = exc.strerror or str(exc)
            raise RefusedError(f"cannot listen on {listen}: {reason}; choose a free address under 'listen'") from exc

    def refuse(self) -> None:
        """From now on answer every new request with 503, which sends clients to another judicator."""
        self.stopping = True

    async def stop(self) -> None:
        """Stop taking, finish what is in flight within the grace, close."""
        self.refuse()
        if self._runner is None:
            return
        server = self._runner.server
        connections = server.connections if server is not None else []
        transports = [connection.transport for connection in connections if connection.transport is not None]
        if self._listener is not None:
            self._listener.close()
        for transport in transports:
            # It waits for a goodbye only; closed for a second time, Python 3.11 would forget it.
            if transport.is_closing() and not transport.get_write_buffer_size():
                transport.abort()
        await self._runner.cleanup()
        # TLS says goodbye and then waits half a minute for an idle client to do the same. Nobody is owed more than
        # the answers that are on their way.
        for _ in range(_TURNS):
            with contextlib.suppress(AttributeError):  # as below
                if not any(transport.get_write_buffer_size() for transport in transports):
                    break
            await asyncio.sleep(_TURN)
        for transport in transports:
            # Python 3.11 forgets the TLS of a transport that is closed twice, as those are that were closing already.
            with contextlib.suppress(AttributeError):
                transport.abort()
        await asyncio.sleep(0)
