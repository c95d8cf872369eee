"""`judgectl problem check`: everything about packages at once, without a cluster or with one; nothing is imported."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from judge.common.errors import EXIT_FAILED, EXIT_LEFT_OUT, UsageError
from judge.common.text import decimal
from judge.ctl import show
from judge.ctl.api import connect
from judge.ctl.options import Output
from judge.ctl.problem import cases, checking, making, uploading
from judge.ctl.problem.trial import present
from judge.problems.importers.draft import ImporterWords
from judge.problems.package import Package, manifest_bytes
from judge.problems.reading import formats
from judge.problems.reading.checks import Checked, check_package
from judge.problems.reading.findings import Findings, Level
from judge.problems.timing import MOST

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
_STYLES: dict[Level, str] = {"error": "bold red", "warning": "yellow", "note": "dim"}


def dialect_of(name: str) -> formats.Dialect:
    """The value of --dialect; UsageError for one that there is not."""
    for known_dialect in formats.DIALECTS:
        if name == known_dialect:
            return known_dialect
    if name:
        raise UsageError(f"--dialect: '{name[:40]}' is not known; choose one of {', '.join(formats.DIALECTS)}")
    return ""


def limit_of(seconds: float | None) -> float | None:
    """The value of --time-limit; UsageError for one that cannot be."""
    if seconds is not None and not 0 < seconds <= MOST:
        raise UsageError(
            f"--time-limit: {decimal(seconds)} is no time limit; give seconds above 0, {decimal(MOST)} at most"
        )
    return seconds


def problem_check(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR|ZIP...", help="Problem packages.")],
    dialect: Dialect = "",
    origin: Origin = None,
    memory: Memory = None,
    time_limit: TimeLimit = None,
    run: Annotated[bool, typer.Option("--run", help="Run the package's validators on its own tests, too.")] = False,
    output: Output = show.OutputFormat.TABLE,
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

    def in_words() -> None:
        for result in results:
            _print(result)

    show.tell(output, rows, in_words)
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


def _print(result: Checked) -> None:
    """A package's findings, errors first, and what they come to."""
    findings = result.findings
    for level, style in _STYLES.items():
        for finding in findings.all:
            if finding.level == level:
                show.out.say(f"{level}: {finding.text}", style)
    if findings.left_out:
        show.out.say(f"… and {findings.left_out} more", "dim")
    errors, warnings = (sum(finding.level == level for finding in findings.all) for level in ("error", "warning"))
    words = f"{result.name}: {_count(errors, 'error')}, {_count(warnings, 'warning')}"
    show.out.say(words, "bold red" if errors else "bold green")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
