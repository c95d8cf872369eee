"""The slices of long groups: together they are the whole group, and every group exists."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.lab import ROOT
from tests.tiers import DIRECTORIES, LONG_GROUPS, group_of, in_slice

MODULE = "integration/test_deleting.py"


@given(st.sampled_from(sorted({*LONG_GROUPS, MODULE})), st.integers(0, 400), st.integers(0, 16**11))
def test_each_test_runs_in_exactly_one_of_the_slices(group: str, index: int, first: int) -> None:
    commits = [f"{first + step:012x}" for step in range(LONG_GROUPS.get(group, DIRECTORIES["integration/"]))]
    assert sum(in_slice(group, index, commit) for commit in commits) == 1


@pytest.mark.parametrize("group", [*LONG_GROUPS, *DIRECTORIES])
def test_every_group_has_tests(group: str) -> None:
    path, _, test = group.partition("::")
    assert (ROOT / "tests" / path).exists()
    assert not test or f"def {test}" in (ROOT / "tests" / path).read_text()


def test_the_longest_name_decides_the_group() -> None:
    assert group_of("tests/integration/test_nginx.py::test_a_class_x") == "integration/test_nginx.py::test_a_class"
    assert group_of("tests/integration/test_nginx.py::test_x") == "integration/test_nginx.py"
    assert group_of(f"tests/{MODULE}::test_x") == MODULE
    assert group_of("tests/unit/test_docs.py::test_help") is None
    assert group_of("tests/hostile/test_hostile.py::test_x[1]") == "hostile/"
    assert group_of("tests/cluster/test_site.py::test_x[1]") == "cluster/"


@given(st.integers(0, 400), st.integers(0, 16**11))
def test_a_module_of_a_directory_runs_whole(index: int, commit: int) -> None:
    assert in_slice(MODULE, index, f"{commit:012x}") == in_slice(MODULE, 0, f"{commit:012x}")


def test_a_slice_without_tests_passes() -> None:
    """A commit's slice may have none of the few tests of a step; other runs without tests fail."""
    command = [
        ROOT / "scripts/run-tests",
        "--slice",
        "--alone",
        "tests/unit/test_tiers.py",
        "-k",
        "no_test_has_this_name",
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0 and "this commit's slice has none of these tests" in run.stdout
    del command[1]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 5
