"""What check and import say of packages: no warnings of what is meant so, numbers in words, pictures that are there."""

import zipfile
from pathlib import Path

import pytest

from judge.common.text import several, singular
from judge.problems.package import read_package
from judge.problems.reading.checks import check_package
from tests.support.packages import ByteFiles, folder
from tests.unit.test_importers_made import STANDARD
from tests.unit.test_importers_polygon import polygon

KATTIS: ByteFiles = {
    "problem.yaml": b"name: X\ntype: scoring\n",
    **{f"data/{test}.{kind}": b"1\n" for test in ("sample/1", "secret/a/2", "secret/b/2") for kind in ("in", "ans")},
}


def warnings(root: Path) -> list[str]:
    return [finding.text for finding in check_package(root).findings.all if finding.level == "warning"]


def test_tests_of_two_groups_with_the_same_name_are_meant_to_be_the_same(tmp_path: Path) -> None:
    files = {**KATTIS, "data/sample/1.in": b"0\n"}
    assert not any("have the same input" in text for text in warnings(folder(tmp_path / "1", files)))
    files |= {"data/secret/b/3.in": b"1\n", "data/secret/b/3.ans": b"1\n"}
    assert sum("have the same input" in text for text in warnings(folder(tmp_path / "2", files))) == 1


def test_links_are_meant_to_be_the_same(tmp_path: Path) -> None:
    root = folder(tmp_path, {**KATTIS, "data/sample/1.in": b"0\n"})
    for kind in ("in", "ans"):
        (root / f"data/secret/b/9.{kind}").symlink_to(f"../a/2.{kind}")
    assert not any("have the same input" in text for text in warnings(root))
    packed = tmp_path / "x.zip"
    with zipfile.ZipFile(packed, "w") as file:
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_symlink():
                entry = zipfile.ZipInfo(name)
                entry.create_system, entry.external_attr = 3, 0o120777 << 16
                file.writestr(entry, str(path.readlink()))
            elif path.is_file():
                file.write(path, name)
    assert not any("have the same input" in text for text in warnings(packed))


@pytest.mark.parametrize("files", [STANDARD, polygon()])
def test_a_package_of_polygon_has_both_or_no_files_that_are_shown(files: ByteFiles, tmp_path: Path) -> None:
    examples = {
        "statement-sections/english/example.01": b"1 1\n",
        "statement-sections/english/example.01.a": b"other\n",
    }
    assert not any("has only one of" in text for text in warnings(folder(tmp_path, {**files, **examples})))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1 tests in 1 subtasks (min)", "1 test in 1 subtask (min)"),
        ("1 cases, 0 batches, 1 pretests", "1 case, 0 batches, 1 pretest"),
        ("11 tests in 21 groups", "11 tests in 21 groups"),
        ("1 batches", "1 batch"),
        ("0.1 points", "0.1 points"),
        ("1 compressed files", "1 compressed file"),
    ],
)
def test_one_is_no_plural(line: str, expected: str) -> None:
    assert singular(line) == expected


def test_several_of_one_thing() -> None:
    assert [several(count, "test") for count in (0, 1, 2)] == ["0 tests", "1 test", "2 tests"]


def test_notes_of_an_import_have_no_false_plurals(tmp_path: Path) -> None:
    with read_package(folder(tmp_path, {"1.in": b"1\n", "1.out": b"1\n"}), time_limit=1) as package:
        assert any("carried over: 1 test, 0 of them samples" in note for note in package.notes)


HYDRO: ByteFiles = {
    "problem.yaml": b"title: X\npid: P1\n",
    "testdata/1.in": b"1\n",
    "testdata/1.out": b"1\n",
    "additional_file/one picture.png": b"\x89PNG\r\n\x1a\n",
    "additional_file/two.svg": b"<svg/>",
    "additional_file/data.zip": b"x",
    "additional_file/all.pdf": b"%PDF-1.4",
    "problem_en.md": b"# X\n![a](file://one%20picture.png?noDisposition=1) <img src='file://two.svg'/> [d](file://data.zip)\n",
}


def test_pictures_of_hydro_lie_beside_the_statement(tmp_path: Path) -> None:
    root = folder(tmp_path, HYDRO)
    with read_package(root) as package:
        index = package.manifest.package
        assert index is not None
        files = package.read(index).decode()
        assert "statement/one_picture.png" in files and "statement/two.svg" in files and "attachments/data.zip" in files
        assert any("2 pictures of additional_file/" in note for note in package.notes)
    assert not any("there is no picture" in text for text in warnings(root))


def test_a_statement_of_hydro_that_is_a_pdf(tmp_path: Path) -> None:
    files = {**HYDRO, "problem_en.md": b"@[PDF](file://all.pdf?noDisposition=1)\n"}
    with read_package(folder(tmp_path, files)) as package:
        assert package.manifest.package is not None
        index = package.read(package.manifest.package).decode()
        assert "statement/problem.en.pdf" in index and "problem.en.md" not in index
