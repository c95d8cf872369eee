"""Reads the addresses of servers as people write them: what is wrong with one, in words, and what it means.

Hosts are names or IPv4 addresses. An IPv6 address is taken in the URL of a gateway only, where it goes to one library;
elsewhere the same text is read by etcd, MongoDB, gRPC and configuration templates, which differ about brackets.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

CLUSTER_CERTIFICATE = "/etc/judge/tls/https.crt"  # the default of judge_gateway_certificate, by the cluster's authority
_SIX = "an IPv6 address cannot stand here; give its host a name that resolves to it"
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,252})\Z")
_HOST_PORT = "expected HOST:PORT, as in 127.0.0.1:2379"
_SERVER = "expected a URL without a path, as in https://judge.example.org"
_MEMBER = "expected a URL without a path, as in http://127.0.0.1:2379"
_PAGE = "expected a URL, as in http://127.0.0.1:8080/api/v1/alive"


class PublicAddress(NamedTuple):
    """The `name` in a gateway's certificate, the URL of people, and whether another authority signed it (`own`)."""

    name: str
    server: str
    own: bool


def split(address: str) -> tuple[str, int]:
    """Host, without brackets, and port of a `HOST:PORT` in which `host_port` found nothing wrong."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def listen(address: str, backlog: int | None = None) -> socket.socket:
    """A socket that listens at `HOST:PORT`, of an IPv6 address, too. Raises OSError."""
    host, port = split(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=backlog)


def host_port(text: str) -> str | None:
    """The fault of `HOST:PORT`, as the end of a sentence; None when it has none."""
    host, _, port = text.rpartition(":")
    if _six(host) or _six(text):
        return f"{_HOST_PORT}; {_SIX}"
    return None if _NAME.match(host) and _port(port) else _HOST_PORT


def url(text: str) -> str | None:
    """The fault of the URL of a server; None when it has none. An IPv6 address in brackets is a host, too."""
    return _url(text, _SERVER)


def member_url(text: str) -> str | None:
    """The fault of the URL of a member of etcd; None when it has none."""
    parts = _split(text)
    return f"{_MEMBER}; {_SIX}" if parts is not None and _six(parts.hostname or "") else _url(text, _MEMBER)


def page_url(text: str) -> str | None:
    """The fault of the URL of a page; None when it has none."""
    return _url(text, _PAGE)


def public_address(variables: Mapping[str, Any], address: str) -> PublicAddress:
    """The way by which people reach a gateway, from its host's variables of the roles judge_gateway and judge_pki."""
    own_certificate = str(variables.get("judge_gateway_certificate") or CLUSTER_CERTIFICATE) != CLUSTER_CERTIFICATE
    judge0 = (variables.get("judge_gateway_judge0") or {}).get("hosts") or []
    # Under these the gateway is Judge0's API and nothing else.
    names = [str(name) for name in variables.get("judge_pki_https_sans") or [] if name not in judge0]
    public_url = str(variables.get("judge_gateway_public_url") or "").rstrip("/")
    host = urlsplit(public_url).hostname or ""
    if host and (own_certificate or host in names):
        return PublicAddress(host, public_url, own_certificate)
    name = next((name for name in names if "*" not in name), address) if own_certificate else address
    port = int(variables.get("judge_https_port") or 443)
    server = f"https://{f'[{name}]' if ':' in name else name}" + (f":{port}" if port != 443 else "")
    return PublicAddress(name, server, own_certificate)


def _url(text: str, expected: str) -> str | None:
    parts = _split(text)
    if parts is None or parts.scheme not in {"http", "https"} or not text.startswith(("http://", "https://")):
        return expected
    host = parts.hostname or ""
    if "@" in parts.netloc or not (_six(host) or _NAME.match(host)):
        return expected
    netloc_end = parts.netloc.rpartition("]")[2] if _six(host) else parts.netloc
    if ":" in netloc_end and not _port(netloc_end.rpartition(":")[2]):
        return expected
    if expected != _PAGE and len(text) > len(f"{parts.scheme}://{parts.netloc}"):
        return expected
    return None


def _split(text: str) -> SplitResult | None:
    if not text.isascii() or not text.isprintable() or " " in text:
        return None
    try:
        return urlsplit(text)
    except ValueError:  # brackets that do not match, or hold no address
        return None


def _six(host: str) -> bool:
    try:
        return "%" not in host and ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).version == 6
    except ValueError:
        return False


def _port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 65535
