"""Problem packages in the real sandbox: validators of their own, interaction, passes, scores; the example packages."""

from pathlib import Path

import pytest

from judge.executor.slot.pipeline import Pipeline
from judge.languages.table import load_table
from judge.model.messages import Status, Verdict
from judge.problems.expectations import candidates, check
from judge.problems.package import read_package
from judge.problems.scoring import judging_order
from tests.support import packages
from tests.support.sandbox import FULL_SANDBOX

pytestmark = FULL_SANDBOX

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/packages"
# Tests that are still to be made are made on a cluster: tests/integration/test_problem_verify.py has those.
READY = sorted(path.name for path in EXAMPLES.iterdir() if (path / "data/secret").is_dir())
TABLE = load_table()
YAML = "problem_format_version: 2025-09\nname: X\nlimits: {time_limit: 2, validation_time: 2, memory: 128}\n"
CAT = "import sys\nsys.stdout.write(sys.stdin.read())\n"


def package_data(work, validator: str, extra=None, yaml=YAML, name="check.py"):
    """A package with this validator and two secret tests."""
    files = {
        "problem.yaml": yaml,
        f"output_validator/{name}": validator,
        "data/secret/1.in": "one\n",
        "data/secret/1.ans": "eins\n",
        "data/secret/2.in": "two\n",
        "data/secret/2.ans": "zwei\n",
        **(extra or {}),
    }
    files = {name: text for name, text in files.items() if text is not None}
    return packages.load(packages.write(work / "package", files), work / "blobs")


def judge(pipeline, data, source, language="python3", mode="lazy"):
    completed = pipeline.execute(packages.job(data, language, source, mode)).completed
    assert completed is not None
    assert not completed.retry, completed.result.reason
    return completed


@pytest.mark.parametrize("name", READY)
def test_example_packages_are_judged_as_their_authors_meant(pipeline, work, name):
    with read_package(EXAMPLES / name) as package:
        if package.infer:
            package = read_package(EXAMPLES / name, time_limit=1)  # noqa: PLW2901 - the same, in short
        data = packages.data_of(package, work / "blobs")
        for candidate in candidates(package, TABLE):
            assert not candidate.skipped, candidate
            if candidate.files:  # tests/integration/test_problem_verify.py has those
                continue
            completed = judge(pipeline, data, candidate.source.decode(), candidate.language, "full")
            for rule in candidate.rules:
                assert check(rule, completed.verdict, completed.result, 100) == "", (
                    candidate.path,
                    completed.result.model_dump(),
                )
            lazy = judge(pipeline, data, candidate.source.decode(), candidate.language)
            assert (lazy.verdict, lazy.result.failed_test, lazy.result.score) == (
                completed.verdict, completed.result.failed_test, completed.result.score,
            )  # fmt: skip
            assert len(completed.result.tests) == len(judging_order(package.manifest))
            assert len(lazy.result.tests) <= len(completed.result.tests)


def test_a_validator_gets_files_and_arguments_and_leaves_messages(pipeline, work):
    validator = (
        "import sys, os\n"
        "team = sys.stdin.read()\n"
        "given, answer = open(sys.argv[1]).read(), open(sys.argv[2]).read()\n"
        "assert sys.argv[3].endswith('/') and os.listdir(sys.argv[3]) == []\n"
        "open(sys.argv[3] + 'judgemessage.txt', 'w').write(repr((given, answer, team, sys.argv[4:])))\n"
        "open(sys.argv[3] + 'teammessage.txt', 'w').write('for the team')\n"
        "sys.exit(42)\n"
    )
    data = package_data(work, validator, {"data/secret/test_group.yaml": "output_validator_args: [a, 'b c']\n"})
    completed = judge(pipeline, data, CAT)
    assert completed.verdict is Verdict.AC
    assert [test.message for test in completed.result.tests] == [
        repr(("one\n", "eins\n", "one\n", ["a", "b c"])), repr(("two\n", "zwei\n", "two\n", ["a", "b c"])),
    ]  # fmt: skip
    assert {test.feedback for test in completed.result.tests} == {"for the team"}


