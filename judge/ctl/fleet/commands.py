"""judgectl hosts, units and logs: the commands that look at the machines themselves, over SSH."""

from __future__ import annotations

import json
import queue
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from judge.common import clock
from judge.common.errors import EXIT_FAILED, UsageError
from judge.ctl import context, show
from judge.ctl.fleet import ansible
from judge.ctl.options import Inventories, Output, VaultFiles

if TYPE_CHECKING:
    from judge.ctl.fleet.ansible import Sources
    from judge.ctl.fleet.journal import HostNotice
    from judge.ctl.fleet.logs import JournalEntry
    from judge.ctl.fleet.machines import Fleet
    from judge.ctl.fleet.units import UnitRow

TABLE = show.OutputFormat.TABLE
WATCH = 2.0  # seconds between the pictures of --watch

Which = Annotated[
    list[str] | None,
    typer.Argument(metavar="HOST|GROUP", help="Hosts, groups, or patterns such as 'e*'; default: the cluster."),
]
Timeout = Annotated[float, typer.Option(min=0.1, max=600, help="Seconds that each host has to answer.")]
Json = Annotated[bool, typer.Option("--json", help="The same as --output json.")]


def add_to(app: typer.Typer) -> None:
    """Make these commands known to judgectl."""
    for command in (hosts, units, logs):
        app.command(rich_help_panel="The machines, over SSH (take --inventory)")(command)


def needed(sources: Sources | None) -> Sources:
    """The inventory that a command cannot do without; UsageError."""
    if sources is None:
        raise UsageError(
            "which hosts? name the inventory, as in 'judgectl --inventory inventory/mine hosts', or set JUDGE_INVENTORY"
        )
    return sources


def fleet_of(selection: list[str] | None, sources: Sources, timeout: float) -> Fleet:
    """The hosts that a command is about; UsageError or ConfigError when they cannot be told."""
    from judge.ctl.fleet import ssh_target
    from judge.ctl.fleet.machines import Fleet

    selected = ansible.load(sources).select(selection or [])
    return Fleet(ansible.filled(sources, selected, ssh_target.VARIABLES), timeout)


def hosts(
    which: Which = None,
    timeout: Timeout = 10.0,
    inventory: Inventories = None,
    vault_password_file: VaultFiles = None,
    as_json: Json = False,
    output: Output = TABLE,
) -> None:
    """Every machine: reachable, system, uptime, load, free disk, release, boot.

    Exit code 1 when a host does not answer; why is said on standard error.
    """
    from judge.ctl.fleet import hosts as machines

    with fleet_of(which, needed(context.sources(inventory, vault_password_file)), timeout) as fleet:
        replies = fleet.ask(lambda _: machines.SCRIPT)
        rows = [machines.machine(member, replies[member.name]) for member in fleet.members]
    if as_json or not output.for_people:
        show.print_data(output, map(asdict, rows))
    else:
        show.out.print(machines.table(rows))
    for reason in machines.reasons(rows):
        show.err.verbatim(f"judgectl: {reason}", "red")
    raise typer.Exit(EXIT_FAILED if any(not row.reachable for row in rows) else 0)


def units(
    which: Which = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again every 2 s, until Ctrl-C.")] = False,
    timeout: Timeout = 10.0,
    inventory: Inventories = None,
    vault_password_file: VaultFiles = None,
    as_json: Json = False,
    output: Output = TABLE,
) -> None:
    """Every judge unit of every host, those that need a person first, with the status line that it gives systemd.

    Exit code 1 when any unit is missing, failed, stopped or in a circle of restarts, or a host does not answer.
    """
    from judge.ctl.fleet import units as states

    as_data = as_json or not output.for_people
    with fleet_of(which, needed(context.sources(inventory, vault_password_file)), timeout) as fleet:

        def look() -> list[UnitRow]:
            replies = fleet.ask(states.script)
            rows = [row for member in fleet.members for row in states.units(member, replies[member.name])]
            return sorted(rows, key=lambda row: not row.fault)

        if watch and not as_data:
            _watch(lambda: states.table(look()))
            return
        rows = look()
    sentence, well = states.summary(rows)
    if as_data:
        show.print_data(output, map(asdict, rows))
    else:
        show.out.print(states.table(rows))
        show.out.say(sentence, "bold green" if well else "bold red")
    raise typer.Exit(0 if well else EXIT_FAILED)


def _watch(table: Callable[[], show.Grid]) -> None:
    """Show a table anew until Ctrl-C."""
    from rich.live import Live

    try:
        with Live(table(), console=show.out, auto_refresh=False) as live:
            while True:
                clock.sleep(WATCH)
                live.update(table(), refresh=True)
    except KeyboardInterrupt:
        raise typer.Exit from None


def logs(
    which: Which = None,
    unit: Annotated[
        list[str] | None, typer.Option("--unit", "-u", help="executor, etcd, …, or such as nginx.service; repeatable.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", "-S", help="10m, 2h, or a moment such as '2026-05-01 12:00' (UTC).")
    ] = None,
    lines: Annotated[
        int | None,
        typer.Option("--lines", "-n", min=1, help="Only the newest of all hosts; 100 without --since, else all."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    grep: Annotated[
        str | None, typer.Option("--grep", "-g", help="A regular expression; in small letters it matches capitals too.")
    ] = None,
    priority: Annotated[
        str | None, typer.Option("--priority", "-p", help="err: errors and worse; or a range such as err..notice.")
    ] = None,
    timeout: Timeout = 10.0,
    inventory: Inventories = None,
    vault_password_file: VaultFiles = None,
    as_json: Json = False,
    output: Output = TABLE,
) -> None:
    """Print what the judge units logged, of all hosts in order of time (UTC): time, host/unit, message.

    With --follow a host that goes away is said so, and its lines go on where they ended once it is back.
    Exit code 1 when a host's journal could not be read, or not to its end.
    """
    from judge.ctl.fleet import journal
    from judge.ctl.fleet import logs as entries

    query = entries.query(unit or [], since, lines or (None if since else 100), grep, priority)
    live: queue.Queue[journal.Item] | None = queue.Queue(journal.AHEAD) if follow else None
    show_entry = _print_json if as_json or not output.for_people else _print_entry
    notices: list[HostNotice] = []
    fleet = fleet_of(which, needed(context.sources(inventory, vault_password_file)), timeout)
    readers = [journal.Journal(member, fleet.jumps, query, timeout, live) for member in fleet.members]
    try:
        for entry in journal.history(readers, query.lines, notices):
            show_entry(entry)
        _print_notices(notices)
        for item in journal.news(live) if live else ():
            if isinstance(item, journal.HostNotice):
                _print_notices([item])
            else:
                show_entry(item)
    except KeyboardInterrupt:
        raise typer.Exit from None
    raise typer.Exit(EXIT_FAILED if notices else 0)


def _print_entry(entry: JournalEntry) -> None:
    from judge.ctl.fleet.logs import render

    for line in render(entry):
        show.out.print(line, soft_wrap=True)


def _print_json(entry: JournalEntry) -> None:
    sys.stdout.write(json.dumps(entry.as_json()) + "\n")
    sys.stdout.flush()


def _print_notices(notices: list[HostNotice]) -> None:
    for notice in notices:
        style = "red" if notice.fault else "green"
        show.err.verbatim(f"judgectl: {notice.host}: {notice.text}", style)
