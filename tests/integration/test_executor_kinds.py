"""What executors do with the rest of the package format, in the real sandbox: graders, static validators, several
validators, answers that are handed in, files of tests, checks of data, dialects."""

import pytest

from judge.executor.slot.validation import format_code
from judge.languages.table import load_table
from judge.model.messages import Status, Verdict
from judge.model.problem import LegacyGroup, ProblemType, StaticTest, TestGroup
from tests.support.packages import Problem, job_of_manifest, several, source
from tests.support.sandbox import FULL_SANDBOX

pytestmark = FULL_SANDBOX

TABLE = load_table()
CAT = "import sys\nsys.stdout.write(sys.stdin.read())\n"
ACCEPT = "import sys\nsys.exit(42)\n"


@pytest.fixture
def problem(work):
    return Problem(work / "blobs")


def judge(pipeline, data, submission):
    completed = pipeline.execute(job_of_manifest(data, submission)).completed
    assert completed is not None
    assert not completed.retry, completed.result.reason
    return completed


HALF = """
import sys
rows = [line.split() for line in sys.stdin]
good = sum(verdict == 'AC' for verdict, _ in rows)
print('AC' if 2 * good >= len(rows) else 'WA', sum(float(score) for _, score in rows) * int(sys.argv[1]))
"""


def graded(problem, grader, *, scoring=True):
    tests = [problem.test(f"secret/{group}/{index}", f"{group}{index}") for group in "ab" for index in (1, 2)]
    return problem.data(
        *tests,
        type=[ProblemType.SCORING if scoring else ProblemType.PASS_FAIL],
        validators=[problem.program("check", "import sys\nsys.exit(42 if sys.stdin.read() == 'ok' else 43)\n")],
        grader=problem.program("grade", grader),
        graders=[
            LegacyGroup(name="", custom=True, on_reject="continue", flags=["1"]),
            LegacyGroup(name="secret", custom=True, on_reject="continue", flags=["10"]),
            LegacyGroup(name="secret/a", custom=True, on_reject="continue", flags=["2"], accept_score=3),
            LegacyGroup(name="secret/b", on_reject="continue", accept_score=5),
        ],
    )


@pytest.mark.parametrize("mode", ["lazy", "full"])
def test_a_grader_judges_its_folders(pipeline, problem, mode):
    data = graded(problem, HALF)
    completed = judge(pipeline, data, source("print('ok', end='') if input() != 'a2' else 0", mode=mode))
    assert (completed.verdict, completed.result.score) == (Verdict.AC, 160)  # ((3 + 0) * 2 + 5 + 5) * 10
    assert {group.name: (group.verdict, group.score) for group in completed.result.groups} == {
        "secret/a": ("AC", 6), "secret/b": ("AC", 10), "secret": ("AC", 160),
    }  # fmt: skip
    failing = judge(pipeline, data, source("print('no')", mode=mode))
    assert (failing.verdict, failing.result.score, failing.result.failed_test) == (Verdict.WA, 0, "secret/a/1")


def test_a_grader_of_a_pass_fail_problem(pipeline, problem):
    completed = judge(
        pipeline, graded(problem, HALF, scoring=False), source("print('ok', end='') if input()[0] == 'a' else 0")
    )
    assert (completed.verdict, completed.result.score) == (Verdict.AC, None)


@pytest.mark.parametrize(
    ("grader", "words"),
    [
        ("print('AC')", "said 'AC'; it must print one verdict and one number"),
        ("print('OK 3')", "said 'OK 3'"),
        ("print('AC 1\\nAC 2')", "it must print one verdict"),
        ("print('AC nan')", "it must print one verdict"),
        ("print('JE 0')", "secret/a: the package's grader says JE"),
        ("import sys; sys.stderr.write('why'); sys.exit(3)", "ended with exit code 3: why"),
        ("while True: pass", "time limit exceeded"),
        ("print('x' * 10**6)", "it must print one verdict"),
        ("print('AC 1'", "the package's grader does not compile"),
    ],
)
def test_a_faulty_grader_is_the_judges_error(pipeline, problem, grader, words):
    completed = judge(pipeline, graded(problem, grader), source("print('ok', end='')"))
    assert (completed.verdict, completed.status) == (Verdict.JE, Status.INTERNAL_ERROR)
    assert words in completed.result.reason


