"""What programs of packages are by their names and annotations: solutions of each kind, generators, and neither."""

from pathlib import Path

import pytest

from judge.common.errors import PackageError
from judge.languages.table import load_table
from judge.model.messages import Result, TestResult, Verdict
from judge.problems.expectations import candidates, check, read_rules
from judge.problems.importers.making import UnmadeError
from judge.problems.package import Package, read_package
from tests.support.packages import ByteFiles, archive, folder

CPP = b"int main() {}\n"
PLAIN: ByteFiles = {"1.in": b"2\n", "1.ans": b"4\n", "2.in": b"3\n", "2.ans": b"6\n"}
TESTS: ByteFiles = {"tests/1.in": b"1\n", "tests/1.out": b"1\n", "Code/twin.py": b""}


def read(tmp_path: Path, files: ByteFiles, name: str = "twin") -> Package:
    return read_package(folder(tmp_path, files, name), time_limit=1)


# The name of a folder, the files beside its tests, and the submissions that are made of them.
SOLUTIONS: list[tuple[str, list[str], list[str]]] = [
    ("K", ["k.cpp", "helper.py", "notes.py"], ["accepted/k.cpp"]),
    ("twice", ["Twice.py", "helper.py", "notes.py"], ["accepted/Twice.py"]),
    ("twice", ["src-of/twice.java", "helper.py", "notes.py"], ["accepted/twice.java"]),
    ("twice", ["one.cpp", "two.cpp"], []),  # Of two it is not known whose tests they are.
    ("twice", ["grader.cpp"], []),
    ("twice", ["scripts/once.py"], []),
    ("twice", ["test.cpp"], []),
    ("twice", ["std.cpp", "other.cpp"], ["accepted/std.cpp"]),  # The one that says so is the solution.
    ("twice", ["judgesol_exact.cpp", "x.py"], ["accepted/judgesol_exact.cpp"]),
    ("twice", ["judge_solution.py", "x.py"], ["accepted/judge_solution.py"]),
    ("twice", ["judgesol2.java", "x.py"], ["accepted/judgesol2.java"]),
]


@pytest.mark.parametrize(("name", "files", "submissions"), SOLUTIONS)
def test_solutions_of_a_folder(name: str, files: list[str], submissions: list[str], tmp_path: Path) -> None:
    with read(tmp_path, {**PLAIN, **dict.fromkeys(files, b"")}, name) as package:
        assert set(package.submissions) == {f"submissions/{path}" for path in submissions}
        assert not any("the only program" in note for note in package.notes)


@pytest.mark.parametrize("name", ["code.cpp", "sub_11_42.py", "prog/mine.java"])
def test_the_only_program_is_a_solution(name: str, tmp_path: Path) -> None:
    with read(tmp_path, {**PLAIN, name: b"", "gen.py": b""}) as package:
        assert set(package.submissions) == {f"submissions/accepted/{name.rpartition('/')[2]}"}
        assert any(f"solution {name} as accepted, as it is the only program" in note for note in package.notes)


def test_a_program_beside_tests_of_several_problems_is_of_one_of_them(tmp_path: Path) -> None:
    with read(tmp_path, {"a.in": b"", "a.out": b"", "b.in": b"", "b.out": b"", "b.cpp": b""}, "x") as package:
        assert not package.submissions


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Code/x-wrong-ann.py", "wrong_answer"),
        ("Code/twin-wa-2.cpp", "wrong_answer"),
        ("Code/twin.wrong.py", "wrong_answer"),
        ("Code/twin wrong (1).py", "wrong_answer"),
        ("Code/TwinWrong.java", "wrong_answer"),
        ("Code/ann_wrongAnswer.cpp", "wrong_answer"),
        ("src/twin_slow_bob.cpp", "time_limit_exceeded"),
        ("src/twinTLE.cpp", "time_limit_exceeded"),
        ("src/twin-brute-force-2.cpp", "brute_force"),
        ("solutions/twin_rte_ann.c", "run_time_error"),
        ("solutions/twin-incorrect-x.c", "rejected"),
        ("solutions/sub1.cpp", "rejected"),
        ("solutions/sub2-small.cpp", "rejected"),
        ("solutions/20-percent-solution.cpp", "rejected"),
        ("solutions/sol_30pts.cpp", "rejected"),
        ("solutions/partial_sub1.py", "rejected"),
        ("solutions/solution_partial.py", "rejected"),
        ("solutions/100-points.cpp", "accepted"),
        ("solutions/points.cpp", "accepted"),
        ("solutions/brut.cpp", "brute_force"),
        ("solutions/solution_bf.cpp", "brute_force"),
        ("solutions/sol-bruteforce2.cpp", "brute_force"),
        ("solutions/solution-brute-tle.cpp", "time_limit_exceeded"),
        ("Code/other.py", "accepted"),
        ("Code/twin_gen.py", None),
        ("Code/sort_gen.cpp", None),
        ("code/Testcase Generator.cpp", None),
        ("src/TwinGen.java", None),
        ("src/twin-generator-2.cpp", None),
        ("src/case-generator.cpp", None),
        ("solutions/gen/random.py", None),
        ("Code/twiningen.cpp", None),
        ("src/twin_val.py", None),
        ("src/twin_checker.py", None),
        ("Code/validators/twin.py", None),
        ("Code/tools/convert.py", None),
    ],
)
def test_programs_by_words_anywhere_in_their_names(name: str, kind: str | None, tmp_path: Path) -> None:
    with read(tmp_path, {**TESTS, name: CPP}) as package:
        solutions = [path for path in package.submissions if path != "submissions/accepted/twin.py"]
        assert [path.split("/")[1] for path in solutions] == ([kind] if kind else [])


