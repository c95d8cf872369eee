"""Webhooks in the HTTP API; for admins."""

from __future__ import annotations

import logging

from pydantic import TypeAdapter, ValidationError

from judge.common.errors import NotFoundError
from judge.gateway.api.routes import Call, Reply, Route
from judge.model import messages as m
from judge.model import webhooks as w

log = logging.getLogger(__name__)

_NAME = TypeAdapter(m.Identifier)


def _ref(call: Call) -> w.WebhookRef:
    try:
        return w.WebhookRef(name=_NAME.validate_python(call.params["name"]))
    except ValidationError:
        raise NotFoundError(f"there is no webhook '{call.params['name'][:60]}'") from None


def _add(call: Call) -> Reply:
    added = call.cluster.call("webhook_add", call.body, w.WebhookAdded)
    log.info("%s set webhook '%s'", call.principal.user, added.webhook.name)
    return Reply(added, 201)


def _remove(call: Call) -> m.Message:
    ref = _ref(call)
    call.cluster.call("webhook_remove", ref, m.Empty)
    log.info("%s removed webhook '%s'", call.principal.user, ref.name)
    return m.Empty()


def _ping(call: Call) -> m.Message:
    return call.cluster.call("webhook_ping", _ref(call), w.Delivery)


ROUTES: list[Route] = [
    Route("GET", "/webhooks", "webhooks", "All webhooks", None, "admin", w.WebhooksReply, calls=("webhooks",)),
    Route("POST", "/webhooks", "add_webhook", "Add a webhook, or change it; the secret is shown this once", _add,
          "admin", w.WebhookAdded, 201, body=w.WebhookAdd, calls=("webhook_add",)),
    Route("DELETE", "/webhooks/<name>", "remove_webhook", "Remove a webhook and what waits for it", _remove, "admin",
          m.Empty, calls=("webhook_remove",)),
    Route("POST", "/webhooks/<name>/ping", "ping_webhook", "Send a call that is about nothing", _ping, "admin",
          w.Delivery, 201, calls=("webhook_ping",)),
    Route("GET", "/deliveries", "deliveries", "Calls to receivers, newest first", None, "admin", w.DeliveriesReply,
          query=w.DeliveriesRequest, calls=("deliveries",)),
    Route("POST", "/deliveries/resend", "resend", "Send one delivery again, or all of a webhook that were given up",
          None, "admin", w.Resent, body=w.Resend, calls=("webhook_resend",)),
]  # fmt: skip
