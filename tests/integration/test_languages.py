"""Every language of the table that this machine has: each verdict, on the executor's pipeline in the real sandbox.

A language that is missing is skipped with the reason that survey() gives. Limits are on CPU time, and generous in
wall time: a busy machine is slow, and changes no verdict.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from judge.executor.channel import Job
from judge.executor.slot.pipeline import Pipeline
from judge.languages.table import Survey, extra_paths, load_table, survey
from judge.model.messages import Assignment, Completed, LimitsOverride, Submission, Test, Verdict
from judge.sandbox import SandboxPool
from tests.support.language_programs import BIG, PROGRAMS, SMALL

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="the full sandbox needs root here: run as root"),
]

TABLE = load_table()
MIB = 1024**2
TESTS = [Test(name=str(n), input=given, answer=answer) for n, (given, answer) in enumerate((SMALL, BIG))]
# What must be here wherever the tests run: `make setup-test` installs it (scripts/install-packages).
ALWAYS = [
    "c",
    "cpp",
    "python3",
    "java",
    "go",
    "rust",
    "javascript",
    "pascal",
    "ruby",
    "php",
    "perl",
    "lua",
    "ocaml",
    "bash",
]
PATIENT = LimitsOverride(cpu=30, wall=100, memory=256 * MIB)
LOOP = LimitsOverride(cpu=1.0, wall=100, memory=256 * MIB)
# A small heap is full before the virtual machines have used much time.
HUNGRY = LimitsOverride(cpu=30, wall=100, memory=64 * MIB)


@functools.cache
def here() -> Survey:
    """The languages of this machine; a busy one may take long to say a version."""
    return survey(TABLE, timeout=60)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    name = f"test-languages-{os.getpid()}"
    outputs: Path = tmp_path_factory.mktemp("outputs")
    with contextlib.closing(SandboxPool(name, paths=extra_paths(TABLE.values()))) as pool:
        yield Pipeline(take=pool.take, tell=lambda _: None, table=TABLE, outputs=outputs)


@pytest.fixture(params=list(TABLE))
def language(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if name in here().missing:
        pytest.skip(f"{TABLE[name].title} is not on this machine: {here().missing[name]}")
    return name


def judge(
    pipeline: Pipeline, language: str, source: str, limits: LimitsOverride, tests: Sequence[Test] = TESTS
) -> Completed:
    given = Submission(language=language, source=source, tests=list(tests), limits=limits)
    assignment = Assignment(id="1" * 24, attempt=1, claim="c1", submission=given)
    finished = pipeline.execute(Job(assignment=assignment, language_version=here().found[language]))
    assert finished.completed is not None
    assert not finished.completed.retry, finished.completed.result.reason
    return finished.completed


def test_every_row_is_tested() -> None:
    assert list(PROGRAMS) == list(TABLE)


def test_setup_has_installed_what_it_says() -> None:
    assert {name: here().missing[name] for name in ALWAYS if name in here().missing} == {}


def test_accepted(pipeline: Pipeline, language: str) -> None:
    done = judge(pipeline, language, PROGRAMS[language].right, PATIENT)
    result = done.result
    assert done.verdict is Verdict.AC, (result.reason, result.compile_log, result.tests)
    assert result.language_version == here().found[language] != ""
    assert [test.error for test in result.tests] == ["", ""], "a runtime that finds something amiss says so"


def test_compile_error(pipeline: Pipeline, language: str) -> None:
    done = judge(pipeline, language, PROGRAMS[language].broken, PATIENT)
    assert done.verdict is Verdict.CE, done.result
    assert PROGRAMS[language].says.lower() in done.result.compile_log.lower()
    assert done.result.tests == []


def test_run_time_error(pipeline: Pipeline, language: str) -> None:
    done = judge(pipeline, language, PROGRAMS[language].crash, PATIENT)
    assert done.verdict is Verdict.RTE, (done.result.reason, done.result.compile_log)
    assert done.result.compile is not None


def test_time_limit_exceeded(pipeline: Pipeline, language: str) -> None:
    done = judge(pipeline, language, PROGRAMS[language].loop, LOOP)
    assert done.verdict is Verdict.TLE, (done.result.reason, done.result.compile_log)
    assert "CPU time limit exceeded" in done.result.reason
    assert done.result.cpu >= LOOP.cpu * TABLE[language].cpu_multiplier


def test_memory_limit_exceeded(pipeline: Pipeline, language: str) -> None:
    done = judge(pipeline, language, PROGRAMS[language].hungry, HUNGRY)
    assert done.verdict is Verdict.MLE, (done.result.reason, done.result.compile_log, done.result.tests)


# Locks succeed and hold nothing, watches are refused (docs/decisions/006): what lives with that, and what says so.
OWN_FILES = {
    "python3": """
import fcntl, multiprocessing, sqlite3
db = sqlite3.connect("/scratch/db")
with db: db.execute("create table t(x)"); db.execute("insert into t values (1031)")
with open("/scratch/f", "w") as file: fcntl.flock(file, fcntl.LOCK_EX); fcntl.lockf(file, fcntl.LOCK_EX)
def add(turn, total):
    for _ in range(500):
        with turn: total.value += 1
if __name__ == "__main__":
    turn, total = multiprocessing.Lock(), multiprocessing.RawValue("i")
    them = [multiprocessing.Process(target=add, args=(turn, total)) for _ in range(4)]
    for one in them: one.start()
    for one in them: one.join()
    assert total.value == 2000
    print(db.execute("select x from t").fetchone()[0])
""",
    "php": '<?php $f = fopen("/scratch/f", "w"); echo flock($f, LOCK_EX) && flock($f, LOCK_UN) ? 1031 : 0;',
    "perl": 'use Fcntl ":flock"; open(my $f, ">", "/scratch/f"); print flock($f, LOCK_EX) ? 1031 : 0;',
    "bash": "flock /scratch/f echo 1031",
    "javascript": """
try { require("fs").watch("/usr"); } catch (error) { console.log(error.code === "ENOSYS" ? 1031 : error.code); }
""",
    "java": """
import java.io.*; import java.nio.channels.*;
class A { public static void main(String[] a) throws Exception {
    try (var file = new RandomAccessFile("/scratch/f", "rw"); FileLock lock = file.getChannel().lock()) {
        System.out.println(lock.isValid() ? 1031 : 0); } } }
""",
}


@pytest.mark.parametrize("name", list(OWN_FILES))
def test_locks_of_ones_own_files(pipeline: Pipeline, name: str) -> None:
    if name in here().missing:
        pytest.skip(f"{TABLE[name].title} is not on this machine: {here().missing[name]}")
    done = judge(pipeline, name, OWN_FILES[name], PATIENT, [Test(name="1", answer="1031\n")])
    assert done.verdict is Verdict.AC, (done.result.reason, done.result.compile_log, done.result.tests)
