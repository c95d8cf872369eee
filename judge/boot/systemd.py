"""Reads the answers of `systemctl show` about units, as boot understands them. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from judge.boot.backend import ObservedService
from judge.boot.plan import Process
from judge.common.errors import EXIT_FAILED

# Properties that `systemctl show` is asked for, and so the fields of ShownUnit.
PROPERTIES = (
    "Id", "LoadState", "ActiveState", "Result", "ExecMainCode", "ExecMainStatus", "MainPID", "InvocationID",
    "StatusText", "Job",
)  # fmt: skip

_EXITED, _SIGNALLED = "1", {"2", "3"}  # CLD_EXITED; CLD_KILLED, CLD_DUMPED
_OWN_CODES = range(200, 256)  # systemd.exec(5): the process that should have become the program could not
# Results that say more than the exit code does (systemd.service(5)).
_RESULTS = {
    "watchdog": "systemd's watchdog ended it, as its loop made no progress for WatchdogSec",
    "timeout": "a time limit of its unit ended it",
    "oom-kill": "the kernel killed it for want of memory",
    "start-limit-hit": "systemd's start limit was hit; the unit needs StartLimitIntervalSec=0",
    "resources": "systemd could not provide what its unit asks for; see systemctl status",
    "protocol": "it ended before it said that it was ready",
}


@dataclass(frozen=True)
class ShownUnit:
    """One unit. `job`: something is queued for it. `text` is its STATUS=. `code` and `status` as in waitid(2)."""

    name: str
    load: str = "loaded"
    active: str = "inactive"
    result: str = "success"
    code: str = "0"
    status: int = 0
    pid: int | None = None
    invocation: str = ""
    text: str = ""
    job: bool = False

    @property
    def lives(self) -> bool:
        """Return whether systemd has processes of it, or is about to."""
        return self.job or not self.over

    @property
    def over(self) -> bool:
        """Return whether systemd has no processes of it; at a shutdown it still has a job, which waits for boot."""
        return self.active in {"inactive", "failed"}


def unit_name(service: str) -> str:
    return f"judge-{service}.service"


def parse(text: str) -> dict[str, ShownUnit]:
    """The output of `systemctl show --property=… UNIT…` by unit name; blocks without an Id are left out."""
    result = {}
    for block in text.split("\n\n"):
        fields: dict[str, str] = {}
        for line in block.split("\n"):
            key, equals, value = line.partition("=")
            if equals and key in PROPERTIES:
                fields.setdefault(key, value)
        if fields.get("Id"):
            result[fields["Id"]] = _parsed(fields)
    return result


def _parsed(fields: Mapping[str, str]) -> ShownUnit:
    return ShownUnit(
        name=fields["Id"],
        load=fields.get("LoadState", ""),
        active=fields.get("ActiveState", ""),
        result=fields.get("Result", ""),
        code=fields.get("ExecMainCode", "0"),
        status=_number(fields.get("ExecMainStatus", "")),
        pid=_number(fields.get("MainPID", "")) or None,
        invocation=fields.get("InvocationID", ""),
        text=fields.get("StatusText", "")[:200],
        job=_number(fields.get("Job", "")) > 0,
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def living(unit: ShownUnit, *, outdated: bool, inherited: bool) -> ObservedService:
    """A living unit as boot sees it. It is ready when it said so: all units are Type=notify."""
    ready = {"active": True, "reloading": True, "refreshing": True, "activating": False}.get(unit.active)
    if unit.job and ready is None:
        ready = False
    return ObservedService(
        Process.RUNNING,
        unit.pid,
        outdated=outdated,
        found=inherited,
        ready=ready,
        incarnation=unit.invocation,
        leaving=unit.active == "deactivating",
        status=unit.text if unit.pid else "",
    )


def exit_code(unit: ShownUnit) -> int | None:
    """As subprocess has it: the exit code, or minus the signal; None when systemd does not know (any more)."""
    if unit.code == _EXITED:
        return unit.status
    if unit.code in _SIGNALLED:
        return -unit.status
    return None if unit.result == "success" else EXIT_FAILED


def reason(unit: ShownUnit) -> str:
    """The reason that systemd knows for an end beside the exit code; empty when the service's last line must tell."""
    if unit.result in _RESULTS:
        return _RESULTS[unit.result]
    if unit.result == "exit-code" and unit.code == _EXITED and unit.status in _OWN_CODES:
        return "systemd could not start its program (systemd.exec(5) explains the code); see systemctl status"
    if unit.result in {"exit-code", "signal"} and unit.code not in {_EXITED, *_SIGNALLED}:
        return "a command before its start failed (ExecStartPre=); see systemctl status"
    return ""
