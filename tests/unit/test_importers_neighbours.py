"""Directories of tests with the settings of other systems: limits, points and layouts that are read as there."""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from judge.errors import PackageError
from judge.problems.importers import ImporterWords, open_package_tree
from judge.yamltext import read as read_yaml
from tests.support.trees import Files, folder

PAIR: Files = {"1.in": b"3\n", "1.out": b"9\n"}
BOCA: Files = {
    "description/problem.info": b"basename=B\nfullname=Bridges\ndescfile=B.pdf\n",
    "description/B.pdf": b"%PDF-1.4\n",
    "input/B_1": b"3\n",
    "output/B_1": b"9\n",
    "compare/cpp": b"#!/bin/bash\nexit 4\n",
}


def echoes(*lines: str) -> bytes:
    return "\n".join(["#!/bin/bash", "# seconds", *(f"echo {line}" for line in lines), "exit 0", ""]).encode()


@dataclass
class Made:
    """The package that is made of a directory: its files, its settings, and what is said of it."""

    files: list[str]
    settings: dict[str, Any]
    notes: list[str]

    def below(self, folder: str) -> list[str]:
        return [path for path in self.files if path.startswith(folder + "/")]


def opened(tmp_path: Path, files: Files, *, insists: bool = False) -> Made:
    made = open_package_tree(folder(tmp_path, files, "bridges"), ImporterWords("directory" if insists else None))
    report = made.report
    assert report is not None
    read = {
        path: read_yaml(made.tree.read(path, 65536).decode(), path).value
        for path in made.tree.files
        if posixpath.basename(path) in {"judge.yaml", "problem.yaml", "test_group.yaml"}
    }
    made.tree.close()
    return Made(sorted(made.tree.files), read, [*report.carried, *report.left])


def read_limits(tmp_path: Path, files: Files) -> tuple[Any, Any]:
    said = opened(tmp_path, files).settings["problem.yaml"].get("limits") or {}
    return said.get("time_limit"), said.get("memory")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({**BOCA, "limits/cpp": echoes("2", "1", "256", "1024")}, (2, 256)),
        ({**BOCA, "limits/c": echoes("3", "1", "128", "1024"), "limits/py3": echoes("9", "1", "128", "1")}, (3, 128)),
        ({**BOCA, "limits/cpp": b"#!/bin/bash\r\necho 2 # seconds\r\necho 1\r\necho 64\t#MB\r\n"}, (2, 64)),
        ({**BOCA, "limits/cpp": echoes("2; # seconds", "1;", "64; exit", "1024")}, (2, 64)),
        ({**BOCA, "limits/java": echoes('"0.5"', "1", "64")}, (0.5, 64)),
        ({**PAIR, "PROBLEM": b"# time_limit = 9.0\nproblem(title='B',\n  time_limit = 1.5,\n)\n"}, (1.5, None)),
        ({**PAIR, "spec.cpp": b"/* TimeLimit(9);\n */ void GradingConfig() { TimeLimit(2); }\n"}, (2, None)),
        ({**PAIR, "spec.cpp": b"// TimeLimit(9);\nvoid GradingConfig() { TimeLimit(2); MemoryLimit(64); }\n"}, (2, 64)),
        ({**PAIR, "settings.json": b'{"limits": {"TimeLimit": 1500, "MemoryLimit": 67108864}}'}, (1.5, 64)),
        ({**PAIR, "settings.json": b'{"limits": {"TimeLimit": "2s", "MemoryLimit": "32MiB"}}'}, (2, 32)),
        ({**PAIR, "task.yaml": b"---\ntime_limit: 3.0s\nmemory_limit: 512MiB\n"}, (3, 512)),
    ],
)
def test_limits_of_other_systems(tmp_path: Path, files: Files, expected: tuple[Any, Any]) -> None:
    assert read_limits(tmp_path, {**files, "sol.cpp": b"int main(){}\n"}) == expected


def test_the_statement_of_boca_is_taken_once(tmp_path: Path) -> None:
    assert not any("there is a statement" in note for note in opened(tmp_path, BOCA).notes)


