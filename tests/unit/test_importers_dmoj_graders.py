"""Problems of DMOJ whose submissions do not run alone: graders compiled with them, managers, graders in Python."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from judge.executor.slot.program import included, plan
from judge.languages.table import load_table
from judge.model.messages import Limits, SourceFile, Submission
from judge.model.problem import IoiTask, ProblemType
from judge.problems.importers.dmoj import graders
from judge.problems.package import Package
from tests.support.packages import ByteFiles, refused
from tests.unit.test_importers_dmoj import CASES, PLAIN, ask, load, unpacked, validator_of

CPP = b"int main() {}\n"
SIGNATURE = "signature_grader: {entry: handler.cpp, header: header.h}\n"
FILES: ByteFiles = {**PLAIN, "handler.cpp": b'#include "header.h"\nint main(){}', "header.h": b"int f();"}


def task_of(package: Package) -> IoiTask:
    assert package.manifest.task is not None
    return package.manifest.task


# --- graders that are compiled with submissions ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "before"),
    [
        ("", '#include "header.h"\n#define main main_of_the_submission\n'),
        (", allow_main: true", '#include "header.h"\n'),
    ],
)
def test_text_before_the_source_of_submissions(key: str, before: str, tmp_path: Path) -> None:
    package = load(tmp_path, SIGNATURE.replace("}", key + "}") + CASES, FILES)
    task = task_of(package)
    assert (task.define, task.before, task.entry, task.source) == ("SIGNATURE_GRADER", before, "", "")
    assert {language: set(files) for language, files in package.manifest.include.items()} == {
        "cpp": {"handler.cpp", "header.h"}
    }
    assert package.manifest.languages == ["cpp"]


@pytest.mark.parametrize("language", ["c11", "cpp17", "cpp17-clang"])
def test_sources_in_c_and_cpp_keep_their_line_numbers(language: str) -> None:
    table = load_table()
    if language not in table:
        pytest.skip(f"there is no row {language}")
    suffix = ".c" if language.startswith("c1") else ".cpp"
    files = [SourceFile.of(f"a{suffix}", b"\xef\xbb\xbfint f;\n"), SourceFile.of("b.h", b"int g;\n")]
    task = IoiTask(before="#define main other\n")
    program = plan(Submission(language=language, files=files), Limits(), table, {f"x{suffix}": b"int main;"}, task)
    assert (program.files["b.h"], program.files[f"x{suffix}"]) == (b"int g;\n", b"int main;"), (
        "those of others, and headers"
    )
    assert program.files[f"a{suffix}"] == b"#define main other\n#line 1\nint f;\n"


def test_sources_in_other_languages_stay_as_they_are() -> None:
    program = plan(Submission(language="python3", source="x = 1\n"), Limits(), load_table(), {}, IoiTask(before="#x\n"))
    assert list(program.files.values()) == [b"x = 1\n"]


HANDLERS: ByteFiles = {
    **FILES,
    "handler.java": b"public class Handler { public static void main(String[] a) { new Solution().f(); } }",
    "grade it.py": b"import _submission\nprint(_submission.f())\n",
}


@pytest.mark.parametrize("java", ["{entry: handler.java}", "handler.java"])
def test_graders_in_java_and_python(java: str, tmp_path: Path) -> None:
    init = SIGNATURE.replace("}", f", java: {java}, python: {{entry: grade it.py}}}}")
    package = load(tmp_path, init + CASES, HANDLERS)
    task, table = task_of(package), load_table()
    assert (task.entry, task.source) == ("Handler", "_submission")
    assert package.manifest.languages == ["cpp", "java", "python3"]
    local: dict[str, str] = {}
    for number, sha in enumerate(sha for files in package.manifest.include.values() for sha in files.values()):
        (tmp_path / f"blob{number}").write_bytes(package.read(sha))
        local[sha] = str(tmp_path / f"blob{number}")
    for language, source, names, last in (
        ("python3", "def f(): return 7\n", {"_submission.py", "Handler.py"}, "/box/Handler.py"),
        ("java", "public class Solution { void f() {} }", {"Solution.java", "Handler.java"}, "Handler"),
    ):
        include = included(package.manifest, language, local, table)
        program = plan(Submission(language=language, source=source), Limits(), table, include, task)
        assert (set(program.files), program.run[-1]) == (names, last)


def test_a_grader_in_java_that_is_called_as_submissions_are() -> None:
    grader = b"public class Main { public static void main(String[] a) { new Solution().f(); } }"
    submission = Submission(language="java", source="class Solution { void f() {} }")
    program = plan(submission, Limits(), load_table(), {"Main.java": grader}, IoiTask(entry="Main"))
    assert program.files == {"Submission.java": b"class Solution { void f() {} }", "Main.java": grader}
    assert program.run[-1] == "Main"


def test_graders_in_python_alone_and_beside_a_main(tmp_path: Path) -> None:
    alone = load(tmp_path / "a", "signature_grader: {python: {entry: 1.py}}\n" + CASES, {**PLAIN, "1.py": b""})
    assert (task_of(alone).entry, set(alone.manifest.include["python3"])) == ("handler", {"handler.py"})
    init = SIGNATURE.replace("}", ", allow_main: yes, java: handler.java, python: grade it.py}")
    beside = load(tmp_path / "b", init + CASES, HANDLERS)
    assert (task_of(beside).entry, task_of(beside).source) == ("", "")
    assert set(beside.manifest.include["python3"]) == {"_lib.py"}
    assert set(beside.manifest.include["java"]) == {"Handler.java"}


# --- managers ------------------------------------------------------------------------------------------------------

MANAGER = "communication: {manager: {files: manager.cpp}, num_processes: 2, type: cms}\n"


def test_managers(tmp_path: Path) -> None:
    files = {**FILES, "manager.cpp": CPP}
    package = load(tmp_path / "cms", MANAGER + CASES, files)
    task = task_of(package)
    assert (task.kind, task.processes, task.io, task.writes_first) == ("communication", 2, "std", False)
    assert not package.manifest.validators and not any(test.flags for test in package.manifest.tests)
    signed = MANAGER.replace("}\n", ", signature: {entry: handler.cpp, header: header.h}}\n") + CASES
    assert "#define main" in task_of(load(tmp_path / "signed", signed, files)).before
    older = MANAGER.replace("}\n", ", entry: handler.cpp, header: header.h}\n") + CASES
    assert set(load(tmp_path / "older", older, files).manifest.include["cpp"]) == {"handler.cpp", "header.h"}


@pytest.mark.parametrize(("code", "outcome"), [(0, "1"), (1, "0"), (2, None)])
def test_a_manager_that_says_it_by_its_exit_code(code: int, outcome: str | None, tmp_path: Path) -> None:
    files = {**PLAIN, "manager.cpp": b"int main() { return %d; }\n" % code}
    with load(tmp_path, MANAGER.replace(", type: cms", "") + CASES, files) as package:
        manager = task_of(package).manager
        assert manager is not None
        for name, sha in manager.files.items():
            (tmp_path / name).write_bytes(package.read(sha))
    subprocess.run(["sh", "build"], cwd=tmp_path, check=True)
    process = subprocess.run(["sh", str(tmp_path / "run"), "a", "b"], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout.strip()) == ((0, outcome) if outcome else (1, ""))


# --- graders in Python ---------------------------------------------------------------------------------------------

GUESS = b"""import os, sys
from dmoj.graders import InteractiveGrader
from dmoj.graders.interactive import WrongAnswer
from dmoj.result import CheckerResult
from dmoj.utils.unicode import utf8text

