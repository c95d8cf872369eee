"""`judgectl problem`: the command line of problem packages; the modules beside this one do what it says."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Annotated, cast
from urllib.parse import quote

import typer
from pydantic import ValidationError

from judge.common import clock
from judge.common.errors import EXIT_FAILED, EXIT_LEFT_OUT, UsageError
from judge.common.text import decimal, several
from judge.ctl import completing, show
from judge.ctl.api import connect
from judge.ctl.options import TABLE, Output, check_choice
from judge.ctl.problem import (
    cases,
    checking,
    exporting,
    importing,
    making,
    preview,
    showing,
    template,
    uploading,
    verifying,
)
from judge.ctl.problem.trial import present
from judge.ctl.text import moment
from judge.model.base import first_fault
from judge.model.problem import ProblemInfo, ProblemsReply
from judge.model.visibility import ProblemFields, Visibility
from judge.problems.importers.draft import ImporterWords
from judge.problems.package import Package, manifest_bytes, read_package
from judge.problems.reading import formats
from judge.problems.reading.checks import Checked, check_package
from judge.problems.reading.findings import Findings, Level
from judge.problems.timing import MOST

app = typer.Typer(help="Problem packages (Kattis/ICPC format).", no_args_is_help=True)

Check = Annotated[bool, typer.Option("--check/--no-check", help="Run the package's validators on its own tests first.")]
Name = Annotated[str, typer.Argument(autocompletion=completing.problems)]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", autocompletion=completing.problems)]
Dialect = Annotated[
    str,
    typer.Option(
        "--dialect", metavar="kattis|domjudge", help="How a legacy package is read, instead of what is detected in it."
    ),
]
Origin = Annotated[
    str | None,
    typer.Option("--from", metavar="FORMAT", help="The format of the packages, instead of what is detected."),
]
Memory = Annotated[
    int | None, typer.Option("--memory", metavar="MIB", help="The memory limit, for packages of other formats.")
]
TimeLimit = Annotated[
    float | None,
    typer.Option("--time-limit", metavar="SECONDS", help="The CPU limit of a test, instead of the package's own."),
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", "-t", help="A tag in place of those it has; repeatable; '': none.")
]
DifficultyOption = Annotated[str | None, typer.Option("--difficulty", help="A word or number; '': none.")]
OrderOption = Annotated[
    int | None, typer.Option("--order", help="Lists are sorted by this number, then by name; default: 0.")
]
_STYLES: dict[Level, str] = {"error": "bold red", "warning": "yellow", "note": "dim"}


def dialect_of(name: str) -> formats.Dialect:
    """The value of --dialect; UsageError for one that there is not."""
    if name not in {"", *formats.DIALECTS}:
        raise UsageError(f"--dialect: '{name[:40]}' is not known; choose one of {', '.join(formats.DIALECTS)}")
    return cast("formats.Dialect", name)


def limit_of(seconds: float | None) -> float | None:
    """The value of --time-limit; UsageError for one that cannot be."""
    if seconds is not None and not 0 < seconds <= MOST:
        raise UsageError(
            f"--time-limit: {decimal(seconds)} is no time limit; give seconds above 0, {decimal(MOST)} at most"
        )
    return seconds


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


@app.command("new")
def problem_new(
    target: Annotated[Path, typer.Argument(metavar="NAME", help="The problem's name: a new directory.")],
    problem_type: Annotated[str, typer.Option("--type", help=f"{', '.join(template.TYPES)}.")] = template.TYPES[0],
    output: Output = TABLE,
) -> None:
    """Write a small package that passes every check, to be edited: statement, tests, validator, submissions."""
    check_choice("--type", problem_type, *template.TYPES)
    files = template.create(target, problem_type)
    sentence = f"{target}: {len(files)} files written; edit them, then 'judgectl problem check {target}'"
    show.tell(output, {"problem": target.name, "files": files}, sentence)


@app.command("check")
def problem_check(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR|ZIP...", help="Problem packages.")],
    dialect: Dialect = "",
    origin: Origin = None,
    memory: Memory = None,
    time_limit: TimeLimit = None,
    run: Annotated[bool, typer.Option("--run", help="Run the package's validators on its own tests, too.")] = False,
    output: Output = TABLE,
) -> None:
    """Say everything that is wrong with packages, or merely unusual, at once; only --run needs a cluster.

    Exit code 1 when there is an error: import would refuse the package, or it contradicts the format. Exit code 4 when
    there is none, and --run could not run something for want of an executor.
    """
    dialect_name, limit = dialect_of(dialect), limit_of(time_limit)
    results, passed = [], True
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: there is no such directory or ZIP archive")
        options = ImporterWords(format=origin, memory=memory, time_limit=limit)
        with contextlib.ExitStack() as stack:
            checked_package = check_package(path, time_limit=limit, dialect=dialect_name, options=options)
            if checked_package.plan is not None:
                stack.callback(checked_package.plan.close)
            quiet = not output.for_people
            if checked_package.plan is not None and run and not checked_package.findings.errors:
                made_files = stack.enter_context(
                    making.made_files(stack.enter_context(connect()), checked_package.plan, quiet=quiet)
                )
                options = replace(options, products=made_files)
                checked_package = check_package(path, time_limit=limit, dialect=dialect_name, options=options)
            if checked_package.package is not None:
                package = stack.enter_context(checked_package.package)
                if run:
                    passed = _run(package, checked_package.findings, quiet=quiet) and passed
        results.append(checked_package)
    rows = [
        {"package": result.name, "level": finding.level, "text": finding.text}
        for result in results
        for finding in result.findings.all
    ]

    show.tell(output, rows, lambda: _print_findings(results))
    failed = any(result.findings.errors for result in results)
    raise typer.Exit(EXIT_FAILED if failed else 0 if passed else EXIT_LEFT_OUT)


def _run(package: Package, findings: Findings, *, quiet: bool) -> bool:
    """Have an executor run the package's validators on its tests, and note what they say; False: it lacks something."""
    name = package.manifest.name
    folders = cases.found_in(package)
    if not checking.programs(package.manifest) and not folders:
        findings.note(f"{name}: has no validator that could look at its tests")
        return True
    with connect() as api:
        uploading.upload(api, package, [manifest_bytes(package.manifest)], quiet=quiet)
        available = present(api)
        outcome = checking.check(api, package.manifest, available, quiet=quiet)
        outcome.add(cases.run(api, package, folders, available, quiet=quiet))
    for sentence in [*outcome.broken, *outcome.refused]:
        findings.error(f"{name}: {sentence}")
    for sentence in [*outcome.warnings, *(f"{subject}: not done: {why}" for subject, why in outcome.left_out.items())]:
        findings.warning(f"{name}: {sentence}")
    for sentence in [*outcome.notes, outcome.words]:
        if sentence:
            findings.note(f"{name}: {sentence}")
    return not outcome.left_out