@pytest.mark.parametrize(
    ("info", "title"),
    [
        (b"basename=B\nfullname=Bridges and Rivers\n", "Bridges and Rivers"),
        (b'basename=B\r\nfullname="Bridges"\r\ndescfile=B.pdf\r\n', "Bridges"),
        (b"fullname=\n", "bridges"),
        ("fullname=Saltit\u00e3o\n".encode(), "Saltit\u00e3o"),
        ("fullname=Saltit\u00e3o\n".encode("latin-1"), "Saltit\u00e3o"),
    ],
)
def test_the_title_of_boca(tmp_path: Path, info: bytes, title: str) -> None:
    said = opened(tmp_path, {**BOCA, "description/problem.info": info}).settings["problem.yaml"]
    assert said["name"] == title


@pytest.mark.parametrize(
    "files",
    [
        {"settings.json": b"{"},
        {"settings.json": b'["limits"]'},
        {"settings.json": b'{"limits": 3}'},
        {"settings.json": b'{"limits": {"TimeLimit": true, "MemoryLimit": -1}}'},
        {"PROBLEM": b"problem(time_limit = 0.001)\n"},
        {"spec.cpp": b"int main() {}\n"},
        {"task.yaml": b"time_limit: 3MiB\nmemory_limit: 2s\n"},
        {"description/problem.info": b"x", "limits/cpp": b"#!/bin/bash\necho 1\n"},
        {"description/problem.info": b"x", "limits/sub/cpp": echoes("1", "1", "64")},
    ],
)
def test_settings_that_say_no_limits(tmp_path: Path, files: Files) -> None:
    assert read_limits(tmp_path, {**PAIR, "sol.cpp": b"int main(){}\n", **files}) == (None, None)


def test_limits_of_boca_that_differ(tmp_path: Path) -> None:
    files = {**BOCA, "limits/cpp": echoes("2", "5", "256", "1024"), "limits/java": echoes("4", "5", "256", "1024")}
    notes = opened(tmp_path, files).notes
    assert "time limit 2 s of limits/cpp" in notes
    assert any("limits of java, which differ" in note for note in notes)
    assert any("each test runs 5 times" in note for note in notes)
    assert not any("limits/" in note and "nothing says" in note for note in notes)


def test_sources_are_no_tests_whatever_they_are_called(tmp_path: Path) -> None:
    files = {**BOCA, "limits/c": echoes("1", "1", "64"), "solutions/input.mjs": b"x", "solutions/B.hs": b"main = 1\n"}
    assert opened(tmp_path, files).below("data") == ["data/secret/B_1.ans", "data/secret/B_1.in"]


# --- omegaUp ------------------------------------------------------------------------------------------------------


def omegaup(plan: str | None, validator: dict[str, Any] | None = None, extra: Files | None = None) -> Files:
    settings = {"title": "Tall bridges", "limits": {"TimeLimit": 1000, "MemoryLimit": 67108864}}
    cases = {
        f"cases/{name}.{ending}": f"{name}{ending}\n".encode()
        for name in ("0.sample", "1.low.x", "1.low.y", "2.high")
        for ending in ("in", "out")
    }
    files: Files = {**cases, "settings.json": json.dumps({**settings, "validator": validator}).encode()}
    files["statements/es.markdown"] = b"# Puentes\n"
    files["examples/sample.in"], files["examples/sample.out"] = b"s\n", b"t\n"
    files["tests/invalid/even.in"] = b"2\n"
    files["tests/high.out"] = b"2\n"
    if plan is not None:
        files["testplan"] = plan.encode()
    return {**files, **(extra or {})}


PLAN = "# name points\n0.sample 0\n1.low.x 20\n1.low.y 12.5\n\n2.high 67.5\n"


