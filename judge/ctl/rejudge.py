"""`judgectl rejudge`: choose submissions, judge them again at low priority, compare, apply or drop as a whole."""

from __future__ import annotations

import contextlib
import datetime
import uuid
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.text import Text

from judge.common import clock
from judge.common.errors import EmptyError, FieldError, UsageError
from judge.common.text import decimal
from judge.ctl import completing, show
from judge.ctl.api import Api, connect, whole_ids
from judge.ctl.options import TABLE, Limit, Output, Yes, check_confirmation
from judge.ctl.text import moment
from judge.model import messages as m
from judge.model import rejudging as r
from judge.model.base import first_fault

POLL = 1.0
_STYLES = {"finished": "bold yellow", "applied": "bold green", "cancelled": "dim"}
_STABLE = frozenset({r.RejudgeState.FINISHED, r.RejudgeState.APPLIED, r.RejudgeState.CANCELLED})

app = typer.Typer(
    help="Judge submissions again, at low priority; their verdicts change all at once, or not at all.",
    no_args_is_help=True,
)

Number = Annotated[int, typer.Argument(metavar="N", help="The rejudging's number.", min=1)]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until all are judged, or until it is over.")]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Submissions; or give conditions.", autocompletion=completing.submissions),
]
Problems = Annotated[
    list[str] | None,
    typer.Option("--problem", "-p", help="Of this problem; several: any of them.", autocompletion=completing.problems),
]
Languages = Annotated[list[str] | None, typer.Option("--language", "-l", help="In this language; several: any.")]
Users = Annotated[list[str] | None, typer.Option("--user", help="Handed in by this user; several: any.")]
Verdicts = Annotated[list[m.Verdict] | None, typer.Option("--verdict", help="With this verdict; several: any.")]
Executors = Annotated[list[str] | None, typer.Option("--executor", help="Judged by this executor; several: any.")]
Since = Annotated[str | None, typer.Option(help="Handed in since: 2h (ago), 2026-01-31 or 2026-01-31T12:00 (UTC).")]
Until = Annotated[str | None, typer.Option(help="Handed in before; as --since.")]


def filter_of(now: datetime.datetime, **conditions: Any) -> r.RejudgeFilter:
    """The filter of the command line's options; UsageError for a value that no submission can have."""
    for name in ("since", "until"):
        conditions[name] = moment(name, conditions[name], now)
    try:
        return r.RejudgeFilter.model_validate({name: value for name, value in conditions.items() if value})
    except ValidationError as exc:
        fault = first_fault(exc, with_input=True)
        option = fault.field.partition(".")[0]
        raise FieldError("ID" if option == "ids" else f"--{option}", f"{fault.text}, not '{fault.given}'") from None


def follow(api: Api, number: int, until: Callable[[r.Rejudging], bool], *, quiet: bool) -> r.Rejudging:
    """Look again and again until it is as wanted; on a terminal with a line that says how far it is."""

    def get() -> r.Rejudging:
        return api.call(r.Rejudging, "GET", f"/rejudgings/{number}")

    with contextlib.ExitStack() as stack:
        live = show.err.is_terminal and not quiet
        line = stack.enter_context(show.err.status("")) if live else None
        while not until(rejudging := get()):
            if line is not None:
                count = f"{rejudging.done} of {rejudging.total} judged, {rejudging.changed} changed"
                line.update(f"rejudging {number}: {rejudging.state}, {count}")
            clock.sleep(POLL)
    return rejudging


def _judged(rejudging: r.Rejudging) -> bool:
    return rejudging.state in _STABLE


