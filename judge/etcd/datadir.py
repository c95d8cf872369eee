"""A member's directory on disk: etcd's own data in `data/`, the record of the membership beside it.

The ids are read from the log that etcd itself wrote: swapped or foreign data is seen before a server runs on it.
"""

from __future__ import annotations

import dataclasses
import shutil
import struct
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from judge.common import files
from judge.common.errors import RefusedError
from judge.etcd.planner import EntryMode, MemberDisk, MemberRecord, PeerAddress

_METADATA = 1  # walpb.Record.type of the record that names the member and the cluster
_HEAD = 4096  # bytes; the metadata is the second record of every log file


# As etcd's own tools print ids. Python 3.13 shows a signature of "{:x}".format that pydantic refuses.
_Hexadecimal = Annotated[
    int, BeforeValidator(lambda text: int(text, 16)), PlainSerializer(lambda number: f"{number:x}")
]


class _Stored(BaseModel):
    """The record as JSON."""

    model_config = ConfigDict(defer_build=True, extra="forbid")

    token: str
    name: str
    peer: str
    decision: EntryMode
    initial: tuple[PeerAddress, ...] = ()
    member_id: _Hexadecimal = 0
    cluster_id: _Hexadecimal = 0
    started: bool = False
    left: bool = False


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> dict[int, Any]:
    """The varint and bytes fields of a protobuf message by number; IndexError or ValueError when it is none."""
    fields: dict[int, Any] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            fields[tag >> 3], at = _varint(data, at)
        elif tag & 7 == 2:
            length, at = _varint(data, at)
            fields[tag >> 3] = data[at : at + length]
            at += length
        else:
            raise ValueError(f"unexpected wire type {tag & 7}")
    return fields


def log_ids(head: bytes) -> tuple[int, int]:
    """(member id, cluster id) from the first bytes of a log file of etcd 3.4 to 3.6; (0, 0) when it is not one.

    Each record is an 8-byte little-endian length (its top byte tells the padding) and a `walpb.MemberRecord`.
    """
    at = 0
    try:
        while at + 8 <= len(head):
            (raw,) = struct.unpack_from("<Q", head, at)
            length = raw & ((1 << 56) - 1)
            padding = (raw >> 56) & 7 if raw >> 63 else 0
            if not length:
                break
            record = _fields(head[at + 8 : at + 8 + length])
            if record.get(1) == _METADATA:
                metadata = _fields(record[3])
                return int(metadata[1]), int(metadata[2])
            at += 8 + length + padding
    except (IndexError, KeyError, ValueError, TypeError):
        pass
    return 0, 0


class EtcdDataDir:
    """The directory of one member; one process at a time uses it. Nothing is made before something is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path / "data"
        self.old = path / "data.old"
        self.record_file = path / "membership.json"

    def read(self) -> MemberDisk:
        """Look at the directory; RefusedError when the record or the layout cannot be understood."""
        if (self.path / "member").exists():
            msg = f"{self.path}: holds the data of an etcd that judge did not start; set data_dir to another directory"
            raise RefusedError(msg)
        logs = sorted((self.data / "member" / "wal").glob("*.wal"))
        ids = (0, 0)
        if logs:
            with logs[-1].open("rb") as file:
                ids = log_ids(file.read(_HEAD))
        return MemberDisk(bool(logs), *ids, self._read_record())

    def _read_record(self) -> MemberRecord | None:
        try:
            return MemberRecord(**dict(_Stored.model_validate_json(self.record_file.read_text(encoding="utf-8"))))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as exc:  # TypeError: an id that is no text
            reason = exc.strerror if isinstance(exc, OSError) else "it is not a membership record"
            msg = f"{self.record_file}: cannot be used: {reason}; restore it, or move {self.path} away to join anew"
            raise RefusedError(msg) from exc

    def write(self, record: MemberRecord) -> None:
        """Replace the record; after this returns it survives a power cut."""
        stored = _Stored.model_construct(**dataclasses.asdict(record))
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            files.sweep(self.path)
            files.replace(self.record_file, stored.model_dump_json(indent=1), durable=True)
        except OSError as exc:
            msg = f"{self.record_file}: cannot be written: {exc.strerror}; give this user a writable data_dir"
            raise RefusedError(msg) from exc

    def prepare(self) -> None:
        """Make an empty data directory for a server that starts without data; what an interrupted start left goes."""
        if self.data.exists():
            shutil.rmtree(self.data)
        self.data.mkdir(mode=0o700, parents=True)

    def discard(self) -> None:
        """Put the data aside as `data.old`; the one that was put aside before is deleted."""
        if not self.data.exists():
            return
        if self.old.exists():
            shutil.rmtree(self.old)
        self.data.rename(self.old)
        files.sync_directory(self.path)
