"""Listeners: answers of server-sent events, which do not end. The app says what a listener may hear; no thread waits.

While anybody listens, one thread asks the cluster for changes, in long calls. All listeners of this gateway share its
answers. A listener is a connection and a task of the front's event loop, and costs some kilobytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from prometheus_client import Counter as Metric
from prometheus_client import Gauge
from pydantic import ValidationError

from judge import clock
from judge.errors import JudgeError, LimitError, UnavailableError
from judge.gateway import disclosure
from judge.gateway.front.connection import Client, ClientGone
from judge.gateway.front.turns import Turns
from judge.gateway.front.watching import ListenerWatch, Way
from judge.model.streaming import Change, ChangesReply, ChangesRequest, Wish

log = logging.getLogger(__name__)

LISTENERS: Final = Gauge("judge_gateway_listeners", "Connections that are sent events")
EVENTS: Final = Metric("judge_gateway_events_total", "Events sent to listeners")

HEADER: Final = "X-Judge-Listen"
# Seconds: between two signs of life; for a reader to take what was sent; between two looks whether it still may.
_BEAT, _PATIENCE, _ALLOWED = 15.0, 20.0, 60.0
# Signs of life for who sends no more, and seconds between them: one who is gone answers the first by a reset.
_PROBES, _PROBE = 2, 0.5
_EACH, _QUEUE = 50, 2000
# Questions at once about what happened before a listener came, and for how long one waits for its turn to ask.
_HISTORIES, _PATIENT = 4, 60.0
_WAIT, _RETRY, _OPENING, _IDLE = 20.0, 1.0, 5.0, 60.0
# Without an empty line after these: clients would make an empty event of it.
_BEGIN: Final = b"retry: 2000\n"
_ALIVE: Final = b":\n"

Ask = Callable[[ChangesRequest], ChangesReply]


def wish_of(start: bytes) -> tuple[bytes, Wish] | None:
    """(the head of an answer as the client gets it, what the listener may hear); None for other answers. Pure."""
    head, end, _ = start.partition(b"\r\n\r\n")
    if not end or f"\r\n{HEADER}: ".encode() not in head:
        return None
    lines = head.split(b"\r\n")
    mark, length = f"{HEADER}: ".encode(), b"content-length:"
    said = next(line for line in lines if line.startswith(mark))
    kept = [line for line in lines if line != said and not line.lower().startswith(length)]
    try:
        return b"\r\n".join([*kept, b"", b""]), Wish.model_validate_json(said.removeprefix(mark))
    except ValidationError:
        log.exception("the app allowed a listener something that cannot be understood")
        return None


def event(one: Change, number: str) -> bytes:
    """One event as it is sent. A listener that comes again sends the last `number` (Last-Event-ID)."""
    return _numbered(_data(one), number)


def _data(one: Change) -> bytes:
    """The data of an event, the same for all listeners."""
    return disclosure.change(one).model_dump_json(exclude={"id"}).encode()


def _numbered(data: bytes, number: str) -> bytes:
    return b"id: %b\nevent: submission\ndata: %b\n\n" % (number.encode(), data)


def _look_again() -> float:
    """The time of a listener's next check. Random, so that listeners who came together do not ask together."""
    return clock.monotonic() + _ALLOWED * random.uniform(0.5, 1.0)  # noqa: S311 - it spreads questions


def _said(what: str, place: str) -> bytes:
    """An event about the stream itself, with the place from which the stream goes on."""
    return f"id: {place}\nevent: {what}\ndata: {{}}\n\n".encode()


def order(place: str) -> tuple[int, ...]:
    """A key that sorts places as the log has them."""
    return tuple(int(part) for part in place.split("-"))


def nobody_says(_: ChangesRequest) -> ChangesReply:
    """Stands in for `ask` where there is no cluster; UnavailableError."""
    raise UnavailableError("this gateway has no cluster to listen to")


