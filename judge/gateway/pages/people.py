"""The pages for people. They work without JavaScript; a small script adds live updates."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

from flask import Flask, Response, flash, g, redirect, render_template, request, url_for
from markupsafe import Markup, escape
from pydantic import ValidationError

import judge
from judge.common import clock
from judge.common.errors import ForbiddenError, JudgeError, UsageError
from judge.gateway import asking, assets, auth
from judge.gateway.api import handlers as api
from judge.gateway.api import seen
from judge.gateway.api.routes import Services, field_error
from judge.gateway.auth import Principal
from judge.gateway.pages import account, editor, forms, submitting, views
from judge.gateway.pages import figures as figure_pages
from judge.gateway.pages import problem as problem_page
from judge.gateway.pages import rejudge as rejudge_pages
from judge.gateway.pages import submission as submission_page
from judge.gateway.pages import trail as trail_pages
from judge.gateway.pages import users as users_pages
from judge.gateway.pages import webhooks as webhook_pages
from judge.model import messages as m
from judge.model.overview import MarksReply, MarksRequest

log = logging.getLogger(__name__)

_PER_PAGE = 25
_LATEST = 8
_OPEN = {"GET", "HEAD"}
_MACHINES = "what is said of the cluster's machines"
# Forms with what somebody typed: it comes back whatever is wrong with the request.
_SUBMITTING = {"submit", "problem_submit"}
# Forms that take another scope than `submit`; what is for judges and admins follows from the role.
_SCOPES = {"password": "account", "token_make": "account", "token_revoke": "account"}


class Pages:
    """The views of one app."""

    def __init__(self, services: Services) -> None:
        self._cluster = services.cluster
        self._submitting = submitting.Submitting(services)

    # --- looking -----------------------------------------------------------------------------------------------

    def overview(self) -> Any:
        """GET /cluster: for judges and admins."""
        auth.judges_only(g.principal, _MACHINES)
        status = api.status(self._cluster, g.principal)
        latest = seen.search(self._cluster, g.principal, m.SearchRequest(limit=_LATEST))
        lately = figure_pages.lately(self._cluster, g.principal)
        return render_template("overview.html", status=status, tasks=latest.tasks, charts=lately)

    def submissions(self) -> Any:
        """GET /submissions: search and paging."""
        conditions = {key: value for key, value in request.args.items() if value}
        error = ""
        reply = m.SearchReply(tasks=[], next=None)
        try:
            query = m.SearchRequest.model_validate({"limit": _PER_PAGE, **conditions})
            reply = seen.search(self._cluster, g.principal, query)
        except ValidationError as exc:
            error = str(field_error(exc, "the search"))
        except (ForbiddenError, UsageError) as exc:
            error = str(exc)
        older = urlencode({**conditions, "before": reply.next}) if reply.next else ""
        newest = urlencode({key: value for key, value in conditions.items() if key != "before"})
        page = render_template(
            "submissions.html",
            tasks=reply.tasks,
            given=conditions,
            error=error,
            older=older,
            newest=newest,
            languages=api.languages(self._cluster),
            filtered=bool(set(conditions) - {"before", "limit"}),
        )
        return page, 400 if error else 200

    def cancel(self, task_id: str) -> Any:
        """POST /submissions/ID/cancel."""
        before = seen.own_task(self._cluster, g.principal, task_id)
        task = api.cancel(self._cluster, g.principal, task_id)
        if before.done:
            flash("It was finished already; its verdict stays.", "warn")
        elif task.status is m.Status.CANCELLED:
            flash("Cancelled.", "good")
        return redirect(url_for("submission", task_id=task_id), 303)

    def executors(self) -> Any:
        """GET /executors."""
        auth.judges_only(g.principal, _MACHINES)
        return render_template("executors.html", executors=api.executors(self._cluster, g.principal).executors)

    def drain(self, name: str, *, on: bool) -> Any:
        """POST /executors/NAME/drain, /executors/NAME/resume."""
        auth.admins_only(g.principal, "draining and resuming executors")
        reason = request.form.get("reason", "").strip()[:500]
        api.drain(self._cluster, g.principal, name, on=on, reason=reason)
        flash(f"{name} takes no more work." if on else f"{name} takes work again.", "good")
        return redirect(url_for("executors"), 303)

    def judicators(self) -> Any:
        """GET /judicators."""
        auth.judges_only(g.principal, _MACHINES)
        return render_template("judicators.html", status=api.status(self._cluster, g.principal))

    def problems(self) -> Any:
        """GET / and /problems: all of them, with marks at those that one has solved or tried."""
        problems = api.problems(self._cluster).problems
        return render_template("problems.html", problems=problems, marks=self._marks())

    def _marks(self) -> MarksReply:
        """The problems that are marked; none while that cannot be told, since the list can be shown without them."""
        try:
            return self._cluster.call("marks", MarksRequest(user=g.principal.user), MarksReply)
        except JudgeError as exc:
            log.warning("the list of problems has no marks: %s", exc)
            return MarksReply()

    # --- handing in --------------------------------------------------------------------------------------------

    def submit(self) -> Any:
        """GET and POST /submit."""
        if request.method in _OPEN:
            return self._submitting.page(self._submitting.prefilled()), 200
        form = submitting.posted()
        outcome = self._submitting.submit(form)
        if outcome.task is None:
            return self._submitting.page(form), outcome.status, outcome.headers
        return redirect(url_for("submission", task_id=outcome.task.id), 303)


def _editor() -> dict[str, str]:
    """The files that a page with an editor loads; none on a gateway without one."""
    names = {kind: f"codemirror.{kind}" for kind in ("js", "css")}
    return {kind: assets.address(name) for kind, name in names.items() if name in assets.assets()}


def _time_tag(text: str | None) -> Markup:
    """A stored time for people, in full when pointed at."""
    if not text:
        return Markup("&ndash;")
    html = '<time datetime="{}" title="{}">{}</time>'
    return Markup(html).format(escape(text), views.utc(text), views.ago(text, clock.wall()))  # noqa: S704 - a constant; format() escapes


def _check_scope(principal: Principal) -> None:
    """As for the API: what a session by token must be for. Who may not even read may log out."""
    if request.endpoint != "logout":
        principal.may("read" if request.method in _OPEN else _SCOPES.get(request.endpoint or "", "submit"))


def _check_form() -> None:
    g.csrf_valid = auth.csrf_valid(request)
    if not g.csrf_valid and request.endpoint not in _SUBMITTING:
        raise UsageError("this form is too old; go back, load the page again and repeat")


# Long, since the table of all pages stands in it.
def register(app: Flask, services: Services) -> None:
    """Serve the pages; every one but the login takes a session, every POST its CSRF token."""
    pages = Pages(services)
    app.jinja_env.filters.update(views.FILTERS | problem_page.FILTERS)
    app.jinja_env.filters["when"] = _time_tag
    app.jinja_env.globals.update(
        asset=assets.address,
        editor=_editor,
        guesses=editor.GUESSES,
        language_mode=editor.mode_of,
        csrf_token=auth.csrf_token,
        fresh_key=forms.new_key,
        version=judge.__version__,
        statuses=list(m.Status),
        verdicts=list(m.Verdict),
    )
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True

    def guarded(view: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(view)
        def inner(**params: str) -> Any:
            try:
                principal = services.identities.by_session()
            except JudgeError as exc:
                if request.endpoint not in _SUBMITTING or request.method in _OPEN:
                    raise
                return submitting.Submitting(services).later(exc), exc.http_status
            if principal is None:
                address = request.full_path.rstrip("?") if request.method in _OPEN else "/"
                return redirect(f"{url_for('login')}?next={quote(address, safe='')}", 303)
            g.principal = principal
            asking.begin(request, principal)
            _check_scope(principal)
            if request.method not in _OPEN:
                _check_form()
            return view(**params)

        return inner

    table: list[tuple[str, str, Callable[..., Any], list[str]]] = [
        ("/", "home", pages.problems, ["GET"]),
        ("/cluster", "overview", pages.overview, ["GET"]),
        ("/submit", "submit", pages.submit, ["GET", "POST"]),
        ("/submissions", "submissions", pages.submissions, ["GET"]),
        ("/submissions/<task_id>/cancel", "cancel", pages.cancel, ["POST"]),
        ("/executors", "executors", pages.executors, ["GET"]),
        ("/executors/<name>/drain", "drain", functools.partial(pages.drain, on=True), ["POST"]),
        ("/executors/<name>/resume", "resume", functools.partial(pages.drain, on=False), ["POST"]),
        ("/judicators", "judicators", pages.judicators, ["GET"]),
        ("/problems", "problems", pages.problems, ["GET"]),
        *submission_page.table(services),
        *figure_pages.table(services),
        *account.table(services),
        *users_pages.table(services),
        *problem_page.table(services),
        *rejudge_pages.table(services),
        *trail_pages.table(services),
        *webhook_pages.table(services),
    ]
    for path, name, view, methods in table:
        app.add_url_rule(path, name, guarded(view), methods=methods, provide_automatic_options=False)
    for path, name, view, methods in account.doors(services):
        app.add_url_rule(path, name, view, methods=methods, provide_automatic_options=False)
    app.add_url_rule("/favicon.ico", "favicon", _favicon, provide_automatic_options=False)

    @app.context_processor
    def _principal_context() -> dict[str, Principal | None]:
        return {"me": g.get("principal")}


def _favicon() -> Response:
    return redirect(assets.address("icon.svg"), 301)  # type: ignore[return-value]
