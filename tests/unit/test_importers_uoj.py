"""Tests beside the settings of UOJ, SYZOJ and Hydro, without anything else that says whose they are."""

import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from judge.common.errors import PackageError
from judge.problems import importers
from judge.problems.importers import ImporterWords, open_package_tree
from judge.problems.package import Package, read_package
from tests.support.packages import ByteFiles, folder, refused, run_wrapper, subgroups

TESTLIB = b'#include "testlib.h"\nint main() {}\n'
PARTS = b'#include "testlib.h"\nint main() { quitp(0.5); }\n'
CONF = """use_builtin_judger on
use_builtin_checker ncmp
n_tests 3
n_ex_tests 2
n_sample_tests 1
input_pre ab
input_suf in
output_pre ab
output_suf out
time_limit 2
memory_limit 128
output_limit 32
"""
SUBTASKS = """n_subtasks 2
subtask_end_1 1
subtask_score_1 30
subtask_end_2 3
subtask_score_2 70
subtask_dependence_2 many
subtask_dependence_2_1 1
"""


def numbered(before: str, after: str, numbers: range, folder: str = "") -> ByteFiles:
    return {f"{folder}{before}{n}.{end}": f"{n}\n".encode() for n in numbers for end in ("in", after)}


def uoj(tmp_path: Path, conf: str, extra: ByteFiles | None = None, base: str = "") -> Package:
    files = {**numbered("ab", "out", range(1, 4), base), **numbered("ex_ab", "out", range(1, 3), base)}
    files |= {f"{base}problem.conf": conf.encode(), f"{base}std.cpp": b"int main() {}\n", **(extra or {})}
    return read_package(folder(tmp_path, files, "x"))


def groups(package: Package) -> list[tuple[float | None, str, int]]:
    return [(group.max_score, group.aggregation, len(group.require_pass)) for group in subgroups(package.manifest)]


@pytest.mark.parametrize("base", ["", "data/"])
def test_problem_conf(tmp_path: Path, base: str) -> None:
    with uoj(tmp_path, CONF + SUBTASKS, {"README.md": b"# X\n"} if base else {}, base) as package:
        manifest = package.manifest
        assert (manifest.origin, manifest.limits.cpu, manifest.limits.memory) == ("uoj", 2, 128 * 1024**2)
        assert manifest.limits.output == 32 * 1024**2 and not package.infer
        assert groups(package) == [(30, "pass-fail", 0), (70, "pass-fail", 1)]
        assert [(test.sample, package.read(test.input)) for test in manifest.tests] == [
            (True, b"1\n"), (False, b"1\n"), (False, b"2\n"), (False, b"3\n"),
        ]  # fmt: skip
        assert manifest.validator_flags == [] and set(package.submissions) == {"submissions/accepted/std.cpp"}
        assert any("1 extra tests, which take 3 points away" in note for note in package.notes)


def test_comments_of_problem_conf(tmp_path: Path) -> None:
    conf = CONF.replace("n_tests 3\n", "n_tests 3   // tests\n").replace("time_limit 2\n", "time_limit\t2 # s\n# 1\n\n")
    with uoj(tmp_path, conf) as package:
        assert len(package.manifest.tests) == 4 and package.manifest.limits.cpu == 2


def test_problem_conf_without_subtasks_shares_the_points(tmp_path: Path) -> None:
    with uoj(tmp_path, CONF + "point_score_1 20\n") as package:
        assert sorted(group[0] or 0 for group in groups(package)) == [20, 40, 40]


