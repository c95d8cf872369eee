"""`judgectl hosts`: what each machine is and how it fares. The script that asks, what its answer means, the table."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from rich.text import Text

from judge.common import clock
from judge.common.errors import UnavailableError
from judge.common.text import one_line, size
from judge.ctl import show
from judge.ctl.fleet.machines import FleetHost, Reply, fields_of, output_of
from judge.ctl.fleet.ssh_target import Target
from judge.ctl.text import age

# Needs no root and changes nothing; a host without a release, or without the data directory, answers too.
SCRIPT = r"""
LC_ALL=C; export LC_ALL
sed -n 's/^PRETTY_NAME=/os=/p' /etc/os-release
printf 'kernel='; uname -r
printf 'uptime='; cat /proc/uptime
printf 'load='; cat /proc/loadavg
printf 'cpus='; getconf _NPROCESSORS_ONLN
data=/var/lib/judge; [ -d $data ] || data=/var/lib
printf 'disk='; df -Pk $data | tail -n 1
printf 'release='; readlink /opt/judge/current || echo
for file in /etc/judge/tls/*.crt; do
  end=$(openssl x509 -enddate -noout -in "$file" 2>/dev/null) || continue
  echo "ends $(date -d "${end#*=}" +%s) $file"
done
systemctl show judge-boot.service --property=LoadState,ActiveState,SubState,StatusText
exit 0
"""
EXPIRY_DAYS, DAY = 30, 86400
LOW_DISK = 5  # percent free below which it is marked


@dataclass(frozen=True)
class Machine:
    """One host's row. Sizes in bytes, times in seconds; None is what the host did not tell."""

    name: str
    groups: tuple[str, ...]
    address: str
    reachable: bool
    reason: str = ""
    os: str = ""
    kernel: str = ""
    uptime: float | None = None
    load: tuple[float, ...] = field(default_factory=tuple)
    cpus: int | None = None
    disk_free: int | None = None
    disk_size: int | None = None
    release: str = ""
    boot: str = ""
    boot_status: str = ""
    certificate: str = ""  # the one that ends first
    expires: str = ""  # its end, in UTC
    expires_in: float | None = None


def machine(member: FleetHost, reply: Reply) -> Machine:
    address = member.login.address if isinstance(member.login, Target) else member.host.address
    base = (member.name, member.host.groups, address)
    try:
        return parse(output_of(reply), *base)
    except UnavailableError as exc:
        return Machine(*base, reachable=False, reason=str(exc))


def parse(text: str, name: str, groups: tuple[str, ...], address: str) -> Machine:
    """The lines KEY=VALUE that SCRIPT prints; what is missing or odd stays unknown."""
    fields = fields_of(text)
    uptime = _numbers(fields.get("uptime", ""))
    disk = [int(number) for number in _numbers(fields.get("disk", ""), skip=1)]
    cpus = _numbers(fields.get("cpus", ""))
    release = PurePosixPath(fields.get("release", "")).name
    ends = _ends(text)
    return Machine(
        name,
        groups,
        address,
        reachable=True,
        os=fields.get("os", "").strip("\"'"),
        kernel=fields.get("kernel", ""),
        uptime=uptime[0] if uptime else None,
        load=tuple(_numbers(fields.get("load", ""))[:3]),
        cpus=int(cpus[0]) if cpus else None,
        disk_size=disk[0] * 1024 if len(disk) > 2 else None,
        disk_free=disk[2] * 1024 if len(disk) > 2 else None,
        release=release,
        boot=_boot(fields),
        boot_status=fields.get("StatusText", ""),
        certificate=ends[1] if ends else "",
        expires=datetime.datetime.fromtimestamp(ends[0], datetime.UTC).isoformat() if ends else "",
        expires_in=ends[0] - clock.wall().timestamp() if ends else None,
    )


def _ends(text: str) -> tuple[int, str] | None:
    """The certificate that ends first, and when in seconds since 1970: the lines `ends SECONDS FILE`."""
    ends = []
    for line in text.split("\n"):
        words = line.split(" ", 2)
        if len(words) == 3 and words[0] == "ends" and words[1].isascii() and words[1].isdigit() and len(words[1]) < 12:
            ends.append((int(words[1]), one_line(words[2])))
    return min(ends, default=None)


def _numbers(text: str, skip: int = 0) -> list[float]:
    numbers = []
    for word in text.split()[skip:]:
        if not word.replace(".", "", 1).isdecimal() or not word.isascii() or len(word) > 18:
            break
        numbers.append(float(word))
    return numbers


def _boot(fields: Mapping[str, str]) -> str:
    if fields.get("LoadState") == "not-found":
        return "not installed"
    active, sub = fields.get("ActiveState", ""), fields.get("SubState", "")
    return active if active in {"active", ""} else f"{active} ({sub})" if sub and sub != active else active


def table(machines: Sequence[Machine]) -> show.Grid:
    grid = show.grid("host", "groups…", "address", "state!", "system", "up>", "load>", "disk free>", "release", "boot")
    releases = {row.release for row in machines if row.reachable}
    for row in machines:
        if not row.reachable:
            grid.add_row(row.name, ", ".join(row.groups), row.address, Text("unreachable", style="bold red"))
            continue
        grid.add_row(
            row.name,
            ", ".join(row.groups),
            row.address,
            Text("up", style="green"),
            Text(row.os or row.kernel),
            age(row.uptime),
            _load(row),
            _disk(row),
            Text(row.release or "none", style="" if row.release and len(releases) == 1 else "yellow"),
            Text(row.boot, style="green" if row.boot == "active" else "bold red" if "failed" in row.boot else "yellow"),
        )
    return grid


def reasons(machines: Iterable[Machine]) -> Iterable[str]:
    """One sentence for each host that did not answer, and for each whose certificates end soon."""
    for row in machines:
        if not row.reachable:
            yield f"{row.name}: {row.reason}"
        elif row.expires_in is not None and row.expires_in < EXPIRY_DAYS * DAY:
            when = f"expires in {int(row.expires_in // DAY)} days" if row.expires_in >= 0 else "has expired"
            yield f"{row.name}: {row.certificate} {when} ({row.expires}); run playbooks/renew.yml"


def _load(row: Machine) -> Text:
    if not row.load:
        return Text("")
    busy = row.cpus is not None and row.load[0] > 2 * row.cpus
    return Text(f"{row.load[0]:.2f}" + (f"/{row.cpus}" if row.cpus else ""), style="yellow" if busy else "")


def _disk(row: Machine) -> Text:
    if row.disk_free is None or not row.disk_size:
        return Text("")
    percent = 100 * row.disk_free // row.disk_size
    return Text(f"{size(row.disk_free)} {percent:2d}%", style="bold red" if percent < LOW_DISK else "")
