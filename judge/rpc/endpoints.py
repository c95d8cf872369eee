"""The addresses of judicators, as the RPC's clients find them (docs/protocol.md, rule 9)."""

from __future__ import annotations

import logging
import threading

from judge import clock
from judge.errors import UnavailableError
from judge.etcd.client import Etcd
from judge.etcd.registry import judicators

log = logging.getLogger(__name__)

_REFRESH = 10.0  # seconds


class EtcdEndpoints:
    """The judicators registered in etcd, cached; an etcd that is away leaves the last known ones in use.

    For RpcClient: `RpcClient(EtcdEndpoints(etcd), tls, timeout)`.
    One thread asks at a time, in the background: nobody waits for etcd who has addresses, and nobody longer than they
    want to who has none.
    """

    def __init__(self, etcd: Etcd) -> None:
        """Nothing is asked before the first call."""
        self._etcd = etcd
        self._lock = threading.Lock()
        self._known: list[str] = []
        self._asked: float | None = None
        self._answer: threading.Event | None = None  # of the question that is under way

    def __call__(self) -> list[str]:
        """`host:port` of each known one, at once; asks etcd meanwhile when the last answer is old."""
        if self._asked is None or clock.monotonic() - self._asked > _REFRESH:
            self._ask()
        with self._lock:
            return list(self._known)

    def refresh(self, seconds: float) -> None:
        """Ask again, as none of the known ones answered; waits `seconds` at most for what etcd says."""
        self._ask().wait(seconds)

    def _ask(self) -> threading.Event:
        """The event of the question that is under way, or of a new one."""
        with self._lock:
            if self._answer is None:
                self._asked = clock.monotonic()
                self._answer = threading.Event()
                threading.Thread(target=self._run, args=(self._answer,), name="endpoints", daemon=True).start()
            return self._answer

    def _run(self, answer: threading.Event) -> None:
        addresses: list[str] = []
        try:
            addresses = [entry.address for entry in judicators(self._etcd)]
        except UnavailableError as exc:
            log.debug("etcd did not say where the judicators are: %s", exc)
        finally:
            with self._lock:
                # An empty list also comes from leases that ran out while etcd was down: the old addresses may be right.
                self._known = addresses or self._known
                self._answer = None
            answer.set()
