"""`judgectl sources export`: what people have handed in to a problem, as programs that look for copies read it."""

from __future__ import annotations

import contextlib
import csv
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from judge.common.errors import UsageError
from judge.common.text import several
from judge.ctl import show
from judge.ctl.api import Api, connect
from judge.ctl.options import TABLE, Output, check_choice
from judge.ctl.sources import save
from judge.languages import handed
from judge.languages.table import load_table
from judge.model import messages as m
from judge.model import results as r
from judge.model.names import name_fault

app = typer.Typer(help="The sources of many people.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command()
def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory that does not exist yet.")],
    problem: Annotated[str, typer.Option("--problem", "-p", help="What was handed in to this problem.")],
    layout: Annotated[str, typer.Option(help="jplag, dolos or moss.")] = "jplag",
    group: Annotated[str | None, typer.Option("--group", "-g", help="By the members of this group.")] = None,
    best: Annotated[bool, typer.Option("--best/--all", help="The best of each person, or all.")] = True,
    output: Output = TABLE,
) -> None:
    """Write judged submissions as folders of their users, for JPlag, Dolos or MOSS."""
    check_choice("--layout", layout, "jplag", "dolos", "moss")
    if directory.exists():
        raise UsageError(f"{directory}: is there already; name a directory that does not exist")
    with connect() as api:
        chosen = _chosen(api, problem, group, best=best)
        if not chosen:
            raise UsageError(f"there is no judged submission with a source to '{problem}' by these people")
        # Each is written before the next is read; the directory is there once the first is.
        info = []
        with contextlib.ExitStack() as partial:
            partial.callback(shutil.rmtree, directory, ignore_errors=True)
            for brief in chosen:
                info += _write(directory, api.get(brief.id), own_folder=not best)
            if layout == "dolos":
                save({"info.csv": _info(info)}, directory)
            partial.pop_all()
    people = len({task.submission.user for task in chosen})
    data = {"directory": str(directory), "submissions": len(chosen), "people": people}
    sentence = f"{several(len(chosen), 'submission')} of {people} written to {directory}"
    show.tell(output, data, sentence)


def _chosen(api: Api, problem: str, group: str | None, *, best: bool) -> list[m.Task]:
    """The submissions that are to be written, without their sources, newest first; a command has none."""
    members = None if group is None else set(_with_results(api, problem, group))
    chosen: dict[str, tuple[m.Task, r.ProblemResult]] = {}
    before = None
    while True:
        page = api.search(problem=problem, done=True, limit=500, before=before)
        for task in page.tasks:
            result = r.of_task(task)
            if (
                result is None
                or task.submission.command is not None
                or (members is not None and result.user not in members)
            ):
                continue
            key = result.user if best else task.id
            if key not in chosen or result.rank > chosen[key][1].rank:
                chosen[key] = (task, result)
        before = page.next
        if before is None:
            return [task for task, _ in chosen.values()]


def _with_results(api: Api, problem: str, group: str) -> Iterator[str]:
    """The members of a group who have results; judges may not list the group itself."""
    before = None
    while True:
        params = {"problem": problem, "group": group, "before": before}
        reply = api.call(r.ResultsReply, "GET", "/results", params=params)
        yield from (result.user for result in reply.results)
        before = reply.next
        if before is None:
            return


def _write(directory: Path, task: m.Task, *, own_folder: bool) -> list[list[str]]:
    """Write one submission; returns its rows of info.csv."""
    user = task.submission.user
    fault = name_fault(user) or ("has a '/'" if "/" in user else "")
    if fault:
        raise UsageError(f"the user '{user}' {fault}; leave this person out with --group")
    folder = f"{user}/{task.id}" if own_folder else user
    files = {f"{folder}/{name}": data for name, data in _contents(task).items()}
    save(files, directory)
    return [[name, f"{task.id}/{number}", user, user, task.created] for number, name in enumerate(files)]


def _contents(task: m.Task) -> dict[str, bytes]:
    """The files; a source without a name that may be is called as its language's files are, which have a suffix."""
    sub = task.submission
    if sub.source is None or (sub.filename and not name_fault(sub.filename)):
        return handed.contents(sub)
    row = load_table(None).get(sub.language or "")
    name = row.own_name(sub.source, None) if row is not None else ""
    return {name or "source": sub.source.encode("utf-8", "replace")}


def _info(rows: list[list[str]]) -> bytes:
    """The file by which Dolos knows authors and times."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["filename", "id", "full_name", "labels", "created_at"])
    writer.writerows(rows)
    return text.getvalue().encode()
