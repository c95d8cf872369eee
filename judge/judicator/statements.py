"""The pages of problems' statements: an executor makes them once of each content, by a task that is no user's."""

from __future__ import annotations

import contextlib
import datetime
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from judge.common import clock
from judge.common.errors import NotFoundError
from judge.judicator.database import Database
from judge.model.messages import AddReply, Submission, Task, TaskRef
from judge.model.statements import RENDERING, PagesReply, PagesRequest

log = logging.getLogger(__name__)

# After this time a request for pages that could not be made makes them again.
AGAIN: Final = datetime.timedelta(minutes=5)


class Statements:
    """Has the pages made, and remembers them beside the manifest, for as long as that stays."""

    def __init__(
        self,
        database: Database,
        add: Callable[[Submission], Awaitable[AddReply]],
        remove: Callable[[TaskRef], Awaitable[object]],
    ) -> None:
        """`add` and `remove` are for tasks."""
        self._manifests = database.manifests
        self._find = database.find
        self._add = add
        self._remove = remove

    async def pages(self, request: PagesRequest) -> PagesReply:
        """The pages of a problem's statements at one content; the first request makes them. NotFoundError."""
        doc = await self._find(self._manifests, {"_id": request.hash}, {"blobs": 0})
        if doc is None or doc["name"] != request.problem:
            raise NotFoundError(f"problem '{request.problem}' has no such content; ask for it again")
        if doc.get("rendering") == RENDERING:
            return PagesReply(pages=doc["pages"])
        tries = doc.get("tries", 0)
        added = await self._add(
            Submission(
                role="admin",
                problem=request.problem,
                problem_hash=request.hash,
                check="statements",
                priority="high",
                idempotency_key=f"statements {RENDERING} {request.hash} {tries}",
            )
        )
        task = added.task
        pages = task.result.stdout_blob if task.result is not None else None
        if pages is not None:
            await self._keep(task, request.hash, pages)
        elif task.done and datetime.datetime.fromisoformat(task.finished or task.created) < clock.wall() - AGAIN:
            unchanged = {"_id": request.hash, "tries": doc.get("tries")}
            await self._manifests.update_one(unchanged, {"$set": {"tries": tries + 1}})
        reason = task.result.reason if task.result is not None else ""
        return PagesReply(pages=pages, why=reason or str(task.status) if task.done and pages is None else "")

    async def _keep(self, task: Task, manifest: str, pages: str) -> None:
        """Remember the pages; the task that has made them is no longer needed."""
        result = await self._manifests.update_one(
            {"_id": manifest}, {"$set": {"rendering": RENDERING, "pages": pages}, "$addToSet": {"blobs": pages}}
        )
        if result.matched_count:
            log.info("the statements of problem '%s' are rendered: manifest %s", task.submission.problem, manifest)
            with contextlib.suppress(NotFoundError):
                await self._remove(TaskRef(id=task.id))
