"""Statements of packages of Polygon: in sections, as a whole, as pages, and those that nothing is known of."""

from pathlib import Path

import pytest

from judge.problems.importers import open_package_tree
from tests.support.packages import folder
from tests.unit.test_importers_polygon import load, polygon, without


def test_statements_of_sections(tmp_path: Path) -> None:
    section = "statement-sections/english"
    files = {
        f"{section}/legend.tex": rb"Add \t{a} and \bf{b}: $a << b$, <<so>>.",
        f"{section}/name.tex": b"Two Sums",
        f"{section}/input.tex": b"Two numbers.",
        f"{section}/notes.tex": b"",
        f"{section}/example.01": b"shown\n",
        f"{section}/example.01.a": b"2\n",
        f"{section}/pic.png": b"\x89PNG",
        f"{section}/tutorial.tex": b"Add them.",
    }
    tree = open_package_tree(folder(tmp_path, polygon(extra=files), "package")).tree
    text = tree.read("statement/problem.en.tex", 1000).decode()
    assert text.splitlines() == [
        r"\problemname{Two Sums}", "", r"Add \texttt{a} and \textbf{b}: $a << b$, «so».", "",
        r"\section*{Input}", "Two numbers.",
    ]  # fmt: skip
    assert {"statement/pic.png", "solution/solution.en.tex"} <= tree.files.keys()
    assert tree.read("data/sample/01.in.statement", 100) == b"shown\n"
    assert "data/sample/01.ans.statement" not in tree.files, "it is the answer itself"


WHOLE = (
    "\\begin{problem}{Сумма}{стандартный ввод}{стандартный вывод}{2 секунды}{256 мегабайт}\r\n\r\nA \\t{sum} $a<<b$."
    "\r\n\r\n\\InputFile\r\nn\r\n\r\n\\Example\r\n\r\n\\begin{example}\r\n\\exmp{1}{2}%\r\n\\end{example}\r\n\r\n\\end{problem}\r\n"
)
TEX = "statements/english/problem.tex"


@pytest.mark.parametrize("encoding", ["utf-8", "cp1251"])
def test_a_statement_that_is_only_there_as_a_whole(encoding: str, tmp_path: Path) -> None:
    files = polygon(extra={TEX: WHOLE.encode(encoding), "statements/english/pic.png": b"\x89PNG"})
    package = load(tmp_path, files)
    assert "carried over: statement in en (tex)" in package.notes
    assert not any("not carried over: statement" in note for note in package.notes)
    tree = open_package_tree(tmp_path / "package").tree
    text = tree.read("statement/problem.en.tex", 1000).decode()
    assert text.startswith("\\begin{problem}{Сумма}") and "A \\texttt{sum} $a<<b$.\n" in text and "\r" not in text
    assert {"statement/pic.png", "statement/problem.ru.pdf"} <= tree.files.keys()
    assert "statement/problem.en.html" not in tree.files


def test_sections_go_before_the_whole_statement(tmp_path: Path) -> None:
    files = {TEX: WHOLE.encode(), "statement-sections/english/legend.tex": b"Of sections."}
    tree = open_package_tree(folder(tmp_path, polygon(extra=files), "package")).tree
    assert b"Of sections." in tree.read("statement/problem.en.tex", 1000)


PAGES = ("statements/.html/english/problem.html", "statements/.pdf/russian/problem.pdf")


def test_statements_that_are_of_no_known_kind_can_be_downloaded(tmp_path: Path) -> None:
    files = without(polygon(extra={TEX: WHOLE.encode()}), *PAGES)
    files["problem.xml"] = files["problem.xml"].replace(b'language="english" path', b'language="other" path')
    package = load(tmp_path, files)
    assert "attachments/problem.tex" in open_package_tree(tmp_path / "package").tree.files
    assert [note for note in package.notes if "statement" in note] == [
        f"not carried over: statement {TEX} (other, application/x-tex): is not shown; it is offered for download"
    ]


def test_statements_whose_files_are_not_there(tmp_path: Path) -> None:
    package = load(tmp_path, without(polygon(), *PAGES))
    assert "not carried over: statements: their files are not in the package" in package.notes