def test_points_of_omegaup(tmp_path: Path) -> None:
    made = opened(tmp_path, omegaup(PLAN, {"name": "token-caseless"}))
    assert [path for path in made.below("data") if path.endswith(".in")] == [
        "data/sample/examples_sample.in", "data/secret/1_1/cases_1.low.x.in", "data/secret/1_1/cases_1.low.y.in",
        "data/secret/2_2/cases_2.high.in",
    ]  # fmt: skip
    points = {path: one.get("max_score") for path, one in made.settings.items() if path.startswith("data/secret/")}
    # A multiple of what testplan says, as it has halves.
    assert points == {
        "data/secret/test_group.yaml": 200,
        "data/secret/1_1/test_group.yaml": 65,
        "data/secret/2_2/test_group.yaml": 135,
    }
    assert made.settings["problem.yaml"]["name"] == "Tall bridges"
    assert any("points of testplan: 3 groups" in note for note in made.notes)
    assert any("tests/: is what omegaUp tries" in note for note in made.notes)
    assert not any("are lost" in note for note in made.notes)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (PLAN + "3.more 1\n", "testplan:7: '3.more 1' is not the name of a test"),
        (PLAN + "2.high 1\n", "testplan:7: '2.high 1' is not the name of a test"),
        (PLAN + "2.high\n", "testplan:7: '2.high' is not the name of a test"),
        (PLAN.replace("67.5", "lots"), "testplan:6: 'lots' is not a number of points"),
        (PLAN.replace("2.high 67.5\n", ""), "testplan: says no points of '2.high'"),
    ],
)
def test_plans_that_do_not_fit(tmp_path: Path, plan: str, said: str) -> None:
    with pytest.raises(PackageError) as caught:
        opened(tmp_path, omegaup(plan))
    assert said in str(caught.value)


@pytest.mark.parametrize("plan", [None, "0.sample 0\n1.low.x 0\n1.low.y 0\n2.high 0\n"])
def test_no_points_of_omegaup(tmp_path: Path, plan: str | None) -> None:
    made = opened(tmp_path, omegaup(plan, {"name": "token"}))
    assert "type" not in made.settings["problem.yaml"]
    assert len(made.below("data/sample")) == 5
    assert len(made.below("data/secret")) == 7


@pytest.mark.parametrize(
    ("validator", "flags"),
    [
        ({"name": "token"}, ["case_sensitive"]),
        ({"name": "token-caseless"}, []),
        ({"name": "token-numeric"}, ["float_tolerance", "1e-09"]),
        ({"name": "token-numeric", "tolerance": 0.001}, ["float_tolerance", "0.001"]),
        ({"name": "custom"}, []),
        (None, []),
    ],
)
def test_validators_of_omegaup(tmp_path: Path, validator: dict[str, Any] | None, flags: list[str]) -> None:
    made = opened(tmp_path, omegaup(PLAN, validator))
    for path in ("data/sample", "data/secret"):
        assert made.settings.get(f"{path}/test_group.yaml", {}).get("output_validator_args", []) == flags


def test_a_tolerance_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="tolerance: 'x' is not a number from 0 to 1"):
        opened(tmp_path, omegaup(PLAN, {"name": "token-numeric", "tolerance": "x"}))


def test_solutions_of_omegaup(tmp_path: Path) -> None:
    listed = [
        {"filename": "../solutions/a.cpp", "verdict": "AC"},
        {"filename": "../solutions/b.cpp", "verdict": "WA"},
        {"filename": "../solutions/c.py", "score_range": [0.1, 0.3]},
        {"filename": "../solutions/d.cpp", "score_range": [1, 1]},
        {"filename": "../solutions/e.cpp", "score_range": [0, 1]},
        {"filename": "../solutions/gone.cpp", "verdict": "TLE"},
        {"filename": 3},
        7,
    ]
    sources = {f"solutions/{name}": f"// {name}\n".encode() for name in ("a.cpp", "b.cpp", "c.py", "d.cpp", "e.cpp")}
    extra = {**sources, "tests/tests.json": json.dumps({"solutions": listed}).encode()}
    assert set(opened(tmp_path, omegaup(PLAN, None, extra)).below("submissions")) == {
        "submissions/accepted/a.cpp", "submissions/wrong_answer/b.cpp", "submissions/rejected/c.py",
        "submissions/accepted/d.cpp", "submissions/accepted/e.cpp",
    }  # fmt: skip


