"""How programs are built and started inside a sandbox: submissions, plain commands, and a package's own programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol

from judge.errors import UsageError
from judge.languages.table import BOX, PATH, Language, guess
from judge.model.messages import Limits, Submission
from judge.model.problem import ProblemManifest, ProblemProgram
from judge.problems.programs import C_LANGUAGES, PYTHON
from judge.sandbox.box import Run
from judge.sandbox.types import Command, Outcome

MIB = 1024**2
# The Kattis format's limits for compilation; the wall limit ends compilers that wait for ever.
COMPILE_LIMITS = Limits(cpu=60, wall=90, memory=2048 * MIB, output=64 * MIB, processes=256, files=1024)
COMMAND_SOURCE = "source"
NAME_BYTES = 255


def shorter(limits: Limits, seconds: float) -> Limits:
    """The limits of a run that is to end after `seconds` at the latest."""
    return limits if limits.wall_seconds <= seconds else limits.model_copy(update={"wall": max(seconds, 0.01)})


class Box(Protocol):
    """The part of `judge.sandbox.Sandbox` that a task needs."""

    def put(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file into /box."""

    def get(self, name: str) -> int | None:
        """A descriptor of a regular file in /box."""

    def run(
        self, command: Command, cancel_fd: int | None = None, meanwhile: Callable[[], None] | None = None
    ) -> Outcome:
        """Run one command to its end; call `meanwhile` as soon as it runs."""

    def start(self, command: Command) -> Run:
        """Start one command without waiting for it."""

    def broken(self) -> None:
        """End everything after an error."""

    def close(self) -> None:
        """End the sandbox and everything in it."""


@dataclass(frozen=True)
class Program:
    """How one program is built and started inside the sandbox, whatever kind it is."""

    files: Mapping[str, bytes]
    compile: Sequence[str] | None
    run: Sequence[str]
    env: Mapping[str, str]
    limits: Limits
    cwd: str = "/scratch"
    memory_exit: int | None = None
    executables: frozenset[str] = field(default_factory=frozenset)


def plan(
    submission: Submission, limits: Limits, table: Mapping[str, Language], include: Mapping[str, bytes] | None = None
) -> Program:
    """How to judge a submission: by its language, or by its own shell commands (the seed's plain task).

    `include` are the package's files that go with it. Raises UsageError for a language that is not in the table.
    """
    source = submission.source
    if submission.command is not None:
        name = Path(submission.filename or COMMAND_SOURCE).name or COMMAND_SOURCE
        if len(name.encode("utf-8", "replace")) > NAME_BYTES:
            name = COMMAND_SOURCE
        return Program(
            files={} if source is None else {name: source.encode("utf-8", "replace")},
            compile=["/bin/sh", "-c", submission.compile] if submission.compile else None,
            run=["/bin/sh", "-c", submission.command],
            env={"PATH": PATH},
            limits=limits,
            cwd="/box",
        )
    language = _language(submission.language or "", table)
    text = source or ""
    made = language.plan(text, submission.filename, limits.memory)
    files = {made.source_name: text.encode("utf-8", "replace"), **(include or {})}
    own = f"{BOX}/{made.source_name}"
    return Program(
        files=files,
        compile=_expand(made.compile, own, [own, *_sources(include or {}, language.name, table, made.source_name)]),
        run=made.run,
        env={"PATH": PATH, **made.env},
        limits=language.limits(limits),
        memory_exit=language.memory_exit,
    )


def included(manifest: ProblemManifest, language: str | None, files: Mapping[str, str]) -> dict[str, bytes]:
    """The files of the package that go with a submission in this language; `files` are the blobs' local paths."""
    names = manifest.include.get(language or "", manifest.include.get("default", {}))
    return {name: Path(files[sha]).read_bytes() for name, sha in names.items()}


def plan_program(
    program: ProblemProgram, contents: Mapping[str, bytes], table: Mapping[str, Language], limits: Limits
) -> Program:
    """How to build and start a program of the package; `contents` are its files, `limits` those of its runs.

    Raises UsageError when this executor lacks what it needs.
    """
    if program.language is None:
        built = ["/bin/sh", "-c", "if [ -e ./build ]; then ./build; fi && test -x ./run"]
        scripts = frozenset(name for name, data in contents.items() if data.startswith(b"#!")) | {"build", "run"}
        return Program(contents, built, [f"{BOX}/run"], {"PATH": PATH}, limits, executables=scripts)
    language = _language(program.language, table)
    missing = [head for head in language.programs() if not Path(head).exists()]
    if missing:
        raise UsageError(f"the problem's {program.name} needs '{missing[0]}', which this executor does not have")
    made = language.plan(contents[program.main].decode("utf-8", "replace"), program.main, limits.memory)
    own = f"{BOX}/{made.source_name}"
    files = dict(contents)
    if language.name in {*C_LANGUAGES, PYTHON}:
        main = f"{BOX}/{program.main}"
        others = _sources(contents, language.name, table, program.main) if language.name != PYTHON else []
        compile_, run = _expand(made.compile, own, [main, *others]), _expand(made.run, own, [main]) or made.run
    else:
        files[made.source_name] = files.pop(program.main)
        compile_, run = made.compile, made.run
    extra = language.limits(limits)
    return Program(files, compile_, run, {"PATH": PATH, **made.env}, extra, memory_exit=language.memory_exit)


def _language(name: str, table: Mapping[str, Language]) -> Language:
    language = table.get(name)
    if language is None:
        raise UsageError(f"language '{name}' is not in this executor's table")
    return language


def _sources(files: Mapping[str, bytes], language: str, table: Mapping[str, Language], main: str) -> list[str]:
    """What a compiler must be told beside the main file: sources of the same language (C goes with C++)."""
    if language not in C_LANGUAGES:
        return []
    kinds = set(C_LANGUAGES) if language == "cpp" else {"c"}
    return [
        f"{BOX}/{name}" for name in sorted(files) if name != main and guess(PurePosixPath(name).name, table) in kinds
    ]


def _expand(command: Sequence[str] | None, word: str, words: Sequence[str]) -> list[str] | None:
    """A command with one of its words replaced by several."""
    if command is None:
        return None
    return [one for argument in command for one in (words if argument == word else [argument])]
