"""The keys that the members of the replica set write into etcd.

    mongodb/init          {"name", "address", "incarnation"}: the one data directory that may ever initiate (no lease)
    mongodb/rsid          the id of the replica set that it made, created once and never changed
    mongodb/member/NAME   {"address", "incarnation"}: this data directory wants to be a member (seed: reg_key)

None of them has a lease: a member that is down stays a member until somebody says that it has left.
"""

from __future__ import annotations

import json

from judge.common.errors import JudgeError, RefusedError
from judge.config import MongodbConfig
from judge.etcd.client import Etcd
from judge.mongodb.planner import Registered

INIT = "mongodb/init"
RSID = "mongodb/rsid"
MEMBER = "mongodb/member/"


def _fields(key: str, value: str, *names: str) -> list[str]:
    """The named texts of a JSON object in etcd; JudgeError names the key when it holds something else."""
    try:
        fields = json.loads(value)
        texts = [fields[name] for name in names]
    except (ValueError, KeyError, TypeError):
        texts = [None]
    if not all(isinstance(text, str) and text for text in texts):
        raise JudgeError(
            f"etcd key {key} holds {value[:80]!r}; expected a JSON object with {', '.join(names)}: correct or delete it"
        )
    return texts


class Registry:
    """The keys above for one member; errors of etcd pass through (UnavailableError and its subclasses)."""

    def __init__(self, etcd: Etcd, config: MongodbConfig, incarnation: str) -> None:
        """The member `config.name` at `config.address` with the data directory `incarnation`."""
        self._etcd = etcd
        self._name, self._address, self._incarnation = config.name, config.address, incarnation

    def rsid(self) -> str | None:
        """The recorded id of the replica set, None before it has been made."""
        entry = self._etcd.get(RSID)
        return entry.value if entry else None

    def record_rsid(self, rsid: str) -> str:
        """Record the id of the replica set unless one is recorded; returns the recorded one."""
        self._etcd.create(RSID, rsid)
        return self.rsid() or rsid

    def claim(self) -> Registered | None:
        """The data directory that may initiate the replica set, None while nobody has asked to."""
        entry = self._etcd.get(INIT)
        return Registered(*_fields(INIT, entry.value, "name", "address", "incarnation")) if entry else None

    def claim_init(self) -> Registered | None:
        """Ask to be the one that initiates (seed: `insert(init_key, address)`); returns who is."""
        fields = {"name": self._name, "address": self._address, "incarnation": self._incarnation}
        self._etcd.create(INIT, json.dumps(fields))
        return self.claim()

    def is_mine(self, claim: Registered | None) -> bool:
        """Return whether this very data directory made the claim; its name or address alone do not suffice."""
        return claim is not None and claim.incarnation == self._incarnation

    def was_mine(self, claim: Registered | None) -> bool:
        """Return whether this host made the claim with a data directory that it no longer has."""
        if claim is None or self.is_mine(claim):
            return False
        return claim.name == self._name or claim.address == self._address

    def entries(self) -> list[Registered]:
        """All registered members (seed: `get_list(reg_key)`); JudgeError when one of them cannot be read."""
        return [
            Registered(entry.key.removeprefix(MEMBER), *_fields(entry.key, entry.value, "address", "incarnation"))
            for entry in self._etcd.list(MEMBER)
        ]

    def others(self) -> list[Registered]:
        return [entry for entry in self.entries() if entry.address != self._address]

    def register(self) -> None:
        """Register this member (seed: `set(reg_key, address)`); RefusedError when another name has its address."""
        own_entry = Registered(self._name, self._address, self._incarnation)
        entries = self.entries()
        for entry in entries:
            if entry.address == self._address and entry.name != self._name:
                raise RefusedError(
                    f"address {self._address} is registered by '{entry.name}'; "
                    f"give '{self._name}' its own address, or delete etcd key {MEMBER}{entry.name} if that one is gone"
                )
        if own_entry not in entries:
            value = json.dumps({"address": self._address, "incarnation": self._incarnation})
            self._etcd.put(MEMBER + self._name, value)

    def withdraw(self) -> None:
        """Leave for good (seed: `delete(reg_key, address)`): the primary removes this member from the set."""
        self._etcd.delete(MEMBER + self._name)
