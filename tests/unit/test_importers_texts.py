"""Tests as the systems of packages give them to programs: line ends, headers, and no pointers."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import PackageError
from judge.problems.importers import ImporterWords, line_ends
from judge.problems.importers.line_ends import ChangedLines, plain
from judge.problems.importers.making import UnmadeError
from judge.problems.package import read_package
from judge.problems.pointers import kind_of
from judge.problems.tree import CHUNK, Folder, Tree
from tests.support.packages import ByteFiles, archive, folder, refusal
from tests.unit.test_importers_made import run

SHA = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{SHA}\nsize 12345\n".encode()
CPP = b"int main() {}\n"


def content_of(root: Path, **options: object) -> tuple[dict[str, tuple[bytes, bytes]], list[str]]:
    with read_package(root, time_limit=1, **options) as package:  # type: ignore[arg-type]
        tests = {test.name: (package.read(test.input), package.read(test.answer)) for test in package.manifest.tests}
        return tests, package.notes


# --- line ends ----------------------------------------------------------------------------------------------------

DMOJ: ByteFiles = {
    "init.yml": b"test_cases:\n- {in: 1.in, out: 1.out, points: 1}\n",
    "1.in": b"a\r\nb\rc",
    "1.out": b"d\r\n",
}
UOJ: ByteFiles = {
    "problem.conf": b"use_builtin_judger on\nuse_builtin_checker wcmp\nn_tests 1\nn_ex_tests 1\nn_sample_tests 1\n"
    b"input_pre a\ninput_suf in\noutput_pre a\noutput_suf out\n",
    "a1.in": b"1 2 \r\n3\r\n4",
    "a1.out": b"5\r\n",
    "ex_a1.in": b"6\r\n",
    "ex_a1.out": b"7\r\n",
}
TPS: ByteFiles = {
    "problem.json": b'{"name": "x", "type": "Batch", "time_limit": 1, "memory_limit": 64}',
    "tests/0-01.in": b"1\r\n2\n",
    "tests/0-01.out": b"3\r\n",
    "solution/right.cpp": CPP,
}


WINDOWS = {"1.in": b"1\r\n2\r\n", "1.out": b"3\r\n", "2.in": b"1\r\n2\n", "2.out": b"4\n"}
BINARY = [(b"a\r\nb\rc", b"d\r\n")]
# Packages, and inputs and answers as they are read, and what is said of them.
LINE_ENDS: list[tuple[ByteFiles, list[tuple[bytes, bytes]], str]] = [
    (DMOJ, [(b"a\nb\nc\n", b"d\n")], "line ends of 2 files of tests are changed as DMOJ's judge does it"),
    ({**DMOJ, "init.yml": b"binary_data: true\n" + DMOJ["init.yml"]}, BINARY, ""),
    ({**DMOJ, "init.yml": DMOJ["init.yml"].replace(b": 1}", b": 1, binary_data: true}")}, BINARY, ""),
    (
        {
            **DMOJ,
            "init.yml": b"test_cases:\n- {batched: [{in: 1.in, out: 1.out}], points: 1, binary_data: true}\n",
        },
        BINARY,
        "",
    ),
    (UOJ, [(b"1 2\n3\n4\n", b"5\n"), (b"6\n", b"7\n")], "as UOJ's formatter does it"),
    (
        {**UOJ, "problem.conf": UOJ["problem.conf"] + b"dont_use_formatter on\n"},
        [(b"1 2 \r\n3\r\n4", b"5\r\n"), (b"6\r\n", b"7\r\n")],
        "have line ends of Windows (CR LF)",
    ),
    (TPS, [(b"1\n2\n", b"3\r\n")], "TPS does it to inputs (dos2unix)"),
    (WINDOWS, [(b"1\n2\n", b"3\n"), (b"1\r\n2\n", b"4\n")], "2 files of tests with plain line ends (LF)"),
    (
        {"problem.yaml": b"title: X\npid: P1\n", "testdata/1.in": b"1\r\n", "testdata/1.out": b"2\r\n"},
        [(b"1\r\n", b"2\r\n")],
        "1 input has line ends of Windows (CR LF), such as testdata/1.in",
    ),
]


@pytest.mark.parametrize(("files", "contents", "note"), LINE_ENDS)
def test_line_ends_are_those_of_each_system(
    files: ByteFiles, contents: list[tuple[bytes, bytes]], note: str, tmp_path: Path
) -> None:
    tests, notes = content_of(folder(tmp_path, files))
    assert set(tests.values()) == set(contents)
    assert any(note in line for line in notes)


def test_dmoj_makes_lf_of_line_ends_in_its_archive(tmp_path: Path) -> None:
    data = archive(tmp_path, DMOJ, name="t.zip").read_bytes()
    init = DMOJ["init.yml"] + b"archive: t.zip\n"
    tests, _ = content_of(folder(tmp_path, {"init.yml": init, "t.zip": data}))
    assert list(tests.values()) == [(b"a\nb\nc\n", b"d\n")]


PIECES = st.lists(st.sampled_from([b"", b"\r", b"\n", b" ", b"\r\n", b"a", b"b \r c", b"  ", b"d\r "]), max_size=10)


@given(PIECES)
def test_rules_do_not_depend_on_where_files_are_cut(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    for rule in (line_ends.unix, line_ends.dmoj, line_ends.uoj):
        assert b"".join(rule(iter(pieces))) == b"".join(rule(iter([data])))


@given(PIECES)
def test_the_rule_of_dmoj(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    expected = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    expected += b"\n" if expected and not expected.endswith(b"\n") else b""
    assert b"".join(line_ends.dmoj(iter(pieces))) == expected


def formatted(data: bytes) -> bytes:
    """That system's formatter, character by character."""
    out, run, last = bytearray(), b"", 10
    for char in data:
        last = char
        if char in b" \r":
            run += bytes([char])
            continue
        if char != 10:
            kinds = b" \r" if run.startswith(b" ") else b"\r "
            out += b"".join(bytes([kind]) * run.count(bytes([kind])) for kind in kinds)
        run = b""
        out.append(char)
    return bytes(out + (b"\n" if last != 10 else b""))


