"""The certificate files of a process that outlives them: read anew when they are replaced, and never half of a pair.

Key and certificate are two files, so they do not belong together for a moment while they are replaced, and a run
that is cut off may leave them like that. A process that holds a good pair goes on with it until the next good one.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from judge.common.errors import ConfigError
from judge.common.files import in_memory
from judge.config import Tls


@dataclass(frozen=True, slots=True)
class Files:
    """The contents of the authority's certificate, of the key and of its certificate, as PEM."""

    ca: bytes
    key: bytes
    cert: bytes


_last: dict[tuple[Path, Path, Path], Files] = {}
_lock = threading.Lock()


def current(tls: Tls) -> Files:
    """The content of the files now, or when they were last whole and belonged together.

    ConfigError when this process has not seen them so yet. Any thread may call it.
    """
    files = (tls.ca, tls.key, tls.cert)
    try:
        result = _read(tls)
    except ConfigError:
        with _lock:
            cached = _last.get(files)
        if cached is None:
            raise
        return cached
    with _lock:
        _last[files] = result
    return result


def _read(tls: Tls) -> Files:
    try:
        result = Files(tls.ca.read_bytes(), tls.key.read_bytes(), tls.cert.read_bytes())
    except OSError as exc:
        msg = f"{exc.filename}: cannot be read: {exc.strerror}; name the PEM files of this process under 'tls'"
        raise ConfigError(msg) from exc
    for path, text in ((tls.ca, result.ca), (tls.cert, result.cert)):
        if not _certificates(text):
            raise ConfigError(f"{path}: holds no certificate in PEM; name the files of this process under 'tls'")
    try:
        public = serialization.load_pem_private_key(result.key, None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        msg = f"{tls.key}: holds no unencrypted key in PEM; name the files of this process under 'tls'"
        raise ConfigError(msg) from exc
    if public != _certificates(result.cert)[0].public_key():
        raise ConfigError(f"{tls.key}: is not the key of {tls.cert}; put the two that belong together in their places")
    return result


def _certificates(text: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError:
        return []


def client_context(files: Files) -> ssl.SSLContext:
    """A client side that shows this certificate and trusts this authority only."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cadata=files.ca.decode("ascii"))
    with joined(files.cert, files.key) as path:
        context.load_cert_chain(path)
    return context


@contextlib.contextmanager
def joined(cert: bytes, key: bytes) -> Iterator[str]:
    """A path with certificate and key in one, for libraries that take files only; in memory, so on no disk."""
    fd = in_memory("judge-tls")
    try:
        os.write(fd, cert + b"\n" + key)
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)