def test_a_grader_sees_verdicts_and_nothing_else(pipeline, problem):
    looking = (
        "import os, sys\nseen = sorted(os.listdir('/box')) + os.listdir('.')\n"
        "print('AC', 0 if seen in (['grade.py'], ['__pycache__', 'grade.py']) else 1)\n"
    )
    completed = judge(pipeline, graded(problem, looking), source("print('ok', end='')"))
    assert (completed.verdict, completed.result.score) == (Verdict.AC, 0)


WITHOUT_LOOPS = """
import os, sys
language, entry, feedback, *flags = sys.argv[1:]
open(feedback + 'judgemessage.txt', 'w').write(repr((language, entry, flags, sorted(os.listdir('.')))))
text = open(entry).read()
if 'scored' in flags and 'while' not in text: open(feedback + 'score.txt', 'w').write('2.5')
sys.exit(43 if 'while' in text else 42)
"""


def static(problem, validator, **fields):
    """A problem with a static validator and one test."""
    fields = {"static_tests": [StaticTest(group="secret")], **fields}
    program = problem.program("static", validator)
    return problem.data(problem.test("secret/1", "x", "x"), static_validator=program, **fields)


def test_a_static_validator_reads_the_source(pipeline, problem):
    data = static(problem, WITHOUT_LOOPS, static_tests=[StaticTest(group="secret", args=["-v"])])
    completed = judge(pipeline, data, {**source(CAT), "filename": "main.py"})
    assert (completed.verdict, [test.name for test in completed.result.tests]) == (
        Verdict.AC,
        ["secret/(static)", "secret/1"],
    )
    assert completed.result.tests[0].message == "('python3', 'main.py', ['-v'], ['main.py'])"
    refused = judge(pipeline, data, {**source("while True: break\n" + CAT), "filename": "main.py"})
    assert (refused.verdict, refused.result.failed_test) == (Verdict.WA, "secret/(static)")
    assert "the static validator rejected the submission" in refused.result.reason
    assert len(refused.result.tests) == 1, "nothing of it is run"


def test_a_static_validator_knows_what_is_started(pipeline, problem):
    data = static(problem, WITHOUT_LOOPS.replace("open(entry).read()", "''"))
    files = {"util.py": "x = 1\n", "main.py": "import util\n" + CAT}
    completed = judge(pipeline, data, several(files, language="python3"))
    assert completed.result.tests[0].message == "('python3', 'main.py', [], ['main.py', 'util.py'])"
    completed = judge(pipeline, data, several({**files, "other.py": CAT}, language="python3", entry="other.py"))
    assert completed.result.tests[0].message.startswith("('python3', 'other.py', []")
    assert (format_code("cpp17"), format_code("c11-clang"), format_code("clojure")) == ("cpp", "c", "clojure")


def test_scores_of_a_static_validator(pipeline, problem):
    data = problem.data(
        problem.test("secret/a/1", "x", "x"),
        problem.test("secret/b/1", "y", "y"),
        type=[ProblemType.SCORING],
        groups=[
            TestGroup(name="secret", max_score=20, aggregation="sum"),
            TestGroup(name="secret/a", max_score=10, aggregation="sum"),
            TestGroup(name="secret/b", max_score=10, aggregation="sum"),
        ],
        static_validator=problem.program("static", WITHOUT_LOOPS),
        static_tests=[
            StaticTest(group="secret/a", score=4, args=["scored"]), StaticTest(group="secret/b", score=3),
        ],
    )  # fmt: skip
    assert judge(pipeline, data, source(CAT)).result.score == 2.5 + 6 + 3 + 7
    assert judge(pipeline, data, source("while True: break\n" + CAT)).result.score == 6 + 7


