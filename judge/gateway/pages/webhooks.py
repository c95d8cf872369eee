"""The page about webhooks, for admins: who is told, what became of each call. It works without JavaScript."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args
from urllib.parse import urlencode

from flask import flash, g, redirect, render_template, request, url_for
from pydantic import ValidationError

from judge.common.errors import FieldError, JudgeError, LimitError, NotFoundError, UsageError
from judge.gateway import auth
from judge.gateway.api.routes import Services, field_error
from judge.model import messages as m
from judge.model import webhooks as w

log = logging.getLogger(__name__)

_PER_PAGE: Final = 50
_CONDITIONS: Final = ("webhook", "state", "submission", "before")


class WebhookPages:
    """The views; every one takes a session of role admin."""

    def __init__(self, services: Services) -> None:
        self._cluster = services.cluster
        self._acts: Mapping[str, Callable[[Mapping[str, str]], str]] = {
            "ping": self._ping,
            "resend": self._resend,
            "remove": self._remove,
        }

    def show(self) -> Any:
        """GET /webhooks: all of them, and calls that meet the conditions of the query, newest first."""
        auth.admins_only(g.principal, "this page")
        return self._page()

    def _page(self, *, added: w.WebhookAdded | None = None, error: str = "", status: int = 200) -> tuple[str, int]:
        conditions = {name: request.args.get(name, "").strip() for name in _CONDITIONS}
        filters = {name: value for name, value in conditions.items() if value}
        reply, search = w.DeliveriesReply(deliveries=[]), ""
        try:
            query = w.DeliveriesRequest.model_validate({**filters, "limit": _PER_PAGE})
            reply = self._cluster.call("deliveries", query, w.DeliveriesReply)
        except ValidationError as exc:
            search, status = str(field_error(exc, "the search")), 400
        address_fields = {name: value for name, value in filters.items() if name != "before"}
        page = render_template(
            "webhooks.html",
            hooks=self._cluster.call("webhooks", m.Empty(), w.WebhooksReply).webhooks,
            deliveries=reply.deliveries,
            given=conditions,
            states=get_args(w.State),
            events=w.EVENTS,
            added=added,
            error=error,
            search=search,
            form=request.form,
            older=urlencode({**address_fields, "before": reply.next}) if reply.next else "",
            newest=urlencode(address_fields),
        )
        return page, status

    def add(self) -> Any:
        """POST /webhooks/add: the page with the secret, which is shown this once, or with what is wrong."""
        auth.admins_only(g.principal, "this page")
        fields = {name: request.form.get(name, "").strip() for name in ("name", "url", "user", "problem")}
        values = {name: value for name, value in fields.items() if value}
        try:
            message = w.WebhookAdd.model_validate({**values, "events": request.form.getlist("events")})
            added = self._cluster.call("webhook_add", message, w.WebhookAdded)
        except ValidationError as exc:
            return self._page(error=str(field_error(exc, "the webhook")), status=400)
        except (FieldError, LimitError) as exc:
            return self._page(error=str(exc), status=exc.http_status)
        log.info("%s set webhook '%s'", g.principal.user, added.webhook.name)
        return self._page(added=added)

    def act(self, action: str) -> Any:
        """POST /webhooks/ping | resend | remove: done, and back to the list."""
        auth.admins_only(g.principal, "this page")
        if action not in self._acts:
            raise NotFoundError("there is no such page")
        try:
            flash(self._acts[action](request.form), "good")
        except ValidationError:
            raise UsageError("this form names no webhook; go back and try again") from None
        except NotFoundError as exc:
            flash(_sentence(exc), "bad")
        return redirect(url_for("webhooks"), 303)

    def _ping(self, form: Mapping[str, str]) -> str:
        ref = w.WebhookRef(name=form.get("name", ""))
        self._cluster.call("webhook_ping", ref, w.Delivery)
        return f"A call about nothing is on its way to {ref.name}; what became of it is in the list below."

    def _resend(self, form: Mapping[str, str]) -> str:
        message = w.Resend(delivery=form.get("delivery") or None, webhook=form.get("name") or None)
        count = self._cluster.call("webhook_resend", message, w.Resent).count
        return f"Sent again: {count}."

    def _remove(self, form: Mapping[str, str]) -> str:
        ref = w.WebhookRef(name=form.get("name", ""))
        self._cluster.call("webhook_remove", ref, m.Empty)
        log.info("%s removed webhook '%s'", g.principal.user, ref.name)
        return f"Removed: {ref.name}, and what waited for it."


def _sentence(exc: JudgeError) -> str:
    text = str(exc)
    return f"{text[:1].upper()}{text[1:]}."


def table(services: Services) -> list[tuple[str, str, Callable[..., Any], list[str]]]:
    """Address, name, view and methods of each page; `pages.register` serves them behind its login."""
    pages = WebhookPages(services)
    return [
        ("/webhooks", "webhooks", pages.show, ["GET"]),
        ("/webhooks/add", "webhook_add", pages.add, ["POST"]),
        ("/webhooks/<action>", "webhook_act", pages.act, ["POST"]),
    ]
