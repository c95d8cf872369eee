"""The WSGI app (seed: Gateway Server): the API and the pages in one Flask app, and what every answer has in common."""

from __future__ import annotations

import datetime
import logging
from typing import cast

from flask import Flask, Response, current_app, g, render_template, request
from prometheus_client import Counter, Histogram
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from judge.common import clock
from judge.common.errors import JudgeError, NotFoundError, TooLargeError, UsageError
from judge.common.text import size
from judge.config import GatewayConfig
from judge.gateway import trace
from judge.gateway.admission import Admission
from judge.gateway.api import answers, routes
from judge.gateway.api import handlers as api
from judge.gateway.auth import FileTokens, below, cookie_name, read_session_key, sign_with
from judge.gateway.cluster import Cluster
from judge.gateway.identity import Identities
from judge.gateway.judge0 import calls as judge0
from judge.gateway.judge0 import wire
from judge.gateway.notes import Notes
from judge.gateway.pages import people as pages
from judge.gateway.pages import views
from judge.gateway.policy import HEADERS, SECURE_HEADERS
from judge.gateway.providers import Providers
from judge.gateway.statements.shown import Statements
from judge.model.people import SESSION_SECONDS

log = logging.getLogger(__name__)

REQUESTS = Counter("judge_gateway_requests_total", "HTTP requests by route and status", ["route", "status"])
SECONDS = Histogram("judge_gateway_request_seconds", "Time to answer an HTTP request, without long polls", ["route"])

_FORM = 1024**2  # the parser's own buffer counts as well
_PLAIN_FORM, _FIELDS = "application/x-www-form-urlencoded", 1000
_SESSION = datetime.timedelta(seconds=SESSION_SECONDS)


def create_app(config: GatewayConfig) -> Flask:
    """The app for one worker process. ConfigError when tokens or session key cannot be used.

    Nothing is connected before the first request, which is after uWSGI's fork.
    """
    app = Flask("judge.gateway", static_folder=None, template_folder="templates")
    app.jinja_options = {**app.jinja_options, "finalize": views.as_shown}
    sign_with(app, read_session_key(config.session_key))
    app.config.update(
        MAX_CONTENT_LENGTH=config.limits.body_bytes,
        MAX_FORM_MEMORY_SIZE=max(config.limits.body_bytes, _FORM),
        PERMANENT_SESSION_LIFETIME=_SESSION,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_NAME=cookie_name(config),
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_SECURE=config.secure_cookies,
        # A call that was held for a while must not bring back a session that has changed or ended meanwhile.
        SESSION_REFRESH_EACH_REQUEST=False,
    )
    tokens, cluster = FileTokens(config.tokens), Cluster(config)
    identities = Identities(tokens, cluster)
    services = routes.Services(config, identities, cluster, Notes(cluster), Statements(cluster), Providers(config))
    app.extensions["judge"] = services
    routes.register(app, services, api.ROUTES)
    pages.register(app)
    judge0.register(app, services)
    app.before_request(_begin)
    app.after_request(_finish)
    admission = Admission(config, tokens, identities)
    admission.register(app)
    cluster.held = admission.place
    app.before_request(_check_form)
    app.register_error_handler(JudgeError, _judge_error)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Exception, _unknown)
    return app


def _begin() -> None:
    g.started = clock.monotonic()
    trace.begin(request)


def _check_form() -> None:
    # The parser of the other kind of form bounds its fields itself.
    if request.mimetype == _PLAIN_FORM and request.get_data().count(b"&") > _FIELDS:
        raise UsageError(f"the form has more than {_FIELDS} fields")


def _finish(response: Response) -> Response:
    names = {name.lower() for name, _ in response.headers}
    for name, value in (HEADERS | SECURE_HEADERS if request.is_secure else HEADERS).items():
        if name.lower() not in names:
            response.headers.add(name, value)
    response.headers[trace.HEADER] = trace.current()
    trace.ended(request, response)
    if "retry_after" in g:
        response.headers["Retry-After"] = str(g.retry_after)
    response.headers.setdefault("Cache-Control", "no-store")
    route = request.endpoint or "unknown"
    REQUESTS.labels(route, response.status_code).inc()
    if "wait" not in request.args:
        SECONDS.labels(route).observe(clock.monotonic() - g.started)
    return response


def _for_program() -> bool:
    return request.path.startswith("/api/")


def _answer(error: JudgeError) -> Response:
    if _for_program():
        return answers.error_response(error, request.headers.get("Accept", ""))
    settings = cast("routes.Services", current_app.extensions["judge"]).config.judge0
    if settings.enabled and below(request.path, settings.prefix):
        return wire.error_answer(error)
    title = {400: "That did not work", 403: "Not allowed", 404: "Not found", 503: "Please wait", 504: "Please wait"}
    page = render_template(
        "error.html",
        title=title.get(error.http_status, "That did not work"),
        error=error,
        retry=error.http_status in {503, 504},
    )
    return Response(page, error.http_status, answers.retrying(error, pause=5))


def _judge_error(error: Exception) -> Response:
    return _answer(cast("JudgeError", error))


def _http(error: Exception) -> Response:
    """The answer, in our own words, to what Flask and Werkzeug refuse by themselves."""
    fault = cast("HTTPException", error)
    if fault.code is not None and fault.code < 400:
        return Response(fault.get_body(), fault.code, fault.get_headers())
    judge_error: JudgeError
    if fault.code == 404:
        judge_error = NotFoundError(f"there is nothing at {request.path[:100]}")
    elif isinstance(fault, MethodNotAllowed):
        judge_error = routes.MethodError(f"{request.path[:100]} does not take {request.method}")
    elif fault.code == 413:
        services: routes.Services = current_app.extensions["judge"]
        judge_error = TooLargeError(
            f"the body is too large; at most {size(services.config.limits.body_bytes)} are accepted"
        )
    else:
        judge_error = UsageError(f"the request cannot be understood: {fault.description}")
    response = _answer(judge_error)
    if isinstance(fault, MethodNotAllowed) and fault.valid_methods:
        response.headers["Allow"] = ", ".join(sorted(fault.valid_methods))
    return response


def _unknown(error: Exception) -> Response:
    """A fault of ours: the log has everything, the person a number to quote."""
    log.error("internal error %s in %s %s", trace.current(), request.method, request.path, exc_info=error)
    return _answer(JudgeError(f"internal error {trace.current()}; the gateway's log has the details under this number"))
