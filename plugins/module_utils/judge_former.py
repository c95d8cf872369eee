"""A host's copy of the bundle, and the one that it had before its last upgrade, which a rollback takes.

Runs on hosts: standard library only.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .judge_files import MANIFEST, BundleError, Files, fault_of, faults, parse_manifest
from .judge_writing import put

# The names of files of the manifest that a host does not need.
LEFT_OUT = "left-out.json"


def former_of(dest: Path) -> Path:
    """The directory in which the former copy of the bundle in `dest` is kept."""
    return dest.with_name(f"{dest.name}.former")


def manifest_of(root: Path) -> dict[str, Any]:
    """The manifest of a host's copy; empty where there is none. BundleError when it cannot be used."""
    path = root / MANIFEST
    return parse_manifest(path.read_text(encoding="utf-8"), str(path)) if path.is_file() else {}


def left_out_of(root: Path) -> set[str]:
    """The files of the manifest that a host's copy does not have, as the host does not need them."""
    path = root / LEFT_OUT
    return set(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else set()


def former_manifest(dest: Path, version: str) -> dict[str, Any]:
    """The manifest of the former copy, if it is the bundle of this version of judge; else empty."""
    manifest = manifest_of(former_of(dest))
    return manifest if manifest and manifest["versions"].get("judge") == version else {}


def keep(dest: Path, text: str, *, check: bool) -> bool:
    """Keep the copy in `dest`, unless it is the one of this manifest; whether that had to be done.

    What was kept of this very copy already stays: a run that was cut off has left parts of two bundles in its place.
    """
    manifest, former = dest / MANIFEST, former_of(dest)
    if not manifest.is_file() or manifest.read_text(encoding="utf-8") == text:
        return False
    if (former / MANIFEST).is_file() and (former / MANIFEST).read_bytes() == manifest.read_bytes():
        return False
    if not check:
        fresh = former.with_name(f".{former.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(dest, fresh, copy_function=_linked)
        shutil.rmtree(former, ignore_errors=True)
        fresh.rename(former)
    return True


def compare(dest: Path, files: Files, unneeded: set[str], text: bytes) -> dict[str, Any]:
    """`changed`: whether the copy in `dest` is not the bundle of this manifest without the files that are unneeded.

    `missing` are the files that it lacks or that are damaged, `removed` those that do not belong to it.
    """
    needed = {name: entry for name, entry in files.items() if name not in unneeded}
    differing, path = faults(dest, needed), dest / MANIFEST
    same = path.is_file() and path.read_bytes() == text and left_out_of(dest) == unneeded
    return {
        "changed": bool(differing) or not same,
        "missing": sorted(differing.keys() & needed.keys()),
        "removed": sorted(differing.keys() - needed.keys()),
    }


def settle(
    dest: Path, difference: dict[str, Any], unneeded: set[str], text: bytes, fill: Callable[[Path], None]
) -> None:
    """Make the copy in `dest` the bundle of this manifest; `fill` writes what is missing into a directory, verified."""
    staging = dest.with_name(f".{dest.name}.new")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(mode=0o700, parents=True)
    try:
        fill(staging)
        for name in difference["removed"]:
            (dest / name).unlink()
        for name in difference["missing"]:
            (dest / name).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            (staging / name).replace(dest / name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    dest.mkdir(mode=0o755, parents=True, exist_ok=True)
    put(dest / LEFT_OUT, json.dumps(sorted(unneeded)).encode(), 0o644)
    put(dest / MANIFEST, text, 0o644)


def come_back(dest: Path, version: str, *, check: bool) -> dict[str, Any]:
    """Make `dest` the former copy, if that is of this version; else leave it. The result of judge_bundle_sync.

    Without a manifest in the result there is no copy at all. BundleError names a file of the former copy that is
    damaged.
    """
    manifest, former = former_manifest(dest, version), former_of(dest)
    if not manifest:
        nothing = {"changed": False, "missing": [], "removed": [], "back": [], "former": False}
        return nothing | {"manifest": manifest_of(dest)}
    unneeded, text = left_out_of(former), (former / MANIFEST).read_bytes()
    difference = compare(dest, manifest["files"], unneeded, text)
    names = difference["missing"]
    for name in names:
        if fault := fault_of(former, name, manifest["files"][name]):
            raise BundleError(
                f"{former}/{name} {fault}; deploy from the former bundle, or leave etcd and mongod as they are with "
                "-e judge_rollback_programs=false"
            )

    def fill(staging: Path) -> None:
        for name in names:
            (staging / name).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            _linked(str(former / name), str(staging / name))

    if difference["changed"] and not check:
        settle(dest, difference, unneeded, text, fill)
    return difference | {"missing": [], "back": names, "former": True, "manifest": manifest}


def _linked(source: str, target: str) -> None:
    """A file of two names, as files of a bundle are only ever replaced; a copy where that cannot be."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