@pytest.mark.parametrize(
    ("validator", "words"),
    [
        ("import sys; sys.exit(0)", "the static validator ended with exit code 0; it must be 42 or 43"),
        ("import sys; open(sys.argv[3] + 'nextpass.in', 'w'); sys.exit(42)", "asks for another pass"),
        ("while True: pass", "time limit exceeded"),
        ("import sys; open(sys.argv[3] + 'score.txt', 'w').write('x'); sys.exit(42)", "score.txt is not one number"),
    ],
)
def test_a_faulty_static_validator_is_the_judges_error(pipeline, problem, validator, words):
    completed = judge(pipeline, static(problem, validator), source(CAT))
    assert completed.verdict is Verdict.JE
    assert words in completed.result.reason


def test_a_static_validator_is_asked_only_of_what_compiles(pipeline, problem):
    data = static(problem, "print('x'")
    assert judge(pipeline, data, source("int main(void) {", "c")).verdict is Verdict.CE


def saying(name: str, code: str) -> str:
    return (
        "import sys\noutput = sys.stdin.read()\n"
        f"open(sys.argv[3] + 'judgemessage.txt', 'w').write('{name} of ' + output)\n"
        f"sys.exit({code})\n"
    )


@pytest.mark.parametrize(
    ("codes", "verdict", "message"),
    [
        (("42", "42", "42"), "AC", "one of x\ntwo of x\nthree of x"),
        (("42", "43", "42"), "WA", "one of x\ntwo of x"),
        (("43", "42", "1"), "WA", "one of x"),
        (("42", "1", "42"), "JE", "one of x\ntwo of x"),
    ],
)
def test_all_validators_must_accept(pipeline, problem, codes, verdict, message):
    programs = zip(("one", "two", "three"), codes, strict=True)
    data = problem.data(
        problem.test("secret/1", "x"), validators=[problem.program(name, saying(name, code)) for name, code in programs]
    )
    completed = judge(pipeline, data, source(CAT))
    assert (completed.verdict, completed.result.tests[0].message) == (verdict, message)
    if verdict == "JE":
        assert "the output validator 'two'" in completed.result.reason


def test_one_of_several_validators_scores(pipeline, problem):
    score = "import sys\nopen(sys.argv[3] + 'score.txt', 'w').write('7')\nsys.exit(42)\n"
    data = problem.data(
        problem.test("secret/1", "x"),
        type=[ProblemType.SCORING],
        graders=[LegacyGroup(name="")],
        validators=[problem.program("score", score), problem.program("shape", ACCEPT)],
    )
    assert judge(pipeline, data, source(CAT)).result.score == 7


def test_an_interactive_problem_has_one_validator(pipeline, problem):
    data = problem.data(
        problem.test("secret/1"),
        type=[ProblemType.INTERACTIVE],
        validators=[problem.program("one", ACCEPT), problem.program("two", ACCEPT)],
    )
    completed = judge(pipeline, data, source("pass"))
    assert completed.verdict is Verdict.JE
    assert "an interactive problem has one output validator; this one has 2" in completed.result.reason


def answers(problem, **fields):
    tests = [problem.test("sample/1", "1", "one"), problem.test("secret/1", "10", "ten")]
    tests.append(problem.test("secret/2", "20", "twenty"))
    return problem.data(*tests, type=[ProblemType.PASS_FAIL, ProblemType.SUBMIT_ANSWER], **fields)


