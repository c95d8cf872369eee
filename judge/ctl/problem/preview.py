"""`judgectl problem statement`: a statement as pages show it, by the same renderer, without a cluster."""

from __future__ import annotations

import base64
import resource
import subprocess
import sys
from html import escape

from judge.common.errors import PackageError
from judge.common.text import decimal, size
from judge.model.problem import ProblemTest, Statement
from judge.model.statements import Page
from judge.problems.package import Package
from judge.problems.statements import address, kind_of, question, text_of

# The renderer's libraries cannot be interrupted; what executors grant it (executor/slot/packaged/rendering.py).
_SECONDS, _MEMORY = 15, 768 * 1024**2
_RUN = "from judge.problems.rendering.fragment import main; main()"
_SAMPLE_BYTES = 64 * 1024
_MEDIA = {"png": "png", "jpg": "jpeg", "jpeg": "jpeg", "gif": "gif", "svg": "svg+xml"}
_PAGE = """<!doctype html>
<html lang="{language}"><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<style>body {{ max-width: 50em; margin: auto; font-family: sans-serif }} pre {{ background: #8882 }}</style>
<h1>{title}</h1>
<p>Time limit: {seconds}, memory limit: {memory}</p>
{body}
"""


def preview(package: Package, language: str | None) -> str:
    """The page of a package's statement, in the language or the first; PackageError says why there is none."""
    manifest = package.manifest
    statement = next((entry for entry in manifest.statements if language in {None, entry.language}), None)
    if statement is None:
        there = ", ".join(entry.language for entry in manifest.statements) or "none"
        raise PackageError(f"{manifest.name}: has no statement{f' in {language}' if language else ''}; it has {there}")
    sha = text_of(statement)
    if sha is None:
        why = "open the PDF itself" if kind_of(statement.main) == "pdf" else "an executor converts LaTeX at import"
        raise PackageError(f"{manifest.name}: {statement.main}: has no preview; {why}")
    page = _rendered(question(manifest, statement, package.read(sha)))
    if page.why:
        raise PackageError(f"{manifest.name}: {statement.main}: {page.why}")
    samples = [test for test in manifest.tests if test.sample]
    body = page.pieces[0]
    for amount, piece in zip(page.samples, page.pieces[1:], strict=True):
        count = 1 if amount == "next" else len(samples)
        body += "".join(_sample(package, test) for test in samples[:count]) + piece
        samples = samples[count:]
    body += "".join(_sample(package, test) for test in samples)
    has_cpu = manifest.limits.cpu if not package.infer else None
    return _PAGE.format(
        language=escape(statement.language), title=escape(statement.title or manifest.title or manifest.name),
        seconds=f"{decimal(has_cpu)} s" if has_cpu is not None else "inferred at import",
        memory=size(manifest.limits.memory), body=_with_pictures(package, statement, body),
    )  # fmt: skip


def _rendered(text: bytes) -> Page:
    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))

    command = [sys.executable, "-I", "-c", _RUN]
    try:
        run = subprocess.run(command, input=text, capture_output=True, check=True, timeout=_SECONDS, preexec_fn=bound)
    except subprocess.TimeoutExpired:
        return Page(why=f"takes more than {_SECONDS} s to be rendered")
    except subprocess.CalledProcessError:
        return Page(why="takes too much memory to be rendered")
    return Page.model_validate_json(run.stdout)


def _sample(package: Package, test: ProblemTest) -> str:
    files = package.manifest.sample_files.get(test.name, {})
    interaction = package.manifest.interactions.get(test.name)
    parts = {"Interaction": interaction} if interaction else {"Input": test.input, "Answer": test.answer}
    sources = {"Input": files.get("in.statement"), "Answer": files.get("ans.statement") or files.get("out")}
    text = f"<h3>Sample {escape(test.name.removeprefix('sample/'))}</h3>\n"
    for title, sha in parts.items():
        with package.open(sources.get(title) or sha) as file:
            data = file.read(_SAMPLE_BYTES).decode("utf-8", "replace")
        text += f"<h4>{title}</h4>\n<pre>{escape(data)}</pre>\n"
    return text


def _with_pictures(package: Package, statement: Statement, body: str) -> str:
    for name, sha in statement.files.items():
        media = _MEDIA.get(name.rpartition(".")[2].lower())
        place = f'src="{address(package.manifest.name, sha)}"'
        if media and place in body:
            data = base64.b64encode(package.read(sha)).decode()
            body = body.replace(place, f'src="data:image/{media};base64,{data}"')
    return body
