"""The pipeline in the real sandbox: every verdict, and the plain command; test_languages.py has every language."""

import base64
import hashlib
import socket

import pytest

from judge.executor.channel import Data
from judge.executor.slot import truncation
from judge.executor.slot.cases import cases
from judge.executor.slot.pipeline import Pipeline
from judge.languages import handed
from judge.languages.table import load_table
from judge.model.messages import Limits, LimitsOverride, Status, Test, Verdict
from judge.model.problem import ProblemManifest, ProblemTest
from tests.support.packages import own as job
from tests.support.sandbox import FULL_SANDBOX, MIB

pytestmark = FULL_SANDBOX

TABLE = load_table()
SUM = [Test(name=str(n), input=f"{n} {n + 1}\n", answer=f"{2 * n + 1}\n") for n in range(1, 4)]
C_SUM = '#include <stdio.h>\nint main(void){long a,b;if(scanf("%ld%ld",&a,&b)!=2)return 1;printf("%ld\\n",a+b);}'


@pytest.fixture
def progress():
    return []


@pytest.fixture
def pipeline(pool, progress, work):
    return Pipeline(take=pool.take, tell=progress.append, table=TABLE, outputs=work)


def judge(pipeline, **submission):
    finished = pipeline.execute(job(**submission))
    assert finished.completed is not None
    assert not finished.completed.retry, finished.completed.result.reason
    return finished.completed


LIMITS = LimitsOverride(cpu=0.3, wall=6.0, memory=64 * MIB, output=100_000)


@pytest.mark.parametrize(
    ("language", "source", "verdict", "words"),
    [
        ("c", C_SUM, "AC", ""),
        ("c", C_SUM.replace("a+b", "a+b+(a==2)"), "WA", "test 2: "),
        ("c", "int main(void){for(;;);}", "TLE", "CPU time limit exceeded"),
        ("c", "#include <unistd.h>\nint main(void){pause();}", "TLE", "wall time limit exceeded"),
        (
            "c",
            "#include <stdlib.h>\n#include <string.h>\nint main(void){for(;;)memset(malloc(1<<20),1,1<<20);}",
            "MLE",
            "memory limit exceeded",
        ),
        ("c", '#include <stdio.h>\nint main(void){for(;;)puts("0123456789");}', "OLE", "output limit exceeded"),
        ("c", "int main(void){return 7;}", "RTE", "exit code 7"),
        ("c", "#include <stdlib.h>\nint main(void){abort();}", "RTE", "SIGABRT"),
        ("c", "int main(void){return *(volatile int*)0;}", "RTE", "SIGSEGV"),
        ("c", "int main(void){return undefined;}", "CE", "compilation failed: ended with exit code 1"),
        (
            "c",
            '#include <sys/mount.h>\nint main(void){mount("a","/b","c",0,0);return 0;}',
            "SV",
            "forbidden system call",
        ),
        ("python3", "while True: print('x' * 1000)\n", "OLE", "output limit exceeded"),
    ],
)  # fmt: skip
def test_verdicts(pipeline, language, source, verdict, words):
    own_name = f"own.{language[:1]}"
    completed = judge(pipeline, language=language, source=source, tests=SUM, limits=LIMITS, filename=own_name)
    result = completed.result
    assert completed.verdict == verdict, result.model_dump()
    assert words in result.reason
    assert completed.status is {"AC": Status.SUCCESS, "CE": Status.COMPILE_FAILED}.get(verdict, Status.RUN_FAILED)
    assert result.language_version == "v1"
    assert result.compile is not None
    if verdict == "CE":
        assert result.compile_log.startswith(f"{own_name}:") or language != "c"
        assert not result.tests
        return
    assert result.tests[-1].verdict == verdict, "judging stops at the first failure"
    assert all(test.verdict is Verdict.AC for test in result.tests[:-1])
    assert len(result.tests) == (3 if verdict == "AC" else 2 if verdict == "WA" else 1)
    assert result.failed_test == (None if verdict == "AC" else result.tests[-1].name)
    assert result.cpu == max(test.cpu for test in result.tests)
    assert result.memory == max(test.memory for test in result.tests) > 0


def test_per_test_facts(pipeline):
    source = "import sys\nprint('out', file=sys.stdout)\nprint('err', file=sys.stderr)\n"
    completed = judge(pipeline, language="python3", source=source, tests=[Test(name="t", answer="out\n")])
    (test,) = completed.result.tests
    assert (test.name, test.output, test.error, test.exit_code) == ("t", "out\n", "err\n", 0)
    assert test.output_sha256 == hashlib.sha256(b"out\n").hexdigest()
    assert test.output_bytes == 4
    assert completed.result.stdout is None, "the whole output is for tasks without answers"