@given(PIECES)
def test_the_rule_of_uoj(pieces: list[bytes]) -> None:
    assert b"".join(line_ends.uoj(iter(pieces))) == formatted(b"".join(pieces))


def test_long_runs_of_blanks_take_no_longer_than_others() -> None:
    def chunks() -> Iterator[bytes]:
        yield b" " * 1_000_000 + b"a" + b" \r" * 500_000 + b"b"

    assert len(b"".join(line_ends.uoj(chunks()))) == 2_000_003


# --- files around the inputs of TPS -------------------------------------------------------------------------------

GEN: ByteFiles = {
    "problem.json": TPS["problem.json"],
    "gen/data": b"@subtask all\nmanual 1.in\ngen 7\n",
    "gen/manual/1.in": b"1\r\n2\r\n",
    "gen/gen.py": b"import sys\nprint(sys.argv[1], end='\\r\\n')\n",
    "solution/model.py": b"import sys\nprint(repr(sys.stdin.read()))\n",
    "solutions.json": b'{"model.py": {"verdict": "model_solution"}}',
}


@pytest.mark.parametrize(
    ("extra", "before", "after"),
    [
        ({}, "", ""),
        ({"gen/input.header": b"secret\r\n"}, "secret\n", ""),
        ({"gen/input.footer": b"end"}, "", "end"),
        ({"gen/input.header": b"secret\n", "gen/input.footer": b"end\n"}, "secret\n", "end\n"),
    ],
)
def test_tps_puts_its_header_and_footer_around_every_input(
    extra: ByteFiles, before: str, after: str, tmp_path: Path
) -> None:
    root = folder(tmp_path, {**GEN, **extra})
    with pytest.raises(UnmadeError) as caught:
        read_package(root)
    plan = caught.value.plan
    assert plan.read("tests/0-01.in").decode() == f"{before}1\n2\n{after}"
    steps = [step for test in plan.tests for step in test]
    used = [path for step in steps for path in (step.input, step.before, step.after) if path]
    inputs = {path: plan.read(path) for path in used if plan.size(path)}
    (tmp_path / "work").mkdir()
    products = run(tmp_path / "work", plan.programs, steps, inputs)
    assert isinstance(products, dict), products
    local = {path: tmp_path / str(number) for number, path in enumerate(products)}
    for path, data in products.items():
        local[path].write_bytes(data)
    words = ImporterWords(products=plan.products(local))
    plan.close()
    with read_package(root, options=words) as package:
        content = {test.name: (package.read(test.input), package.read(test.answer)) for test in package.manifest.tests}
        first, second = f"{before}1\n2\n{after}", f"{before}7\n{after}"
        assert set(content.values()) == {(text.encode(), f"{text!r}\n".encode()) for text in (first, second)}
        assert (", around every input" in "\n".join(package.notes)) == bool(extra)


