"""Packages in ZIP and tar archives: as people pack them, and as strangers do who want to harm."""

import gzip
import io
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from judge.problems import archives
from judge.problems import tree as tree_module
from judge.problems.archives import open_tree, stem
from judge.problems.package import read_package
from judge.problems.reading.checks import check_package
from tests.support.packages import ByteFiles, archive, folder, refusal

SUM: ByteFiles = {
    "problem.yaml": b"name: Sum\n",
    ".timelimit": b"1\n",
    "data/secret/1.in": b"1\n",
    "data/secret/1.ans": b"2\n",
}
MODES: dict[str, Literal["w", "w:gz", "w:bz2", "w:xz"]] = {
    "x.tar": "w",
    "x.tar.gz": "w:gz",
    "x.tgz": "w:gz",
    "x.tar.bz2": "w:bz2",
    "x.tar.xz": "w:xz",
}
Change = Callable[[tarfile.TarInfo], None]


def tar(
    parent: Path, files: ByteFiles, prefix: str = "", name: str = "x.tar", change: dict[str, Change] | None = None
) -> Path:
    with tarfile.open(parent / name, MODES[name]) as file:
        for path, data in files.items():
            entry = tarfile.TarInfo(prefix + path)
            entry.size = len(data)
            for end, edit in (change or {}).items():
                if path.endswith(end):
                    edit(entry)
            file.addfile(entry, io.BytesIO(data))
    return parent / name


@pytest.mark.parametrize("prefix", ["", "./", "sum/", "./sum/", "./a/./b/"])
@pytest.mark.parametrize("name", ["x.zip", *MODES])
def test_names_with_dots_and_folders(tmp_path: Path, name: str, prefix: str) -> None:
    path = archive(tmp_path, SUM, prefix, name) if name == "x.zip" else tar(tmp_path, SUM, prefix, name)
    with read_package(path) as package:
        assert package.manifest.limits.cpu == 1, "the one hidden file that means something"
        assert [package.read(test.answer) for test in package.manifest.tests] == [b"2\n"]
        assert package.manifest.name == {"": "x", "./": "x", "./a/./b/": "b"}.get(prefix, "sum")


def test_the_root_itself_is_an_entry_of_some_archives(tmp_path: Path) -> None:
    path = archive(tmp_path, SUM, "./")
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("./", b"")
    with read_package(path) as package:
        assert len(package.manifest.tests) == 1


@pytest.mark.parametrize(("name", "expected"), [("a.b.zip", "a.b"), ("A.TAR.GZ", "A"), ("a.tgz", "a"), ("a", "a")])
def test_the_name_of_an_archive(name: str, expected: str) -> None:
    assert stem(Path(name)) == expected


def test_a_tar_archive_under_another_name(tmp_path: Path) -> None:
    for packed in ("x.tar", "x.tar.gz"):
        path = tar(tmp_path, SUM, name=packed).rename(tmp_path / "sum.zip")
        with read_package(path) as package:
            assert package.manifest.name == "sum"


@pytest.mark.parametrize("system", [0, 3])
@pytest.mark.parametrize("mixed", [False, True])
def test_names_as_other_systems_write_them(tmp_path: Path, system: int, mixed: bool) -> None:
    path = tmp_path / "sum.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name, data in SUM.items():
            entry = zipfile.ZipInfo("x")
            entry.filename = name.replace("/", "\\", 1 if mixed else -1)
            entry.create_system = system
            file.writestr(entry, data)
        plain = zipfile.ZipInfo("x")
        plain.filename = "attachments/QQ.txt"
        file.writestr(plain, b"x")
    path.write_bytes(path.read_bytes().replace(b"QQ", "ß".encode()))
    tree = open_tree(path)
    assert sorted(tree.files) == sorted([*SUM, "attachments/ß.txt"])
    tree.close()


# --- what lies beside a package ----------------------------------------------------------------------------------

BESIDE: ByteFiles = {"README.md": b"x", "LICENSE": b"x", ".git/config": b"x", "Makefile": b"x"}


@pytest.mark.parametrize("inner", [SUM, {"init.yml": b"archive: t.zip\n"}, {"problem.xml": b"<problem/>"}])
def test_a_folder_beside_a_readme_is_entered(tmp_path: Path, inner: ByteFiles) -> None:
    files = {**BESIDE, **{f"problems/sum/{name}": data for name, data in inner.items()}}
    for path in (folder(tmp_path, files, "repository"), archive(tmp_path, files), tar(tmp_path, files)):
        findings = [finding.text for finding in check_package(path).findings.all]
        if inner is SUM:
            with read_package(path) as package:
                assert package.manifest.name == "sum"
            sentence = "LICENSE, Makefile, README.md beside the package's folder: no part of it, and left out"
            assert any(sentence in text for text in findings), findings
        assert not any("no other known format" in text for text in findings), findings


