"""The systemd backend: services are the units judge-NAME of this host; boot decides, systemd starts and ends them.

Same behaviour as the process backend. What boot's process backend does by pid files and marks systemd does by control
groups: nothing outlives its unit, and boot finds again what runs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
from pathlib import Path

from judge.boot import pidfile, procs, systemd
from judge.boot.backend import ObservedService, Unit, fingerprint
from judge.boot.plan import Process
from judge.boot.systemd import ShownUnit, unit_name
from judge.common import clock, procfs
from judge.common.errors import EXIT_FAILED, EXIT_REFUSED, RefusedError

log = logging.getLogger(__name__)

_ENVIRONMENT = {"PATH": os.defpath, "LANG": "C.UTF-8", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "cat"}
_TIMEOUT = 3.0  # seconds for one call of systemctl or journalctl, which take some milliseconds
_CATCH_UP = 0.3  # seconds that systemd may need to notice an end that boot has noticed already
_PAUSE = 0.02
_LINES = 5


def check_host() -> None:
    """RefusedError unless this is root on a host that systemd runs."""
    if not Path("/run/systemd/system").is_dir():
        msg = "backend 'systemd' needs a host that systemd runs, and this one's process 1 is another; set 'process'"
        raise RefusedError(msg)
    if os.geteuid() != 0:
        msg = "backend 'systemd' needs root, as only root starts and ends units; run boot as judge-boot.service"
        raise RefusedError(msg)


class SystemdBackend:
    """Runs each service as its unit. Every call of systemd is one short program with a time limit."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._units: dict[str, Unit] = {}
        self._shown: dict[str, ShownUnit] = {}
        self._asked: set[str] = set()  # to be started, after the last look
        self._before: dict[str, str] = {}  # the invocation before the last start that was asked for
        self._known: dict[str, str] = {}  # the invocation that the pid file speaks of
        self._found: dict[str, str] = {}  # the invocation that ran before this boot
        self._outdated: set[str] = set()
        self._ended: dict[str, tuple[ShownUnit, ObservedService]] = {}
        self._refused: dict[str, ObservedService] = {}
        self._handles: dict[str, procs.Handle] = {}
        self._answers = True
        self._host_stops = False

    def prepare(self, unit: Unit) -> None:
        unit.command = ["systemctl", "start", unit_name(unit.name)]
        unit.fingerprint = fingerprint(unit.command, unit.config)
        self._units[unit.name] = unit

    def adopt(self, unit: Unit) -> None:
        """A unit that runs needs no taking over; whether it runs with today's config, the pid file tells.

        One that was started without boot may have read any config, and is replaced like one with an older config.
        """
        if unit.name not in self._shown:
            self._look()
        unit_state = self._shown.get(unit.name)
        if unit_state is None or not unit_state.lives:
            return
        self._found[unit.name] = unit_state.invocation
        record = pidfile.read(self._pid(unit))
        if record.incarnation == unit_state.invocation and record.fingerprint == unit.fingerprint:
            self._known[unit.name] = unit_state.invocation
        else:
            self._outdated.add(unit.name)

    def refresh(self) -> None:
        """Ask systemd for all units at once. When it does not answer, what was seen last still counts."""
        ended = {name: handle.pid for name, handle in self._handles.items() if not handle.alive}
        deadline = clock.Deadline(_CATCH_UP)
        self._look()
        while any(self._shown[name].pid == pid for name, pid in ended.items()) and not deadline.over:
            clock.sleep(_PAUSE)
            self._look()
        for name, unit_state in self._shown.items():
            handle = self._handles.get(name)
            if handle is not None and (name in ended or handle.pid != unit_state.pid):
                self._handles.pop(name).close()
            if unit_state.pid is not None and unit_state.pid != ended.get(name):
                self._watch(name, unit_state, unit_state.pid)

    def _look(self) -> None:
        names = {unit_name(name): name for name in self._units}
        result = _call("systemctl", "show", f"--property={','.join(systemd.PROPERTIES)}", "--", *names)
        if isinstance(result, str):
            if self._answers:
                log.warning("systemd does not answer (%s); boot goes on with what it saw last", result)
            self._answers = False
            return
        if not self._answers:
            log.info("systemd answers again")
        self._answers = True
        self._shown |= {
            names[name]: unit_state for name, unit_state in systemd.parse(result.stdout).items() if name in names
        }
        self._asked.clear()

    def _watch(self, name: str, unit_state: ShownUnit, pid: int) -> None:
        """Keep a descriptor that tells the end of the main process, and note what it was started with."""
        if name not in self._handles:
            with contextlib.suppress(OSError):
                self._handles[name] = procs.Handle(pid)
        if unit_state.invocation in {self._known.get(name), self._found.get(name)}:
            return
        # The service has read the config that lies in the run directory now, also if boot did not start it.
        self._known[name] = unit_state.invocation
        self._outdated.discard(name)
        unit = self._units[name]
        record = pidfile.PidRecord(pid, procfs.start_time(pid) or 0, unit_state.invocation, unit.fingerprint)
        try:
            pidfile.write(self._pid(unit), record)
        except OSError as exc:
            log.warning("%s cannot be written: %s; the next boot will restart it", self._pid(unit), exc.strerror)

    def start(self, unit: Unit) -> None:
        """Queue the unit's start. One that systemd does not know or may not start is EXITED, and refused."""
        name = unit_name(unit.name)
        unit_state = self._shown.get(unit.name, ShownUnit(name))
        self._ended.pop(unit.name, None)
        self._refused.pop(unit.name, None)
        if unit_state.active == "failed":
            _call("systemctl", "reset-failed", "--", name)
        result = _call("systemctl", "start", "--no-block", "--", name)
        if not isinstance(result, str):
            self._before[unit.name] = unit_state.invocation
            self._asked.add(unit.name)
            return
        # A unit that is missing, broken or masked stays so until a person acts; anything else may pass.
        code = EXIT_FAILED if unit_state.load == "loaded" else EXIT_REFUSED
        self._refused[unit.name] = ObservedService(
            Process.EXITED, code=code, detail=f"systemd does not start it: {result}"
        )

    def poll(self, unit: Unit) -> ObservedService:
        """The service by the last look at its unit."""
        name = unit.name
        unit_state = self._shown.get(name)
        if name in self._asked:
            return ObservedService(Process.RUNNING, ready=False)
        if unit_state is not None and unit_state.lives and not (self._host_stops and unit_state.over):
            self._refused.pop(name, None)
            inherited = unit_state.invocation == self._found.get(name)
            return systemd.living(unit_state, outdated=inherited and name in self._outdated, inherited=inherited)
        if name in self._refused:
            return self._refused[name]
        if unit_state is None or not any(
            name in invocations for invocations in (self._before, self._known, self._found)
        ):
            return ObservedService()
        if name not in self._ended or self._ended[name][0] != unit_state:
            self._ended[name] = (unit_state, self._end(name, unit_state))
        return self._ended[name][1]

    def _end(self, name: str, unit_state: ShownUnit) -> ObservedService:
        """The end of a unit. One that ended well may be forgotten by systemd at once, and then has no invocation."""
        if unit_state.invocation and unit_state.invocation == self._before.get(name):
            detail = "systemd dropped its start; see journalctl -u " + unit_name(name)
            return ObservedService(Process.EXITED, code=EXIT_FAILED, detail=detail)
        invocation = unit_state.invocation or self._known.get(name, "")
        detail = systemd.reason(unit_state) or _last_line(unit_name(name), invocation)
        return ObservedService(Process.EXITED, code=systemd.exit_code(unit_state), detail=detail)

    def stop(self, unit: Unit, *, force: bool) -> None:
        """Queue the unit's stop, or SIGKILL everything in its control group."""
        if force:
            result = _call("systemctl", "kill", "--kill-whom=all", "--signal=SIGKILL", "--", unit_name(unit.name))
        elif _host_stops():
            # The unit has a stop job already, which waits for boot (judge.target): only its signal can be had before.
            self._host_stops = True
            result = _call("systemctl", "kill", "--kill-whom=main", "--signal=SIGTERM", "--", unit_name(unit.name))
        else:
            result = _call("systemctl", "stop", "--no-block", "--", unit_name(unit.name))
        if isinstance(result, str):
            log.warning("%s: systemd does not %s it: %s", unit.name, "kill" if force else "stop", result)

    def clear(self, unit: Unit) -> None:
        """Nothing to do: systemd leaves nothing of a unit behind."""

    def describe(self, unit: Unit) -> str:
        return f"unit {unit_name(unit.name)}, log: journalctl -u {unit_name(unit.name)}"

    def descriptors(self) -> list[int]:
        """Those of the main processes; one that has ended is closed by the next look."""
        return [handle.fd for handle in self._handles.values()]

    def close(self) -> None:
        for handle in self._handles.values():
            handle.close()
        self._handles.clear()

    def _pid(self, unit: Unit) -> Path:
        return self._run_dir / f"{unit.name}.pid"