@app.command()
def start(
    ids: Ids = None,
    problem: Problems = None,
    language: Languages = None,
    user: Users = None,
    verdict: Verdicts = None,
    executor: Executors = None,
    since: Since = None,
    until: Until = None,
    reason: Annotated[str, typer.Option("--reason", help="Reason, shown to everybody who sees the change.")] = "",
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be judged again.")] = False,
    wait: Wait = False,
    output: Output = TABLE,
) -> None:
    """Judge again all submissions that meet every condition, after showing which they are.

    Nothing changes for anybody before `judgectl rejudge apply`.
    """
    for_program = not output.for_people
    filters = filter_of(
        clock.wall(),
        ids=whole_ids(ids or []),
        problem=problem,
        language=language,
        user=user,
        verdict=verdict,
        executor=executor,
        since=since,
        until=until,
    )
    if not dry_run and not reason.strip():
        raise UsageError("--reason: is missing; say why, for those who see a verdict change")
    check_confirmation(output, unasked=dry_run or yes)
    with connect() as api:
        if dry_run or not yes:
            preview = api.call(r.RejudgePreview, "POST", "/rejudgings/preview", body=filters)
            show.tell(output, preview, lambda: print_preview(preview))
            if dry_run:
                return
            if not preview.count:
                raise EmptyError("nothing to judge again")
            typer.confirm("Judge them again?", abort=True)
        body = r.RejudgeStart(filter=filters, reason=reason)
        call = body.model_dump(mode="json", include={"filter", "reason"}, exclude_none=True)
        answer = api.request("POST", "/rejudgings", json=call, headers={"Idempotency-Key": uuid.uuid4().hex})
        rejudging = r.Rejudging.received(answer.content)
        if wait:
            rejudging = follow(api, rejudging.id, _judged, quiet=for_program)
    show.tell(output, rejudging, lambda: print_words(rejudging))
    if not for_program:
        show.err.say(f"compare with: judgectl rejudge diff {rejudging.id}", "dim")


@app.command()
def preview(
    ids: Ids = None,
    problem: Problems = None,
    language: Languages = None,
    user: Users = None,
    verdict: Verdicts = None,
    executor: Executors = None,
    since: Since = None,
    until: Until = None,
    output: Output = TABLE,
) -> None:
    """Say which submissions a start with these conditions would judge again."""
    start(ids, problem, language, user, verdict, executor, since, until, dry_run=True, output=output)


@app.command("list")
def list_command(limit: Limit = 50, output: Output = TABLE) -> None:
    """List rejudgings, newest first."""
    with connect() as api:
        rejudgings = api.call(r.RejudgingsReply, "GET", "/rejudgings", params={"limit": limit}).rejudgings
    show.tell(output, rejudgings, table_of(rejudgings))


@app.command("show")
def show_command(number: Number, wait: Wait = False, output: Output = TABLE) -> None:
    """Show one rejudging and how far it is."""
    with connect() as api:
        rejudging = follow(api, number, _judged if wait else lambda _: True, quiet=not output.for_people)
    show.tell(output, rejudging, lambda: print_words(rejudging))


@app.command()
def diff(
    number: Number,
    include_unchanged: Annotated[bool, typer.Option("--all", help="Unchanged ones too.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many submissions.")] = 500,
    output: Output = TABLE,
) -> None:
    """Compare old verdicts with new ones: how many went from which to which, and the changed submissions."""
    with connect() as api:
        params: dict[str, Any] = {"all": include_unchanged, "limit": min(limit, 500)}
        changes: list[r.RejudgeChange] = []
        while True:
            diff = api.call(r.RejudgeDiff, "GET", f"/rejudgings/{number}/diff", params=params)
            changes += diff.changes
            params["after"] = diff.next
            if diff.next is None or len(changes) >= limit:
                break
    more = diff.next is not None or len(changes) > limit
    diff = diff.model_copy(update={"changes": changes[:limit]})

    def print_all() -> None:
        print_words(diff.rejudging)
        show.out.print()
        show.out.print(matrix_table(diff.matrix))
        if diff.changes:
            show.out.print()
            show.out.print(changes_table(diff.changes))
        if more:
            show.err.say("there are more; raise --limit", "dim")

    show.tell(output, diff, print_all)


def _act(number: int, verb: str, output: show.OutputFormat) -> None:
    with connect() as api:
        rejudging = api.call(r.Rejudging, "POST", f"/rejudgings/{number}/{verb}", key=uuid.uuid4().hex)
        if verb == "apply" and rejudging.state != r.RejudgeState.APPLIED:
            rejudging = follow(api, number, lambda rejudging: rejudging.settled, quiet=not output.for_people)
    show.tell(output, rejudging, lambda: print_words(rejudging))