@pytest.mark.parametrize("name", ["K.md", "statement/k.tex", "docs/K.pdf", "k.en.html"])
def test_a_statement_that_is_called_as_its_folder(name: str, tmp_path: Path) -> None:
    with read(tmp_path, {**PLAIN, name: b"x"}, "K") as package:
        (statement,) = package.manifest.statements
        assert statement.main == f"problem.en.{name.rpartition('.')[2]}"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("CORRECT", "accepted"),
        ("wrong-answer", "wrong_answer"),
        ("TIMELIMIT", "time_limit_exceeded"),
        ("RUN-ERROR", "mixed"),
        ("CORRECT, TIMELIMIT", "mixed"),
    ],
)
@pytest.mark.parametrize("name", ["ann.java", "Code/ann.cpp", "wrong_ann.py"])
def test_annotations_in_directories(words: str, kind: str, name: str, tmp_path: Path) -> None:
    source = f"// @EXPECTED_RESULTS@: {words}\n".encode()
    files = {**TESTS, "domjudge-problem.ini": b"timelimit='2'\n", name: source}
    for root in (folder(tmp_path, files, "twin"), archive(tmp_path, files)):
        with read_package(root) as package:
            solutions = [path for path in package.submissions if path != "submissions/accepted/twin.py"]
            assert [path.split("/")[1] for path in solutions] == [kind]
            assert all(candidate.rules for candidate in candidates(package, load_table()))


# --- what legacy folders ask for ----------------------------------------------------------------------------------

LEGACY: ByteFiles = {
    "problem.yaml": b"name: X\nlimits: {time_limit: 1}\n",
    "data/secret/1.in": b"1\n",
    "data/secret/1.ans": b"1\n",
    "submissions/wrong_answer/a.py": b"",
}


def judged(package: Package, verdict: Verdict, *tests: Verdict) -> str:
    (rule,) = candidates(package, load_table())[0].rules
    results = [TestResult(name=f"secret/{number}", verdict=result) for number, result in enumerate(tests)]
    return check(rule, verdict, Result(tests=results))


@pytest.mark.parametrize("version", ["", "problem_format_version: legacy\n", "problem_format_version: legacy-icpc\n"])
def test_a_wrong_answer_of_legacy_is_the_verdict_of_the_whole(version: str, tmp_path: Path) -> None:
    with read(tmp_path, {**LEGACY, "problem.yaml": version.encode() + LEGACY["problem.yaml"]}) as package:
        assert judged(package, Verdict.WA, Verdict.WA, Verdict.TLE, Verdict.RTE) == ""
        assert judged(package, Verdict.TLE, Verdict.TLE, Verdict.WA) == "the verdict is TLE, not OLE or WA"
        assert judged(package, Verdict.AC, Verdict.AC) == "the verdict is AC, not OLE or WA"


def test_a_wrong_answer_of_2025_09_is_one_of_each_test(tmp_path: Path) -> None:
    yaml = b"problem_format_version: 2025-09\n" + LEGACY["problem.yaml"] + b"uuid: 0\n"
    with read(tmp_path, {**LEGACY, "problem.yaml": yaml}) as package:
        assert "test secret/1 is TLE" in judged(package, Verdict.WA, Verdict.WA, Verdict.TLE)


def test_submissions_yaml_says_otherwise_of_legacy(tmp_path: Path) -> None:
    yaml = b"wrong_answer: {permitted: [AC, WA], required: [WA]}\n"
    with read(tmp_path, {**LEGACY, "submissions/submissions.yaml": yaml}) as package:
        assert not next(rule for rule in read_rules(package) if rule.glob == "wrong_answer").exact
        assert "test secret/1 is TLE" in judged(package, Verdict.WA, Verdict.WA, Verdict.TLE)


# --- the only program of a task -----------------------------------------------------------------------------------

CMS: ByteFiles = {
    "task.yaml": b"name: t\ntime_limit: 1\nmemory_limit: 64\nn_input: 1\n",
    "input/input0.txt": b"1\n",
    "output/output0.txt": b"1\n",
}


def test_the_only_program_of_a_task_is_said_to_be_that(tmp_path: Path) -> None:
    with read(tmp_path, {**CMS, "sol/ann.cpp": CPP}) as package:
        assert list(package.submissions) == ["submissions/accepted/ann.cpp"]
        assert any("as it is the only program; its name says nothing" in note for note in package.notes)
    with read(tmp_path / "2", {**CMS, "sol/solution.cpp": CPP}) as package:
        assert not any("the only program" in note for note in package.notes)


@pytest.mark.parametrize("name", ["random_placement", "wrong", "sol_40", "greedy-2", "bruteforce", "t_tle"])
def test_the_only_program_whose_name_says_that_it_is_not_right(name: str, tmp_path: Path) -> None:
    with read(tmp_path, {**CMS, f"sol/{name}.cpp": CPP}) as package:
        assert not package.submissions


def test_the_only_program_of_a_task_makes_no_answers(tmp_path: Path) -> None:
    files = {path: data for path, data in CMS.items() if not path.startswith("output/")}
    with pytest.raises(PackageError, match=r"has no answers, and sol/ann.cpp, the only program, is not called as"):
        read(tmp_path, {**files, "sol/ann.cpp": CPP})
    with pytest.raises(UnmadeError):
        read(tmp_path / "2", {**files, "sol/solution.cpp": CPP})