class _Listener:
    """One listener, and the changes that wait to be sent to it. `over`: the stream is to end."""

    def __init__(self, wish: Wish, way: Way) -> None:
        self.wish, self.way, self.role = wish, way, str(wish.role)
        self.sure = clock.monotonic()
        self.waiting: deque[tuple[Change, bytes]] = deque()
        self.news = asyncio.Event()
        self.version = wish.version
        self.over = False
        self.probes = 0

    @property
    def beat(self) -> float:
        """Seconds until the next sign of life."""
        return _PROBE if self.probes else _BEAT

    def goes(self, lost: bool) -> None:
        """The client has ended the connection, or sends no more: then it may have ended it, too."""
        if lost:
            self.end()
        else:
            self.probes = _PROBES
            self.news.set()

    def end(self) -> None:
        """End the stream; the client comes again."""
        self.over = True
        self.waiting.clear()
        self.news.set()

    def hears(self, one: Change, data: bytes) -> None:
        if self.wish.submission is not None and one.submission != self.wish.submission:
            return
        if len(self.waiting) >= _QUEUE:
            self.over = True
        else:
            self.waiting.append((one, data))
        self.news.set()


class Streams:
    """The listeners of one gateway, in its event loop. It calls `ask` in threads."""

    def __init__(self, ask: Ask, most: int, watch: ListenerWatch) -> None:
        """Take at most `most` listeners at once; `watch` looks whether they still may listen."""
        self._ask, self._most, self._watch = ask, most, watch
        self._watching: asyncio.Task[None] | None = None
        self._all: set[_Listener] = set()
        self._by: dict[str, set[_Listener]] = {}
        self._each: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._following = self._closed = False
        self._heard = 0.0
        self._place: str | None = None
        self._known = asyncio.Event()
        # A client that asks for much of what happened keeps nobody else from hearing of it.
        self._history = Turns(_HISTORIES, most, _EACH)

    def close(self) -> None:
        """Ask the cluster nothing more."""
        self._closed = True

    async def listen(
        self, client: Client, head: bytes, wish: Wish, way: Way, still: Callable[[], Awaitable[Wish | None]]
    ) -> None:
        """Send events until the client goes (ClientGone), `still` says that it may hear no more, or all is said.

        `way` is the listener's way in.
        """
        with self._one(wish, way) as mine:
            client.listens(mine.goes)
            await self._follows()
            # Changes from before the listener was known here are in the app's second answer.
            now = await still() if wish.submission is not None else wish
            await self._send(client, head + _BEGIN + self._from(mine))
            try:
                await self._tell(client, mine, now, still)
            except JudgeError as exc:  # the answer has begun, so there is no place for another
                log.info("a stream of '%s' ends early: %s", wish.key, exc)

    async def _tell(
        self, client: Client, mine: _Listener, now: Wish | None, still: Callable[[], Awaitable[Wish | None]]
    ) -> None:
        if now is None or await self._begins(client, mine, now):
            return
        if mine.wish.submission is None and mine.wish.after is not None:
            await self._catch_up(client, mine, mine.wish.after)
        allowed = _look_again()
        while not mine.over:
            data, over = self._take(mine)
            if data:
                await self._send(client, data)
            if over:
                return
            mine.news.clear()
            if mine.waiting or mine.over:
                continue
            try:
                async with asyncio.timeout(mine.beat):
                    await mine.news.wait()
            except TimeoutError:
                mine.probes = max(0, mine.probes - 1)
                await self._send(client, _ALIVE)
            if clock.monotonic() > allowed:
                allowed = _look_again()
                now = await still()
                if now is None or not mine.wish.same(now) or await self._begins(client, mine, now):
                    return

    async def _follows(self) -> None:
        """Wait for the thread's first answer; UnavailableError."""
        try:
            async with asyncio.timeout(_OPENING):
                await self._known.wait()
        except TimeoutError:
            raise UnavailableError("no judicator tells of changes at the moment; try again in a few seconds") from None

    async def _begins(self, client: Client, mine: _Listener, now: Wish) -> bool:
        """Send the wished submission as it is, when that is news; returns whether it is done."""
        if now.begin is None or now.begin.version <= mine.version:
            return False
        mine.version = now.begin.version
        await self._send(client, event(now.begin, str(now.begin.version)))
        return now.begin.done

    def _from(self, mine: _Listener) -> bytes:
        """For a new listener, an event with the place where its stream begins: a break may come before a change."""
        if mine.wish.submission is not None or mine.wish.after is not None:
            return b""
        mine.waiting.clear()
        return _said("begin", self._place or "")

    def _take(self, mine: _Listener) -> tuple[bytes, bool]:
        """(the waiting events as bytes, whether nothing more can come)."""
        pieces, over = [], False
        while mine.waiting and not over:
            one, data = mine.waiting.popleft()
            if mine.wish.submission is None:
                pieces.append(_numbered(data, one.id))
            elif one.version > mine.version:
                mine.version, over = one.version, one.done
                pieces.append(_numbered(data, str(one.version)))
        EVENTS.inc(len(pieces))
        return b"".join(pieces), over

    async def _catch_up(self, client: Client, mine: _Listener, after: str) -> None:
        """Send the changes since a listener was here last, and drop those of them that also wait."""
        end = self._place or after
        while order(after) < order(end) and not mine.over:
            request = ChangesRequest(after=after, user=mine.wish.user)
            async with self._history.turn(mine.wish.key, 1, _PATIENT):
                reply = await asyncio.to_thread(self._ask, request)
            if mine.over:
                return
            if reply.lost:
                await self._send(client, _said("lost", reply.place))
            if reply.changes:
                await self._send(client, b"".join(event(one, one.id) for one in reply.changes))
                EVENTS.inc(len(reply.changes))
            if order(reply.place) <= order(after):
                break
            after = reply.place
        while mine.waiting and order(mine.waiting[0][0].id) <= order(after):
            mine.waiting.popleft()

    @staticmethod
    async def _send(client: Client, data: bytes) -> None:
        client.write(data)
        try:
            await client.sent(asyncio.get_running_loop().time() + _PATIENCE)
        except (TimeoutError, LimitError):
            raise ClientGone from None

    @contextlib.contextmanager
    def _one(self, wish: Wish, way: Way) -> Iterator[_Listener]:
        if len(self._all) >= self._most:
            raise LimitError(f"{self._most} listen at this gateway already; try again later")
        if self._each[wish.key] >= _EACH:
            raise LimitError(f"'{wish.key}' has {_EACH} streams open here; close one first")
        mine = _Listener(wish, way)
        place = self._by.setdefault(wish.user or "", set())
        place.add(mine)
        self._all.add(mine)
        self._each[wish.key] += 1
        self._heard = clock.monotonic()
        LISTENERS.set(len(self._all))
        self._begin()
        try:
            yield mine
        finally:
            self._all.discard(mine)
            place.discard(mine)
            if not place:
                self._by.pop(wish.user or "", None)
            self._each[wish.key] -= 1
            self._each += Counter()
            LISTENERS.set(len(self._all))

    # --- what happens --------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._watch.run(lambda: self._all))
        with self._lock:
            if self._following:
                return
            self._following = True
        self._place = None
        self._known.clear()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._follow, args=(loop,), name="changes", daemon=True).start()

    def _follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ask for changes while anybody listens. A thread runs it."""
        place: str | None = None
        told = ""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            while self._goes_on():
                try:
                    reply = self._ask(ChangesRequest(after=place, wait=_WAIT if place else 0.0))
                except JudgeError as exc:
                    if str(exc) != told:
                        log.warning("listeners wait, no judicator tells of changes: %s", exc)
                    told = str(exc)
                    clock.sleep(_RETRY)
                    continue
                told = ""
                place = reply.place
                loop.call_soon_threadsafe(self._happened, reply)

    def _goes_on(self) -> bool:
        """Says whether anybody listens, or did a moment ago. The thread calls it."""
        with self._lock:
            now = clock.monotonic()
            if self._all:
                self._heard = now
            self._following = not self._closed and now - self._heard < _IDLE
            return self._following

    def _happened(self, reply: ChangesReply) -> None:
        self._place = reply.place
        self._known.set()
        for one in reply.changes:
            data = _data(one)
            for mine in (*self._by.get(one.user, ()), *self._by.get("", ())):
                mine.hears(one, data)
        if reply.lost:
            for mine in self._all:  # they come again, and go on from their last place
                mine.end()
