"""Figures over time in the HTTP API: the cluster's work for charts, and the starts of an executor."""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError

from judge.common.errors import NotFoundError
from judge.gateway import disclosure
from judge.gateway.api.routes import Call, Route
from judge.gateway.auth import Principal
from judge.gateway.cluster import Cluster
from judge.model import messages as m
from judge.model.figures import FiguresReply, FiguresRequest, HistoryReply, HistoryRequest

_NAME = TypeAdapter(m.Identifier)


def figures(cluster: Cluster, principal: Principal, query: FiguresRequest) -> FiguresReply:
    """The cluster's work over time, as this person may see it."""
    reply = cluster.call("figures", query, FiguresReply)
    return reply if principal.judges else disclosure.figures(reply)


def history(cluster: Cluster, principal: Principal, executor: str) -> HistoryReply:
    """The starts of an executor, as this person may see them; NotFoundError."""
    try:
        _NAME.validate_python(executor)
    except ValidationError:
        raise NotFoundError(f"there is no executor '{executor[:60]}'") from None
    reply = cluster.call("executor_history", HistoryRequest(executor=executor), HistoryReply)
    return reply if principal.admin else disclosure.history(reply)


def _figures(call: Call) -> m.Message:
    return figures(call.cluster, call.principal, call.query)


def _history(call: Call) -> m.Message:
    return history(call.cluster, call.principal, call.params["name"])


ROUTES: list[Route] = [
    Route("GET", "/figures", "figures", "The cluster's work in the last hour or day, step by step", _figures, "user",
          FiguresReply, query=FiguresRequest, calls=("figures",)),
    Route("GET", "/executors/<name>/history", "executor_history", "The last starts of an executor: versions, speed",
          _history, "user", HistoryReply, calls=("executor_history",)),
]  # fmt: skip
