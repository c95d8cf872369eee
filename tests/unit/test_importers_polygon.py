"""Packages of Polygon: each shape that public packages have, read as a package of format 2025-09."""

import contextlib
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from judge.common.errors import PackageError
from judge.model.problem import ProblemProgram, ProblemType
from judge.problems import expectations
from judge.problems.importers import draft, open_package_tree
from judge.problems.importers.making import UnmadeError
from judge.problems.package import Package, read_package
from tests.support.packages import ByteFiles, archive, folder, refused

CHECKER = b'#include "testlib.h"\nint main(int c, char** v) { registerTestlibCmd(c, v); quitf(_ok, ""); }\n'
TESTLIB = b"// testlib\n"
HEAD = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<problem revision="5" short-name="two-sums" url="https://polygon.codeforces.com/p1/x/two-sums">
    <names><name language="english" value="Two Sums"/><name language="russian" value="Две суммы"/></names>
    <statements>
        <statement charset="UTF-8" language="english" path="statements/english/problem.tex" type="application/x-tex"/>
        <statement charset="UTF-8" language="english" path="statements/.html/english/problem.html" type="text/html"/>
        <statement language="russian" path="statements/.pdf/russian/problem.pdf" type="application/pdf"/>
    </statements>
"""
JUDGING = """<judging cpu-name="Some CPU" cpu-speed="3600" run-count="{runs}"
    input-file="{input}" output-file="{output}">
