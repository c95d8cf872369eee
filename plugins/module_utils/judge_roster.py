"""Keeps the roster of a cluster: who belongs to it, whom it can do without, and how one name leaves all of it.

Used by judge_roster on a judicator's host, under the release's Python: with that host's own configs and certificates it
reads and changes etcd's members, MongoDB's registrations, and the database. What may be done is decided by pure
functions over what was read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from .judge_members import majority

ETC = Path("/etc/judge")
_POLL = 0.5
_ETCD = 20.0  # seconds for one question to etcd: hosts that work hard answer late, and nobody waits here
_GATES = 3.0  # seconds after which every gate of etcd refuses a certificate that is on the list
_SERVING = {"PRIMARY", "SECONDARY"}


class RosterError(Exception):
    """Something that cannot be read or changed now; the text is one sentence for the person who runs the playbook."""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nobody"


def refusals(roster: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The reasons why these names may not leave, a sentence each; empty when the cluster goes on without them.

    `roster` is what `Roster.read` returned.
    """
    sentences = []
    leaving = set(names)
    for kind, unit in (("etcd", "etcd"), ("mongodb", "MongoDB")):
        members = {entry["name"]: entry for entry in roster[kind]}
        if not leaving & members.keys():
            continue
        voters = {name for name, entry in members.items() if entry["votes"]}
        healthy = {name for name in voters if members[name]["healthy"]}
        remaining, down = voters - leaving, sorted(voters - leaving - healthy)
        if not members.keys() - leaving:
            sentences.append(
                f"{_listed(sorted(leaving & members.keys()))} is the last member of {unit}, which has the data"
            )
        elif len(healthy) < majority(len(voters)):
            sentences.append(
                f"{unit} has no majority now, so nothing can be changed ({_listed(sorted(voters - healthy))} is down); "
                "bring a member back first"
            )
        elif remaining and len(remaining & healthy) < majority(len(remaining)):
            sentences.append(
                f"of {unit} only {len(remaining & healthy)} of {len(remaining)} voters would be left healthy "
                f"({_listed(down)} is down); bring that back first, or remove it first"
            )
    return sentences


def unknown(roster: Mapping[str, Any], names: Sequence[str], inventory: Mapping[str, Sequence[str]]) -> list[str]:
    """One sentence for each name that neither the inventory nor the cluster has; it may be misspelt, or no name."""
    members = {entry["name"] for kind in ("etcd", "mongodb", "executors") for entry in roster[kind]}
    hosts = {name for group in inventory.values() for name in group}
    names_present = members | hosts | set(roster["judicators"]) | set(roster["refused"])
    return [
        f"'{name}' is no host of the inventory, and nothing in the cluster has that name; correct the name"
        for name in names
        if name not in names_present
    ]


