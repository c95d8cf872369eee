"""Plain directories of tests: the shapes that people keep them in, each read as a package."""

import bz2
import gzip
import lzma
import re
import tarfile
from pathlib import Path

import pytest

from judge.common.errors import PackageError
from judge.problems.importers import ImporterWords, detect, directory, open_package_tree
from judge.problems.importers.pairs import find_pairs
from judge.problems.package import Package, read_package
from tests.support.packages import ByteFiles, archive, folder, refusal, run_wrapper

# ByteFiles of a directory, and the names of its tests: (sample, name).
SHAPES: dict[str, tuple[list[str], list[tuple[bool, str]]]] = {
    "in and out": (["1.in", "1.out", "2.in", "2.out"], [(False, "1"), (False, "2")]),
    "in and ans": (["a.in", "a.ans"], [(False, "a")]),
    "in and a": (["a.in", "a.a"], [(False, "a")]),
    "in and ok": (["01.in", "01.ok"], [(False, "01")]),
    "in and sol": (["01.in", "01.sol"], [(False, "01")]),
    "dat and ans": (["x.dat", "x.ans"], [(False, "x")]),
    "upper case": (["A.INP", "A.OUT"], [(False, "A")]),
    "in.txt": (["1.in.txt", "1.out.txt"], [(False, "1")]),
    "plain and a": (["01", "01.a", "02", "02.a"], [(False, "01"), (False, "02")]),
    "txt and a": (["01.txt", "01.a"], [(False, "01")]),
    "in01": (["in01", "out01", "in02", "out02"], [(False, "01"), (False, "02")]),
    "input1.txt": (["input1.txt", "output1.txt", "input2.txt", "output2.txt"], [(False, "1"), (False, "2")]),
    "input.txt": (["input.txt", "output.txt"], [(False, "1")]),
    "suffix word": (["test1_input.txt", "test1_output.txt"], [(False, "test1")]),
    "two folders": (["input/input00.txt", "output/output00.txt"], [(False, "00")]),
    "two folders, one name": (["in/hand", "out/hand", "in/rand_1", "out/rand_1"], [(False, "hand"), (False, "rand_1")]),
    "two folders, other endings": (["input/1.txt", "output/1.ans"], [(False, "1")]),
    "below tests": (["tests/input/1.txt", "tests/output/1.txt"], [(False, "1")]),
    "number last": (["coci.in.1", "coci.out.1", "coci.in.2", "coci.out.2"], [(False, "coci_1"), (False, "coci_2")]),
    "I and O": (["I.1", "O.1", "I.2", "O.2"], [(False, "1"), (False, "2")]),
    "i1a and o1a": (["sum.i1a", "sum.o1a", "sum.i1b", "sum.o1b"], [(False, "sum_1a"), (False, "sum_1b")]),
    "a folder for each": (["Test01/X.INP", "Test01/X.OUT", "Test02/X.INP", "Test02/X.OUT"],
                          [(False, "Test01_X"), (False, "Test02_X")]),
    "samples by name": (["sample1.in", "sample1.out", "1.in", "1.out"], [(True, "sample1"), (False, "1")]),
    "samples by folder": (["sample/1.in", "sample/1.out", "secret/1.in", "secret/1.out"],
                          [(True, "sample_1"), (False, "secret_1")]),
    "samples as ex": (["ex1.in", "ex1.out", "exam.in", "exam.out"], [(True, "ex1"), (False, "exam")]),
    "counted from 0": (["00.in", "00.out", "01.in", "01.out"], [(False, "00"), (False, "01")]),
    "Jutge": (["sample-1.inp", "sample-1.cor", "test1.inp", "test1.cor"], [(True, "sample-1"), (False, "test1")]),
    "CEOI": (["potion.in1", "potion.ou1"], [(False, "potion_1")]),
    "IOI, older": (["grader.in.1", "grader.expect.1"], [(False, "grader_1")]),
    "AtCoder": (["in/00_sample_00", "out/00_sample_00", "in/01_rnd", "out/01_rnd"],
                [(True, "00_sample_00"), (False, "01_rnd")]),
    "a number behind": (["input/L_1", "output/L_1"], [(False, "L_1")]),
    "a key": (["t1.in", "t1.key"], [(False, "t1")]),
    "a word beside it": (["test_input/1.txt", "test_output/1.txt"], [(False, "1")]),
    "two words": (["input/1.txt", "expected_output/1.txt"], [(False, "1")]),
    "two words in a name": (["tests/2.in", "tests/2.expected_output"], [(False, "2")]),
    "in Spanish": (["entrada1.txt", "salida1.txt"], [(False, "1")]),
    "in Croatian": (["ulaz/1.txt", "izlaz/1.txt"], [(False, "1")]),
    "in Croatian, side by side": (["1.ulaz", "1.izlaz"], [(False, "1")]),
    "in Portuguese": (["entradas/1.txt", "saidas/1.txt"], [(False, "1")]),
    "in Polish": (["wejscie/1.txt", "wyjscie/1.txt"], [(False, "1")]),
    "in Slovak": (["vstup1.txt", "vystup1.txt"], [(False, "1")]),
    "acmp": (["1.t", "1.a"], [(False, "1")]),
    "CCC": (["s3.sample.in", "s3.sample.out", "s3.1-01.in", "s3.1-01.out"],
            [(True, "s3.sample"), (False, "s3.1-01")]),
    "COCI, newer": (["kelvin.dummy.in.1", "kelvin.dummy.out.1", "kelvin.in.1a", "kelvin.out.1a"],
                    [(True, "kelvin.dummy_1"), (False, "kelvin_1a")]),
    "no sample": (["random_sample_1.in", "random_sample_1.out"], [(False, "random_sample_1")]),
    "natural order": (["2.in", "2.out", "10.in", "10.out"], [(False, "1_2"), (False, "2_10")]),
    "data without settings": (["data/sample/1.in", "data/sample/1.out", "data/secret/1.in", "data/secret/1.out"],
                              [(True, "sample_1"), (False, "secret_1")]),
}  # fmt: skip


