"""A new authority in the place of the old one, in steps that leave a working one behind wherever they are cut off.

Each step replaces one file, so there is no moment in which key and certificate do not belong together: hosts trust
both, then the new one signs, then hosts trust the new one only. The passphrase stays.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from judge.common import files
from judge.common.pki.authority import Authority, CaError, encrypted, self_signed

_PEM = serialization.Encoding.PEM


class Successor:
    """The authority that takes another one's place; its files wait in a directory of their own until they are used."""

    def __init__(
        self, authority: Authority, directory: Path, like: Callable[[Path, bytes], bytes] = lambda _, data: data
    ) -> None:
        """`like`: what a file gets to be as another one is, which ansible-vault may have encrypted."""
        self._old, self._like = authority, like
        self.key_file, self.cert_file = directory / "next-ca.key", directory / "next-ca.crt"

    def prepare(self, name: str, days: int) -> None:
        """Make its key, encrypted like the old one's, and its certificate; CaError when the old one cannot be read."""
        key = ec.generate_private_key(ec.SECP256R1())
        text = self_signed(key, name, days).public_bytes(_PEM)
        data = self._like(self._old.key_file, encrypted(key, self._old.passphrase()))
        files.replace(self.key_file, data, durable=True)
        files.replace(self.cert_file, self._like(self._old.cert_file, text), 0o644, durable=True)

    def certificate(self) -> x509.Certificate:
        """Its certificate; CaError when it was lost."""
        try:
            return x509.load_pem_x509_certificate(self._old.read(self.cert_file))
        except (OSError, ValueError):
            raise CaError(
                f"{self.cert_file} cannot be read; restore it from a backup of the secrets directory"
            ) from None

    def trust_both(self) -> None:
        """`ca.crt` has the old one and the new one; done again it changes nothing."""
        new = self.certificate()
        old = [certificate for certificate in self._old.trusted() if certificate != new]
        self._write([*old, new])

    def sign(self) -> None:
        """The new one signs from now on; CaError when its key was lost before it was in its place."""
        if self._signs():
            return
        try:
            key = self.key_file.read_bytes()
        except OSError as exc:
            raise CaError(f"{self.key_file} cannot be read: {exc.strerror}; restore it from a backup") from None
        files.replace(self._old.key_file, key, durable=True)

    def trust_new_only(self) -> None:
        """`ca.crt` has the new one only."""
        if not self._signs():
            raise CaError(f"{self._old.key_file} is not yet the new authority's; nothing was changed, run rotate.yml")
        self._write([self.certificate()])

    def _signs(self) -> bool:
        try:
            return self._old.key().public_key() == self.certificate().public_key()
        except CaError:
            return False

    def _write(self, certificates: list[x509.Certificate]) -> None:
        text = b"".join(certificate.public_bytes(_PEM) for certificate in certificates)
        if self._old.text().encode() != text:
            files.replace(self._old.cert_file, self._like(self._old.cert_file, text), 0o644, durable=True)