def outages(roster: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The failures of a cluster while all of these hosts are stopped, a sentence each; empty when it goes on."""
    sentences = []
    for kind, unit in (("etcd", "etcd"), ("mongodb", "MongoDB")):
        members = {entry["name"]: entry for entry in roster[kind]}
        voters = {name for name, entry in members.items() if entry["votes"]}
        running = {name for name in voters if members[name]["healthy"]} - set(names)
        if set(names) & voters and len(running) < majority(len(voters)):
            sentences.append(
                f"of {unit} {len(running)} of {len(voters)} voters would run on, and {majority(len(voters))} decide"
            )
    return sentences


def remarks(roster: Mapping[str, Any], name: str) -> list[str]:
    sentences = []
    voters = [entry["name"] for entry in roster["etcd"] if entry["votes"] and entry["name"] != name]
    if any(entry["name"] == name for entry in roster["etcd"]):
        spare = (len(voters) - 1) // 2
        sentences.append(f"{len(voters)} of etcd's voters are left, of which {spare} may fail")
        sentences.append(
            "it knows MongoDB's key file and password, and its old certificate may still read who etcd's members are; "
            "if somebody else may have read its disk: "
            "playbooks/rotate.yml -e judge_rotate=ca,mongodb.keyfile,mongodb.password"
        )
    executors = {entry["name"] for entry in roster["executors"] if entry["alive"]}
    if executors == {name}:
        sentences.append("no executor that is alive is left: nothing is judged until there is another one")
    return sentences


def plan(roster: Mapping[str, Any], name: str, *, again: bool = False, before: float = 0.0) -> list[str]:
    """The changes that taking this name out makes, in order; empty when it has left and is refused.

    `again`: it has got new certificates since it was removed for the last time. `before`: seconds since 1970 up to
    which its certificates have to be refused; a run that was cut off has noted that moment, and perhaps told nobody.
    """
    steps = []
    if any(entry["name"] == name for entry in roster["mongodb"]):
        steps.append(f"MongoDB: the member {name} is withdrawn, and the primary takes it out of the replica set")
    if again or roster["refused"].get(name, -1.0) < before or name not in roster["refused"]:
        steps.append(f"certificates of {name} that were issued until now are refused by every judicator and etcd")
    if any(entry["name"] == name for entry in roster["etcd"]):
        steps.append(f"etcd: the member {name} is removed")
    if name in roster["judicators"]:
        steps.append(f"the registration of judicator {name} ends")
    if any(entry["name"] == name for entry in roster["executors"]):
        steps.append(f"executor {name} is forgotten; what it has in hand is judged by others")
    return steps


def forgotten(roster: Mapping[str, Any], refused: Mapping[str, float]) -> dict[str, float]:
    """The part of the controller's record (`before` by name) that the cluster does not refuse up to `before`."""
    return {name: before for name, before in refused.items() if roster["refused"].get(name, -1.0) < before}


def strangers(roster: Mapping[str, Any], inventory: Mapping[str, Sequence[str]]) -> list[str]:
    """Members of any kind that the inventory does not have as such, each with what it is.

    `inventory`: the inventory's judicators, executors and gateways, by group. A gateway is registered nowhere.
    """
    kinds = {
        "a member of etcd": ("judicators", [entry["name"] for entry in roster["etcd"]]),
        "a member of MongoDB": ("judicators", [entry["name"] for entry in roster["mongodb"]]),
        "a judicator": ("judicators", roster["judicators"]),
        # One that is off may come back with its certificate.
        "an executor": ("executors", [entry["name"] for entry in roster["executors"]]),
    }
    roles_of: dict[str, list[str]] = {}
    for kind, (group, names) in kinds.items():
        for name in names:
            if name not in inventory.get(group, []):
                roles_of.setdefault(name, []).append(kind)
    return [_stranger(name, kinds, inventory) for name, kinds in sorted(roles_of.items())]


def _stranger(name: str, kinds: Sequence[str], inventory: Mapping[str, Sequence[str]]) -> str:
    """The sentence about one of them, who is all of that."""
    groups = sorted(group for group, names in inventory.items() if name in names)
    remove = f"playbooks/remove.yml -e judge_remove={name}"
    if not groups:
        return f"{name} is {' and '.join(kinds)}, and not in the inventory; add it there, or take it out: {remove}"
    return (
        f"{name} is {' and '.join(kinds)}, and in the inventory only in {' and '.join(groups)}; put it back into its "
        f"group, or take it out and deploy it anew: {remove}, then site.yml"
    )


class Roster:
    """The cluster as this judicator's host reaches it."""

    def __init__(self) -> None:
        """Read the host's configs; ConfigError."""
        from judge import config  # noqa: PLC0415 - only the release's Python has it

        self.etcd = config.load(config.EtcdConfig, ETC / "etcd.yml")
        self.mongodb = config.load(config.MongodbConfig, ETC / "mongodb.yml")
        self.judicator = config.load(config.JudicatorConfig, ETC / "judicator.yml")

    # --- clients -----------------------------------------------------------------------------------------------

    def _members(self) -> AbstractContextManager[Any]:
        from judge.config import EtcdClient  # noqa: PLC0415
        from judge.etcd.client import Etcd  # noqa: PLC0415

        own_name = self.etcd.name
        peers = sorted(self.etcd.cluster.members, key=lambda peer: peer.name != own_name)
        endpoints = [peer.client.partition("://")[2] for peer in peers]
        return Etcd(EtcdClient(endpoints=endpoints, tls=self.etcd.tls, timeout=_ETCD))

    def _keys(self, config: Any) -> AbstractContextManager[Any]:
        from judge.etcd.client import Etcd  # noqa: PLC0415

        return Etcd(config.etcd.model_copy(update={"timeout": _ETCD}))

    def _database(self) -> Any:
        from judge.mongodb import store  # noqa: PLC0415

        return store.connect(self.judicator.mongodb, asynchronous=False)

    # --- looking -----------------------------------------------------------------------------------------------

    def read(self) -> dict[str, Any]:
        """Everybody, by kind. JudgeError when etcd or MongoDB does not answer."""
        from judge.common.pki.refused import DOCUMENT, KEYS, listed  # noqa: PLC0415
        from judge.etcd.registry import judicators  # noqa: PLC0415

        with self._members() as etcd:
            up = {status.member_id for status in etcd.status() if not status.error and status.leader_id}
            members = [
                {
                    "name": record.name or record.peer_urls[0],
                    "id": record.id,
                    "votes": not record.learner,
                    "healthy": record.id in up,
                }
                for record in etcd.members()
            ]
        with self._keys(self.judicator) as etcd:
            registered = sorted(entry.name for entry in judicators(etcd))
            gates = listed((kv.key.removeprefix(KEYS), kv.value) for kv in etcd.list(KEYS))
        client = self._database()
        try:
            mongodb = self._replica_set(client)
            database = client[self.judicator.mongodb.database]
            executors = [
                {"name": record["_id"], "alive": record["alive"], "drain": record["drain"]}
                for record in database.executors.find({}, {"alive": 1, "drain": 1}).sort("_id", 1)
            ]
            names = (database.meta.find_one({"_id": DOCUMENT}) or {"names": []})["names"]
        except self._driver_errors() as exc:
            raise self._translated(exc) from None
        finally:
            client.close()
        return {
            "etcd": sorted(members, key=lambda entry: str(entry["name"])),
            "mongodb": mongodb,
            "judicators": registered,
            "executors": executors,
            # By both lists; a host on one of them only is refused by a part of the cluster.
            "refused": {
                record["name"]: min(record["before"], gates[record["name"]])
                for record in names
                if record["name"] in gates
            },
        }

    def _replica_set(self, client: Any) -> list[dict[str, Any]]:
        """Every member by the name that it is registered under, and those that are registered and not members yet."""
        members = client.admin.command("replSetGetConfig")["config"]["members"]
        states = {entry["name"]: entry["stateStr"] for entry in client.admin.command("replSetGetStatus")["members"]}
        names = {address: name for name, address in self._registered().items()}
        # A member that nobody has registered any more is about to be removed by the primary.
        members_shown = [
            {
                "name": names.get(entry["host"], entry["host"]),
                "address": entry["host"],
                "votes": bool(entry["votes"]),
                "healthy": states.get(entry["host"]) in _SERVING,
            }
            for entry in members
        ]
        listed = {entry["host"] for entry in members}
        members_shown += [
            {"name": name, "address": address, "votes": False, "healthy": False}
            for address, name in names.items()
            if address not in listed
        ]
        return sorted(members_shown, key=lambda entry: str(entry["name"]))

    def _registered(self) -> dict[str, str]:
        import json  # noqa: PLC0415

        from judge.mongodb.registry import MEMBER  # noqa: PLC0415

        with self._keys(self.mongodb) as etcd:
            entries = etcd.list(MEMBER)
        addresses = {}
        for entry in entries:
            try:
                addresses[entry.key.removeprefix(MEMBER)] = str(json.loads(entry.value)["address"])
            except (ValueError, TypeError, KeyError):
                addresses[entry.key.removeprefix(MEMBER)] = "an entry that cannot be read"
        return addresses

    @staticmethod
    def _driver_errors() -> Any:
        from judge.mongodb import store  # noqa: PLC0415

        return store.DRIVER_ERRORS

    @staticmethod
    def _translated(exc: Exception) -> RosterError:
        from judge.mongodb import store  # noqa: PLC0415

        return RosterError(str(store.translate(exc)))  # type: ignore[arg-type]

    # --- leaving -----------------------------------------------------------------------------------------------

    def remove(self, name: str, before: float, patience: float) -> None:
        """Take a name out of everything; each step looks first, so a run that was cut off is finished by the next.

        Certificates that were issued before `before` (seconds since 1970) are refused from then on. `patience` is in
        seconds, for each step. RosterError when a step does not come to its end.
        """
        self._leave_replica_set(name, patience)
        self.refuse(name, before, patience)
        self._leave_etcd(name, patience)
        self._end_registration(name, patience)
        self._forget_executor(name, patience)

    def _leave_replica_set(self, name: str, patience: float) -> None:
        """First, while its daemon may still ask etcd: a primary that is no more registered steps down by itself."""
        from judge.mongodb.registry import MEMBER  # noqa: PLC0415

        address = self._registered().get(name)
        self._apply(self.mongodb, lambda etcd: etcd.delete(MEMBER + name), patience)

        def still_member() -> str:
            client = self._database()
            try:
                members = client.admin.command("replSetGetConfig")["config"]["members"]
            except self._driver_errors() as exc:
                return str(self._translated(exc))
            finally:
                client.close()
            hosts = [entry["host"] for entry in members]
            return f"the replica set still lists {address}" if address in hosts else ""

        if address is not None:
            self._until(still_member, patience, f"MongoDB has not removed {name}")

    def refuse(self, name: str, before: float, patience: float) -> None:
        """Both lists, each by one write; a later moment replaces an earlier one."""
        from judge.common.pki.refused import DOCUMENT, KEYS, value  # noqa: PLC0415

        client = self._database()
        try:
            meta = client[self.judicator.mongodb.database].meta
            meta.update_one({"_id": DOCUMENT}, {"$setOnInsert": {"names": []}}, upsert=True)
            kept_names = {"$filter": {"input": "$names", "cond": {"$ne": ["$$this.name", {"$literal": name}]}}}
            entry = [{"name": {"$literal": name}, "before": before}]
            meta.update_one({"_id": DOCUMENT}, [{"$set": {"names": {"$concatArrays": [kept_names, entry]}}}])
        except self._driver_errors() as exc:
            raise self._translated(exc) from None
        finally:
            client.close()
        self._apply(self.judicator, lambda etcd: etcd.put(KEYS + name, value(before)), patience)

    def _leave_etcd(self, name: str, patience: float) -> None:
        """Its daemon joins again, as a learner that has no name at first, until the gates refuse it."""
        urls: set[str] = set()

        def removed() -> list[str]:
            with self._members() as etcd:
                mine = [entry for entry in etcd.members() if entry.name == name or urls & set(entry.peer_urls)]
                urls.update(url for member in mine for url in member.peer_urls)
                for member in mine:
                    etcd.member_remove(member.id)
            return [f"member {member.id:x}" for member in mine]

        self._stays_gone(removed, patience, f"etcd has not removed {name}")

    def _end_registration(self, name: str, patience: float) -> None:
        """It would end with its lease; the member of MongoDB, which has none, may have registered anew."""
        from judge.etcd.registry import SERVICES  # noqa: PLC0415
        from judge.mongodb.registry import MEMBER  # noqa: PLC0415

        places = ((self.judicator, SERVICES + name), (self.mongodb, MEMBER + name))
        self._stays_gone(
            lambda: [key for config, key in places if self._dropped(config, key)],
            patience,
            f"the registration of {name} does not end",
        )

    def _stays_gone(self, drop: Callable[[], list[str]], patience: float, sentence: str) -> None:
        """Take away what `drop` finds until nothing is back once every gate of etcd refuses the host's certificate."""

        def still_present() -> str:
            names = drop()
            if names:
                time.sleep(_GATES)
            return " and ".join(f"{entry} was there" for entry in names)

        self._until(still_present, patience, sentence)

    def _dropped(self, config: Any, key: str) -> bool:
        """Delete a key of etcd; says whether it was there."""
        with self._keys(config) as etcd:
            present = etcd.get(key) is not None
            if present:
                etcd.delete(key)
        return present

    def _forget_executor(self, name: str, patience: float) -> None:
        """Once the judicators have found it dead, and so given its tasks to others."""
        client = self._database()

        def forgotten() -> str:
            try:
                executors = client[self.judicator.mongodb.database].executors
                executors.delete_one({"_id": name, "alive": False})
                return "judicators still hear from it" if executors.find_one({"_id": name}) else ""
            except self._driver_errors() as exc:
                return str(self._translated(exc))

        try:
            self._until(forgotten, patience, f"executor {name} is not forgotten")
        finally:
            client.close()

    def _apply(self, config: Any, change: Callable[[Any], None], patience: float) -> None:
        """Make a change of etcd's keys that may be made twice, with this config's certificate."""

        def apply() -> str:
            with self._keys(config) as etcd:
                change(etcd)
            return ""

        self._until(apply, patience, "etcd has not taken a change")

    @staticmethod
    def _until(look: Callable[[], str], patience: float, sentence: str) -> None:
        """Do this until it gives no reason to do it again; etcd refuses all in elections, and for a while after starts.

        RosterError after `patience` seconds.
        """
        from judge.common.errors import UnavailableError  # noqa: PLC0415

        end = time.monotonic() + patience
        while True:
            try:
                reason = look()
            except UnavailableError as exc:
                reason = str(exc)
            if not reason:
                return
            if time.monotonic() > end:
                raise RosterError(f"{sentence} within {patience:g} s: {reason}; run the playbook again")
            time.sleep(_POLL)
