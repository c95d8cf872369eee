"""judgectl's commands that look at the machines themselves, over SSH: hosts, units, logs, drift, versions, support."""

from __future__ import annotations

import json
import queue
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge.common import clock
from judge.common.errors import EXIT_FAILED, JudgeError, UsageError
from judge.common.text import one_line
from judge.ctl import context, sheets, show
from judge.ctl.fleet import ansible
from judge.ctl.options import TABLE, Inventories, Output, VaultFiles

if TYPE_CHECKING:
    from judge.ctl.fleet.ansible import Sources
    from judge.ctl.fleet.journal import HostNotice
    from judge.ctl.fleet.logs import JournalEntry
    from judge.ctl.fleet.machines import Fleet
    from judge.ctl.fleet.units import UnitRow

WATCH = 2.0  # seconds between the pictures of --watch

Which = Annotated[
    list[str] | None,
    typer.Argument(metavar="HOST|GROUP", help="Hosts, groups, or patterns such as 'e*'; default: the cluster."),
]
Timeout = Annotated[float, typer.Option(min=0.1, max=600, help="Seconds that each host has to answer.")]
Json = Annotated[bool, typer.Option("--json", help="The same as --output json.")]


def add_to(app: typer.Typer) -> None:
    for command in (hosts, units, logs, drift, versions, support):
        app.command(rich_help_panel="The machines, over SSH (take --inventory)")(command)


def sources_of(inventory: list[str] | None, vault_files: list[Path] | None) -> Sources:
    """The inventory that a command cannot do without; UsageError."""
    sources = context.sources(inventory, vault_files)
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


def _format(output: show.OutputFormat, *, as_json: bool) -> show.OutputFormat:
    return show.OutputFormat.JSON if as_json and output.for_people else output


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

    with fleet_of(which, sources_of(inventory, vault_password_file), timeout) as fleet:
        replies = fleet.ask(lambda _: machines.SCRIPT)
        rows = [machines.machine(member, replies[member.name]) for member in fleet.members]
    show.tell(_format(output, as_json=as_json), map(asdict, rows), machines.table(rows))
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

    output = _format(output, as_json=as_json)
    with fleet_of(which, sources_of(inventory, vault_password_file), timeout) as fleet:

        def look() -> list[UnitRow]:
            replies = fleet.ask(states.script)
            rows = [row for member in fleet.members for row in states.units(member, replies[member.name])]
            return sorted(rows, key=lambda row: not row.fault)

        if watch and output.for_people:
            _watch(lambda: states.table(look()))
            return
        rows = look()
    sentence, well = states.summary(rows)
    show.tell(output, map(asdict, rows), states.table(rows))
    if output.for_people:
        show.out.say(sentence, "bold green" if well else "bold red")
    raise typer.Exit(0 if well else EXIT_FAILED)


def _watch(table: Callable[[], show.Grid]) -> None:
    from rich.live import Live

    try:
        with Live(table(), console=show.out, auto_refresh=False) as live:
            while True:
                clock.sleep(WATCH)
                live.update(table(), refresh=True)
    except KeyboardInterrupt as exc:
        raise typer.Exit from exc


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
    show_entry = _printer(_format(output, as_json=as_json))
    notices: list[HostNotice] = []
    fleet = fleet_of(which, sources_of(inventory, vault_password_file), timeout)
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
    except KeyboardInterrupt as exc:
        raise typer.Exit from exc
    raise typer.Exit(EXIT_FAILED if notices else 0)


def _printer(output: show.OutputFormat) -> Callable[[JournalEntry], None]:
    """What prints an entry at once: for people, as one line of JSON, or as a row after the header of CSV."""
    if output is not show.OutputFormat.CSV:
        return _print_entry if output.for_people else _print_json
    write_row = sheets.writer(("time", "host", "unit", "priority", "message"), sys.stdout)

    def print_row(entry: JournalEntry) -> None:
        write_row(entry.as_json())
        sys.stdout.flush()

    return print_row


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


