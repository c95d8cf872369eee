"""Packs: files of encrypted pieces. Everybody can check that a pack is whole; only the operator's key opens it.

    magic, a public key (32 bytes), the pack's key under the secret that both keys share (48)
    the pieces, each AES-256-GCM with its number as nonce
    the table of the pieces, encrypted alike, and its length (8 bytes, big-endian)

A pack's name is the SHA-256 of all of it. A piece's name is the SHA-256 of its content before compression.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from judge.backup.keys import HostKey, OperatorKey
from judge.common.errors import JudgeError

MAGIC: Final = b"judge-backup-1\n"
_WRAPPED: Final = 48
_HEAD: Final = len(MAGIC) + 32 + _WRAPPED
_TAIL: Final = 8
_TABLE: Final = b"\xff" * 12
_PLAIN, _DEFLATED = b"\0", b"\1"
_LEVEL: Final = 1
_READ: Final = 1 << 20
# The most that one piece or table unpacks to: a hostile host may write packs that grow a thousandfold.
_UNPACKED: Final = 1 << 30


def name_of(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _inflated(data: bytes) -> bytes:
    """ValueError if it is too large or ends too early; zlib.error."""
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(data, _UNPACKED)
    if not unpacker.eof:
        raise ValueError("is too large, or only a part")
    return content


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, which is its name if it is whole."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(_READ):
            digest.update(data)
    return digest.hexdigest()


class PackWriter:
    def __init__(self, key: HostKey, file: IO[bytes]) -> None:
        """Write the head. This and all other methods raise OSError when the disk takes no more."""
        self._file = file
        self._digest = hashlib.sha256()
        self._table: list[tuple[str, int, int]] = []
        self.size = 0
        public, secret = key.shared()
        pack_key = AESGCM.generate_key(256)
        self._cipher = AESGCM(pack_key)
        # The secret is used for this pack only, so the nonce may be all zeros.
        self._write(MAGIC + public + AESGCM(secret).encrypt(bytes(12), pack_key, MAGIC + public))

    def _write(self, data: bytes) -> None:
        self._digest.update(data)
        self._file.write(data)
        self.size += len(data)

    def add(self, name: bytes, content: bytes) -> int:
        """Add a piece; returns the bytes that it takes."""
        squeezed = zlib.compress(content, _LEVEL)
        data = _DEFLATED + squeezed if len(squeezed) < len(content) else _PLAIN + content
        sealed = self._cipher.encrypt(len(self._table).to_bytes(12, "big"), data, name)
        self._table.append((name.hex(), self.size, len(sealed)))
        self._write(sealed)
        return len(sealed)

    def finish(self) -> str:
        """Write the table; returns the name that the file must get."""
        table = self._cipher.encrypt(_TABLE, zlib.compress(json.dumps(self._table).encode()), MAGIC)
        self._write(table)
        self._write(len(table).to_bytes(_TAIL, "big"))
        return self._digest.hexdigest()


@dataclass(frozen=True)
class PiecePlace:
    """The place of a piece in its pack: its number, and the bytes from `start` on."""

    number: int
    start: int
    size: int


class PackReader:
    """Reads one pack. Its file is open during a call only, as many packs would be too many open files."""

    def __init__(self, key: OperatorKey, path: Path) -> None:
        """Read the table; JudgeError when the file is no pack, is damaged, or is for another key."""
        self.path = path
        with path.open("rb") as file:
            self._cipher, self.places = self._table(key, file)

    def _table(self, key: OperatorKey, file: IO[bytes]) -> tuple[AESGCM, Mapping[bytes, PiecePlace]]:
        size = self.path.stat().st_size
        head = file.read(_HEAD)
        public, wrapped = head[len(MAGIC) : -_WRAPPED], head[-_WRAPPED:]
        if len(head) < _HEAD or not head.startswith(MAGIC) or size < _HEAD + _TAIL:
            raise JudgeError(f"{self.path}: is no pack of a backup, or only a part of one; copy it again")
        try:
            cipher = AESGCM(AESGCM(key.shared(public)).decrypt(bytes(12), wrapped, MAGIC + public))
        except (InvalidTag, ValueError):
            raise JudgeError(f"{self.path}: does not open with this key; it was made for another one") from None
        file.seek(size - _TAIL)
        length = int.from_bytes(file.read(_TAIL), "big")
        start = size - _TAIL - length
        file.seek(max(start, 0))
        sealed = file.read(length) if start >= _HEAD else b""  # else more might be asked for than memory holds
        try:
            rows = json.loads(_inflated(cipher.decrypt(_TABLE, sealed, MAGIC)))
        except (InvalidTag, ValueError, zlib.error):
            raise JudgeError(f"{self.path}: is damaged; copy it again, or restore an older backup") from None
        return cipher, {bytes.fromhex(name): PiecePlace(number, *place) for number, (name, *place) in enumerate(rows)}

    def read(self, name: bytes) -> bytes:
        """The content of a piece, checked by its name. JudgeError: it is damaged. KeyError: it is not in this pack."""
        place = self.places[name]
        with self.path.open("rb") as file:
            file.seek(place.start)
            sealed = file.read(place.size)
        try:
            data = self._cipher.decrypt(place.number.to_bytes(12, "big"), sealed, name)
            content = _inflated(data[1:]) if data[:1] == _DEFLATED else data[1:]
        except (InvalidTag, ValueError, zlib.error):
            content = b""
        if name_of(content) != name:
            raise JudgeError(f"{self.path}: piece {name.hex()} is damaged; copy it again, or restore an older backup")
        return content

    def pieces(self) -> Iterator[bytes]:
        return (self.read(name) for name in self.places)
