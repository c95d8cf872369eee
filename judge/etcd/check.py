"""The check thread of the etcd daemon: kills a server that does not serve. Seed: etcd `Check`."""

from __future__ import annotations

import contextlib
import http.client
import logging
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

from prometheus_client import Counter, Gauge

from judge.common.errors import JudgeError
from judge.config import CheckSettings, Tls
from judge.daemon import tlsfiles
from judge.daemon.process import ChildProcess
from judge.etcd.wire import Stubs, connect, credentials, grpc

log = logging.getLogger(__name__)

_LEARNER = "rpc not supported for learner"
_SERVING = Gauge("judge_etcd_serving", "1 while this host's etcd server or proxy serves")
_CHECKS = Counter("judge_etcd_checks", "Checks that found this host's server or proxy serving")
_KILLS = Counter("judge_etcd_check_kills", "Servers that were killed because they did not serve")


class Check(threading.Thread):
    """Asks every `interval` seconds; after `tries` failures in a row it kills the server, unless it is excused."""

    def __init__(
        self, child: ChildProcess, config: CheckSettings, serves: Callable[[], bool], excused: Callable[[], str]
    ) -> None:
        """`serves`: whether the server serves now. `excused`: why not serving is not its fault, or an empty text."""
        super().__init__(name=f"{child.name}-check", daemon=True)
        self.beats = 0  # grows with every check; the watchdog is fed by it
        self.serving = False
        self.ever_served = False
        self.killed = False
        self.failed = ""  # the reason to check no more; nobody would notice a server that hangs, so the daemon ends
        self._child = child
        self._config = config
        self._serves = serves
        self._excused = excused
        self._end = threading.Event()

    def run(self) -> None:
        """Check until `end` or until the server had to be killed; what nobody foresaw is kept in `failed`."""
        try:
            self._run()
        except Exception as exc:
            log.debug("check thread", exc_info=True)
            self.failed = f"internal error in the check of {self._child.name}: {type(exc).__name__}: {exc}"
        finally:
            _SERVING.set(0)

    def _run(self) -> None:
        failures = 0
        # Quick at first, so that a start is noticed as soon as it is over.
        pause = min(0.1, self._config.interval)
        while not self._end.wait(pause):
            self.serving = self._serves()
            self.ever_served = self.ever_served or self.serving
            self.beats += 1
            _SERVING.set(self.serving)
            if self.serving:
                _CHECKS.inc()
                failures = 0
                pause = self._config.interval
                continue
            failures += 1
            if failures >= 10:
                pause = self._config.interval
            if failures < self._config.tries:
                continue
            excuse = self._excused()
            if not excuse:
                log.error("%s did not serve in %d checks, killing it", self._child.name, failures)
                _KILLS.inc()
                self.killed = True
                self._child.kill()
                break
            log.warning("%s does not serve yet: %s", self._child.name, excuse)
            failures = 0

    def end(self) -> None:
        """Stop checking and wait for the check that may be under way."""
        self._end.set()
        if self.ident is not None:
            self.join(timeout=30)


def serves(url: str, tls: Tls | None, timeout: float) -> bool:
    """Return whether etcd answers its clients at this URL within `timeout` seconds, over a new connection.

    It does once it has found a quorum. The question touches no database, so it can never harm a server that is just
    ending.
    """
    try:
        with connect(urlsplit(url).netloc, credentials(tls)) as channel:
            Stubs(channel).alive(b"", timeout=timeout)
    except grpc.RpcError as exc:
        return _LEARNER in (exc.details() or "")  # it answers, though not this question
    except JudgeError:
        return False
    return True


def answers(url: str, tls: Tls | None, timeout: float) -> bool:
    """Return whether a member answers its peers at this URL, over a new connection; it does from its start."""
    netloc = urlsplit(url).netloc
    try:
        if tls is None:
            connection = http.client.HTTPConnection(netloc, timeout=timeout)
        else:
            context = tlsfiles.client_context(tlsfiles.current(tls))
            connection = http.client.HTTPSConnection(netloc, timeout=timeout, context=context)
        with contextlib.closing(connection):
            connection.request("GET", "/version")
            return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException, JudgeError):
        return False
