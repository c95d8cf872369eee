"""`judgectl units`: every judge unit of every host. The script that asks, what systemd's answer means, the table."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from judge.common import kinds
from judge.common.errors import UnavailableError
from judge.common.text import size
from judge.ctl import show
from judge.ctl.fleet.inventory import Host
from judge.ctl.fleet.machines import FleetHost, Reply, fields_of, output_of
from judge.ctl.text import age

PROPERTIES = (
    "Id", "LoadState", "ActiveState", "SubState", "Result", "NRestarts", "StatusText", "MemoryCurrent", "MainPID",
    "StateChangeTimestampMonotonic",
)  # fmt: skip
_RUNNING = {"active", "reloading", "refreshing"}
_STATUS_MOST = 200


@dataclass(frozen=True)
class UnitRow:
    """One unit's row. `fault`: empty, or missing, failed, stopped, restarting, unreachable."""

    host: str
    unit: str
    fault: str = ""
    active: str = ""
    sub: str = ""
    since: float | None = None  # seconds in this state
    restarts: int = 0
    pid: int | None = None
    memory: int | None = None  # bytes
    status: str = ""


def expected(host: Host) -> list[str]:
    return [f"judge-{name}.service" for name in kinds.services_of(set(host.groups))]


def script(host: Host) -> str:
    """The script for a host: it asks systemd for the expected units and for all others that it knows. Needs no root."""
    command = ["systemctl", "show", f"--property={','.join(PROPERTIES)}", *expected(host), "judge-*"]
    return f"LC_ALL=C; export LC_ALL; printf 'uptime='; cat /proc/uptime; echo; exec {shlex.join(command)}"


def units(member: FleetHost, reply: Reply) -> list[UnitRow]:
    """Read a host's answer, faults first; one row with the reason when there is none."""
    try:
        return parse(output_of(reply, "systemd"), member.name, expected(member.host))
    except UnavailableError as exc:
        return [UnitRow(member.name, "", fault="unreachable", status=str(exc))]


def parse(text: str, host: str, unit_names: Sequence[str]) -> list[UnitRow]:
    """The blocks of `systemctl show` after a block with the uptime; expected units that are not in it are missing."""
    uptime: float | None = None
    blocks: dict[str, dict[str, str]] = {}
    for block in text.split("\n\n"):
        fields = fields_of(block)
        seconds = re.match(r"[0-9]{1,12}(\.[0-9]{1,9})? ", fields.get("uptime", ""))
        if uptime is None and seconds:
            uptime = float(seconds[0])
        if fields.get("Id"):
            blocks.setdefault(fields["Id"], fields)
    for name in unit_names:
        blocks.setdefault(name, {"Id": name, "LoadState": "not-found"})
    rows = [_unit(host, fields, uptime, set(unit_names)) for fields in blocks.values()]
    return sorted(rows, key=lambda row: (not row.fault, _order(row.unit, unit_names), row.unit))


def _order(unit: str, unit_names: Sequence[str]) -> int:
    return unit_names.index(unit) if unit in unit_names else len(unit_names)


def _unit(host: str, fields: Mapping[str, str], uptime: float | None, unit_names: set[str]) -> UnitRow:
    changed = _number(fields.get("StateChangeTimestampMonotonic"))
    restarts = _number(fields.get("NRestarts")) or 0
    return UnitRow(
        host=host,
        unit=fields["Id"],
        fault=fault(fields, expected=fields["Id"] in unit_names),
        active=fields.get("ActiveState", ""),
        sub=fields.get("SubState", ""),
        since=max(0.0, uptime - changed / 1e6) if changed and uptime is not None else None,
        restarts=restarts,
        pid=_number(fields.get("MainPID")) or None,
        memory=_memory(fields.get("MemoryCurrent")),
        status=fields.get("StatusText", "")[:_STATUS_MOST] or _result(fields),
    )


def fault(fields: Mapping[str, str], *, expected: bool) -> str:
    """The reason for a person to look at a unit; empty when there is none."""
    active, sub = fields.get("ActiveState", ""), fields.get("SubState", "")
    if fields.get("LoadState") == "not-found" and active in {"", "inactive"}:
        return "missing" if expected else ""
    if active == "failed" or fields.get("LoadState") in {"error", "bad-setting"}:
        return "failed"
    if sub.startswith("auto-restart"):
        return "restarting"
    return "stopped" if expected and active in {"inactive", "deactivating"} else ""


def _result(fields: Mapping[str, str]) -> str:
    result = fields.get("Result", "")
    return f"({result})" if result not in {"", "success"} else ""


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 20 else None


def _memory(text: str | None) -> int | None:
    value = _number(text)
    return value if value is not None and value < 1 << 62 else None  # systemd says 2^64-1 for what is not counted


def table(rows: Sequence[UnitRow]) -> show.Grid:
    grid = show.grid("host", "unit!", "state!", "for>", "restarts>", "memory>", "status¶")
    for row in rows:
        style = "bold red" if row.fault else "green" if row.active in _RUNNING else "yellow"
        state = row.active if row.sub in {"", row.active, "running"} else f"{row.active} ({row.sub})"
        if row.fault in {"missing", "unreachable"}:
            state = row.fault
        grid.add_row(
            row.host,
            row.unit.removesuffix(".service"),
            Text(("✗ " if row.fault else "") + state, style=style),
            age(row.since),
            Text(str(row.restarts) if row.unit else "", style="yellow" if row.restarts else ""),
            "" if row.memory is None else size(row.memory),
            Text(row.status, overflow="ellipsis", no_wrap=True),
        )
    return grid


def summary(rows: Iterable[UnitRow]) -> tuple[str, bool]:
    """One sentence about all rows, and whether all is well."""
    rows = list(rows)
    faults = [row for row in rows if row.fault]
    hosts = len({row.host for row in rows})
    if not faults:
        return f"{len(rows)} units on {hosts} hosts: all are well", True
    kinds = {kind: sum(row.fault == kind for row in faults) for kind in dict.fromkeys(row.fault for row in faults)}
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items()) + f" ({hosts} hosts)", False
