"""What globs of submissions.yaml match, and how many they may stand for."""

import itertools
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import PackageError
from judge.languages.table import load_table
from judge.model.messages import Result, TestResult, Verdict
from judge.problems import expectations
from judge.problems.examples import Example, example_of, package_examples
from judge.problems.expectations import MOST, Candidate, candidates, matches, read_rules
from judge.problems.package import read_package
from tests.support import packages


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("accepted", "accepted/a.py", True),
        ("accepted/*.{py,c}", "accepted/a.c", True),
        ("accepted/*.{py,c}", "accepted/a.cpp", False),
        ("{a,b{c,d}}/x", "bd/x", True),
        ("{a,b{c,d}}/x", "b/x", False),
        ("*", "a/b", True),
        ("a*b", "a/b", False),
        ("a*a", "a", False),
        ("*.tar.*", "x.tar.y.tar.gz", True),
        ("", "a", False),
        ("{,a}b", "ab", True),
        ("{a", "{a", True),
    ],
)
def test_globs(glob, path, expected):
    assert matches(glob, path) is expected


def plain(glob: str, name: str) -> bool:
    """`*` is anything but a slash, tried in every way."""
    if not glob:
        return not name
    if glob[0] == "*":
        return plain(glob[1:], name) or (bool(name) and name[0] != "/" and plain(glob, name[1:]))
    return bool(name) and glob[0] == name[0] and plain(glob[1:], name[1:])


@given(st.text("ab*/", max_size=8), st.text("ab/", min_size=1, max_size=10).filter(lambda path: "//" not in path))
def test_a_star_is_anything_within_a_name(glob, path):
    parts = path.strip("/").split("/")
    parents = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    if parents != [""]:
        assert matches(glob, path.strip("/")) is any(plain(glob, parent) for parent in parents)


BOMBS = [
    "{a,b}" * 30,
    "{" * 40 + "a" + ",b}" * 40,
    "{" + "," * 50_000 + "}",
    "{x}" * 50_000,
    "{a,b}" + "{c}" * 70,
]


@pytest.mark.parametrize("glob", BOMBS, ids=range(len(BOMBS)))
def test_too_many_alternatives_are_refused_at_once(glob, work):
    begin = time.process_time()
    with pytest.raises(PackageError, match=f"stands for more than {MOST} patterns; write fewer"):
        matches(glob, "accepted/a.py")
    yaml = "problem_format_version: 2025-09\nname: X\nlimits: {time_limit: 1}\n"
    for key in (f'? "{glob}"\n: {{}}', f'"a":\n  ? "{glob}"\n  : {{}}'):
        files = {
            "problem.yaml": yaml,
            "data/secret/1.in": "",
            "data/secret/1.ans": "",
            "submissions/submissions.yaml": key + "\n",
        }
        with read_package(packages.write(work / "package", files)) as package:
            with pytest.raises(PackageError, match=r"submissions.yaml: .*stands for more than") as refused:
                read_rules(package)
            assert len(str(refused.value)) < 600
    assert time.process_time() - begin < 20


def test_as_many_as_there_may_be():
    glob = "{a,b}" * 6
    assert all(matches(glob, "".join(letters)) for letters in itertools.product("ab", repeat=6))


def test_many_stars_take_no_time():
    begin = time.process_time()
    assert not matches("*a" * 60 + "b", "a" * 250)
    assert matches("*a" * 60 + "*", "a" * 250)
    assert time.process_time() - begin < 5


FOLDERS = {
    "submissions/accepted/sum.py": "x",
    "submissions/wrong_answer/a.C": "x",
    "submissions/time_limit_exceeded/b.java": "x",
    "submissions/run_time_error/c.cpp": "x",
    "submissions/memory_limit_exceeded/m.c": "x",
    "submissions/output_limit_exceeded/o.c": "x",
    "submissions/brute_force/slow.py": "x",
    "submissions/compile_error/e.c": "x",
    "submissions/rejected/noext": "x",
    "submissions/mixed/d.c": "x",
    "submissions/accepted/two/d.c": "x",
}
DATA = {"problem.yaml": "name: X\nlimits: {time_limit: 1}\n", "data/secret/1.in": "", "data/secret/1.ans": ""}


