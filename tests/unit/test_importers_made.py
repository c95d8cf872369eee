"""Packages whose tests are still to be made: what is to be run for them, and what becomes of them when it was."""

import contextlib
import os
import select
import shlex
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import PackageError, UnavailableError
from judge.ctl.problem.making import PlanBatch, fault, refuse_absent, script
from judge.ctl.problem.trial import Present
from judge.model import messages as m
from judge.problems.archives import open_tree
from judge.problems.importers import draft, making, testlib, tps_gen
from judge.problems.importers.draft import ImporterWords, MadeFiles
from judge.problems.importers.making import MakingStep, PackageProgram, Plan, UnmadeError
from judge.problems.package import Package, read_package
from judge.problems.reading.checks import check_package
from tests.support.gateway import make_task
from tests.support.packages import ByteFiles, archive, folder, refusal
from tests.unit.test_importers_polygon import TESTS, polygon, without

CPP = b"int main() {}\n"
STANDARD = without(polygon(), "tests/02", "tests/01.a", "tests/02.a", "tests/03.a")
CMS: ByteFiles = {
    "task.yaml": b"name: x\ntime_limit: 1\nmemory_limit: 64\ninfile: in.txt\noutfile: out.txt\n",
    "gen/GEN": b"#ST: 0\n#COPY: gen/small.txt\n#ST: 100\n1 'a b' # two words\n#COPY: small.txt\n",
    "gen/small.txt": b"0\n",
    "gen/generatore.py": b"print(1)\n",
    "sol/soluzione.cpp": CPP,
    "sol/grader.cpp": CPP,
    "sol/x.h": b"",
}
TPS: ByteFiles = {
    "problem.json": b'{"name": "x", "type": "Batch", "time_limit": 1, "memory_limit": 64}',
    "subtasks.json": b'{"subtasks": {"samples": {"index": 0, "score": 0}, "all": {"index": 1, "score": 100}}}',
    "gen/data": b"# nothing\n@subtask samples\nmanual 1.in\n@testset big\ngen 9 9\n"
    b"@subtask all\n@validator v.cpp\n@include samples big\ngen --seed=1 '7 8'\n",
    "gen/manual/1.in": b"1\n",
    "gen/gen.cpp": b'#include "testlib.h"\nint main() {}\n',
    "solution/wrong.cpp": CPP,
    "solution/right.cpp": CPP,
    "solutions.json": b'{"wrong.cpp": {"verdict": "incorrect"}, "right.cpp": {"verdict": "model_solution"}}',
    "grader/cpp/grader.cpp": CPP,
}


def plan_of(root: Path) -> Plan:
    with pytest.raises(UnmadeError) as caught:
        read_package(root)
    assert "\n" not in str(caught.value)
    return caught.value.plan


def impossible(root: Path) -> str:
    """The sentence that refuses a package whose tests nothing can make."""
    with pytest.raises(PackageError) as caught:
        read_package(root)
    assert not isinstance(caught.value, UnmadeError)
    return str(caught.value)


def completed(root: Path, plan: Plan, tmp_path: Path) -> Package:
    """The package, with each file that was to be made holding its own name."""
    files = {}
    for number, path in enumerate(path for test in plan.tests for step in test for path in step.products):
        files[path] = tmp_path / f"made{number}"
        files[path].write_text(f"{path}\n")
    plan.close()
    return read_package(root, options=ImporterWords(products=plan.products(files)))


def contents(package: Package) -> list[tuple[str, bytes, bytes]]:
    return [(test.name, package.read(test.input), package.read(test.answer)) for test in package.manifest.tests]


def steps(plan: Plan) -> list[tuple[str, ...]]:
    return [(step.program, *step.args, step.input, step.output) for test in plan.tests for step in test]


# --- Polygon -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [folder, archive])
def test_a_standard_package_of_polygon(tmp_path: Path, kind: Any) -> None:
    root = kind(tmp_path, STANDARD)
    plan = plan_of(root)
    assert steps(plan) == [
        ("solution", "tests/01", "tests/01.a"),
        ("generator gen", "1", "", "tests/02"),
        ("solution", "tests/02", "tests/02.a"),
        ("solution", "tests/03", "tests/03.a"),
    ]
    assert set(plan.programs["generator gen"].files) == {"program.cpp", "testlib.h"}
    with completed(root, plan, tmp_path) as package:
        assert contents(package) == [
            ("sample/01", b"1 1\n", b"tests/01.a\n"),
            ("secret/02", b"tests/02\n", b"tests/02.a\n"),
            ("secret/03", b"3 3\n", b"tests/03.a\n"),
        ]
        assert "carried over: 1 input made at import by files/gen.cpp" in package.notes
        assert "carried over: 3 answers made at import by solutions/main.cpp" in package.notes


