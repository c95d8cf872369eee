"""The process backend: services are child processes that outlive a killed boot and are found again by the next.

Seeds: `subprocess.run(s)`, `s.pid_file.write(s.process.pid)`, `s.process.running`, `.kill()`, `.join()`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judge.boot import pidfile, procs
from judge.boot.backend import ObservedService, Unit, fingerprint
from judge.boot.plan import Process
from judge.common import clock, failpoint, procfs
from judge.common.errors import EXIT_FAILED
from judge.daemon.main import ALIVE_FD

log = logging.getLogger(__name__)

LOG_BYTES = 20 * 1024**2
LOG_KEEP = 3
_TAIL = 16 * 1024
_LOGS_EVERY = 10.0  # seconds
_CLEAR_WAIT = 1.0
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "JOURNAL_STREAM")
_LOG_PREFIX = re.compile(r"^(<\d>|\S+Z [A-Z]+ )")


def daemon_command(unit: Unit) -> list[str]:
    """The command that starts a daemon of this installation; -P keeps the current directory off the module path."""
    return [sys.executable, "-P", "-m", "judge.cli", unit.spec.kind, "--config", str(unit.config)]


def minimal_environment() -> dict[str, str]:
    """The part of boot's environment that services get: nothing that could be a secret."""
    variables = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {"PATH": os.defpath, "LANG": "C.UTF-8"} | variables


@dataclass
class _Running:
    """A verified process of a service. `child` is None for one that an earlier boot started."""

    handle: procs.Handle
    incarnation: str
    child: subprocess.Popen[bytes] | None = None
    outdated: bool = False
    log_start: int = 0


