"""Finds the cluster's members, by the inventory's list or a DNS name, and looks at them before a member decides.

Seed: `service.find`, `choose_one`.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import dns.exception
import dns.resolver

from judge.common import endpoint
from judge.common.errors import UnavailableError
from judge.config import EtcdClient, EtcdConfig
from judge.etcd.client import Etcd, EtcdMember, MemberList
from judge.etcd.planner import ClusterView, ListedMember, MemberDisk, NoQuorum, PeerAddress, Quorum, Silent, Situation

_LIFETIME = 3.0  # seconds for one DNS question
_SECONDS_EACH = 1.0  # the longest answer of one member
_SECONDS_LOOK = 2.0  # the shortest time for a question
_SECONDS_ACT = 5.0  # the longest change of the membership


@dataclass(frozen=True, slots=True)
class Discovered:
    """Client addresses `host:port` of the others; `failed` is the reason when discovery could not tell."""

    others: tuple[str, ...] = ()
    failed: str = ""


def host_port(url: str) -> str:
    return urlsplit(url).netloc


def _addresses(host: str) -> set[str]:
    """The IPv4 addresses of a host for the system (with /etc/hosts); empty when it knows none."""
    with contextlib.suppress(OSError):
        return {str(info[4][0]) for info in socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)}
    return set()


def find_by_dns(
    name: str, port: int, *, tls: bool = False, resolver: dns.resolver.Resolver | None = None
) -> Discovered:
    """The members behind a DNS name: its SRV records, else its A records with `port`, else the system's hosts file.

    A name that does not exist is "nobody"; a name server that fails or is silent is "could not tell".
    """
    service = "_etcd-client-ssl._tcp" if tls else "_etcd-client._tcp"
    with_srv = name if name.startswith("_") else f"{service}.{name}"
    failed = ""
    try:
        ask = resolver or dns.resolver.Resolver()
        try:
            answer = ask.resolve(with_srv, "SRV", lifetime=_LIFETIME)
            return Discovered(tuple(sorted(f"{rr.target.to_text(omit_final_dot=True)}:{rr.port}" for rr in answer)))
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            answer = ask.resolve(name, "A", lifetime=_LIFETIME)
            return Discovered(tuple(sorted(f"{rr.address}:{port}" for rr in answer)))
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        pass
    except dns.exception.DNSException as exc:
        failed = f"DNS cannot resolve {name}: {exc}"
    addresses = tuple(sorted(f"{address}:{port}" for address in _addresses(name)))
    return Discovered(addresses, "" if addresses else failed)


def find_others(config: EtcdConfig, resolver: dns.resolver.Resolver | None = None) -> Discovered:
    """All members but this one, from the list and from DNS."""
    own_port = host_port(config.client)
    host, port = endpoint.split(own_port)
    own_addresses = {own_port} | {f"{address}:{port}" for address in _addresses(host)}
    if config.mode == "proxy":
        own_addresses = {config.proxy_listen}
    addresses = [host_port(peer.client) for peer in config.cluster.members if peer.name != config.name]
    failed = ""
    if config.cluster.dns:
        discovered = find_by_dns(
            config.cluster.dns, config.cluster.dns_client_port, tls=config.tls is not None, resolver=resolver
        )
        addresses += discovered.others
        failed = discovered.failed
    return Discovered(tuple(dict.fromkeys(address for address in addresses if address not in own_addresses)), failed)


def client_of(config: EtcdConfig, endpoints: Sequence[str], least: float = _SECONDS_ACT) -> Etcd:
    """A client of these members with this member's certificate, with time enough to change the membership.

    A call may take `least` seconds, and more with many members.
    """
    timeout = max(least, _SECONDS_EACH * len(endpoints))
    return Etcd(EtcdClient(endpoints=list(endpoints), tls=config.tls, timeout=timeout))


def endpoints(config: EtcdConfig, *, running: bool) -> tuple[tuple[str, ...], Discovered]:
    """The servers to ask: the others, and this host's own while it runs."""
    discovered = find_others(config)
    own_endpoint = (host_port(config.client),) if running else ()
    return (*discovered.others, *own_endpoint), discovered


def observe(config: EtcdConfig, disk: MemberDisk, *, running: bool) -> Situation:
    """Look once; takes some seconds at most and never raises UnavailableError."""
    addresses, discovered = endpoints(config, running=running)
    listed_members = tuple(PeerAddress(peer.name, peer.peer) for peer in config.cluster.members)
    return Situation(
        name=config.name,
        peer=config.peer,
        token=config.cluster.token,
        bootstrap=config.cluster.bootstrap,
        listed=listed_members,
        registered=config.cluster.dns is not None or any(peer.name == config.name for peer in listed_members),
        disk=disk,
        seen=_look(config, addresses, discovered, running=running),
        running=running,
    )


def _look(config: EtcdConfig, addresses: tuple[str, ...], discovered: Discovered, *, running: bool) -> ClusterView:
    maybe_others = bool(discovered.others or discovered.failed)
    if not addresses:
        return Silent(maybe_others, discovered.failed or "no other member is known")
    with client_of(config, addresses, _SECONDS_LOOK) as etcd:
        answering = [status.endpoint for status in etcd.status() if not status.error]
        if not answering:
            return Silent(maybe_others, discovered.failed or f"none of {', '.join(addresses)} answers")
        try:
            cluster = etcd.cluster()
        except UnavailableError:
            return NoQuorum(f"there is no quorum behind {', '.join(answering)}")
    return Quorum(cluster.id, tuple(_listed(config, member, running=running) for member in cluster.members))


def _listed(config: EtcdConfig, member: EtcdMember, *, running: bool) -> ListedMember:
    """One entry; an identity that could be mine is asked whether a server stands behind it."""
    is_own = config.peer in member.peer_urls or member.name == config.name
    answers = False
    if is_own and member.client_urls and not running:
        urls = [host_port(url) for url in member.client_urls]
        with client_of(config, urls, _SECONDS_LOOK) as etcd:
            answers = any(status.member_id == member.id for status in etcd.status())
    return ListedMember(member.id, member.name, member.peer_urls, bool(member.client_urls), member.learner, answers)


def alone(cluster: MemberList, member_id: int) -> bool:
    """Return whether the cluster would have no voter left without this member; pure."""
    return not any(member.id != member_id and not member.learner for member in cluster.members)
