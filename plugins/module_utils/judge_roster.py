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
    found = []
    leaving = set(names)
    for what, unit in (("etcd", "etcd"), ("mongodb", "MongoDB")):
        members = {one["name"]: one for one in roster[what]}
        if not leaving & members.keys():
            continue
        voters = {name for name, one in members.items() if one["votes"]}
        healthy = {name for name in voters if members[name]["healthy"]}
        left, down = voters - leaving, sorted(voters - leaving - healthy)
        if not members.keys() - leaving:
            found.append(
                f"{_listed(sorted(leaving & members.keys()))} is the last member of {unit}, which has the data"
            )
        elif len(healthy) < majority(len(voters)):
            found.append(
                f"{unit} has no majority now, so nothing can be changed ({_listed(sorted(voters - healthy))} is down); "
                "bring a member back first"
            )
        elif left and len(left & healthy) < majority(len(left)):
            found.append(
                f"of {unit} only {len(left & healthy)} of {len(left)} voters would be left healthy "
                f"({_listed(down)} is down); bring that back first, or remove it first"
            )
    return found


def unknown(roster: Mapping[str, Any], names: Sequence[str], inventory: Mapping[str, Sequence[str]]) -> list[str]:
    """One sentence for each name that neither the inventory nor the cluster has; it may be misspelt, or no name."""
    members = {one["name"] for kind in ("etcd", "mongodb", "executors") for one in roster[kind]}
    hosts = {name for group in inventory.values() for name in group}
    there = members | hosts | set(roster["judicators"]) | set(roster["refused"])
    return [
        f"'{name}' is no host of the inventory, and nothing in the cluster has that name; correct the name"
        for name in names
        if name not in there
    ]


