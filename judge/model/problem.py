"""Messages about problems: the manifest with its programs and scoring, and what people see of a problem.

Shapes only: `judge.problems.package` fills a manifest from a package, `judge.problems.scoring` and executors read it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field

from judge.model.labels import Difficulty, Labels, Order, Tag
from judge.model.messages import TESTS, FileName, Identifier, Limits, Message, Sha256, TaskId
from judge.model.verdicts import Verdict
from judge.model.visibility import Visibility

# The memory limit in bytes of a problem that sets none: the format's "typical system default". A host with less memory
# gives what it has.
DEFAULT_MEMORY = 2048 * 1024**2
# A word of a command line, in which no program can be handed a NUL.
Argument = Annotated[str, Field(pattern=r"^[^\x00]*$")]


@dataclass(frozen=True)
class Traits:
    """The traits of one type of problems, or of all types of a problem together.

    `legacy` is the word behind `validation: custom` that says the same, `apart` are the types that it excludes.
    `needs_validator`: the default output validator cannot judge such a problem, and the problem's own one speaks with
    the submission, so that it says nothing of an answer; `interactive`: while that runs. `has_program`: what is handed
    in is a program; if not, it is the output for each test. `has_score`: a submission gets a score. `passes`: how often
    a submission runs on one test at most, where the package does not say it.
    """

    legacy: str = ""
    apart: tuple[str, ...] = ()
    needs_validator: bool = False
    interactive: bool = False
    has_program: bool = True
    has_score: bool = False
    passes: int = 1


class ProblemType(enum.StrEnum):
    """The types of problems, by the format's words; a problem has one of the first two and any of the others."""

    traits: Traits

    def __new__(cls, word: str, traits: Traits) -> Self:
        member = str.__new__(cls, word)
        member._value_, member.traits = word, traits
        return member

    PASS_FAIL = "pass-fail", Traits()
    SCORING = "scoring", Traits(apart=("pass-fail",), has_score=True)
    INTERACTIVE = "interactive", Traits("interactive", needs_validator=True, interactive=True)
    MULTI_PASS = "multi-pass", Traits("multi-pass", needs_validator=True, passes=2)
    SUBMIT_ANSWER = "submit-answer", Traits(apart=("interactive", "multi-pass"), has_program=False)


def together(types: Iterable[str]) -> Traits:
    rows = [problem_type.traits for problem_type in ProblemType if problem_type in types]
    return Traits(
        apart=tuple(word for problem_type in rows for word in problem_type.apart),
        needs_validator=any(problem_type.needs_validator for problem_type in rows),
        interactive=any(problem_type.interactive for problem_type in rows),
        has_program=all(problem_type.has_program for problem_type in rows),
        has_score=any(problem_type.has_score for problem_type in rows),
        passes=max((problem_type.passes for problem_type in rows), default=1),
    )


class ProblemProgram(Message):
    """A program of the package, such as an output validator: all of its files, by name below its folder.

    `language` is a row of the language table and `main` the file to start from; without a language the program brings
    its own `run`, which its `build` (when there is one) may have to make first. `entry` is what is started where `main`
    does not say it, as in `Submission.entry`: a class, or a file.
    """

    name: str = Field(max_length=255)
    language: str | None = None
    main: FileName
    files: dict[FileName, Sha256]
    entry: str | None = Field(default=None, max_length=255)


class TestGroup(Message):
    """The scoring of one group of format 2025-09: `secret`, or a folder in it. A `max_score` of None is unbounded."""

    __test__ = False  # not a pytest class

    name: str
    max_score: float | None = None
    aggregation: Literal["pass-fail", "sum", "min"] = "pass-fail"
    require_pass: list[str] = Field(default_factory=list)