def test_what_is_read_of_omegaup_is_not_said_to_be_lost(tmp_path: Path) -> None:
    told = json.dumps({"solutions": [{"filename": "../solutions/a.cpp", "verdict": "AC"}]}).encode()
    files = omegaup(PLAN, None, {"solutions/a.cpp": b"int main(){}\n", "tests/tests.json": told})
    assert not any("tests.json" in note for note in opened(tmp_path, files).notes)


def test_samples_of_cases_beside_examples(tmp_path: Path) -> None:
    names = ["cases/sample.1", "cases/1", "examples/1"]
    files: Files = {f"{name}.{ending}": b"1\n" for name in names for ending in ("in", "out")}
    made = opened(tmp_path, {**files, "testplan": b"sample.1 0\n1 100\n"})
    assert [len(made.below(f"data/{kind}")) for kind in ("sample", "secret")] == [2, 4]
    assert any("1 sample of cases/ without points: those of examples/ are shown" in note for note in made.notes)


def test_a_solution_of_omegaup_that_nothing_is_asked_of(tmp_path: Path) -> None:
    told = json.dumps({"solutions": [{"filename": "../solutions/a.cpp", "verdict": "AC"}]}).encode()
    sources = {f"solutions/{name}.cpp": b"int main(){}\n" for name in ("a", "other", "wa_b")}
    made = opened(tmp_path, omegaup(PLAN, None, {**sources, "tests/tests.json": told}))
    assert made.below("submissions") == ["submissions/accepted/a.cpp", "submissions/wrong_answer/wa_b.cpp"]
    assert any("solutions/other.cpp: nothing says what it is for" in note for note in made.notes)


def test_cases_of_omegaup_that_are_called_alike(tmp_path: Path) -> None:
    files: Files = {"testplan": b"1 100\n"}
    files |= {f"cases/{folder}1.{ending}": b"1\n" for folder in ("", "b/") for ending in ("in", "out")}
    with pytest.raises(PackageError, match="is called as another test of cases/, so testplan cannot tell them apart"):
        opened(tmp_path, files)


def test_settings_of_omegaup_in_capitals(tmp_path: Path) -> None:
    said = {
        "Limits": {"TimeLimit": 3000, "MemoryLimit": 67108864, "ValidatorTimeLimit": 3000},
        "Validator": {"Name": "token-numeric", "Tolerance": 0.001}, "Slow": False,
        "Cases": [{"Cases": [{"Name": "0", "Weight": 1.0}], "Name": "0", "Weight": 1.0}],
    }  # fmt: skip
    files: Files = {"cases/1.in": b"1\n", "cases/1.out": b"1\n", "settings.json": json.dumps(said).encode()}
    made = opened(tmp_path, files)
    assert made.settings["problem.yaml"]["limits"] == {"time_limit": 3, "memory": 64}
    flags = made.settings["data/secret/test_group.yaml"]["output_validator_args"]
    assert flags == ["float_tolerance", "0.001"]
    assert any("settings.json: is of omegaUp, or a system like it; its points and" in note for note in made.notes)
    planned = opened(tmp_path / "x", {**files, "testplan": b"1 100\n"})
    assert not any("are lost" in note for note in planned.notes)


@pytest.mark.parametrize(
    ("files", "insists", "lost"),
    [
        ({"testplan": b"1 100\n"}, False, False),
        ({"testplan": b"1 100\n"}, True, True),
        ({"settings.json": b'{"validator": {"name": "token"}}'}, True, True),
        ({"settings.json": b'{"validator": {"name": "token"}, "cases": [{"name": "1", "weight": 1}]}'}, False, True),
        ({"settings.json": b'{"validator": {"name": "token"}, "cases": []}'}, False, False),
    ],
)
def test_points_and_validators_of_omegaup_that_are_lost_are_said(
    tmp_path: Path, files: Files, insists: bool, lost: bool
) -> None:
    notes = opened(tmp_path, {"cases/1.in": b"1\n", "cases/1.out": b"1\n", **files}, insists=insists).notes
    assert any("are lost" in note for note in notes) == lost


def test_libinteractive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=r"interactive/bridges\.idl: is an interface of libinteractive"):
        opened(tmp_path, omegaup(PLAN, None, {"interactive/bridges.idl": b"interface Main {};\n"}))


