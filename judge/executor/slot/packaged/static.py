"""Asks the package's static validator (format 2025-09) about a submission's files, before the tests of a group.

The files lie alone in its working directory. Nothing of the submission is run there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from judge.executor.slot import truncation
from judge.executor.slot.packaged.built import BuiltProgram, Workshop
from judge.executor.slot.packaged.feedback import FEEDBACK, FRESH, Feedback, ValidatorResult
from judge.executor.slot.program import Program, shorter
from judge.languages.table import PATH
from judge.sandbox.types import Command

_REJECTION = "the static validator rejected the submission"
# Below /box; no file of a program can be called so.
SUBMISSION = ".submission"
# A row for one standard or compiler of a language: the format has one code for the language.
_VARIANT = re.compile(r"(c|cpp|java|pascal)[0-9-].*")
_ALIASES = {"pypy3": "python3", "pypy": "python3"}


def format_code(language: str) -> str:
    """The format's code of a language of the table, which calls most languages the same: `cpp` for `cpp17`."""
    variant = _VARIANT.fullmatch(language)
    return variant[1] if variant is not None else _ALIASES.get(language, language)


@dataclass(frozen=True)
class Submitted:
    """A submission as a static validator sees it: the format's code of its language, what is started, its files."""

    language: str
    entry: str
    files: Mapping[str, bytes]


class StaticValidator:
    """The static validator of one task."""

    def __init__(self, program: Program, workshop: Workshop, submitted: Submitted) -> None:
        """It is built by `box`."""
        self._built = BuiltProgram("the static validator", program, workshop)
        self._submitted = submitted
        self._put = False

    def close(self) -> None:
        """End the sandbox."""
        self._built.close()

    def build(self) -> None:
        """Build it; BuildError when it does not compile."""
        self._built.box()

    def check(self, arguments: Sequence[str], remaining: Callable[[], float]) -> ValidatorResult:
        """Run it with these arguments, for `left()` seconds at most, and read its finding."""
        if not self._put:
            self._built.put({f"{SUBMISSION}/{name}": data for name, data in self._submitted.files.items()})
            self._put = True
        program, submitted = self._built.program, self._submitted
        script = ["/bin/sh", "-c", FRESH, "validator"]
        command = Command(
            argv=[*script, *program.run, submitted.language, submitted.entry, f"/box/{FEEDBACK}/", *arguments],
            limits=shorter(program.limits, remaining()),
            env={"PATH": PATH, **program.env},
            writable=True,
            cwd=f"/box/{SUBMISSION}",
        )
        with self._built.run(command) as outcome:
            result = Feedback(self._built).result(outcome, _REJECTION)
        if result.next_input is not None:
            result.close()
            fault = "the static validator asks for another pass"
            return ValidatorResult(accepted=False, fault=fault, message=truncation.clip(result.message, 1024))
        return result
