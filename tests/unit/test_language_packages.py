"""Which Debian packages hosts get for languages: the inventory's filter says what the table says."""

import subprocess
import sys
from types import ModuleType

import pytest

from judge.languages.table import load_table
from tests.support import ansible
from tests.support.lab import ROOT

TABLE = load_table()


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    return ansible.plugin("filter", "judge_languages")


@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_the_filter_and_the_command_read_the_same_table(plugin: ModuleType, release: str) -> None:
    rows = [row for row in TABLE.values() if release in row.releases]
    expected = sorted({package for row in rows for package in row.packages})
    assert (
        plugin.judge_language_packages(["all"], release) == plugin.judge_language_packages("all", release) == expected
    )
    command = [sys.executable, "-m", "judge.languages", "--release", release]
    assert subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split() == expected


def test_some_rows_and_those_that_one_release_has(plugin: ModuleType) -> None:
    packages = plugin.judge_language_packages
    assert packages([]) == [] and packages(["java", "rust"]) == ["default-jdk-headless", "rustc"]
    assert packages(["cpp17-clang"]) == ["clang", "g++"]
    assert packages(["swift"]) == [] and packages(["swift"], partly=True) == ["swiftlang"]
    assert packages(["swift"], "bookworm") == [] and packages(["swift"], "trixie") == ["swiftlang"]
    assert {"nim", "swiftlang"} <= set(packages("all", partly=True)) and "gcc" not in packages("all", partly=True)


def test_a_row_that_is_none_is_named(plugin: ModuleType) -> None:
    with pytest.raises(
        Exception, match="judge_languages: 'fortan' is no row of the table of languages; choose all, or"
    ):
        plugin.judge_language_packages(["fortan"])


def test_a_submission_is_in_the_first_language_that_there_is(plugin: ModuleType) -> None:
    programs = [{"language": "c"}, {"language": "python3"}, {"command": "true"}]
    choose = plugin.judge_program
    assert choose(programs, ["python3", "c"]) == {"language": "c"}
    assert choose(programs, ["python3"]) == {"language": "python3"}
    assert choose(programs, []) == {"command": "true"}
