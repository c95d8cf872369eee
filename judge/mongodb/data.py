"""The identity of a data directory: what tells a restarted disk from a replaced one.

mongod itself cannot: a member whose disk was emptied joins under its old _id, votes at once, and can elect a primary
that lacks acknowledged writes. So each data directory gets an incarnation of its own, kept in a file beside
mongod's, which is lost together with them.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from judge.common import files
from judge.common.errors import RefusedError

MARKER = "judge-member.json"
TLS_FILE = "judge-tls.pem"
_STORAGE = ("storage.bson", "WiredTiger")
# Files that this daemon, the file system, or a mongod that was killed while making its first files can leave behind.
_HARMLESS = frozenset({MARKER, TLS_FILE, "lost+found", "mongod.lock", "journal", "diagnostic.data", "WiredTiger.lock"})


@dataclass(frozen=True)
class MongodDataDir:
    """A data directory as found at start.

    `fresh`: it held no database. `marked`: its database was made by this daemon. `rsid`: the replica set that it is
    known to belong to, or None before it has joined one.
    """

    path: Path
    incarnation: str
    rsid: str | None = None
    fresh: bool = False
    marked: bool = True

    def joined(self, rsid: str) -> MongodDataDir:
        """Remember durably which replica set this directory belongs to; returns it as it is from now on."""
        if self.marked and self.rsid == rsid:
            return self
        joined_dir = replace(self, rsid=rsid, marked=True)
        joined_dir.save()
        return joined_dir

    def save(self) -> None:
        """Write the marker so that a crash leaves the old one or the new one."""
        text = json.dumps({"incarnation": self.incarnation, "replica_set_id": self.rsid}) + "\n"
        write_private(self.path / MARKER, text.encode())


def write_private(path: Path, data: bytes) -> None:
    """Replace a file atomically and durably, readable by its owner only; RefusedError when that is impossible."""
    try:
        files.replace(path, data, durable=True)
    except OSError as exc:
        msg = f"{path} cannot be written: {exc.strerror}; free space or make the directory writable for this user"
        raise RefusedError(msg) from exc


def _marker(path: Path) -> tuple[str, str | None] | None:
    """Incarnation and replica set of the marker file; None when there is no (readable) marker."""
    try:
        fields = json.loads((path / MARKER).read_text(encoding="utf-8"))
        incarnation, rsid = fields["incarnation"], fields["replica_set_id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(incarnation), None if rsid is None else str(rsid)


def prepare(path: Path) -> MongodDataDir:
    """Look at a data directory, making it when it is missing; called once before mongod starts.

    An empty one gets a new incarnation, even where an old marker survived: its data did not. RefusedError when it
    holds something that is not mongod's, as mongod would scatter its files among them.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.sweep(path)
        names = {entry.name for entry in path.iterdir()}
    except OSError as exc:
        msg = f"data_dir {path} cannot be used: {exc.strerror}; name a directory that this user may write"
        raise RefusedError(msg) from exc
    if not names.intersection(_STORAGE):
        foreign = sorted(names - _HARMLESS)
        if foreign:
            msg = f"data_dir {path} holds '{foreign[0]}' and no MongoDB data; name an empty directory or mongod's own"
            raise RefusedError(msg)
        created = MongodDataDir(path, uuid.uuid4().hex, fresh=True)
        created.save()
        return created
    marker = _marker(path)
    if marker is None:
        return MongodDataDir(path, uuid.uuid4().hex, marked=False)
    return MongodDataDir(path, marker[0], rsid=marker[1])
