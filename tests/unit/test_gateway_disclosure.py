"""What submitters see of secret tests: every field is classified, and figures carry no more than is said of them."""

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


@pytest.mark.parametrize("model", list(disclosure.COPIED_FIELDS), ids=lambda kind: kind.__name__)
def test_every_field_is_classified(model: type[BaseModel]) -> None:
    copied, computed, withheld = (
        table[model] for table in (disclosure.COPIED_FIELDS, disclosure.COMPUTED_FIELDS, disclosure.WITHHELD)
    )
    assert not copied & computed and not copied & withheld and not computed & withheld
    undecided = set(model.model_fields) ^ (copied | computed | withheld)
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
    view = disclosure.to_submitter(_judged(), SAMPLES)
    sample, secret = view.result.tests
    assert (sample.output, sample.exit_code, sample.message) == ("secret", 77, ""), "the judges' words are theirs"
    expected = m.TestResult(
        name="secret/1", verdict="WA", cpu=0.62, memory=24 * 1024**2, reason="wrong answer",
        feedback="the author says this", withheld=True,
    )  # fmt: skip
    assert secret == expected
    assert view.result.reason == "test secret/1: wrong answer"
    assert (view.result.stdout, view.result.compile_log, view.result.wall) == (None, "log", 0.0)
    assert [attempt.reason for attempt in view.history] == ["ended without a verdict", "judged: WA"]
    assert view.past[0].reason == "time limit exceeded" and view.past[0].cpu == 1.3
    assert view.rejudging is None
    assert "secret" not in view.model_copy(update={"result": None}).model_dump_json()


def test_without_samples_all_tests_are_secret() -> None:
    assert all(test.withheld for test in disclosure.to_submitter(_judged()).result.tests)


def test_a_problem_that_is_only_named_keeps_its_secrets_too() -> None:
    task = _judged(problem=None, submission=m.Submission(user="ada", problem="p"))
    assert "'secret'" not in disclosure.to_submitter(task).model_dump_json()


def test_a_run_without_a_problem_shows_all_but_the_open_rejudging() -> None:
    task = _judged(problem=None)
    assert disclosure.to_submitter(task) == task.model_copy(update={"rejudging": None})


def test_a_failing_sample_says_why() -> None:
    task = _judged(result=m.Result(tests=[_test("sample/1")], failed_test="sample/1", reason="whatever"))
    view = disclosure.to_submitter(task, SAMPLES)
    assert view.result.reason == "test sample/1: line 1, token 1: 'secret' is wrong"


@pytest.mark.parametrize("verdict", list(m.Verdict))
def test_every_verdict_has_its_sentence(verdict: m.Verdict) -> None:
    task = _judged(verdict=verdict, result=m.Result(tests=[_test("secret/1", verdict=verdict)], reason="said"))
    view = disclosure.to_submitter(task)
    assert "'" not in view.result.tests[0].reason
    assert (view.result.reason == "said") == (verdict is m.Verdict.CE), "a compiler has seen no test"


def test_the_reason_names_the_time_limit() -> None:
    def reason(cpu: float) -> str:
        result = m.Result(tests=[_test("secret/1", verdict="TLE", cpu=cpu)], limits=LIMITS)
        return disclosure.to_submitter(_judged(verdict="TLE", result=result)).result.tests[0].reason

    assert (reason(2.01), reason(0.1)) == ("CPU time limit exceeded", "time limit exceeded")


def test_total_time_exceeded_has_one_sentence() -> None:
    """In words that are the same for everybody, whatever the executor says."""
    account = Account(Allowance(problem_seconds=7), problem=True)
    late = _test("secret/1", verdict="TLE", reason=account.sentence)
    result = m.Result(tests=[late], limits=LIMITS, failed_test="secret/1", reason=f"test secret/1: {account.sentence}")
    view = disclosure.to_submitter(_judged(verdict="TLE", result=result)).result
    words = "total time exceeded: all runs of a submission together may take only so long; later tests are not run"
    assert (view.tests[0].reason, view.reason) == (words, f"test secret/1: {words}")


def test_points_are_for_problems_that_give_points() -> None:
    def score(total: float | None) -> float | None:
        task = _judged(result=m.Result(tests=[_test("secret/1")], score=total))
        return disclosure.to_submitter(task).result.tests[0].score

    assert (score(50.0), score(None)) == (12.5, None)


