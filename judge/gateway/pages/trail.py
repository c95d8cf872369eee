"""The pages about the audit trail and deletions, for admins. They work without JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from flask import flash, g, redirect, render_template, request, url_for
from pydantic import ValidationError

from judge.common.errors import ConflictError, NotFoundError
from judge.gateway import auth
from judge.gateway.api import deleting
from judge.gateway.api.routes import Services, field_error
from judge.gateway.pages import views
from judge.model.audit import AuditQuery, AuditReply
from judge.model.deleting import DeletionPreview, DeletionWanted, Purged

_PER_PAGE = 50
_CONDITIONS = ("actor", "action", "object", "origin", "since", "until", "before")
_BACK = {"submission": "submissions", "problem": "problems", "user": "audit"}


class TrailPages:
    """The views; every one takes a session of role admin."""

    def __init__(self, services: Services) -> None:
        self._cluster = services.cluster

    def audit(self) -> Any:
        """GET /audit: search and paging."""
        auth.admins_only(g.principal, "this page")
        conditions = {name: request.args.get(name, "").strip() for name in _CONDITIONS}
        query = {name: value for name, value in conditions.items() if value}
        for name in ("since", "until"):
            if name in query:
                query[name] = views.utc_time(query[name])
        error, reply = "", AuditReply(entries=[])
        try:
            reply = self._cluster.call("audit", AuditQuery.model_validate({**query, "limit": _PER_PAGE}), AuditReply)
        except ValidationError as exc:
            error = str(field_error(exc, "the search"))
        filters = {name: value for name, value in conditions.items() if value and name != "before"}
        older = urlencode({**filters, "before": reply.next}) if reply.next else ""
        page = render_template(
            "audit.html", entries=reply.entries, given=conditions, error=error, older=older, newest=urlencode(filters)
        )
        return page, 400 if error else 200

    def ask(self) -> Any:
        """GET /delete?submission= | problem= | user=: what goes, what stays, and a button."""
        auth.admins_only(g.principal, "this page")
        kind, name = _named(request.args)
        preview = self._cluster.call("delete_preview", deleting.deletion(kind, name), DeletionPreview)
        return render_template("delete.html", kind=kind, name=name, seen=preview, back=_BACK[kind])

    def delete(self) -> Any:
        """POST /delete: done, or back to the page that says why not, or that there is more."""
        auth.admins_only(g.principal, "this page")
        kind, name = _named(request.form)
        target: DeletionWanted = deleting.deletion(kind, name)
        again = redirect(f"{url_for('delete')}?{urlencode({kind: name})}", 303)
        try:
            done = deleting.delete(self._cluster, g.principal, target)
        except ConflictError as exc:
            flash(f"Not deleted: {exc}", "bad")
            return again
        if isinstance(done, Purged) and done.left:
            flash(f"{done.deleted} submissions are deleted, {done.left} are left: go on below.", "warn")
            return again
        flash(f"Deleted: {kind} {name}.", "good")
        return redirect(url_for(_BACK[kind]), 303)


def _named(values: Any) -> tuple[str, str]:
    """The kind of thing that a query or form names, and its name."""
    for kind in _BACK:
        name = str(values.get(kind, "")).strip()
        if name:
            return kind, name
    raise NotFoundError("nothing is named that could be deleted; begin at a submission, problem or user")


def table(services: Services) -> list[tuple[str, str, Callable[..., Any], list[str]]]:
    """Address, name, view and methods of each page; `pages.register` serves them behind its login."""
    pages = TrailPages(services)
    return [
        ("/audit", "audit", pages.audit, ["GET"]),
        ("/delete", "delete", pages.ask, ["GET"]),
        ("/delete/go", "delete_go", pages.delete, ["POST"]),
    ]
