"""What judgectl shows is text that others wrote: none of it is obeyed, and none of it pushes a name away."""

from __future__ import annotations

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judge.allowance import Allowance
from judge.ctl import show
from judge.model import messages as m
from judge.model.overview import Whoami


def screen(width: int = 80) -> show.Screen:
    """A terminal without colours, whose text is kept."""
    return show.Screen(file=io.StringIO(), force_terminal=True, color_system=None, width=width)


def shown(on: show.Screen) -> str:
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


@given(st.text(max_size=60))
@example("\x1b[2J\x1b]0;title\x07 \x9b31m \u202e \r\b")
def test_no_character_steers_the_terminal(text: str) -> None:
    on = screen()
    on.say(text)
    on.verbatim(text, "red")
    table = show.grid("name", "said…", title=text)
    table.add_row(text, text)
    on.print(table)
    assert shown(on).replace("\n", "").isprintable()


@pytest.mark.parametrize("text", ["[/b] open", "[red]x[/red]", ":smile: [bold", "\\[x]"])
def test_nothing_is_markup(text: str) -> None:
    on = screen(width=160)
    on.say(text)
    task = m.Task(
        id="1" * 24, submission=m.Submission(command=text), status="pending", done=False, created="2026-01-01T00:00:00"
    )
    on.print(show.tasks_table([task]))
    assert shown(on).count(text) == 2


@pytest.mark.parametrize("width", [72, 90, 160])
def test_a_long_sentence_folds_beside_the_names(width: int) -> None:
    message = "the answer is 17 and 42 was expected " * 12
    result = m.Result(tests=[m.TestResult(name="secret/group1/03", verdict="WA", message=message)])
    on = screen(width)
    on.print(show._tests_table(result))
    lines = shown(on).splitlines()
    assert lines[0].split() == ["test", "verdict", "cpu", "wall", "memory", "exit", "message"]
    assert lines[1].startswith("secret/group1/03  WA ")
    assert " ".join(shown(on).split()).count("expected") == 12
    assert max(map(len, lines)) <= width


def test_lines_of_others_are_not_broken() -> None:
    on = screen()
    on.verbatim("x" * 500 + "\n" + "y" * 300)
    assert shown(on).splitlines() == ["x" * 500, "y" * 300]


def test_what_one_takes_and_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    on = screen()
    monkeypatch.setattr(show, "out", on)
    allowance = Allowance(own_tests=False, repeats=None, waiting=7, stored_bytes=3 * 1024**2)
    show.print_whoami(Whoami(user="ada", role="user", allowance=allowance, waiting=2, running=1, stored_bytes=1024**2))
    lines = [" ".join(line.split()) for line in shown(on).splitlines()]
    assert lines[0] == "ada, role user"
    assert "programs to problems only" in lines[1]
    for line in (
        "submissions that wait 2 7",
        "submissions that are judged 1 75% of the slots",
        "stored submissions and results 1 MiB 3 MiB",
        "all runs of a submission without a problem 300 s",
        "tests that are repeated near a limit no limit",
    ):
        assert line in lines, lines
