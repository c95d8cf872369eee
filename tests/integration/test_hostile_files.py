"""Files that contestants name, size and count, in real slots: the submission ends with CE or RTE, the slot goes on."""

import dataclasses
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judge.common import clock
from judge.executor.channel import Finished, Job, Ready
from judge.executor.slot.pipeline import Pipeline
from judge.languages.table import detect, load_table
from judge.model.messages import RunOptions, SourceFile, Submission, Verdict
from judge.sandbox import SandboxPool
from judge.sandbox.container import Sizes
from tests.integration.test_executor_slots import slots, until  # noqa: F401 - a fixture
from tests.support import packages
from tests.support.sandbox import AS_ROOT, language_pool
from tests.unit.test_hostile_file_trees import TREE, long_names

pytestmark = AS_ROOT

TABLE = load_table()
HERE = sorted(detect(TABLE))
EXAMPLES = Path(__file__).parents[2] / "examples/packages"
FAILED = {Verdict.CE, Verdict.RTE, Verdict.WA, Verdict.AC, Verdict.TLE}


@pytest.fixture(scope="module")
def pool():
    with language_pool("hostile-files") as pool:
        yield pool


@pytest.fixture
def pipeline(pool, work):
    return Pipeline(take=pool.take, tell=lambda _: None, table=TABLE, outputs=work)


def job(files, data=None, **fields) -> Job:
    submission = Submission(files=[SourceFile.of(name, text) for name, text in files.items()], **fields)
    return packages.assigned(submission, data=data, language_version="v1")


def library(work: Path, languages=("cpp",)):
    """A package with a header in a folder, for these languages."""
    return packages.load(
        packages.write(
            work / "library",
            {
                "problem.yaml": "problem_format_version: 2025-09\nname: x\nuuid: 6a1f3c52-6a52-4d0e-9d43-0b6a5f1c1a05\n"
                "limits: {time_limit: 1}\n",
                "data/secret/1.in": "1\n",
                "data/secret/1.ans": "1\n",
                **{f"include/{name}/lib/x.h": "int x;\n" for name in languages},
                **{f"include/{name}/top.h": "int y;\n" for name in languages},
            },
        ),
        work / "blobs",
    )


def ended(pipeline, job_) -> tuple[Verdict, str]:
    finished = pipeline.execute(job_)
    assert not finished.broken
    assert not finished.completed.retry, finished.completed.result.reason
    return finished.completed.verdict, finished.completed.result.reason


MAIN = b"int main() { return 0; }\n"


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        (["steps.h/a.cpp", "b.cpp"], "'steps.h/a.cpp' lies in 'steps.h', which is a file of the problem"),
        (["manager.cpp/steps.cpp"], "CE"),
        (["x/a.cpp", "manager.cpp/b.cpp"], "rename your folder"),
    ],
)
def test_a_folder_called_like_a_file_of_the_problem(pipeline, work, own, sentence):
    data = packages.load(EXAMPLES / "two-steps", work / "blobs")
    verdict, reason = ended(pipeline, job(dict.fromkeys(own, MAIN), data, language="cpp"))
    assert verdict is Verdict.CE
    assert sentence in f"{verdict} {reason}"


def test_more_files_than_a_sandbox_has_room_for(work):
    with SandboxPool(f"test-few-{os.getpid()}", sizes=Sizes(box_inodes=100)) as small_pool:
        pipeline = Pipeline(take=small_pool.take, tell=lambda _: None, table=TABLE, outputs=work)
        files = {f"{'/'.join('abcdefgh')}{number}/x.c": MAIN for number in range(100)}
        verdict, reason = ended(pipeline, job(files, language="c"))
        assert verdict is Verdict.CE
        assert "could not be written in the sandbox: No space left on device" in reason
        # The sandbox of a package's program is not the submission's: that is for the author of the problem.
        data = packages.load(
            packages.write(
                work / "many",
                {
                    "problem.yaml": "problem_format_version: 2025-09\nname: x\nlimits: {time_limit: 1}\n"
                    "uuid: 6a1f3c52-6a52-4d0e-9d43-0b6a5f1c1a06\n",
                    "data/secret/1.in": "1\n",
                    "data/secret/1.ans": "1\n",
                    "output_validator/build": "#!/bin/sh\n",
                    **{f"output_validator/d/{number}/x": "" for number in range(100)},
                },
            ),
            work / "blobs",
        )
        assert ended(pipeline, job({"a.py": b"print(1)"}, data, language="python3"))[0] is Verdict.JE


