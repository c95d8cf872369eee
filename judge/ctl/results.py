"""`judgectl results`: what each person has reached in each problem."""

from __future__ import annotations

from typing import Annotated

import typer

from judge.common import clock
from judge.ctl import show
from judge.ctl.api import connect
from judge.ctl.options import TABLE, Output
from judge.ctl.text import moment
from judge.model import results as r


def results(
    problem: Annotated[str | None, typer.Option("--problem", "-p", help="To this problem.")] = None,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Of the members of this group.")] = None,
    since: Annotated[str | None, typer.Option(help="2h (ago), 2026-01-31 or 2026-01-31T12:00 (UTC).")] = None,
    until: Annotated[str | None, typer.Option(help="As --since.")] = None,
    output: Output = TABLE,
) -> None:
    """Show what each person has reached in each problem: best verdict and score, attempts, the first solution."""
    now = clock.wall()
    times = {"since": moment("since", since, now), "until": moment("until", until, now)}
    params = {name: value.isoformat() for name, value in times.items() if value is not None}
    rows: list[r.ProblemResult] = []
    before: str | None = None
    with connect() as api:
        while True:
            conditions = {**params, "problem": problem, "group": group, "before": before}
            reply = api.call(r.ResultsReply, "GET", "/results", params=conditions)
            rows = r.merged([*rows, *reply.results])
            before = reply.next
            if before is None:
                break
    table = show.grid("user", "name…", "problem!", "verdict!", "score>", "attempts>", "solved (UTC)")
    for row in rows:
        table.add_row(
            row.user, row.name or "-", row.problem, row.verdict.value, show.points(row.score), str(row.attempts),
            show.utc(row.solved or "") or "-",
        )  # fmt: skip
    show.tell(output, rows, table)
