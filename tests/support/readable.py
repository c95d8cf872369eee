"""What others on a machine can read of a cluster's files: no file with a secret in it may be readable by them."""

from __future__ import annotations

import re
from pathlib import Path

_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")
# Files that are a secret as a whole, by their names.
_WHOLE = re.compile(r"\.token$|session\.key$|password|keyfile|\.secret$", re.IGNORECASE)


def secrets_of(directory: Path) -> set[bytes]:
    """The contents of the files that are secrets."""
    found = {path.read_bytes().strip() for path in directory.rglob("*") if path.is_file() and _WHOLE.search(path.name)}
    return {one for one in found if len(one) >= 8}


def exposed(directory: Path) -> list[str]:
    """Files with a secret in them that are not their owner's alone, and folders that others may enter."""
    known = secrets_of(directory)
    assert known, "there are secrets, or the search is for the wrong names"
    found = []
    for path in [directory, *directory.rglob("*")]:
        mode = path.lstat().st_mode
        if not mode & 0o077 or path.is_symlink():
            continue
        if path.is_dir():
            found.append(f"{path} {mode:o}")
        elif path.is_file():
            data = path.read_bytes()
            if _KEY.search(data) or any(one in data for one in known):
                found.append(f"{path} {mode:o}")
    return found
