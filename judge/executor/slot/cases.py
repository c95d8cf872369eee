"""The tests of a job as a slot sees them, in judging order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from judge.executor.channel import Job
from judge.languages.handed import contents
from judge.model.messages import RunOptions, Submission
from judge.model.problem import ProblemManifest, ProblemTest, StaticTest
from judge.problems.answers import outputs_for
from judge.problems.scoring import judging_order

# Of the whole output of a task without tests.
RUN_NAME = "run"


@dataclass(frozen=True)
class Case:
    """One test as the pipeline sees it: bytes, or the file of a verified blob. No answer: any output is right.

    `public`: the submitter has its data, so that the reason may quote it; else only the judges' message does. `flags`
    are the validator's, `args` the submission's; `files` lie in its working directory, by name. `static`: it is a
    static validation test case. `handed_in` is the output that was handed in for it. `lines`: see
    `RunOptions.lines`.
    """

    name: str
    input: bytes | Path
    answer: bytes | Path | None
    public: bool = True
    flags: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    files: Mapping[str, bytes | Path] = field(default_factory=dict)
    static: StaticTest | None = None
    handed_in: bytes | None = None
    lines: bool = False


def cases(job: Job) -> list[Case]:
    """The tests of a job in judging order: the manifest's, or name order; one run on `stdin` when it has none."""
    submission = job.assignment.submission
    if job.data is not None:
        return _of_problem(job.data.manifest, job.data.files, submission)
    options = submission.options or RunOptions()
    extra_files = contents(submission) if options.alone else {}
    if not submission.tests:
        stdin = (submission.stdin or "").encode("utf-8", "replace")
        return [Case(RUN_NAME, stdin, None, args=tuple(options.arguments), files=extra_files)]
    return [
        Case(
            test.name,
            _content(test.input, test.input_blob, job.blobs) or b"",
            _content(test.answer, test.answer_blob, job.blobs),
            args=tuple(options.arguments),
            files=extra_files,
            lines=options.lines,
        )
        for test in sorted(submission.tests, key=lambda test: test.name)
    ]


def _content(text: str | None, blob: str | None, files: Mapping[str, str]) -> bytes | Path | None:
    if blob is not None:
        return Path(files[blob])
    return text.encode("utf-8", "replace") if text is not None else None


def _of_problem(manifest: ProblemManifest, files: Mapping[str, str], submission: Submission) -> list[Case]:
    handed_in = {} if manifest.traits.has_program else handed_in_for(manifest, submission)
    tests = {test.name: test for test in manifest.tests}
    statics = {static.name: static for static in manifest.static_tests}
    return [
        _case(manifest, tests[name], files, handed_in.get(name))
        if name in tests
        else Case(name, b"", b"", public=False, static=statics[name])
        for name in judging_order(judged_part(manifest, submission))
    ]


def _case(manifest: ProblemManifest, test: ProblemTest, files: Mapping[str, str], handed_in: bytes | None) -> Case:
    return Case(
        test.name,
        Path(files[test.input]),
        Path(files[test.answer]),
        test.sample,
        tuple(manifest.validator_flags if test.flags is None else test.flags),
        tuple(test.args),
        {name: Path(files[sha]) for name, sha in test.files.items()},
        handed_in=handed_in,
    )


def handed_in_for(manifest: ProblemManifest, submission: Submission) -> dict[str, bytes]:
    files = contents(submission)
    by_test = outputs_for([test.name for test in manifest.tests], list(files))
    return {test: files[name] for test, name in by_test.items()}


def judged_part(manifest: ProblemManifest, submission: Submission) -> ProblemManifest:
    """The problem without the tests that are not judged: samples for which nobody has handed in an output."""
    if manifest.traits.has_program or submission.check is not None:
        return manifest
    outputs = handed_in_for(manifest, submission)
    tests = [test for test in manifest.tests if not test.sample or test.name in outputs]
    return manifest.model_copy(update={"tests": tests})
