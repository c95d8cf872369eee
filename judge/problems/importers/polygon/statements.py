"""The statements of a problem of Polygon: LaTeX in each language, in sections or whole; pages and PDFs made of it."""

from __future__ import annotations

import posixpath
import re
from xml.etree.ElementTree import Element

from judge.problems.importers.draft import Draft, Ref, slug
from judge.problems.importers.polygon.document import path_of
from judge.problems.importers.spoken import code
from judge.problems.tree import clean

_SECTIONS = "statement-sections"
_PARTS = ("input", "output", "interaction", "scoring", "notes")
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".eps")
_KINDS = {"application/pdf": "pdf", "text/html": "html"}
_LATEX = "application/x-tex"
_FORMULA = re.compile(r"(\$\$[^$]*\$\$|(?<!\\)\$[^$]*\$)")
# Polygon's own commands, and what LaTeX calls them; its \t is an accent there.
_COMMANDS = (
    (re.compile(r"\\(?:t|tt)\s*\{"), r"\\texttt{"),
    (re.compile(r"\\bf\s*\{"), r"\\textbf{"),
    (re.compile(r"\\it\s*\{"), r"\\textit{"),
    (re.compile(r"\\(?:s|sout)\s*\{"), r"\\sout{"),
    (re.compile(r"\"---"), "---"),
    (re.compile(r"(?<!\\)<<"), "«"),
    (re.compile(r"(?<!\\)>>"), "»"),
)


def titles(root: Element) -> dict[str, str]:
    names: dict[str, str] = {}
    for element in root.iterfind("names/name"):
        language, value = code(element.get("language") or ""), clean(element.get("value") or "")
        if language and value:
            names.setdefault(language, value)
    return names


def put_statements(draft: Draft, root: Element) -> None:
    """For each language its LaTeX as one file and its PDF, else its page; what is of no known kind to be downloaded."""
    parts: dict[str, list[str]] = {}
    names = titles(root)
    folders = {path.split("/")[1] for path in draft.tree.below(_SECTIONS) if path.count("/") > 1}
    for folder in sorted(folders):
        language = code(folder)
        if language and language not in parts and f"{_SECTIONS}/{folder}/legend.tex" in draft.tree.files:
            _put_sections(draft, folder, language, names.get(language, ""))
            parts[language] = ["tex"]
    for element in root.iterfind("statements/statement"):
        _put_whole(draft, element, parts)
    for kind in _KINDS:
        for element in root.iterfind("statements/statement"):
            _put_page(draft, element, kind, parts)
    for language, kinds in sorted(parts.items()):
        draft.report.took(f"statement in {language} ({', '.join(kinds)})")
    if not parts:
        _put_others(draft, root)
    for path in draft.tree.below(_SECTIONS):
        language = code(path.split("/")[1])
        target = f"solution/solution.{language}.tex"
        if path.endswith("/tutorial.tex") and language and draft.tree.files[path] and target not in draft.files:
            draft.put(target, Ref(draft.tree, path))


def _put_whole(draft: Draft, element: Element, parts: dict[str, list[str]]) -> None:
    """A statement that is there as the LaTeX which Polygon makes of its sections, and not in sections."""
    language, path = code(element.get("language") or ""), path_of(element)
    if element.get("type") == _LATEX and language and language not in parts and path in draft.tree.files:
        draft.put(f"statement/problem.{language}.tex", _section(draft, path) + "\n")
        parts[language] = ["tex"]
        _put_images(draft, posixpath.dirname(path))


def _put_others(draft: Draft, root: Element) -> None:
    """Statements where none is of a known kind and in a known language: at least they can be downloaded."""
    elements = root.findall("statements/statement")
    available = [element for element in elements if path_of(element) in draft.tree.files]
    for element in available:
        path = path_of(element)
        language = clean(element.get("language") or "no language", 20)
        kind = clean(element.get("type") or "no type", 40)
        draft.report.dropped(f"statement {path} ({language}, {kind}): is not shown; it is offered for download")
        target = f"attachments/{slug(posixpath.basename(path))}"
        if target not in draft.files:
            draft.put(target, Ref(draft.tree, path))
    if elements and not available:
        draft.report.dropped("statements: their files are not in the package")


def _put_page(draft: Draft, element: Element, kind: str, parts: dict[str, list[str]]) -> None:
    language, path, ending = code(element.get("language") or ""), path_of(element), _KINDS[kind]
    target = f"statement/problem.{language}.{ending}"
    if element.get("type") != kind or not language or path not in draft.tree.files or target in draft.files:
        return
    # A page of Polygon has formulas that only its own script can show, so everything else goes before it.
    if ending == "html" and parts.get(language):
        return
    draft.put(target, Ref(draft.tree, path))
    parts.setdefault(language, []).append(ending)
    if ending == "html":
        _put_images(draft, posixpath.dirname(path))


def _put_sections(draft: Draft, folder: str, language: str, title: str) -> None:
    """One document of the sections, in the words that the package format's own LaTeX uses."""
    base = f"{_SECTIONS}/{folder}"
    lines = [r"\problemname{" + (title or _section(draft, f"{base}/name.tex").strip()) + "}", ""]
    lines += [_section(draft, f"{base}/legend.tex"), ""]
    for part in _PARTS:
        text = _section(draft, f"{base}/{part}.tex")
        if text.strip():
            lines += [rf"\section*{{{part.capitalize()}}}", text, ""]
    draft.put(f"statement/problem.{language}.tex", "\n".join(lines))
    _put_images(draft, base)
    _put_images(draft, f"statements/{folder}")


def _section(draft: Draft, path: str) -> str:
    if path not in draft.tree.files:
        return ""
    text = draft.text(path, limit=1024 * 1024)
    parts = _FORMULA.split(text.replace("\r\n", "\n"))
    for number in range(0, len(parts), 2):
        for pattern, new in _COMMANDS:
            parts[number] = pattern.sub(new, parts[number])
    return "".join(parts).rstrip()


def _put_images(draft: Draft, folder: str) -> None:
    for path in draft.tree.below(folder):
        name = posixpath.basename(path)
        target = f"statement/{slug(name)}"
        plain = posixpath.dirname(path) == folder and name.lower().endswith(_IMAGES) and name == slug(name)
        if plain and name not in {"problem.pdf", "statement.pdf"} and target not in draft.files:
            draft.put(target, Ref(draft.tree, path))
