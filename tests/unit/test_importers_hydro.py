"""Problems of Hydro: what its config.yaml says, and what it is refused for."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judge.common.errors import PackageError
from judge.model.problem import ProblemType
from judge.problems.importers import ImporterWords, draft
from judge.problems.package import Package, read_package
from judge.problems.reading.checks import check_package
from tests.support.packages import ByteFiles, folder, refusal, refused, subgroups

TESTLIB = b'#include "testlib.h"\nint main() {}\n'
PLAIN: ByteFiles = {
    "problem.yaml": b"pid: P1\nowner: 2\ntitle: Sums\ntag: []\nnSubmit: 0\n",
    "problem_zh.md": b"# Sums\n",
    "testdata/a1.in": b"1\n",
    "testdata/a1.out": b"1\n",
    "testdata/a2.in": b"2\n",
    "testdata/a2.ans": b"2\n",
    "additional_file/x.zip": b"PK",
}


def load(tmp_path: Path, config: str = "", extra: ByteFiles | None = None) -> Package:
    files = {**PLAIN, **({"testdata/config.yaml": config.encode()} if config else {}), **(extra or {})}
    return read_package(folder(tmp_path, files, "x"))


def groups(package: Package) -> list[tuple[float | None, str, list[str]]]:
    return [(group.max_score, group.aggregation, group.require_pass) for group in subgroups(package.manifest)]


def test_tests_without_settings(tmp_path: Path) -> None:
    with load(tmp_path) as package:
        manifest = package.manifest
        assert (manifest.name, manifest.title, manifest.limits.cpu) == ("P1", "Sums", 1)
        assert manifest.limits.memory == 256 * 1024**2
        assert len(manifest.tests) == 2 and groups(package) == [(100, "sum", [])]
        assert manifest.validator_flags == ["case_sensitive"]


def test_names_that_yaml_has_as_truth_values(tmp_path: Path) -> None:
    """`no`, `on` and `yes` are names of files, subtasks and programs here."""
    config = (
        "filename: no\nuser_extra_files: [yes]\n"
        "subtasks:\n- {id: no, score: 50, cases: [{input: off, output: a1.out}]}\n"
        "- {id: yes, if: [no], score: 50, cases: [{input: a2.in, output: a2.ans}]}\n"
    )
    with load(tmp_path, config, {"testdata/off": b"3\n", "testdata/yes": b"1\n"}) as package:
        manifest = package.manifest
        assert manifest.task is not None
        assert (manifest.task.input_file, manifest.task.output_file) == ("no.in", "no.out")
        assert [group.require_pass for group in subgroups(manifest)] == [[], ["secret/1_no"]]
        assert {name for files in manifest.include.values() for name in files} == {"yes"}


@pytest.mark.parametrize(
    ("config", "seconds", "mib"),
    [
        ("time: 2s\nmemory: 64m", 2, 64),
        ("time: 500ms\nmemory: 1g", 0.5, 1024),
        ("time: 3000\nmemory: 128MB", 3, 128),
        ("time: '500'\nmemory: 64", 0.5, 64),
        ("time: '1.5'", 1.5, 256),
    ],
)
def test_limits(tmp_path: Path, config: str, seconds: float, mib: int) -> None:
    with load(tmp_path, config) as package:
        assert (package.manifest.limits.cpu, package.manifest.limits.memory) == (seconds, mib * 1024**2)


SUBTASKS = """
type: default
time: 2s
filename: sums
checker_type: strict
subtasks:
- {id: 1, score: 30, cases: [{input: a1.in, output: a1.out}]}
- {score: 70, type: sum, if: [1], cases: [{input: a1.in, output: a1.out}, {input: a2.in, output: a2.ans}]}
"""


def test_subtasks(tmp_path: Path) -> None:
    with load(tmp_path, SUBTASKS) as package:
        (first, second) = groups(package)
        assert first == (30, "pass-fail", []) and second[:2] == (70, "sum") and len(second[2]) == 1
        task = package.manifest.task
        assert task is not None and (task.input_file, task.output_file) == ("sums.in", "sums.out")
        assert package.manifest.validator_flags == ["case_sensitive", "space_change_sensitive"]
    cases = "cases: [{input: a1.in, output: a1.out, score: 40}, {input: a2.in, output: a2.ans, score: 60}]\n"
    with load(tmp_path / "cases", cases) as package:
        assert [group[0] for group in groups(package)] == [40, 60]


def pairs(*names: str) -> ByteFiles:
    files = {path: data for path, data in PLAIN.items() if not path.startswith("testdata/")}
    return {**files, **{f"testdata/{name}.{end}": name.encode() for name in names for end in ("in", "out")}}


def listed(*rows: str) -> str:
    return "cases: [" + ", ".join(f"{{input: a1.in, output: a1.out{row}}}" for row in rows) + "]"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (f"subtasks: [{{{listed('')}}}, {{{listed('')}}}]", [50, 50]),
        (
            f"subtasks: [{{{listed('')}, score: 30}}, {{{listed('')}}}, {{{listed('')}}}, {{{listed('')}}}]",
            [30, 23, 23, 24],
        ),
        (f"subtasks: [{{{listed('')}, id: 2, score: 90}}, {{{listed('')}, id: 1}}]", [10, 90]),
        (listed(", score: 60", "", ""), [60, 20, 20]),
        (listed("", "", ""), [33, 33, 34]),
        (listed(", score: 0", ", score: 100"), [0, 100]),
        (f"subtasks: [{{{listed('', '', ', score: 1')}, type: sum, score: 10}}]", [4, 5, 1]),
    ],
)
def test_points_that_are_not_said(tmp_path: Path, config: str, expected: list[int]) -> None:
    with load(tmp_path, config) as package:
        assert [group[0] for group in groups(package)] == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["1-1", "1-2", "2-1", "2-2"], [(50, "pass-fail", 2), (50, "pass-fail", 2)]),
        (["subtask_1_1", "a02_01", "3_1"], [(33, "pass-fail", 1), (33, "pass-fail", 1), (34, "pass-fail", 1)]),
        (["data-1", "data-2"], [(100, "sum", 2)]),
        (["1", "2", "2-1"], [(50, "sum", 2), (50, "pass-fail", 1)]),
        (["big"], [(100, "sum", 1)]),
    ],
)
@pytest.mark.parametrize("config", ["", "time: 2s\n"])
def test_subtasks_by_names(tmp_path: Path, names: list[str], expected: list[tuple[int, str, int]], config: str) -> None:
    files = {**pairs(*names), **({"testdata/config.yaml": config.encode()} if config else {})}
    with read_package(folder(tmp_path, files, "x")) as package:
        folders = [test.name.rpartition("/")[0] for test in package.manifest.tests]
        subtasks = [
            (group.max_score, group.aggregation, folders.count(group.name)) for group in subgroups(package.manifest)
        ]
        assert subtasks == expected


def test_a_dependency_on_no_subtask_is_said(tmp_path: Path) -> None:
    with load(tmp_path, "subtasks: [{id: 1, score: 9, if: [7], cases: [{input: a1.in, output: a1.out}]}]") as package:
        assert groups(package) == [(9, "pass-fail", [])]
        assert any("subtask 1: requires '7', which there is not" in note for note in package.notes)


def test_subtasks_that_name_no_cases(tmp_path: Path) -> None:
    """Theirs are the files with their numbers; files with other numbers are other subtasks."""
    config = "subtasks: [{id: 2, score: 30, if: [1]}, {id: 1, score: 60}]"
    files = {**pairs("a1-1", "a2-1", "a2-2", "a3-1"), "testdata/config.yaml": config.encode()}
    with read_package(folder(tmp_path, files, "x")) as package:
        assert [group.max_score for group in subgroups(package.manifest)] == [60, 30, 10]
        assert [re.findall(r"a(\d)-", test.name)[-1] for test in package.manifest.tests] == ["1", "2", "2", "3"]
        assert [len(group.require_pass) for group in subgroups(package.manifest)] == [0, 1, 0]
    with pytest.raises(PackageError, match=r"subtasks\.2: cases: expected .*, or files as ID-1\.in"):
        load(tmp_path / "none", "subtasks: [{id: 1}, {id: 5}]", pairs("a1-1"))


@pytest.mark.parametrize(
    "config", ["communication\nmanager: m.cc\nnum_processes: 2", "objective\nanswers: {1: [a, 9]}"]
)
def test_types_of_hydro_that_are_not_here_are_said(tmp_path: Path, config: str) -> None:
    with pytest.raises(PackageError, match=r"config\.yaml: type: '\w+' is not one of default"):
        read_package(folder(tmp_path, {"config.yaml": f"type: {config}\n".encode(), "1.in": b""}, "x"))


def test_settings_of_the_oldest_kind(tmp_path: Path) -> None:
    ini = "2\n1.in|1.out|3|30|524288\n2.in|2.out|3|70|524288\n"
    with read_package(folder(tmp_path, {**pairs("1", "2"), "testdata/config.ini": ini.encode()}, "x")) as package:
        assert [group[0] for group in groups(package)] == [30, 70]
        assert (package.manifest.limits.cpu, package.manifest.limits.memory) == (3, 512 * 1024**2)
    for wrong, sentence in (
        ("3\n1.in|1.out|3|30\n", "config.ini: expected the number of tests in its first line"),
        ("1\n1.in|1.out|3\n", "config.ini:2: expected INPUT|OUTPUT|SECONDS|POINTS"),
        (f"1\n1.in|1.out|{'9' * 5000}|1|{'9' * 5000}\n", "config.ini: subtasks.1: time: "),
    ):
        with pytest.raises(PackageError, match=re.escape(sentence)):
            read_package(folder(tmp_path, {**pairs("1", "2"), "testdata/config.ini": wrong.encode()}, "y"))


@pytest.mark.parametrize(("name", "flags"), [("ncmp", []), ("rcmp6", ["float_tolerance", "1e-6"])])
def test_a_checker_of_testlibs_collection(tmp_path: Path, name: str, flags: list[str]) -> None:
    for number, config in enumerate((f"checker_type: testlib\nchecker: {name}\n", f"checker: {{file: {name}}}\n")):
        with load(tmp_path / str(number), config) as package:
            assert (package.manifest.validator_flags, package.manifest.validators) == (flags, [])
    with load(tmp_path / "other", f"checker_type: strict\nchecker: {name}\n") as package:
        assert package.manifest.validator_flags == ["case_sensitive", "space_change_sensitive"]
        assert not any(name in note for note in package.notes)


def test_programs(tmp_path: Path) -> None:
    config = (
        "checker_type: testlib\nchecker: {file: chk.cc, lang: cc.cc17}\nvalidator: val.cc\nuser_extra_files: [s.h]\n"
    )
    extra: ByteFiles = {"testdata/chk.cc": TESTLIB, "testdata/val.cc": TESTLIB, "testdata/s.h": b""}
    with load(tmp_path, config, extra) as package:
        assert package.manifest.validators and package.manifest.input_validators
        assert set(package.manifest.include) >= {"c", "cpp"}
    talk = "type: interactive\ninteractor: talk.cc\n"
    with load(tmp_path / "talk", talk, {"testdata/talk.cc": TESTLIB}) as package:
        assert ProblemType.INTERACTIVE in package.manifest.type
    with load(tmp_path / "handed", "type: submit_answer\n") as package:
        assert ProblemType.SUBMIT_ANSWER in package.manifest.type


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("type: objective", "type: 'objective' is not one of default, interactive, submit_answer"),
        ("time: soon", "time: 'soon' is no limit; expected such as 1s or 1000ms"),
        ("time: 1d", "time: '1d' is no limit"),
        ("time: 700s", "time: 700s is 700 s; expected from 0.001 to 600 s"),
        ("memory: 1k", "memory: 1k is 0.000976562 MiB; expected from 4 to 65536 MiB"),
        ("checker: ncmp\ntype: interactive", "checker: 'ncmp' is not in testdata/"),
        (SUBTASKS.replace("{id: 1,", "{id: 1, time: 1s,"), "time: there are different ones"),
        (SUBTASKS.replace("type: sum", "type: max"), "subtasks.2: type: 'max' is neither min nor sum"),
        (SUBTASKS.replace("a2.ans", "a3.ans"), "cases.2: output: 'a3.ans' is not in testdata/"),
        (
            SUBTASKS.replace("{score: 70", "{id: 1, score: 70"),
            "two subtasks are called '1'; give each a name of its own",
        ),
        ("subtasks: [1]", "subtasks: expected a list of mappings"),
        ("subtasks: [{score: 1}]", "subtasks.1: cases: expected a list of mappings"),
        ("checker_type: lemon\nchecker: a1.in", "checker_type: 'lemon' is not one of default, strict, testlib"),
        ("checker_type: testlib", "checker: is missing"),
        ("type: interactive", "interactor: is missing"),
        ("filename: ../x", "filename: '../x' is not the name of a file"),
        ("time_limit_rate: {py: 5}", "time_limit_rate: a language has no time limit of its own here"),
        ("template: {cc: ['', '']}", "template: no code is put around submissions here"),
        ("langs: [vb, _]", "langs: none of 'vb, _' is known here"),
    ],
)
def test_refused(tmp_path: Path, config: str, sentence: str) -> None:
    assert sentence in refused(load, tmp_path, config)


def test_the_languages_that_are_named(tmp_path: Path) -> None:
    with load(tmp_path, "langs: [cc.cc17o2, cc, py.py3, vb]\n") as package:
        assert package.manifest.languages == ["cpp", "python3"]
        assert any("langs: vb: not known here" in note for note in package.notes)
    with load(tmp_path / "any") as package:
        assert package.manifest.languages == []


def test_an_export_without_its_tests(tmp_path: Path) -> None:
    files = {path: data for path, data in PLAIN.items() if not path.startswith("testdata/")}
    sentence = "x: is a problem of Hydro without testdata/; export it with its tests"
    assert refusal(folder(tmp_path, files, "x")) == sentence


def test_the_tests_may_still_be_taken_alone(tmp_path: Path) -> None:
    with read_package(
        folder(tmp_path, PLAIN, "x"), options=draft.ImporterWords(format="directory"), time_limit=1
    ) as package:
        assert len(package.manifest.tests) == 2


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 9), st.sampled_from(["a1.in", "a1.out", "1s", "min", "x"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["score", "type", "if", "cases", "input", "output", "time", "file"]), inner),
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(["subtasks", "cases", "checker", "type", "time", "filename"]), VALUES))
def test_any_settings_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, config: dict[str, object]) -> None:
    root = folder(tmp_path_factory.mktemp("any"), {**PLAIN, "testdata/config.yaml": draft.dump(config)}, "x")
    checked = check_package(root)
    if checked.package is not None:
        checked.package.close()


def test_different_limits_where_one_is_given_for_all(tmp_path: Path) -> None:
    config = SUBTASKS.replace("{id: 1,", "{id: 1, time: 1s, memory: 64m,")
    with pytest.raises(PackageError, match=r"time: there are different ones, .* give one for all \(--time-limit\)"):
        read_package(folder(tmp_path / "a", {**PLAIN, "testdata/config.yaml": config.encode()}, "x"))
    root, options = (
        folder(tmp_path / "b", {**PLAIN, "testdata/config.yaml": config.encode()}, "x"),
        ImporterWords(memory=32),
    )
    assert "time: there are different ones" in refusal(root, options=options)
    with read_package(root, time_limit=3.0, options=ImporterWords(memory=32, time_limit=3.0)) as package:
        assert (package.manifest.limits.cpu, package.manifest.limits.memory) == (3, 32 * 1024**2)
        assert "not carried over: time: there are different ones; --time-limit is for all" in package.notes


def test_solutions_of_an_export_and_what_is_left(tmp_path: Path) -> None:
    beside = {"solution/std.cpp": b"", "testdata/brute.py": b"", "testdata/9.in": b"", "problem.md": b"", "x.txt": b""}
    files = {**PLAIN, **beside, "problem_zh.md": b"# x\n", "testdata/config.yaml": SUBTASKS.encode()}
    with read_package(folder(tmp_path, files, "x")) as package:
        assert set(package.submissions) == {"submissions/accepted/std.cpp", "submissions/brute_force/brute.py"}
        assert "not carried over: problem.md: there is a statement in that language already" in package.notes
        assert any("testdata/9.in" in note and "x.txt" in note for note in package.notes)
