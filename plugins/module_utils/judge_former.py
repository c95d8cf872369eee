"""The copy of the bundle that a host had before its last upgrade, beside the one that it has: what a rollback takes.

Runs on hosts: standard library only.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .judge_files import MANIFEST, BundleError, fault_of, faults, parse_manifest
from .judge_writing import put

# The names of files of the manifest that a host does not need.
LEFT_OUT = "left-out.json"

Settle = Callable[[Path, Path, list[str], list[str]], None]


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


def come_back(dest: Path, version: str, staging: Path, settle: Settle, *, check: bool) -> dict[str, Any]:
    """Make `dest` the former copy, if that is of this version; else leave it. The result of judge_bundle_sync.

    Without a manifest in the result there is no copy at all. `settle` moves files from `staging`. BundleError names a
    file of the former copy that is damaged.
    """
    manifest, former = former_manifest(dest, version), former_of(dest)
    result = {"changed": False, "missing": [], "removed": [], "back": [], "former": bool(manifest)}
    if not manifest:
        return result | {"manifest": manifest_of(dest)}
    unneeded, text = left_out_of(former), (former / MANIFEST).read_bytes()
    files = {name: entry for name, entry in manifest["files"].items() if name not in unneeded}
    differing = faults(dest, files)
    names, extra = sorted(differing.keys() & files.keys()), sorted(differing.keys() - files.keys())
    for name in names:
        if fault := fault_of(former, name, files[name]):
            raise BundleError(
                f"{former}/{name} {fault}; deploy from the former bundle, or leave etcd and mongod as they are with "
                "-e judge_rollback_programs=false"
            )
    manifest_path = dest / MANIFEST
    changed = bool(differing) or not manifest_path.is_file() or manifest_path.read_bytes() != text
    if changed and not check:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(mode=0o700, parents=True)
        for name in names:
            (staging / name).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            _linked(str(former / name), str(staging / name))
        settle(dest, staging, names, extra)
        put(dest / LEFT_OUT, json.dumps(sorted(unneeded)).encode(), 0o644)
        put(manifest_path, text, 0o644)
    return result | {"changed": changed, "removed": extra, "back": names, "manifest": manifest}


def _linked(source: str, target: str) -> None:
    """A file of two names, as files of a bundle are only ever replaced; a copy where that cannot be."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
