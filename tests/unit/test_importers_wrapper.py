"""wrapper.c: what checkers and interactors of other judges say, as exit codes and files of the package format."""

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

    def __init__(self, root: Path, built: dict[tuple[str, ...], bytes], defines: tuple[str, ...]) -> None:
        self.root = root
        if defines not in built:
            warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unused"]
            subprocess.run(["cc", *warnings, "-o", str(root / "run"), *defines, str(WRAPPER)], check=True)
            built[defines] = (root / "run").read_bytes()
        else:
            (root / "run").write_bytes(built[defines])
            (root / "run").chmod(0o755)
        (root / "feedback").mkdir()
        (root / "input").write_text("in\n")
        (root / "answer").write_text("ans\n")

    def program(self, name: str, script: str) -> None:
        (self.root / name).write_text("#!/bin/sh\n" + script)
        (self.root / name).chmod(0o755)

    def ask(self, *flags: str, output: bytes = b"out\n") -> int:
        files = [str(self.root / name) for name in ("input", "answer", "feedback")]
        command = [str(self.root / "run"), *files, *flags]
        process = subprocess.run(command, input=output, capture_output=True, check=False)
        self.stderr, self.printed = process.stderr.decode(), process.stdout
        return process.returncode

    def feedback(self, name: str) -> str | None:
        path = self.root / "feedback" / name
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
    assert validator.ask(*flags) == expected, validator.stderr
    assert validator.feedback("score.txt") == score
    if flags != ("--nonsense",):
        assert validator.feedback("judgemessage.txt") == message


def test_the_files_that_a_checker_is_told(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, TESTLIB)
    validator.program("checker", 'cat "$1" "$2" "$3" >&2; test "$(cat "$2")" = out\n')
    assert validator.ask() == 42
    assert (validator.feedback("judgemessage.txt") or "").split()[:3] == ["in", "out", "ans"]


def test_an_output_that_is_a_file_is_not_copied(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, TESTLIB)
    validator.program("checker", 'echo "$2" >&2\n')
    (tmp_path / "out").write_bytes(b"out\n")
    files = [str(tmp_path / name) for name in ("input", "answer", "feedback")]
    with (tmp_path / "out").open("rb") as file:
        subprocess.run([str(tmp_path / "run"), *files], stdin=file, check=False)
    assert validator.feedback("judgemessage.txt") == "/dev/stdin"


def test_points_are_the_words_of_the_program_that_gives_them(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, BOTH)
    validator.program("interactor", "echo points 20 >&2\n")
    validator.program("checker", "echo points 5 >&2; exit 7\n")
    assert validator.ask("--points", "20") == 42 and validator.feedback("score.txt") == "5"


def on_stdout(text: str, code: int) -> str:
    return f"cat <<'END'\n{text}\nEND\nexit {code}\n"


def on_stderr(text: str, code: int) -> str:
    return f"cat <<'END' >&2\n{text}\nEND\nexit {code}\n"