def test_the_validator_forgives_blanks_and_speaks(pipeline):
    tests = [Test(name="1", answer="a  b\n")]
    assert judge(pipeline, language="python3", source="print('A b   ')", tests=tests).verdict is Verdict.AC
    completed = judge(pipeline, language="python3", source="print('a c')", tests=tests)
    assert completed.verdict is Verdict.WA
    assert "c" in completed.result.tests[0].message


def test_tests_run_in_name_order(pipeline):
    tests = [Test(name=name, answer="x" if name == "b" else "no") for name in "cba"]
    completed = judge(pipeline, language="python3", source="print('x')", tests=tests)
    assert completed.result.failed_test == "a"
    assert [test.name for test in completed.result.tests] == ["a"]


def test_plain_command(pipeline, progress):
    completed = judge(pipeline, compile="tr a-z A-Z <in.txt >out.txt", command="cat out.txt -", filename="in.txt",
                 source="hello ", stdin="world")  # fmt: skip
    assert completed.status is Status.SUCCESS
    assert completed.verdict is Verdict.AC
    assert completed.result.stdout == "HELLO world"
    assert [test.name for test in completed.result.tests] == ["run"]
    assert [(report.status, report.progress) for report in progress] == [(Status.RUNNING, "0/1")]


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"command": "exit 3"}, "RTE"),
        ({"command": "true", "compile": "exit 1"}, "CE"),
        ({"command": "no-such-program"}, "RTE"),
        ({"command": "echo x > /box/new"}, "RTE"),
        ({"command": "cat", "stdin": "x", "tests": []}, "AC"),
    ],
)
def test_plain_command_failures(pipeline, fields, verdict):
    assert judge(pipeline, **fields).verdict == verdict


def test_compile_limits(pipeline, monkeypatch):
    monkeypatch.setattr("judge.executor.slot.builds.COMPILE_LIMITS", Limits(cpu=0.3, wall=2.0, memory=64 * MIB))
    completed = judge(pipeline, command="true", compile="sleep 60")
    assert completed.verdict is Verdict.CE
    assert "wall time limit exceeded" in completed.result.reason


def test_a_flood_of_compiler_output_is_cut(pipeline):
    completed = judge(pipeline, language="c", source="\n".join(f"#warning {'x' * 100}" for _ in range(3000)), tests=SUM)
    assert completed.verdict is Verdict.CE
    assert len(completed.result.compile_log) <= truncation.LOG + 100
    assert completed.result.compile_log.endswith("characters\n")


def test_big_and_binary_outputs_go_into_a_file(pipeline, work):
    for command, expected in (("head -c 100000 /dev/zero", b"\0" * 100000), ("printf '\\377'", b"\xff")):
        finished = pipeline.execute(job(command=command))
        assert finished.completed.verdict is Verdict.AC
        assert finished.completed.result.stdout is None
        assert finished.output == str(work / "c1.out")
        assert (work / "c1.out").read_bytes() == expected


def test_files_of_the_last_run_are_kept_on_request(pipeline):
    source = "import os\nn = input()\nos.mkdir('d')\nopen('d/' + n, 'w').write(n)\nos.symlink('/etc/passwd', 'l')"
    tests = [Test(name=n, input=n) for n in ("1", "2")]
    for options, expected in (({"outputs": True}, {"d/2": b"2"}), ({}, None)):
        result = judge(pipeline, language="python3", source=source, tests=tests, options=options).result
        files = result.left and handed.unpack(base64.b64decode(result.left), handed.LEFT_BYTES)
        assert (files, result.reason) == (expected, "")
    noise = "for n in range(3): open(str(n), 'wb').write(__import__('os').urandom(100_000))\nexit(1)"
    completed = judge(pipeline, language="python3", source=noise, options={"outputs": True})
    assert completed.verdict is Verdict.RTE
    ended = "test run: ended with exit code 1; 1 of the files that the run left are not kept"
    assert completed.result.reason.startswith(ended)


def test_many_noisy_tests_stay_small(pipeline):
    tests = [Test(name=f"{n:04d}", input="x" * 10) for n in range(400)]
    source = "int main(void){static char b[4000];write(1,b,4000);write(2,b,4000);return 0;}"
    finished = pipeline.execute(job(language="c", source="#include <unistd.h>\n" + source, tests=tests))
    completed = finished.completed
    assert completed.verdict is Verdict.AC
    assert len(completed.result.tests) == 400
    # At 1000 tests the fixed part of a test is 400 bytes; excerpts have their own budget.
    assert len(completed.model_dump_json()) < truncation.BUDGET + 400 * 400 + 100_000
    assert completed.result.tests[0].output
    assert not completed.result.tests[-1].output


