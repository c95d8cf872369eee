r"""Statements in LaTeX, made ready for a program that turns LaTeX into HTML, which knows no judge's own macros.

Two families are read: Kattis' (`\problemname`, `\illustration`, `\nextsample`, `\begin{Input}`) and that of Polygon's
olymp.sty (`\begin{problem}{…}`, `\InputFile`, `\exmp`). Pure functions of a text; nothing is run here.
"""

from __future__ import annotations

import re
from typing import Final

# The headings that macros stand for, by the statement's language.
_HEADINGS: Final[dict[str, dict[str, str]]] = {
    "en": {"Input": "Input", "Output": "Output", "Interaction": "Interaction", "Note": "Note", "Scoring": "Scoring"},
    "ru": {"Input": "Входные данные", "Output": "Выходные данные", "Interaction": "Протокол взаимодействия",
           "Note": "Замечание", "Scoring": "Система оценки"},
    "uk": {"Input": "Вхідні дані", "Output": "Вихідні дані", "Interaction": "Взаємодія", "Note": "Зауваження",
           "Scoring": "Оцінювання"},
    "de": {"Input": "Eingabe", "Output": "Ausgabe", "Interaction": "Interaktion", "Note": "Hinweis",
           "Scoring": "Bewertung"},
    "es": {"Input": "Entrada", "Output": "Salida", "Interaction": "Interacción", "Note": "Nota",
           "Scoring": "Puntuación"},
    "fr": {"Input": "Entrée", "Output": "Sortie", "Interaction": "Interaction", "Note": "Note", "Scoring": "Score"},
    "nl": {"Input": "Invoer", "Output": "Uitvoer", "Interaction": "Interactie", "Note": "Opmerking",
           "Scoring": "Score"},
    "pl": {"Input": "Wejście", "Output": "Wyjście", "Interaction": "Interakcja", "Note": "Uwaga",
           "Scoring": "Ocenianie"},
    "pt": {"Input": "Entrada", "Output": "Saída", "Interaction": "Interação", "Note": "Observação",
           "Scoring": "Pontuação"},
    "sv": {"Input": "Indata", "Output": "Utdata", "Interaction": "Interaktion", "Note": "Anmärkning",
           "Scoring": "Poängsättning"},
    "is": {"Input": "Inntak", "Output": "Úttak", "Interaction": "Samskipti", "Note": "Athugasemd",
           "Scoring": "Stigagjöf"},
}  # fmt: skip
_POLYGON: Final = {
    "InputFile": "Input", "OutputFile": "Output", "InputData": "Input", "OutputData": "Output",
    "Interaction": "Interaction", "Note": "Note", "Notes": "Note", "Scoring": "Scoring", "Explanation": "Note",
    "Explanations": "Note",
}  # fmt: skip
_NEXT, _REST = r"\{\{nextsample\}\}", r"\{\{remainingsamples\}\}"

# A braced argument with up to two braces in it.
_ARGUMENT = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
_SECTION = re.compile(r"\\(begin|end)\{(Input|Output|Interaction)\}")
# A statement's name, its files and limits: the page has its own.
_HEAD = re.compile(rf"\\begin\{{problem\}}(?:\s*{_ARGUMENT}){{1,8}}")
_EXAMPLES = re.compile(
    rf"(?:\\Examples?\b\s*)?\\begin\{{example(?P<kind>\w*)\}}.*?\\end\{{example(?P=kind)\}}|\\exmp\w*(?:\s*{_ARGUMENT}){{2,3}}",
    re.DOTALL,
)
_WRAPPED = re.compile(
    r"\\begin\{wrapfigure\}(?:\s*\[[^\]]*\])?\s*\{[^{}]*\}(?:\s*\[[^\]]*\])?\s*\{[^{}]*\}(.*?)\\end\{wrapfigure\}",
    re.DOTALL,
)
_CAPTION = re.compile(r"\\caption\*?\s*\{")
_SWITCH = re.compile(r"\\(bf|it|tt|sf|sc)\s*\{")
_PIXELS = re.compile(r"\\def\s*\\htmlPixelsInCm\s*\{[^{}]*\}")
_DOCUMENT = re.compile(r"\\documentclass.*?\\begin\{document\}(.*?)(?:\\end\{document\}|\Z)", re.DOTALL)
# Pieces that stay as they are, or are a quotation mark.
_QUOTED = re.compile(
    r"(?P<kept>\$\$.*?\$\$|\$(?:\\.|[^$\\])*\$|\\\[.*?\\\]|\\\(.*?\\\)"
    r"|\\begin\{(?P<block>verbatim|lstlisting|minted|Verbatim)\}.*?\\end\{(?P=block)\}|\\verb\*?(?P<bar>[^\w\s]).*?(?P=bar)"
    rf"|\\(?:t|texttt){_ARGUMENT})|<<|>>|\"---",
    re.DOTALL,
)
_MARKS = {"<<": "«", ">>": "»", '"---': "---"}