def files_of(names: list[str], extra: ByteFiles | None = None) -> ByteFiles:
    return {**{name: f"{name}\n".encode() for name in names}, **(extra or {})}


PAIR = files_of(["1.in", "1.out"])


def names_of(package: Package) -> list[tuple[bool, str]]:
    return [(test.sample, test.name.partition("/")[2]) for test in package.manifest.tests]


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str, tmp_path: Path) -> None:
    names, expected = SHAPES[shape]
    root = folder(tmp_path, files_of(names), "sum")
    with read_package(root) as package:
        assert sorted(names_of(package)) == sorted(expected)
        for test in package.manifest.tests:
            stdin, answer = package.read(test.input).decode().strip(), package.read(test.answer).decode().strip()
            assert names.index(answer) == names.index(stdin) + 1, "an input has the answer that stands behind it"
    with read_package(archive(tmp_path, files_of(names), "sum/")) as zipped:
        assert names_of(zipped) == names_of(package)


def test_a_directory_becomes_a_package_of_the_current_format(tmp_path: Path) -> None:
    root = folder(tmp_path, {**PAIR, "sol.py": b"print(1)\n", "wa_x.cpp": b"int main(){}"}, "sum")
    with read_package(root) as package:
        assert package.yaml.problem_format_version == "2025-09"
        assert package.manifest.name == "sum" and package.infer
        assert set(package.submissions) == {"submissions/accepted/sol.py", "submissions/wrong_answer/wa_x.cpp"}
        assert any(note.startswith("not carried over: the time limit") for note in package.notes)
        assert any("solution sol.py as accepted" in note for note in package.notes)


def test_solutions_in_folders_that_say_what_they_do(tmp_path: Path) -> None:
    places = {
        "sols/good/main.c": "accepted/main.c",
        "sols/pass/std.py": "accepted/std.py",
        "sols/slow/solution.c": "time_limit_exceeded/solution.c",
        "Solutions/WA/ok.cpp": "wrong_answer/ok.cpp",
        "submissions/partial/a.cpp": "rejected/a.cpp",
        "x/solution/re/sol.java": "run_time_error/sol.java",
        "x/solution/other/b.c": "accepted/b.c",
        "solutions/CE/c.c": "compiler_error/c.c",
        "solutions/Memory-Limit/m.c": "run_time_error/m.c",
        "solutions/ole/o.c": "rejected/o.c",
        "solutions/bad/z.c": "rejected/z.c",
        "solutions/naive/n.c": "brute_force/n.c",
        "slow/solution.py": "accepted/solution.py",
    }
    files = files_of(["tests/input/t1", "tests/output/t1"], dict.fromkeys(places, b"int main() {}"))
    with read_package(folder(tmp_path, files, "sum")) as package:
        assert set(package.submissions) == {f"submissions/{path}" for path in places.values()}


