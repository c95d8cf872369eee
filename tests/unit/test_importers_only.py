"""Plain directories in which a name of the problem, or nothing but being alone, tells what a file is."""

from __future__ import annotations

from pathlib import Path

import pytest

from judge.problems.package import read_package
from tests.support.packages import ByteFiles, folder

TESTS: ByteFiles = {"1.in": b"2\n", "1.ans": b"4\n", "2.in": b"3\n", "2.ans": b"6\n"}


def solutions(where: Path) -> tuple[set[str], list[str]]:
    with read_package(where, time_limit=1.0) as package:
        return {path.removeprefix("submissions/") for path in package.submissions}, package.notes


@pytest.mark.parametrize("name", ["K/k.cpp", "twice/Twice.py", "twice/src-of/twice.java"])
def test_a_solution_that_is_called_as_its_folder(name: str, tmp_path: Path) -> None:
    top, _, path = name.partition("/")
    found, _ = solutions(folder(tmp_path, {**TESTS, path: b"", "helper.py": b"", "notes.py": b""}, top))
    assert found == {f"accepted/{path.rpartition('/')[2]}"}


@pytest.mark.parametrize("name", ["K.md", "statement/k.tex", "docs/K.pdf", "k.en.html"])
def test_a_statement_that_is_called_as_its_folder(name: str, tmp_path: Path) -> None:
    with read_package(folder(tmp_path, {**TESTS, name: b"x"}, "K"), time_limit=1.0) as package:
        assert [one.main for one in package.manifest.statements] == [f"problem.en.{name.rpartition('.')[2]}"]


@pytest.mark.parametrize("name", ["code.cpp", "sub_11_42.py", "prog/mine.java"])
def test_the_only_program_is_a_solution(name: str, tmp_path: Path) -> None:
    found, notes = solutions(folder(tmp_path, {**TESTS, name: b"", "gen.py": b""}, "twice"))
    assert found == {f"accepted/{name.rpartition('/')[2]}"}
    assert any(f"solution {name} as accepted, as it is the only program" in note for note in notes)


@pytest.mark.parametrize(
    "extra",
    [
        {"one.cpp": b"", "two.cpp": b""},  # Of two it is not known whose tests they are.
        {"grader.cpp": b""},
        {"scripts/once.py": b""},
        {"test.cpp": b""},
        {"std.cpp": b"", "other.cpp": b""},  # The one that says so is the solution.
    ],
)
def test_what_is_not_the_only_program_or_decides_is_none(extra: ByteFiles, tmp_path: Path) -> None:
    found, notes = solutions(folder(tmp_path, {**TESTS, **extra}, "twice"))
    assert found == ({"accepted/std.cpp"} if "std.cpp" in extra else set())
    assert not any("the only program" in note for note in notes)


def test_a_program_beside_tests_of_several_problems_is_of_one_of_them(tmp_path: Path) -> None:
    files: ByteFiles = {"a.in": b"", "a.out": b"", "b.in": b"", "b.out": b"", "b.cpp": b""}
    assert solutions(folder(tmp_path, files, "x"))[0] == set()


@pytest.mark.parametrize("name", ["judgesol_exact.cpp", "judge_solution.py", "judgesol2.java"])
def test_solutions_of_judges(name: str, tmp_path: Path) -> None:
    assert solutions(folder(tmp_path, {**TESTS, name: b"", "x.py": b""}, "twice"))[0] == {f"accepted/{name}"}


@pytest.mark.parametrize(
    ("name", "folder_of_it"),
    [
        ("20-percent-solution.cpp", "rejected"),
        ("sol_30pts.cpp", "rejected"),
        ("partial_sub1.py", "rejected"),
        ("solution_partial.py", "rejected"),
        ("100-points.cpp", "accepted"),
        ("points.cpp", "accepted"),
        ("brut.cpp", "brute_force"),
        ("solution_bf.cpp", "brute_force"),
        ("sol-bruteforce2.cpp", "brute_force"),
        ("solution-brute-tle.cpp", "time_limit_exceeded"),
    ],
)
def test_solutions_that_are_slow_or_for_a_part_of_the_points(name: str, folder_of_it: str, tmp_path: Path) -> None:
    files: ByteFiles = {**TESTS, f"solutions/{name}": b"", "solutions/main.cpp": b""}
    assert solutions(folder(tmp_path, files, "twice"))[0] == {f"{folder_of_it}/{name}", "accepted/main.cpp"}
