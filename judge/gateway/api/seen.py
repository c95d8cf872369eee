"""Submissions as the person who asks may see them: what the API, Judge0's API and the pages show goes through here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import TypeAdapter, ValidationError

from judge.common.errors import ForbiddenError, NotFoundError
from judge.gateway import disclosure
from judge.gateway.auth import Principal
from judge.gateway.cluster import Cluster
from judge.model import messages as m
from judge.model.overview import UsageReply, UsageRequest
from judge.model.several import MOST, TasksReply, TasksRequest

_TASK_ID = TypeAdapter(m.TaskId)


def is_id(text: str) -> bool:
    try:
        _TASK_ID.validate_python(text)
    except ValidationError:
        return False
    return True


def may_see(principal: Principal, task: m.Task) -> bool:
    """Return whether this person may see a task. A run of a rejudging is the judges' own until it is applied."""
    return principal.judges or (task.submission.user == principal.user and task.rerun_of is None)


def own_task(cluster: Cluster, principal: Principal, task_id: str) -> m.Task:
    """One task that this person may see, whole. Another's is answered like one that does not exist."""
    missing = NotFoundError(f"there is no submission '{task_id[:60]}'")
    if not is_id(task_id):
        raise missing
    try:
        task = cluster.call("get", m.GetRequest(id=task_id), m.Task)
    except NotFoundError as exc:
        raise missing from exc
    if not may_see(principal, task):
        raise missing
    return task


def own_tasks(cluster: Cluster, principal: Principal, ids: Sequence[str]) -> Iterator[m.Task | None]:
    """Tasks that this person may see, whole, in the order of `ids`; None where there is none.

    They are asked for together, as many as one answer has room for, and no more are held at once.
    """
    waiting, user = list(ids), None if principal.judges else principal.user
    while waiting:
        batch = list(dict.fromkeys(task_id for task_id in waiting if is_id(task_id)))
        reply = TasksReply(tasks=[])
        if batch:
            reply = cluster.call("tasks", TasksRequest(ids=batch[:MOST], user=user), TasksReply)
        unread = {*reply.left, *batch[MOST:]}
        mine = {task.id: task for task in reply.tasks if may_see(principal, task)}
        end = next((place for place, task_id in enumerate(waiting) if task_id in unread), len(waiting))
        for task_id in waiting[:end]:
            yield mine.get(task_id)
        waiting = waiting[end:]


def show(cluster: Cluster, principal: Principal, task: m.Task) -> m.Task:
    """The task as this person may see it."""
    if principal.judges:
        return task
    sample_names = (
        cluster.samples(task.problem) if task.problem is not None and task.result is not None else frozenset()
    )
    return disclosure.to_submitter(task, sample_names, own_tests=_own_tests(cluster, principal, [task]))


def _own_tests(cluster: Cluster, principal: Principal, tasks: Sequence[m.Task]) -> bool:
    """Return whether this person may see what their own code has written; the judicator knows their allowance."""
    if not any(task.result is not None and disclosure.secret(task) for task in tasks):
        return True
    request = UsageRequest(user=principal.user, role=principal.role)
    return cluster.call("usage", request, UsageReply).allowance.own_tests


def search(cluster: Cluster, principal: Principal, query: m.SearchRequest) -> m.SearchReply:
    """Search among the tasks that this person may see, as they may see them."""
    if principal.judges:
        return cluster.call("search", query, m.SearchReply)
    if query.user not in {None, principal.user}:
        raise ForbiddenError(f"user: '{principal.user}' may only search their own submissions")
    reply = cluster.call("search", query.model_copy(update={"user": principal.user}), m.SearchReply)
    own_tests = _own_tests(cluster, principal, reply.tasks)
    # A list has no results of tests, so it does not matter which are samples.
    return m.SearchReply(
        tasks=[disclosure.to_submitter(task, own_tests=own_tests) for task in reply.tasks],
        next=reply.next,
        total=reply.total,
    )
