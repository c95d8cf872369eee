"""The manifest of a bundle is written here; bundle/files.py reads it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from judge.common.files import replace, sweep
from judge.deploy.bundle.files import FORMAT, MANIFEST, describe, listing, mode_of


class Written(NamedTuple):
    """A manifest in short: whether it or a mode is new, its own SHA-256, the number of files and their bytes."""

    changed: bool
    sha256: str
    files: int
    size: int


def write(root: Path, about: dict[str, Any]) -> Written:
    """Write the manifest of the bundle in `root`, and give its files their modes.

    `about` has `release`, `architecture`, `python` and `versions`. The manifest holds no time and no machine's name, so
    the same files give the same one.
    """
    sweep(root)
    files = {path: describe(root / path) for path in listing(root)}
    text = json.dumps({"format": FORMAT, "files": files, **about}, indent=1, sort_keys=True)
    data = f"{text}\n".encode()
    target = root / MANIFEST
    changed = not target.is_file() or target.read_bytes() != data
    if changed:
        replace(target, data, 0o644, durable=True)
    for path in files:
        file = root / path
        if file.stat().st_mode & 0o7777 != mode_of(path):
            file.chmod(mode_of(path))
            changed = True
    size = sum(entry["size"] for entry in files.values())
    return Written(changed, hashlib.sha256(data).hexdigest(), len(files), size)
