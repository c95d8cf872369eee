"""From the database to a directory of backups, while the cluster judges on.

All documents are read as they were at one moment: after a linearizable read, with which the primary knows of all that
was acknowledged, a snapshot session reads the newest state that a majority has. MongoDB keeps that state for five
minutes (`minSnapshotHistoryWindowInSeconds`). Blobs never change under their name, so they need no moment: those that
are new are stored first, however long that takes, and the few that have come meanwhile after the documents.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pymongo
from bson import ObjectId
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference

from judge.backup.packs import name_of
from judge.backup.pieces import LARGEST, of_blob, of_documents
from judge.backup.repository import Writer
from judge.common import failpoint
from judge.common.errors import RefusedError, UnavailableError
from judge.mongodb.store import DRIVER_ERRORS, Bson, Client, translate

log = logging.getLogger(__name__)

FILES: Final = "fs.files"
CHUNKS: Final = "fs.chunks"
# Made by a restore, for a restore.
RESTORING: Final = "restoring"
# All collections belong to a backup, those that a later release adds as well, but for these. Chunks are stored as the
# blobs that they make up. Who was logged in logs in again: a session that was ended since must not come back.
LEFT_OUT: Final = frozenset({CHUNKS, RESTORING, "sessions", "rates", "minutes", "machines"})
# Seconds: an election of a primary passes meanwhile.
PATIENCE: float = 15.0
_TOO_OLD: Final = 239  # SnapshotTooOld
_TRIES: Final = 3
# Files whose chunks are asked for at once, and their bytes.
_FILES_AT_ONCE, _BYTES_AT_ONCE = 100, LARGEST
_PAGE: Final = 2000


@dataclass
class Dumped:
    """The pieces of each collection that were stored, with the number of their documents, and the digest of all."""

    collections: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    large: dict[str, list[str]] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    document_bytes: int = 0
    blobs: int = 0
    blob_bytes: int = 0
    snapshot_time: Any = None

    @property
    def counts(self) -> dict[str, int]:
        return {name: sum(count for _, count in pieces) for name, pieces in self.collections.items()}

    def tree(self) -> bytes:
        return json.dumps({"collections": self.collections, "large": self.large}, sort_keys=True).encode()


@dataclass(frozen=True)
class _UploadedFile:
    id: ObjectId
    sha: str
    length: int


class _GoneError(Exception):
    """A blob that the snapshot names was removed before it could be read; another snapshot knows of that."""


def dump(client: Client, database: str, writer: Writer) -> Dumped:
    """Store what a database holds. Safe to repeat at any point.

    UnavailableError when it cannot be read now, RefusedError while it is being restored.
    """
    try:
        return _Dump(client, database, writer).run()
    except DRIVER_ERRORS as exc:
        raise translate(exc) from exc


def collections_of(client: Client, database: str) -> list[str]:
    collections = client[database].list_collections(filter={"type": "collection"})
    names = {str(collection["name"]) for collection in collections}
    return sorted(name for name in names if not name.startswith("system.") and name not in LEFT_OUT)


def raw_documents(collection: Collection[Any], session: ClientSession | None) -> Iterator[tuple[Any, bytes]]:
    """All documents in the order of their ids: (`_id`, BSON as it is stored)."""
    raw = collection.with_options(codec_options=CodecOptions(document_class=RawBSONDocument))
    # An index that every collection has: neither sorted in memory, nor is a document met twice.
    for document in raw.find({}, sort=[("_id", 1)], hint="_id_", session=session):
        yield document["_id"], bytes(document.raw)


class _Dump:
    def __init__(self, client: Client, database: str, writer: Writer) -> None:
        self._client = client
        self._name = database
        self._writer = writer
        self._primary = client.get_database(
            database, read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern()
        )
        # Blobs are most of the bytes; the primary has other things to do.
        self._db = client.get_database(
            database, read_preference=ReadPreference.SECONDARY_PREFERRED, read_concern=ReadConcern("majority")
        )

    def run(self) -> Dumped:
        damaged: set[str] = set()
        with self._client.start_session(causal_consistency=True) as session:
            self._blobs(self._files(session), session, damaged)
        failpoint.hit("backup.blobs")
        for _ in range(_TRIES):
            damaged.clear()
            try:
                return self._moment(damaged)
            except _GoneError as exc:
                log.info("takes another snapshot: %s", exc)
            except OperationFailure as exc:
                if exc.code != _TOO_OLD:
                    raise
                log.warning("takes another snapshot: the documents were not read within MongoDB's history")
        raise UnavailableError(
            f"{_TRIES} snapshots in a row could not be read to their end; back up when there is less to do, or set "
            "minSnapshotHistoryWindowInSeconds of the members higher"
        )

    def _moment(self, damaged: set[str]) -> Dumped:
        """Documents as of one moment, then the blobs that they name and that are not stored yet."""
        result = Dumped()
        late: list[_UploadedFile] = []
        with self._client.start_session(causal_consistency=True) as session:
            strict = self._primary.meta.with_options(read_concern=ReadConcern("linearizable"))
            strict.find_one({"_id": "leader"}, {"_id": 1}, session=session)
            result.snapshot_time = session.operation_time
        with self._client.start_session(snapshot=True) as session:
            half = self._primary[RESTORING].find_one({"_id": "restore", "finished": {"$ne": True}}, session=session)
            if half is not None:
                raise RefusedError(f"backup {half['backup']} is being restored; back up when that is over")
            for name in collections_of(self._client, self._name):
                self._documents(result, name, session, late)
            operation, cluster = session.operation_time, session.cluster_time
        failpoint.hit("backup.documents")
        with self._client.start_session(causal_consistency=True) as session:
            # Whichever member answers has what the snapshot had.
            if operation is not None and cluster is not None:
                session.advance_cluster_time(cluster)
                session.advance_operation_time(operation)
            self._blobs(late, session, damaged, strict=True)
        for file in late:
            names = self._writer.blob(file.sha) or []
            if len(names) > 1:
                result.large[file.sha] = [name_digest.hex() for name_digest in names]
        result.damaged = sorted(damaged)
        return result

    def _documents(self, dumped: Dumped, name: str, session: ClientSession, late: list[_UploadedFile]) -> None:
        pieces: list[tuple[str, int]] = []
        digest = hashlib.sha256()
        for piece, count in of_documents(self._observe_documents(dumped, name, session, late)):
            digest.update(piece)
            dumped.document_bytes += len(piece)
            piece_name = name_of(piece)
            self._writer.put(piece_name, piece)
            pieces.append((piece_name.hex(), count))
        dumped.collections[name], dumped.digests[name] = pieces, digest.hexdigest()

    def _observe_documents(
        self, dumped: Dumped, name: str, session: ClientSession, late: list[_UploadedFile]
    ) -> Iterator[tuple[Any, bytes]]:
        """A collection's documents; of blobs' it is noted which are not stored yet."""
        for key, raw in raw_documents(self._primary[name], session):
            if name == FILES:
                document = RawBSONDocument(raw)
                file = _UploadedFile(key, document["filename"], int(document["length"]))
                dumped.blobs, dumped.blob_bytes = dumped.blobs + 1, dumped.blob_bytes + file.length
                names = self._writer.blob(file.sha) if file.length else []
                if names is None:
                    late.append(file)
                else:
                    for name_digest in names:
                        self._writer.holds(name_digest)
                    if len(names) > 1:
                        dumped.large[file.sha] = [name_digest.hex() for name_digest in names]
            yield key, raw

    # -- blobs -------------------------------------------------------------------------------------------------

    def _files(self, session: ClientSession) -> Iterator[_UploadedFile]:
        """Those that are not stored yet; in pages, as no cursor lives as long as a first backup may take."""
        projection, after = {"filename": 1, "length": 1}, None
        while True:
            query: Bson = {} if after is None else {"_id": {"$gt": after}}
            page = list(self._db[FILES].find(query, projection, sort=[("_id", 1)], limit=_PAGE, session=session))
            for doc in page:
                file = _UploadedFile(doc["_id"], doc["filename"], int(doc["length"]))
                if file.length and self._writer.blob(file.sha) is None:
                    yield file
            if len(page) < _PAGE:
                return
            after = page[-1]["_id"]

    def _blobs(
        self, files: Iterable[_UploadedFile], session: ClientSession, damaged: set[str], *, strict: bool = False
    ) -> None:
        """Store blobs; `strict`: _GoneError for one whose file is not there any more, else passed over."""
        pending: list[_UploadedFile] = []
        for file in files:
            if file.length > _BYTES_AT_ONCE:
                self._large(file, session, damaged, strict=strict)
                continue
            pending.append(file)
            if len(pending) == _FILES_AT_ONCE or sum(pending_file.length for pending_file in pending) > _BYTES_AT_ONCE:
                self._small(pending, session, damaged, strict=strict)
                pending = []
        if pending:
            self._small(pending, session, damaged, strict=strict)

    def _chunks(self, ids: list[ObjectId], session: ClientSession) -> Iterator[Bson]:
        query = {"files_id": ids[0] if len(ids) == 1 else {"$in": ids}}
        return iter(self._db[CHUNKS].find(query, sort=[("files_id", 1), ("n", 1)], batch_size=16, session=session))

    def _small(self, files: list[_UploadedFile], session: ClientSession, damaged: set[str], *, strict: bool) -> None:
        contents: dict[ObjectId, list[bytes]] = {}
        for chunk in self._chunks([small_file.id for small_file in files], session):
            contents.setdefault(chunk["files_id"], []).append(chunk["data"])
        for file in files:
            content = b"".join(contents.get(file.id, []))
            if hashlib.sha256(content).hexdigest() == file.sha:
                self._writer.put(bytes.fromhex(file.sha), content)
            else:
                self._unusable(file, session, damaged, strict=strict)

    def _large(self, file: _UploadedFile, session: ClientSession, damaged: set[str], *, strict: bool) -> None:
        digest, names, buffer = hashlib.sha256(), [], bytearray()
        for chunk in self._chunks([file.id], session):
            digest.update(chunk["data"])
            buffer += chunk["data"]
            while len(buffer) >= LARGEST:
                names.append(self._piece(bytes(buffer[:LARGEST])))
                del buffer[:LARGEST]
        names += [self._piece(piece) for piece in of_blob(bytes(buffer))]
        if digest.hexdigest() == file.sha:
            self._writer.note_blob(file.sha, names)
        else:
            self._unusable(file, session, damaged, strict=strict)

    def _piece(self, content: bytes) -> bytes:
        name = name_of(content)
        self._writer.put(name, content)
        return name

    def _unusable(self, file: _UploadedFile, session: ClientSession, damaged: set[str], *, strict: bool) -> None:
        """A blob whose content is not what its name says: it is being removed, or was damaged before."""
        if self._db[FILES].find_one({"_id": file.id}, {"_id": 1}, session=session) is None:
            if strict:
                raise _GoneError(f"blob {file.sha} was removed while it was read")
            return
        damaged.add(file.sha)


def check_connection(client: Client) -> str:
    """The version of MongoDB that answers; UnavailableError when none does within PATIENCE."""
    try:
        with pymongo.timeout(PATIENCE):
            return str(client.server_info()["version"])
    except DRIVER_ERRORS as exc:
        raise translate(exc) from exc