@app.command()
def apply(number: Number, output: Output = TABLE) -> None:
    """Let all its new verdicts count, at once. The old ones stay in the submissions' history."""
    _act(number, "apply", output)


@app.command()
def cancel(number: Number, output: Output = TABLE) -> None:
    """Drop it as a whole, running or finished: every verdict stays as it is."""
    _act(number, "cancel", output)


def table_of(rejudgings: Sequence[r.Rejudging]) -> show.Grid:
    table = show.grid("rejudging", "state!", "judged>!", "changed>!", "by…", "begun (UTC)", "what…", "reason…")
    for rejudging in rejudgings:
        cancelling = rejudging.state == r.RejudgeState.CANCELLED and not rejudging.settled
        state = "cancelling" if cancelling else rejudging.state.value
        table.add_row(
            str(rejudging.id),
            Text(state, style=_STYLES.get(rejudging.state.value, "cyan")),
            f"{rejudging.done}/{rejudging.total}",
            str(rejudging.changed),
            rejudging.user,
            show.utc(rejudging.created),
            Text(describe_filter(rejudging.filter)),
            Text(rejudging.reason),
        )
    return table


def describe_filter(filters: r.RejudgeFilter) -> str:
    parts = []
    for name in ("ids", "problem", "language", "user", "verdict", "executor"):
        values = [str(value) for value in getattr(filters, name)]
        if values:
            parts.append(f"{name} {', '.join(values[:3])}{', …' if len(values) > 3 else ''}")
    times = (("since", filters.since), ("until", filters.until))
    return "; ".join([*parts, *(f"{name} {time:%Y-%m-%d %H:%M}" for name, time in times if time is not None)])


def matrix_table(matrix: dict[str, dict[str, int]]) -> show.Grid:
    """Old verdicts in rows, new ones in columns; `-` is not judged again (yet)."""
    columns = sorted({after for row in matrix.values() for after in row})
    table = show.grid("old \\ new", *(f"{after}>" for after in columns))
    for before, row in matrix.items():
        styles = ["bold yellow" if after in row and after not in {before, "-"} else "" for after in columns]
        counts = [str(row.get(after, "·")) for after in columns]
        table.add_row(before, *map(Text, counts, styles))
    return table


def _outcome(outcome: r.Outcome | None) -> Text:
    if outcome is None or outcome.verdict is None:
        return Text("-")
    score = "" if outcome.score is None else f" {decimal(outcome.score)}"
    return Text(f"{outcome.verdict.value}{score}", style=outcome.verdict.about.colour)


def changes_table(changes: Sequence[r.RejudgeChange]) -> show.Grid:
    """One line for each submission; `run` names the task whose evidence `get --full` shows before it is applied."""
    table = show.grid(
        "id", "user…", "problem…", "language", "old!", "new!", "cpu old>", "cpu new>", "new executor", "run"
    )
    for change in changes:
        after = change.after
        table.add_row(
            change.id,
            change.user,
            change.problem or "-",
            change.language or "-",
            _outcome(change.before),
            _outcome(after),
            show.seconds(change.before.cpu),
            show.seconds(after.cpu) if after else "",
            (after.judged_by or "") if after else "",
            change.rerun or "",
        )
    return table


def print_preview(preview: r.RejudgePreview) -> None:
    by_verdict = ", ".join(f"{verdict} {count}" for verdict, count in preview.verdicts.items())
    show.out.say(f"{preview.count} submissions would be judged again" + (f": {by_verdict}" if by_verdict else ""))
    if preview.skipped:
        show.out.say(f"{preview.skipped} more match, but are part of an open rejudging", "yellow")
    if preview.tasks:
        show.out.print(show.tasks_table(preview.tasks))
    if preview.count > len(preview.tasks):
        show.out.say(f"… and {preview.count - len(preview.tasks)} older ones")


def print_words(rejudging: r.Rejudging) -> None:
    show.out.print(table_of([rejudging]))
    if rejudging.skipped:
        are = "matches, but is" if rejudging.skipped == 1 else "match, but are"
        show.out.say(
            f"{rejudging.skipped} more {are} left out: part of another rejudging that is open (judgectl rejudge list); "
            "apply or cancel that, and start one for what is left",
            "yellow",
        )
