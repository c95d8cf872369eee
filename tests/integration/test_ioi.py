"""IOI tasks in the real sandbox: who decides when a manager or a process goes wrong, and tasks of other systems."""

import pytest

from judge.executor.slot import builds
from judge.executor.slot.pipeline import Pipeline
from judge.languages.table import load_table
from judge.model.messages import Verdict
from tests.support import packages
from tests.support.sandbox import AS_ROOT, language_pool

pytestmark = AS_ROOT
TABLE = load_table()
YAML = "problem_format_version: 2025-09\nname: X\nuuid: 1\ntype: scoring\nlimits: {time_limit: 0.5, memory: 64}\n"
TESTS = {"data/secret/1.in": "5\n", "data/secret/1.ans": "", "data/secret/test_group.yaml": "score_aggregation: min\n"}
MANAGER = """
import sys
from_first, to_first = sys.argv[1:3]
def end(outcome, said="well"):
    print(outcome)
    print(said, file=sys.stderr)
    sys.exit(0)
"""
OPEN = 'out = open(to_first, "wb", buffering=0)\nheard = open(from_first, "rb")\n'


@pytest.fixture(scope="module")
def pool():
    with language_pool("ioi") as pool:
        yield pool


@pytest.fixture
def pipeline(pool, work):
    return Pipeline(take=pool.take, tell=lambda _: None, table=TABLE, outputs=work)


def communication(work, manager: str, settings: str = "io: std\n", yaml: str = YAML):
    files = {
        "problem.yaml": yaml,
        "judge.yaml": f"kind: communication\n{settings}",
        "manager/manager.py": MANAGER + manager,
        **TESTS,
    }
    return packages.load(packages.write(work / "package", files), work / "blobs")


def judge(pipeline, data, source, language="python3"):
    return packages.judged(pipeline, packages.job(data, language, source, "full"))


ABORT = "import os, sys; sys.stdin.read(); os.abort()"
ECHO = "print(input(), flush=True)\n"


@pytest.mark.parametrize(
    ("manager", "source", "verdict", "reason"),
    [
        ("raise SystemExit(1)", ECHO, "JE", "the manager failed: ended with exit code 1"),
        ("import os; os.abort()", ECHO, "JE", "the manager failed: ended by SIGABRT"),
        ("print('what?')", ECHO, "JE", "the first line that the manager prints is not its outcome"),
        ("print(-1)", ECHO, "JE", "the first line that the manager prints is not its outcome"),
        ("pass", ECHO, "JE", "the first line that the manager prints is not its outcome"),
        ("end(0, 'no')", ECHO, "WA", "no"),
        (OPEN + "out.write(b'5\\n'); assert heard.readline() == b'5\\n'; end(0, 'no')", ECHO, "WA", "no"),
        (OPEN + "assert heard.read() == b''; raise SystemExit(3)", "raise SystemExit(7)", "RTE", "exit code 7"),
        (OPEN + "heard.read(); end(0, 'silence')", "import os; os.abort()", "RTE", "SIGABRT"),
        (OPEN + "heard.read(); end(0, 'silence')", "pass", "WA", "silence"),
        (OPEN + "out.write(b'x' * 300000); heard.read(); end(0, 'silence')", "pass", "WA", "silence"),
        (OPEN + "heard.read(); end(1)", "import time; time.sleep(9)", "TLE", "wall time limit"),
        ("end(1)", "while True: pass", "TLE", "time limit exceeded"),
        ("end(0, 'no')", "while True: pass", "WA", "no"),
        (OPEN + "out.close(); heard.read(); end(0, 'no')", ABORT, "RTE", "SIGABRT"),
        (OPEN + "out.close(); heard.read(); raise SystemExit(3)", ABORT, "RTE", "SIGABRT"),
        (OPEN + "out.close(); heard.read(); raise SystemExit(3)", "input()", "RTE", "exit code 1"),
        (OPEN + "out.close(); heard.read(); end(0, 'no')", "input()", "WA", "no"),
        (OPEN + "heard.read(); end(1)", "x = bytearray(200 << 20)", "MLE", "memory limit"),
        (OPEN + "heard.read(); end(1)", "while True: print('x' * 1000)", "TLE", "time limit exceeded"),
    ],
)
def test_the_verdict_when_the_manager_or_the_program_fails(pipeline, work, manager, source, verdict, reason):
    judged = judge(pipeline, communication(work, manager), source)
    assert (judged.verdict, reason in judged.result.reason) == (verdict, True), judged.result.reason


