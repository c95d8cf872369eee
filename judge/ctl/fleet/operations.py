"""judgectl drift, versions and support: whether hosts are what they should be, and what somebody needs to help."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from judge.common import clock
from judge.common.errors import EXIT_FAILED, JudgeError
from judge.common.text import one_line
from judge.ctl import context, show
from judge.ctl.fleet.commands import TABLE, Json, Timeout, Which, fleet_of, needed
from judge.ctl.options import Inventories, Output, VaultFiles


def add_to(app: typer.Typer) -> None:
    """Make these commands known to judgectl."""
    for command in (drift, versions, support):
        app.command(rich_help_panel="The machines, over SSH (take --inventory)")(command)


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

    sources = needed(context.sources(inventory, vault_password_file))
    with fleet_of(which, sources, timeout) as fleet:
        names = [member.name for member in fleet.members] if which else []
        replies = fleet.ask(lambda _: looks.SCRIPT, root=True)
        differences = [
            difference for member in fleet.members for difference in looks.of_kernel(member, replies[member.name])
        ]
    differences = looks.together(looks.of_playbook(sources, names), differences)
    if as_json or not output.for_people:
        show.print_data(output, map(asdict, differences))
    elif differences:
        show.out.print(looks.table(differences))
        show.out.say(
            f"{len(differences)} things differ from the inventory; site.yml makes them as it says", "bold yellow"
        )
    else:
        show.out.say("every host is as the inventory says", "bold green")
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

    with fleet_of(which, needed(context.sources(inventory, vault_password_file)), timeout) as fleet:
        replies = fleet.ask(lambda _: looks.SCRIPT, root=True)
        rows = [row for member in fleet.members for row in looks.rows(member, replies[member.name])]
    if as_json or not output.for_people:
        show.print_data(output, map(asdict, rows))
    else:
        show.out.print(looks.table(rows))
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

    sources = needed(context.sources(inventory, vault_password_file))
    texts: dict[str, str] = {}
    silent: dict[str, str] = {}
    with fleet_of(which, sources, timeout) as fleet:
        replies = fleet.ask(lambda _: looks.SCRIPT, root=True)
        for name, reply in fleet.ask(lambda _: cases.script(), root=True).items():
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
    cases.write(path, cases.SupportContent(cases.clean(texts, directory), cases.clean(silent, directory)))
    for name, why in silent.items():
        show.err.verbatim(f"judgectl: {name}: {why}", "red")
    show.out.say(f"{path}: {len(texts)} files of {len(replies) - len(silent)} hosts, without secrets", "bold green")
    raise typer.Exit(EXIT_FAILED if silent else 0)
