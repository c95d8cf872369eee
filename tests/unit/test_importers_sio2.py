"""Packages of SIO2: groups by the names of tests, points and limits of config.yml, programs by their names."""

from pathlib import Path

import pytest

from judge.common.errors import PackageError
from judge.problems import importers
from judge.problems.importers import ImporterWords
from judge.problems.importers.making import UnmadeError
from judge.problems.package import Package, read_package
from tests.support.packages import ByteFiles, archive, folder, refused, run_wrapper

CPP = b"int main() {}\n"
NAMES = ("0", "1a", "1b", "1ocen", "2", "10")
ABC: ByteFiles = {
    "config.yml": b"title: Sum\ntime_limit: 2000\nmemory_limit: 65536\nscores: {1: 30, 2: 30, 10: 40}\n",
    **{f"in/abc{name}.in": name.encode() for name in NAMES},
    **{f"out/abc{name}.out": name.encode() for name in NAMES},
    "makefile.in": b"ID=abc\n",
    "prog/abc.cpp": CPP,
    "prog/abc2.py": b"",
    "prog/abc_ann.cpp": CPP,
    "prog/abcs1.cpp": CPP,
    "prog/abcb1.cpp": CPP,
    "prog/abcingen.cpp": CPP,
    "prog/abcinwer.cpp": CPP,
    "prog/oi.h": b"",
    "doc/abczad.pdf": b"%PDF-1.4",
    "doc/abczad-en.pdf": b"%PDF-1.4",
    "attachments/a.zip": b"x",
}


def read(tmp_path: Path, files: ByteFiles, **options: object) -> Package:
    return read_package(folder(tmp_path, files, "abc"), **options)  # type: ignore[arg-type]


def groups(package: Package) -> dict[str, tuple[float | None, list[str]]]:
    """The points and tests of each group with points."""
    table: dict[str, tuple[float | None, list[str]]] = {}
    for test in package.manifest.tests:
        table.setdefault(test.name.rpartition("/")[0], (None, []))[1].append(test.name.rpartition("/")[2])
    return table


def test_a_title_that_yaml_has_as_a_truth_value(tmp_path: Path) -> None:
    config = b"title: No\nextra_compilation_files: [on]\nextra_compilation_args: {cpp: [off]}\n"
    with pytest.raises(PackageError, match="extra_compilation_args: 'off' changes how submissions are compiled"):
        read(tmp_path / "a", {**ABC, "config.yml": config})
    with read(tmp_path / "b", {**ABC, "config.yml": b"title: No\n"}) as package:
        assert package.manifest.title == "No"


@pytest.mark.parametrize("kind", [folder, archive])
def test_a_whole_package(kind: object, tmp_path: Path) -> None:
    files = {f"abc/{path}": data for path, data in ABC.items()}
    with read_package(kind(tmp_path, files)) as package:  # type: ignore[operator]
        manifest = package.manifest
        assert (manifest.origin, manifest.title, manifest.name) == ("sio2", "Sum", "abc")
        assert (manifest.limits.cpu, manifest.limits.memory) == (2, 64 * 1024**2)
        assert [names for _, names in groups(package).values()] == [["0", "1ocen"], ["1a", "1b"], ["2"], ["10"]]
        assert sorted(package.submissions) == [
            "submissions/accepted/abc.cpp", "submissions/accepted/abc2.py", "submissions/accepted/abc_ann.cpp",
            "submissions/rejected/abcb1.cpp", "submissions/time_limit_exceeded/abcs1.cpp",
        ]  # fmt: skip
        notes = "\n".join(package.notes)
        assert "6 tests in 4 subtasks (min)" in notes and "1 attachment" in notes
        assert "prog/abcingen.cpp: makes inputs there" in notes and "prog/abcinwer.cpp: looks at inputs" in notes


