"""The etcd daemon of executors and gateways: `etcd gateway`, a local address that reaches whichever member lives.

Seed: executor `Ectd daemon` (`--proxy`). etcd's own `--proxy` is gone from 3.6, and `grpc-proxy` breaks lease refresh.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from judge.common import clock
from judge.common.errors import EXIT_FAILED
from judge.config import EtcdConfig
from judge.daemon.notify import notify
from judge.daemon.process import ChildProcess
from judge.etcd.check import Check, serves
from judge.etcd.discovery import find_others
from judge.etcd.program import RETRY_DELAY, environment, parse_line, proxy_command, wait_for_ports

log = logging.getLogger(__name__)

_REDISCOVER = 30.0  # seconds between two looks at a DNS name; the proxy itself never looks again
_TICK = 0.1


class ProxyDaemon:
    """One run of the proxy daemon."""

    def __init__(
        self, config: EtcdConfig, binary: Path, stop: threading.Event, rediscover: float = _REDISCOVER
    ) -> None:
        """`rediscover`: seconds between two looks at the DNS name, when there is one."""
        self._config = config
        self._binary = binary
        self._stop = stop
        self._rediscover = rediscover

    def run(self) -> int:
        """Serve until told to stop, or until the proxy ends by itself; returns the exit code."""
        last_reason = ""
        while not self._stop.is_set():
            discovered = find_others(self._config)
            if discovered.others:
                code = self._serve(discovered.others)
                if code is not None:
                    return code
                continue
            reason = discovered.failed or "no member of the cluster is known"
            if reason != last_reason:
                log.info("waiting: %s", reason)
                last_reason = reason
            notify(f"STATUS=waiting: {reason}", "WATCHDOG=1", "EXTEND_TIMEOUT_USEC=60000000")
            self._stop.wait(self._config.check.interval)
        return 0

    def _serve(self, members: tuple[str, ...]) -> int | None:
        """Run the proxy for these members; None when they have changed."""
        config = self._config
        wait_for_ports([config.proxy_listen], config.stop_grace)
        timeout = max(1.0, config.check.interval)
        scheme = "http" if config.tls is None else "https"
        answering_since: float | None = None

        def reaches(address: str) -> bool:
            return serves(f"{scheme}://{address}", config.tls, timeout)

        def excuse() -> str:
            """Empty only when the members have answered for so long that the proxy must have tried them again."""
            nonlocal answering_since
            if not any(reaches(address) for address in members):
                answering_since = None
                return "no member of the cluster answers directly either"
            now = clock.monotonic()
            answering_since = now if answering_since is None else answering_since
            patient = now - answering_since <= 2 * RETRY_DELAY
            return "the members answer, and it will try them again soon" if patient else ""

        log.info("forwarding %s to %s", config.proxy_listen, ", ".join(members))
        child = ChildProcess(
            "etcd-proxy", proxy_command(config, self._binary, members), parse=parse_line, env=environment()
        )
        check = Check(child, config.check, lambda: reaches(config.proxy_listen), excuse)
        check.start()
        try:
            changed = self._watch(child, check, members)
        finally:
            check.end()
            code = child.poll()
            child.stop(config.stop_grace)
        if self._stop.is_set():
            return 0
        if changed:
            return None
        if check.failed:
            log.error("%s", check.failed)
        elif not check.killed:
            log.error("the etcd proxy ended with code %s: %s", code, child.last_line)
        return EXIT_FAILED

    def _watch(self, child: ChildProcess, check: Check, members: tuple[str, ...]) -> bool:
        """Until the proxy ends or the daemon is told to; True when the members behind the DNS name have changed."""
        notify("READY=1")
        beats = -1
        next_look = clock.monotonic() + self._rediscover
        while not self._stop.wait(_TICK) and child.poll() is None and not check.failed:
            if check.beats != beats:
                beats = check.beats
                state = "forwarding" if check.serving else "no member answers"
                notify("WATCHDOG=1", f"STATUS={state}")
            if self._config.cluster.dns and clock.monotonic() >= next_look:
                next_look = clock.monotonic() + self._rediscover
                discovered = find_others(self._config)
                if discovered.others and not discovered.failed and set(discovered.others) != set(members):
                    log.info("the members behind %s have changed", self._config.cluster.dns)
                    return True
        if self._stop.is_set():
            notify("STOPPING=1")
        return False
