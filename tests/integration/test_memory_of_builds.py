"""What a compiler leaves in /box counts for the slot's memory, and a slot never has an archive of it in its own."""

import contextlib
import os
import re
from pathlib import Path

import pytest

from judge.executor.slot import builds
from judge.executor.slot.memory_budget import BUILT, BUILT_MOST
from judge.executor.slot.pipeline import Pipeline
from judge.languages.table import load_table
from judge.model.messages import Limits, LimitsOverride, Submission, Verdict
from judge.sandbox import Command, SandboxPool
from tests.support import packages
from tests.support.sandbox import AS_ROOT

pytestmark = AS_ROOT

MIB = 1024**2
TABLE = load_table()
PERL = 'BEGIN { open F, ">", "/box/$_" and print F "x" x (1 << 20) and close F for 1 .. %d } print 1;'
HOARD = "for n in $(seq %d); do head -c 1048576 /dev/urandom > $n; done"


@pytest.fixture(scope="module")
def pool():
    with contextlib.closing(SandboxPool(f"test-built-{os.getpid()}")) as pool:
        yield pool


def judge(pool, work, share, **fields):
    pipeline = Pipeline(take=pool.take, tell=lambda _: None, table=TABLE, outputs=work, memory=share)
    return packages.judged(pipeline, packages.assigned(Submission(**fields)))


def test_a_build_within_its_room_changes_no_limit(pool, work):
    judged = judge(pool, work, 512 * MIB, language="perl", source=PERL % 60)
    assert judged.verdict is Verdict.AC
    assert judged.result.limits.memory == 512 * MIB


def test_a_greater_build_leaves_less_to_runs(pool, work):
    judged = judge(pool, work, 512 * MIB, language="perl", source=PERL % 164)
    assert judged.verdict is Verdict.AC
    built = 512 * MIB + BUILT - judged.result.limits.memory
    assert 164 * MIB <= built <= 166 * MIB


def test_a_build_that_leaves_too_little_for_the_limit_is_a_compile_error(pool, work):
    limits = LimitsOverride(memory=500 * MIB)
    judged = judge(pool, work, 512 * MIB, language="perl", source=PERL % 164, limits=limits)
    assert judged.verdict is Verdict.CE
    assert re.search(r"the compiler left 16[45](\.\d)? MiB in /box", judged.result.reason)
    assert "a slot of this executor has" in judged.result.reason


@pytest.mark.parametrize("share", [None, 8192 * MIB])
@pytest.mark.parametrize(
    "fields", [{"language": "perl", "source": PERL % 300}, {"command": "true", "compile": HOARD % 300}]
)
def test_a_huge_build_is_a_compile_error_on_every_host(pool, work, share, fields):
    judged = judge(pool, work, share, **fields)
    assert judged.verdict is Verdict.CE
    assert f"the limit is {BUILT_MOST // MIB} MiB" in judged.result.reason


def high_water() -> int:
    """The most memory that this process has had since the last `reset`."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024


def test_archives_do_not_pass_through_the_memory_of_the_slot(pool, work):
    builds.clear(work / "builds")
    kept_builds = builds.Builds(work / "builds")
    with contextlib.closing(pool.take()) as box, contextlib.closing(pool.take()) as second_box:
        command = Command(["/bin/sh", "-c", HOARD % 200], Limits(cpu=30), writable=True, cwd="/box")
        with box.run(command) as outcome:
            assert outcome.exit_code == 0
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins again
        before = high_water()
        with box.run(builds.packing()) as outcome:
            archive = builds.packed(outcome)
        with os.fdopen(archive):
            kept_builds.save("a", archive)
        loaded = kept_builds.load("a")
        with os.fdopen(loaded):
            assert builds.unpack(second_box.run, loaded) == ""
        assert high_water() - before < 16 * MIB
        with second_box.run(Command(["/bin/sh", "-c", "cat /box/* | wc -c"], Limits(cpu=30))) as outcome:
            assert int(outcome.read_stdout()) == 200 * MIB
        assert box.built() == second_box.built()
