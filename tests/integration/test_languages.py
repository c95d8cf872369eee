"""Every language of the table that this machine has: each verdict, on the executor's pipeline in the real sandbox.

The programs are data (tests/languages). A language that is missing is skipped with the reason that survey() gives, and
so is a verdict that a row can never have (`never`). Limits are on CPU time, and generous in wall time: a busy machine
is slow, and changes no verdict.
"""

import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from judge.executor.slot.pipeline import Pipeline
from judge.languages.table import Survey, load_table, survey
from judge.model.messages import Completed, LimitsOverride, Submission, Test, Verdict
from tests.support import packages
from tests.support.packages import programs
from tests.support.sandbox import AS_ROOT, language_pool

pytestmark = AS_ROOT

TABLE = load_table()
MIB = 1024**2
# Languages that must be here wherever the tests run: `make setup-test` installs them (scripts/install-packages).
# fmt: off
ALWAYS = (
    "c", "c11", "c17", "c23", "cpp", "cpp11", "cpp14", "cpp17", "cpp20", "cpp23", "python3", "java", "go", "rust",
    "javascript", "csharp", "pascal", "haskell", "ruby", "php", "perl", "lua", "ocaml", "bash", "sh", "brainfuck",
    "gas",
)
# fmt: on
# With this every row must be here that the distribution has packages for (`make test-languages`).
ALL = os.environ.get("JUDGE_TEST_ALL_LANGUAGES") == "1"
PATIENT = LimitsOverride(cpu=30, wall=100, memory=256 * MIB)
LOOP = LimitsOverride(cpu=1.0, wall=100, memory=256 * MIB)
# A small heap is full before the virtual machines have used much time.
HUNGRY = LimitsOverride(cpu=30, wall=100, memory=64 * MIB)


@functools.cache
def surveyed() -> Survey:
    """The languages of this machine; a busy one may take long to say a version."""
    return survey(TABLE, timeout=60)


def release_of_this_machine() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    return next((line.partition("=")[2] for line in lines if line.startswith("VERSION_CODENAME=")), "")


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    outputs: Path = tmp_path_factory.mktemp("outputs")
    with language_pool("languages") as pool:
        yield Pipeline(take=pool.take, tell=lambda _: None, table=TABLE, outputs=outputs)


@pytest.fixture(params=list(TABLE))
def language(request: pytest.FixtureRequest) -> str:
    need(request.param)
    return str(request.param)


def need(language: str) -> None:
    if language in surveyed().missing:
        pytest.skip(f"{TABLE[language].title} is not on this machine: {surveyed().missing[language]}")


def judge(
    pipeline: Pipeline, language: str, source: str, limits: LimitsOverride, tests: Sequence[Test] = ()
) -> Completed:
    need(language)
    submission = Submission(language=language, source=source, tests=list(tests), limits=limits)
    return packages.judged(pipeline, packages.assigned(submission, language_version=surveyed().found[language]))


def judge_program(pipeline: Pipeline, language: str, kind: str, limits: LimitsOverride) -> Completed:
    examples = programs(TABLE[language])
    tests = [Test(name=str(n), input=stdin, answer=answer) for n, (stdin, answer) in enumerate(examples.tests)]
    return judge(pipeline, language, examples.sources[kind], limits, tests)


@pytest.mark.parametrize("name", list(TABLE))
def test_every_row_has_programs_or_says_why_not(name: str) -> None:
    row = TABLE[name]
    kinds = {"right": None, "broken": Verdict.CE, "crash": Verdict.RTE, "loop": Verdict.TLE, "hungry": Verdict.MLE}
    absent = {verdict for kind, verdict in kinds.items() if kind not in programs(row).sources}
    assert absent == set(row.never)
    assert all(len(reason) > 20 for reason in row.never.values())


def can(language: str, verdict: Verdict) -> None:
    """Skip a verdict that programs in this language cannot get."""
    if verdict in TABLE[language].never:
        pytest.skip(f"{TABLE[language].title} has no {verdict}: {TABLE[language].never[verdict]}")


def test_setup_has_installed_its_languages() -> None:
    release = release_of_this_machine()
    expected = [name for name in TABLE if release in TABLE[name].releases] if ALL else ALWAYS
    assert {name: surveyed().missing[name] for name in expected if name in surveyed().missing} == {}


def test_accepted(pipeline: Pipeline, language: str) -> None:
    judged = judge_program(pipeline, language, "right", PATIENT)
    result = judged.result
    assert judged.verdict is Verdict.AC, (result.reason, result.compile_log, result.tests)
    assert result.language_version == surveyed().found[language] != ""
    assert [test.error for test in result.tests if test.error] == [], "a runtime that finds something amiss says so"


def test_compile_error(pipeline: Pipeline, language: str) -> None:
    can(language, Verdict.CE)
    judged = judge_program(pipeline, language, "broken", PATIENT)
    assert judged.verdict is Verdict.CE, judged.result
    assert programs(TABLE[language]).says.lower() in judged.result.compile_log.lower()
    assert judged.result.tests == []


def test_run_time_error(pipeline: Pipeline, language: str) -> None:
    can(language, Verdict.RTE)
    judged = judge_program(pipeline, language, "crash", PATIENT)
    assert judged.verdict is Verdict.RTE, (judged.result.reason, judged.result.compile_log)
    assert (judged.result.compile is None) == (TABLE[language].compile is None)