class ProcessBackend:
    """Runs each service as a session of its own, with its output in `log_dir` (None: boot's own output).

    `command` maps a unit to its command line and `environment` is what every service gets; the tests put small
    programs there.
    """

    def __init__(
        self,
        run_dir: Path,
        log_dir: Path | None = None,
        *,
        command: Callable[[Unit], Sequence[str]] = daemon_command,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._run_dir = run_dir.resolve()
        self._log_dir = log_dir
        self._command = command
        self._environment = dict(environment if environment is not None else minimal_environment())
        self._running: dict[str, _Running] = {}
        self._ended: dict[str, ObservedService] = {}
        self._next_logs = clock.monotonic()

    def prepare(self, unit: Unit) -> None:
        unit.command = self._command(unit)
        unit.fingerprint = fingerprint(unit.command, unit.config)

    def adopt(self, unit: Unit) -> None:
        """Take over the recorded process if it holds the service's lock and is verified to be the recorded one."""
        if unit.name in self._running or not pidfile.is_locked(self._alive(unit)):
            return
        record = pidfile.read(self._pid(unit))
        handle = procs.open_verified(record.pid, record.matches)
        if handle is not None:
            outdated = record.fingerprint != unit.fingerprint
            self._running[unit.name] = _Running(handle, record.incarnation, outdated=outdated)

    def refresh(self) -> None:
        """Each service is looked at by itself; only their logs are kept from growing without bound."""
        if self._log_dir is None or clock.monotonic() < self._next_logs:
            return
        self._next_logs = clock.monotonic() + _LOGS_EVERY
        for log_file in self._log_dir.glob("*.log"):
            if rotate(log_file, copy=True) and log_file.stem in self._running:
                self._running[log_file.stem].log_start = 0

    def start(self, unit: Unit) -> None:
        """Start the service with a new incarnation, unless a leftover that cannot be ended stands in the way."""
        self._ended.pop(unit.name, None)
        try:
            self._start(unit)
        except OSError as exc:
            reason = f"it cannot be started: {exc.strerror or exc}"
            self._ended[unit.name] = ObservedService(Process.EXITED, code=EXIT_FAILED, detail=reason)

    def poll(self, unit: Unit) -> ObservedService:
        """The service as it is now. When it has ended, join it, and end all that it left behind."""
        running = self._running.get(unit.name)
        if running is None:
            return self._not_running(unit)
        if running.handle.alive:
            return ObservedService(
                Process.RUNNING, running.handle.pid, outdated=running.outdated, found=running.child is None
            )
        code = running.child.wait() if running.child is not None else None
        running.handle.close()
        del self._running[unit.name]
        procs.kill_marked(procs.INCARNATION, running.incarnation)
        observed = ObservedService(Process.EXITED, code=code, detail=self._last_line(unit, running.log_start))
        self._ended[unit.name] = observed
        return observed

    def stop(self, unit: Unit, *, force: bool) -> None:
        """SIGTERM to the daemon, or SIGKILL to it, its session and everything with its incarnation."""
        running = self._running.get(unit.name)
        if running is not None and force:
            procs.kill_session(running.handle)
            procs.kill_marked(procs.INCARNATION, running.incarnation)
        elif running is not None:
            running.handle.send(signal.SIGTERM)

    def clear(self, unit: Unit) -> None:
        """SIGKILL processes that carry this service's mark, whatever their incarnation."""
        procs.kill_marked(procs.SERVICE, self._mark(unit))

    def describe(self, unit: Unit) -> str:
        running = self._running.get(unit.name)
        running_text = f"process {running.handle.pid}" if running else "not running"
        return f"{running_text}, log {self._log(unit) or 'of boot'}"

    def descriptors(self) -> list[int]:
        return [running.handle.fd for running in self._running.values()]

    def close(self) -> None:
        for running in self._running.values():
            running.handle.close()
            if running.child is not None:
                running.child.returncode = 0  # left to the next boot on purpose: no warning at its collection
        self._running.clear()

    def _not_running(self, unit: Unit) -> ObservedService:
        if not pidfile.is_locked(self._alive(unit)):
            return self._ended.get(unit.name, ObservedService())
        self.adopt(unit)
        running = self._running.get(unit.name)
        if running is not None:
            return ObservedService(Process.RUNNING, running.handle.pid, outdated=running.outdated, found=True)
        detail = f"an instance that is not the recorded one still holds {self._alive(unit)}"
        return ObservedService(Process.ALIEN, detail=detail)

    def _start(self, unit: Unit) -> None:
        self._clear_the_way(unit)
        alive = pidfile.try_lock(self._alive(unit))
        if alive is None:
            raise OSError(f"{self._alive(unit)} is locked by {pidfile.holder(self._alive(unit))}")
        incarnation = uuid.uuid4().hex
        try:
            # Written before the start: if boot is killed right after it, the next one knows whom to look for.
            pidfile.write(self._pid(unit), pidfile.PidRecord(incarnation=incarnation, fingerprint=unit.fingerprint))
            failpoint.hit("boot.start.recorded")
            child, log_start = self._spawn(unit, alive, incarnation)
        finally:
            os.close(alive)
        failpoint.hit("boot.start.spawned")
        start = procfs.start_time(child.pid) or 0
        pidfile.write(self._pid(unit), pidfile.PidRecord(child.pid, start, incarnation, unit.fingerprint))
        failpoint.hit("boot.start.written")
        self._running[unit.name] = _Running(procs.Handle(child.pid), incarnation, child, log_start=log_start)

    def _spawn(self, unit: Unit, alive: int, incarnation: str) -> tuple[subprocess.Popen[bytes], int]:
        environment = {procs.INCARNATION: incarnation, procs.SERVICE: self._mark(unit), ALIVE_FD: str(alive)}
        path = self._log(unit)
        if path is not None:
            rotate(path)
        output = None if path is None else path.open("ab")
        with output or contextlib.nullcontext():
            log_start = output.tell() if output else 0  # before the service writes, whose place in the file it is, too
            child = subprocess.Popen(
                list(unit.command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment | environment,
                pass_fds=(alive,),
                start_new_session=True,
            )
        return child, log_start

    def _clear_the_way(self, unit: Unit) -> None:
        """Wait, shortly, until nothing carries this service's mark (children that outlived their daemon)."""
        deadline = clock.Deadline(_CLEAR_WAIT)
        while survivors := procs.kill_marked(procs.SERVICE, self._mark(unit)):
            if deadline.over:
                raise OSError(f"process {survivors[0]} of an earlier run does not end")
            clock.sleep(0.01)

    def _last_line(self, unit: Unit, start: int) -> str:
        """The last line that the service logged since this start, without its time and level."""
        path = self._log(unit)
        if path is None:
            return ""
        with contextlib.suppress(OSError), path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(start, end - _TAIL))
            lines = file.read().decode(errors="replace").strip().rsplit("\n", 1)
            return _LOG_PREFIX.sub("", lines[-1].strip())[:500]
        return ""

    def _alive(self, unit: Unit) -> Path:
        return self._run_dir / f"{unit.name}.alive"

    def _pid(self, unit: Unit) -> Path:
        return self._run_dir / f"{unit.name}.pid"

    def _mark(self, unit: Unit) -> str:
        return str(self._run_dir / unit.name)

    def _log(self, unit: Unit) -> Path | None:
        return self._log_dir / f"{unit.name}.log" if self._log_dir is not None else None


def rotate(path: Path, limit: int = LOG_BYTES, keep: int = LOG_KEEP, *, copy: bool = False) -> bool:
    """Make NAME.log.1 of a log of at least `limit` bytes, keeping `keep` old ones; whether it was done.

    Called before a start. With `copy`, while somebody writes to it: its contents are copied and it is emptied; lines
    written in the instant between are lost. On a full disk the log is emptied without a copy. Never raises OSError.
    """
    old = path.with_name(f"{path.name}.1")
    try:
        if path.stat().st_size < limit:
            return False
        for number in range(keep - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(f"{path.name}.{number}").replace(path.with_name(f"{path.name}.{number + 1}"))
        if not copy:
            path.replace(old)
            return True
        try:
            shutil.copyfile(path, old)
        except OSError as exc:
            log.warning("%s cannot be written: %s; what was in %s is lost", old, exc.strerror, path.name)
            with contextlib.suppress(OSError):
                old.unlink()
        os.truncate(path, 0)
    except FileNotFoundError:
        return False
    except OSError as exc:
        log.warning("%s cannot be rotated: %s", path, exc.strerror)
        return False
    return True