@pytest.mark.parametrize(
    ("files", "verdict", "names"),
    [
        ({"1.out": "ten\n", "2.out": "twenty"}, "AC", ["secret/1", "secret/2"]),
        ({"1.ans": "ten", "2.ans": "TWENTY"}, "AC", ["secret/1", "secret/2"]),
        ({"1.out": "ten"}, "WA", ["secret/1", "secret/2"]),
        ({"1.out": "ten", "2.out": "20"}, "WA", ["secret/1", "secret/2"]),
        ({"sample/1.out": "one", "1.out": "ten", "2.out": "twenty"}, "AC", ["sample/1", "secret/1", "secret/2"]),
        ({"sample/1.out": "none", "1.out": "ten", "2.out": "twenty"}, "WA", ["sample/1"]),
    ],
)
def test_answers_are_judged_by_their_files_names(pipeline, problem, files, verdict, names):
    completed = judge(pipeline, answers(problem), several(files))
    assert (completed.verdict, [test.name for test in completed.result.tests]) == (verdict, names)
    if len(files) == 1:
        assert completed.result.reason == "test secret/2: nothing was handed in for this test"


def test_one_file_is_the_answer_to_the_one_secret_test(pipeline, problem):
    data = problem.data(problem.test("secret/1", "10", "ten"), type=[ProblemType.PASS_FAIL, ProblemType.SUBMIT_ANSWER])
    completed = judge(pipeline, data, {"source": "ten"})
    assert (completed.verdict, completed.result.tests[0].output) == (Verdict.AC, "ten")
    assert judge(pipeline, data, {"source": "eleven", "language": "python3"}).verdict is Verdict.WA


def test_submitted_answers_are_not_run(pipeline, problem):
    data = problem.data(problem.test("secret/1", "10", "ten"), type=[ProblemType.SUBMIT_ANSWER])
    completed = judge(pipeline, data, {"source": "#!/bin/sh\necho ten\n", "language": "python3", "filename": "1.out"})
    assert completed.verdict is Verdict.WA
    assert completed.result.compile is None
    assert completed.result.tests[0].output_bytes == 19


def test_a_validator_scores_answers(pipeline, problem):
    validator = (
        "import sys\ngiven = int(open(sys.argv[1]).read())\ndata = sys.stdin.buffer.read()\n"
        "if data[:1] != b'\\xff': sys.exit(43)\n"
        "open(sys.argv[3] + 'score.txt', 'w').write(str(min(len(data), given)))\nsys.exit(42)\n"
    )
    data = problem.data(
        problem.test("secret/1", "10"),
        problem.test("secret/2", "20"),
        type=[ProblemType.SCORING, ProblemType.SUBMIT_ANSWER],
        groups=[TestGroup(name="secret", max_score=None, aggregation="sum")],
        validators=[problem.program("check", validator)],
    )
    completed = judge(pipeline, data, several({"1.out": b"\xff" * 50, "2.out": b"\xff" * 15}))
    assert (completed.verdict, completed.result.score) == (Verdict.AC, 25)
    part = judge(pipeline, data, several({"2.out": b"\xff" * 15}))
    assert (part.verdict, part.result.score) == (Verdict.WA, 15)


LOOK = "import os\nprint({name: open(name).read() for name in sorted(os.listdir('.')) if os.path.isfile(name)})\n"


def test_a_tests_files_lie_in_the_working_directory(pipeline, problem):
    data = problem.data(
        problem.test("secret/1", "", "{'a.txt': 'A', 'b.txt': 'B'}", files={"a.txt": "A", "b.txt": "B"}),
        problem.test("secret/2", "", "{'a.txt': 'C'}", files={"a.txt": "C"}),
        problem.test("secret/3", "", "{}"),
        problem.test("secret/4", "", "{}", files={"d/deep.txt": "D"}),
    )
    completed = judge(pipeline, data, source(LOOK))
    assert completed.verdict is Verdict.AC, completed.result
    read = source("print(open('d/deep.txt').read() if __import__('os').path.isdir('d') else '')", mode="full")
    assert judge(pipeline, data, read).result.tests[3].output == "D\n"