_PREAMBLE: Final = rf"""
\newcommand{{\problemname}}[1]{{}}
\newcommand{{\problemyamlname}}{{}}
\newcommand{{\illustration}}[3]{{\begin{{wrapped}}\includegraphics[width=\textwidth]{{#2}}

{{\small #3}}\end{{wrapped}}}}
\newcommand{{\nextsample}}{{{_NEXT}}}
\newcommand{{\remainingsamples}}{{{_REST}}}
\newcommand{{\includesample}}[1]{{{_NEXT}}}
\newcommand{{\epigraph}}[2]{{\begin{{quote}}#1

--- #2\end{{quote}}}}
\newcommand{{\t}}[1]{{\texttt{{#1}}}}
\newcommand{{\Example}}{{}}
\newcommand{{\Examples}}{{}}
"""


def for_conversion(text: str, language: str) -> str:
    """A statement that a converter understands: macros defined, headings in the statement's language.

    What it says of samples becomes `{{nextsample}}` and `{{remainingsamples}}`, as in Markdown.
    """
    whole = _DOCUMENT.search(text)
    body = whole[1] if whole else text
    body = _EXAMPLES.sub(lambda _: "\n\n\\remainingsamples\n\n", _HEAD.sub("", body).replace(r"\end{problem}", ""))
    body = _WRAPPED.sub(_wrapped, body)
    # An environment defines a macro of its name, and there is one already.
    body = _SECTION.sub(lambda match: f"\n\\Heading{match[2]}{{}}\n" if match[1] == "begin" else "\n", body)
    body = _SWITCH.sub(lambda match: rf"\text{match[1]}{{", _PIXELS.sub("", body))
    body = _QUOTED.sub(lambda match: match["kept"] or _MARKS[match[0]], body)
    defined = whole[0][: whole.start(1) - whole.start()] if whole else ""
    return _PREAMBLE + _headings(language) + _definitions(defined) + "\n" + body


def _wrapped(match: re.Match[str]) -> str:
    """A picture with text around it; what stands under it is a paragraph, as only whole figures have captions."""
    inside = _CAPTION.sub(lambda _: "\n\n{", match[1])
    return f"\\begin{{wrapped}}{inside}\\end{{wrapped}}"


def _headings(language: str) -> str:
    words = _HEADINGS.get(language.partition("-")[0], _HEADINGS["en"])
    lines = [rf"\newcommand{{\{macro}}}{{\section*{{{words[name]}}}}}" for macro, name in _POLYGON.items()]
    lines += [rf"\newcommand{{\Heading{name}}}{{\section*{{{word}}}}}" for name, word in words.items()]
    return "\n".join(lines) + "\n"


def _definitions(preamble: str) -> str:
    """An author's own macros, out of what stands before the document."""
    found = re.findall(
        rf"\\(?:re)?newcommand\*?\s*\{{?\\[A-Za-z]+\}}?(?:\[[0-9]\])?(?:\[[^\]]*\])?\s*{_ARGUMENT}", preamble
    )
    return "\n".join(found)
