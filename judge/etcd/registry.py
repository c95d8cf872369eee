"""Service registration under a lease, and who is registered. Seeds: judicator `Register`, executor `etcd.get_rpc`."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass

from judge.common.errors import OutcomeUnknownError, UnavailableError
from judge.etcd.client import Etcd, LeaseGoneError

log = logging.getLogger(__name__)

SERVICES = "judicator/service/"


@dataclass(frozen=True, slots=True)
class ServiceEntry:
    """One registered judicator: its name, its RPC address `host:port` and its version."""

    name: str
    address: str
    version: str


def entry_value(address: str, version: str) -> str:
    """The value that a judicator writes under `judicator/service/NAME`."""
    return json.dumps({"address": address, "version": version})


def judicators(etcd: Etcd) -> list[ServiceEntry]:
    """The registered judicators by name; an entry that is not ours to read is left out and logged."""
    services = []
    for kv in etcd.list(SERVICES):
        name = kv.key.removeprefix(SERVICES)
        try:
            data = json.loads(kv.value)
            services.append(ServiceEntry(name, str(data["address"]), str(data["version"])))
        except (ValueError, TypeError, KeyError):
            log.warning("%s: not a service entry: %.80s", kv.key, kv.value)
    return services


class Registration:
    """Keeps one key under a lease of its own; used from one thread."""

    def __init__(self, etcd: Etcd, key: str, value: str, ttl: int) -> None:
        """Nothing is written before the first `step`; `ttl` in seconds."""
        self.key = key
        self._etcd = etcd
        self._value = value
        self._ttl = ttl
        self._lease = 0

    def step(self) -> bool:
        """Refresh the lease, write the key again when it is lost; whether it stands. Call it every TTL/3.

        Never raises UnavailableError: without etcd it is False, and the next step tries again.
        """
        try:
            if self._lease and self._etcd.keepalive(self._lease) <= 0:
                log.warning("%s: the registration was lost with its lease, registering again", self.key)
                self._lease = 0
            if self._lease:
                entry = self._etcd.get(self.key)
                if entry is not None and entry.lease == self._lease and entry.value == self._value:
                    return True
                log.warning("%s: the key is missing or another's, registering again", self.key)
            else:
                self._lease = self._etcd.grant(self._ttl).id
            self._etcd.put(self.key, self._value, self._lease)
        except LeaseGoneError:
            self._lease = 0
            return False
        except OutcomeUnknownError:
            return False  # the lease stands; the next step reads what became of the key
        except UnavailableError as exc:
            log.debug("%s: %s", self.key, exc)
            return False
        log.info("%s: registered", self.key)
        return True

    def withdraw(self) -> None:
        """End the registration. Revoking the lease deletes the key only while it is this process's own."""
        lease, self._lease = self._lease, 0
        if not lease:
            return
        try:
            self._etcd.revoke(lease)
        except UnavailableError as exc:
            log.warning("%s: could not withdraw the registration, it ends with its lease: %s", self.key, exc)
        else:
            log.info("%s: withdrawn", self.key)