def test_time_limit_exceeded(pipeline: Pipeline, language: str) -> None:
    can(language, Verdict.TLE)
    judged = judge_program(pipeline, language, "loop", LOOP)
    assert judged.verdict is Verdict.TLE, (judged.result.reason, judged.result.compile_log)
    assert "CPU time limit exceeded" in judged.result.reason
    assert judged.result.cpu >= LOOP.cpu * TABLE[language].cpu_multiplier


def test_memory_limit_exceeded(pipeline: Pipeline, language: str) -> None:
    can(language, Verdict.MLE)
    judged = judge_program(pipeline, language, "hungry", HUNGRY)
    assert judged.verdict is Verdict.MLE, (judged.result.reason, judged.result.compile_log, judged.result.tests)


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
    judged = judge(pipeline, name, OWN_FILES[name], PATIENT, [Test(name="1", answer="1031\n")])
    assert judged.verdict is Verdict.AC, (judged.result.reason, judged.result.compile_log, judged.result.tests)


# The standard that a program is told its row is for. GCC 12 and Clang 14 know C23 and C++23 in part only.
STANDARDS = {
    "c11": 201112, "c17": 201710, "c23": 202000, "cpp11": 201103, "cpp14": 201402, "cpp17": 201703, "cpp20": 202002,
    "cpp23": 202100,
}  # fmt: skip


@pytest.mark.parametrize("name", [*STANDARDS, *(f"{name}-clang" for name in STANDARDS)])
def test_standards(pipeline: Pipeline, name: str) -> None:
    row = name.removesuffix("-clang")
    version, exact = ("__cplusplus", "cpp2") if row.startswith("cpp") else ("__STDC_VERSION__", "c2")
    operator = ">=" if row.startswith(exact) else "=="
    brand = "defined(__clang__)" if name.endswith("-clang") else "!defined(__clang__)"
    text = f"""
#include <stdio.h>
#if !({version} {operator} {STANDARDS[row]}L && {brand})
#error another standard or compiler
#endif
int main() {{ printf("%d\\n", 1031); return 0; }}
"""
    judged = judge(pipeline, name, text, PATIENT, [Test(name="1", answer="1031\n")])
    assert judged.verdict is Verdict.AC, (judged.result.reason, judged.result.compile_log)


# Programs that say what a runtime says whose heap is full, and have used next to nothing.
PRETENDERS = {
    "csharp": "class A { static void Main() { throw new System.OutOfMemoryException(); } }",
    "java": 'class A { public static void main(String[] a) { throw new OutOfMemoryError("Java heap space"); } }',
    "python3": "raise MemoryError",
    "luajit": 'error("not enough memory")',
    "javascript": 'console.error("FATAL ERROR: JavaScript heap out of memory"); process.abort();',
    "lisp": '(error "Heap exhausted, game over.")',
    "erlang": "-module(a).\n-export([main/0]).\nmain() -> error(system_limit).",
    "r": 'stop("cannot allocate vector of size 1.0 Gb")',
    "octave": 'error("out of memory or dimension too large for Octave\'s index type")',
    "haskell": 'main = error "heap overflow"',
}  # fmt: skip


@pytest.mark.parametrize("name", list(PRETENDERS))
def test_words_alone_are_no_full_memory(pipeline: Pipeline, name: str) -> None:
    judged = judge(pipeline, name, PRETENDERS[name], PATIENT, [Test(name="1", answer="1031\n")])
    assert judged.verdict is Verdict.RTE, (judged.result.reason, judged.result.compile_log)


@pytest.mark.parametrize("code", [1, 3])
def test_an_exit_code_alone_is_no_full_heap(pipeline: Pipeline, code: int) -> None:
    program = f'System.err.println("OutOfMemoryError"); System.exit({code});'
    text = f"class A {{ public static void main(String[] a) {{ {program} }} }}"
    assert judge(pipeline, "java", text, PATIENT, [Test(name="1")]).verdict is Verdict.RTE


# The heap grows in other ways than by what is written to it: big arrays, doubled strings, lists that are copied.
MANAGED = {
    "csharp": [
        """class A { static void Main() { var x = new System.Collections.Generic.List<byte[]>();
        for (;;) x.Add(new byte[1 << 20]); } }""",
        'class A { static void Main() { string s = "x"; for (;;) s += s; } }',
        """class A { static void Main() { var x = new System.Collections.Generic.List<object>();
        for (;;) x.Add(new object[9]); } }""",
    ],
    "java": [
        "class A { public static void main(String[] a) { int[] x = new int[1 << 29]; } }",
        'class A { public static void main(String[] a) { String s = "x"; for (;;) s += s; } }',
    ],
    "javascript": ['let s = ["x"]; for (;;) s = s.concat(s);'],
    "erlang": ["-module(a).\n-export([main/0]).\nmain() -> f(<<0:8000000>>).\nf(B) -> f(<<B/binary, B/binary>>)."],
    "lisp": ["(let ((x (list 1))) (loop (setf x (append x x))))"],
    "r": ["x <- 1; repeat x <- c(x, x)"],
    "octave": ["x = 1; while true, x = [x x]; end"],
    "haskell": ["main = print (length xs + sum xs) where xs = [1 ..] :: [Int]"],
}


@pytest.mark.parametrize(("name", "index"), [(name, n) for name, texts in MANAGED.items() for n in range(len(texts))])
def test_managed_heaps_are_counted(pipeline: Pipeline, name: str, index: int) -> None:
    judged = judge(pipeline, name, MANAGED[name][index], HUNGRY, [Test(name="1", answer="1031\n")])
    assert judged.verdict is Verdict.MLE, (judged.result.reason, judged.result.compile_log, judged.result.tests)
