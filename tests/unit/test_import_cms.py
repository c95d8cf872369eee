"""Tasks in the Italian format and of TPS: the shapes that are found in public, and one sentence for each fault."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import PackageError
from judge.executor.slot.program import plan
from judge.languages.table import load_table
from judge.model.messages import Limits, Submission
from judge.model.problem import IoiTask, ProblemType
from judge.problems.archives import open_tree
from judge.problems.importers import cms, cms_gen
from judge.problems.importers.draft import ImporterWords
from judge.problems.package import Package, read_package
from tests.support.packages import Files, refused, subgroups, write

CPP = "int main() {}\n"
# Eight of con_test's tasks, a contest that its developers try their system with, look like these.
PLAIN: dict[str, bytes | str] = {
    "task.yaml": "name: sums\ntitle: Sums of numbers\ntime_limit: 1.5\nmemory_limit: 128\nn_input: 3\n"
    'token_mode: disabled\nmax_submission_number: 50\npublic_testcases: 0, 1\ninfile: ""\noutfile: ""\n',
    **{f"input/input{number}.txt": f"{number}\n" for number in range(3)},
    **{f"output/output{number}.txt": f"{number}\n" for number in range(3)},
    "sol/solution.cpp": CPP,
    "sol/soluzione.py": "print(input())\n",
    "sol/slow.cpp": CPP,
    "statement/statement.pdf": b"%PDF-1.4",
    "att/sums.cpp": CPP,
}
GEN = """# N  M
#ST: 0
#COPY: gen/example.txt