def test_a_checker_of_uoj_gives_shares_of_points(tmp_path: Path) -> None:
    conf = CONF.replace("use_builtin_checker ncmp\n", "") + SUBTASKS + "subtask_type_2 min\n"
    with uoj(tmp_path, conf, {"chk14.cpp": PARTS, "val.cpp": TESTLIB, "download/a.txt": b""}) as package:
        assert [group[1] for group in groups(package)] == ["pass-fail", "min"]
        (program,) = package.manifest.validators
        assert b"-DSHARE" in package.read(program.files["build"])
    with closing(open_package_tree(tmp_path / "x").tree) as tree:
        assert {"input_validators/validator/validator.cpp", "attachments/a.txt"} <= tree.files.keys()
    assert "problem.conf: has no use_builtin_checker, and there is no chk.cpp" in refused(uoj, tmp_path / "none", conf)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("with_implementer on", "with_implementer: there is no implementer.c or implementer.cpp; add what"),
        ("interaction_mode on", "interaction_mode: its interactor judges as well"),
        ("token x", "token: it is to stand in the first line"),
        ("use_builtin_judger off", "use_builtin_judger: a judger of its own"),
        ("time_limit_2 5", "time_limit_2: a test has no limit of its own here"),
        ("n_tests 4", "test 4: 'ab4.in' is not in the package"),
        ("n_tests x", "n_tests: 'x' is not a whole number"),
        ("n_subtasks 1", "subtask_end_1: 0 leaves tests out, or the subtask empty"),
        (SUBTASKS + "subtask_type_1 max", "subtask_type_1: 'max' is neither packed nor min"),
        ("use_builtin_checker odd", "checker: 'odd' is not in the package"),
    ],
)
def test_settings_of_uoj_alone_are_refused(tmp_path: Path, line: str, sentence: str) -> None:
    assert sentence in refused(uoj, tmp_path, f"{CONF}{line}\n")
    with read_package(tmp_path / "x", options=ImporterWords(format="directory")) as package:
        assert package.manifest.tests


@pytest.mark.parametrize("lies", ["", "require/"])
def test_an_implementer_of_uoj_is_compiled_with_submissions(tmp_path: Path, lies: str) -> None:
    extra = {f"{lies}implementer.cpp": b"int main() {}\n", "require/lib.h": b"", "require/implementer.pas": b""}
    with uoj(tmp_path, CONF + "with_implementer on\n", extra) as package:
        assert package.manifest.task is not None and package.manifest.task.entry == "implementer"
        assert package.manifest.languages == ["cpp"]
        assert {name: sorted(files) for name, files in package.manifest.include.items()} == {
            "cpp": ["implementer.cpp", "lib.h"]
        }
        assert sorted(package.submissions) == ["submissions/accepted/std.cpp"]
    with pytest.raises(PackageError, match=r"require/a\.cpp: would be compiled by itself here"):
        uoj(tmp_path / "more", CONF + "with_implementer on\n", {**extra, "require/a.cpp": b""})


def test_files_beside_submissions_of_uoj(tmp_path: Path) -> None:
    with uoj(tmp_path, CONF, {"require/lib.h": b"", "require/a.cpp": b"", "require/b/c.h": b""}) as package:
        assert {name: sorted(files) for name, files in package.manifest.include.items()} == {
            "c": ["lib.h"], "cpp": ["lib.h"], "default": ["lib.h"],
        }  # fmt: skip


def test_problem_conf_is_as_long_as_other_settings(tmp_path: Path) -> None:
    """Each line of it is looked at for many tests."""
    with uoj(tmp_path, CONF + SUBTASKS + "subtask_dependence_2_2 1\n") as package:
        assert [requires for _, _, requires in groups(package)] == [0, 1]
    assert "problem.conf" in refused(uoj, tmp_path / "longer", CONF + "a 1\n" * 65536)


@pytest.mark.parametrize(("checker", "flags"), [("rcmp6", ["float_tolerance", "1e-6"]), ("wcmp", ["case_sensitive"])])
@pytest.mark.parametrize("subtasks", ["", SUBTASKS])
def test_samples_are_compared_as_tests_are(tmp_path: Path, checker: str, flags: list[str], subtasks: str) -> None:
    with uoj(tmp_path, CONF.replace("ncmp", checker) + subtasks) as package:
        manifest = package.manifest
        assert sum(test.sample for test in manifest.tests) == 1
        assert {tuple(manifest.validator_flags if test.flags is None else test.flags) for test in manifest.tests} == {
            tuple(flags)
        }


@pytest.mark.parametrize("line", ["subtask_dependence_2_2 3", "subtask_dependence_2_2 x", "subtask_dependence_1 0"])
def test_a_dependence_on_no_subtask_is_refused(tmp_path: Path, line: str) -> None:
    """Without it, the subtask would give points that it does not give there."""
    key, value = line.split()
    assert f"{key}: '{value}' is no subtask; there are 2" in refused(uoj, tmp_path, f"{CONF}{SUBTASKS}{line}\n")


def test_settings_of_problem_conf_that_are_not_known_are_named_once(tmp_path: Path) -> None:
    known = "# a comment\n\ntime_limit_1 2\npoint_score_1 5\nsubtask_type_1 packed\n"
    unknown = "subtask_used_time_type_1 max\nsubtask_used_time_type_2 max\nscore_type real # a comment\n"
    with uoj(tmp_path, CONF + SUBTASKS + known + unknown) as package:
        notes = [note.partition("problem.conf: ")[2] for note in package.notes if "nothing is known" in note]
    assert notes == [f"{key}: nothing is known of this key" for key in ("subtask_used_time_type", "score_type")]


