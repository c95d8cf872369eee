"""Each feature of the formats has an example that shows it, by this table, which is read against the files.

All examples verify on every run of the tests (tests/integration/test_problem_verify.py and test_importers.py), so an
example that loses its feature would leave that untried.
"""

import re
from pathlib import Path

from judge.problems.importers import IMPORTERS, detect
from judge.problems.reading.checks import check_package
from judge.problems.reading.formats import DIALECTS, FORMATS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# Feature; a pattern of files below examples/; a line that one of them has, as a regular expression ("": any content).
SHOWN = [
    ("legacy", "packages/subtasks/problem.yaml", "problem_format_version: legacy$"),
    ("legacy-icpc", "packages/tally/problem.yaml", "problem_format_version: legacy-icpc$"),
    ("2023-07-draft", "packages/countdown/problem.yaml", "problem_format_version: 2023-07-draft$"),
    ("2025-09", "packages/greeting/problem.yaml", "problem_format_version: 2025-09$"),
    # time limits
    (".timelimit", "packages/tally/.timelimit", "1$"),
    ("timelimit of domjudge-problem.ini", "packages/longest/domjudge-problem.ini", "timelimit"),
    ("inferred, legacy", "packages/digits/problem.yaml", "  time_multiplier: 3"),
    ("inferred, 2025-09", "packages/sieve/problem.yaml", " *time_multipliers:"),
    ("use_for_time_limit", "packages/sieve/submissions/submissions.yaml", "  use_for_time_limit: false"),
    # kinds of problems
    ("interactive, legacy", "packages/guess/problem.yaml", "validation: custom interactive"),
    ("interactive, 2025-09", "packages/library/problem.yaml", r"type: \[pass-fail, interactive\]"),
    ("multi-pass, 2025-09", "packages/relay/problem.yaml", r"type: \[pass-fail, multi-pass\]"),
    ("multi-pass, legacy, INPUT is the test's", "packages/mirror/data/secret/testdata.yaml", "reject_score"),
    ("multi-pass, legacy, INPUT is nextpass.in", "packages/fuse/problem.yaml", "validation: custom multi-pass"),
    ("submit-answer", "packages/colouring/problem.yaml", r"type: \[scoring, submit-answer\]"),
    ("outputs in folders of submissions", "packages/colouring/submissions/accepted/many/*", ""),
    # tests
    ("NAME.files", "packages/library/data/secret/1.files/book.txt", ""),
    ("args", "packages/greeting/data/secret/*.yaml", "args:"),
    ("sample: .in.statement", "packages/two-terms/data/sample/1.in.statement", ""),
    ("sample: .in.download", "packages/two-terms/data/sample/1.in.download", ""),
    ("sample: .out", "packages/two-terms/data/sample/1.out", ""),
    ("sample: .interaction", "packages/guess/data/sample/1.interaction", ">500"),
    ("generators.yaml makes tests", "packages/longest-run/generators/generators.yaml", "data:"),
    ("gen.sh makes tests", "packages/odd-ones/data/gen.sh", r"\. .*testdata_tools/gen\.sh"),
    ("input without an answer is no test (DOMjudge)", "packages/longest/data/secret/9_left_out.in", ""),
    # programs
    ("output_validators/, one", "packages/guess/output_validators/guess/guess.py", ""),
    ("output_validators/, several", "packages/halves/output_validators/*/tidy.c", ""),
    ("output_validator/ with legacy (DOMjudge)", "packages/longest/output_validator/check.py", ""),
    ("output_validator/, 2025-09", "packages/two-terms/output_validator/check.cpp", ""),
    ("build", "packages/relay/output_validator/build", ""),
    ("flags of the validator, quoted", "packages/longest/problem.yaml", 'validator_flags: .*"'),
    ("output_validator_args", "packages/two-terms/data/secret/positive/test_group.yaml", "output_validator_args:"),
    ("default validator with flags", "packages/greeting/data/secret/test_group.yaml", "output_validator_args:"),
    ("input_validators/", "packages/countdown/input_validators/numbers/numbers.py", ""),
    ("input_format_validators/", "packages/digits/input_format_validators/number.py", ""),
    ("input_validator/", "packages/longest/input_validator/words.py", ""),
    ("Checktestdata", "packages/greeting/input_validators/name.ctd", ""),
    ("input_validator_args", "packages/countdown/data/secret/test_group.yaml", "input_validator_args:"),
    ("answer_validators/", "packages/tally/answer_validators/strokes.py", ""),
    ("static validator", "packages/loopless/static_validator/style.py", ""),
    ("its score", "packages/loopless/data/secret/2-style/test_group.yaml", "static_validation_score: 30"),
    ("grader of its own", "packages/halves/graders/grader.py", ""),
    ("which a group asks for", "packages/halves/data/secret/testdata.yaml", "grading: custom"),
    # scores
    ("accept_score of each test (Kattis)", "packages/ladder/data/secret/low/testdata.yaml", "accept_score: 15"),
    ("accept_score of the group (DOMjudge)", "packages/steps/data/secret/low/testdata.yaml", "accept_score: 30"),
    ("reject_score", "packages/mirror/data/secret/testdata.yaml", "reject_score: 0"),
    ("max_score, require_pass", "packages/packing/data/secret/2_few/test_group.yaml", "require_pass:"),
    ("scores of a validator", "packages/packing/output_validator/score.py", ".*score"),
    ("groups of the draft", "packages/countdown/data/secret/small/test_group.yaml", "scoring:"),
    # submissions, and the files that go with them
    ("include/LANGUAGE", "packages/greeting/include/c/greet.h", ""),
    ("constants", "packages/greeting/problem.yaml", "constants:"),
    ("languages", "packages/greeting/problem.yaml", r"languages: \["),
    ("a submission of several files", "packages/sieve/submissions/accepted/parts/main.py", ""),
    ("entrypoint", "packages/sieve/submissions/submissions.yaml", "  entrypoint: main.py"),
    ("partially_accepted", "packages/ladder/submissions/partially_accepted/*", ""),
    # statements
    ("statement in Markdown, in two languages", "packages/greeting/statement/problem.de.md", ""),
    ("statement in LaTeX", "packages/odd-ones/problem_statement/problem.en.tex", r"\\problemname"),
    ("statement in PDF", "packages/tally/problem_statement/problem.en.pdf", r"%PDF-1\.4"),
    # IOI tasks
    ("input and output by files", "packages/sum-files/judge.yaml", "input_file: numbers.in"),
    ("subtasks that share tests", "packages/sum-files/judge.yaml", ".*rule: mul"),
    ("communication, one process by its streams", "packages/oracle/judge.yaml", "io: std"),
    ("communication, two processes by FIFOs", "packages/whisper/judge.yaml", "processes: 2"),
    ("threshold", "packages/whisper/judge.yaml", ".*rule: threshold"),
    ("two steps", "packages/two-steps/judge.yaml", "kind: two-steps"),
    ("a grader beside submissions", "packages/two-steps/include/cpp/manager.cpp", ""),
    # other formats
    ("Polygon: groups, points, dependencies", "foreign/polygon-split/problem.xml", " *<dependency group="),
    ("Polygon: testlib with parts", "foreign/polygon-memo/files/check.cpp", ""),
    ("Polygon: interactor", "foreign/polygon-hunt/files/interactor.cpp", ""),
    ("Polygon: two runs", "foreign/polygon-memo/problem.xml", '.*run-count="2"'),
    ("Polygon: validator", "foreign/polygon-split/files/val.cpp", ""),
    ("Polygon: tests to be made", "foreign/polygon-sums/problem.xml", '.*cmd="'),
    ("CMS: GEN", "foreign/cms-digits/gen/GEN", "#ST: 60"),
    ("CMS: files", "foreign/cms-digits/task.yaml", "infile: input.txt"),
    ("CMS: TwoSteps, two files", "foreign/cms-bytes/task.yaml", "task_type: TwoSteps"),
    ("CMS: GroupMul", "foreign/cms-signs/task.yaml", "score_type: GroupMul"),
    ("CMS: GroupThreshold", "foreign/cms-weights/task.yaml", "score_type: GroupThreshold"),
    ("CMS: checker", "foreign/cms-weights/check/checker.py", ""),
    ("TPS: gen/data", "foreign/tps-gaps/gen/data", "@subtask many"),
    ("DMOJ: archive, batches", "foreign/dmoj-lights/init.yml", "archive: lights.zip"),
    ("DMOJ: checker", "foreign/dmoj-lights/init.yml", "  name: bridged"),
    ("DMOJ: checker that looks at sources", "foreign/dmoj-brief/checker.py", ".*submission_source"),
    ("DMOJ: grader", "foreign/dmoj-bits/init.yml", "signature_grader:"),
    ("DMOJ: interactive", "foreign/dmoj-guess/init.yml", "custom_judge: guess.py"),
    ("DMOJ: communication", "foreign/dmoj-relay/init.yml", "communication:"),
    ("directory: pairs in folders, compressed", "foreign/directory-halves/in/01.txt.gz", ""),
    ("directory: samples", "foreign/directory-primes/sample/1.in", ""),
    ("Hydro: subtasks", "foreign/hydro-ages/config.yaml", " +type: min"),
    ("UOJ: subtasks", "foreign/uoj-divisor/problem.conf", "subtask_dependence_2 1"),
    ("UOJ: checker, validator", "foreign/uoj-divisor/val.cpp", ""),
    ("SYZOJ: subtasks", "foreign/syzoj-roots/data.yml", " +- .*type: mul"),
    ("SYZOJ: checker", "foreign/syzoj-roots/data.yml", "specialJudge:"),
]  # fmt: skip


