"""`judge up`: a whole cluster on this machine, under boot, in one directory, until Ctrl-C (docs/boot.md, judge up)."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from judge.boot import main
from judge.boot.backend import Unit
from judge.boot.backend_process import daemon_command
from judge.boot.embedded import cluster as embedded
from judge.boot.embedded import settings
from judge.boot.plan import Phase
from judge.boot.status import BootStatus
from judge.common import clock, files, terminal
from judge.common.errors import EXIT_FAILED, RefusedError, UsageError
from judge.daemon import log as logs

_STYLES = {
    Phase.RUNNING: "green",
    Phase.STARTING: "cyan",
    Phase.STOPPING: "cyan",
    Phase.BACKOFF: "yellow",
    Phase.HELD: "magenta",
    Phase.FATAL: "bold red",
    Phase.STOPPED: "dim",
}


@dataclass(frozen=True)
class UpOptions:
    directory: Path = Path(".judge")
    port: int | None = None
    listen: str | None = None
    slots: int | None = None
    cores: list[int] = field(default_factory=list)
    allow_weak_sandbox: bool = False
    quiet: bool = False
    wait_file: Path | None = None
    metrics: int | None = None
    callback_networks: list[str] = field(default_factory=list)


class StatusScreen:
    """The screen of `judge up`: a status line on a terminal, plain lines elsewhere. boot calls it at each change."""

    def __init__(self, options: UpOptions, address: str, ready: Callable[[], None], console: Console) -> None:
        """`address` is the web page's; `ready` is called once, when every service serves for the first time."""
        self._options = options
        self._address = address
        self._on_ready = ready
        self._console = console
        self._begin = clock.monotonic()
        self._states: dict[str, Phase] = {}
        self._live: Live | None = None
        self.ready = False
        self.failure = ""
        if console.is_terminal and not options.quiet:
            self._live = Live(console=console, auto_refresh=False, transient=True)
            self._live.start()

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, text: str, style: str = "") -> None:
        """One line above the status line."""
        self._console.print(Text(text, style=style), soft_wrap=True)

    def update(self, status: BootStatus) -> bool:
        """Show a change; False tells boot to stop, because a service cannot run at the very first start."""
        for service in status.services:
            if self._states.get(service.name) is not service.state:
                self._states[service.name] = service.state
                self._changed(service.name, service.state, service.reason)
        if status.state == "running" and not self.ready and set(self._states.values()) == {Phase.RUNNING}:
            self.ready = True
            self.say(f"ready {self._address} (after {clock.monotonic() - self._begin:.1f} s)", "bold green")
            self._on_ready()  # after the line: who waits for the file may read what was printed
        if self._live is not None:
            self._live.update(self._line(status), refresh=True)
        return not self.failure

    def _changed(self, name: str, state: Phase, reason: str) -> None:
        if state in {Phase.FATAL, Phase.BACKOFF, Phase.HELD}:
            self.say(f"{name}: {state}: {reason}", _STYLES[state])
        elif self._live is None and not self._options.quiet and (self.ready or state is not Phase.STOPPED):
            self.say(f"{name}: {state}")
        if state is Phase.FATAL and not self.ready and not self.failure:
            self.failure = f"{name} cannot run: {reason}"

    def _line(self, status: BootStatus) -> Text:
        line = Text()
        for service in status.services:
            # Short enough for 80 columns once all is well: only what does not run says what it does instead.
            word = "" if service.state is Phase.RUNNING else f" {service.state}".lower()
            line.append("● ", _STYLES[service.state]).append(f"{service.name}{word} ")
        if status.state != "running":
            return line.append("Ctrl-C again kills", "dim")
        if self.ready:
            line.append(f"{self._address} ", "underline")
        return line.append("Ctrl-C stops", "dim")


def check_sandbox(*, allow_weak: bool) -> None:
    """RefusedError when submissions could not be shut in fully and nobody has agreed to less."""
    from judge.sandbox import available  # noqa: PLC0415 - looks at the machine when it is loaded

    reason = available()
    if reason is not None and not allow_weak:
        advice = "run it with sudo" if os.geteuid() != 0 else "mend that"
        msg = (
            f"no full sandbox is possible: {reason}; {advice}, or use --allow-weak-sandbox, which every result will say"
        )
        raise RefusedError(msg)