# By the definitions for a protocol: what a checker does, the flags, the exit code, and the score for 20 points.
PROTOCOLS: dict[tuple[str, ...], list[tuple[str, int, str | None]]] = {
    (IOA,): [("kill -SEGV $$", 1, None)],
    (IOA, "-DPLAIN"): [
        ("exit 0", 42, None),
        *((f"exit {code}", 43 if code == 1 else 1, None) for code in (1, 2, 7, 40)),
    ],
    ('-DCHECKER="oai"', "-DPLAIN", "-DPEG"): [
        ('test "$(cat "$3")" = in || exit 2\nprintf "1\\n4\\n"\nexit 1', 42, "5"),
        (on_stdout("3\n10\n5", 1), 42, "6"),
        (on_stdout("found 5\n1\n4\n4\n1", 1), 42, "5"),
        (on_stdout("0\n4\n4\n4", 1), 43, None),
        (on_stdout("10\n x\n10\n10 y", 1), 43, None),
        (on_stdout("10 10\n10\nfound\n10", 1), 43, None),
        (on_stdout("-1\n1e1\n1.5", 1), 43, None),
        (on_stdout("4\n0\n4", 1), 43, None),
        (on_stdout("", 1), 43, None),
    ],
    (IOA, "-DCOCI"): [
        (on_stderr("partial 1/4", 7), 42, "5"),
        (on_stderr("dirt\npartial 1/4\npartial 4/4", 7), 42, "5"),
        (on_stderr("partial 4/4", 7), 42, None),
        (on_stderr("found partial 4/4", 7), 1, None),
        (on_stderr("points 20", 7), 1, None),
        (on_stderr("20\n20", 7), 1, None),
    ],
    (IOA, "-DPLAIN", "-DLQDOJ"): [
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
    (IOA, "-DTHEMIS"): [
        (on_stdout("well done\n0.25\n", 0), 42, "5"),
        (on_stdout("well done\n0.25\n", 5), 43, None),
        (on_stdout("\n1\nmore", 0), 42, None),
        (on_stdout("\n1\nmore", 5), 43, None),
        (on_stdout("wrong\n0.0", 0), 43, None),
        (on_stdout("0.25\n", 0), 1, None),
        (on_stdout("0.25\n", 5), 43, None),
        (on_stdout("0.25\nwell\n", 0), 1, None),
        (on_stdout("x\nnan\n", 0), 1, None),
    ],
    (IOA, "-DPERCENT"): [("echo points 25 >&2; exit 7", 42, "5")],
    (IOA, "-DSHARE"): [
        (f"echo points {points} >&2; exit 7", 42, score)
        for points, score in (("0.25", "5"), ("25", "5"), ("1", None), ("100", None))
    ],
}


@pytest.mark.parametrize(
    ("defines", "script", "code", "score"), [(defines, *row) for defines, rows in PROTOCOLS.items() for row in rows]
)
def test_protocols_of_checkers(defines, script, code, score, tmp_path, built) -> None:
    validator = Validator(tmp_path, built, defines)
    validator.program("checker", f"echo seen\n{script}\n" if "-DLQDOJ" in defines else f"{script}\n")
    assert validator.ask("--points", "20") == code, validator.stderr
    assert validator.feedback("score.txt") == score
    assert ("was ended by signal 11" in validator.stderr) == ("kill" in script)
    if "-DLQDOJ" in defines:
        assert "seen" in (validator.feedback("judgemessage.txt") or "")
    if "-DSHARE" in defines:
        assert validator.ask() == (43 if score else 42)


def test_a_checker_that_is_not_there_is_the_judges_fault(tmp_path, built) -> None:
    validator = Validator(tmp_path, built, TESTLIB)
    assert validator.ask() == 1 and "was ended by signal 6" in validator.stderr


CMS = (IOA, "-DCMS")
OUTCOME = ('-DCHECKER="iao"', "-DOUTCOME")
# The answer is the second file in these protocols.
ANSWER = '[ "$(cat "$2")" = ans ]'


@pytest.mark.parametrize(
    ("defines", "script", "flags", "code", "share", "score"),
    [
        (CMS, "echo ok >&2", (), 42, None, None),
        (CMS, "echo 0.0; echo translate:wrong >&2", (), 43, None, None),
        (CMS, "echo 1", (), 42, None, None),
        (CMS, "echo 0.25; echo 1", (), 42, "0.25", None),
        (CMS, "echo 1.00000", (), 42, None, None),
        (CMS, f'{ANSWER} && [ "$(cat "$3")" = out ] && echo 1 || echo 0', (), 42, None, None),
        (CMS, f"{ANSWER} && echo 0.5 && exit 0; echo 0", (), 42, "0.5", None),
        (CMS, f"{ANSWER} && exit 1; echo 1", (), 1, None, None),
        (CMS, "echo 3", (), 42, None, None),
        (CMS, "echo -1", (), 42, None, None),
        (CMS, "echo 1 of 3 words", (), 42, None, None),
        (CMS, "echo seen 3 words", (), 42, None, None),
        (CMS, "echo wrong >&2; exit 1", (), 43, None, None),
        (CMS, "echo points 0.25 >&2; exit 7", (), 42, "0.25", None),
        (CMS, "exit 41", (), 42, "0.25", None),
        (CMS, "echo points 0 >&2; exit 7", (), 43, None, None),
        (CMS, "echo points 1 >&2; exit 7", (), 42, None, None),
        (CMS, "echo points 20 >&2; exit 7", (), 1, None, None),
        (OUTCOME, "echo 1", (), 42, None, None),
        (OUTCOME, "echo 0", (), 43, None, None),
        (OUTCOME, "echo 0.5", (), 43, None, None),
        (OUTCOME, "echo 0.5", ("--any",), 42, None, None),
        (OUTCOME, "echo 0.5", ("--points", "20"), 42, None, "10"),
        (OUTCOME, "echo 1", ("--points", "20"), 42, None, None),
        (OUTCOME, "echo 0.25", ("--unbounded",), 42, None, "25"),
        (OUTCOME, f"{ANSWER} && echo 1 || echo 0", (), 42, None, None),
        (OUTCOME, "echo 2", (), 1, None, None),
        (OUTCOME, "echo nan", (), 1, None, None),
        (OUTCOME, "echo fine", (), 1, None, None),
        (OUTCOME, "echo 1; exit 1", (), 1, None, None),
        (OUTCOME, ":", (), 1, None, None),
    ],
)
def test_checkers_that_print_their_outcome(defines, script, flags, code, share, score, tmp_path, built) -> None:
    validator = Validator(tmp_path, built, defines)
    validator.program("checker", script + "\n")
    assert validator.ask(*flags) == code, validator.stderr
    assert (validator.feedback("score_multiplier.txt"), validator.feedback("score.txt")) == (share, score)


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
