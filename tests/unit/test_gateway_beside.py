"""What pages make of texts: output beside an answer, places in compilers' messages, languages guessed."""

import re
import timeit
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.gateway import assets, editor
from judge.gateway.pages import compare, submission
from judge.gateway.pages.submission import sources
from judge.languages.table import guess, load_table
from judge.model import messages as m

ROOT = Path(__file__).parents[2]
LINES = st.lists(st.text(st.sampled_from("ab 1\t<"), max_size=6), max_size=30).map("\n".join)


@given(LINES, LINES)
def test_every_shown_line_is_unchanged_and_in_its_place(printed, answer):
    comparison = compare.compare(printed, answer)
    assert comparison.whole
    for side, text in (("left", printed), ("right", answer)):
        lines = text.splitlines()
        numbers = [getattr(row, side) for row in comparison.rows if getattr(row, side)]
        assert numbers == sorted(set(numbers))
        for row in comparison.rows:
            at = getattr(row, side)
            if at:
                parts = row.printed if side == "left" else row.answer
                assert "".join(part.text for part in parts) == lines[at - 1]
        gaps = sum(row.gap for row in comparison.rows)
        assert len(numbers) + gaps == len(lines)
    assert any(row.differs for row in comparison.rows) != (printed.splitlines() == answer.splitlines())


@given(LINES)
def test_equal_texts_have_no_marks(text):
    comparison = compare.compare(text, text)
    assert not any(row.differs for row in comparison.rows)
    assert not any(part.differs for row in comparison.rows for part in (*row.printed, *row.answer))


def test_words_that_differ_are_marked_and_equal_lines_fold():
    equal = "".join(f"{n}\n" for n in range(100))
    comparison = compare.compare(f"{equal}1 2 3\n", f"{equal}1 5 3\n4\n")
    assert comparison.rows[0].gap == 97
    changed = comparison.rows[4]
    assert [(part.text, part.differs) for part in changed.printed] == [("1 ", False), ("2", True), (" 3", False)]
    assert [(part.text, part.differs) for part in changed.answer] == [("1 ", False), ("5", True), (" 3", False)]
    assert (comparison.rows[5].left, comparison.rows[5].right) == (None, 102)


def test_a_missing_line_moves_no_other_and_each_word_that_differs_is_marked():
    comparison = compare.compare("1\n2\n3\n4\n", "1\n3\n4\n")
    assert [(row.left, row.right) for row in comparison.rows if row.differs] == [(2, None)]
    line = compare.compare("1 2 3 4\n", "1 3 4\n").rows[0]
    assert [part.text for part in line.printed if part.differs] == ["2 "]
    assert not any(part.differs for part in line.answer)
    line = compare.compare("1 2 3 4 5\n", "1 7 3 8 5\n").rows[0]
    assert [part.text for part in line.printed if part.differs] == ["2", "4"]


