"""What globs of submissions.yaml match, and how many they may stand for."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.errors import PackageError
from judge.languages.table import load_table
from judge.model.messages import Result, TestResult, Verdict
from judge.problems.examples import Example, example_of, package_examples
from judge.problems.expectations import MOST, candidates, matches, read_rules
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


@given(st.text("ab*/", max_size=8), st.text("ab/", min_size=1, max_size=10).filter(lambda one: "//" not in one))
def test_a_star_is_anything_within_a_name(glob, path):
    parts = path.strip("/").split("/")
    parents = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    if parents != [""]:
        assert matches(glob, path.strip("/")) is any(plain(glob, one) for one in parents)


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
    assert all(matches(glob, "".join(one)) for one in itertools.product("ab", repeat=6))


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


def of_folders(work) -> dict[str, Example]:
    with read_package(packages.write(work / "package", DATA | FOLDERS)) as package:
        found = candidates(package, load_table())
        skipped = {one.path: one.skipped for one in found if one.skipped}
        assert skipped.keys() == {"mixed/d.c", "rejected/noext"}
        with pytest.raises(PackageError, match="package/submissions/rejected/noext: no language of the table"):
            package_examples(package, load_table())
        return {one.path.split("/")[0]: example_of(package, one) for one in found if not one.skipped}


def test_what_a_folder_stands_for(work):
    found = of_folders(work)
    assert {folder: one.candidate.says for folder, one in found.items()} == {
        "accepted": "AC", "wrong_answer": "WA", "time_limit_exceeded": "TLE", "run_time_error": "RTE",
        "memory_limit_exceeded": "MLE", "output_limit_exceeded": "OLE", "brute_force": "TLE or RTE",
        "compile_error": "CE",
    }  # fmt: skip
    assert all(one.submission.mode == "full" for one in found.values()), "rules are about every test"


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


def test_what_a_folder_permits(work):
    """A submission whose only test failed so is right in these folders, and in no others."""
    for folder, one in of_folders(work).items():
        right = set()
        for verdict in Verdict:
            tests = [] if verdict is Verdict.CE else [TestResult(name="secret/1", verdict=verdict)]
            if not one.wrong(verdict, Result(tests=tests)):
                right.add(verdict)
        assert right == set(RIGHT[folder].split()), folder
        assert one.wrong(None, Result()) == "it was cancelled"