def test_a_program_sees_the_files_of_its_own_test_only(pipeline, problem):
    walk = (
        "import os\nprint(sorted(open(os.path.join(d, f)).read() for top in ('/box', '/scratch', '/tmp') "
        "for d, _, fs in os.walk(top) for f in fs if f.endswith('.txt')))\n"
        "open('a.txt', 'w').write('changed')\nopen('/tmp/made.txt', 'w').write('x')\n"
    )
    data = problem.data(
        problem.test("secret/1", "", "['A']", files={"a.txt": "A"}),
        problem.test("secret/2", "", "['B']", files={"a.txt": "B"}),
        problem.test("secret/3", "", "[]"),
    )
    completed = judge(pipeline, data, source(walk))
    assert completed.verdict is Verdict.AC, completed.result
    compiled = 'int main(void) { FILE *f = fopen("a.txt", "r"); if (f) putchar(getc(f)); return 0; }'
    again = judge(pipeline, data, source("#include <stdio.h>\n" + compiled, "c", "full"))
    assert [test.output for test in again.result.tests] == ["A", "B", ""]


def test_files_of_a_test_beside_an_interaction(pipeline, problem):
    validator = "import sys\nprint('which', flush=True)\nsys.exit(42 if input() == open(sys.argv[2]).read() else 43)\n"
    data = problem.data(
        problem.test("secret/1", "", "A", files={"a.txt": "A"}),
        problem.test("secret/2", "", "B", files={"a.txt": "B"}),
        type=[ProblemType.INTERACTIVE],
        validators=[problem.program("talk", validator)],
    )
    assert judge(pipeline, data, source("input()\nprint(open('a.txt').read())")).verdict is Verdict.AC


def test_files_of_a_test_stay_through_its_passes(pipeline, problem):
    validator = (
        "import os, sys\nsecond = os.path.exists(sys.argv[3] + 'n')\nopen(sys.argv[3] + 'n', 'w')\n"
        "if not second: open(sys.argv[3] + 'nextpass.in', 'w').write('again')\n"
        "sys.exit(42 if input() == 'A' else 43)\n"
    )
    data = problem.data(
        problem.test("secret/1", files={"a.txt": "A"}),
        type=[ProblemType.MULTI_PASS],
        passes=2,
        validators=[problem.program("twice", validator)],
    )
    completed = judge(pipeline, data, source("print(open('a.txt').read())"))
    assert (completed.verdict, completed.result.tests[0].passes) == (Verdict.AC, 2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "first first"),
        ({"format": "legacy", "dialect": "kattis"}, "first first"),
        ({"format": "legacy", "dialect": "domjudge"}, "first second"),
        ({"format": "2023-07-draft"}, "first second"),
        ({"format": "2025-09"}, "first second"),
    ],
)
@pytest.mark.parametrize("interactive", [False, True])
def test_what_a_validator_reads_in_a_later_pass(pipeline, problem, fields, message, interactive):
    validator = (
        "import os, sys\nd = sys.argv[3]\nagain = os.path.exists(d + 'judgemessage.txt')\n"
        "open(d + 'judgemessage.txt', 'a').write(open(sys.argv[1]).read() + ' ')\n"
        "assert open(sys.argv[2]).read() == 'answer'\n"
        "if not again: open(d + 'nextpass.in', 'w').write('second')\n"
        "sys.stdin.read()\nsys.exit(42)\n"
    )
    types = [ProblemType.PASS_FAIL, *([ProblemType.INTERACTIVE] if interactive else []), ProblemType.MULTI_PASS]
    data = problem.data(
        problem.test("secret/1", "first", "answer"),
        type=types,
        passes=2,
        validators=[problem.program("pass", validator)],
        **fields,
    )
    completed = judge(pipeline, data, source("print(1)"))
    assert (completed.verdict, completed.result.tests[0].message) == (Verdict.AC, message)


DIGITS = (
    "import os, sys\ntext = sys.stdin.read()\nprint(sys.argv[1:], sorted(os.listdir('.')))\n"
    "sys.stderr.write('not digits: ' + text)\nsys.exit(42 if text.isdigit() else 43)\n"
)


def check(pipeline, data, what):
    return judge(pipeline, data, {"check": what, "problem": "p"})


