"""Judging a folder of examples and comparing every verdict with what its folder says; what `make demo` shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from judge.common.errors import EXIT_FAILED
from judge.common.text import size
from judge.ctl import show, submit
from judge.ctl.api import Api, connect
from judge.ctl.options import TABLE, Output
from judge.ctl.problem.importing import import_package
from judge.ctl.problem.rows import ExampleRow
from judge.model import messages as m
from judge.model.problem import ProblemsReply
from judge.problems.examples import Example, load_examples
from judge.problems.package import read_package


@dataclass
class JudgedExamples:
    """The examples that were judged, and those that were left out as no executor has their language."""

    rows: list[ExampleRow] = field(default_factory=list)
    left_out: list[Example] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Return whether every outcome is an expected one; where nothing was judged, nothing is right."""
        return bool(self.rows) and all(row.right for row in self.rows)

    def total(self) -> str:
        wrong = sum(not row.right for row in self.rows)
        text = f"{len(self.rows)} submissions: " + (f"{wrong} not as expected" if wrong else "all as expected")
        missing = sorted({example.candidate.language for example in self.left_out})
        return text + (f"; {len(self.left_out)} left out, no executor has {', '.join(missing)}" if missing else "")


def split(examples: Sequence[Example], languages: set[str]) -> tuple[list[Example], list[Example]]:
    """(those that can be judged, those in a language that nobody offers); commands need no language."""
    able = [example for example in examples if (example.submission.language or "") in {"", *languages}]
    return able, [example for example in examples if example not in able]


def with_problems(api: Api, submissions: Sequence[m.Submission], files: Sequence[Path]) -> list[m.Submission]:
    """The submissions, those out of a package's submissions/ with its problem, unless they say how they are to be run.

    Problems that the cluster does not have are imported. `files`: where the submissions are from; none for commands.
    """
    packages = [
        None
        if submission.problem
        or submission.stdin is not None
        or submission.tests
        or submission.limits != m.LimitsOverride()
        else submit.package_of(path)
        for submission, path in zip(submissions, files, strict=False)
    ]
    if not any(packages):
        return list(submissions)
    problems = {problem.name for problem in api.call(ProblemsReply, "GET", "/problems").problems}
    for directory in dict.fromkeys(filter(None, packages)):
        if directory.name not in problems:
            import_package(api, read_package(directory))
    return [
        submission.model_copy(update={"problem": directory.name}) if directory else submission
        for submission, directory in zip(submissions, packages, strict=True)
    ]


def table(rows: Sequence[ExampleRow]) -> show.Grid:
    grid = show.grid("submission", "language", "verdict!", "expected!", "!", "cpu>", "memory>", "executor", "latency>")
    for row in rows:
        result = row.task.result
        grid.add_row(
            row.example.file.replace("/submissions/", "/"),
            row.example.candidate.language,
            show.verdict_text(row.task),
            row.example.candidate.description,
            row.mark(),
            show.seconds(result.cpu) if result else "",
            size(result.memory) if result and result.memory else "",
            row.task.judged_by or row.task.executor or "",
            show.seconds(row.task.latency),
        )
    return grid


def examples(
    directory: Annotated[Path, typer.Argument(help="A folder of example problems and commands.")] = Path("examples"),
    present: Annotated[bool, typer.Option("--present", help="Leave out languages that no executor has.")] = False,
    output: Output = TABLE,
) -> None:
    """Judge a folder of problem packages' own submissions and compare with what their folders say.

    Exit code 1 when any verdict differs.
    """
    example_set = load_examples(directory)
    runnable: list[Example] = example_set.examples
    left_out: list[Example] = []

    def print_row(verdict: Text, row: ExampleRow) -> None:
        show.out.say(verdict.append(f" {row.task.submission.language or 'command'} {show.subject(row.task)}"))

    with connect() as api:
        if present:
            languages = {entry["name"] for entry in api.request("GET", "/languages").json()["languages"]}
            runnable, left_out = split(runnable, languages)
        for package in example_set.packages:
            import_package(api, package)
        rows = [ExampleRow(example, api.submit(example.submission.keyed())) for example in runnable]
        submit.follow_rows(api, rows, table, print_row, quiet=not output.for_people)
    judged = JudgedExamples(rows, left_out)

    def print_all() -> None:
        show.out.print(table(judged.rows))
        show.out.say(judged.total(), "bold green" if judged.right else "bold red")

    show.tell(output, [row.as_json() for row in judged.rows], print_all)
    raise typer.Exit(0 if judged.right else EXIT_FAILED)