def submissions_of(work: Path, files: Mapping[str, str]) -> dict[str, Candidate]:
    with read_package(packages.write(work / "package", DATA | files)) as package:
        return {candidate.path: candidate for candidate in candidates(package, load_table())}


def of_folders(work) -> dict[str, Example]:
    with read_package(packages.write(work / "package", DATA | FOLDERS)) as package:
        submissions = candidates(package, load_table())
        skipped = {candidate.path: candidate.skipped for candidate in submissions if candidate.skipped}
        assert skipped.keys() == {"mixed/d.c", "rejected/noext"}
        with pytest.raises(PackageError, match="package/submissions/rejected/noext: no language of the table"):
            package_examples(package, load_table())
        return {
            candidate.path.split("/")[0]: example_of(package, candidate)
            for candidate in submissions
            if not candidate.skipped
        }


def test_descriptions_of_folders_of_submissions(work):
    examples = of_folders(work)
    assert {folder: example.candidate.description for folder, example in examples.items()} == {
        "accepted": "AC", "wrong_answer": "WA", "time_limit_exceeded": "TLE", "run_time_error": "RTE",
        "memory_limit_exceeded": "MLE", "output_limit_exceeded": "OLE", "brute_force": "TLE or RTE",
        "compile_error": "CE",
    }  # fmt: skip
    assert all(example.submission.mode == "full" for example in examples.values()), "rules are about every test"


RIGHT = {
    "accepted": "AC",
    "wrong_answer": "WA OLE",
    "time_limit_exceeded": "TLE",
    "run_time_error": "RTE MLE OLE SV",
    "memory_limit_exceeded": "MLE",
    "output_limit_exceeded": "OLE",
    "brute_force": "TLE RTE MLE OLE SV",
    "compile_error": "CE",
}


def test_verdicts_that_a_folder_permits(work):
    """A submission whose only test failed so is right in these folders, and in no others."""
    for folder, example in of_folders(work).items():
        right = set()
        for verdict in Verdict:
            tests = [] if verdict is Verdict.CE else [TestResult(name="secret/1", verdict=verdict)]
            if not example.wrong(verdict, Result(tests=tests)):
                right.add(verdict)
        assert right == set(RIGHT[folder].split()), folder
        assert example.wrong(None, Result()) == "it was cancelled"


TIMED = {
    "submissions/accepted/quick.py": "x",
    "submissions/accepted/slow.py": "x",
    "submissions/time_limit_exceeded/naive.py": "x",
    "submissions/wrong_answer/w.py": "x",
    "submissions/brute_force/b.py": "x",
    "submissions/mixed/m.py": "x",
}


def bounds(work, text: str, *, legacy: bool = True) -> dict[str, str]:
    yaml = DATA["problem.yaml"] + ("" if legacy else "problem_format_version: 2025-09\n")
    files = TIMED | {"problem.yaml": yaml} | ({"submissions/submissions.yaml": text} if text else {})
    return {path: candidate.bound for path, candidate in submissions_of(work, files).items() if candidate.bound}


PLAIN = {"accepted/quick.py": "lower", "accepted/slow.py": "lower", "time_limit_exceeded/naive.py": "upper"}


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("", {}),
        ("accepted/slow.py: {use_for_time_limit: false}", {"accepted/slow.py": ""}),
        ("submissions/accepted/slow.py: {use_for_time_limit: false}", {"accepted/slow.py": ""}),
        ("accepted: {use_for_time_limit: false}", {"accepted/slow.py": "", "accepted/quick.py": ""}),
        ("wrong_answer/w.py: {use_for_time_limit: lower}", {"wrong_answer/w.py": "lower"}),
        ("brute_force: {use_for_time_limit: upper}", {"brute_force/b.py": "upper"}),
        ("mixed/*.py: {required: [TLE]}", {"mixed/m.py": "upper"}),
        ("mixed/*.py: {required: [TLE, RTE]}", {}),
        ("mixed/*.py: {permitted: [AC, RTE]}", {"mixed/m.py": "lower"}),
        ("mixed/*.py: {permitted: [AC, TLE]}", {}),
        ("mixed/*.py: {permitted: [AC, WA], use_for_time_limit: false}", {}),
        ("mixed/m.py: {'secret/1': {permitted: [AC]}}", {"mixed/m.py": "lower"}),
        ("time_limit_exceeded: {permitted: [AC, WA, TLE], required: [TLE]}", {}),
        ("time_limit_exceeded: {required: [TLE, RTE]}", {"time_limit_exceeded/naive.py": ""}),
    ],
)
def test_submissions_that_bound_the_time_limit(work, text, changed):
    expected = {path: bound for path, bound in {**PLAIN, **changed}.items() if bound}
    assert bounds(work, text) == expected


