"""What a package has for people: which files are statements, in which language, and how samples are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.problems import statements
from judge.problems.statements import find, kind_of, language_of, with_constants


def names_of(result):
    return [(statement.language, statement.main) for statement in result.statements]


# Shapes of public packages: (files, whether legacy, statements in order).
SHAPES = [
    (["problem_statement/problem.en.tex", "problem_statement/problem.sv.tex"], True,
     [("en", "problem.en.tex"), ("sv", "problem.sv.tex")]),
    (["problem_statement/problem.tex"], True, [("en", "problem.tex")]),
    (["problem_statement/problem.en.md", "problem_statement/problem.en.pdf"], True,
     [("en", "problem.en.md"), ("en", "problem.en.pdf")]),
    (["statement/problem.en.md", "statement/problem.sv.md"], False, [("en", "problem.en.md"), ("sv", "problem.sv.md")]),
    (["statement/problem.pt-BR.tex", "statement/problem.fil.tex"], False,
     [("fil", "problem.fil.tex"), ("pt-BR", "problem.pt-BR.tex")]),
    (["statement/problem.md"], False, [("en", "problem.md")]),
    # DOMjudge's own: the PDF, or what it takes in its place, at the root.
    (["problem.pdf", "problem.yaml", "data/secret/1.in"], True, [("en", "problem.pdf")]),
    (["problem.html"], True, [("en", "problem.html")]),
    (["problem.txt"], True, [("en", "problem.txt")]),
    # BAPCtools exports the source and what it made of it; the PDF is as its author drew it.
    (["problem.pdf", "problem_statement/problem.en.tex"], True, [("en", "problem.pdf"), ("en", "problem.en.tex")]),
    (["problem.en.pdf", "problem.nl.pdf", "statement/problem.en.tex"], False,
     [("en", "problem.en.pdf"), ("en", "problem.en.tex"), ("nl", "problem.nl.pdf")]),
    # The same in both places: the folder counts.
    (["problem.pdf", "problem_statement/problem.pdf"], True, [("en", "problem.pdf")]),
    # The other version's folder is read all the same, with a note.
    (["problem_statement/problem.en.tex"], False, [("en", "problem.en.tex")]),
    (["statement/problem.en.tex"], True, [("en", "problem.en.tex")]),
    (["problem_statement/problem_ru.html"], True, [("ru", "problem_ru.html")]),
    (["problem.md", "README.md", "problem.yaml"], True, []),
    (["problem_statement/statement.tex", "solution/problem.en.md"], True, []),
]  # fmt: skip


@pytest.mark.parametrize(("files", "legacy", "expected"), SHAPES, ids=[shape[0][0] for shape in SHAPES])
def test_the_statements_of_every_version(files, legacy, expected):
    assert names_of(find(files, legacy=legacy)) == expected


def test_a_folder_of_the_other_version_is_noted():
    result = find(["problem_statement/problem.en.tex"], legacy=False)
    assert result.notes == [
        "problem_statement: this version of the format calls the folder statement; it is read all the same"
    ]
    assert find(["problem_statement/problem.en.tex"], legacy=True).notes == []
    both_places = find(["problem_statement/problem.tex", "statement/problem.en.md"], legacy=False)
    assert names_of(both_places) == [("en", "problem.en.md")] and both_places.notes == []


def test_images_and_inclusions_go_with_a_statement():
    files = ["statement/problem.en.tex", "statement/problem.sv.md", "statement/img/a b.png", "statement/img/cave.png",
             "statement/macros.sty", "statement/problem.en.pdf"]  # fmt: skip
    result = find(files, legacy=False)
    by_name = {statement.main: statement for statement in result.statements}
    assert dict(by_name["problem.en.tex"].files) == {
        "problem.en.tex": "statement/problem.en.tex",
        "img/cave.png": "statement/img/cave.png",
        "macros.sty": "statement/macros.sty",
    }
    assert set(by_name["problem.en.pdf"].files) == {"problem.en.pdf"}
    assert set(by_name["problem.sv.md"].files) == {"problem.sv.md", "img/cave.png", "macros.sty"}
    assert result.notes == [
        "statement/img/a b.png: its name has more than letters, digits and _ . + -; it is not shown"
    ]


def test_too_many_files_are_left_out_with_a_note():
    files = ["statement/problem.md", *(f"statement/{number:04}.png" for number in range(600))]
    result = find(files, legacy=False)
    assert len(result.statements[0].files) == statements.STATEMENT_FILES + 1
    assert result.notes == ["statement: has more than 500 files; the rest are not shown"]


def test_a_statement_without_a_code_is_in_the_only_language():
    assert names_of(find(["problem_statement/problem.tex"], legacy=True, only="sv")) == [("sv", "problem.tex")]


def test_attachments():
    result = find(["attachments/a.zip", "attachments/sub/tool.py", "attachments/my tool.py"], legacy=True)
    assert result.attachments == {"a.zip": "attachments/a.zip", "sub/tool.py": "attachments/sub/tool.py"}
    assert len(result.notes) == 1


def test_files_shown_for_samples():
    files = [
        "data/sample/1.in", "data/sample/1.ans", "data/sample/1.in.statement", "data/sample/1.ans.statement",
        "data/sample/2.interaction", "data/sample/3.in", "data/sample/3.ans", "data/sample/3.out",
        "data/sample/4.out.statement", "data/sample/4.ans.download", "data/sample/a/5.in.download",
        "data/sample/.interaction", "data/sample/6.png", "data/secret/1.in.statement",
    ]  # fmt: skip
    assert find(files, legacy=False).samples == {
        "sample/1": {"in.statement": "data/sample/1.in.statement", "ans.statement": "data/sample/1.ans.statement"},
        "sample/2": {"interaction": "data/sample/2.interaction"},
        "sample/3": {"out": "data/sample/3.out"},
        "sample/4": {"ans.download": "data/sample/4.ans.download", "ans.statement": "data/sample/4.out.statement"},
        "sample/a/5": {"in.download": "data/sample/a/5.in.download"},
    }


def test_constants_are_put_into_a_statement():
    text = rb"At most {{n}} words, $N \le \constant{n}$; {{nextsample}} and \constant{m} stay."
    filled = with_constants(text, {"n": 100})
    assert filled == rb"At most 100 words, $N \le 100$; {{nextsample}} and \constant{m} stay."
    assert with_constants(b"\xff {{n}}", {"n": 1}) == b"\xff 1"
    assert with_constants(text, None) == text


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (b"\\problemname{Odd Echo}\nOnce", "Odd Echo"),
        (b"% plainproblemname: A to the B\n\\problemname{$A^B$}", "A to the B"),
        (b"\\problemname{$A^B$}", ""),
        (b"\\problemname{}", ""),
        (b"\\begin{problem}{Two Sums}{standard input}{standard output}{1 second}{256 megabytes}\n", "Two Sums"),
        (b"No name at all", ""),
        (b"\\problemname{\\problemyamlname}", ""),
    ],
)
def test_a_name_that_stands_in_the_statement_alone(text, title):
    assert statements.title_in(text) == title


def test_words_of_languages_and_kinds():
    assert [language_of(code) for code in ("EN", "pt_br", "pt-BR", "zh-hans")] == ["en", "pt-BR", "pt-BR", "zh-Hans"]
    assert [kind_of(name) for name in ("a.MD", "a.markdown", "problem.htm", "x.tex")] == ["md", "md", "html", "tex"]


PARTS = st.sampled_from([
    "problem.en.tex", "problem.md", "problem.pdf", "statement", "problem_statement", "data", "sample", "attachments",
    "1.in", "1.interaction", "..", "é.png", ".x", "1.ans.statement", "", "a b",
])  # fmt: skip


@given(st.lists(st.lists(PARTS, min_size=1, max_size=4).map("/".join), max_size=12), st.booleans())
def test_only_files_of_the_package_are_statements_and_samples(paths, legacy):
    result = find(paths, legacy=legacy)
    given_paths = set(paths)
    for statement in result.statements:
        assert statement.files[statement.main] in given_paths and set(statement.files.values()) <= given_paths
        assert statement.kind in statements.KINDS and statement.language
    assert set(result.attachments.values()) <= given_paths
    assert {path for shapes in result.samples.values() for path in shapes.values()} <= given_paths
    assert not any(path.startswith("data/secret") for shapes in result.samples.values() for path in shapes.values())
