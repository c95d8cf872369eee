"""Streams of server-sent events: who listens, and what each listener is sent. The application allows a listener first.

While anybody listens, one thread asks the cluster for changes, in long calls. All listeners of this gateway share its
answers. A listener is a connection and a task of an event loop, and costs some kilobytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import Counter as Metric
from prometheus_client import Gauge

from judge.common import clock
from judge.common.errors import JudgeError, LimitError, UnavailableError
from judge.gateway import disclosure
from judge.gateway.auth import Principal
from judge.gateway.identity import LIFETIME
from judge.model.cause import SYSTEM
from judge.model.people import Credential
from judge.model.streaming import Change, ChangesReply, ChangesRequest, Wish

log = logging.getLogger(__name__)

LISTENERS: Final = Gauge("judge_gateway_listeners", "Connections that receive events")
EVENTS: Final = Metric("judge_gateway_events_total", "Events sent to listeners")

# Seconds between two signs of life, and for a reader to take what was sent.
_BEAT, _PATIENCE = 15.0, 20.0
# Streams of one person, and events that wait for one slow reader.
_KEY_STREAMS, _QUEUE = 50, 2000
# Questions at once about events from before a listener came.
_HISTORIES: Final = 4
_WAIT, _RETRY, _OPENING, _IDLE = 20.0, 1.0, 5.0, 60.0
# Without an empty line after these: clients would make an empty event of it.
_BEGIN: Final = b"retry: 2000\n"
_ALIVE: Final = b":\n"

# Seconds between two checks of all listeners, and without an answer of the cluster after which a stream ends.
_CHECK, _UNSURE = 1.0, 60.0

Ask = Callable[[ChangesRequest], ChangesReply]
# Who credentials belong to now (judge.gateway.identity.Identities.check).
Check = Callable[[Iterable[Credential]], Mapping[Credential, Principal | None]]
# Sends bytes to the client; ConnectionError if the client has gone.
Send = Callable[[bytes], Awaitable[None]]
# The submission as it is now; None if there is no such submission any more.
Current = Callable[[], Awaitable[Change | None]]


def event(change: Change, number: str) -> bytes:
    """One event as it is sent. A listener that comes again sends the last `number` (Last-Event-ID)."""
    return _numbered(_data(change), number)


def _data(change: Change) -> bytes:
    """The data of an event, the same for all listeners."""
    return disclosure.change(change).model_dump_json(exclude={"id"}).encode()


def _numbered(data: bytes, number: str) -> bytes:
    return b"id: %b\nevent: submission\ndata: %b\n\n" % (number.encode(), data)


def _about_stream(name: str, place: str) -> bytes:
    """An event about the stream itself, with the place from which the stream goes on."""
    return f"id: {place}\nevent: {name}\ndata: {{}}\n\n".encode()


def order(place: str) -> tuple[int, ...]:
    """A key that sorts places as the log has them."""
    return tuple(int(part) for part in place.split("-"))


class _Listener:
    """One listener, and the changes that wait to be sent to it. `over`: the stream is to end.

    `checked`: when its credential and role were last known to be valid.
    """

    def __init__(self, wish: Wish) -> None:
        self.wish, self.credential, self.role = wish, wish.credential, str(wish.role)
        self.checked = clock.monotonic()
        self.waiting: deque[tuple[Change, bytes]] = deque()
        self.news = asyncio.Event()
        self.version = wish.version
        self.over = False

    @property
    def valid(self) -> bool:
        """Whether it may be sent anything now: nothing is while the cluster does not confirm its credential."""
        return clock.monotonic() - self.checked < LIFETIME

    def end(self) -> None:
        """End the stream; the client comes again."""
        self.over = True
        self.waiting.clear()
        self.news.set()

    def wants(self, change: Change) -> bool:
        if self.wish.submission is not None:
            return change.submission == self.wish.submission
        return self.wish.system or change.cause not in SYSTEM

    def add(self, change: Change, data: bytes) -> None:
        if not self.wants(change):
            return
        if len(self.waiting) >= _QUEUE:
            self.over = True
        else:
            self.waiting.append((change, data))
        self.news.set()


class Streams:
    """The listeners of one gateway, in its event loop. It calls `ask` in threads."""

    def __init__(self, ask: Ask, limit: int, check: Check) -> None:
        """Take at most `limit` listeners at once."""
        self._ask, self._limit, self._check = ask, limit, check
        self._checking: asyncio.Task[None] | None = None
        self._warning = ""
        self._all: set[_Listener] = set()
        self._by_user: dict[str, set[_Listener]] = {}
        self._count: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._following = self._closed = False
        self._heard = 0.0
        self._place: str | None = None
        self._opened = asyncio.Event()
        # One person asks for one history at a time, and keeps nobody else from theirs.
        self._histories = asyncio.Semaphore(_HISTORIES)
        self._history_of: dict[str, asyncio.Lock] = {}

    def close(self) -> None:
        self._closed = True

    async def listen(self, send: Send, wish: Wish, current: Current) -> None:
        """Send events until the client goes, the credential is no longer valid, or the submission is done.

        Raises:
            LimitError: too many listen already. Nothing was sent.
            UnavailableError: no judicator reports changes. Nothing was sent.
            ConnectionError: the client has gone, or does not read.

        """
        with self._registered(wish) as listener:
            await self._open()
            # A change from before the listener was registered comes in no event.
            now = await current() if wish.submission is not None else None
            await self._send(send, _BEGIN + self._begin_event(listener))
            try:
                await self._tell(send, listener, now)
            except JudgeError as exc:  # the answer has begun, so there is no place for another
                log.info("a stream of '%s' ends early: %s", wish.key, exc)

    async def _tell(self, send: Send, listener: _Listener, now: Change | None) -> None:
        if listener.wish.submission is not None:
            if now is None or await self._send_current(send, listener, now):
                return
        elif listener.wish.after is not None:
            await self._catch_up(send, listener, listener.wish.after)
        while not listener.over:
            data, over = self._take(listener) if listener.valid else (b"", False)
            if data:
                await self._send(send, data)
            if over:
                return
            listener.news.clear()
            if (listener.waiting and listener.valid) or listener.over:
                continue
            try:
                async with asyncio.timeout(_BEAT):
                    await listener.news.wait()
            except TimeoutError:
                await self._send(send, _ALIVE)

    async def _open(self) -> None:
        """Wait for the thread's first answer; UnavailableError."""
        try:
            async with asyncio.timeout(_OPENING):
                await self._opened.wait()
        except TimeoutError as exc:
            raise UnavailableError("no judicator reports changes at the moment; try again in a few seconds") from exc

    async def _send_current(self, send: Send, listener: _Listener, now: Change) -> bool:
        """Send the submission as it is, if that is news; returns whether it is done."""
        if now.version <= listener.version:
            return False
        listener.version = now.version
        await self._send(send, event(now, str(now.version)))
        return now.done

    def _begin_event(self, listener: _Listener) -> bytes:
        """For a new listener, an event with the place where its stream begins: a break may come before a change."""
        if listener.wish.submission is not None or listener.wish.after is not None:
            return b""
        listener.waiting.clear()
        return _about_stream("begin", self._place or "")

    def _take(self, listener: _Listener) -> tuple[bytes, bool]:
        """(the waiting events as bytes, whether nothing more can come)."""
        pieces, over = [], False
        while listener.waiting and not over:
            change, data = listener.waiting.popleft()
            if listener.wish.submission is None:
                pieces.append(_numbered(data, change.id))
            elif change.version > listener.version:
                listener.version, over = change.version, change.done
                pieces.append(_numbered(data, str(change.version)))
        EVENTS.inc(len(pieces))
        return b"".join(pieces), over

    async def _catch_up(self, send: Send, listener: _Listener, after: str) -> None:
        """Send the changes since a listener was here last, and drop those of them that also wait."""
        end = self._place or after
        while order(after) < order(end) and not listener.over:
            reply = await self._history(listener.wish, after)
            if not listener.valid:
                listener.end()
            if listener.over:
                return
            if reply.lost:
                await self._send(send, _about_stream("lost", reply.place))
            changes = [change for change in reply.changes if listener.wants(change)]
            if changes:
                await self._send(send, b"".join(event(change, change.id) for change in changes))
                EVENTS.inc(len(changes))
            if order(reply.place) <= order(after):
                break
            after = reply.place
        while listener.waiting and order(listener.waiting[0][0].id) <= order(after):
            listener.waiting.popleft()

    async def _history(self, wish: Wish, after: str) -> ChangesReply:
        lock = self._history_of.setdefault(wish.key, asyncio.Lock())
        async with lock, self._histories:
            return await asyncio.to_thread(self._ask, ChangesRequest(after=after, user=wish.user))

    @staticmethod
    async def _send(send: Send, data: bytes) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                await send(data)
        except TimeoutError as exc:
            raise ConnectionError("the client does not read") from exc

    @contextlib.contextmanager
    def _registered(self, wish: Wish) -> Iterator[_Listener]:
        if len(self._all) >= self._limit:
            raise LimitError(f"{self._limit} connections to this gateway already receive events; try again later")
        if self._count[wish.key] >= _KEY_STREAMS:
            raise LimitError(f"'{wish.key}' has {_KEY_STREAMS} streams open here; close one first")
        listener = _Listener(wish)
        group = self._by_user.setdefault(wish.user or "", set())
        group.add(listener)
        self._all.add(listener)
        self._count[wish.key] += 1
        self._heard = clock.monotonic()
        LISTENERS.set(len(self._all))
        self._follow_changes()
        try:
            yield listener
        finally:
            self._all.discard(listener)
            group.discard(listener)
            if not group:
                self._by_user.pop(wish.user or "", None)
            self._count[wish.key] -= 1
            if not self._count[wish.key]:
                del self._count[wish.key]
                self._history_of.pop(wish.key, None)
            LISTENERS.set(len(self._all))

    # --- whether they still may listen ---------------------------------------------------------------------------

    async def _check_all(self) -> None:
        """Check all listeners every second, with one question to the cluster; returns once nobody listens."""
        while self._all:
            await asyncio.sleep(_CHECK)
            await self._check_once()

    async def _check_once(self) -> None:
        """End the streams whose credential is no longer valid, or whose role has changed.

        The application decides anew when the listener comes again.
        """
        began, listeners = clock.monotonic(), list(self._all)
        principals: Mapping[Credential, Principal | None] = {}
        warning = ""
        try:
            principals = await asyncio.to_thread(self._check, {listener.credential for listener in listeners})
        except JudgeError as exc:
            warning = str(exc)
            if warning != self._warning:
                log.warning("no judicator confirms that the listeners still have access: %s", exc)
        self._warning = warning
        for listener in listeners:
            principal = principals.get(listener.credential)
            if principal is not None and principal.role == listener.role:
                listener.checked = began
                if listener.waiting:
                    listener.news.set()
            elif principals or began - listener.checked > _UNSURE:
                listener.end()

    # --- what happens --------------------------------------------------------------------------------------------

    def _follow_changes(self) -> None:
        if self._checking is None or self._checking.done():
            self._checking = asyncio.get_running_loop().create_task(self._check_all())
        with self._lock:
            if self._following:
                return
            self._following = True
        self._place = None
        self._opened.clear()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._follow, args=(loop,), name="changes", daemon=True).start()

    def _follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ask for changes while anybody listens. A thread runs it."""
        place: str | None = None
        warning = ""
        try:
            while self._goes_on():
                try:
                    reply = self._ask(ChangesRequest(after=place, wait=_WAIT if place else 0.0))
                except JudgeError as exc:
                    if str(exc) != warning:
                        log.warning("listeners wait, because no judicator reports changes: %s", exc)
                    warning = str(exc)
                    clock.sleep(_RETRY)
                    continue
                warning = ""
                place = reply.place
                loop.call_soon_threadsafe(self._happened, reply)
        except RuntimeError:
            return  # the loop has ended
        finally:
            with self._lock:  # the next listener starts a thread again, however this one ends
                self._following = False

    def _goes_on(self) -> bool:
        """Whether anybody listens, or did a moment ago. The thread calls it."""
        with self._lock:
            now = clock.monotonic()
            if self._all:
                self._heard = now
            self._following = not self._closed and now - self._heard < _IDLE
            return self._following

    def _happened(self, reply: ChangesReply) -> None:
        self._place = reply.place
        self._opened.set()
        for change in reply.changes:
            data = _data(change)
            for listener in (*self._by_user.get(change.user, ()), *self._by_user.get("", ())):
                listener.add(change, data)
        if reply.lost:
            for listener in self._all:  # they come again, and go on from their last place
                listener.end()
