"""The public part of a problem: its statements, samples and files, out of its manifest. Never a secret test's data.

Whatever is handed out is named here first: a file that the manifest does not list as a statement's, an attachment's or
a sample's cannot be asked for.
"""

from __future__ import annotations

import functools
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Literal

from judge.common.errors import NotFoundError, PackageError
from judge.gateway.cluster import Cluster
from judge.gateway.statements import pictures
from judge.model.messages import Test
from judge.model.problem import LimitOrigin, ProblemInfo, ProblemManifest, ProblemTest, Statement
from judge.model.statements import Page, Pages, PagesReply, PagesRequest
from judge.problems.rendering.fragment import IMAGES
from judge.problems.rendering.sanitize import shield
from judge.problems.statements import KINDS, address, kind_of, text_of

log = logging.getLogger(__name__)

SAMPLES = 100
SAMPLE_BYTES = 16 * 1024
_VIEWS = 256
_PAGES = 32
_MEMORY = 16 * 1024**2
# Of all statements of a problem; of more, the end is missing, so that it is no JSON.
_PAGES_BYTES = 16 * 1024**2
_FILES = {
    "pdf": "the statement is a file without text that a page can show",
    "tex": "the statement is in LaTeX, and could not be turned into a page when it was imported",
}
Use = Literal["statement", "attachment", "sample"]


@dataclass(frozen=True)
class PublicFile:
    """A file that everybody may have: its name for the one who keeps it, and what it is for."""

    name: str
    use: Use


@dataclass(frozen=True)
class Sample:
    """One sample: what is shown of it, and what one gets to keep; each is a blob, or None when there is none."""

    name: str
    input: str | None = None
    answer: str | None = None
    interaction: str | None = None
    kept_input: str | None = None
    kept_answer: str | None = None


@dataclass(frozen=True)
class Text:
    """The beginning of a sample's file, as text; `whole`: there is no more of it."""

    text: str
    whole: bool


@dataclass(frozen=True)
class View:
    """A problem at one content as people see it. `statements` are in the order of their languages and of preference."""

    name: str
    hash: str
    title: str
    statements: Sequence[Statement]
    attachments: dict[str, str]
    samples: Sequence[Sample]
    files: dict[str, PublicFile]
    shown_tests: int
    runnable: bool
    sample_tests: Sequence[Test]
    limit_origin: LimitOrigin | None
    format: str
    dialect: str
    origin: str

    @property
    def languages(self) -> list[str]:
        return list(dict.fromkeys(statement.language for statement in self.statements))

    def statement(self, language: str | None, kind: str | None = None) -> Statement | None:
        """The statement in a language (the first when None), of a kind when one is asked for; None: there is none."""
        for statement in self.statements:
            if language in {None, statement.language} and kind in {None, kind_of(statement.main)}:
                return statement
        return None

    def path(self, sha: str) -> str:
        return address(self.name, sha)


def view_of(manifest: ProblemManifest, content: str) -> View:
    """The public part of a problem, by its manifest and that one's hash. Pure."""
    statements = sorted(manifest.statements, key=_order)
    samples = _samples(manifest)
    files: dict[str, PublicFile] = {}
    for test in samples:
        base = test.name.rpartition("/")[2]
        for sha, suffix in ((test.input, "in"), (test.answer, "ans"), (test.interaction, "interaction"),
                            (test.kept_input, "in"), (test.kept_answer, "ans")):  # fmt: skip
            if sha is not None:
                files.setdefault(sha, PublicFile(f"{base}.{suffix}", "sample"))
    for name, sha in manifest.attachments.items():
        files.setdefault(sha, PublicFile(name.rpartition("/")[2], "attachment"))
    for statement in statements:
        for name, sha in statement.files.items():
            if _for_people(statement, name):
                files[sha] = PublicFile(name.rpartition("/")[2], "statement")
    return View(
        name=manifest.name,
        hash=content,
        title=manifest.title or manifest.name,
        statements=statements,
        attachments=dict(manifest.attachments),
        samples=samples,
        files=files,
        shown_tests=sum(test.sample for test in manifest.tests),
        runnable=_runnable(manifest),
        sample_tests=_sample_tests(manifest, samples),
        limit_origin=manifest.limit_origin,
        format=manifest.format,
        dialect=manifest.dialect,
        origin=manifest.origin,
    )


