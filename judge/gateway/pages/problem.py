"""The page of one problem: what it asks for, its samples, the form to hand in, and what became of one's own tries."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import dataclass
from typing import Any

from flask import Response, flash, g, redirect, render_template, request, url_for
from markupsafe import Markup

from judge.common import clock
from judge.common.errors import FieldError, JudgeError, UsageError
from judge.common.text import decimal
from judge.gateway.api import handlers as api
from judge.gateway.api import problems as details
from judge.gateway.api import seen
from judge.gateway.api.models import LanguageInfo
from judge.gateway.api.routes import validated
from judge.gateway.pages import forms, submitting, views
from judge.gateway.pages.table import page, services
from judge.gateway.policy import content_policy
from judge.gateway.statements.pictures import interaction
from judge.gateway.statements.shown import View
from judge.languages.table import load_table, more_than
from judge.model import messages as m
from judge.model.problem import LimitOrigin, ProblemInfo, Statement, Verification
from judge.model.statements import Page
from judge.model.visibility import ProblemFields
from judge.problems.statements import kind_of

_LATEST = 5
_MIB = 1024**2
# Values of the form's buttons beside Submit.
_RUNS = {"samples", "input"}
_ACCESS = ("to", "groups", "since", "owners", "tags", "difficulty", "order")
PREPARING = "The statement is being prepared; the page shows it within seconds."
# A PDF is shown by the browser's own viewer, in an element of the page; other pages have none.
_POLICY = content_policy(object_src="'self'", frame_src="'self'")
_KINDS = {"md": "Text", "html": "Text", "tex": "Text", "txt": "Text", "pdf": "PDF"}
_LANGUAGES = {
    "ar": "العربية", "bg": "Български", "cs": "Čeština", "da": "Dansk", "de": "Deutsch", "el": "Ελληνικά",
    "en": "English", "es": "Español", "et": "Eesti", "fa": "فارسی", "fi": "Suomi", "fr": "Français", "he": "עברית",
    "hr": "Hrvatski", "hu": "Magyar", "hy": "Հայերեն", "id": "Bahasa Indonesia", "is": "Íslenska", "it": "Italiano",
    "ja": "日本語", "ka": "ქართული", "kk": "Қазақша", "ko": "한국어", "lt": "Lietuvių", "lv": "Latviešu",
    "nb": "Norsk bokmål", "nl": "Nederlands", "nn": "Norsk nynorsk", "no": "Norsk", "pl": "Polski",
    "pt": "Português", "pt-BR": "Português (Brasil)", "ro": "Română", "ru": "Русский", "sk": "Slovenčina",
    "sl": "Slovenščina", "sr": "Српски", "sv": "Svenska", "th": "ไทย", "tr": "Türkçe", "uk": "Українська",
    "uz": "O'zbekcha", "vi": "Tiếng Việt", "zh": "中文", "zh-CN": "中文 (简体)", "zh-TW": "中文 (繁體)",
}  # fmt: skip


@dataclass(frozen=True)
class Piece:
    """A part of the page: the author's text as harmless HTML, then samples (their numbers from 1)."""

    text: Markup
    samples: list[tuple[int, details.SampleInfo]]


def language_name(code: str) -> str:
    """The name of a language in that language; the code of one that is not known."""
    return _LANGUAGES.get(code) or _LANGUAGES.get(code.partition("-")[0]) or code


def limit_words(origin: LimitOrigin | None) -> str:
    """The origin of a time limit, for people; empty when nothing is noted."""
    if origin is None or origin.how == "package":
        return ""
    if origin.how == "hand":
        return "set by hand when it was imported"
    return (
        f"{decimal(origin.multiplier)} times the slowest accepted submission of the package "
        f"({views.seconds(origin.slowest_cpu)}), rounded up to a multiple of {views.seconds(origin.resolution)}"
    )


def parts(statement: Page, samples: list[details.SampleInfo]) -> list[Piece]:
    """The statement's text and the samples in their places; what the statement does not place comes after it."""
    unplaced = list(enumerate(samples, 1))
    pieces = []
    for text, amount in zip(statement.pieces, [*statement.samples, "rest"], strict=True):
        count = 1 if amount == "next" else len(unplaced)
        # The sanitizer made it (judge.problems.rendering).
        pieces.append(Piece(Markup(text), unplaced[:count]))  # noqa: S704
        unplaced = unplaced[count:]
    return pieces