@pytest.mark.parametrize("name", ["1.in.gz", "in/1.gz"])
def test_compressed_tests(tmp_path: Path, name: str) -> None:
    files = {name: gzip.compress(b"3\n"), name.replace("in", "out"): gzip.compress(b"4\n") * 2, "sol.py": b""}
    unpacked = folder(tmp_path, files, "sum")
    for root in (unpacked, archive(tmp_path, files)):
        with read_package(root) as package:
            (test,) = package.manifest.tests
            assert (test.name, package.read(test.input), package.read(test.answer)) == ("secret/1", b"3\n", b"4\n4\n")
            assert package.manifest.tests[0].input not in {"", package.manifest.tests[0].answer}


@pytest.mark.parametrize("packed", ["1.in", "1.out"])
def test_one_file_of_a_test_is_compressed(tmp_path: Path, packed: str) -> None:
    files = {name: gzip.compress(data) if name == packed else data for name, data in PAIR.items()}
    files = {f"{name}.gz" if name == packed else name: data for name, data in files.items()}
    with read_package(folder(tmp_path, files, "sum")) as package:
        (test,) = package.manifest.tests
        assert [package.read(test.input), package.read(test.answer)] == [PAIR["1.in"], PAIR["1.out"]]


def test_tests_beside_compressed_ones_are_all(tmp_path: Path) -> None:
    inner = archive(tmp_path, {**PAIR, "4.in": b"4\n", "4.out": b"4\n"}, name="t.zip").read_bytes()
    packed = {"2.in.gz": gzip.compress(b"2\n"), "2.out.XZ": lzma.compress(b"2\n") + bytes(4)}
    packed |= {"a/3.in.bz2": bz2.compress(b"3\n"), "a/3.out": b"3\n", "more.zip": inner, "examples.zip": inner}
    files = {**PAIR, **packed}
    for root in (folder(tmp_path, files, "sum"), archive(tmp_path, files)):
        with read_package(root) as package:
            assert [name for _, name in names_of(package)] == ["examples_4", "1", "2", "a_3"]
            notes = "\n".join(package.notes)
            assert "3 compressed files of tests" in notes and "1 test of the archive examples.zip; 1 more are" in notes
            assert "more.zip: its 2 tests are those beside it" in notes


@pytest.mark.parametrize("ending", ["zip", "tar", "tar.gz", "tgz", "tar.xz", "TAR.BZ2"])
def test_archives_beside_plain_tests(tmp_path: Path, ending: str) -> None:
    tests = {"in/7.txt": b"7\n", "out/7.txt": b"7\n"}
    if ending == "zip":
        data = archive(tmp_path, tests, name="t.zip").read_bytes()
    else:
        kind = {"gz": "gz", "tgz": "gz", "xz": "xz", "bz2": "bz2"}.get(ending.rpartition(".")[2].lower(), "")
        root = folder(tmp_path, tests, "packed")
        with tarfile.open(tmp_path / "t.tar", f"w:{kind}") as file:  # type: ignore[call-overload]
            file.add(root, "")
        data = (tmp_path / "t.tar").read_bytes()
    with read_package(folder(tmp_path, {**PAIR, f"set2.{ending}": data}, "sum")) as package:
        assert [name for _, name in names_of(package)] == ["1", "set2_7"]


@pytest.mark.parametrize("name", ["3.in.gz", "secret.zip", "secret/3.in.zst", "secret/group/tests.tar.gz"])
def test_compressed_tests_in_the_package_format_refuse_the_package(tmp_path: Path, name: str) -> None:
    files = {"problem.yaml": b"name: X\n", **files_of(["data/secret/x/1.in", "data/secret/x/1.ans"])}
    files = (
        {path.replace("secret/x/", "sample/"): data for path, data in files.items()} if "secret.zip" in name else files
    )
    with pytest.raises(PackageError, match=f"{re.escape(name)}: is compressed"):
        read_package(folder(tmp_path, {**files, f"data/{name}": b"x"}, "sum"))


def test_compressed_tests_in_tasks_of_tps(tmp_path: Path) -> None:
    files = {
        "problem.json": b'{"name": "x", "time_limit": 1, "memory_limit": 64}', "subtasks.json": b"",
        "tests/0-01.in": b"1\n", "tests/0-01.out": b"1\n",
        "tests/0-02.in.gz": gzip.compress(b"2\n"), "tests/0-02.out.gz": gzip.compress(b"2\n"),
    }  # fmt: skip
    del files["subtasks.json"]
    with read_package(folder(tmp_path, files, "sum")) as package:
        assert len(package.manifest.tests) == 2


