"""Problems for people."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from judge.common import clock
from judge.common.text import decimal, size
from judge.ctl import show
from judge.ctl.problem import inferring
from judge.ctl.problem.importing import Tried
from judge.languages.table import allows, load_table, more_than
from judge.model.problem import IoiTask, ProblemInfo, ProblemManifest, ProblemProgram


def problems_table(infos: list[ProblemInfo]) -> show.Grid:
    """A list of problems."""
    marks = [one.visibility.words(clock.wall()) if one.visibility is not None else "" for one in infos]
    marked = ["visible…"] if any(marks) else []
    columns = ("kind", "tests>", "cpu limit>", "memory>", "content", "imported (UTC)")
    table = show.grid("problem", "title…", *marked, *columns)
    for one, mark in zip(infos, marks, strict=True):
        table.add_row(
            one.name,
            one.title,
            *([mark or "to everyone"] if marked else []),
            one.kind,
            str(one.tests),
            f"{decimal(one.limits.cpu)} s",
            size(one.limits.memory),
            one.hash[:12],
            one.imported[:19].replace("T", " "),
        )
    return table


def print_problem(info: ProblemInfo, manifest: ProblemManifest) -> None:
    """Everything that decides how a problem is judged."""
    limits = manifest.limits
    samples = sum(test.sample for test in manifest.tests)
    origin = manifest.limit_origin
    slow = origin.too_slow if origin else {}
    read_as = f", read as {manifest.dialect} reads it" if manifest.dialect else ""
    made_of = f", made of a package of {manifest.origin}" if manifest.origin not in {"", "directory"} else ""
    rows = [
        ("problem", info.name),
        ("title", info.title),
        ("kind", info.kind),
        ("format", f"{manifest.format}{read_as}{made_of}"),
        ("content", info.hash),
        ("imported (UTC)", info.imported[:19].replace("T", " ")),
        ("visible", (info.visibility.words(clock.wall()) or "to everyone") if info.visibility is not None else ""),
        ("owners", ", ".join(info.owners)),
        ("tests", f"{len(manifest.tests)}, {samples} of them samples"),
        ("limits", f"{decimal(limits.cpu)} s CPU, {decimal(limits.wall_seconds)} s wall, {size(limits.memory)} memory"),
        ("with a runtime", _more_words(manifest)),
        ("time limit", inferring.origin_words(manifest)),
        ("must be too slow", ", ".join(f"{path} ({cpu:.2f} s)" for path, cpu in slow.items())),
        ("not judged for it", ", ".join(origin.left_out) if origin else ""),
        ("", f"{size(limits.output)} output, {size(manifest.source_bytes)} source"),
        ("task", _task_words(manifest.task) if manifest.task else ""),
        ("validator", _programs(*manifest.validators) or "the default one"),
        ("validator's flags", " ".join(manifest.validator_flags)),
        ("static validator", _programs(manifest.static_validator)),
        ("grader", _programs(manifest.grader)),
        ("input validators", _programs(*manifest.input_validators)),
        ("answer validators", _programs(*manifest.answer_validators)),
        ("passes", str(manifest.passes) if manifest.passes > 1 else ""),
        ("languages", ", ".join(manifest.languages) or "all"),
        ("included files", ", ".join(f"{name}: {len(files)}" for name, files in manifest.include.items())),
    ]  # fmt: skip
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for key, value in rows:
        if value:
            table.add_row(Text(key, style="bold"), Text(value))
    show.out.print(table)
    if manifest.task is not None and manifest.task.subtasks:
        subtasks = show.grid("subtask", "rule…", "points>!", "tests>")
        for subtask in manifest.task.subtasks:
            subtasks.add_row(subtask.name, subtask.rule, decimal(subtask.points), str(len(subtask.tests)))
        show.out.print(subtasks)
    if manifest.groups:
        groups = show.grid("group", "aggregation", "max score>!", "requires…")
        for group in manifest.groups:
            highest = "unbounded" if group.max_score is None else decimal(group.max_score)
            groups.add_row(group.name, group.aggregation, highest, ", ".join(group.require_pass))
        show.out.print(groups)
    if manifest.graders:
        graders = show.grid("group", "on reject", "verdict!", "score", "range")
        for one in manifest.graders:
            low, high = (
                ("-inf" if one.low is None else decimal(one.low)),
                ("inf" if one.high is None else decimal(one.high)),
            )
            graders.add_row(one.name or "data", one.on_reject, one.verdict, one.score, f"{low} to {high}")
        show.out.print(graders)


def _programs(*programs: ProblemProgram | None) -> str:
    """Programs of a package by name, with the language in which they are written."""
    return "; ".join(
        f"{program.name} ({program.language or 'its own build and run'}, {len(program.files)} files)"
        for program in programs
        if program is not None
    )


def _more_words(manifest: ProblemManifest) -> str:
    """The languages whose programs get more memory than the limit, as their rows in the built-in table say."""
    table = load_table()
    names = [name for name, row in table.items() if row.family == name and allows(manifest.languages, name, table)]
    found: dict[int, list[str]] = {}
    for title, own in more_than(manifest.limits, names, table):
        found.setdefault(own.memory, []).append(title)
    return "; ".join(f"{size(memory)} in {', '.join(titles)}" for memory, titles in sorted(found.items()))


def _task_words(task: IoiTask) -> str:
    """The kind of an IOI task, with its files, processes and manager."""
    files = [f"{what} {name}" for what, name in (("reads", task.input_file), ("writes", task.output_file)) if name]
    talks = [f"{task.processes} processes"] if task.processes > 1 else []
    managed = [f"manager {_programs(task.manager)}"] if task.manager else []
    return ", ".join([task.kind, *files, *talks, *managed])


def as_json(info: ProblemInfo, manifest: ProblemManifest) -> dict[str, Any]:
    """The same for programs."""
    origin = manifest.limit_origin
    return {**info.model_dump(mode="json"), "limit_origin": origin.model_dump(mode="json") if origin else None}


def print_tried(tried: Tried) -> None:
    """Print the notes and warnings about a package that was imported, on stderr."""
    name = tried.manifest.name
    show.err.say(f"{name}: {tried.uploaded.words}", "dim")
    for note in tried.notes:
        show.err.say(f"note: {note}", "dim")
    words = inferring.origin_words(tried.manifest)
    if words:
        show.err.say(f"{name}: time limit {decimal(tried.manifest.limits.cpu)} s, {words}")
    for path, why in sorted(tried.left_out.items()):
        show.err.say(f"left out {path}: {why}", "yellow")
    for line in tried.warnings:
        show.err.say(f"! {line}", "yellow")
