"""Holds: an operator's word that boot keeps away from a service, with author, reason and expiry (`judgectl hold`).

While a service is held boot neither starts, restarts nor stops it. The expiry is measured on the clock that counts
since the machine's start together with the id of that start, so that setting the time of day changes nothing; a
restart of the machine ends every hold.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from judge.boot import pidfile
from judge.common import clock, files
from judge.common.errors import FieldError, NotFoundError
from judge.config import Name

log = logging.getLogger(__name__)

MAX_SECONDS = 30 * 86400.0
_LOCK_WAIT = 5.0
_NAME: TypeAdapter[str] = TypeAdapter(Name)
_reported: set[Path] = set()


class Hold(BaseModel):
    """One hold as it lies in NAME.hold. `since` and `ends` are for people; `until` is on the boottime clock."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    service: str
    reason: str
    by: str
    since: str
    ends: str
    until: float
    boot_id: str

    @property
    def left(self) -> float:
        """Seconds until it ends by itself; 0 when it is over or from before the machine's last start."""
        if self.boot_id != boot_id():
            return 0.0
        return max(0.0, self.until - clock.boottime())

    @property
    def sentence(self) -> str:
        return f"held by {self.by} until {self.ends}: {self.reason}"


def boot_id() -> str:
    """The id of the machine's current start."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def hold(run_dir: Path, service: str, reason: str, seconds: float, by: str) -> Hold:
    """Keep boot away from a service for `seconds`; a second hold replaces the first. Called by `judgectl hold`.

    When this returns, boot is not in the middle of an act on the service. FieldError for an empty reason or author
    and for an impossible time, NotFoundError when there is no such run directory or service.
    """
    _check(run_dir, service)
    for field, text in (("reason", reason), ("by", by)):
        if not text.strip() or not text.isprintable():
            raise FieldError(field, "must be one line of text that tells the next operator why and who")
    if not 0 < seconds <= MAX_SECONDS:
        raise FieldError("seconds", f"must be above 0 and at most {MAX_SECONDS:g} (30 days), got {seconds:g}")
    now = clock.wall()
    new = Hold(
        service=service,
        reason=reason.strip(),
        by=by.strip(),
        since=now.isoformat(timespec="seconds"),
        ends=(now + datetime.timedelta(seconds=seconds)).isoformat(timespec="seconds"),
        until=clock.boottime() + seconds,
        boot_id=boot_id(),
    )
    # boot acts only under the pid file's lock, for instants; one that stays locked is an operator's own lock.
    deadline = clock.Deadline(_LOCK_WAIT)
    while True:
        with pidfile.locked(run_dir / f"{service}.pid") as free:
            if free or deadline.over:
                files.replace(_path(run_dir, service), new.model_dump_json(indent=1) + "\n", 0o644, durable=True)
                return new
        clock.sleep(0.02)


def release(run_dir: Path, service: str) -> bool:
    """End a hold, and let boot try a FATAL service again; True when there was a hold. Called by `judgectl release`."""
    _check(run_dir, service)
    files.replace(run_dir / f"{service}.release", "", 0o644, durable=True)
    was_held = service in read(run_dir)
    with contextlib.suppress(FileNotFoundError):
        _path(run_dir, service).unlink()
    return was_held


def read(run_dir: Path) -> dict[str, Hold]:
    """The holds in force by service. A file that nobody can read holds as well: its author meant to."""
    result = {}
    for path in sorted(run_dir.glob("*.hold")):
        entry = read_one(run_dir, path.stem)
        if entry is not None:
            result[path.stem] = entry
    return result


def read_one(run_dir: Path, service: str) -> Hold | None:
    """The hold on a service, None when there is none or it is over. Called by boot at every look at the service."""
    path = _path(run_dir, service)
    try:
        entry = Hold.model_validate_json(path.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as exc:
        why = f": {exc.strerror}" if isinstance(exc, OSError) else ""
        reason = f"{path} cannot be read{why}; remove it or use judgectl release {service}"
        until = clock.boottime() + 1
        return Hold(
            service=service, reason=reason, by="somebody", since="?", ends="then", until=until, boot_id=boot_id()
        )
    return entry if entry.left > 0 else None


def take_release(run_dir: Path, service: str) -> bool:
    """Return whether a person released the service since the last call. Called by boot only."""
    try:
        (run_dir / f"{service}.release").unlink()
    except FileNotFoundError:
        return False
    except OSError as exc:
        path = run_dir / f"{service}.release"
        if path not in _reported:
            _reported.add(path)
            log.warning("%s cannot be taken away: %s; remove it", path, exc.strerror)
        return False
    return True


def forget_expired(run_dir: Path, service: str) -> None:
    """Remove the file of a hold that is over. Called by boot only, under the pid file's lock."""
    path = _path(run_dir, service)
    # One that cannot be removed is over all the same.
    with contextlib.suppress(OSError):
        if path.exists() and read_one(run_dir, service) is None:
            path.unlink()


def _path(run_dir: Path, service: str) -> Path:
    return run_dir / f"{service}.hold"


def _check(run_dir: Path, service: str) -> None:
    """NotFoundError unless boot knows the service here; asks boot.json, which lists every service of the config."""
    try:
        _NAME.validate_python(service)
    except ValidationError:
        raise FieldError("service", f"'{service}' is not a service's name") from None
    try:
        names = [entry["name"] for entry in json.loads((run_dir / "boot.json").read_text("utf-8"))["services"]]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        msg = f"{run_dir} is no run directory of a boot (it has no boot.json); start boot first or name another"
        raise NotFoundError(msg) from exc
    if service not in names:
        raise NotFoundError(f"no service '{service}' in {run_dir}; boot runs {', '.join(names)} there")
    if not os.access(run_dir, os.W_OK):
        raise NotFoundError(f"{run_dir} may not be written by this user; run it as the user that runs boot")
