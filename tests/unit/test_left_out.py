"""Files that are no part of a package by their names are named, if somebody may have meant them."""

import tarfile
from pathlib import Path

import pytest

from judge.problems.importers import open_package_tree
from judge.problems.reading.checks import check_package
from tests.support.packages import archive, folder

BASE = {
    "problem.yaml": b"name: Minus\nlimits: {time_limit: 1}\n",
    "data/secret/1.in": b"1\n",
    "data/secret/1.ans": b"1\n",
    "submissions/accepted/a.sh": b"cat\n",
}
MEANT = {
    ".5.in": "begins with '.'",
    ".hidden/1.in": "begins with '.'",
    "5.in~": "ends with '~'",
    ".1.in.swp": "begins with '.'",
    "#.in~": "ends with '~'",
}
RUBBISH = (".DS_Store", "._1.in", "__MACOSX/1.in", "__pycache__/a.pyc", "Thumbs.db", "desktop.ini", ".gitignore")


def pack(tmp_path: Path, files: dict[str, bytes], kind: str) -> Path:
    if kind == "zip":
        return archive(tmp_path, files, "minus/", "minus.zip")
    root = folder(tmp_path, files, "minus")
    if kind == "folder":
        return root
    with tarfile.open(tmp_path / "minus.tar", "w") as file:
        file.add(root, "minus")
    return tmp_path / "minus.tar"


def checked(path: Path) -> list[str]:
    return [f"{finding.level}: {finding.text}" for finding in check_package(path).findings.all]


KINDS = pytest.mark.parametrize("kind", ["folder", "zip", "tar"])
FOLDERS = pytest.mark.parametrize("place", ["data/secret", "data/sample", "submissions/accepted", "include"])


@KINDS
@FOLDERS
@pytest.mark.parametrize("name", sorted(MEANT))
def test_a_hidden_file_or_a_backup_is_named(tmp_path, kind, place, name):
    lines = checked(pack(tmp_path, {**BASE, f"{place}/{name}": b"1\n"}, kind))
    first = name.split("/")[0]
    assert any(line.startswith("warning: ") and f"/{place}/{first}: is left out" in line and MEANT[name] in line
               for line in lines), lines  # fmt: skip


@KINDS
@pytest.mark.parametrize("name", RUBBISH)
def test_rubbish_of_tools_is_not_named(tmp_path, kind, name):
    assert not any("left out" in line for line in checked(pack(tmp_path, {**BASE, f"data/secret/{name}": b""}, kind)))


@KINDS
def test_a_test_whose_name_begins_with_a_minus_is_a_test(tmp_path, kind):
    files = {**BASE, "data/secret/-1.in": b"-1\n", "data/secret/-1.ans": b"-1\n"}
    result = check_package(pack(tmp_path, files, kind))
    assert result.package is not None
    assert [test.name for test in result.package.manifest.tests] == ["secret/-1", "secret/1"]


@KINDS
@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["-1"], "data/secret/-1.in: begins with '-'; the format wants a letter or a digit first"),
        (["-a/1", "-a/2"], "data/secret/-a: begins with '-'; the format wants a letter or a digit first"),
        (["a/-b/1"], "data/secret/a/-b: begins with '-'; the format wants a letter or a digit first"),
        (["1/a-b"], ""),
    ],
)
def test_a_test_or_group_whose_name_begins_with_a_minus_is_warned_of(tmp_path, kind, names, sentence):
    files = {f"data/secret/{name}.{suffix}": b"1\n" for name in names for suffix in ("in", "ans")}
    lines = [line for line in checked(pack(tmp_path, {**BASE, **files}, kind)) if "begins with" in line]
    assert len(lines) == bool(sentence), lines
    assert all(line.startswith("warning: ") and sentence in line for line in lines)


@KINDS
@pytest.mark.parametrize("ending", ["IN", "Ans", "in.txt", "ANS.TXT"])
def test_files_that_are_called_nearly_like_tests_are_named(tmp_path, kind, ending):
    path = pack(tmp_path, {**BASE, f"data/secret/2.{ending}": b"1\n", f"data/secret/1.files/x.{ending}": b"1\n"}, kind)
    lines = [line for line in checked(path) if "is no test" in line]
    assert len(lines) == 1, lines
    assert f"data/secret/2.{ending}: is no test, as its name ends with .{ending}; let it end with ." in lines[0]


@KINDS
@pytest.mark.parametrize("name", ["-x.sh", "-x/a.sh", "x/-a.sh"])
def test_a_submission_whose_name_begins_with_a_minus_is_an_error(tmp_path, kind, name):
    lines = checked(pack(tmp_path, {**BASE, f"submissions/accepted/{name}": b"cat\n"}, kind))
    assert any(line.startswith("error: ") and name in line and "begins with '-'" in line for line in lines), lines


@KINDS
def test_tests_alone_are_read_the_same_way(tmp_path, kind):
    files = {"-1.in": b"1\n", "-1.out": b"1\n", "2.in": b"1\n", "2.out": b"1\n", ".3.in": b"1\n"}
    opened = open_package_tree(pack(tmp_path, files, kind))
    assert opened.report is not None
    lines = opened.report.lines()
    opened.tree.close()
    assert any("2 tests" in line for line in lines), lines
    assert any(".3.in: its name begins with '.'" in line for line in lines), lines