@pytest.mark.parametrize(
    ("use", "sentence"),
    [
        ("upper", r"submissions/accepted/slow.py: is to stay within the time limit and to"),
        ("never", r"'never' is no use for the time limit; expected false, lower or upper"),
    ],
)
def test_a_bound_that_is_refused(work, use, sentence):
    with pytest.raises(PackageError, match=sentence):
        bounds(work, f"accepted/slow.py: {{use_for_time_limit: {use}}}")


def test_the_slowest_test_of_those_that_a_rule_is_about(work):
    rules = {"submissions/submissions.yaml": "mixed/m.py: {'secret/1*': {permitted: [AC]}}"}
    submissions = submissions_of(work, TIMED | rules)
    tests = [TestResult(name=name, verdict=Verdict.AC, cpu=cpu) for name, cpu in (("secret/12", 1), ("x", 9))]
    result = Result(tests=tests)
    assert submissions["mixed/m.py"].slowest(result) == 1
    assert submissions["accepted/slow.py"].slowest(result) == 9
    assert submissions["accepted/slow.py"].slowest(Result()) == 0


def test_files_of_several_languages(work):
    names = ("x/a.py", "x/b.c", "y/a.c", "y/b.cpp", "z/n.txt")
    rules = {"submissions/submissions.yaml": "accepted/z: {language: python3, entrypoint: n.txt}"}
    submissions = submissions_of(work, {f"submissions/accepted/{name}": "x" for name in names} | rules)
    assert submissions["accepted/x"].skipped == "its files are in several languages: c, python3"
    assert (submissions["accepted/y"].language, submissions["accepted/y"].skipped) == ("cpp", "")
    assert (submissions["accepted/z"].language, submissions["accepted/z"].entry) == ("python3", "n.txt")


def test_an_annotation_counts_where_no_folder_says_a_verdict(work):
    files = {
        "submissions/mixed/a.py": "# @EXPECTED_RESULTS@: WRONG-ANSWER, TIMELIMIT",
        "submissions/mixed/b.py": "x",
        "submissions/accepted/c.py": "# @EXPECTED_RESULTS@: WRONG-ANSWER",
    }
    submissions = submissions_of(work, files)
    annotated, folder = submissions["mixed/a.py"], submissions["accepted/c.py"]
    assert (annotated.description, annotated.skipped) == ("TLE or WA", "")
    assert (folder.description, folder.skipped) == ("AC", "")
    assert "nor an annotation" in submissions["mixed/b.py"].skipped
    (rule,) = annotated.rules
    assert expectations.check(rule, Verdict.AC, Result()) == "the verdict is AC, not TLE or WA"
    assert not expectations.check(rule, Verdict.TLE, Result())


@pytest.mark.parametrize(("version", "rule"), [("legacy", True), ("2023-07-draft", True), ("2025-09", False)])
def test_submissions_that_get_a_part_of_the_points(tmp_path, version, rule):
    yaml = f"problem_format_version: {version}\nname: Sum\ntype: scoring\nlimits: {{time_limit: 1}}\n"
    files = {"problem.yaml": yaml, "data/secret/1.in": "1\n", "data/secret/1.ans": "1\n"}
    with read_package(packages.write(tmp_path / "p", files), time_limit=1.0) as package:
        assert any(rule.glob == "partially_accepted" and rule.partial for rule in read_rules(package)) is rule
