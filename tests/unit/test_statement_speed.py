"""Statements and scripts of strangers that are made to be slow take time in proportion to their length."""

import time

import pytest

from judge.problems.importers import gensh
from judge.problems.latex import for_conversion

SIZE = 64 * 1024
SECONDS = 1.0
BEGINNINGS = (
    r"\[", r"\(", "$$", "$", r"\$", r"\begin{verbatim}", r"\begin{lstlisting}", r"\begin{wrapfigure}",
    r"\begin{wrapfigure}[", r"\begin{wrapfigure}{r}{1}", r"\begin{example}", r"\begin{examplewide}", r"\Example ",
    r"\exmp{", r"\exmp{a}", r"\exmp ", r"\t{", r"\texttt{{a", r"\verb|", r"\verb", r"\documentclass",
    r"\documentclass\begin{document}", r"\begin{document}", r"\begin{problem}{", r"\begin{problem}", r"\begin{Input}",
    r"\caption{", r"\bf ", r"\def\htmlPixelsInCm{", r"\def ", "<<", r"\newcommand\a[", r"\newcommand\a[1][",
    r"\newcommand{\a}", "{", "}", "\\", "%",
)  # fmt: skip


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_statement_in_latex(beginning):
    repeated = beginning * (SIZE // len(beginning))
    texts = [repeated, rf"\documentclass{repeated}\begin{{document}}", rf"\begin{{document}}\documentclass{repeated}"]
    texts += [beginning + char * SIZE for char in " a{\\$"]
    for text in texts:
        begin = time.thread_time()
        for_conversion(text, "en")
        assert time.thread_time() - begin < SECONDS, text[:60]


@pytest.mark.parametrize("text", ["{" + "," * SIZE, "{," * SIZE, "{.." * SIZE, "{a,b}" * SIZE, "{" * SIZE])
def test_braces_of_a_shell(text):
    begin = time.thread_time()
    gensh._BRACES.search(text)
    assert time.thread_time() - begin < SECONDS