def test_tests_beside_a_package_are_not_left_out_in_silence(tmp_path: Path) -> None:
    files = {**{f"sum/{name}": data for name, data in SUM.items()}, "1.in": b"1\n", "1.out": b"1\n"}
    assert "is no package itself, but holds some (sum)" in refusal(folder(tmp_path, files, "x"))


# --- bounds ------------------------------------------------------------------------------------------------------


def test_hidden_entries_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {**SUM, **{f".git/{number}": b"" for number in range(20)}}
    for module in (tree_module, archives):
        monkeypatch.setattr(module, "MAX_ENTRIES", 20)
    for path in (archive(tmp_path, files), tar(tmp_path, files)):
        assert "has more than 20 entries, hidden ones included; remove some" in refusal(path)
    around = folder(tmp_path, {**SUM, **{f".{number}": b"" for number in range(20)}})
    assert "has more than 20 entries" in refusal(around)


def directory_of(entries: int, claimed: int | None = None) -> bytes:
    """A ZIP archive that is nothing but a directory of empty entries without names."""
    data = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 3, 20, *[0] * 15) * entries
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0, 0, claimed or len(data), 0, 0)
    return data + end


def test_a_directory_is_not_loaded_before_it_is_small_enough(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(directory_of(1_000_000))
    tracemalloc.start()
    try:
        assert "has more than 80000 entries" in refusal(path)
        assert tracemalloc.get_traced_memory()[1] < 128 * 1024**2
    finally:
        tracemalloc.stop()
    path.write_bytes(bytes(archives._DIRECTORY_BYTES) + directory_of(1, archives._DIRECTORY_BYTES + 46))
    assert f"its directory has more than {archives._DIRECTORY_BYTES} bytes" in refusal(path)


def test_a_tar_archive_is_bounded_when_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gzip.open(tmp_path / "bomb.tar.gz", "wb") as file:
        file.write(tar(tmp_path, SUM).read_bytes()[:-1024])
        file.write(bytes(4 << 20))
    monkeypatch.setattr(tree_module, "MAX_TOTAL_BYTES", 1 << 20)
    monkeypatch.setattr(archives, "MAX_ENTRIES", 1024)
    assert "has more than 1048576 bytes when unpacked" in refusal(tmp_path / "bomb.tar.gz")


def test_long_headers_of_tar_archives(tmp_path: Path) -> None:
    head = tarfile.TarInfo("././@PaxHeader")
    head.type, head.size = tarfile.XHDTYPE, 1 << 33
    (tmp_path / "x.tar").write_bytes(head.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    assert "a header in it has more than 1048576 bytes" in refusal(tmp_path / "x.tar")


def linked(kind: bytes, target: str) -> Change:
    def edit(entry: tarfile.TarInfo) -> None:
        entry.type, entry.linkname, entry.size = kind, target, 0

    return edit


def test_links_in_tar_archives(tmp_path: Path) -> None:
    files = {**SUM, "data/secret/2.in": b"", "data/secret/2.ans": b""}
    change = {"2.in": linked(tarfile.SYMTYPE, "1.in"), "2.ans": linked(tarfile.LNKTYPE, "./data/secret/1.ans")}
    with read_package(tar(tmp_path, files, change=change)) as package:
        assert [package.read(test.answer) for test in package.manifest.tests] == [b"2\n", b"2\n"]
    out = tar(tmp_path, files, change={"2.in": linked(tarfile.SYMTYPE, "../../../etc/passwd")})
    assert "2.in: is a link or a special file; pack the file itself" in refusal(out)


@pytest.mark.parametrize(
    ("files", "change", "sentence"),
    [
        ({"../x": b""}, {}, "leads out of the archive"),
        ({"/etc/x": b""}, {}, "leads out of the archive"),
        ({"data//x": b""}, {}, "leads out of the archive"),
        ({"pipe": b""}, {"pipe": linked(tarfile.FIFOTYPE, "")}, "is a link or a special file"),
        ({"sda": b""}, {"sda": linked(tarfile.BLKTYPE, "")}, "is a link or a special file"),
        ({"./problem.yaml": b""}, {}, "is in the archive twice"),
        ({"\udcff.in": b""}, {}, "the file name is not UTF-8"),
    ],
)
def test_hostile_tar_archives(tmp_path: Path, files: ByteFiles, change: dict[str, Change], sentence: str) -> None:
    assert sentence in refusal(tar(tmp_path, {**SUM, **files}, change=change))
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar"], "nothing is unpacked"


@pytest.mark.parametrize("name", MODES)
def test_archives_that_end_too_early(tmp_path: Path, name: str) -> None:
    path = tar(tmp_path, {**SUM, "attachments/x": b"x" * 5000}, name=name)
    data = path.read_bytes()
    for size in (3, 40, *((1636, 5000) if name == "x.tar" else (len(data) // 2, len(data) - 9))):
        path.write_bytes(data[:size])
        message = refusal(path)
        assert any(words in message for words in ("too early", "damaged", "tar archive that can be read", "end-of")), (
            message
        )
