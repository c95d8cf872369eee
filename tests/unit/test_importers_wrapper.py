"""wrapper.c: what checkers and interactors of other judges say, as exit codes and files of the package format."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from judge.problems import importers

WRAPPER = Path(importers.__file__).with_name("wrapper.c")
IOA = '-DCHECKER="ioa"'
TESTLIB = (IOA,)
BOTH = (IOA, '-DINTERACTOR="ioa"')
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], bytes]:
    """The wrapper, compiled by the definitions that a test asks for."""
    return {}


class Validator:
    """A folder with the wrapper, and scripts in place of the programs that it asks."""

    def __init__(self, where: Path, built: dict[tuple[str, ...], bytes], defines: tuple[str, ...]) -> None:
        self.where = where
        if defines not in built:
            command = [
                "cc",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-Wno-unused",
                "-o",
                str(where / "run"),
                *defines,
                str(WRAPPER),
            ]
            subprocess.run(command, check=True)
            built[defines] = (where / "run").read_bytes()
        else:
            (where / "run").write_bytes(built[defines])
            (where / "run").chmod(0o755)
        (where / "feedback").mkdir()
        (where / "input").write_text("in\n")
        (where / "answer").write_text("ans\n")

    def program(self, name: str, script: str) -> None:
        (self.where / name).write_text("#!/bin/sh\n" + script)
        (self.where / name).chmod(0o755)

    def ask(self, *flags: str, output: bytes = b"out\n") -> int:
        files = [str(self.where / name) for name in ("input", "answer", "feedback")]
        command = [str(self.where / "run"), *files, *flags]
        done = subprocess.run(command, input=output, capture_output=True, check=False)
        self.said, self.printed = done.stderr.decode(), done.stdout
        return done.returncode

    def feedback(self, name: str) -> str | None:
        path = self.where / "feedback" / name
        return path.read_text().strip() if path.exists() else None


CODES = [
    (0, "ok", (), 42, None),
    (1, "wrong answer", (), 43, None),
    (2, "wrong output format", (), 43, None),
    (4, "dirt", (), 43, None),
    (8, "unexpected end", (), 43, None),
    (3, "FAIL", (), 1, None),
    (5, "what", (), 1, None),
    (117, "more than all", (), 1, None),
    (127, "not found", (), 1, None),
    (0, "ok", ("--points", "20"), 42, None),
    (7, "points 5", (), 43, None),
    (7, "points 5", ("--any",), 42, None),
    (7, "points 5", ("--points", "20"), 42, "5"),
    (7, "points 2.5 half of it", ("--points", "20"), 42, "2.5"),
    (7, "2.5 half of it", ("--points", "20"), 1, None),
    (7, "points 2.5", ("--points", "5", "--times", "2"), 42, None),
    (7, "points 1.5", ("--points", "5", "--times", "2"), 42, "3"),
    (41, "a share", ("--points", "5", "--times", "2"), 42, "1.25"),
    (7, "points nan", ("--points", "20"), 1, None),
    (7, "points 1e999", ("--points", "20"), 1, None),
    (7, "expected 3, found: points 20", ("--points", "20"), 1, None),
    (7, "points 5 found\npoints 20", ("--points", "20"), 42, "5"),
    (7, "points 5 partial 1/1\npartial 1/1\n20", ("--points", "20"), 42, "5"),
    (7, "points 5 " + "x" * 4086 + "points 20", ("--points", "20"), 42, "5"),
    (7, "x" * 4095 + "points 20", ("--points", "20"), 1, None),
    (7, "points 0", ("--points", "20"), 43, None),
    (7, "points 30", ("--points", "20"), 42, None),
    (7, "no number", ("--points", "20"), 1, None),
    (7, "points 123.25", ("--unbounded",), 42, "123.25"),
    (0, "ok", ("--unbounded",), 42, "0"),
    (7, "partial 1/4", ("--points", "20"), 1, None),
    (41, "partially correct", ("--points", "20"), 42, "5"),
    (16, "partially correct (0)", ("--points", "20"), 43, None),
    (116, "partially correct (100)", (), 42, None),
    (0, "ok", ("--nonsense",), 1, None),
]  # fmt: skip


@pytest.mark.parametrize(("code", "message", "flags", "expected", "score"), CODES)
def test_testlibs_exit_codes(code, message, flags, expected, score, tmp_path, built) -> None:
    validator = Validator(tmp_path, built, TESTLIB)
    validator.program("checker", f"cat <<'END' >&2\n{message}\nEND\nexit {code}\n")
    assert validator.ask(*flags) == expected, validator.said
    assert validator.feedback("score.txt") == score
    if flags != ("--nonsense",):
        assert validator.feedback("judgemessage.txt") == message


def test_the_files_that_a_checker_is_told(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, TESTLIB)
    validator.program("checker", 'cat "$1" "$2" "$3" >&2; test "$(cat "$2")" = out\n')
    for output in (b"out\n", b"out\n" * 1):
        assert validator.ask(output=output) == 42
    assert (validator.feedback("judgemessage.txt") or "").split()[:3] == ["in", "out", "ans"]


def test_an_output_that_is_a_file_is_not_copied(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, TESTLIB)
    validator.program("checker", 'echo "$2" >&2\n')
    (tmp_path / "out").write_bytes(b"out\n")
    files = [str(tmp_path / name) for name in ("input", "answer", "feedback")]
    with (tmp_path / "out").open("rb") as file:
        subprocess.run([str(tmp_path / "run"), *files], stdin=file, check=False)
    assert validator.feedback("judgemessage.txt") == "/dev/stdin"


def test_a_checker_that_dies_is_the_judges_fault(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, TESTLIB)
    validator.program("checker", "kill -SEGV $$\n")
    assert validator.ask() == 1 and "was ended by signal 11" in validator.said


def test_a_checker_that_is_not_there_is_the_judges_fault(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, TESTLIB)
    assert validator.ask() == 1 and "was ended by signal 6" in validator.said


def test_plain_checkers(tmp_path, built) -> None:
    for code, expected in ((0, 42), (1, 43), (2, 1), (7, 1), (40, 1)):
        where = tmp_path / str(code)
        where.mkdir()
        validator = Validator(where, built, (IOA, "-DPLAIN"))
        validator.program("checker", f"exit {code}\n")
        assert validator.ask() == expected


def test_checkers_of_wcipeg(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, ('-DCHECKER="oai"', "-DPLAIN", "-DPEG"))
    validator.program("checker", 'test "$(cat "$3")" = in || exit 2\nprintf "1\\n4\\n"\nexit 1\n')
    assert validator.ask("--points", "20") == 42 and validator.feedback("score.txt") == "5"


@pytest.mark.parametrize(
    ("lines", "code", "score"),
    [
        ("3\n10\n5", 42, "6"),
        ("found 5\n1\n4\n4\n1", 42, "5"),
        ("0\n4\n4\n4", 43, None),
        ("10\n x\n10\n10 y", 43, None),
        ("10 10\n10\nfound\n10", 43, None),
        ("-1\n1e1\n1.5", 43, None),
        ("4\n0\n4", 43, None),
        ("", 43, None),
    ],
)
def test_the_first_pair_of_numbers_decides_for_wcipeg(lines, code, score, tmp_path, built) -> None:
    validator = Validator(tmp_path, built, ('-DCHECKER="oai"', "-DPLAIN", "-DPEG"))
    validator.program("checker", f"cat <<'END'\n{lines}\nEND\nexit 1\n")
    assert validator.ask("--points", "20") == code and validator.feedback("score.txt") == score


@pytest.mark.parametrize(
    ("message", "code", "score"),
    [
        ("partial 1/4", 42, "5"),
        ("dirt\npartial 1/4\npartial 4/4", 42, "5"),
        ("partial 4/4", 42, None),
        ("found partial 4/4", 1, None),
        ("points 20", 1, None),
        ("20\n20", 1, None),
    ],
)
def test_checkers_of_coci(message, code, score, tmp_path, built) -> None:
    validator = Validator(tmp_path, built, (IOA, "-DCOCI"))
    validator.program("checker", f"cat <<'END' >&2\n{message}\nEND\nexit 7\n")
    assert validator.ask("--points", "20") == code and validator.feedback("score.txt") == score


@pytest.mark.parametrize(
    ("script", "code", "score"),
    [
        ("exit 0", 42, None),
        ("exit 1", 43, None),
        ("exit 4", 43, None),
        ("exit 3", 1, None),
        ("exit 7", 1, None),
        ("echo 0.25 >&2; exit 2", 42, "5"),
        ("echo 1; echo found >&2; echo '.5 of it' >&2; exit 2", 42, "10"),
        ("echo 0 >&2; exit 2", 43, None),
        ("echo 1.0 >&2; exit 2", 42, None),
        ("echo 25 >&2; exit 2", 1, None),
        ("echo 0.25; exit 2", 1, None),
    ],
)
def test_checkers_of_lqdoj(script, code, score, tmp_path, built) -> None:
    validator = Validator(tmp_path, built, (IOA, "-DPLAIN", "-DLQDOJ"))
    validator.program("checker", f"echo seen\n{script}\n")
    assert validator.ask("--points", "20") == code and validator.feedback("score.txt") == score
    assert "seen" in (validator.feedback("judgemessage.txt") or "")


@pytest.mark.parametrize(
    ("printed", "code", "score"),
    [
        ("well done\n0.25\n", 42, "5"),
        ("\n1\nmore", 42, None),
        ("wrong\n0.0", 43, None),
        ("0.25\n", 1, None),
        ("0.25\nwell\n", 1, None),
        ("x\nnan\n", 1, None),
    ],
)
def test_checkers_of_themis(printed, code, score, tmp_path, built) -> None:
    validator = Validator(tmp_path, built, (IOA, "-DTHEMIS"))
    validator.program("checker", f"cat <<'END'\n{printed}\nEND\n")
    assert validator.ask("--points", "20") == code and validator.feedback("score.txt") == score
    validator.program("checker", f"printf '{printed}'; exit 5\n")
    assert validator.ask("--points", "20") == 43


def test_points_are_the_words_of_the_program_that_gives_them(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, BOTH)
    validator.program("interactor", "echo points 20 >&2\n")
    validator.program("checker", "echo points 5 >&2; exit 7\n")
    assert validator.ask("--points", "20") == 42 and validator.feedback("score.txt") == "5"


CMS = [
    ("echo ok >&2", 42, None),
    ("echo 0.0; echo translate:wrong >&2", 43, None),
    ("echo 1", 42, None),
    ("echo 0.25; echo 1", 42, "0.25"),
    ("echo 1.00000", 42, None),
    # The answer is the second file in that protocol.
    ('[ "$(cat "$2")" = ans ] && [ "$(cat "$3")" = out ] && echo 1 || echo 0', 42, None),
    ('[ "$(cat "$2")" = ans ] && echo 0.5 && exit 0; echo 0', 42, "0.5"),
    ('[ "$(cat "$2")" = ans ] && exit 1; echo 1', 1, None),
    ("echo 3", 42, None),
    ("echo -1", 42, None),
    ("echo 1 of 3 words", 42, None),
    ("echo seen 3 words", 42, None),
    ("echo wrong >&2; exit 1", 43, None),
    ("echo points 0.25 >&2; exit 7", 42, "0.25"),
    ("exit 41", 42, "0.25"),
    ("echo points 0 >&2; exit 7", 43, None),
    ("echo points 1 >&2; exit 7", 42, None),
    ("echo points 20 >&2; exit 7", 1, None),
]


@pytest.mark.parametrize(("script", "code", "part"), CMS)
def test_testlib_in_tasks_that_have_outcomes(script, code, part, tmp_path, built) -> None:
    validator = Validator(tmp_path, built, (IOA, "-DCMS"))
    validator.program("checker", script + "\n")
    assert validator.ask() == code, validator.said
    assert validator.feedback("score_multiplier.txt") == part
    assert validator.feedback("score.txt") is None


@pytest.mark.parametrize(
    ("script", "flags", "code", "score"),
    [
        ("echo 1", (), 42, None),
        ("echo 0", (), 43, None),
        ("echo 0.5", (), 43, None),
        ("echo 0.5", ("--any",), 42, None),
        ("echo 0.5", ("--points", "20"), 42, "10"),
        ("echo 1", ("--points", "20"), 42, None),
        ("echo 0.25", ("--unbounded",), 42, "25"),
        ('[ "$(cat "$2")" = ans ] && echo 1 || echo 0', (), 42, None),
        ("echo 2", (), 1, None),
        ("echo nan", (), 1, None),
        ("echo fine", (), 1, None),
        ("echo 1; exit 1", (), 1, None),
        (":", (), 1, None),
    ],
)
def test_a_checker_that_prints_its_outcome(script, flags, code, score, tmp_path, built) -> None:
    validator = Validator(tmp_path, built, ('-DCHECKER="iao"', "-DOUTCOME"))
    validator.program("checker", script + "\n")
    assert validator.ask(*flags) == code, validator.said
    assert validator.feedback("score.txt") == score


def test_points_as_percent(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, (IOA, "-DPERCENT"))
    validator.program("checker", "echo points 25 >&2; exit 7\n")
    assert validator.ask("--points", "20") == 42 and validator.feedback("score.txt") == "5"


@pytest.mark.parametrize(("points", "score"), [("0.25", "5"), ("25", "5"), ("1", ""), ("100", "")])
def test_points_as_a_share(tmp_path, built, points: str, score: str) -> None:
    validator = Validator(tmp_path, built, (IOA, "-DSHARE"))
    validator.program("checker", f"echo points {points} >&2; exit 7\n")
    assert validator.ask("--points", "20") == 42 and (validator.feedback("score.txt") or "") == score
    assert validator.ask() == (43 if score else 42)


def test_an_interactor_and_then_the_checker(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, BOTH)
    validator.program("interactor", 'echo hello; read word; echo "$word" > "$2"; echo talked >&2\n')
    validator.program("checker", 'echo "checked $(cat "$2")" >&2\n')
    assert validator.ask(output=b"out\n") == 42 and validator.printed == b"hello\n"
    assert validator.feedback("judgemessage.txt") == "talked\nchecked out"


def test_an_interactors_word_is_enough_for_a_no(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, BOTH)
    validator.program("interactor", "exit 1\n")
    validator.program("checker", "exit 0\n")
    assert validator.ask() == 43


def test_two_runs_by_the_checker(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, (IOA, "-DRUNS=1"))
    validator.program("checker", 'echo "from $(cat "$1") and $(cat "$2")"\n')
    assert validator.ask(output=b"first") == 42
    assert validator.feedback("nextpass.in") == "from in and first"
    (tmp_path / "feedback/nextpass.in").unlink()
    assert validator.ask(output=b"second") == 42 and validator.feedback("nextpass.in") is None
    assert (validator.feedback("judgemessage.txt") or "").endswith("from from in and first and second")


def test_two_runs_with_an_interactor_for_the_first(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, (*BOTH, "-DRUNS=1"))
    validator.program("interactor", 'read word; echo "next $word" > "$2"\n')
    validator.program("checker", 'test "$(cat "$1") $(cat "$2")" = "next first second"\n')
    assert validator.ask(output=b"first\n") == 42 and validator.feedback("nextpass.in") == "next first"
    (tmp_path / "feedback/nextpass.in").unlink()
    assert validator.ask(output=b"second\n") == 42 and validator.printed == b"next first\n"


def test_two_runs_with_an_interactor_for_both(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, (*BOTH, "-DRUNS=2"))
    validator.program("interactor", 'read word; echo "$(cat "$1") $word" > "$2"\n')
    validator.program("checker", 'test "$(cat "$1") + $(cat "$2")" = "in first + in first second"\n')
    assert validator.ask(output=b"first\n") == 42
    (tmp_path / "feedback/nextpass.in").unlink()
    assert validator.ask(output=b"second\n") == 42
