"""What the kernel had before a role's settings, so that it gets it back from a role that no longer sets it.

What somebody else has changed since is set again.

Files of sysctl.d and tmpfiles.d say what is set. Runs on hosts: standard library only.
"""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

from .judge_writing import put

FORMER = Path("/var/lib/judge/former-settings.json")
REFUSED = Path("/var/lib/judge/refused-settings.json")
_TMPFILES = re.compile(r"^w-? +(\S+) (?:.* )?(\S+)$", re.MULTILINE)
_SYSCTL = re.compile(r"^-?([a-z][\w.]*) *= *(.*\S)", re.MULTILINE)

Values = dict[str, str]


def set_by(text: str) -> Values:
    """The kernel's files that a file of sysctl.d or tmpfiles.d sets, and their values; a pattern is all its files."""
    values = {f"/proc/sys/{key.replace('.', '/')}": value for key, value in _SYSCTL.findall(text)}
    for pattern, value in _TMPFILES.findall(text):
        values |= {str(path): value for path in Path("/").glob(pattern.lstrip("/"))}
    return values


def has(path: str) -> str | None:
    """The value of one of the kernel's files, of choices the one in brackets; None where there is no such file."""
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
    choice = re.search(r"\[(\S+)\]", text)
    return choice[1] if choice else text


def remember(dest: str, text: str, record: Path = FORMER) -> None:
    """Note what the kernel has of what the new file `dest` will set, unless it is noted already."""
    former = _read(record)
    recorded = former.get(dest, {})
    fresh = {path: value for path in set_by(text) if path not in recorded and (value := has(path)) is not None}
    if fresh:
        _write(record, former | {dest: recorded | fresh})


def hand_back(dest: str, text: str, record: Path = FORMER) -> None:
    """Set what `dest` no longer sets to what the kernel had before, unless another file sets it."""
    former = _read(record)
    dropped = {path: value for path, value in former.get(dest, {}).items() if path not in set_by(text)}
    if not dropped:
        return
    shared = {path for file, values in former.items() if file != dest for path in values}
    for path, value in dropped.items():
        if path not in shared:
            with contextlib.suppress(OSError):  # a container may not, as when it was set
                Path(path).write_text(value, encoding="utf-8")
    _write(record, former | {dest: {path: value for path, value in former[dest].items() if path not in dropped}})


def drifted(dest: str, text: str, record: Path = REFUSED) -> Values:
    """What the file `dest` sets and the kernel has otherwise, but for what it did not take from us either.

    Of two files of one directory the later one counts, as when the machine starts.
    """
    refused, here = _read(record).get(dest, {}), Path(dest)
    others = [path for path in here.parent.glob("*.conf") if path.name > here.name]
    later = {path for other in others for path in set_by(other.read_text(encoding="utf-8", errors="replace"))}
    return {
        path: value
        for path, value in _otherwise(text).items()
        if path not in later and has(path) != refused.get(path, "")
    }


def put_back(dest: str, text: str, record: Path = REFUSED) -> None:
    for path, value in drifted(dest, text, record).items():
        with contextlib.suppress(OSError):  # a container may not; it is noted
            Path(path).write_text(value, encoding="utf-8")
    note_refused(dest, text, record)


def note_refused(dest: str, text: str, record: Path = REFUSED) -> None:
    """Note what the kernel did not take of a file that was just applied, so that it is no drift."""
    recorded, refused = _read(record), {path: has(path) or "" for path in _otherwise(text)}
    if recorded.get(dest, {}) != refused:
        _write(record, recorded | {dest: refused})


def _otherwise(text: str) -> Values:
    return {
        path: value
        for path, value in set_by(text).items()
        if (now := has(path)) is not None and now.split() != value.split()
    }


def _read(record: Path) -> dict[str, Values]:
    try:
        record_values: dict[str, Values] = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record_values


def _write(record: Path, former: dict[str, Values]) -> None:
    record.parent.mkdir(parents=True, exist_ok=True)
    put(record, json.dumps(former, indent=1, sort_keys=True).encode(), 0o644)