def test_files_graders_and_interactors_of_polygon(tmp_path: Path) -> None:
    tests = '<test cmd="gen 5 6" from-file="6" method="generated"/><test method="manual"/>'
    resource = '<file path="files/lib.cpp"><assets><asset name="SOLUTION"/></assets></file>'
    files = polygon(tests, input="in.txt", output="out.txt", resources=resource, extra={"files/lib.cpp": CPP})
    plan = plan_of(folder(tmp_path, without(files, "tests/01", "tests/01.a"), "files"))
    first, second = plan.tests[0]
    assert (first.output_name, second.input_name, second.output_name) == ("6", "in.txt", "out.txt")
    assert "program.cpp with_lib.cpp" in plan.programs["solution"].build
    talk = '<interactor><source path="files/check.cpp" type="cpp.g++17"/></interactor>'
    plan = plan_of(folder(tmp_path, without(polygon(interactor=talk), "tests/03.a"), "talk"))
    assert plan.tests[0][0].talks_to in plan.programs


def test_a_header_of_ours_is_said(tmp_path: Path) -> None:
    root = folder(tmp_path, without(polygon(), "files/testlib.h", "tests/02"))
    with completed(root, plan_of(root), tmp_path) as package:
        assert any("files/gen.cpp: includes testlib.h" in note and "random" in note for note in package.notes)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (without(polygon(), "tests/03"), "test 3: has no input file tests/03, and no command; take a full package"),
        (without(polygon(), "tests/02", "files/gen.cpp"), "test 2: is made by 'gen', whose source is not in the"),
        (without(polygon(), "tests/02.a", "solutions/main.cpp"), "solution: its source 'solutions/main.cpp' is not in"),
        (without(polygon(solutions=""), "tests/02.a"), "has no answers, and no solution with tag main"),
        (without(polygon(TESTS.replace("gen 1", "gen '1")), "tests/02"), "test 2: 'gen '1' is no command"),
        (without(polygon(runs=2), "tests/02.a"), "answers of a solution that runs twice are not made here"),
        (
            {
                **without(polygon(), "tests/02.a"),
                "problem.xml": polygon()["problem.xml"]
                .replace(b' run-count="1"', b"")
                .replace(b"</problem>", b'<tags><tag value="run-twice"/></tags></problem>'),
            },
            "answers of a solution that runs twice are not made here",
        ),
        (
            without(polygon(TESTS.replace('cmd="gen 1"', 'cmd="gen 1" from-file="../1"')), "tests/02"),
            "from-file: '../1' is not the name of a file",
        ),
        (
            without(
                polygon(
                    solutions='<solution tag="main"><source path="solutions/x.zz" type="zz"/></solution>',
                    extra={"solutions/x.zz": b""},
                ),
                "tests/02.a",
            ),
            "solutions/x.zz: is to make tests, and in a language that is not known here",
        ),
    ],
)
def test_missing_files_without_a_maker_are_refused(tmp_path: Path, files: ByteFiles, sentence: str) -> None:
    assert sentence in impossible(folder(tmp_path, files, "package"))


@pytest.mark.parametrize(
    ("name", "content", "last"),
    [
        ("Main.kt", "fun main() {}\n", "MainKt"),
        ("a b.rs", "fn main() {}\n", "/box/run"),
        ("x.go", "package main\nfunc main() {}\n", "/box/run"),
        ("x.js", "1\n", "/box/x.js"),
        ("x.cs", "class X { static void Main() {} }\n", "/box/run.exe"),
    ],
)
def test_solutions_in_any_language_of_the_table(tmp_path: Path, name: str, content: str, last: str) -> None:
    solution = f'<solution tag="main"><source path="solutions/{name}" type="x"/></solution>'
    files = without(polygon(solutions=solution, extra={f"solutions/{name}": content.encode()}), "tests/02.a")
    plan = plan_of(folder(tmp_path, files, "package"))
    program = plan.programs["solution"]
    plan.close()
    assert (program.build, set(program.files), program.run[-1]) == ("", {name}, last)
    assert f"/box/{name}" in program.compile or "/box" in program.compile


KOTLIN = polygon(
    solutions='<solution tag="main"><source path="solutions/Main.kt" type="x"/></solution>',
    extra={"solutions/Main.kt": b"fun main() {}\n"},
)