def settings(package: Package) -> list[int]:
    """The points of the groups, by the yaml files of the package that was made."""
    import json
    import re

    assert package.manifest.package is not None
    files = json.loads(package.read(package.manifest.package))["files"]
    paths = sorted(path for path in files if re.fullmatch(r"data/secret/[^/]+/test_group.yaml", path))
    return [int(re.search(r"max_score: (\d+)", package.read(files[path]).decode())[1]) for path in paths]  # type: ignore[index]


def test_points_are_those_of_config_yml_or_equal_ones(tmp_path: Path) -> None:
    with read(tmp_path, ABC) as package:
        assert settings(package) == [30, 30, 40]
    with read(tmp_path / "2", {**ABC, "config.yml": b"title: Sum\n"}) as package:
        assert settings(package) == [33, 33, 34]
        notes = "\n".join(package.notes)
        assert "100 points in equal parts" in notes and "time_limit 10000 ms, which SIO2 has" in notes
    without = {path: data for path, data in ABC.items() if path != "config.yml"}
    tex = b"% \\RAM{1}\n\\title{The Sum}\n\\RAM{32}\n"
    with read(tmp_path / "3", {**without, "doc/abczad.tex": tex}) as package:
        assert package.manifest.title == "The Sum" and settings(package) == [33, 33, 34]
        assert package.manifest.limits.memory == 33 * 1024**2  # 33000 KiB


def test_groups_that_contain_others(tmp_path: Path) -> None:
    extra = b"subtask_dependencies: {2: [1]}\n"
    with read(tmp_path, {**ABC, "config.yml": ABC["config.yml"] + extra}) as package:
        assert package.manifest.task is not None
        assert [(subtask.name, subtask.points, subtask.tests) for subtask in package.manifest.task.subtasks][2] == (
            "2", 30, ["secret/1a", "secret/1b", "secret/2"],
        )  # fmt: skip


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        ({"prog/abcsoc.cpp": CPP}, "abcsoc.cpp: is an interactor of SIO2"),
        ({"prog/abcsoc.e": b"x"}, "abcsoc.e: is an interactor of SIO2"),
        ({"config.yml": b"library: abclib\n"}, "library: names what submissions are compiled with"),
        ({"config.yml": b"extra_execution_files: {py: [a.py]}\n"}, "extra_execution_files: names files"),
        ({"config.yml": b"extra_compilation_args: {cpp: [-DX]}\n"}, "extra_compilation_args: '-DX' changes how"),
        ({"config.yml": b"extra_compilation_args: {py: lib.py}\n", "prog/lib.py": b""}, "'lib.py' changes how"),
        ({"config.yml": b"extra_compilation_files: [a.h]\n"}, "extra_compilation_files: there is no prog/a.h"),
        ({"config.yml": b"extra_compilation_files: [a.cpp]\n", "prog/a.cpp": CPP}, "a.cpp would be compiled with"),
        ({"config.yml": b"scores: {1: 100}\n"}, "scores: group '2' has no points"),
        ({"config.yml": b"scores: {1: 30, 2: 30, 10: 40, 3: 1}\n"}, "scores: group '3' has no tests in in/"),
        ({"config.yml": b"scores: [1]\n"}, "scores: expected a mapping"),
        ({"config.yml": b"time_limits: {1: 1000}\n"}, "time_limits: tests have different ones"),
        ({"config.yml": b"memory_limits: {1a: 1000}\n"}, "memory_limits: tests have different ones"),
        ({"config.yml": b"time_limit: x\n"}, "time_limit: 'x' is not a number of ms"),
        ({"config.yml": b"subtask_dependencies: {2: 1}\n"}, "subtask_dependencies: expected lists"),
        ({"config.yml": b"subtask_dependencies: {2: [7]}\n"}, "subtask_dependencies: '7' is no group"),
        ({"in/abcx.in": b"", "out/abcx.out": b""}, "in/abcx.in: is not called as a test of this problem"),
        ({"prog/abcchk.java": b""}, "abcchk.java: is a checker that is no source"),
    ],
)
def test_refused(extra: ByteFiles, sentence: str, tmp_path: Path) -> None:
    assert sentence in refused(read, tmp_path, {**ABC, **extra})


