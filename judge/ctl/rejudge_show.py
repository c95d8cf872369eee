"""Shows rejudgings in judgectl: lists, previews and comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from judge.ctl import show
from judge.model.rejudging import Outcome, RejudgeChange, RejudgeFilter, RejudgePreview, RejudgeState, Rejudging
from judge.text import decimal

_STYLES = {"finished": "bold yellow", "applied": "bold green", "cancelled": "dim"}


def table_of(rejudgings: Sequence[Rejudging]) -> show.Grid:
    """Rejudgings, one line each."""
    table = show.grid("rejudging", "state!", "judged>!", "changed>!", "by…", "begun (UTC)", "what…", "reason…")
    for one in rejudgings:
        state = one.state.value if one.settled or one.state != RejudgeState.CANCELLED else "cancelling"
        table.add_row(
            str(one.id),
            Text(state, style=_STYLES.get(one.state.value, "cyan")),
            f"{one.done}/{one.total}",
            str(one.changed),
            one.user,
            one.created[:19].replace("T", " "),
            Text(what(one.filter)),
            Text(one.reason),
        )
    return table


def what(wanted: RejudgeFilter) -> str:
    """A filter in a few words."""
    parts = []
    for name in ("ids", "problem", "language", "user", "verdict", "executor"):
        values = [str(one) for one in getattr(wanted, name)]
        if values:
            parts.append(f"{name} {', '.join(values[:3])}{', …' if len(values) > 3 else ''}")
    for name in ("since", "until"):
        found = getattr(wanted, name)
        if found is not None:
            parts.append(f"{name} {found:%Y-%m-%d %H:%M}")
    return "; ".join(parts)


def matrix_table(matrix: dict[str, dict[str, int]]) -> show.Grid:
    """Old verdicts in rows, new ones in columns; `-` is not judged again (yet)."""
    columns = sorted({after for row in matrix.values() for after in row})
    table = show.grid("old \\ new", *(f"{after}>" for after in columns))
    for before, row in matrix.items():
        cells = [
            Text(str(row[after]), style="bold yellow" if after not in {before, "-"} else "")
            if after in row
            else Text("·")
            for after in columns
        ]
        table.add_row(before, *cells)
    return table


def _outcome(one: Outcome | None) -> Text:
    if one is None or one.verdict is None:
        return Text("-")
    score = "" if one.score is None else f" {decimal(one.score)}"
    return Text(f"{one.verdict.value}{score}", style=one.verdict.about.colour)


def changes_table(changes: Sequence[RejudgeChange]) -> show.Grid:
    """One line for each submission; `run` names the task whose evidence `get --full` shows before it is applied."""
    table = show.grid(
        "id", "user…", "problem…", "language", "old!", "new!", "cpu old>", "cpu new>", "new executor", "run"
    )
    for one in changes:
        after = one.after
        table.add_row(
            one.id,
            one.user,
            one.problem or "-",
            one.language or "-",
            _outcome(one.before),
            _outcome(after),
            show.seconds(one.before.cpu),
            show.seconds(after.cpu) if after else "",
            (after.judged_by or "") if after else "",
            one.rerun or "",
        )
    return table


def print_preview(found: RejudgePreview) -> None:
    """Print the submissions that a start would take."""
    by_verdict = ", ".join(f"{verdict} {count}" for verdict, count in found.verdicts.items())
    show.out.say(f"{found.count} submissions would be judged again" + (f": {by_verdict}" if by_verdict else ""))
    if found.skipped:
        show.out.say(f"{found.skipped} more match, but are part of an open rejudging", "yellow")
    if found.tasks:
        show.out.print(show.tasks_table(found.tasks))
    if found.count > len(found.tasks):
        show.out.say(f"… and {found.count - len(found.tasks)} older ones")


def print_one(one: Rejudging, output: show.OutputFormat) -> None:
    """One rejudging, as it was asked for."""
    show.tell(output, one, lambda: print_words(one))


def print_words(one: Rejudging) -> None:
    """Print one rejudging, and how many submissions it left out."""
    show.out.print(table_of([one]))
    if one.skipped:
        are = "matches, but is" if one.skipped == 1 else "match, but are"
        show.out.say(
            f"{one.skipped} more {are} left out: part of another rejudging that is open (judgectl rejudge list); "
            "apply or cancel that, and start one for what is left",
            "yellow",
        )
