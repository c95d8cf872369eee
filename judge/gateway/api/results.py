"""What each person has reached in each problem, for judges: read from the submissions, a part with each call."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Final

from judge.gateway.api.people import display_names
from judge.gateway.api.routes import Route
from judge.gateway.auth import Principal
from judge.gateway.cluster import Cluster
from judge.model import messages as m
from judge.model import people as p
from judge.model import results as r

_PAGE: Final = 500
# Seconds by which the clock that an id begins with may differ from the one of its submission's time.
_APART: Final = 2


def results(cluster: Cluster, principal: Principal, query: r.ResultsQuery) -> r.ResultsReply:
    """The results of one part of the submissions that count, newest first."""
    before = query.before
    if before is None and query.until is not None:
        before = f"{min(int(query.until.timestamp()) + _APART, 2**32 - 1):08x}{'0' * 16}"
    search = m.SearchRequest(problem=query.problem, before=before, limit=_PAGE)
    reply = cluster.call("search", search, m.SearchReply)
    members = None if query.group is None else set(_members(cluster, query.group))
    rows = []
    for task in reply.tasks:
        created = datetime.datetime.fromisoformat(task.created)
        counts = (query.since is None or created >= query.since) and (query.until is None or created < query.until)
        result = r.of_task(task) if counts and (members is None or task.submission.user in members) else None
        if result is not None:
            rows.append(result)
    names = display_names(cluster, principal, (row.user for row in rows))
    rows = [row.model_copy(update={"name": names.get(row.user, "")}) for row in r.merged(rows)]
    over = query.since is not None and bool(reply.tasks) and _begins(reply.tasks[-1].id) < query.since
    return r.ResultsReply(results=rows, next=None if over else reply.next)


def every_result(cluster: Cluster, principal: Principal, query: r.ResultsQuery) -> list[r.ProblemResult]:
    """The results of all submissions that count."""
    rows: list[r.ProblemResult] = []
    while True:
        reply = results(cluster, principal, query)
        rows = r.merged([*rows, *reply.results])
        if reply.next is None:
            return rows
        query = query.model_copy(update={"before": reply.next})


def _begins(task: str) -> datetime.datetime:
    """A time after which no submission with an id below this one was handed in."""
    return datetime.datetime.fromtimestamp(int(task[:8], 16) + _APART, datetime.UTC)


def _members(cluster: Cluster, group: str) -> Iterator[str]:
    after = None
    while True:
        reply = cluster.call("users", p.UsersQuery(group=group, limit=_PAGE, after=after), p.UsersReply)
        yield from (user.name for user in reply.users)
        after = reply.next
        if after is None:
            return


ROUTES: list[Route] = [
    Route("GET", "/results", "results", "Results of each person in each problem, page by page",
          lambda call: results(call.cluster, call.principal, call.query), "judge", r.ResultsReply,
          query=r.ResultsQuery, calls=("search", "users", "names")),
]  # fmt: skip
