"""The table of verdicts is whole: pages, judgectl, the API's sentences and the documentation show each of them."""

import re
from pathlib import Path
from typing import Any

import jinja2
import pytest
from rich.style import Style
from typer.testing import CliRunner

import judge.gateway
from judge.ctl import main, show, submit
from judge.executor.slot.packaged import grading
from judge.gateway.pages import problem, views
from judge.model.messages import Status, Verdict
from tests.support.gateway import make_task

ROOT = Path(__file__).resolve().parents[2]
GATEWAY = Path(judge.gateway.__file__).parent
# The words of the package format (docs/problems-format.md).
FORMAT = {"AC", "WA", "TLE", "RTE"}


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_is_whole(verdict: Verdict) -> None:
    about = verdict.about
    assert verdict.name == verdict.value == str(verdict)
    assert about.title
    assert bool(about.sentence) is (verdict is not Verdict.AC)
    assert set(about.package.split()) <= FORMAT
    assert about.status.done
    assert Style.parse(about.colour)


def test_verdicts_differ_in_what_tells_them_apart() -> None:
    every = [verdict.about for verdict in Verdict]
    for column in ("title", "sentence", "severity", "icon", "exit_code"):
        assert len({getattr(about, column) for about in every}) == len(every), column
    assert submit.EXIT_CANCELLED not in {about.exit_code for about in every}


def test_verdicts_of_packages() -> None:
    assert {verdict for verdict in Verdict if not verdict.about.package} == {Verdict.CE, Verdict.JE}
    assert set().union(*(verdict.about.package.split() for verdict in Verdict)) == FORMAT


def test_the_worst_of_a_group_is_the_format_s() -> None:
    worst = sorted(
        (verdict for verdict in Verdict if verdict.about.package), key=lambda verdict: verdict.about.severity
    )
    assert worst == [Verdict.AC, Verdict.WA, Verdict.OLE, Verdict.TLE, Verdict.MLE, Verdict.RTE, Verdict.SV]
    assert Verdict.JE.about.severity > worst[-1].about.severity


def test_statuses_follow_the_verdict() -> None:
    statuses = {verdict: verdict.about.status for verdict in Verdict}
    assert statuses.pop(Verdict.AC) is Status.SUCCESS
    assert statuses.pop(Verdict.CE) is Status.COMPILE_FAILED
    assert statuses.pop(Verdict.JE) is Status.INTERNAL_ERROR
    assert set(statuses.values()) == {Status.RUN_FAILED}


@pytest.mark.parametrize("verdict", Verdict)
def test_pages_show_it(verdict: Verdict) -> None:
    templates = jinja2.Environment(loader=jinja2.FileSystemLoader(GATEWAY / "templates"), autoescape=True)
    templates.filters |= {**views.FILTERS, **problem.FILTERS, "when": views.utc}
    macros: Any = templates.get_template("macros.html").module
    judged = make_task().submission.model_copy(update={"problem": "sum"})
    badge = macros.badge(make_task(done=True, verdict=verdict, submission=judged))
    text = re.sub(r"\s+", " ", str(badge))
    assert f"<b>{verdict}</b>" in text
    assert verdict.about.title.replace("'", "&#39;") in text
    drawing = re.search(r"<svg[^>]*>(.*?)</svg>", text)
    assert drawing, text
    assert "<" in drawing[1], "it has no icon"
    assert f".badge.{verdict.about.tone} " in (GATEWAY / "static/app.css").read_text()


@pytest.mark.parametrize("verdict", Verdict)
def test_judgectl_shows_it(verdict: Verdict) -> None:
    task = make_task(done=True, verdict=verdict)
    text = show.verdict_text(task)
    assert text.plain == verdict
    assert text.style == verdict.about.colour
    assert submit.exit_code(task) == verdict.about.exit_code


@pytest.mark.parametrize("verdict", Verdict)
def test_the_documentation_names_it(verdict: Verdict) -> None:
    assert re.search(rf"^\| {verdict}\b", (ROOT / "docs/judging.md").read_text(), re.MULTILINE)
    assert re.search(rf"\b{verdict}\b", (ROOT / "docs/for/contestant.md").read_text())
    codes = next(line for line in (ROOT / "docs/judgectl.md").read_text().splitlines() if "`submit`: WA 10" in line)
    assert verdict is Verdict.AC or f"{verdict} {verdict.about.exit_code}" in codes


def test_the_help_of_submit_has_every_exit_code() -> None:
    output = " ".join(CliRunner().invoke(main.app, ["submit", "--help"], env={"COLUMNS": "200"}).stdout.split())
    assert [verdict for verdict in Verdict if f"{verdict.about.exit_code} {verdict}" not in output] == []


@pytest.mark.parametrize("verdict", Verdict)
def test_a_grader_may_answer_those_that_the_table_says(verdict: Verdict) -> None:
    """A grader sees no compilation, and does not judge what a submission must not do."""
    assert verdict.about.graded is (verdict not in {Verdict.CE, Verdict.SV})
    assert grading.answered(f" {verdict} 40\n".encode()) == ((verdict, 40.0) if verdict.about.graded else None)


@pytest.mark.parametrize("text", ["", "AC", "AC 40 7", "ac 40", "AC many", "QQ 3", "AC 40\n" + " " * 1024])
def test_other_answers_of_a_grader_are_none(text: str) -> None:
    assert grading.answered(text.encode()) is None
