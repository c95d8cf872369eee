"""From a directory of backups into an empty database. Cut off at any point, the same call goes on and ends the same.

Judicators must not run meanwhile (playbooks/restore.yml holds them). That a restore is under way is written into the
database itself, so nothing that it has brought yet is mistaken for somebody's data.
"""

from __future__ import annotations

import enum
import hashlib
import json
import logging
import re
from collections.abc import Iterator
from typing import Any, Final

import pymongo
from bson import Binary, ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo.database import Database
from pymongo.errors import BulkWriteError
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

from judge.backup.dumping import CHUNKS, FILES, LEFT_OUT, RESTORING, collections_of, raw_documents
from judge.backup.manifest import Manifest
from judge.backup.pieces import documents_of
from judge.backup.repository import PieceReader
from judge.common import failpoint
from judge.common.errors import JudgeError, RefusedError
from judge.common.pki import refused
from judge.judicator import indexes
from judge.mongodb.store import DRIVER_ERRORS, Bson, Client, only_duplicates, translate

log = logging.getLogger(__name__)

# Collections that a cluster writes by itself; an empty one has them as well. All else, later releases' collections
# included, is what people have put into it.
ITS_OWN: Final = LEFT_OUT | {FILES, "audit", "executors", "meta", "usage"}
# The beginning of the idempotency key of all that playbooks/verify.yml hands in.
PROBE: Final = "verify.yml/"
_PROBES: Final = re.compile(rf"^[^\0]*\0{re.escape(PROBE)}")
_CHUNK: Final = 255 * 1024
_AT_ONCE: Final = 4 * 1024**2
_PROGRESS_STEP: Final = 50


class NotEmptyError(RefusedError):
    """The database holds somebody's data."""


def target(client: Client, database: str) -> Database[Bson]:
    """The database as a restore writes it: by a majority, with journal."""
    return client.get_database(
        database,
        read_preference=ReadPreference.PRIMARY,
        read_concern=ReadConcern("majority"),
        write_concern=WriteConcern(w="majority", j=True),
    )


class RestoreState(enum.Enum):
    """The state of one backup's restore in a cluster, in words that begin a sentence about it."""

    NEW = "restores"
    PARTIAL = "goes on with"
    COMPLETE = "has restored already"


def state(client: Client, db: Database[Bson], backup: str) -> RestoreState:
    """The state of this restore; NotEmptyError when the cluster holds anything that is not from it."""
    record = db[RESTORING].find_one({"_id": "restore"})
    if record is not None and record["backup"] == backup:
        return RestoreState.COMPLETE if record.get("over") else RestoreState.PARTIAL
    if record is not None and not record.get("over"):
        raise NotEmptyError(
            f"a restore of backup {record['backup']} was begun in this cluster and is not finished; finish that one"
        )
    contents = []
    for name in collections_of(client, db.name):
        if name in ITS_OWN:
            continue
        query: Bson = {"key": {"$not": _PROBES}} if name == "tasks" else {}
        count = len(list(db[name].find(query, {"_id": 1}, limit=1)))
        if count:
            contents.append(f"{db[name].estimated_document_count()} {name}")
    if contents:
        raise NotEmptyError(
            f"this cluster is not empty ({', '.join(contents)}), and a restore would mix two clusters' data; "
            "restore into a new one"
        )
    return RestoreState.NEW


def restore(client: Client, database: str, manifest: Manifest, reader: PieceReader) -> None:
    """Bring a backup back and compare what is there afterwards with it; raises NotEmptyError and JudgeError.

    Until `finish` the database says which backup it is from, so a playbook that was cut off after this goes on.
    """
    try:
        db = target(client, database)
        restore_state = state(client, db, manifest.id)
        if restore_state is RestoreState.COMPLETE:
            return
        # All that can be wrong with a backup is found before the first write.
        work = _Restore(client, db, manifest, reader)
        if restore_state is RestoreState.NEW:
            # From here on the database is this restore's own.
            fresh = {"_id": "restore", "backup": manifest.id, "cleared": False, "done": {}}
            db[RESTORING].replace_one({"_id": "restore"}, fresh, upsert=True)
        failpoint.hit("restore.begun")
        work.run()
    except DRIVER_ERRORS as exc:
        raise translate(exc) from exc


