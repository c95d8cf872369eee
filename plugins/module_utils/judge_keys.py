"""Key pairs on a host, made by the openssl program; no key leaves it. Runs on hosts: standard library only."""

from __future__ import annotations

import grp
import os
import pwd
import subprocess
from pathlib import Path

from .judge_writing import keep_names, put, written

DIRECTORY_MODE = 0o755
_KEY_MODE = 0o600


class KeyPairError(Exception):
    """A key or certificate that cannot be made; the text is one sentence for the person who runs the playbook."""


def _openssl(*arguments: str) -> str:
    """The output of openssl. Keys go by file, never as an argument or through the output."""
    try:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False, umask=0o077)
    except FileNotFoundError:
        msg = "openssl is missing on this host; install the package openssl (the role judge_bundle does)"
        raise KeyPairError(msg) from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise KeyPairError(f"openssl {arguments[0]} failed: {reason}")
    return done.stdout


def request_for(key: Path) -> str:
    """A certificate request of a key (PEM). Its subject is empty: the authority decides what a certificate says."""
    return _openssl("req", "-new", "-key", str(key), "-subj", "/CN=request", "-batch", "-config", os.devnull)


def is_usable(key: Path) -> bool:
    """Return whether a file is an unencrypted P-256 key that openssl can use."""
    if not key.is_file() or key.is_symlink():
        return False
    try:
        output = _openssl("pkey", "-in", str(key), "-passin", "pass:", "-noout", "-text_pub")
    except KeyPairError:
        return False
    return "prime256v1" in output


def make(key: Path) -> None:
    """Make a key; the file is its owner's alone from its first byte, and complete when it takes its place."""
    temporary = key.with_name(f".{key.name}.made")
    temporary.unlink(missing_ok=True)
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _KEY_MODE))
    try:
        _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(temporary))
        put(key, temporary.read_bytes(), _KEY_MODE)
    finally:
        temporary.unlink(missing_ok=True)


def ids(owner: str, group: str | None) -> tuple[int, int]:
    """(uid, gid); KeyPairError when the host has no such user or group."""
    try:
        user = pwd.getpwnam(owner)
        return user.pw_uid, user.pw_gid if group is None else grp.getgrnam(group).gr_gid
    except KeyError:
        msg = f"this host has no user '{owner}' or no group '{group}'; the role judge_common makes them, run it first"
        raise KeyPairError(msg) from None


def settle(path: Path, uid: int, gid: int, mode: int, *, write: bool) -> bool:
    state = path.stat()
    differs = (state.st_uid, state.st_gid, state.st_mode & 0o7777) != (uid, gid, mode)
    if differs and write:
        os.chown(path, uid, gid)
        path.chmod(mode)
    return differs


def coming(key: Path) -> Path:
    """The place where a new key waits for its certificate."""
    return key.with_name(f".{key.name}.coming")


def install(key: Path, certificate: Path, text: str) -> None:
    """Put a certificate into its place, and with it the new key that waits for it, if any.

    Two files cannot be replaced at once. Both are complete and on the disk before, so only two renames lie between.
    """
    fresh = written(certificate, text.encode("ascii"), 0o644)
    if coming(key).exists():
        coming(key).replace(key)
        keep_names(key.parent)
    fresh.replace(certificate)
    keep_names(certificate.parent)


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (FileNotFoundError, UnicodeDecodeError):
        return ""