def drift(
    which: Which = None,
    timeout: Timeout = 30.0,
    inventory: Inventories = None,
    vault_password_file: VaultFiles = None,
    as_json: Json = False,
    output: Output = TABLE,
) -> None:
    """Show what differs from the inventory: files and services that site.yml would change, and the kernel's values.

    Changes nothing. Exit code 1 when anything differs, 2 or 3 when a host could not be looked at.
    """
    from judge.ctl.fleet import drift as looks

    sources = sources_of(inventory, vault_password_file)
    with fleet_of(which, sources, timeout) as fleet:
        names = [member.name for member in fleet.members] if which else []
        replies = fleet.ask(lambda _: looks.SCRIPT, root=True)
        kernel = [row for member in fleet.members for row in looks.of_kernel(member, replies[member.name])]
    differences = looks.together(looks.of_playbook(sources, names), kernel)

    def print_all() -> None:
        if differences:
            show.out.print(looks.table(differences))
            count = f"{len(differences)} things differ from the inventory"
            show.out.say(f"{count}; site.yml makes them as it says", "bold yellow")
        else:
            show.out.say("every host is as the inventory says", "bold green")

    show.tell(_format(output, as_json=as_json), map(asdict, differences), print_all)
    raise typer.Exit(EXIT_FAILED if differences else 0)


def versions(
    which: Which = None,
    timeout: Timeout = 20.0,
    inventory: Inventories = None,
    vault_password_file: VaultFiles = None,
    as_json: Json = False,
    output: Output = TABLE,
) -> None:
    """Show what runs where: release, etcd, mongod, gcc, Python, kernel; and what is installed but not running yet.

    Exit code 1 when something older than what is installed runs, or a host does not answer.
    """
    from judge.ctl.fleet import versions as looks

    with fleet_of(which, sources_of(inventory, vault_password_file), timeout) as fleet:
        replies = fleet.ask(lambda _: looks.SCRIPT, root=True)
        rows = [row for member in fleet.members for row in looks.rows(member, replies[member.name])]
    show.tell(_format(output, as_json=as_json), map(asdict, rows), looks.table(rows))
    sentences = looks.sentences(rows)
    for sentence in sentences:
        show.err.verbatim(f"judgectl: {sentence}", "yellow")
    raise typer.Exit(EXIT_FAILED if sentences else 0)


def support(
    which: Which = None,
    to: Annotated[Path | None, typer.Option("--to", help="The archive; else judge-support-TIME.tar.gz here.")] = None,
    timeout: Timeout = 120.0,
    inventory: Inventories = None,
    vault_password_file: VaultFiles = None,
) -> None:
    """One archive for a support case: journals, units, configs, versions of every host, without secrets.

    Look it through before you give it away: programs that people handed in may be in journals.
    """
    from judge.ctl.fleet import support as cases
    from judge.ctl.fleet import versions as looks

    sources = sources_of(inventory, vault_password_file)
    texts: dict[str, str] = {}
    silent: dict[str, str] = {}
    with fleet_of(which, sources, timeout) as fleet:
        replies = fleet.ask(lambda _: looks.SCRIPT, root=True)
        for name, reply in fleet.ask(lambda _: cases.script(), root=True, most=cases.ANSWER_BYTES).items():
            try:
                if isinstance(reply, JudgeError):
                    raise reply
                texts |= cases.of_host(name, reply.out)
            except JudgeError as exc:
                silent[name] = one_line(str(exc))
        for name, reply in replies.items():
            texts[f"{name}/versions.txt"] = str(reply) if isinstance(reply, JudgeError) else reply.out
        directory = context.secrets_directory(sources, [member.host for member in fleet.members])
    path = to or Path(f"judge-support-{clock.wall():%Y%m%dT%H%M%SZ}.tar.gz")
    cases.write(path, cases.clean(texts, directory), cases.clean(silent, directory))
    for name, why in silent.items():
        show.err.verbatim(f"judgectl: {name}: {why}", "red")
    show.out.say(f"{path}: {len(texts)} files of {len(replies) - len(silent)} hosts, without secrets", "bold green")
    raise typer.Exit(EXIT_FAILED if silent else 0)