# Subtask 1
# ST: 40
1 2 3
#ST: 60
4 5 6 # the largest
"""


def load(tmp_path, files: Files, name: str = "sums") -> Package:
    return read_package(write(tmp_path / name, files))


def with_(base: Files, changes: dict[str, bytes | str | None]) -> dict[str, bytes | str]:
    return {name: text for name, text in {**base, **changes}.items() if text is not None}


def yaml(extra: str, base: Files = PLAIN) -> dict[str, bytes | str]:
    return with_(base, {"task.yaml": str(base["task.yaml"]) + extra})


def one_sentence(call) -> None:
    """It works, or is refused in one sentence."""
    message = ""
    try:
        call()
    except PackageError as exc:
        message = str(exc)
    assert "\n" not in message


def text(package: Package, path: str) -> str:
    """A file of the package that was made, by the index of all its files."""
    assert package.manifest.package is not None
    files = json.loads(package.read(package.manifest.package))["files"]
    return package.read(files[path]).decode()


def paths(package: Package) -> set[str]:
    assert package.manifest.package is not None
    return set(json.loads(package.read(package.manifest.package))["files"])


def task_of(tmp_path, files: Files) -> IoiTask:
    with load(tmp_path, files) as package:
        assert package.manifest.task is not None
        return package.manifest.task


def test_a_batch_task(tmp_path):
    with load(tmp_path, PLAIN) as package:
        manifest = package.manifest
        assert (manifest.name, manifest.title) == ("sums", "Sums of numbers")
        assert (manifest.limits.cpu, manifest.limits.memory) == (1.5, 128 * 1024**2)
        assert ProblemType.SCORING in manifest.type
        assert [test.name.rpartition("/")[2] for test in manifest.tests] == ["000", "001", "002"]
        assert manifest.task is None
        assert not manifest.validators
        assert manifest.validator_flags == ["case_sensitive"]
        assert sum(group.max_score or 0 for group in subgroups(manifest)) == pytest.approx(100, 1)
        assert {"statement/problem.it.pdf", "attachments/sums.cpp"} <= paths(package)
        assert {path for path in paths(package) if path.startswith("submissions/")} == {
            "submissions/accepted/solution.cpp",
            "submissions/accepted/soluzione.py",
        }
        notes = "\n".join(package.notes)
        assert "token_mode" in notes and "public_testcases" in notes and "1 file in sol/" in notes


def test_old_names_and_places(tmp_path):
    old = "nome_breve: somma\nnome: Somma\ntimeout: 2\nmemlimit: 64\nn_input: 3\nrisultati: '0'\n"
    files = with_(PLAIN, {"task.yaml": old, "statement/statement.pdf": None, "testo/testo.pdf": b"%PDF"})
    files |= {"cor/correttore.cpp": CPP, "cor/correttore": b"\x7fELF"}
    files["sol/solution.cpp"] = '#include <cstdio>\nint main() { freopen("input.txt", "r", stdin); }\n'
    with load(tmp_path, files) as package:
        manifest = package.manifest
        assert (manifest.name, manifest.title, manifest.limits.cpu) == ("somma", "Somma", 2)
        assert manifest.task is not None
        assert (manifest.task.input_file, manifest.task.output_file) == ("input.txt", "")
        assert "checker.cpp" in manifest.validators[0].files
        assert "c++ -std=gnu++17" in text(package, "output_validator/build")
    settings = json.dumps(
        {"name": "sums", "title": "S", "time_limit": 1, "memory_limit": 64, "n_input": 3, "infile": ""}
    )
    with load(tmp_path / "json", with_(PLAIN, {"task.yaml": None, "task.json": settings})) as package:
        assert package.manifest.title == "S"


MIN = "score_type: GroupMin\nscore_type_parameters: "


@pytest.mark.parametrize(
    ("files", "groups"),
    [
        (with_(PLAIN, {"gen/GEN": GEN}), [(40, "min"), (60, "min")]),
        (yaml(MIN + "[[40, 1], [60, 2]]\n"), [(40, "min"), (60, "min")]),
        (yaml(MIN + "[[40, '000', small], [60, '00[12]$']]\n"), [(40, "min"), (60, "min")]),
        (
            yaml(MIN + "[{max_score: 40, testcases: 1}, {max_score: 60, testcases: 2}]\n"),
            [(40, "min"), (60, "min")],
        ),
        (yaml("score_type: Sum\nscore_type_parameters: 5\n"), [(15, "sum")]),
    ],
)
def test_groups(tmp_path, files, groups):
    with load(tmp_path, files) as package:
        manifest = package.manifest
        assert [(group.max_score, group.aggregation) for group in subgroups(manifest)] == groups
        assert manifest.task is None
        assert [test.sample for test in manifest.tests] == ["gen/GEN" in files, False, False]


def test_groups_that_share_tests_or_multiply_stand_in_judge_yaml(tmp_path):
    parameters = "score_type: GroupMul\nscore_type_parameters: [[40, '00[01]'], [60, '.*', everything]]\n"
    task = task_of(tmp_path / "1", yaml(parameters))
    assert [(subtask.name, subtask.points, subtask.rule, subtask.tests) for subtask in task.subtasks] == [
        ("subtask 0", 40, "mul", ["secret/000", "secret/001"]),
        ("everything", 60, "mul", ["secret/000", "secret/001", "secret/002"]),
    ]
    parameters = "score_type: GroupThreshold\nscore_type_parameters: [[100, 3, 7.5]]\n"
    (subtask,) = task_of(tmp_path / "2", yaml(parameters)).subtasks
    assert (subtask.rule, subtask.threshold) == ("threshold", 7.5)


def test_groups_that_depend_on_others_need_their_tests_as_well(tmp_path):
    groups = (
        "[{max_score: 10, testcases: 1}, {max_score: 30, testcases: 1, depends_on: [0]}, "
        "{max_score: 60, testcases: 1, depends_on: [1]}]"
    )
    task = task_of(tmp_path, yaml(f"{MIN}{groups}\n"))
    assert [(subtask.points, subtask.tests) for subtask in task.subtasks] == [
        (10, ["secret/000"]),
        (30, ["secret/000", "secret/001"]),
        (60, ["secret/000", "secret/001", "secret/002"]),
    ]


def test_graders_go_with_submissions(tmp_path):
    graders = {"sol/grader.cpp": CPP, "sol/grader.c": CPP, "sol/grader.java": "class grader {}", "sol/grader.pas": "x",
               "sol/sumslib.pas": "unit sumslib;", "sol/sums.h": "", "sol/grader.py": "import sums\n"}  # fmt: skip
    with load(tmp_path, with_(PLAIN, graders)) as package:
        manifest = package.manifest
        assert manifest.task is not None
        assert (manifest.task.entry, manifest.task.source) == ("grader", "sums")
        assert {name: sorted(files) for name, files in manifest.include.items()} == {
            "c": ["grader.c", "sums.h"],
            "cpp": ["grader.cpp", "sums.h"],
            "java": ["grader.java"],
            "pascal": ["grader.pas", "sumslib.pas"],
            "python3": ["grader.py"],
        }
        assert sorted(manifest.languages) == ["c", "cpp", "java", "pascal", "python3"]


@pytest.mark.parametrize("place", ["check/manager.cpp", "cor/manager.cpp"])
def test_communication(tmp_path, place):
    changes = {place: CPP, "sol/stub.cpp": CPP, "sol/sums.h": "", **{f"output/output{n}.txt": None for n in range(3)}}
    files = with_(yaml("num_processes: 2\nuser_io: std_io\n"), changes)
    task = task_of(tmp_path, files)
    assert (task.kind, task.processes, task.io, task.entry) == ("communication", 2, "std", "stub")
    assert task.manager is not None and "manager.cpp" in task.manager.files
    task = task_of(tmp_path / "fifo", with_(PLAIN, {place: CPP}))
    assert (task.processes, task.io, task.entry) == (1, "std", "")


@pytest.mark.parametrize(("used", "decides"), [([], "the default comparison"), (["check/checker.cpp"], "checker.cpp")])
def test_a_checker_of_testlib_under_another_name_is_said(tmp_path, used, decides):
    source = '#include "testlib.h"\nint main(int c, char** v) { registerTestlibCmd(c, v); }\n'
    with load(tmp_path, with_(PLAIN, dict.fromkeys([*used, "cor/sum_check.cpp"], source))) as package:
        (note,) = [note for note in package.notes if "looks like a checker" in note]
        assert "cor/sum_check.cpp: looks" in note
        assert note.endswith(f"{decides} decides")


@pytest.mark.parametrize("names", [["check/check.cpp"], ["check/check.cpp", "check/checker"]])
def test_a_checker_that_is_not_used_is_said(tmp_path, names):
    with load(tmp_path, with_(PLAIN, dict.fromkeys(names, "#!/bin/sh\n"))) as package:
        assert any("check/check.cpp: looks like a checker, and the Contest" in note for note in package.notes)
        assert bool(package.manifest.validators) is (len(names) > 1)


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("sol/grader.cpp", '#ifdef EVAL\nfreopen("input.txt", "r", stdin);\n#endif\n', "EVAL"),
        ("att/nemesi.cpp", "  # if defined(EVAL) && 1\n#endif\n", "EVAL"),
        ("sol/grader.pas", "begin {$IFDEF EVAL} assign(input, 'input.txt'); {$ENDIF} end.", "EVAL"),
        ("sol/grader.cpp", "enum { EVAL, NO_EVAL }; // #ifdef it\n", ""),
        ("testo/example.txt", "#ifdef EVAL\n", ""),
    ],
)
def test_a_word_that_sources_ask_for_is_defined(tmp_path, name, text, word):
    with load(tmp_path, with_(PLAIN, {name: text})) as package:
        task = package.manifest.task
        assert ("" if task is None else task.define) == word


@pytest.mark.parametrize(("language", "word"), [("cpp", "-DEVAL"), ("c11", "-DEVAL"), ("pascal", "-dEVAL"), ("go", "")])
def test_a_defined_word_stands_before_the_usual_one(language, word):
    task, table = IoiTask(define="EVAL"), load_table()
    submission = Submission(language=language, source="x\n")
    command = plan(submission, Limits(), table, {}, task).compile
    usual = plan(submission, Limits(), table, {}, IoiTask()).compile
    assert command is not None and usual is not None
    assert [argument for argument in command if argument not in usual] == ([word] if word else [])
    assert [argument for argument in command if argument != word] == list(usual)


@pytest.mark.parametrize(
    ("opened", "first"),
    [
        ('FILE *o = fopen(argv[1], "w"), *i = fopen(argv[2], "r");', True),
        ('auto i=fopen( v[2] ,"rb"); auto o=fopen(v[1],"wb");', True),
        ("std::ofstream out(argv[1]); std::ifstream in{argv[2]};", True),
        ("int o = open(argv[1], O_WRONLY), i = open(argv[2], O_RDONLY);", True),
        ('FILE *i = fopen(argv[1], "r"), *o = fopen(argv[2], "w");', False),
        ('o = fopen(argv[2*n+2], "w"); i = fopen(argv[2*n+1], "r");', False),
        ('log = fopen(argv[1], "w");', False),
    ],
)
def test_a_manager_that_writes_first(tmp_path, opened, first):
    files = with_(PLAIN, {"check/manager.cpp": f"int main(int argc, char **argv) {{ {opened} }}\n"})
    assert task_of(tmp_path, files).writes_first is first


def test_two_steps_and_output_only(tmp_path):
    files = with_(yaml("task_type: TwoSteps\n"), {"sol/manager.cpp": CPP, "sol/manager.h": "", "sol/encoder.h": ""})
    task = task_of(tmp_path / "1", files)
    assert (task.kind, task.processes, task.entry) == ("two-steps", 2, "manager")
    draft = cms.convert(open_tree(write(tmp_path / "2", yaml("output_only: true\n"))), ImporterWords())
    assert "submit-answer" in draft.problem["type"]


@pytest.mark.parametrize(
    ("files", "statements"),
    [
        ({"statement/statement.en.md": "x", "statement/statement.hu.md": "y"}, {"problem.en.md", "problem.hu.md"}),
        ({"statement/en.md": "x", "statement/picture.png": b""}, {"problem.en.md", "picture.png"}),
        (
            {"statement/english.md": "x", "statement/italian.md": "y", "statement/notes.md": ""},
            {"problem.en.md", "problem.it.md"},
        ),
        ({"testo/testo.md": "x", "testo/hints.en.yaml": "a: b"}, {"problem.it.md"}),
        (
            {"statement/statement.pdf": b"%PDF-1.4", "statement/statement.en.md": "x", "statement/it.md": "y"},
            {"problem.it.pdf", "problem.en.md"},
        ),
        (
            {"statement/english.pdf": b"%PDF-1.4", "statement/statement.en.md": "x", "statement/statement.hu.md": "y"},
            {"problem.en.pdf", "problem.hu.md"},
        ),
        ({"statement/notes.md": "x"}, set()),
    ],
)
def test_statements_in_markdown(tmp_path, files, statements):
    tree = open_tree(write(tmp_path / "x", with_(PLAIN, {"statement/statement.pdf": None, **files})))
    draft = cms.convert(tree, ImporterWords())
    assert {path.removeprefix("statement/") for path in draft.files if path.startswith("statement/")} == statements
    assert any("a statement" in line for line in draft.report.losses) == (not statements)


@pytest.mark.parametrize(
    ("parameter", "checker", "validated"),
    [("diff", True, 0), ("comparator", True, 1), ("", True, 1), ("diff", False, 0)],
)
def test_the_validator_of_two_steps(tmp_path, parameter, checker, validated):
    text = "task_type: TwoSteps\n" + (f"task_type_parameters: [{parameter}]\n" if parameter else "")
    files = with_(yaml(text), {"sol/manager.cpp": CPP, "check/checker.cpp": CPP if checker else None})
    with load(tmp_path, files) as package:
        assert len(package.manifest.validators) == validated
        assert any("say diff" in note for note in package.notes) == (parameter == "diff" and checker)


@pytest.mark.parametrize(
    ("checker", "line"),
    [
        ({"check/checker.cpp": CPP, "check/lib.h": ""}, "c++ -std=gnu++17 -O2 -w -DEVAL -o checker checker.cpp"),
        ({"check/checker.py": "print(1)\n"}, "python3"),
        ({"check/checker": "#!/usr/bin/env python3\nprint(1)\n"}, "chmod 755 checker"),
        ({"check/checker": b"\x7fELF"}, "chmod 755 checker"),
    ],
)
def test_checkers_of_all_kinds(tmp_path, checker, line):
    with load(tmp_path, with_(PLAIN, checker)) as package:
        assert package.manifest.validators[0].main == "build" or package.manifest.validators[0].language is None
        assert line in text(package, "output_validator/build")
        assert ("without its source" in "\n".join(package.notes)) == (checker.get("check/checker") == b"\x7fELF")


def test_a_checker_or_manager_brings_what_it_includes_and_nothing_else(tmp_path):
    files = {
        "check/checker.cpp": '#include "board.cpp"\n#include "../sol/game.h"\n#include <vector>\n',
        "check/board.cpp": '#include "rules.inc"\n',
        "check/rules.inc": "",
        "check/other.cpp": "",
        "sol/game.h": "int game();\n",
    }
    with load(tmp_path / "1", with_(PLAIN, files)) as package:
        members = {path for path in paths(package) if path.startswith("output_validator/")}
        assert {"output_validator/board.cpp", "output_validator/rules.inc"} <= members
        assert "output_validator/other.cpp" not in members
        assert any("check/other.cpp: nothing says what" in note for note in package.notes)
    files = {"check/checker.py": "import sys\nfrom rules import ok\n", "check/rules.py": "import more\n"}
    with load(tmp_path / "2", with_(PLAIN, files | {"check/more.py": "", "check/sys2.py": ""})) as package:
        members = {path for path in paths(package) if path.startswith("output_validator/")}
        assert members == {f"output_validator/{name}" for name in ("build", "run", "checker.py", "rules.py", "more.py")}


def test_testlib_is_asked_in_the_way_that_its_header_speaks(tmp_path):
    source = '#include "testlib.h"\nint main(int c, char **v) { registerTestlibCmd(c, v); }\n'
    patched = with_(PLAIN, {"check/checker.cpp": source, "check/testlib.h": 'fprintf(stderr, "translate:success");'})
    with load(tmp_path / "1", patched) as package:
        assert "translate:success" in text(package, "output_validator/run")
    plain = with_(PLAIN, {"check/checker.cpp": source, "check/testlib.h": "/* the usual one */"})
    with load(tmp_path / "2", plain) as package:
        assert "output_validator/wrapper.c" in paths(package)


def test_subtasks_of_task_maker_contain_others(tmp_path):
    gen = "#ST: 30\n#STNAME: a\n1\n#ST: 30\n#STDEP: c # and a\n2\n#ST: 40\n#STNAME: c\n#STDEP: a, c\n3\n"
    task = task_of(tmp_path, with_(PLAIN, {"gen/GEN": gen}))
    subtasks = {subtask.name: (subtask.points, [name[-3:] for name in subtask.tests]) for subtask in task.subtasks}
    assert subtasks == {"a": (30, ["000"]), "subtask 1": (30, ["000", "001", "002"]), "c": (40, ["000", "002"])}


@given(
    st.lists(
        st.sampled_from(["#ST: 10", "#ST:0", "#COPY: a/b", "1 2 3", "4 # x", "# text", "#STNAME: a", "#STDEP: a", ""]),
        max_size=30,
    )
)
def test_gen_counts_every_test_once(lines):
    try:
        gen = cms_gen.read_gen("\n".join(lines), "GEN")
    except PackageError:
        return
    tests = [line for line in lines if line.startswith("#COPY") or (line and not line.startswith("#"))]
    assert len(gen.lines) == len(tests)
    if gen.subtasks:
        assert sum(subtask.count for subtask in gen.subtasks) == len(gen.lines)


@given(st.text(alphabet="01.*+?|()[]{}\\d,-^$ab", max_size=30))
def test_any_expression_is_matched_or_refused_at_once(pattern):
    one_sentence(lambda: cms.score_groups("GroupMin", [[1, pattern]], ["0" * 40, "a" * 40, "ab" * 20], "x"))


# --- TPS -------------------------------------------------------------------------------------------------------------

TESTS = ("0-01", "1-01", "1-02", "2-01")
EXPORT: dict[str, bytes | str] = {
    "problem.json": json.dumps(
        {"protocol_version": 1, "code": "mountains", "name": "Mountains", "time_limit": 2.0, "score_precision": 2,
         "memory_limit": 2147483648, "task_type": "Batch", "task_type_params": "{}"}
    ),
    "checker/checker.cpp": CPP,
    "checker/testlib.h": "",
    "graders/grader.cpp": CPP,
    "graders/grader.java": "class grader {}",
    "graders/mountains.h": "",
    "attachments/mountains.zip": b"PK",
    "statements/en_US.pdf": b"%PDF",
    "subtasks/00-samples.json": json.dumps({"score": 0, "testcases": ["0-01"]}),
    "subtasks/01-small.json": json.dumps({"score": 30, "testcases": ["1-01", "1-02", "0-01"]}),
    "subtasks/02-full.json": json.dumps({"score": 70, "testcases": list(TESTS)}),
    **{f"tests/{name}.in": f"{name}\n" for name in TESTS},
    **{f"tests/{name}.out": f"{name}\n" for name in TESTS},
}  # fmt: skip
REPOSITORY: dict[str, bytes | str] = {
    "problem.json": json.dumps(
        {"name": "mountains", "title": "Mountains", "type": "Batch", "time_limit": 2, "memory_limit": 256,
         "has_grader": True, "grader_name": "grader"}
    ),
    "subtasks.json": json.dumps(
        {"global_validators": ["validator.cpp"], "subtasks": {
            "full": {"index": 2, "score": 70, "validators": []},
            "samples": {"index": 0, "score": 0, "validators": []},
            "2^n": {"index": 1, "score": 30, "validators": ["sub1.cpp"]}}}
    ),
    "solutions.json": json.dumps(
        {"a.cpp": {"verdict": "model_solution"}, "b.cpp": {"verdict": "correct"}, "c.py": {"verdict": "time_limit"},
         "d.cpp": {"verdict": "incorrect", "except": {"samples": "correct", "2^n": "time_limit"}},
         "e.cpp": {"verdict": "partially_correct"}, "f.cpp": {"verdict": "protocol_violation"},
         "h.cpp": {"verdict": "correct", "except": {"2^n": "protocol_violation"}}, "gone.cpp": {"verdict": "correct"}}
    ),
    **{f"solution/{name}": CPP for name in ("a.cpp", "b.cpp", "c.py", "d.cpp", "e.cpp", "f.cpp", "h.cpp")},
    "grader/cpp/grader.cpp": CPP,
    "grader/cpp/mountains.h": "",
    "grader/java/grader.java": "class grader {}",
    "gen/data": "@subtask samples\n",
    "validator/validator.cpp": CPP,
    **{f"tests/{name}.in": f"{name}\n" for name in TESTS},
    **{f"tests/{name}.out": f"{name}\n" for name in TESTS},
}  # fmt: skip


UNMADE = {f"tests/{name}.in": None for name in TESTS}


LISTED: dict[str, bytes | str] = {
    "task.yaml": "name: sums\ntime_limit: 1\nmemory_limit: 64\nsubmission_format: [adder.%l]\ninput_file: ''\n"
    "score_type: Sum\nscore_type_parameters: 10\ntestcases:\n"
    "- {codename: '00', input: input/input00.txt, output: output/output00.txt, public: true}\n"
    "- {codename: '01', input: input/input01.txt, output: output/output01.txt}\n",
    **{f"input/input{number}.txt": f"{number}\n" for number in ("00", "01")},
    **{f"output/output{number}.txt": f"{number}\n" for number in ("00", "01")},
    "managers/grader.c": CPP,
}
BARE = {path: data for path, data in PLAIN.items() if not path.startswith(("input/", "output/"))}


def listed(old: str, new: str) -> dict[str, bytes | str]:
    return with_(LISTED, {"task.yaml": str(LISTED["task.yaml"]).replace(old, new)})


def json_plus(base: Files, **changes) -> dict[str, bytes | str]:
    settings = {**json.loads(base["problem.json"]), **changes}
    return with_(base, {"problem.json": json.dumps(settings)})


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (with_(PLAIN, {"gen/GEN": "1\n2\n"}), "n_input: is 3, but gen/GEN has 2 tests"),
        (with_(PLAIN, {"gen/GEN": "1\n#ST: 5\n2\n"}), "gen/GEN:2: the first subtask begins after some tests"),
        (with_(PLAIN, {"gen/GEN": "#ST: x\n2\n"}), "gen/GEN:1: ' x' is not a number of points"),
        (with_(PLAIN, {"gen/GEN": "1 #ST: 5\n"}), "gen/GEN:1: has a test and begins a subtask"),
        (with_(PLAIN, {"output/output1.txt": None}), "output/output1.txt: is named by the package, but is not in it"),
        (with_(PLAIN, {"input/input1.txt": None}), "input/input1.txt: is named by the package"),
        (
            with_(PLAIN, {f"input/input{n}.txt": None for n in range(3)}),
            "has no input/input0.txt; tests that generators",
        ),
        (yaml("score_type: Odd\nscore_type_parameters: 1\n"), "score_type: 'Odd' is not known here"),
        (yaml(MIN + "[[1, 9]]\n"), "name 9 tests or more; there are 3"),
        (yaml(MIN + "[[1, 'x']]\n"), "no test's name matches 'x'"),
        (yaml(MIN + "[[1, '(a+)+']]\n"), "is too complicated"),
        (yaml(MIN + "[[1, '[']]\n"), "is no regular expression"),
        (yaml(MIN + "[[1]]\n"), "expected [points, tests]"),
        (
            yaml(MIN + "[{max_score: 1, testcases: 3, depends_on: [0]}]\n"),
            "depends_on: expected numbers of groups before this one",
        ),
        (
            yaml(MIN + "[{max_score: 1, testcases: 3, depends_on: 1}]\n"),
            "depends_on: expected a list of numbers of groups",
        ),
        (
            yaml("score_type: GroupThreshold\nscore_type_parameters: [[1, 3]]\n"),
            "GroupThreshold needs a number above 0",
        ),
        (yaml("task_type: Odd\n"), "task_type: 'Odd' is not one of"),
        (yaml("task_type: Communication\n"), "is a communication task without a manager"),
        (yaml("task_type: TwoSteps\n"), "is a task of two steps without the manager"),
        (
            with_(yaml("task_type: TwoSteps\ntask_type_parameters: [comparator]\n"), {"sol/manager.cpp": CPP}),
            "task_type_parameters: say comparator, and there is no check/checker.cpp or the like",
        ),
        (
            with_(yaml("task_type: TwoSteps\ntask_type_parameters: [[]]\n"), {"sol/manager.cpp": CPP}),
            "task_type_parameters: expected diff or comparator for two steps",
        ),
        (with_(yaml("num_processes: 99\n"), {"check/manager.cpp": CPP}), "num_processes: must be from 1 to 32"),
        (with_(yaml("user_io: odd\n"), {"check/manager.cpp": CPP}), "user_io: 'odd' is neither"),
        (yaml("output_only_testcases: [1, 2]\n"), "output_only_testcases: a task is judged either by programs"),
        (with_(yaml("user_io: [x]\n"), {"check/manager.cpp": CPP}), "user_io: '['x']' is neither"),
        (with_(PLAIN, {"check/controller.cpp": CPP}), "check/controller.cpp: is the controller of an interactive task"),
        (yaml("output_only_testcases: '0'\n"), "output_only_testcases: a task is judged either by programs or"),
        (yaml("output_optional_testcases: 0,1\n"), "output_optional_testcases: a task is judged either by"),
        (
            with_(PLAIN, {"gen/GEN": "#ST: 100\n#STNAME: a\n#STDEP: b\n1\n2\n3\n"}),
            "#STDEP: 'b' is no #STNAME of a subtask",
        ),
        (with_(PLAIN, {"gen/GEN": "#ST: 9\n#STNAME: a\n1\n#ST: 9\n#STNAME: a\n2\n3\n"}), "two subtasks are called a"),
        (with_(PLAIN, {"gen/GEN": "#ST: 1\n" * 501 + "1\n2\n3\n"}), "has more than 500 subtasks"),
        (with_(PLAIN, {"check/checker": "what?"}), "is neither a source nor a program"),
        (with_(PLAIN, {"task.yaml": "name: sums\ntime_limit: x\nn_input: 3\n"}), "time_limit: 'x' is not a number"),
        (with_(PLAIN, {"task.yaml": "name: [x\n"}), "task.yaml"),
        (with_(PLAIN, {"task.yaml": "name: sums\nn_input: many\n"}), "n_input: 'many' is not a number of tests"),
        (
            {**BARE, "input/sub1.1.in": "1\n", "output/sub1.1.out": "1\n"},
            "pairs of files such as input/sub1.1.in are taken alone by --from",
        ),
        (listed("'01'", "'00'"), "testcases: two tests have the same codename"),
        (
            listed("input: input/input01.txt, ", ""),
            "testcases.1: expected a mapping with codename, input and output",
        ),
        (listed("input/input01.txt", "input/x"), "input/x: is named by the package, but is not in it"),
        # TPS
        (with_(EXPORT, UNMADE), "has no tests/NAME.in; make the tests first"),
        (with_(json_plus(EXPORT, type="Notice", time_limit=10000), UNMADE), "has no tests/NAME.in; make the tests"),
        (with_(EXPORT, {"tests/1-01.out": None}), "tests/1-01.out: is named by the package"),
        (with_(EXPORT, {"problem.json": "{"}), "problem.json: is no JSON"),
        (with_(EXPORT, {"problem.json": "[]"}), "problem.json: expected a JSON object"),
        (with_(EXPORT, {"problem.json": "[" * 5000}), "problem.json: expected a JSON object"),
        (json_plus(EXPORT, task_type="Notice"), "type: 'Notice' is not one of"),
        (json_plus(EXPORT, task_type="Communication"), "is a communication task without a manager"),
        (json_plus(EXPORT, time_limit="fast"), "time_limit: 'fast' is not a number"),
        (json_plus(EXPORT, time_limit=700), "time_limit: '700' is not a number of seconds from 0 to 600"),
        (json_plus(EXPORT, time_limit=600001), "time_limit: '600001' is not a number of seconds from 0 to 600"),
        (
            json_plus(EXPORT, memory_limit=3),
            "memory_limit: '3' is not a number of MiB from 4 to 65536, or of bytes from 4194304",
        ),
        (json_plus(EXPORT, memory_limit=0), "memory_limit: '0' is not a number of MiB from 4 to 65536"),
        (with_(EXPORT, {"subtasks/01-small.json": '{"score": 3, "testcases": ["9-99"]}'}), "there is no tests/9-99.in"),
        (with_(EXPORT, {"subtasks/01-small.json": '{"score": "x", "testcases": []}'}), "is not a number of points"),
        (with_(REPOSITORY, {"tests/mapping": "full 7-77\n"}), "tests/mapping:1: expected the names of a subtask"),
        (with_(REPOSITORY, {"subtasks.json": '{"subtasks": []}'}), "subtasks.json: subtasks: expected an object"),
        *(
            (
                with_(REPOSITORY, {"subtasks.json": json.dumps({"subtasks": {"a": {"index": index, "score": 9}}})}),
                f"subtasks.json: a: index: '{index}' is not a whole number from 0 to 9999",
            )
            for index in ("1", 1.0, -1, 10_000)
        ),
    ],
)
def test_faults_have_one_sentence(tmp_path, files, sentence):
    assert sentence in refused(load, tmp_path, files)


def test_an_export_of_tps(tmp_path):
    with load(tmp_path, EXPORT) as package:
        manifest = package.manifest
        assert (manifest.name, manifest.title) == ("mountains", "Mountains")
        assert manifest.limits.memory == 2 * 1024**3
        assert manifest.task is not None
        assert manifest.task.entry == "grader"
        assert sorted(manifest.include["cpp"]) == ["grader.cpp", "mountains.h"]
        assert [(subtask.points, subtask.rule, subtask.tests) for subtask in manifest.task.subtasks] == [
            (0, "min", ["sample/0-01"]),
            (30, "min", ["sample/0-01", "secret/1-01", "secret/1-02"]),
            (70, "min", ["sample/0-01", "secret/1-01", "secret/1-02", "secret/2-01"]),
        ]
        assert "statement/problem.en-US.pdf" in paths(package)


def test_a_repository_of_tps(tmp_path):
    with load(tmp_path, REPOSITORY) as package:
        manifest = package.manifest
        assert (manifest.name, manifest.limits.memory) == ("mountains", 256 * 1024**2)
        groups = [(group.max_score, group.aggregation) for group in subgroups(manifest)]
        assert groups == [(30, "min"), (70, "min")]
        assert [test.sample for test in manifest.tests] == [True, False, False, False]
        assert {path for path in paths(package) if path.startswith("submissions/")} == {
            "submissions/accepted/a.cpp",
            "submissions/accepted/b.cpp",
            "submissions/time_limit_exceeded/c.py",
            "submissions/rejected/d.cpp",
            "submissions/wrong_answer/f.cpp",
            "submissions/rejected/h.cpp",  # right but for a subtask
        }
        losses = [note for note in package.notes if "not carried over: solution" in note]
        assert len(losses) == 2
        assert any("e.cpp: 'partially_correct' for all of its tests" in note for note in losses)
    pages = {
        "statement/index.md": b"# Mountains\n![top](top.png)\n",
        "statement/top.png": b"\x89PNG",
        "statement/a.sh": b"",
    }
    with load(tmp_path / "pages", with_(REPOSITORY, pages)) as package:
        statements = {path for path in paths(package) if path.startswith("statement/")}
        assert statements == {"statement/problem.en.md", "statement/top.png"}
    mapping = "samples 0-01\n2^n 1-01\n2^n 0-01\nfull 2-01\nfull 1-01\n"
    task = task_of(tmp_path / "mapped", with_(REPOSITORY, {"tests/mapping": mapping}))
    assert [subtask.tests for subtask in task.subtasks] == [
        ["sample/0-01"],
        ["sample/0-01", "secret/1-01"],
        ["secret/1-01", "secret/2-01"],
    ]


@pytest.mark.parametrize(
    "parameters",
    [
        {"task_type_params": json.dumps({"task_type_parameters_Communication_num_processes": 2})},
        {"task_type_params": json.dumps([2, "stub", "std_io"])},
        {"task_type_params": None, "type_params": [2]},
        {"task_type_parameters": {"num_processes": 2}},
        {"num_processes": 2, "user_io": "std_io"},
        {"user_io": "fifo_io"},
    ],
)
def test_communication_of_tps(tmp_path, parameters):
    files = with_(json_plus(EXPORT, task_type="communication", **parameters), {"graders/manager.cpp": CPP})
    files |= {"graders/stub.cpp": CPP}
    task = task_of(tmp_path, files)
    assert task.manager is not None and task.entry == "stub"
    assert (task.processes, task.io) == ((1, "fifo") if parameters == {"user_io": "fifo_io"} else (2, "std"))


def test_tps_says_whether_its_graders_and_checkers_count(tmp_path):
    checker = {"checker/checker.cpp": CPP}
    with load(tmp_path / "with", with_(REPOSITORY, checker)) as package:
        assert package.manifest.validators and package.manifest.task is not None and package.manifest.task.entry
    without = json_plus(with_(REPOSITORY, checker), has_grader=False, has_checker=False)
    with load(tmp_path / "without", without) as package:
        assert not package.manifest.validators and not package.manifest.include
    moved = {"grader/cpp/grader.cpp": None, "grader/java/grader.java": None, "grader/cpp/judge_main.cpp": CPP}
    assert (
        task_of(tmp_path / "name", json_plus(with_(REPOSITORY, moved), grader_name="judge_main")).entry == "judge_main"
    )


@pytest.mark.parametrize(
    ("limit", "mib", "note"),
    [
        (524288, 512, "524288 is read as KiB"),
        (4194303, 4096, "4194303 is read as KiB"),
        (16384, 16384, "16384 is read as MiB; --memory sets it"),
        (268435456, 256, ""),
        (256, 256, ""),
    ],
)
def test_units_of_the_memory_limit_of_tps(tmp_path, limit, mib, note):
    files = json_plus(EXPORT, memory_limit=limit)
    with load(tmp_path, files) as package:
        assert round(package.manifest.limits.memory / 1024**2) == mib
        lines = [line for line in package.notes if "is read as" in line]
        assert len(lines) == bool(note) and note in "".join(lines)


def test_a_folder_that_gen_copies_from_is_not_said_to_be_left_out(tmp_path):
    extra = {"gen/GEN": "1\n2\n#COPY: ./cases/x.txt\n", "cases/x.txt": "3\n", "other/y.txt": ""}
    with load(tmp_path, with_(PLAIN, extra)) as package:
        assert "not carried over: other/: nothing says what they are for" in package.notes


def test_tests_of_other_names_beside_a_problem_json_are_a_directory(tmp_path):
    files: dict[str, bytes | str] = {"problem.json": '{"name": "x", "limits": {"time_limit_sec": 1}}'}
    with load(tmp_path, {**files, "tests/1.inp": "1\n", "tests/1.out": "1\n"}) as package:
        assert any("problem.json: is of a system that is not known here" in note for note in package.notes)


DATA = "@subtask samples\nmanual a.in\n@subtask small\n@include samples\ngen 1\n@subtask all\n@include small\ngen 2\n"


@pytest.mark.parametrize(("data", "counts"), [(DATA, True), (DATA + "gen 3\n", False), ("gen 1\n", False)])
def test_subtasks_of_tps_by_gen_data_where_there_is_no_mapping(tmp_path, data, counts):
    points = {name: {"index": at, "score": 50 * bool(at)} for at, name in enumerate(["samples", "small", "all"])}
    files: dict[str, bytes | str] = {
        "problem.json": json.dumps({"name": "x", "title": "X", "type": "Batch", "time_limit": 1, "memory_limit": 64}),
        "subtasks.json": json.dumps({"subtasks": points}),
        "gen/data": data,
        **{f"tests/{name}.{end}": f"{name}\n" for name in ["0-01", "1-01", "2-01"] for end in ["in", "out"]},
    }
    with load(tmp_path, files) as package:
        task = package.manifest.task
        sizes = [len(subtask.tests) for subtask in task.subtasks] if task is not None else []
        assert sizes == ([1, 2, 3] if counts else [])
        assert any("the tests of subtasks by gen/data, as" in note for note in package.notes) == counts
        assert any("gen/data: lists other tests than there are" in note for note in package.notes) != counts


@pytest.mark.parametrize("limit", [3, 256])
def test_the_memory_limit_that_is_asked_for_counts(tmp_path, limit):
    root = write(tmp_path / "tps", json_plus(EXPORT, memory_limit=limit))
    with read_package(root, options=ImporterWords(memory=77)) as package:
        assert package.manifest.limits.memory == 77 * 1024**2
    root = write(tmp_path / "cms", with_(yaml("num_processes: 0\n"), {"check/manager.cpp": CPP}))
    with read_package(root, options=ImporterWords(memory=77)) as package:
        assert package.manifest.limits.memory == 77 * 1024**2
        assert any("memory limit 77 MiB, as --memory says, in place of" in note for note in package.notes)


@pytest.mark.parametrize(
    ("line", "seconds"), [("time_limit: 10000", 10), ("time_limit_ms: 500", 0.5), ("time_limit: 600", 600)]
)
def test_a_time_limit_in_milliseconds(tmp_path, line, seconds):
    files = with_(PLAIN, {"task.yaml": str(PLAIN["task.yaml"]).replace("time_limit: 1.5", line)})
    with load(tmp_path, files) as package:
        assert package.manifest.limits.cpu == seconds
        assert any("milliseconds" in note for note in package.notes) == (line == "time_limit: 10000")


def test_tests_that_task_yaml_lists(tmp_path):
    with load(tmp_path, LISTED) as package:
        assert [test.name.rpartition("/")[2] for test in package.manifest.tests] == ["00", "01"]
        assert package.manifest.task is not None and package.manifest.task.source == "adder"
        assert not any("nothing is known" in note for note in package.notes), package.notes


@pytest.mark.parametrize(
    ("names", "official"),
    [
        (["sol/sol_100.cpp", "sol/sol_40.cpp"], "sol_100.cpp"),
        (["sol/anna_full.py", "sol/slow.cpp", "sol/grader.cpp"], "anna_full.py"),
        (["sol/bob.cpp"], "bob.cpp"),
        (["sol/bob.cpp", "sol/eve.cpp"], ""),
        (["sol/solution.cpp", "sol/eve_ok.cpp"], "solution.cpp"),
        (["solution/sums.c", "solution/generator.c"], "sums.c"),
        (["solution/anybody.py"], "anybody.py"),
        (["solution/anybody.py", "solution/another.py"], ""),
        # Programs that make tests are no solutions.
        (["sol/gengen.py"], ""),
        (["sol/generatore.cpp", "sol/valida.py"], ""),
        (["sol/sums_long.cpp", "sol/gen_all.py"], "sums_long.cpp"),
        (["sol/generous.cpp"], "generous.cpp"),
        (["sol/checker.cpp"], ""),
    ],
)
def test_the_official_solution_by_its_name_or_being_alone(tmp_path, names, official):
    files = {path: data for path, data in PLAIN.items() if not path.startswith("sol/")}
    with load(tmp_path, {**files, **dict.fromkeys(names, CPP)}) as package:
        assert set(package.submissions) == ({f"submissions/accepted/{official}"} if official else set())
        assert "solution/" not in names[0] or not any("nothing says what they are for" in n for n in package.notes)


def test_headers_of_managers_go_with_submissions_without_a_grader(tmp_path):
    with load(tmp_path, with_(PLAIN, {"managers/board.h": "int led();", "managers/my board.h": ""})) as package:
        assert {language: list(files) for language, files in package.manifest.include.items()} == {
            "c": ["board.h"],
            "cpp": ["board.h"],
        }
        assert not package.manifest.languages and package.manifest.task is None
        assert any("managers/my board.h: nothing says what they are for" in note for note in package.notes)


@pytest.mark.parametrize(
    ("names", "languages"),
    [
        (["testo/italian.pdf", "testo/english.pdf"], {"it", "en"}),
        (["statement/sums.pdf", "statement/figure.pdf"], {"hu"}),
        (["statement/Sheet of day 1.pdf"], {"hu"}),
        (["statement/sums-de.pdf", "statement/sums_en_US.pdf", "statement/figure.pdf"], {"de", "en-US"}),
        (["statement/statement.it.pdf", "statement/sums.pdf"], {"it", "hu"}),
        (["statement/figure.pdf", "statement/logo.pdf"], set()),
    ],
)
def test_statements_by_the_names_of_languages(tmp_path, names, languages):
    files = {"statement/statement.pdf": None, **dict.fromkeys(names, b"%PDF-1.4")}
    with load(tmp_path, with_(yaml("primary_language: hu\n"), files)) as package:
        assert {statement.language for statement in package.manifest.statements} == languages


def test_words_that_yaml_has_as_truth_values(tmp_path):
    """`no` is Norwegian, and the name of a file."""
    text = yaml("primary_language: no\ninfile: on\noutfile: off\n")
    text["task.yaml"] = str(text["task.yaml"]).replace('infile: ""\n', "").replace('outfile: ""\n', "")
    with load(tmp_path, text) as package:
        assert {statement.language for statement in package.manifest.statements} == {"no"}
        assert package.manifest.task is not None
        assert (package.manifest.task.input_file, package.manifest.task.output_file) == ("on", "off")


def test_the_only_statement_of_tps_may_have_any_name(tmp_path):
    with load(tmp_path / "one", with_(REPOSITORY, {"statement/index.md": None, "statement/prob.md": "x"})) as package:
        assert "statement/problem.en.md" in paths(package)
    several = {"statement/index.md": None, "statement/prob.md": "x", "statement/other.md": "x"}
    with load(tmp_path / "two", with_(REPOSITORY, several)) as package:
        assert "statement/problem.en.md" not in paths(package)


def test_unknown_keys_and_unused_files_are_noted(tmp_path):
    files = with_(yaml("depends_on: [x]\n"), {"check/checker.cpp": CPP, "check/gen.sh": "", "cor/old.txt": ""})
    with load(tmp_path / "cms", files) as package:
        notes = "\n".join(package.notes)
    assert "task.yaml: depends_on: nothing is known of this key" in notes
    assert "check/gen.sh, cor/old.txt: nothing says what they are for" in notes
    groups = MIN + "[{points: 100, testcases: 3, color: red}]\n"
    with load(tmp_path / "groups", yaml(groups)) as package:
        assert any("score_type_parameters.0: color: nothing is known" in note for note in package.notes)
    repository = json_plus(with_(REPOSITORY, {"grader/cpp/notes.txt": "", "checker/other.txt": ""}), time_limt=3)
    with load(tmp_path / "tps", repository) as package:
        notes = "\n".join(package.notes)
    assert "problem.json: time_limt: nothing is known of this key; did you mean 'time_limit'?" in notes
    assert "grader/cpp/notes.txt, checker/other.txt: nothing says what they are for" in notes
    with load(tmp_path / "plain", PLAIN) as package:
        assert not any("nothing is known" in note for note in package.notes), package.notes


def test_a_single_file_is_called_as_its_graders_know_it():
    task = IoiTask(source="sums", entry="grader")
    table = load_table()
    for language, name, grader in (("python3", "sums.py", "grader.py"), ("cpp", "sums.cpp", "grader.cpp")):
        submission = Submission(language=language, source="x = 1\n", filename="mine.txt")
        program = plan(submission, Limits(), table, {grader: b"import sums\n"}, task)
        assert set(program.files) == {name, grader}
        started = [word for word in [*(program.compile or []), *program.run] if word.endswith(grader)]
        assert started, program
    plain = plan(Submission(language="python3", source="x\n"), Limits(), table, {}, task)
    assert set(plain.files) == {"sums.py"}


def test_score_types_of_tps(tmp_path):
    def groups(kind: str) -> tuple[set[str], list[str]]:
        with load(tmp_path / kind, json_plus(REPOSITORY, score_type=kind)) as package:
            assert not any("score_type" in note for note in package.notes)
            task = package.manifest.task
            rules = [str(subtask.rule) for subtask in task.subtasks] if task is not None else []
            return {group.aggregation for group in subgroups(package.manifest)}, rules

    for kind, rule in (("GroupMin", "min"), ("GroupMul", "mul"), ("GroupSum", "sum")):
        aggregations, rules = groups(kind)
        assert aggregations == {rule} or set(rules) == {rule}, (kind, aggregations, rules)
    with pytest.raises(PackageError, match="score_type: 'Sum' is not one of GroupMin, GroupMul, GroupSum"):
        groups("Sum")


def test_tps_names_what_it_leaves_out_and_says_nothing_untrue(tmp_path):
    beside = {"hyper/a.cpp": "", "package/meta.json": "{}", "public/x.txt": "", "attachments/y.txt": ""}
    unsaid = {"solution/other.cpp": "", "gen/data": "", "validator/v.cpp": ""}
    with load(tmp_path, with_(REPOSITORY, {**beside, **unsaid})) as package:
        notes = [note.removeprefix("not carried over: ") for note in package.notes]
    assert "hyper/, package/, public/: nothing says what they are for" in notes
    assert "gen/: what makes tests is not kept with them" in notes
    assert "validator/: its programs do not look at the tests" in notes
    assert "solution/other.cpp: solutions.json does not say what they should do" in notes


@pytest.mark.parametrize(
    ("verdict", "exception", "place"),
    [
        ("correct", "protocol_violation", "rejected"),
        ("correct", "partially_correct", None),
        ("correct", "correct", "accepted"),
        ("incorrect", "correct", "wrong_answer"),
        ("partially_correct", "incorrect", None),
    ],
)
def test_solutions_of_tps_with_exceptions(tmp_path, verdict, exception, place):
    solutions = '{"a.cpp": {"verdict": "model_solution"}, "x.cpp": {"verdict": "%s", "except": {"full": "%s"}}}'
    with load(
        tmp_path, with_(REPOSITORY, {"solutions.json": solutions % (verdict, exception), "solution/x.cpp": ""})
    ) as package:
        folders = {path.split("/")[1] for path in paths(package) if path.endswith("/x.cpp")}
        assert folders == ({place} if place else set())
        assert any("solution x.cpp: " in note for note in package.notes) is (place is None)
