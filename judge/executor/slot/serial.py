"""The tests of one attempt in the order of one slot: which run, are repeated and count, and what they come to."""

from __future__ import annotations

import math
from collections.abc import Sequence

from judge.common import clock
from judge.executor.slot import truncation
from judge.executor.slot.attempt import PreparedJob
from judge.executor.slot.cases import Case
from judge.executor.slot.parallel.schedule import Schedule
from judge.executor.slot.parallel.shared_queue import JudgedTest
from judge.executor.slot.testing import AnswerTester, Tester
from judge.executor.verdict import total_time_verdict
from judge.model.messages import Repeated, Result, TestResult, Verdict
from judge.problems.scoring import Grade


class SerialJudge:
    """Runs tests one after another (`step`), or takes in what others ran (`note`); the account is the same."""

    def __init__(
        self, attempt: PreparedJob, tester: Tester | AnswerTester, tests: Sequence[Case], grade: Grade | None = None
    ) -> None:
        """`tests` are in judging order; `grade` asks the package's own grader."""
        self._attempt = attempt
        self._tester = tester
        self._cases = {case.name: case for case in tests}
        self._count = len(tests)
        self.names = list(self._cases)
        full = attempt.job.assignment.submission.mode == "full"
        self.schedule = Schedule(attempt.manifest, self.names, full=full, grade=grade)
        self._results: dict[str, JudgedTest] = {}
        self._budget = truncation.OutputBudget()
        self._begin = clock.monotonic()
        self._reason = ""

    @property
    def open(self) -> int:
        """The number of tests without a result; 0 where some have the same name, so that they cannot be told apart."""
        return self._count - len(self._results) if self._count == len(self.names) else 0

    @property
    def remaining(self) -> float:
        """For how many seconds these should go on; infinity when unknown."""
        return self._attempt.teller.remaining(len(self._results), self._count, self._begin)

    def run(self, name: str) -> JudgedTest:
        self._attempt.teller.tests(len(self._results), self._count, self._begin)
        return self._attempt.test(self._tester, self._cases[name])

    def step(self) -> None:
        self.note(self.run(self.schedule.first))

    def note(self, judged: JudgedTest) -> None:
        """Take in what a test came to; whatever is due then counts, perhaps after a repetition."""
        attempt, schedule = self._attempt, self.schedule
        self._results[judged.test.name] = judged
        attempt.runner.runs += judged.runs
        attempt.runner.overhead += judged.overhead
        schedule.note(judged.test.name, judged.judged)
        while (due := schedule.due) is not None:
            settled = self._results[due] = self._settled(self._cases[due], self._results[due])
            schedule.count(settled.judged)
            self._budget.trim(settled.test)
            if attempt.account.over and not schedule.over:
                schedule.end()
                self._reason = attempt.account.sentence

    def _settled(self, case: Case, judged: JudgedTest) -> JudgedTest:
        """The final result of a test: put on the account, and repeated when it is near a limit."""
        account = self._attempt.account
        account.spend(judged.seconds)
        if judged.near and not account.over:
            refusal = account.refusal(judged.seconds)
            if not refusal:
                judged, refusal = self._repeat(case, judged)
            if refusal:
                judged.test.reason = f"{judged.test.reason}; not repeated: {refusal}"
        if account.over:
            usage_fields = judged.test.model_dump(include={"name", "cpu", "wall", "memory", "repeated"})
            ruling = total_time_verdict(account.sentence)
            judged = JudgedTest(test=TestResult(**usage_fields, verdict=ruling.verdict, reason=ruling.reason))
        return judged

    def _repeat(self, case: Case, first: JudgedTest) -> tuple[JudgedTest, str]:
        """Run a test once more, alone if that can be had; why its first run counts after all, or nothing."""
        attempt, account = self._attempt, self._attempt.account
        runner, lock = attempt.runner, attempt.means.run_lock
        with runner.alone(first.seconds, account.alone_remaining) as alone:
            begin = runner.busy()
            remaining = account.alone_remaining - lock.closed if alone else math.inf
            attempt.bound = begin + min(account.remaining, remaining)
            test, judged, _ = self._tester.test(case, 0.0)
            seconds = runner.busy() - begin
        late = account.spent + seconds < account.total and seconds >= remaining
        account.spend(seconds)
        account.repeated(lock.closed)
        if late:
            return first, account.no_time_alone
        test.repeated = Repeated(cpu=first.test.cpu, wall=first.test.wall, exclusive=alone)
        return JudgedTest(test=test, score=judged.score, multiplier=judged.multiplier), ""

    def conclude(self, result: Result) -> Verdict:
        stand, counted = self.schedule.stand, self.schedule.counted
        tests = [self._results[name].test for name in self.names if name in counted]
        result.reason = self._reason
        for test in tests:
            test.score = counted[test.name].score
            result.cpu = max(result.cpu, test.cpu)
            result.wall = max(result.wall, test.wall)
            result.memory = max(result.memory, test.memory)
            if test.name == stand.failed:
                suffix = f"; {result.reason}" if result.reason and test.reason != result.reason else ""
                result.reason = f"test {test.name}: {test.reason}{suffix}"
        failing = next((test for test in tests if test.name == stand.failed), None)
        if stand.error and (failing is None or failing.verdict is not Verdict.JE):
            result.reason = stand.error
        result.tests = tests
        result.failed_test, result.score, result.groups = stand.failed, stand.score, stand.groups
        return stand.verdict