def test_a_language_that_no_executor_has_is_named(tmp_path: Path) -> None:
    plan = plan_of(folder(tmp_path, without(KOTLIN, "tests/02", "tests/02.a"), "x"))
    refuse_absent(plan, Present(frozenset({"cpp", "kotlin"}), any=True))
    sentence = "x: its tests are to be made, and no executor has kotlin, in which solutions/Main.kt is; make them first"
    with pytest.raises(PackageError, match=f"^{sentence}$"):
        refuse_absent(plan, Present(frozenset({"cpp", "python3"}), any=True))
    with pytest.raises(PackageError, match=r"no executor has cpp, in which files/gen\.cpp is"):
        refuse_absent(plan, Present(frozenset({"kotlin"}), any=True))
    with pytest.raises(UnavailableError, match=r"no executor takes work; start one"):
        refuse_absent(plan, Present())
    plan.close()


def test_an_executor_that_has_not_what_another_has_says_so(tmp_path: Path) -> None:
    plan = plan_of(folder(tmp_path, without(KOTLIN, "tests/02.a"), "x"))
    program = replace(plan.programs["solution"], needs=("/nowhere/kotlinc",))
    text = script({"solution": program}, [], {"solution": "p/0"}, {})
    process = subprocess.run(["sh", "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "/usr/bin/kotlinc" in plan.programs["solution"].needs
    plan.close()
    assert process.returncode == 9
    assert process.stderr == "solutions/Main.kt: is in kotlin, which the executor that was asked does not have\n"


# --- CMS and TPS -------------------------------------------------------------------------------------------------


def test_gen_of_cms(tmp_path: Path) -> None:
    root = folder(tmp_path, CMS, "x")
    plan = plan_of(root)
    assert steps(plan) == [
        ("solution", "input/input0.txt", "output/output0.txt"),
        ("generator", "1", "a b", "", "input/input1.txt"),
        ("solution", "input/input1.txt", "output/output1.txt"),
        ("solution", "input/input2.txt", "output/output2.txt"),
    ]
    assert {(step.input_name, step.output_name) for test in plan.tests for step in test[-1:]} == {("in.txt", "out.txt")}
    assert set(plan.programs["solution"].files) == {"program.cpp", "with_grader.cpp", "x.h"}
    with completed(root, plan, tmp_path) as package:
        assert [(name.partition("/")[0], stdin) for name, stdin, _ in contents(package)] == [
            ("sample", b"0\n"), ("secret", b"input/input1.txt\n"), ("secret", b"0\n"),
        ]  # fmt: skip


MODULES: ByteFiles = {
    "limits.py": b"import os, tools.words as words\nMOST = 5\n",
    "tools/__init__.py": b"",
    "tools/words.py": b"from more import *\n",
    "more.py": b"x = 1\n",
    "other.py": b"# import more\n",
}


@pytest.mark.parametrize("system", ["task-maker", "BAPCtools", "testdata_tools", "TPS"])
def test_generators_in_python_bring_the_modules_beside_them(system: str, tmp_path: Path) -> None:
    source = b"#!/usr/bin/env python3\nfrom limits import *\nimport random\nprint(MOST)\n"
    files, place = {
        "task-maker": ({**CMS, "gen/generatore.py": source}, "gen"),
        "BAPCtools": (
            {
                "problem.yaml": b"name: x\nlicense: cc by-sa\n",
                "generators/generators.yaml": b"solution: /submissions/accepted/a.py\ndata:\n  secret:\n    data:\n"
                b"    - a: gen.py {seed}\n",
                "generators/gen.py": source,
                "submissions/accepted/a.py": b"print(1)\n",
            },
            "generators",
        ),
        "testdata_tools": (
            {
                "problem.yaml": b"name: x\ntype: scoring\n",
                "data/generator.sh": b". ../../testdata_tools/gen.sh\nuse_solution a.py\ncompile gen.py\ngroup g1 100\n"
                b"tc 1 gen n=1\n",
                "data/gen.py": source,
                "submissions/accepted/a.py": b"print(1)\n",
            },
            "data",
        ),
        "TPS": ({**without(TPS, "gen/gen.cpp"), "gen/gen.py": source}, "gen"),
    }[system]
    plan = plan_of(folder(tmp_path, {**files, **{f"{place}/{name}": text for name, text in MODULES.items()}}, "x"))
    generator = next(program for key, program in plan.programs.items() if key != "solution")
    plan.close()
    assert set(generator.files) == {generator.name.rpartition("/")[2], *MODULES} - {"other.py"}


def test_many_imports_are_read_at_once(tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(300)]
    files = {**CMS, "gen/generatore.py": "".join(f"import {name}\n" for name in names * 40).encode()}
    files |= {f"gen/{name}.py": f"import {', '.join(names)}\n".encode() for name in names}
    plan = plan_of(folder(tmp_path, files, "x"))
    assert len(plan.programs["generator"].files) == 301


def test_only_answers_of_cms(tmp_path: Path) -> None:
    inputs = {f"input/input{number}.txt": b"1\n" for number in range(3)}
    plan = plan_of(folder(tmp_path, {**without(CMS, "gen/generatore.py"), **inputs}, "x"))
    assert [step.output for test in plan.tests for step in test] == [
        f"output/output{number}.txt" for number in range(3)
    ]
    incomplete = folder(
        tmp_path, {**CMS, **inputs, **{f"output/output{number}.txt": b"1\n" for number in range(2)}}, "lost"
    )
    assert "output2.txt: is named by the package, but is not in it" in refusal(incomplete)


HALVES: ByteFiles = {
    **without(CMS, "sol/soluzione.cpp", "sol/grader.cpp", "sol/x.h"),
    "task.yaml": b"name: x\ntime_limit: 1\nmemory_limit: 64\ntask_type: TwoSteps\n",
    "sol/manager.cpp": CPP,
    "sol/encoder.h": b"",
    "sol/decoder.h": b"",
    "sol/encoder.cpp": CPP,
    "sol/decoder.cpp": CPP,
}


@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ({}, ["accepted/sol_cpp/decoder.cpp", "accepted/sol_cpp/encoder.cpp"]),
        ({"sol/more.h": b""}, ["accepted/sol_cpp/decoder.cpp", "accepted/sol_cpp/encoder.cpp"]),
        (
            {"sol/encoder.py": b"", "sol/decoder.py": b""},
            ["accepted/sol_cpp/decoder.cpp", "accepted/sol_cpp/encoder.cpp"],
        ),
        (
            {
                "task.yaml": HALVES["task.yaml"] + b"submission_format: [a.%l, b.%l]\n",
                **{f"sol/{folder}/{name}.cpp": CPP for folder in ("full", "slow") for name in "ab"},
            },
            ["accepted/full_cpp/a.cpp", "accepted/full_cpp/b.cpp"],
        ),
        ({"sol/encoder.cpp": None, "sol/solution.cpp": CPP}, ["accepted/solution.cpp"]),
    ],
)
def test_solutions_of_two_steps_make_answers(
    tmp_path: Path, changes: dict[str, bytes | None], paths: list[str]
) -> None:
    files = {name: text for name, text in {**HALVES, **changes}.items() if text is not None}
    root = folder(tmp_path, files, "x")
    plan = plan_of(root)
    answers = [step for test in plan.tests for step in test if step.program == "solution"]
    assert len(answers) == 3 and all(step.two_steps for step in answers)
    with completed(root, plan, tmp_path) as package:
        assert sorted(package.submissions) == [f"submissions/{path}" for path in paths]
    program = plan.programs["solution"]
    assert len([name for name in program.files if name.startswith("with_")]) == len(paths), program.files.keys()
    assert "with_manager.cpp" in program.build