def _call(*command: str) -> subprocess.CompletedProcess[str] | str:
    """Run one of systemd's programs; what it said, or why it failed, for a sentence."""
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, env=_ENVIRONMENT, timeout=_TIMEOUT, check=False,
            text=True, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{command[0]} {command[1]} took longer than {_TIMEOUT:g} s"
    except OSError as exc:
        return f"{command[0]}: {exc.strerror}"
    if result.returncode == 0:
        return result
    lines = result.stderr.strip().splitlines()
    return lines[0].rstrip(".") if lines else f"{command[0]} {command[1]} ended with exit code {result.returncode}"


def _host_stops() -> bool:
    """Return whether systemd is shutting the host down."""
    result = _call("systemctl", "show", "--property=SystemState", "--value")
    return not isinstance(result, str) and result.stdout.strip() == "stopping"


def _last_line(unit: str, invocation: str) -> str:
    """The last line that a service logged in one invocation; empty when there is none."""
    if not invocation:
        return ""
    _call("journalctl", "--sync")
    matches = [f"_SYSTEMD_UNIT={unit}", f"_SYSTEMD_INVOCATION_ID={invocation}"]
    result = _call("journalctl", "--quiet", "--no-pager", "--output=cat", f"--lines={_LINES}", *matches)
    if isinstance(result, str):
        return ""
    lines = [line.strip() for line in result.stdout.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""
