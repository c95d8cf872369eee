"""The tests of one submission run side by side: the loop of the slot that judges it, over a sheet that others share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from judge.executor.course import Course
from judge.executor.sheet import Found, LeaderSheet
from judge.problems.scoring import Judged
from judge.rpc.messages import TestResult, Verdict

# How long to wait for helpers between two looks whether one of them has died, in seconds.
LOOK = 0.05


class SupersededError(Exception):
    """The run was ended since a helper had something to say that may make it useless; nobody else sees this."""


class Lead:
    """The leader's side of one sheet."""

    def __init__(
        self,
        sheet: LeaderSheet,
        course: Course,
        names: Sequence[str],
        run: Callable[[str], tuple[TestResult, Judged]],
        note: Callable[[Found], None],
    ) -> None:
        """`names` are the tests by number; `run` runs one of them here (SupersededError: it was interrupted).

        `note` tells the course, and keeps the account.
        """
        self._sheet = sheet
        self._course = course
        self._names = names
        self._run_test = run
        self._note = note
        self._number = {name: index for index, name in enumerate(names)}
        self._say_what_is_wanted()

    def until_over(self, wait: Callable[[float], None]) -> None:
        """Run tests that nobody else runs, and note what others found out; `wait` until somebody rings."""
        while not self._course.over:
            taken = self._sheet.take(self._wanted())
            if taken is None:
                wait(LOOK)
            # What came in before all could see what this slot runs may make that useless; nobody rings for it.
            self._hear(self._sheet.collect())
            if taken is None or self._course.over:
                continue
            if taken in self._wanted():
                self._run(taken)
            else:
                self._sheet.give_up(taken)

    def _run(self, taken: int) -> None:
        try:
            test, judged = self._run_test(self._names[taken])
        except SupersededError:
            self._sheet.give_up(taken)
        else:
            self._sheet.rest()
            self._hear([Found(test=test, score=judged.score, multiplier=judged.multiplier)])

    def _hear(self, news: Iterable[Found]) -> None:
        failed = False
        for found in news:
            self._note(found)
            failed = failed or found.test.verdict is not Verdict.AC
        if failed:
            self._say_what_is_wanted()

    def _wanted(self) -> list[int]:
        return [self._number[name] for name in self._course.wanted()]

    def _say_what_is_wanted(self) -> None:
        self._sheet.want(self._wanted(), stops=self._course.stops_at_failure)
