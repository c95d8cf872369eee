"""`judgectl problem`: the command line of problem packages; the modules beside this one do what it says."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated
from urllib.parse import quote

import typer

from judge.common import clock
from judge.common.errors import EXIT_LEFT_OUT, UsageError
from judge.ctl import checkup, show
from judge.ctl.api import connect
from judge.ctl.options import Output
from judge.ctl.problem import exporting, importing, showing, verifying
from judge.ctl.text import moment
from judge.model.problem import ProblemInfo, ProblemsReply
from judge.model.visibility import ProblemFields, Visibility
from judge.problems.importers.draft import ImporterWords

app = typer.Typer(help="Problem packages (Kattis/ICPC format).", no_args_is_help=True)
TABLE = show.OutputFormat.TABLE
app.command("check")(checkup.problem_check)

Check = Annotated[bool, typer.Option("--check/--no-check", help="Run the package's validators on its own tests first.")]


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """A kind end on SIGTERM as on Ctrl-C: what was handed in is cancelled."""

    def end(_: int, __: FrameType | None) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@app.command("import")
def problem_import(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR|ZIP...", help="Problem packages.")],
    time_limit: checkup.TimeLimit = None,
    dialect: checkup.Dialect = "",
    origin: checkup.Origin = None,
    memory: checkup.Memory = None,
    check: Check = True,
    visible: Annotated[
        bool | None,
        typer.Option("--visible/--hidden", help="To everyone, or no user; default: a new one is hidden, others stay."),
    ] = None,
    output: Output = TABLE,
) -> None:
    """Check problem packages and give them to the cluster.

    A new problem is hidden from users, unless --visible is given; `judgectl problem publish` shows it later. A package
    without a time limit gets one by its accepted submissions, which are judged first. Exit code 4 when all
    are imported, and something could not be tried for want of an executor.
    """
    limit, chosen, quiet = checkup.limit_of(time_limit), checkup.dialect_of(dialect), not output.for_people
    asked = ImporterWords(format=origin, memory=memory, time_limit=limit)
    how = importing.Reading(time_limit=limit, dialect=chosen, asked=asked)
    known = [how.look(path) for path in paths]
    done = []
    with _interruptible(), connect() as api:
        for path, package_known in zip(paths, known, strict=True):
            with how.whole(api, path, package_known, quiet=quiet) as package:
                tried = importing.try_out(api, package, check=check, page=True, quiet=quiet)
                done.append((importing.register(api, tried.manifest, visible=visible), tried))
            showing.print_tried(tried)
    infos = [info for info, _ in done]
    answer = [tried.as_json(info) for info, tried in done]
    show.tell(output, answer, lambda: show.out.print(showing.problems_table(infos)))
    raise typer.Exit(EXIT_LEFT_OUT if any(tried.lacking for _, tried in done) else 0)


@app.command("list")
def problem_list(output: Output = TABLE) -> None:
    """List the cluster's problems."""
    with connect() as api:
        reply = api.call(ProblemsReply, "GET", "/problems")
    show.tell(output, reply, lambda: show.out.print(showing.problems_table(reply.problems)))


@app.command("show")
def problem_show(name: str, output: Output = TABLE) -> None:
    """Show one problem: its kind, limits and where they come from, validator and groups."""
    with connect() as api:
        found = exporting.find(api, name)
        manifest = exporting.manifest_of(api, found)
    show.tell(output, showing.as_json(found, manifest), lambda: showing.print_problem(found, manifest))


@app.command("publish")
def problem_publish(
    names: Annotated[list[str], typer.Argument(metavar="NAME...")],
    group: Annotated[list[str] | None, typer.Option("--group", "-g", help="Only to this group; repeatable.")] = None,
    since: Annotated[str | None, typer.Option("--from", help="From then on, such as 2026-01-31T09:00 (UTC).")] = None,
    output: Output = TABLE,
) -> None:
    """Make problems visible to everyone, or to groups; at once, or from a date on."""
    visibility = Visibility(everyone=not group, groups=group or [], since=moment("from", since, clock.wall()))
    _change(names, ProblemFields(visibility=visibility), output)


@app.command("hide")
def problem_hide(names: Annotated[list[str], typer.Argument(metavar="NAME...")], output: Output = TABLE) -> None:
    """Hide problems from users: for them it is as if they were deleted. Submissions to them stay."""
    _change(names, ProblemFields(visibility=Visibility()), output)


@app.command("owners")
def problem_owners(
    name: str,
    users: Annotated[list[str] | None, typer.Argument(metavar="[USER...]", help="None: nobody any more.")] = None,
    output: Output = TABLE,
) -> None:
    """Set the users who see a problem in any case, and may publish and hide it."""
    _change([name], ProblemFields(owners=users or []), output)


def _change(names: list[str], fields: ProblemFields, output: show.OutputFormat) -> None:
    with connect() as api:
        infos = [api.call(ProblemInfo, "PUT", f"/problems/{quote(name, safe='')}", body=fields) for name in names]
    show.tell(output, infos, lambda: show.out.print(showing.problems_table(infos)))


@app.command("export")
def problem_export(
    name: str,
    target: Annotated[
        Path | None, typer.Argument(metavar="[DIR|ZIP]", help="Where to; default: a directory of its name.")
    ] = None,
    output: Output = TABLE,
) -> None:
    """Write a problem's package as it was imported."""
    place = target or Path(name)
    with connect() as api:
        count = exporting.export(api, name, place)
    written = {"problem": name, "target": str(place), "files": count}
    show.tell(output, written, lambda: show.out.say(f"{name}: {count} files written to {place}"))


@app.command("verify")
def problem_verify(
    target: Annotated[str, typer.Argument(metavar="DIR|ZIP|NAME", help="A package, or a problem of the cluster.")],
    name: Annotated[str | None, typer.Option("--as", help="Import the package under this name as well.")] = None,
    priority: Annotated[str, typer.Option(help="high, normal or low.")] = "low",
    infer: Annotated[bool, typer.Option("--infer", help="Infer the time limit, even if there is one.")] = False,
    time_limit: checkup.TimeLimit = None,
    dialect: checkup.Dialect = "",
    origin: checkup.Origin = None,
    memory: checkup.Memory = None,
    check: Check = True,
    output: Output = TABLE,
) -> None:
    """Judge a package's own submissions, all tests of them, and compare with what the package says of them.

    A package is judged without being imported, unless --as says under which name. Exit code 1 when any differs, 4 when
    none does and some could not be judged for want of an executor.
    """
    choices: dict[str, verifying.Priority] = {"high": "high", "normal": "normal", "low": "low"}
    if priority not in choices:
        raise UsageError(f"--priority: '{priority}' is not known; choose high, normal or low")
    if infer and time_limit is not None:
        raise UsageError("--infer: is given together with --time-limit; give one of the two")
    options = verifying.VerifyOptions(
        name=name,
        priority=choices[priority],
        infer=infer,
        check=check,
        time_limit=checkup.limit_of(time_limit),
        dialect=checkup.dialect_of(dialect),
        options=ImporterWords(format=origin, memory=memory, time_limit=checkup.limit_of(time_limit)),
        quiet=not output.for_people,
    )
    with _interruptible(), connect() as api:
        verified = verifying.verify(api, target, options)
    show.tell(output, verified.as_json(), lambda: verifying.print_verified(verified))
    raise typer.Exit(verified.exit_code)
