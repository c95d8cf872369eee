"""The admins' pages of rejudgings: choose and preview, start, compare, apply or cancel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from flask import flash, g, redirect, render_template, request, url_for

from judge.common.errors import JudgeError
from judge.gateway.api import models, rejudge
from judge.gateway.api.routes import validated
from judge.gateway.pages.table import page, reason, services
from judge.model import rejudging as r

_PER_PAGE = 50
LISTS = ("ids", "user", "problem", "language", "verdict", "executor")
TIMES = ("since", "until")


def filter_of(values: Mapping[str, str], subject: str = "the filter") -> r.RejudgeFilter:
    """The filter that a form asks for: words apart by commas or blanks, times as browsers write them, in UTC."""
    lists = {name: [item for item in re.split(r"[,\s]+", values.get(name, "")) if item] for name in LISTS}
    conditions: dict[str, Any] = {name: items for name, items in lists.items() if items}
    for name in TIMES:
        if text := values.get(name, "").strip():
            conditions[name] = text if re.search(r"(Z|[+-]\d\d:?\d\d)$", text) else f"{text}Z"
    return validated(r.RejudgeFilter, conditions, subject)


def sentence(conditions: r.RejudgeFilter) -> str:
    """A filter as people say it."""
    parts = []
    for name in LISTS:
        values = [str(value) for value in getattr(conditions, name)]
        if values:
            suffix = f" and {len(values) - 4} more" if len(values) > 4 else ""
            parts.append(f"{name.replace('ids', 'id')} {', '.join(values[:4])}{suffix}")
    for name in TIMES:
        moment = getattr(conditions, name)
        if moment is not None:
            parts.append(f"{name} {moment:%Y-%m-%d %H:%M} UTC")
    return "; ".join(parts)


@page("/rejudgings", role="judge", subject="rejudging")
def rejudgings() -> Any:
    """The list, the form, and with conditions in the address what they find."""
    return _overview({name: request.args.get(name, "") for name in (*LISTS, *TIMES)})


def _overview(form: dict[str, str], error: str = "") -> str:
    preview = None
    if any(form[name] for name in (*LISTS, *TIMES)):
        try:
            preview = services.cluster.call("rejudge_preview", filter_of(form), r.RejudgePreview)
        except JudgeError as exc:
            error = error or reason(exc)
    listed = services.cluster.call("rejudgings", r.RejudgingsRequest(limit=_PER_PAGE), r.RejudgingsReply).rejudgings
    return render_template(
        "rejudgings.html", rejudgings=listed, conditions=form, preview=preview, error=error, words=sentence
    )


@page("/rejudgings/start", "POST", name="rejudge_start", role="judge", subject="rejudging")
def start() -> Any:
    """To the new rejudging, or the list with what is wrong."""
    form = {name: request.form.get(name, "") for name in (*LISTS, *TIMES, "reason", "key")}
    try:
        fields = {"filter": filter_of(form, "the form"), "reason": form["reason"].strip()}
        body = validated(models.RejudgeBody, fields, "the form")
        new = rejudge.start(services.cluster, g.principal, body, form["key"][:128] or None)
    except JudgeError as exc:
        return _overview(form, reason(exc)), exc.http_status
    flash(f"Rejudging {new.id} has begun, behind everything that people wait for.", "good")
    return redirect(url_for("rejudging", number=new.id), 303)


@page("/rejudgings/<number>", role="judge", subject="rejudging")
def rejudging(number: str) -> Any:
    show_all = request.args.get("all", "") == "yes"
    fields = {"id": rejudge.number_of(number), "all": show_all, "after": request.args.get("after") or None}
    query = validated(r.RejudgeDiffRequest, {**fields, "limit": _PER_PAGE}, "the query")
    diff = services.cluster.call("rejudge_diff", query, r.RejudgeDiff)
    return render_template(
        "rejudging.html",
        rejudging=diff.rejudging,
        diff=diff,
        columns=sorted({verdict for row in diff.matrix.values() for verdict in row}),
        whole=show_all,
        more=urlencode({**({"all": "yes"} if show_all else {}), "after": diff.next}) if diff.next else "",
        words=sentence,
    )


@page("/rejudgings/<number>/apply", "POST", name="rejudge_apply", role="judge", subject="rejudging")
def apply(number: str) -> Any:
    return _act(number, apply=True)


@page("/rejudgings/<number>/cancel", "POST", name="rejudge_cancel", role="judge", subject="rejudging")
def cancel(number: str) -> Any:
    return _act(number, apply=False)


def _act(number: str, *, apply: bool) -> Any:
    key = request.form.get("key", "")[:128] or None
    settled = rejudge.act(services.cluster, g.principal, rejudge.number_of(number), apply=apply, key=key)
    flash("Its verdicts count now." if apply else "Cancelled; every verdict stays as it was.", "good")
    return redirect(url_for("rejudging", number=settled.id), 303)