class StaticTest(Message):
    """A static validation test case of format 2025-09; `group` is `sample`, `secret` or a folder in it.

    It is judged before the group's other tests. `score` is the most that it gives; None: it passes or fails. `args` go
    to the static validator.
    """

    group: str
    score: float | None = Field(default=None, ge=0)
    args: list[Argument] = Field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of its result; no other test can be called so."""
        return f"{self.group}/(static)"


class LegacyGroup(Message):
    """A grader's treatment of one folder of the legacy format: `` (the root), `sample`, `secret`, or deeper.

    `custom`: the package's own grader, which gets `flags` (all of `grader_flags`); what the default grader makes of
    them is in the other fields. `own_score`: the folder's own settings have an `accept_score`. In the dialect
    `domjudge` `secret`, and only folders with settings and those above them, are groups.
    """

    name: str
    on_reject: Literal["break", "continue"] = "break"
    verdict: Literal["worst_error", "first_error", "always_accept"] = "worst_error"
    score: Literal["sum", "avg", "min", "max"] = "sum"
    ignore_sample: bool = False
    accept_if_any: bool = False
    accept_score: float = 1.0
    reject_score: float = 0.0
    low: float | None = None
    high: float | None = None
    custom: bool = False
    flags: list[Argument] = Field(default_factory=list)
    own_score: bool = False


class FileIndex(Message):
    """All files of a package as it was imported: path to hash."""

    format: Literal["files"] = "files"
    files: dict[str, Sha256]


class ProblemTest(Message):
    """One test of a problem, in judging order (name order). `flags` of None are the problem's `validator_flags`.

    `files` (NAME.files/) lie in the working directory of its run and of input validators. `input_flags` are all that
    these are given, or by the name of one; who is not named gets nothing.
    """

    name: str
    input: Sha256
    answer: Sha256
    sample: bool = False
    flags: list[Argument] | None = None
    args: list[Argument] = Field(default_factory=list, description="command-line arguments of the submission")
    files: dict[FileName, Sha256] = Field(default_factory=dict)
    input_flags: list[Argument] | dict[str, list[Argument]] = Field(default_factory=list)


class LimitOrigin(Message):
    """The origin of the CPU limit. `inferred`: `slowest` (a submission) used `slowest_cpu` seconds of CPU time.

    The limit is that times `multiplier`, rounded up to a multiple of `resolution` (seconds). `too_slow` are submissions
    that must not keep it and the seconds that they used; `left_out` those that could not be judged.
    """

    how: Literal["package", "hand", "inferred"] = "package"
    slowest: str = ""
    slowest_cpu: float = 0.0
    multiplier: float = 0.0
    resolution: float = 0.0
    too_slow: dict[str, float] = Field(default_factory=dict)
    left_out: list[str] = Field(default_factory=list)


class Statement(Message):
    """The statement in one language (`en`, `pt-BR`). `files` are all that it needs, `main` among them, by name.

    `title` is the problem's name in that language, where it has one of its own.
    `html` is what a LaTeX source became at import; None: it could not be turned into HTML (`why`), or need not be.
    """

    language: str
    main: FileName
    files: dict[FileName, Sha256]
    html: Sha256 | None = None
    why: str = ""
    title: str = ""


PROCESSES = 32


class Subtask(Message):
    """Tests that are scored together as in IOI contests; one may be in several. `tests` are names, in judging order.

    `points` are what the best outcome of all gives. `sum`: the mean of the outcomes, `min`: the smallest, `mul`: their
    product; `threshold`: all or nothing, every outcome must be above 0 and at most `threshold`.
    """

    name: str
    points: float = Field(ge=0)
    rule: Literal["sum", "min", "mul", "threshold"] = "min"
    threshold: float | None = None
    tests: list[str]


class IoiTask(Message):
    """An IOI task's settings beside the package format; `judge.problems.task` reads them from judge.yaml.

    `input_file`, `output_file`: the program reads and writes files of these names in its working directory (empty:
    standard input and output). `source` is what the submission's file is called without its suffix, `entry` the file
    of `include` that starts the program. A communication task has a `manager` and `processes` of the submission, which
    talk by pipes that they are given as arguments (`fifo`), or by standard input and output (`std`). The manager reads
    from the first of its pipes with a process and writes to the second, or the other way round (`writes_first`).
    `define` is a word that compilers define beside ONLINE_JUDGE, where they define that. `before` is text that stands
    before each source in C and C++ that was handed in. With `show_source` the output validator finds what was handed
    in as `judge/submission` in its folder.
    """

    kind: Literal["batch", "communication", "two-steps"] = "batch"
    input_file: str = ""
    output_file: str = ""
    source: str = ""
    entry: str = ""
    processes: int = Field(default=1, ge=1, le=PROCESSES)
    io: Literal["fifo", "std"] = "fifo"
    writes_first: bool = False
    define: str = Field(default="", pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$", max_length=100)
    before: str = Field(default="", max_length=2000)
    show_source: bool = False
    manager: ProblemProgram | None = None
    subtasks: list[Subtask] = Field(default_factory=list, max_length=TESTS)


VALIDATION = Limits(cpu=60, wall=90, memory=2048 * 1024**2, processes=64)


class ProblemManifest(Message):
    """All that executors need to judge a problem; stored as a blob, whose hash is the problem's content hash."""

    name: Identifier
    title: str = ""
    limits: Limits = Limits()
    validator_flags: list[Argument] = Field(default_factory=list)
    type: list[ProblemType] = Field(default=[ProblemType.PASS_FAIL], description="in the order of the table")
    tests: list[ProblemTest] = Field(max_length=TESTS)
    source_bytes: int = 128 * 1024
    memory_is_default: bool = Field(default=False, description="hosts with less memory give what they have")
    compile_seconds: float | None = Field(default=None, gt=0, le=600)
    compile_memory: int | None = Field(default=None, gt=0, description="bytes")
    validators: list[ProblemProgram] = Field(
        default_factory=list, description="all of them must accept; empty: the default output validator"
    )
    static_validator: ProblemProgram | None = None
    static_tests: list[StaticTest] = Field(
        default_factory=list, max_length=TESTS, description="in the order of their groups' names"
    )
    input_validators: list[ProblemProgram] = Field(default_factory=list, description="run by checks only")
    answer_validators: list[ProblemProgram] = Field(default_factory=list, description="run by checks only")
    validation: Limits = VALIDATION
    validation_memory_is_default: bool = Field(default=True, description="as `memory_is_default`")
    passes: int = Field(default=1, ge=1, le=1000, description="the most runs of a submission on one test")
    languages: list[str] = Field(default_factory=list, description="only these; empty: all")
    include: dict[str, dict[FileName, Sha256]] = Field(
        default_factory=dict, description="files that go with submissions, by language, or `default`"
    )
    groups: list[TestGroup] = Field(
        default_factory=list, max_length=TESTS, description="of format 2025-09, in name order"
    )
    graders: list[LegacyGroup] = Field(
        default_factory=list, max_length=TESTS, description="of the legacy format, the root first"
    )
    grader: ProblemProgram | None = Field(default=None, description="the legacy package's own, of `custom` graders")
    format: str = Field(default="", description="legacy, legacy-icpc, 2023-07-draft or 2025-09")
    dialect: Literal["", "kattis", "domjudge"] = Field(default="", description="how legacy packages are read")
    origin: str = Field(default="", description="polygon, cms, dmoj or directory; empty: it was a package")
    limit_origin: LimitOrigin | None = None
    statements: list[Statement] = Field(default_factory=list)
    attachments: dict[FileName, Sha256] = Field(default_factory=dict)
    interactions: dict[str, Sha256] = Field(
        default_factory=dict, description="sample interactions to show, by the test's name"
    )
    sample_files: dict[str, dict[str, Sha256]] = Field(
        default_factory=dict, description="what people see or keep in place of a sample's files: name, suffix, content"
    )
    task: IoiTask | None = None
    package: Sha256 | None = Field(default=None, description="the index of all files of the package, for export")

    @property
    def kind(self) -> str:
        """The types of the problem for people: `scoring, interactive`."""
        return ", ".join(self.type)

    @property
    def traits(self) -> Traits:
        return together(self.type)

    def programs(self, check: Literal["inputs", "answers", "statements"] | None = None) -> list[ProblemProgram]:
        """The programs of the package that judging runs, or a check of its inputs or answers."""
        if check == "statements":
            return []
        if check == "inputs":
            return self.input_validators
        if check == "answers":
            return [*self.answer_validators, *self.validators]
        manager = self.task.manager if self.task is not None else None
        return [
            *self.validators,
            *(program for program in (self.static_validator, self.grader, manager) if program is not None),
        ]

    def blobs(self) -> set[str]:
        """Every blob that judging and checks need."""
        programs = [*self.programs(), *self.programs("inputs"), *self.programs("answers")]
        folders = [*self.include.values(), *(program.files for program in programs)]
        folders += [test.files for test in self.tests]
        files = {sha for folder in folders for sha in folder.values()}
        return files | {sha for test in self.tests for sha in (test.input, test.answer)}

    def shown(self) -> set[str]:
        """Every blob that people see of the problem, and that judging does not need."""
        files = {sha for statement in self.statements for sha in statement.files.values()}
        files |= {statement.html for statement in self.statements if statement.html is not None}
        files |= {sha for by_suffix in self.sample_files.values() for sha in by_suffix.values()}
        return files | {*self.attachments.values(), *self.interactions.values()}