def _runnable(manifest: ProblemManifest) -> bool:
    """Return whether a program runs without the problem as with it: nothing of the package goes with it or talks to it.

    A program that is run alone reads one input and writes one output.
    """
    traits = manifest.traits
    return (
        traits.has_program
        and not traits.interactive
        and traits.passes == 1
        and not manifest.include
        and manifest.task is None
        and not any(test.args or test.files for test in manifest.tests)
    )


def _sample_tests(manifest: ProblemManifest, samples: Sequence[Sample]) -> list[Test]:
    """The samples as tests of a run without the problem, of files that everybody may have.

    Without an answer where only the problem's own validator, or its flags, can tell.
    """
    plain = not manifest.validators and not manifest.validator_flags
    answers = {test.name: test.answer for test in manifest.tests if plain and not test.flags}
    return [
        Test(
            name=f"sample-{number}",
            input_blob=sample.kept_input,
            answer_blob=sample.kept_answer if sample.kept_answer == answers.get(sample.name) else None,
        )
        for number, sample in enumerate(samples, 1)
        if sample.kept_input is not None
    ]


def _for_people(statement: Statement, name: str) -> bool:
    """Return whether a file beside a statement is part of what people read, and not of how it was made."""
    suffix = name.rpartition(".")[2].lower()
    source = kind_of(statement.main) == "tex" and statement.html is None
    return name == statement.main or f".{suffix}" in (*IMAGES, ".pdf") or (source and suffix in {"tex", "sty", "cls"})


def _order(statement: Statement) -> tuple[str, int]:
    kind = kind_of(statement.main)
    return statement.language, KINDS.index(kind) if kind in KINDS else len(KINDS)


def _samples(manifest: ProblemManifest) -> list[Sample]:
    tests = {test.name: test for test in manifest.tests if test.sample}
    names = sorted({*tests, *manifest.interactions, *manifest.sample_files})
    return [_sample(name, tests.get(name), manifest) for name in names[:SAMPLES]]


def _sample(name: str, test: ProblemTest | None, manifest: ProblemManifest) -> Sample:
    """A sample by the format's rules: what is shown, then what one gets to keep, each by the first that there is."""
    files = manifest.sample_files.get(name, {})
    plain = {"in": test.input, "ans": test.answer} if test is not None else {}
    have = {**plain, **files}

    def first(*suffixes: str) -> str | None:
        return next((have[suffix] for suffix in suffixes if suffix in have), None)

    return Sample(
        name=name,
        input=first("in.statement", "in"),
        answer=first("ans.statement", "out", "ans"),
        interaction=manifest.interactions.get(name) or files.get("interaction"),
        kept_input=first("in.download", "in.statement", "in"),
        kept_answer=first("ans.download", "ans.statement", "out", "ans"),
    )


