"""What globs of submissions.yaml match, and how many they may stand for."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.errors import PackageError
from judge.problems.expectations import MOST, matches, read_rules
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