PROGRAM_OF_TWO = """import sys

step, pipe = sys.argv[1:]
if step == "0":
    with open(pipe, "w") as file:
        file.write(sys.stdin.read().replace("1", "one"))
    FIRST
else:
    SECOND
    with open(pipe) as file:
        print(sys.stdin.read() + file.read() * 2, end="")
"""


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("pass", "pass", ""),
        ("pass", "sys.exit(4)", "out: is made by 'two.py', which ended with exit code 4"),
        ("sys.exit(5)", "pass", "out: is made by 'two.py', which ended with exit code 5"),
    ],
)
def test_a_program_of_two_steps_is_run_twice_side_by_side(
    tmp_path: Path, first: str, second: str, message: str
) -> None:
    second = second if second == "pass" else f"open(pipe).read()\n    {second}"
    source = PROGRAM_OF_TWO.replace("FIRST", first).replace("SECOND", second)
    (tmp_path / "p").mkdir()
    (tmp_path / "p/two.py").write_text(source)
    (tmp_path / "in").write_text("1 2\n")
    program = PackageProgram("two.py", {"two.py": source.encode()}, "", ("python3", "{}/two.py"))
    text = script({"solution": program}, [MakingStep("solution", "out", (), "in", two_steps=True)], {"solution": "p"}, {
        "in": "in", "out": "out/0",
    })  # fmt: skip
    process = subprocess.run(["/bin/sh", "-c", text], cwd=tmp_path, capture_output=True, check=False, timeout=60)
    if message:
        assert (process.returncode, message in process.stderr.decode()) == (9, True), process.stderr
    else:
        assert (tmp_path / "out/0").read_text() == "one 2\none 2\n"


