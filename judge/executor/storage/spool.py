"""Finished results that no judicator has taken yet, one fsynced file each (docs/protocol.md, rule 8).

A file is `CLAIM.json` and, for an output too big to travel inside a message, the blob `SHA.blob` beside it. Only files
with such names are ever touched. Written by a thread of the executor when a report could not be delivered at once,
read once at its start.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from pathlib import Path

from pydantic import ValidationError

from judge.common import files
from judge.model.base import first_fault
from judge.model.messages import Completed, Message

log = logging.getLogger(__name__)

_ENTRY = re.compile(r"^[A-Za-z0-9._-]{1,128}\.json$")


class Spooled(Message):
    """The content of one file: the completion, and the path of its whole output while that is not uploaded yet."""

    completed: Completed
    upload: str | None = None


class Spool:
    """A bounded directory of completions. `write` may be called in any thread, all else in the main loop."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        """Make the directory if needed; `max_bytes` bounds the sum of the files."""
        self._directory = directory
        self._max = max_bytes
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._sizes: dict[str, int] = {}
        self._writing = threading.Lock()

    @property
    def bytes(self) -> int:
        """Bytes in use by entries; for the metric and the bound."""
        return sum(list(self._sizes.values()))

    def __len__(self) -> int:
        return len(self._sizes)

    def load(self) -> list[Spooled]:
        """All entries left by earlier lives of this executor, oldest first; called once at start.

        A half-written file is removed, a damaged one is renamed to `NAME.bad` and reported; both mean that the
        judicators give the task to somebody again, so nothing is lost.
        """
        files.sweep(self._directory)
        entries: list[tuple[int, str, Spooled]] = []
        for path in sorted(self._directory.iterdir()):
            if not _ENTRY.match(path.name):
                continue
            try:
                entry = Spooled.received(path.read_bytes())
            except (ValidationError, OSError) as exc:
                reason = first_fault(exc) if isinstance(exc, ValidationError) else exc
                log.warning("spooled result %s cannot be read (%s); it is set aside as .bad", path, reason)
                with contextlib.suppress(OSError):
                    path.rename(path.with_suffix(".bad"))
                continue
            stat = path.stat()
            self._sizes[entry.completed.claim] = stat.st_size
            entries.append((stat.st_mtime_ns, path.name, entry))
        return [entry for _, _, entry in sorted(entries, key=lambda item: item[:2])]

    def write(self, entry: Spooled) -> bool:
        """Keep one completion so that it survives a crash; False when the bound forbids it.

        Raises OSError when the disk does. Writing the same claim again does nothing.
        """
        with self._writing:
            return self._write(entry)

    def _write(self, entry: Spooled) -> bool:
        claim = entry.completed.claim
        if claim in self._sizes:
            return True
        path = self._path(claim)
        data = entry.model_dump_json().encode()
        if self.bytes + len(data) > self._max:
            return False
        files.replace(path, data, durable=True)
        self._sizes[claim] = len(data)
        return True

    def remove(self, claim: str) -> None:
        """Forget a settled completion; nothing happens when it was never spooled."""
        if self._sizes.pop(claim, None) is not None:
            self._path(claim).unlink(missing_ok=True)

    def _path(self, claim: str) -> Path:
        name = f"{claim}.json"
        if not _ENTRY.match(name):
            raise OSError(f"claim {claim!r} cannot name a file")
        return self._directory / name
