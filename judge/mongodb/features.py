"""MongoDB's feature compatibility: which version's data files and commands a replica set may use.

Members of a newer version go on as the former one until it is raised; only then the former one cannot come back.
https://www.mongodb.com/docs/manual/reference/command/setFeatureCompatibilityVersion/
"""

from __future__ import annotations

from dataclasses import dataclass

import pymongo
from pymongo import errors

from judge.config import MongodbConfig
from judge.mongodb.replica import credentials
from judge.mongodb.store import Bson, Client, tls_options, translated

_CALL_MS = 5000
_CONFIRMED = 7  # from this version on the command wants to be confirmed


@dataclass(frozen=True)
class Features:
    """`now` is the version in force, `versions` those of the members by address; each as MAJOR.MINOR, or empty."""

    now: str
    versions: dict[str, str]

    @property
    def wanted(self) -> str:
        """The version that all members have; empty when they differ, or one does not answer."""
        versions = set(self.versions.values())
        return versions.pop() if len(versions) == 1 else ""

    @property
    def may_be_raised(self) -> bool:
        return bool(self.wanted) and number(self.wanted) > number(self.now)

    @property
    def sentence(self) -> str:
        """A sentence for a person; empty when all is as it should be."""
        if self.may_be_raised:
            return (
                f"MongoDB is {self.wanted} and keeps its data as {self.now} does; once nobody wants to go back, raise "
                "it by playbooks/upgrade.yml -e judge_upgrade_features=true"
            )
        if not self.wanted:
            descriptions = (f"{name} {version or 'is silent'}" for name, version in sorted(self.versions.items()))
            description = ", ".join(descriptions)
            return (
                f"MongoDB's members are not of one version ({description}), "
                f"so its feature compatibility stays {self.now}"
            )
        return ""


def number(version: str) -> tuple[int, int]:
    """MAJOR.MINOR as numbers, so that 10.0 comes after 9.0."""
    major, _, minor = version.partition(".")
    return int(major), int(minor or 0)


def short(version: str) -> str:
    """MAJOR.MINOR of a whole version."""
    return ".".join(version.split(".")[:2])


def observe(client: Client, config: MongodbConfig) -> Features:
    """Ask the primary and every member; `client` is a member's, on the primary. Raises what `translate` says."""
    with translated():
        parameters = client.admin.command({"getParameter": 1, "featureCompatibilityVersion": 1})
        members = [str(member["host"]) for member in client.admin.command("replSetGetConfig")["config"]["members"]]
    now = str(parameters["featureCompatibilityVersion"]["version"])
    return Features(now, {address: _version_of(config, address) for address in members})


def _version_of(config: MongodbConfig, address: str) -> str:
    with tls_options(config.tls) as tls:
        client: Client = pymongo.MongoClient(
            address, directConnection=True, timeoutMS=_CALL_MS, serverSelectionTimeoutMS=_CALL_MS,
            **credentials(config), **tls,
        )  # fmt: skip
    try:
        with client:
            return short(str(client.admin.command("buildInfo")["version"]))
    except errors.PyMongoError:
        return ""


def raise_to(client: Client, version: str) -> None:
    """Let the replica set use what this version can; on the primary. Raises what `translate` says."""
    command: Bson = {"setFeatureCompatibilityVersion": version, "writeConcern": {"w": "majority"}}
    if number(version)[0] >= _CONFIRMED:
        command["confirm"] = True
    with translated():
        client.admin.command(command)
