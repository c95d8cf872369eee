"""Deleting in the HTTP API: the handlers and their rows of the table of routes. All of it is for admins."""

from __future__ import annotations

import functools

from pydantic import ValidationError

from judge.common.errors import ForbiddenError, NotFoundError
from judge.gateway.api import models
from judge.gateway.api.routes import Call, Route
from judge.gateway.auth import Principal
from judge.gateway.cluster import Cluster
from judge.model import messages as m
from judge.model.deleting import Deleted, DeletionPreview, DeletionWanted, ProblemName, Purged, PurgeRequest

# --- what pages use as well ------------------------------------------------------------------------------------


def deletion(kind: str, name: str) -> DeletionWanted:
    """The thing that an address names; NotFoundError also for one that cannot exist."""
    try:
        return DeletionWanted.model_validate({kind: name})
    except ValidationError:
        raise NotFoundError(f"there is no {kind} '{name[:60]}'") from None


def delete(cluster: Cluster, principal: Principal, target: DeletionWanted) -> Deleted | Purged:
    """Delete a submission or a problem, or as much of a person's data as one call may."""
    if target.submission is not None:
        return cluster.call("delete_submission", m.TaskRef(id=target.submission), Deleted)
    if target.problem is not None:
        return cluster.call("delete_problem", ProblemName(name=target.problem), Deleted)
    return _purged(cluster, principal, PurgeRequest(user=str(target.user)))


def _purged(cluster: Cluster, principal: Principal, request: PurgeRequest) -> Purged:
    """One call of a purge; ForbiddenError for who would delete the account that they come with."""
    if principal.account and request.user == principal.user:
        raise ForbiddenError(f"user '{request.user}' is you; another admin can delete the account with its data")
    return cluster.call("purge", request, Purged)


# --- handlers --------------------------------------------------------------------------------------------------


def _delete(kind: str, call: Call) -> m.Message:
    (name,) = call.params.values()
    return delete(call.cluster, call.principal, deletion(kind, name))


def _purge(call: Call) -> m.Message:
    user = deletion("user", call.params["name"]).user
    return _purged(call.cluster, call.principal, PurgeRequest(user=str(user), until=call.query.until))


ROUTES: list[Route] = [
    Route("POST", "/deletions/preview", "delete_preview", "Preview the effects of a deletion", None,
          "admin", DeletionPreview, body=DeletionWanted, calls=("delete_preview",)),
    Route("DELETE", "/submissions/<id>", "delete_submission", "Delete a finished submission",
          functools.partial(_delete, "submission"), "admin", Deleted, calls=("delete_submission",)),
    Route("DELETE", "/problems/<name>", "delete_problem", "Delete a problem; submissions to it stay",
          functools.partial(_delete, "problem"), "admin", Deleted, calls=("delete_problem",)),
    Route("DELETE", "/users/<name>/data", "purge", "Delete a person's data; repeat the call until nothing is "
                                                   "left", _purge,
          "admin", Purged, query=models.PurgeQuery, calls=("purge",)),
]  # fmt: skip
