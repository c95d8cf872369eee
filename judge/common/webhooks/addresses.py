"""The rule of where calls may go: to public addresses, and to networks that are allowed by name. Pure functions."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MOST: Final = 2048
_SCHEMES: Final = frozenset({"http", "https"})
# Neither private nor public to Python. Those of IPv6 that carry an IPv4 address in them, NAT64, 6to4, Teredo: who is
# meant depends on the network; relays of 6to4 (RFC 7526); what sites used before there were private addresses of IPv6
# (RFC 3879), which routers go on routing; documentation, segment routing.
_SPECIAL: Final = tuple(
    ipaddress.ip_network(network)
    for network in (
        *("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "192.88.99.0/24", "fec0::/10"),
        *("3fff::/20", "5f00::/16"),
    )
)


def networks(texts: Iterable[str]) -> list[Network]:
    """Networks as they are written, `10.0.0.0/8`; ValueError."""
    return [ipaddress.ip_network(text) for text in texts]


def may_go_to(address: str, allowed: Iterable[Network] = ()) -> bool:
    """Return whether a call may go to this IP address: a public one, or one of a network that is allowed."""
    try:
        whole_address = mapped = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(mapped, ipaddress.IPv6Address) and mapped.ipv4_mapped is not None:
        mapped = mapped.ipv4_mapped
    if any(
        candidate.version == network.version and candidate in network
        for network in allowed
        for candidate in (whole_address, mapped)
    ):
        return True
    if (
        mapped.is_multicast
        or mapped.is_reserved
        or any(mapped.version == network.version and mapped in network for network in _SPECIAL)
    ):
        return False
    return mapped.is_global


def url_fault(url: str, allowed: Iterable[Network] = (), setting: str = "webhooks.networks") -> str:
    """The reason why nothing can be sent to this URL, to end a sentence about it; empty when it may.

    `setting` names the networks that are allowed.
    A name may stand for another address when it is asked for; that is looked at when a call is made.
    """
    if len(url) > MOST:
        return f"is longer than {MOST} characters"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "has characters that no URL has; write it in ASCII"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        return f"is no URL: {exc}"
    host = parts.hostname or ""
    faults = (
        (parts.scheme not in _SCHEMES or not host, "is no http or https URL with a host"),
        (port == 0, "has port 0"),
        ("@" in parts.netloc, "has a name or password in it; leave them out"),
        (
            _is_address(host) and not may_go_to(host, allowed),
            f"leads to {host}, which is no public address and in no network of {setting}",
        ),
    )
    return next((text for applies, text in faults if applies), "")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
