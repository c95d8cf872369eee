"""Packages whose tests a script with testdata_tools' gen.sh makes: what its commands mean, and which are refused."""

from pathlib import Path

import pytest

from judge.common.errors import UsageError
from judge.problems.importers import gensh
from judge.problems.importers.draft import ImporterWords
from judge.problems.importers.making import UnmadeError
from judge.problems.package import read_package
from judge.problems.reading.checks import check_package
from tests.support.packages import ByteFiles, folder, refusal
from tests.unit.test_importers_made import completed, contents, impossible, plan_of, run, steps

SCRIPT = """#!/bin/bash
PPATH=$(realpath ..)
. ../../testdata_tools/gen.sh

use_solution sol.cpp opt   # makes the answers
compile gen.py
samplegroup
limits n=1
sample 1

group g1 40
limits n=5
tc 1
tc a gen 3 'x y'
for i in {1..2}; do
    for k in u v
    do
        tc $k-${i} gen $i
    done
done
group g2 60
include_group g1
tc_manual ../manual/big.in
"""
FILES: ByteFiles = {
    "problem.yaml": b"name: x\ntype: scoring\nlimits: {time_limit: 1}\n",
    "problem_statement/problem.en.tex": b"\\problemname{x}\n",
    "data/generate.sh": SCRIPT.encode(),
    "data/gen.py": b"print(1)\n",
    "data/sample/1.in": b"1\n",
    "data/sample/1.ans": b"2\n",
    "manual/big.in": b"9\n",
    "submissions/accepted/sol.cpp": b"int main() {}\n",
}


def with_(script: str) -> ByteFiles:
    return {**FILES, "data/generate.sh": f". ../t/gen.sh\n{script}".encode()}


def test_groups_and_tests_are_planned_as_the_script_makes_them(tmp_path: Path) -> None:
    root = folder(tmp_path, FILES)
    plan = plan_of(root)
    # The seed is the beginning of the name's MD5 sum.
    assert steps(plan)[:2] == [
        ("generator gen", "3", "x y", str(0x0CC175), "", "data/secret/g1/002-a.in"),
        ("solution", "data/secret/g1/002-a.in", "data/secret/g1/002-a.ans"),
    ]
    assert steps(plan)[-1] == ("solution", "data/secret/g2/007-big.in", "data/secret/g2/007-big.ans")
    assert plan.copies["data/secret/g2/007-big.in"] == "manual/big.in"
    with completed(root, plan, tmp_path) as package:
        tests = {name: (stdin, answer) for name, stdin, answer in contents(package)}
        assert sorted(tests) == [
            "sample/1", "secret/g1/002-a", "secret/g1/003-u-1", "secret/g1/004-v-1", "secret/g1/005-u-2",
            "secret/g1/006-v-2", "secret/g1/1", "secret/g2/002-a", "secret/g2/003-u-1", "secret/g2/004-v-1",
            "secret/g2/005-u-2", "secret/g2/006-v-2", "secret/g2/007-big", "secret/g2/1",
        ]  # fmt: skip
        assert tests["secret/g2/1"] == tests["sample/1"] == (b"1\n", b"2\n")
        assert tests["secret/g2/007-big"][0] == b"9\n"
        groups = {group.name: group for group in package.manifest.graders}
        assert (groups["secret/g1"].accept_score, groups["secret/g2"].accept_score) == (40, 60)
        assert [test.input_flags for test in package.manifest.tests if test.name == "secret/g1/002-a"] == [["n=5"]]


def test_a_problem_without_scores(tmp_path: Path) -> None:
    script = "USE_SCORING=0\n. ../../_testdata_tools/gen.sh\nuse_solution sol.cpp\ncompile gen.py\nsample 1\ntc r gen\n"
    files = {**FILES, "problem.yaml": b"name: x\nlimits: {time_limit: 1}\n", "data/generate.sh": script.encode()}
    root = folder(tmp_path, files)
    plan = plan_of(root)
    assert not any(path.endswith(".yaml") for path in plan.texts)
    with completed(root, plan, tmp_path) as package:
        assert [name for name, _, _ in contents(package)] == ["sample/1", "secret/002-r"]
    checked = check_package(folder(tmp_path, FILES, "check"))
    assert checked.plan is not None and not checked.findings.errors, checked.findings.errors
    checked.plan.close()