@pytest.mark.parametrize(
    ("validator", "words"),
    [
        ("import sys; sys.exit(0)", "ended with exit code 0; it must be 42 or 43"),
        ("import sys; sys.exit(1)", "ended with exit code 1"),
        ("import os; os.abort()", "ended by SIGABRT"),
        ("print('no'", "does not compile"),
        ("while True: pass", "time limit exceeded"),
        ("import os\nwhile True: os.write(1, b'x' * 65536)", "output limit exceeded"),
        ("import sys; sys.stderr.write('because\\n'); sys.exit(5)", "ended with exit code 5"),
        ("import sys; open(sys.argv[3] + 'nextpass.in', 'w').write('x'); sys.exit(42)", "more than 1 passes"),
        ("import sys; open(sys.argv[3] + 'nextpass.in', 'w').write('x'); sys.exit(43)", "asks for another pass"),
        ("import sys; open(sys.argv[3] + 'score.txt', 'w').write('many'); sys.exit(42)", "score.txt is not one number"),
    ],
)  # fmt: skip
def test_a_faulty_validator_is_the_judges_error(pipeline, work, validator, words):
    completed = judge(pipeline, package_data(work, validator), CAT)
    assert (completed.verdict, completed.status) == (Verdict.JE, Status.INTERNAL_ERROR), completed.result
    assert words in completed.result.reason
    assert len(completed.result.tests) <= 1, "judging ends there"
    assert "because" not in completed.result.reason, "that may quote secrets"
    assert ("because" in validator) == any("because" in test.message for test in completed.result.tests)


def test_links_in_the_feedback_directory_are_not_followed(pipeline, work):
    validator = (
        "import os, sys\nd = sys.argv[3]\nos.symlink('/etc/passwd', d + 'judgemessage.txt')\n"
        "os.mkfifo(d + 'teammessage.txt')\nos.mkdir(d + 'score.txt')\nos.symlink(sys.argv[2], d + 'nextpass.in')\n"
        "sys.exit(43)\n"
    )
    completed = judge(pipeline, package_data(work, validator), CAT)
    assert completed.verdict is Verdict.WA, completed.result
    assert (completed.result.tests[0].message, completed.result.tests[0].feedback) == ("", "")


def test_a_flood_of_feedback_is_cut(pipeline, work):
    validator = "import sys\nopen(sys.argv[3] + 'judgemessage.txt', 'w').write('m' * 10**6)\nsys.exit(43)\n"
    completed = judge(pipeline, package_data(work, validator), CAT)
    assert completed.verdict is Verdict.WA
    assert 500 < len(completed.result.tests[0].message) < 5000


def test_a_validator_is_compiled_once(pool, work):
    source = "#include <stdlib.h>\nint main(void){exit(42);}\n"
    data = package_data(work, source, name="check.c")
    programs = []

    def take():
        box = pool.take()
        run = box.run

        def noting(command, *arguments):
            programs.append(command.argv[0])
            return run(command, *arguments)

        box.run = noting
        return box

    pipeline = Pipeline(take=take, tell=lambda _: None, table=TABLE, outputs=work)
    for _ in range(3):
        assert judge(pipeline, data, CAT).verdict is Verdict.AC
    assert programs.count("/usr/bin/gcc") == 1
    for build in work.glob("*.tar"):
        build.write_bytes(build.read_bytes()[:-1] + b"!")
    assert judge(pipeline, data, CAT).verdict is Verdict.AC
    assert programs.count("/usr/bin/gcc") == 2, "a damaged build is made again"


INTERACTIVE = YAML + "type: interactive\n"
ASK = (  # asks for a line, says "ok", and is content with "one" or "two"
    "import sys\nprint('hello', flush=True)\nline = sys.stdin.readline().strip()\n"
    "given = open(sys.argv[1]).read().strip()\nsys.exit(42 if line == given else 43)\n"
)


