"""The manifest of one backup: figures that anybody may read and nobody can change, and where its tree is.

Standard library only, as controllers read manifests.
"""

from __future__ import annotations

import dataclasses
import datetime
import hmac
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from judge.backup.keys import HostKey
from judge.common.errors import JudgeError, RefusedError
from judge.mongodb.backup_names import is_id

FORMAT: Final = 1
# Bytes that a fresh replica set writes beside the data while it takes them.
_MARGIN: Final = 256 * 1024**2
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def _of(kind: type) -> Callable[[Any], bool]:
    # True is an int, but nobody's count.
    return lambda value: type(value) is kind


@dataclass(frozen=True)
class Manifest:
    """One backup. Moments are ISO 8601 in UTC.

    `snapshot`: all that was acknowledged before is in it. `versions` are those of Judge and MongoDB that made it.
    `counts` are documents by collection, `digests` the SHA-256 of all of them in the order of their ids, `_bytes` what
    documents and blobs take as they are in the database. `packs` are the bytes that it uses of each, `added` those of
    the new ones. `damaged` names blobs that were damaged in the database itself. `tree` is the piece that names all
    others, `secrets` the file with the controller's.
    """

    id: str
    cluster: str
    host: str
    begun: str
    snapshot: str
    ended: str
    versions: dict[str, str]
    counts: dict[str, int]
    digests: dict[str, str]
    document_bytes: int
    blobs: int
    blob_bytes: int
    damaged: list[str]
    packs: dict[str, int]
    added: int
    tree: str
    secrets: str = ""
    format: int = FORMAT
    seal: str = ""

    @property
    def moment(self) -> datetime.datetime:
        return datetime.datetime.fromisoformat(self.begun)

    def sealed_text(self) -> bytes:
        return json.dumps(dataclasses.asdict(dataclasses.replace(self, seal="")), sort_keys=True).encode()

    def signed(self, key: HostKey) -> Self:
        return dataclasses.replace(self, seal=key.sign(self.sealed_text()))

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True) + "\n"

    @classmethod
    def parse(cls, text: str, source: str, key: HostKey | None = None) -> Self:
        """From its file; with a key its seal is checked. JudgeError when it cannot be used."""
        try:
            fields: dict[str, Any] = json.loads(text)
            if fields["format"] != FORMAT:
                raise JudgeError(f"{source}: has format {fields['format']!r}; a newer release of Judge reads it")
            manifest = cls(**fields)
            plain = manifest.types_are_right() and is_id(manifest.id) and manifest.names_are_plain()
            plain = plain and manifest.moment.tzinfo is not None
        except (ValueError, TypeError, KeyError, RecursionError):
            plain = False
        if not plain:
            raise JudgeError(f"{source}: is not the manifest of a backup; copy it again, or remove it") from None
        if key is not None and not hmac.compare_digest(manifest.seal, key.sign(manifest.sealed_text())):
            raise JudgeError(f"{source}: was not written with this key, or has been changed; nothing of it is used")
        return manifest

    def types_are_right(self) -> bool:
        """Return whether each field has its type, as deep as it goes: a manifest may come from anywhere."""
        text, number = _of(str), _of(int)
        kinds: dict[str, Callable[[Any], bool]] = {
            "str": text,
            "int": lambda value: number(value) and value >= 0,
            "list[str]": lambda value: isinstance(value, list) and all(map(text, value)),
            "dict[str, str]": lambda value: isinstance(value, dict) and all(map(text, value.values())),
            "dict[str, int]": lambda value: isinstance(value, dict) and all(map(number, value.values())),
        }
        return all(kinds[str(field.type)](getattr(self, field.name)) for field in dataclasses.fields(self))

    def names_are_plain(self) -> bool:
        """Return whether the files that it names are digests, and no paths to somewhere else."""
        names = [self.tree, *self.packs, *([self.secrets] if self.secrets else [])]
        return all(_DIGEST.fullmatch(name) for name in names) and "judge" in self.versions

    @property
    def room(self) -> int:
        """Bytes that each judicator's disk needs to restore it: the data, their indexes and journals, the packs."""
        return (self.document_bytes + self.blob_bytes) * 5 // 4 + sum(self.packs.values()) + _MARGIN

    def needs(self, release: str) -> None:
        """RefusedError when a later release of Judge has made the backup: this one does not know all of its data."""
        running_version, manifest_version = (
            tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (release, self.versions["judge"])
        )
        if manifest_version > running_version:
            raise RefusedError(
                f"backup {self.id} was made by Judge {self.versions['judge']}, and this is {release}; "
                "restore it with that release or a later one"
            )

    def line(self) -> str:
        documents = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()) if count)
        return (
            f"{self.id}: cluster '{self.cluster}' as of {self.snapshot}, {documents or 'no documents'}, "
            f"{self.blobs} blobs of {self.blob_bytes} bytes; {self.added} bytes were new"
        )
