"""Handing in and following submissions until they are judged."""

from __future__ import annotations

import contextlib
import difflib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.live import Live
from rich.text import Text

from judge.common.errors import FieldError, UsageError
from judge.ctl import show
from judge.ctl.api import Api
from judge.languages import table as languages
from judge.model.messages import Task, Test, Verdict

# The exit codes of `judgectl submit` where there is no verdict; beside the exit codes of `judge.model.verdicts`.
EXIT_CANCELLED = 18
POLL = 0.4
# The name that executors give to a run that has no tests; and the bytes of input that a submission may bring along.
RUN_NAME = "run"
STDIN_BYTES = 1024**2


def exit_code(task: Task) -> int:
    return task.verdict.about.exit_code if task.verdict else EXIT_CANCELLED


def exit_codes() -> str:
    codes = sorted((verdict.about.exit_code, verdict.value) for verdict in Verdict if verdict is not Verdict.AC)
    meanings = ", ".join(f"{code} {word}" for code, word in [*codes, (EXIT_CANCELLED, "cancelled")])
    return (
        f"Exit code: 0 AC (or not waited for), {meanings}; with --each the largest. 1 the cluster failed, 2 bad input."
    )


def input_of(api: Api, path: Path) -> dict[str, Any]:
    """The fields of a Submission that runs on a file (or `-`, standard input), whatever is in it; UsageError.

    What is no text, or long, is uploaded first, which requires a token of role judge.
    """
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as exc:
        raise UsageError(f"{path}: cannot be read: {exc.strerror}") from exc
    with contextlib.suppress(UnicodeDecodeError):
        text = data.decode("utf-8")
        if len(data) <= STDIN_BYTES:
            return {"stdin": text}
    return {"tests": [Test(name=RUN_NAME, input_blob=api.put_content(data))]}


def language_of(path: Path, language: str | None) -> str:
    """The language asked for, or guessed from the file's suffix; FieldError names the choices."""
    table = languages.load_table(None)
    if language is not None:
        row = languages.find(language, table)
        if row is None:
            suggestions = difflib.get_close_matches(language, table, n=1, cutoff=0.8)
            hint = f"did you mean '{suggestions[0]}'?" if suggestions else f"choose one of {', '.join(sorted(table))}"
            raise FieldError("language", f"'{language}' is not known; {hint}")
        return row
    guessed = languages.guess(path.name, table) if str(path) != "-" else None
    if guessed is None:
        raise FieldError(
            "language", f"cannot be guessed from '{path}'; name it with --language (one of {', '.join(sorted(table))})"
        )
    return guessed


def package_of(path: Path) -> Path | None:
    """The problem package that a file or directory is one of the submissions of, or None.

    It lies in PACKAGE/submissions/KIND, or in the directory of a submission of several files there.
    """
    for submissions in path.resolve().parents[1:3]:
        package = submissions.parent
        if submissions.name == "submissions" and (package / "problem.yaml").is_file():
            return package
    return None


def follow_handed(api: Api, tasks: Sequence[Task], *, quiet: bool) -> list[Task]:
    """Wait for all that was handed in; what no executor has the language of now is named first."""
    languages_here = {entry["name"] for entry in api.request("GET", "/languages").json()["languages"]}
    for task in tasks:
        language = task.submission.language
        if language and language not in languages_here and not task.done:
            name = task.submission.filename or task.id
            have = ", ".join(sorted(languages_here)) or "no language"
            show.err.say(f"{name}: waits for an executor that has {language}; now they have {have}")
    live = len(tasks) == 1 and not quiet and show.err.is_terminal
    reasons: dict[str, str] = {}
    try:
        with show.err.status(_line(tasks[0])) if live else contextlib.nullcontext() as line:

            def changed(task: Task) -> None:
                if task.waits is not None and reasons.get(task.id) != task.waits.reason:
                    reasons[task.id] = task.waits.reason
                    show.err.say(f"{task.id} has {show.waits_words(task.waits)}", "yellow")
                if line is not None:
                    line.update(_line(task))

            return [api.follow(task, changed) for task in tasks]
    except KeyboardInterrupt:
        ids = " ".join(task.id for task in tasks)
        show.err.say(f"judging goes on without you; look with: judgectl get {ids}")
        raise


def _line(task: Task) -> Text:
    """The live line: where the submission is, its id, and how long it waits."""
    waited = f"  {task.waits.seconds:.0f} s" if task.waits is not None else ""
    return Text.assemble(show.outcome_text(task), f"  {task.id}{waited}")


class TaskRow(Protocol):
    task: Task


R = TypeVar("R", bound=TaskRow)


def follow_rows(
    api: Api,
    rows: Sequence[R],
    table: Callable[[Sequence[R]], show.Grid],
    tell: Callable[[Text, R], None],
    *,
    quiet: bool,
    give_up: Callable[[Sequence[R]], None] = lambda _: None,
) -> None:
    """Wait for many tasks; on a terminal in a live table, else `tell` gets each verdict as it comes.

    `give_up` looks at the rows that wait, and may end their tasks.
    """
    waiting = {row.task.id: row for row in rows if not row.task.done}
    live = Live(table(rows), console=show.out, auto_refresh=False, transient=True)
    if show.out.is_terminal and not quiet:
        live.start()
    try:
        while waiting:
            for index, row in enumerate(list(waiting.values())[:9]):
                row.task = api.get(row.task.id, wait=0 if index else POLL, version=row.task.version)
            give_up(list(waiting.values()))
            for task_id, row in list(waiting.items()):
                if row.task.done:
                    del waiting[task_id]
                    if not live.is_started and not quiet:
                        count = Text(f"[{len(rows) - len(waiting)}/{len(rows)}] ")
                        tell(count.append_text(show.verdict_text(row.task)), row)
            if live.is_started:
                live.update(table(rows), refresh=True)
    finally:
        live.stop()