print('started', len(sys.argv))

class Grader(InteractiveGrader):
    def interact(self, case, interactor):
        secret, asked = int(case.input_data()), 0
        while True:
            guess = interactor.readint(1, 100)
            asked += 1
            if guess == secret:
                interactor.writeln('Correct!')
                break
            interactor.writeln('Higher' if guess < secret else 'Lower')
        if asked > 7:
            raise WrongAnswer('too many')
        return CheckerResult(True, case.points / asked, utf8text(case.output_data()))
"""


def test_a_grader_that_talks(tmp_path: Path) -> None:
    package = load(tmp_path / "x", "custom_judge: guess.py\nunbuffered: true\n" + CASES, {**PLAIN, "guess.py": GUESS})
    assert ProblemType.INTERACTIVE in package.manifest.type
    assert [test.flags for test in package.manifest.tests] == [["--points", "40"], ["--points", "60"]]
    assert set(validator_of(package).files) > {"__main__.py", "dmoj_grader.py", "dmoj/graders/interactive.py"}


@pytest.mark.parametrize(
    ("talk", "flags", "expected"),
    [
        (b"7\n", ["--points", "40"], (42, "")),
        (b"50\n7\n", ["--points", "40"], (42, "20")),
        (b"50\n7\n", ["--points", "80", "--times", "2"], (42, "40")),
        (b"50\n7\n", ["--any"], (42, "")),
        (b"7\n", [], (42, "")),
        (b"50\n7\n", [], (43, "")),
        (b"50\n", ["--points", "40"], (43, "")),
        (b"1\n2\n3\n4\n5\n6\n8\n7\n", ["--points", "40"], (43, "")),
        (b"0\n", ["--points", "40"], (43, "")),
        (b"x\n", ["--points", "40"], (43, "")),
        (b"", ["--points", "40"], (43, "")),
    ],
)
def test_verdicts_of_a_talking_grader(talk: bytes, flags: list[str], expected: tuple[int, str], tmp_path: Path) -> None:
    root = unpacked(tmp_path, "custom_judge: guess.py\n" + CASES, {**PLAIN, "guess.py": GUESS})
    code, score = ask(root, talk, b"the end\n", *flags)
    assert (code, score if score.replace(".", "").isdecimal() else "") == expected


def test_a_grader_in_two_processes_that_wait_for_each_other(tmp_path: Path) -> None:
    root = unpacked(tmp_path, "custom_judge: guess.py\n" + CASES, {**PLAIN, "guess.py": GUESS})
    for name, text in (("input", "73\n"), ("answer", "")):
        (root / name).write_text(text)
    (root / "feedback").mkdir()
    main = str(root / "output_validator/__main__.py")
    command = [sys.executable, main, *(str(root / name) for name in ("input", "answer", "feedback"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as talk:
        assert talk.stdin is not None and talk.stdout is not None
        low, high, reply = 1, 100, b""
        while reply != b"Correct!\n":
            middle = (low + high) // 2
            talk.stdin.write(b"%d\n" % middle)
            talk.stdin.flush()
            reply = talk.stdout.readline()
            assert reply in {b"Correct!\n", b"Higher\n", b"Lower\n"}, "what the grader prints itself goes elsewhere"
            low, high = (middle + 1, high) if reply == b"Higher\n" else (low, middle - 1)
        assert talk.stdout.read() == b""
        assert talk.wait(30) == 43, "a part of the points is wrong without points"


def test_a_grader_that_fails_is_the_judges_fault(tmp_path: Path) -> None:
    source = GUESS.replace(b"int(case.input_data())", b"1 // 0")
    root = unpacked(tmp_path, "custom_judge: guess.py\n" + CASES, {**PLAIN, "guess.py": source})
    assert ask(root, b"7\n", b"")[0] == 1


HEAD = "from dmoj.graders.interactive import InteractiveGrader as I, InteractiveGrader\n"
TALKS = "class Grader(InteractiveGrader):\n def interact(self, case, talk):\n  "


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (TALKS + "return talk.readint() == self.limit", ""),
        ("class Grader(x.InteractiveGrader):\n limit = 3\n def interact(self, *rest): return True", ""),
        ("if True:\n class Grader(InteractiveGrader):\n  def interact(self, case, talk): return case.points", ""),
        (TALKS + "talk.process.kill()", "asks for talk.process"),
        (TALKS + "return case.batch", "asks for case.batch"),
        (TALKS + "return len(self.source) < 9", "asks for self.source"),
        (TALKS + "global count\n  count += 1", "keeps count from one case to the next"),
        ("import numpy\n" + TALKS + "pass", "needs the module 'numpy'"),
        ("from . import x\n" + TALKS + "pass", "needs the module '.'"),
        ("from dmoj.result import Result\n" + TALKS + "pass", "needs 'Result' of dmoj.result"),
        ("from dmoj.config import x\n" + TALKS + "pass", "needs the module 'dmoj.config'"),
        (TALKS + "pass\n def check_result(self, case, result): pass", "runs submissions in its own way (check_result)"),
        ("class Grader(InteractiveGrader):\n pass", "runs submissions in its own way (without interact)"),
        ("class Grader(StandardGrader):\n def grade(self, case): pass", "is no InteractiveGrader"),
        ("def Grader(InteractiveGrader): pass", "is no InteractiveGrader"),
        ("print 1", "is not written in Python 3"),
    ],
)
def test_graders_in_python_that_can_run_here(source: str, reason: str) -> None:
    assert graders.why_not(HEAD + source) == reason


def test_a_grader_that_talks_to_a_function(tmp_path: Path) -> None:
    init = "custom_judge: guess.py\n" + SIGNATURE + CASES
    package = load(tmp_path, init, {**FILES, "guess.py": GUESS})
    assert task_of(package).define == "SIGNATURE_GRADER" and package.manifest.validators


@pytest.mark.parametrize(
    ("names", "submissions"),
    [
        (["solution.cpp", "brute.cpp"], {"submissions/accepted/solution.cpp"}),
        (["Sol.PY"], {"submissions/accepted/Sol.PY"}),
        (["solution.cpp", "submissions/wrong_answer/a.cpp"], {"submissions/wrong_answer/a.cpp"}),
        (["submissions/naive.cpp", "x/solution.cpp"], set()),
    ],
)
def test_a_solution_beside_init(names: list[str], submissions: set[str], tmp_path: Path) -> None:
    init = "time_limit: 1\n" + CASES
    assert set(load(tmp_path, init, {**PLAIN, **dict.fromkeys(names, CPP)}).submissions) == submissions


def test_points_of_a_checker_in_percent(tmp_path: Path) -> None:
    init = (
        "checker: {name: bridged, args: {files: c.cpp, type: KIND, treat_checker_points_as_percentage: true}}\n" + CASES
    )
    files = {**PLAIN, "c.cpp": b'#include "testlib.h"\nint main() { quitp(1); }\n'}
    package = load(tmp_path / "a", init.replace("KIND", "testlib"), files)
    assert "-DPERCENT" in package.read(validator_of(package).files["build"]).decode()
    assert package.manifest.tests[0].flags == ["--points", "40"]
    assert "is for type testlib" in refused(load, tmp_path / "b", init.replace("KIND", "coci"), files)


# --- what is refused -------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[str, str]] = {
    "no grader": ("signature_grader: {header: header.h}\n", "signature_grader: expected a mapping with entry and"),
    "a slip": ("signature_grader: {entry: handler.cpp, heade: header.h}\n", "unknown key 'heade'; did you mean 'head"),
    "no file": ("signature_grader: {entry: [handler.cpp]}\n", "signature_grader: entry: expected the name of a file"),
    "no file in Java": ("signature_grader: {java: {entry: 3}}\n", "java: entry: expected the name of a file"),
    "an absent file": ("signature_grader: {entry: no.cpp}\n", "no.cpp: is named by the package, but is not in it"),
    "no manager": ("communication: {num_processes: 2}\n", "communication: expected a mapping with manager and its"),
    "many processes": (MANAGER.replace("2", "33"), "communication: num_processes: must be from 1 to 32"),
    "an odd type": (MANAGER.replace("cms", "testlib"), "type: 'testlib' is none of cms, default"),
    "flags": (MANAGER.replace("files:", "flags: [-x], files:"), "communication: manager: 'flags' cannot be converted"),
    "several sources": (MANAGER.replace("manager.cpp", "[manager.cpp, handler.cpp]"), "files: is in several sources"),
    "a checker": (MANAGER + "checker: floats\n", "checker: the manager of a communication task does this; remove it"),
    "files": (MANAGER + "file_io: {input: a, output: b}\n", "file_io: the manager of a communication task does this"),
    "a custom grader": ("custom_judge: odd.py\n", "'odd.py' is a program for DMOJ's own judge that is no I"),
    "no custom grader": ("custom_judge: [x]\n", "custom_judge: expected the name of a file"),
    "outputs of a grader": ("output_only: true\n" + SIGNATURE, "output_only: there is no program that signature_"),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_refused(fault: str, tmp_path: Path) -> None:
    init, sentence = REFUSED[fault]
    files: dict[str, Any] = {**FILES, "manager.cpp": CPP, "odd.py": b"class Grader: pass\n"}
    assert sentence in refused(load, tmp_path, init + CASES, files)


def test_an_interactor_decides_before_a_checker(tmp_path: Path) -> None:
    init = "interactive: {files: i.cpp}\nchecker: {name: floats}\n" + CASES
    package = load(tmp_path, init, {**PLAIN, "i.cpp": CPP})
    assert any("checker: the interactor decides" in note for note in package.notes)
