"""Certificates as a public authority issues them: a root, an intermediate authority, and servers' certificates."""

import datetime
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from judge.common import clock
from judge.common.pki.authority import general_names

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Issuer:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def issue(
    name: str,
    issuer: Issuer | None = None,
    *,
    sans: tuple[str, ...] = (),
    begins: datetime.timedelta = -DAY,
    ends: datetime.timedelta = 90 * DAY,
) -> Issuer:
    """A certificate: of an authority unless it has names of servers; signed by itself without an issuer."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer = issuer or Issuer(None, key)  # type: ignore[arg-type]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = clock.wall()
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
        .add_extension(x509.BasicConstraints(ca=not sans, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()), critical=False
        )
    )  # fmt: skip
    if sans:
        builder = builder.add_extension(x509.SubjectAlternativeName(general_names(sans)), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return Issuer(builder.sign(signer.key, hashes.SHA256()), key)


@dataclass(frozen=True)
class Public:
    """A root, an intermediate authority, and the certificate of a server with both ways to write it into a file."""

    root: Issuer
    middle: Issuer
    server: Issuer

    def write(self, directory: Path) -> tuple[Path, Path]:
        """The chain (server, intermediate authority) and the key as files; the root goes beside them as root.crt."""
        directory.mkdir(parents=True, exist_ok=True)
        chain, key = directory / "fullchain.pem", directory / "privkey.pem"
        chain.write_bytes(self.server.pem + self.middle.pem)
        key.write_bytes(self.server.key_pem)
        (directory / "root.crt").write_bytes(self.root.pem)
        return chain, key


def public(*names: str) -> Public:
    """A server's certificate for these names, from an authority of its own."""
    root = issue("Other Root")
    middle = issue("Other Intermediate", root)
    return Public(root, middle, issue(names[0], middle, sans=names))
