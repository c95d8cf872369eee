"""Certificates between hosts: TLS contexts, who the other side is, and those of the embedded cluster and of tests.

A certificate's subject says who: CN is the host's or executor's name, OU its role (executor, gateway, judicator). Real
hosts get theirs from the role judge_pki, of the same authority (judge/common/pki/authority.py).
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from judge.common import files
from judge.common.pki.authority import MEMBER, Authority, WantedCertificate
from judge.config import Tls

_DAYS = 3650


def make_ca(directory: Path) -> None:
    """Make a directory an authority's, once; an existing one is kept. CaError when only a part of it is left."""
    authority = Authority(directory)
    if not authority.exists():
        authority.make("embedded", _DAYS)


def issue(directory: Path, name: str, role: str, hosts: list[str]) -> Tls:
    """Make `NAME-ROLE.crt` and `.key` signed by the directory's authority, once; returns them as a TLS config.

    Those of the role `etcd` also have the name by which members of etcd know each other; nobody else gets it. CaError
    for another role that asks for it.
    """
    tls = Tls(ca=directory / "ca.crt", cert=directory / f"{name}-{role}.crt", key=directory / f"{name}-{role}.key")
    if tls.cert.exists() and tls.key.exists():
        return tls
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    names = [*hosts, MEMBER] if role == "etcd" else hosts
    certificate = Authority(directory).issue(
        request, WantedCertificate(name, role, tuple(names), days=_DAYS, renew_days=0)
    )
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    files.replace(tls.key, pem, durable=True)
    files.replace(tls.cert, certificate, 0o644, durable=True)
    return tls


def server_context(tls: Tls) -> ssl.SSLContext:
    """A server side that demands a client certificate of the same CA."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tls.ca))
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(tls.cert, tls.key)
    return context


def client_context(tls: Tls) -> ssl.SSLContext:
    """A client side that shows its certificate and trusts only the cluster's CA."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(tls.ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(tls.cert, tls.key)
    return context


def peer_identity(cert: Mapping[str, object]) -> tuple[str, str]:
    """(name, role) out of what `SSLObject.getpeercert()` returns; empty strings when the subject lacks them."""
    subject = cert.get("subject")
    fields = {key: value for rdn in subject for key, value in rdn} if isinstance(subject, tuple) else {}
    return fields.get("commonName", ""), fields.get("organizationalUnitName", "")


@functools.lru_cache(maxsize=1024)
def seconds_of(moment: str) -> float:
    """A certificate's time in seconds since 1970; it is the same at each of a host's calls."""
    return float(ssl.cert_time_to_seconds(moment))
