"""The check thread of the etcd daemon: kills a server that does not serve. Seed: etcd `Check`."""

from __future__ import annotations

import http.client
import logging
import ssl
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

from prometheus_client import Counter, Gauge

from judge.config import Check as CheckConfig
from judge.config import Tls
from judge.process import ChildProcess

log = logging.getLogger(__name__)

_SERVING = Gauge("judge_etcd_serving", "1 while this host's etcd server or proxy serves")
_KILLS = Counter("judge_etcd_check_kills", "Servers that were killed because they did not serve")


class Check(threading.Thread):
    """Asks every `interval` seconds; after `tries` failures in a row it kills the server, unless it is excused."""

    def __init__(
        self, child: ChildProcess, config: CheckConfig, serves: Callable[[], bool], excused: Callable[[], str]
    ) -> None:
        """`serves`: whether the server serves now. `excused`: why not serving is not its fault, or an empty text."""
        super().__init__(name=f"{child.name}-check", daemon=True)
        self.beats = 0  # grows with every check; the watchdog is fed by it
        self.serving = False
        self.ever_served = False
        self.killed = False
        self._child = child
        self._config = config
        self._serves = serves
        self._excused = excused
        self._end = threading.Event()

    def run(self) -> None:
        """Check until `end` or until the server had to be killed."""
        failures = 0
        # Quick at first, so that a start is noticed as soon as it is over.
        pause = min(0.1, self._config.interval)
        while not self._end.wait(pause):
            self.serving = self._serves()
            self.ever_served = self.ever_served or self.serving
            self.beats += 1
            _SERVING.set(self.serving)
            if self.serving:
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
        _SERVING.set(0)

    def end(self) -> None:
        """Stop checking and wait for the check that may be under way."""
        self._end.set()
        self.join(timeout=30)


def answers(url: str, tls: Tls | None, timeout: float) -> bool:
    """Whether etcd answers at this client or peer URL within `timeout` seconds, over a new connection.

    The client port answers once the member has found a quorum, the peer port from the start. `/version` touches no
    database, so that asking can never harm a server that is just ending.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection: http.client.HTTPConnection
    if tls is None:
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
    else:
        context = ssl.create_default_context(cafile=str(tls.ca))
        context.load_cert_chain(tls.cert, tls.key)
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
    try:
        connection.request("GET", "/version")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