def test_the_end_of_input_can_be_seen_while_the_manager_waits(pipeline, work):
    manager = OPEN + "out.write(b'1 2 3\\n'); out.close(); end(float(heard.read().split()[0] == b'6'))"
    judged = judge(pipeline, communication(work, manager), "import sys; print(sum(map(int, sys.stdin.read().split())))")
    assert judged.verdict is Verdict.AC, judged.result.reason


@pytest.mark.parametrize("order", ["out, heard", "heard, out"])
@pytest.mark.parametrize("way", ["std", "fifo"])
def test_pipes_may_be_opened_in_any_order(pipeline, work, order, way):
    opened = {"out": 'out = open(to_first, "w")\n', "heard": "heard = open(from_first)\n"}
    manager = "".join(opened[pipe] for pipe in order.split(", "))
    manager += "out.write('7\\n'); out.flush(); end(float(heard.readline() == '7\\n'))"
    source = ECHO if way == "std" else (
        "import sys\nsource = open(sys.argv[1])\nline = source.readline()\nopen(sys.argv[2], 'w').write(line)\n"
    )  # fmt: skip
    judged = judge(pipeline, communication(work, manager, f"io: {way}\n"), source)
    assert judged.verdict is Verdict.AC, judged.result.reason


# Writes to its first pipe, and reads from the second some time after the process has ended.
WRITES_FIRST = """
import time
down, up = open(sys.argv[1], "w"), open(sys.argv[2])
print("1 2", file=down, flush=True)
time.sleep(0.2)
end(float(up.READ().strip() == "3"))
"""
ADDS = "print(sum(map(int, heard.readline().split())), file=out, flush=True)"


@pytest.mark.parametrize(
    ("settings", "read", "opened"),
    [
        ("writes_first: true\n", "read", "heard, out = open(sys.argv[2]), open(sys.argv[1], 'w')"),
        ("writes_first: true\nio: std\n", "read", "heard, out = sys.stdin, sys.stdout"),
        # Nobody says so: it goes well all the same, unless somebody waits for the end of input.
        ("", "readline", "heard, out = open(sys.argv[2]), open(sys.argv[1], 'w')"),
    ],
    ids=["names", "streams", "not said"],
)
def test_a_manager_may_write_first(pipeline, work, settings, read, opened):
    """What a process says last is there after its end, whichever way it uses a pipe."""
    data = communication(work, WRITES_FIRST.replace("READ", read), settings)
    judged = judge(pipeline, data, f"import sys\n{opened}\n{ADDS}")
    assert judged.verdict is Verdict.AC, judged.result.reason


def test_a_program_too_big_for_several_processes_is_a_compile_error(pipeline, work, monkeypatch):
    """It would be so on every executor: the task must not go from one to the other."""
    monkeypatch.setattr(builds, "_LIMITS", builds._LIMITS.model_copy(update={"output": 1000}))
    data = communication(work, "end(1)", "io: std\nprocesses: 2\n")
    completed = judge(pipeline, data, "int main(void) { return 0; }\n", "c")
    assert completed.verdict is Verdict.CE
    assert completed.result.reason == "compilation failed: what was built is too big to be run as several processes"


def test_outcomes_are_parts_of_the_points(pipeline, work):
    group = "max_score: 40\nscore_aggregation: min\n"
    data = communication(work, "end(0.25, 'translate:partial')")
    judged = judge(pipeline, data, "pass")
    assert (judged.verdict, judged.result.tests[0].feedback) == ("AC", "Output is partially correct")
    files = {"problem.yaml": YAML, "judge.yaml": "kind: communication\n", "manager/m.py": MANAGER + "end(0.25)"}
    files |= TESTS | {"data/secret/test_group.yaml": group}
    second_data = packages.load(packages.write(work / "other", files), work / "blobs")
    assert judge(pipeline, second_data, "pass").result.score == 10


def test_without_scores_a_part_is_wrong(pipeline, work):
    plain = YAML.replace("type: scoring\n", "")
    files = {"problem.yaml": plain, "judge.yaml": "kind: communication\n", "manager/m.py": MANAGER + "end(0.9)"}
    files |= {"data/secret/1.in": "5\n", "data/secret/1.ans": ""}
    data = packages.load(packages.write(work / "plain", files), work / "blobs")
    assert judge(pipeline, data, "pass").verdict is Verdict.WA


