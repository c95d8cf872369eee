"""Packages whose tests generators/generators.yaml makes: what is to be run for them, and what becomes of them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.ctl.problem.making import batches, pack
from judge.errors import PackageError
from judge.problems.importers import draft
from judge.problems.importers.making import UnmadeError
from judge.problems.package import read_package
from judge.problems.reading.checks import check_package
from tests.support.trees import Files, folder
from tests.unit.test_importers_made import contents, made, plan_of, steps

LISTED = b"""solution: /submissions/accepted/sol.cpp
random_salt: pepper
generators:
  two: [both/a.py, both/b.py]
data:
  sample:
    data:
    - '': {copy: manual/1}
    - second: {in: "5", ans: 6}
  secret:
    testdata.yaml: {output_validator_flags: case_sensitive}
    data:
    - random: random --seed {seed:1} 'a b'
    - random: random --seed {seed:2} {name}
    - deep:
        type: directory
        data:
          many: {generate: "two {count}", count: 2}
          hand: manual/1.in
    - {one: gen.py 7, other: built}
  invalid_input:
    data: {odd: {in: x}}
"""
FILES: Files = {
    "problem.yaml": b"name: x\nlimits: {time_limit: 1}\n",
    "problem_statement/problem.en.tex": b"\\problemname{x}\n",
    "generators/generators.yaml": LISTED,
    "generators/manual/1.in": b"1\n",
    "generators/manual/1.ans": b"2\n",
    "generators/random/random.cpp": b'#include "lib.h"\nint main() {}\n',
    "generators/random/lib.h": b"\n",
    "generators/both/a.py": b"import b\n",
    "generators/both/b.py": b"\n",
    "generators/gen.py": b"\n",
    "generators/built.py": b"\n",
    "submissions/accepted/sol.cpp": b"int main() {}\n",
}


def with_(text: str) -> Files:
    return {**FILES, "generators/generators.yaml": text.encode()}


def test_tests_are_planned_as_they_are_listed(tmp_path: Path) -> None:
    where = folder(tmp_path, FILES)
    plan = plan_of(where)
    assert [(one[0], *one[-2:]) for one in steps(plan)] == [
        ("generator random", "", "data/secret/1-random.in"),
        ("solution", "data/secret/1-random.in", "data/secret/1-random.ans"),
        ("generator random", "", "data/secret/2-random.in"),
        ("solution", "data/secret/2-random.in", "data/secret/2-random.ans"),
        ("generator two", "", "data/secret/3-deep/many-1.in"),
        ("solution", "data/secret/3-deep/many-1.in", "data/secret/3-deep/many-1.ans"),
        ("generator two", "", "data/secret/3-deep/many-2.in"),
        ("solution", "data/secret/3-deep/many-2.in", "data/secret/3-deep/many-2.ans"),
        ("generator gen.py", "", "data/secret/4-one.in"),
        ("solution", "data/secret/4-one.in", "data/secret/4-one.ans"),
        ("generator built", "", "data/secret/5-other.in"),
        ("solution", "data/secret/5-other.in", "data/secret/5-other.ans"),
    ]
    arguments = [step.args for test in plan.tests for step in test if step.args]
    assert arguments[0][2:] == ("a b",) and arguments[1][2:] == ("2-random",) and arguments[2:] == [
        ("1",), ("2",), ("7",),
    ]  # fmt: skip
    assert arguments[0][1].isdecimal() and arguments[0][1] != arguments[1][1]
    assert set(plan.programs["generator random"].files) == {"program.cpp", "lib.h"}
    assert set(plan.programs["generator two"].files) == {"a.py", "b.py"}
    with made(where, plan, tmp_path) as package:
        found = {name: (given, answer) for name, given, answer in contents(package)}
        assert found["sample/1"] == (b"1\n", b"2\n") == found["secret/3-deep/hand"]
        assert found["sample/2-second"] == (b"5\n", b"6\n")
        assert found["secret/5-other"] == (b"data/secret/5-other.in\n", b"data/secret/5-other.ans\n")
        assert len(found) == 9
        assert {tuple(test.flags or []) for test in package.manifest.tests if test.name.startswith("secret/")} == {
            ("case_sensitive",)
        }


def test_an_input_that_stands_in_the_settings_is_what_its_answer_is_made_of(tmp_path: Path) -> None:
    """Beside a copy it goes before the copied one, as the answer does."""
    text = "solution: /submissions/accepted/sol.cpp\ndata: {secret: {data: {a: {in: 5}, b: {copy: manual/1, in: 7}}}}\n"
    where = folder(tmp_path, with_(text))
    plan = plan_of(where)
    assert [one[-2:] for one in steps(plan)] == [("data/secret/a.in", "data/secret/a.ans")]
    (batch,) = batches(plan)
    with io.BytesIO() as file:
        pack(plan, batch, file)
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            held = archive.extractfile("f/0")
            assert held is not None and held.read() == b"5\n"
    with made(where, plan, tmp_path) as package:
        found = {name: (given, answer) for name, given, answer in contents(package)}
    assert found == {"secret/a": (b"5\n", b"data/secret/a.ans\n"), "secret/b": (b"7\n", b"2\n")}


def test_check_looks_at_the_rest(tmp_path: Path) -> None:
    checked = check_package(folder(tmp_path, FILES))
    assert checked.plan is not None
    checked.plan.close()
    assert not checked.findings.errors, checked.findings.errors


def test_tests_that_are_there_are_not_made(tmp_path: Path) -> None:
    there = {"data/secret/1.in": b"1\n", "data/secret/1.ans": b"1\n"}
    with read_package(folder(tmp_path, {**FILES, **there})) as package:
        assert [test.name for test in package.manifest.tests] == ["secret/1"]
    sample = {"data/sample/1.in": b"3\n", "data/sample/1.ans": b"4\n"}
    where = folder(tmp_path, {**FILES, **sample}, "sample")
    with made(where, plan_of(where), tmp_path) as package:
        assert contents(package)[0] == ("sample/1", b"3\n", b"4\n")


def test_what_interacts_has_no_answers(tmp_path: Path) -> None:
    text = "data: {secret: {data: {a: gen.py}}}\n"
    problem = b"name: x\nlimits: {time_limit: 1}\nvalidation: custom interactive\n"
    validator = {"problem.yaml": problem, "output_validators/v.py": b"\n"}
    plan = plan_of(folder(tmp_path, {**with_(text), **validator}))
    assert [step.output for test in plan.tests for step in test] == ["data/secret/a.in"]
    assert plan.texts["data/secret/a.ans"] == b""
    plan.close()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("data: {sample: {data: {a: gen.py}}}", "data.secret: has no tests"),
        ("data: {secret: {data: {a: nothing 1}}}", "'nothing': there is no such program in generators/"),
        ("data: {secret: {data: {a: {copy: manual/2}}}}", "there is no generators/manual/2.in in the package"),
        ("data: {secret: {data: {a: {hint: x}}}}", "a: has none of 'generate', 'copy' and 'in'"),
        ("data: {secret: {data: {a: [1]}}}", "a: expected a command, or a mapping"),
        ("data: {secret: {data: {../a: gen.py}}}", "'../a' is not the name of a test"),
        ("data: {secret: {data: {a: {generate: gen.py, count: 0}}}}", "count: expected from 1 to 5000"),
        ('data: {secret: {data: {a: "gen.py \'x"}}}', "is no command"),
        ("data: {secret: [1]}", "secret: expected a mapping with 'data'"),
        ("data: {secret: {data: [a]}}", "data: expected a mapping of tests and directories"),
        ("solution: /x.cpp\ndata: {secret: {data: {a: gen.py}}}", "solution: '/x.cpp' is not in the package"),
    ],
)
def test_what_cannot_be_made_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(PackageError) as caught:
        read_package(folder(tmp_path, with_(text)))
    assert sentence in str(caught.value) and not isinstance(caught.value, UnmadeError)


ENTRIES = st.recursive(
    st.one_of(st.none(), st.integers(), st.sampled_from(["gen.py 1", "manual/1.in", "x", "", "gen.py '"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["data", "secret", "generate", "copy", "in", "count", "a", ""]), inner),
    ),
    max_leaves=10,
)


@given(ENTRIES)
def test_any_settings_are_planned_or_refused(tmp_path_factory: pytest.TempPathFactory, entries: object) -> None:
    where = folder(
        tmp_path_factory.mktemp("any"), {**FILES, "generators/generators.yaml": draft.dump({"data": entries})}
    )
    found = check_package(where)
    if found.plan is not None:
        assert any(path.startswith("data/secret/") for path in found.plan.stand_ins().files)
        found.plan.close()
    elif found.package is not None:
        found.package.close()
