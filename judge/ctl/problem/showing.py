"""Problems for people."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from judge.common import clock
from judge.common.text import decimal, size
from judge.ctl import show
from judge.ctl.problem import inferring
from judge.ctl.problem.importing import TrialOutcome
from judge.languages.table import allows, load_table, more_than
from judge.model.problem import IoiTask, ProblemInfo, ProblemManifest, ProblemProgram


def problems_table(infos: list[ProblemInfo]) -> show.Grid:
    audiences = [info.visibility.words(clock.wall()) if info.visibility is not None else "" for info in infos]
    visible = ["visible…"] if any(audiences) else []
    labelled = ["difficulty", "tags…"] if any(info.tags or info.difficulty for info in infos) else []
    columns = ("kind", "tests>", "cpu limit>", "memory>", "content", "imported (UTC)")
    table = show.grid("problem", "title…", *labelled, *visible, *columns)
    for info, audience in zip(infos, audiences, strict=True):
        table.add_row(
            info.name,
            info.title,
            *([info.difficulty, " ".join(info.tags)] if labelled else []),
            *([audience or "to everyone"] if visible else []),
            info.kind,
            str(info.tests),
            f"{decimal(info.limits.cpu)} s",
            size(info.limits.memory),
            info.hash[:12],
            show.utc(info.imported),
        )
    return table


def print_problem(info: ProblemInfo, manifest: ProblemManifest) -> None:
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
        ("imported (UTC)", show.utc(info.imported)),
        ("visible", (info.visibility.words(clock.wall()) or "to everyone") if info.visibility is not None else ""),
        ("owners", ", ".join(info.owners)),
        ("tags", " ".join(info.tags)),
        ("difficulty", info.difficulty),
        ("order", str(info.order or "")),
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
        for grader in manifest.graders:
            low = "-inf" if grader.low is None else decimal(grader.low)
            high = "inf" if grader.high is None else decimal(grader.high)
            graders.add_row(grader.name or "data", grader.on_reject, grader.verdict, grader.score, f"{low} to {high}")
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
    titles_by_memory: dict[int, list[str]] = {}
    for title, limits in more_than(manifest.limits, names, table):
        titles_by_memory.setdefault(limits.memory, []).append(title)
    return "; ".join(f"{size(memory)} in {', '.join(titles)}" for memory, titles in sorted(titles_by_memory.items()))


def _task_words(task: IoiTask) -> str:
    files = [f"{verb} {name}" for verb, name in (("reads", task.input_file), ("writes", task.output_file)) if name]
    talks = [f"{task.processes} processes"] if task.processes > 1 else []
    managed = [f"manager {_programs(task.manager)}"] if task.manager else []
    return ", ".join([task.kind, *files, *talks, *managed])


def print_outcome(outcome: TrialOutcome) -> None:
    name = outcome.manifest.name
    show.err.say(f"{name}: {outcome.uploaded.words}", "dim")
    for note in outcome.notes:
        show.err.say(f"note: {note}", "dim")
    if origin := inferring.origin_words(outcome.manifest):
        show.err.say(f"{name}: time limit {decimal(outcome.manifest.limits.cpu)} s, {origin}")
    for path, why in sorted(outcome.left_out.items()):
        show.err.say(f"left out {path}: {why}", "yellow")
    for line in outcome.warnings:
        show.err.say(f"! {line}", "yellow")
