"""The page about webhooks, for admins: who is told, what became of each call. It works without JavaScript."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, get_args

from flask import flash, g, redirect, render_template, request, url_for
from pydantic import ValidationError

from judge.common.errors import NotFoundError, UsageError
from judge.gateway.api.routes import validated
from judge.gateway.pages import views
from judge.gateway.pages.table import listing, page, services
from judge.model import messages as m
from judge.model import webhooks as w

log = logging.getLogger(__name__)

_CONDITIONS: Final = ("webhook", "state", "submission", "before")


@page("/webhooks", role="admin")
def webhooks() -> Any:
    """All of them, and calls that meet the conditions of the query, newest first."""
    return _page()


def _page(*, added: w.WebhookAdded | None = None, error: str = "", status: int = 200) -> tuple[str, int]:
    deliveries = listing("deliveries", w.DeliveriesRequest, w.DeliveriesReply(deliveries=[]), _CONDITIONS)
    text = render_template(
        "webhooks.html",
        webhooks=services.cluster.call("webhooks", m.Empty(), w.WebhooksReply).webhooks,
        listing=deliveries,
        states=get_args(w.State),
        added=added,
        error=error,
        form=request.form,
    )
    return text, 400 if deliveries.error else status


@page("/webhooks/add", "POST", name="webhook_add", role="admin")
def add() -> Any:
    """The page with the secret, which is shown only once, or with what is wrong."""
    names = ("name", "url", "user", "problem")
    fields: dict[str, Any] = {name: value for name in names if (value := request.form.get(name, "").strip())}
    try:
        fields |= {"events": request.form.getlist("events"), "system": "system" in request.form}
        message = validated(w.WebhookAdd, fields, "the webhook")
        added = services.cluster.call("webhook_add", message, w.WebhookAdded)
    except UsageError as exc:
        return _page(error=str(exc), status=exc.http_status)
    log.info("%s set webhook '%s'", g.principal.user, added.webhook.name)
    return _page(added=added)


@page("/webhooks/<action>", "POST", name="webhook_act", role="admin")
def act(action: str) -> Any:
    """`ping`, `resend` or `remove`: done, and back to the list."""
    if action not in _ACTIONS:
        raise NotFoundError("there is no such page")
    try:
        flash(_ACTIONS[action](request.form), "good")
    except ValidationError:
        raise UsageError("this form names no webhook; go back and try again") from None
    except NotFoundError as exc:
        flash(f"{views.capitalize_first(str(exc))}.", "bad")
    return redirect(url_for("webhooks"), 303)


def _ping(form: Mapping[str, str]) -> str:
    ref = w.WebhookRef(name=form.get("name", ""))
    services.cluster.call("webhook_ping", ref, w.Delivery)
    return f"A test call to {ref.name} is on its way; its outcome appears in the list below."


def _resend(form: Mapping[str, str]) -> str:
    message = w.Resend(delivery=form.get("delivery") or None, webhook=form.get("name") or None)
    return f"Sent again: {services.cluster.call('webhook_resend', message, w.Resent).count}."


def _remove(form: Mapping[str, str]) -> str:
    ref = w.WebhookRef(name=form.get("name", ""))
    services.cluster.call("webhook_remove", ref, m.Empty)
    log.info("%s removed webhook '%s'", g.principal.user, ref.name)
    return f"Removed: {ref.name}, and its waiting calls."


_ACTIONS = {"ping": _ping, "resend": _resend, "remove": _remove}
