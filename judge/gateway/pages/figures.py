"""The pages with figures over time: the cluster's work, and one executor. They work without JavaScript."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, get_args

from flask import g, render_template, request

from judge.common.errors import JudgeError
from judge.gateway import auth
from judge.gateway.api import figures as api
from judge.gateway.api import handlers
from judge.gateway.api.routes import Services
from judge.gateway.auth import Principal
from judge.gateway.cluster import Cluster
from judge.gateway.pages import charts
from judge.model.figures import FiguresRequest, Span
from judge.model.verdicts import Verdict

log = logging.getLogger(__name__)


def lately(cluster: Cluster, principal: Principal) -> list[charts.Chart]:
    """The overview's charts of the last hour; none when the figures cannot be had, since the rest of the page can."""
    try:
        reply = api.figures(cluster, principal, FiguresRequest(span="hour"))
    except JudgeError as exc:
        log.warning("the overview has no charts: %s", exc)
        return []
    return [charts.waiting(reply), charts.judged(reply)]


class FiguresPages:
    """The views; every one takes a session."""

    def __init__(self, services: Services) -> None:
        self._cluster = services.cluster

    def figures(self) -> Any:
        """GET /figures?span=hour|day: charts, and all of them as a table."""
        auth.judges_only(g.principal, "this page")
        span: Span = "day" if request.args.get("span") == "day" else "hour"
        reply = api.figures(self._cluster, g.principal, FiguresRequest(span=span))
        verdicts = [verdict for verdict in Verdict if any(verdict in point.verdicts for point in reply.points)]
        return render_template(
            "figures.html",
            reply=reply,
            spans=get_args(Span),
            charts=charts.all_of(reply, judges=g.principal.judges),
            rows=charts.rows(reply),
            seen=verdicts if g.principal.judges else [],
        )

    def executor(self, name: str) -> Any:
        """GET /executors/NAME: what it is and does, and how it was at its last starts; of one that is gone, those."""
        auth.judges_only(g.principal, "this page")
        history = api.history(self._cluster, g.principal, name)
        executors = handlers.executors(self._cluster, g.principal).executors
        return render_template(
            "executor.html",
            name=name,
            one=next((info for info in executors if info.name == name), None),
            starts=history.starts,
            measured=any(start.calibration for start in history.starts),
            drift=charts.drift(history.starts),
        )


def table(services: Services) -> list[tuple[str, str, Callable[..., Any], list[str]]]:
    """Address, name, view and methods of each page; `pages.register` serves them behind its login."""
    pages = FiguresPages(services)
    return [
        ("/figures", "figures", pages.figures, ["GET"]),
        ("/executors/<name>", "executor", pages.executor, ["GET"]),
    ]