class Counted(str):
    """A text that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, token: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, token)

    def __ne__(self, token: object) -> bool:
        return not self == token


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a" * 500, "a" * 500),
        ("a" * 500, "b" + "a" * 499),
        ("ab" * 250, "baa" * 166),
        ("a" * 250 + "b" * 250, "b" * 500),
    ],
)
def test_alignment_looks_at_each_token_at_most_twice(monkeypatch, first, second):
    monkeypatch.setattr(Counted, "compared", 0)
    pairs = compare.aligned([Counted(token) for token in first], [Counted(token) for token in second])
    assert [i for i, _ in pairs if i is not None] == list(range(len(first)))
    assert [j for _, j in pairs if j is not None] == list(range(len(second)))
    assert Counted.compared <= 2 * len(first)


def test_the_worst_texts_are_compared_at_once():
    """Lines of two words over and over took a longest common subsequence a quarter of a minute."""
    printed = "\n".join(f"x{n} " + "a b " * 120 for n in range(200))
    answer = "\n".join(f"y{n} " + "b a a " * 80 for n in range(200))
    assert min(timeit.repeat(lambda: compare.compare(printed, answer), number=1, repeat=3)) < 2


@pytest.mark.parametrize(("printed", "answer"), [("x" * 501, "y"), ("1\n" * 201, "1\n"), ("", "1\n" * 100_000)])
def test_a_text_that_is_too_long_is_cut_and_said_to_be(printed, answer):
    comparison = compare.compare(printed, answer)
    assert not comparison.whole
    assert len(comparison.rows) <= 200
    assert compare.compare("1\n", "2\n", whole=False).whole is False


@pytest.mark.parametrize(
    ("message", "name", "line"),
    [
        ("main.cpp:12:5: error: x", "main.cpp", 12),
        ("./main.cpp:3: warning", "main.cpp", 3),
        (" --> main.rs:3:5", "main.rs", 3),
        ('  File "main.py", line 3', "main.py", 3),
        ("main.pas(3,5) Error: x", "main.pas", 3),
        ("main.cs(3,5): error CS1002: x", "main.cs", 3),
        ('File "main.ml", line 2, characters 4-9:', "main.ml", 2),
        ("PHP Parse error: x in main.php on line 3", "main.php", 3),
        ("syntax error at main.pl line 3, near", "main.pl", 3),
        ("/box/src/Main.java:3: error: ';' expected", "Main.java", 3),
        ("main.f90:4:1:", "main.f90", 4),
    ],
)
def test_places_as_compilers_name_them(message, name, line):
    html = submission.linked(f"a <b>\n{message}\n", [submission.ShownSource(name, "src", 20)])
    assert f'<a href="#src-{line}">' in html
    assert "a &lt;b&gt;\n" in html
    assert f">{name}" in html, "the person's own name of the file, without the directory it is compiled in"
    _, _, tail = str(html).partition("</a>")
    assert str(submission.linked(f"a <b>\n{message}\n", [])).endswith(tail)


def test_the_only_source_is_named_as_the_person_names_it():
    html = submission.linked(
        "/box/main.c: In function 'f':\n/box/main.c:3:5: error: x\n/usr/include/a.h:1: note, amain.c main.cc",
        [submission.ShownSource("err <1>.c", "src", 9, "main.c")],
    )
    assert str(html) == (
        "err &lt;1&gt;.c: In function &#39;f&#39;:\n"
        '<a href="#src-3">err &lt;1&gt;.c:3</a>:5: error: x\n/usr/include/a.h:1: note, amain.c main.cc'
    )


def test_only_shown_sources_are_linked():
    two = [
        submission.ShownSource("src/a.c", "src-1", 5),
        submission.ShownSource("src/b/a.c", "src-2", 5),
        submission.ShownSource("c.h", "src-3", 5),
    ]
    text = "src/a.c:1 src/b/a.c:2 a.c:3 c.h:4 x/c.h:5 c.h:6 /usr/include/stdio.h:1 c.h:0"
    links = re.findall(r'#(src-\d-\d)"', submission.linked(text, two))
    assert links == ["src-1-1", "src-2-2", "src-3-4", "src-3-5"]


@given(st.text(st.sampled_from('ab.c:1<>"&()/ \n'), max_size=200))
def test_no_text_becomes_markup(text):
    html = str(submission.linked(text, [submission.ShownSource("a.c", "src", 9)]))
    assert "<" not in re.sub(r'<a href="#src-[1-9]">|</a>', "", html)


def test_sources_are_numbered_as_the_page_shows_them():
    single = m.Submission(user="ada", language="cpp", source="1\n2\n")
    assert [(s.name, s.anchor, s.judged) for s in sources(single)] == [("main.cpp", "src", "main.cpp")]
    java = m.Submission(user="ada", language="java", source="public class A {}", filename="B.java")
    assert [(s.name, s.judged) for s in sources(java)] == [("B.java", "A.java")]
    files = [m.SourceFile.of(name, data) for name, data in (("a.c", b"x"), ("b.bin", b"\xff"), ("c.h", b"y"))]
    several = m.Submission(user="ada", language="c", files=files)
    assert [(s.name, s.anchor) for s in sources(several)] == [("a.c", "src-1"), ("c.h", "src-3")]


def test_guesses_are_right_about_the_examples():
    table = load_table(None)
    assert {name for _, name in editor.GUESSES} <= set(table)
    right = 0
    for path in sorted((ROOT / "examples").rglob("submissions/*/*")):
        true = guess(path.name, table)
        if not path.is_file() or true is None:
            continue
        text = path.read_text(errors="replace")
        guessed = next((name for pattern, name in editor.GUESSES if re.search(pattern, text, re.MULTILINE)), None)
        # C++ of C's headers alone cannot be told from C.
        assert guessed in {None, true} or {guessed, true} == {"c", "cpp"}, path
        right += guessed is not None
    assert right > 40


def test_every_mode_is_a_file_of_the_package():
    if not editor.available():
        pytest.skip("needs libjs-codemirror")
    for name, _ in editor.MODES.values():
        assert (editor.HOME / f"mode/{name}/{name}.js").is_file(), name
    assert assets.address("codemirror.js").endswith(".js")
    php, c = (assets.assets()[f"mode-{name}.js"][1] for name in ("php", "clike"))
    assert all(f'defineMode("{name}"'.encode() in php for name in ("xml", "htmlmixed", "clike", "php"))
    assert b'defineMode("clike"' in c and b"htmlmixed" not in c, "a mode has only what it stands on"


def cost(text: str, among: list[submission.ShownSource] | None = None) -> float:
    """Seconds that links take in a text, beside these sources."""
    among = among or [submission.ShownSource("a.c", "src", 9)]
    return min(timeit.repeat(lambda: submission.linked(text, among), number=1, repeat=3))


def test_a_message_of_long_names_costs_no_more_than_another():
    """Tried from each of its characters, one of these took a hundred times as long as plain text."""

    plain = cost("some words of a compiler, not a place " * 1700)
    assert all(cost(text * (64_000 // len(text))) < 30 * plain for text in ("a.", "a.a", "a.aaaaaaaa", "./", "aaaa"))


def test_a_message_about_many_files_costs_no_more_than_one_about_one():
    """Each place was held against each file anew: ten seconds for a log of 24 KiB and a hundred files."""
    files = [submission.ShownSource(f"{n}/b/c/d/e/f/g/h/i/a.c", f"src-{n}", 9) for n in range(100)]

    for name in ("a.c", "b.c", "7/b/c/d/e/f/g/h/i/a.c"):
        text = f"{name}:1 " * 1000
        assert cost(text, files) < 5 * cost(text, files[7:8]), name
