"""Finds the cluster's members: by the inventory's list, or a DNS name. Seed: `service.find`, `choose_one`."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

import dns.exception
import dns.resolver

from judge.common import endpoint
from judge.config import EtcdConfig

_LIFETIME = 3.0  # seconds for one DNS question


@dataclass(frozen=True, slots=True)
class Discovered:
    """Client addresses `host:port` of the others; `failed` is the reason when discovery could not tell."""

    others: tuple[str, ...] = ()
    failed: str = ""


def host_port(url: str) -> str:
    """`host:port` of a URL of the config."""
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
