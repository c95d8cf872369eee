"""Memory is reserved per slot: whatever runs at one time in a slot fits its share (docs/executor.md)."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judge.common.errors import UsageError
from judge.ctl.problem.trial import Present, memory_warnings
from judge.executor.channel import COMPILE_LIMITS, Data, Job
from judge.executor.slot.memory_budget import job_limits
from judge.languages.table import MIB, load_table
from judge.model.messages import Assignment, Limits, Submission
from judge.model.problem import VALIDATION, ProblemManifest, ProblemProgram, ProblemType
from judge.problems.memory import LEAST, required_memory

GIB = 1024 * MIB
TABLE = load_table()
JAVA = TABLE["java"].memory_extra * MIB


def job(submission: dict | None = None, **problem) -> Job:
    """A job; `problem` are the manifest's fields, none: a submission without a problem."""
    handed_in = Submission.model_validate(submission or {"language": "c", "source": ""})
    data = None
    if problem:
        data = Data(manifest=ProblemManifest.model_validate({"name": "p", "tests": [], **problem}), files={})
    return Job(assignment=Assignment(id="1" * 24, attempt=1, claim="c", submission=handed_in), data=data)


def program(language: str = "c") -> ProblemProgram:
    return ProblemProgram(name="check", language=language, main="check", files={})


def memory(size: int) -> Limits:
    return Limits(memory=size)


def test_defaults_shrink_to_what_a_slot_has():
    for task in (job({"command": "x"}), job(limits=memory(2 * GIB), memory_is_default=True, validators=[program()])):
        limits = task.data.manifest.limits if task.data else Limits()
        small = job_limits(task, 256 * MIB, TABLE)
        assert (small.run.memory, small.compile.memory) == (256 * MIB, 256 * MIB)
        assert small.run == limits.model_copy(update={"memory": 256 * MIB})
        for share in (2 * GIB, None):
            assert job_limits(task, share, TABLE).run == limits
            assert job_limits(task, share, TABLE).compile == COMPILE_LIMITS
            assert job_limits(task, share, TABLE).validation == VALIDATION
    assert small.validation == VALIDATION.model_copy(update={"memory": 256 * MIB})


@pytest.mark.parametrize(
    ("task", "subject"),
    [
        (job({"command": "x", "limits": {"memory": 2 * GIB}}), "the submission needs 2 GiB of memory"),
        (job(limits=memory(2 * GIB)), "the problem needs 2 GiB of memory"),
        (job(memory_is_default=True, compile_memory=2 * GIB), "compiling for the problem needs 2 GiB of memory"),
        (
            job(validation=memory(2 * GIB), validation_memory_is_default=False, validators=[program()]),
            "the problem's validator needs 2 GiB of memory",
        ),
    ],
)
def test_a_limit_of_an_author_is_kept_or_refused(task, subject):
    assert job_limits(task, 2 * GIB, TABLE) == job_limits(task, None, TABLE)
    with pytest.raises(UsageError, match=f"^{subject}; a slot of this executor has 1 GiB$"):
        job_limits(task, GIB, TABLE)


def test_the_overhead_of_a_runtime_is_part_of_the_share():
    java = {"language": "java", "source": ""}
    assert job_limits(job(java, limits=memory(2 * GIB), memory_is_default=True), GIB, TABLE).run.memory == GIB - JAVA
    assert job_limits(job(java, limits=memory(GIB - JAVA)), GIB, TABLE).run.memory == GIB - JAVA
    with pytest.raises(UsageError, match="the problem needs 1 GiB of memory; a slot of this executor has 1023 MiB"):
        job_limits(job(java, limits=memory(GIB - JAVA)), GIB - MIB, TABLE)
    checked = job(memory_is_default=True, validators=[program("java")])
    assert job_limits(checked, GIB, TABLE).validation.memory == GIB - JAVA


def test_a_run_and_its_interactive_validator_share_the_slot():
    """An author's limit is kept first; of two defaults the validator's is the one that gives way."""
    problem = {
        "type": [ProblemType.INTERACTIVE],
        "validators": [program()],
        "memory_is_default": True,
        "limits": memory(2 * GIB),
    }
    fitted = job_limits(job(**problem), 3 * GIB, TABLE)
    assert (fitted.run.memory, fitted.validation.memory) == (2 * GIB, GIB)
    fitted = job_limits(job(**problem), GIB, TABLE)
    assert (fitted.run.memory, fitted.validation.memory) == (768 * MIB, 256 * MIB)
    given_run = problem | {"memory_is_default": False}
    fitted = job_limits(job(**given_run), 2 * GIB + LEAST, TABLE)
    assert (fitted.run.memory, fitted.validation.memory) == (2 * GIB, LEAST)
    given_check = problem | {"validation": memory(512 * MIB), "validation_memory_is_default": False}
    fitted = job_limits(job(**given_check), GIB, TABLE)
    assert (fitted.run.memory, fitted.validation.memory) == (512 * MIB, 512 * MIB)
    message = "the problem needs 2 GiB of memory, beside 512 MiB for the problem's validator; a slot of .* has 2 GiB"
    with pytest.raises(UsageError, match=message):
        job_limits(job(**given_run | given_check | {"memory_is_default": False}), 2 * GIB, TABLE)


SIZES = st.integers(16, 5000).map(lambda count: count * MIB)
FIXED = st.tuples(st.booleans(), st.booleans())  # whether an author has set the limits of runs and of the validator
SITUATION = {
    "share": st.integers(64, 9000).map(lambda count: count * MIB),
    "run": SIZES,
    "check": SIZES,
    "fixed": FIXED,
    "languages": st.tuples(st.sampled_from(sorted(TABLE)), st.sampled_from(sorted(TABLE))),
}


