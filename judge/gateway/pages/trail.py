"""The pages about the audit trail and deletions, for admins. They work without JavaScript."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from flask import flash, g, redirect, render_template, request, url_for

from judge.common.errors import ConflictError, NotFoundError
from judge.gateway.api import deleting
from judge.gateway.pages.table import listing, page, services
from judge.model.audit import AuditQuery, AuditReply, folded
from judge.model.deleting import DeletionPreview, Purged

_CONDITIONS = ("actor", "action", "object", "origin", "since", "until", "before")
_BACK = {"submission": "submissions", "problem": "problems", "user": "audit"}


@page("/audit", role="admin")
def audit() -> Any:
    entries = listing("audit", AuditQuery, AuditReply(entries=[]), _CONDITIONS, times=("since", "until"))
    text = render_template("audit.html", listing=entries, entries=folded(entries.reply.entries))
    return text, 400 if entries.error else 200


@page("/delete", name="delete", role="admin")
def ask() -> Any:
    """`submission`, `problem` or `user` in the query: what goes, what stays, and a button."""
    kind, name = _named(request.args)
    preview = services.cluster.call("delete_preview", deleting.deletion(kind, name), DeletionPreview)
    return render_template("delete.html", kind=kind, name=name, preview=preview, back=_BACK[kind])


@page("/delete/go", "POST", name="delete_go", role="admin")
def delete() -> Any:
    """Done, or back to the page that says why not, or that there is more."""
    kind, name = _named(request.form)
    again = redirect(f"{url_for('delete')}?{urlencode({kind: name})}", 303)
    try:
        done = deleting.delete(services.cluster, g.principal, deleting.deletion(kind, name))
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
    raise NotFoundError("the link names nothing to delete; begin at the page of a submission, problem or user")
