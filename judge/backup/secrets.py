"""The controller's secrets as one encrypted file beside the packs, to rebuild the cluster on other hosts.

The controller encrypts them, so that no host ever has them.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path, PurePosixPath
from typing import Final

from judge import files
from judge.backup.keys import HostKey, OperatorKey
from judge.backup.packs import PackReader, PackWriter, name_of
from judge.errors import JudgeError, RefusedError

KEY: Final = "backup.key"
HOST_KEY: Final = "backup.hostkey"
# The key does not open itself, and backups are not part of themselves.
_LEFT_OUT: Final = frozenset({KEY, HOST_KEY, "backups"})


def archive(directory: Path, more: dict[str, Path]) -> bytes:
    """All files of a directory, and of others under a name in it, as one tar; the same files make the same bytes.

    RefusedError when one cannot be read.
    """
    held = io.BytesIO()
    roots = {"": directory, **{f"{name}/": path for name, path in more.items()}}
    with tarfile.open(fileobj=held, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for prefix, root in sorted(roots.items()):
            for path in sorted(root.rglob("*")):
                relative = path.relative_to(root)
                if relative.parts[0] in _LEFT_OUT or path.name.startswith(".") or not path.is_file():
                    continue
                try:
                    content = path.read_bytes()
                except OSError as exc:
                    raise RefusedError(f"{path}: cannot be read: {exc.strerror}; it belongs to the secrets") from None
                entry = tarfile.TarInfo(f"{prefix}{relative.as_posix()}")
                entry.size, entry.mode = len(content), 0o600
                tar.addfile(entry, io.BytesIO(content))
    return held.getvalue()


def sealed(key: HostKey, content: bytes) -> tuple[str, bytes]:
    """(the name of the file, its content). The name tells who has the key whether these are the same secrets."""
    held = io.BytesIO()
    writer = PackWriter(key, held)
    writer.add(name_of(content), content)
    writer.finish()
    return key.sign(content), held.getvalue()


def unpack(key: OperatorKey, path: Path, into: Path) -> list[str]:
    """Write the secrets of a sealed file into an empty directory; their names. JudgeError, RefusedError."""
    if into.exists() and any(into.iterdir()):
        raise RefusedError(f"{into}: is not empty, and secrets that are there are not replaced; name another directory")
    reader = PackReader(key, path)
    try:
        content = b"".join(reader.pieces())
    finally:
        reader.close()
    if key.host_key().sign(content) != path.name:
        raise JudgeError(f"{path}: was not written with this key; nothing of it is used")
    names = []
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for entry in tar:
            name = PurePosixPath(entry.name)
            source = tar.extractfile(entry)
            if name.is_absolute() or ".." in name.parts or source is None:
                raise JudgeError(f"{path}: holds '{entry.name}', which is no file of secrets")
            target = into / name
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.replace(target, source.read(), durable=True)
            names.append(entry.name)
    return names
