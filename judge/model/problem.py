"""Messages about problems: the manifest with its programs and scoring, and what people see of a problem.

Shapes only: `judge.problems.package` fills a manifest from a package, `judge.problems.scoring` and executors read it.
"""

from __future__ import annotations

import enum
from typing import Literal, Self

from pydantic import Field

from judge.model.messages import FileName, Identifier, Limits, Message, Sha256


class ProblemType(enum.StrEnum):
    """The types of problems, by the format's words; a problem has one of the first two and any of the others.

    `legacy` is the word behind `validation: custom` that says the same. `needs_validator`: the default output validator
    cannot judge such a problem.
    """

    legacy: str
    needs_validator: bool

    def __new__(cls, word: str, legacy: str, needs_validator: bool) -> Self:
        """A row of the table."""
        one = str.__new__(cls, word)
        one._value_ = word
        one.legacy, one.needs_validator = legacy, needs_validator
        return one

    PASS_FAIL = "pass-fail", "", False
    SCORING = "scoring", "", False
    INTERACTIVE = "interactive", "interactive", True
    MULTI_PASS = "multi-pass", "multi-pass", True


class ProblemProgram(Message):
    """A program of the package, such as an output validator: all of its files, by name below its folder.

    `language` is a row of the language table and `main` the file to start from; without a language the program brings
    its own `run`, which its `build` (when there is one) may have to make first.
    """

    name: str = Field(max_length=255)
    language: str | None = None
    main: FileName
    files: dict[FileName, Sha256]


class TestGroup(Message):
    """How one group of format 2025-09 is scored: `secret`, or a folder in it. A `max_score` of None is unbounded."""

    __test__ = False  # not a pytest class

    name: str
    max_score: float | None = None
    aggregation: Literal["pass-fail", "sum", "min"] = "pass-fail"
    require_pass: list[str] = Field(default_factory=list)


class LegacyGroup(Message):
    """How the default grader of the legacy format treats one folder: `` (the root), `sample`, `secret`, or deeper."""

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


class FileIndex(Message):
    """All files of a package as it was imported: path to hash."""

    format: Literal["files"] = "files"
    files: dict[str, Sha256]


class ProblemTest(Message):
    """One test of a problem, in judging order (name order). `flags` of None are the problem's `validator_flags`."""

    name: str
    input: Sha256
    answer: Sha256
    sample: bool = False
    flags: list[str] | None = None
    args: list[str] = Field(default_factory=list, description="command-line arguments of the submission")


VALIDATION = Limits(cpu=60, wall=90, memory=2048 * 1024**2, processes=64)


class ProblemManifest(Message):
    """What the executor needs to judge a problem; stored as a blob, whose hash is the problem's content hash."""

    name: Identifier
    title: str = ""
    limits: Limits = Limits()
    validator_flags: list[str] = Field(default_factory=list)
    type: list[ProblemType] = Field(default=[ProblemType.PASS_FAIL], description="in the order of the table")
    tests: list[ProblemTest]
    source_bytes: int = 128 * 1024
    memory_is_default: bool = Field(default=False, description="hosts with less memory give what they have")
    compile_seconds: float | None = Field(default=None, gt=0, le=600)
    compile_memory: int | None = Field(default=None, gt=0, description="bytes")
    validator: ProblemProgram | None = Field(default=None, description="None: the default output validator")
    validation: Limits = VALIDATION
    validation_memory_is_default: bool = Field(default=True, description="as `memory_is_default`")
    passes: int = Field(default=1, ge=1, le=1000, description="how often a submission runs on one test at most")
    languages: list[str] = Field(default_factory=list, description="only these; empty: all")
    include: dict[str, dict[FileName, Sha256]] = Field(
        default_factory=dict, description="files that go with submissions, by language, or `default`"
    )
    groups: list[TestGroup] = Field(default_factory=list, description="of format 2025-09, in name order")
    graders: list[LegacyGroup] = Field(default_factory=list, description="of the legacy format, the root first")
    package: Sha256 | None = Field(default=None, description="the index of all files of the package, for export")

    @property
    def kind(self) -> str:
        """The types of the problem for people: `scoring, interactive`."""
        return ", ".join(self.type)

    def blobs(self) -> set[str]:
        """Every blob that judging needs."""
        folders = [*self.include.values(), *([self.validator.files] if self.validator else [])]
        files = {sha for folder in folders for sha in folder.values()}
        return files | {sha for test in self.tests for sha in (test.input, test.answer)}


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


class ProblemsReply(Message):
    """All problems, by name."""

    problems: list[ProblemInfo]


class ProblemImport(Message):
    """Register a manifest whose blobs have all been uploaded."""

    manifest: Sha256