def test_time_and_memory_are_those_of_all_processes(pipeline, work):
    source = "import time\nwhile time.process_time() < 0.15: pass\nx = bytearray(20 << 20)\n"
    judged = judge(pipeline, communication(work, "end(1)", "processes: 2\nio: std\n"), source)
    assert judged.verdict is Verdict.TLE or 0.28 < judged.result.tests[0].cpu < 0.45
    assert 20 << 20 < judged.result.tests[0].memory < 60 << 20


# --- tasks of other systems -------------------------------------------------------------------------------------------

TASK = {
    "task.yaml": 'name: half\ntitle: Half\ntime_limit: 1\nmemory_limit: 64\nn_input: 2\ninfile: ""\noutfile: ""\n',
    "input/input0.txt": "4\n",
    "input/input1.txt": "10\n",
    "output/output0.txt": "2\n",
    "output/output1.txt": "5\n",
}
CHECKER = """#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int input, right, given = -1;
    if (argc != 4) return 1;
    fscanf(fopen(argv[1], "r"), "%d", &input);
    fscanf(fopen(argv[2], "r"), "%d", &right);
    if (fscanf(fopen(argv[3], "r"), "%d", &given) != 1) return 2;
    if (given == right) { printf("1.0\\n"); fprintf(stderr, "translate:success\\n"); }
    else if (given == input) { printf("0.5\\n"); fprintf(stderr, "not halved\\n"); }
    else { printf("0.0\\n"); fprintf(stderr, "translate:wrong\\n"); }
}
"""


def load(work, files):
    return packages.load(packages.write(work / "half", files), work / "blobs")


@pytest.mark.parametrize(
    ("source", "verdict", "score", "message"),
    [
        ("print(int(input()) // 2)", "AC", 100, "Output is correct"),
        ("print(input())", "AC", 50, "not halved"),
        ("print(7)", "WA", 0, "Output isn't correct"),
        ("n = int(input()); print(2 if n == 4 else n)", "AC", 75, "Output is correct"),
    ],
)
def test_a_checker_of_cms(pipeline, work, source, verdict, score, message):
    judged = judge(pipeline, load(work, TASK | {"check/checker.c": CHECKER}), source)
    assert (judged.verdict, judged.result.score) == (verdict, score), judged.result.reason
    assert judged.result.tests[0].feedback == message


def test_a_checker_that_fails_is_the_judges_error(pipeline, work):
    judged = judge(pipeline, load(work, TASK | {"check/checker.c": CHECKER}), "print('x')")
    assert judged.verdict is Verdict.JE


@pytest.mark.parametrize(
    ("printed", "verdict", "score"),
    [("1", "AC", 100), ("1.000000", "AC", 100), ("0.30", "AC", 30), ("1e-1", "AC", 10), ("0", "WA", 0), ("-1", "WA", 0),
     ("", "JE", None), ("nan", "JE", None), ("0.5.5", "JE", None), ("yes", "JE", None)],
)  # fmt: skip
def test_outcomes_as_checkers_write_them(pipeline, work, printed, verdict, score):
    judged = judge(pipeline, load(work, TASK | {"check/checker.py": f"print({printed!r})\n"}), "print(1)")
    assert (judged.verdict, judged.result.score) == (verdict, score), judged.result.reason


def test_a_checker_without_its_source(pipeline, work):
    script = "#!/usr/bin/env python3\nimport sys\nprint(float(open(sys.argv[2]).read() == open(sys.argv[3]).read()))\n"
    data = load(work, TASK | {"check/checker": script})
    assert judge(pipeline, data, "print(int(input()) // 2)").verdict is Verdict.AC
    assert judge(pipeline, data, "print(0)").verdict is Verdict.WA


def test_words_are_compared_with_their_case(pipeline, work):
    data = load(work, TASK | {"output/output0.txt": "Two\n", "output/output1.txt": "Two\n"})
    assert judge(pipeline, data, "print('  Two ')").verdict is Verdict.AC
    assert judge(pipeline, data, "print('two')").verdict is Verdict.WA


def test_files_of_cms(pipeline, work):
    files = TASK | {"task.yaml": TASK["task.yaml"].replace('infile: ""', "infile: in.txt").replace('outfile: ""', "")}
    files |= {"sol/solution.c": 'int main() { freopen("in.txt"); freopen("output.txt"); }'}
    source = "open('output.txt', 'w').write(str(int(open('in.txt').read()) // 2))"
    assert judge(pipeline, load(work, files), source).verdict is Verdict.AC


