"""Problems of Hydro: what its config.yaml says, and what it is refused for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judge.errors import PackageError
from judge.model.problem import ProblemType
from judge.problems.importers import draft
from judge.problems.package import Package, read_package
from judge.problems.reading.checks import check_package
from tests.support.trees import Files, folder

TESTLIB = b'#include "testlib.h"\nint main() {}\n'
PLAIN: Files = {
    "problem.yaml": b"pid: P1\nowner: 2\ntitle: Sums\ntag: []\nnSubmit: 0\n",
    "problem_zh.md": b"# Sums\n",
    "testdata/a1.in": b"1\n",
    "testdata/a1.out": b"1\n",
    "testdata/a2.in": b"2\n",
    "testdata/a2.ans": b"2\n",
    "additional_file/x.zip": b"PK",
}


def load(tmp_path: Path, config: str = "", more: Files | None = None) -> Package:
    files = {**PLAIN, **({"testdata/config.yaml": config.encode()} if config else {}), **(more or {})}
    return read_package(folder(tmp_path, files, "x"))


def groups(package: Package) -> list[tuple[float | None, str, list[str]]]:
    return [(one.max_score, one.aggregation, one.require_pass) for one in package.manifest.groups if "/" in one.name]


def test_tests_without_settings(tmp_path: Path) -> None:
    with load(tmp_path) as package:
        manifest = package.manifest
        assert (manifest.name, manifest.title, manifest.limits.cpu) == ("P1", "Sums", 1)
        assert manifest.limits.memory == 256 * 1024**2
        assert len(manifest.tests) == 2 and groups(package) == [(100, "sum", [])]
        assert manifest.validator_flags == ["case_sensitive"]


@pytest.mark.parametrize(
    ("said", "seconds", "mib"),
    [("time: 2s\nmemory: 64m", 2, 64), ("time: 500ms\nmemory: 1g", 0.5, 1024), ("time: 3\nmemory: 128MB", 3, 128)],
)
def test_limits(tmp_path: Path, said: str, seconds: float, mib: int) -> None:
    with load(tmp_path, said) as package:
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
        assert [one[0] for one in groups(package)] == [40, 60]


def test_programs(tmp_path: Path) -> None:
    said = "checker_type: testlib\nchecker: {file: chk.cc, lang: cc.cc17}\nvalidator: val.cc\nuser_extra_files: [s.h]\n"
    more: Files = {"testdata/chk.cc": TESTLIB, "testdata/val.cc": TESTLIB, "testdata/s.h": b""}
    with load(tmp_path, said, more) as package:
        assert package.manifest.validators and package.manifest.input_validators
        assert set(package.manifest.include) >= {"c", "cpp"}
    talk = "type: interactive\ninteractor: talk.cc\n"
    with load(tmp_path / "talk", talk, {"testdata/talk.cc": TESTLIB}) as package:
        assert ProblemType.INTERACTIVE in package.manifest.type
    with load(tmp_path / "handed", "type: submit_answer\n") as package:
        assert ProblemType.SUBMIT_ANSWER in package.manifest.type


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("type: objective", "type: 'objective' is not one of default, interactive, submit_answer"),
        ("time: soon", "time: 'soon' is no limit; expected such as 1s or 1000ms"),
        ("time: 1d", "time: '1d' is no limit"),
        (SUBTASKS.replace("{id: 1,", "{id: 1, time: 1s,"), "time: there are different ones"),
        (SUBTASKS.replace("type: sum", "type: max"), "subtasks.2: type: 'max' is neither min nor sum"),
        (SUBTASKS.replace("a2.ans", "a3.ans"), "cases.2: output: 'a3.ans' is not in testdata/"),
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
def test_refused(tmp_path: Path, said: str, sentence: str) -> None:
    with pytest.raises(PackageError) as caught:
        load(tmp_path, said)
    assert sentence in str(caught.value)


def test_the_languages_that_are_named(tmp_path: Path) -> None:
    with load(tmp_path, "langs: [cc.cc17o2, cc, py.py3, vb]\n") as package:
        assert package.manifest.languages == ["cpp", "python3"]
        assert any("langs: vb: not known here" in note for note in package.notes)
    with load(tmp_path / "any") as package:
        assert package.manifest.languages == []


def test_an_export_without_its_tests(tmp_path: Path) -> None:
    files = {path: data for path, data in PLAIN.items() if not path.startswith("testdata/")}
    with pytest.raises(PackageError) as caught:
        read_package(folder(tmp_path, files, "x"))
    assert str(caught.value) == "x: is a problem of Hydro without testdata/; export it with its tests"


def test_the_tests_may_still_be_taken_alone(tmp_path: Path) -> None:
    with read_package(folder(tmp_path, PLAIN, "x"), asked=draft.Asked(format="directory"), time_limit=1) as package:
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
def test_any_settings_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, said: dict[str, object]) -> None:
    where = folder(tmp_path_factory.mktemp("any"), {**PLAIN, "testdata/config.yaml": draft.dump(said)}, "x")
    found = check_package(where)
    if found.package is not None:
        found.package.close()