@pytest.mark.parametrize(
    ("validator", "source", "verdict", "words"),
    [
        # The submission's own faults, with a validator that would accept.
        ("import sys\nsys.stdin.read()\nsys.exit(42)\n", "print(1)", "AC", ""),
        ("import sys\nsys.exit(42)\n", "raise SystemExit(9)", "RTE", "exit code 9"),
        ("import sys\nsys.exit(42)\n", "while True: pass", "TLE", "time limit exceeded"),
        ("import sys\nprint(sys.stdin.readline())\nsys.exit(42)\n",
         "print(1)\nx = []\nwhile True: x.append('x' * 10**6)", "MLE", "memory limit"),
        # Neither is killed by writing to the other after its end.
        ("import sys\nprint('x' * 200000)\nsys.exit(42)\n", "pass", "AC", ""),
        ("import sys\nsys.exit(42)\n", "print('x' * 200000)", "AC", ""),
        # The validator says no first: whatever becomes of the submission then.
        ("import sys\nsys.stdin.readline()\nsys.exit(43)\n", "while True: print(1, flush=True)", "WA", "rejected"),
        ("import sys\nsys.exit(43)\n", "while True: pass", "WA", "rejected"),
        ("import sys\nsys.exit(43)\n", "input()", "WA", "rejected"),
        # The submission crashes first; the validator only says no because of that.
        ("import sys\nsys.exit(43 if not sys.stdin.readline() else 42)\n", "raise SystemExit(1)", "RTE", "exit code 1"),
        # The submission ends early but well.
        ("import sys\nsys.exit(43 if not sys.stdin.readline() else 42)\n", "pass", "WA", "rejected"),
        # Both wait for each other.
        ("import sys\nsys.stdin.readline()\nsys.exit(42)\n", "input()", "TLE", "wall time limit exceeded"),
        # The validator's own faults.
        ("import sys\nsys.exit(1)\n", "input()", "JE", "exit code 1"),
        ("while True: pass\n", "input()", "JE", "time limit exceeded"),
    ],
)  # fmt: skip
def test_interaction(pipeline, work, validator, source, verdict, words):
    yaml = INTERACTIVE.replace("time_limit: 2", "time_limit: 1")
    completed = judge(pipeline, package_data(work, validator, yaml=yaml), source)
    assert completed.verdict == verdict, completed.result.model_dump()
    assert words in completed.result.reason
    assert completed.result.tests[-1].verdict == verdict


def test_both_sides_of_an_interaction_exchange_lines(pipeline, work):
    source = "assert input() == 'hello'\nprint('one', flush=True)\n"
    completed = judge(pipeline, package_data(work, ASK, yaml=INTERACTIVE), source)
    assert completed.verdict is Verdict.WA
    assert completed.result.failed_test == "secret/2"


def test_the_validators_time_is_not_the_submissions(pipeline, work):
    validator = "import sys\nwhile True: pass\n"
    yaml = INTERACTIVE.replace("time_limit: 2", "time_limit: 0.2")
    completed = judge(pipeline, package_data(work, validator, yaml=yaml), "input()")
    assert completed.verdict is Verdict.JE, completed.result.model_dump()
    assert completed.result.wall > 1.42, "its own wall limit is 1.4 s, the validator has 2 s of CPU time"


def test_passes(pipeline, work):
    validator = (
        "import os, sys\nd = sys.argv[3]\nn = int(open(d + 'n').read()) if os.path.exists(d + 'n') else 0\n"
        "assert not os.path.exists(d + 'nextpass.in')\nopen(d + 'n', 'w').write(str(n + 1))\n"
        "open(d + 'judgemessage.txt', 'a').write(sys.stdin.read().strip() + ';')\n"
        "if n < 2: open(d + 'nextpass.in', 'w').write(f'pass {n + 2}')\nsys.exit(42)\n"
    )
    yaml = YAML.replace("memory: 128", "memory: 128, validation_passes: 3") + "type: multi-pass\n"
    completed = judge(pipeline, package_data(work, validator, yaml=yaml), CAT)
    assert completed.verdict is Verdict.AC, completed.result
    assert [(test.message, test.passes) for test in completed.result.tests] == [
        ("one;pass 2;pass 3;", 3), ("two;pass 2;pass 3;", 3),
    ]  # fmt: skip
    crash = "import sys\nif 'pass 3' in input(): sys.exit(4)\nprint(1)\n"
    completed = judge(pipeline, package_data(work, validator, yaml=yaml), crash)
    assert completed.verdict is Verdict.RTE
    assert "pass 3: ended with exit code 4" in completed.result.reason