def test_one_limit_for_all_by_option(tmp_path: Path) -> None:
    conf = b"time_limits: {1: 1000}\nmemory_limits: {2: 1000}\n"
    words = ImporterWords(memory=128, time_limit=3)
    with read(tmp_path, {**ABC, "config.yml": conf}, time_limit=3, options=words) as package:
        assert (package.manifest.limits.cpu, package.manifest.limits.memory) == (3, 128 * 1024**2)


def test_libraries_that_are_compiled_with_submissions(tmp_path: Path) -> None:
    conf = b"extra_compilation_args: {cpp: lib.cpp}\nextra_compilation_files: [lib.cpp, lib.h]\n"
    with read(tmp_path, {**ABC, "config.yml": conf, "prog/lib.cpp": CPP, "prog/lib.h": b""}) as package:
        assert package.manifest.package is not None
        files = package.read(package.manifest.package).decode()
        assert "include/cpp/lib.cpp" in files and "include/cpp/lib.h" in files and "include/c/lib.cpp" not in files


def test_outputs_are_made_by_the_program_that_is_called_as_the_problem(tmp_path: Path) -> None:
    files = {path: data for path, data in ABC.items() if path not in {"out/abc2.out", "out/abc10.out"}}
    with pytest.raises(UnmadeError) as caught:
        read(tmp_path, files)
    plan = caught.value.plan
    assert [step.output for test in plan.tests for step in test] == ["out/abc2.out", "out/abc10.out"]
    assert plan.programs["solution"].name == "prog/abc.cpp"
    plan.close()
    files = {path: data for path, data in files.items() if not path.startswith("prog/abc.") and path != "prog/abc2.py"}
    assert "out/abc2.out: is missing, and no prog/abc.cpp or the like makes it" in refused(read, tmp_path / "2", files)


def test_inputs_that_a_program_is_to_make(tmp_path: Path) -> None:
    bare = {path: data for path, data in ABC.items() if not path.startswith(("in/", "out/"))}
    for number, files in enumerate((bare, {**bare, "in/abc0.in": b"1", "out/abc0.out": b"1"})):
        with pytest.raises(PackageError, match=r"in: has no tests but examples; prog/abcingen.cpp makes them"):
            read(tmp_path / str(number), files)


@pytest.mark.parametrize(
    ("prints", "code", "part"),
    [
        ("OK\n", 42, None),
        ("OK\nfine\n100\n", 42, None),
        ("OK\nfine\n40\n", 42, "0.400000"),
        ("OK\nfine\n0\n", 43, None),
        ("OK\nfine\nx\n", 43, None),
        ("WRONG\nbad\n40\n", 43, None),
        ("", 1, None),
    ],
)
def test_what_a_checker_says(prints: str, code: int, part: str | None, tmp_path: Path) -> None:
    with read(tmp_path, {**ABC, "prog/abcchk.cpp": CPP}) as package:
        assert any("checker prog/abcchk.cpp, asked as SIO2 does" in note for note in package.notes)
        run = package.read(package.manifest.validators[0].files["run"])
    assert b"parts=yes" in run and b"parts=no" in Path(importers.__file__).with_name("sio2_wrapper.sh").read_bytes()
    exit_code, feedback = run_wrapper(tmp_path, run, f"printf '{prints}'")
    assert (exit_code, feedback.get("score_multiplier.txt")) == (code, part)


@pytest.mark.parametrize("name", ["abcfoo.in", "1.in"])
def test_other_directories_are_none(name: str, tmp_path: Path) -> None:
    files = {f"in/{name}": b"1", f"out/{name.replace('in', 'out')}": b"1", "prog/mine.cpp": CPP}
    with read_package(folder(tmp_path, files, "x"), time_limit=1) as package:
        assert package.manifest.origin == "directory"
