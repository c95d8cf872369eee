"""The rule of what a submitter may see of how their submission was judged: decided here alone, for every way out.

A field reaches people without role admin only when it is listed here; a field that somebody adds to a message is
withheld until it is. Pure functions; `judge.gateway.api.handlers` and the pages show nothing that has not been through
them.

A problem's tests are secret but for its samples. What was judged without a problem was judged with what the submitter
brought along, and is shown as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from judge.config.allowance import TOTAL_TIME
from judge.languages.table import load_table
from judge.model import messages as m
from judge.model.figures import FiguresReply, HistoryReply, Point, Start, VersionChange
from judge.model.overview import ExecutorState, StatusReply
from judge.model.problem import LimitOrigin
from judge.model.streaming import Change

M = TypeVar("M", bound=BaseModel)


# Each field of a message: those that go out as they are; those that go out as something made of them, as fixed
# sentences, rounded figures, messages that are disclosed in turn; and those that no submitter sees. Of a sample all
# fields but `message` are shown. Of what a run of the program can choose, what goes out says nothing that is not listed
# in docs/judging.md, "What a submitter sees of secret tests".
_RULES: Final[dict[type[BaseModel], tuple[str, str, str]]] = {
    m.Task: (
        (
            "id submission problem status done verdict attempt executor judged_by created started finished latency "
            "version trace waits"
        ),
        "progress result history past",
        "rejudging rerun_of",
    ),
    m.Result: (
        "compile_log compile language_version judge_version sandbox limits weak_sandbox failed_test score groups",
        "tests cpu memory reason withheld",
        "wall stdout stdout_blob stderr left",
    ),
    m.TestResult: (
        "name verdict feedback",
        "cpu memory reason score withheld",
        "wall exit_code signal output_sha256 output_bytes output error message passes repeated",
    ),
    m.PastVerdict: (
        "rejudging why status verdict score failed_test judged_by problem finished trace",
        "cpu memory reason",
        "wall",
    ),
    m.Attempt: ("attempt executor rejudging", "reason", ""),
    ExecutorState: ("name alive drain drain_reason executing vacant reported", "info", "incarnation"),
    m.ExecutorInfo: ("slots slot_memory languages version abilities weak_sandbox", "", "checks calibration"),
    # The names of the package's submissions say how the problem is solved.
    LimitOrigin: ("how slowest_cpu multiplier resolution", "", "slowest too_slow left_out"),
    Change: ("id submission version user problem language status verdict done cause", "", ""),
    FiguresReply: ("span seconds", "points", ""),
    # The verdicts of a minute are somebody's where few hand in.
    Point: ("at waiting busy slots judged rejudged half most", "", "verdicts"),
    HistoryReply: ("executor", "starts", ""),
    # The speed of the machine, as its check has found it.
    Start: ("at version slots weak_sandbox", "changes", "calibration"),
    VersionChange: ("language before after", "", ""),
    StatusReply: (
        "leader epoch queued running finished slots vacant judging versions waits",
        "executors judicators etcd mongodb faults",
        "warnings",
    ),
}
COPIED_FIELDS, COMPUTED_FIELDS, WITHHELD = (
    {model: frozenset(names[column].split()) for model, names in _RULES.items()} for column in range(3)
)

_CPU_TIME = "CPU time limit exceeded"
_TOTAL = f"{TOTAL_TIME}: all runs of a submission together may take only so long; later tests are not run"
_PROGRESS = re.compile(r"[0-9]{1,9}/[0-9]{1,9}")
_JUDGED = re.compile(r"judged: ([A-Z]{2,3})\b")
# One decade of the figures that are shown: 24 steps of about a tenth, the E24 series of preferred numbers.
_STEPS: Final = (10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82, 91)
LEAST_SECONDS: Final = 0.01
LEAST_BYTES: Final = 1024**2


def secret(task: m.Task) -> bool:
    """Return whether a task was, or will be, judged with data that its submitter may not see."""
    return task.problem is not None or task.submission.problem is not None


def to_submitter(task: m.Task, samples: frozenset[str] = frozenset(), *, own_tests: bool = True) -> m.Task:
    """The task as the one who handed it in may see it.

    `samples` are the tests of its problem whose data everybody has; none when they are not known. `own_tests`: of the
    submitter's allowance. Without them no text is shown that the submission's code has written: it may have heard from
    another submission, which had a secret test's input (docs/sandbox.md).
    """
    if not secret(task):
        return _listed(task, **{name: getattr(task, name) for name in COMPUTED_FIELDS[m.Task]})
    return _listed(
        task,
        progress=task.progress if _PROGRESS.fullmatch(task.progress) else "",
        result=None if task.result is None else _result(task, task.result, samples, own_tests=own_tests),
        history=[_listed(run, reason=_attempt(run.reason)) for run in task.history],
        past=[
            _listed(run, cpu=seconds(run.cpu), memory=size(run.memory), reason=_sentence(run.verdict))
            for run in task.past
        ],
    )


def executor(state: ExecutorState) -> ExecutorState:
    """An executor as people without role admin see it: not what the check of its machine found."""
    return _listed(state, info=None if state.info is None else _listed(state.info))


def status(reply: StatusReply, *, judges: bool) -> StatusReply:
    """The cluster at a glance, as people without role admin see it; those who do not judge without addresses."""
    return _listed(
        reply,
        executors=[executor(state) for state in reply.executors],
        judicators=reply.judicators if judges else [],
        etcd=reply.etcd if judges else [],
        mongodb=reply.mongodb if judges else [],
        faults=reply.faults if judges else faults(reply),
    )


def faults(reply: StatusReply) -> list[str]:
    """The faults of the cluster as strangers are told of them: these sentences name hosts and addresses."""
    if not reply.faults:
        return []
    judging = "submissions are judged" if reply.judging else "no new submission is judged"
    return [f"the cluster has faults, {judging}; judges and admins see which, as by `judgectl status`"]


def figures(reply: FiguresReply) -> FiguresReply:
    """The cluster's work over time, as people who judge nothing see it: not which verdicts others got."""
    return _listed(reply, points=[_listed(point) for point in reply.points])