def problem(work, answers, flags=(), sample=False):
    files = {}

    def blob(data: bytes) -> str:
        sha = hashlib.sha256(data).hexdigest()
        (work / sha).write_bytes(data)
        files[sha] = str(work / sha)
        return sha

    tests = [
        ProblemTest(name=name, input=blob(text.encode()), answer=blob(answer.encode()), sample=sample)
        for name, (text, answer) in answers.items()
    ]
    manifest = ProblemManifest(name="p", tests=tests, validator_flags=list(flags), limits=Limits(cpu=1))
    return Data(manifest=manifest, files=files)


def judge_problem(pipeline, data):
    task = job(language="c", source=C_SUM)
    task.data = data
    return pipeline.execute(task).completed


def test_problems(pipeline, work):
    completed = judge_problem(
        pipeline, problem(work, {"sample/1": ("1 2", "3"), "secret/01": ("5 5", "10.0")}, ["float_tolerance", "1e-6"])
    )
    assert completed.verdict is Verdict.AC
    assert [test.name for test in completed.result.tests] == ["sample/1", "secret/01"]


def test_secret_answers_stay_secret_and_so_does_what_a_program_prints_of_its_input(pipeline, work):
    completed = judge_problem(pipeline, problem(work, {"secret/01": ("5 5", "4711")}))
    assert completed.verdict is Verdict.WA
    assert "4711" not in completed.model_dump_json()
    assert (completed.result.tests[0].reason, completed.result.reason) == (
        "wrong answer",
        "test secret/01: wrong answer",
    )
    assert "'10'" in completed.result.tests[0].message, "for judges"
    data = problem(work, {"sample/1": ("5 5", "4711")}, sample=True)
    assert "'10' is wrong, expected '4711'" in judge_problem(pipeline, data).result.tests[0].reason


def test_a_broken_validator_is_the_judges_error(pipeline, work):
    completed = judge_problem(pipeline, problem(work, {"1": ("5 5", "11")}, ["no_such_flag"]))
    assert (completed.verdict, completed.status) == (Verdict.JE, Status.INTERNAL_ERROR)
    assert "validator" in completed.result.reason


def test_blob_tests(pipeline, work):
    data = problem(work, {"1": ("5 5", "10")})
    shas = data.manifest.tests[0]
    task = job(language="c", source=C_SUM, tests=[Test(name="1", input_blob=shas.input, answer_blob=shas.answer)])
    task.blobs = data.files
    assert pipeline.execute(task).completed.verdict is Verdict.AC


def test_a_test_without_input_reads_nothing():
    (case,) = cases(job(command="cat", tests=[Test(name="1")]))
    assert (case.input, case.answer) == (b"", None)


def test_an_unknown_language_is_given_back(pipeline):
    completed = pipeline.execute(job(language="klingon", source="x")).completed
    assert completed.retry
    assert "'klingon' is not in this executor's table" in completed.result.reason


def test_no_room_for_the_output_is_given_back(pool, progress, work):
    full = Pipeline(take=pool.take, tell=progress.append, table=TABLE, outputs=work / "missing")
    completed = full.execute(job(command="head -c 100000 /dev/zero"))
    assert completed.completed.retry
    assert "No such file" in completed.completed.result.reason
    assert not completed.no_space


def test_cancel_before_and_between(pool, progress, work):
    near, theirs = socket.socketpair()
    with near, theirs:
        pipeline = Pipeline(take=pool.take, tell=progress.append, table=TABLE, outputs=work, cancel_fd=theirs.fileno())
        assert pipeline.execute(job(command="true")).completed.verdict is Verdict.AC
        near.send(b"x")
        finished = pipeline.execute(job(command="sleep 60", limits={"wall": 90}))
        assert finished.completed is None
        assert finished.seconds < 5


def test_an_error_of_the_slots_own_program_ends_one_attempt_and_no_slot(pipeline, monkeypatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("judge.executor.slot.pipeline.Judging._judge_program", fail)
    finished = pipeline.execute(job(language="c", source=C_SUM, tests=SUM))
    assert finished.broken and finished.completed is not None and finished.completed.retry
    assert finished.completed.result.reason == "the executor failed: ZeroDivisionError"
