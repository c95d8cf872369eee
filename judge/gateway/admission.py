"""Admission of requests: failed log-ins cost an address time, and one client has a share of uWSGI's threads.

nginx asks `Admission.large_body` before it takes a body that is not small, so that strangers cannot fill its disk.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote

from flask import Flask, Response, g, request

from judge.common import clock
from judge.common.connections import group
from judge.common.errors import LimitError, TooLargeError, UnavailableError
from judge.common.text import size
from judge.config import GatewayConfig
from judge.gateway import devices
from judge.gateway.auth import (
    FileTokens,
    Principal,
    below,
    fingerprint,
    of_account,
    session_counts,
    token_digest,
    token_with,
)
from judge.gateway.identity import Identities

PATH: Final = "/.judge/admission"
# Bytes that a client may send who is not known (nginx.conf.j2 has the figure, too): a log-in with room to spare.
SMALL_BODY: Final = 64 * 1024
# Questions of the daemon and of nginx, which must not wait for a share.
_FREE: Final = frozenset({"admission", "api.alive"})
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_API: Final = "/api"
_LOGIN: Final = "/login"
_BLOBS: Final = f"{_API}/v1/blobs/"
_FREE_FAILURES, _SECONDS_EACH = 20, 3.0
_MOST_ADDRESSES: Final = 10_000
# Seconds for which a request waits while others of its client are served.
_PATIENCE: Final = 5.0
_LOGIN_PATIENCE: Final = 15.0
# A body above this size takes several times its size in memory: so many at once, and of one person.
_HEAVY: Final = 1024**2
_HEAVY_AT_ONCE, _HEAVY_EACH = 8, 2
_PIECE: Final = 256 * 1024
_SLASHES: Final = re.compile("/{2,}")
_PORT: Final = re.compile(r"\.?(?::\d*)?$")

StartResponse = Callable[..., Any]
WsgiApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]


class BusyError(LimitError):
    """A client has as many requests under way as one client may; the text says so."""


class Shares:
    """The share of each client in something of this process, as its threads; safe to use from many threads."""

    def __init__(self, share: int, waiters: int) -> None:
        """A client may hold `share`. So many `waiters` of all clients may wait for their turns."""
        self._each = max(1, share)
        self._waiters = max(1, waiters)
        self._waiting = 0
        self._held: Counter[str] = Counter()
        self._released = threading.Condition()

    @contextlib.contextmanager
    def share(self, client: str, patience: float = _PATIENCE) -> Iterator[None]:
        """Hold one for a client; BusyError if it holds its share for `patience` seconds, or too many wait."""
        with self._released:
            if self._held[client] >= self._each and not self._wait(client, patience):
                raise BusyError("you have too many requests in progress; wait for some of them to end")
            self._held[client] += 1
        try:
            yield
        finally:
            self._release(client)

    @contextlib.contextmanager
    def lent(self, client: str) -> Iterator[None]:
        """Do not count one that a client holds. Afterwards it counts again, also if the client has its share by now."""
        self._release(client)
        try:
            yield
        finally:
            with self._released:
                self._held[client] += 1

    def _release(self, client: str) -> None:
        with self._released:
            self._held[client] -= 1
            if not self._held[client]:
                del self._held[client]
            if self._waiting:
                self._released.notify_all()

    def _wait(self, client: str, patience: float) -> bool:
        if self._waiting >= self._waiters:
            return False
        self._waiting += 1
        try:
            return self._released.wait_for(lambda: self._held[client] < self._each, patience)
        finally:
            self._waiting -= 1


class AddressThrottle:
    """Failed log-ins by address: some are free, then each costs time. Not thread-safe.

    A user who has logged in from an address before can still log in when others fail there.
    """

    def __init__(self, burst: int, seconds: float) -> None:
        """`burst` failures at once are free; `seconds` pay for one."""
        self._burst, self._seconds = burst, seconds
        self._debts: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address: failures, as of when
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._wrong: OrderedDict[tuple[str, str], None] = OrderedDict()

    def wait(self, address: str, now: float) -> float:
        """Seconds until this address may try again; 0 when it may now."""
        return max(0.0, (self._debt(address, now) - self._burst + 1) * self._seconds)

    def wrong_token(self, address: str, digest: str, now: float) -> None:
        """Count a wrong token once: a program that repeats a revoked token guesses nothing."""
        if (address, digest) not in self._wrong:
            self.failed(address, now)
            self._wrong[address, digest] = None
            if len(self._wrong) > _MOST_ADDRESSES:
                self._wrong.popitem(last=False)

    def failed(self, address: str, now: float) -> None:
        self._debts[address] = (min(self._debt(address, now) + 1, self._burst), now)
        self._debts.move_to_end(address)
        if len(self._debts) > _MOST_ADDRESSES:
            self._debts.popitem(last=False)

    def forgive(self, address: str, now: float) -> None:
        """Take back a failure that was none."""
        self._debts[address] = (max(0.0, self._debt(address, now) - 1), now)

    def came_in(self, address: str, fingerprint: str) -> None:
        """A token was right."""
        self._known[address, fingerprint] = None
        self._known.move_to_end((address, fingerprint))
        if len(self._known) > _MOST_ADDRESSES:
            self._known.popitem(last=False)

    def knows(self, address: str, fingerprint: str) -> bool:
        """Return whether this token has been right from this address before."""
        return (address, fingerprint) in self._known

    def _debt(self, address: str, now: float) -> float:
        count, counted_at = self._debts.get(address, (0.0, now))
        return max(0.0, count - (now - counted_at) / self._seconds)


class Routing:
    """WSGI middleware that puts requests of an API at the path by which the application knows it.

    Several slashes are one, as clients join addresses carelessly. Under a host name of its own Judge0's API is at the
    root, as many clients keep no more of an address.
    """

    def __init__(self, app: WsgiApp, config: GatewayConfig) -> None:
        self._app = app
        self._prefix = config.judge0.prefix if config.judge0.enabled else None
        self._hosts = frozenset(config.judge0.hosts)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        environ["JUDGE_LOCATION"] = environ.get("JUDGE_PATH", "/")
        for key in ("JUDGE_PATH",) if "JUDGE_PATH" in environ else ("PATH_INFO",):
            environ[key] = self.route(environ.get("HTTP_HOST", ""), environ.get(key) or "/")
        answer = self._app(environ, start_response)
        # nginx takes it for a broken connection if uWSGI ends one before a body was read.
        while "uwsgi.version" in environ and environ["wsgi.input"].read(_PIECE):
            continue
        return answer

    def route(self, host: str, path: str) -> str:
        """The application's path for a path under this name of the gateway."""
        single = _SLASHES.sub("/", path)
        if self._prefix is not None and _PORT.sub("", host.lower()) in self._hosts:
            return self._prefix + single
        api = below(single, _API) or (self._prefix is not None and below(single, self._prefix))
        return single if api else path


