"""One call to an address that somebody has named. The call reaches no private address, even if a name has changed."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

import judge
from judge.common import clock
from judge.common.text import one_line
from judge.common.webhooks.addresses import Network, may_go_to, url_fault
from judge.common.webhooks.tries import SECONDS

# Characters of an answer that are kept for people.
_ANSWER_CHARS: Final = 500
_AGENT: Final = f"judge/{judge.__version__}"
# Lookups at once: more than one person's calls can begin, of which each gives up after seconds and its lookup later.
LOOKUPS: Final = 256


@dataclass(frozen=True)
class CallOutcome:
    """The end of one call: the answer's status, or 0 and why there was none. `text` is the answer's beginning."""

    status: int
    text: str
    seconds: float
    retry_after: str = ""


class ForbiddenAddressError(OSError):
    """The name stands for an address to which nothing may be sent."""


class TooManyLookupsError(OSError):
    """So many names are being looked up that this one is not."""


class Lookups(AbstractResolver):
    """Looks up names for one event loop, in threads of its own, which do not keep the process from ending.

    A lookup may take a minute and cannot be interrupted: a few of them would fill the event loop's own threads.
    """

    def __init__(self) -> None:
        self._under_way = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a name; OSError for none, TooManyLookupsError."""
        if self._under_way >= LOOKUPS:
            raise TooManyLookupsError(errno.EAGAIN, "too many names are being looked up; it is tried again")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Any]] = loop.create_future()

        def ended(infos: list[Any], error: OSError | None) -> None:
            self._under_way -= 1
            if future.done():  # nobody waits any more
                return
            if error is None:
                future.set_result(infos)
            else:
                future.set_exception(error)

        def look() -> None:
            infos, error = _resolve(host, port, family)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(ended, infos, error)

        threading.Thread(target=look, name="lookup", daemon=True).start()
        self._under_way += 1
        return [_result(host, info) for info in await future]

    async def close(self) -> None:
        """Nothing is waited for."""


def _resolve(host: str, port: int, family: int) -> tuple[list[Any], OSError | None]:
    try:
        return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG), None
    except OSError as exc:
        return [], exc
    except ValueError as exc:  # a name that cannot be written as one
        return [], OSError(errno.EINVAL, str(exc))


def _result(host: str, info: Any) -> ResolveResult:
    family, _, proto, _, address = info
    return ResolveResult(
        hostname=host,
        host=str(address[0]),
        port=int(address[1]),
        family=family,
        proto=proto,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )


class Sender:
    """Makes calls, at most `limit` at once. One event loop uses it, by `async with`."""

    def __init__(
        self,
        allowed: Iterable[Network] = (),
        *,
        seconds: float = SECONDS,
        limit: int = 64,
        setting: str = "webhooks.networks",
    ) -> None:
        """`allowed`, by the setting of this name, are private networks that may be reached; a call takes `seconds`."""
        self._allowed = tuple(allowed)
        self._setting = setting
        self._seconds = seconds
        self._limit = limit
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # The last look is at the address that the socket is made for: no name can change between look and call.
        connector = aiohttp.TCPConnector(
            socket_factory=self._socket,
            resolver=Lookups(),
            limit=self._limit,
            force_close=True,
            use_dns_cache=False,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self._seconds),
            trust_env=False,
            auto_decompress=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(self, url: str, body: bytes, headers: Mapping[str, str], *, method: str = "POST") -> CallOutcome:
        """Send a body of JSON; never raises, follows no redirection."""
        session = self._session
        if session is None:
            raise RuntimeError("outside of `async with`")
        started = clock.monotonic()
        fault = url_fault(url, self._allowed, self._setting)
        if fault:
            return CallOutcome(0, f"the address {fault}", 0.0)
        sent_headers = {"User-Agent": _AGENT, "Content-Type": "application/json", **headers}
        try:
            async with session.request(method, url, data=body, headers=sent_headers, allow_redirects=False) as answer:
                text = (await answer.content.read(_ANSWER_CHARS)).decode("utf-8", "replace")
                after = answer.headers.get("Retry-After", "")
                return CallOutcome(
                    answer.status, one_line(text)[:_ANSWER_CHARS], clock.monotonic() - started, after[:100]
                )
        except TimeoutError:
            reason = f"no answer within {self._seconds:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            reason = _reason(exc)
        return CallOutcome(0, reason, clock.monotonic() - started)

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, address = info
        if not may_go_to(str(address[0]), self._allowed):
            raise ForbiddenAddressError(
                errno.EACCES, f"{address[0]} is no public address and in no network of {self._setting}"
            )
        return socket.socket(family, kind, protocol)


def _reason(exc: BaseException) -> str:
    inner = getattr(exc, "os_error", None) or exc
    exceptions = [inner, *getattr(inner, "exceptions", ())]
    for exception in exceptions:
        if isinstance(exception, ForbiddenAddressError | TooManyLookupsError):
            return str(exception.strerror)
    if isinstance(exc, aiohttp.ClientConnectorDNSError):
        return f"the name {exc.host} stands for no address"
    if (
        isinstance(inner, OSError)
        and inner.errno is not None
        and inner.errno > 0
        and not isinstance(exc, aiohttp.ClientSSLError)
    ):
        return os.strerror(inner.errno).lower()
    return one_line(str(exc) or type(exc).__name__)[:_ANSWER_CHARS]