# --- Rime and tcframe ---------------------------------------------------------------------------------------------

RIME: Files = {
    "PROBLEM": b"problem(title='B', id='B', time_limit=1.0)\n",
    "tests/TESTSET": b"cxx_generator(src='gen.cc')\n",
    "tests/00_sample.in": b"1\n",
    "right/SOLUTION": b"cxx_solution(src='sol.cc')\n",
    "right/sol.cc": b"int main(){}\n",
}


def test_tests_that_rime_has_made(tmp_path: Path) -> None:
    made: Files = {
        "rime-out/tests/00_sample.in": b"1\n", "rime-out/tests/00_sample.diff": b"1\n",
        "rime-out/tests/10_random.in": b"2\n", "rime-out/tests/10_random.diff": b"4\n",
        "rime-out/tests/TESTSET": b"x\n", "rime-out/right/sol.cc": b"int main(){}\n",
        "rime-out/right/00_sample.out": b"1\n",
    }  # fmt: skip
    found = opened(tmp_path, {**RIME, **made})
    assert [len(found.below(f"data/{kind}")) for kind in ("sample", "secret")] == [2, 2]
    assert found.below("submissions") == ["submissions/accepted/sol.cc"]
    assert any("taken from rime-out/tests/" in note for note in found.notes)
    assert any("rime-out/: what Rime has made beside tests" in note for note in found.notes)


def test_solutions_of_rime(tmp_path: Path) -> None:
    files: Files = {
        **RIME, "tests/00_sample.diff": b"1\n", "other/main.py": b"x\n",
        "naive/SOLUTION": b"# cxx_solution(src='no.cc')\ncxx_solution(src='main.cc', challenge_cases=[])\n",
        "naive/main.cc": b"int main(){}\n", "naive/no.cc": b"int helper;\n",
        "java/SOLUTION": b"java_solution(src='Sum.java', mainclass='Sum', challenge_cases=None)\nexpected_score(100)\n",
        "java/Sum.java": b"class Sum {}\n",
        "gone/SOLUTION": b"cxx_solution('../../x.cc')\ncxx_solution(src=5)\nc_solution(\n",
    }  # fmt: skip
    assert opened(tmp_path, files).below("submissions") == [
        "submissions/accepted/Sum.java", "submissions/accepted/main.py", "submissions/accepted/sol.cc",
        "submissions/rejected/main.cc",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "folder"),
    [
        ("challenge_cases=['10_*.in']", "rejected"),
        ("challenge_cases=[]", "rejected"),
        ("challenge_cases=None", "accepted"),
        ("flags=['-O2']", "accepted"),
    ],
)
def test_solutions_of_rime_that_are_to_fail(tmp_path: Path, said: str, folder: str) -> None:
    files: Files = {
        **PAIR, "PROBLEM": b"problem(time_limit=1.0)\n", "tests/TESTSET": b"# none\n",
        "anna/main.cc": b"int main(){}\n",
        "anna/SOLUTION": f"#cxx_solution(challenge_cases=[])\ncxx_solution(src='main.cc', {said})\n".encode(),
    }  # fmt: skip
    assert f"submissions/{folder}/main.cc" in opened(tmp_path, files).files


def test_rime_is_known_by_its_solutions(tmp_path: Path) -> None:
    files: Files = {
        "PROBLEM": b"problem(time_limit=1.0)\n", "tests/00_sample.in": b"1\n", "tests/00_sample.diff": b"1\n",
        "naive/SOLUTION": b"java_solution(src='Sum.java', challenge_cases=['large.in'])\n", "naive/Sum.java": b"x\n",
    }  # fmt: skip
    made = opened(tmp_path, files)
    assert made.below("submissions") == ["submissions/rejected/Sum.java"]
    assert not any("SOLUTION" in note for note in made.notes)


