"""Packages whose tests generators/generators.yaml makes: what is to be run for them, and what becomes of them."""

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.ctl.problem.making import batches, pack
from judge.problems.importers import draft
from judge.problems.importers.making import Plan, UnmadeError
from judge.problems.package import read_package
from judge.problems.reading.checks import check_package
from tests.support.packages import ByteFiles, folder
from tests.unit.test_importers_made import STANDARD, completed, contents, impossible, plan_of, steps

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
FILES: ByteFiles = {
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


SCORING = b"problem_format_version: 2025-09\nname: x\ntype: scoring\nuuid: 5ca6ba5b-36d5-4eff-8aa7-d967cbc4375e\n"


def with_(text: str) -> ByteFiles:
    return {**FILES, "generators/generators.yaml": text.encode()}


def planned(tmp_path: Path, files: ByteFiles) -> Plan:
    """A plan that is closed: what it says is still there."""
    plan = plan_of(folder(tmp_path, files))
    plan.close()
    return plan


def test_tests_are_planned_as_they_are_listed(tmp_path: Path) -> None:
    root = folder(tmp_path, FILES)
    plan = plan_of(root)
    assert [(step[0], *step[-2:]) for step in steps(plan)] == [
        ("generator random", "", "data/secret/3-random.in"),
        ("solution", "data/secret/3-random.in", "data/secret/3-random.ans"),
        ("generator random", "", "data/secret/4-random.in"),
        ("solution", "data/secret/4-random.in", "data/secret/4-random.ans"),
        ("generator two", "", "data/secret/1-deep/many-1.in"),
        ("solution", "data/secret/1-deep/many-1.in", "data/secret/1-deep/many-1.ans"),
        ("generator two", "", "data/secret/1-deep/many-2.in"),
        ("solution", "data/secret/1-deep/many-2.in", "data/secret/1-deep/many-2.ans"),
        ("generator gen.py", "", "data/secret/5-one.in"),
        ("solution", "data/secret/5-one.in", "data/secret/5-one.ans"),
        ("generator built", "", "data/secret/6-other.in"),
        ("solution", "data/secret/6-other.in", "data/secret/6-other.ans"),
    ]
    arguments = [step.args for test in plan.tests for step in test if step.args]
    assert arguments[0][2:] == ("a b",) and arguments[1][2:] == ("testcase",) and arguments[2:] == [
        ("1",), ("2",), ("7",),
    ]  # fmt: skip
    assert arguments[0][1].isdecimal() and arguments[0][1] != arguments[1][1]
    assert set(plan.programs["generator random"].files) == {"program.cpp", "lib.h"}
    assert set(plan.programs["generator two"].files) == {"a.py", "b.py"}
    with completed(root, plan, tmp_path) as package:
        tests = {name: (stdin, answer) for name, stdin, answer in contents(package)}
        assert tests["sample/1"] == (b"1\n", b"2\n") == tests["secret/1-deep/hand"]
        assert tests["sample/2-second"] == (b"5\n", b"6\n")
        assert tests["secret/6-other"] == (b"data/secret/6-other.in\n", b"data/secret/6-other.ans\n")
        assert len(tests) == 9
        assert {tuple(test.flags or []) for test in package.manifest.tests if test.name.startswith("secret/")} == {
            ("case_sensitive",)
        }


def test_an_input_that_stands_in_the_settings_is_what_its_answer_is_made_of(tmp_path: Path) -> None:
    """Beside a copy it goes before the copied one, as the answer does."""
    text = "solution: /submissions/accepted/sol.cpp\ndata: {secret: {data: {a: {in: 5}, b: {copy: manual/1, in: 7}}}}\n"
    root = folder(tmp_path, with_(text))
    plan = plan_of(root)
    assert [step[-2:] for step in steps(plan)] == [("data/secret/a.in", "data/secret/a.ans")]
    (batch,) = batches(plan)
    with io.BytesIO() as file:
        pack(plan, batch, file)
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            member = archive.extractfile("f/0")
            assert member is not None and member.read() == b"5\n"
    with completed(root, plan, tmp_path) as package:
        tests = {name: (stdin, answer) for name, stdin, answer in contents(package)}
    assert tests == {"secret/a": (b"5\n", b"data/secret/a.ans\n"), "secret/b": (b"7\n", b"2\n")}


def test_check_looks_at_the_rest(tmp_path: Path) -> None:
    checked = check_package(folder(tmp_path, FILES))
    assert checked.plan is not None
    checked.plan.close()
    assert not checked.findings.errors, checked.findings.errors


def test_tests_that_are_there_are_not_made(tmp_path: Path) -> None:
    tests = {"data/secret/1.in": b"1\n", "data/secret/1.ans": b"1\n"}
    with read_package(folder(tmp_path, {**FILES, **tests})) as package:
        assert [test.name for test in package.manifest.tests] == ["secret/1"]
    sample = {"data/sample/1.in": b"3\n", "data/sample/1.ans": b"4\n"}
    root = folder(tmp_path, {**FILES, **sample}, "sample")
    with completed(root, plan_of(root), tmp_path) as package:
        assert contents(package)[0] == ("sample/1", b"3\n", b"4\n")


def test_interactive_problems_get_empty_answers(tmp_path: Path) -> None:
    text = "data: {secret: {data: {a: gen.py}}}\n"
    problem = b"name: x\nlimits: {time_limit: 1}\nvalidation: custom interactive\n"
    validator = {"problem.yaml": problem, "output_validators/v.py": b"\n"}
    plan = plan_of(folder(tmp_path, {**with_(text), **validator}))
    (step,) = plan.tests[0]
    assert (step.output, step.answer, step.unmade_reason) == ("data/secret/a.in", "data/secret/a.ans", "empty")
    plan.close()


@pytest.mark.parametrize(
    ("text", "lacking", "programs"),
    [
        ("data: {secret: {data: {a: gen.py}}}", "later", ["generator gen.py", "solution"]),
        ("data: {secret: {solution: , data: {a: gen.py}}}", "refused", ["generator gen.py"]),
    ],
)
def test_a_generator_may_write_the_answer(tmp_path: Path, text: str, lacking: str, programs: list[str]) -> None:
    root = folder(tmp_path, with_(f"solution: /submissions/accepted/sol.cpp\n{text}\n"))
    plan = plan_of(root)
    assert [step.program for step in plan.tests[0]] == programs
    assert (plan.tests[0][0].stem, plan.tests[0][0].unmade_reason) == ("testcase", lacking)
    assert all(step.spare for step in plan.tests[0][1:])
    (batch,) = batches(plan)
    with io.BytesIO() as file:
        pack(plan, batch, file)
    assert batch.outputs == ["data/secret/a.in", "data/secret/a.ans"], "each once"
    with completed(root, plan, tmp_path) as package:
        assert ("secret/a", b"data/secret/a.in\n", b"data/secret/a.ans\n") in contents(package)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("data: {sample: {data: {a: gen.py}}}", "data.secret: has no tests"),
        ("data: {secret: {data: {a: nothing 1}}}", "'nothing': there is no such program in generators/"),
        ("data: {secret: {data: {a: {copy: manual/2}}}}", "there is no generators/manual/2.in in the package"),
        ("data: {secret: {data: {a: {hint: x}}}}", "a: has none of 'generate', 'copy' and 'in'"),
        ("data: {secret: {data: {a: [1]}}}", "a: expected a command, or a mapping"),
        (
            "data: {secret: {data: {a: {generate: gen.py, data: {}}}}}",
            "a: has 'data' of a directory, and keys of a test",
        ),
        ("data: {secret: {data: {a: {type: testcase, input: gen.py}}}}", "a: has none of 'generate', 'copy' and 'in'"),
        ("data: {secret: {data: {a: {args: 1}}}}", "a: has none of 'generate', 'copy' and 'in'"),
        ("data: {secret: {data: {a: gen.py, b: }}}", "b: says nothing, so data/secret/b.in must be in the package"),
        ("data: {secret: {data: {a: {in: [1]}}}}", "a: in: expected text, found list; put it in quotes"),
        ("data: {secret: {data: {a: {generate: [7]}}}}", "a: generate: expected text, found list"),
        ("data: {secret: {data: {a: gen.py}, test_group.yaml: [1]}}", "test_group.yaml: expected a mapping"),
        ("data: {secret: {data: {a: {generate: gen.py, solutions: /x}}}}", "did you mean solution?"),
        ("data: {secret: {data: {a: {in: x, in.statement: {link: ans}}}}}", "link: 'ans' is not a file that it may be"),
        ("random_salt: [1]\ndata: {secret: {data: {a: gen.py}}}", "random_salt: expected text"),
        ("generators: {x: [no.py]}\ndata: {secret: {data: {a: x}}}", "x: generators/no.py is not in the package"),
        (
            "data: {secret: {data: {a-1: gen.py, a: {generate: gen.py, count: 1}}}}",
            "there are two tests data/secret/a-1",
        ),
        ("data: {secret: {data: {../a: gen.py}}}", "'../a' is not the name of a test"),
        ("data: {secret: {data: {a: {generate: gen.py, count: 0}}}}", "count: expected from 1 to 5000"),
        ('data: {secret: {data: {a: "gen.py \'x"}}}', "is no command"),
        ("data: {secret: [1]}", "secret: expected a mapping with 'data'"),
        ("data: {secret: {data: [a]}}", "data: expected a mapping of tests and directories"),
        ("solution: [1]\ndata: {secret: {data: {a: gen.py}}}", "solution: expected the path of a submission"),
        (
            "solution: ''\ndata: {secret: {data: {a: {in: x}}}}",
            "solution: is empty, so nothing makes data/secret/a.ans",
        ),
        ("generators: {x: 5}\ndata: {secret: {data: {a: x}}}", "generators: x: expected a list of the program's files"),
        ("include: a\ndata: {secret: {data: {a: gen.py}}}", "include: belongs to a directory below data.secret"),
        ("data: {secret: {solution: , data: {a: {in: x}}}}", "solution: is empty, so nothing makes data/secret/a.ans"),
        ("solution: /x.cpp\ndata: {secret: {data: {a: gen.py}}}", "solution: '/x.cpp' is not in the package"),
    ],
)
def test_settings_that_make_no_tests_are_refused(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in impossible(folder(tmp_path, with_(text)))


# The settings of test/problems/testseed of BAPCtools, which keeps the seed and the value beside them.
SEEDS = b"""data:
  sample:
    data:
      - basic_seed: "gen.py {seed}"
      - whitespace: "gen.py {seed} a  aa  b "
      - seed-42: "gen.py {seed:42}"
      - random_salt: {generate: "gen.py {seed:42}", random_salt: bob}
      - count: {generate: "gen.py {seed} {count}", count: 5}
      - count-list: {generate: "gen.py {seed:1} {count}", count: [-2, 0, 1, 2]}
      - count-range: {generate: "gen.py {seed:2} {count}", count: -2..=3}
  secret:
    data: {a: gen.py}
"""


def arguments(tmp_path: Path, settings: str | bytes) -> dict[str, str]:
    """What generators are called with, by the test that they make."""
    text = settings if isinstance(settings, str) else settings.decode()
    plan = planned(tmp_path, {**with_(text), "generators/stdout.py": b"\n"})
    made_by = [step for test in plan.tests for step in test if step.output.endswith(".in")]
    return {step.output.removeprefix("data/").removesuffix(".in"): " ".join(step.args) for step in made_by}


def test_seeds_are_those_of_bapctools(tmp_path: Path) -> None:
    """Of tests with a count, the value and the command with it put in are part of what the seed is made of."""
    commands = arguments(tmp_path, SEEDS.replace(b"gen.py", b"stdout.py"))
    expected = {
        "02-whitespace": "2133905738 a aa b",
        "04-random_salt": "593058468",
        "06-count-2": "1581952888 2",
        "07-count-3": "969404650 3",
        "10-count-list--2": "207342926 -2",
        "11-count-list-0": "627447910 0",
        "13-count-list-2": "2075121131 2",
        "14-count-range--2": "458079516 -2",
        "18-count-range-02": "2011330370 2",
    }
    assert {name: commands["sample/" + name] for name in expected} == expected
    assert len(commands) == 20 and "secret/a" in commands


def test_an_inner_salt_takes_the_place_of_the_outer_one(tmp_path: Path) -> None:
    seed = "'gen.py {seed}'"
    inner = f"{{a: {seed}, b: {{generate: {seed}, random_salt: pepper}}, c: {{generate: {seed}, random_salt: ''}}}}"
    secret = f"{{random_salt: pepper, data: {inner}}}"
    text = f"random_salt: salt\ndata: {{sample: {{data: {{a: {seed}}}}}, secret: {secret}}}\n"
    commands = arguments(tmp_path / "inner", text)
    assert commands["secret/a"] == commands["secret/b"]
    assert len({commands["sample/a"], commands["secret/a"], commands["secret/c"]}) == 3
    plain = arguments(tmp_path / "plain", f"data: {{secret: {{data: {{a: {seed}}}}}}}\n")
    assert commands["secret/c"] == plain["secret/a"]


@pytest.mark.parametrize(
    ("count", "names"),
    [
        ("1", ["a-1"]),
        ("3", ["a-1", "a-2", "a-3"]),
        ("[10, 20, 30]", ["a-10", "a-20", "a-30"]),
        ("[100, -5]", ["a-100", "a--5"]),
        ("5..=7", ["a-5", "a-6", "a-7"]),
        ("-1..=1", ["a--1", "a-00", "a-01"]),
        ("8..=10", ["a-08", "a-09", "a-10"]),
    ],
)
def test_a_count_gives_the_values(tmp_path: Path, count: str, names: list[str]) -> None:
    commands = arguments(
        tmp_path, f"data: {{secret: {{data: {{a: {{generate: 'gen.py {{count}}', count: {count}}}}}}}}}\n"
    )
    assert list(commands) == [f"secret/{name}" for name in names]
    assert [int(value) for value in commands.values()] == [int(name.removeprefix("a-")) for name in names]


@pytest.mark.parametrize(
    "count", ["0", "true", "5001", "[]", "[1, 1]", "[a]", "[true]", "7..=5", "1..=6000", "1..5", "2.0"]
)
def test_a_count_that_cannot_be_meant_is_refused(tmp_path: Path, count: str) -> None:
    text = f"data: {{secret: {{data: {{a: {{generate: gen.py, count: {count}}}}}}}}}"
    assert "secret: a: count: expected from 1 to 5000 tests" in impossible(folder(tmp_path, with_(text)))


INCLUDED = """data:
  sample:
    data: {"1": {in: "1", ans: "1"}, "2": {copy: manual/1}}
  secret:
    data:
    - small:
        test_group.yaml: {max_score: 40}
        data:
        - ones: {data: [a: gen.py 1, b: {generate: gen.py 2, yaml: {output_validator_args: x}}], include: ["1"]}
        - rest: {data: [c: {in: "5"}]}
    - alone:
        include: [small, a]
    - large: {test_group.yaml: {max_score: 60}, data: [d: gen.py 4], include: [sample, alone]}
    - last: {include: [alone]}
"""


def test_included_tests_are_in_each_group(tmp_path: Path) -> None:
    """By the key of a test or a directory, with all their files; each is made once."""
    root = folder(tmp_path, with_(INCLUDED))
    plan = plan_of(root)
    assert [step.output for test in plan.tests for step in test if step.output.endswith(".in")] == [
        "data/secret/1-small/1-ones/1-a.in", "data/secret/1-small/1-ones/2-b.in", "data/secret/3-large/4-d.in",
    ]  # fmt: skip
    with completed(root, plan, tmp_path) as package:
        tests = {name: (stdin, answer) for name, stdin, answer in contents(package)}
    names = {"1-a", "2-b", "3-c", "1"}
    assert {name.removeprefix("secret/2-alone/") for name in tests if "/2-alone/" in name} == names
    assert {name.removeprefix("secret/3-large/") for name in tests if "/3-large/" in name} == {*names, "2", "4-d"}
    assert {name.removeprefix("secret/4-last/") for name in tests if "/4-last/" in name} == names
    path = "data/secret/1-small/1-ones/1-a"
    assert tests["secret/2-alone/1-a"] == (f"{path}.in\n".encode(), f"{path}.ans\n".encode())
    assert tests["secret/2-alone/3-c"] == (b"5\n", b"data/secret/1-small/2-rest/3-c.ans\n")
    assert tests["secret/2-alone/1"] == (b"1\n", b"1\n") and tests["secret/3-large/2"] == (b"1\n", b"2\n")


def test_included_tests_decide_points(tmp_path: Path) -> None:
    text = (
        "data:\n  secret:\n    data:\n    - one: {test_group.yaml: {max_score: 40}, data: [a: gen.py 1]}\n"
        "    - two: {test_group.yaml: {max_score: 60}, data: [b: {generate: gen.py 2, yaml: {args: x}}],"
        " include: one}\n    - three: {test_group.yaml: {max_score: 0}, include: [two]}\n"
    )
    root = folder(tmp_path, {**with_(text), "problem.yaml": SCORING + b"limits: {time_limit: 1}\n"})
    with completed(root, plan_of(root), tmp_path) as package:
        tests = {test.name: test.args for test in package.manifest.tests}
    assert tests == {
        "secret/1-one/1-a": [], "secret/2-two/1-a": [], "secret/2-two/2-b": ["x"], "secret/3-three/1-a": [],
        "secret/3-three/2-b": ["x"],
    }  # fmt: skip


def test_included_tests_that_were_handed_in(tmp_path: Path) -> None:
    sample = {"data/sample/1.in": b"3\n", "data/sample/1.ans": b"4\n"}
    root = folder(tmp_path, {**with_("data: {sample: {data: {'1': }}, secret: {include: ['1']}}"), **sample})
    with completed(root, plan_of(root), tmp_path) as package:
        assert contents(package) == [("sample/1", b"3\n", b"4\n"), ("secret/1", b"3\n", b"4\n")]


@pytest.mark.parametrize(
    ("include", "sentence"),
    [
        ("[what]", "include: 'what' is not the key of a test or directory that stands before it"),
        ("[z]", "'z' is not the key"),
        ("[secret/a]", "'secret/a' is not the key"),
        ("[[a]]", "is not the key"),
        ("[twice]", "'twice' is the key of several"),
        ("[many]", "'many' is the key of several"),
        ("[same]", "data/secret/x/same and data/secret/y/same are both to be data/secret/y/same"),
    ],
)
def test_an_include_that_cannot_be_meant_is_refused(tmp_path: Path, include: str, sentence: str) -> None:
    entries = "a: gen.py, many: {generate: gen.py, count: 2}, twice: gen.py"
    text = (
        f"data: {{secret: {{data: {{w: {{data: {{{entries}}}}}, x: {{data: {{twice: gen.py, same: gen.py 1}}}},"
        f" y: {{data: {{same: gen.py 2, b: gen.py}}, include: {include}}}, z: {{data: {{c: gen.py}}}}}}}}}}\n"
    )
    if include == "[same]":
        text = text.replace("include: [same]", "include: [x]")
    assert sentence in impossible(folder(tmp_path, with_(text)))


@pytest.mark.parametrize(
    "empty",
    [
        "{}",
        "{data: }",
        "{data: []}",
        "{type: directory}",
        "{test_group.yaml: {args: x}}",
        "{data: {h: {}}, solution: }",
    ],
)
def test_a_directory_may_have_no_tests(tmp_path: Path, empty: str) -> None:
    """In a problem with points, too: its settings decide nothing then."""
    group = "{test_group.yaml: {max_score: 40}, data: [a: gen.py 1]}"
    files = {"problem.yaml": SCORING + b"limits: {time_limit: 1}\n"}
    root = folder(tmp_path, {**with_(f"data: {{secret: {{data: [g0: {empty}, g1: {group}]}}}}\n"), **files})
    with completed(root, plan_of(root), tmp_path) as package:
        assert [test.name for test in package.manifest.tests] == ["secret/2-g1/1-a"]
        assert [group.name for group in package.manifest.groups] == ["secret", "secret/2-g1"]


def test_a_directory_with_points_and_no_tests_is_refused(tmp_path: Path) -> None:
    text = "data: {secret: {data: {g0: {test_group.yaml: {max_score: 60}}, g1: {data: {a: gen.py}}}}}\n"
    checked = check_package(folder(tmp_path, {**with_(text), "problem.yaml": SCORING}))
    assert checked.plan is not None
    checked.plan.close()
    assert any("g0/test_group.yaml: its group has no tests" in error for error in checked.findings.errors)


def test_the_innermost_solution_makes_the_answer(tmp_path: Path) -> None:
    text = (
        "solution: /submissions/accepted/sol.cpp\ndata:\n  secret:\n    data:\n      a: gen.py 1\n"
        "      b: {generate: gen.py 2, solution: /generators/gen.py}\n"
        "      c: {solution: /generators/both --fast, data: {d: gen.py 3, e: {in: x, solution: gen.py}}}\n"
        "      f: {solution: , data: {g: {in: x, ans: y}}}\n"
    )
    plan = planned(tmp_path, with_(text))
    answers = [step for test in plan.tests for step in test if step.output.endswith(".ans")]
    assert {step.output[12:-4]: (plan.programs[step.program].name, step.args) for step in answers} == {
        "a": ("submissions/accepted/sol.cpp", ()),
        "b": ("generators/gen.py", ()),
        "c/d": ("generators/both/a.py", ("--fast",)),
        "c/e": ("generators/gen.py", ()),
    }
    assert (True, "3 inputs made at import by generators/gen.py") in plan.notes
    assert plan.texts["data/secret/f/g.ans"] == b"y\n"


def test_settings_of_tests_and_of_the_root_are_written(tmp_path: Path) -> None:
    text = (
        "testdata.yaml: {output_validator_flags: root}\ndata: {secret: {data: {a: {generate: 'gen.py {count}',"
        " count: 2, yaml: {output_validator_args: [x, y]}}, b: {in: '1', ans: '', yaml: 'args: [z]'},"
        " c: {copy: manual/3}}}}\n"
    )
    files = {"generators/manual/3.in": b"1\n", "generators/manual/3.yaml": b"args: [w]\n"}
    plan = planned(tmp_path, {**with_(text), **files})
    assert plan.texts["data/testdata.yaml"] == b"output_validator_flags: root\n"
    assert plan.texts["data/secret/a-1.yaml"] == plan.texts["data/secret/a-2.yaml"]
    assert b"output_validator_args" in plan.texts["data/secret/a-1.yaml"]
    assert plan.texts["data/secret/b.yaml"] == b"args: [z]\n" and plan.texts["data/secret/b.ans"] == b""
    assert plan.copies["data/secret/c.yaml"] == "generators/manual/3.yaml"


def test_files_shown_for_a_sample_are_written(tmp_path: Path) -> None:
    text = (
        "data: {sample: {data: {a: {in: '1', ans: '2', in.statement: '3', ans.statement: {link: ans.download},"
        " ans.download: '4'}, b: {interaction: '<1'}}}, secret: {data: {c: gen.py}}}\n"
    )
    plan = planned(tmp_path, with_(text))
    assert plan.texts["data/sample/a.in.statement"] == b"3\n" and plan.texts["data/sample/b.interaction"] == b"<1\n"
    assert plan.texts["data/sample/a.ans.statement"] == b"4\n" and "data/sample/b.ans" not in plan.texts


def test_generators_that_are_listed_go_before_files_of_their_name(tmp_path: Path) -> None:
    text = "generators: {gen.py: [gen.py, both/b.py]}\ndata: {secret: {data: {a: gen.py}}}\n"
    plan = planned(tmp_path, with_(text))
    assert set(plan.programs["generator gen.py"].files) == {"gen.py", "b.py"}


def test_constants_are_put_in(tmp_path: Path) -> None:
    """Into commands, before their seeds are made, and into the programs that are run."""
    text = "data: {secret: {data: {a: 'gen.py {{most}} {{no}} {seed}', b: 'gen.py 9 {{no}} {seed}'}}}\n"
    problem = b"name: x\nlimits: {time_limit: 1}\nconstants: {most: {value: 9, latex: $9$}}\n"
    files = {"problem.yaml": problem, "generators/gen.py": b"print({{most}})\n"}
    plan = planned(tmp_path, {**with_(text), "submissions/accepted/a.py": b"x = {{most}}\n", **files})
    first, second = (steps[0].args for steps in plan.tests)
    assert first == second and first[:2] == ("9", "{{no}}") and first[2].isdecimal()
    assert plan.programs["generator gen.py"].files == {"gen.py": b"print(9)\n"}
    assert plan.programs["solution"].files == {"a.py": b"x = 9\n"}


def test_unknown_keys_are_noted_by_check_and_import(tmp_path: Path) -> None:
    text = "tool: 1\ndata: {secret: {data: {a: {generate: 'gen.py {count}', retries: 3}}}}\n"
    root = folder(tmp_path, with_(text))
    with pytest.raises(UnmadeError) as unmade:
        read_package(root)
    with read_package(root, options=draft.ImporterWords(products=unmade.value.plan.stand_ins())) as package:
        assert any("tool: is no key that is known here, and is left alone" in note for note in package.notes)
    unmade.value.plan.close()
    checked = check_package(root)
    assert checked.plan is not None
    checked.plan.close()
    findings = [f"{finding.level}: {finding.text.partition('generators.yaml')[2]}" for finding in checked.findings.all]
    assert "warning: : tool: is no key that is known here, and is left alone" in findings
    assert "warning: : secret: a: retries: is no key that is known here, and is left alone" in findings
    assert "warning: : secret: a: has {count} in its command, and no 'count'; it stays so" in findings


def test_generators_that_make_tests_are_not_said_to_be_only_kept(tmp_path: Path) -> None:
    def has_note(files: ByteFiles, name: str) -> bool:
        checked = check_package(folder(tmp_path, files, name))
        for opened in (checked.plan, checked.package):
            if opened is not None:
                opened.close()
        assert checked.plan is not None or name == "given"
        return any("kept with the package, and not run" in finding.text for finding in checked.findings.all)

    assert not has_note(FILES, "made")
    assert not has_note(STANDARD, "polygon")
    # Only the answers are to be made.
    assert has_note(with_("data: {secret: {data: {a: {in: x}}}}\n"), "answers")
    assert has_note({**FILES, "data/secret/1.in": b"1\n", "data/secret/1.ans": b"1\n"}, "given")


ENTRIES = st.recursive(
    st.one_of(st.none(), st.integers(), st.sampled_from(["gen.py 1", "manual/1.in", "x", "", "gen.py '"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["data", "secret", "generate", "copy", "in", "count", "include", "solution", "yaml", "a", ""]
            ),
            inner,
        ),
    ),
    max_leaves=10,
)


@given(ENTRIES)
def test_any_settings_are_planned_or_refused(tmp_path_factory: pytest.TempPathFactory, entries: object) -> None:
    root = folder(
        tmp_path_factory.mktemp("any"), {**FILES, "generators/generators.yaml": draft.dump({"data": entries})}
    )
    checked = check_package(root)
    if checked.plan is not None:
        assert any(path.startswith("data/secret/") for path in checked.plan.stand_ins().files)
        checked.plan.close()
    elif checked.package is not None:
        checked.package.close()