def finish(client: Client, database: str) -> None:
    """Judicators run again: from now on the data are the cluster's own, and the same restore does nothing any more."""
    try:
        target(client, database)[RESTORING].update_one({"_id": "restore"}, {"$set": {"over": True}})
    except DRIVER_ERRORS as exc:
        raise translate(exc) from exc


class _Restore:
    def __init__(self, client: Client, db: Database[Bson], manifest: Manifest, reader: PieceReader) -> None:
        self._client = client
        self._db = db
        self._manifest = manifest
        self._reader = reader
        tree = json.loads(reader.read(bytes.fromhex(manifest.tree)))
        self._collections: dict[str, list[tuple[str, int]]] = tree["collections"]
        self._large: dict[str, list[str]] = tree["large"]
        reader.require(bytes.fromhex(name) for pieces in self._collections.values() for name, _ in pieces)
        reader.require(bytes.fromhex(name) for file in self._files() for name in self._pieces(file))

    def run(self) -> None:
        if self._noted().get("finished"):
            return
        if not self._noted().get("compared"):
            self._clear()
            for name in sorted(self._collections):
                self._documents(name)
            self._blobs()
            # Here, as judicators serve nothing while they build the indexes of many documents.
            log.info("builds the indexes of %d tasks", self._db.tasks.estimated_document_count())
            indexes.make_all(self._db)
            self._compare()
            self._note(compared=True)
            failpoint.hit("restore.compared")
        self._refuse_removed_hosts()
        # Executors register by their reports. Those of before may be no more: nobody is told that they are silent.
        self._db.executors.delete_many({"drain": {"$ne": True}})
        self._note(finished=True)

    def _files(self) -> Iterator[Bson]:
        for piece, _ in self._collections.get(FILES, []):
            for raw in documents_of(self._reader.read(bytes.fromhex(piece))):
                yield {**RawBSONDocument(raw)}

    def _pieces(self, file: Bson) -> list[str]:
        """The pieces of a blob; none for one that is empty, or was damaged in the database."""
        sha = file["filename"]
        if not file["length"] or sha in self._manifest.damaged:
            return []
        return self._large.get(sha, [sha])

    def _noted(self) -> Bson:
        return self._db[RESTORING].find_one({"_id": "restore"}) or {}

    def _note(self, **fields: Any) -> None:
        self._db[RESTORING].update_one({"_id": "restore"}, {"$set": fields})

    def _clear(self) -> None:
        """Remove what even an empty cluster has: the probes of verify.yml, its own notes."""
        if self._noted()["cleared"]:
            return
        if "refused" not in self._noted():
            self._note(refused=self._refused())
        for name in {*collections_of(self._client, self._db.name), *LEFT_OUT} - {RESTORING}:
            self._db[name].drop()
        # The judicators' own index, without which pieces that are sent twice would be there twice.
        self._db[CHUNKS].create_index([("files_id", 1), ("n", 1)], unique=True)
        self._note(cleared=True)

    def _refused(self) -> list[Bson]:
        """The removed hosts whose certificates the database refuses, each with its moment."""
        names: list[Bson] = (self._db.meta.find_one({"_id": refused.DOCUMENT}) or {}).get("names", [])
        return names

    def _refuse_removed_hosts(self) -> None:
        """Hosts that were removed after the backup stay refused; of two moments for a host the later one counts."""
        restored = {entry["name"]: entry["before"] for entry in self._refused()}
        latest = dict(restored)
        for entry in self._noted().get("refused", []):
            latest[entry["name"]] = max(entry["before"], latest.get(entry["name"], 0.0))
        if latest != restored:
            names = [{"name": name, "before": before} for name, before in latest.items()]
            self._db.meta.update_one({"_id": refused.DOCUMENT}, {"$set": {"names": names}}, upsert=True)

    def _documents(self, name: str) -> None:
        pieces = self._collections[name]
        first = int(self._noted()["done"].get(name, 0))
        # A dot in a field's name would be a path.
        progress = {"done": self._noted()["done"]}
        for number, (piece, _) in enumerate(pieces):
            if number < first:
                continue
            documents = [RawBSONDocument(raw) for raw in documents_of(self._reader.read(bytes.fromhex(piece)))]
            self._insert(name, documents)
            failpoint.hit("restore.piece")
            if number % _PROGRESS_STEP == _PROGRESS_STEP - 1:
                progress["done"][name] = number + 1
                self._note(**progress)
        progress["done"][name] = len(pieces)
        self._note(**progress)
        log.info("%s: %d documents", name, sum(count for _, count in pieces))

    def _insert(self, name: str, documents: list[Any]) -> None:
        """Insert what is not there yet."""
        if not documents:
            return
        try:
            self._db[name].insert_many(documents, ordered=False)
        except BulkWriteError as exc:
            if not only_duplicates(exc):
                raise

    def _blobs(self) -> None:
        """All pieces of all blobs, in the order of their files."""
        after = self._noted().get("blobs")
        buffer: list[Bson] = []
        size = 0
        last: ObjectId | None = None
        query = {} if after is None else {"_id": {"$gt": after}}
        for file in list(self._db[FILES].find(query, {"filename": 1, "length": 1}, sort=[("_id", 1)])):
            for chunk in self._chunks(file):
                buffer.append(chunk)
                size += len(chunk["data"])
                if size >= _AT_ONCE:
                    self._insert(CHUNKS, buffer)
                    buffer, size = [], 0
                    if last is not None:
                        self._note(blobs=last)
                    failpoint.hit("restore.blob")
            last = file["_id"]
        self._insert(CHUNKS, buffer)
        log.info("blobs: %d, %d bytes", self._manifest.blobs, self._manifest.blob_bytes)

    def _chunks(self, file: Bson) -> Iterator[Bson]:
        sha, names = file["filename"], self._pieces(file)
        if not names:
            return
        buffer, number, digest = bytearray(), 0, hashlib.sha256()
        for name in names:
            content = self._reader.read(bytes.fromhex(name))
            digest.update(content)
            buffer += content
            while len(buffer) >= _CHUNK:
                yield {"files_id": file["_id"], "n": number, "data": Binary(bytes(buffer[:_CHUNK]))}
                del buffer[:_CHUNK]
                number += 1
        if buffer:
            yield {"files_id": file["_id"], "n": number, "data": Binary(bytes(buffer))}
        if digest.hexdigest() != sha:
            raise JudgeError(f"blob {sha} is not what its name says in this backup; restore an older one")

    def _compare(self) -> None:
        """Every document is the byte-equal one, and every blob has its content."""
        for name, digest in sorted(self._manifest.digests.items()):
            actual, count = hashlib.sha256(), 0
            for _, raw in raw_documents(self._db[name], None):
                actual.update(raw)
                count += 1
            if actual.hexdigest() != digest:
                expected_count = self._manifest.counts[name]
                raise JudgeError(
                    f"after the restore {name} has {count} documents and differs from the backup, "
                    f"which has {expected_count}; something else writes to this database: stop it, and restore again"
                )
        files = self._db[FILES].find({"length": {"$gt": 0}}, {"filename": 1, "length": 1})
        lengths = {
            row["_id"]: row["length"]
            for row in self._db[CHUNKS].aggregate(
                [{"$group": {"_id": "$files_id", "length": {"$sum": {"$binarySize": "$data"}}}}], allowDiskUse=True
            )
        }
        damaged = set(self._manifest.damaged)
        for file in files:
            if file["filename"] not in damaged and lengths.get(file["_id"]) != file["length"]:
                raise JudgeError(f"after the restore blob {file['filename']} is not whole; restore again")


def describe(client: Client, database: str, manifest: Manifest) -> str:
    """One line for a person about what a restore would do; NotEmptyError when it would refuse."""
    try:
        with pymongo.timeout(15):
            restore_state = state(client, target(client, database), manifest.id)
    except DRIVER_ERRORS as exc:
        raise translate(exc) from exc
    return f"{restore_state.value} {manifest.line()}"