@pytest.mark.parametrize("packed", ["tests.zip", "sum_testdata.zip", "data/Cases.zip"])
def test_an_archive_of_tests(tmp_path: Path, packed: str) -> None:
    archive(tmp_path, files_of(["a/1.in", "a/1.out"]), name="inner.zip")
    files = {packed: (tmp_path / "inner.zip").read_bytes(), "solution.cpp": b"int main() {}"}
    with read_package(folder(tmp_path, files, "sum")) as package:
        assert len(package.manifest.tests) == 1 and set(package.submissions) == {"submissions/accepted/solution.cpp"}


def test_inputs_and_outputs_in_two_archives(tmp_path: Path) -> None:
    for name in ("input", "output"):
        archive(tmp_path, {"1.txt": name.encode()}, name=f"{name}.zip")
    files = {f"{name}.zip": (tmp_path / f"{name}.zip").read_bytes() for name in ("input", "output")}
    with read_package(folder(tmp_path, files, "sum")) as package:
        assert [package.read(test.answer) for test in package.manifest.tests] == [b"output"]


def test_an_old_contest_of_domjudge(tmp_path: Path) -> None:
    files = files_of(["sum.small.1.in", "sum.small.1.out", "sum.large.1.in", "sum.large.1.out"])
    own = {
        "domjudge-problem.ini": b"name='The Sum'\ntimelimit='3'\n",
        "sum-solution-ann.py": b"",
        "sum-slow-bob.py": b"",
    }
    with read_package(folder(tmp_path, {**files, **own}, "x")) as package:
        assert package.manifest.title == "The Sum" and package.manifest.limits.cpu == 3 and not package.infer
        folders = {path.split("/")[1] for path in package.submissions}
        assert len(package.manifest.tests) == 2 and folders == {"accepted", "time_limit_exceeded"}


CHECKER = b'#include "testlib.h"\nint main(int c, char** v) { registerTestlibCmd(c, v); quitf(_ok, ""); }\n'


def test_a_checker_beside_the_tests(tmp_path: Path) -> None:
    extra = {"checker.cpp": CHECKER, "testlib.h": b"// testlib\n", "3.in": b""}
    with read_package(folder(tmp_path, {**PAIR, **extra}, "sum")) as package:
        (program,) = package.manifest.validators
        assert set(program.files) == {"build", "checker.cpp", "testlib.h", "wrapper.c"}
        assert any("answers of 1 test" in note for note in package.notes), "a checker can do without"


def test_our_testlib_replaces_a_missing_one(tmp_path: Path) -> None:
    with read_package(folder(tmp_path, {**PAIR, "chk.cpp": CHECKER}, "sum")) as package:
        (program,) = package.manifest.validators
        assert set(program.files) == {"build", "checker.cpp", "testlib.h", "wrapper.c"}
        assert b"registerTestlibCmd" in package.read(program.files["testlib.h"])
        assert any("includes testlib.h, which the package does not have; ours" in note for note in package.notes)


