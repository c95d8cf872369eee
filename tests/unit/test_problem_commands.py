"""`judgectl problem` without a cluster: what `show` says, an export that fails midway, refused tests, progress."""

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, cast

import pytest
from rich.console import Console

from judge.common import clock
from judge.common.errors import UnavailableError, UsageError
from judge.ctl import show
from judge.ctl.api import Api
from judge.ctl.problem import checking, exporting, inferring, uploading
from judge.ctl.problem.rows import SubmissionRow, table_of
from judge.ctl.problem.showing import print_problem
from judge.ctl.problem.trial import Present, Trial
from judge.model import messages as m
from judge.model.problem import ProblemInfo, ProblemManifest
from judge.problems.examples import Example
from judge.problems.expectations import CURRENT, Candidate
from judge.problems.package import read_package
from tests.support.gateway import make_task

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("packages/whisper", ["communication, 2 processes, manager manager (python3", "few bits", "threshold", "80"]),
        ("packages/sum-files", ["reads ", "writes "]),
        ("packages/loopless", ["static validator"]),
        ("packages/halves", ["grader", "read as kattis reads it"]),
        ("packages/countdown", ["input validators", "secret/small"]),
        ("foreign/polygon-hunt", ["2025-09, made of a package of polygon"]),
    ],
)
def test_show_prints_all_that_decides_judging(
    package: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with read_package(EXAMPLES / package) as content:
        manifest = content.manifest
    info = ProblemInfo(name=manifest.name, hash="0" * 64, tests=len(manifest.tests), limits=manifest.limits)
    print_problem(info, manifest)
    output = " ".join(capsys.readouterr().out.split())
    assert [word for word in words if " ".join(word.split()) not in output] == []


class LosingGateway:
    """Sends the first file, and is lost."""

    def get_blob(self, sha: str, file: IO[bytes]) -> None:
        if sha == "b":
            raise UnavailableError("the gateway does not answer")
        file.write(b"content")
        file.seek(0)


@pytest.mark.parametrize("name", ["package.zip", "package"])
def test_a_failed_export_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(exporting, "_files", lambda *_: {"problem.yaml": "a", "secret/1.in": "b"})
    with pytest.raises(UnavailableError):
        exporting.export(cast("Api", LosingGateway()), "sums", tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("message", "reason", "sentence"),
    [
        ("no", "the input validator 'twice' does not accept: no", "the package's own validator 'twice': no"),
        ("", "the input validator 'twice' does not accept: ended with exit code 0",
         "the package's own validator: the input validator 'twice' does not accept: ended with exit code 0"),
        ("'no'", "the output validator does not accept the answer", "the package's own validator: 'no'"),
        ("", "", "the package's own validator"),
    ],
)  # fmt: skip
def test_the_validator_that_refuses_a_test_is_named(message: str, reason: str, sentence: str) -> None:
    test = m.TestResult(name="secret/1", verdict=m.Verdict.WA, message=message, reason=reason)
    assert checking._sentence("inputs", test) == f"test secret/1: its input is refused by {sentence}"


def row(*verdicts: m.Verdict) -> checking.CheckRow:
    tests = [
        m.TestResult(name=f"secret/{number}", verdict=verdict, reason="ended with exit code 1")
        for number, verdict in enumerate(verdicts, 1)
    ]
    worst = next((verdict for verdict in verdicts if verdict is not m.Verdict.AC), m.Verdict.AC)
    task = make_task(verdict=worst, result=m.Result(tests=tests))
    return checking.CheckRow("check of answers", task, "answers")


@pytest.mark.parametrize("count", [1, 3])
def test_an_output_validator_that_fails_on_every_answer_stops_the_import(count: int) -> None:
    outcome = checking.CheckOutcome()
    checking._judge(row(*[m.Verdict.JE] * count), outcome)
    answers = "its only answer" if count == 1 else f"all {count} answers"
    assert outcome.warnings == [] and f"fails on {answers}" in outcome.broken[0]
    with pytest.raises(UsageError, match=rf"x: is not imported: its output validator fails on {answers}"):
        checking.refuse("x", outcome)


@pytest.mark.parametrize("verdict", [m.Verdict.AC, m.Verdict.WA])
def test_an_output_validator_that_judges_some_answer_is_warned_of(verdict: m.Verdict) -> None:
    outcome = checking.CheckOutcome()
    checking._judge(row(m.Verdict.JE, verdict), outcome)
    assert outcome.broken == [] and len(outcome.warnings) == 1


ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
MIB = 1024**2


def screen(terminal: bool) -> show.Screen:
    return show.Screen(file=io.StringIO(), force_terminal=terminal, color_system=None, width=160)


def said_on(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class Judging:
    """An API of which each task takes one more look to be done, two of them where it is asked for first."""

    def __init__(self) -> None:
        self.submitted: list[m.Submission] = []
        self.looks: dict[str, int] = {}

    def put_content(self, _: bytes) -> str:
        return "0" * 64

    def submit(self, submission: m.Submission) -> m.Task:
        self.submitted.append(submission)
        return self._task(f"{len(self.submitted):024}", ended=False)

    def get(self, task: str, **_: object) -> m.Task:
        self.looks[task] = self.looks.get(task, 0) + 1
        return self._task(task, ended=self.looks[task] > (1 if task.endswith("1") else 0))

    def working(self) -> Sequence[object]:
        return []

    def _task(self, name: str, *, ended: bool) -> m.Task:
        task = m.Task(
            id=name, submission=m.Submission(language="python3", source="x"), status="pending", done=ended, created=""
        )
        if not ended:
            return task
        judged = m.Result(cpu=0.5, tests=[m.TestResult(name="secret/1", verdict="AC")])
        return task.model_copy(update={"status": m.Status.SUCCESS, "verdict": m.Verdict.AC, "result": judged})


def rows_of(trial: Trial) -> list[SubmissionRow]:
    rows = []
    for name in ("accepted/a.py", "accepted/b.py"):
        candidate = Candidate(name, b"x", "python3", [next(rule for rule in CURRENT if rule.glob == "accepted")])
        submission = m.Submission(language="python3", source="x")
        rows.append(SubmissionRow(Example("p", candidate, submission), trial.hand_in(submission), 2.0))
    return rows


@pytest.mark.parametrize(("terminal", "quiet"), [(True, False), (False, False), (True, True)])
def test_the_table_is_live_on_a_terminal(monkeypatch: pytest.MonkeyPatch, terminal: bool, quiet: bool) -> None:
    out, err = screen(terminal), screen(terminal)
    monkeypatch.setattr(show, "out", out)
    monkeypatch.setattr(show, "err", err)
    trial = Trial(Judging(), "p", "0" * 64)  # type: ignore[arg-type]
    counts: list[int] = []

    def table(rows: Sequence[SubmissionRow]) -> object:
        counts.append(sum(row.task.done for row in rows))
        return table_of(rows)

    results = trial.follow(rows_of(trial), table, quiet=quiet)  # type: ignore[arg-type]
    assert [row.task.verdict for row in results] == [m.Verdict.AC, m.Verdict.AC]
    if not terminal or quiet:
        assert said_on(out) == ""
        assert said_on(err).splitlines() == ([] if quiet else ["[1/2] AC accepted/b.py", "[2/2] AC accepted/a.py"])
        return
    # It is drawn when one has ended and when both have, and taken away in the end.
    assert counts == [0, 1, 2]
    assert said_on(err) == ""
    drawn = [ESCAPES.sub("", part) for part in said_on(out).split("submission     language")]
    assert [part.count("500 ms") for part in drawn if "accepted/a.py" in part][:2] == [1, 2]
    assert said_on(out).endswith("\x1b[2K")


def upload_output(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, steps: Sequence[tuple[float, int]], total: int
) -> list[str]:
    """What is told of an upload that has sent so many bytes more at these times."""
    now = [100.0]
    err = screen(terminal)
    if terminal:
        monkeypatch.setattr(err, "get_time", lambda: now[0])
    monkeypatch.setattr(show, "err", err)
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    with uploading._telling(total, quiet=False) as count_sent:
        for at, count in steps:
            now[0] = 100.0 + at
            count_sent(count)
            refresh(count_sent)
    return [line.strip() for line in re.split(r"[\r\n]", ESCAPES.sub("", said_on(err))) if line.strip()]


def refresh(count_sent: Callable[[int], None]) -> None:
    """Draw a bar anew, which it does by itself a few times a second."""
    for cell in getattr(count_sent, "__closure__", None) or ():
        if hasattr(cell.cell_contents, "refresh"):
            cell.cell_contents.refresh()


def test_an_upload_tells_bytes_speed_and_time_left_in_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [(1, 10 * MIB), (4.9, 10 * MIB), (5, 5 * MIB), (9, 5 * MIB), (10, 20 * MIB)]
    assert upload_output(monkeypatch, False, steps, 100 * MIB) == [
        "uploaded 25 MiB of 100 MiB, 5 MiB/s, 15 s left",
        "uploaded 50 MiB of 100 MiB, 5 MiB/s, 10 s left",
    ]


def test_an_upload_tells_bytes_speed_and_time_left_in_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = upload_output(monkeypatch, True, [(float(second), 5 * MIB) for second in range(1, 11)], 100 * MIB)
    assert lines[-1].startswith("uploading")
    assert "50.0/100.0 MiB" in lines[-1]
    assert re.search(r"5\.\d MB/s 0:00:(10|09)", lines[-1]), lines


def test_an_upload_is_silent_without_bytes_and_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert upload_output(monkeypatch, False, [(60, 0)], 0) == []
    err = screen(terminal=False)
    monkeypatch.setattr(show, "err", err)
    with uploading._telling(MIB, quiet=True) as count_sent:
        count_sent(MIB)
    assert said_on(err) == ""


def test_submissions_for_inferring_have_low_priority_and_run_all_tests() -> None:
    api = Judging()
    candidate = Candidate("accepted/a.py", b"x", "python3", [CURRENT[0]])
    package = type("Package", (), {"manifest": ProblemManifest(name="p", tests=[])})()
    trial = Trial.of(api, package.manifest)  # type: ignore[arg-type]
    inferring.hand_in(package, trial, [candidate], Present(frozenset({"python3"}), any=True))  # type: ignore[arg-type]
    assert [(submission.priority, submission.mode, submission.problem_hash) for submission in api.submitted] == [
        ("low", "full", "0" * 64)
    ]
