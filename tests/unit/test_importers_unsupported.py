"""Packages of systems whose formats are not imported are refused, and `--from directory` takes their tests."""

from pathlib import Path

import pytest

from judge.problems.importers import ImporterWords
from judge.problems.package import read_package
from tests.support.packages import ByteFiles, archive, folder, refusal

PAIR: ByteFiles = {"1.in": b"3\n", "1.out": b"9\n"}
CASES: ByteFiles = {"cases/1.in": b"3\n", "cases/1.out": b"9\n"}
SPEC = b"#include <tcframe/spec.hpp>\nclass ProblemSpec : public BaseProblemSpec {};\n"
# The name of each format, the file by which it is recognised, and a package.
UNSUPPORTED: list[tuple[str, str, ByteFiles]] = [
    ("BOCA", "description/problem.info", {
        "description/problem.info": b"fullname=B\n", "limits/cpp": b"echo 2\n",
        "input/B_1": b"3\n", "output/B_1": b"9\n",
    }),
    ("Rime", "tests/TESTSET", {
        "PROBLEM": b"problem(id='B')\n", "tests/TESTSET": b"cxx_generator(src='g.cc')\n",
        "tests/1.in": b"3\n", "tests/1.diff": b"9\n",
    }),
    ("Rime", "PROBLEM", {**PAIR, "PROBLEM": b"problem(id='B')\n", "right/SOLUTION": b"cxx_solution(src='a.cc')\n"}),
    ("tcframe", "spec.cpp", {"tc/x_1.in": b"3\n", "tc/x_1.out": b"9\n", "spec.cpp": SPEC}),
    ("omegaUp", "testplan", {**CASES, "testplan": b"1 100\n"}),
    ("omegaUp", "settings.json", {**CASES, "settings.json": b"{}"}),
    ("omegaUp", "statements/es.markdown", {**CASES, "statements/es.markdown": b"# B\n"}),
]  # fmt: skip


@pytest.mark.parametrize("kind", [folder, archive])
@pytest.mark.parametrize(("name", "path", "files"), UNSUPPORTED)
def test_a_package_is_refused_by_name_and_its_tests_are_imported_on_request(
    tmp_path: Path, name: str, path: str, files: ByteFiles, kind: object
) -> None:
    root = kind(tmp_path, files)  # type: ignore[operator]
    sentence = f"{path}: belongs to a package of {name}, a format that is not imported; give --from directory"
    assert sentence in refusal(root)
    with read_package(root, options=ImporterWords("directory"), time_limit=1) as package:
        assert len(package.manifest.tests) == 1


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("Rime", {"PROBLEM": b"problem(id='B')\n", "tests/TESTSET": b"", "tests/1.in": b"3\n"}),
        ("tcframe", {"spec.cpp": SPEC}),
        ("omegaUp", {"cases/1.in": b"3\n", "settings.json": b"{}"}),
    ],
)
def test_a_package_whose_tests_are_not_made_yet_is_refused_by_name(tmp_path: Path, name: str, files: ByteFiles) -> None:
    assert f"belongs to a package of {name}, a format that is not imported" in refusal(folder(tmp_path, files, "x"))


@pytest.mark.parametrize(
    "files",
    [
        {**PAIR, "PROBLEM": b"Add the numbers.\n"},
        {**PAIR, "spec.cpp": b"int main() {}\n"},
        {**PAIR, "settings.json": b"{}"},
        {**PAIR, "statements/es.markdown": b"# B\n"},
    ],
)
def test_a_directory_with_similar_names_is_imported(tmp_path: Path, files: ByteFiles) -> None:
    with read_package(folder(tmp_path, files, "x"), time_limit=1) as package:
        assert len(package.manifest.tests) == 1


@pytest.mark.parametrize("name", ["solutions/input.mjs", "solutions/in.hs"])
def test_sources_are_no_tests(tmp_path: Path, name: str) -> None:
    with read_package(folder(tmp_path, {**PAIR, name: b"x\n"}, "x"), time_limit=1) as package:
        assert len(package.manifest.tests) == 1