REFUSED: dict[str, tuple[ByteFiles, str]] = {
    "no answer": (files_of(["1.in", "1.out", "2.in"]), "x/2.in: has no answer, as 1 of 2 inputs"),
    "unknown checker": ({**PAIR, "check.cpp": b"int main(){}"}, "does not use testlib.h"),
    "a checker that is called as those of SIO2": (
        files_of(["in/abc1a.in", "out/abc1a.out"], {"abcchk.cpp": b"int main(){}"}),
        "abcchk.cpp: is a checker that does not use testlib.h",
    ),
    "another system's problem.yaml": (
        files_of(["cases/1.in", "cases/1.out"], {"problem.yaml": b"pid: P1\ntitle: X\n"}),
        "x: has problem.yaml, but no data/; its tests (cases/1.in) lie as other systems have them",
    ),
    "a checker in Python": ({**PAIR, "checker.py": b""}, "does not use testlib.h"),
    "half a compressed test": (
        {"1.in.gz": gzip.compress(b"1")[:-4], "1.out.gz": gzip.compress(b"1")},
        "x/1.in.gz: is damaged: Compressed file ended",
    ),
    "an empty file": ({"1.in.gz": b"", "1.out": b"1"}, "x/1.in.gz: is damaged: it is empty"),
    "what is no gzip": ({"1.in.gz": b"1", "1.out.gz": b"1"}, "x/1.in.gz: is damaged:"),
    "something behind a gzip": (
        {"1.in.gz": gzip.compress(b"1") + b"x", "1.out.gz": gzip.compress(b"1")}, "x/1.in.gz: is damaged:",
    ),
    "what is no archive": ({"tests.zip": b"PK"}, "x/tests.zip: "),
    "a task of Terry": (
        {"task.yaml": b"name: x\nmax_score: 6\n",
         **{f"managers/{name}.py": b"" for name in ("generator", "checker", "validator")},
         "statement/x_input_example.txt": b"1\n", "statement/x_output_example.txt": b"1\n"},
        "is a task of Terry, whose inputs are made for each contestant",
    ),
    "a task in task-maker's own format": (
        {"task.toml": b"title = 'x'\n", "gen/gen.toml": b"", "sol/solution.cpp": b""},
        "x/task.toml: is of task-maker, ",
    ),
    "a test in an unknown compression": ({**PAIR, "2.out": b"", "2.in.zst": b"x"}, "2.in.zst: is a test by its name"),
    "a test compressed long ago": ({**PAIR, "2.out": b"", "2.in.Z": b"x"}, "2.in.Z: is a test by its name"),
    "an archive of 7-Zip": ({**PAIR, "tests.7z": b"x"}, "tests.7z: may hold tests"),
    "an archive of WinRAR": ({**PAIR, "secret.RAR": b"x"}, "secret.RAR: may hold tests"),
    "nothing": ({"readme.md": b""}, "has no problem.yaml, and no other known format either (readme.md)"),
    "a contest": ({"contest.xml": b"", "problems/a/problem.xml": b""}, "is a contest of Polygon"),
    "a contest with tests": (
        {"contest.xml": b"", "problems/a/problem.xml": b"", "problems/a/tests/01": b"", "problems/a/tests/01.a": b""},
        "is a contest of Polygon",
    ),
    "a set of packages": (
        {f"{name}/{file}": b"" for name in "abcde" for file in ("problem.yaml", "data/1.in", "data/1.ans")},
        "x: is no package itself, but holds some (a, b, c, d, …); give one of them",
    ),
    "a set of tasks": (
        {f"{name}/{file}": b"" for name in "ab" for file in ("init.yml", "1.in", "1.out")},
        "is no package itself, but holds some (a, b)",
    ),
    "tests of several problems": (
        files_of(["a/1.in", "a/1.out", "b/1.in", "b/1.out"], {"a/a.cpp": b"", "b/b.py": b""}),
        "has tests of several problems (a, b); give the folder of one of them",
    ),
    "a task of an unknown system": (
        {"task.yaml": b"name: x\n", "notes.tgz": b""},
        "x/task.yaml: is of a system that is not known here: neither of CMS",
    ),
    "GEN without its task": (
        files_of(["input/1.txt", "output/1.txt"], {"gen/GEN": b"#ST: 100\n"}),
        "has gen/GEN, but no task.yaml beside it",
    ),
    "a tester of Quera": (
        files_of(["in/input1.txt", "out/output1.txt"], {"tester.cpp": b"int main(){}"}),
        "x/tester.cpp: may be a checker by its name, and does not use testlib.h",
    ),
    "an evaluator of infoarena": (
        files_of(["grader_test1.in", "grader_test1.ok"], {"grader_eval.c": b"int main(){}"}),
        "x/grader_eval.c: may be a checker by its name",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_refused(fault: str, tmp_path: Path) -> None:
    files, sentence = REFUSED[fault]
    assert sentence in refusal(folder(tmp_path, files, "x"))


OWN_JUDGES = [
    ("problem.json", b'{"time_limit": 1000, "spj": {"language": "C++"}}', 'spj": {'),
    ("config.yml", b"time_limit: 1\nchecker_name: yesno\n", "checker_name: yesno"),
    (
        "a.cdf",
        b'{"tasks": [{"specialJudge": "", "comparisonMode": 1}, {"specialJudge": "chk"}]}',
        'specialJudge": "chk',
    ),
    ("judge.json", b'{"judgeType": "interactive"}', 'judgeType": "interactive'),
    ("data/conf.ini", b"checker=points.cpp", "checker=points.cpp"),
    ("problem.cfg", b'standard_checker = "cmp_double"\n', 'standard_checker = "cmp_double'),
    ("serve.cfg", b'[problem]\ncheck_cmd = "check"\n', 'check_cmd = "check'),
    ("serve.cfg", b'[problem]\nstandard_checker = "cmp_int"\ninteractor_cmd = "i"\n', 'interactor_cmd = "i'),
]
PCMS2 = b"<problem><judging><script type='%icpc'><testset/></script></judging></problem>"
# Files, the sentence that they are refused with, and what is said of them where `--from directory` is given.
FORCED: list[tuple[ByteFiles, str, str]] = [
    ({**PAIR, "problem.yaml": b"name: X\n"}, "has problem.yaml, but no data/", ""),
    *(
        ({**PAIR, "task.yaml": b"extends: x\n", program: b""}, "task.yaml: is of a system that is not known", "")
        for program in ("grader/manager.cpp", "stub.py", "checker_x.cpp", "grader/cpp/grader.cpp")
    ),
    *(
        ({**PAIR, path: text}, f"x/{path}: says '{words}', which decides verdicts in the system that it is of", "")
        for path, text, words in OWN_JUDGES
    ),
    *(
        ({"input/1.txt": b"", "output/1.txt": b"", path: b"#ST: 100\n"}, f"has {path}, but no task.yaml beside it", "")
        for path in ("gen/GEN", "gen/cases.gen")
    ),
    *(
        (
            {**PAIR, path: b"exit 4\n"},
            f"{path}: decides verdicts, or builds or runs submissions, in",
            f"{path}: nothing says what it is for",
        )
        for path in ("scripts/compare.sh", "compare.sh", "check/checker.sh", "scripts/arbitro.py",
                     "scripts/c/compile.sh", "scripts/c++/run.sh")
    ),
    (
        {**PAIR, "tester.cpp": b"int main(){}", "tester.py": b""},
        "tester.cpp: may be a checker by its name",
        "tester.cpp, tester.py: nothing says what it is for",
    ),
    (
        {"tests/01": b"", "tests/01.a": b"", "problem.xml": PCMS2},
        "problem.xml: is of PCMS2",
        "problem.xml: is of a system that is not known here",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("files", "sentence", "note"), FORCED)
def test_tests_of_a_refused_package_are_read_where_that_is_insisted_on(
    files: ByteFiles, sentence: str, note: str, tmp_path: Path
) -> None:
    root = folder(tmp_path, files, "x")
    message = refusal(root)
    assert sentence in message
    assert "extends" not in str(files) or "may decide verdicts there; make a package" in message
    with read_package(root, options=ImporterWords(format="directory", memory=64)) as package:
        assert len(package.manifest.tests) == 1 and package.manifest.limits.memory == 64 * 1024**2
        assert any(note in line for line in package.notes)


SYSTEMS = {
    "contest.cdf": "a contest of Lemon", "gen/constraints.py": "task-maker", "tests/score": "CD-MOJ",
    "valuer.cfg": "ejudge, or a system like it", "tests/serve.CFG": "ejudge, or a system like it",
    "tests.properties": "Kilonova, or a system like it",
    **dict.fromkeys(
        ["config.yml", "task.yaml", "problem.conf", "subtasks.json", "tests/config.xml", "tests/config.json",
         "data_rule.txt", "judge.txt", "tests/scores.txt", "Config.INI", "PROBLEM"],
        "a system that is not known here",
    ),
}  # fmt: skip
BUILDS = [
    "makefile.in",
    "arc/Makefile.in",
    "configure.in",
    "CMakeLists.txt.in",
    "config.h.in",
    "x.py.in",
    "MANIFEST.in",
]
OTHER_SCRIPTS = ["scripts/compile.sh", "run.sh", "check.sh", "tools/x/compare.sh"]
# Files beside the test 1, and what is said of them.
NOTED: list[tuple[ByteFiles, str]] = [
    *(({path: b"x"}, f"{path}: nothing says what it is for") for path in (*BUILDS, *OTHER_SCRIPTS)),
    *(
        ({path: b"x = 1\n", **{f"{number}.log": b"" for number in range(5)}}, f"{path}: is of {system}; its limits")
        for path, system in SYSTEMS.items()
    ),
    ({"validator.cpp": CHECKER}, "carried over: checker validator.cpp (testlib)"),
    (
        {"scripts/checker.cpp": CHECKER, "scripts/compare.sh": b""},
        "carried over: checker scripts/checker.cpp (testlib)",
    ),
]


@pytest.mark.parametrize(("files", "note"), NOTED)
def test_notes_on_files_beside_the_tests(files: ByteFiles, note: str, tmp_path: Path) -> None:
    with read_package(folder(tmp_path, {**PAIR, **files}, "x")) as package:
        assert names_of(package) == [(False, "1")] and not package.manifest.input_validators
        assert any(note in line for line in package.notes)


# Files in which only the tests decide, and how many there are.
TESTS_ALONE: list[tuple[ByteFiles, int]] = [
    *((files_of([f"{name}.in", f"{name}.out"]), 1) for name in ("config", "1.c", "manifest", "a.h")),
    *(
        ({**PAIR, "conf.json": text}, 1)
        for text in (
            b'{"spj": null, "checker": null}', b"checker: default\nspj: false\n", b"checker_type: ''",
            b"judge_type = std",
            b'standard_checker = "cmp_int_seq"\nvaluer_cmd = "../gvaluer"\n',
            b'standard_checker = "cmp_file_nospace"\ncheck_cmd = ""\n', b'standard_checker="cmp_unsigned_long_long"',
        )
    ),
    (files_of(["easy/1.in", "easy/1.out", "hard/1.in", "hard/1.out"], {"sol.cpp": b"", "easy.py": b""}), 2),
]  # fmt: skip


@pytest.mark.parametrize(("files", "count"), TESTS_ALONE)
def test_tests_that_nothing_else_decides(files: ByteFiles, count: int, tmp_path: Path) -> None:
    with read_package(folder(tmp_path, files, "triangle")) as package:
        assert len(package.manifest.tests) == count and package.manifest.name == "triangle"
        assert package.blobs[package.manifest.tests[0].input] in set((tmp_path / "triangle").rglob("*.in")), "no copy"


def test_a_checker_of_sio2(tmp_path: Path) -> None:
    files = files_of(["in/abc1a.in", "out/abc1a.out"], {"prog/abcchk.cpp": b"int main(){}", "prog/abc.cpp": b""})
    with read_package(folder(tmp_path, files, "abc")) as package:
        assert set(package.manifest.validators[0].files) == {"build", "checker.cpp", "run"}
        assert any("carried over: checker prog/abcchk.cpp, asked as SIO2 does" in note for note in package.notes)


@pytest.mark.parametrize(
    ("prints", "code", "reply"),
    [
        ("echo OK", 42, ""),
        ("printf 'OK\\nwell done\\n100\\n'", 42, "well done"),
        ("printf 'OK\\nnearly\\n50'", 43, "nearly"),
        ("printf 'WRONG\\nline 1: 3\\n'", 43, "line 1: 3"),
        ("true", 1, ""),
        ("exit 3", 1, ""),
        ('test "$(cat "$1" "$2" "$3")" = "$(printf "in\\nout\\nans")" && echo OK', 42, ""),
    ],
)
def test_the_wrapper_of_checkers_of_sio2(tmp_path: Path, prints: str, code: int, reply: str) -> None:
    wrapper = Path(directory.__file__).with_name("sio2_wrapper.sh").read_bytes()
    exit_code, feedback = run_wrapper(tmp_path, wrapper, prints)
    assert (exit_code, feedback.get("teammessage.txt", "")) == (code, reply)


@pytest.mark.parametrize("name", ["polygon", "dmoj", "cms", "tps", "directory"])
def test_a_forced_format_that_it_is_not(name: str, tmp_path: Path) -> None:
    root = folder(tmp_path, {"readme.md": b""}, "x")
    assert f"has not the files of format {name}" in refusal(root, options=ImporterWords(format=name))
    files = {f"{letter}/{file}": b"" for letter in "ab" for file in ("task.yaml", "1.in", "1.out")}
    with read_package(folder(tmp_path, files, "y"), options=ImporterWords(format="directory")) as package:
        assert len(package.manifest.tests) == 2, "a format that is given is taken at its word"


def test_detection_leaves_packages_alone(tmp_path: Path) -> None:
    files = {"problem.yaml": b"", "data/secret/1.in": b"", "data/secret/1.ans": b"", "init.yml": b""}
    opened = open_package_tree(folder(tmp_path, files, "x"))
    assert detect(opened.tree) == "package" and opened.report is None


def test_pairs_of_nothing() -> None:
    assert find_pairs([]) == ([], [])
    assert find_pairs(["out.txt", "main.cpp", "Makefile", "README"]) == ([], ["out.txt"])


def test_limits_with_units_of_an_unknown_system(tmp_path: Path) -> None:
    files = {"testdata/1.in": b"1\n", "testdata/1.ans": b"1\n", "config.yaml": b"time: 2s  \nmemory: 256m\nx: 1\n"}
    with read_package(folder(tmp_path, files)) as package:
        assert (package.manifest.limits.cpu, package.manifest.limits.memory) == (2, 256 * 1024**2)
        assert any("time limit 2s of config.yaml" in note for note in package.notes)
        assert any("its points and checkers are lost" in note for note in package.notes)


@pytest.mark.parametrize("odd", ["time: 700s\nmemory: 1m\n", "time: 0.001ms\nmemory: 99999m\n"])
def test_limits_that_there_cannot_be_are_not_taken(tmp_path: Path, odd: str) -> None:
    files = {"1.in": b"1\n", "1.ans": b"1\n", "config.yaml": odd.encode()}
    with read_package(folder(tmp_path, files), time_limit=1.0) as package:
        assert package.manifest.limits.cpu == 1
        assert any("its limits, points and checkers are lost" in note for note in package.notes)


def test_programs_of_testlib_are_what_they_register_as(tmp_path: Path) -> None:
    calls = {"tester": "registerTestlibCmd(c, v)", "a/b": "registerInteraction(c, v)", "c": "registerValidation (c, v)"}
    sources = {
        f"{name}.cpp": f'#include "testlib.h"\nint main(int c, char** v) {{ {call}; }}' for name, call in calls.items()
    }
    files = {name: text.encode() for name, text in sources.items()}
    with read_package(folder(tmp_path, {**PAIR, **files}, "sum")) as package:
        notes = "\n".join(package.notes)
        assert "checker tester.cpp (testlib)" in notes and "interactor a/b.cpp (testlib)" in notes
        assert (
            "validator c.cpp (testlib)" in notes and package.manifest.validators and package.manifest.input_validators
        )


STATEMENTS: dict[str, tuple[list[str], set[str]]] = {
    "by language": (["statements/es.markdown", "statements/en.markdown", "solutions/es.markdown"],
                {"problem.es.md", "problem.en.md"}),
    "tuack": (["statement/zh-cn.md", "README.md"], {"problem.zh.md"}),
    "the only PDF of description": (["description/L.pdf"], {"problem.en.pdf"}),
    "the only PDF": (["statement/sum_v2.pdf"], {"problem.en.pdf"}),
    "two PDF": (["statement/a.pdf", "statement/b.pdf"], set()),
    "an editorial": (["statement/sum-editorial.pdf"], set()),
    "nothing but a README": (["README.md"], {"problem.en.md"}),
    "CD-MOJ": (["text/enunciado.md", "text/enunciado.en.md", "text/solucao.md"], {"problem.pt.md", "problem.en.md"}),
}  # fmt: skip


@pytest.mark.parametrize("shape", STATEMENTS)
def test_statements_by_their_places(shape: str, tmp_path: Path) -> None:
    names, expected = STATEMENTS[shape]
    with read_package(folder(tmp_path, files_of(["1.in", "1.out", *names]), "sum")) as package:
        assert {statement.main for statement in package.manifest.statements} == expected
        assert not any("is an answer without an input" in note for note in package.notes)


def test_tests_of_several_problems_side_by_side(tmp_path: Path) -> None:
    names = ["A.in", "A.out", "B.in", "B.out"]
    root = folder(tmp_path, files_of(names, {"A.cpp": b"", "b.py": b""}), "contest")
    assert "has tests of several problems (a, b), by their programs" in refusal(root)
    with read_package(root, options=ImporterWords(format="directory")) as package:
        assert len(package.manifest.tests) == 2
    with read_package(folder(tmp_path / "one", files_of(names, {"A.cpp": b""}), "x")) as package:
        assert len(package.manifest.tests) == 2 and not package.submissions


@pytest.mark.parametrize(
    ("names", "program", "accepted"),
    [
        (["A.in", "A.ans"], "A.cpp", True),
        (["tests/sum1a.in", "tests/sum1a.out", "tests/sum2.in", "tests/sum2.out"], "Sum.py", True),
        (["kelvin.in.1", "kelvin.out.1"], "kelvin.c", True),
        (["test1.in", "test1.out"], "test.cpp", False),
        (["a1.in", "a1.out", "b1.in", "b1.out"], "a.cpp", False),
    ],
)
def test_a_solution_that_is_called_as_the_problem(
    names: list[str], program: str, accepted: bool, tmp_path: Path
) -> None:
    with read_package(folder(tmp_path, files_of(names, {program: b""}), "x"), time_limit=1.0) as package:
        assert set(package.submissions) == ({f"submissions/accepted/{program}"} if accepted else set())
