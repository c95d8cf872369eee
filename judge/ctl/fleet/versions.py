"""`judgectl versions`: what is installed on each host, and what still runs with something older."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.text import Text

from judge.common import kinds
from judge.common.errors import UnavailableError
from judge.ctl import show
from judge.ctl.fleet.machines import FleetHost, Reply, fields_of, output_of

# Needs root, to see which program a process runs; changes nothing.
SCRIPT = r"""
LC_ALL=C; export LC_ALL
say() { printf '%s=%s\n' "$1" "$2"; }
number() { grep -o '[0-9][0-9]*\.[0-9][0-9.]*[0-9]' | head -n 1; }
say installed.kernel "$(ls -1 /boot/vmlinuz-* 2>/dev/null | sed 's,.*/vmlinuz-,,' | sort -V | tail -n 1)"
say running.kernel "$(uname -r)"
link=$(readlink /opt/judge/current); say installed.release "${link##*/}"
for name in @services@; do
  pid=$(systemctl show --property=MainPID --value "judge-$name.service" 2>/dev/null)
  [ "${pid:-0}" -gt 0 ] || continue
  words=$(tr '\0' '\n' <"/proc/$pid/cmdline")
  say "running.release.$name" "$(echo "$words" | sed -n 's,^/opt/judge/releases/\([^/]*\)/.*,\1,p' | head -n 1)"
done
for program in etcd:etcd etcd:etcd-proxy mongod:mongodb; do
  config=/etc/judge/${program#*:}.yml; program=${program%%:*}
  [ -r "$config" ] || continue
  path=$(sed -n 's/^binary: *"\{0,1\}\([^"]*\)"\{0,1\} *$/\1/p' "$config")
  say "installed.$program" "$("$path" --version 2>/dev/null | number)"
  for pid in $(pgrep -x "$program"); do
    case $(tr '\0' ' ' <"/proc/$pid/cmdline") in *--version*) continue;; esac
    say "running.$program" "$("/proc/$pid/exe" --version 2>/dev/null | number)"
    case $(readlink "/proc/$pid/exe") in *'(deleted)') say "replaced.$program" yes;; esac
  done
done
say installed.gcc "$(gcc -dumpfullversion 2>/dev/null)"
say installed.python "$(/usr/bin/python3 --version 2>/dev/null | number)"
exit 0
""".replace("@services@", " ".join(kinds.services()))
COLUMNS = ("release", "etcd", "mongod", "gcc", "python", "kernel")


@dataclass(frozen=True)
class VersionRow:
    """One thing of one host. `running` is empty where nothing runs all the time; `stale`: what runs is older."""

    host: str
    what: str
    installed: str = ""
    running: str = ""
    stale: bool = False
    reason: str = ""  # empty if the host was asked


def rows(member: FleetHost, reply: Reply) -> list[VersionRow]:
    """Read a host's answer to SCRIPT; one row with the reason when there is none."""
    try:
        return parse(output_of(reply), member.name)
    except UnavailableError as exc:
        return [VersionRow(member.name, "", reason=str(exc))]


def parse(text: str, host: str) -> list[VersionRow]:
    """The lines that SCRIPT prints; services of one release are told together, those of another one by name."""
    known_keys = re.compile(r"(?:installed|running|replaced)\.[a-z.-]+")
    fields = {key: value for key, value in fields_of(text).items() if known_keys.fullmatch(key)}
    version_rows = []
    for component in COLUMNS:
        installed, running = fields.get(f"installed.{component}", ""), fields.get(f"running.{component}", "")
        stale = bool(installed and running and installed != running) or f"replaced.{component}" in fields
        if installed or running:
            version_rows.append(VersionRow(host, component, installed, running, stale=stale))
    release = fields.get("installed.release", "")
    for key, running in fields.items():
        if key.startswith("running.release.") and running and running != release:
            version_rows.append(VersionRow(host, f"release of {key.rpartition('.')[2]}", release, running, stale=True))
    return version_rows


def table(version_rows: Sequence[VersionRow]) -> show.Grid:
    """One line for each host, one column for each thing; what still runs stands before what is installed."""
    grid = show.grid("host", *COLUMNS)
    for host in dict.fromkeys(row.host for row in version_rows):
        of_host = {row.what: row for row in version_rows if row.host == host}
        if "" in of_host:
            grid.add_row(host, Text("unreachable", style="bold red"), *[""] * (len(COLUMNS) - 1))
            continue
        grid.add_row(host, *(_cell(of_host.get(component), of_host) for component in COLUMNS))
    return grid


def _cell(row: VersionRow | None, of_host: dict[str, VersionRow]) -> Text:
    if row is None:
        return Text("")
    stale = row.stale or (row.what == "release" and any(name.startswith("release of ") for name in of_host))
    if row.stale and row.running:
        return Text(
            f"{row.running}, not {row.installed}" if row.running != row.installed else row.running, style="yellow"
        )
    return Text(row.installed or row.running, style="yellow" if stale else "")


def sentences(version_rows: Iterable[VersionRow]) -> list[str]:
    """One for each host that did not answer, and for each thing that still runs although another one is installed."""
    messages = []
    for row in version_rows:
        if row.reason:
            messages.append(f"{row.host}: {row.reason}")
        elif row.stale and row.what == "kernel":
            messages.append(f"{row.host}: kernel {row.installed} is installed and {row.running} runs; restart the host")
        elif row.stale:
            messages.append(
                f"{row.host}: {row.what}: {row.installed} is installed and {row.running} runs; run site.yml"
            )
    return messages
