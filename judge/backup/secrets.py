"""The controller's secrets as one encrypted file beside the packs, to rebuild the cluster on other hosts.

The controller encrypts and signs them: no host ever has them, and no host can make others that look like them.
"""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from pathlib import Path, PurePosixPath
from typing import Final

from judge.backup.keys import SIGNATURE, ControllerKey, OperatorKey
from judge.backup.packs import PackReader, PackWriter, name_of
from judge.common import files
from judge.common.errors import JudgeError, RefusedError

KEY: Final = "backup.key"
HOST_KEY: Final = "backup.hostkey"
CONTROLLER_KEY: Final = "backup.signkey"
# The key does not open itself, and backups are not part of themselves.
_LEFT_OUT: Final = frozenset({KEY, HOST_KEY, CONTROLLER_KEY, "backups"})
# What secrets that are signed begin with: the signature follows, then the tar. A tar does not begin so.
_SIGNED: Final = b"judge secrets, signed 1\n"


def archive(directory: Path, folders: dict[str, Path]) -> bytes:
    """All files of a directory, and of others under a name in it, as one tar; the same files make the same bytes.

    RefusedError when one cannot be read.
    """
    buffer = io.BytesIO()
    roots = {"": directory, **{f"{name}/": path for name, path in folders.items()}}
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
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
    return buffer.getvalue()


def sealed(key: ControllerKey, content: bytes) -> tuple[str, bytes]:
    """(the name of the file, its content). The name tells who has the key whether these are the same secrets."""
    buffer = io.BytesIO()
    signed = _SIGNED + key.sign(content) + content
    writer = PackWriter(key.host, buffer)
    writer.add(name_of(signed), signed)
    writer.finish()
    return key.host.sign(signed), buffer.getvalue()


def _check_content(key: OperatorKey, path: Path, package: bytes, *, unsigned: bool) -> bytes:
    """The tar of a sealed file, if the controller has signed it; JudgeError, RefusedError."""
    if key.host_key().sign(package) != path.name:
        raise JudgeError(f"{path}: was not written with this key; nothing of it is used")
    if not package.startswith(_SIGNED):
        if unsigned:
            return package
        raise RefusedError(
            f"{path}: these secrets have no signature, as those of backups before this release; any judicator's host "
            "could have written them. Take a newer backup; if there is none and you trust every host of that time, "
            "add --unsigned, and compare the fingerprint"
        )
    signature, content = package[len(_SIGNED) :][:SIGNATURE], package[len(_SIGNED) + SIGNATURE :]
    if not key.signed(content, signature):
        raise JudgeError(f"{path}: the controller has not signed these secrets; nothing of it is used")
    return content


def fingerprint(certificate: bytes) -> str:
    """The SHA-256 of a certificate in PEM, as `openssl x509 -fingerprint -sha256` prints it."""
    body = b"".join(line for line in certificate.splitlines() if not line.startswith(b"-----"))
    try:
        digest = hashlib.sha256(base64.b64decode(body, validate=True)).hexdigest().upper()
    except ValueError:
        return "none, as it is no certificate"
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))


def unpack(key: OperatorKey, path: Path, into: Path, *, unsigned: bool = False) -> list[str]:
    """Write the secrets of a sealed file into an empty directory; their names. JudgeError, RefusedError.

    `unsigned`: secrets without a signature are taken as well, which any host could have written.
    """
    if into.exists() and any(into.iterdir()):
        raise RefusedError(f"{into}: is not empty, and secrets that are there are not replaced; name another directory")
    content = _check_content(key, path, b"".join(PackReader(key, path).pieces()), unsigned=unsigned)
    names = []
    files.secret_directory(into)
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