class Admission:
    def __init__(self, config: GatewayConfig, tokens: FileTokens, identities: Identities) -> None:
        self._config = config
        self._tokens = tokens
        self._identities = identities
        self._judge0 = config.judge0.prefix if config.judge0.enabled else None
        self._shares = Shares(config.threads // 8, config.threads // 2)
        self._heavy = threading.BoundedSemaphore(_HEAVY_AT_ONCE)
        self._heavy_shares = Shares(_HEAVY_EACH, config.threads // 2)
        self._lock = threading.Lock()
        self._throttle = AddressThrottle(_FREE_FAILURES, _SECONDS_EACH)

    def register(self, app: Flask) -> None:
        app.add_url_rule(PATH, "admission", self.large_body, methods=["GET"], provide_automatic_options=False)
        app.before_request(self._begin)
        app.after_request(self._answered)
        app.teardown_request(self._end)
        app.wsgi_app = Routing(app.wsgi_app, self._config)  # type: ignore[method-assign]

    def place(self) -> contextlib.AbstractContextManager[None]:
        """Take a request's thread out of its person's share while it waits for the cluster, within other bounds."""
        return self._shares.lent(g.share)

    def large_body(self) -> Response:
        """Whether the person of a request may send its body: 204, 401 for strangers, 403 if it is too large."""
        environ = request.environ
        method, path = environ.get("JUDGE_METHOD", "GET"), environ.get("JUDGE_PATH", "/")
        length = environ.get("JUDGE_LENGTH", "")
        limits = self._config.limits
        try:
            principal = self._identify(method, path)
        except UnavailableError:
            return Response(status=401)
        if principal is None:
            return Response(status=403 if self._guests(path, method) else 401)
        blob = principal.judges and method == "PUT" and path.startswith(_BLOBS)
        location = str(environ.get("JUDGE_LOCATION", path))  # before a name of Judge0's API leads elsewhere
        if (path.startswith(_BLOBS) or location.startswith(_BLOBS)) and not blob:  # nginx takes more there
            return Response(status=403)
        most = max(limits.blob_bytes, limits.body_bytes) if blob else limits.body_bytes
        if length.isdigit() and int(length[:20]) > most:
            return Response(status=403)
        person = f"{'judge' if principal.judges else 'user'} {principal.user}"
        return Response(status=204, headers={"Judge-Person": quote(person)})

    # --- requests ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        g.admitted = contextlib.ExitStack()
        if request.endpoint in _FREE:
            return
        address = group(request.remote_addr or "")
        if request.method == "POST" and request.path == _LOGIN:
            # Log-ins of one address wait for one another: those under way count as failed until they are answered.
            g.admitted.enter_context(self._shares.share(f"{address} log-ins", _LOGIN_PATIENCE))
            self._begin_login(address)
            return
        length = request.content_length or 0
        principal = None
        with contextlib.suppress(UnavailableError):  # the application says so if it needs to know
            principal = self._identify(request.method, request.path)
            if principal is None and length > SMALL_BODY and self._guests(request.path, request.method):
                raise TooLargeError(f"the body is too large; without a token at most {size(SMALL_BODY)} are accepted")
        client = f"user {principal.user}" if principal else address
        # A flood of one kind leaves the same person the other kind.
        g.share = f"{client} {'reads' if request.method in _READING else 'changes'}"
        g.admitted.enter_context(self._shares.share(g.share))
        if length > _HEAVY and not request.path.startswith(_BLOBS):
            g.admitted.enter_context(self._heavy_shares.share(client, 4 * _PATIENCE))
            if not self._heavy.acquire(timeout=4 * _PATIENCE):
                raise UnavailableError("this gateway is receiving too many large bodies; try again in a few seconds")
            g.admitted.callback(self._heavy.release)

    def _begin_login(self, address: str) -> None:
        """Count a log-in as failed until it is answered: else a hundred guesses at once would be as free as one."""
        # A browser by which somebody has come in counts for itself: neighbours' wrong passwords do not hold it up.
        device = devices.any_device_of(request)
        counted = f"device {device}" if device else address
        with self._lock:
            wait = self._throttle.wait(counted, clock.monotonic())
            if not wait:
                self._throttle.failed(counted, clock.monotonic())
        if wait:
            raise _too_many(request.remote_addr or "", wait)
        g.login_counted = counted

    def _answered(self, response: Response) -> Response:
        counted = g.pop("login_counted", None)
        if counted is not None and response.status_code != 401:
            with self._lock:
                self._throttle.forgive(counted, clock.monotonic())
        return response

    @staticmethod
    def _end(_: BaseException | None) -> None:
        admitted = g.pop("admitted", None)
        if admitted is not None:
            admitted.close()

    # --- identity ------------------------------------------------------------------------------------------------

    def _identify(self, method: str, path: str) -> Principal | None:
        """The person by token or session, None for a stranger; LimitError after too many wrong tokens.

        Raises UnavailableError if no judicator can say.
        """
        token = token_with(method, path, self._judge0, request.headers.get, request.args.get)
        if token is None:
            return self._identities.by_session() if session_counts(method, path, self._judge0) else None
        address = group(request.remote_addr or "")
        name = self._fingerprint(token)
        with self._lock:
            sure = name is not None and self._throttle.knows(address, name)
            wait = 0.0 if sure else self._throttle.wait(address, clock.monotonic())
        if wait:
            raise _too_many(request.remote_addr or "", wait)
        principal = self._identities.by_token(token, request.remote_addr or "")
        g.identified = token, principal
        # Counted afterwards: many people behind one address may come at once for the first time.
        with self._lock:
            if principal is None:
                self._throttle.wrong_token(address, token_digest(token), clock.monotonic())
            elif not sure:
                self._throttle.came_in(address, name or "")
        return principal

    def _fingerprint(self, token: str) -> str | None:
        listed = self._tokens.find(token)
        if listed is not None:
            return listed.fingerprint
        return fingerprint(token_digest(token)) if of_account(token) else None

    def _guests(self, path: str, method: str) -> bool:
        """Whether a request without a token is served as the guest of Judge0's API."""
        prefix = self._judge0
        if not self._config.judge0.guest or prefix is None or not below(path, prefix):
            return False
        return token_with(method, path, prefix, request.headers.get, request.args.get) is None


def _too_many(address: str, wait: float) -> LimitError:
    seconds = max(1, round(wait + 0.5))
    error = LimitError(f"too many failed log-ins from {address}; try again in {seconds} s")
    g.retry_after = seconds
    return error