def test_a_plan_can_be_run(tmp_path: Path) -> None:
    script = "use_solution sol.py\ncompile gen.py\ngroup a 1\ntc t gen 3 'x y'\ntc_manual ../manual/big.in\n"
    programs = {
        "data/gen.py": b"import sys\nprint(*sys.argv[1:3])\n",
        "submissions/accepted/sol.py": b"print(input()[::-1])\n",
    }
    plan = plan_of(folder(tmp_path, {**with_(script), **programs}))
    (tmp_path / "root").mkdir()
    inputs = {path: plan.read(path) for path in ("data/secret/a/002-big.in",)}
    steps_to_run = [step for test in plan.tests for step in test]
    products = run(tmp_path / "root", plan.programs, steps_to_run, inputs)
    plan.close()
    assert products == {
        "data/secret/a/001-t.in": b"3 x y\n", "data/secret/a/001-t.ans": b"y x 3\n",
        "data/secret/a/002-big.ans": b"9\n",
    }  # fmt: skip


HEAD = "use_solution sol.cpp\ncompile gen.py\ngroup g1 10\n"


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("compile gen.py\n", "makes no secret tests"),
        ("compile x.py\n", "data/generate.sh:2: there is no data/x.py in the package"),
        ("compile gen.py\ngroup a 1\ntc 1 gen\n", ":4: there is no 'use_solution' before it"),
        ("use_solution sol.cpp\ngroup a 1\ntc 1 gen\n", "there is no 'compile' for the generator 'gen'"),
        ("python3 gen.py >secret/1.in\n", ":2: 'python3 gen.py >secret/1.in' is more than commands of gen.sh"),
        ("tc $((1 ** 1)) gen\n", "is more than commands"),
        ("if true; then\n", "is more than commands"),
        ("for i in 1 2\necho\n", "'for' is more than commands"),
        ("for i in 1 2; do\n", "'for' is more than commands"),
        ("for i in {1..99999}; do\necho\ndone\n", "goes through more than 5000 values"),
        ("for i in " + "{1..4999} " * 5000 + "; do\necho\ndone\n", "goes through more than 5000 values"),
        ("group a b\n", "'b' is not a number of points"),
        ("group ../a 1\n", "'../a' is not the name of a test or group"),
        ("include_group z\n", "there is no group 'z' before this"),
        ("tc z\n", "there is no test 'z' before this"),
        ("group\n", "'group' is more than commands"),
        ("use_solution sol.cpp\ncompile gen.py\ngroup a 1\ntc 1 gen\ntc 1 gen\n", "there are two tests called '1'"),
        ("for i in 1; do\n" * 1200 + "done\n" * 1200, "too many loops in loops"),
        *(
            (f"compile gen.py\ngroup a 1\ntc 1 gen {argument}\n", "is more than commands")
            for argument in (
                '"$(x)"', '"`x`"', "a;b", "'a'(b)", "'a' $x", "{1..3}", "x{a,b}", "~/x", "?", "'a", "a#b; x",
            )
        ),
        *(
            (f"{HEAD}for i in {values}; do\n tc t$i gen $i\ndone\n", "is more than commands of gen.sh and simple loops")
            for values in ("$(seq 1 3)", "`seq 3`", "sample/*.in", "$(ls)")
        ),
        *(
            (f"{HEAD}tc a gen $(({sum_}))\n", "is more than commands of gen.sh and simple loops")
            for sum_ in ("1/0", "2**3", "1//2", "nobody+1", "010", "1<<9", "9999999999*9999999999", "1 2", "()")
        ),
        *(
            (f"{HEAD}tc b gen 1\nif true; then\n{line}\nfi\n", "generate.sh:7: ")
            for line in (
                "tc a gen 1", "  ./x > secret/g1/1.in", "for i in 1; do tc $i gen; done", "cp a secret/g1/1.in",
                "x | tee y.in", "x && mv a b", "if ! group g9 3; then", "./x >> 1.ans", "exit 0",
            )
        ),
        (f"{HEAD}tc b gen 1\nif true; then\necho x\n", "generate.sh:6: 'if true; then' is more than"),
    ],
)  # fmt: skip
def test_other_scripts_are_refused(tmp_path: Path, script: str, sentence: str) -> None:
    assert sentence in impossible(folder(tmp_path, with_(script)))


