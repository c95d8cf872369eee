"""The tests of one submission run side by side: the loop of the slot that judges it, over a queue that others share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from judge.executor.slot.parallel.schedule import Schedule
from judge.executor.slot.parallel.shared_queue import CoordinatorQueue, JudgedTest
from judge.executor.slot.runner import SupersededError
from judge.model.messages import Verdict

# Seconds to wait for helpers between two looks whether one of them has died.
LOOK = 0.05


class Coordinator:
    """The coordinator's side of one queue."""

    def __init__(
        self,
        queue: CoordinatorQueue,
        schedule: Schedule,
        names: Sequence[str],
        run: Callable[[str], JudgedTest],
        note: Callable[[JudgedTest], None],
    ) -> None:
        """`names` are the tests by number; `run` runs one of them here (SupersededError: it was interrupted).

        `note` tells the schedule, which may take a repetition, and keeps the account.
        """
        self._queue = queue
        self._schedule = schedule
        self._names = names
        self._run_test = run
        self._note = note
        self._number = {name: index for index, name in enumerate(names)}
        self._said: frozenset[int] = frozenset()
        self._say_what_is_wanted()

    def until_over(self, wait: Callable[[float], None]) -> None:
        """Run tests that nobody else runs, and note what others found out; `wait` until somebody rings."""
        while not self._schedule.over:
            index = self._queue.take(self._wanted())
            if index is None:
                wait(LOOK)
            # Helpers ring for a result that makes this slot's test useless, once they see which test that is. A result
            # that was handed in before is collected here.
            self._hear(self._queue.collect())
            if index is None or self._schedule.over:
                continue
            if index in self._wanted():
                self._run(index)
            else:
                self._queue.give_up(index)

    def _run(self, index: int) -> None:
        try:
            judged = self._run_test(self._names[index])
        except SupersededError:
            self._queue.give_up(index)
        else:
            self._queue.rest()
            self._hear([judged])

    def _hear(self, news: Iterable[JudgedTest]) -> None:
        failed = False
        for judged in news:
            self._note(judged)
            failed = failed or judged.test.verdict is not Verdict.AC
        # More than before is wanted when a test passed that had failed near a time limit.
        if failed or not self._said.issuperset(self._wanted()):
            self._say_what_is_wanted()

    def _wanted(self) -> list[int]:
        return [self._number[name] for name in self._schedule.wanted()]

    def _say_what_is_wanted(self) -> None:
        indexes = self._wanted()
        self._said = frozenset(indexes)
        self._queue.want(indexes, stops=self._schedule.stops_at_failure)
