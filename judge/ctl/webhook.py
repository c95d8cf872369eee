"""`judgectl webhook`: who is told of verdicts, and what became of each call."""

from __future__ import annotations

from typing import Annotated, get_args
from urllib.parse import quote

import typer
from pydantic import ValidationError

from judge.common.errors import FieldError, UsageError
from judge.ctl import show
from judge.ctl.api import connect
from judge.ctl.options import Output
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
    problem: Annotated[str | None, typer.Option("--problem", "-p", help="Only of submissions to this problem.")] = None,
    output: Output = show.OutputFormat.TABLE,
) -> None:
    """Add a webhook, or change what it says. Its secret, by which the receiver knows a call, is shown this once."""
    fields = {"name": name, "url": url, "user": user, "problem": problem, **({"events": event} if event else {})}
    try:
        body = w.WebhookAdd.model_validate({key: value for key, value in fields.items() if value is not None})
    except ValidationError as exc:
        fault = first_fault(exc)
        raise FieldError(fault.field or "webhook", fault.text) from None
    with connect() as api:
        added = api.call(w.WebhookAdded, "POST", "/webhooks", body=body)
    show.tell(output, added, lambda: show.out.say(f"secret: {added.secret}"))


@app.command("list")
def list_command(output: Output = show.OutputFormat.TABLE) -> None:
    """All webhooks, and how they go."""
    with connect() as api:
        reply = api.call(w.WebhooksReply, "GET", "/webhooks")
    show.tell(output, reply, lambda: show.out.print(_webhooks(reply)))


@app.command("remove")
def remove(name: Name) -> None:
    """Remove a webhook and what waits for it."""
    with connect() as api:
        api.call(Empty, "DELETE", f"/webhooks/{quote(name, safe='')}")


@app.command("ping")
def ping(name: Name, output: Output = show.OutputFormat.TABLE) -> None:
    """Send a call that is about nothing; `judgectl webhook deliveries` shows what became of it."""
    with connect() as api:
        delivery = api.call(w.Delivery, "POST", f"/webhooks/{quote(name, safe='')}/ping")
    show.tell(output, delivery, lambda: show.out.say(delivery.id))


@app.command("deliveries")
def deliveries(
    webhook: Annotated[str | None, typer.Option(help="Of this webhook.")] = None,
    state: Annotated[str | None, typer.Option(help=", ".join(get_args(w.State)))] = None,
    submission: Annotated[str | None, typer.Option(help="About this submission.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500)] = 50,
    before: Annotated[str | None, typer.Option(help="Page on: the id that the page before ended with.")] = None,
    output: Output = show.OutputFormat.TABLE,
) -> None:
    """Calls to receivers and what became of them, newest first; they are kept for seven days."""
    filters = {"webhook": webhook, "state": state, "submission": submission, "before": before}
    params = {name: value for name, value in filters.items() if value is not None}
    with connect() as api:
        reply = api.call(w.DeliveriesReply, "GET", "/deliveries", params={**params, "limit": limit})
    show.tell(output, reply, lambda: show.out.print(_deliveries(reply)))
    if reply.next and output.for_people:
        show.err.say(f"more with --before {reply.next}", "dim")


@app.command("resend")
def resend(
    delivery: Annotated[str | None, typer.Argument(metavar="[ID]", help="A delivery's id.")] = None,
    webhook: Annotated[str | None, typer.Option(help="All of this webhook that were given up.")] = None,
    output: Output = show.OutputFormat.TABLE,
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
    show.tell(output, reply, lambda: show.out.say(f"{reply.count} sent again"))


def _webhooks(reply: w.WebhooksReply) -> show.Grid:
    table = show.grid("name", "url…", "events…", "of…", "waiting>!", "given up>!", "last try¶")
    for webhook in reply.webhooks:
        of = ", ".join(
            filter(None, [webhook.user and f"user {webhook.user}", webhook.problem and f"problem {webhook.problem}"])
        )
        events = " ".join(event.rpartition(".")[2] for event in webhook.events)
        failed = f"{webhook.failed} + {webhook.dropped} dropped" if webhook.dropped else str(webhook.failed)
        table.add_row(webhook.name, webhook.url, events, of or "all", str(webhook.waiting), failed, webhook.last)
    return table


def _deliveries(reply: w.DeliveriesReply) -> show.Grid:
    table = show.grid("id", "webhook…", "event", "submission", "state!", "tries>", "at (UTC)", "answer…")
    for delivery in reply.deliveries:
        at = delivery.ended or delivery.next or delivery.created
        status_text = f"{delivery.status or ''} {delivery.text}".strip()
        table.add_row(
            delivery.id,
            delivery.webhook,
            delivery.event.rpartition(".")[2],
            delivery.submission or "-",
            delivery.state,
            str(delivery.tries),
            at[:19].replace("T", " "),
            status_text[:120],
        )
    return table