def test_answers_are_handed_in(tmp_path: Path) -> None:
    with uoj(tmp_path, CONF.replace("n_ex_tests 2\n", "") + "submit_answer on\n") as package:
        assert {test.name.rpartition("/")[2] for test in package.manifest.tests} == {"ab1", "ab2", "ab3"}


DATA = """
subtasks:
- {score: 30, type: sum, cases: [1, 2]}
- {score: 70, type: min, cases: ['3']}
inputFile: 'dat#.in'
outputFile: 'dat#.ans'
"""


def syzoj(tmp_path: Path, data: str, extra: ByteFiles | None = None) -> Package:
    files = {**numbered("dat", "ans", range(1, 4)), "data.yml": data.encode(), **(extra or {})}
    return read_package(folder(tmp_path, files, "x"))


def test_data_yml(tmp_path: Path) -> None:
    with syzoj(tmp_path, DATA, {"std.cpp": b"int main() {}\n"}) as package:
        assert package.manifest.origin == "syzoj" and package.infer
        assert groups(package) == [(30, "sum", 0), (70, "min", 0)]
        assert package.manifest.validator_flags == ["case_sensitive"]
    with syzoj(tmp_path / "shared", DATA.replace("type: min, cases: ['3']", "type: mul, cases: [1, 3]")) as package:
        task = package.manifest.task
        assert task is not None and [subtask.rule for subtask in task.subtasks] == ["sum", "mul"]


def test_data_yml_with_programs(tmp_path: Path) -> None:
    data = DATA + "specialJudge: {language: cpp11, fileName: spj.cpp}\nextraSourceFiles:\n"
    data += "- {language: cpp, files: [{name: lib_cpp.h, dest: lib.h}]}\n"
    with syzoj(tmp_path, data, {"spj.cpp": b"int main() {}\n", "lib_cpp.h": b"\n"}) as package:
        (program,) = package.manifest.validators
        assert set(program.files) == {"build", "checker.cpp", "run"}
    with closing(open_package_tree(tmp_path / "x").tree) as tree:
        assert "include/cpp/lib.h" in tree.files


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (DATA + "interactor: {language: cpp, fileName: i.cpp}\n", "interactor: it speaks as only"),
        (DATA + "specialJudge: {language: cpp, fileName: i.cpp}\n", "specialJudge: 'i.cpp' is not in the package"),
        (DATA + "specialJudge: {language: cpp, fileName: spj.cpp}\n", "asks for the submission's code"),
        (DATA.replace("type: sum", "type: max"), "subtasks.1: type: 'max' is none of sum, min, mul"),
        (DATA.replace("[1, 2]", "[1, 9]"), "subtasks.1: inputFile: 'dat9.in' is not in the package"),
        (DATA.replace("subtasks", "subtask"), "unknown key 'subtask'; did you mean 'subtasks'?"),
    ],
)
def test_settings_of_syzoj_alone_are_refused(tmp_path: Path, data: str, sentence: str) -> None:
    assert sentence in refused(syzoj, tmp_path, data, {"spj.cpp": b'int main() { open("code"); }\n'})


def test_names_of_outputs_are_as_long_as_names_of_files(tmp_path: Path) -> None:
    """A long pattern and many tests came to gigabytes."""
    data = f"inputFile: '-'\noutputFile: '-'\nuserOutput: '{'x' * 200_000}#'\n"
    data += f"subtasks: [{{type: sum, score: 100, cases: {list(range(300))}}}]\n"
    tracemalloc.start()
    try:
        assert "is longer than the name of a file" in refused(syzoj, tmp_path, data)
        assert tracemalloc.get_traced_memory()[1] < 20 * 1024**2
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("prints", "code", "part"),
    [
        ("echo 100; echo good >&2", 42, ""),
        ("echo 0; echo bad >&2", 43, ""),
        ("printf 37.5", 42, "0.375"),
        ("echo 101", 1, ""),
        ("true", 1, ""),
        ("echo -1", 1, ""),
        ("echo 100; exit 3", 1, ""),
        ('test "$(cat input user_out answer)" = "$(printf "in\\nout\\nans")" && echo 100', 42, ""),
    ],
)
def test_the_wrapper_of_checkers_of_syzoj(tmp_path: Path, prints: str, code: int, part: str) -> None:
    wrapper = Path(importers.__file__).with_name("syzoj_wrapper.sh").read_bytes()
    exit_code, feedback = run_wrapper(tmp_path, wrapper, prints)
    assert (exit_code, feedback.get("score_multiplier.txt", "")) == (code, part)


