"""Problems in the HTTP API: what people see of one, its statement, and the files that everybody may have."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Literal
from urllib.parse import quote

from flask import Response, request
from pydantic import Field

from judge.common.errors import FieldError, NotFoundError
from judge.common.text import suggestion
from judge.gateway import disclosure
from judge.gateway.api.routes import BINARY, BYTES, IDENTIFIER, Call, Reply, Route, Services, named, streamed
from judge.gateway.cluster import Cluster
from judge.gateway.statements import pictures
from judge.gateway.statements.shown import Sample, Statements, View, file_of
from judge.model import messages as m
from judge.model.deleting import ProblemName
from judge.model.problem import LimitOrigin, ProblemInfo, ProblemsReply, Statement, Verification, VerificationReply
from judge.model.visibility import ProblemChange, ProblemFields
from judge.problems.statements import kind_of, text_of

# A file's address names its content, so a browser may keep it; others than the one who asked may not.
_KEEP = "private, max-age=86400, immutable"


class StatementInfo(m.Message):
    """One statement of a problem. `file` is the SHA-256 of its source, for `/problems/NAME/files/SHA`."""

    language: str
    kind: str = Field(description="md, html, pdf, tex or txt")
    name: str
    file: m.Sha256
    html: bool = Field(description="whether it is available as HTML")


class SampleInfo(m.Message):
    """One sample as people see it; texts are cut at 16 KiB, and `whole` says that nothing is missing.

    `interaction` are lines that begin with `<` (said by the judge) or `>` (said by the submission).
    """

    name: str
    input: str | None = None
    answer: str | None = None
    interaction: str | None = None
    whole: bool = True
    input_file: m.Sha256 | None = None
    answer_file: m.Sha256 | None = None


class AttachmentInfo(m.Message):
    """A file that comes with the problem."""

    name: str
    file: m.Sha256


class ProblemDetails(ProblemInfo):
    """One problem as people see it, with its statements, samples and attachments."""

    statements: list[StatementInfo] = Field(default_factory=list)
    samples: list[SampleInfo] = Field(default_factory=list)
    attachments: list[AttachmentInfo] = Field(default_factory=list)
    limit_origin: LimitOrigin | None = Field(default=None, description="the origin of the time limit")
    format: str = ""
    dialect: str = ""
    origin: str = ""


class StatementQuery(m.Message):
    """The query of a call for a statement: its language; without one, Accept-Language chooses."""

    language: str | None = Field(default=None, max_length=20)
    kind: Literal["md", "html", "pdf", "tex", "txt"] | None = None


class StatementReply(m.Message):
    """A statement as harmless HTML, with `<div data-sample="NAME">` where samples belong; `why` says why there is none.

    With `preparing` an executor is making it: ask again. Pictures in it are to be had under the same API.
    """

    language: str
    kind: str
    file: m.Sha256
    html: str | None = None
    preparing: bool = False
    why: str = ""


# --- what pages use as well ------------------------------------------------------------------------------------


def find(services: Services, name: str) -> ProblemInfo:
    """One problem that the person who asks sees; NotFoundError."""
    problems = {info.name: info for info in services.cluster.call("problems", m.Empty(), ProblemsReply).problems}
    if name not in problems:
        raise NotFoundError(
            f"there is no problem '{name[:60]}'; {suggestion(name, problems, 'see the list of problems')}"
        )
    return problems[name]


def choose(view: View, language: str | None, kind: str | None = None) -> Statement | None:
    """The statement that this request is about: as asked for, else in the language that the browser prefers."""
    preferred = language or request.accept_languages.best_match(view.languages)
    return view.statement(preferred, kind) or (view.statement(None, kind) if language is None else None)


def samples(files: Statements, several: Sequence[Sample]) -> list[SampleInfo]:
    """Samples with the texts of them that are shown."""
    infos = []
    for sample in several:
        spoken = sample.interaction is not None
        texts = {
            field: files.text(sha)
            for field, sha in (("input", sample.input), ("answer", sample.answer), ("interaction", sample.interaction))
            if sha is not None and (field == "interaction") == spoken
        }
        infos.append(
            SampleInfo(
                name=sample.name.removeprefix("sample/"),
                input_file=sample.kept_input,
                answer_file=sample.kept_answer,
                whole=all(text.whole for text in texts.values()),
                **{field: text.text for field, text in texts.items()},
            )
        )
    return infos


def change(cluster: Cluster, name: str, fields: ProblemFields) -> ProblemInfo:
    """Change who sees a problem, its owners and labels; NotFoundError, ForbiddenError."""
    change_request = ProblemChange(name=named(IDENTIFIER, "problem", name), **dict(fields))
    return cluster.call("problem_change", change_request, ProblemInfo)


def verification(cluster: Cluster, name: str) -> VerificationReply:
    """The outcome of a problem's latest verification; for admins. NotFoundError."""
    return cluster.call("problem_verification", ProblemName(name=named(IDENTIFIER, "problem", name)), VerificationReply)