def test_files_that_do_not_fit_beside_a_program_that_is_judged_without_a_problem(work):
    with SandboxPool(f"test-scratch-{os.getpid()}", sizes=Sizes(scratch_inodes=50)) as small_pool:
        pipeline = Pipeline(take=small_pool.take, tell=lambda _: None, table=TABLE, outputs=work)
        files = {"a.py": b"print(1)", **{f"{number}/x": b"" for number in range(60)}}
        options = RunOptions(alone=True)
        verdict, reason = ended(pipeline, job(files, language="python3", entry="a.py", options=options))
        assert verdict is Verdict.CE
        assert "/scratch/" in reason


@pytest.mark.parametrize("language", ["cpp", "python3", "java"])
def test_more_long_names_than_a_command_can_have(pipeline, language):
    suffix = TABLE[language].suffixes[0]
    verdict, reason = ended(pipeline, job(long_names(1000, suffix), language=language))
    assert verdict in {Verdict.CE, Verdict.AC}
    assert verdict is Verdict.AC or "use fewer files, or shorter names" in reason


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(own=TREE, number=st.integers(min_value=0), kind=st.sampled_from(["plain", "library", "two-steps", "static"]))
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
def test_no_tree_of_files_ends_a_slot(pipeline, work, own, number, kind):
    language = HERE[number % len(HERE)]
    data = {
        "plain": lambda: None,
        "library": lambda: library(work, ("default",)),
        "two-steps": lambda: packages.load(EXAMPLES / "two-steps", work / "blobs"),
        "static": lambda: packages.load(EXAMPLES / "loopless", work / "blobs"),
    }[kind]()
    if data is not None:
        # Packages with files for one language have them for all, so that each language meets them.
        include = {"default": next(iter(data.manifest.include.values()), {})}
        update = {"include": include, "languages": []}
        data = data.model_copy(update={"manifest": data.manifest.model_copy(update=update)})
    verdict, reason = ended(pipeline, job(own, data, language=language))
    assert verdict in FAILED
    assert verdict is Verdict.AC or reason


def test_the_static_validator_of_loopless_reads_the_files_in_folders(pipeline, work):
    data = packages.load(EXAMPLES / "loopless", work / "blobs")
    files = {"main.py": b"print(input())", "more/loop.py": b"while True:\n    pass\n"}
    result = pipeline.execute(job(files, data, language="python3", mode="full")).completed.result
    (static,) = [test for test in result.tests if "(static)" in test.name]
    assert (static.verdict, static.feedback) == (Verdict.WA, "main.py has a loop")


def test_a_slot_goes_on_after_hostile_files(slots, work):  # noqa: F811
    slots.start_due(clock.monotonic())
    until(slots, Ready)
    slot = slots.slots[0]
    process = slot.process.pid
    data = library(work)
    for files in ({"lib": MAIN, "b.cpp": MAIN}, {"top.h/a.cpp": MAIN, "b.cpp": MAIN}, long_names(1000, ".cpp")):
        slot.give(job(files, data, language="cpp"), clock.monotonic())
        assert until(slots, Finished).completed.verdict is Verdict.CE
    assert slot.process.pid == process


def test_a_task_that_breaks_its_sandbox_is_given_back_and_the_next_finds_the_slot_well(pool, work):
    def broken():
        box = pool.take()
        box.broken()
        return box

    pipeline = Pipeline(take=broken, tell=lambda _: None, table=TABLE, outputs=work)
    job_ = packages.assigned(Submission(command="true"))
    finished = pipeline.execute(job_)
    assert finished.broken
    assert finished.completed.retry
    assert "the sandbox of" in finished.completed.result.reason
    healthy = dataclasses.replace(pipeline, take=pool.take)
    assert healthy.execute(job_).completed.verdict is Verdict.AC
