"""The addresses of judicators, as the RPC's clients find them (docs/protocol.md, rule 9)."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from judge.common import clock, endpoint, files
from judge.common.errors import UnavailableError
from judge.etcd.client import Etcd
from judge.etcd.registry import judicators

log = logging.getLogger(__name__)

_REFRESH = 10.0  # seconds


class EtcdEndpoints:
    """The judicators registered in etcd, cached; an etcd that is away leaves the last known ones in use.

    For RpcClient: `RpcClient(EtcdEndpoints(etcd, file), tls, timeout)`. `file` has the last known ones, one a line: a
    daemon that is started while etcd is away begins with them.
    One thread asks at a time, in the background: nobody waits for etcd who has addresses, and nobody longer than they
    want to who has none.
    """

    def __init__(self, etcd: Etcd, file: Path | None = None) -> None:
        self._etcd = etcd
        self._file = file
        self._lock = threading.Lock()
        self._addresses: list[str] = _read(file)
        self._asked_at: float | None = None
        self._answer: threading.Event | None = None  # of the question that is under way

    def __call__(self) -> list[str]:
        """`host:port` of each known one, at once; asks etcd meanwhile when the last answer is old."""
        if self._asked_at is None or clock.monotonic() - self._asked_at > _REFRESH:
            self._ask()
        with self._lock:
            return list(self._addresses)

    def refresh(self, seconds: float) -> None:
        """Ask again, as none of the known ones answered; waits `seconds` at most for what etcd says."""
        self._ask().wait(seconds)

    def _ask(self) -> threading.Event:
        """The event of the question that is under way, or of a new one."""
        with self._lock:
            if self._answer is None:
                self._asked_at = clock.monotonic()
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
                changed = bool(addresses) and addresses != self._addresses
                # An empty list also comes from leases that ran out while etcd was down: the old addresses may be right.
                self._addresses = addresses or self._addresses
                self._answer = None
            answer.set()
        if changed and self._file is not None:
            try:
                files.replace(self._file, "".join(f"{address}\n" for address in addresses), durable=False)
            except OSError as exc:
                log.warning("%s cannot be written: %s; this daemon needs etcd when it starts", self._file, exc.strerror)


def _read(file: Path | None) -> list[str]:
    """The addresses in a file; none of one that is not there or holds anything else."""
    if file is None:
        return []
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as exc:
        log.warning("%s cannot be read, the judicators' addresses come from etcd alone: %s", file, exc)
        return []
    return [line for line in lines if line and endpoint.host_port(line) is None]
