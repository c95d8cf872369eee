"""The gateway's front: takes connections, has patience with slow ones, and hands whole requests to uWSGI.

It is one event loop in a thread of the daemon. A request takes a thread of uWSGI when all of it is here. The thread is
free again when it has answered, however slowly the client sends or reads. Each connection carries one request.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import http.client
import logging
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

import uvloop
from prometheus_client import Counter, Gauge

import judge
from judge import clock
from judge.config import GatewayConfig
from judge.crowd import Crowd, group
from judge.errors import JudgeError, LimitError, NotFoundError, TooLargeError, UnauthorizedError, UnavailableError
from judge.gateway import trace
from judge.gateway.api import models
from judge.gateway.front import bodies, streams, watching
from judge.gateway.front import head as heads
from judge.gateway.front.connection import Client, ClientGone
from judge.gateway.front.exchange import away, exchange, status_of
from judge.gateway.front.gate import SESSION, SMALL_BODY, CredentialKind, FrontGate, HttpCaller
from judge.gateway.front.head import HEAD_BYTES, Head, HeadTooLargeError
from judge.gateway.front.refusing import refusal, whole
from judge.gateway.front.room import Held, Room, open_files
from judge.gateway.front.turns import Pace, Places, Turns
from judge.gateway.front.watching import ListenerWatch
from judge.gateway.uwsgi import HARAKIRI, socket_name
from judge.model.streaming import Wish
from judge.text import size

log = logging.getLogger(__name__)

CONNECTIONS = Gauge("judge_gateway_connections", "Connections to this gateway", ["state"])
HELD = Gauge("judge_gateway_held_bytes", "Bytes of heads, bodies and answers in the front's memory")
TURNED_AWAY = Counter("judge_gateway_turned_away_total", "Connections ended or refused by the front", ["reason"])
Reason = Literal[
    "to make room", "for want of room", "for a slow head", "for want of memory", "after failed log-ins",
    "to let others transfer", "for a slow body", "for reading slowly",
]  # fmt: skip
for _reason in get_args(Reason):
    TURNED_AWAY.labels(_reason)

ALIVE = "/api/v1/alive"
_PIECE = 64 * 1024
# Bytes that are read at once of a large body, which has one of few places: by 64 KiB it took the front twice the time.
_LARGE_PIECE = 256 * 1024
_LARGE = 1024 * 1024
_SMALL_BODY, _SMALL_ANSWER = 16 * 1024, 256 * 1024
# Bytes that a parsed head costs beside its own: objects, by line.
_LINE = 200
_BEAT = 1.0
_SPARE_FILES = 512
_START_WAIT = 5.0


@dataclass(frozen=True)
class ClientBounds:
    """The bounds of a client. Times in seconds, rates in bytes per second, room in bytes.

    A body of N bytes may take `body` seconds and N / `rate`, an answer `answer` seconds and N / `rate`. One that is not
    small must move at half of `rate` at least in every `window`.
    """

    connections: int = 12_000
    connections_each: int = 1_000
    head: float = 10.0
    body: float = 10.0
    answer: float = 20.0
    rate: float = 64 * 1024
    window: float = 10.0
    linger: float = 2.0
    linger_bytes: int = 16 * 1024**2
    turn: float = 20.0
    queue: int = 2_000
    queue_each: int = 200
    large: int = 16
    large_each: int = 4
    large_address: int = 8
    large_patience: float = 30.0
    memory: int = 64 * 1024**2
    disk: int = 4 * 1024**3
    disk_each: int = 256 * 1024**2
    listeners: int = 6_000


class Front:
    """The front of one gateway. `serving`: whether uWSGI answers; its checker sets it."""

    def __init__(
        self,
        config: GatewayConfig,
        gate: FrontGate,
        listener: socket.socket,
        bounds: ClientBounds | None = None,
        changes: streams.Ask | None = None,
        ways: watching.Ask | None = None,
    ) -> None:
        """`listener` is a listening socket, which the front closes at its end.

        `changes` asks the cluster for changes, `ways` whether listeners still may listen.
        """
        self.serving = False
        self.turned = clock.monotonic()
        self.buffer = memoryview(bytearray(_LARGE_PIECE))
        self._config, self._gate, self._listener = config, gate, listener
        self._bounds = bounds = bounds or ClientBounds()
        self._slots = config.processes * config.threads
        self._address = listener.getsockname()[:2]
        self._directory = os.open(config.run_dir, os.O_PATH | os.O_DIRECTORY)
        # By the descriptor, since the name of a socket has room for 107 bytes only.
        self._uwsgi = f"/proc/self/fd/{self._directory}/{socket_name(config)}"
        self._crowd: Crowd[Client] = Crowd(0, 0)
        self._turns = Turns(self._slots, bounds.queue, bounds.queue_each)
        # A large body other than a blob takes several times its size in uWSGI.
        self._heavy = Turns(max(1, bounds.large // 2), bounds.queue, bounds.queue_each)
        self._places = Places(bounds.large, bounds.large_each, bounds.large_address, bounds.large_patience)
        limits = config.limits
        # A person may upload as many blobs at once as there are places for one person.
        self._shares = max(bounds.disk_each, limits.body_bytes), bounds.large_each * limits.blob_bytes
        self._room = Room(bounds.memory, max(bounds.disk, 4 * self._shares[1]))
        watch = ListenerWatch(ways or watching.nobody_says, gate.listed)
        self._streams = streams.Streams(changes or streams.nobody_says, bounds.listeners, watch)
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turned: dict[str, int] = {}
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="front", daemon=True)

    @property
    def uwsgi(self) -> str:
        """The path of uWSGI's socket, for this process."""
        return self._uwsgi

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()
        self._ready.wait(_START_WAIT)

    def stop(self) -> None:
        """End all connections and the thread, which is joined."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop may just have ended
                self._loop.call_soon_threadsafe(self._stop.set)
            self._streams.close()
            self._thread.join(_START_WAIT)
        self._listener.close()
        os.close(self._directory)

    def _run(self) -> None:
        try:
            uvloop.run(self._main())  # a fifth less of what each request costs here
        except Exception:
            # The checker notices that its turns have ended, and the daemon ends.
            log.exception("the front has ended")

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        bounds = self._bounds
        # A connection may need a second file, for a body or an answer that is not small.
        most = min(bounds.connections, (open_files(2 * bounds.connections + _SPARE_FILES) - _SPARE_FILES) // 2)
        self._crowd = Crowd(most, bounds.connections_each)
        server = await self._loop.create_server(self._client, sock=self._listener, backlog=4096)
        log.debug("at most %d connections, %d requests at once", most, self._slots)
        self._ready.set()
        async with server:
            while not self._stop.is_set():
                self.turned = clock.monotonic()
                self._report()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), _BEAT)
            server.close()
            for client in self._crowd:
                client.abort()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            if others:
                await asyncio.wait(others, timeout=_BEAT)

    def _client(self) -> Client:
        return Client(self, self._bounds.head, self._bounds.linger, self._bounds.linger_bytes)

    def _report(self) -> None:
        CONNECTIONS.labels("all").set(len(self._crowd))
        CONNECTIONS.labels("waiting for the client").set(self._crowd.waiting)
        HELD.set(self._room.memory)
        if self._turned:
            said = ", ".join(f"{count} {reason}" for reason, count in sorted(self._turned.items()))
            log.info("connections turned away in the last second: %s; %d are open", said, len(self._crowd))
            self._turned.clear()

    def _turn_away(self, reason: Reason) -> None:
        TURNED_AWAY.labels(reason).inc()
        self._turned[reason] = self._turned.get(reason, 0) + 1

    # --- what connections tell ------------------------------------------------------------------------------------

    def enters(self, client: Client) -> bool:
        """Says whether there is room for a new connection; another may have to go for it."""
        counted = not self._gate.proxied(client.peer)
        welcome, replaced = self._crowd.enter(client, group(client.peer), counted=counted)
        if replaced is not None:
            self._turn_away("to make room")
            replaced.abort()
        if not welcome:
            self._turn_away("for want of room")
        return welcome

    def asks(self, client: Client, head: bytes | None) -> None:
        """A head has come, or is too large (None)."""
        task = asyncio.get_running_loop().create_task(self._request(client, head))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def dawdles(self, _: Client) -> None:
        """A head has not come in time."""
        self._turn_away("for a slow head")

    def holds(self, more: int) -> None:
        """A connection holds more in memory, or less. When it is too much for all, the longest waiting are ended."""
        self._room.memory += more
        if more > 0 and self._room.full:
            for client in self._crowd.those_who_wait():
                if client.weight:
                    self._turn_away("for want of memory")
                    client.abort()
                    if not self._room.full:
                        return

    def leaves(self, client: Client) -> None:
        """A connection has ended."""
        self._crowd.leave(client)

    # --- one request ----------------------------------------------------------------------------------------------

    async def _request(self, client: Client, raw: bytes | None) -> None:
        head: Head | None = None
        retry = 2.0
        try:
            try:
                if raw is None:
                    raise HeadTooLargeError(f"the request's head is larger than {HEAD_BYTES} bytes")
                client.weigh(2 * len(raw) + raw.count(b"\n") * _LINE)
                head = heads.parse(raw)
                if head.path == ALIVE and head.method in {"GET", "HEAD"}:
                    await self._alive(client, head)
                    return
                head = self._gate.routed(head)
                if head.path == SESSION:  # from outside it would be a place to try tokens, where no failure counts
                    raise NotFoundError(f"there is nothing at {SESSION}")
                caller = self._gate.caller(head, client.peer)
                if caller.proof is not None:
                    caller = await self._proved(client, head, caller)
                retry = caller.retry_after or retry
                self._check(caller.retry_after, caller)
                await self._serve(client, head, caller)
            except JudgeError as exc:
                await self._refuse(client, head, exc, retry)
        except (ClientGone, OSError, TimeoutError):
            client.abort()
        except Exception:
            number = _number(head)
            log.exception("internal error %s in the front", number)
            await self._failed(client, head, number)

    def _check(self, wait: float, caller: HttpCaller) -> None:
        """LimitError if this caller has to wait."""
        if wait > 0:
            self._turn_away("after failed log-ins")
            raise LimitError(f"too many failed log-ins from {caller.address}; try again in {whole(wait)} s")

    async def _failed(self, client: Client, head: Head | None, number: str) -> None:
        """Tell of a fault of ours, unless an answer has begun: another inside it would be worse than none."""
        if head is not None:
            head = replace(head, fields=head.fields | {trace.HEADER.lower(): number})
        error = JudgeError(f"internal error {number}; the gateway's log has the details under this number")
        with contextlib.suppress(ClientGone, OSError, TimeoutError), contextlib.ExitStack() as stack:
            stack.callback(client.abort)
            if not client.began:
                await self._refuse(client, head, error, 0.0)
                stack.pop_all()

    async def _proved(self, client: Client, head: Head, caller: HttpCaller) -> HttpCaller:
        """The caller, once the app knows whether the session or token is in force. Equal questions are asked once."""
        proof = caller.proof or ""
        task = self._asked.get(proof)
        if task is None:
            task = self._asked[proof] = asyncio.get_running_loop().create_task(self._ask(head, caller))
            task.add_done_callback(lambda _: self._asked.pop(proof, None))
        await asyncio.wait([task])
        return replace(self._gate.caller(head, client.peer), proof=None)

    async def _ask(self, head: Head, caller: HttpCaller) -> None:
        fields = {name: text for name, text in head.fields.items() if name in {"host", "cookie"}}
        token = self._gate.token(head)
        if token is not None:  # whichever header it came in
            fields["authorization"] = f"Bearer {token}"
        packet = heads.packet(Head("GET", SESSION, "1.1", fields), caller.address, "http", self._address)
        start = b""
        with contextlib.suppress(JudgeError), self._held(caller, _SMALL_ANSWER) as answer:
            async with self._turn(caller):
                start = await exchange(self._uwsgi, packet, None, answer, HARAKIRI + 30)
        self._gate.said(caller.proof or "", status_of(start), heads.fields_of(start))

    def _turn(self, caller: HttpCaller, head: Head | None = None) -> contextlib.AbstractAsyncContextManager[None]:
        """A turn of uWSGI. One person's calls that are not held have an eighth: more at once hold up others."""
        known, quarter = caller.known is not None, self._slots // 4
        if known and head is not None and not self._gate.holds(head):
            what = "looking" if head.method in {"GET", "HEAD"} else "changing"
            return self._turns.turn(f"{caller.key} {what}", max(1, self._slots // 8), self._bounds.turn)
        most = max(1, self._slots * 3 // 4 - quarter if known else quarter)
        return self._turns.turn(caller.key, most, self._bounds.turn, known=known)

    def _heavy_turn(self, caller: HttpCaller) -> contextlib.AbstractAsyncContextManager[None]:
        """One of the few turns of uWSGI with a large body."""
        bounds = self._bounds
        return self._heavy.turn(caller.key, max(1, bounds.large_each // 2), bounds.turn, known=caller.known is not None)

    def _held(self, caller: HttpCaller, small: int) -> Held:
        """Room for a body or an answer of this caller."""
        share = self._shares[caller.known is not None and caller.known.judges]
        return Held(self._room, self._config.spool_dir, caller.key, share, small)

    async def _serve(self, client: Client, head: Head, caller: HttpCaller) -> None:
        with contextlib.ExitStack() as stack:
            login, begun, status = caller.tries is CredentialKind.LOGIN, False, 0
            if not login:
                self._gate.begins(caller)
                begun = True
            try:
                head, body = await self._body(client, head, caller, stack)
                self._crowd.works(client)
                answer = stack.enter_context(self._held(caller, _SMALL_ANSWER))
                large = body is not None and body.length > _LARGE and head.method == "POST"
                async with self._heavy_turn(caller) if large else contextlib.nullcontext(), self._turn(caller, head):
                    if login:  # those that wait for a turn do not count yet: a class logs in at once
                        self._check(self._gate.wait(caller), caller)
                        self._gate.begins(caller)
                        begun = True
                    packet = heads.packet(head, caller.address, self._gate.scheme(head, client.peer), self._address)
                    start = await exchange(self._uwsgi, packet, body, answer, HARAKIRI + 30)
                    status = status_of(start)
            finally:
                if begun:
                    self._gate.answered(caller, status)
            found = streams.wish_of(start) if head.method == "GET" else None
            if found is not None:
                stack.close()  # nothing of the request is held for a listener
                await self._listen(client, head, caller, *found)
                return
            self._crowd.waits(client)
            if answer.length > _LARGE:
                stack.enter_context(self._place(client, caller, "large downloads"))
            await self._deliver(client, answer)

    async def _listen(self, client: Client, head: Head, caller: HttpCaller, first: bytes, wish: Wish) -> None:
        """Send events. Now and then the front asks the app again whether it still allows that."""

        async def still() -> Wish | None:
            with (
                contextlib.suppress(JudgeError),
                self._held(caller, _SMALL_ANSWER) as answer,
            ):
                async with self._turn(caller):
                    packet = heads.packet(head, caller.address, self._gate.scheme(head, client.peer), self._address)
                    start = await exchange(self._uwsgi, packet, None, answer, HARAKIRI + 30)
                    found = streams.wish_of(start)
                    if found is not None or not away(status_of(start)):
                        return found[1] if found is not None else None
            return wish  # the app cannot tell now; the next look may

        way = self._gate.way(head)
        if way is None:  # tokens.yml has changed since the app looked
            raise UnauthorizedError("this token is not known here; ask the operator of the cluster for a new one")
        await self._streams.listen(client, first, wish, way, still)
        client.finish()

    @contextlib.contextmanager
    def _place(self, client: Client, caller: HttpCaller, what: str) -> Iterator[None]:
        """One of the few places for long transfers."""

        def give_way(reason: LimitError) -> None:
            self._turn_away("to let others transfer")
            client.interrupt(reason)

        with self._places.one(caller.key, group(caller.address), what, clock.monotonic(), give_way):
            client.piece = _LARGE_PIECE
            try:
                yield
            finally:
                client.interrupt(None)

    async def _body(
        self, client: Client, head: Head, caller: HttpCaller, stack: contextlib.ExitStack
    ) -> tuple[Head, Held | None]:
        """The head as uWSGI gets it, and the whole body.

        None for a body that this caller may not send: the app then says so without reading it. A body in chunks is
        joined first; no stranger may send one.
        """
        chunked = head.chunked and (caller.known is not None or self._gate.lets_guests_in(head))
        if not chunked and (head.chunked or head.length > caller.body_bytes or not head.length):
            if not head.chunked and head.length and self._gate.lets_guests_in(head):  # else the app would read it
                raise TooLargeError(f"the body is too large; without a token at most {size(SMALL_BODY)} are taken")
            return head, None
        body = stack.enter_context(self._held(caller, _SMALL_BODY))
        body.expect(0 if chunked else head.length)
        with contextlib.ExitStack() as places:

            def grown() -> None:
                places.enter_context(self._place(client, caller, "large uploads"))

            large = _LARGE if chunked else caller.body_bytes
            if head.length > _LARGE:
                grown()
            if head.fields.get("expect", "").lower() == "100-continue":
                client.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            bounds, most = self._bounds, caller.body_bytes if chunked else head.length
            pace = Pace(asyncio.get_running_loop().time(), most, bounds.body, bounds.rate, bounds.window)
            framing = bodies.Chunks() if chunked else bodies.Whole(head.length)
            try:
                await bodies.receive(client, framing, body, most, pace, large, grown)
            except bodies.SlowError:
                self._turn_away("for a slow body")
                raise
        return (head.of_length(body.length) if chunked else head), body if body.length else None

    # --- answers -------------------------------------------------------------------------------------------------

    async def _deliver(self, client: Client, answer: Held) -> None:
        whole = answer.whole
        if whole is not None:
            await self._send(client, whole)
            return
        bounds, loop = self._bounds, asyncio.get_running_loop()
        pace = Pace(loop.time(), answer.length, bounds.answer, bounds.rate, bounds.window)
        file, done = answer.pieces(), 0
        while piece := file.read(_PIECE):
            client.write(piece)
            while True:
                until = pace.until(loop.time(), done)
                if until is None:
                    self._turn_away("for reading slowly")
                    raise ClientGone
                with contextlib.suppress(TimeoutError):
                    await self._taken(client, until)
                    break
            done += len(piece)
        client.finish()

    async def _send(self, client: Client, data: bytes) -> None:
        """Send a small answer, and end."""
        client.write(data)
        try:
            until = asyncio.get_running_loop().time() + self._bounds.answer + len(data) / self._bounds.rate
            await self._taken(client, until)
        except TimeoutError:
            self._turn_away("for reading slowly")
            raise
        client.finish()

    @staticmethod
    async def _taken(client: Client, until: float) -> None:
        try:
            await client.sent(until)
        except LimitError:
            raise ClientGone from None  # the answer has begun, so the reason cannot be told

    async def _alive(self, client: Client, head: Head) -> None:
        if not self.serving:
            raise UnavailableError("this gateway's server does not answer; try again in a few seconds")
        await self._say(
            client, head, 200, models.Alive(version=judge.__version__).model_dump_json(), "application/json"
        )

    async def _refuse(self, client: Client, head: Head | None, error: JudgeError, retry: float) -> None:
        """Answer with one sentence; programs get it as the API's JSON."""
        text, kind, extra = refusal(self._gate, head, error, retry)
        await self._say(client, head, error.http_status, text, kind, extra)

    async def _say(self, client: Client, head: Head | None, status: int, text: str, kind: str, extra: str = "") -> None:
        body = text.encode()
        lines = (
            f"HTTP/1.1 {status} {http.client.responses.get(status, 'Error')}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\nCache-Control: no-store\r\n"
            f"X-Content-Type-Options: nosniff\r\n{trace.HEADER}: {_number(head)}\r\n{extra}\r\n"
        )
        self._crowd.waits(client)
        await self._send(client, lines.encode("latin-1") + (b"" if head and head.method == "HEAD" else body))


def _number(head: Head | None) -> str:
    """The id of a request, as the app makes it."""
    fields = head.fields if head else {}
    return trace.trace_of(fields.get(trace.HEADER.lower(), ""), fields.get("traceparent", ""))
