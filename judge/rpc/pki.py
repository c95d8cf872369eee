"""A small certificate authority: the embedded cluster's and the tests'. Real hosts get theirs from the pki role.

A certificate's subject says who: CN is the host's or executor's name, OU its role (executor, gateway, judicator).
"""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from judge import clock
from judge.config import Tls
from judge.etcd.policy import MEMBER

_YEARS = datetime.timedelta(days=3650)
_SLACK = datetime.timedelta(hours=1)


def _write(path: Path, data: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=mode)
    path.chmod(mode)
    path.write_bytes(data)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = clock.wall()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + _YEARS)
    )


def make_ca(directory: Path) -> None:
    """Make `ca.crt` and `ca.key` in the directory, once; an existing pair is kept."""
    if (directory / "ca.key").exists() and (directory / "ca.crt").exists():
        return
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Judge cluster CA")])
    cert = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(key, hashes.SHA256())
    )
    _write(directory / "ca.key", _key_pem(key), 0o600)
    _write(directory / "ca.crt", cert.public_bytes(serialization.Encoding.PEM), 0o644)


def issue(directory: Path, name: str, role: str, hosts: list[str]) -> Tls:
    """Make `NAME-ROLE.crt` and `.key` signed by the directory's CA, once; returns them as a TLS config.

    Those of the role `etcd` also have the name by which members of etcd know each other; nobody else gets it.
    """
    if MEMBER in hosts:
        msg = f"{MEMBER} is a name of etcd's members only"
        raise ValueError(msg)
    if role == "etcd":
        hosts = [*hosts, MEMBER]
    tls = Tls(ca=directory / "ca.crt", cert=directory / f"{name}-{role}.crt", key=directory / f"{name}-{role}.key")
    if tls.cert.exists() and tls.key.exists():
        return tls
    ca = x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes())
    ca_key = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), None)
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
        msg = f"{directory / 'ca.key'} is not an elliptic-curve key"
        raise TypeError(msg)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    cert = (
        _builder(subject, ca.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    _write(tls.key, _key_pem(key), 0o600)
    _write(tls.cert, cert.public_bytes(serialization.Encoding.PEM), 0o644)
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


def peer_identity(cert: dict[str, object]) -> tuple[str, str]:
    """(name, role) out of what `SSLObject.getpeercert()` returns; empty strings when the subject lacks them."""
    subject = cert.get("subject")
    fields = {key: value for rdn in subject for key, value in rdn} if isinstance(subject, tuple) else {}
    return fields.get("commonName", ""), fields.get("organizationalUnitName", "")