# --- pointers -----------------------------------------------------------------------------------------------------

KATTIS: ByteFiles = {
    "problem.yaml": b"name: X\n",
    "data/sample/1.in": b"1\n",
    "data/sample/1.ans": b"1\n",
    "data/secret/1.in": b"1\n",
    "data/secret/1.ans": b"1\n",
    "problem_statement/a.png": b"x",
    "submissions/accepted/a.py": b"print(1)\n",
    "attachments/big.bin": b"x",
}


@pytest.mark.parametrize("path", [path for path in KATTIS if path != "problem.yaml"])
@pytest.mark.parametrize("kind", [folder, archive])
def test_a_pointer_of_git_lfs_is_no_file(path: str, kind: object, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=rf"{path}: is a pointer of Git LFS.*run 'git lfs pull'"):
        read_package(kind(tmp_path, {**KATTIS, path: POINTER}))  # type: ignore[operator]


@pytest.mark.parametrize(
    "files",
    [
        {**DMOJ, "1.in": POINTER},
        {**UOJ, "a1.out": POINTER},
        {**TPS, "tests/0-01.in": POINTER},
        {"1.in": b"1\n", "1.out": POINTER},
        {"deep/down/1.in": b"1\n", "deep/down/1.out": POINTER},
        {"problem.xml": POINTER},
        {"tests.zip": POINTER},
    ],
)
def test_pointers_in_packages_of_other_formats(files: ByteFiles, tmp_path: Path) -> None:
    assert "is a pointer of Git LFS" in refusal(folder(tmp_path, files), time_limit=1)


def test_pointers_in_archives_within_packages(tmp_path: Path) -> None:
    inner = archive(tmp_path, {"1.in": POINTER, "1.out": b"1\n"}, name="t.zip").read_bytes()
    init = b"archive: t.zip\n" + DMOJ["init.yml"]
    for number, files in enumerate(({"init.yml": init, "t.zip": inner}, {"tests.zip": inner})):
        assert "1.in: is a pointer of Git LFS" in refusal(folder(tmp_path / str(number), files), time_limit=1)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (POINTER, "Git LFS"),
        (POINTER.replace(b"\n", b"\r\n"), "Git LFS"),
        (POINTER.replace(b"git-lfs.github", b"hawser.github"), "Git LFS"),
        (POINTER.replace(b"oid", b"ext-0-foo sha256:1\noid"), "Git LFS"),
        (b"/annex/objects/SHA256E-s120--abcd.in\n", "git-annex"),
        (b"../.git/annex/objects/x", ""),
        (b"version https://git-lfs.github.com/spec/v1\nis how pointers of Git LFS begin\n", ""),
        (b"see " + POINTER, ""),
        (b"version 3\n" * 10, ""),
    ],
)
def test_pointers_by_their_content(data: bytes, kind: str) -> None:
    assert kind_of(data) == kind


# --- a testlib.h that prints outcomes -----------------------------------------------------------------------------

CHECKER = b'#include "testlib.h"\nint main(int c, char **v) { registerTestlibCmd(c, v); quitf(_ok, "x"); }\n'
# As much of such headers as tells their kind.
HEADERS = {
    "the name": b"// Modified to be compatible with CMS\n",
    "the codes": b"int resultExitCode(TResult r)\n{\n    if (testlibMode == _checker)\n        return 0;\n}\n",
    "all codes": b"int resultExitCode(TResult) { return 0; }\n",
    "the order": b"    inf.init(argv[1], _input);\n    ans.init(argv[2], _answer);\n    ouf.init(argv[3], _output);\n",
    "the messages": b'fprintf(stderr, "translate:success");\n',
}
USUAL = b"    ouf.init(argv[2], _output);\n    ans.init(argv[3], _answer);\n// PCMS2\n"
WITH_CHECKER: dict[str, tuple[ByteFiles, str]] = {
    "directory": ({"1.in": b"1\n", "1.out": b"1\n", "checker.cpp": CHECKER}, "testlib.h"),
    "dmoj": (
        {**DMOJ, "init.yml": DMOJ["init.yml"] + b"checker: {name: bridged, args: {files: c.cpp, type: testlib}}\n",
         "c.cpp": CHECKER},
        "testlib.h",
    ),
    "hydro": (
        {"problem.yaml": b"title: X\n", "testdata/1.in": b"1\n", "testdata/1.out": b"1\n",
         "testdata/config.yaml": b"checker_type: testlib\nchecker: c.cpp\n", "testdata/c.cpp": CHECKER},
        "testdata/testlib.h",
    ),
}  # fmt: skip


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_a_checker_of_tps_is_asked_as_its_testlib_speaks(header: bytes, tmp_path: Path) -> None:
    for number, place in enumerate(("checker/testlib.h", "testlib.h", "gen/testlib.h")):
        files = {**TPS, "checker/checker.cpp": CHECKER, place: header}
        with read_package(folder(tmp_path / str(number), files)) as package:
            assert any("asked as the Contest Management System does" in note for note in package.notes)
    with read_package(folder(tmp_path, {**TPS, "checker/checker.cpp": CHECKER, "checker/testlib.h": USUAL})) as package:
        assert any("made with testlib" in note for note in package.notes)