def test_an_example_has_each_feature() -> None:
    for feature, pattern, line in SHOWN:
        files = [path for path in EXAMPLES.glob(pattern) if path.is_file()]
        assert files, f"{feature}: there is no {pattern}"
        lines = [text for path in files for text in path.read_text(errors="replace").splitlines() or [""]]
        assert any(re.match(line, text) for text in lines), f"{feature}: {pattern} has no line with '{line}'"


def test_every_format_version_and_dialect_has_one() -> None:
    covered: set[str] = set()
    for path in sorted(EXAMPLES.glob("*/*")):
        if path.parent.name == "commands":
            continue
        checked = check_package(path)
        assert not checked.findings.errors, (path, checked.findings.errors)
        if checked.package is not None:
            manifest = checked.package.manifest
            covered |= {manifest.origin, manifest.dialect, manifest.format} - {""}
            checked.package.close()
        if checked.plan is not None:  # its tests are still to be made
            covered.add(detect(checked.plan.tree) or "")
            checked.plan.close()
    assert covered >= {*FORMATS, *DIALECTS, *IMPORTERS}


def test_each_example_has_a_right_and_a_wrong_submission() -> None:
    for package in (EXAMPLES / "packages").iterdir():
        folders = {path.name for path in (package / "submissions").iterdir() if path.is_dir()}
        assert "accepted" in folders and len(folders) > 1, package