def outages(roster: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The failures of a cluster while all of these hosts are stopped, a sentence each; empty when it goes on."""
    found = []
    for what, unit in (("etcd", "etcd"), ("mongodb", "MongoDB")):
        members = {one["name"]: one for one in roster[what]}
        voters = {name for name, one in members.items() if one["votes"]}
        running = {name for name in voters if members[name]["healthy"]} - set(names)
        if set(names) & voters and len(running) < majority(len(voters)):
            found.append(
                f"of {unit} {len(running)} of {len(voters)} voters would run on, and {majority(len(voters))} decide"
            )
    return found


def remarks(roster: Mapping[str, Any], name: str) -> list[str]:
    """The remarks for a person about the cluster that would be left."""
    found = []
    voters = [one["name"] for one in roster["etcd"] if one["votes"] and one["name"] != name]
    if any(one["name"] == name for one in roster["etcd"]):
        spare = (len(voters) - 1) // 2
        found.append(f"{len(voters)} of etcd's voters are left, of which {spare} may fail")
        found.append(
            "it knows MongoDB's key file and password, and its old certificate may still read who etcd's members are; "
            "if somebody else may have read its disk: "
            "playbooks/rotate.yml -e judge_rotate=ca,mongodb.keyfile,mongodb.password"
        )
    executors = {one["name"] for one in roster["executors"] if one["alive"]}
    if executors == {name}:
        found.append("no executor that is alive is left: nothing is judged until there is another one")
    return found


def plan(roster: Mapping[str, Any], name: str, *, again: bool = False, before: float = 0.0) -> list[str]:
    """The changes that taking this name out makes, in order; empty when it has left and is refused.

    `again`: it has got new certificates since it was removed for the last time. `before`: seconds since 1970 up to
    which its certificates have to be refused; a run that was cut off has noted that moment, and perhaps told nobody.
    """
    steps = []
    if any(one["name"] == name for one in roster["mongodb"]):
        steps.append(f"MongoDB: the member {name} is withdrawn, and the primary takes it out of the replica set")
    if again or roster["refused"].get(name, -1.0) < before or name not in roster["refused"]:
        steps.append(f"certificates of {name} that were issued until now are refused by every judicator and etcd")
    if any(one["name"] == name for one in roster["etcd"]):
        steps.append(f"etcd: the member {name} is removed")
    if name in roster["judicators"]:
        steps.append(f"the registration of judicator {name} ends")
    if any(one["name"] == name for one in roster["executors"]):
        steps.append(f"executor {name} is forgotten; what it has in hand is judged by others")
    return steps


def strangers(roster: Mapping[str, Any], known: Mapping[str, Sequence[str]]) -> list[str]:
    """Members of any kind that the inventory does not have as such, each with what it is.

    `known`: the inventory's judicators, executors and gateways, by group. A gateway is registered nowhere.
    """
    kinds = {
        "a member of etcd": ("judicators", [one["name"] for one in roster["etcd"]]),
        "a member of MongoDB": ("judicators", [one["name"] for one in roster["mongodb"]]),
        "a judicator": ("judicators", roster["judicators"]),
        # One that is off may come back with its certificate.
        "an executor": ("executors", [one["name"] for one in roster["executors"]]),
    }
    what: dict[str, list[str]] = {}
    for kind, (group, names) in kinds.items():
        for name in names:
            if name not in known.get(group, []):
                what.setdefault(name, []).append(kind)
    return [_stranger(name, found, known) for name, found in sorted(what.items())]


def _stranger(name: str, what: Sequence[str], known: Mapping[str, Sequence[str]]) -> str:
    """The sentence about one of them, who is all of that."""
    groups = sorted(group for group, names in known.items() if name in names)
    remove = f"playbooks/remove.yml -e judge_remove={name}"
    if not groups:
        return f"{name} is {' and '.join(what)}, and not in the inventory; add it there, or take it out: {remove}"
    return (
        f"{name} is {' and '.join(what)}, and in the inventory only in {' and '.join(groups)}; put it back into its "
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
        """The client of a member, who may change the membership."""
        from judge.config import EtcdClient  # noqa: PLC0415
        from judge.etcd.client import Etcd  # noqa: PLC0415

        own = self.etcd.name
        peers = sorted(self.etcd.cluster.members, key=lambda peer: peer.name != own)
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
        from judge.etcd.registry import judicators  # noqa: PLC0415
        from judge.pki.refused import DOCUMENT, KEYS, listed  # noqa: PLC0415

        with self._members() as etcd:
            up = {status.member_id for status in etcd.status() if not status.error and status.leader_id}
            members = [
                {"name": one.name or one.peer_urls[0], "id": one.id, "votes": not one.learner, "healthy": one.id in up}
                for one in etcd.members()
            ]
        with self._keys(self.judicator) as etcd:
            registered = sorted(entry.name for entry in judicators(etcd))
            gates = listed((kv.key.removeprefix(KEYS), kv.value) for kv in etcd.list(KEYS))
        client = self._database()
        try:
            mongodb = self._replica_set(client)
            database = client[self.judicator.mongodb.database]
            executors = [
                {"name": one["_id"], "alive": one["alive"], "drain": one["drain"]}
                for one in database.executors.find({}, {"alive": 1, "drain": 1}).sort("_id", 1)
            ]
            names = (database.meta.find_one({"_id": DOCUMENT}) or {"names": []})["names"]
        except self._driver_errors() as exc:
            raise self._translated(exc) from None
        finally:
            client.close()
        return {
            "etcd": sorted(members, key=lambda one: str(one["name"])),
            "mongodb": mongodb,
            "judicators": registered,
            "executors": executors,
            # By both lists; whoever is on one of them only is refused by a part of the cluster.
            "refused": {one["name"]: min(one["before"], gates[one["name"]]) for one in names if one["name"] in gates},
        }

    def _replica_set(self, client: Any) -> list[dict[str, Any]]:
        """Every member by the name that it is registered under, and those that are registered and not members yet."""
        members = client.admin.command("replSetGetConfig")["config"]["members"]
        states = {one["name"]: one["stateStr"] for one in client.admin.command("replSetGetStatus")["members"]}
        names = {address: name for name, address in self._registered().items()}
        # A member that nobody has registered any more is about to be removed by the primary.
        found = [
            {
                "name": names.get(one["host"], one["host"]),
                "address": one["host"],
                "votes": bool(one["votes"]),
                "healthy": states.get(one["host"]) in _SERVING,
            }
            for one in members
        ]
        listed = {one["host"] for one in members}
        found += [
            {"name": name, "address": address, "votes": False, "healthy": False}
            for address, name in names.items()
            if address not in listed
        ]
        return sorted(found, key=lambda one: str(one["name"]))

    def _registered(self) -> dict[str, str]:
        """Address by name of every registered member of the replica set."""
        import json  # noqa: PLC0415

        from judge.mongodb.registry import MEMBER  # noqa: PLC0415

        with self._keys(self.mongodb) as etcd:
            entries = etcd.list(MEMBER)
        found = {}
        for entry in entries:
            try:
                found[entry.key.removeprefix(MEMBER)] = str(json.loads(entry.value)["address"])
            except (ValueError, TypeError, KeyError):
                found[entry.key.removeprefix(MEMBER)] = "an entry that cannot be read"
        return found

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
        self._refuse(name, before, patience)
        self._leave_etcd(name, patience)
        self._end_registration(name, patience)
        self._forget_executor(name, patience)

    def _leave_replica_set(self, name: str, patience: float) -> None:
        """First, while its daemon may still ask etcd: a primary that is no more registered steps down by itself."""
        from judge.mongodb.registry import MEMBER  # noqa: PLC0415

        address = self._registered().get(name)
        self._told(self.mongodb, lambda etcd: etcd.delete(MEMBER + name), patience)

        def gone() -> str:
            client = self._database()
            try:
                members = client.admin.command("replSetGetConfig")["config"]["members"]
            except self._driver_errors() as exc:
                return str(self._translated(exc))
            finally:
                client.close()
            hosts = [one["host"] for one in members]
            return f"the replica set still lists {address}" if address in hosts else ""

        if address is not None:
            self._until(gone, patience, f"MongoDB has not removed {name}")

    def _refuse(self, name: str, before: float, patience: float) -> None:
        """Both lists, each by one write; a later moment replaces an earlier one."""
        from judge.pki.refused import DOCUMENT, KEYS, value  # noqa: PLC0415

        client = self._database()
        try:
            meta = client[self.judicator.mongodb.database].meta
            meta.update_one({"_id": DOCUMENT}, {"$setOnInsert": {"names": []}}, upsert=True)
            others = {"$filter": {"input": "$names", "cond": {"$ne": ["$$this.name", {"$literal": name}]}}}
            entry = [{"name": {"$literal": name}, "before": before}]
            meta.update_one({"_id": DOCUMENT}, [{"$set": {"names": {"$concatArrays": [others, entry]}}}])
        except self._driver_errors() as exc:
            raise self._translated(exc) from None
        finally:
            client.close()
        self._told(self.judicator, lambda etcd: etcd.put(KEYS + name, value(before)), patience)

    def _leave_etcd(self, name: str, patience: float) -> None:
        """Its daemon joins again, as a learner that has no name at first, until the gates refuse it."""
        urls: set[str] = set()

        def removed() -> list[str]:
            with self._members() as etcd:
                mine = [one for one in etcd.members() if one.name == name or urls & set(one.peer_urls)]
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

    def _stays_gone(self, drop: Callable[[], list[str]], patience: float, what: str) -> None:
        """Take away what `drop` finds until nothing is back once every gate of etcd refuses the host's certificate."""

        def left() -> str:
            found = drop()
            if found:
                time.sleep(_GATES)
            return " and ".join(f"{one} was there" for one in found)

        self._until(left, patience, what)

    def _dropped(self, config: Any, key: str) -> bool:
        """Delete a key of etcd; says whether it was there."""
        with self._keys(config) as etcd:
            there = etcd.get(key) is not None
            if there:
                etcd.delete(key)
        return there

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

    def _told(self, config: Any, change: Callable[[Any], None], patience: float) -> None:
        """Make a change of etcd's keys that may be made twice, with this config's certificate."""

        def made() -> str:
            with self._keys(config) as etcd:
                change(etcd)
            return ""

        self._until(made, patience, "etcd has not taken a change")

    @staticmethod
    def _until(look: Callable[[], str], patience: float, what: str) -> None:
        """Do this until it gives no reason to do it again; etcd refuses all in elections, and for a while after starts.

        RosterError after `patience` seconds.
        """
        from judge.errors import UnavailableError  # noqa: PLC0415

        end = time.monotonic() + patience
        while True:
            try:
                reason = look()
            except UnavailableError as exc:
                reason = str(exc)
            if not reason:
                return
            if time.monotonic() > end:
                raise RosterError(f"{what} within {patience:g} s: {reason}; run the playbook again")
            time.sleep(_POLL)