class ProblemInfo(Message):
    """One problem as people see it."""

    name: Identifier
    title: str = ""
    hash: Sha256
    tests: int
    limits: Limits
    imported: str = ""
    kind: str = Field(default="pass-fail", description="the types of the problem, such as: scoring, interactive")
    languages: list[str] = Field(default_factory=list, description="only these; empty: all")
    visibility: Visibility | None = Field(default=None, description="only for users who may change it")
    owners: list[str] = Field(default_factory=list, description="only for users who may change the visibility")
    tags: list[Tag] = Field(default_factory=list)
    difficulty: Difficulty = ""
    order: Order = 0


class ProblemsReply(Message):
    """All problems that the caller sees, by their order, then by name."""

    problems: list[ProblemInfo]


class ProblemImport(Message):
    """Register a manifest whose blobs have all been uploaded.

    `visible`: to everyone, or to no user. Without it a new problem is hidden, and any other stays as it is.
    `labels`: of the package. Without them they stay.
    """

    manifest: Sha256
    visible: bool | None = None
    labels: Labels | None = None


class VerifiedRow(Message):
    """One submission of the package. `margin`: how many times its CPU time the limit is, where that says something."""

    submission: str = Field(max_length=300)
    language: str = Field(default="", max_length=64)
    verdict: Verdict | None = None
    score: float | None = None
    expected: str = Field(default="", max_length=300)
    wrong: str = Field(default="", max_length=1000, description="why it is not as expected; empty: it is")
    cpu: float = Field(default=0.0, description="the largest CPU time of a test, in seconds")
    limit: float = Field(default=0.0, description="the CPU limit in its language, in seconds")
    margin: float | None = None
    task: TaskId | None = None


class Verification(Message):
    """The last verification of a problem at its present content, kept with it for those who run the contest."""

    problem: Identifier
    hash: Sha256
    rows: list[VerifiedRow] = Field(default_factory=list, max_length=1000)
    left_out: list[str] = Field(default_factory=list, max_length=1000, description="submissions that were not judged")
    warnings: list[str] = Field(default_factory=list, max_length=1000)
    faults: list[str] = Field(default_factory=list, max_length=1000)
    verified: str = Field(default="", description="UTC, ISO 8601; set by the judicator")

    @property
    def right(self) -> bool:
        """Return whether everything is as the package says."""
        return not self.faults and not any(row.wrong for row in self.rows)


class VerificationReply(Message):
    """The last verification of a problem, or None when its present content was never verified."""

    verification: Verification | None = None
