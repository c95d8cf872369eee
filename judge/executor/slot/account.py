"""The account of one submission: its total time and its repeated tests (docs/judging.md). Pure.

Kept by the slot that judges, in the order in which one slot would have run the tests: so it is the same
whichever slot ran them. Slots that help only see to it that no run of theirs takes longer than everything may.
"""

from __future__ import annotations

import math

from judge.common.text import decimal
from judge.config.allowance import TOTAL_TIME, Allowance

# Clocks of the sandbox and of this process agree within this many seconds: a run that was ended where the time was used
# up counts as one that used it up.
_SLACK = 0.001


class Account:
    """The account of one judging; `total` and `spent` are its time.

    Seconds are wall seconds, without those in which it waited for other slots.
    """

    def __init__(self, allowance: Allowance, *, problem: bool) -> None:
        """`problem`: the submission is to one; its tests are somebody else's, so they may be repeated."""
        total = allowance.problem_seconds if problem else allowance.own_seconds
        self._name = "problem_seconds" if problem else "own_seconds"
        self.total = math.inf if total is None else total
        self._repeats = 0
        self._alone = 0.0
        self._most_repeats = math.inf if allowance.repeats is None else allowance.repeats
        self._most_alone = math.inf if allowance.alone_seconds is None else allowance.alone_seconds
        self.repeatable = problem
        self.spent = 0.0

    @property
    def remaining(self) -> float:
        """Seconds that its runs may still take."""
        return max(0.0, self.total - self.spent)

    @property
    def over(self) -> bool:
        """Return whether its time is used up: judging ends."""
        return self.spent >= self.total - _SLACK

    @property
    def sentence(self) -> str:
        """The sentence that says why judging ended."""
        return (
            f"{TOTAL_TIME}: all runs of this submission together may take {decimal(self.total)} s ({self._name}); "
            "later tests are not run"
        )

    @property
    def alone_remaining(self) -> float:
        """Seconds for which it may still keep other slots from computing."""
        return max(0.0, self._most_alone - self._alone)

    def spend(self, seconds: float) -> None:
        self.spent += max(0.0, seconds)

    def refusal(self, needs: float) -> str:
        """The reason why a test near its limit is not repeated, if any. `needs`: what its first run took."""
        if self._repeats >= self._most_repeats:
            return f"{decimal(self._most_repeats)} of its tests have been repeated, which is the limit (repeats)"
        if needs > self.alone_remaining:
            return self.no_time_alone
        return ""

    @property
    def no_time_alone(self) -> str:
        return f"its repeated tests may have {decimal(self._most_alone)} s to themselves (alone_seconds)"

    def repeated(self, alone: float) -> None:
        """Note a repetition, and for how long others were kept from computing."""
        self._repeats += 1
        self._alone += max(0.0, alone)