@page("/problems/<name>")
def problem(name: str) -> Any:
    """Also with `language` and `kind` of the statement in the query, and `from` for an earlier program."""
    form = submitting.prefilled()
    form.values["problem"] = name
    if not form.earlier:
        form.values["language"] = ""  # that of the query is the statement's
    return _page(name, form)


@page("/problems/<name>", "POST", name="problem_submit")
def submit(name: str) -> Any:
    """To the new submission or run, or back to the problem with all that was typed."""
    form = submitting.posted()
    action = request.form.get("do", "")
    if action in _RUNS:
        outcome = _run(name, form, samples=action == "samples")
    else:
        form.values["problem"] = name
        outcome = submitting.submit(form)
    if outcome.task is not None:
        of = name if action in _RUNS else None
        return redirect(url_for("submission", task_id=outcome.task.id, problem=of), 303)
    form.values["problem"] = name
    try:
        response = _page(name, form)
    except JudgeError:  # the statement cannot be had now; what was typed can
        response = Response(submitting.page(form))
    response.status_code = outcome.status
    response.headers.update(outcome.headers)
    return response


def _run(name: str, form: forms.SubmitForm, *, samples: bool) -> submitting.Outcome:
    """Run a program with a problem's limits, on its samples or on the form's input; that is no try at the problem."""
    form.values["problem"] = ""
    try:
        info = details.find(services, name)
        view = services.shown.view(info)
    except JudgeError as exc:
        form.fail(exc)
        return submitting.Outcome(status=exc.http_status)
    if not view.runnable or (samples and not view.sample_tests):
        form.errors[""] = "A program for this problem only runs with the whole problem; submit it"
        return submitting.Outcome()
    limits = m.LimitsOverride(
        cpu=min(info.limits.cpu, 60),
        wall=min(info.limits.wall_seconds, 120),
        memory=min(max(info.limits.memory, 4 * _MIB), 4096 * _MIB),
    )
    tests = {"tests": view.sample_tests, "stdin": None, "mode": "full"} if samples else {}
    return submitting.submit(form, {"limits": limits, **tests})


@page("/problems/<name>/visibility", "POST", name="problem_change")
def change(name: str) -> Any:
    """Change visibility, tags, difficulty and order of a problem; judges and owners of the problem may."""
    typed = {field: request.form.get(field, "").strip() for field in _ACCESS}
    try:
        details.change(services.cluster, name, _fields(typed, judges=g.principal.judges))
    except UsageError as exc:
        if exc.http_status != 400:
            raise
        typed["error"] = str(exc)
        response = _page(name, forms.SubmitForm({"problem": name}), typed)
        response.status_code = 400
        return response
    flash("Saved. It takes effect within two seconds.", "good")
    return redirect(url_for("problem", name=name), 303)


def _page(name: str, form: forms.SubmitForm, typed: dict[str, str] | None = None) -> Response:
    info = details.find(services, name)
    view = services.shown.view(info)
    statement = details.choose(view, request.args.get("language"), request.args.get("kind"))
    statement = statement or details.choose(view, None)
    pieces, missing, why = _statement_parts(view, statement)
    languages = _languages(info.languages, form)
    text = render_template(
        "problem.html",
        problem=info,
        view=view,
        title=(statement.title if statement is not None else "") or view.title,
        statement=statement,
        kind=kind_of(statement.main) if statement is not None else "",
        others=_statement_rows(view, statement),
        pieces=pieces,
        missing=missing,
        why=why,
        preparing=why == PREPARING,
        form=form,
        languages=languages,
        more=more_than(info.limits, [language.name for language in languages], load_table()),
        limits=services.config.limits,
        limit_words=limit_words(view.limit_origin),
        tasks=_own_tasks(name),
        verification=_verification(name),
        access=typed or access_of(info),
        runs=view.runnable and _own_tests(),
    )
    return Response(text, headers={"Content-Security-Policy": _POLICY})


