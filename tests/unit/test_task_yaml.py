"""judge.yaml: what it may say, and one sentence for each fault."""

import pytest

from judge.common.errors import PackageError
from judge.problems.package import manifest_bytes, read_package
from tests.support.packages import refused, write

BASE = {
    "problem.yaml": "problem_format_version: 2025-09\nname: X\nuuid: 1\ntype: scoring\nlimits: {time_limit: 1}\n",
    "data/secret/a-1.in": "1\n",
    "data/secret/a-1.ans": "1\n",
    "data/secret/b-1.in": "2\n",
    "data/secret/b-1.ans": "2\n",
}
MANAGER = {"manager/manager.py": "print(1)\n"}


def read(tmp_path, judge_yaml: str, **extra: str):
    files = {**BASE, "judge.yaml": judge_yaml, **{name.replace("__", "/"): text for name, text in extra.items()}}
    return package(tmp_path, files)


def package(tmp_path, files):
    with read_package(write(tmp_path / "x", files)) as content:
        return content.manifest


def test_no_file_says_nothing(tmp_path):
    manifest = package(tmp_path, BASE)
    assert manifest.task is None
    assert b'"task"' not in manifest_bytes(manifest)


def test_all_keys(tmp_path):
    text = (
        "kind: communication\nprocesses: 2\nio: std\nsource: x\nentry: stub\n"
        "subtasks:\n- {name: first, points: 20, tests: ['secret/a-*']}\n"
        "- {points: 80, rule: threshold, threshold: 7, tests: ['secret/b-1', 'secret/a-?']}\n"
    )
    task = package(
        tmp_path, {**BASE, **MANAGER, "judge.yaml": text, "include/cpp/stub.cpp": "", "include/cpp/x.h": ""}
    ).task
    assert task is not None and task.manager is not None
    assert (task.kind, task.processes, task.io, task.source, task.entry) == ("communication", 2, "std", "x", "stub")
    assert task.manager.language == "python3"
    assert [(subtask.name, subtask.rule, subtask.tests) for subtask in task.subtasks] == [
        ("first", "min", ["secret/a-1"]),
        ("subtask 2", "threshold", ["secret/a-1", "secret/b-1"]),
    ]


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("before: |\n  #define main other\n", "before", "#define main other\n"),
        ("kind: two-steps\n", "processes", 2),
    ],
)
def test_a_key_alone(tmp_path, text, key, value):
    assert getattr(read(tmp_path, text).task, key) == value


def test_a_validator_that_looks_at_sources(tmp_path):
    validator = {"output_validator__v.py": "print(1)\n"}
    task = read(tmp_path, "show_source: true\n", **validator).task
    assert task is not None and task.show_source
    with pytest.raises(PackageError, match=r"judge\.yaml: show_source: is for an output validator; add one"):
        read(tmp_path / "c", "show_source: true\n")


@pytest.mark.parametrize(
    ("text", "extra", "sentence"),
    [
        ("kind: odd\n", {}, "kind"),
        ('before: "a\\0"\n', {}, "judge.yaml"),
        (f"before: {'x' * 2001}\n", {}, "before"),
        ("knd: batch\n", {}, "knd"),
        ("processes: 2\n", {}, "processes: belongs to kind 'communication'; this task is of kind 'batch'"),
        ("kind: communication\nprocesses: 99\n", MANAGER, "processes"),
        ("kind: communication\n", {}, "needs a manager; expected a program in the folder manager/"),
        ("kind: two-steps\ninput_file: x\n", {}, "input_file: belongs to kind 'batch'"),
        ("input_file: ../x\n", {}, "input_file"),
        ("input_file: a/b\n", {}, "input_file"),
        ("input_file: x\noutput_file: x\n", {}, "needs two names"),
        ("kind: batch\n", MANAGER, "is a manager, but judge.yaml says kind: batch"),
        ("entry: grader\n", {}, "entry: no language's folder in include/ has a file 'grader'"),
        ("subtasks: [{points: 1, tests: ['secret/c*']}]\n", {}, "no test is called 'secret/c*'"),
        ("subtasks: [{points: 1, tests: ['secret/c']}]\n", {}, "no test is called 'secret/c'"),
        ("subtasks: [{points: -1, tests: ['secret/*']}]\n", {}, "points"),
        ("subtasks: [{points: .inf, tests: ['secret/*']}]\n", {}, "points"),
        ("subtasks: [{points: 1, rule: threshold, tests: ['secret/*']}]\n", {}, "threshold"),
        ("subtasks: [{points: 1, threshold: 2, tests: ['secret/*']}]\n", {}, "threshold"),
        (
            "subtasks: [{name: a, points: 1, tests: ['secret/*']}, {name: a, points: 1, tests: ['secret/*']}]\n",
            {},
            "'a' is the name of two subtasks",
        ),
        (
            "kind: communication\n",
            {**MANAGER, "output_validator/v.py": ""},
            "a communication task's manager decides; remove the output validator",
        ),
    ],
)
def test_faults_have_one_sentence(tmp_path, text, extra, sentence):
    assert sentence in refused(package, tmp_path, {**BASE, **extra, "judge.yaml": text})


def test_contradictions_with_problem_yaml(tmp_path):
    plain = {**BASE, "problem.yaml": BASE["problem.yaml"].replace("type: scoring\n", "")}
    with pytest.raises(PackageError, match="subtasks: are for scoring problems; say type: scoring"):
        package(tmp_path / "1", {**plain, "judge.yaml": "subtasks: [{points: 1, tests: ['secret/*']}]\n"})
    talks = {**BASE, "problem.yaml": BASE["problem.yaml"].replace("scoring\n", "[scoring, interactive]\n")}
    talks["output_validator/v.py"] = ""
    with pytest.raises(PackageError, match="input_file: a problem of type interactive cannot have it"):
        package(tmp_path / "2", {**talks, "judge.yaml": "input_file: x\n"})
    assert "is a manager, but there is no judge.yaml" in refused(package, tmp_path / "3", {**BASE, **MANAGER})


def test_too_many_patterns_are_refused_before_they_are_tried(tmp_path):
    names = ", ".join(["'secret/*'"] * 1001)
    assert "more than 1000 names with" in refused(read, tmp_path, f"subtasks: [{{points: 1, tests: [{names}]}}]\n")
