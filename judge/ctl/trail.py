"""`judgectl audit`, and what other commands tell the audit trail of what they have done on a host."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable
from typing import Annotated, get_args

import typer

from judge.common import clock
from judge.common.errors import JudgeError, NotFoundError
from judge.ctl import show
from judge.ctl.api import connect
from judge.ctl.options import TABLE, Before, Limit, Output
from judge.ctl.text import moment
from judge.model.audit import Action, AuditEntry, AuditReply, folded

_PATIENCE = 3.0
ACTIONS: tuple[str, ...] = get_args(Action)


def audit(
    actor: Annotated[str | None, typer.Option(help="Done by this user.")] = None,
    action: Annotated[str | None, typer.Option(help="Such as login, or problem. for all with problems.")] = None,
    object_name: Annotated[str | None, typer.Option("--object", help="A submission's id, a name, a number.")] = None,
    origin: Annotated[str | None, typer.Option(help="From this address.")] = None,
    since: Annotated[str | None, typer.Option(help="2h (ago), 2026-01-31 or 2026-01-31T12:00 (UTC).")] = None,
    until: Annotated[str | None, typer.Option(help="As --since.")] = None,
    limit: Limit = 50,
    before: Before = None,
    output: Output = TABLE,
) -> None:
    """List who had what done, from where, and what became of it; newest first."""
    now = clock.wall()
    times = {"since": moment("since", since, now), "until": moment("until", until, now)}
    params = {"actor": actor, "action": action, "origin": origin, "before": before}
    params |= {name: None if value is None else value.isoformat() for name, value in times.items()}
    with connect() as api:
        params["object"] = object_name
        if object_name is not None:
            with contextlib.suppress(NotFoundError):  # it may be a name
                params["object"] = api.whole_id(object_name)
        reply = api.call(AuditReply, "GET", "/audit", params={**params, "limit": limit})
    show.tell(output, reply, table(folded(reply.entries)), next_page=reply.next)
    if action and not any(name.startswith(action) if action.endswith(".") else name == action for name in ACTIONS):
        show.err.say(f"--action: '{action}' is no action; there are {', '.join(ACTIONS)}", "yellow")


def table(entries: Iterable[AuditEntry]) -> show.Grid:
    table = show.grid("at (UTC)", "actor…", "action", "object…", "outcome!", "from", "gateway", "details…")
    for entry in entries:
        table.add_row(
            show.utc(entry.at),
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
