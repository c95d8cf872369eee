"""Notes of the gateway itself for the audit trail: log-ins and log-outs, and changes of its tokens."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from judge.common import clock
from judge.common.errors import JudgeError
from judge.config import GatewayConfig
from judge.gateway.auth import FileTokens
from judge.gateway.cluster import Cluster
from judge.model import messages as m
from judge.model.audit import Note, TokenSeen, TokensSeen

log = logging.getLogger(__name__)

# So many notes of one kind at once, then one each so many seconds; those between are counted in the next one.
BURST, REFILL_SECONDS = 10, 30.0
_KINDS = 1000
_PATIENCE = 2.0
_LOOK = 2.0


@dataclass
class _NoteKind:
    tokens: float
    refilled_at: float
    skipped: int = 0


class NoteBudget:
    """Bounds how often things of a kind happen: a bucket for each kind; the oldest are forgotten. For all threads."""

    def __init__(self, *, monotonic: Callable[[], float] = clock.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._kinds: OrderedDict[str, _NoteKind] = OrderedDict()

    def take(self, kind: str) -> int | None:
        """None: not now, it is counted. Else how many were counted since the last one that was not."""
        now = self._monotonic()
        with self._lock:
            bucket = self._kinds.setdefault(kind, _NoteKind(BURST, now))
            self._kinds.move_to_end(kind)
            while len(self._kinds) > _KINDS:
                self._kinds.popitem(last=False)
            bucket.tokens = min(BURST, bucket.tokens + (now - bucket.refilled_at) / REFILL_SECONDS)
            bucket.refilled_at = now
            if bucket.tokens < 1:
                bucket.skipped += 1
                return None
            bucket.tokens -= 1
            skipped, bucket.skipped = bucket.skipped, 0
            return skipped


class Notes:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._throttle = NoteBudget()

    def logged_in(self, user: str) -> None:
        """Somebody is about to get a session. UnavailableError: it cannot be noted, so they must not."""
        self._tell("login", user)

    def logged_out(self, user: str) -> None:
        """Somebody has given their session up; that must never fail."""
        try:
            self._tell("logout", user)
        except JudgeError as exc:
            log.warning("cannot record in the audit trail that %s logged out: %s", user, exc)

    def refused(self, method: str) -> None:
        """A token that nobody has, at the login page or the API. The answer does not depend on this note."""
        try:
            self._tell("login.failed", method, timeout=_PATIENCE)
        except JudgeError as exc:
            log.warning("cannot record in the audit trail that a log-in was refused: %s", exc)

    def _tell(self, action: str, name: str, timeout: float | None = None) -> None:
        # All strangers share one bucket: an address costs nothing.
        skipped = self._throttle.take(action if action == "login.failed" else f"{action} {name}")
        if skipped is None:
            return
        details: dict[str, str | int] = {"not noted before": skipped} if skipped else {}
        note = Note.model_validate({"action": action, "object": name, "details": details})
        self._cluster.call("audit_note", note, m.Empty, timeout=timeout)


class TokenWatch:
    """Tells the trail what is in tokens.yml whenever that changes; one per gateway, in its daemon."""

    def __init__(self, config: GatewayConfig) -> None:
        self._tokens = FileTokens(config.tokens)
        self._cluster = Cluster(config)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tokens", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End; a call that is under way is waited for up to so many seconds, and left behind after that."""
        self._stop.set()
        self._thread.join(seconds)
        if not self._thread.is_alive():
            self._cluster.close()

    def _run(self) -> None:
        reported: list[TokenSeen] | None = None
        failing = False
        while not self._stop.wait(0 if reported is None and not failing else _LOOK):
            now = [
                TokenSeen(user=token.user, role=token.role, fingerprint=token.fingerprint)
                for token in self._tokens.listed()
            ]
            if now != reported:
                try:
                    self._cluster.call("audit_tokens", TokensSeen(tokens=now), m.Empty)
                    reported, failing = now, False
                except JudgeError as exc:
                    if not failing:
                        log.warning("cannot record the current tokens in the audit trail yet: %s", exc)
                    failing = True
