"""`judgectl webhook`: who is told of verdicts, and what became of each call."""

from __future__ import annotations

from typing import Annotated, get_args
from urllib.parse import quote

import typer
from pydantic import ValidationError

from judge.common.errors import FieldError, UsageError
from judge.ctl import completing, show
from judge.ctl.api import connect
from judge.ctl.options import TABLE, Before, Limit, Output
from judge.model import webhooks as w
from judge.model.base import first_fault
from judge.model.messages import Empty

app = typer.Typer(help="Tell other systems of verdicts, by signed calls (docs/events.md).", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The webhook's name.")]


@app.command("add")
def add(
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where calls go; http or https.")],
    event: Annotated[list[str] | None, typer.Option(help=f"{' or '.join(w.EVENTS)}; both unless given.")] = None,
    user: Annotated[str | None, typer.Option(help="Only of this user's submissions.")] = None,
    problem: Annotated[
        str | None,
        typer.Option(
            "--problem", "-p", help="Only of submissions to this problem.", autocompletion=completing.problems
        ),
    ] = None,
    system: Annotated[bool, typer.Option("--system", help="Runs of imports and of statements as well.")] = False,
    output: Output = TABLE,
) -> None:
    """Add a webhook, or change what it says. Its secret, by which the receiver knows a call, is shown only once."""
    fields = {"name": name, "url": url, "user": user, "problem": problem, "events": event or None, "system": system}
    try:
        body = w.WebhookAdd.model_validate({key: value for key, value in fields.items() if value is not None})
    except ValidationError as exc:
        fault = first_fault(exc)
        raise FieldError(fault.field or "webhook", fault.text) from None
    with connect() as api:
        added = api.call(w.WebhookAdded, "POST", "/webhooks", body=body)
    show.tell(output, added, f"secret: {added.secret}")


@app.command("list")
def list_command(output: Output = TABLE) -> None:
    """All webhooks, and how they go."""
    with connect() as api:
        reply = api.call(w.WebhooksReply, "GET", "/webhooks")
    show.tell(output, reply, _webhooks(reply))


@app.command("remove")
def remove(name: Name) -> None:
    """Remove a webhook and its waiting calls."""
    with connect() as api:
        api.call(Empty, "DELETE", f"/webhooks/{quote(name, safe='')}")


@app.command("ping")
def ping(name: Name, output: Output = TABLE) -> None:
    """Send a test call; `judgectl webhook deliveries` shows what became of it."""
    with connect() as api:
        delivery = api.call(w.Delivery, "POST", f"/webhooks/{quote(name, safe='')}/ping")
    show.tell(output, delivery, delivery.id)


@app.command("deliveries")
def deliveries(
    webhook: Annotated[str | None, typer.Option(help="Of this webhook.")] = None,
    state: Annotated[str | None, typer.Option(help=", ".join(get_args(w.State)))] = None,
    submission: Annotated[
        str | None, typer.Option(help="About this submission.", autocompletion=completing.submissions)
    ] = None,
    limit: Limit = 50,
    before: Before = None,
    output: Output = TABLE,
) -> None:
    """Calls to receivers and what became of them, newest first; they are kept for seven days."""
    with connect() as api:
        task = None if submission is None else api.whole_id(submission)
        filters = {"webhook": webhook, "state": state, "submission": task, "before": before}
        reply = api.call(w.DeliveriesReply, "GET", "/deliveries", params={**filters, "limit": limit})
    show.tell(output, reply, _deliveries(reply), next_page=reply.next)


@app.command("resend")
def resend(
    delivery: Annotated[str | None, typer.Argument(metavar="[ID]", help="A delivery's id.")] = None,
    webhook: Annotated[str | None, typer.Option(help="All of this webhook that were given up.")] = None,
    output: Output = TABLE,
) -> None:
    """Send one delivery again, whatever became of it, or all of a webhook that were given up."""
    if (delivery is None) == (webhook is None):
        raise UsageError("give the ID of a delivery, or --webhook NAME")
    try:
        body = w.Resend(delivery=delivery, webhook=webhook)
    except ValidationError:
        raise UsageError(f"'{delivery or webhook}' is no id of a delivery and no name of a webhook") from None
    with connect() as api:
        reply = api.call(w.Resent, "POST", "/deliveries/resend", body=body)
    show.tell(output, reply, f"{reply.count} sent again")


def _webhooks(reply: w.WebhooksReply) -> show.Grid:
    table = show.grid("name", "url…", "events…", "of…", "waiting>!", "given up>!", "last try¶")
    for webhook in reply.webhooks:
        conditions = [webhook.user and f"user {webhook.user}", webhook.problem and f"problem {webhook.problem}"]
        of = ", ".join(filter(None, [*conditions, "system runs too" if webhook.system else ""]))
        events = " ".join(event.rpartition(".")[2] for event in webhook.events)
        failed = f"{webhook.failed} + {webhook.dropped} dropped" if webhook.dropped else str(webhook.failed)
        table.add_row(webhook.name, webhook.url, events, of or "all", str(webhook.waiting), failed, webhook.last)
    return table


def _deliveries(reply: w.DeliveriesReply) -> show.Grid:
    table = show.grid("id", "submission!", "state…", "webhook…", "event", "tries>", "at (UTC)", "answer…")
    for delivery in reply.deliveries:
        at = delivery.ended or delivery.next or delivery.created
        status_text = f"{delivery.status or ''} {delivery.text}".strip()
        table.add_row(
            delivery.id,
            delivery.submission or "-",
            delivery.state,
            delivery.webhook,
            delivery.event.rpartition(".")[2],
            str(delivery.tries),
            show.utc(at),
            status_text[:120],
        )
    return table