INI = b"2\r\nData1.in|Data1.out|1|40|65536\r\nData2.in|Data2.out|1|60|65536\r\n"


@pytest.mark.parametrize("name", ["Config.ini", "CONFIG.INI", "config.ini", "testdata/Config.ini"])
@pytest.mark.parametrize("folders", [("Input/", "Output/"), ("", "")])
def test_config_ini_in_any_capitals(tmp_path: Path, name: str, folders: tuple[str, str]) -> None:
    base = name.rpartition("/")[0] + "/" if "/" in name else ""
    files: ByteFiles = {name: INI, "statement.md": b"# X\n", "sol.cpp": b"int main() {}\n"}
    files |= {f"{base}{folders[0]}data{n}.IN": b"%d\n" % n for n in (1, 2)}
    files |= {f"{base}{folders[1]}data{n}.OUT": b"%d\n" % -n for n in (1, 2)}
    with read_package(folder(tmp_path, files, "x")) as package:
        assert [group[0] for group in groups(package)] == [40, 60]
        assert (package.manifest.limits.cpu, package.manifest.limits.memory) == (1, 64 * 1024**2)
        assert [package.read(test.answer) for test in package.manifest.tests] == [b"-1\n", b"-2\n"]
        assert set(package.submissions) == {"submissions/accepted/sol.cpp"}


def test_an_input_and_an_answer_of_one_name_in_two_folders(tmp_path: Path) -> None:
    files: ByteFiles = {"Config.ini": b"1\nd1.txt|d1.txt|1|100\n", "Input/d1.txt": b"1\n", "Output/d1.txt": b"2\n"}
    with read_package(folder(tmp_path, files, "x")) as package:
        (test,) = package.manifest.tests
        assert (package.read(test.input), package.read(test.answer)) == (b"1\n", b"2\n")


def test_config_yaml_of_hydro_beside_tests_alone(tmp_path: Path) -> None:
    conf = b"type: default\ntime: 2s\nsubtasks:\n- {score: 40, cases: [{input: 1.in, output: 1.out}]}\n"
    conf += b"- {score: 60, if: [1], cases: [{input: 2.in, output: 2.out}]}\n"
    with read_package(folder(tmp_path, {**numbered("", "out", range(1, 3)), "config.yaml": conf}, "x")) as package:
        assert [group[0] for group in groups(package)] == [40, 60] and package.manifest.limits.cpu == 2


def test_points_of_testlib_are_shares_for_hydro(tmp_path: Path) -> None:
    conf = b"checker_type: testlib\nchecker: chk.cc\n"
    files = {**numbered("", "out", range(1, 3)), "config.yaml": conf, "chk.cc": PARTS}
    with read_package(folder(tmp_path, files, "x")) as package:
        assert b"-DSHARE" in package.read(package.manifest.validators[0].files["build"])


def test_limits_of_single_tests_where_one_is_given_for_all(tmp_path: Path) -> None:
    files = {**numbered("ab", "out", range(1, 4)), **numbered("ex_ab", "out", range(1, 3))}
    root = folder(tmp_path, {**files, "problem.conf": f"{CONF}time_limit_2 5\nmemory_limit_1 64\n".encode()}, "x")
    with pytest.raises(PackageError, match=r"time_limit_2: .*; give one for all \(--time-limit\)"):
        read_package(root, options=ImporterWords(memory=64))
    with pytest.raises(PackageError, match=r"memory_limit_1: .*; give one for all \(--memory\)"):
        read_package(root, options=ImporterWords(time_limit=3.0))
    with read_package(root, time_limit=3.0, options=ImporterWords(memory=64, time_limit=3.0)) as package:
        assert (package.manifest.limits.cpu, package.manifest.limits.memory) == (3, 64 * 1024**2)
        losses = {note for note in package.notes if "single tests" in note}
        assert losses == {
            f"not carried over: {key}_limit of single tests: --{option} is for all"
            for key, option in (("time", "time-limit"), ("memory", "memory"))
        }
