"""A package's submissions, judged at one uploaded content of the problem, whatever its name stands for meanwhile.

Nothing here waits for what will not come: what no executor can take any more is cancelled and named. What is still open
when this ends early (Ctrl-C, an error) is cancelled, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self, TypeVar

from rich.text import Text

from judge.common import clock
from judge.common.errors import JudgeError, UnavailableError
from judge.common.text import size
from judge.ctl import show, submit
from judge.ctl.api import Api
from judge.ctl.problem.rows import LabelledRow
from judge.languages.table import load_table
from judge.model import messages as m
from judge.model.cause import Origin
from judge.model.problem import ProblemManifest, ProblemProgram
from judge.problems.memory import required_memory
from judge.problems.package import manifest_bytes

# Seconds between two looks at the executors, and for which one that has gone may come back.
_LOOK, _PATIENCE = 2.0, 12.0
# Seconds for which cancelling may keep somebody who wants to leave.
_FAREWELL = 10.0
R = TypeVar("R", bound=LabelledRow)


@dataclass(frozen=True)
class Present:
    """The abilities of the executors that take work now: their languages, and whether there is any of them.

    `largest_slot` is the memory in bytes of the largest slot. It is None if an executor does not report it.
    """

    languages: frozenset[str] = frozenset()
    any: bool = False
    largest_slot: int | None = None

    def takes(self, language: str | None) -> bool:
        """Return whether one of them takes a submission in this language; None needs none."""
        return self.any and (not language or language in self.languages)

    def lacks(self, programs: Iterable[ProblemProgram]) -> str:
        """The reason why none takes a submission that is judged by these programs; empty if one does."""
        missing = next((program.language for program in programs if not self.takes(program.language)), None)
        return self.why(missing) if missing or not self.any else ""

    def why(self, language: str | None) -> str:
        return f"no executor has {language}" if self.any and language else "no executor takes work"


def present(api: Api) -> Present:
    """The executors that are alive and not drained."""
    executors = api.working()
    languages = frozenset(name for executor in executors if executor.info for name in executor.info.languages)
    sizes = [executor.info.slot_memory if executor.info else None for executor in executors]
    reported = [size for size in sizes if size is not None]
    return Present(languages, bool(executors), max(reported) if reported and len(reported) == len(sizes) else None)


def memory_warnings(manifest: ProblemManifest, present: Present) -> list[str]:
    """A warning if the problem needs more memory than the largest slot has; pure."""
    needed = required_memory(manifest, load_table())
    if present.largest_slot is None or needed <= present.largest_slot:
        return []
    slot, largest = size(needed), size(present.largest_slot)
    reason = f"the problem needs a slot with {slot} of memory, and the largest slot of an executor has {largest}"
    return [f"{reason}: no submission can be judged; lower the memory limit, or give slots more memory"]


@dataclass
class Trial:
    """One content of a problem and the submissions handed in to it; a context manager, see the module.

    `left_out`: submissions (by path) that no executor could take, with the reason; `refused`: those that the cluster
    does not take, such as too large ones.
    """

    api: Api
    name: str
    sha: str
    priority: Literal["high", "normal", "low"] = "low"
    cause: Origin = "import"
    left_out: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    _open: dict[str, m.Task] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        api: Api,
        manifest: ProblemManifest,
        priority: Literal["high", "normal", "low"] = "low",
        cause: Origin = "import",
    ) -> Self:
        return cls(api, manifest.name, api.put_content(manifest_bytes(manifest)), priority, cause)

    def hand_in(self, submission: m.Submission, **changes: object) -> m.Task:
        """Hand in at this content; `changes` are of the submission's fields."""
        fields = {"problem": self.name, "problem_hash": self.sha, "priority": self.priority, "cause": self.cause}
        task = self.api.submit(submission.model_copy(update={**fields, **changes}).keyed())
        self._open[task.id] = task
        return task

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.cancel()

    def cancel(self) -> None:
        deadline, before = clock.Deadline(_FAREWELL), self.api.timeout
        self.api.timeout = 2.0
        try:
            for task in self._open:
                with contextlib.suppress(JudgeError):  # it has ended meanwhile, or nobody answers
                    if not deadline.over:
                        self.api.cancel(task)
        finally:
            self.api.timeout = before
            self._open.clear()

    def follow(self, rows: Sequence[R], table: Callable[[Sequence[R]], show.Grid], *, quiet: bool) -> list[R]:
        """Follow rows to their ends, on a terminal in a live table; those that were judged, in their order."""
        dropped_tasks = _DroppedTasks(self.api)

        def give_up(waiting: Sequence[R]) -> None:
            for row in dropped_tasks.look(waiting):
                self.left_out[row.label] = dropped_tasks.present.why(row.task.submission.language)
                row.task = self._give_up(row.task)
            for row in waiting:
                if row.task.done:
                    self._open.pop(row.task.id, None)

        def print_row(verdict: Text, row: R) -> None:
            show.err.say(verdict.append(f" {row.label}"))

        submit.follow_rows(self.api, rows, table, print_row, quiet=quiet, give_up=give_up)
        return [row for row in rows if row.label not in self.left_out]

    def _give_up(self, task: m.Task) -> m.Task:
        try:
            return self.api.cancel(task.id)
        except UnavailableError:
            raise
        except JudgeError:  # it ended at the last moment
            return self.api.get(task.id)


class _DroppedTasks:
    """Finds the rows that wait for executors that are gone; looks now and then."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._next = clock.Deadline(_LOOK)
        self._since: dict[str, clock.Deadline] = {}
        self.present = Present(any=True)

    def look(self, waiting: Sequence[R]) -> list[R]:
        """Those that have waited for too long for an executor with their language."""
        if not self._next.over:
            return []
        self._next = clock.Deadline(_LOOK)
        self.present = present(self._api)
        rows = []
        for row in waiting:
            if row.task.executor or self.present.takes(row.task.submission.language):
                self._since.pop(row.task.id, None)
                continue
            row.task = self._api.get(row.task.id)  # the row may not have been looked at for a while
            if not row.task.executor and self._since.setdefault(row.task.id, clock.Deadline(_PATIENCE)).over:
                rows.append(row)
        return [row for row in rows if not row.task.done]
