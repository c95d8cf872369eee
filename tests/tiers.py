"""The slices that `make check` and `make test` run of long groups of tests.

A long group is a module, or the tests of a module whose names begin with a prefix. `make test` runs one of its slices,
`make test-all` runs every test. The commit hash chooses the slice, so that all slices run within a few days.
"""

from __future__ import annotations

from collections import Counter

import pytest

# Each module in these directories is a group of so many slices: its tests start servers, sandboxes or a browser.
DIRECTORIES: dict[str, int] = {"browser/": 3, "hostile/": 3, "integration/": 3}

# All other groups: paths below tests/, or beginnings of test ids, to the number of slices. Those of tests/unit start
# ansible-playbook, a compiler or another program many times.
LONG_GROUPS: dict[str, int] = {
    "browser/test_every_page.py": 4,
    "cluster/": 6,
    "integration/test_docs_site.py": 4,
    "integration/test_gateway_strangers.py": 4,
    "integration/test_importers.py": 4,
    "integration/test_languages.py": 4,
    "integration/test_languages_files.py": 4,
    "integration/test_mongodb_member.py": 4,
    "integration/test_problem_import.py": 4,
    "integration/test_problem_verify.py": 4,
    "integration/test_nginx.py::test_a_class": 2,
    "integration/test_recovery.py": 4,
    "integration/test_statement_latex.py": 4,
    "unit/test_before_the_first_change.py": 3,
    "unit/test_bundle.py": 3,
    "unit/test_collection.py::test_ansible_finds": 3,
    "unit/test_deploy_lock.py": 3,
    "unit/test_host_arguments.py": 3,
    "unit/test_importers_testlib.py": 3,
    "unit/test_partial_runs.py": 3,
    "unit/test_plays.py": 3,
}


def group_of(node_id: str) -> str | None:
    """The long group of a test: the longest beginning of its id in LONG_GROUPS, else its module in DIRECTORIES."""
    name = node_id.removeprefix("tests/")
    group = max((group for group in LONG_GROUPS if name.startswith(group)), key=len, default=None)
    return group or (name.partition("::")[0] if name.startswith(tuple(DIRECTORIES)) else None)


def slices_of(group: str) -> int:
    """The number of slices of a group that `group_of` names."""
    return LONG_GROUPS.get(group) or DIRECTORIES[group.partition("/")[0] + "/"]


def in_slice(group: str, index: int, commit: str) -> bool:
    """Whether the test at `index` of its group belongs to the slice of this commit (a hexadecimal hash).

    The group's name shifts the slice, so that one commit does not run the first slice of every group.
    """
    shift = sum(group.encode())
    return (index + int(commit[:12], 16) + shift) % slices_of(group) == 0


def select(items: list[pytest.Item], commit: str) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Divide collected tests into those that this commit runs and the rest."""
    selected, rest = [], []
    seen: Counter[str] = Counter()
    for item in items:
        group = group_of(item.nodeid)
        if group is None:
            selected.append(item)
            continue
        (selected if in_slice(group, seen[group], commit) else rest).append(item)
        seen[group] += 1
    return selected, rest