def _statement_parts(view: View, statement: Statement | None) -> tuple[list[Piece], list[str], str]:
    """The parts of the statement, pictures that it lacks, and why it cannot be shown as text."""
    samples = details.samples(services.shown, view.samples)
    blank = [Piece(Markup(""), list(enumerate(samples, 1)))]
    if statement is None:
        return blank, [], "This problem came without a statement."
    if kind_of(statement.main) == "pdf":
        return blank, [], ""
    try:
        rendered = services.shown.page(view, statement)
    except JudgeError as exc:
        return blank, [], f"The statement cannot be shown here: {exc}."
    if rendered is None:
        return blank, [], PREPARING
    if rendered.why:
        return blank, [], f"The statement cannot be shown here: {rendered.why}."
    return parts(rendered, samples), rendered.missing, ""


def _languages(allowed: list[str], form: forms.SubmitForm) -> list[LanguageInfo]:
    """The programming languages that one may hand in; a cluster that is away for a moment hides no statement."""
    try:
        languages = api.languages(services.cluster)
    except JudgeError as exc:
        form.errors.setdefault("", str(exc))
        return []
    return [language for language in languages if not allowed or language.name in allowed]


def _own_tests() -> bool:
    """Return whether this person may run programs without a problem."""
    try:
        return api.whoami(services.cluster, g.principal).allowance.own_tests
    except JudgeError:
        return False


def _verification(name: str) -> Verification | None:
    """For judges: what came of the package's own submissions."""
    if not g.principal.judges:
        return None
    try:
        return details.verification(services.cluster, name).verification
    except JudgeError:
        return None


def _own_tasks(name: str) -> list[m.Task]:
    query = m.SearchRequest(user=g.principal.user, problem=name, limit=_LATEST)
    try:
        return seen.search(services.cluster, g.principal, query).tasks
    except JudgeError:
        return []


def _statement_rows(view: View, statement: Statement | None) -> list[tuple[str, str, str, bool]]:
    """The statements to choose from: language, kind, words, and whether it is the one that is shown."""
    counts = Counter(entry.language for entry in view.statements)
    rows = []
    for entry in view.statements:
        kind, alone = kind_of(entry.main), counts[entry.language] == 1
        name = language_name(entry.language) if len(counts) > 1 or alone else ""
        label = ", ".join(filter(None, (name, "" if alone else _KINDS.get(kind, kind))))
        rows.append((entry.language, kind, label, entry is statement))
    return rows


def access_of(problem: ProblemInfo) -> dict[str, str]:
    """The fields of the form for who sees a problem, and its labels; empty if the caller may not change them."""
    visibility = problem.visibility
    if visibility is None:
        return {}
    return {
        "to": "everyone" if visibility.everyone else "groups" if visibility.groups else "nobody",
        "groups": " ".join(visibility.groups),
        "since": f"{visibility.since.astimezone(datetime.UTC):%Y-%m-%d %H:%M}" if visibility.since is not None else "",
        "owners": " ".join(problem.owners),
        "tags": " ".join(problem.tags),
        "difficulty": problem.difficulty,
        "order": str(problem.order),
    }


def _fields(typed: dict[str, str], *, judges: bool) -> ProblemFields:
    """The changes that the form asks for; FieldError."""
    to, groups = typed["to"], typed["groups"].replace(",", " ").split()
    if to not in {"everyone", "groups", "nobody"}:
        raise FieldError("to", "is not chosen; choose who sees the problem")
    if to == "groups" and not groups:
        raise FieldError("groups", "has no name; name the groups that see the problem")
    since = views.utc_time(typed["since"]) or None
    visibility = {"everyone": to == "everyone", "groups": groups if to == "groups" else [], "since": since}
    owners = typed["owners"].replace(",", " ").split() if judges else None
    labels = {
        "tags": typed["tags"].replace(",", " ").split(),
        "difficulty": typed["difficulty"],
        "order": typed["order"] or 0,
    }
    return validated(ProblemFields, {"visibility": visibility, "owners": owners, **labels}, "the form")


def visibility_words(problem: ProblemInfo) -> str:
    """The mark of a problem that not everyone sees; empty for others, and for who may not know."""
    return "" if problem.visibility is None else problem.visibility.words(clock.wall())


FILTERS = {"interaction": interaction, "visibility": visibility_words, "language_name": language_name}