<testset name="tests"><time-limit>1500</time-limit><memory-limit>268435456</memory-limit>
<test-count>{count}</test-count>
<input-path-pattern>tests/%02d</input-path-pattern><answer-path-pattern>tests/%02d.a</answer-path-pattern>
<tests>{tests}</tests>{groups}</testset></judging>
"""
FILES = """<files><resources>
<file path="files/olymp.sty"/><file path="files/testlib.h" type="h.g++"/>{resources}</resources>
<executables><executable><source path="files/gen.cpp" type="cpp.g++17"/></executable>
<executable><source path="files/val.cpp" type="cpp.g++17"/></executable></executables></files>
"""
CUSTOM = '<checker type="testlib"><source path="files/check.cpp" type="cpp.g++17"/><copy path="check.cpp"/></checker>'
VALIDATORS = '<validators><validator><source path="files/val.cpp" type="cpp.g++17"/></validator></validators>'
SOLUTIONS = (
    '<solution tag="main"><source path="solutions/main.cpp" type="cpp.g++17"/></solution>'
    '<solution tag="wrong-answer"><source path="solutions/wa.py" type="python.3"/></solution>'
)
TESTS = '<test method="manual" sample="true"/><test cmd="gen 1" method="generated"/><test method="manual"/>'


def polygon(
    tests: str = TESTS,
    *,
    count: int | None = None,
    groups: str = "",
    checker: str = CUSTOM,
    interactor: str = "",
    solutions: str = SOLUTIONS,
    resources: str = "",
    extra: ByteFiles | None = None,
    **judging: Any,
) -> ByteFiles:
    """A small package; `more` adds to or replaces its files."""
    total = count if count is not None else tests.count("<test ")
    fields = {"input": "", "output": "", "runs": 1, **judging}
    xml = HEAD + JUDGING.format(count=total, tests=tests, groups=groups, **fields) + FILES.format(resources=resources)
    xml += f"<assets>{checker}{interactor}{VALIDATORS}<solutions>{solutions}</solutions></assets></problem>"
    files = {
        "problem.xml": xml.encode(),
        "files/testlib.h": TESTLIB,
        "files/check.cpp": CHECKER,
        "files/val.cpp": CHECKER,
        "files/gen.cpp": CHECKER,
        "solutions/main.cpp": b"int main() {}\n",
        "solutions/wa.py": b"print(0)\n",
        "statements/.html/english/problem.html": b"<p>Add.</p>",
        "statements/.pdf/russian/problem.pdf": b"%PDF-1.4\n",
    }
    for number in range(1, total + 1):
        files[f"tests/{number:02d}"] = f"{number} {number}\n".encode()
        files[f"tests/{number:02d}.a"] = f"{2 * number}\n".encode()
    return {**files, **(extra or {})}


def load(tmp_path: Path, files: ByteFiles) -> Package:
    return read_package(folder(tmp_path, files, "package"))


def yaml_of(tmp_path: Path, files: ByteFiles, path: str) -> Any:
    """One YAML file of the package that was made."""
    opened = open_package_tree(folder(tmp_path, files, "package"))
    return yaml.safe_load(opened.tree.read(path, 1 << 20))


def groups_of(package: Package) -> dict[str, tuple[float | None, str, list[str]]]:
    return {group.name: (group.max_score, group.aggregation, group.require_pass) for group in package.manifest.groups}


def validator_of(package: Package) -> ProblemProgram:
    return package.manifest.validators[0]


# --- what is carried over ----------------------------------------------------------------------------------------


def test_an_ordinary_package(tmp_path: Path) -> None:
    package = load(tmp_path, polygon())
    manifest = package.manifest
    assert (manifest.name, manifest.title) == ("two-sums", "Two Sums")
    assert manifest.limits.cpu == 1.5 and manifest.limits.memory == 256 * 1024**2
    assert [(test.name, test.sample) for test in manifest.tests] == [
        ("sample/01", True), ("secret/02", False), ("secret/03", False),
    ]  # fmt: skip
    assert package.read(manifest.tests[1].input) == b"2 2\n" and package.read(manifest.tests[1].answer) == b"4\n"
    assert set(validator_of(package).files) == {"build", "checker.cpp", "testlib.h", "wrapper.c"}
    assert manifest.type == [ProblemType.PASS_FAIL]
    assert set(package.submissions) == {"submissions/accepted/main.cpp", "submissions/wrong_answer/wa.py"}
    assert package.yaml.problem_format_version == "2025-09" and package.yaml.name == {
        "en": "Two Sums",
        "ru": "Две суммы",
    }
    assert "carried over: time limit 1.5 s, meant for Some CPU" in package.notes


def test_a_source_that_is_listed_thousands_of_times_is_imported_at_once(tmp_path: Path) -> None:
    solutions = '<solution tag="main"><source path="solutions/main.cpp" type="cpp.g++17"/></solution>' * 8000
    root = folder(tmp_path, polygon(solutions=solutions), "package")
    begin = time.process_time()
    files = open_package_tree(root).tree.files
    assert time.process_time() - begin < 3
    assert {"submissions/accepted/main.cpp", "submissions/accepted/main_2.cpp"} < files.keys()
    assert "submissions/accepted/main_8000.cpp" in files and "submissions/accepted/main_8001.cpp" not in files


def test_thousands_of_names_become_the_same_at_once() -> None:
    begin = time.process_time()
    slugs = draft.unique([*map(chr, range(0x4E00, 0x4E00 + 16000)), "X"])
    assert time.process_time() - begin < 3
    assert (slugs[chr(0x4E00)], slugs[chr(0x4E01)], slugs["X"]) == ("x", "x_2", "X_16001")
    assert len(set(slugs.values())) == 16001


def test_from_an_archive(tmp_path: Path) -> None:
    for prefix in ("", "two-sums-5/"):
        with read_package(archive(tmp_path, polygon(), prefix, "two-sums-5$linux.zip")) as package:
            assert package.manifest.name == "two-sums" and len(package.manifest.tests) == 3


def test_files_of_the_converted_package(tmp_path: Path) -> None:
    tree = open_package_tree(folder(tmp_path, polygon(), "package")).tree
    assert {path for path in tree.files if not path.startswith(("data/", "output_validator/"))} == {
        "problem.yaml", "statement/problem.en.html", "statement/problem.ru.pdf", "generators/gen.cpp",
        "input_validators/validator/build", "input_validators/validator/run", "input_validators/validator/testlib.h",
        "input_validators/validator/validator.cpp", "submissions/accepted/main.cpp", "submissions/wrong_answer/wa.py",
        "submissions/submissions.yaml",
    }  # fmt: skip


def standard(name: str) -> str:
    source = '<source path="files/check.cpp" type="cpp.g++17"/>'
    return f'<checker name="std::{name}.cpp" type="testlib">{source}</checker>'


STANDARD = {
    "wcmp": ["case_sensitive"],
    "ncmp": [],
    "yesno": [],
    "rcmp4": ["float_tolerance", "1e-4"],
    "rcmp9": ["float_tolerance", "1e-9"],
    "rcmp": ["float_absolute_tolerance", "1.5e-6"],
}


@pytest.mark.parametrize("name", STANDARD)
def test_standard_checkers_become_the_default_validator(name: str, tmp_path: Path) -> None:
    package = load(tmp_path, polygon(checker=standard(name)))
    assert package.manifest.validator_flags == STANDARD[name]
    assert not any(path.startswith("output_validator") for path in open_package_tree(tmp_path / "package").tree.files)


def test_other_standard_checkers_are_compiled_where_their_source_is(tmp_path: Path) -> None:
    for name in ("lcmp", "fcmp", "uncmp", "caseicmp"):
        with load(tmp_path / name, polygon(checker=standard(name))) as package:
            assert "checker.cpp" in validator_of(package).files
    with load(tmp_path / "gone", polygon(checker=standard("lcmp").replace("check.cpp", "gone.cpp"))) as package:
        assert package.manifest.validator_flags == ["case_sensitive"]
        assert any("without its source" in note for note in package.notes)


def test_the_checkers_copy_stands_in_for_its_source(tmp_path: Path) -> None:
    checker = '<checker type="testlib"><source path="files/lost.cpp"/><copy path="check.cpp"/></checker>'
    assert validator_of(load(tmp_path, polygon(checker=checker, extra={"check.cpp": CHECKER}))) is not None


# --- points ------------------------------------------------------------------------------------------------------

SAMPLE = '<test method="manual" points="0.0" sample="true"/>'


def pointed(*points: str) -> str:
    return "".join(f'<test method="manual" points="{value}"/>' for value in points)


@pytest.mark.parametrize(
    ("tests", "groups", "ending"),
    [
        (SAMPLE + pointed(*4 * ["25.0"]), [(100, "sum"), (100, "sum")], ""),
        (
            SAMPLE + pointed("10", "40.0", "50"),
            [(100, "sum"), (10, "pass-fail"), (40, "pass-fail"), (50, "pass-fail")],
            "",
        ),
        (SAMPLE + 3 * '<test method="generated" cmd="gen" points="0.0"/>', [], ""),  # of nothing decide nothing
        (pointed("12.5", "2.5"), [30, 25, 5], "all are multiplied by 2"),
        # Fractions add up to what they did.
        (
            pointed("33.333333333333336", "33.333333333333336", "33.33333333333333"),
            [300, 100, 100, 100],
            "multiplied by 3",
        ),
        (pointed(*7 * ["14.285714285714286"]), [700, *7 * [100]], "multiplied by 7"),
        (
            pointed("33.3333", "33.3333", "33.3334"),
            [100_000, 33_333, 33_333, 33_334],
            "multiplied by 1000 and rounded",
        ),
        (
            pointed("66.6667", "16.66665", "16.66665"),
            [100_000, 66_667, 16_667, 16_666],
            "multiplied by 1000 and rounded",
        ),
        (pointed("0.1", "0.2", "0.7"), [10, 1, 2, 7], "multiplied by 10"),
    ],
)
def test_points_without_groups(tests: str, groups: list[Any], ending: str, tmp_path: Path) -> None:
    package = load(tmp_path, polygon(tests))
    table = [group[:2] for group in groups_of(package).values()]
    assert table == groups or [group[0] for group in table] == groups
    assert package.manifest.type == [ProblemType.SCORING if groups else ProblemType.PASS_FAIL]
    assert any(note.endswith(ending) for note in package.notes)
    if len(groups) == 2:
        assert list(groups_of(package)) == ["secret", "secret/1_tests"]
        assert [test.name for test in package.manifest.tests][:2] == ["sample/01", "secret/1_tests/02"]


GROUPED = (
    '<test group="0" method="manual" points="0.0" sample="true"/>'
    + 2 * '<test group="1" method="manual" points="15.0"/>'
    + '<test group="2" method="manual" points="0"/><test group="2" method="manual" points="70.0"/>'
)


def test_complete_groups_and_what_they_depend_on(tmp_path: Path) -> None:
    groups = """<groups>
    <group feedback-policy="complete" name="0" points="0.0" points-policy="complete-group"/>
    <group feedback-policy="icpc" name="1" points="30.0" points-policy="complete-group">
      <dependencies><dependency group="0"/></dependencies></group>
    <group feedback-policy="points" name="2" points="70.0" points-policy="complete-group">
      <dependencies><dependency group="1"/><dependency group="0"/></dependencies></group></groups>"""
    package = load(tmp_path, polygon(GROUPED, groups=groups))
    assert groups_of(package) == {
        "secret": (100, "sum", []),
        "secret/1_1": (30, "pass-fail", ["sample"]),
        "secret/2_2": (70, "pass-fail", ["secret/1_1", "sample"]),
    }
    group = yaml_of(tmp_path / "again", polygon(GROUPED, groups=groups), "data/secret/1_1/test_group.yaml")
    assert group["input_validator_args"] == ["--group", "1"]


@pytest.mark.parametrize("scored", [True, False])
def test_validators_hear_the_group_of_samples_and_of_tests_without_points(tmp_path: Path, scored: bool) -> None:
    tests = GROUPED if scored else re.sub(r' points="[0-9.]*"', "", GROUPED)
    package = load(tmp_path, polygon(tests))
    flags = {test.name: test.input_flags for test in package.manifest.tests}
    assert flags["sample/01"] == ["--group", "0"]
    assert {tuple(words) for name, words in flags.items() if name.startswith("secret")} >= {
        ("--group", "1"),
        ("--group", "2"),
    }


def test_a_group_that_depends_on_a_later_one_comes_after_it(tmp_path: Path) -> None:
    groups = """<groups><group name="1" points="30" points-policy="complete-group">
      <dependencies><dependency group="2"/></dependencies></group>
    <group name="2" points="70" points-policy="complete-group"/></groups>"""
    table = groups_of(load(tmp_path, polygon(GROUPED, groups=groups)))
    assert list(table) == ["secret", "secret/1_2", "secret/2_1"] and table["secret/2_1"][2] == ["secret/1_2"]


def test_a_group_of_tests_with_points_that_others_depend_on(tmp_path: Path) -> None:
    groups = """<groups><group name="0" points-policy="each-test"/><group name="1" points-policy="each-test"/>
    <group name="2" points="70" points-policy="complete-group">
      <dependencies><dependency group="1"/></dependencies></group></groups>"""
    table = groups_of(load(tmp_path, polygon(GROUPED, groups=groups)))
    assert [group[:2] for group in table.values()] == [
        (100, "sum"),
        (15, "pass-fail"),
        (15, "pass-fail"),
        (70, "pass-fail"),
    ]
    assert len(list(table.values())[-1][2]) == 2


def test_points_of_a_group_are_shared_by_tests_without_any(tmp_path: Path) -> None:
    tests = '<test sample="true" group="0"/><test group="1"/><test group="1"/>'
    groups = '<groups><group name="0" points="0" points-policy="complete-group"/>'
    groups += '<group name="1" points="60" points-policy="each-test"/></groups>'
    package = load(tmp_path, polygon(tests, groups=groups))
    assert groups_of(package) == {"secret": (60, "sum", []), "secret/1_1": (60, "sum", [])}
    assert any("2 groups with 60 points" in note for note in package.notes)


PARTIAL = CHECKER.replace(b'quitf(_ok, "")', b'quitp(5, "half")')


def test_checkers_that_give_points(tmp_path: Path) -> None:
    files = polygon(SAMPLE + 2 * '<test method="manual" points="50"/>', extra={"files/check.cpp": PARTIAL})
    package = load(tmp_path, files)
    assert {tuple(test.flags or ()) for test in package.manifest.tests} == {("--any",), ("--points", "50")}
    assert not expectations.read_rules(package)[0].exact


def test_points_by_the_checker_alone(tmp_path: Path) -> None:
    files = polygon(2 * '<test method="manual" points="0"/>', extra={"files/check.cpp": PARTIAL})
    package = load(tmp_path, files)
    assert groups_of(package) == {"secret": (None, "sum", [])}
    assert package.manifest.validator_flags == ["--unbounded"]


# --- other kinds of problems -------------------------------------------------------------------------------------

INTERACTOR = '<interactor><source path="files/inter.cpp" type="cpp.g++17"/></interactor>'
MORE = {"files/inter.cpp": CHECKER}


def build_of(package: Package) -> str:
    return package.read(validator_of(package).files["build"]).decode()


def test_interactors(tmp_path: Path) -> None:
    package = load(tmp_path, polygon(interactor=INTERACTOR, extra=MORE))
    assert ProblemType.INTERACTIVE in package.manifest.type
    assert "-DCHECKER" in build_of(package) and "-DINTERACTOR" in build_of(package)


def test_submissions_that_run_twice(tmp_path: Path) -> None:
    twice = INTERACTOR.replace("</inter", "<runs><run>1</run><run>2</run></runs></inter")
    first = twice.replace("<run>2</run>", "")
    for interactor, runs in (("", 1), (INTERACTOR, 1), (twice, 2), (first, 1)):
        with load(tmp_path / f"{len(interactor)}", polygon(interactor=interactor, extra=MORE, runs=2)) as package:
            assert ProblemType.MULTI_PASS in package.manifest.type
            assert (ProblemType.INTERACTIVE in package.manifest.type) == bool(interactor)
            assert f"-DRUNS={runs}" in build_of(package)
            assert any("answers are the package's, and are there in both runs" in note for note in package.notes)
    with pytest.raises(PackageError, match="interactor: is there for the second run alone"):
        load(tmp_path / "second", polygon(interactor=twice.replace("<run>1</run>", ""), extra=MORE, runs=2))


def test_graders_go_with_submissions(tmp_path: Path) -> None:
    resources = "".join(
        f'<file path="files/{name}" for-types="{types}"><assets><asset name="SOLUTION"/></assets>'
        '<stages><stage name="COMPILE"/></stages></file>'
        for name, types in (("grader.cpp", "cpp.*"), ("sum.h", "cpp.*;c.*"), ("grader.py", "python.*"))
    )
    extra = {"files/grader.cpp": b"int main(){}", "files/sum.h": b"int sum();", "files/grader.py": b"import x"}
    files = polygon(resources=resources, extra=extra)
    tree = open_package_tree(folder(tmp_path, files, "package")).tree
    assert {path for path in tree.files if path.startswith("include/")} == {
        "include/cpp/grader.cpp", "include/cpp/sum.h", "include/c/sum.h", "include/python3/grader.py",
    }  # fmt: skip


def test_files_in_place_of_standard_input(tmp_path: Path) -> None:
    assert yaml_of(tmp_path, polygon(input="sum.in", output="sum.out"), "judge.yaml") == {
        "input_file": "sum.in",
        "output_file": "sum.out",
    }


def test_tags_of_solutions(tmp_path: Path) -> None:
    tags = [
        "accepted", "rejected", "time-limit-exceeded", "time-limit-exceeded-or-accepted", "memory-limit-exceeded",
        "time-limit-exceeded-or-memory-limit-exceeded", "presentation-error", "failed", "do-not-run",
    ]  # fmt: skip
    solutions = "".join(
        f'<solution tag="{tag}"><source path="solutions/{tag}.cpp" type="cpp.g++17"/></solution>' for tag in tags
    )
    package = load(
        tmp_path, polygon(solutions=solutions, extra={f"solutions/{tag}.cpp": b"int main(){}" for tag in tags})
    )
    says = {path.split("/")[2]: path.split("/")[1] for path in package.submissions}
    assert says["time-limit-exceeded-or-accepted.cpp"] == "time_limit_exceeded_or_accepted"
    assert says["presentation-error.cpp"] == "wrong_answer" and says["failed.cpp"] == "rejected"
    assert "do-not-run.cpp" not in says and any("its tag 'do-not-run'" in note for note in package.notes)
    rules = {rule.glob: (rule.permitted, rule.required) for rule in expectations.read_rules(package)}
    assert rules["time_limit_exceeded_or_accepted"] == (frozenset({"AC", "TLE"}), frozenset({"AC", "WA", "TLE", "RTE"}))
    assert rules["memory_limit_exceeded"][1] == {"RTE"}


def test_two_testsets(tmp_path: Path) -> None:
    files = polygon()
    pre = (
        b'<testset name="pretests"><test-count>1</test-count><tests><test method="manual"/></tests></testset><testset '
    )
    files["problem.xml"] = files["problem.xml"].replace(b"<testset ", pre, 1)
    package = load(tmp_path, files)
    assert len(package.manifest.tests) == 3
    assert any("testset pretests of 1 test: only tests decides" in note for note in package.notes)


def test_line_ends_of_windows_become_plain_ones(tmp_path: Path) -> None:
    example = "statement-sections/english/example.01"
    extra = {"tests/01": b"1 1\r\n2 2\r\n", "tests/02.a": b"4\r\n5", "tests/03": b"3\r\n3\n", example: b"1 1\r\n\r\n"}
    packages = [
        load(tmp_path, polygon(extra=extra)),
        read_package(archive(tmp_path, polygon(extra=extra), "", "x.zip")),
    ]
    for package in packages:
        content = [(package.read(test.input), package.read(test.answer)) for test in package.manifest.tests]
        # A file that has another line end as well is left as it is.
        assert content == [(b"1 1\n2 2\n", b"2\n"), (b"2 2\n", b"4\n5"), (b"3\r\n3\n", b"6\n")]
        assert any("some of which are those of Windows (first: tests/03)" in note for note in package.notes)
        (note,) = (note for note in package.notes if "line ends of Windows" in note)
        assert "(CR LF) in 3 files of tests and examples: plain ones (LF), as in the linux package" in note
    assert open_package_tree(tmp_path / "package").tree.read("data/sample/01.in.statement", 100) == b"1 1\n\n"


def test_plain_line_ends_are_not_told(tmp_path: Path) -> None:
    assert not any("line ends of" in note for note in load(tmp_path, polygon()).notes)


def test_polygon_does_not_define_what_cms_does(tmp_path: Path) -> None:
    source = b"#ifdef EVAL\n#endif\nint main() {}\n"
    with pytest.raises(UnmadeError) as caught:
        load(tmp_path, without(polygon(extra={"solutions/main.cpp": source}), "tests/01.a", "tests/02.a", "tests/03.a"))
    with contextlib.closing(caught.value.plan) as plan:
        assert {"EVAL" in program.build for program in plan.programs.values()} == {False}


def test_programs_that_make_tests_get_plain_line_ends(tmp_path: Path) -> None:
    files = without(polygon(extra={"tests/01": b"1 1\r\n"}), "tests/01.a")
    with pytest.raises(UnmadeError) as caught:
        load(tmp_path, files)
    with contextlib.closing(caught.value.plan) as plan:
        assert plan.read("tests/01") == b"1 1\n" and plan.size("tests/01") == 4


# --- what is refused ---------------------------------------------------------------------------------------------

SECRET = b'<!DOCTYPE problem [<!ENTITY x SYSTEM "file:///etc/passwd">]><problem>&x;</problem>'
BILLION = b'<!DOCTYPE p [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><problem>&b;</problem>'
LOOP = """<groups><group name="1" points="30" points-policy="complete-group">
    <dependencies><dependency group="2"/></dependencies></group>
    <group name="2" points="70" points-policy="complete-group">
    <dependencies><dependency group="1"/></dependencies></group></groups>"""


def without(files: ByteFiles, *names: str) -> ByteFiles:
    return {path: data for path, data in files.items() if path not in names}


REFUSED: dict[str, tuple[ByteFiles, str]] = {
    "generated tests are missing": (
        without(polygon(), "tests/02"),
        "1 of 3 tests have no input file (first: tests/02, made by 'gen 1'): this is a standard package; 'judgectl",
    ),
    "answers are missing": (without(polygon(), "tests/01.a", "tests/02.a"), "2 of 3 tests have no answer file"),
    "no checker source": (without(polygon(), "files/check.cpp"), "checker: its source 'files/check.cpp' is not in the"),
    "a checker in Pascal": (
        polygon(checker='<checker type="testlib"><source path="check.dpr"/></checker>', extra={"check.dpr": b""}),
        "check.dpr: is a checker in another language than C++",
    ),
    "no XML": (polygon(extra={"problem.xml": b"<problem>"}), "problem.xml:1: is not well-formed XML: no element found"),
    "another root": (polygon(extra={"problem.xml": b"<p/>"}), "its root is <p>, not the <problem> of Polygon"),
    "entities": (polygon(extra={"problem.xml": SECRET}), "declares a document type or entities"),
    "many entities": (polygon(extra={"problem.xml": BILLION}), "declares a document type or entities"),
    "an encoding of its own": (
        polygon(extra={"problem.xml": b'<?xml version="1.0" encoding="x-none"?><problem/>'}), "problem.xml"),
    "no tests": (polygon(extra={"problem.xml": b"<problem/>"}), "problem.xml: has no <testset>"),
    "PCMS2": (
        polygon(extra={"problem.xml": b"<problem><judging><script><testset/></script></judging></problem>"}),
        "problem.xml: is of PCMS2, whose limits, groups and verifiers are not read",
    ),
    "one file for all": (
        {**polygon(), "problem.xml": polygon()["problem.xml"].replace(b"tests/%02d<", b"tests/one<")},
        "input-path-pattern: 'tests/one' names one file for all tests",
    ),
    "points of text": (polygon(2 * '<test points="many"/>'), "test 1: points: 'many' is not a number of points"),
    "a policy": (polygon(GROUPED, groups='<groups><group name="1" points-policy="x"/></groups>'), "points-policy 'x'"),
    "a circle": (polygon(GROUPED, groups=LOOP), "requires itself by way of others"),
    "a time limit of text": (
        {**polygon(), "problem.xml": polygon()["problem.xml"].replace(b"1500", b"1.5s")}, "time-limit: '1.5s' is not"),
    "three runs": (polygon(runs=3), "run-count: '3' runs"),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_refused(fault: str, tmp_path: Path) -> None:
    files, sentence = REFUSED[fault]
    assert sentence in refused(load, tmp_path, files)
