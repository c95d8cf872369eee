"""The directory of a cluster's backups.

    backups/ID.json     a manifest; a backup is there once this file is
    packs/AA/NAME       packs of pieces, which several backups share
    secrets/NAME        the controller's secrets, encrypted on the controller
    secrets/current     the name of the newest
    host/               this host's own notes: which piece is in which pack. Not part of a copy

All but `host` can be copied as it is, to any storage, and checked there without a key. One process writes at a time.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Final

from judge.backup.keys import HostKey, OperatorKey
from judge.backup.manifest import Manifest
from judge.backup.packs import PackReader, PackWriter, digest_of
from judge.backup.retention import Keep, kept_moments
from judge.common import files
from judge.common.errors import JudgeError, RefusedError, UnavailableError
from judge.mongodb.backup_names import is_id

# Bytes after which a pack is ended: few files, and each small enough to be sent in one piece.
PACK: Final = 16 * 1024**2
# A pack of which a backup uses less than this share is written anew, and goes with the backups that need it.
_LIVE: Final = 1 / 3
_SCHEMA = """
CREATE TABLE IF NOT EXISTS packs (name TEXT PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pieces (name BLOB PRIMARY KEY, pack TEXT NOT NULL, size INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS blobs (name TEXT PRIMARY KEY, pieces BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_pack ON pieces (pack);
"""


class Repository:
    """A directory of backups, for reading; RefusedError when it cannot be used."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.backups, self.packs, self.secrets = root / "backups", root / "packs", root / "secrets"

    def pack(self, name: str) -> Path:
        return self.packs / name[:2] / name

    def ids(self) -> list[str]:
        try:
            return sorted(path.stem for path in self.backups.glob("*.json") if is_id(path.stem))
        except OSError as exc:
            raise RefusedError(f"{self.root}: cannot be read: {exc.strerror}") from None

    def manifest(self, name: str, key: HostKey | None = None) -> Manifest:
        """One of them by its id, or `latest`; RefusedError when it is not there."""
        ids = self.ids()
        backup_id = ids[-1] if name == "latest" and ids else name
        if backup_id not in ids:
            known_ids = ", ".join(ids[-3:]) or "none"
            raise RefusedError(f"{self.root}: there is no backup '{name}'; there is {known_ids}")
        path = self.backups / f"{backup_id}.json"
        manifest = Manifest.parse(path.read_text(encoding="utf-8", errors="replace"), str(path), key)
        if manifest.id != backup_id:
            raise JudgeError(f"{path}: is the manifest of {manifest.id}; give the file that name back")
        return manifest

    def check(self, manifest: Manifest, *, secrets: bool = True) -> None:
        """Every file that a backup needs is here and whole; JudgeError names the first that is not. Needs no key.

        `secrets`: the controller's as well, which a restore of the data does without.
        """
        secret = [self.secrets / manifest.secrets] if manifest.secrets and secrets else []
        for path in [*map(self.pack, sorted(manifest.packs)), *secret]:
            if not path.is_file():
                raise JudgeError(f"{path}: is missing, and backup {manifest.id} needs it; copy it again")
            if path.parent != self.secrets and digest_of(path) != path.name:
                raise JudgeError(f"{path}: is damaged; copy it again, or restore an older backup")

    def prune(self, keep: Keep, next_one: datetime.datetime | None = None) -> tuple[list[str], int]:
        """Remove backups that are not to be kept and what only they needed: (their ids, how many packs).

        With `next_one` nothing is removed: it tells what would be, had another backup been made at that moment.
        """
        manifests = [self.manifest(name) for name in self.ids()]
        staying = kept_moments([*(manifest.moment for manifest in manifests), *([next_one] if next_one else [])], keep)
        removed = [manifest for manifest in manifests if manifest.moment not in staying]
        used_packs = {name for manifest in manifests if manifest.moment in staying for name in manifest.packs}
        secrets = {manifest.secrets for manifest in manifests if manifest.moment in staying} | {
            "current",
            self.current_secrets(),
        }
        unused = [path for path in self.packs.glob("*/*") if path.name not in used_packs]
        if next_one is not None:
            return [manifest.id for manifest in removed], len(unused)
        for manifest in removed:
            (self.backups / f"{manifest.id}.json").unlink(missing_ok=True)
        for path in [*unused, *(path for path in self.secrets.glob("*") if path.name not in secrets)]:
            path.unlink(missing_ok=True)
        return [manifest.id for manifest in removed], len(unused)

    def current_secrets(self) -> str:
        try:
            return (self.secrets / "current").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return ""

    def has_secrets(self, name: str) -> bool:
        return self.current_secrets() == name and (self.secrets / name).is_file()

    def put_secrets(self, name: str, sealed: bytes) -> bool:
        """Store the controller's secrets as the newest; whether something has changed."""
        if self.has_secrets(name):
            return False
        self.secrets.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.replace(self.secrets / name, sealed, durable=True)
        files.replace(self.secrets / "current", name + "\n", durable=True)
        return True


class PieceReader:
    def __init__(self, repository: Repository, manifest: Manifest, key: OperatorKey) -> None:
        """Reads the tables of its packs; JudgeError when one is missing or damaged."""
        self._packs: dict[bytes, PackReader] = {}
        for path in map(repository.pack, manifest.packs):
            try:
                pack = PackReader(key, path)
            except FileNotFoundError:
                raise JudgeError(f"{path}: is missing; copy it again") from None
            self._packs.update(dict.fromkeys(pack.places, pack))

    def check(self) -> int:
        """Open every piece; how many there are. JudgeError for one that is damaged."""
        return sum(len(self.read(name)) >= 0 for name in self._packs)

    def require(self, names: Iterable[bytes]) -> None:
        """JudgeError unless all of these pieces are in the packs."""
        for name in names:
            if name not in self._packs:
                raise JudgeError(f"piece {name.hex()} is in no pack of this backup; restore an older one")

    def read(self, name: bytes) -> bytes:
        """A piece, checked; JudgeError when it is not there or damaged."""
        self.require([name])
        return self._packs[name].read(name)


class Writer(Repository):
    """A directory of backups that this host adds to. Use `writing`."""

    def __init__(self, root: Path, key: HostKey, pack_bytes: int) -> None:
        super().__init__(root)
        self._key = key
        self._pack_bytes = pack_bytes
        self._notes = sqlite3.connect(root / "host/notes.sqlite", isolation_level=None)
        self._notes.executescript(f"PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; {_SCHEMA}")
        self._file: IO[bytes] | None = None
        self._pack: PackWriter | None = None
        self._fresh: dict[bytes, int] = {}
        self.uses: dict[str, int] = {}
        self.added = 0
        self._forget_what_is_gone()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._partial.unlink(missing_ok=True)
        self._notes.close()

    @property
    def _partial(self) -> Path:
        return self.root / "host/pack.partial"

    def _forget_what_is_gone(self) -> None:
        """Packs that are not there any more, or hardly used by the newest backup, are as if they had never been."""
        present_packs = {path.name for path in self.packs.glob("*/*")}
        ids = self.ids()
        uses = self.manifest(ids[-1]).packs if ids else {}
        for name, size in self._notes.execute("SELECT name, size FROM packs").fetchall():
            if name not in present_packs or (name in uses and uses[name] < size * _LIVE):
                with self._transaction():
                    self._notes.execute("DELETE FROM pieces WHERE pack = ?", (name,))
                    self._notes.execute("DELETE FROM packs WHERE name = ?", (name,))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._notes.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._notes.execute("ROLLBACK")
            raise
        self._notes.execute("COMMIT")

    def holds(self, name: bytes) -> bool:
        """Return whether a piece is stored; it then counts as used by this backup."""
        if name in self._fresh:
            return True
        row = self._notes.execute("SELECT pack, size FROM pieces WHERE name = ?", (name,)).fetchone()
        if row is not None:
            self.uses[row[0]] = self.uses.get(row[0], 0) + row[1]
        return row is not None

    def put(self, name: bytes, content: bytes) -> None:
        """Store a piece unless it is there; UnavailableError when the disk does not take it."""
        if self.holds(name):
            return
        try:
            if self._pack is None:
                self._file = self._partial.open("wb")
                os.fchmod(self._file.fileno(), 0o600)
                self._pack = PackWriter(self._key, self._file)
            self._fresh[name] = self._pack.add(name, content)
            if self._pack.size >= self._pack_bytes:
                self.flush()
        except OSError as exc:
            raise UnavailableError(f"{self.root}: a pack cannot be written: {exc.strerror}; free space there") from None

    def flush(self) -> None:
        """End the pack that is being written, if there is one: from now on its pieces are stored."""
        if self._pack is None or self._file is None:
            return
        # As `files.replacing` with `durable`, which cannot be used: a pack is named by its content, so at its end.
        name, size = self._pack.finish(), self._pack.size
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        place = self.pack(name)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._partial.replace(place)
        files.sync_directory(place.parent)
        with self._transaction():
            self._notes.execute("INSERT OR REPLACE INTO packs VALUES (?, ?)", (name, size))
            rows = [(piece, name, bytes_) for piece, bytes_ in self._fresh.items()]
            self._notes.executemany("INSERT OR REPLACE INTO pieces VALUES (?, ?, ?)", rows)
        self.uses[name] = sum(self._fresh.values())
        self.added += size
        self._file, self._pack, self._fresh = None, None, {}

    def blob(self, sha: str) -> list[bytes] | None:
        """The names of a blob's pieces, when all of them are stored."""
        row = self._notes.execute("SELECT pieces FROM blobs WHERE name = ?", (sha,)).fetchone()
        names = [bytes.fromhex(sha)] if row is None else [row[0][at : at + 32] for at in range(0, len(row[0]), 32)]
        return names if all(self._stored(name) for name in names) else None

    def _stored(self, name: bytes) -> bool:
        if name in self._fresh:
            return True
        return self._notes.execute("SELECT 1 FROM pieces WHERE name = ?", (name,)).fetchone() is not None

    def note_blob(self, sha: str, names: list[bytes]) -> None:
        if names != [bytes.fromhex(sha)]:
            self._notes.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?)", (sha, b"".join(names)))

    def publish(self, manifest: Manifest) -> Manifest:
        """Make the backup one that is there; returns it with its seal."""
        signed = manifest.signed(self._key)
        files.replace(self.backups / f"{manifest.id}.json", signed.text(), 0o644, durable=True)
        return signed


@contextlib.contextmanager
def writing(root: Path, key: HostKey, pack_bytes: int = PACK) -> Iterator[Writer]:
    """The directory, made when it is missing, for one writer; RefusedError when another one is at work."""
    try:
        for name in ("backups", "packs", "secrets", "host"):
            (root / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (root / "host/lock").open("w")
    except OSError as exc:
        raise RefusedError(f"{root}: cannot be written: {exc.strerror}; make it this user's directory") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RefusedError(f"{root}: another backup is being written there; wait until it has ended") from None
        notes = root / "host/notes.sqlite"
        try:
            with contextlib.closing(Writer(root, key, pack_bytes)) as writer:
                yield writer
        except sqlite3.Error as exc:
            raise UnavailableError(
                f"{notes}: {exc}; free space there, or remove it, and the next backup stores everything once more"
            ) from None