def test_a_check_of_inputs(pipeline, problem):
    data = problem.data(
        problem.test("sample/1", "12", input_flags=["-m", "5"]),
        problem.test("secret/1", "ab", input_flags={"digits": ["-d"], "other": ["-o"]}, files={"f.txt": "F"}),
        problem.test("secret/2", "34"),
        input_validators=[
            problem.program("digits", DIGITS),
            problem.program("twice", "int main(void) { return 42; }", "twice.c"),
            problem.program("grammar", "INT", "grammar.ctd"),
        ],
    )
    completed = check(pipeline, data, "inputs")
    assert [(test.name, test.verdict) for test in completed.result.tests] == [
        ("sample/1", "AC"), ("secret/1", "WA"), ("secret/2", "AC"),
    ]  # fmt: skip
    bad = completed.result.tests[1]
    assert bad.message == "not digits: ab\n['-d'] ['f.txt']"
    assert bad.reason == "the input validator 'digits' does not accept: ended with exit code 43"
    assert (completed.verdict, completed.result.failed_test) == (Verdict.WA, "secret/1")


def test_a_check_of_good_inputs_says_what_was_not_run(pipeline, problem):
    data = problem.data(
        problem.test("secret/1", "12"),
        input_validators=[problem.program("digits", DIGITS), problem.program("v", "", "v.viva")],
    )
    completed = check(pipeline, data, "inputs")
    assert (completed.verdict, completed.result.reason) == (
        Verdict.AC,
        "not run here, since they are no programs: v.viva",
    )


@pytest.mark.parametrize(
    ("validator", "verdict", "words"),
    [
        ("import sys; sys.exit(0)", "WA", "does not accept: ended with exit code 0"),
        ("while True: pass", "WA", "time limit exceeded"),
        ("import os; os.abort()", "WA", "SIGABRT"),
    ],
)
def test_an_input_validator_accepts_with_42_only(pipeline, problem, validator, verdict, words):
    data = problem.data(problem.test("secret/1", "12"), input_validators=[problem.program("v", validator)])
    completed = check(pipeline, data, "inputs")
    assert completed.verdict == verdict
    assert words in completed.result.tests[0].reason


def test_an_input_validator_that_does_not_compile(pipeline, problem):
    data = problem.data(problem.test("secret/1", "12"), input_validators=[problem.program("v", "int main(", "v.c")])
    completed = check(pipeline, data, "inputs")
    assert completed.verdict is Verdict.JE
    assert "the input validator 'v' does not compile" in completed.result.reason


def test_a_check_of_answers(pipeline, problem):
    data = problem.data(
        problem.test("secret/1", "1", "ok"),
        problem.test("secret/2", "2", "bad"),
        problem.test("secret/3", "3", "odd"),
        validators=[problem.program("check", saying("check", "43 if output == 'bad' else 42"))],
        answer_validators=[
            problem.program("shape", "import sys\nsys.exit(43 if open(sys.argv[1]).read() == '3' else 42)\n")
        ],
    )
    completed = check(pipeline, data, "answers")
    assert [(test.verdict, test.message) for test in completed.result.tests] == [
        ("AC", ""), ("WA", "check of bad"), ("WA", ""),
    ]  # fmt: skip
    assert [test.reason for test in completed.result.tests[1:]] == [
        "the output validator does not accept the answer",
        "the answer validator 'shape' does not accept: ended with exit code 43",
    ]


def test_answers_that_the_default_validator_accepts(pipeline, problem):
    data = problem.data(problem.test("secret/1", "1", "ok"), validator_flags=["float_tolerance", "1e-6"])
    assert check(pipeline, data, "answers").verdict is Verdict.AC


@pytest.mark.parametrize("kind", [ProblemType.INTERACTIVE, ProblemType.MULTI_PASS])
def test_answers_of_conversations_say_nothing(pipeline, problem, kind):
    data = problem.data(
        problem.test("secret/1"), type=[kind], validators=[problem.program("v", "import sys; sys.exit(43)")]
    )
    completed = check(pipeline, data, "answers")
    assert (completed.verdict, completed.result.reason) == (
        Verdict.AC,
        "the package has no answer validator that can be asked",
    )
