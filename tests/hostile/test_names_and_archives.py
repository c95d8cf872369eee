"""Lines 11 and 12: names of handed-in files, sources that are none, and packages that want out of their folder."""

import io
import os
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from judge.common.errors import FieldError, PackageError, TooLargeError
from judge.config import SubmissionLimits
from judge.gateway.submit import Upload, decode_source
from judge.judicator.tasks.intake import check
from judge.languages.rules import check_source
from judge.model.messages import Submission
from judge.problems import tree
from judge.problems.package import read_package

LIMITS = SubmissionLimits()
PACKAGE = {
    "problem.yaml": b"name: Sum\nlimits:\n  time_limit: 1\n",
    "data/secret/1.in": b"1 2\n",
    "data/secret/1.ans": b"3\n",
}


@pytest.mark.parametrize("name", ["..", ".", "", "../../etc/passwd", "/etc/passwd", "a/../../b", "a\0b", "a/"])
def test_names_that_lead_elsewhere_are_refused_at_the_door(name: str) -> None:
    submission = Submission(language="c", source="int main;", filename=name)
    with pytest.raises(FieldError, match="filename"):
        check(submission, LIMITS, languages=["c"], source_bytes=LIMITS.source_bytes)


@pytest.mark.parametrize("name", ["a b#c\\d.c", "bin", "-rf", "$(reboot)", "ä\n.c", "prog", "%s%n", "CON", "a;b|c"])
def test_names_that_are_only_odd_are_taken(name: str) -> None:
    submission = Submission(language="c", source="int main;", filename=name)
    check(submission, LIMITS, languages=["c"], source_bytes=LIMITS.source_bytes)


@pytest.mark.parametrize(
    "data", [b"\x7fELF\2\1\1\0\0", b"PK\3\4\0\0", b"\xff\xfei\0n\0t\0", b"caf\xe9", b"\xed\xa0\x80"]
)
def test_binary_sources_are_refused_at_the_door(data: bytes) -> None:
    with pytest.raises(FieldError, match="source"):
        decode_source(Upload("prog.c", len(data), data), LIMITS)


def test_sources_above_the_limit_are_refused_at_the_door() -> None:
    assert LIMITS.source_bytes <= 256 * 1024
    with pytest.raises(TooLargeError):
        check_source("x" * (LIMITS.source_bytes + 1), LIMITS.source_bytes)
    with pytest.raises(TooLargeError):
        decode_source(Upload("huge.c", 1 << 40, b"int main;"), LIMITS)


def archive(directory: Path, *extra: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    """A good package, and what an attacker added."""
    path = directory / "sum.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive_file:
        for name, data in [*PACKAGE.items(), *extra]:
            archive_file.writestr(name, data)
    return path


def special(name: str, kind: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.create_system = 3
    entry.external_attr = (kind | 0o777) << 16
    return entry


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("../slip.txt", b"x"),
        ("data/../../slip.txt", b"x"),
        ("/tmp/slip.txt", b"x"),
        ("data\\..\\..\\slip.txt", b"x"),
        ("C:/slip.txt", b"x"),
        ("data//slip.txt", b"x"),
        (special("data/secret/2.in", stat.S_IFLNK), b"/etc/shadow"),
        (special("data/secret/2.in", stat.S_IFCHR), b""),
        (special("data/secret/2.in", stat.S_IFIFO), b""),
        ("/".join(["d"] * 200) + "/x", b"x"),
    ],
    ids=lambda value: value.filename + oct(value.external_attr >> 28) if isinstance(value, zipfile.ZipInfo) else None,
)
def test_archives_that_lead_out_are_refused(work: Path, name: str | zipfile.ZipInfo, data: bytes) -> None:
    with pytest.raises(PackageError, match=r"sum\.zip"):
        read_package(archive(work, (name, data)))
    assert [path.name for path in work.iterdir()] == ["sum.zip"]
    assert not Path("/tmp/slip.txt").exists()


def test_a_zip_bomb_is_refused_before_it_is_unpacked(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = archive(work, ("data/secret/2.in", b"\0" * (8 << 20)), ("data/secret/2.ans", b"1"))
    assert bomb.stat().st_size < 20_000
    monkeypatch.setattr(tree, "MAX_FILE_BYTES", 4 << 20)
    with pytest.raises(PackageError, match=r"secret/2\.in: has 8388608 bytes"):
        read_package(bomb)
    monkeypatch.setattr(tree, "MAX_FILE_BYTES", 16 << 20)
    monkeypatch.setattr(tree, "MAX_TOTAL_BYTES", 4 << 20)
    with pytest.raises(PackageError, match="when unpacked"):
        read_package(bomb)


def test_a_zip_bomb_that_lies_about_its_size_is_refused(work: Path) -> None:
    bomb = archive(work, ("data/secret/2.in", b"\0" * (8 << 20)), ("data/secret/2.ans", b"1"))
    data = bomb.read_bytes()
    lie = data.replace(struct.pack("<I", 8 << 20), struct.pack("<I", 5))
    assert lie != data
    bomb.write_bytes(lie)
    with pytest.raises(PackageError, match=r"secret/2\.in"):
        read_package(bomb)


def test_an_archive_in_an_archive_is_only_a_file(work: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as inner_archive:
        inner_archive.writestr("../slip.txt", "x")
    path = archive(work, ("attachments/inner.zip", inner.getvalue()))
    with read_package(path) as package:
        assert len(package.manifest.tests) == 1


@pytest.mark.parametrize("kind", ["link out", "link to a folder", "pipe", "loop"])
def test_directories_with_traps_are_refused(work: Path, kind: str) -> None:
    root = work / "sum"
    for name, data in PACKAGE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    trap = root / "data/secret/2.in"
    if kind == "link out":
        trap.symlink_to("/etc/shadow")
    elif kind == "link to a folder":
        trap.symlink_to("..")
    elif kind == "pipe":
        os.mkfifo(trap)
    else:
        trap.symlink_to(trap.name)
    with pytest.raises(PackageError, match=r"secret/2\.in"):
        read_package(root)
