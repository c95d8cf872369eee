"""The schedule of a judging: which tests are run, in which order, and which of them count. Pure.

Serial judging is the rule: one test after another, a look at the standing after each failure. Tests that are run side
by side come in any order; they are noted here, and counted only when serial judging would have come to them, with what
it would have known. So the account is the serial one, whichever slot ran which test and when.
"""

from __future__ import annotations

from collections.abc import Sequence

from judge.executor.verdict import NOT_RUN
from judge.model.messages import Verdict
from judge.model.problem import ProblemManifest
from judge.problems.scoring import Grade, Judged, Standing, standing


class Schedule:
    """One judging. `stand` is what the counted tests come to; it is final when `over`."""

    def __init__(
        self, problem: ProblemManifest | None, names: Sequence[str], *, full: bool, grade: Grade | None = None
    ) -> None:
        """`names` are the tests in judging order; `full`: run them all, whatever they come to; `grade` as `standing`.

        With a `grade` the tests run one after another: nobody asks ahead what a grader would say.
        """
        self._grade = grade
        self._problem: ProblemManifest | Sequence[str] = problem if problem is not None else names
        self._names = names
        self._full = full
        self._results: dict[str, Judged] = {}
        self._todo: list[str] = []
        self._at = 0
        self.counted: dict[str, Judged] = {}
        self.stand: Standing = Standing()
        self._plan()

    def _plan(self) -> None:
        self.stand = standing(self._problem, self.counted, self._grade)
        todo = list(self.stand.missing)
        if self._full and not self.stand.error:
            missing = set(todo)
            todo += [name for name in self._names if name not in self.counted and name not in missing]
        self._todo, self._at = todo, 0

    @property
    def over(self) -> bool:
        return self._at == len(self._todo)

    @property
    def first(self) -> str:
        """The test that serial judging runs next; there is one unless it is `over`."""
        return self._todo[self._at]

    @property
    def stops_at_failure(self) -> bool:
        """Return whether the first failing test ends the judging, so that nothing after it is of use."""
        if self._full:
            return False
        problem = self._problem
        return not (isinstance(problem, ProblemManifest) and (problem.graders or problem.traits.has_score))

    def note(self, name: str, judged: Judged) -> None:
        """Take in a result; it counts when it is `due`."""
        self._results[name] = judged

    @property
    def due(self) -> str | None:
        """The test that counts next, when its result is here."""
        return self.first if not self.over and self.first in self._results else None

    def count(self, judged: Judged) -> None:
        """Count the test that is `due`, as this: what was noted, or what its repetition came to."""
        name = self.first
        self._results[name] = self.counted[name] = judged
        self._at += 1
        if judged.verdict is not Verdict.AC or self.over:
            self._plan()

    def end(self) -> None:
        """Run nothing more: what is missing counts as tests that ran for too long."""
        results = dict(self.counted)
        while self.stand.missing:
            results |= dict.fromkeys(self.stand.missing, Judged(NOT_RUN))
            self.stand = standing(self._problem, results, self._grade)
        self._todo, self._at = [], 0

    def candidates(self) -> list[str]:
        """The tests to run, most urgent first: what serial judging may still come to, as far as is known."""
        remaining_names = [name for name in self._todo[self._at :] if name not in self._results]
        if self._full or not remaining_names:
            return remaining_names
        ahead = standing(self._problem, self._results, self._grade)
        if ahead.error:
            return self._before_failure()
        possible = {self.first, *ahead.missing}
        return [name for name in remaining_names if name in possible]

    def _before_failure(self) -> list[str]:
        """The tests before the first one that is known to have failed."""
        names = []
        for name in self._todo[self._at :]:
            judged = self._results.get(name)
            if judged is None:
                names.append(name)
            elif judged.verdict is not Verdict.AC:
                break
        return names
