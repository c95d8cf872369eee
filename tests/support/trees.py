"""Packages that tests make: files as a directory, or as an archive."""

from __future__ import annotations

import zipfile
from pathlib import Path

Files = dict[str, bytes]


def folder(where: Path, files: Files, name: str = "sum") -> Path:
    """The files below a new directory."""
    root = where / name
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def archive(where: Path, files: Files, prefix: str = "", name: str = "sum.zip") -> Path:
    """The files in a new ZIP archive."""
    with zipfile.ZipFile(where / name, "w", zipfile.ZIP_DEFLATED) as file:
        for path, data in files.items():
            file.writestr(prefix + path, data)
    return where / name