def test_tests_that_rime_would_make(tmp_path: Path) -> None:
    notes = opened(tmp_path, {**RIME, "tests/00_sample.diff": b"1\n"}).notes
    assert any("tests that the generators of tests/TESTSET make" in note for note in notes)
    assert any("1 test, 1 of them samples" in note for note in notes)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (RIME, "PROBLEM: is of Rime, which makes the tests that are missing here"),
        ({"spec.cpp": b"class ProblemSpec;\n", "solution.cpp": b"int main(){}\n"}, "spec.cpp: is of tcframe, which"),
    ],
)
def test_tests_that_are_still_to_be_made_there(tmp_path: Path, files: Files, said: str) -> None:
    with pytest.raises(PackageError) as caught:
        opened(tmp_path, files)
    assert said in str(caught.value)


SPEC = """
class ProblemSpec : public BaseProblemSpec {
    // void Subtask9() { Points(9); }
    void GradingConfig() { TimeLimit(2); MemoryLimit(64); }
    void Subtask1() { Points(30); CONS(N <= 10); }
    void Subtask2() {
        Points(70);
    }
};
class TestSpec : public BaseTestSpec<ProblemSpec> {
    void SampleTestCase1() { Subtasks({1, 2}); Input({"1"}); }
    void TestGroup1() { Subtasks({1, 2}); CASE(N = 1); }
    void TestGroup2() { Subtasks({2}); CASE(N = 99); }
};
"""


def tcframe(spec: str, names: list[str]) -> Files:
    tests = {f"tc/bridges_{name}.{ending}": f"{name}\n".encode() for name in names for ending in ("in", "out")}
    return {**tests, "spec.cpp": spec.encode(), "solution.cpp": b"int main(){}\n"}


def test_subtasks_of_tcframe_that_share_tests(tmp_path: Path) -> None:
    made = opened(tmp_path, tcframe(SPEC, ["sample_1", "1_1", "1_2", "2_1"]))
    subtasks = made.settings["judge.yaml"]["subtasks"]
    assert [(one["name"], one["points"], one["rule"]) for one in subtasks] == [
        ("Subtask1", 30, "min"),
        ("Subtask2", 70, "min"),
    ]
    assert [len(one["tests"]) for one in subtasks] == [3, 4]
    assert [len(made.below(f"data/{kind}")) for kind in ("sample", "secret")] == [3, 7]
    assert made.settings["problem.yaml"]["limits"] == {"time_limit": 2, "memory": 64}
    assert not any("are lost" in note for note in made.notes)


def test_subtasks_of_tcframe_apart(tmp_path: Path) -> None:
    spec = SPEC.replace("TestGroup1() { Subtasks({1, 2})", "TestGroup1() { Subtasks({1})").replace("Sample", "No")
    made = opened(tmp_path, tcframe(spec, ["sample_1", "1_1", "2_1"]))
    points = {path: one.get("max_score") for path, one in made.settings.items() if path.startswith("data/secret/")}
    assert points == {
        "data/secret/test_group.yaml": 100,
        "data/secret/1_Subtask1/test_group.yaml": 30,
        "data/secret/2_Subtask2/test_group.yaml": 70,
    }
    assert len(made.below("data/secret")) == 7


@pytest.mark.parametrize(
    "spec", [SPEC, SPEC.replace("TestGroup1() { Subtasks({1, 2})", "TestGroup1() { Subtasks({1})")]
)
def test_tests_of_tcframe_for_omegaup(tmp_path: Path, spec: str) -> None:
    """Some have tcframe make the tests that they hand to omegaUp, whose way of comparing counts then."""
    names = ["sample_1", "1_1", "2_1"]
    files: Files = {f"cases/b_{name}.{ending}": b"1\n" for name in names for ending in ("in", "out")}
    settings = b'{"validator": {"name": "token-numeric", "tolerance": 0.001}}'
    made = opened(tmp_path, {**files, "settings.json": settings, "spec.cpp": spec.encode()})
    assert made.settings["data/sample/test_group.yaml"] == {"output_validator_args": ["float_tolerance", "0.001"]}
    flags = [one.get("output_validator_args") for path, one in made.settings.items() if "secret" in path]
    assert flags[0] == ["float_tolerance", "0.001"] and not any(flags[1:])


