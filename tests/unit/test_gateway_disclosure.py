"""What submitters see of secret tests: every field is classified, and figures carry no more than is said of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from judge.config.allowance import Allowance
from judge.executor.slot.account import Account
from judge.gateway import disclosure
from judge.languages.table import Language, load_table
from judge.model import messages as m
from tests.support.gateway import make_task
from tests.support.judicators import Marks

SAMPLES = frozenset({"sample/1"})
LIMITS = m.Limits(cpu=2, memory=512 * 1024**2)


@pytest.mark.parametrize("model", list(disclosure.COPIED_FIELDS), ids=lambda one: one.__name__)
def test_somebody_has_decided_about_every_field(model: type[BaseModel]) -> None:
    shown, made, withheld = (
        table[model] for table in (disclosure.COPIED_FIELDS, disclosure.COMPUTED_FIELDS, disclosure.WITHHELD)
    )
    assert not shown & made and not shown & withheld and not made & withheld
    undecided = set(model.model_fields) ^ (shown | made | withheld)
    assert not undecided, f"say in judge/gateway/disclosure.py whether submitters may see these: {sorted(undecided)}"


def _test(name: str, **changes: object) -> m.TestResult:
    values: dict[str, object] = {
        "name": name,
        "verdict": "WA",
        "cpu": 0.5678,
        "wall": 0.9876,
        "memory": 23_456_789,
        "exit_code": 77,
        "signal": 9,
        "reason": "line 1, token 1: 'secret' is wrong",
        "output_sha256": "a" * 64,
        "output_bytes": 31337,
        "output": "secret",
        "error": "secret",
        "message": "judge has secret",
        "feedback": "the author says this",
        "score": 12.5,
        "passes": 17,
        "repeated": m.Repeated(cpu=2.1, wall=2.2),
        **changes,
    }
    return m.TestResult.model_validate(values)


def _judged(**changes: object) -> m.Task:
    result = m.Result(
        tests=[_test("sample/1"), _test("secret/1")],
        stdout="secret",
        compile_log="log",
        reason="test secret/1: line 1, token 1: 'secret' is wrong",
        failed_test="secret/1",
        cpu=0.5678,
        wall=0.9876,
        memory=23_456_789,
        limits=LIMITS,
    )
    values = {
        "done": True,
        "status": "run_failed",
        "verdict": "WA",
        "problem": m.ProblemRef(name="p", hash="b" * 64),
        "result": result,
        "history": [
            m.Attempt(attempt=1, executor="e1", reason="the executor failed: secret"),
            m.Attempt(attempt=2, executor="e1", reason="judged: WA (test secret/1: 'secret')"),
        ],
        "past": [m.PastVerdict(rejudging=1, status="run_failed", verdict="TLE", reason="secret", cpu=1.23456)],
        "rejudging": 7,
        **changes,
    }
    return make_task(**values)


def test_of_a_secret_test_the_verdict_stays_and_coarse_figures() -> None:
    seen = disclosure.to_submitter(_judged(), SAMPLES)
    assert seen.result is not None
    sample, secret = seen.result.tests
    assert (sample.output, sample.exit_code, sample.message) == ("secret", 77, ""), "the judges' words are theirs"
    expected = m.TestResult(
        name="secret/1", verdict="WA", cpu=0.62, memory=24 * 1024**2, reason="wrong answer",
        feedback="the author says this", withheld=True,
    )  # fmt: skip
    assert secret == expected
    assert seen.result.reason == "test secret/1: wrong answer"
    assert (seen.result.stdout, seen.result.compile_log, seen.result.wall) == (None, "log", 0.0)
    assert [one.reason for one in seen.history] == ["ended without a verdict", "judged: WA"]
    assert seen.past[0].reason == "time limit exceeded" and seen.past[0].cpu == 1.3
    assert seen.rejudging is None
    assert "secret" not in seen.model_copy(update={"result": None}).model_dump_json()


def test_where_the_samples_are_not_known_all_tests_are_secret() -> None:
    seen = disclosure.to_submitter(_judged())
    assert seen.result is not None and all(test.withheld for test in seen.result.tests)


def test_a_problem_that_is_only_named_keeps_its_secrets_too() -> None:
    task = _judged(problem=None, submission=m.Submission(user="ada", problem="p"))
    assert "'secret'" not in disclosure.to_submitter(task).model_dump_json()


def test_what_was_judged_without_a_problem_is_shown_but_for_the_open_rejudging() -> None:
    task = _judged(problem=None)
    assert disclosure.to_submitter(task) == task.model_copy(update={"rejudging": None})


def test_a_failing_sample_says_why() -> None:
    task = _judged(result=m.Result(tests=[_test("sample/1")], failed_test="sample/1", reason="whatever"))
    seen = disclosure.to_submitter(task, SAMPLES)
    assert seen.result is not None
    assert seen.result.reason == "test sample/1: line 1, token 1: 'secret' is wrong"


@pytest.mark.parametrize("verdict", list(m.Verdict))
def test_every_verdict_has_its_sentence(verdict: m.Verdict) -> None:
    task = _judged(verdict=verdict, result=m.Result(tests=[_test("secret/1", verdict=verdict)], reason="said"))
    seen = disclosure.to_submitter(task)
    assert seen.result is not None
    assert "'" not in seen.result.tests[0].reason
    assert (seen.result.reason == "said") == (verdict is m.Verdict.CE), "a compiler has seen no test"


def test_which_time_limit_was_passed_is_told() -> None:
    def reason(cpu: float) -> str:
        result = m.Result(tests=[_test("secret/1", verdict="TLE", cpu=cpu)], limits=LIMITS)
        seen = disclosure.to_submitter(_judged(verdict="TLE", result=result)).result
        assert seen is not None
        return seen.tests[0].reason

    assert (reason(2.01), reason(0.1)) == ("CPU time limit exceeded", "time limit exceeded")


def test_that_the_total_time_is_used_up_is_told() -> None:
    """In words that are the same for everybody, whatever the executor says."""
    account = Account(Allowance(problem_seconds=7), problem=True)
    late = _test("secret/1", verdict="TLE", reason=account.sentence)
    result = m.Result(tests=[late], limits=LIMITS, failed_test="secret/1", reason=f"test secret/1: {account.sentence}")
    seen = disclosure.to_submitter(_judged(verdict="TLE", result=result)).result
    assert seen is not None
    words = "total time exceeded: all runs of a submission together may take only so long; later tests are not run"
    assert (seen.tests[0].reason, seen.reason) == (words, f"test secret/1: {words}")


def test_points_are_for_problems_that_give_points() -> None:
    def score(total: float | None) -> float | None:
        seen = disclosure.to_submitter(_judged(result=m.Result(tests=[_test("secret/1")], score=total))).result
        assert seen is not None
        return seen.tests[0].score

    assert (score(50.0), score(None)) == (12.5, None)


@pytest.mark.parametrize("progress", ["secret", "1/2 secret", "1/2\n", "\u0661/2", "1/"])
def test_progress_is_a_count_or_nothing(progress: str) -> None:
    running = {"result": None, "done": False, "status": "running", "verdict": None}
    assert disclosure.to_submitter(_judged(progress=progress, **running)).progress == ""
    assert disclosure.to_submitter(_judged(progress="3/10", **running)).progress == "3/10"


@given(st.floats(min_value=0, max_value=700))
def test_seconds_are_rounded_up_by_a_tenth_at_most(value: float) -> None:
    shown = disclosure.seconds(value)
    assert value <= shown * (1 + 1e-9)
    assert shown <= max(value * 1.16, disclosure.LEAST_SECONDS)
    assert disclosure.seconds(shown) <= shown * (1 + 1e-9), "rounding twice changes nothing"


@given(st.floats(min_value=0, max_value=700), st.integers(0, 2**34), st.floats(0.1, 600), st.integers(2**22, 2**33))
def test_a_figure_that_keeps_its_limit_is_not_shown_above_it(
    cpu: float, memory: int, seconds: float, most: int
) -> None:
    limits = m.Limits(cpu=seconds, memory=most)
    one = _test("secret/1").model_copy(update={"cpu": cpu, "memory": memory})
    result = m.Result(tests=[one], cpu=cpu, memory=memory, limits=limits)
    seen = disclosure.to_submitter(_judged(result=result)).result
    assert seen is not None
    for shown in (seen, seen.tests[0]):
        assert (shown.cpu <= seconds) == (cpu <= seconds) or shown.cpu >= cpu > seconds
        assert (shown.memory <= most) == (memory <= most)
        assert shown.memory >= memory
        assert shown.cpu >= cpu * (1 - 1e-9) - 1e-4


def test_figures_carry_as_few_bits_as_the_page_says() -> None:
    """docs/judging.md: CPU time below 2 s and memory below 512 MiB are 57 and 68 figures."""
    times = {disclosure.seconds(value / 1000) for value in range(2001)}
    sizes = {disclosure.size(value * 100_000) for value in range(512 * 1024**2 // 100_000)}
    assert (len(times), len(sizes)) == (57, 68)
    # Verdicts that a test can have: all but CE, and TLE in two kinds.
    assert math.log2(9 * len(times) * len(sizes)) < 15.2


@given(st.data())
def test_no_field_that_is_not_listed_gets_out(data: st.DataObject) -> None:
    """Whatever is in the fields: also in those that somebody will add."""
    marks = Marks(data.draw, {})
    task = marks.message(m.Task, problem=m.ProblemRef(name="p", hash="b" * 64), verdict=m.Verdict.WA)
    seen = disclosure.to_submitter(task, frozenset())
    listed = {f"{model.__name__}.{name}" for model, names in disclosure.COPIED_FIELDS.items() for name in names}
    files = ("Submission.", "SourceFile.")
    nested = (
        *files,
        "Test.",
        "LimitsOverride.",
        "RunOptions.",
        "ProblemRef.",
        "Limits.",
        "RunUsage.",
        "GroupScore.",
        "Waits.",
    )
    for place in marks.found(seen.model_dump_json()).values():
        assert place in listed | {"TestResult.score"} or place.startswith(nested), place


def _said(language: str, *, own_tests: bool, files: tuple[str, ...] = (), verdict: str = "AC") -> m.Task:
    heard = m.TestResult(name="sample/1", verdict="AC", output="heard", error="heard", reason="heard")
    result = m.Result(tests=[heard], compile_log="heard", reason="heard")
    task = _judged(verdict=verdict, result=result)
    sources = [m.SourceFile(name=name, text="x") for name in files]
    submission = task.submission.model_copy(update={"language": language, "files": sources})
    task = task.model_copy(update={"submission": submission})
    return disclosure.to_submitter(task, frozenset({"sample/1"}), own_tests=own_tests)


@pytest.mark.parametrize("verdict", ["AC", "CE", "RTE"])
@pytest.mark.parametrize(
    ("language", "files"), [("perl", ()), ("haskell", ()), ("nim", ()), ("a-sites-own", ()), ("cpp", ("@o.cpp",))]
)
def test_without_own_tests_nothing_is_shown_that_the_code_may_have_written(language, files, verdict) -> None:
    seen = _said(language, own_tests=False, files=files, verdict=verdict)
    assert seen.result is not None and "heard" not in seen.result.model_dump_json()
    shown = _said(language, own_tests=True, files=files, verdict=verdict)
    assert shown.result is not None and shown.result.compile_log == shown.result.tests[0].output == "heard"


def test_compilers_that_execute_code_of_a_submission_are_marked() -> None:
    table = load_table()
    marked = {name for name, row in table.items() if row.compile is not None and row.compile_executes}
    assert marked == {
        "ada", "awk", "clojure", "elixir", "erlang", "groovy", "haskell", "lisp", "nim", "octave", "perl", "prolog",
        "racket", "raku", "scala", "scheme", "sml",
    }  # fmt: skip
    row = {"name": "own", "title": "Own", "compile": ["/usr/bin/own"], "run": ["/box/run"]}
    assert Language.model_validate({**table["c"].model_dump(exclude={"compile_executes"}), **row}).compile_executes


def test_the_compilers_words_are_shown_where_compiling_executes_nothing() -> None:
    seen = _said("cpp", own_tests=False, verdict="CE")
    assert seen.result is not None and seen.result.compile_log == "heard" and not seen.result.tests[0].output
