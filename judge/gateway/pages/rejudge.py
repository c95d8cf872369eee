"""The admins' pages of rejudgings: choose and preview, start, compare, apply or cancel."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from flask import flash, g, redirect, render_template, request, url_for
from pydantic import ValidationError

from judge.common.errors import JudgeError, UnavailableError
from judge.gateway import auth
from judge.gateway.api import models, rejudge
from judge.gateway.api.routes import Services, field_error
from judge.model import rejudging as r

_PER_PAGE = 50
LISTS = ("ids", "user", "problem", "language", "verdict", "executor")
TIMES = ("since", "until")


def filter_of(values: Mapping[str, str]) -> r.RejudgeFilter:
    """The filter that a form asks for: words apart by commas or blanks, times as browsers write them, in UTC.

    ValidationError names the field at fault.
    """
    conditions: dict[str, Any] = {
        name: values_of_list
        for name in LISTS
        if (values_of_list := [item for item in re.split(r"[,\s]+", values.get(name, "")) if item])
    }
    for name in TIMES:
        text = values.get(name, "").strip()
        if text:
            conditions[name] = text if re.search(r"(Z|[+-]\d\d:?\d\d)$", text) else f"{text}Z"
    return r.RejudgeFilter.model_validate(conditions)


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


class RejudgePages:
    """The views; every one takes a session of role judge."""

    def __init__(self, services: Services) -> None:
        self._cluster = services.cluster

    def overview(self) -> Any:
        """GET /rejudgings: the list, the form, and with conditions in the address what they find."""
        auth.judges_only(g.principal, "rejudging")
        return self._overview({name: request.args.get(name, "") for name in (*LISTS, *TIMES)}), 200

    def _overview(self, form: dict[str, str], error: str = "") -> str:
        preview = None
        if any(form[name] for name in (*LISTS, *TIMES)):
            try:
                preview = self._cluster.call("rejudge_preview", filter_of(form), r.RejudgePreview)
            except ValidationError as exc:
                error = error or str(field_error(exc, "the filter"))
            except UnavailableError:
                raise
            except JudgeError as exc:
                error = error or str(exc)
        listed = self._cluster.call("rejudgings", r.RejudgingsRequest(limit=_PER_PAGE), r.RejudgingsReply).rejudgings
        return render_template(
            "rejudgings.html", listed=listed, given=form, preview=preview, error=error, words=sentence
        )

    def start(self) -> Any:
        """POST /rejudgings."""
        auth.judges_only(g.principal, "rejudging")
        form = {name: request.form.get(name, "") for name in (*LISTS, *TIMES, "reason", "key")}
        try:
            body = models.RejudgeBody(filter=filter_of(form), reason=form["reason"].strip())
            rejudging = rejudge.start(self._cluster, g.principal, body, form["key"][:128] or None)
        except ValidationError as exc:
            return self._overview(form, str(field_error(exc, "the form"))), 400
        except UnavailableError:
            raise
        except JudgeError as exc:
            return self._overview(form, str(exc)), exc.http_status
        flash(f"Rejudging {rejudging.id} has begun, behind everything that people wait for.", "good")
        return redirect(url_for("rejudging", number=rejudging.id), 303)

    def rejudging(self, number: str) -> Any:
        """GET /rejudgings/N."""
        auth.judges_only(g.principal, "rejudging")
        all_rows = request.args.get("all", "") == "yes"
        after = request.args.get("after") or None
        try:
            message = r.RejudgeDiffRequest(id=rejudge.number_of(number), all=all_rows, limit=_PER_PAGE, after=after)
        except ValidationError as exc:
            raise field_error(exc, "the query") from None
        diff = self._cluster.call("rejudge_diff", message, r.RejudgeDiff)
        columns = sorted({after for row in diff.matrix.values() for after in row})
        next_page = urlencode({**({"all": "yes"} if all_rows else {}), "after": diff.next}) if diff.next else ""
        return render_template(
            "rejudging.html",
            one=diff.rejudging,
            diff=diff,
            columns=columns,
            whole=all_rows,
            more=next_page,
            words=sentence,
        )

    def act(self, number: str, *, apply: bool) -> Any:
        """POST /rejudgings/N/apply, /rejudgings/N/cancel."""
        auth.judges_only(g.principal, "rejudging")
        key = request.form.get("key", "")[:128] or None
        rejudging = rejudge.act(self._cluster, g.principal, rejudge.number_of(number), apply=apply, key=key)
        flash("Its verdicts count now." if apply else "Cancelled; every verdict stays as it was.", "good")
        return redirect(url_for("rejudging", number=rejudging.id), 303)


def table(services: Services) -> list[tuple[str, str, Callable[..., Any], list[str]]]:
    """Address, name, view and methods of each page; `pages.register` serves them behind its login."""
    pages = RejudgePages(services)
    return [
        ("/rejudgings", "rejudgings", pages.overview, ["GET"]),
        ("/rejudgings/start", "rejudge_start", pages.start, ["POST"]),
        ("/rejudgings/<number>", "rejudging", pages.rejudging, ["GET"]),
        ("/rejudgings/<number>/apply", "rejudge_apply", functools.partial(pages.act, apply=True), ["POST"]),
        ("/rejudgings/<number>/cancel", "rejudge_cancel", functools.partial(pages.act, apply=False), ["POST"]),
    ]
