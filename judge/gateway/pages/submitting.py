"""Forms that hand a program in: on the submit page and on a problem's page, also filled with an earlier submission."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flask import g, render_template, request

from judge.common.errors import ConflictError, JudgeError, OutcomeUnknownError
from judge.config import SubmissionLimits
from judge.gateway import trace
from judge.gateway.api import handlers as api
from judge.gateway.api import seen
from judge.gateway.api.answers import paced
from judge.gateway.api.models import LanguageInfo
from judge.gateway.pages import forms, views
from judge.gateway.pages.table import services
from judge.gateway.submit import Upload, admit
from judge.languages import handed
from judge.model import messages as m
from judge.model.base import rate_of
from judge.model.problem import ProblemInfo

log = logging.getLogger(__name__)

_MIB = 1024**2


@dataclass
class Outcome:
    """The new task, or the status and headers of the page that shows the form with its errors."""

    task: m.Task | None = None
    status: int = 400
    headers: dict[str, str] = field(default_factory=dict)


def prefilled() -> forms.SubmitForm:
    """The form as the query asks for it: a problem and a language, or all of an earlier submission (`from`)."""
    earlier = request.args.get("from", "")
    if not earlier:
        return forms.SubmitForm({name: request.args.get(name, "") for name in ("problem", "language")})
    return filled(_earlier(earlier))


def submit(form: forms.SubmitForm, changes: Mapping[str, Any] | None = None) -> Outcome:
    """Hand in what a form asks for; what is wrong with it stands in `form.errors`.

    `changes` are fields that the page sets, after the checks of what people may set: blobs of public files as tests.
    """
    if not g.csrf_valid:
        form.errors[""] = "This page was open for too long. What you typed is here: please submit again."
        return Outcome()
    try:
        submission = form.submission(_files(form), services.config.limits)
        return Outcome(_add(form, submission, changes or {})) if submission is not None else Outcome()
    except OutcomeUnknownError as exc:
        # The form still has its key, so a second try finds what the first one made.
        form.errors[""] = "The judge's servers did not answer in time. What you typed is here: please submit again."
        return Outcome(status=exc.http_status)
    except JudgeError as exc:
        form.fail(exc)
        retry = {"Retry-After": "10"} if exc.http_status == 429 else {}  # as the API says it
        return Outcome(status=exc.http_status, headers=retry | paced(rate_of(exc), refused=True))


def page(form: forms.SubmitForm) -> str:
    """The submit page with a form; what was typed survives a cluster that is away for a moment."""
    problems: list[ProblemInfo] = []
    languages: list[LanguageInfo] = []
    try:
        problems = api.problems(services.cluster).problems
        languages = api.languages(services.cluster)
    except JudgeError as exc:
        form.errors.setdefault("", str(exc))
    return _rendered(form, problems, languages)


def later(error: JudgeError) -> str:
    """The submit page if no judicator can confirm the session. It keeps what the person typed."""
    form = posted()
    form.errors[""] = f"What you typed is here: please submit again. {views.capitalize_first(str(error))}"
    return _rendered(form, [], [])


def _rendered(form: forms.SubmitForm, problems: list[ProblemInfo], languages: list[LanguageInfo]) -> str:
    limits = services.config.limits
    return render_template("submit.html", form=form, problems=problems, languages=languages, limits=limits)


def _add(form: forms.SubmitForm, submission: m.Submission, changes: Mapping[str, Any]) -> m.Task:
    admitted = admit(submission, g.principal, services.config.limits, None, trace.current())
    admitted = admitted.model_copy(update=dict(changes))
    try:
        reply = services.cluster.add(admitted)
    except ConflictError:
        # The person went back, changed the text and pressed the button again: a new submission under an old key.
        form.key = forms.new_key()
        reply = services.cluster.add(admitted.model_copy(update={"idempotency_key": form.key}))
    log.info("%s handed in %s through the form, trace %s", g.principal.user, reply.task.id, reply.task.trace)
    return reply.task


def _files(form: forms.SubmitForm) -> list[Upload]:
    """The chosen files, and those of the earlier submission that are kept; a chosen file replaces its namesake."""
    uploads = _uploads(services.config.limits)
    if not form.earlier:
        return uploads
    files = {file.name: file.data for file in _earlier(form.earlier).submission.files}
    form.files = list(files)
    if any(handed.is_archive(file.name, file.data) for file in uploads):
        return uploads  # an archive is all of a program
    names = {file.name for file in uploads}
    earlier_names = [name for name in form.kept if name in files and name not in names]
    return [Upload(name, len(files[name]), files[name]) for name in earlier_names] + uploads


def _earlier(task_id: str) -> m.Task:
    return seen.show(services.cluster, g.principal, seen.own_task(services.cluster, g.principal, task_id))


def posted() -> forms.SubmitForm:
    form = forms.from_mapping(request.form, request.form.getlist("keep"))
    form.lost = [file.filename[-60:] for file in request.files.getlist("file") if file.filename]
    return form


def has_program(submission: m.Submission) -> bool:
    return submission.command is None and bool(submission.source or submission.files)


def filled(task: m.Task) -> forms.SubmitForm:
    """The form with the program, language and input of an earlier submission; its files are kept unless unchosen."""
    sub = task.submission
    limits = sub.limits
    values = {
        "language": sub.language or "",
        "problem": sub.problem or "",
        "source": sub.source or "",
        "entry": sub.entry or "",
        "stdin": sub.stdin or "",
        "cpu": "" if limits.cpu is None else f"{limits.cpu:g}",
        "wall": "" if limits.wall is None else f"{limits.wall:g}",
        "memory": "" if limits.memory is None else f"{limits.memory / _MIB:g}",
    }
    names = [file.name for file in sub.files]
    return forms.SubmitForm(values, earlier=task.id, files=names, kept=names)


def _uploads(limits: SubmissionLimits) -> list[Upload]:
    """The chosen files; of each no more is read than may be handed in."""
    uploads = []
    limit = max(limits.source_bytes, handed.bounds(limits, outputs=True).largest)
    for file in request.files.getlist("file"):
        if file.filename:
            length = file.stream.seek(0, 2)
            file.stream.seek(0)
            uploads.append(Upload(file.filename, length, file.stream.read(limit)))
    return uploads
