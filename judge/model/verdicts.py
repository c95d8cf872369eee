"""The table of verdicts: all that any part of the product has to know of one stands in its row (docs/judging.md).

The executor decides which verdict a run gets (`judge.executor.verdict`); pages, judgectl, scoring and the expectations
of packages follow this table.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Self


class Status(enum.StrEnum):
    """The state of a task (docs/protocol.md)."""

    PENDING = "pending"
    COMPILING = "compiling"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCESS = "success"
    COMPILE_FAILED = "compile_failed"
    RUN_FAILED = "run_failed"
    CANCELLED = "cancelled"
    INTERNAL_ERROR = "internal_error"

    @property
    def done(self) -> bool:
        return self in FINAL


FINAL = frozenset({Status.SUCCESS, Status.COMPILE_FAILED, Status.RUN_FAILED, Status.CANCELLED, Status.INTERNAL_ERROR})


_FORBIDDEN = "did something that submissions must not do (a forbidden system call)"
_FAULT = "the judge failed, not the submission; admins see why"


@dataclass(frozen=True)
class About:
    """All that is known of a verdict.

    `title` and `sentence` name it for people: alone, and as the reason that a submitter reads. `severity` orders
    verdicts where the worst of several counts. `package` are the words of the package format that it satisfies.
    `tone` and `icon` are those of the pages, `colour` is that of judgectl, `exit_code` that of `judgectl submit`.
    `meaning` and `advice` are sentences of the help page. `graded`: a package's own grader may answer it.
    """

    title: str
    sentence: str
    severity: int
    package: str
    tone: str
    icon: str
    colour: str
    exit_code: int
    meaning: str
    advice: str
    status: Status = Status.RUN_FAILED
    graded: bool = True


class Verdict(enum.StrEnum):
    """The result of a finished task, or of one test of it, in a word (docs/protocol.md)."""

    about: About

    def __new__(cls, code: str, about: About) -> Self:
        """A row of the table: `code` is what travels and is stored."""
        verdict = str.__new__(cls, code)
        verdict._value_ = code
        verdict.about = about
        return verdict

    AC = (
        "AC",
        About(
            "Accepted", "", 0, "AC", "good", "check", "bold green", 0,
            "The program passed every test that counts.",
            "There is nothing left to do.",
            status=Status.SUCCESS,
        ),
    )  # fmt: skip
    WA = (
        "WA",
        About(
            "Wrong answer", "wrong answer", 1, "WA", "bad", "cross", "bold red", 10,
            "The program ended normally, but its output is wrong.",
            "Run it on the samples. Try the smallest and the largest input, equal values, and numbers beyond 32 bits.",
        ),
    )  # fmt: skip
    TLE = (
        "TLE",
        About(
            "Time limit exceeded", "time limit exceeded", 3, "TLE", "time", "clock", "bold yellow", 11,
            "The program used more CPU time than the limit, or waited for too long.",
            "Count the steps for the largest input. Read and write in blocks. Flush in interactive problems.",
        ),
    )  # fmt: skip
    MLE = (
        "MLE",
        About(
            "Memory limit exceeded", "memory limit exceeded", 4, "RTE", "size", "memory", "bold yellow", 12,
            "The program needed more memory than the limit.",
            "Count the bytes of your arrays for the largest input. Look for endless recursion and for lists that "
            "keep growing.",
        ),
    )  # fmt: skip
    OLE = (
        "OLE",
        About(
            "Output limit exceeded", "output limit exceeded", 2, "WA RTE", "size", "output", "bold yellow", 13,
            "The program wrote more than the limit.",
            "Remove debug output. Look for a loop that never ends.",
        ),
    )  # fmt: skip
    RTE = (
        "RTE",
        About(
            "Run-time error", "run-time error", 5, "RTE", "bad", "bolt", "bold magenta", 14,
            "The program crashed, or ended with an exit code other than 0.",
            "Look for an index outside of an array, a division by 0, deep recursion, and input that is read "
            "incorrectly.",
        ),
    )  # fmt: skip
    CE = (
        "CE",
        About(
            "Compile error", "compilation failed", 8, "", "warn", "wrench", "bold blue", 15,
            "The compiler refused the program, so nothing ran.",
            "Read the compiler's first message. Check the language, and for Java the name of the class.",
            status=Status.COMPILE_FAILED, graded=False,
        ),
    )  # fmt: skip
    SV = (
        "SV",
        About(
            "Forbidden act", _FORBIDDEN, 6, "RTE", "bad", "shield", "bold red reverse", 16,
            "The program made a system call that is forbidden.",
            "Use standard input and output only: no network, no kernel interfaces.",
            graded=False,
        ),
    )  # fmt: skip
    JE = (
        "JE",
        About(
            "Judge's error", _FAULT, 7, "", "warn", "question", "bold white on red", 17,
            "The judge failed, not your program.",
            "Tell the organiser the submission's id. They can have it judged again.",
            status=Status.INTERNAL_ERROR,
        ),
    )  # fmt: skip
