"""The names of backups, which say when each was begun. Standard library only, as controllers read backups."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Final

# Sortable, and a file's name on every system.
_ID: Final = re.compile(r"(\d{8}T\d{6}Z)-[0-9a-f]{8}")


def is_id(text: str) -> bool:
    """Return whether a backup can be called so: the second it was begun in, and its cluster's and host's own end."""
    return _ID.fullmatch(text) is not None


def newest(directory: Path) -> datetime.datetime | None:
    """The time when the newest backup was begun, as its name says; None when there is none."""
    try:
        names = sorted(path.stem for path in (directory / "backups").glob("*.json") if is_id(path.stem))
        return datetime.datetime.strptime(names[-1][:16], "%Y%m%dT%H%M%S%z") if names else None
    except (OSError, ValueError):
        return None
