"""The pages for people. They work without JavaScript; a small script adds live updates."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from flask import Flask, Response, flash, g, redirect, render_template, request, url_for
from markupsafe import Markup, escape

import judge
from judge.common import clock
from judge.common.errors import ForbiddenError, JudgeError, UsageError
from judge.gateway import asking, assets, auth, editor
from judge.gateway.api import handlers as api
from judge.gateway.api import people, seen
from judge.gateway.api.results import every_result
from judge.gateway.api.routes import parse_query, validated
from judge.gateway.pages import (  # noqa: F401 - each enters its views in the table
    account,
    figures,
    forms,
    guide,
    problem,
    reference,
    rejudge,
    submission,
    submitting,
    trail,
    users,
    views,
    webhooks,
)
from judge.gateway.pages.table import PAGES, Listing, Page, View, page, services
from judge.model import messages as m
from judge.model import results
from judge.model.overview import MarksReply, MarksRequest
from judge.model.results import ResultsQuery

log = logging.getLogger(__name__)

_PER_PAGE = 25
_LATEST = 8
_OPEN = {"GET", "HEAD"}
_MACHINES = "information about the cluster's machines"
# Forms with what somebody typed: it comes back whatever is wrong with the request.
_SUBMITTING = {"submit", "problem_submit"}


@page("/cluster", role="judge", subject=_MACHINES)
def overview() -> Any:
    status = api.status(services.cluster, g.principal)
    latest = seen.search(services.cluster, g.principal, m.SearchRequest(limit=_LATEST))
    return render_template("overview.html", status=status, tasks=latest.tasks, charts=figures.lately())


@page("/submissions")
def submissions() -> Any:
    conditions = {key: value for key, value in request.args.items() if value}
    error, reply = "", m.SearchReply(tasks=[], next=None)
    try:
        query = validated(m.SearchRequest, {"limit": _PER_PAGE, **conditions}, "the search")
        reply = seen.search(services.cluster, g.principal, query)
    except UsageError as exc:
        error = str(exc)
    older = urlencode({**conditions, "before": reply.next}) if reply.next else ""
    newest = urlencode({key: value for key, value in conditions.items() if key != "before"})
    text = render_template(
        "submissions.html",
        listing=Listing(conditions, reply, error, older, newest),
        choices=_choices(conditions),
        names=people.display_names(services.cluster, g.principal, (task.submission.user for task in reply.tasks)),
        filtered=bool(set(conditions) - {"before", "limit"}),
        visible=_visible(reply.tasks),
    )
    return text, 400 if error else 200


def _visible(tasks: Sequence[m.Task]) -> set[str] | None:
    """The names of the problems that this person sees; None: all of those that these tasks are for."""
    if g.principal.judges or not any(task.submission.problem for task in tasks):
        return None
    return {problem.name for problem in api.problems(services.cluster).problems}


@page("/results.csv", role="judge", subject="the results of all people")
def results_csv() -> Any:
    """The results as a file, by the conditions of the API's call."""
    rows = every_result(services.cluster, g.principal, parse_query(ResultsQuery))
    headers = {"Content-Disposition": "attachment; filename=results.csv"}
    return Response(results.written(rows).encode("utf-8-sig"), mimetype="text/csv", headers=headers)


def _choices(conditions: Mapping[str, str]) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """The fields of the search that have options: name, text, and the values with their words."""
    languages = {language.name: language.title for language in api.languages(services.cluster)}
    if language := conditions.get("language"):
        languages.setdefault(language, language)
    verdicts = [(verdict.value, f"{verdict.value} \N{EN DASH} {verdict.about.title}") for verdict in m.Verdict]
    verdicts[0] = ("AC", f"{verdicts[0][1]}, or ran")  # without a problem
    statuses = [(status.value, views.look(status).text) for status in m.Status]
    options = {"language": list(languages.items()), "verdict": verdicts, "status": statuses}
    return [(name, name.capitalize(), [("", "any"), *rows]) for name, rows in options.items()]


@page("/submissions/<task_id>/cancel", "POST")
def cancel(task_id: str) -> Any:
    before = seen.own_task(services.cluster, g.principal, task_id)
    task = api.cancel(services.cluster, g.principal, task_id)
    if before.done:
        flash("It was already finished; its verdict stays.", "warn")
    elif task.status is m.Status.CANCELLED:
        flash("Cancelled.", "good")
    return redirect(url_for("submission", task_id=task_id), 303)


@page("/executors", role="judge", subject=_MACHINES)
def executors() -> Any:
    return render_template("executors.html", executors=api.executors(services.cluster, g.principal).executors)