# --- handlers --------------------------------------------------------------------------------------------------


def _problem(call: Call) -> m.Message:
    info = find(call.services, call.params["name"])
    view = call.services.shown.view(info)
    return ProblemDetails(
        **dict(info),
        statements=[
            StatementInfo(
                language=statement.language,
                kind=kind_of(statement.main),
                name=statement.main,
                file=statement.files[statement.main],
                html=text_of(statement) is not None,
            )
            for statement in view.statements
        ],
        samples=samples(call.services.shown, view.samples),
        attachments=[AttachmentInfo(name=name, file=sha) for name, sha in sorted(view.attachments.items())],
        limit_origin=disclosure.limit_origin(view.limit_origin, admin=call.principal.judges),
        format=view.format,
        dialect=view.dialect,
        origin=view.origin,
    )


def _statement(call: Call) -> m.Message:
    view = call.services.shown.view(find(call.services, call.params["name"]))
    statement = choose(view, call.query.language, call.query.kind)
    if statement is None:
        choices = ", ".join(f"{entry.language} ({kind_of(entry.main)})" for entry in view.statements) or "none at all"
        raise NotFoundError(f"problem '{view.name}' has no such statement; it has {choices}")
    reply = StatementReply(
        language=statement.language, kind=kind_of(statement.main), file=statement.files[statement.main]
    )
    page = call.services.shown.page(view, statement)
    if page is None or page.why:
        return reply.model_copy(update={"preparing": page is None, "why": page.why if page is not None else ""})
    names = [entry.name.removeprefix("sample/") for entry in view.samples]
    text = page.pieces[0]
    for amount, piece in zip(page.samples, page.pieces[1:], strict=True):
        count = 1 if amount == "next" else len(names)
        text += "".join(f'<div data-sample="{html.escape(name)}"></div>' for name in names[:count]) + piece
        names = names[count:]
    return reply.model_copy(update={"html": text})


def _file(call: Call) -> Reply:
    view = call.services.shown.view(find(call.services, call.params["name"]))
    file = file_of(view, call.params["sha"])
    tagged = {"ETag": f'"{call.params["sha"]}"', "Cache-Control": _KEEP}
    if request.if_none_match.contains_weak(call.params["sha"]):
        return Reply(Response(status=304), headers=tagged)
    if request.method == "HEAD":
        # A HEAD may leave out what is only known of the content, its length and type (RFC 9110, 9.3.2).
        headed = Response(iter(()))
        del headed.headers["Content-Type"]
        return Reply(headed, headers=tagged)
    data = call.cluster.blob(call.params["sha"])
    picture = call.services.shown.picture(file, call.params["sha"], data)
    kind = "inline" if picture is not None else "attachment"
    headers = {
        "Content-Disposition": f"{kind}; filename*=UTF-8''{quote(file.name, safe='')}",
        "Content-Security-Policy": pictures.PDF_POLICY
        if picture and picture.media == pictures.PDF
        else pictures.POLICY,
        "X-Frame-Options": "SAMEORIGIN",
        **tagged,
    }
    if picture is not None and picture.data:
        data.close()
        return Reply(Response(picture.data, mimetype=picture.media), headers=headers)
    return Reply(streamed(data, picture.media if picture is not None else BINARY), headers=headers)


def _verified(call: Call) -> m.Message:
    verification: Verification = call.body
    if verification.problem != call.params["name"]:
        raise FieldError("problem", f"is '{verification.problem}', but the address names '{call.params['name'][:60]}'")
    return call.cluster.call("problem_verified", verification, m.Empty)


ROUTES: list[Route] = [
    Route("GET", "/problems/<name>", "problem", "One problem, with its statements, samples and attachments", _problem,
          "user", ProblemDetails, calls=("problems",)),
    Route("PUT", "/problems/<name>", "change_problem", "Change who sees a problem, its tags, difficulty and order",
          lambda call: change(call.cluster, call.params["name"], call.body), "user",
          ProblemInfo, body=ProblemFields, calls=("problem_change",)),
    Route("GET", "/problems/<name>/statement", "statement", "A problem's statement as HTML", _statement, "user",
          StatementReply, query=StatementQuery, calls=("problems", "problem_statements")),
    Route("GET", "/problems/<name>/files/<sha>", "problem_file", "A file of a statement, a sample or an attachment",
          _file, "user", BYTES, also={304: "If-None-Match has the ETag of this content"}, calls=("problems",)),
    Route("GET", "/problems/<name>/verification", "verification", "The outcome of verifying a problem",
          lambda call: verification(call.cluster, call.params["name"]), "judge",
          VerificationReply, calls=("problem_verification",)),
    Route("POST", "/problems/<name>/verification", "verified", "Store the outcome of verifying a problem", _verified,
          "judge", m.Empty, 201, body=Verification, calls=("problem_verified",)),
]  # fmt: skip
