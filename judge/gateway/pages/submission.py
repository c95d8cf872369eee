"""The page of one submission: its verdict, its tests, output beside answer where one may see both, its source."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from flask import g, render_template, url_for
from markupsafe import Markup
from pydantic import ValidationError

from judge.common.errors import JudgeError
from judge.gateway.api import problems as details
from judge.gateway.api import seen
from judge.gateway.api.routes import Services
from judge.gateway.pages import compare, places, submitting, views
from judge.languages.table import load_table
from judge.model import messages as m
from judge.model.problem import ProblemManifest

log = logging.getLogger(__name__)

# Of a submission that fails a thousand tests the first few are looked at.
_COMPARED: Final = 5


class SubmissionPage:
    """The view of one app."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def page(self, task_id: str) -> Any:
        """GET /submissions/ID."""
        stored_task = seen.own_task(self._services.cluster, g.principal, task_id)
        task = seen.show(self._services.cluster, g.principal, stored_task)
        log_shown = places.linked(task.result.compile_log, sources(task.submission)) if task.result else Markup("")
        return render_template(
            "submission.html",
            task=task,
            title=self._title(task),
            again=_edited_at(task),
            compile_log=log_shown,
            compared=self._compared(task) if task.done else {},
        )

    def _title(self, task: m.Task) -> str:
        """The title of the problem that a submission is for; empty when it cannot be had."""
        if task.submission.problem is None:
            return ""
        try:
            return details.find(self._services, task.submission.problem).title
        except JudgeError:
            return ""

    def _compared(self, task: m.Task) -> dict[str, compare.Comparison]:
        """Output beside answer by the test's name: of failed tests whose output this person sees, and whose answer."""
        if task.result is None:
            return {}
        tests = [
            test for test in task.result.tests if test.verdict is m.Verdict.WA and test.output and not test.withheld
        ]
        try:
            answers = self._answers(task) if tests else {}
            comparisons = {}
            for test in [test for test in tests if test.name in answers][:_COMPARED]:
                answer = answers[test.name]
                text, all_of_it = (answer[0] or "", True) if answer[1] is None else self._text(answer[1])
                complete = all_of_it and test.output_bytes <= len(test.output.encode())
                comparisons[test.name] = compare.compare(test.output, text, whole=complete)
        except JudgeError as exc:
            # The verdict is what people came for; answers that cannot be had now hide none of it.
            log.warning("submission %s is shown without answers: %s", task.id, exc)
            return {}
        return comparisons

    def _text(self, sha: str) -> tuple[str, bool]:
        text = self._services.shown.text(sha)
        return text.text, text.whole

    def _answers(self, task: m.Task) -> Mapping[str, tuple[str | None, str | None]]:
        """(text, blob) of the answers that this person may see: their own tests', samples', for judges all."""
        if task.problem is None:
            return {
                test.name: (test.answer, test.answer_blob)
                for test in task.submission.tests
                if test.answer is not None or test.answer_blob is not None
            }
        with self._services.cluster.blob(task.problem.hash) as file:
            try:
                manifest = ProblemManifest.stored(json.load(file))
            except (ValidationError, ValueError):
                return {}
        return {test.name: (None, test.answer) for test in manifest.tests if test.sample or g.principal.judges}


def _edited_at(task: m.Task) -> str:
    """The address of the form that is filled with this submission; empty when the form cannot hold all of it."""
    if not submitting.can_be_edited(task.submission):
        return ""
    if task.submission.problem is None:
        return f"{url_for('submit')}?from={task.id}"
    return f"{url_for('problem', name=task.submission.problem)}?from={task.id}#submit"


def sources(sub: m.Submission) -> list[places.ShownSource]:
    """The sources that the page shows with numbered lines, as `submission.html` names them. Pure."""
    if sub.source:
        row = load_table(None).get(sub.language or "")
        name = sub.filename or (row.source_name if row else "")
        return [places.ShownSource(name, "src", len(views.beginning(sub.source)[0]))]
    return [
        places.ShownSource(file.name, f"src-{number}", len(views.beginning(file.text)[0]))
        for number, file in enumerate(sub.files, 1)
        if file.text
    ]


def table(services: Services) -> list[tuple[str, str, Callable[..., Any], list[str]]]:
    """The row of this page in the table of pages."""
    return [("/submissions/<task_id>", "submission", SubmissionPage(services).page, ["GET"])]
