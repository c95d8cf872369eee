"""judgectl: the command line for people. Every command takes --output json; errors are one sentence on stderr."""

from __future__ import annotations

import datetime
import getpass
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from pydantic import ValidationError

from judge import __version__
from judge.boot import holds
from judge.common import terminal
from judge.common.errors import EXIT_FAILED, EXIT_STANDSTILL, JudgeError, UsageError
from judge.common.text import several
from judge.ctl import completing, show, sources, submit, text, trail
from judge.ctl import context as contexts
from judge.ctl.api import Api, connect
from judge.ctl.fleet import commands as fleet_commands
from judge.ctl.options import TABLE, Before, GlobalOptions, LaterCommands, Limit, Output, VaultFiles, check_choice
from judge.model import messages as m
from judge.model.base import first_fault
from judge.model.overview import ExecutorsReply, ExecutorState, StatusReply, Whoami


class Commands(LaterCommands):
    """The commands of judgectl; those of this module are known from the start, as are the fleet's."""

    later: ClassVar = {
        "rejudge": "judge.ctl.rejudge:app",
        "problem": "judge.ctl.problem.commands:app",
        "examples": "judge.ctl.examples:examples",
        "delete": "judge.ctl.deleting:app",
        "purge": "judge.ctl.deleting:purge",
        "webhook": "judge.ctl.webhook:app",
        "user": "judge.ctl.people:users",
        "sources": "judge.ctl.exporting:app",
        "results": "judge.ctl.results:results",
        "token": "judge.ctl.people:tokens",
        "passwd": "judge.ctl.people:own_passwd",
        "audit": "judge.ctl.trail:audit",
    }