@pytest.mark.parametrize(
    "script",
    [
        "a=xxxxxxxx\n" + "a=$a$a\n" * 40,
        f"a={'x' * 6000}\nuse_solution sol.cpp\ncompile gen.py\nfor i in {{1..4000}}\ndo\ntc $i gen $a\ndone\n",
        "for i in {1..4000}\ndo\ngroup $i 1\ndone\n",
    ],
)
def test_a_few_lines_stand_for_no_more_than_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(gensh, "_CHARACTERS", 65536)
    assert "come to too much text" in refusal(folder(tmp_path, with_(script)))


@pytest.mark.parametrize(
    "argument", ['s="("', "s='$(x)|'", '"a;b" # (in words)', "'a#' x", "a#b # c", "'{1..3}'", "[1]"]
)
def test_quoted_arguments_need_no_shell(tmp_path: Path, argument: str) -> None:
    with pytest.raises(UnmadeError):  # its tests are to be made, which is what it asks for
        read_package(folder(tmp_path, with_(f"use_solution sol.cpp\ncompile gen.py\ngroup a 1\ntc 1 gen {argument}\n")))


def test_a_gen_of_the_packages_own_is_refused(tmp_path: Path) -> None:
    script = b". ./gen.sh\nuse_solution sol.cpp\ngroup g1 40\ntc_manual ../manual/big.in\n"
    files: ByteFiles = {**FILES, "data/gen.sh": b"group () {\n}\n", "data/generate.sh": script}
    assert "data/gen.sh: is a gen.sh of the package's own, which is not read; run" in refusal(folder(tmp_path, files))


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ("{01..03}", ["01", "02", "03"]),
        ("{8..010}", ["008", "009", "010"]),
        ("{3..1}", ["3", "2", "1"]),
        ("{-1..01}", ["-1", "00", "01"]),
        ("{0..1}", ["0", "1"]),
    ],
)
def test_ranges_keep_their_zeros(tmp_path: Path, values: str, names: list[str]) -> None:
    script = f"use_solution sol.cpp\ncompile gen.py\nN=10\ngroup g 1\nfor i in {values}; do\n tc t$i gen $i\ndone\n"
    plan = plan_of(folder(tmp_path, with_(script)))
    inputs = [step.products[0] for test in plan.tests for step in test if step.products[0].endswith(".in")]
    assert [path.partition("-t")[2][:-3] for path in inputs] == names


def test_scripts_that_do_not_count_are_said(tmp_path: Path) -> None:
    plan = plan_of(folder(tmp_path, {**FILES, "data/generate_school.sh": b". ../t/gen.sh\ngroup g1 1\n"}))
    losses = [note for carried, note in plan.notes if not carried]
    assert "data/generate_school.sh: makes tests, too; those of data/generate.sh count" in losses


def test_a_memory_limit_is_for_packages_of_other_formats(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--memory: .* has its own; set limits\.memory in problem\.yaml"):
        read_package(folder(tmp_path, FILES), options=ImporterWords(memory=64))


def test_solutions_elsewhere(tmp_path: Path) -> None:
    script = "SOLUTION_BASE=$PROBLEM_PATH/data\nuse_solution none.sh\ngroup g1 40\ntc_manual ../manual/big.in\n"
    plan = plan_of(folder(tmp_path, {**with_(script), "data/none.sh": b"cat >/dev/null\n"}))
    assert plan.programs["solution"].name == "data/none.sh"
    plan.close()


def test_a_shells_sums_are_computed(tmp_path: Path) -> None:
    script = "use_solution sol.cpp\ncompile gen.py\nN=100\nM=$((N*2))\ngroup g 9\n"
    script += 'tc a gen $(($M-1)) k=$(( (N+M) * (2-3) / 7 )) $((-7%3)),$((2*(3+1))) "$((1+1))"\n'
    assert steps(plan_of(folder(tmp_path, with_(script))))[0][1:5] == ("199", "k=-42", "-1,8", "2")


PICTURES = """wait
if which dot >/dev/null; then
    echo Creating visualizations...
    for F in sample/*.in secret/group1/*.in; do
        N=$(head -n 1 "$F")
        if [[ $N -lt 25 ]]; then ./visualize.py <"$F" | dot -T png -o "${F%.in}".png; fi
        if [ -f x ]  # a comment
        then
            ./v "$F" > "$F".png 2>&1
        fi
    done
fi
tc last gen 7
"""


def test_a_block_that_draws_pictures_makes_no_tests(tmp_path: Path) -> None:
    plan = plan_of(folder(tmp_path, {**FILES, "data/generate.sh": (SCRIPT + PICTURES).encode()}))
    assert plan.tests[-1][0].output == "data/secret/g2/008-last.in"
