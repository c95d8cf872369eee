"""The slices that `make check` and `make test` run of tests that start servers, hosts or many programs.

`make test` runs one slice of each group, `make test-all` runs every test. A group is a module, or a set of tests that
do not build on one another. The commit hash chooses the slice, so that all tests run within a few days.
"""

import zlib
from collections import Counter

import pytest

# A commit runs one in so many modules of these directories, each as a whole: its tests may build on one another.
DIRECTORIES = {"browser/": 7, "integration/": 7}

# A commit runs one in so many tests of these: directories, modules, and tests whose names begin so.
LONG_GROUPS = dict.fromkeys(
    [
        "browser/test_every_page.py",
        "hostile/",
        "integration/test_backup.py",
        "integration/test_demo.py",
        "integration/test_docs_site.py",
        "integration/test_etcd_member.py",
        "integration/test_executor_problems.py",
        "integration/test_frozen_leader.py",
        "integration/test_fuzz_web.py",
        "integration/test_gateway_strangers.py",
        "integration/test_importers.py",
        "integration/test_kill.py",
        "integration/test_languages.py",
        "integration/test_languages_files.py",
        "integration/test_limits_truth.py",
        "integration/test_mongod_failover.py",
        "integration/test_mongodb_member.py",
        "integration/test_mongodb_nine.py",
        "integration/test_mongodb_rotation.py",
        "integration/test_near_the_limit.py",
        "integration/test_nginx.py::test_a_class",
        "integration/test_output_streams.py",
        "integration/test_problem_import.py",
        "integration/test_problem_verify.py",
        "integration/test_recovery.py",
        "integration/test_shared_tests.py",
        "integration/test_statement_latex.py",
        "integration/test_tracing.py",
        "integration/test_turns.py",
        "integration/test_webhooks_killed.py",
    ],
    7,
) | dict.fromkeys(
    [
        "unit/test_before_the_first_change.py",
        "unit/test_bundle.py",
        "unit/test_collection.py::test_ansible_finds",
        "unit/test_deploy_lock.py",
        "unit/test_host_arguments.py",
        "unit/test_importers_testlib.py",
        "unit/test_partial_runs.py",
        "unit/test_plays.py",
    ],
    4,
) | {"cluster/": 7}  # fmt: skip


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
