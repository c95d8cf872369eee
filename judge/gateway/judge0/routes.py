"""The table of Judge0's calls, and how they are served."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Final

from flask import Flask, Response, g, request

from judge.common.errors import JudgeError
from judge.config.services import Judge0
from judge.gateway import asking
from judge.gateway.api.routes import Services
from judge.gateway.auth import NOBODY, below
from judge.gateway.judge0.calls import Counted, Judge0Api, Offered
from judge.gateway.judge0.contents import Contents
from judge.gateway.judge0.wire import answer, error_answer
from judge.judge0.languages import Flavour

# Pages send headers of their own with a call; none means anything here but those of a token.
_HEADERS: Final = "Content-Type, Authorization, X-Auth-Token, X-Auth-User, X-RapidAPI-Key, X-RapidAPI-Host"
_NAMES: Final = re.compile(r"[A-Za-z0-9, _-]{1,1000}")

# A row: the methods, the path under the prefix, and the call.
_ROUTES: Final[list[tuple[str, str, Callable[..., tuple[Any, int]]]]] = [
    ("POST", "/submissions", Judge0Api.create),
    ("GET", "/submissions", Judge0Api.index),
    ("POST", "/submissions/batch", Judge0Api.create_batch),
    ("GET", "/submissions/batch", Judge0Api.show_batch),
    ("GET", "/submissions/<token>", Judge0Api.show),
    ("DELETE", "/submissions/<token>", Judge0Api.destroy),
    ("GET", "/languages", Judge0Api.languages),
    ("GET", "/languages/all", Judge0Api.languages_all),
    ("GET", "/languages/<number>", Judge0Api.language),
    ("GET", "/statuses", Judge0Api.statuses),
    ("GET", "/config_info", Judge0Api.config_info),
    ("GET", "/system_info", Judge0Api.system_info),
    ("GET", "/workers", Judge0Api.workers),
    ("GET", "/statistics", Judge0Api.statistics),
    ("GET", "/about", Judge0Api.about),
    ("GET", "/version", Judge0Api.version),
    ("GET", "/isolate", Judge0Api.isolate),
    ("GET", "/license", Judge0Api.license),
    ("POST", "/authenticate", Judge0Api.authenticate),
    ("POST", "/authorize", Judge0Api.authorize),
]


def register(app: Flask, services: Services) -> None:
    """Serve the API of both flavours, where the config says."""
    settings = services.config.judge0
    if not settings.enabled:
        return
    app.after_request(functools.partial(_for_scripts, settings))
    offered = Offered()
    flavours: dict[Flavour, str] = {"ce": settings.prefix, "extra": f"{settings.prefix}/extra"}
    for flavour, prefix in flavours.items():
        api = Judge0Api(services, flavour, offered, Counted())
        for method, path, call in _ROUTES:
            view = functools.partial(_answer, api, call)
            # Rails takes the name of the format behind a path, too; where an id ends the path, the calls do.
            for end in ("",) if path.endswith(">") else ("", ".json"):
                app.add_url_rule(
                    prefix + path + end,
                    endpoint=f"judge0.{flavour}.{call.__name__}",
                    view_func=view,
                    methods=[method, "OPTIONS"],
                    provide_automatic_options=False,
                    strict_slashes=False,
                )


def _answer(api: Judge0Api, call: Callable[..., tuple[Any, int]], **params: str) -> Response:
    asking.begin(request, NOBODY)
    if request.method == "OPTIONS":
        return Response(status=204)
    with Contents() as g.judge0_contents:
        try:
            body, status = call(api, **params)
        except JudgeError as exc:
            return error_answer(exc)
        response = body if isinstance(body, Response) else answer(body)
    response.status_code = status
    return response


def _for_scripts(settings: Judge0, response: Response) -> Response:
    """Let scripts of other sites read any answer below the prefix, where the config names these sites.

    No cookie counts here.
    """
    headers = settings.for_scripts(request.headers.get("Origin", ""))
    if headers and below(request.path, settings.prefix):
        response.headers.update(headers)
        if request.method == "OPTIONS":
            response.headers["Access-Control-Allow-Methods"] = "GET, POST, DELETE, OPTIONS"
            requested = request.headers.get("Access-Control-Request-Headers", "")
            response.headers["Access-Control-Allow-Headers"] = requested if _NAMES.fullmatch(requested) else _HEADERS
            response.headers["Access-Control-Max-Age"] = "600"
    return response