def test_a_first_step_that_fails_early_leaves_nobody_waiting(tmp_path: Path) -> None:
    source = "import sys\nif sys.argv[1] == '0': sys.exit(3)\nopen(sys.argv[2]).read()\n"
    (tmp_path / "p").mkdir()
    (tmp_path / "p/two.py").write_text(source)
    program = PackageProgram("two.py", {"two.py": source.encode()}, "", ("python3", "{}/two.py"))
    step = MakingStep("solution", "out", two_steps=True)
    text = script({"solution": program}, [step], {"solution": "p"}, {"out": "out/0"})
    # Held open by whatever was started and has not ended.
    pipe, end = os.pipe()
    try:
        with subprocess.Popen(["/bin/sh", "-c", text], cwd=tmp_path, stderr=subprocess.PIPE, pass_fds=(end,)) as shell:
            os.close(end)
            stderr = shell.communicate(timeout=60)[1]
        assert (shell.returncode, b"ended with exit code 3" in stderr) == (9, True), stderr
        assert select.select([pipe], [], [], 30)[0], "the second step waits for ever"
    finally:
        os.close(pipe)


def test_gen_data_of_tps_with_two_steps(tmp_path: Path) -> None:
    files = {**TPS, "problem.json": b'{"name": "x", "type": "TwoSteps"}', "grader/cpp/manager.cpp": CPP}
    plan = plan_of(folder(tmp_path, files, "x"))
    answers = [step for test in plan.tests for step in test if step.program == "solution"]
    assert len(answers) == 3 and all(step.two_steps for step in answers)
    assert "with_manager.cpp" in plan.programs["solution"].build


def test_gen_data_of_tps(tmp_path: Path) -> None:
    root = folder(tmp_path, TPS, "x")
    plan = plan_of(root)
    assert steps(plan) == [
        ("solution", "tests/0-01.in", "tests/0-01.out"),
        ("generator gen", "9", "9", "", "tests/big-01.in"),
        ("solution", "tests/big-01.in", "tests/big-01.out"),
        ("generator gen", "--seed=1", "7 8", "", "tests/1-01.in"),
        ("solution", "tests/1-01.in", "tests/1-01.out"),
    ]
    assert plan.programs["solution"].name == "solution/right.cpp"
    assert "with_grader.cpp" in plan.programs["solution"].build
    with completed(root, plan, tmp_path) as package:
        task = package.manifest.task
        assert task is not None
        assert [(subtask.points, subtask.tests) for subtask in task.subtasks] == [
            (0, ["sample/0-01"]), (100, ["sample/0-01", "secret/1-01", "secret/big-01"]),
        ]  # fmt: skip


def test_the_model_solution_of_tps_by_its_name(tmp_path: Path) -> None:
    files = {**without(TPS, "solutions.json", "solution/right.cpp"), "solution/ac.c": CPP}
    root = folder(tmp_path, without(files, "grader/cpp/grader.cpp"), "x")
    with completed(root, plan_of(root), tmp_path) as package:
        assert any("no solutions.json names one; solution/ac.c is right by its name" in note for note in package.notes)
        assert any("says what the others should do" in note for note in package.notes)
        assert list(package.submissions) == ["submissions/accepted/ac.c"]


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({**CMS, "gen/GEN": b"#COPY: no.txt\n"}, "gen/GEN:1: there is no no.txt in the package"),
        (without(CMS, "gen/generatore.py"), "no gen/generator.cpp or the like that makes it"),
        (without(CMS, "sol/soluzione.cpp"), "has no sol/solution.cpp or the like, which makes the answers"),
        ({**TPS, "gen/data": b"gen 1\n"}, "gen/data:1: begins no subtask"),
        ({**TPS, "gen/data": b"@subtask\n"}, "gen/data:1: @subtask: has no name"),
        ({**TPS, "gen/data": b"@subtask a\n@subtask a\n"}, "gen/data:2: @subtask: 'a' is there twice"),
        ({**TPS, "gen/data": b"@subtask a\n@include b\n"}, "gen/data:2: @include: there is no 'b' before it"),
        ({**TPS, "gen/data": b"@subtask a\n"}, "gen/data: lists no tests"),
        ({**TPS, "gen/data": b"@subtask all\nmanual 7.in\n"}, "gen/data:2: there is no gen/manual/7.in"),
        ({**TPS, "gen/data": b"@subtask all\nother 7\n"}, "gen/data:2: there is no gen/other.cpp or .py"),
        ({**TPS, "solutions.json": b"{}", "solution/right.cpp": b"", "gen/data": b"@subtask all\ngen\n"}, ""),
        (without(TPS, "solution/right.cpp"), "has no model solution that makes the answers"),
        (
            without({**TPS, "problem.json": b'{"name": "x", "type": "TwoSteps"}'}, "grader/cpp/grader.cpp"),
            "is a task of two steps without the manager that is compiled with submissions",
        ),
    ],
)
def test_faults_of_what_is_listed(tmp_path: Path, files: ByteFiles, sentence: str) -> None:
    assert sentence in refusal(folder(tmp_path, files, "x"))