def test_the_figures_of_a_test_are_the_largest_of_all_passes(pipeline, work):
    """Those of an earlier pass are not lost, though its output is closed by then; the end is that of the last."""
    validator = (
        "import os, sys\nd = sys.argv[3]\nif os.path.exists(d + 'again'): sys.exit(42)\n"
        "open(d + 'again', 'w').close(); open(d + 'nextpass.in', 'w').write('small'); sys.exit(42)\n"
    )
    greedy = (
        "import sys, time\nif input() == 'small': sys.exit()\nx = bytearray(90 << 20)\ntime.sleep(0.3)\n"
        "while time.process_time() < 0.3: pass\nprint('x' * 1000)\n"
    )
    yaml = YAML.replace("memory: 128", "memory: 128, validation_passes: 2") + "type: multi-pass\n"
    completed = judge(pipeline, package_data(work, validator, yaml=yaml), greedy)
    assert completed.verdict is Verdict.AC, completed.result
    for test in completed.result.tests:
        assert (test.passes, test.output_bytes) == (2, 0)
        assert 90 << 20 < test.memory <= 128 << 20
        assert test.cpu >= 0.3 and test.wall >= 0.6
    assert completed.result.memory > 90 << 20


@pytest.mark.parametrize("where", ["open(sys.argv[3] + 'nextpass.in', 'w')", "sys.stdout", "sys.stderr"])
@pytest.mark.parametrize(("output", "validation_output", "most"), [(1, 1, 1 << 20), (2, 1, 2 << 20), (1, 2, 2 << 20)])
def test_a_validator_may_copy_as_much_as_the_submission_may_write(
    pipeline, work, where, output, validation_output, most
):
    """Its own limit counts where that is larger; one byte more than either is the judge's error."""
    limits = f"memory: 128, validation_passes: 2, output: {output}, validation_output: {validation_output}"
    yaml = YAML.replace("memory: 128", limits) + "type: multi-pass\n"
    validator = (
        "import os, sys\nif os.path.exists(sys.argv[3] + 'again'): sys.exit(42)\n"
        f"open(sys.argv[3] + 'again', 'w').close()\nout = {where}\n"
        f"out.write('x' * ({most} + int(open(sys.argv[1]).read() == 'two\\n')))\nout.close()\nsys.exit(42)\n"
    )
    completed = judge(pipeline, package_data(work, validator, yaml=yaml), "pass", mode="full")
    assert [test.verdict for test in completed.result.tests] == ["AC", "JE"], completed.result.reason
    sentence = "nextpass.in is longer than" if "nextpass" in where else "output limit exceeded: wrote more than"
    assert sentence in completed.result.reason


def test_full_mode_runs_every_test(pipeline, work):
    data = package_data(work, "import sys; sys.exit(43 if 'one' in sys.stdin.read() else 42)")
    lazy, full = (judge(pipeline, data, CAT, mode=mode) for mode in ("lazy", "full"))
    assert [test.verdict for test in lazy.result.tests] == ["WA"]
    assert [test.verdict for test in full.result.tests] == ["WA", "AC"]
    assert lazy.verdict is full.verdict is Verdict.WA
    assert lazy.result.failed_test == full.result.failed_test == "secret/1"


def test_a_host_with_less_memory(pool, work):
    pipeline = Pipeline(take=pool.take, tell=lambda _: None, table=TABLE, outputs=work, memory=64 * 1024**2)
    data = package_data(work, "import sys; sys.exit(42)", yaml=YAML.replace(", memory: 128", ""))
    assert data.manifest.limits.memory == 2048 * 1024**2
    assert judge(pipeline, data, CAT).verdict is Verdict.AC
    completed = pipeline.execute(packages.job(package_data(work, "import sys; sys.exit(42)"), "python3", CAT)).completed
    assert completed.retry
    assert "needs 128 MiB of memory; a slot of this executor has 64 MiB" in completed.result.reason


@pytest.mark.parametrize(("mib", "verdict"), [(96, Verdict.AC), (192, Verdict.JE)])
def test_both_sides_of_an_interaction_share_the_slots_memory(pool, work, mib, verdict):
    """128 MiB for the submission leave as much of the slot's 256 MiB to its validator."""
    pipeline = Pipeline(take=pool.take, tell=lambda _: None, table=TABLE, outputs=work, memory=256 * 1024**2)
    validator = f"import sys\nheld = bytearray({mib} << 20)\nsys.exit(42)\n"
    completed = judge(pipeline, package_data(work, validator, yaml=INTERACTIVE), "pass")
    assert completed.verdict is verdict, completed.result.model_dump()
    if verdict is Verdict.JE:
        assert "memory limit exceeded" in completed.result.reason
        assert "128 MiB" in completed.result.reason
