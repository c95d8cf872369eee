"""The daemon's own server behind nginx: streams of events, which take no thread of uWSGI, and the answer to /alive."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import uvloop
from aiohttp import web
from pydantic import ValidationError

import judge
from judge.common import clock
from judge.common.errors import JudgeError, NotFoundError, UnavailableError, UsageError
from judge.gateway import trace
from judge.gateway.api import answers, models
from judge.gateway.api.streaming import EVENTS, HEADER
from judge.gateway.auth import FileTokens
from judge.gateway.cluster import Cluster
from judge.gateway.identity import Identities
from judge.gateway.policy import HEADERS
from judge.gateway.streams import Streams
from judge.model import messages as m
from judge.model.cause import cause_of
from judge.model.streaming import Change, ChangesReply, ChangesRequest, Wish

log = logging.getLogger(__name__)

LISTENERS: Final = 6_000
_BEAT: Final = 1.0
_START_WAIT: Final = 5.0
_BACKLOG: Final = 1024
# Bytes that may wait in this process for one client; nginx and the kernel have buffers of their own.
_WRITE_BUFFER: Final = 64 * 1024


class EventServer:
    """The server of one gateway: an event loop in a thread of the daemon, at a socket that nginx alone uses."""

    def __init__(self, path: Path, cluster: Cluster, tokens: FileTokens, *, listeners: int = LISTENERS) -> None:
        self.serving = False
        self.turned = clock.monotonic()
        self._path = path
        self._cluster = cluster
        self._streams = Streams(self._changes, listeners, Identities(tokens, cluster).check)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._ready.wait(_START_WAIT)

    def stop(self) -> None:
        self._streams.close()
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_START_WAIT)
        self._path.unlink(missing_ok=True)

    def _run(self) -> None:
        try:
            uvloop.run(self._main())
        except Exception:
            # The check sees that the loop does not turn any more, and the daemon ends.
            log.exception("the server of events has ended")

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application()
        app.router.add_get("/alive", self._alive)
        app.router.add_get("/events", self._events)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=_BEAT)
        await runner.setup()
        await web.SockSite(runner, self._listen(), backlog=_BACKLOG).start()
        self._ready.set()
        try:
            while not self._stop.is_set():
                self.turned = clock.monotonic()
                try:
                    async with asyncio.timeout(_BEAT):
                        await self._stop.wait()
                except TimeoutError:
                    continue
        finally:
            await runner.cleanup()

    def _listen(self) -> socket.socket:
        # By the descriptor of its directory, since the name of a socket has room for 107 bytes only.
        directory = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            self._path.unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(f"/proc/self/fd/{directory}/{self._path.name}")
            self._path.chmod(0o600)
            return listener
        finally:
            os.close(directory)

    # --- requests ------------------------------------------------------------------------------------------------

    async def _alive(self, request: web.Request) -> web.StreamResponse:
        if not self.serving:
            error = UnavailableError("this gateway's server does not answer; try again in a few seconds")
            return _refusal(request, error)
        body = models.Alive(version=judge.__version__).model_dump_json()
        return web.Response(text=body, content_type="application/json", headers=_headers(request))

    async def _events(self, request: web.Request) -> web.StreamResponse:
        try:
            wish = Wish.model_validate_json(request.headers.get(HEADER, ""))
        except ValidationError:
            return _refusal(request, UsageError("a stream of events begins at the application"))
        response = web.StreamResponse(headers={**_headers(request), "Content-Type": EVENTS.media})

        async def send(data: bytes) -> None:
            if not response.prepared:
                writer = await response.prepare(request)
                assert writer is not None  # noqa: S101 - the request has no answer yet
                if request.transport is not None:
                    request.transport.set_write_buffer_limits(high=_WRITE_BUFFER)
            await response.write(data)

        try:
            await self._streams.listen(send, wish, self._current(wish))
        except JudgeError as exc:
            return _refusal(request, exc)
        except ConnectionError:
            if request.transport is not None:
                request.transport.abort()
        return response

    # --- the cluster ---------------------------------------------------------------------------------------------

    def _changes(self, request: ChangesRequest) -> ChangesReply:
        return self._cluster.call("changes", request, ChangesReply)

    def _current(self, wish: Wish) -> Callable[[], Awaitable[Change | None]]:
        def get() -> Change | None:
            try:
                task = self._cluster.call("get", m.GetRequest(id=wish.submission or ""), m.Task)
            except NotFoundError:
                return None
            return Change(
                id="0-0",
                submission=task.id,
                version=task.version,
                user=task.submission.user,
                problem=task.problem.name if task.problem is not None else None,
                language=task.submission.language,
                status=task.status,
                verdict=task.verdict,
                done=task.done,
                cause=cause_of(task.submission.cause, task.submission.check, rejudged=bool(task.past)),
            )

        async def current() -> Change | None:
            return await asyncio.to_thread(get)

        return current


def _headers(request: web.Request) -> dict[str, str]:
    number = trace.trace_of(request.headers.get(trace.HEADER, ""), request.headers.get("traceparent", ""))
    return {**HEADERS, "Cache-Control": "no-store", trace.HEADER: number}


def _refusal(request: web.Request, error: JudgeError) -> web.Response:
    text, media = answers.problem_text(error, request.headers.get("Accept", ""))
    retry = {"Retry-After": "2"} if error.http_status in {429, 503, 504} else {}
    headers = {**_headers(request), **retry, "Content-Type": media, "Vary": "Accept"}
    return web.Response(body=text.encode(), status=error.http_status, headers=headers)