def limited(run: int | Limits, check: int, fixed: tuple[bool, bool], **problem) -> dict:
    """Fields of a manifest: the memory of runs and of the validator, each set by an author or not."""
    return {
        "limits": run if isinstance(run, Limits) else memory(run),
        "memory_is_default": not fixed[0],
        "validation": memory(check),
        "validation_memory_is_default": not fixed[1],
        **problem,
    }


def kind(*, interactive: bool) -> list[ProblemType]:
    return [ProblemType.INTERACTIVE if interactive else ProblemType.PASS_FAIL]


@example(
    share=288 * MIB, run=16 * MIB, check=17 * MIB, fixed=(False, False), languages=("bash", "java"), interactive=True
)
@given(**SITUATION, interactive=st.booleans())
def test_concurrent_processes_fit_the_share(share, run, check, fixed, languages, interactive):
    """Nobody gets more than was asked for, an author never less; only a least that is too much is given back."""
    problem = limited(run, check, fixed, validators=[program(languages[1])], type=kind(interactive=interactive))
    task = job({"language": languages[0], "source": ""}, **problem)
    extra = tuple(TABLE[name].memory_extra * MIB for name in languages)
    needed = tuple(
        overhead + (size if is_fixed else LEAST)
        for size, overhead, is_fixed in zip((run, check), extra, fixed, strict=True)
    )
    minimum = sum(needed) if interactive else max(needed)
    try:
        fitted = job_limits(task, share, TABLE)
    except UsageError:
        assert minimum > share
        return
    sizes = (fitted.run.memory, fitted.validation.memory)
    assert minimum <= share
    full = tuple(size + overhead for size, overhead in zip(sizes, extra, strict=True))
    assert (sum(full) if interactive else max(full)) <= share
    for size, is_fixed, limit in zip(sizes, fixed, (run, check), strict=True):
        assert size == limit if is_fixed else min(LEAST, limit) <= size <= limit
    assert LEAST <= fitted.compile.memory <= min(share, COMPILE_LIMITS.memory)


@given(**SITUATION, count=st.integers(1, 8), managed=st.booleans())
def test_processes_of_one_submission_and_their_manager_fit_together(
    share, run, check, fixed, languages, count, managed
):
    ioi_task = {"kind": "communication" if managed else "two-steps", "processes": count}
    ioi_task |= {"manager": program(languages[1])} if managed else {}
    task = job({"language": languages[0], "source": ""}, **limited(run, check, fixed, task=ioi_task))
    extra = tuple(TABLE[name].memory_extra * MIB for name in languages)
    try:
        fitted = job_limits(task, share, TABLE)
    except UsageError:
        minimum = [
            overhead + (size if is_fixed else LEAST)
            for size, overhead, is_fixed in zip((run, check), extra, fixed, strict=True)
        ]
        rounded = count  # a division's remainder of a slot is no process's
        assert count * minimum[0] + (minimum[1] if managed else 0) + rounded > share
        return
    full = count * (fitted.run.memory + extra[0]) + ((fitted.validation.memory + extra[1]) if managed else 0)
    assert full <= share
    assert fitted.run.memory == run if fixed[0] else fitted.run.memory <= run


def test_processes_that_do_not_fit_are_told_of():
    task = job(limits=memory(GIB), memory_is_default=False, task={"kind": "two-steps", "processes": 2})
    with pytest.raises(UsageError, match=r"each of 2 processes .* needs 1 GiB of memory; a slot .* has 512 MiB"):
        job_limits(task, GIB, TABLE)


@given(
    run=SIZES,
    output=st.sampled_from([1, 8 * MIB, 200 * MIB]),
    check=SIZES,
    fixed=FIXED,
    language=st.sampled_from(sorted(TABLE)),
    compiling=st.none() | SIZES,
    shape=st.sampled_from(["pass-fail", "unchecked", "interactive", "two-steps", "communication"]),
    count=st.integers(1, 8),
)
def test_the_memory_that_an_import_asks_for_is_what_a_slot_needs(
    run, output, check, fixed, language, compiling, shape, count
):
    """A slot with that much judges a submission in a language without a runtime; one with less gives it back."""
    task = {"two-steps": {"processes": count}, "communication": {"processes": count, "manager": program(language)}}
    problem = limited(
        Limits(memory=run, output=output), check, fixed,
        compile_memory=compiling,
        validators=[program(language)] if shape in {"pass-fail", "interactive"} else [],
        type=kind(interactive=shape == "interactive"),
        task={"kind": shape, **task[shape]} if shape in task else None,
    )  # fmt: skip
    submitted = job({"command": "x"}, **problem)
    needed = required_memory(submitted.data.manifest, TABLE)
    job_limits(submitted, needed, TABLE)
    with pytest.raises(UsageError, match="of memory"):
        job_limits(submitted, needed - 1, TABLE)


def test_an_import_warns_of_a_problem_that_needs_more_memory_than_any_slot_has():
    manifest = job(limits=memory(60000 * MIB)).data.manifest
    (warning,) = memory_warnings(manifest, Present(any=True, largest_slot=20 * GIB))
    assert "needs a slot with 58.6 GiB of memory" in warning
    assert "the largest slot of an executor has 20 GiB" in warning
    for largest in (60000 * MIB, None):
        assert memory_warnings(manifest, Present(any=True, largest_slot=largest)) == []
