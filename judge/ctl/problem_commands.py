"""`judgectl problem`: the command line of problem packages; problems.py does what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from judge.ctl import checkup, examples, problems, show
from judge.ctl.api import connect
from judge.ctl.options import Output
from judge.errors import EXIT_FAILED, UsageError
from judge.model.problem import ProblemInfo, ProblemsReply

app = typer.Typer(help="Problem packages (Kattis/ICPC format).", no_args_is_help=True)
TABLE = show.Output.TABLE
app.command("check")(checkup.problem_check)


@app.command("import")
def problem_import(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR|ZIP...", help="Problem packages.")], output: Output = TABLE
) -> None:
    """Check problem packages and give them to the cluster."""
    packages = [problems.read_checked(path) for path in paths]
    with connect() as api:
        infos = [examples.import_package(api, one) for one in packages]
    for note in (note for one in packages for note in one.notes):
        show.err.say(f"note: {note}", "dim")
    show.tell(output, infos, lambda: show.out.print(_problems_table(infos)))


@app.command("list")
def problem_list(output: Output = TABLE) -> None:
    """List the cluster's problems."""
    with connect() as api:
        reply = api.call(ProblemsReply, "GET", "/problems")
    show.tell(output, reply, lambda: show.out.print(_problems_table(reply.problems)))


@app.command("show")
def problem_show(name: str, output: Output = TABLE) -> None:
    """Show one problem: its kind, limits, validator and groups."""
    with connect() as api:
        found = problems.find(api, name)
        show.tell(output, found, lambda: problems.print_problem(found, problems.manifest_of(api, found)))


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
        count = problems.export(api, name, place)
    written = {"problem": name, "target": str(place), "files": count}
    show.tell(output, written, lambda: show.out.say(f"{name}: {count} files written to {place}"))


@app.command("verify")
def problem_verify(
    target: Annotated[str, typer.Argument(metavar="DIR|ZIP|NAME", help="A package, or a problem of the cluster.")],
    name: Annotated[str | None, typer.Option("--as", help="Import the package under this name.")] = None,
    priority: Annotated[str, typer.Option(help="high, normal or low.")] = "low",
    output: Output = TABLE,
) -> None:
    """Judge a package's own submissions, all tests of them, and compare with what the package says of them.

    Exit code 1 when any differs.
    """
    if priority not in {"high", "normal", "low"}:
        raise UsageError(f"--priority: '{priority}' is not known; choose high, normal or low")
    with connect() as api:
        verified = problems.verify(api, target, name=name, priority=priority, quiet=output == show.Output.JSON)
    show.tell(output, [row.as_json() for row in verified.rows], lambda: problems.print_verified(verified))
    raise typer.Exit(0 if verified.right else EXIT_FAILED)


def _problems_table(infos: list[ProblemInfo]) -> Any:
    table = show.grid("problem", "title…", "kind", "tests>", "cpu limit>", "memory>", "content", "imported (UTC)")
    for one in infos:
        table.add_row(
            one.name,
            one.title,
            one.kind,
            str(one.tests),
            f"{one.limits.cpu:g} s",
            show.size(one.limits.memory),
            one.hash[:12],
            one.imported[:19].replace("T", " "),
        )
    return table
