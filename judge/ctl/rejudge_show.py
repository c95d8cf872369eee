"""Shows rejudgings in judgectl: lists, previews and comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from judge.common.text import decimal
from judge.ctl import show
from judge.model.rejudging import Outcome, RejudgeChange, RejudgeFilter, RejudgePreview, RejudgeState, Rejudging

_STYLES = {"finished": "bold yellow", "applied": "bold green", "cancelled": "dim"}


def table_of(rejudgings: Sequence[Rejudging]) -> show.Grid:
    """Rejudgings, one line each."""
    table = show.grid("rejudging", "state!", "judged>!", "changed>!", "by…", "begun (UTC)", "what…", "reason…")
    for rejudging in rejudgings:
        state = (
            rejudging.state.value if rejudging.settled or rejudging.state != RejudgeState.CANCELLED else "cancelling"
        )
        table.add_row(
            str(rejudging.id),
            Text(state, style=_STYLES.get(rejudging.state.value, "cyan")),
            f"{rejudging.done}/{rejudging.total}",
            str(rejudging.changed),
            rejudging.user,
            rejudging.created[:19].replace("T", " "),
            Text(describe_filter(rejudging.filter)),
            Text(rejudging.reason),
        )
    return table


def describe_filter(filters: RejudgeFilter) -> str:
    """A filter in a few words."""
    parts = []
    for name in ("ids", "problem", "language", "user", "verdict", "executor"):
        values = [str(value) for value in getattr(filters, name)]
        if values:
            parts.append(f"{name} {', '.join(values[:3])}{', …' if len(values) > 3 else ''}")
    for name in ("since", "until"):
        value_of_filter = getattr(filters, name)
        if value_of_filter is not None:
            parts.append(f"{name} {value_of_filter:%Y-%m-%d %H:%M}")
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


def _outcome(outcome: Outcome | None) -> Text:
    if outcome is None or outcome.verdict is None:
        return Text("-")
    score = "" if outcome.score is None else f" {decimal(outcome.score)}"
    return Text(f"{outcome.verdict.value}{score}", style=outcome.verdict.about.colour)


def changes_table(changes: Sequence[RejudgeChange]) -> show.Grid:
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


def print_preview(preview: RejudgePreview) -> None:
    """Print the submissions that a start would take."""
    by_verdict = ", ".join(f"{verdict} {count}" for verdict, count in preview.verdicts.items())
    show.out.say(f"{preview.count} submissions would be judged again" + (f": {by_verdict}" if by_verdict else ""))
    if preview.skipped:
        show.out.say(f"{preview.skipped} more match, but are part of an open rejudging", "yellow")
    if preview.tasks:
        show.out.print(show.tasks_table(preview.tasks))
    if preview.count > len(preview.tasks):
        show.out.say(f"… and {preview.count - len(preview.tasks)} older ones")


def print_one(rejudging: Rejudging, output: show.OutputFormat) -> None:
    """One rejudging, as it was asked for."""
    show.tell(output, rejudging, lambda: print_words(rejudging))


def print_words(rejudging: Rejudging) -> None:
    """Print one rejudging, and how many submissions it left out."""
    show.out.print(table_of([rejudging]))
    if rejudging.skipped:
        are = "matches, but is" if rejudging.skipped == 1 else "match, but are"
        show.out.say(
            f"{rejudging.skipped} more {are} left out: part of another rejudging that is open (judgectl rejudge list); "
            "apply or cancel that, and start one for what is left",
            "yellow",
        )
