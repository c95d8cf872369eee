"""Checks that the members of a cluster are well, with the host's own configs and certificates.

Used by judge_service, which runs under the release's Python: that is where the package `judge` is.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .judge_systemd import POLL

ETC = Path("/etc/judge")
_SERVING = {"PRIMARY", "SECONDARY"}


class UnwellError(Exception):
    """Not well now; the text says what is missing. It may be well soon."""


def majority(voters: int) -> int:
    return voters // 2 + 1


def may_stop(mine: str, healthy: set[str], voters: set[str]) -> str:
    """Empty when the cluster goes on without `mine`, else why it would not.

    A set of one or two voters cannot do without any of them: stopping one is a short outage that nothing avoids, so
    it is enough that all of them are well before.
    """
    healthy_peers = (healthy & voters) - {mine}
    if mine not in voters or len(healthy_peers) >= majority(len(voters)):
        return ""
    if len(voters) < 3 and healthy >= voters:
        return ""
    down = ", ".join(sorted(voters - healthy - {mine})) or "nobody"
    return f"only {len(healthy_peers)} of {len(voters)} voters would be left ({down} is down); bring that back first"


# Each has `well` and `all_well`, a sentence when this host's member, or every member, is well, else UnwellError; and
# `may_stop`, the reason why the cluster cannot do without this member now, or an empty text.


class EtcdHealth:
    """etcd, as the members themselves and a linearizable read say."""

    def __init__(self) -> None:
        from judge import config  # noqa: PLC0415 - only the release's Python has it

        self.config = config.load(config.EtcdConfig, ETC / "etcd.yml")

    def _states(self) -> tuple[set[str], set[str]]:
        from judge.config import EtcdClient  # noqa: PLC0415
        from judge.etcd.client import Etcd  # noqa: PLC0415

        endpoints = [peer.client.partition("://")[2] for peer in self.config.cluster.members]
        with Etcd(EtcdClient(endpoints=endpoints, tls=self.config.tls, timeout=5)) as etcd:
            members = etcd.members()
            up = {status.member_id for status in etcd.status() if not status.error and status.leader_id}
        voters = {member.name or member.peer_urls[0] for member in members if not member.learner}
        healthy = {member.name for member in members if member.id in up and not member.learner}
        return healthy, voters

    def well(self) -> str:
        healthy, voters = self._states()
        if self.config.name not in healthy:
            raise UnwellError(f"etcd member {self.config.name} is no healthy voter yet")
        return f"etcd: {len(healthy)} of {len(voters)} voters are healthy"

    def all_well(self) -> str:
        healthy, _ = self._states()
        missing = {peer.name for peer in self.config.cluster.members} - healthy
        if missing:
            raise UnwellError(f"etcd members {', '.join(sorted(missing))} are no healthy voters yet")
        return f"etcd: all {len(healthy)} members are healthy"

    def may_stop(self) -> str:
        return may_stop(self.config.name, *self._states())


class MongodbHealth:
    def __init__(self) -> None:
        from judge import config  # noqa: PLC0415

        self.address = config.load(config.MongodbConfig, ETC / "mongodb.yml").address
        self.client = config.load(config.JudicatorConfig, ETC / "judicator.yml").mongodb

    def _states(self) -> tuple[set[str], set[str]]:
        from judge.mongodb import store  # noqa: PLC0415

        client = store.connect(self.client, asynchronous=False)
        try:
            members = client.admin.command("replSetGetConfig")["config"]["members"]
            states = {
                member["name"]: member["stateStr"] for member in client.admin.command("replSetGetStatus")["members"]
            }
        except store.DRIVER_ERRORS as exc:
            raise UnwellError(str(store.translate(exc))) from None
        finally:
            client.close()
        # Members that wait for their vote (their number is kept odd) count as listed ones.
        voters = {member["host"] for member in members if member["votes"]}
        return {name for name, state in states.items() if state in _SERVING}, voters

    def well(self) -> str:
        healthy, voters = self._states()
        if self.address not in healthy:
            raise UnwellError(f"MongoDB member {self.address} is not in sync yet")
        return f"MongoDB: {len(healthy)} members are in sync, {len(voters)} vote"

    def all_well(self) -> str:
        healthy, voters = self._states()
        seeds = set(self.client.seeds)
        if seeds - healthy:
            raise UnwellError(f"MongoDB members {', '.join(sorted(seeds - healthy))} are not in sync yet")
        expected = min(7, len(seeds) - (len(seeds) + 1) % 2)
        if len(voters) < expected:
            raise UnwellError(f"{len(voters)} of {expected} MongoDB members vote so far")
        return f"MongoDB: all {len(healthy)} members are in sync, {len(voters)} vote"

    def may_stop(self) -> str:
        return may_stop(self.address, *self._states())


class JudicatorHealth:
    def __init__(self) -> None:
        from judge import config  # noqa: PLC0415

        self.config = config.load(config.JudicatorConfig, ETC / "judicator.yml")

    def _registered(self) -> set[str]:
        from judge.etcd.client import Etcd  # noqa: PLC0415
        from judge.etcd.registry import judicators  # noqa: PLC0415

        with Etcd(self.config.etcd) as etcd:
            return {entry.name for entry in judicators(etcd)}

    def well(self) -> str:
        names = self._registered()
        if self.config.name not in names:
            raise UnwellError(f"judicator {self.config.name} is not registered in etcd yet")
        return f"judicators: {', '.join(sorted(names))} are registered"

    all_well = well

    def may_stop(self) -> str:
        """The reason why nobody would serve without this one; a lone judicator may stop, nothing avoids that."""
        names, listed = self._registered(), len(self.config.mongodb.seeds)
        if listed > 1 and not names - {self.config.name}:
            return "no other judicator is registered; bring one back first"
        return ""


class GatewayHealth:
    """The gateway of this host, asked as a browser would, behind its proxy."""

    def __init__(self) -> None:
        from judge import config  # noqa: PLC0415

        self.listen = config.load(config.GatewayConfig, ETC / "gateway.yml").listen

    def _ask(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.listen, timeout=10)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read(4096).decode(errors="replace")
        except (OSError, http.client.HTTPException) as exc:
            raise UnwellError(f"the gateway does not answer on {self.listen}: {exc}") from None
        finally:
            connection.close()

    def well(self) -> str:
        status, _ = self._ask("/api/v1/alive")
        if status != 200:
            raise UnwellError(f"the gateway answers {status}")
        return f"the gateway answers on {self.listen}"

    def all_well(self) -> str:
        status, text = self._ask("/api/v1/health")
        if status != 200:
            raise UnwellError(f"the gateway finds the cluster unhealthy: {text.strip()}")
        return "the cluster is healthy"

    def may_stop(self) -> str:
        return ""


class SilentHealth:
    """A service whose own word (READY, WATCHDOG) is all there is to ask on its host."""

    def well(self) -> str:
        return "it says that it is ready"

    all_well = well

    def may_stop(self) -> str:
        return ""


class BootHealth:
    """boot itself; when it restarts, so does everything that it keeps running."""

    def __init__(self) -> None:
        from judge import config  # noqa: PLC0415

        self.services = [service.name for service in config.load(config.BootConfig, ETC / "boot.yml").services]

    def well(self) -> str:
        return f"boot keeps {', '.join(self.services)} running"

    all_well = well

    def may_stop(self) -> str:
        reasons = (health_of(name).may_stop() for name in self.services)
        return next((reason for reason in reasons if reason), "")


HEALTH: dict[str, Callable[[], Any]] = {
    "boot": BootHealth,
    "etcd": EtcdHealth,
    "mongodb": MongodbHealth,
    "judicator": JudicatorHealth,
    "gateway": GatewayHealth,
}


def health_of(service: str) -> Any:
    """The object that checks a service's health; ConfigError when the host's config cannot be read."""
    return HEALTH.get(service, SilentHealth)()


def wait_may_stop(service: str, deadline: float, *, unsure: bool = False) -> str:
    """Wait until the cluster can do without a service of this host; the reason why it cannot, once time is over.

    `unsure`: a service that cannot be asked counts as one that may stop.
    """
    from judge.common.errors import JudgeError  # noqa: PLC0415

    while True:
        try:
            reason = str(health_of(service).may_stop())
        except (UnwellError, JudgeError) as exc:
            reason = "" if unsure else str(exc)
        if not reason or time.monotonic() > deadline:
            return reason
        time.sleep(POLL)
