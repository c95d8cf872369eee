"""Makes one backup, from beginning to end. The timer and playbooks/backup.yml run this on a host."""

from __future__ import annotations

import datetime
import hashlib
import logging

import judge
from judge.backup.config import BackupConfig
from judge.backup.dumping import check_connection, dump
from judge.backup.keys import HostKey
from judge.backup.manifest import Manifest
from judge.backup.packs import name_of
from judge.backup.repository import PACK, Writer, writing
from judge.common import clock
from judge.common.errors import JudgeError, RefusedError
from judge.config import JudicatorConfig, load
from judge.mongodb import store

log = logging.getLogger(__name__)

# Seconds for one cursor. MongoDB's own history is as long.
_CURSOR = 300.0


def host_key(config: BackupConfig) -> HostKey:
    """The key in the file that the config names; RefusedError when there is none."""
    try:
        return HostKey.parse(config.host_key.read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError) as exc:
        raise RefusedError(f"host_key: {config.host_key} cannot be read ({exc}); site.yml puts it there") from None


def back_up(config: BackupConfig, *, pack_bytes: int = PACK) -> Manifest:
    """Store the cluster as it is now, then remove old backups; returns the manifest of the new one."""
    key = host_key(config)
    mongodb = load(JudicatorConfig, config.judicator).mongodb
    with store.connect(mongodb.model_copy(update={"timeout": _CURSOR}), asynchronous=False) as client:
        version = check_connection(client)
        with writing(config.directory, key, pack_bytes) as writer:
            started = _begin(writer, config)
            dumped = dump(client, mongodb.database, writer)
            tree = dumped.tree()
            writer.put(name_of(tree), tree)
            writer.flush()
            moment = dumped.snapshot_time.as_datetime() if dumped.snapshot_time is not None else started
            manifest = writer.publish(
                Manifest(
                    id=_id(started, config),
                    cluster=config.cluster,
                    host=config.name,
                    begun=started.isoformat(),
                    snapshot=moment.isoformat(),
                    ended=clock.wall().replace(microsecond=0).isoformat(),
                    versions={"judge": judge.__version__, "mongodb": version},
                    counts=dumped.counts,
                    digests=dumped.digests,
                    document_bytes=dumped.document_bytes,
                    blobs=dumped.blobs,
                    blob_bytes=dumped.blob_bytes,
                    damaged=dumped.damaged,
                    packs=dict(sorted(writer.uses.items())),
                    added=writer.added,
                    tree=name_of(tree).hex(),
                    secrets=writer.current_secrets(),
                )
            )
            removed, packs = writer.prune(config.keep.rule())
    if removed:
        log.info("removed %s and %d packs", ", ".join(removed), packs)
    if manifest.damaged:
        raise JudgeError(
            f"backup {manifest.id} is complete but for {len(manifest.damaged)} blobs that are damaged in the database "
            f"itself, {manifest.damaged[0]} is one; import their problems again"
        )
    return manifest


def _id(started: datetime.datetime, config: BackupConfig) -> str:
    origin = hashlib.sha256(f"{config.cluster}\0{config.name}".encode()).hexdigest()[:8]
    return f"{started:%Y%m%dT%H%M%SZ}-{origin}"


def _begin(writer: Writer, config: BackupConfig) -> datetime.datetime:
    """The second that names this backup; no other has it."""
    while True:
        now = clock.wall().replace(microsecond=0)
        if _id(now, config) not in writer.ids():
            return now
        clock.sleep(0.1)
