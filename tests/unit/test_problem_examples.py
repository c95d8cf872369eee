"""The examples that a newcomer judges first are complete, small and right; and the reader of such folders."""

import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from judge.common.errors import ConfigError, PackageError, UsageError
from judge.problems.examples import ExampleSet, load_examples
from judge.problems.package import Package
from judge.problems.validator import validate

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def examples() -> ExampleSet:
    return load_examples(EXAMPLES)


def package(examples: ExampleSet, name: str) -> Package:
    return next(entry for entry in examples.packages if entry.manifest.name == name)


VALIDATORS = sorted(EXAMPLES.glob("packages/*/output_validator*/**/*.py"))
ODD = ["²\n".encode(), "٣\n".encode(), b"\xff\xfe\n", b"9" * 100_000, b"", b"\0\n", b"1_0\n", b"-1\n", b"1 2 3 x"]


@pytest.mark.parametrize("validator", VALIDATORS, ids=lambda path: path.stem)
def test_no_output_makes_a_validator_of_the_examples_fail(validator: Path, tmp_path: Path):
    (tmp_path / "input").write_text("10 3\n5 6 7\n" if validator.stem == "score" else "50\n")
    (tmp_path / "answer").write_text("10\n")

    @settings(max_examples=4)
    @given(st.sampled_from(ODD) | st.binary(max_size=40))
    def judged(output: bytes) -> None:
        for locale in ("C", "C.UTF-8"):
            process = subprocess.run(
                [sys.executable, str(validator), tmp_path / "input", tmp_path / "answer", f"{tmp_path}/"],
                input=output, env={"LC_ALL": locale}, capture_output=True, check=False,
            )  # fmt: skip
            assert process.returncode in {42, 43}, process.stderr

    for odd in ODD:
        judged = example(odd)(judged)
    judged()


def test_every_language_and_every_verdict_occur(examples: ExampleSet):
    assert {entry.candidate.language for entry in examples.examples} == {"c", "cpp", "java", "python3", "command"}
    assert {entry.candidate.description for entry in examples.examples} == {
        "AC",
        "WA",
        "TLE",
        "RTE",
        "MLE",
        "OLE",
        "CE",
    }
    accepted = {entry.candidate.language for entry in examples.examples if entry.candidate.description == "AC"}
    assert accepted == {"c", "cpp", "java", "python3", "command"}
    assert 20 <= len(examples.examples) <= 32
    assert len({entry.file for entry in examples.examples}) == len(examples.examples)


def test_examples_are_small(examples: ExampleSet):
    files = [path for path in EXAMPLES.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 400 * 1024
    for package in examples.packages:
        assert package.manifest.limits.cpu <= 2, "the demo waits for every time limit"
        folder = "statement" if package.manifest.name == "average" else "problem_statement"
        assert (EXAMPLES / "problems" / package.manifest.name / folder / "problem.en.md").is_file()


def test_submissions_are_ready_to_be_sent(examples: ExampleSet):
    for entry in examples.examples:
        submission = entry.submission
        if entry.problem:
            assert (
                submission.problem == entry.problem
                and submission.language == entry.candidate.language
                and submission.source
            )
            assert submission.filename == Path(entry.file).name
        else:
            assert submission.command and submission.problem is None


def lines(data: bytes) -> list[str]:
    return data.decode().splitlines()


def test_answers_of_hello(examples: ExampleSet):
    hello = package(examples, "hello")
    for test in hello.manifest.tests:
        guests = lines(hello.read(test.input))[1:]
        assert lines(hello.read(test.answer)) == [f"Hello, {guest}!" for guest in guests]


def test_answers_of_primes(examples: ExampleSet):
    primes = package(examples, "primes")
    small_primes = [
        number for number in range(2, 3000) if all(number % divisor for divisor in range(2, int(number**0.5) + 1))
    ]
    checked = 0
    for test in primes.manifest.tests:
        count, *questions = map(int, primes.read(test.input).split())
        answers = list(map(int, primes.read(test.answer).split()))
        assert len(questions) == len(answers) == count
        for question, answer in zip(questions, answers, strict=True):
            if question < 3000:
                assert answer == sum(prime <= question for prime in small_primes)
                checked += 1
            if question == 2_000_000:
                assert answer == 148_933
                checked += 1
    assert checked > 40


def test_answers_of_average(examples: ExampleSet):
    average = package(examples, "average")
    for test in average.manifest.tests:
        readings = list(map(float, average.read(test.input).split()[1:]))
        right = f"{statistics.fmean(readings):.12e}\n{statistics.pstdev(readings):.12e}"
        assert validate(right.encode(), average.read(test.answer), average.manifest.validator_flags).accepted


# --- other folders ---------------------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    (tmp_path / "problems").mkdir()
    shutil.copytree(EXAMPLES / "problems/hello", tmp_path / "problems/hello")
    return tmp_path


def test_a_folder_without_anything(tmp_path: Path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match="has nothing to judge; expected problems/NAME/"):
            load_examples(path)


def test_a_submission_in_no_known_language(copy: Path):
    (copy / "problems/hello/submissions/accepted/hello.xyz").write_text("+")
    with pytest.raises(PackageError, match=r"hello/submissions/accepted/hello\.xyz: no language of the table"):
        load_examples(copy)


def test_a_submission_in_an_older_encoding_goes_byte_by_byte(copy: Path):
    (copy / "problems/hello/submissions/accepted/hello.c").write_bytes(b"/* \xe9 */")
    entry = next(entry for entry in load_examples(copy).examples if entry.file.endswith("accepted/hello.c"))
    assert entry.submission.source is None
    assert [(file.name, file.data) for file in entry.submission.files] == [("hello.c", b"/* \xe9 */")]


def test_a_folder_is_one_submission(copy: Path):
    folder = copy / "problems/hello/submissions/accepted/parts"
    (folder / "sub").mkdir(parents=True)
    (folder / "main.c").write_text('#include "sub/a.h"\nint main(){}')
    (folder / "sub/a.h").write_text("// a")
    (copy / "problems/hello/submissions/submissions.yaml").write_text("accepted/parts: {entrypoint: main.c}\n")
    entry = next(entry for entry in load_examples(copy).examples if entry.file.endswith("accepted/parts"))
    assert {file.name for file in entry.submission.files} == {"main.c", "sub/a.h"}
    assert (entry.submission.language, entry.submission.entry, entry.submission.filename) == (
        "c",
        "main.c",
        "parts",
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("expected: [AC]\n", "key 'submission' is missing"),
        ("expected: [AX]\nsubmission: {command: 'true'}\n", "task.yml:1: expected.0"),
        ("expected: []\nsubmission: {command: 'true'}\n", "task.yml:1: expected"),
        ("expected: [AC]\nsubmission: {comand: 'true'}\n", "task.yml:2: unknown key 'submission.comand'"),
    ],
)
def test_broken_command_tasks(copy: Path, text: str, sentence: str):
    (copy / "commands").mkdir()
    (copy / "commands/task.yml").write_text(text)
    (copy / "commands/README.md").write_text("not a task")
    with pytest.raises(ConfigError) as caught:
        load_examples(copy)
    assert sentence in str(caught.value)


def test_an_unreadable_command_task(copy: Path):
    (copy / "commands").mkdir()
    (copy / "commands/task.yml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot be read as UTF-8"):
        load_examples(copy)
