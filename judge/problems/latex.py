r"""Statements in LaTeX, made ready for a program that turns LaTeX into HTML, which knows no judge's own macros.

Two families are read: Kattis' (`\problemname`, `\illustration`, `\nextsample`, `\begin{Input}`) and that of Polygon's
olymp.sty (`\begin{problem}{…}`, `\InputFile`, `\exmp`). Pure functions of a text; nothing is run here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
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
_EXAMPLE = re.compile(r"(?:\\Examples?\b\s{0,99})?\\begin\{example(?P<kind>\w{0,20})\}")
_EXAMPLES = re.compile(rf"\\exmp\w{{0,20}}(?:\s{{0,99}}{_ARGUMENT}){{2,3}}")
_WRAPPED = re.compile(
    r"\\begin\{wrapfigure\}(?:\s{0,99}\[[^\]]{0,99}\])?\s{0,99}\{[^{}]{0,99}\}(?:\s{0,99}\[[^\]]{0,99}\])?\s{0,99}\{[^{}]{0,99}\}"
)
_CAPTION = re.compile(r"\\caption\*?\s*\{")
_SWITCH = re.compile(r"\\(bf|it|tt|sf|sc)\s*\{")
_PIXELS = re.compile(r"\\def\s*\\htmlPixelsInCm\s*\{[^{}]*\}")
# The beginnings of pieces that stay as they are, and quotation marks.
_QUOTED = re.compile(
    r"\$\$|\$|\\\[|\\\(|\\begin\{(?P<block>verbatim|lstlisting|minted|Verbatim)\}|\\verb\*?(?P<bar>[^\w\s])"
    r"|\\(?:t|texttt)(?=\{)|<<|>>|\"---"
)
_INLINE = re.compile(r"\$(?:\\.|[^$\\])*\$", re.DOTALL)
_BRACED = re.compile(_ARGUMENT)
_ENDS = {"$$": "$$", r"\[": r"\]", r"\(": r"\)"}
# So many different ends are looked for in vain.
_IN_VAIN = 50
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
    defined, body = _document(text)
    body = _replaced(
        _HEAD.sub("", body).replace(r"\end{problem}", ""),
        _EXAMPLE,
        lambda match: rf"\end{{example{match['kind']}}}",
        lambda _: "\n\n\\remainingsamples\n\n",
    )
    body = _EXAMPLES.sub(lambda _: "\n\n\\remainingsamples\n\n", body)
    body = _replaced(body, _WRAPPED, lambda _: r"\end{wrapfigure}", _wrapped)
    # An environment defines a macro of its name, and there is one already.
    body = _SECTION.sub(lambda match: f"\n\\Heading{match[2]}{{}}\n" if match[1] == "begin" else "\n", body)
    body = _SWITCH.sub(lambda match: rf"\text{match[1]}{{", _PIXELS.sub("", body))
    body = _marked(body)
    return _PREAMBLE + _headings(language) + _definitions(defined) + "\n" + body


def _document(text: str) -> tuple[str, str]:
    """What stands before the document's text, and that; all is text where there is no `documentclass`."""
    first = text.find(r"\documentclass")
    begin = text.find(r"\begin{document}", first) if first >= 0 else -1
    if begin < 0:
        return "", text
    inner = begin + len(r"\begin{document}")
    end = text.find(r"\end{document}", inner)
    return text[first:inner], text[inner:] if end < 0 else text[inner:end]


class _Finder:
    """Finds ends of pieces. An end that is nowhere is looked for once, so that all of it takes linear time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._missing: set[str] = set()

    def end(self, word: str, start: int) -> int:
        """The place behind the next `word`; -1 where there is none."""
        if word in self._missing or len(self._missing) >= _IN_VAIN:
            return -1
        place = self._text.find(word, start)
        if place < 0:
            self._missing.add(word)
            return -1
        return place + len(word)


def _replaced(
    text: str, begin: re.Pattern[str], end: Callable[[re.Match[str]], str], change: Callable[[str], str]
) -> str:
    """The text with each piece from `begin` to its end changed; `change` gets what is between them."""
    finder, parts, at, place = _Finder(text), [], 0, 0
    while (match := begin.search(text, place)) is not None:
        word = end(match)
        place = finder.end(word, match.end())
        if place < 0:
            place = match.end()
            continue
        parts += [text[at : match.start()], change(text[match.end() : place - len(word)])]
        at = place
    return "".join([*parts, text[at:]])


def _marked(text: str) -> str:
    """The text with its quotation marks changed, but in formulas and code."""
    finder, parts, at, place = _Finder(text), [], 0, 0
    dollars = True
    while (match := _QUOTED.search(text, place)) is not None:
        word, mark = match[0], _MARKS.get(match[0])
        if mark is not None:
            parts += [text[at : match.start()], mark]
            at = place = match.end()
            continue
        end = -1
        if match["block"]:
            end = finder.end(rf"\end{{{match['block']}}}", match.end())
        elif match["bar"]:
            end = finder.end(match["bar"], match.end())
        elif word in _ENDS:
            end = finder.end(_ENDS[word], match.end())
        if end < 0:
            inner = _INLINE.match(text, match.start()) if word[0] == "$" and dollars else None
            # A dollar without its fellow: there is none for those behind it, either.
            dollars = dollars and (word[0] != "$" or inner is not None)
            inner = inner or (_BRACED.match(text, match.end()) if word in {r"\t", r"\texttt"} else None)
            end = match.end() if inner is None else inner.end()
        place = end
    return "".join([*parts, text[at:]])


def _wrapped(inner: str) -> str:
    """A picture with text around it; what stands under it is a paragraph, as only whole figures have captions."""
    inside = _CAPTION.sub(lambda _: "\n\n{", inner)
    return f"\\begin{{wrapped}}{inside}\\end{{wrapped}}"


def _headings(language: str) -> str:
    words = _HEADINGS.get(language.partition("-")[0], _HEADINGS["en"])
    lines = [rf"\newcommand{{\{macro}}}{{\section*{{{words[name]}}}}}" for macro, name in _POLYGON.items()]
    lines += [rf"\newcommand{{\Heading{name}}}{{\section*{{{word}}}}}" for name, word in words.items()]
    return "\n".join(lines) + "\n"


def _definitions(preamble: str) -> str:
    """An author's own macros, out of what stands before the document."""
    definitions = re.findall(
        rf"\\(?:re)?newcommand\*?\s*\{{?\\[A-Za-z]+\}}?(?:\[[0-9]\])?(?:\[[^\]]{{0,999}}\])?\s{{0,99}}{_ARGUMENT}",
        preamble,
    )
    return "\n".join(definitions)