def test_samples_of_tcframe_without_points(tmp_path: Path) -> None:
    made = opened(tmp_path, tcframe("void SampleTestCase1() {}\nvoid TestCases() {}\n", ["sample_1", "1", "2"]))
    assert [len(made.below(f"data/{kind}")) for kind in ("sample", "secret")] == [2, 4]


@pytest.mark.parametrize("call", ["Subtasks", "assignToSubtasks"])
def test_what_subtasks_of_tcframe_say_counts_wherever_it_stands(tmp_path: Path, call: str) -> None:
    spec = SPEC.replace("Points(30); CONS(N <= 10);", "CONS(N <= 10); if (N) { CONS(N > 0); } Points( 30 );")
    spec = spec.replace("TestGroup2() { Subtasks({2}); CASE(N = 99);", "TestGroup2() override { N = 9; Subtasks({2});")
    spec = spec.replace("Subtasks(", f"{call}(")
    names = ["sample_1", "1_1", "1_2", "2_1"]
    expected = opened(tmp_path / "a", tcframe(SPEC, names)).settings["judge.yaml"]
    assert opened(tmp_path / "b", tcframe(spec, names)).settings["judge.yaml"] == expected


@pytest.mark.parametrize("body", ["", "CASE(N = 99);", "/* Subtasks({2}); */"])
def test_groups_of_tcframe_without_subtasks_are_refused(tmp_path: Path, body: str) -> None:
    spec = SPEC.replace("Subtasks({2}); CASE(N = 99);", body)
    with pytest.raises(PackageError, match=r"spec\.cpp: does not say the subtasks of TestGroup2"):
        opened(tmp_path, tcframe(spec, ["1_1", "2_1"]))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Points(70)", "Points(MOST)", "spec.cpp: Subtask2: expected its points, as Points(30)"),
        ("Subtasks({2})", "Subtasks(ALL)", "spec.cpp: TestGroup2: expected its subtasks, as Subtasks({1, 2})"),
    ],
)
def test_numbers_of_tcframe_that_are_calculated(tmp_path: Path, old: str, new: str, said: str) -> None:
    files = tcframe(SPEC.replace(old, new), ["1_1", "2_1"])
    with pytest.raises(PackageError) as caught:
        opened(tmp_path, files)
    assert said in str(caught.value)
    assert "type" not in opened(tmp_path / "x", files, insists=True).settings["problem.yaml"]


@pytest.mark.parametrize("spec", ["", SPEC.replace("Points(", "Pts("), SPEC.replace("30", "0").replace("70", "0")])
def test_tcframe_without_points(tmp_path: Path, spec: str) -> None:
    made = opened(tmp_path, tcframe(spec, ["1_1", "2_1"]))
    assert "type" not in made.settings["problem.yaml"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["1_1", "2_1", "more"], "tc/bridges_more.in: is not called by its group"),
        (["1_1"], "spec.cpp: Subtask2 has points, and no tests"),
    ],
)
def test_tests_of_tcframe_that_do_not_fit(tmp_path: Path, names: list[str], said: str) -> None:
    files = tcframe(SPEC.replace("{1, 2}", "{1}"), names)
    with pytest.raises(PackageError) as caught:
        opened(tmp_path, files)
    assert said in str(caught.value)
    assert "type" not in opened(tmp_path / "x", files, insists=True).settings["problem.yaml"]


# --- the Italian format -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (["gengen.py"], []),
        (["generatore.cpp", "valida.py"], []),
        (["bridges_long.cpp", "gen_all.py"], ["submissions/accepted/bridges_long.cpp"]),
        (["generous.cpp"], ["submissions/accepted/generous.cpp"]),
        (["checker.cpp"], []),
    ],
)
def test_a_lone_program_that_makes_tests_is_no_solution(
    tmp_path: Path, sources: list[str], expected: list[str]
) -> None:
    files: Files = {
        "task.yaml": b"name: bridges\ntitle: Bridges\ntime_limit: 1\nmemory_limit: 64\nn_input: 1\n",
        "input/input0.txt": b"3\n",
        "output/output0.txt": b"9\n",
        **{f"sol/{name}": b"x\n" for name in sources},
    }
    assert opened(tmp_path, files).below("submissions") == expected
