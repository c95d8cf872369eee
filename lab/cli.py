"""The lab's commands."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from lab import cluster, network, shell, state
from lab.errors import EXIT_FAILED, LabError
from lab.inventory import environment

EXIT_INTERRUPTED = 130  # as shells report SIGINT

app = typer.Typer(
    name="lab",
    help="Bare Debian hosts on this machine: real systemd, own networks, faults on demand. Needs root.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}

Name = Annotated[str, typer.Option("--name", "-n", envvar="JUDGE_LAB_NAME", help="Which lab.")]
Host = Annotated[str, typer.Argument(help="A host, such as j1.", show_default=False)]
Hosts = Annotated[list[str], typer.Argument(help="One or more hosts.", show_default=False)]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return at once, not when the hosts have booted.")]
DEFAULT = "lab"


def main() -> None:
    """Entry point: errors are one sentence on stderr; the exit code is the command's."""
    code = EXIT_FAILED
    try:
        result = app(standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except LabError as exc:
        say(str(exc))
        code = exc.exit_code
    except OSError as exc:  # a full disk, a directory that cannot be written: the kernel's sentence is the best one
        say(str(exc))
    except typer.Exit as exc:
        code = exc.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = EXIT_INTERRUPTED
    except typer.TyperException as exc:
        say(exc.format_message())
        code = exc.exit_code
    if code == EXIT_INTERRUPTED:  # typer returns it as the command's result, too
        say("interrupted; the next `lab up` completes the lab, `lab down` removes it")
    sys.exit(code)


def say(sentence: str) -> None:
    """One line for the person, not for a pipe."""
    typer.echo(f"lab: {sentence}", err=True)


def existing(name: str) -> cluster.Lab:
    """The lab that a command is about."""
    shell.prepare()
    return cluster.Lab.open(name)


@app.command()
def up(
    name: Name = DEFAULT,
    hosts: Annotated[
        str | None,
        typer.Option(
            help=f"Host names by kind: j judicator, e executor, g gateway, u user-mode Linux. [{state.DEFAULT_HOSTS}]"
        ),
    ] = None,
    release: Annotated[str | None, typer.Option(help=f"Debian release: {', '.join(state.RELEASES)}. [trixie]")] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Directory that the inventory names as judge_bundle, to be sent to hosts by site.yml."),
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Memory of each host, from its next start on. [4G]")] = None,
    inventory: Annotated[Path | None, typer.Option(help="Where hosts.yml is written. [inventory/lab]")] = None,
) -> None:
    """Make a lab, or complete one: all its hosts run, reach each other and have booted."""
    shell.prepare()
    lab = cluster.up(
        name,
        state.parse_hosts(hosts) if hosts is not None else None,
        release,
        bundle=bundle,
        memory=memory,
        inventory_directory=inventory,
        tell=say,
    )
    show(lab)
    which = "" if name == DEFAULT else f"--name {name} "
    first = next(iter(lab.record.hosts))
    say(f"inventory: {lab.record.inventory}; go on with `lab ssh {which}{first}` or `lab run {which}-- COMMAND`")


@app.command()
def down(
    name: Name = DEFAULT,
    every: Annotated[bool, typer.Option("--all", help="Every lab of this machine.")] = False,
) -> None:
    """Remove a lab: its hosts, their disks, its network, its inventory."""
    shell.prepare()
    for item in state.all_names() if every else [name]:
        say(f"lab '{item}' is gone" if cluster.down(item) else f"there is no lab '{item}'")


@app.command(context_settings=PASS_ON)
def ssh(
    host: Host,
    command: Annotated[list[str] | None, typer.Argument(help="Command; none: a shell.", show_default=False)] = None,
    name: Name = DEFAULT,
) -> None:
    """Log in to a host as root, or run a command there."""
    lab = existing(name)
    full = lab.ssh_command(host, *(command or []))
    lab.become(full[len(network.inside(name)) :])


@app.command(context_settings=PASS_ON)
def run(
    command: Annotated[list[str], typer.Argument(help="For example: -- ansible-playbook site.yml", show_default=False)],
    name: Name = DEFAULT,
) -> None:
    """Run a command in the lab's network, with the generated inventory as Ansible's."""
    existing(name).become(command)


@app.command()
def status(
    name: Name = DEFAULT,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    env: Annotated[bool, typer.Option("--env", help="Print the settings that `lab run` adds, for a shell.")] = False,
) -> None:
    """Show the hosts: power, cable, losses, small disks, memory."""
    lab = existing(name)
    if env:
        for key, value in environment(lab.record).items():
            typer.echo(f"{key}='{value}'")
    elif as_json:
        told = dataclasses.asdict(lab.record) | {"hosts": [dataclasses.asdict(item) for item in lab.status()]}
        typer.echo(json.dumps(told, indent=2))
    else:
        show(lab)


@app.command()
def cut(
    host: Host,
    peer: Annotated[
        str | None, typer.Option("--from", help="Only between HOST and this one.", show_default=False)
    ] = None,
    oneway: Annotated[bool, typer.Option(help="Only what HOST sends is lost.")] = False,
    name: Name = DEFAULT,
) -> None:
    """Pull a host's cable, or lose all frames between two hosts."""
    existing(name).cut(host, peer, oneway=oneway)


@app.command()
def heal(
    host: Annotated[str | None, typer.Argument(help="Only what was cut about this one.", show_default=False)] = None,
    name: Name = DEFAULT,
) -> None:
    """Undo every cut."""
    existing(name).heal(host)


@app.command()
def kill(hosts: Hosts, name: Name = DEFAULT) -> None:
    """Power loss: the cable first, then everything dies. Unsynced writes survive: the page cache is the machine's."""
    existing(name).kill(*hosts)


@app.command()
def start(hosts: Hosts, name: Name = DEFAULT, no_wait: NoWait = False) -> None:
    """Power hosts on, cable in, and wait until they have booted."""
    existing(name).start(*hosts, wait=not no_wait)


@app.command()
def stop(hosts: Hosts, name: Name = DEFAULT) -> None:
    """Shut hosts down in good order."""
    existing(name).stop(*hosts)


@app.command()
def freeze(hosts: Hosts, name: Name = DEFAULT) -> None:
    """Hang hosts: they answer nothing, their connections stay open."""
    existing(name).freeze(*hosts)


@app.command()
def thaw(
    hosts: Annotated[list[str] | None, typer.Argument(help="None: all.", show_default=False)] = None,
    name: Name = DEFAULT,
) -> None:
    """Let frozen hosts go on."""
    existing(name).thaw(*(hosts or []))


@app.command()
def fill(
    host: Host,
    directory: Annotated[str, typer.Argument(metavar="DIR", help="For example /var/lib/judge.", show_default=False)],
    size: Annotated[str, typer.Argument(help="For example 64M; 0 takes the small disk away.", show_default=False)],
    full: Annotated[bool, typer.Option(help="Also fill it up, with the file DIR/lab-fill.")] = False,
    name: Name = DEFAULT,
) -> None:
    """Put a directory on a small disk of its own, with what it holds. Restarts the host."""
    existing(name).fill(host, directory, size, full=full)


@app.command(context_settings={"ignore_unknown_options": True})
def skew(
    host: Host,
    unit: Annotated[str, typer.Argument(help="A systemd unit on that host.", show_default=False)],
    seconds: Annotated[int, typer.Argument(help="Ahead (or, negative, behind); 0 puts it right.", show_default=False)],
    name: Name = DEFAULT,
) -> None:
    """Make one unit's wall clock wrong; it is restarted if it runs. Go programs (etcd) keep true time."""
    existing(name).skew(host, unit, seconds)


@app.command()
def wipe(hosts: Hosts, name: Name = DEFAULT, no_wait: NoWait = False) -> None:
    """Back to the bare OS, as after a new installation, and running."""
    existing(name).wipe(*hosts, wait=not no_wait)


def show(lab: cluster.Lab) -> None:
    """The table of `lab status`."""
    record = lab.record
    table = Table(title=f"lab {record.name}: {record.release}, {record.network}.0/24", title_justify="left", box=None)
    for heading in ("host", "address", "state", "cable", "lost frames", "small disks", "memory", "processes"):
        table.add_column(heading, justify="right" if heading in {"memory", "processes"} else "left")
    for item in lab.status():
        table.add_row(
            item.name,
            item.address,
            item.state,
            item.cable,
            ", ".join(item.lost),
            ", ".join(item.disks),
            f"{item.memory >> 20} MiB",
            str(item.processes),
        )
    Console().print(table)