@pytest.mark.parametrize(
    ("verdict", "wall", "limit"),
    [
        (m.Verdict.TLE, 61.0, "60 s of CPU time"),
        (m.Verdict.TLE, 120.1, "120 s, most of it waiting"),
        (m.Verdict.MLE, 2.0, "2 GiB of memory"),
        (m.Verdict.OLE, 2.0, "64 MiB of output"),
    ],
)
def test_the_limit_that_was_passed_is_said(verdict: m.Verdict, wall: float, limit: str) -> None:
    test = m.TestResult(name="make", verdict=verdict, wall=wall)
    task = make_task(done=True, verdict=verdict, result=m.Result(tests=[test]))
    batch = PlanBatch(2, [()], ["tests/02"])
    assert fault(task, batch) == f"tests/02: takes more than {limit}; make it beforehand"


# --- DMOJ --------------------------------------------------------------------------------------------------------


def test_generators_of_dmoj(tmp_path: Path) -> None:
    init = (
        "generator: {source: [gen.cpp, gen.h], args: [0]}\npoints: 5\ntest_cases:\n- {in: 1.in, out: 1.out}\n"
        "- {generator_args: [2, a b]}\n- batched:\n  - {in: 1.in}\n  - {generator: gen.py, out: 1.out}\n"
    )
    files = {"init.yml": init.encode(), "gen.py": b"", "gen.cpp": CPP, "gen.h": b"", "1.in": b"1\n", "1.out": b"2\n"}
    root = folder(tmp_path, files, "x")
    plan = plan_of(root)
    folder_ = "made by generators/"
    assert [(step.program, step.args, step.input, step.products) for test in plan.tests for step in test] == [
        ("generator gen.cpp gen.h", ("2", "a b"), "", (f"{folder_}02.in", f"{folder_}02.out")),
        ("generator gen.cpp gen.h", ("0",), "1.in", (f"{folder_}03_01.in", f"{folder_}03_01.out")),
        ("generator gen.py", (), "", (f"{folder_}03_02.in", f"{folder_}03_02.out")),
    ]
    with completed(root, plan, tmp_path) as package:
        tests = [(stdin.decode().strip(), answer.decode().strip()) for _, stdin, answer in contents(package)]
        assert tests == [
            ("1", "2"),
            (f"{folder_}02.in", f"{folder_}02.out"),
            (f"{folder_}03_01.in", f"{folder_}03_01.out"),
            (f"{folder_}03_02.in", "2"),
        ]
        assert not any(folder_ in note for note in package.notes), "nobody wrote these, so none is left out"
    silent = {path: b"" for test in plan.tests for step in test for path in step.products}
    with read_package(root, options=ImporterWords(products=MadeFiles(silent))) as package:
        assert [stdin for _, stdin, _ in contents(package)] == [b"1\n", b"", b"1\n", b""], (
            "its own where nothing is said"
        )


@given(st.lists(st.sampled_from(["@subtask a", "@testset b", "@include a", "gen 1", "#", "", "@x", "manual 1"])))
def test_every_listed_test_is_in_its_set(lines: list[str]) -> None:
    with contextlib.suppress(PackageError):
        listed(lines)


def listed(lines: list[str]) -> None:
    data = tps_gen.read_data("\n".join(lines), "data")
    assert data.commands.keys() == {name for names in data.sets.values() for name in names}
    assert all(lines[number - 1] == data.commands[name] for name, number in data.lines.items())


# --- what all of them have in common -----------------------------------------------------------------------------


def test_check_looks_at_everything_else(tmp_path: Path) -> None:
    checked = check_package(folder(tmp_path, STANDARD))
    assert checked.plan is not None and checked.package is None
    checked.plan.close()
    assert not checked.findings.errors
    findings = [finding.text for finding in checked.findings.all]
    assert any("'judgectl problem import' has them made by an executor" in text for text in findings)
    assert not any("same input" in text for text in findings)
    broken = {**STANDARD, "problem.xml": STANDARD["problem.xml"].replace(b"complete", b"odd")}
    broken["problem.xml"] = broken["problem.xml"].replace(b'type="testlib"', b'type="other"')
    assert check_package(folder(tmp_path, broken, "broken")).findings.errors