def history(reply: HistoryReply) -> HistoryReply:
    """An executor's starts, as people without role admin see them: not how fast its cores were."""
    return _listed(
        reply, starts=[_listed(start, changes=[_listed(c) for c in start.changes]) for start in reply.starts]
    )


def limit_origin(origin: LimitOrigin | None, *, admin: bool) -> LimitOrigin | None:
    """The origin of a time limit, with as much as this person may see of it."""
    return origin if origin is None or admin else _listed(origin)


def change(event: Change) -> Change:
    """A change of a submission as its listeners see it; admins see the same."""
    return _listed(event)


def seconds(value: float) -> float:
    """Seconds as they are shown of secret tests: rounded up, to one of 24 figures in each decade from 10 ms."""
    return round(_stepped(value / LEAST_SECONDS) * LEAST_SECONDS, 4)


def size(value: int) -> int:
    """Bytes of memory as they are shown of secret tests: rounded up, to one of 24 figures in each decade from 1 MiB."""
    return math.ceil(_stepped(value / LEAST_BYTES) * LEAST_BYTES)


def _within(rounded: Callable[[Any], float], value: float, limit: float | None) -> float:
    """A figure rounded up, but not beyond the limit that it keeps."""
    figure = rounded(value)
    return limit if limit is not None and value <= limit < figure else figure


def _limit(result: m.Result, name: str) -> float | None:
    return None if result.limits is None else getattr(result.limits, name)


def _stepped(value: float) -> float:
    """The next preferred number from 1 up; 0 for nothing."""
    if not value > 0:
        return 0.0
    decade = 1.0
    while value > decade * 10:
        decade *= 10
    return next((decade * step / 10 for step in _STEPS if value <= decade * step / 10), decade * 10)


def _listed(message: M, /, **computed: Any) -> M:
    """A message with its listed fields and those that were made of others; the rest is as if never set."""
    copied = {name: getattr(message, name) for name in COPIED_FIELDS[type(message)]}
    return type(message).model_construct(**copied, **computed)


def compiling_executes(submission: m.Submission) -> bool:
    """Return whether compiling this submission may execute its code; true for a language that is not in the table."""
    row = load_table().get(submission.language or "")
    names = [submission.filename or "", *(file.name for file in submission.files)]
    # A compiler reads options, such as the name of a program to start, from a file whose argument begins with "@".
    executes = row is None or (row.compile is not None and row.compile_executes)
    return executes or any(name.startswith("@") for name in names)


def _result(task: m.Task, result: m.Result, samples: frozenset[str], *, own_tests: bool) -> m.Result:
    verdict = task.verdict
    if not own_tests and compiling_executes(task.submission):
        result = result.model_copy(update={"compile_log": "", "compile": None, "reason": _sentence(verdict)})
    public_tests = samples if own_tests else frozenset[str]()
    tests = [
        # The validator's message to the judges is theirs, also of a sample.
        test.model_copy(update={"message": ""}) if test.name in public_tests else _secret_test(test, result)
        for test in result.tests
    ]
    return _listed(
        result,
        tests=tests,
        cpu=_within(seconds, result.cpu, _limit(result, "cpu")),
        memory=round(_within(size, result.memory, _limit(result, "memory"))),
        reason=_reason(result, verdict, tests),
        withheld=True,
    )


def _secret_test(test: m.TestResult, result: m.Result) -> m.TestResult:
    reason = test.verdict.about.sentence
    if test.verdict is m.Verdict.TLE and result.limits is not None and test.cpu > result.limits.cpu:
        reason = _CPU_TIME
    if test.verdict is m.Verdict.TLE and test.reason.startswith(TOTAL_TIME):
        reason = _TOTAL
    return _listed(
        test,
        cpu=_within(seconds, test.cpu, _limit(result, "cpu")),
        memory=round(_within(size, test.memory, _limit(result, "memory"))),
        reason=reason,
        # A validator may write a score for its own ends where the problem gives no points.
        score=test.score if result.score is not None else None,
        withheld=True,
    )


def _reason(result: m.Result, verdict: m.Verdict | None, tests: list[m.TestResult]) -> str:
    """The reason for the verdict, in words that no test's data can have shaped."""
    if verdict is m.Verdict.CE:
        return result.reason  # a compiler runs before any test, where there is no data to quote
    failed = next((test for test in tests if test.name == result.failed_test), None)
    if failed is not None and failed.verdict is verdict:
        return f"test {failed.name}: {failed.reason}"
    return _sentence(verdict)


def _sentence(verdict: m.Verdict | None) -> str:
    return "" if verdict is None else verdict.about.sentence


def _attempt(reason: str) -> str:
    """An attempt and its end, without the words of the executor that made it."""
    judged = _JUDGED.match(reason)
    if judged and judged[1] in m.Verdict.__members__:
        return f"judged: {judged[1]}"
    return "ended without a verdict"