app = typer.Typer(
    cls=Commands,
    help="Talk to a Judge cluster: hand in programs, follow verdicts, look after the cluster.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Reason = Annotated[str, typer.Option("--reason", help="Why; others see it in the status.")]
Ids = Annotated[
    list[str],
    typer.Argument(
        metavar="ID...", help="Submission ids; the last 7 characters are enough.", autocompletion=completing.submissions
    ),
]


def _version(value: bool) -> None:
    if value:
        typer.echo(f"judgectl {__version__}")
        raise typer.Exit


@app.callback()
def _globals(
    context: Annotated[
        Path | None, typer.Option(help="A client.yml; default: $JUDGE_CONTEXT, ./.judge, ~/.config/judge, /etc/judge.")
    ] = None,
    inventory: Annotated[
        list[str] | None,
        typer.Option(
            "--inventory",
            "-i",
            metavar="PATH",
            help="An Ansible inventory with gateway, CA, token and hosts; repeatable; default: $JUDGE_INVENTORY.",
        ),
    ] = None,
    vault_password_file: VaultFiles = None,
    server: Annotated[str | None, typer.Option(help="The gateway's URL, instead of the one in client.yml.")] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Find the cluster once for all commands."""
    GlobalOptions.context, GlobalOptions.server = context, server
    GlobalOptions.inventory, GlobalOptions.vault_files = inventory, vault_password_file


def _print_tasks(tasks: Sequence[m.Task], *, full: bool = False, source: bool = False) -> None:
    for task in tasks:
        show.print_task(task, full=full, source=source)


# Long, since the options of a command are its arguments.
@app.command("submit", epilog=submit.exit_codes())
def submit_command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="A program's files, directory or ZIP archive; - is standard input."),
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option("--problem", "-p", help="Judge against this problem's tests.", autocompletion=completing.problems),
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", "-l", help="Guessed from the suffix when not given.")
    ] = None,
    entry: Annotated[
        str | None, typer.Option(help="Of several files: the one to start, or the class with main.")
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="Every file is a program of its own.")] = False,
    stdin: Annotated[Path | None, typer.Option(help="A file to run on, when there is no problem.")] = None,
    command: Annotated[str | None, typer.Option(help="Run this shell command instead of a source file.")] = None,
    compile_command: Annotated[
        str | None, typer.Option("--compile", help="A shell command to run before --command.")
    ] = None,
    cpu: Annotated[float | None, typer.Option(help="CPU limit in seconds, without a problem.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory limit such as 256M, without a problem.")] = None,
    priority: Annotated[str, typer.Option(help="high, normal or low.")] = "normal",
    mode: Annotated[str, typer.Option(help="lazy: stop where the verdict is decided; full: every test.")] = "lazy",
    idempotency_key: Annotated[
        str | None, typer.Option(help="Repeating the same key gives the same submission.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow it until it is judged.")] = True,
    full: Annotated[bool, typer.Option("--full", help="Show every test.")] = False,
    output: Output = TABLE,
) -> None:
    """Hand in a program, of one file or several, and follow it to its verdict.

    A file in a problem package's submissions/ is judged against that problem, which is imported if it is not there yet.
    """
    if bool(files) == bool(command):
        raise UsageError("give source files, or --command; expected exactly one of them")
    check_choice("--priority", priority, "high", "normal", "low")
    check_choice("--mode", mode, "lazy", "full")
    common: dict[str, Any] = {
        "problem": problem,
        "mode": mode,
        "priority": priority,
        "limits": m.LimitsOverride(cpu=cpu, memory=None if memory is None else text.size(memory, "--memory")),
    }
    paths = files or []
    programs: list[dict[str, Any]] = [{"command": command, "compile": compile_command}]
    if not command:
        read = sources.read_programs(paths, language=language, entry=entry, each=each, problem=problem)
        paths, programs = [path for path, _ in read], [program for _, program in read]
    submissions = [
        m.Submission(
            **program,
            **common,
            idempotency_key=f"{idempotency_key}-{index}" if idempotency_key and index else idempotency_key,
        )
        for index, program in enumerate(programs)
    ]
    with connect() as api:
        if stdin is not None:
            input_fields = submit.input_of(api, stdin)
            submissions = [submission.model_copy(update=input_fields) for submission in submissions]
        if any(submit.package_of(path) for path in paths):
            from judge.ctl.examples import with_problems  # noqa: PLC0415 - reading packages takes half of a start

            submissions = with_problems(api, submissions, paths)
        tasks = [api.submit(submission.keyed()) for submission in submissions]
        if wait:
            tasks = submit.follow_handed(api, tasks, quiet=not output.for_people)
    code = max(submit.exit_code(task) for task in tasks) if wait else 0
    terminal.settle(code)
    show.tell(output, tasks[0] if len(tasks) == 1 else tasks, lambda: _print_tasks(tasks, full=full))
    raise typer.Exit(code)


@app.command()
def get(
    ids: Ids,
    full: Annotated[bool, typer.Option("--full", help="Every test, the compile log, all attempts.")] = False,
    source: Annotated[bool, typer.Option("--source", help="The source too.")] = False,
    output: Output = TABLE,
) -> None:
    """Show submissions."""
    with connect() as api:
        tasks = [api.get(api.whole_id(task)) for task in ids]
    show.tell(output, tasks[0] if len(tasks) == 1 else tasks, lambda: _print_tasks(tasks, full=full, source=source))


@app.command("source")
def source_command(
    task: Annotated[str, typer.Argument(metavar="ID", autocompletion=completing.submissions)],
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="One of its files.")] = None,
    to: Annotated[Path | None, typer.Option(help="Write into this directory, or this ZIP archive.")] = None,
    output: Output = TABLE,
) -> None:
    """Write what was handed in, byte by byte: one file on standard output, all into a directory or an archive."""
    with connect() as api:
        files = sources.select_files(api.get(api.whole_id(task)).submission, file)
    if to is not None:
        count = sources.save(files, to)
        show.tell(output, {"files": list(files), "to": str(to)}, f"{several(count, 'file')} written to {to}")
        return
    listing = [m.SourceFile.of(name, data).model_dump(mode="json", exclude_none=True) for name, data in files.items()]
    only_file = next(iter(files.values())) if len(files) == 1 else None
    show.tell(output, listing, lambda: show.print_source(files) if only_file is None else show.print_bytes(only_file))


@app.command()
def search(
    user: Annotated[str | None, typer.Option(help="Handed in by this user.")] = None,
    problem: Annotated[str | None, typer.Option("--problem", "-p", autocompletion=completing.problems)] = None,
    language: Annotated[str | None, typer.Option("--language", "-l")] = None,
    status: Annotated[m.Status | None, typer.Option()] = None,
    verdict: Annotated[m.Verdict | None, typer.Option()] = None,
    executor: Annotated[str | None, typer.Option(help="Judged by, or on, this executor.")] = None,
    done: Annotated[bool | None, typer.Option("--done/--open", help="Only finished, or only unfinished ones.")] = None,
    limit: Limit = 50,
    before: Before = None,
    output: Output = TABLE,
) -> None:
    """List submissions, newest first."""
    with connect() as api:
        reply = api.search(
            user=user,
            problem=problem,
            language=language,
            status=status,
            verdict=verdict,
            executor=executor,
            done=done,
            limit=limit,
            before=None if before is None else api.whole_id(before),
        )
    show.tell(output, reply, show.tasks_table(reply.tasks), next_page=reply.next)


@app.command()
def cancel(ids: Ids, output: Output = TABLE) -> None:
    """Cancel submissions, queued or running."""
    with connect() as api:
        tasks = [api.cancel(api.whole_id(task)) for task in ids]
    show.tell(output, tasks, lambda: _print_tasks(tasks))


def _services() -> list[dict[str, Any]]:
    """The services of this host, as its boot describes them; empty on a host without one."""
    run_dir = contexts.current().run_dir
    if run_dir is None or not (run_dir / "boot.json").exists():
        return []
    data = json.loads((run_dir / "boot.json").read_text(encoding="utf-8"))
    services = data.get("services", data) if isinstance(data, dict) else data
    return list(services.values()) if isinstance(services, dict) else list(services)


@app.command()
def status(output: Output = TABLE) -> None:
    """The cluster at a glance: faults, queue, members, this host's services.

    Exit code 1 when it is unhealthy, 6 when no executor takes submissions.
    """
    services = _services()
    with Api(contexts.current(), timeout=5) as api:
        try:
            reply = api.call(StatusReply, "GET", "/status")
        except JudgeError:
            if services and output == TABLE:
                show.out.print(show.services_table(services))
            raise
    data = {"cluster": reply.model_dump(mode="json"), "services": services}
    show.tell(output, data, lambda: show.print_status(reply, services))
    raise typer.Exit(EXIT_STANDSTILL if not reply.judging else EXIT_FAILED if reply.faults else 0)


@app.command()
def whoami(output: Output = TABLE) -> None:
    """Show whom the token belongs to, what they may take of the cluster, and what they take now."""
    with connect() as api:
        reply = api.call(Whoami, "GET", "/whoami")
    show.tell(output, reply, lambda: show.print_whoami(reply))


@app.command()
def executors(output: Output = TABLE) -> None:
    """The executors, their slots and languages."""
    with connect() as api:
        reply = api.call(ExecutorsReply, "GET", "/executors")
    show.tell(output, reply, show.executors_table(reply.executors))


@app.command()
def judicators(output: Output = TABLE) -> None:
    """The judicators and which of them leads."""
    with connect() as api:
        rows = api.request("GET", "/judicators").json()["judicators"]
    show.tell(output, rows, show.judicators_table(rows))


def _drain(executor: str, verb: str, reason: str, output: show.OutputFormat) -> None:
    with connect() as api:
        answer = api.request("POST", f"/executors/{executor}/{verb}", json={"reason": reason} if reason else {})
        state = ExecutorState.received(answer.content)
    show.tell(output, state, show.executors_table([state]))


@app.command()
def drain(executor: str, reason: Reason = "", output: Output = TABLE) -> None:
    """Let an executor finish what it has and take no more."""
    _drain(executor, "drain", reason, output)


@app.command()
def resume(executor: str, output: Output = TABLE) -> None:
    """Let a drained executor take work again."""
    _drain(executor, "resume", "", output)


def _run_dir(run_dir: Path | None) -> Path:
    directory = run_dir or contexts.current().run_dir
    if directory is None:
        msg = "this context has no run_dir, so no boot to talk to; run this on the service's host, or name --run-dir"
        raise UsageError(msg)
    return directory


RunDir = Annotated[Path | None, typer.Option(help="boot's run directory on this host; default from client.yml.")]


@app.command()
def hold(
    service: str,
    reason: Annotated[str, typer.Option("--reason", help="Why; shown in the status.")],
    time: Annotated[str, typer.Option("--for", help="After this time boot takes over again: 30m, 2h, 1d.")] = "1h",
    run_dir: RunDir = None,
    output: Output = TABLE,
) -> None:
    """Keep boot away from a service of this host, for a reason and a time."""
    seconds = text.duration(time, "--for")
    held_service = holds.hold(_run_dir(run_dir), service, reason, seconds, getpass.getuser())
    trail.tell("hold.place", service, reason=reason, seconds=seconds)
    until = datetime.timedelta(seconds=seconds)
    words = f"{service} is held for {until}: boot neither starts, restarts nor stops it ({held_service.reason})"
    show.tell(output, [{"service": service, "reason": reason, "seconds": seconds}], words)


@app.command()
def release(service: str, run_dir: RunDir = None, output: Output = TABLE) -> None:
    """Give a held (or FATAL) service back to boot."""
    holds.release(_run_dir(run_dir), service)
    trail.tell("hold.release", service)
    words = f"{service} is released: boot looks after it again"
    show.tell(output, [{"service": service, "released": True}], words)


@app.command("languages")
def languages_command(output: Output = TABLE) -> None:
    """The languages that can be judged, with the versions that executors have."""
    with connect() as api:
        rows = api.request("GET", "/languages").json()["languages"]
    show.tell(output, rows, show.languages_table(rows))


fleet_commands.add_to(app)


def _run() -> Any:
    """Run the command; what is wrong with its words is one sentence, as everywhere else."""
    try:
        return app(standalone_mode=False)
    except typer.Abort:  # a question without an answer
        return EXIT_FAILED
    except typer.TyperException as exc:
        sentence, fault = exc.format_message(), exc.__cause__
        if isinstance(exc, typer.BadParameter) and exc.param and isinstance(fault, ValidationError):
            sentence = f"{exc.param.opts[0]}: {first_fault(fault).text}"
        if sentence:  # else the help was shown
            raise UsageError(sentence) from None
        return exc.exit_code


def main() -> None:
    sys.exit(terminal.guard("judgectl", _run, lambda sentence: show.err.verbatim(f"judgectl: {sentence}", "red")))


if __name__ == "__main__":
    main()
