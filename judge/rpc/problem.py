"""Parts of a problem's manifest (judge.rpc.messages.ProblemManifest): its programs, and how tests add up to a score.

Shapes only; `judge.problems.package` fills them from a package, `judge.problems.scoring` and the executor read them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

_Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
# Inside a sandbox these become paths below /box: no part may be empty, hidden or lead out.
FileName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*$", max_length=255)
]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ProblemProgram(_Part):
    """A program of the package, such as an output validator: all of its files, by name below its folder.

    `language` is a row of the language table and `main` the file to start from; without a language the program brings
    its own `run`, which its `build` (when there is one) may have to make first.
    """

    name: str = Field(max_length=255)
    language: str | None = None
    main: FileName
    files: dict[FileName, _Sha]


class TestGroup(_Part):
    """How one group of format 2025-09 is scored: `secret`, or a folder in it. A `max_score` of None is unbounded."""

    __test__ = False  # not a pytest class

    name: str
    max_score: float | None = None
    aggregation: Literal["pass-fail", "sum", "min"] = "pass-fail"
    require_pass: list[str] = Field(default_factory=list)


class LegacyGroup(_Part):
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


class GroupScore(_Part):
    """What one group came to: the verdict of its first test that failed, and its part of the score."""

    name: str
    verdict: str
    score: float | None = None
    max_score: float | None = None


class FileIndex(_Part):
    """All files of a package as it was imported: path to hash."""

    format: Literal["files"] = "files"
    files: dict[str, _Sha]