class Statements:
    """Views, pages and files of the cluster's problems. One per worker process, used by all its threads."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._views = functools.lru_cache(_VIEWS)(self._read_view)
        self.text = functools.lru_cache(_MEMORY // SAMPLE_BYTES)(self._read_text)
        self._lock = threading.Lock()
        self._pages: OrderedDict[str, dict[str, Page]] = OrderedDict()
        self._drawer = threading.Lock()
        self._drawings: OrderedDict[str, pictures.Picture | None] = OrderedDict()

    def view(self, problem: ProblemInfo) -> View:
        """The public part of a problem at its present content. Raises what the cluster answers, and PackageError."""
        return self._views(problem.hash, problem.name)

    def _read_view(self, content: str, name: str) -> View:
        try:
            with self._cluster.blob(content) as file:
                return view_of(ProblemManifest.stored(json.load(file)), content)
        except ValueError as exc:
            raise PackageError(f"problem '{name}' has a manifest of another release; import it again") from exc

    def _read_text(self, sha: str) -> Text:
        with self._cluster.blob(sha) as file:
            data = file.read(SAMPLE_BYTES + 1)
        return Text(data[:SAMPLE_BYTES].decode("utf-8", "replace"), whole=len(data) <= SAMPLE_BYTES)

    def page(self, view: View, statement: Statement) -> Page | None:
        """A statement as harmless HTML, or why it is none; None while an executor makes it."""
        if text_of(statement) is None:
            return Page(
                why=statement.why or _FILES.get(kind_of(statement.main), "the source of the statement is missing")
            )
        with self._lock:
            pages = self._pages.get(view.hash)
        if pages is None:
            message = PagesRequest(problem=view.name, hash=view.hash)
            reply = self._cluster.call("problem_statements", message, PagesReply)
            if reply.pages is None:
                return Page(why=reply.why) if reply.why else None
            with self._cluster.blob(reply.pages) as file:
                pages = shielded(file.read(_PAGES_BYTES), view)
            with self._lock:
                self._pages[view.hash] = pages
                while len(self._pages) > _PAGES:
                    self._pages.popitem(last=False)
        return pages.get(statement.main) or Page(why="the executor that rendered the problem has left it out")

    def picture(self, file: PublicFile, sha: str, data: IO[bytes]) -> pictures.Picture | None:
        """A statement's file as a browser may show it, or None when it is handed out as it is, to keep."""
        name = file.name.lower()
        if file.use != "statement" or not name.endswith((*IMAGES, ".pdf")):
            return None
        if name.endswith(".pdf"):
            begin = data.read(5)
            data.seek(0)
            return pictures.Picture(pictures.PDF, b"") if begin == b"%PDF-" else None
        if name.endswith(".svg"):
            return self._drawing(name, sha, data)
        content = data.read(pictures.MOST_BYTES + 1)
        data.seek(0)
        return pictures.look_at(name, content) if len(content) <= pictures.MOST_BYTES else None

    def _drawing(self, name: str, sha: str, data: IO[bytes]) -> pictures.Picture | None:
        """An SVG made harmless, or None for one that cannot be; either is made once, and one at a time."""
        with self._drawer:
            if sha in self._drawings:
                self._drawings.move_to_end(sha)
                return self._drawings[sha]
            content = data.read(pictures.MOST_BYTES + 1)
            data.seek(0)
            try:
                picture = pictures.look_at(name, content)
            except PackageError:
                picture = None
            self._drawings[sha] = picture
            size = sum(1024 + len(drawing.data) for drawing in self._drawings.values() if drawing is not None)
            while len(self._drawings) > 1 and (size > _MEMORY or len(self._drawings) > _VIEWS):
                _, oldest = self._drawings.popitem(last=False)
                size -= 1024 + len(oldest.data) if oldest is not None else 0
            return picture


def shielded(stored: bytes, view: View) -> dict[str, Page]:
    """The pages of a problem's statements as an executor stored them; only harmless HTML is left. Pure."""
    try:
        pages = Pages.model_validate_json(stored).pages
    except ValueError as exc:
        log.warning("the rendered statements of problem '%s' are not valid pages: %s", view.name, str(exc)[:200])
        return {}
    addresses = frozenset(view.path(sha) for sha in view.files)
    return {
        name: page.model_copy(update={"pieces": [shield(piece, addresses) for piece in page.pieces]})
        for name, page in pages.items()
    }


def file_of(view: View, sha: str) -> PublicFile:
    """A file that everybody may have; NotFoundError for every other blob, stored or not."""
    try:
        return view.files[sha]
    except KeyError as exc:
        raise NotFoundError(f"problem '{view.name}' has no such public file") from exc