def test_made_files_take_the_place_of_the_trees(tmp_path: Path) -> None:
    root = folder(tmp_path, polygon(), "package")
    options = ImporterWords(products=MadeFiles({"tests/02": "tests/01", "tests/03": b"9\n"}, ((False, "a word"),)))
    with read_package(root, options=options) as package:
        assert [stdin for _, stdin, _ in contents(package)] == [b"1 1\n", b"1 1\n", b"9\n"]
        assert "not carried over: a word" in package.notes
    with pytest.raises(PackageError, match="is to be tests/02, but is not in the package"):
        read_package(root, options=ImporterWords(products=MadeFiles({"tests/02": "tests/99"})))


def test_too_many_tests_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "MOST", 2)
    assert "has more than 2 tests to be generated" in refusal(folder(tmp_path, STANDARD))


def run(
    root: Path, programs: dict[str, PackageProgram], steps: list[MakingStep], files: ByteFiles
) -> dict[str, bytes] | str:
    """What the script of these steps makes, or what it says; `root` is what an executor has unpacked."""
    folders = {key: f"p/{number}" for number, key in enumerate(programs)}
    outputs = list(dict.fromkeys(path for step in steps for path in step.products))
    places = {path: f"f/{number}" for number, path in enumerate(files)}
    places |= {path: f"out/{number}" for number, path in enumerate(outputs)}
    for path, data in files.items():
        (root / places[path]).parent.mkdir(exist_ok=True)
        (root / places[path]).write_bytes(data)
    for key, program in programs.items():
        for name, content in program.files.items():
            (root / folders[key]).mkdir(parents=True, exist_ok=True)
            (root / folders[key] / name).write_bytes(draft.read(content))
    (root / "make.sh").write_text(script(programs, steps, folders, places))
    process = subprocess.run(["sh", "make.sh"], cwd=root, capture_output=True, check=False, timeout=60)
    if process.returncode:
        return process.stderr.decode()
    (root / "made.tar.gz").write_bytes(process.stdout)
    with tarfile.open(root / "made.tar.gz") as packed:
        return {path: packed.extractfile(f"./{number}").read() for number, path in enumerate(outputs)}  # type: ignore[union-attr]


SHELL = {"cat.sh": b'cat\nprintf "%s\\n" "$@"\necho "$#" >&2\n', "file.sh": b'cat in.txt "$1" >"$2" 2>/dev/null\n'}
PROGRAMS = {name: PackageProgram(name, {name: data}, "", ("sh", "{}/" + name)) for name, data in SHELL.items()}


@pytest.mark.parametrize("word", ["", "a b", "'", '"$HOME"', "`id`", "$(id)", "-n", "\\", "*", "é\n#"])
def test_names_and_arguments_are_quoted_for_the_shell(tmp_path: Path, word: str) -> None:
    step = MakingStep("cat.sh", f"tests/{word}", (word, "x"), "given", errors="errors")
    assert run(tmp_path, PROGRAMS, [step], {"given": b"1\n"}) == {
        f"tests/{word}": f"1\n{word}\nx\n".encode(), "errors": b"2\n",
    }  # fmt: skip


def test_commands_of_the_table_find_the_programs_folder(tmp_path: Path) -> None:
    root = folder(tmp_path / "package", {"it's.pl": b'use lib "."; print "$ENV{PERL5LIB}\\n", <STDIN>;\n'})
    with contextlib.closing(open_tree(root)) as tree:
        ref = draft.Ref(tree, "it's.pl")
        program = making.program(draft.Draft(tree, "x"), testlib.ProgramSource(ref))
        (tmp_path / "root").mkdir()
        made_files = run(tmp_path / "root", {"x": program}, [MakingStep("x", "made", input="given")], {"given": b"1\n"})
    assert made_files == {"made": f"{tmp_path}/root/p/0\n1\n".encode()}
    build = ("sh", "-c", "cd /box; echo 'echo /box' >/box/run.sh", "/box")
    program = PackageProgram("x", {"x": b""}, "", ("sh", "/box/run.sh"), build)
    (tmp_path / "other").mkdir()
    products = run(tmp_path / "other", {"x": program}, [MakingStep("x", "made")], {})
    assert products == {"made": f"{tmp_path}/other/p/0\n".encode()}