@pytest.mark.parametrize("progress", ["secret", "1/2 secret", "1/2\n", "\u0661/2", "1/"])
def test_progress_is_a_count_or_nothing(progress: str) -> None:
    running = {"result": None, "done": False, "status": "running", "verdict": None}
    assert disclosure.to_submitter(_judged(progress=progress, **running)).progress == ""
    assert disclosure.to_submitter(_judged(progress="3/10", **running)).progress == "3/10"


@given(st.floats(min_value=0, max_value=700))
def test_seconds_are_rounded_up_by_a_tenth_at_most(value: float) -> None:
    rounded = disclosure.seconds(value)
    assert value <= rounded * (1 + 1e-9)
    assert rounded <= max(value * 1.16, disclosure.LEAST_SECONDS)
    assert disclosure.seconds(rounded) <= rounded * (1 + 1e-9), "rounding twice changes nothing"


@given(st.floats(min_value=0, max_value=700), st.integers(0, 2**34), st.floats(0.1, 600), st.integers(2**22, 2**33))
def test_a_rounded_figure_keeps_its_limit(cpu: float, memory: int, seconds: float, memory_limit: int) -> None:
    limits = m.Limits(cpu=seconds, memory=memory_limit)
    test = _test("secret/1").model_copy(update={"cpu": cpu, "memory": memory})
    result = m.Result(tests=[test], cpu=cpu, memory=memory, limits=limits)
    view = disclosure.to_submitter(_judged(result=result)).result
    for figures in (view, view.tests[0]):
        assert (figures.cpu <= seconds) == (cpu <= seconds) or figures.cpu >= cpu > seconds
        assert (figures.memory <= memory_limit) == (memory <= memory_limit)
        assert figures.memory >= memory
        assert figures.cpu >= cpu * (1 - 1e-9) - 1e-4


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
    view = disclosure.to_submitter(task, frozenset())
    listed = {f"{model.__name__}.{name}" for model, names in disclosure.COPIED_FIELDS.items() for name in names}
    nested = (
        "Submission.",
        "SourceFile.",
        "Test.",
        "LimitsOverride.",
        "RunOptions.",
        "ProblemRef.",
        "Limits.",
        "RunUsage.",
        "GroupScore.",
        "Waits.",
    )
    for place in marks.matches(view.model_dump_json()).values():
        assert place in listed | {"TestResult.score"} or place.startswith(nested), place


def _disclosed(language: str, *, own_tests: bool, files: tuple[str, ...] = (), verdict: str = "AC") -> m.Task:
    sample = m.TestResult(name="sample/1", verdict="AC", output="heard", error="heard", reason="heard")
    result = m.Result(tests=[sample], compile_log="heard", reason="heard")
    task = _judged(verdict=verdict, result=result)
    sources = [m.SourceFile(name=name, text="x") for name in files]
    submission = task.submission.model_copy(update={"language": language, "files": sources})
    task = task.model_copy(update={"submission": submission})
    return disclosure.to_submitter(task, frozenset({"sample/1"}), own_tests=own_tests)


@pytest.mark.parametrize("verdict", ["AC", "CE", "RTE"])
@pytest.mark.parametrize(
    ("language", "files"), [("perl", ()), ("haskell", ()), ("nim", ()), ("a-sites-own", ()), ("cpp", ("@o.cpp",))]
)
def test_without_own_tests_no_output_is_shown(language, files, verdict) -> None:
    view = _disclosed(language, own_tests=False, files=files, verdict=verdict)
    assert "heard" not in view.result.model_dump_json()
    full_view = _disclosed(language, own_tests=True, files=files, verdict=verdict)
    assert full_view.result.compile_log == full_view.result.tests[0].output == "heard"


def test_compilers_that_execute_code_of_a_submission_are_marked() -> None:
    table = load_table()
    marked = {name for name, row in table.items() if row.compile is not None and row.compile_executes}
    assert marked == {
        "ada", "awk", "clojure", "elixir", "erlang", "groovy", "haskell", "lisp", "nim", "octave", "perl", "prolog",
        "racket", "raku", "scala", "scheme", "sml",
    }  # fmt: skip
    row = {"name": "own", "title": "Own", "compile": ["/usr/bin/own"], "run": ["/box/run"]}
    assert Language.model_validate({**table["c"].model_dump(exclude={"compile_executes"}), **row}).compile_executes


def test_the_log_of_a_plain_compiler_is_shown() -> None:
    view = _disclosed("cpp", own_tests=False, verdict="CE")
    assert view.result.compile_log == "heard" and not view.result.tests[0].output
