"""`judgectl rejudge`: choose submissions, judge them again at low priority, compare, apply or drop as a whole."""

from __future__ import annotations

import datetime
import sys
import uuid
from collections.abc import Callable
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from judge.common import clock
from judge.common.errors import EmptyError, FieldError, UsageError
from judge.ctl import rejudge_show, show
from judge.ctl.api import Api, connect, whole_ids
from judge.ctl.options import Output
from judge.ctl.text import moment
from judge.model import messages as m
from judge.model import rejudging as r
from judge.model.base import first_fault

POLL = 1.0
_STABLE = frozenset({r.RejudgeState.FINISHED, r.RejudgeState.APPLIED, r.RejudgeState.CANCELLED})

app = typer.Typer(
    help="Judge submissions again, at low priority; their verdicts change all at once, or not at all.",
    no_args_is_help=True,
)

Number = Annotated[int, typer.Argument(metavar="N", help="The rejudging's number.", min=1)]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until all are judged, or until it is over.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Submissions; or give conditions.")]
Problems = Annotated[list[str] | None, typer.Option("--problem", "-p", help="Of this problem; several: any of them.")]
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

    rejudging = get()
    if quiet or not show.err.is_terminal:
        while not until(rejudging):
            clock.sleep(POLL)
            rejudging = get()
        return rejudging
    with show.err.status("") as line:
        while not until(rejudging):
            line.update(
                f"rejudging {number}: {rejudging.state}, {rejudging.done} of {rejudging.total} judged, "
                f"{rejudging.changed} changed"
            )
            clock.sleep(POLL)
            rejudging = get()
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
    reason: Annotated[str, typer.Option("--reason", help="Why; everybody who sees the change sees it.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be judged again.")] = False,
    wait: Wait = False,
    output: Output = show.OutputFormat.TABLE,
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
    if not (dry_run or yes) and (for_program or not sys.stdin.isatty()):
        raise UsageError("--yes: is missing, and there is nobody to ask; look with --dry-run first, then give --yes")
    with connect() as api:
        if dry_run or not yes:
            preview = api.call(r.RejudgePreview, "POST", "/rejudgings/preview", body=filters)
            show.tell(output, preview, lambda: rejudge_show.print_preview(preview))
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
    rejudge_show.print_one(rejudging, output)
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
    output: Output = show.OutputFormat.TABLE,
) -> None:
    """Say which submissions a start with these conditions would judge again."""
    start(ids, problem, language, user, verdict, executor, since, until, dry_run=True, output=output)


@app.command("list")
def list_command(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500)] = 50, output: Output = show.OutputFormat.TABLE
) -> None:
    """List rejudgings, newest first."""
    with connect() as api:
        rejudgings = api.call(r.RejudgingsReply, "GET", "/rejudgings", params={"limit": limit}).rejudgings
    show.tell(output, rejudgings, lambda: show.out.print(rejudge_show.table_of(rejudgings)))


@app.command("show")
def show_command(number: Number, wait: Wait = False, output: Output = show.OutputFormat.TABLE) -> None:
    """Show one rejudging and how far it is."""
    with connect() as api:
        rejudging = follow(api, number, _judged if wait else lambda _: True, quiet=not output.for_people)
    rejudge_show.print_one(rejudging, output)


@app.command()
def diff(
    number: Number,
    include_unchanged: Annotated[bool, typer.Option("--all", help="Unchanged ones too.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many submissions.")] = 500,
    output: Output = show.OutputFormat.TABLE,
) -> None:
    """Compare old verdicts with new ones: how many went from which to which, and the changed submissions."""
    with connect() as api:
        params: dict[str, Any] = {"all": str(include_unchanged).lower(), "limit": min(limit, 500)}
        diff = api.call(r.RejudgeDiff, "GET", f"/rejudgings/{number}/diff", params=params)
        changes = list(diff.changes)
        while diff.next is not None and len(changes) < limit:
            diff = api.call(r.RejudgeDiff, "GET", f"/rejudgings/{number}/diff", params={**params, "after": diff.next})
            changes += diff.changes
    more = diff.next is not None or len(changes) > limit
    diff = diff.model_copy(update={"changes": changes[:limit]})
    if not output.for_people:
        show.print_data(output, diff)
        return
    rejudge_show.print_words(diff.rejudging)
    show.out.print()
    show.out.print(rejudge_show.matrix_table(diff.matrix))
    if diff.changes:
        show.out.print()
        show.out.print(rejudge_show.changes_table(diff.changes))
    if more:
        show.err.say("there are more; raise --limit", "dim")


def _act(number: int, verb: str, output: show.OutputFormat) -> None:
    with connect() as api:
        rejudging = api.call(r.Rejudging, "POST", f"/rejudgings/{number}/{verb}", key=uuid.uuid4().hex)
        if verb == "apply" and rejudging.state != r.RejudgeState.APPLIED:
            rejudging = follow(api, number, lambda rejudging: rejudging.settled, quiet=not output.for_people)
    rejudge_show.print_one(rejudging, output)


@app.command()
def apply(number: Number, output: Output = show.OutputFormat.TABLE) -> None:
    """Let all its new verdicts count, at once. The old ones stay in the submissions' history."""
    _act(number, "apply", output)


@app.command()
def cancel(number: Number, output: Output = show.OutputFormat.TABLE) -> None:
    """Drop it as a whole, running or finished: every verdict stays as it is."""
    _act(number, "cancel", output)
