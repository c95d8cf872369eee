"""Statements in LaTeX become HTML at import: an executor does it, with pandoc in its sandbox.

What fails costs a note and nothing else: the statement's source can still be had, and the problem is judged as ever.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import tempfile
from typing import Final, Literal

from judge.common import clock
from judge.common.errors import JudgeError
from judge.ctl.api import Api
from judge.model import messages as m
from judge.model.problem import Statement
from judge.problems.latex import for_conversion
from judge.problems.package import Package
from judge.problems.statements import kind_of

SOURCE_BYTES = 512 * 1024
_HTML_BYTES = 4 * 1024**2
_FIGURE_BYTES = 4 * 1024**2
_FIGURES = 20
_INCLUDED = re.compile(r"\\(?:input|include)\s*\{\s*([^{}\s]{1,200})\s*\}")
_DEEPEST = 4
_LIMITS = m.LimitsOverride(cpu=30, wall=60, memory=2 * 1024**3, output=16 * 1024**2)
_CONVERT = "cd /tmp && HOME=/tmp exec pandoc --from=latex --to=html5 --mathml --wrap=none"
# Browsers show no PDF as a picture. 110 pixels an inch is sharp enough at the width of a page.
_DRAW = "cd /tmp && base64 -d > in.pdf && pdftocairo -png -r 110 -singlefile in.pdf out && exec base64 -w 0 out.png"
# A shell's exit code for a program that is not there.
_NO_PROGRAM = 127
_TRIES = 4
Tool = Literal["pandoc", "pdftocairo"]
PANDOC: Final = "pandoc"
CAIRO: Final = "pdftocairo"


def convert(api: Api, package: Package, *, patience: float = 120.0) -> list[str]:
    """Give the package's statements in LaTeX their HTML; returns notes about those that stay as they are.

    `patience` in seconds is for each of them: a cluster that is busy is not waited for. Called at import, before the
    manifest is stored. Raises what the API does when the cluster does not answer.
    """
    statements_in_tex = [
        statement
        for statement in package.manifest.statements
        if kind_of(statement.main) == "tex" and statement.html is None
    ]
    notes = []
    converted = {}
    for statement in statements_in_tex:
        try:
            converted[statement.main] = _StatementConversion(api, package, statement, patience).run()
        except ConversionError as exc:
            notes.append(f"{statement.main}: is offered as a download, not as a page: {exc}")
            converted[statement.main] = statement.model_copy(update={"why": str(exc)})
    if converted:
        statements = [converted.get(statement.main, statement) for statement in package.manifest.statements]
        package.manifest = package.manifest.model_copy(update={"statements": statements})
    return notes


class ConversionError(JudgeError):
    """A statement that the converter does not turn into HTML."""


class _StatementConversion:
    def __init__(self, api: Api, package: Package, statement: Statement, patience: float) -> None:
        self._api = api
        self._package = package
        self._statement = statement
        self._patience = patience

    def run(self) -> Statement:
        """The statement with its HTML, and its drawings as pictures; ConversionError when there is no HTML."""
        text = self._text(self._statement.main, 0)
        source = for_conversion(text, self._statement.language)
        html = self._output(m.Submission(command=_CONVERT, stdin=source, limits=_LIMITS), _HTML_BYTES, PANDOC)
        if not html.strip():
            raise ConversionError("the converter made nothing of it")
        files = dict(self._statement.files)
        for name in [name for name in files if name.lower().endswith(".pdf")][:_FIGURES]:
            picture = self._drawing(files[name])
            if picture is not None:
                files.setdefault(f"{name}.png", self._blob(picture))
        return self._statement.model_copy(update={"html": self._blob(html), "files": files})

    def _text(self, name: str, depth: int) -> str:
        """A file of the statement, with the files that it includes put in."""
        data = self._package.read(self._statement.files[name])
        if len(data) > SOURCE_BYTES:
            raise ConversionError(f"{name} has {len(data)} bytes; at most {SOURCE_BYTES} are turned into a page")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("latin-1")

        def included(match: re.Match[str]) -> str:
            file_name = match[1].removeprefix("./")
            file_path = next(
                (candidate for candidate in (file_name, f"{file_name}.tex") if candidate in self._statement.files), None
            )
            return self._text(file_path, depth + 1) if file_path is not None and depth < _DEEPEST else ""

        text = _INCLUDED.sub(included, text)
        if len(text) > SOURCE_BYTES:
            raise ConversionError(f"{name} and what it includes have more than {SOURCE_BYTES} bytes")
        return text

    def _drawing(self, sha: str) -> bytes | None:
        """A drawing in PDF as a PNG picture; None where that cannot be had, and the page links to the PDF."""
        data = self._package.read(sha)
        if len(data) > _FIGURE_BYTES:
            return None
        submission = m.Submission(command=_DRAW, stdin=base64.b64encode(data).decode(), limits=_LIMITS)
        try:
            encoded = self._output(submission, 2 * _FIGURE_BYTES, CAIRO)
            return base64.b64decode(encoded, validate=True) or None
        except (JudgeError, binascii.Error):
            return None

    def _output(self, submission: m.Submission, most: int, tool: Tool) -> bytes:
        """The output of a run; ConversionError when it failed, or no executor that takes work has the program."""
        program = f"{tool} (package poppler-utils)" if tool == CAIRO else tool
        if not any(tool in executor.info.abilities for executor in self._api.working() if executor.info):
            raise ConversionError(f"no executor has {program}; install it on one of them and import again")
        # The program may have gone since its executor said so.
        for _ in range(_TRIES):
            task = self._judged(submission.model_copy(update={"tool": tool}))
            result = task.result or m.Result()
            run = result.tests[0] if result.tests else m.TestResult(name="", verdict=m.Verdict.JE)
            if task.status is m.Status.SUCCESS:
                return self._printed(result, most)
            if run.exit_code != _NO_PROGRAM:
                raise ConversionError((run.error or result.reason or str(task.status)).strip()[:200])
        raise ConversionError(f"{task.judged_by} has no {program}; install it on the executors and import again")

    def _judged(self, submission: m.Submission) -> m.Task:
        """A finished task. It is cancelled when it has not ended in time."""
        task = self._api.submit(submission.model_copy(update={"priority": "high", "cause": "statement"}))
        deadline = clock.Deadline(self._patience)
        while not task.done and not deadline.over:
            task = self._api.get(task.id, wait=min(20.0, max(0.1, deadline.left())), version=task.version)
        if not task.done:
            self._api.call(m.Task, "POST", f"/submissions/{task.id}/cancel")
            raise ConversionError(f"no executor had time for it within {self._patience:g} s; import it again later")
        return task

    def _printed(self, result: m.Result, most: int) -> bytes:
        if result.stdout is not None:
            data = result.stdout.encode()
        elif result.stdout_blob is not None:
            with tempfile.SpooledTemporaryFile(max_size=most) as file:
                self._api.get_blob(result.stdout_blob, file)
                file.seek(0)
                data = file.read(most + 1)
        else:
            data = b""
        if len(data) > most:
            raise ConversionError(f"it becomes more than {most} bytes")
        return data

    def _blob(self, data: bytes) -> str:
        sha = hashlib.sha256(data).hexdigest()
        self._package.blobs.setdefault(sha, data)
        return sha
