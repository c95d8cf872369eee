"""A certificate authority: roles of Ansible use it on the controller (plugins/action/pki_*.py), `judge up` for itself.

A certificate's subject is what judge/rpc/pki.py reads: CN is the host's name in the inventory, OU its role. Nothing but
`cryptography` is needed, which Ansible brings.
"""

from __future__ import annotations

import datetime
import ipaddress
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from judge.common import clock, files
from judge.common.errors import JudgeError

MEMBER = "etcd-member.judge.internal"  # the name in a certificate without which no member of etcd is believed
_MEMBERS = (MEMBER, f"*.{MEMBER.partition('.')[2]}")  # the names in a certificate that stand for it
_SLACK = datetime.timedelta(hours=1)
_PEM = serialization.Encoding.PEM


class CaError(JudgeError):
    """An authority or a request that cannot be used; the text is one sentence for the person who runs the playbook."""


@dataclass(frozen=True)
class WantedCertificate:
    name: str
    role: str
    sans: tuple[str, ...]
    days: int
    renew_days: int


def now() -> datetime.datetime:
    return clock.wall()


def days_left(certificate: x509.Certificate, at: datetime.datetime) -> int:
    return (certificate.not_valid_after_utc - at).days


def general_names(sans: tuple[str, ...]) -> list[x509.GeneralName]:
    """Addresses and host names as they stand in a certificate, each once."""
    names: list[x509.GeneralName] = []
    for text in dict.fromkeys(sans):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(text)))
        except ValueError:
            names.append(x509.DNSName(text))
    return names


