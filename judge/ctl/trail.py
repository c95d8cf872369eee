"""`judgectl audit`, and what other commands tell the audit trail of what they have done on a host."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Annotated

import typer

from judge.common import clock
from judge.common.errors import JudgeError
from judge.ctl import show
from judge.ctl.api import connect
from judge.ctl.options import Output
from judge.ctl.text import moment
from judge.model.audit import AuditEntry, AuditReply, folded

_PATIENCE = 3.0


def audit(
    actor: Annotated[str | None, typer.Option(help="Done by this user.")] = None,
    action: Annotated[str | None, typer.Option(help="Such as login, or problem. for all with problems.")] = None,
    object_name: Annotated[str | None, typer.Option("--object", help="A submission's id, a name, a number.")] = None,
    origin: Annotated[str | None, typer.Option(help="From this address.")] = None,
    since: Annotated[str | None, typer.Option(help="2h (ago), 2026-01-31 or 2026-01-31T12:00 (UTC).")] = None,
    until: Annotated[str | None, typer.Option(help="As --since.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500)] = 50,
    before: Annotated[str | None, typer.Option(help="Page on: the id that the page before ended with.")] = None,
    output: Output = show.OutputFormat.TABLE,
) -> None:
    """List who had what done, from where, and what became of it; newest first."""
    now = clock.wall()
    times = {"since": moment("since", since, now), "until": moment("until", until, now)}
    names = {"actor": actor, "action": action, "object": object_name, "origin": origin, "before": before}
    params = {name: value for name, value in names.items() if value is not None}
    params |= {name: value.isoformat() for name, value in times.items() if value is not None}
    with connect() as api:
        reply = api.call(AuditReply, "GET", "/audit", params={**params, "limit": limit})
    show.tell(output, reply, lambda: show.out.print(table(folded(reply.entries))))
    if reply.next and output.for_people:
        show.err.say(f"more with --before {reply.next}", "dim")


def table(entries: Iterable[AuditEntry]) -> show.Grid:
    """The trail as a table."""
    table = show.grid("at (UTC)", "actor…", "action", "object…", "outcome!", "from", "gateway", "details…")
    for entry in entries:
        table.add_row(
            entry.at[:19].replace("T", " "),
            entry.actor or "-",
            entry.action,
            entry.object,
            entry.outcome,
            entry.origin or "-",
            entry.gateway,
            entry.words,
        )
    return table


def tell(action: str, service: str, *, reason: str = "", seconds: int = 0) -> None:
    """Tell the trail of a hold, which is in force already; say so when that cannot be, as nobody else will."""
    note = {"action": action, "host": socket.gethostname(), "service": service, "reason": reason, "seconds": seconds}
    try:
        with connect() as api:
            api.timeout = _PATIENCE
            api.request("POST", "/audit/holds", json=note)
    except JudgeError as exc:
        show.err.say(f"judgectl: the audit trail does not know of this: {exc}", "yellow")
