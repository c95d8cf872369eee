"""Mirrors the controller's copies at another place with rsync or rclone, which have their own keys and passwords."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from judge.backup.repository import Repository
from judge.common.errors import JudgeError, RefusedError, UsageError

# A remote of rclone's own config: one that is written in the destination could have its keys in it.
_RCLONE: Final = re.compile(r"rclone:(\w[\w.-]*:[^:]*)")
_RSYNC: Final = re.compile(r"((\w[\w.-]*@)?(\w[\w.-]*|\[[0-9A-Fa-f:]+\]):)?/(?!/)[^:]*")


def commands(source: Path, destination: str) -> list[list[str]]:
    """Two commands: packs first, so that no manifest comes before its packs; then all, and what is gone goes."""
    if match := _RCLONE.fullmatch(destination):
        return [
            ["rclone", "copy", "--exclude", "/backups/**", str(source), match[1]],
            ["rclone", "sync", str(source), match[1]],
        ]
    if _RSYNC.fullmatch(destination):
        rsync = ["rsync", "--recursive", "--times", "--perms", "--rsh=ssh -o BatchMode=yes"]
        paths = ["--", f"{source}/", destination]
        return [[*rsync, "--exclude=/backups", *paths], [*rsync, "--delete-after", *paths]]
    raise UsageError(
        f"{destination!r} is no place for copies of backups; expected a directory as /DIRECTORY, HOST:/DIRECTORY or "
        "USER@HOST:/DIRECTORY for rsync over SSH, or rclone:REMOTE:PATH for a remote that rclone's config names"
    )


def send(source: Path, destination: str) -> None:
    """Make the destination a mirror of a directory of backups; RefusedError if this has none, as all would go there."""
    Repository(source).manifest("latest")
    for command in commands(source, destination):
        try:
            process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise RefusedError(f"{command[0]} is not installed on this machine; install it, run it again") from None
        if process.returncode != 0:
            lines = process.stderr.strip().splitlines() or [f"exit code {process.returncode}"]
            raise JudgeError(f"the backups were not copied to {destination}: {lines[0]}")
