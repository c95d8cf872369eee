"""Files by size and SHA-256: a bundle's manifest and its directory.

plugins/module_utils/judge_files.py is a link to this file: hosts run it before they have the package `judge`. So it
imports the standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

MANIFEST = "manifest.json"
FORMAT = 1
# The parts of a bundle; anything else in its directory is none of its business.
PARTS = ("bin", "debs", "wheels")
_BLOCK = 1 << 20

Files = dict[str, dict[str, Any]]


class BundleError(Exception):  # no JudgeError: bare hosts have no judge.common.errors
    """A bundle that cannot be made or used; the text is one sentence for the person who runs the playbook."""


def blocks(file: IO[bytes]) -> Iterator[bytes]:
    """The rest of an open file in pieces that fit into memory."""
    while piece := file.read(_BLOCK):
        yield piece


def describe(path: Path) -> dict[str, Any]:
    """The manifest's entry of a file: `size` in bytes and `sha256`."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        for piece in blocks(file):
            digest.update(piece)
            size += len(piece)
    return {"size": size, "sha256": digest.hexdigest()}


def listing(root: Path) -> list[str]:
    """The relative paths of all files of a bundle's parts, sorted; links count as files, so that none hides."""
    paths = []
    for part in PARTS:
        for directory, folders, names in os.walk(root / part):
            folder = Path(directory)
            links = [name for name in folders if (folder / name).is_symlink()]
            paths += [(folder / name).relative_to(root).as_posix() for name in names + links]
    return sorted(paths)


def mode_of(path: str) -> int:
    """The permissions that a bundle's file has on every machine."""
    return 0o755 if path.startswith("bin/") else 0o644


def parse_manifest(text: str, source: str) -> dict[str, Any]:
    """A manifest that has been checked for its form; BundleError names what is wrong with it.

    Paths are checked as they come from a file that may have been tampered with: no absolute ones, no '..'.
    """
    faulty: list[str] = []
    sound = True
    manifest: dict[str, Any]
    try:
        manifest = json.loads(text)
        files = manifest["files"]
        form = manifest["format"]
        for key in ("release", "architecture", "python", "versions"):
            manifest[key]
        for path, entry in files.items():
            pieces = path.split("/")
            if pieces[0] not in PARTS or len(pieces) < 2 or any(piece in {"", ".", ".."} for piece in pieces):
                faulty.append(path)
            size, digest = entry["size"], bytes.fromhex(entry["sha256"])
            sound = sound and type(size) is int and len(digest) == hashlib.sha256().digest_size
    except (ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if faulty:
        raise BundleError(f"{source} names '{faulty[0]}', which is no path of a bundle; make the bundle anew")
    if not sound:
        raise BundleError(f"{source} is not the manifest of a bundle; make the bundle anew with playbooks/bundle.yml")
    if form != FORMAT:
        raise BundleError(f"{source} has format {form} and this release reads format {FORMAT}; make the bundle anew")
    return manifest


def read_manifest(root: Path) -> tuple[dict[str, Any], str]:
    """(the manifest of the bundle in `root`, its own SHA-256); BundleError when there is none that can be used."""
    path = root / MANIFEST
    try:
        data = path.read_bytes()
        text = data.decode()
    except FileNotFoundError as exc:
        msg = f"there is no bundle in {root} (no {MANIFEST}); make one with playbooks/bundle.yml, or set judge_bundle"
        raise BundleError(msg) from exc
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is not text"
        raise BundleError(f"{path} cannot be read: {reason}; make the bundle anew with playbooks/bundle.yml") from exc
    return parse_manifest(text, str(path)), hashlib.sha256(data).hexdigest()


def fault_of(root: Path, path: str, entry: dict[str, Any]) -> str:
    """The fault of one file of a bundle, as the end of a sentence; empty when the file is as the manifest says."""
    file = root / path
    if file.is_symlink() or (file.exists() and not file.is_file()):
        return "is not a plain file"
    try:
        size = file.stat().st_size
        if size != entry["size"]:
            return f"has {size} bytes instead of {entry['size']}"
        if describe(file)["sha256"] != entry["sha256"]:
            return "has another SHA-256 than the manifest says"
    except FileNotFoundError:
        return "is missing"
    except OSError as exc:
        return f"cannot be read: {exc.strerror}"
    return ""


def faults(root: Path, files: Files) -> dict[str, str]:
    """Each file that is not as the manifest says, with what is wrong; files that it does not name count too."""
    result = {path: fault for path, entry in sorted(files.items()) if (fault := fault_of(root, path, entry))}
    result.update((path, "is not in the manifest") for path in listing(root) if path not in files)
    return result
