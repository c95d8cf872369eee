"""Shapes of packages as they lie in public repositories, each read as the tools of its own judge read it.

Every shape was seen at several places or in tests of problemtools, BAPCtools or DOMjudge (docs/problems-format.md).
A shape that is merely unusual is read, and its warning says what is made of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from judge.common.errors import PackageError
from judge.languages.table import load_table
from judge.model.problem import LegacyGroup, StaticTest, TestGroup
from judge.problems import expectations
from judge.problems.package import Package, read_package
from judge.problems.reading.checks import check_package
from tests.support import packages
from tests.support.packages import Files, cases, refusal

TESTS: dict[str, bytes | str] = {
    **cases("sample/1"),
    "data/secret/01.in": "2\n",
    "data/secret/01.ans": "2\n",
}
ACCEPTED: dict[str, bytes | str] = {"submissions/accepted/a.py": "print(input())\n"}
CHECK = "import sys\nsys.exit(42)\n"


@dataclass
class Shape:
    """A package, the warnings that it earns, and what must be true of it once it is read."""

    files: Files
    holds: Callable[[Package], object] = lambda package: package.manifest.tests
    says: list[str] = field(default_factory=list)
    tests: bool = True


def legacy(yaml: str) -> dict[str, bytes | str]:
    return {"problem.yaml": yaml, "problem_statement/problem.en.tex": "\\problemname{Sum}\n"}


def draft(yaml: str) -> dict[str, bytes | str]:
    return {"problem.yaml": f"problem_format_version: 2023-07-draft\n{yaml}", "statement/problem.en.tex": "x\n"}


def current(yaml: str) -> dict[str, bytes | str]:
    head = "problem_format_version: 2025-09\nuuid: 58c89b2d-616c-4291-ab8a-710b4e6cb978\n"
    return {"problem.yaml": head + yaml, "statement/problem.en.md": "x\n"}


def names(package: Package) -> list[str]:
    return [test.name for test in package.manifest.tests]


def validators(package: Package) -> list[tuple[str, str | None, str]]:
    return [(program.name, program.language, program.main) for program in package.manifest.validators]


SHAPES: dict[str, Shape] = {
    # --- problem.yaml ----------------------------------------------------------------------------------------------
    "NWERC and GCPC: legacy by BAPCtools, keys without a value": Shape(
        legacy(
            "name:\n  en: Brickwork\nauthor: A\nsource: NWERC\nsource_url: https://x\nlicense: cc by-sa\n"
            "rights_owner: author\nvalidation: default\nvalidator_flags:\nlimits:\n  memory:\n  time_multiplier: 2\n"
            "  time_safety_margin: 1.5\n"
        ),
        lambda package: (
            package.infer and package.yaml.limits.time_multiplier == 2 and package.manifest.title == "Brickwork"
        ),
    ),
    "problemtools' examples: comments only": Shape(
        legacy("## At least one of author\n# author:\n"), lambda package: package.infer
    ),
    "BAPCtools' keys of its own": Shape(
        current("name: X\nverified: true\ncomment: it is easy\nlimits: {generator_time: 60, visualizer_time: 60}\n"),
        lambda package: package.infer,
        ["unknown key 'verified'", "unknown key 'comment'", "unknown key 'limits.generator_time'"],
    ),
    "course repositories: limits by other systems' names, where no tool looks for them": Shape(
        legacy("name: X\nrights-owner: A\nlicense: unknown\ntime_limit: 2\nlimits:\n  time: 5\n  memory: 256\n"),
        lambda package: package.infer and package.manifest.limits.memory == 256 << 20,
        [
            "'rights-owner'; it is left alone; is 'rights_owner' meant?",
            "is 'limits.time_limit' meant?",
            "unknown key 'limits.time'; it is left alone; is 'time_limit' meant?",
        ],
    ),
    "a title that YAML takes for a number": Shape(
        legacy("name: 2048\n"), lambda package: package.manifest.title == "2048"
    ),
    "a version with quotes": Shape(
        draft("name: X\n") | {"problem.yaml": "problem_format_version: '2023-07'\nname: X\n"},
        lambda package: package.manifest.format == "2023-07-draft",
    ),
    "legacy-icpc": Shape(
        legacy("problem_format_version: legacy-icpc\nname: X\n"),
        lambda package: package.manifest.format == "legacy-icpc",
    ),
    "grading: of old Kattis packages": Shape(
        legacy(
            "type: scoring\nname: X\ngrading:\n  objective: max\n  show_test_data_groups: true\n  on_reject: grade\n"
            "  accept_score: 5\n  range: 0 100\n"
        ),
        lambda package: (
            package.manifest.graders[0].accept_score == 5
            and package.manifest.graders[0].high == 100
            and package.manifest.graders[0].on_reject == "continue"
            and package.manifest.dialect == "kattis"
        ),
    ),
    "keywords, embargo, credits of every form": Shape(
        current(
            "name: X\nkeywords: [a, b]\nembargo_until: 2026-01-01\nversion: 3\nlicense: cc0\ncredits:\n  authors:\n"
            "  - A <a@b.c>\n  - {name: B, orcid: x}\n  translators: {sv: C}\nsource: [{name: N, url: u}, M]\n"
        ),
    ),
    "constants with spellings, as BAPCtools has them": Shape(
        current("name: X\nconstants: {n: {value: 5, latex: '5'}, m: 7}\n")
        | {"output_validator/check.py": "N = {{n}}; M = {{m}}\n" + CHECK},
        lambda package: b"N = 5; M = 7" in package.read(package.manifest.validators[0].files["check.py"]),
    ),
    "problem.yaml with a byte order mark and Windows line ends": Shape(
        legacy("") | {"problem.yaml": b"\xef\xbb\xbfname: Sum\r\nlimits:\r\n  memory: 1024\r\n"},
        lambda package: package.manifest.limits.memory == 1024 * 1024**2,
    ),
    # --- drafts ----------------------------------------------------------------------------------------------------
    "problemtools' guess: a draft without uuid": Shape(
        draft(
            "source: Kattis\nlicense: cc by-sa\ntype: interactive\nname: Guess\nlimits:\n  time_multipliers:\n"
            "    time_limit_to_tle: 4\n"
        )
        | {"output_validator/validate.cc": "int main() { return 42; }\n"},
        lambda package: (
            package.manifest.format == "2023-07-draft"
            and validators(package)[0][1] == "cpp"
            and package.yaml.limits.time_multipliers.time_limit_to_tle == 4
        ),
    ),
    "problemtools' oddecho: a draft with testdata.yaml for the legacy graders": Shape(
        draft("type: scoring\nname: Odd Echo\n")
        | {
            "data/testdata.yaml": "on_reject: continue\nrange: 0 100\ngrader_flags: ignore_sample\n",
            "data/secret/testdata.yaml": "on_reject: continue\nrange: 0 100\ngrader_flags: first_error\n",
            "data/secret/subtask1/testdata.yaml": "on_reject: break\naccept_score: 40\n"
            "range: 0 40\ngrader_flags: min\n",
            **cases("secret/subtask1/1"),
        },
        lambda package: (
            [group.name for group in package.manifest.graders] == ["", "sample", "secret", "secret/subtask1"]
            and package.manifest.graders[-1]
            == LegacyGroup(
                name="secret/subtask1", on_reject="break", score="min", accept_score=40, low=0, high=40, own_score=True
            )
            and not package.manifest.groups
        ),
    ),
    "a draft with scoring maps, whose silent groups share what is left": Shape(
        draft("type: scoring\nname: X\n")
        | {
            "data/secret/test_group.yaml": "scoring: {score: 90}\n",
            "data/secret/a/test_group.yaml": "scoring: {score: 30, aggregation: pass-fail}\n",
            **cases("secret/a/1", "secret/b/1", "secret/c/1"),
        },
        lambda package: (
            [(group.name, group.max_score) for group in package.manifest.groups]
            == [("secret", 90), ("secret/a", 30), ("secret/b", 30), ("secret/c", 30)]
        ),
        tests=False,
    ),
    "an archive of a company's contests: flags by the word of groups, beside groups without any": Shape(
        legacy("name: X\ntype: scoring\noutput_validator_flags: float_tolerance 1e-6\n")
        | {"data/secret/testdata.yaml": "on_reject: continue\ngrader_flags: first_error\n"},
        lambda package: package.manifest.validator_flags == ["float_tolerance", "1e-6"],
        ["problem.yaml:3: output_validator_flags: is the word of groups for 'validator_flags'; it is read as that"],
    ),
    "the same in 2025-09, without a value, and twice alike": Shape(
        current("name: X\noutput_validator_flags:\nvalidator_flags: a\noutput_validator_args: a\n")
        | {"output_validator/check.py": CHECK},
        lambda package: package.manifest.validator_flags == ["a"],
        ["output_validator_args: is the word of groups for 'validator_flags'"],
    ),
    "Swedish olympiads: gen.sh has written a key of a group twice": Shape(
        legacy("name: X\ntype: scoring\n")
        | {
            "data/secret/testdata.yaml": "input_validator_flags: n=5\naccept_score: 7\ninput_validator_flags: m=1\n",
            "input_validators/check.py": CHECK,
        },
        lambda package: package.manifest.tests[1].input_flags == ["m=1"],
        ["testdata.yaml:3: key 'input_validator_flags' occurs twice; the last one counts, as for Kattis"],
    ),
    "a draft in output_validators/ and with an author": Shape(
        draft("name: X\nauthor: A\nsource_url: u\n") | {"output_validators/check/check.py": CHECK},
        lambda package: validators(package) == [("check", "python3", "check.py")],
        ["author: belongs to the legacy format", "is called output_validator in format 2023-07-draft"],
    ),
    "a draft with validation as a mapping": Shape(
        draft("name: X\nvalidation:\n  interactive: true\n") | {"output_validator/a.py": CHECK},
        lambda package: "interactive" in package.manifest.type,
        ["validation: belongs to the legacy format"],
    ),
    "flags within validation, as converters of Polygon's packages write them": Shape(
        legacy("validation:\n  validator_flags: float_tolerance 1e-4\n"),
        lambda package: package.manifest.validator_flags == ["float_tolerance", "1e-4"],
    ),
    "a draft with static validation": Shape(
        draft("name: X\n")
        | {"static_validator/look.py": CHECK, "data/secret/test_group.yaml": "static_validation: {args: [a, b]}\n"},
        lambda package: package.manifest.static_tests == [StaticTest(group="secret", args=["a", "b"])],
    ),
    # --- 2025-09 ---------------------------------------------------------------------------------------------------
    "BAPCtools' skeleton: settings at the root of data/": Shape(
        current("name: X\n")
        | {"data/test_group.yaml": "output_validator_args: [float_tolerance, 1e-6]\ninput_validator_args: [--small]\n"},
        lambda package: (
            package.manifest.validator_flags == ["float_tolerance", "1e-6"]
            and package.manifest.tests[0].input_flags == ["--small"]
        ),
    ),
    "flags as one string": Shape(
        current("name: X\n") | {"data/test_group.yaml": "output_validator_args: float_tolerance 1e-6\n"},
        lambda package: package.manifest.validator_flags == ["float_tolerance", "1e-6"],
    ),
    "the legacy word for flags": Shape(
        current("name: X\n") | {"data/secret/test_group.yaml": "output_validator_flags: case_sensitive\n"},
        lambda package: package.manifest.tests[1].flags == ["case_sensitive"],
        ["output_validator_flags: is the legacy format's word for output_validator_args"],
    ),
    "flags in problem.yaml": Shape(
        current("name: X\nvalidator_flags: float_tolerance 1e-9\n"),
        lambda package: package.manifest.validator_flags == ["float_tolerance", "1e-9"],
        ["validator_flags: belongs to the legacy format"],
    ),
    "testdata.yaml in 2025-09": Shape(
        current("name: X\n") | {"data/secret/testdata.yaml": "output_validator_flags: case_sensitive\n"},
        lambda package: package.manifest.tests[1].flags == ["case_sensitive"],
        ["is called test_group.yaml in format 2025-09"],
    ),
    "validation in 2025-09": Shape(
        current("name: X\nvalidation: custom\n") | {"output_validator/a.py": CHECK},
        lambda package: len(validators(package)) == 1,
        ["validation: belongs to the legacy format"],
    ),
    "output_validators/ in 2025-09": Shape(
        current("name: X\n")
        | {"output_validators/check/check.cpp": "int main() {}\n", "output_validators/check/lib.h": ""},
        lambda package: validators(package) == [("check", "cpp", "check.cpp")],
        ["output_validators: is called output_validator"],
    ),
    "problem_statement/ in 2025-09": Shape(
        {"problem.yaml": current("name: X\n")["problem.yaml"], "problem_statement/problem.tex": "x"},
        lambda package: package.manifest.statements[0].language == "en",
        ["problem_statement"],
    ),
    "no name in 2025-09": Shape(
        current("license: cc0\n"), lambda package: package.manifest.title == "sum", ["key 'name' is missing"]
    ),
    "tests and groups side by side, where nothing is scored": Shape(
        current("name: X\n") | {**cases("secret/a/1")},
        lambda package: names(package)[-2:] == ["secret/01", "secret/a/1"],
        ["has both tests and groups of tests"],
    ),
    "a group in a group, where nothing is scored": Shape(
        current("name: X\n") | {**cases("secret/a/b/1"), "data/secret/a/b/test_group.yaml": "args: [x]\n"},
        lambda package: package.manifest.tests[-1].args == ["x"],
        ["is a group inside a group"],
        tests=False,
    ),
    "NAME.files/ and arguments": Shape(
        current("name: X\n")
        | {
            "data/secret/01.files/data.txt": "7",
            "data/secret/01.files/deep/x.bin": b"\0",
            "data/secret/01.yaml": "args: [data.txt]\nhint: look\ndescription: small\n",
        },
        lambda package: (
            sorted(package.manifest.tests[1].files) == ["data.txt", "deep/x.bin"]
            and package.manifest.tests[1].args == ["data.txt"]
            and package.manifest.tests[1].input_flags == ["data.txt"]
        ),
    ),
    "files instead of an input": Shape(
        current("name: X\n") | {"data/secret/02.ans": "1\n", "data/secret/02.files/a": "1"},
        lambda package: package.read(package.manifest.tests[2].input) == b"",
        ["the input is empty"],
    ),
    "submit-answer": Shape(
        current("name: X\ntype: submit-answer\n"), lambda package: "submit-answer" in package.manifest.type
    ),
    "scoring with a static test": Shape(
        current("name: X\ntype: scoring\n")
        | {
            "static_validator/look/run": "#!/bin/sh\nexit 42\n",
            **cases("secret/a/1"),
            "data/secret/a/test_group.yaml": "max_score: 100\nscore_aggregation: sum\nstatic_validation_score: 20\n",
        },
        lambda package: (
            package.manifest.static_tests == [StaticTest(group="secret/a", score=20)]
            and package.manifest.static_validator is not None
            and package.manifest.groups[1] == TestGroup(name="secret/a", max_score=100, aggregation="sum")
        ),
        tests=False,
    ),
    "a draft's words in 2025-09": Shape(
        current("name: X\ntype: scoring\n")
        | {"data/secret/a/test_group.yaml": "scoring: {score: 100}\n", **cases("secret/a/1")},
        lambda package: package.manifest.groups[1].max_score == 100,
        ["scoring: is of a draft of the format"],
        tests=False,
    ),
    "a file that other tools leave in data/": Shape(
        current("name: X\n")
        | {"data/secret/1 (copy).in": "1", "data/generator (copy).py": "", "data/secret/gen.sh": ""},
        lambda package: len(names(package)) == 2,
        ["a test's name should be of letters"],
    ),
    "include/ of a language that is not judged": Shape(
        current("name: X\n") | {"include/klingon/a.kl": "", "include/readme.txt": "", "include/python3/lib.py": ""},
        lambda package: list(package.manifest.include) == ["python3"],
        ["'klingon' is no language that is judged here", "lies in no language's folder"],
    ),
    "languages, of which some are judged": Shape(
        current("name: X\nlanguages: [python3, klingon, cpp]\n"),
        lambda package: package.manifest.languages == ["cpp", "python3"],
        ["languages: klingon: not judged here"],
    ),
    "a group that requires one which gives points for each test": Shape(
        current("name: X\ntype: scoring\n")
        | {f"data/secret/{group}/1.{end}": "1\n" for group in "ab" for end in ("in", "ans")}
        | {
            "data/secret/a/test_group.yaml": "{max_score: 40, score_aggregation: sum}\n",
            "data/secret/b/test_group.yaml": "{max_score: 60, require_pass: secret/a}\n",
        },
        lambda package: package.manifest.groups[-1].require_pass == ["secret/a"],
        ["must have aggregation pass-fail; here it passes when all its tests are accepted"],
        tests=False,
    ),
    # --- validators ------------------------------------------------------------------------------------------------
    "a legacy validator beside its header": Shape(
        legacy("validation: custom\n")
        | {
            "output_validators/validate.cc": "int main() {}",
            "output_validators/validate.h": "",
            "output_validators/README.md": "x",
        },
        lambda package: (
            validators(package) == [("validate", "cpp", "validate.cc")]
            and "validate.h" in package.manifest.validators[0].files
        ),
    ),
    "a legacy validator that its author compiled, and what he tried it with": Shape(
        legacy("validation: custom\n")
        | {f"output_validators/judge/{name}": "x" for name in ("judge", "feedback", "in", "out")}
        | {"output_validators/judge/judge.cpp": "int main() {}"},
        lambda package: (
            validators(package) == [("judge", "cpp", "judge.cpp")]
            and set(package.manifest.validators[0].files) == {"judge.cpp", "in", "out"}
        ),
        ["'judge' is where a validator finds what it is given; it is left out", "'feedback' is where"],
    ),
    "a legacy validator of two sources": Shape(
        legacy("validation: custom\n")
        | {"output_validators/check.cc": "int main() {}", "output_validators/lib.cc": "int f() { return 1; }"},
        lambda package: [program.files.keys() for program in package.manifest.validators] == [{"check.cc", "lib.cc"}],
    ),
    "several legacy validators": Shape(
        legacy("validation: custom\n") | {"output_validators/a/a.py": CHECK, "output_validators/b.cc": "int main() {}"},
        lambda package: [program[0] for program in validators(package)] == ["a", "b"],
        ["all of them must accept"],
    ),
    "programs in output_validators/ that nobody announces (skeletons)": Shape(
        legacy("name: X\nvalidation: default\nvalidator_flags: float_tolerance 1e-6\n")
        | {"output_validators/output_validator/output_validator.cpp": "int main() {}"},
        lambda package: not package.manifest.validators and package.manifest.dialect == "kattis",
        ["is not used, as problem.yaml says validation: default"],
    ),
    "a validator in Java": Shape(
        legacy("validation: custom\n")
        | {"output_validators/v/Validate.java": "class Validate {}", "output_validators/v/Main.java": "class Main {}"},
        lambda package: validators(package) == [("v", "java", "Main.java")],
    ),
    "several Python files, one of which starts": Shape(
        current("name: X\n")
        | {
            "output_validator/lib.py": "x = 1\n",
            "output_validator/check.py": "import lib\nif __name__ == '__main__':\n    pass\n",
        },
        lambda package: validators(package)[0][2] == "check.py",
    ),
    "a validator that builds itself": Shape(
        current("name: X\n")
        | {"output_validator/build": "#!/bin/sh\n", "output_validator/a.cpp": "", "output_validator/b.py": ""},
        lambda package: validators(package) == [("output_validator", None, "build")],
    ),
    "interactive without answers": Shape(
        current("name: X\ntype: interactive\n") | {"output_validator/a.py": CHECK, "data/secret/02.in": "1\n"},
        lambda package: package.read(package.manifest.tests[2].answer) == b"",
        ["gets an empty one"],
    ),
    "input validators of every kind": Shape(
        legacy("name: X\n")
        | {
            "input_format_validators/validate.py": CHECK,
            "input_validators/x.ctd": "EOF\n",
            "input_validators/y.viva": "{}\n",
            "input_validators/in.cc": "int main() {}",
            "input_validators/validation.h": "",
        },
        lambda package: [program.name for program in package.manifest.input_validators] == ["in", "x.ctd", "validate"],
        ["is a VIVA file"],
    ),
    "flags of input validators by their names": Shape(
        current("name: X\n")
        | {
            "input_validators/in.py": CHECK,
            "data/secret/test_group.yaml": "input_validator_args: {in.py: [--n, 5], other: [x]}\n",
        },
        lambda package: package.manifest.tests[1].input_flags == {"in": ["--n", "5"], "other": ["x"]},
    ),
    "an input validator that cannot be started": Shape(
        legacy("name: X\n") | {"input_validators/v/a.py": "x = 1", "input_validators/v/b.py": "y = 1"},
        lambda package: not package.manifest.input_validators,
        ["it is not run, and no verdict depends on it"],
    ),
    # --- graders ---------------------------------------------------------------------------------------------------
    "Swedish olympiads: a grader of its own": Shape(
        legacy("type: scoring\nname: X\n")
        | {
            "graders/grader.py": "print('AC 1')\n",
            "data/testdata.yaml": "on_reject: continue\ngrading: custom\n",
            "data/secret/testdata.yaml": "grading: default\n",
            "data/secret/g1/testdata.yaml": "grading: custom\ngrader_flags: all 40\n",
            **cases("secret/g1/1"),
        },
        lambda package: (
            package.manifest.grader is not None
            and package.manifest.graders[-1].flags == ["all", "40"]
            and [group.custom for group in package.manifest.graders] == [True, False, True]
        ),
        tests=False,
    ),
    "a grader that nobody asks for": Shape(
        legacy("name: X\n") | {"graders/grader.py": "x"},
        lambda package: package.manifest.grader is None,
        ["is not used, as no testdata.yaml says grading: custom"],
    ),
    # --- DOMjudge --------------------------------------------------------------------------------------------------
    "DOMjudge: no problem.yaml": Shape(
        {
            "domjudge-problem.ini": "; properties\nprobid = A\nname = 'Basic'\ntimelimit = 1\nallow_submit = 1\n",
            "problem.pdf": b"%PDF",
        },
        lambda package: (
            package.manifest.limits.cpu == 1
            and package.manifest.title == "Basic"
            and package.manifest.dialect == "domjudge"
            and package.manifest.statements[0].main == "problem.pdf"
        ),
        ["has no problem.yaml; it is read as DOMjudge does"],
    ),
    "DOMjudge: comments behind values": Shape(
        legacy("name: X\n") | {"domjudge-problem.ini": "timelimit = 3 ; seconds\ncolor = #ff0000\n"},
        lambda package: package.manifest.limits.cpu == 3,
    ),
    "DOMjudge: an unreadable ini": Shape(
        legacy("name: X\n") | {"domjudge-problem.ini": "what is this"},
        lambda package: package.infer,
        ["it is left alone, as DOMjudge does"],
    ),
    "DOMjudge: hangman, multi-pass with quoted flags": Shape(
        legacy(
            'name: Hangman\nvalidation: custom multi-pass\nvalidator_flags: --say "two words"\nlimits:\n'
            "  validation_passes: 26\n"
        )
        | {
            "output_validator/validator.py": CHECK,
            "submissions.json": "{}",
            "data/secret/testdata.yaml": "output_validator_flags: -x 'a b'\n",
        },
        lambda package: (
            package.manifest.dialect == "domjudge"
            and package.manifest.passes == 26
            and package.manifest.tests[1].flags == ["--say", "two words", "-x", "a b"]
        ),
    ),
    "DOMjudge: types as words": Shape(
        legacy("name: X\ntype: pass-fail interactive\n") | {"output_validators/run/validate.cc": "int main() {}"},
        lambda package: (
            package.manifest.type == ["pass-fail", "interactive"] and package.manifest.dialect == "domjudge"
        ),
    ),
    "DOMjudge: a validator that is not announced": Shape(
        legacy("name: X\n")
        | {"output_validator/check.py": CHECK, "output_validator/lib.py": "x = 1\n", "output_validator/main.py": CHECK},
        lambda package: validators(package) == [("output_validator", "python3", "main.py")],
        ["is used although problem.yaml says validation: default"],
    ),
    "DOMjudge: input_validator/ and answer_validator/": Shape(
        legacy("name: X\n")
        | {
            "input_validator/any/build": "#!/bin/sh\n",
            "input_validator/any/run": "#!/bin/sh\n",
            "answer_validator/a.cpp": "",
        },
        lambda package: (
            [program.name for program in package.manifest.input_validators] == ["any"]
            and [program.name for program in package.manifest.answer_validators] == ["a"]
        ),
    ),
    "DOMjudge: an input without answer": Shape(
        legacy("name: X\n") | {"domjudge-problem.ini": "timelimit = 2\n", "data/secret/02.in": "x"},
        lambda package: names(package) == ["sample/1", "secret/01"],
        ["the test is left out, as DOMjudge does"],
    ),
    "DOMjudge: submissions.json with an entry": Shape(
        legacy("name: X\n")
        | {
            "submissions/accepted/many/a.py": "",
            "submissions/accepted/many/b.py": "",
            "submissions.json": '{"submissions/accepted/many/": {"entry_point": "b.py"}}',
        },
        lambda package: package.entries == {"submissions/accepted/many": "b.py"},
    ),
    "DOMjudge: its own export, with the names of its programs": Shape(
        legacy("name: X\nvalidation: custom\n")
        | {
            "domjudge-problem.ini": "special_compare = x_cmp\ntimelimit = '1'\n",
            "output_validators/x_cmp/check.py": CHECK,
        },
        lambda package: len(package.manifest.validators) == 1,
    ),
    "DOMjudge: groups that stand for themselves": Shape(
        legacy("type: scoring\nname: X\n")
        | {
            "data/testdata.yaml": "grader_flags: ignore_sample\non_reject: continue\n",
            "domjudge-problem.ini": "",
            "data/secret/testdata.yaml": "grader_flags: sum\n",
            "data/secret/a/testdata.yaml": "accept_score: 30\n",
            **cases("secret/a/1", "secret/b/1"),
        },
        lambda package: (
            [(group.name, group.ignore_sample) for group in package.manifest.graders]
            == [("", True), ("secret", False), ("secret/a", False)]
        ),
        tests=False,
    ),
    ".timelimit and another limit in problem.yaml": Shape(
        legacy("limits: {time_limit: 2}\n") | {".timelimit": "3\n"},
        lambda package: package.manifest.limits.cpu == 2,
        ["says 3 s, but"],
    ),
    # --- what lies around ------------------------------------------------------------------------------------------
    "files that mean nothing": Shape(
        legacy("name: X\n")
        | {
            "README.md": "",
            "notes.txt": "",
            "tmp/a.out": b"\x7fELF",
            "data/gen.py": "",
            "x (copy).py": "",
            "submissions/accepted/a.out": b"\x7fELF",
            "generators/gen.py": "",
            "solution/s.md": "",
            "ungradedSubmissions/x.cpp": "",
            "expectations.yaml": "a: b\n",
        },
        lambda package: names(package) == ["sample/1", "secret/01"],
    ),
    "attachments and statements in several languages": Shape(
        legacy("name: X\n")
        | {
            "attachments/tool.py": "",
            "attachments/deep/x.zip": b"PK",
            "problem_statement/problem.sv.tex": "",
            "problem_statement/problem.en.pdf": b"%PDF",
            "problem_statement/pic.png": b"\x89PNG",
        },
        lambda package: (
            sorted(package.manifest.attachments) == ["deep/x.zip", "tool.py"]
            and {statement.language for statement in package.manifest.statements} == {"en", "sv"}
        ),
    ),
    "sample interactions, one of which has no test": Shape(
        legacy("validation: custom interactive\n")
        | {
            "output_validators/a.py": CHECK,
            "data/sample/1.interaction": "<1\n>2\n",
            "data/sample/2.interaction": "<1\n",
        },
        lambda package: sorted(package.manifest.interactions) == ["sample/1", "sample/2"],
    ),
    "submissions in folders, and one of several files": Shape(
        legacy("name: X\n")
        | {
            "submissions/accepted/multi/main.cc": "",
            "submissions/accepted/multi/lib/a.h": "",
            "submissions/slow_accepted/s.py": "",
            "submissions/mixed/x.py": "# @EXPECTED_RESULTS@: x\n",
        },
        lambda package: (
            "submissions/accepted/multi/lib/a.h" in package.submissions and package.manifest.dialect == "domjudge"
        ),
    ),
    "contest repositories: answers in NAME.out, where there is no NAME.ans": Shape(
        legacy("name: X\n") | {"data/secret/02.in": "3\n", "data/secret/02.out": "4\n", "data/secret/01.out": "9\n"},
        lambda package: (
            names(package)[1:] == ["secret/01", "secret/02"]
            and [package.read(test.answer) for test in package.manifest.tests[1:]] == [b"2\n", b"4\n"]
        ),
        ["data/secret/02.out: is read as the answer, as there is no .ans"],
    ),
    "the same in DOMjudge's form, without any NAME.ans": Shape(
        {"domjudge-problem.ini": "timelimit = 1\n", "data/secret/1.in": "3\n", "data/secret/1.out": "4\n"},
        lambda package: names(package) == ["secret/1"],
        ["data/secret/1.out: is read as the answer"],
        tests=False,
    ),
    "the same in DOMjudge's form, beside tests with answers": Shape(
        {"domjudge-problem.ini": "timelimit = 1\n", "data/secret/2.in": "3\n", "data/secret/2.out": "4\n"},
        lambda package: names(package) == ["sample/1", "secret/01"],
        ["data/secret/2.in: has no answer"],
    ),
    "submissions in folders of other names": Shape(
        legacy("name: X\n")
        | {
            "submissions/AC/a.py": "",
            "submissions/wrong-answer/a.py": "",
            "submissions/TimeLimit/a.py": "",
            "submissions/run-error/a.py": "",
            "submissions/no_output/a.py": "",
            "submissions/ideas/a.py": "",
        },
        lambda package: (
            {
                candidate.path: candidate.description
                for candidate in expectations.candidates(package, load_table())
                if not candidate.skipped
            }
            == {
                "AC/a.py": "AC",
                "TimeLimit/a.py": "TLE",
                "accepted/a.py": "AC",
                "run-error/a.py": "RTE",
                "no_output/a.py": "WA",
                "wrong-answer/a.py": "WA",
            }
        ),
    ),
    "a test of the legacy format with an unusual name": Shape(
        legacy("name: X\n") | {**cases("secret/1 (copy)")},
        lambda package: names(package)[1] == "secret/01" and names(package)[2] == "secret/1 (copy)",
        ["a test's name should be of letters"],
    ),
    "the settings of samples in Swedish olympiads": Shape(
        legacy("type: scoring\ngrading: {show_test_data_groups: yes}\n")
        | {
            "data/testdata.yaml": "on_reject: continue\nrange: 0 100\ngrader_flags: ignore_sample\n",
            "data/sample/testdata.yaml": "on_reject: continue\nrange: -1 0\naccept_score: 0\ngrader_flags: no_errors\n",
        },
        lambda package: (
            package.manifest.dialect == "kattis"
            and [(group.verdict, group.score, group.low) for group in package.manifest.graders[1:2]]
            == [("worst_error", "sum", -1)]
            and not any("no_errors" in note for note in package.notes)
        ),
    ),
    "grader flags of Kattis beside a file of DOMjudge's": Shape(
        legacy("type: scoring\n")
        | {"data/testdata.yaml": "grader_flags: no_errors\n", "domjudge-problem.ini": "color=red\n"},
        lambda package: package.manifest.dialect == "kattis",
    ),
    "settings of groups in DOMjudge's dialect, which are not inherited": Shape(
        legacy("type: scoring\n")
        | {
            "data/secret/testdata.yaml": "grader_flags: max\non_reject: continue\n",
            "data/secret/a/testdata.yaml": "accept_score: 3\n",
            **cases("secret/a/1"),
            "domjudge-problem.ini": "color=red\n",
        },
        lambda package: (
            {group.name: (group.score, group.on_reject) for group in package.manifest.graders if "secret" in group.name}
            == {"secret": ("max", "continue"), "secret/a": ("sum", "break")}
            and package.manifest.dialect == "domjudge"
        ),
        tests=False,
    ),
    "a flag that the default grader does not have": Shape(
        legacy("type: scoring\n") | {"data/secret/testdata.yaml": "grader_flags: max best\n"},
        lambda package: package.manifest.graders[-1].score == "max",
        ["grader_flags: the default grader has no flag 'best'"],
    ),
    "a problem of two lines, for scoring, without settings of groups": Shape(
        legacy("type: scoring\ngrading:\n  show_test_data_groups: true\n"),
        lambda package: [group.name for group in package.manifest.graders] == ["", "sample", "secret"],
    ),
    "samples only, as in DOMjudge": Shape(
        legacy("name: X\n") | {"domjudge-problem.ini": "timelimit='1'\n", **cases("sample/1")},
        lambda package: names(package) == ["sample/1"] and package.manifest.limits.cpu == 1,
        ["secret: has no tests"],
        tests=False,
    ),
    "answers that are handed in, without a time limit": Shape(
        current("name: X\ntype: [pass-fail, submit-answer]\n"),
        lambda package: package.manifest.type == ["pass-fail", "submit-answer"],
    ),
    "no samples": Shape(
        current("name: X\n") | {**cases("secret/1")},
        lambda package: names(package) == ["secret/1"],
        tests=False,
    ),
}


def package_of(root: Path, shape: Shape) -> Path:
    return packages.write(root / "sum", {**(TESTS if shape.tests else {}), **ACCEPTED, **shape.files})


@pytest.mark.parametrize("name", list(SHAPES))
def test_a_shape_is_read_and_passes_the_check(tmp_path: Path, name: str) -> None:
    shape = SHAPES[name]
    root = package_of(tmp_path, shape)
    with read_package(root) as package:
        assert shape.holds(package), (package.manifest, package.notes)
        for sentence in shape.says:
            assert any(sentence in note for note in package.notes), package.notes
        assert all(note.startswith("sum") for note in package.notes), "each says where"
        data = packages.data_of(package, tmp_path / "store")
    assert data.manifest == package.manifest
    checked = check_package(root)
    assert not checked.findings.errors and checked.package is not None
    checked.package.close()
    if "domjudge-problem.ini" in shape.files and "problem.yaml" not in shape.files:
        assert not any("license" in finding.text for finding in checked.findings.all), "it has no place for one"


@pytest.mark.parametrize("generator", ["data/gen.sh", "data/secret/generate.py"])
def test_tests_that_are_still_to_be_made_are_said(tmp_path: Path, generator: str) -> None:
    with pytest.raises(
        PackageError, match=rf"has no tests; .*; run its generators first \({generator}\), which is not"
    ):
        read_package(packages.write(tmp_path / "sum", {**legacy("name: X\n"), **ACCEPTED, generator: ""}))


@pytest.mark.parametrize("flags", ["case_sensitive", "[case_sensitive]"])
def test_flags_that_contradict_each_other_are_refused(tmp_path: Path, flags: str) -> None:
    problem = legacy(f"name: X\nvalidator_flags: {flags}\noutput_validator_flags: float_tolerance 1e-6\n")
    with pytest.raises(PackageError, match=r"yaml:3: output_validator_flags: contradicts 'validator_flags'; leave one"):
        read_package(packages.write(tmp_path / "sum", {**problem, **TESTS, **ACCEPTED}))


def test_keys_that_occur_twice_are_refused_where_no_tool_writes_them(tmp_path: Path) -> None:
    group = {"data/secret/test_group.yaml": "max_score: 1\nmax_score: 2\n"}
    for files in (legacy("name: X\nname: Y\n"), current("name: X\ntype: scoring\n") | group):
        with pytest.raises(PackageError, match="occurs twice; keep one"):
            read_package(packages.write(tmp_path / str(len(files)), {**files, **TESTS, **ACCEPTED}))


def test_a_folder_of_another_name_has_the_accepted_submission(tmp_path: Path) -> None:
    files = {**legacy("name: X\n"), **TESTS, "submissions/AC/a.py": ""}
    checked = check_package(packages.write(tmp_path / "sum", files))
    assert not checked.findings.errors, "its limit is inferred from that one"


def test_links_within_a_package_and_out_of_it(tmp_path: Path) -> None:
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers/validation.h").write_text("not to be seen")
    files = {
        "input_validators/v/v.cpp": "int main() {}",
        "data/secret/more/3.in": "3",
        "data/secret/more/3.ans": "3",
    }
    root = packages.write(tmp_path / "sum", {**legacy("name: X\n"), **TESTS, **files})
    (root / "input_validators/v/validation.h").symlink_to("../../../headers/validation.h")
    (root / "data/secret/again").symlink_to("more")
    (root / "data/secret/more/loop").symlink_to("..")
    assert "data/secret/again/loop: links to what is not a file" in refusal(root)
    (root / "data/secret/more/loop").unlink()
    with read_package(root) as package:
        assert names(package)[-2:] == ["secret/again/3", "secret/more/3"]
        assert any("validation.h: links to something outside the package" in note for note in package.notes)
        assert b"not to be seen" not in b"".join(package.read(sha) for sha in package.blobs)


@pytest.mark.parametrize("dialect", ["kattis", "domjudge"])
def test_a_dialect_that_is_asked_for_wins(tmp_path: Path, dialect: str) -> None:
    files = {**legacy("name: X\nvalidator_flags: a 'b c'\n"), **TESTS, "output_validators/a.py": CHECK,
             "output_validators/main.py": CHECK}  # fmt: skip
    root = packages.write(tmp_path / "sum", files)
    if dialect == "kattis":
        assert "the default validator has no flag" in refusal(root, dialect="kattis")
        return
    with read_package(root, dialect="domjudge") as package:
        assert package.manifest.dialect == "domjudge" and package.manifest.validator_flags == ["a", "b c"]
        assert validators(package) == [("output_validators", "python3", "main.py")]
