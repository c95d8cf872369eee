r"""Statements in LaTeX as a converter gets them: both families of macros; what pandoc makes of it is another test."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.problems.latex import for_conversion

POLYGON = r"""\begin{problem}{Sum {of} $a$ and $b$}{standard input}{standard output}{1 second}{256 megabytes}

Add <<two>> numbers "--- that is all. Write \t{a<<b}, $x<<1$.
\def \htmlPixelsInCm{45}

\InputFile
Two {\bf{whole}} numbers.

\OutputFile
\it{One} number.

\Examples

\begin{example}
\exmpfile{example.01}{example.01.a}%
\exmpfile{example.02}{example.02.a}%
\end{example}

\Note
\begin{verbatim}
1 << 2
\end{verbatim}
\end{problem}
"""


def body(text, language="en"):
    tex = for_conversion(text, language)
    return tex[tex.rindex("\\section*{") :].split("\n", 1)[1]


def test_polygons_macros():
    tex = body(POLYGON)
    assert "problem}" not in tex and "megabytes" not in tex and "exmp" not in tex and "htmlPixels" not in tex
    assert "\\remainingsamples" in tex and tex.index("\\remainingsamples") < tex.index("\\Note")
    assert "«two»" in tex and "--- that is all" in tex and '"---' not in tex
    # Code and formulas keep their shifts.
    assert "\\t{a<<b}" in tex and "$x<<1$" in tex and "1 << 2" in tex
    assert "\\textbf{whole}" in tex and "\\textit{One}" in tex


def test_headings_are_in_the_statements_language():
    assert "\\newcommand{\\InputFile}{\\section*{Входные данные}}" in for_conversion(POLYGON, "ru")
    for language, word in (("sv", "Utdata"), ("pt-BR", "Saída"), ("xx", "Output")):
        tex = for_conversion("\\begin{Output}One\\end{Output}", language)
        assert f"\\newcommand{{\\HeadingOutput}}{{\\section*{{{word}}}}}" in tex
        assert tex.endswith("\n\\HeadingOutput{}\nOne\n")


def test_kattis_macros_are_defined():
    tex = for_conversion("\\problemname{Caves}\n\\illustration{.4}{cave}{A cave}\n\\nextsample", "en")
    for macro in ("problemname", "illustration", "nextsample", "remainingsamples", "epigraph", "t", "includesample"):
        assert f"\\newcommand{{\\{macro}}}" in tex
    assert "{\\{\\{nextsample\\}\\}}" in tex


def test_a_whole_document_is_its_body_with_its_macros():
    own = "\\newcommand{\\eps}[1]{\\varepsilon_{#1}}"
    text = f"\\documentclass{{article}}\\usepackage{{x}}\n{own}\n\\begin{{document}}Text\\end{{document}} after"
    tex = for_conversion(text, "en")
    assert tex.endswith("\nText") and own in tex and "usepackage" not in tex


@pytest.mark.parametrize("head", ["\\begin{wrapfigure}{r}{4cm}", "\\begin{wrapfigure}[3]{r}[1cm]{0.3\\textwidth}"])
def test_pictures_with_text_around_them(head):
    tex = body(f"{head}\\includegraphics{{a}}\\end{{wrapfigure}}")
    assert tex.strip() == "\\begin{wrapped}\\includegraphics{a}\\end{wrapped}"
    tex = body(f"{head}\\includegraphics{{a}}\\caption{{A \\emph{{cave}}}}\\end{{wrapfigure}}")
    assert tex.strip() == "\\begin{wrapped}\\includegraphics{a}\n\n{A \\emph{cave}}\\end{wrapped}"


PIECES = st.sampled_from([
    "\\begin{problem}", "{", "}", "$", "\\exmp", "\\begin{example}", "\\end{example}", "<<", "\\verb|", "\\t{",
    "a", "\n", "\\begin{verbatim}", "\\", "\\bf{", "\\def\\htmlPixelsInCm", "\\documentclass",
])  # fmt: skip


@given(st.lists(PIECES, max_size=300).map("".join))
def test_any_text_comes_to_an_end(text):
    tex = for_conversion(text, "en")
    assert len(tex) < 20 * len(text) + 10_000
    assert re.search(r"\\newcommand\{\\problemname\}", tex)