@pytest.mark.parametrize("name", WITH_CHECKER)
@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_a_checker_that_prints_outcomes_in_other_formats(name: str, header: bytes, tmp_path: Path) -> None:
    files, place = WITH_CHECKER[name]
    for number, (text, expected) in enumerate(((header, True), (USUAL, False))):
        with read_package(folder(tmp_path / str(number), {**files, place: text}), time_limit=1) as package:
            build = package.read(package.manifest.validators[0].files["build"])
            assert (b"-DOUTCOME -DCHECKER='\"iao\"'" in build) == expected
            assert any("prints an outcome" in note for note in package.notes) == expected


def test_a_checker_of_tps_without_its_header_is_refused(tmp_path: Path) -> None:
    source = b'#include "testlib.h"\nint main(int c, char **v) { registerChecker("x", c, v); }\n'
    with pytest.raises(PackageError, match=r"checker.cpp: calls registerChecker, which only the testlib.h of TPS has"):
        read_package(folder(tmp_path, {**TPS, "checker/checker.cpp": source}))


class Cut(Tree):
    """One file in pieces that a test chooses; `given` counts those that were asked for."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__("x")
        self.pieces, self.count = pieces, 0
        self.files = {"a": sum(map(len, pieces)), "b": 1}

    def chunks(self, path: str) -> Iterator[bytes]:
        for piece in self.pieces if path == "a" else [b"b"]:
            self.count += 1
            yield piece

    def local(self, path: str) -> Path | None:
        return Path(path)

    def _enter(self, top: str) -> None:
        raise NotImplementedError


@given(st.lists(st.sampled_from([b"", b"\r", b"\n", b"\r\n", b"a", b"bc\r\n", b"d\r"]), max_size=8))
def test_only_files_whose_line_ends_are_all_windows_change(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    remainder = data.replace(b"\r\n", b"")
    tree, mixed = plain(Cut(pieces), ["a", "b", "gone"])
    changed = b"\r\n" in data and not re.search(rb"[\r\n]", remainder)
    expected = data.replace(b"\r\n", b"\n") if changed else data
    assert isinstance(tree, ChangedLines) is changed
    assert set(mixed) <= {"a"} and (not mixed or (b"\r\n" in data and not changed))
    assert b"".join(tree.chunks("a")) == expected and tree.files["a"] == len(expected)
    assert tree.local("a") == (None if changed else Path("a")) and tree.local("b") == Path("b")
    assert b"".join(tree.chunks("b")) == b"b"


def test_a_file_with_plain_line_ends_is_not_read_to_its_end() -> None:
    tree = Cut([b"1", b"2\n", *100 * [b"3\n"]])
    assert plain(tree, ["a"]) == (tree, []) and tree.count == 2


def test_pieces_are_no_longer_than_a_trees(tmp_path: Path) -> None:
    text = b"x" * (CHUNK - 1) + b"\r\n" + b"y" * CHUNK + b"\r\n"
    tree, _ = plain(Folder(folder(tmp_path, {"a": text}, "x")), ["a"])
    pieces = list(tree.chunks("a"))
    assert max(map(len, pieces)) <= CHUNK and b"".join(pieces) == text.replace(b"\r\n", b"\n")


@pytest.mark.parametrize("now", [[b"1\r\n2333"], [b"1\r\n\r\n\r\n"]])
def test_a_file_that_changes_while_it_is_read_is_refused(now: list[bytes]) -> None:
    base = Cut([b"1\r\n2\r\n3"])
    tree, _ = plain(base, ["a"])
    base.pieces = now
    with pytest.raises(PackageError, match="x/a: changed while it was read"):
        list(tree.chunks("a"))
