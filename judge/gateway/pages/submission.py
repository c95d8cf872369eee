"""The page of one submission: its verdict, its tests, output beside answer where one may see both, its source."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from flask import g, render_template, request, url_for
from markupsafe import Markup, escape

from judge.common.errors import JudgeError
from judge.common.text import lines
from judge.gateway.api import people, seen
from judge.gateway.api import problems as details
from judge.gateway.pages import compare, submitting, views
from judge.gateway.pages.table import page, services
from judge.gateway.statements.shown import Text
from judge.languages.sources import with_own_name
from judge.languages.table import load_table
from judge.model import messages as m
from judge.model.problem import ProblemInfo, ProblemManifest

log = logging.getLogger(__name__)

# Of a submission that fails a thousand tests the first few are looked at.
_COMPARED: Final = 5
# Places as compilers and interpreters name them: `a.c:3`, `a.pas(3`, `File "a.py", line 3`, `in a.php on line 3`,
# `a.pl line 3`.
# A name is looked for from its beginning alone, else a long one would be tried from each of its characters.
_PLACE: Final = re.compile(
    r"(?<![\w./+-])(?P<name>[\w./+-]{1,200}\.\w{1,8})\"?(?::|\(|,? (?:on )?line |:line )(?P<line>[0-9]{1,6})(?![0-9])"
)


@page("/submissions/<task_id>")
def submission(task_id: str) -> Any:
    """Also with `problem` in the query: the one from whose page it was run."""
    stored_task = seen.own_task(services.cluster, g.principal, task_id)
    task = seen.show(services.cluster, g.principal, stored_task)
    problem = _problem(task)
    return render_template(
        "submission.html",
        task=task,
        problem=problem,
        looks=views.looks(task),
        names=people.display_names(services.cluster, g.principal, [task.submission.user]),
        again=_edited_at(task, problem),
        compile_log=linked(task.result.compile_log, sources(task.submission)) if task.result else "",
        compared=_compared(task) if task.done and task.result is not None else {},
    )


def _problem(task: m.Task) -> ProblemInfo | None:
    """The problem that a submission is for, or was run for; None when this person does not see it now."""
    name = task.submission.problem or request.args.get("problem")
    if name is None:
        return None
    try:
        return details.find(services, name)
    except JudgeError:
        return None


def _compared(task: m.Task) -> dict[str, compare.Comparison]:
    """Output beside answer by the test's name: of failed tests whose output this person sees, and whose answer."""
    results = task.result.tests if task.result is not None else []
    tests = [test for test in results if test.verdict is m.Verdict.WA and test.output and not test.withheld]
    comparisons = {}
    try:
        answers = _answers(task) if tests else {}
        for test in [test for test in tests if test.name in answers][:_COMPARED]:
            text, blob = answers[test.name]
            answer = Text(text or "", whole=True) if blob is None else services.shown.text(blob)
            whole = answer.whole and test.output_bytes <= len(test.output.encode())
            comparisons[test.name] = compare.compare(test.output, answer.text, whole=whole)
    except JudgeError as exc:
        # The verdict is what people came for; answers that cannot be had now hide none of it.
        log.warning("submission %s is shown without answers: %s", task.id, exc)
        return {}
    return comparisons


def _answers(task: m.Task) -> Mapping[str, tuple[str | None, str | None]]:
    """(text, blob) of the answers that this person may see: their own tests', samples', for judges all."""
    if task.problem is None:
        return {test.name: (test.answer, test.answer_blob) for test in task.submission.tests if test.answered}
    with services.cluster.blob(task.problem.hash) as file:
        try:
            manifest = ProblemManifest.stored(json.load(file))
        except ValueError:
            return {}
    return {test.name: (None, test.answer) for test in manifest.tests if test.sample or g.principal.judges}


def _edited_at(task: m.Task, problem: ProblemInfo | None) -> str:
    """The address of the form that is filled with this submission; empty when no form can hold all of it."""
    if not submitting.has_program(task.submission):
        return ""
    if problem is not None:
        return f"{url_for('problem', name=problem.name)}?from={task.id}#submit"
    if task.submission.problem is None and not task.submission.tests:
        return f"{url_for('submit')}?from={task.id}"
    return ""


def sources(sub: m.Submission) -> list[ShownSource]:
    """The sources that the page shows with numbered lines, as `submission.html` names them. Pure."""
    if sub.source:
        row = load_table(None).get(sub.language or "")
        judged = row.own_name(sub.source, sub.filename) if row else ""
        return [ShownSource(sub.filename or judged, "src", len(views.beginning(sub.source)[0]), judged)]
    return [
        ShownSource(file.name, f"src-{number}", len(views.beginning(file.text)[0]))
        for number, file in enumerate(sub.files, 1)
        if file.text
    ]


@dataclass(frozen=True)
class ShownSource:
    """A source that the page shows: its name, the id that its lines' ids begin with, and how many lines it has.

    `judged` is the name under which the judge compiled it, where that may be another.
    """

    name: str
    anchor: str
    lines: int
    judged: str = ""


def linked(text: str, sources: Sequence[ShownSource]) -> Markup:
    """The text, escaped, with a link at each place in a source that is shown; others stay text.

    One source alone is meant by every name with its suffix: compilers see it under a name of their own, and the page
    names it as the person does, also where no line is named. Of several, the one whose path, or else whose last part
    alone, is named.
    """
    pieces, at = [], 0
    named = _SourceNames(sources)
    only = sources[0] if len(sources) == 1 and sources[0].name else None

    def plain(piece: str) -> Markup:
        if only and only.judged:
            piece = with_own_name(piece, only.judged, only.name)
        return escape(lines(piece))

    for match in _PLACE.finditer(text):
        source = named[match["name"]]
        if source is None or not 1 <= int(match["line"]) <= source.lines:
            continue
        pieces.append(plain(text[at : match.start()]))
        link = Markup('<a href="#{}-{}">{}</a>')
        place = match[0].replace(match["name"], only.name, 1) if only else match[0]
        pieces.append(link.format(source.anchor, int(match["line"]), lines(place)))
        at = match.end()
    return Markup("").join([*pieces, plain(text[at:])])


class _SourceNames(dict[str, ShownSource | None]):
    """The source that a place with a name is in; None for another file, or when that cannot be told.

    A log may name thousands of places, so each of its names is looked up once.
    """

    def __init__(self, sources: Sequence[ShownSource]) -> None:
        super().__init__()
        self._only = sources[0] if len(sources) == 1 else None
        # By the last part of the name, with all its parts.
        self._alike: dict[str, list[tuple[tuple[str, ...], ShownSource]]] = {}
        for source in sources:
            path = PurePosixPath(source.name)
            self._alike.setdefault(path.name, []).append((path.parts, source))

    def __missing__(self, name: str) -> ShownSource | None:
        self[name] = self._match(PurePosixPath(name))
        return self[name]

    def _match(self, path: PurePosixPath) -> ShownSource | None:
        if (only := self._only) is not None:
            return only if not only.name or path.suffix == PurePosixPath(only.name).suffix else None
        alike = self._alike.get(path.name, [])
        exact = [(len(parts), source) for parts, source in alike if path.parts[-len(parts) :] == parts]
        if exact:
            return max(exact, key=lambda pair: pair[0])[1]
        return alike[0][1] if len(alike) == 1 else None