def _print_findings(results: Sequence[Checked]) -> None:
    for result in results:
        findings = result.findings
        for level, style in _STYLES.items():
            for finding in findings.all:
                if finding.level == level:
                    show.out.say(f"{level}: {finding.text}", style)
        if findings.left_out:
            show.out.say(f"… and {findings.left_out} more", "dim")
        errors, warnings = (sum(finding.level == level for finding in findings.all) for level in ("error", "warning"))
        summary = f"{result.name}: {several(errors, 'error')}, {several(warnings, 'warning')}"
        show.out.say(summary, "bold red" if errors else "bold green")


@app.command("statement")
def problem_statement(
    path: Annotated[Path, typer.Argument(metavar="DIR|ZIP", help="A problem package.")],
    file: Annotated[Path | None, typer.Option("--output", "-o", help="Default: NAME.html.")] = None,
    language: Annotated[str | None, typer.Option("--language", "-l", help="Such as en; default: the first.")] = None,
) -> None:
    """Write a statement as an HTML page, as users will see it; needs no cluster."""
    with read_package(path) as package:
        target = file or Path(f"{package.manifest.name}.html")
        text = preview.preview(package, language)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise UsageError(f"{target}: cannot be written: {exc.strerror}") from None
    show.out.say(f"{target} written")


