"""The slices that `make check` and `make test` run of long groups of tests.

A long group is a module, or the tests of a module whose names begin with a prefix. `make test` runs one of its slices.
Of the other modules that start servers it runs a third, each as a whole, since tests of one module may build on one
another. `make test-all` runs every test. The commit hash chooses, so that all tests run within a few days.
"""

from __future__ import annotations

import zlib
from collections import Counter

import pytest

# Of the modules in these directories that are no long group, one commit in so many runs each.
DIRECTORIES: dict[str, int] = {"browser/": 3, "hostile/": 3, "integration/": 3}

# Paths below tests/, or beginnings of test ids, to the number of slices. Their tests do not build on one another. Those
# of tests/unit start ansible-playbook, a compiler or another program many times.
LONG_GROUPS: dict[str, int] = {
    "browser/test_every_page.py": 4,
    "cluster/": 6,
    "hostile/": 3,
    "integration/test_backup.py": 3,
    "integration/test_demo.py": 2,
    "integration/test_docs_site.py": 4,
    "integration/test_etcd_member.py": 3,
    "integration/test_executor_problems.py": 3,
    "integration/test_fuzz_web.py": 3,
    "integration/test_gateway_strangers.py": 4,
    "integration/test_importers.py": 4,
    "integration/test_kill.py": 2,
    "integration/test_languages.py": 4,
    "integration/test_languages_files.py": 4,
    "integration/test_limits_truth.py": 3,
    "integration/test_mongod_failover.py": 3,
    "integration/test_mongodb_member.py": 4,
    "integration/test_mongodb_nine.py": 3,
    "integration/test_mongodb_rotation.py": 3,
    "integration/test_near_the_limit.py": 3,
    "integration/test_problem_import.py": 4,
    "integration/test_problem_verify.py": 4,
    "integration/test_nginx.py::test_a_class": 2,
    "integration/test_output_streams.py": 2,
    "integration/test_recovery.py": 4,
    "integration/test_shared_tests.py": 2,
    "integration/test_statement_latex.py": 4,
    "integration/test_tracing.py": 3,
    "integration/test_turns.py": 3,
    "integration/test_webhooks_killed.py": 3,
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


def in_slice(group: str, index: int, commit: str) -> bool:
    """Whether the test at `index` of its group belongs to the slice of this commit (a hexadecimal hash).

    The group's name shifts the slice, so that one commit does not run the first slice of every group.
    """
    slices = LONG_GROUPS.get(group)
    if slices is None:
        slices, index = DIRECTORIES[group.partition("/")[0] + "/"], 0
    return (index + int(commit[:12], 16) + zlib.crc32(group.encode())) % slices == 0


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
