"""The `judge` command: starts daemons, runs the embedded cluster, checks configs. People's verbs are in `judgectl`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import judge
from judge.common import terminal
from judge.common.errors import EXIT_FAILED, JudgeError, UsageError
from judge.common.kinds import KINDS

app = typer.Typer(
    name="judge",
    help="Daemons of a judge cluster, the embedded cluster (judge up), and config checks. See judgectl for the rest.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(help="Check configs, and print them with every default filled in.", no_args_is_help=True)
app.add_typer(config_app, name="config")
executor_app = typer.Typer(help="Judge tasks on this host's cores; `check` only looks whether it could.")
app.add_typer(executor_app, name="executor")

log = logging.getLogger("judge")

ConfigOption = Annotated[Path, typer.Option("--config", "-c", help="The daemon's YAML config.", show_default=False)]
KindOption = Annotated[
    str | None, typer.Option("--kind", "-k", help="Kind of config; else told from the file's name, as in etcd.yml.")
]


def main() -> None:
    """Entry point of `judge`: one sentence for every error that a person can cause, and its exit code."""
    sys.exit(terminal.guard("judge", lambda: guarded(app), say))


def guarded(command: Callable[..., Any]) -> int:
    """Run a typer app; returns the exit code. JudgeError becomes its sentence, anything else one that says so."""
    code = EXIT_FAILED
    try:
        result = command(standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except terminal.OutputError:
        raise
    except JudgeError as exc:
        log.debug("the command fails", exc_info=True)
        say(str(exc))
        code = exc.exit_code
    except typer.Exit as exc:
        code = exc.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = terminal.EXIT_INTERRUPTED
    except typer.TyperException as exc:
        say(exc.format_message())
        code = exc.exit_code
    except Exception as exc:
        # The last place to catch: a traceback is for the log, not for people.
        log.debug("unexpected error", exc_info=True)
        say(f"unexpected error: {type(exc).__name__}: {exc}; log_level debug shows where")
    return code


def say(sentence: str) -> None:
    """One line on stderr; under systemd with the priority that journald files it under."""
    prefix = "<3>" if "JOURNAL_STREAM" in os.environ else ""
    typer.echo(f"{prefix}judge: {sentence}", err=True)


@app.command()
def boot(
    config: ConfigOption = Path("/etc/judge/boot.yml"),
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="SERVICE.KEY=VALUE", help="Override one setting of a service's config, or boot's."
        ),
    ] = None,
) -> int:
    """Keep this host's services running: start in order, restart what fails, stop in reverse."""
    from judge.boot import main  # noqa: PLC0415
    from judge.config import BootConfig  # noqa: PLC0415
    from judge.config.rendering import parse_overrides  # noqa: PLC0415
    from judge.daemon import main as daemon  # noqa: PLC0415 - a command loads only what it needs

    items = settings or []
    boot_overrides = parse_overrides([item for item in items if item.startswith("boot.")], ["boot"]).get("boot", ())
    loaded = daemon.begin(BootConfig, config, boot_overrides)
    overrides = parse_overrides(items, ["boot", *(service.name for service in loaded.services)])
    return daemon.ended(lambda: main.run(loaded, overrides=overrides))


def _add(kind: str) -> None:
    def start(config: ConfigOption = Path(f"/etc/judge/{kind}.yml")) -> int:
        return _start(kind, config)

    app.command(kind, help=KINDS[kind].help)(start)


def _start(kind: str, config: Path) -> int:
    from judge.daemon import main as daemon  # noqa: PLC0415

    return daemon.start(kind, config)


for _kind in KINDS:
    if _kind != "executor":  # it has a command of its own below
        _add(_kind)


@executor_app.callback(invoke_without_command=True)
def executor(context: typer.Context, config: ConfigOption = Path("/etc/judge/executor.yml")) -> int:
    """Judge tasks on this host's cores."""
    context.obj = config
    return 0 if context.invoked_subcommand else _start("executor", config)


@executor_app.command("check")
def executor_check(context: typer.Context) -> int:
    """Check this machine for judging: one line of PASS, WARN or FAIL per item; exit code 1 if any is FAIL."""
    from judge.config import ExecutorConfig, load  # noqa: PLC0415
    from judge.executor.main import examine  # noqa: PLC0415

    config = load(ExecutorConfig, context.obj)
    findings = examine(config, f"{config.name}-check{os.getpid()}").findings
    for finding in findings:
        typer.echo(f"{finding.level}  {finding.item:20}  {finding.text}")
    return EXIT_FAILED if any(finding.level == "FAIL" for finding in findings) else 0


@app.command()
def up(
    directory: Annotated[Path, typer.Option("--dir", help="Where the cluster and its data live.")] = Path(".judge"),
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Port of the web page; remembered; 0 takes a free one.", show_default="8080"
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS[:PORT]",
            help="Open the pages and the API to other machines; 0.0.0.0: on all networks. Default: settings.yml.",
            show_default=False,
        ),
    ] = None,
    slots: Annotated[int | None, typer.Option(min=1, help="Judge so many tasks at once; default: by cores.")] = None,
    core: Annotated[list[int] | None, typer.Option(min=0, help="Pin a slot to this core; repeat per slot.")] = None,
    allow_weak_sandbox: Annotated[
        bool, typer.Option("--allow-weak-sandbox", help="Judge without cgroups; every result says so.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say only what goes wrong, and when it is ready.")
    ] = False,
    wait_file: Annotated[
        Path | None, typer.Option(help="Write the address here once the cluster is ready.", show_default=False)
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option(min=1024, max=65000, help="Serve metrics from this port on, and write etc/prometheus.yml."),
    ] = None,
    callback_network: Annotated[
        list[str] | None,
        typer.Option(help="Users' callbacks may call this private network, such as 127.0.0.0/8; repeat for more."),
    ] = None,
) -> int:
    """Run a whole cluster on this machine until Ctrl-C; starting it again finds all data."""
    from judge.boot.embedded.up import UpOptions, run  # noqa: PLC0415

    return run(
        UpOptions(
            directory=directory,
            port=port,
            listen=listen,
            slots=slots,
            cores=core or [],
            allow_weak_sandbox=allow_weak_sandbox,
            quiet=quiet,
            wait_file=wait_file,
            metrics=metrics,
            callback_networks=callback_network or [],
        )
    )


@config_app.command("check")
def config_check(
    files: Annotated[
        list[Path], typer.Argument(help="Configs to check; together they are checked against each other.")
    ],
    kind: KindOption = None,
) -> None:
    """Check configs; the first fault is printed as FILE:LINE: sentence, with exit code 2."""
    from judge.config.rendering import check_files  # noqa: PLC0415

    for path, file_kind in check_files(files, kind):
        typer.echo(f"{path}: good ({file_kind})")


@config_app.command("print")
def config_print(
    file: Annotated[Path, typer.Argument(help="The config to print.")],
    kind: KindOption = None,
    origin: Annotated[
        bool, typer.Option("--origin", help="One line for each setting, with the file and line that set it.")
    ] = False,
) -> None:
    """Print a config as the daemon sees it: checked, with every default filled in."""
    from judge.config import MODELS, dump, load, print_origins  # noqa: PLC0415
    from judge.config.rendering import kind_of  # noqa: PLC0415

    if file.suffix == ".j2":
        raise UsageError(f"{file} is a template; print the boot.yml that names it, or the file in boot's run directory")
    model = MODELS[kind_of(file, kind)]
    typer.echo(print_origins(model, file) if origin else dump(load(model, file)), nl=False)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"judge {judge.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before the command."""


if __name__ == "__main__":
    main()