@page("/executors/<name>/drain", "POST", role="admin", subject="draining and resuming executors")
def drain(name: str) -> Any:
    reason = request.form.get("reason", "").strip()[:500]
    api.drain(services.cluster, g.principal, name, on=True, reason=reason)
    flash(f"{name} takes no more work.", "good")
    return redirect(url_for("executors"), 303)


@page("/executors/<name>/resume", "POST", role="admin", subject="draining and resuming executors")
def resume(name: str) -> Any:
    api.drain(services.cluster, g.principal, name, on=False, reason="")
    flash(f"{name} takes work again.", "good")
    return redirect(url_for("executors"), 303)


@page("/judicators", role="judge", subject=_MACHINES)
def judicators() -> Any:
    return render_template("judicators.html", status=api.status(services.cluster, g.principal))


@page("/", name="home")
@page("/problems")
def problems() -> Any:
    """All of them, or those with a tag, with marks at those that one has solved or tried."""
    rows = api.problems(services.cluster).problems
    tag = request.args.get("tag", "").strip().lower()
    tags = sorted({label for row in rows for label in row.tags})
    if tag:
        rows = [row for row in rows if tag in row.tags]
    marks = MarksReply()
    try:
        marks = services.cluster.call("marks", MarksRequest(user=g.principal.user), MarksReply)
    except JudgeError as exc:  # the list can be shown without them
        log.warning("the list of problems has no marks: %s", exc)
    return render_template("problems.html", problems=rows, marks=marks, tag=tag, tags=tags)


@page("/submit", "GET", "POST")
def submit() -> Any:
    if request.method in _OPEN:
        return submitting.page(submitting.prefilled())
    form = submitting.posted()
    outcome = submitting.submit(form)
    if outcome.task is None:
        return submitting.page(form), outcome.status, outcome.headers
    return redirect(url_for("submission", task_id=outcome.task.id), 303)


@page("/favicon.ico", role="none")
def favicon() -> Any:
    """As browsers ask for it that have not read a page yet."""
    return redirect(assets.address("icon.svg"), 301)


def _editor() -> dict[str, Any]:
    """What the script that loads the editor has to know; nothing on a gateway without one."""
    if not editor.available():
        return {}
    files = {kind: assets.address(f"codemirror.{kind}") for kind in ("js", "css")}
    return {**files, "guesses": editor.GUESSES}


def _editor_mode(language: str) -> dict[str, str]:
    """The attributes of a language's option, which say how the editor colours it."""
    name, media = editor.mode_of(language)
    file = f"mode-{name}.js"
    return {"data-mode": media, "data-file": assets.address(file)} if file in assets.assets() else {}


def _time_tag(text: str | None) -> Markup:
    """A stored time for people, in full when pointed at."""
    if not text:
        return Markup("&ndash;")
    html = '<time datetime="{}" title="{}">{}</time>'
    return Markup(html).format(escape(text), views.utc(text), views.ago(text, clock.wall()))  # noqa: S704 - a constant; format() escapes


def _guarded(row: Page) -> View:
    """A view behind the log-in, the role of its row, and for every POST the CSRF token of the session."""

    @functools.wraps(row.view)
    def inner(**params: str) -> Any:
        reads = request.method in _OPEN
        try:
            principal = services.identities.by_session()
        except JudgeError as exc:
            if row.name not in _SUBMITTING or reads:
                raise
            return submitting.later(exc), exc.http_status
        if principal is None:
            address = request.full_path.rstrip("?") if reads else "/"
            return redirect(f"{url_for('login')}?next={quote(address, safe='')}", 303)
        g.principal = principal
        asking.begin(principal)
        scope = row.scope or ("read" if reads else "submit")
        if scope != "none":
            principal.may(scope)
        g.csrf_valid = reads or auth.csrf_valid(request)
        if not g.csrf_valid and row.name not in _SUBMITTING:
            raise UsageError("this form is too old; go back, load the page again and repeat")
        if auth.RANK[principal.role] < auth.RANK[row.role]:
            raise ForbiddenError(f"{row.subject} requires a token of role {row.role}")
        return row.view(**params)

    return inner


def register(app: Flask) -> None:
    app.jinja_env.filters.update(views.FILTERS | problem.FILTERS)
    app.jinja_env.filters["when"] = _time_tag
    app.jinja_env.globals.update(
        asset=assets.address,
        editor=_editor,
        editor_mode=_editor_mode,
        csrf_token=auth.csrf_token,
        fresh_key=forms.new_key,
        version=judge.__version__,
    )
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    for row in PAGES:
        view = row.view if row.role == "none" else _guarded(row)
        app.add_url_rule(row.path, row.name, view, methods=row.methods, provide_automatic_options=False)
    app.context_processor(lambda: {"me": g.get("principal")})