def subject(name: str, role: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def self_signed(key: ec.EllipticCurvePrivateKey, name: str, days: int) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Judge CA {name}")])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - _SLACK)
        .not_valid_after(now() + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def encrypted(key: ec.EllipticCurvePrivateKey, passphrase: bytes) -> bytes:
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(passphrase))


class Authority:
    """`ca.crt`, `ca.key` (encrypted) and `ca.passphrase` in one directory that only its owner may enter.

    `ca.crt` is what hosts trust. It has two certificates while a new authority takes the place of the old one
    (judge/common/pki/rotation.py); the one of `ca.key` signs.
    """

    def __init__(self, directory: Path, read: Callable[[Path], bytes] = Path.read_bytes) -> None:
        """`read`: how a file is read; Ansible's own way opens those that ansible-vault has encrypted."""
        self.directory = directory
        self.read = read
        self.cert_file = directory / "ca.crt"
        self.key_file = directory / "ca.key"
        self.passphrase_file = directory / "ca.passphrase"

    def exists(self) -> bool:
        """Whether there is an authority. CaError when only part of it is left: a new one would lock hosts out."""
        existing = [path for path in (self.cert_file, self.key_file) if path.exists()]
        if len(existing) == 1:
            lost = self.key_file if existing == [self.cert_file] else self.cert_file
            msg = f"{lost} is missing beside {existing[0].name}; restore it from a backup of the secrets directory"
            raise CaError(msg)
        return bool(existing)

    def make(self, name: str, days: int) -> None:
        """Make the authority; the certificate comes last, so an interrupted run is seen and repeated."""
        files.secret_directory(self.directory)
        self.directory.chmod(0o700)
        passphrase = secrets.token_urlsafe(32).encode()
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self_signed(key, name, days)
        files.replace(self.passphrase_file, passphrase + b"\n", durable=True)
        key_file, cert_file = (path.with_name(f"{path.name}.unfinished") for path in (self.key_file, self.cert_file))
        files.replace(key_file, encrypted(key, passphrase), durable=True)
        files.replace(cert_file, certificate.public_bytes(_PEM), 0o644, durable=True)
        key_file.replace(self.key_file)
        cert_file.replace(self.cert_file)

    def certificate(self) -> x509.Certificate:
        """The certificate of the authority that signs; CaError when it cannot be read."""
        trusted = self.trusted()
        if len(trusted) == 1:
            return trusted[0]
        public = self._open_key().public_key()
        return next((certificate for certificate in trusted if certificate.public_key() == public), trusted[0])

    def trusted(self) -> list[x509.Certificate]:
        """The certificates that hosts trust, at least one; CaError when they cannot be read."""
        try:
            return x509.load_pem_x509_certificates(self.read(self.cert_file))
        except OSError as exc:
            msg = f"{self.cert_file} cannot be read: {exc.strerror}; make the authority with playbooks/pki.yml"
            raise CaError(msg) from None
        except ValueError:
            msg = f"{self.cert_file} is not a certificate; restore it from a backup of the secrets directory"
            raise CaError(msg) from None

    def text(self) -> str:
        """The certificates that hosts are to trust, as PEM."""
        return self.read(self.cert_file).decode("ascii")

    def key(self) -> ec.EllipticCurvePrivateKey:
        """The authority's key; CaError when it cannot be read, opened, or is another certificate's."""
        key = self._open_key()
        if key.public_key() != self.certificate().public_key():
            raise CaError(f"{self.key_file} is not the key of {self.cert_file.name}; restore both from one backup")
        return key

    def passphrase(self) -> bytes:
        """The passphrase of the key; CaError when it cannot be read, or others could read it."""
        for path in (self.key_file, self.passphrase_file):
            if not path.is_file():
                raise CaError(f"{path} is missing; restore it from a backup of the secrets directory")
            if path.stat().st_mode & 0o077:
                raise CaError(f"{path} may be read by others than its owner; run chmod 600 {path}")
        return self.read(self.passphrase_file).strip()

    def _open_key(self) -> ec.EllipticCurvePrivateKey:
        try:
            key = serialization.load_pem_private_key(self.read(self.key_file), self.passphrase())
        except (ValueError, TypeError, OSError):
            msg = f"{self.key_file} does not open with {self.passphrase_file.name}; restore both from one backup"
            raise CaError(msg) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise CaError(f"{self.key_file} is not the key of {self.cert_file.name}; restore both from one backup")
        return key

    def problem(self, at: datetime.datetime) -> str:
        """The reason why the authority cannot sign now; empty when it can."""
        try:
            if not self.exists():
                return ""
            certificate = self.certificate()
            self.key()
        except CaError as exc:
            return str(exc)
        if at >= certificate.not_valid_after_utc:
            return (
                f"the cluster's CA {self.cert_file} expired on {certificate.not_valid_after_utc:%Y-%m-%d}; "
                "replace it as docs/playbooks/rotate.md says under 'An authority that has expired'"
            )
        if at < certificate.not_valid_before_utc:
            return f"the cluster's CA {self.cert_file} is not valid yet; correct this controller's clock"
        return ""

    def reason_to_issue(self, pem: str, request: x509.CertificateSigningRequest, certificate: WantedCertificate) -> str:
        """The reason why a host's certificate has to be replaced; empty when it is right and lasts."""
        if not pem:
            return "there is none"
        try:
            current = x509.load_pem_x509_certificate(pem.encode())
            current.verify_directly_issued_by(self.certificate())
        except (ValueError, TypeError, InvalidSignature):
            return "it was not issued by this authority"
        if current.public_key() != request.public_key():
            return "its key is another"
        if current.subject != subject(certificate.name, certificate.role):
            return "its subject is another"
        if set(_sans(current)) != set(general_names(certificate.sans)):
            return "its names are others"
        remaining = days_left(current, now())
        return f"it expires in {remaining} days" if remaining < certificate.renew_days else ""

    def issue(self, request: x509.CertificateSigningRequest, wanted: WantedCertificate) -> str:
        """A certificate for a request, as PEM. Of the request only its key counts, not what it says of itself."""
        reserved = [name for name in wanted.sans if name.lower().rstrip(".") in _MEMBERS]
        if wanted.role != "etcd" and reserved:
            raise CaError(
                f"{wanted.name} may not be called {reserved[0]} as {wanted.role}; take it out of the inventory"
            )
        if not request.is_signature_valid:
            msg = f"the request of {wanted.name} for role {wanted.role} is not signed by its own key; run it again"
            raise CaError(msg)
        authority, at = self.certificate(), now()
        end = min(at + datetime.timedelta(days=wanted.days), authority.not_valid_after_utc)
        public = request.public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey):
            raise CaError(
                f"{wanted.name} asked with a key that is not an elliptic-curve key; remove the host's key and run again"
            )
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject(wanted.name, wanted.role))
            .issuer_name(authority.subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(max(at - _SLACK, authority.not_valid_before_utc))
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.SubjectAlternativeName(general_names(wanted.sans)), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key().public_key()), critical=False)
            .sign(self.key(), hashes.SHA256())
        )
        return certificate.public_bytes(_PEM).decode()


def _sans(certificate: x509.Certificate) -> list[x509.GeneralName]:
    try:
        return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def load_request(pem: str, certificate: WantedCertificate) -> x509.CertificateSigningRequest:
    """A host's request; CaError when it is none."""
    try:
        return x509.load_pem_x509_csr(pem.encode())
    except ValueError:
        msg = f"{certificate.name} sent no certificate request for role {certificate.role}; check the host's openssl"
        raise CaError(msg) from None


def sign_all(
    authority: Authority, present: list[dict[str, str]], certificates: list[WantedCertificate], *, force: bool
) -> list[tuple[str, str]]:
    """For each certificate of a host (the new certificate or '', why); `held` has `csr` and `certificate` of each."""
    decided = []
    for have, want in zip(present, certificates, strict=True):
        request = load_request(have["csr"], want)
        reason = authority.reason_to_issue(have["certificate"], request, want) or ("asked for" if force else "")
        decided.append((authority.issue(request, want) if reason else "", reason))
    return decided
