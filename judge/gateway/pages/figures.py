"""The pages with figures over time: the cluster's work, and one executor. They work without JavaScript."""

from __future__ import annotations

import logging
from typing import Any, get_args

from flask import g, render_template, request

from judge.common.errors import JudgeError
from judge.gateway.api import handlers as api
from judge.gateway.pages import charts
from judge.gateway.pages.table import page, services
from judge.model.figures import FiguresRequest, Span
from judge.model.verdicts import Verdict

log = logging.getLogger(__name__)


def lately() -> list[charts.Chart]:
    """The overview's charts of the last hour; none when the figures cannot be had, since the rest of the page can."""
    try:
        reply = api.figures(services.cluster, g.principal, FiguresRequest(span="hour"))
    except JudgeError as exc:
        log.warning("the overview has no charts: %s", exc)
        return []
    return [charts.waiting(reply), charts.judged(reply)]


@page("/figures", role="judge")
def figures() -> Any:
    """Charts of the hour or day, and all of them as a table."""
    span: Span = "day" if request.args.get("span") == "day" else "hour"
    reply = api.figures(services.cluster, g.principal, FiguresRequest(span=span))
    return render_template(
        "figures.html",
        reply=reply,
        spans=get_args(Span),
        charts=charts.all_of(reply),
        rows=charts.rows(reply),
        verdicts=[verdict for verdict in Verdict if any(verdict in point.verdicts for point in reply.points)],
    )


@page("/executors/<name>", role="judge")
def executor(name: str) -> Any:
    """What it is and does, and how it was at its last starts; of an executor that is gone, those alone."""
    starts = api.history(services.cluster, g.principal, name).starts
    executors = api.executors(services.cluster, g.principal).executors
    return render_template(
        "executor.html",
        name=name,
        executor=next((state for state in executors if state.name == name), None),
        starts=starts,
        measured=any(start.calibration for start in starts),
        drift=charts.drift(starts),
    )