def test_files_in_place_of_streams(tmp_path: Path) -> None:
    step = MakingStep("file.sh", "made", ("/dev/null", "a b"), "given", "in.txt", "a b")
    assert run(tmp_path, PROGRAMS, [step], {"given": b"1\n"}) == {"made": b"1\n"}


def test_a_step_reads_the_output_of_an_earlier_step(tmp_path: Path) -> None:
    first, second = MakingStep("cat.sh", "one", ("3",)), MakingStep("cat.sh", "two", ("4",), "one")
    assert run(tmp_path, PROGRAMS, [first, second], {}) == {"one": b"3\n", "two": b"3\n4\n"}


@pytest.mark.parametrize(
    ("says", "lacking", "expected"),
    [
        (b"echo 1", "later", {"in": b"1\n", "ans": b"1\n1\n"}),
        (b"echo 2 >testcase.in; echo 3 >testcase.hint", "later", {"in": b"2\n", "ans": b"2\n1\n"}),
        (b"echo 1; echo 2 >testcase.in; echo 9 >testcase.ans", "later", {"in": b"2\n", "ans": b"9\n"}),
        (b": >testcase.in; : >testcase.ans", "later", {"in": b"", "ans": b""}),
        (b"echo 1", "empty", {"in": b"1\n", "ans": b""}),
        (b"echo 1; echo 4 >testcase.ans", "refused", {"in": b"1\n", "ans": b"4\n"}),
        (
            b"echo 1",
            "refused",
            "in: is made by 'x.sh', which left no testcase.ans, and nothing else makes the answer\n",
        ),
        (b"true", "later", "in: is made by 'x.sh', which printed nothing, and left no testcase.in\n"),
        (
            b"echo 1; mkdir testcase.files",
            "later",
            "which left a file that is not taken from it; give it by hand: ./testcase.files\n",
        ),
        (b"echo 1; ln -s /nothing testcase.in", "later", {"in": b"1\n", "ans": b"1\n1\n"}),
    ],
)
def test_a_generator_writes_files_itself(
    tmp_path: Path, says: bytes, lacking: Any, expected: dict[str, bytes] | str
) -> None:
    programs = {**PROGRAMS, "x": PackageProgram("x.sh", {"x.sh": says + b"\n"}, "", ("sh", "{}/x.sh"))}
    first = MakingStep("x", "in", stem="testcase", answer="ans", unmade_reason=lacking)
    later = [MakingStep("cat.sh", "ans", ("1",), "in", spare=True)] if lacking == "later" else []
    products = run(tmp_path, programs, [first, *later], {})
    assert products == expected or (isinstance(expected, str) and str(products).endswith(expected))


def test_a_solution_talks_to_the_interactor(tmp_path: Path) -> None:
    interactor = b'read first <"$1"; echo "$first"; read said; echo "$said" >"$2"; exit "$first"\n'
    programs = {
        "sol": PackageProgram("sol.sh", {"sol.sh": b"read x; echo $((x + 1))\n"}, "", ("sh", "{}/sol.sh")),
        "talk": PackageProgram("talk.sh", {"talk.sh": interactor}, "", ("sh", "{}/talk.sh")),
    }
    step = MakingStep("sol", "answer", input="given", talks_to="talk")
    (tmp_path / "0").mkdir()
    assert run(tmp_path / "0", programs, [step], {"given": b"0\n"}) == {"answer": b"1\n"}
    (tmp_path / "3").mkdir()
    message = run(tmp_path / "3", programs, [step], {"given": b"3\n"})
    assert message == "answer: talk.sh ended with exit code 3\n"


@pytest.mark.parametrize(
    ("program", "output_name", "sentence"),
    [
        (PackageProgram("x.sh", {"x.sh": b"echo no >&2; exit 5\n"}, "", ("sh", "{}/x.sh")), "", "exit code 5\nno\n"),
        (PackageProgram("x.sh", {"x.sh": b"ln -s /etc/passwd a\n"}, "", ("sh", "{}/x.sh")), "b", "left no file b\n"),
        (PackageProgram("x.c", {"x.c": b""}, "echo bad; false", ("{}/x",)), "", "x.c: does not compile\nbad\n"),
    ],
)
def test_failing_programs_are_named(tmp_path: Path, program: PackageProgram, output_name: str, sentence: str) -> None:
    message = run(tmp_path, {"x": program}, [MakingStep("x", "tests/1", ("a",), output_name=output_name)], {})
    assert isinstance(message, str) and message.endswith(sentence)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
def test_words_are_those_of_a_shell(text: str) -> None:
    assert making.arguments_of(f"gen {shlex.quote(text)}", "x") == ["gen", text]