def check_cores(options: UpOptions) -> None:
    """UsageError for cores that are not there, or that do not fit the number of slots."""
    allowed = os.sched_getaffinity(0)
    forbidden = sorted(set(options.cores) - allowed)
    if forbidden:
        raise UsageError(f"--core {forbidden[0]}: this machine has cores {', '.join(map(str, sorted(allowed)))}")
    if options.cores and options.slots is not None and len(options.cores) != options.slots:
        raise UsageError(
            f"--slots {options.slots} with {len(options.cores)} cores: give --core once per slot, or leave --slots out"
        )


def run(options: UpOptions) -> int:
    """Run the cluster until it is stopped; returns the exit code. Called by `judge up`.

    UsageError (exit 2) for flags, ports and directories that cannot be used, RefusedError (exit 3) for a directory
    that is in use or another version's, and for a machine without a full sandbox.
    """
    check_cores(options)
    check_sandbox(allow_weak=options.allow_weak_sandbox)
    os.umask(0o077)  # the logs, data and configs of all daemons are the owner's alone
    directory = embedded.ClusterDirectory(options.directory)
    try:
        return _run(options, directory)
    finally:
        directory.close()
        _remove(options.wait_file)


def _run(options: UpOptions, directory: embedded.ClusterDirectory) -> int:
    cluster = directory.open_cluster(options.port, embedded.metrics_ports(options.metrics))
    loopback = f"{embedded.HOST}:{cluster.ports.gateway}"
    choices = settings.load(directory.settings_file, options.listen, loopback)
    directory.check_ports(cluster, choices.public)
    _remove(options.wait_file)
    token = directory.secrets()
    services = embedded.configs(
        directory,
        cluster,
        slots=options.slots,
        cores=options.cores,
        weak=options.allow_weak_sandbox,
        callback_networks=options.callback_networks,
        choices=choices,
    )
    own_metrics = None
    if options.metrics is not None:
        services, own_metrics = embedded.with_metrics(directory, services, options.metrics)
    address = choices.address(loopback)
    config = embedded.boot_config(directory, cluster, services, own_metrics, address)

    def ready() -> None:
        if not cluster.initialised:
            directory.save(cluster.model_copy(update={"initialised": True}))
        if options.wait_file is not None:
            files.replace(options.wait_file, address + "\n", 0o644, durable=False)

    # To a file, so that the terminal shows the status line only.
    logs.setup("info", to=(directory.log_dir / "boot.log").open("a", encoding="utf-8"))
    terminal.forgive()  # a reader that has gone, or a full disk, must not end boot and leave its services
    console = Console(file=sys.stdout, highlight=False)
    screen = StatusScreen(options, address, ready, console)
    try:
        if not options.quiet:
            screen.say(f"cluster {cluster.name} in {directory.path}")
            if token is not None:
                # A pipe or a file is somebody's log: who reads that need not be who may use the token.
                text = f"{token} (kept in {directory.token_file})" if console.is_terminal else directory.token_file
                screen.say(f"admin token: {text}", "bold")
        if choices.listen and choices.certificate is None:
            warning = f"warning: passwords and tokens travel in clear to {', '.join(choices.listen)}"
            screen.say(f"{warning}; set certificate and certificate_key in {directory.settings_file}", "bold yellow")
        keep_off(options.cores)
        main.run(config, observer=screen.update, command=pinned(options.cores), lock=directory.lock)
    finally:
        screen.close()
    if screen.failure:
        console.print(Text(f"stopped: {screen.failure}; logs are in {directory.log_dir}", "bold red"), soft_wrap=True)
        return EXIT_FAILED
    if not options.quiet:
        console.print("stopped, all data is kept")
    return 0


def keep_off(cores: Sequence[int]) -> None:
    """Keep boot, and with it every service, off the cores that judge, when there are others."""
    remaining = os.sched_getaffinity(0) - set(cores)
    if cores and remaining:
        os.sched_setaffinity(0, remaining)


def pinned(cores: Sequence[int]) -> Callable[[Unit], Sequence[str]]:
    """The command of each service; with `cores` the executor gets back those that boot keeps off."""
    if not cores:
        return daemon_command
    everywhere = ",".join(map(str, sorted(os.sched_getaffinity(0) | set(cores))))

    def command(unit: Unit) -> list[str]:
        plain = daemon_command(unit)
        return ["taskset", "-c", everywhere, *plain] if unit.spec.kind == "executor" else plain

    return command


def _remove(path: Path | None) -> None:
    if path is not None:
        with contextlib.suppress(OSError):
            path.unlink()
