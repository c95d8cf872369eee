"""Leader election on one key, safe against freezes, hand deletion and lost answers (docs/protocol.md, rule 7).

Identity is the key's create_revision together with an incarnation uuid in its value, never a name: a restarted
process of the same name cannot inherit, refresh or release the old leadership. Seed: judicator `Lead`.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from judge.common import clock
from judge.common.errors import OutcomeUnknownError, UnavailableError
from judge.etcd.client import Etcd, KeyValue, LeaseGoneError

log = logging.getLogger(__name__)

MARGIN = 0.1  # of the TTL: two machines' clocks may run at slightly different speeds


def deadline(sent_at: float, ttl: float) -> float:
    """Until when (boottime) a leader may act that asked at `sent_at` and was given `ttl` seconds; pure.

    The server counts from when it handles the request, which is never before `sent_at`, so this ends before its lease
    does, however long the answer took.
    """
    return sent_at + ttl * (1.0 - MARGIN)


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of an election: the value it was given, its incarnation, and its fencing token."""

    value: str
    incarnation: str
    token: int
    address: str = ""


@dataclass(frozen=True, slots=True)
class _Tenure:
    """One leadership: immutable, so that other threads read it whole."""

    token: int
    lease: int
    deadline: float


def read_holder(etcd: Etcd, key: str) -> Holder | None:
    """The present holder, asked of a quorum; None when there is none. For status pages and `judgectl`."""
    kv = etcd.get(key)
    return None if kv is None else _holder(kv)


def _holder(kv: KeyValue) -> Holder:
    try:
        data = json.loads(kv.value)
        value, address = str(data["value"]), str(data.get("address", ""))
        return Holder(value, str(data["incarnation"]), kv.create_revision, address)
    except (ValueError, TypeError, KeyError):
        return Holder(kv.value, "", kv.create_revision)  # written by hand: held, but by nobody's incarnation


class Election:
    """One candidate. One thread calls `step` and `resign`; any thread may read `held` and `token`."""

    def __init__(
        self,
        etcd: Etcd,
        key: str,
        value: str,
        ttl: int,
        *,
        address: str = "",
        boottime: Callable[[], float] = clock.boottime,
    ) -> None:
        """Stand for `key` with `value` (who this is, for people); `ttl` in seconds. `boottime` is for tests.

        `address` is where the others find this candidate if it wins.
        """
        self.key = key
        self.value = value
        self.ttl = ttl
        self.address = address
        self.incarnation = uuid.uuid4().hex
        # The holder that the last step found, this candidate excepted.
        self.other: Holder | None = None
        self._etcd = etcd
        self._boottime = boottime
        self._tenure: _Tenure | None = None

    @property
    def interval(self) -> float:
        """Seconds between two steps that leave room for one failure: a third of the TTL."""
        return self.ttl / 3

    @property
    def held(self) -> bool:
        """Return whether this process may act as leader now; no request. Check it just before every act."""
        tenure = self._tenure
        return tenure is not None and self._boottime() < tenure.deadline

    @property
    def token(self) -> int:
        """The key's create_revision, which grows with every leadership; 0 when not held."""
        tenure = self._tenure
        return tenure.token if tenure is not None and self._boottime() < tenure.deadline else 0

    def step(self) -> bool:
        """Refresh the leadership or try to get it; whether it is held afterwards. Never raises UnavailableError.

        Without etcd a leadership runs out by itself; after a loss the next step, not this one, stands again, so that
        the caller sees every loss.
        """
        try:
            tenure = self._tenure
            if tenure is None:
                self._stand()
            else:
                self._refresh(tenure)
        except UnavailableError as exc:
            log.debug("%s: %s", self.key, exc)
        tenure = self._tenure
        if tenure is not None and not self.held:
            self._lose(tenure, "etcd did not confirm it in time")
        return self.held

    def resign(self) -> None:
        """Give the leadership up, if it is held, so that the next one need not wait for the TTL."""
        tenure, self._tenure = self._tenure, None  # first of all: from here on nothing acts as leader
        if tenure is None:
            return
        try:
            self._etcd.delete(self.key, tenure.token)
            self._etcd.revoke(tenure.lease)
        except UnavailableError as exc:
            log.warning("%s: could not give the leadership up, it ends with its lease: %s", self.key, exc)
        else:
            log.info("%s: gave the leadership up (token %d)", self.key, tenure.token)

    def _stand(self) -> None:
        holder_key = self._etcd.get(self.key)
        if holder_key is not None:
            holder = _holder(holder_key)
            if holder.incarnation == self.incarnation:  # an earlier request whose answer was lost did succeed
                self._refresh(_Tenure(holder_key.create_revision, holder_key.lease, 0.0))
            else:
                self.other = holder
            return
        sent_at = self._boottime()
        lease = self._etcd.grant(self.ttl)
        value = json.dumps({"value": self.value, "incarnation": self.incarnation, "address": self.address})
        try:
            created = self._etcd.create(self.key, value, lease.id)
        except OutcomeUnknownError:
            created = self._etcd.get(self.key)
            if created is not None and _holder(created).incarnation != self.incarnation:
                created = None
        except LeaseGoneError:
            return
        if created is None:
            # Also makes sure that a request without an answer cannot come into force later.
            self._etcd.revoke(lease.id)
            return
        self._win(_Tenure(created.create_revision, created.lease, deadline(sent_at, lease.ttl)))

    def _refresh(self, tenure: _Tenure) -> None:
        """Keepalive, then ask a quorum whether the key still is ours: either alone proves nothing."""
        sent_at = self._boottime()
        ttl = self._etcd.keepalive(tenure.lease)
        if ttl <= 0:
            self._lose(tenure, "its lease is gone")
            return
        if not self._etcd.held(self.key, tenure.token):
            self._lose(tenure, "its key was deleted or taken")
            self._etcd.revoke(tenure.lease)
            return
        renewed = _Tenure(tenure.token, tenure.lease, deadline(sent_at, ttl))
        if self._tenure is None:
            self._win(renewed)
        else:
            self._tenure = renewed

    def _win(self, tenure: _Tenure) -> None:
        self._tenure = tenure
        self.other = None
        if self.held:
            log.info("%s: %s leads (token %d)", self.key, self.value, tenure.token)

    def _lose(self, tenure: _Tenure, reason: str) -> None:
        self._tenure = None
        log.warning("%s: %s no longer leads (token %d): %s", self.key, self.value, tenure.token, reason)
