"""The three keys of a backup, the second and third of which are made of the first.

- The operator's key opens a backup.
- The controller's key signs the controller's secrets, which are stored beside the data.
- The hosts' key only adds backups of data. It opens nothing and signs no secrets.

An attacker on a host can neither read earlier backups nor replace the controller's secrets in them. The place that
stores the backups can neither read nor forge one (docs/decisions/036-backups.md).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from judge.common.errors import UsageError

_BYTES = 32
_OPERATOR = "judge-backup-key-1:"
_HOST = "judge-backup-host-key-1:"
_CONTROLLER = "judge-backup-controller-key-1:"
# A signature of anything else is none of secrets.
_PURPOSE = b"judge backup secrets 1\0"
SIGNATURE = 64  # bytes


def derived(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """A key of 32 bytes for one purpose (RFC 5869)."""
    return HKDF(SHA256(), _BYTES, salt, info).derive(secret)


def _decoded(text: str, prefix: str, size: int, label: str) -> bytes:
    """The bytes of a key's text; UsageError without a word of what it holds."""
    stripped = text.strip()
    try:
        raw = base64.urlsafe_b64decode(stripped.removeprefix(prefix).encode())
    except (binascii.Error, ValueError):
        raw = b""
    if not stripped.startswith(prefix) or len(raw) != size:
        raise UsageError(f"this is not {label} of backups; it is one line that begins with '{prefix}'")
    return raw


def _encoded(prefix: str, raw: bytes) -> str:
    return prefix + base64.urlsafe_b64encode(raw).decode() + "\n"


@dataclass(frozen=True)
class HostKey:
    """A host's key: the public key for which all is encrypted, and the key that seals its manifests."""

    recipient: bytes
    seal: bytes

    @classmethod
    def parse(cls, text: str) -> HostKey:
        raw = _decoded(text, _HOST, 2 * _BYTES, "a host's key")
        return cls(raw[:_BYTES], raw[_BYTES:])

    def text(self) -> str:
        return _encoded(_HOST, self.recipient + self.seal)

    def sign(self, data: bytes) -> str:
        return hmac.digest(self.seal, data, "sha256").hex()

    def shared(self) -> tuple[bytes, bytes]:
        """A new public key to be sent along, and the secret that it and the operator's key have in common."""
        own_key = X25519PrivateKey.generate()
        public = own_key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        secret = own_key.exchange(X25519PublicKey.from_public_bytes(self.recipient))
        return public, derived(secret, public + self.recipient, b"file key")


@dataclass(frozen=True)
class ControllerKey:
    """The controller's key, which no host has: it signs the secrets, and has the hosts' key to encrypt them."""

    host: HostKey
    seed: bytes

    @classmethod
    def parse(cls, text: str) -> ControllerKey:
        raw = _decoded(text, _CONTROLLER, 3 * _BYTES, "the controller's key")
        return cls(HostKey(raw[:_BYTES], raw[_BYTES : 2 * _BYTES]), raw[2 * _BYTES :])

    def text(self) -> str:
        return _encoded(_CONTROLLER, self.host.recipient + self.host.seal + self.seed)

    def sign(self, secrets: bytes) -> bytes:
        """The signature (Ed25519) of the controller's secrets; the same secrets have the same one."""
        return Ed25519PrivateKey.from_private_bytes(self.seed).sign(_PURPOSE + secrets)

    def public(self) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.seed).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


@dataclass(frozen=True)
class OperatorKey:
    """The operator's key, which no host has: 32 bytes from which all others are derived."""

    master: bytes

    @classmethod
    def new(cls) -> OperatorKey:
        return cls(secrets.token_bytes(_BYTES))

    @classmethod
    def parse(cls, text: str) -> OperatorKey:
        return cls(_decoded(text, _OPERATOR, _BYTES, "the operator's key"))

    def text(self) -> str:
        """As it lies in a file, a safe or a vault."""
        return _encoded(_OPERATOR, self.master)

    def _private(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(derived(self.master, b"judge backup 1", b"recipient"))

    def host_key(self) -> HostKey:
        public = self._private().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return HostKey(public, derived(self.master, b"judge backup 1", b"seal"))

    def controller_key(self) -> ControllerKey:
        return ControllerKey(self.host_key(), derived(self.master, b"judge backup 1", b"secrets"))

    def signed(self, secrets: bytes, signature: bytes) -> bool:
        """Return whether the controller has signed these secrets. No host's key makes such a signature."""
        try:
            Ed25519PublicKey.from_public_bytes(self.controller_key().public()).verify(signature, _PURPOSE + secrets)
        except InvalidSignature:
            return False
        return True

    def shared(self, public: bytes) -> bytes:
        """The secret that `HostKey.shared` has returned beside this public key."""
        own_key = self._private()
        recipient = own_key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return derived(own_key.exchange(X25519PublicKey.from_public_bytes(public)), public + recipient, b"file key")