def test_products_of_cms(pipeline, work):
    scores = "score_type: GroupMul\nscore_type_parameters: [[30, '000'], [70, '.*']]\n"
    files = TASK | {"task.yaml": TASK["task.yaml"] + scores, "check/checker.c": CHECKER}
    judged = judge(pipeline, load(work, files), "print(input())")
    assert judged.result.score == 30 * 0.5 + 70 * 0.25
    assert [group.score for group in judged.result.groups] == [15, 17.5]


@pytest.mark.parametrize(
    ("source", "groups"),
    [
        ("print(int(input()) // 2)", [30, 0]),
        ("print(4)", [0, 70]),
        ("print(0)", [0, 0]),
        ("print(-1)", [0, 0]),
        ("print(0.5)", [30, 70]),
    ],
)
def test_thresholds_of_cms(pipeline, work, source, groups):
    """The outcomes are what the program prints; 2 and 5 of the first."""
    scores = "score_type: GroupThreshold\nscore_type_parameters: [[30, '000', 2], [70, '.*', 4.5]]\n"
    checker = "import sys\nprint(open(sys.argv[3]).read())\n"
    files = TASK | {"task.yaml": TASK["task.yaml"] + scores, "check/checker.py": checker}
    judged = judge(pipeline, load(work, files), source)
    assert [group.score for group in judged.result.groups] == groups
    assert judged.result.score == sum(groups)


STUB = """#include <cstdio>
#include "half.h"
int main(int argc, char **argv) {
    FILE *in = fopen(argv[1], "r"), *out = fopen(argv[2], "w");
    int number;
    if (argc == 4 && fscanf(in, "%d", &number) == 1) fprintf(out, "%d\\n", half(number));
}
"""
TALKS = """#include <cstdio>
int main(int argc, char **argv) {
    int number, sum = 0;
    scanf("%d", &number);
    for (int i = 1; i < argc; i += 2) {
        int said = 0;
        FILE *out = fopen(argv[i + 1], "w"), *in = fopen(argv[i], "r");
        fprintf(out, "%d\\n", number), fflush(out);
        if (fscanf(in, "%d", &said) == 1) sum += said;
    }
    printf("%.1f\\n", sum == number ? 1.0 : 0.0);
    fprintf(stderr, "translate:%s\\n", sum == number ? "success" : "wrong");
}
"""


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("int half(int number) { return number / 2; }", "AC"),
        ("int half(int number) { return number; }", "WA"),
        ("int half(int) { __builtin_trap(); }", "RTE"),
        ("int half(int number) { for (volatile int i = 0;; i++) number += i; }", "TLE"),
    ],
)
def test_a_communication_task_of_cms_with_stubs(pipeline, work, source, verdict):
    files = TASK | {"task.yaml": TASK["task.yaml"] + "num_processes: 2\n", "check/manager.cpp": TALKS}
    files |= {"sol/stub.cpp": STUB, "sol/half.h": "int half(int number);\n"}
    judged = judge(pipeline, load(work, files), f'#include "half.h"\n{source}\n', "cpp")
    assert judged.verdict == verdict, judged.result.reason
    assert judged.result.score == (100 if verdict == "AC" else 0)


def test_an_export_of_tps_with_graders(pipeline, work):
    grader = '#include <cstdio>\n#include "half.h"\nint main() { int n; scanf("%d", &n); printf("%d\\n", half(n)); }\n'
    files = {
        "problem.json": '{"code": "half", "name": "Half", "time_limit": 1, "memory_limit": 67108864,'
        ' "task_type": "Batch", "task_type_params": "{}"}',
        "graders/grader.cpp": grader,
        "graders/half.h": "int half(int number);\n",
        "graders/grader.py": "import half\nprint(half.half(int(input())))\n",
        "subtasks/0-samples.json": '{"score": 0, "testcases": ["0-01"]}',
        "subtasks/1-small.json": '{"score": 30, "testcases": ["0-01", "1-01"]}',
        "subtasks/2-all.json": '{"score": 70, "testcases": ["0-01", "1-01", "2-01"]}',
    }
    for name, number in (("0-01", 4), ("1-01", 10), ("2-01", 10**6)):
        files |= {f"tests/{name}.in": f"{number}\n", f"tests/{name}.out": f"{number // 2}\n"}
    data = load(work, files)
    assert judge(pipeline, data, "def half(n):\n    return n // 2\n").result.score == 100
    judged = judge(pipeline, data, '#include "half.h"\nint half(int n) { return n < 1000 ? n / 2 : 0; }\n', "cpp")
    assert (judged.verdict, judged.result.score) == ("WA", 30)
    assert judge(pipeline, data, "import sys\nsys.exit(3)\n").result.score == 0