@app.command("import")
def problem_import(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR|ZIP...", help="Problem packages.")],
    time_limit: TimeLimit = None,
    dialect: Dialect = "",
    origin: Origin = None,
    memory: Memory = None,
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
    limit, quiet = limit_of(time_limit), not output.for_people
    options = ImporterWords(format=origin, memory=memory, time_limit=limit)
    reading = importing.Reading(time_limit=limit, dialect=dialect_of(dialect), options=options)
    packages = [reading.look(path) for path in paths]
    imports = []
    with _interruptible(), connect() as api:
        for path, package_read in zip(paths, packages, strict=True):
            with reading.whole(api, path, package_read, quiet=quiet) as package:
                outcome = importing.try_out(api, package, check=check, page=True, quiet=quiet)
                info = importing.register(api, outcome.manifest, visible=visible, labels=package.yaml.labels)
                imports.append((info, outcome))
            showing.print_outcome(outcome)
    answer = [outcome.as_json(info) for info, outcome in imports]
    show.tell(output, answer, showing.problems_table([info for info, _ in imports]))
    raise typer.Exit(EXIT_LEFT_OUT if any(outcome.lacking for _, outcome in imports) else 0)


@app.command("list")
def problem_list(
    tag: Annotated[str | None, typer.Option("--tag", "-t", help="Only those with this tag.")] = None,
    output: Output = TABLE,
) -> None:
    """List the cluster's problems."""
    with connect() as api:
        reply = api.call(ProblemsReply, "GET", "/problems")
    if tag is not None:
        reply = ProblemsReply(problems=[info for info in reply.problems if tag.lower() in info.tags])
    show.tell(output, reply, showing.problems_table(reply.problems))


@app.command("show")
def problem_show(name: Name, output: Output = TABLE) -> None:
    """Show one problem: its kind, limits and where they come from, validator and groups."""
    with connect() as api:
        info = exporting.find(api, name)
        manifest = exporting.manifest_of(api, info)
    show.tell(output, importing.as_json(info, manifest), lambda: showing.print_problem(info, manifest))


@app.command("publish")
def problem_publish(
    names: Names,
    group: Annotated[list[str] | None, typer.Option("--group", "-g", help="Only to this group; repeatable.")] = None,
    since: Annotated[str | None, typer.Option("--from", help="From then on, such as 2026-01-31T09:00 (UTC).")] = None,
    tag: Tags = None,
    difficulty: DifficultyOption = None,
    order: OrderOption = None,
    output: Output = TABLE,
) -> None:
    """Make problems visible to everyone, or to groups; at once, or from a date on."""
    visibility = Visibility(everyone=not group, groups=group or [], since=moment("from", since, clock.wall()))
    _change(names, _labelled(tag, difficulty, order, visibility=visibility), output)


@app.command("label")
def problem_label(
    names: Annotated[list[str], typer.Argument(metavar="NAME...")],
    tag: Tags = None,
    difficulty: DifficultyOption = None,
    order: OrderOption = None,
    output: Output = TABLE,
) -> None:
    """Set the tags, the difficulty and the place in lists; what is left out stays."""
    if tag is None and difficulty is None and order is None:
        raise UsageError("nothing is to be changed; give --tag, --difficulty or --order")
    _change(names, _labelled(tag, difficulty, order), output)


@app.command("hide")
def problem_hide(names: Names, output: Output = TABLE) -> None:
    """Hide problems from users: for them it is as if they were deleted. Submissions to them stay."""
    _change(names, ProblemFields(visibility=Visibility()), output)


@app.command("owners")
def problem_owners(
    name: Name,
    users: Annotated[list[str] | None, typer.Argument(metavar="[USER...]", help="None: nobody any more.")] = None,
    output: Output = TABLE,
) -> None:
    """Set the users who see a problem in any case, and may publish and hide it."""
    _change([name], ProblemFields(owners=users or []), output)


def _labelled(
    tags: list[str] | None, difficulty: str | None, order: int | None, visibility: Visibility | None = None
) -> ProblemFields:
    tag_list = tags and " ".join(tags).replace(",", " ").split()
    values = {"tags": tag_list, "difficulty": difficulty, "order": order}
    try:
        return ProblemFields.model_validate({"visibility": visibility, **values})
    except ValidationError as exc:
        fault = first_fault(exc)
        raise UsageError(f"--{fault.field.partition('.')[0].removesuffix('s')}: {fault.text}") from None


def _change(names: list[str], fields: ProblemFields, output: show.OutputFormat) -> None:
    with connect() as api:
        infos = [api.call(ProblemInfo, "PUT", f"/problems/{quote(name, safe='')}", body=fields) for name in names]
    show.tell(output, infos, showing.problems_table(infos))


@app.command("export")
def problem_export(
    name: Name,
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
    show.tell(output, written, f"{name}: {count} files written to {place}")


@app.command("verify")
def problem_verify(
    target: Annotated[
        str,
        typer.Argument(
            metavar="DIR|ZIP|NAME", help="A package, or a problem of the cluster.", autocompletion=completing.problems
        ),
    ],
    name: Annotated[str | None, typer.Option("--as", help="Import the package under this name as well.")] = None,
    priority: Annotated[str, typer.Option(help="high, normal or low.")] = "low",
    infer: Annotated[bool, typer.Option("--infer", help="Infer the time limit, even if there is one.")] = False,
    time_limit: TimeLimit = None,
    dialect: Dialect = "",
    origin: Origin = None,
    memory: Memory = None,
    check: Check = True,
    output: Output = TABLE,
) -> None:
    """Judge a package's own submissions, all tests of them, and compare with what the package says of them.

    A package is judged without being imported, unless --as says under which name. Exit code 1 when any differs, 4 when
    none does and some could not be judged for want of an executor.
    """
    check_choice("--priority", priority, "high", "normal", "low")
    if infer and time_limit is not None:
        raise UsageError("--infer: is given together with --time-limit; give one of the two")
    options = verifying.VerifyOptions(
        name=name,
        priority=cast("verifying.Priority", priority),
        infer=infer,
        check=check,
        time_limit=limit_of(time_limit),
        dialect=dialect_of(dialect),
        options=ImporterWords(format=origin, memory=memory, time_limit=limit_of(time_limit)),
        quiet=not output.for_people,
    )
    with _interruptible(), connect() as api:
        verified = verifying.verify(api, target, options)
    show.tell(output, verified.as_json(), lambda: verifying.print_verified(verified))
    raise typer.Exit(verified.exit_code)
